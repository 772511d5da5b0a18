"""The view of the split: two clusters, one pool, or lending with reclaim."""

from typing import Any

import pandas as pd

from capplan.answers.split import split_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario, SplitAssumptions
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.split import Split
from capplan.records import word_list
from capplan.text import duration_words, money

#: What the sliders move, most telling first.
FIELDS = word_list(
    "delay_target_minutes preemption_cost_minutes reclaim_delay_minutes warm_spare_share serving_target_share training_policy"
    " reclaim_lead_minutes borrowing_share added_accelerators lending_share inference_accelerators fleet_usd_per_accelerator_hour"
    " late_serving_usd_per_accelerator_hour"
)
NAMES = {"separate": "Two separate clusters", "shared": "One shared pool", "lending": "Lending with reclaim"}
#: A week of the trace is drawn.
DRAWN = pd.Timedelta(days=7)


@once
def show_split(book: Book, scenario: Scenario) -> View:
    """Show whether training and inference should stay apart, share one pool, or lend idle inference nodes with reclaim."""
    book = book.with_changes(scenario.changes)
    answer = split_of(book, scenario)
    pictures = {"fleets": _fleets(answer), "occupancy": _occupancy(answer), "waits": _waits(answer)}
    if answer.sensitivity["gain_usd_per_year"].notna().any():
        pictures["sign"] = _sign(answer, scenario.section(SplitAssumptions))
    details = {
        "arrangements": answer.arrangements,
        "gains": answer.gains,
        "sensitivity": answer.sensitivity,
        "quotas": answer.quotas,
        "fleet": answer.fleet,
        "hours": answer.hours.assign(time=answer.hours["time"].dt.strftime("%Y-%m-%d %H:%M:%S")),
    }
    chosen = answer.arrangements.set_index("arrangement").loc[answer.chosen]
    value = float(chosen["needed_accelerators"] if pd.notna(chosen["needed_accelerators"]) else chosen["accelerators"])
    regions = tuple(sorted(book.get("usage")["region"].unique()))
    return View(
        answer.headline,
        pictures,
        _table(answer),
        value,
        "accelerators",
        FIELDS,
        (*book.notes, *answer.notes),
        details,
        {"cluster_region": regions},
    )


def _table(answer: Split) -> pd.DataFrame:
    """Return the arrangements as a reader compares them."""
    table = answer.arrangements
    return pd.DataFrame(
        {
            "arrangement": table["arrangement"].map(NAMES),
            "best": table["chosen"],
            "smallest_fleet_accelerators": table["needed_accelerators"],
            "cost_a_year_usd": table["total_usd_per_year"],
            "load_without_a_node_accelerator_hours": table["short_accelerator_hours"],
            "mean_wait_hours": table["queue_mean_seconds"] / 3600,
            "nine_of_ten_wait_at_most_hours": table["queue_p90_seconds"] / 3600,
            "mean_completion_hours": table["completion_mean_seconds"] / 3600,
            "preemptions": table["preemptions"],
            "harvested_accelerator_hours": table["harvested_accelerator_hours"],
            "idle_accelerator_hours": table["idle_accelerator_hours"],
            "fleet_used_share": table["used_share"],
            "meets_targets": table["meets_targets"],
        }
    )


def _fleets(answer: Split) -> Any:
    """Draw the smallest fleet of each arrangement that meets the delay target."""
    table = answer.arrangements[answer.arrangements["needed_accelerators"].notna()]
    if table.empty:
        table = answer.arrangements.assign(needed_accelerators=answer.arrangements["accelerators"])
        title = "No arrangement meets the delay target, even with many more accelerators"
    else:
        best = table.loc[table["needed_accelerators"].idxmin()]
        tied = table[table["needed_accelerators"] == best["needed_accelerators"]]["arrangement"].map(NAMES).str.lower()
        title = (
            f"{' and '.join(tied).capitalize()} {'need' if len(tied) > 1 or best['arrangement'] == 'separate' else 'needs'} the fewest"
            f" accelerators: {best['needed_accelerators']:,.0f}"
        )
        missed = table.loc[table["slo_share"] < _target(answer), "arrangement"].map(NAMES).str.lower()
        if len(missed):
            title += f"; {' and '.join(missed)} {'leave' if len(missed) > 1 else 'leaves'} too much of the load waiting"
    return charts.bars(
        table.assign(label=table["arrangement"].map(NAMES), value=table["needed_accelerators"]),
        title=title,
        axis=charts.Axis("Smallest fleet that meets the delay target", "accelerators"),
        reference=float(answer.arrangements["accelerators"].iloc[0]),
        reference_text="today's fleet",
        subtitle="Inference keeps its own accelerators; training's own are as few as let nine of ten jobs start in time",
    )


def _target(answer: Split) -> float:
    """Return the least share served by an arrangement that meets its targets; above 1 where none does."""
    fit = answer.arrangements[answer.arrangements["meets_targets"]]
    return float(fit["slo_share"].min()) if len(fit) else 1.1


def _occupancy(answer: Split) -> Any:
    """Draw who uses the fleet over the last week of the trace."""
    shown = answer.chosen if answer.chosen != "separate" else "lending"
    rows = answer.hours[answer.hours["arrangement"] == shown]
    # the last hours of a trace hold jobs only until they end: a week before its end is drawn
    end = rows["time"].max()
    rows = rows[(rows["time"] > end - DRAWN) & (rows["time"] <= end)]
    parts = {"Inference": rows["inference"], "Jobs": rows["training"], "Jobs on inference's nodes": rows["harvested"]}
    days = (rows["time"] - rows["time"].min()).dt.total_seconds() / 86400
    long = pd.concat(
        [pd.DataFrame({"days": days, "part": name, "value": values.clip(lower=0.0)}) for name, values in parts.items()], ignore_index=True
    )
    total, idle = answer.measure(shown, "harvested_accelerator_hours"), answer.measure(shown, "idle_accelerator_hours")
    return charts.curve(
        long,
        series="part",
        title=(
            f"{NAMES[shown]}: jobs use {total / idle if idle else 0:.0%} of inference's idle hours, in this week up to"
            f" {rows['harvested'].max():,.0f} accelerators at once"
        ),
        across=charts.Axis(f"Time since {rows['time'].min():%d %B %Y}", "days", "days"),
        up=charts.Axis("Accelerators in use", "accelerators", "value"),
        subtitle=(
            f"The last week of the trace; the fleet has {answer.arrangements['accelerators'].iloc[0]:,}, of which"
            f" {answer.arrangements['inference_accelerators'].iloc[0]:,} are inference's own"
        ),
    )


def _waits(answer: Split) -> Any:
    """Draw the mean wait of each arrangement on the fleet as it is."""
    table = answer.arrangements
    before, after = answer.measure("separate", "queue_mean_seconds"), answer.measure("lending", "queue_mean_seconds")
    return charts.bars(
        table.assign(label=table["arrangement"].map(NAMES), value=table["queue_mean_seconds"] / 3600),
        title=(
            f"On the fleet as it is, a job waits {duration_words(before)} on average in a cluster of its own, {duration_words(after)} with"
            " lending"
        ),
        axis=charts.Axis("Mean wait of a job", "h"),
        subtitle="All waiting of a job, also after it was displaced",
    )


def _sign(answer: Split, a: SplitAssumptions) -> Any:
    """Draw where lending saves and where it loses."""
    table = answer.sensitivity[answer.sensitivity["gain_usd_per_year"].notna()]
    gains = table["gain_usd_per_year"]
    worst = table.loc[gains.idxmin()]
    if (gains < 0).any() and (gains >= 0).any():
        delay, cost = a.reclaim_delay_minutes, a.preemption_cost_minutes
        costly = table[(gains < 0) & (table["reclaim_delay_minutes"] == delay)]["preemption_cost_minutes"]
        slow = table[(gains < 0) & (table["preemption_cost_minutes"] == cost)]["reclaim_delay_minutes"]
        when = (
            [f"a preemption costs {_span(costly.min())}"] if len(costly) and costly.min() > table["preemption_cost_minutes"].min() else []
        )
        when += [f"reclaim takes {_span(slow.min())}"] if len(slow) and slow.min() > 0 else []
        title = (
            f"Lending saves up to {money(gains.max())} a year, and loses once"
            f" {' or '.join(when) if when else 'preemption is costly and reclaim slow'}"
        )
    elif (gains >= 0).all():
        title = (
            f"Lending saves in all these cases, least ({money(gains.min())} a year) with {_span(worst['preemption_cost_minutes'])} lost per"
            " preemption"
        )
    else:
        title = f"Lending loses in all these cases, at least {money(-gains.max())} a year"
    return charts.heat_map(
        table.assign(
            delay=[_span(minutes) for minutes in table["reclaim_delay_minutes"]],
            cost=[_span(minutes) for minutes in table["preemption_cost_minutes"]],
            millions=(gains / 1e6).round(2),
        ),
        across=charts.Axis("Reclaim delay", "", "delay"),
        down=charts.Axis("Preemption cost", "", "cost"),
        title=title,
        axis=charts.Axis("Saving against separate clusters", "million USD a year", "millions"),
        middle=0.0,
        subtitle="Fleets that meet the same delay target; load that waits for a node is charged at its price",
    )


def _span(minutes: float) -> str:
    """Write a span of minutes."""
    return (
        "0"
        if minutes == 0
        else f"{minutes:g} min"
        if minutes < 120
        else f"{minutes / 60:g} h"
        if minutes < 2880
        else f"{minutes / 1440:g} days"
    )
