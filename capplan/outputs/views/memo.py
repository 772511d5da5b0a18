"""The memo that is signed: what is asked, what it costs against the budget, what waiting costs, and what could change the decision."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.headline import verdicts_of, waiting
from capplan.answers.sums import in_currency
from capplan.book.book import Book
from capplan.outputs.views.bridges import NO_PLAN, LastPlan, plan_bridge
from capplan.outputs.views.decision_tables import agreements, decisions, renewals
from capplan.outputs.views.plan_tables import fiscal_years
from capplan.questions.procurement.explain.endings import ENDINGS
from capplan.questions.review import told
from capplan.records import records
from capplan.text import counted, listed, money, whole_words, words

#: Under another end of the horizon a purchase is as asked up to this share of its lots.
KEPT_SHARE = 0.05
#: Work that was seen for fewer days, and for less than the contract's length by this factor, does not show how it grows.
SEEN_DAYS, SEEN_TIMES = 365, 4
#: Rows that page one has room for.
ASKED, RENEWED, AGREED, RISKS = 8, 5, 4, 3
#: Share of a workload's demand in a quarter that is left undone from which page one says so.
UNDONE_SHARE = 0.05


@dataclass(frozen=True)
class MemoBlock:
    """One part of page one: a key that its figures carry, a title, sentences, and a table."""

    key: str
    title: str
    sentences: Sequence[str] = ()
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    half: bool = False


def _other_ends(plan: Plan, row: dict[Any, Any]) -> str:
    """Say what share of a purchase would be taken under the other ends of the horizon, in the order of their columns."""
    ends = plan.purchases.endings
    if ends.empty:
        return ""
    own = ends[(ends["offer_id"] == row["offer_id"]) & (ends["quarter"] == row["quarter"])]
    names = [name for name in ENDINGS if name in ends.columns]
    if own.empty or not names:
        return ""
    shares = [min(float(own[name].iloc[0]) / float(own["lots"].iloc[0]), 9.99) for name in names]
    return "as asked" if all(abs(share - 1) < KEPT_SHARE for share in shares) else ", ".join(f"{share:.0%}" for share in shares)


def asked(plan: Plan) -> pd.DataFrame:
    """Return the firm decisions as page one shows them, with their sum."""
    table = decisions(plan)
    firm = table[table["firm"]].reset_index(drop=True)
    said, saved, _ = verdicts_of(plan, firm)
    shown = pd.DataFrame(
        {
            "what": [
                f"{counted(row['machines'], 'machine')}, {row['accelerators']:g} {row['accelerator']}, "
                + ("bought" if row["term"] == "owned" else f"{row['provider']}, {words(row['term']).lower()}")
                for row in records(firm)
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
            "other_ends": [_other_ends(plan, row) for row in records(firm)],
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


def risks(plan: Plan, book: Book, flips: pd.DataFrame | None) -> list[str]:
    """Name what speaks against signing, and what would change the decision, the weightiest first."""
    currency, found = plan.scenario.currency, left_undone(plan.purchases.service)
    table = decisions(plan)
    bare = table[table["firm"] & ~table["price"].isin(["quote", "renewal"])]
    if len(bare):
        worth = money(float(bare["value_amount"].sum()), currency)
        found.append(
            f"{counted(len(bare), 'contract')} to sign now worth {worth} {'rests' if len(bare) == 1 else 'rest'} on no fresh quote: get one"
            " before signing."
        )
    found += seen_too_short(book.get("usage") if "usage" in book.own else pd.DataFrame(), table[table["firm"]])
    found += [note for note in plan.purchases.notes if "horizon's end matters" in note][:1]
    found += [note for note in plan.purchases.notes if "the contract of the site ends" in note][:1]
    if flips is not None and len(flips):
        names = [words(str(name)).lower() for name in flips["assumption"].head(3)]
        found.append(f"The decision would change with {listed(names)}: see the appendix for the values.")
    return found[: RISKS + 1]


def seen_too_short(usage: pd.DataFrame, firm: pd.DataFrame) -> list[str]:
    """Say where contracts that are asked for last much longer than the work has been seen.

    Args:
        firm: Purchases to be signed now: starts and ends.
    """
    if usage.empty or firm.empty:
        return []
    days = (usage["time"].max() - usage["time"].min()).days + 1
    years = (firm["ends"] - firm["starts"]).max() / pd.Timedelta(days=365)
    if days >= SEEN_DAYS or years < SEEN_TIMES * days / 365:
        return []
    seen, asked_for = counted(days, "day"), counted(round(years, 1), "year")
    return [
        f"The work was seen for {seen}, and what is to be signed lasts up to {asked_for}: its growth is assumed, not seen. A shorter term,"
        " or a later signature of a part, keeps that open."
    ]


def left_undone(service: pd.DataFrame) -> list[str]:
    """Say which work the plan leaves undone most, where that is a share that counts.

    Args:
        service: class, quarter, demanded and shortfall by path.
    """
    work = service.groupby(["class", "quarter"])[["demanded", "shortfall"]].sum()
    share = (work["shortfall"] / work["demanded"].where(work["demanded"] > 0)).fillna(0.0)
    if share.empty or share.max() < UNDONE_SHARE:
        return []
    name, quarter = share.idxmax()
    return [
        f"The plan leaves work undone, {share.max():.0%} of {name} in {quarter}: no more can be had, or more would cost above what the"
        " work is worth. Check what can be had on demand."
    ]


def around(plan: Plan, last: LastPlan) -> list[str]:
    """Say what the band of the P&L is, what the last plan said, and what moved it."""
    currency = plan.scenario.currency
    found = ["Of ten futures of demand one leads to a P&L under P10, one to more than P90."] * bool(len(plan.ledger.band))
    moved = plan_bridge(plan, last.spend)
    if last.moved_by is not None:
        found.append(told(last.moved_by, currency))
    elif len(moved):
        before, now = float(moved["amount"].iloc[0]), float(moved["amount"].iloc[-1])
        found.append(
            f"The last plan said {money(before, currency)}; this one {money(now, currency)} ({money(now - before, currency, signed=True)})."
        )
    return found


def _about_the_ask(plan: Plan) -> tuple[str, ...]:
    """Say what the columns of the ask rest on."""
    ends = [ENDINGS[name] for name in ENDINGS if name in plan.purchases.endings.columns]
    told = f" Other ends: the share of it that would be taken with contracts {' or '.join(ends)}." if ends else ""
    return (f"Waiting costs: what signing now saves on demand that the plan has not seen, work left undone counted at its price.{told}",)


def memo_blocks(plan: Plan, book: Book, flips: pd.DataFrame | None, last: LastPlan = NO_PLAN) -> list[MemoBlock]:
    """Return the parts of page one in their order.

    Args:
        flips: Values at which the decision flips; None where they were not searched.
    """
    ask, years = asked(plan), fiscal_years(plan, last.spend)
    due, used = renewals(plan, book).head(RENEWED), agreements(plan)
    used = used[used["end"] >= pd.Timestamp(plan.scenario.as_of)].head(AGREED)
    used = used.assign(to=used["end"])[
        ["agreement_id", "to", "committed_amount", "drawn_amount", "planned_amount", "left_amount", "unspent_amount"]
    ]
    signers = list(dict.fromkeys(name for name in ask.get("who_signs", pd.Series(dtype=str)).dropna()))
    blocks = [
        MemoBlock("ask", "The ask", _about_the_ask(plan) if len(ask) else ("Nothing has to be signed before the next review.",), ask),
        MemoBlock(
            "years",
            "P&L against budget, and cash, by fiscal year",
            tuple(around(plan, last)),
            years.drop(columns="months").dropna(axis="columns", how="all"),
        ),
        MemoBlock("waiting", "If nothing is signed", (), waiting(plan), half=True),
    ]
    if len(used):
        blocks.append(MemoBlock("agreements", "Spend agreements", (), used, half=True))
    if len(due):
        blocks.append(MemoBlock("renewals", "Contracts that end, and notices", (), due.drop(columns=["ends", "exit_amount"]), half=True))
    blocks.append(MemoBlock("risks", "Risks, and what would change the decision", tuple(risks(plan, book, flips))))
    blocks.append(
        MemoBlock(
            "signatures",
            "Approval",
            tuple(f"{whole_words(name)}: ______________________  date: ____________" for name in signers or ["Approved"]),
        )
    )
    return blocks
