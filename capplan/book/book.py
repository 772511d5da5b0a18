"""A book: a folder with book.yaml and CSV tables, loaded, checked as a whole and digested."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import yaml

from capplan.book.changed_tables import changed_table, without_orphans
from capplan.book.currencies import with_dollars
from capplan.book.defaults import assume_speeds, assume_workloads, assumptions
from capplan.book.empty import empty_table
from capplan.book.facts import read_facts
from capplan.book.gate import MOST_MEGABYTES
from capplan.book.odd import odd_days, unread_files
from capplan.book.places import example_books, shipped
from capplan.book.plain_yaml import read_entries
from capplan.book.reader import read_table
from capplan.book.roadmap import fill_parameters
from capplan.book.rules import check_tables
from capplan.book.scenario import Change, Scenario, build_scenario
from capplan.book.tables.registry import REFERENCE_TABLES, TABLES, columns_of, in_order, key_of, meaning_of
from capplan.contract_kinds import SHEET_TERMS
from capplan.errors import BookError, CapplanError, Fault, MissingTableError, nearest, reachable, refused
from capplan.scratch import scratch

#: Books with what-ifs that are kept: the steps of one answer ask for the same one.
KEPT_CHANGED = 8


@dataclass(frozen=True)
class Book:
    """Checked inputs of a plan.

    Args:
        name, description: From book.yaml.
        path: Folder it was read from.
        scenario: Default assumptions, with the overrides of book.yaml.
        tables: Checked frames by name, reference facts joined, rows in the order of their key; absent tables are not in it.
        own: Names of the tables the book itself has.
        digests: Digest of every table's content.
        notes: What was assumed because a table or an entry is missing.
        origin: Digest of the book as it was read: what-ifs change the digests of tables, and not this.
        lines: Line in its file of every row of the tables that are as they were read; 0 = the row is not of that file.
    """

    name: str
    description: str
    path: Path
    scenario: Scenario
    tables: Mapping[str, pd.DataFrame]
    own: tuple[str, ...]
    digests: Mapping[str, str]
    notes: tuple[str, ...]
    origin: str = ""
    lines: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Name the book by what it held first; copies with what-ifs keep the name."""
        if not self.origin:
            object.__setattr__(self, "origin", hashlib.sha256(repr(sorted(self.digests.items())).encode()).hexdigest()[:16])

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs."""
        return {name: dict(value) if isinstance(value, MappingProxyType) else value for name, value in vars(self).items()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Come to life in another process, as unchangeable as before."""
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if name in ("tables", "digests", "lines") else value)

    def need(self, table: str, question: str) -> pd.DataFrame:
        """Return a table, or say which question cannot be answered without it."""
        if table not in self.tables:
            raise MissingTableError(
                f"{question} needs the table {table} ({meaning_of(table).rstrip('.').lower()} a row), and the book {self.name} has none. "
                f"Add {self.path / (table + '.csv')} with the columns {', '.join(c.name for c in columns_of(table) if not c.optional)}."
            )
        return self.get(table)

    def get(self, table: str) -> pd.DataFrame:
        """Return a table; without rows where the book has none. Costs in a currency of their own come with their dollars."""
        if table not in self.tables:
            return empty_table(table)
        found = self.tables[table].copy()
        return with_dollars(found, self.tables.get("fx", empty_table("fx"))) if table == "other_costs" else found

    def lines_of(self, table: str) -> np.ndarray:
        """Return each row's line in its file, as faults name it; 0 where it is not of that file, or no longer as it was read."""
        return self.lines.get(table, np.zeros(len(self.tables.get(table, ())), dtype=int))

    def scenario_with(self, more: Mapping[str, Any] | None = None, **values: Any) -> Scenario:
        """Return the book's scenario with some assumptions replaced; None means "as the book says"."""
        given = {**(more or {}), **values}
        return self.scenario.replaced(**{name: value for name, value in given.items() if value is not None})

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Give tables as attributes: book.offers."""
        if name in TABLES:
            return self.need(name, "this step")
        raise AttributeError(name)

    def with_changes(self, changes: tuple[Change, ...]) -> Book:
        """Return the book with what-ifs applied one after another, checked like new."""
        if not changes:
            return self
        for before, asked, after in tuple(_changed):
            if before is self and asked == changes:
                return after
        tables, touched = dict(self.tables), set()
        for change in changes:
            name, after = changed_table(change, tables)
            changed = without_orphans(name, tables[name], after, tables, self.own) if change.remove else {}
            tables |= {**changed, name: after}
            touched |= {*changed, name}
        found = self._with_tables({name: tables[name] for name in touched}, _what_if_digest)
        _raise_faults(check_tables({name: found.tables[name].set_axis(found.lines_of(name)) for name in found.own}, dict(found.tables)))
        _changed[:] = [(self, changes, found), *_changed[: KEPT_CHANGED - 1]]
        return found

    def with_rows(self, table: str, rows: pd.DataFrame) -> Book:
        """Return the book with other rows of one table, which must be some of its own."""
        return self._with_tables({table: rows}, _digest)

    def _with_tables(self, tables: Mapping[str, pd.DataFrame], digest: Callable[[pd.DataFrame], str]) -> Book:
        tables = {name: in_order(name, rows).reset_index(drop=True) for name, rows in tables.items()}
        return replace(
            self,
            tables=MappingProxyType({**self.tables, **tables}),
            digests=MappingProxyType({**self.digests, **{name: digest(rows) for name, rows in tables.items()}}),
            lines=MappingProxyType({name: lines for name, lines in self.lines.items() if name not in tables}),
        )


#: A book, what-ifs, and the book with them.
_changed: list[tuple[Book, tuple[Change, ...], Book]] = []


def _digest(frame: pd.DataFrame) -> str:
    return hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()[:16]


def _what_if_digest(frame: pd.DataFrame) -> str:
    """Name the content of a table that a what-if changed, a tenth as long as a table's text takes: a meeting waits for it."""
    kinds = repr([*zip(frame.columns, frame.dtypes, strict=True)])
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return hashlib.sha256(kinds.encode() + rows.tobytes()).hexdigest()[:16]


def _raise_faults(faults: list[Fault]) -> None:
    if faults:
        raise BookError(faults)


@lru_cache(maxsize=1)
def reference_tables() -> Mapping[str, pd.DataFrame]:
    """Read the reference facts that every book can use; they were checked when they were put in."""
    tables, faults = {}, []
    for name in REFERENCE_TABLES:
        tables[name], found = read_facts(shipped("data") / "reference", name, sound=True)
        faults += found
    _raise_faults(faults or check_tables(tables, tables))
    return MappingProxyType({name: frame.reset_index(drop=True) for name, frame in tables.items()})


def _joined(own: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Join the book's tables with the reference facts."""
    return {**own, **{name: _with_facts(own, name) for name in reference_tables()}}


def _with_facts(own: dict[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Join one of the book's tables with the reference facts of its name, of line 0; the book's rows win."""
    facts = reference_tables()[name]
    if name not in own or own[name].empty:
        return facts
    key = key_of(name)
    taken = pd.MultiIndex.from_frame(own[name][key])
    rest = facts[~pd.MultiIndex.from_frame(facts[key]).isin(taken)]
    if name == "offers":
        rest = rest[~_restated(rest, own[name])]
    return pd.concat([own[name], rest.astype(own[name].dtypes.to_dict()).set_axis([0] * len(rest))])


def _restated(facts: pd.DataFrame, own: pd.DataFrame) -> pd.Series:
    """Say which reference offers the book's price sheets state again; quotes with a last day stand beside the list price."""
    place = ["sku", "region", "term"]
    listed = own[own["quote_expires"].isna() & own["term"].isin(SHEET_TERMS)]
    return pd.Series(pd.MultiIndex.from_frame(facts[place]).isin(pd.MultiIndex.from_frame(listed[place])), index=facts.index)


def load_book(path: str | Path) -> Book:
    """Load a book, check all of it, and report every fault at once.

    Args:
        path: Folder with CSV tables and, usually, book.yaml (name, description, and any assumption it overrides).

    Returns:
        Book: With checked frames, default scenario, digests, and notes on what was assumed.

    Raises:
        BookError: With all faults: file, row, column, value, rule, remedy.
        ScenarioError: Where book.yaml overrides an assumption wrongly.
    """
    folder = Path(path)
    with reachable():
        there = folder.is_dir()
    if not there:
        raise CapplanError(
            f"{folder} is not a folder; a book is a folder with book.yaml and CSV tables. `capplan new {folder} --from enterprise` makes"
            " one."
        )
    own_file = folder / "book.yaml"
    entries, faults = read_entries(own_file) if os.path.lexists(own_file) else ({}, [])
    odd = unread_files(folder)
    most = entries.get("most_megabytes", MOST_MEGABYTES)
    if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most < math.inf:
        faults.append(
            Fault("book.yaml", 0, "most_megabytes", str(most), "must be a number above 0", "Write for example `most_megabytes: 4000`.")
        )
        most = MOST_MEGABYTES
    own = _own_tables(folder, most, odd, faults)
    if not own and not faults:
        raise BookError(
            [Fault(str(folder), 0, "", "", "the book has no tables", "Add usage.csv and commitments.csv, or start with `capplan new`.")]
        )
    notes = fill_parameters(own, _with_facts(own, "models"), faults)
    known = _joined(own)
    faults += check_tables({name: frame for name, frame in own.items() if not any(fault.file == f"{name}.csv" for fault in faults)}, known)
    _raise_faults(faults)
    notes += [*odd, *odd_days(own)]
    assume_workloads(own, known, notes)
    assume_speeds(known, notes)
    known = {name: in_order(name, frame) for name, frame in known.items()}
    lines = {name: known[name].index.to_numpy() for name in own}
    known = {name: frame.reset_index(drop=True) for name, frame in known.items()}
    scenario = build_scenario(assumptions(entries, own, known, notes), where=f"{folder / 'book.yaml'}")
    if scenario.currency != "USD" and not (known.get("fx", empty_table("fx"))["currency"] == scenario.currency).any():
        raise BookError(
            [
                Fault(
                    "book.yaml",
                    0,
                    "currency",
                    scenario.currency,
                    "a currency other than USD needs its rate",
                    f"Add a row for {scenario.currency} to fx.csv.",
                )
            ]
        )
    return Book(
        name=str(entries.get("name", folder.resolve().name)),
        description=str(entries.get("description", "")),
        path=folder,
        scenario=scenario,
        tables=MappingProxyType(known),
        own=tuple(sorted(own)),
        digests=MappingProxyType({name: _digest(frame) for name, frame in sorted(known.items())}),
        notes=tuple(notes),
        lines=MappingProxyType(lines),
    )


def _own_tables(folder: Path, most: float, odd: list[str], faults: list[Fault]) -> dict[str, pd.DataFrame]:
    """Read the tables of a book by name; what is wrong with their files is appended to the faults."""
    own: dict[str, pd.DataFrame] = {}
    for file in sorted(folder.iterdir()):
        name = file.name.casefold()
        if name in ("book.yml", "book.yaml") and file.name != "book.yaml":
            faults.append(Fault(file.name, 0, "", "", "the book's own file is called book.yaml", "Rename it."))
        if not name.endswith(".csv"):
            continue
        if file.stem not in TABLES or file.suffix != ".csv":
            exact = f"{file.stem.casefold()}.csv"
            known_as = (
                f"table files are written in small letters, {exact}"
                if exact.removesuffix(".csv") in TABLES
                else f"{file.stem} is not a table; {nearest(file.stem, TABLES)}"
            )
            faults.append(Fault(file.name, 0, "", "", known_as, "Rename the file, or move it out of the book."))
            continue
        own[file.stem], found = read_table(file, file.stem, most, odd)
        faults += found
    return own


def new_book(folder: Path, source: str | None = None, as_of: str = "") -> str:
    """Make a new book, empty or as a copy of an example; it appears whole or not at all.

    Args:
        folder: Folder to make; it must not exist, or be empty.
        source: Name of an example book; None for an empty book.
        as_of: Day the plan is made, as YYYY-MM-DD; empty = the day after the last usage.

    Returns:
        str: One sentence: what was made and what to do next.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CapplanError(f"{folder} exists already and is not empty; choose another name")
    with refused(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with refused(folder), scratch(".new-", folder.parent) as place:
        fresh = place / "book"
        if source is not None:
            examples = example_books()
            if source not in examples:
                raise CapplanError(f"there is no example book {source}; {nearest(source, examples)}")
            shutil.copytree(examples[source], fresh)
        else:
            fresh.mkdir()
            entries = {"name": folder.resolve().name}
            if as_of:
                if pd.isna(pd.to_datetime(as_of, format="%Y-%m-%d", errors="coerce")):
                    raise CapplanError(f"--as-of {as_of}: write the day like 2026-12-01")
                entries["as_of"] = as_of
            (fresh / "book.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        fresh.rename(folder)
    if source is not None:
        return f"Made {folder} as a copy of the example {source}. Next: `capplan plan {folder}`."
    return f"Made the empty book {folder}. Next: `capplan ingest` usage into it, add commitments.csv, then `capplan plan {folder}`."
