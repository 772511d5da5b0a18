"""What a placed pipeline asks of the plan: accelerator-hours by stage, kind and quarter, egress, and its tasks as runs of the roadmap."""

import numpy as np
import pandas as pd

from capplan.units import quarter_end, quarter_of, quarter_start


def demand_by_stage(schedule: pd.DataFrame) -> pd.DataFrame:
    """Sum accelerator-hours and money by quarter, stage and kind of node; a task over a quarter's end counts in each by its hours there.

    Returns:
        DataFrame: [quarter, stage, kind, accelerator, accelerator_hours, usd].
    """
    rows = []
    for task in schedule.itertuples(index=False):
        quarter, whole = quarter_of(task.start), (task.end - task.start) / pd.Timedelta(hours=1)
        while True:
            begin, end = max(task.start, quarter_start(quarter)), min(task.end, quarter_end(quarter))
            share = 1.0 if whole == 0 else ((end - begin) / pd.Timedelta(hours=1)) / whole
            rows.append((quarter, task.stage, task.kind, task.accelerator, task.accelerator_hours * share, task.usd * share))
            if task.end <= quarter_end(quarter):
                break
            quarter = quarter_of(quarter_end(quarter))
    keys = ["quarter", "stage", "kind", "accelerator"]
    return pd.DataFrame(rows, columns=[*keys, "accelerator_hours", "usd"]).groupby(keys, as_index=False, sort=False).sum()


def egress(transfers: pd.DataFrame, start: pd.Timestamp) -> pd.DataFrame:
    """Sum what is paid for moved data by quarter and link: [quarter, link, data_gb, usd]."""
    paid = transfers[transfers["usd"] > 0]
    when = start + pd.to_timedelta(paid["start_hours"], unit="h")
    table = paid.assign(quarter=[quarter_of(instant) for instant in when])
    return table.groupby(["quarter", "link"], as_index=False, sort=False)[["data_gb", "usd"]].sum()


def as_other_costs(transfers: pd.DataFrame, start: pd.Timestamp) -> pd.DataFrame:
    """Write what is paid for moved data as rows of the table other_costs, so that a plan can book it.

    Returns:
        DataFrame: [cost_id, month, kind, usd], a line for each link; the month after its last one is zero, so that nothing goes on.
    """
    paid = transfers[transfers["usd"] > 0]
    months = (start + pd.to_timedelta(paid["start_hours"], unit="h")).dt.to_period("M").dt.to_timestamp()
    rows = paid.assign(month=months, cost_id="pipelines: " + paid["link"]).groupby(["cost_id", "month"], as_index=False)["usd"].sum()
    after = rows.groupby("cost_id", as_index=False)["month"].max()
    after = after.assign(month=after["month"] + pd.DateOffset(months=1), usd=0.0)
    return pd.concat([rows, after], ignore_index=True).assign(kind="egress").sort_values(["cost_id", "month"], ignore_index=True)


def as_training_runs(schedule: pd.DataFrame, tasks: pd.DataFrame, speeds: pd.DataFrame) -> pd.DataFrame:
    """Write tasks that name a workload as rows of the table training_runs, so that a plan can take them as demand.

    Args:
        speeds: Table speeds: work of an accelerator-hour, in the workload's unit; a task on an accelerator without a speed is left out.

    Returns:
        DataFrame: [run_id, workload, quantity (workload unit), start, deadline (days), region].
    """
    named = tasks[["task_id", "workload"]].dropna() if "workload" in tasks else pd.DataFrame({"task_id": [], "workload": []})
    rows = schedule.merge(named[named["workload"] != ""], on="task_id").query("accelerator_hours > 0")
    rows = rows.merge(speeds[["workload", "accelerator", "work_per_accelerator_hour"]], on=["workload", "accelerator"])
    return pd.DataFrame(
        {
            "run_id": rows["pipeline"] + "-" + rows["task_id"],
            "workload": rows["workload"],
            "quantity": rows["accelerator_hours"] * rows["work_per_accelerator_hour"],
            "start": rows["start"].dt.normalize(),
            "deadline": rows["end"].dt.normalize(),
            "region": np.where(rows["geography"] == "", "any", rows["geography"]),
        }
    )
