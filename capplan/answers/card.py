"""A question of a meeting: one click and one number, which becomes assumptions or what-ifs that a file can hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from capplan.book.book import Book
from capplan.book.changes import Change, quoted
from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError, shortened
from capplan.text import counted

EVERYTHING = "all work"
#: What an entry of words stands at where it says nothing new.
SAME = "same "
Picks = Callable[[Book], Sequence[str]]


@dataclass(frozen=True)
class Entry:
    """One more thing that a question asks for: a number within bounds, or one of some words.

    Args:
        name, unit: What it is, and what it counts.
        start, low, high: Where a number stands at first, and its bounds; of words, the share of them that stand before the first choice.
        options: Words to choose from; None for a number.
    """

    name: str
    unit: str = ""
    start: float = 0.0
    low: float = 0.0
    high: float = 0.0
    options: Picks | None = None

    def first(self, book: Book) -> float | str:
        """Return what it stands at before somebody moves it."""
        words = self.options(book) if self.options else ()
        return words[int(self.start * len(words))] if words else self.start


@dataclass(frozen=True)
class Card:
    """One question."""

    name: str  #: What it asks, in words that stand before a number.
    unit: str = ""  #: What the number counts; empty where the question has none.
    #: start, low, high: Where the number stands at first, and its bounds.
    start: float = 0.0
    low: float = 0.0
    high: float = 0.0
    picks: Picks | None = None  #: What can be picked, from the book; None where nothing is.
    #: What-ifs in the grammar of `capplan.book.changes`, with {pick}, {number}, {whole} (the number as a whole), {factor} (1 + number /
    #: 100) and {share} (number / 100) in them.
    lines: tuple[str, ...] = ()
    #: Return further what-ifs from the book, its scenario, the number and what was picked.
    made: Callable[..., Sequence[Change]] | None = None
    more: tuple[Entry, ...] = ()  #: What it asks for beside the number.
    #: factor, share: Assumption that is multiplied by 1 + number / 100; assumption that becomes number / 100.
    factor: str = ""
    share: str = ""
    said: str = ""  #: The question with its {number} and {pick} in it, as the column that answers is named.
    now: Callable[[Book, str], float] | None = None  #: Where the number stands for what is picked; None where it always stands at `start`.

    def ask(
        self, book: Book, scenario: Scenario, number: float = 0.0, pick: str = "", given: Mapping[str, float | str] | None = None
    ) -> Scenario:
        """Return the scenario that the question means, on top of another one.

        Raises:
            ScenarioError: Where a number or the pick is impossible: which card, what came, what is allowed.
        """
        known = self.picks(book) if self.picks else ()
        if extra := set(given or {}) - {entry.name for entry in self.more}:
            raise ScenarioError(
                f"{self.name} has no entry {', '.join(sorted(extra))}; it has {', '.join(e.name for e in self.more) or 'none'}"
            )
        entries = {entry.name: (given or {}).get(entry.name, entry.first(book)) for entry in self.more}
        _check(self.name, number, Entry("", self.unit, self.start, self.low, self.high) if self.unit else None)
        for entry in self.more:
            _check(f"{self.name} {entry.name}", entries[entry.name], entry, entry.options(book) if entry.options else ())
        if self.picks and pick not in known:
            raise ScenarioError(f"{self.name}: {pick!r} is not in the book" if known else f"{self.name}: the book has nothing to pick from")
        values = {
            "pick": quoted(pick) if pick else "",
            "number": repr(number),
            "whole": f"{int(number):+d}",
            "factor": repr(1 + number / 100),
            "share": repr(number / 100),
        }
        if pick == EVERYTHING:
            return scenario.replaced(demand_factor=scenario.demand_factor * (1 + number / 100))
        moved = (
            {self.factor: getattr(scenario, self.factor) * (1 + number / 100)}
            if self.factor
            else {self.share: number / 100}
            if self.share
            else {}
        )
        changes = [Change.model_validate(line.format(**values)) for line in self.lines] + list(
            self.made(book, scenario, number, pick, **entries) if self.made else ()
        )
        return scenario.replaced(**moved, changes=(*scenario.changes, *changes)) if changes else scenario.replaced(**moved)

    def title(self, number: float, pick: str = "", given: Mapping[str, float | str] | None = None) -> str:
        """Name the column that answers."""
        size = f"{number:+g}" if self.low < 0 else f"{number:g}"
        whole = counted(number, self.unit.removesuffix("s")) if self.unit in ("quarters", "days") else f"{size} {self.unit}"
        said = (self.said or self.name).format(number=size if self.unit == "times" else whole, pick=pick)
        entries = {entry.name: entry for entry in self.more}
        more = [
            f"{name} {value}" if isinstance(value, str) else f"{name} {value:g} {entries[name].unit}"
            for name, value in (given or {}).items()
            if name in entries and value != entries[name].start and not str(value).startswith(SAME)
        ]
        return ", ".join((said, *more))


def _check(what: str, value: float | str, entry: Entry | None, words: Sequence[str] = ()) -> None:
    """Refuse what an entry cannot be."""
    if entry is None:
        return
    if entry.options:
        if value not in words:
            raise ScenarioError(f"{what} {value!r}: impossible; choose {shortened(', '.join(words), 500)}")
        return
    if isinstance(value, str) or not entry.low <= value <= entry.high:
        raise ScenarioError(
            f"{what} {value if isinstance(value, str) else f'{value:g}'} {entry.unit}: impossible; give {entry.low:g} to {entry.high:g}"
        )
    if entry.unit in ("quarters", "days", "machines") and value != int(value):
        raise ScenarioError(f"{what} {value:g} {entry.unit}: impossible; give a whole number")
