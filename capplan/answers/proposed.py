"""A plan from anywhere, held against the one that is proven for a book."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from capplan.answers.placement import asked_book, placement_of
from capplan.answers.plan import ledger_tables, problem_of
from capplan.book.book import Book
from capplan.book.book_currency import book_currency
from capplan.book.proposed import Proposed
from capplan.book.scenario import LedgerAssumptions, PlacementAssumptions, Scenario
from capplan.questions.ledger import build_ledger
from capplan.questions.placement import CheckedPlacement, check_placement, read_placement
from capplan.questions.placement.problem import build
from capplan.questions.procurement import CheckedPlan, check_plan, decide
from capplan.questions.procurement.decide import state_problem
from capplan.questions.procurement.explain.alternatives import Excess
from capplan.questions.procurement.explain.proposed import match_rows
from capplan.records import records


def checked_purchases(book: Book, scenario: Scenario, proposed: Proposed) -> CheckedPlan:
    """Decide what to buy, and hold proposed purchases against it.

    Raises:
        BookError: All that is wrong with the files, before anything is solved.
    """
    asked = asked_book(book, scenario)
    problem = problem_of(asked, scenario)
    match_rows(state_problem(problem), proposed.rows, proposed.faults)
    beside = partial(_team_excesses, asked, scenario) if asked.get("limits")["team"].notna().any() else None
    return check_plan(decide(problem), proposed.rows, book_currency(book, scenario), beside)


def _team_excesses(book: Book, scenario: Scenario, taken: Mapping[str, pd.DataFrame]) -> list[Excess]:
    """Return by how much what is taken exceeds the budgets of teams, as the ledger books it: in dollars, from a cent on."""
    held = build_ledger(scenario.section(LedgerAssumptions), ledger_tables(book, scenario, taken)).budgets
    return [
        Excess(str(row["limit_id"]), "team_budget_usd", str(row["quarter"]), row["budget_usd"], row["over_usd"], bool(row["hard"]))
        for row in records(held[(held["team"] != "") & (held["over_usd"] >= 0.01)])
    ]


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
