"""Rows of a table as plain values, and lists of names."""

from typing import Any

import pandas as pd


def records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return each row as a dict of plain values by column, as `frame.to_dict("records")` does, many times faster on small tables.

    Examples:
        >>> records(pd.DataFrame({"offer_id": ["a", "b"], "machines": [1, 2]}))
        [{'offer_id': 'a', 'machines': 1}, {'offer_id': 'b', 'machines': 2}]
    """
    names = list(frame.columns)
    return [dict(zip(names, row, strict=True)) for row in frame.to_numpy(dtype=object).tolist()]


def word_list(text: str) -> tuple[str, ...]:
    """Return names that are declared one after the other.

    Examples:
        >>> word_list("offer_id machines")
        ('offer_id', 'machines')
    """
    return tuple(text.split())
