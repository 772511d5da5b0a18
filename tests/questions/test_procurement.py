"""Purchase plans: closed forms, discounts against capacity, time, limits, sums that tie, and messages."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.procurement import Purchases, sample_paths
from tests.cases.procurement_cases import assumptions, blocks, commitment, demand, offer, sku, solve, work_class

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)


def lots(plan: Purchases) -> dict[tuple[str, str], int]:
    return {(row.offer_id, row.quarter): row.lots for row in plan.purchases.itertuples()}


# --- closed forms -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [0.5, 1.0, 1.9, 2.3, 3.1, 3.9])
def test_newsvendor(price: float) -> None:
    """One pool, one quarter, on demand without cap: the commitment is the (1 - p/P) quantile of demand."""
    loads = [[float(load)] for load in (3, 5, 8, 9, 12, 15, 21, 22, 30, 41)]
    plan = solve(demand(loads), [ON_DEMAND, offer("c", "lease", price, term_months=3)])
    ratio = 1 - price / 4.0
    best = sorted(load for (load,) in loads)[math.ceil(ratio * 10 - 1e-9) - 1]
    assert plan.purchases["lots"].sum() == best
    expected = HOURS * (price * best + 4.0 * np.mean([max(load - best, 0) for (load,) in loads]))
    assert plan.proof.upper_usd == pytest.approx(expected, rel=1e-12)


def test_newsvendor_with_capped_on_demand_weighs_the_shortfall() -> None:
    """Nothing can be had on demand: underage costs the shortfall price instead."""
    loads = [[float(load)] for load in range(1, 11)]
    plan = solve(demand(loads), [offer("c", "lease", 5.5, term_months=3)])
    assert plan.purchases["lots"].sum() == 8  # (25 - 5.5) / 25 = 0.78


def test_commitment_of_a_load_duration_curve_is_where_use_falls_to_the_break_even() -> None:
    """Blocks of 10, 30 and 60 % of the hours; a rate of 62.5 % of on demand pays for what is used more than 62.5 % of the time."""
    work = blocks([[(0.1, 20.0), (0.3, 12.0), (0.6, 7.0)]])
    assert solve(work, [ON_DEMAND, offer("c", "lease", 2.5, term_months=3)]).purchases["lots"].sum() == 7
    assert solve(work, [ON_DEMAND, offer("c", "lease", 1.5, term_months=3)]).purchases["lots"].sum() == 12  # used 40 %: 37.5 % is enough


# --- discounts and capacity are two things ----------------------------------------------------------------------------------------


def test_a_discount_brings_no_capacity() -> None:
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 6.0}]
    discount = offer("ri", "reserved_1y", 2.0, guarantees_capacity=False)
    plan = solve(demand([[10.0] * 4]), [ON_DEMAND, discount], limits=limits)
    assert lots(plan) == {("ri", "2027Q1"): 6}
    assert plan.proof.upper_usd == pytest.approx(4 * HOURS * (6 * 2.0 + 4 * 25.0))
    assert plan.capacity.empty


def test_a_discount_stacks_on_a_reservation() -> None:
    """A reservation secures the machines at the on-demand rate, used or not; the discount then makes them cheaper."""
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 6.0}]
    discount = offer("ri", "reserved_1y", 2.0, guarantees_capacity=False)
    reservation = offer("odcr", "reserved_1y", 4.0, discounts="none", guarantees_capacity=True)
    plan = solve(demand([[10.0] * 4]), [ON_DEMAND, discount, reservation], limits=limits)
    assert lots(plan)[("ri", "2027Q1")] == 10
    assert plan.proof.upper_usd == pytest.approx(4 * HOURS * 10 * 2.0)


def test_an_idle_reservation_is_billed() -> None:
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 0.0}]
    reservation = offer("odcr", "reserved_1y", 4.0, discounts="none", guarantees_capacity=True)
    plan = solve(demand([[10.0, 10.0, 10.0, 2.0]]), [ON_DEMAND, reservation], limits=limits)
    assert lots(plan) == {("odcr", "2027Q1"): 10}
    assert plan.proof.upper_usd == pytest.approx(4 * HOURS * 10 * 4.0)


def test_a_savings_plan_moves_between_machines_and_is_lost_when_unused() -> None:
    rows = [
        offer("od-h", "on_demand", 4.0),
        offer("od-a", "on_demand", 2.0, sku="old"),
        offer("plan-h", "savings_plan_1y", 2.0, discounts="usd_per_hour", plan_id="p"),
        offer("plan-a", "savings_plan_1y", 1.0, sku="old", discounts="usd_per_hour", plan_id="p"),
    ]
    work = pd.concat([demand([[10.0, 0.0, 10.0, 0.0]], name="new"), demand([[0.0, 20.0, 0.0, 0.0]], name="old")])
    plan = solve(
        work,
        rows,
        skus=[sku("gpu"), sku("old", "A100")],
        classes=[work_class("new"), work_class("old")],
        speeds=[("new", "H100", 1.0), ("old", "A100", 1.0)],
    )
    assert (plan.purchases["lots"] * plan.purchases["usd_per_hour"]).sum() == 20.0
    assert plan.proof.upper_usd == pytest.approx(4 * HOURS * 20.0)
    assert plan.costs.groupby("component")["usd"].sum()["on_demand"] == pytest.approx(0.0, abs=1e-6)


def test_spot_serves_interruptible_work_within_its_caps() -> None:
    rows = [ON_DEMAND, offer("spot", "spot", 1.0)]
    limits = [
        {"limit_id": "share", "kind": "spot_share", "amount": 0.2, "region": "us"},
        {"limit_id": "cap", "kind": "spot_accelerators", "amount": 3.0},
    ]
    firm = solve(demand([[10.0, 20.0]]), rows, limits=limits)
    loose = solve(demand([[10.0, 20.0]]), rows, limits=limits, classes=[work_class(interruptible=True)])
    assert firm.proof.upper_usd == pytest.approx(HOURS * 30 * 4.0)
    assert loose.proof.upper_usd == pytest.approx(HOURS * (2 * 1.0 + 8 * 4.0 + 3 * 1.0 + 17 * 4.0))


def test_lost_spot_hours_cost_work() -> None:
    plan = solve(demand([[10.0, 10.0]]), [offer("spot", "spot", 1.0, interruptions_per_hour=0.4)], classes=[work_class(interruptible=True)])
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 10 * 1.0 / (1 - 0.4 * 0.5))


def test_an_api_takes_what_is_too_dear_at_home() -> None:
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 4.0}]
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], limits=limits, classes=[work_class(api="either", api_usd_per_unit=9.0)])
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * (4 * 4.0 + 6 * 9.0))
    assert plan.service["served_share"].eq(1.0).all()


def test_an_api_takes_no_more_than_its_rate_limit_in_all_regions_together() -> None:
    """Three accelerators' worth of calls an hour for both regions; the rest is left undone."""
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 4.0}]
    rows = [ON_DEMAND, offer("eu", "on_demand", 4.0, region="eu-1", geography="eu")]
    work = pd.concat([demand([[10.0]]), demand([[5.0]], region="eu")])
    called = work_class(api="either", api_usd_per_unit=9.0, api_units_per_hour=3.0)
    plan = solve(work, rows, limits=limits, classes=[called])
    assert plan.proof.upper_usd == pytest.approx(HOURS * (4 * 4.0 + 3 * 9.0 + 8 * 25.0))
    assert plan.dispatch.query("source == 'api'")["expected_work"].sum() == pytest.approx(HOURS * 3)
    assert plan.costs.query("component == 'api'")["usd"].sum() == pytest.approx(HOURS * 3 * 9.0)
    rate = plan.binding.set_index("limit_id").loc["rate limit of the API of work"]
    assert rate["slack"] == 0.0
    assert rate["usd_per_unit"] == pytest.approx(HOURS * (25.0 - 9.0))


# --- speeds, regions, residency ---------------------------------------------------------------------------------------------------


def test_the_faster_machine_wins_by_work_per_dollar() -> None:
    rows = [offer("slow", "on_demand", 2.0, sku="old"), offer("fast", "on_demand", 4.0)]
    plan = solve(
        demand([[300.0, 300.0]]),
        rows,
        skus=[sku("gpu"), sku("old", "A100")],
        speeds=[("work", "H100", 30.0), ("work", "A100", 10.0)],
        classes=[work_class(shortfall_usd_per_unit=1.0)],
    )
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 300 / 30 * 4.0)


def test_regions_geographies_and_residency_are_kept() -> None:
    rows = [
        offer("us", "on_demand", 3.0),
        offer("eu", "on_demand", 2.0, region="eu-1", geography="eu"),
        offer("eu2", "on_demand", 1.0, region="eu-2", geography="eu"),
    ]
    prices = {"us": 3.0, "eu": 1.0, "eu-1": 2.0, "any": 1.0}
    for region, price in prices.items():
        plan = solve(demand([[5.0, 5.0]], region=region), rows)
        assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 5 * price), region
    plan = solve(demand([[5.0, 5.0]], region="any"), rows, classes=[work_class(residency="us")])
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 5 * 3.0)


def test_a_short_capacity_block_serves_work_that_can_be_moved_only() -> None:
    block = offer("block", "capacity_block", 1.0, term_months=1.5, available_from=pd.Timestamp("2027-01-01"), maximum_lots=10.0)
    serving = solve(demand([[5.0, 5.0]]), [ON_DEMAND, block])
    batch = solve(demand([[5.0, 5.0]]), [ON_DEMAND, block], classes=[work_class(stage_kind="batch")])
    assert serving.purchases.empty
    assert lots(batch).keys() == {("block", "2027Q1")}


# --- time -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "first"), [(0, "2027Q1"), (1, "2027Q2"), (90, "2027Q2"), (91, "2027Q3"), (180, "2027Q3")])
def test_lead_times_push_the_first_start(days: float, first: str) -> None:
    plan = solve(demand([[5.0] * 4]), [ON_DEMAND, offer("c", "reserved_1y", 1.0, lead_time_days_p50=days)])
    assert plan.purchases["quarter"].min() == first


def test_sign_by_counts_the_careful_lead_time_and_the_approval() -> None:
    row = offer("c", "reserved_1y", 1.0, lead_time_days_p50=80.0, lead_time_days_p90=100.0)
    bought = solve(demand([[5.0, 5.0]]), [ON_DEMAND, row], assumptions(approval_days=10)).purchases.iloc[0]
    assert bought["sign_by"] == pd.Timestamp("2027-04-01") - pd.Timedelta(days=100)
    assert bought["submit_by"] == pd.Timestamp("2027-04-01") - pd.Timedelta(days=110)
    assert bought["signed_on"] == pd.Timestamp("2027-01-11")
    assert bought["late"]
    assert bought["firm"]


def test_a_quote_must_be_signed_before_it_expires_and_is_renewed_or_not() -> None:
    row = offer("c", "lease", 3.9, term_months=3, negotiated_usd_per_hour=1.0, quote_expires=pd.Timestamp("2027-01-20"))
    renewed = solve(demand([[5.0] * 4]), [ON_DEMAND, row], assumptions(horizon_quarters=4, approval_days=0)).purchases.set_index("quarter")
    assert renewed["usd_per_hour"].tolist() == [1.0] * 4
    assert renewed.at["2027Q2", "sign_by"] == pd.Timestamp("2027-01-20")
    assert renewed["requoted"].tolist() == [False, False, True, True]
    listed = solve(demand([[5.0] * 4]), [ON_DEMAND, row], assumptions(horizon_quarters=4, later_quotes="list_price")).purchases.set_index(
        "quarter"
    )
    assert listed["usd_per_hour"].tolist() == [1.0, 1.0, 3.9, 3.9]


def test_a_booking_window_bounds_the_signature() -> None:
    row = offer("c", "lease", 1.0, term_months=3, available_from=pd.Timestamp("2027-05-01"), available_to=pd.Timestamp("2027-05-31"))
    bought = solve(demand([[5.0] * 4]), [ON_DEMAND, row], assumptions(horizon_quarters=4)).purchases
    assert bought["quarter"].tolist() == ["2027Q3", "2027Q4"]
    assert (bought["sign_by"] <= pd.Timestamp("2027-05-31")).all()


def test_a_contract_signed_serves_until_it_ends_and_its_cost_is_sunk() -> None:
    plan = solve(demand([[5.0] * 4]), [ON_DEMAND], commitments=[commitment("old", 3.0, "2026-07-01", "2027-06-30")])
    assert plan.proof.upper_usd == pytest.approx(HOURS * 4.0 * (2 + 2 + 5 + 5))
    assert plan.costs.query("component == 'existing'")["usd"].tolist() == pytest.approx([HOURS * 6.0, HOURS * 6.0, 0.0, 0.0])
    assert plan.capacity["accelerators"].tolist() == [3.0, 3.0]


def test_a_contract_that_ends_within_a_quarter_counts_by_its_share() -> None:
    plan = solve(demand([[5.0, 5.0]]), [ON_DEMAND], commitments=[commitment("old", 3.0, "2026-07-01", "2027-02-14")])
    assert plan.capacity["accelerators"].tolist() == [3.0]
    assert plan.capacity["share"].tolist() == [pytest.approx(45 / 90)]


def test_a_contract_is_renewed_for_as_many_machines_as_are_needed_each_time_it_ends() -> None:
    """Ten machines to the end of the first quarter, at 2 where on demand costs 4: renewed each year, for ten or for six of them."""
    old = commitment("old", 10.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=2.0)
    taken = solve(demand([[10.0] * 8]), [ON_DEMAND], commitments=[old])
    assert taken.proof.upper_usd == pytest.approx(306_600)
    assert lots(taken) == {("renew old", "2027Q2"): 10, ("renew old", "2028Q2"): 10}
    assert taken.purchases["accelerators"].tolist() == [10.0, 10.0]
    fewer = solve(demand([[10.0] + [6.0] * 4]), [ON_DEMAND], commitments=[old])
    assert fewer.proof.upper_usd == pytest.approx(105_120)
    assert lots(fewer) == {("renew old", "2027Q2"): 6}


def test_only_what_was_renewed_the_last_time_can_be_renewed_again() -> None:
    old = commitment("old", 10.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=2.0)
    found = solve(demand([[10.0] + [6.0] * 4 + [10.0] * 3]), [ON_DEMAND], commitments=[old])
    # Four more, idle for four quarters at 2, cost 32; in the three quarters after them they would save 4 x 2 x 3 = 24.
    assert lots(found) == {("renew old", "2027Q2"): 6, ("renew old", "2028Q2"): 6}


def test_notice_of_a_later_renewal_is_due_as_long_before_its_end_as_that_of_the_first() -> None:
    old = commitment("old", 10.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=2.0, notice_date=pd.Timestamp("2027-03-02"))
    bought = solve(demand([[10.0] * 8]), [ON_DEMAND], commitments=[old]).purchases
    assert bought["sign_by"].tolist() == [pd.Timestamp("2027-03-02"), pd.Timestamp("2028-03-02")]


def test_a_renewal_whose_notice_has_passed_cannot_be_stopped() -> None:
    old = commitment("old", 4.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=9.0, renews=True, notice_date=pd.Timestamp("2026-12-01"))
    assert lots(solve(demand([[4.0] * 4]), [ON_DEMAND], commitments=[old])) == {("renew old", "2027Q2"): 4}


def test_lots_and_minimum_purchases() -> None:
    row = offer("c", "lease", 1.0, term_months=3, lot_machines=4, minimum_lots=3)
    assert lots(solve(demand([[9.0]]), [ON_DEMAND, row])) == {("c", "2027Q1"): 3}
    assert solve(demand([[2.0]]), [ON_DEMAND, row]).purchases.empty


def test_contracts_live_on_after_the_horizon_against_contracting_again() -> None:
    """A 3-year contract saves against the 1-year rate in the 8 quarters beyond the planned year; a year later work costs that rate."""
    rows = [ON_DEMAND, offer("one", "reserved_1y", 2.0), offer("three", "reserved_3y", 1.5)]
    plan = solve(demand([[8.0] * 4]), rows, assumptions(horizon_quarters=4, horizon_end="hold_demand"))
    assert lots(plan) == {("three", "2027Q1"): 8}
    assert plan.proof.upper_usd == pytest.approx(HOURS * 8 * (12 * 1.5 + 4 * 2.0))
    dear = solve(
        demand([[8.0] * 4]), [*rows[:2], offer("three", "reserved_3y", 2.1)], assumptions(horizon_quarters=4, horizon_end="hold_demand")
    )
    assert lots(dear) == {("one", "2027Q1"): 8}


def test_demand_that_falls_after_the_horizon_starts_leaves_long_contracts_idle() -> None:
    """Demand of the last quarter is 2: six of eight machines would idle for eight quarters, so only two are taken for three years."""
    rows = [ON_DEMAND, offer("one", "reserved_1y", 2.0), offer("three", "reserved_3y", 1.5)]
    plan = solve(demand([[8.0, 8.0, 8.0, 2.0]]), rows, assumptions(horizon_quarters=4, horizon_end="hold_demand"))
    assert lots(plan) == {("three", "2027Q1"): 2, ("one", "2027Q1"): 6}


def test_unused_hours_bring_back_their_reuse_share() -> None:
    rows = [ON_DEMAND, offer("three", "reserved_3y", 1.0)]
    work = demand([[8.0, 8.0, 8.0, 0.0]])
    plain = solve(work, rows, assumptions(horizon_quarters=4, horizon_end="hold_demand"))
    reused = solve(work, rows, assumptions(horizon_quarters=4, horizon_end="hold_demand", reuse_share=0.9))
    assert plain.purchases.empty
    assert reused.proof.upper_usd == pytest.approx(HOURS * 8 * (12 * 1.0 - 8 * 0.9))


def test_prepayment_is_paid_at_the_start_and_discounted_from_there() -> None:
    row = offer("c", "reserved_1y", 1.0, upfront_share=0.5)
    plan = solve(demand([[5.0] * 4]), [ON_DEMAND, row], assumptions(horizon_quarters=4, discount_rate_per_year=0.1))
    factors = [1.1 ** -((step + 0.5) / 4) for step in range(4)]
    assert plan.proof.upper_usd == pytest.approx(5 * HOURS * (4 * 0.5 + 0.5 * sum(factors)))
    assert plan.purchases.loc[0, ["upfront_usd", "usd"]].tolist() == pytest.approx([5 * HOURS * 2, 5 * HOURS * 4])


def test_owned_machines_pay_for_capital_power_and_space_and_leave_a_residual() -> None:
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=60_000.0, term_months=60)
    sites = pd.DataFrame(
        {"site": ["site"], "geography": ["us"], "available_kw": [50.0], "pue": [1.2], "usd_per_kwh": [0.1], "usd_per_kw_month": [73.0]}
    )
    a = assumptions(horizon_quarters=4, horizon_end="count_in_full", upkeep_share_per_year=0.05, residual_share=0.1)
    plan = solve(
        demand([[5.0] * 4]),
        [offer("od", "on_demand", 12.0), own],
        a,
        skus=[sku("gpu"), sku("own", provider="own", power_kw=2.0)],
        sites=sites,
    )
    running = 2.0 * 1.2 * 0.1 + 2.0 * 0.1 + 60_000 * 0.05 / 8760
    assert lots(plan) == {("own", "2027Q1"): 5}
    assert plan.proof.upper_usd == pytest.approx(5 * (60_000 * 0.9 + running * 20 * HOURS))
    written_off = 60_000 * 0.9 * 365 / 1826  # by day, of the days from 2027 to 2031
    assert plan.costs.query("component == 'committed'")["usd"].sum() == pytest.approx(5 * (written_off + 4 * running * HOURS))


# --- limits -----------------------------------------------------------------------------------------------------------------------


def limited(kind: str, amount: float, **more: object) -> Purchases:
    row = {"limit_id": "cap", "kind": kind, "amount": amount, **more}
    return solve(
        demand([[10.0, 10.0]]),
        [ON_DEMAND, offer("c", "reserved_1y", 1.0)],
        limits=[row],
        commitments=[commitment("old", 2.0, "2026-07-01", "2027-12-31")],
    )


def test_quota_new_accelerators_and_provider_share() -> None:
    assert limited("quota_accelerators", 7.0).purchases["accelerators"].sum() == 5
    assert limited("quota_accelerators", 0.0).purchases.empty
    assert limited("new_accelerators", 3.0).purchases["accelerators"].tolist() == [3.0, 3.0]
    assert limited("quota_accelerators", 7.0, accelerator="A100").purchases["accelerators"].sum() == 8
    share = [{"limit_id": "cap", "kind": "provider_share", "amount": 0.5, "provider": "cloud"}]
    rows = [offer("c", "lease", 1.0, term_months=3), offer("b", "lease", 2.0, term_months=3, sku="other")]
    plan = solve(demand([[10.0]]), rows, limits=share, skus=[sku("gpu"), sku("other", provider="rival")])
    assert plan.purchases.groupby("provider")["accelerators"].sum().to_dict() == {"cloud": 5.0, "rival": 5.0}


def test_what_is_signed_counts_towards_the_share_of_a_provider() -> None:
    """Two held there and six elsewhere: nine of eighteen may be there, seven of them new."""
    share = [{"limit_id": "cap", "kind": "provider_share", "amount": 0.5, "provider": "cloud"}]
    rows = [offer("c", "lease", 1.0, term_months=3), offer("b", "lease", 2.0, term_months=3, sku="other")]
    held = [commitment("here", 2.0, "2026-07-01", "2027-12-31"), commitment("there", 6.0, "2026-07-01", "2027-12-31") | {"sku": "other"}]
    plan = solve(demand([[18.0]]), rows, limits=share, skus=[sku("gpu"), sku("other", provider="rival")], commitments=held)
    assert plan.purchases.groupby("provider")["accelerators"].sum().to_dict() == {"cloud": 7.0, "rival": 3.0}


def test_power_and_capital_limits_hold_owned_machines() -> None:
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=10_000.0)
    machines = [sku("gpu"), sku("own", provider="own", power_kw=2.0)]
    power = [{"limit_id": "power", "kind": "power_kw", "amount": 7.0, "region": "site"}]
    capital = [{"limit_id": "capital", "kind": "budget_usd", "amount": 25_000.0, "measure": "capex"}]
    dear = offer("od", "on_demand", 20.0)
    assert solve(demand([[10.0]]), [dear, own], limits=power, skus=machines).purchases["lots"].sum() == 3
    assert solve(demand([[10.0]]), [dear, own], limits=capital, skus=machines).purchases["lots"].sum() == 2


def test_a_site_holds_no_more_machines_than_its_power() -> None:
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=10_000.0)
    sites = pd.DataFrame(
        {"site": ["site"], "geography": ["us"], "available_kw": [9.0], "pue": [1.2], "usd_per_kwh": [0.1], "usd_per_kw_month": [73.0]}
    )
    machines = [sku("gpu"), sku("own", provider="own", power_kw=2.0)]
    assert solve(demand([[10.0]]), [offer("od", "on_demand", 20.0), own], skus=machines, sites=sites).purchases["lots"].sum() == 4


def test_a_hard_budget_holds_committed_and_expected_spend() -> None:
    cap = HOURS * 20.0
    budget = [{"limit_id": "budget", "kind": "budget_usd", "amount": cap, "measure": "p_and_l", "hard": True}]
    plan = solve(demand([[10.0], [4.0]]), [ON_DEMAND], limits=budget)
    spend = plan.costs[plan.costs["component"] != "shortfall"]
    assert (spend["usd"] * spend["probability"]).sum() == pytest.approx(cap)
    assert plan.binding.set_index("limit_id").at["budget with expected usage", "usd_per_unit"] == pytest.approx(25.0 / 4.0 - 1)


def test_a_soft_budget_is_broken_at_its_price() -> None:
    budget = [{"limit_id": "budget", "kind": "budget_usd", "amount": HOURS * 20.0, "measure": "p_and_l", "hard": False}]
    plan = solve(demand([[10.0]]), [ON_DEMAND], limits=budget, a=assumptions(horizon_quarters=1, soft_limit_penalty_share=0.25))
    assert plan.proof.upper_usd == pytest.approx(HOURS * (40.0 + 0.25 * 20.0))


@pytest.mark.parametrize("risk", [0.0, 0.4])
@pytest.mark.parametrize("hard", [True, False])
def test_binding_budgets_of_a_large_model_are_solved_as_exactly(hard: bool, risk: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of large models, on one that is small enough to be written out beside it."""
    budget = [{"limit_id": "budget", "kind": "budget_usd", "amount": HOURS * 25.0, "measure": "p_and_l", "hard": hard}]
    rows = [ON_DEMAND, offer("c", "lease", 2.0, term_months=3, lot_machines=4)]
    work, a = demand([[10.0, 12.0], [4.0, 9.0], [22.0, 3.0]]), assumptions(risk_weight=risk, gap_share=1e-6)
    exact = solve(work, rows, a, limits=budget)
    monkeypatch.setattr("capplan.questions.procurement.program.budget_proof.EXACT_COLUMNS", 0)
    large = solve(work, rows, a, limits=budget)
    assert large.proof.method == "l_shaped"
    assert large.proof.upper_usd == pytest.approx(exact.proof.upper_usd, rel=2e-6)
    assert large.proof.gap_share <= 1e-6
    spend = large.costs[large.costs["component"] != "shortfall"]
    by_quarter = (spend["usd"] * spend["probability"]).groupby(spend["quarter"]).sum()
    assert not hard or (by_quarter <= HOURS * 25.0 * (1 + 1e-6)).all()


def test_a_cap_over_several_pools_is_shared() -> None:
    rows = [offer("us", "on_demand", 3.0), offer("eu", "on_demand", 2.0, region="eu-1", geography="eu")]
    cap = [{"limit_id": "both", "kind": "on_demand_accelerators", "amount": 7.0}]
    plan = solve(demand([[10.0]], region="any"), rows, limits=cap)
    assert plan.proof.upper_usd == pytest.approx(HOURS * (7 * 2.0 + 3 * 25.0))


def test_one_more_accelerator_on_demand_is_worth_the_shortfall_it_avoids() -> None:
    cap = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 7.0}]
    plan = solve(demand([[10.0]]), [ON_DEMAND], limits=cap)
    assert plan.binding.set_index("limit_id").at["od", "usd_per_unit"] == pytest.approx(HOURS * 21.0)


def test_pins_and_exclusions() -> None:
    row = offer("c", "lease", 3.99, term_months=3)
    a = assumptions(horizon_quarters=1, pinned_purchases=(("c", "2027Q1", 12),))
    assert lots(solve(demand([[10.0]]), [ON_DEMAND, row], a)) == {("c", "2027Q1"): 12}
    assert solve(demand([[10.0]]), [ON_DEMAND, row], assumptions(horizon_quarters=1, excluded_offers=("c",))).purchases.empty


# --- sums, explanations -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rich() -> Purchases:
    """A plan with every source in it."""
    rows = [
        ON_DEMAND,
        offer("spot", "spot", 1.5),
        offer("one", "reserved_1y", 2.5, lead_time_days_p50=60.0),
        offer("three", "reserved_3y", 2.0, upfront_share=0.3),
        offer("ri", "reserved_1y", 3.0, guarantees_capacity=False),
    ]
    work = pd.concat(
        [
            demand([[9.0, 12.0, 15.0, 21.0], [6.0, 6.0, 7.0, 5.0], [14.0, 22.0, 30.0, 47.0]], [0.5, 0.3, 0.2], name=name)
            for name in ("work", "batch")
        ]
    )
    caps = [
        {"limit_id": "od", "kind": "on_demand_accelerators", "amount": 9.0},
        {"limit_id": "spot", "kind": "spot_accelerators", "amount": 4.0},
    ]
    return solve(
        work,
        rows,
        assumptions(horizon_quarters=4, risk_weight=0.3, horizon_end="hold_demand", discount_rate_per_year=0.08),
        limits=caps,
        commitments=[commitment("old", 6.0, "2026-07-01", "2027-06-30")],
        classes=[work_class(), work_class("batch", interruptible=True, stage_kind="batch")],
        speeds=[("work", "H100", 1.0), ("batch", "H100", 1.0)],
    )


def test_served_and_shortfall_make_demand(rich: Purchases) -> None:
    service = rich.service
    assert len(service) == 3 * 2 * 4
    assert (service["served"] + service["shortfall"]).to_numpy() == pytest.approx(service["demanded"].to_numpy(), rel=1e-12)
    expected = service.merge(rich.costs[["path", "probability"]].drop_duplicates(), on="path")
    work = rich.dispatch[rich.dispatch["source"] != "shortfall"]["expected_work"].sum()
    assert (expected["served"] * expected["probability"]).sum() == pytest.approx(work, rel=1e-9)


def test_capacity_is_existing_plus_bought(rich: Purchases) -> None:
    bought = rich.purchases[rich.purchases["gives"] != "price"]
    for quarter in ("2027Q1", "2027Q2", "2027Q3", "2027Q4"):
        running = bought[(bought["quarter"] <= quarter) & (bought["end_quarter"] >= quarter)]["accelerators"].sum()
        existing = 6.0 if quarter <= "2027Q2" else 0.0
        assert rich.capacity[rich.capacity["quarter"] == quarter]["accelerators"].sum() == running + existing


def test_costs_add_up_to_the_contracts_and_the_dispatch(rich: Purchases) -> None:
    weighted = rich.costs.assign(usd=rich.costs["usd"] * rich.costs["probability"]).groupby(["quarter", "component"])["usd"].sum().unstack()
    spend = rich.dispatch.groupby(["quarter", "source"])["expected_usd"].sum().unstack().fillna(0.0)
    for source in ("on_demand", "spot", "shortfall"):
        assert weighted[source].to_numpy() == pytest.approx(spend[source].to_numpy(), rel=1e-9, abs=1e-6)
    plan = rich.alternatives.set_index("name").loc["plan"]
    assert weighted.drop(columns=["shortfall", "existing"]).to_numpy().sum() == pytest.approx(plan["spend_usd"], rel=1e-9)


def test_without_discounting_the_objective_is_the_expected_cost_table() -> None:
    plan = solve(
        demand([[10.0, 20.0], [5.0, 50.0]]),
        [ON_DEMAND, offer("c", "lease", 2.0, term_months=3)],
        limits=[{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 9.0}],
    )
    cost = plan.costs[plan.costs["component"] != "existing"]
    assert (cost["usd"] * cost["probability"]).sum() == pytest.approx(plan.proof.upper_usd, rel=1e-12)


def test_no_alternative_beats_the_plan(rich: Purchases) -> None:
    table = rich.alternatives.set_index("name")
    assert table.at["plan", "objective_usd"] == pytest.approx(rich.proof.upper_usd, rel=1e-9)
    assert (table.drop(index="all_on_demand")["regret_usd"] >= -1e-6).all()
    assert (table["cvar_usd"] >= table["expected_usd"] - 1e-6).all()
    assert (rich.information["usd"] >= -1e-6).all()


def test_a_rejected_offer_enters_just_below_its_entry_price() -> None:
    rows = [ON_DEMAND, offer("good", "lease", 2.0, term_months=3), offer("poor", "lease", 3.0, term_months=3)]
    row = solve(demand([[10.0]]), rows).rejected.set_index("offer_id").loc["poor"]
    assert row["entry_usd_per_hour"] == pytest.approx(2.0)
    assert row["reduced_cost_usd"] == pytest.approx(HOURS * 1.0)
    inside = solve(demand([[10.0]]), [*rows[:2], offer("poor", "lease", 1.999, term_months=3)])
    assert set(inside.purchases["offer_id"]) == {"poor"}


def test_the_headline_says_what_to_do_and_what_it_costs(rich: Purchases) -> None:
    assert rich.headline.startswith(("Sign ", "Nothing must be signed"))
    assert re.search(r"against doing nothing it spends \$[\d.]+[kM] (less|more)", rich.headline), (
        "spend alone: unserved work is another number"
    )
    nothing = solve(demand([[1.0]]), [ON_DEMAND])
    assert nothing.headline == "Buy nothing and renew nothing: the plan costs $8.8k in expectation and $8.8k in the worst 20 % of cases."


def test_waiting_costs_what_the_firm_contracts_save() -> None:
    """Only the first start must be signed before the next review; without it that quarter is served on demand."""
    row = offer("c", "lease", 1.0, term_months=3)
    plan = solve(demand([[5.0] * 4]), [ON_DEMAND, row], assumptions(horizon_quarters=4, approval_days=0))
    assert plan.purchases["firm"].tolist() == [True, False, False, False]
    assert plan.information.set_index("name").at["waiting", "usd"] == pytest.approx(HOURS * 5 * 3.0)
    assert plan.alternatives.set_index("name").at["sign_nothing_yet", "regret_usd"] == pytest.approx(HOURS * 5 * 3.0)


def test_a_discount_for_a_whole_geography_pays_in_its_regions() -> None:
    old = commitment("old", 3.0, "2026-07-01", "2027-12-31", region="us", guarantees_capacity=False)
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 50.0, "region": "us-1"}]
    plan = solve(demand([[5.0, 5.0]]), [ON_DEMAND], commitments=[old], limits=limits)
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 2 * 4.0)


def test_the_other_treatments_of_the_horizons_end_are_told_when_they_decide_otherwise() -> None:
    rows = [ON_DEMAND, offer("one", "reserved_1y", 2.0), offer("three", "reserved_3y", 1.5)]
    plan = solve(demand([[8.0] * 4]), rows, assumptions(horizon_quarters=4, horizon_end="hold_demand"))
    assert any("counted in full" in note and "0 accelerators on terms above a year, not 8" in note for note in plan.notes)
    assert not any("cut off" in note for note in plan.notes)


# --- paths ------------------------------------------------------------------------------------------------------------------------


def test_sampled_paths_stand_for_all() -> None:
    draws = np.random.default_rng(3).lognormal(3.0, 0.6, size=(400, 3))
    work = demand(draws.tolist())
    few = sample_paths(work, 40, seed=7)
    assert few["path"].nunique() == 40
    assert few.drop_duplicates("path")["probability"].sum() == pytest.approx(1.0)
    assert (few["work_per_hour"] * few["probability"]).sum() == pytest.approx((work["work_per_hour"] * work["probability"]).sum(), rel=0.03)
    pd.testing.assert_frame_equal(few, sample_paths(work, 40, seed=7))
    assert len(sample_paths(work, 1000, seed=7)) == len(work)


# --- messages ---------------------------------------------------------------------------------------------------------------------


def test_messages_name_what_is_wrong() -> None:
    cases = [
        (lambda: solve(demand([[1.0], [2.0]], [0.5, 0.6]), [ON_DEMAND]), r"probabilities of the 2 demand paths sum to 1\.1"),
        (lambda: solve(demand([[-1.0]]), [ON_DEMAND]), "demand is 0 or more"),
        (lambda: solve(demand([[1.0]]), [offer("x", "lease", 1.0)]), "offer x does not say how long it runs"),
        (lambda: solve(demand([[1.0]], region="apac"), [ON_DEMAND]), "no offer can serve class 'work' in apac"),
        (lambda: solve(demand([[1.0]]), [ON_DEMAND], speeds=[("work", "TPU", 1.0)]), "no offer can serve class 'work'"),
        (lambda: solve(demand([[1.0]], name="other"), [ON_DEMAND]), "class 'other'"),
        (
            lambda: solve(
                demand([[1.0]]), [ON_DEMAND, offer("b", "capacity_block", 1.0, term_months=1, available_from=pd.Timestamp("2026-12-01"))]
            ),
            "capacity block b starts on 2026-12-01",
        ),
        (
            lambda: solve(demand([[1.0]]), [ON_DEMAND, offer("r", "reserved_1y", 1.0, discounts="none", guarantees_capacity=False)]),
            "gives neither a discount nor capacity",
        ),
        (
            lambda: solve(demand([[1.0]]), [ON_DEMAND, offer("r", "reserved_1y", 1.0, minimum_lots=5, maximum_lots=2.0)]),
            "minimum_lots 5 exceeds maximum_lots 2",
        ),
        (lambda: solve(demand([[1.0]]), [ON_DEMAND], assumptions(horizon_quarters=2)), "no demand for 2027Q2"),
        (lambda: solve(demand([[1.0]]), [ON_DEMAND], assumptions(horizon_quarters=1, hours_convention="calendar")), "hours_convention"),
        (lambda: solve(demand([[1.0]]), [ON_DEMAND], assumptions(horizon_quarters=1, excluded_offers=("odd",))), "did you mean od"),
        (lambda: solve(demand([[1.0]]), [ON_DEMAND], assumptions(horizon_quarters=1, pinned_purchases=(("odd", "2027Q1", 1),))), "odd"),
        (
            lambda: solve(demand([[1.0]]), [ON_DEMAND], commitments=[commitment("old", 1.0, "2026-01-01", "2027-12-31", sku="gpux")]),
            "did you mean gpu",
        ),
    ]
    for call, text in cases:
        with pytest.raises(CapplanError, match=text):
            call()


def test_limits_that_clash_are_named_with_the_amount() -> None:
    a = assumptions(horizon_quarters=1, pinned_purchases=(("c", "2027Q1", 12),))
    limits = [{"limit_id": "fleet quota", "kind": "quota_accelerators", "amount": 5.0}]
    with pytest.raises(CapplanError, match=r"fleet quota 2027Q1.*raised by 7"):
        solve(demand([[10.0]]), [ON_DEMAND, offer("c", "lease", 1.0, term_months=3)], a, limits=limits)


def test_large_and_small_numbers_in_one_model() -> None:
    """Tokens by the billion beside single accelerators."""
    plan = solve(
        demand([[5e9, 5e9]]),
        [ON_DEMAND, offer("c", "lease", 2.0, term_months=3)],
        speeds=[("work", "H100", 1e9)],
        classes=[work_class(shortfall_usd_per_unit=25e-9)],
    )
    assert lots(plan) == {("c", "2027Q1"): 5, ("c", "2027Q2"): 5}
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 5 * 2.0)


def test_a_contract_without_a_renewal_price_may_be_renewed_at_todays_price() -> None:
    old = commitment("old", 4.0, "2026-04-01", "2027-03-31", usd=1.5)
    work = demand([[4.0] * 4])
    a = assumptions(horizon_quarters=4, renewal_without_price="same_price")
    plan = solve(work, [ON_DEMAND], a, commitments=[old])
    assert lots(plan) == {("renew old", "2027Q2"): 4}
    assert plan.purchases["usd_per_hour"].tolist() == [1.5]
    assert {"plan", "renew_all"} <= set(plan.alternatives["name"])
    assert any(note.startswith("old: no renewal price is stated") for note in plan.notes)
    assert solve(work, [ON_DEMAND], commitments=[old]).purchases.empty
    offered = solve(work, [ON_DEMAND, offer("new", "reserved_1y", 3.0)], a, commitments=[old])
    assert "renew old" not in set(offered.purchases["offer_id"])
    block = old | {"term": "capacity_block"}
    assert solve(work, [ON_DEMAND], a, commitments=[block]).purchases.empty


def test_a_billion_accelerators_beside_a_single_one() -> None:
    size = 1e9
    work = pd.concat([demand([[size] * 2, [size / 2] * 2]), demand([[1.0] * 2, [2.0] * 2], name="small")])
    plan = solve(
        work,
        [ON_DEMAND, offer("c", "lease", 2.0, term_months=3)],
        assumptions(on_demand_accelerators=1e5),
        classes=[work_class(), work_class("small")],
        speeds=[("work", "H100", 1.0), ("small", "H100", 1.0)],
    )
    costs = plan.alternatives.set_index("name")
    mean = (0.75 * size + 1.5) * 2 * HOURS
    assert plan.proof.upper_usd == pytest.approx(2.0 * 2 * HOURS * (size + 1), rel=1e-9)
    assert costs.at["all_on_demand", "expected_usd"] == pytest.approx(ON_DEMAND["usd_per_hour"] * mean, rel=1e-6)
    assert (costs[["expected_usd", "cvar_usd", "objective_usd", "spend_usd"]] > 0).all(axis=None)
    assert (costs["regret_usd"] >= 0).all()
    with pytest.raises(CapplanError, match="Check the unit of its quantity"):
        solve(demand([[1e12]]), [ON_DEMAND])


def test_a_limit_that_binds_has_no_slack_at_all() -> None:
    limits = [{"limit_id": "cap", "kind": "on_demand_accelerators", "amount": 0.7}]
    plan = solve(demand([[0.1 + 0.7, 1.1]]), [ON_DEMAND], limits=limits)
    assert plan.binding["slack"].tolist() == [0.0, 0.0]
