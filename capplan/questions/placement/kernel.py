"""Compiled: list scheduling on nodes that several tasks share, with gangs, absences and links.

A task is put where its rule likes best, at the earliest instant from which all it takes is free for as long as it runs (insertion: gaps
are used).
"""

from capplan.compiling import compiled, types
from capplan.questions.placement.profiles import BOOKS, COUNT, COUNTS, GRID, REAL, REALS, TABLE, earliest, take
from capplan.questions.placement.state import CARD, INSTANT, NO_LINK, Ground, Rule, Work

#: An end that nothing has.
NEVER = 1e17
_WORK = types.NamedTuple([TABLE, REALS, REALS, COUNTS, COUNTS, COUNTS, REALS, TABLE, TABLE, GRID, COUNTS], Work)
_GROUND = types.NamedTuple([COUNTS, COUNTS, COUNTS, TABLE, TABLE, TABLE, GRID, REALS, COUNTS], Ground)
_RULE = types.NamedTuple([COUNTS, REALS, COUNTS, COUNTS, COUNTS, COUNTS], Rule)


@compiled(_WORK, BOOKS, COUNT, COUNT, source=__file__)
def _want(work, books, task, members):  # type: ignore[no-untyped-def]
    """Write down what one member of a task takes."""
    for resource in range(books.want.shape[0]):
        part = work.need[task, resource] / members
        if resource == work.whole[0] and members > 1:
            part = float(int(part + 1 - 1e-9))
        books.want[resource] = part


@compiled(_GROUND, COUNT, COUNT, REAL, source=__file__)
def _travel(ground, sender, receiver, gigabytes):  # type: ignore[no-untyped-def]
    """Return hours on the link, hours of latency and USD of moving data from one node to another."""
    if gigabytes <= 0.0:
        return 0.0, 0.0, 0.0
    if sender == receiver:
        return gigabytes * ground.inside[0], 0.0, 0.0
    here, there = ground.place[sender], ground.place[receiver]
    return gigabytes * ground.hours_per_gb[here, there], ground.latency_hours[here, there], gigabytes * ground.usd_per_gb[here, there]


@compiled(_WORK, _GROUND, BOOKS, COUNT, COUNT, source=__file__)
def _arrive(work, ground, books, task, node):  # type: ignore[no-untyped-def]
    """Return when all data of a task is on a node over links that are free, with the hours and USD of its transfers."""
    ready, moved, fee = work.release[task], 0.0, 0.0
    for edge in range(work.before[task], work.before[task + 1]):
        source = work.source[edge]
        slowest, dearest = 0.0, 0.0
        for at in range(books.taken_from[source], books.taken_from[source + 1]):
            hours, latency, usd = _travel(ground, books.taken[at], node, work.gigabytes[edge])
            slowest, dearest = max(slowest, hours + latency), max(dearest, usd)
        ready = max(ready, books.end[source] + slowest)
        moved += slowest
        fee += dearest
    return ready, moved, fee


@compiled(_WORK, _GROUND, BOOKS, COUNT, source=__file__)
def _arrivals(work, ground, books, task):  # type: ignore[no-untyped-def]
    """Fill ready, moved and fee of every node: by place, and one by one where a predecessor ran."""
    places, nodes = ground.hours_per_gb.shape[0], ground.place.shape[0]
    for place in range(places):
        ready, moved, fee = work.release[task], 0.0, 0.0
        for edge in range(work.before[task], work.before[task + 1]):
            source, size = work.source[edge], work.gigabytes[edge]
            slowest, dearest = 0.0, 0.0
            if size > 0.0:
                for at in range(books.taken_from[source], books.taken_from[source + 1]):
                    here = ground.place[books.taken[at]]
                    slowest = max(slowest, size * ground.hours_per_gb[here, place] + ground.latency_hours[here, place])
                    dearest = max(dearest, size * ground.usd_per_gb[here, place])
            ready = max(ready, books.end[source] + slowest)
            moved += slowest
            fee += dearest
        books.tail[3 * place], books.tail[3 * place + 1], books.tail[3 * place + 2] = ready, moved, fee
    for node in range(nodes):
        place = ground.place[node]
        books.ready[node], books.moved[node], books.fee[node] = books.tail[3 * place], books.tail[3 * place + 1], books.tail[3 * place + 2]
    for edge in range(work.before[task], work.before[task + 1]):
        for at in range(books.taken_from[work.source[edge]], books.taken_from[work.source[edge] + 1]):
            node = books.taken[at]
            books.ready[node], books.moved[node], books.fee[node] = _arrive(work, ground, books, task, node)


@compiled(_WORK, _GROUND, BOOKS, COUNT, COUNT, COUNT, source=__file__)
def _send(work, ground, books, task, members, keep):  # type: ignore[no-untyped-def]
    """Send a task's data to the nodes in books.picked, each transfer in its turn on its link; return when all is there.

    Transfers start in the order in which their data is ready. `keep` writes them down; otherwise it is only asked.
    """
    first, last = work.before[task], work.before[task + 1]
    nodes = ground.place.shape[0]
    ready = work.release[task]
    for edge in range(first, last):
        at = edge
        while at > first and books.end[work.source[books.turn[at - 1]]] > books.end[work.source[edge]]:
            books.turn[at] = books.turn[at - 1]
            at -= 1
        books.turn[at] = edge
    for number in range(first, last):
        edge = books.turn[number]
        source = work.source[edge]
        sender, receiver = books.taken[books.taken_from[source]], books.picked[0]
        busy, latency, _usd = _travel(ground, sender, receiver, work.gigabytes[edge])
        for at in range(books.taken_from[source], books.taken_from[source + 1]):
            for member in range(members):
                hours, late, _ = _travel(ground, books.taken[at], books.picked[member], work.gigabytes[edge])
                if hours + late > busy + latency:
                    sender, receiver, busy, latency = books.taken[at], books.picked[member], hours, late
        begin, row = books.end[source], -1
        if sender != receiver and work.gigabytes[edge] > 0.0 and busy < NEVER:
            kind = ground.link[ground.place[sender], ground.place[receiver]]
            row = nodes + sender if kind == CARD else (-1 if kind == NO_LINK else 2 * nodes + kind)
        if ground.shared[0] == 1 and row >= 0:
            for back in range(first, number):
                # those of this task that use the same link go before
                if books.path[books.turn[back]] == row:
                    begin = max(begin, books.came[books.turn[back]])
            begin, _end = earliest(books, row, begin, busy, 0, NEVER)
        books.sent[edge], books.came[edge], books.sender[edge], books.receiver[edge], books.path[edge] = (
            begin,
            begin + busy,
            sender,
            receiver,
            row,
        )
        if keep == 1 and ground.shared[0] == 1 and row >= 0:
            take(books, row, begin, begin + busy)
        ready = max(ready, begin + busy + latency)
    return ready


@compiled(_WORK, _GROUND, BOOKS, COUNT, COUNT, COUNT, COUNT, source=__file__)
def _send_for(work, ground, books, task, members, group, keep):  # type: ignore[no-untyped-def]
    """Send as _send does, while books.want says what a link gives, and set it back to what the task takes."""
    for resource in range(books.want.shape[0]):
        books.want[resource] = 1.0 if resource == 0 else 0.0
    ready = _send(work, ground, books, task, members, keep)
    _want(work, books, task, work.members[task, group])
    return ready


@compiled(_GROUND, BOOKS, COUNT, COUNT, COUNT, REAL, source=__file__)
def _gang(ground, books, members, first, last, hours):  # type: ignore[no-untyped-def]
    """Pick the nodes of a group that can start a gang soonest, all at one instant; return the start.

    No instant is skipped: before the instant at which the m-th node could start, fewer than m can.
    """
    instant = 0.0
    while True:
        # the m-th smallest start, by repeated selection into picked
        for at in range(first, last):
            node = ground.group_node[at]
            start, _end = earliest(books, node, max(instant, books.ready[node]), hours, 0, NEVER)
            books.slot[at] = start
        latest = 0.0
        for member in range(members):
            best = first
            for at in range(first + 1, last):
                if books.slot[at] < books.slot[best] - INSTANT:
                    best = at
            books.picked[member] = ground.group_node[best]
            latest = max(latest, books.slot[best])
            books.slot[best] = 2e18
        if latest <= instant + INSTANT or latest >= NEVER:
            return latest
        instant = latest


@compiled(BOOKS, COUNT, REAL, REAL, COUNT, source=__file__)
def _together(books, members, ready, hours, pausable):  # type: ignore[no-untyped-def]
    """Return the earliest start and the end at which all picked nodes can run together."""
    instant = ready
    while True:
        latest, finish = instant, 0.0
        for member in range(members):
            start, end = earliest(books, books.picked[member], instant, hours, pausable, NEVER)
            latest, finish = max(latest, start), max(finish, end)
        if latest <= instant + INSTANT or latest >= NEVER:
            return latest, finish
        instant = latest


@compiled(_WORK, _RULE, COUNT, REAL, REAL, REAL, REAL, source=__file__)
def _score(work, rule, task, start, finish, moved, usd):  # type: ignore[no-untyped-def]
    """Rate a choice; less is better."""
    if finish >= NEVER or usd >= NEVER:
        return 1e30
    score = rule.weights[0] * finish + rule.weights[1] * start + rule.weights[2] * moved + rule.weights[3] * usd
    if rule.use_limit[0] == 1 and finish > work.limit[task] + INSTANT:
        score = 1e10 + finish
    return score


@compiled(_WORK, _GROUND, _RULE, BOOKS, COUNT, source=__file__)
def _choose(work, ground, rule, books, task):  # type: ignore[no-untyped-def]
    """Choose group and nodes of a task; the nodes are left in books.picked."""
    _arrivals(work, ground, books, task)
    best_group, best_node, best, best_finish = -1, -1, 1e29, 1e29
    # where the end alone counts, a node on which it would come later needs no further look
    only_finish = rule.use_limit[0] == 0 and rule.weights[1] == 0.0 and rule.weights[2] == 0.0 and rule.weights[3] == 0.0
    for group in range(work.members.shape[1]):
        members = work.members[task, group]
        if members == 0:
            continue
        first, last = ground.group_from[group], ground.group_from[group + 1]
        hours = work.hours[task, group]
        _want(work, books, task, members)
        if members == 1:
            for at in range(first, last):
                node = ground.group_node[at]
                ready = books.ready[node]
                if ready >= NEVER:
                    continue
                if ground.shared[0] == 1 and work.before[task + 1] > work.before[task]:
                    books.picked[0] = node
                    ready = _send_for(work, ground, books, task, 1, group, 0)
                start, finish = earliest(books, node, ready, hours, work.pausable[task], best_finish if only_finish else NEVER)
                score = _score(work, rule, task, start, finish, books.moved[node], work.usd[task, group] + books.fee[node])
                if score < best - INSTANT or (score <= best + INSTANT and finish < best_finish - INSTANT):
                    best_group, best_node, best, best_finish = group, node, score, finish
        else:
            start = _gang(ground, books, members, first, last, hours)
            moved, fee = 0.0, 0.0
            for member in range(members):
                moved, fee = max(moved, books.moved[books.picked[member]]), max(fee, books.fee[books.picked[member]])
            score = _score(work, rule, task, start, start + hours, moved, work.usd[task, group] + fee)
            if score < best - INSTANT or (score <= best + INSTANT and start + hours < best_finish - INSTANT):
                best_group, best_node, best, best_finish = group, -1, score, start + hours
    if best_group >= 0:
        _want(work, books, task, work.members[task, best_group])
        if best_node >= 0:
            books.picked[0] = best_node
        else:
            members = work.members[task, best_group]
            _gang(ground, books, members, ground.group_from[best_group], ground.group_from[best_group + 1], work.hours[task, best_group])
    return best_group


@compiled(_WORK, _GROUND, _RULE, BOOKS, COUNT, source=__file__, entry=True)
def schedule(work, ground, rule, books, done):  # type: ignore[no-untyped-def]
    """Schedule the tasks of rule.order from the one numbered `done` on.

    Returns the number of tasks that are scheduled; fewer than all where a profile has no room for more steps, and -1 - t where task t fits
    nowhere.
    """
    room = books.steps.shape[1]
    for number in range(done, rule.order.shape[0]):
        task = rule.order[number]
        for row in range(books.count.shape[0]):
            if books.count[row] + 2 * (work.before[task + 1] - work.before[task]) + 4 > room:
                return number
        fixed = rule.fixed_from[task + 1] - rule.fixed_from[task]
        if fixed > 0:
            group = rule.fixed_group[task]
            for member in range(fixed):
                books.picked[member] = rule.fixed_node[rule.fixed_from[task] + member]
            _want(work, books, task, work.members[task, group])
        else:
            group = _choose(work, ground, rule, books, task)
            if group < 0:
                return -1 - task
        members = work.members[task, group]
        ready = _send_for(work, ground, books, task, members, group, 1)
        start, end = _together(books, members, ready, work.hours[task, group], work.pausable[task] if members == 1 else 0)
        if end >= NEVER:
            return -1 - task
        books.start[task], books.end[task], books.group[task] = start, end, group
        base = books.taken_from[task]
        for member in range(members):
            books.taken[base + member] = books.picked[member]
            take(books, books.picked[member], start, end)
        # later tasks read the nodes from here; unused places of the reserve hold the first node again
        for at in range(base + members, books.taken_from[task + 1]):
            books.taken[at] = books.picked[0]
    return rule.order.shape[0]
