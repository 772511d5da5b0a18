"""Compiled: elastic jobs that run on fewer accelerators than they asked for take more, once nobody waits for them."""

from __future__ import annotations

from capplan.compiling import compiled
from capplan.questions.cluster.lists import copy_row, dequeue, progress, start, stop
from capplan.questions.cluster.placing import choose, take
from capplan.questions.cluster.signatures import COUNT, NODES, RULES, STATE, TRACE
from capplan.questions.cluster.state import (
    BY_END,
    END,
    FREE,
    HELD,
    NEED,
    NOW,
    OPEN_FREE,
    PREEMPTED,
    RATE,
    RECORD,
    RECORDS_AMOUNT,
    RECORDS_NEXT,
    RECORDS_NODE,
    REMAINING,
    RUNNING_JOBS,
    STARTED,
)


@compiled(COUNT, TRACE, NODES, RULES, STATE, source=__file__)
def _grows(job, trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Give a job more accelerators if it ends sooner for it, the time to save itself and load again included; return whether it got them."""
    now, pause = state.scalars[NOW], rules.checkpoint_seconds + rules.restart_seconds
    copy_row(state.node[FREE], state.node[OPEN_FREE])
    record = state.counts[RECORD, job]
    while record >= 0:
        state.node[OPEN_FREE, state.records[RECORDS_NODE, record]] += state.records[RECORDS_AMOUNT, record]
        record = state.records[RECORDS_NEXT, record]
    _, rate, _ = choose(job, state.node[OPEN_FREE], False, trace, nodes, rules, state)
    left = state.job[REMAINING, job] - progress(job, now, state)
    if rate <= state.job[RATE, job] or now + pause + left / rate >= state.job[END, job]:
        return False
    stop(job, 0.0, pause, trace, nodes, rules, state)
    # it was not displaced
    state.counts[PREEMPTED, job] -= 1
    taken, rate, _ = choose(job, state.node[FREE], True, trace, nodes, rules, state)
    take(job, taken, now, trace, nodes, state)
    dequeue(job, trace, state)
    start(job, taken, rate, trace, rules, state)
    return True


@compiled(TRACE, NODES, RULES, STATE, source=__file__)
def grow(trace, nodes, rules, state):  # type: ignore[no-untyped-def]
    """Let elastic jobs grow, those that would end last first; nobody grows twice at one instant."""
    index = 0
    while index < state.scalars[RUNNING_JOBS]:
        job = state.running[BY_END, index]
        small = 0 < state.counts[HELD, job] < trace.whole[NEED, job] and state.job[STARTED, job] < state.scalars[NOW]
        index = 0 if small and _grows(job, trace, nodes, rules, state) else index + 1
