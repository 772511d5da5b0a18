"""XlsxWriter's sheet without what takes most of its time on a hundred thousand cells; the file is the same to the byte."""

import re
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

#: Functions that every spreadsheet program has long had.
OLD_FUNCTIONS = frozenset(
    {"ABS", "AND", "AVERAGE", "COUNTIF", "COUNTIFS", "DATE", "EDATE", "HYPERLINK", "IF", "MAX", "MIN", "OR", "SUM", "SUMIFS", "SUMPRODUCT"}
)
_FUNCTION = re.compile(r"([\w.]+)\(")
#: No text so short is longer than a cell takes, in whatever signs.
SHORT = 16383


@dataclass(frozen=True)
class Formula:
    """A formula, and the value it has for the plan as it was made."""

    text: str  #: Formula with its equals sign; holds references and numbers, never text of a book.
    value: float | bool | str  #: Result, shown by programs that do not calculate.


def _of_old_functions(formula: str) -> bool:
    """Say whether a formula holds none but old functions."""
    return formula.startswith("=") and OLD_FUNCTIONS.issuperset(_FUNCTION.findall(formula))


@cache
def column_letters(col: int) -> str:
    """Return the letters of a column, counted from 0.

    Examples:
        >>> column_letters(0), column_letters(27)
        ('A', 'AB')
    """
    letters, rest = "", col + 1
    while rest:
        rest, place = divmod(rest - 1, 26)
        letters = chr(65 + place) + letters
    return letters


@cache
def quick_sheet() -> type:
    """Return a sheet that knows formulas of old functions, which XlsxWriter searches thirty times each for newer ones, and plain cells.

    Plain are numbers, days, texts, blanks, and formulas with a number for their value, all with a format.
    """
    from xlsxwriter.worksheet import CellBlankTuple, CellFormulaTuple, CellNumberTuple, CellStringTuple, Worksheet

    class QuickSheet(Worksheet):
        def write_plain(self, row: int, col: int, value: Any, form: Any) -> bool:
            """Write a number, a text, a blank or a formula with a number, and return True; or return False where it is something else."""
            if self.constant_memory or self._check_dimensions(row, col):
                return False
            kind, cell = type(value), None
            if kind is str:
                if len(value) <= SHORT:
                    cell = CellStringTuple(self.str_table._get_shared_string_index(value), form)
            elif kind is float or kind is int:
                if isfinite(value):
                    cell = CellNumberTuple(float(value), form)
            elif value is None and form:
                cell = CellBlankTuple(form)
            elif kind is Formula and type(value.value) is float and isfinite(value.value) and _of_old_functions(value.text):
                cell = CellFormulaTuple(value.text[1:], form, value.value)
            if cell is None:
                return False
            self.table[row][col] = cell
            return True

        def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> Any:
            return formula[1:] if _of_old_functions(formula) else super()._prepare_formula(formula, expand_future_functions)

        def _write_cell(self, row: int, col: int, cell: Any) -> None:
            kind = type(cell).__name__
            inside = _INSIDE[kind](cell) if kind in _INSIDE and cell.format and not self.constant_memory else None
            if inside is None:
                super()._write_cell(row, col, cell)
            else:
                self.fh.write(f'<c r="{column_letters(col)}{row + 1}" s="{cell.format._get_xf_index()}"{inside}')

    return QuickSheet


def _formula(cell: Any) -> str | None:
    """Return the inside of a cell with a formula and a number; None for other values."""
    if type(cell.value) is not float:
        return None
    text = cell.formula
    if "&" in text or "<" in text or ">" in text:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"><f>{text}</f><v>{cell.value}</v></c>"


def _number(cell: Any) -> str:
    """Return the inside of a cell with a number or a day."""
    return f"><v>{cell.number:.16G}</v></c>"


#: Kind of a cell -> what stands behind its place and its format.
_INSIDE = {
    "Number": _number,
    "Datetime": _number,
    "String": lambda cell: f' t="s"><v>{cell.string}</v></c>',
    "Formula": _formula,
    "Blank": lambda _: "/>",
}
