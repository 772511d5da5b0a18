"""Contracts already signed and machines owned, as holdings: what is there, from when to when, and on which terms; built here alone."""

from functools import cache

import numpy as np
import pandas as pd

from capplan.contract_kinds import PHYSICAL_TERMS
from capplan.errors import CapplanError, nearest
from capplan.questions.pricing import completed

#: Hours of a year of support, leap years included, as the ledger books it.
HOURS_OF_SUPPORT = 365.25 * 24
#: What every question asks of what is there.
THERE = ["name", "kind", "sku", "provider", "accelerator", "region", "machines", "accelerators", "start", "end"]


def role_of(term: str, discounts: str, guarantees_capacity: bool, name: str) -> str:
    """Say what a contract does: capacity and price ("full"), capacity only ("reserve"), price of machines ("units") or dollars ("dollars").

    Raises:
        CapplanError: If it gives neither a discount nor capacity.
    """
    if term in PHYSICAL_TERMS:
        return "full"
    if discounts == "units":
        return "full" if guarantees_capacity else "units"
    if discounts == "usd_per_hour":
        return "dollars"
    if guarantees_capacity:
        return "reserve"
    raise CapplanError(
        f"{name} gives neither a discount nor capacity; set its discounts to units or usd_per_hour, or guarantees_capacity to true, or"
        " delete it"
    )


def life_end(in_service: pd.Timestamp, years: float) -> pd.Timestamp:
    """Return the first instant after the useful life of machines."""
    return in_service + pd.DateOffset(months=round(12 * years))


def signed(commitments: pd.DataFrame) -> pd.DataFrame:
    """Add to the table commitments: name, kind, and over, the first instant after the contract."""
    over = commitments["end"] + pd.Timedelta(days=1)
    return commitments.assign(name=commitments["commitment_id"].astype(str), kind="contract", over=over)


def owned(assets: pd.DataFrame, life_years: float) -> pd.DataFrame:
    """Add to the table assets: name, kind, region, start, and over, the first instant after a useful life, which is stated for all then.

    Args:
        life_years: Life of machines for which it states none.
    """
    years = assets["useful_life_years"].astype(float).fillna(life_years)
    over = pd.Series([life_end(*row) for row in zip(assets["in_service"], years, strict=True)], assets.index, dtype="datetime64[ns]")
    about = {"name": assets["asset_id"].astype(str), "region": assets["site"], "start": assets["in_service"]}
    return assets.assign(kind="asset", useful_life_years=years, over=over, **about)


def there(commitments: pd.DataFrame | None, assets: pd.DataFrame | None, machines: pd.DataFrame, life_years: float) -> pd.DataFrame:
    """List what is there: contracts signed, and machines owned until the end of their useful life.

    Args:
        life_years: Life of machines for which the table states none.

    Returns:
        DataFrame: name, kind (contract, asset), sku, provider, accelerator, region, machines, accelerators, start, end (first instant after
            it).

    Raises:
        CapplanError: If one names a machine that is not known.
    """
    parts = []
    if commitments is not None and len(commitments):
        parts.append(_counted(signed(commitments), machines, "commitment"))
    if assets is not None and len(assets):
        parts.append(_counted(owned(completed(assets, "assets"), life_years), machines, "asset"))
    return pd.concat(parts, ignore_index=True) if parts else no_holdings()[THERE].copy()


def _counted(table: pd.DataFrame, machines: pd.DataFrame, noun: str) -> pd.DataFrame:
    """Add what is known of its machines to each row."""
    unknown = table[~table["sku"].isin(machines.index)]
    if len(unknown):
        row = unknown.iloc[0]
        raise CapplanError(
            f"{noun} {row['name']} names the sku {row['sku']!r}, which the table skus does not have;"
            f" {nearest(str(row['sku']), machines.index)}"
        )
    known = {name: table["sku"].map(machines[name]) for name in ("provider", "accelerator")}
    count = table["machines"] * table["sku"].map(machines["accelerator_count"]).astype(float)
    return table.assign(**known, machines=table["machines"].astype(float), accelerators=count, end=table["over"])[THERE]


def holdings_with_terms(
    commitments: pd.DataFrame | None, assets: pd.DataFrame | None, machines: pd.DataFrame, life_years: float
) -> pd.DataFrame:
    """List what is there with its terms: the columns of `no_holdings`.

    Args:
        commitments, assets, machines, life_years: As for `there`.
    """
    base, parts = there(commitments, assets, machines, life_years), []
    for kind, terms in (("contract", _signed_terms(commitments)), ("asset", _owned_terms(assets, machines, life_years))):
        own = base[base["kind"] == kind]
        if len(own):
            parts.append(pd.concat([own.reset_index(drop=True), terms.reset_index(drop=True)], axis=1))
    return pd.concat(parts, ignore_index=True)[list(no_holdings().columns)] if parts else no_holdings().copy()


def _signed_terms(commitments: pd.DataFrame | None) -> pd.DataFrame:
    """Terms of contracts already signed."""
    if commitments is None or commitments.empty:
        return pd.DataFrame()
    table = completed(commitments, "commitments")
    roles = [
        role_of(row.term, row.discounts, bool(row.guarantees_capacity), f"commitment {row.commitment_id}") for row in table.itertuples()
    ]
    # The dollars of a signed plan are held as the machines they pay for at the plan's rate; a signed reservation is paid whether used or
    # not.
    guaranteed = table["guarantees_capacity"].astype(bool)
    roles = [("full" if sure else "units") if role != "full" else role for role, sure in zip(roles, guaranteed, strict=True)]
    return pd.DataFrame(
        {
            "term": table["term"],
            "role": roles,
            "usd_per_hour": table["usd_per_hour"] * table["machines"],
            "prepaid_share": _prepaid(table),
            "power_kw": 0.0,
            "renewal_usd_per_hour": table["renewal_usd_per_hour"],
            "renewal_assumed": False,
            "renews": table["renews"].astype(bool),
            "notice_date": table["notice_date"],
            "exit_cost_share": table["exit_cost_share"].astype(float),
            "resale_share": table["resale_share"].astype(float).fillna(0.0),
            "exchangeable": table["exchangeable"].astype(bool),
            "last_day": pd.NaT,
            "price_usd": 0.0,
            "residual_share": 0.0,
            "support_usd_per_hour": 0.0,
            "kept_usd_per_hour": 0.0,
        }
    )


def _prepaid(commitments: pd.DataFrame) -> pd.Series:
    """Share of each contract's price that was paid at signing."""
    hours = (commitments["end"] + pd.Timedelta(days=1) - commitments["start"]) / pd.Timedelta(hours=1)
    whole = commitments["usd_per_hour"] * commitments["machines"] * hours
    return (commitments["upfront_paid_usd"] / whole.where(whole > 0)).fillna(0.0).clip(upper=1.0)


def _owned_terms(assets: pd.DataFrame | None, machines: pd.DataFrame, life_years: float) -> pd.DataFrame:
    """Terms of machines owned: they cost their loss of value and their upkeep."""
    if assets is None or assets.empty:
        return pd.DataFrame()
    table = owned(completed(assets, "assets"), life_years)
    hours = (table["over"] - table["start"]) / pd.Timedelta(hours=1)
    hourly = table["capex_usd"] * (1 - table["residual_share"]) / hours + table["support_usd_per_year"] / HOURS_OF_SUPPORT
    return pd.DataFrame(
        {
            "term": "owned",
            "role": "full",
            "usd_per_hour": hourly,
            "prepaid_share": 0.0,
            "power_kw": table["machines"] * table["sku"].map(machines["power_kw"]).astype(float).fillna(0.0),
            "renewal_usd_per_hour": np.nan,
            "renewal_assumed": False,
            "renews": False,
            "notice_date": pd.NaT,
            "exit_cost_share": 1.0,
            "resale_share": table["resale_share"].astype(float).fillna(0.0),
            "exchangeable": False,
            "last_day": table["last_day"],
            "price_usd": table["capex_usd"].astype(float),
            "residual_share": table["residual_share"].astype(float),
            "support_usd_per_hour": table["support_usd_per_year"] / HOURS_OF_SUPPORT,
            "kept_usd_per_hour": table["kept_usd_per_year"].fillna(table["support_usd_per_year"]).astype(float) / HOURS_OF_SUPPORT,
        }
    )


@cache
def no_holdings() -> pd.DataFrame:
    """Return holdings without rows, with the types that rows would have."""
    text = ["name", "kind", "sku", "provider", "accelerator", "region", "term", "role"]
    types = (
        dict.fromkeys(text, "object")
        | dict.fromkeys(
            (
                "machines accelerators usd_per_hour prepaid_share power_kw renewal_usd_per_hour exit_cost_share resale_share price_usd"
                " residual_share support_usd_per_hour kept_usd_per_hour"
            ).split(),
            "float64",
        )
        | dict.fromkeys(["start", "end", "notice_date", "last_day"], "datetime64[ns]")
        | {"renews": "bool", "renewal_assumed": "bool", "exchangeable": "bool"}
    )
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
