"""The words of planning, read from `vocabulary.txt` beside this module."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from capplan.records import word_list

#: Kinds of lines that are no tokens of the grammar: words that count, that tell a language, that ask or report, that name a place, forms
#: of verbs, and words that are spelt right although they look like a word of planning.
COUNTING = word_list("NUMBER_WORD MAGNITUDE UNIT CURRENCY LANGUAGE ASKING SAYING REASON NOBODY ALIAS FORMS RIGHT")


@lru_cache(maxsize=1)
def phrases() -> tuple[tuple[str, str, str], ...]:
    """Return every phrase with its token and its value ("" where it has none).

    Examples:
        >>> ("SCALE", "2", "double") in phrases(), ("DEMAND", "", "traffic") in phrases()
        (True, True)
    """
    lines = [(head.partition(" "), listed.split(" | ")) for head, listed in _lines()]
    irregular = {value: tuple(map(str.strip, forms)) for (kind, _, value), forms in lines if kind == "FORMS"}
    found = [(kind, value, form) for (kind, _, value), said in lines for phrase in said for form in inflected(phrase.strip(), irregular)]
    return tuple(dict.fromkeys(found))


def _lines() -> list[tuple[str, str]]:
    text = files("capplan.answers.ask").joinpath("vocabulary.txt").read_text(encoding="utf-8").replace("\n  ", " ")
    parted = [line.partition(": ") for line in text.splitlines() if not line.startswith("#")]
    return [(head, listed) for head, colon, listed in parted if colon]


def inflected(phrase: str, irregular: Mapping[str, Sequence[str]] = {}) -> list[str]:
    """Return the forms of a phrase that begins with ~ and a verb, by rule or as `irregular` has them; any other phrase as it stands.

    Examples
    --------
    >>> inflected("~slip"), inflected("~move up")[1:], inflected("~carry")[1:3], inflected("off")
    (['slip', 'slips', 'slipped', 'slipping'], ['moves up', 'moved up', 'moving up'], ['carries', 'carried'], ['off'])
    >>> inflected("~go up", {"go": ["goes", "went"]})
    ['go up', 'goes up', 'went up']
    """
    if not phrase.startswith("~"):
        return [phrase]
    verb, gap, rest = phrase[1:].partition(" ")
    if verb in irregular:
        return [form + gap + rest for form in (verb, *irregular[verb])]
    stem = verb[:-1] if verb.endswith("e") else verb + verb[-1] if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", verb) else verb
    third = re.sub("([^aeiou])y$", r"\1ie", verb) + ("es" if re.search("(s|x|sh|ch|o)$", verb) else "s")
    past = re.sub("([^aeiou])y$", r"\1i", stem) + "ed"
    return [form + gap + rest for form in (verb, third, past, f"{stem}ing")]


@cache
def counting(kind: str) -> dict[str, str]:
    """Return the words of a kind that counts, with their values.

    Examples:
        >>> counting("UNIT")["week"], counting("CURRENCY")["euros"]
        ('week 1', 'EUR')
    """
    return {phrase: value for each, value, phrase in phrases() if each == kind}
