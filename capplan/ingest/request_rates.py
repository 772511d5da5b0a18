"""Series of request rates: how much was asked of a service, hour by hour."""

from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.folding import fold
from capplan.ingest.ingested import Ingested, Stage, WorkOptions, workload_rows
from capplan.ingest.opening import Sheet
from capplan.ingest.pieces import bounded, pieces
from capplan.ingest.traffic import labels_of

SECONDS_PER_HOUR = 3600


class RateOptions(WorkOptions):
    """Options of a rate series."""

    unit: str = Field("requests", description="What the rate counts, a second.", min_length=1)
    stage: Stage = Field("serving", description="Stage of the workload.")
    gaps: Literal["error", "hold"] = Field(
        "error", description="What to do about missing intervals: refuse the file, or hold the last rate."
    )


RATE_COLUMNS = (
    Wanted("time", "time", ("timestamp", "ts", "datetime", "seconds_from_start", "seconds", "time_s", "elapsed_seconds", "interval_start")),
    Wanted(
        "rate",
        "number",
        ("total_requests_per_second", "requests_per_second", "rps", "qps", "request_rate", "queries_per_second"),
        filled=False,
        minimum=0,
    ),
    Wanted("workload", "text", ("service", "deployment", "endpoint", "application", "app", "model"), required=False),
    Wanted("region", "text", ("location",), required=False),
)


def read_rates(file: Path, options: RateOptions) -> Ingested:
    """Say how many requests came in each hour, from a series of rates.

    The quantity of an hour is the sum of rate x length over its intervals.

    Args:
        file: One row an interval: its start (an instant, or seconds from `start`) and the requests a second in it.

    Returns:
        Ingested: Tables usage and workloads; a series coarser than an hour keeps its own intervals.

    Raises:
        BookError: If intervals are missing or occur twice, or if their length neither divides the hour nor is made of hours.
    """
    with Sheet(file, options, nulls=("NULL", "null", "None", "nan", "NaN", "(null)")) as sheet:
        matched = convert(sheet, RATE_COLUMNS)
        workload, region = labels_of(sheet, options)
        sheet.connection.execute(f"create view series as select time, {workload} as workload, {region} as region, rate from typed")
        found, spans = [], []
        for name, place in sheet.rows("select distinct workload, region from series order by all"):
            one = "select time, cast(rate as double) as rate from series where workload = ? and region = ? order by time"
            filled, length = _even(sheet, sheet.connection.execute(one, [name, place]).df(), options, matched["rate"])
            hours = max(length, pd.Timedelta(hours=1))
            filled["quantity"] = filled.rate.to_numpy(dtype=float) * length.total_seconds()
            hourly = filled.groupby(filled.time.dt.floor("h") if hours > length else filled.time).quantity.sum()
            found.append(
                hourly.rename_axis("time").reset_index().assign(workload=name, region=place, seconds=hours.total_seconds(), scope="")
            )
            spans.append((name, place, filled.time.iloc[0], filled.time.iloc[-1] + length))
        rows = sheet.rows("select count(*) from series")[0][0]
        notes = tuple(sheet.notes)
    ends = pd.DataFrame(spans, columns=["workload", "region", "earliest", "latest"]).assign(family="rates")
    names = workload_rows(ends, options.unit, options.stage)
    parts = {"workloads": names, "pieces": pieces(pd.concat(found, ignore_index=True), "rates"), "spans": ends}
    tables, more = fold(parts)
    usage = tables["usage"]
    headline = (
        f"{usage.quantity.sum():,.0f} {options.unit} in {len(usage):,} hourly intervals from {usage.time.min():%Y-%m-%d} to"
        f" {usage.time.max():%Y-%m-%d}."
    )
    return Ingested(tables, (*notes, *more), headline, parts=parts, rows=int(rows), period=(ends.earliest.min(), ends.latest.max()))


def _even(sheet: Sheet, part: pd.DataFrame, options: RateOptions, rate: str) -> tuple[pd.DataFrame, pd.Timedelta]:
    """Check that intervals follow each other evenly; return them without gaps, and their length."""
    if len(part) < 2:
        sheet.refuse("a rate series needs at least two rows, since their distance is the length of an interval", "Export more of it.")
    steps = part.time.diff().dropna()
    if (steps == pd.Timedelta(0)).any():
        first = part.time[part.time.duplicated()].iloc[0]
        sheet.refuse(
            "an interval occurs twice",
            "Delete one of the two rows, or give workload= for one series at a time.",
            value=str(first),
            column="time",
        )
    length = steps.mode().iloc[0]
    seconds = length.total_seconds()
    if SECONDS_PER_HOUR % seconds and seconds % SECONDS_PER_HOUR:
        sheet.refuse(
            "the length of an interval must divide the hour or be made of hours",
            "Resample the series.",
            value=f"{seconds:g} s",
            column="time",
        )
    bounded([(part.time.iloc[0], part.time.iloc[-1], seconds)])
    times = pd.date_range(part.time.iloc[0], part.time.iloc[-1], freq=length, name="time")
    off_grid = part.time[~part.time.isin(times)]
    if len(off_grid):
        sheet.refuse(
            f"intervals of {seconds:g} s start every {seconds:g} s",
            "Correct the time, or resample the series.",
            value=str(off_grid.iloc[0]),
            column="time",
        )
    if SECONDS_PER_HOUR % seconds == 0 and ((part.time.iloc[0] - part.time.iloc[0].floor("h")) % length) != pd.Timedelta(0):
        sheet.refuse("intervals must not cross the hour", "Shift start= to a full interval.", value=str(part.time.iloc[0]), column="time")
    full = part.set_index("time").rate.reindex(times)
    missing = full.isna()
    if missing.any():
        if options.gaps == "error":
            first = missing.idxmax()
            rule = f"{int(missing.sum())} intervals have no row or an empty rate, the first at {first}"
            sheet.refuse(rule, "Complete the series, or give gaps=hold to hold the last rate before each gap.", column=rate)
        full = full.ffill().bfill()
        sheet.notes.append(f"{int(missing.sum())} missing intervals hold the last rate before them.")
    return full.rename("rate").reset_index(), length
