"""Laws of purchase plans: brute force on tiny cases, monotony as far as proven bounds allow, relaxation, repeatability."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.optimize.program import blended_cost
from capplan.optimize.two_stage import solve_two_stage
from capplan.questions.procurement import Purchases, budgets
from tests.procurement_cases import assumptions, commitment, demand, offer, sku, solve, work_class

HOURS = 2190.0
QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
PRICE = st.integers(1, 60).map(lambda tenth: tenth / 10)


@st.composite
def tiny(draw: Any) -> dict[str, Any]:
    """Two quarters, two paths, one class on two accelerators, two contracts, caps and a quota."""
    loads = st.lists(st.integers(0, 6), min_size=2, max_size=2)
    return {
        "loads": [draw(loads), draw(loads)],
        "probability": draw(st.sampled_from([0.5, 0.3, 0.8])),
        "short": draw(PRICE),
        "year": draw(PRICE),
        "lead": draw(st.sampled_from([0.0, 60.0])),
        "lot": draw(st.integers(1, 3)),
        "least": draw(st.integers(0, 3)),
        "on_demand": draw(PRICE),
        "cap": draw(st.integers(0, 5)),
        "spot": draw(PRICE),
        "spot_cap": draw(st.integers(0, 3)),
        "interruptible": draw(st.booleans()),
        "slow": draw(PRICE),
        "slow_cap": draw(st.integers(0, 4)),
        "quota": draw(st.sampled_from([2, 5, 100])),
        "risk": draw(st.sampled_from([0.0, 0.4, 1.0])),
        "tail": draw(st.sampled_from([0.2, 0.5, 0.9])),
        "shortfall": draw(st.sampled_from([3.0, 8.0, 25.0])),
    }


def planned(case: dict[str, Any]) -> Purchases:
    """Plan a tiny case through the public face."""
    rows = [
        offer("od", "on_demand", case["on_demand"]), offer("spot", "spot", case["spot"]), offer("slow", "on_demand", case["slow"], sku="old"),
        offer("short", "lease", case["short"], term_months=3, lot_machines=case["lot"], minimum_lots=case["least"]),
        offer("year", "reserved_1y", case["year"], lead_time_days_p50=case["lead"]),
    ]  # fmt: skip
    limits = [
        {"limit_id": "od", "kind": "on_demand_accelerators", "amount": case["cap"], "accelerator": "H100"},
        {"limit_id": "slow", "kind": "on_demand_accelerators", "amount": case["slow_cap"], "accelerator": "A100"},
        {"limit_id": "spot", "kind": "spot_accelerators", "amount": case["spot_cap"]},
        {"limit_id": "quota", "kind": "quota_accelerators", "amount": case["quota"]},
    ]
    a = assumptions(risk_weight=case["risk"], tail_share=case["tail"])
    work = demand(case["loads"], [case["probability"], 1 - case["probability"]])
    return solve(work, rows, a, limits=limits, skus=[sku("gpu"), sku("old", "A100")], speeds=[("work", "H100", 1.0), ("work", "A100", 0.5)],
                 classes=[work_class(interruptible=case["interruptible"], shortfall_usd_per_unit=case["shortfall"])])  # fmt: skip


def recourse(capacity: np.ndarray, load: float, case: dict[str, Any]) -> np.ndarray:
    """Serve what capacity does not cover from the cheapest source on."""
    sources = [(case["on_demand"], case["cap"]), (case["slow"] / 0.5, case["slow_cap"] * 0.5), (case["shortfall"], np.inf)]
    if case["interruptible"]:
        sources.append((case["spot"], case["spot_cap"]))
    left, usd = np.maximum(load - capacity, 0.0), np.zeros(len(capacity))
    for price, most in sorted(sources):
        used = np.minimum(left, most)
        left, usd = left - used, usd + price * used
    return usd * HOURS


def cheapest(case: dict[str, Any]) -> float:
    """Try every purchase."""
    lots = range(8)
    grid = np.array(
        list(itertools.product([0, *range(max(case["least"], 1), 8)], [0, *range(max(case["least"], 1), 8)], lots, lots)), dtype=float
    )
    if case["lead"]:
        grid = grid[grid[:, 2] == 0]
    first = case["lot"] * grid[:, 0] + grid[:, 2]
    second = case["lot"] * grid[:, 1] + grid[:, 2] + grid[:, 3]
    allowed = (first <= case["quota"]) & (second <= case["quota"])
    grid, first, second = grid[allowed], first[allowed], second[allowed]
    paid = HOURS * (case["short"] * case["lot"] * (grid[:, 0] + grid[:, 1]) + case["year"] * (2 * grid[:, 2] + grid[:, 3]))
    by_path = np.stack([recourse(first, path[0], case) + recourse(second, path[1], case) for path in case["loads"]])
    chances = np.array([case["probability"], 1 - case["probability"]])
    return min(cost + blended_cost(by_path[:, j], chances, case["risk"], case["tail"]) for j, cost in enumerate(paid))


@settings(max_examples=200, **QUIET)
@given(tiny())
def test_brute_force_finds_nothing_better(case: dict[str, Any]) -> None:
    assert planned(case).proof.upper_usd == pytest.approx(cheapest(case), rel=1e-9, abs=1e-4)


@settings(max_examples=25, **QUIET)
@given(tiny(), st.sampled_from(["short", "year", "on_demand", "spot", "slow"]))
def test_a_cheaper_offer_never_costs_more(case: dict[str, Any], name: str) -> None:
    assert planned(case | {name: case[name] * 0.8}).proof.lower_usd <= planned(case).proof.upper_usd * (1 + 1e-9) + 1e-4


@settings(max_examples=25, **QUIET)
@given(tiny(), st.sampled_from(["cap", "slow_cap", "spot_cap", "quota"]))
def test_a_larger_limit_never_costs_more(case: dict[str, Any], name: str) -> None:
    assert planned(case | {name: case[name] + 1}).proof.lower_usd <= planned(case).proof.upper_usd * (1 + 1e-9) + 1e-4


@settings(max_examples=25, **QUIET)
@given(tiny(), st.integers(0, 1), st.integers(0, 1))
def test_less_demand_never_costs_more(case: dict[str, Any], path: int, quarter: int) -> None:
    loads = [list(row) for row in case["loads"]]
    loads[path][quarter] = max(loads[path][quarter] - 1, 0)
    assert planned(case | {"loads": loads}).proof.lower_usd <= planned(case).proof.upper_usd * (1 + 1e-9) + 1e-4


@settings(max_examples=25, **QUIET)
@given(tiny())
def test_looking_at_the_bad_cases_lowers_them(case: dict[str, Any]) -> None:
    bold, careful = planned(case | {"risk": 0.0}), planned(case | {"risk": 1.0})
    cvar = [plan.alternatives.set_index("name").at["plan", "cvar_usd"] for plan in (bold, careful)]
    assert cvar[1] <= cvar[0] * (1 + 1e-9) + 1e-4


def test_whole_lots_cost_at_least_what_parts_of_lots_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = []

    def spy(program: Any, *args: Any, **more: Any) -> Any:
        programs.append(program)
        return solve_two_stage(program, *args, **more)

    monkeypatch.setattr(budgets, "solve_two_stage", spy)
    plan = solve(
        demand([[9.0, 14.0], [3.0, 31.0]]), [offer("od", "on_demand", 4.0), offer("c", "lease", 1.5, term_months=3, lot_machines=8)]
    )
    relaxed = solve_two_stage(replace(programs[0], integer=np.zeros_like(programs[0].integer)), 0.0, 0.2, 0.0)
    assert relaxed.upper <= plan.proof.upper_usd + 1e-6
    assert relaxed.upper < plan.proof.upper_usd - 1.0


def test_the_same_inputs_give_the_same_tables() -> None:
    rows = [offer("od", "on_demand", 4.0), offer("a", "lease", 2.0, term_months=3), offer("b", "reserved_1y", 2.0)]
    work = demand(np.random.default_rng(5).integers(1, 40, size=(6, 4)).tolist())
    old = [commitment("old", 3.0, "2026-07-01", "2027-06-30", renewal_usd_per_hour=2.5)]
    one, two = (
        solve(work, rows, assumptions(horizon_quarters=4, horizon_end="hold_demand", risk_weight=0.3), commitments=old) for _ in range(2)
    )
    for name in ("purchases", "capacity", "dispatch", "costs", "service", "binding", "rejected", "alternatives", "information"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(two, name), check_exact=True)
    assert one.headline == two.headline
