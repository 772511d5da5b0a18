"""Quarters, days and instants of a sentence, against the day that a book is planned on."""

import calendar
import datetime as dt
import re
from dataclasses import dataclass, replace

from capplan.answers.ask.tokens import Moment, Word

_MONTH = "|".join(
    [*(name.casefold() for name in calendar.month_name if name), "sept", *(name.casefold() for name in calendar.month_abbr if name)]
)
_TIME = r"(?:(?:\s*,)?\s*(?:(?:at|by)\s+)?(?:\d{1,2}:\d{2}(?:\s*(?:am|pm))?|\d{1,2}\s*(?:am|pm)|noon|midnight)(?:\s*utc\b)?)?"
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_DATES = tuple(
    re.compile(pattern + r"(?![A-Za-z0-9-])", re.I)
    for pattern in (
        rf"\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}(?:T\d{{2}}:\d{{2}}(?::\d{{2}})?Z?\b|{_TIME})",
        rf"(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?(?:\s+(?:of\s+)?|-)(?:{_MONTH})\.?(?:(?:,?\s+|-)\d{{4}})?{_TIME}",
        rf"(?:{_MONTH})\.?\s+(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?{_TIME}",
        rf"(?:this\s+|coming\s+)?(?:{_DAYS}|tomorrow|today){_TIME}",
    )
)
_MONTHLY = re.compile(rf"((?:at\s+)?(?:the\s+)?(?:very\s+)?end of\s+)?({_MONTH})\b(?:,?\s+(\d{{4}}))?(?![A-Za-z0-9])", re.I)
#: The middle of a month is its fifteenth.
_MIDDLE = re.compile(rf"(?:the\s+)?mid(?:dle)?[\s-]+(?:of\s+)?(?={_MONTH}\b)", re.I)
_QUARTER = re.compile(
    r"(?:(\d{4})\s*-?\s*q([1-4])|(?:the\s+)?(?:q([1-4])|([1-4])q|(first|second|third|fourth|last)\s+quarter)"
    r"(?:(?:\s*[/'-]?\s*|\s+(?:of|in)\s+)((?:20)?\d{2}))?)(?![A-Za-z0-9%-])",
    re.I,
)
_END = re.compile(
    r"(?:at\s+)?(?:the\s+)?(?:very\s+)?end\s+of\s+(?:the\s+year|year|(20\d{2})(?![\w-])|(?=\d{4}\s*-?q|q[1-4]|[1-4]q|the\s+(?:first|second|third|fourth|last)\s+quarter))",
    re.I,
)
_ORDINALS = ("first", "second", "third", "fourth")
_UNSURE = (
    (re.compile(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}(?!\d)"), "day and month can be taken for each other; write the day like 2027-02-05"),
    (re.compile(rf"next\s+(?:{_DAYS}|week)\b", re.I), "this day or the one after; write the day like 2027-02-05"),
)
#: Quarters and months by how far off they are, a half of a year, and a year where a word says that it is one.
_RELATIVE = re.compile(r"(?:the\s+)?(this|next|coming|following|quarter\s+after\s+next)(?:\s+(quarter|month|year))?(?![A-Za-z0-9])", re.I)
_HALF = re.compile(
    r"(?:the\s+)?(?:h([12])(?:\s*[/'-]\s*|\s+(?:(?:of|in)\s+)?)|([12])h\s*|(first|second)\s+half\s+(?:of|in)\s+)((?:20)?\d{2})(?![A-Za-z0-9%-])",
    re.I,
)
_YEAR = re.compile(r"(?:(?:fy|calendar|fiscal|the year)\s*)?'?(20\d{2})(?![A-Za-z0-9%-]|[.,]\d)", re.I)
_OF_A_YEAR = re.compile(r"\b(?:in|during|throughout|over|all of|from|since|until|of|for|the)\s+$", re.I)


@dataclass
class Days:
    """Reads the days of a sentence."""

    text: str  #: The sentence.
    as_of: dt.date  #: The day that days of the week count from.
    first_quarter: str = ""  #: The first quarter that is planned, such as "2027Q1"; quarters without a year count from it.

    def at(self, start: int) -> Word | None:
        """Read a quarter, several of them, a day or an instant."""
        for pattern, why in _UNSURE:
            found = pattern.match(self.text, start)
            if found:
                return Word("UNSURE", start, found.end(), why=f"{found.group()!r}: {why}{self._weekdays(found.group())}")
        if weekday := re.match(rf"({_DAYS}),?\s+(?=[\dA-Za-z])", self.text[start:], re.I):
            day = self.at(start + weekday.end())
            if day and day.kind == "DATE":
                said = self.text[start : day.end]
                right = f"{day.value.when:%A}".casefold() == weekday[1].casefold()
                return replace(day, start=start) if right else Word("UNSURE", start, day.end, why=f"{said!r} is no {weekday[1]}")
        found = _END.match(self.text, start)
        if found:
            last = _QUARTER.match(self.text, found.end())
            quarter = self._quarter(last) if last else f"{found[1] or self.as_of.year}Q4"
            month = 3 * int(quarter[-1])
            when = dt.datetime(int(quarter[:4]), month, calendar.monthrange(int(quarter[:4]), month)[1])
            return Word("DATE", start, last.end() if last else found.end(), Moment(when, "day"))
        found = _QUARTER.match(self.text, start)
        if found:
            return Word("QUARTER", start, found.end(), self._quarter(found))
        if period := self._span(start):
            return period
        if (middle := _MIDDLE.match(self.text, start)) and (found := _MONTHLY.match(self.text, middle.end())):
            middle_of = self._month(found, start)
            return replace(middle_of, value=Moment(middle_of.value.when.replace(day=15), "day"))
        for pattern in _DATES:
            found = pattern.match(self.text, start)
            if found:
                return self._moment(found, start)
        found = _MONTHLY.match(self.text, start)
        if found and (found[3] or found[1] or found[2].casefold() not in ("may", "mar", "sep", "dec", "march")):
            return self._month(found, start)
        return None

    def _span(self, start: int) -> Word | None:
        """Read a quarter or month by how far off it is, half a year, or a year."""
        if (found := _RELATIVE.match(self.text, start)) and (found[2] or "after" in found[1]):
            steps = 0 if found[1].casefold() == "this" else 2 if "after" in found[1] else 1
            unit = (found[2] or "quarter").casefold()
            if unit == "quarter":
                return Word("QUARTER", start, found.end(), _quarter_after(self.as_of, steps))
            if unit == "year":
                return Word("PERIOD", start, found.end(), _quarters_of(self.as_of.year + steps))
            year, month = divmod(12 * self.as_of.year + self.as_of.month - 1 + steps, 12)
            return Word("DATE", start, found.end(), Moment(dt.datetime(year, month + 1, 1), "month"))
        if found := _HALF.match(self.text, start):
            half = int(found[1] or found[2] or 1 + (found[3].casefold() == "second"))
            return Word("PERIOD", start, found.end(), _quarters_of(int(f"20{found[4][-2:]}"))[2 * half - 2 : 2 * half])
        found = _YEAR.match(self.text, start)
        if found and (
            _OF_A_YEAR.search(self.text[:start]) or not found[0][0].isdigit() or re.match(r"\s+budgets?\b", self.text[found.end() :], re.I)
        ):
            ends = re.match(
                r"\s*(?:$|[,.;:?!)]|(?:and|or|onwards?|on|budgets?|alone|only|is|are|was|by|we|the|to)\b)", self.text[found.end() :], re.I
            )
            return Word("PERIOD", start, found.end(), _quarters_of(int(found[1]))) if ends else None
        return None

    def _weekdays(self, said: str) -> str:
        """Say which two days a day of next week may be."""
        days = [name.casefold() for name in calendar.day_name]
        named = said.casefold().split()[-1]
        if named not in days:
            return ""
        first = self.as_of + dt.timedelta(days=(days.index(named) - self.as_of.weekday() - 1) % 7 + 1)
        return f" ({first} or {first + dt.timedelta(days=7)})"

    def _quarter(self, found: re.Match[str]) -> str:
        """Return a quarter; without a year, the first one of its number that is planned."""
        said = found[2] or found[3] or found[4]
        number = int(said) if said else 4 if found[5].casefold() == "last" else _ORDINALS.index(found[5].casefold()) + 1
        begin = self.first_quarter or _quarter_after(self.as_of, 0)
        year = found[1] or found[6] or str(int(begin[:4]) + (number < int(begin[-1])))
        return f"{year if len(year) == 4 else '20' + year}Q{number}"

    def _moment(self, found: re.Match[str], start: int) -> Word:
        import dateparser

        base = dt.datetime.combine(self.as_of, dt.time())
        text = re.sub(r"\b(utc|coming|this|the|of)\b", " ", found.group(), flags=re.I).replace("noon", "12:00").replace("midnight", "00:00")
        when = dateparser.parse(
            text, languages=["en"], settings={"RELATIVE_BASE": base, "PREFER_DATES_FROM": "future", "DATE_ORDER": "YMD", "TIMEZONE": "UTC"}
        )
        if when is None:
            return Word("UNSURE", start, found.end(), why=f"{found.group()!r} is no day of the calendar")
        timed = re.search(r"\d:\d{2}|\d\s*[ap]m\b|noon|midnight", found.group(), re.I) is not None
        return Word("DATE", start, found.end(), Moment(when.replace(tzinfo=None), "time" if timed else "day"))

    def _month(self, found: re.Match[str], start: int) -> Word:
        number = next(place for place, name in enumerate(calendar.month_abbr) if place and found[2][:3].casefold() == name.casefold())
        year = int(found[3]) if found[3] else self.as_of.year + (number < self.as_of.month)
        last = calendar.monthrange(year, number)[1]
        when = dt.datetime(year, number, last if found[1] else 1)
        return Word("DATE", start, found.end(), Moment(when, "day" if found[1] else "month"))


def _quarter_after(day: dt.date, steps: int) -> str:
    year, quarter = divmod(4 * day.year + (day.month - 1) // 3 + steps, 4)
    return f"{year}Q{quarter + 1}"


def _quarters_of(year: int) -> tuple[str, ...]:
    return tuple(f"{year}Q{number}" for number in (1, 2, 3, 4))
