"""The forecasters that compete: statsforecast's, and a seasonal autoregression for fine-grained series."""

from collections.abc import Callable
from typing import Any

import numpy as np

from capplan.loading import quickly
from capplan.questions.demand.selection import Forecaster

Array = np.ndarray
#: Ridge penalty of the autoregressions, as a share of the series' variance and for each observation.
RIDGE = 1e-4
#: An autoregression's path may leave the range of its history by this share of the range.
OVERSHOOT = 0.3


def from_statsforecast(make: Callable[[], Any], at_least: int = 3) -> Forecaster:
    """Wrap a statsforecast model as a forecaster; shorter histories than `at_least` are answered by their last value."""

    def forecast(values: Array, horizon: int) -> Array:
        if len(values) < at_least:
            return np.full(horizon, values[-1])
        return np.asarray(make().forecast(y=np.ascontiguousarray(values, dtype=float), h=horizon)["mean"])

    return forecast


def level_candidates(window: int, season: int | None = None) -> dict[str, Forecaster]:
    """Return the forecasters of a level.

    Args:
        window: Periods that the window mean looks back.
        season: Periods in a yearly cycle, where the history holds two of them.
    """
    m = quickly("statsforecast.models")

    seasonal = {"seasonal naive": _seasonal_naive(season), "mstl": mstl(season)} if season else {}
    return seasonal | {
        "naive": from_statsforecast(m.Naive, 1),
        "window mean": from_statsforecast(lambda: m.WindowAverage(window), window),
        "ets": from_statsforecast(lambda: m.AutoETS(model="AZN"), 8),
        "damped trend": from_statsforecast(lambda: m.AutoETS(model="AAN", damped=True), 8),
        "theta": from_statsforecast(m.Theta, 8),
        "drift": from_statsforecast(m.RandomWalkWithDrift, 4),
        "damped slope": _damped_slope(window),
        "arima": from_statsforecast(lambda: m.ARIMA(order=(1, 0, 1), method="ML"), 12),
    }


def mstl(season: int) -> Forecaster:
    """Decompose by loess, and forecast trend and rest by exponential smoothing; a history below two cycles is answered by its last value.

    Source: Bandara, Hyndman and Bergmeir, MSTL: a seasonal-trend decomposition algorithm for time series with multiple seasonal patterns,
        2021.
    """
    m = quickly("statsforecast.models")

    return from_statsforecast(lambda: m.MSTL(season, trend_forecaster=m.AutoETS(model="ZZN")), 2 * season + 1)


def median_slope(values: Array) -> float:
    """Return the median of the slopes between all pairs of values, by period: a single odd value cannot bend it.

    Examples:
        >>> median_slope(np.array([1.0, 3.0, 5.0, 70.0, 9.0]))
        2.0

    Source: Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 1968.
    """
    early, late = np.triu_indices(len(values), 1)
    return float(np.median((values[late] - values[early]) / (late - early)))


def _damped_slope(window: int) -> Forecaster:
    """Go on from the recent mean with the median of all pairwise slopes, which one jump cannot bend; half fades over a history's length."""

    def forecast(values: Array, horizon: int) -> Array:
        recent = values[-min(window, len(values)) :]
        slope = median_slope(values) if len(values) >= 8 else 0.0
        steps = (len(recent) - 1) / 2 + np.arange(1, horizon + 1)
        life = len(values) / np.log(2)
        return np.asarray(recent.mean() + slope * life * (1 - np.exp(-steps / life)))

    return forecast


def rate_candidates(window: int) -> dict[str, Forecaster]:
    """Return the forecasters of intermittent demand.

    Args:
        window: Periods that the window mean looks back.
    """
    m = quickly("statsforecast.models")

    return {
        "mean": from_statsforecast(m.HistoricAverage, 1),
        "window mean": from_statsforecast(lambda: m.WindowAverage(window), window),
        "croston sba": from_statsforecast(m.CrostonSBA),
        "tsb": from_statsforecast(lambda: m.TSB(0.2, 0.2)),
        "adida": from_statsforecast(m.ADIDA),
        "imapa": from_statsforecast(m.IMAPA),
    }


def seasonal_candidates(seasons: tuple[int, ...], size: int) -> dict[str, Forecaster]:
    """Return the forecasters of a seasonal series of a given size.

    Args:
        seasons: Season lengths that the history holds at least twice, shortest first.
        size: Length of the shortest history they must work on.
    """
    found: dict[str, Forecaster] = {f"seasonal naive {season}": _seasonal_naive(season) for season in seasons}
    long = seasons[-1]
    if size >= 3 * seasons[0]:
        found |= {
            "autoregression": seasonal_autoregression(lags_of(seasons, size, "wide")),
            "autoregression, few lags": seasonal_autoregression(lags_of(seasons, size, "narrow")),
        }
    found["seasonal profile and local level"] = _profile(long)
    found[f"mean of seven seasons {seasons[0]}"] = _seasonal_mean(seasons[0], 7)
    if long <= 24:
        m = quickly("statsforecast.models")

        found |= {
            "naive": from_statsforecast(m.Naive, 1),
            "adjusted ets": _adjusted(long, from_statsforecast(lambda: m.AutoETS(model="AZN"), 8)),
            "adjusted damped trend": _adjusted(long, from_statsforecast(lambda: m.AutoETS(model="AAN", damped=True), 8)),
            "adjusted theta": _adjusted(long, from_statsforecast(m.Theta, 8)),
        }
    return found


def lags_of(seasons: tuple[int, ...], size: int, kind: str) -> Array:
    """Return the lags of a seasonal autoregression that a history of a given size can feed.

    Recent values, the seasons with their neighbours, and multiples of the shortest season up to the longest.

    Examples:
        >>> lags_of((12,), 60, "narrow").tolist()
        [1, 2, 3, 11, 12, 13, 23, 24, 25]
    """
    short, long = seasons[0], seasons[-1]
    recent = range(1, (min(short, 24) if kind == "wide" else 3) + 1)
    near = [season + step for season in {short, 2 * short, long} for step in (-1, 0, 1)]
    multiples = [short * k for k in range(3, long // short)]
    beyond = [long + short, long + short + 1] if kind == "wide" else [2 * long]
    lags = np.array(sorted({*recent, *near, *multiples, *beyond}))
    # At least half of the history must be left to learn from.
    return lags[(lags >= 1) & (lags <= size // 2)]


def seasonal_autoregression(lags: Array) -> Forecaster:
    r"""Return a ridge autoregression on chosen lags, iterated over the horizon.

    .. math:: \hat y_t = c + \sum_{l \in L} \beta_l y_{t-l},\quad \min \sum_t (y_t - \hat y_t)^2 + \lambda n \sigma^2 |\beta|^2

    Source: Hoerl and Kennard, Ridge regression, Technometrics 1970; Montero-Manso and Hyndman, Principles and algorithms for forecasting
        groups of time series, IJF 2021 (long linear autoregressions do well on hourly data).
    """

    def forecast(values: Array, horizon: int) -> Array:
        usable = lags[lags <= len(values) - max(8, len(lags) // 2)]
        centre = float(values[-min(len(values), int(usable[-1])) :].mean())
        spread = float(values.std())
        if spread <= 0:
            return np.full(horizon, values[-1])
        z = (values - centre) / spread
        rows = np.arange(int(usable[-1]), len(z))
        matrix = np.column_stack([z[rows[:, None] - usable], np.ones(len(rows))])
        penalty = np.full(len(usable) + 1, RIDGE * len(rows))
        penalty[-1] = 1e-9
        weights = np.linalg.solve(matrix.T @ matrix + np.diag(penalty), matrix.T @ z[rows])
        low, high = z.min() - OVERSHOOT * np.ptp(z), z.max() + OVERSHOOT * np.ptp(z)
        path = np.concatenate([z, np.empty(horizon)])
        for t in range(len(z), len(path)):
            path[t] = min(max(path[t - usable] @ weights[:-1] + weights[-1], low), high)
        return np.asarray(path[len(z) :] * spread + centre)

    return forecast


def _seasonal_naive(season: int) -> Forecaster:
    m = quickly("statsforecast.models")

    return from_statsforecast(lambda: m.SeasonalNaive(season), season)


def _seasonal_mean(season: int, cycles: int) -> Forecaster:
    m = quickly("statsforecast.models")

    def forecast(values: Array, horizon: int) -> Array:
        window = min(cycles, len(values) // season)
        return np.asarray(m.SeasonalWindowAverage(season, window).forecast(y=values, h=horizon)["mean"])

    return forecast


def seasonal_profile(values: Array, season: int) -> Array:
    """Return the additive season of each position (mean 0), from ratios to a centred moving mean over one season."""
    kernel = np.ones(season) if season % 2 else np.concatenate([[0.5], np.ones(season - 1), [0.5]])
    inner = np.convolve(values, kernel / season, mode="valid")
    half = (len(values) - len(inner)) // 2
    trend = np.concatenate([np.full(half, inner[0]), inner, np.full(len(values) - half - len(inner), inner[-1])])
    position = np.arange(len(values)) % season
    # Old cycles fade: habits of eight cycles ago weigh half.
    weight = 0.5 ** ((len(values) - 1 - np.arange(len(values))) / (8 * season))
    total = np.bincount(position, weight * (values - trend), season) / np.bincount(position, weight, season)
    return np.asarray(total - total.mean())


def _adjusted(season: int, model: Forecaster) -> Forecaster:
    """Forecast what is left without the season, and put the season back."""

    def forecast(values: Array, horizon: int) -> Array:
        if len(values) < 2 * season:
            return model(values, horizon)
        profile = seasonal_profile(values, season)
        position = np.arange(len(values) + horizon) % season
        return model(values - profile[position[: len(values)]], horizon) + profile[position[len(values) :]]

    return forecast


def _profile(season: int) -> Forecaster:
    """Add the season to an exponentially smoothed level."""
    m = quickly("statsforecast.models")

    return _adjusted(season, from_statsforecast(m.SimpleExponentialSmoothingOptimized))
