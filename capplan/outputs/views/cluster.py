"""The view of the cluster: how long jobs wait, and what more accelerators or another policy would do about it."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.cluster import waits_of
from capplan.answers.plan import headroom_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.cluster import CapacityCurve, Headroom, Schedule
from capplan.records import word_list
from capplan.text import duration_words, words

#: What the sliders move, most telling first: the first ten move the wait, the others what it is held against and how teams share.
FIELDS = word_list(
    "added_accelerators serving_kept_accelerators cluster_policy backfill_depth node_failures_per_node_day gang_scheduling allow_scatter"
    " placement_rule shrink_elastic_jobs checkpoint_seconds delay_target_minutes training_delay_target_hours scatter_slowdown_share"
    " fair_share_half_life_hours borrowing_share curve_sizes curve_resamples"
)
#: Steps of the occupancy chart.
STEPS = 400


@once
def show_cluster(book: Book, scenario: Scenario) -> View:
    """Show how long jobs wait, and the smallest cluster that meets the delay target."""
    book = book.with_changes(scenario.changes)
    answer = waits_of(book, scenario)
    schedule = answer.schedule
    pictures = {
        "curve": _curve(answer.curve, scenario),
        "occupancy": _occupancy(schedule),
        "policies": _policies(answer.policies, scenario.cluster_policy),
        "sizes": _sizes(schedule),
    }
    details = {
        "capacity_curve": answer.curve.curve,
        "policies": answer.policies,
        "by_team": schedule.by_team,
        "measures": schedule.measures,
    }
    headline = f"{schedule.headline} {answer.curve.headline}"
    notes = (*book.notes, *schedule.notes, *answer.curve.notes)
    headroom = headroom_of(book, scenario)
    if headroom is not None:
        headline += f" {headroom.headline}"
        notes = (*notes, *headroom.notes)
        details |= {"queue_headroom": headroom.factors, "queue_headroom_levels": headroom.levels}
        if len(headroom.levels) > 1:
            pictures["headroom"] = _headroom(headroom, scenario)
    return View(headline, pictures, schedule.by_size, float(schedule.measure("queue_p90")), "seconds", FIELDS, notes, details)


def _curve(found: CapacityCurve, scenario: Scenario) -> Any:
    """Draw waiting against the size of the cluster."""
    hours = found.curve.assign(**{name: found.curve[f"{name}_seconds"] / 3600 for name in ("queue_p90", "low", "high")})
    hours = hours[np.isfinite(hours["high"])]
    target = scenario.delay_target_minutes / 60
    title = "No size on the curve meets the delay target"
    points = None
    if found.smallest is not None:
        title = (
            f"{found.smallest:,} accelerators are enough for nine of ten jobs to start within"
            f" {duration_words(60 * scenario.delay_target_minutes)}"
        )
        at = hours[hours["accelerators"] == found.smallest]
        points = pd.DataFrame({"x": at["accelerators"], "y": at["queue_p90"], "label": f"target {target:.3g} h"})
    return charts.curve(
        hours,
        points=points,
        title=title,
        across=charts.Axis("Size of the cluster", "accelerators", "accelerators"),
        up=charts.Axis("Wait of nine of ten jobs", "h", "queue_p90"),
        subtitle="Band: range over resampled traces; the same jobs at every size",
    )


def _occupancy(schedule: Schedule) -> Any:
    """Draw what was held and what waited over time."""
    steps = schedule.occupancy
    grid = pd.date_range(steps["time"].min(), steps["time"].max(), periods=STEPS)
    at = np.maximum(np.searchsorted(steps["time"].to_numpy(), grid.to_numpy(), side="right") - 1, 0)
    days = (grid - grid[0]).total_seconds() / 86400
    lines = {"Held by jobs": "accelerators", "Asked for by waiting jobs": "waiting_accelerators"}
    data = pd.concat(
        [pd.DataFrame({"day": days, "accelerators": steps[column].to_numpy()[at], "series": name}) for name, column in lines.items()],
        ignore_index=True,
    )
    size = schedule.measure("accelerators")
    full = pd.DataFrame({"day": [days[0], days[-1]], "accelerators": [size, size], "series": "The cluster"})
    return charts.curve(
        pd.concat([data, full], ignore_index=True),
        series="series",
        title=(
            f"The cluster is {schedule.measure('allocated_share'):.0%} allocated, and {schedule.measure('computing_share'):.0%} does work"
            " that counts"
        ),
        across=charts.Axis("Time since the first submission", "days", "day"),
        up=charts.Axis("Accelerators", "accelerators", "accelerators"),
        subtitle="Sampled at equal steps; work that counts leaves out what failures and displacements lose",
    )


def _headroom(found: Headroom, scenario: Scenario) -> Any:
    """Draw what the jobs of each quarter occupy on average, and the spare that the delay target needs."""
    first, last = found.levels.iloc[0], found.levels.iloc[-1]
    parts = {
        "Mean hours of the jobs": found.levels["mean_accelerators"],
        "Spare for the wait": found.levels["mean_accelerators"] * (found.levels["factor"] - 1),
    }
    target = duration_words(3600 * (scenario.training_delay_target_hours or 0.0))
    return charts.layers(
        pd.concat(
            [pd.DataFrame({"quarter": found.levels["quarter"], "accelerators": values, "term": name}) for name, values in parts.items()],
            ignore_index=True,
        ),
        title=(
            f"For nine of ten training jobs to start within {target}, the plan carries {first['factor'] - 1:.0%} more in"
            f" {first['quarter']}, {last['factor'] - 1:.0%} in {last['quarter']}"
        ),
        axis=charts.Axis("Accelerators", "accelerators"),
        subtitle="Work that grows is more jobs; a larger cluster needs less spare for each",
    )


def _policies(table: pd.DataFrame, chosen: str) -> Any:
    """Draw the mean completion time under each policy."""
    done = table[table["unfinished"] == 0].assign(hours=lambda rows: rows["completion_mean"] / 3600).sort_values("hours", kind="stable")
    best = done.iloc[0]
    mine = done[done["policy"] == chosen]
    title = f"{words(best['policy'])} finishes jobs soonest, after {best['hours']:.3g} hours on average"
    if len(mine) and best["policy"] != chosen:
        title += f"; {words(chosen).lower()} takes {mine['hours'].iloc[0] / best['hours']:.2g} times as long"
    return charts.bars(
        done.assign(label=done["policy"].map(words), value=done["hours"]),
        title=title,
        axis=charts.Axis("Mean completion time", "h"),
        subtitle="Wait and run; the same jobs on the same nodes under each policy",
    )


def _sizes(schedule: Schedule) -> Any:
    """Draw waiting by size of job."""
    table = schedule.by_size.assign(value=schedule.by_size["queue_p90_seconds"] / 3600)
    worst = table.loc[table["value"].idxmax()]
    return charts.bars(
        table.assign(label=table["size"].map(_accelerators)),
        title=(
            f"Jobs of {_accelerators(worst['size'])} wait longest: nine of ten start within"
            f" {duration_words(float(worst['queue_p90_seconds']))}"
        ),
        axis=charts.Axis("Wait of nine of ten jobs", "h"),
        subtitle="By size of job",
    )


def _accelerators(size: str) -> str:
    """Write a band of sizes as a reader would say it."""
    return {"part of one": "part of an accelerator", "1": "1 accelerator"}.get(size, f"{size} accelerators")
