"""Why a model has no solution: the rows that clash, and by how much they must give."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from capplan.optimize.solver import Arrays, InfeasibleError, arrays, solve_arrays

Array = np.ndarray
TOLERANCE = 1e-7
WRITTEN_OUT_COLUMNS = 100_000


@dataclass(frozen=True)
class Change:
    """How much one row must give."""

    row: str  #: Name of the row.
    #: sense, limit: The row as it is: sum "<", ">" or "=" limit.
    sense: str
    limit: float
    amount: float  #: By how much the limit must be raised ("<"), lowered (">") or missed ("="), in the row's unit.

    def __str__(self) -> str:
        """Return the change as a phrase."""
        verb = {"<": "raised", ">": "lowered", "=": "missed"}[self.sense]
        return f"{self.row}: {self.limit:,.6g} must be {verb} by {self.amount:,.6g}"


@dataclass(frozen=True)
class Infeasibility:
    """Why a model has no solution."""

    #: The smallest set of changes, measured relative to the limits, that makes the model feasible; empty where it is feasible.
    changes: tuple[Change, ...]
    #: Names of all rows that together cannot hold (a certificate of the linear relaxation), also those that need not give.
    clash: tuple[str, ...]
    bounds: tuple[str, ...]  #: Names of variables whose bounds take part in the clash.

    @property
    def text(self) -> str:
        """One sentence for an error message."""
        if not self.changes:
            return "the model is feasible"
        others = [row for row in self.clash if row not in {change.row for change in self.changes}]
        against = f" (it clashes with {', '.join(others[:6])}{', ...' if len(others) > 6 else ''})" if others else ""
        return f"no solution satisfies all limits; {'; '.join(map(str, self.changes))}{against}"


def explain_infeasibility(model: Any, hard: Collection[str] = ()) -> Infeasibility:
    r"""Name the rows that clash, and by how much they must give.

    .. math:: \min \sum_i (s_i + t_i) / \max(|b_i|, \max_j |a_{ij}|)\quad\text{s.t.}\quad A x + s - t \lessgtr b

    Bounds are never relaxed, nor rows named in `hard` (balances, which state what things are).

    Args:
        model (pulp.LpProblem or Arrays): The model.
        hard: Names of rows that must hold.

    Raises:
        InfeasibleError: If the hard rows and the bounds clash among themselves.

    Source: Chinneck, Feasibility and Infeasibility in Optimization (2008), chapter 6 (elastic programs).

    Examples:
        >>> import pulp
        >>> model = pulp.LpProblem("room")
        >>> racks = model.add_variable("racks", 0, 100)
        >>> model += racks >= 30, "demand"
        >>> model += 2 * racks <= 50, "power_kw"
        >>> explain_infeasibility(model, hard=["demand"]).text
        'no solution satisfies all limits; power_kw: 50 must be raised by 10 (it clashes with demand)'
    """
    matrices = model if isinstance(model, Arrays) else arrays(model)
    names = matrices.row_names or tuple(f"row {i}" for i in range(len(matrices.b)))
    held = set(hard)
    soft = np.array([name not in held for name in names], dtype=bool)
    return _explain(replace(matrices, row_names=names), soft)


def _explain(model: Arrays, soft: Array) -> Infeasibility:
    """Solve the elastic program, relaxed first, since a relaxed clash comes with a certificate."""
    n = len(model.c)
    reach = abs(model.A).max(axis=1).toarray().ravel() if model.A.nnz else np.zeros(len(model.b))
    scale = np.maximum(np.maximum(np.abs(model.b), reach), 1e-12)
    down = np.flatnonzero(soft & (model.sense != ">"))
    up = np.flatnonzero(soft & (model.sense != "<"))
    rows = np.concatenate([down, up])
    sign = np.concatenate([-np.ones(len(down)), np.ones(len(up))])
    extra = len(rows)
    slack = sparse.csr_matrix((sign * scale[rows], (rows, np.arange(extra))), shape=(len(model.b), extra))
    elastic = replace(
        model,
        c=np.concatenate([np.zeros(n), np.ones(extra)]),
        A=sparse.csr_matrix(sparse.hstack([model.A, slack])),
        lower=np.concatenate([model.lower, np.zeros(extra)]),
        upper=np.concatenate([model.upper, np.full(extra, np.inf)]),
        integer=np.zeros(n + extra, dtype=bool),
        sign=1.0,
        offset=0.0,
    )
    try:
        solved = solve_arrays(elastic)
        relaxed = solved.objective > TOLERANCE
        if not relaxed and model.integer.any():
            solved = solve_arrays(replace(elastic, integer=np.concatenate([model.integer, np.zeros(extra, dtype=bool)])), 1e-4)
    except InfeasibleError as error:
        raise InfeasibleError(
            "the bounds and the rows that may not give clash among themselves; look for demand that nothing serves"
        ) from error
    given = np.bincount(rows, weights=solved.x[n:] * scale[rows], minlength=len(model.b))
    changes = tuple(
        Change(model.row_names[i], str(model.sense[i]), float(model.b[i]), float(given[i]))
        for i in np.flatnonzero(given > TOLERANCE * scale)
    )
    clash = tuple(change.row for change in changes)
    bounds: tuple[str, ...] = ()
    if relaxed and solved.duals is not None and solved.reduced_costs is not None:
        clash = tuple(model.row_names[i] for i in np.flatnonzero(np.abs(solved.duals) * scale > TOLERANCE))
        taking_part = np.flatnonzero(np.abs(solved.reduced_costs[:n]) > TOLERANCE * np.abs(solved.reduced_costs).max())
        bounds = tuple(dict.fromkeys(model.names[j] for j in taking_part)) if model.names else ()
    return Infeasibility(changes, clash, bounds)
