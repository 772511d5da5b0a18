"""The architecture of a run: from the models table, or the usual one of its size; and the memory it takes, part by part."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.questions.training.flops import Recompute, check_parameters

GIB = 2.0**30
#: Width over layers of the usual dense model, its head size and its vocabulary.
WIDTH_PER_LAYER, HEAD_SIZE, VOCABULARY = 128, 128, 128_000
#: Bytes of a parameter: in the forward pass, of its gradient, of the optimiser (a 4-byte copy and Adam's two moments).
PARAMETER_BYTES = {"bf16": (2, 2, 12), "fp16": (2, 2, 12), "fp8": (2, 2, 12), "fp4": (2, 2, 12), "fp32": (4, 4, 8)}
#: Bytes that activations of a token and unit of width take in a layer: all of them, and what is left with everything computed again.
ACTIVATION_BYTES, INPUT_BYTES = 34, 2
#: In a mixture of experts: of attention and its norms; of a token sent to an expert and back; and of the inner layer of a gated expert,
#: per unit.
ATTENTION_BYTES, ROUTED_BYTES, INNER_BYTES = 15, 4, 6
#: Bytes of attention scores for a head and pair of tokens, as a multiple of s.
SCORE_BYTES = 5
LOGIT_BYTES = 4


@dataclass(frozen=True)
class Shape:
    """An architecture, as memory and operations need it.

    Args:
        parameters, active: In all, and those that work on a token.
        layers, width, heads, vocabulary: Layers, hidden size, attention heads, tokens of the vocabulary.
        attention_width: Heads x head size.
        note: What was assumed.
        kv_width: Key-value heads x head size.
        experts, experts_per_token: Routed experts of a layer and those a token passes; 0 = dense.
    """

    parameters: float
    active: float
    layers: int
    width: int
    heads: int
    vocabulary: int
    attention_width: int
    note: str = ""
    kv_width: int = 0
    experts: float = 0.0
    experts_per_token: float = 0.0

    @property
    def expert_parameters(self) -> float:
        """Parameters of all routed experts: what a token does not touch is the share of experts it does not pass."""
        if not self.experts or self.experts_per_token >= self.experts:
            return 0.0
        return min(self.parameters, (self.parameters - self.active) / (1 - self.experts_per_token / self.experts))

    @property
    def token_values(self) -> float:
        """Bytes of activations that a token leaves in a layer: 34 h in a dense model; in a mixture, attention and its copies at experts."""
        if not self.expert_parameters:
            return float(ACTIVATION_BYTES * self.width)
        inner = self.expert_parameters / (3 * self.experts * self.layers * self.width)
        return ATTENTION_BYTES * self.width + self.experts_per_token * (ROUTED_BYTES * self.width + INNER_BYTES * inner)


def shape_of(parameters: float, model: str | None = None, models: pd.DataFrame | None = None, total: float | None = None) -> Shape:
    r"""Return the architecture of a run: the model's, or the usual dense one of its size.

    .. math:: h = \left(\frac{128\,P}{12}\right)^{1/3},\qquad L = \frac{P}{12 h^2}

    follows from P = 12 L h^2 with a width of 128 for each layer, as the Llama 3 models have it; h in multiples of eight heads.

    Args:
        parameters (P): Parameters that work on a token.
        model: Name in the table of models; None or empty = the usual one.
        total: Parameters in all, where they are stated; else in the proportion of the model.

    Raises:
        CapplanError: If the model is unknown.

    Source: A. Dubey et al., The Llama 3 Herd of Models, 2024, table 3; J. Kaplan et al., 2020, section 3.1: loss depends weakly on the
        shape.

    Examples:
        >>> shape_of(70e9).layers, shape_of(70e9).width
        (69, 9216)
    """
    check_parameters(parameters)
    if model is not None and not pd.isna(model) and str(model):
        known = pd.DataFrame({"model": []}) if models is None else models
        if model not in set(known["model"]):
            raise CapplanError(
                f"the run names the model {model!r}, which the table models does not have; {nearest(str(model), known['model'])}"
            )
        row = known.set_index("model").loc[model]
        note = ""
        if abs(parameters / row["parameters_active"] - 1) > 0.1:
            note = (
                f"The run has {parameters:.3g} parameters and its architecture {model} {row['parameters_active']:.3g}: memory is the run's"
                " size in that shape."
            )
        in_all = float(parameters) * float(row["parameters_total"]) / float(row["parameters_active"])
        return Shape(
            in_all if total is None else max(float(total), float(parameters)),
            float(parameters),
            int(row["layers"]),
            int(row["hidden_size"]),
            int(row["attention_heads"]),
            int(row["vocabulary"]),
            int(row["attention_heads"] * row["head_size"]),
            note,
            int(row["kv_heads"] * row["head_size"]),
            *(0.0 if name not in row or pd.isna(row[name]) else float(row[name]) for name in ("experts", "experts_per_token")),
        )
    wanted = (WIDTH_PER_LAYER * parameters / 12) ** (1 / 3)
    # Widths of large models are multiples of eight heads, so that they divide over a node.
    step = HEAD_SIZE * (8 if wanted >= 8 * HEAD_SIZE else 1)
    width = max(step, step * round(wanted / step))
    layers = max(1, round(parameters / (12 * width**2)))
    note = f"No architecture is named for the run: a dense one of {layers} layers and a width of {width:,} is taken for its memory."
    return Shape(
        max(float(parameters), float(total or 0.0)), float(parameters), layers, width, width // HEAD_SIZE, VOCABULARY, width, note, width
    )


def parameter_bytes(precision: str) -> tuple[int, int, int]:
    """Return the bytes of a parameter: weight, gradient, optimiser.

    Raises:
        CapplanError: If the number format is unknown.

    Source: S. Rajbhandari et al., ZeRO: Memory optimizations toward training trillion parameter models, SC20, section 3.1 (2 + 2 + 12). In
        fp8 training weights and gradients are kept in 16 bit and cast for the products.

    Examples:
        >>> parameter_bytes("bf16")
        (2, 2, 12)
    """
    if precision not in PARAMETER_BYTES:
        raise CapplanError(f"precision = {precision!r}: must be one of {', '.join(PARAMETER_BYTES)}; {nearest(precision, PARAMETER_BYTES)}")
    return PARAMETER_BYTES[precision]


def state_bytes(parameters: Any, precision: str, data: Any = 1, stage: Any = 0) -> tuple[Any, Any, Any]:
    r"""Say what weights, gradients and optimiser take on one accelerator, with a stage of sharding over data-parallel ones.

    .. math:: M = \frac{b_w P}{[n]_3} + \frac{b_g P}{[n]_2} + \frac{b_o P}{[n]_1}

    where [n]_k is n from stage k on and 1 below.

    Args:
        parameters (P): Parameters that this accelerator would hold without sharding.
        precision: Number format.
        data (n): Accelerators that share a copy.
        stage: 0 (none) to 3 (all): ZeRO, or fully sharded data parallel.

    Source: S. Rajbhandari et al., ZeRO, SC20, figure 1.

    Examples:
        >>> [round(float(sum(state_bytes(7.5e9, "bf16", 64, stage))) / 1e9, 1) for stage in range(4)]
        [120.0, 31.4, 16.6, 1.9]
    """
    weight, gradient, optimiser = parameter_bytes(precision)
    weights, gradients, optimisers = (
        size * parameters / np.where(np.asarray(stage) >= least, data, 1) for size, least in ((weight, 3), (gradient, 2), (optimiser, 1))
    )
    return weights[()], gradients[()], optimisers[()]


@dataclass(frozen=True)
class Degrees:
    """How a model is laid out over accelerators, one layout or an array of them."""

    tensor: Any = 1  #: t, accelerators that share each layer.
    pipeline: Any = 1  #: p, stages of the pipeline.
    context: Any = 1  #: c, accelerators that share a sequence.
    expert: Any = 1  #: e, accelerators that the experts of a layer are spread over.
    interleaved: Any = 1  #: v, parts of the model that a stage holds.
    data: Any = 1  #: d, copies of the model.
    stage: Any = 0  #: ZeRO stage: what the copies share.
    micro_batches: Any = np.inf  #: m, micro-batches that a step sends through a pipeline.

    @property
    def used(self) -> Any:
        """Accelerators that are used."""
        return self.data * self.tensor * self.pipeline * self.context


ONE_ACCELERATOR = Degrees()


def activation_bytes(shape: Shape, sequence_length: int, micro_batch: int, recompute: Recompute, degrees: Degrees = ONE_ACCELERATOR) -> Any:
    r"""Say what activations take on one accelerator of the first pipeline stage.

    .. math:: A = \frac{L}{p}\min\left(p\left(1 + \frac{p - 1}{p\,v}[v > 1]\right), m\right)
              \,\frac{s b h}{t\,c}\left(34 + 5\frac{a s}{h}\right)

    without the second term where attention is computed again, and with 2 s b h a layer (plus one layer at work) where all is. The output
    layer adds 4 s b h (1 + V/h) / t where the first stage is also the last. Sequence parallelism is taken for granted.

    Args:
        shape (L, h, a, V):
        sequence_length, micro_batch (s, b):
        recompute: none, selective (attention), full.
        degrees (t, p, c, v, m):

    Source: V. Korthikanti et al., Reducing activation recomputation in large transformer models, 2022, equations 1 to 6.

    Examples:
    >>> gpt3 = Shape(175e9, 175e9, 96, 12288, 96, 51200, 12288)
    >>> need = {again: activation_bytes(gpt3, 2048, 1, again, Degrees(pipeline=8)) for again in ("selective", "none")}
    >>> round(float(1 - need["selective"] / need["none"]), 2)
    0.7
    """
    shared = np.asarray(degrees.tensor, dtype=float) * np.asarray(degrees.context, dtype=float)
    tokens = sequence_length * micro_batch / shared
    scores = SCORE_BYTES * shape.heads * sequence_length if recompute == "none" else 0.0
    stages, parts = np.asarray(degrees.pipeline, dtype=float), np.asarray(degrees.interleaved, dtype=float)
    waiting = np.where(parts > 1, stages + (stages - 1) / parts, stages)
    in_flight = np.minimum(waiting, degrees.micro_batches) * shape.layers / stages
    layer = tokens * (shape.token_values + scores)
    held = in_flight * tokens * shape.width * INPUT_BYTES + layer if recompute == "full" else in_flight * layer
    output = np.where(stages == 1, LOGIT_BYTES * tokens * (shape.width + shape.vocabulary), 0.0)
    return (held + output)[()]
