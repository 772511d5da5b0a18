"""How a table is declared: one pandera field a column, with its meaning, unit, default and reference."""

import sys
from importlib import import_module
from typing import Any

import pandera.pandas as pa

#: What pandera would load to tell dask's tables from pandas', and to draw examples for tests; neither is done here.
_NOT_NEEDED = ("dask.dataframe", "hypothesis")


def _without_what_only_others_need() -> None:
    """Let pandera load its types of tables and its checks, and nothing more."""
    absent = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        import_module("pandera.backends.pandas.builtin_checks")
        from pandera.typing import get_index_types, get_series_types

        get_index_types()
        get_series_types()
    finally:
        for name in absent:
            del sys.modules[name]


_without_what_only_others_need()

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
