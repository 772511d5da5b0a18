"""The runs of a book: one line each in one small file, and a pointer to the report that was finished last."""

import csv
import datetime as dt
import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from capplan.inert import inert
from capplan.scratch import in_turn

#: Stands beside the reports of a book.
HISTORY, LATEST = "history.csv", "latest"
COLUMNS = ("finished_at", "event", "report", "as_of", "said", "expected_usd", "gap_share", "seconds", "version")


def record_run(folder: Path, values: Mapping[str, object]) -> None:
    """Add a line to the history of a book's runs; nothing is made where no report was ever finished.

    A line is written by one call, so that two runs that end together leave two lines; of one that the disk has no room for nothing is kept.

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
        before = file.read_bytes() if file.exists() else b""
        # one that a kill cut off is ended
        line.write("\n" if before and not before.endswith(b"\n") else "")
        if not before:
            writer.writerow(COLUMNS)
        writer.writerow([now, *(" ".join(str(inert(values.get(name, ""))).split()) for name in COLUMNS[1:])])
        try:
            with file.open("ab") as place:
                place.write(line.getvalue().encode())
        except OSError:
            with suppress(OSError):
                os.truncate(file, len(before))
            raise


def point_to(report: Path) -> None:
    """Let `latest` beside a report lead to it: a link, or a file with its name where the system makes no links."""
    # one name for all runs, each in its turn: what one that was killed left is taken by the next
    pointer, draft = report.parent / LATEST, report.parent / f".{LATEST}.draft"
    if pointer.is_dir() and not pointer.is_symlink():
        return
    with in_turn(report.parent):
        draft.unlink(missing_ok=True)
        try:
            draft.symlink_to(report.name, target_is_directory=True)
        except OSError:
            draft.write_text(report.name, encoding="utf-8")
        draft.replace(pointer)


def latest_report(folder: Path) -> Path | None:
    """Return the report of a book that was finished last, by the pointer; None where there is none."""
    pointer = folder / LATEST
    name = os.readlink(pointer) if pointer.is_symlink() else pointer.read_text(encoding="utf-8") if pointer.is_file() else ""
    report = folder / Path(name.strip()).name
    return report if name and (report / "run.json").is_file() else None
