"""The checker's bills by the hour: what reservations, plans and discounts pay of them, and agreements to spend a sum with a provider."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pulp


def role(c: Any, row: dict[str, Any]) -> str:
    """What an offer gives: machines that are paid for, machines at the price on demand, or only hours that cost less."""
    if row["term"] in ("owned", "lease", "capacity_block"):
        return "full"
    if row["discounts"] == "usd_per_hour":
        return "dollars"
    if row["discounts"] == "units":
        return "full" if row["guarantees_capacity"] else "units"
    by_hour = [one["usd_per_hour"] for one in c.offers if one["term"] == "on_demand" and one["sku"] == row["sku"]]
    return "reserve" if by_hour and row["usd_per_hour"] >= min(by_hour) else "full"


def bill(
    c: Any, name: str, rented: dict[str, Any], held: dict[Any, Any], price: dict[str, float], day: pd.Timestamp, *, later: bool
) -> Any:
    """Pay for what runs on demand, and for what is reserved whether it runs or not: by discounts, by plans, and by the hour.

    Args:
        rented: Accelerators rented on demand by kind.
        held: What is under contract.
        price: Price of an accelerator on demand for an hour, by kind.
        later: After the horizon discounts can be had anew.
    """
    drawn: dict[str, list[Any]] = {}
    usd = []
    for accelerator, use in rented.items():
        paid = c.model.add_variable(f"bill {accelerator} {name}", 0)
        left = [paid]
        cheapest = c.again(accelerator, day, ("units", "dollars")) if later else None
        if cheapest is not None:
            left.append(c.model.add_variable(f"discounted again {accelerator} {name}", 0))
            c.later.append(cheapest * left[-1])
        if ("units", accelerator) in held:
            left.append(c.model.add_variable(f"discounted {accelerator} {name}", 0))
            c.model += left[-1] <= held["units", accelerator]
        for plan in [key[1] for key in held if key[0] == "dollars"]:
            rates = [
                one["usd_per_hour"] / c.machines[one["sku"]]["accelerator_count"]
                for one in c.offers
                if plan == one.get("plan_id", one["offer_id"]) and c.machines[one["sku"]]["accelerator"] == accelerator
            ]
            if rates:
                left.append(c.model.add_variable(f"plan {plan} {accelerator} {name}", 0))
                drawn.setdefault(plan, []).append(min(rates) * left[-1])
        c.model += pulp.lpSum(left) >= use
        c.model += pulp.lpSum(left) >= held.get(("reserve", accelerator), 0)
        usd.append(price[accelerator] * paid)
    for plan, dollars in drawn.items():
        c.model += pulp.lpSum(dollars) <= held["dollars", plan]
    return pulp.lpSum(usd)


def _years(c: Any) -> list[dict[str, Any]]:
    """Contract years with the first instant after each."""
    rows = [] if c.p.spend_agreements is None else c.p.spend_agreements.sort_values(["agreement_id", "start"]).to_dict("records")
    return [row | {"over": row["end"] + pd.Timedelta(days=1)} for row in rows]


def discount_share(c: Any, q: int) -> float:
    """Discount of agreements on an hour of a quarter."""
    return sum(row["discount_share"] * c.part(q, row["start"], row["over"]) for row in _years(c))


def agreements(c: Any, spent: dict[int, list[Any]]) -> None:
    """Pay at the end of each contract year what was not spent of it, or carry it on; the part of a year that is not planned is left out.

    Args:
        spent: Expected spend by the hour of each planned quarter.
    """
    growth, years, carried = 1 + c.a.discount_rate_per_year, _years(c), {}
    for row in years:
        if not row["over"] > c.days[0] or not row["start"] < c.end:
            continue
        begin, end = max(row["start"], c.today), min(row["over"], c.end)
        part = [c.part(q, row["start"], row["over"]) for q in range(c.count)]
        planned = (row["committed_usd"] - row["drawn_usd"]) * ((end - begin) / (row["over"] - begin))
        counted = [part[q] * usd for q in range(c.count) for usd in spent[q]]
        for one in c.contracts:
            if c.machines[one["sku"]]["provider"] != row["provider"]:
                continue
            if not one["paid"]:
                hours = max((min(one["last"], end) - max(one["from"], begin)) / pd.Timedelta(hours=1), 0.0)
                counted.append(one["usd_per_hour"] * one["taken"] * hours * (1 - c.prepaid(one)))
                continue
            hours = c.hours(one)
            usd = sum(part[q] * c.hourly(one, q) * hours[q] for q in range(c.count))
            if row["start"] <= one.get("signed_on", one["from"]) < row["over"]:
                usd += c.once(one)
            counted.append(usd * one["taken"])
        rest = c.model.add_variable(f"unspent {row['agreement_id']} {row['start']:%Y%m%d}", 0)
        c.model += pulp.lpSum(counted) + rest >= planned + carried.pop(row["agreement_id"], 0.0)
        following = [one for one in years if one["agreement_id"] == row["agreement_id"] and row["start"] < one["start"] < c.end]
        if row["rolls_over"] and following:
            carried[row["agreement_id"]] = rest
        else:
            due = max(q for q in range(c.count) if part[q])
            c.cost.append(growth ** (-(due + 0.5) / 4) * rest)
