"""Latency and throughput of a replica at a load: measured or modelled, and how sure that is."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.inputs.assumptions_performance import PerformanceAssumptions
from capplan.questions.serving.measured import METRICS, interpolate, usable_runs
from capplan.questions.serving.memory import BYTES_PER_GIB, BYTES_PER_WEIGHT
from capplan.questions.serving.roofline import complete, roofline, rows_of

#: Measured latency over the roofline's: median, and the band of nine in ten, set while looking at 3,669 public measurements: a judgement, no fit.
ROOFLINE_RATIO = {"first_token_seconds": (2.5, 6.0), "token_seconds": (1.6, 2.5), "request_seconds": (1.6, 2.5)}
#: Band of a value read off measured points: repeated measurements differ by that factor.
MEASURED_FACTOR = 1.1
NORMAL_P99 = 2.3263478740408408
PERCENTILES = {"p50": 0.0, "p95": 1.6448536269514722, "p99": NORMAL_P99}


def request_seconds(first_token_seconds: pd.Series, token_seconds: pd.Series, output_tokens: pd.Series) -> pd.Series:
    """Return the time of a whole request: its first token, and the others one after another."""
    return first_token_seconds + token_seconds * (output_tokens - 1).clip(lower=0.0)


def replica_performance(
    setups: pd.DataFrame,
    serving_runs: pd.DataFrame,
    models: pd.DataFrame,
    accelerators: pd.DataFrame,
    a: PerformanceAssumptions,
) -> pd.DataFrame:
    r"""Say how fast one copy of a model serves at each load, and on what the answer rests.

    .. math:: x = \frac{n\,n_\text{out}}{\mathrm{TTFT} + (n_\text{out}-1)\,\mathrm{TPOT}}

    Throughput x follows from the n requests in progress and their latency (Little's law).

    Parameters
    ----------
    setups
        One row a question: model, accelerator, accelerators (of one replica), engine, precision, input_tokens, output_tokens,
        concurrency (requests in progress in the replica); optionally the parallelism, as in serving_runs.
    serving_runs, models, accelerators
        Tables of these names; serving_runs may be empty.
    a
        Assumptions; see PerformanceAssumptions.

    Returns
    -------
    DataFrame
        The setups with first_token_seconds, token_seconds, request_seconds (means), output_tokens_per_second (of the replica), each
        with its band (_lower, _upper); first_token_seconds_p50, _p95, _p99 and token_seconds_p50, _p95, _p99; requests_per_second,
        basis ("measured" = read off measured points of this very setup, "modelled" = the roofline alone), first_token_error_share and token_error_share (half width of the band, as a share of
        the value), and note.

    Raises
    ------
    CapplanError
        If a model or accelerator is unknown (naming the nearest), or the weights do not fit into the replica.
    """
    done = complete(setups)
    roof = roofline(done, models, accelerators)
    if not roof["fits"].all():
        row = done[~roof["fits"]].iloc[0]
        weights = float(rows_of(models, "model", pd.Series([row["model"]]))["parameters_total"].iloc[0])
        needed = weights * BYTES_PER_WEIGHT[row["precision"]] / BYTES_PER_GIB
        raise CapplanError(
            f"{row['model']} in {row['precision']} needs {needed:,.0f} GiB for its weights, more than {row['accelerators']:g} "
            f"{row['accelerator']} hold beside their working memory; give the replica more accelerators, or a smaller number format"
        )
    values = pd.DataFrame({name: roof[name] * ROOFLINE_RATIO[name][0] for name in METRICS})
    values["request_seconds"] = request_seconds(values["first_token_seconds"], values["token_seconds"], done["output_tokens"])
    factors = pd.DataFrame({name: ratio[1] for name, ratio in ROOFLINE_RATIO.items()}, index=done.index)
    basis = pd.Series("modelled", index=done.index)

    runs = usable_runs(serving_runs, a.use_unfinished_runs)
    found = interpolate(done, runs)
    known = found["token_seconds"].notna()
    for name in METRICS:
        values[name] = found[name].where(known, values[name])
    values["request_seconds"] = request_seconds(values["first_token_seconds"], values["token_seconds"], done["output_tokens"])
    factors[known] = MEASURED_FACTOR
    basis[known] = "measured"
    return _answer(done, values, factors, basis, found, a)


def _answer(
    done: pd.DataFrame, values: pd.DataFrame, factors: pd.DataFrame, basis: pd.Series, found: pd.DataFrame, a: PerformanceAssumptions
) -> pd.DataFrame:
    """Put values, bands, percentiles and labels side by side."""
    answer = done.copy()
    for name in ("first_token_seconds", "token_seconds", "request_seconds"):
        answer[name] = values[name]
        answer[f"{name}_lower"], answer[f"{name}_upper"] = values[name] / factors[name], values[name] * factors[name]
    for end, opposite in (("", ""), ("_lower", "_upper"), ("_upper", "_lower")):
        answer[f"output_tokens_per_second{end}"] = done["concurrency"] * done["output_tokens"] / answer[f"request_seconds{opposite}"]
    answer["requests_per_second"] = done["concurrency"] / answer["request_seconds"]
    for name, ratio in (("first_token_seconds", a.first_token_p99_ratio), ("token_seconds", a.token_p99_ratio)):
        ratios = (found[f"{name}_p99"] / values[name]).fillna(ratio).clip(lower=1.0)
        width = [spread_of(value) for value in ratios]
        for label, normal in PERCENTILES.items():
            answer[f"{name}_{label}"] = values[name] * np.exp(np.array(width) * normal - np.array(width) ** 2 / 2)
    answer["basis"] = basis
    answer["first_token_error_share"] = factors["first_token_seconds"] - 1
    answer["token_error_share"] = factors["token_seconds"] - 1
    answer["note"] = np.where(found["unfinished"], "rests on a measurement that its source calls work in progress", "")
    return answer.reset_index(drop=True)


def spread_of(p99_ratio: float) -> float:
    r"""Return the width of the lognormal distribution whose 99th percentile is that many means.

    .. math:: \ln r = z\,\sigma - \sigma^2/2 \;\Rightarrow\; \sigma = z - \sqrt{z^2 - 2\ln r}

    Parameters
    ----------
    p99_ratio : r
        99th percentile over mean; above e to the power z squared over two there is none, and the widest is returned.

    Examples
    --------
    >>> round(spread_of(1.0), 6)
    0.0
    """
    return NORMAL_P99 - math.sqrt(max(0.0, NORMAL_P99**2 - 2 * math.log(p99_ratio)))
