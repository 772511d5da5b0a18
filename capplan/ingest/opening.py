"""Open a foreign file through DuckDB as a table of texts, whatever its delimiter, encoding, compression or size."""

from __future__ import annotations

import csv
import gzip
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capplan.errors import BookError, Fault
from capplan.ingest.nested import flatten, shape_of
from capplan.ingest.reading_options import ReadingOptions, in_own_name
from capplan.text import in_number

#: Delimiters that are tried, in this order where two occur equally often in the header.
DELIMITERS = (",", ";", "\t", "|")
#: A line without an end for this many bytes is damage: the reader would drop what it cannot hold without a word.
LONGEST_LINE = 1 << 20
csv.field_size_limit(LONGEST_LINE)
#: Bytes that tell JSON from other text, and the largest object of JSON that is read where a file is not one as a whole.
SHORT_HEAD, LARGEST_OBJECT = 256, 1 << 24
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
#: Column of the view `cells` with the place of the row's file among the files of a sheet; no export has a column of this name.
FILE = '"place of the file"'
#: Column of the view `cells` with the number of rows of the file that a row stands for; no export has a column of this name.
ALIKE = '"rows alike"'


class UnlikeFilesError(Exception):
    """Files of one layout differ in how their cells are read, or one of them has a fault: read them one by one."""


def kind_of(file: Path) -> str:
    """Say whether a file is csv, parquet or json (objects, one a line or in a list), by its name, or where it begins as JSON does.

    Examples:
        >>> kind_of(Path("a.csv.gz")), kind_of(Path("a.pq")), kind_of(Path("a.JSONL.gz"))
        ('csv', 'parquet', 'json')
    """
    name = re.sub(r"\.(gz|zst)$", "", file.name.lower())
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    return "json" if name.endswith((".jsonl", ".ndjson", ".json")) or _begins_as_json(file) else "csv"


def _begins_as_json(file: Path) -> bool:
    """Say whether a file without compression begins with an object of JSON, or a list of them."""
    if not file.is_file() or file.name.lower().endswith((".gz", ".zst")):
        return False
    with file.open("rb") as raw:
        return re.match(rb"\s*(?:\[\s*)?\{\s*[\"}]", raw.read(SHORT_HEAD)) is not None


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


class Sheet:
    """A foreign file, or several of one layout, opened: a DuckDB view `cells` whose columns are all texts, trimmed, empty ones NULL.

    Args:
        files: CSV or JSON lines (also .gz or .zst) or Parquet; several must have one header and one kind, and are read in one scan.
        options: How to read it.
        nulls: Texts that mean "nothing" in this format, besides the empty one.
        free: Columns of free text; where rows are separated by bars and unquoted, a bar in the one that the file has does not end its cell.

    Attributes:
        connection: DuckDB connection with bounded memory that owns the view.
        columns: Names of the columns, in order.
        notes: What was assumed while reading.

    Raises:
        BookError: If the file is missing, empty, or not in an encoding that can be read.
    """

    def __init__(
        self, files: Path | Sequence[Path], options: ReadingOptions, nulls: tuple[str, ...] = (), free: tuple[str, ...] = ()
    ) -> None:
        self.files = (files,) if isinstance(files, Path) else tuple(files)
        self.file, self.options, self.nulls, self.free = self.files[0], options, nulls, free
        self.notes: list[str] = []
        self.delimiter, self.encoding = ",", "utf-8"
        self.repeated: set[str] = set()
        self._flat = False
        self._scratch = tempfile.TemporaryDirectory(prefix="capplan-ingest-")
        import duckdb

        self.connection = duckdb.connect(
            config={
                "memory_limit": f"{options.memory_gib * 1024:.0f}MiB",
                "temp_directory": self._scratch.name,
                "autoinstall_known_extensions": False,
            }
        )
        try:
            self.connection.execute("set TimeZone = 'UTC'; set enable_progress_bar = false")
            for file in self.files:
                if not file.is_file():
                    self.refuse("the file does not exist" if not file.exists() else "it is not a file", "Check the path.")
                if file.stat().st_size == 0:
                    self.refuse("the file is empty", "Export it again.")
            self.typed = kind_of(self.file) != "csv"
            self._places = [self._without_patterns(place, file) for place, file in enumerate(self.files)]
            self.columns = [name for name, *_ in self._execute(f"describe from {self._scan()}")] if self.typed else self._recognise()
            shape = shape_of(self.columns) if kind_of(self.file) == "json" else None
            if shape is not None:
                types = ", ".join(f"{text_literal(name)}: '{kind}'" for name, kind in shape.columns.items())
                objects = self._scan(f", columns={{{types}}}")
                self.columns = flatten(shape, objects, self._execute, self.refuse)
                self._flat = True
            self.row_by_row()
        except BaseException:
            self.close()
            raise

    def row_by_row(self) -> None:
        """Let each row of the view `cells` be a row of the files."""
        chosen = ", ".join(f"{self._null_if(quoted(name))} as {quoted(name)}" for name in self.columns)
        self.connection.execute(
            f"create or replace view cells as select {chosen}, {self._place} as {FILE}, 1 as {ALIKE} from {self._scan()}"
        )

    def alike_together(self, texts: Sequence[str], numbers: Mapping[str, Callable[[str], str]], latest: Sequence[str] = ()) -> None:
        """Let each row of the view `cells` stand for all rows of a file with the same texts and signs, found in one pass over the files.

        Args:
            texts: Columns that tell rows apart, as they are written.
            numbers: SQL for the number in a text, by column; rows stand together where these are all below, at or above zero or missing,
                and the column has their sum, as a text, or one that is no number where there is any.
            latest: Columns that do not tell rows apart; of rows that stand together they have the last text.
        """
        named = ["filename_of_the_row"] if self.many else []
        keys = [*map(quoted, dict.fromkeys(texts)), *named]
        place = text_literal(os.path.join(self._scratch.name, "alike.parquet"))
        ends = [f"max({quoted(name)}) as {quoted(name)}" for name in latest]
        signs = [f"sign({quoted(name)})" for name in numbers]
        plain = {name: f"try_cast({quoted(name)}::varchar as decimal(38, 12))" for name in numbers}
        general = {name: f"coalesce({plain[name]}, {number(self._null_if(quoted(name)))})" for name, number in numbers.items()}
        for value in (plain, general):  # what has a sign of money or the like is rare, and slow to read
            read = [*keys, *map(quoted, latest)]
            read += [f"{value[name]} as {quoted(name)}, {quoted(name)} as {quoted(f'text {name}')}" for name in numbers]
            odd = {name: f"case when {quoted(name)} is null then {self._null_if(quoted(f'text {name}'))} end" for name in numbers}
            summed = [f"coalesce(max({odd[name]}), sum({quoted(name)})::varchar) as {quoted(name)}" for name in numbers]
            self._execute(
                f"copy (select {', '.join([*keys, *ends, *summed])}, count(*) as {ALIKE}"
                f" from (select {', '.join(read)} from {self._scan()}) group by {', '.join([*keys, *signs])}) to {place} (format parquet)"
            )
            unread = " or ".join(f"{quoted(name)} is not null and {plain[name]} is null" for name in numbers)
            if not numbers or not self._execute(f"select count(*) from read_parquet({place}) where {unread}")[0][0]:
                break
        chosen = [f"{self._null_if(quoted(name))} as {quoted(name)}" for name in dict.fromkeys([*texts, *latest])]
        chosen += [*map(quoted, numbers), f"{self._place} as {FILE}", ALIKE]
        self.connection.execute(f"create or replace view cells as select {', '.join(chosen)} from read_parquet({place})")

    @property
    def _place(self) -> str:
        """SQL for the place of a row's file."""
        return "regexp_extract(filename_of_the_row, 'input-(\\d+)[^/]*$', 1)::int" if self.many else "0"

    @property
    def many(self) -> bool:
        """Whether there are several files."""
        return len(self.files) > 1

    def per_file(self, aggregates: str) -> list[Any]:
        """Aggregate the cells of each file, in the order of the files; those without rows are left out."""
        return self._execute(f"select {aggregates} from cells" + (f" group by {FILE} order by {FILE}" if self.many else ""))

    def by_file(self, names: Sequence[str]) -> str:
        """Return SQL for a text that each file has; `file` is the place of the file."""
        return text_literal(names[0]) if len(set(names)) == 1 else f"[{', '.join(map(text_literal, names))}][file + 1]"

    def __enter__(self) -> Sheet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove its temporary files."""
        self.connection.close()
        self._scratch.cleanup()

    def _without_patterns(self, number: int, file: Path) -> str:
        """Return a name of a file that no reader takes for a pattern: DuckDB expands *, ? and [, and reads = as a partition."""
        kind = "".join(file.suffixes[-2:]).lower()
        place = os.path.join(self._scratch.name, f"input-{number:06d}" + re.sub(r"[^a-z0-9.]", "", kind))
        os.symlink(file.resolve(), place)
        return place

    @property
    def _literal(self) -> str:
        """SQL for the names of all files."""
        return f"[{', '.join(map(text_literal, self._places))}]" if self.many else text_literal(self._places[0])

    def refuse(self, rule: str, remedy: str, value: str = "", column: str = "") -> None:
        """Raise the one fault that keeps the file as a whole from being read."""
        raise BookError([Fault(self.file.name, 0, column, value, in_number(rule), remedy)], where=self.file.name)

    def _execute(self, query: str) -> list[Any]:
        """Run a query, and turn a file that DuckDB cannot read into a clear message."""
        import duckdb

        try:
            return self.connection.execute(query).fetchall()
        except (duckdb.InvalidInputException, duckdb.IOException) as error:
            text = str(error)
            if "unicode" in text.lower() or "utf-8" in text.lower():
                remedy = "Save it as 'CSV UTF-8', or give encoding=latin-1 or encoding=utf-16."
                self.refuse(f"the file is not {self.encoding.upper()}", remedy)
            self.refuse(in_own_name(text, self.file), "Check that the file is complete and of the kind its name says.")
            raise AssertionError from error

    def rows(self, query: str) -> list[Any]:
        """Run a query on the views of this sheet."""
        return self._execute(query)

    def _null_if(self, column: str) -> str:
        # nullif would repeat its argument at every nesting, and so grow exponentially.
        nothing = ", ".join(text_literal(null) for null in ("", *self.nulls))
        return f"case when trim({column}::varchar) not in ({nothing}) then trim({column}::varchar) end"

    def text_lines(self) -> Iterator[str]:
        """Read the file's lines as text (CSV only)."""
        opener = gzip.open if self.file.name.lower().endswith(".gz") else open
        encoding = {"utf-8": "utf-8-sig"}.get(self.encoding, self.encoding)
        with opener(self.file, "rt", encoding=encoding, newline="", errors="replace") as lines:
            yield from lines

    def _recognise(self) -> list[str]:
        """Find encoding, delimiter and the names of the columns from the first bytes and the header."""
        name = self.file.name.lower()
        if name.endswith(".zst"):
            header = self._first_line_through_duckdb()
        else:
            opener = gzip.open if name.endswith(".gz") else open
            try:
                with opener(self.file, "rb") as raw:
                    head = raw.read(8)
            except gzip.BadGzipFile:
                self.refuse("the name ends in .gz but the content is not compressed", "Rename the file.")
            if b"\x00" in head and not head.startswith(tuple(MARKS)):
                self.refuse("the file is binary, not CSV", "Give a CSV file (save a sheet as one), or Parquet, named .parquet.")
            found = next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), "utf-8")
            self.encoding = found if self.options.encoding == "auto" else self.options.encoding
            for file in self.files:
                self._refuse_endless_lines(opener, file)
            header = next((line for line in self.text_lines() if line.strip()), "")
        if not header.strip():
            self.refuse("the file has no header line", "Write the names of the columns into the first line.")
        counts = {mark: len(next(csv.reader([header], delimiter=mark))) for mark in DELIMITERS}
        self.delimiter = self.options.delimiter or max(counts, key=lambda mark: counts[mark])
        if self.delimiter != ",":
            name_of = {"\t": "tab", ";": "semicolon", "|": "vertical bar"}.get(self.delimiter, self.delimiter)
            self.notes.append(f"Columns are separated by: {name_of}.")
        names = [name.strip() or "unnamed" for name in next(csv.reader([header.rstrip("\r\n")], delimiter=self.delimiter))]
        self.repeated = {name for name in names if names.count(name) > 1}
        return [name if name not in names[:place] else f"{name}_{place + 1}" for place, name in enumerate(names)]

    def _refuse_endless_lines(self, opener: Any, file: Path) -> None:
        """Refuse a file with a line that is longer than any row can be."""
        seen, blocks = 0, 0
        with opener(file, "rb") as raw:
            while block := raw.read(LONGEST_LINE):
                ends = block.count(b"\n") or block.count(b"\r")
                blocks = 0 if ends else blocks + 1
                seen += ends
                if blocks > 1:
                    self.refuse(
                        f"the line after line {seen} is longer than {LONGEST_LINE:,} bytes",
                        "The file is damaged there, or is no CSV: export it again.",
                    )

    def _first_line_through_duckdb(self) -> str:
        query = (
            f"from read_csv({self._literal}, all_varchar=true, header=false, delim='\\0', quote='', columns={{'line': 'varchar'}}) limit 1"
        )
        rows = self._execute(query)
        return str(rows[0][0]) if rows else ""

    def _scan(self, types: str = "") -> str:
        if self._flat:
            return "flat"
        path, named = self._literal, ", filename='filename_of_the_row'" if self.many else ""
        if kind_of(self.file) == "parquet":
            return f"read_parquet({path}, hive_partitioning=false{named})"
        if kind_of(self.file) == "json":
            layout = "newline_delimited" if re.search(r"\.(?:jsonl|ndjson)", self.file.name.lower()) else "auto"
            return (
                f"read_json({path}, format='{layout}', sample_size=-1, maximum_object_size={self._largest_object()},"
                f" hive_partitioning=false{types}{named})"
            )
        if self._free_column() is not None:
            also = ", filename_of_the_row" if self.many else ""
            return f"(select {self._split_lines()}{also} from {self._lines()} where len(parts) >= {len(self.columns)})"
        quote, escape = ("''", "''") if self.delimiter == "|" else ("'\"'", "'\"'")
        columns = ", ".join(f"{text_literal(name)}: 'varchar'" for name in self.columns)
        return (
            f"read_csv({path}, columns={{{columns}}}, auto_detect=false, header=true, delim={text_literal(self.delimiter)}, quote={quote}, "
            f"escape={escape}, encoding='{self.encoding}', null_padding=false, strict_mode=true, "
            f"store_rejects=true, rejects_limit=1000{named})"
        )

    def _largest_object(self) -> int:
        """Return the bytes that an object of JSON may take: more than usual where the first one does not end in its line."""
        opener = gzip.open if self.file.name.lower().endswith(".gz") else open
        with opener(self.file, "rb") as raw:
            head = raw.read(LARGEST_OBJECT).strip() if not self.file.name.lower().endswith(".zst") else b""
        whole = head.startswith(b"{") and b"}\n{" not in head.replace(b"\r", b"")
        return max(LARGEST_OBJECT, os.path.getsize(self.file)) if whole else LARGEST_OBJECT

    def _free_column(self) -> int | None:
        """Return the place of the one column of free text in a file that separates by bars without quotes."""
        places = [place for place, name in enumerate(self.columns) if name in self.free]
        return places[0] if self.delimiter == "|" and len(places) == 1 else None

    def _lines(self) -> str:
        """Return SQL for the lines of the file, each split at every bar, with its number."""
        named, also = (", filename='filename_of_the_row'", ", filename_of_the_row") if self.many else ("", "")
        lines = (
            f"read_csv({self._literal}, columns={{'line': 'varchar'}}, auto_detect=false, header=true, delim=chr(1), quote='', escape='',"
            f" encoding='{self.encoding}', hive_partitioning=false{named})"
        )
        parts = f"row_number() over () + 1 as line_number{also}, string_split(rtrim(line, chr(13)), '|') as parts"
        return f"(select {parts} from {lines} where line is not null)"

    def _split_lines(self) -> str:
        """Return SQL for the columns of split lines: what is too many belongs to the column of free text."""
        place, count = self._free_column() or 0, len(self.columns)
        extra = f"(len(parts) - {count})"
        chosen = [
            (
                f"parts[{index + 1}]"
                if index < place
                else (
                    f"array_to_string(parts[{place + 1}:{place + 1} + {extra}], '|')" if index == place else f"parts[{index + 1} + {extra}]"
                )
            )
            for index in range(count)
        ]
        return ", ".join(f"{text} as {quoted(name)}" for text, name in zip(chosen, self.columns, strict=True))

    def ragged_rows(self) -> list[Fault]:
        """List rows that do not have as many cells as the header, once all columns in use have been read."""
        if self.typed:
            return []
        if self._free_column() is not None:
            short = self._execute(f"select line_number from {self._lines()} where len(parts) < {len(self.columns)} order by 1 limit 40")
            return [
                Fault(self.file.name, int(line), "", "", "the row has fewer cells than the header", "Export it again.") for (line,) in short
            ]
        found = self._execute("select distinct line, error_type from reject_errors order by line")
        if any(kind == "INVALID ENCODING" for _, kind in found):
            self.refuse(f"the file is not {self.encoding.upper()}", "Save it as 'CSV UTF-8', or give encoding=latin-1 or encoding=utf-16.")
        remedy = "Quote texts that contain the delimiter; write numbers without thousands separators."
        if self.free and self.delimiter == "|":
            remedy = (
                "sacct quotes nothing: export only one of"
                f" {', '.join(name for name in self.columns if name in self.free) or 'the free texts'}, or give sacct --delimiter another"
                " sign."
            )
        plain = {"MISSING COLUMNS": "fewer cells than the header", "TOO MANY COLUMNS": "more cells than the header"}
        return [
            Fault(
                self.file.name,
                int(line),
                "",
                "",
                f"the row has {plain[kind]}" if kind in plain else f"the row cannot be read ({str(kind).lower()})",
                remedy,
            )
            for line, kind in found
        ]

    def spreadsheet_rows(self, ordinals: list[int]) -> dict[int, int]:
        """Say in which row of a spreadsheet the n-th data row stands (blank lines count, the header is 1)."""
        if self.typed or not ordinals or self.file.name.lower().endswith(".zst") or self._free_column() is not None:
            return {ordinal: ordinal + 1 for ordinal in ordinals}
        wanted, last, found, seen = set(ordinals), max(ordinals), {}, -1
        lines, bare = self.text_lines(), self.delimiter == "|"
        reader = csv.reader(lines, delimiter="|", quoting=csv.QUOTE_NONE) if bare else csv.reader(lines, delimiter=self.delimiter)
        for row, cells in enumerate(reader, start=1):
            if not cells or (seen >= 0 and len(cells) != len(self.columns)):
                continue
            seen += 1
            if seen in wanted:
                found[seen] = row
            if seen >= last:
                break
        return {ordinal: found.get(ordinal, ordinal + 1) for ordinal in ordinals}
