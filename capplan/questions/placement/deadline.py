"""The deadline question: whether it can be met, the earliest end, and what would meet it."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.questions.placement.goals import LATE, goal_of, least
from capplan.questions.placement.longest_chain import link_name
from capplan.questions.placement.methods import Found
from capplan.questions.placement.problem import Problem, build, with_node
from capplan.questions.placement.reading import Faults, read
from capplan.questions.placement.solve import best_schedule, quick

#: Rates of Ethernet links that can be bought (IEEE 802.3 and its amendments), Gbit/s.
RATES = (1.0, 2.5, 5.0, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0)
#: Draws for each remedy that is tried.
DRAWS = 40


@dataclass(frozen=True)
class Tables:
    """The tables as they were given."""

    tasks: pd.DataFrame
    edges: pd.DataFrame | None
    nodes: pd.DataFrame
    links: pd.DataFrame | None
    durations: pd.DataFrame | None


@dataclass(frozen=True)
class Deadline:
    """Answer to the question whether all deadlines can be met.

    Args:
        met: True: a schedule keeps them. False: proven that none does. None: none was found, and the bound does not exclude one.
        task: The task whose deadline binds.
        asked, earliest: Its deadline, and its end in the schedule with the least lateness.
        late_hours, bound_hours: Lateness of that schedule (negative: hours to spare), and what is proven of it.
        remedies: [remedy, what, amount, unit, late_hours, enough]: one more node of a kind, a faster link.
    """

    met: bool | None
    task: str
    asked: pd.Timestamp
    earliest: pd.Timestamp
    late_hours: float
    bound_hours: float
    remedies: pd.DataFrame


def ask_deadline(problem: Problem, tables: Tables, a: PlacementAssumptions, known: list[Found]) -> tuple[Deadline, Found] | None:
    """Answer the deadline question; None where nothing is due.

    Args:
        known: Schedules already made; where one keeps all deadlines the answer is yes without a search.
    """
    if not np.isfinite(problem.due).any():
        return None
    goal = goal_of(problem, "lateness")
    found = min(known, key=lambda schedule: goal.key(problem, schedule))
    bound = -np.inf
    if goal.late(found) > LATE:
        solved = best_schedule(problem, goal, a.model_copy(update={"placement_method": "best"}))
        assert solved is not None
        found, bound = min((solved.found, found), key=lambda schedule: goal.key(problem, schedule)), solved.bound
    late = goal.late(found)
    met = True if late <= LATE else (False if bound > LATE else None)
    task = int(np.argmax(found.end - goal.due))
    asked = problem.origin + pd.Timedelta(hours=float(problem.due[task]))
    remedies = _remedies(problem, tables, a, found) if late > LATE else _no_remedies()
    earliest = problem.origin + pd.Timedelta(hours=float(found.end[task]))
    return Deadline(met, str(problem.tasks["task_id"].iloc[task]), asked, earliest, late, bound, remedies), found


def shown_deadline(problem: Problem, deadline: Deadline, found: Found) -> Deadline:
    """Return the answer with the figures of the schedule that is shown, where that keeps the deadlines, too."""
    late = float((found.end - problem.due).max())
    if not deadline.met or late > LATE:
        return deadline
    task = int(np.argmax(found.end - problem.due))
    asked, end = (problem.origin + pd.Timedelta(hours=float(hours[task])) for hours in (problem.due, found.end))
    return replace(deadline, task=str(problem.tasks["task_id"].iloc[task]), asked=asked, earliest=end, late_hours=late)


def _no_remedies() -> pd.DataFrame:
    """Return an empty table of remedies."""
    return pd.DataFrame(columns=["remedy", "what", "amount", "unit", "late_hours", "enough"])


def _late(tables: Tables, a: PlacementAssumptions) -> float:
    """Return the lateness that heuristics and draws reach."""
    problem = build(tables.tasks, tables.edges, tables.nodes, tables.links, a, tables.durations)
    goal = goal_of(problem, "lateness")
    by_method, more = quick(problem, goal, least(problem, goal), a, min(a.placement_tries, DRAWS))
    return min(goal.late(found) for found in (*by_method.values(), *more))


def _remedies(problem: Problem, tables: Tables, a: PlacementAssumptions, found: Found) -> pd.DataFrame:
    """Try one more node of each kind, and a faster link for each that the schedule uses; only what heuristics reach counts as enough."""
    rows: list[tuple[str, str, float, str, float, bool]] = []
    nodes = read("nodes", tables.nodes, Faults())
    for kind in dict.fromkeys(problem.machines.nodes["kind"]):
        late = _late(Tables(tables.tasks, tables.edges, with_node(nodes, kind, 1), tables.links, tables.durations), a)
        # the schedule at hand needs no new node
        late = min(late, float((found.end - problem.due).max()))
        rows.append(("one more node", kind, 1.0, "nodes", late, late <= LATE))
    used = {
        link_name(problem, found, edge): edge
        for edge in np.flatnonzero(found.sender != found.receiver).tolist()
        if problem.work.gigabytes[edge] > 0
    }
    for name, edge in used.items():
        faster = _faster(problem, tables, a, found, name, edge)
        rows += [faster] if faster else []
    table = pd.DataFrame(rows, columns=_no_remedies().columns)
    return table.sort_values(["enough", "late_hours"], ascending=[False, True], kind="stable", ignore_index=True)


def _faster(
    problem: Problem, tables: Tables, a: PlacementAssumptions, found: Found, name: str, edge: int
) -> tuple[str, str, float, str, float, bool] | None:
    """Return the slowest rate of a link that meets the deadline, or what the fastest reaches."""
    here, there = (int(problem.links.place[node]) for node in (found.sender[edge], found.receiver[edge]))
    row = int(problem.links.link[here, there])
    now = float(8.0 / 3600.0 / problem.links.hours_per_gb[here, there]) / a.bandwidth_factor
    best = None
    for rate in reversed([rate for rate in RATES if rate > now * 1.001]):
        if row >= 0:
            links = read("links", tables.links, Faults())
            links.loc[row // 2, "gbit_per_second"] = rate / (1 - links.loc[row // 2, "used_share"])
            late = _late(Tables(tables.tasks, tables.edges, tables.nodes, links, tables.durations), a)
        else:
            field = "rack_gbit_per_second" if name.startswith("inside the rack") else "site_gbit_per_second"
            late = _late(tables, a.model_copy(update={field: rate}))
        if best is None or late <= LATE:
            best = ("faster link", name, rate, "Gbit/s", late, late <= LATE)
        if late > LATE:
            break
    return best
