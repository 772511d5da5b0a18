"""What was read unusually, or passed over: no fault, but said, since a reader might have meant something else."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from capplan.book.tables.registry import TABLES, columns_of
from capplan.errors import shortened
from capplan.text import counted

#: Endings of files that hold data which no book reads.
UNREAD = frozenset(("txt", "tsv", "tab", "xls", "xlsx", "ods", "parquet", "gz", "zip", "json", "jsonl", "yaml", "yml", "bak", "csv~"))
#: Years no contract of computers lasts, and the years of dates that a plan may meet.
LONG_YEARS, EARLIEST, LATEST = 25, 1990, 2100
#: Rows that are named of each table.
SHOWN = 3


def unread_files(folder: Path) -> list[str]:
    """Say which files beside the tables hold data, by their endings, and were not read."""
    others = [
        path.name for path in sorted(folder.iterdir()) if path.name != "book.yaml" and path.name.casefold().rpartition(".")[2] in UNREAD
    ]
    stems = {name: name.partition(".")[0].casefold() for name in others}
    notes = [
        f"{shortened(name)} was not read, though {stem} is a table: save it as {stem}.csv, comma-separated, or move it away."
        for name, stem in stems.items()
        if stem in TABLES
    ]
    rest = [shortened(name) for name, stem in stems.items() if stem not in TABLES]
    if rest:
        shown = ", ".join(rest[:SHOWN]) + (f" and {len(rest) - SHOWN:,} more" if len(rest) > SHOWN else "")
        notes.append(f"{counted(len(rest), 'file')} in the book's folder {'was' if len(rest) == 1 else 'were'} not read: {shown}.")
    return notes


def other_forms(place: str, cells: pd.Series) -> list[str]:
    """Say that names were written in another Unicode form than the one they are read in, where some were."""
    if cells.empty:
        return []
    return [
        f"{place}: {counted(len(cells), 'cell')}, such as {shortened(cells.iloc[0])!r}, hold letters in another Unicode form; they are read"
        " as the same names as in the usual one."
    ]


def odd_days(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say which rows last longer than any contract does, or lie outside the years that a plan may meet.

    Args:
        tables: The book's own, the index of each the line in its file.
    """
    notes = []
    for name, frame in tables.items():
        days = [column.name for column in columns_of(name) if column.kind == "datetime64[ns]"]
        long = pd.Series(False, index=frame.index)
        if {"start", "end"} <= set(days):
            years = (frame["end"].dt.year - frame["start"].dt.year).fillna(0)
            long = years > LONG_YEARS
            notes += [
                f"{name}.csv, row {row}: it lasts {years[row]:,.0f} years, from {frame.at[row, 'start']:%Y-%m-%d} to"
                f" {frame.at[row, 'end']:%Y-%m-%d}. It is planned as it stands; mend the day if it is a slip."
                for row in frame.index[long][:SHOWN]
            ]
        for column in days:
            far = frame[column].notna() & ~frame[column].dt.year.between(EARLIEST, LATEST) & ~long
            notes += [
                f"{name}.csv, row {row}, column {column}: {frame.at[row, column]:%Y-%m-%d} lies outside {EARLIEST} to {LATEST}. It is"
                " taken as it stands; mend the day if it is a slip."
                for row in frame.index[far][:SHOWN]
            ]
    return notes
