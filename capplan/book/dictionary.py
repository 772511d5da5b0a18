"""The data dictionary: data/README.md, written from the table classes and the assumptions, so that it cannot drift from them.

`python -m capplan.book.dictionary` writes it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from capplan.book.allowed import form_words
from capplan.book.places import shipped
from capplan.book.scenario import (
    Change,
    DemandAssumptions,
    GoodputAssumptions,
    LedgerAssumptions,
    PricingAssumptions,
    ProcurementAssumptions,
    ScalingAssumptions,
    Scenario,
    Section,
    ServingAssumptions,
    Timeline,
)
from capplan.book.tables.registry import REFERENCE_TABLES, TABLES, Column, columns_of, key_of, meaning_of

SECTIONS: tuple[tuple[type[Section], str], ...] = (
    (Timeline, "Shared by all questions"),
    (DemandAssumptions, "Demand: how much work will come?"),
    (PricingAssumptions, "Pricing: what does an accelerator-hour really cost?"),
    (ProcurementAssumptions, "Procurement: what do we buy each quarter?"),
    (LedgerAssumptions, "Ledger: how is money booked?"),
    (ScalingAssumptions, "Scaling: what does one more accelerator really add?"),
    (GoodputAssumptions, "Goodput: how much of a paid hour is progress?"),
    (ServingAssumptions, "Serving: how many accelerators serve a traffic within its latency target?"),
    (Scenario, "What if"),
)
_INTRODUCTION = """\
# Data dictionary

This page is generated (`python -m capplan.book.dictionary`) from the classes that check the tables; a test keeps the two equal.

A *book* is a folder with `book.yaml` and one CSV file for each table it needs: UTF-8, commas between cells, points as decimals, one header
line. A book needs only the tables of the questions it asks; a usage file and a list of contracts are enough to begin. Columns marked
*optional* may be absent or have empty cells.

- Dates are `2027-01-31`. Instants are `2027-01-31 14:00`, in UTC, or with their zone (`2027-01-31 14:00+02:00`). Quarters are `2027Q1`.
- Money is in US dollars. A name ends with its unit: `_usd`, `_usd_per_hour`, `_gib`, `_kw`, `_days`. A ratio ends with `_share` and lies
  between 0 and 1.
- `true` and `false` for yes and no. An empty cell means *not stated*, never zero.
- A text that a spreadsheet would run as a formula (it begins with `=`, `+`, `-`, `@` or a control character) stands behind an apostrophe
  in every CSV file that capplan writes; whatever capplan reads again has it taken off, and other readers must do the same.
- A *region* of demand is a geography (`us`, `eu`, `apac`, ...), a provider's own region, or `any`.
- `book.yaml` holds `name`, `description` and any assumption of the last chapter that the book overrides, as `name: value`.

`reference/` holds facts that every book can use: {reference}. A row of a book with the same key overrides the fact. Every fact names its
source and its date; prices stand in one file a provider (`reference/prices/`), owned machines in `offers.csv`, and `make facts` checks
them; prices that the plan uses although they are old are listed in the plan.

The other folders are example books of invented companies, each with a README: `enterprise/` extends what it holds, `api_first/` calls
APIs and asks when to host, `on_prem/` owns its machines and is bound by power. `capplan new DIR --from NAME` copies one.
"""


def _cell(text: str) -> str:
    """Make a text safe inside a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    return [*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)]


def _shown(value: Any) -> str:
    """Write a default as book.yaml or a CSV cell would state it."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]" if value else "empty"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _allowed(column: Column) -> str:
    parts = [column.rule]
    if column.refers:
        parts.append(f"occurs in {column.refers}")
    return "; ".join(parts)


def _need(column: Column) -> str:
    if not column.optional:
        return "key" if column.key else "required"
    default = "" if column.default is None else f", empty = {_shown(column.default)}"
    return ("key, " if column.key else "") + f"optional{default}"


def table_lines(table: str) -> list[str]:
    """Describe one table: what a row is, its key, and all columns."""
    rows = [
        (f"`{column.name}`", column.meaning + (f" [{column.unit}]" if column.unit else ""), _allowed(column), _need(column))
        for column in columns_of(table)
    ]
    key, meaning = ", ".join(f"`{name}`" for name in key_of(table)), meaning_of(table)
    return [
        f"### {table}",
        "",
        f"One row is {meaning[0].lower()}{meaning[1:]} Unique together: {key}.",
        "",
        *_table(("column", "meaning", "allowed", "need"), rows),
        "",
    ]


def _limits(field: Any) -> str:
    """Say in words what an assumption may be."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    found = [f"{words[name]} {getattr(item, name):g}" for item in field.metadata for name in words if getattr(item, name, None) is not None]
    found += [form_words(item.pattern) for item in field.metadata if getattr(item, "pattern", None)]
    choices = [str(choice) for choice in get_args(field.annotation) if isinstance(choice, str)]
    return " or ".join(choices) if choices else " and ".join(found)


def section_lines(kind: type[Section], title: str, already: set[str]) -> list[str]:
    """Describe the assumptions that a section adds to those already described."""
    rows = []
    for name, field in kind.model_fields.items():
        if name in already:
            continue
        already.add(name)
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        unit = f" [{extra['unit']}]" if extra.get("unit") else ""
        rows.append((f"`{name}`", f"{field.description}{unit}", _shown(field.default), _limits(field), str(extra.get("source", ""))))
    return [f"### {title}", "", *_table(("assumption", "meaning", "default", "allowed", "source of the default"), rows), ""]


def dictionary() -> str:
    """Return the data dictionary as Markdown."""
    lines = [_INTRODUCTION.format(reference=", ".join(REFERENCE_TABLES)), "## Tables", ""]
    for table in TABLES:
        lines += table_lines(table)
    lines += [
        "## Assumptions",
        "",
        (
            "Defaults of a plan. They are keys of `book.yaml`, parameters of every command (`-p risk_weight=0.3`) and of every notebook,"
            " and the sliders."
        ),
        "",
    ]
    already: set[str] = set()
    for kind, title in SECTIONS:
        lines += section_lines(kind, title, already)
    fields = ", ".join(f"`{name}`" for name in Change.model_fields)
    lines.append(f"A change states {fields}; exactly one of `set` and `multiply`, and `key: '*'` for every row.")
    return "\n".join(lines) + "\n"


def main(path: Path | None = None) -> None:
    """Write the dictionary to data/README.md, or to another path."""
    target = path or shipped("data") / "README.md"
    target.write_text(dictionary(), encoding="utf-8", newline="\n")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
