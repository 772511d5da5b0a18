"""Fleet sizing: published fleets, MLPerf's latency identity, laws, and every way a service can be stated wrongly."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.book.empty import empty_table
from capplan.errors import CapplanError
from capplan.questions.serving import operating_points as points
from capplan.questions.serving import service_traffic as traffic
from capplan.questions.serving import size_fleet, staffing
from capplan.questions.serving.queueing import Target
from capplan.questions.serving.size_fleet import staff_fleet, unit_costs
from tests.cases import queues
from tests.cases.closed_forms import square_root_servers
from tests.cases.serving_cases import silicon_runs
from tests.conftest import reference_file

A = ServingAssumptions(arrival_cv2=1.0, service_cv2=1.0, within_hour_peak_factor=1.0)
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
SERVICE = pd.Series(
    {
        "workload": "chat",
        "model": "Llama-3.1-70B",
        "input_tokens": 1000.0,
        "output_tokens": 500.0,
        "first_token_seconds_p95": 2.0,
        "token_seconds_p95": 0.05,
    }
)
RUNS = pd.DataFrame(
    {
        "run": ["a", "b", "c", "d"],
        "model": "Llama-3.1-70B",
        "accelerator": "H100",
        "accelerators": 4,
        "engine": "vllm",
        "precision": "fp8",
        "input_tokens": 1000.0,
        "output_tokens": 500.0,
        "concurrency": [8.0, 16.0, 32.0, 64.0],
        "first_token_seconds": [0.15, 0.2, 0.3, 0.6],
        "token_seconds": [0.012, 0.014, 0.02, 0.03],
    }
)
NO_RUNS = empty_table("serving_runs")


def hours(*requests):
    return pd.DataFrame({"hour": range(len(requests)), "requests": [float(number) for number in requests]})


def truth():
    return pd.read_csv(reference_file("truth", "05_serving.csv")).set_index("id")["value"]


def test_deepseek_day_closes():
    values = truth()
    number = {name: float(values[name]) for name in ("ds_in_tok", "ds_out_tok", "ds_prefill", "ds_decode", "ds_avg_nodes")}
    nodes = (number["ds_in_tok"] / number["ds_prefill"] + number["ds_out_tok"] / number["ds_decode"]) / 86400
    assert nodes == pytest.approx(number["ds_avg_nodes"], rel=0.005)
    found = unit_costs(number["ds_avg_nodes"] * 8 * 24, 2.0, 0.0, 1, number["ds_out_tok"])
    assert found["usd"] == 87072.0
    assert found["usd_per_million_tokens"] == pytest.approx(0.5182857142857142, rel=1e-12)


@pytest.mark.parametrize("system", ["h100x8", "h200x8"])
def test_mlperf_latency_identity(system):
    values = truth()
    number = {name: float(values[f"mlperf41_{system}_server_{name}"]) for name in ("ttft_mean", "tpot_mean", "tok_per_sample", "lat_mean")}
    assert staffing.request_seconds(number["ttft_mean"], number["tpot_mean"], number["tok_per_sample"]) == pytest.approx(
        number["lat_mean"], rel=0.01
    )


def test_point_is_the_best_of_all_that_meet_the_target():
    busy = [np.array([1e6])]

    def best(token_seconds: float) -> pd.Series:
        part = staffing.feasible_points(POINTS, 500, 2.0, token_seconds)
        return part.iloc[staffing.cheapest_point(part, busy, 2.0, A)[0]]

    tight, loose = best(0.02), best(0.05)
    assert loose["concurrency"] == 128
    assert (tight["concurrency"], tight["accelerators"]) == (32, 4)
    assert tight["requests_per_accelerator_hour"] <= loose["requests_per_accelerator_hour"]


@pytest.mark.parametrize(("targets", "part"), [((0.1, 0.05), "first token"), ((2.0, 0.01), "output token"), ((0.3, 0.011), "output token")])
def test_unmet_target_says_which_part_breaks(targets, part):
    with pytest.raises(CapplanError, match=part):
        staffing.feasible_points(POINTS, 500, *targets)


@settings(max_examples=40, deadline=None)
@given(st.floats(1, 2e5), st.floats(1, 1.6), st.floats(0.5, 5.0))
def test_laws_of_size(requests, more, target):
    point = POINTS.iloc[1]
    sized = staff_fleet(hours(requests, requests * more), point, 500, target, A)
    assert sized.hours["replicas"].is_monotonic_increasing
    tighter = staff_fleet(hours(requests), point, 500, 0.4 + 0.5 * (target - 0.4), A)
    assert tighter.hours["replicas"][0] >= sized.hours["replicas"][0]
    assert (sized.hours["slo_share"] >= 0.95 - 1e-9).all()
    assert (sized.hours["busy_share"] <= 0.85).all()
    assert (sized.hours["replicas_upper"] >= sized.hours["replicas"]).all()
    assert sized.elastic_accelerator_hours <= sized.fixed_accelerator_hours


@settings(max_examples=8, deadline=None)
@given(st.floats(1, 3e5), st.floats(0.3, 1.0), st.integers(0, 2), st.floats(0.0, 0.3))
def test_laws_of_the_whole_answer(requests, tighter, spare, headroom):
    plain = size_fleet(SERVICE, hours(requests), RUNS, A)["accelerators"][0]
    assert size_fleet(SERVICE, hours(requests), RUNS, A.model_copy(update={"target_factor": tighter}))["accelerators"][0] >= plain
    assert size_fleet(SERVICE, hours(requests * 1.3), RUNS, A)["accelerators"][0] >= plain
    safer = A.model_copy(update={"spare_replicas": 1 + spare, "headroom_share": 0.15 + headroom, "within_hour_peak_factor": 1.2})
    assert size_fleet(SERVICE, hours(requests), RUNS, safer)["accelerators"][0] >= plain


MIXED = pd.concat(
    [
        RUNS,
        RUNS.assign(
            run=["e", "f", "g", "h"], accelerators=8, concurrency=[32.0, 64.0, 128.0, 256.0], token_seconds=RUNS["token_seconds"] * 0.9
        ),
    ],
    ignore_index=True,
)


@settings(max_examples=8, deadline=None)
@given(st.floats(1, 2e5), st.floats(0.3, 1.0), st.floats(1.0, 2.0))
def test_laws_hold_across_sizes_of_replicas(requests, tighter, more):
    plain = size_fleet(SERVICE, hours(requests), MIXED, A)["accelerators"][0]
    assert size_fleet(SERVICE, hours(requests), MIXED, A.model_copy(update={"target_factor": tighter}))["accelerators"][0] >= plain
    assert size_fleet(SERVICE, hours(requests * more), MIXED, A)["accelerators"][0] >= plain


def test_the_cheapest_point_is_that_of_brute_force():
    able = staffing.feasible_points(POINTS, 500, 2.0, 0.05)
    for size in (10.0, 3e3, 4e4, 9e5):
        requests = np.array([size, size / 3, 0.0])
        bills = [
            float(staffing.replicas_for(requests, int(row.concurrency), row.held_seconds, 2.0 - row.first_token_seconds, A).sum())
            * row.accelerators
            for row in able.itertuples()
        ]
        place, bill = staffing.cheapest_point(able, [requests], 2.0, A)
        assert bill == min(bills) == bills[place]


def test_whole_answer_by_hand():
    table = size_fleet(SERVICE, hours(0, 36_000), RUNS, A)
    assert list(table.columns[:6]) == ["hour", "requests", "replicas", "accelerators", "slo_share", "basis"]
    # 64 at once on 4 accelerators serve most: held for 0.6 + 499 x 0.03 = 15.57 s, 36,000 an hour are 155.7 busy slots
    load = 10 * 15.57
    slots = queues.servers_for(
        load, 15.57, 2.0 - 0.6 * points._quantile(np.array([points.spread_of(1.9)]), 0.95)[0], 0.95, highest_utilisation=0.85, step=64
    )
    assert table["replicas"].tolist() == [0, slots // 64 + 1]
    assert table["accelerators"].tolist() == [0, 4 * (slots // 64 + 1)]
    assert table["basis"].unique().tolist() == ["measured"]
    assert table["busy_share"].tolist() == pytest.approx([0, load / (slots + 64)])


def test_many_hours_at_once_equal_one_by_one():
    rng = np.random.default_rng(3)
    loads = np.exp(rng.uniform(np.log(0.01), np.log(2000), 60))
    for share, allowed, step in ((0.95, 1.5, 32), (0.99, 0.0, 1), (0.5, 30.0, 7)):
        stated = {"arrival_cv2": 2.0, "service_cv2": 0.8, "step": step}
        one_by_one = [queues.servers_for(load, 30.0, allowed, share, highest_utilisation=0.85, **stated) for load in loads]
        assert staffing.fewest_servers(loads, 30.0, Target(allowed, share, 0.85), **stated).tolist() == one_by_one


def test_square_root_rule_is_the_limit_of_the_sizing():
    # half of the requests may wait: the spare capacity beta of Halfin and Whitt, in units of the root of the load
    for load in (400, 10_000):
        count = int(staffing.fewest_servers(np.array([float(load)]), 1.0, Target(0.0, 0.7766))[0])
        assert count == pytest.approx(square_root_servers(load, 1.0), abs=1)


def test_square_root_rule_as_a_policy():
    a = A.model_copy(update={"staffing_rule": "square_root", "headroom_share": 0.0, "spare_replicas": 0})
    point = pd.Series({**POINTS.iloc[0], "concurrency": 1, "accelerators": 1})
    held = staffing.held_seconds(point, 500)
    requests = 3600 * 100 / held  # a load of 100 busy slots
    for beta, slots in ((0.5, 105), (1.0, 110), (1.5, 115)):
        sized = staff_fleet(hours(requests), point, 500, 2.0, a.model_copy(update={"square_root_beta": beta}))
        assert sized.hours["replicas"].tolist() == [slots]
    bursty = staff_fleet(hours(requests), point, 500, 2.0, a.model_copy(update={"arrival_cv2": 7.0}))
    assert bursty.hours["replicas"].tolist() == [120]
    assert staff_fleet(hours(requests), point, 500, 2.0, a.model_copy(update={"headroom_share": 0.2})).hours["replicas"].tolist() == [125]


def test_usage_rows_are_traffic_too():
    times = pd.date_range("2027-01-01", periods=3, freq="h")
    usage = pd.DataFrame(
        {"time": [*times, *times], "workload": "chat", "region": ["us"] * 3 + ["eu"] * 3, "quantity": [1.0, 2, 3, 10, 20, 30]}
    )
    assert traffic.checked_traffic(usage)["requests"].tolist() == [11, 22, 33]
    with pytest.raises(CapplanError, match="mixes workloads"):
        traffic.checked_traffic(usage.assign(workload=["chat", "drafts"] * 3))


def test_no_traffic_needs_nothing():
    table = size_fleet(SERVICE, hours(0, 0), RUNS, A)
    assert (table[["replicas", "accelerators", "busy_share", "replicas_upper"]] == 0).all().all()
    assert (table["slo_share"] == 1).all()
    assert "no replica" in staff_fleet(hours(0), POINTS.iloc[0], 500, 2.0, A).headline


def test_without_a_target_only_the_load_counts():
    free = SERVICE.drop(["first_token_seconds_p95", "token_seconds_p95"])
    table = size_fleet(free, hours(36_000), RUNS, A)
    assert 0 < table["accelerators"][0] <= size_fleet(SERVICE, hours(36_000), RUNS, A)["accelerators"][0]


def test_label_travels_with_the_number():
    assert size_fleet(SERVICE, hours(9), RUNS, A)["basis"][0] == "measured"
    other = size_fleet(SERVICE, hours(9), NO_RUNS, A, names=["H100", "H200"])
    assert other["basis"][0] == "modelled"
    assert other["replicas_upper"][0] >= other["replicas"][0]


def test_unstated_number_format_is_that_of_the_measurement():
    runs = RUNS.assign(precision="bf16")
    assert size_fleet(SERVICE, hours(9), runs, A)["basis"][0] == "measured"
    stated = pd.concat([SERVICE, pd.Series({"precision": "fp8"})])
    found = points.operating_points(stated, runs, A, names=["H100"])
    assert set(found["precision"]) == {"fp8"}
    assert "measured" not in set(found["basis"])


def test_concurrency_limit_is_kept():
    limited = pd.concat([SERVICE, pd.Series({"concurrency_limit": 8})])
    assert size_fleet(limited, hours(36_000), RUNS, A)["accelerators"][0] > size_fleet(SERVICE, hours(36_000), RUNS, A)["accelerators"][0]
    with pytest.raises(CapplanError, match="concurrency_limit"):
        size_fleet(pd.concat([SERVICE, pd.Series({"concurrency_limit": 4})]), hours(9), RUNS, A)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "Llama-3.1-70"}, "did you mean Llama-3.1-70B"),
        ({"input_tokens": 0.0}, "input must be above 0"),
        ({"cached_share": 90.0}, r"90 % is 0\.9"),
        ({"output_tokens": np.nan}, "no output_tokens"),
        ({"first_token_seconds_p95": 0.01}, "first token"),
        ({"token_seconds_p95": 1e-4}, "output token"),
    ],
)
def test_a_wrong_service_is_refused(change, message):
    with pytest.raises(CapplanError, match=message):
        size_fleet(pd.Series({**SERVICE, **change}), hours(10), NO_RUNS, A, names=["H100"])


@pytest.mark.parametrize(
    ("requests", "message"), [([-1.0], "from 0 on"), ([np.nan], "from 0 on"), ([np.inf], "from 0 on"), ([], "at least one hour")]
)
def test_wrong_traffic_is_refused(requests, message):
    with pytest.raises(CapplanError, match=message):
        size_fleet(SERVICE, hours(*requests), RUNS, A)


def test_model_that_fits_no_machine_says_what_it_needs():
    big = pd.Series({**SERVICE, "model": "Llama-3.1-405B", "precision": "bf16"})
    with pytest.raises(CapplanError, match=r"GiB.*smaller number format"):
        size_fleet(big, hours(10), NO_RUNS, A, names=["L40S", "A10G"])
    assert size_fleet(pd.Series({**SERVICE, "model": "Llama-3.1-405B"}), hours(10), NO_RUNS, A, names=["B200"])["accelerators"][0] > 0


def test_unknown_accelerator_names_the_nearest():
    with pytest.raises(CapplanError, match="did you mean"):
        size_fleet(SERVICE, hours(10), RUNS, A.model_copy(update={"serving_accelerator": "H10"}))
    with pytest.raises(CapplanError, match="choose one workload"):
        size_fleet(pd.DataFrame([SERVICE, SERVICE]), hours(10), RUNS, A)


def test_what_lies_outside_the_model_counts():
    near = size_fleet(SERVICE, hours(50_000), RUNS, A, outside_seconds=0.9)
    assert near["accelerators"][0] >= size_fleet(SERVICE, hours(50_000), RUNS, A)["accelerators"][0]
    with pytest.raises(CapplanError, match="no hardware meets"):
        size_fleet(SERVICE, hours(9), RUNS, A, outside_seconds=2.5)


@pytest.mark.parametrize("field", ["headroom_share", "target_share", "prompt_cache_share", "exact_cache_share"])
def test_percent_is_refused(field):
    with pytest.raises(ValueError, match="less than or equal"):
        ServingAssumptions(**{field: 90})


def test_memory_decides_how_many_fit():
    found = points.operating_points(pd.Series({**SERVICE, "precision": "bf16"}), NO_RUNS, A, names=["H100"])
    assert set(found["accelerators"]) == {2, 4, 8}  # 131 GiB of weights do not fit into 72 GiB
    room = (2 * 72 - 70_553_706_496 * 2 / 2**30) * 2**30 / (327_680 * 1500)
    assert room / 1.5 < found.loc[found["accelerators"] == 2, "concurrency"].max() <= room
    assert (found["first_token_seconds_high"] > found["first_token_seconds"]).all()


def test_a_fleet_on_published_measurements_is_that_of_brute_force():
    runs = silicon_runs(reference_file("data", "serving_throughput", "llm_serving_silicon_latency_aiconfigurator.csv.gz"))
    runs = runs[(runs["model"] == "Llama-3.1-70B") & (runs["accelerator"] == "H100") & ~runs["work_in_progress"]]
    service = pd.Series(
        {**SERVICE, "input_tokens": 8192.0, "output_tokens": 1024.0, "first_token_seconds_p95": 4.0, "token_seconds_p95": 0.06}
    )
    a = ServingAssumptions()
    table = size_fleet(service, hours(150_000), runs, a)
    assert table["basis"].unique().tolist() == ["measured"]
    first_high, token_high = (points._quantile(np.array([points.spread_of(ratio)]), 0.95)[0] for ratio in (1.9, 1.15))
    found = []
    for row in runs[(runs["input_tokens"] == 8192) & (runs["output_tokens"] == 1024)].itertuples():
        if row.first_token_seconds * first_high < 4.0 and row.token_seconds * token_high <= 0.06:
            held = row.first_token_seconds + 1023 * row.token_seconds
            slots = queues.servers_for(
                150_000 * 1.12 / 3600 * held,
                held,
                4.0 - row.first_token_seconds * first_high,
                0.95,
                arrival_cv2=2.0,
                service_cv2=0.8,
                highest_utilisation=0.85,
                step=int(row.concurrency),
            )
            found.append((slots // int(row.concurrency) + 1) * row.accelerators)
    assert len(found) > 5
    assert table["accelerators"].tolist() == [min(found)]
