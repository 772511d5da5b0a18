"""The review: a bridge that adds up, names the one thing that changed, and does not care for the order of rows."""

from __future__ import annotations

import csv
import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.answers.plan import demand_of
from capplan.book.accepted import AcceptedPlan, find_accepted, read_accepted
from capplan.book.book import load_book
from capplan.book.empty import empty_table
from capplan.book.gate import UNSEEN
from capplan.book.scenario import ReviewAssumptions, Scenario
from capplan.errors import CapplanError, ScenarioError
from capplan.outputs.run.review import write_review
from capplan.outputs.views.review import show_review
from capplan.questions.demand.capacity_requests import requested_runs
from capplan.questions.review import Came, review_plan
from capplan.questions.review.accuracy import accuracy_by_workload, forecast_accuracy, held_against, measured_work
from capplan.questions.review.bridge import variance_bridge
from capplan.questions.review.capacity_requests import judge_requests
from capplan.questions.review.plans_apart import plans_apart, told
from capplan.questions.review.scoreboard import feature_economics
from capplan.questions.review.spend_rows import gathered
from capplan.questions.review.vendors import vendor_register
from tests.conftest import ROOT, example_book, hourly

MONTHS = [pd.Timestamp("2027-01-01"), pd.Timestamp("2027-02-01")]
POOLS = [("aws", "H100"), ("aws", "L40S"), ("nebius", "H100")]
WORKLOADS = ["chat", "search"]
CENT = 0.005


def spend(rows: list[tuple]) -> pd.DataFrame:
    """Make SPEND of (month, provider, accelerator, workload, kind, hours, price of an hour or amount)."""
    frame = pd.DataFrame(rows, columns=["month", "provider", "accelerator", "workload", "kind", "hours", "price"]).assign(contract_id="")
    amount = (frame["hours"] * frame["price"]).where(frame["hours"].notna(), frame["price"])
    return gathered(frame.assign(amount=amount, amount_at_plan_rates=amount))


PLAN = [
    (month, provider, accelerator, workload, kind, 100.0 * (1 + place) * (2 if workload == "chat" else 1), price)
    for month in MONTHS
    for place, (provider, accelerator) in enumerate(POOLS)
    for workload in WORKLOADS
    for kind, price in (("on_demand", 4.0 + place), ("committed", 2.0 + place))
] + [(month, "aws", "H100", "", "unused", 50.0, 2.0) for month in MONTHS]
OTHERS = [(month, "openai", "", "drafts", "other", np.nan, 900.0) for month in MONTHS] + [
    (month, "aws", "", "", "other", np.nan, 300.0) for month in MONTHS
]
WORK = pd.DataFrame(
    [(month, name, 1000.0, 1000.0) for month in MONTHS for name in (*WORKLOADS, "drafts")],
    columns=["month", "workload", "planned", "actual"],
)


def by_driver(planned: pd.DataFrame, actual: pd.DataFrame, work: pd.DataFrame = WORK) -> dict[str, float]:
    table = variance_bridge(planned, actual, work)
    total = actual["amount"].sum() - planned["amount"].sum()
    assert table["amount"].sum() == pytest.approx(total, abs=CENT)
    sums = table.groupby("driver")["amount"].sum()
    return {str(name): float(value) for name, value in sums.items() if abs(value) > CENT}


def changed(rows: list[tuple], change) -> pd.DataFrame:
    return spend([row for row in (change(row) for row in rows) if row is not None])


def test_a_plan_against_itself_has_no_variance():
    both = spend(PLAN + OTHERS)
    assert by_driver(both, both) == {}


def test_one_change_has_one_driver_with_the_amount_by_hand():
    planned = spend(PLAN + OTHERS)
    total = float(planned.loc[planned["hours"].notna() & planned["kind"].ne("unused"), "amount"].sum())
    chat = float(planned.loc[planned["workload"].eq("chat"), "amount"].sum())

    dearer = changed(PLAN + OTHERS, lambda row: (*row[:6], row[6] * 1.1) if row[4] == "on_demand" else row)
    assert by_driver(planned, dearer) == {"price": pytest.approx(0.1 * planned.loc[planned["kind"].eq("on_demand"), "amount"].sum())}

    more = changed(PLAN + OTHERS, lambda row: (*row[:5], row[5] * 1.2, row[6]) if row[3] == "chat" else row)
    grown = WORK.assign(actual=WORK["actual"] * np.where(WORK["workload"] == "chat", 1.2, 1.0))
    assert by_driver(planned, more, grown) == {"volume": pytest.approx(0.2 * chat)}

    wasteful = changed(PLAN + OTHERS, lambda row: (*row[:5], row[5] * 1.25, row[6]) if row[4] in ("on_demand", "committed") else row)
    assert by_driver(planned, wasteful) == {"efficiency": pytest.approx(0.25 * total)}

    idle = changed(PLAN + OTHERS, lambda row: (*row[:5], row[5] * 3, row[6]) if row[4] == "unused" else row)
    assert by_driver(planned, idle) == {"unused": pytest.approx(2 * 2 * 50 * 2.0)}

    gone = changed(PLAN + OTHERS, lambda row: None if row[3] == "chat" else row)
    stopped = WORK.assign(actual=np.where(WORK["workload"] == "chat", 0.0, WORK["actual"]))
    assert by_driver(planned, gone, stopped) == {"ended": pytest.approx(-chat)}

    tokens = changed(PLAN + OTHERS, lambda row: (*row[:6], 2 * row[6]) if row[3] == "drafts" else row)
    assert by_driver(planned, tokens) == {"price": pytest.approx(1800.0)}
    asked = WORK.assign(actual=WORK["actual"] * np.where(WORK["workload"] == "drafts", 2.0, 1.0))
    assert by_driver(planned, tokens, asked) == {"volume": pytest.approx(1800.0)}

    fees = changed(PLAN + OTHERS, lambda row: (*row[:6], 400.0) if row[6] == 300.0 else row)
    assert by_driver(planned, fees) == {"other": pytest.approx(200.0)}


def test_shares_of_ways_to_pay_and_of_machines_are_told_apart():
    planned = spend(PLAN)
    # 60 hours of aws H100 for chat move from on demand (4) to contract (2), in the first month
    moved = [*PLAN, (MONTHS[0], "aws", "H100", "chat", "on_demand", -60.0, 4.0), (MONTHS[0], "aws", "H100", "chat", "committed", 60.0, 2.0)]
    assert by_driver(planned, spend(moved)) == {"coverage": pytest.approx(-120.0)}
    # a tenth of all hours of aws L40S moves to nebius H100, each pool keeping its shares
    l40s, h100 = (
        planned[(planned["provider"] == p) & (planned["accelerator"] == g) & (planned["month"] == MONTHS[0])] for p, g in POOLS[1:]
    )
    hours = 0.1 * l40s["hours"].sum()
    scale = {("aws", "L40S"): 0.9, ("nebius", "H100"): 1 + hours / h100["hours"].sum()}
    other = changed(PLAN, lambda row: (*row[:5], row[5] * scale.get((row[1], row[2]), 1.0), row[6]) if row[0] == MONTHS[0] else row)
    price = {name: frame["amount"].sum() / frame["hours"].sum() for name, frame in (("l40s", l40s), ("h100", h100))}
    assert by_driver(planned, other) == {"mix": pytest.approx(hours * (price["h100"] - price["l40s"]))}


def test_exchange_rates_and_what_is_in_no_bill_or_in_no_plan():
    planned = spend(PLAN + OTHERS)
    weaker = planned.assign(amount=planned["amount"] * 1.05)
    assert by_driver(planned, weaker) == {"currency": pytest.approx(0.05 * planned["amount"].sum())}
    silent = planned[planned["provider"] != "openai"]
    assert by_driver(planned, silent) == {"not_billed": pytest.approx(-1800.0)}
    strange = spend(
        [*PLAN, *OTHERS, (MONTHS[0], "elsewhere", "", "", "other", np.nan, 77.0), (MONTHS[1], "aws", "", "", "unmapped", np.nan, 5.0)]
    )
    assert by_driver(planned, strange) == {"unmapped": pytest.approx(82.0)}


def test_a_bill_that_does_not_tell_waste_from_use_is_held_against_all_that_is_held():
    planned = spend([(MONTHS[0], "nebius", "H100", "chat", "committed", 60.0, 2.0), (MONTHS[0], "nebius", "H100", "", "unused", 40.0, 2.0)])
    billed = spend([(MONTHS[0], "nebius", "H100", "", "committed", 100.0, 2.0)])
    assert by_driver(planned, billed) == {}


amounts = st.floats(0.0, 1e6)
row = st.tuples(
    st.sampled_from(MONTHS),
    st.sampled_from([p for p, _ in POOLS] + ["openai"]),
    st.sampled_from(["H100", "L40S", ""]),
    st.sampled_from([*WORKLOADS, ""]),
    st.sampled_from(["on_demand", "spot", "committed", "unused", "other", "unmapped"]),
    st.one_of(st.just(np.nan), st.floats(0.0, 1e5)),
    amounts,
)
works = st.lists(
    st.tuples(st.sampled_from(MONTHS), st.sampled_from(WORKLOADS), st.floats(0, 1e6), st.floats(0, 1e6)),
    max_size=4,
    unique_by=lambda one: one[:2],
)


@settings(max_examples=60)
@given(st.lists(row, min_size=1, max_size=12), st.lists(row, min_size=1, max_size=12), works, st.randoms())
def test_any_plan_and_any_bill_are_bridged_to_the_cent_in_any_order(mine, theirs, work, random):
    table = pd.DataFrame(work, columns=["month", "workload", "planned", "actual"]).astype(
        {"month": "datetime64[ns]", "planned": float, "actual": float}
    )
    planned, actual = spend([r for r in mine if r[4] != "unmapped"] or [mine[0]]), spend(theirs)
    found = variance_bridge(planned, actual, table)
    scale = planned["amount"].abs().sum() + actual["amount"].abs().sum()
    assert found["amount"].sum() == pytest.approx(actual["amount"].sum() - planned["amount"].sum(), abs=max(CENT, 1e-9 * scale))
    shuffled = list(theirs)
    random.shuffle(shuffled)
    again = variance_bridge(planned.sample(frac=1, random_state=random.randint(0, 9)), spend(shuffled), table.iloc[::-1])
    pd.testing.assert_frame_equal(again, found, rtol=1e-9, atol=1e-6)
    assert variance_bridge(planned, planned, table.assign(actual=table["planned"])).empty


# --- the whole review on a bill ---


WORKLOAD_COLUMNS = ["workload", "work_class", "team", "owner", "feature", "unit", "value_usd_per_unit"]


def bill(rows: list[dict]) -> pd.DataFrame:
    blank = empty_table("billing")
    base = {
        "month": MONTHS[0],
        "provider": "aws",
        "service": "EC2",
        "account": "a",
        "region": "us-1",
        "sku": "test.8x",
        "charge_category": "Usage",
        "pricing_category": "Standard",
        "commitment_status": "none",
        "commitment": "none",
        "machine": "none",
        "bucket": "none",
        "currency": "USD",
        "billed_cost": 0.0,
        "effective_cost": 0.0,
    }
    frame = pd.DataFrame([{**base, **row} for row in rows])
    return frame.reindex(columns=blank.columns).astype({"list_cost": float, "quantity": float})


def came(rows: list[dict], hours: dict[str, float] | None = None, **tables: pd.DataFrame) -> Came:
    skus = pd.DataFrame([("test.8x", "aws", "H100", 8)], columns=["sku", "provider", "accelerator", "accelerator_count"]).reindex(
        columns=empty_table("skus").columns
    )
    offers = pd.DataFrame(
        [("od", "test.8x", "us-1", "on_demand", 32.0)], columns=["offer_id", "sku", "region", "term", "usd_per_hour"]
    ).reindex(columns=empty_table("offers").columns)
    times = pd.date_range("2027-01-01", "2027-02-28 23:00", freq="h")
    usage = pd.concat(
        [
            pd.DataFrame({"time": times, "workload": name, "region": "any", "quantity": each})
            for name, each in (hours or {"chat": 10.0}).items()
        ],
        ignore_index=True,
    )
    workloads = pd.DataFrame([("chat", None, "assistant", "Ann", "Help", "requests", 1.0)], columns=WORKLOAD_COLUMNS)
    own = {
        "usage": usage,
        "workloads": workloads,
        "skus": skus,
        "offers": offers,
        **{
            name: empty_table(name)
            for name in (
                "commitments",
                "sites",
                "other_costs",
                "services",
                "api_contracts",
                "capacity_requests",
                "jobs",
                "training_runs",
                "scaling_runs",
                "spend_agreements",
                "fx",
            )
        },
    }
    return Came(billing=bill(rows), **{**own, **tables})


def accepted(currency: str = "USD") -> AcceptedPlan:
    planned = spend([(month, "aws", "H100", "chat", "on_demand", 800.0, 4.0) for month in MONTHS])
    hours = {month: 24 * month.days_in_month for month in MONTHS}
    work = pd.DataFrame(
        [("chat", "chat", "any", month, 10.0 * hours[month], 9.0 * hours[month], 11.5 * hours[month]) for month in MONTHS],
        columns=["workload", "class", "region", "month", "expected", "low", "high"],
    )
    return AcceptedPlan("b", "Buy nothing.", pd.Timestamp("2026-12-01"), currency, planned, work, Path("plan"))


A = Scenario().section(ReviewAssumptions)
HOURS = {"quantity": 100.0, "quantity_unit": "Hours", "effective_cost": 3200.0, "billed_cost": 3200.0}


def test_the_review_says_in_one_sentence_what_moved_spend():
    answer = review_plan(accepted(), came([{**HOURS}, {**HOURS, "month": MONTHS[1], "effective_cost": 3520.0}]), A)
    assert answer.bridge[["driver", "amount"]].values.tolist() == [["planned", 6400.0], ["price", pytest.approx(320.0)], ["billed", 6720.0]]
    assert answer.headline == (
        "2027-01 to 2027-02: $6.7k billed, +$320 (+5.0%) against the plan: prices +$320."
        " Of 2 forecasts of a month's work 2 held within the 90 % band."
    )
    assert answer.variance["team"].tolist() == ["assistant"]


def test_hours_follow_from_the_cost_at_list_where_a_bill_counts_none():
    rows = [{"effective_cost": 3200.0, "list_cost": 3200.0, "month": month} for month in MONTHS]
    answer = review_plan(accepted(), came(rows), A)
    assert len(answer.bridge) == 2
    assert any("follow from the cost at list prices" in note for note in answer.notes)


def test_a_bill_in_another_currency_and_a_rate_that_moved():
    fx = pd.DataFrame({"currency": "EUR", "date": pd.to_datetime(["2026-11-01", "2027-02-01"]), "usd": [1.0, 1.25]})
    rows = [{**HOURS, "currency": "EUR", "month": month} for month in MONTHS]
    answer = review_plan(accepted(), came(rows, fx=fx), A)
    assert answer.bridge[["driver", "amount"]].values.tolist() == [
        ["planned", 6400.0],
        ["currency", pytest.approx(800.0)],
        ["billed", 7200.0],
    ]


def test_what_cannot_be_reviewed_is_said():
    with pytest.raises(CapplanError, match="nothing to review: the plan holds 2027-01 to 2027-02, the bill 2026-05 to 2026-05"):
        review_plan(accepted(), came([{**HOURS, "month": pd.Timestamp("2026-05-01")}]), A)
    open_month = came([{**HOURS}, {**HOURS, "month": MONTHS[1], "effective_cost": 1.0}])
    short = open_month.usage[open_month.usage["time"] < "2027-02-11"]
    answer = review_plan(accepted(), Came(**{**vars(open_month), "usage": short}), A)
    assert answer.months == (MONTHS[0],)
    assert any("2027-02 has not ended in the measured usage" in note for note in answer.notes)


def test_a_bill_that_ends_in_the_middle_of_a_month_is_held_against_the_months_before():
    whole, half = ({**HOURS, "charged_until": pd.Timestamp(day)} for day in ("2027-01-31", "2027-02-14"))
    answer = review_plan(accepted(), came([whole, {**half, "month": MONTHS[1], "effective_cost": 1500.0}]), A)
    assert answer.months == (MONTHS[0],)
    assert any("2027-02 has not ended in the bill (its last charge starts on 2027-02-14)" in note for note in answer.notes)
    with pytest.raises(CapplanError, match=r"nothing to review.*2027-02 has not ended in the bill"):
        review_plan(accepted(), came([{**half, "month": MONTHS[1]}]), A)
    for monthly in ("2027-02-01", "2027-02-28"):
        last = {**HOURS, "month": MONTHS[1], "charged_until": pd.Timestamp(monthly)}
        assert review_plan(accepted(), came([whole, last]), A).months == tuple(MONTHS)


def test_credits_and_unknown_accelerators_keep_their_names():
    rows = [
        {**HOURS},
        {"charge_category": "Credit", "sku": "none", "effective_cost": -100.0},
        {"sku": "none", "bucket": "unknown_accelerator", "effective_cost": 40.0},
    ]
    answer = review_plan(accepted(), came(rows), A)
    sums = dict(answer.bridge[["driver", "amount"]].values.tolist())
    assert sums["unmapped"] == pytest.approx(40.0)
    assert sums["other"] == pytest.approx(-100.0)


def test_the_forecast_is_held_against_its_own_band():
    usage = came([], {"chat": 12.0}).usage
    until = usage["time"].max() + pd.Timedelta(hours=1)
    compared = held_against(accepted().work, measured_work(usage, until), until)
    table = forecast_accuracy(compared, A)
    assert table["inside"].tolist() == [False, False]
    assert table["error_share"].tolist() == [pytest.approx(0.2)] * 2
    assert table["within_allowed"].tolist() == [False, False]
    assert accuracy_by_workload(table).loc[0, "bias_share"] == pytest.approx(0.2)


def test_work_that_never_came_and_work_nobody_planned():
    usage = came([], {"search": 1.0}).usage
    until = usage["time"].max() + pd.Timedelta(hours=1)
    compared = held_against(accepted().work, measured_work(usage, until), until).set_index(["workload", "month"])
    assert compared.loc[("chat", MONTHS[0]), "actual"] == 0
    assert compared.loc[("search", MONTHS[0]), "planned"] == 0


def test_a_folder_that_is_no_plan_and_a_plan_of_another_book_are_refused(tmp_path):
    with pytest.raises(CapplanError, match=r"is no report and no accepted plan: its run.json cannot be read"):
        read_accepted(tmp_path)
    (tmp_path / "run.json").write_text('{"book": "other", "headline": "x", "parameters": {"as_of": "2026-12-01", "currency": "USD"}}')
    with pytest.raises(CapplanError, match=r"has no planned_spend.csv, which a review needs"):
        read_accepted(tmp_path)
    work = accepted().work.assign(month=accepted().work["month"].dt.strftime("%Y-%m-%d"))
    accepted().spend.to_csv(tmp_path / "planned_spend.csv", index=False)
    work.to_csv(tmp_path / "planned_work.csv", index=False)
    assert read_accepted(tmp_path).spend["amount"].sum() == pytest.approx(6400.0)
    with pytest.raises(CapplanError, match=r"there is no accepted plan of mine \(.* is a plan of other\)"):
        find_accepted("mine", [tmp_path, tmp_path / "nowhere"])


def test_two_plans_are_bridged_in_the_months_they_share_and_the_rest_is_the_horizon():
    first = accepted()
    later = spend([(month, "aws", "H100", "chat", "on_demand", 1600.0, 3.0) for month in (MONTHS[1], pd.Timestamp("2027-03-01"))])
    work = first.work.assign(month=first.work["month"] + pd.DateOffset(months=1), expected=first.work["expected"].iloc[1] * 2)
    second = AcceptedPlan("b", "Buy more.", pd.Timestamp("2027-01-01"), "USD", later, work, Path("later"))
    table = plans_apart(first, second)
    assert table[["driver", "amount"]].values.tolist() == [
        ["before", 6400.0],
        ["passed", -3200.0],
        ["volume", pytest.approx(3200.0)],
        ["price", pytest.approx(-1600.0)],
        ["added", 4800.0],
        ["after", 9600.0],
    ]
    assert plans_apart(first, first)["driver"].tolist() == ["before", "after"]
    with pytest.raises(CapplanError, match="make both plans in one currency"):
        plans_apart(first, accepted("EUR"))


def test_the_parts_of_workloads_and_teams_sum_to_the_bill_and_the_rates_pay_for_it():
    rows = [{**HOURS, "month": month} for month in MONTHS] + [{"charge_category": "Tax", "sku": "none", "effective_cost": 640.0}]
    answer = review_plan(accepted(), came(rows), A)
    billed = float(answer.bridge["amount"].iloc[-1])
    assert answer.charged["amount"].sum() == pytest.approx(billed)
    assert answer.charged[["team", "own_amount", "shared_amount"]].values.tolist() == [
        ["assistant", pytest.approx(6400.0), pytest.approx(640.0)]
    ]
    work = float(answer.accuracy["actual"].sum())
    unit = answer.economics.iloc[0]
    assert (unit["workload"], unit["owner"], unit["team"]) == ("chat", "Ann", "assistant")
    assert unit["amount_per_thousand"] == pytest.approx(1000 * 6400 / work)
    assert unit["margin_per_thousand"] == pytest.approx(1000 * 1.0 - 1000 * 6400 / work)
    assert unit["verdict"] == "earns its compute"
    assert answer.rates["amount_per_thousand"].iloc[0] * work / 1000 == pytest.approx(billed)


def test_a_feature_costs_what_its_workloads_cost_and_names_the_dearest():
    rows = [("chat", "Help", "requests", 1000.0, 30.0, 40.0), ("voice", "Help", "requests", 500.0, 60.0, 50.0)]
    rows += [
        ("nightly", "Help", "tokens", 10.0, 1.0, 1.0),
        ("idle", "Help", "requests", 0.0, 5.0, float("nan")),
        ("lab", None, "h", 1.0, 9.0, 9.0),
    ]
    economics = pd.DataFrame(rows, columns=["workload", "feature", "unit", "work", "amount", "planned_per_thousand"])
    economics["amount_per_thousand"] = 1000 * economics["amount"] / economics["work"].where(economics["work"] > 0)
    table = feature_economics(economics).set_index("unit")
    assert table.loc["requests", ["workloads", "work", "amount", "dearest"]].tolist() == [2, 1500.0, 90.0, "voice"]
    assert table.loc["requests", "amount_per_thousand"] == pytest.approx(60.0)
    assert table.loc["requests", "planned_per_thousand"] == pytest.approx((40.0 * 1000 + 50.0 * 500) / 1500)
    assert table.loc["requests", "dearest_per_thousand"] == pytest.approx(120.0)
    assert sorted(table.index) == ["requests", "tokens"]


def test_a_training_run_costs_what_all_its_jobs_took_at_what_an_hour_was_billed():
    jobs = empty_table("jobs").reindex(range(5))
    begun = pd.to_datetime(["2027-01-02", "2027-01-05", "2027-02-01", "2026-12-31", "2027-01-01"])
    jobs = jobs.assign(
        job_id=list("abcde"),
        run_id=["base", "base", "sweep", "old", "old"],
        submit=begun,
        duration_seconds=[36_000.0, 7200.0, 3600.0, 90_000.0, 3600.0],
        accelerators=[8.0, 8.0, 16.0, 8.0, 8.0],
        expected_seconds=[36_000.0, 3600.0, np.nan, np.nan, np.nan],
        state=["COMPLETED", "FAILED", "COMPLETED", "COMPLETED", "COMPLETED"],
        accelerator=["H100", None, "B200", "H100", "H100"],
    )
    runs = empty_table("training_runs").reindex(range(1)).assign(run_id="base", workload="chat", parameters=7e9, tokens=1e12)
    workloads = pd.DataFrame([("chat", None, "assistant", "Ann", None, "exaflop", 1.0)], columns=WORKLOAD_COLUMNS)
    rows = [{**HOURS, "month": month, "effective_cost": 4000.0} for month in MONTHS]
    answer = review_plan(accepted(), came(rows, jobs=jobs, training_runs=runs, workloads=workloads), A)
    # 100 machine-hours of eight for 4000 a month: 5 an accelerator-hour; of B200, which no bill names, that of all
    base, sweep = answer.runs.to_dict("records")
    assert (base["run_id"], base["owner"], base["team"], base["jobs"]) == ("base", "Ann", "assistant", 2)
    assert base["accelerator_hours"] == pytest.approx(8 * 12)
    assert base["amount"] == pytest.approx(8 * 12 * 5)
    assert base["overrun_share"] == pytest.approx(12 / 11 - 1)
    assert base["work"] == pytest.approx(42_000)
    assert base["amount_per_unit"] == pytest.approx(480 / 42_000)
    assert (sweep["run_id"], sweep["amount"]) == ("sweep", pytest.approx(80))
    assert pd.isna(sweep["work"])
    assert pd.isna(sweep["overrun_share"])
    assert any("have no cost yet: old" in note for note in answer.notes)
    hours = answer.hour_rates
    assert hours[["accelerator", "accelerator_hours", "amount_per_accelerator_hour"]].values.tolist() == [["H100", 1600.0, 5.0]]
    assert (hours["accelerator_hours"] * hours["amount_per_accelerator_hour"]).sum() == pytest.approx(8000)


def test_a_workload_that_costs_more_than_it_is_worth_or_than_planned_is_named():
    dear = came([{**HOURS, "month": month, "effective_cost": 9600.0} for month in MONTHS])
    value = dear.workloads.assign(value_usd_per_unit=[2.0])
    assert "costs more than it is worth" in _first_verdict(dear)
    assert "a unit is dearer than planned" in _first_verdict(
        Came(**{**vars(dear), "workloads": dear.workloads.assign(value_usd_per_unit=100.0)})
    )
    assert "state value_usd_per_unit" in _first_verdict(Came(**{**vars(dear), "workloads": value.assign(value_usd_per_unit=np.nan)}))


def _first_verdict(given: Came) -> str:
    return review_plan(accepted(), given, A).economics["verdict"].iloc[0]


def test_the_register_names_who_is_depended_on_what_ends_together_and_what_is_withdrawn():
    spend_ahead = spend(
        [(MONTHS[1], "aws", "H100", "chat", "on_demand", 100.0, 6.0), (MONTHS[1], "openai", "", "drafts", "other", np.nan, 400.0)]
    )
    held = pd.DataFrame(
        {
            "commitment_id": ["a", "b", "c"],
            "sku": ["x", "x", "y"],
            "machines": [1, 2, 1],
            "usd_per_hour": [10.0, 10.0, 10.0],
            "end": pd.to_datetime(["2027-05-31", "2027-06-30", "2028-01-31"]),
        }
    )
    services = pd.DataFrame({"workload": ["drafts"], "model": ["m"], "provider": ["openai"], "input_tokens": 900.0, "output_tokens": 100.0})
    terms = pd.DataFrame({"workload": ["drafts"], "model": ["m"], "provider": ["openai"], "withdrawn_on": pd.to_datetime(["2027-02-01"])})
    terms["requests_per_minute"] = 10.0
    times = pd.to_datetime(["2027-01-01 00:00", "2027-01-01 00:00", "2027-01-01 01:00", "2027-01-01 02:00"])
    usage = pd.DataFrame({"time": times, "workload": "drafts", "region": ["us", "eu", "us", "us"], "quantity": [500.0, 250, 50, 0]})
    held["provider"] = ["aws", "aws", "nebius"]
    tables = {"commitments": held, "services": services, "api_contracts": terms, "usage": usage}
    table = vendor_register(spend_ahead, tables, MONTHS[0], "USD", A)
    found = {(row["provider"], row["risk"]): row for row in table.to_dict("records")}
    assert found["aws", "single source"]["share"] == pytest.approx(0.6)
    assert found["aws", "price change"]["amount"] == pytest.approx(0.2 * 600.0)
    assert found["openai", "model withdrawn"]["amount"] == pytest.approx(400.0)
    # 750 in the busiest hour, 600 granted: 150 of 800 requests go elsewhere, and as much of 400 planned
    assert found["openai", "rate limit"]["share"] == pytest.approx(1.25)
    assert found["openai", "rate limit"]["amount"] == pytest.approx(400.0 * 150 / 800)
    # the same in tokens: ten requests of a thousand tokens a minute; where both are stated, the tighter holds
    for limits in (
        {"requests_per_minute": np.nan, "tokens_per_minute": 10_000.0},
        {"tokens_per_minute": 10_000.0, "requests_per_minute": 99.0},
    ):
        again = vendor_register(spend_ahead, {**tables, "api_contracts": terms.assign(**limits)}, MONTHS[0], "USD", A)
        pd.testing.assert_frame_equal(again, table)
    assert found["aws", "contracts end together"]["share"] == pytest.approx(0.75)
    assert found["aws", "contracts end together"]["remark"] == "2027Q2: a, b"


PROFILE = {"compute_utilisation_share": 0.8, "data_wait_share": 0.05, "transfer_share": 0.05, "memory_use_share": 0.5}


def request(**values: object) -> pd.DataFrame:
    blank = empty_table("capacity_requests")
    base = {
        "request_id": "r",
        "workload": "chat",
        "region": "any",
        "accelerators": 16.0,
        "accelerator": "H100",
        "start": pd.Timestamp("2027-03-01"),
        "end": pd.Timestamp("2027-03-10"),
        "probability": 0.5,
        "requested_on": pd.NaT,
        "productive_on": pd.NaT,
    }
    return pd.DataFrame([{**base, **values}]).reindex(columns=blank.columns)


@pytest.mark.parametrize(
    ("profile", "name", "share"),
    [
        ({}, "accelerator", 0.0),
        ({"data_wait_share": 0.4}, "data path", 0.4),
        ({"transfer_share": 0.3}, "communication", 0.3),
        ({"compute_utilisation_share": 0.35}, "batching", 0.5),
        ({"compute_utilisation_share": 0.35, "memory_use_share": 0.95}, "memory", 0.5),
    ],
)
def test_what_holds_a_request_back_is_named_with_what_removing_it_saves(profile, name, share):
    row = judge_requests(request(**{**PROFILE, **profile}), {"H100": 4.0}, A).iloc[0]
    assert (row["answer"], row["bottleneck"]) == ("taken into demand", name)
    assert row["usd"] == pytest.approx(16 * 240 * 4.0 * 0.5)
    assert row["saving_usd"] == pytest.approx(share * row["usd"])
    assert row["saving_accelerators"] == pytest.approx(16 * share)


def test_a_request_without_a_profile_is_returned_with_what_to_measure():
    row = judge_requests(request(**{**PROFILE, "data_wait_share": None}), {"H100": 4.0}, A).iloc[0]
    assert row["answer"] == "returned"
    assert row["remark"] == "measure the share of its time spent waiting for data"
    days = {"requested_on": pd.Timestamp("2027-01-04"), "productive_on": pd.Timestamp("2027-03-05")}
    assert judge_requests(request(**PROFILE, **days), {"H100": 4.0}, A)["waited_days"].iloc[0] == 60


def test_requests_with_a_profile_become_runs_of_the_forecast_at_their_probability():
    workloads = pd.DataFrame({"workload": ["chat", "tuning"], "unit": ["requests", "accelerator_hours"]})
    speeds = pd.DataFrame({"workload": ["chat"], "accelerator": ["H100"], "work_per_accelerator_hour": [100.0]})
    asked = pd.concat(
        [request(**PROFILE), request(**PROFILE, request_id="t", workload="tuning"), request(request_id="x")], ignore_index=True
    )
    runs = requested_runs(asked, workloads, speeds)
    assert runs["run_id"].tolist() == ["request r", "request t"]
    assert runs["quantity"].tolist() == [16 * 240 * 100.0, 16 * 240.0]
    assert runs["probability"].tolist() == [0.5, 0.5]


def test_a_request_with_a_profile_moves_the_forecast_and_one_without_does_not(make_book):
    usage = hourly(days=120, workload="tuning", value=40.0)
    workloads = "workload,stage,unit\ntuning,tuning,accelerator_hours\n"
    head = (
        "request_id,workload,accelerators,start,end,probability,compute_utilisation_share,data_wait_share,transfer_share,memory_use_share\n"
    )
    dates = "2026-07-01,2026-08-29"
    entries = "as_of: 2026-05-01\nfirst_quarter: 2026Q3\nhorizon_quarters: 2\n"
    without = demand_of(
        *_opened(make_book("a", usage=usage, workloads=workloads, book=entries, capacity_requests=head + f"r,tuning,10,{dates},1,,,,\n"))
    )
    asked = demand_of(
        *_opened(
            make_book("b", usage=usage, workloads=workloads, book=entries, capacity_requests=head + f"r,tuning,10,{dates},1,.8,.1,.1,.5\n")
        )
    )
    means = [float((forecast.paths["quantity"] * forecast.paths["probability"]).sum()) for forecast in (without, asked)]
    assert means[1] - means[0] == pytest.approx(10 * 24 * 60, rel=1e-6)


def _opened(folder: Path) -> tuple:
    book = load_book(folder)
    return book, book.scenario


def test_a_plan_of_another_book_and_a_team_a_driver_or_a_quarter_that_is_none_are_refused(tmp_path):
    book = example_book()
    for name, wrong, rule in (
        ("team", "reserch", "'reserch' is none.*research"),
        ("driver", "prise", "'prise' is none.*price"),
        ("quarter", "2026Q3", "'2026Q3' is none.*2026Q4"),
    ):
        with pytest.raises(ScenarioError, match=rule):
            show_review(book, book.scenario_with(**{f"reviewed_{name}": wrong}))
    theirs = tmp_path / "other"
    shutil.copytree(ROOT / "data" / "enterprise" / "accepted_plan", theirs)
    record = json.loads((theirs / "run.json").read_text())
    (theirs / "run.json").write_text(json.dumps({**record, "book": "another"}))
    with pytest.raises(CapplanError, match="is a plan of another, and the book is Quillmere"):
        show_review(book, book.scenario_with(reviewed_plan=str(theirs)))


def test_spend_agreements_are_a_driver_of_their_own_between_plans_and_other_costs_where_a_bill_does_not_tell_them():
    before = spend([(MONTHS[0], "aws", "H100", "chat", "on_demand", 10.0, 4.0)])
    credit = before.assign(kind="agreement", accelerator="", workload="", hours=np.nan, amount=-3.0, amount_at_plan_rates=-3.0)
    less = credit.assign(amount=-1.0, amount_at_plan_rates=-1.0)
    mine, theirs = pd.concat([before, credit], ignore_index=True), pd.concat([before, less], ignore_index=True)
    assert by_driver(mine, theirs) == {"agreement": pytest.approx(2.0)}
    untold = theirs.assign(kind=theirs["kind"].replace("agreement", "other"))
    assert by_driver(mine, untold) == {"other": pytest.approx(2.0)}


def test_a_bill_that_names_a_spend_agreement_tells_it_from_other_credits():
    plan = accepted()
    credit = spend([(month, "aws", "", "", "agreement", np.nan, -80.0) for month in MONTHS])
    plan = replace(plan, spend=pd.concat([plan.spend, credit], ignore_index=True))
    agreements = empty_table("spend_agreements").reindex(range(1)).assign(agreement_id="edp", provider="aws")
    rows = [{**HOURS, "month": month} for month in MONTHS]
    taken = {"charge_category": "Credit", "bucket": "credit", "sku": "none", "effective_cost": -100.0}
    named = [{**taken, "month": month, "commitment": "edp"} for month in MONTHS]
    other = {**taken, "effective_cost": -7.0, "commitment": "none"}
    for credits, steps in (
        (named, {"agreement": -40.0}),
        ([*named, other], {"agreement": -40.0, "other": -7.0}),
        ([{**row, "commitment": "none"} for row in named], {"other": -40.0}),
    ):
        found = review_plan(plan, came([*rows, *credits], spend_agreements=agreements), A).bridge
        assert dict(found[["driver", "amount"]].values.tolist()[1:-1]) == {name: pytest.approx(amount) for name, amount in steps.items()}


def test_page_one_says_what_moved_spend_since_the_last_plan():
    from capplan.outputs.views.bridges import driver_bridge

    before, after = accepted(), accepted()
    after = replace(after, spend=after.spend.assign(amount=after.spend["amount"] * 1.1, amount_at_plan_rates=after.spend["amount"] * 1.1))
    moved = plans_apart(before, after)
    bridge = driver_bridge(moved)
    assert bridge["kind"].tolist() == ["start", "step", "total"]
    assert bridge["step"].tolist() == ["earlier plan", "prices", "later plan"]
    assert bridge["amount"].iloc[:-1].sum() == pytest.approx(bridge["amount"].iloc[-1], abs=0.005)
    assert told(moved, "USD") == "Planned spend moves by +$640, from $6.4k to $7.0k: prices +$640."
    assert driver_bridge(None).empty


def test_texts_of_a_bill_are_texts_in_page_workbook_and_tables(tmp_path):
    texts = [
        '=HYPERLINK("http://x","y")',
        "<script>alert(1)</script>",
        "@SUM(A1)",
        "+1+1",
        "a\x01\x1b[31mb",
        "x" * 40_000,
        '{"a": [1, {"b": null}]}',
        "-2+3|cmd",
        "\u202eevil",
    ]
    day = {
        "BillingPeriodStart": "2026-10-01T00:00:00Z",
        "ChargePeriodStart": "2026-10-31T00:00:00Z",
        "ChargePeriodEnd": "2026-10-31T01:00:00Z",
    }
    columns = ("ProviderName", "ServiceName", "SubAccountName", "RegionId", "SkuId", "CommitmentDiscountId", "Tags", "ChargeDescription")
    rows = [{**day, "ChargeCategory": "Usage", "BilledCost": 10, "EffectiveCost": 10, **dict.fromkeys(columns, text)} for text in texts]
    path = tmp_path / "bill.csv"
    pd.DataFrame(rows).assign(BillingCurrency="USD").to_csv(path, index=False)
    done = write_review(ROOT / "data" / "enterprise", {"worth_of_knowing": False, "ask_levers": False}, [str(path)], tmp_path / "out")
    page = (done.path / "review.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert not UNSEEN.search(page)
    assert done.view.table["amount"].iloc[:-1].sum() == pytest.approx(done.view.table["amount"].iloc[-1], abs=CENT)
    for table in done.path.glob("*.csv"):
        for line in csv.reader(table.open(newline="")):
            assert not any(cell[:1] in ("=", "@", "+") or (cell[:1] == "-" and not _number(cell)) for cell in line), table.name
    with zipfile.ZipFile(done.path / "review.xlsx") as parts:
        sheets = {name: parts.read(name).decode() for name in parts.namelist() if name.startswith("xl/worksheets/")}
    assert len(sheets) > 5
    assert not any("<f>" in sheet or "hyperlink" in sheet for sheet in sheets.values())


def _number(text: str) -> bool:
    return bool(re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", text))
