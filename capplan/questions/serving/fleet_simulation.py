"""The fleet as a discrete-event simulation: what the queueing formulas are checked against, and used where they fail."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from capplan.errors import CapplanError

#: Batches a run is cut into for its confidence band, and the t quantile at 97.5 % with one fewer degrees of freedom.
BATCHES = 20
T_975 = 2.093


@dataclass(frozen=True)
class Waits:
    """How long requests waited in a simulated fleet.

    Parameters
    ----------
    waits_seconds
        Wait of each request, in order of arrival, after the warm-up.
    mean_seconds, low_seconds, high_seconds
        Mean wait with its 95 % confidence band by batch means.
    waiting_share, waiting_low, waiting_high
        Share of requests that waited at all, with its band.
    """

    waits_seconds: np.ndarray
    mean_seconds: float
    low_seconds: float
    high_seconds: float
    waiting_share: float
    waiting_low: float
    waiting_high: float

    def quantile(self, share: float) -> float:
        """Return the wait that a share of requests does not exceed, seconds."""
        return float(np.quantile(self.waits_seconds, share))


def simulate_queue(arrivals_seconds: np.ndarray, services_seconds: np.ndarray, servers: int, warm_up_share: float = 0.1) -> Waits:
    """Say how long these requests wait for one of many servers, first come, first served.

    Parameters
    ----------
    arrivals_seconds
        Instants of arrival, ascending.
    services_seconds
        Time of service of each request.
    servers
        Servers; each serves one request at a time.
    warm_up_share
        Share of the first requests that is not counted.

    Raises
    ------
    CapplanError
        If the two lists differ in length, arrivals are not ascending, or there is no server.
    """
    arrivals, services = np.asarray(arrivals_seconds, dtype=float), np.asarray(services_seconds, dtype=float)
    if len(arrivals) != len(services) or len(arrivals) < BATCHES:
        raise CapplanError(
            f"{len(arrivals)} arrivals and {len(services)} service times; give one service time for each of at least {BATCHES}"
        )
    if servers < 1 or (np.diff(arrivals) < 0).any() or (services < 0).any():
        raise CapplanError("a simulated queue needs at least one server, arrivals in ascending order and service times from 0 on")
    waits = waits_of(arrivals, services, servers)[int(warm_up_share * len(arrivals)) :]
    mean, low, high = _band(waits)
    share, share_low, share_high = _band((waits > 1e-12).astype(float))
    return Waits(waits, mean, low, high, share, share_low, share_high)


def waits_of(arrivals: np.ndarray, services: np.ndarray, servers: int) -> np.ndarray:
    """Run the queue event by event: the next request takes the server that is free first."""
    free = [0.0] * servers
    waits = np.empty(len(arrivals))
    for index, (arrival, service) in enumerate(zip(arrivals.tolist(), services.tolist(), strict=True)):
        start = max(free[0], arrival)
        heapq.heapreplace(free, start + service)
        waits[index] = start - arrival
    return waits


def _band(values: np.ndarray) -> tuple[float, float, float]:
    """Return a mean with its 95 % band from the means of equal batches, which are nearly independent."""
    size = len(values) // BATCHES
    means = values[: size * BATCHES].reshape(BATCHES, size).mean(axis=1)
    half = T_975 * means.std(ddof=1) / np.sqrt(BATCHES)
    return float(values.mean()), float(means.mean() - half), float(means.mean() + half)


def drawn_services(mean_seconds: float, cv2: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw service times: constant (cv2 = 0) or gamma with this squared coefficient of variation (1 = exponential)."""
    if cv2 == 0:
        return np.full(count, mean_seconds)
    return rng.gamma(1 / cv2, mean_seconds * cv2, count)
