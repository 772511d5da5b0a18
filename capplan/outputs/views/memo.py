"""The memo that is signed: what is asked, what it costs against the budget, what waiting costs, and what could change the decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from capplan.answers.plan import Plan
from capplan.book.book import Book
from capplan.outputs.views.bridges import plan_bridge
from capplan.outputs.views.decision_tables import agreements, decisions, renewals
from capplan.outputs.views.plan_tables import fiscal_years, in_currency, quarters_of
from capplan.questions.procurement.hindsight.verdicts import CLOSE, SIGN, WAIT
from capplan.text import counted, day, listed, money, whole_words, words

#: Rows that page one has room for.
ASKED, RENEWED, AGREED, RISKS = 8, 5, 4, 3
#: Below this share of the plan's cost a difference decides nothing by itself.
CLOSE_SHARE = 0.005


@dataclass(frozen=True)
class MemoBlock:
    """One part of page one: a key that its figures carry, a title, sentences, and a table."""

    key: str
    title: str
    sentences: Sequence[str] = ()
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    half: bool = False


def waiting(plan: Plan) -> pd.DataFrame:
    """Return what it costs to sign nothing: until the next review, and at all; spend and unserved work are two numbers.

    Returns
    -------
    DataFrame
        if_instead, more_spend_amount (undiscounted, planned quarters), more_unserved_amount (imputed: nobody invoices it),
        more_in_all_amount (expected,
        discounted, with the years after the horizon where demand is held: what the decision rests on).
    """
    table = plan.purchases.alternatives.set_index("name")
    chosen, rows = table.loc["plan"], []
    for name, label in (
        ("sign_nothing_yet", "nothing is signed before the next review"),
        ("do_nothing", "nothing is signed or renewed at all"),
    ):
        if name in table.index:
            other = table.loc[name]
            rows.append((label, *(float(other[column] - chosen[column]) for column in ("spend_usd", "shortfall_usd", "expected_usd"))))
    found = pd.DataFrame(rows, columns=["if_instead", "more_spend_amount", "more_unserved_amount", "more_in_all_amount"])
    for column in found.columns[1:]:
        found[column] = in_currency(plan, found[column], pd.Timestamp(plan.scenario.as_of))
    return found


def verdicts_of(plan: Plan, firm: pd.DataFrame) -> tuple[list[str], list[float], str]:
    """Return a verdict and what waiting costs for each firm purchase, and the verdict on all together.

    They come from demand the plan has not seen (`Purchases.verdicts`); where there was none left, from what signing nothing before the
    next review costs, held against
    what is proven.
    """
    found = plan.purchases.verdicts
    if found.empty:
        return [_proven(plan)] * len(firm), [float("nan")] * len(firm), _proven(plan)
    own = {(row["offer_id"], row["quarter"]): (str(row["verdict"]), float(row["saves_usd"])) for row in found.to_dict("records")}
    whole = str(found.iloc[-1]["verdict"])
    pairs = [own.get((row["offer_id"], row["quarter"]), (whole, float("nan"))) for row in firm.to_dict("records")]
    return [said for said, _ in pairs], [saves if math.isfinite(saves) else float("nan") for _, saves in pairs], whole


def _proven(plan: Plan) -> str:
    """Say sign, wait, or too close to call by the plan's own paths."""
    table = plan.purchases.alternatives.set_index("name")
    if not plan.purchases.purchases["firm"].any():
        return WAIT
    if "sign_nothing_yet" not in table.index:
        return SIGN
    cost = float(table.loc["sign_nothing_yet", "regret_usd"])
    proof = plan.purchases.proof
    unsure = max(proof.upper_usd - proof.lower_usd, CLOSE_SHARE * abs(proof.upper_usd))
    return SIGN if cost > unsure else CLOSE if cost > -unsure else WAIT


def asked(plan: Plan) -> pd.DataFrame:
    """Return the firm decisions as page one shows them, with their sum."""
    table = decisions(plan)
    firm = table[table["firm"]].reset_index(drop=True)
    said, saved, _ = verdicts_of(plan, firm)
    shown = pd.DataFrame(
        {
            "what": [
                f"{counted(row['machines'], 'machine')}, {row['accelerators']:g} {row['accelerator']}, {row['provider']},"
                f" {words(row['term']).lower()}"
                for row in firm.to_dict("records")
            ],
            "starts": firm["starts"],
            "ends": firm["ends"],
            "value_amount": firm["value_amount"],
            "exit_amount": firm["exit_amount"],
            "submit_by": firm["submit_by"],
            "sign_by": firm["sign_by"],
            "who_signs": firm["approver"],
            "price": firm["price"],
            "because": firm["because"],
            "verdict": said,
            "waiting_costs_amount": in_currency(plan, pd.Series(saved, dtype=float), pd.Timestamp(plan.scenario.as_of)),
        }
    )
    if len(shown) <= ASKED:
        return shown
    rest = shown.iloc[ASKED - 1 :]
    last = {
        "what": f"{counted(len(rest), 'more contract')}: see the appendix",
        "value_amount": rest["value_amount"].sum(),
        "exit_amount": rest["exit_amount"].sum(),
    }
    return pd.concat([shown.head(ASKED - 1), pd.DataFrame([last])], ignore_index=True)


def headline(plan: Plan) -> str:
    """Say in finance's words what the plan costs against its budget, what to sign, by when, and what waiting costs."""
    currency, quarters = plan.scenario.currency, quarters_of(plan)
    total = fiscal_years(plan).iloc[-1]
    spent = money(float(total["p_and_l_amount"]), currency)
    against = "no budget is stated for all of them"
    if pd.notna(total["budget_amount"]):
        over, budget = float(total["over_amount"]), float(total["budget_amount"])
        share = f" ({abs(over) / budget:.1%})" if budget > 0 else ""
        against = f"{money(abs(over), currency)}{share} {'over' if over > 0 else 'under'} the budget of {money(budget, currency)}"
    table = decisions(plan)
    firm = table[table["firm"]]
    wait = waiting(plan).set_index("if_instead")["more_in_all_amount"]
    first = f"P&L from {quarters[0]} to {quarters[-1]}: {spent}, {against}."
    if firm.empty:
        return f"{first} Nothing has to be signed before the next review."
    said, _, together = verdicts_of(plan, firm)
    if together != SIGN and SIGN not in said:
        worth = money(float(firm["value_amount"].sum()), currency)
        why = "waiting is better" if together == WAIT else "it is too close to call, so wait"
        return (
            f"{first} Sign nothing yet: {counted(len(firm), 'contract')} worth {worth} could be signed before the next review, and {why}."
        )
    firm = firm[[one == SIGN for one in said]] if SIGN in said else firm
    whole = money(float(firm["value_amount"].sum()), currency)
    ask = (
        f"Sign {counted(len(firm), 'contract')} worth {whole}: submit by {day(firm['submit_by'].min())}, sign from"
        f" {day(firm['sign_by'].min())} on"
    )
    later = next(iter(wait), None)
    costs = (
        f"waiting for the next review {'costs' if later >= 0 else 'saves'} {money(abs(later), currency)} in expectation"
        if later is not None
        else ""
    )
    return f"{first} {ask}{'; ' + costs if costs else ''}."


def risks(plan: Plan, flips: pd.DataFrame | None) -> list[str]:
    """Name what speaks against signing, and what would change the decision, the weightiest first."""
    currency, found = plan.scenario.currency, []
    table = decisions(plan)
    bare = table[table["firm"] & ~table["price"].isin(["quote", "renewal"])]
    if len(bare):
        worth = money(float(bare["value_amount"].sum()), currency)
        found.append(
            f"{counted(len(bare), 'contract')} to sign now worth {worth} {'rests' if len(bare) == 1 else 'rest'} on no fresh quote: get one"
            " before signing."
        )
    found += [note for note in plan.purchases.notes if "horizon's end matters" in note][:1]
    found += [note for note in plan.purchases.notes if "the contract of the site ends" in note][:1]
    if flips is not None and len(flips):
        names = [words(str(name)).lower() for name in flips["assumption"].head(3)]
        found.append(f"The decision would change with {listed(names)}: see the appendix for the values.")
    return found[: RISKS + 1]


def around(plan: Plan, last: pd.DataFrame | None) -> list[str]:
    """Say between which sums the P&L lies, and what the last plan said."""
    currency, found = plan.scenario.currency, []
    band = plan.ledger.band[plan.ledger.band["quarter"] == "all"].set_index("quantile")["usd"]
    if len(band):
        low, high = in_currency(plan, band.loc[[0.1, 0.9]], pd.Timestamp(plan.scenario.as_of))
        found.append(
            f"Of ten futures of demand one leads to a P&L above {money(float(high), currency)}, one to less than"
            f" {money(float(low), currency)}."
        )
    moved = plan_bridge(plan, last)
    if len(moved):
        before, now = float(moved["amount"].iloc[0]), float(moved["amount"].iloc[-1])
        found.append(
            f"The last plan said {money(before, currency)}; this one {money(now, currency)} ({money(now - before, currency, signed=True)})."
        )
    return found


def memo_blocks(plan: Plan, book: Book, flips: pd.DataFrame | None, last: pd.DataFrame | None = None) -> list[MemoBlock]:
    """Return the parts of page one in their order.

    Parameters
    ----------
    plan, book
        The finished plan, and the book it was made from.
    flips
        Values at which the decision flips; None where they were not searched.
    last
        The table spend of the last plan; None where there is none.
    """
    ask, years = asked(plan), fiscal_years(plan)
    due, used = renewals(plan, book).head(RENEWED), agreements(plan)
    used = used[used["end"] >= pd.Timestamp(plan.scenario.as_of)].head(AGREED)
    used = used.assign(to=used["end"])[
        ["agreement_id", "to", "committed_amount", "drawn_amount", "planned_amount", "left_amount", "unspent_amount"]
    ]
    signers = list(dict.fromkeys(name for name in ask.get("who_signs", pd.Series(dtype=str)).dropna()))
    blocks = [
        MemoBlock("ask", "The ask", () if len(ask) else ("Nothing has to be signed before the next review.",), ask),
        MemoBlock(
            "years", "P&L against budget, and cash, by fiscal year", tuple(around(plan, last)), years.drop(columns="months"), half=True
        ),
        MemoBlock("waiting", "If nothing is signed", (), waiting(plan), half=True),
    ]
    if len(used):
        blocks.append(MemoBlock("agreements", "Spend agreements", (), used, half=True))
    if len(due):
        blocks.append(MemoBlock("renewals", "Contracts that end, and notices", (), due.drop(columns=["ends", "exit_amount"]), half=True))
    blocks.append(MemoBlock("risks", "Risks, and what would change the decision", tuple(risks(plan, flips))))
    blocks.append(
        MemoBlock(
            "signatures",
            "Approval",
            tuple(f"{whole_words(name)}: ______________________  date: ____________" for name in signers or ["Approved"]),
        )
    )
    return blocks
