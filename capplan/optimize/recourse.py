"""Exact recourse of very many points at once: points that share an optimal basis are solved by one matrix product."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.scaling import equilibrate
from capplan.optimize.solver import Arrays, InfeasibleError, UnboundedError, judge, load, run

Array = np.ndarray
PERTURBATION = 1e-7
PRIMAL_TOLERANCE = 1e-9
INFEASIBLE_SHARE = 1e-7
PIVOT_TOLERANCE = 1e-9
MOST_PIVOTS = 2000
RESEED_STEP = 4
RESEED_POINTS = 8
INVERSE_BYTES = 400_000_000


class Bunched(NamedTuple):
    """Where every point came to rest.

    Parameters
    ----------
    basis : (N,) int
        Basis of each point in the library: optimal for a feasible point, dual feasible in any case.
    ray : (N,) int
        Row of the library's `rays` that proves a point infeasible; -1 for a feasible point.
    """

    basis: Array
    ray: Array


class RecourseLibrary:
    r"""Bases of one recourse problem min q y, W y >< b, y >= 0, kept across points and across first stages.

    A basis B whose duals are feasible is optimal for every b with :math:`B^{-1} b \ge 0`. Points that fail are grouped by the row that
    is most infeasible; one dual-simplex pivot moves a whole group on to the next basis, and bases and pivots are remembered.
    Any basis ever visited is dual feasible, so that its duals give a valid cut even where it is not optimal.

    Rows are kept as W y - s = b with surplus s >= 0; "<" rows are negated and "=" rows written twice. Costs are raised by
    a fixed relative perturbation to break ties; values and duals are of the unperturbed costs.

    Parameters
    ----------
    q : (r,)
        Costs.
    W : (m, r)
        Matrix.
    sense : (m,)
        "<", ">" or "=".

    Attributes
    ----------
    key
        Fingerprint of q, W and sense.

    Raises
    ------
    UnboundedError
        If the recourse cost can fall without end.

    Source
    ------
    Wets, "Stochastic programming: solution techniques and approximation schemes" (1983), and Birge and Louveaux, Introduction to
    Stochastic Programming, 2nd ed. (2011), section 5.4 (bunching; trickling down).
    """

    def __init__(self, q: Array, W: sparse.csr_matrix, sense: Array) -> None:
        m, r = W.shape
        self.key = hashlib.blake2b(repr((W.shape, sense.tolist())).encode() + q.tobytes() + W.toarray().tobytes(), digest_size=16).digest()
        equal = np.flatnonzero(sense == "=")
        self.rows = m
        self.source = np.concatenate([np.arange(m), equal])
        sign = np.where(sense == "<", -1.0, 1.0)
        self.sign = np.concatenate([sign, -np.ones(len(equal))])
        directed = sparse.csr_matrix(sparse.diags(self.sign) @ sparse.csr_matrix(W)[self.source])
        free, bounded = np.full(r, np.inf), np.zeros(r)
        scaled, self.row_scale, self.column_scale, self.cost_scale = equilibrate(
            q, directed, np.zeros(len(self.source)), lower=bounded, upper=free, integer=np.zeros(r, dtype=bool)
        )
        size = len(self.source)
        self.size = size
        self.cost = np.concatenate([scaled.c, np.zeros(size)])
        self.matrix = np.ascontiguousarray(np.hstack([scaled.A.toarray(), -np.eye(size)]))
        spread = np.random.default_rng(20270101).uniform(0.5, 1.0, r + size)
        self.perturbed = self.cost + PERTURBATION * spread * np.maximum(np.abs(self.cost), np.abs(scaled.c).max(initial=1e-3) * 1e-2)
        self.index: dict[bytes, int] = {}
        self.columns: list[Array] = []
        self.inverse: list[Array | None] = []
        self.used: list[int] = []
        self.child: dict[tuple[int, int], int] = {}
        self.rays: list[Array] = []
        self.duals = np.zeros((64, m))
        self.clock = 0
        self.norms: list[Array] = []
        self.reduced: list[Array] = []
        self.highs: Any = None
        self.first = self._first_basis()

    def standard(self, rhs: Array) -> Array:
        """Return right-hand sides (N, m) as scaled rows of the ">" form."""
        return rhs[:, self.source] * (self.sign * self.row_scale)

    def _seed(self, b: Array) -> int:
        """Return a basis near all of the points: the one that is optimal for their mean, or any where the mean has no solution."""
        try:
            return self._solve_alone(b.mean(axis=0))
        except SolveError:
            return self.first

    def evaluate(self, rhs: Array, kind: Array, start: Array | None = None) -> Bunched:
        """Bring every point to its optimal basis.

        Parameters
        ----------
        rhs : (N, m)
            Right-hand sides.
        kind : (N,) int
            Points of one kind lie near each other, so that the basis of their mean is a good start where the known ones are not.
        start : (N,) int, optional
            Basis to try first, best the one it rested on at the last first stage.
        """
        self.clock += 1
        b = self.standard(rhs)
        tolerance = PRIMAL_TOLERANCE * (1.0 + np.abs(b).max(axis=1, initial=0.0))
        basis = np.full(len(b), self.first) if start is None else np.array(start)
        ray = np.full(len(b), -1)
        waiting = np.arange(len(b))
        for step in range(MOST_PIVOTS):
            if step == RESEED_STEP or (step == 0 and start is None):
                for number in np.unique(kind[waiting]):
                    own = waiting[kind[waiting] == number]
                    if len(own) > RESEED_POINTS:
                        basis[own] = self._seed(b[own])
            if not len(waiting):
                break
            waiting = self._advance(b, tolerance, basis, ray, waiting)
        for point in waiting:
            try:
                basis[point] = self._solve_alone(b[point])
            except InfeasibleError as error:
                raise SolveError("the recourse of a point did not settle; look for recourse coefficients of very different size") from error
        self._evict()
        return Bunched(basis, ray)

    def _advance(self, b: Array, tolerance: Array, basis: Array, ray: Array, waiting: Array) -> Array:
        """Test the waiting points at their bases and move those that fail by one pivot; return the points that moved."""
        order = waiting[np.argsort(basis[waiting], kind="stable")]
        moved = []
        for group in np.split(order, np.flatnonzero(np.diff(basis[order])) + 1):
            k = int(basis[group[0]])
            values = b[group] @ self._inverse(k).T
            failed = np.flatnonzero(values.min(axis=1) < -tolerance[group])
            if not len(failed):
                continue
            rows = (values[failed] / self.norms[k]).argmin(axis=1)
            for row in np.unique(rows):
                points = group[failed[rows == row]]
                target = self._pivot(k, int(row))
                if target >= 0:
                    basis[points] = target
                    moved.append(points)
                else:
                    short = -values[failed[rows == row], row]
                    ray[points[short > INFEASIBLE_SHARE / PRIMAL_TOLERANCE * tolerance[points]]] = -target - 1
        return np.concatenate(moved) if moved else np.zeros(0, dtype=int)

    def costs(self, rhs: Array, basis: Array) -> Array:
        """Return the optimal cost of each point, (N,)."""
        return np.einsum("ij,ij->i", rhs, self.duals[basis])

    def decisions(self, rhs: Array, basis: Array) -> sparse.csr_matrix:
        """Return the optimal recourse of each point, (N, r) sparse."""
        b = self.standard(rhs)
        r = len(self.column_scale)
        order = np.argsort(basis, kind="stable")
        row, column, value = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)], [np.zeros(0)]
        for group in np.split(order, np.flatnonzero(np.diff(basis[order])) + 1):
            if not len(group):
                continue
            k = int(basis[group[0]])
            own = np.flatnonzero(self.columns[k] < r)
            chosen = self.columns[k][own]
            amount = np.maximum(b[group] @ self._inverse(k)[own].T, 0.0) * self.column_scale[chosen]
            row.append(np.repeat(group, len(own)))
            column.append(np.tile(chosen, len(group)))
            value.append(amount.ravel())
        result = sparse.csr_matrix((np.concatenate(value), (np.concatenate(row), np.concatenate(column))), shape=(len(b), r))
        result.eliminate_zeros()
        return result

    def _add(self, columns: Array) -> int:
        """Store a basis by its sorted columns and return its number."""
        columns = np.sort(columns).astype(np.int32)
        key = columns.tobytes()
        known = self.index.get(key)
        if known is not None:
            return known
        number = len(self.columns)
        self.index[key] = number
        self.columns.append(columns)
        self.inverse.append(None)
        self.norms.append(np.zeros(0))
        self.reduced.append(np.zeros(0))
        self.used.append(self.clock)
        inverse = self._inverse(number)
        scaled_dual = self.cost[columns] @ inverse
        if number >= len(self.duals):
            self.duals = np.vstack([self.duals, np.zeros_like(self.duals)])
        weighted = scaled_dual * self.sign * self.row_scale / self.cost_scale
        self.duals[number] = np.bincount(self.source, weights=weighted, minlength=self.rows)
        return number

    def _inverse(self, number: int) -> Array:
        """Return the inverse of a basis, made anew where it was let go."""
        self.used[number] = self.clock
        inverse = self.inverse[number]
        if inverse is None:
            columns = self.columns[number]
            try:
                inverse = np.linalg.inv(self.matrix[:, columns])
            except np.linalg.LinAlgError as error:
                raise SolveError("a recourse basis is singular; look for recourse coefficients of very different size") from error
            reduced = self.perturbed - (self.perturbed[columns] @ inverse) @ self.matrix
            reduced[columns] = 0.0
            self.inverse[number], self.reduced[number] = inverse, np.maximum(reduced, 0.0)
            self.norms[number] = np.linalg.norm(inverse, axis=1)
        return inverse

    def _pivot(self, number: int, row: int) -> int:
        """Return the basis after one dual-simplex pivot on a row, or -1 - ray where the row proves infeasibility."""
        known = self.child.get((number, row))
        if known is not None:
            return known
        inverse = self._inverse(number)
        alpha = inverse[row] @ self.matrix
        candidates = np.flatnonzero(alpha < -PIVOT_TOLERANCE * max(1.0, float(np.abs(alpha).max())))
        if not len(candidates):
            weighted = -inverse[row] * self.sign * self.row_scale
            self.rays.append(np.bincount(self.source, weights=weighted, minlength=self.rows))
            target = -len(self.rays)
        else:
            ratio = self.reduced[number][candidates] / -alpha[candidates]
            close = candidates[ratio <= ratio.min() * (1 + 1e-12)]
            entering = close[np.argmin(alpha[close])]
            columns = self.columns[number].copy()
            columns[row] = entering
            target = self._add(columns)
        self.child[number, row] = target
        return target

    def _first_basis(self) -> int:
        """Return a dual-feasible basis: the surpluses where no cost is negative, else one that the solver finds."""
        r = len(self.column_scale)
        if self.perturbed.min() >= 0:
            return self._add(np.arange(r, r + self.size))
        return self._solve_alone(self.matrix[:, :r].sum(axis=1))

    def _solve_alone(self, b: Array) -> int:
        """Solve one point with the simplex solver and store its basis."""
        import highspy

        r = len(self.column_scale)
        if self.highs is None:
            model = Arrays(self.perturbed[:r], sparse.csr_matrix(self.matrix[:, :r]), b, np.full(self.size, ">"),
                           np.zeros(r), np.full(r, np.inf), np.zeros(r, dtype=bool))  # fmt: skip
            self.highs = load(model)
            self.highs.setOptionValue("presolve", "off")
        else:
            rows = np.arange(self.size, dtype=np.int32)
            self.highs.changeRowsBounds(self.size, rows, b, np.full(self.size, np.inf))
        highs = self.highs
        run(highs)
        try:
            judge(highs)
        except UnboundedError as error:
            raise UnboundedError("recourse cost can fall without end: a recourse column earns money and nothing limits it") from error
        status = highs.getBasis()
        basic = highspy.HighsBasisStatus.kBasic
        columns = [j for j, s in enumerate(status.col_status) if s == basic] + [
            r + i for i, s in enumerate(status.row_status) if s == basic
        ]
        return self._add(np.array(columns))

    def _evict(self) -> None:
        """Let go of the inverses used longest ago when they take more memory than they may."""
        most = max(256, int(INVERSE_BYTES / (8 * (self.size * (self.size + 1) + self.matrix.shape[1]))))
        held = [k for k, inverse in enumerate(self.inverse) if inverse is not None]
        if len(held) > most:
            held.sort(key=lambda k: (-self.used[k], k))
            for k in held[most // 2 :]:
                self.inverse[k], self.norms[k], self.reduced[k] = None, np.zeros(0), np.zeros(0)
