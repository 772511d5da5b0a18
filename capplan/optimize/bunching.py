"""Exact recourse of very many points at once: points that share an optimal basis are solved by one matrix product."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.equilibration import equilibrate
from capplan.optimize.solver import Arrays, InfeasibleError, UnboundedError, judge, load, run

Array = np.ndarray
PERTURBATION = 1e-7
PRIMAL_TOLERANCE = 1e-9
INFEASIBLE_SHARE = 1e-7
MOST_PIVOTS = 2000
#: Steps after which points that still walk start anew from the basis of their mean, and how many of a kind there must be.
RESEED_STEP = 12
RESEED_POINTS = 32


class Bunched(NamedTuple):
    """Where every point came to rest."""

    basis: Array  #: ((N,) int): Basis of each point in the library: optimal for a feasible point, dual feasible in any case.
    ray: Array  #: ((N,) int): Row of the library's `rays` that proves a point infeasible; -1 for a feasible point.


class RecourseLibrary:
    r"""Bases of one recourse problem min q y, W y >< b, y >= 0, kept across points and across first stages.

    A basis B whose duals are feasible is optimal for every b with :math:`B^{-1} b \ge 0`. Points that fail are grouped by the row that
    is most infeasible; one dual-simplex pivot moves a whole group on to the next basis, and bases and pivots are remembered.
    Any basis ever visited is dual feasible, so that its duals give a valid cut even where it is not optimal.

    Rows are kept as W y - s = b with surplus s >= 0; "<" rows are negated and "=" rows written twice. Costs are raised by
    a fixed relative perturbation to break ties; values and duals are of the unperturbed costs.

    Args:
        q (r,): Costs.
        W (m, r): Matrix.
        sense (m,): "<", ">" or "=".

    Attributes:
        key: Fingerprint of q, W and sense.

    Raises:
        UnboundedError: If the recourse cost can fall without end.

    Source: Wets, "Stochastic programming: solution techniques and approximation schemes" (1983), and Birge and Louveaux, Introduction to
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
        cost = np.concatenate([scaled.c, np.zeros(size)])
        matrix = np.hstack([scaled.A.toarray(), -np.eye(size)])
        spread = np.random.default_rng(20270101).uniform(0.5, 1.0, r + size)
        perturbed = cost + PERTURBATION * spread * np.maximum(np.abs(cost), np.abs(scaled.c).max(initial=1e-3) * 1e-2)
        from capplan.optimize.bases import BasisStore

        self.bases = BasisStore(matrix, cost, perturbed)
        self.ray: dict[tuple[int, int], int] = {}
        self.rays: list[Array] = []
        self._known_duals, self._priced = np.zeros((0, m)), 0
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

        Args:
            rhs (N, m): Right-hand sides.
            kind ((N,) int): Points of one kind lie near each other, so that the basis of their mean is a good start where the known ones
                are not.
            start ((N,) int, optional): Basis to try first, best the one it rested on at the last first stage.
        """
        from capplan.optimize.walk import WAITS

        self.bases.begin()
        b = self.standard(rhs)
        tolerance = PRIMAL_TOLERANCE * (1.0 + np.abs(b).max(axis=1, initial=0.0))
        basis = np.full(len(b), self.first) if start is None else np.array(start)
        ray = np.full(len(b), -1)
        waiting = np.arange(len(b))
        for steps in (RESEED_STEP, MOST_PIVOTS):
            if steps == MOST_PIVOTS or start is None:
                for number in np.unique(kind[waiting]):
                    own = waiting[kind[waiting] == number]
                    if len(own) > RESEED_POINTS:
                        basis[own] = self._seed(b[own])
            basis[waiting], row, short = self.bases.settle(basis[waiting], b[waiting], tolerance[waiting], steps)
            for i in np.flatnonzero((row >= 0) & (short > INFEASIBLE_SHARE / PRIMAL_TOLERANCE * tolerance[waiting])).tolist():
                ray[waiting[i]] = self._ray(int(basis[waiting[i]]), int(row[i]))
            waiting = waiting[row == WAITS]
            if not len(waiting):
                break
        for point in waiting:
            try:
                basis[point] = self._solve_alone(b[point])
            except InfeasibleError as error:
                raise SolveError("the recourse of a point did not settle; look for recourse coefficients of very different size") from error
        self.bases.evict()
        return Bunched(basis, ray)

    def costs(self, rhs: Array, basis: Array) -> Array:
        """Return the optimal cost of each point, (N,)."""
        return np.einsum("ij,ij->i", rhs, self.duals[basis])

    def decisions(self, rhs: Array, basis: Array) -> sparse.csr_matrix:
        """Return the optimal recourse of each point, (N, r) sparse."""
        columns = self.bases.columns[basis]
        taken = columns < len(self.column_scale)
        chosen = columns[taken]
        amount = np.maximum(self.bases.values(basis, self.standard(rhs))[taken], 0.0) * self.column_scale[chosen]
        ends = np.concatenate([[0], np.cumsum(taken.sum(axis=1))])
        result = sparse.csr_matrix((amount, chosen, ends), shape=(len(rhs), len(self.column_scale)))
        result.sort_indices()
        result.eliminate_zeros()
        return result

    def totals(self, rhs: Array, basis: Array, values: Array) -> Array:
        """Return sums of the optimal recourse of each point, weighed with values, (k, r): (k, N)."""
        weight = np.hstack([values * self.column_scale, np.zeros((len(values), self.size))])
        amount = np.maximum(self.bases.values(basis, self.standard(rhs)), 0.0)
        columns = self.bases.columns[basis]
        return np.array([np.einsum("ij,ij->i", amount, each[columns]) for each in weight])

    @property
    def duals(self) -> Array:
        """Duals of every basis for the rows as they were given, (bases, m)."""
        have, count = self._priced, self.bases.count
        if have < count:
            weighted = self.bases.duals[have:count] * (self.sign * self.row_scale / self.cost_scale)
            if count > len(self._known_duals):
                self._known_duals = np.concatenate([self._known_duals[:have], np.zeros((len(self.bases.duals) - have, self.rows))])
            new = self._known_duals[have:count]
            new[:] = weighted[:, : self.rows]
            new[:, self.source[self.rows :]] += weighted[:, self.rows :]
            self._priced = count
        return self._known_duals[:count]

    def _ray(self, number: int, row: int) -> int:
        """Return the number of the ray by which a row of a basis proves infeasibility."""
        if (number, row) not in self.ray:
            weighted = -self.bases.row_of_inverse(number, row) * self.sign * self.row_scale
            self.ray[number, row] = len(self.rays)
            self.rays.append(np.bincount(self.source, weights=weighted, minlength=self.rows))
        return self.ray[number, row]

    def _first_basis(self) -> int:
        """Return a dual-feasible basis: the surpluses where no cost is negative, else one that the solver finds."""
        r = len(self.column_scale)
        if self.bases.perturbed.min() >= 0:
            return self.bases.add(np.arange(r, r + self.size))
        return self._solve_alone(self.bases.matrix[:, :r].sum(axis=1))

    def _solve_alone(self, b: Array) -> int:
        """Solve one point with the simplex solver and store its basis."""
        import highspy

        r = len(self.column_scale)
        if self.highs is None:
            model = Arrays(
                self.bases.perturbed[:r],
                sparse.csr_matrix(self.bases.matrix[:, :r]),
                b,
                np.full(self.size, ">"),
                np.zeros(r),
                np.full(r, np.inf),
                np.zeros(r, dtype=bool),
            )
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
        return self.bases.add(np.array(columns))
