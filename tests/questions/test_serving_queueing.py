"""Waiting and memory: closed forms, published figures, and a discrete-event simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.book.book import reference_tables
from capplan.errors import CapplanError
from capplan.questions.serving import queueing, replica_memory, staffing
from capplan.questions.serving.service_traffic import drawn_services
from tests.cases import queues
from tests.cases.closed_forms import halfin_whitt_delay, poisson_arrivals, square_root_servers
from tests.conftest import reference_file


def truth(name):
    return pd.read_csv(reference_file("truth", name)).set_index("id")


@pytest.mark.parametrize(
    ("load", "servers"), [(10, 11), (10, 12), (10, 13), (10, 14), (1, 2), (2, 3), (5, 8), (20, 24), (100, 110), (1000, 1050)]
)
def test_erlang_c_to_twelve_digits(load, servers):
    published = float(truth("04_queueing.csv").loc[f"erlc_A{load}_N{servers}", "value"])
    assert queueing.erlang_c(load, servers) == pytest.approx(published, abs=1e-12)


def test_erlang_c_equals_its_defining_sum():
    for load, servers in ((0.3, 1), (3.7, 5), (12.5, 14)):
        last = load**servers / math.factorial(servers) * servers / (servers - load)
        whole = sum(load**n / math.factorial(n) for n in range(servers)) + last
        assert queueing.erlang_c(load, servers) == pytest.approx(last / whole, rel=1e-13)


def test_published_call_centre():
    load = 100 / 1800 * 180
    assert staffing.fewest_servers(np.array([load]), 180, queueing.Target(20, 0.8, 0.85)).tolist() == [14]
    kept = 1 - staffing.late_shares(np.full(2, load), np.array([14.0, 13.0]), 180, 20)
    assert kept == pytest.approx([0.8883500191794669, 0.7955947884177831], abs=1e-12)
    assert queues.mean_wait(load, 14, 180) == pytest.approx(7.8359, abs=1e-4)


def test_square_root_rule_and_its_limit():
    assert [square_root_servers(100, beta) for beta in (0.5, 1.0, 1.5)] == [105, 110, 115]
    assert square_root_servers(2500, 1.0) == 2550
    errors = [abs(queueing.erlang_c(r, square_root_servers(r, 1.0)) - halfin_whitt_delay(1.0)) for r in (100, 400, 2500)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.003


def test_burstiness_corrections():
    assert queues.mean_wait(4, 5, 1, 1, 0.25) == pytest.approx(0.3463203463203465, abs=1e-12)
    assert queues.mean_wait(9, 10, 1, 0.5, 2) == pytest.approx(0.8359144051346215, abs=1e-12)
    # one server: Kingman's approximation, rho / (1 - rho) (ca2 + cs2) / 2
    assert queues.mean_wait(0.8, 1, 1, 1, 0) == pytest.approx(2.0)
    assert queues.mean_wait(0.9, 1, 1, 0.5, 1.5) == pytest.approx(9.0)
    # the published table states coefficients of variation, not their squares
    assert queues.mean_wait(0.9, 1, 1, 0.5**2, 1.5**2) == pytest.approx(11.25)


@pytest.mark.parametrize(("load", "servers"), [(4.0, 6), (45.0, 50), (90.0, 100)])
def test_bursts_of_whole_peakedness_are_that_many_times_fewer_servers(load, servers):
    """Hayward: traffic of peakedness two waits as plain traffic on half of the servers with half of the load does."""
    overlap = queueing.peakedness(2.0, 1.0) - 1
    bursty = 1 + 1 / overlap
    assert queueing.peakedness(bursty, 1.0) == pytest.approx(2.0, abs=1e-9)
    assert queueing.waiting_share(load, servers, bursty, 1.0) == pytest.approx(queueing.erlang_c(load / 2, servers // 2), rel=1e-6)


def test_quantile_inverts_the_tail():
    wait = queues.wait_quantile(0.95, 20, 24, 3.0, 1.5, 0.7)
    assert staffing.late_shares(np.array([20.0]), np.array([24.0]), 3.0, wait, 1.5, 0.7) == pytest.approx([0.05], rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 400), st.floats(1.0, 1.5), st.floats(0.0, 5.0), st.integers(1, 40))
def test_more_traffic_or_a_tighter_target_never_needs_fewer(load, more, allowed, step):
    need, busier = staffing.fewest_servers(np.array([load, load * more]), 2.0, queueing.Target(allowed, 0.95), step=step)
    assert busier >= need
    assert staffing.fewest_servers(np.array([load]), 2.0, queueing.Target(allowed / 2, 0.95), step=step) >= need
    assert need % step == 0
    assert queues.wait_quantile(0.95, load, need, 2.0) <= allowed


@pytest.mark.parametrize(("load", "servers", "cv2"), [(4.0, 5, 1.0), (17.0, 20, 1.0), (0.8, 1, 0.0), (0.7, 1, 2.0)])
def test_simulation_agrees_with_the_formula(load, servers, cv2):
    rng = np.random.default_rng(11)
    count = 300_000
    found = queues.simulate_queue(poisson_arrivals(load, count, rng), drawn_services(1.0, cv2, count, rng), servers)
    # exact for M/M/c and for one server (Pollaczek-Khinchine)
    assert found.mean[1] <= queues.mean_wait(load, servers, 1.0, 1.0, cv2) <= found.mean[2]
    assert found.waiting[1] <= queueing.erlang_c(load, servers) <= found.waiting[2]


@pytest.mark.parametrize(
    ("load", "servers", "arrival_cv2", "service_cv2"),
    [(8.5, 10, 1.0, 0.5), (45.0, 50, 2.0, 0.8), (8.5, 10, 2.0, 0.8), (180.0, 200, 2.0, 0.8), (180.0, 200, 4.0, 0.5), (17.0, 20, 0.5, 0.8)],
)
def test_bursts_wait_as_the_simulation_says(load, servers, arrival_cv2, service_cv2):
    rng, count = np.random.default_rng(5), 400_000
    arrivals = np.cumsum(rng.gamma(1 / arrival_cv2, arrival_cv2 / load, count))
    found = queues.simulate_queue(arrivals, drawn_services(1.0, service_cv2, count, rng), servers)
    spread = (arrival_cv2, service_cv2)
    # approximations: within a tenth where Erlang's C alone is off by up to two thirds
    assert queueing.waiting_share(load, servers, *spread) == pytest.approx(found.waiting[0], rel=0.12)
    assert queues.wait_quantile(0.95, load, servers, 1.0, *spread) == pytest.approx(np.quantile(found.seconds, 0.95), rel=0.15, abs=0.02)


def test_peakedness_of_known_services():
    assert queueing.peakedness(5.0, 1.0) == pytest.approx(3.0)
    assert queueing.peakedness(5.0, 0.0) == 5.0
    # a gamma of shape 2: one minus its Gini coefficient of 3/8
    assert queueing.peakedness(2.0, 0.5) == pytest.approx(1 + 5 / 8)
    assert queueing.waiting_share(5.0, 8, 0.0, 0.0) == 0.0
    assert queueing.waiting_share(5.0, 8) == queueing.erlang_c(5.0, 8)


def test_formulas_fail_on_bursty_real_arrivals():
    trace = pd.read_csv(reference_file("data", "llm_demand", "azure_llm_inference_2023_code.csv"))
    arrivals = (pd.to_datetime(trace["TIMESTAMP"]) - pd.to_datetime(trace["TIMESTAMP"]).iloc[0]).dt.total_seconds().to_numpy()
    services = 0.2 + 1e-4 * trace["ContextTokens"].to_numpy() + 0.02 * trace["GeneratedTokens"].to_numpy()
    sizes, mean = (4, 6, 8, 12), services.mean()
    waits = [queues.simulate_queue(arrivals, services, size, warm_up_share=0.0).mean[0] for size in sizes]
    assert waits == sorted(waits, reverse=True)
    # minutes of silence and of bursts: Poisson formulas promise far less waiting than there is
    load, spread = mean / np.diff(arrivals).mean(), services.var() / mean**2
    assert all(wait > 5 * queues.mean_wait(load, size, mean, 1.0, spread) for wait, size in zip(waits, sizes, strict=True))


@pytest.mark.parametrize(
    ("model", "value"),
    [
        ("Llama-3.1-70B", "kv_llama3_70b"),
        ("Llama-2-7B", "kv_llama2_7b"),
        ("Llama-3.1-8B", "kv_llama3_8b"),
        ("Llama-3.1-405B", "kv_llama3_405b"),
        ("DeepSeek-V3", "kv_deepseek_v3_mla"),
    ],
)
def test_cache_bytes(model, value):
    row = replica_memory.model_of(reference_tables()["models"], model)
    assert replica_memory.cache_bytes_per_token(row) == float(truth("05_serving.csv").loc[value, "value"])


def test_memory_of_a_replica_adds_up():
    row = replica_memory.model_of(reference_tables()["models"], "Llama-3.1-70B")
    for asked, token_bytes in ((None, 163840), ("bf16", 327680)):
        found = replica_memory.replica_memory(row, 80, 4, 8192, precision="fp8", cache_precision=asked, reserve_share=0.1)
        assert found.weights_gib + found.cache_gib + found.reserve_gib == pytest.approx(320)
        assert found.concurrency * 8192 * token_bytes <= found.cache_gib * 2**30 < (found.concurrency + 1) * 8192 * token_bytes
    assert replica_memory.replica_memory(row, 80, 1, 8192, precision="bf16").concurrency == 0


def test_bad_input_says_what_to_do():
    tables = reference_tables()
    accelerator = tables["accelerators"].set_index("accelerator", drop=False).loc["L40S"]
    with pytest.raises(CapplanError, match="did you mean"):
        replica_memory.model_of(tables["models"], "Llama-3.1-70")
    with pytest.raises(CapplanError, match="GiB"):
        replica_memory.smallest_replica(
            replica_memory.model_of(tables["models"], "Llama-3.1-405B"), accelerator, 4000, precision="bf16", most_accelerators=8
        )
    with pytest.raises(CapplanError, match=r"0\.95"):
        queueing.Target(1, 95)
    with pytest.raises(CapplanError, match="nothing is left"):
        queueing.Target(-0.1, 0.95)
    with pytest.raises(CapplanError, match=r"10 % is 0\.1"):
        replica_memory.replica_memory(replica_memory.model_of(tables["models"], "Llama-3.1-8B"), 80, 1, 1000, reserve_share=10)
    assert staffing.fewest_servers(np.array([0.0]), 1, queueing.Target(1, 0.95)).tolist() == [0]
    with pytest.raises(CapplanError, match="a load of -1 erlangs"):
        staffing.fewest_servers(np.array([-1.0]), 1, queueing.Target(1, 0.95))
