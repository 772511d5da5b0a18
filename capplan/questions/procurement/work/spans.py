"""Stretches of time in which the same machines are there: parts of the planned quarters, and the years after them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.questions.procurement.work.timeline import Timeline
from capplan.units import quarter_end

#: Quarters in a year after the horizon.
YEAR = 4


@dataclass(frozen=True)
class Spans:
    """Planned quarters, cut where a contract, block, machine or late delivery starts or ends; then years of mean capacity."""

    quarter: np.ndarray  #: (k,): Quarter of each span; the first one of a year.
    #: begin, end (k,): First instant, and first instant after it, in nanoseconds.
    begin: np.ndarray
    end: np.ndarray
    share: np.ndarray  #: (k,): Share of its quarter that each planned span lasts; 1 for years.
    first: np.ndarray  #: (planned,): Span with which each planned quarter begins.
    planned: int  #: Planned spans; years follow.
    #: edges, hours ((years, 5), (years, 4)): First instants of each year's quarters and the one after them, and hours of each.
    edges: np.ndarray
    hours: np.ndarray

    def covered(self, start: pd.Series, end: pd.Series) -> np.ndarray:
        """Share of each span that lies between two instants, (rows, k): 0 or 1 in planned ones that were cut there."""
        first, last = (each.to_numpy("datetime64[ns]").astype(np.int64)[:, None] for each in (start, end))
        within = _overlap(first, last, self.begin[: self.planned], self.end[: self.planned])
        years = [
            _overlap(first, last, edges[:-1], edges[1:]) @ (hours / hours.sum())
            for edges, hours in zip(self.edges, self.hours, strict=True)
        ]
        return np.column_stack([within, *years])

    @property
    def starts(self) -> pd.DatetimeIndex:
        """First instant of each span."""
        return pd.DatetimeIndex(self.begin.astype("datetime64[ns]"))


def lay_out_spans(timeline: Timeline, cuts: list[pd.Series], years: int) -> Spans:
    """Cut the planned quarters at some instants, and add years after them.

    Args:
        cuts: Instants at which what is there may change.
    """
    planned = timeline.planned
    edges = _nanoseconds(timeline)
    inner = np.unique(
        np.concatenate([np.zeros(0, dtype=np.int64), *(cut.dropna().to_numpy("datetime64[ns]").astype(np.int64) for cut in cuts)])
    )
    inner = inner[(inner > edges[0]) & (inner < edges[planned])]
    begin = np.unique(np.append(edges[:planned], inner))
    end = np.append(begin[1:], edges[planned])
    quarter = np.searchsorted(edges[: planned + 1], begin, side="right") - 1
    share = (end - begin) / (edges[quarter + 1] - edges[quarter])
    later = np.arange(planned, planned + YEAR * years, YEAR)
    return Spans(
        np.concatenate([quarter, later]),
        np.concatenate([begin, edges[later]]),
        np.concatenate([end, edges[later + YEAR]]),
        np.concatenate([share, np.ones(years)]),
        np.searchsorted(begin, edges[:planned]),
        len(begin),
        edges[later[:, None] + np.arange(YEAR + 1)],
        timeline.hours[later[:, None] + np.arange(YEAR)],
    )


def _overlap(first: np.ndarray, last: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Share of each stretch that lies between two instants, (rows, stretches)."""
    return np.clip(np.minimum(last, end) - np.maximum(first, begin), 0, None) / (end - begin)


def _nanoseconds(timeline: Timeline) -> np.ndarray:
    """First instant of each quarter, and the first one after them, (Q + 1,)."""
    starts = timeline.starts.to_numpy("datetime64[ns]").astype(np.int64)
    return np.append(starts, np.datetime64(quarter_end(timeline.quarters[-1]), "ns").astype(np.int64))
