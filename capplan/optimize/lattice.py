"""Closer cuts where a part of the recourse sees the first stage through one number that moves in whole steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from capplan.optimize.program import TwoStage

Array = np.ndarray
#: A step is looked for down to this share of the smallest coefficient.
FINEST_SHARE = 1 / 64
ROUNDING = 1e-9


@dataclass(frozen=True)
class Lattice:
    r"""Groups (technology, part) whose right-hand side depends on the first stage by one row, z = T x, a multiple of a step g.

    The expected recourse cost of such a group is a convex function F of z. For whole first stages it may be replaced by the piecewise
    linear function through its values at the multiples of g, since

    .. math:: F(z) \ge F(z_0) + \frac{F(z_0 + g) - F(z_0)}{g}\,(z - z_0)\quad\text{for all } z \in g\mathbb{Z},

    which lies above every tangent of F in between, so that the relaxation is closer to the whole program.

    Parameters
    ----------
    row : (technologies, parts) int
        The row, -1 where a group is no lattice.
    step : (technologies, parts)
        g.
    """

    row: Array
    step: Array

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


def find_lattice(problem: TwoStage, row_part: Array) -> Lattice:
    """Find the groups in which one row with whole steps links the first stage to the recourse.

    Parameters
    ----------
    problem
        The program.
    row_part : (m,)
        Independent part of each recourse row.
    """
    parts = int(row_part.max(initial=0)) + 1
    row, step = np.full((len(problem.T), parts), -1), np.ones((len(problem.T), parts))
    for t, technology in enumerate(problem.T):
        matrix = sparse.csr_matrix(technology)
        linked = np.flatnonzero(np.diff(matrix.indptr))
        for k, count in zip(*np.unique(row_part[linked], return_counts=True), strict=True):
            if count != 1:
                continue
            i = int(linked[row_part[linked] == k][0])
            own = slice(matrix.indptr[i], matrix.indptr[i + 1])
            size = np.abs(matrix.data[own])
            columns = matrix.indices[own][size > 0]
            found = common_step(size[size > 0]) if problem.integer[columns].all() else 0.0
            if found > 0:
                row[t, k], step[t, k] = i, found
    return Lattice(row, step)


def common_step(sizes: Array) -> float:
    """Return the largest number of which all sizes are multiples, or 0 where it is not a fair share of the smallest.

    Examples
    --------
    >>> common_step(np.array([8.0, 12.0])), common_step(np.array([1.0, np.pi]))
    (4.0, 0.0)
    """
    if not len(sizes):
        return 0.0
    step = float(sizes[0])
    for size in np.unique(sizes):
        a, b = max(float(size), step), min(float(size), step)
        while b > FINEST_SHARE * sizes.min():
            a, b = b, a - b * np.floor(a / b + ROUNDING)
        step = a
        if b > ROUNDING * sizes.max():
            return 0.0
    return float(step) if step >= FINEST_SHARE * sizes.min() else 0.0
