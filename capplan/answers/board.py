"""What-ifs side by side: the numbers a meeting decides by, of a first and of a full answer, in one column each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.headline import advised
from capplan.answers.placement import asked_book
from capplan.answers.plan import first_answer_of, keep_in, kept_answer_of, quarterly_plan
from capplan.answers.sums import cash, obligations, quarters_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.questions.procurement import FirstAnswer, Purchases, Signed, signed_now


@dataclass(frozen=True)
class Column:
    """One answer on the board."""

    name: str  #: What was asked.
    scenario: Scenario  #: The assumptions it was answered under: a run without a person under them gives the same numbers.
    headline: str  #: The plan's sentence.
    #: Value by measure; the ending of the name tells the unit (_usd, _amount: the book's currency, _share), counts have none.
    measures: Mapping[str, float]
    decisions: pd.DataFrame  #: (offer_id, quarter, accelerators, usd): What would be signed before the next review.
    full: bool  #: Is it the full answer, or a first one that stops early?
    signed: Signed = field(default_factory=dict)  #: The decision, as `keep_decision` takes it.


def first_column(name: str, book: Book, scenario: Scenario, base: Scenario | None = None) -> Column | None:
    """Answer at once; None where the full answer is known, or nothing is left to start from.

    Where the plan of another scenario is known (`base`), its purchases are kept and costed exactly, which takes no search: the best plan
    costs no more. Elsewhere a search starts from where the last one left off, and stops early.
    """
    changed = asked_book(book, scenario)
    found = kept_answer_of(changed, scenario, (asked_book(book, base), base)) if base is not None else None
    found = found or first_answer_of(changed, scenario)
    if found is None:
        return None
    measures = {"expected_usd": found.expected_usd, "bad_cases_usd": found.bad_usd, **_bought(found)}
    return Column(name, scenario, found.headline, measures, _firm(found.purchases), False)


def full_column(name: str, book: Book, scenario: Scenario, today: Signed | None = None) -> Column:
    """Answer in full, as a run without a person does.

    Args:
        today: What would be signed without the what-if; the column then says what signing that would cost under it.
    """
    return column_of(name, book, quarterly_plan(book, scenario), today)


def column_of(name: str, book: Book, plan: Plan, today: Signed | None = None) -> Column:
    """Return a finished plan as a column (see `full_column`)."""
    scenario, signed = plan.scenario, signed_now(plan.purchases.purchases)
    measures = _measures(plan)
    if today is not None and dict(today) != dict(signed):
        regret = keep_in(asked_book(book, scenario), scenario, today)().regret_share
        measures["todays_signatures_cost_more_usd"] = regret * measures["expected_usd"]
    return Column(name, scenario, plan.headline, measures, _firm(plan.purchases.purchases), True, signed)


def _measures(plan: Plan) -> dict[str, float]:
    """Return the numbers of a plan by which a meeting decides."""
    bought = plan.purchases
    chosen = bought.alternatives.set_index("name").loc["plan"]
    firm = bought.purchases[bought.purchases["firm"].astype(bool)]
    found = {"expected_usd": float(chosen["expected_usd"]), "bad_cases_usd": float(chosen["cvar_usd"])}
    found |= {"contracts_advised": float(len(advised(plan, firm)[0])), **_bought(bought)}
    entries = plan.ledger.entries
    expensed = entries[(entries["view"] == "p_and_l") & entries["quarter"].isin(quarters_of(plan))]
    years = expensed.groupby("fiscal_year", sort=True)["amount"].sum(), cash(plan, "fiscal_year").set_index("fiscal_year")["total_amount"]
    for name, amounts in zip(("p_and_l", "cash"), years, strict=True):
        found |= {f"{name}_{year}_amount": float(amount) for year, amount in amounts.items()}
    found["signed_contracts_amount"] = float(expensed.loc[expensed["status"] == "signed", "amount"].sum())
    owed = obligations(plan)
    return found | {
        "signed_and_owed_amount": float(owed["signed_amount"].sum() + owed["firm_amount"].sum()),
        "owed_after_the_plan_amount": float(owed["beyond_horizon_amount"].sum()),
        "unserved_usd": float(chosen["shortfall_usd"]),
    }


def _bought(found: FirstAnswer | Purchases) -> dict[str, float]:
    """Return what is signed now and later, and the share of work that nothing serves, of the class that lacks most."""
    purchases, dispatch = found.purchases, found.dispatch
    firm = purchases[purchases["firm"].astype(bool)]
    asked = dispatch.groupby("class")["expected_work"].sum()
    undone = dispatch[dispatch["source"] == "shortfall"].groupby("class")["expected_work"].sum().reindex(asked.index).fillna(0.0)
    return {
        "contracts_to_sign": float(len(firm)),
        "signed_now_usd": float(firm["usd"].sum()),
        "accelerators_bought": float(purchases["accelerators"].sum()),
        "unserved_share": float((undone / asked).max()) if (asked > 0).any() else 0.0,
    }


def _firm(purchases: pd.DataFrame) -> pd.DataFrame:
    """Return what is signed before the next review."""
    return purchases.loc[purchases["firm"].astype(bool), ["offer_id", "quarter", "accelerators", "usd"]].reset_index(drop=True)


def compared(before: Column, after: Column) -> pd.DataFrame:
    """Set two columns beside each other.

    Returns:
        DataFrame: measure, before, after, difference; then decisions that only one of them signs, as "offer, quarter" with their
            accelerators.
    """
    names = list(dict.fromkeys((*before.measures, *after.measures)))
    rows = [(name, before.measures.get(name), after.measures.get(name)) for name in names]
    old, new = (column.decisions.groupby(["offer_id", "quarter"])["accelerators"].sum() for column in (before, after))
    both = pd.concat([old, new], axis=1, keys=["before", "after"]).fillna(0.0)
    moved = both[both["before"] != both["after"]]
    rows += [(f"{offer}, {quarter}", float(row["before"]), float(row["after"])) for (offer, quarter), row in moved.iterrows()]
    table = pd.DataFrame(rows, columns=["measure", "before", "after"]).astype({"before": float, "after": float})
    return table.assign(difference=table["after"] - table["before"])
