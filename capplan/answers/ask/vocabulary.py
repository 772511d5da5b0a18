"""The words of planning, read from `vocabulary.txt` beside this module."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

#: Kinds of lines that are no tokens of the grammar: words that count, that tell a language, that ask, or that name a place.
COUNTING = ("NUMBER_WORD", "MAGNITUDE", "UNIT", "CURRENCY", "LANGUAGE", "ASKING", "GEOGRAPHY")


@lru_cache(maxsize=1)
def phrases() -> tuple[tuple[str, str, str], ...]:
    """Return every phrase with its token and its value ("" where it has none).

    Examples:
        >>> ("SCALE", "2", "double") in phrases(), ("DEMAND", "", "traffic") in phrases()
        (True, True)
    """
    text = files("capplan.answers.ask").joinpath("vocabulary.txt").read_text(encoding="utf-8").replace("\n  ", " ")
    found = []
    for line in text.splitlines():
        head, colon, listed = line.partition(": ")
        if colon and not line.startswith("#"):
            kind, _, value = head.partition(" ")
            found += [(kind, value, form) for phrase in listed.split(" | ") for form in inflected(phrase.strip())]
    return tuple(dict.fromkeys(found))


def inflected(phrase: str) -> list[str]:
    """Return the forms of a phrase that begins with ~ and a regular verb; any other phrase as it stands.

    Examples
    --------
    >>> inflected("~slip"), inflected("~move up")[1:], inflected("~carry")[1:3], inflected("off")
    (['slip', 'slips', 'slipped', 'slipping'], ['moves up', 'moved up', 'moving up'], ['carries', 'carried'], ['off'])
    """
    if not phrase.startswith("~"):
        return [phrase]
    verb, gap, rest = phrase[1:].partition(" ")
    stem = verb[:-1] if verb.endswith("e") else verb + verb[-1] if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", verb) else verb
    third = re.sub("([^aeiou])y$", r"\1ie", verb) + ("es" if re.search("(s|x|sh|ch|o)$", verb) else "s")
    past = re.sub("([^aeiou])y$", r"\1i", stem) + "ed"
    return [form + gap + rest for form in (verb, third, past, f"{stem}ing")]


@lru_cache(maxsize=8)
def counting(kind: str) -> dict[str, str]:
    """Return the words of a kind that counts, with their values.

    Examples:
        >>> counting("UNIT")["week"], counting("CURRENCY")["euros"]
        ('week 1', 'EUR')
    """
    return {phrase: value for each, value, phrase in phrases() if each == kind}
