"""Crossover: brute force over volumes, laws of prices, and list prices row by row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError
from capplan.questions.crossover import api_usd, break_even_share, crossover_volumes, find_crossover, provisioned_usd, self_host_usd
from capplan.questions.ledger.tokens import request_usd
from tests.conftest import reference_file

QUARTERS = ["2027Q1", "2027Q2", "2027Q3", "2027Q4"]


def demand(*paths):
    rows = [(i, 1 / len(paths), quarter, value) for i, path in enumerate(paths) for quarter, value in zip(QUARTERS, path, strict=True)]
    return pd.DataFrame(rows, columns=["path", "probability", "quarter", "quantity"])


@settings(max_examples=80, deadline=None)
@given(st.floats(0.2, 5), st.integers(20, 60), st.floats(1, 100), st.floats(0, 300), st.integers(0, 2))
def test_volumes_equal_brute_force(price, capacity, replica, fixed, spare):
    found = crossover_volumes(price, capacity, replica, fixed, spare)
    for volume in np.linspace(0, 12 * capacity, 500):
        nearest = (found["requests"] - volume).abs().min() if len(found) else 1.0
        if nearest < 1e-3 or abs(volume / capacity - round(volume / capacity)) < 1e-6:
            continue
        before = found[found["requests"] < volume]
        said = before["cheaper_above"].iloc[-1] if len(before) else "api"
        gap = self_host_usd(volume, capacity, replica, fixed, spare) - api_usd(volume, price)
        if abs(gap) > 1e-6:
            assert said == ("self" if gap < 0 else "api"), (volume, gap)
    assert found["requests"].is_monotonic_increasing
    assert (found["cheaper_above"] != found["cheaper_above"].shift()).all()


def test_there_can_be_several_or_none():
    several = crossover_volumes(1.0, 100, 60.0, 30.0)
    assert several["requests"].tolist() == [90.0, 100.0, 150.0, 200.0, 210.0]
    assert several["cheaper_above"].tolist() == ["self", "api", "self", "api", "self"]
    assert crossover_volumes(0.5, 100, 60.0, 30.0).empty


@settings(max_examples=40, deadline=None)
@given(st.floats(0.7, 3), st.floats(1.0, 2.0), st.floats(10, 60), st.floats(0, 200))
def test_crossover_moves_with_each_price_as_it_must(price, more, replica, fixed):
    first = float(crossover_volumes(price, 100, replica, fixed)["requests"].iloc[0])
    slack = first * (1 + 1e-9)
    assert float(crossover_volumes(price * more, 100, replica, fixed)["requests"].iloc[0]) <= slack
    assert float(crossover_volumes(price, 100, replica, fixed * more)["requests"].iloc[0]) >= first * (1 - 1e-9)
    assert float(crossover_volumes(price, 100, replica / more, fixed)["requests"].iloc[0]) <= slack


def test_api_wins_at_zero_volume():
    assert api_usd(0, 0.02) == 0 < self_host_usd(0, 100, 10, 0, spare_replicas=1)
    found = find_crossover(demand([0, 0, 0, 0]), 0.02, 100, 10, 5)
    assert found.crossing_share == 0
    assert found.starts["start"][found.starts["expected_usd"].idxmin()] == "never"


def test_quarter_quantiles_and_value_of_waiting():
    # costs: 2 replicas of 100 -> 60 a quarter with one spare; API 1 USD a request
    found = find_crossover(demand([10, 50, 80, 90], [10, 20, 30, 90], [5, 5, 5, 5]), 1.0, 100, 30.0, 0.0, spare_replicas=1)
    assert found.quarters["quarter"].tolist() == ["2027Q3", "2027Q4", None]
    assert found.crossing_share == pytest.approx(2 / 3)
    totals = found.starts.set_index("start")["expected_usd"]
    assert totals["2027Q1"] == pytest.approx(240)
    assert totals["never"] == pytest.approx(400 / 3)
    assert totals["2027Q4"] == pytest.approx((10 + 50 + 80 + 10 + 20 + 30 + 15) / 3 + 60)
    assert found.value_of_waiting_usd == pytest.approx(240 - totals.min())


def test_price_paths_and_throughput_error():
    path = demand([100, 100, 100, 100])
    assert find_crossover(path, 0.5, 100, 30, 0).crossing_share == 0
    assert find_crossover(path, 0.5, 100, 30, 0, self_price_change_per_year=-0.5).quarters["quarter"].tolist() == ["2027Q3"] * 3
    found = find_crossover(demand([300, 300, 300, 300]), 0.5, 100, 30, 0, spare_replicas=0).sensitivity
    assert found["throughput_factor"].tolist() == [0.7, 1.0, 1.3]
    assert found["break_even_share"].is_monotonic_decreasing
    assert found["crossing_share"].is_monotonic_increasing


def test_provisioned_units_lose_what_is_unused():
    assert provisioned_usd([0, 0], 2, 100, 10, 0.2) == 40
    assert provisioned_usd([50, 150], 0, 100, 10, 0.2) == pytest.approx(api_usd(200, 0.2))
    assert provisioned_usd([50, 150], 2, 100, 10, 0.2) == 40
    assert break_even_share(0.02, 1000, 10) == 0.5


def test_bad_input():
    with pytest.raises(CapplanError, match=r"-0\.3"):
        find_crossover(demand([1, 1, 1, 1]), 1, 100, 1, 0, api_price_change_per_year=-30)
    with pytest.raises(CapplanError, match="add up to"):
        find_crossover(demand([1, 1, 1, 1]).assign(probability=0.5), 1, 100, 1, 0)
    with pytest.raises(CapplanError, match="more than none"):
        self_host_usd(1, 0, 1, 0)
    with pytest.raises(CapplanError, match="from 0 on"):
        api_usd(-1, 1)


def test_list_prices_row_by_row():
    table = pd.read_csv(reference_file("data", "llm_api_prices", "genai_prices_0.2.3_main_models.csv"))
    # deepseek-v4 is priced by the time of day; the file holds noon, the planner the day's mean
    table = table[~((table["provider"] == "deepseek") & table["model"].str.startswith("deepseek-v4"))]
    when = pd.Timestamp("2026-11-27")
    checked = 0
    for row in table.to_dict("records"):
        # the price list finds models of fireworks by the path that its API takes
        called = f"accounts/fireworks/models/{row['model']}" if row["provider"] == "fireworks" else row["model"]
        name = (called, row["provider"], when)
        for column, tokens, more in (
            ("input_usd_per_mtok", (1000, 0), {}),
            ("output_usd_per_mtok", (0, 1000), {}),
            ("cache_read_usd_per_mtok", (1000, 0), {"cached_share": 1.0}),
            ("batch_input_usd_per_mtok", (1000, 0), {"batch_share": 1.0}),
            ("batch_output_usd_per_mtok", (0, 1000), {"batch_share": 1.0}),
            ("batch_cache_read_usd_per_mtok", (1000, 0), {"batch_share": 1.0, "cached_share": 1.0}),
        ):
            if pd.notna(row[column]):
                assert 1000 * request_usd(*name, *tokens, **more) == pytest.approx(row[column], rel=1e-9), (name, column)
                checked += 1
    assert checked > 150
