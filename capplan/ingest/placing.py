"""Put foreign work into a book's time, and say what an accelerator does of it."""

from dataclasses import replace

import pandas as pd

from capplan.ingest.ingested import Ingested, WorkOptions


def placed(found: Ingested, options: WorkOptions) -> Ingested:
    """Shift all times by whole days, and state the speed of the work, where the options ask for it.

    Args:
        options: shift_days, accelerator and work_per_accelerator_hour are used.

    Returns:
        Ingested: With shifted times, and a speeds table with the basis "stated".
    """
    tables, parts, period, each, notes = dict(found.tables), dict(found.parts), found.period, found.each, list(found.notes)
    if options.shift_days:
        shift = pd.Timedelta(days=options.shift_days)
        tables, parts = _moved(tables, shift), _moved(parts, shift)
        period = period and (period[0] + shift, period[1] + shift)
        each = tuple(replace(one, period=(one.period[0] + shift, one.period[1] + shift)) if one.period else one for one in found.each)
        notes.append(f"All times were moved by {options.shift_days} days: they are not the days on which this was measured.")
    if options.accelerator is not None and "workloads" in tables:
        stated = {"accelerator": options.accelerator, "work_per_accelerator_hour": options.work_per_accelerator_hour, "basis": "stated"}
        tables["speeds"] = tables["workloads"][["workload"]].assign(**stated)
        parts["speeds"] = parts["workloads"][[name for name in ("workload", "file") if name in parts["workloads"]]].assign(**stated)
        notes.append(
            f"Stated, not measured: one hour of {options.accelerator} does {options.work_per_accelerator_hour:g} of each workload's unit."
        )
    return replace(found, tables=tables, parts=parts, period=period, each=each, notes=tuple(notes))


def _moved(tables: dict[str, pd.DataFrame], shift: pd.Timedelta) -> dict[str, pd.DataFrame]:
    """Move all times; a bill's months stay, since a shift by days would leave the first of the month."""
    return {
        name: (
            frame
            if name == "billing"
            else frame.assign(**{column: frame[column] + shift for column in frame.select_dtypes("datetime").columns})
        )
        for name, frame in tables.items()
    }
