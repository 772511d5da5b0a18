"""The decision alone: from tables to a solved program, without its explanation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.inputs.scenario import ProcurementAssumptions
from capplan.optimize.program import Solution
from capplan.questions.procurement.budgets import solve_within_budgets
from capplan.questions.procurement.choices import Choices, list_choices
from capplan.questions.procurement.explain import feasible
from capplan.questions.procurement.limits import known_limits
from capplan.questions.procurement.market import Market, build_market
from capplan.questions.procurement.model import Model, build_model
from capplan.questions.procurement.recourse import Recourse, build_recourse
from capplan.questions.procurement.tables import purchase_table
from capplan.questions.procurement.work import Work, lay_out, named_places


@dataclass(frozen=True)
class Decided:
    """A solved purchase program: what it was built from, its solution, whole lots, and the purchases."""

    market: Market
    choices: Choices
    work: Work
    recourse: Recourse
    model: Model
    solution: Solution
    lots: np.ndarray
    purchases: pd.DataFrame


def decide(
    demand: pd.DataFrame,
    speeds: pd.DataFrame,
    offers: pd.DataFrame,
    commitments: pd.DataFrame | None,
    limits: pd.DataFrame | None,
    a: ProcurementAssumptions,
    *,
    classes: pd.DataFrame,
    skus: pd.DataFrame,
    assets: pd.DataFrame | None = None,
    sites: pd.DataFrame | None = None,
) -> Decided:
    """Build and solve the purchase program; the arguments are those of `plan_purchases`."""
    caps = known_limits(limits, sites)
    runs = speeds.loc[speeds["class"].isin(demand["class"]), "accelerator"]
    market = build_market(offers, skus, commitments, assets, sites, runs, named_places(demand, classes, caps), a)
    choices = list_choices(market, sites, a)
    work = lay_out(demand, speeds, classes, market, choices.timeline, a)
    recourse = build_recourse(work, market, choices, caps, a)
    model = build_model(work, market, choices, recourse, caps, a)
    feasible(model)
    solution = solve_within_budgets(model.program, model.soft, a.risk_weight, a.tail_share, a.gap_share)
    lots = model.lots(solution.x).round()
    return Decided(market, choices, work, recourse, model, solution, lots, purchase_table(choices, lots))
