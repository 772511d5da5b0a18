"""The one door to OR-tools' CP-SAT: whole numbers, intervals of time, and a search that gives the same answer everywhere."""

from dataclasses import dataclass
from typing import Any

from capplan.errors import SolveError
from capplan.optimize.solver import InfeasibleError


@dataclass(frozen=True)
class Searched:
    """What a search found."""

    solver: Any | None  #: Asked for values: `value(variable)`; None where no solution was found before the search stopped.
    bound: float  #: No solution has a smaller objective.
    proven: bool  #: Is it the best, within the gap that was asked for?


def new_model() -> Any:
    """Return an empty `cp_model.CpModel`."""
    from ortools.sat.python import cp_model

    return cp_model.CpModel()


def search(model: Any, gap_share: float, deterministic_seconds: float) -> Searched:
    """Minimise a model in one thread with a fixed seed; effort is counted, not timed, so that equal input gives equal output.

    Args:
        model: With its objective, and a hint where a solution is known.
        gap_share: Relative gap to the proven bound at which the search may stop.
        deterministic_seconds: Effort after which it stops with the gap that is left, in the solver's own count of work (about a second of
            one core each).

    Raises:
        InfeasibleError: Where it is proven that there is no solution.
        SolveError: Where the model is refused: a number is too large.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.num_workers, settings.random_seed = 1, 0
    settings.max_deterministic_time, settings.relative_gap_limit = deterministic_seconds, gap_share
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        raise InfeasibleError("no solution satisfies all constraints")
    if status == cp_model.MODEL_INVALID:
        raise SolveError(f"the solver refused the model: {model.validate()[:200]}; look for numbers of very different size")
    if status == cp_model.UNKNOWN:
        return Searched(None, float(solver.best_objective_bound), False)
    return Searched(solver, float(solver.best_objective_bound), status == cp_model.OPTIMAL)
