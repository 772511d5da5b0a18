"""View of demand: how much work will come, how it lies in a quarter, and how good such forecasts were."""

from typing import Any

import pandas as pd

from capplan.answers.demand import backtest_of
from capplan.answers.placement import asked_book
from capplan.answers.plan import demand_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError, nearest
from capplan.outputs import charts
from capplan.outputs.views.demand_growth import growth_picture, growth_table
from capplan.outputs.views.view import View, once
from capplan.questions.demand import Backtest, Forecast
from capplan.questions.demand.accuracy import FINOPS_BANDS
from capplan.questions.demand.forecast_demand import growth_of
from capplan.records import word_list
from capplan.text import words

#: What the sliders move, most telling first; the band that is shown moves no growth.
FIELDS = word_list(
    "growth_share_per_year horizon_quarters shown_workloads growth_band_share event_strength season_band_share unmet_share shown_quantile"
    " load_blocks paths backtest_origins"
)
#: Panels of the first picture, which fits a screen; the second one holds the other workloads.
PANELS = 4
COLUMNS = {
    "ahead": "periods_ahead",
    "coverage_share": "inside_90_percent_band_share",
    "run_share": "within_12_percent_share",
    "walk_share": "within_15_percent_share",
    "crawl_share": "within_20_percent_share",
}


@once
def show_demand(book: Book, scenario: Scenario) -> View:
    """Show how much work will come, how sure that is, and how good such forecasts were."""
    book = asked_book(book, scenario)
    forecast = demand_of(book, scenario)
    names = tuple(sorted(forecast.paths["workload"].unique()))
    picked = _picked(scenario.shown_workloads, names)
    upper = int(scenario.shown_quantile[1:]) / 100
    paths, outlook = (table[table["workload"].isin(picked)] for table in (forecast.paths, forecast.outlook))
    growth, headline = growth_of(paths, forecast.weights, upper, outlook if forecast.history.size else None)
    if len(picked) < len(names):
        headline = f"{', '.join(picked)}: {headline[:1].lower()}{headline[1:]}"
    units = book.get("workloads").set_index("workload")["unit"]
    test = backtest_of(book, scenario) if forecast.history.size and scenario.backtest_origins else None
    largest = _by_size(forecast, picked, book.get("speeds") if "speeds" in book.tables else None)
    pictures = {
        "demand": _fan(forecast, units, largest[:PANELS], headline, upper),
        **(_calibration(test) if test is not None else {}),
        **({"demand_others": _fan(forecast, units, largest[PANELS:], headline, upper)} if len(largest) > PANELS else {}),
        **growth_picture(forecast, picked),
        **_duration(forecast, scenario.first_quarter, picked),
        **(_errors(test, picked) if test is not None else {}),
    }
    details = {
        "scores": forecast.scores,
        "growth": growth_table(forecast, book.get("speeds") if "speeds" in book.tables else None).round({"accelerators_more": 2}),
        "planner": forecast.planner,
        "unmet": forecast.unmet,
        "pooling": forecast.pooling,
        "blocks": forecast.blocks,
        "backtest": (test.summary if test is not None else pd.DataFrame(columns=["workload"])).rename(columns=COLUMNS),
        "accuracy": (test.pooled if test is not None else pd.DataFrame(columns=["grain"])).rename(columns=COLUMNS),
    }
    notes = (*forecast.notes, *((test.headline, *test.notes) if test is not None else ()))
    return View(
        headline,
        pictures,
        _table(forecast, units, picked, upper),
        growth,
        "times the first quarter",
        FIELDS,
        notes,
        details,
        {"shown_workloads": names},
        telling=7,
    )


def _picked(wanted: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the workloads to show; an unknown one is an error that names the nearest."""
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ScenarioError(f"shown_workloads: there is no demand of {unknown[0]}; {nearest(unknown[0], names)}")
    return tuple(name for name in names if name in wanted) or names


def _series(frame: pd.DataFrame, units: pd.Series) -> pd.DataFrame:
    """Name each workload with its region and unit; quantiles of regions cannot be added up."""
    places = ["" if region == "any" else f", {region}" for region in frame["region"]]
    series = [
        f"{workload}{place} ({words(units.get(workload, 'units')).lower()})"
        for workload, place in zip(frame["workload"], places, strict=True)
    ]
    return frame.assign(series=series)


def _table(forecast: Forecast, units: pd.Series, picked: tuple[str, ...], upper: float) -> pd.DataFrame:
    """Lay out quarter totals: the chosen quantile beside the median and its counterpart."""
    rows = forecast.quantiles[forecast.quantiles["workload"].isin(picked)]
    rows = _series(rows[rows["quantile"].round(6).isin([round(1 - upper, 6), 0.5, upper])], units)
    table = rows.pivot_table(index=["series", "quarter"], columns="quantile", values="quantity").reset_index()
    table.columns = [
        f"P{100 * name:g}" if isinstance(name, float) else "workload" if name == "series" else str(name) for name in table.columns
    ]
    return table


def _by_size(forecast: Forecast, picked: tuple[str, ...], speeds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """Return workloads and regions, those that need most accelerator-hours first and those without a known speed last."""
    rows = forecast.quantiles[forecast.quantiles["workload"].isin(picked) & (forecast.quantiles["quantile"] == 0.5)]
    work = rows.groupby(["workload", "region"])["quantity"].sum().reset_index()
    speed = speeds.groupby("workload")["work_per_accelerator_hour"].max() if speeds is not None else pd.Series(dtype=float)
    work["hours"] = (work["quantity"] / work["workload"].map(speed).astype(float)).fillna(0.0)
    ranked = work.sort_values(["hours", "quantity"], ascending=False, kind="stable")
    return list(zip(ranked["workload"], ranked["region"], strict=True))


def _only(frame: pd.DataFrame, shown: list[tuple[str, str]]) -> pd.DataFrame:
    """Take the rows of some workloads and regions, in their order."""
    rank = pd.Series(range(len(shown)), index=pd.MultiIndex.from_tuples(shown))
    place = rank.reindex(pd.MultiIndex.from_frame(frame[["workload", "region"]])).to_numpy()
    return frame.assign(place=place).dropna(subset=["place"]).sort_values("place", kind="stable").drop(columns="place")


def _fan(forecast: Forecast, units: pd.Series, shown: list[tuple[str, str]], headline: str, upper: float) -> Any:
    """Draw each workload's monthly history and forecast, as work a day; by quarter where demand is stated."""
    if forecast.months.empty:
        stated = _series(_only(forecast.quantiles, shown), units)
        return charts.fan(stated, title="Demand as stated", axis=charts.Axis("Work in the quarter", "units"), series="series")
    months = _series(_only(forecast.months, shown), units)
    months["per_day"] = months["quantity"] / pd.DatetimeIndex(months["month"]).days_in_month
    months = months[months["quantile"].isin({0.25, 0.5, 0.75, upper, round(1 - upper, 6)})]
    past = _series(_only(forecast.history, shown), units)
    past["quantity"] = past["quantity_per_day"] * past["days"]
    past = (
        past.assign(month=past["time"].dt.to_period("M").dt.to_timestamp())
        .groupby(["series", "month"], as_index=False, sort=False)[["quantity", "days"]]
        .sum()
    )
    past = past[past["days"] >= 7].assign(per_day=lambda frame: frame["quantity"] / frame["days"])
    return charts.fan(
        months,
        series="series",
        history=past[["month", "series", "per_day"]],
        title=headline.split(f" ({200 * upper - 100:.0f} %", maxsplit=1)[0].rstrip("."),
        axis=charts.Axis("Work a day", "units", "per_day"),
        subtitle="Median and bands over the sample paths, with known events and training runs; the largest workloads first",
    )


def _duration(forecast: Forecast, quarter: str, picked: tuple[str, ...]) -> dict[str, Any]:
    """Draw each workload's load-duration curve in a quarter, relative to its mean."""
    part = forecast.duration[(forecast.duration["quarter"] == quarter) & forecast.duration["workload"].isin(picked)]
    if part.empty:
        return {}
    curve = part.groupby(["workload", "hours_share"], as_index=False)["work_per_hour"].sum()
    mean = forecast.paths[forecast.paths["quarter"] == quarter].groupby(["path", "workload"])["quantity"].sum().groupby("workload").median()
    hours = forecast.blocks.loc[forecast.blocks["quarter"] == quarter, "hours"].sum()
    curve["load"] = (curve["work_per_hour"] / (curve["workload"].map(mean) / hours)).fillna(0.0)
    highest = curve.loc[curve["load"].idxmax()]
    pool = forecast.pooling.loc[forecast.pooling["quarter"] == quarter, "pooling_gain_share"].item()
    return {
        "load_duration": charts.curve(
            curve,
            series="workload",
            title=f"{highest['workload']} is the peakiest in {quarter}: {highest['load']:.1f} times its mean",
            across=charts.Axis("Share of the quarter's hours with at least this load", "share", "hours_share"),
            up=charts.Axis("Load relative to the mean", "ratio", "load"),
            subtitle=(
                "Median over paths; a flat line suits contracts, a steep one needs capacity by the hour. Sharing machines among all"
                f" workloads saves {pool:.0%} at the peak"
            ),
        )
    }


def _errors(test: Backtest, picked: tuple[str, ...]) -> dict[str, Any]:
    """Draw the error of each lead, for quarters where history allows, else for months."""
    rows = test.summary[test.summary["workload"].isin((*picked, "all")) & test.summary["wape_share"].notna()]
    grain = "quarter" if (rows["grain"] == "quarter").any() else "month"
    rows = rows[(rows["grain"] == grain) & (rows["ahead"] <= (8 if grain == "quarter" else 6))]
    if rows.empty:
        return {}
    names = [
        "all, in spend" if row.workload == "all" else row.workload if row.region == "any" else f"{row.workload}, {row.region}"
        for row in rows.itertuples()
    ]
    cells = pd.DataFrame(
        {
            "workload": names,
            "lead": [f"{ahead} {grain}{'s' if ahead > 1 else ''} ahead" for ahead in rows["ahead"]],
            "error": rows["wape_share"],
        }
    )
    cells["lead_number"] = rows["ahead"].to_numpy()
    cells = cells.sort_values(["lead_number", "workload"], kind="stable")
    first = cells[cells["lead_number"] == 1]
    good = int((first["error"] <= FINOPS_BANDS["crawl"]).sum())
    return {
        "backtest": charts.heat_map(
            cells,
            across=charts.Axis("", "", "lead"),
            down=charts.Axis("", "", "workload"),
            title=(
                f"One {grain} ahead, {'all' if good == len(first) else f'{good} of'} {len(first)} forecasts of the past were off by less"
                " than 20 % on average"
            ),
            axis=charts.Axis("Mean absolute error of past totals", "share", "error"),
            subtitle=(
                "FinOps Framework: within 12 % is Run, within 15 % Walk, within 20 % Crawl. Leads that are not listed could not be tested"
            ),
        )
    }


def _calibration(test: Backtest) -> dict[str, Any]:
    """Draw the share of past month totals inside the 90 % band, and beside it the skill against repeating the last total."""
    rows = test.pooled[(test.pooled["grain"] == "month") & (test.pooled["outcomes"] >= 5)]
    if len(rows) < 2:
        return {}
    measures = {
        "coverage_share": "Inside the 90 % band",
        "crawl_share": "Within 20 % (Crawl)",
        "walk_share": "Within 15 % (Walk)",
        "run_share": "Within 12 % (Run)",
    }
    lines = pd.concat(
        [pd.DataFrame({"ahead": rows["ahead"].astype(float), "share": rows[column], "measure": name}) for column, name in measures.items()]
    )
    held = float((rows["coverage_share"] * rows["outcomes"]).sum() / rows["outcomes"].sum())
    return {
        "coverage": charts.curve(
            lines,
            series="measure",
            title=f"The 90 % bands held {held:.0%} of past month totals",
            across=charts.Axis("Months ahead", "", "ahead"),
            up=charts.Axis("Share of past totals", "share", "share"),
            subtitle=(
                "All workloads, forecasts made anew at past days; month totals of neighbouring days overlap, so these shares are rough"
            ),
        )
    }
