"""Tables as the sheets of a plain workbook: values alone, none of them a formula or a link."""

import io
from collections.abc import Mapping

import pandas as pd

#: Longest text a cell takes.
LONGEST_TEXT = 32767
#: Options under which no text becomes a formula, a link or a number.
INERT = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}


def plain_workbook(tables: Mapping[str, pd.DataFrame]) -> bytes:
    """Return a workbook with a sheet a table, headed by its columns.

    Args:
        tables: By name of the sheet. Texts longer than a cell takes are cut.
    """
    file = io.BytesIO()
    with pd.ExcelWriter(file, engine="xlsxwriter", engine_kwargs={"options": {**INERT, "nan_inf_to_errors": True}}) as writer:
        for name, table in tables.items():
            cut = {column: table[column].map(_cut) for column in table.select_dtypes("object")}
            table.assign(**cut).to_excel(writer, sheet_name=name, index=False)
    return file.getvalue()


def _cut(value: object) -> object:
    return value[:LONGEST_TEXT] if isinstance(value, str) else value
