"""Spend agreements in purchase plans: drawn by contracts and by use, paid where nothing cheaper uses them up."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.book.scenario import FrontierAssumptions
from capplan.errors import CapplanError
from capplan.questions.procurement import Purchases, judge_on_fresh_paths, plan_purchases, rehearse_plan, trace_frontier
from tests.cases.procurement_cases import BASE, assumptions, commitment, demand, offer, problem, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
RIVAL = offer("rival", "lease", 1.0, term_months=3, sku="other")
MACHINES = [sku("gpu"), sku("other", provider="rival")]


def agreement(usd: float, start: str = "2027-01-01", end: str = "2027-06-30", **more: object) -> dict[str, object]:
    return {"agreement_id": "edp", "provider": "cloud", "start": pd.Timestamp(start), "end": pd.Timestamp(end), "committed_usd": usd} | more


def plan(work: pd.DataFrame, offers: list[dict[str, object]], *years: dict[str, object], **more: object) -> Purchases:
    return solve(work, offers, skus=MACHINES, spend_agreements=pd.DataFrame(years), **more)  # type: ignore[arg-type]


def test_a_shortfall_is_paid_where_nothing_uses_it_up() -> None:
    """Rival machines at a quarter of the price serve everything; using the agreement up would cost more than paying it."""
    without = plan(demand([[5.0, 5.0]]), [ON_DEMAND, RIVAL])
    found = plan(demand([[5.0, 5.0]]), [ON_DEMAND, RIVAL], agreement(1000.0))
    # a dollar on demand replaces a quarter of a dollar elsewhere, and saves the dollar of the shortfall: it is spent
    assert found.agreements["shortfall_usd"].tolist() == [pytest.approx(0.0, abs=1e-6)]
    assert without.proof.upper_usd <= found.proof.upper_usd <= without.proof.upper_usd + 1000.0
    idle = plan(demand([[5.0, 5.0]]), [offer("spot", "spot", 4.0), RIVAL], agreement(1000.0))
    assert idle.proof.upper_usd == pytest.approx(without.proof.upper_usd + 1000.0)
    assert idle.agreements["shortfall_usd"].tolist() == [pytest.approx(1000.0)]
    assert any("edp: $1.0k of the $1.0k" in note for note in idle.notes)


@pytest.mark.parametrize("change", [-0.5, 0.5])
def test_use_by_the_hour_counts_as_it_is_billed_where_prices_move(change: float) -> None:
    """Ten accelerators from April on, at the price of the middle of the quarter; what that leaves of the year's sum is paid."""
    moves = pd.DataFrame([{"path": "p", "change_share_per_year": change}])
    billed = HOURS * 10 * 4 * (1 + change) ** (135.5 / 365.25)
    for committed in (0.5 * billed, 1.2 * billed):
        found = plan(demand([[0.0, 10.0]]), [ON_DEMAND], agreement(committed), price_paths=moves)
        assert found.proof.upper_usd == pytest.approx(max(billed, committed))
        assert found.agreements["shortfall_usd"].sum() == pytest.approx(max(committed - billed, 0.0), abs=1e-4)


@pytest.mark.parametrize("committed", [0.0, 20_000.0, 60_000.0, 120_000.0])
def test_the_plan_is_the_best_of_all(committed: float) -> None:
    """Every purchase of both providers tried out by hand, the payment for what stays unspent included."""
    load, mine, theirs, short = 6.0, 2.5, 1.5, 25.0
    offers = [offer("mine", "lease", mine, term_months=3), RIVAL | {"usd_per_hour": theirs, "maximum_lots": 4.0}]
    best = min(
        HOURS * (mine * x + theirs * y + short * max(load - x - y, 0.0)) + max(committed - HOURS * mine * x, 0.0)
        for x, y in itertools.product(range(8), range(5))
    )
    found = plan(demand([[load]]), offers, agreement(committed, end="2027-03-31"))
    assert found.proof.upper_usd == pytest.approx(best, rel=1e-9)


def test_use_by_the_hour_counts_and_is_discounted() -> None:
    """Flat use on demand is planned for; with 10 % off it costs 10 % less, and draws as much less."""
    work = demand([[5.0, 5.0]])
    found = plan(work, [ON_DEMAND], agreement(2 * HOURS * 5 * 4.0 * 0.9, discount_share=0.1))
    assert found.proof.upper_usd == pytest.approx(2 * HOURS * 5 * 4.0 * 0.9)
    assert found.agreements["by_the_hour_usd"].tolist() == [pytest.approx(2 * HOURS * 5 * 3.6)]
    assert found.agreements["shortfall_usd"].tolist() == [pytest.approx(0.0, abs=1e-6)]
    assert found.costs.query("component == 'on_demand'")["usd"].sum() == pytest.approx(2 * HOURS * 5 * 4.0)


def test_what_is_rented_beside_the_plan_counts_in_expectation() -> None:
    """Demand differs between paths, so an hour's spend cannot be planned without loss; the expected spend counts all the same."""
    work = demand([[2.0, 2.0], [8.0, 8.0]])
    found = plan(work, [ON_DEMAND], agreement(2 * HOURS * 5 * 4.0))
    assert found.proof.upper_usd == pytest.approx(2 * HOURS * 5 * 4.0)
    assert found.agreements["shortfall_usd"].tolist() == [pytest.approx(0.0, abs=1e-6)]


def test_signed_contracts_draw_what_they_still_bill() -> None:
    signed = commitment("old", 3.0, "2026-07-01", "2027-06-30", usd=2.0, upfront_paid_usd=3 * 2.0 * 8760 / 2)
    found = plan(demand([[3.0, 3.0]]), [offer("spot", "spot", 4.0)], agreement(20_000.0, drawn_usd=1_000.0), commitments=[signed])
    billed = 3 * 2.0 * 181 * 24 / 2
    assert found.agreements["signed_usd"].tolist() == [pytest.approx(billed)]
    assert found.agreements["shortfall_usd"].tolist() == [pytest.approx(20_000.0 - 1_000.0 - billed)]


def test_a_rest_rolls_over_into_the_next_year() -> None:
    years = [agreement(9_000.0, end="2027-03-31", rolls_over=True), agreement(1_000.0, start="2027-04-01")]
    rows = [offer("spot", "spot", 4.0), offer("mine", "lease", 2.0, term_months=3)]
    found = plan(demand([[0.0, 4.0]]), rows, *years)
    assert found.agreements["rolled_out_usd"].tolist() == [pytest.approx(9_000.0), 0.0]
    assert found.agreements["shortfall_usd"].sum() == pytest.approx(0.0, abs=1e-6)
    assert found.proof.upper_usd == pytest.approx(HOURS * 4 * 2.0)
    paid = plan(demand([[0.0, 4.0]]), rows, years[0] | {"rolls_over": False}, years[1])
    assert paid.proof.upper_usd == pytest.approx(HOURS * 4 * 2.0 + 9_000.0)


def test_the_part_of_a_year_after_the_horizon_is_left_out() -> None:
    found = plan(demand([[0.0, 0.0]]), [ON_DEMAND], agreement(36_500.0, end="2027-12-31"))
    assert found.agreements["committed_usd"].tolist() == [pytest.approx(36_500.0 * 181 / 365)]


def test_other_costs_of_the_provider_draw_too() -> None:
    other = pd.DataFrame(
        {"month": pd.to_datetime(["2027-01-01", "2027-02-01", "2028-01-01"]), "usd": [100.0, 200.0, 900.0], "provider": "cloud"}
    )
    found = plan(demand([[0.0, 0.0]]), [ON_DEMAND], agreement(1_000.0), other_costs=other)
    assert found.agreements["shortfall_usd"].tolist() == [pytest.approx(700.0)]


def test_alternatives_pay_for_the_agreement_as_well() -> None:
    rows = [ON_DEMAND, offer("mine", "lease", 2.0, term_months=3), RIVAL]
    found = plan(demand([[5.0, 5.0], [7.0, 9.0]]), rows, agreement(90_000.0), a=assumptions(risk_weight=0.3))
    table = found.alternatives.set_index("name")
    assert (table["regret_usd"] >= -1e-6).all()
    spent = 4.0 * HOURS * np.mean([10.0, 16.0])
    assert table.at["do_nothing", "expected_usd"] == pytest.approx(spent + max(90_000.0 - spent, 0.0))


def test_overlapping_years_are_refused() -> None:
    with pytest.raises(CapplanError, match=r"spend agreement edp: the years .* overlap"):
        plan(demand([[5.0, 5.0]]), [ON_DEMAND], agreement(1.0), agreement(1.0, start="2027-03-01", end="2027-09-30"))


@pytest.mark.parametrize("risk_weight", [0.0, 0.4])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_bounds_of_large_plans_hold_for_the_whole_problem(seed: int, risk_weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum of the problem written out whole lies between the bounds that a large plan gets, however its use is counted."""
    draw = np.random.default_rng(seed)
    work = demand(draw.uniform(1.0, 9.0, (4, 4)).tolist())
    offers = [
        offer("od", "on_demand", 3.0),
        offer("lease", "lease", 2.2, term_months=3),
        RIVAL | {"usd_per_hour": 1.9},
        offer("cheap", "on_demand", 2.8, sku="other"),
    ]
    first = agreement(float(draw.uniform(1e4, 8e4)), rolls_over=bool(seed % 2))
    second = agreement(float(draw.uniform(1e4, 8e4)), start="2027-07-01", end="2027-12-31", discount_share=0.1)
    exact = plan(work, offers, first, second, a=assumptions(horizon_quarters=4, risk_weight=risk_weight, gap_share=0.0)).proof
    assert exact.gap_share <= 1e-7
    monkeypatch.setattr("capplan.questions.procurement.program.budget_proof.EXACT_COLUMNS", 0)
    found = plan(work, offers, first, second, a=assumptions(horizon_quarters=4, risk_weight=risk_weight, gap_share=1e-4)).proof
    slack = 1e-6 * exact.upper_usd
    assert found.lower_usd <= exact.upper_usd + slack
    assert exact.lower_usd <= found.upper_usd + slack
    # and they are near where all paths weigh what they are probable; else a price must not pay for use without end on paths of low weight
    assert risk_weight > 0 or found.gap_share <= 0.1


LOADS = [[3.0, 9.0], [8.0, 2.0], [5.0, 5.0], [9.0, 9.0]]


def test_to_sign_nothing_yet_costs_no_more_than_to_do_nothing() -> None:
    """What stays unspent is paid in every alternative, whatever use by the hour the plan counts on."""
    offers = [ON_DEMAND, offer("lease", "lease", 2.0, term_months=3), RIVAL | {"usd_per_hour": 1.5}]
    for usd in (20_000.0, 60_000.0, 150_000.0):
        found = plan(demand(LOADS), offers, agreement(usd), a=assumptions(approval_days=0)).alternatives.set_index("name")["objective_usd"]
        assert found["sign_nothing_yet"] <= found["do_nothing"] * (1 + 1e-9)
        assert found["plan"] <= found.min() * (1 + 1e-9)


def test_every_point_of_the_frontier_pays_what_it_leaves_unspent() -> None:
    a = FrontierAssumptions(**(BASE | {"frontier_points": 3, "risk_weight": 0.2}))
    offers = [ON_DEMAND, offer("lease", "lease", 2.0, term_months=3), RIVAL | {"usd_per_hour": 1.5}]
    asked = problem(demand(LOADS), offers, a, skus=MACHINES, spend_agreements=pd.DataFrame([agreement(120_000.0)]))
    table = trace_frontier(asked, a).table
    mean_only = table[table["risk_weight"] == 0].iloc[0]
    assert (table["expected_usd"] >= mean_only["lower_usd"] * (1 - 1e-9)).all()
    for row in table.itertuples():
        best = plan(demand(LOADS), offers, agreement(120_000.0), a=assumptions(risk_weight=row.risk_weight)).proof
        assert row.lower_usd <= best.upper_usd * (1 + 1e-7)
        assert best.lower_usd <= row.objective_usd * (1 + 1e-7)


def test_fresh_paths_and_rehearsal_leave_unspent_sums_out_on_both_sides() -> None:
    a = HindsightAssumptions(**(BASE | {"fresh_batches": 2, "approval_days": 0}))
    offers = [ON_DEMAND, offer("lease", "lease", 2.0, term_months=3)]
    fresh = demand([[4.0, 8.0], [7.0, 3.0], [5.0, 6.0], [9.0, 8.0]]).assign(path=lambda frame: frame["path"] + 10)
    limits = [{"limit_id": "b", "kind": "budget_usd", "amount": 20_000.0, "measure": "p_and_l", "hard": False}]
    asked = problem(demand(LOADS), offers, a, skus=MACHINES, limits=limits, spend_agreements=pd.DataFrame([agreement(900_000.0)]))
    bought = plan_purchases(asked).purchases
    judged = judge_on_fresh_paths(asked, fresh, bought, 0.0, a)
    assert judged.notes[-1] == "Left out on both sides: payments for what stays unspent of agreements and penalties of soft budgets."
    played = rehearse_plan(asked, fresh, bought, a)
    assert played.notes[-1] == judged.notes[-1]
    costs = played.paths.pivot_table(index="path", columns="policy", values="realised_usd")
    assert (costs["clairvoyant"] <= costs.drop(columns="clairvoyant").min(axis=1) * (1 + 1e-7)).all()
