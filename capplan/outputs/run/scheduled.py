"""A run that nobody watches: its report goes to any place, its end is told, and one line of it is kept."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from capplan import __version__
from capplan.errors import CapplanError, ReportError
from capplan.outputs.run.notify import Event, check_told, notify
from capplan.outputs.run.report import Depth, Report, folder_name, write_report
from capplan.outputs.run.run_history import record_run
from capplan.outputs.run.stores import reports_in


def scheduled_plan(
    book: Path, values: Mapping[str, Any], out: str, depth: Depth, *, told: str = "", say: Callable[[str], None] = print
) -> tuple[Report, str]:
    """Make the plan of a book, keep a line about the run, and tell how it went.

    Args:
        book, values, depth, say: As for `write_report`.
        out: Folder of all reports, or address of a store (s3://bucket/plans).
        told: Command or address that is told about success, failure or a changed decision; empty = nobody.

    Returns:
        tuple[Report, str]: The report, and where it lies.

    Raises:
        CapplanError: With one clear message; a previous report stays as it was.
    """
    if told:
        check_told(told)
    began = time.perf_counter()
    try:
        with reports_in(out, folder_name(book)) as place:
            try:
                report = write_report(book, values, place, say, depth)
            except BaseException as error:
                _keep(place / folder_name(book), {"event": "failure", "said": _said(error)}, began)
                raise
            event: Event = "changed" if report.changed else "success"
            _keep(report.folder.parent, {"event": event, **_line(report)}, began)
            where = str(report.folder) if "://" not in out else f"{out.rstrip('/')}/{report.folder.relative_to(place).as_posix()}"
            about = {"book": book, "headline": report.plan.headline, "report": where}
            about |= {"difference": f"{where}/changed.html"} if (report.folder / "changed.html").is_file() else {}
    except BaseException as error:
        if told:
            notify(told, "failure", {"book": book, "message": _said(error)}, say)
        raise
    if told:
        notify(told, event, about, say)
    return report, where


def _said(error: BaseException) -> str:
    """Return what a failure is told as: our own message, what stopped the run, or the kind of the error."""
    own = str(error) if isinstance(error, CapplanError) else getattr(error, "said", "")
    return own or f"internal error ({type(error).__name__}: {error})"


def _line(report: Report) -> dict[str, object]:
    """Return what the history keeps of a finished report."""
    bought = report.plan.purchases
    usd = float(bought.alternatives.set_index("name").loc["plan", "expected_usd"])
    line = {"report": report.folder.name, "as_of": report.scenario["as_of"], "said": report.plan.headline}
    return line | {"expected_usd": f"{usd:.2f}", "gap_share": f"{bought.proof.gap_share:.6f}"}


def _keep(folder: Path, values: Mapping[str, object], began: float) -> None:
    """Keep the line; a folder that takes no more line is said by the run itself, not by its history."""
    try:
        record_run(folder, {**values, "seconds": f"{time.perf_counter() - began:.1f}", "version": __version__})
    except OSError as error:
        if values["event"] != "failure":
            raise ReportError(f"{folder}: the history of runs cannot be written: {error}") from error
