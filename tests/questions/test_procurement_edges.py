"""Unusual input: very long contracts, limits of zero, discounts that stack, and work that is cheap to miss."""

from __future__ import annotations

import tracemalloc

import pandas as pd
import pytest

from capplan.questions.procurement.decide import state_problem
from tests.cases.procurement_cases import assumptions, demand, offer, problem, sku, solve, work_class

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)


def test_a_contract_of_fifty_years_is_costed_to_its_end_or_cut_as_told() -> None:
    """Two quarters are planned and 200 are paid: cut off it is the cheapest way, in full it never pays, and held demand uses it on."""
    rows = [ON_DEMAND, offer("long", "lease", 1.0, term_months=600), offer("year", "reserved_1y", 2.0)]
    plans = {
        ending: solve(demand([[5.0, 5.0]]), rows, assumptions(horizon_end=ending))
        for ending in ("truncate", "count_in_full", "hold_demand")
    }
    cut, full, held = plans["truncate"], plans["count_in_full"], plans["hold_demand"]
    assert cut.purchases["offer_id"].tolist() == ["long"]
    assert cut.proof.upper_usd == pytest.approx(HOURS * 5 * 2 * 1.0)
    assert cut.purchases["usd"].tolist() == pytest.approx([HOURS * 5 * 200 * 1.0])
    assert cut.purchases["beyond_horizon_usd"].tolist() == pytest.approx([HOURS * 5 * 198 * 1.0])
    assert "long" not in set(full.purchases["offer_id"])
    assert full.proof.upper_usd == pytest.approx(HOURS * 5 * 2 * 4.0)
    # Demand is held for three years, and the contract is charged for as long.
    assert held.purchases["offer_id"].tolist() == ["long"]
    assert held.proof.upper_usd == pytest.approx(HOURS * 5 * 14 * 1.0)


def test_a_dollar_plan_pays_for_reserved_hours() -> None:
    """A reservation secures ten machines at the price on demand; the plan's dollars pay for these hours at half of it."""
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 6.0}]
    dollars = offer("plan", "savings_plan_1y", 2.0, discounts="usd_per_hour", plan_id="p", guarantees_capacity=False)
    reserved = offer("odcr", "reserved_1y", 4.0, discounts="none", guarantees_capacity=True)
    plan = solve(demand([[10.0] * 4]), [ON_DEMAND, dollars, reserved], limits=limits)
    bought = plan.purchases.set_index("offer_id")
    assert bought.at["plan", "lots"] * bought.at["plan", "usd_per_hour"] == pytest.approx(20.0)
    assert bought.at["odcr", "lots"] >= 4
    assert plan.proof.upper_usd == pytest.approx(4 * HOURS * 10 * 2.0)
    assert plan.service["served_share"].eq(1.0).all()


@pytest.mark.parametrize(
    ("kind", "more", "usd"),
    [
        ("quota_accelerators", {}, 4.0),
        ("new_accelerators", {}, 4.0),
        ("on_demand_accelerators", {}, 1.0),
        ("budget_usd", {"measure": "p_and_l", "hard": True}, 25.0),
        ("budget_usd", {"measure": "p_and_l", "hard": False}, 1.25),
        ("provider_share", {}, 4.0),
    ],
)
def test_a_limit_of_zero_forbids_and_no_more(kind: str, more: dict[str, object], usd: float) -> None:
    rows = [ON_DEMAND, offer("c", "lease", 1.0, term_months=3)]
    limits = [{"limit_id": "none", "kind": kind, "amount": 0.0} | more]
    assert solve(demand([[5.0]]), rows, limits=limits).proof.upper_usd == pytest.approx(HOURS * 5 * usd)


def test_no_power_means_no_owned_machine() -> None:
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=1_000.0)
    limits = [{"limit_id": "none", "kind": "power_kw", "amount": 0.0, "region": "site"}]
    plan = solve(demand([[5.0]]), [ON_DEMAND, own], limits=limits, skus=[sku("gpu"), sku("own", provider="own", power_kw=2.0)])
    assert plan.purchases.empty


def test_work_that_is_cheaper_to_miss_than_to_rent_is_named() -> None:
    cheap = solve(demand([[5.0]]), [ON_DEMAND], classes=[work_class(shortfall_usd_per_unit=3.0)])
    assert cheap.proof.upper_usd == pytest.approx(HOURS * 5 * 3.0)
    assert any(note.startswith("work: work left undone is priced below") for note in cheap.notes)
    assert not any("left undone is priced below" in note for note in solve(demand([[5.0]]), [ON_DEMAND]).notes)


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_optional_columns_of_empty_cells_are_as_good_as_none(empty: object) -> None:
    rows = [
        ON_DEMAND
        | dict.fromkeys(("plan_id", "quote_expires", "available_from", "available_share", "discounts", "guarantees_capacity"), empty)
    ]
    limits = [
        {"limit_id": name, "kind": "on_demand_accelerators", "amount": 7.0}
        | dict.fromkeys(("quarter", "provider", "region", "measure", "hard"), empty)
        for name in "ab"
    ]
    assert solve(demand([[10.0]]), rows, limits=limits).proof.upper_usd == pytest.approx(2190 * (7 * 4.0 + 3 * 25.0))


def test_a_program_with_the_years_after_the_horizon_takes_memory_in_proportion_to_its_paths() -> None:
    """Four times the paths take four times the memory; all levels of demand of every path for every path took sixteen times."""

    def most_bytes(paths: int) -> int:
        work = demand([[float(10 + path % 7), float(12 + path % 5)] for path in range(paths)])
        asked = problem(work, [ON_DEMAND], assumptions(horizon_quarters=2, horizon_end="hold_demand"))
        tracemalloc.start()
        state_problem(asked)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most_bytes(10)
    assert most_bytes(4000) < 6 * most_bytes(1000)


def test_rows_of_work_in_any_order_and_in_parts_make_one_program() -> None:
    """Paths, quarters and classes in another order, one row in two halves, and a quarter that is not planned."""
    work = demand([[10.0, 6.0], [4.0, 9.0], [8.0, 8.0]])
    half = work.assign(work_per_hour=work["work_per_hour"] / 2)
    later = work[work["quarter"] == "2027Q1"].assign(quarter="2031Q1", work_per_hour=1e6)
    mixed = pd.concat([later, half.iloc[::-1], half.sample(frac=1, random_state=1)], ignore_index=True)
    a = assumptions(horizon_quarters=2)
    plain, other = (state_problem(problem(rows, [ON_DEMAND, offer("r", "reserved_1y", 2.0)], a)).work for rows in (work, mixed))
    assert (plain.load == other.load).all()
    pd.testing.assert_frame_equal(plain.points, other.points)
