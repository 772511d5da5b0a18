"""What work costs and how well commitments are used, in the terms of finance and of providers; every sum is the ledger's."""

import numpy as np
import pandas as pd

from capplan.answers.finished_plan import Plan, told_once
from capplan.answers.sums import quarters_of
from capplan.records import records


@told_once
def unit_costs(plan: Plan) -> pd.DataFrame:
    """Return what a unit of each class of work costs in compute over the horizon, and what of the compute P&L no work bears.

    Returns:
        DataFrame: class, about (empty for work; otherwise what it is that no work bears), work (expected, in the class's unit), amount
            (book's currency), amount_per_thousand_units, served_share. The amounts add up to the compute P&L of the ledger.
    """
    costs = plan.ledger.work_costs
    table = costs.groupby(["class", "about"], as_index=False)["amount"].sum()
    ran = plan.purchases.dispatch
    work = ran[ran["source"].isin(["committed", "on_demand", "spot", "api"])].groupby("class")["expected_work"].sum()
    table["work"] = table["class"].map(work)
    table["amount_per_thousand_units"] = 1000 * table["amount"] / table["work"].where(table["work"] > 0)
    weight = plan.purchases.costs.groupby("path")["probability"].first()
    service = plan.purchases.service
    totals = service[["demanded", "served"]].mul(service["path"].map(weight), axis=0).groupby(service["class"]).sum()
    table["served_share"] = table["class"].map(totals["served"] / totals["demanded"].where(totals["demanded"] > 0))
    table["last"] = table["class"] == ""
    table = table.sort_values(["last", "class", "about"], ignore_index=True)
    return table[["class", "about", "work", "amount", "amount_per_thousand_units", "served_share"]]


@told_once
def discounted_hours(plan: Plan) -> pd.DataFrame:
    r"""Return the hours that plans without capacity (savings plans) pay for, pool by pool.

    On demand is invoiced at its price only for what the plans do not reach, so of H hours that cost U at a price p

    .. math:: D = \max(0,\; H - U / p)

    are the plans' hours.

    Returns:
        DataFrame: quarter, provider, accelerator, eligible_accelerator_hours : H, discounted_accelerator_hours : D, p_and_l_usd (of the
            plans).
    """
    keys = ["quarter", "provider", "accelerator"]
    costs = plan.ledger.work_costs
    plans = costs[costs["basis"].str.startswith("plan ")]
    names = plans["basis"].str.removeprefix("plan ")
    plans = (
        plans.assign(provider=[name.rpartition(" ")[0] for name in names], accelerator=[name.rpartition(" ")[2] for name in names])
        .groupby(keys)["usd"]
        .sum()
    )
    ran = plan.purchases.dispatch
    used = ran[ran["source"] == "on_demand"].groupby(keys)[["expected_accelerator_hours", "expected_usd"]].sum()
    prices = plan.prices[plan.prices["term"] == "on_demand"]
    if plan.scenario.geographies:
        prices = prices[prices["geography"].isin(plan.scenario.geographies)]
    price = prices.groupby(["provider", "accelerator"])["billed_usd_per_accelerator_hour"].min()
    table = plans.rename("p_and_l_usd").to_frame().join(used).fillna(0.0).reset_index()
    each = np.array([price.get((row["provider"], row["accelerator"]), np.nan) for row in records(table)], dtype=float)
    hours, usd = table["expected_accelerator_hours"].to_numpy(float), table["expected_usd"].to_numpy(float)
    table["eligible_accelerator_hours"] = hours
    table["discounted_accelerator_hours"] = np.where(np.isfinite(each) & (each > 0), np.clip(hours - usd / each, 0.0, hours), 0.0)
    return table[[*keys, "eligible_accelerator_hours", "discounted_accelerator_hours", "p_and_l_usd"]]


@told_once
def coverage(plan: Plan) -> pd.DataFrame:
    """Return, by quarter, how much of the work commitments cover, how well they are used, and what an hour of work costs.

    Returns:
        DataFrame: quarter, coverage_share (hours on contracts and on plans that only discount, over all), capacity_share (hours on
            contracts that hold capacity, over all), used_share (of the hours held), compute_amount (P&L of compute in the ledger),
            accelerator_hours (that did work), amount_per_accelerator_hour (the one over the other).
    """
    quarters, ran = quarters_of(plan), plan.purchases.dispatch
    worked = ran[ran["source"].isin(["committed", "on_demand", "spot"])]
    hours = worked.groupby("quarter")["expected_accelerator_hours"].sum().reindex(quarters, fill_value=0.0)
    held = worked[worked["source"] == "committed"].groupby("quarter")["expected_accelerator_hours"].sum().reindex(quarters, fill_value=0.0)
    plans = discounted_hours(plan).groupby("quarter")["discounted_accelerator_hours"].sum().reindex(quarters, fill_value=0.0)
    idle = plan.ledger.idle.groupby("quarter")[["held_accelerator_hours", "used_accelerator_hours"]].sum().reindex(quarters)
    table = pd.DataFrame(index=pd.Index(quarters, name="quarter"))
    some = hours.where(hours > 0)
    table["coverage_share"] = (held + plans) / some
    table["capacity_share"] = held / some
    table["used_share"] = idle["used_accelerator_hours"] / idle["held_accelerator_hours"].where(idle["held_accelerator_hours"] > 0)
    table["compute_amount"] = plan.ledger.work_costs.groupby("quarter")["amount"].sum().reindex(quarters, fill_value=0.0)
    table["accelerator_hours"] = hours
    table["amount_per_accelerator_hour"] = table["compute_amount"] / some
    return table.reset_index()
