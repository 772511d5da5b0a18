"""Where points rest: all of them here, or, where there is a cluster, each group of paths with the worker that holds it."""

import itertools
import uuid
from typing import NamedTuple

import numpy as np

from capplan.optimize.bunching import Bunched
from capplan.optimize.program import TwoStage, cost_states
from capplan.optimize.separable import SeparableRecourse
from capplan.workers import Held, held_by_workers

Array = np.ndarray
CHUNK = 65536
#: A cluster pays from so many points on.
FEWEST_POINTS = 1_000_000


def chunks(points: int, size: int | None = None) -> list[Array]:
    """Cut points into pieces that bound the memory of a step."""
    size = size or CHUNK
    return [np.arange(at, min(at + size, points)) for at in range(0, points, size)]


def rest_points(
    library: SeparableRecourse, technology: Array, h: Array, shift: Array, start: Array | None, size: int | None = None
) -> Bunched:
    """Bring points to their optimal bases where a first stage shifts right-hand sides.

    Args:
        technology, h ((N,) int, (N, m)): As in `TwoStage`.
        shift (G, m): By technology.
        start ((N, parts), optional): Bases to try first.
        size: Points that are taken at once; those without a start begin from the bases of their means.
    """
    basis, ray = np.zeros((len(h), len(library.parts)), dtype=int), np.full(len(h), -1)
    for part in chunks(len(h), size):
        rhs = h[part] - shift[technology[part]]
        basis[part], ray[part] = library.evaluate(rhs, technology[part], None if start is None else start[part])
    return Bunched(basis, ray)


class _Told(NamedTuple):
    """What is known here of the bases that a group has found."""

    run: str  #: The life of the group's store; another one counts its bases anew.
    bases: dict[tuple[int, int], int]  #: How many, by cost state and part.
    rays: int


class _Rested(NamedTuple):
    """Where a group's points rest, in numbers of its own store, and what is new there."""

    run: str
    found: Bunched
    columns: dict[tuple[int, int], Array]  #: Columns of each new basis, by cost state and part, (new, rows of the part).
    rays: list[Array]


class PathGroup:
    """Points of a program that one worker holds, and the bases found for them there.

    Args:
        technology, h: As in `TwoStage`.
        recourse: Arguments of `SeparableRecourse`.
        size: Points that are taken at once.
    """

    def __init__(self, technology: Array, h: Array, recourse: tuple[Array, ...], size: int) -> None:
        self.technology, self.h, self.recourse, self.size = technology, h, recourse, size
        self.library: SeparableRecourse | None = None
        self.basis: Array | None = None
        self.run = ""

    def rest(self, shift: Array, told: _Told, stay: bool) -> _Rested:
        """Bring the points to their optimal bases, each from where it stayed last; it stays there where it is to."""
        if self.library is None:
            self.library, self.run = SeparableRecourse(*self.recourse), uuid.uuid4().hex
        library = self.library
        found = rest_points(library, self.technology, self.h, shift, self.basis, self.size)
        self.basis = found.basis if stay else self.basis
        known = told if told.run == self.run else _Told(self.run, {}, 0)
        columns = {
            (s, k): one.bases.columns[known.bases.get((s, k), 0) : one.bases.count].copy()
            for s, parts in enumerate(library.libraries)
            for k, one in enumerate(parts)
        }
        small = np.min_scalar_type(int(found.basis.max(initial=0)))
        return _Rested(self.run, Bunched(found.basis.astype(small), found.ray.astype(np.int32)), columns, library.rays[known.rays :])


def rest_group(group: PathGroup, given: tuple[Array, _Told, bool]) -> _Rested:
    """Bring a group's points to their optimal bases, where it is held."""
    return group.rest(*given)


class PathGroups:
    """All points of a program, held in groups by the workers of a cluster.

    Costs are perturbed, so that a point rests on the basis that would be found here, but for ties where a capacity is exactly used up.
    Bases are numbered here as they become known, group by group: all that follows from them is computed here.
    """

    def __init__(self, held: Held, ends: Array) -> None:
        self.held, self.ends = held, ends
        self.told = [_Told("", {}, 0)] * held.count
        self.numbers: list[dict[tuple[int, int], Array]] = [{} for _ in self.told]
        self.rays: list[list[int]] = [[] for _ in self.told]

    def rest(self, library: SeparableRecourse, shift: Array, *, stay: bool) -> Bunched:
        """Bring every point to its optimal basis, in numbers of the library here; next time they start from where they stay."""
        points, states = int(self.ends[-1]), library.states
        basis, ray = np.zeros((points, len(library.parts)), dtype=int), np.full(points, -1)
        answers = self.held.each(rest_group, [(shift, told, stay) for told in self.told])
        for g, rested in enumerate(answers):
            self._learn(library, g, rested)
            own = slice(self.ends[g], self.ends[g + 1])
            found = rested.found.basis.astype(int)
            for (s, k), numbers in self.numbers[g].items():
                here = found[:, k] % states == s
                basis[own][here, k] = numbers[found[here, k] // states] * states + s
            lost = np.flatnonzero(rested.found.ray >= 0)
            ray[own][lost] = np.array(self.rays[g], dtype=int)[rested.found.ray[lost]]
        for store in {id(one): one for parts in library.libraries for one in parts}.values():
            store.bases.evict()
        return Bunched(basis, ray)

    def _learn(self, library: SeparableRecourse, g: int, rested: _Rested) -> None:
        """Give numbers to what is new in a group's store."""
        if rested.run != self.told[g].run:
            self.numbers[g], self.rays[g] = {}, []
        for (s, k), columns in rested.columns.items():
            new = np.array([library.of(s)[k].bases.add(one) for one in columns], dtype=int)
            self.numbers[g][s, k] = np.concatenate([self.numbers[g].get((s, k), np.zeros(0, dtype=int)), new])
        for one in rested.rays:
            same = [number for number, known in enumerate(library.rays) if np.array_equal(known, one)]
            if not same:
                library.rays.append(one)
            self.rays[g].append(same[0] if same else len(library.rays) - 1)
        self.told[g] = _Told(rested.run, {key: len(found) for key, found in self.numbers[g].items()}, len(self.rays[g]))


def groups_of(problem: TwoStage) -> PathGroups | None:
    """Lay a program's points out in groups on the cluster that the surrounding `workers` block names; None where it names none."""
    costs, state = cost_states(problem)
    recourse = (costs, problem.W, problem.recourse_sense, state)

    def ends(groups: int) -> Array:
        pieces = -(-len(problem.h) // CHUNK)
        return np.minimum(np.linspace(0, pieces, groups + 1).astype(int) * CHUNK, len(problem.h))

    def cut(workers: int) -> list[PathGroup]:
        return [PathGroup(problem.technology[a:b], problem.h[a:b], recourse, CHUNK) for a, b in itertools.pairwise(ends(workers))]

    held = held_by_workers(cut, (problem.h, problem.technology, problem.W, problem.q, problem.costs))
    return None if held is None else PathGroups(held, ends(held.count))
