"""Measured points of a replica: which curve a question lies on, and the value between two of its points."""

import numpy as np
import pandas as pd

from capplan.questions.serving.roofline import complete
from capplan.records import word_list

#: What makes measurements one curve: all but the load.
CURVE = word_list(
    "model accelerator accelerators engine precision separate tensor_parallel data_parallel expert_parallel decode_workers prefill_workers"
    " prefill_tensor_parallel prefill_data_parallel prefill_expert_parallel"
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
    rows = runs[list(CURVE)].astype(str).itertuples(index=False, name=None)
    return pd.Series([" ".join(row) for row in rows], index=runs.index, dtype=object)


def interpolate(setups: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the measured value at each setup's load, or nothing where its curve was not measured around it.

    Between two measured points the logarithm of the latency is a straight line over the logarithm of the concurrency; several
    measurements of one point are averaged (geometric mean), and a point under more load counts as no faster than one under less.

    Args:
        setups: Filled in by `complete`.
        runs: From `usable_runs`.

    Returns:
        DataFrame: One row a setup: first_token_seconds, token_seconds (empty = not measured), points (measurements used), unfinished (is
            one of them work in progress?), the 99th percentiles first_token_seconds_p99 and token_seconds_p99 where a point has them, and
            for both latencies the largest measured under no more load (_least) and the smallest under no less (_most), where the curve has
            such.
    """
    names = [*METRICS, *(f"{name}_p99" for name in METRICS)]
    found = {
        name: np.full(len(setups), np.nan)
        for name in (*names, *(f"{name}_{end}" for name in METRICS for end in ("least", "most")), "points")
    }
    found["points"][:] = 0
    found["unfinished"] = np.zeros(len(setups), dtype=bool)
    curves = dict(tuple(runs.groupby("curve"))) if len(runs) else {}
    words = curve_of(setups).to_numpy()
    asked = setups[[*TOKENS, "concurrency"]].to_numpy(dtype=float)
    for curve in set(words) & set(curves):
        of_curve = np.flatnonzero(words == curve)
        for tokens in np.unique(asked[of_curve, :2], axis=0):
            rows = of_curve[(asked[of_curve, :2] == tokens).all(axis=1)]
            _read_curve(curves[curve], tokens, asked[rows, 2], rows, names, found)
    return pd.DataFrame(found, index=setups.index)


def _read_curve(
    part: pd.DataFrame, tokens: np.ndarray, loads: np.ndarray, rows: np.ndarray, names: list[str], found: dict[str, np.ndarray]
) -> None:
    """Read the points of one curve whose requests are as long as asked at some loads, into the rows of what was found."""
    near = np.abs(np.log(part[list(TOKENS)].to_numpy(dtype=float) / tokens)).max(axis=1)
    part = part[near <= min(near.min(), np.log1p(SAME_TOKENS_SHARE))]
    if part.empty:
        return
    logs = pd.DataFrame({name: np.log(part[name].astype(float)) if name in part else np.nan for name in names}, index=part.index)
    # Repeated measurements scatter; what happened to be measured faster under more load is no law.
    points = logs.groupby(part["concurrency"]).mean().cummax()
    at, values = points.index.to_numpy(dtype=float), points.to_numpy(dtype=float)
    below, above = np.searchsorted(at, loads, side="right") - 1, np.searchsorted(at, loads, side="left")
    for place, name in enumerate(METRICS):
        found[f"{name}_least"][rows] = np.where(below >= 0, np.exp(values[np.maximum(below, 0), place]), np.nan)
        found[f"{name}_most"][rows] = np.where(above < len(at), np.exp(values[np.minimum(above, len(at) - 1), place]), np.nan)
    inside = (below >= 0) & (above < len(at))
    low, high = np.maximum(below, 0), np.minimum(above, len(at) - 1)
    inside &= at[high] / at[low] <= LARGEST_GAP
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(low == high, 0.0, np.log(loads / at[low]) / np.log(at[high] / at[low]))[:, None]
    read = np.exp((1 - share) * values[low] + share * values[high])
    counts = part.groupby("concurrency").size().reindex(at).to_numpy()
    wip = part["work_in_progress"].eq(True) if "work_in_progress" in part else pd.Series(False, index=part.index)
    open_ends = wip.groupby(part["concurrency"]).any().reindex(at).to_numpy(dtype=bool)
    for place, name in enumerate(names):
        found[name][rows[inside]] = read[inside, place]
    found["points"][rows[inside]] = np.where(low == high, counts[low], counts[low] + counts[high])[inside]
    found["unfinished"][rows[inside]] = (open_ends[low] | open_ends[high])[inside]
