"""Queues in closed form and event by event, one load at a time: what the sizing of fleets is held against."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np

from capplan.questions.serving.queueing import erlang_c, spread_factor, waiting_share

#: Batches a run is cut into for its confidence band, and the t quantile at 97.5 % with one fewer degrees of freedom.
BATCHES, T_975 = 20, 2.093


def mean_wait(load: float, servers: int, service_seconds: float, arrival_cv2: float = 1.0, service_cv2: float = 1.0) -> float:
    """Mean wait in M/M/c, stretched as Allen and Cunneen do (A. O. Allen, 1990); exact for M/M/c and M/G/1."""
    return erlang_c(load, servers) * service_seconds / (servers - load) * spread_factor(arrival_cv2, service_cv2)


def wait_quantile(
    share: float, load: float, servers: int, service_seconds: float, arrival_cv2: float = 1.0, service_cv2: float = 1.0
) -> float:
    """Wait that a share of requests does not exceed; infinite where the queue grows for ever."""
    if servers <= load:
        return math.inf
    waiting = waiting_share(load, servers, arrival_cv2, service_cv2)
    if waiting <= 1 - share:
        return 0.0
    return service_seconds * spread_factor(arrival_cv2, service_cv2) / (servers - load) * math.log(waiting / (1 - share))


def servers_for(
    load: float,
    service_seconds: float,
    allowed_seconds: float,
    share: float,
    *,
    highest_utilisation: float = 1.0,
    step: int = 1,
    **spread: float,
) -> int:
    """Return the fewest servers, by trying one pack after the other."""
    for servers in itertools.count(step, step):
        busy = servers > load and load / servers <= highest_utilisation * (1 + 1e-12)
        if busy and wait_quantile(share, load, servers, service_seconds, **spread) <= allowed_seconds:
            return servers
    raise AssertionError


@dataclass(frozen=True)
class Waits:
    """Waits in a simulated queue after its warm-up; mean and share that waits with their 95 % bands."""

    seconds: np.ndarray
    mean: tuple[float, float, float]
    waiting: tuple[float, float, float]


def simulate_queue(arrivals: np.ndarray, services: np.ndarray, servers: int, warm_up_share: float = 0.1) -> Waits:
    """Let requests wait for one of many servers, first come, first served."""
    waits = waits_of(arrivals, services, servers)[int(warm_up_share * len(arrivals)) :]
    return Waits(waits, _band(waits), _band((waits > 1e-12).astype(float)))


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
