"""Recognise the columns of a foreign file and convert their cells in SQL; what does not fit is named with row, column and value."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from capplan.errors import BookError, Fault, suggestion
from capplan.ingest.instants import instant, years_first
from capplan.ingest.opening import ALIKE, FILE, Sheet, UnlikeFilesError, quoted

#: Cells of one kind of fault that are looked up; a message shows at most forty in all.
SHOWN = 40
#: Rows from which it is judged what an optional column holds.
SAMPLE = 10_000
#: Kinds of columns that are numbers.
_NUMBERS = ("number", "money", "dollars")
#: Times outside of these years are typing errors, or in another unit.
FIRST_YEAR, LAST_YEAR = 1990, 2099


@dataclass(frozen=True)
class Wanted:
    """A column that a format needs or can use."""

    name: str  #: Name that the format's SQL uses.
    #: text, number (a decimal with twelve places, so that sums are exact), money (a number that may have a currency sign and thousands
    #: separators, and be negative in brackets), dollars (a price of an hour in US dollars, whose unit may stand with it), time (an instant
    #: in UTC), or clock (a duration like 1-02:03:04, in seconds).
    kind: Literal["text", "number", "money", "dollars", "time", "clock"]
    aliases: tuple[str, ...] = ()  #: Names under which files have it, the first that is there counts; case, blanks and signs do not matter.
    required: bool = True  #: Must the column be there?
    filled: bool = True  #: Must every cell be filled?
    minimum: float | None = None  #: Smallest value allowed.
    apart: bool = True  #: Do rows that differ in this text stand apart (see `convert`)?
    lenient: bool = False  #: Is a cell that cannot be read as good as an empty one?


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def recognise(sheet: Sheet, wanted: Sequence[Wanted]) -> dict[str, str]:
    """Find out which column of the file is which.

    Returns:
        dict: Name of the file's column by wanted name; optional ones that are missing are left out.

    Raises:
        BookError: One fault for the layout as a whole, listing what is needed and what was found.
    """
    given, file = sheet.options.columns, sheet.file.name
    faults = _misnamed(sheet, wanted)
    by_plain = {_plain(name): name for name in reversed(sheet.columns) if name not in sheet.options.ignore}
    matched = {}
    for column in wanted:
        aliases = [by_plain[_plain(alias)] for alias in (column.name, *column.aliases) if _plain(alias) in by_plain]
        if column.name in given or aliases:
            matched[column.name] = given[column.name] if column.name in given else aliases[0]
    faults += [
        Fault(file, 1, name, name, "a column that is needed may occur only once", "Delete one of the two, or name it by columns=.")
        for name in matched.values()
        if name in sheet.repeated and name not in given.values()
    ]
    missing = [column for column in wanted if column.required and column.name not in matched]
    if missing:
        needs = "; ".join(
            f"{column.name} (also called {', '.join(column.aliases[:4])})" if column.aliases else column.name for column in missing
        )
        example = ",".join(f"{column.name}=NAME" for column in missing)
        shown = ", ".join(sheet.columns[:30]) + (", ..." if len(sheet.columns) > 30 else "")
        mend = f"Name it: columns={example}; or choose another format."
        faults.append(Fault(file, 1, "", shown, f"the layout is unknown: no column for {needs}", mend))
    if faults:
        raise BookError(faults, where=file)
    return matched


def _misnamed(sheet: Sheet, wanted: Sequence[Wanted]) -> list[Fault]:
    """Return a fault for each column that an option names and that is not there."""
    given, known, file = sheet.options.columns, {column.name for column in wanted}, sheet.file.name
    numbers = {column.name for column in wanted if column.kind in _NUMBERS}
    absent = "names a column that the file does not have"
    faults = [
        Fault(file, 1, needed, found, f"columns= names {needed}, which this format does not use", suggestion(needed, known))
        for needed, found in given.items()
        if needed not in known
    ]
    faults += [
        Fault(file, 1, needed, found, f"columns= {absent}", suggestion(found, sheet.columns))
        for needed, found in given.items()
        if needed in known and found not in sheet.columns
    ]
    faults += [
        Fault(file, 1, name, name, f"ignore= {absent}", suggestion(name, sheet.columns))
        for name in sheet.options.ignore
        if name not in sheet.columns
    ]
    return faults + [
        Fault(file, 1, name, name, f"scale= names {name}, which is no number of this format", suggestion(name, numbers))
        for name in sheet.options.scale
        if name not in numbers
    ]


@dataclass(frozen=True)
class _Cell:
    """SQL of one column: its text, its value, and what would be wrong with it."""

    column: Wanted
    source: str
    text: str
    value: str
    problems: tuple[tuple[str, str, str], ...]  # condition, rule, remedy


def convert(sheet: Sheet, wanted: Sequence[Wanted], *, alike: bool = False) -> dict[str, str]:
    """Create the view `typed`: the wanted columns in their types (missing optional ones are NULL), file and alike.

    `file` is the place of the row's file, `alike` the number of its rows that the row stands for.

    Args:
        sheet, wanted: What is read, and the columns wanted of it.
        alike: Let rows that differ in their numbers alone stand together, with the sums of these and the last text of columns that do not
            tell rows apart (see `Sheet.alike_together`). A fault that is found names its rows only where rows stand alone: read row by row
            then.

    Returns:
        dict: Name of the file's column by wanted name.

    Raises:
        BookError: With every cell that cannot be converted, and every row with too few or too many cells.
        UnlikeFilesError: If there are several files, and they differ in how they are read or have any fault.
    """
    matched = recognise(sheet, wanted)
    _leave_out_misnamed(sheet, wanted, matched)
    numbers = {column: matched[column.name] for column in wanted if column.kind in _NUMBERS and column.name in matched}
    comma = _decimal_comma(sheet, list(numbers.values()))
    stated = [column for column in wanted if column.name in matched and column not in numbers]
    texts, latest = ({matched[column.name] for column in stated if column.apart is apart} for apart in (True, False))
    if latest and not years_first(sheet, sorted(latest)):  # the last text is not the latest time
        texts, latest = texts | latest, set()
    if alike and len({*numbers.values(), *texts, *latest}) == len(numbers) + len(texts) + len(latest):
        number_of = {source: partial(_number, kind=column.kind, comma=comma) for column, source in numbers.items()}
        sheet.alike_together(sorted(texts), number_of, sorted(latest))
    times = [matched[column.name] for column in wanted if column.kind == "time" and column.name in matched]
    cells = [_cell(sheet, column, matched[column.name], times, comma=comma) for column in wanted if column.name in matched]
    faults = _faults(sheet, cells)
    if faults:
        raise BookError(sorted(faults, key=lambda fault: fault.row), shown=SHOWN, where=sheet.file.name)
    found = {cell.column.name: cell.value for cell in cells}
    types = {
        "text": "varchar",
        "number": "decimal(38, 12)",
        "money": "decimal(38, 12)",
        "dollars": "decimal(38, 12)",
        "clock": "decimal(38, 12)",
        "time": "timestamp",
    }
    chosen = ", ".join(f"cast({found.get(column.name, 'null')} as {types[column.kind]}) as {quoted(column.name)}" for column in wanted)
    sheet.connection.execute(f"create or replace view typed as select {chosen}, {FILE} as file, {ALIKE} as alike from cells")
    return matched


def _cell(sheet: Sheet, column: Wanted, source: str, times: list[str], *, comma: bool) -> _Cell:
    """Return SQL for the value of a column of the file, and for what would be wrong with it."""
    text = quoted(source)
    if column.kind == "text":
        value, problems = text, []
    elif column.kind in _NUMBERS:
        value = _number(text, column.kind, comma=comma)
        if column.name in sheet.options.scale:
            value = f"cast({value} * {sheet.options.scale[column.name]!r} as decimal(38, 12))"
        remedy = "Write plain numbers without thousands separators, units or currency signs" + ("." if comma else ", with a decimal point.")
        problems = [(f"{text} is not null and {value} is null", "a number is needed", remedy)]
    elif column.kind == "clock":
        value = _clock(text)
        problems = [
            (f"{text} is not null and {value} is null", "a duration is needed", "Write it like 1-02:03:04 (days-hours:minutes:seconds).")
        ]
    else:
        value, problems = instant(sheet, source, times)
        years = f"{FIRST_YEAR} to {LAST_YEAR}"
        outside = f"not ({value} between timestamp '{FIRST_YEAR}-01-01' and timestamp '{LAST_YEAR}-12-31 23:59:59.999999')"
        problems.append(
            (outside, f"a time in the years {years} is needed", "Correct it, or say what the numbers count: time_unit=, start=.")
        )
    if column.required and column.filled:
        problems.append((f"{text} is null", "the cell must not be empty", "Fill it in or delete the row."))
    if column.minimum is not None:
        problems.append(
            (f"{value} < {column.minimum:g}", f"the value must be at least {column.minimum:g}", "Correct it or delete the row.")
        )
    problems.append((f"contains({text}, chr(0))", "a cell must not hold a NUL character", "Export the file again: it is damaged here."))
    return _Cell(column, source, text, value, () if column.lenient else tuple(problems))


def _number(text: str, kind: str, *, comma: bool) -> str:
    """Return SQL for the number in a text, missing where there is none."""
    plain = f"replace({text}, ',', '.')" if comma else text if kind == "number" else _bare(text, _DOLLARS if kind == "dollars" else _MONEY)
    return f"try_cast({plain} as decimal(38, 12))"


def _leave_out_misnamed(sheet: Sheet, wanted: Sequence[Wanted], matched: dict[str, str]) -> None:
    """Leave out optional columns in which no cell fits: they only share a name with what is meant."""
    tests: dict[str, Callable[[str], str]] = {
        "number": "try_cast({0} as double)".format,
        "dollars": lambda text: f"try_cast({_bare(text, _DOLLARS)} as double)",
        "clock": "nullif(contains({0}, ':'), false)".format,
    }
    doubtful = [
        column
        for column in wanted
        if column.name in matched and not column.required and column.kind in tests and column.name not in sheet.options.columns
    ]
    if not doubtful:
        return
    counts = ", ".join(
        f"count({quoted(matched[column.name])}), count({tests[column.kind](quoted(matched[column.name]))})" for column in doubtful
    )
    found = sheet.rows(f"select {counts} from (from cells limit {SAMPLE})")[0]
    for place, column in enumerate(doubtful):
        if found[2 * place] and not found[2 * place + 1]:
            kind = "durations" if column.kind == "clock" else "numbers"
            fits = sheet.rows(f"select count({tests[column.kind](quoted(matched[column.name]))}) from cells")[0][0] if sheet.many else 0
            if fits:
                raise UnlikeFilesError
            sheet.notes.append(f"The column {matched[column.name]} does not hold {kind}; it was not read as {column.name}.")
            del matched[column.name]


#: What stands around the number in an amount of money, and in a price of an hour in US dollars.
_MONEY, _DOLLARS = r"[$€£]|\s", r"[$]|\s|USD|(hourly|perhour|/(hour|hr|h))$"


def _bare(text: str, around: str = _MONEY) -> str:
    """Return SQL for the number in an amount of money like $1,234.50, -$5 or ($5.00)."""
    plain = text if around == _MONEY else f"replace({text}, ' ', '')"
    amount = f"regexp_replace({plain}, '{around}', '', 'g')"
    grouped = (
        f"case when regexp_full_match({amount}, '[(]?[+-]?\\d{{1,3}}(,\\d{{3}})+(\\.\\d*)?[)]?') then replace({amount}, ',', '') else"
        f" {amount} end"
    )
    return f"case when try_cast({text} as double) is not null then {text} else regexp_replace({grouped}, '^[(](.*)[)]$', '-\\1') end"


def _decimal_comma(sheet: Sheet, columns: list[str]) -> bool:
    """Decide whether numbers are written with a decimal comma."""
    if sheet.options.decimal != "auto":
        return sheet.options.decimal == ","
    if sheet.delimiter == "," or not columns:
        return False
    shape = "regexp_full_match({0}, '[+-]?\\d{{1,3}}(,\\d{{3}})+')"
    counts = [
        " + ".join(f"count(*) filter ({test.format(quoted(column))})" for column in columns)
        for test in ("contains({0}, ',')", "contains({0}, '.')", shape)
    ]
    tallies = [tally for tally in sheet.per_file(", ".join(counts)) if tally[0] or tally[1]]
    if not tallies or all(dots for _, dots, _ in tallies):
        return False
    if any(dots for _, dots, _ in tallies):
        raise UnlikeFilesError
    if any(grouped == commas for commas, _, grouped in tallies):
        sheet.refuse("1,234 may be a decimal comma or a thousands separator", "Give decimal=',' or decimal='.' to say which it is.")
    sheet.notes.append("Numbers have a decimal comma.")
    return True


def _clock(text: str) -> str:
    """Return SQL for a duration like 1-02:03:04, 02:03:04 or 03:04.5, in seconds."""
    days = f"coalesce(try_cast(nullif(regexp_extract({text}, '^(\\d+)-', 1), '') as bigint), 0)"
    rest = f"string_split(regexp_replace({text}, '^\\d+-', ''), ':')"
    part = f"coalesce(try_cast({rest}[-{{0}}] as decimal(18, 6)), 0)"
    seconds = f"{part.format(1)} + 60 * {part.format(2)} + 3600 * {part.format(3)} + 86400 * {days}"
    return (
        f"case when regexp_full_match({text}, '(\\d+-)?(\\d+:)?\\d{{1,2}}:\\d{{2}}(\\.\\d+)?') then cast({seconds} as decimal(38, 12)) end"
    )


def _faults(sheet: Sheet, cells: list[_Cell]) -> list[Fault]:
    """Count all problems in one pass, and look up the cells of those that occur; rows that are not whole are faults too."""
    checks = [(cell, *problem) for cell in cells for problem in cell.problems]
    # Every column in use is read here, so that rows that cannot be read are known before any is left out.
    tallies = ", ".join(
        ["count(*)", *(f"count({cell.text})" for cell in cells), *(f"count(*) filter ({condition})" for _, condition, _, _ in checks)]
    )
    per_file = sheet.per_file(tallies)
    if sheet.many:
        sound = len(per_file) == len(sheet.files) and not any(any(found[1 + len(cells) :]) for found in per_file)
        if not sound or sheet.ragged_rows():
            raise UnlikeFilesError
        return []
    rows_found, *counts = per_file[0]
    ragged = sheet.ragged_rows()
    if rows_found == 0 and not ragged:
        sheet.refuse("the file has a header and no rows", "Export it again.")
    found = []
    for count, (cell, condition, rule, remedy) in zip(counts[len(cells) :], checks, strict=True):
        if count:
            hits = sheet.rows(
                f"select ordinal, {cell.text} from (select row_number() over () as ordinal, * from cells)"
                f" where {condition} order by ordinal limit {SHOWN}"
            )
            found += [(int(ordinal), cell, "" if text is None else str(text), rule, remedy) for ordinal, text in hits]
            if count > SHOWN:
                found.append((0, cell, "", f"{count - SHOWN} more cells break the same rule ({rule})", remedy))
    rows = sheet.spreadsheet_rows([ordinal for ordinal, *_ in found if ordinal])
    return ragged + [
        Fault(sheet.file.name, rows.get(ordinal, 0), cell.source, text, rule, remedy) for ordinal, cell, text, rule, remedy in found
    ]
