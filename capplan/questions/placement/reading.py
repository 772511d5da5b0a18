"""Tasks, edges, nodes and links as somebody hands them over: empty cells filled, and every fault named at once."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from capplan.errors import BookError, Fault, nearest, suggestion

#: Columns a table must have, and what stands for empty cells of the others.
NEEDED = {
    "tasks": ("task_id",),
    "task_edges": ("from_task", "to_task"),
    "task_durations": ("task_id", "runs_on", "duration_hours"),
    "nodes": ("node", "accelerator", "accelerator_count"),
    "links": ("from_place", "to_place", "gbit_per_second"),
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "tasks": {
        "pipeline": "pipeline",
        "stage": "",
        "cpus": 0.0,
        "threads": 0.0,
        "memory_gib": 0.0,
        "accelerators": 0.0,
        "accelerator": "",
        "local_ssd_gib": 0.0,
        "duration_hours": np.nan,
        "output_gb": 0.0,
        "owner": "",
        "residency": "",
        "deadline": pd.NaT,
        "earliest_start": pd.NaT,
        "interruptible": False,
    },
    "task_edges": {"data_gb": np.nan},
    "task_durations": {},
    "nodes": {
        "nodes": 1,
        "domain": "",
        "kind": "",
        "cpus": np.nan,
        "cpu_threads": np.nan,
        "memory_gib": np.nan,
        "local_ssd_gib": np.nan,
        "site": "",
        "geography": "",
        "usd_per_hour": np.nan,
        "taken_until": pd.NaT,
        "taken_share": 1.0,
        "away_from": pd.NaT,
        "away_to": pd.NaT,
    },
    "links": {"latency_seconds": 0.0, "usd_per_gb": 0.0, "used_share": 0.0},
}
#: Columns that hold an instant.
INSTANTS = {"deadline", "earliest_start", "taken_until", "away_from", "away_to"}
#: Columns that hold a number, with the least and the most allowed, and which of the two is outside.
NUMBERS = {
    "tasks": {
        **dict.fromkeys(
            ("cpus", "threads", "memory_gib", "accelerators", "local_ssd_gib", "duration_hours", "output_gb"), (0.0, np.inf, "")
        )
    },
    "task_edges": {"data_gb": (0.0, np.inf, "")},
    "task_durations": {"duration_hours": (0.0, np.inf, "")},
    "nodes": {
        **dict.fromkeys(("accelerator_count", "cpus", "cpu_threads", "memory_gib", "local_ssd_gib", "usd_per_hour"), (0.0, np.inf, "")),
        "nodes": (1.0, np.inf, ""),
        "taken_share": (0.0, 1.0, ""),
    },
    "links": {
        "gbit_per_second": (0.0, np.inf, "low"),
        "latency_seconds": (0.0, np.inf, ""),
        "usd_per_gb": (0.0, np.inf, ""),
        "used_share": (0.0, 1.0, "high"),
    },
}


@dataclass
class Faults:
    """Faults found so far."""

    found: list[Fault] = field(default_factory=list)

    def add(self, table: str, row: int, column: str, value: object, rule: str, remedy: str) -> None:
        """Note one fault."""
        self.found.append(Fault(table, row, column, "" if value is None else str(value), rule, remedy))

    def stop(self) -> None:
        """Raise all of them, where there are any."""
        if self.found:
            raise BookError(self.found, where="the tasks, nodes and links")


def read(table: str, given: pd.DataFrame | None, faults: Faults) -> pd.DataFrame:
    """Return a table with all its columns, numbers as numbers and instants in UTC; other rows are noted and made harmless."""
    frame = pd.DataFrame(columns=list(NEEDED[table])) if given is None else given.reset_index(drop=True)
    for column in NEEDED[table]:
        if column not in frame:
            faults.add(table, 0, column, None, "the column is needed", f"Add it; {nearest(column, map(str, frame.columns))}")
            frame = frame.assign(**{column: 1.0 if column in NUMBERS[table] else [f"row {at + 1}" for at in range(len(frame))]})
    result = pd.DataFrame(index=frame.index)
    for column in (*NEEDED[table], *DEFAULTS[table]):
        default = DEFAULTS[table].get(column)
        cells = frame[column] if column in frame else pd.Series([default] * len(frame), index=frame.index, dtype=object)
        if column in NUMBERS[table]:
            result[column] = _numbers(table, column, cells, default, faults)
        elif column in INSTANTS:
            result[column] = _instants(table, column, cells, faults)
        elif column == "interruptible":
            result[column] = cells.map(lambda cell: False if pd.isna(cell) else bool(cell)).astype(bool)
        else:
            result[column] = cells.map(lambda cell: "" if pd.isna(cell) else str(cell)).astype(object)
    return result


def _numbers(table: str, column: str, cells: pd.Series, default: Any, faults: Faults) -> pd.Series:
    """Return a column as numbers within its bounds."""
    low, high, ends = NUMBERS[table][column]
    open_low, open_high = "low" in ends, "high" in ends
    values = pd.to_numeric(cells, errors="coerce").astype(float)
    needed = column in NEEDED[table]
    outside = ((values <= low) if open_low else (values < low)) | ((values >= high) if open_high else (values > high))
    wrong = np.isinf(values) | outside | (values.isna() & (cells.notna() | needed))
    if column in ("nodes", "accelerator_count"):
        wrong |= values % 1 > 0
    words = f"{'above' if open_low else 'at least'} {low:g}" + (
        f" and {'below' if open_high else 'at most'} {high:g}" if np.isfinite(high) else ""
    )
    for row in np.flatnonzero(wrong):
        faults.add(
            table,
            int(row) + 1,
            column,
            cells.iloc[row],
            f"must be a {'whole ' if column in ('nodes', 'accelerator_count') else ''}number {words}",
            "Correct it.",
        )
    fallback = 1.0 if default is None else default
    # a wrong cell has its message; what stands in for it must not bring a second one
    return values.fillna(fallback).mask(wrong, 1.0 if np.isnan(fallback) else fallback)


def _instants(table: str, column: str, cells: pd.Series, faults: Faults) -> pd.Series:
    """Return a column of instants in UTC without a zone."""
    found = pd.to_datetime(cells, errors="coerce", utc=True, format="mixed").dt.tz_localize(None).astype("datetime64[ns]")
    for row in np.flatnonzero(found.isna() & cells.notna()):
        faults.add(
            table, int(row) + 1, column, cells.iloc[row], "must be an instant", "Write it as 2027-01-31 14:00, in UTC or with its zone."
        )
    return found


def check_names(tasks: pd.DataFrame, edges: pd.DataFrame, durations: pd.DataFrame, nodes: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """Note names that stand twice or are not known, and loops; return the edges between known tasks."""
    known = set(tasks["task_id"])
    if tasks.empty:
        faults.add("tasks", 0, "", None, "a schedule needs at least one task", "Add rows.")
    if nodes.empty:
        faults.add("nodes", 0, "", None, "a schedule needs at least one node", "Add rows.")
    for table, frame, columns in (
        ("tasks", tasks, ["task_id"]),
        ("nodes", nodes, ["node"]),
        ("task_edges", edges, ["from_task", "to_task"]),
        ("task_durations", durations, ["task_id", "runs_on"]),
    ):
        for row in np.flatnonzero(frame.duplicated(columns)):
            faults.add(
                table,
                int(row) + 1,
                " and ".join(columns),
                " and ".join(frame.loc[row, columns]),
                "stands there more than once",
                "Keep one row, or give the other a name of its own.",
            )
    sound = pd.Series(True, index=edges.index)
    for column in ("from_task", "to_task"):
        for row in np.flatnonzero(~edges[column].isin(known)):
            sound.iloc[row] = False
            faults.add(
                "task_edges",
                int(row) + 1,
                column,
                edges[column].iloc[row],
                "must be a task_id of tasks",
                suggestion(edges[column].iloc[row], known),
            )
    for row in np.flatnonzero(~durations["task_id"].isin(known)):
        faults.add(
            "task_durations",
            int(row) + 1,
            "task_id",
            durations["task_id"].iloc[row],
            "must be a task_id of tasks",
            suggestion(durations["task_id"].iloc[row], known),
        )
    edges = edges[sound & ~edges.duplicated(["from_task", "to_task"])].reset_index(drop=True)
    if not tasks["task_id"].duplicated().any():
        _loops(tasks["task_id"].tolist(), edges, faults)
    return edges


def _loops(names: list[str], edges: pd.DataFrame, faults: Faults) -> None:
    """Note one loop of each knot of tasks that wait for each other."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    number = {name: at for at, name in enumerate(names)}
    begin, end = (edges[column].map(number).to_numpy(dtype=np.int64) for column in ("from_task", "to_task"))
    knots = connected_components(
        coo_matrix((np.ones(len(begin)), (begin, end)), shape=(len(names), len(names))), directed=True, connection="strong"
    )[1]
    inside = knots[begin] == knots[end]
    following: dict[int, int] = {}
    for first, last in zip(begin[inside], end[inside], strict=True):
        following.setdefault(int(first), int(last))
    seen: set[int] = set()
    for start in following:
        if knots[start] in seen:
            continue
        seen.add(knots[start])
        walk = [start]
        while following[walk[-1]] not in walk:
            walk.append(following[walk[-1]])
        loop = walk[walk.index(following[walk[-1]]) :]
        shown = " -> ".join(names[at] for at in (*loop, loop[0]))
        faults.add(
            "task_edges", 0, "from_task and to_task", shown, "tasks must not wait for each other in a loop", "Remove one of these edges."
        )


def check_times(tasks: pd.DataFrame, nodes: pd.DataFrame, origin: pd.Timestamp, faults: Faults) -> None:
    """Note deadlines before starts, and absences that end before they begin."""
    begin = tasks["earliest_start"].fillna(origin).clip(lower=origin)
    for row in np.flatnonzero(tasks["deadline"] <= begin):
        faults.add(
            "tasks",
            int(row) + 1,
            "deadline",
            tasks["deadline"].iloc[row],
            f"must lie after the earliest start, {begin.iloc[row]}",
            f"Move the deadline or the start of {tasks['task_id'].iloc[row]}.",
        )
    half = nodes["away_from"].isna() != nodes["away_to"].isna()
    for row in np.flatnonzero(half | (nodes["away_from"] >= nodes["away_to"])):
        shown = f"{nodes['away_from'].iloc[row]} to {nodes['away_to'].iloc[row]}"
        faults.add(
            "nodes",
            int(row) + 1,
            "away_from and away_to",
            shown,
            "an absence needs a begin and a later end",
            f"Correct the absence of {nodes['node'].iloc[row]}.",
        )
