"""Latency, model APIs, and the placement of tasks, new ones included."""

import re
from typing import Any

from capplan.answers.ask.meaning.base import Base, Found, UnclearError, Wanted, as_number, changed, first, has, percent_of, words_of
from capplan.answers.ask.names import Ref
from capplan.answers.ask.tokens import Amount, Word
from capplan.answers.ask.what_ifs import Asked, Assumed, Shown
from capplan.book.changes import Change, quoted
from capplan.text import counted, listed


class Operations(Base):
    """Rules about how work is run."""

    def _latency(self, refs: tuple[Wanted, ...] | None, factor: float) -> Found:
        """Move the latency targets of services, or of all that have some and are hosted."""
        services = self.book.get("services").dropna(subset=["first_token_seconds_p95"])["workload"]
        picks = [self._one(wanted, ("workload",)).key for wanted in refs] if refs else list(services)
        return [Asked(card="Latency targets change by", pick=pick, number=percent_of(factor)) for pick in picks]

    def latency_moves(self, children: Found) -> Found:
        return self._latency(first(children, tuple), first(children, float))

    def latency_lifted(self, children: Found) -> Found:
        return self._latency(first(children, tuple), self._lifted(children))

    def latency_speed(self, children: Found) -> Found:
        return self._latency(first(children, tuple), 1 / float(words_of(children, "TIMES", "FRACTION")[0].value))

    def token_time(self, children: Found) -> str:
        return "First token within" if has(children, "FIRST_TOKEN") else "Each token within"

    def latency_set(self, children: Found) -> Found:
        card, seconds = first(children, str), self._seconds(words_of(children, "SPAN")[0].value)
        refs = [self._one(wanted, ("workload",)) for wanted in first(children, tuple)]
        return [Asked(card=card, pick=ref.key, number=round(1000 * seconds, 9)) for ref in refs]

    def takes_longer(self, children: Found) -> Found:
        """Stretch a task, or loosen the latency targets of a service."""
        return self._longer(first(children, tuple), self._lifted(children))

    def duration_times(self, children: Found) -> Found:
        return self._longer(first(children, tuple), float(words_of(children, "TIMES", "FRACTION")[0].value))

    def duration_moves(self, children: Found) -> Found:
        refs = [self._one(wanted, ("task",)) for wanted in first(children, tuple)]
        return self._stretched(refs, first(children, float))

    def _longer(self, refs: tuple[Wanted, ...], times: float) -> Found:
        named = [self._one(wanted, ("task", "workload")) for wanted in refs]
        tasks = [ref for ref in named if ref.kind == "task"]
        found: Found = self._stretched(tasks, times) if tasks else []
        return found + [
            Asked(card="Latency targets change by", pick=ref.key, number=percent_of(times)) for ref in named if ref.kind != "task"
        ]

    @staticmethod
    def _stretched(refs: list[Ref], times: float) -> Found:
        factor = as_number(times)
        return [changed(f"tasks.{quoted(ref.key)} multiply duration_hours {factor}") for ref in refs] + [Shown(report="placement")]

    @staticmethod
    def _seconds(amount: Amount) -> float:
        if amount.unit not in ("second", "hour"):
            raise UnclearError(f"{counted(amount.number, amount.unit)} is no latency; say it in ms or seconds")
        return amount.number * (3600 if amount.unit == "hour" else 1)

    def latency_which(self, _: Found) -> Found:
        raise UnclearError("which time? Say the first token within it, or the time per token")

    def _hosted(self, children: Found, host: str) -> Found:
        picks = [self._one(wanted, ("workload",)).key for wanted in first(children, tuple)]
        either = set(self.book.get("workloads").query("host == 'either'")["workload"])
        return [
            Asked(card="No API for", pick=pick)
            if host == "self" and pick in either
            else changed(f"workloads.{quoted(pick)} set host {host}")
            for pick in picks
        ]

    def api(self, children: Found) -> Found:
        return self._hosted(children, "self")

    def api_only(self, children: Found) -> Found:
        return self._hosted(children, "api")

    def _apis(self, children: Found) -> list[Ref]:
        return [self._one(wanted, ("api",)) for wanted in first(children, tuple)]

    def rate_moves(self, children: Found) -> Found:
        times = as_number(first(children, float))
        return [changed(f"api_contracts.{quoted(ref.key)} multiply requests_per_minute {times}") for ref in self._apis(children)]

    def rate_set(self, children: Found) -> Found:
        value = as_number(words_of(children, "NUMBER")[0].value)
        return [changed(f"api_contracts.{quoted(ref.key)} set requests_per_minute {value}") for ref in self._apis(children)]

    def withdraw(self, children: Found) -> Found:
        """Withdraw a model on a day; a quote that expires then can be taken up to it."""
        day = f"{self._day(words_of(children, 'DATE')[0], last=True):%Y-%m-%d}"
        if re.search(r"\b(?:expir|valid|good (?:until|through))", self.text, re.I) and not has(children, "REMOVE", "DROP", "SHIFTS"):
            refs = [self._one(wanted, ("api", "offer")) for wanted in first(children, tuple)]
            if all(ref.kind == "offer" for ref in refs):
                return [changed(f"offers.{quoted(ref.key)} set quote_expires {day}") for ref in refs]
        return [changed(f"api_contracts.{quoted(ref.key)} set withdrawn_on {day}") for ref in self._apis(children)]

    def _network(self, factor: float) -> Found:
        self._need_tasks()
        return [Assumed(name="bandwidth_factor", value=round(self.scenario.bandwidth_factor * factor, 9)), Shown(report="placement")]

    def network_moves(self, children: Found) -> Found:
        return self._network(first(children, float))

    def network_times(self, children: Found) -> Found:
        return self._network(float(words_of(children, "TIMES", "FRACTION")[0].value))

    def network_slow(self, children: Found) -> Found:
        return self._network(1 / float(words_of(children, "TIMES")[0].value))

    def network_by(self, children: Found) -> Found:
        return self._network(1 + first(children, float) * (1 if has(children, "TIGHTER") else -1))

    def objective(self, children: Found) -> Found:
        self._need_tasks()
        return [Assumed(name="placement_objective", value="cost" if has(children, "CHEAPLY") else "makespan"), Shown(report="placement")]

    def objective_alone(self, children: Found) -> Found:
        if not re.search("makespan|schedule|tasks", self.text, re.I):
            raise UnclearError("what is to be done as fast as possible? Say all tasks, or a task with its deadline")
        return self.objective(children)

    def nodes(self, children: Found) -> Found:
        self._need_tasks()
        count = float(words_of(children, "NUMBER")[0].value)
        named = [
            self._one(Wanted((word.value,), (), self.text[word.start : word.end]), ("machine",)) for word in words_of(children, "NAME")
        ]
        kinds = [Assumed(name="added_node_kind", value=ref.key) for ref in named]
        return [Assumed(name="added_nodes", value=int(count)), *kinds, Shown(report="placement")]

    def duration(self, children: Found) -> Found:
        amount = first(children, Amount)
        hours = self._hours(amount)
        refs = [self._one(wanted, ("task",)) for wanted in first(children, tuple)]
        return [changed(f"tasks.{quoted(ref.key)} set duration_hours {as_number(hours)}") for ref in refs] + [Shown(report="placement")]

    @staticmethod
    def _hours(amount: Amount) -> float:
        hours = {"hour": 1, "day": 24, "week": 168}.get(amount.unit)
        if hours is None:
            raise UnclearError("say how many hours, days or weeks a task takes")
        return amount.number * hours

    def label(self, children: Found) -> str:
        return self.text[children[0].start : children[0].end]

    def part(self, children: Found) -> dict[str, Any]:
        words = [child for child in children if isinstance(child, Word)]
        number = next((float(word.value) for word in words if word.kind in ("NUMBER", "GB")), 1.0)
        if has(words, "AFTER"):
            return {"after": [child for child in children if isinstance(child, str)]}
        if has(words, "SPAN"):
            amount = words_of(words, "SPAN")[0].value
            return {"duration_hours": self._hours(amount)}
        if has(words, "SSD") and not has(words, "GB"):
            return {"local_ssd_gib": 1}
        for kind, column in (
            ("CPUS", "cpus"),
            ("OUTPUT", "output_gb"),
            ("SSD", "local_ssd_gib"),
            ("GPU", "accelerators"),
            ("GB", "memory_gib"),
        ):
            if has(words, kind):
                return {column: int(number) if number == int(number) else number} | self._machine(words)
        return {"accelerators": int(number)} | self._machine(words)

    def _machine(self, words: Found) -> dict[str, Any]:
        named = [ref.key for word in words_of(words, "NAME") for ref in word.value if ref.kind == "accelerator"]
        if has(words, "NAME") and not named:
            raise UnclearError("a task needs an accelerator that is known")
        return {"accelerator": named[0]} if named else {}

    def new_task(self, children: Found) -> Found:
        """Add a task that is described in full: what it needs, for how long, and after which others."""
        name = first(children, str)
        cells: dict[str, Any] = {"task_id": name}
        after: list[str] = []
        for part in (child for child in children if isinstance(child, dict)):
            after += part.get("after", [])
            if set(part) & set(cells):
                raise UnclearError(f"task {name} has two values of {listed(sorted(set(part) & set(cells)))}")
            cells |= {column: value for column, value in part.items() if column != "after"}
        missing = [column for column in ("duration_hours", "cpus") if column not in cells]
        if missing:
            raise UnclearError(
                f"a new task {name} needs {listed(missing)}; the tasks of this book are", [ref.key for ref in self.names.of_kind("task")]
            )
        lines = [changed(Change(table="tasks", add=cells).line)]
        return (
            lines
            + [changed(Change(table="task_edges", add={"from_task": each, "to_task": name}).line) for each in after]
            + [Shown(report="placement")]
        )
