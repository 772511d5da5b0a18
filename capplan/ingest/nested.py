"""Exports of JSON whose rows lie inside of others: OpenTelemetry's traces and metrics, jobs of Philly by attempt, Azure's price list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from capplan.units import HOURS_PER_YEAR

#: Attributes of spans that say what a call of a model was (conventions of OpenTelemetry for generative AI, of OpenInference and LiteLLM).
ATTRIBUTES = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.prompt",
    "llm.token_count.completion",
    "gen_ai.request.model",
    "gen_ai.operation.name",
    "error.type",
    "http.response.status_code",
)
#: Attributes of what sent the spans.
SENDER = ("service.name",)


@dataclass(frozen=True)
class Shape:
    """How rows lie in JSON.

    Args:
        rows: What its rows are, for messages.
        columns: Outermost names, which give it away, and the DuckDB type under which each is read.
        query: SQL for the flat rows, of `OBJECTS`.
        odd: SQL that says of `OBJECTS` why they cannot be read, or gives no row; with what to do about it.
    """

    rows: str
    columns: dict[str, str]
    query: str
    odd: tuple[str, str] = ("", "")


def _attribute(held: str, name: str) -> str:
    """Return SQL for an attribute of OpenTelemetry, whatever the type of its value."""
    return f"""json_extract_string(list_filter({held}, lambda each: each."key" = '{name}')[1]."value", '$.*')[1] as "{name}\""""


_HELD = """'[{"key": "VARCHAR", "value": "JSON"}]'"""
_SPANS = f"""
    select span->>'startTimeUnixNano' as start_time_unix_nano, span->>'spanId' as span_id, span->>'$.status.code' as "status.code",
        {", ".join([*(_attribute("mine", name) for name in ATTRIBUTES), *(_attribute("sender", name) for name in SENDER)])}
    from (select span, sender, from_json(span->'attributes', {_HELD}) as mine from (
        select sender, unnest(from_json(part->'spans', '["JSON"]')) as span from (
            select from_json(batch->'$.resource.attributes', {_HELD}) as sender,
                unnest(from_json(coalesce(batch->'scopeSpans', batch->'instrumentationLibrarySpans'), '["JSON"]')) as part
            from (select unnest(from_json("resourceSpans", '["JSON"]')) as batch from OBJECTS))))"""
#: What a metric counts: requests, or tokens read or written (conventions of OpenTelemetry for generative AI; counters of vLLM).
_REQUESTS = r"gen_ai\.(?:server\.request|client\.operation)\.duration|vllm[:_]request_success(?:_total)?"
_READ, _WROTE = r"vllm[:_]prompt_tokens(?:_total)?", r"vllm[:_]generation_tokens(?:_total)?"
_LABELS = ("gen_ai.token.type", "gen_ai.request.model", "model_name", "error.type")
_POINTS = f"""
    with points as (
        select sender, name, body, point, from_json(point->'attributes', {_HELD}) as mine, from_json(sender, {_HELD}) as theirs,
            (point->>'timeUnixNano')::hugeint as until, (point->>'startTimeUnixNano')::hugeint as since,
            coalesce(body->>'aggregationTemporality', '2') in ('1', 'AGGREGATION_TEMPORALITY_DELTA') as apart
        from (select sender, name, body, unnest(from_json(body->'dataPoints', '["JSON"]')) as point from (
            select sender, metric->>'name' as name, coalesce(metric->'sum', metric->'histogram') as body from (
                select sender, unnest(from_json(part->'metrics', '["JSON"]')) as metric from (
                    select batch->'$.resource.attributes' as sender,
                        unnest(from_json(coalesce(batch->'scopeMetrics', batch->'instrumentationLibraryMetrics'), '["JSON"]')) as part
                    from (select unnest(from_json("resourceMetrics", '["JSON"]')) as batch from OBJECTS)))))),
    named as (
        select *, {", ".join(_attribute("mine", name) for name in _LABELS)}, {_attribute("theirs", "service.name")},
            coalesce(point->>'asInt', point->>'asDouble', case when name = 'gen_ai.client.token.usage' then point->>'sum'
                else point->>'count' end)::double as value
        from points),
    counted as (
        select *, case when regexp_full_match(name, '{_REQUESTS}') then 'requests'
            when regexp_full_match(name, '{_READ}') or (name = 'gen_ai.client.token.usage' and "gen_ai.token.type" in ('input', 'prompt'))
                then 'read'
            when regexp_full_match(name, '{_WROTE}') or name = 'gen_ai.client.token.usage' then 'wrote' end as what,
            lag(value) over series as before, lag(until) over series as last, min(until) over () as first
        from named window series as (partition by sender::varchar, name, (point->'attributes')::varchar order by until)),
    grown as (
        select *, case when apart then value when before is null then case when since > first then value end
            when value >= before then value - before else value end as more,
            case when apart or before is null then since else last end as begun
        from counted where what is not null and not (name = 'gen_ai.client.operation.duration'
            and exists (select 1 from counted where name = 'gen_ai.server.request.duration')))
    select begun as start_time_unix_nano, coalesce("gen_ai.request.model", model_name) as model, "service.name",
        case when what = 'read' then more else 0 end as input_tokens, case when what = 'wrote' then more else 0 end as output_tokens,
        case when what = 'requests' and "error.type" is null then more else 0 end as successful_requests,
        case when what = 'requests' and "error.type" is not null then more else 0 end as failed_requests
    from grown where more > 0"""
_ATTEMPTS = """
    select jobid || case when turn > 1 then '#' || turn else '' end as job_id, vc, "user", status as state,
        case when turn > 1 then began else submitted_time end as submit_time, began as start_time, ended as end_time, num_gpus
    from (select *, nullif(attempt->>'start_time', 'None') as began, nullif(attempt->>'end_time', 'None') as ended,
        coalesce(list_sum(list_transform(from_json(attempt->'detail', '[{"gpus": ["JSON"]}]'), lambda each: len(each.gpus))), 0) as num_gpus
        from (select *, attempts[turn] as attempt
            from (select *, unnest(range(1, greatest(len(attempts), 1) + 1)) as turn from OBJECTS)))"""
_METERS = f"""
    with meters as (
        select item->>'armSkuName' as sku, item->>'armRegionName' as region, item->>'type' as kind, item->>'reservationTerm' as term,
            coalesce(item->>'skuName', '') || coalesce(item->>'meterName', '') as meter, item->>'productName' as product,
            item->>'unitOfMeasure' as unit, try_cast(item->>'retailPrice' as double) as price,
            from_json(item->'savingsPlan', '[{{"retailPrice": "DOUBLE", "term": "VARCHAR"}}]') as plans
        from (select unnest(from_json("Items", '["JSON"]')) as item from OBJECTS))
    select sku as arm_sku_name, region, 'azure' as provider,
        min(price) filter (hourly and not spare) as on_demand, min(price) filter (hourly and meter ilike '%spot%') as spot,
        min(price / {HOURS_PER_YEAR}) filter (kind = 'Reservation' and term = '1 Year') as reserved_1y,
        min(price / {3 * HOURS_PER_YEAR}) filter (kind = 'Reservation' and term = '3 Years') as reserved_3y,
        min(list_filter(plans, lambda each: each.term = '1 Year')[1]."retailPrice") filter (hourly and not spare) as savings_plan_1y,
        min(list_filter(plans, lambda each: each.term = '3 Years')[1]."retailPrice") filter (hourly and not spare) as savings_plan_3y
    from (select *, kind = 'Consumption' and unit = '1 Hour' as hourly, meter ilike '%spot%' or meter ilike '%low priority%' as spare
        from meters)
    where coalesce(sku, '') <> '' and not coalesce(product ilike '%windows%' or product ilike '%cloud services%', false)
    group by all having on_demand is not null or spot is not null or reserved_1y is not null or reserved_3y is not null"""
_CURRENCY = """
    select 'prices in ' || (item->>'currencyCode') || ' are no US dollars' from (select unnest(from_json("Items", '["JSON"]')) as item
    from OBJECTS) where item->>'currencyCode' <> 'USD' limit 1"""
SHAPES = (
    Shape("spans", {"resourceSpans": "JSON"}, _SPANS),
    Shape("requests and tokens of models", {"resourceMetrics": "JSON"}, _POINTS),
    Shape("jobs", {**dict.fromkeys(("jobid", "vc", "user", "status", "submitted_time"), "VARCHAR"), "attempts": "JSON[]"}, _ATTEMPTS),
    Shape("prices of an hour", {"Items": "JSON"}, _METERS, (_CURRENCY, "Ask for currencyCode='USD'.")),
)


def shape_of(columns: Sequence[str]) -> Shape | None:
    """Say how the rows lie in JSON whose objects have these names, where they lie inside of others."""
    return next((shape for shape in SHAPES if set(shape.columns) <= set(columns)), None)


def flatten(shape: Shape, objects: str, execute: Callable[[str], list[Any]], refuse: Callable[[str, str], None]) -> list[str]:
    """Create the table `flat`, with a row for each that lies inside, of texts.

    Args:
        objects: SQL that reads the outermost objects.
        refuse: Told why the file cannot be read, and what to do.

    Returns:
        list of str: Columns that hold anything.
    """
    question, remedy = shape.odd
    if question and (found := execute(question.replace("OBJECTS", objects))):
        refuse(str(found[0][0]), remedy)
    execute("create temp table flat as " + shape.query.replace("OBJECTS", objects))
    names = [str(name) for name, *_ in execute("describe flat")]
    counts = execute("select count(*), " + ", ".join(f'count("{name}")' for name in names) + " from flat")[0]
    if not counts[0]:
        refuse(f"it has no {shape.rows}", "Export it again.")
    return [name for name, count in zip(names, counts[1:], strict=True) if count]
