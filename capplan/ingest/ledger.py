"""The ingest ledger of a book: every file that came in, what it held, and the tables that follow from all of them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.ingest.folding import fold
from capplan.ingest.ingested import Ingested

#: Folder of a book that holds the ledger and, file by file, what came in.
FOLDER, LEDGER = "ingested", "files.csv"
#: Rows that the book had itself before a file took their place; they come back when that file is taken back.
OWN = 0
_PART = re.compile(
    r"(?:part|chunk|shard|split|slice|piece|export|output|data)[-_. ]?\d+(?:[-_. ]\d+)*|(?<!\d)\d{4,}(?!\d)|\d+[-_. ]?of[-_."
    r" ]?\d+|[0-9a-f]{8}-[0-9a-f-]{27}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Entry:
    """One file in the ledger.

    Parameters
    ----------
    number
        From 1 in the order in which files came; it names the file's parts.
    format, file, sha256, options
        What it is, its name, the digest of its content and how it was read (JSON).
    rows, period_start, period_end, totals
        What it holds.
    state
        counts, replaced (by another reading of the file, or by --replace) or undone.
    replaces
        Bills that it states again: number of the older file and scope (provider, billing account, month).
    leaves_out
        Numbers of the files whose rows it has too; they count there.
    """

    number: int
    format: str
    file: str
    sha256: str
    options: str
    rows: int
    period_start: str
    period_end: str
    totals: str
    state: str = "counts"
    replaces: tuple[tuple[int, str], ...] = ()
    leaves_out: tuple[int, ...] = ()


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def stem_without_part(name: str) -> str:
    """Return a file's name without what numbers the parts of one export.

    Examples
    --------
    >>> stem_without_part("part_0_0001.csv") == stem_without_part("part_0_0002.csv")
    True
    >>> stem_without_part("2026-09-first.csv") == stem_without_part("2026-09-restated.csv")
    False
    >>> stem_without_part("bill-v1.csv") == stem_without_part("bill-v2.csv")
    False
    """
    day = re.sub(
        r"20\d{2}[-_]?\d{2}(?:[-_]?\d{2})?",
        lambda found: "day" + "".join(chr(97 + int(digit)) if digit.isdigit() else digit for digit in found[0]),
        name,
    )
    return _PART.sub("#", day)


class Ledger:
    """The files of a book.

    Parameters
    ----------
    book
        Folder of the book.
    """

    def __init__(self, book: Path) -> None:
        self.book, self.folder = book, book / FOLDER
        path = self.folder / LEDGER
        self.entries: list[Entry] = []
        if path.is_file():
            rows = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
            self.entries = [
                Entry(
                    **{
                        **{str(name): value for name, value in row.items()},
                        "number": int(row["number"]),
                        "rows": int(row["rows"]),
                        "replaces": tuple((int(number), str(scope)) for number, scope in json.loads(row["replaces"])),
                        "leaves_out": tuple(json.loads(row["leaves_out"])),
                    }
                )
                for row in rows
            ]

    def counting(self) -> list[Entry]:
        """Return the files that count, in the order in which they came."""
        return [entry for entry in self.entries if entry.state == "counts"]

    def text(self) -> str:
        """Write the ledger as CSV."""
        rows = [
            {**vars(entry), "replaces": json.dumps(entry.replaces), "leaves_out": json.dumps(entry.leaves_out)} for entry in self.entries
        ]
        return pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")

    def path(self, number: int, name: str) -> Path:
        """Return where a part of a file is kept."""
        return self.folder / f"{number:04d}-{name}.parquet"

    def parts(self, number: int) -> dict[str, pd.DataFrame]:
        """Read what is kept of a file, by name of the part."""
        found = sorted(self.folder.glob(f"{number:04d}-*.parquet"))
        return {path.stem.partition("-")[2]: read_part(path) for path in found if not path.stem.endswith("-identities")}

    def known(self, format: str) -> list[tuple[int, Path, pd.Timestamp, pd.Timestamp]]:
        """Return the files of a format whose rows can be recognised: number, identities, first and last instant."""
        return [
            (entry.number, self.path(entry.number, "identities"), pd.Timestamp(entry.period_start), pd.Timestamp(entry.period_end))
            for entry in self.counting()
            if entry.format == format and self.path(entry.number, "identities").is_file()
        ]

    def folded(self, fresh: dict[int, dict[str, pd.DataFrame]] | None = None) -> tuple[dict[str, pd.DataFrame], list[str]]:
        """Return the tables that follow from all files that count.

        Parameters
        ----------
        fresh
            Parts of files that are not written yet, by number.
        """
        gone = {pair for entry in self.counting() for pair in entry.replaces}
        files = []
        for entry in self.counting():
            parts = (fresh or {}).get(entry.number) or self.parts(entry.number)
            scopes = {scope for number, scope in gone if number == entry.number}
            files.append({name: frame[~frame["scope"].isin(scopes)] if "scope" in frame else frame for name, frame in parts.items()})
        return fold([{name: frame for name, frame in parts.items() if len(frame)} for parts in files])

    def find(self, name: str) -> Entry:
        """Return the file that counts and has this name or number."""
        found = [entry for entry in self.counting() if name in (entry.file, str(entry.number))]
        if not found:
            names = [entry.file for entry in self.counting()]
            raise CapplanError(
                f"no file {name} is counted in {self.book}; {nearest(name, names)}" if names else f"no file was ingested into {self.book}"
            )
        return found[-1]

    def without(self, number: int, state: str) -> None:
        """Let a file no longer count; one that another file leaves rows to must go after that one."""
        needed = [entry for entry in self.counting() if number in entry.leaves_out]
        if needed:
            other = needed[-1]
            raise CapplanError(
                f"{other.file} leaves out rows because file {number} has them: take {other.file} back first (--undo {other.number}), and"
                " ingest it again after"
            )
        self.entries = [replace(entry, state=state) if entry.number == number else entry for entry in self.entries]

    def enter(self, found: Ingested, file: Path, format: str, options: str, sha256: str, **more: Any) -> Entry:
        """Add a file that was read; it gets the next number."""
        number = max((entry.number for entry in self.entries), default=OWN) + 1
        first, last = ("", "") if found.period is None else (str(moment) for moment in found.period)
        entry = Entry(number, format, file.name, sha256, options, found.rows, first, last, found.headline, **more)
        self.entries.append(entry)
        return entry

    def restated(self, found: Ingested, file: Path, how: str, together: Sequence[int]) -> tuple[tuple[tuple[int, str], ...], list[str]]:
        """Say which charges of older files a bill states again.

        Parameters
        ----------
        found
            The bill.
        file
            Its name tells whether it is a numbered part of one export with an older one.
        how
            auto, replace or add.
        together
            Numbers of the files that came in the same command: parts of one delivery.

        Returns
        -------
        tuple of (number, scope)
            What the bill replaces.
        list of str
            Totals before and after, for the reader.
        """
        scopes = {scope for name in ("billing", "pieces") if name in found.parts for scope in found.parts[name]["scope"].unique()}
        already = {pair for entry in self.counting() for pair in entry.replaces}
        pairs: list[tuple[int, str]] = []
        notes: list[str] = []
        for entry in self.counting():
            if entry.format != "focus" or entry.number in together or how == "add":
                continue
            part = entry.file != file.name and stem_without_part(entry.file) == stem_without_part(file.name)
            if part and how == "auto":
                continue
            older = self.parts(entry.number)
            for scope in sorted(scopes):
                held = [frame[frame["scope"] == scope] for name, frame in older.items() if name in ("billing", "pieces")]
                if (entry.number, scope) not in already and any(len(frame) for frame in held):
                    pairs.append((entry.number, scope))
                    provider, month = scope.split("|")[0], scope.rpartition("|")[2]
                    notes.append(
                        f"{month} of {provider} is billed again: {file.name} replaces {entry.file} ({_total(older, scope)} before,"
                        f" {_total(found.parts, scope)} now)."
                    )
        return tuple(pairs), notes


def _total(parts: dict[str, pd.DataFrame], scope: str) -> str:
    """Write what a bill says of a scope."""
    said = []
    if "billing" in parts:
        rows = parts["billing"][parts["billing"]["scope"] == scope]
        said = [f"{rows['billed_cost'].sum():,.2f} {'/'.join(sorted(rows['currency'].unique()))} billed"]
    if "pieces" in parts:
        said.append(f"{parts['pieces'].loc[parts['pieces']['scope'] == scope, 'quantity'].sum():,.1f} accelerator-hours")
    return ", ".join(said)


def read_part(path: Path) -> pd.DataFrame:
    """Read a part of a file."""
    import duckdb

    with duckdb.connect() as connection:
        frame: pd.DataFrame = connection.execute("from read_parquet(?)", [str(path)]).df()
    return frame.astype(dict.fromkeys(frame.select_dtypes("datetime").columns, "datetime64[ns]"))


def write_part(frame: pd.DataFrame, path: Path) -> None:
    """Write a part of a file."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("part", frame)
        connection.execute(f"copy part to '{path.as_posix().replace(chr(39), chr(39) * 2)}' (format parquet, compression zstd)")


def into_book(
    book: Path,
    format: str,
    readings: Sequence[tuple[Path, Callable[[dict[str, Any]], Ingested]]],
    options: dict[str, Any],
    *,
    replace_all: bool = False,
) -> tuple[dict[str, pd.DataFrame], list[Ingested], list[str]]:
    """Read files into a book: the same file once, each job and row once, restated bills in the place of older ones; all or nothing.

    Parameters
    ----------
    book
        Folder of the book.
    format
        Format of the files.
    readings
        Each file, and what reads it when it is given where identities of rows are kept and which are known.
    options
        How the files are read.
    replace_all
        Let no earlier file of the same tables count.

    Returns
    -------
    tables, found, notes
        The tables that follow from all files, what each file held, and what was assumed and written.
    """
    from capplan.ingest.writing import write_tables

    if not book.is_dir():
        raise CapplanError(f"there is no book at {book}; make one with: capplan new {book}")
    ledger = Ledger(book)
    before, _ = ledger.folded()
    written = json.dumps(options, default=str, sort_keys=True)
    notes: list[str] = []
    found: list[Ingested] = []
    fresh: dict[int, dict[str, pd.DataFrame]] = {}
    if replace_all:
        for entry in reversed(ledger.counting()):
            if entry.format == format:
                ledger.without(entry.number, "replaced")
    scratch = book / f".{FOLDER}.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        kept: dict[int, Path] = {}
        for file, read in readings:
            sha256 = digest_of(file) if file.is_file() else ""
            same = [entry for entry in ledger.counting() if entry.sha256 == sha256 and entry.format == format]
            if any(entry.options == written for entry in same):
                notes.append(f"{file.name} is in the book already, as {same[-1].file}; it changes nothing.")
                continue
            for entry in same:
                ledger.without(entry.number, "replaced")
                notes.append(f"{file.name} was in the book, read with {entry.options}; this reading takes its place.")
            identities = scratch / f"{len(found):04d}.parquet"
            known = ledger.known(format) + [(number, path, *found_period(ledger, number)) for number, path in kept.items()]
            result = read({"keep": identities, "known": known})
            replaces, said = (
                ledger.restated(result, file, str(options.get("restated", "auto")), list(fresh)) if format == "focus" else ((), [])
            )
            entry = ledger.enter(result, file, format, written, sha256, replaces=replaces, leaves_out=result.leaves_out)
            fresh[entry.number] = result.parts
            if identities.is_file():
                kept[entry.number] = identities
            found.append(result)
            notes += [*(result.notes if len(readings) == 1 else [f"{file.name}: {note}" for note in result.notes]), *said]
        tables, more = ledger.folded(fresh)
        if not found and not replace_all:
            return tables, [], notes
        ready = _prepared(ledger, fresh, kept, scratch)
        notes += write_tables(tables, book, before=before, ledger=ledger, ready=ready, replace=replace_all)
        return tables, found, [*notes, *(more if len(ledger.counting()) > 1 else [])]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def found_period(ledger: Ledger, number: int) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return the first and last instant of a file."""
    entry = next(entry for entry in ledger.entries if entry.number == number)
    return pd.Timestamp(entry.period_start), pd.Timestamp(entry.period_end)


def _prepared(ledger: Ledger, fresh: dict[int, dict[str, pd.DataFrame]], kept: dict[int, Path], scratch: Path) -> dict[Path, Path]:
    """Write the parts of new files aside; return where each belongs."""
    ready = {}
    for number, parts in fresh.items():
        for name, frame in parts.items():
            aside = scratch / f"{number:04d}-{name}.parquet"
            write_part(frame, aside)
            ready[ledger.path(number, name)] = aside
        if number in kept:
            ready[ledger.path(number, "identities")] = kept[number]
    return ready


def undo(book: Path, name: str) -> tuple[str, list[str]]:
    """Take a file back: the tables are as if it had never come.

    Parameters
    ----------
    book
        Folder of the book.
    name
        Name of the file, or its number in the ledger.

    Returns
    -------
    headline, notes
        What was taken back, and what was written.
    """
    from capplan.ingest.writing import write_tables

    ledger = Ledger(book)
    before, _ = ledger.folded()
    entry = ledger.find(name)
    ledger.without(entry.number, "undone")
    tables, more = ledger.folded()
    notes = write_tables(tables, book, before=before, ledger=ledger)
    return f"{entry.file} (number {entry.number}, {entry.rows:,} rows) was taken back: {entry.totals}", [*notes, *more]
