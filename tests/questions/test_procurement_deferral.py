"""Work that may wait is put off when that is cheaper, by the same amount on all paths."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from capplan.questions.procurement.work.deferral import deferrals
from tests.cases.procurement_cases import assumptions, demand, offer, solve, work_class

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
LATER = work_class(stage_kind="batch", deferrable=True)
LIMIT = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 6.0}]


def values(window: int, share: float = 0.01) -> object:
    return assumptions(horizon_quarters=3, deferral_quarters=window, deferral_cost_share_per_quarter=share)


def test_a_peak_is_put_off_into_quarters_with_room() -> None:
    work = demand([[10.0, 5.0, 2.0]])
    now = solve(work, [ON_DEMAND], values(0), limits=LIMIT, classes=[LATER])
    one = solve(work, [ON_DEMAND], values(1), limits=LIMIT, classes=[LATER])
    two = solve(work, [ON_DEMAND], values(2), limits=LIMIT, classes=[LATER])
    assert now.proof.upper_usd == pytest.approx(HOURS * (6 + 5 + 2) * 4.0 + HOURS * 4 * 25.0)
    assert now.deferrals.empty
    # four go one quarter on, of which three push others on again; a window of two lets three go straight, at the same price
    assert one.proof.upper_usd == pytest.approx(HOURS * 17 * 4.0 + HOURS * (4 + 3) * 0.25)
    assert two.proof.upper_usd == pytest.approx(HOURS * 17 * 4.0 + HOURS * (1 * 0.25 + 3 * 0.5))
    assert two.deferrals["usd"].sum() == pytest.approx(HOURS * 1.75)
    assert one.service["shortfall"].sum() == pytest.approx(0.0, abs=1e-6)
    assert one.service["demanded"].sum() == pytest.approx(HOURS * 17)


def test_delay_that_costs_more_than_it_saves_is_not_taken() -> None:
    rows = [ON_DEMAND, offer("c", "lease", 3.9, term_months=3)]
    assert solve(demand([[10.0, 5.0, 2.0]]), rows, values(2, 1.0), classes=[LATER]).deferrals.empty


def test_work_that_must_not_wait_stays() -> None:
    for fixed in (work_class(stage_kind="batch"), work_class(deferrable=True)):
        assert solve(demand([[10.0, 5.0, 2.0]]), [ON_DEMAND], values(2), limits=LIMIT, classes=[fixed]).deferrals.empty


def test_one_amount_for_all_paths_is_the_best_of_those_tried() -> None:
    """Two paths; the amount is tried out in tenths, a path with less work than is put off does it all the same."""
    loads, window = [[9.0, 4.0], [5.0, 3.0]], assumptions(deferral_quarters=1, deferral_cost_share_per_quarter=0.02)
    found = solve(demand(loads), [ON_DEMAND], window, limits=LIMIT, classes=[LATER])

    def cost(put_off: float) -> float:
        total = 0.02 * 25.0 * put_off
        for first, second in loads:
            for load in (max(first - put_off, 0.0), second + put_off):
                total += (4.0 * min(load, 6.0) + 25.0 * max(load - 6.0, 0.0)) / 2
        return HOURS * total

    best = min(cost(tenth / 10) for tenth in range(91))
    assert found.proof.upper_usd == pytest.approx(best, rel=1e-9)
    for path, quarter in itertools.product(range(2), ("2027Q1", "2027Q2")):
        part = found.service[(found.service["path"] == path) & (found.service["quarter"] == quarter)]
        assert (part["served"] + part["shortfall"]).tolist() == pytest.approx(part["demanded"].tolist())


def test_what_is_put_off_into_a_longer_quarter_needs_fewer_machines_there() -> None:
    work = SimpleNamespace(
        points=pd.DataFrame({"quarter": [0, 0, 1]}),
        load=np.array([[4.0], [6.0], [1.0]]),
        rows=pd.DataFrame([{"deferrable": True, "shortfall_usd": 25.0}]),
    )
    timeline = SimpleNamespace(planned=2, hours=np.array([2160.0, 2184.0]), quarters=["2027Q1", "2027Q2"], discount=np.array([0.5, 0.25]))
    (found,) = deferrals(work, timeline, values(1))
    assert found.adds == {(0, 0): -1.0, (1, 0): pytest.approx(2160 / 2184)}
    assert (found.most, found.usd) == (6.0, pytest.approx(0.01 * 25 * 2160 * 0.5))
