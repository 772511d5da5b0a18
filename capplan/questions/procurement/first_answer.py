"""A first answer while a slider moves: the decision without its explanation, with its proven gap."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from capplan.optimize.program import blended_cost
from capplan.questions.procurement.answer_tables import capacity_table, cost_table, dispatch_table
from capplan.questions.procurement.decide import Decided
from capplan.text import counted, money

#: Gap at which a first answer may stop.
FIRST_GAP = 5e-3


@dataclass(frozen=True)
class FirstAnswer:
    """What a plan would buy and cost, before it is explained; columns as in `answer.Purchases`."""

    purchases: pd.DataFrame
    capacity: pd.DataFrame
    dispatch: pd.DataFrame
    costs: pd.DataFrame
    expected_usd: float
    bad_usd: float
    headline: str
    notes: tuple[str, ...]


def first_answer(found: Decided) -> FirstAnswer:
    """Tabulate a decision, and say that it is a first answer, how good it is proven to be, and that it may differ from the full one."""
    a = found.problem.assumptions
    program, solution = found.model.program, found.solution
    first, cost = float(program.c @ solution.x), solution.cost_by_scenario
    expected = first + float(program.probability @ cost)
    bad = first + blended_cost(cost, program.probability, 1.0, a.tail_share)
    firm = found.purchases[found.purchases["firm"]]
    what = (
        f"{counted(len(firm), 'contract')} to sign before the next review, worth {money(firm['usd'].sum())}"
        if len(firm)
        else "nothing to sign before the next review"
    )
    headline = (
        f"First answer: {what}; {money(expected)} in expectation and {money(bad)} in the worst {100 * a.tail_share:g} % of cases, "
        f"proven within {100 * solution.gap_share:.2g} % of the best plan."
    )
    notes = (
        (
            "A first answer starts from the last one and stops early: the full one, which a report would show, may choose another plan"
            " within that gap."
        ),
    )
    return FirstAnswer(
        found.purchases,
        capacity_table(found.choices, found.market, found.lots),
        dispatch_table(found.work, found.market, found.choices, found.recourse, solution.recourse),
        cost_table(found.work, found.market, found.choices, found.recourse, solution.recourse, found.lots),
        expected,
        bad,
        headline,
        (*notes, *found.notes),
    )
