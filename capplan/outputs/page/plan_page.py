"""The content of the plan's page: what to sign, what it costs, what else could be done, what was assumed."""

from __future__ import annotations

import pandas as pd

from capplan.answers.flips import FLIP_GAP_SHARE, FLIP_PATHS, FLIP_SHARE
from capplan.answers.plan import Plan
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs.charts import to_svg
from capplan.outputs.page.html import PageSection, TableBlock, render_page
from capplan.outputs.views import plan_tables
from capplan.outputs.views.all_questions import show_demand, show_pricing
from capplan.outputs.views.view import View
from capplan.text import counted, money, words


def plan_page(plan: Plan, book: Book, view: View, gaps: pd.DataFrame, flips: pd.DataFrame | None, warnings: tuple[str, ...]) -> str:
    """Render the page of a plan.

    Parameters
    ----------
    plan
        The finished plan.
    book
        The book it was made from.
    view
        The plan's view, whose charts and tables are shown.
    gaps
        Missing tables and what they could change (see `gaps.rank_gaps`).
    flips
        Values at which the decision flips (see `flips.find_flips`); None where they were not searched.
    warnings
        What the reader must know, in sentences.

    Returns
    -------
    str
        HTML that needs nothing else.
    """
    scenario, bought = plan.scenario, plan.purchases
    demand, pricing = show_demand(book, scenario.replaced(backtest_origins=0)), show_pricing(book, scenario)
    pictures = {name: to_svg(chart) for name, chart in view.charts.items()}
    drawn = {name: [pictures[name]] if name in pictures else [] for name in ("capacity", "costs", "alternatives", "contracts", "spend")}
    signed = plan_tables.decisions(plan)
    firm = signed[signed["firm"]].drop(columns="firm")
    later = signed[~signed["firm"]].drop(columns="firm")
    stale, notices, bill = plan_tables.stale_prices(plan), plan_tables.notices(plan), plan.ledger.reconciliation
    binding = bought.binding[bought.binding["usd_per_unit"].abs() > 0.005].sort_values("usd_per_unit", ascending=False)
    sections = [
        PageSection(
            "Decisions to sign",
            _decision_text(firm, later, scenario),
            tables=[TableBlock(firm, "Firm: must be signed before the next review.", "tables/decisions.csv")] * bool(len(firm))
            + [TableBlock(later, "Indicative: can wait, and will be decided anew.", "tables/decisions.csv", folded=len(firm) > 0)]
            * bool(len(later)),
        ),
        PageSection(
            "Spend against budget",
            f"What will be expensed, by quarter, in {scenario.currency}: contracts over their service, whether used or not, owned machines in "
            "a straight line, usage, APIs, power, people and the rest. Half of the futures lie above P50, one in ten above P90. "
            "Work left undone is no expense and is not in it.",
            drawn["spend"],
            [TableBlock(plan_tables.spend(plan)), TableBlock(plan_tables.cash(plan), f"What leaves the bank, in {scenario.currency}.")],
        ),
        PageSection(
            "What is owed",
            "Payments owed under contracts signed already, and under the firm decisions above, by fiscal year; "
            "the last column is the part beyond the planned quarters.",
            tables=[
                TableBlock(plan_tables.obligations(plan)),
                *[TableBlock(notices, "Signed contracts that want notice, or renew: decide before the date.")] * bool(len(notices)),
                *[TableBlock(bill, "The last billed month: what the ledger says of it, and what the bill says.", folded=True)]
                * bool(len(bill)),
            ],
        ),
        PageSection(
            "Capacity against demand",
            "" if drawn["capacity"] else "No contract is held and none is planned: all work runs on demand or as spot.",
            drawn["capacity"],
            [
                TableBlock(
                    plan_tables.coverage(plan),
                    "How much of the work runs on contracts, how much of what is paid for in any case does work, and what an hour of work costs.",
                )
            ],
        ),
        PageSection(
            "What else could be done",
            "Each alternative was run over the same futures. The bad cases are the average of the worst "
            f"{100 * scenario.tail_share:.0f} % of them. Regret is what an alternative costs more than this plan; "
            "unserved work is counted at its price.",
            [*drawn["costs"], *drawn["alternatives"]],
            [
                TableBlock(plan_tables.in_plain_words(bought.alternatives), file="tables/alternatives.csv"),
                TableBlock(bought.explanation, "The same in plain words, a line for each number.", shown=60),
            ],
        ),
        PageSection(
            "What would change the decision",
            "The limits that hold the plan back, and what it would save if the limit were one unit looser. "
            "Then the offers that were not taken, and the price at which each would be.",
            tables=[
                *_flip_tables(flips),
                TableBlock(plan_tables.in_plain_words(binding), file="tables/limits.csv", shown=12),
                TableBlock(plan_tables.in_plain_words(bought.rejected), file="tables/rejected_offers.csv", shown=12),
                *[
                    TableBlock(
                        gaps, "Tables the book does not have, and what the plan's cost would move by if they said what is supposed here."
                    )
                ]
                * bool(len(gaps)),
            ],
        ),
        PageSection(
            "What the work costs, and who bears it",
            "Compute only, over the planned quarters, for a thousand units of each class of work; then the whole P&L by team.",
            tables=[TableBlock(plan_tables.unit_costs(plan)), TableBlock(plan_tables.teams(plan))],
        ),
        PageSection(
            "Demand",
            demand.headline,
            [to_svg(chart) for chart in demand.charts.values()],
            [TableBlock(demand.table, "Work by quarter", "tables/demand_quantiles.csv", folded=True)],
        ),
        PageSection(
            "Prices",
            pricing.headline,
            [to_svg(chart) for chart in pricing.charts.values()],
            [TableBlock(stale, f"Prices this plan rests on that are older than {scenario.stale_after_days} days: ask for new ones.")]
            * bool(len(stale)),
        ),
        PageSection("Contracts over time", "", drawn["contracts"]),
        PageSection(
            "Assumptions and notes",
            "",
            tables=[TableBlock(_assumptions(scenario), "All assumptions of this plan", folded=True, shown=100)],
            notes=warnings,
        ),
    ]
    subtitle = f"{book.description} Made as of {scenario.as_of}; {scenario.first_quarter} and {scenario.horizon_quarters - 1} more quarters; all money in {scenario.currency} unless it says otherwise."
    return render_page(
        f"{book.name}: capacity plan {scenario.first_quarter}", subtitle.strip(), plan.headline, _cards(plan, firm), sections
    )


def _decision_text(firm: pd.DataFrame, later: pd.DataFrame, scenario: Scenario) -> str:
    if firm.empty:
        return f"Nothing must be signed before the next review in {counted(scenario.review_interval_quarters, 'quarter')}; {counted(len(later), 'later purchase')} can wait."
    first = firm["sign_by"].min()
    due = "sign at once" if first <= pd.Timestamp(scenario.as_of) else f"the first signature is due by {first:%Y-%m-%d}"
    return f"{counted(len(firm), 'contract')} for {money(float(firm['usd'].sum()))} in all; {due}."


def _flip_tables(flips: pd.DataFrame | None) -> list[TableBlock]:
    if flips is None:
        return []
    caption = (
        f"One assumption at a time: where signing what this plan signs now would cost {FLIP_SHARE:.0%} more than the best plan, with everything later free to adapt. "
        f"Judged on {FLIP_PATHS} of the plan's paths, each value within {FLIP_GAP_SHARE:.2%} of the best; between the two values named the decision may go either way."
    )
    return [TableBlock(flips.assign(assumption=flips["assumption"].map(words)), caption)]


def _cards(plan: Plan, firm: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the few numbers at the top."""
    first, currency = plan_tables.spend(plan).iloc[0], plan.scenario.currency
    weight = plan.purchases.costs.groupby("path")["probability"].first()
    service = plan.purchases.service.merge(weight.rename("weight").reset_index(), on="path")
    served = (service["served_share"] * service["weight"]).sum() / service["weight"].sum()
    budget = f", budget {money(float(first['budget']), currency)}" if pd.notna(first["budget"]) else ""
    return [
        ("to sign now, whole contracts", money(float(firm["usd"].sum()))),
        (f"P&L in {first['quarter']}, P10 to P90{budget}", f"{money(float(first['p10']), currency)} to {money(float(first['p90']), currency)}"),
        ("of the work is served, mean over classes and quarters", f"{100 * served:.1f} %"),
        ("at most, by which a better plan could be cheaper", f"{100 * plan.purchases.proof.gap_share:.2f} %"),
    ]


def _assumptions(scenario: Scenario) -> pd.DataFrame:
    """List all assumptions with unit, meaning and source."""
    rows = []
    for name, info in Scenario.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        value = getattr(scenario, name)
        shown = (
            "estimated from the history"
            if value is None
            else ", ".join(map(str, value)) or "none"
            if isinstance(value, tuple)
            else str(value)
        )
        rows.append(
            {
                "assumption": name,
                "value": shown,
                "unit": extra.get("unit", ""),
                "meaning": info.description,
                "source_of_the_default": extra.get("source", ""),
            }
        )
    return pd.DataFrame(rows)
