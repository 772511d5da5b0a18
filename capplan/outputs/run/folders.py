"""Folders that appear whole or not at all, in places that can be written to."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from capplan import errors
from capplan.errors import ReportError
from capplan.scratch import in_turn, scratch, sweep

#: Room that must be free before a run begins: several times what a large report takes.
NEEDED_BYTES = 64 * 2**20


def refused(target: Path) -> AbstractContextManager[None]:
    """Turn a refusal of the file system into one message about the report that was to be written."""
    return errors.refused(target, "choose another place with --out", ReportError)


def check_room(target: Path) -> None:
    """Find out before anything is computed whether files can be written to a folder, there or not, and to the temporary one.

    Raises:
        ReportError: Where it is read-only, full, or no folder.
    """
    try:
        for place in (target, Path(tempfile.gettempdir())):
            with refused(place), made(place), tempfile.TemporaryFile(dir=place) as probe:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(probe.fileno(), 0, NEEDED_BYTES)
    except FileNotFoundError as error:
        # a file system that keeps no folders (/proc), or nowhere for temporary files
        raise ReportError(f"{target} cannot be made: {error}; choose another place with --out, or TMPDIR for temporary files") from error


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make a folder and those above it; those that were made and are still empty at the end vanish again."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for place in new:
            with suppress(OSError):
                place.rmdir()


@contextmanager
def replaced_whole(target: Path) -> Iterator[Path]:
    """Give an empty folder to fill; it takes the target's place when all went well, and vanishes otherwise, with the folders made for it.

    An interruption between the two renames leaves the old folder under a hidden name; the next run puts it back. Of two runs at once the
    last one stays.
    """
    with refused(target), made(target.parent):
        aside = target.parent / f".{target.name}.before"
        with in_turn(target.parent):
            if aside.exists() and not target.exists():
                aside.rename(target)
            shutil.rmtree(aside, ignore_errors=True)
        sweep(".*.draft-", target.parent)
        with scratch(f".{target.name}.draft-", target.parent) as draft:
            yield draft
            draft.chmod(0o755)
            with in_turn(target.parent):
                if target.exists():
                    target.rename(aside)
                draft.rename(target)
                shutil.rmtree(aside, ignore_errors=True)
