"""From the files a company has to a first book and a first quick plan, with all that was assumed."""

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from capplan.answers.finished_plan import Plan
from capplan.answers.gaps import rank_gaps
from capplan.answers.placement import asked_book
from capplan.answers.plan import quarterly_plan
from capplan.answers.readiness import readiness
from capplan.answers.sums import plan_currency
from capplan.book.book import Book, load_book
from capplan.book.reader import read_table
from capplan.book.tables.registry import TABLES
from capplan.errors import CapplanError, nearest, refused
from capplan.ingest import expanded, ingest, options_of
from capplan.ingest.forms import form_of
from capplan.ingest.known import geography_of
from capplan.ingest.writing import csv_text
from capplan.outputs.run.starter_speeds import Ask, starter_speeds

#: Assumptions of a first plan: few paths and a wider gap, so that it is there in seconds. `capplan plan` takes the book's own.
QUICK: dict[str, Any] = {"plan_paths": 20, "paths": 60, "gap_share": 0.005, "flip_search": False}
#: On demand can be had at least as many times as much of one accelerator as work used at once so far; a judgement, and a line of book.yaml.
TIMES_OF_PAST_USE = 2


@dataclass(frozen=True)
class Started:
    """A first book and its first plan."""

    book: Path  #: Folder of the book.
    plan: Plan  #: First plan, made quickly.
    assumed: pd.DataFrame = field(repr=False)  #: What was assumed: assumption, value, and the cell or line that changes it.
    gaps: pd.DataFrame = field(repr=False)  #: Tables the book does not have, with the dollars each could move, largest first.
    notes: tuple[str, ...] = field(repr=False)  #: What each file was taken for and what was found in it.

    @property
    def text(self) -> str:
        """The answer as a reader wants it: the plan, what it rests on, and what to add next."""
        lines = [f"First plan, made quickly: {self.plan.headline}", "", "Assumed; each line names what changes it:"]
        lines += [f"  - {row.assumption}: {row.value}  [{row.change}]" for row in self.assumed.itertuples()]
        if len(self.gaps):
            first = self.gaps.iloc[0]
            moves = (
                f"moves the cost by {plan_currency(self.plan).said(float(first['change_usd']), signed=True)}"
                if abs(first["change_usd"]) < float("inf")
                else "leaves no plan"
            )
            lines += ["", f"Next best table: {self.book / (first['table'] + '.csv')}. If {first['supposed']}, it {moves}."]
        return "\n".join([*lines, "", f"The whole plan with its report: capplan plan {self.book}"])


def start(
    files: Sequence[str | Path],
    folder: Path,
    *,
    models: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    ask: Ask | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Started:
    """Make a first book of a company's files, and plan it quickly.

    Args:
        files: Bills, logs, job tables, price sheets, lists of contracts, and tables of a book by their names; files, folders and patterns.
        folder: Book to make; it appears whole or not at all.
        models: Model by workload that is measured in requests or tokens: its speed comes from public measurements.
        options: Options for reading, such as timezone; each format takes those it has.
        values: Assumptions to override, for this plan only.
        ask: Puts a question with its possible answers to somebody; None where nobody is there.

    Raises:
        CapplanError: If a file cannot be read, the folder is not empty, or the book lacks what a plan needs; it says what to add.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CapplanError(f"{folder} exists already and is not empty; choose another name")
    with refused(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    notes: list[str] = []
    assumed: list[tuple[str, str, str]] = []
    with refused(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=".start-") as scratch:
        draft = Path(scratch) / "book"
        draft.mkdir()
        (draft / "book.yaml").write_text(yaml.safe_dump({"name": folder.resolve().name}), encoding="utf-8")
        _read_all(expanded(list(files)), draft, dict(options or {}), notes, say)
        starter_speeds(draft, dict(models or {}), ask, assumed)
        _write_settings(draft, folder.resolve().name, assumed)
        book = load_book(draft)
        missing = readiness(book, book.scenario)
        if missing:
            raise CapplanError("these files are not enough for a plan: " + "; ".join(missing).replace(str(draft), str(folder)))
        if folder.exists():
            folder.rmdir()
        shutil.move(str(draft), folder)
    book = load_book(folder)
    scenario = book.scenario.replaced(**{**QUICK, **dict(values or {})})
    plan = quarterly_plan(book, scenario, say)
    gaps = rank_gaps(asked_book(book, scenario), scenario, say)
    frame = pd.DataFrame([*assumed, *_assumed_by_book(book, folder)], columns=["assumption", "value", "change"])
    return Started(folder, plan, frame, gaps, tuple(notes))


def _read_all(files: list[Path], draft: Path, options: dict[str, Any], notes: list[str], say: Callable[[str], None]) -> None:
    """Read each file as what it is: tables of a book first, since others may name what is in them."""
    tables = {path: frame for path in files if (frame := _table_in(path)) is not None}
    for path in sorted(tables, key=lambda path: list(TABLES).index(path.stem)):
        say(f"reading {path.name} as the table {path.stem}")
        (draft / path.name).write_text(csv_text(tables[path], path.stem), encoding="utf-8", newline="")
        notes.append(f"{path.name} is the table {path.stem}.")
    others = [path for path in files if path not in tables and path.name != "book.yaml"]
    groups: dict[tuple[str, str], list[Path]] = {}
    for path in others:
        taken = form_of(path, options)
        groups.setdefault((taken.format, repr(taken.options)), []).append(path)
    known = {name for format, _ in groups for name in options_of(format).model_fields}
    unknown = [name for name in options if name not in known]
    if unknown:
        raise CapplanError(f"none of these files is read with an option {unknown[0]}; {nearest(unknown[0], known)}")
    for (format, _), paths in groups.items():
        say("reading " + ", ".join(path.name for path in paths[:4]) + (" ..." if len(paths) > 4 else ""))
        found = ingest("auto", paths, draft, **{name: value for name, value in options.items() if name in options_of(format).model_fields})
        notes += [*found.notes, found.headline]


def _table_in(path: Path) -> pd.DataFrame | None:
    """Read a file that is a table of a book by its name and its cells; None where it is none."""
    if path.suffix != ".csv" or path.stem not in TABLES:
        return None
    frame, faults = read_table(path, path.stem)
    return None if faults else frame


def _write_settings(draft: Path, name: str, assumed: list[tuple[str, str, str]]) -> None:
    """Write into book.yaml what follows from the files, so that each has a line that changes it."""
    first = load_book(draft)
    entries: dict[str, Any] = {
        "name": name,
        "as_of": first.scenario.as_of.isoformat() if hasattr(first.scenario.as_of, "isoformat") else str(first.scenario.as_of),
    }
    entries |= {
        "first_quarter": first.scenario.first_quarter,
        "horizon_quarters": first.scenario.horizon_quarters,
        "providers": list(first.scenario.providers),
    }
    regions = [first.get(table)["region"] for table in ("usage", "commitments") if table in first.own]
    places = sorted({geography_of(str(region)) for part in regions for region in part.unique()} - {"any"})
    if places:
        entries["geographies"] = places
    most = _most_at_once(first)
    cap = max(first.scenario.on_demand_accelerators, 8.0 * math.ceil(TIMES_OF_PAST_USE * most / 8))
    entries["on_demand_accelerators"] = cap
    (draft / "book.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    whence = (
        "those of contracts, offers and bills"
        if {"commitments", "offers", "billing", "assets"} & set(first.own)
        else "no file names one, so all with public prices"
    )
    assumed += [
        ("the plan is made on", f"{entries['as_of']}, the day after the last usage", "book.yaml, as_of"),
        (
            "it begins with",
            f"{entries['first_quarter']}, and has {entries['horizon_quarters']} quarters",
            "book.yaml, first_quarter and horizon_quarters",
        ),
        (
            "may be bought from",
            f"{', '.join(entries['providers'])} ({whence}); no machines of one's own",
            "book.yaml, providers; sites.csv for machines of one's own",
        ),
        (
            "can be had on demand",
            f"{cap:,.0f} accelerators of a kind and place: {TIMES_OF_PAST_USE} times what was used at once at most ({most:,.0f}), or the"
            f" usual {first.scenario.on_demand_accelerators:g}; savings plans draw on it too, and work beyond it is left undone",
            "book.yaml, on_demand_accelerators; limits.csv for quotas by provider",
        ),
        ("may be bought in", ", ".join(places) or "any geography, since no file names a region", "book.yaml, geographies"),
    ]


def _most_at_once(book: Book) -> float:
    """Return the accelerators of one kind that the workloads used at most, each in its busiest interval and on its first accelerator."""
    speeds = book.get("speeds").drop_duplicates("workload").set_index("workload")
    kinds: dict[str, float] = {}
    for workload, part in book.get("usage").groupby("workload") if "usage" in book.own else []:
        if workload in speeds.index:
            step = part["time"].drop_duplicates().sort_values().diff().min()
            hours = 1.0 if pd.isna(step) else step / pd.Timedelta(hours=1)
            most = part.groupby("time")["quantity"].sum().max() / hours / speeds.at[workload, "work_per_accelerator_hour"]
            kinds[speeds.at[workload, "accelerator"]] = kinds.get(speeds.at[workload, "accelerator"], 0.0) + most
    return max(kinds.values(), default=0.0)


def _assumed_by_book(book: Book, folder: Path) -> list[tuple[str, str, str]]:
    """List what the plan takes from the reference or from defaults, with the cell that changes it."""
    rows = []
    if "offers" not in book.own:
        rows.append(
            ("prices", "public list prices with their dates, none of your own quotes", f"{folder / 'offers.csv'}, or capplan ingest prices")
        )
    scenario = book.scenario
    rows.append(
        (
            "an hour of unserved work costs",
            (
                f"{scenario.serving_shortfall_usd_per_accelerator_hour:g} USD for serving,"
                f" {scenario.batch_shortfall_usd_per_accelerator_hour:g} for batch, an accelerator"
            ),
            "workloads.csv, shortfall_usd_per_unit",
        )
    )
    if "commitments" not in book.own:
        rows.append(("signed contracts", "none", f"{folder / 'commitments.csv'}, or capplan ingest contracts"))
    workloads = book.get("workloads")
    rows.append(
        (
            "work that can be interrupted",
            ", ".join(workloads.loc[workloads["interruptible"].astype(bool), "workload"]) or "none",
            "workloads.csv, interruptible",
        )
    )
    return rows
