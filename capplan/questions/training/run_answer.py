"""The answer about one run: its cheapest way in time, what would meet a missed deadline, memory, storage, sweeps, other ways."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.training.flops import operations_per_token
from capplan.questions.training.job import DAY, Job, job_of
from capplan.questions.training.layout_verdicts import ladder
from capplan.questions.training.offered import TrainingTables, machine_table
from capplan.questions.training.plan_run import curve_of, plan_run
from capplan.questions.training.storage import checkpoint_gib, run_storage
from capplan.questions.training.sweeps import plan_sweep
from capplan.questions.training.ways import compare_ways
from capplan.text import money

#: How far beyond the largest run a missed deadline is looked for.
BEYOND = 16
#: On what a speed rests, in words.
RESTS_ON = {
    "measured": "that of a published run of this model, batch and number of accelerators",
    "calibrated": "worked out from measured runs of other models",
    "modelled": "worked out from measured runs on other accelerators or in other number formats",
}
#: The largest utilisation that published large runs report (MegaScale: 55.2 %), rounded up.
HIGHEST_MFU = 0.6


@dataclass(frozen=True)
class RunStudy:
    """What a training run needs.

    Args:
        run: One row: run_id, parameters, parameters_total, tokens, exaflop, precision, start, deadline, days_available, and what a unit of
            work costs as chosen: usd_per_exaflop, usd_per_billion_tokens.
        frontier: What `plan_run` returns.
        choice: One row of it: the cheapest that meets the deadline; the quickest where none does.
        machines: One row of it for each kind of machine, chosen alike; cheapest first.
        rungs: Ways to lay the run out over the chosen machines, one row a rung and kind of recomputation (the best of each, best first):
            rung, recompute, verdict (taken, or why not), tensor, pipeline, data, stage, memory by
            part, room_gib (free), fits, chosen, kept_share, needed_network_gbps and network_gbps (of a machine), needed_link_gbps and
            link_gbps (of an accelerator).
        remedies: Where the deadline is missed, what would meet it: change, now, needed, possible, says.
        storage, sweeps, ways: As `run_storage`, `plan_sweep`, `compare_ways` return them.
        headline, notes:
    """

    run: pd.DataFrame
    frontier: pd.DataFrame
    choice: pd.DataFrame
    machines: pd.DataFrame
    rungs: pd.DataFrame
    remedies: pd.DataFrame
    storage: pd.DataFrame
    sweeps: pd.DataFrame
    ways: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def study_run(run: Any, tables: TrainingTables, a: TrainingAssumptions) -> RunStudy:
    """Say what a training run needs: machines, days, money, memory, storage; and what else would do.

    Raises:
        CapplanError: As `plan_run`; and where no machine fits the run on the count the scenario sets.
    """
    job = job_of(run, tables, a)
    frontier = plan_run(job.row, tables, a)
    looked = frontier if a.planned_accelerators is None else plan_run(job.row, tables, a, a.planned_accelerators)
    choice = _best(looked)
    machines = pd.concat([_best(part) for _, part in looked.groupby("sku", sort=True)]).sort_values(
        ["meets_deadline", "usd", "sku"], ascending=[False, True, True], kind="stable", ignore_index=True
    )
    chosen = choice.iloc[0]
    remedies = _remedies(job, tables, choice, frontier, a)
    sku = machine_table(tables.skus, tables.accelerators, tables.prices, job.precision).set_index("sku", drop=False).loc[chosen["sku"]]
    storage = run_storage(
        checkpoint_gib(job.shape.parameters, job.precision),
        job.tokens,
        job.tokens / (chosen["days"] * 86400 * chosen["goodput_share"]),
        int(chosen["machines"]),
        _interval(tables.goodput, chosen, a),
        float(chosen["days"]),
        a,
    )
    usd = float(chosen["usd_per_accelerator_hour"])
    room = float(sku["accelerator_memory_gib"]) * (1 - a.memory_reserve_share)
    return RunStudy(
        run=_facts(job, float(chosen["usd"])),
        frontier=frontier,
        choice=choice,
        machines=machines,
        rungs=ladder(job.shape, job.precision, sku, int(chosen["accelerators"]), chosen, a),
        remedies=remedies,
        storage=storage,
        sweeps=plan_sweep(usd / float(chosen["goodput_share"]), a),
        ways=compare_ways(job.shape, job.precision, job.exaflop, float(chosen["tflops_per_accelerator"]), usd, room, a),
        headline=_headline(job.name, chosen, job.days_available, remedies),
        notes=(*_notes(job, tables, chosen, frontier, a), _storage_note(storage, int(chosen["machines"]), a)),
    )


def _facts(job: Job, usd: float) -> pd.DataFrame:
    """Return the run as it is planned, with what a unit of its work costs."""
    facts = {
        "run_id": job.name,
        "parameters": job.shape.active,
        "parameters_total": job.shape.parameters,
        "tokens": job.tokens,
        "exaflop": job.exaflop,
        "precision": job.precision,
        "start": job.row.get("start", pd.NaT),
        "deadline": job.row.get("deadline", pd.NaT),
        "days_available": job.days_available,
        "usd_per_exaflop": usd / job.exaflop,
        "usd_per_billion_tokens": usd / job.tokens * 1e9,
    }
    return pd.DataFrame([facts])


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cheapest row that meets the deadline (of equal ones that with fewest accelerators), or the quickest."""
    if table["meets_deadline"].any():
        good = table[table["meets_deadline"]]
        good = good[good["usd"] <= good["usd"].min() * (1 + 1e-9)]
        return good.sort_values(["accelerators", "sku"], kind="stable").head(1).reset_index(drop=True)
    return table.sort_values(["days", "usd", "sku"], kind="stable").head(1).reset_index(drop=True)


def _interval(goodput: pd.DataFrame | float | None, chosen: pd.Series, a: TrainingAssumptions) -> float:
    """Work between two checkpoints in minutes: the scenario's, or the one that goodput was measured with nearest to the chosen count."""
    if a.checkpoint_interval_minutes > 0:
        return a.checkpoint_interval_minutes
    if not isinstance(goodput, pd.DataFrame) or "interval_minutes" not in goodput:
        return float("inf")
    rows = goodput[goodput["offer_id"] == chosen["offer_id"]]
    if rows.empty:
        return float("inf")
    closest = (rows["accelerators"] - chosen["accelerators"]).abs().idxmin() if "accelerators" in rows else rows.index[0]
    return float(rows.loc[closest, "interval_minutes"])


def _remedies(job: Job, tables: TrainingTables, choice: pd.DataFrame, frontier: pd.DataFrame, a: TrainingAssumptions) -> pd.DataFrame:
    """Say what would meet a deadline that is missed: accelerators, utilisation, tokens, or another day."""
    columns = ["change", "now", "needed", "possible", "says"]
    chosen = choice.iloc[0]
    if chosen["meets_deadline"]:
        return pd.DataFrame(columns=columns)
    available, tokens = job.days_available, job.tokens
    ratio = float(chosen["days"]) / available
    rows: list[tuple[str, float, float, bool, str]] = []
    wider = frontier
    if not wider["meets_deadline"].any():
        more = a.model_copy(update={"run_maximum_accelerators": min(a.run_maximum_accelerators * BEYOND, 1_000_000)})
        wider = plan_run(job.row, tables, more)
    enough = wider[wider["meets_deadline"]]
    now = float(chosen["accelerators"])
    if len(enough):
        first = enough.sort_values(["accelerators", "usd"], kind="stable").iloc[0]
        count, what = float(first["accelerators"]), f"{int(first['accelerators']):,} {first['accelerator']} ({first['days']:.0f} days)"
        rows.append(("accelerators", now, count, True, what))
    else:
        rows.append(("accelerators", now, np.nan, False, "no number of the machines offered"))
    kept = float(chosen["mfu_share"] / (chosen["kept_share"] * chosen["scaling_share"])) if a.mfu_share is None else a.mfu_share
    share = kept * ratio
    rows.append(("utilisation", kept, share, share <= HIGHEST_MFU, f"a utilisation of {share:.0%} instead of {kept:.0%}"))
    rows.append(("tokens", tokens, tokens / ratio, True, f"{_count(tokens / ratio)} tokens instead of {_count(tokens)}"))
    late = float(np.ceil(chosen["days"] - available))
    if "deadline" in job.row:
        day = pd.Timestamp(job.row["deadline"]) + late * DAY
        rows.append(("deadline", available, available + late, True, f"a deadline of {day:%Y-%m-%d}, or a start {late:.0f} days earlier"))
    return pd.DataFrame(rows, columns=columns)


def _headline(name: str, chosen: pd.Series, available: float, remedies: pd.DataFrame) -> str:
    """Say what the run takes, or by how much it is late and what would help."""
    what = f"{int(chosen['accelerators']):,} {chosen['accelerator']} from {chosen['provider']}, {_term(chosen['term'])}"
    if chosen["meets_deadline"]:
        allowed = f"; the deadline allows {available:,.0f}" if np.isfinite(available) else ""
        return f"{name}: the cheapest way in time is {what}: {_days(chosen['days'])} and {money(chosen['usd'])}{allowed}."
    late = chosen["days"] - available
    helps = [text for text, possible in zip(remedies["says"], remedies["possible"], strict=True) if possible]
    return (
        f"{name}: the deadline is missed by {_days(late)}. The quickest is {what}, in {_days(chosen['days'])} for {money(chosen['usd'])}."
        f" It would be met with {'; or '.join(helps)}."
    )


def _notes(job: Job, tables: TrainingTables, chosen: pd.Series, frontier: pd.DataFrame, a: TrainingAssumptions) -> tuple[str, ...]:
    """State what was assumed."""
    shape, scaling = job.shape, tables.scaling
    notes = [shape.note] if shape.note else []
    attention = float(
        operations_per_token(shape.active, layers=shape.layers, width=shape.attention_width, sequence_length=a.sequence_length)
        / operations_per_token(shape.active)
        - 1
    )
    notes.append(
        f"The run is {job.exaflop:,.0f} exaflop, {'with' if a.attention_operations else 'without'} the products of attention, which add"
        f" {attention:.0%} at sequences of {a.sequence_length:,} tokens; the demand forecast counts 6 x parameters x tokens."
    )
    if chosen["recompute"] == "full":
        why = " No layout that computes less again is as fast and fits." if a.recompute == "fastest" else ""
        notes.append(f"Everything is computed again in the backward pass: a third more operations, and the least memory.{why}")
    if scaling is None:
        notes.append("No scaling runs are measured: speed grows with the count, less bubbles and traffic that cannot be hidden.")
    else:
        name = curve_of(scaling, a)
        largest = float(scaling.limits.set_index("curve").loc[name, "largest_accelerators"])
        notes.append(f"Speed follows the measured curve {name}, beside bubbles; its largest run has {largest:,.0f} accelerators.")
        if chosen["accelerators"] > largest:
            notes.append(f"The chosen {int(chosen['accelerators']):,} accelerators lie beyond it: extrapolated.")
    notes.append("The run is priced as if its machines were taken for it alone; the purchase plan uses what is there and shares contracts.")
    if tables.goodput is None:
        notes.append("No failures are known: nothing is lost to them, nor to checkpoints.")
    if chosen["term"] == "spot":
        notes.append("Whether that many spot machines can be had for so long is not asked here; spot may be gone in any hour.")
    if not frontier["accelerator"].nunique() > 1:
        notes.append(f"Only {chosen['accelerator']} is offered in this number format.")
    if shape.parameters > shape.active * 1.01:
        notes.append(
            "In a mixture of experts all parameters take memory and some of them work on a token; its experts may be spread over"
            " accelerators that each hold some of a layer's."
        )
    notes.append(_speed_note(chosen))
    return tuple(notes)


def _speed_note(chosen: pd.Series) -> str:
    """Say on what the speed rests, and how sure the days are."""
    reached = f"{chosen['tflops_per_accelerator']:,.0f} TFLOP/s in a paid hour"
    if chosen["basis"] == "stated":
        return f"The speed rests on the stated utilisation: {reached}."
    held = " It is held to what the chip, fewer accelerators and wider number formats do." if chosen["corrected"] else ""
    return (
        f"The speed ({reached}, {chosen['basis']}) is {RESTS_ON[chosen['basis']]}; nine in ten such answers lie between"
        f" {_days(chosen['days_lower'])} and {_days(chosen['days_upper'])}.{held}"
    )


def _storage_note(storage: pd.DataFrame, machines: int, a: TrainingAssumptions) -> str:
    """Say what the run asks of storage, in one sentence."""
    value = storage.set_index("quantity")["value"]
    burst, mean = value["Write rate while a checkpoint is written"], value["Write rate on average"]
    return (
        f"Storage: a checkpoint of {value['One checkpoint']:,.0f} GiB, written within {a.checkpoint_write_seconds:g} s at {burst:,.1f} GB/s"
        f" by {machines:,} machines ({1000 * mean:,.2g} MB/s on average); {value['Training data']:,.0f} GiB of data, which take"
        f" {_days(value[f'Bringing the data in over {a.transfer_gbps:g} Gbit/s'])} over {a.transfer_gbps:g} Gbit/s and are read at"
        f" {1000 * value['Read rate of training data']:,.1f} MB/s."
    )


def choose_run(runs: pd.DataFrame, a: TrainingAssumptions) -> pd.Series:
    """Return the run of the roadmap that the scenario names; else the next that states parameters.

    Raises:
        CapplanError: If the roadmap has no such run, or none with parameters.
    """
    if a.training_run:
        if a.training_run not in set(runs["run_id"]):
            raise CapplanError(
                f"training_run = {a.training_run!r}, which training_runs does not have; {nearest(a.training_run, runs['run_id'])}"
            )
        return runs.set_index("run_id", drop=False).loc[a.training_run]
    stated = runs[runs["parameters"].notna()]
    if stated.empty:
        raise CapplanError("no run in training_runs states parameters; state parameters and tokens of at least one")
    ahead = stated[stated["start"] >= pd.Timestamp(a.as_of)]
    return (ahead if len(ahead) else stated).sort_values(["start", "run_id"], kind="stable").iloc[0]


def _count(value: float) -> str:
    """Write a large number in a person's words."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:,.0f}"


def _days(days: float) -> str:
    """Write a number of days: with a digit where it is small."""
    return f"{days:,.0f} days" if days >= 10 else f"{days:.1f} days"


def _term(term: str) -> str:
    """Write a term within a sentence."""
    return str(term).replace("_", " ").replace("1y", "1 year").replace("3y", "3 years")
