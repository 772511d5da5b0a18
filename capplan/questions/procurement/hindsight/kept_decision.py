"""What it costs to keep a decision where an assumption turns out otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.extensive import first_stage_exists
from capplan.optimize.program import Solution
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
    found = decide(problem, warm=warm, proof=False, stated=stated)
    return Kept(regret_of(found, signed), signed_now(found.purchases), found.solution.warm)


def tell_kept(stated: Stated, signed: Signed, allowed: float, warm: Warm | None = None, finer: tuple[float, ...] = ()) -> Kept:
    r"""Tell whether keeping a decision costs more than is allowed, and about how much it costs where it does.

    Keeping it is within what is allowed where some plan that keeps it costs no more than :math:`(1 + r) L`, with L what no plan
    undercuts. It is not where some plan costs less than :math:`K / (1 + r)`, with K what no plan that keeps it undercuts. Neither the best
    plan nor the best that keeps it is looked for more closely than that takes.

    Args:
        stated: The program; its problem's gap is how closely plans are judged.
        allowed (r): Share above the best.
        warm: As for `keep_decision`.
        finer: Gaps to which they are judged after that, one after another, as long as they do not tell.

    Returns:
        Kept: A share of zero stands for any share that is allowed; one above it may be what plans in parts of lots say. What the best plan
            signs is missing where it was not looked for.
    """
    model, a = stated.model, stated.assumptions
    gaps = (a.gap_share, *finer)
    if a.service_level_share > 0 or written_out(model.program):
        for gap in gaps:
            kept = keep_decision(stated.problem.replaced(assumptions=_to_gap(a, gap)), signed, warm, stated)
            if abs(kept.regret_share - allowed) > gap:
                break
        return kept
    held = _holding(stated, signed)
    if held is None or not first_stage_exists(held.program):
        return Kept(inf, None, warm)
    seen = least_cost(model, a, warm and replace(warm, near=True))
    try:
        return _weighed(stated, held, seen, allowed, gaps)
    except InfeasibleError:
        return Kept(inf, None, seen.warm)


def _weighed(stated: Stated, held: Model, seen: Solution, allowed: float, gaps: tuple[float, ...]) -> Kept:
    """Return what keeping a decision costs, found out as `tell_kept` says.

    Args:
        held: The problem in which it is kept.
        seen: The best plan in parts of lots.
        gaps: One after another.

    Raises:
        InfeasibleError: If it cannot be kept.
    """
    times, a, least, share = 1 + allowed, stated.assumptions, seen.lower, 0.0
    kept = best_plan(_ending(held, times * least, times * least), a, seen.warm, False, exact=False, seen=seen)[1]
    best, warm = replace(seen, upper=inf, told=True), kept.warm
    for gap in gaps:
        a = _to_gap(a, gap)
        # where keeping looks too dear, what it costs at least is in question, and else what the best costs at least
        for keeps in (True, False) if kept.upper > times * best.upper else (False, True):
            if kept.upper <= times * least:
                return Kept(0.0, None, warm)
            if kept.lower > times * best.upper:
                break
            if keeps:
                closer = _judged(held, a, warm, seen, times * least, times * best.upper)
                kept = replace(closer, lower=max(kept.lower, closer.lower), upper=min(kept.upper, closer.upper))
            else:
                closer = _judged(stated.model, a, warm, seen, kept.lower / times, inf)
                least, best = max(least, closer.lower), closer if closer.upper <= best.upper else best
            warm = closer.warm
        told = kept.lower > times * best.upper
        share = _share(kept.lower, seen.lower) if told else _share(kept.upper, best.upper)
        if told or (kept.upper > times * least and abs(share - allowed) > gap):
            break
    if kept.upper <= times * least:
        return Kept(0.0, None, warm)
    signs = signed_now(purchase_table(stated.choices, stated.model.lots(best.x).round())) if not best.told else None
    return Kept(share, signs, warm)


def _judged(model: Model, a: ProcurementAssumptions, warm: Warm | None, seen: Solution, enough: float, too_dear: float) -> Solution:
    """Return the best plan, or, sooner, one that costs no more than is enough, or one at all where none costs as little as is too dear."""
    found = best_plan(_ending(model, enough, too_dear), a, warm, False, exact=False, seen=replace(seen, warm=warm))[1]
    if not found.told or found.upper <= enough or found.lower > too_dear:
        return found
    # what is paid beside the program's own cost left it above what was enough
    return best_plan(model, a, found.warm, False, exact=False, seen=replace(seen, warm=found.warm))[1]


def _ending(model: Model, enough: float, too_dear: float) -> Model:
    """Return a model of which no plan is wanted that costs less than is enough, and none where all cost more than is too dear."""
    return replace(model, program=replace(model.program, enough=enough, too_dear=too_dear))


def _to_gap(a: ProcurementAssumptions, gap: float) -> ProcurementAssumptions:
    """Return assumptions with another gap."""
    return a.model_copy(update={"gap_share": gap})


def _share(kept: float, best: float) -> float:
    """Return what keeping costs above the best, as a share of it."""
    return float(max(kept - best, 0.0) / max(abs(best), 1e-9))


def regret_of(found: Decided, signed: Signed) -> float:
    """Return what signing something else costs above a plan that was found, as a share of it; infinite where it cannot be signed."""
    best, held = found.solution, _holding(found, signed)
    if held is None:
        return inf
    try:
        kept = best_plan(held, found.problem.assumptions, best.warm, False, exact=False, seen=best)[1]
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
