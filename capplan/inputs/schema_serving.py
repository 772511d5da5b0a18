"""Tables about serving: measured points of a replica under load."""

from __future__ import annotations

import pandas as pd

from capplan.inputs.columns import Table, column


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
    data_parallel: float = column("Groups among which the requests of the replica are divided.", optional=True, default=1.0, ge=1)
    expert_parallel: float = column("Accelerators over which the experts are spread.", optional=True, default=1.0, ge=1)
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
    work_in_progress: bool = column("Does its source call the measurement unfinished?", optional=True, default=False)
    as_of: pd.Timestamp = column("Day of the measurement.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")
