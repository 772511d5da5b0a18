"""Exact value and cuts of a first stage over all recourse points."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.optimize.bunching import Bunched
from capplan.optimize.lattice import Lattice
from capplan.optimize.path_groups import FEWEST_POINTS, PathGroups, chunks, groups_of, rest_points
from capplan.optimize.program import TwoStage, Use, cost_states, right_hand_sides, risk_weights, shifts
from capplan.optimize.separable import SeparableRecourse

Array = np.ndarray
#: First stages that are remembered, each where so many points rested at most.
REMEMBERED, FEW_POINTS = 40, 20_000


class Cut(NamedTuple):
    r"""A supporting plane of the recourse cost: value >= constant - sum_t slope_t T_t x."""

    constant: Array  #: (G, K): One for each technology and independent part of the recourse.
    slope: Array  #: (G, m): Weighted duals of each technology's points; a row belongs to one part.


class Evaluated(NamedTuple):
    """What a first stage leads to."""

    cost_by_scenario: Array  #: (S,): Recourse cost; infinite where a point of the scenario has no feasible recourse.
    mean: Cut  #: (Cut): Cuts of expected cost, one for each technology and part.
    tail: Cut  #: (Cut): Cut of CVaR, its parts by technology to be summed.
    reference: Cut | None  #: (Cut or None): Cuts of the cost under the evaluator's reference weights, one for each technology and part.
    rays: Array  #: (F, m + 1 + 1): Feasibility cuts as rows: duals, constant, technology; empty where every point is feasible.
    #: (list of (Cut, Cut or None)): Planes through neighbouring whole first stages, for mean and reference.
    chords: list[tuple[Cut, Cut | None]]
    raised: Array  #: (2,): By how much the chords lie above expected cost and the cost under reference weights at this first stage.


class Evaluator:
    """Evaluates first stages one after another, each from the bases where the last left off.

    Args:
        problem: The program.
        tail_share: Share of worst scenarios in CVaR.
        library: Bases of the recourse problem.
        lattice: Groups of points whose right-hand side moves in whole steps, for closer cuts; none by default.

    Attributes:
        reference ((S,) or None): Scenario weights of a CVaR at some first stage. CVaR is at least the cost under any such weights, and cost
            under fixed weights splits by technology, which makes for closer cuts than CVaR itself allows.
    """

    def __init__(self, problem: TwoStage, tail_share: float, library: SeparableRecourse, lattice: Lattice | None = None) -> None:
        self.problem = problem
        self.tail_share = tail_share
        self.library = library
        self.lattice = lattice
        self.basis: Array | None = None
        self.reference: Array | None = None
        #: Where the points rest, with the shifts of their right-hand sides; duals of the points at some bases.
        self._rested: tuple[Array, Bunched] | None = None
        self._priced: tuple[Array, Array] | None = None
        self._groups: PathGroups | None = None
        #: Where few points rested, at the first stages seen last.
        self.visited: deque[Array] = deque(maxlen=REMEMBERED)

    def begin_like(self, warm: Warm, x: Array) -> list[tuple[Cut, Cut | None, Cut | None]]:
        """Start the points where those of another program with the same recourse rested; return that program's planes, as they are here.

        A basis is dual feasible whatever right-hand sides and weights are, so that its duals make a cut of this program too. Parts of the
        recourse that the other has not rest at x.
        """
        problem, visited = self.problem, list(warm.visited)
        if warm.basis is None or len(warm.basis) != len(problem.technology):
            return []
        if self.library is warm.library:
            if not np.array_equal(warm.technology, problem.technology):
                return []
            self.basis = warm.basis
        else:
            place, state = self.library.places(warm.library), self.library.state[problem.technology]
            if place is None or (warm.basis % self.library.states != state[:, None]).any():
                return []
            self.basis = np.where(place >= 0, warm.basis[:, place], self.library.first()[state])
            rested = self.rest(x).basis
            visited = [np.where(place >= 0, each[:, place], rested) for each in visited]
        known = warm.reference
        if known is not None and len(known) == len(problem.probability) and (known * self.tail_share <= problem.probability + 1e-12).all():
            self.reference = known
        weights = [problem.probability] if self.reference is None else [problem.probability, self.reference]
        return [(cuts[0], None, cuts[1] if len(cuts) > 1 else None) for cuts in (self._cuts(basis, weights) for basis in visited)]

    def rest(self, x: Array) -> Bunched:
        """Bring every point to its optimal basis at x; those whose right-hand sides are what they were stay where they are."""
        shift = shifts(self.problem, x)
        if self._rested is None or self._rested[1].basis is not self.basis:
            found = self._rest(shift, stay=True)
        else:
            moved = (shift != self._rested[0]).any(axis=1)[self.problem.technology]
            if not moved.any():
                return self._rested[1]
            found = self._rest(shift, stay=True) if moved.all() else self._moved(shift, np.flatnonzero(moved), self._rested[1])
        self.basis, self._rested = found.basis, (shift, found)
        return found

    def _moved(self, shift: Array, moved: Array, rested: Bunched) -> Bunched:
        """Return every point's optimal basis where only some of them have moved."""
        if self._groups is not None:
            return self._groups.rest(self.library, shift, stay=True)
        basis, ray = rested.basis.copy(), rested.ray.copy()
        for part in chunks(len(moved)):
            own = moved[part]
            basis[own], ray[own] = rest_points(self.library, self.problem.technology[own], self.problem.h[own], shift, basis[own])
        return Bunched(basis, ray)

    def _rest(self, shift: Array, *, stay: bool = False) -> Bunched:
        """Return every point's optimal basis where the first stage shifts right-hand sides by so much, (G, m)."""
        problem = self.problem
        if self._groups is None and len(problem.technology) >= FEWEST_POINTS:
            self._groups = groups_of(problem)
        if self._groups is not None:
            return self._groups.rest(self.library, shift, stay=stay)
        return rest_points(self.library, problem.technology, problem.h, shift, self.basis)

    def evaluate(self, x: Array) -> Evaluated:
        """Return the exact recourse cost of x and the cuts that support it there."""
        problem = self.problem
        shift = shifts(problem, x)
        basis, ray = self.rest(x)
        self._remember(basis)
        by_scenario = self._by_scenario(shift, basis)
        tail = risk_weights(by_scenario, problem.probability, 1.0, self.tail_share)
        weights = [problem.probability, tail] if self.reference is None else [problem.probability, tail, self.reference]
        mean, worst, *others = self._cuts(basis, weights)
        reference = others[0] if others else None
        infeasible = np.flatnonzero(ray >= 0)
        by_scenario[problem.scenario[infeasible]] = np.inf
        rays = self._rays(x, ray, infeasible)
        if self.lattice is None or len(infeasible):
            return Evaluated(by_scenario, mean, worst, reference, rays, [], np.zeros(2))
        return Evaluated(by_scenario, mean, worst, reference, rays, *self._chords(self.lattice, shift, mean, reference))

    def costs(self, x: Array) -> Array:
        """Return the exact recourse cost of x by scenario, (S,); infinite where a point of it has no feasible recourse."""
        basis, ray = self.rest(x)
        by_scenario = self._by_scenario(shifts(self.problem, x), basis)
        by_scenario[self.problem.scenario[ray >= 0]] = np.inf
        return by_scenario

    def _by_scenario(self, shift: Array, basis: Array) -> Array:
        """Sum the cost of points at their bases by scenario, (S,)."""
        problem, cost = self.problem, np.zeros(len(basis))
        for part in chunks(len(basis)):
            cost[part] = np.einsum("ij,ij->i", problem.h[part] - shift[problem.technology[part]], self._duals(basis, part))
        return np.bincount(problem.scenario, weights=problem.weight * cost, minlength=len(problem.probability))

    def planes(self, shift: Array) -> tuple[Cut, Cut | None] | None:
        """Return the cuts of mean and reference where right-hand sides are shifted by (G, m); None where a point is infeasible."""
        found = self._rest(shift)
        if (found.ray >= 0).any():
            return None
        self._remember(found.basis)
        weights = [self.problem.probability] if self.reference is None else [self.problem.probability, self.reference]
        cuts = self._cuts(found.basis, weights)
        return cuts[0], cuts[1] if len(cuts) > 1 else None

    def _remember(self, basis: Array) -> None:
        """Remember where points rest, if they are few."""
        if basis.size <= FEW_POINTS and not (self.visited and self.visited[-1] is basis):
            self.visited.append(basis)

    def _duals(self, basis: Array, part: Array) -> Array:
        """Return the duals of some points at their bases; those of few points are laid out once for cost and cuts."""
        if len(part) < len(basis):
            return self.library.duals(basis[part])
        if self._priced is None or self._priced[0] is not basis:
            self._priced = basis, self.library.duals(basis)
        return self._priced[1]

    def _cuts(self, basis: Array, scenario_weights: list[Array]) -> list[Cut]:
        """Sum the points' duals by technology under each set of scenario weights."""
        problem = self.problem
        groups, m = len(problem.T), problem.W.shape[0]
        cuts = [Cut(np.zeros((groups, len(self.library.parts))), np.zeros((groups, m))) for _ in scenario_weights]
        for part in chunks(len(basis)):
            duals = self._duals(basis, part)
            value = self.library.by_part(duals * problem.h[part])
            for cut, weights in zip(cuts, scenario_weights, strict=True):
                weight = weights[problem.scenario[part]] * problem.weight[part]
                member = sparse.csr_matrix((weight, (problem.technology[part], np.arange(len(part)))), shape=(groups, len(part)))
                cut.constant[:] += member @ value
                cut.slope[:] += member @ duals
        return cuts

    def _chords(self, lattice: Lattice, shift: Array, mean: Cut, reference: Cut | None) -> tuple[list[tuple[Cut, Cut | None]], Array]:
        """Return planes through the whole steps around a first stage, and by how much they lie above the cost there."""
        weights = [self.problem.probability] if self.reference is None else [self.problem.probability, self.reference]
        near = lattice.neighbours(shift)
        found = [self._rest(at) for at in near]
        if any((ends.ray >= 0).any() for ends in found):
            return [], np.zeros(2)
        # value of each technology and part under each set of weights at each neighbour
        planes = [self._cuts(ends.basis, weights) for ends in found]
        values = [[cut.constant - self.library.by_part(cut.slope * at) for cut in cuts] for cuts, at in zip(planes, near, strict=True)]
        here = [cut.constant - self.library.by_part(cut.slope * shift) for cut in (mean, reference) if cut is not None]
        raised = np.zeros(2)
        for i, value in enumerate(here):
            raised[i] = lattice.between(shift, near[1], values[1][i], values[2][i], value)
        chords = []
        for low in (0, 1):
            pair = [
                Cut(*lattice.chord(near[low], values[low][i], values[low + 1][i], planes[low][i].constant, planes[low][i].slope))
                for i in range(len(weights))
            ]
            chords.append((pair[0], pair[1] if len(pair) > 1 else None))
        return chords, raised

    def _rays(self, x: Array, ray: Array, infeasible: Array) -> Array:
        """Return the most violated feasibility cut of each ray and technology: ray (h - T x) <= 0."""
        problem = self.problem
        m = problem.W.shape[0]
        if not len(infeasible):
            return np.zeros((0, m + 2))
        direction = np.array(self.library.rays)[ray[infeasible]]
        excess = np.einsum("ij,ij->i", direction, right_hand_sides(problem, x, infeasible))
        constant = np.einsum("ij,ij->i", direction, problem.h[infeasible])
        order = np.argsort(-excess, kind="stable")
        pairs = np.stack([ray[infeasible], problem.technology[infeasible]])[:, order]
        first = order[np.unique(pairs, axis=1, return_index=True)[1]]
        return np.column_stack([direction[first], constant[first], problem.technology[infeasible][first]])

    def decisions(self, x: Array) -> sparse.csr_matrix:
        """Return the optimal recourse of every point at x, (P, r) sparse."""
        return self.use(x)()

    def use(self, x: Array) -> Use:
        """Bring every point to its optimal basis at x; return what lays out the recourse there, also when they rest elsewhere again."""
        return partial(self._laid_out, x, self.rest(x).basis)

    def _laid_out(self, x: Array, basis: Array) -> sparse.csr_matrix:
        """Return the recourse of every point at its basis, (P, r) sparse."""
        parts = [self.library.decisions(right_hand_sides(self.problem, x, part), basis[part]) for part in chunks(len(basis))]
        return sparse.csr_matrix(sparse.vstack(parts))


def recourse_of(problem: TwoStage) -> SeparableRecourse:
    """Return an empty store of bases for a program's recourse."""
    costs, state = cost_states(problem)
    return SeparableRecourse(costs, problem.W, problem.recourse_sense, state)


def aggregate(problem: TwoStage, clusters: int) -> TwoStage:
    r"""Replace each technology's points by a few weighted means of near points, in a single scenario.

    By Jensen's inequality the mean's recourse cost is at most the mean recourse cost, so that cuts of the
    smaller program are cuts of the full program's expected cost. Points are ordered along their first principal component.

    Source: Birge and Louveaux, Introduction to Stochastic Programming, 2nd ed. (2011), section 8.2 (Jensen's lower bound).
    """
    weight = problem.weight * problem.probability[problem.scenario]
    rhs, mass, technology = [], [], []
    for number in range(len(problem.T)):
        own = np.flatnonzero((problem.technology == number) & (weight > 0))
        if not len(own):
            continue
        centred = problem.h[own] - problem.h[own].mean(axis=0)
        direction = np.linalg.eigh(np.einsum("pi,pj->ij", centred[:2048], centred[:2048]))[1][:, -1]
        direction = direction * np.sign(direction[np.abs(direction).argmax()])
        for part in np.array_split(own[np.argsort(centred @ direction, kind="stable")], min(clusters, len(own))):
            mass.append(weight[part].sum())
            rhs.append(weight[part] @ problem.h[part] / mass[-1])
            technology.append(number)
    points = len(mass)
    return replace(
        problem,
        technology=np.array(technology, dtype=int),
        h=np.array(rhs).reshape(points, problem.W.shape[0]),
        weight=np.array(mass),
        scenario=np.zeros(points, dtype=int),
        probability=np.ones(1),
        expected=(),
    )


@dataclass(frozen=True)
class Warm:
    """What a solve leaves for the next one."""

    #: program, recourse (str): Digests of what the cuts and what the bases depend on; they are used only where these agree.
    program: str
    recourse: str
    #: library, basis: Bases, and the one each point rested on.
    library: SeparableRecourse
    basis: Array | None
    #: cuts, rays: Cuts of expected cost and CVaR; feasibility cuts.
    cuts: tuple[tuple[Cut, Cut | None, Cut | None], ...]
    rays: tuple[Array, ...]
    tail_share: float  #: Share of worst scenarios that the CVaR cuts stand for.
    reference: Array | None  #: ((S,) or None): Reference weights of CVaR that the cuts stand for.
    x: Array  #: (n,): Best first stage.
    #: technology, visited: Which matrix each point uses, and the bases that points rested on, at the first stages seen last.
    technology: Array
    visited: tuple[Array, ...]
    #: joints: Cuts of the blended cost with priced expected rows, which hold at the risk weight they were made for: prices (K,), and cut.
    joints: tuple[tuple[Array, Cut], ...] = ()
    #: priced: Prices (K,) at which each technology and part has cuts of its own, and these cuts.
    priced: tuple[tuple[Array, tuple[Cut, ...]], ...] = ()
    near: bool = False  #: Is the next program near: where only demand or weights moved, does it begin from these bases and their planes?

    def at_points(self, points: Array) -> Warm:
        """Return what begins a program of some of the points."""
        basis = None if self.basis is None else self.basis[points]
        return replace(
            self,
            program="",
            basis=basis,
            technology=self.technology[points],
            visited=tuple(each[points] for each in self.visited),
            near=True,
        )
