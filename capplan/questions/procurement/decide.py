"""The decision alone: from tables to a solved program, without its explanation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.clock import time_limit
from capplan.optimize.program import Solution
from capplan.optimize.two_stage import Warm
from capplan.questions.procurement.answer_tables import purchase_table
from capplan.questions.procurement.explain.clashes import feasible, what_must_give
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.agreement_proof import best_plan
from capplan.questions.procurement.program.first_stage import build_model
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.program.second_stage import Recourse, build_recourse
from capplan.questions.procurement.program.spend_agreements import contract_years
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.supply.on_offer import on_offer
from capplan.questions.procurement.work.load import Work, lay_out
from capplan.questions.procurement.work.service_levels import hold_level, level_notes
from capplan.questions.procurement.work.states import States, cut_points, with_states

#: Assumptions that say how cautious a plan is and how closely it is proven: none of them moves the program.
OF_PROOF = frozenset({"risk_weight", "tail_share", "gap_share", "time_limit_seconds", "service_level_share"})


@dataclass(frozen=True)
class Stated:
    """A purchase program that is built and not yet solved."""

    problem: Problem
    market: Market
    choices: Choices
    states: States
    work: Work
    recourse: Recourse
    model: Model

    @property
    def assumptions(self) -> ProcurementAssumptions:
        """Assumptions of the problem."""
        return self.problem.assumptions


@dataclass(frozen=True)
class Decided(Stated):
    """A solved purchase program: what it was built from, solution, whole lots, purchases, and whether time ended the search."""

    solution: Solution
    lots: np.ndarray
    purchases: pd.DataFrame
    notes: tuple[str, ...] = ()
    cut_short: bool = False

    @property
    def stopped_by(self) -> str:
        """What ended the search, as in `answer.Proof`."""
        return "time limit" if self.cut_short and self.solution.status == "limit" else self.solution.status


def state_problem(problem: Problem) -> Stated:
    """Build the purchase program."""
    had = on_offer(problem)
    problem, market, choices, states, caps = had.problem, had.market, had.choices, had.states, had.caps
    a, demand, classes = problem.assumptions, problem.demand, problem.classes
    work = lay_out(with_states(demand, states, a.seed), problem.speeds, classes, market, choices.timeline, a, problem.egress_prices)
    work = cut_points(work, choices.spans)
    years = contract_years(problem.spend_agreements, problem.other_costs, market, choices, a)
    recourse = build_recourse(work, market, choices, caps, a, states, [year.provider for year in years])
    return Stated(problem, market, choices, states, work, recourse, build_model(work, market, choices, recourse, caps, a, years))


def decide(problem: Problem, *, warm: Warm | None = None, proof: bool = True, stated: Stated | None = None) -> Decided:
    """Build and solve the purchase program.

    Args:
        warm: What an earlier decision left (`Decided.solution.warm`): its cuts hold where only first-stage costs, limits or the risk weight
            moved, its bases also where prices by the hour or demand did. Which of several plans within the gap is found may depend on it.
        proof: Whether what any plan could cost is bounded where spend agreements run; elsewhere the bounds come with the solution.
        stated: The program of a problem that differs in assumptions `OF_PROOF` alone; built here by default.
    """
    a = problem.assumptions
    solved: dict[tuple[tuple[str, float], ...], tuple[Stated, Model, Solution]] = {}

    def solve(factor: Mapping[str, float]) -> tuple[Work, Recourse, Solution]:
        if factor:
            found = state_problem(problem.replaced(classes=problem.classes.assign(shortfall_factor=problem.classes["class"].map(factor))))
        else:
            found = stated or state_problem(problem)
        feasible(found.model)
        model, solution = best_plan(found.model, a, warm, proof, exact=proof)
        solved[tuple(factor.items())] = found, model, solution
        return found.work, found.recourse, solution

    notes: tuple[str, ...] = ()
    key: tuple[tuple[str, float], ...] = ()
    with time_limit(a.time_limit_seconds) as clock:
        if a.service_level_share > 0:
            held = hold_level(solve, a.service_level_share, lambda: _clash(solved[()][0], a.service_level_share))
            key, notes = tuple(held.factor.items()), level_notes(held, a.service_level_share)
        else:
            solve({})
    if clock.cut_short:
        notes += (
            (
                f"The time limit of {a.time_limit_seconds:g} s ended the search. What a clock ends depends on the machine, so the same"
                " inputs may give another plan; for a run that repeats set time_limit_seconds to 0, and gap_share to the gap that is close"
                " enough."
            ),
        )
    found, model, solution = solved[key]
    lots = model.lots(solution.x).round()
    bought = purchase_table(found.choices, lots)
    decided = replace(found, problem=problem, model=model)
    return Decided(**vars(decided), solution=solution, lots=lots, purchases=bought, notes=notes, cut_short=clock.cut_short)


def _clash(stated: Stated, level: float) -> str:
    """Name what stands against a service level, in a sentence; empty where nothing that could give does."""
    found = what_must_give(stated.model, stated.recourse, stated.work, stated.choices.timeline.horizon, level)
    return f" It clashes with these limits, which must give at least so much: {'; '.join(map(str, found))}." if found else ""
