"""Altair without the seconds that its validator takes to build a grammar no chart needs."""

import sys

#: jsonschema imports it for the format of international addresses, which no chart has; building its grammar takes longer than all of
#: Altair.
_SLOW = "rfc3987_syntax"

_before = sys.modules.get(_SLOW)
if _before is None:
    sys.modules[_SLOW] = None  # type: ignore[assignment]
import altair as alt  # noqa: E402

if _before is None:
    del sys.modules[_SLOW]

__all__ = ["alt"]
