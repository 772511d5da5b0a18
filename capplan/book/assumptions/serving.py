"""The assumptions of serving: how a fleet is sized, how it follows the traffic, and what can be saved before hardware."""

from __future__ import annotations

from typing import Literal

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.performance import PerformanceAssumptions


class ServingAssumptions(PerformanceAssumptions):
    """How many accelerators serve a traffic within its latency target."""

    serving_workload: str = assumption(
        "",
        "Served workload that is looked at closely; empty = the self-hosted one that needs most accelerator-hours.",
        "The largest fleet decides most.",
    )
    serving_accelerator: str = assumption(
        "",
        "Accelerator the fleets run on; empty = the one that serves a request for least, among those the book can have.",
        "The price decides.",
    )
    serving_engine: str = assumption(
        "vllm",
        "Serving software where no measurement of the model on the accelerator names one.",
        "vLLM is open and runs on every accelerator listed.",
    )
    most_accelerators_per_replica: int = assumption(
        8,
        "Accelerators that may share one copy of a model.",
        "One machine: most have eight accelerators on fast links.",
        unit="accelerators",
        ge=1,
        le=64,
        step=1,
    )
    target_share: float = assumption(
        0.95,
        "Share of requests that must meet the latency target.",
        "The services table states 95th percentiles.",
        unit="share",
        ge=0.5,
        le=0.999,
        step=0.01,
    )
    target_factor: float = assumption(
        1.0,
        "Multiplies every latency target: below 1 is tighter.",
        "1 = as the services table says.",
        unit="factor",
        ge=0.1,
        le=10,
        step=0.1,
    )
    staffing_rule: Literal["wait_target", "square_root"] = assumption(
        "wait_target",
        "How slots beyond the load are chosen: as many as keep the wait within the target, or a multiple of the root of the load.",
        "The wait target is what the service promises; the square-root rule (Halfin and Whitt, 1981) needs no target.",
    )
    square_root_beta: float = assumption(
        1.0,
        "Slots beyond the load, in roots of the load, under the square-root rule.",
        "Halfin and Whitt (1981): at 1, 22 % of the requests of a large fleet wait at all.",
        ge=0.05,
        le=10,
        step=0.05,
    )
    headroom_share: float = assumption(
        0.15,
        "Share of the slots of a fleet that stays free on average.",
        "A judgement: at 85 % the published call-centre example of Erlang C still answers in time; near 100 % queues grow without end.",
        unit="share",
        ge=0,
        le=0.9,
        step=0.05,
    )
    spare_replicas: int = assumption(
        1, "Replicas beyond the need, for one that fails or is updated (1 = N+1).", "N+1 is the usual redundancy.", ge=0, le=100, step=1
    )
    within_hour_peak_factor: float = assumption(
        1.12,
        "Busiest ten minutes of an hour over the hour's mean: an hour is sized for them.",
        "Alibaba ServeGen, m-large, 14 days in steps of ten minutes: the median hour's busiest step is 1.12 times its mean, the 90th"
        " percentile 1.32.",
        unit="factor",
        ge=1,
        le=5,
        step=0.05,
    )
    arrival_cv2: float = assumption(
        2.0,
        "Burstiness of arrivals: squared coefficient of variation of the times between them (1 = Poisson).",
        "A judgement: Xiang et al., ServeGen (2025), find gamma and Weibull arrivals burstier than Poisson; measure it from a request log.",
        ge=0,
        le=500,
        step=0.5,
    )
    service_cv2: float = assumption(
        0.8,
        "Spread of the time a request holds its slot: its squared coefficient of variation.",
        "Between the output lengths of Mooncake's conversation trace (0.53, computed) and the exponential lengths of Xiang et al., ServeGen"
        " (1).",
        ge=0,
        le=50,
        step=0.1,
    )
    burst_factor: float = assumption(
        3.0,
        "The replayed day has a burst: traffic is multiplied by this.",
        "A judgement, of the size of the largest jump between two steps of ten minutes in Alibaba ServeGen, m-large (3.2).",
        unit="factor",
        ge=1,
        le=50,
        step=0.5,
    )
    burst_hour: int = assumption(
        9, "Hour of the day (UTC) at which the burst begins.", "Nine o'clock, the start of work.", unit="hour", ge=0, le=23, step=1
    )
    burst_minutes: float = assumption(
        30.0,
        "How long the burst lasts.",
        "A judgement: long against a cold start, short against a day.",
        unit="minutes",
        gt=0,
        le=1440,
        step=5,
    )
    cold_start_seconds: float = assumption(
        180.0,
        "Time from the order of a replica until it serves: machine, image, weights, warm-up.",
        "A judgement: reports of 2026 on 70B-class endpoints in Kubernetes name 1.5 to 6 minutes; measure your own.",
        unit="s",
        ge=0,
        le=7200,
        step=30,
    )
    warm_replicas: int = assumption(
        1,
        "Replicas kept loaded beside the fleet: paid for, and serving within one step of the autoscaler.",
        "A judgement: one.",
        ge=0,
        le=1000,
        step=1,
    )
    quota_accelerators: float | None = assumption(
        None,
        "Accelerators the fleet of a workload may reach; empty = no quota.",
        "None: limits of pools stand in the limits table.",
        unit="accelerators",
        ge=1,
        le=1e6,
        step=8,
    )
    autoscale_seconds: float = assumption(
        15.0,
        "Interval at which the autoscaler looks.",
        "Kubernetes HorizontalPodAutoscaler: it looks every 15 seconds by default.",
        unit="s",
        ge=1,
        le=3600,
        step=5,
    )
    scale_down_seconds: float = assumption(
        300.0,
        "The fleet shrinks to the highest need of this time past.",
        "Kubernetes HorizontalPodAutoscaler: the stabilisation window for scaling down is 300 seconds by default.",
        unit="s",
        ge=0,
        le=7200,
        step=60,
    )
    admission_rule: Literal["queue", "shed", "route"] = assumption(
        "shed",
        "What happens to a request whose wait would exceed its limit: it queues all the same, is refused, or goes to the smaller model.",
        "A judgement: refusing early keeps the others within their target.",
    )
    admission_wait_seconds: float = assumption(
        5.0,
        "Wait beyond which the rule applies.",
        "A judgement: people give up after some seconds without an answer.",
        unit="s",
        ge=0,
        le=3600,
        step=1,
    )
    reserve_memory_share: float = assumption(
        0.1,
        "Share of an accelerator's memory that is kept free (activations, fragmentation).",
        "vLLM: gpu_memory_utilization is 0.9 by default.",
        unit="share",
        ge=0,
        le=0.9,
        step=0.05,
    )
    cache_precision: Literal["as_weights", "bf16", "fp8"] = assumption(
        "as_weights",
        "Number format of the key-value cache, for memory and speed alike; as_weights = 8 bit where the weights have 8 bit or fewer, else"
        " 16 bit.",
        "NVIDIA's published FP8 and FP4 checkpoints and results keep the cache in FP8; vLLM keeps 16 bit unless kv_cache_dtype is set.",
    )
    exact_cache_share: float = assumption(
        0.05,
        "Share of requests answered from a cache of identical requests.",
        "A judgement: people rarely write the same words; count repeats in a request log.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    semantic_cache_share: float = assumption(
        0.1,
        "Share of the remaining requests answered from a cache of similar requests.",
        "A judgement: published hit rates run from 20 % to 69 % for support questions (Regmi and Pun, 2024: 62 to 69 %); a general"
        " assistant reaches less.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    semantic_lookup_usd_per_thousand: float = assumption(
        0.01,
        "Price of a thousand look-ups in the cache of similar requests.",
        "A judgement: an embedding of 500 tokens at 0.02 USD a million tokens.",
        unit="USD/1000",
        ge=0,
        le=10,
        step=0.01,
    )
    prompt_cache_share: float = assumption(
        0.4,
        "Share of input tokens whose prefill is found in the prefix cache.",
        "DeepSeek, Open Infra Index, day 6 (2025): 56 % of input tokens hit its cache; a judgement below that.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    route_share: float = assumption(
        0.2,
        "Share of requests that a router sends to the smaller model for good.",
        "A judgement below Ong et al., RouteLLM (2024), who report cost reductions of more than half at little loss of quality.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    cascade_escalation_share: float = assumption(
        0.7,
        "Share of requests that a cascade passes on to the larger model after the smaller one has answered; 1 = no cascade.",
        "A judgement: most requests are passed on until a judge of answers has been tested; the idea is that of Chen, Zaharia and Zou,"
        " FrugalGPT (2023).",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    small_model_cost_share: float = assumption(
        0.15,
        "Accelerator time of a request on the smaller model over that on the larger, where services name no smaller model.",
        "A judgement near 8 over 70 billion parameters.",
        unit="share",
        gt=0,
        le=1,
        step=0.05,
    )
    draft_tokens: int = assumption(
        3,
        "Tokens a draft model proposes at a time (speculative decoding); 0 = none.",
        "Leviathan, Kalman and Matias (2023), table 1: at an acceptance of 0.7, three tokens give 2.5 tokens a step for 1.6 times the"
        " arithmetic.",
        unit="tokens",
        ge=0,
        le=16,
        step=1,
    )
    draft_acceptance_share: float = assumption(
        0.7,
        "Chance that a proposed token is accepted.",
        "Leviathan, Kalman and Matias, Fast Inference from Transformers via Speculative Decoding (2023): 0.5 to 0.9 by task and draft"
        " model.",
        unit="share",
        ge=0,
        le=0.99,
        step=0.05,
    )
    draft_cost_share: float = assumption(
        0.05,
        "Time of one draft step over one step of the model.",
        "The same paper: mostly below 0.05.",
        unit="share",
        ge=0,
        le=1,
        step=0.01,
    )
    output_cut_share: float = assumption(
        0.1,
        "Share by which answers get shorter (instructions, limits, formats).",
        "A judgement: a tenth goes unnoticed; measure it.",
        unit="share",
        ge=0,
        le=0.9,
        step=0.05,
    )
    quantised_precision: Literal["none", "fp8", "fp4"] = assumption(
        "fp8",
        "Number format of the weights after quantisation; none = as they are served today.",
        "A judgement: FP8 is what most published H100 results use; quality must be tested before a smaller format is used.",
    )
