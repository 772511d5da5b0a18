"""From hourly sample paths to quarters, load blocks, peaks and load-duration curves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.kept_results import Memory
from capplan.questions.demand.accuracy import QUANTILES, interpolated_quantiles
from capplan.questions.demand.events import Event, Hourly, Run, apply_events, run_work
from capplan.questions.demand.history import History
from capplan.questions.demand.planner import PlannedTotal
from capplan.questions.demand.regular_series import HOUR
from capplan.questions.demand.sample_paths import Cohort
from capplan.questions.demand.shape import CURVE_SHARES, block_sizes, duration_curve, pooling
from capplan.units import quarter_end, quarter_hours, quarter_start

Array = np.ndarray
Key = tuple[str, str]
#: Hourly numbers held at once; more paths or series are worked off in slices.
CELLS_AT_ONCE = 24_000_000
#: Paths that load-duration curves are the median of.
CURVE_PATHS = 50
#: Quarters of one series of which months, peaks and curve are kept: a what-if about one workload, one run or a speed moves no other series.
KEPT_QUARTERS = 4000


@dataclass(frozen=True)
class Ranking:
    """How work in different units is added to rank the hours of a quarter."""

    weights: dict[str, float]  #: Accelerator-hours (or multiples of normal load) that a unit of each workload counts for.

    @classmethod
    def build(
        cls, sizes: list[tuple[str, float]], workloads: pd.DataFrame | None, speeds: pd.DataFrame | None, notes: list[str]
    ) -> Ranking:
        """Weigh by accelerator-hours where speeds are known, else every unit's mean load alike; work only an API does has no weight."""
        names = sorted({workload for workload, _ in sizes})
        units = dict(zip(workloads["workload"], workloads["unit"], strict=True)) if workloads is not None else {}
        hosts = dict(zip(workloads["workload"], workloads["host"], strict=True)) if workloads is not None and "host" in workloads else {}
        capacity = [name for name in names if hosts.get(name) != "api"] or names
        if speeds is not None and speeds["workload"].isin(capacity).any():
            hours = (1 / speeds["work_per_accelerator_hour"]).groupby(speeds["workload"]).mean()
            left_out = [name for name in capacity if name not in hours.index]
            rest = f"; no speed is known for {', '.join(left_out)}, which do not count" if left_out else ""
            notes.append(
                "Hours are ranked into load blocks by the accelerator-hours of all workloads together, at the mean speed of the"
                f" accelerators known for each{rest}."
            )
            return cls({name: float(hours.get(name, 0.0)) if name in capacity else 0.0 for name in names})
        mean: dict[str, float] = {}
        for workload, size in sizes:
            if workload in capacity:
                mean[units.get(workload, workload)] = mean.get(units.get(workload, workload), 0.0) + size
        weights = {
            name: 1 / mean[units.get(name, name)] if name in capacity and mean.get(units.get(name, name), 0.0) > 0 else 0.0
            for name in names
        }
        notes.append(
            "Hours are ranked into load blocks by the sum of all workloads; work in different units counts in multiples of its unit's mean"
            " load, every unit alike."
        )
        return cls(weights if any(weights.values()) else dict.fromkeys(names, 1.0))


@dataclass(frozen=True)
class Known:
    """What is known about the future beside the history: events, training runs, and months that a planner's forecast gives."""

    events: list[Event]
    runs: list[Run]
    planned: list[PlannedTotal]

    def sizes(self, histories: list[History], a: DemandAssumptions) -> list[tuple[str, float]]:
        """List the work a day of all that is measured or known, by workload; events that only multiply have none."""
        days = 365.25 / 4 * a.horizon_quarters
        return [
            *((history.workload, float(history.level[-13:].mean()) if len(history.level) else 0.0) for history in histories),
            *((run.workload, run.quantity * run.probability / days) for run in self.runs),
            *((event.workload, event.level * event.probability if np.isfinite(event.level) else 0.0) for event in self.events),
            *(
                (one.workload, float(one.totals.mean()) / days)
                for one in self.planned
                if not any(h.workload == one.workload for h in histories)
            ),
        ]


@dataclass(frozen=True)
class Simulated:
    """Tables that come out of the hourly simulation; see `Forecast` for their columns."""

    paths: pd.DataFrame
    blocks: pd.DataFrame
    peaks: pd.DataFrame
    months: pd.DataFrame
    duration: pd.DataFrame
    pooling: pd.DataFrame


@dataclass(frozen=True)
class _Quarter:
    """What is kept of one quarter: work in blocks and months (series x paths x ...), and peaks (series x paths)."""

    blocks: Array
    months: Array
    peaks: Array
    total_peak: Array
    curves: Array


def simulate_quarters(cohorts: list[Cohort], known: Known, ranking: Ranking, quarters: list[str], a: DemandAssumptions) -> Simulated:
    """Simulate every hour of the horizon on every path, quarter by quarter, and keep what plans need.

    Hours are ranked on each path by the weighted sum over all workloads and regions, so that the peak block holds the hours in which *all*
    together need most; a workload's own peak at another hour stays where it is.

    Args:
        cohorts: Sample paths of levels and shapes.
        ranking: How work in different units is added.
        a: Assumptions; paths, load_blocks, hours_convention, seed and event_strength are used.

    Returns:
        Simulated: Tables in a fixed order of rows.
    """
    keys = sorted(
        {(fit.history.workload, fit.history.region) for cohort in cohorts for fit in cohort.fits}
        | {(run.workload, run.region) for run in known.runs}
        | {(event.workload, "any") for event in known.events if np.isfinite(event.level) and not _has_series(cohorts, event.workload)}
        | {(one.workload, one.region) for one in known.planned if not _has_series(cohorts, one.workload)}
    )
    weights = np.array([ranking.weights[workload] for workload, _ in keys])
    ahead = _Ahead(keys, _region_shares(cohorts), cohorts, known, a)
    hours = [round((quarter_end(quarter) - quarter_start(quarter)) / HOUR) for quarter in quarters]
    kept = [_simulate(quarter, size, weights, ahead) for quarter, size in zip(quarters, hours, strict=True)]
    return Simulated(
        paths=_paths_table(kept, keys, quarters, a),
        blocks=_blocks_table(quarters, hours, a),
        peaks=_peaks_table(kept, keys, quarters),
        months=_months_table(kept, keys, quarters),
        duration=_duration_table(kept, keys, quarters),
        pooling=pd.DataFrame(
            [(quarter, *pooling(part.peaks * weights[:, None], part.total_peak)) for quarter, part in zip(quarters, kept, strict=True)],
            columns=["quarter", "sum_of_peaks", "peak_of_sum", "pooling_gain_share"],
        ),
    )


def _has_series(cohorts: list[Cohort], workload: str) -> bool:
    return any(fit.history.workload == workload for cohort in cohorts for fit in cohort.fits)


def _region_shares(cohorts: list[Cohort]) -> dict[Key, float]:
    """Split a workload's stated level over its regions like its recent demand."""
    recent: dict[Key, float] = {}
    for cohort in cohorts:
        for fit in cohort.fits:
            recent[fit.history.workload, fit.history.region] = float(fit.history.level[-13:].mean()) if len(fit.history.level) else 0.0
    shares = {}
    for (workload, region), level in recent.items():
        same = [value for (name, _), value in recent.items() if name == workload]
        shares[workload, region] = level / sum(same) if sum(same) > 0 else 1 / len(same)
    return shares


def _slices(paths: int, cells_per_path: int) -> Iterator[slice]:
    """Cut the paths into slices that fit into memory."""
    width = max(1, CELLS_AT_ONCE // max(1, cells_per_path))
    for first in range(0, paths, width):
        yield slice(first, min(paths, first + width))


@dataclass(frozen=True)
class _Ahead:
    """All that the hours ahead depend on."""

    keys: list[Key]
    shares: dict[Key, float]
    cohorts: list[Cohort]
    known: Known
    a: DemandAssumptions

    def names(self, quarter: str) -> list[str]:
        """Name all that the hours of each series in a quarter depend on."""
        drawn = [(fit.history.workload, digest) for cohort in self.cohorts for fit, digest in zip(cohort.fits, cohort.digests, strict=True)]
        settings, names = self.a.digest(), []
        for key in self.keys:
            own: list[object] = [
                quarter,
                settings,
                key,
                self.shares.get(key),
                *(digest for workload, digest in drawn if workload == key[0]),
            ]
            own += [event for event in self.known.events if event.workload == key[0]]
            own += [run for run in self.known.runs if (run.workload, run.region) == key]
            own += [(one.region, one.month, one.totals.tobytes()) for one in self.known.planned if one.workload == key[0]]
            names.append(hashlib.sha256(repr(own).encode()).hexdigest())
        return names

    def work(self, quarter: str, times: Array, part: slice) -> Array:
        """Return the hourly work of each series on a slice of the paths (series x paths x hours)."""
        start, hours, events = quarter_start(quarter), len(times), self.known.events
        place = {key: number for number, key in enumerate(self.keys)}
        work = np.zeros((len(self.keys), part.stop - part.start, hours))
        for cohort in self.cohorts:
            first = round((start - cohort.start) / HOUR)
            for j, fit in enumerate(cohort.fits):
                key = (fit.history.workload, fit.history.region)
                plain, shape = cohort.hourly(j, first, hours, part)
                own = [event for event in events if event.workload == key[0]]
                work[place[key]] = apply_events(Hourly(plain, shape, self.shares[key]), own, times, cohort.start, self.a, part)
        for event in events:
            if (event.workload, "any") in place and not _has_series(self.cohorts, event.workload):
                here, today = place[event.workload, "any"], pd.Timestamp(self.a.as_of)
                work[here] = apply_events(Hourly(work[here], np.ones_like(work[here])), [event], times, today, self.a, part)
        for run in self.known.runs:
            if run.start < quarter_end(quarter) and run.end > start:
                work[place[run.workload, run.region]] += run_work(run, times, self.a.paths, self.a.seed)[part]
        for one in self.known.planned:
            if start <= one.month < quarter_end(quarter):
                series = [number for number, key in enumerate(self.keys) if one.holds(*key)]
                one.impose(work, series, slice(*month_hours(one.month, start)), part)
        return work


def _simulate(quarter: str, hours: int, weights: Array, ahead: _Ahead) -> _Quarter:
    """Simulate one quarter."""
    a, names = ahead.a, ahead.names(quarter)
    times = (quarter_start(quarter) + pd.to_timedelta(np.arange(hours), unit="h")).to_numpy()
    scale = quarter_hours(quarter, a.hours_convention) / hours
    edges = np.concatenate([[0], np.cumsum(block_sizes(hours, a.load_blocks))[:-1]])
    month_edges = np.flatnonzero(np.diff(times.astype("datetime64[M]").astype(int), prepend=-1))
    count = len(names)
    blocks = np.empty((count, a.paths, a.load_blocks))
    months = np.empty((count, a.paths, len(month_edges)))
    peaks = np.empty((count, a.paths))
    total_peak = np.empty(a.paths)
    curves = np.empty((count + 1, len(CURVE_SHARES)))
    for part in _slices(a.paths, count * hours):
        work = ahead.work(quarter, times, part)
        total = np.tensordot(weights, work, axes=1)
        order, ordered = _ranked(total), np.empty(total.shape)
        for here, name in enumerate(names):
            np.take(work[here], order, out=ordered, mode="clip")
            blocks[here, part] = np.add.reduceat(ordered, edges, axis=1) * scale
            own = _own_figures(f"{name} {part.start} {part.stop}", work[here], month_edges)
            months[here, part], peaks[here, part] = own.months * scale, own.peaks
            if part.start == 0:
                curves[here] = own.curve
        total_peak[part] = total.max(axis=1)
        if part.start == 0:
            curves[count] = duration_curve(total[:CURVE_PATHS])
    return _Quarter(blocks, months, peaks, total_peak, curves)


def _ranked(total: Array) -> Array:
    """Return the hours of each path from the busiest on, as places in the flat array (paths x hours); equal hours keep their order.

    Only a path with equal hours needs a sort that keeps their order, which takes three times as long.
    """
    order = np.argsort(-total, axis=1)
    ordered = np.take_along_axis(total, order, axis=1)
    ties = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    order[ties] = np.argsort(-total[ties], axis=1, kind="stable")
    return np.asarray(order + total.shape[1] * np.arange(len(total))[:, None])


@dataclass(frozen=True)
class _OwnFigures:
    """What a series' hours say without any other series: months (paths x months), peaks (paths), and a curve of the first paths."""

    months: Array
    peaks: Array
    curve: Array


_figures: Memory[_OwnFigures] = Memory(KEPT_QUARTERS)


def _own_figures(name: str, work: Array, month_edges: Array) -> _OwnFigures:
    """Return the figures of one series' hours (paths x hours), computed once for all that has the same name."""
    found = _figures.get(name)
    if found is None:
        found = _OwnFigures(np.add.reduceat(work, month_edges, axis=1), work.max(axis=1), duration_curve(work[:CURVE_PATHS]))
        _figures[name] = found
    return found


def month_hours(month: pd.Timestamp, start: pd.Timestamp) -> tuple[int, int]:
    """Return the first hour of a month and of the next, counted from an instant.

    Examples:
        >>> month_hours(pd.Timestamp("2027-02-01"), pd.Timestamp("2027-01-01"))
        (744, 1416)
    """
    return round((month - start) / HOUR), round((month + pd.offsets.MonthBegin(1) - start) / HOUR)


def _paths_table(kept: list[_Quarter], keys: list[Key], quarters: list[str], a: DemandAssumptions) -> pd.DataFrame:
    """Return the paths table, sorted by path, workload, region, quarter, block."""
    cube = np.stack([part.blocks for part in kept], axis=2).transpose(1, 0, 2, 3)
    paths, series, spans, blocks = cube.shape
    repeat = spans * blocks
    return pd.DataFrame(
        {
            "path": np.repeat(np.arange(paths), series * repeat),
            "probability": 1.0 / a.paths,
            "workload": np.tile(np.repeat([workload for workload, _ in keys], repeat), paths),
            "region": np.tile(np.repeat([region for _, region in keys], repeat), paths),
            "quarter": np.tile(np.repeat(quarters, blocks), paths * series),
            "block": np.tile(np.arange(blocks), paths * series * spans),
            "quantity": cube.ravel(),
        }
    )


def _blocks_table(quarters: list[str], hours: list[int], a: DemandAssumptions) -> pd.DataFrame:
    rows = [
        (quarter, block, size / total * quarter_hours(quarter, a.hours_convention))
        for quarter, total in zip(quarters, hours, strict=True)
        for block, size in enumerate(block_sizes(total, a.load_blocks))
    ]
    return pd.DataFrame(rows, columns=["quarter", "block", "hours"])


def _quantile_rows(values: Array) -> Array:
    """Return quantiles over paths (axis 0)."""
    return interpolated_quantiles(values, np.ones(len(values)), np.array(QUANTILES))


def _peaks_table(kept: list[_Quarter], keys: list[Key], quarters: list[str]) -> pd.DataFrame:
    frames = [
        pd.DataFrame(
            {
                "workload": workload,
                "region": region,
                "quarter": quarter,
                "quantile": QUANTILES,
                "work_per_hour": _quantile_rows(part.peaks[here]),
            }
        )
        for here, (workload, region) in enumerate(keys)
        for quarter, part in zip(quarters, kept, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def _months_table(kept: list[_Quarter], keys: list[Key], quarters: list[str]) -> pd.DataFrame:
    months = [month for quarter in quarters for month in pd.date_range(quarter_start(quarter), periods=3, freq="MS")]
    cube = np.concatenate([part.months for part in kept], axis=2)
    frames = []
    for here, (workload, region) in enumerate(keys):
        values = _quantile_rows(cube[here])
        frames.append(
            pd.DataFrame(
                {
                    "workload": workload,
                    "region": region,
                    "month": np.repeat(np.array(months, dtype="datetime64[ns]"), len(QUANTILES)),
                    "quantile": np.tile(QUANTILES, len(months)),
                    "quantity": values.T.ravel(),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _duration_table(kept: list[_Quarter], keys: list[Key], quarters: list[str]) -> pd.DataFrame:
    frames = [
        pd.DataFrame(
            {"workload": workload, "region": region, "quarter": quarter, "hours_share": CURVE_SHARES, "work_per_hour": part.curves[here]}
        )
        for here, (workload, region) in enumerate([*keys, ("all", "all")])
        for quarter, part in zip(quarters, kept, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)
