"""Views of the purchase plan: what to buy, what to sign, what it costs."""

from dataclasses import replace
from typing import Any

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.placement import asked_book
from capplan.answers.plan import first_answer_of, headroom_of, hindsight_of, purchases_of, quarterly_plan, work_of
from capplan.answers.sums import spend
from capplan.book.book import Book
from capplan.book.book_currency import in_book_currency
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.capacity_charts import capacity_chart, contract_chart
from capplan.outputs.views.decision_tables import decisions
from capplan.outputs.views.plan_tables import in_plain_words
from capplan.outputs.views.view import View, once
from capplan.questions.procurement.explain.alternatives import shown_alternatives
from capplan.questions.procurement.work.accelerators_needed import accelerators_needed
from capplan.records import word_list
from capplan.text import money, words

#: Assumptions that a purchase plan depends on, most telling first.
FIELDS = word_list(
    "demand_factor price_factor horizon_end quota_factor training_delay_target_hours budget_factor spot_scarcity risk_weight reuse_share"
    " tail_share service_level_share on_demand_accelerators spot_accelerators serving_shortfall_usd_per_accelerator_hour"
    " batch_shortfall_usd_per_accelerator_hour plan_paths gap_share"
)


@once
def show_procurement(book: Book, scenario: Scenario) -> View:
    """Show what to buy each quarter, and what the alternatives would have cost."""
    book = asked_book(book, scenario)
    bought = purchases_of(book, scenario)
    need = accelerators_needed(work_of(book, scenario), bought.dispatch)
    shown = shown_alternatives(bought.alternatives)
    pictures = {
        **({"capacity": capacity_chart(book, bought, work_of(book, scenario))} if len(bought.capacity) else {}),
        "alternatives": charts.frontier(
            shown.assign(label=shown["name"].map(words)),
            title=_regret_title(shown),
            across=charts.Axis("Expected cost", "USD", "expected_usd"),
            up=charts.Axis("Cost in the bad cases (CVaR)", "USD", "cvar_usd"),
            subtitle="Lower left is better; unserved work is counted at its price",
            chosen=words("plan"),
        ),
        "costs": _cost_chart(bought.costs),
    }
    chosen = bought.alternatives.set_index("name").loc["plan"]
    details = {
        "components": _components(bought.costs, float(chosen["expected_usd"])),
        "rejected": bought.rejected,
        "limits": bought.binding,
        "limit_lots": bought.limit_lots,
        "alternatives": bought.alternatives,
        "compared": in_plain_words(shown)[["name", "expected_usd", "bad_cases_usd", "worst_usd", "shortfall_usd", "regret_usd"]],
        "capacity": bought.capacity,
        "need": need,
        "branches": bought.branches,
        "information": bought.information,
        "explanation": bought.explanation,
        "verdicts": bought.verdicts,
    }
    notes = bought.notes
    headroom = headroom_of(book, scenario)
    if headroom is not None:
        details |= {"queue_headroom": headroom.factors, "queue_headroom_sizes": headroom.sizes}
        notes = (*headroom.notes, *notes)
    if scenario.rolling_test:
        fresh, rolling = hindsight_of(book, scenario)
        pictures["rehearsal"] = charts.bars(
            rolling.summary.assign(label=rolling.summary["policy"].map(words), value=rolling.summary["mean_usd"])[["label", "value"]],
            title=_rehearsal_title(rolling.summary),
            axis=charts.Axis("Mean cost on unseen paths", "USD"),
        )
        details |= {"rehearsal": rolling.summary, "rehearsal_paths": rolling.paths, "signed_in_rehearsal": rolling.decisions}
        details["out_of_sample"] = fresh.table
        notes = (*notes, fresh.headline, *fresh.notes, rolling.headline, *rolling.notes)
    unsure, usd = bought.proof.upper_usd - bought.proof.lower_usd, float(chosen["expected_usd"])
    return View(bought.headline, pictures, bought.purchases, usd, "USD", FIELDS, notes, details, unsure=unsure)


@in_book_currency
def show_procurement_at_once(book: Book, scenario: Scenario) -> View | None:
    """Show a first answer while a slider moves: what would be bought; None where the full answer is at hand."""
    book = asked_book(book, scenario)
    found = first_answer_of(book, scenario)
    if found is None or found.capacity.empty:
        return None
    picture = {"capacity": capacity_chart(book, found, work_of(book, scenario))}
    details = {"components": _components(found.costs, found.expected_usd)}
    usd, unsure = found.expected_usd, found.unsure_usd
    return View(found.headline, picture, found.purchases, usd, "USD", FIELDS, found.notes, details, unsure=unsure).in_force()


def _rehearsal_title(summary: pd.DataFrame) -> str:
    """Say what deciding anew at every review is worth on unseen paths."""
    costs = summary.set_index("policy")["mean_usd"]
    saved = float(costs["plan_kept"] - costs["plan_revised"])
    if saved >= 0:
        return f"On unseen paths, revising the plan at each review saves {money(saved)} on average"
    return f"On unseen paths, revising the plan at each review costs {money(-saved)} more on average than keeping it"


def _regret_title(alternatives: pd.DataFrame) -> str:
    """Say what the nearest thing one could do instead would cost more."""
    others = alternatives[alternatives["name"] != "plan"]
    if others.empty:
        return "The plan against what else could be done"
    nearest = others.loc[others["regret_usd"].idxmin()]
    return f"The next best, {words(nearest['name']).lower()}, would cost {money(max(float(nearest['regret_usd']), 0.0))} more than the plan"


def _components(costs: pd.DataFrame, expected_usd: float) -> pd.DataFrame:
    """Split the plan's expected cost into what the quarters show and the rest, for differences between two plans."""
    weighted = costs[costs["component"] != "existing"]
    parts = (weighted["usd"] * weighted["probability"]).groupby(weighted["component"]).sum()
    rest = pd.Series({"discounting and after the horizon": expected_usd - parts.sum()})
    return pd.concat([parts, rest]).rename_axis("component").rename("usd").reset_index()


def _cost_chart(costs: pd.DataFrame) -> Any:
    """Draw expected cost by quarter and kind."""
    shown = costs["component"].replace("power_paid_for", "committed")
    weighted = (
        costs.assign(usd=costs["usd"] * costs["probability"], component=shown)
        .groupby(["quarter", "component"], as_index=False)["usd"]
        .sum()
    )
    weighted = weighted[(weighted["usd"].abs() > 0.5) & (weighted["component"] != "shortfall")]
    totals = weighted.groupby("quarter")["usd"].sum()
    return charts.layers(
        weighted,
        title=(
            f"Spend that the decision moves goes from {money(float(totals.iloc[0]))} in {totals.index[0]} to"
            f" {money(float(totals.iloc[-1]))} in {totals.index[-1]}"
        ),
        axis=charts.Axis("Spend in the quarter", "USD", "usd"),
        layer="component",
        subtitle="Undiscounted, average over the paths; work left undone is no spend and not in it",
    )


@once
def show_plan(book: Book, scenario: Scenario) -> View:
    """Show the plan: decisions to sign, capacity, costs and alternatives."""
    plan = quarterly_plan(book, scenario)
    inner = show_procurement(book, scenario)
    pictures = {**inner.charts, "spend": _spend_chart(plan), **contract_chart(book, plan)}
    return replace(inner, headline=plan.headline, charts=pictures, table=decisions(plan), notes=plan.warnings, charts_in_view=1)


def _spend_chart(plan: Plan) -> Any:
    """Draw P&L spend with its band against the budget."""
    table = spend(plan)
    levels = {"p10": 0.1, "expected": 0.5, "p90": 0.9}
    rows = table.melt("quarter", list(levels), "quantile", "amount").assign(quantile=lambda frame: frame["quantile"].map(levels))
    budget = table.dropna(subset="budget")[["quarter", "budget"]].rename(columns={"budget": "amount"})
    return charts.fan(
        rows,
        history=budget if len(budget) else None,
        names=("Expected", "Budget"),
        title=_spend_title(table, plan.scenario.currency),
        axis=charts.Axis("P&L in the quarter", plan.scenario.currency, "amount"),
        subtitle="Whole ledger; bands over the paths of demand",
    )


def _spend_title(table: pd.DataFrame, currency: str) -> str:
    """Say how the expected spend stands to the budget."""
    known = table.dropna(subset="budget")
    if known.empty:
        return (
            f"Expected spend goes from {money(float(table['expected'].iloc[0]), currency)} to"
            f" {money(float(table['expected'].iloc[-1]), currency)} a quarter"
        )
    over = known[known["over"] > 0]
    if over.empty:
        return "Expected spend stays within budget in every quarter"
    worst = over.loc[over["over"].idxmax()]
    return (
        f"Expected spend is above budget in {len(over)} of {len(known)} quarters, most in {worst['quarter']}"
        f" ({money(float(worst['over']), currency)})"
    )
