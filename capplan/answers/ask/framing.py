"""What stands around the what-ifs of a sentence: what only asks, who says so, and why; each is left aside, the last two with a note."""

import re
from collections.abc import Callable, Sequence

from capplan.answers.ask.vocabulary import counting

_IF = re.compile(r"\b(?:if|when|should|supposing|assuming|given that|with|in case|were)\b", re.I)
_MARK = re.compile(r"[,.;:?!]\s+|\s[-–—]+\s|\s(?:and|then|so)\s", re.I)
#: A reason that stands before what comes of it: we lost a customer, so drafts falls 20 %.
_SO = re.compile(
    r"(?:(?<=[.;:!?])\s+|^\s*)([^,.;:!?]+)[,;]?\s+(?:so|hence|therefore|thus|which means|meaning|that means)\b(?:\s+that\b)?,?", re.I
)
#: What an amount is compared with, in words of its own: 20 % higher than budgeted.
_THAN = re.compile(
    r"\bthan\s+(?:(?:we|they|i|you|it|is|was|were|had|have|has|been|originally|previously|initially|first|what|anyone|anybody|everyone)\s+)*\w+ed\b",
    re.I,
)
#: Words that a question about what comes of a what-if begins with, and those that it speaks of it by.
_COMES = frozenset(
    ["is", "are", "does", "do", "did", "can", "could", "would", "will", "should", "how", "what", "where", "am", "was", "were"]
)
_THAT = frozenset(["that", "it", "this", "we", "us", "our", "i", "there", "still"])
#: Most words of who says something.
_WHO = 6


def without_asking(text: str, meant: Callable[[tuple[str, ...]], bool], plain: Callable[[str], bool], notes: list[str]) -> str:
    """Blank what only asks what comes of a what-if, before an 'if' or after a mark: "would the board mind if", "is that affordable?".

    Args:
        meant: Tells whether words are a phrase of planning.
        plain: Tells whether words name nothing of the book, no amount, and nothing that holds or denies.
        notes: Takes a line for each that was left aside and has words of its own.
    """
    words = counting("ASKING")
    heads = [found for found in _IF.finditer(text) if text[: found.start()].strip(" ,.:;-")]
    text = _THAN.sub(lambda found: " " * len(found[0]), text)
    marks = [found.end() for found in _MARK.finditer(text)]
    spans = [(0, found.start(), found[0].casefold() == "if") for found in heads] + [(begin, len(text), True) for begin in marks]
    for begin, end, free in sorted(spans, key=lambda span: span[0] - span[1]):
        said = re.findall(r"[a-z]+(?:['’][a-z]+)?|[^\sa-z]", text[begin:end].casefold().replace("’", "'"))
        asked = [word for word in said if word not in ",.;:?!-–—"]
        bare = tuple(word for word in asked if word not in ("the", "so", "then", "and"))
        if not bare or len(asked) < 2 or ((meant(tuple(asked)) or meant(bare)) and not plain(" ".join(bare))):
            continue
        if all(word in words for word in asked) and any(words[word] == "1" for word in asked):
            text = _blank(text, begin, end)
        elif (
            free
            and bare[0] in _COMES
            and (not begin or _THAT & set(asked))
            and text[:begin].strip() + text[end:].strip()
            and plain(text[begin:end].strip(" ,.?!"))
        ):
            notes.append(f"{' '.join(text[begin:end].split())!r} asks what comes of it, and changes nothing.")
            text = _blank(text, begin, end)
    return text


def without_sayers(text: str, plain: Callable[[str], bool], notes: list[str]) -> str:
    """Blank who says so: "the landlord tells us that"; words of the book or of planning, and whoever denies, stay.

    Args:
        plain: Tells whether words name nothing of the book and nothing of planning.
        notes: Takes a line for each that was left aside.
    """
    verbs = "|".join(re.escape(verb) for verb in sorted(counting("SAYING"), key=len, reverse=True))
    pattern = re.compile(
        rf"(?:(?<=[.;:!?,])\s+|^\s*)((?:[a-z][a-z'’-]*\s+){{1,{_WHO}}}?)(?:(?:will|would|has|have|just|now)\s+)*(?:{verbs})\b(?:\s+that\b|\s*[:,])?",
        re.I,
    )
    for found in list(pattern.finditer(text)):
        who = found[1].strip()
        if plain(who) and not {word.casefold() for word in who.split()} & counting("NOBODY").keys():
            notes.append(f"{' '.join(found.group().split())!r} says who thinks so, and changes nothing.")
            text = _blank(text, found.start(), found.end())
    return text


def without_reasons(text: str, plain: Callable[[str], bool], notes: list[str]) -> str:
    """Blank a reason up to the next comma, where it names nothing of the book and no amount: "due to the chip shortage".

    Args:
        plain: Tells whether words name nothing of the book and nothing of planning.
        notes: Takes a line for each that was left aside.
    """
    begins = "|".join(re.escape(phrase) for phrase in sorted(counting("REASON"), key=len, reverse=True))
    for found in list(re.finditer(rf"\b(?:{begins})\b([^,.;:?!]*)(?=([,.;:?!])|$)", text, re.I)):
        before = text[: found.start()].strip()
        if (before and before[-1] not in ",.;:?!" and found[2] not in (None, ".", "?", "!")) or not plain(found[1]):
            continue
        notes.append(f"{' '.join(found.group().split())!r} is a reason, and changes nothing.")
        text = _blank(text, found.start(), found.end())
    for found in list(_SO.finditer(text)):
        if plain(found[1]) and not {word.casefold() for word in found[1].split()} & {"if", "when", "suppose", "assume"}:
            notes.append(f"{' '.join(found[1].split())!r} is a reason, and changes nothing.")
            text = _blank(text, found.start(), found.end())
    return text


def _blank(text: str, begin: int, end: int) -> str:
    return text[:begin] + " " * (end - begin) + text[end:]


#: What may follow its verb at a distance: knock 20 % off.
PARTICLES = ("off", "out", "up", "down", "back", "forward", "ahead", "over", "away", "in", "going", "alive")


def particle_of(atoms: Sequence[str], at: int, particles: Sequence[str]) -> int:
    """Return where the particle of a verb stands in its clause; 0 where it has none of these.

    Examples
    --------
    >>> particle_of(["knock", "20", "%", "off", "chat"], 0, ["off"]), particle_of(["knock", "20", ",", "off"], 0, ["off"])
    (3, 0)
    """
    for place in range(at + 2, min(at + 16, len(atoms))):
        if (
            atoms[place] in (",", ";", ".", "?", "!", ":", "and", "but", "or", "if", "not", "unless", "except")
            and atoms[place - 1] not in "0123456789"
        ):
            return 0
        last = place + 1 == len(atoms) or atoms[place + 1] in (",", ".", ";", "?", "!", "by", "and")
        if atoms[place] in particles and (atoms[place] != "in" or last):
            return place
    return 0
