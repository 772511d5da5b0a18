"""Read one CSV table strictly: every cell is converted or named as a fault, none is guessed."""

import csv
import difflib
import io
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.empty import empty_table, left_out
from capplan.book.gate import MOST_MEGABYTES, UNSEEN, composed, read_text
from capplan.book.odd import other_forms
from capplan.book.tables.registry import Column, bounds_of, columns_of, key_of
from capplan.errors import Fault, nearest, suggestion
from capplan.inert import active

#: Faults of one kind in one column that are listed one by one; the rest is counted in one line.
SHOWN_ALIKE = 5
#: No amount, count or price of a plan reaches this; a cell that does is a slip.
BEYOND_MEANING = 1e18
#: How like a known name that of a column must be to be a slip for it.
SLIP_LIKENESS = 0.8
#: Signs of a number up to which every way of reading it gives the same.
EXACT_DIGITS = 15
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_INSTANT = re.compile(r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:?\d{2})?$")
_ZONE = re.compile(r"(?:Z|[+-]\d{2}:?\d{2})$")
#: Ways to write a number that are refused, and what to do instead; the first that fits counts.
_ODD_NUMBERS = {
    re.compile(r"^[-+]?\d{1,3}([,' \u00a0\u202f]\d{3})+(\.\d+)?$"): "Write the number without thousands separators.",
    re.compile(r"^[-+]?\d+(\.\d{3})*,\d+$"): "Write a decimal point, not a comma.",
    re.compile(r"%$"): "Write a share between 0 and 1 instead of percent.",
    re.compile(r"^[$€£]"): "Write the number without a currency sign.",
}
#: Where a text of CSV has none of these, no cell begins or ends with a blank.
_BLANKS_AT_ENDS = re.compile(r"[\"]|[^\S\n](?:[,\n]|\Z)|(?:[,\n]|\A)[^\S\n]")
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _limited(faults: list[Fault]) -> list[Fault]:
    """Keep the first few faults of a kind, and count the rest in one more."""
    if len(faults) <= SHOWN_ALIKE:
        return faults
    last = faults[SHOWN_ALIKE - 1]
    rest = Fault(
        last.file, 0, last.column, "", f"{len(faults) - SHOWN_ALIKE + 1} more cells break the same rule ({last.rule})", last.remedy
    )
    return [*faults[: SHOWN_ALIKE - 1], rest]


class _TableReader:
    """One file on its way to a checked frame."""

    def __init__(self, path: Path, table: str, most_megabytes: float = MOST_MEGABYTES, columns: Sequence[Column] | None = None) -> None:
        self.file, self.path, self.table, self.most_megabytes = path.name, path, table, most_megabytes
        self.loose = columns is not None
        self.columns = columns_of(table) if columns is None else tuple(columns)
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.plain = False  # no letter of the file has other forms, and none is unseen

    def fault(self, row: int, column: str, value: str, rule: str, remedy: str) -> None:
        self.faults.append(Fault(self.file, row, column, value, rule, remedy))

    def cells(self) -> pd.DataFrame | None:
        """Return all cells as text, or None where the file as a whole cannot be read."""
        text, refused = read_text(self.path, most_megabytes=self.most_megabytes)
        if refused:
            self.faults += refused
            return None
        if not text.strip():
            self.fault(0, "", "", "the file is empty", "Write at least the header line, or delete the file.")
            return None
        try:
            header = next(csv.reader(io.StringIO(text)))
        except csv.Error as error:
            self.fault(1, "", "", f"the header is not CSV: {error}", "Check the quotes around names.")
            return None
        names = [name.strip() for name in header]
        if len(header) == 1 and ";" in header[0]:
            self.fault(
                1,
                "",
                header[0][:60],
                "columns are separated by commas, and decimals by a point",
                "Save it as comma-separated CSV with decimal points.",
            )
            return None
        known = [column.name for column in self.columns]
        for name in names:
            # a table that is not of a book may have more columns, but none that is a slip for one it lacks
            slip = difflib.get_close_matches(name, [other for other in known if other not in names], n=1, cutoff=SLIP_LIKENESS)
            if name not in known and (not self.loose or slip):
                self.fault(1, name, name, f"{self.table} has no such column; {nearest(name, known)}", "Rename or delete the column.")
            elif name in known and names.count(name) > 1:
                self.fault(1, name, name, "a column may occur only once", "Delete one of the two.")
        for column in self.columns:
            if column.name not in names and not column.optional:
                self.fault(1, column.name, "", f"the column is missing ({column.rule})", f"Add it: {column.meaning}")
        if self.faults:
            return None
        try:
            frame = pd.read_csv(
                io.StringIO(text), dtype=str, keep_default_na=False, na_values=[], skip_blank_lines=False, names=names, header=0
            )
            ragged = not isinstance(frame.index, pd.RangeIndex)
        except (pd.errors.ParserError, csv.Error):
            ragged = True
        if ragged:
            self.ragged(text, len(names))
            return None
        # a short row ends in empty cells: harmless where they are optional, a fault of their columns where not
        self.plain = text.isascii() and not UNSEEN.search(text)
        filled = frame[(frame != "").any(axis=1)]
        filled = filled.apply(lambda cells: cells.str.strip()) if _BLANKS_AT_ENDS.search(text) else filled
        return filled.map(active) if "'" in text else filled

    def ragged(self, text: str, width: int) -> None:
        """Name the rows that are wider than the header."""
        remedy = "Quote texts that contain a comma; write numbers without thousands separators."
        found = []
        try:
            for row, cells in enumerate(csv.reader(io.StringIO(text), strict=True), start=1):
                if len(cells) > width:
                    found.append(
                        Fault(self.file, row, "", ",".join(cells)[:60], f"the header has {width} columns and this row {len(cells)}", remedy)
                    )
        except csv.Error as error:
            found.append(Fault(self.file, 0, "", "", f"the file is not CSV: {error}", "Check the quotes around texts."))
        self.faults += _limited(found)

    def refuse(self, column: Column, text: pd.Series, bad: Any, rule: str | None = None, remedy: str = "") -> None:
        """Add a fault for every bad cell of a column."""
        found = [
            Fault(
                self.file, int(index) + 2, column.name, str(value), rule or f"must be {column.rule}", remedy or _remedy(column, str(value))
            )
            for index, value in (text[bad].items() if bad.any() else ())
        ]
        self.faults += _limited(found)

    def number(self, column: Column, text: pd.Series) -> pd.Series:
        value = pd.to_numeric(text.where(text != ""), errors="coerce").astype(float)
        # pandas rounds what has more digits than it multiplies exactly; a number that capplan wrote must come back as it was
        long = value.notna() & (text.map(len, na_action="ignore") > EXACT_DIGITS)
        if long.any():
            value[long] = [float(cell) for cell in text[long]]
        huge = value.abs() >= BEYOND_MEANING
        bad = (text != "") & value.isna()
        if column.kind == "int64":
            bad |= (text != "") & ~huge & (value != value.round())
        self.refuse(column, text, bad)
        self.refuse(column, text, huge, f"must be a number of a size below {BEYOND_MEANING:g}")
        return value.mask(bad | huge)

    def boolean(self, column: Column, text: pd.Series) -> pd.Series:
        value = text.str.lower().map(_BOOLEANS)
        self.refuse(column, text, (text != "") & value.isna())
        return value

    def time(self, column: Column, text: pd.Series) -> pd.Series:
        # many rows are of one time: each is read once
        codes, times = pd.factorize(text, use_na_sentinel=False)
        once = pd.Series(times, dtype=object)
        shaped = once.str.match(_INSTANT if column.instant else _DATE, na=False).astype(bool)
        zones = once.str.contains(_ZONE, na=False).astype(bool) & shaped & (once.str.len() > len("2027-01-01"))
        # apart, since pandas takes a time without a zone to be of the zone before it
        read = partial(pd.to_datetime, errors="coerce", format="ISO8601")
        found = read(once.where(shaped & ~zones)).fillna(read(once.where(zones), utc=True).dt.tz_localize(None))
        self.refuse(column, text, ((once != "") & found.isna()).to_numpy()[codes])
        if column.instant and zones.any() and (shaped & ~zones).any():
            zoned, naked = zones.to_numpy()[codes], (shaped & ~zones).to_numpy()[codes]
            self.refuse(
                column,
                text,
                naked,
                f"{int(zoned.sum())} rows state a time zone and {int(naked.sum())} do not",
                "Give every time its zone (2027-03-28T02:30:00+02:00), or write all of them in UTC.",
            )
        return pd.Series(found.astype("datetime64[ns]").to_numpy()[codes], text.index)

    def column(self, column: Column, text: pd.Series) -> pd.Series:
        """Convert one column; empty cells take the default or stay empty."""
        empty = text == ""
        if not column.optional:
            self.refuse(column, text, empty, "the cell must not be empty", f"Fill it in: {column.meaning}")
        if column.kind == "str" and self.plain:
            value: pd.Series = text.where(~empty, None)
        elif column.kind == "str":
            unseen = text.str.contains(UNSEEN)
            self.refuse(
                column,
                text,
                unseen,
                "a character that nobody sees stands in the cell",
                "Type the name again; copied text often carries one.",
            )
            value = text.map(composed).where(~empty, None)
            self.notes += other_forms(f"{self.file}, column {column.name}", text[~empty & (value != text)])
        elif column.kind == "bool":
            value = self.boolean(column, text)
        elif column.kind == "datetime64[ns]":
            value = self.time(column, text)
        else:
            value = self.number(column, text)
        if column.default is not None:
            value = value.astype(object).where(~empty, column.default)
        return value

    def frame(self) -> pd.DataFrame:
        """Return the table, with faults collected in `.faults`."""
        cells = self.cells()
        return empty_table(self.table) if cells is None else self.checked(cells)

    def checked(self, cells: pd.DataFrame, *, sound: bool = False) -> pd.DataFrame:
        """Turn cells of text into the table; what is known to be sound is not held against the model of the table."""
        lines = cells.index.to_numpy() + 2
        frame = self.converted(cells).reset_index(drop=True)
        broken = bool(self.faults)
        for column in columns_of(self.table):
            holes = frame[column.name].isna().any()
            if column.kind == "str" or (holes and column.kind in ("int64", "bool")):
                continue
            frame[column.name] = frame[column.name].astype(column.kind)
        if not sound or broken:
            self.check(frame, lines, tolerant=broken)
        frame.index = pd.Index(lines, name="row")
        return frame

    def converted(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Turn cells of text into columns in their types."""
        none = pd.Series("", index=cells.index, dtype=str)
        absent = {column.name: left_out(column, cells.index) for column in self.columns if column.optional and column.name not in cells}
        rest = [column for column in self.columns if column.name not in absent]
        read = {column.name: self.column(column, cells.get(column.name, none)) for column in rest}
        return pd.DataFrame({column.name: {**absent, **read}[column.name] for column in self.columns})

    def check(self, frame: pd.DataFrame, lines: np.ndarray, *, tolerant: bool) -> None:
        """Hold the frame against the pandera model; cells that are faults already are left out."""
        from pandera.errors import SchemaErrors

        by_name = {column.name: column for column in columns_of(self.table)}
        schema = bounds_of(self.table)
        absent = [name for name in by_name if name not in frame]
        if absent:
            schema = schema.remove_columns(absent)
            schema.checks = [check for check in schema.checks if not set(str(check.name).split()) & set(absent)]
        try:
            schema.validate(frame, lazy=True)
        except SchemaErrors as errors:
            cases = errors.failure_cases
            between = cases["schema_context"] == "DataFrameSchema"
            for (place, check), part in cases[~between].groupby(["column", "check"], sort=False, dropna=False):
                if tolerant and (str(check).startswith("dtype") or check == "not_nullable"):
                    continue
                named = by_name[str(place)]
                found = []
                for case in part.drop_duplicates(["index"]).itertuples():
                    value = "" if case.failure_case is None else str(case.failure_case)
                    row = 0 if pd.isna(case.index) else int(lines[int(case.index)])
                    found.append(Fault(self.file, row, named.name, value, f"must be {named.rule}", _remedy(named, value)))
                self.faults += _limited(found)
            for check, part in cases[between].groupby("check", sort=False):
                rows = sorted({int(index) for index in part["index"].dropna()})
                self.faults += _limited([self.row_fault(frame, index, str(check), int(lines[index])) for index in rows])
        keys = key_of(self.table)
        if keys and len(frame) and set(keys) <= set(frame):
            complete = frame[keys].notna().all(axis=1)
            twice = frame[complete & frame.duplicated(keys, keep="first")]
            first = (
                {key: int(lines[index]) for index, key in reversed(list(enumerate(map(tuple, frame[keys].to_numpy()))))}
                if len(twice)
                else {}
            )
            self.faults += _limited(
                [
                    Fault(
                        self.file,
                        int(lines[int(index)]),
                        " + ".join(keys),
                        ", ".join(map(str, key)),
                        f"the key occurs already in row {first[key]}",
                        "Delete one of the two rows"
                        + (" (local times repeat an hour when summer time ends: give the zone, or write UTC)." if "time" in keys else "."),
                    )
                    for index, key in zip(twice.index, map(tuple, twice[keys].to_numpy()), strict=True)
                ]
            )

    def row_fault(self, frame: pd.DataFrame, index: int, check: str, row: int) -> Fault:
        """Describe a broken rule between two columns."""
        names = [column.name for column in columns_of(self.table) if column.name in check.split()]
        shown = ", ".join(f"{name}={frame.loc[index, name]}" for name in names).replace(" 00:00:00", "")
        return Fault(self.file, row, " + ".join(names), shown, check, "Correct one of the two.")


def read_cells(table: str, cells: pd.DataFrame, columns: Sequence[Column]) -> tuple[pd.DataFrame, list[Fault]]:
    """Convert cells of text of some columns, checked one by one like those of a file; rules between cells are the caller's."""
    reader = _TableReader(Path(f"{table}.csv"), table, columns=columns)
    return reader.converted(cells), reader.faults


def read_columns(path: Path, what: str, columns: Sequence[Column]) -> tuple[pd.DataFrame, list[Fault]]:
    """Read some columns of a CSV file that is no table of a book, each cell checked as in one; other columns are passed over.

    Args:
        what: What a file of this kind is called in a fault.

    Returns:
        frame: The columns in their types; the index is each row's line in the file. Not to be used unless there are no faults.
        faults: Everything that is wrong; a column whose name is almost that of one that is not there counts as a slip.
    """
    reader = _TableReader(path, what, columns=columns)
    cells = reader.cells()
    if cells is None:
        return pd.DataFrame(columns=[column.name for column in columns]), reader.faults
    frame = reader.converted(cells)
    frame.index = pd.Index(cells.index.to_numpy() + 2, name="row")
    return frame, reader.faults


def check_rows(frame: pd.DataFrame, table: str, lines: np.ndarray) -> list[Fault]:
    """Hold rows that did not come from a file against their table; types and missing columns are left alone.

    Args:
        frame: Rows with columns of the table.
        lines: What each row is called in a fault.
    """
    reader = _TableReader(Path(f"{table}.csv"), table)
    for item in columns_of(table):
        if item.name in frame and not item.optional and item.kind != "str":
            reader.faults += [
                Fault(reader.file, int(line), item.name, "", f"must be {item.rule}", f"Fill it in: {item.meaning}")
                for line in lines[frame[item.name].isna()]
            ]
    reader.check(frame, lines, tolerant=True)
    return reader.faults


def _remedy(column: Column, value: str) -> str:
    """Say what to do about a cell that does not fit its column."""
    if column.kind in ("float64", "int64"):
        return next((told for form, told in _ODD_NUMBERS.items() if form.search(value)), f"Correct it: {column.meaning}")
    if column.kind == "datetime64[ns]":
        return "Write dates as 2027-01-31" + (" and times as 2027-01-31T08:00:00, in UTC or with a zone." if column.instant else ".")
    if column.kind == "bool":
        return "Write true or false."
    allowed = next((rule.removeprefix("one of ").split(", ") for rule in column.rules if rule.startswith("one of ")), None)
    if allowed and value:
        return suggestion(value, allowed)
    if any(rule.startswith("a quarter") for rule in column.rules):
        return "Write quarters like 2027Q1; there are Q1 to Q4."
    return f"Correct it: {column.meaning}"


def read_table(
    path: Path, table: str, most_megabytes: float = MOST_MEGABYTES, notes: list[str] | None = None
) -> tuple[pd.DataFrame, list[Fault]]:
    """Read and check one table.

    Args:
        path: CSV file: UTF-8 (with or without a byte-order mark), any line ends, commas, decimal points.

    Returns:
        frame: The rows with every column of the table in its type; empty optional cells have their default or are missing. The index is
            each row's line in the file.
        faults: Everything that is wrong; the frame must not be used unless the list is empty.
    """
    reader = _TableReader(path, table, most_megabytes)
    frame = reader.frame()
    if notes is not None:
        notes += reader.notes
    return frame, reader.faults


def read_together(paths: Sequence[Path], table: str, *, sound: bool = False) -> tuple[pd.DataFrame, list[Fault]]:
    """Read files that are parts of one table, and check them as one; each by itself where that finds a fault, to say in which it is.

    Args:
        paths, table: Files, and the name of their table.
        sound: The cells are known to be in their bounds and the keys to be unique, and only read.

    Returns:
        frame, faults: As of `read_table`, with rows counted over all files.
    """
    readers = [_TableReader(path, table) for path in paths]
    cells = [part for reader in readers if (part := reader.cells()) is not None]
    if len(cells) == len(readers) and not any(reader.faults for reader in readers):
        readers[0].plain = all(reader.plain for reader in readers)
        frame = readers[0].checked(pd.concat(cells, ignore_index=True).fillna(""), sound=sound)
        if not readers[0].faults:
            return frame, []
    parts = [read_table(path, table) for path in paths]
    return pd.concat([frame for frame, _ in parts], ignore_index=True), [fault for _, found in parts for fault in found]
