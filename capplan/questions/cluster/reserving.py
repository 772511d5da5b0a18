"""Compiled: reservations of backfilling, and whom a job may displace."""

import numpy as np

from capplan.compiling import compiled
from capplan.questions.cluster.lists import BY_ATTAINED, BY_REMAINING, ROUND_ROBIN, copy_row, expected_end, expected_left, progress, stop
from capplan.questions.cluster.node_choice import choose, holds
from capplan.questions.cluster.signatures import COUNT, NODES, REAL, RULES, STATE, TRACE
from capplan.questions.cluster.state import (
    AHEAD,
    ATTAINED,
    BY_END,
    BY_EXPECTED,
    EXPECTED_END,
    FREE,
    HELD,
    KEY,
    LEAST,
    NEED,
    NODE_KIND,
    NOW,
    OPEN_FREE,
    PARTS,
    PICKED_AMOUNT,
    PICKED_NODE,
    RECORD,
    RECORDS_AMOUNT,
    RECORDS_NEXT,
    RECORDS_NODE,
    RECORDS_SLOT,
    RUNNING_JOBS,
    SLOT_FREE,
    SLOTS,
    SLOTS_LEFT,
    SPARE,
    STARTED,
    TEAM,
    VICTIMS,
    WANTED,
    WHOLE,
)

BY_KEY, RECLAIM = 1, 2


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def reserve(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Return when the running jobs will have made room for a job, and leave what the others may use past that in state.node[SPARE].

    Running jobs are taken back in the order of their expected ends until the job has a place, node by node.
    """
    now = state.scalars[NOW]
    copy_row(state.node[FREE], state.node[SPARE])
    slot_free = state.scratch[SLOTS_LEFT]
    for slot in range(int(state.scalars[SLOTS])):
        slot_free[slot] = state.slot[SLOT_FREE, slot]
    for kind in range(len(nodes.kind_size)):
        copy_row(state.levels[kind], state.later_levels[kind])
    # a part of an accelerator, or the least an elastic job starts with
    need = max(trace.whole[LEAST, job], 1)
    for index in range(int(state.scalars[RUNNING_JOBS]) - 1, -1, -1):
        other = state.running[BY_EXPECTED, index]
        record, enough = state.counts[RECORD, other], False
        while record >= 0:
            node, slot = state.records[RECORDS_NODE, record], state.records[RECORDS_SLOT, record]
            released = state.records[RECORDS_AMOUNT, record]
            if slot >= 0:
                slot_free[slot] += released
                released = 1 if slot_free[slot] == WHOLE else 0
            kind, free = nodes.node[NODE_KIND, node], state.node[SPARE, node]
            state.node[SPARE, node] = free + released
            state.later_levels[kind, free] -= 1
            state.later_levels[kind, free + released] += 1
            size = nodes.kind_size[kind]
            most = need if rules.scatter else (need + size - 1) // size
            enough = enough or (released > 0 and holds(state.later_levels[kind], most, need))
            record = state.records[RECORDS_NEXT, record]
        if not enough:
            continue
        taken, _, _ = choose(job, trace.whole[NEED, job], SPARE, trace, nodes, rules, state)
        if taken > 0:
            for place in range(taken):
                state.node[SPARE, state.picked[PICKED_NODE, place]] -= (
                    1 if trace.whole[PARTS, job] > 0 else state.picked[PICKED_AMOUNT, place]
                )
            return max(state.job[EXPECTED_END, other], now)
    # only nodes that are away could help: nobody is held back for it
    copy_row(state.node[FREE], state.node[SPARE])
    return np.inf


@compiled(COUNT, REAL, TRACE, NODES, RULES, STATE, source=__file__)
def fits_around(job, shadow, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Pick a place that does not delay the reservation at `shadow`; return (nodes taken, rate), -2 where there is only none beside it."""
    taken, rate, _ = choose(job, trace.whole[NEED, job], FREE, trace, nodes, rules, state)
    if taken < 0:
        return -1, 0.0
    if expected_end(job, rate, trace, state) <= shadow:
        return taken, rate
    for node in range(state.node.shape[1]):
        state.node[OPEN_FREE, node] = min(state.node[FREE, node], state.node[SPARE, node])
    taken, rate, _ = choose(job, trace.whole[NEED, job], OPEN_FREE, trace, nodes, rules, state)
    if taken < 0:
        return -2, 0.0
    for place in range(taken):
        state.node[SPARE, state.picked[PICKED_NODE, place]] -= 1 if trace.whole[PARTS, job] > 0 else state.picked[PICKED_AMOUNT, place]
    return taken, rate


@compiled(COUNT, COUNT, REAL, TRACE, RULES, STATE, source=__file__)
def _ahead(victim, job, now, trace, rules, state):  # type: ignore[no-untyped-def]
    """Return how far a waiting job goes before a running one; not above 0 where it may not displace it."""
    if rules.preempt == RECLAIM:
        home, other = trace.whole[TEAM, job], trace.whole[TEAM, victim]
        under = state.used[home] + trace.whole[NEED, job] <= rules.nominal[home]
        return 1.0 + state.job[STARTED, victim] if under and home != other and state.used[other] > rules.nominal[other] else 0.0
    if rules.order == BY_REMAINING:
        return expected_left(victim, progress(victim, now, state), trace, state) - state.job[KEY, job]
    if rules.order == BY_ATTAINED:
        served = state.job[ATTAINED, victim] + (now - state.job[STARTED, victim]) * max(
            state.counts[HELD, victim], trace.whole[PARTS, victim] / WHOLE
        )
        return np.floor(served / rules.quantum_seconds) - state.job[KEY, job]
    if rules.order == ROUND_ROBIN:
        return now - state.job[STARTED, victim] - rules.quantum_seconds + 1e-9
    return state.job[KEY, victim] - state.job[KEY, job]


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def displace(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Make room for a job by stopping running ones it goes before, on the nodes it would take; return whether room was made."""
    now, count = state.scalars[NOW], int(state.scalars[RUNNING_JOBS])
    ahead, victims, slots, wanted = state.scratch_real[AHEAD], state.scratch[VICTIMS], state.scratch[SLOTS_LEFT], state.scratch[WANTED]
    found = 0
    copy_row(state.node[FREE], state.node[OPEN_FREE])
    copy_row(state.slot[SLOT_FREE], slots)
    for index in range(count - 1, -1, -1):
        victim = state.running[BY_END, index]
        far = _ahead(victim, job, now, trace, rules, state)
        if far <= 0.0 or state.job[STARTED, victim] == now:
            continue
        victims[found], ahead[found] = victim, far
        found += 1
        record = state.counts[RECORD, victim]
        while record >= 0:
            node, slot, released = (
                state.records[RECORDS_NODE, record],
                state.records[RECORDS_SLOT, record],
                state.records[RECORDS_AMOUNT, record],
            )
            if slot >= 0:
                slots[slot] += released
                released = 1 if slots[slot] == WHOLE else 0
            state.node[OPEN_FREE, node] += released
            record = state.records[RECORDS_NEXT, record]
    if found == 0:
        return False
    taken, _, _ = choose(job, trace.whole[NEED, job], OPEN_FREE, trace, nodes, rules, state)
    if taken <= 0:
        return False
    for node in range(state.node.shape[1]):
        wanted[node] = 0
    for place in range(taken):
        wanted[state.picked[PICKED_NODE, place]] = 1 if trace.whole[PARTS, job] > 0 else state.picked[PICKED_AMOUNT, place]
    for _ in range(found):
        best = 0
        for index in range(1, found):
            best = index if ahead[index] > ahead[best] else best
        victim, ahead[best] = victims[best], -np.inf
        record, useful = state.counts[RECORD, victim], False
        while record >= 0:
            node = state.records[RECORDS_NODE, record]
            useful = useful or wanted[node] > state.node[FREE, node]
            record = state.records[RECORDS_NEXT, record]
        if useful:
            if rules.preempt == RECLAIM and state.used[trace.whole[TEAM, victim]] <= rules.nominal[trace.whole[TEAM, victim]]:
                continue
            stop(victim, 0.0, rules.checkpoint_seconds + rules.restart_seconds, trace, nodes, rules, state)
    return True
