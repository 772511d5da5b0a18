"""Files on their way into a book, and out of it again: read together where they have one layout, entered one by one, all or nothing."""

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.errors import CapplanError, refused
from capplan.ingest.identities import Identities
from capplan.ingest.ingest_ledger import FOLDER, Ledger, digest_of, stem_without_part, write_part
from capplan.ingest.ingested import Ingested
from capplan.ingest.layouts import in_one_scan

#: Reads files of one layout, given what rows are known.
Reader = Callable[[list[Path], Identities], Ingested]
#: First and last start of a charge.
Times = tuple[pd.Timestamp, pd.Timestamp]


class Delivery:
    """The files of one command on their way into a book: the same file once, each job and row once, all or nothing.

    Args:
        ledger: Ledger of the book.
        format, options: Format of the files, and how they are read (JSON).
        restated: What a bill of a month that the book has already does: auto, replace or add.
        scratch: Folder for what is not in the book yet.
    """

    def __init__(self, ledger: Ledger, format: str, options: str, restated: str, scratch: Path) -> None:
        self.ledger, self.format, self.options, self.restated, self.scratch = ledger, format, options, restated, scratch
        self.stored = ledger.parts()
        self.before, _ = ledger.folded(self.stored)
        self.found: list[Ingested] = []
        self.notes: list[str] = []
        self._said: list[tuple[str, list[str]]] = []
        self.numbers: list[int] = []
        self.ready: dict[Path, Path] = {}
        self._fresh: list[tuple[int, dict[str, pd.DataFrame]]] = []
        self._kept: list[tuple[int, Path, pd.Timestamp, pd.Timestamp]] = []

    def new_among(self, files: Sequence[Path]) -> dict[Path, str]:
        """Return the files that the book does not have as they are read now, with their digests; another reading of one takes its place."""
        found: dict[Path, str] = {}
        for file in files:
            sha256 = _digest_or_refusal(file) if file.is_file() else ""
            same = [entry for entry in self.ledger.counting() if entry.sha256 == sha256 and entry.format == self.format]
            twin = next((other for other, theirs in found.items() if sha256 and theirs == sha256), None)
            if twin is not None or any(entry.options == self.options for entry in same):
                self.notes.append(f"{file.name} is in the book already, as {twin.name if twin else same[-1].file}; it changes nothing.")
                continue
            for entry in same:
                self.ledger.without(entry.number, "replaced")
                self.notes.append(f"{file.name} was in the book, read with {entry.options}; this reading takes its place.")
            found[file] = sha256
        return found

    def take(self, digests: dict[Path, str], read: Reader, files: Sequence[Path]) -> None:
        """Read files of one layout together and enter each of them."""
        first = self.ledger.next_number
        identities = self.scratch / f"{first:04d}-identities.parquet"
        result = read(list(files), Identities(identities, first, (*self.ledger.known(self.format), *self._kept)))
        parts = {
            name: frame.assign(file=frame["file"] + first if "file" in frame else first)
            for name, frame in result.parts.items()
            if len(frame)
        }
        replaced, said = self._replaced(parts, files, first) if self.format == "focus" else ({}, [])
        for place, (file, held) in enumerate(zip(files, result.files, strict=True)):
            entry = self.ledger.enter(held, file, self.format, self.options, digests[file], tuple(replaced.get(first + place, ())))
            self.numbers.append(entry.number)
            if held.period is not None and identities.is_file():
                self._kept.append((entry.number, identities, *held.period))
        for name, frame in parts.items():
            aside = self.scratch / f"{first:04d}-{name}.parquet"
            write_part(frame, aside)
            self.ready[self.ledger.path(first, name)] = aside
        if identities.is_file():
            self.ready[self.ledger.path(first, "identities")] = identities
        self._fresh.append((first, parts))
        self.found.append(result)
        self._said.append((files[0].name if len(files) == 1 else f"{len(files)} files", [*result.notes, *said]))

    @property
    def all_notes(self) -> list[str]:
        """All that is to be said, with the files it is said of where they were not read together."""
        several = len(self._said) > 1
        return [*self.notes, *(f"{whose}: {note}" if several else note for whose, notes in self._said for note in notes)]

    def _replaced(
        self, parts: dict[str, pd.DataFrame], files: Sequence[Path], first: int
    ) -> tuple[dict[int, list[tuple[int, str]]], list[str]]:
        """Say which charges of older files bills state again."""
        entries = [entry for entry in self.ledger.counting() if entry.format == "focus" and entry.number not in self.numbers]
        already = {pair for entry in self.ledger.counting() for pair in entry.replaces}
        older, newer = totals_by_scope(self.stored), totals_by_scope(parts)
        times = times_by_scope(self.stored) | times_by_scope(parts)
        found: dict[int, list[tuple[int, str]]] = {}
        notes: list[str] = []
        for place, file in enumerate(files):
            scopes = sorted(scope for number, scope in newer if number == first + place)
            for entry in entries if self.restated != "add" else ():
                part = entry.file != file.name and stem_without_part(entry.file) == stem_without_part(file.name)
                if part and self.restated == "auto":
                    continue
                for pair in ((entry.number, scope) for scope in scopes):
                    if pair in older and pair not in already:
                        provider, month = pair[1].split("|")[0], pair[1].rpartition("|")[2]
                        mine, theirs = times.get((first + place, pair[1])), times.get(pair)
                        if self.restated == "auto" and mine and theirs and _apart(mine, theirs, (file.name, entry.file), provider):
                            notes.append(f"{month} of {provider}: {file.name} and {entry.file} bill other days; both count.")
                            continue
                        already.add(pair)
                        found.setdefault(first + place, []).append(pair)
                        notes.append(
                            f"{month} of {provider} is billed again: {file.name} replaces {entry.file} ({older[pair]} before,"
                            f" {newer[first + place, pair[1]]} now)."
                        )
        return found, notes

    def parts(self) -> dict[str, pd.DataFrame]:
        """Return the parts of all files that count, old and new."""
        counts = [entry.number for entry in self.ledger.counting()]
        whole: dict[str, list[pd.DataFrame]] = {}
        for parts in (self.stored, *(parts for _, parts in self._fresh)):
            for name, frame in parts.items():
                whole.setdefault(name, []).append(frame[frame["file"].isin(counts)])
        return {name: pd.concat(filled, ignore_index=True) for name, frames in whole.items() if (filled := [f for f in frames if len(f)])}


def _digest_or_refusal(file: Path) -> str:
    try:
        return digest_of(file)
    except OSError as error:
        raise CapplanError(f"{file} cannot be read: {error.strerror}. Ask for read access, or export it again") from error


def totals_by_scope(parts: dict[str, pd.DataFrame]) -> dict[tuple[int, str], str]:
    """Write what each bill says of each scope, by number of the file and scope."""
    found: dict[tuple[int, str], list[str]] = {}
    if "billing" in parts:
        for key, rows in parts["billing"].groupby(["file", "scope"]):
            currencies = "/".join(sorted(rows["currency"].unique()))
            found.setdefault((int(key[0]), str(key[1])), []).append(f"{rows['billed_cost'].sum():,.2f} {currencies} billed")
    if "pieces" in parts:
        for key, hours in parts["pieces"].groupby(["file", "scope"])["quantity"].sum().items():
            found.setdefault((int(key[0]), str(key[1])), []).append(f"{hours:,.1f} accelerator-hours")
    return {pair: ", ".join(said) for pair, said in found.items()}


def times_by_scope(parts: dict[str, pd.DataFrame]) -> dict[tuple[int, str], Times]:
    """Return the first and last charge of each bill and scope, by number of the file and scope."""
    if "charged" not in parts:
        return {}
    spans = parts["charged"].groupby(["file", "scope"]).agg({"earliest": "min", "latest": "max"})
    return {(int(file), str(scope)): (row.earliest, row.latest) for (file, scope), row in zip(spans.index, spans.itertuples(), strict=True)}


def _apart(mine: Times, theirs: Times, names: tuple[str, str], provider: str) -> bool:
    """Say whether a bill is of other days than an earlier one of the same month; refuse one that holds some of its days only."""
    (begin, end), (first, last) = mine, theirs
    if end < first or last < begin:
        return True
    if (begin > first and end > last) or (begin < first and end < last):
        days = [f"{one:%Y-%m-%d} to {other:%Y-%m-%d}" for one, other in (mine, theirs)]
        raise CapplanError(
            f"{names[0]} bills {provider} for {days[0]}, and {names[1]} in the book for {days[1]}: neither holds the other's days. Take the"
            f" older one back (--undo {names[1]}) and read both in one command, so that equal charges count once, or export whole months;"
            " restated=replace lets the new bill stand for the month, restated=add lets all charges count"
        )
    return False


def into_book(
    book: Path, format: str, batches: Sequence[Sequence[Path]], read: Reader, options: dict[str, Any], *, replace_all: bool = False
) -> tuple[dict[str, pd.DataFrame], list[Ingested], list[str]]:
    """Read files into a book: the same file once, each job and row once, restated bills in the place of older ones; all or nothing.

    Args:
        batches: Files; those of one batch have one layout and are read in one scan, unless they turn out to be unlike or to have faults.
        read: Reads files of one layout, given which rows are known and where identities are kept.
        replace_all: Let no earlier file of the same tables count.

    Returns:
        tables, found, notes: The tables that follow from all files, what each batch held, and what was assumed and written.
    """
    if not book.is_dir():
        raise CapplanError(f"there is no book at {book}; make one with: capplan new {book}")
    with refused(book, "choose a book elsewhere"):
        return _delivered(book, format, batches, read, options, replace_all=replace_all)


def _delivered(
    book: Path, format: str, batches: Sequence[Sequence[Path]], read: Reader, options: dict[str, Any], *, replace_all: bool
) -> tuple[dict[str, pd.DataFrame], list[Ingested], list[str]]:
    """Read files into a book; see `into_book`."""
    from capplan.ingest.writing import write_tables

    ledger = Ledger(book)
    scratch = book / f".{FOLDER}.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        delivery = Delivery(ledger, format, json.dumps(options, default=str, sort_keys=True), str(options.get("restated", "auto")), scratch)
        for entry in reversed(ledger.counting()) if replace_all else ():
            if entry.format == format:
                ledger.without(entry.number, "replaced")
        for batch in batches:
            fresh = delivery.new_among(batch)
            if fresh:
                in_one_scan(list(fresh), partial(delivery.take, fresh, read))
        tables, more = ledger.folded(delivery.parts())
        if not delivery.found and not replace_all:
            return tables, [], delivery.all_notes
        notes = delivery.all_notes
        notes += write_tables(tables, book, before=delivery.before, ledger=ledger, ready=delivery.ready, replace=replace_all)
        return tables, delivery.found, [*notes, *(more if len(ledger.counting()) > 1 else [])]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def undo(book: Path, name: str) -> tuple[str, list[str]]:
    """Take a file back: the tables are as if it had never come.

    Args:
        name: Name of the file, or its number in the ledger.

    Returns:
        headline, notes: What was taken back, and what was written.
    """
    from capplan.ingest.writing import write_tables

    ledger = Ledger(book)
    before, _ = ledger.folded(ledger.parts())
    entry = ledger.find(name)
    ledger.without(entry.number, "undone")
    tables, more = ledger.folded(ledger.parts())
    with refused(book, "choose a book elsewhere"):
        notes = write_tables(tables, book, before=before, ledger=ledger)
    return f"{entry.file} (number {entry.number}, {entry.rows:,} rows) was taken back: {entry.totals}", [*notes, *more]
