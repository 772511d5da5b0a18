"""What a notebook lays out for a person to move: loaded where somebody is there, and nothing elsewhere."""

from collections.abc import Sequence
from typing import Any

from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs.lab.given import somebody_is_there
from capplan.outputs.views.view import First, Show


def explore(show: Show, book: Book, scenario: Scenario, *, fields: Sequence[str] | None = None, first: First | None = None) -> Any:
    """Answer what changes if an assumption changes: put controls around a view.

    Args:
        book, scenario: What it is shown for; the scenario is the baseline.
        fields: Assumptions to move; by default those the view names.
        first: A quick answer that stands in until the full one, which is always that of `show`, is computed; None where there is none.

    Returns:
        Explorer or None: A widget to be shown as a cell's last value; None where nobody is there to move it.

    Raises:
        ScenarioError: If a field is no assumption.
    """
    if not somebody_is_there():
        return None
    from capplan.outputs.lab.explore import Explorer

    return Explorer(show, book, scenario, fields, first=first)


def meeting(book: Book, scenario: Scenario) -> Any:
    """Answer what a meeting asks: put the cards and their answers, a `Board`, under the plan; None where nobody is there to click."""
    if not somebody_is_there():
        return None
    from capplan.outputs.lab.board import Board

    return Board(book, scenario)
