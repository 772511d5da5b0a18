"""The best schedule of a problem for a goal: heuristics, draws, bounds and proof."""

from dataclasses import dataclass

import numpy as np

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.questions.placement.goals import Goal, Span, least, simple_bound
from capplan.questions.placement.methods import CHEAPEST, HEURISTICS, Found, draws, free_from, ranked, run
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.ranks import by_rank
from capplan.questions.placement.search import PROVEN, prove


@dataclass(frozen=True)
class Solved:
    """What is known about a goal."""

    found: Found  #: The schedule.
    method: str  #: Who made it.
    bound: float  #: No schedule has a smaller figure.
    by_method: dict[str, Found]  #: Schedules of the heuristics.
    tried: bool  #: Was the proof tried?
    enough: float  #: Gap below which a schedule counts as proven.

    def gap(self, value: float) -> float:
        """Return how far a figure may be above the best, relative to it; 0 where proven, infinite where the bound says nothing."""
        if value - self.bound <= max(self.enough, PROVEN) * max(abs(value), PROVEN):
            return 0.0
        return (value - self.bound) / self.bound if self.bound > 0 else np.inf


def quick(problem: Problem, goal: Goal, span: Span, a: PlacementAssumptions, tries: int) -> tuple[dict[str, Found], list[Found]]:
    """Return the schedules of the heuristics, and of draws."""
    known, limit = ranked(problem, _towards(goal)), np.minimum(span.last, span.latest)
    by_method = {name: heuristic(problem, known) for name, heuristic in HEURISTICS.items()}
    more: list[Found] = []
    if not goal.timed:
        more.append(run(problem, by_rank(problem, known.up), CHEAPEST, limit=limit if goal.kind == "cost_under_deadline" else None))
    best = min(goal.key(problem, found)[:2] for found in (*by_method.values(), *more))
    # No draws where one of the schedules at hand is as good as any can be.
    if best[0] > 0 or best[1] - simple_bound(problem, goal, span) > max(a.proof_gap_share, PROVEN) * max(abs(best[1]), PROVEN):
        more += draws(problem, known, _towards(goal), a.seed, tries, limit if goal.kind == "cost_under_deadline" else None, not goal.timed)
    return by_method, more


def _towards(goal: Goal) -> np.ndarray:
    """Return the due dates that ranks look towards."""
    due = np.minimum(goal.due, goal.must) if goal.kind != "makespan" else goal.due
    return due if np.isfinite(due).any() else np.zeros(len(due))


def best_schedule(problem: Problem, goal: Goal, a: PlacementAssumptions, *, proof: bool = True) -> Solved | None:
    """Find the best schedule; None where it is proven that none keeps the deadlines.

    Args:
        proof: May the program be solved, where the heuristics do not reach the bound and the problem is small enough?
    """
    span = least(problem, goal)
    by_method, more = quick(problem, goal, span, a, a.placement_tries if len(problem.order) <= 5000 else 0)
    named = [*by_method.items(), *(("draws", found) for found in more)]
    if a.placement_method in by_method:
        named = [(a.placement_method, by_method[a.placement_method])]
    method, found = min(named, key=lambda item: goal.key(problem, item[1]))
    bound = simple_bound(problem, goal, span)
    open_gap = goal.missed(found) > 0 or goal.value(problem, found) - bound > max(a.proof_gap_share, PROVEN) * max(abs(bound), PROVEN)
    if not (proof and open_gap and _size(problem, goal, found) <= a.proof_size and a.placement_method in ("best", "milp")):
        return Solved(found, method, bound, by_method, False, a.proof_gap_share)
    proved = prove(problem, goal, span, found, a)
    if proved.found is None and proved.bound == np.inf:
        return None
    if proved.found is not None and proved.found is not found:
        method, found = "milp", proved.found
    return Solved(found, method, max(bound, proved.bound), by_method, True, a.proof_gap_share)


def _size(problem: Problem, goal: Goal, found: Found) -> float:
    """Return how large the program would be: tasks times nodes that can matter, or a thirtieth of pairs of nodes for transfers."""
    nodes = len(problem.machines.nodes)
    if goal.kind != "cost":
        nodes = int((free_from(problem) < float(found.end.max())).sum())
    return max(len(problem.order) * nodes, int((problem.work.gigabytes > 0).sum()) * nodes**2 / 30)
