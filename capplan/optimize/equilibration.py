"""Bring rows, columns and costs of a program to comparable size, so that absolute tolerances mean relative ones."""

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

    Args:
        c, A, b, lower, upper, integer: The program, see `solver.Arrays`.

    Returns:
        tuple: The scaled program, the row scales, the column scales (x = scale * scaled x) and the cost scale.

    Source: Curtis and Reid, "On the automatic scaling of matrices for Gaussian elimination" (1972), and geometric scaling as in Tomlin, "On
        scaling linear programming problems" (1975).
    """
    rows, columns = np.ones(A.shape[0]), np.ones(A.shape[1])
    work = sparse.csr_matrix(A, dtype=float, copy=True)
    work.eliminate_zeros()
    if work.nnz and np.abs(work.data).max() / np.abs(work.data).min() > SPREAD:
        magnitude, column = np.abs(work.data), work.indices
        row = np.repeat(np.arange(work.shape[0]), np.diff(work.indptr))
        for _ in range(PASSES):
            rows *= _geometric(magnitude * rows[row] * columns[column], row, len(rows))
            columns *= np.where(integer, 1.0, _geometric(magnitude * rows[row] * columns[column], column, len(columns)))
        rows, columns = _power_of_two(rows), _power_of_two(columns)
        work.data *= rows[row] * columns[column]
    cost = np.asarray(c, dtype=float) * columns
    largest = np.abs(cost).max(initial=0.0)
    cost_scale = float(_power_of_two(np.array([1e3 / largest]))[0]) if largest > 0 and not 1e-1 <= largest <= 1e4 else 1.0
    return Scaled(cost * cost_scale, work, b * rows, lower / columns, upper / columns), rows, columns, cost_scale


def _geometric(magnitude: Array, line: Array, count: int) -> Array:
    """Return 1 / sqrt(min * max) of the entries of each of `count` lines; 1 where a line has none."""
    least, most = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(least, line, magnitude)
    np.maximum.at(most, line, magnitude)
    filled = most > 0
    result = np.ones(count)
    result[filled] = 1.0 / np.sqrt(least[filled] * most[filled])
    return result


def _power_of_two(scale: Array) -> Array:
    """Return the nearest power of two of every entry."""
    return np.exp2(np.round(np.log2(scale)))
