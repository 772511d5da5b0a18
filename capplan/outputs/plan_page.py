"""The content of the plan's page: what to sign, what it costs, what else could be done, what was assumed."""

from __future__ import annotations

import pandas as pd

from capplan.inputs.book import Book
from capplan.inputs.scenario import Scenario
from capplan.outputs.charts import to_svg
from capplan.outputs.page import PageSection, TableBlock, render_page
from capplan.outputs.tables import money, words
from capplan.outputs.view import View
from capplan.outputs.views import show_demand, show_pricing
from capplan.outputs.views_plan import decisions
from capplan.plan import Plan


def plan_page(plan: Plan, book: Book, view: View) -> str:
    """Render the page of a plan.

    Parameters
    ----------
    plan
        The finished plan.
    book
        The book it was made from.
    view
        The plan's view, whose charts and tables are shown.

    Returns
    -------
    str
        HTML that needs nothing else.
    """
    scenario, bought = plan.scenario, plan.purchases
    demand, pricing = show_demand(book, scenario), show_pricing(book, scenario)
    pictures = {name: to_svg(chart) for name, chart in view.charts.items()}
    signed = decisions(plan)
    firm = signed[signed["firm"]].drop(columns="firm")
    later = signed[~signed["firm"]].drop(columns="firm")
    sections = [
        PageSection(
            "Decisions to sign",
            _decision_text(firm, later, scenario),
            tables=[TableBlock(firm, "Firm: must be signed before the next review.", "tables/purchases.csv")] * bool(len(firm))
            + [TableBlock(later, "Indicative: can wait, and will be decided anew.", "tables/purchases.csv", shown=15, folded=len(firm) > 0)]
            * bool(len(later)),
        ),
        PageSection(
            "Capacity against demand",
            "" if "capacity" in pictures else "No contract is held and none is planned: all work runs on demand or as spot.",
            [pictures["capacity"]] if "capacity" in pictures else [],
        ),
        PageSection(
            "What it costs, and what else could be done",
            "Cost is the average over the paths of demand; the bad cases are the average of the worst "
            f"{100 * scenario.tail_share:.0f} % of them. Regret is what an alternative costs more than this plan.",
            [pictures["costs"], pictures["alternatives"]],
            [TableBlock(bought.alternatives.assign(name=bought.alternatives["name"].map(words)))],
        ),
        PageSection(
            "What binds, and what was rejected",
            "The value of one more unit is what the plan's cost would fall by if the limit were one unit looser.",
            tables=[
                TableBlock(bought.binding, "Limits, tightest first", "tables/limits.csv", shown=12),
                TableBlock(
                    bought.rejected,
                    "Offers that were not taken, and the price at which they would be",
                    "tables/rejected_offers.csv",
                    shown=12,
                    folded=True,
                ),
            ],
        ),
        PageSection(
            "Demand",
            demand.headline,
            [to_svg(chart) for chart in demand.charts.values()],
            [TableBlock(demand.table, "Work by quarter", "tables/demand_quantiles.csv", folded=True)],
        ),
        PageSection("Prices", pricing.headline, [to_svg(chart) for chart in pricing.charts.values()]),
        PageSection("Contracts over time", "", [pictures["contracts"]] if "contracts" in pictures else []),
        PageSection(
            "Assumptions and notes",
            "",
            tables=[TableBlock(_assumptions(scenario), "All assumptions of this plan", folded=True, shown=100)],
            notes=plan.warnings,
        ),
    ]
    subtitle = f"{book.description} Made as of {scenario.as_of}; {scenario.first_quarter} and {scenario.horizon_quarters - 1} more quarters; all money in {scenario.currency} unless it says otherwise."
    return render_page(
        f"{book.name}: capacity plan {scenario.first_quarter}", subtitle.strip(), plan.headline, _cards(plan, firm), sections
    )


def _decision_text(firm: pd.DataFrame, later: pd.DataFrame, scenario: Scenario) -> str:
    if firm.empty:
        return f"Nothing must be signed before the next review in {scenario.review_interval_quarters} quarter(s); {len(later)} later purchases are indicative."
    first = firm["sign_by"].min()
    return f"{len(firm)} contracts for {money(float(firm['usd'].sum()))} in all; the first signature is due by {first:%Y-%m-%d}."


def _cards(plan: Plan, firm: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the few numbers at the top."""
    costs = plan.purchases.costs
    by_path = costs.groupby(["path", "probability", "component"], as_index=False)["usd"].sum()
    spend = by_path[by_path["component"] != "shortfall"]
    expected = float((spend["usd"] * spend["probability"]).sum())
    proof = plan.purchases.proof
    service = plan.purchases.service
    return [
        ("to sign now (whole contracts)", money(float(firm["usd"].sum()))),
        ("expected spend over the horizon, without sunk tails", money(expected)),
        ("of the work served, expected", f"{100 * service['served'].sum() / max(service['demanded'].sum(), 1e-12):.1f} %"),
        ("proven gap to the best plan", f"{100 * proof.gap_share:.2f} %"),
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
