"""The dispatch by which plans are compared: the best use of any first stage, also where spend agreements tie all hours together."""

import contextlib
from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import SolveError
from capplan.optimize.coupled import CoupledEvaluator
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.extensive import solve_extensive
from capplan.optimize.program import Solution, TwoStage, blended_cost, held_between, shifts, slack_columns
from capplan.questions.procurement.program.agreement_proof import paid
from capplan.questions.procurement.program.budget_proof import written_out
from capplan.questions.procurement.program.purchase_model import Model


def judge(program: TwoStage, solution: Solution, a: ProcurementAssumptions) -> Evaluator:
    """Return what costs any first stage exactly, from the recourse bases that the solution has found."""
    library = solution.warm.library if solution.warm else recourse_of(program)
    return Evaluator(program, a.tail_share, library)


def risk_weighted(x: np.ndarray, cost: np.ndarray, program: TwoStage, a: ProcurementAssumptions) -> float:
    """Return what a first stage costs with its recourse by scenario, (S,), expectation and bad cases weighed."""
    return float(program.c @ x) + blended_cost(cost, program.probability, a.risk_weight, a.tail_share)


def lifted(model: Model, x: np.ndarray) -> TwoStage:
    """Return the program with every limit that a first stage exceeds raised to what it takes, so that all of it can be used.

    Rows of agreements, which are paid for what is left unspent, stay.
    """
    program = model.program
    used = program.A @ x
    stay = np.isin(np.arange(len(program.b)), model.spend_rows)
    over = ((program.sense == "<") & (used > program.b)) | ((program.sense == ">") & (used < program.b))
    b = np.where(over & ~stay, used, program.b)
    # a cap on what is rented beside what is bought has no room left, and not less than none
    caps = (program.recourse_sense == "<") & (np.asarray(program.W.min(axis=1).todense()).ravel() >= 0)
    moved = shifts(program, x)[program.technology]
    h = np.where(caps & (program.h < moved), moved, program.h)
    expected = tuple(replace(row, limit=max(row.limit, float(row.a @ x))) for row in program.expected)
    return replace(program, b=b, h=h, expected=expected)


class Court:
    """Values first stages by the dispatch that the plan gets: use by the hour is steered towards spend agreements as far as that pays.

    In a small problem it also knows what soft budgets cost.

    Args:
        model, solution: The problem and its solution, whose bases serve again.
        program: The model's program, or one that differs from it in right-hand sides of the recourse.
        a: Risk weight, tail and gap; how closely a dispatch is solved goes by the gap.
    """

    def __init__(self, model: Model, program: TwoStage, solution: Solution, a: ProcurementAssumptions) -> None:
        self.model, self.program, self.a = model, program, a
        self.tied: CoupledEvaluator | None = None
        self.whole = replace(model, program=program).whole()
        self.free = judge(replace(self.whole, expected=self.whole.expected[len(program.expected) :]), solution, a)
        if model.years and not written_out(program):
            # where use could earn at the highest price of an agreement, each hour is served on its own
            with contextlib.suppress(SolveError):
                self.tied = CoupledEvaluator(self.free, a.risk_weight, a.tail_share, a.gap_share)

    def dispatch(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, sparse.csr_matrix]:
        """Return a first stage with what it leaves unspent paid, its recourse cost by scenario, (S,), and its recourse, (P, r)."""
        model = self.model
        x = model.settled(x, np.zeros(len(model.years))) if model.years else x
        cost, decisions = self.free.costs(x), None
        if (model.years or model.soft.any()) and np.isfinite(cost).all():
            with contextlib.suppress(SolveError):  # short of digits
                if written_out(self.program):
                    cost, decisions = self._written_out(x)
                elif self.tied is not None:
                    found = self.tied.evaluate(x)
                    if np.isfinite(found.cost_by_scenario).all():
                        cost, decisions = found.cost_by_scenario, self.tied.decisions(x, found)
        if decisions is None:
            decisions = self.free.decisions(x)
        return (paid(model, x, decisions) if model.years else x), cost, decisions

    def _written_out(self, x: np.ndarray) -> tuple[np.ndarray, sparse.csr_matrix]:
        """Return cost and recourse of the best use of a first stage, written out in one program; hard limits may be broken."""
        whole, budgets = self.whole, len(self.model.soft)
        soft = [row for row, is_soft in zip(whole.expected[:budgets], self.model.soft, strict=True) if is_soft]
        free = np.concatenate([self.model.unspent, *(slack_columns(whole, row.a) for row in soft)]).astype(int)
        lower, upper = x.copy(), x.copy()
        lower[free], upper[free] = 0.0, np.inf
        held = replace(held_between(whole, lower, upper), expected=(*soft, *whole.expected[budgets:]))
        found = solve_extensive(held, self.a.risk_weight, self.a.tail_share, 0.0)
        return found.cost_by_scenario, found.recourse
