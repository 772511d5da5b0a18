"""Request logs: how much was asked of a service, hour by hour."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.folding import fold
from capplan.ingest.identities import Identities, leave_out_known
from capplan.ingest.ingested import FileTotals, Ingested, Stage, WorkOptions, work_of, workload_rows
from capplan.ingest.opening import Sheet, text_literal
from capplan.ingest.pieces import pieces
from capplan.records import word_list

#: HTTP answers that mean "not now": too many requests, unavailable, overloaded.
REFUSED = ("429", "503", "529", "rate_limited", "ratelimited", "throttled", "overloaded", "rejected", "refused")
#: Words and numbers in a column of statuses that mean that nothing was served.
FAILED = (
    r"(?:[45]\d\d(?:\.0+)?|(?:status_code_)?error|fail(?:ed|ure)?|exception|time(?:d_?)?out|cancell?ed|aborted|internal_error|[2-9]|1[0-6])"
)
#: What can become of the rows of a log, as columns that count them.
OUTCOMES = ("requests", "refused", "failed", "cached", "other")
#: Calls that give no text, so that they have no output tokens even when they are served.
WITHOUT_OUTPUT = "embed|rerank|moderation|transcription|speech|image|score|classif|pooling"
TRUE = ("true", "t", "yes", "y", "1", "1.0", "hit")
FALSE = ("false", "f", "no", "n", "0", "0.0")
#: Operations that traces write beside the calls of models that they make (OpenTelemetry's conventions for generative AI; LiteLLM).
NO_CALLS = "(?:execute_tool|invoke_agent|create_agent|invoke_workflow|.*mcp.*)"


class RequestOptions(WorkOptions):
    """Options of a request log."""

    unit: Literal["requests", "input_tokens", "output_tokens", "tokens"] = Field("requests", description="What usage counts.")
    stage: Stage = Field("serving", description="Stage of the workload.")
    interval_minutes: Literal[5, 10, 15, 30, 60, 1440] = Field(60, description="Length of an interval of usage.")

    @field_validator("interval_minutes", mode="before")
    @classmethod
    def _whole_number(cls, value: object) -> object:
        return int(value) if isinstance(value, str) and value.isdigit() else value


REQUEST_COLUMNS = (
    Wanted(
        "timestamp",
        "time",
        word_list(
            "time ts datetime created_at request_time arrival_time arrived_at start_time timestamp_ms arrival_timestamp"
            " start_time_unix_nano timestamp_ns timestamp_us request_timestamp"
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
            "llm.token_count.prompt",
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
            "llm.token_count.completion",
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
        (
            "status_code",
            "http_status",
            "response_code",
            "http.response.status_code",
            "status.code",
            "otel.status_code",
            "finish_status",
            "level",
        ),
        required=False,
    ),
    Wanted("success", "text", ("succeeded", "is_success", "ok"), required=False),
    Wanted("error", "text", ("error.type", "attributes.error.type", "error_code", "error_message", "exception"), required=False),
    Wanted("cached", "text", ("cache_hit", "from_cache", "is_cached", "cache_hit_flag"), required=False),
    Wanted(
        "call",
        "text",
        ("call_type", "gen_ai.operation.name", "attributes.gen_ai.operation.name", "request_type", "endpoint_type"),
        required=False,
    ),
    Wanted("successes", "number", ("successful_requests", "api_requests"), required=False, minimum=0),
    Wanted("failures", "number", ("failed_requests",), required=False, minimum=0),
    Wanted("request_id", "text", ("requestid", "span_id", "id", "request", "litellm_call_id"), required=False),
)


def labels_of(sheet: Sheet, options: WorkOptions) -> tuple[str, str]:
    """Return SQL for workload and region of a row."""
    workload = text_literal(options.workload) if options.workload else sheet.by_file([work_of(file) for file in sheet.files])
    name = workload if options.workload else f"coalesce(workload, {workload})"
    return name, f"coalesce(region, {text_literal(options.region)})"


def _outcomes(matched: dict[str, str]) -> str:
    """Return SQL for what became of a request: served by the model, refused, failed, cached, or no call of a model at all."""
    state = "lower(trim(status))"
    other = f"regexp_full_match(lower(trim(call)), '{NO_CALLS}')"
    if matched["input_tokens"].lower().startswith(("gen_ai", "attributes.gen_ai", "llm.")):
        other = f"coalesce({other}, false) or (input_tokens is null and output_tokens is null)"
    refused = f"regexp_replace({state}, '\\.0+$', '') in {REFUSED}"
    failed = (
        f"coalesce(regexp_full_match({state}, '{FAILED}'), false) or coalesce(lower(trim(success)) in {FALSE}, false)"
        f" or coalesce(lower(trim(error)) not in {FALSE}, false)"
    )
    cached = f"lower(trim(cached)) in {TRUE}"
    return (
        f"case when coalesce({refused}, false) then 'refused' when {failed} then 'failed'"
        f" when coalesce({cached}, false) then 'cached' when {other} then 'other' else 'served' end"
    )


def _silent(matched: dict[str, str]) -> str:
    """Return SQL for whether a request has no output tokens although its kind of call gives some."""
    text = f"coalesce(call, '') || ' ' || {'workload' if 'workload' in matched else chr(39) * 2}"
    return f"coalesce(output_tokens = 0 and not regexp_matches(lower({text}), '{WITHOUT_OUTPUT}'), false)"


def _judge_requests(sheet: Sheet, options: RequestOptions, matched: dict[str, str]) -> None:
    """Create the view `requests`: the rows of a log with workload, region, outcome, and whether they are silent."""
    workload, region = labels_of(sheet, options)
    sheet.connection.execute(f"create or replace view labelled as select * replace ({workload} as workload, {region} as region) from typed")
    judged = f"select *, {_outcomes(matched)} as outcome, {_silent(matched)} as silent, 1 as weight from labelled"
    if "successes" in matched:  # a row stands for many requests
        nothing = "* replace (0 as input_tokens, 0 as output_tokens)"
        judged = (
            "select *, 'served' as outcome, false as silent, successes::bigint as weight from labelled"
            " where successes > 0 or input_tokens > 0 or output_tokens > 0 union all"
            f" select {nothing}, 'failed' as outcome, false as silent, failures::bigint as weight from labelled where failures > 0"
        )
    sheet.connection.execute(f"create or replace view requests as {judged}")


def _grouped_requests(sheet: Sheet, options: RequestOptions, *, whole: bool) -> pd.DataFrame:
    """Sum a log up by file, workload, region and interval; `whole` = no row of it was left out."""
    kept = "outcome = 'served'"

    def many(condition: str) -> str:
        return f"coalesce(sum(weight) filter ({condition}), 0)::bigint"

    rows = sheet.connection.execute(f"""
        select file, time_bucket(interval '{options.interval_minutes} minutes', "timestamp") as time, workload, region,
            {many(kept)} as requests, {many("outcome = 'refused'")} as refused,
            {many("outcome = 'failed'")} as failed,
            {many("outcome = 'cached'")} as cached, {many("outcome = 'other'")} as other,
            coalesce(sum(input_tokens) filter ({kept}), 0) as input_tokens,
            coalesce(sum(output_tokens) filter ({kept}), 0) as output_tokens,
            {many(f"{kept} and (input_tokens is null or output_tokens is null)")} as unknown,
            min("timestamp") as earliest, max("timestamp") as latest, coalesce(max(output_tokens), 0) as longest,
            {many(f"silent and {kept}")} as silent_served, {many("silent and outcome = 'cached'")} as silent_cached,
            coalesce(sum(input_tokens) filter (silent and {kept}), 0) as silent_input,
            {many(f"silent and {kept} and input_tokens is null")} as silent_unknown
        from requests group by all order by file, workload, region, time
        """).df()
    speaking = rows.groupby("workload")["longest"].max()
    if not whole:
        longest = sheet.rows("select workload, coalesce(max(output_tokens), 0) from labelled group by workload")
        speaking = pd.Series(dict(longest), dtype=float)
    return _without_silent(rows, rows["workload"].map(speaking) > 0)


def _without_silent(rows: pd.DataFrame, speaking: pd.Series) -> pd.DataFrame:
    """Count requests without output tokens as failed where their workload has any: such a model answers with text or not at all."""
    served, cached, tokens, unknown = (rows[f"silent_{name}"].where(speaking, 0) for name in ("served", "cached", "input", "unknown"))
    return rows.assign(
        requests=rows["requests"] - served,
        cached=rows["cached"] - cached,
        failed=rows["failed"] + served + cached,
        input_tokens=rows["input_tokens"] - tokens,
        unknown=rows["unknown"] - unknown,
    )


def read_requests(files: Path | Sequence[Path], options: RequestOptions, identities: Identities | None = None) -> Ingested:
    """Say how many requests and tokens came in each interval.

    Args:
        files: One log, or several of one layout. One row a request: when, input tokens, output tokens. Where there is a status, 429, 503
            and 529 count as refused; requests that failed or were answered from a cache are no work of the model and are named in a note.
        options: How to read it, and what usage counts.
        identities: Rows of earlier files, which do not count again, and where to keep those of this one.

    Returns:
        Ingested: Tables requests, usage and workloads. Intervals without a request between the first and the last are zero: a log is
            complete.
    """
    with Sheet(files, options, nulls=("NULL", "null", "None", "nan", "NaN", "(null)")) as sheet:
        matched = convert(sheet, REQUEST_COLUMNS)
        _judge_requests(sheet, options, matched)
        left_out = leave_out_known(sheet, identities) if identities else {}
        rows = _grouped_requests(sheet, options, whole=not left_out)
        notes = list(sheet.notes)
    if left_out and "successes" in matched:
        notes.append("A row that came in before counts as it was then; --replace takes it as it is now.")
    known = {number - identities.first: numbers for number, numbers in left_out.items()} if identities else {}
    each = _totals_of_files(rows, len(sheet.files), known)
    if rows.empty:
        return Ingested({}, tuple(notes), each[0].totals, each=each)
    if not rows.requests.sum() and not rows.refused.sum():
        sheet.refuse(
            "no request was served: all failed or came from a cache", "Check the columns of status and output tokens, or give ignore=."
        )
    counts = rows[list(OUTCOMES)].sum()
    step = pd.Timedelta(minutes=options.interval_minutes)
    whole = "successes" in matched and bool((rows["earliest"] == rows["time"]).all() and (rows["latest"] == rows["time"]).all())
    ends = _spans(rows, step if whole else None)
    first, last = ends["earliest"].min(), ends["latest"].max()
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
    if counts.other:
        notes.append(f"{int(counts.other):,} rows are no calls of a model (agents, tools, spans without tokens) and are left out.")
    unknown = int(rows.unknown.sum())
    if unknown:
        notes.append(f"{unknown} requests state no input or output tokens; they count as requests without tokens.")
    parts = _request_parts(rows, options, ends)
    tables, more = fold(parts)
    headline = (
        _told(rows[["requests", "refused", "input_tokens", "output_tokens"]].sum())
        + f", in {len(tables['usage']):,} intervals of {options.interval_minutes} minutes."
    )
    if counts.refused and options.unit != "requests":
        notes.append(f"{int(counts.refused)} refused requests count with the mean {options.unit} of the served ones.")
    read = int(counts.sum())
    period = (rows.earliest.min(), rows.latest.max())
    return Ingested(tables, (*notes, *more), headline, parts=parts, rows=read, period=period, each=each)


def _told(total: Any) -> str:
    """Say how much was asked, of sums by name."""
    return (
        f"{int(total.requests):,} requests"
        + (f" ({int(total.refused):,} more refused)" if total.refused else "")
        + f" with {total.input_tokens:,.0f} input and {total.output_tokens:,.0f} output tokens"
    )


def _totals_of_files(rows: pd.DataFrame, count: int, known: dict[int, tuple[int, ...]]) -> tuple[FileTotals, ...]:
    """Say what each file holds beside what earlier files have."""
    amounts = [*OUTCOMES, "input_tokens", "output_tokens"]
    sums = rows.groupby("file").agg({**dict.fromkeys(amounts, "sum"), "earliest": "min", "latest": "max"})
    found = {file: FileTotals(0, None, "No request that is not in the book already.", known.get(file, ())) for file in range(count)}
    for total in sums.itertuples():
        read = int(sum(getattr(total, name) for name in OUTCOMES))
        found[int(total.Index)] = FileTotals(read, (total.earliest, total.latest), f"{_told(total)}.", known.get(total.Index, ()))
    return tuple(found.values())


def _request_parts(rows: pd.DataFrame, options: RequestOptions, ends: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Make pieces of work, sums of requests, and the span that the log covers."""
    amount = rows.input_tokens + rows.output_tokens if options.unit == "tokens" else rows[options.unit]
    work = rows.assign(quantity=amount.astype(float), seconds=60.0 * options.interval_minutes, scope="")
    if rows.refused.any():
        served = rows.groupby("workload").requests.transform("sum")
        per_request = amount.astype(float).groupby(rows.workload).transform("sum") / served.where(served > 0)
        work["refused_quantity"] = (rows.refused * per_request).fillna(0.0)
    requests = rows.groupby(["file", "workload", "time"], as_index=False)[["requests", "input_tokens", "output_tokens"]].sum()
    spans = rows[["file", "workload", "region"]].drop_duplicates(ignore_index=True).merge(ends, on="file").assign(family="requests")
    names = workload_rows(rows, options.unit, options.stage)
    return {"workloads": names, "pieces": pieces(work, "requests"), "requests": requests.astype({"requests": "float64"}), "spans": spans}


def _spans(rows: pd.DataFrame, step: pd.Timedelta | None) -> pd.DataFrame:
    """Return what each log covers: from about one gap between requests before its first to one after its last; or whole steps."""
    if step is not None:
        return rows.groupby("file").agg(earliest=("time", "min"), latest=("time", lambda times: times.max() + step)).reset_index()
    counts = rows[list(OUTCOMES)].sum(axis=1).groupby(rows["file"]).sum()
    ends = rows.groupby("file").agg(earliest=("earliest", "min"), latest=("latest", "max"))
    gap = (ends["latest"] - ends["earliest"]) / (counts - 1).clip(lower=1)
    return pd.DataFrame({"earliest": ends["earliest"] - gap, "latest": ends["latest"] + gap}).reset_index()
