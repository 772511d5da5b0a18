"""What is moved by an amount in its own unit: prices by money, lead times and durations by days, sizes, limits and assumptions by a number.

What a book states is read, and set to that and the amount; nothing moves below zero.
"""

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from capplan.answers.ask.meaning.base import Found, Sold, UnclearError, as_number, changed, first, has, words_of
from capplan.answers.ask.meaning.money import Money
from capplan.answers.ask.meaning.operations import Operations
from capplan.answers.ask.tokens import Amount
from capplan.answers.ask.what_ifs import Assumed, Shown
from capplan.book.changes import Change, quoted
from capplan.book.scenario import Scenario
from capplan.text import counted, listed

#: What stands before an amount that something comes to.
_TO = re.compile(r"\b(?:to|at)\s+(?:(?:about|around|roughly|just|only|exactly)\s+)?[$€£]?\s*$", re.I)
#: Rows that one sentence moves by an amount at most: each is a what-if that a person reads.
MOST_ROWS = 12


class Amounts(Money, Operations):
    """Rules about what moves by an amount."""

    def _step(self, children: Found, *kinds: str) -> tuple[int, Any]:
        """Return which way, and the token that says by how much; an amount that something comes to is no step."""
        word = words_of(children, *kinds)[0]
        if _TO.search(self.text[: word.start]):
            raise UnclearError(f"to {self.text[word.start : word.end]}, or by that much?")
        return self._ways(children), word.value

    @staticmethod
    def _ways(children: Found) -> int:
        return -1 if has(children, "DOWN", "DROP", "CHEAPER", "TIGHTER") else 1

    def _moved_by(self, table: str, rows: Iterable[Any], columns: tuple[str, ...], step: float) -> Found:
        """Set cells to what they hold and a step; rows that state nothing stay.

        Args:
            rows: Keys of the table.
            columns: Those that hold the same thing, the one that must never be less first.
        """
        frame, found = self.book.get(table), list[Any]()
        frame = frame.set_index(frame.columns[0])
        for key in rows:
            for column in columns if step > 0 else columns[::-1]:
                now = frame.at[key, column]
                if pd.notna(now) and now > 0:
                    if now + step < 0:
                        raise UnclearError(f"{column} of {key} is {now:,.10g}, and cannot be {now + step:,.10g}")
                    found.append(changed(f"{table}.{quoted(str(key))} set {column} {as_number(now + step)}"))
        if not found:
            raise UnclearError(f"the book states no {listed([*columns])} that could move by an amount; say what it is to be")
        if len(found) > MOST_ROWS:
            raise UnclearError(f"that moves {counted(len(found), 'cell')} one by one; say by how many percent, or name the rows")
        return found

    def size_by(self, children: Found) -> Found:
        column = "tokens" if has(children, "TOKENS") else "parameters"
        sign, number = self._step(children, "NUMBER")
        refs = self._each(first(children, tuple), ("run",))
        return self._moved_by("training_runs", [ref.key for ref in refs], (column,), sign * float(number))

    def price_by(self, children: Found) -> Found:
        """Move the price an hour of offers by an amount an hour, said for an accelerator or for a machine."""
        sold = first(children, Sold) or Sold("refs", first(children, tuple))
        sign, amount = self._step(children, "MONEY")
        usd, found = sign * self._usd(amount), list[Any]()
        if sold.what != "refs":
            raise UnclearError("a price that moves by money is that of an offer, or of an accelerator; say which", rank=0)
        columns = ("usd_per_hour", "negotiated_usd_per_hour")
        for wanted in sold.refs:
            where = self._about(wanted, sold.terms[:1])
            if len(sold.terms) > 1 or (where is None and sold.terms):
                raise UnclearError("say the offer with its price an hour", [self._one(wanted, ("offer",)).key])
            keys = [self._one(wanted, ("offer",)).key] if where is None else list(self._offers_about(where)["offer_id"])
            offers = self.book.get("offers")
            rows = offers[offers["offer_id"].isin(keys) & (offers["usd_per_hour"] > 0)].merge(self.book.get("skus"), on="sku", how="left")
            if not has(children, "PER_GPU", "PER_MACHINE") and set(rows["accelerator_count"]) != {1}:
                raise UnclearError("per GPU or per machine hour? Machines here have several accelerators")
            for key, count in zip(rows["offer_id"], rows["accelerator_count"], strict=True):
                found += self._moved_by("offers", [key], columns, usd * (float(count) if has(children, "PER_GPU") else 1.0))
        if len(found) > MOST_ROWS:
            raise UnclearError(f"that moves {counted(len(found), 'price')} one by one; say by how many percent, or name the offers")
        return found

    def power_by(self, children: Found) -> Found:
        sign, amount = self._step(children, "MONEY")
        usd = sign * self._usd(amount)
        if abs(usd) >= 1 and not has(children, "PER_KWH"):
            raise UnclearError("electricity is paid by the kWh; say how much a kWh")
        return self._moved_by("sites", self._sites(first(children, tuple) or ()), ("usd_per_kwh",), usd)

    def lead_by(self, children: Found) -> Found:
        days = self._ways(children) * self._days(first(children, Amount))
        refs = [self._one(wanted, ("offer",)).key for wanted in first(children, tuple) or ()]
        rows = refs or self.book.get("offers").query("lead_time_days_p90 > 0")["offer_id"]
        return self._moved_by("offers", rows, ("lead_time_days_p90", "lead_time_days_p50"), days)

    def duration_by(self, children: Found) -> Found:
        hours = self._ways(children) * self._hours(first(children, Amount))
        tasks = [self._one(wanted, ("task",)).key for wanted in first(children, tuple)]
        return [*self._moved_by("tasks", tasks, ("duration_hours",), hours), Shown(report="placement")]

    def rate_by(self, children: Found) -> Found:
        sign, number = self._step(children, "NUMBER")
        refs = [self._one(wanted, ("api",)).key for wanted in first(children, tuple)]
        return self._moved_by("api_contracts", refs, ("requests_per_minute",), sign * float(number))

    def quota_by(self, children: Found) -> Found:
        sign, number = self._step(children, "NUMBER")
        return self._moved_by("limits", [self._quota_about(children)], ("amount",), sign * float(number))

    def quota_set(self, children: Found) -> Found:
        number = as_number(words_of(children, "NUMBER")[0].value)
        return [changed(f"limits.{quoted(self._quota_about(children))} set amount {number}")]

    def _quota_about(self, children: Found) -> str:
        """Return the one limit of machines by the hour, or of all of them, that a provider, a place and an accelerator have."""
        hours = [word.kind.casefold() for word in words_of(children, "SPOT", "ON_DEMAND")]
        kinds = [f"{each}_accelerators" for each in hours or ["quota"]]
        rows, refs = self.book.get("limits"), first(children, tuple)
        for column, value in [("kind", kinds[0]), *(each for wanted in refs for each in (self._about(wanted) or {"": ""}).items())]:
            rows = rows[rows[column] == value] if column in rows else rows.iloc[:0]
        if len(rows) != 1 or len(kinds) > 1 or not rows["quarter"].isna().all():
            of_kind = self.book.get("limits").query("kind == @kinds[0]")["limit_id"]
            raise UnclearError(
                f"{counted(len(rows), 'limit')} for that in this book; say which", list(rows["limit_id"] if len(rows) else of_kind)
            )
        return str(rows["limit_id"].iloc[0])

    def lots_most(self, children: Found) -> Found:
        most, refs = float(words_of(children, "NUMBER")[0].value), [self._one(wanted, ("offer",)) for wanted in first(children, tuple)]
        return [changed(f"offers.{quoted(ref.key)} set maximum_lots {as_number(most)}") for ref in refs]

    def field_by(self, children: Found) -> Found:
        """Move an assumption that has a number, by a number or by a span in its own unit."""
        name, word = words_of(children, "FIELD")[0].value, words_of(children, "NUMBER", "SPAN")[0]
        sign, _ = self._step(children, word.kind)
        now, field = getattr(self.scenario, name), Scenario.model_fields[name]
        unit = str((field.json_schema_extra or {}).get("unit", ""))  # type: ignore[union-attr]
        if not isinstance(now, (int, float)) or isinstance(now, bool):
            raise UnclearError(f"{name} is {now}, and moves by no amount; say what it is to be")
        if (word.kind == "SPAN") != unit.startswith(("day", "hour")) or (word.kind == "SPAN" and not unit.startswith(word.value.unit)):
            raise UnclearError(f"{name} is counted in {unit or 'no unit of time'}")
        after = now + sign * (word.value.number if word.kind == "SPAN" else float(word.value))
        return [Assumed(name=name, value=int(after) if field.annotation is int and after == int(after) else round(after, 9))]

    def renewal_moves(self, children: Found) -> Found:
        """Move the price that contracts state for their renewal."""
        factor, stated = first(children, float), self.book.get("commitments").set_index("commitment_id")["renewal_usd_per_hour"]
        refs = self._contracts(children)
        unstated = [ref.key for ref in refs if not stated[ref.key] > 0]
        if unstated:
            raise UnclearError(f"{listed(unstated)} states no price of a renewal; say it in money an hour")
        renewed = [] if has(children, "PRICE") or re.search(r"\brenewals?\b", self.text, re.I) else self.contract(children)
        return renewed + [changed(f"commitments.{quoted(ref.key)} multiply renewal_usd_per_hour {as_number(factor)}") for ref in refs]

    def needs(self, children: Found) -> Found:
        """Set what a task needs: accelerators, CPUs, memory, disk."""
        cells = first(children, dict)
        if {"duration_hours", "after"} & set(cells):
            raise UnclearError("say what of the task changes, and how", rank=0)
        tasks = [self._one(wanted, ("task",)).key for wanted in first(children, tuple)]
        lines = [Change(table="tasks", key=key, column=column, set=value).line for key in tasks for column, value in cells.items()]
        return [*map(changed, lines), Shown(report="placement")]

    def budget_each(self, children: Found) -> Found:
        """Set or move each budget of several quarters; only where it is said that each is meant."""
        if not has(children, "A_QUARTER") and "each" not in self.text.casefold().split():
            raise UnclearError("is that for each of these quarters, or for all together? Say 'each'")
        when = words_of(children, "QUARTER", "PERIOD")
        budgets = self.book.get("limits").query("kind == 'budget_usd' and measure != 'capex'").dropna(subset="quarter")
        quarters = [each for word in when for each in ((word.value,) if word.kind == "QUARTER" else word.value)] or list(budgets["quarter"])
        names = [name for quarter in quarters for name in self._pots("quarter", quarter)]
        moved = has(children, "UP", "DOWN", "DROP", "ADD") and not has(children, "TO", "AT_MOST")
        return self._budget_of(names, first(children, Amount), sign=self._ways(children) if moved else 0)
