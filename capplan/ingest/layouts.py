"""Which files have one layout, so that one scan reads them all."""

import contextlib
import gzip
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from capplan.errors import BookError
from capplan.ingest.opening import LONGEST_LINE, UnlikeFilesError, kind_of, text_literal

Found = TypeVar("Found")


def batches_of(files: Sequence[Path]) -> list[list[Path]]:
    """Group files that follow each other and have one kind and one header.

    A file whose header cannot be told (compressed with Zstandard, missing, empty) stands alone.

    Args:
        files: In the order in which they are to count.
    """
    if len(files) == 1:
        return [list(files)]
    schemas = _schemas([file for file in files if kind_of(file) == "parquet" and file.is_file()])
    marked = [(_header(file, schemas) or str(place), file) for place, file in enumerate(files)]
    return [[file for _, file in group] for _, group in groupby(marked, key=lambda pair: pair[0])]


def _header(file: Path, schemas: dict[Path, str]) -> tuple[str, str | bytes] | None:
    """Return the kind of a file and its first line that is not blank, or the names of its columns."""
    name = file.name.lower()
    if file in schemas:
        return "parquet", schemas[file]
    if not file.is_file() or (name.endswith(".zst") or kind_of(file) != "csv"):
        return None
    with contextlib.suppress(OSError, EOFError), (gzip.open if name.endswith(".gz") else open)(file, "rb") as raw:
        while line := raw.readline(LONGEST_LINE):
            if line.strip():
                return (".gz" if name.endswith(".gz") else ""), line.rstrip(b"\r\n")
    return None


def _schemas(files: Sequence[Path]) -> dict[Path, str]:
    """Return the names and types of the columns of Parquet files; of none where one of them cannot be read."""
    import duckdb

    found: dict[Path, str] = {}
    with duckdb.connect() as connection:
        for file in files:
            with contextlib.suppress(duckdb.Error):
                if not any(sign in str(file) for sign in "*?["):
                    found[file] = str(connection.execute(f"describe from read_parquet({text_literal(str(file))})").fetchall())
    return found


def in_one_scan(files: Sequence[Path], read: Callable[[Sequence[Path]], Found]) -> list[Found]:
    """Read files of one layout together; one by one where they turn out to be unlike, or where one of them has a fault, which names it."""
    try:
        return [read(files)]
    except (UnlikeFilesError, BookError):
        if len(files) == 1:
            raise
        return [read([file]) for file in files]
