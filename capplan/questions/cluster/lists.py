"""Compiled: sorted lists of jobs, and the start and end of a run."""

import numpy as np

from capplan.compiling import compiled
from capplan.questions.cluster.node_choice import give_back
from capplan.questions.cluster.signatures import COUNT, COUNTS, NODES, REAL, REALS, RULES, STATE, TRACE
from capplan.questions.cluster.state import (
    ATTAINED,
    BY_END,
    BY_EXPECTED,
    END,
    ENDED,
    EXPECTED,
    EXPECTED_END,
    FIRST_START,
    HELD,
    JOB_QUEUE,
    KEY,
    LINE,
    LOST,
    NOW,
    OVERHEAD,
    PARTS,
    PREEMPTED,
    QUEUE_HEAD,
    QUEUE_START,
    QUEUE_TAIL,
    RATE,
    REMAINING,
    RUNNING,
    RUNNING_JOBS,
    SPREAD_OVER,
    STARTED,
    STATUS,
    WAITING,
    WAITING_JOBS,
    WHOLE,
    WORK,
)

#: Orders that depend on what has happened to a job; the others are fixed in Trace.key.
FIXED, BY_REMAINING, BY_ATTAINED, ROUND_ROBIN = 0, 1, 2, 3
#: Who may overtake a job that finds no room; from EASY on, expected ends are kept in order.
STRICT, SKIP, EASY, CONSERVATIVE = 0, 1, 2, 3


@compiled(COUNTS, COUNTS, source=__file__)
def copy_row(source, target):  # type: ignore[no-untyped-def]
    """Copy a row."""
    for index in range(len(source)):
        target[index] = source[index]


@compiled(COUNTS, source=__file__)
def total_of(row):  # type: ignore[no-untyped-def]
    """Return the sum of a row."""
    total = 0
    for value in row:
        total += value
    return total


@compiled(COUNTS, COUNT, COUNT, REALS, COUNT, source=__file__)
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


@compiled(COUNTS, COUNT, REALS, COUNT, source=__file__)
def _place_from_last(entries, count, keys, job):  # type: ignore[no-untyped-def]
    """Return where a job stands, or would stand, in a list whose lowest key is last; equal keys by submission from there."""
    key, low, high = keys[job], 0, count
    while low < high:
        middle = (low + high) // 2
        other = entries[middle]
        if keys[other] > key or (keys[other] == key and other > job):
            low = middle + 1
        else:
            high = middle
    return low


@compiled(COUNTS, COUNT, REALS, COUNT, source=__file__)
def insert(entries, count, keys, job):  # type: ignore[no-untyped-def]
    """Put a job into a list of `count` entries, the lowest key last: what comes and goes soon moves few others."""
    place = _place_from_last(entries, count, keys, job)
    for index in range(count, place, -1):
        entries[index] = entries[index - 1]
    entries[place] = job


@compiled(COUNTS, COUNT, REALS, COUNT, source=__file__)
def remove(entries, count, keys, job):  # type: ignore[no-untyped-def]
    """Take a job out of a list of `count` entries, the lowest key last."""
    if entries[count - 1] == job:
        return
    for index in range(_place_from_last(entries, count, keys, job), count - 1):
        entries[index] = entries[index + 1]


@compiled(STATE, source=__file__)
def first_to_end(state):  # type: ignore[no-untyped-def]
    """Return the running job that ends first."""
    return state.running[BY_END, int(state.scalars[RUNNING_JOBS]) - 1]


@compiled(COUNT, REAL, TRACE, STATE, source=__file__)
def expected_left(job, done, trace, state):  # type: ignore[no-untyped-def]
    """Return the work a job is expected to have left, once it has done so much more; 0 for one that has outlasted its expectation."""
    return max(trace.real[EXPECTED, job] - trace.real[WORK, job] + state.job[REMAINING, job] - done, 0.0)


@compiled(COUNT, REAL, TRACE, STATE, source=__file__)
def expected_end(job, rate, trace, state):  # type: ignore[no-untyped-def]
    """Return when a job that starts now is expected to end."""
    return state.scalars[NOW] + state.job[OVERHEAD, job] + expected_left(job, 0.0, trace, state) / rate


@compiled(COUNT, REAL, TRACE, RULES, STATE, source=__file__)
def enqueue(job, now, trace, rules, state):  # type: ignore[no-untyped-def]
    """Let a job wait, in the place its policy gives it; whichever side is shorter moves."""
    if rules.order == BY_REMAINING:
        state.job[KEY, job] = expected_left(job, 0.0, trace, state)
    elif rules.order == BY_ATTAINED:
        state.job[KEY, job] = np.floor(state.job[ATTAINED, job] / rules.quantum_seconds)
    elif rules.order == ROUND_ROBIN:
        state.job[KEY, job] = now
    state.counts[STATUS, job] = WAITING
    state.scalars[WAITING_JOBS] += 1
    queue = trace.whole[JOB_QUEUE, job]
    head, tail = state.line[QUEUE_HEAD, queue], state.line[QUEUE_TAIL, queue]
    place = _place_of(state.counts[LINE], head, tail, state.job[KEY], job)
    if tail < state.line[QUEUE_START, queue + 1] and (head == state.line[QUEUE_START, queue] or tail - place <= place - head):
        for index in range(tail, place, -1):
            state.counts[LINE, index] = state.counts[LINE, index - 1]
        state.counts[LINE, place] = job
        state.line[QUEUE_TAIL, queue] = tail + 1
    else:
        for index in range(head - 1, place - 1):
            state.counts[LINE, index] = state.counts[LINE, index + 1]
        state.counts[LINE, place - 1] = job
        state.line[QUEUE_HEAD, queue] = head - 1


@compiled(COUNT, TRACE, STATE, source=__file__)
def dequeue(job, trace, state):  # type: ignore[no-untyped-def]
    """Take a job out of its queue."""
    queue = trace.whole[JOB_QUEUE, job]
    head, tail = state.line[QUEUE_HEAD, queue], state.line[QUEUE_TAIL, queue]
    place = _place_of(state.counts[LINE], head, tail, state.job[KEY], job)
    state.scalars[WAITING_JOBS] -= 1
    if place - head <= tail - place:
        for index in range(place, head, -1):
            state.counts[LINE, index] = state.counts[LINE, index - 1]
        state.line[QUEUE_HEAD, queue] = head + 1
    else:
        for index in range(place, tail - 1):
            state.counts[LINE, index] = state.counts[LINE, index + 1]
        state.line[QUEUE_TAIL, queue] = tail - 1


@compiled(COUNT, COUNT, REAL, TRACE, RULES, STATE, source=__file__)
def start(job, taken, rate, trace, rules, state):  # type: ignore[no-untyped-def]
    """Let a job run on what it has taken."""
    now = state.scalars[NOW]
    state.counts[STATUS, job] = RUNNING
    state.job[RATE, job] = rate
    state.job[STARTED, job] = now
    if np.isnan(state.job[FIRST_START, job]):
        state.job[FIRST_START, job] = now
    state.counts[SPREAD_OVER, job] = max(state.counts[SPREAD_OVER, job], taken)
    state.job[END, job] = now + state.job[OVERHEAD, job] + state.job[REMAINING, job] / rate
    state.job[EXPECTED_END, job] = expected_end(job, rate, trace, state)
    count = int(state.scalars[RUNNING_JOBS])
    insert(state.running[BY_END], count, state.job[END], job)
    if rules.backfill >= EASY:
        insert(state.running[BY_EXPECTED], count, state.job[EXPECTED_END], job)
    state.scalars[RUNNING_JOBS] = count + 1


@compiled(COUNT, REAL, STATE, source=__file__)
def progress(job, now, state):  # type: ignore[no-untyped-def]
    """Return the work a running job has done since it last started, in seconds at its recorded speed."""
    return min(max(now - state.job[STARTED, job] - state.job[OVERHEAD, job], 0.0) * state.job[RATE, job], state.job[REMAINING, job])


@compiled(COUNT, REAL, REAL, TRACE, NODES, RULES, STATE, source=__file__)
def stop(job, lost_back_to, overhead, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Stop a running job before its end and let it wait again.

    With lost_back_to = 0 all its work is kept; otherwise only whole multiples of lost_back_to seconds of work since it started.
    """
    now = state.scalars[NOW]
    done = progress(job, now, state)
    kept = done if lost_back_to == 0.0 else np.floor(done / lost_back_to) * lost_back_to
    count = int(state.scalars[RUNNING_JOBS])
    remove(state.running[BY_END], count, state.job[END], job)
    if rules.backfill >= EASY:
        remove(state.running[BY_EXPECTED], count, state.job[EXPECTED_END], job)
    state.scalars[RUNNING_JOBS] = count - 1
    state.job[LOST, job] += done - kept
    state.job[REMAINING, job] -= kept
    state.job[ATTAINED, job] += (now - state.job[STARTED, job]) * max(state.counts[HELD, job], trace.whole[PARTS, job] / WHOLE)
    state.job[OVERHEAD, job] = overhead
    state.counts[PREEMPTED, job] += 1
    give_back(job, now, trace, nodes, state)
    enqueue(job, now, trace, rules, state)


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def finish(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """End a job that is first in the list of ends."""
    count = int(state.scalars[RUNNING_JOBS])
    remove(state.running[BY_END], count, state.job[END], job)
    if rules.backfill >= EASY:
        remove(state.running[BY_EXPECTED], count, state.job[EXPECTED_END], job)
    state.scalars[RUNNING_JOBS] = count - 1
    state.counts[STATUS, job] = ENDED
    state.job[REMAINING, job] = 0.0
    give_back(job, state.scalars[NOW], trace, nodes, state)
