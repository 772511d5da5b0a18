"""Where and when hosting becomes cheaper than an API: volumes, and quarters with their quantiles."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.quantiles import weighted_quantiles

Array = np.ndarray
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Timing:
    """From when on hosting is cheaper."""

    quarters: pd.DataFrame  #: quantile, quarter: the first quarter in which hosting is cheaper; empty where that lies beyond the horizon.
    starts: pd.DataFrame  #: start (quarter, or "never"), expected_usd: the API before it, hosting from it on.
    crossing_share: float  #: Probability that hosting is cheaper in at least one quarter.
    value_of_waiting_usd: float  #: Expected cost of hosting from the first quarter on, less that of the best start.

    @property
    def best_start(self) -> str:
        """The start that costs least; "never" is calling the API throughout."""
        return str(self.starts.loc[self.starts["expected_usd"].idxmin(), "start"])


def time_crossover(own: Array, called: Array, probability: Array, quarters: list[str]) -> Timing:
    """Compare the cost of hosting with that of the API, path by path and quarter by quarter.

    Args:
        own, called (S, Q): USD of each path and quarter.
        probability (S,): Of the paths.
    """
    cheaper = own < called
    first = np.where(cheaper.any(axis=1), cheaper.argmax(axis=1), len(quarters))
    places = weighted_quantiles(first, probability, QUANTILES)
    rows = [
        {"quantile": share, "quarter": quarters[place] if place < len(quarters) else None}
        for share, place in zip(QUANTILES, places, strict=True)
    ]
    mean_own, mean_called = probability @ own, probability @ called
    totals = [float(mean_called[:start].sum() + mean_own[start:].sum()) for start in range(len(quarters) + 1)]
    return Timing(
        quarters=pd.DataFrame(rows),
        starts=pd.DataFrame({"start": [*quarters, "never"], "expected_usd": totals}),
        crossing_share=float(probability[first < len(quarters)].sum()),
        value_of_waiting_usd=totals[0] - min(totals),
    )


def break_even_share(usd_per_request: float, requests_per_replica: float, replica_usd: float) -> float:
    """Say how busy a replica must be to cost what the API costs for the same requests, without fixed cost; above 1 it never does.

    Examples:
        >>> break_even_share(0.02, 1000, 10.0)
        0.5
    """
    for name, value in (("usd_per_request", usd_per_request), ("replica_usd", replica_usd)):
        if not 0 <= value < math.inf:
            raise CapplanError(f"crossover: {name} is {value:g}; it must be a number from 0 on")
    if not requests_per_replica > 0:
        raise CapplanError(f"a replica serves {requests_per_replica:g} requests in the period; it must serve more than none")
    worth = usd_per_request * requests_per_replica
    return replica_usd / worth if worth else math.inf


def staircase_crossings(step_ends: Array, step_usd: Array, call_requests: Array, call_usd: Array) -> pd.DataFrame:
    """List every volume at which the cheaper of calling and a staircase of one's own changes.

    Args:
        step_ends (k,): Highest volume of each step, ascending.
        step_usd (k,): Cost on each step, not falling.
        call_requests, call_usd (m,): Cost of calling against volume, less what a request costs at home beside the steps: straight between
            these points, rising.

    Returns:
        DataFrame: requests, cheaper_above ("self" or "api"); only up to the last step's end.

    Examples:
        >>> calls, line = np.array([0.0, 200.0]), np.array([0.0, 200.0])
        >>> staircase_crossings(np.array([100.0, 200.0]), np.array([90.0, 150.0]), calls, line)["requests"].tolist()
        [90.0, 100.0, 150.0]
    """
    rising = np.maximum.accumulate(call_usd)
    rows: list[tuple[float, str]] = []
    cheaper, start = "api", 0.0
    for end, usd in zip(step_ends, step_usd, strict=True):
        equal = float(np.interp(usd, rising, call_requests)) if usd <= rising[-1] else math.inf
        if cheaper == "self" and equal > start * (1 + 1e-12):
            rows.append((float(start), "api"))
            cheaper = "api"
        if cheaper == "api" and equal <= end:
            rows.append((float(max(equal, start)), "self"))
            cheaper = "self"
        start = float(end)
    return pd.DataFrame(rows, columns=["requests", "cheaper_above"]).astype({"requests": float, "cheaper_above": object})
