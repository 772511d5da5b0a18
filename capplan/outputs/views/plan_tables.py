"""Money of a plan as tables: spend against budget, cash, fiscal years, obligations, teams, prices that are old."""

from itertools import pairwise

import numpy as np
import pandas as pd

from capplan.answers.finished_plan import Plan, told_once
from capplan.answers.sums import LATER, cash, quarters_of, spend, spend_bands
from capplan.questions.ledger.schedules import month_shares
from capplan.records import word_list
from capplan.text import words
from capplan.units import fiscal_year, quarter_end, quarter_of, quarter_start

#: The sum of all rows.
TOTAL = "total"
FISCAL_YEARS = word_list("p_and_l_amount p10_amount p90_amount last_plan_amount budget_amount over_amount cash_amount capex_amount months")


@told_once
def fiscal_years(plan: Plan, last: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the P&L of the planned quarters by fiscal year against the last plan and the budget, and the cash and capex of each year.

    A budget, or a last plan, of a quarter that two fiscal years share is divided by its months.

    Args:
        last: quarter, expected of the plan before this one (book's currency).

    Returns:
        DataFrame: fiscal_year (and `later`: what is paid after the planned quarters; and `total`), p_and_l_amount, p10_amount, p90_amount,
            last_plan_amount, budget_amount (each missing where a month has none), over_amount (over the budget), cash_amount and
            capex_amount (from the day of the plan on), months.
    """
    a, quarters = plan.scenario, quarters_of(plan)
    months = pd.date_range(quarter_start(quarters[0]), quarter_end(quarters[-1]), freq="MS", inclusive="left")
    table = pd.DataFrame({"month": months, "fiscal_year": [fiscal_year(month, a.fiscal_year_first_month) for month in months]})
    rows = plan.ledger.entries[plan.ledger.entries["view"] == "p_and_l"]
    for name, column in (("p_and_l_amount", "amount"), ("p_and_l_usd", "usd")):
        table[name] = table["month"].map(rows.groupby("month")[column].sum()).fillna(0.0)
    quarterly = {"budget_amount": spend(plan).set_index("quarter")["budget"]}
    quarterly["last_plan_amount"] = pd.Series(dtype=float) if last is None else last.set_index("quarter")["expected"]
    for name, amounts in quarterly.items():
        table[name] = table["month"].map(quarter_of).map(amounts.astype(float)) / 3
    result = _with_total(table.assign(months=1).drop(columns="month"), "fiscal_year")
    band = spend_bands(plan).rename(index={"all": TOTAL}).reindex(result.index)
    rate = (result["p_and_l_amount"] / result["p_and_l_usd"].where(result["p_and_l_usd"] != 0)).fillna(1.0)
    result = result.assign(p10_amount=band["p10"] * rate, p90_amount=band["p90"] * rate)
    paid = _with_total(cash(plan, "fiscal_year")[["fiscal_year", "total_amount", "capex_amount"]], "fiscal_year")
    years = sorted((set(result.index) | set(paid.index)) - {LATER, TOTAL})
    result = result.reindex([*years, *({LATER} & set(paid.index)), TOTAL])
    result["cash_amount"], result["capex_amount"] = paid["total_amount"], paid["capex_amount"]
    result = result.fillna(dict.fromkeys(("cash_amount", "capex_amount", "months"), 0.0))
    result["over_amount"] = result["p_and_l_amount"] - result["budget_amount"]
    return result[list(FISCAL_YEARS)].astype({"months": int}).reset_index()


def _with_total(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return sums by a key and, last, of all rows; a sum with a missing part is missing."""
    sums = table.groupby(by).agg(lambda part: part.sum(skipna=False))
    return pd.concat([sums, sums.agg(lambda part: part.sum(skipna=False)).to_frame(TOTAL).T]).rename_axis(by)


def in_plain_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the optimiser with the terms of its trade replaced, for readers who know none of them."""
    names = {
        "cvar_usd": "bad_cases_usd",
        "reduced_cost_usd": "one_more_lot_would_add_usd",
        "entry_usd_per_hour": "pays_up_to_usd_per_hour",
        "none_from_usd_per_hour": "pays_no_more_from_usd_per_hour",
        "usd_per_unit": "one_more_unit_saves_usd",
        "slack": "left",
    }
    renamed = frame.rename(columns=names).drop(columns=["objective_usd"], errors="ignore")
    if "name" in renamed:
        renamed["name"] = [words(name) for name in renamed["name"]]
    return renamed


def teams(plan: Plan) -> pd.DataFrame:
    """Return P&L spend by team over the horizon, largest first.

    Returns:
        DataFrame: team, amount (book's currency), amount_share.
    """
    rows = plan.ledger.entries
    rows = rows[(rows["view"] == "p_and_l") & rows["quarter"].isin(quarters_of(plan))]
    table = rows.groupby("team", as_index=False)["amount"].sum().sort_values("amount", ascending=False, ignore_index=True)
    return table.assign(amount_share=table["amount"] / table["amount"].sum())


def stale_prices(plan: Plan) -> pd.DataFrame:
    """Return the prices the plan rests on that are older than they should be.

    Returns:
        DataFrame: offer_id, provider, accelerator, term, effective_usd_per_accelerator_hour.
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


def at_moments(capacity: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return what is there in each stretch in which nothing changes: quarter, begin, end (shares of it), the keys, accelerators.

    Args:
        capacity: As in `answer.Purchases.capacity`; its rows of one quarter may begin and end on different days.
        keys: What is told apart; the rest is added up.
    """
    columns = ["quarter", "begin", "end", *keys, "accelerators"]
    if capacity.empty:
        return pd.DataFrame(columns=columns)
    first = capacity["quarter"].map(quarter_start)
    days = (capacity["quarter"].map(quarter_end) - first).dt.days
    begin = (capacity["starts"] - first).dt.days / days
    rows = capacity.assign(begin=begin, end=((capacity["ends"] - first).dt.days + 1) / days)
    found = []
    for quarter, part in rows.groupby("quarter", sort=False):
        edges = sorted({0.0, 1.0, *part["begin"], *part["end"]})
        for start, stop in pairwise(edges):
            there = part[(part["begin"] <= start) & (part["end"] >= stop)].groupby(keys, as_index=False)["accelerators"].sum()
            found.append(there.assign(quarter=quarter, begin=start, end=stop))
    return pd.concat(found, ignore_index=True)[columns]


@told_once
def planned_work(plan: Plan, workloads: pd.DataFrame) -> pd.DataFrame:
    r"""Return the work that the plan expects by month, with the 90 % band of its forecast.

    A quarter's expectation is divided among its months as their medians are, or by days where the demand is stated by quarter; the band
    is the month's, or the quarter's so divided.

    Args:
        workloads: Table workloads: what is planned together is one class of work.

    Returns:
        DataFrame: workload, class, region, month, expected, low, high (workload unit).
    """
    keys = ["workload", "region", "quarter"]
    paths, forecast = plan.forecast.paths, plan.forecast
    expected = paths.assign(expected=paths["quantity"] * paths["probability"]).groupby(keys, as_index=False)["expected"].sum()
    wide = forecast.quantiles.pivot_table(index=keys, columns="quantile", values="quantity")
    band = pd.DataFrame({"low_quarter": wide[min(wide)], "high_quarter": wide[max(wide)]}).reset_index()
    months = pd.DataFrame(
        [
            (label, month, share)
            for label in quarters_of(plan)
            for month, share in month_shares(quarter_start(label), quarter_end(label) - pd.Timedelta(days=1))
        ],
        columns=["quarter", "month", "days_share"],
    )
    table = expected.merge(band, on=keys, how="left").merge(months, on="quarter")
    if len(forecast.months):
        own = forecast.months.pivot_table(index=["workload", "region", "month"], columns="quantile", values="quantity")
        middle = min(own, key=lambda level: abs(level - 0.5))
        known = pd.DataFrame({"low": own[min(own)], "high": own[max(own)], "middle": own[middle]}).reset_index()
        table = table.merge(known, on=["workload", "region", "month"], how="left")
    else:
        table = table.assign(low=np.nan, high=np.nan, middle=np.nan)
    part = (table["middle"] / table.groupby(keys)["middle"].transform("sum")).where(lambda share: share.notna(), table["days_share"])
    for name in ("low", "high"):
        table[name] = table[name].fillna(table[f"{name}_quarter"] * part)
    table["expected"] *= part
    hosted = workloads[workloads["host"] != "api"].set_index("workload")["work_class"].dropna().to_dict()
    table["class"] = [hosted.get(name, name) for name in table["workload"]]
    columns = ["workload", "class", "region", "month", "expected", "low", "high"]
    return table[columns].sort_values(["workload", "region", "month"], ignore_index=True)
