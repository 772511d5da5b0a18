"""How long jobs wait: against queueing theory, against brute properties, and on two public traces."""

from __future__ import annotations

import importlib
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.errors import CapplanError
from capplan.questions.cluster import POLICIES, Policy, capacity_curve, resized, simulate_cluster
from tests.conftest import reference_file

A = ClusterAssumptions()
START = pd.Timestamp("2026-01-01")


def changed(**values):
    return ClusterAssumptions(**values)


def cluster(nodes: int, size: int = 8, accelerator: str = "H100"):
    return pd.DataFrame({"node": ["n"], "accelerator": [accelerator], "accelerator_count": [size], "nodes": [nodes]})


def trace(submit, duration, accelerators, **more):
    return pd.DataFrame(
        {
            "job_id": [f"j{index}" for index in range(len(submit))],
            "submit": START + pd.to_timedelta(np.asarray(submit, dtype=float), unit="s"),
            "duration_seconds": np.asarray(duration, dtype=float),
            "accelerators": np.asarray(accelerators, dtype=float),
            **more,
        }
    )


@pytest.mark.parametrize(("load", "servers"), [(1, 2), (5, 8), (20, 24)])
def test_waits_follow_erlang_c(load, servers):
    generator = np.random.default_rng(1)
    count, batches = 200_000, 20
    jobs = trace(np.cumsum(generator.exponential(1 / load, count)), generator.exponential(1.0, count), np.ones(count))
    wait = simulate_cluster(jobs, cluster(servers, 1), "fifo", A).jobs["queue_seconds"].to_numpy()
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = top / (sum(load**k / math.factorial(k) for k in range(servers)) + top)
    for values, expected in ((wait > 1e-9, waits), (wait, waits / (servers - load))):
        means = values[5000:].reshape(batches, -1).mean(axis=1)
        # 99.9 % interval of batch means
        assert abs(means.mean() - expected) < 3.88 * means.std(ddof=1) / math.sqrt(batches)


def batch_means_agree(values, expected, batches=20):
    """Is the mean of a long run inside the 99.9 % interval of its batch means?"""
    means = values[len(values) // 20 :][: len(values) * 9 // 10 // batches * batches].reshape(batches, -1).mean(axis=1)
    return abs(means.mean() - expected) < 3.88 * means.std(ddof=1) / math.sqrt(batches)


def test_one_server_follows_the_formulas_of_its_policy():
    """M/M/1 with load 0.7: two preemptive priorities (Cobham), shortest remaining time (Schrage and Miller), and turns."""
    generator, count, load = np.random.default_rng(4), 50_000, 0.7
    jobs = trace(3600 * np.cumsum(generator.exponential(1 / load, count)), 3600 * generator.exponential(1.0, count), np.ones(count))
    urgent = generator.uniform(size=count) < 0.4
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0)

    def hours(policy, **more):
        return simulate_cluster(jobs.assign(**more), cluster(1, 1), policy, free).jobs["completion_seconds"].to_numpy() / 3600

    done = hours("priority", priority=urgent * 1.0)
    assert batch_means_agree(done[urgent], 1 / (1 - 0.4 * load))
    assert batch_means_agree(done[~urgent], 1 / ((1 - 0.4 * load) * (1 - load)))
    x = np.linspace(0, 40, 200_001)
    step, density = x[1], np.exp(-x)
    busy = load * (1 - (1 + x) * np.exp(-x))
    second = load * (2 - (2 + 2 * x + x * x) * np.exp(-x)) + load * x * x * np.exp(-x)
    response = second / (2 * (1 - busy) ** 2) + np.cumsum(1 / (1 - busy)) * step
    assert batch_means_agree(hours("shortest_remaining"), float((response * density).sum() * step))
    # short turns come to processor sharing, whose mean time is that of first come, first served
    few, quick = jobs.head(15_000), free.model_copy(update={"quantum_seconds": 180})
    shared, in_order = (
        simulate_cluster(few, cluster(1, 1), policy, quick).jobs["completion_seconds"].mean() for policy in ("time_slicing", "fifo")
    )
    assert shared == pytest.approx(in_order, rel=0.1)


def test_goodput_under_failures_follows_its_formula():
    """Exponential failures at rate r, checkpoints every t, restart R: of each 1/r held, t exp(-rR) / (exp(rt) - 1) is kept."""
    rate, interval, restart = 1.0, 4 / 24, 0.5 / 24
    a = changed(
        node_failures_per_node_day=rate,
        node_repair_hours=0.01,
        checkpoint_interval_seconds=86400 * interval,
        job_restart_seconds=86400 * restart,
    )
    jobs = trace(np.zeros(60), np.full(60, 80 * 86400.0), np.ones(60))
    found = simulate_cluster(jobs, cluster(60, 1), "fifo", a)
    kept = rate * interval * math.exp(-rate * restart) / (math.exp(rate * interval) - 1)
    each = found.jobs["run_seconds"] / found.jobs["held_seconds"]
    assert abs(each.mean() - kept) < 3.5 * each.std() / math.sqrt(60)
    assert found.measure("goodput_share") == pytest.approx(kept, rel=0.02)
    # failures come at their rate, as long as a job holds its node
    held = found.jobs["held_seconds"].sum() / 86400
    assert abs(found.measure("preemptions") - rate * held) < 3.5 * math.sqrt(rate * held)


def test_partial_allocation_ends_in_gridlock_and_gangs_do_not():
    jobs = trace([0, 0], [10, 10], [16, 16])
    stuck = simulate_cluster(jobs, cluster(2), "fifo", changed(gang_scheduling=False))
    assert stuck.jobs["end_seconds"].isna().all()
    assert "gridlock, 2 of them hold 16 accelerators" in stuck.notes[-1]
    assert simulate_cluster(jobs, cluster(2), "fifo", A).jobs["end_seconds"].tolist() == [10, 20]


def test_jobs_that_are_displaced_for_ever_end_in_a_message_before_they_fill_the_memory(monkeypatch):
    module = importlib.import_module("capplan.questions.cluster.simulate_cluster")

    begin = module.new_state
    monkeypatch.setattr(module, "new_state", lambda *given: begin(*given)._replace(log=np.empty((1, 5))))
    jobs = trace([0, 1, 2, 3], [10, 10, 10, 10], [8, 8, 8, 8])
    whole = simulate_cluster(jobs, cluster(1), "fifo", A)
    assert whole.jobs["end_seconds"].tolist() == [10, 20, 30, 40], "a log that is full is made longer"
    monkeypatch.setattr(module, "ROWS_ALLOWED", 2)
    monkeypatch.setattr(module, "ROWS_A_JOB", 0)
    with pytest.raises(CapplanError, match="displaced again and again before they come to anything"):
        simulate_cluster(jobs, cluster(1), "fifo", A)


JOBS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 20), st.sampled_from("abc")), min_size=1, max_size=25)


def built(rows):
    rows = sorted(rows, key=lambda row: row[0])
    return trace([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], team=[r[3] for r in rows])


@pytest.mark.parametrize("policy", sorted(POLICIES))
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(rows=JOBS, placement=st.sampled_from(["pack", "spread", "balanced", "locality"]))
def test_nothing_is_lost_doubled_or_over_capacity(policy, rows, placement):
    a = changed(placement_rule=placement, quantum_seconds=60, checkpoint_seconds=1, job_restart_seconds=1, borrowing_share=10)
    jobs = built(rows)
    found = simulate_cluster(jobs, cluster(4), policy, a)
    assert found.jobs["end_seconds"].notna().all()
    assert (found.jobs["start_seconds"] >= found.jobs["submit_seconds"]).all()
    assert (found.jobs["completion_seconds"] >= found.jobs["run_seconds"] - 1e-6).all()
    for _, part in found.held.groupby("node"):
        moves = pd.concat(
            [
                pd.Series(part["accelerators"].to_numpy(), part["start_seconds"]),
                pd.Series(-part["accelerators"].to_numpy(), part["end_seconds"]),
            ]
        )
        assert moves.groupby(level=0).sum().cumsum().max() <= 8
    # a gang has all its accelerators or none, and is in one place at a time
    spells = found.held.groupby(["job_id", "start_seconds", "end_seconds"])["accelerators"].sum().reset_index()
    assert (spells["accelerators"] == spells["job_id"].map(jobs.set_index("job_id")["accelerators"])).all()
    following = spells.groupby("job_id")["start_seconds"].shift(-1)
    assert (following.isna() | (following >= spells["end_seconds"])).all()
    work = (found.held["accelerators"] * (found.held["end_seconds"] - found.held["start_seconds"])).sum()
    asked = (jobs["accelerators"] * jobs["duration_seconds"]).sum()
    if found.jobs["preemptions"].sum() == 0:
        assert work == pytest.approx(asked)
    assert work >= asked - 1e-6


LEAST = st.lists(st.integers(1, 20), min_size=25, max_size=25)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=JOBS,
    least=LEAST,
    policy=st.sampled_from(["fifo", "easy_backfill", "priority", "least_attained", "quota_borrowing", "time_slicing"]),
    shrinks=st.booleans(),
)
def test_elastic_jobs_do_the_work_they_came_with(rows, least, policy, shrinks):
    """With changes of size for nothing, accelerator-seconds held are those asked for, whether jobs only grow or shrink as well."""
    jobs = built(rows).assign(least_accelerators=[float(n) for n in least[: len(rows)]])
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0, quantum_seconds=60, shrink_elastic_jobs=shrinks, borrowing_share=10)
    found = simulate_cluster(jobs, cluster(3), policy, free)
    held = found.held["accelerators"] * (found.held["end_seconds"] - found.held["start_seconds"])
    assert held.sum() == pytest.approx((jobs["accelerators"] * jobs["duration_seconds"]).sum())
    assert found.jobs["end_seconds"].notna().all()
    assert found.occupancy["accelerators"].max() <= 24
    assert (found.jobs["held_seconds"] + found.jobs["queue_seconds"]).to_numpy() == pytest.approx(
        found.jobs["completion_seconds"].to_numpy()
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rows=JOBS, least=LEAST, policy=st.sampled_from(["fifo", "easy_backfill"]), pause=st.sampled_from([0.0, 2.0]))
def test_nobody_at_the_head_waits_for_what_elastic_jobs_could_give(rows, least, policy, pause):
    """On one node: whenever a job waits at the head, free accelerators and all held above the least are too few for it."""
    jobs = built(rows).assign(least_accelerators=[float(n) for n in least[: len(rows)]])
    found = simulate_cluster(jobs, cluster(1, 20), policy, changed(checkpoint_seconds=pause, job_restart_seconds=0.0))
    floor = np.minimum(jobs["least_accelerators"], jobs["accelerators"]).to_numpy()
    start, row = found.jobs["start_seconds"].to_numpy(), {name: index for index, name in enumerate(found.jobs["job_id"])}
    held = found.held.assign(floor=[floor[row[name]] for name in found.held["job_id"]])
    for at in np.unique(np.concatenate([found.jobs["submit_seconds"], found.jobs["end_seconds"]])):
        waiting = np.flatnonzero((found.jobs["submit_seconds"].to_numpy() <= at) & (start > at))
        now = held[(held["start_seconds"] <= at) & (held["end_seconds"] > at)]
        assert not len(waiting) or 20 - now["floor"].sum() < floor[waiting[0]]
    assert found.jobs["end_seconds"].notna().all()


def promised(job, at, jobs, held, nodes, size):
    """When a waiting job would start if nobody else came: running jobs leave by their ends until its gang has the fewest nodes."""
    free = dict.fromkeys(nodes, size)
    running = held[(held["start_seconds"] <= at) & (held["end_seconds"] > at) & ((held["row"] < job) | (held["start_seconds"] < at))]
    for row in running.itertuples():
        free[row.node] -= row.accelerators
    need = jobs["accelerators"][job]
    for leaving in sorted(running["leaves"].unique()):
        for row in running[running["leaves"] == leaving].itertuples():
            free[row.node] += row.accelerators
        if sum(sorted(free.values())[-math.ceil(need / size) :]) >= need:
            return leaving
    raise AssertionError("every job fits into the empty cluster")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=JOBS, late=st.sampled_from([1.0, 1.5, 3.0]), placement=st.sampled_from(["pack", "spread", "balanced"]))
def test_easy_keeps_what_it_promises_the_job_at_the_head(rows, late, placement):
    """The head never starts later than promised when its reservation is made, node by node; also by stated durations that are too long."""
    jobs = built(rows).assign(expected_seconds=lambda table: table["duration_seconds"] * late)
    found = simulate_cluster(jobs, cluster(4), "easy_backfill", changed(placement_rule=placement))
    start = found.jobs["start_seconds"].to_numpy()
    held = found.held.assign(row=found.held["job_id"].map({name: row for row, name in enumerate(found.jobs["job_id"])}))
    held["leaves"] = held["start_seconds"] + (held["end_seconds"] - held["start_seconds"]) * late
    moments = np.unique(np.concatenate([found.jobs["submit_seconds"], start, found.jobs["end_seconds"]]))
    for job in range(len(jobs)):
        head_since = max(found.jobs["submit_seconds"][job], start[:job].max(initial=0.0))
        # the promise is made anew at every event while the job is at the head, and must not move back
        promises = [
            promised(job, at, jobs, held, [f"n-{node}" for node in range(4)], 8)
            for at in moments[(moments >= head_since) & (moments < start[job])]
        ]
        assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(promises))
        assert not promises or start[job] <= promises[-1] + 1e-9


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(rows=JOBS, policy=st.sampled_from([Policy(backfill="easy"), Policy(backfill="skip"), Policy(order="expected", backfill="easy")]))
def test_looking_past_hopeless_jobs_changes_no_schedule(rows, policy):
    """A second kind of node that no job may use turns the short cuts off; every job must start and end at the same instant."""
    jobs = built(rows).assign(accelerator="H100")
    quick = simulate_cluster(jobs, cluster(4), policy, A).jobs
    nodes = pd.concat([cluster(4), cluster(1, 8, "A100").assign(node="other")], ignore_index=True)
    full = simulate_cluster(jobs, nodes, policy, A).jobs
    pd.testing.assert_frame_equal(quick[["start_seconds", "end_seconds"]], full[["start_seconds", "end_seconds"]])


def conservative_by_hand(submit, length, need, size):
    """Starts under conservative backfill on one node: at every event, each waiting job in order gets its earliest window."""
    start, last = [None] * len(submit), 0
    while None in start:
        moments = {*submit, *(begin + length[job] for job, begin in enumerate(start) if begin is not None)}
        for now in sorted(moment for moment in moments if moment >= last):
            busy = [(begin, begin + length[job], need[job]) for job, begin in enumerate(start) if begin is not None]
            taken = [spell for spell in busy if spell[0] <= now < spell[1]]
            new = []
            for job in (row for row in range(len(submit)) if start[row] is None and submit[row] <= now):
                for begin in sorted({now, *(end for _, end, _ in taken)}):
                    at = [begin, *(first for first, _, _ in taken if begin < first < begin + length[job])]
                    if begin >= now and all(sum(n for first, last, n in taken if first <= when < last) + need[job] <= size for when in at):
                        break
                taken.append((begin, begin + length[job], need[job]))
                if begin == now:
                    new.append(job)
            if new:
                for job in new:
                    start[job] = now
                last = now
                break
    return start


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=14))
def test_conservative_backfill_equals_windows_by_hand(rows):
    rows = sorted(rows, key=lambda row: row[0])
    submit, length, need = (list(column) for column in zip(*rows, strict=True))
    found = simulate_cluster(trace(submit, length, need), cluster(1), "conservative_backfill", A).jobs["start_seconds"].tolist()
    assert found == [begin - submit[0] for begin in conservative_by_hand(submit, length, need, 8)]


def test_easy_fills_holes_but_keeps_the_reservation():
    jobs = trace([0, 1, 2, 3], [100, 50, 90, 200], [24, 32, 8, 8])
    ends = simulate_cluster(jobs, cluster(4), "easy_backfill", A).jobs["start_seconds"].tolist()
    assert ends == [0, 100, 2, 150]
    assert simulate_cluster(jobs, cluster(4), "fifo", A).jobs["start_seconds"].tolist() == [0, 100, 150, 150]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_nothing_idles_while_a_job_of_one_accelerator_waits(policy):
    generator = np.random.default_rng(2)
    jobs = trace(
        np.sort(generator.uniform(0, 500, 300)),
        generator.exponential(40, 300),
        np.ones(300),
        team=generator.choice(["a", "b"], 300),
        priority=generator.choice([0.0, 1.0], 300),
    )
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0, quantum_seconds=60, borrowing_share=10)
    found = simulate_cluster(jobs, cluster(2), policy, free)
    busy = found.occupancy[found.occupancy["waiting_jobs"] > 0]
    assert len(busy)
    assert (busy["accelerators"] == 16).all()


def test_order_of_policies():
    jobs = trace([0, 1, 2, 3], [100, 30, 10, 20], [8, 8, 8, 8], priority=[0.0, 0.0, 0.0, 5.0])
    free = {"checkpoint_seconds": 0.0, "job_restart_seconds": 0.0}

    def ends(policy):
        return simulate_cluster(jobs, cluster(1), policy, changed(**free)).jobs["end_seconds"].tolist()

    assert ends("fifo") == [100, 130, 140, 160]
    assert ends("shortest_first") == [100, 160, 110, 130]
    assert ends("shortest_remaining") == [160, 61, 12, 32]
    assert ends("priority") == [120, 150, 160, 23]
    due = jobs.assign(deadline=START + pd.to_timedelta([100, 500, 400, 300], unit="s"))
    assert simulate_cluster(due, cluster(1), "deadline_first", A).jobs["end_seconds"].tolist() == [100, 160, 130, 120]


def test_shortest_remaining_goes_by_what_is_predicted():
    """The second job is said to be short and is long: it displaces the first, and keeps its place while its prediction has run out."""
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0)
    jobs = trace([0, 10], [100, 100], [8, 8], expected_seconds=[100.0, 20.0])
    assert simulate_cluster(jobs, cluster(1), "shortest_remaining", free).jobs["end_seconds"].tolist() == [200, 110]
    known = jobs.assign(expected_seconds=np.nan)
    assert simulate_cluster(known, cluster(1), "shortest_remaining", free).jobs["end_seconds"].tolist() == [100, 200]


def test_turns_and_least_service_by_hand():
    """Two jobs of 150 s and turns of 60 s: each runs in turn; with costs, every change of hands is paid for by the one that comes back."""
    jobs = trace([0, 0], [150, 150], [8, 8])
    free = {"quantum_seconds": 60, "checkpoint_seconds": 0.0, "job_restart_seconds": 0.0}
    found = simulate_cluster(jobs, cluster(1), "time_slicing", changed(**free)).jobs
    assert found["end_seconds"].tolist() == [270, 300]
    assert found["preemptions"].tolist() == [2, 2]
    paid = simulate_cluster(
        jobs, cluster(1), "time_slicing", changed(**{**free, "checkpoint_seconds": 1.0, "job_restart_seconds": 2.0})
    ).jobs
    assert paid["held_seconds"].sum() == 300 + 3 * paid["preemptions"].sum()
    late = trace([0, 100], [150, 30], [8, 8])
    # after 100 s the first has had more service than the newcomer, who runs at once
    assert simulate_cluster(late, cluster(1), "least_attained", changed(**free)).jobs["end_seconds"].tolist() == [180, 130]


def test_old_usage_fades_in_fair_share():
    """Team a ran alone for a while; whether it must wait for b afterwards depends on how fast that is forgotten."""
    jobs = trace([0, 9000, 9000, 9001, 9001], [3600, 1, 100, 100, 100], [8] * 5, team=["a", "c", "c", "a", "b"])
    long, short = (
        simulate_cluster(jobs, cluster(1), "fair_share", changed(fair_share_half_life_hours=hours, quantum_seconds=60))
        .jobs["start_seconds"]
        .tolist()
        for hours in (168, 0.001)
    )
    assert long[4] < long[3]
    assert short[3] < short[4]


def test_where_jobs_are_put_and_what_that_leaves():
    """Two jobs of four on two nodes: packed on one of them, or spread; a gang of two nodes stays in one rack where the rule is locality."""
    jobs = trace([0, 0, 20], [100, 100, 1], [4, 4, 1])
    frayed = {}
    for placement in ("pack", "spread", "balanced"):
        found = simulate_cluster(jobs, cluster(2), "fifo", changed(placement_rule=placement))
        first = found.held[found.held["job_id"].isin(["j0", "j1"])]
        assert first["node"].nunique() == (1 if placement == "pack" else 2)
        frayed[placement] = found.measure("fragmentation_share")
    assert frayed == {"pack": 0.0, "spread": 1.0, "balanced": 1.0}
    racks = pd.DataFrame(
        {"node": list("abcd"), "accelerator": "H100", "accelerator_count": 8, "nodes": 1, "domain": ["r1", "r2", "r1", "r2"]}
    )
    gangs = trace([0, 0], [10, 10], [4, 16])
    held = simulate_cluster(gangs, racks, "fifo", changed(placement_rule="locality")).held
    assert set(held.loc[held["job_id"] == "j1", "node"]) in ({"a", "c"}, {"b", "d"})
    # no rack is free: across racks the gang runs slower by the stated share, where it may at all
    full = trace([0, 0, 0], [100, 100, 10], [8, 8, 16])
    odd = racks.assign(domain=["r1", "r1", "r2", "r3"])
    wait, go = (
        simulate_cluster(full, odd, "fifo", changed(placement_rule="locality", allow_scatter=scatter, scatter_slowdown_share=0.5)).jobs
        for scatter in (False, True)
    )
    assert wait["start_seconds"][2] == 100
    assert go["end_seconds"][2] == 15


def test_measures_by_hand():
    """Two teams on eight accelerators: b's job waits for a's, misses its deadline, and does worse than on its half of the cluster."""
    jobs = trace([0, 0, 100], [100, 100, 10], [8, 8, 1], team=["a", "b", "b"], deadline=START + pd.to_timedelta([100, 199, 300], unit="s"))
    found = simulate_cluster(jobs, cluster(1), "fifo", A)
    assert found.jobs["queue_seconds"].tolist() == [0, 100, 100]
    assert found.jobs["slowdown"].tolist() == [1, 2, 11]
    assert found.jobs["deadline_missed"].tolist() == [False, True, False]
    values = found.measures.set_index("measure")["value"]
    assert values["queue_mean"] == pytest.approx(200 / 3)
    assert values["deadline_missed_share"] == pytest.approx(1 / 3)
    assert values["allocated_share"] == 1.0
    assert values["goodput_share"] == 1.0
    # on half the cluster a job of eight takes 200 s, of one 10 s: 100 / 200, 200 / 200, 110 / 10
    assert values["fairness_p90"] == pytest.approx(np.quantile([0.5, 1.0, 11.0], 0.9))
    assert found.by_team.set_index("team")["accelerator_hours"].to_dict() == pytest.approx({"a": 800 / 3600, "b": 810 / 3600})
    assert found.by_size.set_index("size")["queue_p90_seconds"].to_dict() == {"1": 100, "5 to 8": 90}
    lost = simulate_cluster(
        trace([0, 50], [100, 10], [8, 8], priority=[0.0, 1.0]), cluster(1), "priority", changed(checkpoint_seconds=5, job_restart_seconds=5)
    )
    assert lost.measure("goodput_share") == pytest.approx(110 / 120)


def test_fair_share_converges_to_the_shares():
    count = 1200
    jobs = trace(np.zeros(count), np.full(count, 100.0), np.ones(count), team=["a", "b"] * (count // 2))
    found = simulate_cluster(jobs, cluster(2), "fair_share", changed(quantum_seconds=60), shares={"a": 3.0, "b": 1.0})
    first = found.held[found.held["end_seconds"] <= 3000].merge(found.jobs[["job_id", "team"]], on="job_id")
    used = first.groupby("team")["accelerators"].sum()
    assert used["a"] / used.sum() == pytest.approx(0.75, abs=0.03)


def test_quotas_lend_and_take_back():
    jobs = trace([0, 0, 10], [100, 100, 50], [8, 8, 8], team=["a", "a", "b"])
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0)
    found = simulate_cluster(jobs, cluster(2), "quota_borrowing", free).jobs
    assert found["start_seconds"].tolist() == [0, 0, 10]
    assert sorted(found["preemptions"]) == [0, 0, 1]
    # more teams than accelerators: those without a whole one of their own borrow
    many = simulate_cluster(trace([0, 0, 0], [10, 10, 10], [1, 1, 1], team=["a", "b", "c"]), cluster(1, 1), "quota_borrowing", free).jobs
    assert sorted(many["start_seconds"]) == [0, 10, 20]
    closed = simulate_cluster(jobs, cluster(2), "quota_borrowing", changed(borrowing_share=0.0)).jobs
    assert closed["start_seconds"].tolist() == [0, 100, 10]


def test_a_team_over_its_quota_keeps_nobody_else_waiting():
    jobs = trace(np.arange(8.0), np.full(8, 100.0), np.full(8, 8.0), team=["a"] * 7 + ["b"])
    tight = changed(borrowing_share=0.0, backfill_depth=2)
    assert simulate_cluster(jobs, cluster(2), "quota_borrowing", tight).jobs["start_seconds"].tolist() == [
        0,
        100,
        200,
        300,
        400,
        500,
        600,
        7,
    ]


def test_a_gang_is_pieced_together_on_uneven_nodes():
    """Nodes of 4, 4, 8 and 4: a gang of 15 takes 8, 4 and 3; with part of one taken, the rest is gathered from what is left."""
    nodes = pd.DataFrame({"node": list("abcd"), "accelerator": "H100", "accelerator_count": [4, 4, 8, 4]})
    scatter = changed(allow_scatter=True, scatter_slowdown_share=0.0)
    held = simulate_cluster(trace([0], [10], [15]), nodes, "fifo", scatter).held
    assert sorted(held["accelerators"]) == [3, 4, 8]
    found = simulate_cluster(
        trace([0, 0, 0, 0], [100, 100, 100, 10], [1, 3, 3, 13]), nodes, "fifo", scatter.model_copy(update={"placement_rule": "spread"})
    )
    assert found.jobs["start_seconds"].tolist() == [0, 0, 0, 0]
    assert found.held.loc[found.held["job_id"] == "j3", "accelerators"].sum() == 13
    # racks of 12 and 8: where gangs stay in a rack, one of 16 has no place and is named
    racks = nodes.assign(domain=["r1", "r2", "r1", "r2"])
    with pytest.raises(CapplanError, match="j0 has no compact place in one domain"):
        simulate_cluster(trace([0], [10], [16]), racks, "fifo", changed(placement_rule="locality"))


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"conservative_backfill"}))
def test_everything_at_once_keeps_every_node_within_its_size(policy):
    """Uneven nodes of two kinds that come and go, parts, elastic jobs and gangs: all end, waits and runs add up, no node is overfull."""
    for seed in range(4):
        draw = np.random.default_rng(seed)
        nodes = pd.DataFrame(
            {"node": list("abcdef"), "accelerator": ["H100"] * 4 + ["A100"] * 2, "accelerator_count": draw.choice([2, 4, 8], 6)}
        )
        largest = nodes.groupby("accelerator")["accelerator_count"].sum().max()
        count = 40
        jobs = trace(
            np.sort(draw.integers(0, 300, count)),
            draw.integers(0, 200, count),
            np.where(draw.uniform(size=count) < 0.3, draw.choice([0.1, 0.25, 0.6], count), draw.integers(1, largest, count)),
            team=draw.choice(["a", "b"], count),
            priority=draw.integers(0, 3, count) * 1.0,
            least_accelerators=np.where(draw.uniform(size=count) < 0.5, draw.integers(1, 9, count), np.nan),
        )
        away = pd.DataFrame(
            {
                "time": START + pd.to_timedelta([50, 90, 200, 260], unit="s"),
                "node": ["a", "e", "a", "e"],
                "available": [False, False, True, True],
            }
        )
        a = changed(
            allow_scatter=True,
            placement_rule=["pack", "spread", "balanced", "locality"][seed],
            partition_rule=["any_size", "mig"][seed % 2],
            quantum_seconds=60,
            borrowing_share=10,
            checkpoint_seconds=2.0,
            job_restart_seconds=1.0,
        )
        found = simulate_cluster(jobs, nodes, policy, a, changes=away)
        assert found.jobs["end_seconds"].notna().all()
        assert (found.jobs["held_seconds"] + found.jobs["queue_seconds"]).to_numpy() == pytest.approx(
            found.jobs["completion_seconds"].to_numpy()
        )
        first = (jobs["submit"].min() - START).total_seconds()
        for node, part in found.held.groupby("node"):
            moves = pd.concat(
                [
                    pd.Series(part["accelerators"].to_numpy(), part["start_seconds"]),
                    pd.Series(-part["accelerators"].to_numpy(), part["end_seconds"]),
                ]
            )
            assert moves.groupby(level=0).sum().cumsum().max() <= nodes.set_index("node").loc[node, "accelerator_count"] + 1e-6
            if node in ("a", "e"):
                gone, back = ({"a": (50, 200), "e": (90, 260)}[node][place] - first for place in (0, 1))
                assert not ((part["start_seconds"] < back) & (part["end_seconds"] > gone)).any()


def test_shared_accelerators_and_their_interference():
    jobs = trace([0, 0, 0, 0], [10, 10, 10, 10], [0.5, 0.5, 0.6, 1.0])
    found = simulate_cluster(jobs, cluster(1, 2), "fifo", A).jobs
    assert found["start_seconds"].tolist() == [0, 0, 0, 10]
    slower = simulate_cluster(jobs, cluster(1, 2), "fifo", changed(sharing_slowdown_share=0.5))
    assert slower.jobs["end_seconds"].tolist()[:3] == [15, 15, 15]
    assert "run 50% longer" in slower.notes[1]
    assert "parts of any size" in slower.notes[0]


def test_speed_by_kind_elastic_jobs_and_scatter():
    mixed = pd.concat([cluster(1, 8, "A100"), cluster(1, 8, "H100").assign(node="m")], ignore_index=True)
    speeds = pd.DataFrame({"workload": "w", "accelerator": ["A100", "H100"], "work_per_accelerator_hour": [1.0, 2.0]})
    jobs = trace([0, 0], [10, 10], [8, 8], workload="w")
    assert simulate_cluster(jobs, mixed, "fifo", A, speeds=speeds).jobs["end_seconds"].tolist() == [10, 20]
    elastic = trace([0, 0], [10, 10], [6, 8], least_accelerators=[6.0, 1.0])
    # saving and loading again would cost more than growing saves; where they cost nothing it takes all eight after ten seconds
    assert simulate_cluster(elastic, cluster(1), "fifo", A).jobs["end_seconds"].tolist() == [10, 40]
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0)
    grown = simulate_cluster(elastic, cluster(1), "fifo", free)
    assert grown.jobs["end_seconds"].tolist() == [10, 17.5]
    assert grown.jobs["preemptions"].tolist() == [0, 0]
    assert (
        simulate_cluster(elastic, cluster(1), "fifo", changed(checkpoint_seconds=1.0, job_restart_seconds=2.0)).jobs["end_seconds"][1]
        == 20.5
    )
    split = trace([0, 0, 0], [10, 10, 10], [6, 6, 4])
    found = simulate_cluster(split, cluster(2), "fifo", changed(allow_scatter=True, scatter_slowdown_share=0.5)).jobs
    assert found["end_seconds"].tolist() == [10, 10, 15]
    assert found["nodes"].tolist() == [1, 1, 2]


def test_elastic_jobs_shrink_for_who_waits_and_take_it_back():
    """Eight accelerators, four of which the second job needs for 30 s: the first goes on at half its speed and takes them back."""
    jobs = trace([0, 10], [100, 30], [8, 4], least_accelerators=[2.0, np.nan])
    for costs, ends, held in ((0.0, [115, 40], 115), (1.5, [119.5, 40], 119.5)):
        a = changed(checkpoint_seconds=costs, job_restart_seconds=costs)
        found = simulate_cluster(jobs, cluster(1), "fifo", a)
        assert found.jobs["end_seconds"].tolist() == ends
        assert found.jobs["held_seconds"][0] == held
        assert (found.jobs["resizes"][0], found.measure("preemptions"), found.measure("resizes")) == (2, 0, 2)
        # it gives no more than is wanted
        assert found.held.loc[found.held["start_seconds"] == 10, "accelerators"].tolist() == [4, 4]
    fixed = simulate_cluster(jobs, cluster(1), "fifo", changed(shrink_elastic_jobs=False))
    assert fixed.jobs["start_seconds"].tolist() == [0, 100]
    # jobs of 6 and 8 stay at what they must have: the one with most to give goes first, and the two together make room for a gang of two
    # nodes
    two = trace([0, 0, 10], [100, 100, 10], [8, 8, 10], least_accelerators=[2.0, 4.0, np.nan])
    found = simulate_cluster(two, cluster(2), "fifo", changed(checkpoint_seconds=0.0, job_restart_seconds=0.0))
    assert found.jobs["start_seconds"].tolist() == [0, 0, 10]
    assert found.held.loc[found.held["start_seconds"] == 10].groupby("job_id")["accelerators"].sum().to_dict() == {
        "j0": 2,
        "j1": 4,
        "j2": 10,
    }
    # an urgent job gives nothing to one that is less so, under a policy that goes by urgency
    urgent = jobs.assign(priority=[1.0, 0.0])
    assert simulate_cluster(urgent, cluster(1), "priority", A).jobs["start_seconds"].tolist() == [0, 100]
    assert simulate_cluster(urgent.assign(priority=[0.0, 1.0]), cluster(1), "priority", A).jobs["start_seconds"].tolist() == [0, 10]


def fits_by_hand(sizes, taken=0):
    """Can MIG partitions of these sizes stand on one accelerator together? Width and places of each from NVIDIA's table."""
    if not sizes:
        return True
    width, places = {1: (1, range(7)), 2: (2, (0, 2, 4)), 3: (4, (0, 4)), 4: (4, (0,)), 7: (8, (0,))}[sizes[0]]
    masks = (((1 << width) - 1) << place for place in places)
    return any(not taken & mask and fits_by_hand(sizes[1:], taken | mask) for mask in masks)


def test_partitions_stand_where_hardware_lets_them():
    """All combinations of six to eight slices, the largest first: they run together exactly where there are places for them."""
    mig = changed(partition_rule="mig")
    for count in range(1, 9):
        for sizes in (found for found in itertools.combinations_with_replacement((7, 4, 3, 2, 1), count) if 6 <= sum(found) <= 8):
            jobs = trace(np.zeros(count), np.full(count, 10.0), [min(size / 7, 0.999) for size in sizes])
            found = simulate_cluster(jobs, cluster(1, 1), "fifo", mig)
            assert (found.jobs["start_seconds"].max() == 0) == fits_by_hand(sizes)
            assert found.occupancy["accelerators"].max() <= 1 + 1e-9
    # most of each: 7, 3, 2, 1 and 1
    for size, most in ((1, 7), (2, 3), (3, 2), (4, 1), (7, 1)):
        jobs = trace(np.zeros(8), np.full(8, 10.0), np.full(8, min(size / 7, 0.999)))
        assert (simulate_cluster(jobs, cluster(1, 1), "fifo", mig).jobs["start_seconds"] == 0).sum() == most
    # three halves: of any size, two fit on one accelerator; a half is a partition of four slices, of which there is one
    halves = trace([0, 0, 0], [10, 10, 10], [0.5, 0.5, 0.5])
    assert simulate_cluster(halves, cluster(1, 1), "fifo", A).jobs["start_seconds"].tolist() == [0, 0, 10]
    found = simulate_cluster(halves, cluster(1, 1), "fifo", mig)
    assert found.jobs["start_seconds"].tolist() == [0, 10, 20]
    assert "14% more than was asked for" in found.notes[0]


def test_failures_and_capacity_that_comes_and_goes():
    jobs = trace([0], [5000], [8])
    away = pd.DataFrame({"time": START + pd.to_timedelta([1000, 2000], unit="s"), "node": "n", "available": [False, True]})
    found = simulate_cluster(jobs, cluster(1), "fifo", changed(checkpoint_seconds=60, job_restart_seconds=120), changes=away).jobs
    assert found["end_seconds"].tolist() == [2000 + 180 + 4000]
    often = changed(node_failures_per_node_day=1.0, node_repair_hours=1)
    hurt = simulate_cluster(trace([0] * 40, [40000] * 40, [8] * 40), cluster(4), "fifo", often)
    assert hurt.measure("lost_hours") > 0
    assert hurt.measure("goodput_share") < 1
    assert hurt.jobs["end_seconds"].notna().all()


def test_capacity_curve_falls_and_names_the_smallest():
    generator = np.random.default_rng(3)
    jobs = trace(np.sort(generator.uniform(0, 20 * 86400, 1500)), generator.exponential(9000, 1500), generator.choice([1, 2, 4, 8], 1500))
    found = capacity_curve(jobs, cluster(4), "fifo", changed(curve_sizes=5, curve_resamples=2))
    assert found.curve["queue_mean_seconds"].is_monotonic_decreasing
    assert (found.curve["low_seconds"] <= found.curve["high_seconds"]).all()
    assert found.smallest in found.curve["accelerators"].to_list()


def test_bad_input_is_named():
    nodes = cluster(2)
    for jobs, words in (
        (trace([0], [1], [17]), "larger than the cluster"),
        (trace([0], [-1], [1]), "less than nothing"),
        (trace([0], [np.nan], [1]), "none can be predicted"),
        (trace([0], [1], [1], accelerator="B200"), "which no node has"),
        (trace([0], [1], [1.5]), "whole ones, or a part of one"),
        (trace([], [], []), "no rows"),
        (trace([0, 1], [1, np.inf], [1, 1]), "j1 has duration_seconds inf"),
        (trace([0, 1], [1, 1], [np.nan, -1]), r"j0 has accelerators nan \(and 1 more"),
        (trace([0], [1], [1], expected_seconds=0.0), "j0 has expected_seconds 0.0"),
        (trace([0], [1], [4], least_accelerators=0.5), "j0 has least_accelerators 0.5"),
        (trace([0], [1], [1]).drop(columns="submit"), "no column submit"),
        (trace([0], [1], [1]).drop(columns="duration_seconds"), "none can be predicted"),
        (trace([0], [1], [1]).assign(submit="soon"), "'soon' is no instant"),
        (trace([0], [1], [1]).assign(submit=pd.NaT), "no submit time"),
        (pd.concat([trace([0], [1], [1])] * 2), "j0 stands there more than once"),
    ):
        with pytest.raises(CapplanError, match=words):
            simulate_cluster(jobs, nodes, "fifo", A)
    one = trace([0], [1], [1], workload="w")
    for wrong, words in (
        (nodes.head(0), "no rows"),
        (nodes.assign(accelerator_count=0), "no node has an accelerator"),
        (nodes.assign(nodes=0), "n has nodes 0"),
        (nodes.assign(accelerator_count=1.5), "whole number"),
        (nodes.assign(accelerator=None), "does not say which accelerator"),
        (nodes.drop(columns="accelerator"), "no column accelerator"),
    ):
        for verb in (lambda table: simulate_cluster(one, table, "fifo", A), lambda table: capacity_curve(one, table, "fifo", A)):
            with pytest.raises(CapplanError, match=words):
                verb(wrong)
    slow = pd.DataFrame({"workload": "w", "accelerator": ["A100"], "work_per_accelerator_hour": [0.0]})
    both = pd.concat([nodes, cluster(1, 4, "A100")])
    with pytest.raises(CapplanError, match="no speed above 0 on A100"):
        simulate_cluster(one.assign(accelerator="A100"), both, "fifo", A, speeds=slow)
    with pytest.raises(CapplanError, match="no compact place"):
        simulate_cluster(trace([0], [1], [6]), pd.concat([cluster(1, 4), cluster(2, 1)]), "fifo", A)
    with pytest.raises(CapplanError, match="shares: shared has -1"):
        simulate_cluster(one, nodes, "fair_share", A, shares={"shared": -1.0})
    with pytest.raises(CapplanError, match="did you mean"):
        simulate_cluster(trace([0], [1], [1]), nodes, "fifos", A)
    with pytest.raises(CapplanError, match="neither displacing"):
        Policy(backfill="conservative", fair_share=True)
    with pytest.raises(CapplanError, match="has only"):
        resized(nodes, -16)
    with pytest.raises(CapplanError, match="one node with accelerators must be left"):
        resized(
            pd.concat([nodes, nodes.head(1).assign(node="cpus", accelerator_count=0)], ignore_index=True),
            -int((nodes["accelerator_count"] * nodes.get("nodes", 1)).sum()),
        )
    found = simulate_cluster(trace([5, 0], [1, np.nan], [1, 1]), nodes, "fifo", A)
    assert found.jobs["predicted"].tolist() == [True, False]
    assert len(found.notes) == 2
    assert simulate_cluster(trace([0], [1], [1]), nodes, "fifo", A).jobs["end_seconds"].tolist() == [1]


def test_tables_may_come_as_they_are():
    """Rows of the same index, instants with a zone or as text, names that are numbers, nodes that come in several rows of one name."""
    nodes = pd.concat([cluster(1, 4), cluster(1, 4)])
    assert simulate_cluster(trace([0, 0], [10, 10], [4, 4]), nodes, "fifo", A).measure("accelerators") == 8
    jobs = trace([0, 5, 9], [10, 10, 10], [4, 4, 4], team=["a", None, "b"])
    plain = simulate_cluster(jobs, nodes, "fair_share", A).jobs
    zoned = jobs["submit"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    for same in (
        jobs.set_axis([7, 7, 7]),
        jobs.assign(submit=zoned),
        jobs.assign(submit=zoned.astype(str)),
        jobs.assign(accelerator=["", None, "H100"]),
    ):
        pd.testing.assert_frame_equal(simulate_cluster(same, nodes, "fair_share", A).jobs, plain)
    assert simulate_cluster(jobs.assign(job_id=[1, 2, 3]), nodes, "fifo", A).jobs["job_id"].tolist() == ["1", "2", "3"]


@pytest.mark.slow
def test_philly_orderings():
    """Figures of HeliosArtifact on all virtual clusters: FIFO > SJF > SRTF in completion time, and completion minus wait is the same."""
    raw = pd.read_csv(reference_file("data", "gpu_jobs", "philly_jobs.csv.gz"), parse_dates=["timestamp"])
    jobs = pd.DataFrame(
        {
            "job_id": raw.index.astype(str),
            "submit": raw["timestamp"],
            "duration_seconds": raw["duration"],
            "accelerators": raw["num_gpus"] * 1.0,
        }
    )
    free = changed(checkpoint_seconds=0.0, job_restart_seconds=0.0)
    done, run = {}, {}
    for policy in ("fifo", "shortest_first", "shortest_remaining"):
        found = simulate_cluster(jobs, cluster(75), policy, free)
        done[policy] = found.measure("completion_mean")
        run[policy] = done[policy] - found.measure("queue_mean")
    assert done["fifo"] > done["shortest_first"] > done["shortest_remaining"]
    assert run["fifo"] == pytest.approx(run["shortest_first"]) == pytest.approx(jobs["duration_seconds"].mean())
    assert run["shortest_remaining"] == pytest.approx(run["fifo"], rel=1e-6)


@pytest.mark.slow
def test_alibaba_pods_never_exceed_a_node():
    pods = pd.read_csv(reference_file("data", "gpu_jobs", "alibaba_gpu_v2023_pods.csv"))
    raw = pd.read_csv(reference_file("data", "gpu_jobs", "alibaba_gpu_v2023_nodes.csv"))
    pods = pods[(pods["num_gpu"] > 0) & pods["scheduled_time"].notna()]
    jobs = trace(
        pods["creation_time"],
        pods["deletion_time"] - pods["scheduled_time"],
        np.where(pods["num_gpu"] == 1, pods["gpu_milli"] / 1000, pods["num_gpu"]),
    ).sort_values("submit", kind="stable")
    nodes = pd.DataFrame({"node": raw["sn"], "accelerator": "any", "accelerator_count": raw["gpu"], "nodes": 1})
    sizes = raw.set_index("sn")["gpu"]
    assert sizes.sum() == 6212
    # conservative backfill takes no shared accelerators
    for policy, placement in zip(sorted(set(POLICIES) - {"conservative_backfill"}), itertools.cycle(["pack", "spread", "balanced"])):
        held = simulate_cluster(jobs, nodes, policy, changed(placement_rule=placement)).held
        moves = pd.concat(
            [
                held[["node", "start_seconds", "accelerators"]].rename(columns={"start_seconds": "at"}),
                held.assign(accelerators=-held["accelerators"])[["node", "end_seconds", "accelerators"]].rename(
                    columns={"end_seconds": "at"}
                ),
            ]
        )
        level = moves.groupby(["node", "at"])["accelerators"].sum().groupby(level=0).cumsum().groupby(level=0).max()
        assert (level <= sizes.reindex(level.index) + 1e-6).all()
