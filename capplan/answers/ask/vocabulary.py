"""The words of planning, read from `vocabulary.txt` beside this module."""

from __future__ import annotations

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
            found += [(kind, value, phrase.strip()) for phrase in listed.split(" | ")]
    return tuple(found)


@lru_cache(maxsize=8)
def counting(kind: str) -> dict[str, str]:
    """Return the words of a kind that counts, with their values.

    Examples:
        >>> counting("UNIT")["week"], counting("CURRENCY")["euros"]
        ('week 1', 'EUR')
    """
    return {phrase: value for each, value, phrase in phrases() if each == kind}
