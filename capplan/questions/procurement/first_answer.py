"""A first answer while a slider moves: the decision without its explanation, with its proven gap."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.dollars import said_on
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.program import blended_cost, point_costs
from capplan.questions.procurement.answer_tables import capacity_table, cost_table, dispatch_table, purchase_table
from capplan.questions.procurement.decide import Decided, Stated, state_problem
from capplan.questions.procurement.explain.alternatives import broken_limits, stretched
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.agreement_proof import paid
from capplan.questions.procurement.supply.choices import lots_of
from capplan.questions.procurement.work.deferral import moved_load
from capplan.text import counted, money

#: Gap at which a first answer may stop.
FIRST_GAP = 5e-3


@dataclass(frozen=True)
class FirstAnswer:
    """What a plan would buy and cost, before it is explained; columns as in `answer.Purchases`.

    `unsure_usd` is what the search left open: a better plan, if there is one, costs at most so much less.
    """

    purchases: pd.DataFrame
    capacity: pd.DataFrame
    dispatch: pd.DataFrame
    costs: pd.DataFrame
    expected_usd: float
    bad_usd: float
    headline: str
    notes: tuple[str, ...]
    unsure_usd: float = 0.0


def first_answer(found: Decided, *, alike: bool = False) -> FirstAnswer:
    """Tabulate a decision, and say that it is a first answer, how good it is proven to be, and that it may differ from the full one.

    `alike` says that the bound was not looked for, see `decide`: with spend agreements it holds among plans that rent as much by the hour.
    """
    solution = found.solution
    notes = (
        "A first answer starts from the last one and stops early: the full one, which a report would show, may choose another plan"
        " within that gap.",
        *found.notes,
    )
    answer = tabulated(found, found.purchases, found.lots, solution.x, (solution.cost_by_scenario, solution.recourse), notes)
    firm = found.purchases[found.purchases["firm"]]
    what = (
        f"{counted(len(firm), 'contract')} to sign before the next review, worth {money(*said_on(firm['usd'], firm['signed_on']))}"
        if len(firm)
        else "nothing to sign before the next review"
    )
    among = " that rents as much by the hour" if alike and found.model.years else ""
    proven = f"proven within {100 * solution.gap_share:.2g} % of the best plan{among}"
    said = f"First answer: {what}; {_costs(answer, found)}, {proven}."
    return replace(answer, headline=said, unsure_usd=solution.upper - solution.lower)


def kept_answer(problem: Problem, bought: Mapping[tuple[str, str], float]) -> FirstAnswer:
    """Cost, exactly and without any search, what was going to be bought under other assumptions.

    It is an upper bound of what the best plan costs, with budgets and agreements paid as they are broken or left unspent.

    Args:
        bought: Lots by offer and quarter; what is not on offer any more is not bought, and minimum and maximum lots hold.
    """
    found = state_problem(problem)
    a, model, program = problem.assumptions, found.model, found.model.program
    table = found.choices.table
    lots = lots_of(table, pd.Series(dict(bought), dtype=float))
    lots = np.clip(lots, program.lower[model.position], program.upper[model.position])
    court = Evaluator(program, a.tail_share, recourse_of(program))
    x = model.first_stage(lots)
    x = model.settled(x, np.zeros(len(model.years))) if model.years else x
    # What is paid for agreements and broken budgets moves no work.
    decisions = court.decisions(x)
    x = paid(model, x, decisions) if model.years else x
    x, excesses = stretched(x, decisions, model)
    cost = np.bincount(program.scenario, weights=program.weight * point_costs(program, decisions), minlength=len(program.probability))
    notes = ("Today's purchases are kept: the best plan costs no more, and the full answer finds it.",)
    answer = tabulated(found, purchase_table(found.choices, lots), lots, x, (cost, decisions), notes)
    broken = broken_limits(excesses)
    but = f", and breaks {', '.join(broken)}" if broken else ""
    return replace(
        answer, headline=f"First answer: with today's purchases it costs {_costs(answer, found)} at most{but}; the full answer follows."
    )


def _costs(answer: FirstAnswer, found: Stated) -> str:
    share = 100 * found.problem.assumptions.tail_share
    return f"{money(answer.expected_usd)} in expectation and {money(answer.bad_usd)} in the worst {share:g} % of cases"


def tabulated(
    found: Stated,
    purchases: pd.DataFrame,
    lots: np.ndarray,
    x: np.ndarray,
    served: tuple[np.ndarray, sparse.csr_matrix],
    notes: tuple[str, ...],
) -> FirstAnswer:
    """Tabulate a first stage with the cost and the decisions of its recourse."""
    a, program, (cost, decisions) = found.problem.assumptions, found.model.program, served
    first = float(program.c @ x)
    after = replace(found.work, load=moved_load(found.work, list(found.model.deferred), x[found.model.deferred_columns]))
    return FirstAnswer(
        purchases,
        capacity_table(found.choices, found.market, lots),
        dispatch_table(after, found.market, found.choices, found.recourse, decisions),
        cost_table(found.work, found.market, found.choices, found.recourse, decisions, lots),
        first + float(program.probability @ cost),
        first + blended_cost(cost, program.probability, 1.0, a.tail_share),
        "",
        notes,
    )
