"""One view per question: a book and a scenario become a headline, charts and a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from capplan.inputs.book import Book
from capplan.inputs.scenario import Scenario
from capplan.inputs.schema import TABLES, meaning_of
from capplan.outputs import charts
from capplan.outputs.tables import words
from capplan.outputs.view import View
from capplan.outputs.views_plan import show_plan, show_procurement
from capplan.outputs.views_portfolio import show_portfolio
from capplan.outputs.views_serving import show_serving
from capplan.plan import demand_of, prices_of
from capplan.questions.demand import Forecast
from capplan.units import quarter_end, quarter_of, quarter_range


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
    headline = f"{book.name}: {len(book.own)} tables of its own, {len(book.get('workloads'))} workloads, {len(contracts)} contracts, the last of which ends in {last}."
    pictures = (
        {
            "contracts": charts.gantt(
                lines,
                title=f"{ending} of {len(contracts)} signed contracts end within the planned quarters",
                today=scenario.as_of,
                markers=markers if len(markers) else None,
            )
        }
        if len(contracts)
        else {
            "rows": charts.bars(
                table[table["from"] == "this book"].rename(columns={"table": "label", "rows": "value"}),
                title="What the book holds",
                value_title="Rows",
                unit="rows",
            )
        }
    )
    return View(headline, pictures, table, float(len(book.own)), "tables", ("first_quarter", "horizon_quarters"), book.notes)


def show_demand(book: Book, scenario: Scenario) -> View:
    """Show how much work will come, and how sure that is."""
    book = book.with_changes(scenario.changes)
    forecast = demand_of(book, scenario)
    units = book.get("workloads").set_index("workload")["unit"]
    pictures = {**_fan(forecast, units), **_duration(forecast, scenario.first_quarter)}
    quantiles = _series(forecast.quantiles, units)
    table = quantiles.pivot_table(index=["series", "quarter"], columns="quantile", values="quantity").reset_index()
    table.columns = [
        f"P{100 * name:g}" if isinstance(name, float) else "workload" if name == "series" else str(name) for name in table.columns
    ]
    fields = (
        "event_strength",
        "growth_share_per_year",
        "growth_band_share",
        "unmet_share",
        "load_blocks",
        "paths",
        "horizon_quarters",
    )
    details = {"scores": forecast.scores, "unmet": forecast.unmet, "pooling": forecast.pooling, "blocks": forecast.blocks}
    return View(forecast.headline, pictures, table, forecast.growth, "times the first quarter", fields, forecast.notes, details)


def _series(frame: pd.DataFrame, units: pd.Series) -> pd.DataFrame:
    """Name each workload with its region and unit; quantiles of regions cannot be added up."""
    places = ["" if region == "any" else f", {region}" for region in frame["region"]]
    names = [
        f"{workload}{place} ({words(units.get(workload, 'units')).lower()})"
        for workload, place in zip(frame["workload"], places, strict=True)
    ]
    return frame.assign(series=names)


def _fan(forecast: Forecast, units: pd.Series) -> dict[str, Any]:
    """Draw each workload's monthly history and forecast, as work a day; by quarter where demand is stated."""
    if forecast.months.empty:
        stated = _series(forecast.quantiles, units)
        return {"demand": charts.fan(stated, title="Demand as stated", value_title="Work in the quarter", unit="units", series="series")}
    months = _series(forecast.months, units)
    months["per_day"] = months["quantity"] / pd.DatetimeIndex(months["month"]).days_in_month
    months = months[months["quantile"].isin([0.1, 0.25, 0.5, 0.75, 0.9])]
    past = _series(forecast.history, units)
    past["quantity"] = past["quantity_per_day"] * past["days"]
    past = (
        past.assign(month=past["time"].dt.to_period("M").dt.to_timestamp())
        .groupby(["series", "month"], as_index=False)[["quantity", "days"]]
        .sum()
    )
    past = past[past["days"] >= 7].assign(per_day=lambda frame: frame["quantity"] / frame["days"])
    return {
        "demand": charts.fan(
            months,
            x="month",
            value="per_day",
            series="series",
            history=past[["month", "series", "per_day"]],
            title=forecast.headline.split(" (80")[0].rstrip("."),
            value_title="Work a day",
            unit="units",
            subtitle="Median and bands over the sample paths; known events and training runs included",
        )
    }


def _duration(forecast: Forecast, quarter: str) -> dict[str, Any]:
    """Draw each workload's load-duration curve in a quarter, relative to its mean."""
    part = forecast.duration[(forecast.duration["quarter"] == quarter) & (forecast.duration["workload"] != "all")]
    if part.empty:
        return {}
    curve = part.groupby(["workload", "hours_share"], as_index=False)["work_per_hour"].sum()
    mean = forecast.paths[forecast.paths["quarter"] == quarter].groupby(["path", "workload"])["quantity"].sum().groupby("workload").median()
    hours = forecast.blocks.loc[forecast.blocks["quarter"] == quarter, "hours"].sum()
    curve["load"] = (curve["work_per_hour"] / (curve["workload"].map(mean) / hours)).fillna(0.0)
    highest = curve.loc[curve["load"].idxmax()]
    return {
        "load_duration": charts.curve(
            curve,
            x="hours_share",
            y="load",
            series="workload",
            title=f"{highest['workload']} is the peakiest in {quarter}: {highest['load']:.1f} times its mean",
            x_title="Share of the quarter's hours with at least this load",
            y_title="Load relative to the mean",
            x_unit="share",
            unit="ratio",
            subtitle="Median over paths; a flat line is a load that contracts serve well, a steep one needs capacity by the hour",
        )
    }


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
            title=f"{accelerator}: the cheapest useful hour is {words(chosen['term'].iloc[0]).lower()}, at ${chosen['effective_usd_per_accelerator_hour'].iloc[0]:.2f}",
            value_title="Effective price",
            unit="USD/h",
            subtitle="Cheapest offer of each provider and term; spot after lost work, owned with power and space",
        )
        for accelerator, chosen in best.sort_values("effective_usd_per_accelerator_hour").groupby("accelerator", sort=True)
    }
    cheapest = best.loc[best["effective_usd_per_accelerator_hour"].idxmin()]
    stale = int(part["stale"].sum())
    headline = (
        f"The cheapest useful accelerator-hour is {cheapest['accelerator']} from {cheapest['provider']}, {words(cheapest['term']).lower()}, at "
        f"${cheapest['effective_usd_per_accelerator_hour']:.2f}; {stale} of {len(part)} prices are older than {scenario.stale_after_days} days."
    )
    fields = (
        "price_factor",
        "discount_rate_per_year",
        "useful_life_years",
        "residual_share",
        "usd_per_kwh",
        "pue",
        "colocation_usd_per_kw_month",
        "upkeep_share_per_year",
        "restart_hours",
        "spot_interruptions_per_hour",
        "stale_after_days",
    )
    return View(
        headline,
        pictures,
        part.reset_index(drop=True),
        float(cheapest["effective_usd_per_accelerator_hour"]),
        "USD per accelerator-hour",
        fields,
    )


__all__ = ["VIEWS", "View", "show_book", "show_demand", "show_plan", "show_portfolio", "show_pricing", "show_procurement", "show_serving"]
#: Views by question: the stems of the notebooks.
VIEWS: dict[str, Callable[[Book, Scenario], View]] = {
    "start_here": show_book,
    "demand": show_demand,
    "pricing": show_pricing,
    "serving": show_serving,
    "portfolio": show_portfolio,
    "procurement": show_procurement,
    "plan": show_plan,
}
