"""A plan from anywhere, held against the one that is proven for a book."""

import pandas as pd

from capplan.answers.placement import asked_book, placement_of
from capplan.answers.plan import problem_of
from capplan.book.book import Book
from capplan.book.currencies import rate_of_quarter, rates_by_month
from capplan.book.proposed import Proposed
from capplan.book.scenario import PlacementAssumptions, Scenario
from capplan.questions.placement import CheckedPlacement, check_placement, read_placement
from capplan.questions.placement.problem import build
from capplan.questions.procurement import CheckedPlan, check_plan, decide
from capplan.questions.procurement.decide import state_problem
from capplan.questions.procurement.explain.checked_plan import Currency
from capplan.questions.procurement.explain.proposed import match_rows
from capplan.units import quarter_range


def checked_purchases(book: Book, scenario: Scenario, proposed: Proposed) -> CheckedPlan:
    """Decide what to buy, and hold proposed purchases against it.

    Raises:
        BookError: All that is wrong with the files, before anything is solved.
    """
    problem = problem_of(asked_book(book, scenario), scenario)
    match_rows(state_problem(problem), proposed.rows, proposed.faults)
    return check_plan(decide(problem), proposed.rows, _currency_of(book, scenario))


def _currency_of(book: Book, scenario: Scenario) -> Currency:
    """Return the book's currency with its rates of the day of the plan, and of each planned quarter."""
    name, fx = scenario.currency, book.get("fx")
    today = rates_by_month(pd.Series([pd.Timestamp(scenario.as_of).replace(day=1)]), name, fx).iloc[0]
    quarters = quarter_range(scenario.first_quarter or "", scenario.horizon_quarters)
    return Currency(name, float(today), {quarter: rate_of_quarter(quarter, name, fx) for quarter in quarters})


def checked_placement(book: Book, scenario: Scenario, proposed: Proposed) -> CheckedPlacement:
    """Place the book's tasks, and hold a proposed placement against it.

    Raises:
        BookError: All that is wrong with the files, before anything is solved.
    """
    book = book.with_changes(scenario.changes)
    tasks, nodes = (book.need(name, "The placement") for name in ("tasks", "nodes"))
    a = scenario.section(PlacementAssumptions)
    problem = build(tasks, book.get("task_edges"), nodes, book.get("links"), a, book.get("task_durations"))
    told = read_placement(problem, proposed.rows, proposed.faults)
    return check_placement(problem, placement_of(book, scenario), told, a.placement_objective)
