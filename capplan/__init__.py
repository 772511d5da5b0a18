"""capplan: capacity planning and economics of AI infrastructure, from an uncertain forecast to a dated purchase plan."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> module; loaded on first use, so that `import capplan` is quick.
_PUBLIC = {
    "load_book": "capplan.inputs.book",
    "Book": "capplan.inputs.book",
    "Scenario": "capplan.inputs.scenario",
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'capplan' has no attribute {name!r}")
