"""Recourse under expected rows: budgets couple all points, so dispatches at several budget prices are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.optimize.evaluation import Cut, Evaluator
from capplan.optimize.program import TwoStage, cost_states, point_costs, right_hand_sides, risk_weights, row_use, shifts
from capplan.optimize.separable import SeparableRecourse
from capplan.optimize.solver import Arrays, solve_arrays

Array = np.ndarray
MOST_PLANS = 12
INNER_SHARE = 0.5
MOST_LIBRARIES = 400
HIGHEST_PRICE = 1e3
SAME_DIGITS = 12


class Price(NamedTuple):
    """Prices under which a dispatch is cheapest: of each expected row (K,), and of each scenario's cost (S,)."""

    row: Array
    scenario: Array


@dataclass(frozen=True)
class Dispatch:
    """One dispatch of all points at a first stage.

    Parameters
    ----------
    library, basis : (P,)
        Which library and which of its bases each point uses.
    cost : (T, S)
        Recourse cost by technology and scenario.
    used : (K, T)
        Expected quantity of each expected row by technology.
    cut
        Cut of the priced cost, one for each technology.
    """

    library: Array
    basis: Array
    cost: Array
    used: Array
    cut: Cut


class Coupled(NamedTuple):
    """The best dispatch of a first stage that keeps the expected rows.

    Parameters
    ----------
    cost_by_scenario : (S,)
        Recourse cost of the mixture; infinite where the rows cannot be kept.
    price
        Prices at which the cut holds.
    cut
        Cut of the blended cost plus the priced rows, one for each technology.
    mixture
        Dispatches and their shares by technology, (J, T).
    """

    cost_by_scenario: Array
    price: Price
    cut: Cut
    mixture: tuple[list[Dispatch], Array]


class CoupledEvaluator:
    r"""Finds the cheapest recourse that keeps the expected rows, by column generation over dispatches.

    For prices mu of the rows and weights omega of the scenarios each point has costs of its own,
    :math:`q + \sum_k \mu_k \tfrac{p_s w_{kp}}{\omega_s w_p} g_k`, and is solved exactly by bunching. A small program mixes the dispatches so found
    (a mixture is feasible, since recourse is convex), and its duals are the next prices. The last prices' duals give a valid cut in any case.

    Parameters
    ----------
    base
        Evaluator without expected rows, brought to rest at the first stage before each call.
    risk_weight, tail_share, gap_share
        See `two_stage.solve_two_stage`.

    Source
    ------
    Dantzig and Wolfe, "Decomposition principle for linear programs", Operations Research 8 (1960).
    """

    def __init__(self, base: Evaluator, risk_weight: float, tail_share: float, gap_share: float) -> None:
        self.base, self.problem = base, base.problem
        self.risk_weight, self.tail_share, self.gap_share = risk_weight, tail_share, gap_share
        self.libraries: list[SeparableRecourse] = [base.library]
        self.known: dict[bytes, int] = {}
        self.prices: list[Price] = []
        self.plain = (np.zeros(0), np.zeros((0, 0)))
        top = np.abs(cost_states(self.problem)[0]).max(initial=1e-9)
        self.highest = HIGHEST_PRICE * top / max((np.abs(row.g).max(initial=0.0) for row in self.problem.expected), default=1.0)

    def evaluate(self, x: Array) -> Coupled:
        """Return the best dispatch of x and the cut that supports it."""
        problem = self.problem
        room = np.array([row.limit - float(row.a @ x) for row in problem.expected])
        plain = Price(np.zeros(len(room)), problem.probability)
        self.plain = self._plain(x)
        plans = [self._dispatch(x, price) for price in (plain, *self.prices)]
        best_bound, best = -np.inf, (plain, plans[0].cut)
        for _ in range(MOST_PLANS):
            shares, cost, over, price = self._mix(plans, room)
            plans.append(self._dispatch(x, price))
            bound = self._bound(plans[-1], price, x, room)
            if bound > best_bound:
                best_bound, best = bound, (price, plans[-1].cut)
            weight = risk_weights(cost, problem.probability, self.risk_weight, self.tail_share)
            value = float(weight @ cost) + self.highest * over
            if value - best_bound <= INNER_SHARE * self.gap_share * max(abs(value), 1e-12):
                break
        self.prices = [best[0]]
        kept = over <= 1e-7 * max(1.0, float(np.abs(room).max(initial=0.0)))
        return Coupled(cost if kept else np.full(len(cost), np.inf), best[0], best[1], (plans[: shares.shape[0]], shares))

    def decisions(self, x: Array, found: Coupled) -> sparse.csr_matrix:
        """Return the mixture's recourse of every point, (P, r) sparse."""
        problem = self.problem
        total = sparse.csr_matrix((len(problem.technology), len(problem.q)))
        for plan, share in zip(*found.mixture, strict=True):
            weight = share[problem.technology]
            for number in np.unique(plan.library[weight > 0]):
                own = np.flatnonzero((plan.library == number) & (weight > 0))
                amount = self.libraries[number].decisions(right_hand_sides(problem, x, own), plan.basis[own])
                place = sparse.csr_matrix((weight[own], (own, np.arange(len(own)))), shape=(len(weight), len(own)))
                total = total + place @ amount
        return sparse.csr_matrix(total)

    def _bound(self, plan: Dispatch, price: Price, x: Array, room: Array) -> float:
        """Return the dual value of a dispatch under its own prices."""
        return float(plan.cut.constant.sum() - (plan.cut.slope * shifts(self.problem, x)).sum() - price.row @ room)

    def _dispatch(self, x: Array, price: Price) -> Dispatch:
        """Solve every point under prices; points without a priced row keep their plain optimum."""
        problem = self.problem
        points, groups, scenarios = len(problem.technology), len(problem.T), len(problem.probability)
        assert self.base.basis is not None
        library, basis = np.zeros(points, dtype=int), self.base.basis.copy()
        row_weight = (
            np.array([problem.probability[problem.scenario] * row.weight * row.points for row in problem.expected]) * price.row[:, None]
        )
        cost_weight = price.scenario[problem.scenario] * problem.weight
        own_cost, used = self.plain[0].copy(), self.plain[1].copy()
        value, duals = np.zeros(points), np.zeros((points, problem.W.shape[0]))
        mixed = np.vstack([cost_weight, row_weight])
        scale = mixed.sum(axis=0)
        mixed = np.round(mixed / np.where(scale > 0, scale, 1.0), SAME_DIGITS)
        kinds, kind = np.unique(mixed, axis=1, return_inverse=True)
        for number, column in enumerate(kinds.T):
            own = np.flatnonzero(np.ravel(kind) == number)
            rhs = right_hand_sides(problem, x, own)
            if column[1:].any():
                library[own] = self._library(column)
                solver = self.libraries[library[own[0]]]
                basis[own] = solver.evaluate(rhs, problem.technology[own]).basis
                duals[own] = solver.duals(basis[own]) * scale[own, None]
                amount = solver.decisions(rhs, basis[own])
                own_cost[own] = point_costs(problem, amount, own)
                for k, row in enumerate(problem.expected):
                    used[k, own] = row_use(problem, row, amount, own)
            else:
                duals[own] = self.base.library.duals(basis[own]) * cost_weight[own, None]
        value = np.einsum("ij,ij->i", duals, problem.h)
        member = sparse.csr_matrix((np.ones(points), (problem.technology, np.arange(points))), shape=(groups, points))
        cell = problem.technology * scenarios + problem.scenario
        cost = np.bincount(cell, weights=own_cost * problem.weight, minlength=groups * scenarios).reshape(groups, scenarios)
        plain = np.array([problem.probability[problem.scenario] * row.weight * row.points for row in problem.expected])
        return Dispatch(library, basis, cost, np.asarray((member @ (plain * used).T).T), Cut((member @ value)[:, None], np.asarray(member @ duals)))

    def _plain(self, x: Array) -> tuple[Array, Array]:
        """Return cost (P,) and row quantities (K, P) of each point's cheapest recourse."""
        amount = self.base.decisions(x)
        used = np.array([row_use(self.problem, row, amount) for row in self.problem.expected])
        return point_costs(self.problem, amount), used

    def _library(self, column: Array) -> int:
        """Return the number of the library for a cost mixture, making it where it is new."""
        key = column.tobytes()
        if key not in self.known:
            if len(self.libraries) > MOST_LIBRARIES:
                self.known.clear()
            costs, state = cost_states(self.problem)
            priced = sum(share * row.g for share, row in zip(column[1:], self.problem.expected, strict=True))
            self.known[key] = len(self.libraries)
            self.libraries.append(SeparableRecourse(column[0] * costs + priced, self.problem.W, self.problem.recourse_sense, state))
        return self.known[key]

    def _mix(self, plans: list[Dispatch], room: Array) -> tuple[Array, Array, float, Price]:
        """Mix dispatches by technology at least cost within the rows; return shares (J, T), scenario costs, excess and prices."""
        problem, count, groups = self.problem, len(plans), len(self.problem.T)
        scenarios, rows, risk = len(problem.probability), len(room), self.risk_weight
        cost = np.concatenate([plan.cost for plan in plans])
        used = np.concatenate([plan.used for plan in plans], axis=1)
        unit = float(np.abs(cost).max(initial=1e-9))
        alpha = count * groups
        # columns: shares, scenario costs, their excess over eta, eta, excess over the rows
        share_rows = sparse.hstack(
            [sparse.csr_matrix(np.tile(np.eye(groups), count)), sparse.csr_matrix((groups, 2 * scenarios + 1 + rows))]
        )
        link = sparse.hstack(
            [sparse.csr_matrix(-cost.T / unit), sparse.eye(scenarios), sparse.csr_matrix((scenarios, scenarios + 1 + rows))]
        )
        tail = sparse.hstack([sparse.csr_matrix((scenarios, alpha)), -sparse.eye(scenarios), sparse.eye(scenarios),
                              sparse.csr_matrix(np.ones((scenarios, 1))), sparse.csr_matrix((scenarios, rows))])  # fmt: skip
        budget = sparse.hstack([sparse.csr_matrix(used / unit), sparse.csr_matrix((rows, 2 * scenarios + 1)), -sparse.eye(rows)])
        p = problem.probability
        c = np.concatenate([np.zeros(alpha), (1 - risk) * p, risk / self.tail_share * p, [risk], np.full(rows, self.highest)])
        lower = np.zeros(len(c))
        lower[alpha : alpha + scenarios] = -np.inf
        lower[alpha + 2 * scenarios] = -np.inf if risk > 0 else 0.0
        upper = np.full(len(c), np.inf)
        if risk == 0:
            upper[alpha + 2 * scenarios] = 0.0
        A = sparse.csr_matrix(sparse.vstack([share_rows, link, tail, budget]))
        b = np.concatenate([np.ones(groups), np.zeros(2 * scenarios), room / unit])
        sense = np.concatenate([np.full(groups + scenarios, "="), np.full(scenarios, ">"), np.full(rows, "<")])
        if risk == 0:
            keep = np.concatenate([np.ones(groups + scenarios, bool), np.zeros(scenarios, bool), np.ones(rows, bool)])
            A, b, sense = A[keep], b[keep], sense[keep]
        solved = solve_arrays(Arrays(c, A, b, sense, lower, upper, np.zeros(len(c), dtype=bool)))
        assert solved.duals is not None
        weight = np.maximum(solved.duals[groups : groups + scenarios], 0.0)
        price = Price(np.maximum(-solved.duals[len(b) - rows :], 0.0), weight / weight.sum())
        shares = solved.x[:alpha].reshape(count, groups)
        return shares, (solved.x[:alpha] @ cost), float(solved.x[-rows:].sum() * unit), price


def priced_rows(problem: TwoStage, price: Price) -> tuple[Array, float]:
    """Return sum_k mu_k a_k and sum_k mu_k limit_k, the first-stage part of a cut."""
    a = sum((mu * row.a for mu, row in zip(price.row, problem.expected, strict=True)), np.zeros(len(problem.c)))
    return np.asarray(a), float(sum(mu * row.limit for mu, row in zip(price.row, problem.expected, strict=True)))
