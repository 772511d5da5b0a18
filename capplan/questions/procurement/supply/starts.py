"""When an offer or a renewal can begin, at what price, and by when it must be signed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.contract_kinds import TERM_MONTHS
from capplan.errors import CapplanError
from capplan.units import DAYS_PER_MONTH, add_months, quarter_of, quarter_start


def starts_of(offer: dict[Hashable, Any], quarters: list[str], as_of: pd.Timestamp, a: ProcurementAssumptions) -> list[dict[Hashable, Any]]:
    """List the starts of one offer within the planned quarters."""
    lead = pd.Timedelta(days=offer["lead_time_days_p50"])
    careful = offer["lead_time_days_p50"] if pd.isna(offer["lead_time_days_p90"]) else offer["lead_time_days_p90"]
    opens, closes = offer["available_from"], offer["available_to"]
    block = offer["term"] == "capacity_block" and not pd.isna(opens)
    if block and opens < as_of + lead:
        raise CapplanError(
            f"capacity block {offer['offer_id']} starts on {opens:%Y-%m-%d}, but can be delivered on {as_of + lead:%Y-%m-%d} at the"
            " earliest; delete it, exclude it, or correct available_from"
        )
    starts = [opens] if block else [quarter_start(quarter) for quarter in quarters]
    earliest = as_of if block or pd.isna(opens) else max(as_of, opens)
    window = [] if block or pd.isna(closes) else [closes]
    owned = offer["term"] == "owned"
    expires = offer["quote_expires"] if offer["negotiated"] or owned else pd.NaT
    # The quarter in which a machine ordered on the quote's last day first is there still has the quoted price.
    covers = (
        expires
        if pd.isna(expires) or expires < as_of
        else quarter_start(quarter_of(expires + lead - pd.Timedelta(days=1))) + pd.DateOffset(months=3)
    )
    count = float(offer["accelerator_count"] * offer["lot_machines"])
    found = []
    for start in starts:
        quoted, lapsed = start <= covers, start > covers
        listed = lapsed and a.later_quotes == "list_price" and not owned
        price = 0.0 if owned else offer["list_usd_per_hour"] if listed else offer["machine_usd_per_hour"]
        gone = any(when < earliest for when in window) or (listed and not price > 0)
        if quarter_of(start) not in quarters or start < earliest + lead or gone:
            continue
        wanted = start - pd.Timedelta(days=careful)
        found.append(
            offer
            | {
                "name": f"{offer['offer_id']} {quarter_of(start)}",
                "kind": "offer",
                "quarter": quarter_of(start),
                "start": start,
                "end": add_months(start, offer["term_months"]),
                "lot_accelerators": count,
                "usd_per_hour": price,
                "forced": False,
                "follows": "",
                "renewal_assumed": False,
                "requoted": lapsed and not listed,
                "listed": listed,
                "quoted": quoted,
                "capex_usd": 0.0 if pd.isna(offer["capex_usd"]) else offer["capex_usd"] * a.price_factor,
                "lot_kw": 0.0 if pd.isna(offer["power_kw"]) else offer["lot_machines"] * offer["power_kw"],
            }
            | signing(min([wanted, *window, *([expires] if quoted else [])]), as_of, a)
        )
    return found


def renewals_of(holding: dict[Hashable, Any], quarters: list[str], a: ProcurementAssumptions) -> list[dict[Hashable, Any]]:
    """List the renewals of one signed contract that fall into the planned quarters: any number of its machines, for its own term.

    Notice is due as many days before each end as before the first.
    """
    end, as_of = holding["end"], pd.Timestamp(a.as_of)
    if pd.isna(holding["renewal_usd_per_hour"]) or end < quarter_start(quarters[0]):
        return []
    months = TERM_MONTHS.get(holding["term"], max(round((end - holding["start"]).days / DAYS_PER_MONTH), 1))
    stated = not pd.isna(holding["notice_date"])
    notice = end - holding["notice_date"] if stated else pd.Timedelta(0)
    # A machine is renewed at a time, unless the contract is for a part of one.
    count = holding["machines"] if float(holding["machines"]).is_integer() else 1.0
    found: list[dict[Hashable, Any]] = []
    while quarter_of(end) in quarters:
        name, until = f"renew {holding['name']}", add_months(end, months)
        found.append(
            holding
            | {
                "name": f"{name} again {quarter_of(end)}" if found else name,
                "offer_id": name,
                "kind": "renewal",
                "quarter": quarter_of(end),
                "start": end,
                "end": until,
                "lot_machines": holding["machines"] / count,
                "lot_accelerators": holding["accelerators"] / count,
                "lot_kw": 0.0,
                "minimum_lots": 0.0,
                "maximum_lots": count,
                "usd_per_hour": holding["renewal_usd_per_hour"] * a.price_factor,
                "upfront_share": 0.0,
                "capex_usd": 0.0,
                "forced": bool(holding["renews"]) and stated and holding["notice_date"] < as_of and not found,
                "follows": found[-1]["name"] if found else "",
                "requoted": False,
                "quoted": not holding["renewal_assumed"],
                "tiered": False,
                "plan_id": None,
                "guarantees_capacity": True,
            }
            | signing(end - notice, as_of, a)
        )
        end = until
    return found


def signing(sign_by: pd.Timestamp, as_of: pd.Timestamp, a: ProcurementAssumptions) -> dict[Hashable, Any]:
    """Tell by when a decision must be signed, whether that day is past, and whether it falls before the next review."""
    review = as_of + pd.DateOffset(months=3 * a.review_interval_quarters)
    submit_by = sign_by - pd.Timedelta(days=a.approval_days)
    signed_on = max(sign_by, as_of + pd.Timedelta(days=a.approval_days))
    return {"sign_by": sign_by, "submit_by": submit_by, "signed_on": signed_on, "late": submit_by < as_of, "firm": submit_by < review}
