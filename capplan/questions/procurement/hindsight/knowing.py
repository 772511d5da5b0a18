"""What knowing would have been worth: what was signed, held against the best plan made with what came."""

from collections.abc import Mapping
from math import inf, nan

import pandas as pd

from capplan.questions.procurement.decide import decide
from capplan.questions.procurement.hindsight.kept_decision import Signed, regret_of, signed_now
from capplan.questions.procurement.problem import Problem

COLUMNS = ["known", "worth_usd", "worth_share", "gap_usd", "beyond_gap", "would_have_signed"]


def worth_of_knowing(signed: Signed, cases: Mapping[str, Problem]) -> pd.DataFrame:
    r"""Say what it would have been worth to know each of several things when a plan was signed.

    .. math:: v = \min_{x:\,x_{now} = \bar x} z(x) - \min_x z(x) \ge 0

    with z the risk-weighted cost of the world that came: both sides buy later and use by the hour as is best for them, by the same
    dispatch, and differ in what was signed alone.

    Args:
        signed: What was signed: lots by offer and quarter.
        cases: By what is known: the problem as it then looked, with that set to what came.

    Returns:
        DataFrame: known, worth_usd (missing where what was signed could not be signed in that world), worth_share (of the best plan's
            cost), gap_usd (within which the best plan is proven), beyond_gap (is it worth more than that?), would_have_signed.
    """
    rows = []
    for name, problem in cases.items():
        found = decide(problem, proof=False)
        best, gap = float(found.solution.upper), float(found.solution.upper - found.solution.lower)
        share = regret_of(found, signed)
        share = share if share < inf else nan
        worth = share * max(abs(best), 1e-9)
        rows.append((name, worth, share, gap, worth > gap, _words(signed_now(found.purchases))))
    return pd.DataFrame(rows, columns=COLUMNS).astype({"worth_usd": float, "worth_share": float, "gap_usd": float, "beyond_gap": bool})


def _words(signed: Signed) -> str:
    return ", ".join(f"{offer} from {quarter}: {lots:g} lots" for (offer, quarter), lots in sorted(signed.items())) or "nothing"


def demand_that_came(demand: pd.DataFrame, came: pd.DataFrame) -> pd.DataFrame:
    r"""Put the work that came in the place of the paths, as far as it was measured.

    .. math:: w'_{sb} = \bar w_b\,\frac{A}{P} + (1 - m)\,w_{sb}

    with P the planned work of a quarter, m the part of it that falls into months that were measured, and A the work that came in them. The
    hours within a quarter keep the plan's shape, and what was not measured stays as uncertain as it was.

    Args:
        demand (path, probability, class, region, quarter, block, hours, work_per_hour): Work as the plan saw it.
        came: class, region, quarter, ratio (A / P), measured_share (m).
    """
    keys = ["class", "region", "quarter"]
    rows = demand.merge(came[[*keys, "ratio", "measured_share"]], on=keys, how="left")
    weighted = (rows["work_per_hour"] * rows["probability"]).groupby([rows[key] for key in (*keys, "block")]).transform("sum")
    total = rows["probability"].groupby([rows[key] for key in (*keys, "block")]).transform("sum")
    mean = weighted / total
    known = mean * rows["ratio"] + (1 - rows["measured_share"]) * rows["work_per_hour"]
    return demand.assign(work_per_hour=known.where(rows["ratio"].notna(), rows["work_per_hour"]).to_numpy())
