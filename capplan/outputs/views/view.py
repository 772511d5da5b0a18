"""What a person sees of an answer: a headline, charts, a table."""

import html
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module

import pandas as pd

from capplan.answers.store import hand_on, handed_on, key_of
from capplan.book.book import Book
from capplan.book.book_currency import in_book_currency
from capplan.book.scenario import Scenario
from capplan.dollars import in_unit
from capplan.outputs.charts import Picture
from capplan.text import counted, readable

#: Classes that keep mathematics away: MathJax 2 (nbconvert's pages) knows the first, MathJax 3 and 4 (JupyterLab, Notebook, Voila) the
#: second.
NO_MATHEMATICS = ("tex2jax_ignore", "mathjax_ignore")


def as_it_stands(inner: str) -> str:
    """Wrap HTML so that no host takes what lies between two dollar signs, or after a backslash, for a formula.

    Examples:
        >>> as_it_stands("<p>From $1M to $2M</p>")
        '<div class="tex2jax_ignore mathjax_ignore"><p>From $1M to $2M</p></div>'
    """
    return f'<div class="{" ".join(NO_MATHEMATICS)}">{inner}</div>'


def folded(inner: str, said: str, count: int) -> str:
    """Fold what only some read into one line that opens; nothing where there is none.

    Examples:
        >>> folded("<ul><li>as stated</li></ul>", "1 note", 1)
        '<details><summary>1 note</summary><ul><li>as stated</li></ul></details>'
    """
    return f"<details><summary>{said}</summary>{inner}</details>" if count else ""


@dataclass(frozen=True)
class Shown:
    """A readable table that a notebook shows whole: no cell is cut, all text is escaped, and words stand on the left."""

    frame: pd.DataFrame  #: The table as text.
    worded: tuple[bool, ...]  #: Which of its columns hold words rather than numbers.

    def to_html(self) -> str:
        """Return the table as HTML."""
        with pd.option_context("display.max_colwidth", None):
            text = self.frame.to_html(index=False, escape=True, border=0)
        for tag in ("th", "td"):
            first, *rest = text.split(f"<{tag}>")
            sides = [f'<{tag} style="text-align:left">' if worded else f"<{tag}>" for worded in self.worded]
            text = first + "".join(side + part for side, part in zip(itertools.cycle(sides), rest, strict=False))
        return text

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        return as_it_stands(self.to_html())


def _shown(table: pd.DataFrame) -> Shown:
    """Make a table readable."""
    return Shown(readable(table, rows=40), tuple(not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes))


#: Controls in view at most; a meeting reads no more.
MOST_CONTROLS = 8


def once(show: Callable[[Book, Scenario], "View"]) -> Callable[[Book, Scenario], "View"]:
    """Let a question's view come from the process that has made it, where a run has handed it on (see `leave`)."""

    @wraps(show)
    @in_book_currency
    def shown(book: Book, scenario: Scenario) -> View:
        found = handed_on(_key(show.__name__, book, scenario))
        return show(book, scenario).in_force() if found is None else found

    return shown


def leave(show: Callable[[Book, Scenario], "View"], book: Book, scenario: Scenario, view: "View") -> None:
    """Leave a view, as far as it is drawn, to the notebook of this run."""
    hand_on(_key(show.__name__, book, scenario), view)


def handed(name: str, place: str) -> Callable[[Book, Scenario], "View"]:
    """Return a question's view by its name, for a notebook without a person: the view is mostly handed on, and no question need be loaded.

    Args:
        place: Module that has the questions' views, loaded where none was handed on.
    """
    look = in_book_currency(lambda book, scenario: handed_on(_key(name, book, scenario)))

    def shown(book: Book, scenario: Scenario) -> View:
        found: View | None = look(book, scenario)
        return getattr(import_module(place), name)(book, scenario) if found is None else found

    shown.__name__ = name
    return shown


def _key(name: str, book: Book, scenario: Scenario) -> str:
    return key_of(name, book, tuple(book.digests), scenario)


@dataclass(frozen=True)
class View:
    """What a person sees of an answer.

    Args:
        headline: One sentence with the number that decides.
        charts: Charts by name; the first one is the main one.
        table: The main table, tidy.
        value, unit: The deciding number and its unit ("USD", "accelerators", "seconds", ...), for differences between two scenarios: one
            that the fields move.
        fields: Assumptions that the answer depends on, most telling first: the sliders.
        notes: What was assumed, repaired or left out.
        details: Further tables by name.
        choices: What may be picked for those fields that hold names.
        charts_in_view: Charts that a notebook shows at once; a reader unfolds the others.
        unsure: By how much the search may have missed the deciding number: less is no difference between two answers.
        telling: How many of the fields are in view: the first ones, each of which moves the deciding number.
        usd_per_unit: Dollars for one of the unit, where it is money: amounts of the tables are in dollars.
    """

    headline: str
    charts: Mapping[str, Picture]
    table: pd.DataFrame
    value: float
    unit: str
    fields: tuple[str, ...]
    notes: tuple[str, ...] = ()
    details: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    charts_in_view: int = 2
    unsure: float = 0.0
    telling: int = MOST_CONTROLS
    usd_per_unit: float = 1.0

    def in_force(self) -> "View":
        """Return it with the deciding number in the currency in force."""
        rate, unit = in_unit(self.unit)
        return replace(self, value=self.value / rate, unsure=self.unsure / rate, unit=unit, usd_per_unit=rate)

    @property
    def chart(self) -> Picture:
        """The main chart."""
        return next(iter(self.charts.values()))

    @property
    def shown(self) -> Shown:
        """The main table as a reader wants it: headings with units, numbers written out."""
        return _shown(self.table)

    def detail(self, name: str) -> Shown:
        """Return a further table as a reader wants it."""
        return _shown(self.details[name])

    def _repr_html_(self) -> str:
        """Show headline, charts and notes in a notebook: images and text, no script, all text escaped."""
        pictures = [f"<div>{chart._repr_html_()}</div>" for chart in self.charts.values()]
        first, rest = "".join(pictures[: self.charts_in_view]), pictures[self.charts_in_view :]
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return as_it_stands(
            f"<p><b>{html.escape(self.headline)}</b></p>{first}"
            + folded("".join(rest), counted(len(rest), "more picture"), len(rest))
            + folded(f"<ul>{notes}</ul>", counted(len(self.notes), "note"), len(self.notes))
        )


#: How a question is shown, and shown at first from what is known at once (None where nothing is).
Show = Callable[[Book, Scenario], View]
First = Callable[[Book, Scenario], View | None]
