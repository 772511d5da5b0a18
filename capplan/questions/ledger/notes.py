"""What the ledger says in words: its sentence, what was assumed, and what the reader must know."""

from calendar import month_name

import pandas as pd

from capplan.book.scenario import LedgerAssumptions
from capplan.errors import suggestion
from capplan.questions.ledger.reconcile import reconciliation_notes
from capplan.records import records
from capplan.text import money
from capplan.units import quarter_start


def ledger_headline(frame: pd.DataFrame, quarters: list[str], a: LedgerAssumptions) -> str:
    """Say in one sentence what the planned quarters cost in each view."""
    inside = frame[frame["quarter"].isin(quarters)].groupby("view")["amount"].sum()
    cash, billed, expense = (float(inside.get(view, 0.0)) for view in ("cash", "billed", "p_and_l"))
    return (
        f"{quarters[0]} to {quarters[-1]}: {money(expense, a.currency)} in the P&L, {money(billed, a.currency)} invoiced and "
        f"{money(cash, a.currency)} paid."
    )


def idle_agreement_notes(frame: pd.DataFrame, agreements: pd.DataFrame) -> tuple[str, ...]:
    """Name spend agreements whose provider bills nothing: their whole sum would be paid for nothing, or the name is not the bill's."""
    billed = sorted(set(frame.loc[(frame["view"] == "billed") & ~frame["component"].str.startswith("agreement_"), "provider"]) - {""})
    still = agreements[agreements["shortfall_usd"] > 0] if len(agreements) else agreements
    idle = still[~still["provider"].isin(billed)].drop_duplicates("agreement_id") if len(still) else still
    return tuple(
        f"{row['agreement_id']} is an agreement with {row['provider']}, which bills nothing here, so that nothing counts towards it. "
        f"Correct the provider in spend_agreements.csv, or name it in other_costs.csv. {suggestion(row['provider'], billed)}"
        for row in records(idle)
    )


def ledger_notes(
    a: LedgerAssumptions,
    reconciliation: pd.DataFrame,
    agreements: pd.DataFrame,
    signed: pd.DataFrame,
    bought: pd.DataFrame,
    fx: pd.DataFrame,
) -> tuple[str, ...]:
    """State what was assumed, and what the reader must know."""
    notes = [
        (
            f"Invoices are dated at the end of their month and paid {a.payment_terms_days} days later, thirty days being a month; upfront"
            " and scheduled payments on their day."
        ),
        "Owned machines are written off in a straight line; residual values are a band. MACRS is a tax view and not part of the ledger.",
    ]
    if quarter_start(a.first_quarter) > pd.Timestamp(a.as_of):
        notes.append(
            f"From {a.as_of} to the start of {a.first_quarter} contracts, rooms and other costs are booked, and use by the hour and the"
            " token goes on at the last bill's rate by day."
        )
    bridged = float(bought["bridge_usd"].sum()) if "bridge_usd" in bought else 0.0
    if bridged >= 1:
        notes.append(
            f"Contracts are booked from the day they are to start. The {money(bridged)} that deliveries which slip are expected to cost"
            " until they arrive count in the plan's cost and are not booked: part of it may be work missed, which nobody invoices."
        )
    if a.hold_other_costs:
        notes.append("Other costs go on at their last stated month's amount (hold_other_costs).")
    if len(agreements):
        notes.append(
            "A spend agreement's discount applies to compute paid by use; contracts have prices of their own and count towards the sum."
        )
        short = agreements[agreements["shortfall_usd"] > 0]
        notes += [
            f"{row['agreement_id']} to {row['end']:%Y-%m-%d} falls {money(row['shortfall_usd'])} short and is paid for."
            for row in records(short)
        ]
    if a.currency != "USD" and len(fx):
        notes.append(
            "Months after the last exchange rate use the last one, months before the first use the first; moving rates let the views differ"
            " by exchange gains."
        )
    if a.fiscal_year_first_month % 3 != 1:
        notes.append(
            f"The fiscal year starts with {month_name[a.fiscal_year_first_month]}, in the middle of a calendar quarter: years are summed by"
            " month, and the budget of a quarter that two of them share is divided by its months."
        )
    notes += reconciliation_notes(reconciliation)
    renewed = set(bought["offer_id"]) if len(bought) else set()
    passed = signed[signed["renews"].astype(bool) & (signed["notice_date"] < pd.Timestamp(a.as_of))] if len(signed) else signed
    notes += [
        f"{name} renews by itself, since its notice date has passed; the renewal is not among the purchases and not in the ledger."
        for name in passed["commitment_id"]
        if f"renew {name}" not in renewed
    ]
    return tuple(notes)
