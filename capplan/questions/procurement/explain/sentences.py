"""The answer in plain words: one line for each number that a plan rests on."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.dollars import said_on
from capplan.questions.procurement.answer import Proof
from capplan.questions.procurement.explain.alternatives import shown_alternatives
from capplan.questions.procurement.explain.whole_lots import HELD, OPTIMUM
from capplan.records import records
from capplan.text import counted, money, price

#: Limits, and offers that were not taken, that have a line of their own.
LINES = 3
COLUMNS = ["about", "words"]
NAMES = {"evpi": "perfect forecast (EVPI)", "vss": "many futures instead of their average (VSS)"}


def in_words(
    purchases: pd.DataFrame,
    alternatives: pd.DataFrame,
    information: pd.DataFrame,
    limits: tuple[pd.DataFrame, pd.DataFrame],
    rejected: pd.DataFrame,
    proof: Proof,
    a: ProcurementAssumptions,
) -> pd.DataFrame:
    """Say what the tables of an answer mean.

    Args:
        purchases, alternatives, information, rejected, proof: Parts of the answer, as in `answer.Purchases`.
        limits: Its binding and its limit_lots.

    Returns:
        DataFrame: about, words.
    """
    plan = alternatives.set_index("name").loc["plan"]
    rows = [
        ("next decision", _next(purchases)),
        ("expected cost", f"On average over all paths the plan costs {money(plan['expected_usd'])}."),
        ("bad cases", f"In the worst {100 * a.tail_share:g} % of cases it costs {money(plan['cvar_usd'])} on average (the CVaR)."),
        ("worst case", f"On the worst path of all it costs {money(plan['worst_usd'])}."),
        ("proof", _proven(proof)),
    ]
    rows += [
        (NAMES.get(row.name, row.name.replace("_", " ")), f"{row.meaning[0].upper()}{row.meaning[1:]}: {money(row.usd)}{_below(row.usd)}.")
        for row in information.itertuples(index=False)
    ]
    rows += [
        (f"regret: {row.name.replace('_', ' ')}", _regret(row.meaning, float(row.regret_usd), proof))
        for row in shown_alternatives(alternatives).itertuples(index=False)
        if row.name != "plan"
    ]
    rows += _limits(*limits)
    rows += [
        (
            f"not taken: {row['offer_id']}",
            (
                f"Offered at {price(row['usd_per_hour'])} an hour for {row['quarter']}; {row['why']}."
                f"{entry_words(row, partial(_priced, row))}"
            ),
        )
        for row in records(rejected.head(LINES))
    ]
    beyond = float(purchases["beyond_horizon_usd"].sum()) if len(purchases) else 0.0
    if beyond >= 1:
        rows.append(("after the horizon", f"Contracts of this plan owe {money(beyond)} after the last planned quarter{_counted(a)}."))
    return pd.DataFrame(rows, columns=COLUMNS)


def _priced(row: Mapping[str, Any], name: str) -> str:
    """Write a price of a row."""
    return price(row[name])


def _next(purchases: pd.DataFrame) -> str:
    """Name what must be signed first, and by when."""
    if purchases.empty:
        return "Nothing is to be signed."
    first = purchases["submit_by"].min()
    due = purchases[purchases["submit_by"] == first]
    what = ", ".join(f"{row.lots} x {row.offer_id} from {row.quarter}" for row in due.itertuples())
    when = "now; the day for it has passed" if due["late"].all() else f"by {due['sign_by'].min():%Y-%m-%d}, submitted by {first:%Y-%m-%d}"
    after = "" if due["firm"].any() else " It falls after the next review, so nothing has to be signed before."
    return f"Sign {what} ({money(*said_on(due['usd'], due['signed_on']))}) {when}.{after}"


def _proven(proof: Proof) -> str:
    """Say how good the plan is proven to be."""
    if proof.stopped_by == "optimal":
        return f"No plan costs less than {money(proof.upper_usd)}, risk-weighted: this one is optimal."
    words = (
        f"No plan costs less than {money(proof.lower_usd)}, risk-weighted; this one costs {money(proof.upper_usd)},"
        f" {100 * proof.gap_share:.2g} % more at most"
    )
    if proof.stopped_by == "gap":
        return f"{words}."
    return f"{words}, which is wider than was asked for{': the time limit ended the search' if proof.stopped_by == 'time limit' else ''}."


def within(gap_share: float) -> str:
    """Say how near to the best plan one is proven to be.

    Examples:
        >>> within(0.0123), within(3.0)
        ('within 1.2 % of it', 'no useful bound on the best is proven')
    """
    return f"within {100 * gap_share:.2g} % of it" if gap_share < 1 else "no useful bound on the best is proven"


def _below(usd: float) -> str:
    """Say why a worth that can only be above zero is found below it."""
    return "" if usd > -1 else ", which is below zero because the plan is the best one only within its proven gap"


def _regret(meaning: str, usd: float, proof: Proof) -> str:
    """Say what an alternative would cost more."""
    words = f"{meaning[0].upper()}{meaning[1:]}"
    if abs(usd) < 1:
        return f"{words}: no more than the plan."
    if usd > 0:
        return f"{words}: {money(usd)} more than the plan."
    within = ", which is within the plan's proven gap" if -usd <= proof.upper_usd - proof.lower_usd else ""
    return f"{words}: {money(-usd)} less than the plan{within}."


def _limits(binding: pd.DataFrame, lots: pd.DataFrame) -> list[tuple[str, str]]:
    """Name the limits of which more is worth most: what another whole lot needs, then what is used by the hour."""
    held = binding[binding["usd_per_unit"] > 0].sort_values("usd_per_unit", ascending=False, kind="stable").drop_duplicates("limit_id")
    if held.empty and lots.empty:
        return [("limits", "No limit holds the plan back.")]
    return [(f"limit: {row['limit_id']}", f"{more_of(row)} would save {money(row['saves_usd'])}.") for row in records(lots.head(LINES))] + [
        (
            f"limit: {row.limit_id}",
            f"In {row.quarter} {row.used:,.4g} of {row.limit:,.4g} are used; one more unit would save {money(row.usd_per_unit)}.",
        )
        for row in held.head(LINES).itertuples()
    ]


def more_of(row: Mapping[str, Any]) -> str:
    """Say how much more of a limit lets what in, as a row of `whole_lots.limits_in_lots` has it."""
    much = money(row["more"]) if row["kind"] == "budget_usd" else f"{row['more']:,.4g}{' kW' if row['kind'] == 'power_kw' else ''}"
    when = row["from_quarter"] if row["from_quarter"] == row["to_quarter"] else f"{row['from_quarter']} to {row['to_quarter']}"
    besides = f" (and {row['besides']})" if row["besides"] else ""
    given = f" instead of one of {row['instead_of']}" if row["instead_of"] else ""
    lots = counted(row["machines"], "more machine")
    return f"{much} more in {when}{besides} for {lots} of {row['offer_id']} from {row['quarter']}{given}"


def entry_words(row: Mapping[str, Any], at: Callable[[str], str]) -> str:
    """Say from which price on a rejected offer would be taken, or that its price is not what stands against it; nothing where unknown.

    Args:
        row: Of `answer.Purchases.rejected`.
        at: Writes an entry of the row as it is to be read.
    """
    own, pays, none = row["usd_per_hour"], row["entry_usd_per_hour"], row.get("none_from_usd_per_hour", float("nan"))
    never = f" not at {at('none_from_usd_per_hour')} or more" if 0 < none <= own else ""
    if 0 < pays < own:
        if row["judged_by"] == OPTIMUM:
            return f" It would begin to pay at {at('entry_usd_per_hour')}."
        return f" It pays at {at('entry_usd_per_hour')} an hour or less,{never or ' and perhaps at more: the proven gap does not tell'}."
    if str(row["why"]).startswith(HELD):
        return " Its price is not what stands against it."
    return " It would pay at no price." if none == 0 else f" It pays{never}." if never else ""


def _counted(a: ProcurementAssumptions) -> str:
    """Say whether the plan's cost has those payments in it."""
    if a.horizon_end == "truncate":
        return ", and its cost leaves them out: truncating hides them"
    return ", which its cost counts in full" if a.horizon_end == "count_in_full" else ", which its cost counts against what they then save"
