"""Which level model to believe: statsforecast candidates, judged by rolling origins on held-out periods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capplan.questions.demand.accuracy import mase, pinball_loss
from capplan.questions.demand.history import History

Array = np.ndarray
#: Periods in a year, and in the quarter that rolling origins look ahead, by cadence.
PERIODS_PER_YEAR = {"day": 365.25, "week": 365.25 / 7, "month": 12.0}
HORIZON_PERIODS = {"day": 28, "week": 13, "month": 3}
WINDOW_PERIODS = {"day": 7, "week": 4, "month": 3}
MAXIMUM_ORIGINS = 6
SCORED_QUANTILES = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
#: Levels below this share of the median positive level are raised to it before logarithms are taken.
FLOOR_SHARE = 0.01
#: Calibration may widen a series' noise at most by this factor; more says that the model is wrong, not the width.
WIDEST_CALIBRATION = 3.0
#: After this many years half of an estimated growth rate is gone (damped trend).
GROWTH_HALF_LIFE_YEARS = 1.0


@dataclass(frozen=True)
class Score:
    """How one candidate did on the rolling origins of one series."""

    model: str
    pinball: float
    mase: float
    coverage_share: float
    bias_share: float
    origins: int
    chosen: bool


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
    residuals: Array
    persistence: float
    widening: float
    growth_log_per_year: float
    growth_error_log_per_year: float
    years: float

    @property
    def extrapolated(self) -> bool:
        """Is growth (and season) beyond the tested horizon an assumption instead of an estimate?"""
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
        return LevelFit(history, "zero" if mean <= 0 else "mean of a short history", (), path, np.zeros(season_size), np.zeros(1), 0.0, 1.0, 0.0, np.nan, years)
    if history.kind == "intermittent":
        return _fit_intermittent(history, years, season_size)
    positive = history.level[history.level > 0]
    log_level = np.log(np.maximum(history.level, FLOOR_SHARE * np.median(positive)))
    centre = float(log_level.mean())
    season = yearly_season(log_level, history, years)
    plain = log_level - centre - _season_of(history, season, 0, len(log_level))
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(plain) // 3))
    candidates = level_candidates(WINDOW_PERIODS[history.cadence])
    model, scores, errors = _select(plain, horizon, candidates, history, centre)
    path = centre + candidate_forecast(candidates, model, plain, horizon)
    persistence, residuals = local_level(plain)
    widening = _widening(errors, residuals, persistence)
    growth, growth_error = _growth(plain, history.cadence, years, persistence, residuals)
    return LevelFit(history, model, scores, path, season, residuals, persistence, widening, growth, growth_error, years)


def level_candidates(window: int) -> dict[str, Callable[[], object]]:
    """Return the candidates for a deseasonalised log level, as makers of statsforecast models."""
    from statsforecast import models as m

    return {
        "naive": m.Naive,
        "window mean": lambda: m.WindowAverage(window),
        "ets": lambda: m.AutoETS(model="AZN"),
        "damped trend": lambda: m.AutoETS(model="AAN", damped=True),
        "theta": lambda: m.Theta(),
        "drift": m.RandomWalkWithDrift,
        "arima": lambda: m.ARIMA(order=(1, 0, 1)),
    }


def candidate_forecast(candidates: dict[str, Callable[[], object]], model: str, values: Array, horizon: int) -> Array:
    """Forecast with one candidate, or with the median of all for "combination"; a candidate that fails falls back to the last value."""
    if model == "combination":
        return np.asarray(np.median([candidate_forecast(candidates, name, values, horizon) for name in candidates], axis=0))
    flat = np.full(horizon, values[-1])
    if len(values) < 8 and model in ("ets", "damped trend", "arima", "theta"):
        return flat
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forecast = np.asarray(candidates[model]().forecast(y=np.ascontiguousarray(values), h=horizon)["mean"], dtype=float)  # type: ignore[attr-defined]
    except Exception:  # statsforecast raises bare Exception on series its models cannot take; the last value is the stated fallback
        return flat
    return forecast if np.isfinite(forecast).all() else flat


def origins_of(size: int, horizon: int, at_most: int = MAXIMUM_ORIGINS) -> list[int]:
    """List the sizes of history from which forecasts are tried: the last one leaves one horizon, the first one half of the history."""
    last = size - horizon
    first = max(4, size // 2 - horizon // 2)
    if last < first:
        return []
    count = min(at_most, last - first + 1)
    return sorted({round(origin) for origin in np.linspace(first, last, count)})


def _select(plain: Array, horizon: int, candidates: dict[str, Callable[[], object]], history: History, centre: float) -> tuple[str, tuple[Score, ...], Array]:
    """Judge all candidates; return the best one's name, all scores, and its errors (origins x horizon)."""
    origins = origins_of(len(plain), horizon)
    if len(origins) < 2:
        return "combination", (), np.empty((0, horizon))
    actual = np.array([plain[origin : origin + horizon] for origin in origins])
    point = {name: np.array([candidate_forecast(candidates, name, plain[:origin], horizon) for origin in origins]) for name in candidates}
    point["combination"] = np.median(list(point.values()), axis=0)
    scale = float(np.mean(np.abs(np.diff(np.exp(centre + plain[: origins[0] + 1]))))) or 1.0
    found = {}
    for name, forecast in point.items():
        error = actual - forecast
        quantiles = np.stack([held_out_quantiles(error, origin, SCORED_QUANTILES) for origin in range(len(origins))])
        predicted = np.exp(centre + forecast[:, :, None] + quantiles)
        level = np.exp(centre + actual)
        inside = (level >= predicted[:, :, 0]) & (level <= predicted[:, :, -1])
        found[name] = Score(
            model=name,
            pinball=pinball_loss(level[:, :, None], predicted, SCORED_QUANTILES),
            mase=mase(level, np.exp(centre + forecast), scale),
            coverage_share=float(inside.mean()),
            bias_share=float(np.exp(centre + forecast).sum() / level.sum() - 1),
            origins=len(origins),
            chosen=False,
        )
    best = min(found.values(), key=lambda score: score.pinball)
    if found["combination"].pinball <= 1.01 * best.pinball:
        best = found["combination"]
    scores = tuple(Score(**{**score.__dict__, "chosen": score.model == best.model}) for score in found.values())
    return best.model, scores, actual - point[best.model]


def held_out_quantiles(errors: Array, left_out: int, quantiles: Array) -> Array:
    """Return error quantiles (horizon x quantile) from all origins but one; each lead time is pooled with its neighbours."""
    others = np.delete(errors, left_out, axis=0)
    horizon = others.shape[1]
    result = np.empty((horizon, len(quantiles)))
    for step in range(horizon):
        near = slice(max(0, step - 2), min(horizon, step + 3))
        result[step] = np.quantile(others[:, near], quantiles)
    return result


def local_level(values: Array) -> tuple[float, Array]:
    """Fit a local level; return the smoothing weight and the one-step errors of all periods.

    .. math:: l_t = l_{t-1} + \\alpha e_t,\\quad e_t = y_t - l_{t-1}
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


def _widening(errors: Array, residuals: Array, persistence: float) -> float:
    """Compare the errors of quarter means at the rolling origins with what the noise alone would give; never narrow."""
    if len(errors) < 2:
        return 1.0
    horizon = errors.shape[1]
    seen = float(np.sqrt(np.mean(errors.mean(axis=1) ** 2)))
    # The mean over h of e_{t+h} = r_h + w sum_{j<h} r_j puts weight (1 + w (H - j)) / H on shock j.
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


def yearly_season(log_level: Array, history: History, years: float) -> Array:
    """Estimate the yearly season from two cycles or more (first two harmonics beside a trend, shrunk); zeros otherwise."""
    size = {"week": 52, "month": 12}.get(history.cadence, 1)
    if size == 1 or years < 2.0:
        return np.zeros(size)
    t = np.arange(len(log_level))
    angle = 2 * np.pi * t / PERIODS_PER_YEAR[history.cadence]
    waves = np.column_stack([f(k * angle) for k in (1, 2) for f in (np.sin, np.cos)])
    trend = np.column_stack([np.ones(len(t)), t, np.maximum(0, t - len(t) / 2)])
    beta, *_ = np.linalg.lstsq(np.column_stack([trend, waves]), log_level, rcond=None)
    fitted = waves @ beta[3:]
    rest = log_level - np.column_stack([trend, waves]) @ beta
    signal = float(fitted.var() / (fitted.var() + rest.var())) if fitted.var() > 0 else 0.0
    grid = 2 * np.pi * np.arange(size) * (PERIODS_PER_YEAR[history.cadence] / size) / PERIODS_PER_YEAR[history.cadence]
    season = np.column_stack([f(k * grid) for k in (1, 2) for f in (np.sin, np.cos)]) @ beta[3:]
    return signal * (season - season.mean())


def _season_of(history: History, season: Array, first: int, count: int) -> Array:
    """Return the season of `count` periods from period `first` of the history on."""
    position = (first + np.arange(count)) % PERIODS_PER_YEAR[history.cadence]
    return season[np.minimum(position.astype(int), len(season) - 1)] if len(season) > 1 else np.zeros(count)


def median_path(fit: LevelFit, periods: int, growth_share_per_year: float | None) -> Array:
    """Extend the tested median path to any horizon by growth.

    Estimated growth fades: after t years beyond the tested horizon, log growth adds up to
    :math:`g (1 - 2^{-t/T}) T / \\ln 2` with T one year. Stated growth is taken as stated, from the end of the history on.

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
    from statsforecast import models as m

    candidates: dict[str, Callable[[], object]] = {
        "croston sba": m.CrostonSBA,
        "tsb": lambda: m.TSB(0.2, 0.2),
        "adida": m.ADIDA,
        "imapa": m.IMAPA,
        "mean": m.HistoricAverage,
        "window mean": lambda: m.WindowAverage(WINDOW_PERIODS[history.cadence]),
    }
    scale = float(history.level.mean())
    values = history.level / scale
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(values) // 3))
    origins = origins_of(len(values), horizon)
    scores = []
    for name in candidates:
        # A rate is judged on the mean of the horizon: single periods are mostly empty.
        pairs = np.array([(values[o : o + horizon].mean(), max(0.0, candidate_forecast(candidates, name, values[:o], 1)[0])) for o in origins]).reshape(-1, 2)
        if len(pairs) >= 2:
            error = (pairs[:, 0] - pairs[:, 1])[:, None]
            quantiles = np.stack([held_out_quantiles(error, k, SCORED_QUANTILES) for k in range(len(pairs))])
            predicted = np.maximum(0.0, pairs[:, 1][:, None, None] + quantiles)
            loss = pinball_loss(pairs[:, 0][:, None, None], predicted, SCORED_QUANTILES) * scale
            inside = (pairs[:, 0] >= predicted[:, 0, 0]) & (pairs[:, 0] <= predicted[:, 0, -1])
            base = float(np.mean(np.abs(np.diff(values[: origins[0] + 1])))) or 1.0
            total = float(pairs[:, 0].sum())
            bias = float(pairs[:, 1].sum() / total - 1) if total > 0 else 0.0
            scores.append(Score(name, loss, mase(pairs[:, 0], pairs[:, 1], base), float(inside.mean()), bias, len(pairs), False))
    model = min(scores, key=lambda score: score.pinball).model if scores else "mean"
    rate = max(0.0, float(candidate_forecast(candidates, model, values, 1)[0])) * scale
    marked = tuple(Score(**{**score.__dict__, "chosen": score.model == model}) for score in scores)
    path = np.full(1, np.log(rate) if rate > 0 else -np.inf)
    return LevelFit(history, model, marked, path, np.zeros(season_size), np.zeros(1), 0.0, 1.0, 0.0, np.nan, years)
