"""What it costs to keep a decision where an assumption turns out otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pandas as pd

from capplan.optimize.extensive import first_stage_exists
from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import Warm
from capplan.questions.procurement.answer_tables import purchase_table
from capplan.questions.procurement.decide import Decided, Stated, decide
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.agreement_proof import best_plan, least_cost
from capplan.questions.procurement.program.budget_proof import written_out
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.supply.choices import lots_of
from capplan.questions.procurement.supply.departures import DEPARTURE

#: What is signed now: lots by offer and quarter.
Signed = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Kept:
    """A decision that is kept, beside the best one.

    Args:
        regret_share: What keeping it costs above the best, as a share of the best; infinite where it is not possible any more.
        signed: What would be signed now in the best plan; None where it was not looked for.
        warm: What the search leaves for the next question like it.
    """

    regret_share: float
    signed: Signed | None
    warm: Warm | None = None


def signed_now(purchases: pd.DataFrame) -> Signed:
    """Return the lots of a table of purchases that are signed before the next review."""
    firm = purchases[purchases["firm"]]
    return dict(zip(zip(firm["offer_id"], firm["quarter"], strict=True), firm["lots"].astype(float), strict=True))


def keep_decision(problem: Problem, signed: Signed, warm: Warm | None = None, stated: Stated | None = None) -> Kept:
    r"""Ask what it costs to sign what was decided under other assumptions: later purchases and use adapt, what is signed now does not.

    .. math:: r = \frac{\min_{x:\,x_{now} = \bar x}\, z(x) - \min_x z(x)}{\min_x z(x)}

    Args:
        warm: What a question like it left: where recourse costs the same, its bases serve again, whatever demand is.
        stated: As for `decide`.
    """
    found = decide(problem, warm=warm, proof=None, stated=stated)
    return Kept(regret_of(found, signed), signed_now(found.purchases), found.solution.warm)


def tell_kept(stated: Stated, signed: Signed, allowed: float, warm: Warm | None = None) -> Kept:
    r"""Tell whether keeping a decision costs more than is allowed, and how much it costs where it does.

    Keeping it is within what is allowed where some plan that keeps it costs no more than :math:`(1 + r) L`, with L what no plan of parts of
    lots undercuts. Only where none does is the best plan looked for.

    Args:
        stated: The program; its problem's gap is how closely plans are judged.
        allowed (r): Share above the best.
        warm: As for `keep_decision`.

    Returns:
        Kept: A share of zero stands for any share that is allowed. What the best plan signs is missing where it was not looked for.
    """
    model, a = stated.model, stated.assumptions
    if a.service_level_share > 0 or written_out(model.program):
        return keep_decision(stated.problem, signed, warm, stated)
    held = _holding(stated, signed)
    if held is None or not first_stage_exists(held.program):
        return Kept(inf, None, warm)
    seen = least_cost(model, a, warm and replace(warm, near=True))
    enough = (1 + allowed) * seen.lower
    try:
        kept = best_plan(_enough(held, enough), a, seen.warm, None, exact=False, seen=seen)[1]
    except InfeasibleError:
        return Kept(inf, None, seen.warm)
    if kept.upper <= enough:
        return Kept(0.0, None, kept.warm)
    best = best_plan(model, a, kept.warm, None, exact=False, seen=replace(seen, warm=kept.warm))[1]
    upper = min(kept.upper, best_plan(held, a, best.warm, None, exact=False, seen=best)[1].upper)
    return Kept(_share(upper, best.upper), signed_now(purchase_table(stated.choices, model.lots(best.x).round())), best.warm)


def _enough(model: Model, cost: float) -> Model:
    """Return a model of which no plan is wanted that costs less."""
    return replace(model, program=replace(model.program, enough=cost))


def _share(kept: float, best: float) -> float:
    """Return what keeping costs above the best, as a share of it."""
    return float(max(kept - best, 0.0) / max(abs(best), 1e-9))


def regret_of(found: Decided, signed: Signed) -> float:
    """Return what signing something else costs above a plan that was found, as a share of it; infinite where it cannot be signed."""
    best, held = found.solution, _holding(found, signed)
    if held is None:
        return inf
    try:
        kept = best_plan(held, found.problem.assumptions, best.warm, None, exact=False, seen=best)[1]
    except InfeasibleError:
        return inf
    return _share(kept.upper, best.upper)


def _holding(stated: Stated, signed: Signed) -> Model | None:
    """Return the model in which is signed now what was signed; None where that is not on offer, or not all that must be signed."""
    program, table = stated.model.program, stated.choices.table
    firm = (table["firm"] & (table["kind"] != DEPARTURE)).to_numpy(bool)
    lots = lots_of(table, pd.Series(dict(signed), dtype=float))
    lower, upper = program.lower.copy(), program.upper.copy()
    place = stated.model.position[firm]
    # The program buys no more than demand can use; what is signed and not needed is paid all the same, up to what the offer allows.
    most = table["maximum_lots"].to_numpy(float)[firm]
    allowed = np.maximum(upper[place], np.where(np.isnan(most), np.inf, most))
    possible = ((lots[firm] >= lower[place]) & (lots[firm] <= allowed)).all() and set(signed) <= set(
        zip(table["offer_id"][firm], table["quarter"][firm], strict=True)
    )
    if not possible:
        return None
    lower[place] = upper[place] = lots[firm]
    return replace(stated.model, program=replace(program, lower=lower, upper=upper))
