"""The frontier of expected cost against the bad cases: every point the best at its weight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from capplan.book.scenario import FrontierAssumptions
from capplan.optimize.program import blended_cost
from capplan.questions.procurement import trace_frontier
from tests.cases.procurement_cases import BASE, demand, offer, problem
from tests.conftest import some

HOURS = 2190.0
LOADS = [[4.0, 6.0], [9.0, 3.0], [2.0, 14.0], [7.0, 7.0], [12.0, 10.0]]
PROBABILITY = [0.3, 0.2, 0.1, 0.25, 0.15]


def frontier(**values: object):  # type: ignore[no-untyped-def]
    offers = [offer("od", "on_demand", 4.0), offer("quarter", "lease", 2.2, term_months=3, lot_machines=2)]
    a = FrontierAssumptions(**(BASE | {"tail_share": 0.25, "risk_weight": 0.4} | values))
    return trace_frontier(problem(demand(LOADS, PROBABILITY), offers, a), a)


def test_every_point_is_the_best_of_all_purchases(monkeypatch: pytest.MonkeyPatch) -> None:
    loose = frontier(frontier_points=5).table
    monkeypatch.setattr("capplan.questions.procurement.hindsight.frontier.POINT_GAP", 0.0)
    found = frontier(frontier_points=5)
    grid = [(2 * one, 2 * two) for one, two in itertools.product(range(8), repeat=2)]
    cost = np.array(
        [[HOURS * sum(2.2 * k + 4.0 * max(load - k, 0.0) for load, k in zip(path, pair, strict=True)) for path in LOADS] for pair in grid]
    )
    for row in some(found.table.itertuples()):
        best = min(blended_cost(each, np.array(PROBABILITY), row.risk_weight, 0.25) for each in cost)
        assert row.objective_usd == pytest.approx(best, rel=1e-9)
        assert row.lower_usd <= best * (1 + 1e-9)
        usual = loose[loose["risk_weight"] == row.risk_weight].iloc[0]
        assert usual["lower_usd"] <= best * (1 + 1e-9)
        assert best * (1 - 1e-9) <= usual["objective_usd"] <= best * 1.003
        assert row.objective_usd == pytest.approx((1 - row.risk_weight) * row.expected_usd + row.risk_weight * row.cvar_usd, rel=1e-12)


def test_caution_costs_on_average_and_saves_in_the_bad_cases() -> None:
    table = frontier(frontier_points=7).table
    assert table["risk_weight"].tolist() == pytest.approx([0, 1 / 6, 1 / 3, 0.4, 0.5, 2 / 3, 5 / 6, 1], abs=1e-6)
    assert table.loc[table["chosen"], "risk_weight"].tolist() == [0.4]
    assert (table["expected_usd"].diff().dropna() >= -1e-6).all()
    assert (table["cvar_usd"].diff().dropna() <= 1e-6).all()
    assert table["cvar_usd"].iloc[-1] < table["cvar_usd"].iloc[0] - 1.0


def test_purchases_and_headline_belong_to_the_points() -> None:
    found = frontier(frontier_points=2)
    signed = found.purchases.groupby("risk_weight")["accelerators"].sum()
    assert signed.tolist() == found.table["accelerators"].tolist()
    bold, careful = found.table.iloc[0], found.table.iloc[-1]
    assert careful["expected_usd"] > bold["expected_usd"]
    assert found.headline.startswith("From a plan for the average to one for the worst 25 % of cases: $")
    sure = frontier(frontier_points=2, tail_share=1.0)
    assert "caution costs nothing" in sure.headline
