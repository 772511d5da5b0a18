"""How well the last plan's forecast held: what came against its own band, and against the error that FinOps practice allows."""

import pandas as pd

from capplan.book.scenario import ReviewAssumptions

COLUMNS = ["workload", "region", "month", "planned", "actual", "low", "high", "inside", "error_share", "within_allowed"]


def measured_work(usage: pd.DataFrame, until: pd.Timestamp) -> pd.DataFrame:
    """Sum measured work up by month, for months that were measured to their end.

    Args:
        until: Instant up to which was measured; the month it lies in does not count.

    Returns:
        DataFrame: workload, region, month, actual (workload unit).
    """
    months = usage["time"].dt.to_period("M").dt.to_timestamp()
    done = usage[months + pd.offsets.MonthEnd(0) + pd.Timedelta(days=1) <= until].assign(month=months)
    sums = done.groupby(["workload", "region", "month"], as_index=False)["quantity"].sum().rename(columns={"quantity": "actual"})
    return sums.astype({"workload": "object", "region": "object", "month": "datetime64[ns]", "actual": "float64"})


def held_against(planned: pd.DataFrame, measured: pd.DataFrame, until: pd.Timestamp) -> pd.DataFrame:
    """Put planned and measured work side by side, for the months that have passed.

    Work that was planned and not measured at all in a month that others were measured in did not come: 0. Work that nobody planned has
    planned 0.

    Args:
        planned: workload, region, month, expected, low, high.
        measured: See `measured_work`.

    Returns:
        DataFrame: workload, region, month, planned, actual, low, high.
    """
    keys = ["workload", "region", "month"]
    passed = planned[planned["month"] + pd.offsets.MonthEnd(0) + pd.Timedelta(days=1) <= until]
    mine = measured[measured["month"].isin(passed["month"])]
    both = passed.rename(columns={"expected": "planned"}).merge(mine, on=keys, how="outer")
    both = both[both["month"].isin(set(mine["month"]))]
    both[["planned", "actual", "low", "high"]] = both[["planned", "actual", "low", "high"]].astype(float).fillna(0.0)
    return both[[*keys, "planned", "actual", "low", "high"]].sort_values(keys, ignore_index=True)


def forecast_accuracy(compared: pd.DataFrame, a: ReviewAssumptions) -> pd.DataFrame:
    r"""Say month by month whether the work that came lay in the band of the plan, and how far from its expectation.

    .. math:: e = \frac{\text{actual} - \text{planned}}{\text{planned}}

    Args:
        compared: See `held_against`.
        a: forecast_error_share: the error that is allowed.

    Returns:
        DataFrame: workload, region, month, planned, actual, low, high (the plan's 90 % band), inside, error_share (missing where nothing
            was planned), within_allowed.
    """
    error = (compared["actual"] - compared["planned"]) / compared["planned"].where(compared["planned"] > 0)
    inside = compared["actual"].between(compared["low"], compared["high"])
    return compared.assign(inside=inside, error_share=error, within_allowed=error.abs().le(a.forecast_error_share))[COLUMNS]


def accuracy_by_workload(months: pd.DataFrame) -> pd.DataFrame:
    r"""Sum accuracy up: workload, months, inside, within_allowed (counts), bias_share, mean_error_share.

    .. math:: \text{bias} = \frac{\sum a - \sum p}{\sum p}

    Args:
        months: See `forecast_accuracy`.
    """
    sums = (
        months.assign(size=months["error_share"].abs())
        .groupby("workload", as_index=False)
        .agg(
            months=("month", "nunique"),
            counted=("inside", "size"),
            inside=("inside", "sum"),
            within_allowed=("within_allowed", "sum"),
            planned=("planned", "sum"),
            actual=("actual", "sum"),
            mean_error_share=("size", "mean"),
        )
    )
    sums["bias_share"] = sums["actual"] / sums["planned"].where(sums["planned"] > 0) - 1
    return sums[["workload", "months", "counted", "inside", "within_allowed", "bias_share", "mean_error_share"]]
