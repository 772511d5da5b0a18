"""The view of the portfolio: how much to commit to, on which terms, and what rules that look back would do."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.placement import asked_book
from capplan.answers.portfolio import portfolio_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.portfolio import Portfolio
from capplan.records import word_list
from capplan.text import money, words

KEY = ["accelerator", "geography"]


@once
def show_portfolio(book: Book, scenario: Scenario) -> View:
    """Show how much of each pool's load to reserve, and on which terms."""
    book = asked_book(book, scenario)
    answer = portfolio_of(book, scenario)
    gain = answer.terms.groupby(KEY)["saving_usd_per_year"].max() if len(answer.terms) else pd.Series(dtype=float)
    sizes = answer.pools.set_index(KEY)["usd_per_year"]
    main = (gain if len(gain) and gain.max() > 0 else sizes).idxmax()
    part = {
        name: _of(getattr(answer, name), main)
        for name in ("pools", "terms", "mix", "screening", "duration", "curve", "capacity", "ladder_cost", "recommenders")
    }
    where = f"{main[0]} in {main[1]}"
    pictures = {"duration": _duration(part, where), "screening": _screening(part, where)}
    if len(part["curve"]):
        pictures["commitment"] = _commitment(part, where)
        pictures["ladder"] = _ladder(part, where, scenario)
    if len(answer.afterwards):
        pictures["afterwards"] = _afterwards(answer)
    # The first five move what is saved on the example; the others move the ladder, the screening, or another book.
    fields = word_list(
        "demand_factor discount_rate_per_year price_factor spot_scarcity restart_hours largest_ending_share target_coverage_share"
        " tail_share on_demand_accelerators spot_accelerators spot_interruptions_per_hour rehearse"
    )
    details = {
        name: getattr(answer, name)
        for name in word_list("pools mix ladder capacity ladder_cost recommenders afterwards sources curve duration screening")
    }
    saved = float(answer.mix["saving_usd_per_year"].sum()) if len(answer.mix) else 0.0
    return View(
        answer.headline,
        pictures,
        answer.terms if len(answer.terms) else answer.pools,
        saved,
        "USD a year saved",
        fields,
        answer.notes,
        details,
        telling=5,
    )


def _of(frame: pd.DataFrame, pool: tuple[str, str]) -> pd.DataFrame:
    """Take the rows of one pool."""
    return frame[(frame["accelerator"] == pool[0]) & (frame["geography"] == pool[1])].reset_index(drop=True)


def _duration(part: dict[str, pd.DataFrame], where: str) -> Any:
    """Draw the load-duration curve of the first year, with what is held and what the mix adds."""
    curve = part["duration"].assign(series="Load")
    held = float(part["pools"]["held_accelerators"].iloc[0])
    new = float(part["mix"]["accelerators"].sum()) if len(part["mix"]) else 0.0
    lines = [("Held in the first quarter", held)] + ([("Held and newly committed", held + new)] if new > 0.5 else [])
    flat = pd.DataFrame(
        [(name, share, level) for name, level in lines for share in (0.0, 1.0)], columns=["series", "hours_share", "accelerators"]
    )
    used = float((curve["accelerators"] >= held + new).mean())
    return charts.curve(
        pd.concat([curve, flat], ignore_index=True),
        series="series",
        title=f"{where}: the last accelerator under contract would be in use {used:.0%} of the hours",
        across=charts.Axis("Share of the hours of the first year, busiest first", "share", "hours_share"),
        up=charts.Axis("Accelerators", "accelerators", "accelerators"),
        subtitle="Hours of all demand paths; what lies above the contracts runs on spot or on demand",
    )


def _screening(part: dict[str, pd.DataFrame], where: str) -> Any:
    """Draw what an accelerator costs for a year on each term, by use."""
    lines = part["screening"]
    terms = part["terms"].sort_values("break_even_share") if len(part["terms"]) else part["terms"]
    title = f"{where}: no contract is offered"
    if len(terms):
        best = terms.iloc[0]
        title = f"{where}: {words(best['term']).lower()} pays for what is in use more than {best['break_even_share']:.0%} of the time"
    return charts.curve(
        lines,
        series="term",
        title=title,
        across=charts.Axis("Share of the hours an accelerator is in use", "share", "utilisation_share"),
        up=charts.Axis("Cost of a year", "USD", "usd_per_accelerator_year"),
        subtitle="Cheapest offer of each term; spot per useful hour, and only for work that may be interrupted",
    )


def _commitment(part: dict[str, pd.DataFrame], where: str) -> Any:
    """Draw cost against the commitment, and where each rule lands."""
    curve = part["curve"]
    lines = pd.concat(
        [curve.assign(series="Expected", usd=curve["expected_usd"]), curve.assign(series="Bad cases (CVaR)", usd=curve["cvar_usd"])],
        ignore_index=True,
    )
    best = curve.loc[curve["expected_usd"].idxmin()]
    spots = [{"x": best["accelerators"], "y": best["expected_usd"], "label": "least expected cost"}]
    for row in part["recommenders"].itertuples() if len(part["recommenders"]) else ():
        if row.name in ("most_savings_30_days", "target_coverage"):
            y = float(np.interp(row.accelerators, curve["accelerators"], curve["expected_usd"]))
            spots.append({"x": row.accelerators, "y": y, "label": words(row.name).lower()})
    nothing = float(curve["expected_usd"].iloc[0])
    return charts.curve(
        lines,
        series="series",
        points=pd.DataFrame(spots),
        title=(
            f"{where}: committing to {best['accelerators']:,.0f} accelerators saves {money(nothing - float(best['expected_usd']))} a year"
            " over nothing"
        ),
        across=charts.Axis(f"Accelerators committed, {words(best['term']).lower()}", "accelerators", "accelerators"),
        up=charts.Axis("Cost of a year", "USD", "usd"),
        subtitle="Average year of the contract, beyond what is held; work left undone at its price",
    )


def _ladder(part: dict[str, pd.DataFrame], where: str, scenario: Scenario) -> Any:
    """Draw what is held and what the ladder buys, against the load of the peak hours."""
    table = part["capacity"]
    stacked = pd.concat(
        [
            table[["quarter"]].assign(term="existing", accelerators=table["existing"]),
            table[["quarter"]].assign(term="committed", accelerators=table["laddered"]),
        ],
        ignore_index=True,
    )
    cost = part["ladder_cost"].set_index("name")["expected_usd"]
    return charts.layers(
        stacked,
        title=(
            f"{where}: buying in steps costs {money(max(cost['ladder'] - cost['no_ladder'], 0.0))} more, and at most"
            f" {scenario.largest_ending_share:.0%} ends in one quarter"
        ),
        axis=charts.Axis("Accelerators", "accelerators"),
        band=table[["quarter", "low", "median", "high"]],
        subtitle="Band: accelerators needed in the peak hours, 10th to 90th percentile",
    )


def _afterwards(answer: Portfolio) -> Any:
    """Draw what each rule would have cost in the last quarter of the history."""
    table = answer.afterwards.groupby("name", as_index=False, sort=False)["usd"].sum().sort_values("usd", kind="stable")
    least = float(table.loc[table["name"] == "hindsight", "usd"].iloc[0])
    ours = float(table.loc[table["name"] == "this_portfolio", "usd"].iloc[0])
    rank = int((table.loc[~table["name"].isin(["hindsight", "this_portfolio"]), "usd"] < ours).sum())
    better = "no rule that looks back did better" if rank == 0 else f"{rank} of the rules did better"
    return charts.bars(
        table.assign(label=[words(name) for name in table["name"]], value=table["usd"]),
        title=f"Played again on the last quarter: {money(ours - least)} above hindsight; {better}",
        axis=charts.Axis("Cost of the quarter", "USD"),
        subtitle="All pools, beyond what was held; decided on what was known before the quarter, costed on what was measured in it",
    )
