"""Demand that a ceiling hid: where usage stands flat at a maximum and nobody measured a queue, what lay above it is inferred."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

Array = np.ndarray
#: A plateau holds at least this share of all intervals, and this many times as many as the fiftieth of the range just below it.
PLATEAU_SHARE, PILE_UP, JUST_BELOW = 0.05, 2.0, 0.02
#: Values this close to the maximum stand at it.
AT_MAXIMUM = 1e-3
#: A series needs this many intervals, and this many different values below the ceiling: on-off use stands at its maximum without any
#: ceiling.
LEAST_INTERVALS, LEAST_VALUES = 40, 12
#: Mean demand of a capped interval is at most this multiple of the ceiling; beyond it a history says nothing.
AT_MOST = 3.0
ITERATIONS = 60
#: From this many days on, an hour of the week is a slot of its own; below, an hour of a working day or of the weekend.
DAYS_FOR_HOURS_OF_WEEK = 56
#: Before any data, the log level of a span lies within this deviation of the mean level: a span capped throughout is no more than
#: plausibly higher.
SPAN_PRIOR = 0.3
#: Shares of a slot's pattern: as if each slot had been seen this often at the mean of all slots.
SLOT_PRIOR = 0.5


@dataclass(frozen=True)
class Plateau:
    """A ceiling and what it hid."""

    ceiling: float  #: Usage an interval at the plateau.
    capped: Array  #: Which intervals stand at it.
    demand: Array  #: Inferred demand of every interval; that of intervals below the ceiling is their usage.


def slots_of(start: pd.Timestamp, step: pd.Timedelta | None, size: int) -> tuple[Array, Array]:
    """Return slot and span of each interval of a regular series: hours of the week in weeks, weekdays in four weeks, else one of each.

    Args:
        start, step, size: First interval, length of an interval (None = months) and number of intervals.

    Examples:
        >>> [part.tolist() for part in slots_of(pd.Timestamp("2026-11-30"), pd.Timedelta(days=1), 9)]
        [[0, 1, 2, 3, 4, 5, 6, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]]
    """
    day = pd.Timedelta(days=1)
    if step is None or step > day:
        return np.zeros(size, int), np.zeros(size, int)
    times = pd.date_range(start, periods=size, freq=step)
    days = np.asarray((times - start) // day, dtype=int)
    if step == day:
        return np.asarray(times.dayofweek, dtype=int), days // 28
    kind = times.dayofweek if size * step >= DAYS_FOR_HOURS_OF_WEEK * day else times.dayofweek >= 5
    return np.asarray(kind, dtype=int) * 24 + np.asarray(times.hour, dtype=int), days // 7


def find_plateau(values: Array) -> Array | None:
    """Tell which intervals stand at a ceiling, or None where there is none.

    Mass piles up at a ceiling: at least a twentieth of the intervals lie within a thousandth of the maximum, twice as many as in the
    fiftieth of the range just
    below. Constant series, series that are on or off, and short ones have no ceiling that can be told from their nature.

    Args:
        values: Usage by interval; NaN where unknown.
    """
    known = np.isfinite(values)
    seen = values[known]
    if seen.size < LEAST_INTERVALS or seen.max() <= 0 or np.ptp(seen) < 0.05 * seen.max():
        return None
    most = float(seen.max())
    capped = known & (np.where(known, values, 0.0) >= most * (1 - AT_MAXIMUM))
    below = seen[seen < most * (1 - AT_MAXIMUM)]
    if capped.sum() < PLATEAU_SHARE * seen.size or np.unique(np.round(below / most, 6)).size < LEAST_VALUES:
        return None
    near = int((below >= most - JUST_BELOW * np.ptp(seen)).sum())
    return capped if capped.sum() >= PILE_UP * near else None


def infer_plateau(values: Array, slot: Array, span: Array) -> Plateau | None:
    r"""Infer demand above a ceiling from the intervals that were not capped: a Tobit model of logarithms, solved by EM.

    .. math:: \ln d_t = m + a_{\text{slot}(t)} + b_{\text{span}(t)} + \sigma z_t,\quad u_t = \min(d_t, c)

    Demand of a capped interval is its conditional mean,

    .. math:: E[d \mid d > c] = e^{\mu + \sigma^2/2}\; \Phi\big((\mu + \sigma^2 - \ln c)/\sigma\big) / \Phi\big((\mu - \ln c)/\sigma\big),

    at most three times the ceiling. Slot and span effects are shrunk like normal ones, so that an hour that was always capped is inferred
    from its
    neighbours and not without bound.

    Args:
        values: Usage by interval; NaN where unknown, zeros stay zeros.
        slot: Position of each interval in the day or week, from 0.
        span: Week (or other span) of each interval, from 0.

    Returns:
        Plateau or None: None where there is no ceiling.

    Source: Tobin, Estimation of relationships for limited dependent variables, Econometrica 1958; Dempster, Laird and Rubin, Maximum
        likelihood from incomplete data via the EM algorithm, JRSS B 1977.
    """
    from scipy.special import log_ndtr, ndtr

    capped = find_plateau(values)
    if capped is None:
        return None
    used = np.isfinite(values) & (np.where(np.isfinite(values), values, 0.0) > 0)
    at, slots, spans = capped[used], slot[used], span[used]
    ceiling = float(values[capped].mean())
    logs = np.where(at, np.log(ceiling), np.log(values[used]))
    # What lies far below (an outage) must not widen the spread that reaches above the ceiling.
    low, high = np.quantile(logs, [0.25, 0.75])
    logs = np.maximum(logs, low - 3 * (high - low))
    filled, second = logs.copy(), np.zeros(len(logs))
    counts_slot, counts_span = np.bincount(slots), np.bincount(spans)
    by_slot, by_span = np.zeros(len(counts_slot)), np.zeros(len(counts_span))
    mean, sigma = float(logs.mean()), float(logs.std())
    for _ in range(ITERATIONS):
        mean = float((filled - by_slot[slots] - by_span[spans]).mean())
        by_slot = np.bincount(slots, filled - mean - by_span[spans]) / (counts_slot + SLOT_PRIOR)
        weight = sigma**2 / SPAN_PRIOR**2
        by_span = np.bincount(spans, filled - mean - by_slot[slots]) / (counts_span + weight)
        expected = mean + by_slot[slots] + by_span[spans]
        sigma = float(np.sqrt(np.mean((filled - expected) ** 2 + second)))
        if sigma < 1e-6:
            return None
        z = (np.log(ceiling) - expected[at]) / sigma
        hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z))
        filled[at] = expected[at] + sigma * hazard
        second[at] = sigma**2 * np.clip(1 + z * hazard - hazard**2, 0.0, 1.0)
    beyond = expected[at] + sigma**2 / 2 + log_ndtr(sigma - z) - log_ndtr(-z)
    demand = values.copy()
    demand[capped] = np.clip(np.exp(beyond), ceiling, AT_MOST * ceiling)
    share = float(ndtr(-z).mean())
    return Plateau(ceiling, capped, demand) if np.isfinite(demand[capped]).all() and share > 0 else None
