"""Turn the times of a foreign file into instants in UTC: written in any way, or counted in any unit."""

import re
from collections.abc import Sequence

import pandas as pd

from capplan.ingest.opening import ALIKE, Sheet, UnlikeFilesError, quoted, text_literal

_ZONE_AT_THE_END = "(Z|z|UTC|GMT|[+-]\\d{2}(:?\\d{2})?)$"
#: Unix times before September 1998 are taken for counts from an unknown start.
_FIRST_UNIX_SECOND = 9.05e8
#: Unit of times that are numbers: the least that is taken for it, and how many are in a second.
_UNITS = {"nanoseconds": (1e17, 1e9), "microseconds": (1e14, 1e6), "milliseconds": (1e11, 1e3), "seconds": (0.0, 1.0)}
#: Ways to write a day that are not ISO 8601, with what it is called; years have two or four digits, and any clock may follow.
_DAYS = {
    "%m/%d/": "month/day/year",
    "%d/%m/": "day/month/year",
    "%d.%m.": "day.month.year",
    "%m-%d-": "month-day-year",
    "%d-%m-": "day-month-year",
    "%b %d ": "name of month, day, year",
    "%d-%b-": "day-name of month-year",
}
#: SQL for whether a time does not begin with a year: a letter, or a sign after one or two digits.
_NO_YEAR_FIRST = "{0} > ':' or substr({0}, 2, 1) in ('/', '.', '-') or substr({0}, 3, 1) in ('/', '.', '-')"
_FIRST_ROWS = 1_000
_TAILS = [
    year + clock
    for year in ("%y", "%Y")
    for clock in ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%g", " %I:%M %p", " %I:%M:%S %p", " %I:%M:%S.%g %p", " %I:%M%p")
]


def written_days(sheet: Sheet, sources: Sequence[str]) -> dict[str, str]:
    """Find out how columns write times that are not ISO 8601; what one column leaves open, another of the file may decide.

    Args:
        sheet: With the view `cells`.

    Returns:
        dict of str: Key of `_DAYS` by column; columns of other times, and those with cells that fit no way as a whole, are left out.

    Raises:
        BookError: If days and months of all columns can be taken for each other.
    """
    fitting: dict[str, set[str]] = {}
    for source in dict.fromkeys(sources):
        text = quoted(source)
        odd = f"try_cast({text} as timestamp) is null and try_cast({text} as timestamptz) is null and try_cast({text} as double) is null"
        if not any(count for (count,) in sheet.per_file(f"count({text}) filter ({odd})")):
            continue
        tallies = sheet.per_file(f"count({text}), " + ", ".join(f"count({_written(text, day)})" for day in _DAYS))
        each = [{day for day, count in zip(_DAYS, counts, strict=True) if count == filled} for filled, *counts in tallies if filled]
        fitting[source] = set.intersection(*each)
        if not fitting[source] and all(each):
            raise UnlikeFilesError
    decided = {next(iter(days)) for days in fitting.values() if len(days) == 1}
    found = {}
    for source, days in fitting.items():
        chosen = days if len(days) < 2 else (days & decided)
        if len(chosen) == 1:
            found[source] = next(iter(chosen))
        elif days:
            if sheet.many:
                raise UnlikeFilesError
            first = min(days)
            sample, *clocks = sheet.rows(
                f"select min({quoted(source)}), "
                + ", ".join(f"count({_written(quoted(source), first, [tail])})" for tail in _TAILS)
                + " from cells"
            )[0]
            tail = max(zip(clocks, _TAILS, strict=True))[1]
            ways = " or ".join(f"time_format={day}{tail}" for day in sorted(days))
            rule = "no cell says which number is the day and which the month"
            sheet.refuse(rule, f"Say it: {ways}.", value=str(sample), column=source)
    said = [f"Times are written {_DAYS[day]}; give time_format= where that is wrong." for day in dict.fromkeys(found.values())]
    sheet.notes += [note for note in said if note not in sheet.notes]
    return found


def years_first(sheet: Sheet, sources: Sequence[str]) -> bool:
    """Say whether times begin with their years, as far as the first rows show, so that the last text is the latest time."""
    odd = " or ".join(f"bool_or({_NO_YEAR_FIRST.format(quoted(source))})" for source in sources)
    return not sheet.rows(f"select coalesce({odd}, false) from (from cells limit {_FIRST_ROWS})")[0][0]


def _written(text: str, day: str, tails: Sequence[str] = _TAILS) -> str:
    """Return SQL for a time of which the day is written in this way, missing where it is not."""
    patterns = ", ".join(text_literal(day + tail) for tail in tails)
    plain = f"trim(regexp_replace(replace(replace({text}, ',', ''), chr(8239), ' '), '\\s*(UTC|GMT|Z)$', ''))"
    return f"try_strptime({plain}, [{patterns}])::timestamp"


def instant(sheet: Sheet, source: str, times: Sequence[str] = ()) -> tuple[str, list[tuple[str, str, str]]]:
    """Return SQL for an instant in UTC, and what would be wrong with it; `times` are all columns of times (see `written_days`)."""
    text, options = quoted(source), sheet.options
    is_zoned = f"(contains({text}, ':') and regexp_matches(right({text}, 6), '{_ZONE_AT_THE_END}'))"
    number = f"try_cast({text} as double)"
    tallies = sheet.per_file(
        f"count({text}), count({number}), count(*) filter ({is_zoned}), min({number}) filter (isfinite({number})), "
        f"max({number}) filter (isfinite({number})), count(*) filter ({_NO_YEAR_FIRST.format(text)})"
    )
    filled, zoned = sum(tally[0] for tally in tallies), sum(tally[2] for tally in tallies)
    remedy = "Write instants like 2023-11-16T18:17:03 in UTC or with a zone, or give their pattern: time_format=%d.%m.%Y %H:%M."
    kinds = {_kind_of_times(sheet, source, tally) for tally in tallies if tally[0]}
    if len(kinds) > 1:
        raise UnlikeFilesError
    counted = kinds.pop() if kinds else ""
    if counted:
        return counted, [(f"{text} is not null and {counted} is null", "a time is needed", remedy)]
    day = written_days(sheet, times).get(source) if options.time_format is None and any(tally[5] for tally in tallies) else None
    if options.time_format is not None:
        naive = f"try_strptime({text}, {text_literal(options.time_format)})::timestamp"
        zoned = filled if "%z" in options.time_format else 0
        aware = f"timezone('UTC', try_strptime({text}, {text_literal(options.time_format)})::timestamptz)"
    elif day is not None:
        naive = aware = _written(text, day)
    else:
        naive, aware = (
            f"try_cast({text} as timestamp)",
            f"timezone('UTC', try_cast(regexp_replace({text}, '\\s+([Zz+-])', '\\1') as timestamptz))",
        )
    if 0 < zoned < filled:
        rule = f"{zoned} cells of the column state a time zone and {filled - zoned} do not"
        problem = (f"{text} is not null and not {is_zoned}", rule, "Give every time its zone, or write all of them in UTC.")
        return aware, [(f"{text} is not null and {aware} is null", "a time is needed", remedy), problem]
    if zoned:
        return aware, [(f"{text} is not null and {aware} is null", "a time is needed", remedy)]
    broken = (f"{text} is not null and {naive} is null", "a time is needed", remedy)
    zone = options.timezone
    if zone is None:
        note = "Times state no zone and are taken as UTC; give timezone= where that is wrong."
        if note not in sheet.notes and filled:
            sheet.notes.append(note)
    if zone in (None, "UTC"):
        return naive, [broken]
    place = text_literal(str(zone))
    universal = f"timezone('UTC', timezone({place}, {naive}))"
    back = f"timezone({place}, timezone({place}, {naive}))"
    twice = " or ".join(f"timezone({place}, timezone({place}, {naive}) {sign} interval 1 hour) = {naive}" for sign in "+-")
    doubled = sheet.rows(f"select coalesce(sum({ALIKE}), 0)::bigint from cells where {twice}")[0][0]
    if doubled:
        sheet.notes.append(
            f"{doubled} times of {source} lie in an hour that {zone} has twice (end of summer time); they are taken as its second pass,"
            " winter time."
        )
    missing = (
        f"{back} <> {naive}",
        f"the hour does not exist in {zone} (start of summer time)",
        "Export the times in UTC, or with their zone.",
    )
    return universal, [broken, missing]


def _kind_of_times(sheet: Sheet, source: str, tally: tuple[int, int, int, float | None, float | None, int]) -> str:
    """Return SQL for instants that are counted, or an empty text for those that are written; files whose zones differ are unlike."""
    filled, numeric, zoned, low, high, _ = tally
    # "nan" and "inf" alone count nothing
    if numeric == filled and low is not None and high is not None and sheet.options.time_format is None:
        return _counted(sheet, source, low, high)
    if sheet.many and zoned not in (0, filled):
        raise UnlikeFilesError
    return ""


def _counted(sheet: Sheet, source: str, low: float, high: float) -> str:
    """Return SQL for instants that are counted in seconds to nanoseconds."""
    options, text = sheet.options, quoted(source)
    ending = re.search(r"(nanoseconds|nanos?|_ns|microseconds|micros|_us|milliseconds|millis|_ms)$", source.lower())
    mark = ending[1].lstrip("_") if ending else ""
    named = (
        "seconds" if not mark else "nanoseconds" if mark[0] == "n" else "microseconds" if mark.startswith(("us", "mic")) else "milliseconds"
    )
    largest = max(abs(low), abs(high))
    sized = next(unit for unit, (least, _) in _UNITS.items() if largest >= least)
    unit = options.time_unit if options.time_unit != "auto" else (sized if sized != "seconds" else named)
    per_second = _UNITS[unit][1]
    if options.start is not None:
        start = pd.Timestamp(options.start)
        start = start.tz_localize(options.timezone or "UTC") if start.tzinfo is None else start
        start = start.tz_convert("UTC").tz_localize(None)
        note = f"Times are {unit} from {start:%Y-%m-%d %H:%M} UTC on."
    else:
        if low / per_second < _FIRST_UNIX_SECOND:
            sheet.refuse(
                f"times are counted in {unit} from a start that the file does not give",
                "Give it: start=2026-01-05 (UTC, or with a zone).",
                column=source,
            )
        start = pd.Timestamp(0)
        note = f"Times are Unix times in {unit}."
    if note not in sheet.notes:
        sheet.notes.append(note)
    factor = 1e6 / per_second
    micros = (
        f"try_cast({text} as decimal(38, 6)) * {factor:.0f}" if factor >= 1 else f"try_cast({text} as decimal(38, 6)) / {1 / factor:.0f}"
    )
    bounded = f"case when abs({micros}) < 4e15 then {micros} end"
    return f"(timestamp '{start}' + to_microseconds(cast(round({bounded}) as bigint)))"
