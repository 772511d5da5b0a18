"""The proof of a plan under spend agreements: what no plan can cost less than, and better plans met on the way."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import SolveError
from capplan.optimize.clock import time_is_up
from capplan.optimize.extensive import solve_extensive
from capplan.optimize.l_shaped import FINEST_GAP, LShaped
from capplan.optimize.program import Marginals, Solution, TwoStage, blended_cost, expected_excess, point_costs, row_use, slack_columns
from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import Warm, solve_two_stage
from capplan.questions.procurement.program.budget_proof import solve_within_budgets, written_out
from capplan.questions.procurement.program.purchase_model import Model

#: Gap of the relaxation that says what a unit of each limit is worth.
PRICES_GAP = 1e-3
#: Gap of the plan in parts of lots that says how much is rented by the hour.
PARTS_GAP = 3e-2
#: Use by the hour that is planned is worth a plan of its own from this share of an agreement on.
STEERING_SHARE = 0.02
#: Times that the use by the hour is counted anew before none of it is.
MOST_COUNTS = 3
#: A difference in dollars below this is none.
NOTICEABLE_USD = 1.0


def best_plan(
    model: Model, a: ProcurementAssumptions, warm: Warm | None, proof: bool, *, exact: bool = True, seen: Solution | None = None
) -> tuple[Model, Solution]:
    """Return the best plan of a problem, and the model in which its use by the hour counts towards spend agreements.

    Args:
        model, a, warm: The problem, the risk weight, tail and gap, and what an earlier solve left.
        proof: Whether what any plan could cost is bounded where spend agreements run; where not, a plan near the best is enough, see
            `like_it`. Elsewhere bounds come with the plan, and in a small problem, which is written out whole.
        exact: Whether budgets that bind in a large model are planned for, and not only kept afterwards.
        seen: A plan like the one asked for, whose use by the hour counts.
    """
    if not model.years:
        return model, solve_within_budgets(model.program, model.soft, a.risk_weight, a.tail_share, a.gap_share, warm, exact=exact)
    small = written_out(model.program)
    if small and proof:
        return _written(model, count_use(model, a, warm, exact=exact, seen=seen), a)
    near = like_it(model, a, warm, seen or in_parts(model, a, warm))
    if not proof:
        return _written(model, near, a) if small else near
    lower, best = _keep(model, model.whole(), near, a)
    if best[1].upper - lower > a.gap_share * abs(best[1].upper) and not time_is_up():
        best = min(best, count_use(model, a, warm, exact=False, seen=best[1]), key=lambda plan: plan[1].upper)
    return _proven(lower, best, a)


def in_parts(model: Model, a: ProcurementAssumptions, warm: Warm | None) -> Solution:
    """Return the plan in parts of lots that says how much is rented by the hour."""
    parts = replace(model.program, integer=np.zeros_like(model.program.integer))
    return solve_within_budgets(parts, model.soft, a.risk_weight, a.tail_share, max(a.gap_share, PARTS_GAP), warm, exact=False)


def least_cost(model: Model, a: ProcurementAssumptions, warm: Warm | None) -> Solution:
    """Return the best plan in parts of lots, which counts on as much use by the hour as one like it; no plan that does costs less.

    What it leaves keeps the first stage there was before.
    """
    seen = in_parts(model, a, warm) if model.years else None
    now = model if seen is None else model.counting(rented(model, seen.recourse))
    parts = replace(now.program, integer=np.zeros_like(now.program.integer), expected=())
    found = solve_two_stage(parts, a.risk_weight, a.tail_share, a.gap_share / 2, warm=(seen and seen.warm) or warm)
    return found if found.warm is None or warm is None else replace(found, warm=replace(found.warm, x=warm.x))


def like_it(model: Model, a: ProcurementAssumptions, warm: Warm | None, seen: Solution) -> tuple[Model, Solution]:
    """Plan under spend agreements once, counting on as much use by the hour as a plan like it; what stays unspent is paid in full.

    The cost is that of the plan, whatever it counted on; two plans that counted on the same differ by what they are worth. Its lower bound
    holds among plans
    that count on as much.
    """
    now = model.counting(rented(model, seen.recourse))
    found = solve_within_budgets(now.program, now.soft, a.risk_weight, a.tail_share, a.gap_share, seen.warm or warm, exact=False)
    x = paid(model, found.x, found.recourse)
    upper = found.upper + float(model.program.c @ x) - float(now.program.c @ found.x)
    return model.counting(rented(model, found.recourse)), replace(found, x=x, lower=min(found.lower, upper), upper=upper)


def count_use(
    model: Model, a: ProcurementAssumptions, warm: Warm | None, *, exact: bool, seen: Solution | None = None
) -> tuple[Model, Solution]:
    """Plan under spend agreements; two ways to count what is rented by the hour, and the cheaper plan is kept.

    Either what a plan is expected to rent counts, but does not steer what is rented: first as a plan like it does (`seen`, or the one that
    may buy
    parts of lots), and less where the plan in whole lots rents less, so that no plan counts on spend that it does not lead to. Or what is
    planned
    for each hour of a quarter counts, is paid for like a contract, and steers. Both cost what they say at most.
    """
    seen = seen or in_parts(model, a, warm)
    steers = (model.pledged @ seen.x > STEERING_SHARE * np.array([max(year.open_usd, 0.0) for year in model.years])).any()
    counted, ways = rented(model, seen.recourse), []
    for _ in range(MOST_COUNTS):
        now = model.counting(counted)
        solution = solve_within_budgets(now.program, now.soft, a.risk_weight, a.tail_share, a.gap_share, seen.warm, exact=False)
        used = rented(model, solution.recourse)
        if (used >= counted - NOTICEABLE_USD).all():
            ways.append((now, solution))
            break
        counted, seen = np.minimum(counted, used), solution
    if steers or not ways:
        b = model.program.b.copy()
        b[model.spend_rows] = [year.open_usd for year in model.years]
        model = replace(model, program=replace(model.program, b=b))
        ways.append(
            (model, solve_within_budgets(model.program, model.soft, a.risk_weight, a.tail_share, a.gap_share, seen.warm, exact=False))
        )
    now, best = min(ways, key=lambda way: way[1].upper)
    if exact and best.status == "limit":  # a budget binds
        best = min(
            best,
            solve_within_budgets(now.program, now.soft, a.risk_weight, a.tail_share, a.gap_share, seen.warm),
            key=lambda plan: plan.upper,
        )
    return now, best


def _written(model: Model, best: tuple[Model, Solution], a: ProcurementAssumptions) -> tuple[Model, Solution]:
    """Write a small problem out whole, where all that is expected to be rented by the hour counts; return the best plan and its model."""
    whole = model.whole()
    exact = solve_extensive(whole, a.risk_weight, a.tail_share, a.gap_share)
    better = _better(model, whole, exact, best, a)
    if better[0] is not best[0]:
        better = better[0], replace(better[1], marginals=_marginals(better, a))
    return _proven(exact.lower, better, a)


def _proven(lower: float, best: tuple[Model, Solution], a: ProcurementAssumptions) -> tuple[Model, Solution]:
    """Return a plan with what no plan can cost less than."""
    now, plan = best
    lower = min(lower, plan.upper)
    gap = (plan.upper - lower) / max(abs(plan.upper), 1e-12)
    return now, replace(plan, lower=lower, status="optimal" if gap <= FINEST_GAP else "gap" if gap <= a.gap_share else "limit")


def _keep(model: Model, whole: TwoStage, best: tuple[Model, Solution], a: ProcurementAssumptions) -> tuple[float, tuple[Model, Solution]]:
    """Return what no plan can cost less than, and the best plan, with agreements and budgets kept.

    No use by the hour is planned, and dispatches at a few prices of agreements and budgets are mixed (`capplan.optimize.coupled`), which is
    exact.
    """
    search, budgets = LShaped(whole, a.risk_weight, a.tail_share, a.gap_share, None, best[1].warm), len(model.program.expected)
    try:
        found = search.solve()
    except InfeasibleError:
        raise
    except SolveError:
        # Short of time or of digits: the bound that was found until then stands, and the plan that came before.
        if not np.isfinite(search.lower):
            raise
        return search.lower, best
    better = _better(model, whole, found, best, a)
    better = better[0], replace(better[1], warm=found.warm)
    if better[1].x is not best[1].x:
        rows = np.zeros(len(model.program.b))
        rows[np.setdiff1d(np.arange(len(rows)), model.spend_rows)] = found.marginals.rows
        rows[model.spend_rows] = -found.marginals.expected[budgets:]
        better = better[0], replace(better[1], marginals=Marginals(rows, found.marginals.expected[:budgets], found.marginals.reduced_costs))
    return found.lower, better


def _marginals(best: tuple[Model, Solution], a: ProcurementAssumptions) -> Marginals:
    """Return duals and reduced costs of the model in which a plan's use by the hour counts."""
    now, plan = best
    relaxed = replace(now.program, integer=np.zeros_like(now.program.integer))
    return solve_within_budgets(relaxed, now.soft, a.risk_weight, a.tail_share, PRICES_GAP, plan.warm, exact=False).marginals


def row_prices(model: Model, whole: TwoStage, solution: Solution) -> np.ndarray:
    """Return what a unit of each budget and each contract year is worth at a plan, no more than is allowed, (K,)."""
    worth = (np.maximum(-solution.marginals.expected, 0.0), np.maximum(solution.marginals.rows[model.spend_rows], 0.0))
    return _allowed(model, whole, np.concatenate(worth))


def _allowed(model: Model, whole: TwoStage, price: np.ndarray) -> np.ndarray:
    """Return prices above which breaking a row for its penalty would earn money; a year that rolls over is worth no more than the next."""
    price = np.maximum(price, 0.0)
    budgets = len(whole.expected) - len(model.years)
    for k, row in enumerate(whole.expected[:budgets]):
        free = slack_columns(whole, row.a)
        price[k] = min([price[k], *(whole.c[free] / -row.a[free]).tolist()])
    following: dict[str, float] = {}
    for k in reversed(range(len(model.years))):
        year = model.years[k]
        most = float(whole.c[model.unspent[k]]) + (following.get(year.agreement_id, 0.0) if year.rolls else 0.0)
        price[budgets + k] = following[year.agreement_id] = min(price[budgets + k], most)
    return price


def _better(
    model: Model, whole: TwoStage, found: Solution, best: tuple[Model, Solution], a: ProcurementAssumptions
) -> tuple[Model, Solution]:
    """Return the best plan so far, after purchases and a dispatch that pay what they leave unspent."""
    cost = np.bincount(whole.scenario, weights=whole.weight * point_costs(whole, found.recourse), minlength=len(whole.probability))
    x = paid(model, found.x, found.recourse)
    upper = float(whole.c @ x) + blended_cost(cost, whole.probability, a.risk_weight, a.tail_share)
    if upper >= best[1].upper or (expected_excess(whole, x, found.recourse) > 0).any():
        return best
    return model.counting(rented(model, found.recourse)), replace(
        best[1], x=x, upper=upper, cost_by_scenario=cost, use=lambda: found.recourse
    )


def rented(model: Model, decisions: sparse.csr_matrix) -> np.ndarray:
    """Return what decisions are expected to rent by the hour in each contract year, (years,)."""
    program = model.program
    weight = program.probability[program.scenario]
    return np.array([-float((weight * row.weight * row.points) @ row_use(program, row, decisions)) for row in model.agreed])


def paid(model: Model, x: np.ndarray, decisions: sparse.csr_matrix) -> np.ndarray:
    """Return the first stage that pays what stays unspent of each contract year."""
    plain = model.settled(x, np.zeros(len(model.years)))
    used = rented(model, decisions)
    left = np.zeros(len(used))
    carried: dict[str, float] = {}
    for k, (year, row) in enumerate(zip(model.years, model.agreed, strict=True)):
        left[k] = max(float(row.a @ plain) - used[k] + carried.pop(year.agreement_id, 0.0) - row.limit, 0.0)
        if year.rolls:
            carried[year.agreement_id] = left[k]
    return model.settled(x, left)
