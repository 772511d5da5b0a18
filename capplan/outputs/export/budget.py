"""The budget file: P&L of the plan by month, team, cost centre and account."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from capplan.answers.plan import Plan
from capplan.outputs.export.files import write_table


def budget_table(plan: Plan) -> pd.DataFrame:
    """Return the P&L as planning systems take it in.

    Returns
    -------
    DataFrame
        month (YYYY-MM), team, cost_center, account, amount (book's currency), currency; whole lives of contracts, so that it adds up to the ledger.
    """
    table = plan.ledger.by_month("p_and_l")
    table["month"] = table["month"].dt.strftime("%Y-%m")
    return table.assign(currency=plan.scenario.currency)


def write_budget(plan: Plan, path: Path) -> Path:
    """Write the budget file.

    Parameters
    ----------
    plan
        A finished plan.
    path
        CSV file to write; its folder must exist.
    """
    return write_table(budget_table(plan), path)
