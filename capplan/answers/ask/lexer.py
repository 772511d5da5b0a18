"""A sentence as tokens: names of the book, numbers with their units, days and quarters, and the words of planning; nothing is guessed.

What is none of these becomes a token that no sentence of the grammar has, so that it is asked back with the words around it.
"""

import datetime as dt
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from rapidfuzz.distance import DamerauLevenshtein

from capplan.answers.ask.days import Days
from capplan.answers.ask.framing import PARTICLES, particle_of, without_asking, without_reasons, without_sayers
from capplan.answers.ask.names import KINDS, Names, Ref, slip_of
from capplan.answers.ask.tokens import Amount, Word
from capplan.answers.ask.vocabulary import COUNTING, counting, phrases

_ATOM = re.compile(r"[A-Za-z]+n't\b|(?:let|what|today|that|it|there)'s\b|[A-Za-z]+'(?:re|ll|ve|m|d|t)\b|[A-Za-z0-9]+|[^\sA-Za-z0-9]", re.I)


def _either(kind: str) -> str:
    """Return a pattern of the words of a kind, the longest first."""
    return "|".join(re.escape(name) for name in sorted(counting(kind), key=len, reverse=True))


_AMOUNTS = ("PERCENT", "FRACTION", "A_QUARTER", "NUMBER", "MONEY", "SPAN", "KW", "TIMES", "SCALE", "DATE", "QUARTER")
_VERB = re.compile("[A-Za-z]+(?:s|ed|ing|en)")
#: What somebody does to something, and what it may be done to.
_DOES = ("UP", "DOWN", "DROP", "AT_MOST", "SCALE", "REMOVE", "MOVE", "WITHDRAW")
_OBJECTS = ("NAME", "BUDGET", "CAPEX", "SPOT", "ON_DEMAND", "POWER", "ELECTRICITY", "QUOTA", "DEMAND", "LATENCY")
#: What may stand between the parts of a name.
_JOINTS = ("-", "_", ".", "/")
#: What may stand within a phrase without a meaning.
_ARTICLES = ("the", "a", "an", "our", "its", "their", "all", "just", "is", "are", "be", "any", "really", "still")
_HALF = re.compile(rf"half\s+an?\s+({'|'.join(name for name in counting('UNIT') if len(name) > 3)})(?![A-Za-z0-9])", re.I)
#: Tokens that a reason, or who says something, may have.
_PLAIN = frozenset(
    (
        "UNKNOWN FILLER HEDGE DEMAND PRICE DELIVERY W_OFFER W_CONTRACT W_TEAM W_RUN LATENCY POWER CAPEX BUDGET UP DOWN MOVE CHEAPER DEARER"
        " LIMITS HAPPENS BUY TAKE SHOW PAYS AGAIN"
    ).split()
)
_HALF_OF = re.compile(rf"half\s+an?\s+([$€£¥])?({'|'.join(name for name in counting('MAGNITUDE') if len(name) > 3)})(?![A-Za-z0-9])", re.I)
_AND_HALF = re.compile(r"\s+and\s+a\s+half(?![A-Za-z0-9])", re.I)
_NUMBER = re.compile(r"([+-])?\s*([$€£¥]|usd\b|eur\b|gbp\b|chf\b)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d-]*q[1-4])", re.I)
_MAGNITUDE = re.compile(rf"\s*({'|'.join(sorted(counting('MAGNITUDE'), key=len, reverse=True))})\b", re.I)
_PERCENT = re.compile(r"\s*(?:%|percent\b|per cent\b|pct\b)(?!\s*points?)", re.I)
_CENTS = re.compile(r"\s*(?:us\s+)?(?:cents?|ct|¢)(?![a-z])", re.I)
_CURRENCY = re.compile(rf"\s*({'|'.join(re.escape(name) for name in sorted(counting('CURRENCY'), key=len, reverse=True))})(?![a-z])", re.I)
_MORE = r"(?:(?:more|additional|extra|further|full|whole)\s+)?"
_UNIT = re.compile(rf"[\s-]*{_MORE}({'|'.join(sorted(counting('UNIT'), key=len, reverse=True))})s?(?![A-Za-z0-9])", re.I)
_MULTIPLIED = re.compile(
    rf"(?:x\s?|×\s?|(?:multipl(?:y|ies|ied|ying)\s+by|(?:by\s+)?(?:a\s+)?factor(?:\s+of)?)\s+)(\d+(?:\.\d+)?|{_either('NUMBER_WORD')})(?![A-Za-z0-9%])",
    re.I,
)
_TIMES = re.compile(r"\s*(?:x|times)(?![A-Za-z0-9])", re.I)
#: What an amount is a share of: the plan, today, what it is; the same thing measured, in words of its own.
_KNOWN = r"(?:today|now|before|plan|planned|forecast|expected|expectations?|normal|usual|current|present|existing|original|budgeted|target)"
_MEASURE = r"(?:levels?|volumes?|usage|use|demand|prices?|rates?|loads?|traffic|requests|sizes?|amounts?|figures?|plan|forecast|quota)"
_WHAT = rf"(?:is|are|was|were|costs?|pay|pays|uses?d?|needs?|have|had|has|does|do|asked|for|want(?:ed)?|it|they|we|allocated|{_KNOWN})"
_OF_TODAY = re.compile(
    rf"(?:of\s+)?what(?:\s+{_WHAT})+\b|(?:that\s+)?we\s+(?:had\s+)?(?:asked\s+for|requested|wanted)\b|of\s+(?:its|their)\s+{_MEASURE}\b"
    rf"|of\s+(?:(?:the|its|their)\s+)?{_KNOWN}(?:['’]s)?(?:\s+{_MEASURE})?\b|(?:the\s+|its\s+|their\s+)?{_KNOWN}(?:['’]s)?\s+{_MEASURE}\b|the\s+usual\b",
    re.I,
)
#: Tokens that an amount is a share after.
_ALONE = ("QUOTA", "UP", "DOWN", "ABOVE", "BELOW")
_SHARES = ("PERCENT", "FRACTION", "A_QUARTER", "TIMES", "SCALE", "SIGNED", "AS_MUCH", "AS_DEAR", "AS_LONG", *_ALONE)
_SIZES = (("KW", re.compile(r"\s*(?:kw|kilowatts?)(?![A-Za-z0-9])", re.I)), ("GB", re.compile(r"\s*(?:gb|gib)(?![A-Za-z0-9])", re.I)))


@dataclass
class Lexer:
    """Reads sentences about one book."""

    names: Names  #: The book's names.
    as_of: dt.date  #: The day that days of the week count from.
    first_quarter: str  #: The first quarter that is planned; quarters without a year count from it.
    fields: dict[tuple[str, ...], str]  #: Assumptions that can be named, by their parts.
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Index the phrases by their parts."""
        self._phrases: dict[tuple[str, ...], tuple[str, Any]] = {}
        for kind, value, phrase in phrases():
            if kind not in COUNTING:
                self._phrases[_atoms_of(phrase)] = (kind, float(value) if value[:1] in "-0123456789" and value else value)
        for parts, name in self.fields.items():
            self._phrases.setdefault(parts, ("FIELD", name))
        for phrase in counting("SAYING"):
            self._phrases.setdefault(_atoms_of(phrase), ("FILLER", ""))
        for parts, meant in [each for each in self._phrases.items() if each[1][0] not in ("FILLER", "SELF_HOSTED")]:
            self._phrases.setdefault((parts[0], *(part for part in parts[1:] if part not in _ARTICLES)), meant)
        self._longest = max(map(len, self._phrases))
        self._single = [parts[0] for parts in self._phrases if len(parts) == 1 and parts[0].isalpha()]
        self._right = {part for parts in self._phrases for part in parts} | counting("RIGHT").keys()
        self._verbs: dict[str, dict[str, tuple[str, Any]]] = {}
        for parts, meant in self._phrases.items():
            if len(parts) == 2 and parts[1] in PARTICLES and meant[0] not in ("FILLER", "IF") and parts[0] not in _ARTICLES:
                self._verbs.setdefault(parts[0], {})[parts[1]] = meant

    def read(self, text: str) -> list[Word]:
        """Return the tokens of a sentence without its fillers, and without what stands around its what-ifs."""
        text = without_asking(text, self._is_meant, self._is_plain, self.notes)
        text = without_reasons(text, self._is_plain, self.notes)
        return self.tokens(without_sayers(text, self._is_plain, self.notes))

    def tokens(self, text: str) -> list[Word]:
        """Return the tokens of a text without its fillers."""
        self._text, self._parted = text, set[int]()
        self._atoms = [(found.group().casefold(), found.start(), found.end()) for found in _ATOM.finditer(text)]
        found: list[Word] = []
        at = 0
        while at < len(self._atoms):
            word = Word("FILLER", *self._atoms[at][1:]) if at in self._parted else self._word(at, found)
            if word.kind == "HEDGE":
                self.notes.append(f"{text[word.start : word.end]!r} is taken for {word.value}.")
            elif word.kind != "FILLER":
                found.append(word)
            at = next((place for place in range(at + 1, len(self._atoms)) if self._atoms[place][1] >= word.end), len(self._atoms))
        return self._without_verbs(found)

    def _without_verbs(self, words: list[Word]) -> list[Word]:
        """Drop a verb that is not known where what follows it says the way, up, off, or to how much; and who does what a clause says."""
        kept: list[Word] = []
        for place, word in enumerate(words):
            if word.kind == "UNKNOWN" and self._is_doer(words, place):
                self.notes.append(f"{self._text[word.start : word.end]!r} was read as who does it.")
                continue
            after = [each.kind for each in words[place + 1 : place + 6]]
            said = self._text[word.start : word.end]
            steps = next((step for step, kind in enumerate(after) if kind not in ("MOVE", "BACK", "OUT", "UP", "DOWN", "NAME")), len(after))
            to_amount = after[steps : steps + 1] == ["TO"] and {*after[steps + 1 : steps + 2]} & {*_AMOUNTS}
            onto = after[1:2] in (["UP"], ["DOWN"]) and after[0] in _AMOUNTS
            about = place > 0 and words[place - 1].kind not in ("AND", "COMMA", "UNKNOWN")
            verb = _VERB.fullmatch(said) or (onto and about and words[place - 1].kind == "NAME")
            says = (about and after[:1] in (["UP"], ["DOWN"])) or ((to_amount or onto) and verb)
            if word.kind == "UNKNOWN" and said.isalpha() and says:
                self.notes.append(f"{said!r} was read as a verb whose way the words after it say.")
            else:
                kept.append(word)
        return kept

    def _is_doer(self, words: list[Word], place: int) -> bool:
        """Tell whether a clause begins with this word after an article, and a verb with its object comes then: the city cuts power."""
        begin = max((at + 1 for at, word in enumerate(words[:place]) if word.kind in ("COMMA", "AND")), default=0)
        end = next((at for at in range(place, len(words)) if words[at].kind in ("COMMA", "AND")), len(words))
        verb = next((at for at in range(place, end) if words[at].kind != "UNKNOWN"), end)
        before = words[begin:place]
        said = re.search(r"(?:\b|^)(?:the|our|my|their)\s+(?:\w+\s+)?$", self._text[: words[begin].start], re.I)
        does = verb + 1 < end and words[verb].kind in _DOES and any(word.kind in _OBJECTS for word in words[verb + 1 : end])
        return bool(said) and does and all(word.kind == "UNKNOWN" for word in before)

    def _is_meant(self, words: tuple[str, ...]) -> bool:
        """Tell whether words are a phrase of planning."""
        return self._phrases.get(words, ("FILLER",))[0] not in ("FILLER", "IF", "HEDGE")

    def _is_plain(self, text: str) -> bool:
        """Tell whether words name nothing of the book, no amount, and nothing that holds or denies."""
        other = copy(self)
        other.notes = []
        return all(word.kind in _PLAIN for word in other.tokens(text))

    def _word(self, at: int, before: list[Word]) -> Word:
        """Return the longest token at an atom."""
        start = self._atoms[at][1]
        if before and before[-1].kind in _SHARES and (share := _OF_TODAY.match(self._text, start)):
            return Word("FILLER" if before[-1].kind in _ALONE else "OF_TODAY", start, share.end())
        name, phrase = self._name(at), self._phrase(at)
        if (phrase is None or phrase.end == self._atoms[at][2]) and (parting := self._parting(at)):
            return parting
        others = [word for word in (Days(self._text, self.as_of, self.first_quarter).at(start), self._number(at)) if word]
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
        return self._partly(at)

    def _partly(self, at: int) -> Word | None:
        """Read a part of a name that stands beside its kind: the 70B run, run 70B, the migration event."""
        for parts, end in self._ahead(at, self.names.longest):
            last = next((place for place in range(at, len(self._atoms)) if self._atoms[place][2] == end), at)
            before = next((place for place in range(at - 1, -1, -1) if self._atoms[place][0] not in ("the", "of", "for", "our")), -1)
            near = [place for place in (last + 1, before) if 0 <= place < len(self._atoms)]
            for beside in (word for place in near if (word := self._phrase(place)) and (place > at or word.end <= self._atoms[at][1])):
                said = "W_RUN" if self._text[beside.start : beside.end].casefold() == "model" else beside.kind
                if refs := self.names.partly(parts, KINDS.get(said, ())):
                    self.notes.append(f"{self._text[self._atoms[at][1] : end]!r} was read as {refs[0]}.")
                    return Word("NAME", self._atoms[at][1], end, tuple(refs))
        return None

    def _plural(self, parts: tuple[str, ...]) -> list[Ref]:
        """Return the accelerators of a plural, such as H100s."""
        one = (*parts[:-1], parts[-1].removesuffix("s"))
        return [ref for ref in self.names.exact(one) if ref.kind == "accelerator"] if one != parts else []

    def _phrase(self, at: int, head: str = "") -> Word | None:
        """Return the longest phrase at an atom, whatever articles and hyphens stand in it; with another word in the atom's place."""
        found, parts, plain = None, list[str](), list[str]()
        if self._atoms[at][0] in ("–", "—") or self._text[self._atoms[at][1] :].startswith("- "):
            return None
        for atom, _, end in self._atoms[at : at + 2 * self._longest]:
            atom = head if head and not parts else atom  # noqa: PLW2901
            parts.append(atom)
            said = atom not in _ARTICLES and (atom, *parts[-2:-1]) != ("of", "all")
            plain += [atom] if said or not plain else []
            kept = tuple(part for part in plain if part not in ("-", "_")) if atom not in ("-", "_") else ()
            meant = self._phrases.get(tuple(parts)) or (self._phrases.get(kept) if said else None)
            if meant:
                found = Word(meant[0], self._atoms[at][1], end, meant[1])
        return replace(found, why=str(found.value)) if found and found.kind == "UNSURE" else found

    def _parting(self, at: int) -> Word | None:
        """Return a verb whose particle stands further on: knock 20 % off."""
        verbs, atoms = self._verbs.get(self._atoms[at][0], {}), [atom for atom, _, _ in self._atoms]
        place = particle_of(atoms, at, list(verbs))
        alone = self._phrase(place) if place else None
        if not place or (alone is not None and alone.end != self._atoms[place][2] and alone.kind != "TO"):
            return None
        kind, value = verbs[atoms[place]]
        if (
            atoms[place] in ("up", "down")
            and kind not in ("UP", "DOWN", "MOVE", "SLOWER", "TIGHTER")
            and re.match(r"\s+(?:by|\d)", self._text[self._atoms[place][2] :])
        ):
            # the way, and not what the verb says with it: take chat up by 20 %
            return None
        self._parted.add(place)
        return Word(kind, *self._atoms[at][1:], value)

    def _number(self, at: int) -> Word | None:
        """Read a number with what it counts."""
        atom, start, end = self._atoms[at]
        half = _HALF.match(self._text, start)
        if half:
            unit, _, size = counting("UNIT")[half[1].casefold()].partition(" ")
            return Word("SPAN", start, half.end(), Amount(6, "month") if unit == "year" else Amount(float(size) / 2, unit))
        if times := _MULTIPLIED.match(self._text, start):
            said = times[1].casefold()
            return Word("TIMES", start, times.end(), float(counting("NUMBER_WORD").get(said, said)))
        if half := _HALF_OF.match(self._text, start):
            number, end = 0.5 * float(counting("MAGNITUDE")[half[2].casefold()]), half.end()
            return self._counted(at, start, end, number, "", counting("CURRENCY").get((half[1] or "").casefold(), ""), True)
        found = _NUMBER.match(self._text, start)
        sign, sold, number = "", "", 0.0
        if found:
            sign, sold, number, end = found[1] or "", (found[2] or "").casefold(), float(found[3].replace(",", "")), found.end()
        elif len(atom) > 3 and atom in counting("MAGNITUDE"):
            number = float(counting("MAGNITUDE")[atom])
        elif atom in counting("NUMBER_WORD"):
            number = float(counting("NUMBER_WORD")[atom])
        else:
            return None
        if number == int(number) and (half := _AND_HALF.match(self._text, end)):
            number, end = number + 0.5, half.end()
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
        if atom in ("'", '"', "“", "”", "’", "…") or re.fullmatch("[a-z]+'(?:d|ll|ve|re|m|s)", atom):
            return Word("FILLER", start, end)
        if atom in ("-", "–", "—") and re.match(r"\s[-–—]+\s+(?:[A-Za-z]|$)", self._text[start - 1 :]):
            return Word("COMMA", start, end)
        if atom.isalpha():
            for stem in stems_of(atom) if atom not in counting("RIGHT") else ():
                if phrase := self._phrase(at, stem):
                    return phrase
            if atom.endswith("ly") and len(atom) > 5 and atom not in counting("RIGHT"):
                # how something happens: words in -ly that change what happens are in the vocabulary
                return Word("FILLER", start, end)
            close = [] if atom in self._right else [word for word in self._single if slip_of(word, atom)]
            kinds = {self._phrases[(word,)] for word in close}
            whole = re.match(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*", self._text[start:])
            stop = start + whole.end() if whole else end
            like = self.names.like(self._text[start:stop])
            if stop > end and not like:
                return Word("UNKNOWN", start, stop, self._text[start:stop])
            if like and not kinds:
                self.notes.append(f"{self._text[start:stop]!r} was read as {like[1][0]}.")
                return Word("NAME", start, stop, tuple(like[1]))
            dropped = kinds <= {("FILLER", ""), ("HEDGE", "exact"), ("HEDGE", "certain")}
            if len(kinds) == 1 and not like and not (dropped and DamerauLevenshtein.distance(close[0], atom) > 1):
                self.notes.append(f"{atom!r} was read as {close[0]!r}.")
                kind, value = kinds.pop()
                return Word(kind, start, end, value)
        return Word("UNKNOWN", start, end, self._text[start:end])


def stems_of(word: str) -> list[str]:
    """Return what a word may be a form of: a verb in -s, -ed or -ing.

    Examples
    --------
    >>> stems_of("capping"), stems_of("priced"), stems_of("shows"), stems_of("bus")
    (['capp', 'cappe', 'cap'], ['pric', 'price'], ['show'], [])
    """
    ending = next((each for each in ("ing", "ed", "s") if word.endswith(each) and len(word) > len(each) + 2 and word[-2:] != "ss"), "")
    stem = word.removesuffix(ending)
    if not ending or ending == "s":
        return [stem] if ending else []
    return [stem, stem + "e", *([stem[:-1]] if len(stem) > 2 and stem[-1] == stem[-2] else [])]


def _atoms_of(phrase: str) -> tuple[str, ...]:
    return tuple(found.group().casefold() for found in _ATOM.finditer(phrase))
