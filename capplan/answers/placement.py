"""Placement, asked of a book: which task where and when, what is misplaced today, and which hardware fits a stage."""

from __future__ import annotations

from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import PlacementAssumptions, Scenario
from capplan.questions.placement import Placement, place_tasks

#: Tables that decide where tasks run.
TABLES = ("tasks", "task_edges", "task_durations", "nodes", "links")


def placement_of(book: Book, scenario: Scenario) -> Placement:
    """Place the book's tasks on its nodes."""
    a = scenario.section(PlacementAssumptions)

    def compute() -> Placement:
        tasks, nodes = (book.need(name, "The placement") for name in ("tasks", "nodes"))
        return place_tasks(tasks, book.get("task_edges"), nodes, book.get("links"), a, durations=book.get("task_durations"))

    return remembered("placement", book, TABLES, a, compute)
