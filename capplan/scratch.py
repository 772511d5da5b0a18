"""What lasts as long as a block: temporary folders, held by a lock and swept once their process is gone, turns, and the environment."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: A folder younger than this may belong to a process that has not locked it yet; one of a later time was made before the clock went back.
YOUNG_SECONDS = 5.0
#: Folders of this process that are still there.
_held: dict[Path, int] = {}


@contextmanager
def scratch(prefix: str, inside: Path | None = None) -> Iterator[Path]:
    """Give a private folder for as long as the block lasts; what dead processes left under the same prefix is swept first.

    The folder itself carries the lock, so it stays held when it is renamed, and the system drops the lock with the process,
    even one that was killed. Systems without such locks (Windows) sweep nothing.

    Args:
        inside: Folder to make it in; the system's place for temporary files where none is given.
    """
    place = inside or Path(tempfile.gettempdir())
    sweep(prefix, place)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    _held[folder] = _locked(folder) or -1
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _release(folder)


def sweep(prefix: str, place: Path) -> list[Path]:
    """Remove the folders of this prefix whose process is gone, and return them; folders of other users are let be."""
    gone = []
    for folder in sorted(place.glob(f"{prefix}*")):
        with suppress(OSError):
            if (
                folder.is_symlink()
                or not folder.is_dir()
                or abs(time.time() - folder.stat().st_mtime) < YOUNG_SECONDS
                or not _is_own(folder)
            ):
                continue
            lock = _locked(folder)
            if lock is None:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            gone.append(folder)
    return gone


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Let one process after another through, for as long as the block lasts; systems and disks without such locks let all through."""
    handle = None
    with suppress(ImportError, OSError):
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def environment(**wanted: str) -> Iterator[None]:
    """Set variables of the environment for as long as the block lasts."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def drop_all() -> None:
    """Remove what this process still holds: the last thing before it is ended from outside."""
    for folder in list(_held):
        shutil.rmtree(folder, ignore_errors=True)
        _release(folder)


def _is_own(folder: Path) -> bool:
    return os.name != "posix" or folder.stat().st_uid == os.geteuid()


def _locked(folder: Path) -> int | None:
    """Lock a folder for this process; None where another process holds it, or the system knows no such lock."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _release(folder: Path) -> None:
    handle = _held.pop(folder, -1)
    if handle >= 0:
        with suppress(OSError):
            os.close(handle)
