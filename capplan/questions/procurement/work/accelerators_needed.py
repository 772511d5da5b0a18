"""How many accelerators the work needs, on the machines the plan would run it on."""

import pandas as pd

from capplan.quantiles import weighted_quantiles


def accelerators_needed(demand: pd.DataFrame, dispatch: pd.DataFrame, levels: tuple[float, ...] = (0.1, 0.5, 0.9)) -> pd.DataFrame:
    r"""Turn work into accelerators at the speed the plan achieves.

    The speed of a class in a quarter is what its dispatched accelerator-hours do of work,
    :math:`v_{cq} = \\sum work / \\sum hours`, and the need of a path is
    :math:`\\sum_c work\\_per\\_hour_{cqb} / v_{cq}` in the block where it is largest.

    Args:
        demand: [path, probability, class, region, quarter, block, hours, work_per_hour].
        dispatch: [quarter, class, expected_accelerator_hours, expected_work, ...], as a purchase plan gives it.
        levels: Quantiles over paths, at the peak and for the mean hour.

    Returns:
        DataFrame: [quarter, hour ("peak" or "mean"), quantile, accelerators].
    """
    ran = dispatch[dispatch["expected_accelerator_hours"] > 0]
    speed = ran.groupby(["quarter", "class"])[["expected_work", "expected_accelerator_hours"]].sum()
    rate = (speed["expected_work"] / speed["expected_accelerator_hours"]).rename("speed")
    overall = ran.groupby("class")[["expected_work", "expected_accelerator_hours"]].sum()
    usual = (overall["expected_work"] / overall["expected_accelerator_hours"]).rename("usual_speed")
    work = demand.merge(rate, how="left", on=["quarter", "class"]).merge(usual, how="left", on="class")
    work["accelerators"] = work["work_per_hour"] / work["speed"].fillna(work["usual_speed"])
    blocks = work.groupby(["path", "probability", "quarter", "block", "hours"], as_index=False)["accelerators"].sum()
    blocks["accelerator_hours"] = blocks["accelerators"] * blocks["hours"]
    by_path = blocks.groupby(["path", "probability", "quarter"], as_index=False).agg(
        peak=("accelerators", "max"), hours=("hours", "sum"), total=("accelerator_hours", "sum")
    )
    by_path["mean"] = by_path["total"] / by_path["hours"]
    rows = []
    for quarter, part in by_path.groupby("quarter", sort=True):
        for hour in ("peak", "mean"):
            values = weighted_quantiles(part[hour].to_numpy(), part["probability"].to_numpy(), levels)
            rows += [(quarter, hour, level, float(value)) for level, value in zip(levels, values, strict=True)]
    return pd.DataFrame(rows, columns=["quarter", "hour", "quantile", "accelerators"])
