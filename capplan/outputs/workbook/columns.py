"""Declared columns of a table on a sheet: formulas name them, and nothing counts them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from capplan.errors import ReportError
from capplan.outputs.workbook.sheet import Sheet, address
from capplan.records import records
from capplan.text import heading, words
from capplan.units import is_quarter


@dataclass(frozen=True)
class Columns:
    """The columns of a table, from the first of the sheet on."""

    #: Name (by which formulas know it), heading and style of each, in the order in which they stand.
    declared: tuple[tuple[str, Any, str], ...]

    @cached_property
    def styles(self) -> list[str]:
        """Style of each column."""
        return [style for _, _, style in self.declared]

    @cached_property
    def _places(self) -> dict[str, int]:
        """Place of each column, counted from 0, by its name."""
        return {name: place for place, (name, _, _) in enumerate(self.declared)}

    def at(self, name: str) -> int:
        """Return the place of a column, counted from 0."""
        return self._places[name]

    def head(self, sheet: Sheet) -> int:
        """Write the headings and return the row below them."""
        return sheet.head([heading for _, heading, _ in self.declared], self.styles)

    def here(self, row: int, fixed: str = "") -> dict[str, str]:
        """Return the address of each column's cell in a row, by name; `fixed` as in `sheet.address`."""
        return {name: address(row, place, fixed) for name, place in self._places.items()}

    def block(self, name: str, first: int, last: int, fixed: str = "rc") -> str:
        """Return the reference of a column over some rows."""
        return f"{address(first, self.at(name), fixed)}:{address(last, self.at(name), fixed)}"

    def line(self, sheet: Sheet, row: int, names: Sequence[str]) -> str:
        """Return the reference, for other sheets, of neighbouring columns of a row."""
        return sheet.span(row, row, self.at(names[0]), self.at(names[-1]))

    def write(self, sheet: Sheet, **values: Any) -> None:
        """Write one row: a value by name of its column; a column that none is given for stays empty.

        Raises:
            ReportError: If a value is given for a column that is not declared.
        """
        self._written(sheet, values, self.styles)

    def write_total(self, sheet: Sheet, **values: Any) -> None:
        """Write the row of totals, as `write` does."""
        self._written(sheet, values, [f"{style}+total" for style in self.styles])

    def _written(self, sheet: Sheet, values: Mapping[str, Any], styles: Sequence[str]) -> None:
        if wrong := sorted(values.keys() - self._places.keys()):
            raise ReportError(f"the sheet {sheet.name} has no column {', '.join(wrong)}; please report it")
        sheet.rows([list(map(values.get, self._places))], styles)


def write_table(sheet: Sheet, frame: pd.DataFrame, currency: str) -> Columns:
    """Write a table of values as it is, its columns declared by their names, units and kinds; return them."""
    columns = Columns(tuple((str(name), heading(str(name), currency), _style_of(str(name), frame[name])) for name in frame.columns))
    columns.head(sheet)
    for row in records(frame):
        terms = {"term": words(row["term"])} if isinstance(row.get("term"), str) else {}
        columns.write(sheet, **{str(name): value for name, value in row.items()} | terms)
    return columns


def _style_of(name: str, column: pd.Series) -> str:
    """Return the style of a column of a table: by its name, its unit's ending, and its kind."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return "date"
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return "text"
    if name.endswith("_amount") or name == "amount":
        return "money"
    return "share" if name.endswith("_share") or is_quarter(name) else "decimal" if name.startswith("amount_per_") else "number"


def by_quarter(labels: Sequence[tuple[str, str]], quarters: Sequence[str], style: str) -> Columns:
    """Declare a table with a column for each quarter behind its labels (name, heading); a quarter's column has its name."""
    return Columns((*((name, heading, "text") for name, heading in labels), *((quarter, quarter, style) for quarter in quarters)))
