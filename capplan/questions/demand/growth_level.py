"""From a history by week or month to the periods in which growth is weighed, and back."""

from dataclasses import dataclass

import numpy as np

from capplan.questions.demand.growth import GrowthFit, fit_growth, growth_median, growth_paths
from capplan.questions.demand.growth_kinds import AHEAD
from capplan.questions.demand.history import History

Array = np.ndarray
#: Periods of a history that make one period of growth, and such periods in a year, by cadence.
WIDTHS = {"week": 4, "month": 1}
GROWTH_PERIODS_PER_YEAR = {"week": 365.25 / 28, "month": 12.0}
#: Growth kinds say nothing where a history is this short, all where it is this long, and a share between.
FIRST_YEARS, FULL_YEARS = 1.0, 2.0


@dataclass(frozen=True)
class GrowthLevel:
    """The growth of one series, and how its weeks lie around it."""

    fit: GrowthFit  #: What the history says of growth.
    share: float  #: How far paths follow it; the rest is left to the mean-reverting level of a short history.
    width: int  #: Periods of the history in a period of growth.
    ratio: Array  #: Each period of the history over the smooth course of growth, of mean 1.

    def median(self, periods: int) -> Array:
        """Return the expected level of each period of the history's cadence."""
        ahead = min(AHEAD, -(-periods // self.width) + 1)
        return np.exp(_between(np.log(growth_median(self.fit, ahead))[None], self.width, periods)[0])

    def paths(self, numbers: Array, shocks: Array, periods: int) -> Array:
        """Draw the smooth level (paths x periods of the history's cadence) from uniform numbers (paths) and normal shocks (alike)."""
        ahead = min(AHEAD, -(-periods // self.width) + 1)
        drawn = growth_paths(self.fit, numbers, shocks[:, :ahead])
        return np.exp(_between(np.log(drawn), self.width, periods))


def growth_level(history: History, years: float) -> GrowthLevel | None:
    """Weigh the growth of a history; None where it is too short, or constant."""
    if history.cadence not in WIDTHS or years <= FIRST_YEARS or np.ptp(history.level) <= 1e-9 * float(history.level.mean()):
        return None
    width = WIDTHS[history.cadence]
    count = len(history.level) // width
    level = history.level[len(history.level) - width * count :]
    blocks = level.reshape(count, width).mean(axis=1)
    fit = fit_growth(blocks, GROWTH_PERIODS_PER_YEAR[history.cadence])
    if width == 1:
        ratio = np.ones(count)
    else:
        floor = 1e-3 * float(blocks.mean())
        centre = (np.arange(count) + 0.5) * width
        smooth = np.exp(np.interp(np.arange(len(level)) + 0.5, centre, np.log(np.maximum(blocks, floor))))
        ratio = level / smooth
        ratio = ratio / ratio.mean()
    share = float(np.clip((years - FIRST_YEARS) / (FULL_YEARS - FIRST_YEARS), 0.0, 1.0))
    return GrowthLevel(fit, share, width, ratio)


def _between(values: Array, width: int, periods: int) -> Array:
    """Read values at the middles of their periods as those of finer periods (paths x periods), linear in between."""
    at = np.clip((np.arange(periods) + 0.5) / width - 0.5, 0.0, values.shape[1] - 1)
    low = np.minimum(at.astype(int), max(0, values.shape[1] - 2))
    part = at - low
    return np.asarray(values[:, low] * (1 - part) + values[:, np.minimum(low + 1, values.shape[1] - 1)] * part)
