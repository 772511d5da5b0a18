"""Fleet sizing: published fleets, MLPerf's latency identity, and laws."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError
from capplan.questions.serving import fleet
from tests.conftest import reference_file

POINTS = pd.DataFrame(
    {
        "accelerator": "H100",
        "accelerators": [4, 4, 4, 8],
        "concurrency": [8, 32, 128, 128],
        "first_token_seconds": [0.2, 0.4, 1.2, 0.6],
        "token_seconds": [0.012, 0.02, 0.045, 0.03],
        "basis": "measured",
    }
)


def truth():
    return pd.read_csv(reference_file("truth", "05_serving.csv")).set_index("id")["value"]


def test_deepseek_day_closes():
    values = truth()
    number = {name: float(values[name]) for name in ("ds_in_tok", "ds_out_tok", "ds_prefill", "ds_decode", "ds_avg_nodes")}
    nodes = fleet.token_nodes(number["ds_in_tok"], number["ds_out_tok"], number["ds_prefill"], number["ds_decode"])
    assert nodes == pytest.approx(number["ds_avg_nodes"], rel=0.005)
    found = fleet.unit_costs(number["ds_avg_nodes"] * 8 * 24, 2.0, 0.0, 1, number["ds_out_tok"])
    assert found["usd"] == 87072.0
    assert found["usd_per_million_tokens"] == pytest.approx(0.5182857142857142, rel=1e-12)


@pytest.mark.parametrize("system", ["h100x8", "h200x8"])
def test_mlperf_latency_identity(system):
    values = truth()
    number = {name: float(values[f"mlperf41_{system}_server_{name}"]) for name in ("ttft_mean", "tpot_mean", "tok_per_sample", "lat_mean")}
    assert fleet.request_seconds(number["ttft_mean"], number["tpot_mean"], number["tok_per_sample"]) == pytest.approx(
        number["lat_mean"], rel=0.01
    )


def test_point_is_the_best_of_all_that_meet_the_target():
    assert fleet.choose_point(POINTS, 500, 2.0, 0.05)["concurrency"] == 128
    tight = fleet.choose_point(POINTS, 500, 2.0, 0.02)
    assert (tight["concurrency"], tight["accelerators"]) == (32, 4)
    loose = fleet.choose_point(POINTS, 500, 2.0, 0.05)
    assert tight["requests_per_accelerator_hour"] <= loose["requests_per_accelerator_hour"]


@pytest.mark.parametrize(("targets", "part"), [((0.1, 0.05), "first token"), ((2.0, 0.01), "output token"), ((0.3, 0.011), "output token")])
def test_unmet_target_says_which_part_breaks(targets, part):
    with pytest.raises(CapplanError, match=part):
        fleet.choose_point(POINTS, 500, *targets)


@settings(max_examples=40, deadline=None)
@given(st.floats(1, 2e5), st.floats(1, 1.6), st.floats(0.5, 5.0))
def test_laws_of_size(requests, more, target):
    point = POINTS.iloc[1]
    sized = fleet.size_fleet(pd.DataFrame({"hour": [0, 1], "requests": [requests, requests * more]}), point, 500, target)
    assert sized.hours["replicas"].is_monotonic_increasing
    tighter = fleet.size_fleet(pd.DataFrame({"hour": [0], "requests": [requests]}), point, 500, 0.4 + 0.5 * (target - 0.4))
    assert tighter.hours["replicas"][0] >= sized.hours["replicas"][0]
    assert (sized.hours["wait_seconds"] + point["first_token_seconds"] <= target + 1e-9).all()
    assert (sized.hours["busy_share"] <= 0.85).all()
    assert sized.elastic_accelerator_hours <= sized.fixed_accelerator_hours


def test_no_traffic_needs_nothing_and_percent_is_refused():
    quiet = pd.DataFrame({"hour": [0], "requests": [0.0]})
    assert fleet.size_fleet(quiet, POINTS.iloc[0], 500, 2.0).peak_accelerators == 0
    with pytest.raises(CapplanError, match=r"0\.15"):
        fleet.size_fleet(quiet, POINTS.iloc[0], 500, 2.0, headroom_share=15)
    with pytest.raises(CapplanError, match="from 0 on"):
        fleet.size_fleet(pd.DataFrame({"hour": [0], "requests": [-1.0]}), POINTS.iloc[0], 500, 2.0)
