"""A generic two-stage stochastic mixed-integer program with a certified gap; the entry for every question that uses one."""

from typing import Literal

import numpy as np

from capplan.errors import SolveError
from capplan.optimize.clock import OutOfTimeError
from capplan.optimize.evaluation import Warm
from capplan.optimize.extensive import solve_extensive
from capplan.optimize.l_shaped import LShaped
from capplan.optimize.program import ExpectedRow, Solution, TwoStage, blended_cost, check_program, risk_weights
from capplan.optimize.solver import InfeasibleError

__all__ = ["ExpectedRow", "Solution", "TwoStage", "blended_cost", "risk_weights", "solve_two_stage"]
Array = np.ndarray
Method = Literal["automatic", "extensive", "l_shaped"]
EXTENSIVE_COLUMNS = 4_000
MOST_COLUMNS = 2_000_000


def solve_two_stage(
    problem: TwoStage,
    risk_weight: float = 0.0,
    tail_share: float = 0.2,
    gap_share: float = 1e-6,
    start: Array | None = None,
    *,
    warm: Warm | None = None,
    method: Method = "automatic",
) -> Solution:
    r"""Find the first stage that costs least, counting what it lets the second stage do.

    .. math:: \min_x c^T x + (1-\lambda)\,E[C_s(x)] + \lambda\,\mathrm{CVaR}_\alpha(C_s(x)),\quad C_s(x) = \sum_{p \in s} w_p\, q^T y_p

    Args:
        risk_weight: lambda: 0 looks at the mean only, 1 at the bad cases only.
        tail_share: alpha: CVaR is the mean recourse cost of this share of worst scenarios (0.2 = "CVaR at 0.8").
        gap_share: Proven relative gap at which the search may stop.
        start ((n,), optional): A first stage to start from.
        warm: `Solution.warm` of an earlier solve: its cuts are used again where only c, A, bounds or the risk weight changed, its bases
            also where right-hand sides changed.
        method: "extensive" writes all points out, "l_shaped" decomposes; "automatic" decides by the number of recourse columns. Where the
            decomposition does not settle for numerical reasons, a program that can be written out is.

    Returns:
        Solution: With lower <= optimum <= upper.

    Raises:
        InfeasibleError: No first stage leaves every point a feasible recourse.
        OutOfTimeError: A time limit (`clock.time_limit`) came before any first stage was found.
        UnboundedError: A cost can fall without end.
        SolveError: The parts of the program do not fit together.
    """
    check_program(problem, risk_weight, tail_share, gap_share)
    columns = problem.h.shape[0] * len(problem.q)
    if method == "l_shaped" or (method == "automatic" and columns > EXTENSIVE_COLUMNS):
        try:
            return LShaped(problem, risk_weight, tail_share, gap_share, start, warm).solve()
        except (InfeasibleError, OutOfTimeError):
            raise
        except SolveError:
            if columns > MOST_COLUMNS:
                raise
    return solve_extensive(problem, risk_weight, tail_share, gap_share, start)
