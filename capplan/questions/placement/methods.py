"""Heuristics: HEFT, CPOP, OLB, HEFT that looks at the data it moves, and draws around them."""

import heapq
from dataclasses import dataclass

import numpy as np

from capplan.errors import CapplanError
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.ranks import by_rank, downward, mean_delays, mean_hours, upward
from capplan.questions.placement.state import ACCELERATORS, AWAY, FREE, SIZES, TIME, Books, Floats, Rule, Whole

#: Weights of finish, start, hours of transfers and USD.
SOONEST_END, SOONEST_START, LEAST_MOVED, CHEAPEST = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)
#: Steps of a profile to begin with; doubled where they are not enough.
ROOM = 64


@dataclass(frozen=True)
class Found:
    """A schedule as arrays."""

    #: start, end, group (tasks,): Hours, and the group of nodes.
    start: Floats
    end: Floats
    group: Whole
    nodes: tuple[Whole, ...]  #: (tuple of arrays): Nodes of each task.
    #: sent, came, sender, receiver, path (edges,): Transfers; `came` is the end on the link, `path` the link.
    sent: Floats
    came: Floats
    sender: Whole
    receiver: Whole
    path: Whole


@dataclass(frozen=True)
class Ranked:
    """What the heuristics know before they begin: mean durations, mean transfers and upward ranks."""

    hours: Floats
    delays: Floats
    up: Floats


def ranked(problem: Problem, due: Floats) -> Ranked:
    """Rank the tasks towards their due dates."""
    hours, delays = mean_hours(problem), mean_delays(problem)
    return Ranked(hours, delays, upward(problem, hours, delays, due))


def run(
    problem: Problem,
    order: Whole,
    weights: tuple[float, ...] = SOONEST_END,
    *,
    limit: Floats | None = None,
    fixed: dict[int, tuple[int, Whole]] | None = None,
) -> Found:
    """Schedule all tasks in an order, predecessors first.

    Args:
        order (tasks,):
        limit ((tasks,), optional): Hours by which tasks should end: choices that keep it go first.
        fixed: Group and nodes that a task must take.

    Raises:
        CapplanError: Where a task finds no nodes to which its data can come.
    """
    from capplan.questions.placement.kernel import schedule

    work, ground = problem.work, problem.ground
    if limit is not None:
        work = work._replace(limit=np.ascontiguousarray(limit, dtype=float))
    given = fixed or {}
    count = len(order)
    fixed_from = (
        np.concatenate([[0], np.cumsum([len(given[task][1]) if task in given else 0 for task in range(count)])]).astype(np.int64)
        if given
        else np.zeros(count + 1, dtype=np.int64)
    )
    chosen = np.concatenate([given[task][1] for task in sorted(given)]).astype(np.int64) if given else np.zeros(1, dtype=np.int64)
    groups = np.zeros(count, dtype=np.int64)
    for task, (group, _) in given.items():
        groups[task] = group
    rule = Rule(
        np.ascontiguousarray(order), np.array(weights), np.array([int(limit is not None)], dtype=np.int64), groups, fixed_from, chosen
    )
    # what no task takes is not kept account of
    used = np.flatnonzero(work.need.any(axis=0)) if work.need.any() else np.zeros(1, dtype=np.int64)
    work = work._replace(
        need=np.ascontiguousarray(work.need[:, used]), whole=np.append(np.flatnonzero(used == ACCELERATORS), -1)[:1].astype(np.int64)
    )
    books = new_books(problem, used)
    done = schedule(work, ground, rule, books, 0)
    while 0 <= done < count:
        books = _wider(books)
        done = schedule(work, ground, rule, books, done)
    if done < 0:
        raise CapplanError(
            f"tasks: {problem.tasks['task_id'].iloc[-1 - done]} finds no node to which all its data can come; add links between the sites"
            " where its predecessors may run"
        )
    nodes = tuple(
        books.taken[books.taken_from[task] : books.taken_from[task] + work.members[task, books.group[task]]] for task in range(count)
    )
    return Found(books.start, books.end, books.group, nodes, books.sent, books.came, books.sender, books.receiver, books.path)


def new_books(problem: Problem, used: Whole) -> Books:
    """Return empty profiles of some resources: all nodes free but when they are away, all links free."""
    work = problem.work
    count, nodes, edges = len(work.release), len(problem.machines.nodes), len(work.source)
    rows = 2 * nodes + len(problem.links.names) if problem.ground.shared[0] else nodes
    first = problem.profiles
    wide = first.times.shape[1]
    room = ROOM + 2 * wide + 2 * int(np.diff(work.before).max(initial=0))
    steps, steps_of_row = np.zeros((rows, room, FREE + len(used))), np.ones(rows, dtype=np.int64)
    steps[:nodes, :wide, TIME], steps[:nodes, :wide, AWAY], steps[:nodes, :wide, FREE:] = first.times, first.away, first.free[:, :, used]
    steps_of_row[:nodes] = first.count
    steps[nodes:, 0, FREE] = 1.0
    largest = np.maximum(work.members.max(axis=1), 1)
    taken_from = np.concatenate([[0], np.cumsum(largest)]).astype(np.int64)
    scratch = max(3 * len(problem.links.hours_per_gb), 1)
    return Books(
        steps,
        steps_of_row,
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        taken_from,
        np.zeros(int(taken_from[-1]), dtype=np.int64),
        np.zeros(edges),
        np.zeros(edges),
        np.zeros(edges, dtype=np.int64),
        np.zeros(edges, dtype=np.int64),
        np.full(edges, -1, dtype=np.int64),
        np.zeros(nodes),
        np.zeros(len(problem.ground.group_node)),
        np.zeros(nodes),
        np.zeros(nodes),
        np.zeros(len(used)),
        np.zeros(edges, dtype=np.int64),
        np.zeros(scratch),
        np.zeros(max(int(largest.max(initial=1)), 1), dtype=np.int64),
        np.full((SIZES, rows, 3 + len(used)), -1.0),
    )


def _wider(books: Books) -> Books:
    """Return the same with twice the room in every profile."""
    return books._replace(steps=np.concatenate([books.steps, np.zeros_like(books.steps)], axis=1))


def heft(problem: Problem, known: Ranked) -> Found:
    """Heterogeneous Earliest Finish Time: by upward rank, each to the node where it ends first, gaps used."""
    return run(problem, by_rank(problem, known.up))


def locality(problem: Problem, known: Ranked) -> Found:
    """HEFT that counts the hours its transfers keep links busy as if they were its own."""
    return run(problem, by_rank(problem, known.up), LEAST_MOVED)


def olb(problem: Problem, _known: Ranked) -> Found:
    """Opportunistic load balancing: in the table's order, each to the node that can begin it first, however long it takes there."""
    return run(problem, problem.order, SOONEST_START)


def cpop(problem: Problem, known: Ranked) -> Found:
    """Critical Path On a Processor: ready tasks by both ranks; those on the critical path go to the one node that runs it fastest."""
    both = np.round(known.up + downward(problem, known.hours, known.delays), 6)
    path = critical_path(problem, both)
    group, node = _fastest(problem, path)
    fixed = {task: (group, np.array([node])) for task in path if problem.work.members[task, group] == 1} if node >= 0 else {}
    return run(problem, _ready_order(problem, both), fixed=fixed)


def critical_path(problem: Problem, both: Floats) -> list[int]:
    """Return a longest path: from an entry task with the largest sum of ranks, on to successors with the same sum."""
    work = problem.work
    successors: list[list[int]] = [[] for _ in both]
    for task in range(len(both)):
        for edge in range(work.before[task], work.before[task + 1]):
            successors[work.source[edge]].append(task)
    entries = [task for task in range(len(both)) if work.before[task] == work.before[task + 1]]
    path = [max(entries, key=lambda task: (both[task], -task))]
    while successors[path[-1]]:
        following = max(successors[path[-1]], key=lambda task: (both[task], -task))
        if both[following] < both[path[0]] - 1e-6:
            break
        path.append(following)
    return path


def _fastest(problem: Problem, path: list[int]) -> tuple[int, int]:
    """Return group and first node that run most of a path's tasks, in the least time; -1 where none of it runs on a single node."""
    single = problem.work.members[path] == 1
    if not single.any():
        return -1, -1
    runs, hours = single.sum(axis=0), np.where(single, problem.work.hours[path], 0.0).sum(axis=0)
    group = int(np.lexsort((np.arange(len(runs)), hours, -runs))[0])
    # of equal nodes the one that is there soonest
    inside = problem.machines.members[group]
    return group, int(inside[np.argmin(free_from(problem)[inside])])


def free_from(problem: Problem) -> Floats:
    """Return the hour from which each node is there: the end of an absence that holds from the start, or 0."""
    hours = np.zeros(len(problem.machines.nodes))
    away = problem.machines.away
    for span in away[(away["share"] >= 1) & (away["start"] <= 0)].itertuples(index=False):
        hours[span.node] = max(hours[span.node], span.end)
    return hours


def _ready_order(problem: Problem, priority: Floats) -> Whole:
    """Return the order in which a queue of ready tasks gives out the one of the highest priority."""
    work = problem.work
    waiting = np.diff(work.before)
    target = np.repeat(np.arange(len(priority)), waiting)
    by_source = np.argsort(work.source, kind="stable")
    after = np.searchsorted(work.source[by_source], np.arange(len(priority) + 1))
    waiting = waiting.copy()
    queue = [(-float(priority[task]), int(task)) for task in np.flatnonzero(waiting == 0)]
    heapq.heapify(queue)
    order = []
    while queue:
        task = heapq.heappop(queue)[1]
        order.append(task)
        for edge in by_source[after[task] : after[task + 1]]:
            waiting[target[edge]] -= 1
            if waiting[target[edge]] == 0:
                heapq.heappush(queue, (-float(priority[target[edge]]), int(target[edge])))
    return np.array(order, dtype=np.int64)


#: Heuristics by name.
HEURISTICS = {"heft": heft, "cpop": cpop, "olb": olb, "locality": locality}


def draws(problem: Problem, known: Ranked, due: Floats, seed: int, tries: int, limit: Floats | None, money: bool) -> list[Found]:
    """Return schedules by ranks of drawn durations and transfers: HEFT's order shaken, which often finds a better one.

    Args:
        due (tasks,): Due dates that ranks look towards.
        tries: How many; one in four looks at the data it moves, and where money is judged, three in four at the price.
    """
    generator = np.random.default_rng(seed)
    found = []
    for number in range(tries):
        hours = known.hours * generator.uniform(0.3, 1.7, len(known.hours))
        delays = known.delays * generator.uniform(0.0, 2.0, len(known.delays))
        order = by_rank(problem, upward(problem, hours, delays, due))
        weights = SOONEST_END if number % 4 else LEAST_MOVED
        if money and number % 4:
            weights = CHEAPEST
        found.append(run(problem, order, weights, limit=limit if money else None))
    return found
