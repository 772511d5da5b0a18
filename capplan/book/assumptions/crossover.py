"""The assumptions of the question whether to host a model or call an API."""

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.serving import ServingAssumptions


class CrossoverAssumptions(ServingAssumptions):
    """Host a model, or call an API."""

    crossover_workload: str | None = assumption(
        None,
        "Served workload that is looked at; empty = the largest of those that may be served both ways (host either), else of all.",
        "None: the workload with a choice decides.",
    )
    api_price_change_per_year: float = assumption(
        0.0,
        "Yearly change of the price of API calls; a fall of 30 % is -0.3.",
        "Flat: list prices of a given model mostly stay as announced; new models, not lower prices, bring the savings.",
        "above -1 to 5 by 0.05 share",
    )
    hosting_price_change_per_year: float = assumption(
        0.0,
        "Yearly change of the price of an accelerator-hour, for contracts not signed yet; may have either sign.",
        "Flat: hourly prices have fallen for years and have doubled within months.",
        "above -1 to 5 by 0.05 share",
    )
    throughput_error_share: float = assumption(
        0.3,
        "Throughput is also taken this share lower and higher.",
        "A judgement near the error of predicted latencies; see the serving notebook for the model at hand.",
        "0 to below 1 by 0.05 share",
    )
    hosting_engineers: float = assumption(
        0.5,
        "Engineers who keep one hosted service running.",
        "A judgement: on-call, upgrades and evaluation of one service take half a position.",
        "0 to 50 by 0.25",
    )
    engineer_usd_per_year: float = assumption(
        250_000.0,
        "Full cost of an engineer.",
        "A judgement for the United States: salary, taxes, equipment.",
        "0 to 2e6 by 10_000 USD/year",
    )
    evaluation_usd_per_quarter: float = assumption(
        5_000.0,
        "Evaluation of a hosted model's quality, and of a second provider's.",
        "A judgement: a few thousand judged answers.",
        "0 to 1e6 by 1_000 USD/quarter",
    )
    egress_usd_per_gib: float = assumption(
        0.09,
        "Price of data that leaves the hosting provider.",
        "AWS, EC2 on-demand data transfer out to the internet, first 10 TB a month.",
        "0 to 1 by 0.01 USD/GiB",
    )
    second_provider_share: float = assumption(
        0.1,
        "Share of the traffic that a second provider is kept warm with.",
        "A judgement: enough to see its errors and latency every day.",
        "0 to 0.5 by 0.05 share",
    )
    switch_days: float = assumption(
        30.0,
        "Days it takes to move to another provider when an API is withdrawn and none is kept warm.",
        "A judgement: prompts, evaluation, contract.",
        "0 to 365 by 5 days",
    )
