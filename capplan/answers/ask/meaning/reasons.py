"""Reasons of the plan, reports, and assumptions by their names."""

import re

from capplan.answers.ask.meaning.base import Base, Found, UnclearError, first, has, words_of
from capplan.answers.ask.names import Ref
from capplan.answers.ask.what_ifs import Asked, Assumed, Explained, Shown
from capplan.book.scenario import Scenario


class Reasons(Base):
    """Rules about what is explained or shown, and about assumptions."""

    def why(self, children: Found) -> Found:
        """Ask why, or why not: each word that denies turns the question round."""
        denied = len(words_of(children, "WHY_NOT", "NOT", "NO", "LAPSE", "NOT_TAKEN", "REMOVE", "WITHOUT")) % 2
        return [Explained(about="why_not" if denied else "why", subjects=self._subjects(children))]

    def why_instead(self, children: Found) -> Found:
        """Ask why one thing, and why not another."""
        one, other = (child for child in children if isinstance(child, tuple))
        return [Explained(about="why", subjects=self._subjects([one])), Explained(about="why_not", subjects=self._subjects([other]))]

    def _subjects(self, children: Found) -> tuple[str, ...]:
        """Return the offers or contracts that a reason is asked for; a machine stands for all that are about it."""
        allowed = ("contract",) if has(children, "RENEW", "LAPSE") else ("offer", "contract")
        found: list[str] = []
        for wanted in first(children, tuple):
            kinds = [kind for kind in allowed if not wanted.kinds or kind in wanted.kinds]
            exact = self._fitting(wanted, kinds)
            if not exact and len(wanted.names) == 1:
                own = set(self.scenario.providers)
                about = [ref for kind in kinds for ref in self.names.of_kind(kind) if self._described(ref, wanted.names[0])]
                machines = self.book.get("skus").set_index("sku")["provider"]
                exact = [ref for ref in about if ref.kind == "contract" or not own or machines[self._row(ref)["sku"]] in own]
            if not exact or (len(exact) > 1 and not wanted.names):
                self._one(wanted, kinds)
            found += [ref.key for ref in exact if not has(children, "DELIVERY") or self._bought(ref)]
            if not found:
                raise UnclearError(f"{wanted.said!r} is no machine that can be bought here", [ref.key for ref in exact[:12]])
        return tuple(dict.fromkeys(found))

    def _bought(self, ref: Ref) -> bool:
        """Tell whether an offer is of machines to own."""
        return ref.kind == "offer" and self._row(ref)["term"] == "owned"

    def unchanged(self, _: Found) -> Found:
        """Leave something as it is."""
        return []

    def what_binds(self, _: Found) -> Found:
        return [Explained(about="what_binds")]

    def what_wait(self, children: Found) -> Found:
        if not has(children, "PAYS") and not re.search(r"\b(when|should|why|would)\b", self.text, re.I):
            raise UnclearError("for how long? Say for how many quarters nothing new is signed")
        return [Explained(about="what_would_make_us_wait")]

    def report(self, children: Found) -> Found:
        return [Shown(report=words_of(children, "REPORT")[0].value)]

    def report_placement(self, _: Found) -> Found:
        self._need_tasks()
        return [Shown(report="placement")]

    def field(self, children: Found) -> Found:
        name, word = words_of(children, "FIELD")[0].value, words_of(children, "NUMBER", "PERCENT", "MONEY", "SPAN")[0]
        unit = (Scenario.model_fields[name].json_schema_extra or {}).get("unit", "")  # type: ignore[union-attr]
        if word.kind == "PERCENT" and not str(unit).startswith("share"):
            raise UnclearError(f"{name} is no share")
        value = word.value.number if word.kind in ("MONEY", "SPAN") else word.value
        if word.kind == "MONEY":
            self._usd(word.value)
        if word.kind == "SPAN" and not str(unit).startswith(word.value.unit):
            raise UnclearError(f"{name} is counted in {unit}")
        whole = Scenario.model_fields[name].annotation is int
        return [Assumed(name=name, value=int(value) if whole and value == int(value) else value)]

    def bad_cases(self, children: Found) -> Found:
        return [Asked(card="Bad cases weigh", number=round(100 * words_of(children, "PERCENT")[0].value, 9))]

    def must_serve(self, children: Found) -> Found:
        return [Asked(card="Work that must be served", number=round(100 * words_of(children, "PERCENT")[0].value, 9))]
