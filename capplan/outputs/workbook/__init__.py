"""The plan as a workbook with live formulas."""
