"""Foreign formats into tables: request logs, rate series, job tables, Slurm, price sheets and FOCUS billing exports."""

import csv
import dataclasses
import glob
import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from capplan.book.allowed import fault_words
from capplan.errors import BookError, CapplanError, Fault, nearest, reachable
from capplan.ingest.folding import fold
from capplan.ingest.identities import Identities
from capplan.ingest.ingested import Ingested, WorkOptions
from capplan.ingest.placing import placed
from capplan.ingest.reading_options import ReadingOptions, in_own_name

__all__ = ["FORMATS", "Format", "Ingested", "ingest", "options_of"]


@dataclass(frozen=True)
class Format:
    """A foreign format, its reader and options, and whether it looks up machines, knows rows again, reads many files in one scan."""

    meaning: str
    module: str
    reader: str
    options: str
    uses_book: bool = False
    knows_rows: bool = False
    many: bool = False


FORMATS: dict[str, Format] = {
    "requests": Format(
        "Request log: when, input tokens, output tokens.", "traffic", "read_requests", "RequestOptions", knows_rows=True, many=True
    ),
    "rates": Format("Rate series: when, requests per second.", "request_rates", "read_rates", "RateOptions"),
    "jobs": Format("Job table: submitted, ran for, accelerators.", "jobs", "read_jobs", "JobOptions", many=True),
    "slurm": Format("Output of sacct --parsable2.", "slurm", "read_slurm", "SlurmOptions", uses_book=True, many=True),
    "telemetry": Format(
        "Utilisation of accelerators by job and time, from DCGM or Prometheus.",
        "telemetry",
        "read_telemetry",
        "TelemetryOptions",
        uses_book=True,
    ),
    "prices": Format(
        "Price sheet: machine type, region, price on demand, as spot, reserved.", "prices", "read_prices", "PriceOptions", uses_book=True
    ),
    "contracts": Format("List of signed contracts.", "contracts", "read_contracts", "ContractOptions", uses_book=True),
    "vllm": Format("Log of a vLLM server as it is printed.", "vllm", "read_vllm", "VllmOptions"),
    "focus": Format("FOCUS billing export, 1.0 to 1.3.", "focus", "read_focus", "FocusOptions", uses_book=True, knows_rows=True, many=True),
}


def _part(format: str, name: str) -> Any:
    if format not in FORMATS:
        raise CapplanError(f"{format!r} is not a format that can be ingested; {nearest(format, FORMATS)}")
    return getattr(import_module(f"{__name__}.{FORMATS[format].module}"), name)


def options_of(format: str) -> type[ReadingOptions]:
    """Return the model of a format's options, for help texts.

    Raises:
        CapplanError: If there is no such format.
    """
    found: type[ReadingOptions] = _part(format, FORMATS[format].options if format in FORMATS else "")
    return found


def expanded(files: Sequence[Path | str] | Path | str) -> list[Path]:
    """Return the files that names, folders and patterns stand for; a name that exists is itself, whatever signs are in it.

    Args:
        files: Files; folders, of which every file is taken that is no hidden one; and patterns with *, ? and [ for files that do not exist
            by that name.

    Raises:
        CapplanError: If a pattern or folder has no file.
    """
    with reachable():
        return _expanded(files)


def _expanded(files: Sequence[Path | str] | Path | str) -> list[Path]:
    """Look at each name as it stands."""
    found: list[Path] = []
    for name in [files] if isinstance(files, str | Path) else files:
        path = Path(name)
        if path.is_dir():
            inside = sorted(
                place
                for place in path.rglob("*")
                if place.is_file() and not any(part.startswith((".", "_")) for part in place.relative_to(path).parts)
            )
        elif not path.exists() and any(sign in str(name) for sign in "*?["):
            inside = sorted(Path(place) for place in glob.glob(str(name), recursive=True) if Path(place).is_file())
        else:
            inside = [path]
        if not inside:
            raise CapplanError(f"{name} stands for no file; check the path")
        found += inside
    return list(dict.fromkeys(found))


def checked_options(format: str, options: dict[str, Any]) -> ReadingOptions:
    """Check the options of a format by name and value.

    Raises:
        CapplanError: Naming every option that is unknown or does not fit.
    """
    model = options_of(format)
    unknown = [
        f"{name} is not an option of {format}; {nearest(name, model.model_fields)}" for name in options if name not in model.model_fields
    ]
    if unknown:
        raise CapplanError("; ".join(unknown))
    try:
        return model(**options)
    except ValidationError as error:
        parts = [f"{'.'.join(map(str, item['loc']))} = {item['input']!r}: {fault_words(item)}" for item in error.errors()]
        raise CapplanError(f"options of {format}: " + "; ".join(parts)) from error


@contextmanager
def _plainly(files: Sequence[Path]) -> Iterator[None]:
    """Turn what a reader of files, numbers or dates raises into one fault of the file."""
    import duckdb

    file = files[0]

    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise BookError(
            [Fault(file.name, 0, "", "", "reading it takes more memory than memory_gib allows", "Give more: memory_gib=4.")],
            where=file.name,
        ) from error
    except OSError as error:
        if str(error.filename or "").endswith("-identities.parquet"):
            raise  # that is the book's, which cannot be written
        raise _unreadable(file, error) from error
    except (duckdb.Error, csv.Error, pd.errors.OutOfBoundsDatetime, OverflowError, gzip.BadGzipFile, EOFError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> CapplanError:
    """Say of a file that it cannot be read, or that there is no room for what reading it puts aside."""
    if "No space left on device" in str(error):
        return CapplanError(
            f"reading {file.name} puts rows aside in {tempfile.gettempdir()}, and there is no room left. Make room, set TMPDIR to another"
            " place, or give more memory: memory_gib=8"
        )
    rule = in_own_name(str(error), file)[:160]
    remedy = "Check that the file is complete and of the kind its name says."
    return BookError([Fault(file.name, 0, "", "", f"it cannot be read: {rule}", remedy)], where=file.name)


def _read(
    files: Sequence[Path], identities: Identities | None = None, *, format: str, checked: ReadingOptions, book: Path | None
) -> Ingested:
    """Read one file, or several of one layout."""
    reader: Callable[..., Ingested] = _part(format, FORMATS[format].reader)
    more: dict[str, Any] = {"book": book} if FORMATS[format].uses_book else {}
    if FORMATS[format].knows_rows and identities is not None:
        more["identities"] = identities
    with _plainly(files):
        found = reader(files if FORMATS[format].many else files[0], checked, **more)
    return placed(found, checked) if isinstance(checked, WorkOptions) else found


def ingest(
    format: str, file: Sequence[Path | str] | Path | str, into: Path | str | None = None, *, replace: bool = False, **options: Any
) -> Ingested:
    """Say what foreign files hold, as tables of a book.

    Args:
        format: requests, rates, vllm, jobs, slurm, telemetry, prices, contracts or focus; auto = recognised by the names of the columns.
        file: CSV or JSON lines (also .gz or .zst) or Parquet, which may be larger than memory; or several files, folders and patterns. What
            they hold is added, a job or row that is in two of them counts once, and a bill of a month that the book has already replaces
            it.
        into: Folder of the book to write the tables into; None = only read.
        replace: Replace the book's tables instead of adding to them (shared tables like workloads and skus are always added to).
        **options: Options of the format, checked by name and value (see `options_of`).

    Returns:
        Ingested: Tables, notes, headline; with a book, the tables that follow from all files it has.

    Raises:
        BookError: With all faults of a file at once; nothing is written then.
        CapplanError: If the format or an option is unknown.
    """
    files, book = expanded(file), None if into is None else Path(into)
    if format == "auto":
        return _of_any_form(files, book, replace, options)
    checked = checked_options(format, options)
    from capplan.ingest.layouts import batches_of, in_one_scan

    batches = batches_of(files) if FORMATS[format].many else [[path] for path in files]
    read = partial(_read, format=format, checked=checked, book=book)
    if book is None:
        found = [part for batch in batches for part in in_one_scan(batch, read)]
        if len(found) == 1:
            return found[0]
        tables, notes = fold(joined_parts(found))
        return _together(tables, found, [*(note for part in found for note in part.notes), *notes], [])
    from capplan.ingest.entering import into_book

    written = checked.model_dump(mode="json", exclude_defaults=True)
    tables, found, notes = into_book(book, format, batches, read, written, replace_all=replace)
    return _together(tables, found, [], notes)


def joined_parts(found: Sequence[Ingested]) -> dict[str, pd.DataFrame]:
    """Join the parts of several readings; `file` counts the files of all of them."""
    whole: dict[str, list[pd.DataFrame]] = {}
    first = 0
    for reading in found:
        for name, frame in reading.parts.items():
            whole.setdefault(name, []).append(frame.assign(file=first + frame.get("file", 0)))
        first += len(reading.files)
    return {
        name: pd.concat([frame for frame in frames if len(frame)], ignore_index=True)
        for name, frames in whole.items()
        if any(map(len, frames))
    }


def _of_any_form(files: list[Path], book: Path | None, replace: bool, options: dict[str, Any]) -> Ingested:
    """Recognise the form of each file, and read those of one form together."""
    from capplan.ingest.forms import form_of

    groups: dict[tuple[str, str], tuple[list[Path], dict[str, Any]]] = {}
    notes = []
    for path in files:
        taken = form_of(path, options)
        notes.append(
            f"{path.name} is taken for {taken.name}: ingest {taken.format}"
            + "".join(f" -o {name}={value}" for name, value in taken.options.items())
            + "."
        )
        mine = (
            {name: value for name, value in options.items() if name in options_of(taken.format).model_fields} if len(files) > 1 else options
        )
        groups.setdefault((taken.format, repr(taken.options)), ([], {**taken.options, **mine}))[0].append(path)
    found = [ingest(format, paths, book, replace=replace, **chosen) for (format, _), (paths, chosen) in groups.items()]
    if len(found) == 1:
        return dataclasses.replace(found[0], notes=(*notes, *found[0].notes))
    tables = {name: frame for part in found for name, frame in part.tables.items()}
    headline = " ".join(part.headline for part in found)
    return Ingested(tables, (*notes, *(note for part in found for note in part.notes)), headline, rows=sum(part.rows for part in found))


def _together(tables: dict[str, pd.DataFrame], found: list[Ingested], before: list[str], after: list[str]) -> Ingested:
    """Say what several files hold."""
    headline = (
        found[0].headline
        if len(found) == 1
        else f"{len(found)} files: " + " ".join(part.headline for part in found[:3]) + (" ..." if len(found) > 3 else "")
    )
    accounts = [part.accounts for part in found if part.accounts is not None]
    notes = tuple(dict.fromkeys([*before, *after]))
    if not found:
        return Ingested(tables, notes, "Nothing is new: the book is as it was.")
    joined = pd.concat(accounts, ignore_index=True).groupby(["bucket", "currency"], as_index=False, sort=False).sum() if accounts else None
    periods = [part.period for part in found if part.period is not None]
    period = (min(first for first, _ in periods), max(last for _, last in periods)) if periods else None
    return Ingested(tables, notes, headline, rows=sum(part.rows for part in found), period=period, accounts=joined)
