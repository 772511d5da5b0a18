"""Memory of a replica: weights, cache per token, and how many requests fit."""

import math
from dataclasses import dataclass

import pandas as pd

from capplan.errors import CapplanError, nearest

#: Bytes of one weight; 4-bit formats carry a scale of 8 bits for 16 values.
BYTES_PER_WEIGHT = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5625, "int4": 0.5625}
BYTES_PER_CACHE_VALUE = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
#: Weights in these formats go with a cache in 8 bit unless another is asked for; wider ones with one in 16 bit.
NARROW = ("fp8", "int8", "fp4", "int4")
#: Number of accelerators that share one copy of a model, in the order they are tried.
PARALLEL = (1, 2, 4, 8, 16, 32, 64)
BYTES_PER_GIB = 2.0**30


@dataclass(frozen=True)
class Replica:
    """Memory of one copy of a model.

    Args:
        accelerators: Accelerators that share the copy.
        weights_gib, cache_gib, reserve_gib: Memory of the weights, left for the cache, and kept free (activations, fragmentation).
        cache_bytes_per_token: Cache of one token.
        tokens, concurrency: Tokens that fit into the cache, and requests of the stated length.
    """

    accelerators: int
    weights_gib: float
    cache_gib: float
    reserve_gib: float
    cache_bytes_per_token: float
    tokens: int
    concurrency: int


def model_of(models: pd.DataFrame, name: str) -> pd.Series:
    """Find an architecture by name, or name the nearest ones."""
    found = models[models["model"] == name]
    if found.empty:
        raise CapplanError(f"the table models has no {name!r}; {nearest(name, models['model'])}")
    return found.iloc[0]


def cache_format(precision: str, asked: str | None = None) -> str:
    """Return the number format of the cache: the one asked for, or that which goes with the weights.

    Memory and roofline of one answer both take it from here.

    Raises:
        CapplanError: If the format asked for is not known.

    Examples:
        >>> cache_format("fp8"), cache_format("bf16"), cache_format("fp8", "bf16")
        ('fp8', 'bf16', 'bf16')
    """
    if asked is None or pd.isna(asked) or asked in ("", "as_weights"):
        return "fp8" if precision in NARROW else "bf16"
    if asked not in BYTES_PER_CACHE_VALUE:
        raise CapplanError(f"the cache has no number format {asked!r}; {nearest(asked, BYTES_PER_CACHE_VALUE)}")
    return asked


def cache_bytes_per_token(model: pd.Series, precision: str = "bf16", tokens: float = 1.0) -> float:
    r"""Say how many bytes one token takes in the cache of a request that is some tokens long.

    .. math:: m = 2\,H_{kv}\,d\,b\,\frac{L_f\,s + (L - L_f)\min(s, w)}{s}

    Layers L, key-value heads H (fewer than query heads in grouped-query attention), head size d and bytes of a value b; models with
    latent attention state their values per layer. Layers with a sliding window w keep its tokens only; L_f look at all.

    Args:
        model: A row of the table models.
        precision (b): Number format of the cache.
        tokens (s): Length of the request; 1 lies inside every window.

    Raises:
        CapplanError: If the number format is not known.

    Examples:
        >>> cache_bytes_per_token(pd.Series({"layers": 80, "kv_heads": 8, "head_size": 128}))
        327680.0
        >>> gpt_oss = pd.Series({"layers": 36, "kv_heads": 8, "head_size": 64, "window_tokens": 128, "full_attention_layers": 18})
        >>> cache_bytes_per_token(gpt_oss), round(cache_bytes_per_token(gpt_oss, tokens=8192))
        (73728.0, 37440)
    """
    if precision not in BYTES_PER_CACHE_VALUE:
        raise CapplanError(f"the cache has no number format {precision!r}; {nearest(precision, BYTES_PER_CACHE_VALUE)}")
    stated = model.get("cache_values_per_layer")
    values = 2.0 * model["kv_heads"] * model["head_size"] if stated is None or pd.isna(stated) else float(stated)
    window, full = model.get("window_tokens"), model.get("full_attention_layers")
    layers = float(model["layers"])
    if window is not None and not pd.isna(window) and tokens > window:
        full = 0.0 if full is None or pd.isna(full) else float(full)
        layers = full + (layers - full) * float(window) / tokens
    return float(layers * values * BYTES_PER_CACHE_VALUE[precision])


def weight_gib(parameters: float, precision: str) -> float:
    """Say how much memory the weights take (GiB)."""
    if precision not in BYTES_PER_WEIGHT:
        raise CapplanError(f"weights have no number format {precision!r}; {nearest(precision, BYTES_PER_WEIGHT)}")
    return parameters * BYTES_PER_WEIGHT[precision] / BYTES_PER_GIB


def replica_memory(
    model: pd.Series,
    memory_gib: float,
    accelerators: int,
    tokens_per_request: float,
    *,
    precision: str = "fp8",
    cache_precision: str | None = None,
    reserve_share: float = 0.1,
) -> Replica:
    """Say how many requests fit into one copy of a model.

    Args:
        model: A row of the table models.
        memory_gib: Memory of one accelerator.
        accelerators: Accelerators that share the copy.
        tokens_per_request: Longest mean length of a request in the cache: input and output tokens.
        precision, cache_precision: Number formats of weights and cache; the cache's goes with the weights where none is asked for.

    Returns:
        Replica: With concurrency 0 where the weights alone do not fit.

    Raises:
        CapplanError: If a number format is not known or the share is no share.
    """
    if not 0 <= reserve_share < 1:
        raise CapplanError(f"reserve_share is {reserve_share:g}; it is a share from 0 to 1, so 10 % is 0.1")
    weights = weight_gib(float(model["parameters_total"]), precision)
    reserve = reserve_share * memory_gib * accelerators
    room = max(0.0, memory_gib * accelerators - reserve - weights)
    per_token = cache_bytes_per_token(model, cache_format(precision, cache_precision), max(1.0, tokens_per_request))
    tokens = math.floor(room * BYTES_PER_GIB / per_token)
    return Replica(accelerators, weights, room, reserve, per_token, tokens, math.floor(tokens / max(1.0, tokens_per_request)))


def smallest_replica(
    model: pd.Series,
    accelerator: pd.Series,
    tokens_per_request: float,
    *,
    precision: str = "fp8",
    cache_precision: str | None = None,
    reserve_share: float = 0.1,
    most_accelerators: int = 8,
) -> Replica:
    """Say how many accelerators one copy needs at least (one request must fit).

    Raises:
        CapplanError: If the model does not fit the largest number of accelerators allowed, saying what it needs.
    """
    for count in (count for count in PARALLEL if count <= most_accelerators):
        found = replica_memory(
            model,
            float(accelerator["memory_gib"]),
            count,
            tokens_per_request,
            precision=precision,
            cache_precision=cache_precision,
            reserve_share=reserve_share,
        )
        if found.concurrency >= 1:
            return found
    needed = weight_gib(float(model["parameters_total"]), precision)
    held = float(accelerator["memory_gib"]) * most_accelerators * (1 - reserve_share)
    raise CapplanError(
        f"{model['model']} in {precision} needs {needed:,.0f} GiB for its weights and {tokens_per_request:,.0f} tokens of cache;"
        f" {most_accelerators} {accelerator['accelerator']} hold {held:,.0f} GiB. Name an accelerator with more memory, more accelerators a"
        " replica, or a smaller number format"
    )
