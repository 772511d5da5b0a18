"""The runs of a book: one line each in one small file, and a pointer to the report that was finished last."""

import csv
import datetime as dt
import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from capplan.outputs.export.files import inert, write_whole
from capplan.scratch import in_turn

#: Stands beside the reports of a book.
HISTORY, LATEST = "history.csv", "latest"
COLUMNS = ("finished_at", "event", "report", "as_of", "said", "expected_usd", "gap_share", "seconds", "version")


def record_run(folder: Path, values: Mapping[str, object]) -> None:
    """Add a line to the history of a book's runs; nothing is made where no report was ever finished.

    A line is written by one call, so that two runs that end together leave two lines.

    Args:
        values: Of the columns event (success, changed, failure), report (its folder's name), as_of, said (headline or message),
            expected_usd, gap_share, seconds, version; the moment is added.
    """
    file = folder / HISTORY
    if not folder.is_dir():
        return
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    with in_turn(folder):
        if not file.exists():
            writer.writerow(COLUMNS)
        writer.writerow([now, *(" ".join(str(inert(values.get(name, ""))).split()) for name in COLUMNS[1:])])
        with file.open("ab") as place:
            place.write(line.getvalue().encode())


def point_to(report: Path) -> None:
    """Let `latest` beside a report lead to it: a link, or a file with its name where the system makes no links."""
    pointer, draft = report.parent / LATEST, report.parent / f".{LATEST}.{os.getpid()}"
    if pointer.is_dir() and not pointer.is_symlink():
        return
    with suppress(FileNotFoundError):
        draft.unlink()
    try:
        draft.symlink_to(report.name, target_is_directory=True)
        draft.replace(pointer)
    except OSError:
        write_whole(pointer, report.name.encode())


def latest_report(folder: Path) -> Path | None:
    """Return the report of a book that was finished last, by the pointer; None where there is none."""
    pointer = folder / LATEST
    name = os.readlink(pointer) if pointer.is_symlink() else pointer.read_text(encoding="utf-8") if pointer.is_file() else ""
    report = folder / Path(name.strip()).name
    return report if name and (report / "run.json").is_file() else None
