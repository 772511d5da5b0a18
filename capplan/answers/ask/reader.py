"""The embedded reader: a sentence into typed what-ifs, by a grammar over the book's own names. The same words mean the same, always.

A sentence is cut into clauses at its commas and conjunctions, so that most of it is covered by rules of the grammar. What no rule
covers, what two rules read differently, and what the book does not know is asked back; nothing is dropped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lark import Token, Tree
from lark.exceptions import VisitError

from capplan.answers.ask.folded import AMOUNTS, NAMED, folded, ways
from capplan.answers.ask.lexer import Lexer
from capplan.answers.ask.meaning import Meaning, UnclearError
from capplan.answers.ask.names import Names
from capplan.answers.ask.parsing import trees_of
from capplan.answers.ask.tokens import Word
from capplan.answers.ask.vocabulary import phrases
from capplan.answers.ask.what_ifs import MOST_WORDS, Asked, Assumed, Changed, Explained, Shown, what_if_from
from capplan.book.book import Book
from capplan.book.changes import VERBS
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import TABLES
from capplan.errors import CapplanError, ScenarioError, shortened
from capplan.text import listed

#: Longest sentence that is read: a page, beyond which it is no question.
MOST_LETTERS = 2000
#: Most tokens of one clause.
MOST_TOKENS = 60
BREAKS = ("AND", "COMMA")
#: Ways to read one clause that are looked at; more are asked back.
MOST_READINGS = 64


@dataclass(frozen=True)
class Doubt:
    """What was not understood."""

    words: str  #: The words of the sentence.
    why: str  #: Why not.
    choices: tuple[str, ...] = ()  #: What could be meant, from the book.

    def __str__(self) -> str:
        more = f": {', '.join(self.choices)}" if self.choices else ""
        return f"{shortened(self.words, MOST_WORDS)!r}: {self.why}{more}"


@dataclass(frozen=True)
class Reading:
    """What a sentence was read as."""

    text: str  #: The sentence.
    what_ifs: tuple[Any, ...]  #: Typed what-ifs, each with its words.
    doubts: tuple[Doubt, ...]  #: What is asked back.
    notes: tuple[str, ...] = ()  #: Spelling that was mended, and what was left aside: doubt, reasons, and who says so.


class Reader:
    """Reads sentences about one book under one scenario.

    Args:
        book, scenario: What is spoken about.
    """

    def __init__(self, book: Book, scenario: Scenario) -> None:
        """Learn the book's names, and the names of assumptions that are numbers."""
        self.book, self.scenario = book, scenario
        self.names = Names(book)
        numeric = [
            name
            for name, each in Scenario.model_fields.items()
            if "_" in name and any(part in str(each.annotation) for part in ("int", "float"))
        ]
        self._lexer = Lexer(self.names, scenario.as_of, scenario.first_quarter or "", {tuple(name.split("_")): name for name in numeric})

    def read(self, text: str) -> Reading:
        """Read a sentence.

        Args:
            text: What was asked, in English; also lines of the grammar of what-ifs.

        Returns:
            Reading: With everything that was not understood.

        Raises:
            ScenarioError: Where the sentence is empty or longer than a page.
        """
        said = " ".join(text.split())
        if not said:
            raise ScenarioError('ask something, such as: capplan ask BOOK "what if spot prices double?"')
        if len(said) > MOST_LETTERS:
            raise ScenarioError(f"the question has {len(said):,} characters; a question has at most {MOST_LETTERS:,}: ask for less at once")
        if direct := self._line(said):
            items, doubts = self._fitting([direct])
            return Reading(said, tuple(items), tuple(doubts))
        foreign = _language(said)
        if foreign:
            return Reading(said, (), (Doubt(said, f"this looks like {foreign}; questions are read in English"),))
        self._lexer.notes.clear()
        words = _trimmed(folded(self._lexer.read(said), said))
        if not words:
            return Reading(said, (), (Doubt(said, _NOTHING),))
        words = _trimmed(self._without_if(words, said))
        items, doubts = self._clauses(words, said)
        items, more = agreed([_under_deadline(item, items) for item in items])
        items, unfit = self._fitting(items)
        return Reading(said, tuple(items), (*doubts, *more, *unfit), tuple(dict.fromkeys(self._lexer.notes)))

    def _without_if(self, words: list[Word], text: str) -> list[Word]:
        """Drop an 'if' that begins a clause; one after a report or a reason parts it from its what-if; others stay, and are asked about."""
        kept: list[Word] = []
        for word in words:
            if word.kind == "IF" and kept and kept[-1].kind not in BREAKS:
                begin = max((place + 1 for place, each in enumerate(kept) if each.kind in BREAKS), default=0)
                left = self._clause(kept[begin:], text)
                if isinstance(left, list) and left and all(isinstance(item, (Shown, Explained)) for item in left):
                    kept.append(replace(word, kind="COMMA"))
                    continue
            if word.kind != "IF" or (kept and kept[-1].kind not in BREAKS):
                kept.append(word)
        return kept

    def _line(self, text: str) -> Any:
        """Read a line of the grammar of what-ifs, or an assumption as after -p; None where a sentence begins like one."""
        head, equals, _ = text.partition("=")
        table, dot, _ = text.partition(".")
        if not (
            text.startswith("where ")
            or (dot and table in TABLES)
            or (equals and head in Scenario.model_fields)
            or text.split(maxsplit=1)[0] in VERBS
        ):
            return None
        try:
            found = what_if_from(text).model_copy(update={"words": shortened(text, MOST_WORDS - 1)})
            after = found.on(self.book, self.scenario)
            if text.split(maxsplit=1)[0] in VERBS:
                # a sentence may begin like a line: only one that fits the book is one
                self.book.with_changes(after.changes)
        except (CapplanError, ValueError):
            return None
        return found

    def _clauses(self, words: list[Word], text: str) -> tuple[list[Any], list[Doubt]]:
        """Cut a sentence into clauses so that the most tokens are covered, by the fewest clauses."""
        cuts = [0, *(place + 1 for place, word in enumerate(words) if word.kind in BREAKS), len(words) + 1]
        best: dict[int, tuple[int, int, tuple[Any, ...]]] = {0: (0, 0, ())}
        tried: dict[tuple[int, int], Any] = {}
        for right in range(1, len(cuts)):
            options = []
            for left in range(max(0, right - 12), right):
                begin, end = cuts[left], cuts[right] - 1
                found = tried.setdefault((begin, end), self._clause(words[begin:end], text))
                if found is None and right - left > 1:
                    continue
                covered, clauses, parts = best[left]
                gain = 0 if found is None or isinstance(found, Doubt) else 2 * (end - begin)
                gain += end - begin if isinstance(found, Doubt) else 0
                options.append((covered + gain, clauses - 1, (*parts, (begin, end, found))))
            best[right] = max(options, key=lambda option: option[:2])
        return self._gathered(best[len(cuts) - 1][2], words, text)

    def _gathered(self, parts: Sequence[tuple[int, int, Any]], words: list[Word], text: str) -> tuple[list[Any], list[Doubt]]:
        """Join clauses that are not understood with what they may be about: a verb without an object takes its neighbour back."""
        items: list[tuple[int, Any]] = []
        doubts: list[Doubt] = []
        taken: set[int] = set()
        model: tuple[int, int, Any] = (0, 0, ())
        for number, (begin, end, found) in enumerate(parts):
            if begin >= end:
                continue
            unread = not isinstance(found, list)
            if (unread or model[2] is None) and isinstance(said := self._like_before(words, model, (begin, end), text), list):
                found = said  # noqa: PLW2901
                if model[2] is None and doubts:
                    doubts.pop()
            model = model if unread and isinstance(found, list) else (begin, end, found)
            if found is None:
                piece = words[begin:end]
                loose = not any(word.kind in _SUBJECTS for word in piece)
                after = parts[number + 1] if loose and number + 1 < len(parts) else (0, 0, None)
                about = [word for word in words[after[0] : after[1]] if word.kind in _SUBJECTS]
                if isinstance(after[2], list) and isinstance(
                    said := self._clause([*piece, *about], text, text[piece[0].start : piece[-1].end]), list
                ):
                    # what it is about comes after both: double and halve spot
                    items += [(number, item) for item in said]
                    continue
                around = [n for n in (number - 1, number + 1) if loose and 0 <= n < len(parts) and parts[n][1] > parts[n][0]]
                taken |= {n for n in around if parts[n][2] is not None}
                first, last = min([begin, *(parts[n][0] for n in around)]), max([end, *(parts[n][1] for n in around)])
                doubts.append(self._doubt_of(words[first:last], piece, text))
            elif isinstance(found, Doubt):
                doubts.append(found)
            elif found:
                items += [(number, item) for item in found]
        return [item for number, item in items if number not in taken], doubts

    def _like_before(self, words: list[Word], before: tuple[int, int, Any], place: tuple[int, int], text: str) -> Any:
        """Read what leaves out what was said before it: chat grows 10 %, and drafts 20 %; vision-12b is not needed, so drop it."""
        first, piece = words[before[0] : before[1]], words[slice(*place)]
        kinds = {word.kind for word in piece}
        if before[2] is None and first and {word.kind for word in first} <= {*NAMED, *_SAME_WAY, *BREAKS}:
            # what it is about comes first, and what changes after it: chat grows faster than planned, add 25 % to it
            named = [word for word in first if word.kind in NAMED]
            ways = [{word.kind for word in each} & _SAME_WAY for each in (first, piece)]
            about = named and not kinds & {*NAMED} and (not ways[0] or ways[1] <= ways[0] or not ways[1])
            return self._clause([*named, *piece], text, text[first[0].start : piece[-1].end]) if about else None
        if (
            isinstance(before[2], list)
            and not kinds & {*NAMED}
            and _IT.search(text[words[place[0] - 1].end if place[0] else 0 : piece[-1].end + 6])
        ):
            named = [word for word in first if word.kind in NAMED]
            return self._clause([*named, *piece], text, text[piece[0].start : piece[-1].end]) if named else None
        if "WHY" in {word.kind for word in first} and kinds <= {*NAMED, "NOT", "INSTEAD"}:
            return self._clause([*(word for word in first if word.kind == "WHY"), *piece], text, text[piece[0].start : piece[-1].end])
        amounts = {word.kind for word in first} & set(AMOUNTS)
        alike = next((each for each in _ALIKE if amounts and amounts <= each), set[str]())
        if not (
            isinstance(before[2], list) and kinds & NAMED and kinds & alike and kinds <= {*NAMED, *alike, *(word.kind for word in first)}
        ):
            return None
        kept = [word for word in first if word.kind not in {*NAMED, *amounts, *BREAKS, *kinds}]
        return self._clause([*kept, *piece], text, text[piece[0].start : piece[-1].end])

    def _clause(self, words: Sequence[Word], text: str, said: str = "") -> Any:
        """Return the what-ifs of a clause, a doubt about it, or None where no rule has it."""
        if not words or len(words) > MOST_TOKENS:
            return None
        said = said or text[words[0].start : words[-1].end]
        for order in ways(words):
            trees = trees_of([word.kind for word in order])
            if trees:
                break
        else:
            return None
        found: list[list[Any]] = []
        unclear: list[UnclearError] = []
        for each in trees[:MOST_READINGS]:
            meant = self._meaning(each, order, text)
            (unclear if isinstance(meant, UnclearError) else found).append(meant)
        distinct = {tuple(str(item) for item in items): items for items in found}
        if len(distinct) > 1 or len(trees) > MOST_READINGS:
            return Doubt(said, "this can be read in more than one way", tuple(" and ".join(lines) for lines in distinct)[:6])
        if not distinct:
            first = max(unclear, key=lambda each: each.rank)
            return Doubt(said, first.why, first.choices)
        items = next(iter(distinct.values()))
        return [item.model_copy(update={"words": shortened(said, MOST_WORDS - 1)}) for item in items]

    def _meaning(self, tree: Tree[Token], words: Sequence[Word], text: str) -> Any:
        try:
            return Meaning(self.book, self.scenario, self.names, words, text).transform(tree)
        except VisitError as error:
            if isinstance(error.orig_exc, UnclearError):
                return error.orig_exc
            if isinstance(error.orig_exc, CapplanError):
                return UnclearError(str(error.orig_exc))
            raise

    def _fitting(self, items: Sequence[Any]) -> tuple[list[Any], list[Doubt]]:
        """Hold every what-if against the book, one on top of another, as a person's input is."""
        scenario, kept, doubts = self.scenario, list[Any](), list[Doubt]()
        for item in sorted(items, key=lambda item: str(item).startswith("add task_edges")):
            try:
                after = item.on(self.book, scenario)
                if after.changes != scenario.changes:
                    self.book.with_changes(after.changes)
            except CapplanError as error:
                doubts.append(Doubt(item.words, str(error)))
            else:
                scenario, kept = after, [*kept, item]
        return kept, doubts

    def _doubt_of(self, words: Sequence[Word], piece: Sequence[Word], text: str) -> Doubt:
        """Say what of a clause is not understood: its unknown words, or the whole of it."""
        said = text[words[0].start : words[-1].end]
        unsure = [word.why for word in piece if word.kind == "UNSURE"]
        unknown = list(dict.fromkeys(text[word.start : word.end] for word in piece if word.kind == "UNKNOWN"))[:8]
        either = [place for place, word in enumerate(piece) if word.kind == "OR"]
        if either and not unknown:
            sides = [self._clause(piece[: either[0]], text), self._clause(piece[either[0] + 1 :], text)]
            lines = tuple(" and ".join(map(str, side)) for side in sides if isinstance(side, list))
            return Doubt(said, "'or' leaves open which one holds; ask one at a time", lines if len(lines) == 2 else ())
        if any(word.kind == "IF" for word in piece) and not (unknown or unsure):
            return Doubt(said, "'if' between two what-ifs ties one to the other, which no plan can; say what holds, with 'and'")
        if unsure:
            return Doubt(said, "; ".join(unsure))
        if unknown:
            near = dict.fromkeys(name for word in unknown if len(word) > 3 for name in self.names.nearest(word))
            why = f"{listed([repr(word) for word in unknown])} {'is' if len(unknown) == 1 else 'are'} not understood"
            return Doubt(said, f"{why}{'; the book has' if near else ''}", tuple(near))
        return Doubt(said, "these words say no what-if together; say what changes and by how much")


_NOTHING = "nothing in it can be planned; say what changes, for example: demand rises 30 %, spot doubles, base-8b slips two quarters"
#: What stands for what was named before.
_IT = re.compile(r"\b(?:it|them|both)\b", re.I)
#: What may be said of something before what changes.
_SAME_WAY = frozenset(("TAKE", "UP", "DOWN", "MOVE", "DEARER", "CHEAPER", "TIGHTER", "SLOWER", "LAPSE", "FINISH", "DEMAND"))
#: Amounts that can stand for each other where a clause goes on like the one before.
_ALIKE = ({"PERCENT", "FRACTION", "A_QUARTER"}, {"SPAN", "A_QUARTER"}, {"MONEY", "NUMBER"}, {"KW"}, {"TIMES", "SCALE"})
#: Tokens that say what a clause is about.
_SUBJECTS = frozenset(
    (
        "NAME DEMAND PRICE ALL_PRICES SPOT ON_DEMAND ELECTRICITY API BUDGET CAPEX DELIVERY LEAD_TIME QUOTA POWER LATENCY NETWORK EVERYTHING"
        + " W_RUN W_EVENT W_OFFER W_CONTRACT W_TEAM W_WORKLOAD W_TASK W_PIPELINE UNKNOWN UNSURE FIELD REPORT NODES"
    ).split(" ")
)


def _trimmed(words: list[Word]) -> list[Word]:
    """Take commas and conjunctions off both ends, and keep one where several stand together."""
    kept = [word for place, word in enumerate(words) if not (word.kind == "COMMA" and (place == 0 or words[place - 1].kind in BREAKS))]
    while kept and kept[-1].kind in BREAKS:
        kept.pop()
    while kept and kept[0].kind in BREAKS:
        kept.pop(0)
    return kept


def _under_deadline(item: Any, items: Sequence[Any]) -> Any:
    """Return a what-if as it is beside the others: at lowest cost, where there is a deadline, means within it."""
    late = any("deadline" in str(each) for each in items)
    cheap = str(item) == "placement_objective=cost"
    return item.model_copy(update={"value": "cost_under_deadline"}) if late and cheap else item


def _target(item: Any) -> str:
    """Return what a what-if moves, so that two that move the same are seen."""
    if isinstance(item, Asked):
        topic = (
            "spot"
            if "spot" in item.card.casefold()
            else "renewal"
            if item.card.startswith(("A contract lapses", "A contract renews"))
            else "latency"
            if item.card.casefold().startswith(("latency", "first token", "each token"))
            else item.card
        )
        return f"{topic} {item.pick}"
    if isinstance(item, Assumed):
        return item.name
    if isinstance(item, Changed):
        change = item.change
        return f"{change.table}.{change.key} {sorted(change.where.items())} {change.column}" if change.add is None else str(item)
    return str(item)


def agreed(items: Sequence[Any]) -> tuple[list[Any], list[Doubt]]:
    """Keep each what-if once; two that contradict each other are both asked back."""
    by_target: dict[str, dict[str, Any]] = {}
    for item in items:
        by_target.setdefault(_target(item), {}).setdefault(str(item), item)
    gone = {(item.change.table, item.change.key) for item in items if isinstance(item, Changed) and item.change.remove}
    kept, doubts = [], []
    for same in by_target.values():
        first = next(iter(same.values()))
        others = [item for item in items if isinstance(item, Changed) and isinstance(first, Changed) and _overlaps(first, item)]
        if others:
            doubts.append(
                Doubt(first.words, "this is for all rows and for one of them; say which one holds", (str(first), *map(str, others)))
            )
            continue
        dropped = isinstance(first, Changed) and not first.change.remove and (first.change.table, first.change.key) in gone
        if len(same) == 1 and not dropped:
            kept.append(first)
        else:
            words = " / ".join(dict.fromkeys(item.words for item in same.values()))
            doubts.append(Doubt(words, "these contradict each other; say which one holds", tuple(same)))
    return kept, doubts


def _overlaps(one: Changed, other: Changed) -> bool:
    """Tell whether one of two what-ifs is for all rows of a table and the other for one of them, in the same column."""
    same = (
        one.change.table == other.change.table and one.change.column == other.change.column and not (one.change.where or other.change.where)
    )
    return same and one.change.add is None and other.change.add is None and (one.change.key == "*") != (other.change.key == "*")


def _language(text: str) -> str:
    """Name the language of a sentence that is not English, as far as its small words tell; nothing where it may be English."""
    letters = [letter for letter in text if letter.isalpha()]
    if letters and sum(not letter.isascii() for letter in letters) > len(letters) / 2:
        return "another script"
    words = {word.strip(".,;:?!¿¡").casefold() for word in text.split()}
    small = [(name, word) for kind, name, word in phrases() if kind == "LANGUAGE"]
    hits = {language: sum(word in words for name, word in small if name == language) for language, _ in small}
    name = max(hits, key=lambda each: hits[each])
    english = len(words & {"the", "what", "if", "and", "of", "is", "by", "to", "we", "in", "a"} - {"a"})
    return name if hits[name] >= 2 and hits[name] > 2 * english else ""
