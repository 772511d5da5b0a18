"""What was really asked for: from raw usage rows to one regular, repaired demand history a series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.censoring import infer_plateau, slots_of

Array = np.ndarray
HOUR = pd.Timedelta(hours=1)
DAY = pd.Timedelta(days=1)
#: A level needs eight whole weeks before it is modelled by week; below that it is modelled by day.
WEEKS_FOR_WEEKLY_LEVEL = 8
#: A series that stops this long before the others is taken as ended.
ENDED_DAYS = 28
#: Usage older than this against the plan's day is worth a note.
OLD_DAYS = 45
#: A missing share above this means that the table leaves out intervals without work.
SPARSE_SHARE = 0.5
#: A period counts as observed when at least this share of it was.
OBSERVED_SHARE = 0.5


@dataclass(frozen=True)
class History:
    """One series on a regular grid.

    Parameters
    ----------
    workload, region
        Which series.
    cadence
        "day", "week" or "month": the period its level is modelled in.
    level
        Demand per day in each period, oldest first, without gaps.
    times
        Start of each period.
    end
        First instant after the last period; all series of one cadence share it.
    hourly
        Demand of every hour of the whole periods (periods x hours), or None where intervals are longer than a day's part.
    weekday_factor
        Seven factors (Monday first, mean 1) taken out of a daily level; ones for other cadences.
    step_hours
        Length of the measured interval.
    demand, unmet, inferred
        Sums over the history: demand, the part of it that capacity hid, and the part of that which is inferred from a ceiling instead of measured.
    peak_per_hour
        Highest hourly demand seen.
    kind
        "regular", "intermittent", "zero" or "short".
    """

    workload: str
    region: str
    cadence: str
    level: Array
    times: pd.DatetimeIndex
    end: pd.Timestamp
    hourly: Array | None
    weekday_factor: Array
    step_hours: float
    demand: float
    unmet: float
    inferred: float
    peak_per_hour: float
    kind: str


@dataclass(frozen=True)
class Grid:
    """Demand of one series on its own regular grid, before levels are formed."""

    workload: str
    region: str
    start: pd.Timestamp
    step: pd.Timedelta | None
    values: Array
    unmet: float
    inferred: float

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


def read_histories(usage: pd.DataFrame, a: DemandAssumptions) -> tuple[list[History], list[str]]:
    r"""Turn usage rows into regular demand histories, and say what was repaired.

    Demand is served work plus what capacity hid. A queue is a stock: work that waits through ten intervals is
    one piece of work, so only the growth of the queue counts, and its decline is taken off the work served later:

    .. math:: d_t = \max\big(0,\; u_t + s\,(q_t - q_{t-1} + r_t)\big)

    with u the quantity, q the queued and r the refused quantity, and s = ``a.unmet_share``.

    Parameters
    ----------
    usage
        The usage table: time, workload, region, quantity, and where known queued_quantity and refused_quantity.
    a
        Assumptions; as_of and unmet_share are used.

    Returns
    -------
    histories
        One a workload and region, in alphabetical order.
    notes
        Every repair, in words.

    Source
    ------
    The balance of a queue (arrivals = departures + growth of the queue).
    """
    notes: list[str] = []
    rows = demand_rows(usage, a, notes)
    grids = [_grid(str(name[0]), str(name[1]), part, a.unmet_share, notes) for name, part in rows.groupby(["workload", "region"], sort=True)]
    fine = [grid.end for grid in grids if grid.step is not None and grid.step < DAY]
    daily = [grid.end for grid in grids if grid.step is not None]
    common_end = max(fine or daily or [pd.Timestamp(a.as_of)]).floor("D")
    months_end = max((grid.end for grid in grids if grid.step is None), default=common_end)
    age = (pd.Timestamp(a.as_of) - max((grid.end for grid in grids), default=pd.Timestamp(a.as_of))) / DAY
    if age > OLD_DAYS:
        notes.append(f"The newest usage is {age:.0f} days older than the plan ({a.as_of}); what happened since is forecast, not known.")
    return [_monthly(grid, months_end, notes) if grid.step is None else _history(grid, common_end, notes) for grid in grids], notes


def demand_rows(usage: pd.DataFrame, a: DemandAssumptions, notes: list[str]) -> pd.DataFrame:
    """Sort usage rows, drop what cannot be used and add the demand that capacity hid.

    Parameters
    ----------
    usage
        The usage table.
    a
        Assumptions; as_of and unmet_share are used.
    notes
        Repairs are appended here, in words.

    Returns
    -------
    pandas.DataFrame
        workload, region, time, quantity, demand, unmet (demand minus quantity), queue_known, refused_known; sorted by the first three.
    """
    rows = usage[["time", "workload"]].copy()
    rows["region"] = usage["region"].fillna("any") if "region" in usage else "any"
    times = pd.to_datetime(rows["time"], utc=True) if getattr(rows["time"].dtype, "tz", None) is not None else rows["time"]
    rows["time"] = times.dt.tz_localize(None) if getattr(times.dtype, "tz", None) is not None else times
    for name in ("quantity", "queued_quantity", "refused_quantity"):
        rows[name] = usage[name].to_numpy(dtype=float, na_value=np.nan) if name in usage else np.nan
    rows["queue_known"] = rows["queued_quantity"].notna()
    rows["refused_known"] = rows["refused_quantity"].notna()
    future = rows["time"] >= pd.Timestamp(a.as_of) + DAY
    if future.any():
        notes.append(f"{int(future.sum())} usage rows lie after {a.as_of} and were left out: a forecast must not know its future.")
        rows = rows[~future]
    bad = ~np.isfinite(rows["quantity"])
    if bad.any():
        notes.append(f"{int(bad.sum())} usage rows have no finite quantity and were treated as gaps.")
        rows = rows[~bad]
    negative = rows["quantity"] < 0
    if negative.any():
        names = ", ".join(sorted(rows.loc[negative, "workload"].unique()))
        notes.append(f"{int(negative.sum())} negative quantities ({names}) were set to zero: work cannot be negative; credits belong in the bill.")
        rows["quantity"] = rows["quantity"].clip(lower=0.0)
    key = ["workload", "region", "time"]
    rows = rows.sort_values([*key, "quantity", "queued_quantity", "refused_quantity"], kind="stable").reset_index(drop=True)
    duplicate = rows.duplicated(key, keep="last")
    if duplicate.any():
        names = ", ".join(sorted(rows.loc[duplicate, "workload"].unique()))
        notes.append(f"{int(duplicate.sum())} rows repeat a time of the same workload and region ({names}); the largest quantity was kept.")
        rows = rows[~duplicate]
    growth = rows["queued_quantity"].fillna(0.0) - rows.groupby(["workload", "region"])["queued_quantity"].shift(fill_value=0.0).fillna(0.0)
    first = ~rows.duplicated(["workload", "region"])
    hidden = a.unmet_share * (growth.where(~first, 0.0) + rows["refused_quantity"].fillna(0.0))
    rows["demand"] = (rows["quantity"] + hidden).clip(lower=0.0)
    rows["unmet"] = rows["demand"] - rows["quantity"]
    return rows.reset_index(drop=True)


def _count(value: float) -> str:
    """Write a quantity for people: three significant digits, thousands apart, no powers of ten.

    Examples
    --------
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


def _grid(workload: str, region: str, part: pd.DataFrame, unmet_share: float, notes: list[str]) -> Grid:
    """Put one series on a regular grid; missing intervals are NaN."""
    name = f"{workload} ({region})" if region != "any" else workload
    unmet = float(part["unmet"].sum())
    asked = float(part["demand"].sum())
    # Less than a thousandth of a percent is rounding of the queue's own figures.
    if unmet > 1e-5 * asked:
        notes.append(f"{name}: capacity hid {_count(unmet)} of {_count(asked)} demanded units; a queue counts once, when it grows.")
    step = _steps(part["time"])
    if len(part) == 1:
        notes.append(f"{name}: a single row does not tell the length of its interval; it is taken as the work of a day.")
    gaps = part["time"].diff().dropna()
    if step is not None and not gaps.empty and (gaps < step).any():
        notes.append(f"{name}: intervals of different length were summed to {_words(step)}.")
    if step is None:
        index = (part["time"].dt.year * 12 + part["time"].dt.month).to_numpy()
        start = part["time"].iloc[0].to_period("M").to_timestamp()
    else:
        origin = part["time"].iloc[0].floor(step) if step <= DAY and DAY % step == pd.Timedelta(0) else part["time"].iloc[0]
        index = ((part["time"] - origin) // step).to_numpy()
        start = origin
    index = index - index[0]
    size = int(index[-1]) + 1
    values = np.bincount(index, weights=part["demand"], minlength=size)
    seen = np.bincount(index, minlength=size) > 0
    missing = int((~seen).sum())
    if missing > SPARSE_SHARE * size:
        notes.append(f"{name}: {missing} of {size} intervals have no row; in a table this sparse they count as intervals without work.")
    elif missing:
        notes.append(f"{name}: {missing} of {size} intervals are missing and were filled from the level around them.")
        values[~seen] = np.nan
    inferred = 0.0
    if not part["queue_known"].any() and not part["refused_known"].any():
        values, inferred = _uncapped(name, values, start, step, unmet_share, notes)
    return Grid(workload, region, start, step, values, unmet + inferred, inferred)


def _uncapped(name: str, values: Array, start: pd.Timestamp, step: pd.Timedelta | None, unmet_share: float, notes: list[str]) -> tuple[Array, float]:
    """Add what a ceiling hid, where usage stands at one and nobody measured a queue."""
    plateau = infer_plateau(values, *slots_of(start, step, len(values)))
    if plateau is None:
        return values, 0.0
    hidden = unmet_share * np.where(plateau.capped, plateau.demand - values, 0.0)
    inferred = float(hidden.sum())
    notes.append(
        f"{name}: usage stands at its maximum of {_count(plateau.ceiling)} in {int(plateau.capped.sum())} of {len(values)} intervals, as if capped by capacity, and no queue was measured; "
        f"the demand above it is inferred, not measured, from the intervals that were not capped: {_count(inferred)} units, {inferred / float(np.nansum(values + hidden)):.1%} of demand (unmet_share takes it back)."
    )
    return values + hidden, inferred


def _words(step: pd.Timedelta) -> str:
    hours = step / HOUR
    return f"{hours:g} h" if hours >= 1 else f"{hours * 60:g} min"


def _history(grid: Grid, common_end: pd.Timestamp, notes: list[str]) -> History:
    """Form the level of one series and classify it."""
    name, hours = grid.name, (grid.step or DAY) / HOUR
    days, hourly = _days(grid, common_end)
    behind = (common_end - grid.end) / DAY
    if behind > ENDED_DAYS:
        notes.append(_ended(name, behind))
        days, hourly = np.zeros_like(days), None
    weeks = len(days) // 7
    factor = np.ones(7)
    if weeks >= WEEKS_FOR_WEEKLY_LEVEL or hours > 24:
        tail = days[len(days) - 7 * weeks :].reshape(weeks, 7) if weeks else np.empty((0, 7))
        enough = np.isfinite(tail).sum(axis=1) >= 7 * OBSERVED_SHARE
        level = np.where(enough, np.nanmean(np.where(enough[:, None], tail, 0.0), axis=1), np.nan)
        times = pd.date_range(common_end - pd.Timedelta(days=7 * weeks), periods=weeks, freq="7D")
        shape = hourly[len(days) - 7 * weeks :].reshape(weeks, 168) if hourly is not None else None
        cadence = "week"
    else:
        times = pd.date_range(common_end - len(days) * DAY, periods=len(days), freq="D")
        factor = _weekday_factor(days, times)
        level, shape, cadence = days / factor[times.dayofweek], hourly, "day"
        if len(days) >= 14:
            notes.append(f"{name}: {len(days)} days of history; its level is modelled by day, the weekdays' pattern rests on {len(days) // 7} weeks.")
    known = np.flatnonzero(np.isfinite(level))
    if not len(days) or (not known.size and np.nansum(grid.values) > 0):
        # Less than half a day was measured: its rate is all that is known.
        rate = float(np.nanmean(grid.values) / hours * 24)
        level, times, shape, cadence = np.array([rate]), pd.DatetimeIndex([common_end - DAY]), None, "day"
        notes.append(f"{name}: less than a day of usable history; its rate is carried forward as it is.")
    elif known.size:
        level, times = level[known[0] :], times[known[0] :]
        shape = shape[known[0] :] if shape is not None else None
    else:
        level = np.zeros(len(level))
    peak = float(np.nanmax(grid.values) / hours) if np.isfinite(grid.values).any() else 0.0
    total = float(np.nansum(grid.values))
    level = _filled(level)
    return History(grid.workload, grid.region, cadence, level, times, common_end, shape, factor, hours, total, grid.unmet, grid.inferred, peak, _kind(level))


def _ended(name: str, behind: float) -> str:
    return f"{name}: its last row is {behind:.0f} days older than the newest usage; it is taken as ended (no demand). If it lives on, state its level as an event."


def _monthly(grid: Grid, months_end: pd.Timestamp, notes: list[str]) -> History:
    """Form the level of a series measured by month: demand per day of each calendar month."""
    times = pd.date_range(grid.start, periods=len(grid.values), freq="MS")
    level = _filled(grid.values / times.days_in_month.to_numpy())
    behind = (months_end - grid.end) / DAY
    if behind > ENDED_DAYS + 31:
        notes.append(_ended(grid.name, behind))
        level = np.zeros(len(level))
    peak = float(level.max() / 24)
    return History(
        grid.workload, grid.region, "month", level, times, grid.end, None, np.ones(7), 730.0, float(np.nansum(grid.values)), grid.unmet, grid.inferred, peak, _kind(level)
    )


def _days(grid: Grid, common_end: pd.Timestamp) -> tuple[Array, Array | None]:
    """Return demand by day up to the common end, and by hour where the interval divides a day."""
    step = grid.step or DAY
    hours = step / HOUR
    values = grid.values
    if hours <= 1 and (60 / (hours * 60)) % 1 == 0:
        per_hour = round(1 / hours)
        start = grid.start.floor("h")
        lead = round((grid.start - start) / step)
        padded = np.concatenate([np.full(lead, np.nan), values])
        padded = np.concatenate([padded, np.full(-len(padded) % per_hour, np.nan)]).reshape(-1, per_hour)
        by_hour = _scaled_sum(padded)
    elif hours <= 24 and 24 % hours == 0:
        start = grid.start
        by_hour = np.repeat(values / hours, round(hours))
    else:
        start = grid.start
        by_hour = np.repeat(values / hours, max(1, round(hours)))
    first = start.floor("D")
    by_hour = np.concatenate([np.full(round((start - first) / HOUR), np.nan), by_hour])
    size = max(0, round((common_end - first) / HOUR))
    by_hour = by_hour[:size]
    by_hour = np.concatenate([by_hour, np.full(size - len(by_hour), np.nan)]).reshape(-1, 24)
    days = _scaled_sum(by_hour)
    return days, (by_hour if hours < 24 and 24 % hours == 0 else None)


def _scaled_sum(rows: Array) -> Array:
    """Sum each row, scaled up for missing cells; NaN where fewer than half are known."""
    known = np.isfinite(rows).sum(axis=1)
    width = rows.shape[1]
    sums = np.where(known > 0, np.nansum(rows, axis=1), np.nan)
    return np.where(known >= OBSERVED_SHARE * width, sums * width / np.maximum(known, 1), np.nan)


def _weekday_factor(days: Array, times: pd.DatetimeIndex) -> Array:
    """Estimate the weekdays' pattern as the mean of whole weeks, each over its own mean; ones where there are not two."""
    weeks = len(days) // 7
    if weeks < 2:
        return np.ones(7)
    table = days[len(days) - 7 * weeks :].reshape(weeks, 7)
    mean = np.array([np.nanmean(week) if np.isfinite(week).any() else np.nan for week in table])
    usable = np.isfinite(table).all(axis=1) & (mean > 0)
    if usable.sum() < 2:
        return np.ones(7)
    factor = np.empty(7)
    factor[times[-7:].dayofweek] = np.maximum((table[usable] / mean[usable, None]).mean(axis=0), 0.05)
    return np.asarray(factor / factor.mean())


def _filled(level: Array) -> Array:
    """Fill inner gaps of a level linearly and trailing ones with the last value."""
    known = np.flatnonzero(np.isfinite(level))
    return level if known.size in (0, len(level)) else np.interp(np.arange(len(level)), known, level[known])


def _kind(level: Array) -> str:
    """Classify a level series: which model is allowed to speak."""
    if len(level) == 0 or level.max() <= 0:
        return "zero"
    if len(level) < 4:
        return "short"
    return "intermittent" if np.mean(level <= 0) > 0.25 else "regular"
