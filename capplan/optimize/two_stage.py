"""A generic two-stage stochastic mixed-integer program; nothing of capacity planning in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

Array = np.ndarray


@dataclass(frozen=True)
class TwoStage:
    r"""A two-stage program whose recourse points share one cost vector and one matrix.

    .. math:: \min_x c^T x + \rho\big[\sum_{p \in s} w_p q^T y_p\big],\quad A x \lessgtr b,\quad
              W y_p \lessgtr h_p - T_p x,\quad y_p \ge 0

    where rho blends the expectation and CVaR over scenarios s.

    Parameters
    ----------
    c : (n,)
        First-stage cost.
    A, b, sense : (k, n), (k,), (k,)
        First-stage rows; sense is one of "<", ">", "=" for each row.
    lower, upper : (n,)
        Bounds of x.
    integer : (n,) bool
        Which x are whole numbers.
    q : (r,)
        Recourse cost of one point and unit of weight.
    W : (m, r)
        Recourse matrix, shared by all points.
    recourse_sense : (m,)
        "<", ">" or "=" for each recourse row.
    T : sequence of (m, n) sparse matrices
        Technology matrices; point p uses T[technology[p]].
    technology : (P,) int
        Which matrix each point uses.
    h : (P, m)
        Right-hand sides.
    weight : (P,)
        Weight of each point in its scenario's cost (hours, discount factor).
    scenario : (P,) int
        Scenario of each point.
    probability : (S,)
        Probability of each scenario; the sum is 1.
    expected : sequence of ExpectedRow
        Rows on first stage plus expected recourse (budgets); they couple all points.
    """

    c: Array
    A: sparse.csr_matrix
    b: Array
    sense: Array
    lower: Array
    upper: Array
    integer: Array
    q: Array
    W: sparse.csr_matrix
    recourse_sense: Array
    T: Sequence[sparse.csr_matrix]
    technology: Array
    h: Array
    weight: Array
    scenario: Array
    probability: Array
    expected: Sequence[ExpectedRow] = field(default=())


@dataclass(frozen=True)
class ExpectedRow:
    r"""A cap on first-stage plus expected recourse quantity: a x + E[sum_{p in points} w_p g^T y_p] <= limit.

    Parameters
    ----------
    a : (n,)
        First-stage coefficients.
    g : (r,)
        Recourse coefficients (0 for imputed costs, which are no spend).
    points : (P,) bool
        Points that count (those of one quarter, say).
    weight : (P,)
        Weight of each point in this row (hours without discounting, say).
    limit
        Right-hand side.
    """

    a: Array
    g: Array
    points: Array
    weight: Array
    limit: float
