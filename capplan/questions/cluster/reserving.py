"""Compiled: reservations of backfilling, and whom a job may displace."""

from __future__ import annotations

import numpy as np
from numba import njit

from capplan.questions.cluster.lists import ATTAINED, REMAINING, ROUND_ROBIN, progress, stop
from capplan.questions.cluster.placing import choose
from capplan.questions.cluster.state import NOW, RUNNING_JOBS, WHOLE

BY_KEY, RECLAIM = 1, 2


@njit(cache=True)
def reserve(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Return when the running jobs will have made room for a job, and leave what the others may use past that in state.spare.

    Running jobs are taken back in the order of their expected ends until the job has a place, node by node.
    """
    now = state.scalars[NOW]
    state.spare[:] = state.free
    slot_free = state.slot_free.copy()
    total = state.free_of_kind.copy()
    for index in range(int(state.scalars[RUNNING_JOBS])):
        other = state.by_expected[index]
        grown = False
        record = state.record[other]
        while record >= 0:
            node, slot = state.records_node[record], state.records_slot[record]
            released = state.records_amount[record]
            if slot >= 0:
                slot_free[slot] += released
                released = 1 if slot_free[slot] == WHOLE else 0
            state.spare[node] += released
            total[nodes.kind[node]] += released
            grown = grown or released > 0
            record = state.records_next[record]
        if not grown or total.max() < trace.least[job]:
            continue
        taken, _, _ = choose(job, state.spare, False, False, trace, nodes, rules, state)
        if taken > 0:
            for place in range(taken):
                state.spare[state.picked_node[place]] -= 1 if trace.thousandths[job] > 0 else state.picked_amount[place]
            return max(state.expected_end[other], now)
    # only nodes that are away could help: nobody is held back for it
    state.spare[:] = state.free
    return np.inf


@njit(cache=True)
def fits_around(job, shadow, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Pick a place that does not delay the reservation at `shadow`; return (nodes taken, rate)."""
    now = state.scalars[NOW]
    taken, rate, _ = choose(job, state.free, True, True, trace, nodes, rules, state)
    if taken < 0:
        return -1, 0.0
    done = trace.work[job] - state.remaining[job]
    if now + state.overhead[job] + max(trace.expected[job] - done, 0.0) / rate <= shadow:
        return taken, rate
    for node in range(len(state.free)):
        state.open_free[node] = min(state.free[node], state.spare[node])
    taken, rate, _ = choose(job, state.open_free, False, False, trace, nodes, rules, state)
    if taken >= 0:
        for place in range(taken):
            state.spare[state.picked_node[place]] -= 1 if trace.thousandths[job] > 0 else state.picked_amount[place]
    return taken, rate


@njit(cache=True)
def _ahead(victim, job, now, trace, rules, state):  # type: ignore[no-untyped-def]
    """Return how far a waiting job goes before a running one; not above 0 where it may not displace it."""
    if rules.preempt == RECLAIM:
        home, other = trace.team[job], trace.team[victim]
        under = state.used[home] + trace.need[job] <= rules.nominal[home]
        return 1.0 + state.started[victim] if under and home != other and state.used[other] > rules.nominal[other] else 0.0
    if rules.order == REMAINING:
        return state.remaining[victim] - progress(victim, now, state) - state.key[job]
    if rules.order == ATTAINED:
        served = state.attained[victim] + (now - state.started[victim]) * max(state.held[victim], trace.thousandths[victim] / WHOLE)
        return np.floor(served / rules.quantum_seconds) - state.key[job]
    if rules.order == ROUND_ROBIN:
        return now - state.started[victim] - rules.quantum_seconds + 1e-9
    return state.key[victim] - state.key[job]


@njit(cache=True)
def displace(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Make room for a job by stopping running ones it goes before, on the nodes it would take; return whether room was made."""
    now, count = state.scalars[NOW], int(state.scalars[RUNNING_JOBS])
    ahead = np.zeros(count)
    victims = np.empty(count, dtype=np.int64)
    found = 0
    state.open_free[:] = state.free
    slots = state.slot_free.copy()
    for index in range(count):
        victim = state.by_end[index]
        far = _ahead(victim, job, now, trace, rules, state)
        if far <= 0.0 or state.started[victim] == now:
            continue
        victims[found], ahead[found] = victim, far
        found += 1
        record = state.record[victim]
        while record >= 0:
            node, slot, released = state.records_node[record], state.records_slot[record], state.records_amount[record]
            if slot >= 0:
                slots[slot] += released
                released = 1 if slots[slot] == WHOLE else 0
            state.open_free[node] += released
            record = state.records_next[record]
    if found == 0:
        return False
    taken, _, _ = choose(job, state.open_free, False, False, trace, nodes, rules, state)
    if taken <= 0:
        return False
    wanted = np.zeros(len(state.free), dtype=np.int64)
    for place in range(taken):
        wanted[state.picked_node[place]] = 1 if trace.thousandths[job] > 0 else state.picked_amount[place]
    for index in np.argsort(-ahead[:found]):
        victim = victims[index]
        record, useful = state.record[victim], False
        while record >= 0:
            node = state.records_node[record]
            useful = useful or wanted[node] > state.free[node]
            record = state.records_next[record]
        if useful:
            if rules.preempt == RECLAIM and state.used[trace.team[victim]] <= rules.nominal[trace.team[victim]]:
                continue
            stop(victim, 0.0, rules.checkpoint_seconds + rules.restart_seconds, trace, nodes, rules, state)
    return True
