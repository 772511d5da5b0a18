"""Compiled: where a job goes, and what it takes and gives back."""

from __future__ import annotations

from numba import njit

from capplan.questions.cluster.state import (
    LOG_AMOUNT,
    LOG_END,
    LOG_JOB,
    LOG_NODE,
    LOG_START,
    LOGGED,
    RECORDS_FREE,
    SLOTS,
    WHOLE,
)

PACK, SPREAD, BALANCED, LOCALITY = 0, 1, 2, 3


@njit(cache=True)
def _one_node(need, low, high, available, size, placement):  # type: ignore[no-untyped-def]
    """Return the node that takes the whole gang, or -1."""
    best, score = -1, 1e18
    for node in range(low, high):
        free = available[node]
        if free < need:
            continue
        if placement == SPREAD:
            value = -float(free)
        elif placement == BALANCED:
            value = -float(free) / size[node]
        else:
            value = float(free)
            if free == need:
                return node
        if value < score:
            best, score = node, value
    return best


@njit(cache=True)
def _several_nodes(need, low, high, available, domain, only, most, nodes, amounts):  # type: ignore[no-untyped-def]
    """Take the emptiest nodes first, the last piece on the tightest one; return how many nodes, or 0 where `most` is too few."""
    left, taken, level, total = need, 0, 0, 0
    for node in range(low, high):
        if only < 0 or domain[node] == only:
            level = max(level, available[node])
            total += available[node]
    if total < need:
        return 0
    while left > 0 and level > 0:
        below = 0
        for node in range(low, high):
            if only >= 0 and domain[node] != only:
                continue
            free = available[node]
            if free == level and left >= level:
                nodes[taken], amounts[taken] = node, level
                taken += 1
                left -= level
                if taken > most:
                    return 0
            elif free < level:
                below = max(below, free)
        if 0 < left < level:
            break
        level = below
    if left > 0:
        best = -1
        for node in range(low, high):
            if (only >= 0 and domain[node] != only) or available[node] < left:
                continue
            chosen = False
            for index in range(taken):
                if nodes[index] == node:
                    chosen = True
            if not chosen and (best < 0 or available[node] < available[best]):
                best = node
        if best < 0:
            return 0
        nodes[taken], amounts[taken] = best, left
        taken += 1
    return taken if taken <= most else 0


@njit(cache=True)
def _gang_in_kind(need, kind, available, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Pick nodes of one kind for a gang; return (nodes taken, scattered)."""
    low, high, size = nodes.kind_start[kind], nodes.kind_start[kind + 1], nodes.kind_size[kind]
    if need <= size:
        node = _one_node(need, low, high, available, nodes.size, rules.placement)
        if node >= 0:
            state.picked_node[0], state.picked_amount[0] = node, need
            return 1, False
        if not rules.scatter:
            return 0, False
    fewest = (need + size - 1) // size
    if rules.placement == LOCALITY:
        # the tightest domain that can hold the gang on the fewest nodes
        best, room = -1, 1 << 60
        first, last = nodes.domain[low], nodes.domain[high - 1]
        for domain in range(first, last + 1):
            total = 0
            for node in range(low, high):
                if nodes.domain[node] == domain:
                    total += available[node]
            if need <= total < room and _several_nodes(
                need, low, high, available, nodes.domain, domain, fewest, state.picked_node, state.picked_amount
            ):
                best, room = domain, total
        if best >= 0:
            return _several_nodes(need, low, high, available, nodes.domain, best, fewest, state.picked_node, state.picked_amount), False
        if not rules.scatter:
            return 0, False
    most = need if rules.scatter else fewest
    taken = _several_nodes(need, low, high, available, nodes.domain, -1, most, state.picked_node, state.picked_amount)
    crossing = False
    for index in range(1, taken):
        crossing |= rules.placement == LOCALITY and nodes.domain[state.picked_node[index]] != nodes.domain[state.picked_node[0]]
    return taken, taken > fewest or crossing


@njit(cache=True)
def choose(job, available, live, shared, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Pick a place for a job among the available accelerators, fastest kind first.

    Return (nodes taken, rate of progress, accelerators); the place itself is left in state.picked_*. Nothing is taken yet.
    `live` says that `available` is what is free now, so that totals reject at once; `shared` allows a part of an open accelerator.
    """
    state.picked_slot[0] = -1
    kinds = len(nodes.kind_size)
    row = trace.speed_row[job]
    tried = 0
    bound = 1e18
    while tried < kinds:
        # kinds in falling speed; equal speeds in their order
        kind, fastest = -1, 0.0
        for other in range(kinds):
            speed = nodes.speed[row, other] - 1e-12 * other
            if speed < bound and speed > fastest:
                kind, fastest = other, speed
        if kind < 0:
            break
        bound = fastest
        tried += 1
        if trace.kind[job] >= 0 and trace.kind[job] != kind:
            continue
        speed = nodes.speed[row, kind]
        if trace.thousandths[job] > 0:
            amount, best = trace.thousandths[job], -1
            if shared:
                for slot in range(int(state.scalars[SLOTS])):
                    node = state.slot_node[slot]
                    fits = node >= 0 and nodes.kind[node] == kind and state.slot_free[slot] >= amount
                    if fits and (best < 0 or state.slot_free[slot] < state.slot_free[best]):
                        best = slot
            slowed = speed / (1.0 + rules.sharing_slowdown)
            if best >= 0:
                state.picked_slot[0] = best
                state.picked_node[0], state.picked_amount[0] = state.slot_node[best], amount
                return 1, slowed, 0
            node = _one_node(1, nodes.kind_start[kind], nodes.kind_start[kind + 1], available, nodes.size, rules.placement)
            if node >= 0:
                state.picked_slot[0] = -2
                state.picked_node[0], state.picked_amount[0] = node, amount
                return 1, slowed, 0
            continue
        need = trace.need[job]
        if need == 0:
            return 0, speed, 0
        top = need
        if live:
            if state.free_of_kind[kind] < trace.least[job]:
                continue
            top = min(top, state.free_of_kind[kind])
        while top >= trace.least[job]:
            taken, scattered = _gang_in_kind(top, kind, available, nodes, rules, state)
            if taken:
                rate = speed * top / need
                return taken, rate / (1.0 + rules.scatter_slowdown) if scattered else rate, top
            top -= 1
    return -1, 0.0, 0


@njit(cache=True)
def _record(job, node, amount, slot, now, state):  # type: ignore[no-untyped-def]
    record = int(state.scalars[RECORDS_FREE])
    state.scalars[RECORDS_FREE] = state.records_next[record]
    state.records_node[record], state.records_amount[record], state.records_slot[record] = node, amount, slot
    state.records_time[record] = now
    state.records_next[record] = state.record[job]
    state.record[job] = record


@njit(cache=True)
def take(job, taken, now, trace, nodes, state):  # type: ignore[no-untyped-def]
    """Take the picked place."""
    slot = state.picked_slot[0]
    if trace.thousandths[job] > 0:
        node, amount = state.picked_node[0], state.picked_amount[0]
        if slot < 0:
            slot = 0
            while state.slot_node[slot] >= 0:
                slot += 1
            state.scalars[SLOTS] = max(state.scalars[SLOTS], slot + 1)
            state.slot_node[slot], state.slot_free[slot] = node, WHOLE
            state.free[node] -= 1
            state.free_of_kind[nodes.kind[node]] -= 1
        state.slot_free[slot] -= amount
        _record(job, node, amount, slot, now, state)
        return
    for index in range(taken):
        node, amount = state.picked_node[index], state.picked_amount[index]
        state.free[node] -= amount
        state.free_of_kind[nodes.kind[node]] -= amount
        state.held[job] += amount
        state.used[trace.team[job]] += amount
        _record(job, node, amount, -1, now, state)


@njit(cache=True)
def give_back(job, now, trace, nodes, state):  # type: ignore[no-untyped-def]
    """Give back all a job holds, and log where it was and when."""
    record = state.record[job]
    while record >= 0:
        node, amount, slot = state.records_node[record], state.records_amount[record], state.records_slot[record]
        row = int(state.scalars[LOGGED])
        state.log[row, LOG_JOB], state.log[row, LOG_NODE] = job, node
        state.log[row, LOG_AMOUNT] = amount if slot < 0 else amount / WHOLE
        state.log[row, LOG_START], state.log[row, LOG_END] = state.records_time[record], now
        state.scalars[LOGGED] = row + 1
        released = amount
        if slot >= 0:
            state.slot_free[slot] += amount
            released = 0
            if state.slot_free[slot] == WHOLE:
                state.slot_node[slot] = -1
                released = 1
        state.free[node] += released
        state.free_of_kind[nodes.kind[node]] += released
        following = state.records_next[record]
        state.records_next[record] = int(state.scalars[RECORDS_FREE])
        state.scalars[RECORDS_FREE] = record
        record = following
    state.record[job] = -1
    state.used[trace.team[job]] -= state.held[job]
    state.held[job] = 0
