"""Goodput: published rates, spot records replayed, prices of progress, break-evens, and what has no answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.goodput import GoodputAssumptions
from capplan.book.book import reference_tables
from capplan.book.scenario import PricingAssumptions
from capplan.errors import CapplanError
from capplan.questions.goodput import (
    failure_rates,
    lost_time,
    measure_goodput,
    rate_of,
    replay_spot,
    search_interval,
    spot_break_even,
    up_spells,
)
from capplan.questions.pricing import price_hours
from capplan.questions.reliability import optimum_interval, time_shares
from tests.conftest import example_book, reference_file

A = GoodputAssumptions(idle_share=0.0, compute_share=1.0)
SKUS = pd.DataFrame({"sku": ["test.8x"], "provider": ["aws"], "accelerator": ["H100"], "accelerator_count": [8], "source_id": ["s"]})
FLEET = pd.DataFrame({"fleet": ["here"], "cause": ["all"], "failures_per_node_day": [0.004], "accelerator": ["H100"], "source_id": ["s"]})


def prices(spot=16.0, on_demand=40.0, interruptions=0.0004, **changes):
    offers = pd.DataFrame(
        {
            "offer_id": ["od", "spot"],
            "sku": "test.8x",
            "region": "r",
            "geography": "us",
            "term": ["on_demand", "spot"],
            "usd_per_hour": [on_demand, spot],
            "discounts": "none",
            "guarantees_capacity": False,
            "interruptions_per_hour": [None, interruptions],
            "as_of": pd.Timestamp("2026-11-01"),
            "source_id": "s",
        }
    )
    return price_hours(SKUS, offers, PricingAssumptions(**changes))


def by_offer(frame):
    return frame.set_index("offer_id")


def test_reference_rates_are_the_published_ones():
    rates = failure_rates(reference_tables()["failures"]).set_index("fleet")
    assert rates.loc["Llama-3-405B", "failures"] == 419
    assert rates.loc["Llama-3-405B", "failures_per_node_day"] == pytest.approx(3.79e-3, rel=1e-3)
    assert rates.loc["RSC-1", "failures_per_node_day"] == 6.5e-3
    assert rates.loc["RSC-2", "failures_per_node_day"] == 2.34e-3
    # 35 manual and 70 automatic restarts of OPT-175B in 61 days on 124 to 128 nodes: 13.4 to 13.9 in 1,000 node-days.
    assert rates.loc["OPT-175B", "failures_per_node_day"] == pytest.approx(105 / (124 * 61), rel=1e-9)
    # Exact band of a count of 419: 379.8 to 461.1.
    assert rates.loc["Llama-3-405B", ["lower", "upper"]].tolist() == pytest.approx([379.83 / 110592, 461.13 / 110592], rel=1e-3)
    assert np.isnan(rates.loc["RSC-1", "lower"])


def test_reference_causes_are_those_of_the_llama3_report():
    truth = pd.read_csv(reference_file("truth", "02_reliability.csv")).set_index("id")
    causes = truth[truth.index.str.startswith("llama3_cause_")]["value"].astype(float)
    rows = reference_tables()["failures"].query("fleet == 'Llama-3-405B'")
    assert sorted(rows["failures"]) == sorted(causes)
    assert rows["failures"].sum() == float(truth.loc["llama3_int_unexpected", "value"])
    assert rows.loc[rows["part"] == "accelerator", "failures"].sum() == 148 + 72 + 19 + 17 + 6 + 6


def test_mean_time_to_failure_through_the_question():
    failures = reference_tables()["failures"]
    for count, hours in ((16384, 1.8), (131072, 0.23)):
        a = A.model_copy(update={"run_accelerators": count, "failure_fleet": "RSC-1"})
        row = by_offer(measure_goodput(failures, a, prices())).loc["od"]
        assert row["mean_hours_between_interruptions"] == pytest.approx(hours, rel=0.03)
        assert row["fleets"] == "RSC-1"
    llama = by_offer(measure_goodput(failures, A.model_copy(update={"run_accelerators": 16384}))).loc["Llama-3-405B"]
    assert llama["interruptions_per_hour"] * 54 * 24 == pytest.approx(419, rel=1e-9)
    assert llama["goodput_share"] > 0.9
    assert np.isnan(llama["usd_per_productive_accelerator_hour"])


def test_idle_cost_of_the_opt_cluster():
    """The logbook's 2,500 USD an hour over 1,024 A100 is 2.44 USD each: the price at which an idle hour of the cluster costs it."""
    a = A.model_copy(update={"run_accelerators": 1024})
    row = by_offer(measure_goodput(FLEET, a, prices(on_demand=8 * 2500 / 1024))).loc["od"]
    assert row["idle_usd_per_hour"] == pytest.approx(2500)
    assert row["usd_per_paid_accelerator_hour"] == pytest.approx(2.44, abs=0.005)


def test_shares_add_up_and_the_price_follows():
    a = GoodputAssumptions(run_accelerators=4096, compute_share=0.8, idle_share=0.1)
    table = measure_goodput(FLEET, a, prices())
    parts = lost_time(table)
    assert parts.groupby("offer_id")["share"].sum().tolist() == pytest.approx([1, 1], abs=1e-12)
    for row in table.itertuples():
        assert row.goodput_share == pytest.approx(0.9 * 0.8 * row.running_share)
        assert row.usd_per_productive_accelerator_hour == pytest.approx(row.usd_per_paid_accelerator_hour / row.goodput_share)
    rate = 512 * 0.004 / 24
    exact = time_shares(optimum_interval(30 / 3600, 1 / rate), 30 / 3600, 5 / 60, rate)["progress"]
    assert by_offer(table).loc["od", "running_share"] == pytest.approx(exact, rel=1e-12)


def test_spot_is_priced_by_the_same_formula_as_in_pricing():
    """With the hours that each interruption really costs, the price of a useful hour is the one of goodput, checkpoints aside."""
    a = A.model_copy(update={"run_accelerators": 8, "failure_factor": 0.0, "checkpoint_interval_minutes": 60.0})
    row = by_offer(measure_goodput(FLEET, a, prices(interruptions=0.05))).loc["spot"]
    lost = time_shares(1.0, 30 / 3600, 0.25, 0.05)["lost_hours"]
    priced = by_offer(prices(interruptions=0.05, restart_hours=lost)).loc["spot"]
    assert priced["useful_share"] == pytest.approx(row["running_share"] + row["checkpoint_share"], rel=1e-12)
    assert priced["effective_usd_per_accelerator_hour"] == pytest.approx(2.0 / (row["goodput_share"] + row["checkpoint_share"]), rel=1e-12)
    # Work lost is not counted twice: the paid price is the offer's, whatever pricing thinks is lost.
    for hours in (0.0, 0.5, 3.0):
        again = by_offer(measure_goodput(FLEET, a, prices(interruptions=0.05, restart_hours=hours))).loc["spot"]
        assert again["usd_per_productive_accelerator_hour"] == pytest.approx(row["usd_per_productive_accelerator_hour"], rel=1e-12)


def test_the_break_evens_are_where_both_cost_the_same():
    a = A.model_copy(update={"run_accelerators": 512})
    table = spot_break_even(FLEET, a, prices())
    row = table.iloc[0]
    assert row["pays"]
    assert row["discount_share"] == pytest.approx(0.6)
    at_rate = by_offer(measure_goodput(FLEET, a, prices(interruptions=row["break_even_interruptions_per_machine_hour"])))
    cost = at_rate["usd_per_productive_accelerator_hour"]
    assert cost["spot"] == pytest.approx(cost["od"], rel=1e-8)
    fair = a.model_copy(update={"spot_discount_share": row["break_even_discount_share"]})
    cost = by_offer(measure_goodput(FLEET, fair, prices()))["usd_per_productive_accelerator_hour"]
    assert cost["spot"] == pytest.approx(cost["od"], rel=1e-12)
    # Larger runs bear fewer interruptions a machine.
    larger = spot_break_even(FLEET, a.model_copy(update={"run_accelerators": 4096}), prices()).iloc[0]
    assert larger["break_even_interruptions_per_machine_hour"] < row["break_even_interruptions_per_machine_hour"]
    dear = spot_break_even(FLEET, a, prices(spot=41.0)).iloc[0]
    assert not dear["pays"]
    assert dear["break_even_interruptions_per_machine_hour"] == 0


def test_the_optimum_interval_is_the_default_and_the_cheapest():
    best = measure_goodput(FLEET, A, prices())
    for minutes in (5.0, 30.0, 600.0):
        other = measure_goodput(FLEET, A.model_copy(update={"checkpoint_interval_minutes": minutes}), prices())
        assert (other["goodput_share"] < best["goodput_share"]).all()
        assert (other["interval_minutes"] == minutes).all()
    quiet = measure_goodput(FLEET, A.model_copy(update={"failure_factor": 0.0}), prices(interruptions=0.0))
    assert quiet["goodput_share"].tolist() == [1.0, 1.0]


def test_the_fleet_whose_rate_is_taken():
    rates = failure_rates(reference_tables()["failures"])
    assert rate_of("H100", rates, A).fleets == ("Llama-3-405B",)
    a100 = rate_of("A100-80GB", rates, A)
    assert a100.same_accelerator
    assert a100.fleets == ("OPT-175B", "RSC-1", "RSC-2")
    assert a100.lowest < a100.per_accelerator_hour < a100.highest
    assert not rate_of("B200", rates, A).same_accelerator
    with pytest.raises(CapplanError, match="RSC-1"):
        rate_of("H100", rates, A.model_copy(update={"failure_fleet": "RSC1"}))


def spot_traces():
    table = pd.read_csv(reference_file("data", "spot", "skypilot_spot_traces_rle.csv"))
    hours = table["gap_seconds"] / 3600
    table["start_hours"], table["hours"] = table["run_start_index"] * hours, table["run_length"] * hours
    table["trace"] = table[["kind", "cloud_and_start", "zone", "instance"]].agg(" ".join, axis=1)
    return table.rename(columns={"value": "machines"})


def test_a_month_on_real_spot_records_under_three_intervals():
    """Nine records of 45 days: the closed form's interval costs within 5 % of the best that a search finds afterwards."""
    traces = spot_traces()
    month = traces[(traces["kind"] == "availability") & (traces["gap_seconds"] == 195)]
    assert month["trace"].nunique() == 9
    for write, restart in ((30 / 3600, 15 / 60), (2 / 60, 15 / 60)):
        for name, part in month.groupby("trace"):
            spells = up_spells(part, days=30)
            assert spells.record_hours == pytest.approx(720)
            optimum = optimum_interval(write, spells.mean_hours)
            played = replay_spot(spells, [optimum / 4, optimum, 4 * optimum], write, restart)
            costs = played["paid_hours_per_productive_hour"]
            assert costs[1] < costs[0], name
            assert costs[1] < costs[2], name
            _, excess = search_interval(spells, write, restart)
            assert 0 <= excess <= 0.05, (name, excess)


def test_replay_against_walking_through_the_record():
    rng = np.random.default_rng(2)
    for _ in range(20):
        ups = rng.integers(1, 60, 9) / 12
        lengths = np.ravel(np.column_stack([ups, rng.integers(1, 20, 9) / 12]))[: int(rng.integers(16, 19))]
        record = pd.DataFrame(
            {
                "start_hours": np.r_[0, np.cumsum(lengths)[:-1]],
                "hours": lengths,
                "machines": [1, 0] * 9 if len(lengths) == 18 else ([1, 0] * 9)[: len(lengths)],
            }
        )
        spells = up_spells(record)
        tau, delta, restart = 0.5, 0.25, 0.25
        done = 0.0
        for place, row in record[record["machines"] == 1].iterrows():
            left, saved = row["hours"] - restart, 0.0
            while left >= tau + delta - 1e-12:
                left, saved = left - tau - delta, saved + tau
            if place == record.index[-1]:
                saved += min(max(left, 0.0), tau)
            done += saved
        assert replay_spot(spells, [tau], delta, restart)["productive_hours"].iloc[0] == pytest.approx(done)


def test_a_record_without_memory_gives_the_closed_form():
    rng = np.random.default_rng(4)
    ups = rng.exponential(5.0, 4000)
    lengths = np.ravel(np.column_stack([ups, np.full(4000, 0.5)]))
    record = pd.DataFrame({"start_hours": np.r_[0, np.cumsum(lengths)[:-1]], "hours": lengths, "machines": [1, 0] * 4000})
    spells = up_spells(record)
    played = replay_spot(spells, [0.3], 0.02, 0.1).iloc[0]
    assert played["goodput_share"] == pytest.approx(time_shares(0.3, 0.02, 0.1, 1 / spells.mean_hours)["progress"], rel=0.01)


def test_an_offer_with_a_record_is_replayed():
    record = pd.DataFrame(
        {
            "trace": "t",
            "start_hours": [0.0, 10.0, 12.0, 30.0],
            "hours": [10.0, 2.0, 18.0, 1.0],
            "machines": [2, 1, 2, 0],
            "offer_id": "spot",
        }
    )
    a = A.model_copy(update={"run_accelerators": 16, "failure_factor": 0.0, "checkpoint_interval_minutes": 60.0})
    row = by_offer(measure_goodput(FLEET, a, prices(), record)).loc["spot"]
    assert row["basis"] == "record"
    # Two stretches of 10 and 18 h for both machines; each begins with a quarter of an hour, each hour of work has 30 s of writing.
    saved = 9 + 17
    assert row["running_share"] == pytest.approx(saved / 28)
    assert row[
        ["goodput_share", "input_wait_share", "checkpoint_share", "rework_share", "restart_share", "idle_share"]
    ].sum() == pytest.approx(1)
    assert (
        by_offer(measure_goodput(FLEET, a.model_copy(update={"run_accelerators": 64}), prices(), record)).loc["spot", "basis"]
        == "interruptions"
    )


def test_the_example_book_has_rates_and_a_record():
    book = example_book()
    assert set(book.failures["fleet"]) >= {"RSC-1", "RSC-2", "OPT-175B", "Llama-3-405B"}
    a = book.scenario.section(GoodputAssumptions).model_copy(update={"run_accelerators": 8})
    table = measure_goodput(
        book.failures, a, price_hours(book.skus, book.offers, book.scenario.section(PricingAssumptions)), book.spot_availability
    )
    assert (table["basis"] == "record").sum() == 1
    assert table["goodput_share"].between(0, 1).all()
    assert (table["usd_per_productive_accelerator_hour"] > table["usd_per_paid_accelerator_hour"]).all()


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"fleet": ["x"], "cause": ["all"]}, "neither failures nor failures_per_node_day"),
        ({"fleet": ["x"], "failures": [3.0], "failures_per_node_day": [0.1], "nodes": [2.0], "days": [4.0]}, "states both"),
        ({"fleet": ["x"], "failures": [3.0]}, "a count without them is no rate"),
        ({"fleet": ["x", "x"], "failures": [3.0, 1.0], "nodes": [2.0, 3.0], "days": [4.0, 4.0]}, "different nodes"),
        ({"fleet": ["x"], "failures_per_node_day": [-0.1]}, "at least 0"),
        ({"fleet": [], "failures_per_node_day": []}, "no failures rows"),
        ({"name": ["x"]}, "lack the column fleet"),
    ],
)
def test_rates_that_cannot_be_known(frame, words):
    with pytest.raises(CapplanError, match=words):
        measure_goodput(pd.DataFrame(frame), A, prices())


@pytest.mark.parametrize(
    ("frame", "machines", "words"),
    [
        ({"start_hours": [0.0, 5.0], "hours": [4.0, 1.0], "machines": [1, 0]}, 1, "gap at 4 h"),
        ({"start_hours": [0.0, 3.0], "hours": [4.0, 1.0], "machines": [1, 0]}, 1, "double stretch"),
        ({"start_hours": [0.0], "hours": [4.0], "machines": [1]}, 2, "at most 1"),
        ({"start_hours": [0.0], "hours": [0.0], "machines": [1]}, 1, "longer than 0"),
        ({"start_hours": [0.0], "hours": [1.0]}, 1, "lacks the column machines"),
        ({"start_hours": [], "hours": [], "machines": []}, 1, "empty"),
    ],
)
def test_records_that_cannot_be_replayed(frame, machines, words):
    with pytest.raises(CapplanError, match=words):
        up_spells(pd.DataFrame(frame), machines=machines)
