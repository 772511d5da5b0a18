"""Where and when hosting becomes cheaper than an API: volumes, quarters with their quantiles, and the value of waiting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.crossover.options import break_even_share, self_host_usd

QUARTERS_PER_YEAR = 4
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Crossover:
    """Whether, from which volume and from when on hosting is cheaper than an API.

    Parameters
    ----------
    volumes
        requests (a quarter), cheaper_above ("self" or "api"), at the first quarter's prices.
    quarters
        quantile, quarter: the first quarter in which hosting is cheaper; empty where that lies beyond the horizon.
    costs
        quarter, api_usd, self_usd: expected, undiscounted.
    starts
        start (quarter, or "never"), expected_usd: API before it, hosting from it on.
    sensitivity
        throughput_factor, requests (first crossover volume, missing where there is none), crossing_share (probability that hosting becomes cheaper
        within the horizon), break_even_share.
    crossing_share
        Probability that hosting is cheaper in at least one quarter.
    break_even_share
        Utilisation at which a replica costs what the API costs.
    value_of_waiting_usd
        Expected cost of hosting from the first quarter on, less that of the best start.
    headline
        One sentence with the number that decides.
    """

    volumes: pd.DataFrame
    quarters: pd.DataFrame
    costs: pd.DataFrame
    starts: pd.DataFrame
    sensitivity: pd.DataFrame
    crossing_share: float
    break_even_share: float
    value_of_waiting_usd: float
    headline: str


def crossover_volumes(
    usd_per_request: float, requests_per_replica: float, replica_usd: float, fixed_usd: float, spare_replicas: int = 0
) -> pd.DataFrame:
    r"""List every volume at which the cheaper of API and hosting changes.

    Hosting is a staircase and the API a line, so the line may cross each step, and fall behind again at the next riser:
    with k replicas the costs are equal at :math:`v = (F + (k+n_s)\,r)/p` if that lies on step k.

    Parameters
    ----------
    usd_per_request
        Price of a request through the API.
    requests_per_replica, replica_usd, fixed_usd, spare_replicas
        As in `self_host_usd`.

    Returns
    -------
    DataFrame
        requests, cheaper_above; ascending, empty where the API is cheaper at every volume.
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


def find_crossover(
    demand: pd.DataFrame,
    usd_per_request: float,
    requests_per_replica: float,
    replica_usd: float,
    fixed_usd: float,
    *,
    spare_replicas: int = 1,
    api_price_change_per_year: float = 0.0,
    self_price_change_per_year: float = 0.0,
    throughput_error_share: float = 0.3,
) -> Crossover:
    """Say whether, from which volume and from when on hosting is cheaper than an API.

    Parameters
    ----------
    demand
        path, probability, quarter, quantity (requests in the quarter).
    usd_per_request
        Price of a request through the API in the first quarter.
    requests_per_replica
        Requests a quarter of which one replica serves the peak.
    replica_usd, fixed_usd
        Cost of one replica for a quarter, in the first quarter, and fixed cost a quarter while hosting.
    spare_replicas
        Replicas beyond the need.
    api_price_change_per_year, self_price_change_per_year
        Yearly change of the two prices, of either sign; 0 = flat.
    throughput_error_share
        Throughput is also taken this share lower and higher.

    Returns
    -------
    Crossover

    Raises
    ------
    CapplanError
        If demand is empty, probabilities of the paths do not add up to 1, or a change is given in percent.
    """
    for name, change in (
        ("api_price_change_per_year", api_price_change_per_year),
        ("self_price_change_per_year", self_price_change_per_year),
    ):
        if not -1 < change <= 5:
            raise CapplanError(f"{name} is {change:g}; it must lie above -1 and at most at 5, so a fall of 30 % is -0.3")
    if not 0 <= throughput_error_share < 1:
        raise CapplanError(f"throughput_error_share is {throughput_error_share:g}; it is a share from 0 to 1, so 30 % is 0.3")
    volume, weights, quarters = _matrix(demand)
    years = np.arange(len(quarters)) / QUARTERS_PER_YEAR
    api_price = usd_per_request * (1 + api_price_change_per_year) ** years
    replica_price = replica_usd * (1 + self_price_change_per_year) ** years

    def hosted(factor: float) -> np.ndarray:
        replicas = np.ceil(volume / (requests_per_replica * factor) - 1e-12) + spare_replicas
        return fixed_usd + replicas * replica_price

    volumes = crossover_volumes(usd_per_request, requests_per_replica, replica_usd, fixed_usd, spare_replicas)
    called = volume * api_price
    own = hosted(1.0)
    first = _first_cheaper(own, called)
    starts = _starts(weights @ own, weights @ called, quarters)
    rows = []
    for factor in (1 - throughput_error_share, 1.0, 1 + throughput_error_share):
        found = crossover_volumes(usd_per_request, requests_per_replica * factor, replica_usd, fixed_usd, spare_replicas)
        rows.append(
            {
                "throughput_factor": factor,
                "requests": float(found["requests"].iloc[0]) if len(found) else np.nan,
                "crossing_share": float(weights[_first_cheaper(hosted(factor), called) < len(quarters)].sum()),
                "break_even_share": break_even_share(usd_per_request, requests_per_replica * factor, replica_usd),
            }
        )
    crossing = float(rows[1]["crossing_share"])
    waiting = float(starts["expected_usd"].iloc[0] - starts["expected_usd"].min())
    best = str(starts.loc[starts["expected_usd"].idxmin(), "start"])
    return Crossover(
        volumes=volumes,
        quarters=_quantiles(first, weights, quarters),
        costs=pd.DataFrame({"quarter": quarters, "api_usd": weights @ called, "self_usd": weights @ own}),
        starts=starts,
        sensitivity=pd.DataFrame(rows),
        crossing_share=crossing,
        break_even_share=float(rows[1]["break_even_share"]),
        value_of_waiting_usd=waiting,
        headline=_headline(volumes, crossing, best),
    )


def _matrix(demand: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Turn demand into paths x quarters, with the paths' probabilities."""
    if demand.empty or not (demand["quantity"] >= 0).all():
        raise CapplanError("crossover: demand must have rows, with quantities from 0 on")
    table = demand.pivot_table(index="path", columns="quarter", values="quantity", aggfunc="sum").fillna(0.0)
    weights = demand.groupby("path")["probability"].first().reindex(table.index).to_numpy(dtype=float)
    if abs(weights.sum() - 1) > 1e-6:
        raise CapplanError(f"crossover: the probabilities of the demand paths add up to {weights.sum():g}; they must add up to 1")
    return table.to_numpy(dtype=float), weights, [str(name) for name in table.columns]


def _first_cheaper(own: np.ndarray, called: np.ndarray) -> np.ndarray:
    """Return each path's first quarter in which hosting is cheaper; the number of quarters where there is none."""
    cheaper = own < called
    return np.where(cheaper.any(axis=1), cheaper.argmax(axis=1), own.shape[1])


def _quantiles(first: np.ndarray, weights: np.ndarray, quarters: list[str]) -> pd.DataFrame:
    """Return quantiles of the first cheaper quarter; paths without one count as later than all."""
    order = np.argsort(first, kind="stable")
    reached = np.cumsum(weights[order])
    rows = []
    for share in QUANTILES:
        index = int(first[order][min(int(np.searchsorted(reached, share - 1e-12)), len(order) - 1)])
        rows.append({"quantile": share, "quarter": quarters[index] if index < len(quarters) else None})
    return pd.DataFrame(rows)


def _starts(own: np.ndarray, called: np.ndarray, quarters: list[str]) -> pd.DataFrame:
    """Cost every start: the API before it, hosting from it on."""
    totals = [float(called[:start].sum() + own[start:].sum()) for start in range(len(quarters) + 1)]
    return pd.DataFrame({"start": [*quarters, "never"], "expected_usd": totals})


def _headline(volumes: pd.DataFrame, crossing: float, best: str) -> str:
    """Say in one sentence what to do."""
    when = "the API is cheapest throughout" if best == "never" else f"hosting from {best} on costs least"
    if volumes.empty:
        return f"At the first quarter's prices hosting is cheaper at no volume; {when} on the expected demand."
    return (
        f"Hosting first becomes cheaper at {volumes['requests'].iloc[0]:,.0f} requests a quarter; demand makes it so within the horizon with a "
        f"probability of {crossing:.0%}, and {when} on the expected demand."
    )
