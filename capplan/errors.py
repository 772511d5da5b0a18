"""The errors capplan raises on purpose: one clear message, never a traceback for the reader of a plan."""

import difflib
import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class CapplanError(Exception):
    """Base of every error that is meant for the user of capplan."""

    def _render_traceback_(self) -> list[str]:
        """Stand in a notebook as one message: where in our code it was raised helps nobody who reads a plan."""
        return [f"{type(self).__name__}: {self}"]


@contextmanager
def named(what: str) -> Iterator[None]:
    """Put in front of an error what it is about, where its message does not say so.

    Examples:
        >>> with named("chat (services.csv)"):
        ...     raise CapplanError("no machine is fast enough")
        Traceback (most recent call last):
        ...
        capplan.errors.CapplanError: chat (services.csv): no machine is fast enough
    """
    try:
        yield
    except CapplanError as error:
        if str(error).startswith(what.partition(" ")[0]):
            raise
        raise CapplanError(f"{what}: {error}") from error


#: What to do about the usual refusals of a file system; {} is where else to write.
_REMEDIES = {
    errno.ENOSPC: "Make room, or {}.",
    errno.EDQUOT: "Your quota is used up: make room, or {}.",
    errno.EFBIG: "Files may not grow that large here: raise the limit, or {}.",
    errno.EROFS: "It is mounted read-only: {}.",
    errno.EACCES: "Ask for write access, or {}.",
    errno.EPERM: "Ask for write access, or {}.",
    errno.ENOTDIR: "A file stands where a folder is needed: {}.",
    errno.EISDIR: "A folder stands where a file is needed: move it away, or {}.",
    errno.EEXIST: "A file stands where a folder is needed: {}.",
    errno.ENAMETOOLONG: "The name is too long: {}.",
    errno.ELOOP: "A link leads back to itself: mend it, or {}.",
    errno.EIO: "The disk reports a fault: {}.",
}


@contextmanager
def refused(target: Path, elsewhere: str = "choose another place", kind: type[CapplanError] = CapplanError) -> Iterator[None]:
    """Turn a refusal of the file system into one message about what was to be written.

    Args:
        target: File or folder that was to be written.
        kind: Kind of the error that is raised.
    """
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0)
        if remedy is None:
            raise
        where = f" ({error.filename})" if error.filename and str(error.filename) != str(target) else ""
        said = f"{target} cannot be written{where}: {error.strerror}. {remedy.format(elsewhere)} What was there before is untouched."
        raise kind(said) from error


@contextmanager
def reachable() -> Iterator[None]:
    """Turn what the system says of a file or folder that cannot be reached into one message: its name is too long, a link has no end.

    Examples:
        >>> with reachable():
        ...     Path("a" * 300).stat()
        Traceback (most recent call last):
        ...
        capplan.errors.CapplanError: aaaa...: File name too long. The name is too long: name another place.
    """
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0)
        if remedy is None or error.filename is None:
            raise
        raise CapplanError(f"{shortened(error.filename)}: {error.strerror}. {remedy.format('name another place')}") from error


class ScenarioError(CapplanError):
    """An assumption is misspelt, out of bounds or contradicts another one."""


class MissingTableError(CapplanError):
    """A question needs a table that the book does not have."""


class SolveError(CapplanError):
    """The optimiser did not return a solution that can be used."""


class ReportError(CapplanError):
    """A headless run failed; the previous report is untouched."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a book.

    Args:
        file, row, column: Where: file name, line in the file as a spreadsheet counts it (the header is 1; 0 = the file as a whole), column
            name.
        value: What was found, as text.
        rule: What is allowed.
        remedy: What to do about it.
    """

    file: str
    row: int
    column: str
    value: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        """Return the fault as one line: where, what, what is allowed, what to do."""
        where = self.file + (f", row {self.row}" if self.row else "") + (f", column {shortened(self.column)}" if self.column else "")
        found = f": found {shortened(self.value)!r}" if self.value else ""
        return f"{where}{found}; {self.rule}{'' if self.rule.endswith('?') else '.'} {self.remedy}"


class BookError(CapplanError):
    """A book has faults; all of them are listed at once."""

    def __init__(self, faults: Sequence[Fault], shown: int = 40, where: str = "the book") -> None:
        """Collect the faults of `where` into one message; at most `shown` are printed, all are kept in `.faults`."""
        self.faults = tuple(faults)
        noun = "fault" if len(self.faults) == 1 else "faults"
        lines = [f"{len(self.faults)} {noun} in {where}:", *(f"  - {fault}" for fault in self.faults[:shown])]
        if len(self.faults) > shown:
            lines.append(f"  ... and {len(self.faults) - shown} more of the same kinds; mend these first and check again")
        super().__init__("\n".join(lines))


def shortened(text: object, most: int = 80) -> str:
    """Cut what came to a length a person reads; the middle goes.

    Examples:
        >>> shortened("a" * 1000, 9)
        'aaaa…aaaa'
    """
    whole = str(text)
    half = most // 2
    return whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Name the known words nearest to `word`, as a phrase for an error message.

    Examples:
        >>> nearest("risk_wieght", ["risk_weight", "seed"])
        'did you mean risk_weight?'
    """
    names = sorted(set(known))
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(name.casefold(), []).append(name)
    close = [name for match in difflib.get_close_matches(word.casefold(), folded, n=3, cutoff=0.5) for name in folded[match]]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


def suggestion(word: object, known: Iterable[str]) -> str:
    """Name the known words nearest to `word` in a sentence of its own; names in it keep their letters.

    Examples:
        >>> suggestion("MI300", ["MI300X", "H100"]), suggestion("tpu", ["MI300X", "H100"])
        ('Did you mean MI300X?', 'Known: H100, MI300X.')
    """
    said = nearest(str(word), known)
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith(('?', '...')) else '.'}"
