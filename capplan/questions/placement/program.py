"""The schedule as a constraint program: who runs where and when, with intervals that share nodes and links."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capplan.optimize.constraints import new_model
from capplan.questions.placement.goals import Goal, Span
from capplan.questions.placement.machines import UNKNOWN
from capplan.questions.placement.methods import free_from
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.state import ACCELERATORS, CARD, NO_LINK, Floats
from capplan.questions.placement.ticks import Grid, grid_of, whole_needs

#: Hours that stand for data that cannot pass.
NO_WAY = 1e17
#: Parts into which the money of a schedule is cut.
MONEY_PARTS = 1e9


@dataclass(frozen=True)
class Way:
    """How data may go from one task to the next."""

    when: tuple[Any, ...]  #: Literals that hold where it goes this way.
    row: int  #: Row of the link it keeps busy, as the scheduler numbers them; -1 for none.
    #: busy, hours, usd: Hours on the link, hours in all, and price.
    busy: float
    hours: float
    usd: float


@dataclass
class Program:
    """The program with the variables by what they mean."""

    problem: Problem
    goal: Goal
    span: Span
    horizon: Floats
    grid: Grid
    model: Any = field(default_factory=new_model)
    #: Does a task run in a group on a node: {(task, group, node): literal}.
    on: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    groups: dict[tuple[int, int], Any] = field(default_factory=dict)  #: {(task, group): literal} for tasks that may be gangs.
    #: start, end: Ticks of each task.
    start: list[Any] = field(default_factory=list)
    end: list[Any] = field(default_factory=list)
    sends: dict[int, Any] = field(default_factory=dict)  #: Tick at which a transfer takes its turn on its link: {edge: variable}.
    worst: Any = None  #: The figure in ticks where time is judged, otherwise None.
    parts_of_usd: float = 0.0  #: Whole numbers of the objective for a USD, where money is judged.
    taken: dict[int, list[tuple[Any, int, int]]] = field(default_factory=dict)
    places: dict[tuple[int, tuple[int, ...]], Any] = field(default_factory=dict)

    @property
    def clock(self) -> bool:
        """Does it matter when tasks run? Where money alone is judged, there is always a later hour."""
        return self.goal.kind != "cost"

    def nodes(self, task: int) -> list[int]:
        """Return the nodes on which a task may be."""
        return sorted({node for one, _, node in self.on if one == task})

    def among(self, task: int, nodes: tuple[int, ...]) -> Any:
        """Return a literal that holds where a task is on one of some nodes."""
        if (task, nodes) not in self.places:
            groups = np.flatnonzero(self.problem.work.members[task] > 0).tolist()
            literals = [self.on[task, group, node] for group in groups for node in nodes if (task, group, node) in self.on]
            either = literals[0] if len(literals) == 1 else self.model.new_bool_var("")
            if len(literals) > 1:
                self.model.add_max_equality(either, literals)
            self.places[task, nodes] = either
        return self.places[task, nodes]


def new_program(problem: Problem, goal: Goal, span: Span, horizon: Floats, upper: float) -> Program:
    """Write the program.

    Args:
        horizon (tasks,): Hours by which each task has surely ended in some best schedule.
        upper: Figure of the best schedule known.
    """
    grid = grid_of(_times(problem, goal), float(horizon.max())) if goal.kind != "cost" else Grid(1.0)
    program = Program(problem, goal, span, horizon, grid)
    _where(program)
    costs: list[tuple[Any, float]] = []
    if not goal.timed:
        costs += [(literal, float(problem.work.usd[key])) for key, literal in program.groups.items()]
        costs += [
            (literal, float(problem.work.usd[task, group]))
            for (task, group, _), literal in program.on.items()
            if (task, group) not in program.groups
        ]
    if program.clock:
        _when(program)
        _capacities(program)
    _transfers(program, costs)
    if goal.timed:
        _late(program, upper)
    else:
        # rounded down, so that no schedule costs less than the figure says
        program.parts_of_usd = MONEY_PARTS / max(upper, 1e-6)
        program.model.minimize(sum(int(usd * program.parts_of_usd) * literal for literal, usd in costs))
    return program


def _times(problem: Problem, goal: Goal) -> Floats:
    """Return the hours of all that has a length or an instant."""
    work, links, away = problem.work, problem.links, problem.machines.away
    rates = np.append(np.unique(links.hours_per_gb[links.hours_per_gb < NO_WAY]), problem.ground.inside)
    due = np.concatenate([goal.due[np.isfinite(goal.due)], goal.must[np.isfinite(goal.must)]])
    parts = [
        work.hours.ravel(),
        work.release,
        due,
        away["start"].to_numpy(dtype=float),
        away["end"].to_numpy(dtype=float),
        np.outer(np.unique(work.gigabytes), rates).ravel(),
        np.unique(links.latency_hours),
    ]
    return np.unique(np.concatenate(parts))


def usable(program: Program) -> np.ndarray:
    """Tell which nodes can matter: those that are there before the horizon; for money alone, as many of each place as the largest gang."""
    problem = program.problem
    if program.clock:
        return np.asarray(free_from(problem) < float(program.horizon.max()))
    use = np.zeros(len(problem.machines.nodes), dtype=bool)
    for group, inside in enumerate(problem.machines.members):
        most = int(problem.work.members[:, group].max(initial=0))
        for place in np.unique(problem.links.place[inside]):
            use[inside[problem.links.place[inside] == place][:most]] = True
    return use


def _where(program: Program) -> None:
    """Each task runs in one group, on as many nodes as it has members there."""
    model, work, use = program.model, program.problem.work, usable(program)
    for task in range(len(work.release)):
        choices = []
        for group in np.flatnonzero(work.members[task] > 0).tolist():
            inside = [int(node) for node in program.problem.machines.members[group] if use[node]]
            members = int(work.members[task, group])
            if len(inside) < members:
                continue
            literals = [model.new_bool_var("") for _ in inside]
            program.on.update({(task, group, node): literal for node, literal in zip(inside, literals, strict=True)})
            if (work.members[task] > 1).any():
                chosen = program.groups[task, group] = model.new_bool_var("")
                model.add(sum(literals) == members * chosen)
                choices.append(chosen)
            else:
                choices += literals
        model.add_exactly_one(choices)


def member_need(problem: Problem, task: int, group: int) -> Floats:
    """Return what one member of a task takes."""
    members = problem.work.members[task, group]
    need = problem.work.need[task] / members
    if members > 1:
        need[ACCELERATORS] = np.ceil(need[ACCELERATORS] - 1e-9)
    return np.asarray(need)


def _when(program: Program) -> None:
    """Each task is an interval on its nodes; while a node is away it has ended, has not begun, or rests if it may."""
    model, work, grid = program.model, program.problem.work, program.grid
    away = program.problem.machines.away
    whole = away[away["share"] >= 1]
    gone = {
        node: [(int(grid.up(begin)), int(grid.down(end))) for begin, end in spans[["start", "end"]].to_numpy()]
        for node, spans in whole.groupby("node")
    }
    soonest, latest = grid.down(program.span.earliest), np.maximum(grid.up(program.horizon), grid.down(program.span.earliest))
    for task in range(len(work.release)):
        program.start.append(model.new_int_var(int(soonest[task]), int(latest[task]), ""))
        program.end.append(model.new_int_var(int(soonest[task]), int(latest[task]), ""))
    for (task, group, node), literal in program.on.items():
        size = int(grid.down(float(work.hours[task, group])))
        start, end = program.start[task], program.end[task]
        may_rest = bool(work.pausable[task]) and bool((work.members[task] <= 1).all())
        rests = []
        for begin, back in gone.get(node, []):
            before, through = model.new_bool_var(""), model.new_bool_var("")
            model.add(end <= begin).only_enforce_if([literal, before])
            model.add(start >= back).only_enforce_if([literal, before.negated(), through.negated()])
            if may_rest and back > begin:
                model.add(start <= begin).only_enforce_if([literal, through])
                rests.append((back - begin) * through)
            else:
                model.add(through == 0)
        length: Any = size
        if rests:
            length = model.new_int_var(size, size + sum(max(back - begin, 0) for begin, back in gone[node]), "")
            model.add(length == size + sum(rests))
        program.taken.setdefault(node, []).append((model.new_optional_interval_var(start, length, end, literal, ""), task, group))


def _capacities(program: Program) -> None:
    """Keep what runs together on a node within what it has."""
    problem, grid, model = program.problem, program.grid, program.model
    away = problem.machines.away
    partly = away[away["share"] < 1]
    for node, intervals in program.taken.items():
        for resource, has in enumerate(problem.machines.capacity[node]):
            if has >= UNKNOWN or has <= 0:
                continue
            needs = np.array([member_need(problem, task, group)[resource] for _, task, group in intervals])
            spans = [row for row in partly[partly["node"] == node].itertuples(index=False) if grid.down(row.end) > grid.up(row.start)]
            left = [np.floor(has * (1 - row.share) + 1e-9) if resource == ACCELERATORS else has * (1 - row.share) for row in spans]
            whole, capacity = whole_needs(np.concatenate([needs, has - np.array(left)]), float(has))
            if whole.sum() <= capacity:
                continue
            used = [
                (interval, int(need))
                for (interval, task, group), need in zip(intervals, whole, strict=False)
                if need > 0 and grid.down(float(problem.work.hours[task, group])) > 0
            ]
            held = [
                (model.new_fixed_size_interval_var(int(grid.up(row.start)), int(grid.down(row.end) - grid.up(row.start)), ""), int(need))
                for row, need in zip(spans, whole[len(needs) :], strict=True)
            ]
            model.add_cumulative([interval for interval, _ in used + held], [need for _, need in used + held], capacity)


def ways(program: Program, edge: int, first: int, last: int) -> Iterator[Way]:
    """Say how the data of an edge may go: by the node that sends and the place that receives; of gangs by each pair of nodes."""
    problem = program.problem
    size, place, links = float(problem.work.gigabytes[edge]), problem.links.place, problem.links
    inside = size * float(problem.ground.inside[0])
    single = bool((problem.work.members[[first, last]] <= 1).all())
    receivers = program.nodes(last)
    targets = [tuple(node for node in receivers if place[node] == there) for there in np.unique(place[receivers])]
    for sender in program.nodes(first):
        sends = program.among(first, (sender,))
        if sender in receivers:
            yield Way((sends, program.among(last, (sender,))), -1, inside, inside, 0.0)
        for nodes in targets if single else [(node,) for node in receivers]:
            others = [node for node in nodes if node != sender]
            if not others:
                continue
            here, there = place[sender], place[others[0]]
            elsewhere = [program.among(last, (sender,)).negated()] if sender in nodes else []
            kind = int(links.link[here, there])
            row = -1 if kind == NO_LINK else (len(place) + sender if kind == CARD else 2 * len(place) + kind)
            busy = size * float(links.hours_per_gb[here, there])
            hours, usd = busy + float(links.latency_hours[here, there]), size * float(links.usd_per_gb[here, there])
            yield Way((sends, program.among(last, nodes), *elsewhere), row, busy, hours, usd)


def _transfers(program: Program, costs: list[tuple[Any, float]]) -> None:
    """Each task begins after its predecessors and their data, and data that shares a link takes turns."""
    model, work, grid = program.model, program.problem.work, program.grid
    target = np.repeat(np.arange(len(work.release)), np.diff(work.before))
    turns: dict[int, list[Any]] = {}
    for edge, (first, last) in enumerate(zip(work.source.tolist(), target.tolist(), strict=True)):
        if program.clock:
            model.add(program.start[last] >= program.end[first] + int(grid.down(float(program.span.delay[edge]))))
        if work.gigabytes[edge] <= 0:
            continue
        found = list(ways(program, edge, first, last))
        for way in found:
            if way.hours >= NO_WAY:
                model.add_bool_or([literal.negated() for literal in way.when])
        found = [way for way in found if way.hours < NO_WAY]
        if program.clock:
            _send(program, edge, (first, last), found, turns)
        if not program.goal.timed and any(way.usd > 0 for way in found):
            # the dearest of its ways is paid
            prices = sorted({way.usd for way in found if way.usd > 0})
            for below, usd in zip([0.0, *prices], prices, strict=False):
                pays = model.new_bool_var("")
                costs.append((pays, usd - below))
                for way in found:
                    if way.usd >= usd:
                        model.add_bool_or([pays, *(literal.negated() for literal in way.when)])
    for intervals in turns.values():
        if len(intervals) > 1:
            model.add_no_overlap(intervals)


def _send(program: Program, edge: int, tasks: tuple[int, int], found: list[Way], turns: dict[int, list[Any]]) -> None:
    """Move the data of an edge: after all of its ways; on the link of the slowest of them it waits for its turn."""
    model, grid = program.model, program.grid
    end, start = program.end[tasks[0]], program.start[tasks[1]]
    shared = bool(program.problem.ground.shared[0])
    links = sorted({(way.row, way.busy, way.hours) for way in found}) if shared and any(way.row >= 0 for way in found) else []
    send = end
    if links:
        send = program.sends[edge] = model.new_int_var(0, int(grid.up(float(program.horizon.max()))), "")
        model.add(send >= end)
    takes = {link: model.new_bool_var("") for link in links}
    least = int(grid.down(float(program.span.delay[edge])))
    for way in found:
        off = [literal.negated() for literal in way.when]
        if grid.down(way.hours) > least or send is not end:
            model.add(start >= send + int(grid.down(way.hours))).only_enforce_if(list(way.when))
        if links:
            model.add_bool_or([*off, *(literal for link, literal in takes.items() if link[2] >= way.hours - 1e-12)])
    for (row, busy, hours), literal in takes.items():
        # a link is taken only by a way that is used, and by none that is quicker than another one
        mine = [way for way in found if (way.row, way.busy, way.hours) == (row, busy, hours)]
        model.add_bool_or([literal.negated(), *(_all(model, way.when) for way in mine)])
        model.add(start >= send + int(grid.down(hours))).only_enforce_if(literal)
        if row >= 0 and grid.down(busy) > 0:
            turns.setdefault(row, []).append(model.new_optional_fixed_size_interval_var(send, int(grid.down(busy)), literal, ""))


def _all(model: Any, literals: tuple[Any, ...]) -> Any:
    """Return a literal that holds where all of some do."""
    both = model.new_bool_var("")
    model.add_bool_and(literals).only_enforce_if(both)
    model.add_bool_or([both, *(literal.negated() for literal in literals)])
    return both


def _late(program: Program, upper: float) -> None:
    """Make the worst lateness small."""
    model, grid, span = program.model, program.grid, program.span
    far = int(grid.up(float(program.horizon.max()) + float(np.abs(program.goal.due[np.isfinite(program.goal.due)]).max(initial=0.0)) + 1.0))
    program.worst = model.new_int_var(-far, int(grid.up(upper)), "")
    for task in np.flatnonzero(np.isfinite(span.latest)).tolist():
        # the due dates of all that follows, too
        model.add(program.worst >= program.end[task] - int(grid.up(float(span.latest[task]))))
    if program.goal.kind == "makespan":
        _area(program)
    model.minimize(program.worst)


def _area(program: Program) -> None:
    """No node gives more than it has until the last end."""
    problem, grid = program.problem, program.grid
    begin = int(grid.down(float(program.span.earliest.min())))
    for node, intervals in program.taken.items():
        for resource, has in enumerate(problem.machines.capacity[node]):
            if has >= UNKNOWN or has <= 0:
                continue
            needs, capacity = whole_needs(
                np.array([member_need(problem, task, group)[resource] for _, task, group in intervals]), float(has)
            )
            used = [
                int(need) * int(grid.down(float(problem.work.hours[task, group]))) * program.on[task, group, node]
                for (_, task, group), need in zip(intervals, needs, strict=True)
                if need > 0
            ]
            if len(used) > 1:
                program.model.add(sum(used) <= capacity * (program.worst - begin))
