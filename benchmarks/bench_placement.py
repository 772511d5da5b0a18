"""Placement: the list scheduler against HEFT in plain Python, growth, and the proof beside a time-indexed program.

Every figure is a ratio or a gap within one run. HEFT in plain Python follows Topcuoglu, Hariri and Wu (2002) line by line; both must give
the same makespan.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.questions.placement import place_tasks
from capplan.questions.placement.methods import heft, ranked
from capplan.questions.placement.problem import build
from tests.cases.placement_checker import of_three_kinds, random_pipeline
from tests.cases.time_indexed import least_makespan

#: 8 Gbit/s are a gigabyte a second; nothing is taken for what stays on its node.
FREE = PlacementAssumptions(rack_gbit_per_second=8.0, site_gbit_per_second=8.0, node_gbit_per_second=None, shared_links=False)
KINDS = 4


def pipeline(count: int, machines: int, seed: int = 1):
    """Tasks that each wait for up to three among the 400 before them, on single-task nodes of four kinds."""
    generator = np.random.default_rng(seed)
    tasks = pd.DataFrame({"task_id": [f"t{at}" for at in range(count)], "cpus": 1.0})
    target = np.repeat(np.arange(1, count), generator.integers(1, 4, count - 1))
    source = np.maximum(target - generator.integers(1, 400, len(target)), 0)
    edges = pd.DataFrame({"one": source, "other": target}).drop_duplicates(ignore_index=True)
    edges["data_gb"] = generator.integers(1, 20, len(edges)) * 3600.0
    nodes = pd.DataFrame(
        {
            "node": [f"n{at}" for at in range(machines)],
            "accelerator": "",
            "accelerator_count": 0,
            "cpus": 1.0,
            "domain": "rack",
            "kind": [f"kind-{at % KINDS}" for at in range(machines)],
        }
    )
    hours = generator.integers(5, 40, (count, KINDS)).astype(float)
    durations = pd.DataFrame(
        {
            "task_id": np.repeat(tasks["task_id"], KINDS).to_numpy(),
            "runs_on": np.tile([f"kind-{at}" for at in range(KINDS)], count),
            "duration_hours": hours.ravel(),
        }
    )
    names = edges.assign(from_task=tasks["task_id"].to_numpy()[edges["one"]], to_task=tasks["task_id"].to_numpy()[edges["other"]])
    return tasks, names[["from_task", "to_task", "data_gb"]], nodes, durations, hours, edges


def textbook_heft(hours: np.ndarray, edges: pd.DataFrame, machines: int) -> float:
    """HEFT as the paper writes it, in plain Python: upward ranks, then each task on the processor where insertion lets it end first."""
    count = len(hours)
    before, after = [[] for _ in range(count)], [[] for _ in range(count)]
    for one, other, size in zip(edges["one"].tolist(), edges["other"].tolist(), (edges["data_gb"] / 3600).tolist(), strict=True):
        before[other].append((one, size))
        after[one].append((other, size))
    cost = [[row[at % KINDS] for at in range(machines)] for row in hours.tolist()]
    rank = [0.0] * count
    for task in range(count - 1, -1, -1):
        rank[task] = sum(cost[task]) / machines + max((size + rank[other] for other, size in after[task]), default=0.0)
    busy: list[list[tuple[float, float]]] = [[] for _ in range(machines)]
    place, end = [0] * count, [0.0] * count
    for task in sorted(range(count), key=lambda task: (-round(rank[task], 9), task)):
        best = None
        for machine in range(machines):
            ready = 0.0
            for one, size in before[task]:
                arrival = end[one] + (0.0 if place[one] == machine else size)
                ready = max(ready, arrival)
            start, length = ready, cost[task][machine]
            for begin, finish in busy[machine]:
                if start + length <= begin:
                    break
                start = max(start, finish)
            if best is None or start + length < best[0]:
                best = (start + length, start, machine)
        end[task], start, place[task] = best
        slots = busy[place[task]]
        at = len(slots)
        while at and slots[at - 1][0] > start:
            at -= 1
        slots.insert(at, (start, end[task]))
    return max(end)


def test_heft_beside_the_textbook_in_plain_python():
    tasks, edges, nodes, durations, hours, plain = pipeline(10_000, 200)
    problem = build(tasks, edges, nodes, None, FREE, durations)
    heft(problem, ranked(problem, np.zeros(len(tasks))))
    ours = []
    for _ in range(3):
        begin = time.process_time()
        found = heft(problem, ranked(problem, np.zeros(len(tasks))))
        ours.append(time.process_time() - begin)
    begin = time.process_time()
    makespan = textbook_heft(hours, plain, 200)
    textbook = time.process_time() - begin
    print(
        f"\nHEFT, 10,000 tasks on 200 nodes: {min(ours):.3f} s, plain Python {textbook:.2f} s, {textbook / min(ours):.0f} times; makespan"
        f" {found.end.max():g} and {makespan:g}"
    )
    assert found.end.max() == pytest.approx(makespan)
    assert textbook / min(ours) >= 20


def test_growth_is_near_linear():
    seconds = {}
    for count in (10_000, 30_000, 100_000):
        tasks, edges, nodes, durations, _, _ = pipeline(count, 200)
        problem = build(tasks, edges, nodes, None, FREE, durations)
        heft(problem, ranked(problem, np.zeros(count)))
        # time of this process: other work on the machine must not count
        begin = time.process_time()
        heft(problem, ranked(problem, np.zeros(count)))
        seconds[count] = time.process_time() - begin
    # n log n would be 12.5
    assert seconds[100_000] / seconds[10_000] < 15
    print(
        "\nHEFT on 200 nodes: "
        + ", ".join(f"{count:,} tasks {value:.2f} s" for count, value in seconds.items())
        + f"; ten times the tasks take {seconds[100_000] / seconds[10_000]:.1f} times as long"
    )


def test_the_proof_beside_a_time_indexed_program():
    """Ten pipelines of 30 tasks on 8 nodes of three kinds: CP-SAT with our formulation, and HiGHS with a binary for every start."""
    rows = []
    for seed in range(10):
        tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 30, 8, plain=True)
        nodes, durations = of_three_kinds(tasks, nodes)
        begin = time.process_time()
        ours = place_tasks(tasks, edges, nodes, None, FREE, durations=durations)
        seconds = time.process_time() - begin
        value, bound = least_makespan(tasks, edges, nodes, durations, int(ours.makespan_hours), seconds=60.0)
        rows.append((seed, len(edges), seconds, ours.makespan_hours, ours.bound, ours.gap_share, value, bound))
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows, columns=["seed", "edges", "seconds", "end", "bound", "gap", "time-indexed end", "time-indexed bound"])
    print("\n" + table.round(3).to_string(index=False))
    assert (table["gap"] == 0).all()
    assert table["seconds"].max() < 30
    # neither may contradict the other: no schedule is below the other's bound
    assert (table["end"] >= table["time-indexed bound"] - 1e-6).all()
    assert (table["time-indexed end"] >= table["bound"] - 1e-6).all()
