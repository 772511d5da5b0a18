"""What-ifs applied to tables: every new cell is checked like one of a file."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from capplan.book.changes import Change, span_of
from capplan.book.reader import read_cells
from capplan.book.tables.registry import TABLES, Column, columns_of, key_of
from capplan.errors import CapplanError, nearest


def changed_table(change: Change, tables: Mapping[str, pd.DataFrame]) -> tuple[str, pd.DataFrame]:
    """Apply one what-if.

    Returns:
        tuple: Name of the table, and a changed copy of it.

    Raises:
        CapplanError: Where there is no such table, column or row, or a cell does not fit.
    """
    table = change.table or _only_table(change, tables)
    if table not in tables and not (change.add is not None and table in TABLES):
        raise CapplanError(f"change of {table}: the book has no such table; {nearest(table, tables)}")
    columns = {column.name: column for column in columns_of(table)}
    frame = tables[table].copy() if table in tables else None
    seen = _with_referred(table, frame, change.where, tables)
    for name in (change.column, *change.where, *(change.add or ())):
        if name and name not in columns and not (name in change.where and seen is not None and name in seen):
            raise CapplanError(f"change of {table}.{name}: there is no such column; {nearest(name, columns)}")
    if change.add is not None:
        return table, _with_row(change, table, frame)
    assert frame is not None
    rows = _rows(change, table, frame if seen is None else seen)
    if change.remove:
        return table, frame[~rows].reset_index(drop=True)
    names = [change.column] if change.column else [name for name, column in columns.items() if column.kind.startswith("datetime")]
    for name in names:
        frame.loc[rows, name] = _new_cells(change, table, columns[name], frame.loc[rows, name])
    return table, _validated(change, table, frame, [columns[name] for name in names])


def without_orphans(
    table: str, before: pd.DataFrame, after: pd.DataFrame, tables: Mapping[str, pd.DataFrame], own: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """Return the book's own tables that named rows which are gone: such rows go, too, or lose the name where it may be empty."""
    found: dict[str, pd.DataFrame] = {}
    for name in own:
        for column in columns_of(name):
            target, _, key = (column.refers or "").partition(".")
            if target != table or name == table:
                continue
            frame = found.get(name, tables[name])
            orphans = frame[column.name].isin(set(before[key]) - set(after[key]))
            if orphans.any():
                found[name] = (
                    frame.assign(**{column.name: frame[column.name].mask(orphans, None)})
                    if column.optional
                    else frame[~orphans].reset_index(drop=True)
                )
    return found


def _only_table(change: Change, tables: Mapping[str, pd.DataFrame]) -> str:
    """Find the one table that has the columns of a what-if, and rows that it selects."""
    wanted = {*change.where, *([change.column] if change.column else [])}
    having = [name for name in tables if wanted and wanted <= set(tables[name])]
    if not having:
        raise CapplanError(
            f"what-if {change.line!r}: no table of the book has the columns {', '.join(sorted(wanted)) or '(none named)'}; name the table"
        )
    found = [name for name in having if _matching(change, tables[name]).any()]
    if len(found) != 1:
        which = found or having
        raise CapplanError(
            f"what-if {change.line!r}: {'no row fits in' if not found else 'rows fit in'} {', '.join(which)}; write {which[0]} in front"
            " of it"
        )
    return found[0]


def _with_referred(table: str, frame: pd.DataFrame | None, where: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Any:
    """Return a table with the columns that `where` names in tables it refers to, such as an offer's accelerator, which its sku has."""
    for column in columns_of(table):
        target, _, key = (column.refers or "").partition(".")
        wanted = [name for name in where if frame is not None and name not in frame and name in tables.get(target, ())]
        if wanted:
            assert frame is not None
            rows = tables[target].drop_duplicates(key).set_index(key)
            frame = frame.assign(**{name: frame[column.name].map(rows[name]) for name in wanted})
    return frame


def _matching(change: Change, frame: pd.DataFrame) -> pd.Series:
    rows = pd.Series(True, index=frame.index)
    for name, value in change.where.items():
        cells = frame[name]
        if pd.api.types.is_datetime64_any_dtype(cells):
            rows &= cells == pd.to_datetime(str(value), errors="coerce")
        elif isinstance(value, bool) or pd.api.types.is_bool_dtype(cells):
            rows &= cells == value if isinstance(value, bool) else False
        elif isinstance(value, (int, float)) and pd.api.types.is_numeric_dtype(cells):
            rows &= cells == value
        else:
            rows &= cells.astype(str) == str(value)
    return rows


def _rows(change: Change, table: str, frame: pd.DataFrame) -> pd.Series:
    """Select the rows of a what-if; none is an error."""
    key = key_of(table)[0]
    rows = _matching(change, frame)
    if change.key != "*":
        named = frame[key].astype(str) == change.key
        if not named.any():
            raise CapplanError(
                f"change of {table}.{change.column or key}: no row has {key} = {change.key}; {nearest(change.key, frame[key].astype(str))}"
            )
        rows &= named
    if not rows.any():
        said = ", ".join(
            f"{name} = {value}; {nearest(str(value), frame[name].dropna().astype(str))}" for name, value in change.where.items()
        )
        raise CapplanError(f"change of {table}.{change.column or key}: no row has {said or 'any cells'}")
    return rows


def _new_cells(change: Change, table: str, column: Column, cells: pd.Series) -> Any:
    """Return the new values of the selected cells of one column."""
    where = f"change of {table}.{column.name}"
    if change.multiply is not None:
        if column.kind not in ("float64", "int64"):
            raise CapplanError(f"{where}: {column.rule} cannot be multiplied; use set")
        return cells * change.multiply
    if change.shift is not None:
        if not column.kind.startswith("datetime"):
            raise CapplanError(f"{where}: {column.rule} cannot be shifted; use set")
        months, days = span_of(change.shift)
        return cells + pd.DateOffset(months=months, days=days)
    text = {True: "true", False: "false"}.get(change.set) if isinstance(change.set, bool) else str(change.set)
    if isinstance(change.set, bool) != (column.kind == "bool"):
        raise CapplanError(f"{where} for {change.key}: {change.set!r} does not fit; it must be {column.rule}")
    value, faults = read_cells(table, pd.DataFrame({column.name: [text]}), [column])
    if faults:
        raise CapplanError(f"{where} for {change.key}: {change.set!r} does not fit; it must be {column.rule}")
    return value[column.name].iloc[0]


def _validated(change: Change, table: str, frame: pd.DataFrame, columns: list[Column]) -> pd.DataFrame:
    """Hold the changed table against its schema."""
    try:
        for column in columns:
            frame[column.name] = frame[column.name].astype("object" if column.kind == "str" else column.kind)
        return TABLES[table].to_schema().validate(frame)
    except Exception as error:
        rule = " and ".join(dict.fromkeys(column.rule for column in columns))
        raise CapplanError(
            f"change of {table}.{change.column or 'days'} for {change.key}: {change.line!r} does not fit; it must be {rule}"
        ) from error


def _with_row(change: Change, table: str, frame: pd.DataFrame | None) -> pd.DataFrame:
    """Add a row whose cells are checked like those of a file."""
    cells = {
        name: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (change.add or {}).items()
    }
    columns = columns_of(table)
    for column in columns:
        given = (change.add or {}).get(column.name)
        if isinstance(given, bool) and column.kind != "bool":
            raise CapplanError(f"what-if {change.line!r}: {column.name} = {given!r} does not fit; it must be {column.rule}")
    base: dict[str, Any] = {}
    if change.like is not None:
        key = key_of(table)[0]
        alike = frame[frame[key].astype(str) == change.like] if frame is not None else pd.DataFrame()
        if alike.empty:
            known = frame[key].astype(str) if frame is not None else []
            raise CapplanError(f"what-if {change.line!r}: no row of {table} has {key} = {change.like}; {nearest(change.like, known)}")
        base = alike.iloc[0].to_dict()
    missing = [column for column in columns if not column.optional and column.name not in cells and column.name not in base]
    if missing:
        raise CapplanError(
            f"what-if {change.line!r}: the new row of {table} needs {', '.join(f'{column.name} ({column.rule})' for column in missing)}"
        )
    named = [column for column in columns if column.name in cells or column.name not in base]
    read, faults = read_cells(table, pd.DataFrame({column.name: [cells.get(column.name, "")] for column in named}), named)
    if faults:
        raise CapplanError(f"what-if {change.line!r}: " + "; ".join(str(fault) for fault in faults[:3]))
    row = pd.DataFrame([{column.name: base[column.name] if column.name not in read else read[column.name].iloc[0] for column in columns}])
    if frame is None:
        return _validated(change, table, row, list(columns))
    joined = pd.concat([frame, row.astype(frame.dtypes.to_dict())], ignore_index=True)
    keys = key_of(table)
    if joined.duplicated(keys).any():
        raise CapplanError(f"what-if {change.line!r}: {table} has a row of this key ({', '.join(keys)}) already; give the new one another")
    return _validated(change, table, joined, list(columns))
