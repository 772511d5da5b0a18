"""Tables about training: measured scaling, counted failures, and records of spot availability."""

import pandas as pd

from capplan.book.tables.columns import Table, column
from capplan.book.terms import RATE_UNITS, TIME_UNITS


class ScalingRuns(Table):
    """A measured run on some number of accelerators."""

    curve: str = column("Runs with one name are one curve: same model, software and kind of accelerator.", key=True)
    accelerators: int = column("Accelerators in the run.", key=True, ge=1)
    throughput: float = column("What was measured: a rate of work, or the time for all of it.", gt=0)
    unit: str = column("Unit of what was measured; times (seconds to days) are turned into rates.", isin=RATE_UNITS + TIME_UNITS)
    scaling: str = column(
        "Strong (the same batch on more accelerators) or weak (a batch that grows with them); empty = read off the batch.",
        optional=True,
        isin=["strong", "weak"],
    )
    global_batch: float = column("Samples in one optimiser step.", unit="samples", optional=True, gt=0)
    accelerator: str = column("Accelerator it ran on.", optional=True, refers="accelerators.accelerator")
    as_of: pd.Timestamp = column("Day of the measurement.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")


class TrainingSpeeds(Table):
    """A published or own training run of a model: how fast it was."""

    run: str = column("Name of the measurement.", key=True)
    model: str = column("Architecture that was trained.", refers="models.model")
    accelerator: str = column("Accelerator it ran on.", refers="accelerators.accelerator")
    accelerators: int = column("Accelerators of the run.", ge=1)
    precision: str = column("Number format of its matrix products.", isin=["bf16", "fp8", "fp4"])
    sequence_length: float = column("Tokens in a sequence.", unit="tokens", ge=1)
    batch_sequences: float = column("Sequences in one optimiser step.", unit="sequences", gt=0)
    tokens_per_second: float = column("Tokens a second of one accelerator.", unit="tokens/s", gt=0)
    as_of: pd.Timestamp = column("Day of the measurement.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")


class Failures(Table):
    """Failures of a fleet that somebody counted, from one cause or from all."""

    fleet: str = column("Fleet or run that was watched; its rows add up.", key=True)
    cause: str = column("What failed; all = every cause together.", key=True)
    part: str = column("Part of the system the cause belongs to (accelerator, host, network, software, ...).", optional=True)
    failures: float = column("Failures that were counted, unplanned ones only.", optional=True, ge=0)
    nodes: float = column("Nodes that were watched.", unit="nodes", optional=True, gt=0)
    days: float = column("Days they were watched.", unit="days", optional=True, gt=0)
    failures_per_node_day: float = column("The rate, where it is stated instead of counted.", unit="1/day", optional=True, ge=0)
    accelerators_per_node: float = column("Accelerators in a node.", optional=True, default=8.0, gt=0)
    accelerator: str = column("Accelerator in the nodes.", optional=True, refers="accelerators.accelerator")
    as_of: pd.Timestamp = column("Day to which the count goes.", optional=True)
    source_id: str = column("Source of the row.", refers="sources.source_id")


class SpotAvailability(Table):
    """A stretch of time in which a number of spot machines could be had."""

    trace: str = column("Name of the record.", key=True)
    start_hours: float = column("Start of the stretch, from the start of the record.", unit="h", key=True, ge=0)
    hours: float = column("Length of the stretch.", unit="h", gt=0)
    machines: float = column("Machines that could be had, or stayed up.", ge=0)
    offer_id: str = column("Offer it was recorded for; empty = none of the book's.", optional=True, refers="offers.offer_id")
    as_of: pd.Timestamp = column("Day the record begins.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")
