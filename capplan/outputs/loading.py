"""Libraries that check JSON against a schema, loaded when they are first used and without seconds that nothing here needs."""

import sys
from functools import cache
from importlib import import_module
from typing import Any

#: jsonschema imports it for the format of international addresses, which no chart and no notebook has; building its grammar takes longer
#: than all of Altair.
_SLOW = "rfc3987_syntax"


@cache
def quickly(name: str) -> Any:
    """Return a module that checks JSON (altair, nbformat, papermill), without the grammar of addresses.

    Examples:
        >>> quickly("nbformat").__name__
        'nbformat'
    """
    before = sys.modules.get(_SLOW)
    if before is None:
        sys.modules[_SLOW] = None  # type: ignore[assignment]
    try:
        return import_module(name)
    finally:
        if before is None:
            del sys.modules[_SLOW]
