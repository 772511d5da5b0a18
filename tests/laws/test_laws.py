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
from capplan.questions.procurement.decide import Decided
from capplan.questions.procurement.program import budget_proof as budgets
from capplan.units import quarter_hours
from tests.cases.procurement_cases import assumptions, commitment, demand, offer, settle, sku, solve, work_class

HOURS = 2190.0
QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
PRICE = st.integers(1, 60).map(lambda tenth: tenth / 10)
#: A contract of every term, with what is particular to it.
CONTRACTS: dict[str, dict[str, Any]] = {
    "lease": {"term_months": 3, "lot_machines": 4, "minimum_lots": 2},
    "reserved_1y": {"lot_machines": 2},
    "reserved_3y": {"upfront_share": 0.5, "lead_time_days_p50": 60.0},
    "savings_plan_1y": {"discounts": "usd_per_hour"},
    "savings_plan_3y": {"discounts": "usd_per_hour"},
    "capacity_block": {"term_months": 3, "available_from": pd.Timestamp("2027-04-01"), "available_to": pd.Timestamp("2027-06-30")},
    "owned": {"term_months": 60, "sku": "own", "region": "site", "lead_time_days_p50": 80.0},
}


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
        "scarcity": draw(st.sampled_from([0.0, 0.5, 2.0])),
        "had": draw(st.sampled_from([1.0, 0.8])),
        "interruptible": draw(st.booleans()),
        "slow": draw(PRICE),
        "slow_cap": draw(st.integers(0, 4)),
        "quota": draw(st.sampled_from([2, 5, 100])),
        "risk": draw(st.sampled_from([0.0, 0.2, 0.4, 1.0])),
        "tail": draw(st.sampled_from([0.2, 0.5, 0.9])),
        "shortfall": draw(st.sampled_from([3.0, 8.0, 25.0])),
    }


def planned(case: dict[str, Any]) -> Decided:
    """Decide a tiny case."""
    rows = [
        offer("od", "on_demand", case["on_demand"]),
        offer("spot", "spot", case["spot"]),
        offer("slow", "on_demand", case["slow"], sku="old", available_share=case["had"]),
        offer("short", "lease", case["short"], term_months=3, lot_machines=case["lot"], minimum_lots=case["least"]),
        offer("year", "reserved_1y", case["year"], lead_time_days_p50=case["lead"]),
    ]
    limits = [
        {"limit_id": "od", "kind": "on_demand_accelerators", "amount": case["cap"], "accelerator": "H100"},
        {"limit_id": "slow", "kind": "on_demand_accelerators", "amount": case["slow_cap"], "accelerator": "A100"},
        {"limit_id": "spot", "kind": "spot_accelerators", "amount": case["spot_cap"], "accelerator": "H100"},
        {"limit_id": "quota", "kind": "quota_accelerators", "amount": case["quota"], "accelerator": "H100"},
    ]
    return settle(
        demand(case["loads"], [case["probability"], 1 - case["probability"]]),
        rows,
        assumptions(risk_weight=case["risk"], tail_share=case["tail"], spot_scarcity=case["scarcity"]),
        limits=limits,
        skus=[sku("gpu"), sku("old", "A100")],
        speeds=[("work", "H100", 1.0), ("work", "A100", 0.5)],
        classes=[work_class(interruptible=case["interruptible"], shortfall_usd_per_unit=case["shortfall"])],
    )


def recourse(capacity: np.ndarray, load: float, mean: float, case: dict[str, Any]) -> np.ndarray:
    """Serve what capacity does not cover from the cheapest source on; spot is scarcer where load stands above its mean."""
    sources = [(case["on_demand"], case["cap"]), (case["slow"] / 0.5, case["slow_cap"] * case["had"] * 0.5), (case["shortfall"], np.inf)]
    if case["interruptible"]:
        above = max(load / mean - 1, 0.0) if mean else 0.0
        sources.append((case["spot"], case["spot_cap"] * max(1 - case["scarcity"] * above, 0.0)))
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
    mean = np.average(case["loads"], axis=0, weights=[case["probability"], 1 - case["probability"]])
    by_path = np.stack([recourse(first, path[0], mean[0], case) + recourse(second, path[1], mean[1], case) for path in case["loads"]])
    worst, best = by_path.max(axis=0), by_path.min(axis=0)
    # of the worst share of cases, as many as possible are on the dearer path
    dear = np.where(by_path[0] >= by_path[1], case["probability"], 1 - case["probability"])
    bad = np.minimum(dear / case["tail"], 1.0)
    mean = case["probability"] * by_path[0] + (1 - case["probability"]) * by_path[1]
    return float((paid + (1 - case["risk"]) * mean + case["risk"] * (bad * worst + (1 - bad) * best)).min())


@settings(max_examples=200, **QUIET)
@given(tiny())
def test_brute_force_finds_nothing_better(case: dict[str, Any]) -> None:
    """Two hundred cases, from those in which the average counts to those in which only the bad cases do."""
    assert planned(case).solution.upper == pytest.approx(cheapest(case), rel=1e-9, abs=1e-4)


# --- what helps never costs more, on the way of large models: decomposed, and stopped at a gap ----------------------------------------


@st.composite
def larger(draw: Any) -> dict[str, Any]:
    """Three quarters, four paths, two blocks, offers of every term, caps, a quota and a budget."""
    loads = st.lists(st.floats(2, 40).map(lambda load: round(load, 1)), min_size=3, max_size=3)
    price = st.floats(0.8, 3.5).map(lambda usd: round(usd, 2))
    return {
        "loads": [draw(loads) for _ in range(4)],
        "interruptible": draw(st.booleans()),
        "scarcity": draw(st.sampled_from([0.0, 0.5])),
        "prices": {term: draw(price) for term in CONTRACTS} | {"on_demand": 4.0, "spot": draw(st.sampled_from([1.0, 2.5, 3.9]))},
        "caps": {
            "on_demand": draw(st.sampled_from([0.0, 4.0, 12.0])),
            "spot": draw(st.sampled_from([0.0, 3.0, 10.0])),
            "quota": draw(st.sampled_from([8.0, 30.0])),
        },
        "budget": draw(st.sampled_from([60_000.0, 250_000.0])),
        "hard": draw(st.booleans()),
        "counts": draw(st.sampled_from(["purchases", "running", "all"])),
        "risk": draw(st.sampled_from([0.0, 0.3, 0.8])),
        "ending": draw(st.sampled_from(["hold_demand", "hold_demand", "truncate", "count_in_full"])),
        "reuse": draw(st.sampled_from([0.0, 0.6])),
        "offered": draw(st.sets(st.sampled_from(list(CONTRACTS)), min_size=1)),
    }


def decided(case: dict[str, Any]) -> Decided:
    """Decide a larger case on the way of large models; each quarter has a peak of a fifth of its hours."""
    hours = quarter_hours("2027Q1", "average")
    work = demand(case["loads"])
    peak = work.assign(block=0, hours=0.2 * hours, work_per_hour=work["work_per_hour"] * 1.5)
    work = pd.concat([peak, work.assign(block=1, hours=0.8 * hours)], ignore_index=True)
    rows = [
        offer(term, term, case["prices"][term], **more)
        for term, more in (CONTRACTS | {"on_demand": {}, "spot": {"interruptions_per_hour": 0.1}}).items()
        if term in case["offered"] or term in ("on_demand", "spot")
    ]
    # a machine bought costs about as much by the hour over its five years
    rows = [row | ({"usd_per_hour": 0.0, "capex_usd": 30_000 * row["usd_per_hour"]} if row["term"] == "owned" else {}) for row in rows]
    limits = [
        {"limit_id": "od", "kind": "on_demand_accelerators", "amount": case["caps"]["on_demand"]},
        {"limit_id": "spot", "kind": "spot_accelerators", "amount": case["caps"]["spot"]},
        {"limit_id": "quota", "kind": "quota_accelerators", "amount": case["caps"]["quota"], "counts": case["counts"]},
        {"limit_id": "budget", "kind": "budget_usd", "amount": case["budget"], "measure": "p_and_l", "hard": case["hard"]},
    ]
    a = assumptions(
        horizon_quarters=3,
        gap_share=0.01,
        risk_weight=case["risk"],
        horizon_end=case["ending"],
        discount_rate_per_year=0.08,
        spot_scarcity=case["scarcity"],
        reuse_share=case["reuse"],
    )
    machines = [sku("gpu"), sku("own", provider="own", power_kw=1.0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
        patch.setattr(budgets, "EXACT_COLUMNS", 0)
        return settle(work, rows, a, limits=limits, skus=machines, classes=[work_class(interruptible=case["interruptible"])])


def helped(case: dict[str, Any], cheaper: list[str], wider: list[str]) -> dict[str, dict[str, Any]]:
    """Change one thing for the better at a time."""
    # what one path no longer needs makes the others less expected, and spot scarcer for them
    less = [[load * (0.9 if case["scarcity"] or path == 0 else 1.0) for load in loads] for path, loads in enumerate(case["loads"])]
    return {
        **{f"a cheaper {term}": case | {"prices": case["prices"] | {term: case["prices"][term] * 0.8}} for term in cheaper},
        **{f"more {name}": case | {"caps": case["caps"] | {name: case["caps"][name] + 5.0}} for name in wider},
        "more budget": case | ({"budget": case["budget"] * 1.2} if case["budget"] < 1e5 or not case["hard"] else {"hard": False}),
        "less demand": case | {"loads": less},
        "one more offer": case | {"offered": case["offered"] | set(cheaper)},
    }


@settings(max_examples=25, phases=(Phase.generate,), **QUIET)
@given(larger(), st.sampled_from(list(CONTRACTS)), st.sampled_from(["on_demand", "spot"]))
def test_what_helps_never_costs_more(case: dict[str, Any], contract: str, hourly: str) -> None:
    """Cheaper and further offers, larger caps and quotas, more budget, less demand: the new lower bound is never above the old upper one.

    That holds for every treatment of the horizon's end and every weight of the bad cases.
    """
    upper = decided(case).solution.upper
    for name, other in helped(case, [contract, hourly], [hourly, "quota"]).items():
        assert decided(other).solution.lower <= upper * (1 + 1e-9) + 1e-4, name


@settings(max_examples=25, phases=(Phase.generate,), **QUIET)
@given(larger())
def test_looking_at_the_bad_cases_lowers_them(case: dict[str, Any]) -> None:
    """The proven least CVaR is below that of any other plan, and the careful plan is within the gap of it."""
    bold, careful = (decided(case | {"risk": weight, "budget": 1e9}) for weight in (0.0, 1.0))
    cvar = [
        float(plan.model.program.c @ plan.solution.x)
        + blended_cost(plan.solution.cost_by_scenario, plan.model.program.probability, 1.0, 0.2)
        for plan in (bold, careful)
    ]
    assert careful.solution.lower <= cvar[0] + 1e-4
    assert cvar[1] <= cvar[0] + 0.01 * abs(cvar[1]) + 1e-4


def test_a_search_that_meets_its_limit_is_labelled_with_its_proven_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """One iteration for the relaxation and none for whole lots: what was found is a plan, its bounds hold, and it is not called optimal."""
    work = demand(np.random.default_rng(3).integers(1, 60, size=(12, 4)).tolist())
    rows = [
        offer("od", "on_demand", 4.0),
        offer("a", "lease", 2.0, term_months=3, lot_machines=8),
        offer("b", "reserved_1y", 2.1, lot_machines=8),
    ]
    a = assumptions(horizon_quarters=4, gap_share=1e-6)
    best = solve(work, rows, a)
    monkeypatch.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
    monkeypatch.setattr(budgets, "EXACT_COLUMNS", 0)
    for name, most in (("RELAXED_ITERATIONS", 1), ("WHOLE_ITERATIONS", 0)):
        monkeypatch.setattr(l_shaped, name, most)
    found = solve(work, rows, a)
    assert best.proof.stopped_by == "optimal"
    assert found.proof.stopped_by == "limit"
    assert found.proof.lower_usd <= best.proof.upper_usd <= found.proof.upper_usd
    assert found.proof.gap_share == pytest.approx(1 - found.proof.lower_usd / found.proof.upper_usd)
    assert "Not proven to be the best: within" in found.headline
    assert any("not proven to be optimal" in note for note in found.notes)
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
