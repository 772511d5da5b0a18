"""A generic two-stage stochastic mixed-integer program and its solution, as data; nothing of capacity planning in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.fingerprint import digest

Array = np.ndarray
PROBABILITY_TOLERANCE = 1e-6
#: Lays out the recourse decisions of each point, (P, r) sparse, when they are asked for.
Use = Callable[[], sparse.csr_matrix]


@dataclass(frozen=True)
class TwoStage:
    r"""A two-stage program whose recourse points share one cost vector and one matrix.

    .. math:: \min_x c^T x + \rho\big[\sum_{p \in s} w_p q^T y_p\big],\quad A x \lessgtr b,\quad
              W y_p \lessgtr h_p - T_p x,\quad y_p \ge 0

    where rho blends the expectation and CVaR over scenarios s.

    Args:
        c (n,): First-stage cost.
        A, b, sense ((k, n), (k,), (k,)): First-stage rows; sense is one of "<", ">", "=" for each row.
        lower, upper (n,): Bounds of x.
        integer ((n,) bool): Which x are whole numbers.
        q (r,): Recourse cost of one point and unit of weight.
        W (m, r): Recourse matrix, shared by all points.
        recourse_sense (m,): "<", ">" or "=" for each recourse row.
        T (sequence of (m, n) sparse matrices): Technology matrices; point p uses T[technology[p]].
        technology ((P,) int): Which matrix each point uses.
        h (P, m): Right-hand sides.
        weight (P,): Weight of each point in its scenario's cost (hours, discount factor).
        scenario ((P,) int): Scenario of each point.
        probability (S,): Probability of each scenario; the sum is 1.
        expected (sequence of ExpectedRow): Rows on first stage plus expected recourse (budgets); they couple all points.
        costs ((states, r), optional): Recourse costs in a few states (random prices); without them all points cost q, with them q only
            stands for their size.
        cost_state ((len(T),) int, optional): State of the costs under each technology, so of each point.
        enough, too_dear: A search may end as soon as it has a first stage that costs no more than the one, or knows that none costs no more
            than the other; by default it wants the best one.
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
    costs: Array | None = None
    cost_state: Array | None = None
    enough: float = -np.inf
    too_dear: float = np.inf


@dataclass(frozen=True)
class ExpectedRow:
    r"""A cap on first-stage plus expected recourse quantity: a x + E[sum_{p in points} w_p g^T y_p] <= limit."""

    a: Array  #: (n,): First-stage coefficients.
    #: ((r,) or (states, r)): Recourse coefficients (0 for imputed costs, which are no spend), one vector for each cost state where these
    #: differ.
    g: Array
    points: Array  #: ((P,) bool): Points that count (those of one quarter, say).
    weight: Array  #: (P,): Weight of each point in this row (hours without discounting, say).
    limit: float  #: Right-hand side.


@dataclass(frozen=True)
class Marginals:
    """What one more unit is worth, from the linear relaxation (duals of a program with integers mean nothing)."""

    rows: Array  #: (k,): Change of the objective per unit of b.
    expected: Array  #: ((len(expected),)): Change of the objective per unit of each expected row's limit.
    reduced_costs: Array  #: (n,): Change of the objective per unit of x that is at a bound; how far its cost must fall before it enters.


@dataclass(frozen=True)
class Solution:
    r"""A first stage that is feasible, with proven bounds on the optimum.

    Args:
        x (n,): First stage; whole where it must be.
        lower, upper: Proven: lower <= optimum <= upper; upper is the exact objective of x.
        cost_by_scenario (S,): Recourse cost of each scenario at x, without c x.
        status: "optimal", "gap" (proven within the wanted gap) or "limit" (stopped before; the gap says how far it is proven).
        use: Lays out `recourse`, which most solves are not asked for.
        marginals: Duals and reduced costs of the linear relaxation.
        method: "extensive" or "l_shaped".
        warm: What a re-solve of a changed program can start from; opaque.
        told: Whether the search ended before, because it knew on which side of `TwoStage.enough` or `too_dear` the optimum lies.
    """

    x: Array
    lower: float
    upper: float
    cost_by_scenario: Array
    status: str
    use: Use
    marginals: Marginals
    method: str = "extensive"
    warm: Any = None
    told: bool = False

    @cached_property
    def recourse(self) -> sparse.csr_matrix:
        """Recourse decisions of each point at x, (P, r) sparse, which together satisfy the expected rows."""
        return self.use()

    @property
    def gap_share(self) -> float:
        """Proven relative gap: (upper - lower) / |upper|."""
        return (self.upper - self.lower) / max(abs(self.upper), 1e-12) if self.upper > self.lower else 0.0


def risk_weights(cost: Array, probability: Array, risk_weight: float, tail_share: float) -> Array:
    r"""Weights under which the mean of the scenarios' costs is the blend of expectation and CVaR.

    .. math:: \omega_s = (1-\lambda) p_s + \lambda\,\kappa_s / \alpha,\quad \kappa_s \le p_s,\ \textstyle\sum_s \kappa_s = \alpha

    with kappa filled from the dearest scenario down.

    Args:
        cost, probability (S,): Cost and probability of each scenario.
        risk_weight, tail_share: lambda and alpha of the equation.

    Returns:
        (S,) array: Weights that sum to 1.

    Source: Rockafellar and Uryasev, "Optimization of conditional value-at-risk", Journal of Risk 2 (2000): CVaR as the mean of the worst
        share.

    Examples:
        >>> risk_weights(np.array([1.0, 4.0, 2.0, 3.0]), np.full(4, 0.25), 1.0, 0.5).tolist()
        [0.0, 0.5, 0.0, 0.5]
    """
    if risk_weight == 0:
        return np.array(probability, dtype=float)
    order = np.argsort(-cost, kind="stable")
    before = np.concatenate(([0.0], np.cumsum(probability[order])[:-1]))
    tail = np.zeros(len(cost))
    tail[order] = np.clip(tail_share - before, 0.0, probability[order])
    return (1 - risk_weight) * probability + risk_weight * tail / tail.sum()


def blended_cost(cost: Array, probability: Array, risk_weight: float, tail_share: float) -> float:
    """Return (1 - risk_weight) E[cost] + risk_weight CVaR of the worst tail_share.

    Examples:
        >>> blended_cost(np.array([1.0, 4.0, 2.0, 3.0]), np.full(4, 0.25), 0.5, 0.25)
        3.25
    """
    return float(risk_weights(cost, probability, risk_weight, tail_share) @ cost)


def held_between(problem: TwoStage, lower: Array, upper: Array) -> TwoStage:
    """Return the program of the best recourse where the first stage lies between bounds, parts allowed, whatever its rows say."""
    free = np.zeros(len(problem.c), dtype=bool)
    return replace(problem, A=problem.A[:0], b=problem.b[:0], sense=problem.sense[:0], lower=lower, upper=upper, integer=free)


def least_use(problem: TwoStage, row: ExpectedRow) -> TwoStage:
    """Return the program, parts allowed, that uses as little of an expected row as it can, whatever that costs."""
    several = np.ndim(row.g) > 1
    return replace(
        problem,
        c=row.a,
        q=np.atleast_2d(row.g)[0],
        costs=row.g if several else None,
        cost_state=problem.cost_state if several else None,
        weight=row.weight * row.points,
        integer=np.zeros_like(problem.integer),
        expected=(),
        enough=-np.inf,
        too_dear=np.inf,
    )


def slack_columns(problem: TwoStage, entries: Array) -> Array:
    """Return the columns by which a row "<" with these first-stage entries may be exceeded at a price."""
    return np.flatnonzero((entries < 0) & ~problem.integer & np.isinf(problem.upper))


def fingerprint(problem: TwoStage) -> str:
    """Return a fingerprint of all that a program's optimum rests on."""
    parts = [np.asarray(getattr(problem, each.name)) for each in fields(problem) if each.name not in ("A", "W", "T", "expected")]
    rows = [np.asarray(getattr(row, each.name)) for row in problem.expected for each in fields(row)]
    return digest(problem.A, problem.W, *problem.T, *(part if part.dtype != object else str(part) for part in (*parts, *rows)))


def check_weights(problem: TwoStage) -> None:
    """Refuse expected rows that count points without weight in the objective: no price can reach them."""
    counted = np.array([row.weight * row.points for row in problem.expected]).reshape(len(problem.expected), len(problem.weight))
    if (counted[:, problem.weight == 0] != 0).any():
        raise SolveError("an expected row counts a point that has no weight in the objective; give it a weight")


def check_program(problem: TwoStage, risk_weight: float = 0.0, tail_share: float = 1.0, gap_share: float = 0.0) -> None:
    """Refuse a program whose parts do not fit together.

    Raises:
        SolveError: Names the part, what it has and what it must have.
    """
    costs, state = cost_states(problem)
    _check_shapes(problem, costs, state)
    for name, senses in (("sense", problem.sense), ("recourse_sense", problem.recourse_sense)):
        wrong = sorted({str(s) for s in senses} - {"<", ">", "="})
        if wrong:
            raise SolveError(f"two-stage program: {name} holds {wrong[0]!r}; use '<', '>' or '='")
    for name, numbers in (
        ("c", problem.c),
        ("A", problem.A.data),
        ("b", problem.b),
        ("q", problem.q),
        ("costs", costs),
        ("W", problem.W.data),
        ("h", problem.h),
        ("weight", problem.weight),
        ("probability", problem.probability),
    ):
        if not np.isfinite(numbers).all():
            raise SolveError(f"two-stage program: {name} holds a number that is not finite; check prices, demand and limits")
    if (problem.weight < 0).any() or (problem.probability < 0).any():
        raise SolveError("two-stage program: weights and probabilities must be 0 or more")
    total = float(problem.probability.sum())
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise SolveError(f"two-stage program: scenario probabilities sum to {total:.6g}; they must sum to 1")
    for name, index, size in (
        ("technology", problem.technology, len(problem.T)),
        ("scenario", problem.scenario, len(problem.probability)),
        ("cost_state", state, len(costs)),
    ):
        if len(index) and (index.min() < 0 or index.max() >= size):
            raise SolveError(f"two-stage program: {name} must name one of {size} (0 to {size - 1}); found {index.min()} to {index.max()}")
    for name, value, low in (("risk_weight", risk_weight, 0.0), ("tail_share", tail_share, 1e-9), ("gap_share", gap_share, 0.0)):
        if not low <= value <= 1:
            raise SolveError(f"{name} is {value}; it must be between {'just above 0' if low else '0'} and 1")


def _check_shapes(problem: TwoStage, costs: Array, state: Array) -> None:
    """Refuse arrays whose shapes do not fit together."""
    n, r, m = len(problem.c), len(problem.q), problem.W.shape[0]
    k, points = problem.A.shape[0], len(problem.technology)
    shapes: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
        ("A", problem.A.shape, (k, n)),
        ("b", np.shape(problem.b), (k,)),
        ("sense", np.shape(problem.sense), (k,)),
        ("lower", np.shape(problem.lower), (n,)),
        ("upper", np.shape(problem.upper), (n,)),
        ("integer", np.shape(problem.integer), (n,)),
        ("W", problem.W.shape, (m, r)),
        ("recourse_sense", np.shape(problem.recourse_sense), (m,)),
        ("h", np.shape(problem.h), (points, m)),
        ("weight", np.shape(problem.weight), (points,)),
        ("scenario", np.shape(problem.scenario), (points,)),
    ]
    shapes += [(f"T[{i}]", matrix.shape, (m, n)) for i, matrix in enumerate(problem.T)]
    shapes += [("costs", costs.shape, (len(costs), r)), ("cost_state", state.shape, (len(problem.T),))]
    for i, row in enumerate(problem.expected):
        shapes += [
            (f"expected[{i}].a", np.shape(row.a), (n,)),
            (f"expected[{i}].g", np.shape(row.g), (r,) if np.ndim(row.g) == 1 else (len(costs), r)),
            (f"expected[{i}].points", np.shape(row.points), (points,)),
            (f"expected[{i}].weight", np.shape(row.weight), (points,)),
        ]
    for name, found, wanted in shapes:
        if tuple(found) != wanted:
            raise SolveError(f"two-stage program: {name} has shape {tuple(found)}, it must be {wanted}")


def cost_states(problem: TwoStage) -> tuple[Array, Array]:
    """Return the recourse costs of all states, (states, r), and the state of each technology."""
    if problem.costs is None or problem.cost_state is None:
        return np.asarray(problem.q, dtype=float)[None], np.zeros(len(problem.T), dtype=int)
    return np.asarray(problem.costs, dtype=float), np.asarray(problem.cost_state, dtype=int)


def point_costs(problem: TwoStage, recourse: sparse.csr_matrix, points: Array | slice = slice(None)) -> Array:
    """Return what the recourse of each point costs for one unit of weight, (len(points),)."""
    return _in_state(problem, cost_states(problem)[0], recourse, points)


def row_use(problem: TwoStage, row: ExpectedRow, recourse: sparse.csr_matrix, points: Array | slice = slice(None)) -> Array:
    """Return what the recourse of each point uses of an expected row for one unit of weight, (len(points),)."""
    return _in_state(problem, np.atleast_2d(row.g), recourse, points)


def _in_state(problem: TwoStage, values: Array, recourse: sparse.csr_matrix, points: Array | slice) -> Array:
    """Weigh each point's recourse with the values, (states, r), of its cost state, or with the only ones."""
    if len(values) == 1:
        return np.asarray(recourse @ values[0])
    own = cost_states(problem)[1][problem.technology[points]]
    return np.asarray((recourse @ values.T)[np.arange(len(own)), own])


def right_hand_sides(problem: TwoStage, x: Array, points: Array | slice = slice(None)) -> Array:
    """Return h_p - T_p x of the given points, (len(points), m)."""
    return np.asarray(problem.h[points] - shifts(problem, x)[problem.technology[points]])


def shifts(problem: TwoStage, x: Array) -> Array:
    """Return T_t x of each technology, (len(T), m)."""
    return np.stack([np.asarray(matrix @ x).ravel() for matrix in problem.T])


def expected_excess(problem: TwoStage, x: Array, recourse: sparse.csr_matrix, tolerance: float = 1e-7) -> Array:
    """Return by how much each expected row is over its limit; 0 within a relative tolerance."""
    used, limit = expected_use_of_rows(problem, x, recourse), np.array([row.limit for row in problem.expected])
    return np.where(used - limit > tolerance * np.maximum(np.maximum(np.abs(limit), np.abs(used)), 1.0), used - limit, 0.0)


def expected_use_of_rows(problem: TwoStage, x: Array, recourse: sparse.csr_matrix) -> Array:
    """Return what a first stage and its recourse use of each expected row, (K,)."""
    share = problem.probability[problem.scenario]
    return np.array([float(row.a @ x + (share * row.weight * row.points) @ row_use(problem, row, recourse)) for row in problem.expected])


def keeps_rows(problem: TwoStage, x: Array) -> bool:
    """Tell whether x satisfies the first-stage rows within a relative tolerance."""
    over = problem.A @ x - problem.b
    room = 1e-7 * np.maximum(1.0, np.abs(problem.b))
    return bool(((over <= room) | (problem.sense == ">")).all() and ((over >= -room) | (problem.sense == "<")).all())
