"""Libraries loaded when they are first used, and without what nothing here needs of them: seconds of imports."""

import atexit
import gc
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

#: New objects after which a run looks for what only refers to itself, and how many such looks come before a look at all there is: a run
#: ends soon, so the hundreds of looks that the interpreter would take while libraries load are not worth their time.
LOOKS = (50_000, 20, 50)
#: What libraries import where it is installed, and do without where it is not. jsonschema imports grammars for the formats of addresses
#: and durations, which no chart and no notebook has; building them takes longer than all of Altair. Altair loads widgets for charts that
#: answer to a pointer, and numba a parser of C and what measures tests.
_UNUSED = (
    "rfc3987_syntax",
    "rfc3986_validator",
    "isoduration",
    "dask.dataframe",
    "formulaic",
    "webcolors",
    "anywidget",
    "cffi",
    "coverage",
)
_STATISTICS = (
    "numba",
    "scipy.signal",
    "scipy.stats",
    "statsforecast.core",
    "statsforecast.distributed.fugue",
    "statsmodels.api",
    "statsmodels.tsa.seasonal",
    "statsmodels.tsa.stattools",
)
#: Library -> what it imports at its start and few of its functions use, or none: loaded when one does.
_LATER = {
    "papermill": ("requests",),
    "statsforecast.models": _STATISTICS,
    "statsmodels.regression.linear_model": _STATISTICS,
    "statsmodels.tsa.stattools": _STATISTICS,
}
#: Name of a module that brings everything -> the module that it has it from.
_HOMES = {"statsmodels.api.OLS": "statsmodels.regression.linear_model"}


class _Name:
    """Stands for a name of a module that is not loaded yet, until it is called or asked for something."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = _HOMES.get(f"{module}.{name}", module), name

    def _found(self) -> Any:
        if isinstance(sys.modules.get(self._module), _Module):
            del sys.modules[self._module]
        return getattr(quickly(self._module), self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._found()(*args, **options)


class _Module(ModuleType):
    """Stands for a module that is not loaded yet."""

    def __getattr__(self, name: str) -> Any:
        return _Name(self.__name__, name)


@cache
def quickly(name: str) -> Any:
    """Return a module (altair, nbformat, numba, papermill, statsforecast.models) without the parts that take long to load and are not used.

    Parts that some of its functions need are loaded when one of these is called.

    Examples:
        >>> quickly("nbformat").__name__
        'nbformat'
    """
    hidden: dict[str, Any] = {part: None for part in _UNUSED if part not in sys.modules}
    hidden |= {part: _Module(part) for part in _LATER.get(name, ()) if part not in sys.modules and part != name}
    sys.modules.update(hidden)
    try:
        return import_module(name)
    finally:
        for part, stand_in in hidden.items():
            if sys.modules.get(part) is stand_in:
                sys.modules.pop(part, None)


def look_rarely() -> None:
    """Let this process look rarely for what only refers to itself: for runs that end soon, not for one in which a person works.

    And not once more at its end, when all of it goes anyway: a plan's tables and libraries are the better part of a second.
    """
    gc.set_threshold(*LOOKS)
    atexit.register(gc.freeze)
