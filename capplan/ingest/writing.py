"""Write tables into a book: checked first, merged by key, each file replaced at once."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pandas as pd

from capplan.book.reader import read_table
from capplan.book.tables.registry import TABLES, columns_of, key_of
from capplan.errors import BookError, CapplanError, Fault

#: Tables in which the book's own row stays when a file brings one with the same key; others take the new row.
KEPT = ("sources", "accelerators", "skus", "workloads", "models")


def csv_text(frame: pd.DataFrame, table: str) -> str:
    """Write a table as the CSV text that a book holds: UTF-8, commas, ISO dates, no columns that are empty throughout.

    Parameters
    ----------
    frame
        Rows with the table's columns.
    table
        Name of the table.
    """
    shown = {}
    for column in columns_of(table):
        if column.name not in frame or (column.optional and frame[column.name].isna().all()):
            continue
        series = frame[column.name]
        if column.kind == "datetime64[ns]":
            pattern = "%Y-%m-%d"
            if column.instant:
                whole = (series.dropna() == series.dropna().dt.floor("s")).all()
                pattern += "T%H:%M:%S" if whole else "T%H:%M:%S.%f"
            series = series.dt.strftime(pattern)
        elif column.kind == "bool":
            series = series.map({True: "true", False: "false"})
        shown[column.name] = series
    return pd.DataFrame(shown).to_csv(index=False, lineterminator="\n")


def merge(old: pd.DataFrame, new: pd.DataFrame, table: str) -> tuple[pd.DataFrame, int]:
    """Join the book's rows and new ones; rows with one key become one.

    Returns
    -------
    frame
        The book's rows in their order with new values where the table takes them, then the rows that are new.
    int
        How many keys were in both.
    """
    keys = key_of(table)
    known = pd.MultiIndex.from_frame(old[keys]) if len(old) else pd.MultiIndex.from_arrays([[]] * len(keys), names=keys)
    coming = pd.MultiIndex.from_frame(new[keys])
    both = coming.isin(known)
    fresh = new[~both]
    if table not in KEPT and both.any():
        replaced = new[both].set_index(keys)
        kept = old.set_index(keys)
        position = kept.index.get_indexer(replaced.index)
        for column in kept.columns:
            values = kept[column].to_numpy(copy=True)
            values[position] = (
                replaced[column].to_numpy() if column in replaced else None if kept[column].dtype == object else values[position]
            )
            kept[column] = values
        old = kept.reset_index()[list(old.columns)]
    frames = [part for part in (old, fresh) if len(part)]
    joined = pd.concat(frames, ignore_index=True) if frames else new
    ordered = [column.name for column in columns_of(table) if column.name in joined]
    if "time" in keys:
        joined = joined.sort_values([*(key for key in keys if key != "time"), "time"], kind="stable", ignore_index=True)
    return joined[ordered], int(both.sum())


def _check(frame: pd.DataFrame, table: str, file: str) -> list[Fault]:
    """Hold a table against its declaration before it is written."""
    from pandera.errors import SchemaErrors

    full = frame.copy()
    for column in columns_of(table):
        if column.name not in full:
            blank = pd.NaT if column.kind == "datetime64[ns]" else None if column.kind == "str" else float("nan")
            full[column.name] = pd.Series([blank] * len(full), dtype="object" if column.kind == "str" else column.kind)
    try:
        TABLES[table].to_schema().validate(full[[column.name for column in columns_of(table)]], lazy=True)
    except SchemaErrors as errors:
        cases = errors.failure_cases.head(40)
        return [
            Fault(
                file,
                0 if pd.isna(case.index) else int(case.index) + 2,
                str(case.column),
                str(case.failure_case),
                f"it breaks the rule {case.check}",
                "Correct it in the source.",
            )
            for case in cases.itertuples()
        ]
    return []


def write_tables(tables: dict[str, pd.DataFrame], book: Path, *, replace: bool = False) -> tuple[str, ...]:
    """Add tables to a book, all of them or none.

    Every table is merged and checked before the first file is touched, and each file is replaced in one step; tables
    that others refer to come first, so that references hold at every moment.

    Parameters
    ----------
    tables
        New rows by name of the table.
    book
        Folder of the book.
    replace
        Put the new rows in the place of the table instead of adding them; tables that many files share are added to even so.

    Returns
    -------
    tuple of str
        What was written, for the reader.

    Raises
    ------
    BookError
        If a table of the book has faults, or the joined one would have.
    CapplanError
        If the folder does not exist.
    """
    if not book.is_dir():
        raise CapplanError(f"there is no book at {book}; make one with: capplan new {book}")
    texts, notes, faults = {}, [], []
    order = [*KEPT, *(table for table in TABLES if table not in KEPT)]
    for table in sorted(tables, key=order.index):
        new, path = tables[table], book / f"{table}.csv"
        if not len(new):
            continue
        whole = new
        if path.exists() and (not replace or table in KEPT):
            old, wrong = read_table(path, table)
            faults += wrong
            if wrong:
                continue
            if table == "workloads":
                faults += _other_units(old, new, path.name)
            whole, both = merge(old, new, table)
            verb = "kept as they were" if table in KEPT else "replaced"
            notes.append(f"{path.name}: {len(new) - both} rows added" + (f", {both} with a known key {verb}." if both else "."))
        else:
            notes.append(f"{path.name}: written with {len(new)} rows.")
        faults += _check(whole, table, path.name)
        texts[path] = csv_text(whole, table)
    if faults:
        raise BookError(faults, where=f"the book {book.name}")
    _write_all(texts)
    return tuple(notes)


def _other_units(old: pd.DataFrame, new: pd.DataFrame, file: str) -> list[Fault]:
    """Refuse usage whose unit differs from the one the book's workload has."""
    coming = dict(zip(new.workload, new.unit, strict=True))
    remedy = "Give workload= another name, or unit= the book's unit."
    return [
        Fault(file, row, "unit", str(unit), f"the file counts {workload} in {coming[workload]}", remedy)
        for row, (workload, unit) in enumerate(zip(old.workload, old.unit, strict=True), start=2)
        if coming.get(workload, unit) != unit
    ]


def _write_all(texts: dict[Path, str]) -> None:
    """Write all files beside their places first, then move them there."""
    waiting = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in texts}
    try:
        for path, text in texts.items():
            with waiting[path].open("w", encoding="utf-8", newline="") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
        for path, part in waiting.items():
            part.replace(path)
    finally:
        for part in waiting.values():
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
