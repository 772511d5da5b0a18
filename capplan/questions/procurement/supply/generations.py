"""Machines that are expected: when they come, and what the work of one costs until then and after."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr

from capplan.units import quarter_start

#: 90th percentile of the standard normal distribution.
NORMAL_P90 = 1.2815515655446004
#: How the caps on machines that have not come are named, after the machine.
NOT_THERE = "not there yet"
#: Days from the median to the 90th percentile, where only the former is stated.
USUAL_DELAY_DAYS = 182


@dataclass(frozen=True)
class Arrival:
    r"""A machine that is expected.

    .. math:: F(t) = \pi\,\Phi\!\left(\frac{t - t_{50}}{(t_{90} - t_{50})/1.2816}\right)

    is how likely it is there on day t. An hour of it is expected to cost :math:`F\,r + (1-F)\,s` hours of the machine it succeeds: where it
    has not come, as many of those do its work as its greatest speed-up says.
    """

    #: accelerator, succeeds: Names.
    accelerator: str
    succeeds: str
    #: p50, p90: Days from which it can be had.
    p50: pd.Timestamp
    p90: pd.Timestamp
    price_ratio: float  #: (r): Price of its hour against the one it succeeds.
    #: most, mean: Greatest and mean speed-up over classes of work; s is the greatest.
    most: float
    mean: float
    probability: float  #: (pi): How likely it comes at all.
    added: bool  #: Is it offered only since it is expected? Else it is on offer already, at prices of its own.

    def there(self, when: pd.DatetimeIndex) -> np.ndarray:
        """Return how likely it can be had on some days, (days,).

        Examples:
            >>> some = Arrival("new", "old", pd.Timestamp("2027-01-01"), pd.Timestamp("2027-04-01"), 1.7, 2.2, 2.2, 0.8, True)
            >>> some.there(pd.DatetimeIndex(["2027-01-01", "2027-04-01"])).round(3).tolist()
            [0.4, 0.72]
        """
        days = np.asarray((when - self.p50) / pd.Timedelta(days=1), dtype=float)
        spread = (self.p90 - self.p50) / pd.Timedelta(days=1) / NORMAL_P90
        return self.probability * (ndtr(days / spread) if spread > 0 else (days >= 0).astype(float))

    def outdated(self, when: pd.DatetimeIndex) -> np.ndarray:
        """Return what the machine it succeeds brings on some days against what it would bring without it, (days,): no more for its work."""
        return 1 + self.there(when) * (min(1.0, self.price_ratio / self.mean) - 1)


def expected_price(arrivals: Sequence[Arrival], accelerator: str, when: pd.DatetimeIndex) -> np.ndarray:
    """Return the expected price of an accelerator's hour on some days against its stated one, (days,); 1 for machines there are."""
    own = next((arrival for arrival in arrivals if arrival.added and arrival.accelerator == accelerator), None)
    if own is None:
        return np.ones(len(when))
    come = own.there(when)
    return expected_price(arrivals, own.succeeds, when) * (come + (1 - come) * own.most / own.price_ratio)


def not_there_yet(limits: pd.DataFrame, arrivals: Sequence[Arrival], quarters: Sequence[str]) -> pd.DataFrame:
    """Add the limits that nothing of an expected machine is had by the hour in quarters that begin before its day.

    Args:
        limits: Table limits with all its columns.
        quarters: Planned quarters.
    """
    rows = [
        dict.fromkeys(limits.columns)
        | {"limit_id": f"{arrival.accelerator} {NOT_THERE}", "kind": kind, "amount": 0.0, "quarter": quarter, "hard": True}
        | {"accelerator": arrival.accelerator}
        for arrival in arrivals
        if arrival.added
        for kind in ("on_demand_accelerators", "spot_accelerators")
        for quarter in quarters
        if quarter_start(quarter) < arrival.p50
    ]
    if not rows:
        return limits
    added = pd.DataFrame(rows, columns=limits.columns)
    return pd.concat([limits.astype(object), added.astype(object)], ignore_index=True).infer_objects()


def arrival_notes(arrivals: Sequence[Arrival], offered: set[str]) -> list[str]:
    """Name machines that succeed nothing that is offered, or nothing that does any of the work."""
    lost = [arrival for arrival in arrivals if arrival.succeeds not in offered]
    return [f"{each.accelerator}: no {each.succeeds}, which it succeeds, is offered for any work, so it changes nothing." for each in lost]
