"""Exact value and cuts of a first stage over all recourse points."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.optimize.program import TwoStage, right_hand_sides, risk_weights
from capplan.optimize.recourse import Bunched, RecourseLibrary

Array = np.ndarray
CHUNK = 65536


class Cut(NamedTuple):
    r"""A supporting plane of the recourse cost: value >= constant - sum_t slope_t T_t x.

    Parameters
    ----------
    constant : (G,)
        One for each technology.
    slope : (G, m)
        Weighted duals of each technology's points.
    """

    constant: Array
    slope: Array


class Evaluated(NamedTuple):
    """What a first stage leads to.

    Parameters
    ----------
    cost_by_scenario : (S,)
        Recourse cost; infinite where a point of the scenario has no feasible recourse.
    mean : Cut
        Cuts of expected cost, one for each technology.
    tail : Cut
        Cut of CVaR, its parts by technology to be summed.
    reference : Cut or None
        Cuts of the cost under the evaluator's reference weights, one for each technology.
    rays : (F, m + 1 + 1)
        Feasibility cuts as rows: duals, constant, technology; empty where every point is feasible.
    """

    cost_by_scenario: Array
    mean: Cut
    tail: Cut
    reference: Cut | None
    rays: Array


class Evaluator:
    """Evaluates first stages one after another, each from the bases where the last left off.

    Parameters
    ----------
    problem
        The program.
    tail_share
        Share of worst scenarios in CVaR.
    library
        Bases of the recourse problem.

    Attributes
    ----------
    reference : (S,) or None
        Scenario weights of a CVaR at some first stage. CVaR is at least the cost under any such weights, and cost under fixed weights
        splits by technology, which makes for closer cuts than CVaR itself allows.
    """

    def __init__(self, problem: TwoStage, tail_share: float, library: RecourseLibrary) -> None:
        self.problem = problem
        self.tail_share = tail_share
        self.library = library
        self.basis: Array | None = None
        self.reference: Array | None = None

    def rest(self, x: Array) -> Bunched:
        """Bring every point to its optimal basis at x."""
        problem = self.problem
        points = len(problem.technology)
        start, basis, ray = self.basis, np.zeros(points, dtype=int), np.full(points, -1)
        for at in range(0, points, CHUNK):
            part = np.arange(at, min(at + CHUNK, points))
            rhs = right_hand_sides(problem, x, part)
            basis[part], ray[part] = self.library.evaluate(rhs, problem.technology[part], None if start is None else start[part])
        self.basis = basis
        return Bunched(basis, ray)

    def evaluate(self, x: Array) -> Evaluated:
        """Return the exact recourse cost of x and the cuts that support it there."""
        problem = self.problem
        basis, ray = self.rest(x)
        points = len(basis)
        cost = np.zeros(points)
        for at in range(0, points, CHUNK):
            part = slice(at, min(at + CHUNK, points))
            cost[part] = self.library.costs(right_hand_sides(problem, x, part), basis[part])
        by_scenario = np.bincount(problem.scenario, weights=problem.weight * cost, minlength=len(problem.probability))
        tail = risk_weights(by_scenario, problem.probability, 1.0, self.tail_share)
        mean, worst = self._cuts(basis, [problem.probability, tail])
        reference = None if self.reference is None else self._cuts(basis, [self.reference])[0]
        infeasible = np.flatnonzero(ray >= 0)
        by_scenario[problem.scenario[infeasible]] = np.inf
        return Evaluated(by_scenario, mean, worst, reference, self._rays(x, ray, infeasible))

    def _cuts(self, basis: Array, scenario_weights: list[Array]) -> list[Cut]:
        """Sum the points' duals by technology under each set of scenario weights."""
        problem = self.problem
        groups, m = len(problem.T), problem.W.shape[0]
        cuts = [Cut(np.zeros(groups), np.zeros((groups, m))) for _ in scenario_weights]
        for at in range(0, len(basis), CHUNK):
            part = np.arange(at, min(at + CHUNK, len(basis)))
            duals = self.library.duals[basis[part]]
            value = np.einsum("ij,ij->i", duals, problem.h[part])
            for cut, weights in zip(cuts, scenario_weights, strict=True):
                weight = weights[problem.scenario[part]] * problem.weight[part]
                member = sparse.csr_matrix((weight, (problem.technology[part], np.arange(len(part)))), shape=(groups, len(part)))
                cut.constant[:] += member @ value
                cut.slope[:] += member @ duals
        return cuts

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
        problem = self.problem
        basis, _ = self.rest(x)
        parts = []
        for at in range(0, len(basis), CHUNK):
            part = slice(at, min(at + CHUNK, len(basis)))
            parts.append(self.library.decisions(right_hand_sides(problem, x, part), basis[part]))
        return sparse.csr_matrix(sparse.vstack(parts))


def aggregate(problem: TwoStage, clusters: int) -> TwoStage:
    r"""Replace each technology's points by a few weighted means of near points, in a single scenario.

    By Jensen's inequality the mean's recourse cost is at most the mean recourse cost, so that cuts of the
    smaller program are cuts of the full program's expected cost. Points are ordered along their first principal component.

    Source
    ------
    Birge and Louveaux, Introduction to Stochastic Programming, 2nd ed. (2011), section 8.2 (Jensen's lower bound).
    """
    weight = problem.weight * problem.probability[problem.scenario]
    rhs, mass, technology = [], [], []
    for number in range(len(problem.T)):
        own = np.flatnonzero((problem.technology == number) & (weight > 0))
        if not len(own):
            continue
        centred = problem.h[own] - problem.h[own].mean(axis=0)
        direction = np.linalg.svd(centred[:2048], full_matrices=False)[2][0]
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
