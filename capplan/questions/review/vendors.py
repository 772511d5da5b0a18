"""The register of vendor risks: who is depended on, until when, and what it would cost if that changed."""

from collections.abc import Mapping

import pandas as pd

from capplan.book.scenario import ReviewAssumptions
from capplan.questions.ledger.request_prices import granted_per_minute
from capplan.records import records
from capplan.text import money
from capplan.units import quarter_of

COLUMNS = ["provider", "risk", "share", "amount", "when", "remark"]
MINUTES_PER_HOUR = 60
NOBODY = ("own", "internal", "")


def vendor_register(
    spend: pd.DataFrame, tables: Mapping[str, pd.DataFrame], as_of: pd.Timestamp, currency: str, a: ReviewAssumptions
) -> pd.DataFrame:
    """List what the company depends on vendors for, with what each risk would cost.

    Args:
        spend: SPEND that lies ahead (see `spend_rows`).
        tables: commitments (with the provider of each), services, api_contracts, and usage (of the months that are reviewed).
        a: price_change_share: the rise of prices that is costed.

    Returns:
        DataFrame: provider, risk, share (of spend, of what is under contract, or the busiest hour over a rate limit), amount (what it
            would cost), when, remark; the dearest first.
    """
    ahead = spend[~spend["provider"].isin(NOBODY)]
    total = float(ahead["amount"].sum())
    rows: list[tuple] = []
    by_use = ahead[ahead["kind"].isin(["on_demand", "spot", "other"])].groupby("provider")["amount"].sum()
    for provider, amount in ahead.groupby("provider")["amount"].sum().items():
        share = float(amount) / total if total else 0.0
        rows.append((provider, "single source", share, None, None, f"{money(float(amount), currency)} of planned spend"))
        exposed = float(by_use.get(provider, 0.0))
        if exposed > 0:
            rise = a.price_change_share * exposed
            rows.append((provider, "price change", exposed / total, rise, None, f"prices by use rise by {a.price_change_share:.0%}"))
    rows += _expiries(tables["commitments"], as_of)
    rows += _rate_limits(spend, tables["api_contracts"], tables["services"], tables["usage"])
    rows += _withdrawals(spend, tables["services"], tables["api_contracts"], as_of, currency)
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"share": "float64", "amount": "float64", "when": "datetime64[ns]"})
    return table.sort_values(["amount", "share"], ascending=False, na_position="last", ignore_index=True)


def _expiries(commitments: pd.DataFrame, as_of: pd.Timestamp) -> list[tuple]:
    """Say in which quarter how much of what is under contract runs out at once."""
    live = commitments[commitments["end"] >= as_of]
    if live.empty:
        return []
    yearly = live["machines"] * live["usd_per_hour"] * 8760.0
    quarter, maker = live["end"].map(quarter_of), live["provider"].fillna("")
    found = []
    for (provider, label), part in yearly.groupby([maker, quarter]):
        chosen = live.loc[part.index]
        names = ", ".join(chosen["commitment_id"])
        share = float(part.sum() / yearly.sum())
        found.append((provider, "contracts end together", share, None, chosen["end"].min(), f"{label}: {names}"))
    return found


def _rate_limits(spend: pd.DataFrame, api_contracts: pd.DataFrame, services: pd.DataFrame, usage: pd.DataFrame) -> list[tuple]:
    """Hold the busiest hour of each workload against the calls that a provider grants; what lies above would have to go elsewhere."""
    found = []
    served = {str(row["workload"]): row for row in records(services)}
    for row in records(api_contracts):
        granted = granted_per_minute(row, served.get(row["workload"])) * MINUTES_PER_HOUR
        mine = usage[usage["workload"] == row["workload"]]
        hours = mine.groupby(mine["time"].dt.floor("h"))["quantity"].sum()
        if hours.sum() <= 0 or granted == float("inf"):
            continue
        over = (hours - granted).clip(lower=0.0)
        above = float(over.sum() / hours.sum())
        amount = float(spend.loc[spend["workload"] == row["workload"], "amount"].sum()) * above
        remark = (
            f"{row['workload']}: {hours.max():,.0f} requests in the busiest hour, {granted:,.0f} are granted; above it were {above:.1%} of"
            f" all, in {int((over > 0).sum()):,} hours"
        )
        found.append((row["provider"], "rate limit", float(hours.max() / granted), amount, None, remark))
    return found


def _withdrawals(
    spend: pd.DataFrame, services: pd.DataFrame, api_contracts: pd.DataFrame, as_of: pd.Timestamp, currency: str
) -> list[tuple]:
    """List models that are to be withdrawn, with the planned spend on them from then on."""
    called = services[services["provider"].fillna("") != ""]
    found = []
    for row in records(api_contracts[api_contracts["withdrawn_on"].notna() & (api_contracts["withdrawn_on"] >= as_of)]):
        mine = called[(called["workload"] == row["workload"]) & (called["model"] == row["model"]) & (called["provider"] == row["provider"])]
        if mine.empty:
            continue
        after = spend[(spend["workload"] == row["workload"]) & (spend["month"] >= row["withdrawn_on"])]
        amount = float(after["amount"].sum())
        remark = f"{row['workload']} calls {row['model']}; {money(amount, currency)} are planned on it from then on"
        found.append((row["provider"], "model withdrawn", None, amount, row["withdrawn_on"], remark))
    return found
