"""How a run is laid out over accelerators: the lowest rung that fits their memory, its bubble, and the bandwidth it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError
from capplan.questions.training.architecture import GIB, Shape, activation_bytes, parameter_bytes, state_bytes
from capplan.questions.training.flops import TERA, operations_per_token

#: From simple to involved; a run stands on the first that fits.
RUNGS = ("one_device", "data_parallel", "zero_1", "zero_2", "zero_3", "tensor", "pipeline", "tensor_and_pipeline")
GIGA = 1e9
BITS = 8
#: An activation that is sent takes two bytes.
ACTIVATION_WORD = 2
PARTS = ("weights", "gradients", "optimiser", "activations")


@dataclass(frozen=True)
class Machine:
    """A machine, as layouts need it.

    Parameters
    ----------
    memory_gib
        Memory of one accelerator.
    accelerators
        Accelerators in it.
    link_gbps
        Fast links of one accelerator, both directions together, in GB/s; 0 where there are none.
    network_gbps
        Network of the whole machine in Gbit/s.
    tflops
        Rate one accelerator keeps up while it computes.
    """

    memory_gib: float
    accelerators: int
    link_gbps: float
    network_gbps: float
    tflops: float


def bubble_share(pipeline: Any, micro_batches: Any) -> Any:
    r"""Say which share of a step a pipeline stands still while it fills and empties.

    .. math:: \beta = \frac{p - 1}{m + p - 1}

    Parameters
    ----------
    pipeline : p
        Stages.
    micro_batches : m
        Micro-batches that a step sends through.

    Source
    ------
    Y. Huang et al., GPipe, NeurIPS 2019; D. Narayanan et al., SC21, section 2.2.1 (as a share of the ideal time: (p - 1) / m).

    Examples
    --------
    >>> float(bubble_share(4, 12))
    0.2
    """
    stages = np.asarray(pipeline, dtype=float)
    return ((stages - 1) / (np.asarray(micro_batches, dtype=float) + stages - 1))[()]


def layouts(shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions) -> pd.DataFrame:
    r"""List every way to lay a run out over numbers of accelerators: memory by part, speed kept, and bandwidth needed.

    .. math:: t_\text{step} = \max\left(\frac{C_\text{token} D_\text{step}}{n X},\; t_\text{network},\; t_\text{links}\right)

    Traffic that takes less time than the work is taken as hidden behind it (a measured utilisation holds what is not); what takes longer slows
    the run down. Synchronising gradients moves 2 words a parameter in a step; ZeRO-2 sums up after every micro-batch, and ZeRO-3 gathers
    all weights twice besides; a node's own accelerators first sum up among themselves. Tensor parallelism stays within the fast links of a node and moves four all-reduces of
    activations (six with full recomputation) a layer and micro-batch. Tensor and pipeline layouts share the optimiser's state among their
    data-parallel copies (stage 1).

    Parameters
    ----------
    shape, precision
        Architecture and number format.
    machine
        Memory, links, network and rate.
    counts : n
        Numbers of accelerators.
    a
        Batch, sequence, recomputation, memory kept free.

    Returns
    -------
    DataFrame
        accelerators, rung, tensor, pipeline, data, stage, used_accelerators, micro_batches, bubble_share, weights_gib, gradients_gib,
        optimiser_gib, activations_gib, memory_gib (in all), fits, compute_seconds, network_seconds, link_seconds (of a step), kept_share (of the
        rate, after bubble, idle accelerators and traffic that cannot be hidden), needed_network_gbps, needed_link_gbps (to hide all traffic),
        by count and then by rung.

    Source
    ------
    S. Rajbhandari et al., ZeRO, SC20, section 7; D. Narayanan et al., SC21, section 3; V. Korthikanti et al., 2022.
    """
    possible, columns = _evaluated(shape, precision, machine, counts, a)
    keep = possible.T.ravel()
    return pd.DataFrame({name: values.T.ravel()[keep] for name, values in columns.items()})


def chosen_layouts(shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions) -> dict[str, np.ndarray]:
    """Return for each count the layout a run takes: the lowest rung that fits, and is not much slower than the fastest that fits.

    Parameters
    ----------
    shape, precision, machine, counts, a
        As in `layouts`; ``a.simple_rung_share`` is the least speed, as a share of the fastest one's (0 = the lowest that fits).

    Returns
    -------
    dict
        The columns of `layouts`, an entry a count; counts on which nothing fits are left out.
    """
    possible, columns = _evaluated(shape, precision, machine, counts, a)
    fits = possible & columns["fits"]
    kept = np.where(fits, columns["kept_share"], 0.0)
    good = fits & (kept >= a.simple_rung_share * kept.max(axis=0))
    lowest = good.argmax(axis=0)
    some = np.flatnonzero(good.any(axis=0))
    return {name: values[lowest[some], some] for name, values in columns.items()}


def _evaluated(
    shape: Shape, precision: str, machine: Machine, counts: Any, a: TrainingAssumptions
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Work out every layout (row) on every count (column); which of them are possible; and what `layouts` says of each."""
    n = checked_counts(counts)
    kinds = _kinds(shape, machine)
    stage = np.array([kind[1] for kind in kinds])[:, None]
    t = np.array([kind[2] for kind in kinds], dtype=float)[:, None]
    p = np.array([kind[3] for kind in kinds], dtype=float)[:, None]
    names = np.array([kind[0] for kind in kinds])
    sequences = max(1.0, a.global_batch_tokens / a.sequence_length)
    most = max(1.0, np.floor(sequences / a.micro_batch_sequences))
    # A copy of the model needs at least one micro-batch of the step: more copies than that would stand idle.
    data = np.floor(n[None, :] / (t * p))
    possible = (data >= 1) & (data <= most) & ((names == "one_device")[:, None] == (n == 1)[None, :])
    d = np.clip(data, 1, most)
    m = np.maximum(sequences / (d * a.micro_batch_sequences), 1.0)
    used = d * t * p
    # The fullest stage decides; layers may not divide evenly.
    fullest = np.ceil(shape.layers / p) / (shape.layers / p)
    held = shape.parameters / (t * p) * fullest
    weight, gradient, optimiser = state_bytes(held, precision, d, stage)
    activation = activation_bytes(shape, a.sequence_length, a.micro_batch_sequences, a.recompute, t, p, m) * fullest
    memory = (weight + gradient + optimiser + activation) / GIB
    bubble = bubble_share(p, m)

    each = operations_per_token(
        shape.active,
        layers=shape.layers if a.attention_operations else 0,
        width=shape.attention_width,
        sequence_length=a.sequence_length,
        recompute=a.recompute,
        hardware=a.operations_counted == "hardware",
    )
    compute = each * sequences * a.sequence_length / (used * machine.tflops * TERA) / (1 - bubble) * fullest
    network_bytes, link_bytes = _traffic(shape, precision, machine, a, stage, t, p, d, m, held)
    network = network_bytes / (machine.network_gbps * GIGA / BITS)
    link_rate = machine.link_gbps * GIGA / 2 if machine.link_gbps else machine.network_gbps * GIGA / BITS
    link = link_bytes / link_rate
    slowest = np.maximum(np.maximum(compute, network), link)
    kept = used / n[None, :] * (1 - bubble) / fullest * compute / slowest
    columns = {
        "accelerators": n[None, :].astype(int),
        "rung": names[:, None],
        "tensor": t.astype(int),
        "pipeline": p.astype(int),
        "data": d.astype(int),
        "stage": stage,
        "used_accelerators": used.astype(int),
        "micro_batches": m,
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
        "needed_network_gbps": network_bytes * BITS / GIGA / compute,
        "needed_link_gbps": 2 * link_bytes / GIGA / compute,
    }
    return possible, {name: np.broadcast_to(values, d.shape) for name, values in columns.items()}


def checked_counts(counts: Any) -> np.ndarray:
    """Return numbers of accelerators as an array of ascending, different whole numbers.

    Raises
    ------
    CapplanError
        For counts below 1 or that are no whole numbers.
    """
    n = np.atleast_1d(np.asarray(counts, dtype=float))
    bad = ~((n >= 1) & (n == np.floor(n)) & np.isfinite(n))
    if bad.any() or n.size == 0:
        raise CapplanError(f"accelerators = {n[bad][0] if bad.any() else 'none'}: a run takes a whole number of accelerators, 1 or more")
    return np.unique(n)


def _kinds(shape: Shape, machine: Machine) -> list[tuple[str, int, int, int]]:
    """List layouts from simple to involved: rung, stage of sharding, tensor and pipeline degree."""
    found = [("one_device", 0, 1, 1), ("data_parallel", 0, 1, 1), ("zero_1", 1, 1, 1), ("zero_2", 2, 1, 1), ("zero_3", 3, 1, 1)]
    tensors = []
    if machine.link_gbps:
        tensors = [size for size in (2, 4, 8, 16, 32, 64) if machine.accelerators % size == 0 and shape.heads % size == 0]
    stages = sorted({p for p in range(2, shape.layers + 1) if shape.layers % p == 0} | {2**k for k in range(1, 10) if 2**k <= shape.layers})
    found += [("tensor", 1, t, 1) for t in tensors]
    found += [("pipeline", 1, 1, p) for p in stages]
    product = sorted(((t, p) for t in tensors for p in stages), key=lambda pair: (pair[0] * pair[1], -pair[0]))
    return found + [("tensor_and_pipeline", 1, t, p) for t, p in product]


def _traffic(
    shape: Shape, precision: str, machine: Machine, a: TrainingAssumptions, stage: Any, t: Any, p: Any, d: Any, m: Any, held: Any
) -> tuple[Any, Any]:
    """Bytes that a step moves out of a machine through its network, and out of an accelerator through its fast links."""
    weight, gradient, _ = parameter_bytes(precision)
    # Sharded gradients are summed up after every micro-batch, whole ones once a step.
    words = np.select([stage >= 3, stage == 2], [m * (2 * weight + gradient), m * gradient + weight], gradient + weight)
    model = t * p
    node = machine.accelerators
    in_node = np.minimum(node, model) * held
    groups = np.where(model >= node, d, np.ceil(d * model / node))
    beside = np.minimum(d, np.maximum(node / model, 1.0))
    tokens = a.sequence_length * a.micro_batch_sequences * shape.width * ACTIVATION_WORD
    network = words * in_node * (1 - 1 / groups) + np.where(p > 1, 2 * tokens * m / t * np.minimum(node, model * d), 0.0)
    reduces = 6 if a.recompute == "full" else 4
    layers = np.ceil(shape.layers / p)
    link = words * held * (1 - 1 / beside) + reduces * 2 * (t - 1) / t * tokens * layers * m
    return network, link
