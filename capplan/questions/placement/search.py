"""Prove a schedule: solve the program, write the rows its solution breaks, and solve again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.errors import SolveError
from capplan.optimize.solver import InfeasibleError, Solved, solve_arrays
from capplan.questions.placement.apart import Apart
from capplan.questions.placement.goals import Goal, Span
from capplan.questions.placement.methods import Found, run
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.program import Program, equals, new_program, travel
from capplan.questions.placement.state import Floats

#: Relative size of what rounding leaves.
PROVEN = 1e-6
#: Rounds of rows written after the first solution.
ROUNDS = 60


@dataclass(frozen=True)
class Proof:
    """The best schedule, and how far it is proven.

    Parameters
    ----------
    found
        Schedule, or None where none keeps the deadlines.
    bound
        No schedule has a smaller figure; infinite where it is proven that none keeps the deadlines.
    """

    found: Found | None
    bound: float


def ancestors_of(problem: Problem) -> np.ndarray:
    """Return who comes before whom: (tasks, tasks) bool."""
    count = len(problem.order)
    before = np.zeros((count, count), dtype=bool)
    for task in problem.order:
        for first in problem.work.source[problem.work.before[task] : problem.work.before[task + 1]]:
            before[:, task] |= before[:, first]
            before[first, task] = True
    return before


def horizons(problem: Problem, goal: Goal, span: Span, best: Found, upper: float) -> Floats:
    """Return hours by which each task has surely ended in some schedule that is at least as good as the best known."""
    gone = float(problem.machines.away["end"].max()) if len(problem.machines.away) else 0.0
    rates = problem.links.hours_per_gb[problem.links.hours_per_gb < 1e17]
    moving = problem.work.gigabytes.sum() * max(float(rates.max(initial=0.0)), float(problem.ground.inside[0])) + len(
        problem.work.source
    ) * problem.links.latency_hours.max(initial=0.0)
    # one task after the other, after all else: always long enough for what nothing is due for
    loose = (
        max(float(best.end.max()), gone, float(problem.work.release.max())) + float(problem.work.hours.max(axis=1).sum()) + float(moving)
    )
    loose += float((problem.machines.away["end"] - problem.machines.away["start"]).sum()) if len(problem.machines.away) else 0.0
    judged = np.where(np.isfinite(span.latest), span.latest + upper + PROVEN, loose) if goal.timed else np.full(len(span.hours), loose)
    return np.minimum(judged, span.last)


def prove(problem: Problem, goal: Goal, span: Span, best: Found, a: PlacementAssumptions) -> Proof:
    """Search for the best schedule from the best known one.

    Parameters
    ----------
    best
        A schedule to begin with; it need not keep the deadlines.
    a
        Gap at which it stops, and nodes of the search tree in each round.

    Raises
    ------
    SolveError
        Where the solver fails; a stop at a limit is no failure.
    """
    upper = goal.value(problem, best)
    keeps = goal.missed(best) == 0
    # a schedule that misses deadlines bounds nothing
    most = upper if keeps or not goal.timed else float(best.end.max()) + float(problem.work.hours.max(axis=1).sum()) + 1e6
    horizon = horizons(problem, goal, span, best, most)
    if (span.earliest + span.hours > horizon + PROVEN).any():
        return Proof(best if keeps else None, upper if keeps else np.inf)
    program = new_program(problem, goal, span, horizon, most + PROVEN * max(abs(most), 1.0))
    apart = Apart(program, ancestors_of(problem))
    if program.clock:
        apart.pairs()
    bound, enough = -np.inf, max(a.proof_gap_share, PROVEN)
    for _ in range(ROUNDS):
        start = _start(program, apart, best) if keeps else None
        try:
            solved = solve_arrays(program.rows.arrays(), enough, start=start, node_limit=a.proof_search_nodes)
        except InfeasibleError:
            return Proof(best if keeps else None, np.inf if not keeps else upper)
        except SolveError as error:
            if "limit" not in str(error):
                raise
            return Proof(best if keeps else None, bound)
        bound = max(bound, solved.bound)
        best, keeps = _better(program, solved, best, keeps)
        upper = goal.value(problem, best)
        if (keeps and upper - bound <= enough * max(abs(upper), PROVEN)) or solved.status == "limit":
            break
        if not program.clock or not _cut(program, apart, solved):
            break
    return Proof(best if keeps else None, min(bound, upper) if keeps else bound)


def _read(program: Program, solved: Solved) -> tuple[dict[int, tuple[int, np.ndarray]], Floats, Floats]:
    """Return nodes, starts and ends of a solution."""
    count = len(program.problem.work.release)
    nodes: dict[int, tuple[int, list[int]]] = {}
    for (task, group, node), column in program.on.items():
        if solved.x[column] > 0.5:
            nodes.setdefault(task, (group, []))[1].append(node)
    start = solved.x[program.start] if program.clock else np.zeros(count)
    end = solved.x[program.end] if program.clock else np.zeros(count)
    return {task: (group, np.array(taken)) for task, (group, taken) in nodes.items()}, start, end


def _better(program: Program, solved: Solved, best: Found, keeps: bool) -> tuple[Found, bool]:
    """Make a schedule of a solution: its nodes and its order, each task as early as it can be; keep the better one."""
    problem, goal = program.problem, program.goal
    nodes, start, end = _read(program, solved)
    position = np.empty(len(start), dtype=np.int64)
    position[problem.order] = np.arange(len(start))
    # in order of starts, or of ends, which can be kinder to transfers that take turns; predecessors always first
    tries = [np.lexsort((position, np.round(times, 7))) for times in (start, end)] if program.clock else [problem.order]
    for order in tries:
        again = run(problem, order.astype(np.int64), fixed=nodes)
        if goal.missed(again) > 0:
            continue
        if not keeps or goal.key(problem, again) < goal.key(problem, best):
            best, keeps = again, True
    return best, keeps


def _cut(program: Program, apart: Apart, solved: Solved) -> bool:
    """Write what a solution breaks; tell whether it broke anything."""
    problem = program.problem
    nodes, start, end = _read(program, solved)
    count = len(start)
    taken = tuple(nodes[task][1] for task in range(count))
    found = apart.broken(start, end, taken)
    if problem.ground.shared[0]:
        edges = len(problem.work.source)
        sent, came, path = np.zeros(edges), np.zeros(edges), np.full(edges, -1)
        for edge, rides in program.rides.items():
            pair = max(rides, key=lambda pair: solved.x[rides[pair]])
            hours, _, _ = travel(problem, *pair, float(problem.work.gigabytes[edge]))
            begin = solved.x[program.sends[edge]] if edge in program.sends else end[problem.work.source[edge]]
            sent[edge], came[edge], path[edge] = begin, begin + hours, apart.path(pair)
        found |= apart.crossed(sent, came, path)
    return found


def _start(program: Program, apart: Apart, found: Found) -> Floats:
    """Return the point of a known schedule."""
    problem, rows = program.problem, program.rows
    x = np.array([max(low, 0.0) if np.isfinite(low) else 0.0 for low in rows.lower])
    nodes = _renamed(problem, found, program)
    for task, taken in enumerate(nodes):
        for node in taken:
            x[program.on[task, int(found.group[task]), int(node)]] = 1.0
        if (task, int(found.group[task])) in program.groups:
            x[program.groups[task, int(found.group[task])]] = 1.0
    target = np.repeat(np.arange(len(nodes)), np.diff(problem.work.before))
    for edge, rides in program.rides.items():
        x[rides[int(nodes[problem.work.source[edge]][0]), int(nodes[target[edge]][0])]] = 1.0
    for edge, column in program.dear.items():
        pairs = [(one, other) for one in nodes[problem.work.source[edge]] for other in nodes[target[edge]]]
        x[column] = max(travel(problem, int(one), int(other), float(problem.work.gigabytes[edge]))[2] for one, other in pairs)
    if program.clock:
        x[program.start], x[program.end] = found.start, found.end
        if program.worst is not None:
            x[program.worst] = program.goal.late(found)
        times = {task: (found.start[task], found.end[task]) for task in range(len(nodes))} | {
            number: (span[1], span[2]) for number, span in apart.spans.items()
        }
        for (one, other), column in program.first.items():
            x[column] = float(times[one][1] <= times[other][0] + 1e-9)
        for edge, column in program.sends.items():
            x[column] = found.sent[edge] if found.path[edge] >= 0 else found.end[problem.work.source[edge]]
        for (one, other), column in program.turns.items():
            x[column] = float(found.came[one] <= x[program.sends[other]] + 1e-9)
        whole = problem.machines.away[problem.machines.away["share"] >= 1].reset_index(drop=True)
        for (task, node, number), columns in program.absent.items():
            span = whole.iloc[number]
            state = 0 if found.end[task] <= span["start"] + 1e-9 else (1 if found.start[task] >= span["end"] - 1e-9 else 2)
            if state < 2 or node in nodes[task]:
                x[columns[state]] = 1.0
    return x


def _renamed(problem: Problem, found: Found, program: Program) -> tuple[np.ndarray, ...]:
    """Rename nodes that nothing tells apart so that tasks take the first of them first."""
    neighbours = equals(problem, program.inside)
    following = dict(neighbours)
    head = {node: node for node in range(len(problem.machines.nodes))}
    for first, second in neighbours:
        head[second] = head[first]
    fresh = {node: node for node in head.values()}
    name: dict[int, int] = {}
    for taken in found.nodes:
        for node in sorted(int(node) for node in taken):
            if node not in name:
                name[node] = fresh[head[node]]
                fresh[head[node]] = following.get(fresh[head[node]], -1)
    return tuple(np.array([name[int(node)] for node in taken]) for taken in found.nodes)
