"""The frontier of a run: accelerators, days and money for each kind of machine, and the cheapest choice that meets the deadline."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.book.roadmap import with_active_parameters
from capplan.errors import CapplanError, nearest
from capplan.questions.scaling import ScalingFit
from capplan.questions.training.architecture import Shape, shape_of
from capplan.questions.training.flops import EXA, TERA, check_tokens, checked_counts, operations_per_token
from capplan.questions.training.layout import Machine, chosen_layouts, layouts, operations_counted
from capplan.questions.training.rates import Published, Rates, published_rates, rates_of
from capplan.questions.training.speed import WATTS_PER_TFLOPS, Chip
from capplan.records import records
from capplan.units import HOURS_PER_AVERAGE_MONTH

DAY = pd.Timedelta(days=1)
PEAKS = {"bf16": "bf16_tflops", "fp16": "bf16_tflops", "fp8": "fp8_tflops", "fp4": "fp4_tflops"}
#: Numbers of machines that are looked at for a kind of machine, at most.
STEPS = 200
COLUMNS = [
    "sku",
    "provider",
    "accelerator",
    "accelerators",
    "machines",
    "offer_id",
    "term",
    "rung",
    "recompute",
    "tensor",
    "pipeline",
    "interleaved",
    "context",
    "expert",
    "data",
    "stage",
    "memory_gib",
    "bubble_share",
    "kept_share",
    "scaling_share",
    "goodput_share",
    "tflops_per_accelerator",
    "mfu_share",
    "basis",
    "corrected",
    "days",
    "days_lower",
    "days_upper",
    "accelerator_hours",
    "usd_per_accelerator_hour",
    "usd",
    "energy_mwh",
    "meets_deadline",
    "efficient",
]


def plan_run(
    run: Any,
    skus: pd.DataFrame,
    scaling: ScalingFit | None,
    goodput: pd.DataFrame | float | None,
    prices: pd.DataFrame,
    a: TrainingAssumptions,
    *,
    accelerators: pd.DataFrame | None = None,
    models: pd.DataFrame | None = None,
    speeds: pd.DataFrame | None = None,
    counts: Any = None,
) -> pd.DataFrame:
    r"""Say what a training run takes on each kind of machine: accelerators, days and money, and whether it meets its deadline.

    .. math:: T = \frac{C}{86400\;n\;X(n)\,e(n)\,g(n)},\qquad \text{USD} = 24\,n\,p\left(T' + (1-\rho)(\lceil T'/L \rceil L - T')\right)

    with C the operations, X the rate of an accelerator in its layout (`layouts`: from measured runs, or the stated utilisation of the peak
    less
    bubble, idle accelerators and traffic), e a measured scaling curve over what the layout keeps (at most 1: losses count once), g the
    goodput; T' the paid days, idle ones between runs included, p the price of a paid accelerator-hour, L the
    length of a contract in days and rho the share of its rest that other work uses. Terms without a length pay for the run alone.

    Args:
        run: A row of training_runs: parameters, tokens (or quantity in exaflop and parameters), precision, start, deadline, model.
        skus: Machines one can have; with the accelerators table beside, or with accelerator_memory_gib, the peak rates, link_gbps and
            power_w of their accelerators as columns.
        scaling (e): Fitted scaling, or None = what the layout says alone.
        goodput (g): What `measure_goodput` returns: offer_id, goodput_share; with rows for several `accelerators` it is read between them
            by the logarithm. One share holds for all offers; None = nothing is lost but what the price of spot says.
        prices: What `price_hours` returns.
        speeds: Published runs (table training_speeds): one like this run takes the place of what is worked out.
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
    goodput = _as_table(goodput, prices)
    row = as_run(run, models)
    precision = checked_precision(row)
    shape = shape_of(float(row["parameters"]), row.get("model"), models, row.get("parameters_total"))
    exaflop = run_work(row, shape, a)
    available = days_available(row)
    machines = machine_table(skus, accelerators, prices, precision)
    parts = []
    layout_of: dict[Machine, dict[str, np.ndarray]] = {}
    offers = dict(list(_offers(prices, goodput).groupby("sku", sort=False)))
    useful = _useful(goodput)
    published = published_rates(speeds, row.get("model"), shape, models, a)
    for machine in records(machines):
        described = machine_of(machine, a)
        n = _counts(counts, described.accelerators, a.run_maximum_accelerators)
        if described not in layout_of:
            layout_of[described] = chosen_layouts(shape, precision, described, n, a)
        chosen = layout_of[described]
        if len(chosen["accelerators"]):
            parts.append(
                _costed(machine, chosen, offers[machine["sku"]], described, exaflop, (shape, precision, published), scaling, useful, a)
            )
    if not parts:
        raise CapplanError(_nowhere(shape, precision, machines, a))
    table = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    table["meets_deadline"] = table["days"] <= available
    table["efficient"] = _efficient(table["days"].to_numpy(), table["usd"].to_numpy())
    return table.sort_values(["sku", "accelerators"], kind="stable", ignore_index=True)[COLUMNS]


def as_run(run: Any, models: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return a run, given as a row, a table of one or a mapping, as a mapping; with both parameter counts where its model is known.

    Raises:
        CapplanError: If there is not one run, or it states no parameters, or neither tokens nor quantity, or they are not in units.
    """
    if isinstance(run, pd.DataFrame):
        if len(run) != 1:
            raise CapplanError(f"plan_run plans one run at a time; got {len(run)} rows of training_runs. Choose one by its run_id")
        run = run.iloc[0]
    run = with_active_parameters(pd.DataFrame([dict(run)]), models)[0].iloc[0]
    row = {name: value for name, value in dict(run).items() if value is not None and not pd.isna(value)}
    name = row.get("run_id", "the run")
    if "parameters" not in row:
        raise CapplanError(
            f"{name} states no parameters; its memory, and with them its layout, cannot be known without. State parameters and tokens"
        )
    if "tokens" not in row and "quantity" not in row:
        raise CapplanError(f"{name} states neither tokens nor its quantity in exaflop; state tokens")
    if "tokens" in row:
        check_tokens(row["tokens"])
    return row


def checked_precision(row: dict[str, Any]) -> str:
    """Return the number format of a run; refuse those without a peak rate."""
    precision = str(row.get("precision", "bf16"))
    if precision not in PEAKS:
        raise CapplanError(
            f"precision = {precision!r}: peak rates are known for {', '.join(PEAKS)}; {nearest(precision, PEAKS)}. A run in fp32 is usually"
            " one in bf16 with sums in fp32"
        )
    return precision


def run_work(row: dict[str, Any], shape: Shape, a: TrainingAssumptions) -> float:
    r"""Say how much work a run is, in exaflop: as stated, or its operations.

    With the defaults it is 6 N D / 10^18, the quantity of the demand forecast; attention's own work and what is computed again come on top
    where the scenario counts them.

    Returns:
        float: 10^18 operations.
    """
    counted = operations_counted(shape, a)
    if "quantity" in row:
        return float(row["quantity"]) * counted / float(operations_per_token(shape.active))
    return counted * float(row["tokens"]) / EXA


def days_available(row: dict[str, Any]) -> float:
    """Return the days from start to deadline, both days included; infinite where none is stated."""
    if "deadline" not in row or "start" not in row:
        return float("inf")
    start, deadline = pd.Timestamp(row["start"]), pd.Timestamp(row["deadline"])
    if deadline < start:
        raise CapplanError(
            f"{row.get('run_id', 'the run')}: its deadline {deadline.date()} is before its start {start.date()}; correct one of them"
        )
    return float((deadline - start) / DAY) + 1


def machine_of(machine: dict[str, Any], a: TrainingAssumptions) -> Machine:
    """Describe a machine for layouts; a network that is not stated is the usual one of its kind."""
    count, link = int(machine["accelerator_count"]), float(machine.get("link_gbps", np.nan))
    link = link if np.isfinite(link) else 0.0
    stated = float(machine.get("network_gbps", np.nan))
    usual = count * (a.fabric_gbps_per_accelerator if link else a.ethernet_gbps_per_accelerator)
    network = stated if np.isfinite(stated) else usual
    peak, memory = float(machine["peak_tflops"]), float(machine["accelerator_memory_gib"])
    if a.mfu_share is not None:
        return Machine(memory, count, link, network, peak * a.mfu_share)
    bf16 = float(machine["bf16_tflops"])
    fp8 = _or(machine["fp8_tflops"], bf16)
    domain = _or(machine.get("link_domain_accelerators"), count)
    bandwidth = float(machine["memory_bandwidth_gbps"])
    if not np.isfinite(bandwidth):
        raise CapplanError(
            f"the speed of {machine['accelerator']} is worked out from its memory_bandwidth_gbps, and the table accelerators states none."
            " Add it, or state mfu_share"
        )
    power = _or(machine["power_w"], WATTS_PER_TFLOPS * bf16)
    chip = Chip(str(machine["accelerator"]), bf16, fp8, _or(machine["fp4_tflops"], fp8), bandwidth, power, domain)
    return Machine(memory, count, link, network, peak, chip)


def _or(value: Any, otherwise: float) -> float:
    """Return a number, or another where there is none."""
    return otherwise if value is None or pd.isna(value) else float(value)


def machine_table(skus: pd.DataFrame, accelerators: pd.DataFrame | None, prices: pd.DataFrame, precision: str) -> pd.DataFrame:
    """Join machines with their accelerators' memory and peak; those that someone offers."""
    table, peak = skus.reset_index(drop=True), PEAKS[precision]
    known = accelerators
    if known is None:
        # The memory_gib of a machine is its main memory.
        merged = skus.drop_duplicates("accelerator").drop(columns="memory_gib", errors="ignore")
        known = merged.rename(columns={"accelerator_memory_gib": "memory_gib"})
    missing = [name for name in ("memory_gib", peak) if name not in known.columns]
    if missing:
        raise CapplanError(f"plan_run needs {missing[0]} of each accelerator; pass the accelerators table as accelerators=")
    unknown = sorted(set(table["accelerator"]) - set(known["accelerator"]))
    if unknown:
        raise CapplanError(f"the table accelerators does not have {unknown[0]!r}; {nearest(unknown[0], known['accelerator'])}")
    facts = known.set_index("accelerator")
    table = table[table["sku"].isin(prices["sku"])].copy()
    table["accelerator_memory_gib"] = table["accelerator"].map(facts["memory_gib"])
    table["peak_tflops"] = table["accelerator"].map(facts[peak])
    for name in ("link_gbps", "link_domain_accelerators", "power_w", "memory_bandwidth_gbps", *dict.fromkeys(PEAKS.values())):
        table[name] = table["accelerator"].map(facts[name]) if name in facts else np.nan
    table = table[table["peak_tflops"].notna()]
    if table.empty:
        raise CapplanError(f"no offered machine has a peak rate in {precision}; choose another precision, or add offers of one that has")
    return table.reset_index(drop=True)


def _offers(prices: pd.DataFrame, goodput: pd.DataFrame | None) -> pd.DataFrame:
    """Take what a paid accelerator-hour costs, and the share of it that is useful where nothing better is known."""
    table = prices.reset_index(drop=True).copy()
    useful = table["useful_share"] if "useful_share" in table else pd.Series(1.0, index=table.index)
    table["paid"] = table["effective_usd_per_accelerator_hour"] * useful
    table["share"] = useful
    if goodput is not None and "usd_per_paid_accelerator_hour" in goodput:
        stated = goodput.drop_duplicates("offer_id").set_index("offer_id")["usd_per_paid_accelerator_hour"]
        table["paid"] = table["offer_id"].map(stated).fillna(table["paid"])
    for name in ("term", "term_months"):
        if name not in table:
            table[name] = "on_demand" if name == "term" else np.nan
    return table


def _counts(counts: Any, node: int, most: int) -> np.ndarray:
    """Numbers of accelerators in whole machines: as asked for, or up to 200 between one machine and the most."""
    if counts is not None:
        return np.unique(np.ceil(checked_counts(counts) / node) * node)
    largest = max(1, most // node)
    return np.unique(np.round(np.geomspace(1, largest, STEPS))) * node


def _costed(
    machine: dict[str, Any],
    chosen: dict[str, np.ndarray],
    offers: pd.DataFrame,
    described: Machine,
    exaflop: float,
    run: tuple[Shape, str, Published],
    scaling: ScalingFit | None,
    useful: dict[str, tuple[np.ndarray, np.ndarray, float]],
    a: TrainingAssumptions,
) -> dict[str, np.ndarray]:
    """Days and money of one kind of machine at each count, on its cheapest offer."""
    n = chosen["accelerators"].astype(float)
    # The layout's losses and those of a measured curve are the same ones: the larger counts.
    kept = np.minimum(1.0, chosen["rate_tflops"] / chosen["rate_tflops"].max()) if described.chip else chosen["kept_share"]
    scaled = np.ones_like(n) if scaling is None else np.minimum(1.0, scaling.efficiency(n, curve_of(scaling, a)) / kept)
    share, idle = _goodput(offers, useful, n)
    price, length = offers["paid"].to_numpy(dtype=float), offers["term_months"].to_numpy(dtype=float)[:, None] * HOURS_PER_AVERAGE_MONTH
    rates = rates_of(run, described, chosen, scaled, a)
    tflops = rates.value
    with np.errstate(divide="ignore"):
        paid = exaflop * EXA / (tflops * TERA * 3600 * n) / share
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
            for name in (
                "rung",
                "recompute",
                "tensor",
                "pipeline",
                "interleaved",
                "context",
                "expert",
                "data",
                "stage",
                "memory_gib",
                "bubble_share",
                "kept_share",
                "accelerators",
            )
        },
        "machines": chosen["accelerators"] // described.accelerators,
        "offer_id": offers["offer_id"].to_numpy()[best],
        "term": offers["term"].to_numpy()[best],
        "scaling_share": scaled,
        "goodput_share": share[at],
        "tflops_per_accelerator": tflops * share[at],
        **_sureness(described, rates, days, run[1], a),
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


def _as_table(goodput: pd.DataFrame | float | None, prices: pd.DataFrame) -> pd.DataFrame | None:
    """Return goodput as a table; one share stands for every offer."""
    if goodput is None or isinstance(goodput, pd.DataFrame):
        return goodput
    if not 0 < float(goodput) <= 1:
        raise CapplanError(f"goodput = {goodput!r}: a share of paid time lies above 0 and at most at 1; write 90 % as 0.9")
    return pd.DataFrame({"offer_id": prices["offer_id"], "goodput_share": float(goodput)})


def _useful(goodput: pd.DataFrame | None) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Read goodput by offer: logarithms of the counts measured, shares of a paid hour that are progress, idle share."""
    if goodput is None:
        return {}
    table = goodput.sort_values("accelerators", kind="stable") if "accelerators" in goodput else goodput
    found = {}
    for offer, rows in table.groupby("offer_id", sort=False):
        counts = np.log(rows["accelerators"].to_numpy(dtype=float)) if "accelerators" in rows else np.zeros(len(rows))
        idle = float(rows["idle_share"].iloc[0]) if "idle_share" in rows else 0.0
        found[str(offer)] = (counts, rows["goodput_share"].to_numpy(dtype=float), idle)
    return found


def _goodput(offers: pd.DataFrame, useful: dict[str, tuple[np.ndarray, np.ndarray, float]], n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of a paid hour that is progress, for each offer (row) and count, and that is idle between runs, for each offer."""
    share = np.repeat(offers["share"].to_numpy(dtype=float)[:, None], len(n), axis=1)
    idle = np.zeros(len(offers))
    for place, offer in enumerate(offers["offer_id"]):
        if offer in useful:
            counts, shares, idle[place] = useful[offer]
            share[place] = np.interp(np.log(n), counts, shares)
    return share, idle


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
