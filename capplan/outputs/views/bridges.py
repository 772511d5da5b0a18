"""Bridges: budget to plan, the optimiser's cost to spend, P&L and cash, one plan to the next; each adds up to the cent."""

from dataclasses import dataclass

import pandas as pd

from capplan.answers.finished_plan import Plan, told_once
from capplan.answers.sums import in_currency, quarters_of, spend

COLUMNS = ["step", "kind", "amount"]
START, STEP, TOTAL = "start", "step", "total"


@dataclass(frozen=True)
class LastPlan:
    """The plan before this one, as far as it was kept."""

    spend: pd.DataFrame | None = None  #: quarter, expected (book's currency): its table spend; None where there is none.
    moved_by: pd.DataFrame | None = None  #: What moved planned spend since (`plans_apart`); None where it kept too little to tell.


NO_PLAN = LastPlan()


def cost_group(component: str, status: str) -> str:
    """Say to which part of the P&L a line belongs.

    Examples:
        >>> lines = ("commitment", "signed"), ("depreciation", "firm"), ("spot", "expected"), ("people", "stated")
        >>> tuple(cost_group(*line) for line in lines)
        ('contracts, machines and rooms there already', 'to be signed now', 'use by the hour', 'people and other costs')
    """
    if status == "stated":
        return "people and other costs"
    if component in ("tokens", "tokens_before_plan"):
        return "model APIs"
    named = {"signed": "contracts, machines and rooms there already", "firm": "to be signed now", "indicative": "to be signed later"}
    if status in named:
        return named[status]
    return "spend agreements" if component.startswith("agreement_") else "use by the hour"


GROUPS = (
    "people and other costs",
    "model APIs",
    "contracts, machines and rooms there already",
    "to be signed now",
    "to be signed later",
    "use by the hour",
    "spend agreements",
)


def sums_by_group(plan: Plan, view: str) -> pd.Series:
    """Return a view of the planned quarters by part, in the book's currency."""
    rows = plan.ledger.entries
    rows = rows[(rows["view"] == view) & rows["quarter"].isin(quarters_of(plan))]
    groups = [cost_group(str(part), str(status)) for part, status in zip(rows["component"], rows["status"], strict=True)]
    return rows["amount"].groupby(groups).sum().reindex(list(GROUPS)).fillna(0.0)


@told_once
def budget_bridge(plan: Plan) -> pd.DataFrame:
    """Return what the budget of the planned quarters goes to, and what is left of it or missing.

    Returns:
        DataFrame: step, kind (start, step, total), amount; the steps lead from the first row to the last. Empty where a quarter has no
            budget.
    """
    budget = spend(plan)["budget"]
    if budget.isna().any():
        return pd.DataFrame(columns=COLUMNS)
    parts = sums_by_group(plan, "p_and_l")
    rows = [("P&L budget", START, float(budget.sum()))] + [
        (f"less {name}", STEP, -float(amount)) for name, amount in parts.items() if amount
    ]
    left = sum(row[2] for row in rows)
    return pd.DataFrame([*rows, ("left of the budget" if left >= 0 else "over the budget", TOTAL, left)], columns=COLUMNS)


def cost_bridge(plan: Plan) -> pd.DataFrame:
    """Return how the cost that the optimiser makes small leads to spend, P&L and cash of the planned quarters.

    Returns:
        DataFrame: step, kind, amount; a total is the sum of all starts and steps above it.
    """
    chosen = plan.purchases.alternatives.set_index("name").loc["plan"]
    day = pd.Series([pd.Timestamp(plan.scenario.as_of)] * 3)
    cost, unserved, spent = in_currency(
        plan, pd.Series([chosen["expected_usd"], chosen["shortfall_usd"], chosen["spend_usd"]], dtype=float), day
    )
    expense, paid = sums_by_group(plan, "p_and_l"), sums_by_group(plan, "cash")
    outside = ["people and other costs", "model APIs", "contracts, machines and rooms there already"]
    decided = float(expense.drop(outside).sum())
    rows: list[tuple[str, str, float]] = [
        ("cost the decision makes small (expected, discounted)", START, float(cost)),
        ("less work left undone, which nobody invoices", STEP, -float(unserved)),
        ("discounting, and what contracts cost and save after the planned quarters", STEP, float(spent - cost + unserved)),
        ("spend that the decision moves", TOTAL, float(spent)),
        ("contracts already signed, where they are in it, agreements and late deliveries", STEP, decided - float(spent)),
    ]
    rows += [(name, STEP, float(expense[name])) for name in outside]
    rows.append(("P&L of the planned quarters", TOTAL, float(expense.sum())))
    rows += [
        (f"paid at other times than expensed: {name}", STEP, float(paid[name] - expense[name]))
        for name in GROUPS
        if paid[name] != expense[name]
    ]
    rows.append(("cash of the planned quarters", TOTAL, float(paid.sum())))
    return pd.DataFrame(rows, columns=COLUMNS)


def driver_bridge(moved_by: pd.DataFrame | None) -> pd.DataFrame:
    """Return the bridge between two plans by what moved it (`plans_apart`) in the columns of the others; empty where there is none."""
    if moved_by is None or moved_by.empty:
        return pd.DataFrame(columns=COLUMNS)
    kinds = [START, *[STEP] * (len(moved_by) - 2), TOTAL]
    return pd.DataFrame({"step": moved_by["meaning"], "kind": kinds, "amount": moved_by["amount"]})


@told_once
def plan_bridge(plan: Plan, last: pd.DataFrame | None) -> pd.DataFrame:
    """Return how the P&L moved since another plan (or since actuals), quarter by quarter; quarters that only one of them has are named.

    Args:
        last: quarter, expected (book's currency): the table spend of the other plan, or what was spent; None where there is none.
    """
    if last is None or not {"quarter", "expected"} <= set(last.columns):
        return pd.DataFrame(columns=COLUMNS)
    before, now = last.set_index("quarter")["expected"].astype(float), spend(plan).set_index("quarter")["expected"].astype(float)
    rows = [("P&L of the last plan", START, float(before.sum()))]
    for quarter in sorted(set(before.index) | set(now.index)):
        step = float(now.get(quarter, 0.0) - before.get(quarter, 0.0))
        why = "no longer planned" if quarter not in now.index else "planned anew" if quarter not in before.index else "moved"
        rows.append((f"{quarter}: {why}", STEP, step))
    return pd.DataFrame([*rows, ("P&L of this plan", TOTAL, float(now.sum()))], columns=COLUMNS)
