"""What the simulator reads and changes: flat arrays in named tuples, so that compiled code and tests see the same names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Whole = np.ndarray[Any, np.dtype[np.int64]]

#: Whether a job is still to come, waits, runs, or has ended.
COMING, WAITING, RUNNING, ENDED = 0, 1, 2, 3
#: A whole accelerator in the units of a shared one.
WHOLE = 1000
#: Places of the scalars in State.scalars.
NOW, NEXT_JOB, NEXT_CHANGE, WAITING_JOBS, RUNNING_JOBS, RECORDS_FREE, LOGGED, SLOTS, NEXT_TICK, COUNTED_UNTIL = range(10)
#: Columns of State.log.
LOG_JOB, LOG_NODE, LOG_AMOUNT, LOG_START, LOG_END = range(5)


class Trace(NamedTuple):
    """Jobs, in the order of their submission; one entry a job."""

    submit: Floats
    work: Floats
    expected: Floats
    need: Whole
    thousandths: Whole
    least: Whole
    key: Floats
    queue: Whole
    team: Whole
    kind: Whole
    speed_row: Whole


class Nodes(NamedTuple):
    """Nodes, sorted by kind of accelerator; `kind_start` bounds the nodes of a kind, `speed` is by row and kind."""

    size: Whole
    kind: Whole
    domain: Whole
    kind_start: Whole
    kind_size: Whole
    speed: Floats
    change_time: Floats
    change_node: Whole
    change_to: Whole


class Rules(NamedTuple):
    """Policy and costs as plain numbers."""

    order: int
    backfill: int
    preempt: int
    gang: int
    placement: int
    scatter: int
    scatter_slowdown: float
    sharing_slowdown: float
    checkpoint_seconds: float
    restart_seconds: float
    checkpoint_interval_seconds: float
    quantum_seconds: float
    depth: int
    half_life_seconds: float
    quotas: int
    share: Floats
    nominal: Whole
    borrowing: Whole
    lending: Whole


class State(NamedTuple):
    """Everything that changes, so that a run can stop, get more room for its log, and go on."""

    status: Whole
    remaining: Floats
    rate: Floats
    overhead: Floats
    started: Floats
    first_start: Floats
    end: Floats
    expected_end: Floats
    key: Floats
    attained: Floats
    lost: Floats
    preempted: Whole
    held: Whole
    spread_over: Whole
    record: Whole
    queue: Whole
    queue_start: Whole
    queue_head: Whole
    queue_tail: Whole
    by_end: Whole
    by_expected: Whole
    free: Whole
    up: Whole
    free_of_kind: Whole
    records_node: Whole
    records_amount: Whole
    records_slot: Whole
    records_next: Whole
    records_time: Floats
    slot_node: Whole
    slot_free: Whole
    picked_node: Whole
    picked_amount: Whole
    picked_slot: Whole
    open_free: Whole
    spare: Whole
    used: Whole
    team_usage: Floats
    scalars: Floats
    log: Floats


def new_state(trace: Trace, nodes: Nodes, queues: int, teams: int) -> State:
    """Return the state before the first event; memory is linear in jobs plus accelerators."""
    jobs, count = len(trace.submit), len(nodes.size)
    devices = int(nodes.size.sum())
    shared = trace.thousandths[trace.thousandths > 0]
    sharers = min(len(shared), devices * (WHOLE // int(shared.min()))) if len(shared) else 0
    records = devices + sharers + 1
    sizes = np.bincount(trace.queue, minlength=queues)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def whole(length: int, value: int = 0) -> Whole:
        return np.full(length, value, dtype=np.int64)

    def real(length: int, value: float = 0.0) -> Floats:
        return np.full(length, value)

    following = np.arange(1, records + 1, dtype=np.int64)
    following[-1] = -1
    scalars = real(10)
    scalars[NEXT_TICK] = np.inf
    width = max(count, devices) + 1
    return State(
        status=whole(jobs, COMING),
        remaining=trace.work.copy(),
        rate=real(jobs, 1.0),
        overhead=real(jobs),
        started=real(jobs, np.nan),
        first_start=real(jobs, np.nan),
        end=real(jobs, np.nan),
        expected_end=real(jobs, np.nan),
        key=trace.key.copy(),
        attained=real(jobs),
        lost=real(jobs),
        preempted=whole(jobs),
        held=whole(jobs),
        spread_over=whole(jobs),
        record=whole(jobs, -1),
        queue=whole(jobs),
        queue_start=starts,
        queue_head=starts[:-1].copy(),
        queue_tail=starts[:-1].copy(),
        by_end=whole(devices + sharers + 1),
        by_expected=whole(devices + sharers + 1),
        free=nodes.size.copy(),
        up=whole(count, 1),
        free_of_kind=np.bincount(nodes.kind, weights=nodes.size, minlength=len(nodes.kind_size)).astype(np.int64),
        records_node=whole(records),
        records_amount=whole(records),
        records_slot=whole(records, -1),
        records_next=following,
        records_time=real(records),
        slot_node=whole(devices + 1, -1),
        slot_free=whole(devices + 1, WHOLE),
        picked_node=whole(width),
        picked_amount=whole(width),
        picked_slot=whole(1, -1),
        open_free=whole(count),
        spare=whole(count),
        used=whole(teams),
        team_usage=real(teams),
        scalars=scalars,
        log=np.empty((2 * jobs + 4 * records, 5)),
    )
