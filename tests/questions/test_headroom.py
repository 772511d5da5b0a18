"""Queue headroom: what a delay target needs beyond mean hours, against Erlang C, and in the plan's work."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan import open_book, show_cluster
from capplan.answers.plan import headroom_of, work_digest, work_of
from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.errors import CapplanError, MissingTableError
from capplan.questions.cluster import queue_headroom, simulate_cluster
from capplan.questions.cluster.headroom import GROWTH_STEP, grown
from capplan.questions.demand import work_growth
from tests.questions.test_cluster import cluster, trace


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
    assert found.factors[["workload", "factor"]].to_numpy().tolist() == [["tuning", found.factor]]


def test_growth_is_sized_as_erlang_c_says():
    """Four steps of growth on a load of 8: the cluster of the load of 19.5, with a smaller spare share; half a step lies between."""
    generator = np.random.default_rng(6)
    count, load, times = 60_000, 8, GROWTH_STEP**4
    jobs = trace(
        3600 * np.cumsum(generator.exponential(1 / load, count)),
        3600 * generator.exponential(1.0, count),
        np.ones(count),
        workload="tuning",
    )
    target = (ninety(load * times, 23) + ninety(load * times, 22)) / 2
    growth = pd.DataFrame({"workload": "tuning", "quarter": ["2027Q1", "2027Q2", "2027Q3"], "growth": [1.0, GROWTH_STEP**3.5, times]})
    found = queue_headroom(jobs, cluster(1, 1), ["tuning"], aiming(target), growth).levels.set_index("quarter")
    first = next(servers for servers in range(9, 20) if ninety(load, servers) <= target)
    assert found["needed_accelerators"].iloc[[0, 2]].tolist() == [first, 23]
    assert found["mean_accelerators"].tolist() == pytest.approx([8, 8 * GROWTH_STEP**3.5, 8 * times], rel=0.02)
    assert found["factor"].is_monotonic_decreasing
    assert found.loc["2027Q3", "factor"] == pytest.approx(23 / (8 * times), rel=0.02)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=25),
    times=st.floats(0.01, 9.0),
    seed=st.integers(0, 5),
)
def test_a_grown_trace_has_as_many_jobs_as_growth_says(rows, times, seed):
    rows = sorted(rows)
    jobs = trace([86400 * row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows], workload="w")
    more = grown(jobs, times, seed)
    assert times * len(jobs) - 1 < len(more) < times * len(jobs) + 2
    assert more["submit"].is_monotonic_increasing
    assert more["job_id"].is_unique
    if rows[-1][0] - rows[0][0] >= 4:
        assert (more["submit"].dt.time == jobs["submit"].dt.time.iloc[0]).all()
    if times >= 1:
        assert set(jobs["job_id"]) <= set(more["job_id"])
        assert more["submit"].min() == jobs["submit"].min()
    pd.testing.assert_frame_equal(grown(jobs, 1.0, seed), jobs)


def test_growth_counts_hours_and_probabilities():
    paths = pd.DataFrame(
        [(0, 0.5, "a", "us", q, b, n) for q, b, n in (("2027Q1", 0, 10.0), ("2027Q1", 1, 30.0), ("2027Q2", 0, 90.0))]
        + [(1, 0.5, "a", "eu", q, b, n) for q, b, n in (("2027Q1", 0, 10.0), ("2027Q1", 1, 30.0), ("2027Q2", 0, 70.0))]
        + [(0, 0.5, "late", "us", "2027Q1", 0, 0.0), (0, 0.5, "late", "us", "2027Q2", 0, 5.0), (0, 0.5, "other", "us", "2027Q1", 0, 5.0)],
        columns=["path", "probability", "workload", "region", "quarter", "block", "quantity"],
    )
    blocks = pd.DataFrame({"quarter": ["2027Q1", "2027Q1", "2027Q2"], "block": [0, 1, 0], "hours": [100.0, 300.0, 400.0]})
    found = work_growth(paths, blocks, ["a", "late"], 2.0).set_index(["workload", "quarter"])["growth"]
    assert found.to_dict() == {("a", "2027Q1"): 2.0, ("a", "2027Q2"): 4.0, ("late", "2027Q1"): 0.0, ("late", "2027Q2"): 2.0}


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
    "workloads": (
        "workload,stage,unit,host\nchat,serving,requests,self\ntuning,tuning,accelerator_hours,self\nevaluation,evaluation,accelerator_hours,self\n"
    ),
    "demand_scenarios": (
        "scenario,probability,workload,quarter,quantity\n"
        + "".join(
            f"s,1,{name},{quarter},{quantity * times}\n"
            for name, quantity in (("chat", 9e6), ("tuning", 20000), ("evaluation", 3000))
            for quarter, times in (("2027Q1", 1), ("2027Q2", 4))
        )
    ),
    "nodes": "node,accelerator,accelerator_count,nodes\nn,H100,8,8\n",
    "commitments": "commitment_id,sku,region,term,machines,usd_per_hour,start,end\n",
    "book": "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 2\n",
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
    before, after = (work_of(book, scenario).set_index(["class", "quarter"])["work_per_hour"] for scenario in (plain, tight))
    now, later = headroom_of(book, tight).levels["factor"]
    # four times the jobs need less spare for each
    assert 1.05 < later < now
    raised = (after / before).unstack("quarter")
    assert raised.loc["tuning"].tolist() == pytest.approx([now, later])
    assert (raised.drop("tuning") == 1.0).all(axis=None)
    # twice the demand of the plan is twice the jobs
    assert headroom_of(book, tight.replaced(demand_factor=2.0)).levels["growth"].tolist() == pytest.approx([2.0, 8.0], rel=0.02)


def test_without_a_trace_the_target_is_refused(make_book):
    book = open_book(str(make_book(**BOOK)))
    with pytest.raises(MissingTableError, match="The delay target of training jobs needs the table jobs"):
        work_of(book, book.scenario.replaced(training_delay_target_hours=4.0))


def test_the_view_says_what_the_target_needs(make_book):
    book = open_book(str(make_book(jobs=jobs_table(30), **BOOK)))
    view = show_cluster(book, book.scenario.replaced(training_delay_target_hours=2.0, curve_sizes=2, curve_resamples=1))
    assert "more than mean hours" in view.headline
    assert view.details["queue_headroom"]["workload"].tolist() == ["tuning", "tuning"]
