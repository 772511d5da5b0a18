"""The names of a book that a sentence may use, as people write them: any case, with spaces or hyphens, and nearly right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

from capplan.answers.ask.vocabulary import counting
from capplan.book.book import Book

#: Kinds of names with the table and column that hold them.
SOURCES = (
    ("workload", "workloads", "workload"),
    ("team", "workloads", "team"),
    ("run", "training_runs", "run_id"),
    ("event", "events", "event_id"),
    ("offer", "offers", "offer_id"),
    ("contract", "commitments", "commitment_id"),
    ("api", "api_contracts", "api_contract_id"),
    ("limit", "limits", "limit_id"),
    ("site", "sites", "site"),
    ("task", "tasks", "task_id"),
    ("pipeline", "tasks", "pipeline"),
    ("stage", "tasks", "stage"),
    ("machine", "nodes", "kind"),
    ("accelerator", "accelerators", "accelerator"),
    ("provider", "skus", "provider"),
    ("geography", "offers", "geography"),
    ("region", "offers", "region"),
    ("provider", "api_contracts", "provider"),
)
#: Kinds whose names are the product's, not the book's: they are known, and not offered where a name is misspelt.
FACTS = ("accelerator", "region", "provider")


@dataclass(frozen=True)
class Ref:
    """A name: what kind of thing it is, and as the book writes it."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Names:
    """All names of a book.

    Args:
        book: The book.
    """

    def __init__(self, book: Book) -> None:
        """Index them."""
        self.known: dict[tuple[str, ...], list[Ref]] = {}
        for kind, table, column in SOURCES:
            if table not in book.tables:
                continue
            for key in dict.fromkeys(book.get(table)[column].dropna().astype(str)):
                found = self.known.setdefault(parts_of(key), [])
                ref = Ref(kind, key)
                if ref not in found and parts_of(key):
                    found.append(ref)
        for phrase, place in counting("GEOGRAPHY").items():
            here = [ref for ref in self.known.get((place,), []) if ref.kind == "geography"]
            if here:
                self.known.setdefault(parts_of(phrase), here)
        self.features = _features(book)
        self.longest = max((len(parts) for parts in self.known), default=1)

    def exact(self, parts: tuple[str, ...]) -> list[Ref]:
        """Return what has exactly this name."""
        return self.known.get(parts, [])

    def like(self, word: str) -> tuple[str, list[Ref]] | None:
        """Return the one name that differs by a slip of the finger, and never in its digits."""
        spelt = " ".join(parts_of(word))
        close = [
            (name, refs)
            for name, refs in self.known.items()
            if _digits(" ".join(name)) == _digits(spelt) and slip_of(" ".join(name), spelt) and any(ref.kind not in FACTS for ref in refs)
        ]
        return (" ".join(close[0][0]), close[0][1]) if len(close) == 1 else None

    def nearest(self, word: str, kinds: Iterable[str] = ()) -> tuple[str, ...]:
        """Return up to three names that a word may have meant."""
        wanted = set(kinds) or {kind for kind, _, _ in SOURCES if kind not in FACTS}
        choices = sorted({ref.key for refs in self.known.values() for ref in refs if ref.kind in wanted and len(ref.key) > 2})
        found = process.extract(word.casefold(), choices, processor=str.casefold, limit=3, score_cutoff=70)
        return tuple(name for name, _, _ in found)

    def of_kind(self, kind: str) -> list[Ref]:
        """Return all names of a kind, as they stand in the book."""
        return [ref for refs in self.known.values() for ref in refs if ref.kind == kind]


def _features(book: Book) -> dict[Ref, frozenset[tuple[str, str]]]:
    """Return by what offers and contracts are described beside their names: provider, place and accelerator."""
    machines, found = book.get("skus").drop_duplicates("sku").set_index("sku")[["provider", "accelerator"]], {}
    for kind, table, column in (
        ("offer", "offers", "offer_id"),
        ("contract", "commitments", "commitment_id"),
        ("api", "api_contracts", "api_contract_id"),
    ):
        rows = book.get(table) if table in book.tables else None
        if rows is None:
            continue
        rows = rows.join(machines, on="sku") if "sku" in rows.columns else rows
        columns = [name for name in ("provider", "accelerator", "region", "geography") if name in rows.columns]
        for key, *cells in rows[[column, *columns]].astype(str).itertuples(index=False):
            found[Ref(kind, key)] = frozenset(zip(columns, cells, strict=True))
    return found


def parts_of(name: str) -> tuple[str, ...]:
    """Return a name as the parts that people keep when they write it their own way.

    Examples:
        >>> parts_of("base-30B_a3b"), parts_of("p5.48xlarge")
        (('base', '30b', 'a3b'), ('p5', '48xlarge'))
    """
    return tuple(part for part in re.split(r"[^a-z0-9]+", name.casefold()) if part)


def slip_of(name: str, word: str) -> bool:
    """Tell whether a word is a name with a slip: one letter wrong, missing, doubled or swapped; two in long words.

    Examples:
        >>> slip_of("demand", "demnad"), slip_of("chat", "chet"), slip_of("evaluation", "evalution"), slip_of("demand", "remand")
        (True, False, True, False)
    """
    if len(name) < 5 or name[:1] != word[:1]:
        return False
    most = 1 if len(name) < 9 else 2
    return 0 < DamerauLevenshtein.distance(name, word, score_cutoff=most) <= most


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())
