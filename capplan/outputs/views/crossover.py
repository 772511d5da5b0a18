"""The view of the crossover: host a model, or call an API."""

from typing import Any

import pandas as pd

from capplan.answers.crossover import crossover_of
from capplan.answers.placement import asked_book
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.crossover import Crossover
from capplan.records import word_list
from capplan.text import money, words

FIELDS = word_list(
    "hosting_engineers crossover_workload headroom_share evaluation_usd_per_quarter demand_factor price_factor spare_replicas"
    " api_price_change_per_year engineer_usd_per_year hosting_price_change_per_year throughput_error_share second_provider_share"
    " switch_days"
)


@once
def show_crossover(book: Book, scenario: Scenario) -> View:
    """Show whether, from which volume and from when on hosting a model is cheaper than calling an API."""
    book = asked_book(book, scenario)
    name, answer = crossover_of(book, scenario)
    pictures = {"volume": _volume(name, answer), "quarters": _quarters(name, answer), "ways": _ways(name, answer)}
    if len(answer.starts):
        pictures["starts"] = _starts(name, answer)
    if len(answer.sensitivity):
        pictures["throughput"] = _throughput(name, answer)
    if len(answer.vendor):
        pictures["vendor"] = _vendor(name, answer)
    details = {
        part: getattr(answer, part)
        for part in ("costs", "curve", "volumes", "quarters", "starts", "sensitivity", "vendor")
        if len(getattr(answer, part))
    }
    chosen = answer.ways[answer.ways["chosen"]].assign(hosted=lambda rows: rows["kind"] == "self")
    best = chosen.groupby("hosted")["expected_usd"].min()
    both = len(best) == 2
    served = book.get("services")["workload"]
    return View(
        answer.headline,
        pictures,
        answer.ways,
        float(best[True] - best[False]) if both else float(best.iloc[0]),
        "USD over the horizon that hosting costs more" if both else "USD over the horizon",
        FIELDS,
        (*book.notes, *answer.notes),
        details,
        {"crossover_workload": tuple(sorted(served))},
    )


def _volume(name: str, answer: Crossover) -> Any:
    """Draw cost against volume in the first quarter."""
    volumes = answer.volumes
    if volumes.empty:
        title = f"{name}: one side is cheaper at every volume up to twice the forecast"
    else:
        several = f", and changes places {len(volumes)} times" if len(volumes) > 1 else ""
        title = f"{name}: hosting first pays at {volumes['requests'].iloc[0] / 1e6:,.1f}M requests a quarter{several}"
    data = answer.curve.assign(way=answer.curve["way"].map(words), millions=answer.curve["requests"] / 1e6)
    return charts.curve(
        data,
        series="way",
        title=title,
        across=charts.Axis("Requests of the first quarter", "million", "millions"),
        up=charts.Axis("Cost of the quarter", "USD", "usd"),
        subtitle=(
            "At the first quarter's prices and shape of traffic; hosting in whole replicas for the peak hour, with people and evaluation"
        ),
    )


def _quarters(name: str, answer: Crossover) -> Any:
    """Draw cost by quarter of the best way to call and the best way to host, with their bands."""
    chosen = answer.ways.loc[answer.ways["chosen"], "way"].tolist()
    part = answer.costs[answer.costs["way"].isin(chosen)]
    long = pd.concat(
        [
            part.assign(quantile=level, usd=part[column], series=part["way"].map(words))
            for level, column in ((0.1, "p10_usd"), (0.5, "p50_usd"), (0.9, "p90_usd"))
        ],
        ignore_index=True,
    )
    title = f"{name}: cost by quarter"
    if len(answer.quarters):
        early, middle, late = (quarter or "beyond the horizon" for quarter in answer.quarters["quarter"])
        title = (
            f"{name}: hosting is the cheaper way in some quarter with a probability of {answer.crossing_share:.0%}; "
            f"the first such quarter is {early} (P10), {middle} (P50), {late} (P90)"
        )
    return charts.fan(
        long,
        series="series",
        title=title,
        axis=charts.Axis("Cost of the quarter", "USD", "usd"),
        subtitle="Over the demand paths, each side on its best way over the horizon",
    )


def _ways(name: str, answer: Crossover) -> Any:
    """Draw what each way costs over the horizon."""
    table = answer.ways[answer.ways["usable"]].sort_values("expected_usd", kind="stable")
    best, rest = table.iloc[0], table.iloc[1:]
    title = f"{name}: {words(best['way']).lower()} costs least, {money(best['expected_usd'])} over the horizon"
    if len(rest):
        title += f"; next is {words(rest['way'].iloc[0]).lower()} at {money(rest['expected_usd'].iloc[0])}"
    return charts.bars(
        table.assign(label=table["way"].map(words), value=table["expected_usd"]),
        title=title,
        axis=charts.Axis("Expected cost over the horizon", "USD"),
        subtitle="Every way that may serve this work on its own; spillover and traffic above rate limits included",
    )


def _starts(name: str, answer: Crossover) -> Any:
    """Draw what each start of hosting costs, and so what waiting is worth."""
    table = answer.starts
    best = str(table.loc[table["expected_usd"].idxmin(), "start"])
    worth = answer.value_of_waiting_usd
    what = f"hosting from {best} on costs least" if best != "never" else "calling throughout costs least"
    labels = ["Never: call throughout" if start == "never" else f"From {start}" for start in table["start"]]
    return charts.bars(
        pd.DataFrame({"label": labels, "value": table["expected_usd"]}),
        title=f"{name}: {what}; not hosting at once is worth {money(worth)}"
        if worth > 0
        else f"{name}: {what}, and waiting is worth nothing",
        axis=charts.Axis("Expected cost over the horizon", "USD"),
        subtitle="The best API before the start, own replicas on their best term from it on",
    )


def _throughput(name: str, answer: Crossover) -> Any:
    """Draw the cost of hosting under the throughput error."""
    table = answer.sensitivity
    low, middle, high = (float(value) for value in table["expected_usd"])
    base = float(answer.ways.loc[answer.ways["chosen"] & (answer.ways["kind"] != "self"), "expected_usd"].iloc[0])
    kept = "stays" if (low < base) == (high < base) else "turns"
    return charts.bars(
        pd.DataFrame({"label": [f"Throughput x {factor:.2g}" for factor in table["throughput_factor"]], "value": [low, middle, high]}),
        title=f"{name}: with throughput off by {1 - table['throughput_factor'].iloc[0]:.0%}, the choice between hosting and calling {kept}",
        axis=charts.Axis("Expected cost of hosting over the horizon", "USD"),
        reference=base,
        reference_text="best API",
        subtitle="Hosting throughout, on its best term",
    )


def _vendor(name: str, answer: Crossover) -> Any:
    """Draw what may happen to the API that is called."""
    table = answer.vendor.iloc[::-1]
    worst = answer.vendor.loc[answer.vendor["more_usd"].idxmax()]
    return charts.bars(
        table.assign(label=table["case"].str.capitalize(), value=table["expected_usd"]),
        title=f"{name}: the dearest of these cases, {worst['case']}, costs {money(worst['more_usd'])} more",
        axis=charts.Axis("Cost over the horizon", "USD"),
        subtitle="The API as it is called today, and what may happen to it",
    )
