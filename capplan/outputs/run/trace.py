"""What stands behind a figure: the lines of the ledger that add up to it, with their prices, contracts, and where each comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.text import counted, money

#: Columns of a line that its reader wants.
LINE_COLUMNS = [
    "date",
    "component",
    "contract_id",
    "provider",
    "status",
    "team",
    "cost_center",
    "account",
    "quantity",
    "rate_usd",
    "usd",
    "amount",
    "price_id",
]
#: Assumptions that move a line's amount.
ASSUMPTIONS = (
    "price_factor",
    "discount_rate_per_year",
    "upkeep_share_per_year",
    "payment_terms_days",
    "useful_life_years",
    "residual_share",
    "currency",
)


@dataclass(frozen=True)
class Traced:
    """A figure, the lines that add up to it, their prices with sources, the assumptions they follow, and one sentence."""

    figure: str
    amount: float
    lines: pd.DataFrame
    prices: pd.DataFrame
    assumptions: pd.DataFrame
    headline: str


def trace_figure(report: Path, figure: str) -> Traced:
    """Return what stands behind a figure of a report.

    Parameters
    ----------
    report
        Folder of a finished report.
    figure
        A cell (plan.xlsx!P&L!D12, or P&L!D12), or the id of a figure on the page (memo_years_0_1).

    Raises
    ------
    CapplanError
        Where the folder is no report, or nothing is recorded for the figure; the nearest known ones are named.
    """
    missing = [
        name for name in ("run.json", "tables/figures.csv", "tables/lines.csv", "tables/line_prices.csv") if not (report / name).is_file()
    ]
    if missing:
        raise CapplanError(f"{report} is no report that can be traced: it has no {missing[0]}; make the plan again")
    texts = dict.fromkeys(
        (
            "figure",
            "view",
            "column",
            "value",
            "first",
            "after",
            "contract_id",
            "team",
            "cost_center",
            "account",
            "price_id",
            "component",
            "provider",
            "status",
        ),
        str,
    )
    known = pd.read_csv(report / "tables" / "figures.csv", dtype=texts, keep_default_na=False)
    name = figure.strip().removeprefix("plan.xlsx!").replace("'", "").replace("$", "")
    found = known[known["figure"].str.lower() == name.lower()]
    if found.empty:
        raise CapplanError(
            f"nothing is recorded behind {figure!r}; cells of Cash, Billed and P&L and figures of page one can be traced."
            f" {nearest(name, list(known['figure']))}"
        )
    row = found.iloc[0]
    lines = pd.read_csv(
        report / "tables" / "lines.csv",
        dtype=texts,
        keep_default_na=False,
        na_values={"quantity": [""], "rate_usd": [""]},
        parse_dates=["date"],
    )
    chosen = lines[lines["view"] == row["view"]]
    if row["column"]:
        own = chosen["team"] + " / " + chosen["cost_center"] if row["column"] == "bearer" else chosen[row["column"]]
        chosen = chosen[own == row["value"]]
    if row["column"] == "contract_id":
        chosen = chosen[chosen["component"] != "residual"]  # the value of a purchase is what is paid, not what a sale brings later
    chosen = chosen[(chosen["date"] >= pd.Timestamp(row["first"])) & (chosen["date"] < pd.Timestamp(row["after"]))]
    prices = pd.read_csv(report / "tables" / "line_prices.csv", dtype={"price_id": str}, keep_default_na=False)
    prices = prices[prices["price_id"].isin(set(chosen["price_id"]) - {""})].reset_index(drop=True)
    run = json.loads((report / "run.json").read_text(encoding="utf-8"))
    stated = [(item, run["parameters"].get(item)) for item in ASSUMPTIONS]
    amount, currency = float(chosen["amount"].sum()), str(run["parameters"].get("currency", "USD"))
    headline = (
        f"{name} is {money(amount, currency)} ({amount:,.2f}): the sum of {counted(len(chosen), 'line')} of the ledger at"
        f" {counted(len(prices), 'price')}."
    )
    return Traced(
        name, amount, chosen[LINE_COLUMNS].reset_index(drop=True), prices, pd.DataFrame(stated, columns=["assumption", "value"]), headline
    )
