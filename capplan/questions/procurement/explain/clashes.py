"""Limits that clash: with each other, or with a service level; which, and by how much they must give."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.errors import CapplanError
from capplan.optimize.extensive import solve_extensive
from capplan.optimize.infeasible import WRITTEN_OUT_COLUMNS, Change, explain_infeasibility
from capplan.optimize.mean_program import mean_program
from capplan.optimize.program import ExpectedRow
from capplan.optimize.solver import InfeasibleError, arrays, solve_arrays
from capplan.questions.procurement.program.limit_scope import named_in
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.work.load import Work

#: Caps on what is rented by the hour that may give.
CAPS = ("on_demand_accelerators", "spot_accelerators", "api_rate")
#: A share of a limit below this is rounding.
NOTICEABLE_SHARE = 1e-6


def feasible(model: Model) -> None:
    """Make sure that some first stage satisfies all limits; every first stage has a recourse, because work may be left undone.

    Raises:
        CapplanError: Naming the limits that clash, and by how much they must give.
    """
    first = arrays(model.problem)
    if (first.lower <= 0).all() and (first.sense == "<").all() and (first.b >= 0).all():
        return
    try:
        solve_arrays(replace(first, c=np.zeros_like(first.c)), 0.0)
    except InfeasibleError as error:
        found = explain_infeasibility(first)
        # A row states what room contracts already signed leave; a reader knows the limit itself.
        stated = dict(zip((first.row_names[row] for row in model.rows["row"]), model.rows["limit"], strict=True))
        changes = tuple(replace(change, limit=float(stated.get(change.row, change.limit))) for change in found.changes)
        reasons = replace(found, changes=changes).text.replace("_", " ")
        hint = "Change these limits, or drop pinned purchases, minimum lots or renewals that cannot be stopped any more"
        raise CapplanError(f"there is no plan: {reasons}. {hint}") from error


def what_must_give(model: Model, recourse: Recourse, work: Work, quarters: Sequence[str], level: float) -> tuple[Change, ...]:
    r"""Find the smallest changes of limits, each relative to its size, with which each class of work is served to a level.

    .. math:: \min \sum_i e_i\quad\text{s.t. all rows},\ a_i^T x \le b_i + \max(b_i, 1)\,e_i,\quad
              E[\sum_p h_p u_{cp}] \le (1 - \text{level})\,E[\sum_p h_p D_{cp}]

    Parts of lots can be bought, and a problem that is too large is judged by the mean of its paths (Jensen's inequality), so the amounts
    are the
    least that must give.

    Args:
        quarters: Labels of the planned quarters.
        level: Share of each class's work that must be served.

    Returns:
        The changes; empty where no change of limits would do.
    """
    program = model.program
    n, m = len(program.c), program.W.shape[0]
    limits = [(named_in(row.limit_id, row.quarter), float(row.limit)) for row in model.rows.itertuples()]
    places = model.rows["row"].to_numpy(int)
    # a budget gives once, for what is committed and for that with expected use
    budgets = [limits.index((named_in(row.limit_id, row.quarter), float(row.limit))) for row in model.budgets.itertuples()]
    caps = [
        (i, q, recourse.planned & (recourse.stage == q))
        for i in np.flatnonzero(recourse.rows["kind"].isin(CAPS)).tolist()
        for q in np.unique(recourse.stage[recourse.planned]).tolist()
    ]
    limits += [(named_in(recourse.rows.at[i, "limit_id"], quarters[q]), float(program.h[own, i].max())) for i, q, own in caps]
    size = np.maximum([limit for _, limit in limits], 1.0)
    elastic = len(limits)
    own = np.arange(len(places))
    A = sparse.hstack([program.A, sparse.csr_matrix((-size[own], (places, own)), shape=(program.A.shape[0], elastic))], format="csr")
    T = []
    for t, matrix in enumerate(program.T):
        mine = [(i, len(places) + k) for k, (i, q, _) in enumerate(caps) if recourse.stage_of[t] == q]
        rows, columns = np.array(mine, dtype=int).reshape(-1, 2).T
        T.append(sparse.hstack([matrix, sparse.csr_matrix((-size[columns], (rows, columns)), shape=(m, elastic))], format="csr"))
    expected = [
        replace(row, a=np.concatenate([row.a, -size * (np.arange(elastic) == k)])) for k, row in zip(budgets, program.expected, strict=True)
    ]
    expected += _served(work, recourse, n + elastic, level)
    free = replace(
        program,
        c=np.concatenate([np.zeros(n), np.ones(elastic)]),
        A=A,
        T=T,
        lower=np.concatenate([program.lower, np.zeros(elastic)]),
        upper=np.concatenate([program.upper, np.full(elastic, np.inf)]),
        integer=np.zeros(n + elastic, dtype=bool),
        q=np.zeros_like(program.q),
        costs=None if program.costs is None else np.zeros_like(program.costs),
        expected=tuple(expected),
    )
    try:
        given = solve_extensive(
            free if program.h.shape[0] * len(program.q) <= WRITTEN_OUT_COLUMNS else mean_program(free), 0.0, 1.0, 0.0
        ).x[n:]
    except InfeasibleError:
        return ()
    return tuple(Change(limits[k][0], "<", limits[k][1], float(given[k] * size[k])) for k in np.flatnonzero(given > NOTICEABLE_SHARE))


def _served(work: Work, recourse: Recourse, columns: int, level: float) -> list[ExpectedRow]:
    """Return a row for each class: what is left undone of it in expectation over the planned quarters is at most what the level allows."""
    sources = recourse.columns
    weight = np.zeros(len(recourse.stage))
    weight[: len(work.points)] = work.points["hours"]
    wanted = (work.paths["probability"].to_numpy(float)[work.points["path"]] * work.points["hours"].to_numpy(float)) @ work.load
    result = []
    for name in work.rows["class"].unique():
        mine = (work.rows["class"] == name).to_numpy()
        short = (sources["source"] == "shortfall").to_numpy() & np.append(mine, False)[sources["row"].to_numpy(int)]
        result.append(
            ExpectedRow(np.zeros(columns), short.astype(float), recourse.planned, weight, (1 - level) * float(wanted[mine].sum()))
        )
    return result
