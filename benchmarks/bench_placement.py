"""Placement: the list scheduler against HEFT in plain Python, growth, and the program against CP-SAT on ten pipelines.

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
from tests.cases.placement_checker import random_pipeline

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
    assert seconds[100_000] / seconds[10_000] < 20
    print(
        "\nHEFT on 200 nodes: "
        + ", ".join(f"{count:,} tasks {value:.2f} s" for count, value in seconds.items())
        + f"; ten times the tasks take {seconds[100_000] / seconds[10_000]:.1f} times as long"
    )


def instance(seed: int):
    """A pipeline of 30 tasks on 8 nodes of three kinds; all times are whole hours."""
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 30, 8, plain=True)
    nodes["kind"] = [f"kind-{at % 3}" for at in range(8)]
    nodes["cpus"] = [(8.0, 10.0, 16.0)[at % 3] for at in range(8)]
    factor = {"kind-0": 1.0, "kind-1": 1.5, "kind-2": 2.0}
    durations = pd.DataFrame(
        [
            (task, kind, float(round(hours * share)))
            for task, hours in zip(tasks["task_id"], tasks["duration_hours"], strict=True)
            for kind, share in factor.items()
        ],
        columns=["task_id", "runs_on", "duration_hours"],
    )
    return tasks, edges, nodes, durations


def cp_sat(tasks: pd.DataFrame, edges: pd.DataFrame, nodes: pd.DataFrame, durations: pd.DataFrame, seconds: float) -> tuple[float, float]:
    """The same problem in CP-SAT: an optional interval for each task and node, cumulative CPUs and memory, delays."""
    cp = pytest.importorskip("ortools.sat.python.cp_model")
    model, horizon = cp.CpModel(), int(durations["duration_hours"].sum())
    hours = durations.set_index(["task_id", "runs_on"])["duration_hours"].astype(int)
    start, end, on = {}, {}, {}
    inside = {node: [] for node in nodes["node"]}
    for task in tasks.itertuples(index=False):
        start[task.task_id], end[task.task_id] = model.new_int_var(0, horizon, ""), model.new_int_var(0, horizon, "")
        for node in nodes.itertuples(index=False):
            if task.cpus > node.cpus or task.memory_gib > node.memory_gib:
                continue
            here = on[task.task_id, node.node] = model.new_bool_var("")
            inside[node.node].append(
                (
                    model.new_optional_interval_var(start[task.task_id], int(hours[task.task_id, node.kind]), end[task.task_id], here, ""),
                    int(task.cpus),
                    int(task.memory_gib),
                )
            )
        model.add_exactly_one(on[task.task_id, node] for node in nodes["node"] if (task.task_id, node) in on)
    for node in nodes.itertuples(index=False):
        spans = [span for span, _, _ in inside[node.node]]
        model.add_cumulative(spans, [cpus for _, cpus, _ in inside[node.node]], int(node.cpus))
        model.add_cumulative(spans, [memory for _, _, memory in inside[node.node]], int(node.memory_gib))
    for one, other, size in edges.itertuples(index=False):
        model.add(start[other] >= end[one])
        delay = int(size / 3600)
        for node in nodes["node"]:
            if delay and (one, node) in on:
                apart = model.add(start[other] >= end[one] + delay)
                apart.only_enforce_if([on[one, node]] + ([on[other, node].negated()] if (other, node) in on else []))
    last = model.new_int_var(0, horizon, "")
    model.add_max_equality(last, list(end.values()))
    model.minimize(last)
    solver = cp.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers, solver.parameters.random_seed = seconds, 1, 0
    status = solver.solve(model)
    return (float(solver.objective_value) if status in (cp.OPTIMAL, cp.FEASIBLE) else np.inf), float(solver.best_objective_bound)


def test_the_program_beside_cp_sat():
    rows = []
    for seed in range(10):
        tasks, edges, nodes, durations = instance(seed)
        begin = time.perf_counter()
        ours = place_tasks(tasks, edges, nodes, None, FREE, durations=durations)
        seconds = time.perf_counter() - begin
        value, bound = cp_sat(tasks, edges, nodes, durations, max(seconds, 10.0))
        rows.append(
            (
                seed,
                len(edges),
                seconds,
                ours.makespan_hours,
                ours.bound,
                1 - ours.bound / ours.makespan_hours,
                value,
                bound,
                1 - bound / value,
            )
        )
        print(rows[-1], flush=True)
    table = pd.DataFrame(
        rows, columns=["seed", "edges", "seconds", "HiGHS end", "HiGHS bound", "HiGHS gap", "CP-SAT end", "CP-SAT bound", "CP-SAT gap"]
    )
    print("\n" + table.round(3).to_string(index=False))
    print(f"proven: HiGHS {(table['HiGHS gap'] < 1e-4).sum()} of 10, CP-SAT {(table['CP-SAT gap'] < 1e-4).sum()} of 10")
    # neither may contradict the other: no schedule is below the other's bound
    assert (table["HiGHS end"] >= table["CP-SAT bound"] - 1e-6).all()
    assert (table["CP-SAT end"] >= table["HiGHS bound"] - 1e-6).all()
