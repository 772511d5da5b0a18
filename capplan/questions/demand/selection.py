"""Which candidate to believe: rolling origins, a proper score, and errors that are never judged on themselves."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from capplan.questions.demand.accuracy import mase, pinball_loss

Array = np.ndarray
#: A forecaster takes a history and a horizon and returns the path of medians.
Forecaster = Callable[[Array, int], Array]
SCORED_QUANTILES = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
#: A combination within this factor of the best candidate's loss is preferred: it is the safer bet.
TIE = 1.05
#: A candidate no better than a plain one is believed half on this many independent origins, and more the better it was (for series,
#: by this power of the ratio of losses).
HALF_BELIEVED_ORIGINS, BELIEF_POWER = 2.0, 4.0


@dataclass(frozen=True)
class Score:
    """How one candidate did on the rolling origins of one series."""

    model: str  #: Candidate.
    pinball: float  #: Mean pinball loss over `SCORED_QUANTILES`, in the unit of the series.
    mase: float  #: Mean absolute error over that of the naive forecast inside the first history.
    coverage_share: float  #: Share of outcomes inside the 90 % band.
    bias_share: float  #: Forecast sum over outcome sum, minus 1.
    origins: int  #: Number of origins.
    chosen: bool  #: Is it the one that forecasts?


@dataclass(frozen=True)
class Choice:
    """The chosen candidate of one series: its name, all scores, its errors (origins x horizon), how many are independent, and its path.

    `guarded_share` is how far the path leans on the plain candidate that guards it.
    """

    model: str
    scores: tuple[Score, ...]
    errors: Array
    independent: float
    path: Array
    guarded_share: float = 0.0


def origins_of(size: int, horizon: int, at_most: int, first: int = 4) -> list[int]:
    """List the sizes of history from which forecasts are tried, oldest first, evenly spread.

    The newest leaves one horizon; the oldest keeps half of the history and at least `first` values.

    Examples:
        >>> origins_of(56, 13, 4)
        [22, 29, 36, 43]
    """
    last, start = size - horizon, max(first, size // 2 - horizon // 2)
    if last < start:
        return []
    return sorted({round(origin) for origin in np.linspace(start, last, min(at_most, last - start + 1))})


def _fence(logs: Array) -> tuple[float, float]:
    """Return what lies three interquartile ranges outside the quartiles; no fence where more than 5 % of the values are beyond it.

    Source: Tukey, Exploratory Data Analysis, 1977 (outer fences).
    """
    low, high = np.quantile(logs, [0.25, 0.75])
    reach = 3 * float(high - low)
    rare = reach > 0 and np.mean((logs < low - reach) | (logs > high + reach)) <= 0.05
    return (float(low) - reach, float(high) + reach) if rare else (-np.inf, np.inf)


def fenced(logs: Array) -> Array:
    """Pull rare outliers to the fence: outages are no demand."""
    return np.clip(logs, *_fence(logs))


def without_outages(logs: Array, season: int) -> Array:
    """Put what was there a season before in the place of values that fell below the fence; what falls every season is no outage."""
    low, _ = _fence(logs)
    whole = logs.copy()
    for place in np.flatnonzero(logs[season:] < low) + season:
        if whole[place - season] >= low:
            whole[place] = whole[place - season]
    return whole


def independent_origins(origins: list[int], horizon: int) -> float:
    """Count origins by the horizons they span without overlap: overlapping origins share most of their errors.

    Examples:
        >>> independent_origins([22, 29, 36, 43], 7), independent_origins([40, 41, 42, 43], 12)
        (4.0, 1.25)
    """
    return min(float(len(origins)), 1 + (origins[-1] - origins[0]) / horizon)


def choose(
    values: Array,
    horizon: int,
    candidates: dict[str, Forecaster],
    origins: list[int],
    natural: Callable[[Array], Array],
    steps: int | None = None,
    guard: str | None = None,
) -> Choice:
    """Judge candidates on rolling origins by pinball loss, and forecast with the best.

    Every candidate's quantiles at an origin come from its errors at the *other* origins. The mean of all candidates, weighted by one over
    the
    squared loss (at the other origins), competes as "combination" and wins ties within five percent. With fewer than two origins nothing
    can be
    judged, and the median of all candidates is taken untested.

    Args:
        values: History on the scale that candidates work on (usually logarithms).
        origins: Sizes of history to forecast from.
        natural: From the candidates' scale to the unit of the series, where scores are taken.
        steps: Length of the returned path, where it is longer than the tested horizon.
        guard: A plain candidate that the chosen one leans on, the more the less it was better: a few origins do not prove that it goes on
            to be.

    Returns:
        Choice: Best candidate, scores, errors and path.

    Source: Gneiting and Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 2007; Tashman, Out-of-sample tests of
        forecasting accuracy, IJF 2000 (rolling origins).
    """
    if len(origins) < 2:
        return Choice("combination", (), np.empty((0, horizon)), 0.0, np.median(_attempts(candidates, values, steps or horizon), axis=0))
    actual = np.array([values[origin : origin + horizon] for origin in origins])
    point = np.array([_attempts(candidates, values[:origin], horizon) for origin in origins]).swapaxes(0, 1)
    level = natural(actual)
    independent = independent_origins(origins, horizon)
    bands = [_bands(actual, forecast, independent) for forecast in point]
    losses = np.array([_losses(level, natural(band)) for band in bands])
    others = (losses.sum(axis=1, keepdims=True) - losses) / (len(origins) - 1)
    blend = np.einsum("mk,mkh->kh", _weights(others), point)
    point = np.concatenate([point, blend[None]])
    bands.append(_bands(actual, blend, independent))
    losses = np.concatenate([losses, _losses(level, natural(bands[-1]))[None]])
    names = [*candidates, "combination"]
    start = natural(values[: origins[0] + 1])
    scale = float(np.mean(np.abs(np.diff(start)))) if len(start) > 1 else 0.0
    mean = losses.mean(axis=1)
    best = len(names) - 1 if mean[-1] <= TIE * mean.min() else int(mean.argmin())
    scores = tuple(
        _score(name, level, natural(bands[m]), natural(point[m]), float(mean[m]), scale, m == best) for m, name in enumerate(names)
    )
    path = _attempts(candidates, values, steps or horizon)
    chosen = np.tensordot(_weights(losses[:-1].mean(axis=1, keepdims=True))[:, 0], path, axes=1) if best == len(names) - 1 else path[best]
    errors, lean = actual - point[best], 0.0
    if guard is not None and guard in names:
        plain = names.index(guard)
        ratio = float(mean[best] / mean[plain]) if mean[plain] > 0 else 1.0
        doubt = HALF_BELIEVED_ORIGINS * ratio**BELIEF_POWER
        lean = doubt / (independent + doubt)
        chosen, errors = (1 - lean) * chosen + lean * path[plain], (1 - lean) * errors + lean * (actual - point[plain])
    return Choice(names[best], scores, errors, independent, chosen, lean)


def _attempts(candidates: dict[str, Forecaster], values: Array, horizon: int) -> Array:
    """Forecast with all candidates (candidates x horizon)."""
    return np.array([attempt(model, values, horizon) for model in candidates.values()])


def _weights(losses: Array) -> Array:
    """Weigh candidates (rows) by one over their squared loss.

    Source: Bates and Granger, The combination of forecasts, Operational Research Quarterly 1969.
    """
    # A perfect candidate gets nearly all weight; where all are perfect, all weigh the same.
    largest = float(losses.max()) or 1.0
    inverse = 1 / np.maximum(losses / largest, 1e-6) ** 2
    return np.asarray(inverse / inverse.sum(axis=0))


def _bands(actual: Array, forecast: Array, independent: float) -> Array:
    """Return each origin's quantiles (origins x horizon x quantiles), from the errors at the other origins."""
    error = actual - forecast
    left = max(1.0, independent - 1)
    return forecast[:, :, None] + np.stack(
        [error_quantiles(np.delete(error, k, axis=0), left, SCORED_QUANTILES) for k in range(len(error))]
    )


def _losses(level: Array, predicted: Array) -> Array:
    """Return one candidate's pinball loss at each origin."""
    return np.array([pinball_loss(level[k][:, None], predicted[k], SCORED_QUANTILES) for k in range(len(level))])


def _score(name: str, level: Array, predicted: Array, middle: Array, pinball: float, scale: float, chosen: bool) -> Score:
    """Collect one candidate's measures."""
    inside = (level >= predicted[:, :, 0]) & (level <= predicted[:, :, -1])
    bias = float(middle.sum() / level.sum() - 1) if level.sum() > 0 else 0.0
    return Score(name, pinball, mase(level, middle, scale), float(inside.mean()), bias, len(level), chosen)


def attempt(model: Forecaster, values: Array, horizon: int) -> Array:
    """Forecast with one candidate; where it cannot take the series, or goes a range beyond the history's, the last value stands in."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            forecast = np.asarray(model(values, horizon), dtype=float)
    except Exception:  # statsforecast raises bare Exception on series its models cannot take
        return np.full(horizon, values[-1])
    low, high = float(values.min()), float(values.max())
    sound = np.isfinite(forecast).all() and forecast.min() >= 2 * low - high - 1e-9 and forecast.max() <= 2 * high - low + 1e-9
    return forecast if sound else np.full(horizon, values[-1])


def error_quantiles(errors: Array, independent: float, quantiles: Array) -> Array:
    r"""Return quantiles of the forecast error at each step (horizon x quantiles) from a few origins.

    .. math:: q_h(p) = \sigma_h\, z_p\, \sqrt{1 + 1/K}\; t_{K-1}(p) / t_\infty(p)

    sigma_h is the root mean square error of the steps around h, z_p a quantile of all errors over their sigma, around their median, and
    the last
    two factors are the small-sample correction for K independent origins.

    Args:
        errors (origins, horizon): Errors of rolling origins.
        independent: K, taken as 3 where it is less: one horizon alone says nothing about the spread between horizons.
        quantiles: Probabilities.

    Source: Lei et al., Distribution-free predictive inference for regression, JASA 2018 (scaled residuals); Student's t for K - 1 degrees
        of freedom, the interval for one more observation of a sample of K.
    """
    horizon = errors.shape[1]
    reach = max(2, horizon // 12)
    power = np.cumsum(np.concatenate([[0.0], np.mean(errors**2, axis=0)]))
    low, high = np.maximum(np.arange(horizon) - reach, 0), np.minimum(np.arange(horizon) + reach + 1, horizon)
    sigma = np.sqrt((power[high] - power[low]) / (high - low))
    if not sigma.max() > 0:
        return np.zeros((horizon, len(quantiles)))
    sigma = np.maximum(sigma, 1e-9 * sigma.max())
    pooled = (errors / sigma).ravel()
    standard = np.quantile(pooled, quantiles) - np.median(pooled)
    return np.asarray(sigma[:, None] * (standard * small_sample(round(max(3.0, independent), 2), tuple(quantiles))))


@cache
def small_sample(independent: float, quantiles: tuple[float, ...]) -> Array:
    """Return the factors that widen quantiles estimated from few independent errors."""
    from scipy.special import ndtri, stdtrit

    probability = np.asarray(quantiles)
    middle = np.abs(probability - 0.5) < 1e-9
    normal = np.where(middle, 1.0, ndtri(probability))
    return np.asarray(np.sqrt(1 + 1 / independent) * np.where(middle, 1.0, stdtrit(independent - 1, probability) / normal))
