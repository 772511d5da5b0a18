"""Put foreign work into a book's time, and say what an accelerator does of it."""

from __future__ import annotations

import pandas as pd

from capplan.ingest.ingested import Ingested, WorkOptions


def placed(found: Ingested, options: WorkOptions) -> Ingested:
    """Shift all times by whole days, and state the speed of the work, where the options ask for it.

    Parameters
    ----------
    found
        What was read.
    options
        shift_days, accelerator and work_per_accelerator_hour are used.

    Returns
    -------
    Ingested
        With shifted times, and a speeds table with the basis "stated".
    """
    tables, notes = dict(found.tables), list(found.notes)
    if options.shift_days:
        for name, frame in tables.items():
            if name == "billing":  # a bill's months stay: a shift by days would leave the first of the month
                continue
            times = [column for column in frame.columns if pd.api.types.is_datetime64_any_dtype(frame[column])]
            tables[name] = frame.assign(**{column: frame[column] + pd.Timedelta(days=options.shift_days) for column in times})
        notes.append(f"All times were moved by {options.shift_days} days: they are not the days on which this was measured.")
    if options.accelerator is not None and "workloads" in tables:
        names = tables["workloads"]["workload"]
        tables["speeds"] = pd.DataFrame(
            {
                "workload": names,
                "accelerator": options.accelerator,
                "work_per_accelerator_hour": options.work_per_accelerator_hour,
                "basis": "stated",
            }
        )
        notes.append(
            f"Stated, not measured: one hour of {options.accelerator} does {options.work_per_accelerator_hour:g} of each workload's unit."
        )
    return Ingested(tables, tuple(notes), found.headline)
