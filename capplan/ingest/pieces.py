"""Pieces of measured work: what one source says of one interval."""

from collections.abc import Iterable

import pandas as pd

from capplan.errors import CapplanError

#: Columns of a piece: work of an interval that starts at `time` and is `seconds` long; corrections are negative. `family` is the kind of
#: source, `scope` what is replaced when it is stated again.
PIECE = ("time", "seconds", "workload", "region", "quantity", "queued_quantity", "refused_quantity", "family", "scope")
AMOUNTS = ("quantity", "queued_quantity", "refused_quantity")
#: Intervals that a file, or a book's files together, may fill.
MOST_INTERVALS = 5_000_000


def pieces(frame: pd.DataFrame, family: str) -> pd.DataFrame:
    """Return work in the columns of PIECE, and the place of its file; what the frame lacks is missing."""
    columns = [*PIECE, *(["file"] if "file" in frame else [])]
    return frame.assign(family=family).reindex(columns=columns).astype(dict.fromkeys(("seconds", *AMOUNTS), "float64"))


def bounded(series: Iterable[tuple[pd.Timestamp, pd.Timestamp, float]]) -> None:
    """Refuse to fill more intervals than a plan can use.

    Args:
        series: First and last instant and step in seconds of every series.

    Raises:
        CapplanError: With the span that asks for too many.
    """
    counts = [((last - first).total_seconds() / step + 1, first, last, step) for first, last, step in series]
    total = sum(count for count, *_ in counts)
    if total > MOST_INTERVALS:
        _, first, last, step = max(counts)
        raise CapplanError(
            f"the times reach from {first} to {last}: filled every {step / 60:g} minutes, the series would have {total:,.0f} intervals, and"
            f" {MOST_INTERVALS:,} are the most. Correct the first or last time, or give longer intervals (interval_minutes=60 or 1440)."
        )
