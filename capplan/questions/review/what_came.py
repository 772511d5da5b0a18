"""What came, in the terms of the plan's own inputs: work by quarter, prices by the hour, and the days on which contracts began."""

import pandas as pd

from capplan.records import records
from capplan.units import quarter_of

#: Prices that differ by less than this share are the same.
ROUNDING_SHARE = 1e-6


def work_that_came(planned: pd.DataFrame, compared: pd.DataFrame) -> pd.DataFrame:
    """Hold measured work against a quarter's planned work.

    Args:
        planned: Work of the accepted plan: workload, class, region, month, expected.
        compared: Months that were measured (see `accuracy.held_against`).

    Returns:
        DataFrame: class, region, quarter, ratio (work that came over the whole quarter's planned work), measured_share (part of the planned
            work that falls into measured months). Quarters without planned work are left out.
    """
    keys = ["class", "region", "quarter"]
    classes = dict(zip(planned["workload"], planned["class"], strict=True))
    whole = planned.assign(quarter=planned["month"].map(quarter_of)).groupby(keys)["expected"].sum()
    seen = compared.assign(**{"class": compared["workload"].map(classes), "quarter": compared["month"].map(quarter_of)})
    sums = seen.dropna(subset=["class"]).groupby(keys)[["planned", "actual"]].sum()
    both = sums.join(whole, how="inner")
    both = both[both["expected"] > 0]
    shares = {"ratio": both["actual"] / both["expected"], "measured_share": both["planned"] / both["expected"]}
    return pd.DataFrame(shares).reset_index()[[*keys, "ratio", "measured_share"]]


def prices_that_came(planned: pd.DataFrame, actual: pd.DataFrame) -> pd.DataFrame:
    """Hold prices by the hour as billed against those planned.

    Args:
        planned, actual: SPEND (see `spend_rows`) of the same months.

    Returns:
        DataFrame: provider, accelerator, term (on_demand or spot), factor (billed over planned price of an hour); only where they differ.
    """
    keys = ["provider", "accelerator", "kind"]
    each = []
    for frame, amount in ((planned, "amount"), (actual, "amount_at_plan_rates")):
        use = frame[frame["kind"].isin(["on_demand", "spot"]) & frame["hours"].gt(0)]
        sums = use.groupby(keys)[[amount, "hours"]].sum()
        each.append(sums[amount] / sums["hours"])
    factor = (each[1] / each[0].where(each[0] > 0)).dropna()
    return factor[(factor - 1).abs() > ROUNDING_SHARE].rename("factor").rename_axis([*keys[:2], "term"]).reset_index()


def deliveries_that_came(signed: pd.DataFrame, offers: pd.DataFrame, held: pd.DataFrame, as_of: pd.Timestamp) -> pd.DataFrame:
    """Find the contracts that a plan signed among those held today, and by how many days they began later than planned.

    Args:
        signed: offer_id, quarter, starts: what the plan signed.
        offers, held: Tables offers and commitments as they are today.
        as_of: Day of the plan: what began before it is not its work.

    Returns:
        DataFrame: offer_id, quarter, commitment_id (missing: not held), late_days (negative: earlier). One contract stands for one
            purchase.
    """
    about = offers.set_index("offer_id")
    free = held[held["start"] > as_of].sort_values("start", kind="stable")
    rows = []
    for row in records(signed.sort_values("starts", kind="stable")):
        found = free.head(0)
        if row["offer_id"] in about.index:
            place = about.loc[row["offer_id"], ["sku", "region", "term"]]
            found = free[(free[["sku", "region", "term"]] == place).all(axis=1)].head(1)
        free = free.drop(found.index)
        late = (found["start"].iloc[0] - row["starts"]).days if len(found) else None
        rows.append((row["offer_id"], row["quarter"], found["commitment_id"].iloc[0] if len(found) else None, late))
    return pd.DataFrame(rows, columns=["offer_id", "quarter", "commitment_id", "late_days"]).astype({"late_days": float})
