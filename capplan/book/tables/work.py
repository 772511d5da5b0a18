"""Tables of work: workloads, what they used, what will change, and what a machine does of it."""

import pandas as pd

from capplan.book.tables.columns import Table, column, order_rule
from capplan.book.terms import HOSTS, REGION, STAGES
from capplan.units import QUARTER_PATTERN


class Workloads(Table):
    """A class of work."""

    workload: str = column("Name of the workload.", key=True)
    stage: str = column("Where in a model's life it stands.", isin=STAGES)
    unit: str = column("Unit of its usage: accelerator_hours, exaflop, requests, tokens, ...")
    work_class: str = column(
        "Workloads of one class are planned together; they share unit, speeds and shortfall cost. Empty = its own class.", optional=True
    )
    host: str = column("Where it may run: own or rented accelerators (self), a model API (api), or either.", default="self", isin=HOSTS)
    interruptible: bool = column("Can it be stopped at any time and go on later (spot)?", default=False)
    deferrable: bool = column("May it run later inside its window?", default=False)
    shortfall_usd_per_unit: float = column(
        "What one unit of unserved work costs: lost margin, credits, delay. Empty = the scenario's price for its kind.",
        unit="USD/unit",
        optional=True,
        gt=0,
    )
    residency: str = column("Geography the work must stay in; empty = anywhere.", optional=True)
    home_provider: str = column("Provider that keeps the work's data; empty = none in particular.", optional=True)
    home_region: str = column("Geography or provider's region in which its data lies; empty = no place in particular.", optional=True)
    egress_gib_per_unit: float = column(
        "Data that leaves its home for each unit of work done elsewhere.", unit="GiB/unit", default=0.0, ge=0
    )
    last_day: pd.Timestamp = column(
        "Last day it is at work; a day in the past = it has ended, a day ahead = it is alive and ends then. Empty = found from its usage.",
        optional=True,
    )
    team: str = column("Team that owns it.", default="shared")
    owner: str = column("Person or role that answers for it.", optional=True)
    cost_center: str = column("Cost centre it is booked to.", default="shared")
    feature: str = column("Product feature it serves.", optional=True)
    value_usd_per_unit: float = column("What one unit of work is worth to the company.", unit="USD/unit", optional=True, ge=0)


class Usage(Table):
    """Measured work of one interval."""

    time: pd.Timestamp = column("Start of the interval, in UTC; a zone may be given as +02:00.", key=True, instant=True)
    workload: str = column("Workload that ran.", refers="workloads.workload", key=True)
    region: str = column(REGION, default="any", key=True)
    quantity: float = column("Work done in the interval, in the workload's unit.", unit="workload unit", ge=0)
    queued_quantity: float = column("Work that waited because capacity was short.", unit="workload unit", optional=True, ge=0)
    refused_quantity: float = column("Work that was refused (rate limits, shed load).", unit="workload unit", optional=True, ge=0)
    covered_share: float = column("Share of the interval that the log covers; empty = all of it.", optional=True, gt=0, le=1)


class Events(Table):
    """A known change of demand."""

    event_id: str = column("Name of the event.", key=True)
    workload: str = column("Workload it changes.", refers="workloads.workload")
    date: pd.Timestamp = column("Day it happens.")
    kind: str = column("Kind of change.", isin=["launch", "migration", "price_change", "deprecation", "campaign", "other"])
    factor: float = column("Demand is multiplied by this once it is fully there.", optional=True, ge=0)
    level: float = column("Demand becomes this a day, instead of a factor.", unit="workload unit/day", optional=True, ge=0)
    ramp_days: float = column("Days until it is fully there.", unit="days", default=0.0, ge=0)
    end: pd.Timestamp = column("Last day, where it passes.", optional=True)
    probability: float = column("Chance that it happens.", default=1.0, ge=0, le=1)

    dates = order_rule("date", "end")


class TrainingRuns(Table):
    """A training run on the roadmap."""

    run_id: str = column("Name of the run.", key=True)
    workload: str = column("Workload it belongs to.", refers="workloads.workload")
    parameters: float = column(
        "Parameters that work on a token; empty = those of the model, or the share of parameters_total that its architecture has.",
        optional=True,
        gt=0,
    )
    parameters_total: float = column(
        "Parameters in all, which take memory; empty = as the model's architecture has them, or the same.", optional=True, gt=0
    )
    tokens: float = column("Training tokens.", optional=True, gt=0)
    quantity: float = column(
        "Work in the workload's unit; empty = 6 x parameters x tokens, for workloads in exaflop.", unit="workload unit", optional=True, gt=0
    )
    model: str = column(
        "Architecture the run has, for its memory; empty = the usual dense one of its size.", optional=True, refers="models.model"
    )
    precision: str = column("Number format.", default="bf16", isin=["fp32", "bf16", "fp16", "fp8", "fp4"])
    start: pd.Timestamp = column("Planned first day.")
    deadline: pd.Timestamp = column("Day it must be done.")
    latest_start: pd.Timestamp = column("Last day it may move to; empty = it may not move.", optional=True)
    probability: float = column("Chance that it goes ahead.", default=1.0, ge=0, le=1)
    region: str = column(REGION, default="any")

    dates = order_rule("start", "deadline")
    window = order_rule("start", "latest_start")


class CapacityRequests(Table):
    """A request for accelerators, with what is known of the work."""

    request_id: str = column("Name of the request.", key=True)
    workload: str = column("Workload it is for.", refers="workloads.workload")
    region: str = column(REGION, default="any")
    accelerators: float = column("Accelerators asked for.", unit="accelerators", gt=0)
    accelerator: str = column(
        "Their kind; needed where the workload is not counted in accelerator-hours.", optional=True, refers="accelerators.accelerator"
    )
    start: pd.Timestamp = column("First day.")
    end: pd.Timestamp = column("Last day.")
    probability: float = column("Chance that the work comes.", default=1.0, gt=0, le=1)
    compute_utilisation_share: float = column("Share of its time in which accelerators compute, as measured.", optional=True, ge=0, le=1)
    data_wait_share: float = column("Share of its time spent waiting for data, as measured.", optional=True, ge=0, le=1)
    transfer_share: float = column("Share of its time spent on communication between accelerators.", optional=True, ge=0, le=1)
    memory_use_share: float = column("Share of accelerator memory in use.", optional=True, ge=0, le=1)
    batch_size: float = column("Samples, or sequences, that an accelerator takes at once.", optional=True, gt=0)
    requested_on: pd.Timestamp = column("Day it was asked for.", optional=True)
    productive_on: pd.Timestamp = column("Day on which the work was under way.", optional=True)

    dates = order_rule("start", "end")


class Services(Table):
    """A served model."""

    workload: str = column("Workload whose unit is requests.", refers="workloads.workload", key=True)
    model: str = column("Model that answers; for API workloads its name in the price list of the provider.")
    provider: str = column("API provider; empty when self-hosted.", optional=True)
    input_tokens: float = column("Mean input tokens of a request.", unit="tokens", gt=0)
    output_tokens: float = column("Mean output tokens of a request.", unit="tokens", ge=0)
    cached_share: float = column("Share of input tokens that hit the provider's cache.", default=0.0, ge=0, le=1)
    cache_written_share: float = column(
        "Share of input tokens written into the provider's cache, where that has a price of its own; not among those that hit it.",
        default=0.0,
        ge=0,
        le=1,
    )
    batch_share: float = column("Share of requests that go through the batch interface.", default=0.0, ge=0, le=1)
    first_token_seconds_p95: float = column("Latency target: time to first token, 95th percentile.", unit="s", optional=True, gt=0)
    token_seconds_p95: float = column("Latency target: time per output token, 95th percentile.", unit="s", optional=True, gt=0)
    hosted_model: str = column(
        "Architecture that own machines serve, where its name in the price list of a provider is another one; empty = the model.",
        optional=True,
    )
    precision: str = column(
        "Number format the weights are served in on own machines; empty = as measured, or fp8.",
        optional=True,
        isin=["bf16", "fp16", "fp8", "int8", "fp4", "int4"],
    )
    concurrency_limit: float = column(
        "Requests a replica takes at once as it is set up today; empty = as many as the latency targets allow.",
        unit="requests",
        optional=True,
        ge=1,
    )
    small_model: str = column("Smaller architecture that a router or cascade could send requests to.", optional=True)


class Speeds(Table):
    """How fast a workload runs on an accelerator."""

    workload: str = column("Workload.", refers="workloads.workload", key=True)
    accelerator: str = column("Accelerator.", refers="accelerators.accelerator", key=True)
    work_per_accelerator_hour: float = column(
        "Work one accelerator does in an hour at the target latency, in the workload's unit.", unit="workload unit/h", gt=0
    )
    basis: str = column("How it is known.", isin=["measured", "calibrated", "modelled", "stated"])
    as_of: pd.Timestamp = column("Day it held.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")


class GrowthStatements(Table):
    """Growth or a cap that somebody states, as a weight beside what the history says."""

    statement_id: str = column("Name of the statement.", key=True)
    workload: str = column("Workload it speaks of.", refers="workloads.workload")
    kind: str = column("A yearly rate (growth), or the most there can be (cap: a market, a quota).", isin=["growth", "cap"])
    value: float = column("The rate or the cap, in its unit.")
    unit: str = column(
        "Unit of the value: growth as a share a year (0.5 = half more) or in times a year (1.5), a cap in workload units a day.",
        isin=["share_per_year", "times_per_year", "units_per_day"],
    )
    weight: float = column("How far it is believed beside the history; 1 = alone.", default=0.5, ge=0, le=1)
    said_by: str = column("Who states it: roadmap, sales plan, market study.", optional=True)


class PlannerForecasts(Table):
    """A quantile of a month's work, as a planner forecast it: months ahead are taken as they are, past ones are scored."""

    workload: str = column("Workload.", refers="workloads.workload", key=True)
    region: str = column(REGION, default="any", key=True)
    made_on: pd.Timestamp = column(
        "Day the forecast was made; empty = for this plan. Of two forecasts of a month ahead the newer is taken.", optional=True, key=True
    )
    month: pd.Timestamp = column("Any day of the month that is forecast.", key=True)
    quantile: float = column("Probability that the month stays below the quantity; 0.5 must be among a month's.", key=True, gt=0, lt=1)
    quantity: float = column("Work in the whole month; never lower at a higher quantile.", unit="workload unit", ge=0)


class DemandScenarios(Table):
    """A demand somebody states instead of a forecast."""

    scenario: str = column("Name of the scenario.", key=True)
    probability: float = column("Its probability; equal in all rows of a scenario, and the scenarios' sum is 1.", gt=0, le=1)
    workload: str = column("Workload.", refers="workloads.workload", key=True)
    region: str = column(REGION, default="any", key=True)
    quarter: str = column("Quarter.", key=True, str_matches=QUARTER_PATTERN)
    quantity: float = column("Work in the whole quarter, in the workload's unit, spread evenly.", unit="workload unit", ge=0)
