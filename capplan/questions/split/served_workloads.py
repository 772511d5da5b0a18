"""The inference load that the served workloads of a book put on a fleet."""

import pandas as pd

from capplan.errors import CapplanError, nearest


def serving_load(
    usage: pd.DataFrame, workloads: pd.DataFrame, speeds: pd.DataFrame, nodes: pd.DataFrame, region: str | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Turn the usage of served workloads into the accelerators of the fleet that they need.

    A(t) = sum over workloads of (served + refused work an hour) / (work of an accelerator an hour).

    Args:
        region: Region whose workloads are served; work of region "any" counts too. Empty = the one with the most load.

    Returns:
        tuple: [time, accelerators], and notes.

    Raises:
        CapplanError: No self-hosted served workload has usage and a speed on the fleet's commonest accelerator, or the region is not known.
    """
    kind = str((nodes["accelerator_count"] * nodes.get("nodes", 1)).groupby(nodes["accelerator"], sort=False).sum().idxmax())
    served = workloads[(workloads["stage"] == "serving") & (workloads["host"] == "self")]["workload"]
    speed = speeds[(speeds["accelerator"] == kind) & speeds["workload"].isin(served)].set_index("workload")["work_per_accelerator_hour"]
    rows = usage[usage["workload"].isin(speed.index)].copy()
    if rows.empty:
        raise CapplanError(
            f"no workload of stage serving with host self has usage and a speed on {kind}, of which the fleet has most; "
            "add its rows to speeds, or give the cluster's own nodes"
        )
    rows["region"] = rows["region"].fillna("any") if "region" in rows else "any"
    work = rows["quantity"] + (rows["refused_quantity"].fillna(0.0) if "refused_quantity" in rows else 0.0)
    gap = rows.groupby(["workload", "region"])["time"].transform(lambda times: times.sort_values().diff().min().total_seconds() / 3600)
    rows["accelerators"] = work / gap.fillna(1.0) / rows["workload"].map(speed)
    sums = rows.groupby("region")["accelerators"].sum()
    places = sums.drop("any", errors="ignore")
    if region is not None and region not in sums.index:
        raise CapplanError(f"cluster_region: no served workload has usage in {region}; {nearest(region, map(str, sums.index))}")
    chosen = region if region is not None else str(places.idxmax()) if len(places) else "any"
    rows = rows[rows["region"].isin([chosen, "any"])]
    # coarser series hold their rate until their next interval
    load = (
        rows.pivot_table(index="time", columns=["workload", "region"], values="accelerators", aggfunc="sum")
        .sort_index()
        .ffill()
        .fillna(0.0)
        .sum(axis=1)
    )
    left = sorted(set(places.index) - {chosen})
    note = f"The inference load is that of {', '.join(sorted(rows['workload'].unique()))} in {chosen}, as recorded, on {kind}"
    return load.rename("accelerators").rename_axis("time").reset_index(), (
        note + (f"; {', '.join(left)} is served elsewhere." if left else "."),
    )
