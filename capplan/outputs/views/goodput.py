"""View of goodput: how much of a paid hour is progress, what that costs, and when spot stops paying."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.plan import prices_of
from capplan.book.book import Book
from capplan.book.scenario import GoodputAssumptions, Scenario
from capplan.errors import CapplanError, nearest
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.goodput import (
    Checkpoints,
    failure_rates,
    lost_time,
    measure_goodput,
    rate_of,
    replay_spot,
    running_share,
    search_interval,
    simulate_failures,
    spot_break_even,
    up_spells,
)
from capplan.questions.reliability import optimum_interval, time_shares, young_interval
from capplan.records import word_list
from capplan.text import price, words

#: What takes a paid hour, in the words of the chart.
LOSSES = {
    "input_wait_share": "Waiting for input",
    "checkpoint_share": "Writing checkpoints",
    "rework_share": "Work done twice",
    "restart_share": "Restarting",
    "idle_share": "No run",
}
MOST_OF_IT = {
    "input_wait_share": "waiting for input",
    "checkpoint_share": "writing checkpoints",
    "rework_share": "doing work twice",
    "restart_share": "restarting",
    "idle_share": "while no run is on",
}
FIELDS = word_list(
    "compute_share idle_share run_accelerators spot_discount_share goodput_accelerator checkpoint_write_seconds recovery_minutes"
    " checkpoint_interval_minutes failure_factor spot_replacement_minutes replay_days failure_fleet"
)
HOURS_PER_MONTH = 730.0
MOST_ACCELERATORS, COUNTS = 131_072, 40
#: Interruptions of a spot machine in a month, and discounts, of the map of what spot saves.
MONTHLY = (0.05, 0.2, 1.0, 5.0, 20.0, 60.0)
DISCOUNTS = (0.1, 0.25, 0.4, 0.55, 0.7)
SIMULATED_RUNS, SIMULATED_HOURS = 40, 720.0


@once
def show_goodput(book: Book, scenario: Scenario) -> View:
    """Show how much of a paid hour is progress, what an hour of progress costs, and when spot stops paying."""
    book = book.with_changes(scenario.changes)
    a = scenario.section(GoodputAssumptions)
    failures = book.need("failures", "The goodput view")
    prices, notes = _offers(book, scenario, a)
    table = measure_goodput(failures, a, prices, book.get("spot_availability"))
    even = spot_break_even(failures, a, prices)
    best = _cheapest(table)
    rate = rate_of(a.goodput_accelerator, failure_rates(failures), a)
    failing = rate.per_accelerator_hour * a.run_accelerators
    main = best.iloc[0]
    pictures = {
        "price": _price(best, a),
        "losses": _losses(best, a),
        "counts": _counts(table, failing, a),
        "interval": _interval(failing, a),
        **_spot_map(table, even, failing, a),
        **_record(book, a),
        **_causes(failures, rate.fleets),
    }
    played = _simulated(main, failing, a)
    notes += _notes(main, rate.fleets, rate.same_accelerator, played, a)
    details = {
        "offers": table,
        "lost_time": lost_time(table),
        "spot_break_even": even,
        "failure_rates": failure_rates(failures),
        "simulated_runs": played,
    }
    value = float(main["usd_per_productive_accelerator_hour"])
    shown = best.drop(columns=["accelerator", "accelerators", "fleets", "ettr_share", "input_wait_share"])
    said, choices = (*book.notes, *notes), {"goodput_accelerator": tuple(sorted(set(prices_of(book, scenario)["accelerator"])))}
    return View(_headline(best, even, a), pictures, shown, value, "USD per productive accelerator-hour", FIELDS, said, details, choices)


def _offers(book: Book, scenario: Scenario, a: GoodputAssumptions) -> tuple[pd.DataFrame, list[str]]:
    """Price the offers of the accelerator asked for, of the plan's providers and geographies where they sell it."""
    prices = prices_of(book, scenario)
    part = prices[prices["accelerator"] == a.goodput_accelerator]
    if part.empty:
        raise CapplanError(
            f"goodput_accelerator names {a.goodput_accelerator!r}, which no offer has;"
            f" {nearest(a.goodput_accelerator, set(prices['accelerator']))}"
        )
    notes = []
    for column, wanted in (("provider", scenario.providers), ("geography", scenario.geographies)):
        inside = part[part[column].isin(wanted)] if wanted else part
        if inside.empty:
            notes.append(f"No {column} of the plan offers {a.goodput_accelerator}; all are shown.")
        else:
            part = inside
    return part.reset_index(drop=True), notes


def _cheapest(table: pd.DataFrame) -> pd.DataFrame:
    """Keep the cheapest hour of progress of each provider and term, cheapest first."""
    order = table.sort_values("usd_per_productive_accelerator_hour", kind="stable")
    return order.groupby(["provider", "term"], as_index=False, sort=False).first().reset_index(drop=True)[list(table.columns)]


def _name(row: pd.Series) -> str:
    """Say which offer a row is."""
    return f"{row['provider']}, {words(str(row['term'])).lower()}, {row['geography']}"


def _headline(best: pd.DataFrame, even: pd.DataFrame, a: GoodputAssumptions) -> str:
    """Say how much of a paid hour is progress, what that makes an hour cost, and up to when spot pays."""
    main = best.iloc[0]
    often = main["mean_hours_between_interruptions"]
    text = (
        f"On {a.run_accelerators:,} {a.goodput_accelerator} {main['goodput_share']:.0%} of a paid hour is progress"
        + (f", with a stop every {_time(often)}" if np.isfinite(often) else "")
        + f": the cheapest hour of progress costs {price(main['usd_per_productive_accelerator_hour'])} ({_name(main)}; "
        f"{price(main['usd_per_paid_accelerator_hour'])} paid)"
    )
    if even.empty:
        return text + "."
    row = even.loc[even["spot_usd_per_productive_accelerator_hour"].idxmin()]
    monthly = row["break_even_interruptions_per_machine_hour"] * HOURS_PER_MONTH
    if not row["pays"]:
        return text + f"; spot does not pay: it would have to be {row['break_even_discount_share']:.0%} below on demand."
    if np.isnan(monthly):
        return text + "; spot pays at any rate of interruptions."
    return (
        text + f"; spot pays up to {_number(monthly)} interruptions of a machine a month"
        f" ({_number(row['interruptions_per_machine_hour'] * HOURS_PER_MONTH)} now)."
    )


def _number(value: float) -> str:
    """Write a small or large count as a person would."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _time(hours: float) -> str:
    """Write a time in minutes, hours or days."""
    return f"{hours * 60:.0f} minutes" if hours < 2 else f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"


def _price(best: pd.DataFrame, a: GoodputAssumptions) -> Any:
    """Draw what an hour of progress costs, as the price paid and what is lost of it."""
    paid = best.assign(label=[_name(row) for _, row in best.iterrows()])
    parts = pd.concat(
        [
            paid.assign(part="Price of a paid hour", value=paid["usd_per_paid_accelerator_hour"]),
            paid.assign(
                part="Lost to all that is no progress",
                value=paid["usd_per_productive_accelerator_hour"] - paid["usd_per_paid_accelerator_hour"],
            ),
        ]
    )
    first = best.iloc[0]
    order = {name: place for place, name in enumerate(paid["label"])}
    parts = parts.sort_values("label", key=lambda names: names.map(order), kind="stable")
    return charts.bars(
        parts[np.isfinite(parts["value"])],
        part="part",
        title=(
            f"{a.goodput_accelerator}: an hour of progress costs least {_where(first)}, "
            f"at {price(first['usd_per_productive_accelerator_hour'])}"
        ),
        axis=charts.Axis("Price of a productive accelerator-hour", "USD/h"),
        subtitle=f"A run on {a.run_accelerators:,} accelerators; cheapest offer of each provider and term",
    )


def _where(row: pd.Series) -> str:
    """Say in words where an offer is: on own machines, or with a provider on a term."""
    if row["term"] == "owned":
        return "on machines of one's own"
    return f"with {row['provider']}, {words(str(row['term'])).lower()}"


def _losses(best: pd.DataFrame, a: GoodputAssumptions) -> Any:
    """Draw what takes the rest of a paid hour."""
    table = best.assign(label=[_name(row) for _, row in best.iterrows()])
    long = table.melt("label", list(LOSSES), "part", "value").assign(part=lambda frame: frame["part"].map(LOSSES))
    order = {name: place for place, name in enumerate(table["label"])}
    long = long.sort_values("label", key=lambda names: names.map(order), kind="stable")
    sums = table[list(LOSSES)].iloc[0]
    largest = str(sums.idxmax())
    return charts.bars(
        long,
        part="part",
        title=f"{1 - float(table['goodput_share'].iloc[0]):.0%} of a paid hour is lost, most of it {MOST_OF_IT[largest]}",
        axis=charts.Axis("Share of a paid hour that is no progress", "share"),
        subtitle=(
            f"{a.run_accelerators:,} accelerators; checkpoints of {a.checkpoint_write_seconds:g} s, restarts of {a.recovery_minutes:g} min"
        ),
    )


def _taken_per_machine(table: pd.DataFrame, failing: float) -> float:
    """Interruptions in an hour of one machine of the cheapest spot offer that is not replayed on a record."""
    spot = table[(table["term"] == "spot") & (table["basis"] != "record")]
    if spot.empty:
        return 0.0
    row = spot.loc[spot["usd_per_productive_accelerator_hour"].idxmin()]
    return float(max(row["interruptions_per_hour"] - failing, 0.0) / row["machines"])


def _counts(table: pd.DataFrame, failing: float, a: GoodputAssumptions) -> Any:
    """Draw the progress of a run over its size."""
    counts = np.unique(np.round(np.geomspace(8, max(MOST_ACCELERATORS // 8, 4 * a.run_accelerators), COUNTS)))
    each = failing / a.run_accelerators
    taken = _taken_per_machine(table, failing)
    per_machine = a.run_accelerators / float(table["machines"].max())
    kinds = [("Machines that are held", 0.0)] + ([("Spot machines", taken)] if taken > 0 else [])
    rows = [
        {"series": name, "accelerators": count, "share": running_share(each * count, rate * np.ceil(count / per_machine), a)}
        for name, rate in kinds
        for count in counts
    ]
    here = [(name, running_share(failing, rate * np.ceil(a.run_accelerators / per_machine), a)) for name, rate in kinds]
    points = pd.DataFrame({"x": [float(a.run_accelerators)] * len(here), "y": [share for _, share in here], "label": [""] * len(here)})
    points.loc[points.index[-1], "label"] = f"{a.run_accelerators:,} accelerators"
    at = 16_384 if counts.max() >= 16_384 else int(counts.max())
    return charts.curve(
        pd.DataFrame(rows),
        series="series",
        points=points,
        title=(
            f"Size costs progress: {here[0][1]:.1%} at {a.run_accelerators:,} accelerators, {running_share(each * at, 0.0, a):.0%} at"
            f" {at:,}"
        ),
        across=charts.Axis("Accelerators of one run", "accelerators", "accelerators"),
        up=charts.Axis("Progress in the time a run is on (effective training time ratio)", "share", "share"),
        subtitle=(
            "Any failure stops the whole run; the checkpoint interval is the best for each size"
            if a.checkpoint_interval_minutes == 0
            else f"Any failure stops the whole run; a checkpoint every {a.checkpoint_interval_minutes:g} min"
        ),
    )


def _interval(failing: float, a: GoodputAssumptions) -> Any:
    """Draw what a run loses over the time between checkpoints."""
    write, restart = a.checkpoint_write_seconds / 3600, a.recovery_minutes / 60
    rate = max(failing, 1e-9)
    best = optimum_interval(write, 1 / rate)
    tried = np.linspace(best / 8, 4 * best, 120)
    shares = time_shares(tried, write, restart, rate)
    low = time_shares(best, write, restart, rate)
    lines = pd.concat(
        [
            pd.DataFrame({"minutes": tried * 60, "share": shares["checkpoints"], "series": "Writing checkpoints"}),
            pd.DataFrame({"minutes": tried * 60, "share": shares["rework"], "series": "Work done twice"}),
            pd.DataFrame({"minutes": tried * 60, "share": 1 - shares["progress"], "series": "All that is lost, with restarts"}),
        ]
    )
    points = pd.DataFrame({"x": [best * 60], "y": [1 - low["progress"]], "label": [f"{best * 60:.0f} min"]})
    return charts.curve(
        lines,
        series="series",
        points=points,
        title=f"A checkpoint every {best * 60:.0f} min loses least: {1 - low['progress']:.2%} of the time",
        across=charts.Axis("Work between two checkpoints", "min", "minutes"),
        up=charts.Axis("Share of the time a run is on", "share", "share"),
        subtitle=(
            f"Machines that are held; a failure every {_time(1 / rate)}. Young's rule gives {young_interval(write, 1 / rate) * 60:.0f} min"
        ),
    )


def _spot_map(table: pd.DataFrame, even: pd.DataFrame, failing: float, a: GoodputAssumptions) -> dict[str, Any]:
    """Draw what spot saves on an hour of progress, by discount and by how often a machine is taken."""
    if even.empty:
        return {}
    row = even.loc[even["spot_usd_per_productive_accelerator_hour"].idxmin()]
    machines = int(table.set_index("offer_id").loc[row["offer_id"], "machines"])
    held = running_share(failing, 0.0, a)
    cells = [
        {
            "interruptions": _number(monthly),
            "discount": f"{discount:.0%} off",
            "saving": max(1 - (1 - discount) * held / max(running_share(failing, machines * monthly / HOURS_PER_MONTH, a), 1e-9), -1.0),
        }
        for discount in DISCOUNTS
        for monthly in MONTHLY
    ]
    limit = row["break_even_interruptions_per_machine_hour"] * HOURS_PER_MONTH
    return {
        "spot": charts.heat_map(
            pd.DataFrame(cells),
            across=charts.Axis("Interruptions of one machine a month", "", "interruptions"),
            down=charts.Axis("Spot price", "", "discount"),
            middle=0.0,
            title=(
                f"Spot at {row['discount_share']:.0%} off stops paying at {_number(limit)} interruptions of a machine a month"
                if row["pays"] and np.isfinite(limit)
                else "Spot pays where the map is blue"
            ),
            axis=charts.Axis("Saved on an hour of progress", "share", "saving"),
            subtitle=(
                f"Against on demand, {a.run_accelerators:,} accelerators on {machines:,} machines; each interruption stops them all "
                f"for {a.recovery_minutes + a.spot_replacement_minutes:g} min. −100% stands for that and worse"
            ),
        )
    }


def _record(book: Book, a: GoodputAssumptions) -> dict[str, Any]:
    """Draw what a month on the first spot record would have cost, by checkpoint interval."""
    records = book.get("spot_availability")
    if records.empty:
        return {}
    name = str(records["trace"].iloc[0])
    spells = up_spells(records[records["trace"] == name], days=a.replay_days)
    write, restart = a.checkpoint_write_seconds / 3600, (a.recovery_minutes + a.spot_replacement_minutes) / 60
    if not spells.interruptions:
        return {}
    closed = optimum_interval(write, spells.mean_hours)
    best, excess = search_interval(spells, write, restart)
    tried = np.unique(np.r_[np.geomspace(max(closed / 8, write / 2), 6 * max(closed, best), 120), closed])
    played = replay_spot(spells, tried, write, restart)
    played = played[np.isfinite(played["paid_hours_per_productive_hour"])]
    at = float(replay_spot(spells, [closed], write, restart)["paid_hours_per_productive_hour"].iloc[0])
    return {
        "record": charts.curve(
            played.assign(minutes=played["interval_hours"] * 60),
            points=pd.DataFrame({"x": [closed * 60], "y": [at], "label": [f"By the formula: {closed * 60:.0f} min"]}),
            title=f"On the record of {name}, the formula's interval costs {excess:.1%} more than the best one known afterwards",
            across=charts.Axis("Work between two checkpoints", "min", "minutes"),
            up=charts.Axis("Paid hours for an hour of progress", "ratio", "paid_hours_per_productive_hour"),
            subtitle=(
                f"{spells.record_hours / 24:.0f} days of one machine: up {played['up_share'].iloc[0]:.0%} of the time, taken"
                f" {spells.interruptions} times; best interval {best * 60:.0f} min"
            ),
        )
    }


def _causes(failures: pd.DataFrame, fleets: tuple[str, ...]) -> dict[str, Any]:
    """Draw what stopped the fleet whose rate is taken, where its causes were counted."""
    part = failures[failures["fleet"].isin(fleets) & failures["failures"].notna() & failures["part"].notna()]
    if part.empty:
        return {}
    sums = part.groupby("part")["failures"].sum().sort_values(ascending=False)
    fleet = ", ".join(dict.fromkeys(part["fleet"]))
    return {
        "causes": charts.bars(
            pd.DataFrame({"label": [words(name) for name in sums.index], "value": sums.to_numpy()}),
            title=f"{fleet}: {sums.iloc[0] / sums.sum():.0%} of {sums.sum():,.0f} unplanned stops came from: {sums.index[0]}",
            axis=charts.Axis("Unplanned stops", "failures"),
            subtitle=(
                f"{part['nodes'].iloc[0] * part['accelerators_per_node'].iloc[0]:,.0f} accelerators over {part['days'].iloc[0]:.0f} days"
            ),
        )
    }


def _simulated(main: pd.Series, failing: float, a: GoodputAssumptions) -> pd.DataFrame:
    """Play the run on held machines failure by failure."""
    write = a.checkpoint_write_seconds / 3600
    rate = failing if main["term"] != "spot" or main["basis"] == "record" else float(main["interruptions_per_hour"])
    interval = float(main["interval_minutes"]) / 60
    restart = (a.recovery_minutes + (0.0 if rate == failing else a.spot_replacement_minutes * (rate - failing) / rate)) / 60
    if not np.isfinite(interval) or time_shares(interval, write, restart, rate)["progress"] < 0.05:
        return pd.DataFrame(columns=["run", "paid_hours", "progress_share"])
    hours = min(SIMULATED_HOURS, 2000 / max(rate, 1e-9))
    return simulate_failures(hours, Checkpoints(interval, write, restart), rate, runs=SIMULATED_RUNS, seed=a.seed)


def _notes(main: pd.Series, fleets: tuple[str, ...], same: bool, played: pd.DataFrame, a: GoodputAssumptions) -> list[str]:
    """Say where the rates come from, and that the formula was played against a simulation."""
    notes = [
        f"Failures of {a.goodput_accelerator}: rate of {', '.join(fleets)}"
        + ("" if len(fleets) == 1 else ", their mean")
        + ("." if same else f"; no fleet in the table holds {a.goodput_accelerator}.")
    ]
    if len(played) and main["basis"] != "record":
        low, high = played["progress_share"].quantile([0.05, 0.95])
        notes.append(
            f"{len(played)} simulated runs of {played['paid_hours'].mean() / 24:,.0f} days spend {low:.1%} to {high:.1%} of their time on"
            f" progress (nine in ten); the formula says {main['running_share']:.1%}."
        )
    if main["basis"] == "record":
        notes.append("The cheapest offer is replayed on its record of spot availability.")
    return notes
