"""Whether the ledger agrees with the last bill, and the plan stays within its budgets."""

from __future__ import annotations

import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.ledger.currency import converted
from capplan.units import quarter_of

#: A line ties where ledger and bill differ by less than this share of the bill, or by less than a dollar.
TIES_SHARE = 0.005
TIES_USD = 1.0
#: Budget measure -> the view it is counted in.
MEASURES = {"p_and_l": "p_and_l", "cash": "cash", "capex": "cash"}


def reconcile(
    billing: pd.DataFrame, entries: pd.DataFrame, commitments: pd.DataFrame, providers: pd.Series, as_of: pd.Timestamp, fx: pd.DataFrame
) -> pd.DataFrame:
    """Hold the ledger against the last full month of the bill.

    Signed contracts must tie line by line: what was invoiced for them (bills) and what was expensed (effective cost, unused part included). What is used by
    the hour or the token is in the bill only; its line shows the run rate the plan starts from.

    Parameters
    ----------
    billing
        Table billing.
    entries
        Ledger entries.
    commitments
        Table commitments: which SKUs are under contract.
    providers
        Provider by SKU.
    as_of
        Only months that ended by then are full.
    fx
        Exchange rates, for bills in another currency.

    Returns
    -------
    DataFrame
        month, view (billed, p_and_l), provider, line, ledger_usd, bill_usd, difference_usd, ties (empty for lines that only the bill has).
    """
    columns = ["month", "view", "provider", "line", "ledger_usd", "bill_usd", "difference_usd", "ties"]
    full = billing[billing["month"] + pd.offsets.MonthEnd(0) < as_of]
    if full.empty:
        return pd.DataFrame(columns=columns)
    month = full["month"].max()
    bill = full[full["month"] == month].copy()
    for column in ("billed_cost", "effective_cost"):
        parts = [
            part[column] * (1 / converted(pd.Series(1.0, part.index), part["month"], str(name), fx))
            for name, part in bill.groupby("currency")
        ]
        bill[column] = pd.concat(parts)
    names = commitments.assign(provider=commitments["sku"].map(providers))
    bound = bill["charge_category"].eq("Purchase") | bill["pricing_category"].eq("Committed")
    rows = []
    for view, column in (("billed", "billed_cost"), ("p_and_l", "effective_cost")):
        booked = entries[(entries["view"] == view) & (entries["month"] == month) & (entries["component"] == "commitment")]
        for (provider, sku), part in names.groupby(["provider", "sku"], sort=True):
            ledger = booked.loc[booked["contract_id"].isin(part["commitment_id"]), "usd"].sum()
            charged = bill.loc[bound & (bill["provider"] == provider) & (bill["sku"] == sku), column].sum()
            if ledger or charged:
                rows.append((month, view, provider, f"{sku} under contract", ledger, charged))
        known = set(zip(names["provider"], names["sku"], strict=True))
        rest = bill[~(bound & pd.Series([key in known for key in zip(bill["provider"], bill["sku"], strict=True)], index=bill.index))]
        for (provider, service), part in rest.groupby(["provider", "service"], sort=True):
            rows.append((month, view, provider, f"{service} by use", float("nan"), part[column].sum()))
    frame = pd.DataFrame(rows, columns=columns[:-2])
    frame["difference_usd"] = frame["ledger_usd"] - frame["bill_usd"]
    close = frame["difference_usd"].abs() <= (TIES_SHARE * frame["bill_usd"].abs()).clip(lower=TIES_USD)
    frame["ties"] = close.astype(object).where(frame["ledger_usd"].notna(), None)
    return frame


def against_budgets(entries: pd.DataFrame, limits: pd.DataFrame, quarters: list[str]) -> pd.DataFrame:
    """Hold planned spend against budgets.

    Parameters
    ----------
    entries
        Ledger entries.
    limits
        Table limits; rows of the kind budget_usd.
    quarters
        Quarters that are planned.

    Returns
    -------
    DataFrame
        limit_id, quarter, measure, team, hard, budget_usd, planned_usd, over_usd (0 within the budget).

    Raises
    ------
    CapplanError
        If a budget has no measure.
    """
    budgets = limits[limits["kind"] == "budget_usd"] if len(limits) else limits
    blank = [str(row["limit_id"]) for row in budgets.to_dict("records") if row["measure"] not in MEASURES]
    if blank:
        raise CapplanError(f"budgets without a measure: {', '.join(blank)}; say in limits.csv whether p_and_l, cash or capex is counted")
    rows = []
    labels = entries["month"].map(quarter_of)
    for row in budgets.to_dict("records"):
        for quarter in quarters if pd.isna(row["quarter"]) else [row["quarter"]]:
            inside = (entries["view"] == MEASURES[row["measure"]]) & (labels == quarter)
            if row["measure"] == "capex":
                inside &= entries["component"] == "capex"
            for column in ("provider", "team"):
                if pd.notna(row.get(column)):
                    inside &= entries[column] == row[column]
            planned = float(entries.loc[inside, "usd"].sum())
            team = row.get("team")
            rows.append(
                (
                    row["limit_id"],
                    quarter,
                    row["measure"],
                    "" if pd.isna(team) else team,
                    row["hard"],
                    row["amount"],
                    planned,
                    max(0.0, planned - row["amount"]),
                )
            )
    return pd.DataFrame(rows, columns=["limit_id", "quarter", "measure", "team", "hard", "budget_usd", "planned_usd", "over_usd"])
