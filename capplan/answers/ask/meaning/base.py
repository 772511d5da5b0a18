"""What all rules share: whom a clause speaks of, by how much, and by when.

Every rule of the grammar has its method here; what a rule says is looked up in the book, and where two things fit, or none, it is asked
back with what could be meant.
"""

import calendar
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lark import Token, Transformer

from capplan.answers.ask.names import KINDS, Names, Ref, parts_of
from capplan.answers.ask.tokens import Amount, Moment, Word
from capplan.answers.ask.what_ifs import Changed
from capplan.book.book import Book
from capplan.book.changes import Change, quoted
from capplan.book.scenario import Scenario
from capplan.text import counted

#: Table of each kind of name.
TABLES = {
    "run": "training_runs",
    "event": "events",
    "offer": "offers",
    "contract": "commitments",
    "api": "api_contracts",
    "limit": "limits",
    "task": "tasks",
    "workload": "workloads",
    "site": "sites",
}
SPOKEN = {"api": "API contract", "run": "training run", "machine": "kind of node"}
Found = list[Any]


class UnclearError(Exception):
    """A clause is understood, and does not say enough, or something impossible."""

    def __init__(self, why: str, choices: Sequence[str] = (), *, rank: int = 1) -> None:
        """Keep why, what could be meant, and how much was found: 0 where a name is of no kind that fits, 2 where several are."""
        super().__init__(why)
        self.why, self.choices, self.rank = why, tuple(choices), rank


@dataclass(frozen=True)
class Wanted:
    """What a clause speaks of: names, and the kinds of things that the words around them allow."""

    names: tuple[tuple[Ref, ...], ...]
    kinds: tuple[str, ...]
    said: str
    every: bool = False


@dataclass(frozen=True)
class Sold:
    """Whose price is spoken of: the kind of source, and names."""

    what: str
    refs: tuple[Wanted, ...] = ()
    terms: tuple[str, ...] = ()


def words_of(children: Iterable[Any], *kinds: str) -> list[Word]:
    """Return the tokens of these kinds."""
    return [child for child in children if isinstance(child, Word) and child.kind in kinds]


def has(children: Iterable[Any], *kinds: str) -> bool:
    """Tell whether there is a token of these kinds."""
    return bool(words_of(children, *kinds))


def first(children: Iterable[Any], kind: type) -> Any:
    """Return the first child of a type, or None."""
    return next((child for child in children if isinstance(child, kind)), None)


def percent_of(factor: float) -> float:
    """Return what a factor adds, in percent."""
    return round(100 * (factor - 1), 9)


def as_number(value: float) -> str:
    """Write a number as the grammar of what-ifs reads it."""
    rounded = float(f"{value:.10g}")
    return str(int(rounded)) if rounded == int(rounded) and abs(rounded) < 1e15 else repr(rounded)


def changed(line: str) -> Changed:
    """Make a what-if of a line."""
    return Changed(line=Change.model_validate(line).line)


class Base(Transformer[Token, Any]):
    """Turn the tree of a clause into what-ifs.

    Args:
        book, scenario: What is spoken about.
        names: The book's names.
        words: Tokens of the sentence; a leaf of the tree is the place of one of them.
        text: The sentence.
    """

    def __init__(self, book: Book, scenario: Scenario, names: Names, words: Sequence[Word], text: str) -> None:
        super().__init__(visit_tokens=True)
        self.book, self.scenario, self.names, self.words, self.text = book, scenario, names, words, text

    def __default_token__(self, token: Token) -> Word:
        return self.words[int(token)]

    def kind(self, children: Found) -> Word:
        return children[0]

    def ref(self, children: Found) -> Wanted:
        kinds = tuple(kind for word in children if word.kind.startswith("W_") for kind in KINDS[word.kind])
        said = self.text[min(word.start for word in children) : max(word.end for word in children)]
        every = words_of(children, "ALL")
        kinds = (every[0].value,) if every else kinds
        return Wanted(tuple(word.value for word in children if word.kind == "NAME"), kinds, said, bool(every))

    def refs(self, children: Found) -> tuple[Wanted, ...]:
        return tuple(child for child in children if isinstance(child, Wanted))

    def _one(self, wanted: Wanted, allowed: Sequence[str]) -> Ref:
        """Return the one thing that is meant, among the kinds that make sense here."""
        found = self._fitting(wanted, [kind for kind in allowed if not wanted.kinds or kind in wanted.kinds])
        if len(found) == 1:
            return found[0]
        kinds = [kind for kind in allowed if not wanted.kinds or kind in wanted.kinds] or list(wanted.kinds)
        spoken = " or ".join(dict.fromkeys(SPOKEN.get(kind, kind) for kind in kinds))
        if found:
            several = len({ref.kind for ref in found}) > 1
            raise UnclearError(
                f"{wanted.said!r} may be one of {len(found)}", [str(ref) if several else ref.key for ref in found[:12]], rank=2
            )
        near = self.names.nearest(wanted.said, kinds) or tuple(ref.key for kind in kinds for ref in self.names.of_kind(kind))[:8]
        raise UnclearError(f"{wanted.said!r} is no {spoken} of this book", near, rank=0)

    def _rows(self, refs: Iterable[Wanted], allowed: Sequence[str]) -> list[str]:
        """Return the rows that are meant, as a what-if names them: one for each name, or the whole table where all of a kind are."""
        found = []
        for wanted in refs:
            if wanted.every and wanted.kinds[0] in allowed and self.names.of_kind(wanted.kinds[0]):
                found.append(TABLES[wanted.kinds[0]])
            else:
                ref = self._one(wanted, allowed)
                found.append(f"{TABLES[ref.kind]}.{quoted(ref.key)}")
        return found

    def _each(self, refs: Iterable[Wanted], allowed: Sequence[str]) -> list[Ref]:
        """Return the things that are meant, all of a kind one by one."""
        return [
            ref
            for wanted in refs
            for ref in (
                self.names.of_kind(wanted.kinds[0]) if wanted.every and wanted.kinds[0] in allowed else [self._one(wanted, allowed)]
            )
        ]

    def _fitting(self, wanted: Wanted, kinds: Sequence[str]) -> list[Ref]:
        if len(wanted.names) == 1 or (wanted.names and len(set(wanted.names)) == 1):
            exact = [ref for ref in wanted.names[0] if ref.kind in kinds]
            if exact:
                return exact
        known = [ref for kind in kinds for ref in self.names.of_kind(kind)]
        if not wanted.names:
            rows = self.book.get("events")
            named = rows.loc[[kind in wanted.said.casefold() for kind in rows["kind"].astype(str)], "event_id"]
            return [ref for ref in known if ref.key in set(named)] if len(named) and "event" in kinds else known
        found = [ref for ref in known if all(self._described(ref, names) for names in wanted.names)]
        if "quot" in wanted.said.casefold() and "offer" in kinds:
            # what is had by the hour is no quotation
            found = [ref for ref in found if ref.kind != "offer" or self._row(ref)["term"] not in ("spot", "on_demand")]
        return found or (self._partly(wanted, kinds) if wanted.kinds else [])

    def _partly(self, wanted: Wanted, kinds: Sequence[str]) -> list[Ref]:
        """Return what a part of its name says beside its kind, though another thing has it as its name: the assistant pipeline."""
        parts = parts_of(wanted.said)
        spans = [(begin, end) for begin in range(len(parts)) for end in range(begin + 1, len(parts) + 1)]
        longest = sorted(spans, key=lambda span: span[0] - span[1])
        return next((refs for begin, end in longest if (refs := self.names.partly(parts[begin:end], kinds))), [])

    def _described(self, ref: Ref, names: tuple[Ref, ...]) -> bool:
        """Tell whether this is the thing itself, or an offer or a contract from this provider, in this place, with this accelerator."""
        return ref in names or not self.names.features.get(ref, frozenset()).isdisjoint((each.kind, each.key) for each in names)

    def _row(self, ref: Ref) -> Any:
        frame = self.book.get(TABLES[ref.kind])
        return frame[frame.iloc[:, 0].astype(str) == ref.key].iloc[0]

    def amount(self, children: Found) -> float:
        return float(children[0].value)

    def span(self, children: Found) -> Amount:
        word = children[0]
        return word.value if word.kind == "SPAN" else Amount(1, {"A_QUARTER": "quarter", "A_YEAR": "year", "AN_HOUR": "hour"}[word.kind])

    def money(self, children: Found) -> Amount:
        word = children[0]
        return word.value if word.kind == "MONEY" else Amount(float(word.value), "")

    def up(self, children: Found) -> float:
        return 1 + first(children, float)

    def down(self, children: Found) -> float:
        return 1 - first(children, float)

    def times(self, children: Found) -> float:
        found = float(words_of(children, "TIMES", "FRACTION", "SCALE", "PERCENT")[0].value)
        if (has(children, "DOWN", "DROP") and found > 1) or (has(children, "UP") and found < 1):
            raise UnclearError(f"up or down, and {found:g} times what it is? Say by how much it changes")
        return found

    def share_of(self, children: Found) -> float:
        return 1 / self.times(children)

    def level(self, children: Found) -> float:
        word = words_of(children, "PERCENT", "FRACTION")[0]
        found, ways = float(word.value), words_of(children, "UP", "DOWN", "DROP")
        if ways and all(way.start > word.start for way in ways):
            # at 10 % less: that much less, and not a tenth
            return 1 + found if has(children, "UP") else 1 - found
        if (has(children, "UP") and found < 1) or (has(children, "DOWN", "DROP") and found > 1):
            raise UnclearError(f"up or down, and to {100 * found:g} % of what it is? Say by how much it changes")
        return found

    def signed(self, children: Found) -> float:
        return 1 + float(words_of(children, "SIGNED")[0].value)

    def _lifted(self, children: Found) -> float:
        size = first(children, float)
        return 1 - size if has(children, "DOWN", "DROP", "TIGHTER") else 1 + size

    @staticmethod
    def _usd(amount: Amount, currency: str = "USD", what: str = "this book's prices") -> float:
        """Return an amount that is in the currency of what it is for, or in none that is said."""
        if amount.unit not in ("", currency):
            raise UnclearError(f"{what} are in {currency}, and the sentence says {amount.unit}; say the amount in {currency}")
        return amount.number

    def _day(self, word: Word, *, last: bool = False) -> dt.datetime:
        moment: Moment = word.value
        when = moment.when
        if last and moment.part == "month":
            when = when.replace(day=calendar.monthrange(when.year, when.month)[1])
        if when.date() < self.scenario.as_of:
            raise UnclearError(f"{when:%Y-%m-%d} lies before {self.scenario.as_of}, the day this book is planned on")
        return when

    def _instant(self, word: Word) -> str:
        when = self._day(word, last=True)
        when = when if word.value.part == "time" else when.replace(hour=23, minute=59)
        begin = self.scenario.placement_start
        if begin is not None and when <= begin.replace(tzinfo=None):
            raise UnclearError(f"{when:%Y-%m-%d %H:%M} lies before {begin:%Y-%m-%d %H:%M}, from when on tasks may run (placement_start)")
        return f"{when:%Y-%m-%dT%H:%M}"

    @staticmethod
    def _whole(amount: Amount) -> tuple[int, str]:
        """Return a span as the grammar of what-ifs writes it."""
        if amount.unit in ("hour", "second") or amount.number != int(amount.number) or not amount.number:
            raise UnclearError(f"{counted(amount.number, amount.unit)} is no whole number of days, weeks, months, quarters or years")
        return int(amount.number), amount.unit + "s"

    @staticmethod
    def _days(amount: Amount) -> int:
        sizes = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
        if amount.unit not in sizes:
            raise UnclearError(f"{counted(amount.number, amount.unit)} is no number of days")
        return round(amount.number * sizes[amount.unit])

    @staticmethod
    def _quarters(amount: Amount) -> float:
        found = round(amount.number * {"month": 1 / 3, "quarter": 1, "year": 4}.get(amount.unit, 0), 9)
        if not found or found != round(found):
            raise UnclearError(f"{counted(amount.number, amount.unit)} is no whole number of quarters")
        return found

    def _need_tasks(self) -> None:
        if "tasks" not in self.book.tables or "nodes" not in self.book.tables:
            raise UnclearError("this book has no tasks and nodes; a deadline of all tasks needs them", [])
