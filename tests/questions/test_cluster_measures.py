"""Measures, sizes and drawn weeks of a cluster by hand, on traces of a few jobs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.questions.cluster import queue_headroom, resized, simulate_cluster
from capplan.questions.cluster.capacity import resampled
from tests.questions.test_cluster import START, A, changed, cluster, trace
from tests.questions.test_headroom import aiming

TWO_GROUPS = pd.DataFrame({"node": ["a", "b"], "accelerator": "H100", "accelerator_count": [8, 4], "nodes": [4, 3]})


@pytest.mark.parametrize(
    ("change", "nodes"),
    [(0, [4, 3]), (8, [5, 3]), (9, [6, 3]), (-1, [4, 2]), (-4, [4, 2]), (-5, [4, 1]), (-12, [4]), (-13, [3]), (-36, [1])],
)
def test_whole_nodes_are_added_to_the_largest_group_and_taken_from_the_last(change, nodes):
    assert resized(TWO_GROUPS, change)["nodes"].tolist() == nodes


@pytest.mark.parametrize(("days", "length"), [(27, 1), (28, 7), (35, 7)])
def test_days_are_drawn_below_four_weeks_and_weeks_from_there_on(days, length):
    jobs = trace(86_400 * np.arange(days) + 3600 * (np.arange(days) % 24), np.full(days, 60.0), np.ones(days))
    moved = set()
    for seed in range(20):
        found = resampled(jobs, np.random.default_rng(seed))
        source = found["job_id"].str.partition("#")[0].map(jobs.set_index("job_id")["submit"])
        shift = (found["submit"] - source) / pd.Timedelta(days=1)
        assert (shift % length == 0).all()
        # one job a day, so that every day of the drawn trace has one
        assert (found["submit"] - START).dt.days.tolist() == list(range(days))
        moved |= set(shift)
    assert {-length, length} <= moved


def test_what_is_lost_displaced_and_late_by_hand():
    """A job on half of the cluster is displaced after 50 s by one on all of it; it saves its work at times, and restarts in 5 s."""
    jobs = trace([0, 50, 60], [100, 10, 10], [4, 8, 4], priority=[0.0, 1.0, 1.0])
    jobs["deadline"] = [START + pd.Timedelta(seconds=100), pd.NaT, pd.NaT]
    found = simulate_cluster(jobs, cluster(1), "priority", changed(checkpoint_seconds=5, job_restart_seconds=5))
    held = found.held
    accelerator_seconds = ((held["end_seconds"] - held["start_seconds"]) * held["accelerators"]).sum()
    window = 60.0
    inside = ((held["end_seconds"].clip(upper=window) - held["start_seconds"].clip(upper=window)) * held["accelerators"]).sum()
    useful = 100 * 4 + 10 * 8 + 10 * 4
    assert accelerator_seconds > useful
    assert found.measure("goodput_share") == pytest.approx(useful / accelerator_seconds)
    assert found.measure("allocated_share") == pytest.approx(inside / (8 * window))
    assert found.measure("computing_share") == pytest.approx(useful / accelerator_seconds * inside / (8 * window))
    assert found.measure("preemptions") == 1
    # of the jobs with a deadline all miss it; those without count neither way
    assert found.measure("deadline_missed_share") == 1.0
    without = simulate_cluster(jobs.drop(columns="deadline"), cluster(1), "priority", A)
    assert np.isnan(without.measure("deadline_missed_share"))


def test_what_a_trace_occupies_is_held_against_its_longest_job():
    found = queue_headroom(trace([0, 10], [100, 50], [8, 8]), cluster(2), ["tuning"], aiming(1.0))
    assert found.mean_accelerators == pytest.approx((100 * 8 + 50 * 8) / 100)


def test_a_wait_that_is_just_the_target_meets_it():
    """Ten jobs of an hour at once and one much later: five accelerators let the last wait one hour, four let some wait two."""
    jobs = trace([0.0] * 10 + [36_000.0], [3600.0] * 11, [1.0] * 11)
    assert queue_headroom(jobs, cluster(1, 1), ["tuning"], aiming(1.0)).needed_accelerators == 5
