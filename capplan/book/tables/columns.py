"""How a table is declared: one pandera field a column, with its meaning, unit, default and reference."""

import sys
from typing import Any

import pandera.pandas as pa


def _without_dask() -> None:
    """Let pandera find its types of tables without loading dask, which it would only want to tell dask's tables from pandas'."""
    absent = "dask.dataframe" not in sys.modules
    if absent:
        sys.modules["dask.dataframe"] = None  # type: ignore[assignment]
    try:
        from pandera.typing import get_index_types, get_series_types

        get_index_types()
        get_series_types()
    finally:
        if absent:
            del sys.modules["dask.dataframe"]


_without_dask()

#: Types a column may have, as the annotation of a table class and as words for a reader.
KINDS = {"str": "text", "float64": "a number", "int64": "a whole number", "bool": "true or false", "datetime64[ns]": "a date"}


def column(
    meaning: str,
    *,
    unit: str = "",
    optional: bool = False,
    default: object = None,
    refers: str | None = None,
    key: bool = False,
    instant: bool = False,
    **checks: Any,
) -> Any:
    """Declare a column of a table.

    Args:
        meaning: What the column says, for the dictionary and for error messages.
        unit: Unit of the values; a name with a unit suffix need not repeat it.
        optional: May the column be absent or a cell be empty? It then stays empty.
        default: Value of an empty cell; a column that has one is optional.
        refers: "table.column" that every value must occur in.
        key: Is the column part of the table's key? Keys are unique together.
        instant: Is a time of day allowed (an instant in UTC), or only a date?
        **checks: pandera's own checks: ge, gt, le, lt, isin, str_matches.
    """
    optional = optional or default is not None
    metadata = {"unit": unit, "optional": optional, "default": default, "refers": refers, "key": key, "instant": instant}
    return pa.Field(description=meaning, nullable=optional and default is None, metadata=metadata, **checks)


class Table(pa.DataFrameModel):
    """Base of all tables: no unknown columns, no silent conversion."""

    class Config:
        """Unknown columns are an error; the book's reader has converted the types already."""

        strict = True
        coerce = False


def order_rule(earlier: str, later: str) -> Any:
    """Return a pandera check that `earlier` never lies after `later` (empty cells pass)."""

    def check(cls: type, frame: Any) -> Any:
        return ~(frame[earlier] > frame[later])

    check.__name__ = f"{earlier} must not lie after {later}"
    return pa.dataframe_check(check)
