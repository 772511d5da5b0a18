"""One view per question: a book and a scenario become a headline, charts and a table."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from capplan.inputs.book import Book
from capplan.inputs.scenario import Scenario
from capplan.inputs.schema import TABLES, meaning_of
from capplan.outputs import charts
from capplan.outputs.tables import readable, words
from capplan.plan import Plan, demand_of, prices_of, purchases_of, quarterly_plan, work_of
from capplan.questions.procurement.need import accelerators_needed
from capplan.units import quarter_of


@dataclass(frozen=True)
class View:
    """What a person sees of an answer.

    Parameters
    ----------
    headline
        One sentence with the number that decides.
    charts
        Charts by name; the first one is the main one.
    table
        The main table, tidy.
    value, unit
        The deciding number and its unit ("USD", "accelerators", ...), for differences between two scenarios.
    fields
        Assumptions that the answer depends on, most telling first: the sliders.
    notes
        What was assumed, repaired or left out.
    details
        Further tables by name.
    """

    headline: str
    charts: Mapping[str, Any]
    table: pd.DataFrame
    value: float
    unit: str
    fields: tuple[str, ...]
    notes: tuple[str, ...] = ()
    details: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def chart(self) -> Any:
        """The main chart."""
        return next(iter(self.charts.values()))

    @property
    def shown(self) -> pd.DataFrame:
        """The main table as a reader wants it: headings with units, numbers written out."""
        return readable(self.table, rows=40)

    def _repr_html_(self) -> str:
        """Show headline, charts and notes in a notebook: plain SVG, no script, all text escaped."""
        pictures = "".join(f"<div>{charts.to_svg(chart)}</div>" for chart in self.charts.values())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return f"<p><b>{html.escape(self.headline)}</b></p>{pictures}" + (f"<ul>{notes}</ul>" if notes else "")


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
    last = scenario.first_quarter if contracts.empty else quarter_of(contracts["end"].max())
    headline = f"{book.name}: {len(book.own)} tables of its own, {len(book.get('workloads'))} workloads, {len(contracts)} contracts, the last of which ends in {last}."
    pictures = (
        {
            "contracts": charts.gantt(
                lines, title="Contracts already signed", today=scenario.as_of, markers=markers if len(markers) else None
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
    quantiles = forecast.quantiles.groupby(["workload", "quarter", "quantile"], as_index=False)["quantity"].sum()
    units = book.get("workloads").set_index("workload")["unit"]
    named = quantiles.assign(workload=[f"{name} ({units.get(name, 'units')})" for name in quantiles["workload"]])
    totals = (
        forecast.paths.groupby(["path", "workload", "quarter", "block"], as_index=False)["quantity"]
        .sum()
        .merge(forecast.blocks, on=["quarter", "block"])
    )
    curve = _duration(totals, scenario.first_quarter)
    table = quantiles.pivot_table(index=["workload", "quarter"], columns="quantile", values="quantity").reset_index()
    table.columns = [f"P{100 * name:g}" if isinstance(name, float) else str(name) for name in table.columns]
    pictures = {
        "demand": charts.fan(
            named,
            title="Demand by workload, median and 80 % band",
            value_title="Work in the quarter",
            unit="units",
            series="workload",
            subtitle="; ".join(forecast.notes[:1])[:110],
        ),
        "load_duration": charts.staircase(
            curve,
            x="hours",
            y="load",
            series="workload",
            title=f"How long the load lasts in {scenario.first_quarter}",
            x_title="Hours of the quarter with at least this load",
            y_title="Load relative to the quarter's mean",
            x_unit="h",
            unit="ratio",
            subtitle="Median over paths, hours sorted from peak to base",
        ),
    }
    value = float(quantiles.loc[(quantiles["quarter"] == quantiles["quarter"].max()) & (quantiles["quantile"] == 0.5), "quantity"].sum())
    fields = ("event_strength", "growth_share_per_year", "growth_band_share", "load_blocks", "paths", "horizon_quarters", "unmet_share")
    return View(
        forecast.headline, pictures, table, value, "units", fields, forecast.notes, {"scores": forecast.scores, "blocks": forecast.blocks}
    )


def _duration(totals: pd.DataFrame, quarter: str) -> pd.DataFrame:
    """Return each workload's load in the blocks of a quarter, relative to its mean, at the hour each block ends."""
    part = totals[totals["quarter"] == quarter].copy()
    part["rate"] = part["quantity"] / part["hours"]
    mean = part.groupby(["path", "workload"])[["quantity", "hours"]].transform("sum")
    part["load"] = (part["rate"] / (mean["quantity"] / mean["hours"])).fillna(0.0)
    middle = part.groupby(["workload", "block", "hours"], as_index=False)["load"].median().sort_values(["workload", "block"])
    middle["end"] = middle.groupby("workload")["hours"].cumsum()
    starts = middle.assign(hours=middle["end"] - middle["hours"])
    lasts = middle[middle["block"] == middle["block"].max()].assign(hours=lambda frame: frame["end"])
    return pd.concat([starts, lasts], ignore_index=True)[["workload", "hours", "load"]]


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
            title=f"{accelerator}: what a useful hour costs",
            value_title="Effective price",
            unit="USD/h",
            subtitle="Cheapest offer of each provider and term; spot after lost work, owned with power and space",
        )
        for accelerator, chosen in best.groupby("accelerator", sort=True)
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


def _capacity_chart(plan_capacity: pd.DataFrame, purchases: pd.DataFrame, need: pd.DataFrame, title: str) -> Any:
    """Draw capacity by kind against the demand band."""
    bought = purchases.groupby(["quarter", "term"])["accelerators"].sum() if len(purchases) else pd.Series(dtype=float)
    existing = (
        plan_capacity[plan_capacity["source"] == "existing"]
        .groupby("quarter", as_index=False)["accelerators"]
        .sum()
        .assign(term="existing")
    )
    later = plan_capacity[plan_capacity["source"] == "bought"].groupby(["quarter", "term"], as_index=False)["accelerators"].sum()
    data = pd.concat([existing, later], ignore_index=True)[["quarter", "term", "accelerators"]]
    peak = need[need["hour"] == "peak"].pivot_table(index="quarter", columns="quantile", values="accelerators")
    band = pd.DataFrame({"quarter": peak.index, "low": peak[0.1].to_numpy(), "median": peak[0.5].to_numpy(), "high": peak[0.9].to_numpy()})
    arrivals = bought.groupby("quarter").sum() if len(bought) else pd.Series(dtype=float)
    held = existing.set_index("quarter")["accelerators"]
    expiries = held.diff().clip(upper=0.0)
    changes = pd.DataFrame({"quarter": [*arrivals.index, *expiries.index], "change": [*arrivals, *expiries.fillna(0.0)]})
    changes = changes[changes["change"].abs() >= 0.5].assign(change=lambda frame: frame["change"].round())
    return charts.layers(
        data,
        title=title,
        value_title="Accelerators",
        unit="accelerators",
        band=band,
        changes=changes if len(changes) else None,
        subtitle="Band: accelerators needed in the peak hours, 10th to 90th percentile; the rest is rented on demand or as spot",
    )


def show_procurement(book: Book, scenario: Scenario) -> View:
    """Show what to buy each quarter, and what the alternatives would have cost."""
    book = book.with_changes(scenario.changes)
    bought = purchases_of(book, scenario)
    need = accelerators_needed(work_of(book, scenario), bought.dispatch)
    others = bought.alternatives.assign(label=bought.alternatives["name"].map(words))
    pictures = {
        **(
            {"capacity": _capacity_chart(bought.capacity, bought.purchases, need, "Capacity against the work that may come")}
            if len(bought.capacity)
            else {}
        ),
        "alternatives": charts.frontier(
            others,
            x="expected_usd",
            y="cvar_usd",
            title="The plan against what else could be done",
            x_title="Expected cost",
            y_title="Cost in the bad cases (CVaR)",
            x_unit="USD",
            unit="USD",
            subtitle="Lower left is better; unserved work is counted at its price",
            chosen=words("plan"),
        ),
        "costs": _cost_chart(bought.costs),
    }
    fields = (
        "risk_weight",
        "price_factor",
        "on_demand_accelerators",
        "spot_accelerators",
        "serving_shortfall_usd_per_accelerator_hour",
        "batch_shortfall_usd_per_accelerator_hour",
        "tail_share",
        "horizon_end",
        "reuse_share",
        "plan_paths",
        "gap_share",
    )
    details = {
        "rejected": bought.rejected,
        "limits": bought.binding,
        "alternatives": bought.alternatives,
        "capacity": bought.capacity,
        "need": need,
    }
    return View(bought.headline, pictures, bought.purchases, bought.proof.upper_usd, "USD", fields, bought.notes, details)


def _cost_chart(costs: pd.DataFrame) -> Any:
    """Draw expected cost by quarter and kind."""
    weighted = costs.assign(usd=costs["usd"] * costs["probability"]).groupby(["quarter", "component"], as_index=False)["usd"].sum()
    weighted = weighted[weighted["usd"].abs() > 0.5]
    return charts.layers(
        weighted,
        title="Expected cost by quarter",
        value_title="Cost in the quarter",
        unit="USD",
        value="usd",
        layer="component",
        subtitle="Undiscounted, average over the paths; shortfall is imputed, nobody invoices it",
    )


def show_plan(book: Book, scenario: Scenario) -> View:
    """Show the plan: decisions to sign, capacity, costs and alternatives."""
    plan = quarterly_plan(book, scenario)
    inner = show_procurement(book, scenario)
    pictures = {**inner.charts, **_contract_chart(book, plan)}
    return View(plan.headline, pictures, decisions(plan), inner.value, "USD", inner.fields, plan.warnings, inner.details)


def decisions(plan: Plan) -> pd.DataFrame:
    """Return the purchases as decisions to sign, the firm ones first."""
    columns = [
        "firm",
        "sign_by",
        "offer_id",
        "provider",
        "accelerator",
        "region",
        "term",
        "quarter",
        "end_quarter",
        "machines",
        "accelerators",
        "upfront_usd",
        "usd",
    ]
    return plan.purchases.purchases.sort_values(["firm", "sign_by", "offer_id"], ascending=[False, True, True])[columns].reset_index(
        drop=True
    )


def _contract_chart(book: Book, plan: Plan) -> dict[str, Any]:
    """Draw signed contracts and purchases over time."""
    signed, bought = book.get("commitments"), plan.purchases.purchases
    lines = pd.concat(
        [
            pd.DataFrame({"contract": signed["commitment_id"], "start": signed["start"], "end": signed["end"], "term": "existing"}),
            pd.DataFrame(
                {
                    "contract": [f"{row.accelerators:g} {row.accelerator}, {row.provider}, {row.quarter}" for row in bought.itertuples()],
                    "start": bought["starts"],
                    "end": bought["ends"],
                    "term": bought["term"],
                    "sign_by": bought["sign_by"],
                }
            ),
        ],
        ignore_index=True,
    )
    if lines.empty:
        return {}
    lines = lines.sort_values(["start", "contract"]).head(40)
    markers = (
        lines.loc[lines.get("sign_by", pd.Series(dtype="datetime64[ns]")).notna(), ["contract", "sign_by"]]
        .rename(columns={"sign_by": "date"})
        .assign(kind="Sign by")
    )
    return {
        "contracts": charts.gantt(
            lines,
            title="Contracts, signed and planned",
            today=plan.scenario.as_of,
            markers=markers if len(markers) else None,
            subtitle="Grey: signed already",
        )
    }


#: Views by question: the stems of the notebooks.
VIEWS: dict[str, Callable[[Book, Scenario], View]] = {
    "start_here": show_book,
    "demand": show_demand,
    "pricing": show_pricing,
    "procurement": show_procurement,
    "plan": show_plan,
}
