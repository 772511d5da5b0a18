"""Purchases that somebody proposes: which decision each row stands for, and what of it cannot be had as it is stated."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.proposed import WHERE, fault_in, rows_of
from capplan.contract_kinds import USAGE_TERMS
from capplan.errors import BookError, Fault, suggestion
from capplan.questions.procurement.decide import Stated
from capplan.questions.procurement.supply.site_power import site_ends
from capplan.questions.procurement.supply.starts_and_signing import Hindrance, hindrances, window_of
from capplan.records import records
from capplan.text import counted, price
from capplan.units import quarter_of, quarter_start

#: A price or an amount stated twice is the same up to this share: reports write ten digits.
SAME_SHARE = 1e-6
#: What a row may state about its offer besides.
STATED = ("term", "sku", "provider", "accelerator", "region")
AMOUNTS = ("lots", "machines", "accelerators")
_DAY = pd.Timedelta(days=1)


@dataclass
class Matched:
    """Proposed purchases as decisions of the program."""

    lots: np.ndarray  #: (n,): Lots of each choice.
    #: file, row, offer_id, quarter, lots, machines, accelerators, counted (valued, since it stands for a decision); one row of the files
    #: each.
    rows: list[dict[str, Any]] = field(default_factory=list)
    #: For each row what is wrong with it: position in `rows`, hindrance, and whether it is more than a remark.
    broken: list[tuple[int, Hindrance, bool]] = field(default_factory=list)


def match_rows(found: Stated, proposed: pd.DataFrame, unread: Sequence[Fault] = ()) -> Matched:
    """Find the decision that each proposed row stands for.

    Args:
        proposed: Rows of `book.proposed.Proposed`.
        unread: Cells that could not be read.

    Raises:
        BookError: These, and every row that names no offer, no start, or no amount, contradicts itself, or comes twice.
    """
    faults, matched, reader = list(unread), Matched(np.zeros(len(found.choices.table))), Offers(found)
    seen: dict[tuple[str, str], str] = {}
    for row in rows_of(proposed, unread):
        wrong = reader.faults(row)
        if not wrong:
            key = (reader.name(row), _quarter(row))
            place = f"{row['file']}, row {row['row']}"
            if key in seen:
                wrong = [fault_in(row, "offer_id", " ".join(key), f"it is proposed already in {seen[key]}", "Join the two rows.")]
            seen.setdefault(key, place)
        faults += wrong
        if not faults:
            _take(matched, reader, row)
    if faults:
        raise BookError(faults, where=WHERE)
    return matched


def _quarter(row: dict[str, Any]) -> str:
    """Return the quarter in which a row begins."""
    return str(row["quarter"] or quarter_of(row["starts"]))


class Offers:
    """What can be proposed: offers of the book, also those that the plan leaves out, and contracts that are renewed or left."""

    def __init__(self, found: Stated) -> None:
        self.found, self.a = found, found.problem.assumptions
        self.table, self.market = found.choices.table, found.market
        self.contracts = {row["offer_id"]: row for row in records(self.market.contracts)}
        self.offers = {row["offer_id"]: row for row in records(found.problem.offers)}
        self.skus = {row["sku"]: row for row in records(found.problem.skus)}
        self.chosen = set(self.table["offer_id"])
        holdings = self.market.holdings
        self.holdings = {f"{verb} {row['name']}": row for row in records(holdings) for verb in ("renew", "keep", *_WAYS)}
        lots = self.table.drop_duplicates("offer_id").set_index("offer_id")[["lot_machines", "lot_accelerators"]].astype(float)
        self.sizes = {str(row.Index): (row.lot_machines, abs(row.lot_accelerators)) for row in lots.itertuples()}
        self.known = {*self.chosen, *self.contracts, *self.offers, *self.holdings}

    def name(self, row: dict[str, Any]) -> str:
        """Return the offer that a row names."""
        return str(row["offer_id"])

    def faults(self, row: dict[str, Any]) -> list[Fault]:
        """Say what a row lacks or contradicts."""
        found, name = [], self.name(row)
        if name not in self.known:
            found.append(fault_in(row, "offer_id", row["offer_id"], "it is no offer of the book", suggestion(name, self.known)))
        if row["quarter"] is None and row["starts"] is None:
            found.append(fault_in(row, "quarter", None, "neither quarter nor starts is stated", "State one of them."))
        elif row["quarter"] is not None and not _is_quarter(row["quarter"]):
            found.append(
                fault_in(row, "quarter", row["quarter"], "it must be a quarter", "Write quarters like 2027Q1; there are Q1 to Q4.")
            )
        elif row["quarter"] is not None and row["starts"] is not None and quarter_of(row["starts"]) != row["quarter"]:
            shown = f"{row['starts']:%Y-%m-%d}"
            found.append(fault_in(row, "starts", shown, f"the day does not lie in {row['quarter']}", "Correct one of the two."))
        stated = {amount: float(row[amount]) for amount in AMOUNTS if row[amount] is not None}
        if not stated:
            found.append(fault_in(row, "lots", None, "none of lots, machines and accelerators is stated", "State one of them."))
        found += [
            fault_in(row, amount, f"{value:g}", "it must be at least 0", "Machines are given back with `leave CONTRACT`.")
            for amount, value in stated.items()
            if value < 0
        ]
        size = self.size(name)
        if size is not None and not found:
            lots = {amount: value / size[amount] for amount, value in stated.items()}
            if max(lots.values()) - min(lots.values()) > SAME_SHARE * max(*lots.values(), 1.0):
                said = ", ".join(f"{amount}={value:g}" for amount, value in stated.items())
                rule = f"a lot is {counted(size['machines'], 'machine')} with {counted(size['accelerators'], 'accelerator')}"
                found.append(fault_in(row, " + ".join(stated), said, rule, "Correct or delete one of them."))
        return found

    def size(self, name: str) -> dict[str, float] | None:
        """Return what one lot of an offer is; None of what cannot be had at all."""
        if name in self.sizes:
            return dict(zip(AMOUNTS, (1.0, *self.sizes[name]), strict=True))
        if name in self.contracts:
            machines = float(self.contracts[name]["lot_machines"])
            return {"lots": 1.0, "machines": machines, "accelerators": machines * float(self.contracts[name]["accelerator_count"])}
        return None

    def at(self, name: str, quarter: str) -> np.ndarray:
        """Return the choices that an offer has in a quarter: one, or one for each price tier."""
        return np.flatnonzero(((self.table["offer_id"] == name) & (self.table["quarter"] == quarter)).to_numpy())

    def why_not(self, name: str, quarter: str, starts: pd.Timestamp | None) -> list[Hindrance]:
        """Say why an offer cannot begin in a quarter in which it has no choice."""
        left_out = self._left_out(name)
        if left_out is not None:
            return [left_out]
        start, horizon = starts or quarter_start(quarter), self.found.choices.timeline.horizon
        if name in self.contracts:
            offer = self.contracts[name]
            same = self.table[(self.table["plan_id"] == offer["plan_id"]) & (self.table["role"] == "dollars")]
            if offer["role"] == "dollars" and len(same):
                other = same["offer_id"].iloc[0]
                words = f"its dollars are those of the whole savings plan, which the plan counts in lots of {other}; state it in these"
                return [Hindrance("savings plan", np.nan, "", words)]
            found = hindrances(window_of(offer, pd.Timestamp(self.a.as_of), self.a), start, horizon)
            end = site_ends(pd.Series([offer["region"]]), self.found.problem.sites).iloc[0]
            if offer["term"] == "owned" and start >= end:
                days = (start - end) / _DAY + 1
                found.append(Hindrance("site", days, "days", f"the contract of its site ends on {end - _DAY:%Y-%m-%d}"))
            if found:
                return found
        own = sorted(set(self.table.loc[self.table["offer_id"] == name, "start"]))
        if not own:
            return [Hindrance("not possible", np.nan, "", "it can begin on no day of the planned quarters")]
        near = min(own, key=lambda day: abs(day - start))
        return [Hindrance("start", abs(near - start) / _DAY, "days", f"it can begin on {_days(own)}")]

    def _left_out(self, name: str) -> Hindrance | None:
        """Say why an offer is none that the plan could buy on any day; None where it could."""
        if name in self.contracts or name in self.chosen:
            return None
        if name in self.holdings:
            verb, _, contract = name.partition(" ")
            words = f"contract {contract} states no right to {verb}" if verb != "keep" else f"{contract} cannot be kept longer"
            return Hindrance("terms", np.nan, "", words)
        offer, a = self.offers[name], self.a
        machine = self.skus.get(offer["sku"], {})
        if offer["term"] in USAGE_TERMS:
            return Hindrance("terms", np.nan, "", f"{offer['term']} is rented by the hour as it is needed, and not signed for")
        if name in a.excluded_offers:
            return Hindrance("excluded", np.nan, "", "excluded_offers names it")
        if a.providers and machine.get("provider") not in a.providers:
            return Hindrance("excluded", np.nan, "", f"{machine.get('provider')} is none of the providers {', '.join(a.providers)}")
        if a.geographies and offer["geography"] not in a.geographies:
            return Hindrance("excluded", np.nan, "", f"{offer['geography']} is none of the geographies {', '.join(a.geographies)}")
        return Hindrance("speeds", np.nan, "", f"none of the work is stated to run on {machine.get('accelerator') or offer['sku']}")


def left_out_offers(found: Stated) -> pd.DataFrame:
    """List what can be bought or renewed on no day of the planned quarters, and why: columns as in `answer.Purchases.left_out`."""
    reader, first, rows = Offers(found), found.choices.timeline.horizon[0], []
    everything = {**reader.offers, **reader.contracts, **reader.holdings}
    for name in sorted(reader.known - reader.chosen):
        about = everything[name]
        if name in reader.holdings and (about["kind"] != "contract" or not name.startswith("renew ")):
            continue
        accelerator = about.get("accelerator") or reader.skus.get(about["sku"], {}).get("accelerator", "")
        hindrance = reader.why_not(name, first, None)[0]
        rows.append((name, accelerator, hindrance.what, hindrance.over, hindrance.unit, hindrance.words))
    return pd.DataFrame(rows, columns=["offer_id", "accelerator", "constraint", "over", "unit", "words"])


_WAYS = ("leave", "sell", "exchange")


def _is_quarter(text: str) -> bool:
    return re.fullmatch(r"(19|20|21)\d\dQ[1-4]", text, re.ASCII) is not None


def _days(days: list[pd.Timestamp]) -> str:
    shown = ", ".join(f"{day:%Y-%m-%d}" for day in days[:6])
    return shown + (f" and {len(days) - 6} later days" if len(days) > 6 else "")


def _take(matched: Matched, reader: Offers, row: dict[str, Any]) -> None:
    """Add one row to the decisions, with what is wrong with it."""
    name, quarter = reader.name(row), _quarter(row)
    place, own, size = len(matched.rows), reader.at(name, quarter), reader.size(name)
    amount = next(name for name in AMOUNTS if row[name] is not None)
    lots = np.nan if size is None else float(row[amount]) / size[amount]
    about = {"file": row["file"], "row": int(row["row"]), "offer_id": name, "quarter": quarter, "lots": lots}
    about |= {kind: row[kind] if size is None else lots * size[kind] for kind in ("machines", "accelerators")}
    matched.rows.append(about | {"counted": bool(len(own))})
    found = [(each, True) for each in _contradicted(reader, row, name, own)]
    if not len(own):
        found += [(each, True) for each in reader.why_not(name, quarter, row["starts"])]
    else:
        lots = round(lots) if abs(lots - round(lots)) <= SAME_SHARE * max(lots, 1.0) else lots
        j = _tier(reader.table, own, lots)
        matched.lots[j], matched.rows[-1]["lots"] = lots, lots
        found += _outside(reader, row, j, lots)
    matched.broken += [(place, each, hard) for each, hard in found]


def _tier(table: pd.DataFrame, own: np.ndarray, lots: float) -> int:
    """Return the price tier that an amount falls into; the lowest where it is too small for any."""
    least = table["minimum_lots"].to_numpy(float)[own]
    order = np.argsort(least, kind="stable")
    return int(own[order[max(int((least[order] <= lots).sum()) - 1, 0)]])


def _contradicted(reader: Offers, row: dict[str, Any], name: str, own: np.ndarray) -> list[Hindrance]:
    """Say where a row states something else about its offer than the book does."""
    if len(own):
        actual = reader.table.iloc[int(own[0])].to_dict()
    elif name in reader.contracts:
        actual = reader.contracts[name]
    else:
        offer = reader.offers.get(name) or reader.holdings.get(name, {})
        actual = {**reader.skus.get(offer.get("sku"), {}), **offer}
    found = [
        Hindrance("terms", np.nan, "", f"it states the {what} {row[what]}, and the offer has {actual[what]}")
        for what in STATED
        if row[what] is not None and isinstance(actual.get(what), str) and row[what] != actual[what]
    ]
    prices = reader.table["usd_per_hour"].to_numpy(float)[own]
    stated = row["usd_per_hour"]
    if stated is not None and len(own) and actual["term"] != "owned":
        near = float(prices[np.argmin(abs(prices - stated))])
        if abs(stated - near) > SAME_SHARE * max(near, 1e-9):
            words = f"it states {price(stated)} an hour, and the offer costs {price(near)}"
            found.append(Hindrance("price", abs(near - stated), "USD per hour", words))
    if row["ends"] is not None and len(own):
        last = actual["end"] - _DAY
        if row["ends"] != last.normalize():
            words = f"it ends on {row['ends']:%Y-%m-%d}, and the contract on {last:%Y-%m-%d}"
            found.append(Hindrance("terms", abs(last.normalize() - row["ends"]) / _DAY, "days", words))
    return found


def _outside(reader: Offers, row: dict[str, Any], j: int, lots: float) -> list[tuple[Hindrance, bool]]:
    """Say where an amount or a day is none that the choice allows, and whether that forbids it."""
    about = reader.table.iloc[j]
    least, most, machines = float(about["minimum_lots"]), float(about["maximum_lots"]), float(about["lot_machines"])
    found = []
    if row["starts"] is not None and row["starts"] != about["start"].normalize():
        words = f"it can begin on {about['start']:%Y-%m-%d} in {about['quarter']}, and is valued from then"
        found.append((Hindrance("start", abs(row["starts"] - about["start"].normalize()) / _DAY, "days", words), True))
    if lots != round(lots):
        words = f"{lots * machines:g} machines are no whole number of lots of {machines:g}"
        found.append((Hindrance("whole lots", (lots - np.floor(lots)) * machines, "machines", words), True))
    if 0 < lots < least:
        found.append(
            (Hindrance("minimum lots", least - lots, "lots", f"at least {counted(least, 'lot')} must be taken, and it has {lots:g}"), True)
        )
    if lots > most:
        found.append(
            (Hindrance("maximum lots", lots - most, "lots", f"at most {counted(most, 'lot')} can be had, and it has {lots:g}"), True)
        )
    for offer_id, quarter, pinned in reader.a.pinned_purchases:
        if (offer_id, quarter) == (about["offer_id"], about["quarter"]) and pinned != lots:
            found.append(
                (
                    Hindrance(
                        "pinned purchase",
                        abs(pinned - lots),
                        "lots",
                        f"pinned_purchases wants {counted(pinned, 'lot')}, and it has {lots:g}",
                    ),
                    True,
                )
            )
    if lots > 0 and bool(about["late"]):
        days = (pd.Timestamp(reader.a.as_of) - about["submit_by"]) / _DAY
        words = f"it should have been submitted by {about['submit_by']:%Y-%m-%d}: hasten the approval, or expect it late"
        found.append((Hindrance("late", days, "days", words), False))
    return found
