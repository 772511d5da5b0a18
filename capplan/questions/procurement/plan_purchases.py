"""From tables to a purchase plan: build, solve, tabulate, explain."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from capplan.questions.procurement.answer import Proof, Purchases
from capplan.questions.procurement.answer_tables import capacity_table, cost_table, dispatch_table, path_table, service_table
from capplan.questions.procurement.decide import Decided, decide
from capplan.questions.procurement.explain.demand_branches import COLUMNS, plan_branches
from capplan.questions.procurement.explain.proposed import left_out_offers
from capplan.questions.procurement.explain.reasons import explain
from capplan.questions.procurement.explain.sentences import in_words
from capplan.questions.procurement.hindsight.look_back import look_back_cases, look_back_levels
from capplan.questions.procurement.hindsight.verdicts import COLUMNS as VERDICTS
from capplan.questions.procurement.hindsight.verdicts import follow_verdicts, judge_purchases, verdict_words
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.work.deferral import deferral_table, moved_load


def plan_purchases(problem: Problem, *, tell: Callable[[Decided], None] | None = None, fresh: pd.DataFrame | None = None) -> Purchases:
    r"""Decide what to buy in each quarter.

    .. math:: \min_x\ c^T x + (1-\lambda)\,E[C_s(x)] + \lambda\,\mathrm{CVaR}_\alpha(C_s(x))

    over whole lots x of every offer and start quarter, decided once; C_s is what path s then costs: use of committed capacity, on demand,
    spot, API and work left
    undone, at every load block of every quarter (`recourse.build_recourse` has its equations).

    Args:
        tell: Told of the decision before it is explained.
        fresh: Demand on paths that the problem does not have: then each purchase due now gets a verdict from them.

    Raises:
        CapplanError: Where inputs contradict each other, or no plan satisfies all limits; then the limits that clash are named.

    Source: Birge and Louveaux, Introduction to Stochastic Programming (2011), chapters 1 and 4; Rockafellar and Uryasev (2000) for CVaR.
    """
    a = problem.assumptions
    found = decide(problem)
    if tell is not None:
        tell(found)
    work, market, choices, recourse, model = found.work, found.market, found.choices, found.recourse, found.model
    solution, lots, bought = found.solution, found.lots, found.purchases
    put_off = solution.x[model.deferred_columns]
    proof = Proof(
        solution.lower, solution.upper, solution.gap_share, found.stopped_by, solution.method, len(recourse.weight), len(choices.table)
    )
    after = replace(work, load=moved_load(work, list(model.deferred), put_off))
    costs = cost_table(work, market, choices, recourse, solution.recourse, lots)
    said = look_back_levels(problem, market, work)
    further = look_back_cases(said, choices, market, model)
    reasons = explain(found, further)
    branches = plan_branches(work, choices, model, solution, bought, a)
    information = (
        reasons.information
        if branches is None or branches.information.empty
        else pd.concat([reasons.information, branches.information], ignore_index=True)
    )
    verdicts = pd.DataFrame(columns=VERDICTS) if fresh is None else judge_purchases(found, fresh)
    explanation = in_words(bought, reasons.alternatives, information, (reasons.binding, reasons.limit_lots), reasons.rejected, proof, a)
    return Purchases(
        purchases=bought,
        capacity=capacity_table(choices, market, lots),
        dispatch=dispatch_table(after, market, choices, recourse, solution.recourse),
        costs=costs,
        service=service_table(after, choices, recourse, solution.recourse),
        binding=reasons.binding,
        limit_lots=reasons.limit_lots,
        rejected=reasons.rejected,
        alternatives=reasons.alternatives,
        information=information,
        proof=proof,
        headline=follow_verdicts(reasons.headline, verdicts),
        notes=(*market.notes, *work.notes, *model.notes, *found.notes, *reasons.notes, *(branches.notes if branches else ())),
        agreements=reasons.agreements,
        deferrals=deferral_table(work, choices.timeline, list(model.deferred), put_off),
        branches=pd.DataFrame(columns=COLUMNS) if branches is None else branches.table,
        paths=path_table(work, found.states),
        explanation=pd.concat([explanation, verdict_words(verdicts)], ignore_index=True),
        verdicts=verdicts,
        departures=reasons.departures,
        endings=reasons.endings,
        left_out=left_out_offers(found),
    )
