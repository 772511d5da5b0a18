"""The accounting pack: possible leases, what is prepaid and what machines are worth by month, and month-end postings."""

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.book.book import Book
from capplan.contract_kinds import KINDS
from capplan.questions.ledger.accounts import mapped_accounts
from capplan.records import records
from capplan.units import ROUNDING, quarter_end, quarter_range

#: Where what is paid, owed and expensed is posted without an account map.
BALANCE = {"payable": "accounts payable", "bank": "bank", "prepaid": "prepaid expenses", "machines": "property and equipment"}


def lease_flags(plan: Plan, book: Book) -> pd.DataFrame:
    """Return, for a person to confirm, which contracts may hold a lease: an identified asset whose use the customer controls.

    The rules are those of ASC 842-10-15-3 to 15-9 and IFRS 16 B9 to B31 (a lease conveys the right to control the use of an identified
    asset; a substantive right of the
    provider to put another asset in means that there is none).

    Returns:
        DataFrame: contract_id, status, term, identified_asset, control, longer_than_a_year (short leases may be left off the balance
            sheet), proposal, confirmed_by (empty).
    """
    signed = records(book.get("commitments").sort_values("commitment_id"))
    rows = [(str(row["commitment_id"]), "signed", str(row["term"]), row["start"], row["end"]) for row in signed]
    rows += [
        (f"{row['offer_id']} {row['quarter']}", "firm" if row["firm"] else "indicative", str(row["term"]), row["starts"], row["ends"])
        for row in records(plan.purchases.purchases)
    ]
    found = []
    for name, status, term, start, end in rows:
        asset, control, proposal = KINDS[term].lease
        found.append((name, status, term, asset, control, (end - start).days + 1 > 366, proposal, ""))
    columns = ["contract_id", "status", "term", "identified_asset", "control", "longer_than_a_year", "proposal", "confirmed_by"]
    return pd.DataFrame(found, columns=columns)


def roll_forward(plan: Plan) -> pd.DataFrame:
    r"""Return month by month what is prepaid for contracts, and what owned machines are worth in the books.

    .. math:: \text{closing} = \text{opening} + \text{added} - \text{expensed} - \text{disposed}

    Prepaid is what was billed for contracts ahead of their service (what is billed after it is negative: accrued). Machines are carried at
    cost less
    depreciation, until they are sold at their residual value.

    Returns:
        DataFrame: month, kind (prepaid, machines), opening_amount, added_amount, expensed_amount, disposed_amount, closing_amount, over all
            months of the ledger.
    """
    rows = plan.ledger.entries
    months = pd.Index(sorted(rows["month"].unique()), name="month")

    def sums(view: str, *components: str) -> pd.Series:
        part = rows[(rows["view"] == view) & rows["component"].isin(components)]
        return part.groupby("month")["usd"].sum().reindex(months, fill_value=0.0)

    parts = []
    for kind, added, expensed, disposed in (
        ("prepaid", sums("billed", "commitment", "purchase"), sums("p_and_l", "commitment", "purchase"), sums("billed")),
        ("machines", sums("billed", "capex"), sums("p_and_l", "depreciation"), -sums("billed", "residual")),
    ):
        closing = (added - expensed - disposed).cumsum()
        closing = closing.where(closing.abs() > ROUNDING, 0.0)
        parts.append(
            pd.DataFrame(
                {
                    "kind": kind,
                    "opening_amount": closing.shift(fill_value=0.0),
                    "added_amount": added,
                    "expensed_amount": expensed,
                    "disposed_amount": disposed,
                    "closing_amount": closing,
                }
            ).reset_index()
        )
    table = pd.concat(parts, ignore_index=True)
    # Balances are carried at the rate of the day of the plan, so that opening, movements and closing agree in any currency.
    rate = _plan_rate(plan)
    return table.assign(**{name: table[name] / rate for name in table.columns if name.endswith("_amount")})


def _plan_rate(plan: Plan) -> float:
    """Return US dollars for one unit of the book's currency on the day of the plan."""
    rows = plan.ledger.entries
    rows = rows[(rows["amount"] != 0) & (rows["month"] >= pd.Timestamp(plan.scenario.as_of).replace(day=1))]
    return float((rows["usd"] / rows["amount"]).iloc[rows["month"].argmin()]) if len(rows) else 1.0


def postings(plan: Plan, account_map: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the month-end postings of the planned months: invoices, payments, and expenses, each with its debit and credit account.

    What is billed is debited to a clearing of the contract (prepaid, machines) or to its expense and credited to accounts payable; what is
    paid is debited to
    accounts payable and credited to the bank; what is expensed is debited to its account and credited to the clearing. Debits and credits
    of a month agree.

    Returns:
        DataFrame: entity, version, month (YYYY-MM), text, debit_account, credit_account, amount (book's currency; negative = the other way
            round), currency.
    """
    scenario = plan.scenario
    quarters = quarter_range(scenario.first_quarter, scenario.horizon_quarters)
    first = pd.Timestamp(scenario.as_of).replace(day=1)
    rows = plan.ledger.entries
    rows = rows[
        rows["view"].isin(["cash", "billed", "p_and_l"]) & (rows["month"] >= first) & (rows["month"] < quarter_end(quarters[-1]))
    ].reset_index(drop=True)
    expensed = rows[rows["view"] == "p_and_l"]
    accounts = mapped_accounts(expensed, pd.DataFrame() if account_map is None else account_map)["account"]
    cleared = rows["component"].map(
        {**dict.fromkeys(("commitment", "purchase"), "prepaid"), **dict.fromkeys(("capex", "depreciation", "residual"), "machines")}
    )
    clearing = cleared.map(BALANCE).fillna("accrued costs")
    debit = {"billed": clearing, "cash": pd.Series(BALANCE["payable"], rows.index), "p_and_l": accounts}
    credit = {"billed": pd.Series(BALANCE["payable"], rows.index), "cash": pd.Series(BALANCE["bank"], rows.index), "p_and_l": clearing}
    text = {"billed": "invoices", "cash": "payments", "p_and_l": "expense of the month"}
    table = pd.DataFrame({"month": rows["month"].dt.strftime("%Y-%m"), "amount": rows["amount"], "text": rows["view"].map(text)})
    for name, sides in (("debit_account", debit), ("credit_account", credit)):
        table[name] = pd.concat([sides[view][rows["view"] == view] for view in sides]).reindex(rows.index).astype(str)
    keys = ["month", "text", "debit_account", "credit_account"]
    table = table.groupby(keys, as_index=False, sort=True)["amount"].sum()
    return table.assign(entity=scenario.entity, version=scenario.budget_version, currency=scenario.currency)[
        ["entity", "version", *keys, "amount", "currency"]
    ]
