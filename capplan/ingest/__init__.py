"""Foreign formats into tables: request logs, rate series, job tables, Slurm, price sheets and FOCUS billing exports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capplan.errors import CapplanError, nearest
from capplan.ingest.ingested import Ingested, WorkOptions
from capplan.ingest.opening import ReadingOptions
from capplan.ingest.placing import placed

__all__ = ["FORMATS", "Format", "Ingested", "ingest", "options_of"]


@dataclass(frozen=True)
class Format:
    """A foreign format: what it is, where its reader and its options are, and whether it looks machine types up in the book."""

    meaning: str
    module: str
    reader: str
    options: str
    uses_book: bool = False


FORMATS: dict[str, Format] = {
    "requests": Format("Request log: when, input tokens, output tokens.", "traffic", "read_requests", "RequestOptions"),
    "rates": Format("Rate series: when, requests per second.", "traffic", "read_rates", "RateOptions"),
    "jobs": Format("Job table: submitted, ran for, accelerators.", "jobs", "read_jobs", "JobOptions"),
    "slurm": Format("Output of sacct --parsable2.", "slurm", "read_slurm", "SlurmOptions"),
    "prices": Format(
        "Price sheet: machine type, region, price on demand, as spot, reserved.", "prices", "read_prices", "PriceOptions", uses_book=True
    ),
    "focus": Format("FOCUS billing export, 1.0 to 1.3.", "focus", "read_focus", "FocusOptions", uses_book=True),
}


def _part(format: str, name: str) -> Any:
    if format not in FORMATS:
        raise CapplanError(f"{format!r} is not a format that can be ingested; {nearest(format, FORMATS)}")
    return getattr(import_module(f"{__name__}.{FORMATS[format].module}"), name)


def options_of(format: str) -> type[ReadingOptions]:
    """Return the model of a format's options, for help texts.

    Raises
    ------
    CapplanError
        If there is no such format.
    """
    found: type[ReadingOptions] = _part(format, FORMATS[format].options if format in FORMATS else "")
    return found


def ingest(format: str, file: Path | str, into: Path | str | None = None, *, replace: bool = False, **options: Any) -> Ingested:
    """Say what a foreign file holds, as tables of a book.

    Parameters
    ----------
    format
        requests, rates, jobs, slurm, prices or focus.
    file
        CSV (also .gz or .zst) or Parquet; it may be larger than memory.
    into
        Folder of the book to write the tables into; None = only read.
    replace
        Replace the book's tables instead of adding to them (shared tables like workloads and skus are always added to).
    **options
        Options of the format, checked by name and value (see `options_of`).

    Returns
    -------
    Ingested
        Tables, notes, headline.

    Raises
    ------
    BookError
        With all faults of the file at once; nothing is written then.
    CapplanError
        If the format or an option is unknown.
    """
    model = options_of(format)
    unknown = [
        f"{name} is not an option of {format}; {nearest(name, model.model_fields)}" for name in options if name not in model.model_fields
    ]
    if unknown:
        raise CapplanError("; ".join(unknown))
    try:
        checked = model(**options)
    except ValidationError as error:
        parts = [
            f"{'.'.join(map(str, item['loc']))} = {item['input']!r}: {item['msg'].removeprefix('Value error, ')}" for item in error.errors()
        ]
        raise CapplanError(f"options of {format}: " + "; ".join(parts)) from error
    reader: Callable[..., Ingested] = _part(format, FORMATS[format].reader)
    book = None if into is None else Path(into)
    found = reader(Path(file), checked, book) if FORMATS[format].uses_book else reader(Path(file), checked)
    if isinstance(checked, WorkOptions):
        found = placed(found, checked)
    if book is None:
        return found
    from capplan.ingest.writing import write_tables

    written = write_tables(found.tables, book, replace=replace)
    return dataclasses.replace(found, notes=(*found.notes, *written))
