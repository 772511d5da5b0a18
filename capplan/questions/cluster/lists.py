"""Compiled: sorted lists of jobs, and the start and end of a run."""

from __future__ import annotations

import numpy as np
from numba import njit

from capplan.questions.cluster.placing import give_back
from capplan.questions.cluster.state import ENDED, NOW, RUNNING, RUNNING_JOBS, WAITING, WAITING_JOBS

#: Orders that depend on what has happened to a job; the others are fixed in Trace.key.
FIXED, REMAINING, ATTAINED, ROUND_ROBIN = 0, 1, 2, 3


@njit(cache=True)
def _place_of(entries, low, high, keys, job):  # type: ignore[no-untyped-def]
    """Return where a job stands, or would stand: by key, equal keys by submission."""
    key = keys[job]
    while low < high:
        middle = (low + high) // 2
        other = entries[middle]
        if keys[other] < key or (keys[other] == key and other < job):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def insert(entries, count, keys, job):  # type: ignore[no-untyped-def]
    """Put a job into a list of `count` sorted entries."""
    place = _place_of(entries, 0, count, keys, job)
    for index in range(count, place, -1):
        entries[index] = entries[index - 1]
    entries[place] = job


@njit(cache=True)
def remove(entries, count, keys, job):  # type: ignore[no-untyped-def]
    """Take a job out of a list of `count` sorted entries."""
    for index in range(_place_of(entries, 0, count, keys, job), count - 1):
        entries[index] = entries[index + 1]


@njit(cache=True)
def enqueue(job, now, trace, rules, state):  # type: ignore[no-untyped-def]
    """Let a job wait, in the place its policy gives it; whichever side is shorter moves."""
    if rules.order == REMAINING:
        state.key[job] = state.remaining[job]
    elif rules.order == ATTAINED:
        state.key[job] = np.floor(state.attained[job] / rules.quantum_seconds)
    elif rules.order == ROUND_ROBIN:
        state.key[job] = now
    state.status[job] = WAITING
    state.scalars[WAITING_JOBS] += 1
    queue = trace.queue[job]
    head, tail = state.queue_head[queue], state.queue_tail[queue]
    place = _place_of(state.queue, head, tail, state.key, job)
    if tail < state.queue_start[queue + 1] and (head == state.queue_start[queue] or tail - place <= place - head):
        for index in range(tail, place, -1):
            state.queue[index] = state.queue[index - 1]
        state.queue[place] = job
        state.queue_tail[queue] = tail + 1
    else:
        for index in range(head - 1, place - 1):
            state.queue[index] = state.queue[index + 1]
        state.queue[place - 1] = job
        state.queue_head[queue] = head - 1


@njit(cache=True)
def dequeue(job, trace, state):  # type: ignore[no-untyped-def]
    """Take a job out of its queue."""
    queue = trace.queue[job]
    head, tail = state.queue_head[queue], state.queue_tail[queue]
    place = _place_of(state.queue, head, tail, state.key, job)
    state.scalars[WAITING_JOBS] -= 1
    if place - head <= tail - place:
        for index in range(place, head, -1):
            state.queue[index] = state.queue[index - 1]
        state.queue_head[queue] = head + 1
    else:
        for index in range(place, tail - 1):
            state.queue[index] = state.queue[index + 1]
        state.queue_tail[queue] = tail - 1


@njit(cache=True)
def start(job, taken, rate, trace, state):  # type: ignore[no-untyped-def]
    """Let a job run on what it has taken."""
    now = state.scalars[NOW]
    state.status[job] = RUNNING
    state.rate[job] = rate
    state.started[job] = now
    if np.isnan(state.first_start[job]):
        state.first_start[job] = now
    state.spread_over[job] = max(state.spread_over[job], taken)
    state.end[job] = now + state.overhead[job] + state.remaining[job] / rate
    done = trace.work[job] - state.remaining[job]
    state.expected_end[job] = now + state.overhead[job] + max(trace.expected[job] - done, 0.0) / rate
    count = int(state.scalars[RUNNING_JOBS])
    insert(state.by_end, count, state.end, job)
    insert(state.by_expected, count, state.expected_end, job)
    state.scalars[RUNNING_JOBS] = count + 1


@njit(cache=True)
def progress(job, now, state):  # type: ignore[no-untyped-def]
    """Return the work a running job has done since it last started, in seconds at its recorded speed."""
    return min(max(now - state.started[job] - state.overhead[job], 0.0) * state.rate[job], state.remaining[job])


@njit(cache=True)
def stop(job, lost_back_to, overhead, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Stop a running job before its end and let it wait again.

    With lost_back_to = 0 all its work is kept; otherwise only whole multiples of lost_back_to seconds of work since it started.
    """
    now = state.scalars[NOW]
    done = progress(job, now, state)
    kept = done if lost_back_to == 0.0 else np.floor(done / lost_back_to) * lost_back_to
    count = int(state.scalars[RUNNING_JOBS])
    remove(state.by_end, count, state.end, job)
    remove(state.by_expected, count, state.expected_end, job)
    state.scalars[RUNNING_JOBS] = count - 1
    state.lost[job] += done - kept
    state.remaining[job] -= kept
    state.attained[job] += (now - state.started[job]) * max(state.held[job], trace.thousandths[job] / 1000.0)
    state.overhead[job] = overhead
    state.preempted[job] += 1
    give_back(job, now, trace, nodes, state)
    enqueue(job, now, trace, rules, state)


@njit(cache=True)
def finish(job, trace, nodes, state):  # type: ignore[no-untyped-def]
    """End a job that is first in the list of ends."""
    count = int(state.scalars[RUNNING_JOBS])
    remove(state.by_end, count, state.end, job)
    remove(state.by_expected, count, state.expected_end, job)
    state.scalars[RUNNING_JOBS] = count - 1
    state.status[job] = ENDED
    state.remaining[job] = 0.0
    give_back(job, state.scalars[NOW], trace, nodes, state)
