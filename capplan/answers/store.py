"""What was answered once and is not solved again: in memory, and in one private folder that the processes of a run share."""

import hashlib
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from capplan.book.book import Book
from capplan.book.book_currency import book_currency
from capplan.book.scenario import Section
from capplan.dollars import Rate, in_force, rate_in_force
from capplan.errors import CapplanError
from capplan.private import is_private
from capplan.scratch import environment, scratch

Answer = TypeVar("Answer")
#: Names the folder that the processes of one run share.
SHARED = "CAPPLAN_ANSWERS"
#: Answers kept in memory; enough for a slider to go back and forth.
KEPT = 24
#: Answers kept in the shared folder.
SHARED_MOST = 600
_answers: OrderedDict[str, Any] = OrderedDict()
#: Threads of one process share the memory: one looks at a time, and an answer that one is computing the others wait for.
_guard = threading.Lock()
_computing: dict[str, threading.RLock] = {}


def key_of(step: str, book: Book, tables: tuple[str, ...], section: Section) -> str:
    """Name an answer by its step, the digests of its tables and the digest of its section of the scenario."""
    rate = _rate(book)
    parts = [step, *(f"{name}:{book.digests.get(name, '-')}" for name in tables), section.digest()]
    parts += [repr(rate)] if rate.name != "USD" else []
    return f"{step}-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:24]}"


def remembered(step: str, book: Book, tables: tuple[str, ...], section: Section, compute: Callable[[], Answer]) -> Answer:
    """Return an answer from memory, or from the shared folder, or compute it; wherever it was missing it is kept.

    The key is the step, the digests of its tables, the digest of its section of the scenario and the currency of its words, so a slider
    of another section never recomputes it. The folder lets a report's notebook show the plan that was just made.
    """
    key = key_of(step, book, tables, section)
    with _guard:
        turn = _computing.setdefault(key, threading.RLock())
    try:
        with turn:
            found, answer = _kept(key)
            if not found:
                with in_force(_rate(book)):
                    answer = compute()
            _keep(key, answer)
    finally:
        with _guard:
            _computing.pop(key, None)
    return answer


def _rate(book: Book) -> Rate:
    """Return the currency in which an answer's words are said: the one in force, else the book's."""
    return rate_in_force(lambda: book_currency(book, book.scenario))


def _kept(key: str) -> tuple[bool, Any]:
    """Look for an answer in memory, then in the shared folder."""
    with _guard:
        if key in _answers:
            return True, _answers[key]
    return _read(_file(key))


def _read(file: Path | None) -> tuple[bool, Any]:
    """Tell whether a file of the shared folder holds an answer, and which."""
    if file is not None and file.is_file():
        try:
            return True, pickle.loads(file.read_bytes())  # noqa: S301 - written by this run into its own private folder
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            # cut off or overwritten: computed anew
            file.unlink(missing_ok=True)
    return False, None


def _write(file: Path, answer: Any) -> None:
    """Write an answer into the shared folder, whole or not at all."""
    draft = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    draft.write_bytes(pickle.dumps(answer))
    draft.replace(file)
    _thin(file.parent)


def _keep(key: str, answer: Any) -> None:
    """Keep an answer in memory, where the oldest go, and in the shared folder, which keeps as many of each as a meeting may need."""
    file = _file(key)
    if file is not None and not file.exists():
        _write(file, answer)
    with _guard:
        _answers[key] = answer
        _answers.move_to_end(key)
        while len(_answers) > KEPT:
            _answers.popitem(last=False)


def _thin(folder: Path) -> None:
    """Drop the oldest answers of a shared folder that a server fills for weeks."""
    files = sorted(folder.glob("*.pickle"), key=lambda file: file.stat().st_mtime if file.exists() else 0.0)
    for file in files[:-SHARED_MOST]:
        file.unlink(missing_ok=True)


def is_remembered(key: str) -> bool:
    """Tell whether an answer is at hand: in memory, or in the shared folder, from where it is fetched."""
    found, answer = _kept(key)
    if found:
        _keep(key, answer)
    return found


def hand_on(key: str, answer: Any) -> None:
    """Leave something to the other processes of a run; nothing where no folder is shared."""
    file = _file(key)
    if file is not None:
        _write(file, answer)


def handed_on(key: str) -> Any | None:
    """Return what another process of the run has left; None where none has."""
    return _read(_file(key))[1]


def forget() -> None:
    """Empty the memory."""
    with _guard:
        _answers.clear()


@contextmanager
def shared_answers() -> Iterator[Path]:
    """Give the folder in which the processes of a run share their answers: the one open already, or a new one while the block lasts."""
    if os.environ.get(SHARED):
        yield Path(os.environ[SHARED])
        return
    with scratch("capplan-answers-") as folder, environment(**{SHARED: str(folder)}):
        yield folder


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
