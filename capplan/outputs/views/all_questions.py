"""One view per question: a book and a scenario become a headline, charts and a table."""

from collections.abc import Callable

import pandas as pd

from capplan.answers.plan import prices_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import TABLES, meaning_of
from capplan.outputs import charts
from capplan.outputs.views.cluster import show_cluster
from capplan.outputs.views.crossover import show_crossover
from capplan.outputs.views.demand import show_demand
from capplan.outputs.views.frontier import show_frontier
from capplan.outputs.views.goodput import show_goodput
from capplan.outputs.views.placement import show_placement
from capplan.outputs.views.plan import show_plan, show_procurement, show_procurement_at_once
from capplan.outputs.views.portfolio import show_portfolio
from capplan.outputs.views.review import show_review
from capplan.outputs.views.scaling import show_scaling
from capplan.outputs.views.serving import show_serving
from capplan.outputs.views.split import show_split
from capplan.outputs.views.tour import show_band, show_contract, show_proof, show_waiting
from capplan.outputs.views.training import show_training
from capplan.outputs.views.view import View, once
from capplan.records import word_list
from capplan.text import counted, price, words
from capplan.units import quarter_end, quarter_of, quarter_range


@once
def show_book(book: Book, scenario: Scenario) -> View:
    """Show what a book holds: its tables, its contracts, and what is missing."""
    book = book.with_changes(scenario.changes)
    rows = [
        {
            "table": name,
            "rows": len(book.get(name)),
            "from": "this book" if name in book.own else "reference facts" if name in book.tables else "missing",
            "one_row_is": meaning_of(name),
        }
        for name in TABLES
    ]
    table = pd.DataFrame(rows)
    contracts = book.get("commitments")
    lines = pd.DataFrame(
        {"contract": contracts["commitment_id"], "start": contracts["start"], "end": contracts["end"], "term": contracts["term"]}
    )
    notices = contracts.loc[contracts["notice_date"].notna(), ["commitment_id", "notice_date"]]
    markers = pd.DataFrame({"contract": notices["commitment_id"], "date": notices["notice_date"], "kind": "Notice"})
    horizon = quarter_range(scenario.first_quarter, scenario.horizon_quarters)
    ending = int((contracts["end"] < quarter_end(horizon[-1])).sum())
    last = scenario.first_quarter if contracts.empty else quarter_of(contracts["end"].max())
    headline = (
        f"{book.name}: {counted(len(book.own), 'table')} of its own, {counted(len(book.get('workloads')), 'workload')},"
        f" {counted(len(contracts), 'contract')}{f', ending in {last} at the latest' if len(contracts) else ''}."
    )
    pictures = (
        {
            "contracts": charts.gantt(
                lines,
                title=(
                    f"{ending} of {counted(len(contracts), 'signed contract')} {'ends' if ending == 1 else 'end'} within the planned"
                    " quarters"
                ),
                today=scenario.as_of,
                markers=markers if len(markers) else None,
            )
        }
        if len(contracts)
        else {
            "rows": charts.bars(
                table[table["from"] == "this book"].rename(columns={"table": "label", "rows": "value"}),
                title="What the book holds",
                axis=charts.Axis("Rows", "rows"),
            )
        }
    )
    return View(headline, pictures, table, float(ending), "contracts ending", ("horizon_quarters", "first_quarter"), book.notes, telling=1)


@once
def show_pricing(book: Book, scenario: Scenario) -> View:
    """Show what an accelerator-hour really costs under each term."""
    book = book.with_changes(scenario.changes)
    prices = prices_of(book, scenario)
    wanted = set(book.get("speeds")["accelerator"]) if "speeds" in book.tables else set(prices["accelerator"])
    part = prices[prices["accelerator"].isin(wanted)]
    if scenario.providers:
        part = part[part["provider"].isin(scenario.providers)]
    if scenario.geographies:
        part = part[part["geography"].isin(scenario.geographies)]
    part = part if len(part) else prices
    best = part.sort_values("effective_usd_per_accelerator_hour").groupby(["accelerator", "provider", "term"], as_index=False).first()
    best["label"] = best["accelerator"] + ", " + best["provider"]
    pictures = {
        f"price_{accelerator}": charts.bars(
            chosen.assign(
                label=[f"{row.provider}, {words(row.term).lower()}, {row.geography}" for row in chosen.itertuples()],
                value=chosen["effective_usd_per_accelerator_hour"],
            ),
            part="term",
            title=(
                f"{accelerator}: the cheapest useful hour is {words(chosen['term'].iloc[0]).lower()}, at"
                f" {price(chosen['effective_usd_per_accelerator_hour'].iloc[0])}"
            ),
            axis=charts.Axis("Effective price", "USD/h"),
            subtitle="Cheapest offer of each provider and term; spot after lost work, owned with power and space",
        )
        for accelerator, chosen in best.sort_values("effective_usd_per_accelerator_hour").groupby("accelerator", sort=True)
    }
    cheapest = best.loc[best["effective_usd_per_accelerator_hour"].idxmin()]
    stale = int(part["stale"].sum())
    headline = (
        f"The cheapest useful accelerator-hour is {cheapest['accelerator']} from {cheapest['provider']}, {words(cheapest['term']).lower()},"
        f" at {price(cheapest['effective_usd_per_accelerator_hour'])}; {stale} of {len(part)} prices are older than"
        f" {scenario.stale_after_days} days."
    )
    # The first five move the number on the example, the others under other settings or contracts only.
    fields = word_list(
        "price_factor discount_rate_per_year upkeep_share_per_year residual_share restart_hours useful_life_years usd_per_kwh pue"
        " colocation_usd_per_kw_month spot_interruptions_per_hour stale_after_days"
    )
    return View(
        headline,
        pictures,
        part.reset_index(drop=True),
        float(best["effective_usd_per_accelerator_hour"].mean()),
        "USD per accelerator-hour, on average over the cheapest offers of each provider and term",
        fields,
        telling=5,
    )


#: Beside the views of the questions below.
__all__ = ["VIEWS", "View", "show_band", "show_contract", "show_frontier", "show_procurement_at_once", "show_proof", "show_waiting"]
#: Views by question: the stems of the notebooks.
VIEWS: dict[str, Callable[[Book, Scenario], View]] = {
    "start_here": show_book,
    "demand": show_demand,
    "pricing": show_pricing,
    "scaling": show_scaling,
    "goodput": show_goodput,
    "training": show_training,
    "serving": show_serving,
    "portfolio": show_portfolio,
    "crossover": show_crossover,
    "cluster": show_cluster,
    "split": show_split,
    "placement": show_placement,
    "review": show_review,
    "procurement": show_procurement,
    "plan": show_plan,
}
