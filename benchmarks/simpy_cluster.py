"""The simulator's model of a cluster written with SimPy, as its peer: equal nodes, compact gangs, in order, EASY backfill or not.

Written the way a SimPy user would: a process for each job, and a scheduler that is called when a job comes or ends. Nodes are kept by how
many of their
accelerators are free, so that a place is found without a search over all nodes; on equal nodes that picks the same places.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from itertools import islice

import simpy
from simpy.events import NORMAL


class Free:
    """Free accelerators of nodes of one size, kept by how many there are on each."""

    def __init__(self, size: int, free: list[int]) -> None:
        self.size, self.free, self.total = size, free, sum(free)
        self.levels: list[set[int]] = [set() for _ in range(size + 1)]
        for node, count in enumerate(free):
            self.levels[count].add(node)

    def move(self, node: int, change: int) -> None:
        """Take accelerators of a node, or give them back."""
        self.levels[self.free[node]].remove(node)
        self.free[node] += change
        self.total += change
        self.levels[self.free[node]].add(node)

    def place(self, need: int) -> list | None:
        """Return a gang's place on the fewest nodes: the emptiest ones, and what is left on the tightest."""
        if need > self.total:
            return None
        left, pieces, taken = need, [], set()
        if need > self.size:
            most = -(-need // self.size)
            for level in range(self.size, 0, -1):
                for node in sorted(self.levels[level])[: left // level]:
                    pieces.append((node, level))
                    taken.add(node)
                left -= level * min(left // level, len(self.levels[level]))
                if left < level:
                    break
            if len(pieces) + (left > 0) > most:
                return None
        if not left:
            return pieces
        for level in range(left, self.size + 1):
            fit = self.levels[level] - taken if taken else self.levels[level]
            if fit:
                return [*pieces, (min(fit), left)]
        return None


class Cluster:
    """Nodes of one size, the queue, and who runs where."""

    def __init__(self, env: simpy.Environment, nodes: int, size: int, easy: bool, depth: int) -> None:
        self.env, self.size, self.easy, self.depth = env, size, easy, depth
        self.now_free = Free(size, [size] * nodes)
        self.queue: deque = deque()
        self.running: list = []
        self.called = False
        self.log: list = []

    def start(self, job: Job, pieces: list) -> None:
        """Let a job run."""
        for node, amount in pieces:
            self.now_free.move(node, -amount)
        job.pieces, job.end = pieces, self.env.now + job.length
        insort(self.running, (job.end, job.number, job))
        job.turn.succeed()

    def finish(self, job: Job) -> None:
        """Take a job's accelerators back."""
        self.running.remove((job.end, job.number, job))
        for node, amount in job.pieces:
            self.now_free.move(node, amount)
            self.log.append((job.number, node, amount, job.began, self.env.now))
        self.call()

    def reserve(self, need: int) -> tuple[float, list[int]]:
        """Return when a gang will have a place, and what each node can spare beside it."""
        later = Free(self.size, self.now_free.free.copy())
        for end, _, job in self.running:
            for node, amount in job.pieces:
                later.move(node, amount)
            pieces = later.place(need)
            if pieces is not None:
                for node, amount in pieces:
                    later.move(node, -amount)
                return end, later.free
        return float("inf"), self.now_free.free.copy()

    def call(self) -> None:
        """Have the scheduler look once, after everything else of this instant has happened."""
        if not self.called:
            self.called = True
            look = self.env.event()
            look.callbacks.append(self.schedule)
            look._ok, look._value = True, None
            self.env.schedule(look, priority=NORMAL + 1)

    def schedule(self, _: simpy.Event) -> None:
        """Start whoever may start now."""
        self.called = False
        while self.queue:
            pieces = self.now_free.place(self.queue[0].need)
            if pieces is None:
                break
            self.start(self.queue.popleft(), pieces)
        if not (self.easy and self.queue):
            return
        until, spare = self.reserve(self.queue[0].need)
        passed = 0
        for job in list(islice(self.queue, 1, None)):
            if passed == self.depth:
                break
            pieces = self.now_free.place(job.need)
            if pieces is not None and self.env.now + job.length > until:
                both = [min(free, other) for free, other in zip(self.now_free.free, spare, strict=True)]
                pieces = Free(self.size, both).place(job.need)
                for node, amount in pieces or ():
                    spare[node] -= amount
            if pieces is None:
                passed += 1
            else:
                self.queue.remove(job)
                self.start(job, pieces)


class Job:
    """One job: it comes, waits for its turn, runs, and ends."""

    def __init__(self, env: simpy.Environment, cluster: Cluster, number: int, submit: float, length: float, need: int) -> None:
        self.env, self.cluster, self.number, self.submit, self.length, self.need = env, cluster, number, submit, length, need
        self.turn = env.event()
        self.pieces: list = []
        self.end = self.began = 0.0

    def live(self):
        """Wait for the turn, run, end."""
        self.cluster.queue.append(self)
        self.cluster.call()
        yield self.turn
        self.began = self.env.now
        yield self.env.timeout(self.length)
        self.cluster.finish(self)


def arrivals(env: simpy.Environment, jobs: Sequence[Job]):
    """Let every job come at its time."""
    for job in jobs:
        if job.submit > env.now:
            yield env.timeout(job.submit - env.now)
        env.process(job.live())


def waits(
    submit: Sequence[float], length: Sequence[float], need: Sequence[int], nodes: int, size: int, easy: bool, depth: int = 500
) -> list[float]:
    """Return how long each job waits, in seconds."""
    env = simpy.Environment()
    cluster = Cluster(env, nodes, size, easy, depth)
    rows = zip(submit, length, need, strict=True)
    jobs = [Job(env, cluster, number, *row) for number, row in enumerate(rows)]
    env.process(arrivals(env, jobs))
    env.run()
    return [job.began - job.submit for job in jobs]
