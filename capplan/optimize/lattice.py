"""Closer cuts where a part of the recourse sees the first stage through one number that moves in whole steps."""

from dataclasses import dataclass
from math import floor

import numpy as np
from scipy import sparse

from capplan.optimize.program import TwoStage

Array = np.ndarray
#: A step is looked for down to this share of the smallest coefficient.
FINEST_SHARE = 1 / 64
ROUNDING = 1e-9
#: How often at least a row is moved to the farther of the two whole steps around it.
RARELY = 0.2


@dataclass(frozen=True)
class Lattice:
    r"""Groups (technology, part) whose right-hand side depends on the first stage by one row, z = T x, a multiple of a step g.

    The expected recourse cost of such a group is a convex function F of z. For whole first stages it may be replaced by the piecewise
    linear function through its values at the multiples of g, since

    .. math:: F(z) \ge F(z_0) + \frac{F(z_0 + g) - F(z_0)}{g}\,(z - z_0)\quad\text{for all } z \in g\mathbb{Z},

    which lies above every tangent of F in between, so that the relaxation is closer to the whole program.
    """

    row: Array  #: ((technologies, parts) int): The row, -1 where a group is no lattice.
    step: Array  #: (technologies, parts): g.

    @property
    def any(self) -> bool:
        """Tell whether there is a group at all."""
        return bool((self.row >= 0).any())

    def _places(self) -> tuple[Array, Array, Array, Array]:
        """Return technology, part, row and step of each group."""
        technology, part = np.nonzero(self.row >= 0)
        return technology, part, self.row[technology, part], self.step[technology, part]

    def neighbours(self, shift: Array) -> tuple[Array, Array, Array]:
        """Return shifts with each group moved to the whole step before the one below, to the one below, and to the one above."""
        technology, _, row, step = self._places()
        low = np.floor(shift[technology, row] / step + ROUNDING) * step
        result = []
        for move in (-1, 0, 1):
            moved = shift.copy()
            moved[technology, row] = low + move * step
            result.append(moved)
        return result[0], result[1], result[2]

    def between(self, shift: Array, below: Array, low: Array, high: Array, value: Array) -> float:
        """Return by how much the line from low to high lies above the value at a shift, summed over groups."""
        technology, part, row, step = self._places()
        share = (shift[technology, row] - below[technology, row]) / step
        line = low[technology, part] * (1 - share) + high[technology, part] * share
        return float(np.maximum(line - value[technology, part], 0.0).sum())

    def chord(self, at: Array, low: Array, high: Array, constant: Array, slope: Array) -> tuple[Array, Array]:
        """Replace the planes of lattice groups by the line through their values at a whole step and the next one."""
        technology, part, row, step = self._places()
        constant, slope = constant.copy(), slope.copy()
        rise = (high[technology, part] - low[technology, part]) / step
        # The planes of other rows of the part do not depend on the first stage: only the value counts.
        constant[technology, part] = low[technology, part] - rise * at[technology, row]
        slope[technology, row] = -rise
        return constant, slope


def whole_steps(problem: TwoStage) -> Array:
    """Return the step in which whole first stages move each row of each technology, z = T x, (G, m); 0 where there is none."""
    matrix = sparse.csr_matrix(sparse.vstack(list(problem.T)))
    steps, known = np.zeros(matrix.shape[0]), dict[bytes, float]()
    for i in np.flatnonzero(np.diff(matrix.indptr)).tolist():
        own = slice(matrix.indptr[i], matrix.indptr[i + 1])
        key = matrix.indices[own].tobytes() + matrix.data[own].tobytes()
        if key not in known:
            size = np.abs(matrix.data[own])
            whole = problem.integer[matrix.indices[own][size > 0]].all()
            known[key] = common_step(size[size > 0]) if whole else 0.0
        steps[i] = known[key]
    return steps.reshape(len(problem.T), problem.W.shape[0])


def find_lattice(problem: TwoStage, row_part: Array, steps: Array) -> Lattice:
    """Find the groups in which one row with whole steps links the first stage to the recourse.

    Args:
        row_part (m,): Independent part of each recourse row.
        steps (G, m): What `whole_steps` returns.
    """
    parts = int(row_part.max(initial=0)) + 1
    row, step = np.full((len(problem.T), parts), -1), np.ones((len(problem.T), parts))
    for t, technology in enumerate(problem.T):
        linked = np.flatnonzero(np.diff(sparse.csr_matrix(technology).indptr))
        for k, count in zip(*np.unique(row_part[linked], return_counts=True), strict=True):
            i = int(linked[row_part[linked] == k][0])
            if count == 1 and steps[t, i] > 0:
                row[t, k], step[t, k] = i, steps[t, i]
    return Lattice(row, step)


def common_step(sizes: Array) -> float:
    """Return the largest number of which all sizes are multiples, or 0 where it is not a fair share of the smallest.

    Examples:
        >>> common_step(np.array([8.0, 12.0])), common_step(np.array([1.0, np.pi]))
        (4.0, 0.0)
    """
    if not len(sizes):
        return 0.0
    step, different = float(sizes[0]), sorted(set(sizes.tolist()))
    least, most = different[0], different[-1]
    for size in different:
        a, b = max(size, step), min(size, step)
        while b > FINEST_SHARE * least:
            a, b = b, a - b * floor(a / b + ROUNDING)
        step = a
        if b > ROUNDING * most:
            return 0.0
    return step if step >= FINEST_SHARE * least else 0.0


def nearby(problem: TwoStage, steps: Array, shift: Array, count: int, seed: int) -> list[Array]:
    """Return shifts, (G, m), of whole first stages around one in parts: each row to a whole step beside it, the nearer oftener.

    A row that no first stage moves below, or above, zero is not moved there.

    Args:
        problem, steps: The program, and what `whole_steps` returns.
        shift (G, m): T x.
        count, seed: How many, and where the draws begin.
    """
    draws, whole = np.random.default_rng(seed), steps > 0
    least, most = (np.array([np.asarray(part(T)).ravel() for T in problem.T])[whole] for part in (_least, _most))
    low = np.floor(shift[whole] / steps[whole] + ROUNDING)
    share = np.clip(shift[whole] / steps[whole] - low, RARELY, 1 - RARELY)
    result = []
    for _ in range(count):
        moved = shift.copy()
        moved[whole] = np.clip((low + (draws.random(len(low)) < share)) * steps[whole], least, most)
        result.append(moved)
    return result


def _least(matrix: sparse.csr_matrix) -> Array:
    """Return the least each row can be where no column is negative: zero, or without end."""
    return np.where((sparse.csr_matrix(matrix) < 0).sum(axis=1) > 0, -np.inf, 0.0)


def _most(matrix: sparse.csr_matrix) -> Array:
    """Return the most each row can be where no column is negative: zero, or without end."""
    return np.where((sparse.csr_matrix(matrix) > 0).sum(axis=1) > 0, np.inf, 0.0)
