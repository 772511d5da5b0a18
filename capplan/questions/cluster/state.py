"""What the simulator reads and changes: flat arrays in named tuples, so that compiled code and tests see the same names."""

from typing import NamedTuple

import numpy as np

#: One number a row, and several rows of them.
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
FloatRows = np.ndarray[tuple[int, int], np.dtype[np.float64]]
WholeRows = np.ndarray[tuple[int, int], np.dtype[np.int64]]

#: Whether a job is still to come, waits, runs, or has ended.
COMING, WAITING, RUNNING, ENDED = 0, 1, 2, 3
#: A whole accelerator in the units of its parts, so that thousandths and sevenths are whole numbers.
WHOLE = 7000
#: What elastic jobs do while they run: take more, also give some away, or give some away to jobs at least as urgent only.
GROWING, SHRINKING, BY_URGENCY = 1, 2, 3
#: Places of the scalars in State.scalars.
NOW, NEXT_JOB, NEXT_CHANGE, WAITING_JOBS, RUNNING_JOBS, RECORDS_FREE, LOGGED, SLOTS, NEXT_TICK, COUNTED_UNTIL = range(10)
#: Columns of State.log.
LOG_JOB, LOG_NODE, LOG_AMOUNT, LOG_START, LOG_END = range(5)


#: Rows of State.job, State.counts, State.line, State.running, State.node, State.records, State.slot and State.picked.
REMAINING, RATE, OVERHEAD, STARTED, FIRST_START, END, EXPECTED_END, KEY, ATTAINED, LOST, RAN = range(11)
STATUS, PREEMPTED, HELD, SPREAD_OVER, RECORD, LINE, RESIZED = range(7)
QUEUE_START, QUEUE_HEAD, QUEUE_TAIL = range(3)
BY_END, BY_EXPECTED = range(2)
FREE, UP, OPEN_FREE, SPARE = range(4)
RECORDS_NODE, RECORDS_AMOUNT, RECORDS_SLOT, RECORDS_NEXT, RECORDS_BITS = range(5)
SLOT_NODE, SLOT_FREE, SLOT_BITS = range(3)
PICKED_NODE, PICKED_AMOUNT = range(2)
#: Rows of State.scratch and State.scratch_real: what one pass over the queue works with.
SKIPPED, SLOTS_LEFT, KINDS_LEFT, VICTIMS, WANTED = range(5)
TIMES, WINDOW_FREE, SMALLEST, AHEAD = range(4)
#: Rows of Jobs.real and Jobs.whole, and of Places.node and Places.change.
SUBMIT, WORK, EXPECTED, JOB_KEY = range(4)
NEED, PARTS, LEAST, JOB_QUEUE, TEAM, JOB_KIND, SPEED_ROW, SLICES = range(8)
NODE_SIZE, NODE_KIND, NODE_DOMAIN = range(3)
CHANGE_NODE, CHANGE_TO = range(2)


class Jobs(NamedTuple):
    """A trace as compiled code takes it: few arrays, since each costs time to compile."""

    real: FloatRows
    whole: WholeRows


class Trace(NamedTuple):
    """Jobs by submission, one entry a job; `slices` are those of the partition that a part takes, 0 where parts divide freely."""

    submit: Floats
    work: Floats
    expected: Floats
    need: Whole
    parts: Whole
    slices: Whole
    least: Whole
    key: Floats
    queue: Whole
    team: Whole
    kind: Whole
    speed_row: Whole

    def packed(self) -> Jobs:
        """Return the rows as compiled code takes them."""
        whole = (self.need, self.parts, self.least, self.queue, self.team, self.kind, self.speed_row, self.slices)
        return Jobs(np.stack((self.submit, self.work, self.expected, self.key)), np.stack(whole))


class Places(NamedTuple):
    """Nodes as compiled code takes them."""

    node: WholeRows
    kind_start: Whole
    kind_size: Whole
    speed: FloatRows
    change_time: Floats
    change: WholeRows


class Nodes(NamedTuple):
    """Nodes, sorted by kind of accelerator; `kind_start` bounds the nodes of a kind, `speed` is by row and kind."""

    size: Whole
    kind: Whole
    domain: Whole
    kind_start: Whole
    kind_size: Whole
    speed: FloatRows
    change_time: Floats
    change_node: Whole
    change_to: Whole

    def packed(self) -> Places:
        """Return the rows as compiled code takes them."""
        node = np.stack((self.size, self.kind, self.domain))
        return Places(node, self.kind_start, self.kind_size, self.speed, self.change_time, np.stack((self.change_node, self.change_to)))


class Rules(NamedTuple):
    """Policy and costs as plain numbers."""

    order: int
    backfill: int
    preempt: int
    gang: int
    elastic: int
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
    """Everything that changes, so that a run can stop, get more room for its log, and go on; rows as named above.

    `levels` counts the nodes of a kind by how many of their accelerators are free; `later_levels` are those at the time of a reservation.
    """

    job: FloatRows
    counts: WholeRows
    line: WholeRows
    running: WholeRows
    node: WholeRows
    free_of_kind: Whole
    levels: WholeRows
    later_levels: WholeRows
    records: WholeRows
    records_time: Floats
    slot: WholeRows
    picked: WholeRows
    picked_slot: Whole
    used: Whole
    team_usage: Floats
    scalars: Floats
    log: FloatRows
    scratch: WholeRows
    scratch_real: FloatRows


def new_state(trace: Trace, nodes: Nodes, queues: int, teams: int, depth: int) -> State:
    """Return the state before the first event; memory is linear in jobs plus accelerators."""
    jobs, count = len(trace.submit), len(nodes.size)
    devices = int(nodes.size.sum())
    shared = trace.parts[trace.parts > 0]
    sharers = min(len(shared), devices * (WHOLE // int(shared.min()))) if len(shared) else 0
    records = devices + sharers + 1
    starts = np.concatenate([[0], np.cumsum(np.bincount(trace.queue, minlength=queues))]).astype(np.int64)
    job = np.zeros((11, jobs))
    job[REMAINING], job[RATE], job[KEY] = trace.work, 1.0, trace.key
    job[STARTED], job[FIRST_START], job[END], job[EXPECTED_END] = np.nan, np.nan, np.nan, np.nan
    whole = np.zeros((7, jobs), dtype=np.int64)
    whole[STATUS], whole[RECORD] = COMING, -1
    line = np.stack((starts, starts, starts))
    node = np.zeros((4, count), dtype=np.int64)
    node[FREE], node[UP] = nodes.size, 1
    levels = np.zeros((len(nodes.kind_size), int(nodes.kind_size.max()) + 1), dtype=np.int64)
    np.add.at(levels, (nodes.kind, nodes.size), 1)
    chain = np.zeros((5, records), dtype=np.int64)
    chain[RECORDS_SLOT], chain[RECORDS_NEXT] = -1, np.arange(1, records + 1)
    chain[RECORDS_NEXT, -1] = -1
    slot = np.zeros((3, devices + 1), dtype=np.int64)
    slot[SLOT_NODE], slot[SLOT_FREE] = -1, WHOLE
    scalars = np.zeros(10)
    scalars[NEXT_TICK] = np.inf
    return State(
        job=job,
        counts=whole,
        line=line,
        running=np.zeros((2, devices + sharers + 1), dtype=np.int64),
        node=node,
        free_of_kind=np.bincount(nodes.kind, weights=nodes.size, minlength=len(nodes.kind_size)).astype(np.int64),
        levels=levels,
        later_levels=np.zeros_like(levels),
        records=chain,
        records_time=np.zeros(records),
        slot=slot,
        picked=np.zeros((2, max(count, devices) + 1), dtype=np.int64),
        picked_slot=np.full(1, -1, dtype=np.int64),
        used=np.zeros(teams, dtype=np.int64),
        team_usage=np.zeros(teams),
        scalars=scalars,
        log=np.empty((2 * jobs + 4 * records, 5)),
        scratch=np.zeros((5, max(queues, records, count) + 1), dtype=np.int64),
        scratch_real=np.zeros((4, 2 * min(depth, jobs) + records + 4)),
    )
