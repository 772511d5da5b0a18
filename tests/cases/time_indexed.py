"""A second exact method for whole hours: a binary for every task, node and hour of start. Shares no code with capplan."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp


def least_makespan(tasks, edges, nodes, durations, horizon, *, seconds=None):
    """The last end of the best schedule, and the proven bound: single-node tasks, transfers of data_gb / 3600 hours between two nodes.

    What starts on a node by an hour needs predecessors that started early enough for their data to be there.
    """
    hours = {(row.task_id, row.runs_on): int(row.duration_hours) for row in durations.itertuples()}
    columns, rows = [], []
    for task in tasks.itertuples():
        for node in nodes.itertuples():
            if task.cpus <= node.cpus and task.memory_gib <= node.memory_gib:
                length = hours[task.task_id, node.kind]
                columns += [(task.task_id, node.node, start, length) for start in range(horizon - length + 1)]
    x = pd.DataFrame(columns, columns=["task", "node", "start", "length"])
    x["end"] = x["start"] + x["length"]
    last = len(x)

    def add(terms, low, high):
        rows.append((terms, low, high))

    for _, mine in x.groupby("task"):
        add([(at, 1.0) for at in mine.index], 1, 1)
        add([(last, 1.0), *((at, -float(x.at[at, "end"])) for at in mine.index)], 0, np.inf)
    needs = tasks.set_index("task_id")
    for node in nodes.itertuples():
        here = x[x["node"] == node.node]
        for hour in range(horizon):
            running = here[(here["start"] <= hour) & (here["end"] > hour)]
            for resource in ("cpus", "memory_gib"):
                add([(at, needs.at[task, resource]) for at, task in running["task"].items()], 0, getattr(node, resource))
    for one, other, size in edges.itertuples(index=False):
        first, second = x[x["task"] == one], x[x["task"] == other]
        for node, on in second.groupby("node"):
            there = first["end"] + np.where(first["node"] == node, 0, round(size / 3600))
            for hour in range(horizon):
                begun, ready = on.index[on["start"] <= hour], first.index[there <= hour]
                if len(begun):
                    add([*((at, 1.0) for at in begun), *((at, -1.0) for at in ready)], -np.inf, 0)
    entries = [(row, column, value) for row, (terms, _, _) in enumerate(rows) for column, value in terms]
    row, column, value = (np.array(part) for part in zip(*entries, strict=True))
    matrix = sparse.csr_matrix((value.astype(float), (row, column)), shape=(len(rows), last + 1))
    limits = LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])
    cost, whole = np.zeros(last + 1), np.ones(last + 1)
    cost[last], whole[last] = 1.0, 0.0
    bounds = Bounds(np.zeros(last + 1), np.append(np.ones(last), horizon))
    found = milp(cost, constraints=limits, bounds=bounds, integrality=whole, options={"time_limit": seconds} if seconds else None)
    return (float(found.fun) if found.fun is not None else np.inf), float(found.mip_dual_bound)
