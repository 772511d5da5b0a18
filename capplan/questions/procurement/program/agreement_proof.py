"""The proof of a plan under spend agreements: what no plan can cost less than, and better plans met on the way."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import SolveError
from capplan.optimize.clock import OutOfTimeError, time_is_up
from capplan.optimize.extensive import solve_extensive
from capplan.optimize.l_shaped import FINEST_GAP, LShaped
from capplan.optimize.priced import envelope_weights, priced_program
from capplan.optimize.program import Marginals, Solution, TwoStage, blended_cost, expected_excess, point_costs, row_use, slack_columns
from capplan.optimize.solver import InfeasibleError, UnboundedError
from capplan.optimize.two_stage import Warm, solve_two_stage
from capplan.questions.procurement.program.budget_proof import solve_within_budgets, written_out
from capplan.questions.procurement.program.purchase_model import Model

#: Share of the gap that a step of the prices aims at.
STEP_SHARE = 0.3
#: Gap of these relaxations at least.
PRICES_GAP = 1e-3
#: Gap of the plan in parts of lots that says how much is rented by the hour.
PARTS_GAP = 3e-2
#: Use by the hour that is planned is worth a plan of its own from this share of an agreement on.
STEERING_SHARE = 0.02
#: Times that the use by the hour is counted anew before none of it is.
MOST_COUNTS = 3
#: A difference in dollars below this is none.
NOTICEABLE_USD = 1.0


class Effort(NamedTuple):
    """How long to look."""

    kept: bool  #: Whether agreements and budgets are kept and not only paid for at a price.
    prices: int  #: Prices of the agreements that are tried on the relaxation.
    counts: int  #: Halvings in the search for how much use by the hour a plan may count on.


FULL = Effort(kept=True, prices=5, counts=3)
QUICK = Effort(kept=False, prices=0, counts=1)


def best_plan(
    model: Model, a: ProcurementAssumptions, warm: Warm | None, effort: Effort | None, *, exact: bool = True, seen: Solution | None = None
) -> tuple[Model, Solution]:
    """Return the best plan of a problem, and the model in which its use by the hour counts towards spend agreements.

    Args:
        model, a, warm: The problem, the risk weight, tail and gap, and what an earlier solve left.
        effort: How long bounds are looked for where spend agreements run; None where a plan near the best is enough, see `like_it`.
            Elsewhere bounds come with the plan, and in a small problem, which is written out whole.
        exact: Whether budgets that bind in a large model are planned for, and not only kept afterwards.
        seen: A plan like the one asked for, whose use by the hour counts.
    """
    if not model.years:
        return model, solve_within_budgets(model.program, model.soft, a.risk_weight, a.tail_share, a.gap_share, warm, exact=exact)
    small = written_out(model.program)
    if effort is None or (effort.kept and not small):
        near = like_it(model, a, warm, seen or in_parts(model, a, warm))
        if effort is None:
            return prove(model, near, a, FULL) if small else near
        kept = _keep(model, model.whole(), near, a)
        if kept is not None:
            return _proven(*kept, a)
        seen = near[1]
    return prove(model, count_use(model, a, warm, exact=exact, seen=seen), a, effort)


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


def prove(model: Model, best: tuple[Model, Solution], a: ProcurementAssumptions, effort: Effort) -> tuple[Model, Solution]:
    r"""Bound what any plan can cost, where all that is expected to be rented by the hour counts towards agreements; look for a better plan.

    A small problem is written out whole. In a large one agreements and budgets are paid for at a price instead of kept, so that every
    hour stays on its own (`capplan.optimize.priced`); the price follows what is short, a subgradient of the bound. What is rented there
    says how much use a plan may count on: as much of it as leads to a plan that rents that much.

    Args:
        best: The plan that is to be proven, and the model in which its use by the hour counts.

    Returns:
        The best plan and its model; its bounds hold for the problem itself.
    """
    whole, found_in = model.whole(), best[0]
    if written_out(whole):
        exact = solve_extensive(whole, a.risk_weight, a.tail_share, a.gap_share)
        lower, best = exact.lower, _better(model, whole, exact, best, a)
    else:
        lower, best = _bound(model, whole, best, a, effort)
    if best[0] is not found_in:
        best = best[0], replace(best[1], marginals=_marginals(best, a))
    return _proven(lower, best, a)


def _proven(lower: float, best: tuple[Model, Solution], a: ProcurementAssumptions) -> tuple[Model, Solution]:
    """Return a plan with what no plan can cost less than."""
    now, plan = best
    lower = min(lower, plan.upper)
    gap = (plan.upper - lower) / max(abs(plan.upper), 1e-12)
    return now, replace(plan, lower=lower, status="optimal" if gap <= FINEST_GAP else "gap" if gap <= a.gap_share else "limit")


def _keep(
    model: Model, whole: TwoStage, best: tuple[Model, Solution], a: ProcurementAssumptions
) -> tuple[float, tuple[Model, Solution]] | None:
    """Return what no plan can cost less than, and the best plan, with agreements and budgets kept; None if digits fail.

    No use by the hour is planned, and dispatches at a few prices of agreements and budgets are mixed (`capplan.optimize.coupled`), which is
    exact.
    """
    search, budgets = LShaped(whole, a.risk_weight, a.tail_share, a.gap_share, None, best[1].warm), len(model.program.expected)
    try:
        found = search.solve()
    except InfeasibleError:
        raise
    except OutOfTimeError:
        return search.lower, best
    except SolveError:
        return None
    if (expected_excess(whole, found.x, found.recourse) > 0).any():
        return None
    better = _better(model, whole, found, best, a)
    better = better[0], replace(better[1], warm=found.warm)
    if better[1].x is not best[1].x:
        rows = np.zeros(len(model.program.b))
        rows[np.setdiff1d(np.arange(len(rows)), model.spend_rows)] = found.marginals.rows
        rows[model.spend_rows] = -found.marginals.expected[budgets:]
        better = better[0], replace(better[1], marginals=Marginals(rows, found.marginals.expected[:budgets], found.marginals.reduced_costs))
    return found.lower, better


def _bound(
    model: Model, whole: TwoStage, best: tuple[Model, Solution], a: ProcurementAssumptions, effort: Effort
) -> tuple[float, tuple[Model, Solution]]:
    """Return what no plan can cost less than, and the best plan met on the way."""
    solution = best[1]
    weight = envelope_weights(solution.cost_by_scenario, whole.probability, a.risk_weight, a.tail_share)
    worth = row_prices(model, whole, solution)
    # A price that is too high for a scenario of low weight pays for use without end: less of it bounds too, and none always does.
    for share in dict.fromkeys((1.0, 1 - a.risk_weight, 0.0)):
        try:
            price = _best_price(model, whole, share * worth, weight, solution, a, effort.prices if share == 1 else 0)
            program, constant = priced_program(whole, price, weight)
            found = solve_two_stage(program, 0.0, 1.0, a.gap_share / 2, warm=solution.warm)
            break
        except UnboundedError:
            if share == 0:
                raise
    lower, most = found.lower - constant, rented(model, found.recourse)
    best = _better(model, whole, found, best, a)
    share, step = 1.0, 0.5
    for _ in range(effort.counts):
        if best[1].upper - lower <= a.gap_share * abs(best[1].upper) or time_is_up():
            break
        share -= step
        now = model.counting(share * most)
        tried = solve_within_budgets(now.program, now.soft, a.risk_weight, a.tail_share, a.gap_share, solution.warm, exact=False)
        best = _better(model, whole, tried, best, a)
        step = abs(step) / 2 * (1 if (rented(model, tried.recourse) < share * most - NOTICEABLE_USD).any() else -1)
    return lower, best


def _best_price(
    model: Model, whole: TwoStage, price: np.ndarray, weight: np.ndarray, solution: Solution, a: ProcurementAssumptions, tries: int
) -> np.ndarray:
    """Return the prices at which the relaxation bounds best, from a few steps along its subgradients; those of budgets stay."""
    budgets, step, lower, centre, warm = len(model.program.expected), STEP_SHARE, -np.inf, price, solution.warm
    direction = np.zeros(len(model.years))
    for _ in range(tries):
        if time_is_up():
            break
        program, constant = priced_program(whole, price, weight)
        relaxed = replace(program, integer=np.zeros_like(program.integer))
        found = solve_two_stage(relaxed, 0.0, 1.0, max(a.gap_share / 2, PRICES_GAP), warm=warm)
        warm = found.warm or warm
        if found.lower - constant > lower:
            lower, centre = found.lower - constant, price
            direction = np.array([float(row.a @ found.x) - row.limit for row in model.agreed]) - rented(model, found.recourse)
        else:
            step /= 2
        if solution.upper - lower <= a.gap_share * abs(solution.upper) or not direction.any():
            break
        move = step * (solution.upper - lower) / float(direction @ direction) * direction
        price = _allowed(model, whole, centre + np.append(np.zeros(budgets), move))
    return centre


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
