"""The names of a book that a sentence may use, as people write them: any case, with spaces or hyphens, and nearly right."""

import re
from collections.abc import Iterable, Sequence
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
FACTS = ("accelerator", "region", "provider", "plan", "years")
#: Kinds of names that a word may stand for.
KINDS = {
    "W_RUN": ("run",),
    "W_EVENT": ("event",),
    "W_OFFER": ("offer",),
    "W_CONTRACT": ("contract", "api"),
    "W_TEAM": ("team",),
    "W_WORKLOAD": ("workload",),
    "W_TASK": ("task",),
    "W_PIPELINE": ("pipeline",),
}
#: Kinds that a part of a name may stand for.
PARTLY = ("run", "event", "task", "pipeline", "api")


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
        for phrase, name in counting("ALIAS").items():
            here = [ref for ref in self.known.get((name,), []) if ref.kind in ("geography", "provider")]
            if here:
                self.known.setdefault(parts_of(phrase), here)
        self.features = _features(book)
        for plan in {value for features in self.features.values() for column, value in features if column == "plan"}:
            self.known.setdefault(parts_of(plan), []).append(Ref("plan", plan))
        self._parts = self._partial()
        self.longest = max((len(parts) for parts in self.known), default=1)

    def exact(self, parts: tuple[str, ...]) -> list[Ref]:
        """Return what has exactly this name."""
        return self.known.get(parts, [])

    def _partial(self) -> dict[tuple[str, ...], set[Ref]]:
        """Return what each part of a name may stand for, where the kind is said beside it: the 70b run."""
        found: dict[tuple[str, ...], set[Ref]] = {}
        for parts, refs in self.known.items():
            for begin in range(len(parts)):
                for end in range(begin + 1, len(parts) + 1):
                    for ref in refs:
                        if ref.kind in PARTLY and end - begin < len(parts):
                            found.setdefault(parts[begin:end], set()).add(ref)
        return found

    def partly(self, parts: tuple[str, ...], kinds: Sequence[str]) -> list[Ref]:
        """Return the one thing of some kinds whose name has these parts among its own."""
        found = [ref for ref in self._parts.get(parts, ()) if ref.kind in kinds]
        return found if len(found) == 1 and not "".join(parts).isdigit() else []

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
    """Return by what offers and contracts are described beside their names: provider, place, accelerator, kind of plan and its years."""
    machines, found = book.get("skus").drop_duplicates("sku").set_index("sku")[["provider", "accelerator"]], {}
    for kind, table, column in (
        ("offer", "offers", "offer_id"),
        ("contract", "commitments", "commitment_id"),
        ("api", "api_contracts", "api_contract_id"),
        ("workload", "workloads", "workload"),
        ("site", "sites", "site"),
        ("run", "training_runs", "run_id"),
    ):
        rows = book.get(table) if table in book.tables else None
        if rows is None:
            continue
        rows = rows.join(machines, on="sku") if "sku" in rows.columns else rows
        columns = [
            name
            for name in ("provider", "accelerator", "region", "geography", "workload", "team")
            if name in rows.columns and name != column
        ]
        for key, *cells in rows[[column, *columns]].astype(str).itertuples(index=False):
            found[Ref(kind, key)] = frozenset(zip(columns, cells, strict=True))
        for key, term in rows[[column, "term"]].astype(str).itertuples(index=False) if "term" in rows.columns else ():
            plan, _, years = term.rpartition("_")
            known = {("plan", plan), ("years", years)} if years in ("1y", "3y") else {("plan", term)}
            found[Ref(kind, key)] |= {each for each in known if each[1] not in ("spot", "on_demand")}
    return found


def parts_of(name: str) -> tuple[str, ...]:
    """Return a name as the parts that people keep when they write it their own way.

    Examples:
        >>> parts_of("base-30B_a3b"), parts_of("p5.48xlarge")
        (('base', '30b', 'a3b'), ('p5', '48xlarge'))
    """
    return tuple(part for part in re.split(r"[^a-z0-9]+", name.casefold()) if part)


def slip_of(name: str, word: str) -> bool:
    """Tell whether a word is a name with a slip: one letter wrong, missing, doubled or swapped; two in long words, a swap in short ones.

    Examples:
        >>> slip_of("demand", "demnad"), slip_of("chat", "chet"), slip_of("evaluation", "evalution"), slip_of("demand", "remand")
        (True, False, True, False)
        >>> slip_of("chat", "chta"), slip_of("spot", "stop")
        (True, False)
    """
    if len(name) == 4 and word not in counting("RIGHT"):
        # two neighbours after the first letter, and no English word of its own
        return name != word and name[:1] == word[:1] and word in (name[0] + name[2] + name[1] + name[3], name[:2] + name[3] + name[2])
    if len(name) < 5 or name[:1] != word[:1]:
        return False
    most = 1 if len(name) < 9 else 2
    return 0 < DamerauLevenshtein.distance(name, word, score_cutoff=most) <= most


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())
