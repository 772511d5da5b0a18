"""What a recommender that only looks back would sign today, in whole lots of the offers."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.portfolio import PoolTables, recommend_now
from capplan.questions.pricing import price_hours
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.work.load import Work

#: Rules that are held against the plan, as an alternative is named, with what they do.
RULES = {
    "most_savings_30_days": ("look_back_30_days", "what would have saved most over the last 30 days"),
    "target_coverage": ("look_back_coverage", "what would have covered the target share of past use"),
}


def look_back_levels(problem: Problem, market: Market, work: Work) -> pd.DataFrame:
    """Say how many accelerators each rule would commit to today; no rows where nothing was measured or the rules cannot be applied.

    Args:
        problem: Measured work and its classes (a workload that is not listed is a class of its own), demand, prices and assumptions.
        market, work: Offers that may be bought, contracts there are, and the work that is planned for.

    Returns:
        DataFrame: As `recommend_now` returns it.
    """
    usage, workloads, demand, a = problem.usage, problem.workloads, problem.demand, problem.assumptions
    if usage is None or usage.empty:
        return pd.DataFrame(columns=["rule"])
    known = workloads if workloads is not None and len(workloads) else pd.DataFrame({"workload": usage["workload"].unique()})
    mine = demand[demand["class"].isin(work.rows["class"])]
    allowed = pd.concat([market.contracts["offer_id"], market.pools["on_demand_offer"], market.pools["spot_offer"]])
    prices = price_hours(problem.skus, problem.offers, a, problem.sites, problem.offer_payments)
    prices = prices[prices["offer_id"].isin(set(allowed.dropna()))]
    missed = (work.rows["shortfall_usd"] / work.rows["fastest"]).groupby(work.rows["class"]).first()
    priced = problem.classes.assign(shortfall_usd_per_unit=problem.classes["class"].map(missed).fillna(0.0))
    try:
        return recommend_now(usage, known, mine, PoolTables(problem.speeds, prices, priced, market.holdings), a)
    except CapplanError:  # work that only machines one would buy, or a capacity block, can do: such a rule knows neither
        return pd.DataFrame(columns=["rule"])


def look_back_cases(levels: pd.DataFrame, choices: Choices, market: Market, model: Model) -> list[tuple[str, np.ndarray, str]]:
    """Turn what rules say into first stages: the nearest whole lots, from the first start there is, as far as limits leave room.

    Returns:
        list: Name of the alternative, first stage, and what it means.
    """
    cases = []
    for rule, (name, words) in RULES.items():
        said = levels[levels["rule"] == rule]
        if said.empty:
            continue
        lots = np.maximum(model.program.lower[model.position], 0.0)
        worth = said["accelerators"].to_numpy(float) * said["usd_per_accelerator_hour"].to_numpy(float)
        for row in said.iloc[np.argsort(-worth, kind="stable")].itertuples():
            j, wanted = _order(str(row.offer_id), float(row.accelerators), float(row.usd_per_accelerator_hour), choices, market)
            if j >= 0:
                lots[j] = max(lots[j], min(wanted, _room(model, lots, j)))
        lots = np.where(lots < choices.table["minimum_lots"].to_numpy(float), 0.0, lots)
        cases.append(
            (
                name,
                model.first_stage(np.maximum(lots, model.program.lower[model.position])),
                f"{words}: whole lots of the cheapest hour, signed today, nothing later",
            )
        )
    return cases


def _order(offer_id: str, accelerators: float, usd_per_hour: float, choices: Choices, market: Market) -> tuple[int, float]:
    """Return the choice that stands for so many accelerators of an offer, at its first start, and its lots; -1 if too late."""
    table, about = choices.table, market.contracts.set_index("offer_id").loc[offer_id]
    same = table["offer_id"] == offer_id
    if about["role"] == "dollars" and isinstance(about["plan_id"], str) and about["plan_id"]:
        same = table["plan_id"] == about["plan_id"]  # one offer stands for all rates of a savings plan
    found = table[same & (table["kind"] == "offer")]
    if found.empty:
        return -1, 0.0
    found = found[found["start"] == found["start"].min()]
    size = found["lot_usd_per_hour"] / usd_per_hour if about["role"] == "dollars" else found["lot_accelerators"]
    wanted = np.floor(accelerators / size.to_numpy(float) + 0.5)
    fits = found["minimum_lots"].to_numpy(float) <= wanted  # of several tiers, the one the amount falls into
    place = int(np.flatnonzero(fits)[-1]) if fits.any() else 0
    return int(found.index[place]), float(wanted[place])


def _room(model: Model, lots: np.ndarray, j: int) -> float:
    """Return how many lots of a choice its own maximum and the hard limits leave beside the others."""
    program, column = model.program, int(model.position[j])
    x = model.first_stage(lots)
    rows = model.rows["row"].to_numpy(int)
    part = program.A[rows]
    entry = part[:, [column]].toarray().ravel()
    stretches = np.asarray((part < 0).astype(float) @ np.isinf(program.upper).astype(float)).ravel() > 0
    bound = (entry > 0) & ~stretches
    left = (program.b[rows] - part @ x)[bound] / entry[bound]
    return float(np.floor(min([float(program.upper[column]) - lots[j], *left]) + 1e-9) + lots[j])
