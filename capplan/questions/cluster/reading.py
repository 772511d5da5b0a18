"""The tables of jobs and nodes as somebody hands them over: every fault named, missing durations predicted and labelled."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError, nearest


def _columns(table: pd.DataFrame, name: str, wanted: tuple[str, ...], what: str) -> None:
    """Name a column that is not there, and a table without rows."""
    for column in wanted:
        if column not in table:
            raise CapplanError(f"{name}: there is no column {column}; {nearest(column, map(str, table.columns))}")
    if table.empty:
        raise CapplanError(f"{name}: the table has no rows; {what}")


def _numbers(table: pd.DataFrame, name: str, column: str, least: float, *, above: bool = False, empty: bool = False) -> pd.Series:
    """Return a column as numbers; name the first row that is none, not finite, or too small."""
    values = pd.to_numeric(table[column], errors="coerce").astype(float)
    wrong = (~np.isfinite(values) | (values <= least if above else values < least)) & ~(table[column].isna() & empty)
    if wrong.any():
        row, key = table[wrong].iloc[0], "node" if name == "nodes" else "job_id"
        allowed = f"a number {'above' if above else 'of at least'} {least:g}{', or nothing' if empty else ''}"
        more = f" (and {int(wrong.sum()) - 1:,} more rows are wrong)" if wrong.sum() > 1 else ""
        raise CapplanError(f"{name}: {row[key]} has {column} {row[column]}{more}; give {allowed}")
    return values


def instants(values: pd.Series, where: str) -> pd.Series:
    """Return instants in UTC without a zone.

    Raises:
        CapplanError: A value that is no instant; empty ones pass.
    """
    found = pd.to_datetime(values, errors="coerce", utc=True).dt.tz_localize(None).astype("datetime64[ns]")
    wrong = found.isna() & values.notna()
    if wrong.any():
        raise CapplanError(f"{where}: {values[wrong].iloc[0]!r} is no instant; write it as 2027-01-31 14:00, in UTC or with its zone")
    return found


def checked_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs table with numbers, instants and an index that can be relied on.

    Raises:
        CapplanError: A missing column, no rows, a name twice, a value that cannot be.
    """
    _columns(jobs, "jobs", ("job_id", "submit", "accelerators"), "a trace needs at least one job")
    table = jobs.reset_index(drop=True)
    table["job_id"] = table["job_id"].astype(str)
    twice = table.loc[table["job_id"].duplicated(), "job_id"]
    if len(twice):
        raise CapplanError(f"jobs: {twice.iloc[0]} stands there more than once; every job needs a job_id of its own")
    for column in ("submit", "deadline"):
        if column in table:
            table[column] = instants(table[column], f"jobs, {column}")
    if table["submit"].isna().any():
        raise CapplanError(f"jobs: {table.loc[table['submit'].isna(), 'job_id'].iloc[0]} has no submit time; every job needs one")
    if "duration_seconds" not in table:
        table["duration_seconds"] = np.nan
    given = table["duration_seconds"].dropna()
    negative = given[pd.to_numeric(given, errors="coerce") < 0]
    if len(negative):
        raise CapplanError(
            f"jobs: {len(negative)} {'job' if len(negative) == 1 else 'jobs'} ran for less than nothing (first:"
            f" {table.loc[negative.index[0], 'job_id']}, {negative.iloc[0]:g} s); durations are 0 or more, empty where not known"
        )
    table["duration_seconds"] = _numbers(table, "jobs", "duration_seconds", 0.0, empty=True)
    table["accelerators"] = _numbers(table, "jobs", "accelerators", 0.0)
    mixed = table[(table["accelerators"] > 1) & ((table["accelerators"] % 1).round(3) > 0)]
    if len(mixed):
        raise CapplanError(
            f"jobs: {mixed['job_id'].iloc[0]} asks for {mixed['accelerators'].iloc[0]:g} accelerators; a job takes whole ones, or a part"
            " of one"
        )
    if "expected_seconds" in table:
        table["expected_seconds"] = _numbers(table, "jobs", "expected_seconds", 0.0, above=True, empty=True)
    if "least_accelerators" in table:
        table["least_accelerators"] = _numbers(table, "jobs", "least_accelerators", 1.0, empty=True)
    if "priority" in table:
        table["priority"] = _numbers(table, "jobs", "priority", -1e300, empty=True)
    if table["duration_seconds"].isna().all():
        raise CapplanError("jobs: no job has a duration, so none can be predicted; give duration_seconds for some")
    return table


def read_jobs(jobs: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Sort checked jobs by submission and fill what is missing; what was repaired is noted."""
    table = checked_jobs(jobs)
    if not table["submit"].is_monotonic_increasing:
        notes.append("Jobs were not in the order of their submission and have been sorted.")
        table = table.sort_values("submit", kind="stable", ignore_index=True)
    for name, value in (("team", "shared"), ("priority", 0.0)):
        table[name] = table[name].fillna(value) if name in table else value
    table["team"] = table["team"].astype(str)
    for name in ("expected_seconds", "least_accelerators"):
        table[name] = table.get(name, np.nan)
    table["deadline"] = table.get("deadline", pd.NaT)
    table["predicted"] = table["duration_seconds"].isna()
    if table["predicted"].any():
        known = table[~table["predicted"]]
        size = np.ceil(np.log2(table["accelerators"].clip(lower=1)))
        alike = known["duration_seconds"].groupby([known["team"], size[known.index]]).median()
        by_size = known["duration_seconds"].groupby(size[known.index]).median()
        guess = [
            alike.get((team, step), by_size.get(step, known["duration_seconds"].median()))
            for team, step in zip(table["team"], size, strict=True)
        ]
        table["duration_seconds"] = table["duration_seconds"].fillna(pd.Series(guess, index=table.index))
        notes.append(
            f"{int(table['predicted'].sum()):,} jobs have no duration: each is taken as long as the median job of its team and size (column"
            " predicted)."
        )
    return table


def checked_nodes(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the nodes table with whole numbers, how many nodes are alike, and only the rows that have accelerators.

    Raises:
        CapplanError: A missing column, no rows, no accelerator at all, a value that cannot be.
    """
    _columns(nodes, "nodes", ("node", "accelerator", "accelerator_count"), "a cluster needs at least one node")
    table = nodes.reset_index(drop=True)
    table["nodes"] = table["nodes"].fillna(1) if "nodes" in table else 1
    for column, least in (("accelerator_count", 0.0), ("nodes", 1.0)):
        values = _numbers(table, "nodes", column, least)
        if (values % 1 > 0).any():
            raise CapplanError(
                f"nodes: {table.loc[values % 1 > 0, 'node'].iloc[0]} has {column} {values[values % 1 > 0].iloc[0]:g}; give a whole number"
            )
        table[column] = values.astype(np.int64)
    unnamed = table[table["accelerator"].isna() & (table["accelerator_count"] > 0)]
    if len(unnamed):
        raise CapplanError(f"nodes: {unnamed['node'].iloc[0]} does not say which accelerator it has")
    usable = table[table["accelerator_count"] > 0]
    if usable.empty:
        raise CapplanError(f"nodes: no node has an accelerator (first: {table['node'].iloc[0]}); give accelerator_count of at least 1")
    return usable.astype({"node": str, "accelerator": str}).reset_index(drop=True)


def machines_of(nodes: pd.DataFrame) -> pd.DataFrame:
    """Write out one row a node, nodes of a kind together, racks in one block."""
    usable = checked_nodes(nodes)
    usable["domain"] = usable["domain"].fillna(usable["node"]).astype(str) if "domain" in usable else usable["node"]
    frame = usable.loc[usable.index.repeat(usable["nodes"]), ["node", "accelerator", "accelerator_count", "domain"]].reset_index(drop=True)
    position = frame.groupby("node").cumcount()
    repeated = frame.groupby("node")["node"].transform("size") > 1
    frame["node"] = np.where(repeated, frame["node"] + "-" + position.astype(str), frame["node"])
    order = {name: index for index, name in enumerate(dict.fromkeys(frame["accelerator"]))}
    frame = frame.assign(order=frame["accelerator"].map(order)).sort_values(["order", "domain"], kind="stable").drop(columns="order")
    frame["domain_number"] = (frame["accelerator"] + "\0" + frame["domain"]).pipe(lambda name: pd.factorize(name)[0])
    return frame.reset_index(drop=True)
