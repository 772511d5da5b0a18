"""Hold tables that did not come from a book's files against the same rules as those that did."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.book.reader import check_rows
from capplan.book.rules import check_work
from capplan.book.tables.registry import columns_of
from capplan.errors import BookError, Fault


def check_frames(frames: Mapping[str, pd.DataFrame | None]) -> None:
    """Refuse tables with values that their columns do not allow, with keys that occur twice, or with shares above 1.

    Columns that a table lacks, or does not know, are left to whoever needs them; references are not followed.

    Args:
        frames: Tables by name; None where there is none.

    Raises:
        BookError: Naming every table, row (from 1), column, value and what is allowed.
    """
    faults: list[Fault] = []
    for table, frame in frames.items():
        if frame is None or frame.empty:
            continue
        lines = np.arange(1, len(frame) + 1)
        # An optional column of empty cells is as good as none; nothing says of what type it would be.
        used = [item.name for item in columns_of(table) if item.name in frame and not (item.optional and frame[item.name].isna().all())]
        known = pd.DataFrame({name: frame[name].to_numpy() for name in used})
        faults += check_rows(known, table, lines)
        if table == "limits" and {"kind", "amount"} <= set(known) and not faults:
            faults += check_work({"limits": known.assign(measure="p_and_l").set_axis(lines)})
        if table in ("price_paths", "generations", "commitments") and not faults:
            faults += check_work({table: known.set_axis(lines)})
    if faults:
        raise BookError([Fault(Path(fault.file).stem, *_rest(fault)) for fault in faults], where="the tables given")


def _rest(fault: Fault) -> tuple[int, str, str, str, str]:
    """Return all of a fault but its file."""
    return fault.row, fault.column, fault.value, fault.rule, fault.remedy
