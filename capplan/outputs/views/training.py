"""The view of training: what a run of the roadmap needs, in accelerators, days and money."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.training import training_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario, TrainingAssumptions
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.training import RunStudy
from capplan.records import word_list
from capplan.text import money, words

#: Kinds of machines drawn in one picture; more are in the table.
DRAWN = 5
FIELDS = word_list(
    "planned_accelerators compute_share sequence_length mfu_share run_maximum_accelerators contract_reuse_share run_on_spot recompute"
    " checkpoint_write_seconds failure_factor global_batch_tokens simple_rung_share attention_operations spot_discount_share sweep_trials"
    " sweep_pool_accelerators adaptation_tokens monthly_million_tokens training_run"
)
PARTS = {"weights_gib": "Weights", "gradients_gib": "Gradients", "optimiser_gib": "Optimiser", "activations_gib": "Activations"}
METHODS = {
    "grid": "Grid",
    "random": "Random",
    "random_with_early_stop": "Random, stopped early",
    "successive_halving": "Successive halving",
    "hyperband": "Hyperband",
    "population_based": "Population based",
}
WAYS = {
    "train_from_scratch": "Train from scratch",
    "fine_tune": "Tune all weights",
    "adapters": "Tune adapters (LoRA)",
    "call_an_api": "Call an API",
}
RUNGS = {"zero_1": "ZeRO 1", "zero_2": "ZeRO 2", "zero_3": "ZeRO 3 (fully sharded)"}
#: Columns of the table, with the names that give them headings.
SHOWN = {
    "machine": "machine",
    "accelerators": "accelerators",
    "term": "term",
    "layout": "layout",
    "memory_gib": "memory_gib",
    "goodput_share": "goodput_share",
    "days": "run_days",
    "accelerator_hours": "paid_accelerator_hours",
    "usd": "cost_usd",
    "meets_deadline": "in_time",
}


@once
def show_training(book: Book, scenario: Scenario) -> View:
    """Show what a training run needs: machines, days, money, memory; and what else would do the job."""
    book = book.with_changes(scenario.changes)
    a = scenario.section(TrainingAssumptions)
    answer = training_of(book, scenario)
    chosen = answer.choice.iloc[0]
    pictures = {
        "frontier": _frontier(answer),
        "days": _days(answer),
        "machines": _machines(answer),
        "memory": _memory(answer, a),
        "network": _network(answer),
        "sweeps": _sweeps(answer, a),
        "ways": _ways(answer, a),
    }
    table = answer.machines.assign(machine=_names(answer.machines), layout=[_layout(row) for _, row in answer.machines.iterrows()])
    table = table[list(SHOWN)].rename(columns=SHOWN)
    details = {
        "run": answer.run,
        "frontier": answer.frontier[answer.frontier["efficient"]].reset_index(drop=True),
        "rungs": answer.rungs,
        "remedies": answer.remedies,
        "storage": answer.storage,
        "sweeps": answer.sweeps.assign(method=answer.sweeps["method"].map(METHODS)),
        "ways": answer.ways.assign(way=answer.ways["way"].map(WAYS)),
    }
    notes = (*book.notes, *answer.notes)
    filled = {name: part for name, part in details.items() if len(part)}
    return View(answer.headline, pictures, table, float(chosen["usd"]), "USD", FIELDS, notes, filled)


def _names(machines: pd.DataFrame) -> list[str]:
    """Name kinds of machines: the accelerator and who sells it; with the machine's own name where a seller has two."""
    twice = machines.groupby(["accelerator", "provider"])["sku"].transform("nunique") > 1
    return [f"{row.accelerator}, {row.sku if two else row.provider}" for row, two in zip(machines.itertuples(), twice, strict=True)]


def _layout(row: pd.Series) -> str:
    """Say how a run is laid out."""
    parts = [
        f"tensor {row['tensor']}" if row["tensor"] > 1 else "",
        f"pipeline {row['pipeline']}" if row["pipeline"] > 1 else "",
        f"{row['data']} copies",
    ]
    return f"{_rung(row['rung'])}: {', '.join(part for part in parts if part)}"


def _rung(name: str) -> str:
    return RUNGS.get(name, words(name))


def _drawn(answer: RunStudy) -> dict[str, str]:
    """Name the kinds of machines that are drawn: the one that is chosen, and the cheapest of each other accelerator."""
    chosen = str(answer.choice["sku"].iloc[0])
    table = answer.machines.assign(name=_names(answer.machines)).sort_values("sku", key=lambda sku: sku != chosen, kind="stable")
    named = table.drop_duplicates("accelerator").head(DRAWN)
    return dict(zip(named["sku"], named["name"], strict=True))


def _point(answer: RunStudy, x: str, y: str) -> pd.DataFrame:
    """Mark the choice."""
    row = answer.choice.iloc[0]
    return pd.DataFrame(
        {
            "x": [float(row[x])],
            "y": [float(row[y])],
            "label": [f"{int(row['accelerators']):,} {row['accelerator']}: {row['days']:,.0f} days, {money(row['usd'])}"],
        }
    )


def _frontier(answer: RunStudy) -> Any:
    """Draw money against days for the cheapest kinds of machines."""
    run, row, names = answer.run.iloc[0], answer.choice.iloc[0], _drawn(answer)
    longest = 2 * max(float(row["days"]), float(run["days_available"]) if np.isfinite(run["days_available"]) else 0.0)
    part = answer.frontier[answer.frontier["sku"].isin(names) & (answer.frontier["days"] <= longest)]
    part = part[part["usd"] <= 4 * float(row["usd"])].sort_values(["sku", "days", "usd"], kind="stable")
    # What is neither quicker nor cheaper than another number of the same machines is no choice.
    part = part[(part["usd"] < part.groupby("sku")["usd"].transform(lambda usd: usd.cummin().shift())) | ~part.duplicated("sku")]
    late = "" if row["meets_deadline"] else ", which is too late"
    return charts.curve(
        part.assign(machine=part["sku"].map(names)),
        series="machine",
        title=(
            f"{run['run_id']}: {int(row['accelerators']):,} {row['accelerator']} take {row['days']:,.0f} days for {money(row['usd'])}{late}"
        ),
        across=charts.Axis("Time the run takes", "days", "days"),
        up=charts.Axis("Cost of the run", "USD", "usd"),
        points=_point(answer, "days", "usd"),
        subtitle=f"Each point is a number of machines on its cheapest offer; the deadline allows {run['days_available']:,.0f} days",
    )


def _days(answer: RunStudy) -> Any:
    """Draw days against accelerators, with the deadline."""
    run, row, names = answer.run.iloc[0], answer.choice.iloc[0], _drawn(answer)
    most = 4 * float(row["accelerators"])
    part = answer.frontier[answer.frontier["sku"].isin(names) & (answer.frontier["accelerators"] <= most)]
    part = part[part["days"] <= 3 * float(row["days"])]
    data = _apart(part.assign(series=part["sku"].map(names)), str(row["sku"]))
    if np.isfinite(run["days_available"]):
        line = pd.DataFrame(
            {"accelerators": [data["accelerators"].min(), data["accelerators"].max()], "days": run["days_available"], "series": "Deadline"}
        )
        data = pd.concat([data, line], ignore_index=True)
    half = answer.frontier[answer.frontier["sku"] == row["sku"]]
    double = half[half["accelerators"] >= 2 * row["accelerators"]]
    title = f"{run['run_id']}: days fall with the number of accelerators"
    if len(answer.remedies):
        title = (
            f"{run['run_id']}: {row['days'] - run['days_available']:,.0f} days late; in time with"
            f" {answer.remedies[answer.remedies['possible']]['says'].iloc[0]}"
        )
    elif len(double):
        title = (
            f"Twice the accelerators would take {double['days'].iloc[0]:,.0f} instead of {row['days']:,.0f} days, for"
            f" {money(double['usd'].iloc[0])}"
        )
    return charts.curve(
        data,
        series="series",
        title=title,
        across=charts.Axis("Accelerators", "accelerators", "accelerators"),
        up=charts.Axis("Time the run takes", "days", "days"),
        points=_point(answer, "accelerators", "days").assign(label=f"{int(row['accelerators']):,} {row['accelerator']}"),
        subtitle="After scaling, bubbles, failures, checkpoints and waiting for data",
    )


def _apart(part: pd.DataFrame, first: str) -> pd.DataFrame:
    """Leave out kinds of machines that are as quick as one already drawn (their lines would lie on each other), and single points."""
    kept: list[pd.DataFrame] = []
    order = sorted(part["sku"].unique(), key=lambda sku: sku != first)
    for sku in order:
        line = part[part["sku"] == sku][["accelerators", "days", "series"]]
        same = False
        for other in kept:
            both = line.merge(other, on="accelerators")
            same |= len(both) > 0 and bool((abs(both["days_x"] / both["days_y"] - 1) < 0.03).all())
        if not same and (len(line) > 1 or sku == first):
            kept.append(line)
    return pd.concat(kept, ignore_index=True)


def _machines(answer: RunStudy) -> Any:
    """Rank the kinds of machines by what the run costs on them, in time."""
    run = answer.run.iloc[0]
    table = answer.machines.assign(name=_names(answer.machines))
    good = table[table["meets_deadline"]] if table["meets_deadline"].any() else table
    good = good.head(10)
    first = good.iloc[0]
    second = (
        f"; next is {good['accelerator'].iloc[1]} from {good['provider'].iloc[1]} at {money(good['usd'].iloc[1])}" if len(good) > 1 else ""
    )
    when = "in time" if table["meets_deadline"].any() else "though late"
    return charts.bars(
        good.assign(label=[f"{count:,} {name}" for count, name in zip(good["accelerators"], good["name"], strict=True)], value=good["usd"]),
        part="term",
        title=f"{run['run_id']} costs {money(first['usd'])} on {first['accelerator']} from {first['provider']}{second}",
        axis=charts.Axis("Cost of the run", "USD"),
        subtitle=f"Cheapest number of machines of each kind that does it {when}, on its cheapest offer; contracts paid to their end",
    )


def _memory(answer: RunStudy, a: TrainingAssumptions) -> Any:
    """Draw the memory of an accelerator under each rung, part by part."""
    row, table = answer.choice.iloc[0], answer.rungs.drop_duplicates("rung")
    chosen = table[table["chosen"]].iloc[0]
    long = table.melt(id_vars="rung", value_vars=list(PARTS), var_name="part", value_name="value")
    order = {name: place for place, name in enumerate(table["rung"])}
    long = long.sort_values("rung", key=lambda names: names.map(order), kind="stable")
    return charts.bars(
        long.assign(label=long["rung"].map(_rung), part=long["part"].map(PARTS)),
        part="part",
        title=(
            f"On {int(row['accelerators']):,} {row['accelerator']} the run takes the rung {_rung(chosen['rung'])}:"
            f" {chosen['memory_gib']:,.0f} GiB of each"
        ),
        axis=charts.Axis("Memory of one accelerator", "GiB"),
        reference=float(table["room_gib"].iloc[0]),
        reference_text="free",
        subtitle=(
            f"Activations: {row['recompute']} recomputation, sequences of {a.sequence_length:,} tokens,"
            f" {a.micro_batch_sequences} a micro-batch"
        ),
    )


def _network(answer: RunStudy) -> Any:
    """Draw what each rung needs of a machine's network."""
    table, row = answer.rungs.drop_duplicates("rung"), answer.choice.iloc[0]
    chosen, has = table[table["chosen"]].iloc[0], float(table["network_gbps"].iloc[0])
    hidden = "less than" if chosen["needed_network_gbps"] <= has else "more than"
    return charts.bars(
        table.assign(label=table["rung"].map(_rung), value=table["needed_network_gbps"]),
        title=f"The chosen rung needs {chosen['needed_network_gbps']:,.0f} Gbit/s of a machine's network, {hidden} the {has:,.0f} it has",
        axis=charts.Axis("Network of one machine that hides all traffic", "Gbit/s"),
        reference=has,
        reference_text="network",
        subtitle=f"On {int(row['accelerators']):,} {row['accelerator']}; tensor parallelism stays on the fast links within a machine",
    )


def _sweeps(answer: RunStudy, a: TrainingAssumptions) -> Any:
    """Draw the training that each way to search takes."""
    table = answer.sweeps.set_index("method", drop=False)
    halving, random = table.loc["successive_halving"], table.loc["random"]
    return charts.bars(
        table.assign(label=table["method"].map(METHODS), value=table["epochs"]).reset_index(drop=True),
        title=(
            f"Successive halving tries {a.sweep_trials} settings in {halving['epochs']:,.0f} epochs and {halving['hours']:,.0f} h; to the"
            f" end they take {random['epochs']:,.0f} and {random['hours']:,.0f} h"
        ),
        axis=charts.Axis("Training of the whole sweep", "epochs"),
        subtitle=(
            f"{a.sweep_pool_accelerators} accelerators, {a.trial_accelerators} a trial; random costs {money(random['usd'])}, successive"
            f" halving {money(halving['usd'])}"
        ),
    )


def _ways(answer: RunStudy, a: TrainingAssumptions) -> Any:
    """Draw what each way to a model costs over the months looked at."""
    table = answer.ways
    best = table.iloc[0]
    long = pd.concat(
        [table.assign(part="Training", value=table["once_usd"]), table.assign(part="Use", value=table["monthly_usd"] * a.decision_months)]
    )
    return charts.bars(
        long.assign(label=long["way"].map(WAYS)),
        part="part",
        title=(
            f"At {a.monthly_million_tokens:,.0f}M tokens a month the cheapest way to a model of this size is:"
            f" {WAYS[best['way']][0].lower()}{WAYS[best['way']][1:]}"
        ),
        axis=charts.Axis(f"Cost over {a.decision_months} months", "USD"),
        subtitle="Accelerators and tokens only; people, data and evaluation come on top. Which way is good enough, an evaluation says",
    )
