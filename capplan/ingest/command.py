"""What `capplan ingest` does: read files, take one back, or list what came in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.errors import CapplanError
from capplan.ingest import ingest
from capplan.ingest.entering import undo as take_back
from capplan.ingest.ingest_ledger import Ledger
from capplan.ingest.ingested import Ingested


def ingest_command(
    format: str | None, files: Sequence[str], into: Path | None, options: dict[str, Any], *, replace: bool = False, undo: str | None = None
) -> Ingested:
    """Do one command of `capplan ingest`.

    Args:
        format: Format of the files; None to list what came into the book.
        replace: Put the files in the place of all earlier ones of their format.
        undo: Name or number of a file to take back.

    Raises:
        CapplanError: If the command lacks something.
    """
    if undo is not None:
        if into is None or format is not None:
            raise CapplanError(f"write it like: capplan ingest --undo {undo} --into BOOK")
        return _taken_back(into, undo)
    if format is None:
        if into is None:
            raise CapplanError(
                "say which format and files, and the book: capplan ingest auto FILE --into BOOK; or list what came in: capplan ingest"
                " --into BOOK"
            )
        return listed(into)
    if not files:
        raise CapplanError(f"say which files: capplan ingest {format} FILE... --into BOOK")
    return ingest(format, list(files), into, replace=replace, **options)


def _taken_back(book: Path, name: str) -> Ingested:
    headline, notes = take_back(book, name)
    return Ingested({}, tuple(notes), headline)


def listed(book: Path) -> Ingested:
    """Say which files came into a book, and which of them count."""
    if not book.is_dir():
        raise CapplanError(f"there is no book at {book}; make one with: capplan new {book}")
    entries = Ledger(book).entries
    lines = [
        f"{entry.number}. {entry.file} ({entry.format}, {entry.rows:,} rows, {entry.period_start[:16]} to {entry.period_end[:16]},"
        f" {entry.sha256[:12]}): " + (entry.totals if entry.state == "counts" else entry.state)
        for entry in entries
    ]
    frame = pd.DataFrame([vars(entry) for entry in entries])
    counted = sum(entry.state == "counts" for entry in entries)
    return Ingested(
        {"files": frame} if entries else {}, (), "\n".join([f"{len(entries)} files came into {book}; {counted} count.", *lines])
    )
