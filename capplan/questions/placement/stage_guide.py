"""Which machine fits which stage of a model's life, how fast it is and what a unit of work costs there, from reference facts."""

import math

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving.replica_memory import model_of, smallest_replica, weight_gib
from capplan.questions.serving.roofline import RESERVE_SHARE, TERA, roofline
from capplan.questions.training import Shape, chosen_layouts, shape_of
from capplan.questions.training.offered import machine_of
from capplan.questions.training.speed import basis_of
from capplan.records import records

#: Machines that a run may take until it fits.
MACHINES = (1, 2, 4, 8, 16, 32, 64)
#: Tokens of a request, and requests at once, for which serving and evaluation are compared.
INPUT_TOKENS, OUTPUT_TOKENS, CONCURRENCY = 1024, 256, 32
#: An exaflop.
EXA = 1e18
#: Memory of an accelerator on which any state fits: adapters have little of it.
ENOUGH_GIB = 1e6
COLUMNS = ("stage", "model", "sku", "accelerator", "machines", "fits", "reason", "speed", "unit", "basis", "usd_per_unit")


def stage_guide(
    skus: pd.DataFrame,
    offers: pd.DataFrame,
    accelerators: pd.DataFrame,
    models: pd.DataFrame,
    serving_runs: pd.DataFrame,
    names: tuple[str, ...],
    a: TrainingAssumptions,
) -> pd.DataFrame:
    r"""Hold every machine against every stage and model.

    Training takes the fewest machines on which the optimiser's state fits, at the rate that the training question works out for its
    layout; alignment holds a frozen
    copy of the model besides, tuning trains adapters on frozen weights. Serving and evaluation take the smallest replica, at its measured
    rate where there is one and the roofline
    where there is none. Deployment converts weights in main memory; data preparation counts virtual CPUs.

    Args:
        skus, offers, accelerators, models, serving_runs: Tables of these names; the cheapest price by the hour counts.

    Returns:
        DataFrame: [stage, model, sku, accelerator, machines, fits, reason (why not), speed (of those machines, an hour), unit, basis
            ("measured", "calibrated", "modelled", "stated"), usd_per_unit], for each stage and model the cheapest first, what does not fit
            last.

    Raises:
        CapplanError: A model that the table lacks.
    """
    paid = offers[(offers["usd_per_hour"] > 0) & offers["term"].isin(["on_demand", "spot"])].sort_values("term", kind="stable")
    price = paid[paid["term"] == "on_demand"].groupby("sku")["usd_per_hour"].min()
    facts = skus.merge(accelerators, on="accelerator", suffixes=("", "_accelerator")).assign(usd=lambda rows: rows["sku"].map(price))
    rows = []
    # machines of one make differ in price alone
    speeds: dict[tuple, tuple] = {}
    for machine in records(facts):
        rows.append(_row("data_preparation", "any", machine, "1,000 vCPU hours", _preparation(machine)))
        alike = tuple(str(machine[column]) for column in ("accelerator", "accelerator_count", "network_gbps"))
        for name in names:
            model = model_of(models, name)
            for stage in ("pretraining", "alignment", "tuning"):
                key = (*alike, name, stage)
                speeds[key] = speeds[key] if key in speeds else _training(machine, name, model, models, stage, a)
                rows.append(_row(stage, name, machine, "exaflop", speeds[key]))
            key = (*alike, name)
            speeds[key] = speeds[key] if key in speeds else _inference(machine, name, model, models, accelerators, serving_runs)
            rows += [_row(stage, name, machine, "million output tokens", speeds[key]) for stage in ("evaluation", "serving")]
            rows.append(_row("deployment", name, machine, "machine hours", _deployment(machine, model)))
    table = pd.DataFrame(rows, columns=COLUMNS)
    order = {
        stage: number
        for number, stage in enumerate(("data_preparation", "pretraining", "alignment", "tuning", "deployment", "evaluation", "serving"))
    }
    place = {name: number for number, name in enumerate(("any", *names))}
    keys = table.assign(stage_order=table["stage"].map(order), model_order=table["model"].map(place), no=~table["fits"])
    return table.loc[
        keys.sort_values(["stage_order", "model_order", "no", "usd_per_unit", "sku"], kind="stable", na_position="last").index
    ].reset_index(drop=True)


#: Of one machine for one stage: machines, why it does not fit (empty where it does), speed, basis.
Rating = tuple[int, str, float, str]


def _row(stage: str, model: str, machine: dict, unit: str, rating: Rating) -> tuple:
    """Return one row of the guide."""
    machines, reason, speed, basis = rating
    fits = reason == ""
    usd = float(machine["usd"]) * machines / speed if fits and speed > 0 else np.nan
    return stage, model, machine["sku"], machine["accelerator"], machines, fits, reason, speed if fits else np.nan, unit, basis, usd


def _preparation(machine: dict) -> Rating:
    """Count virtual CPUs, and ask for flash storage where the data lies."""
    reason = "" if machine["vcpus"] > 0 else "its CPU threads are not stated"
    if not reason and not machine["local_ssd_gib"] > 0:
        reason = "no local SSD is stated: data would be read over the network"
    return 1, reason, float(machine["vcpus"]) / 1000, "stated"


def _training(machine: dict, name: str, model: pd.Series, models: pd.DataFrame, stage: str, a: TrainingAssumptions) -> Rating:
    """Take the fewest machines on which the state fits."""
    shape = shape_of(float(model["parameters_active"]), name, models, float(model["parameters_total"]))
    count, weights = int(machine["accelerator_count"]), weight_gib(float(model["parameters_total"]), "bf16")
    basis = "stated" if a.mfu_share is not None else basis_of(str(machine["accelerator"]), "bf16")
    if stage == "tuning":
        room = float(machine["memory_gib_accelerator"]) * count * (1 - a.memory_reserve_share)
        reason = "" if weights <= room else f"memory: frozen weights take {weights:,.0f} GiB, and {_counted(count)} room for {room:,.0f}"
        return 1, reason, np.nan if reason else _exaflop_per_hour(machine, shape, count, ENOUGH_GIB, a), basis
    for machines in MACHINES:
        used = machines * count
        memory = float(machine["memory_gib_accelerator"]) - (weights / used if stage == "alignment" else 0.0)
        speed = _exaflop_per_hour(machine, shape, used, memory, a) if memory > 0 else 0.0
        if speed > 0:
            return machines, "", speed, basis
    return MACHINES[-1], f"memory: the state does not fit on {MACHINES[-1]} machines", np.nan, basis


def _exaflop_per_hour(machine: dict, shape: Shape, used: int, memory_gib: float, a: TrainingAssumptions) -> float:
    """Return what the layout of a run does in an hour; 0 where none fits."""
    described = machine_of({**machine, "accelerator_memory_gib": memory_gib, "peak_tflops": machine["bf16_tflops"]}, a)
    rate = chosen_layouts(shape, "bf16", described, [used], a)["rate_tflops"]
    return used * float(rate[0]) * TERA * 3600 / EXA if len(rate) else 0.0


def _counted(accelerators: int) -> str:
    """Count accelerators that have something."""
    return "1 accelerator has" if accelerators == 1 else f"{accelerators} accelerators have"


def _inference(machine: dict, name: str, model: pd.Series, models: pd.DataFrame, accelerators: pd.DataFrame, runs: pd.DataFrame) -> Rating:
    """Run whole replicas on one machine, at the measured rate where there is one of the model on the accelerator."""
    count = int(machine["accelerator_count"])
    own = pd.Series({"accelerator": machine["accelerator"], "memory_gib": machine["memory_gib_accelerator"]})
    precision = "fp8" if machine["fp8_tflops"] > 0 else "bf16"
    try:
        replica = smallest_replica(
            model, own, INPUT_TOKENS + OUTPUT_TOKENS, precision=precision, reserve_share=RESERVE_SHARE, most_accelerators=count
        )
    except CapplanError:
        need, has = weight_gib(float(model["parameters_total"]), precision), float(own["memory_gib"]) * count * (1 - RESERVE_SHARE)
        return 1, f"memory: weights in {precision} take {need:,.0f} GiB, and {_counted(count)} room for {has:,.0f}", np.nan, "modelled"
    measured = _measured(runs, name, machine["accelerator"], count)
    if measured is not None:
        return 1, "", measured * count * 3600 / 1e6, "measured"
    batch = max(min(CONCURRENCY, replica.concurrency), 1)
    setup = {
        "model": name,
        "accelerator": machine["accelerator"],
        "accelerators": replica.accelerators,
        "engine": "vllm",
        "precision": precision,
    }
    setup |= {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "concurrency": batch}
    token = float(roofline(pd.DataFrame([setup]), models, accelerators)["token_seconds"].iloc[0])
    return 1, "", math.floor(count / replica.accelerators) * batch / token * 3600 / 1e6, "modelled"


def _measured(runs: pd.DataFrame, model: str, accelerator: str, most: int) -> float | None:
    """Return the highest measured output tokens per second and accelerator, of set-ups that one machine can hold."""
    part = runs[(runs["model"] == model) & (runs["accelerator"] == accelerator) & (runs["accelerators"] <= most)]
    rate = part["output_tokens_per_second"].fillna(part["concurrency"] / part["token_seconds"]) / part["accelerators"]
    return None if rate.dropna().empty else float(rate.max())


def _deployment(machine: dict, model: pd.Series) -> Rating:
    """Convert weights in main memory."""
    need = weight_gib(float(model["parameters_total"]), "bf16")
    if not machine["memory_gib"] > 0:
        return 1, "its main memory is not stated", 1.0, "stated"
    return (
        1,
        "" if need <= machine["memory_gib"] else f"main memory: weights take {need:,.0f} GiB, it has {machine['memory_gib']:,.0f}",
        1.0,
        "stated",
    )
