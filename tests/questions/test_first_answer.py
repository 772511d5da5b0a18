"""First answers: solved from where the last plan left off, or anew, proven, and without a trace in the full answer that follows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from capplan.answers import plan
from capplan.optimize import two_stage
from capplan.questions.procurement import first_answer
from tests.cases.procurement_cases import assumptions, demand, offer, settle
from tests.conftest import example_book

SHORT = {"horizon_quarters": 2, "paths": 12, "plan_paths": 6, "load_blocks": 2, "gap_share": 0.005}
ROWS = [
    offer("od", "on_demand", 4.0),
    offer("quarter", "lease", 2.4, term_months=3, lot_machines=4),
    offer("year", "reserved_1y", 2.0, lot_machines=2),
]


@pytest.mark.parametrize("moved", [{"risk_weight": 0.6}, {"price_factor": 1.3}, {"quota_factor": 0.5}])
def test_a_warm_decision_is_proven_on_its_own(moved: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm and cold prove the same optimum: neither lower bound is above the other plan."""
    monkeypatch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
    work = demand(np.random.default_rng(11).integers(1, 60, size=(20, 4)).tolist())
    limits = [{"limit_id": "quota", "kind": "quota_accelerators", "amount": 60.0}]
    values = {"horizon_quarters": 4, "gap_share": 1e-3, "risk_weight": 0.1}
    base = settle(work, ROWS, assumptions(**values), limits=limits)
    cold, warm = (settle(work, ROWS, assumptions(**(values | moved)), limits=limits, warm=left) for left in (None, base.solution.warm))
    for one, other in ((cold.solution, warm.solution), (warm.solution, cold.solution)):
        assert one.lower <= other.upper * (1 + 1e-9)
        assert one.gap_share <= 1e-3
    said = first_answer(warm)
    assert said.headline.startswith("First answer: ")
    assert f"proven within {100 * warm.solution.gap_share:.2g} % of the best plan" in said.headline
    assert (said.costs["usd"] * said.costs["probability"]).sum() == pytest.approx(said.expected_usd)


@pytest.mark.slow
def test_the_full_answer_is_the_same_whatever_was_looked_at_before(monkeypatch: pytest.MonkeyPatch, cold: Callable[[], None]) -> None:
    monkeypatch.setattr(plan, "_left", {})
    book = example_book()
    scenario = book.scenario_with(**SHORT)
    moved = scenario.replaced(risk_weight=0.5)
    assert plan.first_answer_of(book, scenario) is not None, "another process may have made the plan: nothing is left to start from here"
    plan._left.clear()
    plan.purchases_of(book, scenario)
    assert plan.first_answer_of(book, scenario) is None, "the full answer is known"
    first = plan.first_answer_of(book, moved)
    assert first is not None
    looked = plan.purchases_of(book, moved)
    assert first.expected_usd == pytest.approx(looked.alternatives.set_index("name").at["plan", "expected_usd"], rel=0.05)
    cold()
    plan._left.clear()
    fresh = plan.purchases_of(book, moved)
    for name in ("purchases", "costs", "alternatives", "binding", "explanation"):
        pd.testing.assert_frame_equal(getattr(looked, name), getattr(fresh, name), check_exact=True)
    assert looked.headline == fresh.headline
