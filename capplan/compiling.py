"""How numerical code is compiled: once for the types it is given, and kept between runs in a folder of the user's own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from capplan.loading import quickly
from capplan.private import make_private

#: numba's own types do not know all of its options.
numba: Any = quickly("numba")
#: Types of arguments, for declaring what a function takes.
types: Any = numba.types


@cache
def kept_in(sources: Path) -> Path | None:
    """Return the private folder that keeps compiled code of a package, or None where none can be written.

    Compiled code calls other compiled code, so what is kept holds for all sources of the package together: the folder is named after their
    content.
    The package's own folder is never written to; it may belong to somebody else.
    """
    content = b"".join(file.name.encode() + b"\0" + file.read_bytes() for file in sorted(sources.glob("*.py")))
    try:
        root = Path(os.environ.get("CAPPLAN_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capplan")
        folder = root / "compiled" / hashlib.sha256(content).hexdigest()[:16]
        # what lies there is loaded as code
        private = all(make_private(place) for place in (root, folder.parent, folder))
        return folder if private and os.access(folder, os.W_OK | os.X_OK) else None
    except (OSError, RuntimeError):
        return None


class KeptByContent:
    """Tells numba where to keep a function: in the folder named after its sources, so that copies of them share what was compiled.

    Numba's own place is named after the path, and each copy of the same sources (a wheel, another checkout) would be compiled again.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._folder: str = numba.config.CACHE_DIR
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> KeptByContent:
        """Make one for a function."""
        return cls(function)

    def ensure_cache_path(self) -> None:
        """Make the folder, should it have been deleted."""
        make_private(Path(self._folder))

    def get_cache_path(self) -> str:
        """Return the folder."""
        return self._folder

    def get_source_stamp(self) -> str:
        """Return what changes with the sources: the name of the folder."""
        return Path(self._folder).name

    def get_disambiguator(self) -> str:
        """Keep functions of one name apart."""
        return str(self._line)


def compiled(*arguments: Any, source: str, entry: bool = False, inside: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for one list of argument types, when its module is imported.

    Stated types keep numba from compiling it again for every constant it is called with; only an entry can be called from Python.
    Compiled functions make no arrays, so that references need not be counted: that is most of the time of a short call.

    Args:
        source: File of the module (`__file__`).
        inside: Is it always made part of its caller? For functions called from one place, since a call copies all that it is given.
    """
    folder = kept_in(Path(source).parent)

    def compile_it(function: Callable[..., Any]) -> Callable[..., Any]:
        make = numba.njit(
            arguments,
            cache=folder is not None,
            no_cpython_wrapper=not entry,
            no_cfunc_wrapper=True,
            error_model="numpy",
            forceinline=inside,
            _nrt=False,
        )
        before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = str(folder or ""), f"{__name__}.{KeptByContent.__name__}"
        try:
            return _made(make, function, folder)
        finally:
            numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before

    return compile_it


def _made(make: Callable[..., Any], function: Callable[..., Any], folder: Path | None) -> Callable[..., Any]:
    """Compile a function, or load it; what is kept of it and cannot be loaded, cut off or overwritten, is dropped and made anew."""
    kept = list(folder.rglob(f"*{function.__name__}-{function.__code__.co_firstlineno}.*.nb?")) if folder else []
    try:
        made: Callable[..., Any] = make(function)
    except Exception:
        if not kept:
            raise
        for file in kept:
            file.unlink(missing_ok=True)
        made = make(function)
    return made
