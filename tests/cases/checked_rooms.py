"""The checker's machines owned: bought, kept beyond their useful life or sold, and the power and space of the rooms in which they stand."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pandas as pd
import pulp

#: Hours of a year of support, and of a month of space.
YEAR, MONTH = 24 * 365.25, 730.0


class Rooms:
    """Machines that are there, those that may come, and what they draw."""

    def __init__(self, c: Any) -> None:
        self.c = c
        self.sites = {} if c.p.sites is None else {row["site"]: row for row in c.p.sites.fillna({"end": pd.NaT}).to_dict("records")}
        self.there: list[dict[str, Any]] = []
        self.spent: dict[int, list[Any]] = defaultdict(list)
        for row in [] if c.p.assets is None else c.p.assets.replace({float("nan"): None}).to_dict("records"):
            self._asset(row)

    def _asset(self, row: dict[str, Any]) -> None:
        """Machines of a lot to the end of their useful life, and the years for which they may be kept."""
        c, machine = self.c, self.c.machines[row["sku"]]
        end = row["in_service"] + pd.DateOffset(months=round(12 * row["useful_life_years"]))
        base = {"sku": row["sku"], "size": machine["accelerator_count"], "role": "full", "term": "owned", "kw": machine["power_kw"]}
        base |= {"site": row["site"], "upfront_share": 0.0, "new": False, "asset": row}
        self.there.append(base | {"from": row["in_service"], "last": end, "taken": row["machines"], "paid": False})
        before: Any = row["machines"]
        while not pd.isna(row["last_day"]) and c.days[0] <= end < min(row["last_day"] + pd.Timedelta(days=1), c.end):
            last = min(end + pd.DateOffset(years=1), row["last_day"] + pd.Timedelta(days=1))
            if self._closed(row["site"], end):
                break
            taken = c.model.add_variable(f"keep {row['asset_id']} {end:%Y%m%d}", 0, row["machines"], "Integer")
            c.model += taken <= before
            c.choices[f"keep {row['asset_id']}", end] = taken
            upkeep = row["kept_usd_per_year"] / row["machines"] / YEAR
            self.there.append(base | {"from": end, "last": last, "taken": taken, "paid": True, "new": True, "upkeep": upkeep})
            before, end = taken, last

    def _closed(self, site: str, day: pd.Timestamp) -> bool:
        end = self.sites[site]["end"]
        return not pd.isna(end) and day > end

    def sold(self) -> list[dict[str, Any]]:
        """Machines sold at a quarter's start: electricity and support end, and the price falls evenly to what the last day brings."""
        c, found = self.c, []
        for one in [held for held in self.there if not held["paid"] and held["asset"].get("resale_share")]:
            row, told = one["asset"], c.today + pd.Timedelta(days=c.a.approval_days)
            price, gone = row["capex_usd"] / row["machines"], []
            for day in [day for day in c.days[: c.count] if max(row["in_service"], told) <= day < one["last"]]:
                taken = c.model.add_variable(f"sell {row['asset_id']} {day:%Y%m%d}", 0, row["machines"], "Integer")
                c.choices[f"sell {row['asset_id']}", day] = taken
                gone.append(taken)
                worn = (day - c.today) / (one["last"] - c.today)
                brings = price * (row["resale_share"] + (row["residual_share"] - row["resale_share"]) * worn)
                once = brings * min(c.worth(one, day), 1.0) - price * row["residual_share"]
                saved = row["support_usd_per_year"] / row["machines"] / YEAR
                wears = price * (1 - row["residual_share"]) / ((one["last"] - one["from"]) / pd.Timedelta(days=1))
                about = {"from": day, "taken": -taken, "paid": True, "at_once": once, "usd_per_hour": saved, "open": 1.0}
                found.append(one | about | {"lost": -wears * ((one["last"] - day) / pd.Timedelta(days=1)), "wears": wears})
            kept = [held["taken"] for held in self.there if held["paid"] and held["asset"] is row][:1]
            c.model += pulp.lpSum([*gone, *kept]) <= row["machines"]
        return found

    def owned(self, row: dict[str, Any], day: pd.Timestamp, last: pd.Timestamp) -> dict[str, Any]:
        """What is told of a machine that is bought for a day."""
        c, machine = self.c, self.c.machines[row["sku"]]
        capex = row["capex_usd"] * c.move(row, day)
        about = {"from": day, "last": last, "kw": machine["power_kw"], "site": row["region"], "new": True, "capex_usd": capex}
        back = capex * min(c.a.residual_share * c.worth(row, last), 1.0)
        return about | {"upkeep": capex * c.a.upkeep_share_per_year / 8760, "back_usd": back}

    def electricity(self, row: dict[str, Any], q: int) -> float:
        """Electricity of a machine for an hour of a quarter."""
        site = self.sites[row["site"]]
        return row["kw"] * site["pue"] * site["usd_per_kwh"] * self._rise(row["site"], q)

    def loss(self, row: dict[str, Any]) -> float:
        """What a machine that is there costs an hour in the accounts."""
        asset = row["asset"]
        worn = asset["capex_usd"] * (1 - asset["residual_share"]) / ((row["last"] - row["from"]) / pd.Timedelta(hours=1))
        return (worn + asset["support_usd_per_year"] / YEAR) / asset["machines"]

    def _rise(self, site: str, q: int) -> float:
        """Mean over the quarter's months of what prices have risen to at the anniversaries before each."""
        share, since = self.sites[site]["escalator_share_per_year"], self.c.today
        months = [self.c.days[q] + pd.DateOffset(months=i) for i in range(3)]
        years = [max((12 * (day.year - since.year) + day.month - since.month) // 12, 0) for day in months]
        return sum((1 + share) ** year for year in years) / 3

    def hold(self, first: pd.Timestamp, last: pd.Timestamp) -> None:
        """Keep what owned machines draw at a moment within the power of each room, as far as those there leave some."""
        for name, site in self.sites.items():
            here = [row for row in self._standing(name) if row["from"] < last and first < row["last"]]
            old = sum(row["kw"] * row["taken"] for row in here if not row["paid"])
            new = pulp.lpSum(row["kw"] * row["taken"] for row in here if row["paid"])
            self.c.model += new <= max(site["available_kw"] - old, 0.0)

    def space(self, q: int, first: pd.Timestamp, last: pd.Timestamp) -> None:
        """Pay for space and power that a stretch of a quarter takes beyond what is paid for in any case and drawn by no machine there."""
        c = self.c
        discount = (1 + c.a.discount_rate_per_year) ** (-(q + 0.5) / 4)
        for name, site in self.sites.items():
            over = c.days[-1] if pd.isna(site["end"]) else site["end"] + pd.Timedelta(days=1)
            inside = {id(row): self._share(row, first, last) for row in self._standing(name)}
            old = sum(row["kw"] * row["taken"] * inside[id(row)] for row in self._standing(name) if not row["paid"])
            free = max(site["committed_kw"] - old, 0.0) * max((min(over, last) - first) / (last - first), 0.0)
            more = c.model.add_variable(f"space {name} {first:%Y%m%d}", 0)
            c.model += more >= pulp.lpSum(row["kw"] * row["taken"] * inside[id(row)] for row in self._standing(name) if row["new"]) - free
            usd = 2190 * c.part(q, first, last) * site["usd_per_kw_month"] / MONTH * self._rise(name, q)
            c.cost.append(discount * usd * more)
            self.spent[q].append(usd * more)

    def _share(self, row: dict[str, Any], first: pd.Timestamp, last: pd.Timestamp) -> float:
        return max((min(last, row["last"]) - max(first, row["from"])) / (last - first), 0.0)

    def _standing(self, site: str) -> list[dict[str, Any]]:
        return [row for row in self.c.contracts if row.get("site") == site]
