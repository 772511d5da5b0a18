"""Signed contracts that had better be left early, where they give the right to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.program import Solution, blended_cost
from capplan.questions.procurement.explain.alternatives import judge
from capplan.questions.procurement.program.first_stage import Model
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.work.spans import YEAR
from capplan.text import money

#: A saving below this is rounding.
NOTICEABLE_USD = 1.0


class Standing(NamedTuple):
    """The plan beside which contracts are left."""

    choices: Choices
    recourse: Recourse
    model: Model
    solution: Solution
    a: ProcurementAssumptions


def leaving_notes(
    market: Market, choices: Choices, recourse: Recourse, model: Model, solution: Solution, a: ProcurementAssumptions
) -> list[str]:
    r"""Name the contracts of which leaving some machines at a quarter's start saves money beside this plan.

    .. math:: \max_m\; (1-e)\,p\,m - [C(x; K - m) - C(x; K)]

    with p what a machine still owes from then on, within the time that the plan counts, e the exit cost and C the risk-weighted cost of
    use for what the
    plan buys; buying otherwise could save more, so that the saving is a least one. Contracts that give capacity and that the plan does not
    renew are looked
    at, unless a spend agreement runs with their provider. A contract whose day of notice is past can no longer be left.
    """
    lots = model.lots(solution.x).round()
    renewed = set(choices.table["offer_id"][lots > 0])
    agreed, notes = {year.provider for year in model.years}, []
    for holding in market.holdings.to_dict("records"):
        early = holding["kind"] == "contract" and holding["role"] == "full" and holding["exit_cost_share"] < 1
        if early and f"renew {holding['name']}" not in renewed and holding["provider"] not in agreed:
            notes += _leaving(holding, Standing(choices, recourse, model, solution, a))
    return notes


def _leaving(holding: dict[Any, Any], plan: Standing) -> list[str]:
    """Say of how many machines of a contract, and from when on, leaving saves most, and how much at least."""
    timeline, notice, rows, a = plan.choices.timeline, holding["notice_date"], plan.recourse.rows, plan.a
    told = pd.Timestamp(a.as_of) + pd.Timedelta(days=a.approval_days)
    possible = [q for q, day in enumerate(timeline.starts[: timeline.planned]) if holding["start"] <= day < holding["end"] and told <= day]
    own = np.flatnonzero((rows["kind"] == "committed") & (rows["pool"] == holding["pool"]))
    if not possible or not len(own) or (not pd.isna(notice) and notice < pd.Timestamp(a.as_of)):
        return []
    found = [(*_best_left(holding, timeline.starts[q], int(own[0]), plan), timeline.starts[q]) for q in possible]
    saved, left, exit_usd, day = max(found, key=lambda each: each[0])
    if left == 0 or saved < NOTICEABLE_USD:
        return []
    until = f", with notice by {notice:%Y-%m-%d}" if not pd.isna(notice) else ""
    return [
        f"Leaving {left} of {holding['machines']:g} machines of {holding['name']} on {day:%Y-%m-%d}{until} saves at least {money(saved)}, "
        f"its exit cost of {money(exit_usd)} paid."
    ]


def _best_left(holding: dict[Any, Any], day: pd.Timestamp, row: int, plan: Standing) -> tuple[float, int, float]:
    """Return the most that leaving some machines of a contract on a day saves, how many they are, and what leaving them costs."""
    choices, recourse, model, solution, a = plan
    timeline, span = choices.timeline, (pd.Series([day]), pd.Series([holding["end"]]))
    per_machine = holding["accelerators"] / holding["machines"] * choices.spans.covered(*span)[0][recourse.span]
    counted = timeline.planned + YEAR * (len(choices.spans.quarter) - choices.spans.planned)
    hours = float((timeline.covered(*span)[0] * timeline.hours * timeline.discount)[:counted].sum())
    owed = hours * holding["usd_per_hour"] / holding["machines"] * (1 - holding["prepaid_share"])

    @cache
    def cost(machines: int) -> float:
        h = model.program.h.copy()
        h[:, row] -= machines * per_machine
        value = judge(replace(model.program, h=h), solution, a).evaluate(solution.x).cost_by_scenario
        return (
            blended_cost(value, model.program.probability, a.risk_weight, a.tail_share) - (1 - holding["exit_cost_share"]) * owed * machines
        )

    # Cost is convex in what is left.
    low, high = 0, int(holding["machines"])
    while high - low > 2:
        one, two = low + (high - low) // 3, high - (high - low) // 3
        low, high = (low, two) if cost(one) <= cost(two) else (one, high)
    best = min(range(low, high + 1), key=cost)
    return cost(0) - cost(best), best, holding["exit_cost_share"] * owed * best
