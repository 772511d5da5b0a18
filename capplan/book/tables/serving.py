"""Tables about serving: measured points of a replica under load, API contracts, and what a user waits for."""

import pandas as pd

from capplan.book.tables.columns import Table, column, order_rule


class ServingRuns(Table):
    """A measurement of one copy of a model (a replica) at one load."""

    run: str = column("Name of the measurement.", key=True)
    model: str = column("Architecture that was served.", refers="models.model")
    accelerator: str = column("Accelerator it ran on.", refers="accelerators.accelerator")
    accelerators: int = column("Accelerators of the replica, in all.", ge=1)
    engine: str = column("Serving software (vllm, sglang, trtllm, ...).")
    engine_version: str = column("Its version.", optional=True)
    precision: str = column("Number format of the weights.", isin=["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"])
    tensor_parallel: float = column("Accelerators that share each layer; empty = all of the replica.", optional=True, ge=1)
    data_parallel: float = column("Groups among which the requests of the replica are divided.", default=1.0, ge=1)
    expert_parallel: float = column("Accelerators over which the experts are spread.", default=1.0, ge=1)
    decode_workers: float = column(
        "Where prompts are read on accelerators of their own: workers that write the output, each with the parallelism above.",
        optional=True,
        ge=1,
    )
    prefill_workers: float = column("Workers that read prompts; empty = the same accelerators do both.", optional=True, ge=1)
    prefill_tensor_parallel: float = column("Accelerators that share each layer in one of them.", optional=True, ge=1)
    prefill_data_parallel: float = column("Groups in one of them.", optional=True, ge=1)
    prefill_expert_parallel: float = column("Accelerators over which the experts are spread in one of them.", optional=True, ge=1)
    input_tokens: float = column("Mean tokens of a prompt.", unit="tokens", gt=0)
    output_tokens: float = column("Mean tokens of an answer.", unit="tokens", ge=1)
    concurrency: float = column("Requests in progress in the replica.", unit="requests", gt=0)
    first_token_seconds: float = column("Mean time to the first token.", unit="s", gt=0)
    token_seconds: float = column("Mean time per output token after the first.", unit="s", gt=0)
    first_token_seconds_p99: float = column("99th percentile of the time to the first token.", unit="s", optional=True, gt=0)
    token_seconds_p99: float = column("99th percentile of the time per output token.", unit="s", optional=True, gt=0)
    output_tokens_per_second: float = column(
        "Output tokens a second of the whole replica, where it was measured; else it follows from concurrency and latency.",
        unit="tokens/s",
        optional=True,
        gt=0,
    )
    work_in_progress: bool = column("Does its source call the measurement unfinished?", default=False)
    as_of: pd.Timestamp = column("Day of the measurement.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")


class ApiContracts(Table):
    """A way to call a model through an API, beside the public list price of the service's own provider."""

    api_contract_id: str = column("Name of the contract or offer.", key=True)
    workload: str = column("Workload it could serve.", refers="workloads.workload")
    provider: str = column("API provider, as the price list names it where its prices are used.")
    model: str = column("Model that answers; its name in the price list where no prices are stated here.")
    kind: str = column(
        "By the call (payg), through the batch interface (batch), or reserved throughput (provisioned).",
        isin=["payg", "batch", "provisioned"],
    )
    input_usd_per_million: float = column("Price of a million input tokens; empty = the list price.", unit="USD", optional=True, ge=0)
    cached_usd_per_million: float = column(
        "Price of a million input tokens read from the cache; empty = as input.", unit="USD", optional=True, ge=0
    )
    output_usd_per_million: float = column("Price of a million output tokens.", unit="USD", optional=True, ge=0)
    discount_share: float = column("Discount on the prices, list or stated.", default=0.0, ge=0, lt=1)
    unit_usd_per_hour: float = column(
        "For provisioned throughput: price of one unit for one hour, used or not.", unit="USD/h", optional=True, gt=0
    )
    unit_tokens_per_minute: float = column("Input tokens one unit takes in a minute.", unit="tokens/min", optional=True, gt=0)
    output_token_weight: float = column("Input tokens that one output token counts for in a unit.", default=1.0, gt=0)
    minimum_units: float = column("Fewest units.", default=1.0, ge=1)
    unit_increment: float = column("Units are bought in steps of this many.", default=1.0, ge=1)
    term_months: float = column("Months for which units are bound.", unit="months", default=1.0, gt=0)
    requests_per_minute: float = column("Rate limit; empty = none stated.", unit="requests/min", optional=True, gt=0)
    tokens_per_minute: float = column(
        "Rate limit in tokens, input and output together; empty = none stated. The tighter of the two limits holds.",
        unit="tokens/min",
        optional=True,
        gt=0,
    )
    geography: str = column("Part of the world it answers in; empty = no statement.", optional=True)
    withdrawn_on: pd.Timestamp = column("Day from which the model is no longer offered.", optional=True)
    as_of: pd.Timestamp = column("Day the terms held.")
    source_id: str = column("Source of the row.", refers="sources.source_id")


class Surfaces(Table):
    """A place where a user waits for a served model."""

    surface: str = column("Name of the surface (chat window, voice, search box, ...).", key=True)
    workload: str = column("Workload that answers there.", refers="workloads.workload")
    measure: str = column("What the user waits for.", isin=["first_token", "whole_answer"])
    target_seconds: float = column("Time within which it must be there, as the user sees it.", unit="s", gt=0)
    target_share: float = column("Share of requests that must meet the target.", default=0.95, gt=0, lt=1)


class LatencyParts(Table):
    """One part of a request's way outside the model: network, gateway, retrieval, guardrails, ..."""

    surface: str = column("Surface the request comes from.", refers="surfaces.surface", key=True)
    part: str = column("Name of the part.", key=True)
    median_seconds: float = column("Half of the requests take no longer.", unit="s", gt=0)
    p95_seconds: float = column("95 of 100 requests take no longer.", unit="s", gt=0)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")

    spread = order_rule("median_seconds", "p95_seconds")
