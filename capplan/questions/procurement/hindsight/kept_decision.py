"""What it costs to keep a decision where an assumption turns out otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import Warm
from capplan.questions.procurement.decide import Decided, Stated, decide
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.agreement_proof import best_plan
from capplan.questions.procurement.supply.choices import lots_of
from capplan.questions.procurement.supply.departures import DEPARTURE

#: What is signed now: lots by offer and quarter.
Signed = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Kept:
    """A decision that is kept, beside the best one.

    Args:
        regret_share: What keeping it costs above the best, as a share of the best; infinite where it is not possible any more.
        signed: What would be signed now in the best plan.
        warm: What the search leaves for the next question like it.
    """

    regret_share: float
    signed: Signed
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


def regret_of(found: Decided, signed: Signed) -> float:
    """Return what signing something else costs above a plan that was found, as a share of it; infinite where it cannot be signed."""
    program, table, best = found.model.program, found.choices.table, found.solution
    firm = (table["firm"] & (table["kind"] != DEPARTURE)).to_numpy(bool)
    lots = lots_of(table, pd.Series(dict(signed), dtype=float))
    lower, upper = program.lower.copy(), program.upper.copy()
    place = found.model.position[firm]
    # The program buys no more than demand can use; what is signed and not needed is paid all the same, up to what the offer allows.
    most = table["maximum_lots"].to_numpy(float)[firm]
    allowed = np.maximum(upper[place], np.where(np.isnan(most), np.inf, most))
    # What can no longer be signed, or must be signed besides, makes the decision impossible.
    possible = ((lots[firm] >= lower[place]) & (lots[firm] <= allowed)).all() and set(signed) <= set(
        zip(table["offer_id"][firm], table["quarter"][firm], strict=True)
    )
    if not possible:
        return float("inf")
    lower[place] = upper[place] = lots[firm]
    try:
        held = replace(found.model, program=replace(program, lower=lower, upper=upper))
        kept = best_plan(held, found.problem.assumptions, best.warm, None, exact=False, seen=best)[1]
    except InfeasibleError:
        return float("inf")
    return float(max(kept.upper - best.upper, 0.0) / max(abs(best.upper), 1e-9))
