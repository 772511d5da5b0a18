"""The dispatch by which plans are compared: the best use of any first stage, also where spend agreements tie all hours together."""

import contextlib
from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import SolveError
from capplan.optimize.coupled import CoupledEvaluator
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.program import Solution, TwoStage
from capplan.questions.procurement.program.agreement_proof import paid
from capplan.questions.procurement.program.first_stage import Model


def judge(program: TwoStage, solution: Solution, a: ProcurementAssumptions) -> Evaluator:
    """Return what costs any first stage exactly, from the recourse bases that the solution has found."""
    library = solution.warm.library if solution.warm else recourse_of(program)
    return Evaluator(program, a.tail_share, library)


class Court:
    """Values first stages by the dispatch that the plan gets: use by the hour is steered towards spend agreements as far as that pays.

    Args:
        model, solution: The problem and its solution, whose bases serve again.
        program: The model's program, or one that differs from it in right-hand sides of the recourse.
        a: Risk weight, tail and gap; how closely a dispatch is solved goes by the gap.
    """

    def __init__(self, model: Model, program: TwoStage, solution: Solution, a: ProcurementAssumptions) -> None:
        self.model, self.free = model, judge(program, solution, a)
        self.tied: CoupledEvaluator | None = None
        if model.years:
            whole = replace(model, program=program).whole()
            agreements = replace(whole, expected=whole.expected[len(program.expected) :])
            base = Evaluator(agreements, a.tail_share, self.free.library)
            # where use could earn at the highest price of an agreement, each hour is served on its own
            with contextlib.suppress(SolveError):
                self.tied = CoupledEvaluator(base, a.risk_weight, a.tail_share, a.gap_share)

    def dispatch(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, sparse.csr_matrix]:
        """Return a first stage with what it leaves unspent paid, its recourse cost by scenario, (S,), and its recourse, (P, r)."""
        if not self.model.years:
            return x, self.free.evaluate(x).cost_by_scenario, self.free.decisions(x)
        x = self.model.settled(x, np.zeros(len(self.model.years)))
        cost, decisions = self.free.evaluate(x).cost_by_scenario, self.free.decisions(x)
        if self.tied is not None and np.isfinite(cost).all():
            self.tied.base.rest(x)
            with contextlib.suppress(SolveError):  # short of digits
                found = self.tied.evaluate(x)
                if np.isfinite(found.cost_by_scenario).all():
                    cost, decisions = found.cost_by_scenario, self.tied.decisions(x, found)
        return paid(self.model, x, decisions), cost, decisions
