"""The work of a training run: floating point operations, utilisation, accelerator-hours, days, energy, money."""

from typing import Any, Literal

import numpy as np

from capplan.book.rules import LEAST_COUNTS
from capplan.errors import CapplanError
from capplan.questions.demand.events import EXA, OPERATIONS_PER_PARAMETER_AND_TOKEN

Recompute = Literal["none", "selective", "full"]
SECONDS_PER_DAY = 86400.0
TERA = 1e12
#: A forward pass does 2 operations for each parameter and token; a full recompute does it once more.
OPERATIONS_FORWARD = 2
#: Multiply-adds of attention in the forward pass of a token and layer: 4 d s, as two products of s x d.
ATTENTION_FORWARD = 4


def operations_per_token(
    parameters: Any, *, layers: int = 0, width: int = 0, sequence_length: int = 0, recompute: Recompute = "none", hardware: bool = False
) -> Any:
    r"""Say how many floating point operations training does for a token.

    .. math:: C_\text{model} = 6N + 12 L d s,\qquad C_\text{full recompute} = 8N + 16 L d s,\qquad C_\text{selective} = 6N + 16 L d s

    Model operations are what the mathematics needs; hardware operations count those done twice to save memory. A published rate belongs to
    one of the two, and mixing them is an error of a third.

    Args:
        parameters (N): Parameters that work on a token.
        layers, width, sequence_length (L, d, s): Layers, width of attention (heads x head size) and tokens in a sequence; 0 leaves the
            attention term out.
        recompute: What is computed again in the backward pass: nothing, attention, or all.

    Returns:
        float or array: Operations for a token.

    Source: J. Kaplan et al., Scaling laws for neural language models, 2020, section 2.1; A. Chowdhery et al., PaLM, 2022, appendix B; V.
        Korthikanti et al., Reducing activation recomputation in large transformer models, 2022.

    Examples:
        >>> f"{operations_per_token(175e9) * 300e9:.3g}", f"{operations_per_token(175e9, recompute='full', hardware=True) * 300e9:.3g}"
        ('3.15e+23', '4.2e+23')
    """
    _known("recompute", recompute, ("none", "selective", "full"))
    weights = OPERATIONS_PER_PARAMETER_AND_TOKEN + (OPERATIONS_FORWARD if hardware and recompute == "full" else 0)
    attention = ATTENTION_FORWARD * (4 if hardware and recompute != "none" else 3)
    return weights * np.asarray(check_parameters(parameters), dtype=float)[()] + attention * layers * width * sequence_length


def run_exaflop(parameters: Any, tokens: Any, **shape: Any) -> Any:
    r"""Say how much work a run is, in 10^18 operations: the unit in which demand counts pretraining.

    .. math:: C = \frac{D\,C_\text{token}}{10^{18}}

    Args:
        parameters (N):
        tokens (D):
        **shape: Passed to `operations_per_token`.

    Examples:
        >>> round(run_exaflop(405e9, 15.6e12))
        37908000
    """
    return operations_per_token(parameters, **shape) * np.asarray(check_tokens(tokens), dtype=float)[()] / EXA


def utilisation_share(tokens_per_second: Any, per_token: Any, accelerators: Any, peak_tflops: Any) -> Any:
    r"""Say which share of the peak a measured run reaches: MFU with model operations, HFU with hardware operations.

    .. math:: u = \frac{C_\text{token}\, x}{n\,X_\text{peak}}

    Args:
        tokens_per_second (x):
        per_token (C_token): From `operations_per_token`; its kind decides whether the result is MFU or HFU.
        accelerators (n):
        peak_tflops (X_peak): Dense peak of the number format.

    Examples:
        >>> each = operations_per_token(6658859008, layers=32, width=4096, sequence_length=2048)
        >>> round(float(utilisation_share(85144, each, 8, 989.4)), 4)
        0.4644
    """
    _positive("accelerators", accelerators)
    _positive("peak_tflops", peak_tflops)
    return np.asarray(per_token, dtype=float)[()] * tokens_per_second / (np.asarray(accelerators, dtype=float) * peak_tflops * TERA)


def run_accelerator_hours(exaflop: Any, tflops_per_accelerator: Any) -> Any:
    r"""Say how many accelerator-hours a run takes at a rate that is kept up.

    .. math:: H = \frac{C}{3600\,X}

    Args:
        exaflop (C): Model operations where the rate counts those; hardware operations where it counts those.
        tflops_per_accelerator (X): Rate of one accelerator.

    Examples:
        >>> round(float(run_accelerator_hours(37_908_000, 400)) / 1e6, 1)
        26.3
    """
    _positive("tflops_per_accelerator", tflops_per_accelerator)
    return np.asarray(exaflop, dtype=float)[()] * EXA / (np.asarray(tflops_per_accelerator, dtype=float) * TERA * 3600)


def run_days(exaflop: Any, accelerators: Any, tflops_per_accelerator: Any) -> Any:
    r"""Say how many days a run takes on some accelerators that keep up a rate.

    .. math:: T = \frac{C}{86400\,n\,X}

    Args:
        exaflop (C):
        accelerators (n):
        tflops_per_accelerator (X):

    Examples:
        >>> work = run_exaflop(175e9, 300e9, recompute="full", hardware=True)
        >>> round(float(run_days(work, 992, 147)), 1), round(float(run_days(run_exaflop(175e9, 300e9), 992, 147)), 1)
        (33.3, 25.0)
    """
    _positive("accelerators", accelerators)
    return run_accelerator_hours(exaflop, tflops_per_accelerator) / (np.asarray(accelerators, dtype=float) * 24)


def run_usd(accelerator_hours: Any, usd_per_accelerator_hour: Any) -> Any:
    """Say what accelerator-hours of a run cost, the sum of its parts where several are given.

    Examples:
        >>> run_usd([2_664_000, 119_000, 5_000], 2.0)
        5576000.0
    """
    hours = np.asarray(accelerator_hours, dtype=float)
    if (hours < 0).any():
        raise CapplanError(f"accelerator_hours = {hours.min():g}: hours cannot be negative")
    return float((hours * np.asarray(usd_per_accelerator_hour, dtype=float)).sum())


def check_parameters(parameters: Any) -> Any:
    """Return parameters as given; refuse none, fewer than none, and billions typed as units."""
    return _in_units("parameters", parameters)


def check_tokens(tokens: Any) -> Any:
    """Return tokens as given; refuse none, fewer than none, and billions or trillions typed as units."""
    return _in_units("tokens", tokens)


def checked_counts(counts: Any) -> np.ndarray:
    """Return numbers of accelerators as an array of ascending, different whole numbers.

    Raises:
        CapplanError: For counts below 1 or that are no whole numbers.
    """
    n = np.atleast_1d(np.asarray(counts, dtype=float))
    bad = ~((n >= 1) & (n == np.floor(n)) & np.isfinite(n))
    if bad.any() or n.size == 0:
        raise CapplanError(f"accelerators = {n[bad][0] if bad.any() else 'none'}: a run takes a whole number of accelerators, 1 or more")
    return np.unique(n)


def _in_units(name: str, value: Any) -> Any:
    least, unit, words = LEAST_COUNTS[name]
    numbers = np.asarray(value, dtype=float)
    bad = ~(numbers >= least)
    if bad.any():
        found = float(numbers[bad].ravel()[0])
        if not found > 0:
            raise CapplanError(f"{name} = {found:g}: must be above 0")
        raise CapplanError(
            f"{name} = {found:g}: must be counted in units, and no run is that small. Was it typed in {words}? Then write"
            f" {found * unit:.6g}"
        )
    return value


def _positive(name: str, value: Any) -> None:
    numbers = np.asarray(value, dtype=float)
    bad = ~((numbers > 0) & np.isfinite(numbers))
    if bad.any():
        raise CapplanError(f"{name} = {float(numbers[bad].ravel()[0]):g}: must be above 0")


def _known(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise CapplanError(f"{name} = {value!r}: must be one of {', '.join(allowed)}")
