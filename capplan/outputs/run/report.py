"""The main job: one strict, atomic run from a book to a report folder."""

import json
import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.flips import find_flips
from capplan.answers.gaps import gap_note, no_gaps, rank_gaps
from capplan.answers.opened import leave_open
from capplan.answers.placement import asked_book
from capplan.answers.plan import quarterly_plan
from capplan.answers.store import shared_answers
from capplan.answers.sums import cash, obligations, spend
from capplan.book.book import Book, load_book
from capplan.book.book_currency import book_currency
from capplan.book.gate import stamp
from capplan.book.scenario import Scenario
from capplan.dollars import in_force
from capplan.errors import ReportError
from capplan.outputs.export.accounting import lease_flags, postings, roll_forward
from capplan.outputs.export.budget import write_budget
from capplan.outputs.export.files import write_chart, write_table
from capplan.outputs.export.focus import planned_focus
from capplan.outputs.page.difference_page import difference_page
from capplan.outputs.page.plan_page import plan_page
from capplan.outputs.run.accepted import last_plan, moved_since
from capplan.outputs.run.folders import check_room, replaced_whole
from capplan.outputs.run.notebooks import execute, notebook_of, notebook_parameters
from capplan.outputs.run.notify import signatures_in
from capplan.outputs.run.run_history import latest_report, point_to
from capplan.outputs.views import decision_tables, plan_tables, unit_tables
from capplan.outputs.views.all_questions import VIEWS, View, show_plan
from capplan.outputs.views.bridges import LastPlan, budget_bridge, cost_bridge, driver_bridge, plan_bridge
from capplan.outputs.views.demand_growth import growth_table
from capplan.outputs.views.view import leave
from capplan.outputs.workbook.workbook import write_workbook
from capplan.questions.review import spend_of_focus
from capplan.text import counted, duration_words

Say = Callable[[str], None]
Depth = Literal["quick", "usual", "thorough"]
#: Assumptions that each depth of a run sets; what a run states itself goes before.
DEPTHS: Mapping[Depth, Mapping[str, Any]] = {
    "quick": {"flip_search": False, "rolling_test": False},
    "usual": {},
    "thorough": {"flip_search": True, "rolling_test": True, "gap_share": 0.0005},
}
#: Packages whose versions decide what a plan looks like.
_VERSIONS = ("capplan", "numpy", "pandas", "scipy", "highspy", "PuLP", "statsforecast", "altair", "papermill")


#: Less than this is not worth saying how long it takes.
WORTH_SAYING_SECONDS = 10.0


@dataclass(frozen=True)
class Report:
    """A finished report: folder, plan, warnings, tables, assumptions, and whether it signs something else than before."""

    folder: Path
    plan: Plan
    warnings: tuple[str, ...]
    tables: Mapping[str, pd.DataFrame]
    scenario: Mapping[str, Any]
    changed: bool = False


@dataclass(frozen=True)
class Answered:
    """A question answered without a person: the view, its executed notebook, the assumptions as plain data."""

    view: View
    path: Path
    scenario: Mapping[str, Any]


class Steps:
    """Says what is being done and, by the run before, how long the rest takes; and remembers how long it took.

    Examples:
        >>> steps = Steps(print, {"forecasting": 20.0, "deciding": 100.0, "drawing": 2.0})
        >>> for step in ("forecasting", "deciding", "looking around", "drawing"):
        ...     steps(step)
          forecasting ... (about 2.03 minutes left, as in the run before)
          deciding ... (about 102 seconds left, as in the run before)
          looking around ...
          drawing ...
    """

    def __init__(self, say: Say, before: Mapping[str, float] | None = None) -> None:
        self.say, self.seconds, self._open = say, {}, None  # type: tuple[Say, dict[str, float], tuple[str, float] | None]
        self._before = dict(before or {})

    def __call__(self, step: str) -> None:
        """Begin a step, ending the one before."""
        self.end()
        self._open = (step, time.perf_counter())
        names = list(self._before)
        left = sum(self._before[name] for name in names[names.index(step) :]) if step in names else 0.0
        self.say(f"  {step} ..." + (f" (about {duration_words(left)} left, as in the run before)" if left > WORTH_SAYING_SECONDS else ""))

    def end(self) -> None:
        """End the step that runs."""
        if self._open:
            step, began = self._open
            self.seconds[step] = round(time.perf_counter() - began, 2)
            self._open = None


def seconds_of(report: Path, depth: Depth) -> dict[str, float]:
    """Return how long each step of a finished report took; nothing where there is none, or one of another depth."""
    try:
        run = json.loads((report / "run.json").read_text(encoding="utf-8"))
        return {str(name): float(each) for name, each in run["seconds"].items()} if run.get("depth") == depth else {}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}


def folder_name(path: Path) -> str:
    """Return a safe folder name for a book."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name).strip(".-") or "book"


def _prepare(book_path: Path, values: Mapping[str, Any], question: str) -> tuple[Book, Scenario, Callable[..., Path]]:
    """Check everything that can be checked before anything runs; what is returned last runs the notebook on the same book, into a file."""
    notebook = notebook_of(question)
    parameters = notebook_parameters(notebook, book_path, values)
    before = stamp(book_path)

    def still_the_same() -> None:
        changed = {str(name) for name, *_ in set(before) ^ set(stamp(book_path))}
        if changed:
            raise ReportError(f"{book_path} was changed while it was read ({', '.join(sorted(changed))}): run it again")

    book = load_book(book_path)
    still_the_same()
    return book, book.scenario_with(**values), partial(execute, notebook, parameters, check=still_the_same)


def tables_of(plan: Plan) -> dict[str, pd.DataFrame]:
    """Return every table of a plan that the report keeps, by file name."""
    bought, forecast = plan.purchases, plan.forecast
    return {
        "decisions": decision_tables.decisions(plan),
        "spend": spend(plan),
        "cash": cash(plan),
        "obligations": obligations(plan),
        "coverage": unit_tables.coverage(plan),
        "unit_costs": unit_tables.unit_costs(plan),
        "ledger": plan.ledger.entries,
        "purchases": bought.purchases,
        "departures": bought.departures,
        "capacity": bought.capacity,
        "dispatch": bought.dispatch,
        "costs": bought.costs,
        "service": bought.service,
        "limits": bought.binding,
        "limit_lots": bought.limit_lots,
        "rejected_offers": bought.rejected,
        "alternatives": bought.alternatives,
        "verdicts": bought.verdicts,
        "information": bought.information,
        "branches": bought.branches,
        "left_out_offers": bought.left_out,
        "demand_quantiles": forecast.quantiles,
        "demand_scores": forecast.scores,
        "load_blocks": forecast.blocks,
        "prices": plan.prices.sort_values(["offer_id", "sku", "region"], ignore_index=True),
    }


def accounting_pack(plan: Plan, book: Book, focus: pd.DataFrame, last: LastPlan) -> dict[str, pd.DataFrame]:
    """Return the tables for the accountants and for a later review, by file name; `focus` is the planned spend as a bill."""
    return {
        "leases": lease_flags(plan, book),
        "demand_growth": growth_table(plan.forecast, book.get("speeds") if "speeds" in book.tables else None),
        "demand_planner": plan.forecast.planner,
        "roll_forward": roll_forward(plan),
        "postings": postings(plan, book.get("account_map")),
        "commitment_desk": decision_tables.commitment_desk(plan, book),
        "renewals": decision_tables.renewals(plan, book),
        "agreements": decision_tables.agreements(plan),
        "cost_bridge": cost_bridge(plan),
        "budget_bridge": budget_bridge(plan),
        "planned_spend": spend_of_focus(focus),
        "planned_work": plan_tables.planned_work(plan, book.get("workloads")),
        "plan_bridge": plan_bridge(plan, last.spend),
        "driver_bridge": driver_bridge(last.moved_by),
    }


def write_report(book_path: Path, values: Mapping[str, Any], out: Path, say: Say = print, depth: Depth = "usual") -> Report:
    """Make the plan of a book and leave its report, all at once or not at all.

    A quick run leaves the decision with its page, tables and workbook, and does not ask what could change it, nor run the notebook; a
    thorough one proves it
    more closely, and rehearses it on unseen paths.

    Args:
        out: Folder of all reports; the report goes to out/<book>/<first quarter>.

    Raises:
        CapplanError: With one clear message; a previous report stays as it was.
    """
    book, scenario, run = _prepare(book_path, {**DEPTHS[depth], **values}, "plan")
    target = out / folder_name(book_path) / scenario.first_quarter
    say(f"capplan: planning {book.name}, {scenario.first_quarter} and {counted(scenario.horizon_quarters - 1, 'more quarter')}")
    check_room(target)
    said, kept = last_plan(book.name, book_path / "accepted_plan", out / "sample", target)
    previous = latest_report(target.parent) or target
    steps = Steps(say, seconds_of(previous, depth))
    before = signatures_in(previous)
    with shared_answers(), replaced_whole(target) as draft, in_force(book_currency(book, scenario)):
        plan = quarterly_plan(book, scenario, steps)
        steps("drawing charts and writing tables")
        view = show_plan(book, scenario)
        tables = tables_of(plan)
        for name in ("tables", "charts"):
            (draft / name).mkdir()
        for name, frame in tables.items():
            write_table(frame, draft / "tables" / f"{name}.csv")
        behind: dict[str, pd.DataFrame] = {}
        focus = planned_focus(plan)
        last = LastPlan(said, moved_since(kept, plan, book, focus))
        write_workbook(plan, book, draft / "plan.xlsx", behind, last)
        write_budget(plan, draft / "budget.csv", book.get("account_map"))
        write_table(focus, draft / "focus.csv")
        for name, frame in (accounting_pack(plan, book, focus, last) | behind).items():
            write_table(frame, draft / "tables" / f"{name}.csv")
        for name, picture in view.charts.items():
            write_chart(picture, draft / "charts" / name)
        asked = asked_book(book, scenario)
        gaps = no_gaps() if depth == "quick" else rank_gaps(asked, scenario, steps)
        flips = find_flips(asked, scenario, steps) if scenario.flip_search else None
        if flips is not None:
            write_table(flips, draft / "tables" / "flips.csv")
        warnings = tuple(filter(None, (gap_note(gaps), *plan.warnings)))
        (draft / "plan.html").write_text(plan_page(plan, book, view, gaps, flips, warnings, last), encoding="utf-8")
        if depth != "quick":
            steps("running the notebook")
            leave_open(book)
            leave(show_plan, book, scenario, view)
            run(out=draft / "plan.ipynb")
        steps.end()
        (draft / "run.json").write_text(
            json.dumps({**_record(plan, book, scenario, steps.seconds, warnings), "depth": depth}, indent=1, default=str) + "\n",
            encoding="utf-8",
        )
        if before is not None:
            (draft / "changed.html").write_text(difference_page(previous, draft), encoding="utf-8")
        changed = before is not None and signatures_in(draft) != before
    point_to(target)
    return Report(target, plan, warnings, tables, scenario.model_dump(mode="json"), changed)


def _record(plan: Plan, book: Book, scenario: Scenario, seconds: Mapping[str, float], warnings: tuple[str, ...]) -> dict[str, Any]:
    """Return what run.json says about a run."""
    proof = plan.purchases.proof
    return {
        "book": book.name,
        "headline": plan.headline,
        "parameters": scenario.model_dump(mode="json"),
        "digests": dict(book.digests),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "solver": {
            "name": "HiGHS",
            "status": proof.stopped_by,
            "lower_usd": proof.lower_usd,
            "upper_usd": proof.upper_usd,
            "gap_share": proof.gap_share,
        },
        "seconds": dict(seconds),
        "warnings": list(warnings),
    }


def answer_question(question: str, book_path: Path, values: Mapping[str, Any], out: Path, say: Say = print) -> Answered:
    """Answer one question: run its notebook, keep it with its tables, all at once or not at all, and return the same view.

    Args:
        question: Stem of a notebook without its number.
        book_path, values, out, say: As for `write_report`; notebook and tables go to out/<book>/<first quarter>-notebooks/<question>.
    """
    book, scenario, run = _prepare(book_path, values, question)
    target = out / folder_name(book_path) / f"{scenario.first_quarter}-notebooks" / question
    check_room(target)
    say(f"capplan: answering {question} for {book.name}")
    with shared_answers(), replaced_whole(target) as draft:
        view = VIEWS[question](book, scenario)
        leave_open(book)
        leave(VIEWS[question], book, scenario, view)
        for name, frame in {"answer": view.table, **view.details}.items():
            write_table(frame, draft / f"{name}.csv")
        run(out=draft / f"{question}.ipynb")
    return Answered(view, target / f"{question}.ipynb", scenario.model_dump(mode="json"))


def run_notebook(question: str, book: Path, scenario: Scenario | Mapping[str, Any], out: Path) -> Path:
    """Run a question's notebook on a book and return the executed file (see `answer_question`)."""
    values = scenario.model_dump(exclude_unset=True, mode="json") if isinstance(scenario, Scenario) else dict(scenario)
    return answer_question(question, Path(book), values, out, lambda _: None).path
