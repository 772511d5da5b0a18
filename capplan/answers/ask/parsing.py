"""The grammar of clauses, parsed: every way to read the tokens of a clause."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.lexer import Lexer as LarkLexer
from lark.visitors import CollapseAmbiguities


class _Places(LarkLexer):
    """Give the parser the kinds of tokens with their places."""

    def __init__(self, lexer_conf: Any) -> None:
        """Need nothing."""

    def lex(self, data: Any) -> Iterator[Token]:  # type: ignore[override]
        """Return the tokens."""
        for kind, place in data:
            yield Token(kind, str(place))


@lru_cache(maxsize=1)
def _parser() -> tuple[Lark, dict[str, set[str]]]:
    """Return the parser, and the tokens that each kind of clause may have, so that only those are tried that have all of a clause's."""
    grammar = files("capplan.answers.ask").joinpath("sentences.lark").read_text(encoding="utf-8")
    kinds = re.findall(r"[a-z_]+", grammar[grammar.index("?clause:") + 8 : grammar.index("\n\n", grammar.index("?clause:"))])
    parser = Lark(grammar, parser="earley", lexer=_Places, ambiguity="explicit", start=kinds)
    within: dict[str, set[str]] = {}
    for rule in parser.rules:
        within.setdefault(str(rule.origin.name), set()).update(str(symbol.name) for symbol in rule.expansion)
    reached = {kind: {kind} for kind in kinds}
    for names in reached.values():
        while more := {name for each in names for name in within.get(each, ())} - names:
            names.update(more)
    return parser, reached


def trees_of(kinds: Sequence[str]) -> list[Tree[Token]]:
    """Return every way to read a clause of these tokens; a leaf is a token's place."""
    parser, reached = _parser()
    found: list[Tree[Token]] = []
    for kind in (kind for kind, names in reached.items() if set(kinds) <= names):
        try:
            tree = parser.parse([(name, place) for place, name in enumerate(kinds)], start=kind)
        except UnexpectedInput:
            continue
        found += CollapseAmbiguities().transform(tree)
    return found
