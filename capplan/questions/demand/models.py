"""Which level model to believe: statsforecast candidates, judged by rolling origins on held-out periods."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from capplan.questions.demand.candidates import level_candidates, rate_candidates
from capplan.questions.demand.history import History
from capplan.questions.demand.level import GROWTH_PRIOR_PER_YEAR, LevelPosterior, Scale, level_posterior
from capplan.questions.demand.selection import Choice, Forecaster, Score, choose, fenced, origins_of

Array = np.ndarray
#: Periods in a year, and in the quarter that rolling origins look ahead, by cadence.
PERIODS_PER_YEAR = {"day": 365.25, "week": 365.25 / 7, "month": 12.0}
HORIZON_PERIODS = {"day": 28, "week": 13, "month": 3}
WINDOW_PERIODS = {"day": 7, "week": 4, "month": 3}
MAXIMUM_ORIGINS = 6
#: Levels below this share of the median positive level are raised to it before logarithms are taken.
FLOOR_SHARE = 0.01
#: A candidate no better than the mean-reverting level, on this many independent origins, is believed half.
HALF_BELIEVED_ORIGINS = 2.0
#: After this many years half of an estimated growth rate is gone (damped trend).
GROWTH_HALF_LIFE_YEARS = 2.0
#: Amplitude of a yearly season that a history of less than two cycles may hide; growth is shrunk by what it may feign.
HIDDEN_SEASON = 0.15
#: In shorter histories than this a single odd period can bend the estimated growth.
ROBUST_BELOW_YEARS = 0.5
#: The rate of intermittent demand is known like the mean of independent blocks of this many periods.
RATE_BLOCK_PERIODS = 4


@dataclass(frozen=True)
class LevelFit:
    """All that simulation needs to know about one series' level, on its own scale (see `Scale`).

    Parameters
    ----------
    history
        The series.
    model
        Name of the chosen candidate.
    scores
        One row a candidate; empty where the history allows no test.
    scale
        From demand a day to the scale of the level.
    path
        Expected level for the periods that rolling origins have tested.
    level
        What the history says of the level, its persistence and its noise; None where it is too short or intermittent.
    season
        Season of each period of the year on the scale (52 or 12 values; zeros where it cannot be known).
    season_error
        Standard error of the season: one yearly cycle is one observation of it.
    rate_error
        Standard error of the logarithm of an intermittent rate.
    innovations
        One-step errors of the level, one for each period: they tell how workloads move together.
    years
        Length of the history.
    """

    history: History
    model: str
    scores: tuple[Score, ...]
    scale: Scale
    path: Array
    level: LevelPosterior | None
    season: Array
    season_error: float
    rate_error: float
    innovations: Array
    years: float

    @property
    def extrapolated(self) -> bool:
        """Tell whether growth beyond the tested horizon is an assumption instead of an estimate."""
        return self.years < 2.0


def fit_level(history: History) -> LevelFit:
    """Choose and fit the model of one series' level.

    Candidates forecast the level from up to six earlier origins, a quarter ahead each; the mean-reverting level of `level_posterior` is one of them. The one with the lowest
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
        model = "zero" if mean <= 0 else "mean of a short history"
        return LevelFit(history, model, (), Scale(mean, 0.0), np.zeros(1), None, np.zeros(season_size), 0.0, 0.0, np.zeros(1), years)
    if history.kind == "intermittent":
        return _fit_intermittent(history, years, season_size)
    floor = FLOOR_SHARE * float(np.median(history.level[history.level > 0]))
    scale = Scale.of(history.level)
    values = fenced(scale.log(np.maximum(history.level, floor)))
    centre = float(values.mean())
    season, season_error = yearly_season(values, history, years)
    plain = values - centre - season_of(history, season, 0, len(values))
    per_year = PERIODS_PER_YEAR[history.cadence]
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(plain) // 3))
    origins = origins_of(len(plain), horizon, MAXIMUM_ORIGINS)
    candidates = {**level_candidates(WINDOW_PERIODS[history.cadence]), "mean-reverting level": _mean_reverting(per_year)}
    choice = choose(plain, horizon, candidates, origins, lambda x: scale.unit(x + centre))
    level = level_posterior(plain, per_year)
    growth = level.growth_per_year if years >= ROBUST_BELOW_YEARS else _robust_growth(level.growth_per_year, plain, per_year)
    level = replace(level, growth_per_year=growth * (growth_kept(years) if years < 2.0 else 1.0))
    believed = _belief(choice)
    path = level.path(horizon) + believed * (choice.path - level.path(horizon))
    innovations = np.diff(plain, prepend=plain[0]) if len(plain) < 8 else one_step_errors(plain)
    return LevelFit(
        history, choice.model, choice.scores, scale, centre + path, _moved(level, centre), season, season_error, 0.0, innovations, years
    )


def _belief(choice: Choice) -> float:
    """Say how far the chosen candidate is believed against the mean-reverting level: the more origins it won on, and the clearer, the more."""
    loss = {score.model: score.pinball for score in choice.scores}
    own = next((score.pinball for score in choice.scores if score.chosen), None)
    if own is None:
        return 0.0
    reference = loss["mean-reverting level"]
    ratio = own / reference if reference > 0 else 1.0
    return float(choice.independent / (choice.independent + HALF_BELIEVED_ORIGINS * ratio**2))


def _mean_reverting(periods_per_year: float) -> Forecaster:
    """Forecast with the mean-reverting level and its shrunk growth."""

    def forecast(values: Array, horizon: int) -> Array:
        level = level_posterior(values, periods_per_year)
        return np.asarray(level.path(horizon) + level.growth_per_year * np.arange(1, horizon + 1) / periods_per_year)

    return forecast


def _robust_growth(growth_per_year: float, values: Array, periods_per_year: float) -> float:
    """Let growth go no further than the median of all pairwise slopes, which a single odd period cannot bend.

    Source
    ------
    Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 1968.
    """
    from scipy.stats import theilslopes

    median = float(theilslopes(values, np.arange(len(values)))[0]) * periods_per_year
    return float(np.clip(growth_per_year, min(0.0, median), max(0.0, median)))


def growth_kept(years: float) -> float:
    r"""Return the share of an estimated growth that a season hidden in a short history leaves to be believed.

    .. math:: \frac{G^2}{G^2 + s^2},\quad s = \frac{12 A}{\sqrt 2\, T^3} \Big| \frac{\sin \pi T}{2 \pi^2} - \frac{T \cos \pi T}{2 \pi} \Big|

    s is the root mean square slope, over all phases, of a sine of amplitude A through T years, and G the prior deviation of growth.

    Examples
    --------
    >>> round(growth_kept(0.25), 2), round(growth_kept(1.08), 2)
    (0.29, 0.87)
    """
    slope = (
        12
        * HIDDEN_SEASON
        / np.sqrt(2)
        / years**3
        * abs(np.sin(np.pi * years) / (2 * np.pi**2) - years * np.cos(np.pi * years) / (2 * np.pi))
    )
    return float(GROWTH_PRIOR_PER_YEAR**2 / (GROWTH_PRIOR_PER_YEAR**2 + slope**2))


def _moved(level: LevelPosterior, centre: float) -> LevelPosterior:
    """Put a centred level back to where it was."""
    return replace(level, mean=level.mean + np.array([centre, 0.0]))


def one_step_errors(values: Array) -> Array:
    r"""Return the one-step errors of the exponentially smoothed level that has the smallest of them.

    .. math:: l_t = l_{t-1} + \alpha e_t,\quad e_t = y_t - l_{t-1}
    """
    start = float(values[: min(4, len(values))].mean())
    weights = np.linspace(0.05, 1.0, 20)
    level, errors = np.full(len(weights), start), np.empty((len(values), len(weights)))
    for t, value in enumerate(values):
        errors[t] = value - level
        level += weights * errors[t]
    best = errors[:, int(np.argmin(np.round(np.mean(errors**2, axis=0), 12)))]
    return np.asarray(best - best.mean())


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


def season_of(history: History, season: Array, first: int, count: int) -> Array:
    """Return the season of `count` periods from period `first` of the history on."""
    position = (first + np.arange(count)) % PERIODS_PER_YEAR[history.cadence]
    return season[np.minimum(position.astype(int), len(season) - 1)] if len(season) > 1 else np.zeros(count)


def expected_path(fit: LevelFit, periods: int, growth_share_per_year: float | None) -> tuple[Array, Array]:
    r"""Extend the tested path to any horizon: the level reverts, growth fades.

    What the chosen candidate says beside the mean-reverting level fades like any other departure. Estimated growth adds, after t years beyond the
    tested horizon, :math:`g (1 - 2^{-t/T}) T / \ln 2` with T two years. Stated growth is taken as stated, from the end of the history on.

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
    level
        Expected level of each period on the scale, season included.
    growth
        Logarithm of the growth of each period, to be applied to demand itself.
    """
    per_year = PERIODS_PER_YEAR[fit.history.cadence]
    tested = len(fit.path)
    if fit.level is None:
        path, growth = np.full(periods, fit.path[0]), 0.0
    else:
        growth = fit.level.growth_per_year
        own = fit.level.path(max(periods, tested))
        beyond = fit.level.left(max(1, periods - tested + 1))[1:]
        path = own[:periods].copy()
        path[:tested] = fit.path[:periods]
        path[tested:] += (fit.path[-1] - own[tested - 1]) * beyond[: max(0, periods - tested)]
    if growth_share_per_year is not None:
        log_growth = np.log1p(growth_share_per_year) * (np.arange(periods) + 0.5) / per_year
    else:
        ahead = np.maximum(0, np.arange(periods) - tested + 1) / per_year
        log_growth = growth * GROWTH_HALF_LIFE_YEARS / np.log(2) * (1 - 0.5 ** (ahead / GROWTH_HALF_LIFE_YEARS))
    return path + season_of(fit.history, fit.season, len(fit.history.level), periods), np.asarray(log_growth)


def _fit_intermittent(history: History, years: float, season_size: int) -> LevelFit:
    """Choose a rate for demand with many empty periods; its noise is the history itself."""
    scale = float(history.level.mean())
    values = history.level / scale
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(values) // 3))
    origins = origins_of(len(values), horizon, MAXIMUM_ORIGINS)
    choice = choose(values, horizon, rate_candidates(WINDOW_PERIODS[history.cadence]), origins, lambda x: np.maximum(x, 0.0) * scale)
    rate = max(0.0, float(choice.path.mean())) * scale
    blocks = len(values) // RATE_BLOCK_PERIODS
    error = 1.0
    if blocks >= 2:
        sums = values[len(values) - blocks * RATE_BLOCK_PERIODS :].reshape(blocks, -1).mean(axis=1)
        error = min(1.0, float(np.sqrt(np.log1p(sums.var(ddof=1) / blocks))))
    return LevelFit(
        history, choice.model, choice.scores, Scale(rate, 0.0), np.zeros(1), None, np.zeros(season_size), 0.0, error, np.zeros(1), years
    )
