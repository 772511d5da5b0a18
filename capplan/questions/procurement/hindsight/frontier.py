"""What it costs to be safer: the best plan at each weight of the bad cases, with its proven gap."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from capplan.book.scenario import FrontierAssumptions
from capplan.optimize.program import Solution, blended_cost
from capplan.questions.procurement.answer_tables import purchase_table
from capplan.questions.procurement.decide import Decided, decide
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.agreement_proof import best_plan
from capplan.text import money

#: Proven gap at which the other points may stop; they are there to be compared, not to be signed.
POINT_GAP = 3e-3
COLUMNS = ["risk_weight", "expected_usd", "cvar_usd", "objective_usd", "lower_usd", "gap_share", "stopped_by", "contracts", "accelerators"]


@dataclass(frozen=True)
class Frontier:
    """The efficient frontier of expected cost against the bad cases.

    Args:
        table: One row a risk weight: risk_weight, expected_usd, cvar_usd, objective_usd (their blend at this weight), lower_usd (no plan
            has a smaller blend), gap_share, stopped_by (optimal, gap or limit), contracts, accelerators (signed in all), chosen (the plan's
            own weight).
        purchases: risk_weight, and the columns of `answer.Purchases.purchases`.
        headline, notes: One sentence; what must be known.
    """

    table: pd.DataFrame
    purchases: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


class _Plan(NamedTuple):
    """One first stage: what it is, what it costs in each path, and which weight it was made for."""

    x: np.ndarray
    first_usd: float
    cost: np.ndarray
    found: Solution


def trace_frontier(problem: Problem, a: FrontierAssumptions) -> Frontier:
    r"""Say what each step of caution costs on average, and what it takes off the bad cases.

    .. math:: \min_x\ c^T x + (1-\lambda)\,E[C_s(x)] + \lambda\,\mathrm{CVaR}_\alpha(C_s(x)),\quad \lambda = 0, \dots, 1

    Each weight is solved from the cuts of the last one, which hold for all weights. A plan that was found for one weight and blends better
    at
    another takes its place there; then expected cost rises and CVaR falls along the frontier. The lower bound of each weight is its own.

    Source: Rockafellar and Uryasev, "Optimization of conditional value-at-risk", Journal of Risk 2 (2000); the blends are the supported
        points of the efficient frontier (weighted sums, Geoffrion 1968).
    """
    base = decide(problem.replaced(assumptions=a))
    weights = np.unique([*np.linspace(0.0, 1.0, a.frontier_points).round(6), a.risk_weight])
    found = {a.risk_weight: base.solution}
    for side in (weights[weights < a.risk_weight][::-1], weights[weights > a.risk_weight]):
        warm = base.solution.warm
        for weight in side.tolist():
            here = a.model_copy(update={"risk_weight": weight, "gap_share": max(a.gap_share, POINT_GAP)})
            found[weight] = best_plan(base.model, here, warm, True)[1]
            warm = found[weight].warm or warm
    plans = [_Plan(each.x, float(base.model.program.c @ each.x), each.cost_by_scenario, each) for each in found.values()]
    rows, purchases = [], []
    for weight in weights.tolist():
        value = [_blend(plan, base, weight, a.tail_share) for plan in plans]
        best = plans[int(np.argmin(np.round(value, 2)))] if weight != a.risk_weight else plans[0]
        objective, lower = _blend(best, base, weight, a.tail_share), found[weight].lower
        gap = max(objective - lower, 0.0) / max(abs(objective), 1e-9)
        bought = purchase_table(base.choices, base.model.lots(best.x).round())
        status = found[weight].status if best.found is found[weight] else "gap" if gap <= max(a.gap_share, POINT_GAP) else "limit"
        rows.append(
            (
                weight,
                _blend(best, base, 0.0, a.tail_share),
                _blend(best, base, 1.0, a.tail_share),
                objective,
                lower,
                gap,
                status,
                len(bought),
                float(bought["accelerators"].sum()),
            )
        )
        purchases.append(bought.assign(risk_weight=weight))
    table = pd.DataFrame(rows, columns=COLUMNS).assign(chosen=weights == a.risk_weight)
    signed = pd.concat(purchases, ignore_index=True)
    notes = (
        (
            f"Each point is the best plan at its weight, proven within {100 * table['gap_share'].max():.2g} % or better; "
            "points nearer than that cannot be told apart."
        ),
    )
    return Frontier(table, signed[["risk_weight", *[name for name in signed.columns if name != "risk_weight"]]], _headline(table, a), notes)


def _blend(plan: _Plan, base: Decided, weight: float, tail_share: float) -> float:
    """Return a plan's cost at a risk weight."""
    return plan.first_usd + blended_cost(plan.cost, base.model.program.probability, weight, tail_share)


def _headline(table: pd.DataFrame, a: FrontierAssumptions) -> str:
    """Say what full caution would cost and bring, against looking at the average only."""
    bold, careful = table.iloc[0], table.iloc[-1]
    more, less = careful["expected_usd"] - bold["expected_usd"], bold["cvar_usd"] - careful["cvar_usd"]
    if less < 1:
        return "The plan with the lowest expected cost is also the one with the cheapest bad cases: caution costs nothing here."
    return (
        f"From a plan for the average to one for the worst {100 * a.tail_share:g} % of cases: {money(max(more, 0.0))} more in expectation"
        f" buys {money(less)} less in the bad cases."
    )
