"""What else could be done: rules that only look back, and what alternatives pay for limits they do not keep."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.questions.procurement import Proof, Purchases
from capplan.questions.procurement.explain.sentences import in_words
from tests.cases.procurement_cases import assumptions, commitment, demand, offer, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
YEAR = offer("year", "reserved_1y", 2.0)
BOTH = ["look_back_30_days", "look_back_coverage"]


def history(days: int, accelerators: float) -> pd.DataFrame:
    """Flat use, measured by the hour, up to the day of the plan."""
    time = pd.date_range(end=pd.Timestamp("2026-12-31 23:00"), periods=24 * days, freq="h")
    return pd.DataFrame({"time": time, "workload": "work", "region": "us", "quantity": accelerators})


def against(plan: Purchases) -> pd.DataFrame:
    return plan.alternatives.set_index("name")


def test_a_rule_that_looks_back_buys_what_ran_and_not_what_comes() -> None:
    """Ten ran for two months, so ten are signed (or eight, to cover 80 %); demand falls to four, which the plan knows."""
    plan = solve(demand([[10.0, 4.0, 4.0, 4.0]]), [ON_DEMAND, YEAR], usage=history(60, 10.0))
    table = against(plan)
    assert plan.purchases["lots"].sum() == 4
    assert table.at["plan", "expected_usd"] == pytest.approx(HOURS * (4 * 4 * 2.0 + 6 * 4.0))
    assert table.at["look_back_30_days", "expected_usd"] == pytest.approx(HOURS * 4 * 10 * 2.0)
    assert table.at["look_back_coverage", "expected_usd"] == pytest.approx(HOURS * (4 * 8 * 2.0 + 2 * 4.0))
    assert table.at["look_back_30_days", "regret_usd"] == pytest.approx(HOURS * (80.0 - 56.0))


def test_a_rule_looks_at_its_own_place() -> None:
    """Ten ran in one part of the world and four in another: each place gets what ran there."""
    work = pd.concat([demand([[10.0] * 4]), demand([[4.0] * 4], region="eu")], ignore_index=True)
    there = {"region": "eu-1", "geography": "eu"}
    rows = [ON_DEMAND, YEAR, offer("od-eu", "on_demand", 4.0, **there), offer("year-eu", "reserved_1y", 2.0, **there)]
    usage = pd.concat([history(60, 10.0), history(60, 4.0).assign(region="eu")], ignore_index=True)
    table = against(solve(work, rows, usage=usage))
    assert table.at["look_back_30_days", "expected_usd"] == pytest.approx(HOURS * 4 * (10 + 4) * 2.0)


@pytest.mark.parametrize(
    ("row", "ran", "lots"),
    [
        ({}, 7.4, 7),
        ({"lot_machines": 3}, 8.0, 3),  # 8 / 3 is nearest to 3 lots
        ({"lot_machines": 3}, 7.0, 2),
        ({"minimum_lots": 9}, 8.0, 0),
        ({"maximum_lots": 5.0}, 8.0, 5),
        ({"lead_time_days_p50": 100.0}, 8.0, 0),  # cannot start within the two quarters
    ],
)
def test_it_signs_whole_lots(row: dict[str, float], ran: float, lots: int) -> None:
    size = row.get("lot_machines", 1)
    plan = solve(demand([[9.0, 9.0]]), [ON_DEMAND, YEAR | row], usage=history(30, ran))
    held = lots * size
    expected = HOURS * 2 * (held * 2.0 + max(9.0 - held, 0) * 4.0)
    assert against(plan).at["look_back_30_days", "expected_usd"] == pytest.approx(expected)


def test_it_keeps_quotas_and_counts_what_is_held() -> None:
    limits = [{"limit_id": "quota", "kind": "quota_accelerators", "amount": 7.0}]
    held = [commitment("old", 2.0, "2026-07-01", "2027-12-31")]
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND, YEAR], usage=history(60, 10.0), commitments=held)
    assert against(plan).at["look_back_30_days", "expected_usd"] == pytest.approx(HOURS * 2 * (8 * 2.0))
    tight = solve(demand([[10.0, 10.0]]), [ON_DEMAND, YEAR], usage=history(60, 10.0), commitments=held, limits=limits)
    assert against(tight).at["look_back_30_days", "expected_usd"] == pytest.approx(HOURS * 2 * (5 * 2.0 + 3 * 4.0))
    assert (against(tight)["regret_usd"] >= -1e-6).all()


def test_a_savings_plan_is_signed_by_the_dollar() -> None:
    plan_row = offer("sp", "savings_plan_1y", 2.0, discounts="usd_per_hour", plan_id="p", guarantees_capacity=False)
    plan = solve(demand([[6.0, 6.0]]), [ON_DEMAND, plan_row], usage=history(30, 6.0))
    assert against(plan).at["look_back_30_days", "expected_usd"] == pytest.approx(HOURS * 2 * 6 * 2.0)


def test_without_a_history_there_is_no_such_rule() -> None:
    for usage in (None, history(5, 10.0), history(60, 10.0).iloc[:0]):
        plan = solve(demand([[10.0, 4.0]]), [ON_DEMAND, YEAR], usage=usage)
        assert not set(BOTH) & set(plan.alternatives["name"])
    own = offer("own", "owned", 0.0, capex_usd=100.0, term_months=60, sku="own")
    assert not set(BOTH) & set(solve(demand([[1.0]]), [own], skus=[sku("own", power_kw=1.0)], usage=history(60, 1.0)).alternatives["name"])


def test_a_soft_budget_that_is_exceeded_says_what_is_used() -> None:
    """By the hour 40 a quarter are spent where 25 are budgeted, and nothing cheaper is to be had."""
    budget = {"limit_id": "cap", "kind": "budget_usd", "amount": HOURS * 25.0, "measure": "p_and_l", "hard": False}
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], assumptions(soft_limit_penalty_share=0.5), limits=[budget])
    rows = plan.binding[plan.binding["limit_id"].str.endswith("with expected usage")]
    assert rows["used"].tolist() == pytest.approx([HOURS * 40.0] * 2)
    assert rows["slack"].tolist() == pytest.approx([-HOURS * 15.0] * 2)


def test_alternatives_pay_for_soft_budgets_and_name_the_hard_ones_they_break() -> None:
    """By the hour 80 would be spent where 50 are budgeted; half a dollar for each dollar above."""
    budget = {"limit_id": "cap", "kind": "budget_usd", "amount": HOURS * 25.0, "measure": "p_and_l"}
    a = assumptions(soft_limit_penalty_share=0.5)
    soft = against(solve(demand([[10.0, 10.0]]), [ON_DEMAND, YEAR], a, limits=[budget | {"hard": False}]))
    assert soft.at["do_nothing", "expected_usd"] == pytest.approx(2 * HOURS * (40.0 + 0.5 * 15.0))
    hard = against(solve(demand([[10.0, 10.0]]), [ON_DEMAND, YEAR], a, limits=[budget | {"hard": True}]))
    assert hard.at["do_nothing", "meaning"].endswith("; breaks cap in 2027Q1, cap in 2027Q2")
    assert "breaks" not in hard.at["plan", "meaning"]


def test_factors_move_quotas_and_budgets() -> None:
    limits = [{"limit_id": "quota", "kind": "quota_accelerators", "amount": 4.0}]
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND, YEAR], assumptions(quota_factor=1.5), limits=limits)
    assert plan.purchases["accelerators"].sum() == 6.0
    assert plan.binding.loc[plan.binding["limit_id"] == "quota", "limit"].tolist() == [6.0, 6.0]
    budget = [{"limit_id": "cap", "kind": "budget_usd", "amount": HOURS * 40.0, "measure": "p_and_l", "hard": True}]
    half = solve(demand([[10.0]]), [ON_DEMAND], assumptions(horizon_quarters=1, budget_factor=0.5), limits=budget)
    assert half.proof.upper_usd == pytest.approx(HOURS * (20.0 + 5 * 25.0))


# --- in plain words ---------------------------------------------------------------------------------------------------------------


def said(plan: Purchases) -> dict[str, str]:
    return plan.explanation.set_index("about")["words"].to_dict()


def test_every_number_has_a_line_in_plain_words() -> None:
    """Two futures, a contract worth signing, a quota that holds it back, an offer that is too dear, and a history."""
    limits = [{"limit_id": "quota", "kind": "quota_accelerators", "amount": 6.0}]
    rows = [ON_DEMAND, YEAR, offer("dear", "lease", 23.0, term_months=3, region="us-2", guarantees_capacity=False)]
    plan = solve(demand([[10.0, 4.0, 8.0, 8.0], [12.0, 12.0, 8.0, 9.0]]), rows, limits=limits, usage=history(60, 10.0))
    lines, costs = said(plan), against(plan)
    assert lines["next decision"] == "Sign 6 x year from 2027Q1 ($105.1k) now; the day for it has passed."
    assert lines["expected cost"] == f"On average over all paths the plan costs ${costs.at['plan', 'expected_usd'] / 1e3:,.1f}k."
    assert lines["bad cases"].startswith("In the worst 20 % of cases it costs $")
    assert lines["worst case"] == f"On the worst path of all it costs ${costs.at['plan', 'worst_usd'] / 1e3:,.1f}k."
    assert lines["proof"].endswith("this one is optimal.")
    assert lines["perfect forecast (EVPI)"].startswith("What a perfect forecast would be worth")
    assert lines["many futures instead of their average (VSS)"].startswith("What planning with scenarios saves")
    assert lines["waiting"].startswith("What it costs to sign nothing before the next review: $")
    assert lines["limit: quota"] == "1 more in 2027Q1 to 2027Q4 for 1 more machine of year from 2027Q1 would save $13.1k."
    # under the quota it takes the place of the year, so it must cost no more
    assert lines["not taken: dear"] == (
        "Offered at $23.00 an hour for 2027Q1; costs more than what it would replace. It would begin to pay at $2.00."
    )
    regrets = {about.removeprefix("regret: ") for about in lines if about.startswith("regret: ")}
    assert regrets == {"sign nothing yet", "do nothing", "look back 30 days"}, "what one would really do instead, and no more"
    assert {"mean_value_plan", "look_back_coverage", "all_on_demand"} <= set(costs.index), "other numbers come from these"
    assert "more than the plan." in lines["regret: do nothing"]
    assert "after the horizon" not in lines


def test_where_nothing_is_due_waiting_costs_nothing() -> None:
    lines = said(solve(demand([[1.0]]), [ON_DEMAND]))
    assert lines["next decision"] == "Nothing is to be signed."
    assert lines["waiting"] == "Nothing has to be signed before the next review, so waiting for it costs nothing: $0."
    later = solve(demand([[0.0, 0.0, 0.0, 5.0]]), [ON_DEMAND, offer("q", "lease", 1.0, term_months=3)])
    assert "nothing has to be signed before" in said(later)["next decision"]


@pytest.mark.parametrize(
    ("ending", "words"),
    [("truncate", "truncating hides them"), ("count_in_full", "counts in full"), ("hold_demand", "counts against what they then save")],
)
def test_what_is_owed_after_the_horizon_is_said(ending: str, words: str) -> None:
    rows = [ON_DEMAND, offer("three", "reserved_3y", 0.5)]
    plan = solve(demand([[8.0] * 4]), rows, assumptions(horizon_quarters=4, horizon_end=ending))
    owed = 8 * HOURS * 8 * 0.5
    assert said(plan)["after the horizon"].startswith(f"Contracts of this plan owe ${owed / 1e3:,.1f}k after the last planned quarter")
    assert words in said(plan)["after the horizon"]
    hidden = [note for note in plan.notes if "truncating hides them" in note]
    assert len(hidden) == (ending == "truncate")
    assert not hidden or "the plan's cost of $35.0k leaves them out" in hidden[0]


@pytest.mark.parametrize("kind", ["quota_accelerators", "new_accelerators", "budget_usd", "on_demand_accelerators"])
def test_one_more_unit_of_a_limit_is_worth_what_it_saves(kind: str) -> None:
    """The plan with one unit more is cheaper by what the limits table says, where lots are single accelerators."""
    # A year's contract is booked by its days, of which 90 lie in the first quarter.
    unit = 4 * HOURS * 2.0 * 4 * 90 / 365 if kind == "budget_usd" else 1.0
    amount = 3 * unit
    usual = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 4.0}] if kind != "on_demand_accelerators" else []
    more = {"measure": "p_and_l", "hard": True, "quarter": "2027Q1"} if kind == "budget_usd" else {"quarter": "2027Q1"}

    def planned(by: float) -> Purchases:
        row = {"limit_id": "cap", "kind": kind, "amount": (amount + by) / (4 if kind == "budget_usd" else 1)} | more
        rows = [offer("spot", "spot", 30.0), YEAR] if kind == "budget_usd" else [ON_DEMAND, YEAR | {"maximum_lots": 5.0}]
        return solve(demand([[20.0] * 4]), rows, limits=[row, *usual])

    base = planned(0.0)
    saved = base.proof.upper_usd - planned(unit).proof.upper_usd
    assert saved > 0
    if kind != "on_demand_accelerators":
        one = base.limit_lots.set_index("limit_id").loc["cap"]
        assert (one["more"], one["offer_id"], one["machines"]) == (pytest.approx(unit / 4 if kind == "budget_usd" else 1.0), "year", 1.0)
        assert one["saves_usd"] == pytest.approx(saved, rel=1e-9)
        return
    held = base.binding[(base.binding["limit_id"] == "cap") & (base.binding["usd_per_unit"] > 0)]
    assert held["usd_per_unit"].sum() == pytest.approx(saved, rel=1e-6)


def test_what_beats_the_plan_within_its_gap_is_said_so() -> None:
    table = pd.DataFrame(
        {
            "name": ["plan", "renew_all", "do_nothing"],
            "expected_usd": 100.0,
            "cvar_usd": 120.0,
            "worst_usd": 130.0,
            "regret_usd": [0.0, -5.0, -50.0],
            "meaning": ["this plan", "all of it", "none of it"],
        }
    )
    worth = pd.DataFrame({"name": ["vss"], "usd": [-5.0], "meaning": ["what planning with scenarios saves"]})
    nothing = pd.DataFrame({"usd_per_unit": pd.Series(dtype=float), "limit_id": []})
    proof = Proof(90.0, 100.0, 0.1, "limit", "l_shaped", 1, 1)
    lines = in_words(pd.DataFrame(), table, worth, (nothing, pd.DataFrame()), pd.DataFrame(), proof, assumptions()).set_index("about")[
        "words"
    ]
    assert lines["regret: renew all"] == "All of it: $5 less than the plan, which is within the plan's proven gap."
    assert lines["regret: do nothing"] == "None of it: $50 less than the plan."
    assert "below zero because" in lines["many futures instead of their average (VSS)"]
    assert lines["proof"].endswith("10 % more at most, which is wider than was asked for.")
    assert lines["limits"] == "No limit holds the plan back."


def budgeted(hard: bool) -> Purchases:
    """Two futures and a budget on what is expected to be spent, which the plan for the average of both would break."""
    budget = {"limit_id": "b", "kind": "budget_usd", "amount": HOURS * 26.0, "measure": "p_and_l", "hard": hard}
    rows = [ON_DEMAND, offer("lease", "lease", 2.5, term_months=3)]
    return solve(
        demand([[2.0], [18.0]], [0.75, 0.25]), rows, limits=[budget, {"limit_id": "od", "kind": "on_demand_accelerators", "amount": 20.0}]
    )


@pytest.mark.parametrize("hard", [True, False])
def test_a_budget_on_expected_spend_leaves_information_worth_at_least_nothing(hard: bool) -> None:
    """A known future is not held to the budget, which holds for the mean of both; the average's keeps it by leaving work undone."""
    plan = budgeted(hard)
    worth = plan.information.set_index("name")["usd"]
    assert worth["evpi"] >= 0
    assert worth["vss"] >= 0
    row = against(plan).loc["mean_value_plan"]
    assert row["regret_usd"] == pytest.approx(worth["vss"])
    assert ("use by the hour is kept within b in 2027Q1" in row["meaning"]) == hard
    assert "breaks" not in row["meaning"]


def test_one_future_has_no_better_forecast() -> None:
    """Where nothing is uncertain, a perfect forecast is worth nothing, also where a budget binds."""
    budget = {"limit_id": "b", "kind": "budget_usd", "amount": HOURS * 20.0, "measure": "p_and_l", "hard": True}
    worth = solve(demand([[12.0]]), [ON_DEMAND, offer("lease", "lease", 2.5, term_months=3)], limits=[budget]).information.set_index(
        "name"
    )["usd"]
    assert worth[["evpi", "vss"]].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_a_perfect_forecast_of_many_small_paths_is_worth_what_trying_everything_says() -> None:
    """Forty paths, each planned for on its own by trying all whole lots."""
    draws = np.random.default_rng(3)
    loads = draws.integers(5, 40, (40, 2)).astype(float)
    a = assumptions(horizon_quarters=2, approval_days=0, gap_share=0.0025)
    plan = solve(demand(loads.tolist()), [ON_DEMAND, offer("year", "reserved_1y", 2.4)], a)
    known = [
        min(
            HOURS * (2.4 * (2 * first + then) + 4 * max(one - first, 0.0) + 4 * max(two - first - then, 0.0))
            for first in range(41)
            for then in range(41 - first)
        )
        for one, two in loads
    ]
    worth = plan.information.set_index("name").loc["evpi"]
    assert worth["meaning"].startswith("what a perfect forecast")
    assert worth["usd"] == pytest.approx(against(plan).loc["plan", "expected_usd"] - float(np.mean(known)), rel=1e-6)
