"""Time as it is: machines are there from the day they start to the day they end; limits count what is there at each moment."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.procurement.supply.generations import Arrival
from capplan.questions.procurement.supply.price_paths import PriceMoves, price_factors, worth_factors
from capplan.text import money
from tests.cases.procurement_cases import assumptions, commitment, demand, offer, problem, settle, sku, solve, work_class
from tests.cases.procurement_checker import Checker

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
LEASE = offer("lease", "lease", 2.0, term_months=3)


def cap(kind: str, amount: float, **more: object) -> dict[str, object]:
    return {"limit_id": "cap", "kind": kind, "amount": amount} | more


# --- capacity at each moment -----------------------------------------------------------------------------------------------------------


def test_a_contract_that_ends_in_mid_quarter_serves_until_then_and_not_on_average() -> None:
    """Twenty machines until 14 February, the middle of the quarter: ten are rented from then on."""
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], commitments=[commitment("old", 20.0, "2026-02-15", "2027-02-14")])
    assert plan.proof.upper_usd == pytest.approx(131_400)


def test_a_cap_on_demand_binds_after_a_contract_has_ended_in_mid_quarter() -> None:
    plan = solve(
        demand([[10.0, 10.0]]),
        [ON_DEMAND],
        commitments=[commitment("old", 10.0, "2026-02-15", "2027-02-14")],
        limits=[cap("on_demand_accelerators", 6.0)],
    )
    assert plan.proof.upper_usd == pytest.approx(407_340)
    assert plan.service["shortfall"].sum() == pytest.approx(4 * 1.5 * HOURS)


def test_a_long_capacity_block_is_there_from_its_own_first_day() -> None:
    """Ten accelerators from 15 February on (half of the quarter), 20 wanted of which 5 can be rented."""
    block = offer("block", "capacity_block", 1.0, term_months=6, available_from=pd.Timestamp("2027-02-15"), maximum_lots=10.0)
    plan = solve(demand([[12.0, 12.0]]), [ON_DEMAND, block], limits=[cap("on_demand_accelerators", 5.0)])
    rented, missed = 5 * 0.5 + 2 * 1.5, 7 * 0.5
    assert plan.proof.upper_usd == pytest.approx(HOURS * (4 * rented + 25 * missed + 10 * 1.5))


def test_a_quota_counts_what_is_there_at_each_moment() -> None:
    """Eight of ten are held until mid-February: two may be signed for the first quarter, ten for the second, and never more."""
    old = [commitment("old", 8.0, "2026-02-15", "2027-02-14")]
    found = settle(demand([[20.0, 20.0]]), [ON_DEMAND, LEASE], commitments=old, limits=[cap("quota_accelerators", 10.0)])
    assert found.purchases[["quarter", "lots"]].to_numpy().tolist() == [["2027Q1", 2], ["2027Q2", 10]]
    rows = found.model.rows[["quarter", "row"]]
    assert rows["quarter"].tolist() == ["2027Q1", "2027Q1", "2027Q2"]
    assert found.model.program.b[rows["row"]].tolist() == [2.0, 10.0, 10.0]


def test_power_counts_what_is_there_at_each_moment() -> None:
    """Old machines draw 6 of 8 kW until mid-February, so that only one of 2 kW fits beside them; three more from then on."""
    machines = (sku("gpu"), sku("own", provider="own", power_kw=2.0))
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=5_000.0, term_months=60)
    old = pd.DataFrame(
        {
            "asset_id": ["old"],
            "sku": ["own"],
            "site": ["site"],
            "machines": [3],
            "in_service": [pd.Timestamp("2022-02-15")],
            "capex_usd": [1.0],
        }
    )
    found = settle(demand([[9.0, 9.0]]), [ON_DEMAND, own], assets=old, skus=machines, limits=[cap("power_kw", 8.0, region="site")])
    assert found.purchases[["quarter", "lots"]].to_numpy().tolist() == [["2027Q1", 1], ["2027Q2", 3]]


# --- what a quota counts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "usd"),
    [
        (None, 8 * 2 + 12 * 4),  # 8 signed, 12 rented beside them
        ("purchases", 8 * 2 + 12 * 4),
        ("running", 8 * 2 + 12 * 25),  # 8 of them run at all
        ("all", 8 * 2 + 12 * 25),
        ("on_demand", 20 * 2),  # 8 at most on demand, none of them needed
        ("spot", 20 * 2),
    ],
)
def test_a_quota_counts_what_it_says(counts: str | None, usd: float) -> None:
    plan = solve(demand([[20.0]]), [ON_DEMAND, LEASE], limits=[cap("quota_accelerators", 8.0, counts=counts)])
    assert plan.proof.upper_usd == pytest.approx(HOURS * usd)


def test_a_quota_of_running_machines_leaves_spot_aside_and_one_of_all_does_not() -> None:
    spot = offer("spot", "spot", 1.0)
    for counts, most in (("running", 8 + 5), ("all", 8)):
        plan = solve(
            demand([[20.0]]),
            [ON_DEMAND, spot],
            classes=[work_class(interruptible=True)],
            limits=[cap("quota_accelerators", 8.0, counts=counts), cap("spot_accelerators", 5.0, limit_id="spot")],
        )
        served = plan.dispatch.query("source != 'shortfall'")["expected_accelerator_hours"].sum()
        assert served == pytest.approx(HOURS * most)


def test_a_quota_counts_a_savings_plan_that_guarantees_its_machines() -> None:
    sure = offer("plan", "savings_plan_1y", 2.0, discounts="usd_per_hour", guarantees_capacity=True)
    limits = [cap("quota_accelerators", 8.0), cap("on_demand_accelerators", 0.0, limit_id="none")]
    plan = solve(demand([[20.0]]), [ON_DEMAND, sure], limits=limits)
    assert plan.purchases["lots"].tolist() == [8]
    assert plan.proof.upper_usd == pytest.approx(HOURS * (8 * 2 + 12 * 25))


def test_only_limits_on_accelerators_count_something() -> None:
    with pytest.raises(CapplanError, match="only limits on accelerators count something of their own"):
        solve(demand([[1.0]]), [ON_DEMAND], limits=[cap("power_kw", 8.0, counts="all")])


# --- what nothing can reach ------------------------------------------------------------------------------------------------------------

BASE = {
    "classes": [work_class(shortfall_usd_per_unit=None, residency="us"), work_class("batch", stage_kind="batch", interruptible=True)],
    "skus": [sku("gpu")],
}
SLOW = offer("slow", "lease", 3.0, term_months=3, lead_time_days_p50=80.0, lead_time_days_p90=140.0)
#: Rows that nothing can reach: for offers, machines, speeds and limits.
UNREACHED = {
    "a speed on an accelerator nobody offers": {"speeds": [("work", "MI300X", 8.0)]},
    "a machine nobody offers": {"skus": [sku("new", "MI300X", provider="rival")], "speeds": [("work", "MI300X", 8.0)]},
    "an offer on which nothing runs": {"skus": [sku("new", "MI300X")], "offers": [offer("new", "on_demand", 0.1, sku="new")]},
    "an offer where the work may not go": {
        "skus": [sku("new", "MI300X")],
        "speeds": [("work", "MI300X", 8.0)],
        "offers": [offer("new", "on_demand", 0.1, sku="new", region="eu-1", geography="eu")],
    },
    "a dearer place where nothing runs": {"offers": [offer("far", "on_demand", 90.0, region="ap-1", geography="apac")]},
    "a limit on a provider nobody buys from": {
        "limits": [cap("quota_accelerators", 0.0, provider="nobody", limit_id="other", counts="all")]
    },
}


@pytest.mark.parametrize("what", UNREACHED)
def test_a_row_that_nothing_can_reach_changes_no_answer(what: str) -> None:
    """Work is bound to the US; its price of shortfall is the scenario's for an hour of the fastest accelerator that can be had for it."""
    more = UNREACHED[what]
    work = pd.concat([demand([[4.0, 9.0], [12.0, 16.0]]), demand([[3.0, 3.0], [1.0, 6.0]], name="batch")])
    speeds = [("work", "H100", 1.0), ("batch", "H100", 2.0)]
    offers = [offer("od", "on_demand", 4.0, maximum_lots=None), LEASE | {"lot_machines": 8}, SLOW]
    a = assumptions(risk_weight=0.3, horizon_end="hold_demand", on_demand_accelerators=5.0)
    plain = solve(work, offers, a, speeds=speeds, **BASE)
    other = solve(
        work,
        [*offers, *more.get("offers", [])],
        a,
        speeds=[*speeds, *more.get("speeds", [])],
        classes=BASE["classes"],
        skus=[*BASE["skus"], *more.get("skus", [])],
        limits=more.get("limits", []),
    )
    assert other.proof.upper_usd == pytest.approx(plain.proof.upper_usd, rel=1e-12)
    assert (
        other.purchases[["offer_id", "quarter", "lots"]].to_numpy().tolist()
        == plain.purchases[["offer_id", "quarter", "lots"]].to_numpy().tolist()
    )
    for table in ("costs", "service"):
        pd.testing.assert_frame_equal(getattr(other, table), getattr(plain, table))


# --- the end of the horizon ------------------------------------------------------------------------------------------------------------


def test_a_cheaper_offer_never_makes_a_plan_dearer() -> None:
    """Costs are gross: there is no credit that shrinks when an offer gets cheaper."""
    work, limits = demand([[40.0, 5.0], [20.0, 20.0], [20.0, 60.0]], [0.4, 0.4, 0.2]), [cap("on_demand_accelerators", 30.0)]
    cost = []
    for usd in (2.8, 2.24):
        rows = [ON_DEMAND, offer("one", "reserved_1y", usd), offer("three", "reserved_3y", 2.2)]
        cost.append(solve(work, rows, assumptions(horizon_end="hold_demand"), limits=limits).proof)
    assert cost[1].upper_usd < cost[0].lower_usd
    assert cost[1].lower_usd > 0


def test_a_longer_offer_does_not_make_a_plan_longer() -> None:
    rows = [ON_DEMAND, offer("one", "reserved_1y", 2.8)]
    long = offer("five", "lease", 3.9, term_months=60)
    short, both = (solve(demand([[10.0, 10.0]]), each, assumptions(horizon_end="hold_demand")).proof for each in (rows, [*rows, long]))
    assert both.upper_usd == pytest.approx(short.upper_usd)


def test_after_the_horizon_all_paths_meet_the_same_demand_so_that_risk_is_of_the_planned_quarters() -> None:
    """Costs of paths differ by what their own quarters cost; the years after them cost every path the expectation."""
    work = demand([[4.0, 2.0], [4.0, 9.0]])
    a = assumptions(horizon_end="hold_demand", risk_weight=0.5, tail_share=0.5, years_after_horizon=2)
    found = settle(work, [ON_DEMAND], a)
    cost, later = found.solution.cost_by_scenario, 8 * 4.0 * HOURS * 5.5
    assert cost.tolist() == pytest.approx([4.0 * HOURS * 6 + later, 4.0 * HOURS * 13 + later])


def test_what_runs_past_the_last_year_is_charged_for_its_part_until_then() -> None:
    """Three years from the first quarter on, paid half at signing: five of twelve quarters lie before the end."""
    three = offer("three", "reserved_3y", 1.0, upfront_share=0.5)
    plan = solve(demand([[6.0]]), [ON_DEMAND, three], assumptions(horizon_quarters=1, horizon_end="hold_demand", years_after_horizon=1))
    assert plan.proof.upper_usd == pytest.approx(6 * HOURS * 5)


def test_the_plan_says_of_each_purchase_that_is_signed_now_whether_another_end_would_change_it() -> None:
    """Three-year contracts are firm here; cut off at the horizon as many are taken, counted in full none."""
    rows = [ON_DEMAND, offer("one", "reserved_1y", 2.8), offer("three", "reserved_3y", 1.5)]
    plan = solve(demand([[10.0] * 4]), rows, assumptions(horizon_quarters=4, horizon_end="hold_demand"))
    said = [note for note in plan.notes if "signed now" in note]
    assert said == [
        "Another end of the horizon would change what is signed now: three from 2027Q1: 10 lots, 0 with contracts counted in full, with no"
        " use after the horizon."
    ]
    # two years of contracts still running, and one of ten machines at 2.25, three years' price with the freedom to leave after one
    assert (
        f"Of the plan's cost {money(HOURS * 4 * 10 * 1.5 * 1.5)} is use beside its contracts in the 3 years after the horizon, in which the"
        " last quarter's demand is served on." in plan.notes
    )
    sure = solve(demand([[10.0] * 4]), [ON_DEMAND, LEASE], assumptions(horizon_quarters=4, horizon_end="hold_demand"))
    assert "What is signed now would be signed under every treatment of the horizon's end." in sure.notes


@pytest.mark.parametrize(
    ("usd", "share", "loads", "left", "quarters", "saved"),
    [
        (6.0, 0.0, [10.0, 10.0], 10, 2, 2 * 10 * (6.0 - 4.0)),  # on demand is cheaper
        (6.0, 0.5, [10.0, 10.0], 0, 0, 0.0),  # half of what is owed is less than on demand
        (6.0, 0.5, [10.0, 4.0], 6, 1, 6 * 3.0),  # six are idle from April on
        (6.0, 0.25, [4.0, 4.0], 10, 2, 2 * (10 * 4.5 - 4 * 4.0)),
        (3.0, 0.25, [4.0, 4.0], 6, 2, 2 * 6 * 2.25),  # six idle ones only
    ],
)
def test_a_contract_that_is_better_left_early_is_named(
    usd: float, share: float, loads: list[float], left: int, quarters: int, saved: float
) -> None:
    """Ten machines until the end of June; leaving costs a share of what is owed, and what is missing is rented at 4."""
    old = commitment("old", 10.0, "2026-07-01", "2027-06-30", usd, exit_cost_share=share)
    plan = solve(demand([loads]), [ON_DEMAND], assumptions(approval_days=0), commitments=[old])
    said = [note for note in plan.notes if note.startswith("Leaving ")]
    if left == 0:
        assert not said
    else:
        day, cost = {2: "2027-01-01", 1: "2027-04-01"}[quarters], HOURS * quarters * left * usd * share
        assert said == [f"Leaving {left} of 10 machines of old on {day} saves {money(HOURS * saved)}, its exit cost of {money(cost)} paid."]


# --- prices that move ------------------------------------------------------------------------------------------------------------------

PATH = {"path": "p"}


def moving(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame(rows)


def test_a_later_purchase_is_made_at_the_price_of_its_day() -> None:
    """A quarter's lease costs 2 today, 5 to 10 % less for the second quarter; on demand moves with the middle of the quarter."""
    rows = [ON_DEMAND | {"usd_per_hour": 9.0}, LEASE]
    plan = solve(demand([[10.0, 10.0]]), rows, price_paths=moving(PATH | {"change_share_per_year": -0.3, "term": "lease"}))
    later = 2 * 0.7 ** (90 / 365.25)
    assert plan.purchases["usd_per_hour"].tolist() == pytest.approx([2.0, later])
    assert plan.proof.upper_usd == pytest.approx(HOURS * 10 * (2 + later))
    hourly = solve(demand([[10.0, 10.0]]), [ON_DEMAND], price_paths=moving(PATH | {"change_share_per_year": -0.3}))
    assert hourly.proof.upper_usd == pytest.approx(HOURS * 40 * (0.7 ** (45 / 365.25) + 0.7 ** (135.5 / 365.25)))


def test_a_savings_plan_signed_later_pays_for_as_many_machines_at_the_rates_of_its_day() -> None:
    """Half the price after a year: from July on ten lots still pay for ten machines, for less."""
    plan_row = offer("plan", "savings_plan_1y", 2.0, discounts="usd_per_hour", guarantees_capacity=False, lead_time_days_p50=100.0)
    plan = solve(
        demand([[10.0] * 3]), [ON_DEMAND, plan_row], price_paths=moving(PATH | {"term": "savings_plan_1y", "change_share_per_year": -0.5})
    )
    later = 2 * 0.5 ** (181 / 365.25)
    assert plan.purchases[["quarter", "lots"]].to_numpy().tolist() == [["2027Q3", 10]]
    assert plan.proof.upper_usd == pytest.approx(HOURS * 10 * (4 + 4 + later))


def test_a_quote_that_holds_and_a_right_to_renew_keep_their_price() -> None:
    quoted = LEASE | {"negotiated_usd_per_hour": 1.9, "quote_expires": pd.Timestamp("2027-12-31")}
    old = commitment("old", 3.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=1.0)
    a = assumptions(horizon_quarters=2)
    plan = solve(
        demand([[10.0, 10.0]]), [ON_DEMAND, quoted], a, commitments=[old], price_paths=moving(PATH | {"change_share_per_year": -0.3})
    )
    assert set(plan.purchases["usd_per_hour"]) == {1.9, 1.0}


def test_a_cut_that_was_announced_and_may_not_come_is_taken_at_its_expectation() -> None:
    cut = PATH | {
        "step_date": pd.Timestamp("2027-03-01"),
        "step_share": -0.44,
        "probability": 0.5,
        "accelerator": "H*",
        "provider": "cloud",
    }
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], price_paths=moving(cut))
    assert plan.proof.upper_usd == pytest.approx(HOURS * 40 * (1 + 0.78))


def test_prices_of_specialised_clouds_fall_where_nothing_else_is_said_and_those_of_large_ones_do_not() -> None:
    for provider, factor in (("aws", 1.0), ("nebius", 0.9), ("somebody", 1.0)):
        found = settle(demand([[10.0, 10.0]]), [ON_DEMAND | {"usd_per_hour": 9.0}, LEASE], skus=[sku("gpu", provider=provider)])
        assert found.choices.table["usd_per_hour"].tolist() == pytest.approx([2.0, 2.0 * factor ** (90 / 365.25)])


def test_what_a_path_says_of_an_offer_takes_the_place_of_what_is_usual_and_use_by_the_hour_has_no_usual_change() -> None:
    about = pd.DataFrame({"provider": "nebius", "accelerator": "H100", "term": ["on_demand", "reserved_1y", "lease"]})
    path = moving(PATH | {"term": "lease", "change_share_per_year": 0.2, "probability": 0.5})
    when = pd.DatetimeIndex([pd.Timestamp("2027-01-01") + pd.Timedelta(days=365.25)])
    a = assumptions(as_of="2027-01-01", first_quarter="2027Q1", specialist_price_change_share_per_year=-0.1)
    assert price_factors(about, PriceMoves(path), when, a)[:, 0].tolist() == pytest.approx([1.0, 0.9, 1.1])


def test_only_the_machine_that_is_succeeded_is_worth_less_for_it() -> None:
    about = pd.DataFrame({"provider": "own", "accelerator": ["H100", "B200"], "term": "owned"})
    day = pd.Timestamp("2027-04-01")
    arrival = Arrival("R1", "H100", day, day, 1.5, 3.0, 3.0, 0.8, added=True)
    found = worth_factors(about, PriceMoves(None, (arrival,)), pd.DatetimeIndex(["2027-03-31", day]), assumptions())
    # four times out of five a third of its price times one and a half does its work
    assert found.ravel().tolist() == pytest.approx([1.0, 0.2 + 0.8 * 0.5, 1.0, 1.0])


def test_falling_prices_shorten_terms_and_keeping_today_s_prices_in_mind_costs() -> None:
    """One- and three-year terms: the faster prices fall, the fewer machines are taken for three years; today's best costs more."""
    rows = [offer("od", "on_demand", 4.0), offer("one", "reserved_1y", 2.4), offer("three", "reserved_3y", 2.0)]
    work = demand([[14.0, 16.0, 18.0, 20.0], [18.0, 20.0, 24.0, 26.0]])
    a = assumptions(horizon_quarters=4, horizon_end="hold_demand")
    flat = settle(work, rows, a).purchases
    pins = tuple((row.offer_id, row.quarter, int(row.lots)) for row in flat.itertuples())
    none = tuple(
        (name, f"2027Q{q}", 0)
        for name in ("one", "three")
        for q in range(1, 5)
        if (name, f"2027Q{q}") not in set(zip(flat["offer_id"], flat["quarter"], strict=True))
    )
    long, regret = [], []
    for fall in (0.0, 0.15, 0.25, 0.35):
        path = moving(PATH | {"change_share_per_year": -fall})
        best = settle(work, rows, a, price_paths=path)
        assert best.solution.upper == pytest.approx(Checker(problem(work, rows, a, price_paths=path)).solve(), rel=1e-9)
        kept = settle(work, rows, a.model_copy(update={"pinned_purchases": pins + none}), price_paths=path)
        long.append(float(best.purchases.loc[best.purchases["offer_id"] == "three", "lots"].sum()))
        regret.append(kept.solution.upper / best.solution.lower - 1)
    assert long == sorted(long, reverse=True)
    assert long[0] >= 15
    assert long[-1] <= 2
    assert regret == pytest.approx(sorted(regret))
    assert regret[0] == pytest.approx(0.0, abs=1e-9)
    assert regret[-1] > 0.05


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"change_share_per_year": 30.0}, "change_share_per_year"),  # 30 % written as 30
        ({"step_share": -0.44}, "a step happens on a day"),
        ({"probability": 1.5}, "probability"),
    ],
)
def test_paths_that_cannot_be_meant_are_refused(row: dict[str, object], words: str) -> None:
    with pytest.raises(CapplanError, match=words):
        solve(demand([[1.0]]), [ON_DEMAND], price_paths=moving(PATH | row))


def test_a_path_about_nothing_that_is_offered_is_a_note_and_no_effect() -> None:
    plan = solve(demand([[1.0]]), [ON_DEMAND], price_paths=moving(PATH | {"accelerator": "MI300X", "change_share_per_year": -0.3}))
    assert plan.proof.upper_usd == pytest.approx(4 * HOURS)
    assert any(note.startswith("p: nothing is offered that this price path is about") for note in plan.notes)
