"""Random numbers of each series: what series share comes from the past that they share, and no series changes those of another."""

import zlib
from functools import cached_property

import numpy as np
import pandas as pd

from capplan.questions.demand.models import LevelFit

Array = np.ndarray
#: Correlations between workloads are shrunk towards zero like those of this many extra independent periods.
SHRINK_PERIODS = 10
#: So many of the newest periods tell how series move together, and fewer than so few tell nothing.
MOST_SHARED, LEAST_SHARED = 104, 8
#: Mean length of the blocks of neighbouring periods that are drawn together.
BLOCK_PERIODS = 4
#: Records that are followed: histories of ten thousand periods have more with a probability below one in a million.
RECORDS = 28
WIDTH_DAYS = {"day": 1, "week": 7}


def name_seed(fit: LevelFit) -> int:
    """Return a seed that belongs to a series: other series never change it."""
    return zlib.crc32(f"{fit.history.workload} {fit.history.region}".encode())


def periods_behind(end: pd.Timestamp, as_of: pd.Timestamp, cadence: str) -> int:
    """Count the whole periods from the end of a history to the end of the plan's day (months: of its month)."""
    if cadence == "month":
        return max(0, 12 * (as_of.year - end.year) + as_of.month - end.month + 1)
    return max(0, ((as_of + pd.Timedelta(days=1) - end) // pd.Timedelta(days=1)) // WIDTH_DAYS[cadence])


def joint_normals(fits: list[LevelFit], shape: tuple[int, int], seed: list[int], as_of: pd.Timestamp) -> Array:
    r"""Draw standard normal numbers for each series (series x shape), correlated between series like their one-step errors.

    .. math:: z_j = a_j \sum_t \frac{e_{jt}}{\lVert e_j\rVert}\, Z_t + \sqrt{1 - a_j^2}\; z_j^{own},\qquad a_j^2 = \frac{n_j}{n_j + 10}

    Z has one stream for each past period, shared by all series that knew it, so that the correlation of two series is that of their errors
    e, shrunk, while each series' numbers depend on its own past alone.

    Args:
        as_of: Day of the plan, from which past periods are counted.

    Source: Wu, Jackknife, bootstrap and other resampling methods in regression analysis, Annals of Statistics 1986 (random multipliers of
        residuals).
    """
    errors = [_standard_errors(fit) for fit in fits]
    behind = [periods_behind(fit.history.end, as_of, fit.history.cadence) for fit in fits]
    shared = np.zeros((len(fits), *shape))
    for period in sorted({first + k for first, part in zip(behind, errors, strict=True) for k in range(len(part))}):
        numbers = np.random.default_rng([*seed, period]).standard_normal(shape)
        for j, (first, part) in enumerate(zip(behind, errors, strict=True)):
            if 0 <= period - first < len(part):
                shared[j] += part[period - first] * numbers
    for j, (fit, part) in enumerate(zip(fits, errors, strict=True)):
        own = np.sqrt(1 - len(part) / (len(part) + SHRINK_PERIODS)) if len(part) else 1.0
        shared[j] += own * np.random.default_rng([*seed, name_seed(fit), 1]).standard_normal(shape)
    return shared


def _standard_errors(fit: LevelFit) -> Array:
    """Return the weights of past periods, newest first; none where a history is too short or constant."""
    errors = fit.innovations[::-1][:MOST_SHARED]
    errors = errors - errors.mean()
    size = float(np.sqrt(errors @ errors))
    if len(errors) < LEAST_SHARED or size <= 1e-12 * len(errors):
        return np.empty(0)
    return np.asarray(errors / size * np.sqrt(len(errors) / (len(errors) + SHRINK_PERIODS)))


class PastPeriods:
    """Past periods that are drawn for future ones, in runs of random length (the stationary bootstrap), for histories of any length.

    A run begins at the last record of a sequence of random records below the history's length: that is uniform over every history, and
    histories of different length draw the same period as often as they can.

    Args:
        periods, paths: How much is drawn.
        seed: Of the draws.

    Source: Politis and Romano, The stationary bootstrap, JASA 1994; Rényi, On the extreme elements of observations, 1962 (the n-th of a
        sequence is a record with probability 1/n, independently).
    """

    def __init__(self, periods: int, paths: int, seed: list[int]) -> None:
        self._numbers = np.random.default_rng(seed).random((paths, 1 + RECORDS, periods))
        self._known: dict[int, Array] = {}

    @cached_property
    def _begun(self) -> Array:
        """When the run of each period began."""
        fresh = self._numbers[:, 0] < 1 / BLOCK_PERIODS
        fresh[:, 0] = True
        return np.maximum.accumulate(np.where(fresh, np.arange(self._numbers.shape[2]), 0), axis=1)

    def counted_back(self, size: int) -> Array:
        """Return the drawn period of a history of some periods, counted back from its newest (paths x periods)."""
        if size not in self._known:
            record = np.zeros(self._begun.shape)
            last = np.zeros(self._begun.shape, dtype=int)
            for number in range(1, RECORDS + 1):
                record = np.minimum((record + 1) // np.maximum(self._numbers[:, number], 1e-12), 1e15)
                inside = record < size
                if not inside.any():
                    break
                last = np.where(inside, record.astype(int), last)
            origin = np.take_along_axis(last, self._begun, axis=1)
            self._known[size] = (origin - (np.arange(self._numbers.shape[2]) - self._begun)) % size
        return self._known[size]
