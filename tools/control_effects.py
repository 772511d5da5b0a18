"""Measure what each control does to the number that its view decides by: the order of the controls, on the example book.

`python tools/control_effects.py [QUESTION ...]` moves every assumption of a view over its control's range, one at a time, on a rough plan
of the example, and writes how far the view's deciding number goes to `tests/outputs/control_effects.csv`. Views list their fields in this
order, and a test holds them to it. The page of a plan shows the purchase plan's number, so that it is measured there.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from capplan import load_book
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError
from capplan.outputs.lab.controls import bounds_of, without_none
from capplan.outputs.lab.differences import TECHNICAL
from capplan.outputs.views.all_questions import VIEWS
from capplan.outputs.views.tour import rough

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests" / "outputs" / "control_effects.csv"
COLUMNS = ("question", "field", "setting", "effect_share")
MEASURED = tuple(question for question in VIEWS if question != "plan")
#: A setting that cannot be planned is tried this many times again, each time half as far from where the control stands.
NEARER = 4
#: Names that are tried of those that can be picked.
MOST_NAMES = 3
#: How far a count is moved either way at most: a fleet of a hundred thousand is no question of a meeting, and takes for ever to simulate.
FURTHEST = {
    "added_accelerators": 1000,
    "added_nodes": 100,
    "inference_accelerators": 1000,
    "serving_kept_accelerators": 1000,
    "warm_replicas": 100,
}


def settings(name: str, value: Any, choices: tuple[str, ...]) -> list[Any]:
    """Return where a control can be moved to: the ends of its range, every other option, or each name that can be picked."""
    field = Scenario.model_fields[name]
    kind, _ = without_none(field.annotation)
    if get_origin(kind) is Literal:
        return [option for option in get_args(kind) if option != value]
    if kind is bool:
        return [not value]
    if kind in (int, float):
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        low, high = bounds_of(name, extra.get("step"))  # type: ignore[arg-type]
        at = float(value or 0.0)
        far = FURTHEST.get(name, math.inf)
        ends = [max(low, at - far) if low is not None else at / 2, min(high, at + far) if high is not None else max(2 * at, 1.0)]
        return [kind(end) for end in ends if kind(end) != value]
    if kind == tuple[str, ...]:
        return [(name,) for name in choices[:MOST_NAMES]]
    return list(choices[:MOST_NAMES]) if kind is str else []


def nearer(setting: Any, value: Any) -> Iterator[Any]:
    """Return a setting, and then, for numbers, settings half as far from where the control stands."""
    yield setting
    if isinstance(setting, (int, float)) and not isinstance(setting, bool):
        at = float(value or 0.0)
        for step in range(1, NEARER + 1):
            yield type(setting)(at + (setting - at) / 2**step)


def number_at(question: str, book: Book, scenario: Scenario, name: str, setting: Any) -> tuple[Any, float]:
    """Return the setting that could be shown and the deciding number there; the number is not one where none could."""
    for tried in nearer(setting, getattr(scenario, name)):
        try:
            return tried, VIEWS[question](book, scenario.replaced(**{name: tried})).value
        except CapplanError:
            continue
    return setting, math.nan


def effects(question: str, book: Book) -> list[tuple[str, str, Any, float]]:
    """Return the setting of each field of a view that moves its deciding number most: question, field, setting, share of it."""
    scenario = rough(book.scenario)
    view = VIEWS[question](book, scenario)
    rows = []
    for name in (name for name in view.fields if name not in TECHNICAL):
        best: tuple[Any, float] = ("", 0.0)
        for setting in settings(name, getattr(scenario, name), view.choices.get(name, ())):
            tried, value = number_at(question, book, scenario, name, setting)
            moved = abs(value - view.value) / (abs(view.value) or 1.0)
            if math.isfinite(moved) and moved > best[1]:
                best = (tried, moved)
        rows.append((question, name, best[0], float(f"{best[1]:.4g}")))
    return rows


def read() -> list[dict[str, str]]:
    """Return what was measured last."""
    if not FILE.exists():
        return []
    with FILE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main(wanted: list[str]) -> None:
    """Measure some questions, or all, and keep what was measured of the others."""
    book = load_book(ROOT / "data" / "enterprise")
    for question in wanted or MEASURED:
        began = time.process_time()
        rows = sorted(effects(question, book), key=lambda row: -row[3])
        kept = [row for row in read() if row["question"] != question]
        with FILE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(sorted([*([row[name] for name in COLUMNS] for row in kept), *rows], key=lambda row: list(VIEWS).index(row[0])))
        told = (question, f"{time.process_time() - began:.0f} CPU s", *(f"{row[1]}={row[3]}" for row in rows))
        sys.stdout.write(f"{' '.join(told)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
