"""Budgets on committed plus expected spend, which couple all points of a quarter: proven within the wanted gap, also where large."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.clock import OutOfTimeError
from capplan.optimize.extensive import solve_extensive
from capplan.optimize.l_shaped import LShaped
from capplan.optimize.program import (
    ExpectedRow,
    Marginals,
    Solution,
    TwoStage,
    blended_cost,
    check_program,
    expected_excess,
    held_between,
    point_costs,
    slack_columns,
)
from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import Warm, solve_two_stage

#: Up to this many recourse columns, a model is solved with all points written out.
EXACT_COLUMNS = 4_000
#: Gap at which budget prices need not be told apart as finely.
COARSE_GAP = 5e-3
#: Overspending below this share of a budget is rounding.
TOLERANCE = 1e-9


def written_out(program: TwoStage) -> bool:
    """Tell whether a program is small enough to be solved with all points written out."""
    return program.h.shape[0] * len(program.q) <= EXACT_COLUMNS


def solve_within_budgets(
    program: TwoStage,
    soft: np.ndarray,
    risk_weight: float,
    tail_share: float,
    gap_share: float,
    warm: Warm | None = None,
    *,
    exact: bool = True,
) -> Solution:
    """Solve a purchase problem, whether or not its budgets bind.

    A small model is written out. In a large one dispatches at a few prices of the budgets are mixed (`capplan.optimize.coupled`), which is
    as
    exact. Where that does not settle for lack of digits it is done more coarsely, and only where that fails too are contracts chosen
    without
    the budgets' expected part, see `_ration_after`.

    Args:
        program: The problem; its expected rows are the budgets.
        soft ((len(program.expected),) bool): Which budgets may be broken at a price; each has a continuous first-stage variable for the
            excess.
        risk_weight, tail_share, gap_share, warm: See `capplan.optimize.two_stage.solve_two_stage`.
        exact: Where not, budgets that bind in a large model are kept after the contracts are chosen, which takes seconds instead of
            minutes; the bounds stay valid.
    """
    if not program.expected or written_out(program):
        return solve_two_stage(program, risk_weight, tail_share, gap_share, warm=warm)
    check_program(program, risk_weight, tail_share, gap_share)
    for gap in (gap_share, max(gap_share, COARSE_GAP)) if exact else ():
        try:
            found = LShaped(program, risk_weight, tail_share, gap, None, warm).solve()
        except InfeasibleError:
            raise
        except OutOfTimeError:
            break
        except SolveError:
            continue
        return found if found.gap_share <= gap_share else replace(found, status="limit")
    return _ration_after(program, soft, risk_weight, tail_share, gap_share, warm)


def _ration_after(
    program: TwoStage, soft: np.ndarray, risk_weight: float, tail_share: float, gap_share: float, warm: Warm | None
) -> Solution:
    r"""Choose contracts without the budgets' expected part, then keep these: soft budgets pay their penalty, hard ones ration use.

    .. math:: \min_y \sum_p \omega_p q^T y_p\quad\text{s.t. the recourse rows and}\quad a^T x + \sum_p \omega_p g^T y_p \le B

    That is a feasible plan, and the bound without budgets stays valid. The gap between them is what is proven; the status is "limit" unless
    it is within the wanted gap. The arguments are those of `solve_within_budgets`.
    """
    free = solve_two_stage(replace(program, expected=()), risk_weight, tail_share, gap_share, warm=warm)
    x, decisions = free.x.copy(), free.recourse
    over = expected_excess(program, x, decisions, TOLERANCE)
    marginals = Marginals(free.marginals.rows, np.zeros(len(over)), free.marginals.reduced_costs)
    hard = []
    for i in np.flatnonzero(over).tolist():
        row = program.expected[i]
        slack = slack_columns(program, row.a)
        if soft[i] and len(slack):
            x[slack[0]] += over[i] / -row.a[slack[0]]
        else:
            hard.append(row)
    if hard:
        decisions = _ration(program, x, decisions, hard)
    cost = np.bincount(program.scenario, weights=program.weight * point_costs(program, decisions), minlength=len(program.probability))
    upper = float(program.c @ x) + blended_cost(cost, program.probability, risk_weight, tail_share)
    gap = (upper - free.lower) / max(abs(upper), TOLERANCE)
    status = "gap" if gap <= gap_share else "limit"
    return replace(
        free,
        x=x,
        lower=min(free.lower, upper),
        upper=upper,
        cost_by_scenario=cost,
        status=status,
        use=lambda: decisions,
        marginals=marginals,
    )


def _ration(program: TwoStage, x: np.ndarray, decisions: sparse.csr_matrix, rows: list[ExpectedRow]) -> sparse.csr_matrix:
    """Return decisions that keep hard budgets at given purchases, quarter by quarter, at least expected cost."""
    result = decisions.tolil()
    while rows:
        points = np.flatnonzero(rows[0].points)
        here = [row for row in program.expected if np.array_equal(row.points, rows[0].points)]
        rows = [row for row in rows if not np.array_equal(row.points, rows[0].points)]
        quarter = replace(
            held_between(program, x, x),
            h=program.h[points],
            technology=program.technology[points],
            weight=program.weight[points],
            scenario=program.scenario[points],
            expected=tuple(replace(row, points=row.points[points], weight=row.weight[points]) for row in here),
        )
        result[points] = solve_extensive(quarter, 0.0, 1.0, 0.0).recourse
    return result.tocsr()
