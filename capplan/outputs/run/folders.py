"""Folders that appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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

    An interruption between the two renames leaves the old folder under a hidden name; the next run puts it back.
    """
    with made(target.parent):
        aside = target.parent / f".{target.name}.before"
        if aside.exists() and not target.exists():
            aside.rename(target)
        shutil.rmtree(aside, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.draft-"))
        try:
            yield draft
            draft.chmod(0o755)
            if target.exists():
                target.rename(aside)
            draft.rename(target)
            shutil.rmtree(aside, ignore_errors=True)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
