"""Folders whose content is trusted when it is read back: nobody but their owner may write there."""

import os
import stat
from pathlib import Path


def is_private(folder: Path) -> bool:
    """Tell whether a folder is this user's own and closed to all others for writing; always so where the system has no owners."""
    if os.name != "posix":
        return True
    about = folder.stat()
    return about.st_uid == os.getuid() and not stat.S_IMODE(about.st_mode) & 0o022


def make_private(folder: Path) -> bool:
    """Make a folder that is this user's own, or close one that is; tell whether it is private then."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not is_private(folder) and folder.stat().st_uid == os.getuid():
        folder.chmod(0o700)
    return is_private(folder)
