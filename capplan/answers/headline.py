"""The sentence of a plan, in finance's words: P&L against budget, what to sign, by when, what waiting costs; and its verdicts."""

import math

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.sums import in_currency, plan_currency, quarters_of, spend
from capplan.dollars import in_force
from capplan.questions.procurement.hindsight.verdicts import CLOSE, SIGN, WAIT, verdict_words
from capplan.records import records
from capplan.text import counted, day, listed, money

#: Below this share of the plan's cost a difference decides nothing by itself.
CLOSE_SHARE = 0.005
#: Below this share of the P&L an amount is not worth words.
WORDLESS_SHARE = 1e-4


def waiting(plan: Plan) -> pd.DataFrame:
    """Return what it costs to sign nothing: until the next review, and at all; what is spent and what stays undone are two numbers.

    Returns:
        DataFrame: if_instead, more_spend_amount (expected, undiscounted, planned), more_unserved_amount (work left undone, at the price
            that the book puts on it: nobody invoices it, and it is no part of the spend).
    """
    table = plan.purchases.alternatives.set_index("name")
    chosen, rows = table.loc["plan"], []
    for name, label in (
        ("sign_nothing_yet", "nothing is signed before the next review"),
        ("do_nothing", "nothing is signed or renewed at all"),
    ):
        if name in table.index:
            other = table.loc[name]
            rows.append((label, *(float(other[column] - chosen[column]) for column in ("spend_usd", "shortfall_usd"))))
    found = pd.DataFrame(rows, columns=["if_instead", "more_spend_amount", "more_unserved_amount"])
    for column in found.columns[1:]:
        found[column] = in_currency(plan, found[column], pd.Timestamp(plan.scenario.as_of))
    return found


def verdicts_of(plan: Plan, firm: pd.DataFrame) -> tuple[list[str], list[float], str]:
    """Return a verdict and what waiting costs for each firm purchase (offer_id, quarter), and the verdict on all together.

    They come from demand the plan has not seen (`Purchases.verdicts`); where there was none left, from what signing nothing before the next
    review costs, held against what is proven.
    """
    found = plan.purchases.verdicts
    if found.empty:
        return [_proven(plan)] * len(firm), [float("nan")] * len(firm), _proven(plan)
    own = {(row["offer_id"], row["quarter"]): (str(row["verdict"]), float(row["saves_usd"])) for row in records(found)}
    whole = str(found.iloc[-1]["verdict"])
    pairs = [own.get((row["offer_id"], row["quarter"]), (whole, float("nan"))) for row in records(firm)]
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


def advised(plan: Plan, firm: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return those of the firm purchases (offer_id, quarter) that the verdicts say to sign, and the verdict on all together."""
    said, _, together = verdicts_of(plan, firm)
    return firm[[one == SIGN or (together == SIGN and SIGN not in said) for one in said]], together


def plan_headline(plan: Plan) -> str:
    """Say in one sentence what the plan costs against its budget, what to sign, by when, and what waiting costs."""
    firm = plan.purchases.purchases[plan.purchases.purchases["firm"].astype(bool)]
    cost = _against_budget(plan)
    if firm.empty:
        return f"{cost}; nothing has to be signed before the next review."
    worth_it, together = advised(plan, firm)
    if worth_it.empty:
        why = "waiting is better" if together == WAIT else "it is too close to call, so wait"
        could = f"{counted(len(firm), 'contract')} worth {_worth(plan, firm)} could be signed before the next review, and {why}"
        return f"{cost}; sign nothing yet: {could}."
    firm = worth_it
    submit = max(firm["submit_by"].min(), pd.Timestamp(plan.scenario.as_of))
    ask = (
        f"sign {counted(len(firm), 'contract')} worth {_worth(plan, firm)}, submitted by {day(submit)} and signed by"
        f" {day(firm['signed_on'].min())}"
    )
    return f"{cost}; {ask}{_cost_of_waiting(plan)}."


def _against_budget(plan: Plan) -> str:
    """Say what the planned quarters cost in the P&L, and how that stands to their budget."""
    currency, quarters, table = plan.scenario.currency, quarters_of(plan), spend(plan)
    total = float(table["expected"].sum())
    spent = f"P&L of {quarters[0]} to {quarters[-1]} is {money(total, currency)}"
    if table["budget"].isna().any():
        return f"{spent}, without a budget to hold it against"
    budget = float(table["budget"].sum())
    over, share = total - budget, f" ({abs(total - budget) / budget:.1%})" if budget > 0 else ""
    return f"{spent}, {money(abs(over), currency)}{share} {'over' if over > 0 else 'under'} the budget of {money(budget, currency)}"


def _worth(plan: Plan, firm: pd.DataFrame) -> str:
    """Return the whole value of contracts, at the rates of their signatures."""
    return money(float(in_currency(plan, firm["usd"], firm["signed_on"]).sum()), plan.scenario.currency)


def _cost_of_waiting(plan: Plan) -> str:
    """Say what waiting for the next review adds to spend, and what it leaves undone; nothing where there is no plan that waits."""
    table, currency = plan.purchases.alternatives.set_index("name"), plan.scenario.currency
    if "sign_nothing_yet" not in table.index:
        return ""
    late = waiting(plan).iloc[0]
    least = WORDLESS_SHARE * abs(float(table.loc["plan", "expected_usd"]))
    spent, undone = float(late["more_spend_amount"]), float(late["more_unserved_amount"])
    found = [f"{'adds' if spent > 0 else 'saves'} {money(abs(spent), currency)} of spend"] * (abs(spent) > least)
    found += [f"leaves {'more' if undone > 0 else 'less'} work undone, at a price of {money(abs(undone), currency)}"] * (
        abs(undone) > least
    )
    return f"; waiting for the next review {listed(found) or 'costs next to nothing'}"


def verdicts_said(plan: Plan) -> pd.DataFrame:
    """Say of each purchase that is due: sign, wait, or too close to call; in the book's currency, without what waiting is made of.

    Returns:
        DataFrame: about (offer, or all that is due), words.
    """
    with in_force(plan_currency(plan)):
        said = verdict_words(plan.purchases.verdicts)
    return pd.DataFrame(
        {"about": said["about"].str.removeprefix("verdict: "), "words": [words.partition(" Of that, ")[0] for words in said["words"]]}
    )
