"""Fiscal years of a run, added up from its tables, for tests of what stands beside them."""

from typing import Any

import pandas as pd
import pytest


def years_told(tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """P&L of the planned quarters, and all cash from the day of the plan on, that after them apart; fiscal years are calendar years."""
    ledger = tables["ledger"]
    inside = ledger[(ledger["view"] == "p_and_l") & ledger["quarter"].isin(tables["spend"]["quarter"])]
    paid = tables["cash"].set_index("quarter")["total_amount"]
    years = paid.groupby([quarter if quarter == "later" else f"FY{quarter[:4]}" for quarter in paid.index]).sum()
    return {f"p_and_l_{year}_amount": amount for year, amount in inside.groupby("fiscal_year")["amount"].sum().items()} | {
        f"cash_{year}_amount": pytest.approx(amount, rel=1e-14) for year, amount in years.items()
    }
