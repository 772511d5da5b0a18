"""From workloads to the classes of work that are planned together, and what a machine does for each."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.records import word_list

#: Stages whose work is served to somebody who waits; all others are batch work.
SERVING_STAGES = ("serving", "deployment")
#: What workloads of one class must have in common, besides their speeds.
SHARED = word_list("unit interruptible residency stage_kind host shortfall_usd_per_unit home_provider home_region egress_gib_per_unit")


def batch_workloads(workloads: pd.DataFrame) -> list[str]:
    """Return the workloads that are not served to somebody who waits, and run on own machines."""
    hosted = workloads["host"] != "api" if "host" in workloads else True
    return list(workloads.loc[~workloads["stage"].isin(SERVING_STAGES) & hosted, "workload"])


def class_table(
    workloads: pd.DataFrame, speeds: pd.DataFrame | None, a: ProcurementAssumptions, accelerators: Iterable[str] | None = None
) -> pd.DataFrame:
    """List the classes of work that are planned together, and what holds for all of a class.

    Args:
        workloads: The workloads table; an empty work_class makes a workload its own class.
        speeds: The speeds table; workloads of a class must run equally fast.
        a: Assumptions; the shortfall costs of serving and batch work are used where a class states none.
        accelerators: Accelerators that can be had; all that speeds name where not given.

    Returns:
        pandas.DataFrame: class, unit, interruptible, deferrable, residency (empty = anywhere), stage_kind ("serving" or "batch"),
            shortfall_usd_per_unit (as `shortfall_usd_per_unit` prices it; empty where nothing is stated and no speed is known), api
            ("self", "api" or "either"), home_provider, home_region, egress_gib_per_unit; one row a class, in alphabetical order.

    Raises:
        CapplanError: Naming every class whose workloads differ, and in what.
    """
    members = _members(workloads)
    members["stage_kind"] = np.where(members["stage"].isin(SERVING_STAGES), "serving", "batch")
    faults = []
    for name, part in members.groupby("class", sort=True):
        for column in SHARED:
            if part[column].nunique(dropna=False) > 1:
                listed = ", ".join(f"{row.workload}: {getattr(row, column)}" for row in part.sort_values("workload").itertuples())
                faults.append(f"class {name} mixes workloads of different {column} ({listed})")
    if faults:
        raise CapplanError(
            f"workloads: {'; '.join(faults)}. Workloads of one class are planned as one; give those that differ another work_class"
        )
    result = members.groupby("class", sort=True).agg(
        unit=("unit", "first"),
        interruptible=("interruptible", "first"),
        deferrable=("deferrable", "all"),
        residency=("residency", "first"),
        stage_kind=("stage_kind", "first"),
        shortfall_usd_per_unit=("shortfall_usd_per_unit", "first"),
        api=("host", "first"),
        home_provider=("home_provider", "first"),
        home_region=("home_region", "first"),
        egress_gib_per_unit=("egress_gib_per_unit", "first"),
    )
    known = class_speeds(speeds, workloads)
    known = known if accelerators is None else known[known["accelerator"].isin(set(accelerators))]
    fastest = known.groupby("class")["work_per_accelerator_hour"].max().reindex(result.index)
    result["shortfall_usd_per_unit"] = shortfall_usd_per_unit(result, fastest, a)
    return result.reset_index()


def shortfall_usd_per_unit(classes: pd.DataFrame, fastest: pd.Series, a: ProcurementAssumptions) -> pd.Series:
    r"""Price a unit of work that is not done: as stated, else :math:`p_c = s_k / v_c`.

    Args:
        classes: stage_kind, shortfall_usd_per_unit (empty where none is stated); one row a class.
        fastest: v, work that the fastest accelerator does in an hour among those that can be had for the class; same index. What cannot be
            had counts for nothing.
        a: s, cost of missing what that accelerator does in an hour, for serving and for batch work.
    """
    serving = classes["stage_kind"] == "serving"
    price = np.where(serving, a.serving_shortfall_usd_per_accelerator_hour, a.batch_shortfall_usd_per_accelerator_hour)
    return classes["shortfall_usd_per_unit"].astype(float).fillna(price / fastest)


def class_speeds(speeds: pd.DataFrame | None, workloads: pd.DataFrame) -> pd.DataFrame:
    """Say how fast each class runs on each accelerator.

    Returns:
        pandas.DataFrame: class, accelerator, work_per_accelerator_hour (workload unit/h), basis; sorted by class and accelerator. A
            workload of a class that states no speeds takes those of its class.

    Raises:
        CapplanError: If two workloads of a class state different speeds on one accelerator, or speeds on different accelerators.
    """
    columns = ["class", "accelerator", "work_per_accelerator_hour", "basis"]
    if speeds is None or speeds.empty:
        return pd.DataFrame({name: pd.Series(dtype=float if name == "work_per_accelerator_hour" else object) for name in columns})
    rows = speeds.merge(_members(workloads)[["workload", "class"]], on="workload", how="inner").sort_values(
        ["class", "accelerator", "workload"]
    )
    faults = []
    for name, part in rows.groupby("class", sort=True):
        table = part.pivot(index="workload", columns="accelerator", values="work_per_accelerator_hour")
        for accelerator in table.columns:
            values = table[accelerator]
            if values.isna().any() or not np.allclose(values, values.iloc[0], rtol=1e-9, atol=0):
                listed = ", ".join(
                    f"{workload}: {'no speed' if pd.isna(speed) else format(speed, 'g')}" for workload, speed in values.items()
                )
                faults.append(f"class {name} on {accelerator} ({listed})")
    if faults:
        raise CapplanError(
            f"speeds: workloads of one class differ: {'; '.join(faults)}. State equal speeds, or give the workloads another work_class"
        )
    return rows.drop_duplicates(["class", "accelerator"])[columns].reset_index(drop=True)


def class_demand(paths: pd.DataFrame, blocks: pd.DataFrame, workloads: pd.DataFrame, headroom: pd.DataFrame | None = None) -> pd.DataFrame:
    r"""Add up how much work of each class comes in each load block.

    .. math:: w_{cb} = \sum_{j \in c} f_{jq} Q_{jb} / H_b

    Q is the work of workload j in block b, H the hours of the block, f the queue headroom of the workload in the quarter q of the block.

    Args:
        paths: path, probability, workload, region, quarter, block, quantity (workload unit).
        blocks: quarter, block, hours (h).
        headroom: [workload, quarter, factor]: factor on the work of a workload, for capacity that must stand ready so that its jobs do not
            wait too long; 1 where none is given.

    Returns:
        pandas.DataFrame: path, probability, class, region, quarter, block, hours (h), work_per_hour (workload unit/h); sorted by these
            keys.

    Raises:
        CapplanError: If a path names a workload that the table does not have, or a class mixes units.
    """
    members = _members(workloads)
    unknown = sorted(set(paths["workload"]) - set(members["workload"]))
    if unknown:
        raise CapplanError(f"demand names workloads that the workloads table does not have: {', '.join(unknown)}. Add them there")
    mixed = members.groupby("class")["unit"].nunique()
    if (mixed > 1).any():
        raise CapplanError(
            f"workloads: classes {', '.join(mixed.index[mixed > 1])} mix units; work in different units cannot be added. Give them another"
            " work_class"
        )
    rows = paths.merge(members[["workload", "class"]], on="workload", how="left")
    if headroom is not None:
        raised = rows[["workload", "quarter"]].merge(headroom[["workload", "quarter", "factor"]], on=["workload", "quarter"], how="left")
        rows["quantity"] *= raised["factor"].fillna(1.0).to_numpy()
    keys = ["path", "probability", "class", "region", "quarter", "block"]
    rows = rows.groupby(keys, sort=True, observed=True)["quantity"].sum().reset_index()
    rows = rows.merge(blocks[["quarter", "block", "hours"]], on=["quarter", "block"], how="left").sort_values(keys, kind="stable")
    rows["work_per_hour"] = rows["quantity"] / rows["hours"]
    return rows[[*keys, "hours", "work_per_hour"]].reset_index(drop=True)


def work_growth(paths: pd.DataFrame, blocks: pd.DataFrame, workloads: list[str], times: float = 1.0) -> pd.DataFrame:
    """Say how much work of each workload is expected an hour in each quarter, against the first quarter that has some.

    Args:
        paths: path, probability, workload, region, quarter, block, quantity (workload unit).
        blocks: quarter, block, hours (h).
        workloads: Those that are asked for.
        times: Factor on the growth of all, where the paths have been raised by it.

    Returns:
        pandas.DataFrame: workload, quarter, growth (ratio); a workload without any work has no rows.
    """
    paths = paths[paths["workload"].isin(workloads)]
    expected = (paths["quantity"] * paths["probability"]).groupby([paths["workload"], paths["quarter"]], observed=True).sum()
    hourly = expected / blocks.groupby("quarter")["hours"].sum().reindex(expected.index.get_level_values("quarter")).to_numpy()
    first = hourly[hourly > 0].groupby(level="workload").first()
    growth = hourly / first.reindex(hourly.index.get_level_values("workload")).to_numpy()
    return (times * growth.dropna()).rename("growth").reset_index()


def _members(workloads: pd.DataFrame) -> pd.DataFrame:
    """Give each workload its class and the columns a class shares, with the table's defaults where they are absent."""
    members = workloads.copy()
    for column, default in {
        "work_class": np.nan,
        "residency": np.nan,
        "shortfall_usd_per_unit": np.nan,
        "host": "self",
        "interruptible": False,
        "deferrable": False,
        "home_provider": None,
        "home_region": None,
        "egress_gib_per_unit": 0.0,
    }.items():
        if column not in members:
            members[column] = default
    members["class"] = members["work_class"].where(members["work_class"].notna(), members["workload"])
    return members
