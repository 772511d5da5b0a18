"""The frontier of a run: accelerators, days and money for each kind of machine, and the cheapest choice that meets the deadline."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.scaling import ScalingFit
from capplan.questions.training.architecture import Shape
from capplan.questions.training.flops import EXA, TERA, checked_counts
from capplan.questions.training.job import Job, job_of
from capplan.questions.training.layout import Machine, chosen_layouts, layouts
from capplan.questions.training.offered import Offers, TrainingTables, machine_of, machine_table, offers_by_machine
from capplan.questions.training.speed_by_count import Rates, rates_of
from capplan.records import records, word_list
from capplan.units import HOURS_PER_AVERAGE_MONTH

#: Numbers of machines that are looked at for a kind of machine, at most.
STEPS = 200
COLUMNS = (
    "sku provider accelerator accelerators machines offer_id term rung recompute tensor pipeline interleaved context expert data stage"
    " memory_gib bubble_share kept_share scaling_share goodput_share tflops_per_accelerator mfu_share basis corrected days days_lower"
    " days_upper accelerator_hours usd_per_accelerator_hour usd energy_mwh meets_deadline efficient"
).split()


def plan_run(run: Any, tables: TrainingTables, a: TrainingAssumptions, counts: Any = None) -> pd.DataFrame:
    r"""Say what a training run takes on each kind of machine: accelerators, days and money, and whether it meets its deadline.

    .. math:: T = \frac{C}{86400\;n\;X(n)\,e(n)\,g(n)},\qquad \text{USD} = 24\,n\,p\left(T' + (1-\rho)(\lceil T'/L \rceil L - T')\right)

    with C the operations, X the rate of an accelerator in its layout (`layouts`: from measured runs, or the stated utilisation of the peak
    less bubble, idle accelerators and traffic), e a measured scaling curve over what the layout keeps (at most 1: losses count once), g the
    goodput; T' the paid days, idle ones between runs included, p the price of a paid accelerator-hour, L the
    length of a contract in days and rho the share of its rest that other work uses. Terms without a length pay for the run alone.

    Args:
        run: A row of training_runs: parameters, tokens (or quantity in exaflop and parameters), precision, start, deadline, model.
        counts: Numbers of accelerators to look at, rounded up to whole machines; None = up to 200 of each kind of machine.

    Returns:
        DataFrame: One row a kind of machine and count that the run fits, on its cheapest offer: sku, provider, accelerator, accelerators,
            machines, offer_id, term, rung, recompute, tensor, pipeline, interleaved, context, expert, data, stage,
            memory_gib (of one accelerator),
            bubble_share, kept_share, scaling_share, goodput_share, tflops_per_accelerator (in a paid hour, all of these included),
            mfu_share (of the peak, before goodput), basis (stated, measured, calibrated, modelled),
            corrected (did the gate move the speed?), days, days_lower and days_upper (nine in ten),
            accelerator_hours (paid), usd_per_accelerator_hour, usd, energy_mwh, meets_deadline, efficient (no other row is both quicker and
            cheaper); by sku and count.

    Raises:
        CapplanError: For parameters or tokens typed in billions, a deadline before the start, an unknown number format, machine or model,
            and a run that fits nowhere (with what is missing).

    Source: D. Narayanan et al., SC21, equation 4; FinOps Foundation, FOCUS (contracts are paid used or not).
    """
    job = job_of(run, tables, a)
    machines = machine_table(tables.skus, tables.accelerators, tables.prices, job.precision)
    parts = []
    layout_of: dict[Machine, dict[str, np.ndarray]] = {}
    offers = offers_by_machine(tables)
    for machine in records(machines):
        described = machine_of(machine, a)
        n = _counts(counts, described.accelerators, a.run_maximum_accelerators)
        if described not in layout_of:
            layout_of[described] = chosen_layouts(job.shape, job.precision, described, n, a)
        chosen = layout_of[described]
        if len(chosen["accelerators"]):
            parts.append(_costed(machine, described, chosen, offers[machine["sku"]], job, tables.scaling, a))
    if not parts:
        raise CapplanError(_nowhere(job.shape, job.precision, machines, a))
    table = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    table["meets_deadline"] = table["days"] <= job.days_available
    table["efficient"] = _efficient(table["days"].to_numpy(), table["usd"].to_numpy())
    return table.sort_values(["sku", "accelerators"], kind="stable", ignore_index=True)[COLUMNS]


def _counts(counts: Any, node: int, most: int) -> np.ndarray:
    """Numbers of accelerators in whole machines: as asked for, or up to 200 between one machine and the most."""
    if counts is not None:
        return np.unique(np.ceil(checked_counts(counts) / node) * node)
    largest = max(1, most // node)
    return np.unique(np.round(np.geomspace(1, largest, STEPS))) * node


def _costed(
    machine: dict[str, Any],
    described: Machine,
    chosen: dict[str, np.ndarray],
    on_offer: Offers,
    job: Job,
    scaling: ScalingFit | None,
    a: TrainingAssumptions,
) -> dict[str, np.ndarray]:
    """Days and money of one kind of machine at each count, on its cheapest offer."""
    n = chosen["accelerators"].astype(float)
    # The layout's losses and those of a measured curve are the same ones: the larger counts.
    kept = np.minimum(1.0, chosen["rate_tflops"] / chosen["rate_tflops"].max()) if described.chip else chosen["kept_share"]
    scaled = np.ones_like(n) if scaling is None else np.minimum(1.0, scaling.efficiency(n, curve_of(scaling, a)) / kept)
    offers, (share, idle) = on_offer.table, on_offer.goodput(n)
    price, length = offers["paid"].to_numpy(dtype=float), offers["term_months"].to_numpy(dtype=float)[:, None] * HOURS_PER_AVERAGE_MONTH
    rates = rates_of((job.shape, job.precision, job.published), described, chosen, scaled, a)
    tflops = rates.value
    with np.errstate(divide="ignore"):
        paid = job.exaflop * EXA / (tflops * TERA * 3600 * n) / share
    ends = np.isfinite(length) & np.isfinite(paid)
    whole = np.where(ends, np.ceil(np.where(ends, paid / np.where(ends, length, 1.0), 0.0)) * length, paid)
    with np.errstate(invalid="ignore"):
        billed = n * np.where(ends, paid + (1 - a.contract_reuse_share) * (whole - paid), paid)
    usd = billed * price[:, None]
    best = usd.argmin(axis=0)
    at = (best, np.arange(len(n)))
    possible = np.isfinite(usd[at])
    days = paid[at] * (1 - idle[best]) / 24
    result = {
        **{name: np.full(len(n), machine[name], dtype=object) for name in ("sku", "provider", "accelerator")},
        **{
            name: chosen[name]
            for name in word_list(
                "rung recompute tensor pipeline interleaved context expert data stage memory_gib bubble_share kept_share accelerators"
            )
        },
        "machines": chosen["accelerators"] // described.accelerators,
        "offer_id": offers["offer_id"].to_numpy()[best],
        "term": offers["term"].to_numpy()[best],
        "scaling_share": scaled,
        "goodput_share": share[at],
        "tflops_per_accelerator": tflops * share[at],
        **_sureness(described, rates, days, job.precision, a),
        "accelerator_hours": billed[at],
        "usd_per_accelerator_hour": price[best],
        "usd": usd[at],
        "energy_mwh": n * days * 24 * float(machine["power_w"]) / 1e6 * a.pue,
    }
    return {name: values[possible] for name, values in result.items()}


def _sureness(described: Machine, rates: Rates, days: np.ndarray, precision: str, a: TrainingAssumptions) -> dict[str, np.ndarray]:
    """Return on what a speed rests, whether the gate moved it, its share of the peak, and the days with their band."""
    peak = described.chip.peak(precision) if described.chip else described.tflops / (a.mfu_share or 1.0)
    return {
        "mfu_share": rates.value / peak,
        "basis": rates.basis,
        "corrected": rates.corrected,
        "days": days,
        "days_lower": days * rates.value / rates.high,
        "days_upper": days * rates.value / rates.low,
    }


def curve_of(scaling: ScalingFit, a: TrainingAssumptions) -> str:
    """Name the fitted curve that a run scales along: the one the scenario names, or the first."""
    names = [name for name, _ in scaling.laws]
    if a.run_curve and a.run_curve not in names:
        raise CapplanError(f"run_curve = {a.run_curve!r}: no such curve was fitted; {nearest(a.run_curve, names)}")
    return a.run_curve or names[0]


def _efficient(days: np.ndarray, usd: np.ndarray) -> np.ndarray:
    """Mark the rows that no other row beats in both days and money."""
    order = np.lexsort((usd, days))
    best = np.minimum.accumulate(usd[order])
    # A saving below rounding is none.
    first = np.concatenate([[True], usd[order][1:] < best[:-1] * (1 - 1e-9)])
    marks = np.zeros(len(days), dtype=bool)
    marks[order] = first
    return marks


def _nowhere(shape: Shape, precision: str, machines: pd.DataFrame, a: TrainingAssumptions) -> str:
    """Say why a run fits nowhere, and what would help."""
    largest = machines.loc[machines["accelerator_memory_gib"].idxmax()]
    described = machine_of(largest.to_dict(), a)
    table = layouts(
        shape,
        precision,
        described,
        [max(described.accelerators, a.run_maximum_accelerators // described.accelerators * described.accelerators)],
        a,
    )
    best = table.loc[table["memory_gib"].idxmin()]
    room = described.memory_gib * (1 - a.memory_reserve_share)
    return (
        f"a run of {shape.parameters:.3g} parameters fits no machine that is offered: spread over {int(best['accelerators']):,} of the"
        f" largest, {largest['accelerator']}, it still needs {best['memory_gib']:,.1f} GiB of an accelerator that has {room:,.1f} GiB free"
        f" ({best['activations_gib']:,.1f} GiB are activations). Raise run_maximum_accelerators, shorten sequence_length, or add offers"
        f" with more memory{'' if a.recompute in ('fastest', 'full') else '; or let recompute be fastest'}"
    )
