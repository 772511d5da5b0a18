"""The assumptions of serving: how a fleet is sized, how it follows the traffic, and what can be saved before hardware."""

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
        "1 to 64 by 1 accelerators",
    )
    target_share: float = assumption(
        0.95,
        "Share of requests that must meet the latency target.",
        "The services table states 95th percentiles.",
        "0.5 to 0.999 by 0.01 share",
    )
    target_factor: float = assumption(
        1.0, "Multiplies every latency target: below 1 is tighter.", "1 = as the services table says.", "0.1 to 10 by 0.1 factor"
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
        "0.05 to 10 by 0.05",
    )
    headroom_share: float = assumption(
        0.15,
        "Share of the slots of a fleet that stays free on average.",
        "A judgement: at 85 % the published call-centre example of Erlang C still answers in time; near 100 % queues grow without end.",
        "0 to 0.9 by 0.05 share",
    )
    spare_replicas: int = assumption(
        1, "Replicas beyond the need, for one that fails or is updated (1 = N+1).", "N+1 is the usual redundancy.", "0 to 100 by 1"
    )
    within_hour_peak_factor: float = assumption(
        1.12,
        "Busiest ten minutes of an hour over the hour's mean: an hour is sized for them.",
        "Alibaba ServeGen, m-large, 14 days in steps of ten minutes: the median hour's busiest step is 1.12 times its mean, the 90th"
        " percentile 1.32.",
        "1 to 5 by 0.05 factor",
    )
    arrival_cv2: float = assumption(
        2.0,
        "Burstiness of arrivals: squared coefficient of variation of the times between them (1 = Poisson).",
        "A judgement: Xiang et al., ServeGen (2025), find gamma and Weibull arrivals burstier than Poisson; measure it from a request log.",
        "0 to 500 by 0.5",
    )
    service_cv2: float = assumption(
        0.8,
        "Spread of the time a request holds its slot: its squared coefficient of variation.",
        "Between the output lengths of Mooncake's conversation trace (0.53, computed) and the exponential lengths of Xiang et al., ServeGen"
        " (1).",
        "0 to 50 by 0.1",
    )
    burst_factor: float = assumption(
        3.0,
        "The replayed day has a burst: traffic is multiplied by this.",
        "A judgement, of the size of the largest jump between two steps of ten minutes in Alibaba ServeGen, m-large (3.2).",
        "1 to 50 by 0.5 factor",
    )
    burst_hour: int = assumption(
        9, "Hour of the day (UTC) at which the burst begins.", "Nine o'clock, the start of work.", "0 to 23 by 1 hour"
    )
    burst_minutes: float = assumption(
        30.0, "How long the burst lasts.", "A judgement: long against a cold start, short against a day.", "above 0 to 1440 by 5 minutes"
    )
    cold_start_seconds: float = assumption(
        180.0,
        "Time from the order of a replica until it serves: machine, image, weights, warm-up.",
        "A judgement: reports of 2026 on 70B-class endpoints in Kubernetes name 1.5 to 6 minutes; measure your own.",
        "0 to 7200 by 30 s",
    )
    warm_replicas: int = assumption(
        1,
        "Replicas kept loaded beside the fleet: paid for, and serving within one step of the autoscaler.",
        "A judgement: one.",
        "0 to 1000 by 1",
    )
    quota_accelerators: float | None = assumption(
        None,
        "Accelerators the fleet of a workload may reach; empty = no quota.",
        "None: limits of pools stand in the limits table.",
        "1 to 1e6 by 8 accelerators",
    )
    autoscale_seconds: float = assumption(
        15.0,
        "Interval at which the autoscaler looks.",
        "Kubernetes HorizontalPodAutoscaler: it looks every 15 seconds by default.",
        "1 to 3600 by 5 s",
    )
    scale_down_seconds: float = assumption(
        300.0,
        "The fleet shrinks to the highest need of this time past.",
        "Kubernetes HorizontalPodAutoscaler: the stabilisation window for scaling down is 300 seconds by default.",
        "0 to 7200 by 60 s",
    )
    admission_rule: Literal["queue", "shed", "route"] = assumption(
        "shed",
        "What happens to a request whose wait would exceed its limit: it queues all the same, is refused, or goes to the smaller model.",
        "A judgement: refusing early keeps the others within their target.",
    )
    admission_wait_seconds: float = assumption(
        5.0, "Wait beyond which the rule applies.", "A judgement: people give up after some seconds without an answer.", "0 to 3600 by 1 s"
    )
    reserve_memory_share: float = assumption(
        0.1,
        "Share of an accelerator's memory that is kept free (activations, fragmentation).",
        "vLLM: gpu_memory_utilization is 0.9 by default.",
        "0 to 0.9 by 0.05 share",
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
        "0 to 1 by 0.05 share",
    )
    semantic_cache_share: float = assumption(
        0.1,
        "Share of the remaining requests answered from a cache of similar requests.",
        "A judgement: published hit rates run from 20 % to 69 % for support questions (Regmi and Pun, 2024: 62 to 69 %); a general"
        " assistant reaches less.",
        "0 to 1 by 0.05 share",
    )
    semantic_lookup_usd_per_thousand: float = assumption(
        0.01,
        "Price of a thousand look-ups in the cache of similar requests.",
        "A judgement: an embedding of 500 tokens at 0.02 USD a million tokens.",
        "0 to 10 by 0.01 USD/1000",
    )
    prompt_cache_share: float = assumption(
        0.4,
        "Share of input tokens whose prefill is found in the prefix cache.",
        "DeepSeek, Open Infra Index, day 6 (2025): 56 % of input tokens hit its cache; a judgement below that.",
        "0 to 1 by 0.05 share",
    )
    route_share: float = assumption(
        0.2,
        "Share of requests that a router sends to the smaller model for good.",
        "A judgement below Ong et al., RouteLLM (2024), who report cost reductions of more than half at little loss of quality.",
        "0 to 1 by 0.05 share",
    )
    cascade_escalation_share: float = assumption(
        0.7,
        "Share of requests that a cascade passes on to the larger model after the smaller one has answered; 1 = no cascade.",
        "A judgement: most requests are passed on until a judge of answers has been tested; the idea is that of Chen, Zaharia and Zou,"
        " FrugalGPT (2023).",
        "0 to 1 by 0.05 share",
    )
    small_model_cost_share: float = assumption(
        0.15,
        "Accelerator time of a request on the smaller model over that on the larger, where services name no smaller model.",
        "A judgement near 8 over 70 billion parameters.",
        "above 0 to 1 by 0.05 share",
    )
    draft_tokens: int = assumption(
        3,
        "Tokens a draft model proposes at a time (speculative decoding); 0 = none.",
        "Leviathan, Kalman and Matias (2023), table 1: at an acceptance of 0.7, three tokens give 2.5 tokens a step for 1.6 times the"
        " arithmetic.",
        "0 to 16 by 1 tokens",
    )
    draft_acceptance_share: float = assumption(
        0.7,
        "Chance that a proposed token is accepted.",
        "Leviathan, Kalman and Matias, Fast Inference from Transformers via Speculative Decoding (2023): 0.5 to 0.9 by task and draft"
        " model.",
        "0 to 0.99 by 0.05 share",
    )
    draft_cost_share: float = assumption(
        0.05, "Time of one draft step over one step of the model.", "The same paper: mostly below 0.05.", "0 to 1 by 0.01 share"
    )
    output_cut_share: float = assumption(
        0.1,
        "Share by which answers get shorter (instructions, limits, formats).",
        "A judgement: a tenth goes unnoticed; measure it.",
        "0 to 0.9 by 0.05 share",
    )
    quantised_precision: Literal["none", "fp8", "fp4"] = assumption(
        "fp8",
        "Number format of the weights after quantisation; none = as they are served today.",
        "A judgement: FP8 is what most published H100 results use; quality must be tested before a smaller format is used.",
    )
