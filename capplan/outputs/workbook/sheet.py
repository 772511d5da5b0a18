"""A sheet of the workbook: cells that cannot become formulas by accident, formulas that carry their value, one look for all."""

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from capplan.errors import ReportError
from capplan.outputs.export.plain_workbook import LONGEST_TEXT

PAPER_A3, PAPER_A4 = 8, 9
#: Headings longer than this take two lines.
ONE_LINE = 15
#: Widest a column of text becomes, in characters.
WIDEST = 100
BLUE, INK, GREY, LINE, PAPER, INPUT = "#1f4e9c", "#1a1a1a", "#595959", "#bfbfbf", "#eef2f7", "#fff8dc"
#: Currencies have three capitals; other units are words.
MONEY_UNIT = re.compile("[A-Z]{3}")
#: Colours of series that keep their difference in grey print, dark to light.
SERIES = ("#1b3a5c", "#2f6f8f", "#5fa8a0", "#9ccb86", "#c9a227", "#d98b5f", "#b5b5b5", "#e3d9c6")
#: Functions that every spreadsheet program has long had.
OLD_FUNCTIONS = frozenset(
    {"ABS", "AND", "AVERAGE", "COUNTIF", "COUNTIFS", "DATE", "EDATE", "HYPERLINK", "IF", "MAX", "MIN", "OR", "SUM", "SUMIFS", "SUMPRODUCT"}
)
_FUNCTION = re.compile(r"([\w.]+)\(")


@dataclass(frozen=True)
class Formula:
    """A formula, and the value it has for the plan as it was made."""

    text: str  #: Formula with its equals sign; holds references and numbers, never text of a book.
    value: float | bool | str  #: Result, shown by programs that do not calculate.


def number_formats(currency: str) -> dict[str, str]:
    """Return the number formats of a workbook in a currency.

    Examples:
        >>> number_formats("USD")["money"], number_formats("EUR")["money"]
        ('$#,##0;[Red]-$#,##0;"–"', '#,##0 "EUR";[Red]-#,##0 "EUR";"–"')
    """
    usd = '$#,##0;[Red]-$#,##0;"–"'
    other = f'#,##0 "{currency}";[Red]-#,##0 "{currency}";"–"'
    return {
        "money": usd if currency == "USD" else other,
        "usd": usd,
        "price": "$#,##0.0000",
        "cents": "$#,##0.00",
        "money_cents": "$#,##0.00" if currency == "USD" else f'#,##0.00 "{currency}"',
        "number": "#,##0",
        "decimal": "#,##0.00",
        "factor": "0.000",
        "rate": "0.0000",
        "share": "0.0%",
        "date": "yyyy-mm-dd",
        "month": "mmm yyyy",
        "key": "0",
        "text": "@",
        "flag": "General",
        "plain": "General",
    }


_WIDTHS = {
    "money": 14,
    "usd": 13,
    "price": 13,
    "cents": 13,
    "money_cents": 13,
    "number": 13,
    "decimal": 12,
    "factor": 9,
    "rate": 9,
    "share": 9,
    "date": 11,
    "month": 10,
}


class Styles:
    """Formats of a workbook, made when first used."""

    def __init__(self, workbook: Any, currency: str) -> None:
        self._workbook, self._numbers = workbook, number_formats(currency)
        self._made: dict[str, tuple[Any, float]] = {}

    def __call__(self, name: str) -> Any:
        """Return a format: a number format (`+input`, `+total`, `+key`, `+wrap`), or title, headline, note, head or section."""
        return self.look(name)[0]

    def look(self, name: str) -> tuple[Any, float]:
        """Return a format, and how wide a column is that has cells in it."""
        if name not in self._made:
            self._made[name] = (self._workbook.add_format(self._properties(name)), _WIDTHS.get(name.split("+", maxsplit=1)[0], 6))
        return self._made[name]

    def _properties(self, name: str) -> dict[str, Any]:
        base: dict[str, Any] = {"font_name": "Calibri", "font_size": 10, "font_color": INK, "valign": "top"}
        special: dict[str, dict[str, Any]] = {
            "title": {"font_size": 16, "bold": True, "font_color": BLUE},
            "headline": {"font_size": 12, "bold": True, "text_wrap": True},
            "note": {"font_color": GREY, "italic": True, "text_wrap": True},
            "section": {"font_size": 12, "bold": True, "font_color": BLUE},
            "head": {
                "bold": True,
                "bg_color": PAPER,
                "bottom": 1,
                "bottom_color": LINE,
                "text_wrap": True,
                "valign": "vcenter",
                "indent": 1,
            },
            "head_number": {
                "bold": True,
                "bg_color": PAPER,
                "bottom": 1,
                "bottom_color": LINE,
                "text_wrap": True,
                "align": "right",
                "valign": "vcenter",
            },
            "head_month": {"bold": True, "bg_color": PAPER, "bottom": 1, "bottom_color": LINE, "align": "right", "num_format": "mmm yyyy"},
        }
        if name in special:
            return {**base, **special[name]}
        kind, *extras = name.split("+")
        more: dict[str, dict[str, Any]] = {
            "input": {"font_color": "#0000ff", "bg_color": INPUT, "border": 1, "border_color": LINE, "locked": False},
            "total": {"bold": True, "top": 1},
            "key": {"font_color": GREY},
            "wrap": {"text_wrap": True},
        }
        found = {**base, "num_format": self._numbers[kind]}
        if kind in ("date", "flag", "text", "key"):
            found |= {"align": "left", "indent": 1}
        for extra in extras:
            found |= more[extra]
        return found


@cache
def _sheet_class() -> type:
    """Return XlsxWriter's sheet, which searches each formula thirty times for functions of newer programs: not where all are old ones."""
    from xlsxwriter.worksheet import Worksheet

    class OldFunctions(Worksheet):
        def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> Any:
            if formula.startswith("=") and OLD_FUNCTIONS.issuperset(_FUNCTION.findall(formula)):
                return formula[1:]
            return super()._prepare_formula(formula, expand_future_functions)

    return OldFunctions


class Sheet:
    """One sheet, written cell by cell; rows and columns count from 0."""

    def __init__(self, workbook: Any, styles: Styles, name: str) -> None:
        self.name, self.styles, self.row = name, styles, 0
        self.sheet, self._workbook = workbook.add_worksheet(name, worksheet_class=_sheet_class()), workbook
        self._widths: dict[int, float] = {}

    def put(self, row: int, col: int, value: Any, style: str = "text") -> None:
        """Write a value by its kind; text is written as text, whatever it looks like."""
        form, shown = self.styles.look(style)
        if isinstance(value, str):
            self.sheet.write_string(row, col, value[:LONGEST_TEXT], form)
            shown = 0 if "wrap" in style or style in ("title", "headline", "note", "section") else min(len(value), WIDEST) + 2
            if style.startswith("head"):
                shown = min(max([len(word) for word in value.split()] or [0]) + 3, WIDEST)
        elif isinstance(value, Formula):
            if isinstance(value.value, float) and not math.isfinite(value.value):
                raise ReportError(
                    f"the workbook has no number for {self.name}, cell {address(row, col, '')} ({value.text}); please report it"
                )
            self.sheet.write_formula(row, col, value.text, form, value.value)
        elif isinstance(value, bool):
            self.sheet.write_boolean(row, col, value, form)
        elif value is None or value is pd.NaT or (isinstance(value, float) and not math.isfinite(value)):
            self.sheet.write_blank(row, col, None, form)
        elif isinstance(value, (pd.Timestamp, dt.date)):
            self.sheet.write_datetime(row, col, pd.Timestamp(value).to_pydatetime(), form)
        else:
            self.sheet.write_number(row, col, float(value), form)
        self._widths[col] = max(self._widths.get(col, 6), shown)

    def title(self, text: str, *notes: str, across: int = 8) -> None:
        """Begin the sheet: its title, and what the reader must know."""
        self.put(0, 0, text, "title")
        self.sheet.set_row(0, 24)
        self.row = 1
        for note in notes:
            self.note(note, across)
        self.row += 1

    def note(self, text: str, across: int = 8, style: str = "note", characters: int = 110) -> None:
        """Write a sentence across some columns, in as many lines as it needs."""
        self.sheet.merge_range(self.row, 0, self.row, across - 1, "", self.styles(style))
        self.sheet.write_string(self.row, 0, text[:LONGEST_TEXT], self.styles(style))
        self.sheet.set_row(self.row, 15 * math.ceil(max(len(text), 1) / characters))
        self.row += 1

    def section(self, text: str) -> None:
        """Begin a part of the sheet."""
        self.put(self.row, 0, text, "section")
        self.row += 1

    def head(self, headings: Sequence[Any], styles: Sequence[str]) -> int:
        """Write the headings of a table and return the row below them."""
        tall = [
            len(text_of)
            for text_of, style in zip(headings, styles, strict=True)
            if isinstance(text_of, str) and not style.startswith("text")
        ]
        if max(tall, default=0) > ONE_LINE:
            self.sheet.set_row(self.row, 15 * min(3, math.ceil(max(tall) / (ONE_LINE - 3))))
        for col, (text_of, style) in enumerate(zip(headings, styles, strict=True)):
            kind = (
                "head_month"
                if isinstance(text_of, pd.Timestamp)
                else "head"
                if style.startswith(("text", "key", "flag", "date", "month"))
                else "head_number"
            )
            self.put(self.row, col, text_of, kind)
        self.row += 1
        return self.row

    def rows(self, rows: Sequence[Sequence[Any]], styles: Sequence[str]) -> None:
        """Write the rows of a table."""
        for values in rows:
            for col, (value, style) in enumerate(zip(values, styles, strict=True)):
                self.put(self.row, col, value, style)
            self.row += 1

    def wrapped(self, row: int, first: int, last: int, text: str, characters: int) -> None:
        """Write text over some columns of a row, which becomes as high as the text needs."""
        self.sheet.merge_range(row, first, row, last, "", self.styles("text+wrap"))
        self.sheet.write_string(row, first, text[:LONGEST_TEXT], self.styles("text+wrap"))
        if len(text) > characters:
            self.sheet.set_row(row, 15 * math.ceil(len(text) / characters))

    def print_to(self, row: int, last_col: int) -> None:
        """Print rows up to this one only: what follows is looked up on the screen."""
        self.sheet.print_area(0, 0, row, last_col)

    def not_negative(self, first: int, last: int, col: int) -> None:
        """Let a person type only numbers of 0 or more into some cells."""
        rule = {
            "validate": "decimal",
            "criteria": ">=",
            "value": 0,
            "error_title": "Not a value",
            "error_message": "Give a number of 0 or more.",
        }
        self.sheet.data_validation(first, col, last, col, rule)

    def cell(self, row: int, col: int, fixed: str = "rc") -> str:
        """Return the reference of a cell of this sheet for formulas of others, e.g. 'P&L'!$A$1."""
        return f"{self.quoted}!{address(row, col, fixed)}"

    def span(self, first: int, last: int, col: int, last_col: int | None = None) -> str:
        """Return the reference of a block of cells."""
        return f"{self.cell(first, col)}:{address(last, col if last_col is None else last_col)}"

    @property
    def quoted(self) -> str:
        """The sheet's name as formulas need it."""
        return self.name if self.name.isalnum() else "'" + self.name.replace("'", "''") + "'"

    def named(self, name: str, row: int, col: int) -> None:
        """Name a cell."""
        self._workbook.define_name(name, f"={self.cell(row, col)}")

    def finish(
        self,
        head_row: int | None = None,
        frozen_columns: int = 0,
        wide: bool = False,
        pages: int = 1,
        widths: Mapping[int, float] | None = None,
    ) -> None:
        """Set widths, frozen panes and print: landscape, as wide as the page, the table's heading on every page."""
        for col in {*self._widths, *(widths or {})}:
            self.sheet.set_column(col, col, max(self._widths.get(col, 0), (widths or {}).get(col, 0)))
        if head_row is not None:
            self.sheet.freeze_panes(head_row + 1, frozen_columns)
            self.sheet.repeat_rows(head_row)
        self.sheet.set_landscape()
        self.sheet.set_paper(PAPER_A3 if wide else PAPER_A4)
        self.sheet.fit_to_pages(pages, 0)
        if pages > 1:
            self.sheet.repeat_columns(0, frozen_columns - 1)
        self.sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
        self.sheet.set_footer("&L&A&RPage &P of &N")
        self.sheet.hide_gridlines(2)


def address(row: int, col: int, fixed: str = "rc") -> str:
    """Return the address of a cell; `fixed` says whether row and column are absolute.

    Examples:
        >>> address(0, 0), address(4, 27, "c"), address(4, 2, "")
        ('$A$1', '$AB5', 'C5')
    """
    return f"{'$' if 'c' in fixed else ''}{letters(col)}{'$' if 'r' in fixed else ''}{row + 1}"


@cache
def letters(col: int) -> str:
    """Return the letters of a column."""
    before, place = divmod(col, 26)
    return (letters(before - 1) if before else "") + chr(65 + place)


def stacked_chart(workbook: Any, sheet: Sheet, title: str, head: int, rows: Sequence[int], cols: tuple[int, int], unit: str) -> Any:
    """Return stacked columns of a block: one series a row, one column a category.

    Args:
        rows: Rows of the series; their names stand in the first column.
        cols: First and last column of the values.
    """
    chart = workbook.add_chart({"type": "column", "subtype": "stacked"})
    for step, row in enumerate(rows):
        chart.add_series(series_of(sheet, head, row, cols) | {"fill": {"color": SERIES[step % len(SERIES)]}, "gap": 60})
    return dressed(chart, title, unit)


def series_of(sheet: Sheet, head: int, row: int, cols: tuple[int, int]) -> dict[str, Any]:
    """Return what a series shows: a row of a block, its name from the first column."""
    return {
        "name": [sheet.name, row, 0],
        "categories": [sheet.name, head, cols[0], head, cols[1]],
        "values": [sheet.name, row, cols[0], row, cols[1]],
    }


def dressed(chart: Any, title: str, unit: str) -> Any:
    """Give a chart its title, axes and size."""
    axis = {"USD": '$#,##0.0,,"M"'}.get(unit, '#,##0.0,,"M"' if MONEY_UNIT.fullmatch(unit) else "#,##0")
    chart.set_title({"name": title, "name_font": {"size": 12, "bold": True}, "overlay": False})
    chart.set_y_axis({"name": unit, "num_format": axis, "major_gridlines": {"visible": True, "line": {"color": "#d9d9d9"}}})
    chart.set_x_axis({"num_font": {"rotation": 0}})
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 620, "height": 330})
    return chart
