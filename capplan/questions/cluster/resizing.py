"""Compiled: elastic jobs go on with fewer accelerators where a job needs room, and take more once nobody waits."""

from capplan.compiling import compiled
from capplan.questions.cluster.lists import copy_row, dequeue, progress, start, stop, total_of
from capplan.questions.cluster.node_choice import choose, take
from capplan.questions.cluster.signatures import COUNT, NODES, RULES, STATE, TRACE
from capplan.questions.cluster.state import (
    AHEAD,
    BY_END,
    BY_URGENCY,
    END,
    FREE,
    HELD,
    KEY,
    LEAST,
    NEED,
    NOW,
    OPEN_FREE,
    OVERHEAD,
    PARTS,
    PICKED_AMOUNT,
    PICKED_NODE,
    PREEMPTED,
    RATE,
    RECORD,
    RECORDS_AMOUNT,
    RECORDS_NEXT,
    RECORDS_NODE,
    REMAINING,
    RESIZED,
    RUNNING_JOBS,
    SPARE,
    STARTED,
    VICTIMS,
)


@compiled(COUNT, STATE, source=__file__)
def _open(job, state):  # type: ignore[no-untyped-def]
    """Count what a running job holds as free in state.node[OPEN_FREE]."""
    record = state.counts[RECORD, job]
    while record >= 0:
        state.node[OPEN_FREE, state.records[RECORDS_NODE, record]] += state.records[RECORDS_AMOUNT, record]
        record = state.records[RECORDS_NEXT, record]


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def _lay_down(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Stop a job that goes on at once, at another size; it was not displaced, and pays nothing where it has only just been started."""
    ran = state.job[STARTED, job] < state.scalars[NOW]
    pause = rules.checkpoint_seconds + rules.restart_seconds if ran else state.job[OVERHEAD, job]
    stop(job, 0.0, pause, trace, nodes, rules, state)
    state.counts[PREEMPTED, job] -= 1
    state.counts[RESIZED, job] += 1 if ran else 0


@compiled(COUNT, COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def _go_on(job, most, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Let a waiting job run on at most so many of the free accelerators."""
    taken, rate, _ = choose(job, most, FREE, trace, nodes, rules, state)
    take(job, taken, state.scalars[NOW], trace, nodes, state)
    dequeue(job, trace, state)
    start(job, taken, rate, trace, rules, state)


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def _grows(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Give a job more accelerators if it ends sooner for it, saving and loading again included; return whether it got them."""
    now, pause = state.scalars[NOW], rules.checkpoint_seconds + rules.restart_seconds
    copy_row(state.node[FREE], state.node[OPEN_FREE])
    _open(job, state)
    _, rate, _ = choose(job, trace.whole[NEED, job], OPEN_FREE, trace, nodes, rules, state)
    left = state.job[REMAINING, job] - progress(job, now, state)
    if rate <= state.job[RATE, job] or now + pause + left / rate >= state.job[END, job]:
        return False
    _lay_down(job, trace, nodes, rules, state)
    _go_on(job, trace.whole[NEED, job], trace, nodes, rules, state)
    return True


@compiled(TRACE, NODES, RULES, STATE, source=__file__)
def grow(trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Let elastic jobs grow, those that would end last first; nobody changes its size twice at one instant."""
    index = 0
    while index < state.scalars[RUNNING_JOBS]:
        job = state.running[BY_END, index]
        small = 0 < state.counts[HELD, job] < trace.whole[NEED, job] and state.job[STARTED, job] < state.scalars[NOW]
        index = 0 if small and _grows(job, trace, nodes, rules, state) else index + 1


@compiled(COUNT, COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def _all_fit(job, givers, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Tell whether a job and the first jobs in state.scratch[VICTIMS], each at its least, have a place on state.node[OPEN_FREE]."""
    copy_row(state.node[OPEN_FREE], state.node[SPARE])
    for index in range(-1, givers):
        one = job if index < 0 else state.scratch[VICTIMS, index]
        taken, _, _ = choose(one, trace.whole[LEAST, one], SPARE, trace, nodes, rules, state)
        if taken < 0:
            return False
        for place in range(taken):
            state.node[SPARE, state.picked[PICKED_NODE, place]] -= 1 if trace.whole[PARTS, one] > 0 else state.picked[PICKED_AMOUNT, place]
    return True


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def shrink(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Start a job at its least on what running elastic jobs give away; return whether they could.

    Those with most to give come first, and no more of them than it takes: all but the last go on at their least, the last with what is
    left. Each of them pays for
    saving itself and loading again, unless it starts at this very moment.
    """
    givers, gift = state.scratch[VICTIMS], state.scratch_real[AHEAD]
    least, found = max(trace.whole[LEAST, job], 1), 0
    given = total = float(total_of(state.free_of_kind))
    for index in range(int(state.scalars[RUNNING_JOBS])):
        other = state.running[BY_END, index]
        spare = state.counts[HELD, other] - trace.whole[LEAST, other]
        urgent = rules.elastic == BY_URGENCY and state.job[KEY, other] < state.job[KEY, job]
        if spare > 0 and not urgent:
            givers[found], gift[found] = other, float(spare)
            found += 1
            total += spare
    if total < least:
        return False
    copy_row(state.node[FREE], state.node[OPEN_FREE])
    for place in range(found):
        best = place
        for index in range(place + 1, found):
            best = index if gift[index] > gift[best] else best
        givers[place], givers[best], gift[place], gift[best] = givers[best], givers[place], gift[best], gift[place]
        _open(givers[place], state)
        given += gift[place]
        if given < least or not _all_fit(job, place + 1, trace, nodes, rules, state):
            continue
        for index in range(place + 1):
            _lay_down(givers[index], trace, nodes, rules, state)
        _go_on(job, trace.whole[LEAST, job], trace, nodes, rules, state)
        for index in range(place + 1):
            most = trace.whole[LEAST, givers[index]]
            _go_on(givers[index], most if index < place else most + int(gift[index]), trace, nodes, rules, state)
        return True
    return False
