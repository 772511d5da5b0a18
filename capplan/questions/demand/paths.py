"""Sample paths of the level: shocks that persist, happen together across workloads, and grow with the horizon."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.activity import rhythm_levels
from capplan.questions.demand.fitting import NORMAL_90
from capplan.questions.demand.grid import HOUR
from capplan.questions.demand.growth_kinds import AHEAD
from capplan.questions.demand.growth_level import GrowthLevel
from capplan.questions.demand.models import PERIODS_PER_YEAR, LevelFit, expected_path, grown_years
from capplan.questions.demand.shape import RECENT_SHAPES, shapes_of
from capplan.questions.demand.statements import Statement, apply_statements

Array = np.ndarray
#: Mean length of the blocks of neighbouring periods that are drawn together.
BLOCK_PERIODS = 4
#: Growth fades: after this many years half of it is left in the median path, or after this multiple of the years that it was seen for,
#: whichever is more
#: (what has lasted lasts on); and the half-life of one path in six is more than this factor longer.
GROWTH_HALF_LIFE_YEARS, GROWTH_LASTS, HALF_LIFE_FACTOR = 2.0, 2.0, 2.0
#: Numbers that the state of a level holds at most (mean, departure, growth, two harmonics of the season).
STATES = 7
#: Correlations between workloads are shrunk towards zero like those of this many extra independent periods.
SHRINK_PERIODS = 10


@dataclass(frozen=True)
class Cohort:
    """Series of one cadence with their simulated levels and shapes.

    Parameters
    ----------
    fits
        The series.
    start
        End of the history: first instant that is simulated.
    edges
        Hours from `start` to the beginning of each period, and to the end of the last.
    levels
        Demand per day: series x paths x periods.
    drawn
        Which historical shape each path draws in each period (paths x periods), counted backwards from the newest.
    shapes
        Of each series: number of shapes x hours in a period.
    """

    fits: list[LevelFit]
    start: pd.Timestamp
    edges: Array
    levels: Array
    drawn: Array
    shapes: list[Array]

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
        index = len(pool) - 1 - self.drawn[paths, first : last + 1] % len(pool)
        offset = wanted[0] - int(self.edges[first])
        shape = pool[index].reshape(level.shape[0], -1)
        work = (pool[index] * (level[:, first : last + 1, None] / 24)).reshape(level.shape[0], -1)
        if wanted[-1] - wanted[0] + 1 < hours:
            gather = wanted - int(self.edges[first])
            return work[:, gather], shape[:, gather]
        return work[:, offset : offset + hours], shape[:, offset : offset + hours]


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

    Parameters
    ----------
    fits
        Level models.
    horizon_end
        First instant after the horizon.
    a
        Assumptions; paths, seed, growth and its band are used.
    statements
        What people state of growth.

    Returns
    -------
    list of Cohort
        One a cadence.
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


def _cohort(fits: list[LevelFit], cadence: str, horizon_end: pd.Timestamp, a: DemandAssumptions, statements: list[Statement]) -> Cohort:
    start = max(fit.history.end for fit in fits)
    edges = _edges(cadence, start, horizon_end)
    periods = len(edges) - 1
    sizes = np.array([max(1, len(fit.innovations)) for fit in fits])
    lengths = np.array([max(1, len(fit.history.level)) for fit in fits])
    drawn = _block_draws(int(max(sizes.max(), lengths.max())), periods, a.paths, a.seed, cadence)
    years = np.cumsum(np.diff(edges)) / 24 / 365.25
    root = _correlation_root(fits, sizes)
    normal = np.random.default_rng([a.seed, len(cadence), 2]).standard_normal((a.paths, len(fits))) @ root.T
    shocks = np.random.default_rng([a.seed, len(cadence), 4]).standard_normal((a.paths, periods + STATES, len(fits))) @ root.T
    later = np.random.default_rng([a.seed, len(cadence), 7]).standard_normal((a.paths, AHEAD, len(fits))) @ root.T
    wander, slope = _wander(fits, shocks, periods, a, cadence)
    numbers = np.random.default_rng([a.seed, len(cadence), 8]).random(a.paths)
    half_life = HALF_LIFE_FACTOR ** np.random.default_rng([a.seed, len(cadence), 5]).standard_normal(a.paths)
    levels = np.empty((len(fits), a.paths, periods))
    for j, fit in enumerate(fits):
        late = round((start - fit.history.end) / HOUR / 24 / 365.25 * PERIODS_PER_YEAR[cadence])
        path = expected_path(fit, periods + late)[late:]
        ahead = years + late / PERIODS_PER_YEAR[cadence]
        spread = growth_spread(fit, a)
        grown = grown_years(ahead, half_life * max(GROWTH_HALF_LIFE_YEARS, GROWTH_LASTS * fit.years))
        own = slope[j][:, None] * grown
        if a.growth_share_per_year is not None:
            expected = fit.level.growth_per_year if fit.level is not None else 0.0
            own = np.log1p(a.growth_share_per_year) * (ahead - 0.5 / PERIODS_PER_YEAR[cadence]) + (
                0.0 if fit.extrapolated else own - expected * grown
            )
        factor = np.exp(own + normal[:, j, None] * spread * years)
        if fit.history.rhythm is not None:
            behind = round((start - fit.history.end) / pd.Timedelta(days=1))
            levels[j] = factor * rhythm_levels(
                fit.history.rhythm, periods, a.paths, np.random.default_rng([a.seed, name_seed(fit), 6]), behind
            )
        elif fit.history.kind == "intermittent":
            ratio = fit.history.level[lengths[j] - 1 - drawn % lengths[j]] / max(fit.history.level.mean(), 1e-300)
            levels[j] = fit.scale.mean * factor * ratio * np.exp(normal[:, j, None] * fit.rate_error - 0.5 * fit.rate_error**2)
        elif fit.level is None:
            # Too little to see any noise: the level itself is known to within the band of one year's growth.
            levels[j] = fit.scale.mean * factor * np.exp(normal[:, j, None] * spread)
        else:
            noise = fit.level.noise[sizes[j] - 1 - drawn % sizes[j]]
            levels[j] = fit.scale.unit(path + wander[j] + noise) * factor
            if fit.growth is not None and a.growth_share_per_year is None:
                growing = _growing(fit.growth, numbers, later[:, :, j], drawn, periods, late)
                middle = fit.scale.unit(path) * np.exp(fit.level.growth_per_year * grown_years(ahead, np.array([GROWTH_HALF_LIFE_YEARS])))
                levels[j] = _blended(levels[j], growing, middle, fit.growth, periods, late)
    if cadence == "day":
        weekday = (start.dayofweek + np.arange(periods)) % 7
        for j, fit in enumerate(fits):
            levels[j] *= fit.history.weekday_factor[weekday]
        drawn = _same_kind_of_day(drawn, weekday, start, int(lengths.max()))
    for j, fit in enumerate(fits):
        stated = [statement for statement in statements if statement.workload == fit.history.workload]
        levels[j] = apply_statements(levels[j], years, _share_of(fit, fits), stated, a.seed)
        if fit.history.last_day is not None:
            left = ((fit.history.last_day - start) / HOUR + 24 - edges[:-1]) / np.diff(edges)
            levels[j] *= np.clip(left, 0.0, 1.0)
    return Cohort(fits, start, edges, levels, drawn, [shapes_of(fit.history) for fit in fits])


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


def _growing(growth: GrowthLevel, numbers: Array, shocks: Array, drawn: Array, periods: int, late: int) -> Array:
    """Draw levels that follow the kinds of growth, with the swings of past periods around them (paths x periods)."""
    smooth = growth.paths(numbers, shocks, periods + late)[:, late:]
    size = len(growth.ratio)
    return smooth * growth.ratio[size - 1 - drawn % size]


def name_seed(fit: LevelFit) -> int:
    """Return a seed that belongs to a series: other series never change it."""
    return zlib.crc32(f"{fit.history.workload} {fit.history.region}".encode())


def growth_spread(fit: LevelFit, a: DemandAssumptions) -> float:
    """Return what is added to the deviation of yearly log growth, so that the stated 80 % band holds for short histories.

    Growth that the history leaves more uncertain than that keeps its own, wider band; stated growth has the stated band alone.
    """
    if fit.history.kind == "zero" or not fit.extrapolated:
        return 0.0
    stated = float(np.log1p(a.growth_band_share)) / NORMAL_90
    known = fit.level.growth_error_per_year if fit.level is not None and a.growth_share_per_year is None else 0.0
    return float(np.sqrt(max(0.0, stated**2 - known**2)))


def _block_draws(size: int, periods: int, paths: int, seed: int, cadence: str) -> Array:
    """Draw historical periods (counted backwards from the newest) in runs of random length, the stationary bootstrap.

    Source
    ------
    Politis and Romano, The stationary bootstrap, JASA 1994.
    """
    generator = np.random.default_rng([seed, len(cadence), 1])
    numbers = generator.random((paths, 2, periods))
    fresh = numbers[:, 0] < 1 / BLOCK_PERIODS
    fresh[:, 0] = True
    begun = np.maximum.accumulate(np.where(fresh, np.arange(periods), 0), axis=1)
    origin = np.take_along_axis((numbers[:, 1] * size).astype(int), begun, axis=1)
    return np.asarray((origin - (np.arange(periods) - begun)) % size)


def _same_kind_of_day(drawn: Array, weekday: Array, start: pd.Timestamp, size: int) -> Array:
    """Move each drawn day to one of the same kind (working day or weekend), so that shapes fit the calendar."""
    usable = min(size, RECENT_SHAPES["day"])
    past = (start.dayofweek - 1 - np.arange(usable)) % 7
    result = drawn.copy()
    for weekend in (False, True):
        pool = np.flatnonzero((past >= 5) == weekend)
        columns = np.flatnonzero((weekday >= 5) == weekend)
        if pool.size:
            result[:, columns] = pool[drawn[:, columns] % len(pool)]
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
        state = level.mean[pick] + np.einsum("pij,pj->pi", level.root[pick], shocks[:, : level.mean.shape[1], j])
        mean, departure = state[:, 0], state[:, 1]
        slope[j] = state[:, 2] + level.growth_per_year - level.weight @ level.mean[:, 2]
        persistence, innovation = level.persistence[pick], level.innovation[pick]
        for period in range(periods):
            departure = persistence * departure + innovation * shocks[:, period + STATES, j]
            result[j, :, period] = mean + departure
        result[j] += level.season(state, np.arange(1, periods + 1)) - level.path(periods)
    return result, slope


def _correlation_root(fits: list[LevelFit], sizes: Array) -> Array:
    """Return the Cholesky root of the correlation between series: that of the one-step errors of the common periods, shrunk."""
    count = len(fits)
    common = int(sizes[sizes > 3].min()) if (sizes > 3).any() else 0
    if common < 8 or count == 1:
        return np.eye(count)
    errors = np.column_stack(
        [fit.innovations[-common:] if size >= common else np.zeros(common) for fit, size in zip(fits, sizes, strict=True)]
    )
    spread = errors.std(axis=0)
    scaled = np.divide(errors - errors.mean(axis=0), spread, out=np.zeros_like(errors), where=spread > 1e-12)
    correlation = scaled.T @ scaled / (common + SHRINK_PERIODS)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(np.linalg.cholesky(correlation))
