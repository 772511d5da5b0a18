"""The quick sheet beside XlsxWriter's own: the same file, to the byte."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import xlsxwriter
from xlsxwriter.worksheet import Worksheet

from capplan.outputs.workbook.quick_sheet import Formula, quick_sheet

VALUES = (
    1.5,
    -0.0,
    1e300,
    0.1 + 0.2,
    7,
    10**20,
    True,
    None,
    "text",
    "",
    ' with <signs> & "quotes"\nand lines ',
    "\x07_x0041_ 🜁",
    "x" * 32767,
    np.float64(2.5),
    dt.datetime(2027, 1, 31),
    Formula("=SUM(A1:B2)", 3.25),
    Formula('=SUMIFS(A1:A9,B1:B9,"<"&C1)', -1e-9),
    Formula("=XLOOKUP(1,A1:A9,B1:B9)", 2.0),
    Formula("=A1>B1", True),
    Formula('=IF(A1<1,"a","b")', "b & c"),
    Formula("=A1", 3),
)


def _put(sheet, row, col, value, form):
    """Write a value by XlsxWriter's own ways alone."""
    if isinstance(value, Formula):
        sheet.write_formula(row, col, value.text, form, value.value)
    elif isinstance(value, dt.datetime):
        sheet.write_datetime(row, col, value, form)
    elif isinstance(value, bool):
        sheet.write_boolean(row, col, value, form)
    elif isinstance(value, str):
        sheet.write_string(row, col, value, form)
    elif value is None:
        sheet.write_blank(row, col, value, form)
    else:
        sheet.write_number(row, col, float(value), form)


@pytest.mark.parametrize("with_format", [True, False])
def test_the_file_is_the_one_xlsxwriter_writes(tmp_path, with_format):
    files = []
    for kind in (Worksheet, quick_sheet()):
        files.append(tmp_path / f"{kind.__name__}.xlsx")
        with xlsxwriter.Workbook(str(files[-1]), {"strings_to_formulas": False}) as workbook:
            workbook.set_properties({"created": dt.datetime(2027, 1, 1)})
            form = workbook.add_format({"num_format": "0.00"}) if with_format else None
            sheet = workbook.add_worksheet("Values", worksheet_class=kind)
            written = 0
            for place, value in enumerate(VALUES):
                row, col = 3 * (place % 7), 30 * place
                if kind is Worksheet or not sheet.write_plain(row, col, value, form):
                    _put(sheet, row, col, value, form)
                else:
                    written += 1
    assert written > 10
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), pd.NaT, Formula("=A1", float("inf")), dt.datetime(2027, 1, 31), True])
def test_what_is_not_plain_is_left_to_others(tmp_path, value):
    with xlsxwriter.Workbook(str(tmp_path / "one.xlsx")) as workbook:
        sheet = workbook.add_worksheet("Values", worksheet_class=quick_sheet())
        assert not sheet.write_plain(0, 0, value, workbook.add_format())
        assert not sheet.write_plain(1_048_576, 0, 1.0, workbook.add_format())
