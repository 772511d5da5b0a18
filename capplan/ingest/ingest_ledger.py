"""The ingest ledger of a book: every file that came in, what it held, and the tables that follow from all of them."""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.inert import active, inert
from capplan.ingest.folding import fold
from capplan.ingest.ingested import FileTotals
from capplan.records import records

#: Older charges that a bill states again: number of their file and scope.
Replaced = tuple[tuple[int, str], ...]

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

    Args:
        number: From 1 in the order in which files came; it names the file's parts.
        format, file, sha256, options: What it is, its name, the digest of its content and how it was read (JSON).
        rows, period_start, period_end, totals: What it holds.
        state: counts, replaced (by another reading of the file, or by --replace) or undone.
        replaces: Bills that it states again: number of the older file and scope (provider, billing account, month).
        leaves_out: Numbers of the files whose rows it has too; they count there.
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

    Examples:
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

    Args:
        book: Folder of the book.
    """

    def __init__(self, book: Path) -> None:
        self.book, self.folder = book, book / FOLDER
        path = self.folder / LEDGER
        self.entries: list[Entry] = []
        if path.is_file():
            rows = records(pd.read_csv(path, dtype=str, keep_default_na=False).map(active))
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
        """Write the ledger as CSV, with inert names of files."""
        rows = [
            {**vars(entry), "replaces": json.dumps(entry.replaces), "leaves_out": json.dumps(entry.leaves_out)} for entry in self.entries
        ]
        return pd.DataFrame(rows).map(inert).to_csv(index=False, lineterminator="\n")

    def path(self, number: int, name: str) -> Path:
        """Return where a part is kept of the files that were read together with this one, the first of them."""
        return self.folder / f"{number:04d}-{name}.parquet"

    def own(self, table: str) -> pd.DataFrame | None:
        """Read the rows that the book had itself before a file took their place."""
        path = self.path(OWN, table)
        return read_part(path).drop(columns="file", errors="ignore") if path.is_file() else None

    def parts(self) -> dict[str, pd.DataFrame]:
        """Read what is kept of all files that count: by name of the part, with the number of each row's file, in the order of the files."""
        counts = [entry.number for entry in self.counting()]
        found: dict[str, list[pd.DataFrame]] = {}
        for path in sorted(self.folder.glob("*.parquet")):
            first, _, name = path.stem.partition("-")
            if int(first) != OWN and name != "identities":
                frame = read_part(path)
                found.setdefault(name, []).append(frame[frame["file"].isin(counts)])
        return {name: pd.concat(frames, ignore_index=True) for name, frames in found.items() if any(len(frame) for frame in frames)}

    def known(self, format: str) -> list[tuple[int, Path, pd.Timestamp, pd.Timestamp]]:
        """Return the files of a format whose rows can be recognised: number, identities, first and last instant."""
        kept = {int(path.stem.partition("-")[0]): path for path in self.folder.glob("*-identities.parquet")}
        found = []
        for entry in self.counting():
            first = max((number for number in kept if number <= entry.number), default=None)
            if entry.format == format and entry.period_start and first is not None:
                found.append((entry.number, kept[first], pd.Timestamp(entry.period_start), pd.Timestamp(entry.period_end)))
        return found

    def folded(self, parts: dict[str, pd.DataFrame]) -> tuple[dict[str, pd.DataFrame], list[str]]:
        """Return the tables that follow from parts of the files that count, without what newer bills replace."""
        gone = pd.MultiIndex.from_tuples([pair for entry in self.counting() for pair in entry.replaces] or [(OWN, "")])
        valid = {
            name: frame[~pd.MultiIndex.from_frame(frame[["file", "scope"]]).isin(gone)] if "scope" in frame else frame
            for name, frame in parts.items()
        }
        return fold(valid)

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

    @property
    def next_number(self) -> int:
        """Number of the file that comes next."""
        return max((entry.number for entry in self.entries), default=OWN) + 1

    def enter(self, held: FileTotals, file: Path, format: str, options: str, sha256: str, replaces: Replaced = ()) -> Entry:
        """Add a file that was read; it gets the next number."""
        first, last = ("", "") if held.period is None else (str(moment) for moment in held.period)
        what = (self.next_number, format, file.name, sha256, options, held.rows, first, last, held.totals)
        entry = Entry(*what, replaces=replaces, leaves_out=held.leaves_out)
        self.entries.append(entry)
        return entry


def read_part(path: Path) -> pd.DataFrame:
    """Read a part of a file."""
    import duckdb

    with duckdb.connect() as connection:
        frame: pd.DataFrame = connection.execute("from read_parquet(?)", [str(path)]).df()
    return frame.astype(dict.fromkeys(frame.select_dtypes("datetime").columns, "datetime64[ns]"))


#: How DuckDB words the refusals of a file system.
_REFUSALS = {
    "no space left": errno.ENOSPC,
    "quota": errno.EDQUOT,
    "permission denied": errno.EACCES,
    "read-only": errno.EROFS,
    "is a directory": errno.EISDIR,
    "file too large": errno.EFBIG,
}


@contextmanager
def written_by_duckdb(path: Path) -> Iterator[None]:
    """Raise what a file system refuses DuckDB as Python would."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        code = next((code for words, code in _REFUSALS.items() if words in str(error).lower()), errno.EIO)
        raise OSError(code, os.strerror(code), str(path)) from error


def write_part(frame: pd.DataFrame, path: Path) -> None:
    """Write a part of a file."""
    import duckdb

    with written_by_duckdb(path), duckdb.connect() as connection:
        connection.register("part", frame)
        connection.execute(f"copy part to '{path.as_posix().replace(chr(39), chr(39) * 2)}' (format parquet, compression zstd)")
