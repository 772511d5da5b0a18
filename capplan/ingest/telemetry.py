"""How busy the accelerators of jobs were: exports of DCGM through Prometheus or Grafana, long or wide."""

import re
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.ingested import Ingested, shaped
from capplan.ingest.known import known_table
from capplan.ingest.opening import Sheet, quoted
from capplan.ingest.reading_options import ReadingOptions


class TelemetryOptions(ReadingOptions):
    """Options of telemetry."""

    unit: Literal["auto", "percent", "share"] = Field(
        "auto", description="Unit of utilisation; auto = by the name of the metric, else percent where a value is above 1."
    )
    interval_minutes: float = Field(60.0, description="Samples of a job are averaged over intervals of this length.", gt=0, le=1440)


#: Labels that name a job, best first; Prometheus' own label `job` names what was scraped.
JOB_LABELS = ("hpc_job", "slurm_job_id", "slurmjobid", "slurm_job", "job_id", "jobid")
#: Metrics of utilisation, and what they are multiplied with to be a share (NVIDIA DCGM field identifiers; nvidia_gpu_exporter).
METRICS = {
    "dcgm_fi_dev_gpu_util": 0.01,
    "dcgm_fi_prof_gr_engine_active": 1.0,
    "dcgm_fi_prof_sm_active": 1.0,
    "nvidia_smi_utilization_gpu_ratio": 1.0,
}
TIME = Wanted("time", "time", ("timestamp", "ts", "datetime", "date_time", "_time"))
LONG_COLUMNS = (
    TIME,
    Wanted("job_id", "text", (*JOB_LABELS, "job"), filled=False),
    Wanted(
        "utilisation",
        "number",
        ("utilization", "utilisation_share", "gpu_utilisation", "gpu_utilization", "gpu_util", *METRICS, "value", "_value"),
        filled=False,
        minimum=0,
    ),
    Wanted("metric", "text", ("__name__", "metric_name", "_field", "field"), required=False),
    Wanted(
        "data_wait_share", "number", ("data_wait", "dataloader_wait_share", "input_wait_share"), required=False, filled=False, minimum=0
    ),
)


def read_telemetry(file: Path, options: TelemetryOptions, book: Path | None = None) -> Ingested:
    """Say how busy the accelerators of jobs were.

    Args:
        file: Long: a row for each time and accelerator or job, with the job, the time and the utilisation. Wide: a column of times, and a
            column for each job, or for each accelerator with the job among the labels in its name (DCGM_FI_DEV_GPU_UTIL{gpu="0",
            hpc_job="17"}).
        book: Folder of the book; only its jobs are kept.

    Returns:
        Ingested: Table telemetry: the mean over a job's accelerators and each interval.
    """
    with Sheet(file, options) as sheet:
        wide = not _named(sheet, options, LONG_COLUMNS[1]) and len(sheet.columns) > 1
        columns = list(sheet.columns)
    if wide:
        series = {f"s{place}": name for place, name in enumerate(columns) if not _is(name, TIME) and name != options.columns.get("time")}
        options = options.model_copy(update={"columns": {**options.columns, **series}})
    with Sheet(file, options) as sheet:
        notes = _samples_of_series(sheet, series) if wide else _samples_of_rows(sheet)
        rows = int(sheet.rows("select count(*) from typed")[0][0])
        _scale(sheet, options, notes)
        step = f"interval '{options.interval_minutes * 60:.0f} seconds'"
        frame = sheet.connection.execute(f"""
            select job_id, time_bucket({step}, time) as time, least(avg(share), 1.0) as utilisation_share, avg(wait) as data_wait_share
            from samples where job_id is not null and share is not null group by all order by all
            """).df()
        if book is not None:
            frame = _of_known_jobs(sheet, frame, book, notes)
        if frame.empty:
            sheet.refuse("no row has a time, a job and a utilisation", "Name the columns: columns=job_id=NAME,utilisation=NAME.")
        notes = [*sheet.notes, *notes]
    table = shaped(frame.dropna(axis="columns", how="all"), "telemetry")
    period = (table["time"].min(), table["time"].max())
    headline = f"{table['job_id'].nunique():,} jobs used {table['utilisation_share'].mean():.0%} of their accelerators on average."
    return Ingested({"telemetry": table}, tuple(notes), headline, parts={"telemetry": table}, rows=rows, period=period)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is(name: str, wanted: Wanted) -> bool:
    return _plain(name) in {_plain(alias) for alias in (wanted.name, *wanted.aliases)}


def _named(sheet: Sheet, options: TelemetryOptions, wanted: Wanted) -> bool:
    """Tell whether the file has a column."""
    return wanted.name in options.columns or any(_is(name, wanted) for name in sheet.columns)


def job_and_metric(series: str) -> tuple[str | None, str]:
    """Return job and metric that the name of a series states; a name without labels is the job.

    Examples:
        >>> job_and_metric('DCGM_FI_DEV_GPU_UTIL{gpu="0", hpc_job="17", job="dcgm"}'), job_and_metric("17_3"), job_and_metric('{gpu="0"}')
        (('17', 'dcgm_fi_dev_gpu_util'), ('17_3', ''), (None, ''))
    """
    metric, bracket, labels = series.partition("{")
    if not bracket:
        return series.strip(), ""
    for label in JOB_LABELS:
        found = re.search(rf'(?:^|[,\s]){label}\s*[=:]\s*"?([^",}}\s]+)', labels, re.IGNORECASE)
        if found:
            return found[1], metric.strip().lower()
    return None, metric.strip().lower()


def _samples_of_rows(sheet: Sheet) -> list[str]:
    """Create the view `raw` of a long file."""
    matched = convert(sheet, LONG_COLUMNS)
    column = matched["utilisation"].lower()
    metric = "lower(metric)" if "metric" in matched else f"'{column if column in METRICS else ''}'"
    sheet.connection.execute(
        f"create view raw as select time, job_id, cast(utilisation as double) as value, {metric} as metric,"
        " cast(data_wait_share as double) as wait from typed"
    )
    return []


def _samples_of_series(sheet: Sheet, series: dict[str, str]) -> list[str]:
    """Create the view `raw` of a wide file."""
    convert(sheet, (TIME, *(Wanted(name, "number", filled=False, required=False, minimum=0) for name in series)))
    whose = {name: job_and_metric(header) for name, header in series.items()}
    known = {name: (job, metric) for name, (job, metric) in whose.items() if job is not None}
    if not known:
        sheet.refuse(
            "no column names a job",
            f"Export one of the labels {', '.join(JOB_LABELS)}, or name columns by their jobs.",
            value=", ".join(list(series.values())[:10]),
        )
    jobs = pd.DataFrame([(name, job, metric) for name, (job, metric) in known.items()], columns=["series", "job_id", "metric"])
    sheet.connection.register("jobs_of_series", jobs)
    listed = ", ".join(quoted(name) for name in known)
    sheet.connection.execute(
        "create view raw as select time, job_id, cast(value as double) as value, metric, null::double as wait"
        f" from (unpivot (select time, {listed} from typed) on {listed} into name series value value) join jobs_of_series using (series)"
    )
    left = len(whose) - len(known)
    return [f"{left} columns have labels but none of a job, and are left out."] if left else []


def _scale(sheet: Sheet, options: TelemetryOptions, notes: list[str]) -> None:
    """Create the view `samples` with shares; metrics that are not utilisation are left out."""
    found = {str(metric or "") for (metric,) in sheet.rows("select distinct metric from raw")}
    others = sorted(metric for metric in found if metric and metric not in METRICS)
    chosen = found & set(METRICS)
    if chosen and others:
        notes.append(f"Metrics that are not utilisation are left out: {', '.join(others[:5])}.")
    kept = "metric in (" + ", ".join(f"'{metric}'" for metric in sorted(chosen)) + ")" if chosen else "true"
    if options.unit != "auto":
        factor = "0.01" if options.unit == "percent" else "1.0"
    elif chosen:
        factor = "case metric " + " ".join(f"when '{metric}' then {METRICS[metric]}" for metric in sorted(chosen)) + " end"
    else:
        largest = sheet.rows("select max(value) from raw")[0][0] or 0.0
        factor = "0.01" if largest > 1 else "1.0"
        notes.append(f"Utilisation is taken for {'percent' if largest > 1 else 'a share from 0 to 1'}: its largest value is {largest:g}.")
    sheet.connection.execute(f"create view samples as select time, job_id, value * {factor} as share, wait from raw where {kept}")
    high = sheet.rows("select max(share), max(wait) from samples")[0]
    if max(high[0] or 0.0, high[1] or 0.0) > 1.01:
        sheet.refuse(
            "a utilisation or wait is above 100 %", "Say its unit: unit=percent or unit=share.", value=f"{max(v or 0.0 for v in high):g}"
        )


def _of_known_jobs(sheet: Sheet, frame: pd.DataFrame, book: Path, notes: list[str]) -> pd.DataFrame:
    """Keep the jobs that the book has."""
    known = set(known_table("jobs", book)["job_id"].astype(str))
    mine = frame["job_id"].isin(known)
    if not mine.any():
        sheet.refuse(
            "no job of the file is in the table jobs of the book",
            "Ingest the jobs first (capplan ingest slurm or jobs), with the same names.",
            value=", ".join(frame["job_id"].unique()[:5]),
        )
    left = frame.loc[~mine, "job_id"].nunique()
    if left:
        notes.append(f"{left} jobs are not in the table jobs of the book and are left out.")
    return frame[mine]
