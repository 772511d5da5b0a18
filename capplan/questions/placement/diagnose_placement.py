"""Signs that jobs ran in the wrong place, with the evidence and what it cost."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.errors import CapplanError, nearest
from capplan.text import money
from capplan.text import price as shown_price

#: What each sign means, and what to do about it.
SIGNS = {
    "low_utilisation": "Accelerators wait most of the time: give the job fewer, or share one",
    "data_wait": "The job waits for data longer than it computes: bring the data nearer, or use local flash storage",
    "scattered": "The nodes of one job stand in several racks though one has room: place it in one",
    "cpu_only": "The accelerators do nothing: the work belongs on a node without them",
    "evaluation_idle": "An evaluation holds accelerators while it loads and scores: load first, score elsewhere, run several at once",
    "network_storage": "Data preparation reads over the network: put the data on local flash storage first",
}
#: Columns that give evidence.
EVIDENCE = ("utilisation_share", "data_wait_share", "racks", "storage")


@dataclass(frozen=True)
class Diagnosis:
    """What is misplaced.

    Args:
        signs: [sign, job_id, stage, accelerators, hours, evidence, usd (paid for the job), saving_usd], dearest first.
        summary: [sign, jobs, accelerator_hours, usd, saving_usd, what_to_do], by sign; the same job may show several.
        saving_usd: Of each job its largest saving: signs of one job overlap.
        headline, notes: The deciding sentence; what was assumed or left out.
    """

    signs: pd.DataFrame
    summary: pd.DataFrame
    saving_usd: float
    headline: str
    notes: tuple[str, ...]


def diagnose_placement(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    telemetry: pd.DataFrame | None,
    a: PlacementAssumptions,
    *,
    stages: Mapping[str, str] | None = None,
) -> Diagnosis:
    r"""Look for signs of bad placement in jobs that ran.

    A job that computes only a share u of its time pays :math:`p / u` for an hour of computing where an hour costs p.

    Args:
        jobs: Table jobs: [job_id, duration_seconds, accelerators], and what there is of utilisation_share, data_wait_share, racks, storage,
            stage, workload, accelerator.
        nodes: Table nodes: prices, and the size of racks.
        telemetry: [job_id, time, utilisation_share, data_wait_share (optional)]: samples; their mean goes before the column of jobs.
        stages: Stage of each workload, for jobs that do not state one.

    Raises:
        CapplanError: A missing column, a job of telemetry that jobs does not have, a share outside 0 to 1.
    """
    notes: list[str] = []
    table = _with_evidence(jobs, telemetry, stages, notes)
    price = _prices(table, nodes, notes)
    table = table.assign(usd=table["hours"] * table["accelerators"] * price)
    found = pd.concat([part for part in _parts(table, nodes, price, a) if len(part)] or [_nothing()], ignore_index=True)
    found = found.sort_values(["saving_usd", "job_id", "sign"], ascending=[False, True, True], kind="stable", ignore_index=True)
    summary = found.groupby("sign", sort=False).agg(jobs=("job_id", "nunique"), usd=("usd", "sum"), saving_usd=("saving_usd", "sum"))
    hours = (found["hours"] * found["accelerators"]).groupby(found["sign"], sort=False).sum()
    summary = summary.assign(accelerator_hours=hours, what_to_do=pd.Series(SIGNS)).reset_index()
    summary = summary[["sign", "jobs", "accelerator_hours", "usd", "saving_usd", "what_to_do"]].sort_values(
        "saving_usd", ascending=False, kind="stable", ignore_index=True
    )
    saving = float(found.groupby("job_id")["saving_usd"].max().sum())
    return Diagnosis(found, summary, saving, _headline(table, found, summary, saving), tuple(notes))


def _nothing() -> pd.DataFrame:
    """Return no signs."""
    return pd.DataFrame(
        {
            name: pd.Series(dtype=kind)
            for name, kind in (
                ("sign", object),
                ("job_id", object),
                ("stage", object),
                ("accelerators", float),
                ("hours", float),
                ("evidence", object),
                ("usd", float),
                ("saving_usd", float),
            )
        }
    )


def _with_evidence(jobs: pd.DataFrame, telemetry: pd.DataFrame | None, stages: Mapping[str, str] | None, notes: list[str]) -> pd.DataFrame:
    """Return jobs that ran on accelerators, with every column of evidence."""
    for column in ("job_id", "duration_seconds", "accelerators"):
        if column not in jobs:
            raise CapplanError(f"jobs: there is no column {column}; {nearest(column, map(str, jobs.columns))}")
    table = jobs.reset_index(drop=True).assign(job_id=jobs["job_id"].astype(str).to_numpy())
    for column in (*EVIDENCE, "stage", "workload", "accelerator"):
        table[column] = table[column] if column in table else (np.nan if column in EVIDENCE[:3] else None)
    if telemetry is not None and len(telemetry):
        unknown = sorted(set(telemetry["job_id"].astype(str)) - set(table["job_id"]))
        if unknown:
            raise CapplanError(
                f"telemetry: {unknown[0]} is no job_id of jobs (and {len(unknown) - 1} more); {nearest(unknown[0], table['job_id'])}"
            )
        for column in (column for column in EVIDENCE[:2] if column in telemetry):
            measured = telemetry[column].astype(float).groupby(telemetry["job_id"].astype(str)).mean()
            table[column] = table["job_id"].map(measured).fillna(table[column].astype(float))
    for column in EVIDENCE[:2]:
        table[column] = table[column].astype(float)
        wrong = (table[column] < 0) | (table[column] > 1)
        if wrong.any():
            raise CapplanError(
                f"jobs: {table.loc[wrong, 'job_id'].iloc[0]} has {column} {table.loc[wrong, column].iloc[0]:g}; a share lies between 0"
                " and 1"
            )
    # the workload of jobs that name none is their team's, as jobs are ingested
    workload = table["workload"].where(table["workload"].notna(), table.get("team"))
    table["stage"] = table["stage"].where(table["stage"].notna(), workload.map(dict(stages or {})))
    table["hours"] = pd.to_numeric(table["duration_seconds"]).astype(float) / 3600
    ran = table["hours"].notna() & (table["accelerators"] > 0)
    seen = table.loc[ran, list(EVIDENCE)].notna().any(axis=1)
    if not seen.any():
        notes.append("No job has a utilisation, a wait for data, racks or storage; there is nothing to judge by.")
    elif not seen.all():
        notes.append(f"{int((~seen).sum()):,} of {int(ran.sum()):,} jobs have no evidence and are left out.")
    return table[ran].reset_index(drop=True)


def _prices(table: pd.DataFrame, nodes: pd.DataFrame, notes: list[str]) -> pd.Series:
    """Return USD for an hour of one accelerator of each job."""
    rows = nodes[nodes["accelerator_count"] > 0]
    if "usd_per_hour" not in rows or rows["usd_per_hour"].isna().all():
        notes.append("No node has a price; savings are counted as 0 dollars. Give usd_per_hour in nodes.")
        return pd.Series(0.0, index=table.index)
    count = rows["nodes"].fillna(1) if "nodes" in rows else 1
    weight = rows["accelerator_count"] * count
    known = rows["usd_per_hour"].notna()
    paid = (rows["usd_per_hour"] * count)[known].groupby(rows["accelerator"][known]).sum() / weight[known].groupby(
        rows["accelerator"][known]
    ).sum()
    overall = float((rows["usd_per_hour"] * count)[known].sum() / weight[known].sum())
    return table["accelerator"].map(paid).astype(float).fillna(overall)


def _parts(table: pd.DataFrame, nodes: pd.DataFrame, price: pd.Series, a: PlacementAssumptions) -> list[pd.DataFrame]:
    """Return the jobs that show each sign."""
    used, waits, long = table["utilisation_share"], table["data_wait_share"], table["hours"] >= a.low_utilisation_hours
    idle = (used < a.idle_utilisation_share) & long
    low = (used < a.low_utilisation_share) & long & ~idle
    evaluation = table["stage"] == "evaluation"
    percent = used.map("{:.0%}".format)
    lost = {
        "low_utilisation": (
            low & ~evaluation,
            "utilisation " + percent + f" against {a.low_utilisation_share:.0%}",
            1 - used / a.low_utilisation_share,
        ),
        "evaluation_idle": (low & evaluation, "an evaluation at utilisation " + percent, 1 - used / a.low_utilisation_share),
        "data_wait": (
            waits > a.data_wait_limit_share,
            "waits for data "
            + waits.map("{:.0%}".format)
            + " of its time: an hour of computing costs "
            + (price / (1 - waits).clip(lower=0.01)).map(shown_price)
            + " an accelerator",
            waits,
        ),
        "scattered": (
            (pd.to_numeric(table["racks"]) > 1) & (table["accelerators"] <= _rack_accelerators(nodes)),
            pd.to_numeric(table["racks"]).fillna(0).map("{:.0f}".format)
            + " racks for "
            + table["accelerators"].map("{:g}".format)
            + " accelerators",
            pd.Series(a.scatter_loss_share, index=table.index),
        ),
        "network_storage": (
            (table["stage"] == "data_preparation") & (table["storage"] == "network"),
            "data preparation on network storage, waits " + waits.fillna(0).map("{:.0%}".format),
            waits.fillna(0.0),
        ),
    }
    parts = [_part(table[mask], sign, evidence[mask], share[mask] * table["usd"][mask]) for sign, (mask, evidence, share) in lost.items()]
    machines = np.ceil(table["accelerators"] / max(float(nodes["accelerator_count"].max()), 1.0))
    saved = (table["usd"] - machines * table["hours"] * a.cpu_node_usd_per_hour).clip(lower=0.0)
    return [*parts, _part(table[idle], "cpu_only", "utilisation " + percent[idle] + " all the time", saved[idle])]


def _rack_accelerators(nodes: pd.DataFrame) -> float:
    """Return how many accelerators the largest rack has."""
    count = nodes["accelerator_count"] * (nodes["nodes"].fillna(1) if "nodes" in nodes else 1)
    rack = nodes["domain"].fillna(nodes["node"]) if "domain" in nodes else nodes["node"]
    return float(count.groupby(rack).sum().max())


def _part(table: pd.DataFrame, sign: str, evidence: pd.Series, saving: pd.Series) -> pd.DataFrame:
    """Return the rows of one sign."""
    part = table[["job_id", "stage", "accelerators", "hours", "usd"]].assign(
        sign=sign, evidence=evidence, saving_usd=saving.clip(lower=0.0)
    )
    return part[["sign", "job_id", "stage", "accelerators", "hours", "evidence", "usd", "saving_usd"]]


def _headline(table: pd.DataFrame, found: pd.DataFrame, summary: pd.DataFrame, saving: float) -> str:
    """Say what decides."""
    if found.empty:
        return f"None of {len(table):,} jobs shows a sign of bad placement."
    first = summary.iloc[0]
    share = saving / max(float(table["usd"].sum()), 1e-9)
    return (
        f"{found['job_id'].nunique():,} of {len(table):,} jobs show signs of bad placement, worth {money(saving)} or {share:.0%} of what"
        f" they cost; most of it: {str(first['sign']).replace('_', ' ')} ({first['jobs']:,} jobs)."
    )
