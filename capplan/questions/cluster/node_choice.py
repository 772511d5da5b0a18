"""Compiled: where a job goes, and what it takes and gives back."""

from capplan.compiling import compiled
from capplan.questions.cluster.signatures import COUNT, COUNTS, NODES, REAL, RULES, STATE, TRACE
from capplan.questions.cluster.state import (
    FREE,
    HELD,
    JOB_KIND,
    LEAST,
    LOG_AMOUNT,
    LOG_END,
    LOG_JOB,
    LOG_NODE,
    LOG_START,
    LOGGED,
    NEED,
    NODE_DOMAIN,
    NODE_KIND,
    NODE_SIZE,
    PARTS,
    PICKED_AMOUNT,
    PICKED_NODE,
    RAN,
    RECORD,
    RECORDS_AMOUNT,
    RECORDS_BITS,
    RECORDS_FREE,
    RECORDS_NEXT,
    RECORDS_NODE,
    RECORDS_SLOT,
    SLICES,
    SLOT_BITS,
    SLOT_FREE,
    SLOT_NODE,
    SLOTS,
    SPEED_ROW,
    STARTED,
    TEAM,
    WHOLE,
)

PACK, SPREAD, BALANCED, LOCALITY = 0, 1, 2, 3


@compiled(COUNT, COUNT, NODES, STATE, source=__file__)
def move_free(node, change, nodes, state):  # type: ignore[no-untyped-def]
    """Let a node have more accelerators free, or fewer, and keep count."""
    kind, free = nodes.node[NODE_KIND, node], state.node[FREE, node]
    state.node[FREE, node] = free + change
    state.free_of_kind[kind] += change
    state.levels[kind, free] -= 1
    state.levels[kind, free + change] += 1


@compiled(COUNT, COUNT, COUNT, NODES, RULES, STATE, source=__file__)
def one_node(need, kind, row, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Return the node of a kind that takes the whole gang, or -1; `row` of `state.node`: what is available, FREE now, which is counted."""
    available = state.node[row]
    low, high, size = nodes.kind_start[kind], nodes.kind_start[kind + 1], nodes.kind_size[kind]
    best, score = -1, 1e18
    if rules.placement == BALANCED:
        for node in range(low, high):
            value = -float(available[node]) / nodes.node[NODE_SIZE, node]
            if available[node] >= need and value < score:
                best, score = node, value
        return best
    if row == FREE:
        wanted, step = (size, -1) if rules.placement == SPREAD else (need, 1)
        while need <= wanted <= size and state.levels[kind, wanted] == 0:
            wanted += step
        if need <= wanted <= size:
            for node in range(low, high):
                if available[node] == wanted:
                    return node
        return -1
    for node in range(low, high):
        free = available[node]
        value = -float(free) if rules.placement == SPREAD else float(free)
        if free >= need and value < score:
            best, score = node, value
    return best


@compiled(COUNTS, COUNT, COUNT, source=__file__)
def holds(levels, count, need):  # type: ignore[no-untyped-def]
    """Tell whether the `count` emptiest nodes hold a gang; `levels` counts nodes by what is free on them."""
    room = 0
    for level in range(len(levels) - 1, 0, -1):
        here = min(count, levels[level])
        room += here * level
        count -= here
        if room >= need or count == 0:
            break
    return room >= need


@compiled(COUNT, COUNT, source=__file__)
def partition(slices, taken):  # type: ignore[no-untyped-def]
    """Return the memory slices, as bits, of a partition of so many compute slices; 0 where parts divide freely, -1 where none fits.

    Partitions of 1, 2, 3, 4 and 7 of the seven compute slices have 1, 2, 4, 4 and 8 of the eight memory slices, and begin where their
    width says, so that three of three
    slices never fit. The last place that is free comes first: it leaves the first one to partitions of four, which have no other.
    """
    if slices == 0:
        return 0
    width = slices if slices < 3 else 4 if slices < 7 else 8
    place = 6 if slices == 1 else 4 if slices < 4 else 0
    while place >= 0:
        bits = ((1 << width) - 1) << place
        if bits & taken == 0:
            return bits
        place -= width
    return -1


@compiled(COUNT, COUNT, COUNT, COUNT, COUNT, NODES, STATE, source=__file__)
def _several_nodes(need, kind, row, only, most, places, state):  # type: ignore[no-untyped-def]
    """Pick the emptiest nodes first, the last piece on the tightest one; return how many nodes, or 0 where `most` is too few."""
    low, high, available, domain = places.kind_start[kind], places.kind_start[kind + 1], state.node[row], places.node[NODE_DOMAIN]
    nodes, amounts = state.picked[PICKED_NODE], state.picked[PICKED_AMOUNT]
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
        best = -1
        for node in range(low, high if 0 < left < level else low):
            if (only >= 0 and domain[node] != only) or available[node] < left:
                continue
            chosen = False
            for index in range(taken):
                if nodes[index] == node:
                    chosen = True
            if not chosen and (best < 0 or available[node] < available[best]):
                best = node
        if best >= 0:
            nodes[taken], amounts[taken] = best, left
            taken += 1
            left = 0
        # where no other node takes the rest, the emptiest of them take what they have
        level = below
    return taken if left == 0 and taken <= most else 0


@compiled(COUNT, COUNT, COUNT, NODES, RULES, STATE, source=__file__, inside=True)
def _gang_in_kind(need, kind, row, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Pick nodes of one kind for a gang; return (nodes taken, scattered)."""
    low, high, size = nodes.kind_start[kind], nodes.kind_start[kind + 1], nodes.kind_size[kind]
    if need <= size:
        node = one_node(need, kind, row, nodes, rules, state)
        if node >= 0:
            state.picked[PICKED_NODE, 0], state.picked[PICKED_AMOUNT, 0] = node, need
            return 1, False
        if not rules.scatter:
            return 0, False
    fewest = (need + size - 1) // size
    if rules.placement == LOCALITY:
        # the tightest domain that can hold the gang on the fewest nodes
        best, room = -1, 1 << 60
        first, last = nodes.node[NODE_DOMAIN, low], nodes.node[NODE_DOMAIN, high - 1]
        for domain in range(first, last + 1):
            total = 0
            for node in range(low, high):
                if nodes.node[NODE_DOMAIN, node] == domain:
                    total += state.node[row, node]
            if need <= total < room and _several_nodes(need, kind, row, domain, fewest, nodes, state):
                best, room = domain, total
        if best >= 0:
            return _several_nodes(need, kind, row, best, fewest, nodes, state), False
        if not rules.scatter:
            return 0, False
    most = need if rules.scatter else fewest
    if row == FREE and not holds(state.levels[kind], most, need):
        return 0, False
    taken = _several_nodes(need, kind, row, -1, most, nodes, state)
    crossing = False
    for index in range(1, taken):
        crossing |= (
            rules.placement == LOCALITY
            and nodes.node[NODE_DOMAIN, state.picked[PICKED_NODE, index]] != nodes.node[NODE_DOMAIN, state.picked[PICKED_NODE, 0]]
        )
    return taken, taken > fewest or crossing


@compiled(COUNT, COUNT, COUNT, TRACE, NODES, RULES, STATE, source=__file__, inside=True)
def choose_here(job, most, row, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Pick a place for a job on at most so many of the available accelerators, fastest kind first.

    Return (nodes taken, rate of progress, accelerators); the place itself is left in state.picked_*. Nothing is taken yet.
    `row` of `state.node` says what is available; where it is FREE now, totals reject at once and a part of an open accelerator may be had.
    """
    state.picked_slot[0] = -1
    kinds = len(nodes.kind_size)
    speeds, live = nodes.speed[trace.whole[SPEED_ROW, job]], row == FREE
    tried = 0
    bound = 1e18
    while tried < kinds:
        # kinds in falling speed; equal speeds in their order
        kind, fastest = -1, 0.0
        for other in range(kinds):
            speed = speeds[other] - 1e-12 * other
            if speed < bound and speed > fastest:
                kind, fastest = other, speed
        if kind < 0:
            break
        bound = fastest
        tried += 1
        if trace.whole[JOB_KIND, job] >= 0 and trace.whole[JOB_KIND, job] != kind:
            continue
        speed = speeds[kind]
        if trace.whole[PARTS, job] > 0:
            amount, best = trace.whole[PARTS, job], -1
            if live:
                for slot in range(int(state.scalars[SLOTS])):
                    node = state.slot[SLOT_NODE, slot]
                    fits = node >= 0 and nodes.node[NODE_KIND, node] == kind and state.slot[SLOT_FREE, slot] >= amount
                    fits = fits and partition(trace.whole[SLICES, job], state.slot[SLOT_BITS, slot]) >= 0
                    if fits and (best < 0 or state.slot[SLOT_FREE, slot] < state.slot[SLOT_FREE, best]):
                        best = slot
            slowed = speed / (1.0 + rules.sharing_slowdown)
            if best >= 0:
                state.picked_slot[0] = best
                state.picked[PICKED_NODE, 0], state.picked[PICKED_AMOUNT, 0] = state.slot[SLOT_NODE, best], amount
                return 1, slowed, 0
            node = one_node(1, kind, row, nodes, rules, state)
            if node >= 0:
                state.picked_slot[0] = -2
                state.picked[PICKED_NODE, 0], state.picked[PICKED_AMOUNT, 0] = node, amount
                return 1, slowed, 0
            continue
        need = trace.whole[NEED, job]
        if need == 0:
            return 0, speed, 0
        top = min(need, most)
        if live:
            if state.free_of_kind[kind] < trace.whole[LEAST, job]:
                continue
            top = min(top, state.free_of_kind[kind])
        while top >= trace.whole[LEAST, job]:
            taken, scattered = _gang_in_kind(top, kind, row, nodes, rules, state)
            if taken:
                rate = speed * top / need
                return taken, rate / (1.0 + rules.scatter_slowdown) if scattered else rate, top
            top -= 1
    return -1, 0.0, 0


@compiled(COUNT, COUNT, COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def choose(job, most, row, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Do as choose_here does, by a call: for places that are reached less often."""
    return choose_here(job, most, row, trace, nodes, rules, state)


@compiled(COUNT, COUNT, COUNT, COUNT, REAL, STATE, source=__file__)
def _record(job, node, amount, slot, now, state):  # type: ignore[no-untyped-def]
    record = int(state.scalars[RECORDS_FREE])
    state.scalars[RECORDS_FREE] = state.records[RECORDS_NEXT, record]
    state.records[RECORDS_NODE, record], state.records[RECORDS_AMOUNT, record], state.records[RECORDS_SLOT, record] = node, amount, slot
    state.records_time[record] = now
    state.records[RECORDS_NEXT, record] = state.counts[RECORD, job]
    state.counts[RECORD, job] = record


@compiled(COUNT, COUNT, REAL, TRACE, NODES, STATE, source=__file__)
def take(job, taken, now, trace, nodes, state):  # type: ignore[no-untyped-def]
    """Take the picked place."""
    slot = state.picked_slot[0]
    if trace.whole[PARTS, job] > 0:
        node, amount = state.picked[PICKED_NODE, 0], state.picked[PICKED_AMOUNT, 0]
        if slot < 0:
            slot = 0
            while state.slot[SLOT_NODE, slot] >= 0:
                slot += 1
            state.scalars[SLOTS] = max(state.scalars[SLOTS], slot + 1)
            state.slot[SLOT_NODE, slot], state.slot[SLOT_FREE, slot], state.slot[SLOT_BITS, slot] = node, WHOLE, 0
            move_free(node, -1, nodes, state)
        bits = partition(trace.whole[SLICES, job], state.slot[SLOT_BITS, slot])
        state.slot[SLOT_FREE, slot] -= amount
        state.slot[SLOT_BITS, slot] |= bits
        _record(job, node, amount, slot, now, state)
        state.records[RECORDS_BITS, state.counts[RECORD, job]] = bits
        return
    for index in range(taken):
        node, amount = state.picked[PICKED_NODE, index], state.picked[PICKED_AMOUNT, index]
        move_free(node, -amount, nodes, state)
        state.counts[HELD, job] += amount
        state.used[trace.whole[TEAM, job]] += amount
        _record(job, node, amount, -1, now, state)


@compiled(COUNT, REAL, TRACE, NODES, STATE, source=__file__)
def give_back(job, now, trace, nodes, state):  # type: ignore[no-untyped-def]
    """Give back all a job holds, and log where it was and when."""
    state.job[RAN, job] += now - state.job[STARTED, job]
    record = state.counts[RECORD, job]
    while record >= 0:
        node, amount, slot = state.records[RECORDS_NODE, record], state.records[RECORDS_AMOUNT, record], state.records[RECORDS_SLOT, record]
        # what was taken and given back at one moment was never held; so no moment logs more rows than there are records
        if state.records_time[record] < now:
            row = int(state.scalars[LOGGED])
            state.log[row, LOG_JOB], state.log[row, LOG_NODE] = job, node
            state.log[row, LOG_AMOUNT] = amount if slot < 0 else amount / WHOLE
            state.log[row, LOG_START], state.log[row, LOG_END] = state.records_time[record], now
            state.scalars[LOGGED] = row + 1
        released = amount
        if slot >= 0:
            state.slot[SLOT_FREE, slot] += amount
            state.slot[SLOT_BITS, slot] ^= state.records[RECORDS_BITS, record]
            released = 0
            if state.slot[SLOT_FREE, slot] == WHOLE:
                state.slot[SLOT_NODE, slot] = -1
                released = 1
        move_free(node, released, nodes, state)
        following = state.records[RECORDS_NEXT, record]
        state.records[RECORDS_NEXT, record] = int(state.scalars[RECORDS_FREE])
        state.scalars[RECORDS_FREE] = record
        record = following
    state.counts[RECORD, job] = -1
    state.used[trace.whole[TEAM, job]] -= state.counts[HELD, job]
    state.counts[HELD, job] = 0
