"""Laws of purchase plans: brute force on tiny cases, monotony as far as proven bounds allow, relaxation, repeatability."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from capplan.optimize import l_shaped, two_stage
from capplan.optimize.program import blended_cost
from capplan.optimize.two_stage import solve_two_stage
from capplan.questions.procurement import budgets
from capplan.questions.procurement.solve import Decided
from capplan.units import quarter_hours
from tests.procurement_cases import assumptions, commitment, demand, offer, settle, sku, solve, work_class

HOURS = 2190.0
QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
PRICE = st.integers(1, 60).map(lambda tenth: tenth / 10)
#: Tiny cases that one plan holds side by side where only the average counts.
SIDE_BY_SIDE = 10


@st.composite
def tiny(draw: Any, risks: tuple[float, ...]) -> dict[str, Any]:
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
        "risk": draw(st.sampled_from(risks)),
        "tail": draw(st.sampled_from([0.2, 0.5, 0.9])),
        "shortfall": draw(st.sampled_from([3.0, 8.0, 25.0])),
    }


def planned(*cases: dict[str, Any]) -> Decided:
    """Decide tiny cases in one plan, each with machines, work and limits of its own, at the probability and risk of the first."""
    rows, limits, machines, speeds, classes, work = [], [], [], [], [], []
    first = cases[0]
    for k, case in enumerate(cases):
        fast, slow, name = f"H{k}", f"A{k}", f"work{k}"
        new = {"sku": f"new{k}"}
        rows += [
            offer(f"od{k}", "on_demand", case["on_demand"], **new), offer(f"spot{k}", "spot", case["spot"], **new),
            offer(f"slow{k}", "on_demand", case["slow"], sku=f"old{k}"),
            offer(f"short{k}", "lease", case["short"], term_months=3, lot_machines=case["lot"], minimum_lots=case["least"], **new),
            offer(f"year{k}", "reserved_1y", case["year"], lead_time_days_p50=case["lead"], **new),
        ]  # fmt: skip
        limits += [
            {"limit_id": f"od{k}", "kind": "on_demand_accelerators", "amount": case["cap"], "accelerator": fast},
            {"limit_id": f"slow{k}", "kind": "on_demand_accelerators", "amount": case["slow_cap"], "accelerator": slow},
            {"limit_id": f"spot{k}", "kind": "spot_accelerators", "amount": case["spot_cap"], "accelerator": fast},
            {"limit_id": f"quota{k}", "kind": "quota_accelerators", "amount": case["quota"], "accelerator": fast},
        ]
        machines += [sku(f"new{k}", fast), sku(f"old{k}", slow)]
        speeds += [(name, fast, 1.0), (name, slow, 0.5)]
        classes.append(work_class(name, interruptible=case["interruptible"], shortfall_usd_per_unit=case["shortfall"]))
        work.append(demand(case["loads"], [first["probability"], 1 - first["probability"]], name=name))
    a = assumptions(risk_weight=first["risk"], tail_share=first["tail"])
    return settle(pd.concat(work), rows, a, limits=limits, skus=machines, speeds=speeds, classes=classes)


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


@settings(max_examples=50, **QUIET)
@given(tiny((0.2, 0.4, 1.0)))
def test_brute_force_finds_nothing_better(case: dict[str, Any]) -> None:
    """Fifty cases in which the bad cases count."""
    assert planned(case).solution.upper == pytest.approx(cheapest(case), rel=1e-9, abs=1e-4)


@settings(max_examples=15, **QUIET)
@given(st.lists(tiny((0.0,)), min_size=SIDE_BY_SIDE, max_size=SIDE_BY_SIDE))
def test_brute_force_finds_nothing_better_side_by_side(cases: list[dict[str, Any]]) -> None:
    """A hundred and fifty more in which the average counts, ten in a plan: the plan costs what the ten best ones cost together."""
    best = [cheapest(case | {"probability": cases[0]["probability"]}) for case in cases]
    assert planned(*cases).solution.upper == pytest.approx(sum(best), rel=1e-9, abs=1e-4)


# --- what helps never costs more, on the way of large models: decomposed, and stopped at a gap ----------------------------------------


@st.composite
def larger(draw: Any) -> dict[str, Any]:
    """Four quarters, five paths, two blocks, contracts of three lengths, caps, a quota and a budget."""
    loads = st.lists(st.floats(2, 40).map(lambda load: round(load, 1)), min_size=4, max_size=4)
    price = st.floats(0.8, 3.5).map(lambda usd: round(usd, 2))
    return {
        "loads": [draw(loads) for _ in range(5)],
        "prices": {name: draw(price) for name in ("quarter", "year", "long")},
        "on_demand": 4.0,
        "cap": draw(st.sampled_from([4.0, 12.0])),
        "quota": draw(st.sampled_from([8.0, 30.0])),
        "budget": draw(st.sampled_from([60_000.0, 250_000.0])),
        "hard": draw(st.booleans()),
        **draw(st.sampled_from([{"risk": 0.0, "ending": "hold_demand"}, {"risk": 0.0, "ending": "truncate"}, {"risk": 0.3, "ending": "truncate"}])),
    }


def decided(case: dict[str, Any]) -> Decided:
    """Decide a larger case; each quarter has a peak of a fifth of its hours."""
    hours = quarter_hours("2027Q1", "average")
    work = demand(case["loads"])
    peak = work.assign(block=0, hours=0.2 * hours, work_per_hour=work["work_per_hour"] * 1.5)
    work = pd.concat([peak, work.assign(block=1, hours=0.8 * hours)], ignore_index=True)
    usd = case["prices"]
    rows = [
        offer("od", "on_demand", case["on_demand"]), offer("quarter", "lease", usd["quarter"], term_months=3, lot_machines=4, minimum_lots=2),
        offer("year", "reserved_1y", usd["year"], lot_machines=2), offer("long", "reserved_3y", usd["long"], upfront_share=0.5, lead_time_days_p50=60.0),
    ]  # fmt: skip
    limits = [
        {"limit_id": "od", "kind": "on_demand_accelerators", "amount": case["cap"]},
        {"limit_id": "quota", "kind": "quota_accelerators", "amount": case["quota"]},
        {"limit_id": "budget", "kind": "budget_usd", "amount": case["budget"], "measure": "p_and_l", "hard": case["hard"]},
    ]
    a = assumptions(horizon_quarters=4, gap_share=0.01, risk_weight=case["risk"], horizon_end=case["ending"], discount_rate_per_year=0.08)
    return settle(work, rows, a, limits=limits)


def credited(plan: Decided) -> float:
    """Expected cost of the demand that is held after the horizon without this plan's contracts, which its own cost is net of."""
    program, rows = plan.model.program, plan.recourse.rows
    held = np.flatnonzero(rows["kind"] == "held_demand")
    weight = program.weight * program.probability[program.scenario]
    return float((weight @ program.h[:, held]).sum())


def helped(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Change one thing for the better at a time."""
    less = [[load * 0.9 for load in case["loads"][0]], *case["loads"][1:]]
    return {
        **{f"a cheaper {name}": case | {"prices": case["prices"] | {name: usd * 0.8}} for name, usd in case["prices"].items()},
        "on demand cheaper": case | {"on_demand": 3.6},
        "more on demand": case | {"cap": case["cap"] + 5.0},
        "a larger quota": case | {"quota": case["quota"] + 6.0},
        "more budget": case | {"budget": case["budget"] * 1.2},
        "a budget that may be broken": case | {"hard": False},
        "less demand on one path": case | {"loads": less},
    }


@settings(max_examples=6, phases=(Phase.generate,), **QUIET)
@given(larger())
def test_what_helps_never_costs_more(case: dict[str, Any]) -> None:
    """Cheaper offers, larger quotas, more budget and less demand: the new lower bound is never above the old upper bound.

    Where demand is held after the horizon, a plan's cost is net of what that demand costs without it; what helps makes that cheaper too, so it
    is added again on both sides.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
        patch.setattr(budgets, "EXACT_COLUMNS", 0)
        old = decided(case)
        upper = old.solution.upper + credited(old)
        for name, other in helped(case).items():
            new = decided(other)
            assert new.solution.lower + credited(new) <= upper * (1 + 1e-9) + 1e-4, name


@settings(max_examples=8, phases=(Phase.generate,), **QUIET)
@given(larger())
def test_looking_at_the_bad_cases_lowers_them(case: dict[str, Any]) -> None:
    """The proven least CVaR is below that of any other plan, and the careful plan is within the gap of it."""
    bold, careful = (decided(case | {"risk": weight, "budget": 1e9}) for weight in (0.0, 1.0))
    cvar = [
        float(plan.model.program.c @ plan.solution.x) + blended_cost(plan.solution.cost_by_scenario, plan.model.program.probability, 1.0, 0.2)
        for plan in (bold, careful)
    ]
    assert careful.solution.lower <= cvar[0] + 1e-4
    assert cvar[1] <= cvar[0] + 0.01 * abs(cvar[1]) + 1e-4


def test_a_search_that_meets_its_limit_is_labelled_with_its_proven_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """One iteration for the relaxation and none for whole lots: what was found is a plan, its bounds hold, and it is not called optimal."""
    work = demand(np.random.default_rng(3).integers(1, 60, size=(12, 4)).tolist())
    rows = [offer("od", "on_demand", 4.0), offer("a", "lease", 2.0, term_months=3, lot_machines=8), offer("b", "reserved_1y", 2.1, lot_machines=8)]
    a = assumptions(horizon_quarters=4, gap_share=1e-6)
    best = solve(work, rows, a)
    monkeypatch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
    monkeypatch.setattr(budgets, "EXACT_COLUMNS", 0)
    for name, most in (("RELAXED_ITERATIONS", 1), ("NEAR_ITERATIONS", 0), ("WHOLE_ITERATIONS", 0)):
        monkeypatch.setattr(l_shaped, name, most)
    found = solve(work, rows, a)
    assert best.proof.stopped_by == "optimal"
    assert found.proof.stopped_by == "limit"
    assert found.proof.lower_usd <= best.proof.upper_usd <= found.proof.upper_usd
    assert found.proof.gap_share == pytest.approx(1 - found.proof.lower_usd / found.proof.upper_usd)
    assert "Not proven to be the best: within" in found.headline
    assert any("and not optimal" in note for note in found.notes)
    assert "limit" not in best.headline


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
