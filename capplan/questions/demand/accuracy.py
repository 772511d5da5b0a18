"""How good a forecast was: the field's measures, and the bands finance people expect."""

import numpy as np

from capplan.quantiles import weighted_quantiles

Array = np.ndarray
#: Quantiles that forecasts state and are scored on.
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
#: Largest absolute error of a total that each maturity level allows (FinOps Framework, capability Forecasting).
FINOPS_BANDS = {"run": 0.12, "walk": 0.15, "crawl": 0.20}


def smape(actual: Array, forecast: Array) -> float:
    r"""Return the symmetric absolute percentage error, as a percentage like the M4 competition.

    .. math:: \text{sMAPE} = \frac{200}{h} \sum_t \frac{|y_t - f_t|}{|y_t| + |f_t|}

    Both zero counts as no error.

    Source: Makridakis, Spiliotis, Assimakopoulos, The M4 competition, IJF 2020.

    Examples:
        >>> float(round(smape(np.array([100.0, 200.0]), np.array([110.0, 180.0])), 4))
        10.0251
    """
    size = np.abs(actual) + np.abs(forecast)
    ratio = np.divide(np.abs(actual - forecast), size, out=np.zeros(np.broadcast(actual, forecast).shape), where=size > 0)
    return float(200.0 * ratio.mean())


def seasonal_scale(history: Array, season: int) -> float:
    """Return the mean absolute error of the seasonal naive forecast inside the history: the yardstick of MASE.

    Examples:
        >>> seasonal_scale(np.array([1.0, 2.0, 2.0, 4.0]), 2)
        1.5
    """
    lag = season if len(history) > season else 1
    return float(np.mean(np.abs(history[lag:] - history[:-lag]))) if len(history) > lag else float("nan")


def mase(actual: Array, forecast: Array, scale: float) -> float:
    r"""Return the mean absolute scaled error.

    .. math:: \text{MASE} = \frac{1}{h}\sum_t |y_t - f_t| \Big/ s

    with s from `seasonal_scale`; not a number where the yardstick is zero.

    Source: Hyndman and Koehler, Another look at measures of forecast accuracy, IJF 2006.

    Examples:
        >>> mase(np.array([3.0, 5.0]), np.array([4.0, 5.0]), 2.0)
        0.25
    """
    return float(np.mean(np.abs(actual - forecast)) / scale) if scale > 0 else float("nan")


def owa(smape_value: float, mase_value: float, smape_naive2: float, mase_naive2: float) -> float:
    r"""Return the overall weighted average of M4, from the averages over all series.

    .. math:: \text{OWA} = \tfrac12 (\text{sMAPE} / \text{sMAPE}_{\text{Naive2}} + \text{MASE} / \text{MASE}_{\text{Naive2}})

    Source: Makridakis, Spiliotis, Assimakopoulos, The M4 competition, IJF 2020.

    Examples:
        >>> round(owa(9.328, 0.893, 18.383, 2.395), 6)
        0.440143
    """
    return 0.5 * (smape_value / smape_naive2 + mase_value / mase_naive2)


def pinball_loss(actual: Array, predicted: Array, quantiles: Array) -> float:
    r"""Return the mean pinball loss over all quantiles, times two (so that the median counts like the absolute error).

    .. math:: 2 \max\big(q (y - f_q),\; (q - 1)(y - f_q)\big)

    Args:
        actual: Outcomes, broadcastable to `predicted`.
        predicted: Quantile forecasts; the last axis runs over `quantiles`.
        quantiles: Probabilities, 0 to 1.

    Source: Gneiting and Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 2007.

    Examples:
        >>> float(round(pinball_loss(np.array([[10.0]]), np.array([[8.0]]), np.array([0.9])), 6))
        3.6
    """
    error = actual - predicted
    return float(2 * np.mean(np.maximum(quantiles * error, (quantiles - 1) * error)))


def coverage(actual: Array, lower: Array, upper: Array) -> float:
    """Return the share of outcomes inside the band.

    Examples:
        >>> coverage(np.array([1.0, 5.0]), np.array([0.0, 0.0]), np.array([2.0, 4.0]))
        0.5
    """
    return float(np.mean((actual >= lower) & (actual <= upper)))


def finops_band(error_share: float) -> str:
    """Name the maturity band that an error of a total falls in.

    Source: FinOps Foundation, FinOps Framework, capability Forecasting and its maturity assessment
        (finops.org/framework/capabilities/forecasting): actual spend within 12 % (Run), 15 % (Walk) and 20 % (Crawl) of the forecast.

    Examples:
        >>> finops_band(-0.08), finops_band(0.18), finops_band(0.3)
        ('run', 'crawl', 'outside')
    """
    return next((band for band, limit in FINOPS_BANDS.items() if abs(error_share) <= limit), "outside")


def interpolated_quantiles(values: Array, weights: Array, quantiles: Array) -> Array:
    """Return quantiles of weighted values: linear between order statistics where all weigh the same, else the inverse distribution.

    Args:
        values ((paths,) or (paths, n)): Outcomes.
        weights (paths,): Probabilities.
        quantiles (k,): Probabilities asked for.

    Returns:
        numpy.ndarray: (k,) or (k, n).

    Examples:
        >>> interpolated_quantiles(np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.5, 0.9])).tolist()
        [1.0, 2.0, 3.0]
    """
    if np.allclose(weights, weights[0]):
        return np.asarray(np.quantile(values, quantiles, axis=0))
    columns = values.reshape(len(values), -1)
    result = np.column_stack([weighted_quantiles(column, weights, quantiles) for column in columns.T])
    return result[:, 0] if values.ndim == 1 else result.reshape(len(quantiles), *values.shape[1:])
