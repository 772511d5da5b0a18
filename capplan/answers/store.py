"""What was answered once and is not solved again: in memory, and in one private folder that the processes of a run share."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from capplan.book.book import Book
from capplan.book.scenario import Section
from capplan.errors import CapplanError
from capplan.private import is_private
from capplan.scratch import scratch

Answer = TypeVar("Answer")
#: Names the folder that the processes of one run share.
SHARED = "CAPPLAN_ANSWERS"
#: Answers kept in memory; enough for a slider to go back and forth.
KEPT = 24
_answers: OrderedDict[str, Any] = OrderedDict()


def key_of(step: str, book: Book, tables: tuple[str, ...], section: Section) -> str:
    """Name an answer by its step, the digests of its tables and the digest of its section of the scenario."""
    parts = [step, *(f"{name}:{book.digests.get(name, '-')}" for name in tables), section.digest()]
    return f"{step}-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:24]}"


def remembered(step: str, book: Book, tables: tuple[str, ...], section: Section, compute: Callable[[], Answer]) -> Answer:
    """Return an answer from memory, or from the shared folder, or compute it; wherever it was missing it is kept.

    The key is the step, the digests of its tables and the digest of its section of the scenario, so a slider of
    another section never recomputes it. The folder lets a report's notebook show the plan that was just made.
    """
    key = key_of(step, book, tables, section)
    file = _file(key)
    if key in _answers:
        answer = _answers[key]
    elif file is not None and file.is_file():
        answer = pickle.loads(file.read_bytes())  # noqa: S301 - written by this run into its own private folder
    else:
        answer = compute()
    if file is not None and not file.exists():
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pickle.dumps(answer))
        draft.replace(file)
    _answers[key] = answer
    _answers.move_to_end(key)
    while len(_answers) > KEPT:
        _answers.popitem(last=False)
    return answer


def is_remembered(key: str) -> bool:
    """Tell whether an answer is in memory."""
    return key in _answers


def forget() -> None:
    """Empty the memory."""
    _answers.clear()


@contextmanager
def shared_answers() -> Iterator[Path]:
    """Give the folder in which the processes of a run share their answers: the one open already, or a new one while the block lasts."""
    if os.environ.get(SHARED):
        yield Path(os.environ[SHARED])
        return
    with scratch("capplan-answers-") as folder:
        os.environ[SHARED] = str(folder)
        try:
            yield folder
        finally:
            del os.environ[SHARED]


def _file(key: str) -> Path | None:
    """Return where the shared folder keeps an answer; what is read back is trusted, so nobody else may write there."""
    folder = os.environ.get(SHARED)
    if not folder:
        return None
    place = Path(folder)
    if not place.is_dir():
        # a worker process may outlive the run whose folder it was started with: it computes for itself then
        return None
    if not is_private(place):
        raise CapplanError(f"{SHARED} names {folder}, which others may write to; it must be your own, with mode 700")
    return place / f"{key}.pickle"
