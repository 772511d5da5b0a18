"""Where and when hosting becomes cheaper than an API: volumes, and quarters with their quantiles."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.quantiles import weighted_quantiles
from capplan.questions.crossover.ways_to_serve_volume import self_host_usd

Array = np.ndarray
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Timing:
    """From when on hosting is cheaper.

    Args:
        quarters: quantile, quarter: the first quarter in which hosting is cheaper; empty where that lies beyond the horizon.
        starts: start (quarter, or "never"), expected_usd: the API before it, hosting from it on.
        crossing_share: Probability that hosting is cheaper in at least one quarter.
        value_of_waiting_usd: Expected cost of hosting from the first quarter on, less that of the best start.
    """

    quarters: pd.DataFrame
    starts: pd.DataFrame
    crossing_share: float
    value_of_waiting_usd: float

    @property
    def best_start(self) -> str:
        """The start that costs least; "never" is calling the API throughout."""
        return str(self.starts.loc[self.starts["expected_usd"].idxmin(), "start"])


def time_crossover(own: Array, called: Array, probability: Array, quarters: list[str]) -> Timing:
    """Compare the cost of hosting with that of the API, path by path and quarter by quarter.

    Args:
        own, called (S, Q): USD of each path and quarter.
        probability (S,): Of the paths.
        quarters: Labels.
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


def crossover_volumes(
    usd_per_request: float, requests_per_replica: float, replica_usd: float, fixed_usd: float, spare_replicas: int = 0
) -> pd.DataFrame:
    r"""List every volume at which the cheaper of API and hosting changes.

    Hosting is a staircase and the API a line, so the line may cross each step, and fall behind again at the next riser:
    with k replicas the costs are equal at :math:`v = (F + (k+n_s)\,r)/p` if that lies on step k.

    Args:
        usd_per_request: Price of a request through the API.
        requests_per_replica, replica_usd, fixed_usd, spare_replicas: As in `self_host_usd`.

    Returns:
        DataFrame: requests, cheaper_above; ascending, empty where the API is cheaper at every volume.
    """
    limit = usd_per_request * requests_per_replica
    self_host_usd(0.0, requests_per_replica, replica_usd, fixed_usd, spare_replicas)
    base = fixed_usd + spare_replicas * replica_usd
    rows: list[tuple[float, str]] = []
    if limit > replica_usd:
        # on step k the API reaches k x limit at its end: from there on hosting stays cheaper once the next riser no longer lifts it above
        first = max(1, math.ceil(base / (limit - replica_usd) - 1e-12))
        last = max(first, math.ceil((base + replica_usd) / (limit - replica_usd)) + 1)
        cheaper = "api"
        for step in range(first, last + 1):
            start, equal = (step - 1) * requests_per_replica, (base + step * replica_usd) / usd_per_request
            if equal > start + 1e-9 * requests_per_replica:
                if cheaper == "self":
                    rows.append((start, "api"))
                if equal <= step * requests_per_replica * (1 + 1e-12):
                    rows.append((equal, "self"))
                    cheaper = "self"
                else:
                    cheaper = "api"
            elif cheaper == "api":
                rows.append((start, "self"))
                cheaper = "self"
    return pd.DataFrame(rows, columns=["requests", "cheaper_above"]).astype({"requests": float, "cheaper_above": object})


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
