"""What is rented by the hour only from or until a day."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.supply.market import USAGE_TERMS
from capplan.records import records
from capplan.units import quarter_end, quarter_start

#: Offers of one kind compete: the pool rents at the cheapest.
KIND = ["provider", "accelerator", "region", "term"]
_DAYS = ("available_from", "available_to")


def with_windows(problem: Problem, limits: pd.DataFrame, quarters: Sequence[str]) -> tuple[Problem, pd.DataFrame]:
    """Hold offers by the hour to their window: nothing is rented of them in a quarter that they do not cover whole.

    Where several offers of a kind (provider, accelerator, region, term) have windows, the one that covers most quarters counts, then the
    cheapest: one that comes later and costs less is left out rather than counted too early.

    Args:
        problem: With its offers.
        limits: Table limits with all its columns.
        quarters: Planned quarters.

    Returns:
        tuple[Problem, DataFrame]: The problem without what is left out, and the limits with a cap of none for quarters outside a window.
    """
    offers = problem.offers
    if not {"available_from", "available_to"} & set(offers):
        return problem, limits
    hourly = offers[offers["term"].isin(USAGE_TERMS)].merge(problem.skus[["sku", "provider", "accelerator"]], on="sku", how="left")
    opens, closes = (pd.to_datetime(hourly[name]) if name in hourly else pd.Series(pd.NaT, index=hourly.index) for name in _DAYS)
    first, last = (np.array([each(quarter) for quarter in quarters], dtype="datetime64[ns]") for each in (quarter_start, quarter_end))
    early = opens.isna().to_numpy()[:, None] | (opens.to_numpy()[:, None] <= first)
    late = closes.isna().to_numpy()[:, None] | (closes.to_numpy()[:, None] >= last - np.timedelta64(1, "D"))
    covered = early & late
    if covered.all():
        return problem, limits
    hourly = hourly.assign(place=np.arange(len(hourly)), quarters=covered.sum(axis=1))
    ranked = hourly.sort_values(["quarters", "usd_per_hour", "offer_id"], ascending=[False, True, True], kind="stable")
    best = ranked.drop_duplicates(KIND)
    windowed = hourly[~covered.all(axis=1)]
    gone = windowed.loc[~windowed["place"].isin(best["place"]), "offer_id"]
    rows = [
        dict.fromkeys(limits.columns)
        | {"limit_id": f"window of {row['offer_id']}", "kind": f"{row['term']}_accelerators", "amount": 0.0, "quarter": quarter}
        | {"hard": True, **{name: row[name] for name in ("provider", "accelerator", "region")}}
        for row in records(best[best["place"].isin(windowed["place"])])
        for quarter, there in zip(quarters, covered[row["place"]], strict=True)
        if not there
    ]
    added = pd.DataFrame(rows, columns=limits.columns)
    whole = pd.concat([limits.astype(object), added.astype(object)], ignore_index=True).infer_objects() if rows else limits
    return problem.replaced(offers=offers[~offers["offer_id"].isin(gone)].reset_index(drop=True)), whole
