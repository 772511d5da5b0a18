"""What must be decided: purchases with date, value, exit and reason; expiries and notices; agreements; every commitment."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.finished_plan import Plan, told_once
from capplan.answers.sums import in_currency, quarters_of
from capplan.book.book import Book
from capplan.contract_kinds import TERM_MONTHS
from capplan.outputs.views.unit_tables import discounted_hours
from capplan.questions.contracts import holdings_with_terms
from capplan.records import records
from capplan.text import counted, listed
from capplan.units import add_months, quarter_end, quarter_hours, quarter_of, quarter_range, quarter_start

#: A spend agreement that is used up to this share of its sum, and not by much more, is what a purchase under it is for.
USED_UP_SHARE = 0.01


def approver_of(usd: float, approvers: tuple[tuple[str, float], ...]) -> str:
    """Return the first role that may sign so much; the last one signs what is above all limits.

    Examples:
        >>> approver_of(300_000, (("head", 250_000), ("board", 1e12)))
        'board'
    """
    return next((role for role, limit in approvers if usd <= limit), approvers[-1][0] if approvers else "")


@told_once
def decisions(plan: Plan) -> pd.DataFrame:
    """Return the purchases as decisions to sign, the firm ones first.

    Who signs follows from all that is signed on one day: contracts are not split to stay under a limit.

    Returns:
        DataFrame: firm, submit_by (not before the day of the plan), sign_by, approver, machines, accelerators, accelerator, provider,
            region, term, quarter, starts, ends, upfront_amount, value_amount (whole contract), exit_amount (what leaving on the first day
            of service would still cost), price (quote, list price, renewal), because, offer_id. Amounts are in the book's currency, at the
            rate of the day of signature.
    """
    table = plan.purchases.purchases.sort_values(["firm", "sign_by", "offer_id"], ascending=[False, True, True]).reset_index(drop=True)
    as_of = pd.Timestamp(plan.scenario.as_of)
    table["submit_by"] = table["submit_by"].clip(lower=as_of)
    table["sign_by"] = table["signed_on"]
    totals = table.groupby("sign_by")["usd"].transform("sum")
    table["approver"] = [approver_of(usd, plan.scenario.approvers) for usd in totals]
    # offers state no exit right, so a contract is owed in full; a machine can be sold for what the scenario says it keeps
    exit_usd = np.where(table["term"] == "owned", table["upfront_usd"] * (1.0 - plan.scenario.residual_share), table["usd"])
    for name, usd in (
        ("upfront_amount", table["upfront_usd"]),
        ("value_amount", table["usd"]),
        ("exit_amount", pd.Series(exit_usd, index=table.index)),
    ):
        table[name] = in_currency(plan, usd, table["sign_by"])
    table["price"] = _price_basis(plan, table)
    held = _held_by_quarter(plan)
    table["because"] = [_because(plan, held, row) for row in records(table)]
    columns = "firm submit_by sign_by approver machines accelerators accelerator provider region term quarter starts ends".split()
    return table[[*columns, "upfront_amount", "value_amount", "exit_amount", "price", "because", "offer_id"]]


def _price_basis(plan: Plan, table: pd.DataFrame) -> list[str]:
    """Say on which price a purchase rests."""
    prices = plan.prices.drop_duplicates("offer_id").set_index("offer_id")
    found = []
    for row in records(table):
        if row["kind"] == "renewal" or row["offer_id"] not in prices.index:
            found.append("renewal")
            continue
        about = prices.loc[row["offer_id"]]
        basis = ("quote, to be given again" if row["requoted"] else "quote") if about["quoted"] else "list price, no quote"
        found.append(f"{basis}, old" if about["stale"] else basis)
    return found


def _held_by_quarter(plan: Plan) -> dict[tuple[str, str], pd.Series]:
    """Return the accelerators held already in each quarter, by provider and accelerator."""
    existing = plan.purchases.capacity[plan.purchases.capacity["source"] == "existing"]
    held = existing["accelerators"] * existing["share"]
    return {pair: part.groupby(existing["quarter"]).sum() for pair, part in held.groupby([existing["provider"], existing["accelerator"]])}


def _because(plan: Plan, held_by_quarter: dict[tuple[str, str], pd.Series], row: dict[Any, Any]) -> str:
    """Say why a purchase is made: a spend agreement it uses up, a contract that ends, a lower price, or demand."""
    found = []
    for year in records(plan.ledger.agreements):
        reached = float(year["spent_share"])
        overlaps = row["starts"] <= year["end"] and row["ends"] >= year["start"]
        if year["provider"] == row["provider"] and overlaps and 1 - USED_UP_SHARE <= reached <= 1 + USED_UP_SHARE:
            found.append(f"uses up {year['agreement_id']} to {year['end']:%Y-%m}")
    if row["kind"] == "renewal":
        return listed(["a contract ends", *found])
    mine = held_by_quarter.get((row["provider"], row["accelerator"]), pd.Series(dtype=float))
    held = mine.reindex(quarters_of(plan), fill_value=0.0)
    here = str(row["quarter"])
    if here in held.index:
        before = held.iloc[max(list(held.index).index(here) - 1, 0)]
        if held[here] < before - 0.5:
            found.insert(0, "a contract ends")
    if row["gives"] == "price":
        found.append("a lower price for use that is there anyway")
    return listed(found or ["demand grows"])


@told_once
def renewals(plan: Plan, book: Book) -> pd.DataFrame:
    """Return what to do about every signed contract that ends, or wants notice, up to a year after the plan, by date.

    Returns:
        DataFrame: date (last day for it), contract_id, provider, what (give notice, renew, let it end; or leave, sell or exchange some
            machines early), ends, owed_amount (still to be paid), exit_amount (what leaving today costs), missed_amount (what is owed if
            the date is missed: a contract that renews by itself, for its term at its renewal price; of machines left early, what keeping
            them would cost).
    """
    as_of, after = pd.Timestamp(plan.scenario.as_of), quarter_end(quarters_of(plan)[-1]) + pd.DateOffset(years=1)
    signed = book.get("commitments")
    providers = book.get("skus").set_index("sku")["provider"]
    bought = set(plan.purchases.purchases.loc[plan.purchases.purchases["kind"] == "renewal", "offer_id"])
    owed = plan.ledger.contracts[plan.ledger.contracts["status"] == "signed"].set_index("contract_id")
    rows = []
    for row in records(signed[(signed["end"] >= as_of) & (signed["end"] < after)]):
        name, kept = str(row["commitment_id"]), f"renew {row['commitment_id']}" in bought
        by_itself = bool(row["renews"]) if pd.notna(row["renews"]) else False
        notice = row["notice_date"]
        open_notice = pd.notna(notice) and notice >= as_of
        missed = np.nan
        if by_itself:
            months = TERM_MONTHS.get(row["term"], max(round((row["end"] - row["start"]).days / 30.4), 1))
            rate = row["renewal_usd_per_hour"] if pd.notna(row["renewal_usd_per_hour"]) else row["usd_per_hour"]
            begin = row["end"] + pd.Timedelta(days=1)
            missed = float(row["machines"] * rate * (add_months(begin, months) - begin).days * 24)
        what = (
            "renew" if kept else "give notice" if by_itself and open_notice else "notice is past: it renews" if by_itself else "let it end"
        )
        date = notice if open_notice else row["end"]
        about = owed.loc[name] if name in owed.index else None
        left = 0.0 if about is None else float(about["owed_usd"])
        leaving = np.nan if about is None else float(about["exit_cost_usd"])
        rows.append((date, name, str(providers.get(row["sku"], "")), what, row["end"], left, leaving, missed))
    ends = signed.set_index("commitment_id")["end"]
    for gone in records(plan.purchases.departures):
        what = f"{gone['what']} {gone['machines']:g} of {counted(gone['of_machines'], 'machine')} on {gone['day']:%Y-%m-%d}"
        about = (gone["sign_by"], gone["contract_id"], gone["provider"], what, ends.get(gone["contract_id"], pd.NaT))
        rows.append((*about, gone["not_owed_usd"], gone["exit_usd"], gone["saves_usd"]))
    table = pd.DataFrame(rows, columns=["date", "contract_id", "provider", "what", "ends", "owed_amount", "exit_amount", "missed_amount"])
    table = table.sort_values(["date", "contract_id"], ignore_index=True)
    for name in ("owed_amount", "exit_amount", "missed_amount"):
        table[name] = in_currency(plan, table[name], as_of)
    return table


@told_once
def agreements(plan: Plan) -> pd.DataFrame:
    """Return how far each contract year of a spend agreement is used up.

    Returns:
        DataFrame: agreement_id, provider, start, end, and in the book's currency: committed_amount (with what rolls in), drawn_amount
            (before the plan), planned_amount, left_amount (more is used where negative), unspent_amount (paid for nothing); used_share.
    """
    table = plan.ledger.agreements
    result = table[["agreement_id", "provider", "start", "end"]].copy()
    day = table["end"]
    committed = table["committed_usd"].astype(float) + table["rolled_in_usd"].astype(float)
    result["committed_amount"] = in_currency(plan, committed, day)
    result["drawn_amount"] = in_currency(plan, table["drawn_usd"], day)
    result["planned_amount"] = [float(_billed_under(plan, row)["amount"].sum()) for row in records(table)]
    result["left_amount"] = result["committed_amount"] - result["drawn_amount"] - result["planned_amount"]
    result["unspent_amount"] = in_currency(plan, table["shortfall_usd"], day)
    result["used_share"] = (result["drawn_amount"] + result["planned_amount"]) / result["committed_amount"].where(
        result["committed_amount"] > 0
    )
    return result


def burn_down_by_quarter(plan: Plan) -> pd.DataFrame:
    """Return what each agreement's provider bills toward it, quarter by quarter, and what is left of the sum.

    Returns:
        DataFrame: agreement_id, end (of its year), quarter, billed_amount, left_amount at the quarter's end.
    """
    rows = []
    for row in records(agreements(plan)):
        sums, left = _billed_under(plan, row).groupby("quarter")["amount"].sum(), row["committed_amount"] - row["drawn_amount"]
        for quarter, amount in sums.items():
            left -= float(amount)
            rows.append((row["agreement_id"], row["end"], quarter, float(amount), left))
    return pd.DataFrame(rows, columns=["agreement_id", "end", "quarter", "billed_amount", "left_amount"])


def _billed_under(plan: Plan, year: dict[Any, Any]) -> pd.DataFrame:
    """Return what is still billed toward a contract year of an agreement: all of its provider, discounts taken off."""
    rows, open_from = plan.ledger.entries, pd.Timestamp(plan.scenario.as_of).replace(day=1)
    rows = rows[(rows["view"] == "billed") & (rows["component"] != "agreement_shortfall") & (rows["provider"] == year["provider"])]
    return rows[(rows["month"] >= max(year["start"].replace(day=1), open_from)) & (rows["month"] <= year["end"])]


@told_once
def commitment_desk(plan: Plan, book: Book) -> pd.DataFrame:
    """Return every commitment: signed contracts, machines, and what this plan signs, with its dates and how well its pool is used.

    Returns:
        DataFrame: contract_id, status (signed, firm, indicative), provider, accelerator, term, start, end, notice_date, accelerators,
            owed_amount, then for each planned quarter the share that is used of what contracts like it hold (hours) or can discount; empty
            where it does not run.
    """
    about = ["provider", "accelerator", "term", "start", "end", "notice_date", "accelerators"]
    machines, life = book.get("skus").set_index("sku"), plan.scenario.useful_life_years
    held = holdings_with_terms(book.get("commitments"), book.get("assets"), machines, life).assign(status="signed")
    held["end"] -= pd.Timedelta(days=1)
    bought = plan.purchases.purchases
    bought = bought.assign(
        name=bought["offer_id"] + " " + bought["quarter"],
        status=np.where(bought["firm"].astype(bool), "firm", "indicative"),
        start=bought["starts"],
        end=bought["ends"],
        notice_date=pd.NaT,
    )
    desk = pd.concat([held[["name", "status", *about]], bought[["name", "status", *about]]], ignore_index=True)
    desk = desk.rename(columns={"name": "contract_id"})
    desk = desk[desk["end"] >= pd.Timestamp(plan.scenario.as_of)].reset_index(drop=True)
    owed = plan.ledger.contracts.groupby("contract_id")["owed_usd"].sum()
    desk["owed_amount"] = in_currency(plan, desk["contract_id"].map(owed).fillna(0.0), pd.Timestamp(plan.scenario.as_of))
    keys = ["quarter", "provider", "accelerator"]
    held = plan.ledger.idle.set_index(keys)["used_share"]
    drawn = discounted_hours(plan).set_index(keys)["discounted_accelerator_hours"]
    holds = np.array([plan.ledger.pools.get(name, ("", "", True))[2] for name in desk["contract_id"]], dtype=bool)
    pool = list(zip(desk["provider"], desk["accelerator"], strict=True))
    for quarter in quarters_of(plan):
        runs = ((desk["start"] < quarter_end(quarter)) & (desk["end"] >= quarter_start(quarter))).to_numpy()
        paid = (
            (desk["accelerators"] * quarter_hours(quarter, plan.scenario.hours_convention))
            .where(runs & ~holds, 0.0)
            .groupby([desk["provider"], desk["accelerator"]])
            .sum()
        )
        shares = [
            np.nan if not here else held.get((quarter, *key), np.nan) if full else min(1.0, drawn.get((quarter, *key), 0.0) / paid[key])
            for key, full, here in zip(pool, holds, runs, strict=True)
        ]
        desk[quarter] = pd.Series(shares, dtype=float)
    return desk.sort_values(
        ["status", "end", "contract_id"],
        key=lambda part: part.map({"signed": 0, "firm": 1, "indicative": 2}) if part.name == "status" else part,
        ignore_index=True,
    )


def renewal_calendar(plan: Plan, book: Book) -> pd.DataFrame:
    """Return in which quarter how much capacity ends, by provider and accelerator: signed contracts, machines, and what this plan signs.

    Returns:
        DataFrame: quarter, provider, accelerator, accelerators, contracts (names).
    """
    desk = commitment_desk(plan, book)
    desk = desk.assign(quarter=[quarter_of(day) for day in desk["end"]])
    span = quarter_range(quarters_of(plan)[0], len(quarters_of(plan)) + 4)
    rows = desk[desk["quarter"].isin(span)].groupby(["quarter", "provider", "accelerator"], as_index=False)
    return rows.agg(accelerators=("accelerators", "sum"), contracts=("contract_id", ", ".join))
