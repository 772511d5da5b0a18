"""The serving view on the example book: it adds up, its sliders move what they should, and its notes name what is missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.answers.serving import serving_of
from capplan.book.book import load_book
from capplan.book.scenario import Change, Scenario
from capplan.errors import CapplanError, MissingTableError, ScenarioError
from capplan.outputs.views.serving import FIELDS, show_serving
from capplan.questions.serving import choice, hosted
from tests.conftest import ROOT, example_book, some


@pytest.fixture(scope="module")
def book():
    return example_book()


@pytest.fixture(scope="module")
def answer(book):
    return serving_of(book, book.scenario)[0]


def test_hours_of_a_service_are_the_sum_of_its_regions(answer):
    item = answer.hosted["chat"]
    assert set(item.fleets) == {"us", "eu"}
    parts = sum(fleet.elastic_accelerator_hours for fleet in item.fleets.values())
    assert item.hours["accelerators"].sum() == pytest.approx(parts)
    assert (item.hours["accelerators_upper"] >= item.hours["accelerators"]).all()
    assert len(item.hours) == 28 * 24


def test_costs_add_up_and_every_served_workload_is_there(answer):
    assert set(answer.costs["workload"]) == {"chat", "drafts", "summaries", "research"}
    for name, item in answer.hosted.items():
        price = float(item.point["usd_per_accelerator_hour"])
        own = answer.costs[(answer.costs["workload"] == name) & answer.costs["component"].isin(["busy", "headroom", "spare"])]
        assert own["usd"].sum() == pytest.approx(price * item.hours["accelerators"].sum())
    assert answer.features["usd"].sum() == pytest.approx(answer.costs["usd"].sum())


def test_levers_start_at_the_fleets_own_bill(answer):
    item = answer.hosted[answer.workload]
    fleet = item.fleets[answer.region]
    assert answer.levers.base_usd == pytest.approx(fleet.elastic_accelerator_hours * float(item.point["usd_per_accelerator_hour"]))


def test_every_fleet_keeps_the_tightest_target_it_can(answer):
    for item in some(answer.hosted.values()):
        own = float(item.service["first_token_seconds_p95"])
        for fleet in item.fleets.values():
            assert float(item.point["first_token_seconds_high"]) < fleet.first_token_seconds <= own


def test_the_chosen_accelerator_is_the_cheapest_for_a_request(answer):
    for item in some(answer.hosted.values()):
        assert item.choices["usd"].is_monotonic_increasing
        bill = sum(fleet.elastic_accelerator_hours for fleet in item.fleets.values()) * float(item.point["usd_per_accelerator_hour"])
        assert item.point["usd"] == pytest.approx(bill)


def test_sliders_move_the_answer_the_right_way(book, answer):
    base = answer.hosted["chat"].hours["accelerators"].max()
    for change in ({"headroom_share": 0.3}, {"spare_replicas": 3}):
        assert serving_of(book, book.scenario_with(**change))[0].hosted["chat"].hours["accelerators"].max() > base
    quick = serving_of(book, book.scenario_with(cold_start_seconds=0.0, warm_replicas=0))[0].policies.set_index("policy")["slo_share"]
    slow = serving_of(book, book.scenario_with(cold_start_seconds=900.0, warm_replicas=0))[0].policies.set_index("policy")["slo_share"]
    assert quick["Autoscaled, all wait"] > slow["Autoscaled, all wait"]
    assert slow["Fixed at the peak hour"] == quick["Fixed at the peak hour"]
    assert set(FIELDS) <= set(Scenario.model_fields)


def test_a_stated_speed_far_off_is_named(answer):
    item = answer.hosted["chat"]
    speeds = pd.DataFrame(
        {"workload": "chat", "accelerator": [item.point["accelerator"]], "work_per_accelerator_hour": [1e6], "basis": "stated"}
    )
    checks = choice.speed_check("chat", item.choices, speeds)
    assert not checks["agrees"].any()
    assert "speeds.csv says that chat does 1,000,000 requests an hour" in choice.speed_notes(checks)[0]
    right = speeds.assign(work_per_accelerator_hour=float(item.point["requests_per_accelerator_hour"]))
    assert choice.speed_notes(choice.speed_check("chat", item.choices, right)) == []


def test_the_books_speeds_follow_from_measured_curves(answer):
    checks = answer.speeds.set_index(["workload", "accelerator"])
    assert checks["agrees"].all()
    assert set(checks["basis"]) == {"calibrated"}
    told = checks[checks["stated_basis"] == "calibrated"]
    assert len(told) == 4
    assert (told["stated"] / told["found"]).between(0.82, 0.88).all()


def test_a_request_log_of_other_lengths_is_named(book):
    log = pd.DataFrame(
        {
            "workload": ["chat", "chat", "drafts"],
            "requests": [10.0, 10, 5],
            "input_tokens": [50_000.0, 50_000, 20_000],
            "output_tokens": [8_000.0, 8_000, 1750],
        }
    )
    notes = choice.length_notes(book.services, log)
    assert len(notes) == 1
    assert "2,500 input tokens for a request of chat; the request log's mean is 5,000" in notes[0]
    assert choice.length_notes(book.services, None) == choice.length_notes(book.services, log.head(0)) == []


def test_daily_usage_is_spread_and_said(book):
    days = pd.date_range("2027-01-01", periods=30, freq="D")
    usage = pd.DataFrame({"time": days, "workload": "chat", "region": "us", "quantity": 2400.0, "refused_quantity": np.nan})
    traffic = hosted.recent_traffic(usage, "chat")
    assert len(traffic) == 28 * 24
    assert (traffic["requests"] == 100).all()
    assert traffic["hour"].is_unique
    minutes = pd.DataFrame(
        {"time": pd.date_range("2027-01-01", periods=120, freq="min"), "workload": "chat", "region": "us", "quantity": 1.0}
    )
    assert hosted.recent_traffic(minutes, "chat")["requests"].tolist() == [60, 60]


def test_a_service_in_another_unit_is_refused(book):
    with pytest.raises(CapplanError, match="sized on requests"):
        show_serving(book, book.scenario_with(changes=(Change(table="workloads", key="chat", column="unit", set="tokens"),)))


def test_unknown_workload_and_percent_are_refused(book):
    with pytest.raises(CapplanError, match="did you mean chat"):
        show_serving(book, book.scenario_with(serving_workload="chatt"))
    with pytest.raises(ScenarioError, match="headroom_share"):
        book.scenario_with(headroom_share=15)


def test_api_model_without_a_price_is_left_out_and_said(book):
    changed = book.scenario_with(changes=(Change(table="services", key="research", column="model", set="no-such-model"),))
    view = show_serving(book, changed)
    assert any(note.startswith("research is left out of the costs") for note in view.notes)
    assert "research" not in set(view.details["costs"]["workload"])


def test_a_book_without_services_says_what_is_missing(tmp_path):
    for name in ("usage", "workloads"):
        (tmp_path / f"{name}.csv").write_bytes(
            (ROOT / "data" / "enterprise" / f"{name}.csv").read_bytes()[:4000].rsplit(b"\n", 1)[0] + b"\n"
        )
    small = load_book(tmp_path)
    with pytest.raises(MissingTableError, match=r"services.*workload, model"):
        show_serving(small, small.scenario)


def test_without_traffic_nothing_is_needed(book):
    still = book.scenario_with(
        changes=(
            Change(table="usage", key="*", column="quantity", multiply=0.0),
            Change(table="usage", key="*", column="refused_quantity", multiply=0.0),
        )
    )
    view = show_serving(book, still)
    assert view.value == 0
    assert "no traffic" in view.headline
    assert np.isfinite(view.table["mean_accelerators"]).all()


def test_it_is_shown_up_to_which_burst_the_formulas_hold(answer, book):
    table = answer.bursts
    assert table["burst_factor"].is_monotonic_increasing
    assert table["valid"].iloc[0]
    assert (table["simulated_share"] <= table["formula_share"] + 0.02).all()
    first = table[~table["valid"]].iloc[0]
    assert first["formula_share"] > 0.99
    assert first["formula_share"] - first["simulated_share"] > 0.02
    assert any("trust the replay" in note for note in answer.notes)
    assert "formulas" in show_serving(book, book.scenario).charts


def test_an_api_model_that_ends_is_named(book):
    notes = serving_of(book, book.scenario)[1]
    assert any("research calls gpt-5.1 of openai, which is to be withdrawn on 2028-06-30" in note for note in notes)


def test_a_fault_of_a_service_says_whose_it_is(book):
    for column, value, message in (
        ("model", "Llama-3.1-7B", "did you mean Llama-3.1-70B"),
        ("first_token_seconds_p95", 0.001, "no listed machine meets"),
    ):
        scenario = book.scenario_with(changes=(Change(table="services", key="chat", column=column, set=value),))
        with pytest.raises(CapplanError, match=rf"^chat \(services.csv\): .*{message}"):
            show_serving(book, scenario)
