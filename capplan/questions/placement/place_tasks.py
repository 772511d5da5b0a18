"""The question itself: which task where, when, and what moving the data costs."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.errors import CapplanError
from capplan.questions.placement.deadline import Deadline, Tables, ask_deadline, shown_deadline
from capplan.questions.placement.goals import Goal, cost_of, goal_of, transfer_usd
from capplan.questions.placement.longest_chain import arrivals, binding, critical_chain, link_name, targets
from capplan.questions.placement.methods import Found, run
from capplan.questions.placement.problem import Problem, build
from capplan.questions.placement.solve import Solved, best_schedule
from capplan.questions.placement.wording import deadline_words, hours_words, when, words_of_links
from capplan.text import money


@dataclass(frozen=True)
class Placement:
    """A schedule, and how good it is.

    Args:
        schedule: [task_id, pipeline, stage, nodes, kind, accelerator, site, geography, start, end, start_hours, end_hours,
            accelerator_hours, transfer_in_hours (until its data was there, after its last predecessor ended), usd, deadline, late_hours,
            critical], by start; hours count from the start of the plan.
        transfers: [from_task, to_task, data_gb, from_node, to_node, link, start_hours, end_hours, hours, usd], those that move something.
        critical_path: The chain that leads to the last end; see critical_chain.
        binding: What the chain's hours are made of; see binding.
        methods: [method, makespan_hours, usd, late_hours, gap_share (above the proven bound, in the figure of the objective), chosen].
        makespan_hours, usd: Of the schedule; USD of nodes and transfers.
        bound, gap_share, proven: What no schedule beats, in the figure of the objective; how far the schedule may be from the best; is it
            the best?
        colocation_saving_hours: How much later the same placement would end were every edge to cross racks.
        deadline: Answer to the deadline question, or None where nothing is due.
        headline, notes: The deciding sentence; what was assumed.
    """

    schedule: pd.DataFrame
    transfers: pd.DataFrame
    critical_path: pd.DataFrame
    binding: pd.DataFrame
    methods: pd.DataFrame
    makespan_hours: float
    usd: float
    bound: float
    gap_share: float
    proven: bool
    colocation_saving_hours: float
    deadline: Deadline | None
    headline: str
    notes: tuple[str, ...]


def place_tasks(
    tasks: pd.DataFrame,
    edges: pd.DataFrame | None,
    nodes: pd.DataFrame,
    links: pd.DataFrame | None,
    a: PlacementAssumptions,
    *,
    durations: pd.DataFrame | None = None,
) -> Placement:
    r"""Place dependent tasks on nodes.

    Task j begins after :math:`end_i + latency + 8\,GB / (Gbit/s\,(1 - used))` for each predecessor i on another node; on one node what
    they take together stays within
    its CPUs, threads, memory, accelerators and SSD; a gang holds equal nodes of one site at once. A task pays of its node the largest of
    its shares of a resource.

    Args:
        durations: Table task_durations: durations on single kinds of nodes.

    Raises:
        BookError: Every fault of the tables at once.
        CapplanError: Money under a deadline where nothing is due.
    """
    problem = build(tasks, edges, nodes, links, a, durations)
    if a.placement_objective == "cost_under_deadline" and not np.isfinite(problem.due).any():
        raise CapplanError(
            "placement_objective is cost_under_deadline, and nothing is due; set deadline, or the deadline of a task, or choose cost"
        )
    goal = goal_of(problem, a.placement_objective)
    solved = best_schedule(problem, goal, a)
    known = [] if solved is None else [solved.found, *solved.by_method.values()]
    asked = (
        ask_deadline(problem, Tables(tasks, edges, nodes, links, durations), a, known)
        if known
        else _asked_again(problem, Tables(tasks, edges, nodes, links, durations), a)
    )
    found, goal, solved = _chosen(problem, goal, solved, asked, a)
    deadline = None if asked is None else shown_deadline(problem, asked[0], found)
    return _answer(problem, goal, solved, found, deadline, a)


def _asked_again(problem: Problem, tables: Tables, a: PlacementAssumptions) -> tuple[Deadline, Found] | None:
    """Ask for the least lateness where it is proven that no schedule keeps the deadlines."""
    solved = best_schedule(problem, goal_of(problem, "lateness"), a.model_copy(update={"placement_method": "best"}))
    assert solved is not None
    return ask_deadline(problem, tables, a, [solved.found])


def _chosen(
    problem: Problem, goal: Goal, solved: Solved | None, asked: tuple[Deadline, Found] | None, a: PlacementAssumptions
) -> tuple[Found, Goal, Solved]:
    """Return the schedule to show: that of the goal, or the least late one where the deadlines cannot be kept by it."""
    if solved is not None and goal.missed(solved.found) == 0:
        return solved.found, goal, solved
    if solved is not None and a.placement_method not in ("best", "milp"):
        return solved.found, goal, solved
    assert asked is not None
    deadline, found = asked
    late = goal_of(problem, "lateness")
    by_method = {} if solved is None else solved.by_method
    if deadline.met:
        # another schedule keeps the deadlines; how good it is for the goal is open
        assert solved is not None
        return found, goal, replace(solved, found=found, method="deadline")
    return found, late, Solved(found, "deadline", deadline.bound_hours, by_method, True, a.proof_gap_share)


def _answer(problem: Problem, goal: Goal, solved: Solved, found: Found, deadline: Deadline | None, a: PlacementAssumptions) -> Placement:
    """Turn the schedule into tables."""
    value = goal.value(problem, found)
    gap = solved.gap(value)
    last = int(np.argmax(found.end - goal.due)) if goal.kind == "lateness" else int(np.argmax(found.end))
    chain = critical_chain(problem, found, last)
    transfers, schedule = transfers_of(problem, found), schedule_of(problem, found, chain)
    saving = colocation(problem, found, a)
    methods = _methods(problem, goal, solved, found)
    notes = (*problem.notes, words_of_links(a), *_proof_notes(goal, solved, gap, a))
    makespan, usd = float(found.end.max()), cost_of(problem, found)
    answer = Placement(
        schedule, transfers, chain, binding(chain), methods, makespan, usd, solved.bound, gap, gap == 0.0, saving, deadline, "", notes
    )
    return replace(answer, headline=_headline(answer, goal, problem))


def _proof_notes(goal: Goal, solved: Solved, gap: float, a: PlacementAssumptions) -> list[str]:
    """Say how far the schedule is proven."""
    what = {"makespan": "end", "lateness": "lateness", "cost": "cost", "cost_under_deadline": "cost under the deadline"}[goal.kind]
    if gap == 0.0:
        return [f"The {what} is proven: no schedule is better{f' by more than {a.proof_gap_share:.2%}' if a.proof_gap_share else ''}."]
    why = (
        f"the search stopped after an effort of {a.proof_deterministic_seconds:g} s (proof_deterministic_seconds)"
        if solved.tried
        else "a heuristic was chosen, or the program would be larger than proof_size"
    )
    far = f"at most {gap:.1%} above the best" if np.isfinite(gap) else f"at least {solved.bound:.4g} is proven"
    return [f"The {what} is not proven to be the best: {far}; {why}."]


def transfers_of(problem: Problem, found: Found) -> pd.DataFrame:
    """Return all transfers that move something; of gangs the slowest pair of nodes."""
    come, fees, names, nodes = (
        arrivals(problem, found),
        transfer_usd(problem, found),
        problem.tasks["task_id"].to_numpy(),
        problem.machines.nodes["node"].to_numpy(),
    )
    moved = np.flatnonzero(problem.work.gigabytes > 0)
    return pd.DataFrame(
        {
            "from_task": names[problem.work.source[moved]],
            "to_task": names[targets(problem)[moved]],
            "data_gb": problem.work.gigabytes[moved],
            "from_node": nodes[found.sender[moved]],
            "to_node": nodes[found.receiver[moved]],
            "link": [link_name(problem, found, int(edge)) for edge in moved],
            "start_hours": found.sent[moved],
            "end_hours": come[moved],
            "hours": come[moved] - found.sent[moved],
            "usd": fees[moved],
        }
    ).sort_values(["start_hours", "from_task", "to_task"], kind="stable", ignore_index=True)


def schedule_of(problem: Problem, found: Found, chain: pd.DataFrame) -> pd.DataFrame:
    """Return one row a task, by start."""
    names, tasks, work = problem.machines.nodes["node"].to_numpy(), problem.tasks, problem.work
    groups = problem.machines.groups.iloc[found.group].reset_index(drop=True)
    come, count = arrivals(problem, found), len(found.start)
    there, ended = np.zeros(count), np.zeros(count)
    np.maximum.at(there, targets(problem), come)
    np.maximum.at(ended, targets(problem), found.end[work.source])
    critical = set(chain.loc[chain["what"] == "task", "name"])
    due = np.where(np.isfinite(problem.due), problem.due, np.nan)
    frame = pd.DataFrame(
        {
            "task_id": tasks["task_id"],
            "pipeline": tasks["pipeline"],
            "stage": tasks["stage"],
            "nodes": [", ".join(names[sorted(nodes)]) for nodes in found.nodes],
            "kind": groups["kind"],
            "accelerator": groups["accelerator"],
            "site": groups["site"],
            "geography": groups["geography"],
            "start": problem.origin + pd.to_timedelta(found.start, unit="h").round("s"),
            "end": problem.origin + pd.to_timedelta(found.end, unit="h").round("s"),
            "start_hours": found.start,
            "end_hours": found.end,
            "accelerator_hours": tasks["accelerators"] * work.hours[np.arange(count), found.group],
            "transfer_in_hours": np.maximum(there - ended, 0.0),
            "usd": work.usd[np.arange(count), found.group],
            "deadline": problem.origin + pd.to_timedelta(due, unit="h").round("s"),
            "late_hours": np.where(np.isnan(due), np.nan, found.end - due),
            "critical": tasks["task_id"].isin(critical),
        }
    )
    return frame.sort_values(["start_hours", "end_hours"], kind="stable", ignore_index=True)


def colocation(problem: Problem, found: Found, a: PlacementAssumptions) -> float:
    """Return how many hours later the same placement ends where every edge crosses racks at a site's default rate, or slower."""
    rate = 8.0 / (a.site_gbit_per_second * a.bandwidth_factor) / 3600.0
    hours = np.maximum(problem.ground.hours_per_gb, rate)
    apart = replace(problem, ground=problem.ground._replace(hours_per_gb=hours, inside=np.maximum(problem.ground.inside, rate)))
    fixed = {task: (int(found.group[task]), nodes) for task, nodes in enumerate(found.nodes)}
    position = np.empty(len(found.start), dtype=np.int64)
    position[problem.order] = np.arange(len(found.start))
    order = np.lexsort((position, np.round(found.start, 9))).astype(np.int64)
    together = run(problem, order, fixed=fixed)
    return float(run(apart, order, fixed=fixed).end.max() - min(together.end.max(), found.end.max()))


def _methods(problem: Problem, goal: Goal, solved: Solved, found: Found) -> pd.DataFrame:
    """Compare the schedule with those of the heuristics."""
    late = goal_of(problem, "lateness")
    rows = []
    for name, schedule in {**solved.by_method, solved.method: found}.items():
        value = goal.value(problem, schedule)
        lateness = late.late(schedule) if np.isfinite(problem.due).any() else np.nan
        rows.append((name, float(schedule.end.max()), cost_of(problem, schedule), lateness, solved.gap(value), name == solved.method))
    return pd.DataFrame(rows, columns=["method", "makespan_hours", "usd", "late_hours", "gap_share", "chosen"])


def _headline(answer: Placement, goal: Goal, problem: Problem) -> str:
    """Say what decides."""
    count, end = len(answer.schedule), problem.origin + pd.Timedelta(hours=answer.makespan_hours)
    moved = float(
        answer.critical_path.loc[answer.critical_path["what"] == "transfer", ["start_hours", "end_hours"]].diff(axis=1)["end_hours"].sum()
    )
    proof = (
        "proven" if answer.proven else (f"at most {answer.gap_share:.1%} above the best" if np.isfinite(answer.gap_share) else "not proven")
    )
    figure = (
        f"{count} tasks end after {hours_words(answer.makespan_hours)}, {when(end)}, and cost {money(answer.usd)}"
        f" ({'cost' if not goal.timed else 'end'} {proof}); "
    )
    figure += f"moving data is {hours_words(moved)} of the longest way." if moved > 0 else "no transfer lies on the longest way."
    return f"{deadline_words(answer.deadline)} {figure}" if answer.deadline is not None else figure
