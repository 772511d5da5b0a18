"""Sums of a finished plan in the book's currency: quarters, P&L against the budget, what is owed, amounts at the ledger's rates."""

import pandas as pd

from capplan.answers.finished_plan import Plan, told_once
from capplan.book.currencies import Currency
from capplan.questions.ledger.summaries import OWED
from capplan.units import fiscal_year, over_limit, quarter_end, quarter_of, quarter_range

#: What is paid after the planned quarters.
LATER = "later"
#: Component of the ledger -> column of cash.
CASH_KINDS = {
    **dict.fromkeys(("capex", "residual"), "capex_amount"),
    **dict.fromkeys(("commitment", "purchase", "agreement_shortfall"), "contracts_amount"),
    **dict.fromkeys(("on_demand", "spot", "api", "egress", "agreement_discount", "late_delivery", "use_before_plan"), "usage_amount"),
    **dict.fromkeys(("tokens", "tokens_before_plan"), "model_apis_amount"),
}
CASH_COLUMNS = ["capex_amount", "contracts_amount", "usage_amount", "model_apis_amount", "other_amount"]


def quarters_of(plan: Plan) -> list[str]:
    """Return the planned quarters."""
    return quarter_range(plan.scenario.first_quarter, plan.scenario.horizon_quarters)


@told_once
def spend(plan: Plan) -> pd.DataFrame:
    """Return P&L spend by quarter with its band, against the budget.

    Returns:
        DataFrame: quarter, expected, p10, p50, p90, budget (the tightest P&L budget of the company; missing where there is none), over
            (expected less budget, which is what the decision is held to; in the book's currency).
    """
    quarters = quarters_of(plan)
    rows = plan.ledger.entries[plan.ledger.entries["view"] == "p_and_l"]
    expected = rows.groupby("quarter")[["usd", "amount"]].sum().reindex(quarters, fill_value=0.0)
    rate = (expected["amount"] / expected["usd"].where(expected["usd"] != 0)).fillna(1.0)
    table = spend_bands(plan).reindex(quarters).mul(rate, axis=0).rename_axis("quarter")
    table.insert(0, "expected", expected["amount"])
    table["budget"] = company_budgets(plan)["budget_amount"].reindex(quarters)
    table["over"] = over_limit(table["expected"], table["budget"])
    return table.reset_index()


@told_once
def spend_bands(plan: Plan) -> pd.DataFrame:
    """Return p10, p50 and p90 of P&L spend in dollars; the index is the period: a quarter, a fiscal year, or all."""
    band = plan.ledger.band
    wide = band.assign(level=[f"p{100 * level:.0f}" for level in band["quantile"]]).pivot(index="period", columns="level", values="usd")
    return wide.reindex(columns=["p10", "p50", "p90"]).rename_axis(columns=None)


@told_once
def company_budgets(plan: Plan) -> pd.DataFrame:
    """Return the tightest P&L budget of the company by quarter: limit_id, budget_usd, budget_amount (book's currency)."""
    budgets = plan.ledger.budgets
    whole = budgets[(budgets["measure"] == "p_and_l") & budgets["team"].eq("") & budgets["provider"].eq("")]
    return whole.sort_values("budget_usd").groupby("quarter")[["limit_id", "budget_usd", "budget_amount"]].first()


def usd_rates(plan: Plan) -> pd.Series:
    """Return US dollars for one unit of the book's currency by month, as the ledger was booked: 1 in a book in dollars."""
    sums = plan.ledger.entries[plan.ledger.entries["amount"] != 0].assign(rate=lambda rows: rows["usd"] / rows["amount"])
    return sums.groupby("month")["rate"].median()


def plan_currency(plan: Plan) -> Currency:
    """Return the book's currency at the rate of the day of the plan."""
    rate = in_currency(plan, pd.Series([1.0]), pd.Timestamp(plan.scenario.as_of)).iloc[0]
    return Currency(plan.scenario.currency, 1.0 / float(rate))


def in_currency(plan: Plan, usd: pd.Series, days: pd.Series | pd.Timestamp) -> pd.Series:
    """Convert dollars to the book's currency at the rates of some days; a day without one takes the rate before it, or the first one."""
    if plan.scenario.currency == "USD":
        return usd.astype(float)
    rates = usd_rates(plan)
    wanted = pd.to_datetime(pd.Series(days, index=usd.index)).dt.to_period("M").dt.to_timestamp()
    place = rates.index.searchsorted(wanted, side="right") - 1
    return usd.astype(float) / rates.to_numpy()[place.clip(min=0)]


def obligations(plan: Plan) -> pd.DataFrame:
    """Return what is owed by fiscal year: signed already, firm in this plan, and how much of it lies beyond the horizon.

    Returns:
        DataFrame: fiscal_year, signed_amount, firm_amount, beyond_horizon_amount (book's currency).
    """
    rows = plan.ledger.payments[plan.ledger.payments["date"] >= pd.Timestamp(plan.scenario.as_of)]
    rows = rows[rows["status"].isin(["signed", "firm"]) & rows["component"].isin(OWED)].copy()
    rows["amount"] = in_currency(plan, rows["usd"], rows["date"])
    after = quarter_end(quarters_of(plan)[-1])
    parts = pd.DataFrame(
        {
            "fiscal_year": [fiscal_year(day, plan.scenario.fiscal_year_first_month) for day in rows["date"]],
            "signed_amount": rows["amount"].where(rows["status"] == "signed", 0.0),
            "firm_amount": rows["amount"].where(rows["status"] == "firm", 0.0),
            "beyond_horizon_amount": rows["amount"].where(rows["date"] >= after, 0.0),
        }
    )
    return parts.groupby("fiscal_year", as_index=False)[["signed_amount", "firm_amount", "beyond_horizon_amount"]].sum()


@told_once
def cash(plan: Plan, by: str = "quarter") -> pd.DataFrame:
    """Return all that leaves the bank from the day of the plan on: capex less what machines are sold for, contracts, usage, APIs, the rest.

    Args:
        by: quarter or fiscal_year.

    Returns:
        DataFrame: quarter or fiscal_year (`later` is what is paid after the last planned one), and amounts in the book's currency: capex,
            contracts, usage, model_apis, other, total. The total of the column is all cash still to be paid.
    """
    rows = plan.ledger.payments[plan.ledger.payments["date"] >= pd.Timestamp(plan.scenario.as_of)].copy()
    rows["amount"] = in_currency(plan, rows["usd"], rows["date"])
    after = quarter_end(quarters_of(plan)[-1])
    first_month = plan.scenario.fiscal_year_first_month
    if by == "quarter":
        rows["label"] = [quarter_of(day) if day < after else LATER for day in rows["date"]]
    else:
        rows["label"] = [fiscal_year(day, first_month) if day < after else LATER for day in rows["date"]]
    rows["kind"] = rows["component"].map(CASH_KINDS).where(rows["status"] != "stated").fillna("other_amount")
    table = rows.groupby(["label", "kind"])["amount"].sum().unstack(fill_value=0.0).reindex(columns=CASH_COLUMNS, fill_value=0.0)
    return table.assign(total_amount=table.sum(axis=1)).rename_axis(index=by, columns=None).reset_index()
