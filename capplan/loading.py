"""Libraries loaded when they are first used, and without what nothing here needs of them: seconds of imports."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

#: What libraries import where it is installed, and do without where it is not. jsonschema imports grammars for the formats of addresses,
#: which no chart and no notebook has; building them takes longer than all of Altair.
_UNUSED = ("rfc3987_syntax", "rfc3986_validator", "dask.dataframe", "formulaic")
#: Library -> what it imports at its start and few of its parts use: loaded when one of them does.
_LATER: Mapping[str, tuple[str, ...]] = {
    "statsforecast.models": (
        "numba",
        "scipy.signal",
        "scipy.stats",
        "statsforecast.core",
        "statsforecast.distributed.fugue",
        "statsmodels.api",
        "statsmodels.tsa.seasonal",
        "statsmodels.tsa.stattools",
    )
}


class _Name:
    """Stands for a name of a module that is not loaded yet, until it is called or asked for something."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def _found(self) -> Any:
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
    """Return a module (altair, nbformat, papermill, statsforecast.models) without the parts that take long to load and are not used.

    Parts that some of its functions need are loaded when one of these is called.

    Examples:
        >>> quickly("nbformat").__name__
        'nbformat'
    """
    stand_ins: dict[str, ModuleType | None] = dict.fromkeys(_UNUSED)
    stand_ins |= {part: _Module(part) for part in _LATER.get(name, ())}
    hidden = {part: stand_in for part, stand_in in stand_ins.items() if part not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        return import_module(name)
    finally:
        for part in hidden:
            del sys.modules[part]
