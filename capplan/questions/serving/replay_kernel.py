"""The compiled loop of the autoscaling replay: one step of time after another, with an exact first-come, first-served queue."""

from functools import cache
from typing import Any

import numpy as np

#: How a request ended, where it did not start.
SHED, ROUTED = -1.0, -2.0
QUEUE, SHED_RULE, ROUTE_RULE = 0, 1, 2


def replay_steps(
    arrivals: np.ndarray,
    durations: np.ndarray,
    floor: np.ndarray,
    step: float,
    slots: int,
    reactive: bool,
    headroom: float,
    spare: int,
    warm: int,
    quota: int,
    cold_steps: int,
    look_steps: int,
    down_looks: int,
    rule: int,
    wait_limit: float,
    mean_duration: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Serve a trace with a fleet that follows it.

    In a step, first the requests that end leave, then the autoscaler looks (if it is its turn), then those that wait
    start, then the arrivals of the step come: each takes a free slot, waits, or is turned away. Ends are rounded to the nearest step.

    Args:
        arrivals, durations: Seconds of arrival (ascending) and of service of each request.
        floor: Replicas the fleet never falls below, one number an hour; ordered a cold start and two looks ahead.
        slots: Requests a replica serves at once.
        reactive: Does the fleet grow beyond the floor with the load?
        headroom, spare, warm, quota: Free share of slots aimed at, replicas beyond the need, replicas kept loaded, most replicas that are
            paid for.
        cold_steps, look_steps, down_looks: Steps of a cold start, steps between two looks of the autoscaler, looks whose highest need
            bounds the shrinking.
        rule, wait_limit, mean_duration: What happens beyond the wait limit (0 queue, 1 shed, 2 route), and the mean service that predicts
            the wait.

    Returns:
        tuple of ndarray: Wait of each request (-1 shed, -2 routed), replicas paid for and replicas serving at the end of each step.
    """
    count = len(arrivals)
    steps = len(floor) * round(3600.0 / step)
    hour_steps = round(3600.0 / step)
    longest = 0.0
    for index in range(count):
        longest = max(longest, durations[index])
    ends = np.zeros(steps + int(longest / step) + 3, dtype=np.int32)
    ready = np.zeros(steps + cold_steps + 2, dtype=np.int32)
    waits = np.empty(count, dtype=np.float32)
    waiting = np.empty(count, dtype=np.int64)
    paid = np.empty(steps, dtype=np.int32)
    serving = np.empty(steps, dtype=np.int32)
    needs = np.zeros(max(1, down_looks), dtype=np.int64)
    loaded = min(quota, max(floor[0] + warm, 1))
    active, ordered, busy, head, tail, following, looks = min(loaded, max(floor[0], 1)), 0, 0, 0, 0, 0, 0
    for place in range(len(needs)):
        needs[place] = floor[0]
    for now in range(steps):
        busy -= ends[now]
        loaded += ready[now]
        ordered -= ready[now]
        if now % look_steps == 0:
            least = floor[min(len(floor) - 1, now // hour_steps)]
            coming = floor[min(len(floor) - 1, (now + cold_steps + 2 * look_steps) // hour_steps)]
            need = max(least, coming)
            if reactive:
                wanted = busy + tail - head
                if wanted > 0:
                    need = max(need, int(np.ceil(wanted / (slots * (1.0 - headroom)) - 1e-9)) + spare)
            need = max(need, 1)
            needs[looks % len(needs)] = need
            looks += 1
            kept = need
            for place in range(len(needs)):
                kept = max(kept, needs[place])
            target = min(quota, kept + warm)
            if loaded + ordered < target:
                more = target - loaded - ordered
                ordered += more
                ready[now + cold_steps if cold_steps > 0 else now] += more
                if cold_steps == 0:
                    loaded += more
                    ordered -= more
            elif loaded > target:
                loaded = max(target - ordered, min(loaded, kept))
            active = min(loaded, kept)
        room = active * slots
        start = now * step
        while head < tail and busy < room:
            request = waiting[head]
            head += 1
            waits[request] = max(0.0, start - arrivals[request])
            ends[max(now + 1, round((start + durations[request]) / step))] += 1
            busy += 1
        limit = np.inf if rule == 0 else wait_limit * room / mean_duration
        while following < count and arrivals[following] < start + step:
            if busy < room and head == tail:
                waits[following] = 0.0
                ends[max(now + 1, round((arrivals[following] + durations[following]) / step))] += 1
                busy += 1
            elif tail - head + 1 > limit:
                waits[following] = -1.0 if rule == 1 else -2.0
            else:
                waiting[tail] = following
                tail += 1
            following += 1
        paid[now] = max(loaded + ordered, (busy + slots - 1) // slots)
        serving[now] = active
    for place in range(head, tail):
        waits[waiting[place]] = steps * step - arrivals[waiting[place]]
    for place in range(following, count):
        waits[place] = 0.0
    return waits, paid, serving


@cache
def compiled() -> Any:
    """Return the loop compiled to machine code (once in a process)."""
    from numba import njit

    return njit(replay_steps)
