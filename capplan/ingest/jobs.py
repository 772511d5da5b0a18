"""Job tables of schedulers: which jobs ran, and how many accelerator-hours each team used in every hour."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.folding import fold
from capplan.ingest.ingested import FileTotals, Ingested, Stage, WorkOptions, stem_of, work_of, workload_rows
from capplan.ingest.job_work import work_of_jobs
from capplan.ingest.opening import Sheet, text_literal
from capplan.ingest.pieces import pieces


class JobOptions(WorkOptions):
    """Options of job tables."""

    whole: bool = Field(False, description="Jobs without a submission or an end ran from the first instant of the file on, or to its last.")
    stage: Stage = Field("pretraining", description="Stage of the workloads.")
    team: str | None = Field(None, description="Team of all jobs; empty = the file's own column.")
    place: Literal["start", "submit"] = Field(
        "start",
        description=(
            "Count a job's work when it ran (start), or when it would have run without waiting (submit), so that full hours do not hide"
            " demand."
        ),
    )
    maximum_jobs: int = Field(
        1_000_000, description="A file with more jobs gives usage only, since a table of jobs would not fit a book.", ge=0
    )


JOB_COLUMNS = (
    Wanted("job_id", "text", ("jobid", "job", "job_name", "id", "name", "pod", "instance_sn", "sn"), required=False),
    Wanted(
        "submit", "time", ("submit_time", "submitted_at", "submitted_time", "creation_time", "timestamp", "submission_time", "created_at")
    ),
    Wanted("start", "time", ("start_time", "scheduled_time", "started_at"), required=False),
    Wanted("end", "time", ("end_time", "deletion_time", "finished_at", "ended_at", "completion_time"), required=False),
    Wanted("duration", "number", ("duration_seconds", "run_time", "runtime", "elapsed_seconds", "duration_s"), required=False, minimum=0),
    Wanted(
        "accelerators",
        "number",
        ("num_gpus", "num_gpu", "gpus", "gpu_num", "gpu_request", "gpu_count", "accelerator_count"),
        filled=False,
        minimum=0,
    ),
    Wanted("instances", "number", ("inst_num",), required=False, minimum=0),
    Wanted("share_thousandths", "number", ("gpu_milli",), required=False, minimum=0),
    Wanted("stated_seconds", "number", ("gpu_time", "gpu_seconds", "accelerator_seconds"), required=False, minimum=0),
    Wanted("team", "text", ("cluster", "virtual_cluster", "vc", "account", "group", "user", "qos", "app_name"), required=False),
    Wanted("state", "text", ("status", "pod_phase", "job_state"), required=False),
    Wanted("run_id", "text", ("training_run", "run_name"), required=False),
)


def read_jobs(files: Path | Sequence[Path], options: JobOptions) -> Ingested:
    """Say which jobs ran, and what each team used in every hour.

    Args:
        files: One table, or several of one layout. One row a job: submitted, accelerators, and either how long it ran or when it ended;
            optionally when it started. A share of an accelerator in thousandths multiplies the count.

    Returns:
        Ingested: As `accelerator_hours` gives it.
    """
    with Sheet(files, options, nulls=("NULL", "null", "None", "nan", "NaN", "Unknown")) as sheet:
        matched = convert(sheet, [replace(column, filled=column.filled and not options.whole) for column in JOB_COLUMNS])
        if "duration" not in matched and "end" not in matched:
            sheet.refuse(
                "a job needs a duration or an end",
                "Name one of the columns: columns=duration=NAME or columns=end=NAME.",
                value=", ".join(sheet.columns[:30]),
            )
        begun = "start" if "start" in matched else "submit"
        never = "start is null" if "start" in matched else "false"
        until_end = f'epoch("end") - epoch({begun})'
        lasted = f"coalesce(duration, {until_end})" if "duration" in matched else until_end
        starts = "[" + ", ".join(map(str, _rows_before(sheet))) + "]"
        stem = sheet.by_file([stem_of(file) for file in sheet.files])
        sheet.connection.execute(f"""
            create view jobs as select file,
                coalesce(job_id, {stem} || '-' || lpad((ordinal - {starts}[file + 1])::varchar, 8, '0')) as job_id,
                job_id is not null as named, submit, start, "end",
                case when {never} then null else cast({lasted} as decimal(18, 6)) end as seconds,
                cast(coalesce(accelerators, 0) * coalesce(share_thousandths, 1000) / 1000 * coalesce(instances, 1) as decimal(18, 6))
                as accelerators, team, state, run_id
            from (select row_number() over () as ordinal, * from {_open_ended(sheet) if options.whole else "typed"})
            """)
        _compare_stated(sheet, matched)
        return accelerator_hours(sheet, options, starts_known="start" in matched)


def _open_ended(sheet: Sheet) -> str:
    """Return SQL for rows whose jobs, where they state no submission or no end, ran from the first instant of the file, or to its last."""
    early, late = sheet.rows('select count(*) filter (submit is null), count(*) filter ("end" is null) from typed')[0]
    sheet.notes.append(
        f"{early} jobs ran before the file begins and {late} after it ends; they count from its first instant, or to its last."
    )
    return """(select typed.* replace (coalesce(submit, start, first) as submit, coalesce("end", last) as "end",
        case when submit is null then coalesce(start, first) else start end as start)
        from typed, (select min(least(submit, start, "end")) as first, max(greatest(submit, start, "end")) as last from typed))"""


def _rows_before(sheet: Sheet) -> list[int]:
    """Return how many rows the files before each one have; rows are counted by file where they have no name."""
    if not sheet.many:
        return [0]
    counts = [int(count) for (count,) in sheet.per_file("count(*)")]
    return [sum(counts[:place]) for place in range(len(counts))]


def _compare_stated(sheet: Sheet, matched: dict[str, str]) -> None:
    """Say so where the file's own accelerator-seconds are not duration x accelerators."""
    if "stated_seconds" in matched and "duration" in matched:
        off = sheet.rows("select count(*) from typed where abs(stated_seconds - duration * accelerators) > 1")[0][0]
        if off:
            sheet.notes.append(
                f"In {off} rows {matched['stated_seconds']} is not duration x accelerators; duration x accelerators is used."
            )


def _check_jobs(sheet: Sheet, starts_known: bool) -> int:
    """Refuse jobs that cannot be, say which were left out, and return how many there are."""
    total, bare, running, backwards = sheet.rows(
        """select count(*), count(*) filter (accelerators = 0), count(*) filter (seconds is null and start is not null),
        count(*) filter (seconds < 0) from jobs"""
    )[0]
    if backwards:
        first = sheet.rows("select job_id from jobs where seconds < 0 order by job_id limit 1")[0][0]
        sheet.refuse(f"{backwards} jobs end before their start", "Correct or delete them.", value=str(first), column="end")
    if total == bare:
        sheet.refuse("no job has an accelerator", "Name the column that counts them: columns=accelerators=NAME.")
    if bare:
        sheet.notes.append(f"{bare} jobs without accelerators were left out.")
    if running:
        sheet.notes.append(f"{running} jobs have started but state neither duration nor end; they are in jobs but not in usage.")
    if not starts_known:
        sheet.notes.append("The file does not say when jobs started: their work counts from submission on, and waiting cannot be seen.")
    return int(total)


def accelerator_hours(sheet: Sheet, options: JobOptions, *, starts_known: bool) -> Ingested:
    """Turn the view `jobs` of a sheet into tables.

    Args:
        sheet: With a view jobs[job_id, named, submit, start, end, seconds, accelerators, team, state]; seconds is NULL for jobs that never
            ran.
        starts_known: Does the file say when jobs started?

    Returns:
        Ingested: Tables jobs, usage (accelerator_hours by team) and workloads. `queued_quantity` is what jobs held back that never ran:
            accelerators x the time they waited for; work that ran late is in `quantity` already and is stated in a note.
    """
    connection, given = sheet.connection, options.team or options.workload
    team = text_literal(given) if given else f"coalesce(team, {sheet.by_file([work_of(file) for file in sheet.files])})"
    total = _check_jobs(sheet, starts_known)
    begin = "submit" if options.place == "submit" else "coalesce(start, submit)"
    kept = (
        f"select * replace ({team} as team, cast(seconds as double) as seconds, cast(accelerators as double) as accelerators), {begin} as"
        " begin"
    )
    connection.execute(f"create or replace temp table kept as {kept} from jobs where accelerators > 0")
    connection.execute("create or replace view jobs as select * from kept")
    if starts_known:
        _say_waiting(sheet, options)
    rows = int(sheet.rows("select count(*) from jobs")[0][0])
    parts: dict[str, pd.DataFrame] = {}
    if rows <= options.maximum_jobs:
        parts["jobs"] = (
            connection.execute("select * from jobs order by file, submit, job_id")
            .df()
            .assign(region=options.region, starts_known=starts_known)
        )
    else:
        parts["pieces"] = _work_alone(sheet, options, rows, starts_known=starts_known)
    tables, more = fold(parts)
    if "usage" not in tables:
        sheet.refuse("no job used or waited for an accelerator for any time", "Check the columns of start, end and duration.")
    hourly = tables["usage"]
    teams = connection.execute("select distinct file, team as workload from kept").df()
    parts["workloads"] = workload_rows(
        teams[teams["workload"].isin(hourly["workload"])], "accelerator_hours", options.stage, deferrable=True, by_team=True
    )
    tables["workloads"] = parts["workloads"].drop(columns="file").drop_duplicates("workload", ignore_index=True)
    headline = (
        f"{rows:,} jobs of {hourly.workload.nunique()} teams used {hourly.quantity.sum():,.0f} accelerator-hours from"
        f" {hourly.time.min():%Y-%m-%d} to {hourly.time.max():%Y-%m-%d}."
    )
    each = _totals_of_files(sheet)
    period = (min(one.period[0] for one in each if one.period), max(one.period[1] for one in each if one.period))
    return Ingested(tables, (*sheet.notes, *more), headline, parts=parts, rows=total, period=period, each=each)


def _work_alone(sheet: Sheet, options: JobOptions, rows: int, *, starts_known: bool) -> pd.DataFrame:
    """Return the pieces of work of more jobs than a book takes, and say so."""
    connection = sheet.connection
    sheet.notes.append(
        f"{rows:,} jobs are more than maximum_jobs={options.maximum_jobs:,}: only usage was taken, and a job that another file has too"
        " counts twice."
    )
    connection.execute("create or replace view jobs as select * replace (file || chr(31) || team as team) from kept")
    work = work_of_jobs(connection, starts_known=starts_known)
    whose = work["team"].str.split("\x1f", n=1, expand=True)
    work = work.assign(workload=whose[1], file=whose[0].astype(int)).drop(columns="team").sort_values("file", kind="stable")
    return pieces(work.assign(region=options.region, seconds=3600.0, scope=""), "jobs")


def _totals_of_files(sheet: Sheet) -> tuple[FileTotals, ...]:
    """Say what each file holds."""
    rows = dict(sheet.rows("select file, count(*) from typed group by file"))
    found = {
        int(file): ((pd.Timestamp(first), pd.Timestamp(last)), f"{jobs:,} jobs used {hours:,.0f} accelerator-hours.")
        for file, jobs, hours, first, last in sheet.rows("""
            select file, count(*), coalesce(sum(seconds * accelerators), 0) / 3600, min(submit), max(coalesce("end", start, submit))
            from kept group by file
            """)
    }
    nothing = (None, "No job with an accelerator.")
    return tuple(FileTotals(int(rows.get(file, 0)), *found.get(file, nothing)) for file in range(len(sheet.files)))


def _say_waiting(sheet: Sheet, options: JobOptions) -> None:
    """State how much work ran later than wanted, and how much never ran."""
    late, never = sheet.rows(
        """select
            sum(accelerators * cast(least(epoch_us(start) - epoch_us(submit), seconds * 1e6) as double)) filter (start > submit) / 3.6e9,
            count(*) filter (start is null) from jobs"""
    )[0]
    if late:
        where = (
            "it is counted at submission"
            if options.place == "submit"
            else "it is counted when it ran; place=submit counts it when it was wanted"
        )
        sheet.notes.append(f"Jobs waited: {late:,.0f} accelerator-hours ran later than wanted ({where}).")
    if never:
        sheet.notes.append(f"{never} jobs never started; queued_quantity holds their accelerators for as long as they waited.")
