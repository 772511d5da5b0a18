"""Text of CSV cells that no spreadsheet runs: a live one stands behind an apostrophe, which reading takes off again."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

#: Spreadsheets run a cell that starts with one of these signs as a formula; one that is guarded already is guarded once more.
_LIVE = re.compile(r"'* *[=+\-@\t\r\n]")
#: With one of these it begins, and few texts do.
_FIRST = "' =+-@\t\r\n"


def inert(text: object) -> object:
    """Return text that no spreadsheet takes for a formula; other values pass.

    Examples:
        >>> inert("=HYPERLINK(1)"), inert("chat"), inert(-2.5)
        ("'=HYPERLINK(1)", 'chat', -2.5)
    """
    if isinstance(text, str) and text[:1] in _FIRST and _LIVE.match(text):
        return "'" + text
    return text


def active(text: object) -> object:
    """Return what an inert text stands for; other values pass.

    Examples:
        >>> active("'=HYPERLINK(1)"), active("'tis"), active("chat"), active(inert("'=1"))
        ('=HYPERLINK(1)', "'tis", 'chat', "'=1")
    """
    return text[1:] if isinstance(text, str) and text.startswith("'") and _LIVE.match(text) else text


def read_table(path: Path, **options: Any) -> pd.DataFrame:
    """Read a table that capplan wrote, with its texts as they were before they were made inert.

    Args:
        options: As of `pandas.read_csv`.

    Raises:
        OSError, ValueError: Where it cannot be read.
    """
    frame = pd.read_csv(path, **options)
    for place in range(len(frame.columns)):
        if pd.api.types.is_object_dtype(frame.dtypes.iloc[place]):
            frame.isetitem(place, frame.iloc[:, place].map(active))
    return frame.rename(columns=active)
