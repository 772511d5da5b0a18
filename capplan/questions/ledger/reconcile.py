"""Whether the ledger agrees with the last bill, and the plan stays within its budgets."""

from typing import Any

import pandas as pd

from capplan.book.currencies import rate_of_quarter
from capplan.errors import CapplanError
from capplan.records import records
from capplan.text import money
from capplan.units import over_limit, quarter_of

#: A line ties where ledger and bill differ by less than this share of the bill, or by less than a dollar.
TIES_SHARE = 0.005
TIES_USD = 1.0
#: What ends the name of a line of all contracts of one machine.
UNDER_CONTRACT = " under contract"
#: A bill that ended longer ago than this is called old.
OLD_DAYS = 62
COLUMNS = "month view provider line ledger_usd bill_usd difference_usd ties used_usd unused_usd why days_old".split()
#: Components that are no compute a purchase or use by the hour decides; nor is anything that is stated.
BESIDE_COMPUTE = ("tokens", "tokens_before_plan", "power", "space")
#: Budget measure -> the view it is counted in.
MEASURES = {"p_and_l": "p_and_l", "compute": "p_and_l", "cash": "cash", "capex": "cash"}


def reconcile(
    bill: pd.DataFrame, entries: pd.DataFrame, commitments: pd.DataFrame, providers: pd.Series, as_of: pd.Timestamp
) -> pd.DataFrame:
    """Hold the ledger against the last full month of the bill.

    Signed contracts must tie line by line: what was invoiced for them (bills) and what was expensed (effective cost, unused part
    included). A charge belongs
    to the contract that its commitment names; where no contract has that name, to those of its machine that run in the month. What is used
    by the hour or
    the token is in the bill only; its line shows the run rate the plan starts from.

    Args:
        commitments: Table commitments: which SKUs are under contract.
        as_of: Only months that ended by then are full.
        fx: Exchange rates, for bills in another currency.

    Returns:
        DataFrame: month, view (billed, p_and_l), provider, line, ledger_usd, bill_usd, difference_usd, ties (empty for lines that only the
            bill has), used_usd and unused_usd (parts of bill_usd), why (a line does not tie), days_old (from the month's end to `as_of`).
    """
    full = bill[bill["month"] + pd.offsets.MonthEnd(0) < as_of]
    if full.empty:
        return pd.DataFrame(columns=COLUMNS)
    month = full["month"].max()
    bill = full[full["month"] == month].reset_index(drop=True)
    names = commitments.assign(provider=commitments["sku"].map(providers))
    inside = entries[entries["month"] == month]
    booked = inside[inside["component"] == "commitment"]
    line_of = _line_of_contracts(names, bill)
    rows = []
    for view, column in (("billed", "billed_cost"), ("p_and_l", "effective_cost")):
        ledger = booked[booked["view"] == view].groupby("contract_id")["usd"].sum()
        for (provider, line), part in names.groupby([names["provider"], line_of], sort=True):
            ours = float(ledger.reindex(part["commitment_id"]).sum())
            mine = bill[(bill["line"] == line) & (bill["provider"] == provider)]
            if ours or mine[column].sum():
                rows.append(
                    (month, view, provider, line, ours, mine[column].sum(), *_used_parts(mine, column), _why(part, mine, month, column))
                )
        rows += _rooms_and_other_costs(bill, inside[inside["view"] == view], month, view, column)
        rest = bill[bill["part"].isin(["machines", "other"])]
        for (provider, service), part in rest.groupby(["provider", "service"], sort=True):
            rows.append((month, view, provider, f"{service} by use", float("nan"), part[column].sum(), *_used_parts(part, column), ""))
    frame = pd.DataFrame(rows, columns=[name for name in COLUMNS if name not in ("difference_usd", "ties", "days_old")])
    frame["difference_usd"] = frame["ledger_usd"] - frame["bill_usd"]
    close = frame["difference_usd"].abs() <= (TIES_SHARE * frame["bill_usd"].abs()).clip(lower=TIES_USD)
    frame["ties"] = close.astype(object).where(frame["ledger_usd"].notna(), None)
    frame["why"] = frame["why"].where(frame["ties"].eq(False), "")
    frame["days_old"] = (as_of - (month + pd.offsets.MonthEnd(0))).days
    return frame[COLUMNS]


def _rooms_and_other_costs(bill: pd.DataFrame, booked: pd.DataFrame, month: pd.Timestamp, view: str, column: str) -> list[tuple[Any, ...]]:
    """Hold rooms against what is billed for them, and other costs against what their providers bill beside machines."""
    rows: list[tuple[Any, ...]] = []
    differs = "the book states another amount for the month"
    for site, part in bill[bill["part"] == "site"].groupby("about"):
        ours = booked.loc[booked["component"].isin(["space", "power"]) & (booked["contract_id"] == site), "usd"].sum()
        rows.append((month, view, "own", f"{site}, space and power", float(ours), part[column].sum(), *_used_parts(part, column), differs))
    stated = booked[(booked["status"] == "stated") & (booked["provider"] != "")].groupby("provider")["usd"].sum()
    services = bill[bill["part"] == "services"]
    for provider in sorted(set(stated.index) | set(services["provider"])):
        part = services[services["provider"] == provider]
        rows.append(
            (
                month,
                view,
                provider,
                "other costs",
                float(stated.get(provider, 0.0)),
                part[column].sum(),
                *_used_parts(part, column),
                differs,
            )
        )
    return rows


def contract_lines(bill: pd.DataFrame, running: pd.DataFrame) -> pd.Series:
    """Say to which contract line each charge belongs; missing for charges by use.

    A commitment's name is the provider's (often a long path whose last part is the contract's name); a charge under a commitment that no
    contract has by
    name goes to its machine, where a contract of it runs.
    """
    of_contract = (
        bill["charge_category"].eq("Purchase")
        | bill["pricing_category"].eq("Committed")
        | bill["commitment_status"].isin(["Used", "Unused"])
    )
    own = {str(row.commitment_id).lower(): _named_line(row) for row in running[["commitment_id", "sku"]].itertuples(index=False)}
    short = bill["commitment"].str.lower().str.split(r"[/:]").str[-1]
    whole, last = bill["commitment"].str.lower().map(own).astype(object), short.map(own).astype(object)
    by_name = whole.where(whole.notna(), last)
    machines = set(zip(running["provider"], running["sku"], strict=True))
    known = pd.Series(
        [(provider, machine) in machines for provider, machine in zip(bill["provider"], bill["machine"], strict=True)],
        bill.index,
        dtype=bool,
    )
    machine = bill["machine"].where(known, bill["sku"])
    covered = pd.Series([pair in machines for pair in zip(bill["provider"], machine, strict=True)], bill.index, dtype=bool)
    by_machine = (machine + UNDER_CONTRACT).where(covered & of_contract)
    return by_name.where(by_name.notna(), by_machine.astype(object))


def _named_line(row: Any) -> str:
    return f"{row.commitment_id} ({row.sku})"


def _line_of_contracts(names: pd.DataFrame, bill: pd.DataFrame) -> pd.Series:
    """Return the line of each contract: its own where the bill names it, else that of its machine."""
    found = set(bill["line"].dropna())
    own = names.apply(_named_line, axis=1) if len(names) else pd.Series([], dtype=object, index=names.index)
    return own.where(own.isin(found), names["sku"] + UNDER_CONTRACT)


def _used_parts(part: pd.DataFrame, column: str) -> tuple[float, float]:
    unused = part["commitment_status"].eq("Unused") | part["bucket"].isin(["unused_commitment", "unused_reservation"])
    return float(part.loc[~unused, column].sum()), float(part.loc[unused, column].sum())


def _why(contracts: pd.DataFrame, charges: pd.DataFrame, month: pd.Timestamp, column: str) -> str:
    """Say what may keep a line from tying."""
    last = month + pd.offsets.MonthEnd(0)
    reasons = []
    if charges.empty:
        reasons.append("the bill names neither this contract nor its machine under a commitment")
    partly = contracts[
        (contracts["start"] > month) & (contracts["start"] <= last) | (contracts["end"] >= month) & (contracts["end"] < last)
    ]
    if len(partly):
        reasons.append(f"{', '.join(partly['commitment_id'])} starts or ends inside the month")
    over = contracts[(contracts["start"] > last) | (contracts["end"] < month)]
    if len(over):
        reasons.append(f"{', '.join(over['commitment_id'])} does not run in the month")
    if column == "billed_cost" and (contracts["upfront_paid_usd"] > 0).any():
        reasons.append("part of the price was paid at signing")
    if not reasons:
        reasons.append("price, machines or hours of the contract differ from the bill's")
    return "; ".join(reasons)


def reconciliation_notes(table: pd.DataFrame) -> list[str]:
    """Say how much of the last bill the ledger was held against, what does not tie, and whether the bill is old."""
    if table.empty:
        return []
    month, billed = table["month"].iloc[0], table[table["view"] == "billed"]
    whole, held = float(billed["bill_usd"].sum()), billed[billed["ties"].notna()]
    tied = float(held.loc[held["ties"].eq(True), "bill_usd"].sum())
    share = f" ({tied / whole:.0%} of it)" if whole > 0 else ""
    by_use = float(billed.loc[billed["ties"].isna(), "bill_usd"].sum())
    notes = [
        f"Bill of {month:%Y-%m}, {money(whole)}: contracts, rooms and other costs of {money(tied)}{share} tie to the ledger; "
        f"{money(by_use)} were billed by use, which the ledger of that month does not hold."
    ]
    notes += [
        f"Bill of {month:%Y-%m}, {row['line']} of {row['provider']} ({row['view']}): the ledger has {row['ledger_usd']:,.2f} USD, the bill"
        f" {row['bill_usd']:,.2f} USD: {row['why']}."
        for row in records(table[table["ties"].eq(False)])
    ]
    days = int(table["days_old"].iloc[0])
    if days > OLD_DAYS:
        notes.append(
            f"The last bill is old: {month:%Y-%m} ended {days} days before the plan's date. It says nothing of contracts and prices since;"
            " ingest a newer one."
        )
    return notes


def against_budgets(entries: pd.DataFrame, limits: pd.DataFrame, quarters: list[str], currency: str, fx: pd.DataFrame) -> pd.DataFrame:
    """Hold planned spend against budgets: of the company, a provider or a team.

    A budget of a region or an accelerator holds what is bought, and stands in no row here: the ledger books by provider, team and month.

    Args:
        limits: Table limits; rows of the kind budget_usd, amounts in their own currency.
        quarters: Quarters that are planned; a limit on capex without a quarter also holds in those before them in which capex is paid.

    Returns:
        DataFrame: limit_id, quarter, measure, team, provider, hard, budget_usd, planned_usd, over_usd (0 within the budget), budget_amount
            (in the book's currency: as stated, where it is stated in it).

    Raises:
        CapplanError: If a budget has no measure.
    """
    budgets = limits[limits["kind"] == "budget_usd"] if len(limits) else limits
    blank = [str(row["limit_id"]) for row in records(budgets) if row["measure"] not in MEASURES]
    if blank:
        raise CapplanError(f"budgets without a measure: {', '.join(blank)}; say in limits.csv whether {', '.join(MEASURES)} is counted")
    labels = entries["month"].map(quarter_of)
    capex = (entries["view"] == "cash") & (entries["component"] == "capex") & entries["status"].isin(["firm", "indicative"])
    early = sorted(set(labels[capex]) - set(quarters)) if len(quarters) else []
    rows = []
    for row in records(budgets[budgets["region"].isna() & budgets["accelerator"].isna()]) if len(budgets) else []:
        spans = [quarter for quarter in early if quarter < quarters[0]] + quarters if row["measure"] == "capex" else quarters
        for quarter in spans if pd.isna(row["quarter"]) else [row["quarter"]]:
            inside = (entries["view"] == MEASURES[row["measure"]]) & (labels == quarter)
            if row["measure"] == "capex":
                inside &= capex
            if row["measure"] == "compute":
                inside &= (entries["status"] != "stated") & ~entries["component"].isin(BESIDE_COMPUTE)
            for column in ("provider", "team"):
                if pd.notna(row.get(column)):
                    inside &= entries[column] == row[column]
            planned, own = float(entries.loc[inside, "usd"].sum()), "USD" if pd.isna(row["currency"]) else str(row["currency"])
            usd = float(row["amount"]) * rate_of_quarter(quarter, own, fx)
            amount = float(row["amount"]) if own == currency else usd / rate_of_quarter(quarter, currency, fx)
            about = [row["limit_id"], quarter, row["measure"], *("" if pd.isna(row[name]) else row[name] for name in ("team", "provider"))]
            rows.append((*about, row["hard"], usd, planned, amount))
    columns = ["limit_id", "quarter", "measure", "team", "provider", "hard", "budget_usd", "planned_usd", "budget_amount"]
    held = pd.DataFrame(rows, columns=columns)
    held.insert(8, "over_usd", over_limit(held["planned_usd"].astype(float), held["budget_usd"].astype(float)).clip(lower=0.0))
    return held
