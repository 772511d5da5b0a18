"""The book a notebook works on, read once by a run that starts the notebook, and not again by its kernel."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from capplan.answers.store import hand_on, handed_on
from capplan.book.book import Book, load_book
from capplan.book.gate import stamp
from capplan.book.places import shipped


def open_book(path: str | Path | None = None) -> Book:
    """Load the book a notebook works on: the one named, else the one `capplan lab` was given, else the example."""
    folder = Path(path or os.environ.get("CAPPLAN_BOOK") or shipped("data") / "enterprise")
    found = handed_on(_key(folder))
    return load_book(folder) if found is None else found


def leave_open(book: Book) -> None:
    """Leave a book, as it was read, to the notebooks of this run."""
    hand_on(_key(book.path), replace(book, path=book.path.resolve()))


def _key(folder: Path) -> str:
    """Name a book by its place and by its files as they lie there."""
    return f"book-{hashlib.sha256(repr((str(folder.resolve()), stamp(folder))).encode()).hexdigest()[:24]}"
