"""The bridge from one plan to another: what moved planned spend, in the months that both plan, and what the horizon adds and takes away."""

import pandas as pd

from capplan.book.accepted import AcceptedPlan
from capplan.errors import CapplanError
from capplan.questions.review.bridge import CENT_SHARE, DRIVERS, variance_bridge
from capplan.questions.review.spend_rows import gathered
from capplan.text import money

#: What stands beside the drivers of the months that both plans have.
HORIZON = {"passed": "months that the later plan has no more", "added": "months that the earlier plan did not have yet"}
#: What a driver is called between two plans, where nothing was billed.
MEANINGS = {**DRIVERS, "unused": "commitments expected to stay unused", "not_billed": "no longer planned", "unmapped": "newly planned"}


def plans_apart(before: AcceptedPlan, after: AcceptedPlan) -> pd.DataFrame:
    r"""Say what moved planned spend from one plan to another.

    .. math:: S_2 = S_1 - \text{passed} + \sum_d \Delta_d + \text{added}

    with the drivers of `bridge.variance_bridge` in the months that both plan: here the later plan stands where the bill stands in a review.

    Returns:
        DataFrame: driver, meaning, amount: the earlier plan first, the later last; the steps add up to the cent.

    Raises:
        CapplanError: If the plans are in different currencies.
    """
    if before.currency != after.currency:
        raise CapplanError(
            f"{before.folder} is in {before.currency} and {after.folder} in {after.currency}: make both plans in one currency"
        )
    shared = set(before.spend["month"]) & set(after.spend["month"])
    mine, theirs = (gathered(plan.spend[plan.spend["month"].isin(shared)]) for plan in (before, after))
    variance = variance_bridge(mine, theirs, _work(before.work, after.work, shared)).groupby("driver")["amount"].sum()
    start, end = float(before.spend["amount"].sum()), float(after.spend["amount"].sum())
    steps = [("passed", -(start - float(mine["amount"].sum())))]
    steps += [(driver, float(variance.get(driver, 0.0))) for driver in DRIVERS]
    steps += [("added", end - float(theirs["amount"].sum()))]
    words = {**MEANINGS, **HORIZON}
    rows = [(driver, words[driver], amount) for driver, amount in steps if abs(amount) >= CENT_SHARE]
    return pd.DataFrame([("before", "earlier plan", start), *rows, ("after", "later plan", end)], columns=["driver", "meaning", "amount"])


def told(bridge: pd.DataFrame, currency: str) -> str:
    """Tell a bridge between two plans in one sentence, its largest steps first."""
    start, end = float(bridge["amount"].iloc[0]), float(bridge["amount"].iloc[-1])
    steps = bridge.iloc[1:-1].sort_values("amount", key=abs, ascending=False).head(5)
    parts = ", ".join(f"{row.meaning} {money(row.amount, currency, signed=True)}" for row in steps.itertuples())
    return (
        f"Planned spend moves by {money(end - start, currency, signed=True)}, from {money(start, currency)} to {money(end, currency)}"
        + (f": {parts}." if parts else ".")
    )


def _work(before: pd.DataFrame, after: pd.DataFrame, months: set[pd.Timestamp]) -> pd.DataFrame:
    """Put the work of both plans side by side: month, workload (class), planned, actual."""
    keys = ["month", "class"]
    sums = {
        name: frame[frame["month"].isin(months)].groupby(keys)["expected"].sum() for name, frame in (("planned", before), ("actual", after))
    }
    return pd.DataFrame(sums).fillna(0.0).reset_index().rename(columns={"class": "workload"})
