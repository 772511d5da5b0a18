"""A sentence as tokens: names of the book, numbers with their units, days and quarters, and the words of planning; nothing is guessed.

What is none of these becomes a token that no sentence of the grammar has, so that it is asked back with the words around it.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from capplan.answers.ask.names import Names, Ref, slip_of
from capplan.answers.ask.vocabulary import COUNTING, counting, phrases

_ATOM = re.compile(r"[A-Za-z]+n't\b|(?:let|what|today|that|it|there)'s\b|[A-Za-z]+'(?:re|ll|ve|m|d|t)\b|[A-Za-z0-9]+|[^\sA-Za-z0-9]", re.I)


def _either(kind: str) -> str:
    """Return a pattern of the words of a kind, the longest first."""
    return "|".join(re.escape(name) for name in sorted(counting(kind), key=len, reverse=True))


#: What may stand between the parts of a name.
_JOINTS = ("-", "_", ".", "/")
#: What may stand within a phrase without a meaning.
_ARTICLES = ("the", "a", "an", "our", "its", "their", "all", "just", "is", "are", "be", "any", "really", "still")
_MONTH = "|".join(
    [*(name.casefold() for name in calendar.month_name if name), "sept", *(name.casefold() for name in calendar.month_abbr if name)]
)
_TIME = r"(?:(?:\s*,)?\s*(?:at\s+)?(?:\d{1,2}:\d{2}(?:\s*(?:am|pm))?|\d{1,2}\s*(?:am|pm)|noon|midnight)(?:\s*utc\b)?)?"
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
_MONTHLY = re.compile(rf"(end of\s+|the end of\s+)?({_MONTH})\b(?:,?\s+(\d{{4}}))?(?![A-Za-z0-9])", re.I)
_QUARTER = re.compile(
    r"(?:(\d{4})\s*-?\s*q([1-4])|(?:the\s+)?(?:q([1-4])|([1-4])q|(first|second|third|fourth|last)\s+quarter)"
    r"(?:(?:\s*[/'-]?\s*|\s+(?:of|in)\s+)((?:20)?\d{2}))?)(?![A-Za-z0-9%-])",
    re.I,
)
_END = re.compile(
    r"(?:the\s+)?(?:very\s+)?end\s+of\s+(?:the\s+year|year|(20\d{2})(?![\w-])|(?=\d{4}\s*-?q|q[1-4]|[1-4]q|the\s+(?:first|second|third|fourth|last)\s+quarter))",
    re.I,
)
_ORDINALS = ("first", "second", "third", "fourth")
_UNSURE = (
    (re.compile(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}(?!\d)"), "day and month can be taken for each other; write the day like 2027-02-05"),
    (re.compile(rf"next\s+(?:{_DAYS}|week|month|quarter|year)\b", re.I), "this day or the one after; write the day like 2027-02-05"),
)
_HALF = re.compile(rf"half\s+an?\s+({'|'.join(name for name in counting('UNIT') if len(name) > 3)})(?![A-Za-z0-9])", re.I)
_IF = re.compile(r"\b(?:if|when|should|supposing|assuming|given that|with|in case|were)\b", re.I)
_NUMBER = re.compile(r"([+-])?\s*([$€£¥]|usd\b|eur\b|gbp\b|chf\b)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d-]*q[1-4])", re.I)
_MAGNITUDE = re.compile(rf"\s*({'|'.join(sorted(counting('MAGNITUDE'), key=len, reverse=True))})\b", re.I)
_PERCENT = re.compile(r"\s*(?:%|percent\b|per cent\b|pct\b)(?!\s*points?)", re.I)
_CENTS = re.compile(r"\s*(?:us\s+)?(?:cents?|ct|¢)(?![a-z])", re.I)
_CURRENCY = re.compile(rf"\s*({'|'.join(re.escape(name) for name in sorted(counting('CURRENCY'), key=len, reverse=True))})(?![a-z])", re.I)
_MORE = r"(?:(?:more|additional|extra|further|full|whole)\s+)?"
_UNIT = re.compile(rf"[\s-]*{_MORE}({'|'.join(sorted(counting('UNIT'), key=len, reverse=True))})s?(?![A-Za-z0-9])", re.I)
_TIMES = re.compile(r"\s*(?:x|times)(?![A-Za-z0-9])", re.I)
_SIZES = (("KW", re.compile(r"\s*(?:kw|kilowatts?)(?![A-Za-z0-9])", re.I)), ("GB", re.compile(r"\s*(?:gb|gib)(?![A-Za-z0-9])", re.I)))


@dataclass(frozen=True)
class Word:
    """A token.

    Args:
        kind: Terminal of the grammar; UNKNOWN where there is none, UNSURE where it can be taken in two ways.
        start, end: Where it stands in the sentence.
        value: What it means: a number, a day, names.
        why: For UNSURE: in which two ways.
    """

    kind: str
    start: int
    end: int
    value: Any = None
    why: str = ""


@dataclass(frozen=True)
class Amount:
    """A number with its unit: a currency, or a unit of time."""

    number: float
    unit: str = ""


@dataclass(frozen=True)
class Moment:
    """A day or an instant; `part` says how precisely it was given: time, day, or month (its first day)."""

    when: dt.datetime
    part: str


@dataclass
class Lexer:
    """Reads sentences about one book.

    Args:
        names: The book's names.
        as_of: The day that days of the week count from.
        fields: Assumptions that can be named, by their parts.
    """

    names: Names
    as_of: dt.date
    fields: dict[tuple[str, ...], str]
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Index the phrases by their parts."""
        self._phrases: dict[tuple[str, ...], tuple[str, Any]] = {}
        for kind, value, phrase in phrases():
            if kind not in COUNTING:
                self._phrases[_atoms_of(phrase)] = (kind, float(value) if value[:1] in "-0123456789" and value else value)
        for parts, name in self.fields.items():
            self._phrases.setdefault(parts, ("FIELD", name))
        for parts, meant in [each for each in self._phrases.items() if each[1][0] != "FILLER"]:
            self._phrases.setdefault((parts[0], *(part for part in parts[1:] if part not in _ARTICLES)), meant)
        self._longest = max(map(len, self._phrases))
        self._single = [parts[0] for parts in self._phrases if len(parts) == 1 and parts[0].isalpha()]

    def read(self, text: str) -> list[Word]:
        """Return the tokens of a sentence without its fillers, and without the question around its what-ifs."""
        self._text = text = self._without_asking(text)
        self._atoms = [(found.group().casefold(), found.start(), found.end()) for found in _ATOM.finditer(text)]
        found: list[Word] = []
        at = 0
        while at < len(self._atoms):
            word = self._word(at, found)
            if word.kind != "FILLER":
                found.append(word)
            at = next((place for place in range(at + 1, len(self._atoms)) if self._atoms[place][1] >= word.end), len(self._atoms))
        return found

    def _without_asking(self, text: str) -> str:
        """Blank the words that only ask what comes of a what-if: before an 'if', and after the last mark of a sentence."""
        words = counting("ASKING")
        heads = [found for found in _IF.finditer(text) if text[: found.start()].strip(" ,.:;-")]
        tails = [found.end() for found in re.finditer(r"[,.;:?!]\s+|\s[-–—]+\s|\s(?:and|then|so)\s", text, re.I)]
        spans = [(0, found.start()) for found in heads] + [(place, len(text)) for place in tails]
        for begin, end in sorted(spans, key=lambda span: span[0] - span[1]):
            said = re.findall(r"[a-z]+(?:['’][a-z]+)?|[^\sa-z]", text[begin:end].casefold().replace("’", "'"))
            plain = [word for word in said if word not in ",.;:?!-–—"]
            phrase = self._phrases.get(tuple(plain)) or self._phrases.get(
                tuple(word for word in plain if word not in ("the", "so", "then"))
            )
            meant = phrase is not None and phrase[0] not in ("FILLER", "IF")
            if len(plain) > 1 and all(word in words for word in plain) and any(words[word] == "1" for word in plain) and not meant:
                text = text[:begin] + " " * (end - begin) + text[end:]
        return text

    def _word(self, at: int, before: list[Word]) -> Word:
        """Return the longest token at an atom."""
        start = self._atoms[at][1]
        name, phrase = self._name(at), self._phrase(at)
        others = [word for word in (self._time(start), self._number(at)) if word]
        if name and phrase and name.end == phrase.end:
            plain = all(ref.kind == "limit" for ref in name.value)
            if phrase.kind == "FILLER" or (before and before[-1].kind.startswith("W_")):
                phrase = None
            elif not plain:
                said = self._text[start : name.end]
                return Word("UNSURE", start, name.end, why=f"{said!r} is a word of planning and {name.value[0]} of this book; say which")
            else:
                name = None
        if phrase and phrase.kind in ("PER_HOUR", "PER_YEAR") and any(word.kind == "SPAN" and word.end == phrase.end for word in others):
            return Word("A_YEAR" if phrase.kind == "PER_YEAR" else "AN_HOUR", start, phrase.end)
        return max([word for word in (name, *others, phrase) if word], key=lambda word: word.end, default=None) or self._odd(at)

    def _end(self, at: int, parts: tuple[str, ...]) -> int:
        """Return where parts end that begin at an atom, with only hyphens and the like between them; 0 where they do not stand there."""
        place, end = at, 0
        for number, part in enumerate(parts):
            while (
                number and place < len(self._atoms) and self._atoms[place][0] in ("-", "_", ".", "/") and part not in ("-", "_", ".", "/")
            ):
                place += 1
            if place >= len(self._atoms) or self._atoms[place][0] != part:
                return 0
            end, place = self._atoms[place][2], place + 1
        return end

    def _ahead(self, at: int, most: int) -> Iterator[tuple[tuple[str, ...], int]]:
        """Return the parts that begin at an atom, the longest first, and where they end."""
        parts: list[tuple[str, int]] = []
        for atom, _, end in self._atoms[at : at + 2 * most]:
            if atom.isalnum():
                parts.append((atom, end))
            elif atom not in (*_JOINTS, "'"):
                break
        for length in range(min(most, len(parts)), 0, -1):
            yield tuple(part for part, _ in parts[:length]), parts[length - 1][1]

    def _name(self, at: int) -> Word | None:
        start = self._atoms[at][1]
        for parts, end in self._ahead(at, self.names.longest):
            refs = self.names.exact(parts) or self._plural(parts)
            said = self._text[start:end]
            short = len(said) < 3 and not said.isupper() and not any(ref.key == said and ref.kind == "task" for ref in refs)
            placed = self._text[:start].casefold().split()[-1:] == ["in"]
            if not refs or (short and ((self._phrase(at) and not placed) or not any(ref.kind == "geography" for ref in refs))):
                continue
            if said.isdigit():
                continue
            return Word("NAME", start, end, tuple(refs))
        return None

    def _plural(self, parts: tuple[str, ...]) -> list[Ref]:
        """Return the accelerators of a plural, such as H100s."""
        one = (*parts[:-1], parts[-1].removesuffix("s"))
        return [ref for ref in self.names.exact(one) if ref.kind == "accelerator"] if one != parts else []

    def _phrase(self, at: int) -> Word | None:
        """Return the longest phrase at an atom, whatever articles and hyphens stand in it."""
        found, parts, plain = None, list[str](), list[str]()
        for atom, _, end in self._atoms[at : at + 2 * self._longest]:
            parts.append(atom)
            plain += [atom] if atom not in _ARTICLES or not plain else []
            kept = tuple(part for part in plain if part not in ("-", "_")) if atom not in ("-", "_") else ()
            meant = self._phrases.get(tuple(parts)) or (self._phrases.get(kept) if atom not in _ARTICLES else None)
            found = Word(meant[0], self._atoms[at][1], end, meant[1]) if meant else found
        return found

    def _time(self, start: int) -> Word | None:
        """Read a quarter, a day or an instant."""
        for pattern, why in _UNSURE:
            found = pattern.match(self._text, start)
            if found:
                return Word("UNSURE", start, found.end(), why=f"{found.group()!r}: {why}{self._weekdays(found.group())}")
        if weekday := re.match(rf"({_DAYS}),?\s+(?=[\dA-Za-z])", self._text[start:], re.I):
            day = self._time(start + weekday.end())
            if day and day.kind == "DATE":
                said = self._text[start : day.end]
                right = f"{day.value.when:%A}".casefold() == weekday[1].casefold()
                return replace(day, start=start) if right else Word("UNSURE", start, day.end, why=f"{said!r} is no {weekday[1]}")
        found = _END.match(self._text, start)
        if found:
            last = _QUARTER.match(self._text, found.end())
            quarter = self._quarter(last) if last else f"{found[1] or self.as_of.year}Q4"
            month = 3 * int(quarter[-1])
            when = dt.datetime(int(quarter[:4]), month, calendar.monthrange(int(quarter[:4]), month)[1])
            return Word("DATE", start, last.end() if last else found.end(), Moment(when, "day"))
        found = _QUARTER.match(self._text, start)
        if found:
            return Word("QUARTER", start, found.end(), self._quarter(found))
        for pattern in _DATES:
            found = pattern.match(self._text, start)
            if found:
                return self._moment(found, start)
        found = _MONTHLY.match(self._text, start)
        if found and (found[3] or found[1] or found[2].casefold() not in ("may", "mar", "sep", "dec", "march")):
            return self._month(found, start)
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
        """Return a quarter; without a year, the next one of its number."""
        said = found[2] or found[3] or found[4]
        number = int(said) if said else 4 if found[5].casefold() == "last" else _ORDINALS.index(found[5].casefold()) + 1
        year = found[1] or found[6] or str(self.as_of.year + (number < (self.as_of.month + 2) // 3))
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

    def _number(self, at: int) -> Word | None:
        """Read a number with what it counts."""
        atom, start, end = self._atoms[at]
        half = _HALF.match(self._text, start)
        if half:
            unit, _, size = counting("UNIT")[half[1].casefold()].partition(" ")
            return Word("SPAN", start, half.end(), Amount(6, "month") if unit == "year" else Amount(float(size) / 2, unit))
        if times := re.match(r"x\s?(\d+(?:\.\d+)?)(?![A-Za-z0-9])", self._text[start:], re.I):
            return Word("TIMES", start, start + times.end(), float(times[1]))
        found = _NUMBER.match(self._text, start)
        sign, sold, number = "", "", 0.0
        if found:
            sign, sold, number, end = found[1] or "", (found[2] or "").casefold(), float(found[3].replace(",", "")), found.end()
        elif atom in counting("NUMBER_WORD"):
            number = float(counting("NUMBER_WORD")[atom])
        else:
            return None
        return self._counted(at, start, end, number, sign, counting("CURRENCY").get(sold, ""), bool(found))

    def _counted(self, at: int, start: int, end: int, number: float, sign: str, currency: str, written: bool) -> Word | None:
        text, value = self._text, -number if sign == "-" else number
        for pattern, kind, factor in ((_PERCENT, "SIGNED" if sign else "PERCENT", 0.01), (_TIMES, "TIMES", 1.0)):
            found = pattern.match(text, end)
            if found:
                return Word(kind, start, found.end(), value * factor)
        found = _MAGNITUDE.match(text, end)
        if found and not (found[1].casefold() == "m" and _UNIT.match(text, end)):
            value, end = value * float(counting("MAGNITUDE")[found[1].casefold()]), found.end()
        found = _CENTS.match(text, end)
        if found:
            return Word("MONEY", start, found.end(), Amount(value / 100, "USD"))
        found = _CURRENCY.match(text, end)
        if found or currency:
            return Word("MONEY", start, found.end() if found else end, Amount(value, currency or counting("CURRENCY")[found[1].casefold()]))  # type: ignore[index]
        for kind, pattern in _SIZES:
            found = pattern.match(text, end)
            if found:
                return Word(kind, start, found.end(), value)
        found = _UNIT.match(text, end)
        if found:
            unit, _, size = counting("UNIT")[found[1].casefold()].partition(" ")
            if text[start:end].casefold() == "a" and unit == "quarter":
                return None
            if unit == "quarter" and value == 3 and re.match(r"\s+of\b(?!\s+(?:\d|a\s+year))", text[found.end() :], re.I):
                return Word("FRACTION", start, found.end(), 0.75)
            return Word("SPAN", start, found.end(), Amount(value * float(size), unit))
        if not written and self._atoms[at][0] in ("a", "an"):
            return None
        cut = end < len(text) and text[end].isalnum()
        return Word("UNKNOWN" if cut else "NUMBER", start, max(end, self._atoms[at][2]) if cut else end, value)

    def _odd(self, at: int) -> Word:
        """Read an atom that is nothing else: a filler, a word with a slip, or unknown."""
        atom, start, end = self._atoms[at]
        if atom in ("'", '"', "“", "”", "’"):
            return Word("FILLER", start, end)
        if atom.isalpha():
            close = [word for word in self._single if slip_of(word, atom)]
            kinds = {self._phrases[(word,)] for word in close}
            whole = re.match(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*", self._text[start:])
            stop = start + whole.end() if whole else end
            like = self.names.like(self._text[start:stop])
            if stop > end and not like:
                return Word("UNKNOWN", start, stop, self._text[start:stop])
            if like and not kinds:
                self.notes.append(f"{self._text[start:stop]!r} was read as {like[1][0]}.")
                return Word("NAME", start, stop, tuple(like[1]))
            if len(kinds) == 1 and not like:
                self.notes.append(f"{atom!r} was read as {close[0]!r}.")
                kind, value = kinds.pop()
                return Word(kind, start, end, value)
        return Word("UNKNOWN", start, end, self._text[start:end])


def _atoms_of(phrase: str) -> tuple[str, ...]:
    return tuple(found.group().casefold() for found in _ATOM.finditer(phrase))
