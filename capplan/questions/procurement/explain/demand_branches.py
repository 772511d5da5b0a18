"""What later purchases would be if they followed the demand seen by the next review, and what waiting until then is worth."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.late_decisions import Branched, branch_program
from capplan.optimize.program import Solution, TwoStage, expected_excess
from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import solve_two_stage
from capplan.questions.procurement.answer_tables import purchase_table
from capplan.questions.procurement.program.budget_proof import written_out
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.work.load import Work

#: Branches explain the plan; they are solved to this gap at least.
COARSE_GAP = 1e-2
#: Demand that differs by less than this share between paths tells nothing at the review.
NOTICEABLE_SHARE = 1e-6
COLUMNS = ["branch", "probability", "demand_share", "offer_id", "kind", "quarter", "lots", "accelerators", "usd", "sign_by", "firm"]


class Branches(NamedTuple):
    """The plan whose later purchases follow demand."""

    #: branch ("now" for what is signed before the review, else 1 for the lowest demand up), probability, demand_share (accelerator-hours up
    #: to the review, relative to the mean of all paths), offer_id, kind, quarter, lots, accelerators, usd, sign_by, firm.
    table: pd.DataFrame
    information: pd.DataFrame  #: Rows for `answer.Purchases.information`.
    notes: tuple[str, ...]  #: What the reader must know.


def demand_branches(work: Work, known_quarters: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Tell paths apart by the accelerator-hours they need up to the next review.

    Args:
        known_quarters: Quarters whose demand is known at the review.

    Returns:
        (branch, share): Branch of each path, numbered from low to high demand, each of about the same probability; and its demand relative
            to the mean. One branch where the paths do not differ yet.
    """
    known = (work.points["quarter"] < known_quarters).to_numpy()
    used = work.load.sum(axis=1) * work.points["hours"].to_numpy() * known
    probability = work.paths["probability"].to_numpy(float)
    demand = np.bincount(work.points["path"], weights=used, minlength=len(probability))
    share = demand / max(float(probability @ demand), 1e-300)
    order = np.argsort(share, kind="stable")
    middle = np.cumsum(probability[order]) - probability[order] / 2
    branch = np.empty(len(order), dtype=int)
    branch[order] = np.minimum((middle * count).astype(int), count - 1)
    # paths of equal demand cannot be told apart: they take the branch of the first of them
    for here, before in zip(order[1:], order[:-1], strict=True):
        if share[here] - share[before] <= NOTICEABLE_SHARE:
            branch[here] = branch[before]
    return np.unique(branch, return_inverse=True)[1], share


def later_columns(model: Model, choices: Choices) -> np.ndarray:
    """Tell which first-stage columns are decided after the next review: later purchases, and what only follows them."""
    program = model.program
    later = np.zeros(len(program.c), dtype=bool)
    later[model.position[~choices.table["firm"].to_numpy(bool)]] = True
    decided = later.copy()
    follower = np.ones(len(later), dtype=bool)
    follower[model.position] = False
    for j in np.flatnonzero(follower):
        rows = program.A[:, [j]].nonzero()[0]
        later[j] = bool(decided[program.A[rows].nonzero()[1]].any())
    return later


def plan_branches(
    work: Work, choices: Choices, model: Model, solution: Solution, plan: pd.DataFrame, a: ProcurementAssumptions
) -> Branches | None:
    r"""Decide again with later purchases that may differ by branch, once freely and once with nothing signed before the review.

    .. math:: \min_{x_0, x_b}\ c_0^T x_0 + \rho\big[c^T x_{b(s)} + C_s(x_0, x_{b(s)})\big]

    Args:
        work, choices, model, solution: The problem, and its solution in which every purchase is the same on all paths.

    Returns:
        Branches or None: None where there is one branch only, or nothing is left to decide later.
    """
    branch, demand = demand_branches(work, a.review_interval_quarters, a.demand_branches)
    later = later_columns(model, choices)
    if branch.max(initial=0) == 0 or not later.any():
        return None
    kept = model.years and written_out(model.program)
    whole = model.whole() if kept else replace(model.program, expected=(*model.program.expected, *model.agreed))
    branched = branch_program(whole, later, branch)
    free = _solve(branched.program, branched.same(solution.x), solution, model, a)
    if free is None:
        words = "Later purchases in branches of demand are left out: a budget on expected use binds, which ties the branches together."
        return Branches(pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=["name", "usd", "meaning"]), (words,))
    table = _table(choices, model, branched, free, demand, branch, work)
    flexible = max(solution.upper - free.upper, 0.0)
    words = f"{len(branched.probability)} groups of paths told apart by demand up to the next review"
    rows = [("flexibility", flexible, f"at least what it is worth that later purchases may follow demand: {words}")]
    waited = _wait(branched, model, choices, free, a)
    if waited is not None:
        rows.append(
            (
                "waiting_for_demand",
                max(waited - free.upper, 0.0),
                "what it costs to sign nothing before the next review, where later purchases may then follow demand",
            )
        )
    sure = flexible > max(a.gap_share, COARSE_GAP) * abs(solution.upper)
    return Branches(table, pd.DataFrame(rows, columns=["name", "usd", "meaning"]), _notes(table, plan) if sure else ())


def _solve(program: TwoStage, start: np.ndarray, solution: Solution, model: Model, a: ProcurementAssumptions) -> Solution | None:
    """Solve a branched program from the plan and its bases; None where expected budgets bind, which couple all branches.

    The last expected rows are contract years of spend agreements. A small problem keeps them; in a large one use by the hour is planned
    for them, and what a solution leaves unspent beyond what it pays is added to its cost.
    """
    gap_share, budgets = max(a.gap_share, COARSE_GAP), len(program.expected) - len(model.years)
    kept = program.expected[budgets:] if written_out(model.program) else ()
    found = solve_two_stage(replace(program, expected=kept), a.risk_weight, a.tail_share, gap_share, start, warm=solution.warm)
    over = expected_excess(program, found.x, found.recourse)
    return None if (over[:budgets] > 0).any() else replace(found, upper=found.upper + float(over[budgets:].sum()))


def _wait(branched: Branched, model: Model, choices: Choices, free: Solution, a: ProcurementAssumptions) -> float | None:
    """Return the cost of signing nothing before the review; None where something must be signed, 0 more where nothing would be."""
    firm = np.zeros(len(branched.later), dtype=bool)
    firm[model.position[(choices.table["firm"] & (choices.table["kind"] != DEPARTURE)).to_numpy(bool)]] = True
    columns = np.flatnonzero(firm[~branched.later])
    program = branched.program
    if (program.lower[columns] > 0).any():
        return None
    if not (free.x[columns] > 0.5).any():
        return free.upper
    upper = program.upper.copy()
    upper[columns] = 0.0
    try:
        found = _solve(replace(program, upper=upper), np.minimum(free.x, upper), free, model, a)
    except InfeasibleError:
        return None
    return None if found is None else found.upper


def _table(
    choices: Choices, model: Model, branched: Branched, found: Solution, demand: np.ndarray, branch: np.ndarray, work: Work
) -> pd.DataFrame:
    """List what is signed now, and what each branch would buy later."""
    firm = choices.table["firm"].to_numpy(bool)
    probability = work.paths["probability"].to_numpy(float)
    frames = []
    for b, x in enumerate(branched.first_stages(found.x)):
        lots = model.lots(x).round()
        own = branch == b
        share = float(probability[own] @ demand[own] / probability[own].sum())
        if b == 0:
            frames.append(purchase_table(choices, np.where(firm, lots, 0.0)).assign(branch="now", probability=1.0, demand_share=1.0))
        later = purchase_table(choices, np.where(firm, 0.0, lots))
        frames.append(later.assign(branch=str(b + 1), probability=branched.probability[b], demand_share=share))
    return pd.concat([frame[COLUMNS] for frame in frames if len(frame)] or [pd.DataFrame(columns=COLUMNS)], ignore_index=True)


def _notes(table: pd.DataFrame, plan: pd.DataFrame) -> tuple[str, ...]:
    """Say where what is signed now would change if later purchases may follow demand."""
    now = table[table["branch"] == "now"].groupby("offer_id")["accelerators"].sum()
    signed = plan[plan["firm"]].groupby("offer_id")["accelerators"].sum()
    change = now.sub(signed, fill_value=0.0)
    change = change[change.abs() > 0.5]
    if change.empty:
        return ()
    words = ", ".join(f"{name} {amount:+,.0f}" for name, amount in change.sort_index().items())
    return (f"If later purchases may follow the demand seen by the next review, accelerators signed now would change by about: {words}.",)
