"""How fast an accelerator trains: the seconds of each part of a step, with factors that public measurements have set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from capplan.records import word_list

#: Parts of a step, in the order of their factors.
PARTS = word_list(
    "matrices experts output attention memory routing exchange remote_exchange launch tensor context synchronise optimiser weights"
)
#: Parts that are arithmetic or as good as: a chip with less power for its peak clocks lower in them.
CLOCKED = PARTS[:4]
#: Where a factor is sought from: one over the usual share of a peak, bytes of a unit of width, the part of traffic that is not hidden,
#: seconds.
PRIORS = dict(zip(PARTS, (1 / 0.75, 1 / 0.6, 1 / 0.6, 1 / 0.5, 30.0, 20.0, 0.5, 0.3, 2e-4, 0.5, 0.3, 0.3, 1.0, 1.0), strict=True))
POWER_PRIOR = 0.3
#: Power over dense 16-bit peak of the chip that others are compared to (H100: 700 W, 989.4 TFLOP/s).
WATTS_PER_TFLOPS = 700 / 989.4
TERA, GIGA, BITS = 1e12, 1e9, 8
#: Operations of a parameter and token forward and backward; of a pair of tokens in causal attention, per unit of width.
PER_PARAMETER, PER_PAIR = 6, 6
#: Bytes of an optimiser step per parameter, of a parameter that a micro-batch reads, and of one that is synchronised.
OPTIMISER_BYTES, READ_BYTES, SYNCHRONISED_BYTES = 30, 6, 4
#: Bytes of one value that experts, tensor groups and context groups exchange, forward and backward.
EXCHANGED_BYTES, TENSOR_BYTES, CONTEXT_BYTES = 8, 16, 12


@dataclass(frozen=True)
class Chip:
    """An accelerator, as speed needs it."""

    name: str
    #: bf16_tflops, fp8_tflops, fp4_tflops: Dense peaks; where it has no smaller format, the next wider one's.
    bf16_tflops: float
    fp8_tflops: float
    fp4_tflops: float
    #: bandwidth_gbps, power_w: Memory and power.
    bandwidth_gbps: float
    power_w: float
    link_domain: float  #: Accelerators that fast links join (72 in an NVL72 rack); at least those of a machine.

    def peak(self, precision: str) -> float:
        """Return the dense peak of a format in TFLOP/s."""
        return {"fp8": self.fp8_tflops, "fp4": self.fp4_tflops}.get(precision, self.bf16_tflops)


@dataclass(frozen=True)
class Factors:
    """What measurements say of the parts: a factor each, and the exponent of power over peak."""

    values: tuple[float, ...]
    power_exponent: float


#: Fitted by `fit_speed` on 356 public rows: NVIDIA Megatron-Bridge performance summary (releases 26.02 to 26.08; Llama 3 70B, Llama 3.1
#: 405B,
#: DeepSeek-V3, gpt-oss-120b, Qwen3-30B-A3B on H100, B200, B300, GB200, GB300) and MosaicML llm-foundry (MPT 125M to 70B on A100 and H100).
FACTORS = Factors(
    (1.6108, 2.9728, 7.3686, 4.9857, 32.576, 19.39, 0.45518, 0.36621, 0.00022824, 0.51164, 0.29997, 0.27754, 1.0057, 1.2643), 0.4117
)
#: Published runs on A100 of 2021 and 2022 reached this share of what benchmarks with today's software do: the median of Megatron-LM SC21
#: (eight
#: layouts) and BLOOM. Later accelerators have no such measurements; their benchmarks and runs agree.
OLDER_SOFTWARE = {"A100": 0.75}
#: Half width of a band of nine in ten, as a factor: models held out of the fit (thirty random halves), and where the chip or format was
#: never measured; of a published run, its releases of half a year (nine in ten of 47 dense and 46 mixture ones lie so near the latest).
BANDS = {
    ("measured", False): 1.07,
    ("measured", True): 1.45,
    ("calibrated", False): 1.25,
    ("calibrated", True): 1.55,
    ("modelled", False): 1.8,
    ("modelled", True): 2.2,
}
MEASURED = {
    ("A100", "bf16"),
    ("H100", "bf16"),
    ("H100", "fp8"),
    ("H200", "bf16"),
    ("H200", "fp8"),
    ("B200", "bf16"),
    ("B200", "fp8"),
    ("B300", "bf16"),
    ("B300", "fp8"),
    ("GB200", "bf16"),
    ("GB200", "fp8"),
    ("GB200", "fp4"),
    ("GB300", "bf16"),
    ("GB300", "fp8"),
    ("GB300", "fp4"),
}


def step_parts(work: Mapping[str, Any], chip: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    r"""Say how many accelerator-seconds each part of a step would take for a token, at full peaks and with nothing hidden.

    .. math:: G = \left(1 + \frac{p - 1}{m\,v}\right) \sum_i f_i\,g_i

    g_i are the parts returned here and f_i their factors; p stages, m micro-batches, v parts of a stage (interleaving). Matrix products run
    at the peak of the format; attention and the output layer in 16 bit. Exchanges between experts stay on fast links as far as those
    reach, and beyond them a token is sent once to each group it has an expert in.

    Args:
        work: parameters, active, expert_parameters (of all routed experts), layers, width, attention_width, kv_width, vocabulary, experts,
            experts_per_token, sequence_length, batch_sequences, micro_batch, again (1, or 4/3 where everything is computed again), rate
            (peak of the format, operations a second).
        chip: bf16_rate, bandwidth, link, network (bytes a second of one accelerator), domain.
        layout: used (accelerators), tensor, pipeline, context, expert, data, stage, micro_batches.

    Returns:
        dict: Accelerator-seconds a token, by part.
    """
    s, h, layers, again = work["sequence_length"], work["width"], work["layers"], work["again"]
    t, p, c, e, d = (np.asarray(layout[name], dtype=float) for name in ("tensor", "pipeline", "context", "expert", "data"))
    output = work["vocabulary"] * h
    k, experts = work["experts_per_token"], np.maximum(work["experts"], 1.0)
    routed = work["expert_parameters"] * k / experts
    inner = work["expert_parameters"] / (3 * experts * layers * h)
    sparse = np.asarray(work["experts"]) > 0
    near, groups = np.minimum(e, chip["domain"]), np.maximum(e / chip["domain"], 1.0)
    sent = groups * (1 - (1 - 1 / groups) ** k) * (1 - 1 / groups)
    step_tokens = work["batch_sequences"] * s
    per_token = layout["used"] / step_tokens
    held = (work["parameters"] - work["expert_parameters"]) / (t * p) + work["expert_parameters"] / (np.maximum(e, t) * p)
    wide = np.where(np.asarray(layout["used"]) <= chip["domain"], chip["link"], chip["network"])
    gathers = np.where(np.asarray(layout["stage"]) >= 3, layout["micro_batches"], np.where(d * c > 1, 1.0, 0.0))
    return {
        "matrices": PER_PARAMETER * (work["active"] - output - routed) * again / work["rate"],
        "experts": PER_PARAMETER * routed * again / work["rate"],
        "output": PER_PARAMETER * output / chip["bf16_rate"],
        "attention": PER_PAIR * layers * work["attention_width"] * s * again / chip["bf16_rate"],
        "memory": layers * h * again / chip["bandwidth"],
        "routing": np.where(sparse, layers * k * (h + inner) * again / chip["bandwidth"], 0.0),
        "exchange": np.where(e > 1, layers * h * EXCHANGED_BYTES * k * (1 - 1 / near) / chip["link"], 0.0),
        "remote_exchange": np.where(e > 1, layers * h * EXCHANGED_BYTES * sent / chip["network"], 0.0),
        "launch": layers * t * c / (work["micro_batch"] * s),
        "tensor": np.where(t > 1, TENSOR_BYTES * layers * h * (1 - 1 / t) / chip["link"], 0.0),
        "context": np.where(c > 1, CONTEXT_BYTES * layers * work["kv_width"] * (1 - 1 / c) / chip["link"], 0.0),
        "synchronise": gathers * SYNCHRONISED_BYTES * held / wide * per_token,
        "optimiser": held * OPTIMISER_BYTES / np.maximum(d, 1.0) / chip["bandwidth"] * per_token,
        "weights": held * READ_BYTES * layout["micro_batches"] / chip["bandwidth"] * per_token,
    }


def clock_factor(power_w: Any, bf16_tflops: Any, exponent: float) -> Any:
    r"""Return how much longer arithmetic takes on a chip with other power for its peak than the H100.

    .. math:: \left(\frac{P / X}{P_0 / X_0}\right)^{-\gamma}

    Examples:
        >>> float(clock_factor(700, 989.4, 0.4))
        1.0
    """
    return (np.asarray(power_w, dtype=float) / np.asarray(bf16_tflops, dtype=float) / WATTS_PER_TFLOPS) ** -exponent


def seconds_per_token(work: Mapping[str, Any], chip: Mapping[str, Any], layout: Mapping[str, Any], factors: Factors = FACTORS) -> Any:
    """Return the accelerator-seconds a token takes in a layout, bubble included: one over its tokens a second and accelerator.

    No less than its operations at the peak.

    Args:
        work, chip, layout: As `step_parts`; chip also power_w, layout also bubble (as a share of the working time).
        factors: From `fit_speed`.
    """
    parts = step_parts(work, chip, layout)
    slower = clock_factor(chip["power_w"], chip["bf16_rate"] / TERA, factors.power_exponent)
    total = sum(factor * parts[name] * (slower if name in CLOCKED else 1.0) for name, factor in zip(PARTS, factors.values, strict=True))
    least = PER_PARAMETER * work["active"] / work["rate"]
    return np.maximum(total, least) * (1 + layout["bubble"])


def basis_of(chip: str, precision: str) -> str:
    """Say on what the speed of a chip in a format rests: calibrated where it was measured, else modelled.

    Examples:
        >>> basis_of("A100-80GB", "bf16"), basis_of("MI300X", "bf16")
        ('calibrated', 'modelled')
    """
    family = "A100" if chip.startswith("A100") else chip
    return "calibrated" if (family, {"fp16": "bf16"}.get(precision, precision)) in MEASURED else "modelled"
