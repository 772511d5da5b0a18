"""Rows that keep tasks apart on nodes, and transfers on links, added to the program where a solution breaks them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from capplan.questions.placement.program import Program, member_need
from capplan.questions.placement.state import CARD, Floats

#: Hours by which two spans must overlap to be in each other's way.
OVERLAP = 1e-6


class Apart:
    """Who may be together on which node, and the rows written so far."""

    def __init__(self, program: Program, ancestors: np.ndarray) -> None:
        """Take a program and who comes before whom: ancestors[i, j] is true where j cannot begin before i has ended."""
        self.program, self.ancestors = program, ancestors
        self.written: set[tuple[tuple[int, ...], int]] = set()
        away = program.problem.machines.away
        partly = away[away["share"] < 1]
        count = len(program.problem.work.release)
        #: spans in which a node is partly taken stand behind the tasks: number -> (node, start, end, what is taken)
        self.spans = {
            count + number: (int(row.node), float(row.start), float(row.end), self._taken(int(row.node), float(row.share)))
            for number, row in enumerate(partly.itertuples(index=False))
        }

    def _taken(self, node: int, share: float) -> Floats:
        """Return what a share of a node is, whole accelerators."""
        has = self.program.problem.machines.capacity[node]
        left = has * (1 - share)
        left[3] = np.floor(left[3] + 1e-9)
        return np.asarray(has - left)

    def need(self, task: int, node: int) -> Floats:
        """Return what a task takes of a node: the least over its groups there."""
        if task in self.spans:
            return self.spans[task][3]
        groups = [group for group in np.flatnonzero(self.program.allowed[task]) if (task, group, node) in self.program.on]
        return np.min([member_need(self.program.problem, task, int(group)) for group in groups], axis=0)

    def here(self, task: int, node: int) -> tuple[dict[int, float], float]:
        """Return columns and constant that tell whether a task is on a node."""
        if task in self.spans:
            return {}, float(self.spans[task][0] == node)
        return self.program.here(task, node), 0.0

    def window(self, task: int) -> tuple[float, float, float, float]:
        """Return earliest start, latest start, earliest end and latest end."""
        if task in self.spans:
            _, start, end, _ = self.spans[task]
            return start, start, end, end
        rows, start, end = self.program.rows, self.program.start[task], self.program.end[task]
        return rows.lower[start], rows.upper[start], rows.lower[end], rows.upper[end]

    def before(self, one: int, other: int) -> tuple[dict[int, float], float]:
        """Return columns and constant that tell whether one ends before the other begins."""
        if one not in self.spans and other not in self.spans and self.ancestors[one, other]:
            return {}, 1.0
        _, _, soonest_end, last_end = self.window(one)
        soonest_start, last_start, _, _ = self.window(other)
        if last_end <= soonest_start:
            return {}, 1.0
        if soonest_end > last_start + OVERLAP or (one not in self.spans and other not in self.spans and self.ancestors[other, one]):
            return {}, 0.0
        if (one, other) not in self.program.first:
            rows = self.program.rows
            column = rows.column(integer=True)
            self.program.first[one, other] = column
            slack = last_end - soonest_start
            terms: dict[int, float] = {column: slack}
            constant = slack
            if one in self.spans:
                constant -= last_end
            else:
                terms[self.program.end[one]] = 1.0
            if other in self.spans:
                constant += soonest_start
            else:
                terms[self.program.start[other]] = -1.0
            rows.row(terms, "<", constant)
        return {self.program.first[one, other]: 1.0}, 0.0

    def keep(self, tasks: tuple[int, ...], node: int) -> None:
        """Write that not all of these tasks are on a node at once."""
        if (tasks, node) in self.written:
            return
        self.written.add((tasks, node))
        terms: dict[int, float] = {}
        constant = float(len(tasks) - 1)
        for task in tasks:
            columns, fixed = self.here(task, node)
            terms |= columns
            constant -= fixed
        for one, other in combinations(tasks, 2):
            for pair in ((one, other), (other, one)):
                columns, fixed = self.before(*pair)
                if fixed:
                    return
                terms |= dict.fromkeys(columns, -1.0)
        self.program.rows.row(terms, "<", constant)

    def pairs(self) -> None:
        """Write all pairs that no node holds at once."""
        count = len(self.program.problem.work.release)
        capacity = self.program.problem.machines.capacity
        members = [*range(count), *self.spans]
        nodes = {task: {self.spans[task][0]} if task in self.spans else set(self.program.nodes(task).tolist()) for task in members}
        need = {(task, node): self.need(task, node) for task in members for node in nodes[task]}
        for one, other in combinations(members, 2):
            if (one in self.spans and other in self.spans) or (
                other < count and (self.ancestors[one, other] or self.ancestors[other, one])
            ):
                continue
            for node in sorted(nodes[one] & nodes[other]):
                if (need[one, node] + need[other, node] > capacity[node] + 1e-9).any() and self._last(one, other):
                    self.keep((one, other), node)

    def _last(self, one: int, other: int) -> bool:
        """Tell whether two last at all."""
        return all(self.window(task)[3] > self.window(task)[0] for task in (one, other))

    def broken(self, start: Floats, end: Floats, nodes: tuple[np.ndarray, ...]) -> bool:
        """Write rows for sets of tasks that a solution runs together and a node cannot hold; tell whether there were any."""
        capacity = self.program.problem.machines.capacity
        found = False
        on: dict[int, list[int]] = {}
        for task, taken in enumerate(nodes):
            for node in taken:
                on.setdefault(int(node), []).append(task)
        for number, (node, *_) in self.spans.items():
            on.setdefault(node, []).append(number)
        times = {task: (float(start[task]), float(end[task])) for task in range(len(start))} | {
            number: (span[1], span[2]) for number, span in self.spans.items()
        }
        for node, tasks in sorted(on.items()):
            for task in tasks:
                running = [
                    other for other in tasks if times[other][0] <= times[task][0] + 1e-9 and times[other][1] > times[task][0] + OVERLAP
                ]
                load = np.sum([self.need(other, node) for other in running], axis=0) if running else np.zeros(1)
                if len(running) > 1 and (load > capacity[node] + 1e-7).any():
                    found |= self._cover(running, node, int(np.argmax(load - capacity[node])))
        return found

    def _cover(self, running: list[int], node: int, resource: int) -> bool:
        """Write the smallest of the running tasks, by what they take, that are too many for a node; on every node that holds as little."""
        capacity = self.program.problem.machines.capacity
        chosen: list[int] = []
        for task in sorted(running, key=lambda task: (-self.need(task, node)[resource], task)):
            chosen.append(task)
            if sum(self.need(other, node)[resource] for other in chosen) > capacity[node, resource] + 1e-7:
                break
        for task in list(chosen):
            rest = [other for other in chosen if other != task]
            if sum(self.need(other, node)[resource] for other in rest) > capacity[node, resource] + 1e-7:
                chosen = rest
        tasks = tuple(sorted(chosen))
        fresh = (tasks, node) not in self.written
        for other in range(len(capacity)):
            here = [bool(self.here(task, other)[0]) or self.here(task, other)[1] > 0 for task in tasks]
            if all(here) and sum(self.need(task, other)[resource] for task in tasks) > capacity[other, resource] + 1e-7:
                self.keep(tasks, other)
        return fresh

    def crossed(self, sent: Floats, came: Floats, path: np.ndarray) -> bool:
        """Write rows for transfers that a solution sends over one link at once; tell whether there were any."""
        found = False
        rides = [edge for edge in self.program.rides if path[edge] >= 0]
        for one, other in combinations(rides, 2):
            if (
                path[one] == path[other]
                and min(came[one], came[other]) - max(sent[one], sent[other]) > OVERLAP
                and (one, other) not in self.program.turns
            ):
                found = True
                self._turn(one, other)
        return found

    def _send(self, edge: int) -> int:
        """Return the column of the begin of a transfer."""
        program = self.program
        if edge not in program.sends:
            work = program.problem.work
            first, last = int(work.source[edge]), int(np.searchsorted(work.before, edge, side="right") - 1)
            column = program.rows.column(program.rows.lower[program.end[first]], program.rows.upper[program.start[last]])
            program.sends[edge] = column
            program.rows.row({column: 1.0, program.end[first]: -1.0}, ">", 0.0)
            program.rows.row(
                {
                    program.start[last]: 1.0,
                    column: -1.0,
                    **{ride: -sum(self._time(edge, pair)) for pair, ride in program.rides[edge].items() if program.rows.upper[ride] > 0},
                },
                ">",
                0.0,
            )
        return program.sends[edge]

    def _time(self, edge: int, pair: tuple[int, int]) -> tuple[float, float]:
        """Return hours on the link and hours of latency of a transfer."""
        from capplan.questions.placement.program import travel

        return travel(self.program.problem, *pair, float(self.program.problem.work.gigabytes[edge]))[:2]

    def path(self, pair: tuple[int, int]) -> int:
        """Return the link between two nodes, as the scheduler numbers them."""
        problem = self.program.problem
        nodes = len(problem.machines.nodes)
        kind = int(problem.links.link[problem.links.place[pair[0]], problem.links.place[pair[1]]])
        return -1 if pair[0] == pair[1] else (nodes + pair[0] if kind == CARD else 2 * nodes + kind)

    def _turn(self, one: int, other: int) -> None:
        """Write that two transfers, where they use one link, go one after the other."""
        program, rows = self.program, self.program.rows
        first, second = rows.column(integer=True), rows.column(integer=True)
        program.turns[one, other], program.turns[other, one] = first, second
        sends = {edge: self._send(edge) for edge in (one, other)}
        for turn, (early, late) in ((first, (one, other)), (second, (other, one))):
            longest = max(self._time(early, pair)[0] for pair, ride in program.rides[early].items() if rows.upper[ride] > 0)
            slack = rows.upper[sends[early]] + longest - rows.lower[sends[late]]
            if slack <= 0:
                continue
            terms = {sends[late]: 1.0, sends[early]: -1.0, turn: -slack}
            terms |= {ride: -self._time(early, pair)[0] for pair, ride in program.rides[early].items() if rows.upper[ride] > 0}
            rows.row(terms, ">", -slack)
        for link in sorted({self.path(pair) for pair in program.rides[one]} & {self.path(pair) for pair in program.rides[other]} - {-1}):
            using = {ride: -1.0 for edge in (one, other) for pair, ride in program.rides[edge].items() if self.path(pair) == link}
            rows.row({first: 1.0, second: 1.0, **using}, ">", -1.0)
