"""The plan beside waiting a quarter and beside keeping every budget, as finance compares them."""

import numpy as np
import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.sums import in_currency, spend

#: Column, and the alternative that it shows.
SCENARIOS = {"base_amount": "plan", "wait_a_quarter_amount": "sign_nothing_yet", "within_budget_amount": "within_budget"}


def scenario_columns(plan: Plan) -> pd.DataFrame:
    """Return the P&L of the planned quarters, work left undone and what is owed after them, of the plan and of two others.

    Where the plan signs nothing now, waiting is the plan; where it keeps its budget, so is keeping it. A plan that cannot be is empty.

    Returns:
        DataFrame: measure, base_amount, wait_a_quarter_amount, within_budget_amount (book's currency).
    """
    table, quarters = plan.purchases.alternatives.set_index("name"), spend(plan)
    base, total = table.loc["plan"], float(quarters["expected"].sum())
    same = {"sign_nothing_yet": not plan.purchases.purchases["firm"].any(), "within_budget": not breaks_budget(plan)}
    found: dict[str, list[float]] = {}
    for column, name in SCENARIOS.items():
        other = table.loc[name] if name in table.index else base if same.get(name, False) else None
        if other is None:
            found[column] = [np.nan] * 3
            continue
        usd = pd.Series([other["spend_usd"] - base["spend_usd"], other["shortfall_usd"], other["beyond_horizon_usd"]], dtype=float)
        moved, undone, later = in_currency(plan, usd, pd.Timestamp(plan.scenario.as_of))
        found[column] = [total + float(moved), float(undone), float(later)]
    measures = [
        "P&L of the planned quarters, expected",
        "Work left undone, at its price (no expense)",
        "Payments after the planned quarters",
    ]
    return pd.DataFrame({"measure": measures, **found})


def breaks_budget(plan: Plan) -> bool:
    """Tell whether some budget that the decision was held to is exceeded."""
    limits = plan.purchases.binding
    return bool((limits.loc[limits["kind"] == "budget_usd", "slack"] < -1.0).any())
