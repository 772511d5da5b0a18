"""What was really asked for: from raw usage rows to one regular, repaired demand history a series."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand.activity import ENDED_DAYS, Rhythm, find_rhythm
from capplan.questions.demand.demand_rows import demand_rows
from capplan.questions.demand.regular_series import DAY, HOUR, Grid, make_grid

Array = np.ndarray
#: A level needs eight whole weeks before it is modelled by week; below that it is modelled by day.
WEEKS_FOR_WEEKLY_LEVEL = 8
#: Silence of a workload this long is worth a question.
SILENT_DAYS = 7
#: The only workload of a table that is silent for longer before the plan's day has ended, up to this many days; a table older than that is
#: an old one.
OLD_TABLE_DAYS = 183
#: Usage older than this against the plan's day is worth a note; older than this (a year and a half) it says nothing of two years ahead.
OLD_DAYS, TOO_OLD_DAYS = 45, 548
#: A period counts as observed when at least this share of it was.
OBSERVED_SHARE = 0.5


@dataclass(frozen=True)
class History:
    """One series on a regular grid."""

    #: workload, region: Which series.
    workload: str
    region: str
    cadence: str  #: "day", "week" or "month": the period its level is modelled in.
    level: Array  #: Demand per day in each period, oldest first, without gaps.
    times: pd.DatetimeIndex  #: Start of each period.
    end: pd.Timestamp  #: First instant after the last period; all series of one cadence share it.
    #: Demand of every hour of the whole periods (periods x hours), or None where intervals are longer than a day's part.
    hourly: Array | None
    weekday_factor: Array  #: Seven factors (Monday first, mean 1) taken out of a daily level; ones for other cadences.
    step_hours: float  #: Length of the measured interval.
    #: demand, unmet, inferred: Sums over the history: demand, the part of it that capacity hid, and the part of that which is inferred from
    #: a ceiling instead of measured.
    demand: float
    unmet: float
    inferred: float
    peak_per_hour: float  #: Highest hourly demand seen.
    kind: str  #: "regular", "intermittent", "rhythm" (batch runs that return regularly), "zero" or "short".
    rhythm: Rhythm | None = None  #: The regular runs, where there are such.
    last_day: pd.Timestamp | None = None  #: Last day of the workload where its end is known and lies ahead.


def read_histories(
    usage: pd.DataFrame, a: DemandAssumptions, ends: dict[str, pd.Timestamp] | None = None
) -> tuple[list[History], list[str]]:
    r"""Turn usage rows into regular demand histories, and say what was repaired.

    Demand is served work plus what capacity hid. A queue is a stock: work that waits through ten intervals is
    one piece of work, so only the growth of the queue counts, and its decline is taken off the work served later:

    .. math:: d_t = \max\big(0,\; u_t + s\,(q_t - q_{t-1} + r_t)\big)

    with u the quantity, q the queued and r the refused quantity, and s = ``a.unmet_share``. What lies before the first and after the last
    work of
    a series is no part of its history, whether the table says zero there or nothing; see `find_activity`.

    Args:
        usage: The usage table: time, workload, region, quantity, and where known queued_quantity and refused_quantity.
        a: Assumptions; as_of and unmet_share are used.
        ends: Last days of workloads, where they are known.

    Returns:
        histories: One a workload and region, in alphabetical order.
        notes: Every repair, in words.

    Raises:
        CapplanError: If a workload was at work after its last day, or all usage is too old.

    Source: The balance of a queue (arrivals = departures + growth of the queue).
    """
    notes: list[str] = []
    rows = demand_rows(usage, a, notes)
    grids = [
        make_grid(str(name[0]), str(name[1]), part, a.unmet_share, notes) for name, part in rows.groupby(["workload", "region"], sort=True)
    ]
    if not grids:
        return [], notes
    _refuse_use_after_end(grids, ends or {})
    common_end = _common_end(grids, a)
    seen = rows["time"].max().floor("D") + DAY
    age = (pd.Timestamp(a.as_of) - max(grid.end for grid in grids)) / DAY
    if age > TOO_OLD_DAYS:
        raise CapplanError(
            f"usage: the newest row with work ends {max(grid.end for grid in grids).date()}, {age:.0f} days before the plan's day"
            f" {a.as_of}; a forecast bridges at most {TOO_OLD_DAYS}. Add newer usage, or set as_of to the day after the last of it"
        )
    if age > OLD_DAYS:
        notes.append(f"The newest usage is {age:.0f} days older than the plan ({a.as_of}); what happened since is forecast, not known.")
    if len(grids) == 1 and age <= OLD_TABLE_DAYS:
        seen = max(seen, pd.Timestamp(a.as_of))
    months_seen = max((grid.end for grid in grids if grid.step is None), default=seen)
    found = []
    for number, grid in enumerate(grids):
        last_day = (ends or {}).get(grid.workload)
        measured = months_seen - pd.Timedelta(days=31) if grid.step is None else seen
        if _has_ended(grid, measured, last_day, pd.Timestamp(a.as_of), notes):
            grids[number] = replace(grid, values=np.zeros(len(grid.values)))
        history = _monthly(grids[number]) if grid.step is None else _history(grids[number], common_end, notes)
        found.append(replace(history, last_day=last_day))
    return found, notes


def _common_end(grids: list[Grid], a: DemandAssumptions) -> pd.Timestamp:
    """Return the day up to which the newest work is known; workloads by the day end there together."""
    alive = [grid for grid in grids if np.nansum(grid.values) > 0] or grids
    fine = [grid.known_end for grid in alive if grid.step is not None and grid.step < DAY]
    daily = [grid.end for grid in alive if grid.step is not None]
    return max(fine or daily or [pd.Timestamp(a.as_of)]).floor("D")


def _refuse_use_after_end(grids: list[Grid], ends: dict[str, pd.Timestamp]) -> None:
    """Refuse a workload that was at work after its last day."""
    faults = [
        f"{grid.name} ends on {ends[grid.workload].date()} and was used until {(grid.end - HOUR).date()}"
        for grid in grids
        if grid.workload in ends and np.nansum(grid.values) > 0 and _last_use(grid) > ends[grid.workload]
    ]
    if faults:
        raise CapplanError(f"workloads: {'; '.join(faults)}. A last day must not lie before the last use: move last_day, or leave it empty")


def _last_use(grid: Grid) -> pd.Timestamp:
    """Return the earliest day that the last use can have been on: the last day, or the first of the last month."""
    return grid.end - (pd.offsets.MonthBegin(1) if grid.step is None else DAY)


def _has_ended(grid: Grid, measured: pd.Timestamp, last_day: pd.Timestamp | None, as_of: pd.Timestamp, notes: list[str]) -> bool:
    """Tell whether a series has ended, and ask where that is not certain."""
    if np.nansum(grid.values) <= 0:
        return False
    silent = (measured - grid.end) / DAY
    since = f"{grid.name}: nothing for {silent:.0f} days (since {grid.end.date()})"
    if last_day is not None:
        if last_day < as_of:
            notes.append(f"{grid.name}: ended on {last_day.date()} as stated; no demand.")
            return True
        notes.append(f"{grid.name}: goes on until {last_day.date()} as stated, and has no demand after.")
        return False
    if silent > grid.longest_silence_days:
        notes.append(
            f"{since}: ended? It is taken as ended (no demand). If it lives on, give workloads.csv its last_day, or state its level as an"
            " event."
        )
        return True
    if silent >= SILENT_DAYS and grid.longest_silence_days <= ENDED_DAYS:
        notes.append(f"{since}: ended? It is taken as alive, at its last level. If it has ended, give workloads.csv its last_day.")
    return False


def _history(grid: Grid, common_end: pd.Timestamp, notes: list[str]) -> History:
    """Form the level of one series and classify it."""
    name, hours = grid.name, (grid.step or DAY) / HOUR
    days, hourly = _days(grid, common_end)
    own = days[: max(0, round((grid.end.ceil("D") - common_end) / DAY) + len(days))]
    rhythm = find_rhythm(own[np.isfinite(own).argmax() :]) if hours <= 24 and np.nansum(own) > 0 else None
    if rhythm is not None:
        return _regular_runs(grid, own, hourly, rhythm, notes)
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
            notes.append(
                f"{name}: {len(days)} days of history; its level is modelled by day, the weekdays' pattern rests on {len(days) // 7} weeks."
            )
    known = np.flatnonzero(np.isfinite(level))
    if not len(days) or (not known.size and np.nansum(grid.values) > 0):
        # Less than half a day was measured: its rate is all that is known.
        rate = float(np.nanmean(grid.values) / hours * 24)
        level, times, shape, cadence = np.array([rate]), pd.DatetimeIndex([common_end - DAY]), None, "day"
        notes.append(f"{name}: less than a day of usable history; its rate is carried forward as it is.")
    elif known.size:
        part = _span(level, known)
        level, times = level[part], times[part]
        shape = shape[part] if shape is not None else None
    else:
        level = np.zeros(len(level))
    level = _filled(level)
    end = times[-1] + {"day": 1, "week": 7}[cadence] * DAY if len(times) else common_end
    return History(
        grid.workload,
        grid.region,
        cadence,
        level,
        times,
        end,
        shape,
        factor,
        hours,
        grid.total,
        grid.unmet,
        grid.inferred,
        _peak(grid, hours),
        _kind(level),
    )


def _peak(grid: Grid, hours: float) -> float:
    return float(np.nanmax(grid.values) / hours) if np.isfinite(grid.values).any() else 0.0


def _span(level: Array, known: Array) -> slice:
    """Return the part of a level that is modelled: from its first known period on.

    Where demand is intermittent, both ends of its activity are at work by choice of what is called its start and end. The rate is that of
    whole
    cycles: from the end of the first spell to the end of the last.
    """
    inner = level[known[0] : known[-1] + 1]
    if _kind(inner) != "intermittent":
        return slice(int(known[0]), len(level))
    idle = np.flatnonzero(inner <= 0)
    first = int(known[0] + idle[0])
    later = known[0] + np.flatnonzero(inner > 0)
    return slice(first, int(later[-1]) + 1) if (later > first).sum() >= 2 else slice(int(known[0]), int(known[-1]) + 1)


def _regular_runs(grid: Grid, days: Array, hourly: Array | None, rhythm: Rhythm, notes: list[str]) -> History:
    """Form the history of batch runs that return regularly, by day."""
    end = grid.end.ceil("D")
    times = pd.date_range(end - len(days) * DAY, periods=len(days), freq="D")
    notes.append(
        f"{grid.name}: a batch run every {rhythm.period_days:.3g} days ({len(rhythm.runs)} seen, {rhythm.held_share:.0%} of those due); "
        f"it goes on at its own times, next on {(end + round(rhythm.due_days) * DAY).date()}."
    )
    hours = (grid.step or DAY) / HOUR
    shape = hourly[: len(days)] if hourly is not None else None
    return History(
        grid.workload,
        grid.region,
        "day",
        np.nan_to_num(days),
        times,
        end,
        shape,
        np.ones(7),
        hours,
        grid.total,
        grid.unmet,
        grid.inferred,
        _peak(grid, hours),
        "rhythm",
        rhythm,
    )


def _monthly(grid: Grid) -> History:
    """Form the level of a series measured by month: demand per day of each calendar month."""
    times = pd.date_range(grid.start, periods=len(grid.values), freq="MS")
    level = _filled(grid.values / times.days_in_month.to_numpy())
    peak = float(level.max() / 24)
    return History(
        grid.workload,
        grid.region,
        "month",
        level,
        times,
        grid.end,
        None,
        np.ones(7),
        730.0,
        grid.total,
        grid.unmet,
        grid.inferred,
        peak,
        _kind(level),
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
