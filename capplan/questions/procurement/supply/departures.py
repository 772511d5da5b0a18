"""Contracts left before their end: given up at their exit cost, sold to somebody else, or exchanged at the same provider."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.supply.price_paths import worth_factors
from capplan.questions.procurement.supply.starts_and_signing import signing
from capplan.units import quarter_start

DEPARTURE = "departure"
LEAVE, SELL, EXCHANGE = "leave", "sell", "exchange"
#: What a choice of machines that are there already has in common with offers.
SAME: dict[Hashable, Any] = {
    "minimum_lots": 0.0,
    "lot_machines": 1.0,
    "upfront_share": 0.0,
    "capex_usd": 0.0,
    "forced": False,
    "renewal_assumed": False,
    "follows": "",
    "requoted": False,
    "quoted": True,
    "tiered": False,
    "plan_id": None,
    "guarantees_capacity": True,
}


def departures_of(holding: dict[Hashable, Any], quarters: list[str], a: ProcurementAssumptions) -> list[dict[Hashable, Any]]:
    """List the days on which machines of a signed contract can be given back: starts of planned quarters within it, with notice in time.

    A lot takes a machine away, so that its accelerators count below zero.
    """
    allowed = {LEAVE: holding["exit_cost_share"] < 1, SELL: holding["resale_share"] > 0, EXCHANGE: bool(holding["exchangeable"])}
    ways = [way for way, possible in allowed.items() if possible]
    told = pd.Timestamp(a.as_of) + pd.Timedelta(days=a.approval_days)
    notice = holding["notice_date"]
    if holding["kind"] != "contract" or not ways or (not pd.isna(notice) and notice < told):
        return []
    count = holding["machines"] if float(holding["machines"]).is_integer() else 1.0
    days = [day for day in map(quarter_start, quarters) if max(holding["start"], told) <= day < holding["end"]]
    return [
        holding
        | SAME
        | {
            "name": f"{way} {holding['name']} {quarter}",
            "offer_id": f"{way} {holding['name']}",
            "kind": DEPARTURE,
            "of_contract": holding["name"],
            "way": way,
            "quarter": quarter,
            "start": day,
            "lot_machines": holding["machines"] / count,
            "lot_accelerators": -holding["accelerators"] / count,
            "usd_per_hour": holding["usd_per_hour"] / holding["machines"],
            "lot_kw": 0.0,
            "maximum_lots": count,
        }
        | signing(day if pd.isna(notice) else min(day, notice), pd.Timestamp(a.as_of), a)
        for day in days
        for way, quarter in ((way, f"{day.year}Q{(day.month + 2) // 3}") for way in ways)
    ]


def departure_usd(
    table: pd.DataFrame, whole: np.ndarray, market: Market, a: ProcurementAssumptions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return what one lot of each departure no longer pays, pays at once, and books less in all quarters, (m, Q), (m,), (m, Q).

    .. math:: \text{leave}: e\,(1-u)\,P,\qquad \text{sell}: (1-u)\,P - s f\,P,\qquad \text{exchange}: -u\,P

    with P the price of what is left of the term, u the part of it that was prepaid, e the exit cost, s what a buyer pays of it and f the
    price of the day against today's. What was prepaid is written off on the day, unless an exchange gives it back. A machine owned
    brings its price of the day, and no longer what it would bring at the end of its life.

    Args:
        table (m,): Departures among the choices.
        whole (m, Q): Price of what is left, by quarter.
    """
    left, open_share = whole.sum(axis=1), 1 - table["prepaid_share"].to_numpy(float)
    days = pd.DatetimeIndex(sorted(set(table["start"])))
    moves = worth_factors(table, market.price_paths, days, a)[np.arange(len(table)), days.get_indexer(pd.DatetimeIndex(table["start"]))]
    owed = open_share * left
    # A contract's rest brings a share of its price; a machine its own, less what it would bring at the end of its life.
    rest = owed - table["resale_share"].to_numpy(float) * np.minimum(moves, 1.0) * left
    lots = table["lot_machines"].to_numpy(float)
    machine = (table["rest_usd"].to_numpy(float) - table["brings_usd"].to_numpy(float) * np.minimum(moves, 1.0)) * lots
    sold = np.where(table["term"] == "owned", machine, rest)
    ways = {LEAVE: table["exit_cost_share"].to_numpy(float) * owed, SELL: sold, EXCHANGE: owed - left}
    at_once = np.select([(table["way"] == way).to_numpy() for way in ways], list(ways.values()))
    begins = (np.cumsum(whole > 0, axis=1) == 1) & (whole > 0)
    booked = begins * (at_once + left - owed)[:, None] - whole
    return -whole * open_share[:, None], at_once, booked
