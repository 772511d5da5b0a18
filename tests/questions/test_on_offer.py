"""What can be had is laid out once: an answer from what was kept is the answer of a problem that nothing is known of."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from capplan.answers.plan import problem_of
from capplan.book.book import load_book
from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.fingerprint import digest
from capplan.questions.procurement.decide import state_problem
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.supply import on_offer
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def asked():
    book = load_book(ROOT / "data" / "enterprise")
    return problem_of(book, book.scenario.replaced(plan_paths=2, horizon_quarters=4))


def alone(problem: Problem) -> Problem:
    """Make the problem anew, so that nothing laid out before is known to it."""
    return Problem(**{field.name: getattr(problem, field.name) for field in fields(problem) if field.init})


def same(one: Problem, other: Problem) -> None:
    first, second = (state_problem(each) for each in (one, other))
    assert first.choices.table.equals(second.choices.table)
    programs = [stated.model.program for stated in (first, second)]
    for name in ("c", "A", "b", "lower", "upper", "q", "W", "technology", "h", "weight"):
        assert digest(getattr(programs[0], name)) == digest(getattr(programs[1], name)), name
    assert digest(*programs[0].T) == digest(*programs[1].T)


CHANGES = {
    "nothing": {},
    "risk": {"risk_weight": 0.7},
    "on demand": {"on_demand_accelerators": 3.0},
    "prices": {"price_factor": 1.3},
    "discount": {"discount_rate_per_year": 0.2},
    "renting": {"hyperscaler_price_change_share_per_year": -0.2},
    "quotas": {"quota_factor": 0.5},
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_assumption_that_changes_is_answered_as_if_nothing_was_kept(asked, change):
    state_problem(asked)
    moved = asked.replaced(assumptions=asked.assumptions.model_copy(update=CHANGES[change]))
    same(moved, alone(moved))


@pytest.mark.parametrize("table", ["offers", "limits", "skus", "speeds", "sites", "commitments", "demand", "classes"])
def test_a_table_that_changes_is_answered_as_if_nothing_was_kept(asked, table):
    state_problem(asked)
    frame = getattr(asked, table)
    number = next(name for name in frame if frame[name].dtype == float and (frame[name] > 1).any() and name not in ("latitude", "hours"))
    grown = frame.assign(**{number: frame[number] * 1.5})
    fewer = frame[frame["class"] != frame["class"].iloc[0]] if "class" in frame else frame.iloc[1:]
    parts = [{table: grown}, {table: fewer} if table not in ("skus", "classes", "speeds") else {table: frame.copy()}]
    for part in parts:
        moved = asked.replaced(**part)
        same(moved, alone(moved))


def test_demand_that_grows_lays_out_nothing_anew_and_keeps_no_paths(asked, monkeypatch):
    state_problem(asked)
    more = asked.demand.assign(work_per_hour=asked.demand["work_per_hour"] * 1.2)
    moved = asked.replaced(demand=more, assumptions=asked.assumptions.model_copy(update={"risk_weight": 0.5, "gap_share": 0.01}))
    monkeypatch.setattr(on_offer, "_laid_out", lambda problem: pytest.fail("laid out again"))
    found = on_offer.on_offer(moved)
    assert found.problem.demand is more
    assert all(set(known.demand) == {"class", "region"} for pair in asked.laid_out for known in (pair[0], pair[1].problem))
    assert pickle.loads(pickle.dumps(asked)).laid_out == []


def test_what_is_said_of_need_is_not_read_for_what_can_be_had(asked):
    read = set()

    class Watched(ProcurementAssumptions):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    watched = Watched(**dict(asked.assumptions))
    read.clear()
    on_offer._laid_out(asked.replaced(assumptions=watched))
    assert {"price_factor", "as_of", "horizon_quarters"} <= read
    assert not read & on_offer.OF_NEED
