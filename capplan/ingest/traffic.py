"""Request logs and rate series: how much was asked of a service, hour by hour."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field, field_validator

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.folding import bounded, fold, pieces
from capplan.ingest.identities import Identities, leave_out_known
from capplan.ingest.ingested import Ingested, Stage, WorkOptions, stem_of, workload_rows
from capplan.ingest.opening import Sheet, text_literal

#: HTTP answers that mean "not now": too many requests, unavailable, overloaded.
REFUSED = ("429", "503", "529", "rate_limited", "ratelimited", "throttled", "overloaded", "rejected", "refused")
#: Words and numbers in a column of statuses that mean that nothing was served.
FAILED = (
    r"(?:[45]\d\d(?:\.0+)?|(?:status_code_)?error|fail(?:ed|ure)?|exception|time(?:d_?)?out|cancell?ed|aborted|internal_error|[2-9]|1[0-6])"
)
#: Calls that give no text, so that they have no output tokens even when they are served.
WITHOUT_OUTPUT = "embed|rerank|moderation|transcription|speech|image|score|classif|pooling"
TRUE = ("true", "t", "yes", "y", "1", "1.0", "hit")
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
    Wanted(
        "timestamp",
        "time",
        (
            "time",
            "ts",
            "datetime",
            "created_at",
            "request_time",
            "arrival_time",
            "arrived_at",
            "start_time",
            "timestamp_ms",
            "arrival_timestamp",
            "start_time_unix_nano",
            "timestamp_ns",
            "timestamp_us",
            "request_timestamp",
        ),
    ),
    Wanted(
        "input_tokens",
        "number",
        (
            "ContextTokens",
            "prompt_tokens",
            "input_length",
            "num_prefill_tokens",
            "tokens_in",
            "request_tokens",
            "input",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "num_prompt_tokens",
            "prompt_len",
            "attributes.gen_ai.usage.input_tokens",
        ),
        filled=False,
        minimum=0,
    ),
    Wanted(
        "output_tokens",
        "number",
        (
            "GeneratedTokens",
            "completion_tokens",
            "output_length",
            "num_decode_tokens",
            "tokens_out",
            "response_tokens",
            "output",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "num_generation_tokens",
            "output_len",
            "attributes.gen_ai.usage.output_tokens",
        ),
        filled=False,
        minimum=0,
    ),
    Wanted(
        "workload",
        "text",
        (
            "service",
            "service.name",
            "deployment",
            "endpoint",
            "application",
            "app",
            "model",
            "gen_ai.request.model",
            "attributes.gen_ai.request.model",
        ),
        required=False,
    ),
    Wanted("region", "text", ("location",), required=False),
    Wanted(
        "status",
        "text",
        ("status_code", "http_status", "response_code", "http.response.status_code", "status.code", "otel.status_code", "finish_status"),
        required=False,
    ),
    Wanted("cached", "text", ("cache_hit", "from_cache", "is_cached", "cache_hit_flag"), required=False),
    Wanted("call", "text", ("call_type", "gen_ai.operation.name", "request_type", "endpoint_type"), required=False),
    Wanted("request_id", "text", ("requestid", "span_id", "id", "request", "litellm_call_id"), required=False),
)
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


def _outcomes(matched: dict[str, str]) -> str:
    """Return SQL for what became of a request: served by the model, refused, failed, or cached (answered without the model).

    A request without output tokens failed, unless its kind of call gives none, or its workload never has any.
    """
    state = "lower(trim(status))"
    refused = f"regexp_replace({state}, '\\.0+$', '') in {REFUSED}"
    failed = f"regexp_full_match({state}, '{FAILED}')"
    cached = f"lower(trim(cached)) in {TRUE}"
    text = f"coalesce(call, '') || ' ' || {'workload' if 'workload' in matched else chr(39) * 2}"
    silent = f"output_tokens = 0 and has_output and not regexp_matches(lower({text}), '{WITHOUT_OUTPUT}')"
    return (
        f"case when coalesce({refused}, false) then 'refused' when coalesce({failed}, false) or coalesce({silent}, false) then 'failed'"
        f" when coalesce({cached}, false) then 'cached' else 'served' end"
    )


def _judge_requests(sheet: Sheet, options: RequestOptions, matched: dict[str, str]) -> None:
    """Create the view `requests`: the rows of a log with workload, region and outcome."""
    workload, region = _labels(sheet, options)
    sheet.connection.execute(f"create or replace view labelled as select * replace ({workload} as workload, {region} as region) from typed")
    quiet = [
        name for name, most in sheet.rows("select workload, coalesce(max(output_tokens), 0) from labelled group by workload") if not most
    ]
    sheet.connection.register("quiet", pd.DataFrame({"workload": pd.Series(quiet, dtype=object)}))
    sheet.connection.execute(f"""
        create or replace view requests as select *, {_outcomes(matched)} as outcome
        from (select *, workload not in (select workload from quiet) as has_output from labelled)
        """)


def _grouped_requests(sheet: Sheet, options: RequestOptions) -> pd.DataFrame:
    """Sum a log up by workload, region and interval."""
    kept = "outcome = 'served'"
    return sheet.connection.execute(f"""
        select time_bucket(interval '{options.interval_minutes} minutes', "timestamp") as time, workload, region,
            count(*) filter ({kept}) as requests, count(*) filter (outcome = 'refused') as refused,
            count(*) filter (outcome = 'failed') as failed,
            count(*) filter (outcome = 'cached') as cached,
            coalesce(sum(input_tokens) filter ({kept}), 0) as input_tokens,
            coalesce(sum(output_tokens) filter ({kept}), 0) as output_tokens,
            count(*) filter ({kept} and (input_tokens is null or output_tokens is null)) as unknown,
            min("timestamp") as earliest, max("timestamp") as latest
        from requests group by all order by workload, region, time
        """).df()


def read_requests(file: Path, options: RequestOptions, identities: Identities | None = None) -> Ingested:
    """Say how many requests and tokens came in each interval.

    Parameters
    ----------
    file
        One row a request: when, input tokens, output tokens. Where there is a status, 429, 503 and 529 count as refused; requests that
        failed
        or were answered from a cache are no work of the model and are named in a note.
    options
        How to read it, and what usage counts.
    identities
        Rows of earlier files, which do not count again, and where to keep those of this one.

    Returns
    -------
    Ingested
        Tables requests, usage and workloads. Intervals without a request between the first and the last are zero: a log is complete.
    """
    with Sheet(file, options, nulls=("NULL", "null", "None", "nan", "NaN", "(null)")) as sheet:
        matched = convert(sheet, REQUEST_COLUMNS)
        _judge_requests(sheet, options, matched)
        left_out = leave_out_known(sheet, identities) if identities else ()
        rows = _grouped_requests(sheet, options)
        notes = list(sheet.notes)
    if rows.empty:
        return Ingested({}, tuple(notes), "No request that is not in the book already.", leaves_out=left_out)
    if not rows.requests.sum() and not rows.refused.sum():
        sheet.refuse(
            "no request was served: all failed or came from a cache", "Check the columns of status and output tokens, or give ignore=."
        )
    counts = rows[["requests", "refused", "failed", "cached"]].sum()
    step = pd.Timedelta(minutes=options.interval_minutes)
    first, last = _span(rows)
    head, tail = ((rows.time.min() + step - first) / step, (last - rows.time.max()) / step)
    notes.append(
        f"The log reaches from {rows.earliest.min():%Y-%m-%d %H:%M:%S} to {rows.latest.max():%Y-%m-%d %H:%M:%S} UTC; it covers"
        f" {min(head, 1):.0%} of its first interval and {min(tail, 1):.0%} of its last."
    )
    if counts.failed or counts.cached:
        notes.append(
            f"{int(counts.requests):,} requests were served by the model; {int(counts.failed):,} failed and {int(counts.cached):,} were"
            " answered from a cache, which is no work of the model."
        )
    unknown = int(rows.unknown.sum())
    if unknown:
        notes.append(f"{unknown} requests state no input or output tokens; they count as requests without tokens.")
    parts = _request_parts(rows, options)
    tables, more = fold([parts])
    full, total = tables["usage"], rows[["input_tokens", "output_tokens"]].sum()
    headline = (
        f"{int(counts.requests):,} requests"
        + (f" ({int(counts.refused):,} more refused)" if counts.refused else "")
        + f" with {total.input_tokens:,.0f} input and {total.output_tokens:,.0f} output tokens, in {len(full):,} intervals of"
        f" {options.interval_minutes} minutes."
    )
    if counts.refused and options.unit != "requests":
        notes.append(f"{int(counts.refused)} refused requests count with the mean {options.unit} of the served ones.")
    read = int(counts.sum())
    return Ingested(
        tables, (*notes, *more), headline, parts=parts, rows=read, period=(rows.earliest.min(), rows.latest.max()), leaves_out=left_out
    )


def _request_parts(rows: pd.DataFrame, options: RequestOptions) -> dict[str, pd.DataFrame]:
    """Make pieces of work, sums of requests, and the span that the log covers."""
    amount = rows.input_tokens + rows.output_tokens if options.unit == "tokens" else rows[options.unit]
    work = rows.assign(quantity=amount.astype(float), seconds=60.0 * options.interval_minutes, scope="")
    if rows.refused.any():
        served = rows.groupby("workload").requests.transform("sum")
        per_request = amount.astype(float).groupby(rows.workload).transform("sum") / served.where(served > 0)
        work["refused_quantity"] = (rows.refused * per_request).fillna(0.0)
    requests = rows.groupby(["workload", "time"], as_index=False)[["requests", "input_tokens", "output_tokens"]].sum()
    first, last = _span(rows)
    spans = rows[["workload", "region"]].drop_duplicates(ignore_index=True).assign(family="requests", earliest=first, latest=last)
    names = workload_rows(sorted(rows.workload.unique()), options.unit, options.stage)
    return {"workloads": names, "pieces": pieces(work, "requests"), "requests": requests.astype({"requests": "float64"}), "spans": spans}


def _span(rows: pd.DataFrame) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return what a log covers: from about one gap between requests before its first to one after its last."""
    first, last = rows.earliest.min(), rows.latest.max()
    gap = (last - first) / max(1, int(rows[["requests", "refused", "failed", "cached"]].sum().sum()) - 1)
    return first - gap, last + gap


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
    with Sheet(file, options, nulls=("NULL", "null", "None", "nan", "NaN", "(null)")) as sheet:
        matched = convert(sheet, RATE_COLUMNS)
        workload, region = _labels(sheet, options)
        sheet.connection.execute(f"create view series as select time, {workload} as workload, {region} as region, rate from typed")
        found, spans = [], []
        for name, place in sheet.rows("select distinct workload, region from series order by all"):
            one = "select time, cast(rate as double) as rate from series where workload = ? and region = ? order by time"
            filled, length = _even(sheet, sheet.connection.execute(one, [name, place]).df(), options, matched["rate"])
            hours = max(length, pd.Timedelta(hours=1))
            filled["quantity"] = filled.rate.to_numpy(dtype=float) * length.total_seconds()
            hourly = filled.groupby(filled.time.dt.floor("h") if hours > length else filled.time).quantity.sum()
            found.append(
                hourly.rename_axis("time").reset_index().assign(workload=name, region=place, seconds=hours.total_seconds(), scope="")
            )
            spans.append((name, place, filled.time.iloc[0], filled.time.iloc[-1] + length))
        rows = sheet.rows("select count(*) from series")[0][0]
        notes = tuple(sheet.notes)
    ends = pd.DataFrame(spans, columns=["workload", "region", "earliest", "latest"]).assign(family="rates")
    names = workload_rows(sorted(ends.workload.unique()), options.unit, options.stage)
    parts = {"workloads": names, "pieces": pieces(pd.concat(found, ignore_index=True), "rates"), "spans": ends}
    tables, more = fold([parts])
    usage = tables["usage"]
    headline = (
        f"{usage.quantity.sum():,.0f} {options.unit} in {len(usage):,} hourly intervals from {usage.time.min():%Y-%m-%d} to"
        f" {usage.time.max():%Y-%m-%d}."
    )
    return Ingested(tables, (*notes, *more), headline, parts=parts, rows=int(rows), period=(ends.earliest.min(), ends.latest.max()))


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
    bounded([(part.time.iloc[0], part.time.iloc[-1], seconds)])
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
