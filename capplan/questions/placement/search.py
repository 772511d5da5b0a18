"""Prove a schedule: search from the best known one for a better one, until none can be left."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.optimize.constraints import search
from capplan.optimize.solver import InfeasibleError
from capplan.questions.placement.goals import Goal, Span
from capplan.questions.placement.methods import Found, run
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.program import Program, new_program
from capplan.questions.placement.state import Floats

#: Relative size of what rounding leaves.
PROVEN = 1e-6


@dataclass(frozen=True)
class Proof:
    """The best schedule, and how far it is proven.

    Args:
        found: Schedule, or None where none keeps the deadlines.
        bound: No schedule has a smaller figure; infinite where it is proven that none keeps the deadlines.
    """

    found: Found | None
    bound: float


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

    Args:
        best: A schedule to begin with; it need not keep the deadlines.

    Raises:
        SolveError: Where the solver fails; a stop at a limit is no failure.
    """
    upper = goal.value(problem, best)
    keeps = goal.missed(best) == 0
    # a schedule that misses deadlines bounds nothing
    most = upper if keeps or not goal.timed else float(best.end.max()) + float(problem.work.hours.max(axis=1).sum()) + 1e6
    horizon = horizons(problem, goal, span, best, most)
    if (span.earliest + span.hours > horizon + PROVEN).any():
        return Proof(best if keeps else None, upper if keeps else np.inf)
    program = new_program(problem, goal, span, horizon, most + PROVEN * max(abs(most), 1.0))
    if keeps:
        _hint(program, best)
    try:
        searched = search(program.model, max(a.proof_gap_share, PROVEN), a.proof_deterministic_seconds)
    except InfeasibleError:
        return Proof(best if keeps else None, np.inf if not keeps else upper)
    bound = searched.bound * program.grid.hours if goal.timed else searched.bound / program.parts_of_usd
    if searched.solver is not None:
        best, keeps = _better(program, searched.solver, best, keeps)
    return Proof(best if keeps else None, min(bound, goal.value(problem, best)) if keeps else bound)


def _better(program: Program, solver: Any, best: Found, keeps: bool) -> tuple[Found, bool]:
    """Make a schedule of a solution: its nodes and its order, each task as early as it can be; keep the better one."""
    problem, goal = program.problem, program.goal
    nodes: dict[int, tuple[int, list[int]]] = {}
    for (task, group, node), literal in program.on.items():
        if solver.boolean_value(literal):
            nodes.setdefault(task, (group, []))[1].append(node)
    fixed = {task: (group, np.array(taken)) for task, (group, taken) in nodes.items()}
    position = np.empty(len(problem.order), dtype=np.int64)
    position[problem.order] = np.arange(len(problem.order))
    # in order of starts, or of ends, which can be kinder to transfers that take turns; predecessors always first
    orders = [problem.order]
    if program.clock:
        orders = [np.lexsort((position, [solver.value(column) for column in columns])) for columns in (program.start, program.end)]
    for order in orders:
        again = run(problem, order.astype(np.int64), fixed=fixed)
        if goal.missed(again) == 0 and (not keeps or goal.key(problem, again) < goal.key(problem, best)):
            best, keeps = again, True
    return best, keeps


def _hint(program: Program, found: Found) -> None:
    """Begin the search at a known schedule."""
    model, grid = program.model, program.grid
    for (task, group, node), literal in program.on.items():
        model.add_hint(literal, int(group == found.group[task] and node in found.nodes[task]))
    for task, (start, end) in enumerate(zip(program.start, program.end, strict=True)):
        model.add_hint(start, int(grid.down(float(found.start[task]))))
        model.add_hint(end, int(grid.down(float(found.end[task]))))
    for edge, send in program.sends.items():
        model.add_hint(send, int(grid.down(float(found.sent[edge]))))
