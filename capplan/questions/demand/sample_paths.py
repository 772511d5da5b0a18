"""Sample paths of the level: shocks that persist, happen together across workloads, and grow with the horizon."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.activity import rhythm_levels
from capplan.questions.demand.fitting import NORMAL_90
from capplan.questions.demand.growth_kinds import AHEAD
from capplan.questions.demand.growth_level import GrowthLevel
from capplan.questions.demand.models import PERIODS_PER_YEAR, LevelFit, expected_path, grown_years
from capplan.questions.demand.regular_series import HOUR
from capplan.questions.demand.shape import shapes_of
from capplan.questions.demand.statements import Statement, apply_statements
from capplan.questions.demand.streams import PastPeriods, joint_normals, name_seed

Array = np.ndarray
#: Growth fades: after this many years half of it is left in the median path, or after this multiple of the years that it was seen for,
#: whichever is more
#: (what has lasted lasts on); and the half-life of one path in six is more than this factor longer.
GROWTH_HALF_LIFE_YEARS, GROWTH_LASTS, HALF_LIFE_FACTOR = 2.0, 2.0, 2.0
#: Numbers that the state of a level holds at most (mean, departure, growth, two harmonics of the season).
STATES = 7


@dataclass(frozen=True)
class Cohort:
    """Series of one cadence with their simulated levels and shapes."""

    fits: list[LevelFit]  #: The series.
    start: pd.Timestamp  #: End of the history: first instant that is simulated.
    edges: Array  #: Hours from `start` to the beginning of each period, and to the end of the last.
    levels: Array  #: Demand per day: series x paths x periods.
    #: Of each series: which historical shape each path draws in each period (paths x periods), counted backwards from the newest.
    drawn: list[Array]
    shapes: list[Array]  #: Of each series: number of shapes x hours in a period.

    @cached_property
    def digests(self) -> list[str]:
        """Name all that the hours of each series depend on."""
        return [
            hashlib.sha256(pickle.dumps((self.start, self.edges, self.levels[j], self.drawn[j], self.shapes[j]))).hexdigest()
            for j in range(len(self.fits))
        ]

    def hourly(self, series: int, first_hour: int, hours: int, paths: slice) -> tuple[Array, Array]:
        """Return work in each hour and its shape (both paths x hours) from an hour after `start` on."""
        wanted = np.maximum(first_hour + np.arange(hours), 0)
        period = np.searchsorted(self.edges, wanted, side="right") - 1
        level = self.levels[series, paths]
        if self.shapes[series].shape[1] == 1:
            shape = np.ones((level.shape[0], hours))
            return level[:, period] / 24, shape
        first, last = period[0], period[-1]
        pool = self.shapes[series]
        index = len(pool) - 1 - self.drawn[series][paths, first : last + 1]
        offset = wanted[0] - int(self.edges[first])
        chosen = pool[index]
        shape = chosen.reshape(level.shape[0], -1)
        work = (chosen * (level[:, first : last + 1, None] / 24)).reshape(level.shape[0], -1)
        if wanted[-1] - wanted[0] + 1 < hours:
            gather = wanted - int(self.edges[first])
            return work[:, gather], shape[:, gather]
        return work[:, offset : offset + hours], shape[:, offset : offset + hours]

    def month_totals(self, first: pd.Timestamp, months: int) -> Array:
        """Sum simulated levels by calendar month, from the month that begins at an instant on (series x paths x months)."""
        bounds = np.array([(month - self.start) / HOUR for month in pd.date_range(first, periods=months + 1, freq="MS")])
        low, high = self.edges[:-1], self.edges[1:]
        overlap = np.clip(np.minimum(high[:, None], bounds[None, 1:]) - np.maximum(low[:, None], bounds[None, :-1]), 0.0, None)
        # What lies before the simulation begins runs at its first level.
        overlap[0] += np.clip(np.minimum(0.0, bounds[1:]) - bounds[:-1], 0.0, None)
        return np.asarray(self.levels @ (overlap / 24))


def draw_cohorts(
    fits: list[LevelFit], horizon_end: pd.Timestamp, a: DemandAssumptions, statements: list[Statement] | None = None
) -> list[Cohort]:
    r"""Draw sample paths of the level of all series, cadence by cadence.

    Demand a day of series j on a path, h periods after the history, is

    .. math:: g_j^{-1}\Big(m_{jh} + x_{jh} + r_{jh}\Big)\; e^{\,\gamma_j D(t_h) + z_j s_j t_h},
              \quad x_{jh} = \mu_j + \phi_j^h d_j + \sum_{i \le h} \phi_j^{h-i} \eta_{ji}

    g is the scale of the level, m its expected path and x what is not known of it: each path draws the persistence phi and the
    spreads in proportion to their probability, then jointly the long-run mean (mu), the present departure (d), the yearly growth (gamma)
    and the
    yearly season (part of x), and the shocks eta, correlated between series like their one-step errors. D is `grown_years` with a
    half-life that each path draws around two years. r is noise of the history, drawn in blocks of neighbouring periods, the *same* periods
    for all series
    (which keeps autocorrelation and correlation). z s t is what the stated band of growth
    adds to what the history leaves unknown. Stated growth is taken as stated, undamped.

    Args:
        horizon_end: First instant after the horizon.
        a: Assumptions; paths, seed, growth and its band are used.

    Returns:
        list of Cohort: One a cadence.
    """
    return [
        _cohort([fit for fit in fits if fit.history.cadence == cadence], cadence, horizon_end, a, statements or [])
        for cadence in ("day", "week", "month")
        if any(fit.history.cadence == cadence for fit in fits)
    ]


def _edges(cadence: str, start: pd.Timestamp, horizon_end: pd.Timestamp) -> Array:
    """Return the hours from the start to each period's beginning, up to the first period that ends after the horizon."""
    if cadence == "month":
        months = pd.date_range(start, horizon_end + pd.Timedelta(days=31), freq="MS")
        return np.asarray((months - start) / HOUR, dtype=int)
    width = {"day": 24, "week": 168}[cadence]
    periods = max(1, int(np.ceil((horizon_end - start) / HOUR / width)))
    return np.arange(periods + 1) * width


@dataclass(frozen=True)
class _Draws:
    """Random numbers of one cadence: shared by all series (half-lives, growth kinds, past periods), and each one's own (series first)."""

    past: PastPeriods
    half_life: Array
    numbers: Array
    normal: Array
    later: Array
    wander: Array
    slope: Array

    @classmethod
    def of(cls, fits: list[LevelFit], cadence: str, periods: int, a: DemandAssumptions) -> _Draws:
        def seed(purpose: int) -> list[int]:
            return [a.seed, len(cadence), purpose]

        as_of = pd.Timestamp(a.as_of)
        shocks = joint_normals(fits, (a.paths, periods + STATES), seed(4), as_of)
        return cls(
            PastPeriods(periods, a.paths, seed(1)),
            HALF_LIFE_FACTOR ** np.random.default_rng(seed(5)).standard_normal(a.paths),
            np.random.default_rng(seed(8)).random(a.paths),
            joint_normals(fits, (a.paths, 1), seed(2), as_of)[:, :, 0],
            joint_normals(fits, (a.paths, AHEAD), seed(7), as_of),
            *_wander(fits, shocks, periods, a, cadence),
        )


def _cohort(fits: list[LevelFit], cadence: str, horizon_end: pd.Timestamp, a: DemandAssumptions, statements: list[Statement]) -> Cohort:
    start = max(fit.history.end for fit in fits)
    edges = _edges(cadence, start, horizon_end)
    years = np.cumsum(np.diff(edges)) / 24 / 365.25
    draws = _Draws.of(fits, cadence, len(years), a)
    levels = np.array([_levels(fit, j, start, years, draws, a) for j, fit in enumerate(fits)])
    shapes = [shapes_of(fit.history) for fit in fits]
    drawn = [draws.past.counted_back(len(shape)) for shape in shapes]
    if cadence == "day":
        weekday = (start.dayofweek + np.arange(len(years))) % 7
        for j, fit in enumerate(fits):
            levels[j] *= fit.history.weekday_factor[weekday]
        drawn = [_same_kind_of_day(draws.past, weekday, start, len(shape)) for shape in shapes]
    for j, fit in enumerate(fits):
        stated = [statement for statement in statements if statement.workload == fit.history.workload]
        levels[j] = apply_statements(levels[j], years, _share_of(fit, fits), stated, a.seed)
        if fit.history.last_day is not None:
            left = ((fit.history.last_day - start) / HOUR + 24 - edges[:-1]) / np.diff(edges)
            levels[j] *= np.clip(left, 0.0, 1.0)
    return Cohort(fits, start, edges, levels, drawn, shapes)


def _levels(fit: LevelFit, j: int, start: pd.Timestamp, years: Array, draws: _Draws, a: DemandAssumptions) -> Array:
    """Draw demand a day of one series (paths x periods), before the weekdays' pattern and what people state."""
    history, periods = fit.history, len(years)
    per_year = PERIODS_PER_YEAR[history.cadence]
    late = round((start - history.end) / HOUR / 24 / 365.25 * per_year)
    ahead = years + late / per_year
    spread, normal = growth_spread(fit, a), draws.normal[j][:, None]
    grown = grown_years(ahead, draws.half_life * max(GROWTH_HALF_LIFE_YEARS, GROWTH_LASTS * fit.years))
    own = draws.slope[j][:, None] * grown
    if a.growth_share_per_year is not None:
        expected = fit.level.growth_per_year if fit.level is not None else 0.0
        own = np.log1p(a.growth_share_per_year) * (ahead - 0.5 / per_year) + (0.0 if fit.extrapolated else own - expected * grown)
    factor = np.exp(own + normal * spread * years)
    if history.rhythm is not None:
        behind = round((start - history.end) / pd.Timedelta(days=1))
        generator = np.random.default_rng([a.seed, name_seed(fit), 6])
        return np.asarray(factor * rhythm_levels(history.rhythm, periods, a.paths, generator, behind))
    if history.kind == "intermittent":
        size = len(history.level)
        ratio = history.level[size - 1 - draws.past.counted_back(size)] / max(history.level.mean(), 1e-300)
        return np.asarray(fit.scale.mean * factor * ratio * np.exp(normal * fit.rate_error - 0.5 * fit.rate_error**2))
    if fit.level is None:
        # Too little to see any noise: the level itself is known to within the band of one year's growth.
        return np.asarray(fit.scale.mean * factor * np.exp(normal * spread))
    size, path = len(fit.innovations), expected_path(fit, periods + late)[late:]
    noise = fit.level.noise[size - 1 - draws.past.counted_back(size)]
    short = fit.scale.unit(path + draws.wander[j] + noise) * factor
    if fit.growth is None or a.growth_share_per_year is not None:
        return short
    growing = _growing(fit.growth, draws, j, periods, late)
    middle = fit.scale.unit(path) * np.exp(fit.level.growth_per_year * grown_years(ahead, np.array([GROWTH_HALF_LIFE_YEARS])))
    return _blended(short, growing, middle, fit.growth, periods, late)


def _share_of(fit: LevelFit, fits: list[LevelFit]) -> float:
    """Return the share of its workload's newest demand that a series carries."""
    newest = [float(other.history.level[-13:].mean()) for other in fits if other.history.workload == fit.history.workload]
    return float(fit.history.level[-13:].mean()) / sum(newest) if sum(newest) > 0 else 1 / len(newest)


def _blended(short: Array, growing: Array, middle: Array, growth: GrowthLevel, periods: int, late: int) -> Array:
    """Blend paths of the mean-reverting level with paths of growth, in logarithms; independent deviations keep their size.

    A band then changes smoothly from the one to the other with the length of the history.
    """
    if growth.share >= 1:
        return growing
    own, other = growth.share, 1 - growth.share
    floor = 1e-3 * float(middle.max())
    centre = other * np.log(np.maximum(middle, floor)) + own * np.log(np.maximum(growth.median(periods + late)[late:], floor))
    mixed = other * np.log(np.maximum(short, floor)) + own * np.log(np.maximum(growing, floor))
    return np.asarray(np.exp(centre + (mixed - centre) / np.hypot(own, other)))


def _growing(growth: GrowthLevel, draws: _Draws, j: int, periods: int, late: int) -> Array:
    """Draw levels that follow the kinds of growth, with the swings of past periods around them (paths x periods)."""
    smooth = growth.paths(draws.numbers, draws.later[j], periods + late)[:, late:]
    size = len(growth.ratio)
    return smooth * growth.ratio[size - 1 - draws.past.counted_back(size)]


def growth_spread(fit: LevelFit, a: DemandAssumptions) -> float:
    """Return what is added to the deviation of yearly log growth, so that the stated 80 % band holds for short histories.

    Growth that the history leaves more uncertain than that keeps its own, wider band; stated growth has the stated band alone.
    """
    if fit.history.kind == "zero" or not fit.extrapolated:
        return 0.0
    stated = float(np.log1p(a.growth_band_share)) / NORMAL_90
    known = fit.level.growth_error_per_year if fit.level is not None and a.growth_share_per_year is None else 0.0
    return float(np.sqrt(max(0.0, stated**2 - known**2)))


def _same_kind_of_day(past: PastPeriods, weekday: Array, start: pd.Timestamp, size: int) -> Array:
    """Draw for each day a past one of the same kind (working day or weekend), so that shapes fit the calendar."""
    day = (start.dayofweek - 1 - np.arange(size)) % 7
    result = past.counted_back(size).copy()
    for weekend in (False, True):
        pool = np.flatnonzero((day >= 5) == weekend)
        columns = np.flatnonzero((weekday >= 5) == weekend)
        if pool.size:
            result[:, columns] = pool[past.counted_back(len(pool))[:, columns]]
    return result


def _wander(fits: list[LevelFit], shocks: Array, periods: int, a: DemandAssumptions, cadence: str) -> tuple[Array, Array]:
    """Draw what is not known of each level: series x paths x periods around the expected path, and the yearly growth (series x paths)."""
    numbers = np.random.default_rng([a.seed, len(cadence), 3]).random(a.paths)
    result, slope = np.zeros((len(fits), a.paths, periods)), np.zeros((len(fits), a.paths))
    for j, fit in enumerate(fits):
        if fit.level is None:
            continue
        level = fit.level
        pick = np.minimum(np.searchsorted(np.cumsum(level.weight), numbers), len(level.weight) - 1)
        state = level.mean[pick] + np.einsum("pij,pj->pi", level.root[pick], shocks[j][:, : level.mean.shape[1]])
        mean, departure = state[:, 0], state[:, 1]
        slope[j] = state[:, 2] + level.growth_per_year - level.weight @ level.mean[:, 2]
        persistence, innovation = level.persistence[pick], level.innovation[pick]
        for period in range(periods):
            departure = persistence * departure + innovation * shocks[j][:, period + STATES]
            result[j, :, period] = mean + departure
        result[j] += level.season(state, np.arange(1, periods + 1)) - level.path(periods)
    return result, slope
