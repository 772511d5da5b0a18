"""What a sentence means: a list of typed what-ifs, each with the words it came from.

A what-if is one of the things that the command line, a scenario file and the board already know: a change of a table, an assumption,
a question of the board, a report, or a question about the plan's reasons. Whoever read the sentence, a grammar, a model or a person,
hands in these, and they are checked in the same way.
"""

from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from capplan.answers.card import Card
from capplan.answers.cards import CARDS
from capplan.book.allowed import fault_words
from capplan.book.book import Book
from capplan.book.changed_tables import changed_table
from capplan.book.changes import Change
from capplan.book.plain_yaml import NotYamlError, read_yaml
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import key_of
from capplan.errors import ScenarioError, nearest, shortened
from capplan.text import listed

#: Views that a sentence may ask for.
Reports = Literal[
    "plan",
    "placement",
    "demand",
    "serving",
    "cluster",
    "split",
    "training",
    "crossover",
    "portfolio",
    "pricing",
    "goodput",
    "scaling",
    "review",
]
About = Literal["why_not", "why", "what_binds", "what_would_make_us_wait"]
#: What a question about the plan's reasons asks, in words.
ABOUT_WORDS = {
    "why_not": "Why does the plan not take",
    "why": "Why does the plan take",
    "what_binds": "Which limits bind, and what is more of them worth?",
    "what_would_make_us_wait": "What would make waiting the better choice?",
}
#: Longest words of a sentence that a what-if quotes.
MOST_WORDS = 300


class _Said(BaseModel):
    """What all what-ifs have: the words of the sentence that they came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    words: str = Field(default="", max_length=MOST_WORDS, description="the words of the sentence that this came from, as they stand there")


class Changed(_Said):
    """A change of a table, as one line of the grammar of what-ifs (`capplan.book.changes`)."""

    kind: Literal["change"] = "change"
    line: Annotated[str, Field(max_length=500, description="such as: shift training_runs.alpha +2 quarters")]

    @property
    def change(self) -> Change:
        """The line, read."""
        return Change.model_validate(self.line)

    def __str__(self) -> str:
        return self.change.line

    def sentence(self, book: Book, scenario: Scenario) -> str:
        """Say what changes: the cells of a single row with what they were, else the change in words."""
        changed = book.with_changes(scenario.changes)
        return _cells_said(self.change, changed) or self.change.sentence

    def on(self, book: Book, scenario: Scenario) -> Scenario:  # noqa: ARG002
        """Return the scenario with it."""
        return scenario.replaced(changes=(*scenario.changes, self.change))


class Assumed(_Said):
    """An assumption by its name, as after -p."""

    kind: Literal["assumption"] = "assumption"
    name: Annotated[str, Field(max_length=80, description="name of an assumption")]
    value: bool | int | float | str | list[str] | list[list[str | int]] | None

    def __str__(self) -> str:
        value = f"[{', '.join(map(str, self.value))}]" if isinstance(self.value, list) else self.value
        return f"{self.name}={value}"

    def sentence(self, book: Book, scenario: Scenario) -> str:  # noqa: ARG002
        """Say the value and what it was."""
        before, after = getattr(scenario, self.name), getattr(scenario.replaced(**{self.name: self.value}), self.name)
        return f"{self.name} is {_said(after)} instead of {_said(before)}."

    def on(self, book: Book, scenario: Scenario) -> Scenario:  # noqa: ARG002
        """Return the scenario with it."""
        if self.name == "changes":
            raise ScenarioError("changes is no assumption of a sentence; each what-if stands by itself")
        return scenario.replaced(**{self.name: self.value})


class Asked(_Said):
    """A question of the board: one click there, and one number."""

    kind: Literal["card"] = "card"
    card: Annotated[str, Field(max_length=80, description="name of a question of the board")]
    pick: Annotated[str, Field(max_length=200, description="what is picked, where the question has a list")] = ""
    number: float = 0.0
    given: dict[str, float | str] = Field(default_factory=dict, description="further entries of the question, such as term, prepaid, lot")

    def __str__(self) -> str:
        more = " ".join(f"{name}={value}" for name, value in self.given.items())
        return " ".join(
            part for part in (f"[{self.card.rstrip(':')}]", self.pick, f"{self.number:g}" if self._card.unit else "", more) if part
        )

    @property
    def _card(self) -> Card:
        found = next((card for card in CARDS if card.name.rstrip(":").casefold() == self.card.rstrip(":").casefold()), None)
        if found is None:
            raise ScenarioError(f"the board has no question {shortened(self.card)!r}; {nearest(self.card, [card.name for card in CARDS])}")
        return found

    def sentence(self, book: Book, scenario: Scenario) -> str:
        """Say the question with its number, and what it changes."""
        card, after = self._card, self.on(book, scenario)
        lines = [_cells_said(change, book) or change.sentence for change in after.changes[len(scenario.changes) :]]
        moved = [
            f"{name} is {_said(getattr(after, name))} instead of {_said(getattr(scenario, name))}."
            for name in Scenario.model_fields
            if name != "changes" and getattr(after, name) != getattr(scenario, name)
        ]
        shown = [*moved, *lines[:3], *([f"And {len(lines) - 3} more changes of this kind."] if len(lines) > 3 else [])]
        return f"{card.title(self.number, self.pick, self.given)}: {' '.join(shown)}"

    def on(self, book: Book, scenario: Scenario) -> Scenario:
        """Return the scenario with it."""
        return self._card.ask(book.with_changes(scenario.changes), scenario, self.number, self.pick, self.given)


class Shown(_Said):
    """A report: one of the questions that `capplan run` answers."""

    kind: Literal["report"] = "report"
    report: Reports

    def __str__(self) -> str:
        return f"report {self.report}"

    def sentence(self, book: Book, scenario: Scenario) -> str:  # noqa: ARG002
        """Say what is shown."""
        return f"The answer is that of `capplan run {self.report}`."

    def on(self, book: Book, scenario: Scenario) -> Scenario:  # noqa: ARG002
        """Return the scenario as it is."""
        return scenario


class Explained(_Said):
    """A question about the plan's reasons, answered from its tables."""

    kind: Literal["explain"] = "explain"
    about: About
    subjects: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), description="ids of offers or contracts")

    def __str__(self) -> str:
        return f"explain {self.about} {', '.join(self.subjects)}".rstrip()

    def sentence(self, book: Book, scenario: Scenario) -> str:  # noqa: ARG002
        """Say what is explained."""
        said = ABOUT_WORDS[self.about]
        return said if said.endswith("?") else f"{said} {listed(list(self.subjects))}?"

    def on(self, book: Book, scenario: Scenario) -> Scenario:
        """Return the scenario as it is, where the book knows what is asked about."""
        known = {*book.get("offers")["offer_id"], *book.get("commitments")["commitment_id"]}
        if self.about in ("why", "why_not") and not self.subjects:
            raise ScenarioError(f"explain {self.about}: name an offer or a contract")
        for name in self.subjects:
            if name not in known:
                raise ScenarioError(f"explain {self.about}: {shortened(name)!r} is no offer or contract; {nearest(name, known)}")
        return scenario


WhatIf = Annotated[Changed | Assumed | Asked | Shown | Explained, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(WhatIf)


def read_what_if(given: Any, book: Book, scenario: Scenario) -> Any:
    """Check one what-if, whoever wrote it.

    Args:
        given: A mapping with its kind and fields, or one of the classes of this module.
        book, scenario: What it is asked of: it must fit their tables and bounds.

    Raises:
        CapplanError: What came, and what is allowed.
    """
    try:
        found = _ADAPTER.validate_python(given.model_dump() if isinstance(given, _Said) else given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ScenarioError(f"what-if {place}: {shortened(repr(first['input']))}: {fault_words(first)}") from error
    after = found.on(book, scenario)
    book.with_changes(after.changes)
    return found


def what_if_from(text: str) -> Any:
    """Read a what-if from its line, the way `str` writes it.

    Examples:
        >>> what_if_from("shift training_runs.alpha +2 quarters").kind, what_if_from("risk_weight=0.4").value
        ('change', 0.4)
        >>> what_if_from("[Demand changes by] team support 20")
        Asked(words='', kind='card', card='Demand changes by', pick='team support', number=20.0, given={})
        >>> str(what_if_from("explain why_not a, b"))
        'explain why_not a, b'
    """
    head, _, rest = text.partition(" ")
    if text.startswith("["):
        return _card_from(text)
    if head == "report":
        return Shown(report=rest)  # type: ignore[arg-type]
    if head == "explain":
        about, _, subjects = rest.partition(" ")
        return Explained(about=about, subjects=tuple(part.strip() for part in subjects.split(",") if part.strip()))  # type: ignore[arg-type]
    name, equals, value = text.partition("=")
    if equals and " " not in name:
        try:
            return Assumed(name=name, value=read_yaml(value))
        except NotYamlError as error:
            raise ScenarioError(f"{shortened(text)}: the value cannot be read ({error})") from error
    return Changed(line=text)


def _card_from(text: str) -> Asked:
    name, _, rest = text[1:].partition("]")
    card = Asked(card=name)._card
    words = rest.split()
    given = dict(word.split("=", 1) for word in words if "=" in word)
    words = [word for word in words if "=" not in word]
    number = float(words.pop()) if card.unit and words else 0.0
    return Asked(card=name, pick=" ".join(words), number=number, given={key: _plain(value) for key, value in given.items()})


def _plain(value: str) -> float | str:
    return float(value) if value.replace(".", "").isdigit() else value


def _cells_said(change: Change, book: Book) -> str:
    """Say the cells that change in a single row, with what they were; nothing where more rows change."""
    if change.add is not None or change.remove or not change.table or change.key == "*" or change.table not in book.tables:
        return ""
    table, key = change.table, key_of(change.table)[0]
    before = book.get(table)
    before, after = (frame[frame[key].astype(str) == change.key] for frame in (before, changed_table(change, dict(book.tables))[1]))
    if len(before) != 1:
        return ""
    moved = [
        f"{column} is {_said(new)} instead of {_said(old)}"
        for column, old, new in zip(before.columns, before.iloc[0], after.iloc[0], strict=True)
        if not (old == new or (pd.isna(old) and pd.isna(new)))
    ]
    return f"{table}.{change.key}: {', '.join(moved) or 'everything is as it was'}."


def _said(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(str(part) for part in value) or "empty"
    if pd.isna(value) or value == "":
        return "empty"
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    return f"{float(value):,.10g}" if hasattr(value, "__float__") and not isinstance(value, str) else str(value)
