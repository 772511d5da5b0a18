"""The master program of the L-shaped method: the first stage with cuts in place of the recourse."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.evaluation import Cut
from capplan.optimize.program import TwoStage
from capplan.optimize.solver import Arrays, judge, load, run

Array = np.ndarray


class Proposal(NamedTuple):
    """A first stage that the master proposes, and the proven bound it comes with."""

    x: Array
    bound: float
    status: str


class _Rows:
    """Rows under construction, handed over in one call."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.starts = [0]
        self.index: list[Array] = []
        self.value: list[Array] = []

    def append(self, low: float, columns: Array, entries: Array) -> None:
        """Add sum(entries x) >= low without its zeros."""
        kept = np.flatnonzero(entries)
        self.low.append(low)
        self.index.append(columns[kept])
        self.value.append(entries[kept])
        self.starts.append(self.starts[-1] + len(kept))

    def hand_over(self, highs: Any) -> None:
        """Add the rows to the solver."""
        if self.low:
            columns = np.concatenate(self.index).astype(np.int32)
            starts = np.array(self.starts[:-1], dtype=np.int32)
            highs.addRows(len(self.low), np.array(self.low), np.full(len(self.low), np.inf), len(columns), starts, columns,
                          np.concatenate(self.value))  # fmt: skip


class Master:
    r"""First stage, one value for each technology's expected recourse and one for CVaR, held up by cuts.

    .. math:: \min c^T x + (1-\lambda)\sum_t \theta_t + \lambda\varphi,\quad z_t = T_t x,\quad
              \theta_t \ge a - g^T z_t,\quad \varphi \ge a - \sum_t g_t^T z_t

    Costs are divided by the largest first-stage cost, so that tolerances are relative. z only has the rows of T_t that are not zero.

    Parameters
    ----------
    problem
        The program.
    risk_weight
        lambda.
    """

    def __init__(self, problem: TwoStage, risk_weight: float) -> None:
        self.problem, self.risk_weight = problem, risk_weight
        n, groups, m = len(problem.c), len(problem.T), problem.W.shape[0]
        self.unit = float(np.exp2(np.ceil(np.log2(max(np.abs(problem.c).max(initial=0.0), np.abs(problem.q).max(initial=0.0), 1e-9)))))
        linking = sparse.vstack(list(problem.T), format="csr")
        self.linked = np.flatnonzero(np.diff(linking.indptr))
        self.linked_technology, self.linked_row = self.linked // m, self.linked % m
        self.own = [np.flatnonzero(self.linked_technology == t) for t in range(len(problem.T))]
        links = len(self.linked)
        self.first_value = n + links
        self.tail_value = n + links + groups
        columns = n + links + groups + 1
        top = sparse.hstack([problem.A, sparse.csr_matrix((problem.A.shape[0], links + groups + 1))])
        link = sparse.hstack([linking[self.linked], -sparse.eye(links), sparse.csr_matrix((links, groups + 1))])
        cost = np.concatenate([problem.c / self.unit, np.zeros(links), np.full(groups, 1 - risk_weight), [risk_weight]])
        free = np.full(links + groups + 1, np.inf)
        unused = np.zeros(columns, dtype=bool)
        unused[self.tail_value] = risk_weight == 0
        unused[self.first_value : self.tail_value] = risk_weight == 1
        lower = np.where(unused, 0.0, np.concatenate([problem.lower, -free]))
        upper = np.where(unused, 0.0, np.concatenate([problem.upper, free]))
        self.highs: Any = load(
            Arrays(
                cost,
                sparse.csr_matrix(sparse.vstack([top, link])),
                np.concatenate([problem.b, np.zeros(links)]),
                np.concatenate([problem.sense, np.full(links, "=")]),
                lower,
                upper,
                np.zeros(columns, dtype=bool),
            )
        )

    def add(self, mean: Cut, tail: Cut) -> None:
        """Add one cut for each technology's expected cost and one for CVaR."""
        rows = _Rows()
        links = len(self.problem.c) + np.arange(len(self.linked))
        if self.risk_weight < 1:
            for group, own in enumerate(self.own):
                slope = mean.slope[group, self.linked_row[own]] / self.unit
                rows.append(mean.constant[group] / self.unit, np.append(links[own], self.first_value + group), np.append(slope, 1.0))
        if self.risk_weight > 0:
            slope = tail.slope[self.linked_technology, self.linked_row] / self.unit
            rows.append(tail.constant.sum() / self.unit, np.append(links, self.tail_value), np.append(slope, 1.0))
        rows.hand_over(self.highs)

    def add_rays(self, rays: Array) -> None:
        """Add feasibility cuts: ray (h - T x) <= 0."""
        rows = _Rows()
        for ray in rays:
            own = self.own[int(ray[-1])]
            size = max(1.0, float(np.abs(ray[:-2]).max()))
            rows.append(ray[-2] / size, len(self.problem.c) + own, ray[self.linked_row[own]] / size)
        rows.hand_over(self.highs)

    def relax(self) -> Proposal:
        """Solve without integers, from the last basis."""
        run(self.highs)
        status = judge(self.highs)
        x = np.clip(np.array(self.highs.getSolution().col_value)[: len(self.problem.c)], self.problem.lower, self.problem.upper)
        return Proposal(x, self.highs.getInfo().objective_function_value * self.unit, status)

    def duals(self) -> tuple[Array, Array]:
        """Return the duals of A and the reduced costs of x of the last relaxation."""
        solution = self.highs.getSolution()
        k, n = self.problem.A.shape
        return np.array(solution.row_dual)[:k] * self.unit, np.array(solution.col_dual)[:n] * self.unit

    def whole(self, gap_share: float, start: Array | None) -> Proposal:
        """Solve with integers to a relative gap, from a known first stage."""
        import highspy

        whole = np.flatnonzero(self.problem.integer).astype(np.int32)
        self.highs.changeColsIntegrality(len(whole), whole, [highspy.HighsVarType.kInteger] * len(whole))
        self.highs.setOptionValue("mip_rel_gap", float(gap_share))
        if start is not None:
            self.highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        run(self.highs)
        status = judge(self.highs)
        x = np.array(self.highs.getSolution().col_value)[: len(self.problem.c)]
        x = np.clip(np.where(self.problem.integer, np.round(x), x), self.problem.lower, self.problem.upper)
        bound = self.highs.getInfo().mip_dual_bound
        if not np.isfinite(bound):
            raise SolveError("the master program ended without a bound; look for coefficients of very different size")
        return Proposal(x, bound * self.unit, status)
