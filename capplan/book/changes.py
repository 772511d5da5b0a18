"""What-ifs on the tables of a book, as typed data, as one line of text, and as a sentence for a reader.

The line has one grammar for the sliders, scenario files, -p and Python:

    [TABLE[.KEY]] [where COLUMN=VALUE [and COLUMN=VALUE ...]] VERB ...
    VERB [TABLE[.KEY]] [where ...] ...

where COLUMN is the table's own, or one of a table it refers to (the accelerator of an offer's sku), with the verbs `set COLUMN VALUE`,
`multiply COLUMN NUMBER`, `shift [COLUMN] +2 quarters`, `remove` and `add TABLE [like KEY] {COLUMN: VALUE, ...}`.
"""

import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from capplan.book.plain_yaml import NotYamlError, read_yaml
from capplan.book.tables.registry import TABLES
from capplan.errors import ScenarioError
from capplan.text import counted, heading

Value = bool | int | float | str
VERBS = ("set", "multiply", "shift", "remove", "add")
#: Months or days in a unit of time.
SPANS = {"quarter": 3, "month": 1, "year": 12}
DAYS = {"day": 1, "week": 7}
_TOKEN = re.compile(r"""\s*(?:(?P<brace>\{.*)|(?P<quoted>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<sign>=)|(?P<word>[^\s="'{}]+))""", re.S)
_SHIFT = re.compile(r"([+-]?\d{1,4})\s*([a-z]+?)s?")
_BARE = re.compile(r"[A-Za-z0-9_./:*+-]+")


class Change(BaseModel):
    """One what-if on a table: this run slips, this quote is 25 % prepaid, this contract is gone.

    Args:
        table: Table of the book; empty where `where` leaves only one.
        key: The row: the value of the table's (first) key column, or * for every row.
        where: Only rows with these values, by column.
        column: The column that is set, multiplied or shifted; empty for all columns of days when shifting.
        set, multiply, shift, remove, add: New value; factor on the old one; time to move by, like "+2 quarters"; whether the rows go; cells
            of a new row. Exactly one of them.
        like: For a new row: key of the row whose cells it takes where `add` names none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    table: str = ""
    key: str = "*"
    where: dict[str, Value] = Field(default_factory=dict)
    column: str = ""
    set: Value | None = None
    multiply: float | None = None
    shift: str | None = None
    remove: bool = False
    add: dict[str, Value | None] | None = None
    like: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = parse_change(given)
        if isinstance(given, dict) and any(isinstance(given.get(name), bool) for name in ("multiply", "shift")):
            raise ValueError("true and false are no numbers")
        return given

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        if sum([self.set is not None, self.multiply is not None, self.shift is not None, self.remove, self.add is not None]) != 1:
            raise ValueError("give exactly one of set, multiply, shift, remove and add")
        if (self.set is not None or self.multiply is not None) and not self.column:
            raise ValueError("name the column")
        if self.shift is not None:
            span_of(self.shift)
        if self.add is not None and (not self.table or self.where or self.key != "*"):
            raise ValueError("a new row needs its table, and no selector")
        return self

    def __str__(self) -> str:
        return self.line

    @property
    def line(self) -> str:
        """The what-if as one line, which reads back as the same."""
        if self.add is not None:
            like = f" like {quoted(self.like)}" if self.like is not None else ""
            return f"add {self.table}{like} {{{', '.join(f'{name}: {_scalar(value)}' for name, value in self.add.items())}}}"
        target = self.table + (f".{quoted(self.key)}" if self.key != "*" else "")
        where = "where " + " and ".join(f"{name}={_scalar(value)}" for name, value in self.where.items()) if self.where else ""
        verb = (
            f"set {self.column} {_scalar(self.set)}"
            if self.set is not None
            else (
                f"multiply {self.column} {self.multiply!r}"
                if self.multiply is not None
                else f"shift {self.column} {self.shift}".replace("  ", " ")
                if self.shift is not None
                else "remove"
            )
        )
        return " ".join(part for part in (target, where, verb) if part)

    @property
    def sentence(self) -> str:
        """The what-if as a reader would say it."""
        if self.add is not None:
            like = f", otherwise like {self.like}" if self.like is not None else ""
            return (
                f"One more row of {_named(self.table)}:"
                f" {', '.join(f'{heading(name)} {_said(value)}' for name, value in self.add.items())}{like}."
            )
        rows = f"{_named(self.table)} {self.key}".strip() if self.key != "*" else f"All {_named(self.table) or 'rows'}"
        rows += " with " + " and ".join(f"{heading(name)} {_said(value)}" for name, value in self.where.items()) if self.where else ""
        rows = rows[:1].upper() + rows[1:]
        if self.remove:
            return f"{rows}: taken out."
        if self.shift is not None:
            months, days = span_of(self.shift)
            size = counted(abs(months or days), "month" if months else "day")
            return f"{rows}: {heading(self.column) if self.column else 'all days'} {size} {'later' if months + days > 0 else 'earlier'}."
        if self.multiply is not None:
            return f"{rows}: {heading(self.column)} times {self.multiply:g}."
        return f"{rows}: {heading(self.column)} becomes {_said(self.set)}."


def span_of(text: str) -> tuple[int, int]:
    """Read a span of time as months and days.

    Examples:
        >>> span_of("+2 quarters"), span_of("-10 days"), span_of("1 year")
        ((6, 0), (0, -10), (12, 0))
    """
    found = _SHIFT.fullmatch(text.strip())
    if not found or found[2] not in {*SPANS, *DAYS} or not int(found[1]):
        raise ValueError(f"{text!r} is no time to shift by; write it like +2 quarters, -1 month or +10 days")
    return int(found[1]) * SPANS.get(found[2], 0), int(found[1]) * DAYS.get(found[2], 0)


def parse_change(line: str) -> dict[str, Any]:
    """Read a what-if from its line; nothing of it is executed.

    Raises:
        ScenarioError: Where it does not follow the grammar: what came, and what could stand there.

    Examples:
        >>> parse_change("where term=spot multiply usd_per_hour 2")
        {'table': '', 'where': {'term': 'spot'}, 'column': 'usd_per_hour', 'multiply': 2}
        >>> parse_change("shift training_runs.alpha +2 quarters")
        {'table': 'training_runs', 'key': 'alpha', 'shift': '+2 quarters'}
        >>> parse_change("remove commitment x")
        {'table': 'commitments', 'key': 'x', 'remove': True}
    """
    return _Line(line).read()


class _Line:
    """A line of the grammar on its way to the fields of a change."""

    def __init__(self, line: str) -> None:
        self.line, self.place, self.tokens = line, 0, list[tuple[str, str, bool]]()
        at, text = 0, line.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.refusal(f"a word or value instead of {text[at : at + 20].strip()!r}")
            kind = found.lastgroup or ""
            self.tokens.append((kind, found[kind], found.start(kind) == at and at > 0))
            at = found.end()

    def fail(self, wanted: str) -> Any:
        raise self.refusal(wanted)

    def refusal(self, wanted: str) -> ScenarioError:
        return ScenarioError(f"what-if {self.line[:80]!r}: expected {wanted}; for example: where term=spot multiply usd_per_hour 2")

    def peek(self) -> str:
        kind, text, _ = self.tokens[self.place] if self.place < len(self.tokens) else ("", "", False)
        return text if kind == "word" else ""

    def take(self, wanted: str, kinds: tuple[str, ...] = ("word", "quoted")) -> str:
        if self.place == len(self.tokens) or self.tokens[self.place][0] not in kinds:
            return str(self.fail(wanted))
        self.place += 1
        kind, text, _ = self.tokens[self.place - 1]
        return str(self.value(text)) if kind == "quoted" else text

    def value(self, text: str) -> Any:
        try:
            found = read_yaml(text)
        except NotYamlError as error:
            return self.fail(f"a value instead of {text[:40]!r} ({error})")
        return text if isinstance(found, (dict, list)) else found

    def scalar(self, wanted: str) -> Any:
        if self.place < len(self.tokens) and self.tokens[self.place][0] == "quoted":
            return self.take(wanted)
        return self.value(self.take(wanted))

    def read(self) -> dict[str, Any]:
        verb = self.take("a verb") if self.peek() in VERBS else ""
        found = self.selector(verb)
        verb = verb or self.take(f"one of {', '.join(VERBS)}")
        if verb not in VERBS:
            self.fail(f"one of {', '.join(VERBS)} instead of {verb!r}")
        if verb == "add":
            found |= self.row()
        elif verb == "remove":
            found["remove"] = True
        elif verb == "shift":
            found |= self.span()
        else:
            found["column"] = self.take("a column")
            if self.peek() in ("to", "by"):
                self.place += 1
            found[verb] = self.scalar("a value")
        if self.place < len(self.tokens):
            self.fail(f"the end instead of {self.tokens[self.place][1][:20]!r}")
        return found

    def selector(self, verb: str) -> dict[str, Any]:
        found: dict[str, Any] = {"table": ""}
        if self.peek() not in ("", "where", *VERBS) and not (verb == "shift" and self.peek()[:1] in "+-"):
            name, dot, key = self.take("a table").partition(".")
            found["table"] = _table(name)
            if (dot and not key and self.place < len(self.tokens) and self.tokens[self.place][2]) or (
                verb == "remove" and not dot and self.place < len(self.tokens) and self.peek() != "where"
            ):
                key = self.take("a key")
            found |= {"key": key} if key else {}
        if self.peek() == "where":
            found["where"] = {}
            while self.peek() in ("where", "and"):
                self.place += 1
                column = self.take("a column")
                self.take("=", ("sign",))
                found["where"][column] = self.scalar("a value")
        return found

    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.peek() == "like":
            self.place += 1
            found["like"] = self.take("the key of a row")
        text = self.take("the new row's cells in braces", ("brace",))
        try:
            cells = read_yaml(text)
        except NotYamlError as error:
            self.fail(f"cells like {{name: value, ...}} instead of {text[:40]!r} ({error})")
        if not isinstance(cells, dict) or not cells or any(isinstance(cell, (dict, list)) for cell in cells.values()):
            self.fail("cells like {name: value, ...}")
        return {**found, "add": {str(name): cell for name, cell in cells.items()}}

    def span(self) -> dict[str, Any]:
        found = {} if self.peek()[:1] in ("+", "-") or self.peek()[:1].isdigit() else {"column": self.take("a column or a time")}
        return {**found, "shift": f"{self.take('a number')} {self.take('a unit of time')}"}


def _table(name: str) -> str:
    """Return a table's name; one row may be named in the singular."""
    plurals = (name, f"{name}s", f"{name[:-1]}ies" if name.endswith("y") else name)
    return next((plural for plural in plurals if plural in TABLES), name)


def _scalar(value: Value | None) -> str:
    if isinstance(value, str):
        return quoted(value, plain=False)
    return "null" if value is None else "true" if value is True else "false" if value is False else repr(value)


def quoted(text: str, *, plain: bool = True) -> str:
    """Write a text so that it reads back as this text; `plain` where only texts can stand."""
    if (
        _BARE.fullmatch(text)
        and (plain or read_yaml(text) == text)
        and not text.startswith(("+", "-"))
        and ": " not in text
        and not text.endswith(":")
    ):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _named(table: str) -> str:
    return table.replace("_", " ")


def _said(value: Value | None) -> str:
    return (
        "empty"
        if value is None
        else "yes"
        if value is True
        else "no"
        if value is False
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
