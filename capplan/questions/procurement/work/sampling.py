"""Fewer paths that stand for many."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError


def sample_paths(demand: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    """Choose paths that spread evenly over total demand.

    Paths are ordered by total demand (each workload or class relative to its mean, since units differ), cut into `count` strata of equal
    probability, and one
    path of each stratum is drawn with its probability; it takes the probability of the stratum.

    Args:
        demand: path, probability, workload (or class), and quantity (or hours and work_per_hour).

    Returns:
        DataFrame: The rows of the chosen paths, with their new probability; the same rows where there are no more paths than `count`.

    Raises:
        CapplanError: If fewer than one path is asked for.
    """
    if count < 1:
        raise CapplanError(f"plan_paths is {count}; at least one path is needed")
    paths = demand[["path", "probability"]].drop_duplicates("path").sort_values("path").reset_index(drop=True)
    if len(paths) <= count:
        return demand.reset_index(drop=True)
    total = total_by_path(demand).reindex(paths["path"]).to_numpy()
    order = np.lexsort((paths["path"].to_numpy(), total))
    probability = paths["probability"].to_numpy(float)[order] / paths["probability"].sum()
    reached = np.cumsum(probability)
    draws = (np.arange(count) + np.random.default_rng(seed).random(count)) / count
    chosen = np.minimum(np.searchsorted(reached, draws, side="left"), len(order) - 1)
    weight = pd.Series(1.0 / count, index=paths["path"].to_numpy()[order[chosen]]).groupby(level=0).sum()
    kept = demand[demand["path"].isin(weight.index)].reset_index(drop=True)
    return kept.assign(probability=kept["path"].map(weight))


def total_by_path(demand: pd.DataFrame) -> pd.Series:
    """Add up the demand of each path, each workload or class relative to its mean over paths, since units differ.

    Args:
        demand: path, workload (or class), and quantity (or hours and work_per_hour).
    """
    kind = "workload" if "workload" in demand else "class"
    amount = demand["quantity"] if "quantity" in demand else demand["hours"] * demand["work_per_hour"]
    by_kind = amount.groupby([demand["path"], demand[kind]]).sum().unstack(fill_value=0.0)
    mean = by_kind.mean()
    return (by_kind / mean.where(mean > 0, 1.0)).sum(axis=1)
