"""Budgets as the decision is held to them: in dollars, by quarter, less what no purchase changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.book import Book
from capplan.book.currencies import budgets_by_quarter
from capplan.book.scenario import LedgerAssumptions, Scenario
from capplan.dollars import rate_in_force
from capplan.questions.ledger import Ledger, LedgerTables, build_ledger
from capplan.questions.ledger.reconcile import BESIDE_COMPUTE
from capplan.questions.ledger.schedules import months_of_terms
from capplan.records import records, word_list
from capplan.text import counted, money
from capplan.units import quarter_range

#: Tables of the book that the ledger reads under the same names.
LEDGER_TABLES = word_list(
    "commitments payments offer_payments skus workloads services assets sites spend_agreements other_costs billing limits fx account_map"
)
#: Budgets of all spend, in which what no purchase changes takes its share first.
WHOLE = ("p_and_l", "cash")
#: By what it is told apart what is spent beside a decision.
KEYS = ["quarter", "view", "provider", "beside"]


@dataclass(frozen=True)
class Beside:
    """What is spent beside the compute that is decided on."""

    #: quarter, view (p_and_l, cash), provider, beside (people, APIs, rooms and other costs, not contracts and machines), usd: all that is
    #: spent without a purchase and without use by the hour.
    fixed: pd.DataFrame
    billed: pd.DataFrame  #: What providers bill beside contracts and planned use, by month, as rows of the table other_costs.

    def spent(self, *, view: str = "p_and_l", beside_only: bool = False) -> pd.Series:
        """Return USD by quarter."""
        rows = self.fixed[self.fixed["view"] == view]
        return (rows[rows["beside"]] if beside_only else rows).groupby("quarter")["usd"].sum()

    def at_demand(self, factor: float, standing: Beside) -> Beside:
        """Return what is spent where there is so many times the demand; `standing` is what is spent without any."""
        mine, always = (each.fixed.set_index(KEYS)["usd"] for each in (self, standing))
        fixed = always.add(factor * mine.sub(always, fill_value=0.0), fill_value=0.0)
        return replace(self, fixed=fixed.reset_index())


#: What stands beside a decision that counts nothing beside itself.
NOTHING_BESIDE = Beside(
    pd.DataFrame({"quarter": [], "view": [], "provider": [], "beside": pd.Series(dtype=bool), "usd": []}),
    pd.DataFrame({"cost_id": [], "month": [], "kind": [], "usd": [], "provider": []}),
)


def counts_beside(book: Book) -> bool:
    """Tell whether anything holds the decision together with what is spent beside it: a budget of all spend, or a spend agreement."""
    limits = book.get("limits")
    return len(book.get("spend_agreements")) > 0 or bool(((limits["kind"] == "budget_usd") & limits["measure"].isin(WHOLE)).any())


def book_beside(book: Book, scenario: Scenario, work: pd.DataFrame | None) -> Beside:
    """Book all that no decision changes, so that budgets and spend agreements count it beside the decision.

    Args:
        work: workload, quarter, quantity: expected work; None for no work at all.
    """
    a = scenario.section(LedgerAssumptions)
    rows = build_ledger(a, LedgerTables(work=work, **{name: book.get(name) for name in LEDGER_TABLES if name != "limits"})).entries
    rows = rows[~rows["component"].str.startswith("agreement_")]
    beside = (rows["status"] == "stated") | rows["component"].isin(BESIDE_COMPUTE)
    inside = rows["view"].isin(WHOLE) & rows["quarter"].isin(quarter_range(a.first_quarter, a.horizon_quarters))
    fixed = rows.assign(beside=beside)[inside].groupby(KEYS, as_index=False)["usd"].sum()
    open_ = rows[(rows["view"] == "billed") & (rows["month"] >= pd.Timestamp(a.as_of).replace(day=1)) & (rows["provider"] != "")]
    open_ = open_[(open_["status"] == "stated") | (open_["component"] == "use_before_plan")]
    billed = open_.groupby(["provider", "month"], as_index=False)["usd"].sum()
    return Beside(
        fixed, billed.assign(cost_id="billed by " + billed["provider"], kind="other")[["cost_id", "month", "kind", "usd", "provider"]]
    )


def held_limits(limits: pd.DataFrame, fx: pd.DataFrame, beside: Beside, quarters: list[str], payment_terms_days: int) -> pd.DataFrame:
    """Return the limits of a decision: budgets of all spend by quarter, with what no purchase changes as taken_usd.

    Those of cash say how many months after its service a month is paid, paid_months_later.
    """
    stated = budgets_by_quarter(limits, fx, quarters)
    if stated.empty:
        return stated
    stated = stated.assign(paid_months_later=np.where(stated["measure"] == "cash", months_of_terms(payment_terms_days), 0))
    narrow = stated[["region", "accelerator", "team"]].notna().any(axis=1)
    whole = (stated["kind"] == "budget_usd") & stated["measure"].isin(WHOLE) & ~narrow
    rows = []
    for row in records(stated[whole]):
        fixed = beside.fixed if pd.isna(row["provider"]) else beside.fixed[beside.fixed["provider"] == row["provider"]]
        spent = fixed[fixed["view"] == row["measure"]].groupby("quarter")["usd"].sum()
        for quarter in quarters if pd.isna(row["quarter"]) else [row["quarter"]]:
            name = row["limit_id"] if pd.notna(row["quarter"]) else f"{row['limit_id']} {quarter}"
            rows.append({**row, "limit_id": name, "quarter": quarter, "taken_usd": float(spent.get(quarter, 0.0))})
    held = pd.DataFrame(rows, columns=[*stated.columns, "taken_usd"])
    return pd.concat([stated[~whole].astype(object), held.astype(object)], ignore_index=True).infer_objects()


def budget_notes(ledger: Ledger, beside: Beside, limits: pd.DataFrame) -> tuple[str, ...]:
    """Say how the P&L budget and what the decision was held to go together, and which budgets nothing is held against."""
    found = []
    for row in records(limits[limits["kind"] == "budget_usd"]) if len(limits) else []:
        narrow = [name for name in ("region", "accelerator") if pd.notna(row[name])]
        if narrow:
            found.append(
                f"{row['limit_id']}: a budget of one {narrow[0]} holds what is bought there; the ledger books by provider, team and month,"
                " so no spend is reported against it."
            )
    whole = ledger.budgets[(ledger.budgets["measure"] == "p_and_l") & ledger.budgets["team"].eq("") & ledger.budgets["provider"].eq("")]
    if len(whole):
        held = whole.sort_values("budget_usd").groupby("quarter")[["budget_usd", "planned_usd", "budget_amount"]].first()
        over = held[held["planned_usd"] > held["budget_usd"] + 0.005]
        rates, currency = (held["budget_amount"] / held["budget_usd"]).fillna(1.0), rate_in_force().name
        budget, taken, aside = (
            float(part.sum())
            for part in (held["budget_amount"], *(beside.spent(beside_only=only).reindex(held.index) * rates for only in (False, True)))
        )
        found.append(
            f"Of the P&L budget of {money(budget, currency)}, {money(taken, currency)} goes to what no purchase changes"
            f" ({money(aside, currency)} of people, model APIs, rooms and other costs, {money(taken - aside, currency)} of contracts and"
            f" machines there already); the decision was held to the other {money(budget - taken, currency)}, quarter by quarter."
            f" {len(over)} of {counted(len(held), 'quarter')}"
            f" {'is' if len(over) == 1 else 'are'} over."
        )
    return tuple(found)
