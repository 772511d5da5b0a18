"""Contracts already signed and machines owned, as holdings: what is there, from when to when, and on which terms."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.contract_kinds import PHYSICAL_TERMS
from capplan.errors import CapplanError, nearest
from capplan.questions.pricing import completed
from capplan.units import HOURS_PER_YEAR


def role_of(term: str, discounts: str, guarantees_capacity: bool, name: str) -> str:
    """Say what a contract does: capacity and price ("full"), capacity only ("reserve"), price of machines ("units") or dollars ("dollars").

    Raises
    ------
    CapplanError
        If it gives neither a discount nor capacity.
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


def signed_contracts(commitments: pd.DataFrame | None, machines: pd.DataFrame) -> pd.DataFrame:
    """Contracts already signed, as holdings."""
    if commitments is None or commitments.empty:
        return no_holdings()
    table = completed(commitments, "commitments")
    _known_skus(table, machines, "commitment", "commitment_id")
    count = table["sku"].map(machines["accelerator_count"]).astype(float)
    roles = [
        role_of(row.term, row.discounts, bool(row.guarantees_capacity), f"commitment {row.commitment_id}") for row in table.itertuples()
    ]
    # The dollars of a signed plan are held as the machines they pay for at the plan's rate; a signed reservation is paid whether used or
    # not.
    guaranteed = table["guarantees_capacity"].astype(bool)
    roles = [("full" if sure else "units") if role != "full" else role for role, sure in zip(roles, guaranteed, strict=True)]
    return pd.DataFrame(
        {
            "name": table["commitment_id"],
            "kind": "contract",
            "sku": table["sku"],
            "provider": table["sku"].map(machines["provider"]),
            "accelerator": table["sku"].map(machines["accelerator"]),
            "region": table["region"],
            "term": table["term"],
            "role": roles,
            "machines": table["machines"].astype(float),
            "accelerators": table["machines"] * count,
            "start": table["start"],
            "end": table["end"] + pd.Timedelta(days=1),
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


def owned_machines(assets: pd.DataFrame | None, machines: pd.DataFrame, a: ProcurementAssumptions) -> pd.DataFrame:
    """Machines owned, as holdings until the end of their useful life."""
    if assets is None or assets.empty:
        return no_holdings()
    table = completed(assets, "assets")
    _known_skus(table, machines, "asset", "asset_id")
    years = table["useful_life_years"].fillna(a.useful_life_years)
    count = table["sku"].map(machines["accelerator_count"]).astype(float)
    hourly = (table["capex_usd"] * (1 - table["residual_share"]) / years + table["support_usd_per_year"]) / HOURS_PER_YEAR
    return pd.DataFrame(
        {
            "name": table["asset_id"],
            "kind": "asset",
            "sku": table["sku"],
            "provider": table["sku"].map(machines["provider"]),
            "accelerator": table["sku"].map(machines["accelerator"]),
            "region": table["site"],
            "term": "owned",
            "role": "full",
            "machines": table["machines"].astype(float),
            "accelerators": table["machines"] * count,
            "start": table["in_service"],
            "end": [begin + pd.DateOffset(months=round(12 * length)) for begin, length in zip(table["in_service"], years, strict=True)],
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
            "support_usd_per_hour": table["support_usd_per_year"] / HOURS_PER_YEAR,
            "kept_usd_per_hour": table["kept_usd_per_year"].fillna(table["support_usd_per_year"]).astype(float) / HOURS_PER_YEAR,
        }
    )


@cache
def no_holdings() -> pd.DataFrame:
    """Return holdings without rows, with the types that rows would have."""
    text = ["name", "kind", "sku", "provider", "accelerator", "region", "term", "role"]
    types = (
        dict.fromkeys(text, "object")
        | dict.fromkeys(
            [
                "machines",
                "accelerators",
                "usd_per_hour",
                "prepaid_share",
                "power_kw",
                "renewal_usd_per_hour",
                "exit_cost_share",
                "resale_share",
                "price_usd",
                "residual_share",
                "support_usd_per_hour",
                "kept_usd_per_hour",
            ],
            "float64",
        )
        | dict.fromkeys(["start", "end", "notice_date", "last_day"], "datetime64[ns]")
        | {"renews": "bool", "renewal_assumed": "bool", "exchangeable": "bool"}
    )
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})


def _known_skus(table: pd.DataFrame, machines: pd.DataFrame, noun: str, key: str) -> None:
    """Raise where a contract or a lot names a machine that is not known."""
    unknown = table[~table["sku"].isin(machines.index)]
    if len(unknown):
        row = unknown.iloc[0]
        raise CapplanError(
            f"{noun} {row[key]} names the sku {row['sku']!r}, which the table skus does not have;"
            f" {nearest(str(row['sku']), machines.index)}"
        )
