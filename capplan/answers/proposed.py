"""A plan from anywhere, held against the one that is proven for a book."""

from __future__ import annotations

from capplan.answers.placement import asked_book
from capplan.answers.plan import problem_of
from capplan.book.book import Book
from capplan.book.proposed import Proposed
from capplan.book.scenario import Scenario
from capplan.questions.procurement import CheckedPlan, check_plan, decide
from capplan.questions.procurement.decide import state_problem
from capplan.questions.procurement.explain.proposed import match_rows


def checked_purchases(book: Book, scenario: Scenario, proposed: Proposed) -> CheckedPlan:
    """Decide what to buy, and hold proposed purchases against it.

    Parameters
    ----------
    book, scenario
        As for the plan.
    proposed
        Purchases.

    Raises
    ------
    BookError
        All that is wrong with the files, before anything is solved.
    """
    problem = problem_of(asked_book(book, scenario), scenario)
    match_rows(state_problem(problem), proposed.rows, proposed.faults)
    return check_plan(decide(problem), proposed.rows)
