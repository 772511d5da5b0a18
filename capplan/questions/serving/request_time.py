"""Accelerator time of one request, by phase: what prefill and decode take, and how each lever changes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.questions.serving.replica_memory import BYTES_PER_WEIGHT, cache_bytes_per_token, cache_format
from capplan.questions.serving.roofline import peak_rate

GIGA = 1e9
#: Share of peak arithmetic and of peak bandwidth that serving engines reach; only their ratio matters, since the sum is scaled to the
#: operating point.
ARITHMETIC_SHARE, BANDWIDTH_SHARE = 0.6, 0.8


@dataclass(frozen=True)
class RequestWork:
    """What one request is, for the machine."""

    #: input_tokens, output_tokens: Mean tokens.
    input_tokens: float
    output_tokens: float
    cached_share: float = 0.0  #: Share of input tokens whose prefill is found in a cache.
    precision: str = "fp8"  #: Number format of the weights.
    #: draft_tokens, acceptance_share, draft_cost_share: Speculative decoding: tokens proposed at a time, chance that one is accepted, time
    #: of a draft step over a step of the model.
    draft_tokens: int = 0
    acceptance_share: float = 0.7
    draft_cost_share: float = 0.05

    def changed(self, **values: object) -> RequestWork:
        """Return a copy with some values replaced."""
        return replace(self, **values)  # type: ignore[arg-type]


def tokens_per_step(acceptance_share: float, draft_tokens: int) -> float:
    r"""Say how many tokens one step of the model yields when a draft model proposes some.

    .. math:: E = \frac{1-\alpha^{\gamma+1}}{1-\alpha}

    Args:
        acceptance_share (\alpha): Chance that a proposed token is accepted.
        draft_tokens (\gamma): Tokens proposed at a time.

    Source: Leviathan, Kalman and Matias, Fast Inference from Transformers via Speculative Decoding, ICML 2023, equation 1.

    Examples:
        >>> round(tokens_per_step(0.8, 5), 2), round(tokens_per_step(0.6, 2), 2)
        (3.69, 1.96)
    """
    if not 0 <= acceptance_share < 1 or draft_tokens < 0:
        raise CapplanError(
            f"speculative decoding with an acceptance of {acceptance_share:g} and {draft_tokens} tokens makes no sense; 70 % is 0.7, and"
            " tokens count from 0 on"
        )
    return (1 - acceptance_share ** (draft_tokens + 1)) / (1 - acceptance_share)


def phase_seconds(work: RequestWork, model: pd.Series, accelerator: pd.Series, accelerators: int, concurrency: int) -> tuple[float, float]:
    r"""Say how much accelerator time the two phases of one request take, by a roofline.

    Prefill is bound by arithmetic; a decode step by the larger of arithmetic and memory, where all requests of the batch share one reading
    of the weights:

    .. math:: t_\text{prefill} = \frac{2 P n_\text{in} (1-h)}{\eta_a F}, \qquad
              t_\text{decode} = \frac{n_\text{out} g}{c\,E} \max\left(\frac{2 P c (\gamma + 1)}{g \eta_a F}, \frac{W + c\,m\,L}{g \eta_b
              B}\right) (1 + \gamma k)

    Args:
        work (n_in, n_out, h, \gamma, k): The request.
        model (P, W, m): Row of models: active parameters, bytes of the weights, bytes of cache per token.
        accelerator (F, B): Row of accelerators: peak arithmetic, memory bandwidth.
        accelerators (g): Accelerators of one replica.
        concurrency (c): Requests in one replica at once; L is the mean length of one in the cache.

    Returns:
        tuple of float: Accelerator-seconds of prefill and of decode.

    Raises:
        CapplanError: If a number format or share is not known.
    """
    if work.precision not in BYTES_PER_WEIGHT:
        raise CapplanError(f"weights have no number format {work.precision!r}; {nearest(work.precision, BYTES_PER_WEIGHT)}")
    if not 0 <= work.cached_share <= 1:
        raise CapplanError(f"the cached share is {work.cached_share:g}; it is a share from 0 to 1, so 90 % is 0.9")
    bytes_per_weight = BYTES_PER_WEIGHT[work.precision]
    machine = pd.DataFrame([{name: accelerator.get(name, math.nan) for name in ("bf16_tflops", "fp8_tflops", "fp4_tflops")}], dtype=float)
    peak = float(peak_rate(pd.Series([work.precision]), machine).iloc[0])
    arithmetic = ARITHMETIC_SHARE * peak
    bandwidth = BANDWIDTH_SHARE * float(accelerator["memory_bandwidth_gbps"]) * GIGA
    active = float(model["parameters_active"])
    prefill = 2 * active * work.input_tokens * (1 - work.cached_share) / arithmetic
    length = work.input_tokens + work.output_tokens / 2
    weights = touched_parameters(model, concurrency) * bytes_per_weight
    memory = (weights + concurrency * cache_bytes_per_token(model, cache_format(work.precision), length) * length) / (
        accelerators * bandwidth
    )
    compute = 2 * active * concurrency * (work.draft_tokens + 1) / (accelerators * arithmetic)
    steps = work.output_tokens / tokens_per_step(work.acceptance_share, work.draft_tokens)
    decode = steps * max(memory, compute) * (1 + work.draft_tokens * work.draft_cost_share) * accelerators / concurrency
    return prefill, decode


def touched_parameters(model: pd.Series, concurrency: int) -> float:
    r"""Say how many parameters a step reads that serves several requests of a mixture-of-experts model at once.

    A dense model reads all of them. Of the part that is routed, each request reads its share, and different requests read different
    experts:

    .. math:: P_c = P_t \left(1 - (1 - P_a/P_t)^c\right)

    Examples:
        >>> touched_parameters(pd.Series({"parameters_total": 70e9, "parameters_active": 70e9}), 8) / 1e9
        70.0
    """
    total, share = float(model["parameters_total"]), float(model["parameters_active"]) / float(model["parameters_total"])
    return total * (1 - (1 - min(1.0, share)) ** concurrency)


def work_share(
    before: RequestWork, after: RequestWork, model: pd.Series, accelerator: pd.Series, accelerators: int, concurrency: int
) -> float:
    """Say how much accelerator time a request takes after a change, as a share of before.

    The roofline is used for this ratio only; the level is that of the operating point, measured where there is a measurement.
    """
    old, new = (sum(phase_seconds(work, model, accelerator, accelerators, concurrency)) for work in (before, after))
    return new / old if old > 0 and math.isfinite(old) else 1.0
