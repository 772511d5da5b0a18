"""Prices and deliveries in a few states: joined with demand paths, seen by CVaR, exact by brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError
from capplan.optimize.program import Solution, blended_cost
from capplan.questions.procurement.explain import alternatives
from capplan.questions.procurement.program import budget_proof as budgets
from capplan.questions.procurement.work.states import MOST_CROSSED, known_states, with_states
from tests.cases.procurement_cases import assumptions, demand, offer, settle, solve, work_class

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)


def prices(*rows: tuple[str, float, float, float], start: str | None = None) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["state", "probability", "on_demand_factor", "spot_factor"]).assign(from_quarter=start)


def deliveries(late_share: float, days: float | None, **scope: str) -> pd.DataFrame:
    rows = [
        {"state": "on time", "probability": 1 - late_share, "late_days": 0.0},
        {"state": "late", "probability": late_share, "late_days": days} | scope,
    ]
    return pd.DataFrame(rows)


# --- by hand ----------------------------------------------------------------------------------------------------------------------


def test_a_dear_state_makes_a_contract_worth_it() -> None:
    """On demand costs 4, in half of the cases 8: a lease at 5 beats their mean of 6, and not the stated price."""
    rows, states = [ON_DEMAND, offer("c", "lease", 5.0, term_months=3)], prices(("as today", 0.5, 1.0, 1.0), ("dear", 0.5, 2.0, 1.0))
    assert solve(demand([[5.0]]), rows).purchases.empty
    plan = solve(demand([[5.0]]), rows, price_states=states)
    assert plan.purchases["lots"].tolist() == [5]
    free = solve(demand([[5.0]]), rows[:1], price_states=states)
    assert free.proof.upper_usd == pytest.approx(HOURS * 5 * 6.0)
    assert free.costs.query("component == 'on_demand'")["usd"].tolist() == pytest.approx([HOURS * 5 * 4.0, HOURS * 5 * 8.0])
    assert free.dispatch["expected_usd"].sum() == pytest.approx(HOURS * 5 * 6.0)
    assert free.paths["price_state"].tolist() == ["as today", "dear"]
    assert free.paths["demand_path"].tolist() == [0, 0]


def test_cvar_sees_the_dear_state() -> None:
    """At the mean a lease at 5 loses against on demand (4.4 on average); the worst fifth pays 8."""
    rows, states = [ON_DEMAND, offer("c", "lease", 5.0, term_months=3)], prices(("as today", 0.9, 1.0, 1.0), ("dear", 0.1, 2.0, 1.0))
    mean = solve(demand([[5.0]]), rows, assumptions(horizon_quarters=1, risk_weight=0.0), price_states=states)
    careful = solve(demand([[5.0]]), rows, assumptions(horizon_quarters=1, risk_weight=1.0, tail_share=0.1), price_states=states)
    assert mean.purchases.empty
    assert mean.alternatives.set_index("name").at["plan", "cvar_usd"] == pytest.approx(HOURS * 5 * 6.0)
    assert careful.proof.upper_usd == pytest.approx(HOURS * 5 * 5.0)


def test_spot_has_prices_of_its_own_and_a_state_may_begin_later() -> None:
    rows = [ON_DEMAND, offer("spot", "spot", 1.0)]
    states = prices(("as today", 0.5, 1.0, 1.0), ("scarce", 0.5, 1.5, 9.0), start="2027Q2")
    plan = solve(demand([[5.0, 5.0]]), rows, price_states=states, classes=[work_class(interruptible=True)])
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * (1.0 + 0.5 * 1.0 + 0.5 * 6.0))


def test_a_late_machine_is_bridged_and_not_paid_for() -> None:
    """A fifth of the first quarter late, in one case of four: on demand instead of the lease for that time, and no bridge on top."""
    row = offer("c", "lease", 1.0, term_months=6, lead_time_days_p50=30.0, lead_time_days_p90=48.2)
    work, states = demand([[0.0, 5.0, 5.0]]), deliveries(0.25, None)
    plan = solve(work, [ON_DEMAND, row], delivery_states=states)
    late = HOURS * 5 * 0.2 * (4.0 - 1.0)
    assert plan.purchases["lots"].tolist() == [5]
    assert plan.purchases["bridge_usd"].tolist() == [0.0]
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * 2 * 1.0 + 0.25 * late)
    refund = plan.costs.query("component == 'late_delivery'").groupby("path")["usd"].sum()
    assert refund.tolist() == pytest.approx([0.0, -HOURS * 5 * 0.2])
    assert plan.paths["delivery_state"].tolist() == ["on time", "late"]
    other = solve(work, [ON_DEMAND, row], delivery_states=deliveries(0.25, None, accelerator="B200"))
    assert other.purchases["bridge_usd"].sum() > 0


def test_a_delivery_that_may_fail_for_long_decides_against_a_contract() -> None:
    """Nothing can be had on demand: half a quarter late in half of the cases costs the shortfall price of 25."""
    row = offer("c", "lease", 20.0, term_months=3)
    sure, unsure = (
        solve(
            demand([[5.0]]),
            [row, offer("od", "on_demand", 22.0)],
            delivery_states=deliveries(0.5, days),
            limits=[{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 0.0}],
        )
        for days in (0.0, 45.0)
    )
    assert sure.proof.upper_usd == pytest.approx(HOURS * 5 * 20.0)
    assert unsure.proof.upper_usd == pytest.approx(HOURS * 5 * (20.0 + 0.5 * 0.5 * (25.0 - 20.0)))


def test_a_reservation_that_comes_late_is_billed_from_then_on() -> None:
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 0.0}]
    row = offer("odcr", "reserved_1y", 4.0, discounts="none", guarantees_capacity=True)
    plan = solve(demand([[5.0] * 4]), [ON_DEMAND, row], limits=limits, delivery_states=deliveries(0.5, 9.0))
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * (4 * 4.0 + 0.5 * 0.1 * (25.0 - 4.0)))


# --- paths and states -------------------------------------------------------------------------------------------------------------


def test_few_paths_are_joined_with_every_state() -> None:
    states = known_states(prices(("a", 0.3, 1.0, 1.0), ("b", 0.7, 1.2, 1.0)), deliveries(0.25, 30.0))
    joined = with_states(demand([[1.0], [2.0]], [0.4, 0.6]), states, 7).drop_duplicates("path")
    assert len(joined) == 2 * 4
    assert joined["probability"].sum() == pytest.approx(1.0)
    assert joined.groupby("demand_path")["probability"].sum().tolist() == pytest.approx([0.4, 0.6])
    assert joined.groupby("state")["probability"].sum().tolist() == pytest.approx([0.225, 0.075, 0.525, 0.175])


def test_many_paths_have_a_state_each_and_spread_them_over_demand() -> None:
    count = MOST_CROSSED + 100
    draws = np.random.default_rng(1).lognormal(3.0, 0.5, size=(count, 2))
    states = known_states(prices(("a", 0.5, 1.0, 1.0), ("b", 0.3, 1.2, 1.0), ("c", 0.2, 0.8, 1.0)), None)
    work = demand(draws.tolist())
    joined = with_states(work, states, 7).drop_duplicates("path")
    assert len(joined) == count
    assert joined.groupby("state")["probability"].sum().tolist() == pytest.approx([0.5, 0.3, 0.2])
    total = pd.Series(draws.sum(axis=1))[joined["demand_path"]].to_numpy()
    mean, spread = draws.sum(axis=1).mean(), draws.sum(axis=1).std()
    for _, part in joined.assign(total=total).groupby("state"):
        drawn_at_random = spread / np.sqrt(len(part))
        assert abs(np.average(part["total"], weights=part["probability"]) - mean) < drawn_at_random / 2
    pd.testing.assert_frame_equal(with_states(work, states, 7), with_states(work, states, 7))


def test_states_that_cannot_be_are_refused() -> None:
    with pytest.raises(CapplanError, match=r"price_states: the probabilities of its 2 states sum to 0\.9"):
        known_states(prices(("a", 0.5, 1.0, 1.0), ("b", 0.4, 1.0, 1.0)), None)
    with pytest.raises(CapplanError, match=r"delivery_states: the probabilities of its 1 states sum to 0\.25"):
        known_states(None, deliveries(0.25, 30.0)[1:])
    twice = pd.concat([deliveries(0.25, 30.0), pd.DataFrame([{"state": "late", "probability": 0.3, "provider": "cloud"}])])
    with pytest.raises(CapplanError, match="late has different probabilities"):
        known_states(None, twice)


# --- brute force ------------------------------------------------------------------------------------------------------------------


@st.composite
def tiny(draw: Any) -> dict[str, Any]:
    """Two quarters, two paths, two price states and two delivery states, two contracts, spot, caps and a shortfall price."""
    loads, price = st.lists(st.integers(0, 5), min_size=2, max_size=2), st.integers(5, 60).map(lambda tenth: tenth / 10)
    return {
        "loads": [draw(loads), draw(loads)],
        "probability": draw(st.sampled_from([0.5, 0.3])),
        "dear": draw(st.sampled_from([0.1, 0.4])),
        "factors": (draw(st.sampled_from([0.6, 1.5, 3.0])), draw(st.sampled_from([0.5, 2.0]))),
        "late": draw(st.sampled_from([0.2, 0.5])),
        "days": draw(st.sampled_from([18.0, 45.0, 135.0])),
        "short": draw(price),
        "year": draw(price),
        "lot": draw(st.integers(1, 3)),
        "on_demand": draw(price),
        "cap": draw(st.integers(0, 4)),
        "spot": draw(price),
        "spot_cap": draw(st.integers(0, 3)),
        "scarcity": draw(st.sampled_from([0.0, 0.5, 2.0])),
        "risk": draw(st.sampled_from([0.0, 0.4, 1.0])),
        "tail": draw(st.sampled_from([0.2, 0.5])),
        "shortfall": draw(st.sampled_from([8.0, 25.0])),
    }


def planned(case: dict[str, Any]) -> Solution:
    rows = [
        offer("od", "on_demand", case["on_demand"]),
        offer("spot", "spot", case["spot"]),
        offer("year", "reserved_1y", case["year"]),
        offer("short", "lease", case["short"], term_months=3, lot_machines=case["lot"]),
    ]
    limits = [
        {"limit_id": "od", "kind": "on_demand_accelerators", "amount": case["cap"]},
        {"limit_id": "spot", "kind": "spot_accelerators", "amount": case["spot_cap"]},
    ]
    work = demand(case["loads"], [case["probability"], 1 - case["probability"]])
    states = prices(("as today", 1 - case["dear"], 1.0, 1.0), ("dear", case["dear"], *case["factors"]))
    classes = [work_class(interruptible=True, shortfall_usd_per_unit=case["shortfall"])]
    a = assumptions(risk_weight=case["risk"], tail_share=case["tail"], spot_scarcity=case["scarcity"])
    return settle(
        work, rows, a, limits=limits, classes=classes, price_states=states, delivery_states=deliveries(case["late"], case["days"])
    ).solution


def cheapest(case: dict[str, Any]) -> float:
    """Try every purchase; each part of a quarter is served from the cheapest source on, in each path and state."""
    grid = np.array(list(itertools.product(range(6), repeat=4)), dtype=float)
    short, year = grid[:, :2] * case["lot"], grid[:, 2:]
    paid = HOURS * (case["short"] * short.sum(axis=1) + case["year"] * (2 * year[:, 0] + year[:, 1]))
    # Part of the quarter of 90 or 91 days by which contracts of that quarter, and a year's of the first, have not arrived.
    days = case["days"]
    absent = [min(days / 90, 1.0), min(days / 91, 1.0), min(max(days - 90, 0.0) / 91, 1.0)]
    expected = np.average(case["loads"], axis=0, weights=[case["probability"], 1 - case["probability"]])
    costs, chances = [], []
    for s, k, late in itertools.product(range(2), range(2), range(2)):
        on_demand, spot = (price * (case["factors"][i] if k else 1.0) for i, price in enumerate((case["on_demand"], case["spot"])))
        total = np.zeros(len(grid))
        for q in range(2):
            new, old = absent[q] * late, absent[2] * late if q else 0.0
            edges = sorted({0.0, new, old, 1.0})
            above = case["loads"][s][q] / max(expected[q], 1e-9) - 1
            spot_left = case["spot_cap"] * min(max(1 - case["scarcity"] * above, 0.0), 1.0)
            for begin, end in itertools.pairwise(edges):
                fresh, running = float(begin >= new), float(begin >= old) * q
                there = (short[:, q] + year[:, q]) * fresh + year[:, 0] * running
                back = (short[:, q] * case["short"] + year[:, q] * case["year"]) * (1 - fresh) + year[:, 0] * case["year"] * (q - running)
                left, usd = np.maximum(case["loads"][s][q] - there, 0.0), -back
                for price, most in sorted([(on_demand, case["cap"]), (spot, spot_left), (case["shortfall"], np.inf)]):
                    used = np.minimum(left, most)
                    left, usd = left - used, usd + price * used
                total += usd * (end - begin)
        costs.append(total * HOURS)
        chances.append(
            [case["probability"], 1 - case["probability"]][s] * [1 - case["dear"], case["dear"]][k] * [1 - case["late"], case["late"]][late]
        )
    by_path = np.stack(costs)
    return min(cost + blended_cost(by_path[:, j], np.array(chances), case["risk"], case["tail"]) for j, cost in enumerate(paid))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(tiny())
def test_brute_force_finds_nothing_better(case: dict[str, Any]) -> None:
    assert planned(case).upper == pytest.approx(cheapest(case), rel=1e-9, abs=1e-4)


def test_more_machines_do_not_arrive_earlier() -> None:
    """In the days before a late delivery nothing is there, however many machines were ordered."""
    row = offer("c", "lease", 1.0, term_months=3)
    plan = solve(demand([[5.0]]), [row], delivery_states=deliveries(0.5, 18.0))
    assert plan.purchases["lots"].tolist() == [5]
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * (1.0 + 0.5 * 0.2 * (25.0 - 1.0)))
    assert plan.service.groupby("path")["served_share"].first().tolist() == pytest.approx([1.0, 0.8])


def test_values_of_information_count_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who knew the price would lease at 5 only where on demand costs 8, not 4: 5 x 1.0 x half of the time is saved."""
    rows, states = [ON_DEMAND, offer("c", "lease", 5.0, term_months=3)], prices(("as today", 0.5, 1.0, 1.0), ("dear", 0.5, 2.0, 1.0))
    worth = solve(demand([[5.0]]), rows, price_states=states).information.set_index("name")["usd"]
    assert worth["evpi"] == pytest.approx(HOURS * 5 * 0.5)
    many = demand([[float(load)] for load in range(1, 13)])
    plan = solve(many, rows, price_states=states)
    exact = plan.information.set_index("name").loc["evpi"]
    assert exact["meaning"].startswith("what a perfect forecast")
    # whoever knows path and price pays 4 or 5 an hour for what is used, 6.5 on average
    assert exact["usd"] == pytest.approx(plan.alternatives.set_index("name").loc["plan", "expected_usd"] - HOURS * 6.5 * 4.5)
    monkeypatch.setattr(alternatives, "SMALL_PATHS", 0)
    bound = solve(many, rows, price_states=states).information.set_index("name").loc["evpi"]
    assert bound["meaning"].startswith("at most")
    assert bound["usd"] >= exact["usd"] - 1e-6


@pytest.mark.parametrize("large", [False, True])
def test_a_budget_counts_the_prices_of_each_state(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On demand costs 4 or 8, 6 on average; a budget of half of that rations where an hour costs most."""
    if large:
        monkeypatch.setattr(budgets, "EXACT_COLUMNS", 0)
    budget = [{"limit_id": "budget", "kind": "budget_usd", "amount": HOURS * 5 * 3.0, "measure": "p_and_l", "hard": True}]
    states = prices(("as today", 0.5, 1.0, 1.0), ("dear", 0.5, 2.0, 1.0))
    plan = solve(demand([[5.0]]), [ON_DEMAND], limits=budget, price_states=states)
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * (0.5 * 4.0 + 0.5 * (0.25 * 8.0 + 0.75 * 25.0)))
    spend = plan.costs.query("component == 'on_demand'")
    assert (spend["usd"] * spend["probability"]).sum() == pytest.approx(HOURS * 5 * 3.0)


@pytest.mark.parametrize("hard", [True, False])
def test_a_budget_counts_what_late_machines_do_not_cost(hard: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the leases come 30 days late and free; a large plan under a binding budget finds what the written-out one does."""
    work, rows = demand([[6.0, 9.0], [9.0, 4.0]]), [ON_DEMAND, offer("c", "lease", 2.0, term_months=6, lead_time_days_p50=1.0)]
    budget = [{"limit_id": "budget", "kind": "budget_usd", "amount": HOURS * 14.0, "measure": "p_and_l", "hard": hard}]
    more = {"limits": budget, "delivery_states": deliveries(0.5, 30.0)}
    exact = solve(work, rows, **more).proof
    loose = solve(work, rows, delivery_states=deliveries(0.5, 30.0)).proof
    assert exact.upper_usd > loose.upper_usd * 1.001
    monkeypatch.setattr(budgets, "EXACT_COLUMNS", 0)
    large = solve(work, rows, **more).proof
    assert large.lower_usd <= exact.upper_usd * (1 + 1e-7)
    assert large.upper_usd == pytest.approx(exact.upper_usd, rel=1e-5)
