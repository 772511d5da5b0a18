"""The tables of page one, drawn from a plan: what to sign, spend against budget, cash, obligations, coverage, teams."""

from __future__ import annotations

import numpy as np
import pandas as pd

from capplan.answers.plan import Plan
from capplan.text import words
from capplan.units import quarter_range


def quarters_of(plan: Plan) -> list[str]:
    """Return the planned quarters."""
    return quarter_range(plan.scenario.first_quarter, plan.scenario.horizon_quarters)


def approver_of(usd: float, approvers: tuple[tuple[str, float], ...]) -> str:
    """Return the first role that may sign so much; the last one signs what is above all limits.

    Examples
    --------
    >>> approver_of(300_000, (("head", 250_000), ("board", 1e12)))
    'board'
    """
    return next((role for role, limit in approvers if usd <= limit), approvers[-1][0] if approvers else "")


def decisions(plan: Plan) -> pd.DataFrame:
    """Return the purchases as decisions to sign, the firm ones first.

    Returns
    -------
    DataFrame
        firm, sign_by, approver, machines, accelerators, accelerator, provider, region, term, quarter, end_quarter, upfront_usd, usd (whole contract),
        exit_usd (what leaving on the first day of service would still cost), offer_id.
    """
    table = plan.purchases.purchases.sort_values(["firm", "sign_by", "offer_id"], ascending=[False, True, True]).reset_index(drop=True)
    table["approver"] = [approver_of(usd, plan.scenario.approvers) for usd in table["usd"]]
    # offers state no exit right, so a contract is owed in full; a machine can be sold for what the scenario says it keeps
    kept = 1.0 - plan.scenario.residual_share
    table["exit_usd"] = np.where(table["term"] == "owned", table["upfront_usd"] * kept, table["usd"])
    columns = [
        "firm",
        "sign_by",
        "approver",
        "machines",
        "accelerators",
        "accelerator",
        "provider",
        "region",
        "term",
        "quarter",
        "end_quarter",
    ]
    return table[[*columns, "upfront_usd", "usd", "exit_usd", "offer_id"]]


def spend(plan: Plan) -> pd.DataFrame:
    """Return P&L spend by quarter with its band, against the budget.

    Returns
    -------
    DataFrame
        quarter, expected, p10, p50, p90, budget (the tightest P&L budget of the company; missing where there is none), over_p50 (in the book's currency).
    """
    quarters = quarters_of(plan)
    rows = plan.ledger.entries[plan.ledger.entries["view"] == "p_and_l"]
    expected = rows.groupby("quarter")[["usd", "amount"]].sum().reindex(quarters, fill_value=0.0)
    rate = (expected["amount"] / expected["usd"].where(expected["usd"] != 0)).fillna(1.0)
    band = plan.ledger.band[plan.ledger.band["quarter"].isin(quarters)]
    wide = band.assign(quantile=[f"p{100 * level:.0f}" for level in band["quantile"]]).pivot_table(
        index="quarter", columns="quantile", values="usd"
    )
    table = wide.reindex(quarters)[["p10", "p50", "p90"]].mul(rate, axis=0).rename_axis(columns=None)
    table.insert(0, "expected", expected["amount"])
    budgets = plan.ledger.budgets
    whole = budgets[(budgets["measure"] == "p_and_l") & budgets["team"].fillna("").eq("")]
    table["budget"] = whole.groupby("quarter")["budget_usd"].min().reindex(quarters) * rate
    table["over_p50"] = table["p50"] - table["budget"]
    return table.reset_index()


def cash(plan: Plan) -> pd.DataFrame:
    """Return what leaves the bank by quarter: capex, contracts, usage, the rest.

    Returns
    -------
    DataFrame
        quarter, capex, contracts, usage, other, total (in the book's currency).
    """
    kinds = {
        **dict.fromkeys(("capex",), "capex"),
        **dict.fromkeys(("commitment", "purchase", "agreement_shortfall"), "contracts"),
        **dict.fromkeys(("on_demand", "spot", "api", "agreement_discount"), "usage"),
    }
    rows = plan.ledger.entries[plan.ledger.entries["view"] == "cash"]
    table = (
        rows.assign(kind=rows["component"].map(kinds).fillna("other")).groupby(["quarter", "kind"])["amount"].sum().unstack(fill_value=0.0)
    )
    table = table.reindex(index=quarters_of(plan), columns=["capex", "contracts", "usage", "other"], fill_value=0.0)
    return table.assign(total=table.sum(axis=1)).rename_axis(columns=None).reset_index()


def obligations(plan: Plan) -> pd.DataFrame:
    """Return what is owed by fiscal year: signed already, firm in this plan, and how much of it lies beyond the horizon.

    Returns
    -------
    DataFrame
        fiscal_year, signed_usd, firm_usd, beyond_horizon_usd.
    """
    rows = plan.ledger.obligations
    rows = rows[rows["status"].isin(["signed", "firm"])]
    usd = rows["usd"].astype(float)
    parts = pd.DataFrame(
        {
            "fiscal_year": rows["fiscal_year"],
            "signed_usd": usd.where(rows["status"] == "signed", 0.0),
            "firm_usd": usd.where(rows["status"] == "firm", 0.0),
            "beyond_horizon_usd": usd.where(rows["beyond_horizon"].astype(bool), 0.0),
        }
    )
    return parts.groupby("fiscal_year", as_index=False)[["signed_usd", "firm_usd", "beyond_horizon_usd"]].sum()


def notices(plan: Plan) -> pd.DataFrame:
    """Return signed contracts that must be given notice, or renew, after the day of the plan; the first date first.

    Returns
    -------
    DataFrame
        contract_id, notice_date, owed_usd (still to be paid), exit_usd (what leaving today would cost).
    """
    rows = plan.ledger.contracts
    open_ = rows[rows["notice_date"].notna() & (rows["notice_date"] >= pd.Timestamp(plan.scenario.as_of))]
    table = open_.rename(columns={"exit_cost_usd": "exit_usd"})[["contract_id", "notice_date", "owed_usd", "exit_usd"]]
    return table.sort_values("notice_date", ignore_index=True)


def in_plain_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the optimiser with the terms of its trade replaced, for readers who know none of them."""
    names = {
        "cvar_usd": "bad_cases_usd",
        "reduced_cost_usd": "one_more_lot_would_add_usd",
        "entry_usd_per_hour": "taken_from_usd_per_hour",
        "usd_per_unit": "one_more_unit_saves_usd",
        "slack": "left",
    }
    renamed = frame.rename(columns=names).drop(columns=["objective_usd"], errors="ignore")
    if "name" in renamed:
        renamed["name"] = [words(name) for name in renamed["name"]]
    return renamed


def coverage(plan: Plan) -> pd.DataFrame:
    """Return, by quarter, how much of the work contracts cover, how well they are used, and what an hour costs.

    Returns
    -------
    DataFrame
        quarter, coverage_share (accelerator-hours on contracts over all), used_share (of the hours paid for in any case),
        usd_per_accelerator_hour (P&L of compute per hour that did work).
    """
    ran = plan.purchases.dispatch
    hours = ran[ran["source"] != "shortfall"].groupby(["quarter", "source"])["expected_accelerator_hours"].sum().unstack(fill_value=0.0)
    total = hours.sum(axis=1)
    idle = plan.ledger.idle.groupby("quarter")[["held_accelerator_hours", "used_accelerator_hours", "p_and_l_usd"]].sum()
    by_use = ran[ran["source"].isin(["on_demand", "spot"])].groupby("quarter")["expected_usd"].sum()
    table = pd.DataFrame(index=quarters_of(plan))
    committed = hours["committed"] if "committed" in hours else pd.Series(0.0, index=hours.index)
    table["coverage_share"] = committed / total
    table["used_share"] = idle["used_accelerator_hours"] / idle["held_accelerator_hours"]
    table["usd_per_accelerator_hour"] = (
        idle["p_and_l_usd"].reindex(table.index).fillna(0.0) + by_use.reindex(table.index).fillna(0.0)
    ) / total
    return table.rename_axis("quarter").reset_index()


def teams(plan: Plan) -> pd.DataFrame:
    """Return P&L spend by team over the horizon, largest first.

    Returns
    -------
    DataFrame
        team, amount (book's currency), amount_share.
    """
    rows = plan.ledger.entries
    rows = rows[(rows["view"] == "p_and_l") & rows["quarter"].isin(quarters_of(plan))]
    table = rows.groupby("team", as_index=False)["amount"].sum().sort_values("amount", ascending=False, ignore_index=True)
    return table.assign(amount_share=table["amount"] / table["amount"].sum())


def unit_costs(plan: Plan) -> pd.DataFrame:
    """Return what a unit of each class of work costs in compute, over the horizon.

    Committed hours carry the mean P&L cost of the contracts on their accelerator at their provider.

    Returns
    -------
    DataFrame
        class, work (expected, in the class's unit), usd, usd_per_thousand_units, served_share.
    """
    held = plan.ledger.idle.set_index(["quarter", "provider", "accelerator"])
    rate = held["p_and_l_usd"] / held["used_accelerator_hours"].where(held["used_accelerator_hours"] > 1e-6)
    ran = plan.purchases.dispatch.merge(rate.rename("rate").reset_index(), how="left", on=["quarter", "provider", "accelerator"])
    on_contract = ran["source"] == "committed"
    ran["usd"] = np.where(on_contract, ran["rate"].fillna(0.0) * ran["expected_accelerator_hours"], ran["expected_usd"])
    paid = ran[ran["source"] != "shortfall"].groupby("class", as_index=False)[["expected_work", "usd"]].sum()
    paid["usd_per_thousand_units"] = 1000 * paid["usd"] / paid["expected_work"].where(paid["expected_work"] > 0)
    weight = plan.purchases.costs.groupby("path")["probability"].first()
    service = plan.purchases.service
    service = service.assign(weight=service["path"].map(weight))
    totals = (service[["demanded", "served"]].mul(service["weight"], axis=0)).groupby(service["class"]).sum()
    paid["served_share"] = paid["class"].map(totals["served"] / totals["demanded"].where(totals["demanded"] > 0))
    return paid.rename(columns={"expected_work": "work"})


def stale_prices(plan: Plan) -> pd.DataFrame:
    """Return the prices the plan rests on that are older than they should be.

    Returns
    -------
    DataFrame
        offer_id, provider, accelerator, term, effective_usd_per_accelerator_hour.
    """
    used = set(plan.purchases.purchases["offer_id"])
    pools = set(
        zip(plan.purchases.dispatch["provider"], plan.purchases.dispatch["accelerator"], plan.purchases.dispatch["source"], strict=True)
    )
    prices = plan.prices
    keys = list(zip(prices["provider"], prices["accelerator"], prices["term"], strict=True))
    places = prices["geography"].isin(plan.scenario.geographies) if plan.scenario.geographies else True
    wanted = prices["offer_id"].isin(used) | (pd.Series([key in pools for key in keys], index=prices.index) & places)
    columns = ["offer_id", "provider", "accelerator", "term", "effective_usd_per_accelerator_hour"]
    return prices.loc[wanted & prices["stale"], columns].reset_index(drop=True)
