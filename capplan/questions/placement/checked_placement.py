"""A placement from anywhere, checked and not trusted: what it breaks and by how much, and how far it is from the one that is found."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.questions.placement.longest_chain import targets
from capplan.questions.placement.place_tasks import Placement
from capplan.questions.placement.possible_nodes import WORDS
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.proposed_placement import Told
from capplan.questions.placement.state import ACCELERATORS, CARD, RESOURCES
from capplan.text import counted, money

#: Instants are told to the second: what is apart by less is at once (hours).
SECOND = 1.0 / 3600.0
#: Transfers that wait for one link up to which every order of them is tried.
FEW = 6
BROKEN = ["constraint", "name", "over", "unit", "words", "file", "row"]
SCHEDULE = ["file", "row", "task_id", "nodes", "start", "end", "start_hours", "end_hours", "usd", "in_order"]
#: Data that no link carries needs longer than this (hours).
NEVER = 1e17


@dataclass(frozen=True)
class CheckedPlacement:
    """What is wrong with a proposed placement, and how it compares.

    Args:
        rows: file, row, task_id, nodes, start, end, start_hours, end_hours, usd, in_order: one row a task, by start.
        broken: constraint (edge, link, capacity, away, residency, accelerator, kind, deadline and so on), name (task, edge or node), over,
            unit, words, file, row (empty where no row stands for it).
        costs: measure (makespan_hours, usd, and late_hours where something is due), checked, plan, difference.
        bound: What no placement beats, in the figure of the objective.
        headline, notes: One sentence; what must be known.
    """

    rows: pd.DataFrame
    broken: pd.DataFrame
    costs: pd.DataFrame
    bound: float
    headline: str
    notes: tuple[str, ...]

    @property
    def in_order(self) -> bool:
        """Whether it keeps every rule."""
        return self.broken.empty

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by their names."""
        return {"rows": self.rows, "broken": self.broken, "costs": self.costs}


def check_placement(problem: Problem, best: Placement, told: Told, objective: str) -> CheckedPlacement:
    """Hold a proposed placement against every rule, and against the placement that was found.

    A task lasts as long as it does on its nodes, allowed or not, and one that is not placed counts nowhere.

    Args:
        objective: placement_objective of the assumptions.
    """
    found = _Checking(problem, told)
    for task in range(len(told.start)):
        found.one_task(task)
    found.rooms()
    same = _same(problem, best, told)
    found.moves(shared=bool(problem.ground.shared[0]) and not same)
    ends = np.where(np.isnan(found.end), -np.inf, found.end)
    usd = best.usd if same else float(found.usd.sum() + found.fees.sum())
    makespan = best.makespan_hours if same else float(ends.max())
    rows = [("makespan_hours", makespan, best.makespan_hours), ("usd", usd, best.usd)]
    if np.isfinite(problem.due).any():
        rows.append(("late_hours", float((ends - problem.due).max()), float(best.schedule["late_hours"].max())))
    costs = pd.DataFrame(rows, columns=["measure", "checked", "plan"])
    costs["difference"] = costs["checked"] - costs["plan"]
    broken = pd.DataFrame(found.broken, columns=BROKEN).astype({"over": float, "row": float})
    notes = [] if not broken.empty else [f"{objective} is what the placement beside it is best for."]
    schedule = _schedule(problem, told, found, broken)
    return CheckedPlacement(schedule, broken, costs, best.bound, _headline(costs, broken, same), (*notes, *best.notes))


def _same(problem: Problem, best: Placement, told: Told) -> bool:
    """Tell whether the proposal is the placement that was found."""
    names = problem.machines.nodes["node"].to_numpy()
    mine = best.schedule.set_index("task_id").loc[list(problem.tasks["task_id"])]
    return all(
        abs(start - own.start_hours) <= SECOND and set(names[nodes]) == set(own.nodes.split(", "))
        for start, nodes, own in zip(told.start, told.nodes, mine.itertuples(), strict=True)
    )


class _Checking:
    """The rules, one after another; what is broken is collected."""

    def __init__(self, problem: Problem, told: Told) -> None:
        self.problem, self.told, self.broken = problem, told, list[tuple[Any, ...]]()
        self.names = problem.tasks["task_id"].to_numpy()
        self.nodes = problem.machines.nodes
        count = len(told.start)
        self.end, self.usd = np.full(count, np.nan), np.zeros(count)
        self.fees = np.zeros(len(problem.work.source))
        away = problem.machines.away
        self.away = {int(node): part for node, part in away[away["share"] >= 1].groupby("node")}

    def add(self, constraint: str, name: str, over: float, unit: str, words: str, task: int = -1) -> None:
        """Note what is broken."""
        self.broken.append((constraint, name, over, unit, words, *(self.told.places[task] if task >= 0 else ("", np.nan))))

    def one_task(self, task: int) -> None:
        """Check what one task may do, whatever the others do, and find its end and price."""
        name, nodes, start = str(self.names[task]), self.told.nodes[task], float(self.told.start[task])
        if not len(nodes):
            self.add("not placed", name, np.nan, "", f"{name} is not placed")
            return
        about = self.nodes.iloc[nodes]
        if about["group"].nunique() > 1:
            kinds = ", ".join(sorted(set(about["kind"] + " in " + about["site"])))
            self.add("kind", name, np.nan, "", f"the nodes of {name} are not equal ones of one site: {kinds}", task)
        group = self._group(nodes)
        host, machine = self.problem.hosting, about.iloc[0]
        job = self.problem.tasks.iloc[task]
        if not host.lawful[task, group]:
            where = machine["site"] if not machine["geography"] else f"{machine['site']}, {machine['geography']}"
            self.add("residency", name, np.nan, "", f"{name} must stay in {job['residency']}, and {machine['node']} is in {where}", task)
        if not host.right[task, group]:
            has = machine["accelerator"] or "no accelerators"
            self.add("accelerator", name, np.nan, "", f"{name} needs {job['accelerator']}, and {machine['node']} has {has}", task)
        self._size(task, name, nodes)
        hours = float(host.hours[task, group])
        if np.isnan(hours):
            self.add("duration", name, np.nan, "", f"how long {name} runs on {machine['kind']} is not stated", task)
            hours = 0.0
        begin = float(self.problem.work.release[task])
        if start < begin - SECOND:
            words = f"{name} begins {_hours(begin - start)} before it can" + (", which is before the start of all" if start < 0 else "")
            self.add("earliest start", name, begin - start, "hours", words, task)
        self.end[task] = self._ends(task, name, nodes, start, hours)
        self.usd[task] = self._price(task, group, nodes, hours)
        late = self.end[task] - self.problem.due[task]
        if late > SECOND:
            self.add("deadline", name, float(late), "hours", f"{name} ends {_hours(late)} after its deadline", task)

    def _group(self, nodes: np.ndarray) -> int:
        """Return the group that some nodes run a task as: that of their rack where it has one, else that of their kind and site."""
        groups, own = self.problem.machines.groups, int(self.nodes["group"].iloc[nodes[0]])
        if len(nodes) > 1 and self.nodes["rack"].iloc[nodes].nunique() == 1:
            for group in np.flatnonzero((groups["rack"] != "").to_numpy()).tolist():
                if set(nodes.tolist()) <= set(self.problem.machines.members[group].tolist()):
                    return int(group)
        return own

    def _part(self, task: int, count: int) -> np.ndarray:
        """Return what one of so many nodes gives to a task."""
        part = self.problem.work.need[task] / count
        if count > 1:
            part[ACCELERATORS] = np.ceil(part[ACCELERATORS] - 1e-9)
        return np.asarray(part)

    def _size(self, task: int, name: str, nodes: np.ndarray) -> None:
        """Check that a task fits on nodes that are free."""
        if len(nodes) > 1 and self.problem.work.need[task, ACCELERATORS] <= 1:
            words = f"{name} takes no more than one accelerator, so it runs on one node and not on {len(nodes)}"
            self.add("gang", name, float(len(nodes) - 1), "nodes", words, task)
        part, least = self._part(task, len(nodes)), self.problem.machines.capacity[nodes].min(axis=0)
        for at in np.flatnonzero(part > least + 1e-9).tolist():
            what = WORDS[RESOURCES[at]]
            words = f"{name} takes {part[at]:g} {what} of a node, and {self.nodes['node'].iloc[nodes[0]]} has {least[at]:g}"
            self.add("capacity", name, float(part[at] - least[at]), what, words, task)

    def _ends(self, task: int, name: str, nodes: np.ndarray, start: float, hours: float) -> float:
        """Return when a task ends; what may rest does so while its node is away."""
        rests = bool(self.problem.work.pausable[task]) and len(nodes) == 1
        end = start + hours
        spans = [span for node in nodes.tolist() for span in self.away.get(node, pd.DataFrame()).itertuples()]
        for span in sorted(spans, key=lambda each: each.start):
            over = min(end, span.end) - max(start, span.start)
            if over <= SECOND:
                continue
            if rests and start < span.start:
                end += span.end - span.start
            else:
                node = self.nodes["node"].iloc[int(span.node)]
                self.add("away", name, float(over), "hours", f"{node} is away for {_hours(over)} while {name} runs on it", task)
        return end

    def _price(self, task: int, group: int, nodes: np.ndarray, hours: float) -> float:
        """Return what a task pays: of each node the largest of its shares of a resource, or all where none is known."""
        work = self.problem.work
        if work.members[task, group] == len(nodes):
            return float(work.usd[task, group])
        capacity = self.problem.machines.capacity[nodes[0]]
        known = (capacity > 0) & (capacity < 1e15)
        share = float(np.max(np.where(known, self._part(task, len(nodes)) / np.where(known, capacity, 1.0), 0.0))) or 1.0
        prices = self.nodes["usd_per_hour"].astype(float).fillna(0.0).to_numpy()[nodes]
        return float(prices.sum() * hours * share)

    def rooms(self) -> None:
        """Check that what runs on a node together fits in what is free of it."""
        free = self.problem.profiles
        held: dict[int, list[int]] = {}
        for task, nodes in enumerate(self.told.nodes):
            if not np.isnan(self.end[task]) and self.end[task] - self.told.start[task] > SECOND:
                for node in nodes.tolist():
                    held.setdefault(node, []).append(task)
        for node, tasks in sorted(held.items()):
            marks = sorted({*self.told.start[tasks], *(free.times[node, step] for step in range(1, int(free.count[node])))})
            worst: dict[int, tuple[float, float, list[int]]] = {}
            for when in marks:
                here = [task for task in tasks if self.told.start[task] <= when + SECOND < self.end[task] - SECOND]
                if not here:
                    continue
                step = int(np.searchsorted(free.times[node, : int(free.count[node])], when + SECOND, side="right")) - 1
                used = sum(self._part(task, len(self.told.nodes[task])) for task in here)
                over = used - free.free[node, max(step, 0)]
                for at in np.flatnonzero(over > 1e-9).tolist():
                    if len(here) > 1 or over[at] > (used - self.problem.machines.capacity[node])[at] + 1e-9:
                        worst[at] = max(worst.get(at, (0.0, 0.0, [])), (float(over[at]), float(when), here))
            for at, (over, when, here) in worst.items():
                name, what = str(self.nodes["node"].iloc[node]), WORDS[RESOURCES[at]]
                who = ", ".join(str(self.names[task]) for task in here[:4])
                words = f"{name} lacks {over:g} {what} at hour {when:.4g} for {who} together"
                self.add("capacity", name, over, what, words, here[0] if len(here) == 1 else -1)

    def moves(self, *, shared: bool) -> None:
        """Check that data is there before the task that waits for it begins; on one link transfers take turns."""
        work, links = self.problem.work, self.problem.links
        queues: dict[int, list[tuple[int, float, float, float]]] = {}
        for edge, target in enumerate(targets(self.problem).tolist()):
            source, size = int(work.source[edge]), float(work.gigabytes[edge])
            if not len(self.told.nodes[source]) or not len(self.told.nodes[target]):
                continue
            pairs = [self._travel(one, other, size) for one in self.told.nodes[source] for other in self.told.nodes[target]]
            busy, latency, row = max(pairs, key=lambda pair: pair[0] + pair[1])
            self.fees[edge] = size * max(
                float(links.usd_per_gb[links.place[one], links.place[other]]) * (one != other)
                for one in self.told.nodes[source]
                for other in self.told.nodes[target]
            )
            name, begin = f"{self.names[source]} to {self.names[target]}", float(self.told.start[target])
            if size > 0 and busy >= NEVER:
                self.add("link", name, np.nan, "", f"no link joins the sites of {self.names[source]} and {self.names[target]}", target)
                continue
            late = self.end[source] + (busy + latency if size > 0 else 0.0) - begin
            if late > SECOND:
                moved = f", whose data takes {_hours(busy + latency)}" if size > 0 and busy + latency > SECOND else ""
                words = f"{self.names[target]} begins {_hours(late)} before it can after {self.names[source]}{moved}"
                self.add("edge", name, float(late), "hours", words, target)
            elif shared and row >= 0 and size > 0:
                queues.setdefault(row, []).append((edge, float(self.end[source]), busy, begin - latency))
        for queue in queues.values():
            for (edge, *_), late in zip(queue, _turns(queue), strict=True):
                if late > SECOND:
                    source, target = int(work.source[edge]), int(targets(self.problem)[edge])
                    words = f"the data of {self.names[source]} reaches {self.names[target]} {_hours(late)} late: transfers take turns"
                    self.add("shared link", f"{self.names[source]} to {self.names[target]}", late, "hours", words, target)

    def _travel(self, one: int, other: int, size: float) -> tuple[float, float, int]:
        """Return hours on the way, latency, and the row of the link that is busy meanwhile (below zero: none)."""
        ground, here, there = self.problem.ground, self.problem.links.place[one], self.problem.links.place[other]
        if one == other:
            return size * float(ground.inside[0]), 0.0, -1
        kind = int(ground.link[here, there])
        row = one if kind == CARD else len(self.nodes) + kind if kind >= 0 else -1
        return size * float(ground.hours_per_gb[here, there]), float(ground.latency_hours[here, there]), row


def _turns(queue: list[tuple[int, float, float, float]]) -> list[float]:
    """Return how late each transfer of a link is, in the order in which they are the least late together: (edge, ready, hours, due).

    Up to a few every order is tried; of more, by when they are due and by when they are ready.

    Examples:
        >>> _turns([(0, 0.0, 2.0, 5.0), (1, 0.0, 2.0, 2.0)]), _turns([(0, 0.0, 2.0, 3.0), (1, 1.0, 2.0, 3.0)])
        ([0.0, 0.0], [0.0, 1.0])
    """
    count = len(queue)
    orders: Any = itertools.permutations(range(count))
    if count > FEW:
        orders = [sorted(range(count), key=lambda at: queue[at][3]), sorted(range(count), key=lambda at: queue[at][1])]
    best: list[float] = []
    for order in orders:
        late, now = [0.0] * count, -np.inf
        for at in order:
            _, ready, hours, due = queue[at]
            now = max(now, ready) + hours
            late[at] = max(now - due, 0.0)
        best = late if not best or sum(late) < sum(best) else best
    return best


def _hours(value: float) -> str:
    """Write a span of hours."""
    return f"{value:.4g} hours" if value >= 0.1 else f"{value * 3600:.4g} seconds"


def _schedule(problem: Problem, told: Told, found: _Checking, broken: pd.DataFrame) -> pd.DataFrame:
    """Return the proposal as it was understood."""
    names = problem.machines.nodes["node"].to_numpy()
    wrong = set(zip(broken["file"], broken["row"], strict=True))
    placed = [task for task in range(len(told.start)) if len(told.nodes[task])]
    rows = [
        (
            *told.places[task],
            problem.tasks["task_id"].iloc[task],
            ", ".join(names[np.sort(told.nodes[task])]),
            problem.origin + pd.Timedelta(hours=float(told.start[task])).round("s"),
            problem.origin + pd.Timedelta(hours=float(found.end[task])).round("s"),
            told.start[task],
            found.end[task],
            found.usd[task],
            told.places[task] not in wrong,
        )
        for task in placed
    ]
    return pd.DataFrame(rows, columns=SCHEDULE).sort_values(["start_hours", "end_hours"], kind="stable", ignore_index=True)


def _headline(costs: pd.DataFrame, broken: pd.DataFrame, same: bool) -> str:
    """Say whether it can be, when it ends, and how far that is from the placement that was found."""
    measured = costs.set_index("measure")
    end, usd = measured.loc["makespan_hours"], measured.loc["usd"]
    start = "The placement keeps all constraints."
    if len(broken):
        more = f", and {counted(len(broken) - 3, 'more')}" if len(broken) > 3 else ""
        start = f"The placement breaks {counted(len(broken), 'constraint')}: {'; '.join(broken['words'].head(3))}{more}."
    if same:
        return f"{start} It is the one that was found: it ends after {end['plan']:.4g} hours and costs {money(usd['plan'])}."
    apart = [
        f"{abs(row['difference']):,.4g} {unit} {'more' if row['difference'] > 0 else 'less'}"
        for row, unit in ((end, "hours"), (usd, "dollars"))
        if abs(row["difference"]) > SECOND
    ]
    beside = f"{' and '.join(apart)} than the one that was found" if apart else "as the one that was found"
    return f"{start} It ends after {end['checked']:.4g} hours and costs {money(usd['checked'])}, {beside}."
