"""A plan that somebody proposes, as a file: purchases or a placement, from a person, a spreadsheet or a model."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from capplan.book.reader import read_columns
from capplan.book.tables.registry import Column
from capplan.errors import BookError, Fault
from capplan.records import records

#: What faults of such files are said to be in.
WHERE = "the proposed plan"
PURCHASES, PLACEMENT = "purchases", "placement"
#: Lines of a file at most: more than any book has offers and quarters, or tasks.
MOST_LINES = 20_000


def _column(name: str, kind: str, meaning: str, *, optional: bool = True, instant: bool = False, rule: str = "") -> Column:
    return Column(name, kind, meaning, "", optional, None, None, False, instant, (rule,) if rule else ())


#: Columns of proposed purchases, as a report's purchases.csv and decisions.csv write them: what is stated besides the least is held
#: against the offer.
PURCHASE_COLUMNS = (
    _column("offer_id", "str", "the offer, or `renew CONTRACT`, `leave CONTRACT` and so on", optional=False),
    _column("quarter", "str", "the quarter in which it begins, like 2027Q1"),
    _column("starts", "datetime64[ns]", "the day on which it begins"),
    _column("lots", "float64", "how many lots of the offer"),
    _column("machines", "float64", "how many machines"),
    _column("accelerators", "float64", "how many accelerators"),
    _column("ends", "datetime64[ns]", "the last day of the contract"),
    _column("term", "str", "the term of the offer"),
    _column("sku", "str", "the machine"),
    _column("provider", "str", "who sells it"),
    _column("accelerator", "str", "the kind of accelerator"),
    _column("region", "str", "where it stands"),
    _column("usd_per_hour", "float64", "the price of an hour of a machine"),
)
#: Columns of a proposed placement, as the placement question writes its schedule.
PLACEMENT_COLUMNS = (
    _column("task_id", "str", "the task", optional=False),
    _column("nodes", "str", "the node it runs on; those of a gang with commas between them", optional=False),
    _column("start", "datetime64[ns]", "when it begins", instant=True),
    _column("start_hours", "float64", "when it begins, in hours from the start of the placement"),
)
_COLUMNS = {PURCHASES: PURCHASE_COLUMNS, PLACEMENT: PLACEMENT_COLUMNS}
#: The column by which a file is known for what it is.
_SIGNS = {PURCHASES: "offer_id", PLACEMENT: "task_id"}


class Proposed(NamedTuple):
    """A proposed plan as it was read."""

    kind: str  #: "purchases" or "placement".
    rows: pd.DataFrame  #: file, row (line in it) and the columns of that kind; empty where nothing is stated.
    #: Cells that cannot be read; the rest is still to be held against the book, so that all that is wrong is said at once.
    faults: tuple[Fault, ...]


def read_proposed(files: Sequence[Path]) -> Proposed:
    """Read the files of a proposed plan; nothing in them is run, looked up or followed.

    Args:
        files: CSV files of one kind: purchases (offer_id, an amount, a start) or a placement (task_id, nodes, a start).

    Raises:
        BookError: What is wrong with whole files and their headers.
    """
    long = [file for file in files if _is_long(file)]
    if long:
        rule, remedy = f"a proposed plan has at most {MOST_LINES:,} lines", "Join the rows of one offer and quarter."
        raise BookError([Fault(file.name, MOST_LINES + 1, "", "", rule, remedy) for file in long], where=WHERE)
    kinds = [_kind_of(file) for file in files]
    kind = next((each for each in kinds if each is not None), PURCHASES)
    frames, faults = [], list[Fault]()
    for file, own in zip(files, kinds, strict=True):
        if own not in (None, kind):
            faults.append(Fault(file.name, 1, _SIGNS[str(own)], "", f"the file before holds {kind}", "Check one kind of plan at a time."))
            continue
        frame, found = read_columns(file, f"a plan of {kind}", _COLUMNS[kind])
        faults += found
        frames.append(frame.reset_index().assign(file=file.name))
    if faults and (len(frames) < len(files) or any(frame.empty for frame in frames)):
        raise BookError(faults, where=WHERE)
    return Proposed(kind, pd.concat(frames, ignore_index=True), tuple(faults))


def rows_of(proposed: pd.DataFrame, unread: Sequence[Fault]) -> list[dict[str, Any]]:
    """Return proposed rows whose cells could all be read, None where a cell is empty."""
    passed = {(fault.file, fault.row) for fault in unread}
    rows = [{str(name): None if pd.isna(value) else value for name, value in row.items()} for row in records(proposed)]
    return [row for row in rows if (row["file"], row["row"]) not in passed]


def fault_in(row: dict[str, Any], column: str, value: object, rule: str, remedy: str) -> Fault:
    """Return what is wrong with a cell of a proposed row."""
    return Fault(str(row["file"]), int(row["row"]), column, "" if value is None else str(value), rule, remedy)


def _is_long(file: Path) -> bool:
    """Tell whether a file has more lines than a plan can have, without reading all of it."""
    try:
        with file.open("rb") as lines:
            return sum(1 for _ in itertools.islice(lines, MOST_LINES + 1)) > MOST_LINES
    except OSError:
        return False


def _kind_of(file: Path) -> str | None:
    """Tell by its header what a file holds; None where it says neither, or cannot be read."""
    try:
        with file.open(encoding="utf-8-sig", errors="replace") as lines:
            header = {name.strip().strip('"') for name in lines.readline(100_000).split(",")}
    except OSError:
        return None
    return next((kind for kind, sign in _SIGNS.items() if sign in header), None)
