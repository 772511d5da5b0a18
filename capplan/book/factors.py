"""What-if factors on the limits of a book."""

import pandas as pd

from capplan.book.assumptions.procurement import ProcurementAssumptions

#: Limits that a provider sets: what may be held, and what can be had by the hour.
QUOTA_KINDS = ("quota_accelerators", "on_demand_accelerators", "spot_accelerators")


def scaled_limits(limits: pd.DataFrame, a: ProcurementAssumptions) -> pd.DataFrame:
    """Return the table of limits with quotas and budgets multiplied by their factors.

    Examples:
        >>> stated = pd.DataFrame({"limit_id": ["q", "b"], "kind": ["quota_accelerators", "budget_usd"], "amount": [100.0, 5e6]})
        >>> scaled_limits(stated, ProcurementAssumptions(quota_factor=1.5, budget_factor=0.9))["amount"].tolist()
        [150.0, 4500000.0]
    """
    if limits.empty or (a.quota_factor == 1.0 and a.budget_factor == 1.0):
        return limits
    factor = limits["kind"].isin(QUOTA_KINDS).map({True: a.quota_factor, False: 1.0}) * limits["kind"].eq("budget_usd").map(
        {True: a.budget_factor, False: 1.0}
    )
    return limits.assign(amount=limits["amount"] * factor)
