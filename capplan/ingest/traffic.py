"""Request logs and rate series: how much was asked of a service, hour by hour."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field, field_validator

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.ingested import Ingested, Stage, WorkOptions, shaped, stem_of, workload_rows
from capplan.ingest.opening import Sheet, text_literal

#: HTTP answers that mean "not now": too many requests, unavailable, overloaded.
REFUSED = (429, 503, 529)
SECONDS_PER_HOUR = 3600


class RequestOptions(WorkOptions):
    """Options of a request log."""

    unit: Literal["requests", "input_tokens", "output_tokens", "tokens"] = Field("requests", description="What usage counts.")
    stage: Stage = Field("serving", description="Stage of the workload.")
    interval_minutes: Literal[5, 10, 15, 30, 60, 1440] = Field(60, description="Length of an interval of usage.")

    @field_validator("interval_minutes", mode="before")
    @classmethod
    def _whole_number(cls, value: object) -> object:
        return int(value) if isinstance(value, str) and value.isdigit() else value


class RateOptions(WorkOptions):
    """Options of a rate series."""

    unit: str = Field("requests", description="What the rate counts, a second.", min_length=1)
    stage: Stage = Field("serving", description="Stage of the workload.")
    gaps: Literal["error", "hold"] = Field(
        "error", description="What to do about missing intervals: refuse the file, or hold the last rate."
    )


REQUEST_COLUMNS = (
    Wanted("timestamp", "time", ("time", "ts", "datetime", "created_at", "request_time", "arrival_time", "arrived_at", "start_time", "timestamp_ms", "arrival_timestamp")),
    Wanted(
        "input_tokens", "number", ("ContextTokens", "prompt_tokens", "input_length", "num_prefill_tokens", "tokens_in", "request_tokens", "input"),
        filled=False, minimum=0,
    ),
    Wanted(
        "output_tokens", "number", ("GeneratedTokens", "completion_tokens", "output_length", "num_decode_tokens", "tokens_out", "response_tokens", "output"),
        filled=False, minimum=0,
    ),
    Wanted("workload", "text", ("service", "deployment", "endpoint", "application", "app", "model"), required=False),
    Wanted("region", "text", ("location",), required=False),
    Wanted("status", "number", ("status_code", "http_status", "response_code"), required=False),
)  # fmt: skip
RATE_COLUMNS = (
    Wanted("time", "time", ("timestamp", "ts", "datetime", "seconds_from_start", "seconds", "time_s", "elapsed_seconds", "interval_start")),
    Wanted(
        "rate",
        "number",
        ("total_requests_per_second", "requests_per_second", "rps", "qps", "request_rate", "queries_per_second"),
        filled=False,
        minimum=0,
    ),
    Wanted("workload", "text", ("service", "deployment", "endpoint", "application", "app", "model"), required=False),
    Wanted("region", "text", ("location",), required=False),
)


def _labels(sheet: Sheet, options: WorkOptions) -> tuple[str, str]:
    """Return SQL for workload and region of a row."""
    workload = text_literal(options.workload or stem_of(sheet.file))
    name = workload if options.workload else f"coalesce(workload, {workload})"
    return name, f"coalesce(region, {text_literal(options.region)})"


def read_requests(file: Path, options: RequestOptions) -> Ingested:
    """Say how many requests and tokens came in each interval.

    Parameters
    ----------
    file
        One row a request: when, input tokens, output tokens; where there is a status, 429, 503 and 529 count as refused.
    options
        How to read it, and what usage counts.

    Returns
    -------
    Ingested
        Tables requests, usage and workloads. Intervals without a request between the first and the last are zero: a log is complete.
    """
    with Sheet(file, options, nulls=("NULL", "null", "None", "nan", "NaN")) as sheet:
        matched = convert(sheet, REQUEST_COLUMNS)
        workload, region = _labels(sheet, options)
        refused = f"coalesce(status in {REFUSED}, false)"
        rows = sheet.connection.execute(
            f"""
            select time_bucket(interval '{options.interval_minutes} minutes', "timestamp") as time, {workload} as workload, {region} as region,
                count(*) filter (not {refused}) as requests, count(*) filter ({refused}) as refused,
                coalesce(sum(input_tokens) filter (not {refused}), 0) as input_tokens, coalesce(sum(output_tokens) filter (not {refused}), 0) as output_tokens,
                count(*) filter (not {refused} and (input_tokens is null or output_tokens is null)) as unknown,
                min("timestamp") as earliest, max("timestamp") as latest
            from typed group by all order by workload, region, time
            """  # noqa: S608
        ).df()
        notes = list(sheet.notes)
    step = pd.Timedelta(minutes=options.interval_minutes)
    earliest, latest = rows.earliest.min(), rows.latest.max()
    head, tail = (rows.time.min() + step - earliest) / step, (latest - rows.time.max()) / step
    notes.append(
        f"The log reaches from {earliest:%Y-%m-%d %H:%M:%S} to {latest:%Y-%m-%d %H:%M:%S} UTC; it covers {head:.0%} of its first interval and {tail:.0%} of its last."
    )
    unknown, turned_away = int(rows.unknown.sum()), int(rows.refused.sum())
    if unknown:
        notes.append(f"{unknown} requests state no input or output tokens; they count as requests without tokens.")
    measures = ["requests", "refused", "input_tokens", "output_tokens"]
    parts = []
    for (name, place), part in rows.groupby(["workload", "region"], sort=True):
        times = pd.date_range(part.time.min(), part.time.max(), freq=step, name="time")
        parts.append(part.set_index("time")[measures].reindex(times, fill_value=0).reset_index().assign(workload=name, region=place))
    full = pd.concat(parts, ignore_index=True)
    if len(full) > len(rows):
        notes.append(f"{len(full) - len(rows)} intervals without a request were added as zero.")
    amount = full.input_tokens + full.output_tokens if options.unit == "tokens" else full[options.unit]
    usage = full.assign(quantity=amount.astype(float))
    if "status" in matched:
        served = full.groupby("workload").requests.transform("sum")
        per_request = amount.groupby(full.workload).transform("sum") / served.where(served > 0)
        usage["refused_quantity"] = (full.refused * per_request).fillna(0.0)
        if turned_away and options.unit != "requests":
            notes.append(f"{turned_away} refused requests count with the mean {options.unit} of the served ones.")
    total = full.groupby(["workload", "time"], as_index=False)[["requests", "input_tokens", "output_tokens"]].sum()
    names = sorted(full.workload.unique())
    tables = {
        "workloads": workload_rows(names, options.unit, options.stage),
        "usage": shaped(usage, "usage"),
        "requests": shaped(total, "requests"),
    }
    served_all = full[measures].sum()
    headline = (
        f"{int(served_all.requests):,} requests"
        + (f" ({turned_away:,} more refused)" if turned_away else "")
        + f" with {served_all.input_tokens:,.0f} input and {served_all.output_tokens:,.0f} output tokens, in {len(full):,} intervals of {options.interval_minutes} minutes."
    )
    return Ingested(tables, tuple(notes), headline)


def read_rates(file: Path, options: RateOptions) -> Ingested:
    """Say how many requests came in each hour, from a series of rates.

    The quantity of an hour is the sum of rate x length over its intervals.

    Parameters
    ----------
    file
        One row an interval: its start (an instant, or seconds from `start`) and the requests a second in it.
    options
        How to read it.

    Returns
    -------
    Ingested
        Tables usage and workloads; a series coarser than an hour keeps its own intervals.

    Raises
    ------
    BookError
        If intervals are missing or occur twice, or if their length neither divides the hour nor is made of hours.
    """
    with Sheet(file, options, nulls=("NULL", "null", "None", "nan", "NaN")) as sheet:
        matched = convert(sheet, RATE_COLUMNS)
        workload, region = _labels(sheet, options)
        sheet.connection.execute(f"create view series as select time, {workload} as workload, {region} as region, rate from typed")  # noqa: S608
        parts = []
        for name, place in sheet.rows("select distinct workload, region from series order by all"):
            one = "select time, cast(rate as double) as rate from series where workload = ? and region = ? order by time"
            filled, length = _even(sheet, sheet.connection.execute(one, [name, place]).df(), options, matched["rate"])
            hours = max(length, pd.Timedelta(hours=1))
            filled["quantity"] = filled.rate.to_numpy(dtype=float) * length.total_seconds()
            hourly = filled.groupby(filled.time.dt.floor("h") if hours > length else filled.time).quantity.sum()
            parts.append(hourly.rename_axis("time").reset_index().assign(workload=name, region=place))
            covered = len(filled) * (length / hours) / len(hourly)
            if covered < 1:
                sheet.notes.append(f"{name}: the first or last hour is not covered in full; its requests are those of its intervals.")
        notes = tuple(sheet.notes)
    usage = shaped(pd.concat(parts, ignore_index=True), "usage")
    tables = {"workloads": workload_rows(sorted(usage.workload.unique()), options.unit, options.stage), "usage": usage}
    headline = f"{usage.quantity.sum():,.0f} {options.unit} in {len(usage):,} hourly intervals from {usage.time.min():%Y-%m-%d} to {usage.time.max():%Y-%m-%d}."
    return Ingested(tables, notes, headline)


def _even(sheet: Sheet, part: pd.DataFrame, options: RateOptions, rate: str) -> tuple[pd.DataFrame, pd.Timedelta]:
    """Check that intervals follow each other evenly; return them without gaps, and their length."""
    if len(part) < 2:
        sheet.refuse("a rate series needs at least two rows, since their distance is the length of an interval", "Export more of it.")
    steps = part.time.diff().dropna()
    if (steps == pd.Timedelta(0)).any():
        first = part.time[part.time.duplicated()].iloc[0]
        sheet.refuse(
            "an interval occurs twice",
            "Delete one of the two rows, or give workload= for one series at a time.",
            value=str(first),
            column="time",
        )
    length = steps.mode().iloc[0]
    seconds = length.total_seconds()
    if SECONDS_PER_HOUR % seconds and seconds % SECONDS_PER_HOUR:
        sheet.refuse(
            "the length of an interval must divide the hour or be made of hours",
            "Resample the series.",
            value=f"{seconds:g} s",
            column="time",
        )
    times = pd.date_range(part.time.iloc[0], part.time.iloc[-1], freq=length, name="time")
    off_grid = part.time[~part.time.isin(times)]
    if len(off_grid):
        sheet.refuse(
            f"intervals of {seconds:g} s start every {seconds:g} s",
            "Correct the time, or resample the series.",
            value=str(off_grid.iloc[0]),
            column="time",
        )
    if SECONDS_PER_HOUR % seconds == 0 and ((part.time.iloc[0] - part.time.iloc[0].floor("h")) % length) != pd.Timedelta(0):
        sheet.refuse("intervals must not cross the hour", "Shift start= to a full interval.", value=str(part.time.iloc[0]), column="time")
    full = part.set_index("time").rate.reindex(times)
    missing = full.isna()
    if missing.any():
        if options.gaps == "error":
            first = missing.idxmax()
            rule = f"{int(missing.sum())} intervals have no row or an empty rate, the first at {first}"
            sheet.refuse(rule, "Complete the series, or give gaps=hold to hold the last rate before each gap.", column=rate)
        full = full.ffill().bfill()
        sheet.notes.append(f"{int(missing.sum())} missing intervals hold the last rate before them.")
    return full.rename("rate").reset_index(), length
