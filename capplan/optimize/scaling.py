"""Bring rows, columns and costs of a program to comparable size, so that absolute tolerances mean relative ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

Array = np.ndarray
PASSES = 4
SPREAD = 1e4


class Scaled(NamedTuple):
    """The scaled program: R A C, R b, C c * s, and bounds divided by C."""

    c: Array
    A: sparse.csr_matrix
    b: Array
    lower: Array
    upper: Array


def equilibrate(
    c: Array, A: sparse.csr_matrix, b: Array, *, lower: Array, upper: Array, integer: Array
) -> tuple[Scaled, Array, Array, float]:
    r"""Scale rows and continuous columns by powers of two towards a geometric mean of one.

    .. math:: r_i = 1/\sqrt{\min_j|a_{ij}|\,\max_j|a_{ij}|},\quad s_j = 1/\sqrt{\min_i|a_{ij}|\,\max_i|a_{ij}|}

    alternately. Powers of two change no digit; integer columns keep their unit. A well-scaled matrix is left as it is.

    Parameters
    ----------
    c, A, b, lower, upper, integer
        The program, see `solver.Arrays`.

    Returns
    -------
    tuple
        The scaled program, the row scales, the column scales (x = scale * scaled x) and the cost scale.

    Source
    ------
    Curtis and Reid, "On the automatic scaling of matrices for Gaussian elimination" (1972), and geometric scaling as in
    Tomlin, "On scaling linear programming problems" (1975).
    """
    rows, columns = np.ones(A.shape[0]), np.ones(A.shape[1])
    work = sparse.csr_matrix(A, dtype=float, copy=True)
    work.eliminate_zeros()
    if work.nnz and np.abs(work.data).max() / np.abs(work.data).min() > SPREAD:
        magnitude = abs(work)
        for _ in range(PASSES):
            rows *= _geometric(sparse.diags(rows) @ magnitude @ sparse.diags(columns), axis=1)
            columns *= np.where(integer, 1.0, _geometric(sparse.diags(rows) @ magnitude @ sparse.diags(columns), axis=0))
        rows, columns = _power_of_two(rows), _power_of_two(columns)
        work = sparse.csr_matrix(sparse.diags(rows) @ work @ sparse.diags(columns))
    cost = np.asarray(c, dtype=float) * columns
    largest = np.abs(cost).max(initial=0.0)
    cost_scale = float(_power_of_two(np.array([1e3 / largest]))[0]) if largest > 0 and not 1e-1 <= largest <= 1e4 else 1.0
    return Scaled(cost * cost_scale, work, b * rows, lower / columns, upper / columns), rows, columns, cost_scale


def _geometric(magnitude: sparse.csr_matrix, axis: int) -> Array:
    """Return 1 / sqrt(min * max) of the non-zeros along an axis; 1 where there are none."""
    lines = sparse.csr_matrix(magnitude) if axis == 1 else sparse.csr_matrix(magnitude.T)
    filled = np.flatnonzero(np.diff(lines.indptr))
    result = np.ones(lines.shape[0])
    if filled.size:
        starts = lines.indptr[filled]
        result[filled] = 1.0 / np.sqrt(np.minimum.reduceat(lines.data, starts) * np.maximum.reduceat(lines.data, starts))
    return result


def _power_of_two(scale: Array) -> Array:
    """Return the nearest power of two of every entry."""
    return np.exp2(np.round(np.log2(scale)))
