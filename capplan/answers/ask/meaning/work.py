"""Demand, training runs and events: how much work, when, and how sure."""

import datetime as dt
import re
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from capplan.answers.ask.meaning.base import TABLES, Base, Found, UnclearError, Wanted, as_number, changed, first, has, percent_of, words_of
from capplan.answers.ask.names import Ref
from capplan.answers.ask.tokens import Amount, Moment, Word
from capplan.answers.ask.what_ifs import Asked, Assumed, Changed, Shown
from capplan.answers.cards import EVERYTHING, work_multiplied
from capplan.book.changes import Change, quoted
from capplan.text import listed


@dataclass(frozen=True)
class Period:
    """A quarter, a month or a day: from then on, or only within it."""

    word: Word
    onwards: bool


class Work(Base):
    """Rules about work."""

    def work(self, children: Found) -> tuple[Wanted, ...]:
        """Return whose work is spoken of, and where."""
        return tuple(wanted for child in children if isinstance(child, tuple) for wanted in child)

    def period(self, children: Found) -> Period:
        return Period(children[-1] if not has(children, "ONWARDS") else children[-2], has(children, "FROM", "ONWARDS"))

    def _demand(self, children: Found, factor: float) -> Found:
        placed, picks = list[str](), list[str]()
        for wanted in (each for child in children if isinstance(child, tuple) for each in child):
            places, others = self._places(wanted)
            placed += places
            if others is not None:
                one = self._one(others, ("workload", "team"))
                picks.append(f"team {one.key}" if one.kind == "team" else one.key)
        picks, when = picks or [EVERYTHING], first(children, Period)
        ends = next((word.value for word in words_of(children, "RANGE")), ())
        if placed and (when or ends):
            raise UnclearError("a change of demand is for a place or for a time, not for both; say one of them")
        if placed:
            return self._placed(placed, picks, factor)
        if when:
            return self._in_time(when, picks, factor)
        if ends:
            return self._events(picks, factor, self._ends(ends[0])[0], self._ends(ends[1])[1])
        return [Asked(card="Demand changes by", pick=pick, number=percent_of(factor)) for pick in picks]

    def _places(self, wanted: Wanted) -> tuple[list[str], Wanted | None]:
        """Split what is named into regions that demand is measured in, and the rest."""
        known = set(self.book.get("usage")["region"].unique())
        here = [next((ref.key for ref in refs if ref.kind in ("geography", "region") and ref.key in known), "") for refs in wanted.names]
        rest = tuple(refs for refs, key in zip(wanted.names, here, strict=True) if not key)
        return [key for key in here if key], (replace(wanted, names=rest) if rest or wanted.kinds or not any(here) else None)

    def _workloads(self, picks: list[str]) -> list[str]:
        """Return the workloads of picks whose use is measured; none where a pick is all work."""
        rows, used = self.book.get("workloads"), set(self.book.get("usage")["workload"].unique())
        found: list[str] = []
        for pick in picks:
            team = pick.removeprefix("team ")
            named = list(rows["workload"] if pick == EVERYTHING else rows.loc[rows["team"] == team, "workload"] if team != pick else [pick])
            kept = [name for name in named if name in used]
            if not kept:
                raise UnclearError(f"{pick} has no measured use, which a change for a place or a time needs", sorted(used))
            found += kept
        return found

    def _placed(self, places: list[str], picks: list[str], factor: float) -> Found:
        """Multiply the work of places: measured, stated, and that of training runs there."""
        found: Found = []
        for place in places:
            for name in [""] if picks == [EVERYTHING] else self._workloads(picks):
                where = {"region": place} | ({"workload": name} if name else {})
                found += [Changed(line=change.line) for change in work_multiplied(self.book, where, factor)]
        if not found:
            raise UnclearError(f"no work of {listed(picks)} is measured in {listed(places)}")
        return found

    def _in_time(self, when: Period, picks: list[str], factor: float) -> Found:
        """Multiply demand from a day on, or within a quarter or month, by an event that is certain."""
        value, fillers = when.word.value, self.text[: when.word.start].casefold().split()[-1:]
        relative = re.match("(?:the )?(?:this|next|coming|following|quarter after)", self._said_time(when.word).casefold())
        starts = re.search(r"\bstart\w*\s+(?:in\s+|on\s+)?(?:the\s+)?$", self.text[: when.word.start], re.I)
        when = replace(when, onwards=True) if starts else when
        if not when.onwards and not relative and fillers not in (["in"], ["during"], ["within"], ["for"], ["throughout"], ["over"], ["of"]):
            raise UnclearError(f"from {self._said_time(when.word)} on, or in {self._said_time(when.word)} alone?")
        if when.word.kind in ("QUARTER", "PERIOD"):
            quarters = [pd.Period(each, freq="Q") for each in ((value,) if when.word.kind == "QUARTER" else value)]
            first_day, last_day = quarters[0].start_time, quarters[-1].end_time
        else:
            first_day = pd.Timestamp(self._day(when.word))
            last_day = first_day + pd.offsets.MonthEnd(0)
            if not when.onwards and value.part != "month":
                raise UnclearError("a change of demand in time is for a quarter, a month, or from a day on")
        if last_day.date() < self.scenario.as_of:
            raise UnclearError(f"{first_day:%Y-%m-%d} lies before {self.scenario.as_of}, the day this book is planned on")
        return self._events(picks, factor, first_day, None if when.onwards else last_day, self._span_said(when.word, first_day))

    def _ends(self, word: Word) -> tuple[pd.Timestamp, pd.Timestamp]:
        """Return the first and the last day of a quarter, a month or a day."""
        if word.kind == "QUARTER":
            return pd.Period(word.value, freq="Q").start_time, pd.Period(word.value, freq="Q").end_time
        begin = pd.Timestamp(self._day(word))
        return begin, begin + pd.offsets.MonthEnd(0) if word.value.part == "month" else begin

    def _events(self, picks: list[str], factor: float, first_day: pd.Timestamp, last_day: pd.Timestamp | None, label: str = "") -> Found:
        """Return an event for each workload, from a day on or up to a last one."""
        if last_day is not None and last_day < first_day:
            raise UnclearError(f"{last_day:%Y-%m-%d} lies before {first_day:%Y-%m-%d}")
        said = label or f"{first_day:%Y-%m-%d}-{last_day:%Y-%m-%d}"
        known = set(self.book.get("events")["event_id"]) if "events" in self.book.tables else set()
        found: Found = []
        for name in self._workloads(picks):
            label = f"{name}-{said}"
            cells: dict[str, Any] = {
                "event_id": label,
                "workload": name,
                "date": f"{first_day:%Y-%m-%d}",
                "kind": "other",
                "factor": float(as_number(factor)),
            }
            cells |= {} if last_day is None else {"end": f"{last_day:%Y-%m-%d}"}
            if label in known:
                raise UnclearError(f"this book has an event {label} already; change that one")
            found.append(Changed(line=Change(table="events", add=cells).line))
        return found

    @staticmethod
    def _span_said(word: Word, first_day: pd.Timestamp) -> str:
        """Name a span of time: its quarter, its year, or its first day."""
        if word.kind == "PERIOD":
            return word.value[0][:4] if len(word.value) == 4 else f"{word.value[0]}-{word.value[-1]}"
        return str(word.value) if word.kind == "QUARTER" else f"{first_day:%Y-%m-%d}"

    def _said_time(self, word: Word) -> str:
        return self.text[word.start : word.end]

    def demand_moves(self, children: Found) -> Found:
        return self._demand(children, first(children, float))

    def demand_shared(self, children: Found) -> Found:
        return self._demand(children, float(words_of(children, "FRACTION")[0].value))

    def growth(self, children: Found) -> Found:
        return [Assumed(name="growth_share_per_year", value=round(first(children, float) - 1, 9))]

    def _shift(self, children: Found, amount: Amount) -> Found:
        number, unit = self._moved(children, amount)
        return [changed(f"{rows} shift {number:+d} {unit}") for rows in self._rows(first(children, tuple), ("run", "event"))]

    def _moved(self, children: Found, amount: Amount) -> tuple[int, str]:
        """Return a span with its sign: above zero where it is later."""
        number, unit = self._whole(amount)
        signs = (
            {int(word.value) for word in words_of(children, "MOVE")}
            | ({1} if has(children, "BACK") else set())
            | ({-1} if has(children, "UP") else set())
        )
        if number < 0 or len(signs) > 1:
            raise UnclearError("later or earlier, and by how much? Give a span above zero")
        return next(iter(signs), 1) * number, unit

    def slip(self, children: Found) -> Found:
        return self._shift(children, first(children, Amount))

    def slip_not(self, children: Found) -> Found:
        """Start later where something does not start until then; without an "until" it may be denied altogether."""
        if not re.search(r"\b(?:until|till|another|further|before)\b", self.text, re.I):
            raise UnclearError("does it start that much later, or is it not so? Say it without 'not'")
        return self.slip(children)

    def _to_quarter(self, refs: tuple[Wanted, ...], after: Word, before: Word | None = None) -> Found:
        """Move a start to a quarter, from the one that it is in; where the year is left out, it is that of what stands beside it."""
        lines = []
        for wanted in refs:
            ref = self._one(wanted, ("run", "event"))
            start = self._row(ref)["start" if ref.kind == "run" else "date"]
            now = f"{start.year}Q{start.quarter}"
            from_quarter = before and (before.value if self._with_year(before) else f"{now[:4]}{before.value[4:]}")
            if from_quarter and from_quarter != now:
                raise UnclearError(f"{ref.key} starts in {now}, not in {from_quarter}")
            quarter = after.value
            steps = 4 * (int(quarter[:4]) - start.year) + int(quarter[-1]) - start.quarter
            if abs(steps) > 2 and not self._with_year(after):
                raise UnclearError(f"{ref.key} starts in {now}; say the quarter with its year")
            if not steps:
                raise UnclearError(f"{ref.key} starts in {now} already")
            if quarter < f"{self.scenario.as_of.year}Q{(self.scenario.as_of.month + 2) // 3}":
                raise UnclearError(f"{quarter} lies before {self.scenario.as_of}, the day this book is planned on")
            lines.append(changed(f"shift {TABLES[ref.kind]}.{quoted(ref.key)} {steps:+d} quarters"))
        return lines

    def _with_year(self, word: Word) -> bool:
        return re.search(r"\d\d|next|this|coming|after", self._said_time(word), re.I) is not None

    def slip_to(self, children: Found) -> Found:
        return self._to_quarter(first(children, tuple), words_of(children, "QUARTER")[0])

    def slip_from(self, children: Found) -> Found:
        before, after = words_of(children, "QUARTER")
        return self._to_quarter(first(children, tuple), after, before)

    def begin(self, children: Found) -> Found:
        quarters, days = words_of(children, "QUARTER"), words_of(children, "DATE")
        refs = first(children, tuple)
        if any(word.value > 0 for word in words_of(children, "MOVE")) and has(children, "NOT"):
            raise UnclearError("the latest day leaves open when it starts; say one day or quarter")
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

    def _at_start(self, word: Word) -> str:
        return f"{self._day(word):%Y-%m-%dT%H:%M}"

    def finish(self, children: Found) -> Found:
        lines: Found = []
        due = self._until(children)
        for wanted in first(children, tuple):
            ref = self._due(wanted)
            if ref.kind == "api":
                lines.append(changed(f"api_contracts.{quoted(ref.key)} set withdrawn_on {self._day(due, last=True):%Y-%m-%d}"))
            elif ref.kind == "run":
                lines.append(changed(f"training_runs.{quoted(ref.key)} set deadline {self._day(due, last=True):%Y-%m-%d}"))
            else:
                rows = f"tasks.{quoted(ref.key)}" if ref.kind == "task" else f"tasks where {ref.kind}={quoted(ref.key)}"
                lines += [changed(f"{rows} set deadline {self._instant(due)}"), Shown(report="placement")]
        return lines

    def due(self, children: Found) -> Found:
        word = words_of(children, "DATE")[0]
        if self.text[: word.start].casefold().split()[-1:] not in (["by"], ["until"], ["till"], ["before"]):
            raise UnclearError(f"does it start or end on {self._said_time(word)}?")
        return self.finish(children)

    @staticmethod
    def _until(children: Found) -> Word:
        """Return the day that something must end on: the one before, where it must end before a day; the last of a quarter."""
        word = words_of(children, "DATE", "QUARTER")[0]
        if word.kind == "QUARTER":
            quarter = pd.Period(word.value, freq="Q")
            last = quarter.start_time if has(children, "BEFORE") else quarter.end_time.normalize()
            word = replace(word, kind="DATE", value=Moment(last.to_pydatetime(), "day"))
        if not has(children, "BEFORE") or word.value.part == "time":
            return word
        return replace(word, value=Moment(word.value.when - dt.timedelta(days=1), "day"))

    def _due(self, wanted: Wanted) -> Ref:
        """Return what is due: a run, a task, a pipeline or a stage; a workload stands for its only run."""
        allowed = [kind for kind in ("run", "task", "pipeline", "stage", "workload", "api") if not wanted.kinds or kind in wanted.kinds]
        found = self._fitting(wanted, allowed)
        runs = self.book.get("training_runs")
        own = [Ref("run", key) for ref in found if ref.kind == "workload" for key in runs.loc[runs["workload"] == ref.key, "run_id"]]
        found = [*(ref for ref in found if ref.kind != "workload"), *own]
        if len(found) == 1:
            return found[0]
        if found:
            raise UnclearError(f"{wanted.said!r} may be one of {len(found)}", [str(ref) for ref in found])
        return self._one(wanted, ("run", "task", "pipeline"))

    def finish_shift(self, children: Found) -> Found:
        number, unit = self._moved(children, first(children, Amount))
        return [changed(f"{row} shift deadline {number:+d} {unit}") for row in self._rows(first(children, tuple), ("run",))]

    def finish_all(self, children: Found) -> Found:
        self._need_tasks()
        return [Assumed(name="deadline", value=self._instant(self._until(children))), Shown(report="placement")]

    def finish_cheaply(self, children: Found) -> Found:
        return [Assumed(name="placement_objective", value="cost_under_deadline"), *self.finish_all(children)]

    def remove(self, children: Found) -> Found:
        return [item for wanted in first(children, tuple) for item in self._gone(wanted)]

    def given_up(self, children: Found) -> Found:
        """Remove what somebody gives up: a team is who does it."""
        actors, refs = (child for child in children if isinstance(child, tuple))
        for wanted in actors:
            self._one(wanted, ("team",))
        return self.remove([refs])

    def no_capacity(self, children: Found) -> Found:
        """Buy nothing in a place or from a provider."""
        for wanted in first(children, tuple):
            self._one(wanted, ("provider", "geography"))
        return self.remove(children)

    def _gone(self, wanted: Wanted) -> Found:
        if wanted.every:
            return [changed(f"remove {quoted(row)}") for row in self._rows([wanted], ("run", "event", "contract"))]
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
        factor = first(children, float) or words_of(children, "FRACTION")[0].value
        column = "tokens" if has(children, "TOKENS") else "parameters"
        rows = self._rows(first(children, tuple), ("run",))
        return [changed(f"{row} multiply {column} {as_number(factor)}") for row in rows]

    def size_set(self, children: Found) -> Found:
        column = "tokens" if has(children, "TOKENS") else "parameters"
        value = as_number(words_of(children, "NUMBER")[0].value)
        return [changed(f"{row} set {column} {value}") for row in self._rows(first(children, tuple), ("run",))]

    def chance(self, children: Found) -> Found:
        share = next((word.value for word in words_of(children, "PERCENT", "FRACTION", "NUMBER")), 0.5 if has(children, "EVEN") else 1.0)
        if share > 1:
            raise UnclearError("a probability is between 0 and 1, or 0 % and 100 %")
        return [changed(f"{row} set probability {as_number(share)}") for row in self._rows(first(children, tuple), ("run", "event"))]

    certain = even = chance
