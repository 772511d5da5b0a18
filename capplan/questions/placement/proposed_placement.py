"""A placement that somebody proposes: which nodes and which start each row gives to which task."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.proposed import WHERE, fault_in, rows_of
from capplan.errors import BookError, Fault, suggestion
from capplan.questions.placement.problem import Problem


@dataclass(frozen=True)
class Told:
    """A placement by task of a problem: nodes (empty where it is not placed), start in hours (no number then), file and row."""

    nodes: tuple[np.ndarray, ...]
    start: np.ndarray
    places: tuple[tuple[str, float], ...]


def read_placement(problem: Problem, rows: pd.DataFrame, unread: Sequence[Fault] = ()) -> Told:
    """Turn rows of a proposed placement into nodes and starts.

    Args:
        rows: Rows of `book.proposed.Proposed`.
        unread: Cells that could not be read.

    Raises:
        BookError: These, and every row that names no task or node, states no start, or comes twice.
    """
    faults = list(unread)
    task_of = {str(name): at for at, name in enumerate(problem.tasks["task_id"])}
    node_of = {str(name): at for at, name in enumerate(problem.machines.nodes["node"])}
    nodes, start = [np.zeros(0, dtype=np.int64)] * len(task_of), np.full(len(task_of), np.nan)
    places: list[tuple[str, float]] = [("", np.nan)] * len(task_of)
    for row in rows_of(rows, unread):
        name = str(row["task_id"])
        named = [each.strip() for each in str(row["nodes"]).split(",")]
        wrong = [("task_id", name, "it is no task", suggestion(name, task_of))] if name not in task_of else []
        wrong += [("nodes", each, "it is no node", suggestion(each, node_of)) for each in named if each not in node_of]
        if len(set(named)) < len(named):
            wrong.append(("nodes", row["nodes"], "a node is named twice", "Name each once."))
        if row["start"] is None and row["start_hours"] is None:
            wrong.append(("start", "", "neither start nor start_hours is stated", "State one of them."))
        if name in task_of and places[task_of[name]][0]:
            wrong.append(
                ("task_id", name, f"it is placed already in row {places[task_of[name]][1]:g} of {places[task_of[name]][0]}", "Keep one.")
            )
        faults += [fault_in(row, *each) for each in wrong]
        if wrong:
            continue
        at = task_of[name]
        hours = (row["start"] - problem.origin) / pd.Timedelta(hours=1) if row["start_hours"] is None else float(row["start_hours"])
        nodes[at], start[at], places[at] = np.array([node_of[each] for each in named]), hours, (row["file"], float(row["row"]))
    if faults:
        raise BookError(faults, where=WHERE)
    return Told(tuple(nodes), start, tuple(places))
