"""Queue headroom: what a delay target needs beyond mean hours, against Erlang C, and in the plan's work."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan import open_book, show_cluster
from capplan.errors import CapplanError, MissingTableError
from capplan.inputs.assumptions_cluster import ClusterAssumptions
from capplan.plan import headroom_of, work_digest, work_of
from capplan.questions.cluster import queue_headroom, simulate_cluster
from tests.test_cluster import cluster, trace


def aiming(hours: float | None, **more) -> ClusterAssumptions:
    return ClusterAssumptions(training_delay_target_hours=hours, cluster_policy="fifo", **more)


def ninety(load: float, servers: int) -> float:
    """The wait in service times that nine of ten exceed in one of ten cases: C exp(-(c - a) t) = 0.1."""
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = top / (sum(load**k / math.factorial(k) for k in range(servers)) + top)
    return max(math.log(waits / 0.1) / (servers - load), 0.0)


@pytest.mark.parametrize(("load", "servers"), [(8, 11), (20, 23), (40, 45)])
def test_the_cluster_is_as_large_as_erlang_c_says(load, servers):
    """A target between the waits of two sizes: the larger of them is needed, and the factor is its share of the mean load."""
    generator = np.random.default_rng(5)
    count = 150_000
    jobs = trace(3600 * np.cumsum(generator.exponential(1 / load, count)), 3600 * generator.exponential(1.0, count), np.ones(count))
    found = queue_headroom(jobs, cluster(1, 1), ["tuning"], aiming((ninety(load, servers) + ninety(load, servers - 1)) / 2))
    assert found.needed_accelerators == servers
    assert found.mean_accelerators == pytest.approx(load, rel=0.02)
    assert found.factor == servers / found.mean_accelerators
    assert found.by_workload() == {"tuning": found.factor}


JOBS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(1, 20)), min_size=2, max_size=20)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(rows=JOBS, targets=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_a_tighter_target_never_needs_less_and_the_size_meets_it(rows, targets):
    rows = sorted(rows)
    jobs = trace([3600 * row[0] for row in rows], [3600 * row[1] for row in rows], [row[2] for row in rows])
    tight, loose = (queue_headroom(jobs, cluster(1, 4), ["tuning"], aiming(hours)) for hours in sorted(targets))
    assert tight.needed_accelerators >= loose.needed_accelerators
    assert tight.factor >= loose.factor >= 1.0
    wait = np.sort(simulate_cluster(jobs, cluster(tight.needed_accelerators // 4, 4), "fifo", aiming(1)).jobs["queue_seconds"])
    assert wait[math.ceil(0.9 * len(wait)) - 1] <= 3600 * min(targets)


def test_only_jobs_of_the_planned_workloads_count():
    jobs = trace([0, 0, 3600], [3600, 3600, 3600], [4, 4, 4], workload=["tuning", "chat", None], accelerator="H100")
    found = queue_headroom(jobs, cluster(2), ["tuning", "evaluation"], aiming(0.5))
    assert found.factors[["workload", "jobs"]].to_numpy().tolist() == [["tuning", 1]]
    assert found.mean_accelerators == 8.0
    with pytest.raises(CapplanError, match="none belongs to a workload whose queue is planned"):
        queue_headroom(jobs.head(2), cluster(2), ["alignment"], aiming(1))
    with pytest.raises(CapplanError, match="is not set"):
        queue_headroom(jobs, cluster(2), ["tuning"], aiming(None))
    often = aiming(0.01, node_failures_per_node_day=1.0, node_repair_hours=720)
    with pytest.raises(CapplanError, match="failures displace them"):
        queue_headroom(trace([0, 9], [400_000, 400_000], [8, 8]), cluster(2), ["tuning"], often)


BOOK = {
    "workloads": "workload,stage,unit,host\nchat,serving,requests,self\ntuning,tuning,accelerator_hours,self\nevaluation,evaluation,accelerator_hours,self\n",
    "demand_scenarios": "scenario,probability,workload,quarter,quantity\n"
    + "".join(f"s,1,{name},2027Q1,{quantity}\n" for name, quantity in (("chat", 9e6), ("tuning", 20000), ("evaluation", 3000))),
    "nodes": "node,accelerator,accelerator_count,nodes\nn,H100,8,8\n",
    "commitments": "commitment_id,sku,region,term,machines,usd_per_hour,start,end\n",
    "book": "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 1\n",
}


def jobs_table(count: int = 60) -> str:
    draw = np.random.default_rng(3)
    submit = pd.Timestamp("2026-11-01") + pd.to_timedelta(np.sort(draw.uniform(0, 20 * 86400, count)).round(), unit="s")
    rows = zip(submit, draw.exponential(30000, count).round(), draw.choice([4, 8, 16], count), strict=True)
    return "job_id,submit,duration_seconds,accelerators,workload\n" + "".join(
        f"j{index},{when.isoformat()},{length},{need},tuning\n" for index, (when, length, need) in enumerate(rows)
    )


def test_the_plan_carries_the_cluster_size_that_the_target_needs(make_book):
    book = open_book(str(make_book(jobs=jobs_table(), **BOOK)))
    plain, tight = (book.scenario.replaced(training_delay_target_hours=hours) for hours in (None, 1.0))
    assert headroom_of(book, plain) is None
    assert work_digest(plain) != work_digest(tight) != work_digest(tight.replaced(cluster_policy="fifo"))
    before, after = (work_of(book, scenario).set_index("class")["work_per_hour"] for scenario in (plain, tight))
    factor = headroom_of(book, tight).factor
    assert factor > 1.05
    assert (after / before).to_dict() == pytest.approx({"chat": 1.0, "evaluation": 1.0, "tuning": factor})


def test_without_a_trace_the_target_is_refused(make_book):
    book = open_book(str(make_book(**BOOK)))
    with pytest.raises(MissingTableError, match="The delay target of training jobs needs the table jobs"):
        work_of(book, book.scenario.replaced(training_delay_target_hours=4.0))


def test_the_view_says_what_the_target_needs(make_book):
    book = open_book(str(make_book(jobs=jobs_table(30), **BOOK)))
    view = show_cluster(book, book.scenario.replaced(training_delay_target_hours=2.0, curve_sizes=2, curve_resamples=1))
    assert "more than mean hours" in view.headline
    assert view.details["queue_headroom"]["workload"].tolist() == ["tuning"]
