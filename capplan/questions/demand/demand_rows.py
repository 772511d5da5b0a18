"""Usage rows made clean: zones, gaps, repeats and negative figures mended with a note, and the demand that capacity hid added."""

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.regular_series import DAY

#: An interval of which a log covers less than this says too little of the whole.
LEAST_COVERED_SHARE = 0.5


def demand_rows(usage: pd.DataFrame, a: DemandAssumptions, notes: list[str]) -> pd.DataFrame:
    """Sort usage rows, drop what cannot be used and add the demand that capacity hid.

    Args:
        a: Assumptions; as_of and unmet_share are used.
        notes: Repairs are appended here, in words.

    Returns:
        pandas.DataFrame: workload, region, time, quantity, demand, unmet (demand minus quantity), queue_known, refused_known; sorted by the
            first three.
    """
    rows = usage[["time", "workload"]].copy()
    rows["region"] = usage["region"].fillna("any") if "region" in usage else "any"
    times = pd.to_datetime(rows["time"], utc=True) if getattr(rows["time"].dtype, "tz", None) is not None else rows["time"]
    rows["time"] = times.dt.tz_localize(None) if getattr(times.dtype, "tz", None) is not None else times
    for name in ("quantity", "queued_quantity", "refused_quantity"):
        rows[name] = usage[name].to_numpy(dtype=float, na_value=np.nan) if name in usage else np.nan
    rows["queue_known"] = rows["queued_quantity"].notna()
    rows["refused_known"] = rows["refused_quantity"].notna()
    future = rows["time"] >= pd.Timestamp(a.as_of) + DAY
    if future.any():
        notes.append(f"{int(future.sum())} usage rows lie after {a.as_of} and were left out: a forecast must not know its future.")
        rows = rows[~future]
    bad = ~np.isfinite(rows["quantity"])
    if bad.any():
        notes.append(f"{int(bad.sum())} usage rows have no finite quantity and were treated as gaps.")
        rows = rows[~bad]
    rows = _whole_intervals(rows, usage, notes)
    negative = rows["quantity"] < 0
    if negative.any():
        names = ", ".join(sorted(rows.loc[negative, "workload"].unique()))
        notes.append(
            f"{int(negative.sum())} negative quantities ({names}) were set to zero: work cannot be negative; credits belong in the bill."
        )
        rows["quantity"] = rows["quantity"].clip(lower=0.0)
    key = ["workload", "region", "time"]
    rows = rows.sort_values([*key, "quantity", "queued_quantity", "refused_quantity"], kind="stable").reset_index(drop=True)
    duplicate = rows.duplicated(key, keep="last")
    if duplicate.any():
        names = ", ".join(sorted(rows.loc[duplicate, "workload"].unique()))
        notes.append(f"{int(duplicate.sum())} rows repeat a time of the same workload and region ({names}); the largest quantity was kept.")
        rows = rows[~duplicate]
    growth = rows["queued_quantity"].fillna(0.0) - rows.groupby(["workload", "region"])["queued_quantity"].shift(fill_value=0.0).fillna(0.0)
    first = ~rows.duplicated(["workload", "region"])
    hidden = a.unmet_share * (growth.where(~first, 0.0) + rows["refused_quantity"].fillna(0.0))
    rows["demand"] = (rows["quantity"] + hidden).clip(lower=0.0)
    rows["unmet"] = rows["demand"] - rows["quantity"]
    return rows.reset_index(drop=True)


def _whole_intervals(rows: pd.DataFrame, usage: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Scale intervals that a log covers in part up to the whole, and leave out those of which it covers too little to say."""
    if "covered_share" not in usage:
        return rows
    share = usage["covered_share"].reindex(rows.index).astype(float).fillna(1.0)
    part, little = (share < 1) & (share >= LEAST_COVERED_SHARE), share < LEAST_COVERED_SHARE
    if part.any():
        notes.append(f"{int(part.sum())} intervals that a log covers in part were scaled up to the whole interval.")
    if little.any():
        notes.append(f"{int(little.sum())} intervals of which a log covers less than half were left out.")
    for name in ("quantity", "queued_quantity", "refused_quantity"):
        rows[name] = rows[name] / share
    return rows[~little]
