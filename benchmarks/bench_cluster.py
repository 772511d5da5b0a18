"""The cluster simulation on the Philly trace: against the same model in SimPy, a million jobs, memory, and the capacity curve.

Times are CPU times of one run on one machine and reported as ratios. Both models must give every job the same wait before a ratio counts.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.book.policies import policy_named
from capplan.book.scenario import ClusterAssumptions
from capplan.questions.cluster import capacity_curve, simulate_cluster
from capplan.questions.cluster.arrays import Prepared, arrivals, prepare
from capplan.questions.cluster.simulate_cluster import queue_seconds, run_events
from tests.conftest import reference_file

A = ClusterAssumptions()


def ready(jobs, nodes, policy) -> Prepared:
    """Arrange a trace on a cluster."""
    return prepare(arrivals(jobs, nodes, policy, A), nodes, policy, A)


def philly() -> pd.DataFrame:
    raw = pd.read_csv(reference_file("data", "gpu_jobs", "philly_jobs.csv.gz"), parse_dates=["timestamp"]).sort_values(
        "timestamp", kind="stable"
    )
    columns = {
        "submit": raw["timestamp"],
        "duration_seconds": raw["duration"],
        "accelerators": raw["num_gpus"] * 1.0,
        "team": raw["cluster"],
    }
    return pd.DataFrame({"job_id": raw.index.astype(str), **columns}).reset_index(drop=True)


def weeks_of(jobs: pd.DataFrame, count: int) -> pd.DataFrame:
    """Draw whole weeks of the trace until there are so many jobs: the load stays as it was."""
    draw = np.random.default_rng(11)
    week = ((jobs["submit"] - jobs["submit"].min().normalize()).dt.days // 7).to_numpy()
    parts, total, place = [], 0, 0
    while total < count:
        source = int(draw.integers(0, week.max()))
        part = jobs[week == source]
        parts.append(part.assign(submit=part["submit"] + pd.Timedelta(weeks=place - source)))
        total, place = total + len(part), place + 1
    frame = pd.concat(parts, ignore_index=True).head(count)
    return frame.assign(job_id=frame.index.astype(str)).sort_values("submit", kind="stable").reset_index(drop=True)


def nodes_of(count: int, size: int) -> pd.DataFrame:
    return pd.DataFrame({"node": ["n"], "accelerator": ["P100"], "accelerator_count": [size], "nodes": [count]})


def spent(work: Any, times: int) -> float:
    """Return the least CPU time of some runs, in seconds."""
    found = []
    for _ in range(times):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found)


#: Nodes and their accelerators: as in the paper's cluster, where none of these jobs wait, and two that are short of accelerators.
CLUSTERS = [(309, 8, "fifo"), (309, 8, "easy_backfill"), (400, 2, "fifo"), (300, 3, "fifo"), (300, 3, "easy_backfill")]


def test_the_same_waits_as_simpy_at_least_fifty_times_as_fast():
    pytest.importorskip("simpy", reason="SimPy is not installed (dependency group bench)")
    from benchmarks.simpy_cluster import waits

    jobs, rows = philly(), []
    for count, size, policy in CLUSTERS:
        prepared = ready(jobs, nodes_of(count, size), policy_named(policy))
        columns = [prepared.trace.submit.tolist(), prepared.trace.work.tolist(), prepared.trace.need.tolist()]
        before = time.process_time()
        theirs = np.array(waits(*columns, nodes=count, size=size, easy=policy != "fifo", depth=A.backfill_depth))
        peer = time.process_time() - before
        ours = queue_seconds(prepared, run_events(prepared))
        mine = spent(lambda: run_events(prepared), 7)
        whole = spent(lambda: simulate_cluster(jobs, nodes_of(count, size), policy, A), 2)
        assert ours == pytest.approx(theirs, abs=1e-6)
        rows.append((f"{count} x {size}", policy, float((ours > 1).mean()), ours.mean() / 3600, peer / mine, peer / whole))
    table = pd.DataFrame(rows, columns=["nodes", "policy", "jobs that wait", "mean wait, h", "times as fast", "with all tables"])
    print("\n" + table.round(3).to_string(index=False))
    assert (table["times as fast"] >= 50).all()


@pytest.mark.parametrize(("count", "size"), [(309, 8), (300, 3)])
def test_a_million_jobs_take_hardly_longer_each(count, size):
    jobs, found = philly(), {}
    for number in (len(jobs), 1_000_000):
        trace = weeks_of(jobs, number)
        for policy in ("fifo", "easy_backfill"):
            prepared = ready(trace, nodes_of(count, size), policy_named(policy))
            found[policy, number] = spent(lambda: run_events(prepared), 3) / number
        found["all tables", number] = spent(lambda: simulate_cluster(trace, nodes_of(count, size), "fifo", A), 1) / number
    ratios = {name: found[name, 1_000_000] / found[name, len(jobs)] for name in ("fifo", "easy_backfill", "all tables")}
    print(
        f"\n{count} x {size}: time for each of 1,000,000 jobs against each of {len(jobs):,}: "
        + ", ".join(f"{k} {v:.2f}" for k, v in ratios.items())
    )
    assert max(ratios.values()) < 2


def test_memory_grows_with_the_jobs():
    jobs, peaks = philly(), {}
    for number in (100_000, 400_000):
        trace = weeks_of(jobs, number)
        prepared = ready(trace, nodes_of(309, 8), policy_named("easy_backfill"))
        for name, work in (
            ("simulation", lambda: run_events(prepared)),
            ("with all tables", lambda: simulate_cluster(trace, nodes_of(309, 8), "easy_backfill", A)),
        ):
            tracemalloc.start()
            work()
            peaks[name, number] = tracemalloc.get_traced_memory()[1] / number
            tracemalloc.stop()
    print("\nBytes a job at the peak: " + ", ".join(f"{name} {number:,}: {value:,.0f}" for (name, number), value in peaks.items()))
    for name in ("simulation", "with all tables"):
        assert peaks[name, 400_000] / peaks[name, 100_000] == pytest.approx(1.0, abs=0.1)


def test_a_curve_of_twenty_sizes_on_all_cores():
    jobs = philly()
    a = A.model_copy(update={"curve_resamples": 2})
    sizes = [-8 * step for step in range(0, 200, 10)]
    capacity_curve(jobs.head(5000), nodes_of(309, 8), "easy_backfill", a, [0, 8], cores=-1)
    found, wall = {}, {}
    for cores in (1, -1):
        before = time.perf_counter()
        found[cores] = capacity_curve(jobs, nodes_of(309, 8), "easy_backfill", a, sizes, cores=cores)
        wall[cores] = time.perf_counter() - before
    pd.testing.assert_frame_equal(found[1].curve, found[-1].curve)
    print(f"\n20 sizes, 3 traces each: one process takes {wall[1] / wall[-1]:.2f} times as long as all cores")
    assert len(found[1].curve) == 20
    assert wall[1] > wall[-1]


@pytest.mark.benchmark(group="cluster")
@pytest.mark.parametrize(
    "policy", ["fifo", "easy_backfill", "conservative_backfill", "shortest_remaining", "fair_share", "quota_borrowing"]
)
def test_philly_by_policy(benchmark, policy):
    prepared: Prepared = ready(philly(), nodes_of(300, 3), policy_named(policy))
    benchmark.pedantic(run_events, args=(prepared,), rounds=3, warmup_rounds=1)
