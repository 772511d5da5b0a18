"""Folders that appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_whole(target: Path) -> Iterator[Path]:
    """Give an empty folder to fill; it takes the target's place when all went well, and vanishes otherwise.

    An interruption between the two renames leaves the old folder under a hidden name; the next run puts it back.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
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
