"""A purchase plan stated and priced with stand-in demand, as far as the solver: what would stop the plan itself stops it here."""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from capplan.answers.plan import beside_compute, prices_of, problem_of
from capplan.book.book import Book
from capplan.book.scenario import DemandAssumptions, Scenario
from capplan.errors import CapplanError
from capplan.questions.demand.events import read_events, read_runs
from capplan.questions.demand.forecast_demand import last_days
from capplan.questions.demand.history import read_histories
from capplan.questions.demand.planner import read_planned
from capplan.questions.demand.statements import read_statements
from capplan.questions.procurement.decide import state_problem
from capplan.units import quarter_end, quarter_range, quarter_start

#: Work of each workload and quarter in the stand-in, in its unit: its size decides nothing that is tried here.
STAND_IN_WORK = 1.0


def rehearsed(book: Book, scenario: Scenario) -> list[str]:
    """Say what would stop a plan of a book before it is solved, without forecasting.

    Args:
        book: The book, loaded and checked, with the scenario's changes.

    Returns:
        list of str: What was found; of the demand and of the purchases at most one each, as the plan itself would say it.
    """
    a = scenario.section(DemandAssumptions)
    steps: list[Callable[[], Any]] = [lambda: prices_of(book, scenario)]
    if "demand_scenarios" not in book.own:
        steps.append(lambda: _read_statements(book, a))
    found = []
    for step in steps:
        found += _said(step)
    if found:
        return found
    quick = scenario.replaced(plan_paths=1, training_delay_target_hours=None)
    standing = book if "demand_scenarios" in book.own else _with_stand_in(book, a)

    def stated() -> None:
        if scenario.training_delay_target_hours is not None:
            for table in ("jobs", "nodes"):
                book.need(table, "The delay target of training jobs")
        beside_compute(standing, quick)
        state_problem(problem_of(standing, quick))

    return _said(stated)


def _said(step: Callable[[], Any]) -> list[str]:
    """Do a step, and return what it refuses."""
    try:
        step()
    except CapplanError as error:
        return [str(error)]
    return []


def _read_statements(book: Book, a: DemandAssumptions) -> None:
    """Read all that is stated of demand, as the forecast does, and the histories it starts from."""
    quarters, notes = quarter_range(a.first_quarter, a.horizon_quarters), list[str]()
    horizon = (quarter_start(quarters[0]), quarter_end(quarters[-1]))
    workloads = book.get("workloads")
    read_events(book.get("events"), a, horizon[1], notes)
    read_runs(book.get("training_runs"), dict(zip(workloads["workload"], workloads["unit"], strict=True)), horizon, notes)
    read_planned(book.get("planner_forecasts") if "planner_forecasts" in book.tables else None, pd.Timestamp(a.as_of), notes)
    read_statements(book.get("growth_statements"), notes)
    if len(book.get("usage")):
        read_histories(book.get("usage"), a, last_days(workloads))


def _with_stand_in(book: Book, a: DemandAssumptions) -> Book:
    """Return the book with a little work stated for every workload and region that its demand has."""
    parts = [book.get(table)[["workload", "region"]] for table in ("usage", "training_runs") if len(book.get(table))]
    where = pd.concat(parts).fillna({"region": "any"}).drop_duplicates()
    quarters = quarter_range(a.first_quarter, a.horizon_quarters)
    rows = pd.concat([where.assign(quarter=quarter) for quarter in quarters], ignore_index=True)
    stated = rows.assign(scenario="stand-in", probability=1.0, quantity=STAND_IN_WORK)
    digests = {
        **book.digests,
        "demand_scenarios": "stand-in of " + " ".join(book.digests.get(name, "") for name in ("usage", "training_runs")),
    }
    tables = {**book.tables, "demand_scenarios": stated}
    return replace(book, tables=MappingProxyType(tables), digests=MappingProxyType(digests), own=(*book.own, "demand_scenarios"))
