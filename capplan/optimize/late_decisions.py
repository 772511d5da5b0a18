"""Later decisions that may differ between a few branches of the future, while the recourse stays exact."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.program import ExpectedRow, TwoStage, cost_states

Array = np.ndarray
SAME_WEIGHT = 1e-9


@dataclass(frozen=True)
class Branched:
    """A program whose later columns exist once for each branch."""

    program: TwoStage  #: The program; its first columns are the common ones, then come the later ones of each branch.
    later: Array  #: ((n,) bool): Which columns of the original program are later ones.
    probability: Array  #: (B,): Probability of each branch.

    def first_stages(self, x: Array) -> Array:
        """Return the original first stage as each branch has it, (B, n)."""
        common, own = int((~self.later).sum()), int(self.later.sum())
        result = np.empty((len(self.probability), len(self.later)))
        result[:, ~self.later] = x[:common]
        result[:, self.later] = x[common : common + own * len(self.probability)].reshape(-1, own)
        return result

    def same(self, x: Array) -> Array:
        """Return the first stage of the branched program that is the same in every branch."""
        return np.concatenate([x[~self.later], np.tile(x[self.later], len(self.probability)), [1.0]])


def branch_program(problem: TwoStage, later: Array, branch: Array) -> Branched:
    r"""Let later columns differ between branches of scenarios.

    .. math:: \min\ c_0^T x_0 + \rho\big[c_1^T x_1^{b(s)} + C_s(x_0, x_1^{b(s)})\big]

    The cost of a branch's later columns is part of its scenarios' cost, so that CVaR sees it: it enters as one more recourse row
    :math:`y \ge c_1^T x_1^b / \bar w`, charged in the points of one technology, whose weights sum to :math:`\bar w` in each of its
    scenarios. The row is an independent part of the recourse, so bunching loses nothing.

    Args:
        problem: The program in which every column is the same in all scenarios.
        later ((n,) bool): Columns that may differ.
        branch ((S,) int): Branch of each scenario, known before the later columns are decided.

    Raises:
        SolveError: If scenarios have different weights in every technology, so that the later cost has no place.

    Source: Birge and Louveaux, Introduction to Stochastic Programming, 2nd ed. (2011), section 3.4 (multistage programs, block separable
        recourse).
    """
    count = int(branch.max(initial=0)) + 1
    probability = np.bincount(branch, weights=problem.probability, minlength=count)
    weight = _charging_weights(problem)
    cost = np.where(later, problem.c, 0.0)[later]
    if ((cost < 0) & ~np.isfinite(problem.upper[later])).any():
        raise SolveError("a later decision earns money without end; give it an upper bound")
    # A later cost below zero is lifted by its least value, which one fixed column takes off again.
    lift = float(np.maximum(-cost, 0.0) @ np.where(cost < 0, problem.upper[later], 0.0))

    def columns(matrix: sparse.csr_matrix, number: int) -> sparse.csr_matrix:
        own = sparse.csr_matrix(matrix)
        blocks = [own[:, ~later], *(own[:, later] if b == number else own[:, later] * 0 for b in range(count))]
        return sparse.csr_matrix(sparse.hstack([*blocks, sparse.csr_matrix((own.shape[0], 1))]))

    def vector(values: Array, fixed: float | bool) -> Array:
        return np.concatenate([values[~later], np.tile(values[later], count), [fixed]])

    mixed = np.diff(sparse.csr_matrix(problem.A[:, later]).indptr) > 0
    rows = [columns(problem.A[~mixed], -1), *(columns(problem.A[mixed], b) for b in range(count))]
    T = []
    for t, matrix in enumerate(problem.T):
        charged = np.zeros((1, len(problem.c)))
        charged[0, later] = -cost / weight[t] if weight[t] > 0 else 0.0
        T += [columns(sparse.vstack([matrix, sparse.csr_matrix(charged)]), b) for b in range(count)]
    lifted = np.divide(lift, weight, out=np.zeros_like(weight), where=weight > 0)
    h = np.column_stack([problem.h, lifted[problem.technology]])
    expected = tuple(
        ExpectedRow(
            np.concatenate([row.a[~later], *(p * row.a[later] for p in probability), [0.0]]),
            _with_zero(row.g),
            row.points,
            row.weight,
            row.limit,
        )
        for row in problem.expected
    )
    costs, state = cost_states(problem)
    program = replace(
        problem,
        c=np.concatenate([problem.c[~later], np.zeros(count * int(later.sum())), [-lift]]),
        A=sparse.csr_matrix(sparse.vstack(rows)),
        b=np.concatenate([problem.b[~mixed], np.tile(problem.b[mixed], count)]),
        sense=np.concatenate([problem.sense[~mixed], np.tile(problem.sense[mixed], count)]),
        lower=vector(problem.lower, 1.0),
        upper=vector(problem.upper, 1.0),
        integer=vector(problem.integer, False).astype(bool),
        q=np.append(problem.q, 1.0),
        W=sparse.csr_matrix(sparse.block_diag([problem.W, [[1.0]]])),
        recourse_sense=np.append(problem.recourse_sense, ">"),
        T=T,
        technology=problem.technology * count + branch[problem.scenario],
        h=h,
        expected=expected,
        costs=None if problem.costs is None else np.column_stack([costs, np.ones(len(costs))]),
        cost_state=None if problem.costs is None else np.repeat(state, count),
    )
    return Branched(program, later, probability)


def _charging_weights(problem: TwoStage) -> Array:
    """Return the weight over which later costs are charged in the points of each technology, 0 where they are not, (len(T),).

    Each scenario is charged in the points of exactly one technology where that can be, which leaves most points as they are; else in all
    of its points.
    """
    scenarios = len(problem.probability)
    charged, open_ = np.zeros(len(problem.T)), np.ones(scenarios, dtype=bool)
    for t in np.unique(problem.technology).tolist():
        own = problem.technology == t
        weight = np.bincount(problem.scenario[own], weights=problem.weight[own], minlength=scenarios)
        here = weight > 0
        if here.any() and open_[here].all() and np.ptp(weight[here]) <= SAME_WEIGHT * weight.max():
            charged[t] = weight[here][0]
            open_ &= ~here
        if not open_.any():
            return charged
    total = np.bincount(problem.scenario, weights=problem.weight, minlength=scenarios)
    if np.ptp(total) <= SAME_WEIGHT * total.max():
        return np.full(len(problem.T), total[0])
    raise SolveError("branches need scenarios that weigh the same in all; give them the same hours")


def _with_zero(g: Array) -> Array:
    """Return the coefficients of an expected row, (r,) or (states, r), with a zero for one more column."""
    return np.concatenate([g, np.zeros((*g.shape[:-1], 1))], axis=-1)
