"""One series on a regular grid: its interval, its gaps, when it was at work, and what a ceiling hid."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.questions.demand.activity import Activity, find_activity
from capplan.questions.demand.censoring import infer_plateau, slots_of

Array = np.ndarray
HOUR = pd.Timedelta(hours=1)
DAY = pd.Timedelta(days=1)
#: A missing share above this means that the table leaves out intervals without work.
SPARSE_SHARE = 0.5


@dataclass(frozen=True)
class Grid:
    """Demand of one series on its own regular grid, from the first to the last day that it was at work, before levels are formed."""

    #: workload, region: Which series.
    workload: str
    region: str
    #: start, step, values: First interval, length of an interval (None = months), and demand by interval; NaN where unknown.
    start: pd.Timestamp
    step: pd.Timedelta | None
    values: Array
    #: unmet, inferred: Sums of demand that capacity hid, and the part of it that is inferred from a ceiling.
    unmet: float
    inferred: float
    total: float  #: All demand of the table, strays included.
    longest_silence_days: float  #: Silent for longer after its last interval, it has ended.

    @property
    def name(self) -> str:
        """The series in words."""
        return f"{self.workload} ({self.region})" if self.region != "any" else self.workload

    @property
    def end(self) -> pd.Timestamp:
        """First instant after the last interval."""
        if self.step is None:
            return self.start + pd.offsets.MonthBegin(len(self.values))
        return self.start + self.step * len(self.values)

    @property
    def known_end(self) -> pd.Timestamp:
        """End of the last day that is known to its end."""
        if self.step is None or self.step >= DAY:
            return self.end
        last = round((self.end - self.end.floor("D")) / self.step) or round(DAY / self.step)
        whole = self.end == self.end.floor("D") and np.isfinite(self.values[-last:]).all()
        return self.end if whole else (self.end - self.step).floor("D")


def make_grid(workload: str, region: str, part: pd.DataFrame, unmet_share: float, notes: list[str]) -> Grid:
    """Put one series on a regular grid; missing intervals are NaN, and so are pauses.

    Args:
        part: time, demand, unmet, queue_known, refused_known; sorted by time.
        unmet_share: Share of what a ceiling hid that counts.
        notes: Repairs are appended here, in words.
    """
    name = f"{workload} ({region})" if region != "any" else workload
    unmet, asked = float(part["unmet"].sum()), float(part["demand"].sum())
    # Less than a thousandth of a percent is rounding of the queue's own figures.
    if unmet > 1e-5 * asked:
        notes.append(f"{name}: capacity hid {_count(unmet)} of {_count(asked)} demanded units; a queue counts once, when it grows.")
    step = _steps(part["time"])
    if len(part) == 1:
        notes.append(f"{name}: a single row does not tell the length of its interval; it is taken as the work of a day.")
    gaps = part["time"].diff().dropna()
    if step is not None and not gaps.empty and (gaps < step).any():
        notes.append(f"{name}: intervals of different length were summed to {_words(step)}.")
    start, values = _regular(part, step)
    activity = find_activity(_by_day(start, step, values))
    if activity is None:
        return Grid(workload, region, start, step, np.nan_to_num(values), unmet, 0.0, asked, float("inf"))
    start, values = _at_work(name, start, step, values, activity, notes)
    inferred = 0.0
    if not part["queue_known"].any() and not part["refused_known"].any():
        values, inferred = _uncapped(name, values, start, step, unmet_share, notes)
    return Grid(workload, region, start, step, values, unmet + inferred, inferred, asked + inferred, activity.longest_silence_days)


def _regular(part: pd.DataFrame, step: pd.Timedelta | None) -> tuple[pd.Timestamp, Array]:
    """Return the first interval and demand by interval, NaN where there is no row."""
    if step is None:
        index = (part["time"].dt.year * 12 + part["time"].dt.month).to_numpy()
        start = part["time"].iloc[0].to_period("M").to_timestamp()
    else:
        start = part["time"].iloc[0].floor(step) if step <= DAY and DAY % step == pd.Timedelta(0) else part["time"].iloc[0]
        index = ((part["time"] - start) // step).to_numpy()
    index = index - index[0]
    values = np.bincount(index, weights=part["demand"])
    return start, np.where(np.bincount(index) > 0, values, np.nan)


def _by_day(start: pd.Timestamp, step: pd.Timedelta | None, values: Array) -> Array:
    """Return work by day, an interval that is longer spread evenly over its days."""
    work = np.nan_to_num(values)
    if step is None:
        days = pd.date_range(start, periods=len(values), freq="MS").days_in_month.to_numpy()
        return np.repeat(work / days, days)
    if step >= DAY:
        width = max(1, round(step / DAY))
        return np.repeat(work / width, width)
    day = ((start - start.floor("D")) + np.arange(len(values)) * step) // DAY
    return np.bincount(np.asarray(day, dtype=int), work)


def _at_work(
    name: str, start: pd.Timestamp, step: pd.Timedelta | None, values: Array, activity: Activity, notes: list[str]
) -> tuple[pd.Timestamp, Array]:
    """Cut a series to its activity, decide what missing intervals mean, and say so."""
    day = start.floor("D")
    if step is None:
        ends = np.cumsum(pd.date_range(start, periods=len(values), freq="MS").days_in_month.to_numpy())
        first, last = (int(np.searchsorted(ends, edge, side="right")) for edge in (activity.first, activity.last))
        begin = start + pd.offsets.MonthBegin(first) if first else start
    elif step >= DAY:
        width = max(1, round(step / DAY))
        first, last = activity.first // width, activity.last // width
        begin = start + first * step
    else:
        lead = round((start - day) / step)
        per_day = round(DAY / step)
        first, last = activity.first * per_day - lead, (activity.last + 1) * per_day - lead - 1
        begin = start + first * step
    values = np.concatenate([np.full(max(0, -first), np.nan), values[max(0, first) : last + 1]])
    values = np.concatenate([values, np.full(last - first + 1 - len(values), np.nan)])
    if step is not None and step < DAY:
        _edges(values, round(DAY / step))
    paused = np.zeros(len(values), bool)
    for low, high in activity.pauses if step is not None else ():
        cells = [int((day + edge * DAY - begin) / step) for edge in (low, high + 1)]
        paused[max(0, cells[0]) : cells[1]] = True
        notes.append(
            f"{name}: no work from {(day + low * DAY).date()} to {(day + high * DAY).date()}; the pause is not counted as demand of zero."
        )
    if activity.strays:
        notes.append(
            f"{name}: {activity.strays} day{'s' if activity.strays > 1 else ''} with a little work far from all other use (the workload was"
            f" at work from {(day + activity.first * DAY).date()} to {(day + activity.last * DAY).date()}); left out as stray."
        )
    missing = ~np.isfinite(values) & ~paused
    work = np.flatnonzero(np.nan_to_num(values) > 0)
    missing[: work[0]] = missing[work[-1] + 1 :] = False
    count, size = int(missing.sum()), int((~paused).sum())
    if count > SPARSE_SHARE * size:
        notes.append(f"{name}: {count} of {size} intervals have no row; in a table this sparse they count as intervals without work.")
        values = np.where(missing, 0.0, values)
    elif count:
        notes.append(f"{name}: {count} of {size} intervals are missing and were filled from the level around them.")
    return begin, np.where(paused, np.nan, values)


def _edges(values: Array, per_day: int) -> None:
    """Let silent intervals at the ends of the first and last day be unknown where other days usually work then, else zero."""
    positive = np.flatnonzero(np.nan_to_num(values) > 0)
    days = len(values) // per_day
    usual = (
        (np.nan_to_num(values[: days * per_day]).reshape(days, per_day)[1 : days - 1] > 0).mean(axis=0) > 0.5
        if days > 2
        else np.ones(per_day, bool)
    )
    outside = np.r_[0 : positive[0], positive[-1] + 1 : len(values)]
    values[outside] = np.where(usual[outside % per_day], np.nan, 0.0)


def _count(value: float) -> str:
    """Write a quantity for people: three significant digits, thousands apart, no powers of ten.

    Examples:
        >>> _count(995216.4), _count(0.01234), _count(12.0)
        ('995,000', '0.0123', '12')
    """
    digits = 2 - int(np.floor(np.log10(abs(value)))) if value else 0
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _steps(times: pd.Series) -> pd.Timedelta | None:
    """Find the interval of a series: the coarsest one that makes up a tenth of all; None for calendar months."""
    gaps = times.diff().dropna()
    if gaps.empty:
        return DAY
    if gaps.min() >= pd.Timedelta(days=28):
        return None
    counts = gaps.value_counts(normalize=True)
    return pd.Timedelta(counts[counts >= 0.1].index.max() if (counts >= 0.1).any() else counts.index[0])


def _uncapped(
    name: str, values: Array, start: pd.Timestamp, step: pd.Timedelta | None, unmet_share: float, notes: list[str]
) -> tuple[Array, float]:
    """Add what a ceiling hid, where usage stands at one and nobody measured a queue."""
    plateau = infer_plateau(values, *slots_of(start, step, len(values)))
    if plateau is None:
        return values, 0.0
    hidden = unmet_share * np.where(plateau.capped, plateau.demand - values, 0.0)
    inferred = float(hidden.sum())
    notes.append(
        f"{name}: usage stands at its maximum of {_count(plateau.ceiling)} in {int(plateau.capped.sum())} of {len(values)} intervals, as if"
        " capped by capacity, and no queue was measured; the demand above it is inferred, not measured, from the intervals that were not"
        f" capped: {_count(inferred)} units, {inferred / float(np.nansum(values + hidden)):.1%} of demand (unmet_share takes it back)."
    )
    return values + hidden, inferred


def _words(step: pd.Timedelta) -> str:
    hours = step / HOUR
    return f"{hours:g} h" if hours >= 1 else f"{hours * 60:g} min"
