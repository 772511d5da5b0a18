"""When an offer or a renewal can begin, at what price, and by when it must be signed."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.contract_kinds import TERM_MONTHS
from capplan.errors import CapplanError
from capplan.units import DAYS_PER_MONTH, add_months, quarter_end, quarter_of, quarter_start

_DAY = pd.Timedelta(days=1)


@dataclass(frozen=True)
class Window:
    """When an offer can begin: between which days it can be ordered, how long it takes, and until when its quote holds."""

    #: earliest, closes: First and last day on which it can be ordered; the last is empty where there is none.
    earliest: pd.Timestamp
    closes: pd.Timestamp
    #: lead, careful: Median time from order to service, and its 90th percentile (the median where that is not known).
    lead: pd.Timedelta
    careful: pd.Timedelta
    #: expires, covers: Last day of its quote, and the last start at the quoted price; empty where there is none.
    expires: pd.Timestamp
    covers: pd.Timestamp
    listed_usd_per_hour: float | None  #: What it costs after its quote; empty where the quote is given again.


class Hindrance(NamedTuple):
    """Why something cannot begin on a day: what stands against it, by how much, in which unit, and in words."""

    what: str
    over: float
    unit: str
    words: str


def window_of(offer: dict[Hashable, Any], as_of: pd.Timestamp, a: ProcurementAssumptions) -> Window:
    """Return when an offer can begin."""
    lead, opens = pd.Timedelta(days=offer["lead_time_days_p50"]), offer["available_from"]
    careful = offer["lead_time_days_p50"] if pd.isna(offer["lead_time_days_p90"]) else offer["lead_time_days_p90"]
    block, owned = _dated(offer), offer["term"] == "owned"
    if block and opens < as_of + lead:
        raise CapplanError(
            f"capacity block {offer['offer_id']} starts on {opens:%Y-%m-%d}, but can be delivered on {as_of + lead:%Y-%m-%d} at the"
            " earliest; delete it, exclude it, or correct available_from"
        )
    expires = offer["quote_expires"] if offer["negotiated"] or owned else pd.NaT
    # The quarter in which a machine ordered on the quote's last day first is there still has the quoted price.
    covers = (
        expires
        if pd.isna(expires) or expires < as_of
        else quarter_start(quarter_of(expires + lead - pd.Timedelta(days=1))) + pd.DateOffset(months=3)
    )
    return Window(
        as_of if block or pd.isna(opens) else max(as_of, opens),
        pd.NaT if block else offer["available_to"],
        lead,
        pd.Timedelta(days=careful),
        expires,
        covers,
        offer["list_usd_per_hour"] if a.later_quotes == "list_price" and not owned else None,
    )


def hindrances(window: Window, start: pd.Timestamp, quarters: Sequence[str]) -> list[Hindrance]:
    """Say what stands against a start of an offer on a day; nothing where it can begin then."""
    found, ready = [], window.earliest + window.lead
    if quarter_of(start) not in quarters:
        first, after = quarter_start(quarters[0]), quarter_end(quarters[-1])
        days = (first - start if start < first else start - (after - _DAY)) / _DAY
        side = "before" if start < first else "after"
        found.append(Hindrance("planned quarters", days, "days", f"it begins {side} the planned quarters, {quarters[0]} to {quarters[-1]}"))
    if start < ready:
        lead = f"ordered on {window.earliest:%Y-%m-%d} it is there on {ready:%Y-%m-%d}"
        found.append(Hindrance("lead time", (ready - start) / _DAY, "days", f"{lead}, {window.lead / _DAY:g} days later"))
    if window.closes < window.earliest:
        gone = f"the offer ended on {window.closes:%Y-%m-%d} and can be ordered from {window.earliest:%Y-%m-%d} on"
        found.append(Hindrance("offer ended", (window.earliest - window.closes) / _DAY, "days", gone))
    if start > window.covers and window.listed_usd_per_hour is not None and not window.listed_usd_per_hour > 0:
        gone = f"its quote expired on {window.expires:%Y-%m-%d} and no list price is stated for later starts"
        found.append(Hindrance("quote", (start - window.covers) / _DAY, "days", gone))
    return found


def _dated(offer: dict[Hashable, Any]) -> bool:
    """Tell whether an offer is a capacity block that begins on its own day."""
    return offer["term"] == "capacity_block" and not pd.isna(offer["available_from"])


def starts_of(offer: dict[Hashable, Any], quarters: list[str], as_of: pd.Timestamp, a: ProcurementAssumptions) -> list[dict[Hashable, Any]]:
    """List the starts of one offer within the planned quarters."""
    window = window_of(offer, as_of, a)
    count = float(offer["accelerator_count"] * offer["lot_machines"])
    found = []
    for start in [offer["available_from"]] if _dated(offer) else [quarter_start(quarter) for quarter in quarters]:
        if hindrances(window, start, quarters):
            continue
        quoted, lapsed = start <= window.covers, start > window.covers
        listed = lapsed and window.listed_usd_per_hour is not None
        price = 0.0 if offer["term"] == "owned" else window.listed_usd_per_hour if listed else offer["machine_usd_per_hour"]
        days = [start - window.careful, *([] if pd.isna(window.closes) else [window.closes]), *([window.expires] if quoted else [])]
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
            | signing(min(days), as_of, a)
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
