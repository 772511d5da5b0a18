"""The schedule as a mixed-integer program: who runs where, in which order, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import sparse

from capplan.optimize.solver import Arrays
from capplan.questions.placement.goals import Goal, Span
from capplan.questions.placement.methods import free_from
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.state import ACCELERATORS, Floats, Whole


@dataclass
class Rows:
    """Columns and rows as they are added."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    sense: list[str] = field(default_factory=list)

    def column(self, lower: float = 0.0, upper: float = 1.0, cost: float = 0.0, integer: bool = False) -> int:
        """Add a variable."""
        for held, value in ((self.lower, lower), (self.upper, upper), (self.cost, cost)):
            held.append(value)
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, terms: dict[int, float] | list[tuple[int, float]], sense: str, b: float) -> None:
        """Add a row; terms of one variable add up."""
        number = len(self.b)
        self.entries += [(number, column, value) for column, value in (terms.items() if isinstance(terms, dict) else terms)]
        self.b.append(b)
        self.sense.append(sense)

    def arrays(self) -> Arrays:
        """Return the program."""
        rows, columns, values = (np.array(part) for part in zip(*self.entries, strict=True))
        A = sparse.csr_matrix((values.astype(float), (rows.astype(int), columns.astype(int))), shape=(len(self.b), len(self.lower)))
        return Arrays(
            np.array(self.cost),
            A,
            np.array(self.b),
            np.array(self.sense, dtype="<U1"),
            np.array(self.lower),
            np.array(self.upper),
            np.array(self.integer),
        )


@dataclass
class Program:
    """The program with the variables by what they mean.

    Parameters
    ----------
    on
        Does a task run in a group on a node: {(task, group, node): column}.
    groups
        {(task, group): column} for tasks that may be gangs.
    start, end
        Columns of the instants of each task.
    worst
        Column of the worst lateness, or None where money is judged.
    first
        Does one task end before another begins: {(task, task): column}. A task behind the last one is a span in which a node is partly
        taken.
    rides
        Transfers by edge: {edge: {(sender, receiver): column}}, where both tasks run on single nodes.
    sends
        Columns of the begins of transfers that take turns: {edge: column}.
    absent
        {(task, node, number of span): columns of (before, after, through)}.
    """

    rows: Rows
    problem: Problem
    goal: Goal
    horizon: Floats
    span: Span
    on: dict[tuple[int, int, int], int] = field(default_factory=dict)
    groups: dict[tuple[int, int], int] = field(default_factory=dict)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    worst: int | None = None
    first: dict[tuple[int, int], int] = field(default_factory=dict)
    rides: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    sends: dict[int, int] = field(default_factory=dict)
    turns: dict[tuple[int, int], int] = field(default_factory=dict)
    dear: dict[int, int] = field(default_factory=dict)
    absent: dict[tuple[int, int, int], tuple[int, int, int]] = field(default_factory=dict)
    inside: tuple[Whole, ...] = ()
    allowed: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    lengths: list[int] = field(default_factory=list)

    @property
    def clock(self) -> bool:
        """Does it matter when tasks run? Where money alone is judged, there is always a later hour."""
        return self.goal.kind != "cost"

    def here(self, task: int, node: int) -> dict[int, float]:
        """Return the columns whose sum tells whether a task is on a node."""
        groups = np.flatnonzero(self.allowed[task]).tolist()
        return {self.on[task, group, node]: 1.0 for group in groups if (task, group, node) in self.on}

    def nodes(self, task: int) -> Whole:
        """Return the nodes on which a task may be."""
        inside = [self.inside[group] for group in np.flatnonzero(self.allowed[task])]
        return np.unique(np.concatenate(inside))


def member_need(problem: Problem, task: int, group: int) -> Floats:
    """Return what one member of a task takes."""
    members = problem.work.members[task, group]
    need = problem.work.need[task] / members
    if members > 1:
        need[ACCELERATORS] = np.ceil(need[ACCELERATORS] - 1e-9)
    return np.asarray(need)


def new_program(problem: Problem, goal: Goal, span: Span, horizon: Floats, upper: float) -> Program:
    """Write the program without the rows that keep tasks apart; those are added where a solution breaks them.

    Parameters
    ----------
    horizon : (tasks,)
        Hours by which each task has surely ended in some best schedule.
    upper
        Figure of the best schedule known.
    """
    program = Program(Rows(), problem, goal, horizon, span)
    use = usable(program)
    program.inside = tuple(inside[use[inside]] for inside in problem.machines.members)
    program.allowed = problem.allowed & (problem.work.members <= np.array([len(inside) for inside in program.inside])[None, :])
    _where(program)
    if program.clock:
        _when(program, upper)
    _transfers(program)
    if program.clock:
        _absences(program)
        _area(program)
    return program


def usable(program: Program) -> np.ndarray:
    """Tell which nodes can matter: those that are there before the horizon; for money alone, as many of each place as the largest gang."""
    problem = program.problem
    count = len(problem.machines.nodes)
    if program.clock:
        return np.asarray(free_from(problem) < float(program.horizon.max()))
    use = np.zeros(count, dtype=bool)
    for group, inside in enumerate(problem.machines.members):
        most = int(problem.work.members[:, group].max(initial=0))
        for place in np.unique(problem.links.place[inside]):
            use[inside[problem.links.place[inside] == place][:most]] = True
    return use


def _where(program: Program) -> None:
    """Each task runs in one group, on as many nodes as it has members there."""
    rows, work, members = program.rows, program.problem.work, program.inside
    money = not program.goal.timed
    for task in range(len(work.release)):
        groups = np.flatnonzero(program.allowed[task])
        gang = (work.members[task, groups] > 1).any()
        total: dict[int, float] = {}
        for group in groups:
            price = float(work.usd[task, group]) if money else 0.0
            inside = [rows.column(cost=0.0 if gang else price, integer=True) for _ in members[group]]
            program.on.update({(task, int(group), int(node)): column for node, column in zip(members[group], inside, strict=True)})
            if gang:
                chosen = rows.column(cost=price, integer=True)
                program.groups[task, int(group)] = chosen
                total[chosen] = 1.0
                rows.row({**dict.fromkeys(inside, 1.0), chosen: -float(work.members[task, group])}, "=", 0.0)
            else:
                total |= dict.fromkeys(inside, 1.0)
        rows.row(total, "=", 1.0)
    _one_of_equals(program)


def _one_of_equals(program: Program) -> None:
    """Of nodes that nothing tells apart, a task takes a later one only where an earlier task takes the one before."""
    for first, second in equals(program.problem, program.inside):
        for task in range(len(program.problem.work.release)):
            later = program.here(task, second)
            if not later:
                continue
            terms = dict(later)
            for other in range(task):
                terms |= dict.fromkeys(program.here(other, first), -1.0)
            if (program.problem.work.members[task] > 1).any():
                terms |= dict.fromkeys(program.here(task, first), -1.0)
            program.rows.row(terms, "<", 0.0)


def equals(problem: Problem, members: tuple[Whole, ...]) -> list[tuple[int, int]]:
    """Return pairs of neighbouring nodes that are alike in everything."""
    away = set(problem.machines.away["node"])
    alike: dict[tuple[object, ...], list[int]] = {}
    for node in range(len(problem.machines.nodes)):
        if node not in away:
            groups = tuple(number for number, inside in enumerate(members) if node in inside)
            if not groups:
                continue
            alike.setdefault((groups, int(problem.links.place[node])), []).append(node)
    return [pair for nodes in alike.values() for pair in pairwise(nodes)]


def _when(program: Program, upper: float) -> None:
    """Each task ends its duration after its start, in time for the figure that is judged."""
    rows, work, span, goal = program.rows, program.problem.work, program.span, program.goal
    count = len(work.release)
    for task in range(count):
        program.start.append(rows.column(span.earliest[task], max(program.horizon[task] - span.hours[task], span.earliest[task])))
        program.end.append(
            rows.column(span.earliest[task] + span.hours[task], max(program.horizon[task], span.earliest[task] + span.hours[task]))
        )
    if goal.timed:
        program.worst = rows.column(-1e6, upper, cost=1.0)
        for judged in np.flatnonzero(np.isfinite(span.latest)).tolist():
            # the due dates of all that follows, too
            rows.row({program.worst: 1.0, program.end[judged]: -1.0}, ">", -float(span.latest[judged]))
    for task in range(count):
        terms = {program.end[task]: 1.0, program.start[task]: -1.0}
        for group in np.flatnonzero(program.allowed[task]).tolist():
            hours = -float(work.hours[task, group])
            chosen = (
                [program.groups[task, group]]
                if (task, group) in program.groups
                else [program.on[task, group, int(node)] for node in program.inside[group]]
            )
            terms |= dict.fromkeys(chosen, hours)
        program.lengths.append(len(rows.b))
        rows.row(terms, "=", 0.0)


def _transfers(program: Program) -> None:
    """Each task begins after its predecessors and their data."""
    problem, rows = program.problem, program.rows
    work, money = problem.work, not program.goal.timed
    target = np.repeat(np.arange(len(work.release)), np.diff(work.before))
    for edge in range(len(work.source)):
        first, last, size = int(work.source[edge]), int(target[edge]), float(work.gigabytes[edge])
        base: dict[int, float] = {}
        if program.clock:
            base = {program.start[last]: 1.0, program.end[first]: -1.0}
            rows.row(base, ">", float(program.span.delay[edge]))
        if size <= 0:
            continue
        single = (work.members[first] <= 1).all() and (work.members[last] <= 1).all()
        senders, receivers = program.nodes(first), program.nodes(last)
        pairs = {(int(one), int(other)): travel(problem, int(one), int(other), size) for one in senders for other in receivers}
        if single:
            _ride(program, edge, base, pairs, senders, receivers)
            continue
        if money:
            program.dear[edge] = rows.column(0.0, max(0.0, *(figures[2] for figures in pairs.values() if figures[0] < 1e17)), cost=1.0)
        for (one, other), (hours, latency, usd) in pairs.items():
            both = {**program.here(first, one), **program.here(last, other)}
            if hours >= 1e17:
                rows.row(both, "<", 1.0)
                continue
            delay = hours + latency
            if program.clock and delay > program.span.delay[edge] + 1e-12:
                # start >= end + delay where both are there; the base row holds otherwise
                slack = delay - float(program.span.delay[edge])
                rows.row({**base, **{column: -slack * value for column, value in both.items()}}, ">", delay - 2 * slack)
            if money and usd > 0:
                rows.row({program.dear[edge]: 1.0, **dict.fromkeys(both, -usd)}, ">", -usd)


def _ride(
    program: Program,
    edge: int,
    base: dict[int, float],
    pairs: dict[tuple[int, int], tuple[float, float, float]],
    senders: Whole,
    receivers: Whole,
) -> None:
    """Send the data of two single tasks along one pair of nodes: a flow from where the first is to where the second is."""
    rows, work, money = program.rows, program.problem.work, not program.goal.timed
    first = int(work.source[edge])
    last = int(np.searchsorted(work.before, edge, side="right") - 1)
    ride = {pair: rows.column(0.0, 1.0 if figures[0] < 1e17 else 0.0, cost=figures[2] if money else 0.0) for pair, figures in pairs.items()}
    program.rides[edge] = ride
    for one in senders:
        rows.row(
            {**{ride[int(one), int(other)]: 1.0 for other in receivers}, **dict.fromkeys(program.here(first, int(one)), -1.0)}, "=", 0.0
        )
    for other in receivers:
        rows.row({**{ride[int(one), int(other)]: 1.0 for one in senders}, **dict.fromkeys(program.here(last, int(other)), -1.0)}, "=", 0.0)
    if program.clock:
        rows.row(
            {**base, **{column: -(pairs[pair][0] + pairs[pair][1]) for pair, column in ride.items() if pairs[pair][0] < 1e17}}, ">", 0.0
        )


def travel(problem: Problem, sender: int, receiver: int, gigabytes: float) -> tuple[float, float, float]:
    """Return hours on the link, hours of latency and USD of moving data between two nodes."""
    if sender == receiver:
        return gigabytes * float(problem.ground.inside[0]), 0.0, 0.0
    here, there = problem.links.place[sender], problem.links.place[receiver]
    links = problem.links
    return (
        gigabytes * float(links.hours_per_gb[here, there]),
        float(links.latency_hours[here, there]),
        gigabytes * float(links.usd_per_gb[here, there]),
    )


def _absences(program: Program) -> None:
    """While a node is away a task on it has ended, has not begun, or rests if it may."""
    problem, rows = program.problem, program.rows
    whole = problem.machines.away[problem.machines.away["share"] >= 1]
    for number, span in enumerate(whole.itertuples(index=False)):
        for task in range(len(problem.work.release)):
            here = program.here(task, int(span.node))
            if not here:
                continue
            single = bool((problem.work.members[task] <= 1).all())
            may = bool(problem.work.pausable[task]) and single
            before, after, through = (
                rows.column(integer=True),
                rows.column(integer=True),
                rows.column(upper=1.0 if may else 0.0, integer=True),
            )
            program.absent[task, int(span.node), number] = (before, after, through)
            rows.row({before: 1.0, after: 1.0, through: 1.0, **dict.fromkeys(here, -1.0)}, ">", 0.0)
            end, start = program.end[task], program.start[task]
            most = max(float(rows.upper[end]) - span.start, 0.0)
            rows.row({end: 1.0, before: most}, "<", span.start + most)
            rows.row({start: 1.0, after: -span.end}, ">", 0.0)
            if may:
                latest = max(float(rows.upper[start]) - span.start, 0.0)
                rows.row({start: 1.0, through: latest}, "<", span.start + latest)
                # resting makes a task longer
                program.rows.entries.append((program.lengths[task], through, -(span.end - span.start)))


def _area(program: Program) -> None:
    """No node gives more than it has until the last end."""
    problem, rows = program.problem, program.rows
    if program.goal.kind != "makespan" or program.worst is None:
        return
    begin = float(program.span.earliest.min())
    for node in range(len(problem.machines.nodes)):
        for resource in range(problem.work.need.shape[1]):
            has = float(problem.machines.capacity[node, resource])
            terms: dict[int, float] = {}
            for (task, group, at), column in program.on.items():
                if at == node:
                    used = member_need(problem, task, group)[resource] * float(problem.work.hours[task, group])
                    if used > 0:
                        terms[column] = used / has
            if len(terms) > 1:
                rows.row({**terms, program.worst: -1.0}, "<", -begin)
