"""What a schedule is judged by, and bounds that need no search."""

from dataclasses import dataclass

import numpy as np

from capplan.questions.placement.methods import Found, free_from
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.state import Floats

#: Hours by which a deadline may be missed before it counts.
LATE = 1e-6


@dataclass(frozen=True)
class Goal:
    """What is best."""

    kind: str  #: "makespan" (last end), "lateness" (worst hours after a due date), "cost", or "cost_under_deadline".
    #: (tasks,): What ends are held against in the figure: 0 for the makespan, the deadlines for lateness; infinite where nothing is.
    due: Floats
    must: Floats  #: (tasks,): Deadlines that have to be kept; infinite where there is none.

    @property
    def timed(self) -> bool:
        """Tell whether it is judged by ends rather than by money."""
        return self.kind in ("makespan", "lateness")

    def late(self, found: Found) -> float:
        """Return the worst of ends minus due dates."""
        return float((found.end - self.due).max())

    def missed(self, found: Found) -> float:
        """Return the hours by which deadlines that have to be kept are missed at worst; 0 where all are kept."""
        late = float((found.end - self.must).max())
        return late if late > LATE else 0.0

    def value(self, problem: Problem, found: Found) -> float:
        """Return the figure that is made small."""
        return self.late(found) if self.timed else cost_of(problem, found)

    def key(self, problem: Problem, found: Found) -> tuple[float, ...]:
        """Return what schedules are sorted by: deadlines first, then the figure, then the other one."""
        usd, end = cost_of(problem, found), float(found.end.max())
        figures = (self.late(found), end, usd) if self.timed else (usd, end)
        return tuple(round(figure, 9) for figure in (self.missed(found), *figures))


def goal_of(problem: Problem, objective: str) -> Goal:
    """Return the goal of an objective of the assumptions; "lateness" for the deadline question."""
    none = np.full(len(problem.due), np.inf)
    due = {"makespan": np.zeros(len(problem.due)), "lateness": problem.due}.get(objective, none)
    return Goal(objective, due, problem.due if objective in ("makespan", "cost_under_deadline") else none)


def transfer_usd(problem: Problem, found: Found) -> Floats:
    """Return the price of each transfer: that of its dearest pair of nodes."""
    work, links = problem.work, problem.links
    target = np.repeat(np.arange(len(found.start)), np.diff(work.before))
    fees = np.zeros(len(work.source))
    for edge in np.flatnonzero(work.gigabytes > 0):
        begin, end = found.nodes[work.source[edge]], found.nodes[target[edge]]
        prices = links.usd_per_gb[np.ix_(links.place[begin], links.place[end])] * (begin[:, None] != end[None, :])
        fees[edge] = work.gigabytes[edge] * prices.max()
    return fees


def cost_of(problem: Problem, found: Found) -> float:
    """Return USD of nodes, each by the share a task takes of it, and of transfers."""
    fees = transfer_usd(problem, found) if (problem.links.usd_per_gb > 0).any() else np.zeros(1)
    return float(problem.work.usd[np.arange(len(found.group)), found.group].sum() + fees.sum())


@dataclass(frozen=True)
class Span:
    """How long tasks, and what lies between them, take at least."""

    hours: Floats  #: (tasks,): Shortest duration.
    delay: Floats  #: (edges,): Shortest transfer.
    earliest: Floats  #: (tasks,): Earliest start.
    latest: Floats  #: (tasks,): Latest end that keeps all due dates that follow; infinite where nothing is due.
    last: Floats  #: (tasks,): The same for the deadlines that have to be kept.


def least(problem: Problem, goal: Goal) -> Span:
    """Bound starts and ends by the shortest durations and transfers along each path."""
    from capplan.questions.placement.chains import backward, forward

    work = problem.work
    hours = np.where(problem.allowed, work.hours, np.inf).min(axis=1)
    delay = least_delays(problem)
    earliest = np.maximum(work.release, _there(problem))
    forward(problem.order, work.before, work.source, hours, delay, earliest)
    ends = []
    for due in (goal.due, goal.must):
        finish = due.astype(float)
        backward(problem.order, work.before, work.source, hours, delay, finish)
        ends.append(finish)
    return Span(hours, delay, earliest, *ends)


def _there(problem: Problem) -> Floats:
    """Return the hour from which enough nodes are there for each task."""
    free, work = free_from(problem), problem.work
    soonest = np.full(work.members.shape, np.inf)
    for group, inside in enumerate(problem.machines.members):
        ordered = np.sort(free[inside])
        able = work.members[:, group] > 0
        soonest[able, group] = ordered[work.members[able, group] - 1]
    return np.asarray(soonest.min(axis=1))


def least_delays(problem: Problem) -> Floats:
    """Return the shortest time of each transfer over the nodes on which its two tasks may run."""
    work, links, members = problem.work, problem.links, problem.machines.members
    target = np.repeat(np.arange(len(work.release)), np.diff(work.before))
    inside = float(problem.ground.inside[0])
    shortest = links.hours_per_gb.min(initial=np.inf)
    meets = (problem.allowed[work.source].astype(float) @ _same(members).astype(float) * problem.allowed[target]).sum(axis=1) > 0
    # the slowest pair of nodes of a gang is always one of two different nodes
    gang = (work.members != 1).all(axis=1)
    meets &= ~(gang[work.source] | gang[target])
    low = np.full(len(work.source), min(inside, shortest))
    if len(members) <= 40:
        places = [np.unique(links.place[group]) for group in members]
        between = np.array([[links.hours_per_gb[np.ix_(one, other)].min() for other in places] for one in places])
        for edge in np.flatnonzero(~meets):
            low[edge] = between[np.ix_(problem.allowed[work.source[edge]], problem.allowed[target[edge]])].min()
    else:
        low = np.where(meets, low, shortest)
    return np.asarray(low * work.gigabytes)


def _same(members: tuple[np.ndarray, ...]) -> np.ndarray:
    """Tell which groups share a node."""
    used = np.zeros((len(members), 1 + max(int(group.max()) for group in members)))
    for number, group in enumerate(members):
        used[number, group] = 1.0
    return np.asarray(used @ used.T > 0)


def simple_bound(problem: Problem, goal: Goal, span: Span) -> float:
    """Return a proven bound without search: the longest path, work over what all nodes have; for money, least prices."""
    work = problem.work
    if not goal.timed:
        return float(np.where(problem.allowed, work.usd, np.inf).min(axis=1).sum())
    path = span.earliest + span.hours
    bound = float((path - span.latest).max())
    if goal.kind == "makespan":
        whole = problem.machines.capacity.sum(axis=0)
        used = work.need.T @ span.hours
        bound = max(bound, float(span.earliest.min() + np.max(np.where(whole > 0, used / np.where(whole > 0, whole, 1.0), 0.0))))
    return bound
