"""Machines that are expected: from their day on they are offered, at the expected price of their work; what they succeed is worth less."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.procurement import decide
from tests.cases.procurement_cases import assumptions, demand, offer, problem, settle, sku, solve, work_class

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
LEASE = offer("lease", "lease", 2.0, term_months=3)


def expected(**more: Any) -> pd.DataFrame:
    """A successor that does three times the work at one and a half times the price, surely there from April on."""
    row = {"accelerator": "R1", "succeeds": "H100", "price_ratio": 1.5, "speedup_ratio": 3.0}
    days = {"available_p50": pd.Timestamp("2027-04-01"), "available_p90": pd.Timestamp("2027-04-01")}
    return pd.DataFrame([row | days | more])


def test_work_moves_to_the_successor_on_its_day() -> None:
    """Ten accelerators at 4 in the first quarter, a third as many at 6 in the second."""
    found = settle(demand([[10.0, 10.0]]), [ON_DEMAND], generations=expected())
    assert found.solution.upper == pytest.approx(HOURS * (40 + 10 / 3 * 6))


def test_a_successor_that_may_not_come_costs_what_its_work_is_expected_to_cost() -> None:
    """Half of the time three of the old ones do its work: 0.5 x 6 + 0.5 x 12."""
    found = settle(demand([[10.0, 10.0]]), [ON_DEMAND], generations=expected(probability=0.5))
    assert found.solution.upper == pytest.approx(HOURS * (40 + 10 / 3 * 9))


def test_a_later_contract_is_signed_for_the_successor_at_its_price() -> None:
    plan = solve(demand([[12.0, 12.0]]), [ON_DEMAND, LEASE], generations=expected())
    bought = plan.purchases[["offer_id", "accelerator", "quarter", "machines", "usd_per_hour"]].to_numpy().tolist()
    assert bought == [["lease", "H100", "2027Q1", 12.0, 2.0], ["lease as R1", "R1", "2027Q2", 4.0, 3.0]]
    assert plan.proof.upper_usd == pytest.approx(HOURS * (24 + 12))


def test_speed_ups_differ_by_workload() -> None:
    rows = pd.concat([expected(workload="a"), expected(speedup_ratio=1.2)])
    work = pd.concat([demand([[6.0, 6.0]], name="a"), demand([[6.0, 6.0]], name="b")])
    more = {"classes": [work_class("a"), work_class("b")], "speeds": [("a", "H100", 1.0), ("b", "H100", 1.0)]}
    found = settle(work, [ON_DEMAND], generations=rows, **more)
    assert found.solution.upper == pytest.approx(HOURS * (48 + 6 / 3 * 6 + 24))


def test_a_successor_of_a_successor_is_priced_by_the_one_before() -> None:
    second = expected(accelerator="R2", succeeds="R1", price_ratio=1.0, speedup_ratio=2.0)
    found = settle(demand([[12.0, 12.0]]), [ON_DEMAND], generations=pd.concat([second, expected()]))
    assert found.solution.upper == pytest.approx(HOURS * (48 + 12 / 6 * 6))


def test_long_contracts_wait_for_the_successor() -> None:
    """Three years at 2 today, or a quarter on demand and three years of the successor: the work of the later years costs half."""
    three, a = offer("three", "reserved_3y", 2.0), assumptions(horizon_end="hold_demand")
    flat = settle(demand([[12.0, 12.0]]), [ON_DEMAND, three], a)
    wise = settle(demand([[12.0, 12.0]]), [ON_DEMAND, three], a, generations=expected())
    assert flat.purchases["machines"].tolist() == [12.0]
    assert wise.purchases[["offer_id", "quarter", "machines"]].to_numpy().tolist() == [["three as R1", "2027Q2", 4.0]]


def test_what_it_succeeds_brings_less_when_it_is_sold() -> None:
    """A machine bought today and kept for five years; its rest is worth half, since the successor's work costs half."""
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=10_000.0, term_months=60)
    machines = [sku("gpu"), sku("own", provider="own", power_kw=1.0)]
    a = assumptions(horizon_end="count_in_full", residual_share=0.2)
    site = pd.DataFrame({"site": ["site"], "geography": ["us"], "available_kw": [9.0], "pue": [1.2], "usd_per_kwh": [0.1]})
    rest = [
        settle(demand([[1.0, 1.0]]), [ON_DEMAND, own], a, skus=machines, sites=site, **more).choices.residual_usd[0].sum()
        for more in ({}, {"generations": expected(speedup_ratio=3.0)})
    ]
    assert rest == pytest.approx([2_000.0, 1_000.0])


def test_the_price_of_missing_work_is_not_moved_by_what_has_not_come() -> None:
    a = assumptions()
    unpriced = [work_class(shortfall_usd_per_unit=None)]
    before, after = (
        decide(problem(demand([[5.0, 5.0]]), [ON_DEMAND], a, classes=unpriced, **more)).work.rows["shortfall_usd"].tolist()
        for more in ({}, {"generations": expected()})
    )
    assert before == after


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (expected(succeeds="R1"), "own ancestor"),
        (pd.concat([expected(succeeds="R2"), expected(accelerator="R2", succeeds="R1")]), "own ancestor"),
        (pd.concat([expected(), expected(workload="work", price_ratio=2.0)]), "equal in all rows"),
        (expected(available_p90=pd.Timestamp("2027-01-01")), "available_p50 must not lie after available_p90"),
        (expected(probability=30.0), "at most 1"),
    ],
)
def test_generations_that_contradict_themselves_are_refused(rows: pd.DataFrame, words: str) -> None:
    with pytest.raises(CapplanError, match=words):
        settle(demand([[1.0]]), [ON_DEMAND], generations=rows)


def test_a_successor_of_what_nobody_offers_is_said_and_changes_nothing() -> None:
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], generations=expected(succeeds="MI300X"))
    assert plan.proof.upper_usd == pytest.approx(HOURS * 80)
    assert any("R1" in note and "MI300X" in note for note in plan.notes)
