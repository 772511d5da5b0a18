"""The compiled loop of the autoscaling replay: one step of time after another, with an exact first-come, first-served queue."""

from typing import NamedTuple

import numpy as np
from numba import njit


class Pace(NamedTuple):
    """How time goes."""

    step: float  #: Seconds of a step.
    cold_steps: int  #: Steps of a cold start.
    look_steps: int  #: Steps between two looks of the autoscaler.
    down_looks: int  #: Looks whose highest need bounds the shrinking.


class Fleet(NamedTuple):
    """What follows the load, and how far."""

    slots: int  #: Requests a replica serves at once.
    reactive: bool  #: Does the fleet grow beyond the floor with the load?
    headroom: float  #: Free share of slots aimed at.
    spare: int  #: Replicas beyond the need.
    warm: int  #: Replicas kept loaded.
    quota: int  #: Most replicas that are paid for.


class Admission(NamedTuple):
    """What happens beyond the wait limit."""

    rule: int  #: 0 queue, 1 shed, 2 route.
    wait_limit: float  #: Seconds.
    mean_duration: float  #: Mean service that predicts the wait, seconds.


@njit
def _needed(now, wanted, floor, pace, fleet):  # type: ignore[no-untyped-def]
    """Return the replicas that the floor, a cold start and two looks ahead, and so many requests need."""
    hour_steps = round(3600.0 / pace.step)
    least = floor[min(len(floor) - 1, now // hour_steps)]
    need = max(least, floor[min(len(floor) - 1, (now + pace.cold_steps + 2 * pace.look_steps) // hour_steps)])
    if fleet.reactive and wanted > 0:
        need = max(need, int(np.ceil(wanted / (fleet.slots * (1.0 - fleet.headroom)) - 1e-9)) + fleet.spare)
    return max(need, 1)


@njit
def replay_steps(arrivals, durations, floor, pace, fleet, admission):  # type: ignore[no-untyped-def]
    """Serve a trace with a fleet that follows it.

    In a step, first the requests that end leave, then the autoscaler looks (if it is its turn), then those that wait
    start, then the arrivals of the step come: each takes a free slot, waits, or is turned away. Ends are rounded to the nearest step.

    Args:
        arrivals, durations: Seconds of arrival (ascending) and of service of each request.
        floor: Replicas the fleet never falls below, one number an hour.

    Returns:
        tuple of ndarray: Wait of each request (-1 shed, -2 routed), replicas paid for and replicas serving at the end of each step.
    """
    count, step, slots = len(arrivals), pace.step, fleet.slots
    steps = len(floor) * round(3600.0 / step)
    longest = 0.0
    for index in range(count):
        longest = max(longest, durations[index])
    ends = np.zeros(steps + int(longest / step) + 3, dtype=np.int32)
    ready = np.zeros(steps + pace.cold_steps + 2, dtype=np.int32)
    waits, waiting = np.zeros(count, dtype=np.float32), np.empty(count, dtype=np.int64)
    paid, serving = np.empty(steps, dtype=np.int32), np.empty(steps, dtype=np.int32)
    needs = np.full(max(1, pace.down_looks), floor[0], dtype=np.int64)
    loaded = min(fleet.quota, max(floor[0] + fleet.warm, 1))
    active, ordered, busy, head, tail, following, looks = min(loaded, max(floor[0], 1)), 0, 0, 0, 0, 0, 0
    for now in range(steps):
        busy -= ends[now]
        loaded += ready[now]
        ordered -= ready[now]
        if now % pace.look_steps == 0:
            needs[looks % len(needs)] = _needed(now, busy + tail - head, floor, pace, fleet)
            looks += 1
            kept = needs.max()
            target = min(fleet.quota, kept + fleet.warm)
            if loaded + ordered < target:
                more = target - loaded - ordered
                if pace.cold_steps > 0:
                    ordered += more
                    ready[now + pace.cold_steps] += more
                else:
                    loaded += more
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
        limit = np.inf if admission.rule == 0 else admission.wait_limit * room / admission.mean_duration
        while following < count and arrivals[following] < start + step:
            if busy < room and head == tail:
                ends[max(now + 1, round((arrivals[following] + durations[following]) / step))] += 1
                busy += 1
            elif tail - head + 1 > limit:
                waits[following] = -1.0 if admission.rule == 1 else -2.0
            else:
                waiting[tail] = following
                tail += 1
            following += 1
        paid[now] = max(loaded + ordered, (busy + slots - 1) // slots)
        serving[now] = active
    for place in range(head, tail):
        waits[waiting[place]] = steps * step - arrivals[waiting[place]]
    return waits, paid, serving
