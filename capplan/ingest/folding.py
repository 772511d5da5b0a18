"""Join pieces of measured work, from one file or many, into the even series that the table usage holds."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from capplan.book.tables.registry import key_of
from capplan.ingest.ingested import KEPT, shaped
from capplan.ingest.job_work import each_job_once, jobs_table, pieces_of_jobs
from capplan.ingest.pieces import AMOUNTS, bounded

#: Region of work whose place is not stated.
ANYWHERE = "any"
#: Kinds of source that may start and end inside an interval.
LOGS = ("requests", "rates")
#: An interval of which at least this share was seen counts as whole.
WHOLE_SHARE = 0.99


def usage_of(parts: pd.DataFrame, spans: pd.DataFrame | None, notes: list[str]) -> pd.DataFrame:
    """Sum pieces up to one even series for each workload and region; intervals without a piece are zero.

    Args:
        parts: Pieces (PIECE), in the order in which their files came.
        spans: What files really cover: family, workload and region (of logs), earliest, latest (instants); None for sources that are whole.

    Returns:
        DataFrame: Table usage, with covered_share in intervals that were only seen in part.
    """
    measured = [name for name in AMOUNTS if parts[name].notna().any()]
    parts = pd.concat([_one_family(part, notes) for _, part in parts.groupby("workload", sort=True)])
    chosen = [part for _, part in parts.groupby(["workload", "region"], sort=True)]
    steps = [part.loc[part["quantity"].fillna(0.0) >= 0, "seconds"].max() for part in chosen]
    steps = [part["seconds"].max() if np.isnan(step) else step for part, step in zip(chosen, steps, strict=True)]
    bounded((part["time"].min(), part["time"].max(), step) for part, step in zip(chosen, steps, strict=True))
    found, added = [], 0
    for part, step in zip(chosen, steps, strict=True):
        series, filled = _series(part, step, measured, notes)
        added += filled
        name, place = part["workload"].iloc[0], part["region"].iloc[0]
        families = set(part["family"])
        ours = spans[spans["family"].isin(families)] if spans is not None and len(families) == 1 else None
        if ours is not None and len(ours):
            if families & set(LOGS):
                share = _covered(series["time"], step, ours[(ours["workload"] == name) & (ours["region"] == place)])
                series["covered_share"] = np.where((share > 0) & (share < WHOLE_SHARE), share, np.nan)
            seen = _without_unseen(series, _covered(series["time"], step, ours), str(name), notes)
            added -= len(series) - len(seen)
            series = seen
        found.append(series.assign(workload=name, region=place))
    if added > 0:
        notes.append(f"{added} intervals without work were added as zero.")
    usage = pd.concat(found, ignore_index=True)
    if "covered_share" in usage and usage["covered_share"].notna().any():
        notes.append(
            f"{int(usage['covered_share'].notna().sum())} first and last intervals are covered in part only; the column covered_share says"
            " how far."
        )
    return shaped(usage, "usage")


def fold(parts: Mapping[str, pd.DataFrame]) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Make tables of what one file or several hold.

    Args:
        parts: Parts by name: pieces and spans of work, sums of requests, jobs, charges (billing) and when these were (charged), and rows of
            tables as they are. Where there are several files, the column `file` counts them in the order in which they came, and rows are
            in that order.

    Returns:
        tables: By name of the table.
        notes: What was assumed.
    """
    tables: dict[str, pd.DataFrame] = {}
    notes: list[str] = []
    rest = {name: frame if "file" in frame else frame.assign(file=0) for name, frame in parts.items() if len(frame)}
    spans = rest.pop("spans", None)
    rest.pop("charged", None)
    work = [rest.pop("pieces")] if "pieces" in rest else []
    if "jobs" in rest:
        jobs = each_job_once(rest.pop("jobs"))
        work.append(pieces_of_jobs(jobs).assign(file=int(jobs["file"].max())))
        tables["jobs"] = jobs_table(jobs, notes)
    for name, rows in rest.items():
        if name == "billing":
            tables[name] = billing_table(rows)
        elif name == "requests":
            tables[name] = rows.groupby(["workload", "time"], as_index=False)[["requests", "input_tokens", "output_tokens"]].sum()
        else:
            kept = rows.drop_duplicates(key_of(name), keep="first" if name in KEPT else "last")
            tables[name] = kept.drop(columns="file").reset_index(drop=True)
    measured = pd.concat(work, ignore_index=True).sort_values("file", kind="stable", ignore_index=True) if work else ()
    if len(measured):
        tables["usage"] = usage_of(measured, spans, notes)
    if "requests" in tables:
        grid = tables["usage"].loc[tables["usage"]["workload"].isin(tables["requests"]["workload"]), ["workload", "time"]].drop_duplicates()
        full = grid.merge(tables["requests"], how="left", on=["workload", "time"]).fillna(0.0)
        tables["requests"] = shaped(full.sort_values(["workload", "time"], ignore_index=True), "requests")
    return tables, notes


def billing_table(parts: pd.DataFrame) -> pd.DataFrame:
    """Sum the charges of several files up by the key of the table billing."""
    keys = key_of("billing")
    if parts.duplicated(keys).any():
        units = parts.groupby(keys)["quantity_unit"]
        single = (units.transform("nunique") == 1) & (units.transform("count") == units.transform("size"))
        parts = parts.assign(quantity=parts["quantity"].where(single), quantity_unit=parts["quantity_unit"].where(single))
        groups = parts.groupby(keys, as_index=False)
        sums = groups[["billed_cost", "effective_cost"]].sum()
        parts = sums.assign(
            **{name: groups[name].sum(min_count=1)[name] for name in ("list_cost", "quantity")},
            quantity_unit=groups["quantity_unit"].first()["quantity_unit"],
            **{name: groups[name].max()[name] for name in ("charged_until",) if name in parts},
        )
    return shaped(parts.sort_values(keys, ignore_index=True), "billing")


def _one_family(part: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Where several kinds of sources measure the same work, time and place, the last one counts; no stated place is any place."""
    families = list(dict.fromkeys(part["family"]))
    for place, family in enumerate(families[1:], start=1):
        newer = part[part["family"] == family]
        regions = set(newer["region"])
        same = part["region"].isin({*regions, ANYWHERE}) | (ANYWHERE in regions)
        older = same & part["family"].isin(families[:place]) & part["time"].between(newer["time"].min(), newer["time"].max())
        if older.any():
            name = part["workload"].iloc[0]
            notes.append(
                f"{name}: {', '.join(families[:place])} and {family} measure the same hours; those of {family} count, from"
                f" {newer['time'].min()} to {newer['time'].max()}."
            )
            part = part[~older]
    return part


def _series(part: pd.DataFrame, step: float, measured: list[str], notes: list[str]) -> tuple[pd.DataFrame, int]:
    """Sum one workload's pieces up by interval, net of corrections; return it without gaps, and how many intervals were added."""
    wide = (part["quantity"] < 0) & (part["seconds"] > step)
    net = part[~wide].assign(time=part.loc[~wide, "time"].dt.floor(pd.Timedelta(seconds=step))).groupby("time")[measured].sum()
    for row in part[wide].itertuples():
        inside = net[(net.index >= row.time) & (net.index < row.time + pd.Timedelta(seconds=row.seconds)) & (net["quantity"] > 0)]
        if inside.empty:
            first = pd.Timestamp(row.time).floor(pd.Timedelta(seconds=step))
            net.loc[first, "quantity"] = net["quantity"].get(first, 0.0) + row.quantity
        else:
            net.loc[inside.index, "quantity"] += row.quantity * inside["quantity"] / inside["quantity"].sum()
    net = _without_negatives(net.sort_index().fillna(0.0), str(part["workload"].iloc[0]), notes)
    times = pd.date_range(net.index.min(), net.index.max(), freq=pd.Timedelta(seconds=step), name="time")
    return net.reindex(times, fill_value=0.0).reset_index(), len(times) - len(net)


def _without_negatives(net: pd.DataFrame, workload: str, notes: list[str]) -> pd.DataFrame:
    """Take what corrections leave below zero from the other hours of the same month."""
    quantity = net["quantity"].copy()
    quantity[quantity.abs() < 1e-9] = 0.0
    lost = 0.0
    for _, month in quantity.groupby(quantity.index.to_period("M")):
        owed = -month[month < 0].sum()
        if owed:
            has = month[month > 0]
            taken = min(owed, has.sum())
            quantity[month.index] = month.clip(lower=0.0)
            if taken:
                quantity[has.index] = has * (1 - taken / has.sum())
            lost += owed - taken
    if lost > 1e-9:
        notes.append(f"{workload}: corrections of {lost:,.1f} accelerator-hours find no hours of their month to take from.")
    return net.assign(quantity=quantity)


def _covered(times: pd.Series, step: float, seen: pd.DataFrame) -> np.ndarray:
    """Return the share of each interval that files cover."""
    starts = times.to_numpy(dtype="datetime64[ns]").astype("int64") / 1e9
    covered = np.zeros(len(starts))
    reached = -np.inf
    for first, last in sorted(zip(seen["earliest"], seen["latest"], strict=True)):
        begin, end = max(first.timestamp(), reached), last.timestamp()
        covered += np.clip(np.minimum(end, starts + step) - np.maximum(begin, starts), 0.0, None)
        reached = max(reached, end)
    share: np.ndarray = covered / step
    return share


def _without_unseen(series: pd.DataFrame, share: np.ndarray, workload: str, notes: list[str]) -> pd.DataFrame:
    """Leave out intervals that no file covers: nothing is known of them, and zero would be a claim."""
    unseen = (share <= 0) & (series["quantity"] == 0).to_numpy()
    if unseen.any():
        first, last = series.loc[unseen, "time"].min(), series.loc[unseen, "time"].max()
        notes.append(
            f"{workload}: no file covers {int(unseen.sum())} intervals between {first} and {last}. They were left out: ingest what is"
            " missing, or take back what lies before."
        )
    return series[~unseen]
