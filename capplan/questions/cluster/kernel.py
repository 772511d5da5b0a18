"""Compiled: the loop over events, and one pass over the waiting jobs."""

import numpy as np

from capplan.compiling import compiled
from capplan.questions.cluster.lists import (
    BY_ATTAINED,
    CONSERVATIVE,
    EASY,
    ROUND_ROBIN,
    SKIP,
    STRICT,
    dequeue,
    enqueue,
    expected_end,
    expected_left,
    finish,
    first_to_end,
    start,
    stop,
    total_of,
)
from capplan.questions.cluster.node_choice import LOCALITY, _record, choose, choose_here, move_free, one_node, take
from capplan.questions.cluster.reserving import displace, fits_around, reserve
from capplan.questions.cluster.resizing import grow, shrink
from capplan.questions.cluster.signatures import COUNT, COUNTS, NODES, REAL, RULES, STATE, TRACE
from capplan.questions.cluster.state import (
    BY_END,
    BY_EXPECTED,
    CHANGE_NODE,
    CHANGE_TO,
    COUNTED_UNTIL,
    END,
    EXPECTED_END,
    FREE,
    GROWING,
    HELD,
    JOB_KIND,
    LEAST,
    LINE,
    LOGGED,
    NEED,
    NEXT_CHANGE,
    NEXT_JOB,
    NEXT_TICK,
    NODE_SIZE,
    NOW,
    OVERHEAD,
    PARTS,
    QUEUE_HEAD,
    QUEUE_TAIL,
    RECORD,
    RECORDS_NEXT,
    RECORDS_NODE,
    RUNNING_JOBS,
    SKIPPED,
    SMALLEST,
    SPEED_ROW,
    SUBMIT,
    TEAM,
    TIMES,
    UP,
    WAITING_JOBS,
    WINDOW_FREE,
)


@compiled(COUNT, TRACE, RULES, STATE, source=__file__)
def _quota_allows(job, trace, rules, state):  # type: ignore[no-untyped-def]
    """Tell whether a team's quota, and what its cohort lends, leave room for a job.

    A team keeps nominal - lending for itself; the rest of all nominal quotas is the cohort's.
    """
    if not rules.quotas:
        return True
    team = trace.whole[TEAM, job]
    if state.used[team] + trace.whole[NEED, job] <= rules.nominal[team]:
        return True  # its own quota: what others borrowed of it comes back
    lent = 0
    for other in range(len(rules.nominal)):
        own = rules.nominal[other] - rules.lending[other]
        lent += rules.lending[other] - max(0, state.used[other] - own)
    room = max(0, rules.nominal[team] - rules.lending[team] - state.used[team]) + lent
    room = min(room, rules.nominal[team] + rules.borrowing[team] - state.used[team])
    return trace.whole[LEAST, job] <= room and trace.whole[NEED, job] <= room


@compiled(TRACE, NODES, RULES, STATE, source=__file__)
def _grab_parts(trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Without gang scheduling: give the waiting jobs one node's piece each in turn; a job runs once it holds all of it."""
    moved = True
    while moved:
        moved = False
        index = state.line[QUEUE_HEAD, 0]
        while index < state.line[QUEUE_TAIL, 0]:
            job = state.counts[LINE, index]
            index += 1
            kind = max(trace.whole[JOB_KIND, job], 0)
            missing = trace.whole[NEED, job] - state.counts[HELD, job]
            piece = min(missing, nodes.kind_size[kind])
            node = one_node(piece, kind, FREE, nodes, rules, state) if piece else -1
            if node >= 0:
                moved = True
                move_free(node, -piece, nodes, state)
                state.counts[HELD, job] += piece
                state.used[trace.whole[TEAM, job]] += piece
                _record(job, node, piece, -1, state.scalars[NOW], state)
            if state.counts[HELD, job] == trace.whole[NEED, job]:
                head = state.line[QUEUE_HEAD, 0]
                dequeue(job, trace, state)
                start(job, (trace.whole[NEED, job] + nodes.kind_size[kind] - 1) // nodes.kind_size[kind], 1.0, trace, rules, state)
                index -= 1 if state.line[QUEUE_HEAD, 0] == head else 0


@compiled(TRACE, NODES, RULES, STATE, source=__file__)
def _conservative(trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Give every waiting job in order the earliest window that delays none before it, and start those whose window is now.

    Windows are counted in accelerators of the whole cluster; a job whose window is now but whose gang finds no nodes waits for the next
    event.
    """
    now, running = state.scalars[NOW], int(state.scalars[RUNNING_JOBS])
    times, free, smallest = state.scratch_real[TIMES], state.scratch_real[WINDOW_FREE], state.scratch_real[SMALLEST]
    times[0], free[0], count = now, float(total_of(state.free_of_kind)), 1
    for index in range(running):
        job = state.running[BY_EXPECTED, running - 1 - index]
        when = max(state.job[EXPECTED_END, job], now)
        if when > times[count - 1]:
            times[count], free[count] = when, free[count - 1]
            count += 1
        free[count - 1] += state.counts[HELD, job]
    place, looked = state.line[QUEUE_HEAD, 0], 0
    waiting = min(state.line[QUEUE_TAIL, 0] - place, rules.depth)
    # the smallest gang from each place in the queue on: once it exceeds what is free now, nobody further back can start
    smallest[waiting] = np.inf
    for index in range(waiting - 1, -1, -1):
        smallest[index] = min(smallest[index + 1], max(trace.whole[NEED, state.counts[LINE, place + index]], 1))
    while looked < waiting and smallest[looked] <= free[0]:
        job = state.counts[LINE, place]
        place += 1
        looked += 1
        need = float(max(trace.whole[NEED, job], 1))
        length = state.job[OVERHEAD, job] + expected_left(job, 0.0, trace, state)
        first = 0
        while first < count:
            last, blocked = first, -1
            while last < count and times[last] < times[first] + length:
                if free[last] < need:
                    blocked = last
                    break
                last += 1
            if blocked < 0:
                break
            first = blocked + 1
        if first >= count:
            continue
        begin, end = times[first], times[first] + length
        if first == 0:
            taken, rate, _ = choose(job, trace.whole[NEED, job], FREE, trace, nodes, rules, state)
            if taken >= 0:
                head = state.line[QUEUE_HEAD, 0]
                take(job, taken, now, trace, nodes, state)
                dequeue(job, trace, state)
                start(job, taken, rate, trace, rules, state)
                place -= 1 if state.line[QUEUE_HEAD, 0] == head else 0
                end = begin + state.job[OVERHEAD, job] + (length - state.job[OVERHEAD, job]) / rate
        at = first
        while at < count and times[at] < end:
            at += 1
        if at == count or times[at] > end:
            for index in range(count, at, -1):
                times[index], free[index] = times[index - 1], free[index - 1]
            times[at], free[at] = end, free[at - 1]
            count += 1
        for index in range(first, at):
            free[index] -= need


@compiled(COUNTS, RULES, STATE, source=__file__)
def _next_queue(skipped, rules, state):  # type: ignore[no-untyped-def]
    """Return the queue that comes first: with fair share the one that has had least for its share."""
    best, least, queues = -1, np.inf, state.line.shape[1] - 1
    for queue in range(queues):
        if state.line[QUEUE_HEAD, queue] + skipped[queue] >= state.line[QUEUE_TAIL, queue]:
            continue
        had = (state.team_usage[queue] + state.used[queue] * rules.quantum_seconds) / rules.share[queue] if queues > 1 else 0.0
        if had < least:
            best, least = queue, had
    return best


@compiled(COUNT, COUNTS, TRACE, NODES, RULES, STATE, source=__file__)
def _smaller_waits(too_large, skipped, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Tell whether any job that would be looked at could find a place now, so that a reservation is worth its work."""
    for queue in range(state.line.shape[1] - 1):
        first = state.line[QUEUE_HEAD, queue] + skipped[queue]
        for index in range(first, min(state.line[QUEUE_TAIL, queue], first + rules.depth + 1)):
            least = trace.whole[LEAST, state.counts[LINE, index]]
            if least <= state.free_of_kind[0] and (least < too_large or least > nodes.kind_size[0]):
                return True
    return False


@compiled(COUNT, COUNT, COUNT, REAL, TRACE, NODES, STATE, source=__file__, inside=True)
def _hopeless(job, too_large, beside, shadow, trace, nodes, state):  # type: ignore[no-untyped-def]
    """Tell whether a gang that takes equal nodes whole has no place now: gangs as small found none."""
    need, one = trace.whole[NEED, job], nodes.kind_size[0]
    if need > state.free_of_kind[0] or too_large <= need <= one:
        return True
    # nor has one a place beside the reservation that would outlast the wait for it
    return beside <= need <= one and expected_end(job, nodes.speed[trace.whole[SPEED_ROW, job], 0], trace, state) > shadow


@compiled(TRACE, NODES, RULES, STATE, source=__file__, inside=True)
def _schedule(trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Start whatever the policy lets start now."""
    if rules.backfill == CONSERVATIVE:
        if total_of(state.free_of_kind) > 0:
            _conservative(trace, nodes, rules, state)
        return
    queues, skipped = state.line.shape[1] - 1, state.scratch[SKIPPED]
    for queue in range(queues):
        skipped[queue] = 0
    shadow, reserved, looked = np.inf, False, 0
    # on equal nodes, a gang of one node that finds no place leaves none for a larger one; one of several nodes may still be pieced together
    plain = len(nodes.kind_size) == 1 and not rules.scatter and rules.placement != LOCALITY
    too_large = beside = np.int64(1) << 40
    while looked < rules.depth + 1:
        queue = _next_queue(skipped, rules, state)
        if queue < 0:
            return
        job = state.counts[LINE, state.line[QUEUE_HEAD, queue] + skipped[queue]]
        need = trace.whole[NEED, job]
        rigid = trace.whole[PARTS, job] == 0 and trace.whole[LEAST, job] == need
        # the first that waits is never passed over like this: it is the one that gets the reservation
        hopeless = plain and rigid and not rules.preempt and rules.elastic <= GROWING and (reserved or rules.backfill == SKIP)
        hopeless = hopeless and _hopeless(job, too_large, beside, shadow, trace, nodes, state)
        allowed = _quota_allows(job, trace, rules, state)
        if hopeless or not allowed:
            # a team that waits for its quota keeps nobody else waiting, so it does not count
            skipped[queue] += 1
            looked += 1 if allowed else 0
            continue
        if reserved:
            taken, rate = fits_around(job, shadow, trace, nodes, rules, state)
        else:
            taken, rate, _ = choose_here(job, need, FREE, trace, nodes, rules, state)
            if taken < 0 and rules.elastic > GROWING and shrink(job, trace, nodes, rules, state):
                continue
            if taken < 0 and rules.preempt and displace(job, trace, nodes, rules, state):
                # those stopped wait again, perhaps before this job's old place
                for other in range(queues):
                    skipped[other] = 0
                taken, rate, _ = choose(job, trace.whole[NEED, job], FREE, trace, nodes, rules, state)
        if taken >= 0:
            take(job, taken, state.scalars[NOW], trace, nodes, state)
            dequeue(job, trace, state)
            start(job, taken, rate, trace, rules, state)
            continue
        looked += 1
        if plain and rigid and need <= nodes.kind_size[0]:
            if taken == -2:
                beside = min(beside, need)
            else:
                too_large = min(too_large, need)
        if rules.backfill == STRICT and queues == 1:
            return
        if rules.backfill == EASY and not reserved:
            if plain and not _smaller_waits(too_large, skipped, trace, nodes, rules, state):
                return
            shadow, reserved = reserve(job, trace, nodes, rules, state), True
        full = total_of(state.free_of_kind) == 0 and state.scalars[RUNNING_JOBS] > 0
        if rules.backfill == EASY and full and trace.whole[PARTS, job] == 0:
            return
        skipped[queue] += 1 << 40 if rules.backfill == STRICT else 1


@compiled(COUNT, COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def _change_node(node, to, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Take a node away (0: it fails, -1: it is reclaimed, work kept) or bring it back (1)."""
    if to == 1:
        if not state.node[UP, node]:
            state.node[UP, node] = 1
            move_free(node, nodes.node[NODE_SIZE, node], nodes, state)
        return
    if not state.node[UP, node]:
        return
    # a job that is stopped leaves the list, which closes up behind it
    for index in range(int(state.scalars[RUNNING_JOBS]) - 1, -1, -1):
        job = state.running[BY_END, index]
        record, here = state.counts[RECORD, job], False
        while record >= 0:
            here = here or state.records[RECORDS_NODE, record] == node
            record = state.records[RECORDS_NEXT, record]
        if here:
            interval = rules.checkpoint_interval_seconds if to == 0 else 0.0
            saving = 0.0 if to == 0 else rules.checkpoint_seconds
            stop(job, interval, saving + rules.restart_seconds, trace, nodes, rules, state)
    state.node[UP, node] = 0
    move_free(node, -state.node[FREE, node], nodes, state)


@compiled(REAL, RULES, STATE, source=__file__)
def _age_usage(now, rules, state):  # type: ignore[no-untyped-def]
    """Let past usage fade by half in each half-life, and add what is used now."""
    passed = now - state.scalars[COUNTED_UNTIL]
    if passed > 0.0:
        kept = 0.5 ** (passed / rules.half_life_seconds)
        grown = rules.half_life_seconds / np.log(2.0) * (1.0 - kept)
        for team in range(len(state.used)):
            state.team_usage[team] = state.team_usage[team] * kept + state.used[team] * grown
    state.scalars[COUNTED_UNTIL] = now


@compiled(TRACE, NODES, RULES, STATE, source=__file__, entry=True)
def run(trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Simulate until nothing is left to happen, or the log is nearly full; return True when done."""
    jobs, changes = trace.real.shape[1], len(nodes.change_time)
    room = len(state.log) - 2 * state.records.shape[1]
    ticking = rules.preempt and rules.order in (BY_ATTAINED, ROUND_ROBIN)
    while state.scalars[LOGGED] < room:
        coming, change = int(state.scalars[NEXT_JOB]), int(state.scalars[NEXT_CHANGE])
        now = state.scalars[NEXT_TICK]
        if state.scalars[RUNNING_JOBS] > 0:
            now = min(now, state.job[END, first_to_end(state)])
        if coming < jobs:
            now = min(now, trace.real[SUBMIT, coming])
        if change < changes and (coming < jobs or state.scalars[RUNNING_JOBS] + state.scalars[WAITING_JOBS] > 0):
            now = min(now, nodes.change_time[change])
        if now == np.inf:
            return True
        state.scalars[NOW] = now
        if state.line.shape[1] > 2:
            _age_usage(now, rules, state)
        while state.scalars[RUNNING_JOBS] > 0 and state.job[END, first_to_end(state)] <= now:
            finish(first_to_end(state), trace, nodes, rules, state)
        while change < changes and nodes.change_time[change] <= now:
            _change_node(nodes.change[CHANGE_NODE, change], nodes.change[CHANGE_TO, change], trace, nodes, rules, state)
            change += 1
        state.scalars[NEXT_CHANGE] = change
        while coming < jobs and trace.real[SUBMIT, coming] <= now:
            enqueue(coming, now, trace, rules, state)
            coming += 1
        state.scalars[NEXT_JOB] = coming
        if state.scalars[WAITING_JOBS] > 0:
            if rules.gang:
                _schedule(trace, nodes, rules, state)
            else:
                _grab_parts(trace, nodes, rules, state)
        if rules.elastic and state.scalars[WAITING_JOBS] == 0:
            grow(trace, nodes, rules, state)
        busy = ticking and state.scalars[WAITING_JOBS] > 0 and state.scalars[RUNNING_JOBS] > 0
        if not busy:
            state.scalars[NEXT_TICK] = np.inf
        elif state.scalars[NEXT_TICK] <= now or state.scalars[NEXT_TICK] == np.inf:
            state.scalars[NEXT_TICK] = now + rules.quantum_seconds
    return False
