"""Roofline of a replica: the least time that memory, arithmetic and links allow for a prompt and for a token."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.questions.serving.replica_memory import BYTES_PER_GIB, BYTES_PER_WEIGHT, cache_bytes_per_token, cache_format

#: What a measurement and a question have in common: how a model is served, and under which load.
SETUP = ("model", "accelerator", "accelerators", "engine", "precision", "input_tokens", "output_tokens", "concurrency")
#: Share of the peak rate that large matrix products reach in practice.
ARITHMETIC_SHARE = 0.5
#: Time in which a layer starts its kernels, and one exchange between accelerators is begun (seconds).
LAYER_SECONDS = 2e-5
EXCHANGE_SECONDS = 1e-5
#: Time in which a request is received, split into tokens and scheduled (seconds).
HANDLING_SECONDS = 0.05
#: Share of the other requests' prompts that a prompt waits for on average: load generators start all requests at once, so that
#: the first of them queue, and later ones meet prompts in progress.
AHEAD_SHARE = 0.25
#: Share of memory kept free for activations and fragments.
RESERVE_SHARE = 0.1
TERA, GIGA = 1e12, 1e9


def rows_of(table: pd.DataFrame, key: str, names: pd.Series) -> pd.DataFrame:
    """Return the rows of a table by name, in the order of the names, or say which name is missing and which are near."""
    missing = sorted(set(names) - set(table[key]))
    if missing:
        raise CapplanError(f"the table {key}s has no {missing[0]!r}; {nearest(missing[0], table[key])}")
    return table.set_index(key).loc[list(names)].reset_index()


def complete(setups: pd.DataFrame) -> pd.DataFrame:
    """Fill in the parallelism that a setup leaves open: one worker that shares each layer among all its accelerators.

    Adds the columns separate (are prompts read on accelerators of their own?) and stated_workers (is it known how many workers there
    are?). What is filled in already stays as it is.
    """
    missing = [name for name in SETUP if name not in setups]
    if missing:
        raise CapplanError(f"a serving setup must say its {', '.join(missing)}; it has {', '.join(setups.columns)}")
    done = setups.reset_index(drop=True).copy()

    def given(name: str, otherwise: float | pd.Series) -> pd.Series:
        column = pd.to_numeric(done[name]) if name in done else pd.Series(np.nan, index=done.index)
        return column.fillna(otherwise).astype(float)

    done["data_parallel"] = given("data_parallel", 1.0)
    done["expert_parallel"] = given("expert_parallel", 1.0)
    done["separate"] = done["separate"] if "separate" in done else given("prefill_workers", 0.0) > 0
    done["stated_workers"] = done["stated_workers"] if "stated_workers" in done else given("decode_workers", 0.0) > 0
    done["decode_workers"] = given("decode_workers", 1.0)
    done["prefill_workers"] = given("prefill_workers", 1.0)
    done["tensor_parallel"] = given("tensor_parallel", np.maximum(1.0, done["accelerators"] / done["data_parallel"]))
    for name in ("tensor_parallel", "data_parallel", "expert_parallel"):
        done[f"prefill_{name}"] = given(f"prefill_{name}", done[name])
    for name in ("accelerators", "input_tokens", "output_tokens", "concurrency"):
        if not (done[name] > 0).all():
            raise CapplanError(f"{name} of a serving setup must be greater than 0; found {done[name].min():g}")
    unknown = sorted(set(done["precision"]) - set(BYTES_PER_WEIGHT))
    if unknown:
        raise CapplanError(f"weights have no number format {unknown[0]!r}; {nearest(unknown[0], BYTES_PER_WEIGHT)}")
    asked = done["cache_precision"] if "cache_precision" in done else pd.Series(None, index=done.index, dtype=object)
    done["cache_precision"] = [cache_format(*formats) for formats in zip(done["precision"], asked, strict=True)]
    return done


def _width(setups: pd.DataFrame, part: str) -> pd.Series:
    """Return the accelerators of one worker: its groups times their width, and at least as many as hold its experts."""
    return np.maximum(setups[f"{part}tensor_parallel"] * setups[f"{part}data_parallel"], setups[f"{part}expert_parallel"])


def expert_parameters(model: pd.DataFrame) -> pd.Series:
    r"""Return the parameters that sit in routed experts.

    .. math:: P_e = \frac{P - P_a}{1 - k/E}

    A token passes k of E experts, so the parameters P - P_a that it does not touch are the share 1 - k/E of all experts.
    """
    share = 1 - model["experts_per_token"] / model["experts"]
    hidden = model["parameters_total"] - model["parameters_active"]
    return (hidden / share).fillna(0.0).clip(upper=model["parameters_total"])


def peak_rate(precision: pd.Series, machine: pd.DataFrame) -> pd.Series:
    """Return the dense peak of one accelerator in the format of the weights, or in the next wider one it has (operations a second)."""
    peak = machine["bf16_tflops"]
    peak = peak.where(~precision.isin(["fp8", "int8", "fp4"]), machine["fp8_tflops"].fillna(peak))
    return peak.where(precision != "fp4", machine["fp4_tflops"].fillna(peak)) * TERA


def cache_bytes(model: pd.DataFrame, formats: pd.Series, tokens: pd.Series) -> pd.Series:
    """Return the bytes of a token in the cache of requests of those lengths, row by row."""
    known: dict[tuple[str, str, float], float] = {}
    of_model = {row["model"]: row for _, row in model.drop_duplicates("model").iterrows()}
    for asked in set(zip(model["model"], formats, tokens, strict=True)):
        known[asked] = cache_bytes_per_token(of_model[asked[0]], asked[1], asked[2])
    return pd.Series([known[asked] for asked in zip(model["model"], formats, tokens, strict=True)], index=model.index, dtype=float)


def attended_pairs(model: pd.DataFrame, tokens: pd.Series) -> pd.Series:
    r"""Return how many pairs of tokens all layers look at in a prompt.

    .. math:: L_f\frac{s^2}{2} + (L - L_f)\left(s\,w - \frac{w^2}{2}\right)

    with a window w no longer than the prompt s; L_f layers look at all before them.
    """
    window = (model["window_tokens"] if "window_tokens" in model else pd.Series(np.nan, index=model.index)).fillna(np.inf)
    full = (model["full_attention_layers"] if "full_attention_layers" in model else pd.Series(np.nan, index=model.index)).fillna(0.0)
    full, seen = full.where(np.isfinite(window), model["layers"]), np.minimum(window, tokens)
    return full * tokens**2 / 2 + (model["layers"] - full) * (tokens * seen - seen**2 / 2)


def roofline(setups: pd.DataFrame, models: pd.DataFrame, accelerators: pd.DataFrame) -> pd.DataFrame:
    r"""Say how fast a replica could be at best, and from which part of the machine each second comes.

    .. math::

        t_\text{token} = L\,t_0 + \max(t_w, t_c) + t_{kv} + t_p + t_x,\qquad
        t_w = \frac{b\,(P - P_e + P_e\,(1-(1-k/E)^n))}{g\,B},\quad t_{kv} = \frac{n\,s\,m}{g\,B},\quad t_c = \frac{2 P_a n}{\eta\,g\,F}

        t_\text{first} = t_h + (1 + \alpha\,n)\,t_\text{prompt},\qquad
        t_\text{prompt} = L\,t_0 + \frac{2 P_a n_\text{in} + 4 d\,A(n_\text{in})}{\eta\,g\,F}

    n requests share g accelerators of bandwidth B and rate F; a token reads the weights touched by the batch (b bytes each; a batch
    touches more experts than a token), and the cache of s tokens of m bytes; A are the pairs of tokens that attention looks at. Prompts of
    new requests are read in between (t_p) unless
    they have accelerators of their own; t_x are two exchanges a layer. A prompt waits for the share alpha of the others' prompts, and
    requests that find no room in the cache wait until there is; both are part of the time to first token.

    Args:
        setups: model, accelerator, accelerators, engine, precision, input_tokens, output_tokens, concurrency, and where it is known the
            parallelism (columns as in serving_runs).

    Returns:
        DataFrame: One row a setup: first_token_seconds, token_seconds; their parts, which are weights_seconds, cache_seconds,
            arithmetic_seconds, prompt_seconds, exchange_seconds, overhead_seconds of a token, and handling_seconds, prefill_seconds,
            ahead_seconds, waiting_seconds of the first; held (requests that fit), batch (requests of one group), touched_share (of the
            experts), fits (do the weights?).

    Raises:
        CapplanError: If a model or accelerator is unknown (naming the nearest), or a number format or load is none.
    """
    done = complete(setups)
    model, machine = rows_of(models, "model", done["model"]), rows_of(accelerators, "accelerator", done["accelerator"])
    bytes_per_weight = done["precision"].map(BYTES_PER_WEIGHT)
    peak = peak_rate(done["precision"], machine) * ARITHMETIC_SHARE
    bandwidth, link = machine["memory_bandwidth_gbps"] * GIGA, machine["link_gbps"].fillna(64.0) * GIGA / 2
    together = ~done["separate"]
    decode_accelerators = _width(done, "").where(done["separate"], done["accelerators"])
    prefill_accelerators = _width(done, "prefill_").where(done["separate"], done["accelerators"])

    length = done["input_tokens"] + done["output_tokens"] / 2
    per_token = cache_bytes(model, done["cache_precision"], length)
    weights = model["parameters_total"] * bytes_per_weight
    room = (1 - RESERVE_SHARE) * machine["memory_gib"] * decode_accelerators * BYTES_PER_GIB - weights
    per_worker = done["concurrency"] / done["decode_workers"]
    capacity = (room / (per_token * length)).clip(lower=1.0)
    held = np.minimum(per_worker, capacity)

    experts = expert_parameters(model)
    chosen = (model["experts_per_token"] / model["experts"]).fillna(1.0)
    touched = 1 - (1 - chosen) ** np.maximum(held, 1.0)
    weights_seconds = bytes_per_weight * (model["parameters_total"] - experts * (1 - touched)) / (decode_accelerators * bandwidth)
    cache_seconds = held * per_token * length / (decode_accelerators * bandwidth)
    arithmetic_seconds = 2 * model["parameters_active"] * held / (decode_accelerators * peak)
    attention = 4.0 * model["attention_heads"] * model["head_size"] * attended_pairs(model, done["input_tokens"])
    prompt = (2 * model["parameters_active"] * done["input_tokens"] + attention) / (prefill_accelerators * peak)
    prompt_seconds = (held * prompt / done["output_tokens"]).where(together, 0.0)
    exchanged = EXCHANGE_SECONDS + held / done["data_parallel"] * model["hidden_size"] * 2 * 2 / link
    exchange_seconds = (2 * model["layers"] * exchanged).where(decode_accelerators > 1, 0.0)
    overhead = model["layers"] * LAYER_SECONDS
    token_seconds = overhead + np.maximum(weights_seconds, arithmetic_seconds) + cache_seconds + prompt_seconds + exchange_seconds
    waiting = (per_worker / held - 1) * token_seconds * done["output_tokens"]
    prefill = overhead + prompt
    ahead = AHEAD_SHARE * done["concurrency"] / done["prefill_workers"] * prefill
    return pd.DataFrame(
        {
            "first_token_seconds": HANDLING_SECONDS + prefill + ahead + waiting,
            "token_seconds": token_seconds,
            "weights_seconds": weights_seconds,
            "cache_seconds": cache_seconds,
            "arithmetic_seconds": arithmetic_seconds,
            "prompt_seconds": prompt_seconds,
            "exchange_seconds": exchange_seconds,
            "overhead_seconds": overhead,
            "handling_seconds": HANDLING_SECONDS,
            "prefill_seconds": prefill,
            "ahead_seconds": ahead,
            "waiting_seconds": waiting,
            "held": held,
            "batch": held / done["data_parallel"],
            "touched_share": touched,
            "fits": room > 0,
        }
    )
