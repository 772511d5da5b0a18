"""The review of an accepted plan, asked of a book that has bills and usage since."""

from __future__ import annotations

from capplan.book.accepted import AcceptedPlan
from capplan.book.book import Book
from capplan.book.scenario import ReviewAssumptions, Scenario
from capplan.questions.review import Came, Review, review_plan


def review_of(book: Book, scenario: Scenario, plan: AcceptedPlan) -> Review:
    """Hold an accepted plan against the bills and the usage of its book."""
    book.need("billing", "The review of a plan")
    came = Came(**{name: book.get(name) for name in Came.__dataclass_fields__})
    return review_plan(plan, came, scenario.section(ReviewAssumptions))
