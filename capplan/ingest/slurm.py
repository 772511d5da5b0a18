"""Output of Slurm's `sacct --parsable2`: jobs, not their steps, and the accelerators they held."""

from __future__ import annotations

from pathlib import Path

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.ingested import Ingested
from capplan.ingest.jobs import JobOptions, accelerator_hours
from capplan.ingest.opening import Sheet

#: What sacct writes for an instant or amount that is not there (yet).
NOTHING = ("Unknown", "None", "None assigned", "N/A", "NONE", "INVALID", "UNLIMITED", "Partition_Limit")
SLURM_COLUMNS = (
    Wanted("JobID", "text"),
    Wanted("Submit", "time"),
    Wanted("Start", "time", filled=False),
    Wanted("End", "time", filled=False),
    Wanted("Elapsed", "clock", filled=False, required=False),
    Wanted("ElapsedRaw", "number", required=False, minimum=0),
    Wanted("AllocTRES", "text", ("AllocGRES",), filled=False, required=False),
    Wanted("ReqTRES", "text", ("ReqGRES",), filled=False, required=False),
    Wanted("Account", "text", ("Partition", "User"), required=False),
    Wanted("State", "text", required=False),
)


def _accelerators(tres: str) -> str:
    """Return SQL for the accelerators in a list of trackable resources.

    The untyped entry (gres/gpu=8) counts all; only where it is missing are typed ones (gres/gpu:h100=8) summed up.
    """
    untyped = f"try_cast(nullif(regexp_extract({tres}, '(?:^|,)gres/gpu=(\\d+)', 1), '') as bigint)"
    typed = f"list_sum([x::bigint for x in regexp_extract_all({tres}, '(?:^|,)gres/gpu:[^=,]+=(\\d+)', 1)])"
    old = f"list_sum([x::bigint for x in regexp_extract_all({tres}, '(?:^|,)gpu(?::[A-Za-z][^:=,]*)?:(\\d+)', 1)])"
    return f"coalesce({untyped}, {typed}, {old})"


def read_slurm(file: Path, options: JobOptions) -> Ingested:
    """Say which Slurm jobs ran, and what each account used in every hour.

    Parameters
    ----------
    file
        Output of `sacct --allusers --parsable2 --format=JobID,Account,State,Submit,Start,End,Elapsed,AllocTRES,ReqTRES`. Steps (123.batch)
        are skipped, since their job counts; so are arrays that have not started (123_[0-9]), whose tasks have no rows yet. A job that never
        started counts with what it requested, others with what they were given.
    options
        How to read it; Slurm writes local times, so that `timezone` is usually needed.

    Returns
    -------
    Ingested
        Tables jobs, usage (accelerator_hours by account) and workloads.
    """
    with Sheet(file, options, nulls=NOTHING) as sheet:
        matched = convert(sheet, SLURM_COLUMNS)
        if "AllocTRES" not in matched and "ReqTRES" not in matched:
            sheet.refuse(
                "there is neither AllocTRES nor ReqTRES, and so no accelerators",
                "Add both to sacct --format.",
                value=", ".join(sheet.columns[:30]),
            )
        steps, arrays = sheet.rows(
            "select count(*) filter (contains(JobID, '.')), count(*) filter (not contains(JobID, '.') and contains(JobID, '[')) from typed"
        )[0]
        if steps:
            sheet.notes.append(f"{steps} job steps were skipped; their jobs count.")
        if arrays:
            sheet.notes.append(f"{arrays} waiting array jobs were skipped; their tasks have no rows of their own yet.")
        ran = 'coalesce(ElapsedRaw, Elapsed, epoch("End") - epoch(Start))'
        sheet.connection.execute(
            f"""
            create view jobs as
            with plain as (
                select *, {ran} as lasted, coalesce(nullif({_accelerators("AllocTRES")}, 0), {_accelerators("ReqTRES")}, 0) as held from typed
                where not contains(JobID, '.') and not contains(JobID, '[')
            ), judged as (
                select *, (Start is null or (coalesce(lasted, 0) = 0 and (State like 'CANCELLED%' or State = 'PENDING'))) as waited from plain
            )
            select JobID as job_id, Submit as submit, case when not waited then Start end as start, "End" as "end",
                case when not waited then cast(lasted as decimal(18, 6)) end as seconds, cast(held as decimal(18, 6)) as accelerators,
                Account as team, State as state
            from judged
            """  # noqa: S608
        )
        return accelerator_hours(sheet, options, starts_known=True)
