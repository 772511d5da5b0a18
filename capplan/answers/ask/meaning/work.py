"""Demand, training runs and events: how much work, when, and how sure."""

from __future__ import annotations

from capplan.answers.ask.lexer import Amount, Word
from capplan.answers.ask.meaning.base import TABLES, Base, Found, UnclearError, Wanted, as_number, changed, first, has, percent_of, words_of
from capplan.answers.ask.names import Ref
from capplan.answers.ask.what_ifs import Asked, Assumed, Shown
from capplan.answers.cards import EVERYTHING
from capplan.book.changes import quoted


class Work(Base):
    """Rules about work."""

    def work(self, children: Found) -> tuple[Wanted, ...]:
        return next((child for child in children if isinstance(child, tuple)), ())

    def _demand(self, children: Found, factor: float) -> Found:
        refs = next((child for child in children if isinstance(child, tuple)), ())
        picks = [EVERYTHING] if not refs else []
        for wanted in refs:
            one = self._one(wanted, ("workload", "team"))
            picks.append(f"team {one.key}" if one.kind == "team" else one.key)
        return [Asked(card="Demand changes by", pick=pick, number=percent_of(factor)) for pick in picks]

    def demand_moves(self, children: Found) -> Found:
        return self._demand(children, first(children, float))

    demand_moved = demand_moves

    def demand_lifted(self, children: Found) -> Found:
        return self._demand(children, self._lifted(children))

    def growth(self, children: Found) -> Found:
        return [Assumed(name="growth_share_per_year", value=round(first(children, float) - 1, 9))]

    def _shift(self, children: Found, amount: Amount) -> Found:
        number, unit = self._whole(amount)
        if number < 0:
            raise UnclearError("later or earlier, and by how much? Give a span above zero")
        sign = next((int(word.value) for word in words_of(children, "MOVE")), 1)
        found = [self._one(wanted, ("run", "event")) for wanted in first(children, tuple)]
        return [changed(f"shift {TABLES[ref.kind]}.{quoted(ref.key)} {sign * number:+d} {unit}") for ref in found]

    def slip(self, children: Found) -> Found:
        return self._shift(children, first(children, Amount))

    slip_first = slip_start = slip

    def _to_quarter(self, refs: tuple[Wanted, ...], quarter: str, before: str = "") -> Found:
        lines = []
        for wanted in refs:
            ref = self._one(wanted, ("run", "event"))
            start = self._row(ref)["start" if ref.kind == "run" else "date"]
            now = f"{start.year}Q{start.quarter}"
            if before and before != now:
                raise UnclearError(f"{ref.key} starts in {now}, not in {before}")
            steps = 4 * (int(quarter[:4]) - start.year) + int(quarter[-1]) - start.quarter
            if not steps:
                raise UnclearError(f"{ref.key} starts in {now} already")
            if quarter < f"{self.scenario.as_of.year}Q{(self.scenario.as_of.month + 2) // 3}":
                raise UnclearError(f"{quarter} lies before {self.scenario.as_of}, the day this book is planned on")
            lines.append(changed(f"shift {TABLES[ref.kind]}.{quoted(ref.key)} {steps:+d} quarters"))
        return lines

    def slip_to(self, children: Found) -> Found:
        return self._to_quarter(first(children, tuple), words_of(children, "QUARTER")[0].value)

    slip_first_to = slip_to

    def slip_from(self, children: Found) -> Found:
        before, after = (word.value for word in words_of(children, "QUARTER"))
        return self._to_quarter(first(children, tuple), after, before)

    def begin(self, children: Found) -> Found:
        quarters, days = [word.value for word in words_of(children, "QUARTER")], words_of(children, "DATE")
        refs = first(children, tuple)
        if quarters and not days:
            return self._to_quarter(refs, *quarters)
        if len(days) != 1 or quarters:
            raise UnclearError("say a day or a quarter that it starts on")
        lines: Found = []
        when = self._day(days[0])
        for wanted in refs:
            ref = self._one(wanted, ("run", "event", "task"))
            if ref.kind == "task":
                lines.append(changed(f"tasks.{quoted(ref.key)} set earliest_start {self._at_start(days[0])}"))
                lines.append(Shown(report="placement"))
                continue
            steps = (when - self._row(ref)["start" if ref.kind == "run" else "date"]).days
            if not steps:
                raise UnclearError(f"{ref.key} starts on that day already")
            lines.append(changed(f"shift {TABLES[ref.kind]}.{quoted(ref.key)} {steps:+d} days"))
        return lines

    begin_first = begin

    def _at_start(self, word: Word) -> str:
        return f"{self._day(word):%Y-%m-%dT%H:%M}"

    def finish(self, children: Found) -> Found:
        lines: Found = []
        due = words_of(children, "DATE")[0]
        for wanted in first(children, tuple):
            ref = self._due(wanted)
            if ref.kind == "run":
                lines.append(changed(f"training_runs.{quoted(ref.key)} set deadline {self._day(due, last=True):%Y-%m-%d}"))
            else:
                rows = f"tasks.{quoted(ref.key)}" if ref.kind == "task" else f"tasks where {ref.kind}={quoted(ref.key)}"
                lines += [changed(f"{rows} set deadline {self._instant(due)}"), Shown(report="placement")]
        return lines

    finish_first = finish

    def _due(self, wanted: Wanted) -> Ref:
        """Return what is due: a run, a task, a pipeline or a stage; a workload stands for its only run."""
        allowed = [kind for kind in ("run", "task", "pipeline", "stage", "workload") if not wanted.kinds or kind in wanted.kinds]
        found = self._fitting(wanted, allowed)
        runs = self.book.get("training_runs")
        own = [Ref("run", key) for ref in found if ref.kind == "workload" for key in runs.loc[runs["workload"] == ref.key, "run_id"]]
        found = [*(ref for ref in found if ref.kind != "workload"), *own]
        if len(found) == 1:
            return found[0]
        if found:
            raise UnclearError(f"{wanted.said!r} may be one of {len(found)}", [str(ref) for ref in found])
        return self._one(wanted, ("run", "task", "pipeline"))

    def finish_all(self, children: Found) -> Found:
        self._need_tasks()
        return [Assumed(name="deadline", value=self._instant(words_of(children, "DATE")[0])), Shown(report="placement")]

    def finish_cheaply(self, children: Found) -> Found:
        return [Assumed(name="placement_objective", value="cost_under_deadline"), *self.finish_all(children)]

    def remove(self, children: Found) -> Found:
        return [item for wanted in first(children, tuple) for item in self._gone(wanted)]

    removed = remove

    def _gone(self, wanted: Wanted) -> Found:
        ref = self._one(wanted, ("run", "event", "offer", "contract", "api", "task", "workload", "limit", "provider", "geography"))
        if ref.kind in ("provider", "geography"):
            name = "providers" if ref.kind == "provider" else "geographies"
            known = list(getattr(self.scenario, name)) or sorted({each.key for each in self.names.of_kind(ref.kind)})
            if ref.key not in known:
                raise UnclearError(f"the plan does not buy from {ref.key} as it is", known)
            return [Assumed(name=name, value=[each for each in known if each != ref.key])]
        return [changed(f"remove {TABLES[ref.kind]}.{quoted(ref.key)}")]

    def hours_source(self, children: Found) -> Found:
        return [Asked(card="Spot is gone")] if has(children, "SPOT") else [changed("remove offers where term=on_demand")]

    def size(self, children: Found) -> Found:
        factor = first(children, float)
        column = "tokens" if has(children, "TOKENS") else "parameters"
        runs = [self._one(wanted, ("run",)) for wanted in first(children, tuple)]
        return [changed(f"training_runs.{quoted(ref.key)} multiply {column} {as_number(factor)}") for ref in runs]

    size_last = size

    def size_set(self, children: Found) -> Found:
        column = "tokens" if has(children, "TOKENS") else "parameters"
        value = as_number(words_of(children, "NUMBER")[0].value)
        runs = [self._one(wanted, ("run",)) for wanted in first(children, tuple)]
        return [changed(f"training_runs.{quoted(ref.key)} set {column} {value}") for ref in runs]

    def chance(self, children: Found) -> Found:
        share = next((word.value for word in words_of(children, "PERCENT")), 1.0)
        refs = [self._one(wanted, ("run", "event")) for wanted in first(children, tuple)]
        return [changed(f"{TABLES[ref.kind]}.{quoted(ref.key)} set probability {as_number(share)}") for ref in refs]

    certain = chance_first = chance_last = chance
