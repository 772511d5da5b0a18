"""Which level model to believe: statsforecast candidates, judged by rolling origins on held-out periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capplan.questions.demand.candidates import level_candidates, rate_candidates
from capplan.questions.demand.history import History
from capplan.questions.demand.selection import Choice, Score, choose, origins_of

Array = np.ndarray
#: Periods in a year, and in the quarter that rolling origins look ahead, by cadence.
PERIODS_PER_YEAR = {"day": 365.25, "week": 365.25 / 7, "month": 12.0}
HORIZON_PERIODS = {"day": 28, "week": 13, "month": 3}
WINDOW_PERIODS = {"day": 7, "week": 4, "month": 3}
MAXIMUM_ORIGINS = 6
#: Levels below this share of the median positive level are raised to it before logarithms are taken.
FLOOR_SHARE = 0.01
#: Calibration may widen a series' noise at most by this factor; more says that the model is wrong, not the width.
WIDEST_CALIBRATION = 3.0
#: After this many years half of an estimated growth rate is gone (damped trend).
GROWTH_HALF_LIFE_YEARS = 1.0


@dataclass(frozen=True)
class LevelFit:
    """All that simulation needs to know about one series' level; logarithms of demand per day.

    Parameters
    ----------
    history
        The series.
    model
        Name of the chosen candidate.
    scores
        One row a candidate; empty where the history allows no test.
    path
        Median of the log level for the periods that rolling origins have tested.
    season
        Log season of each period of the year (52 or 12 values; zeros where it cannot be known).
    season_error
        Standard error of the log season: one yearly cycle is one observation of it.
    residuals
        One-step errors of the log level, one for each period of the history.
    persistence
        Share of a shock that stays for good (smoothing weight of the local level).
    widening
        Factor on the noise so that its spread over a quarter is not narrower than the errors of the rolling origins.
    growth_log_per_year, growth_error_log_per_year
        Yearly log growth estimated from the history, and the standard error where two yearly cycles allow one (else NaN).
    years
        Length of the history.
    """

    history: History
    model: str
    scores: tuple[Score, ...]
    path: Array
    season: Array
    season_error: float
    residuals: Array
    persistence: float
    widening: float
    growth_log_per_year: float
    growth_error_log_per_year: float
    years: float

    @property
    def extrapolated(self) -> bool:
        """Tell whether growth beyond the tested horizon is an assumption instead of an estimate."""
        return self.years < 2.0


def fit_level(history: History) -> LevelFit:
    """Choose and fit the model of one series' level.

    Candidates forecast the log level from up to six earlier origins, a quarter ahead each. The one with the lowest
    pinball loss is chosen; its quantiles at an origin come from its errors at the *other* origins, so that no candidate is
    judged on what it has seen. A tie within one percent goes to the combination, which is the safer bet.

    Parameters
    ----------
    history
        A repaired history.

    Returns
    -------
    LevelFit
        Median path, noise and growth.

    Source
    ------
    Gneiting and Raftery, Strictly proper scoring rules, JASA 2007 (pinball loss); Makridakis, Spiliotis, Assimakopoulos,
    The M4 competition, IJF 2020 (combinations, damping).
    """
    years = len(history.level) / PERIODS_PER_YEAR[history.cadence]
    season_size = {"week": 52, "month": 12}.get(history.cadence, 1)
    if history.kind in ("zero", "short"):
        mean = float(history.level.mean()) if len(history.level) else 0.0
        path = np.full(1, np.log(mean) if mean > 0 else -np.inf)
        return LevelFit(history, "zero" if mean <= 0 else "mean of a short history", (), path, np.zeros(season_size), 0.0, np.zeros(1), 0.0, 1.0, 0.0, np.nan, years)
    if history.kind == "intermittent":
        return _fit_intermittent(history, years, season_size)
    positive = history.level[history.level > 0]
    log_level = np.log(np.maximum(history.level, FLOOR_SHARE * np.median(positive)))
    centre = float(log_level.mean())
    season, season_error = yearly_season(log_level, history, years)
    plain = log_level - centre - _season_of(history, season, 0, len(log_level))
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(plain) // 3))
    origins = origins_of(len(plain), horizon, MAXIMUM_ORIGINS)
    choice = choose(plain, horizon, level_candidates(WINDOW_PERIODS[history.cadence]), origins, lambda x: np.exp(x + centre))
    persistence, residuals = local_level(plain)
    widening = _widening(choice, residuals, persistence)
    growth, growth_error = _growth(plain, history.cadence, years, persistence, residuals)
    return LevelFit(history, choice.model, choice.scores, centre + choice.path, season, season_error, residuals, persistence, widening, growth, growth_error, years)


def local_level(values: Array) -> tuple[float, Array]:
    r"""Fit a local level; return the smoothing weight and the one-step errors of all periods.

    .. math:: l_t = l_{t-1} + \alpha e_t,\quad e_t = y_t - l_{t-1}
    """
    start = float(values[: min(4, len(values))].mean())
    best: tuple[float, float, Array] | None = None
    for weight in np.linspace(0.05, 1.0, 20):
        level, errors = start, np.empty(len(values))
        for t, value in enumerate(values):
            errors[t] = value - level
            level += weight * errors[t]
        loss = float(np.mean(errors**2))
        if best is None or loss < best[0] - 1e-12:
            best = (loss, float(weight), errors)
    assert best is not None
    errors = best[2] - best[2].mean()
    return best[1], errors


def _widening(choice: Choice, residuals: Array, persistence: float) -> float:
    """Compare the errors of horizon means at the rolling origins with what the noise alone would give; never narrow."""
    if len(choice.errors) < 2:
        return 1.0
    horizon = choice.errors.shape[1]
    # One more outcome after K independent ones has 1 + 1/K times their variance.
    seen = float(np.sqrt(np.mean(choice.errors.mean(axis=1) ** 2) * (1 + 1 / choice.independent)))
    # The mean over h of r_h + w sum_{j<h} r_j puts weight (1 + w (H - j)) / H on shock j.
    weights = (1 + persistence * (horizon - 1 - np.arange(horizon))) / horizon
    expected = float(residuals.std() * np.sqrt(np.sum(weights**2)))
    return float(np.clip(seen / expected, 1.0, WIDEST_CALIBRATION)) if expected > 0 else 1.0


def _growth(plain: Array, cadence: str, years: float, persistence: float, residuals: Array) -> tuple[float, float]:
    """Estimate log growth a year by the median of pairwise slopes, and its error where two yearly cycles are known."""
    from scipy.stats import theilslopes

    per_year = PERIODS_PER_YEAR[cadence]
    recent = plain[-int(min(len(plain), 2 * per_year)) :]
    if years < 0.5:
        return 0.0, np.nan
    slope = float(theilslopes(recent, np.arange(len(recent)))[0]) * per_year
    # A local level's drift over n years is known to within persistence * sd * sqrt(periods a year / n).
    error = persistence * float(residuals.std()) * np.sqrt(per_year / years) if years >= 2 else np.nan
    return slope, float(error)


def yearly_season(log_level: Array, history: History, years: float) -> tuple[Array, float]:
    """Estimate the yearly season from two cycles or more: two harmonics beside a trend that may bend once, shrunk by their share of the variance.

    Parameters
    ----------
    log_level
        Log level of each period.
    history
        The series; its cadence is used.
    years
        Length of the history.

    Returns
    -------
    season
        Log season of each period of the year, mean 0; zeros where there are less than two cycles.
    error
        Its standard error: the spread around trend and season over the root of the number of cycles.
    """
    size = {"week": 52, "month": 12}.get(history.cadence, 1)
    if size == 1 or years < 2.0:
        return np.zeros(size), 0.0
    t = np.arange(len(log_level))
    trend = np.column_stack([np.ones(len(t)), t, np.maximum(0, t - len(t) / 2)])
    waves = _harmonics(2 * np.pi * t / PERIODS_PER_YEAR[history.cadence])
    beta, *_ = np.linalg.lstsq(np.column_stack([trend, waves]), log_level, rcond=None)
    fitted, rest = waves @ beta[3:], log_level - np.column_stack([trend, waves]) @ beta
    if not fitted.var() > 0:
        return np.zeros(size), 0.0
    season = _harmonics(2 * np.pi * np.arange(size) / size) @ beta[3:]
    return float(fitted.var() / (fitted.var() + rest.var())) * (season - season.mean()), float(rest.std() / np.sqrt(years))


def _harmonics(angle: Array) -> Array:
    return np.column_stack([wave(k * angle) for k in (1, 2) for wave in (np.sin, np.cos)])


def _season_of(history: History, season: Array, first: int, count: int) -> Array:
    """Return the season of `count` periods from period `first` of the history on."""
    position = (first + np.arange(count)) % PERIODS_PER_YEAR[history.cadence]
    return season[np.minimum(position.astype(int), len(season) - 1)] if len(season) > 1 else np.zeros(count)


def median_path(fit: LevelFit, periods: int, growth_share_per_year: float | None) -> Array:
    r"""Extend the tested median path to any horizon by growth.

    Estimated growth fades: after t years beyond the tested horizon, log growth adds up to
    :math:`g (1 - 2^{-t/T}) T / \ln 2` with T one year. Stated growth is taken as stated, from the end of the history on.

    Parameters
    ----------
    fit
        The level model.
    periods
        How many periods to return.
    growth_share_per_year
        Stated yearly growth, or None for the estimate.

    Returns
    -------
    numpy.ndarray
        Median log level of each period (minus infinity for a series without demand).
    """
    per_year = PERIODS_PER_YEAR[fit.history.cadence]
    tested = len(fit.path)
    if growth_share_per_year is not None:
        base = float(fit.path[: WINDOW_PERIODS[fit.history.cadence]].mean())
        path = base + np.log1p(growth_share_per_year) * (np.arange(periods) + 0.5) / per_year
    else:
        beyond = np.maximum(0, np.arange(periods) - tested + 1) / per_year
        faded = GROWTH_HALF_LIFE_YEARS / np.log(2) * (1 - 0.5 ** (beyond / GROWTH_HALF_LIFE_YEARS))
        path = np.concatenate([fit.path, np.full(max(0, periods - tested), fit.path[-1])])[:periods] + fit.growth_log_per_year * faded
    return path + _season_of(fit.history, fit.season, len(fit.history.level), periods)


def _fit_intermittent(history: History, years: float, season_size: int) -> LevelFit:
    """Choose a rate for demand with many empty periods; its noise is the history itself."""
    scale = float(history.level.mean())
    values = history.level / scale
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(values) // 3))
    origins = origins_of(len(values), horizon, MAXIMUM_ORIGINS)
    choice = choose(values, horizon, rate_candidates(WINDOW_PERIODS[history.cadence]), origins, lambda x: np.maximum(x, 0.0) * scale)
    rate = max(0.0, float(choice.path.mean())) * scale
    path = np.full(1, np.log(rate) if rate > 0 else -np.inf)
    return LevelFit(history, choice.model, choice.scores, path, np.zeros(season_size), 0.0, np.zeros(1), 0.0, 1.0, 0.0, np.nan, years)
