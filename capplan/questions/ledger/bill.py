"""What each line of a bill is for: contracts, rooms, other costs, or use by the hour or the token; and what of it is still to be paid."""

import pandas as pd

from capplan.book.currencies import rates_by_month
from capplan.book.scenario import LedgerAssumptions
from capplan.questions.ledger.reconcile import contract_lines
from capplan.questions.ledger.schedules import Entry, as_incurred, month_end, paid_on
from capplan.records import records
from capplan.units import quarter_start

COSTS = ("billed_cost", "effective_cost")
#: A bill of the last months is held against rooms as well, which are booked from it on.
RECENT_MONTHS = 3


def sorted_bill(
    billing: pd.DataFrame, commitments: pd.DataFrame, skus: pd.DataFrame, sites: pd.DataFrame, other_costs: pd.DataFrame, fx: pd.DataFrame
) -> pd.DataFrame:
    """Say what each line of a bill is for, with its costs in USD.

    Returns:
        DataFrame: The bill in USD, with `line` (the contract line it belongs to, see `reconcile.contract_lines`; missing for others),
            `part`: contract, site (a room of the book, by its region), services (what other costs of that provider stand for), machines
            (use by the hour) or other (use by the token, and what the book does not have); and `about`: the site or the service.
    """
    bill = billing.reset_index(drop=True)
    for currency, part in bill.groupby("currency"):
        rate = rates_by_month(part["month"], str(currency), fx)
        for column in COSTS:
            bill.loc[part.index, column] = part[column] * rate
    makers = skus.set_index("sku")["provider"]
    held = commitments.assign(provider=commitments["sku"].map(makers))
    bill["line"] = pd.Series(index=bill.index, dtype=object)
    for month, part in bill.groupby("month"):
        running = held[(held["start"] <= month + pd.offsets.MonthEnd(0)) & (held["end"] >= month)]
        bill.loc[part.index, "line"] = contract_lines(part, running)
    known, providers, rooms, stated = set(makers.index), set(makers), set(sites["site"]), set(other_costs["provider"].dropna())
    parts = []
    for row in records(bill):
        machine = row["sku"] in known or row["machine"] in known or (row["provider"] in providers and row["sku"] != "none")
        kinds = (
            (pd.notna(row["line"]), "contract"),
            (row["region"] in rooms, "site"),
            (machine, "machines"),
            (row["provider"] in stated, "services"),
        )
        parts.append(next((name for holds, name in kinds if holds), "other"))
    return bill.assign(
        part=pd.Series(parts, index=bill.index, dtype=object),
        about=bill["region"].where(pd.Series(parts, bill.index).eq("site"), bill["service"]),
    )


def open_months(bill: pd.DataFrame, a: LedgerAssumptions) -> pd.DatetimeIndex:
    """Return the months before `as_of` whose invoices are still to be paid, and those from the last full bill on."""
    as_of = pd.Timestamp(a.as_of)
    past = pd.date_range(as_of.replace(day=1) - pd.DateOffset(months=12), as_of, freq="MS", inclusive="left")
    recent = bill.loc[bill["month"] + pd.offsets.MonthEnd(0) < as_of, "month"].max()
    first = next((m for m in past if paid_on(month_end(m), a.payment_terms_days) >= as_of), as_of)
    return past[past >= (min(first, recent) if pd.notna(recent) and recent >= as_of - pd.DateOffset(months=RECENT_MONTHS) else first)]


def before_plan_entries(bill: pd.DataFrame, a: LedgerAssumptions) -> list[Entry]:
    r"""Book use by the hour and the token before the first planned quarter, as far as it is still to be paid.

    Months that were billed are booked as billed; months from the last bill to the plan go on at its rate by day. Their discounts are in
    the bill already.

    .. math:: x_m = x_B\,\frac{d_m}{d_B}

    Args:
        bill: From `sorted_bill`; months that ended by `as_of`.
    """
    as_of, start = pd.Timestamp(a.as_of), quarter_start(a.first_quarter)
    used = bill[bill["part"].isin(["machines", "other"]) & (bill["month"] + pd.offsets.MonthEnd(0) < as_of)]
    if used.empty:
        return []
    last = used["month"].max()
    found: list[Entry] = []
    for month in pd.date_range(used["month"].min(), start, freq="MS", inclusive="left"):
        if paid_on(month_end(month), a.payment_terms_days) < as_of:
            continue
        rows, scale = used[used["month"] == min(month, last)], 1.0 if month <= last else month.days_in_month / last.days_in_month
        for (part, provider, line), costs in rows.groupby(["part", "provider", "about"], sort=True)[list(COSTS)].sum().iterrows():
            component = "use_before_plan" if part == "machines" else "tokens_before_plan"
            entry = Entry(
                month, "", component, f"{line} before {a.first_quarter}", float(costs["billed_cost"]) * scale, "expected", str(provider)
            )
            found += [e for e in as_incurred(entry, a.payment_terms_days) if entry.usd]
    return found
