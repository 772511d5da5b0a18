"""How a run is laid out over accelerators: the lowest rung that fits their memory, its bubble, and the bandwidth it needs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.questions.training.architecture import GIB, Degrees, Shape, activation_bytes, parameter_bytes, state_bytes
from capplan.questions.training.flops import TERA, Recompute, checked_counts, operations_per_token
from capplan.questions.training.speed import OLDER_SOFTWARE, Chip, seconds_per_token

#: From simple to involved; a run stands on the first that fits.
RUNGS = ("one_device", "data_parallel", "zero_1", "zero_2", "zero_3", "context", "expert", "tensor", "pipeline", "tensor_and_pipeline")
#: A pipeline stage holds up to so many parts of the model in turn; a sequence is shared only while each part has so many tokens.
MOST_INTERLEAVED, LEAST_SHARED_TOKENS = 8, 4096
#: Experts of a layer are spread over up to so many accelerators.
EXPERT_SPREADS = (1, 8, 32, 64)
#: Stage of sharding of layouts with tensor, pipeline or expert parallelism: optimiser state is shared.
SHARED_OPTIMISER = 1
#: Stage in which weights, gradients and optimiser state all are.
WHOLLY_SHARDED = 3
#: Of more ways than this to share a long sequence, those that share it most are tried, and none.
MOST_CONTEXTS = 4
GIGA = 1e9
BITS = 8
#: An activation that is sent takes two bytes.
ACTIVATION_WORD = 2
PARTS = ("weights", "gradients", "optimiser", "activations")
#: Kinds of recomputation that a search looks at: of equally fast ones the first is taken.
RECOMPUTATIONS: tuple[Recompute, ...] = ("selective", "none", "full")


@dataclass(frozen=True)
class Machine:
    """A machine, as layouts need it.

    Args:
        memory_gib: Memory of one accelerator.
        accelerators: Accelerators in it.
        link_gbps: Fast links of one accelerator, both directions together, in GB/s; 0 where there are none.
        network_gbps: Network of the whole machine in Gbit/s.
        tflops: Rate one accelerator keeps up while it computes, where it is stated; else its peak.
        chip: The accelerator, where its speed in a layout is to be worked out; None = the stated rate holds in every layout.
    """

    memory_gib: float
    accelerators: int
    link_gbps: float
    network_gbps: float
    tflops: float
    chip: Chip | None = None


@dataclass(frozen=True)
class Kind:
    """A way to lay a run out: rung, stage of sharding, degrees of parallelism, and parts of the model in a stage."""

    rung: str
    stage: int
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    interleaved: int = 1


def bubble_share(pipeline: Any, micro_batches: Any, interleaved: Any = 1) -> Any:
    r"""Say which share of a step a pipeline stands still while it fills and empties.

    .. math:: \beta = \frac{p - 1}{m\,v + p - 1}

    Args:
        pipeline (p): Stages.
        micro_batches (m): Micro-batches that a step sends through.
        interleaved (v): Parts of the model that each stage holds in turn.

    Source: Y. Huang et al., GPipe, NeurIPS 2019; D. Narayanan et al., SC21, section 2.2 (as a share of the ideal time: (p - 1) / (m v)).

    Examples:
        >>> float(bubble_share(4, 12)), round(float(bubble_share(8, 8, 4)), 3)
        (0.2, 0.179)
    """
    stages = np.asarray(pipeline, dtype=float)
    return ((stages - 1) / (np.asarray(micro_batches, dtype=float) * np.asarray(interleaved, dtype=float) + stages - 1))[()]


def layouts(shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions) -> pd.DataFrame:
    r"""List every way to lay a run out over numbers of accelerators: memory by part, speed kept, and bandwidth needed.

    .. math:: t_\text{step} = \max\left(\frac{C_\text{token} D_\text{step}}{n X},\; t_\text{network},\; t_\text{links}\right)

    Traffic that takes less time than the work is taken as hidden behind it (a measured utilisation holds what is not); what takes longer
    slows
    the run down. Synchronising gradients moves 2 words a parameter in a step; ZeRO-2 sums up after every micro-batch, and ZeRO-3 gathers
    all weights twice besides; a node's own accelerators first sum up among themselves. Tensor parallelism stays within the fast links of a
    node and moves four all-reduces of
    activations (six with full recomputation) a layer and micro-batch. Tensor, pipeline and expert layouts share the optimiser's state among
    their data-parallel copies (stage 1); accelerators that share a sequence (context) hold such copies, too. A stage of a pipeline holds
    up to
    eight parts of the model in turn, which shortens the bubble and holds a little more. Experts are spread over accelerators that each
    hold some of a layer's.

    Where the machine states no rate, the time of the work is that of `seconds_per_token`: from measured runs, with all that they could not
    hide,
    and less a share for each doubling of the accelerators beyond those of the measured runs. They do not tell apart runs that compute
    attention again and that compute nothing again (today's attention kernels do so anyhow); all again takes a third more arithmetic.

    Args:
        shape, precision: Architecture and number format.
        counts (n): Numbers of accelerators.

    Returns:
        DataFrame: accelerators, rung, recompute, tensor, pipeline, interleaved, context, expert, data, stage,
            used_accelerators, micro_batches,
            bubble_share, weights_gib, gradients_gib, optimiser_gib, activations_gib, memory_gib (in all), fits, compute_seconds,
            network_seconds, link_seconds (of a step), kept_share (of the rate, after bubble, idle accelerators and traffic that cannot be
            hidden), rate_tflops (of one accelerator, all of that included), needed_network_gbps, needed_link_gbps (to hide all traffic), by
            count and then by rung.

    Source: S. Rajbhandari et al., ZeRO, SC20, section 7; D. Narayanan et al., SC21, section 3; V. Korthikanti et al., 2022.
    """
    possible, columns = _searched(shape, precision, machine, counts, a)
    keep = possible.T.ravel()
    return pd.DataFrame({name: values.T.ravel()[keep] for name, values in columns.items()})


def chosen_layouts(shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions) -> dict[str, np.ndarray]:
    """Return for each count the layout a run takes: the lowest rung that fits, and is not much slower than the fastest that fits.

    Computing more again is never taken because it is simpler, only where the fastest that fits does so.

    Args:
        shape, precision, machine, counts, a: As in `layouts`; ``a.simple_rung_share`` is the least speed, as a share of the fastest one's
            (0 = the lowest that fits).

    Returns:
        dict: The columns of `layouts`, an entry a count; counts on which nothing fits are left out.
    """
    possible, columns = _searched(shape, precision, machine, counts, a)
    fits = possible & columns["fits"]
    kinds = list(dict.fromkeys(columns["recompute"][:, 0]))
    kept = np.where(fits, columns["rate_tflops"], 0.0).reshape(len(kinds), -1, fits.shape[1])
    fastest = (kept.max(axis=1) * (1 - 1e-9 * np.arange(len(kinds)))[:, None]).argmax(axis=0)
    taken = (np.arange(len(kinds))[:, None] == fastest)[:, None, :]
    kept = np.where(taken, kept, 0.0).reshape(fits.shape)
    fits = fits & np.broadcast_to(taken, (len(kinds), len(fits) // len(kinds), fits.shape[1])).reshape(fits.shape)
    good = fits & (kept >= a.simple_rung_share * kept.max(axis=0))
    # Of one rung the fastest stands for all its degrees.
    order = np.array([RUNGS.index(name) for name in columns["rung"][:, 0]])[:, None] - 0.5 * kept / np.maximum(kept.max(axis=0), 1e-300)
    lowest = np.where(good, order, np.inf).argmin(axis=0)
    some = np.flatnonzero(good.any(axis=0))
    return {name: values[lowest[some], some] for name, values in columns.items()}


def _searched(
    shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Work out every layout with every kind of recomputation that is looked at (rows), as `_evaluated` does for one."""
    kinds = RECOMPUTATIONS if a.recompute == "fastest" else (a.recompute,)
    parts = [_evaluated(shape, precision, machine, counts, a, kind) for kind in kinds]
    possible = np.concatenate([part for part, _ in parts])
    return possible, {name: np.concatenate([columns[name] for _, columns in parts]) for name in parts[0][1]}


def _laid_out(shape: Shape, machine: Machine, n: np.ndarray, a: TrainingAssumptions) -> tuple[np.ndarray, np.ndarray, Degrees, float]:
    """Lay every kind of layout (row) out on every count (column): rung, which of them are possible, their degrees, sequences in a step."""
    kinds = _kinds(shape, machine, a)
    names = np.array([kind.rung for kind in kinds])
    t, p, c, e, v = (
        np.array([getattr(kind, name) for kind in kinds], dtype=float)[:, None]
        for name in ("tensor", "pipeline", "context", "expert", "interleaved")
    )
    stage = np.array([kind.stage for kind in kinds])[:, None]
    sequences = max(1.0, a.global_batch_tokens / a.sequence_length)
    most = max(1.0, np.floor(sequences / a.micro_batch_sequences))
    # A copy of the model needs at least one micro-batch of the step: more copies than that would stand idle.
    data = np.floor(n[None, :] / (t * p * c))
    possible = (
        (data >= 1) & (data <= most) & ((names == "one_device")[:, None] == (n == 1)[None, :]) & (np.clip(data, 1, most) * t * c >= e)
    )
    d = np.clip(data, 1, most)
    return names, possible, Degrees(t, p, c, e, v, d, stage, np.maximum(sequences / (d * a.micro_batch_sequences), 1.0)), sequences


def _evaluated(
    shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions, recompute: Recompute
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Work out every layout (row) on every count (column); which of them are possible; and what `layouts` says of each."""
    n = checked_counts(counts)
    names, possible, laid, sequences = _laid_out(shape, machine, n, a)
    # The fullest stage decides; layers may not divide evenly.
    fullest = np.ceil(shape.layers / laid.pipeline) / (shape.layers / laid.pipeline)
    weight, gradient, optimiser = _state(shape, precision, laid, fullest)
    activation = activation_bytes(shape, a.sequence_length, a.micro_batch_sequences, recompute, laid) * fullest
    memory = (weight + gradient + optimiser + activation) / GIB
    bubble = bubble_share(laid.pipeline, laid.micro_batches, laid.interleaved)
    each = operations_counted(shape, a)
    degrees = {**vars(laid), "used": laid.used, "bubble": bubble / (1 - bubble), "held": _held(shape, laid) * fullest, "again": recompute}
    compute = _compute_seconds(shape, precision, machine, a, degrees, sequences) * fullest
    network_bytes, link_bytes = _traffic(shape, precision, machine, a, degrees)
    network = network_bytes / (machine.network_gbps * GIGA / BITS)
    link_rate = machine.link_gbps * GIGA / 2 if machine.link_gbps else machine.network_gbps * GIGA / BITS
    link = link_bytes / link_rate
    slowest = np.maximum(np.maximum(compute, network), link)
    kept = laid.used / n[None, :] * (1 - bubble) / fullest * compute / slowest
    whole = {name: getattr(laid, name).astype(int) for name in ("tensor", "pipeline", "interleaved", "context", "expert", "data")}
    columns = {
        "accelerators": n[None, :].astype(int),
        "rung": names[:, None],
        "recompute": np.array(recompute, dtype=object),
        **whole,
        "stage": laid.stage,
        "used_accelerators": laid.used.astype(int),
        "micro_batches": laid.micro_batches,
        "bubble_share": bubble,
        "weights_gib": weight / GIB,
        "gradients_gib": gradient / GIB,
        "optimiser_gib": optimiser / GIB,
        "activations_gib": activation / GIB,
        "memory_gib": memory,
        "fits": memory <= machine.memory_gib * (1 - a.memory_reserve_share),
        "compute_seconds": compute,
        "network_seconds": network,
        "link_seconds": link,
        "kept_share": kept,
        "rate_tflops": each * sequences * a.sequence_length / (slowest * n[None, :] * TERA),
        "needed_network_gbps": network_bytes * BITS / GIGA / compute,
        "needed_link_gbps": 2 * link_bytes / GIGA / compute,
    }
    return possible, {name: np.broadcast_to(values, laid.data.shape) for name, values in columns.items()}


def operations_counted(shape: Shape, a: TrainingAssumptions, recompute: Recompute | None = None) -> float:
    """Return the operations of a token, as the scenario counts them; a search counts those of the mathematics, whatever it takes.

    Args:
        recompute: What is computed again; None = as the scenario says.
    """
    asked: Recompute = "none" if a.recompute == "fastest" else a.recompute
    return float(
        operations_per_token(
            shape.active,
            layers=shape.layers if a.attention_operations else 0,
            width=shape.attention_width,
            sequence_length=a.sequence_length,
            recompute=recompute or asked,
            hardware=a.operations_counted == "hardware",
        )
    )


def _compute_seconds(
    shape: Shape, precision: str, machine: Machine, a: TrainingAssumptions, degrees: dict[str, Any], sequences: float
) -> Any:
    """Say how long a step takes where no traffic is too much for its wires: at the stated rate, or at the one measurements let expect."""
    tokens = sequences * a.sequence_length
    used, bubble = degrees["used"], degrees["bubble"]
    if machine.chip is None:
        return operations_counted(shape, a, degrees["again"]) * tokens / (used * machine.tflops * TERA) * (1 + bubble)
    chip = machine.chip
    again = 4 / 3 if degrees["again"] == "full" else 1.0
    work = {
        "parameters": shape.parameters,
        "active": shape.active,
        "expert_parameters": shape.expert_parameters,
        "layers": shape.layers,
        "width": shape.width,
        "attention_width": shape.attention_width,
        "kv_width": shape.kv_width or shape.width,
        "vocabulary": shape.vocabulary,
        "experts": shape.experts,
        "experts_per_token": shape.experts_per_token,
        "sequence_length": a.sequence_length,
        "batch_sequences": sequences,
        "micro_batch": a.micro_batch_sequences,
        "again": again,
        "rate": chip.peak(precision) * TERA,
    }
    network = machine.network_gbps / machine.accelerators * GIGA / BITS
    of_chip = {
        "bf16_rate": chip.bf16_tflops * TERA,
        "bandwidth": chip.bandwidth_gbps * GIGA,
        "link": machine.link_gbps * GIGA / 2 or network,
        "network": network,
        "domain": max(chip.link_domain, machine.accelerators),
        "power_w": chip.power_w,
    }
    older = next((share for family, share in OLDER_SOFTWARE.items() if chip.name.startswith(family)), 1.0)
    slower = 1 / older if a.run_software == "as_published" else 1.0
    lost = 1 - a.scale_loss_share
    doublings = np.log2(np.maximum(1.0, used / a.scale_loss_from))
    return seconds_per_token(work, of_chip, degrees) * tokens / used * slower / lost**doublings


def _held(shape: Shape, laid: Degrees) -> Any:
    """Return the parameters that an accelerator works with: its part of the dense ones, and of the experts."""
    t, p = laid.tensor, laid.pipeline
    return (shape.parameters - shape.expert_parameters) / (t * p) + shape.expert_parameters / (np.maximum(laid.expert, t) * p)


def _state(shape: Shape, precision: str, laid: Degrees, fullest: Any) -> tuple[Any, Any, Any]:
    """Return the bytes of weights, gradients and optimiser of an accelerator: dense shared by all copies, experts by their group."""
    experts, t, p, e, copies = shape.expert_parameters, laid.tensor, laid.pipeline, laid.expert, laid.data * laid.context
    dense = state_bytes((shape.parameters - experts) / (t * p) * fullest, precision, copies, laid.stage)
    if not experts:
        return dense
    spread = np.maximum(e, t)
    routed = state_bytes(experts / (spread * p) * fullest, precision, np.maximum(1.0, copies * t / spread), laid.stage)
    return tuple(one + other for one, other in zip(dense, routed, strict=True))


def _kinds(shape: Shape, machine: Machine, a: TrainingAssumptions) -> list[Kind]:
    """List layouts from simple to involved."""
    tensors = []
    if machine.link_gbps:
        tensors = [size for size in (2, 4, 8, 16, 32, 64) if machine.accelerators % size == 0 and shape.heads % size == 0]
    stages = sorted({p for p in range(2, shape.layers + 1) if shape.layers % p == 0} | {2**k for k in range(1, 10) if 2**k <= shape.layers})
    contexts = [2**k for k in range(10) if 2**k == 1 or a.sequence_length / 2**k >= LEAST_SHARED_TOKENS]
    contexts = contexts if len(contexts) <= MOST_CONTEXTS else [1, *contexts[1 - MOST_CONTEXTS :]]
    spreads = [size for size in EXPERT_SPREADS if size == 1 or (shape.experts and shape.experts % size == 0)]
    plain = ("one_device", "data_parallel", "zero_1", "zero_2", "zero_3")
    found = [Kind(rung, max(0, place - 1)) for place, rung in enumerate(plain)]
    found += [Kind("context", WHOLLY_SHARDED, context=c) for c in contexts if c > 1]
    found += [Kind("expert", SHARED_OPTIMISER, context=c, expert=e) for e in spreads if e > 1 for c in contexts]
    product = sorted({(t, p) for t in (1, *tensors) for p in (1, *stages)} - {(1, 1)}, key=lambda pair: (pair[0] * pair[1], -pair[0]))
    for t, p in product:
        rung = "tensor_and_pipeline" if t > 1 and p > 1 else "tensor" if t > 1 else "pipeline"
        parts = max(1, min(MOST_INTERLEAVED, shape.layers // p)) if p > 1 else 1
        found += [Kind(rung, SHARED_OPTIMISER, t, p, c, e, v) for v in sorted({1, parts}) for c in contexts for e in spreads]
    return sorted(found, key=lambda kind: RUNGS.index(kind.rung))


def _traffic(shape: Shape, precision: str, machine: Machine, a: TrainingAssumptions, degrees: dict[str, Any]) -> tuple[Any, Any]:
    """Bytes that a step moves out of a machine through its network, and out of an accelerator through its fast links."""
    t, p, c, e, d, m, stage, held = (
        degrees[name] for name in ("tensor", "pipeline", "context", "expert", "data", "micro_batches", "stage", "held")
    )
    weight, gradient, _ = parameter_bytes(precision)
    # Sharded gradients are summed up after every micro-batch, whole ones once a step.
    words = np.select([stage >= 3, stage == 2], [m * (2 * weight + gradient), m * gradient + weight], gradient + weight)
    model = t * p * c
    node = machine.accelerators
    in_node = np.minimum(node, model) * held
    groups = np.where(model >= node, d, np.ceil(d * model / node))
    beside = np.minimum(d, np.maximum(node / model, 1.0))
    tokens = a.sequence_length * a.micro_batch_sequences * shape.width * ACTIVATION_WORD / c
    domain = max(node, machine.chip.link_domain if machine.chip else node)
    # With experts spread over machines, a token goes to each machine that one of its experts is in, and back, forward and backward.
    over = np.maximum(e / domain, 1.0)
    sent = over * (1 - (1 - 1 / over) ** shape.experts_per_token) * (1 - 1 / over)
    remote = 4 * tokens / t * sent * np.ceil(shape.layers / p) * m * node if shape.experts else 0.0
    network = words * in_node * (1 - 1 / groups) + np.where(p > 1, 2 * tokens * m / t * np.minimum(node, model * d), 0.0) + remote
    reduces = 6 if degrees["again"] == "full" else 4
    layers = np.ceil(shape.layers / p)
    link = words * held * (1 - 1 / beside) + reduces * 2 * (t - 1) / t * tokens * layers * m
    return network, link
