"""Measured points of a replica: which curve a question lies on, and the value between two of its points."""

from __future__ import annotations

import numpy as np
import pandas as pd

from capplan.questions.serving.roofline import complete

#: What makes measurements one curve: all but the load.
CURVE = (
    "model",
    "accelerator",
    "accelerators",
    "engine",
    "precision",
    "separate",
    "tensor_parallel",
    "data_parallel",
    "expert_parallel",
    "decode_workers",
    "prefill_workers",
    "prefill_tensor_parallel",
    "prefill_data_parallel",
    "prefill_expert_parallel",
)
TOKENS = ("input_tokens", "output_tokens")
METRICS = ("first_token_seconds", "token_seconds")
#: Two neighbouring points of a curve further apart than this factor in concurrency are not joined.
LARGEST_GAP = 4.0
#: Lengths of prompt and answer this near (share) count as the measured ones.
SAME_TOKENS_SHARE = 0.05


def usable_runs(serving_runs: pd.DataFrame, use_unfinished: bool) -> pd.DataFrame:
    """Return the runs that may be used, each measurement once, with the parallelism filled in and a column curve.

    A measurement that is listed twice (equal load and latencies to the last digit) is one; the listing that says most about the
    parallelism is kept.
    """
    runs = serving_runs
    if "work_in_progress" in runs and not use_unfinished:
        runs = runs[~runs["work_in_progress"].eq(True)]
    same = ["model", "accelerator", *TOKENS, "concurrency", *METRICS]
    said = [name for name in CURVE if name in runs]
    order = runs[said].notna().sum(axis=1).sort_values(ascending=False, kind="stable").index
    runs = complete(runs.loc[order].drop_duplicates(same).sort_index())
    runs["curve"] = curve_of(runs)
    return runs


def curve_of(runs: pd.DataFrame) -> pd.Series:
    """Return the name of each row's curve."""
    return runs[list(CURVE)].astype(str).agg(" ".join, axis=1) if len(runs) else pd.Series(dtype=str)


def interpolate(setups: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the measured value at each setup's load, or nothing where its curve was not measured around it.

    Between two measured points the logarithm of the latency is a straight line over the logarithm of the concurrency; several
    measurements of one point are averaged (geometric mean), and a point under more load counts as no faster than one under less.

    Parameters
    ----------
    setups
        Filled in by `complete`.
    runs
        From `usable_runs`.

    Returns
    -------
    DataFrame
        One row a setup: first_token_seconds, token_seconds (empty = not measured), points (measurements used), unfinished (is one of
        them work in progress?), the 99th percentiles first_token_seconds_p99 and token_seconds_p99 where a point has them, and for both
        latencies the largest measured under no more load (_least) and the smallest under no less (_most), where the curve has such.
    """
    names = [*METRICS, *(f"{name}_p99" for name in METRICS)]
    ends_of = [f"{name}_{end}" for name in METRICS for end in ("least", "most")]
    found = pd.DataFrame(np.nan, index=setups.index, columns=[*names, *ends_of, "points"])
    found["points"], found["unfinished"] = 0, False
    curves = dict(tuple(runs.groupby("curve"))) if len(runs) else {}
    for row, curve in curve_of(setups).items():
        part = curves.get(curve)
        if part is None:
            continue
        setup = setups.loc[row]
        near = pd.concat([np.abs(np.log(part[name] / setup[name])) for name in TOKENS], axis=1).max(axis=1)
        part = part[near <= min(near.min(), np.log1p(SAME_TOKENS_SHARE))]
        logs = pd.DataFrame({name: np.log(part[name].astype(float)) if name in part else np.nan for name in names}, index=part.index)
        # Repeated measurements scatter; what happened to be measured faster under more load is no law.
        points = logs.groupby(part["concurrency"]).mean().cummax()
        load = float(setup["concurrency"])
        below, above = points.index[points.index <= load], points.index[points.index >= load]
        for name in METRICS:
            found.loc[row, f"{name}_least"] = np.exp(points.loc[below, name].max())
            found.loc[row, f"{name}_most"] = np.exp(points.loc[above, name].min())
        if not len(below) or not len(above) or above[0] / below[-1] > LARGEST_GAP:
            continue
        ends = [below[-1], above[0]]
        share = 0.0 if ends[0] == ends[1] else np.log(load / ends[0]) / np.log(ends[1] / ends[0])
        found.loc[row, names] = np.exp((1 - share) * points.loc[ends[0]] + share * points.loc[ends[1]])
        used = part["concurrency"].isin(ends)
        found.loc[row, "points"] = int(used.sum())
        if "work_in_progress" in part:
            found.loc[row, "unfinished"] = bool(part.loc[used, "work_in_progress"].eq(True).any())
    return found
