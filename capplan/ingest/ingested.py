"""What reading a foreign file gives, and small steps that several formats share."""

import datetime as dt
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from capplan.book.tables.registry import columns_of
from capplan.ingest.opening import Sheet
from capplan.ingest.reading_options import ReadingOptions
from capplan.text import in_number

Stage = Literal["data_preparation", "pretraining", "alignment", "deployment", "serving", "tuning", "evaluation"]


#: Tables in which the book's own row stays when a file brings one with the same key; others take the new row.
KEPT = ("sources", "accelerators", "skus", "workloads", "models")


class WorkOptions(ReadingOptions):
    """Options of formats that give usage."""

    workload: str | None = Field(
        None, description="Name of the workload; empty = the file's own column, else the file's name.", min_length=1
    )
    region: str = Field("any", description="Region of the work where the file states none.", min_length=1)
    shift_days: int = Field(0, description="Days added to all times, to place an old trace in the book's time.", ge=-36500, le=36500)
    accelerator: str | None = Field(None, description="Accelerator that the work runs on; writes speeds.", min_length=1)
    work_per_accelerator_hour: float = Field(
        1.0, description="Work one accelerator does in an hour, in the workload's unit; 1 for accelerator hours.", gt=0
    )


class DatedOptions(ReadingOptions):
    """Options of formats whose rows hold on a day."""

    as_of: dt.date | None = Field(None, description="Day the figures held; empty = the date in the file's name.")


@dataclass(frozen=True)
class FileTotals:
    """What one of the files that were read together holds."""

    #: rows, period, totals: Rows, first and last instant (missing where it has no times), and what came out, in one sentence.
    rows: int
    period: tuple[pd.Timestamp, pd.Timestamp] | None
    totals: str
    leaves_out: tuple[int, ...] = ()  #: Numbers of earlier files in the book that have rows of this file, which count there.


@dataclass(frozen=True)
class Ingested:
    """Tables read from a foreign file or from several of one layout, not yet in any book.

    Args:
        tables: Frame by name of the table, with that table's columns.
        notes: What was assumed, left out or repaired.
        headline: What came out, in one sentence.
        parts: What a book keeps of the files, so that they can be joined with others, replaced and taken back; where several files were
            read, the column `file` is the place of a row's file among them.
        rows: Rows of the files.
        period: First and last instant that the files cover; missing where they have no times.
        accounts: Rows, dollars and accelerator-hours by bucket, for bills.
        each: What each file holds; empty where one file was read of which rows, period and headline say it.
    """

    tables: dict[str, pd.DataFrame] = field(repr=False)
    notes: tuple[str, ...]
    headline: str
    parts: dict[str, pd.DataFrame] = field(repr=False, default_factory=dict)
    rows: int = 0
    period: tuple[pd.Timestamp, pd.Timestamp] | None = None
    accounts: pd.DataFrame | None = field(repr=False, default=None)
    each: tuple[FileTotals, ...] = ()

    def __post_init__(self) -> None:
        """Say what there is one of as one."""
        object.__setattr__(self, "headline", in_number(self.headline))
        object.__setattr__(self, "notes", tuple(map(in_number, self.notes)))

    @property
    def files(self) -> tuple[FileTotals, ...]:
        """What each file holds, in the order in which they were read."""
        return self.each or (FileTotals(self.rows, self.period, self.headline),)


_NUMBER_OF_PART = re.compile(r"(part|chunk|shard|split|slice|piece|export)(?:[-_. ]?\d+)+", re.IGNORECASE)
_DAY_OR_COUNT = re.compile(
    r"(?:^|(?<=[^0-9a-z]))(?:20\d{2}[-_.]?\d{2}(?:[-_.]?\d{2}(?:[-_.t]?\d{2}(?:[-_.:]?\d{2}){0,2}z?)?)?|\d{5,}|0\d{3,})(?=[^0-9a-z]|$)"
)


def work_of(file: Path) -> str:
    """Turn a file's name into the name of the work in it, which its parts and the exports of other days share.

    Examples:
        >>> work_of(Path("gateway-2026-09-01.csv")), work_of(Path("part_0003.csv.gz")), work_of(Path("trace_2023_code.csv"))
        ('gateway', 'part', 'trace_2023_code')
    """
    stem = stem_of(file)
    return re.sub(r"[-_.]{2,}", "-", _DAY_OR_COUNT.sub("", _NUMBER_OF_PART.sub(r"\1", stem))).strip("-_.") or stem


def stem_of(file: Path) -> str:
    """Turn a file's name into the name of a workload or source.

    Examples:
        >>> stem_of(Path("2026-01-21 Request Log.csv.gz"))
        '2026-01-21-request-log'
    """
    return re.sub(r"[^a-z0-9_.-]+", "-", re.split(r"\.(?:csv|parquet|jsonl?|ndjson)", file.name)[0].lower()).strip("-") or "file"


def day_of(sheet: Sheet, given: dt.date | None) -> pd.Timestamp:
    """Return the day on which a file's figures held: the one given, or the one in the file's name."""
    if given is not None:
        return pd.Timestamp(given)
    found = re.search(r"(20\d{2})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])", sheet.file.name)
    if found is None:
        sheet.refuse("neither the file nor its name says on which day the figures held", "Give it: as_of=2026-11-27.")
        raise AssertionError
    return pd.Timestamp("-".join(found.groups()))


def shaped(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Put a frame into the table's columns, in order and type; columns that the frame lacks take their default or are left out."""
    found = {}
    for column in columns_of(table):
        if column.name in frame:
            series = frame[column.name]
        elif column.default is not None:
            series = pd.Series([column.default] * len(frame), index=frame.index)
        else:
            continue
        found[column.name] = series.astype(object) if column.kind == "str" else series.astype(column.kind)
    return pd.DataFrame(found).reset_index(drop=True)


def workload_rows(work: pd.DataFrame, unit: str, stage: str, *, deferrable: bool = False, by_team: bool = False) -> pd.DataFrame:
    """Return the rows of the workloads table that usage needs, for each file; what a book already says about a workload stays.

    Args:
        work: With the column workload, and `file` where there are several.
    """
    names = work[[name for name in ("file", "workload") if name in work]].drop_duplicates().sort_values("workload", kind="stable")
    rows = names.assign(stage=stage, unit=unit, deferrable=deferrable).reset_index(drop=True)
    found = shaped(rows.assign(team=rows["workload"]) if by_team else rows, "workloads")
    return found.assign(file=rows["file"]) if "file" in rows else found
