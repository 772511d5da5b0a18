"""Time limits: what is found until then comes with its proven gap and its label, and is never called optimal."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from capplan.errors import CapplanError
from capplan.optimize import clock, two_stage
from capplan.optimize.clock import OutOfTimeError, time_limit
from capplan.optimize.program import TwoStage
from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import solve_two_stage
from capplan.questions.procurement.program import budget_proof as budgets
from tests.cases.procurement_cases import assumptions, demand, offer, settle, solve

WORK = demand(np.random.default_rng(3).integers(1, 60, size=(12, 4)).tolist())
OFFERS = [
    offer("od", "on_demand", 4.0),
    offer("a", "lease", 2.0, term_months=3, lot_machines=8),
    offer("b", "reserved_1y", 2.1, lot_machines=8),
]
QUOTA = {"limit_id": "quota", "kind": "quota_accelerators", "amount": 30.0}
BUDGET = {"limit_id": "budget", "kind": "budget_usd", "amount": 150_000.0, "measure": "p_and_l", "hard": True}
AGREED = pd.DataFrame(
    {
        "agreement_id": ["edp"],
        "provider": ["cloud"],
        "start": [pd.Timestamp("2027-01-01")],
        "end": [pd.Timestamp("2027-12-31")],
        "committed_usd": [900_000.0],
    }
)
CASES: dict[str, dict[str, Any]] = {
    "free": {},
    "quota": {"limits": [QUOTA]},
    "hard budget": {"limits": [QUOTA, BUDGET]},
    "spend agreement": {"spend_agreements": AGREED},
}


def timed(seconds: float, **more: Any) -> Any:
    """Return assumptions with a time limit."""
    return assumptions(**{"horizon_quarters": 4, "gap_share": 1e-6, "risk_weight": 0.3, "time_limit_seconds": seconds} | more)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second pass at each look at the clock."""
    ticks = itertools.count()
    monkeypatch.setattr(clock, "read", lambda: float(next(ticks)))


@pytest.fixture(params=["written out", "decomposed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Solve as small and as large problems are."""
    if request.param == "decomposed":
        monkeypatch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
        monkeypatch.setattr(budgets, "EXACT_COLUMNS", 0)
    return str(request.param)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_that_the_clock_ends_is_feasible_and_labelled_with_its_gap(name: str, way: str) -> None:
    best = settle(WORK, OFFERS, timed(0.0, gap_share=1e-2), **CASES[name])
    found = solve(WORK, OFFERS, timed(1e-9), **CASES[name])
    assert not best.cut_short
    assert found.proof.lower_usd <= best.solution.upper * (1 + 1e-9)
    assert best.solution.lower <= found.proof.upper_usd * (1 + 1e-9)
    assert found.proof.stopped_by == "time limit"
    assert found.proof.gap_share == pytest.approx((found.proof.upper_usd - found.proof.lower_usd) / found.proof.upper_usd)
    assert (found.binding["slack"] >= -1e-6).all(), "it keeps all limits"
    assert "Stopped by the time limit, not proven to be the best:" in found.headline
    assert any("inputs may give another plan" in note for note in found.notes)
    assert any("not proven to be optimal" in note and ": the time limit ended the search" in note for note in found.notes)
    words = found.explanation.set_index("about")["words"]["proof"]
    assert "time limit" in words
    assert "optimal" not in words + found.headline


def test_without_a_limit_nothing_reads_the_clock(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(clock, "read", lambda: pytest.fail("the clock was read"))
    assert settle(WORK, OFFERS, timed(0.0)).stopped_by in ("optimal", "gap")


def test_more_time_proves_more_until_the_wanted_gap_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
    found = []
    for seconds in (1, 8, 10_000):
        ticks = itertools.count()
        monkeypatch.setattr(clock, "read", lambda ticks=ticks: float(next(ticks)))
        found.append(settle(WORK, OFFERS, timed(seconds)))
    assert [plan.stopped_by for plan in found[:2]] == ["time limit", "time limit"]
    assert found[2].stopped_by in ("optimal", "gap")
    assert not found[2].cut_short
    lower, upper = ([getattr(plan.solution, name) for plan in found] for name in ("lower", "upper"))
    assert lower == sorted(lower)
    assert max(lower) <= min(upper) * (1 + 1e-9)


def test_a_search_in_the_clock_s_last_second_gives_the_same_bounds_each_time(ticking: None) -> None:
    """The loop looks at the clock between its steps, so that the same readings give the same plan."""
    one = settle(WORK, OFFERS, timed(3))
    assert one.solution.lower <= one.solution.upper


def picky(scale: float = 1.0) -> TwoStage:
    """Return a program of four sums that must be met to the unit by thirty whole numbers, which neither nothing nor rounding solves."""
    draw = np.random.default_rng(11)
    sums = draw.integers(1, 100, size=(4, 30)).astype(float)
    return TwoStage(
        c=np.ones(30),
        A=sparse.csr_matrix(sums),
        b=scale * sums @ draw.integers(0, 2, size=30),
        sense=np.full(4, "="),
        lower=np.zeros(30),
        upper=np.ones(30),
        integer=np.ones(30, dtype=bool),
        q=np.array([1.0]),
        W=sparse.csr_matrix([[1.0]]),
        recourse_sense=np.array([">"]),
        T=[sparse.csr_matrix((1, 30))],
        technology=np.zeros(1, dtype=int),
        h=np.ones((1, 1)),
        weight=np.ones(1),
        scenario=np.zeros(1, dtype=int),
        probability=np.ones(1),
    )


@pytest.mark.parametrize("method", ["extensive", "l_shaped"])
def test_no_solution_at_all_is_an_error_that_says_what_to_do(method: Any) -> None:
    with time_limit(1e-9), pytest.raises(OutOfTimeError, match=r"before any solution.*allow more time \(time_limit_seconds\)"):
        solve_two_stage(picky(), method=method)


@pytest.mark.parametrize("method", ["extensive", "l_shaped"])
def test_what_is_infeasible_is_called_so_and_not_out_of_time(method: Any) -> None:
    with time_limit(1e-9), pytest.raises(InfeasibleError):
        solve_two_stage(picky(100.0), method=method)


def test_a_service_level_that_was_not_reached_in_time_is_an_error() -> None:
    caps = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 5.0}]
    scarce = settle(WORK, OFFERS, timed(0.0, service_level_share=0.99), limits=caps)
    assert not scarce.cut_short
    with pytest.raises(CapplanError, match=r"time limit came before a plan that serves 99 % of each class was found"):
        settle(WORK, OFFERS, timed(1e-9, service_level_share=0.99), limits=caps)
