"""Prices, quotes, contracts, budgets and limits."""

import re
from dataclasses import replace
from typing import Any

from capplan.answers.ask.meaning.base import Base, Found, Sold, UnclearError, Wanted, as_number, changed, first, has, percent_of, words_of
from capplan.answers.ask.names import Ref
from capplan.answers.ask.tokens import Amount, Word
from capplan.answers.ask.what_ifs import Asked, Assumed
from capplan.book.changes import Change, quoted
from capplan.book.factors import QUOTA_KINDS
from capplan.text import counted, listed

#: Least amount of money that is a budget of a quarter where nothing else says so.
LEAST_BUDGET = 10_000


class Money(Base):
    """Rules about money, and what it buys."""

    def by_hour(self, children: Found) -> Word:
        return children[0]

    def sold(self, children: Found) -> Sold:
        terms = tuple("spot" if word.kind == "SPOT" else "on_demand" for word in words_of(children, "SPOT", "ON_DEMAND"))
        return Sold("terms", terms=terms) if terms else Sold("all")

    def sold_refs(self, children: Found) -> Sold:
        return Sold("refs", first(children, tuple))

    def sold_hours(self, children: Found) -> Sold:
        return Sold("refs", first(children, tuple), tuple(word.kind.casefold() for word in words_of(children, "SPOT", "ON_DEMAND")))

    def sold_api(self, children: Found) -> Sold:
        return Sold("api", first(children, tuple) or ())

    def sold_power(self, children: Found) -> Sold:
        return Sold("power", first(children, tuple) or ())

    def price_moves(self, children: Found) -> Found:
        return self._priced(first(children, Sold), first(children, float))

    def price_goods(self, children: Found) -> Found:
        return self._priced(Sold("all"), first(children, float))

    def price_of(self, children: Found) -> Found:
        return self._priced(self.sold_refs(children), first(children, float))

    def price_power(self, children: Found) -> Found:
        return self._priced(self.sold_power(children), first(children, float))

    def price_api(self, children: Found) -> Found:
        return self._priced(self.sold_api(children), first(children, float))

    def price_set(self, children: Found) -> Found:
        """Set the hourly price of offers of a kind, said for an accelerator or for a machine."""
        sold, amount = first(children, Sold), words_of(children, "MONEY")[0].value
        if sold.what != "refs":
            raise UnclearError("a price in money is that of an offer, or of an accelerator; say which")
        usd, found = self._usd(amount), list[Any]()
        for wanted in sold.refs:
            where = self._about(wanted, sold.terms[:1])
            if where is None or len(sold.terms) > 1:
                raise UnclearError("say the quote with its price an hour", [self._one(wanted, ("offer",)).key])
            rows = self._offers_about(where)
            counts = sorted(set(rows["accelerator_count"]))
            if not has(children, "PER_GPU", "PER_MACHINE") and counts != [1]:
                raise UnclearError(
                    f"machines here have {listed([f'{each:g}' for each in counts])} accelerators; say per GPU or per machine hour"
                )
            for count in counts if has(children, "PER_GPU") else [0]:
                some = rows[rows["accelerator_count"] == count] if count else rows
                more = {"accelerator_count": int(count)} if count and len(counts) > 1 else {}
                stated = [name for name in ("usd_per_hour", "negotiated_usd_per_hour") if (some[name] > 0).any()]
                price = usd * float(count or 1)
                lines = [Change(table="offers", where=where | more, column=name, set=float(as_number(price))) for name in stated]
                found += [changed(line.line) for line in lines]
        return found

    def _about(self, wanted: Wanted, terms: tuple[str, ...] = ()) -> dict[str, Any] | None:
        """Return the cells that offers of a kind have: accelerator, provider, place, machine, term; None where a name is an offer's own."""
        columns = {"accelerator": "accelerator", "provider": "provider", "geography": "geography", "region": "region", "machine": "sku"}
        where: dict[str, Any] = {"term": terms[0]} if terms else {}
        plural = not wanted.kinds or wanted.said.casefold().endswith(("offers", "quotes", "quotations"))
        for names in wanted.names:
            kinds = {ref.kind: ref.key for ref in names}
            kind = next((each for each in columns if each in kinds), None)
            if kind is None or not plural or set(kinds) & {"offer", "contract"}:
                return None
            if where.get(columns[kind], kinds[kind]) != kinds[kind]:
                raise UnclearError(f"{wanted.said!r} names two things of one kind; say them with 'and'")
            where[columns[kind]] = kinds[kind]
        return where if wanted.names else None

    def _offers_about(self, where: dict[str, Any]) -> Any:
        rows = self.book.get("offers").merge(self.book.get("skus").drop(columns="source_id"), on="sku", how="left")
        for column, value in where.items():
            rows = rows[rows[column] == value]
        if rows.empty:
            raise UnclearError(f"no offer has {listed([f'{column} {value}' for column, value in where.items()])}")
        return rows

    def _priced(self, sold: Sold, factor: float) -> Found:
        if sold.what == "all":
            return [Asked(card="Unsigned prices change by", number=percent_of(factor))]
        if sold.what == "power":
            return [changed(f"sites.{quoted(key)} multiply usd_per_kwh {as_number(factor)}") for key in self._sites(sold.refs)]
        if sold.what == "api":
            hosted = self.book.get("workloads").query("host == 'either'")["workload"]
            picks = [self._one(wanted, ("workload",)).key for wanted in sold.refs] or list(hosted)
            return [Asked(card="API prices change by", pick=pick, number=percent_of(factor)) for pick in picks]
        found: Found = []
        for term in sold.terms if not sold.refs else ():
            columns = ("usd_per_hour", "negotiated_usd_per_hour")
            lines = [changed(f"offers where term={term} multiply {column} {as_number(factor)}") for column in columns]
            found += [Asked(card="Spot prices are multiplied by", number=factor)] if term == "spot" else lines
        each: list[tuple[str, ...]] = [(term,) for term in sold.terms] or [()]
        for wanted, terms in ((wanted, terms) for wanted in sold.refs for terms in each):
            if (where := self._about(wanted, terms)) is not None:
                if any(ref.kind == "site" for names in wanted.names for ref in names):
                    raise UnclearError("the price of the power there, or of the machines? Say electricity, or the offer")
                rows = self._offers_about(where)
                stated = [name for name in ("usd_per_hour", "negotiated_usd_per_hour", "capex_usd") if (rows[name] > 0).any()]
                found += [
                    changed(Change(table="offers", where=where, column=name, multiply=float(as_number(factor))).line) for name in stated
                ]
                continue
            ref = self._one(wanted, ("offer", "contract"))
            if ref.kind == "contract":
                raise UnclearError(f"{ref.key} is signed, so its price stands; say its renewal price, or an offer", [])
            row = self._row(ref)
            stated = [name for name in ("usd_per_hour", "negotiated_usd_per_hour", "capex_usd") if row[name] > 0]
            found += [changed(f"offers.{quoted(ref.key)} multiply {column} {as_number(factor)}") for column in stated]
        return found

    def _sites(self, refs: tuple[Wanted, ...]) -> list[str]:
        found = [self._one(wanted, ("site",)).key for wanted in refs] or [ref.key for ref in self.names.of_kind("site")]
        if len(found) != 1 and not refs:
            raise UnclearError("which site?" if found else "this book has no sites", found)
        return found

    def yearly(self, children: Found) -> Found:
        name = "hyperscaler" if has(children, "HYPERSCALER") else "specialist"
        return [Assumed(name=f"{name}_price_change_share_per_year", value=round(first(children, float) - 1, 9))]

    def power_price(self, children: Found) -> Found:
        usd = self._usd(words_of(children, "MONEY")[0].value)
        return [changed(f"sites.{quoted(key)} set usd_per_kwh {as_number(usd)}") for key in self._sites(first(children, tuple) or ())]

    def terms(self, children: Found) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each in children:
            if isinstance(each, Word) and each.kind == "PERCENT":
                found["prepaid"] = each.value * 100
            elif isinstance(each, Amount) and (years := self._quarters(each) / 4) in (1, 3):
                found["term"] = f"reserved_{years:.0f}y"
            elif isinstance(each, Amount):
                raise UnclearError("a quote runs for one year or three")
        return found

    def quote(self, children: Found) -> Found:
        usd = self._usd(self.money(words_of(children, "MONEY", "NUMBER")))
        parts = [child for child in children if isinstance(child, tuple)]
        # who quotes, and what: nebius quotes 20 an hour for the one-year offer
        about = [replace(parts[-1][0], names=(*parts[0][0].names, *parts[-1][0].names))] if len(parts) > 1 else parts[0]
        refs = [self._one(wanted, ("offer",)) for wanted in about]
        counts = self.book.get("skus").set_index("sku")["accelerator_count"]
        per = {ref: float(counts[self._row(ref)["sku"]]) if has(children, "PER_GPU") else 1.0 for ref in refs}
        given = first(children, dict) or {}
        return [Asked(card="This quote instead", pick=ref.key, number=round(usd * per[ref], 9), given=given) for ref in refs]

    def wait(self, children: Found) -> Found:
        return [Asked(card="Nothing new is signed for", number=self._quarters(first(children, Amount)))]

    def wait_until(self, children: Found) -> Found:
        """Sign nothing new before a quarter."""
        first_quarter, until = self.scenario.first_quarter or "", words_of(children, "QUARTER")[0].value
        steps = 4 * (int(until[:4]) - int(first_quarter[:4])) + int(until[-1]) - int(first_quarter[-1]) if first_quarter else 0
        if steps < 1:
            raise UnclearError("say for how many quarters nothing new is signed")
        return [Asked(card="Nothing new is signed for", number=steps)]

    def wait_moved(self, children: Found) -> Found:
        if {int(word.value) for word in words_of(children, "MOVE")} != {1}:
            raise UnclearError("nothing is signed earlier than today; say for how long nothing new is signed")
        return self.wait(children)

    def _contracts(self, children: Found) -> list[Ref]:
        return self._each(first(children, tuple), ("contract",))

    def contract(self, children: Found) -> Found:
        return [Asked(card="A contract renews", pick=ref.key) for ref in self._contracts(children)]

    def lapse(self, children: Found) -> Found:
        """Let contracts lapse; an offer that lapses is gone."""
        refs = self._each(first(children, tuple), ("contract", "offer"))
        return [
            Asked(card="A contract lapses", pick=ref.key) if ref.kind == "contract" else changed(f"remove offers.{quoted(ref.key)}")
            for ref in refs
        ]

    def extend(self, children: Found) -> Found:
        quarters = self._quarters(first(children, Amount))
        return [Asked(card="A contract is extended by", pick=ref.key, number=quarters) for ref in self._contracts(children)]

    def extend_more(self, children: Found) -> Found:
        """Extend a contract, or the time of a training run, by a span that is said to be on top: six more months of it."""
        if not re.search(r"\b(?:more|another|further|extra|additional)\b", self.text, re.I):
            raise UnclearError("is it extended by that much, or does it run for that long?", rank=0)
        refs = self._each(first(children, tuple), ("contract", "run"))
        if all(ref.kind == "run" for ref in refs):
            number, unit = self._whole(first(children, Amount))
            return [changed(f"training_runs.{quoted(ref.key)} shift deadline {number:+d} {unit}") for ref in refs]
        return self.extend(children)

    def renewal_price(self, children: Found) -> Found:
        usd = as_number(self._usd(words_of(children, "MONEY")[0].value))
        renewed = [] if has(children, "PRICE") else self.contract(children)
        return renewed + [changed(f"commitments.{quoted(ref.key)} set renewal_usd_per_hour {usd}") for ref in self._contracts(children)]

    def only(self, children: Found) -> Found:
        found = [self._one(wanted, ("provider", "geography")) for wanted in first(children, tuple)]
        names = {"provider": "providers", "geography": "geographies"}
        return [
            Assumed(name=names[kind], value=[ref.key for ref in found if ref.kind == kind])
            for kind in dict.fromkeys(ref.kind for ref in found)
        ]

    def only_there(self, children: Found) -> Found:
        """Buy where everything must be, or whom it must come from."""
        if not re.search(r"\b(?:must|ha[sv]e? to|needs? to|stays?|remains?|kept|only)\b.*\b(?:in|from|with|within)\b", self.text, re.I):
            raise UnclearError("what of it changes, and by how much?", rank=0)
        return self.only(children)

    def buy(self, children: Found) -> Found:
        lots, quarter = int(words_of(children, "NUMBER")[0].value), words_of(children, "QUARTER")[0].value
        refs = [self._one(wanted, ("offer",)) for wanted in first(children, tuple)]
        kept = [list(each) for each in self.scenario.pinned_purchases]
        return [Assumed(name="pinned_purchases", value=[*kept, *([ref.key, quarter, lots] for ref in refs)])]

    def pot(self, children: Found) -> list[str]:
        """Return the limits that are spoken of; none where all budgets are."""
        if refs := first(children, tuple):
            return [self._one(wanted, ("limit",)).key for wanted in refs]
        return self._pots("measure", "capex") if has(children, "CAPEX") else []

    def _pots(self, column: str, value: str) -> list[str]:
        """Return the one budget that has a value."""
        budgets = self.book.get("limits").query("kind == 'budget_usd'")
        named = list(budgets.loc[budgets[column] == value, "limit_id"])
        if len(named) != 1:
            raise UnclearError(f"{counted(len(named), 'budget')} for {value} in this book", named or list(budgets["limit_id"]))
        return named

    def _budgets(self, children: Found) -> list[str]:
        """Return the limits of a rule: those of its pot, or the budget of its quarter."""
        pot, when = first(children, list) or [], words_of(children, "QUARTER", "PERIOD")
        if pot and when:
            raise UnclearError(f"{listed(pot)} is for all quarters, or is a quarter's own; leave the quarter out")
        if not when:
            return pot
        quarters = [when[0].value] if when[0].kind == "QUARTER" else list(when[0].value)
        if has(children, "ONWARDS"):
            stated = self.book.get("limits").query("kind == 'budget_usd'")["quarter"].dropna()
            quarters = sorted(each for each in stated if each >= quarters[0]) or quarters
        return [name for quarter in quarters for name in self._pots("quarter", quarter)]

    def budget_moves(self, children: Found) -> Found:
        pot, factor = self._budgets(children), first(children, float)
        if not pot:
            return [Asked(card="Budgets change by", number=percent_of(factor))]
        return [changed(f"limits.{quoted(name)} multiply amount {as_number(factor)}") for name in pot]

    def budget_share(self, children: Found) -> Found:
        return self.budget_moves([*children, float(words_of(children, "FRACTION")[0].value)])

    def budget_set(self, children: Found) -> Found:
        return self._budget_of(self._budgets(children), first(children, Amount))

    def budget_of_quarter(self, children: Found) -> Found:
        if first(children, Amount).number < LEAST_BUDGET:
            raise UnclearError("an amount and a quarter: of what?")
        return self.budget_set(children)

    def _budget_of(self, pot: list[str], amount: Amount, *, sign: int = 0) -> Found:
        """Set budgets to an amount, or move them by it, each in its own currency; where none is named, the only one there is."""
        limits = self.book.get("limits").set_index("limit_id")
        budgets = limits[(limits["kind"] == "budget_usd") & (limits["measure"] != "capex")]
        if not pot and len(budgets) != 1:
            raise UnclearError("which budget? Say its quarter or its id", list(budgets.index))
        found: Found = []
        for name, row in limits.loc[pot or list(budgets.index)].iterrows():
            currency = row["currency"] if "currency" in limits and isinstance(row["currency"], str) else "USD"
            given = self._usd(amount, currency, "budgets" if row["kind"] == "budget_usd" else "limits")
            found.append(changed(f"limits.{quoted(str(name))} set amount {as_number(row['amount'] * abs(sign) + (sign or 1) * given)}"))
        return found

    def budget_by(self, children: Found) -> Found:
        return self._budget_of(self._budgets(children), first(children, Amount), sign=-1 if has(children, "DOWN", "DROP") else 1)

    def no_capex(self, _: Found) -> Found:
        return [Asked(card="No capital is spent")]

    def delivery(self, children: Found) -> Found:
        if any(word.value < 0 for word in words_of(children, "MOVE")):
            raise UnclearError("deliveries can come later than planned, not earlier; give an offer's own lead time")
        return [Asked(card="Deliveries slip by", number=self._days(first(children, Amount)))]

    def _leads(self, children: Found, factor: float) -> Found:
        columns = ("lead_time_days_p90", "lead_time_days_p50")
        refs = [self._one(wanted, ("offer",)) for wanted in first(children, tuple) or ()]
        rows = [f"offers.{quoted(ref.key)}" for ref in refs] or ["offers"]
        return [
            changed(f"{row} multiply {column} {as_number(factor)}") for row in rows for column in (columns if factor > 1 else columns[::-1])
        ]

    def lead_moves(self, children: Found) -> Found:
        return self._leads(children, first(children, float))

    def lead_lifted(self, children: Found) -> Found:
        return self._leads(children, self._lifted(children))

    def lead_times(self, children: Found) -> Found:
        return self._leads(children, float(words_of(children, "TIMES", "FRACTION")[0].value))

    def lead_takes(self, children: Found) -> Found:
        days, found = self._days(first(children, Amount)), []
        for wanted in first(children, tuple):
            ref = self._one(wanted, ("offer",))
            columns = ("lead_time_days_p90", "lead_time_days_p50")
            longer = not self._row(ref)["lead_time_days_p50"] > days
            found += [changed(f"offers.{quoted(ref.key)} set {name} {days}") for name in (columns if longer else columns[::-1])]
        return found

    def quota(self, children: Found) -> Found:
        return self._quotas(first(children, tuple) or (), first(children, float))

    def _quotas(self, refs: tuple[Wanted, ...], factor: float) -> Found:
        """Multiply all quotas, or those of providers, places and accelerators."""
        if not refs:
            return [Assumed(name="quota_factor", value=round(factor * self.scenario.quota_factor, 9))]
        limits, found = self.book.get("limits"), list[Any]()
        limits = limits[limits["kind"].isin(QUOTA_KINDS)]
        for wanted in refs:
            where = {"machine" if column == "sku" else column: value for column, value in (self._about(wanted) or {}).items()}
            if not where or not where.keys() <= {"provider", "region", "accelerator"}:
                raise UnclearError("whose quota? Say all quotas, or a provider, region or accelerator", sorted(limits["limit_id"])[:12])
            for kind in QUOTA_KINDS:
                rows = limits[limits["kind"] == kind]
                for column, value in where.items():
                    rows = rows[rows[column] == value]
                if len(rows):
                    cells = {"kind": kind} | where
                    found.append(changed(Change(table="limits", where=cells, column="amount", multiply=float(as_number(factor))).line))
            if not found:
                raise UnclearError(f"no quota is stated for {wanted.said!r}", sorted(limits["limit_id"])[:12])
        return found

    def quota_share(self, children: Found) -> Found:
        return self._quotas(first(children, tuple) or (), first(children, float) or float(words_of(children, "FRACTION")[0].value))

    def room(self, children: Found, sign: int = 0) -> Found:
        """Set the power of a site, or move it by an amount."""
        limits, found, kw = self.book.get("limits"), [], words_of(children, "KW")[0].value
        for wanted in first(children, tuple):
            site = self._one(wanted, ("site",)).key
            named = limits[(limits["kind"] == "power_kw") & (limits["region"].fillna(site) == site)].set_index("limit_id")["amount"]
            now = self.book.get("sites").set_index("site")["available_kw"]
            rows = {f"limits.{quoted(name)} set amount": at for name, at in named.items()} or {
                f"sites.{quoted(site)} set available_kw": now[site]
            }
            found += [changed(f"{row} {as_number(at * abs(sign) + (sign or 1) * kw)}") for row, at in rows.items()]
        return found

    def room_by(self, children: Found) -> Found:
        return self.room(children, -1 if has(children, "DOWN", "DROP") else 1)
