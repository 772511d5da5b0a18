"""Output of Slurm's `sacct --parsable2`: jobs, not their steps, and the accelerators they held."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.hosts import racks_of
from capplan.ingest.ingested import Ingested
from capplan.ingest.jobs import JobOptions, accelerator_hours
from capplan.ingest.known import known_table
from capplan.ingest.machines import SLICES, SLICES_OF_FOUR
from capplan.ingest.opening import Sheet

#: What sacct writes for an instant or amount that is not there (yet).
NOTHING = ("Unknown", "None", "None assigned", "N/A", "NONE", "INVALID", "UNLIMITED", "Partition_Limit")
#: Columns whose text is free, so that it may hold the delimiter, which sacct does not quote.
FREE = ("JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir", "WCKey")


class SlurmOptions(JobOptions):
    """Options of sacct."""

    shards_per_accelerator: int | None = Field(
        None,
        description="Shards (gres/shard) that one accelerator is cut into, as gres.conf says; empty = jobs on shards are left out.",
        ge=1,
        le=1024,
    )


SLURM_COLUMNS = (
    Wanted("JobID", "text", ("JobIDRaw",)),
    Wanted("Submit", "time"),
    Wanted("Start", "time", filled=False),
    Wanted("End", "time", filled=False),
    Wanted("Elapsed", "clock", filled=False, required=False),
    Wanted("ElapsedRaw", "number", required=False, minimum=0),
    Wanted("AllocTRES", "text", ("AllocGRES",), filled=False, required=False),
    Wanted("ReqTRES", "text", ("ReqGRES",), filled=False, required=False),
    Wanted("Nodes", "number", ("AllocNodes", "NNodes"), filled=False, required=False),
    Wanted("Account", "text", ("Partition", "User"), required=False),
    Wanted("State", "text", required=False),
    Wanted("NodeList", "text", filled=False, required=False),
    Wanted("NTasks", "number", filled=False, required=False, minimum=0),
    Wanted("TRESUsageInTot", "text", filled=False, required=False),
    Wanted("TRESUsageInAve", "text", filled=False, required=False),
)


def _accelerators(tres: str, nodes: str) -> str:
    """Return SQL for the accelerators in a list of trackable resources.

    The untyped entry (gres/gpu=8) counts all; only where it is missing are typed ones (gres/gpu:h100=8) summed up. A slice of
    Multi-Instance
    GPU (gres/gpu:1g.10gb=1) counts as its share of an accelerator instead of one. Old entries (gpu:4) are for one node.
    """
    untyped = f"try_cast(nullif(regexp_extract({tres}, '(?:^|,)gres/gpu=(\\d+)', 1), '') as bigint)"
    typed = f"list_sum([x::bigint for x in regexp_extract_all({tres}, '(?:^|,)gres/gpu:[^=,]+=(\\d+)', 1)])"
    entry = r"(?:^|,)(?:PER_[A-Z]+:|gres[:/])?gpu(?::[A-Za-z][^:=,]*)?:(\d+)"
    old = f"list_sum([x::bigint for x in regexp_extract_all({tres}, '{entry}', 1)]) * coalesce({nodes}, 1)"
    slices = f"list_sum([{_slice_loss('x')} for x in regexp_extract_all({tres}, '(?:^|,)gres/gpu:([^=,]*\\dg\\.\\d+gb[^=,]*=\\d+)', 1)])"
    return f"coalesce({untyped}, {typed}, {old}) - coalesce({slices}, 0)"


def _slice_loss(entry: str) -> str:
    """Return SQL for what an entry of slices (1g.10gb=2) is less than its count."""
    count = f"regexp_extract({entry}, '=(\\d+)$', 1)::bigint"
    size, memory = (f"regexp_extract({entry}, '(\\d)g\\.(\\d+)gb', {group})" for group in (1, 2))
    fours = ", ".join(f"'{slices}g{gib}'" for slices, gib in sorted(SLICES_OF_FOUR))
    parts = f"case when {size} || 'g' || {memory} in ({fours}) then 4 else {SLICES} end"
    return f"{count} * (1 - {size}::decimal(38, 12) / {parts})"


def _usage(name: str, tres: str) -> str:
    """Return SQL for an amount in a list of used resources (fs/lustre=5120M), in its own unit."""
    amount = f"try_cast(nullif(regexp_extract({tres}, '(?:^|,){name}=(\\d+(?:\\.\\d+)?)', 1), '') as double)"
    unit = f"regexp_extract({tres}, '(?:^|,){name}=[\\d.]+([KMGTP]?)', 1)"
    return f"{amount} * case {unit} when 'K' then 1e3 when 'M' then 1e6 when 'G' then 1e9 when 'T' then 1e12 when 'P' then 1e15 else 1 end"


def _evidence(sheet: Sheet, matched: dict[str, str], book: Path | None) -> tuple[str, str]:
    """Return SQL for the columns that say how well jobs were placed, and for the joins they need; none that the file does not give.

    Steps report what they used: gres/gpuutil is the utilisation of a task's GPUs in percent, summed over them, and fs/lustre what was read
    from a parallel file system. A job's utilisation is the mean over its time and its accelerators; its data lay on the network where
    most of what it read came from there.
    """
    used = [name for name in ("TRESUsageInTot", "TRESUsageInAve") if name in matched]
    columns, joins = "", ""
    if used:
        tasks = {"TRESUsageInTot": "1", "TRESUsageInAve": "coalesce(NTasks, 1)"}
        busy, far, near = (
            f"coalesce({', '.join(f'{_usage(name, tres)} * {tasks[tres]}' for tres in used)})"
            for name in ("gres/gpuutil", "fs/lustre", "fs/disk")
        )
        sheet.connection.execute(f"""
            create view steps as
            select file, split_part(JobID, '.', 1) as JobID, sum({busy} * coalesce(ElapsedRaw, Elapsed)) as busy_percent_seconds,
                sum({far}) > 0.5 * greatest(coalesce(sum({near}), 0), sum({far})) as far
            from typed where contains(JobID, '.') group by all
            """)
        columns += (
            ", case when held * lasted > 0 and busy_percent_seconds is not null"
            " then least(busy_percent_seconds / 100 / cast(held * lasted as double), 1.0) end as utilisation_share,"
            " case when far then 'network' end as storage"
        )
        joins += " left join steps using (file, JobID)"
    if "NodeList" in matched and book is not None:
        lists = [hosts for (hosts,) in sheet.rows("select distinct NodeList from typed where NodeList is not null order by NodeList")]
        racks = racks_of(lists, known_table("nodes", book))
        unknown = int(racks["racks"].isna().sum())
        if unknown:
            sheet.notes.append(
                f"{unknown} of {len(racks)} lists of nodes name hosts that the table nodes does not have; the racks of their jobs are not"
                " known."
            )
        sheet.connection.register("racks_of_hosts", racks)
        columns += ", case when not waited then racks end as racks"
        joins += " left join racks_of_hosts on NodeList = hosts"
    return columns, joins


def read_slurm(files: Path | Sequence[Path], options: SlurmOptions, book: Path | None = None) -> Ingested:
    """Say which Slurm jobs ran, and what each account used in every hour.

    Args:
        files: One output, or several of one layout, of `sacct --allusers --parsable2
            --format=JobID,Account,State,Submit,Start,End,Elapsed,AllocTRES,ReqTRES`. Steps (123.batch) are skipped, since their job counts;
            so are arrays that have not started (123_[0-9]), whose tasks have no rows yet. A job that never started counts with what it
            requested, others with what they were given. With TRESUsageInTot (or TRESUsageInAve and NTasks) and NodeList, jobs also say how
            busy their accelerators were, where their data lay, and in how many racks they stood.
        options: How to read it; Slurm writes local times, so that `timezone` is usually needed.
        book: Folder of the book, whose table nodes says which rack a host stands in.

    Returns:
        Ingested: Tables jobs, usage (accelerator_hours by account) and workloads.
    """
    with Sheet(files, options, nulls=NOTHING, free=FREE) as sheet:
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
        _name_shards(sheet, options)
        percent = sheet.rows(f"select count(*) from typed where {_PERCENT} > 0 and not contains(JobID, '.')")[0][0]
        if percent:
            sheet.notes.append(f"{percent} jobs hold percents of accelerators (gres/mps); 100 of them count as one accelerator.")
        evidence, joins = _evidence(sheet, matched, book)
        ran = 'coalesce(ElapsedRaw, Elapsed, epoch("End") - epoch(Start))'
        sheet.connection.execute(f"""
            create view jobs as
            with plain as (
                select *, {ran} as lasted,
                    coalesce(nullif({_accelerators("AllocTRES", "Nodes")}, 0), {_accelerators("ReqTRES", "Nodes")},
                    {_shards(options)}, {_PERCENT} / 100.0, 0) as held
                from typed
                where not contains(JobID, '.') and not contains(JobID, '[')
            ), judged as (
                select *, (Start is null or (coalesce(lasted, 0) = 0 and (State like 'CANCELLED%' or State = 'PENDING'))) as waited
                from plain
            )
            select file, JobID as job_id, true as named, Submit as submit, case when not waited then Start end as start, "End" as "end",
                case when not waited then cast(lasted as decimal(18, 6)) end as seconds, cast(held as decimal(18, 6)) as accelerators,
                Account as team, State as state{evidence}
            from judged{joins}
            """)
        return accelerator_hours(sheet, options, starts_known=True)


_SHARDS, _PERCENT = (
    f"try_cast(nullif(regexp_extract(coalesce(AllocTRES, ReqTRES), '(?:^|,)gres/{name}(?::[^=,]+)?=(\\d+)', 1), '') as bigint)"
    for name in ("shard", "mps")
)


def _shards(options: SlurmOptions) -> str:
    """Return SQL for the accelerators that shards are, where it is known how many make one."""
    return "null" if options.shards_per_accelerator is None else f"cast({_SHARDS} as decimal(38, 12)) / {options.shards_per_accelerator}"


def _name_shards(sheet: Sheet, options: SlurmOptions) -> None:
    """Say which jobs held shards of accelerators, and leave them out where their size is not known."""
    jobs, shards = sheet.rows(f"select count(*), sum({_SHARDS}) from typed where {_SHARDS} > 0 and not contains(JobID, '.')")[0]
    if jobs and options.shards_per_accelerator is None:
        sheet.notes.append(
            f"{jobs} jobs hold {shards} shards (gres/shard) of accelerators; sacct does not say how many make one. They are left out: give"
            " shards_per_accelerator=."
        )
        sheet.connection.execute(
            f"alter view typed rename to sharded; create view typed as select * from sharded where not coalesce({_SHARDS} > 0, false)"
        )
    elif jobs:
        sheet.notes.append(f"{jobs} jobs hold {shards} shards; {options.shards_per_accelerator} of them count as one accelerator.")
