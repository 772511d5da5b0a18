"""Tables without rows, and columns without cells."""

from functools import cache

import pandas as pd

from capplan.book.tables.registry import Column, columns_of


def empty_table(table: str) -> pd.DataFrame:
    """Return the table without rows, with the right columns and types."""
    return _empty(table).copy()


@cache
def _empty(table: str) -> pd.DataFrame:
    return pd.DataFrame({column.name: pd.Series(dtype="object" if column.kind == "str" else column.kind) for column in columns_of(table)})


def left_out(column: Column, rows: pd.Index) -> pd.Series:
    """Return an optional column that a file does not have, as one whose cells are all empty."""
    if column.default is not None or column.kind == "str":
        return pd.Series([column.default] * len(rows), index=rows, dtype=object)
    return pd.Series(index=rows, dtype="float64" if column.kind in ("int64", "bool") else column.kind)
