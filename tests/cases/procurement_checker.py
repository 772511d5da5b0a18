"""A second statement of a purchase, from the data dictionary alone: every contract, hour and path written out in one program.

Nothing of capplan's model is used here. It covers: paths with load blocks and risk (CVaR), several classes and accelerators, contracts
with lots, minima, lead times and prepayment, reservations and plans that make hours cheaper, signed contracts that end on any day and may
be renewed, machines owned and the power of their rooms, prices by the hour with caps, quotas by what they count, budgets, spend agreements,
prices that move, discounting, and the three treatments of the horizon's end.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import log
from statistics import NormalDist
from typing import Any

import pandas as pd
import pulp

from tests.cases.checked_rooms import Rooms
from tests.cases.checked_spend import agreements, bill, discount_share, role

TERM_MONTHS = {"reserved_1y": 12, "reserved_3y": 36, "savings_plan_1y": 12, "savings_plan_3y": 36}
BY_HOUR = ("on_demand", "spot")


def quarter_day(label: str, step: int = 0) -> pd.Timestamp:
    """First day of a quarter, or of one some quarters later."""
    return pd.Timestamp(int(label[:4]), 3 * int(label[5]) - 2, 1) + pd.DateOffset(months=3 * step)


def records(frame: pd.DataFrame | None) -> list[dict[str, Any]]:
    """Rows of a table without their empty cells."""
    return [] if frame is None else [{key: value for key, value in row.items() if not pd.isna(value)} for row in frame.to_dict("records")]


class Checker:
    """One program; `solve` returns its optimum and the machines taken by (offer, first day)."""

    def __init__(self, problem: Any) -> None:
        self.p, self.a = problem, problem.assumptions
        self.count = self.a.horizon_quarters
        self.years = self.a.years_after_horizon if self.a.horizon_end == "hold_demand" else 0
        self.days = [quarter_day(self.a.first_quarter, step) for step in range(self.count + 4 * self.years + 200)]
        self.end = self.days[self.count]
        self.machines = {row["sku"]: row for row in records(problem.skus)}
        self.limits = records(problem.limits)
        self.paths = records(problem.price_paths)
        self.offers, self.speed = records(problem.offers), {}
        for row in records(problem.speeds):
            self.speed[row["class"], row["accelerator"]] = row["work_per_accelerator_hour"]
        self.choices: dict[tuple[str, pd.Timestamp], Any] = {}
        self.expected: dict[str, dict[str, Any]] = {}
        for row in records(problem.generations):
            self.succeed(row)
        self.model, self.today = pulp.LpProblem("check", pulp.LpMinimize), pd.Timestamp(self.a.as_of)
        self.cost: list[Any] = []
        self.rooms = Rooms(self)
        signed, offered = self.signed(), self.offered()
        self.contracts = [*signed, *offered, *self.given_back(signed, offered), *self.rooms.there, *self.rooms.sold()]

    def succeed(self, row: dict[str, Any]) -> None:
        """Offer a machine that is expected as the one it succeeds is offered; a book of the checker has one row for it."""
        name, before = row["accelerator"], row["succeeds"]
        self.expected[name] = row
        ratios = dict.fromkeys(("usd_per_hour", "capex_usd"), row["price_ratio"])
        for offer in [one for one in self.offers if self.machines[one["sku"]]["accelerator"] == before]:
            if offer["term"].startswith("savings_plan"):
                continue
            sku, old = f"{offer['sku']} as {name}", self.machines[offer["sku"]]
            self.machines[sku] = old | {"accelerator": name} | ({"power_kw": 1.43 * old["power_kw"]} if "power_kw" in old else {})
            again = {"offer_id": f"{offer['offer_id']} as {name}", "sku": sku}
            self.offers.append(offer | again | {key: ratio * offer[key] for key, ratio in ratios.items() if key in offer})
        for (c, accelerator), rate in list(self.speed.items()):
            if accelerator == before:
                self.speed[c, name] = rate * row["speedup_ratio"]

    def fix(self, lots: dict[tuple[str, pd.Timestamp], float], day: pd.Timestamp | None = None) -> Checker:
        """Hold all choices, or those that begin before a day, at some lots (offer or contract, first day; 0 where none are given)."""
        assert set(lots) <= set(self.choices), set(lots) - set(self.choices)
        for key, taken in self.choices.items():
            if day is None or key[1] < day:
                self.model += taken == lots.get(key, 0.0)
        return self

    # --- what is there -----------------------------------------------------------------------------------------------------------------

    def move(self, row: dict[str, Any], day: pd.Timestamp) -> float:
        """Price of a day against today's."""
        years, factor = max((day - pd.Timestamp(self.a.as_of)).days / 365.25 + (day - day.normalize()).seconds / 86400 / 365.25, 0.0), 1.0
        for path in self.paths:
            if path.get("term") in (None, row["term"]) and path.get("accelerator") in (None, self.machines[row["sku"]]["accelerator"]):
                step = path["step_share"] if path.get("step_date") is not None and day >= path["step_date"] else 0.0
                factor *= 1 + path.get("probability", 1.0) * ((1 + path["change_share_per_year"]) ** years * (1 + step) - 1)
        new = self.expected.get(self.machines[row["sku"]]["accelerator"])
        if new is not None:
            days, width = (day - new["available_p50"]) / pd.Timedelta(days=1), (new["available_p90"] - new["available_p50"]).days
            come = new["probability"] * NormalDist(0, width / NormalDist().inv_cdf(0.9)).cdf(days)
            factor *= come + (1 - come) * new["speedup_ratio"] / new["price_ratio"]
        return factor

    def worth(self, row: dict[str, Any], day: pd.Timestamp) -> float:
        """What a machine brings on a day against today: a successor does its work for less."""
        factor = self.move(row, day)
        for new in self.expected.values():
            if new["succeeds"] == self.machines[row["sku"]]["accelerator"]:
                days, width = (day - new["available_p50"]) / pd.Timedelta(days=1), (new["available_p90"] - new["available_p50"]).days
                come = new["probability"] * NormalDist(0, width / NormalDist().inv_cdf(0.9)).cdf(days)
                factor *= 1 + come * (min(1.0, new["price_ratio"] / new["speedup_ratio"]) - 1)
        return factor

    def comes(self, sku: str, day: pd.Timestamp) -> bool:
        """Is a machine there on a day, or is its median day past?"""
        new = self.expected.get(self.machines[sku]["accelerator"])
        return new is None or bool(day >= new["available_p50"])

    def signed(self) -> list[dict[str, Any]]:
        """Contracts there are, and their renewals: any number of machines, each time the contract ends, of those that are left."""
        found = []
        for row in records(self.p.commitments):
            end = row["end"] + pd.Timedelta(days=1)
            count = self.machines[row["sku"]]["accelerator_count"]
            row |= {"role": "full" if row.get("guarantees_capacity", True) else "units"}
            found.append(row | {"last": end, "taken": row["machines"], "size": count, "paid": False, "from": row["start"], "first": True})
            before: Any = row["machines"]
            while row.get("renewal_usd_per_hour") is not None and self.days[0] <= end < self.end:
                taken = self.model.add_variable(f"renew {row['commitment_id']} {end:%Y%m%d}", 0, row["machines"], "Integer")
                self.model += taken <= before
                self.choices[f"renew {row['commitment_id']}", end] = taken
                before, last = taken, end + pd.DateOffset(months=TERM_MONTHS[row["term"]])
                found.append(
                    row
                    | {
                        "last": last,
                        "taken": taken,
                        "size": count,
                        "paid": True,
                        "from": end,
                        "usd_per_hour": row["renewal_usd_per_hour"],
                        "upfront_share": 0.0,
                    }
                )
                end = last
        return found

    def given_back(self, signed: list[dict[str, Any]], offered: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Machines of signed contracts that are left, sold or exchanged at a quarter's start: contracts for fewer than no machines."""
        found, exchanged = [], defaultdict(list)
        told = pd.Timestamp(self.a.as_of) + pd.Timedelta(days=self.a.approval_days)
        for row in (one for one in signed if one.get("first")):
            name, exit_share, resale = row["commitment_id"], row.get("exit_cost_share", 1.0), row.get("resale_share")
            days = [day for day in self.days[: self.count] if max(told, row["start"]) <= day < row["last"]]
            if row.get("notice_date") is not None and row["notice_date"] < told:
                days = []
            gone: list[Any] = []
            prepaid = self.prepaid(row)
            for day in days:
                left = row["usd_per_hour"] * sum(2190 * self.part(q, day, row["last"]) for q in range(len(self.days) - 1))
                costs = [exit_share * (1 - prepaid) * left] if exit_share < 1 else []
                costs += [(1 - prepaid - resale * min(self.worth(row, day), 1.0)) * left] if resale else []
                about = row | {"from": day, "paid": True, "first": False, "open": 1 - prepaid}
                if costs:
                    taken = self.model.add_variable(f"leave {name} {day:%Y%m%d}", 0, row["machines"], "Integer")
                    self.choices[f"leave {name}", day] = taken
                    gone.append(taken)
                    found.append(about | {"taken": -taken, "at_once": -min(costs), "lost": -prepaid * left})
                if row.get("exchangeable"):
                    taken = self.model.add_variable(f"exchange {name} {day:%Y%m%d}", 0, row["machines"], "Integer")
                    self.choices[f"exchange {name}", day] = taken
                    gone.append(taken)
                    exchanged[day].append(left * taken)
                    found.append(about | {"taken": -taken, "at_once": prepaid * left, "lost": -prepaid * left})
            again = [one["taken"] for one in signed if one["commitment_id"] == name and not one.get("first")][:1]
            self.model += pulp.lpSum([*gone, *again]) <= row["machines"]
        for day, worth in exchanged.items():
            bought = [
                sum(
                    row["upfront_share"] * row["usd_per_hour"] * amount + self.hourly(row, q) * amount
                    for q, amount in enumerate(self.hours(row))
                )
                * row["taken"]
                for row in offered
                if row["from"] == day and row["term"] != "owned"
            ]
            self.model += pulp.lpSum(worth) <= pulp.lpSum(bought)
        return found

    def prepaid(self, row: dict[str, Any]) -> float:
        """Share of a signed contract's price, by the hours of the calendar, that was paid at signing."""
        if row["term"] == "owned":
            return 0.0
        hours = (row["last"] - row["start"]) / pd.Timedelta(hours=1)
        return float(min(row.get("upfront_paid_usd", 0.0) / (row["machines"] * row["usd_per_hour"] * hours), 1.0))

    def offered(self) -> list[dict[str, Any]]:
        """Offers in each planned quarter that begins late enough."""
        found = []
        for row in self.offers:
            if row["term"] in BY_HOUR or not self.stands_for(row):
                continue
            for day in self.days[: self.count]:
                lead = pd.Timedelta(days=row.get("lead_time_days_p50") or 0.0)
                if day < pd.Timestamp(self.a.as_of) + lead or not self.comes(row["sku"], day - lead):
                    continue
                lot, least = int(row.get("lot_machines") or 1), int(row.get("minimum_lots") or 0)
                most = int(row.get("maximum_lots") or 200)
                taken = self.model.add_variable(f"take {row['offer_id']} {day:%Y%m%d}", 0, most, "Integer")
                self.choices[row["offer_id"], day] = taken
                if least > 1:
                    some = self.model.add_variable(f"some {row['offer_id']} {day:%Y%m%d}", 0, 1, "Integer")
                    self.model += taken >= least * some
                    self.model += taken <= most * some
                months = TERM_MONTHS.get(row["term"]) or int(row["term_months"])
                found.append(
                    row
                    | {
                        "last": day + pd.DateOffset(months=months),
                        "taken": lot * taken,
                        "size": self.machines[row["sku"]]["accelerator_count"],
                        "paid": True,
                        "from": day,
                        "usd_per_hour": row["usd_per_hour"] * self.move(row, day),
                        "upfront_share": row.get("upfront_share") or 0.0,
                        "role": role(self, row),
                        "signed_on": max(
                            day - pd.Timedelta(days=row.get("lead_time_days_p90", row.get("lead_time_days_p50")) or 0.0), self.today
                        ),
                    }
                    | (self.rooms.owned(row, day, day + pd.DateOffset(months=months)) if row["term"] == "owned" else {})
                )
        return found

    def stands_for(self, row: dict[str, Any]) -> bool:
        """Is it the offer of its plan with the smallest lot? A plan's dollars are the same at each of its rates."""
        same = [one for one in self.offers if "plan_id" in row and one.get("plan_id") == row["plan_id"]] or [row]
        return (
            row["offer_id"]
            == min(same, key=lambda one: ((one.get("lot_machines") or 1) * one["usd_per_hour"], one["offer_id"]))["offer_id"]
        )

    # --- what it costs -----------------------------------------------------------------------------------------------------------------

    def part(self, q: int, first: pd.Timestamp, last: pd.Timestamp) -> float:
        """Share of a quarter between two days."""
        begin, end = self.days[q], self.days[q + 1]
        return max((min(last, end) - max(first, begin)) / (end - begin), 0.0)

    def hours(self, row: dict[str, Any]) -> list[float]:
        """Hours of a contract in each quarter."""
        return [2190 * self.part(q, row["from"], row["last"]) for q in range(len(self.days) - 1)]

    def middle(self, q: int) -> pd.Timestamp:
        return self.days[q] + (self.days[q + 1] - self.days[q]) / 2

    def hourly(self, row: dict[str, Any], q: int) -> float:
        """What a machine costs in an hour of a quarter beside its prepayment; what is reserved is billed as on demand, at least."""
        if "at_once" in row:
            return row["usd_per_hour"] * row["open"] + (self.rooms.electricity(row, q) if row["term"] == "owned" else 0.0)
        if row["term"] == "owned":
            return self.rooms.electricity(row, q) + row["upkeep"]
        if row["role"] == "reserve":
            rented = next(one for one in self.offers if one["term"] == "on_demand" and one["sku"] == row["sku"])
            return row["usd_per_hour"] - rented["usd_per_hour"] * self.move(rented, self.middle(q))
        return (1 - row["upfront_share"]) * row["usd_per_hour"]

    def once(self, row: dict[str, Any]) -> float:
        """What a machine costs at once: where it is left, as its price, or prepaid."""
        if "at_once" in row:
            return float(row["at_once"])
        if row["term"] == "owned":
            return float(row.get("capex_usd", 0.0))
        return float(row["upfront_share"] * row["usd_per_hour"] * sum(self.hours(row)) * (row["role"] != "reserve"))

    def counted(self) -> int:
        """Quarters in which payments count."""
        return {"truncate": self.count, "count_in_full": len(self.days) - 1}.get(self.a.horizon_end, self.count + 4 * self.years)

    def pay(self) -> None:
        """Add what contracts cost: evenly over quarters, prepaid at the first; cut off, in full, or the part while demand is held."""
        growth, until = 1 + self.a.discount_rate_per_year, self.counted()
        for row in self.contracts:
            if not row["paid"]:
                continue
            hours = self.hours(row)
            first, last = (pick(q for q, amount in enumerate(hours) if amount) for pick in (min, max))
            kept = 1.0 if self.a.horizon_end == "truncate" else sum(hours[:until]) / sum(hours)
            evenly = [amount * growth ** (-(q + 0.5) / 4) for q, amount in enumerate(hours[:until])]
            usd = sum(self.hourly(row, q) * amount for q, amount in enumerate(evenly) if amount)
            usd += self.once(row) * kept * growth ** (-first / 4)
            if row.get("back_usd") and (self.a.horizon_end != "truncate" or last < until):
                usd -= row["back_usd"] * kept * growth ** (-(min(last, until - 1) + 0.5) / 4)
            self.cost.append(usd * row["taken"])

    # --- what is done ------------------------------------------------------------------------------------------------------------------

    def there(self, first: pd.Timestamp, last: pd.Timestamp) -> dict[tuple[str, str], Any]:
        """What is under contract from one day to another at its mean: accelerators by kind and role, and dollars of plans."""
        found: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for row in self.contracts:
            taken = row["taken"] * max((min(last, row["last"]) - max(first, row["from"])) / (last - first), 0.0)
            name, amount = self.machines[row["sku"]]["accelerator"], row["size"] * taken
            if row["role"] != "dollars":
                found[row["role"], name].append(amount)
                continue
            # A plan pays for the machines of its lot at the rates it was signed at.
            today = next(one["usd_per_hour"] for one in self.offers if one["offer_id"] == row["offer_id"])
            found["dollars", row.get("plan_id", row["offer_id"])].append(today * taken)
            if row.get("guarantees_capacity"):
                found["reserve", name].append(amount)
        return {key: pulp.lpSum(parts) for key, parts in found.items()}

    def held_in_year(self, q: int) -> dict[tuple[str, str], Any]:
        """The mean of a year's quarters, which have the same hours."""
        four = [self.there(self.days[q + i], self.days[q + i + 1]) for i in range(4)]
        return {key: pulp.lpSum(0.25 * each[key] for each in four) for key in four[0]}

    def cap(self, kind: str, accelerator: str, default: float) -> float:
        mine = [
            limit["amount"]
            for limit in self.limits
            if limit["kind"] == kind and limit.get("counts") is None and limit.get("accelerator") in (None, accelerator)
        ]
        return min(mine) if mine else default

    def hour(
        self, name: str, need: dict[str, float], day: pd.Timestamp, held: dict[Any, Any], off: float = 0.0, *, later: bool
    ) -> tuple[Any, Any]:
        """Serve one hour; return what it costs, and what of that is paid in money, less a discount on use by the hour."""
        since = max(step for step in self.days[: self.count] if step <= day)
        usd, money, done = [], [], defaultdict(list)
        classes = {row["class"]: row for row in records(self.p.classes)}
        running, rented, price = {}, {}, {}
        self.later: list[Any] = []
        for accelerator in self.kinds:
            offers = {
                row["term"]: row
                for row in self.offers
                if self.machines[row["sku"]]["accelerator"] == accelerator and row["term"] in BY_HOUR and self.comes(row["sku"], since)
            }
            for way in ("contract", "reserved", *offers):
                use = {
                    c: self.model.add_variable(f"{way} {accelerator} {c} {name}", 0)
                    for c in need
                    if (c, accelerator) in self.speed and (way != "spot" or classes[c]["interruptible"])
                }
                for c, amount in use.items():
                    done[c].append(self.speed[c, accelerator] * amount)
                total = running[accelerator, way] = pulp.lpSum(use.values())
                if way == "contract":
                    anew = self.again(accelerator, day, ("full",)) if later else None
                    again = self.model.add_variable(f"again {accelerator} {name}", 0, 0 if anew is None else None)
                    self.model += total <= held.get(("full", accelerator), 0) + again
                    usd.append((anew or 0.0) * again)
                elif way == "reserved":
                    self.model += total <= held.get(("reserve", accelerator), 0)
                else:
                    hourly = (
                        offers[way]["usd_per_hour"] / self.machines[offers[way]["sku"]]["accelerator_count"] * self.move(offers[way], day)
                    )
                    self.model += total <= self.cap(f"{way}_accelerators", accelerator, getattr(self.a, f"{way}_accelerators"))
                    if way == "spot":
                        money.append((1 - off) * hourly * total)
                    else:
                        price[accelerator], rented[accelerator] = (1 - off) * hourly, total + running[accelerator, "reserved"]
        money.append(bill(self, name, rented, held, price, day, later=later))
        usd += [*money, *self.later]
        for limit in [] if later else self.limits:
            ways = {"running": ("on_demand",), "all": BY_HOUR}.get(limit.get("counts") or "", ())
            if limit["kind"] == "quota_accelerators":
                mine = [accelerator for accelerator in self.kinds if limit.get("accelerator") in (None, accelerator)]
                by_hour = [running[accelerator, way] for accelerator in mine for way in ways if (accelerator, way) in running]
                bought = [held.get((role, accelerator), 0) for accelerator in mine for role in ("full", "reserve")]
                self.model += pulp.lpSum(bought) + pulp.lpSum(by_hour) <= limit["amount"]
        for c, amount in need.items():
            missed = self.model.add_variable(f"missed {c} {name}", 0)
            self.model += pulp.lpSum(done[c]) + missed >= amount
            usd.append(classes[c]["shortfall_usd_per_unit"] * missed)
        return pulp.lpSum(usd), pulp.lpSum(money)

    def again(self, accelerator: str, day: pd.Timestamp, roles: tuple[str, ...]) -> float | None:
        """Cheapest contract for an hour after the horizon, with capital for prepayment; above a year at one and a half times its price."""
        rates = []
        for row in self.offers:
            if (
                row["term"] in (*BY_HOUR, "owned")
                or self.machines[row["sku"]]["accelerator"] != accelerator
                or role(self, row) not in roles
            ):
                continue
            years, growth = (TERM_MONTHS.get(row["term"]) or row["term_months"]) / 12, 1 + self.a.discount_rate_per_year
            worth = years if growth == 1 else (1 - growth**-years) / log(growth)
            prepaid = row.get("upfront_share", 0.0)
            rate = row["usd_per_hour"] / self.machines[row["sku"]]["accelerator_count"] * (1 - prepaid + prepaid * years / worth)
            rates.append(rate * self.move(row, day) * (1.0 if years <= 1 else 1.5))
        return min(rates, default=None)

    def solve(self) -> float:
        """Return the least risk-weighted cost."""
        growth, demand = 1 + self.a.discount_rate_per_year, self.p.demand
        self.kinds = sorted({row["accelerator"] for row in self.machines.values()})
        closing = [row["end"] + pd.Timedelta(days=1) for row in self.rooms.sites.values() if not pd.isna(row["end"])]
        cuts = sorted(
            {
                *self.days[: self.count + 1],
                *(day for row in self.contracts for day in (row["from"], row["last"]) if self.days[0] < day < self.end),
                *(day for day in closing if self.days[0] < day < self.end),
            }
        )
        path_cost, spent = defaultdict(list), defaultdict(list)
        chance = demand.drop_duplicates("path").set_index("path")["probability"].to_dict()
        for first, last in pairwise(cuts):
            q = max(step for step in range(self.count) if self.days[step] <= first)
            held = self.there(first, last)
            self.rooms.hold(first, last)
            self.rooms.space(q, first, last)
            label = f"{self.days[q].year}Q{(self.days[q].month + 2) // 3}"
            for (path, block), part in demand[demand["quarter"] == label].groupby(["path", "block"]):
                need = dict(zip(part["class"], part["work_per_hour"], strict=True))
                name = f"{first:%Y%m%d} {path} {block}"
                usd, money = self.hour(name, need, self.middle(q), held, discount_share(self, q), later=False)
                hours = part["hours"].iloc[0] * self.part(q, first, last)
                path_cost[path].append(hours * growth ** (-(q + 0.5) / 4) * usd)
                spent[q].append(chance[path] * hours * money)
        for q in range(self.count, self.counted()):
            self.rooms.space(q, self.days[q], self.days[q + 1])
        self.pay()
        self.budgets(spent)
        agreements(self, spent)
        last_label = f"{self.days[self.count - 1].year}Q{(self.days[self.count - 1].month + 2) // 3}"
        for year in range(self.years):
            q = self.count + 4 * year
            held = self.held_in_year(q)
            length = sum(growth ** (-(q + i + 0.5) / 4) for i in range(4))
            for (path, block), part in demand[demand["quarter"] == last_label].groupby(["path", "block"]):
                usd, _ = self.hour(
                    f"after {year} {path} {block}",
                    dict(zip(part["class"], part["work_per_hour"], strict=True)),
                    self.days[q + 2],
                    held,
                    later=True,
                )
                self.cost.append(chance[path] * part["hours"].iloc[0] * length * usd)
        weight, share = self.a.risk_weight, self.a.tail_share
        worst = self.model.add_variable("worst")
        over = {path: self.model.add_variable(f"over {path}", 0) for path in chance}
        for path, parts in path_cost.items():
            self.model += over[path] >= pulp.lpSum(parts) - worst
        mean = pulp.lpSum(chance[path] * pulp.lpSum(parts) for path, parts in path_cost.items())
        tail = worst + pulp.lpSum(chance[path] / share * over[path] for path in chance)
        first = pulp.lpSum(self.cost)
        self.parts = {"expected_usd": first + mean, "cvar_usd": first + tail}
        self.model += first + (1 - weight) * mean + weight * tail
        self.model.solve(pulp.HiGHS(msg=False, gapRel=1e-9, threads=1))
        assert pulp.LpStatus[self.model.status] == "Optimal"
        return float(pulp.value(self.model.objective))

    def measures(self) -> dict[str, float]:
        """Return expected cost and CVaR of what was solved with no weight on either alone."""
        return {name: float(pulp.value(part)) for name, part in self.parts.items()}

    def budgets(self, spent: dict[int, list[Any]]) -> None:
        """Keep what contracts cost in each quarter by days, with the expected use by the hour, within each budget, or pay for more."""
        growth = 1 + self.a.discount_rate_per_year
        for limit in self.limits:
            if limit["kind"] == "budget_usd":
                for q in range(self.count):
                    parts = [self.booked(row, q) * row["taken"] for row in self.contracts] + self.rooms.spent[q]
                    over = self.model.add_variable(f"over {limit['limit_id']} {q}", 0, 0 if limit["hard"] else None)
                    self.cost.append(self.a.soft_limit_penalty_share * growth ** (-(q + 0.5) / 4) * over)
                    self.model += pulp.lpSum(parts) + pulp.lpSum(spent[q]) - over <= limit["amount"]

    def booked(self, row: dict[str, Any], q: int) -> float:
        """What a machine costs in the accounts of a quarter: a contract its price by days, a machine owned its loss of value beside."""
        days = (self.days[q + 1] - self.days[q]).days * self.part(q, row["from"], row["last"])
        share = days / ((row["last"] - row["from"]) / pd.Timedelta(days=1))
        if not row["paid"]:
            return days * 24 * (self.rooms.loss(row) if row["term"] == "owned" else row["usd_per_hour"])
        evenly = self.hourly(row, q) * self.hours(row)[q]
        if "at_once" in row:
            falls = self.hours(row)[q] * row["usd_per_hour"] + days * row.get("wears", 0.0)
            return falls + (row["at_once"] + row["lost"]) * (row["from"] == self.days[q])
        if row["term"] == "owned":
            return evenly + (row.get("capex_usd", 0.0) - row.get("back_usd", 0.0)) * share
        return evenly if row["role"] == "reserve" else row["usd_per_hour"] * sum(self.hours(row)) * share
