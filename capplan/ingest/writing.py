"""Write tables into a book: checked first, merged by key, each file replaced at once."""

import contextlib
import os
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.book.empty import empty_table
from capplan.book.reader import read_table
from capplan.book.tables.registry import TABLES, columns_of, key_of
from capplan.errors import BookError, CapplanError, Fault
from capplan.inert import inert
from capplan.ingest.ingest_ledger import LEDGER, OWN, Ledger, write_part
from capplan.ingest.ingested import KEPT


def csv_text(frame: pd.DataFrame, table: str) -> str:
    """Write a table as the CSV text that a book holds: UTF-8, commas, ISO dates, inert names, no columns that are empty throughout."""
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
        elif column.kind == "str":
            series = series.map(inert)
        shown[column.name] = series
    return pd.DataFrame(shown).to_csv(index=False, lineterminator="\n")


def merge(old: pd.DataFrame, new: pd.DataFrame, table: str) -> tuple[pd.DataFrame, int]:
    """Join the book's rows and new ones; rows with one key become one.

    Returns:
        frame: The book's rows in their order with new values where the table takes them, then the rows that are new.
        int: How many keys were in both.
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


def write_tables(
    tables: dict[str, pd.DataFrame],
    book: Path,
    *,
    before: dict[str, pd.DataFrame] | None = None,
    ledger: Ledger | None = None,
    ready: dict[Path, Path] | None = None,
    replace: bool = False,
) -> tuple[str, ...]:
    """Bring the tables of a book to what its files say now, all of them or none.

    Rows that no file brought stay, and so do cells that were changed by hand as long as the files say of their row what they said before.
    Every table is merged and checked before the first file is touched, and each file is replaced in one step; tables that others refer to
    come first and the ledger last, so that a break in between is made good by doing the same again.

    Args:
        ready: Further files that were written aside: where they belong, and where they are.
        replace: Put the new rows in the place of the table; tables that many files share are added to even so.

    Returns:
        tuple of str: What was written, for the reader.

    Raises:
        BookError: If a table of the book has faults, or the joined one would have.
        CapplanError: If the folder does not exist.
    """
    if not book.is_dir():
        raise CapplanError(f"there is no book at {book}; make one with: capplan new {book}")
    texts: dict[Path, str | None] = {}
    notes: list[str] = []
    faults: list[Fault] = []
    before = before or {}
    moves = dict(ready or {})
    order = [*KEPT, *(table for table in TABLES if table not in KEPT)]
    for table in sorted({*tables, *before}, key=order.index):
        new, old, path = tables.get(table, empty_table(table)), before.get(table, empty_table(table)), book / f"{table}.csv"
        if not len(new) and not len(old):
            continue
        if path.exists() and (not replace or table in KEPT):
            there, wrong = read_table(path, table)
            faults += wrong
            if wrong:
                continue
            if table == "workloads":
                faults += _other_units(there, new, path.name)
            own = ledger.own(table) if ledger else None
            whole, taken, said = _joined(there.reset_index(drop=True), empty_table(table) if replace else old, new, own, table)
            if said:
                notes.append(f"{path.name}: {said}")
            if whole is None:
                continue
            if ledger is not None and len(taken):
                texts_of_own = pd.concat([part for part in (own, taken) if part is not None], ignore_index=True)
                moves[ledger.path(OWN, table)] = _aside(texts_of_own, book, table)
        else:
            whole = new
            notes.append(f"{path.name}: written with {len(new)} rows.")
        faults += _check(whole, table, path.name)
        texts[path] = csv_text(whole, table) if len(whole) else None
    if faults:
        _forget(moves, ready)
        raise BookError(faults, where=f"the book {book.name}")
    if ledger is not None:
        texts[ledger.folder / LEDGER] = ledger.text()
        ledger.folder.mkdir(exist_ok=True)
    _write_all(texts, moves)
    return tuple(notes)


def _aside(frame: pd.DataFrame, book: Path, table: str) -> Path:
    place = book / f".{table}.own.part"
    write_part(frame, place)
    return place


def _forget(moves: dict[Path, Path], ready: dict[Path, Path] | None) -> None:
    for place, part in moves.items():
        if place not in (ready or {}):
            part.unlink(missing_ok=True)


def _joined(
    there: pd.DataFrame, old: pd.DataFrame, new: pd.DataFrame, own: pd.DataFrame | None, table: str
) -> tuple[pd.DataFrame | None, pd.DataFrame, str]:
    """Change in a table what its files say otherwise than before.

    Returns:
        frame: The table, or None where nothing changes: rows of its own as they stood, then those of files.
        taken: Rows of its own that a file's row takes the place of.
        str: What was done.
    """
    keys = key_of(table)
    new = new.assign(
        **{
            name: None if old[name].dtype == object else float("nan")
            for name in old.columns
            if name not in new and old[name].dtype.kind in "Of"
        }
    )
    indexed = {name: pd.MultiIndex.from_frame(frame[keys]) for name, frame in (("there", there), ("old", old), ("new", new))}
    fresh = new[~_as_before(old, new, keys)]
    gone = indexed["there"].isin(indexed["old"]) & ~indexed["there"].isin(indexed["new"])
    if table in KEPT:
        gone &= _as_before(old, there, keys)
        fresh = fresh[~pd.MultiIndex.from_frame(fresh[keys]).isin(indexed["there"])]
    taken = (
        there[indexed["there"].isin(pd.MultiIndex.from_frame(fresh[keys])) & ~indexed["there"].isin(indexed["old"])]
        if table not in KEPT
        else there[:0]
    )
    if own is not None:
        back = own[~pd.MultiIndex.from_frame(own[keys]).isin(indexed["new"]) & pd.MultiIndex.from_frame(own[keys]).isin(indexed["old"])]
        fresh = pd.concat([fresh, back], ignore_index=True) if len(back) else fresh
    both_kept = int(indexed["new"].isin(indexed["there"]).sum())
    if not len(fresh) and not gone.any():
        return (
            None,
            taken,
            f"0 rows added, {both_kept} with a known key kept as they were." if table in KEPT and not len(old) and both_kept else "",
        )
    whole, both = merge(there[~gone], fresh, table)
    if table not in KEPT and "time" not in keys:
        place = indexed["new"].get_indexer(pd.MultiIndex.from_frame(whole[keys]))
        whole = whole.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)
    said = (
        f"{len(fresh) - both} rows added"
        + (f", {both} with a known key replaced" if both else "")
        + (f", {int(gone.sum())} taken away" if gone.any() else "")
    )
    return whole, taken, f"{said}."


def _as_before(old: pd.DataFrame, new: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Say of each new row whether it is what the old rows say of its key."""
    if old.empty or new.empty:
        return np.zeros(len(new), dtype=bool)
    position = pd.MultiIndex.from_frame(old[keys]).get_indexer(pd.MultiIndex.from_frame(new[keys]))
    same = position >= 0
    for column in new.columns:
        if column in keys:
            continue
        theirs = old[column].take(np.maximum(position, 0)).reset_index(drop=True) if column in old else pd.Series([None] * len(new))
        mine = new[column].reset_index(drop=True)
        same &= ((mine == theirs) | (mine.isna() & theirs.isna())).to_numpy(dtype=bool)
    return same


def _other_units(old: pd.DataFrame, new: pd.DataFrame, file: str) -> list[Fault]:
    """Refuse usage whose unit differs from the one the book's workload has."""
    coming = dict(zip(new.workload, new.unit, strict=True))
    remedy = "Give workload= another name, or unit= the book's unit."
    return [
        Fault(file, row, "unit", str(unit), f"the file counts {workload} in {coming[workload]}", remedy)
        for row, (workload, unit) in enumerate(zip(old.workload, old.unit, strict=True), start=2)
        if coming.get(workload, unit) != unit
    ]


def _write_all(texts: dict[Path, str | None], moves: dict[Path, Path]) -> None:
    """Write all files beside their places, then move them there: parts, tables (gone where empty), and the ledger last."""
    filled = {path: text for path, text in texts.items() if text is not None}
    waiting = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in filled}
    try:
        for path, text in filled.items():
            with waiting[path].open("w", encoding="utf-8", newline="") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
        for path, part in [*moves.items(), *waiting.items()]:
            part.replace(path)
        for path in set(texts) - set(filled):
            path.unlink()
    finally:
        for part in waiting.values():
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
