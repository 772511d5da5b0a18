"""The autoscaling replay beside SimPy and beside an event-by-event queue in Python, on the same requests in one run.

Run: pytest benchmarks/bench_serving_replay.py --benchmark-only -s. Ratios are printed and kept in `extra_info`; nothing is asserted on
time, but
all three must find the same waits.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.questions.serving import autoscale
from capplan.questions.serving.service_traffic import drawn_services
from tests.cases import queues

RATE, SECONDS, SERVICE, SERVERS = 40.0, 2 * 3600, 10.0, 420


def trace() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    arrivals = np.cumsum(rng.exponential(1 / RATE, int(RATE * SECONDS * 1.1)))
    arrivals = arrivals[arrivals < SECONDS]
    return arrivals, drawn_services(SERVICE, 1.0, len(arrivals), rng)


def with_simpy(arrivals: np.ndarray, services: np.ndarray) -> np.ndarray:
    simpy = pytest.importorskip("simpy", reason="SimPy is not installed; pip install simpy to compare")
    environment = simpy.Environment()
    pool = simpy.Resource(environment, capacity=SERVERS)
    waits = np.empty(len(arrivals))

    def one(index: int):
        asked = environment.now
        with pool.request() as request:
            yield request
            waits[index] = environment.now - asked
            yield environment.timeout(services[index])

    def source():
        for index, arrival in enumerate(arrivals):
            yield environment.timeout(arrival - environment.now)
            environment.process(one(index))

    environment.process(source())
    environment.run()
    return waits


def ours(arrivals: np.ndarray, services: np.ndarray) -> autoscale.Replay:
    a = ServingAssumptions(spare_replicas=0, warm_replicas=0, admission_rule="queue")
    return autoscale.Day(arrivals, services, 10, 8, 0.5).replay(np.full(2, SERVERS // 10), a, reactive=False)


@pytest.mark.benchmark(group="replay of 288,000 requests")
@pytest.mark.parametrize(
    "peer", [with_simpy, lambda arrivals, services: queues.waits_of(arrivals, services, SERVERS)], ids=["simpy", "heap"]
)
def test_replay(benchmark, peer):
    arrivals, services = trace()
    ours(arrivals, services)  # compiles
    found = benchmark.pedantic(ours, args=(arrivals, services), rounds=3)
    begin = time.perf_counter()
    waits = peer(arrivals, services)
    theirs = time.perf_counter() - begin
    assert found.slo_share == pytest.approx((waits <= 0.5).mean(), abs=0.003)
    ratio = theirs / benchmark.stats.stats.mean
    benchmark.extra_info.update(
        requests=len(arrivals), ratio=ratio, share_in_time=found.slo_share, share_in_time_of_peer=float((waits <= 0.5).mean())
    )
    print(
        f"{len(arrivals):,} requests: the peer takes {ratio:.0f} times as long; answered in time {found.slo_share:.4f} against"
        f" {(waits <= 0.5).mean():.4f}"
    )
