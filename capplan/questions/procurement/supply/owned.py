"""Machines owned, as decisions: kept beyond their useful life while they run, or sold before its end."""

from collections.abc import Hashable
from typing import Any

import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.pricing import kilowatt_usd_per_hour, owned_running_usd_per_hour
from capplan.questions.procurement.supply.departures import DEPARTURE, SAME, SELL
from capplan.questions.procurement.supply.starts_and_signing import signing
from capplan.units import quarter_of, quarter_start

KEEP = "keep"


def kept_machines(holding: dict[Hashable, Any], quarters: list[str], a: ProcurementAssumptions) -> list[dict[Hashable, Any]]:
    """List the years for which machines can be kept after their useful life, each of those that were kept the year before.

    An hour costs their power and space, as for machines one buys, and their upkeep. What they bring in the end is taken to come later by as
    much, and is no part of the decision.
    """
    last = holding["last_day"] + pd.Timedelta(days=1)
    found: list[dict[Hashable, Any]] = []
    begin = holding["end"]
    while holding["kind"] == "asset" and not pd.isna(last) and begin < last and quarter_of(begin) in quarters:
        end, count, name = min(begin + pd.DateOffset(years=1), last), holding["machines"], f"{KEEP} {holding['name']}"
        found.append(
            holding
            | SAME
            | {
                "name": f"{name} again {quarter_of(begin)}" if found else name,
                "offer_id": name,
                "kind": KEEP,
                "quarter": quarter_of(begin),
                "start": begin,
                "end": end,
                "follows": found[-1]["name"] if found else "",
                "lot_accelerators": holding["accelerators"] / count,
                "lot_kw": holding["power_kw"] / count,
                "power_kw": holding["power_kw"] / count,
                "maximum_lots": count,
                "usd_per_hour": holding["kept_usd_per_hour"] / count,
            }
            | signing(begin, pd.Timestamp(a.as_of), a)
        )
        begin = end
    return found


def sold_machines(
    holding: dict[Hashable, Any], quarters: list[str], sites: pd.DataFrame | None, a: ProcurementAssumptions
) -> list[dict[Hashable, Any]]:
    """List the quarters at whose start machines can be sold: their support and electricity fall away, their space stays.

    What a machine brings beyond what it would bring at the end of its life falls evenly until then; what it loses until then is booked on
    the day.
    """
    told, count = pd.Timestamp(a.as_of) + pd.Timedelta(days=a.approval_days), holding["machines"]
    if holding["kind"] != "asset" or not holding["resale_share"] > 0:
        return []
    power, site = pd.Series([holding["power_kw"] / count]), pd.Series([holding["region"]])
    running = owned_running_usd_per_hour(power, power * 0.0, site, a, sites) - power * kilowatt_usd_per_hour(site, a, sites)
    life = holding["end"] - pd.Timestamp(a.as_of)
    days = [day for day in map(quarter_start, quarters) if max(holding["start"], told) <= day < holding["end"]]
    return [
        holding
        | SAME
        | {
            "name": f"{SELL} {holding['name']} {quarter_of(day)}",
            "offer_id": f"{SELL} {holding['name']}",
            "kind": DEPARTURE,
            "of_contract": holding["name"],
            "way": SELL,
            "quarter": quarter_of(day),
            "start": day,
            "maximum_lots": count,
            "lot_accelerators": -holding["accelerators"] / count,
            "lot_kw": -holding["power_kw"] / count,
            "usd_per_hour": holding["support_usd_per_hour"] / count + float(running.iloc[0]),
            "rising_usd_per_hour": float(running.iloc[0]),
            "prepaid_share": 0.0,
            "brings_usd": holding["price_usd"]
            / count
            * (holding["resale_share"] + (holding["residual_share"] - holding["resale_share"]) * ((day - pd.Timestamp(a.as_of)) / life)),
            "rest_usd": holding["price_usd"] / count * holding["residual_share"],
            "book_usd": holding["price_usd"]
            / count
            * ((1 - holding["residual_share"]) * ((holding["end"] - day) / (holding["end"] - holding["start"]))),
        }
        | signing(day, pd.Timestamp(a.as_of), a)
        for day in days
    ]
