"""Folders that appear whole or not at all, in places that can be written to."""

import ctypes
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
#: Of renameat2(2): names are taken from where the process stands, and both exist and change places.
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def refused(target: Path) -> AbstractContextManager[None]:
    """Turn a refusal of the file system into one message about the report that was to be written."""
    return errors.refused(target, "choose another place with --out", ReportError)


def check_room(target: Path) -> None:
    """Find out before anything is computed whether files can be written to a folder, there or not, and to the temporary one.

    What a run that was killed had moved aside is there again afterwards.

    Raises:
        ReportError: Where it is read-only, full, or no folder.
    """
    put_back(target)
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


def put_back(target: Path) -> None:
    """Put back a folder that a run moved aside and was killed before it put the new one there; drop what it no longer needs."""
    aside = aside_of(target)
    with refused(target):
        if aside.exists():
            with in_turn(target.parent):
                if not target.exists():
                    aside.rename(target)
                shutil.rmtree(aside, ignore_errors=True)


def aside_of(target: Path) -> Path:
    """Return where a folder waits while another takes its place, on systems where two cannot change places."""
    return target.parent / f".{target.name}.before"


def exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places in one step, so that no moment is without either.

    Returns:
        bool: False where the system or the disk knows no such step, and nothing was done.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)


@contextmanager
def replaced_whole(target: Path) -> Iterator[Path]:
    """Give an empty folder to fill; it takes the target's place when all went well, and vanishes otherwise, with the folders made for it.

    The target is the whole old folder until one step of the file system makes it the whole new one; the old one then has the draft's name,
    and a later run sweeps it should this one be killed. Where no such step is known it takes two renames: an interruption between them
    leaves the old folder under a hidden name, and the next run puts it back. Of two runs at once the last one stays. A target that is a
    link is replaced where it leads to.
    """
    target = target.resolve() if target.is_symlink() else target
    with refused(target), made(target.parent):
        put_back(target)
        sweep(".*.draft-", target.parent)
        with scratch(f".{target.name}.draft-", target.parent) as draft:
            yield draft
            draft.chmod(0o755)
            with in_turn(target.parent):
                if not target.exists():
                    draft.rename(target)
                elif not exchanged(draft, target):
                    aside = aside_of(target)
                    target.rename(aside)
                    draft.rename(target)
                    shutil.rmtree(aside, ignore_errors=True)
