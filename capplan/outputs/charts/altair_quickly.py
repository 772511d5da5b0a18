"""Altair, loaded when the first picture is drawn."""

from typing import Any

from capplan.loading import quickly


class _Altair:
    """Stands for Altair until one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(quickly("altair"), name)


alt: Any = _Altair()
