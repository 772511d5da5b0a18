"""What is owed under contracts, what they cost over their lives, and what machines may bring at their end."""

from collections.abc import Mapping

import pandas as pd

from capplan.book.scenario import LedgerAssumptions
from capplan.quantiles import weighted_quantiles
from capplan.questions.ledger.schedules import Entry
from capplan.questions.ledger.work_costs import HELD
from capplan.units import ROUNDING, fiscal_year, quarter_hours, quarter_of, quarter_start

#: Components that differ from path to path, as the cost table of a purchase plan names them.
BY_PATH = ("on_demand", "spot", "api", "late_delivery")
QUANTILES = (0.1, 0.5, 0.9)
#: Components that are owed by contract, whatever happens.
OWED = ("commitment", "left_early", "exit_cost", "purchase", "capex", "running", "support", "space", "agreement_shortfall")


def contract_table(
    entries: list[Entry], frame: pd.DataFrame, commitments: pd.DataFrame, as_of: pd.Timestamp, end: pd.Timestamp
) -> pd.DataFrame:
    """Sum every contract up over its life, and say what leaving it would cost today."""
    bound = frame[frame["status"].isin(["signed", "firm", "indicative"])]
    wide = bound.pivot_table(index=["contract_id", "status"], columns="view", values="usd", aggfunc="sum", fill_value=0.0)
    for view in ("cash", "billed", "p_and_l", "economic"):
        wide[view] = wide.get(view, 0.0)
    cash = pd.DataFrame(
        [(e.contract_id, e.status, e.date, e.usd) for e in entries if e.view == "cash"], columns=["contract_id", "status", "date", "usd"]
    )
    sums = {
        name: cash[chosen].groupby(["contract_id", "status"])["usd"].sum().reindex(wide.index).fillna(0.0)
        for name, chosen in (
            ("paid_usd", cash["date"] < as_of),
            ("owed_usd", cash["date"] >= as_of),
            ("beyond_horizon_usd", cash["date"] >= end),
        )
    }
    result = wide.rename(columns={view: f"{view}_usd" for view in ("cash", "billed", "p_and_l", "economic")}).assign(**sums).reset_index()
    about = commitments.set_index("commitment_id")
    result["notice_date"] = pd.to_datetime(result["contract_id"].map(about["notice_date"]))
    result["exit_cost_usd"] = result["contract_id"].map(about["exit_cost_share"]).astype(float) * result["owed_usd"]
    result.columns.name = None
    order = (
        "contract_id status cash_usd billed_usd p_and_l_usd economic_usd paid_usd owed_usd beyond_horizon_usd notice_date exit_cost_usd"
    ).split()
    return result[order]


def obligation_table(entries: list[Entry], as_of: pd.Timestamp, end: pd.Timestamp, a: LedgerAssumptions) -> pd.DataFrame:
    """List what is still to be paid under contracts, by fiscal year, as far as they reach."""
    rows = [
        (fiscal_year(e.date, a.fiscal_year_first_month), e.status, e.component, e.contract_id, e.usd, e.date >= end)
        for e in entries
        if e.view == "cash"
        and e.date >= as_of
        and ((e.status in ("signed", "firm") and e.component in OWED) or e.component == "agreement_shortfall")
    ]
    keys = ["fiscal_year", "status", "component", "contract_id", "beyond_horizon"]
    frame = pd.DataFrame(rows, columns=["fiscal_year", "status", "component", "contract_id", "usd", "beyond_horizon"])
    return frame.groupby(keys, as_index=False)["usd"].sum()


def residual_table(entries: list[Entry], assets: pd.DataFrame, a: LedgerAssumptions) -> pd.DataFrame:
    """Give the band in which owned machines may be sold at the end of their life."""
    price: dict[str, float] = {}
    for e in entries:
        if e.component == "capex" and e.view == "cash":
            price[e.contract_id] = price.get(e.contract_id, 0.0) + e.usd
    stated = dict(zip(assets["asset_id"], assets["residual_share"], strict=True))
    rows = []
    last = {e.contract_id: e.date for e in entries if e.component == "depreciation"}
    for name in sorted(price):
        share = float(stated.get(name, a.residual_share))
        low, high = max(0.0, share - a.residual_band_share), min(1.0, share + a.residual_band_share)
        rows.append((name, last[name], low * price[name], share * price[name], high * price[name]))
    return pd.DataFrame(rows, columns=["contract_id", "month", "low_usd", "expected_usd", "high_usd"])


def idle_table(
    frame: pd.DataFrame, pools: Mapping[str, tuple[str, str, bool]], capacity: pd.DataFrame, dispatch: pd.DataFrame, a: LedgerAssumptions
) -> pd.DataFrame:
    r"""Say how much of what is paid for in any case is used, and what the unused part costs.

    .. math:: \text{unused} = E\,\Big(1 - \frac{H_\text{used}}{H_\text{held}}\Big)

    Args:
        frame: Ledger entries, with quarters.
        pools: What each contract and asset holds; what only discounts use holds nothing and is not here.
        capacity: quarter, provider, accelerator, accelerators, and share where they are there in a part of the quarter only: what is surely
            there.
        dispatch: quarter, source, provider, accelerator, expected_accelerator_hours.
        a: Hours of a quarter.

    Returns:
        DataFrame: quarter, provider, accelerator, held_accelerator_hours, used_accelerator_hours, used_share, p_and_l_usd : E, unused_usd,
            usd_per_used_accelerator_hour.
    """
    keys = ["quarter", "provider", "accelerator"]
    hours = capacity["quarter"].map(lambda label: quarter_hours(label, a.hours_convention)).astype(float)
    share = capacity.get("share", 1.0)
    held = (capacity["accelerators"] * share * hours).groupby([capacity[key] for key in keys]).sum()
    used = dispatch[dispatch["source"] == "committed"].groupby(keys)["expected_accelerator_hours"].sum()
    table = pd.DataFrame({"held_accelerator_hours": held, "used_accelerator_hours": used}).astype(float).fillna(0.0)
    table = table[table["held_accelerator_hours"] > 0]
    whole = (table["held_accelerator_hours"] - table["used_accelerator_hours"]).abs() <= ROUNDING
    table["used_accelerator_hours"] = table["held_accelerator_hours"].where(whole, table["used_accelerator_hours"])
    expense = frame[(frame["view"] == "p_and_l") & frame["component"].isin(HELD)]
    machines = pd.DataFrame([(name, *pool[:2]) for name, pool in pools.items() if pool[2]], columns=["contract_id", *keys[1:]])
    expense = expense.drop(columns="provider").merge(machines, on="contract_id", how="inner").groupby(keys)["usd"].sum()
    table["p_and_l_usd"] = expense.reindex(table.index).fillna(0.0)
    table.insert(2, "used_share", (table["used_accelerator_hours"] / table["held_accelerator_hours"]).clip(upper=1.0))
    table["unused_usd"] = table["p_and_l_usd"] * (1 - table["used_share"])
    table["usd_per_used_accelerator_hour"] = table["p_and_l_usd"] / table["used_accelerator_hours"].where(
        table["used_accelerator_hours"] > 0
    )
    return table.reset_index()


def spend_band(frame: pd.DataFrame, costs: pd.DataFrame, quarters: list[str], first_month: int) -> pd.DataFrame:
    r"""Say between which sums P&L spend lies, by quarter, by fiscal year and in all.

    .. math:: E_{pq} = F_q + \sum_{k} c_{pqk}

    F is everything in the ledger that is the same on all paths; c is what is paid by use on a path. Imputed shortfall is in neither.
    A quarter that two fiscal years share is divided by its months, as a budget is.

    Args:
        frame: Ledger entries, with quarters.
        costs: path, probability, quarter, component, usd: the cost table of a purchase plan.
        first_month: Month of the year in which a fiscal year begins.

    Returns:
        DataFrame: period (a quarter, a fiscal year, or all), quantile (0.1, 0.5, 0.9), usd.
    """
    if costs.empty:
        return pd.DataFrame(columns=["period", "quantile", "usd"])
    expense = frame[(frame["view"] == "p_and_l") & ~frame["component"].isin(BY_PATH)]
    expense = expense[expense["quarter"].isin(quarters)]
    fixed = pd.concat([expense.groupby(period)["usd"].sum() for period in ("quarter", "fiscal_year")])
    used = costs[costs["component"].isin(BY_PATH)].pivot_table(index="path", columns="quarter", values="usd", aggfunc="sum")
    used = used.reindex(columns=quarters).fillna(0.0)
    months = [month for quarter in quarters for month in pd.date_range(quarter_start(quarter), periods=3, freq="MS")]
    years = pd.crosstab([quarter_of(month) for month in months], [fiscal_year(month, first_month) for month in months]) / 3
    used = used.join(used @ years.loc[quarters])
    used = (used + fixed.reindex(used.columns).fillna(0.0)).assign(all=lambda table: table[quarters].sum(axis=1))
    probability = costs.drop_duplicates("path").set_index("path")["probability"].reindex(used.index).to_numpy(float)
    rows = []
    for period in used.columns:
        values = weighted_quantiles(used[period].to_numpy(float), probability, QUANTILES)
        rows += [(period, quantile, float(value)) for quantile, value in zip(QUANTILES, values, strict=True)]
    return pd.DataFrame(rows, columns=["period", "quantile", "usd"])
