"""Tables about training: measured scaling."""

from __future__ import annotations

import pandas as pd

from capplan.inputs.columns import Table, column

#: Units in which smaller is better.
TIME_UNITS = ["seconds", "minutes", "hours", "days"]
RATE_UNITS = ["tokens/s", "samples/s", "steps/s", "units/h"]


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
