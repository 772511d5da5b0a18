"""One gate for files that somebody else wrote: what is let in as text, and what is refused before anything is parsed."""

import os
import re
import stat
import unicodedata
from pathlib import Path

from capplan.errors import Fault

#: A larger file is refused unless the book raises the limit (`most_megabytes` in book.yaml): it would not fit beside its own table in
#: memory.
MOST_MEGABYTES = 2_000
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
#: Characters that nobody sees and that make two names out of one: controls but tab and line ends, zero-width marks, directions.
UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def read_text(path: Path, folder: Path | None = None, most_megabytes: float = MOST_MEGABYTES) -> tuple[str, list[Fault]]:
    """Read a text file, or say why it is none.

    Args:
        folder: Folder out of which no link may lead; None = the file's own.

    Returns:
        text: Its content, with line ends as newlines; empty where it is refused.
        faults: Why it is refused: no regular file, a link that leads elsewhere, too large, NUL bytes, not UTF-8.
    """

    def refused(rule: str, remedy: str, row: int = 0, found: str = "") -> tuple[str, list[Fault]]:
        return "", [Fault(path.name, row, "", found, rule, remedy)]

    inside = (folder or path.parent).resolve()
    try:
        target = path.resolve(strict=True)
        if path.is_symlink() and not target.is_relative_to(inside):
            return refused("it is a link that leads out of the book", "Copy the file into the book.")
        about = target.stat()
        kind = next((name for is_kind, name in _KINDS if is_kind(about.st_mode)), None)
        if kind:
            return refused(f"it is {kind}, not a file", "Put a file of this name in its place, or rename it.")
        if about.st_size > most_megabytes * 1e6:
            return refused(
                f"it has {about.st_size / 1e6:,.0f} MB; at most {most_megabytes:,.0f} MB are read",
                "Take coarser rows, or raise the limit with `most_megabytes: ...` in book.yaml.",
            )
        raw = target.read_bytes()
    except (OSError, RuntimeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "the link leads back to itself"
        return refused(f"it cannot be read: {reason}", "Check the file, its link and its permissions.")
    if b"\0" in raw:
        row = raw[: raw.index(b"\0")].count(b"\n") + 1
        return refused("a NUL byte stands in the file, so it is no text or was cut while it was written", "Export it again.", row)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = raw[: error.start].count(b"\n") + 1
        return refused("the file must be UTF-8", "Save it as 'CSV UTF-8'.", row, repr(raw[error.start : error.start + 4]))
    return text.replace("\r\n", "\n").replace("\r", "\n"), []


def composed(text: str) -> str:
    """Write letters with their marks as one character each (Unicode NFC), so that one name has one form."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Tell a book's files as they lie on disk from those of another moment."""
    if not folder.is_dir():
        return ()
    files = [(path.name, path.lstat()) for path in sorted(folder.iterdir()) if path.suffix in (".csv", ".yaml")]
    return tuple((name, about.st_mtime_ns, about.st_size) for name, about in files)
