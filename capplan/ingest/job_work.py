"""What jobs are as work: accelerator-hours by team and hour, each job once, and the table jobs."""

from typing import Any

import pandas as pd

from capplan.ingest.ingested import shaped
from capplan.ingest.pieces import bounded, pieces


def _pieces(begin: str, seconds: str, where: str) -> str:
    """Return SQL that turns each job into four changes: its part of the first and last hour, and of all hours between.

    A job of `a` accelerators adds a x overlap to the hours it starts and ends in, and a x 3600 to every hour between; the
    hours between are kept as +a at the first and -a at the last, and summed up afterwards, so that long jobs cost no more than short ones.
    """
    first, finish = f"date_trunc('hour', {begin})", f"{begin} + to_microseconds(cast(round({seconds} * 1e6) as bigint))"
    last = f"date_trunc('hour', {finish})"
    exact = "cast(epoch_us({0}) - epoch_us({1}) as decimal(20, 0)) * accelerators"
    return f"""
        select team, unnest([
            {{'hour': {first}, 'part': case when {first} = {last} then {exact.format(finish, begin)}
                else {exact.format(f"{first} + interval 1 hour", begin)} end, 'level': 0}},
            {{'hour': {last}, 'part': case when {first} = {last} then 0 else {exact.format(finish, last)} end, 'level': 0}},
            {{'hour': {first} + interval 1 hour, 'part': 0, 'level': case when {first} = {last} then 0 else accelerators end}},
            {{'hour': {last}, 'part': 0, 'level': case when {first} = {last} then 0 else -accelerators end}}
        ], recursive := true) from jobs where {where}
    """


def _hourly(connection: Any, pieces: str) -> pd.DataFrame:
    """Sum pieces (accelerator-microseconds and accelerators) up to accelerator-hours by team and hour."""
    ends = connection.execute(f"select min(hour), max(hour) from ({pieces}) group by team").fetchall()
    bounded((first, last, 3600.0) for first, last in ends)
    frame: pd.DataFrame = connection.execute(f"""
        with pieces as ({pieces}),
        changes as (select team, hour, sum(cast(part as decimal(38, 6))) as part,
            sum(cast(level as decimal(38, 6))) as level from pieces group by all),
        grid as (
            select team, unnest(range(min(hour), max(hour) + interval 1 hour, interval 1 hour)) as hour from changes group by team
        )
        select grid.team, grid.hour as time,
            coalesce(part, 0) / 3.6e9 + sum(coalesce(level, 0)) over (partition by grid.team order by grid.hour) as quantity
        from grid left join changes using (team, hour) order by grid.team, grid.hour
        """).df()
    return frame


def work_of_jobs(connection: Any, *, starts_known: bool) -> pd.DataFrame:
    """Turn jobs into pieces of work, hour by hour.

    Args:
        connection: DuckDB connection with a table or view jobs[team, begin, submit, start, "end", seconds, accelerators].
        starts_known: Is it known when jobs started, so that waiting can be told?

    Returns:
        DataFrame: team, time, quantity (accelerator-hours) and, where starts are known, queued_quantity; hours with neither are left out.
    """
    work = _hourly(connection, _pieces("begin", "seconds", "seconds > 0"))
    if starts_known:
        waiting = _hourly(connection, _pieces("submit", '(epoch_us("end") - epoch_us(submit)) / 1e6', 'start is null and "end" > submit'))
        work = work.merge(waiting.rename(columns={"quantity": "queued_quantity"}), on=["team", "time"], how="outer").fillna(0.0)
    measured = [column for column in ("quantity", "queued_quantity") if column in work]
    return work[(work[measured] > 0).any(axis=1)]


def pieces_of_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the work of the jobs of several files, each job once: the one of the newest file counts.

    Args:
        jobs: Jobs as `accelerator_hours` keeps them, in the order of their files.
    """
    import duckdb

    found = []
    for (region, known), part in jobs.groupby(["region", "starts_known"], sort=True):
        with duckdb.connect() as connection:
            connection.register("jobs", part)
            work = work_of_jobs(connection, starts_known=bool(known))
        found.append(work.rename(columns={"team": "workload"}).assign(region=region, seconds=3600.0, scope=""))
    return pieces(pd.concat(found, ignore_index=True), "jobs")


def each_job_once(jobs: pd.DataFrame) -> pd.DataFrame:
    """Keep a job that is in several files once, as its newest file has it: by name and submission, unnamed ones by all that is known."""
    named = ["job_id", "submit"]
    unnamed = ["submit", "start", "seconds", "accelerators", "team"]
    keys = pd.DataFrame(
        {
            "name": jobs["job_id"].where(jobs["named"], ""),
            **{column: jobs[column].mask(jobs["named"]) if column != "submit" else jobs[column] for column in unnamed},
        }
    )
    columns = [*named[1:], "name", *unnamed[1:]]
    turn = keys.assign(file=jobs["file"]).groupby(["file", *columns], dropna=False).cumcount()
    return jobs[~keys.assign(turn=turn).duplicated([*columns, "turn"], keep="last")]


def jobs_table(jobs: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return the table jobs; names that occur more than once are numbered."""
    ordered = jobs.sort_values(["submit", "start", "job_id"], kind="stable")
    turn = ordered.groupby("job_id").cumcount() + 1
    if (turn > 1).any():
        notes.append(f"{int((turn > 1).sum())} rows repeat a job_id; the later ones are marked #2, #3, ...")
    name = ordered["job_id"].where(turn == 1, ordered["job_id"] + "#" + turn.astype(str))
    frame = ordered.assign(job_id=name, duration_seconds=ordered["seconds"]).sort_values(["submit", "job_id"], kind="stable")
    return shaped(frame, "jobs")
