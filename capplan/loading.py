"""Libraries loaded when they are first used, and without what nothing here needs of them: seconds of imports."""

import sys
from functools import cache
from importlib import import_module
from typing import Any

#: jsonschema imports grammars for the formats of addresses, which no chart and no notebook has; building them takes longer
#: than all of Altair.
_ADDRESSES = ("rfc3987_syntax", "rfc3986_validator")
#: Library -> what it imports where that is installed, and does without where it is not.
_UNUSED = {"statsforecast.models": ("dask.dataframe", "formulaic")}


@cache
def quickly(name: str) -> Any:
    """Return a module (altair, nbformat, papermill, statsforecast.models) without the parts that take long to load and are not used.

    Examples:
        >>> quickly("nbformat").__name__
        'nbformat'
    """
    hidden = [part for part in _UNUSED.get(name, _ADDRESSES) if part not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        return import_module(name)
    finally:
        for part in hidden:
            del sys.modules[part]
