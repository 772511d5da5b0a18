"""A question in plain words, answered by the models: what was understood, and after approval the view's headline, difference and verdict.

Every number in the words is a cell of a table of the answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from capplan.answers.ask.reader import Reading
from capplan.answers.ask.shown import scenario_asked
from capplan.answers.board import Column, column_of, compared
from capplan.answers.explained import Question, explain_plan, tables_to_explain
from capplan.answers.flips import find_flips
from capplan.answers.headline import verdicts_said
from capplan.answers.placement import asked_book
from capplan.answers.plan import quarterly_plan
from capplan.answers.sums import plan_currency
from capplan.book.book import Book
from capplan.book.currencies import Currency
from capplan.book.scenario import Scenario
from capplan.outputs.lab.board_table import measure_name, measure_text, measured_in, signatures
from capplan.outputs.lab.differences import difference_text
from capplan.outputs.views.all_questions import VIEWS

Say = Callable[[str], None]
OWN = "the book as it is"
#: Question about the plan's reasons, as the plan's own tables are asked.
QUESTIONS: Mapping[str, Question] = {"why_not": "why-not", "why": "why", "what_binds": "what-binds", "what_would_make_us_wait": "wait"}


@dataclass(frozen=True)
class Answer:
    """What came of a question."""

    sentences: tuple[str, ...]  #: The answer: headlines, differences and verdicts.
    tables: Mapping[str, pd.DataFrame]  #: By name, the tables that every number of the sentences is in.
    scenario: Scenario  #: What was planned: a run without a person under it gives the same.
    notes: tuple[str, ...] = ()  #: What was assumed.

    @property
    def lines(self) -> list[str]:
        """The sentences, each with the ids that `capplan trace` follows in a report of the plan."""
        told = self.tables.get("explained", pd.DataFrame(columns=["words", "trace"]))
        ids = dict(zip(told["words"], told["trace"], strict=True))
        return [f"{sentence} (trace: {ids[sentence]})" if ids.get(sentence) else sentence for sentence in self.sentences]


def answer_reading(reading: Reading, book: Book, scenario: Scenario, say: Say = lambda _: None) -> Answer:
    """Let the models answer what was approved.

    Args:
        book, scenario: What it is asked of, without it.

    Raises:
        CapplanError: Where there is no such answer, such as a plan that no purchase can make feasible.
    """
    work = _Answering(book, scenario, scenario_asked(reading, book, scenario), say)
    reports = list(dict.fromkeys(item.report for item in reading.what_ifs if item.kind == "report"))
    reasons = [item for item in reading.what_ifs if item.kind == "explain"]
    for name in reports:
        if name != "plan":
            work.view(name)
    if reasons:
        work.reasons(reasons)
    if "plan" in reports or (not reports and not reasons):
        work.plan(reading.text)
    return Answer(tuple(work.sentences), work.tables, work.after, tuple(work.notes))


@dataclass
class _Answering:
    """An answer while it is made: what is asked of which book, and what is said so far."""

    book: Book
    before: Scenario
    after: Scenario
    say: Say
    sentences: list[str] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def view(self, name: str) -> None:
        """Answer by a view: its headline, and how far its number is from the one without what-ifs."""
        self.say(f"capplan: answering {name} ...")
        view = VIEWS[name](self.book, self.after)
        self.sentences.append(view.headline)
        if self.before != self.after:
            self.sentences.append(difference_text(VIEWS[name](self.book, self.before), view, self.before, self.after))
        self.tables |= {name: view.table, **{f"{name}_{part}": table for part, table in view.details.items()}}
        self.notes += view.notes

    def plan(self, title: str) -> None:
        """Answer by the plan: its headline, what differs from the plan without what-ifs, and its verdicts."""
        base = None
        if self.before != self.after:
            self.say(f"capplan: planning {self.book.name} as it is ...")
            base = column_of(OWN, self.book, quarterly_plan(self.book, self.before))
        self.say(f"capplan: planning {self.book.name}{' with it' if base else ''} ...")
        plan = quarterly_plan(self.book, self.after)
        column = column_of(title, self.book, plan, base.signed if base else None)
        self.sentences.append(column.headline)
        if base is not None:
            self.tables["difference"] = compared(base, column)
            self.sentences += _differences(base, column, self.tables["difference"], plan_currency(plan))
        judged = verdicts_said(plan)
        self.sentences += [f"{row.about}: {row.words}" for row in judged.itertuples()]
        self.tables["measures"] = pd.DataFrame({"measure": list(column.measures), "value": list(column.measures.values())})
        self.tables |= {"signed": column.decisions, "verdicts": judged}

    def reasons(self, asked: Sequence[Any]) -> None:
        """Answer questions about the plan's reasons from its own tables."""
        self.say(f"capplan: planning {self.book.name} to explain it ...")
        plan = quarterly_plan(self.book, self.after)
        wanted = self.after.flip_search and any(item.about == "what_would_make_us_wait" for item in asked)
        flips = find_flips(asked_book(self.book, self.after), self.after, lambda _: None) if wanted else None
        told = [
            explain_plan(tables_to_explain(plan, flips), QUESTIONS[item.about], name, plan_currency(plan))
            for item in asked
            for name in item.subjects or ("",)
        ]
        self.sentences += [words for each in told for words in each.sentences["words"]]
        self.tables["explained"] = pd.concat([each.sentences.assign(trace=each.traces) for each in told], ignore_index=True)
        self.tables["figures"] = pd.concat([each.figures for each in told], ignore_index=True)


def _differences(base: Column, column: Column, table: pd.DataFrame, currency: Currency) -> list[str]:
    """Say what a what-if moves, in the book's currency: cost, bad cases, work left undone, and signatures."""
    cells = table.set_index("measure")
    step = float(cells.loc["expected_usd", "difference"])
    said = f"It costs {currency.said(abs(step))} {'more' if step >= 0 else 'less'} in expectation than {OWN}"
    lines = [
        f"{said} ({currency.said(base.measures['expected_usd'])} to {currency.said(column.measures['expected_usd'])})."
        if step
        else f"It costs what {OWN} costs."
    ]
    was, now = (measured_in(each, currency).measures for each in (base, column))
    for name in ("bad_cases_amount", "signed_contracts_amount", "unserved_share", "todays_signatures_cost_more_amount"):
        if name in now and now[name] != was.get(name):
            before, after = (measure_text(name, part.get(name), currency.name) for part in (was, now))
            lines.append(f"{measure_name(name, currency.name)}: {after}{f' instead of {before}' if name in was else ''}.")
    return [*lines, f"Signed before the next review, beside {OWN}: {'; '.join(signatures(column, base))}."]
