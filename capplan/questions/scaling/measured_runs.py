"""Measured scaling runs, checked and brought to one form: a rate of work on a number of accelerators."""

import numpy as np
import pandas as pd

from capplan.book.terms import TIME_UNITS
from capplan.errors import CapplanError

MINIMUM_COUNTS = 3
#: A batch that follows the accelerators within this share is weak scaling; one that stays within it is strong.
SAME_SHARE = 0.05


def measured_points(runs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], tuple[str, ...]]:
    """Check measured runs and turn times into rates.

    Args:
        runs: accelerators, throughput; optional curve, unit, scaling, global_batch.

    Returns:
        points : DataFrame: curve, accelerators, throughput (a rate), global_batch; ordered by curve and count.
        kinds : dict: "strong", "weak" or "mixed" by curve.
        notes : tuple of str

    Raises:
        CapplanError: Listing all that cannot be fitted.
    """
    missing = [name for name in ("accelerators", "throughput") if name not in runs.columns]
    if missing:
        raise CapplanError(f"scaling runs lack the column {missing[0]}; found {', '.join(map(str, runs.columns))}")
    if runs.empty:
        raise CapplanError(f"there are no scaling runs; give at least {MINIMUM_COUNTS} runs on different numbers of accelerators")
    points = pd.DataFrame(
        {
            "curve": runs["curve"].astype(str) if "curve" in runs else "all",
            "accelerators": pd.to_numeric(runs["accelerators"]).astype(float),
            "throughput": pd.to_numeric(runs["throughput"]).astype(float),
            "unit": runs.get("unit"),
            "scaling": runs.get("scaling"),
            "global_batch": pd.to_numeric(runs["global_batch"]).astype(float) if "global_batch" in runs else np.nan,
        }
    )
    points = points.sort_values(["curve", "accelerators", "throughput"], kind="stable", ignore_index=True)
    faults: list[str] = []
    kinds: dict[str, str] = {}
    notes: list[str] = []
    for curve, part in points.groupby("curve", sort=True):
        name = str(curve)
        faults += _faults(name, part)
        kinds[name], note = _kind(name, part)
        notes += [note] if note else []
        if kinds[name] == "both":
            faults.append(f"curve {name} holds both strong and weak scaling; give each its own curve, since they follow different laws")
        if part["unit"].isin(TIME_UNITS).all():
            points.loc[part.index, "throughput"] = 1 / part["throughput"]
    if faults:
        raise CapplanError("scaling runs that cannot be fitted: " + "; ".join(faults))
    return points[["curve", "accelerators", "throughput", "global_batch"]], kinds, tuple(notes)


def _faults(name: str, part: pd.DataFrame) -> list[str]:
    """List what is wrong with the points of one curve."""
    faults = []
    if (part["accelerators"] < 1).any() or part["accelerators"].isna().any():
        faults.append(f"curve {name}: {part['accelerators'].min():g} accelerators; a run has at least 1, leave out the row")
    if not (np.isfinite(part["throughput"]) & (part["throughput"] > 0)).all():
        faults.append(f"curve {name}: a throughput must be above 0; leave out runs that failed")
    units = sorted(set(part["unit"].dropna()))
    if len(units) > 1 or (units and part["unit"].isna().any()):
        faults.append(
            f"curve {name} mixes units ({', '.join(units)}{', none' if part['unit'].isna().any() else ''}); state one unit for all its rows"
        )
    counts = part["accelerators"].nunique()
    if counts == 1 and len(part) > 1:
        faults.append(f"curve {name}: all {len(part)} runs are on {part['accelerators'].iloc[0]:g} accelerators; measure other counts too")
    elif counts < MINIMUM_COUNTS:
        faults.append(
            f"curve {name}: {counts} different count{'s' if counts > 1 else ''} of accelerators; a curve with contention and coherency"
            f" needs at least {MINIMUM_COUNTS}: measure one more, for instance at twice the largest"
        )
    elif not units:
        by_count = part.groupby("accelerators")["throughput"].mean()
        if (by_count.diff().dropna() < 0).all():
            faults.append(
                f"curve {name}: the more accelerators, the less throughput; is it a time? State unit: "
                f"{', '.join(TIME_UNITS)} for times, or tokens/s, samples/s, steps/s, units/h for rates"
            )
    return faults


def _kind(name: str, part: pd.DataFrame) -> tuple[str, str]:
    """Tell strong from weak scaling: as stated, or read off the batch."""
    stated = sorted(set(part["scaling"].dropna()))
    if len(stated) > 1:
        return "both", ""
    batch = part["global_batch"]
    if batch.isna().any():
        return (stated[0] if stated else "strong"), "" if stated else f"{name}: no batch is stated; taken as strong scaling."
    per_accelerator = batch / part["accelerators"]
    if batch.max() <= batch.min() * (1 + SAME_SHARE):
        found = "strong"
    elif per_accelerator.max() <= per_accelerator.min() * (1 + SAME_SHARE):
        found = "weak"
    else:
        found = "mixed"
    if found == "mixed" or (stated and stated[0] != found):
        return (
            (stated[0] if stated else "mixed"),
            (
                f"{name}: the batch differs between points ({batch.min():g} to {batch.max():g} samples), so part of the difference is not"
                " scaling; times to train in particular then follow no single law."
            ),
        )
    return found, ""
