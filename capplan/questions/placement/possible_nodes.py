"""Which nodes could host a task, for how long and divided among how many; and why none can."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.errors import suggestion
from capplan.questions.placement.machines import Machines
from capplan.questions.placement.reading import Faults
from capplan.questions.placement.state import ACCELERATORS, RESOURCES, Floats, Whole

#: What a resource is called in a sentence.
WORDS = {
    "cpus": "CPUs",
    "threads": "CPU threads",
    "memory_gib": "GiB of memory",
    "accelerators": "accelerators",
    "local_ssd_gib": "GiB of local SSD",
}


class Hosting(NamedTuple):
    """What would be if a task ran in a group, allowed or not; all (tasks, groups)."""

    hours: Floats  #: Its duration; no number where none is known.
    members: Whole  #: The fewest nodes among which it can be divided; 0 where a node lacks what it takes.
    #: lawful, right: Does it stay where it must, and on the accelerator it needs?
    lawful: np.ndarray
    right: np.ndarray


def hosting_of(jobs: pd.DataFrame, durations: pd.DataFrame, machines: Machines, a: PlacementAssumptions) -> Hosting:
    """Return what each task would be in each group."""
    groups = machines.groups
    first = np.array([inside[0] for inside in machines.members], dtype=np.int64)
    capacity, need = machines.capacity[first], jobs[list(RESOURCES)].to_numpy(dtype=float)
    hours = np.repeat(jobs["duration_hours"].to_numpy(dtype=float)[:, None], len(groups), axis=1)
    number = {name: at for at, name in enumerate(jobs["task_id"])}
    # the most specific name is written last
    for values in _levels(machines).values():
        at = {name: np.flatnonzero(values == name) for name in set(values)}
        for task, place, value in durations.itertuples(index=False):
            if task in number and place in at and place:
                hours[number[task], at[place]] = value
    # the smallest number of members of which each fits on a node
    wanted = _nodes_wanted(need, capacity)
    single = (wanted <= 1 + 1e-9).all(axis=2)
    gang = need[:, ACCELERATORS] > 1
    members = np.where(np.isfinite(wanted), np.ceil(wanted - 1e-9), 0).max(axis=2)
    members = np.where(np.isfinite(wanted).all(axis=2), np.maximum(members, 1), 0)
    members = np.where(gang[:, None], members, np.where(single, 1, 0)).astype(np.int64)
    members = np.where(_whole(need, members, capacity), members, 0)
    home = jobs["residency"].to_numpy()[:, None]
    lawful = (home == "") | (home == groups["site"].to_numpy()[None, :]) | (home == groups["geography"].to_numpy()[None, :])
    kind = jobs["accelerator"].to_numpy()[:, None]
    right = (kind == "") | (need[:, ACCELERATORS] == 0)[:, None] | (kind == groups["accelerator"].to_numpy()[None, :])
    scattered = (groups["rack"].to_numpy() == "")[None, :] & (members > 1) & (a.gang_across_racks_slowdown_share > 0)
    spans = np.array([machines.nodes["rack"].to_numpy()[inside] for inside in machines.members], dtype=object)
    one_rack = np.array([len(set(racks)) == 1 for racks in spans], dtype=bool)
    hours = np.where(scattered & ~one_rack[None, :], hours * (1 + a.gang_across_racks_slowdown_share), hours)
    return Hosting(hours, members, lawful, right)


def _levels(machines: Machines) -> dict[str, np.ndarray]:
    """Return the names by which durations may call each group, the least specific first."""
    groups = machines.groups
    rows = machines.nodes["row"].to_numpy()[np.array([inside[0] for inside in machines.members], dtype=np.int64)]
    return {"accelerator": groups["accelerator"].to_numpy(), "kind": groups["kind"].to_numpy(), "node": rows}


def _nodes_wanted(need: Floats, capacity: Floats) -> Floats:
    """Return how many nodes of each group each task takes of each resource, (tasks, groups, resources)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(need[:, None, :] > 0, need[:, None, :] / capacity[None, :, :], 0.0)


def check_durations(durations: pd.DataFrame, machines: Machines, faults: Faults) -> None:
    """Note durations on what is no node."""
    known = set().union(*(set(values) for values in _levels(machines).values())) - {""}
    for row in np.flatnonzero(~durations["runs_on"].isin(known)):
        faults.add(
            "task_durations",
            int(row) + 1,
            "runs_on",
            durations["runs_on"].iloc[row],
            "must be a node, a kind of node or an accelerator of nodes",
            suggestion(durations["runs_on"].iloc[row], known),
        )


def allowed(jobs: pd.DataFrame, machines: Machines, hosting: Hosting, faults: Faults) -> np.ndarray:
    """Tell which tasks may run in which groups; note those that nothing can host."""
    groups, (hours, members, lawful, right) = machines.groups, hosting
    size = groups["size"].to_numpy(dtype=np.int64)
    capacity = machines.capacity[np.array([inside[0] for inside in machines.members], dtype=np.int64)]
    # a rack's own group is for gangs alone
    use = (
        (members > 0)
        & (members <= size[None, :])
        & lawful
        & right
        & np.isfinite(hours)
        & ((groups["rack"].to_numpy() == "")[None, :] | (members > 1))
    )
    if not jobs["task_id"].duplicated().any():
        wanted = _nodes_wanted(jobs[list(RESOURCES)].to_numpy(dtype=float), capacity)
        for task in np.flatnonzero(~use.any(axis=1)):
            mine = Hosting(*(each[task] for each in hosting))
            faults.add("tasks", int(task) + 1, *_why_not(jobs.iloc[task], machines, capacity, size, mine, wanted[task]))
    return use


def _whole(need: Floats, members: Whole, capacity: Floats) -> np.ndarray:
    """Tell whether whole accelerators a member still fit on a node."""
    part = np.where(members > 1, np.ceil(need[:, [ACCELERATORS]] / np.maximum(members, 1) - 1e-9), need[:, [ACCELERATORS]])
    return part <= capacity[None, :, ACCELERATORS] + 1e-9


def _why_not(
    job: pd.Series, machines: Machines, capacity: Floats, size: Whole, mine: Hosting, wanted: Floats
) -> tuple[str, object, str, str]:
    """Return why nothing can host a task: column, value, fault and remedy of the one reason that holds for the nearest nodes."""
    name, groups, able = job["task_id"], machines.groups, mine.right & mine.lawful
    if not mine.lawful.any():
        homes = {*groups["site"], *groups["geography"]} - {""}
        return "residency", job["residency"], f"{name} must stay where no node is", suggestion(job["residency"], homes)
    if not able.any():
        kinds = set(groups.loc[mine.lawful, "accelerator"]) - {""}
        where = f" in {job['residency']}" if job["residency"] else ""
        remedy = suggestion(job["accelerator"], kinds) if kinds else "No node has accelerators."
        return "accelerator", job["accelerator"], f"no node{where} has the accelerator that {name} needs", remedy
    timed = able & np.isfinite(mine.hours)
    if not timed.any():
        remedy = "Give duration_hours, or a row of task_durations for a kind of node it can run on."
        return "duration_hours", None, f"{name} has no duration on any node it may run on", remedy
    large = timed & (mine.members > size)
    if large.any():
        best = int(np.flatnonzero(large)[np.argmax((size / np.maximum(mine.members, 1))[large])])
        group = groups.iloc[best]
        needs = (
            f"the gang {name} needs {mine.members[best]} nodes of kind {group['kind']} in one site, and {group['site']} has {size[best]}"
        )
        return "accelerators", f"{job['accelerators']:g}", needs, "Make the gang smaller, or add nodes there."
    over = np.where(np.isfinite(wanted), wanted, 1e9).max(axis=1)
    best = int(np.flatnonzero(timed)[np.argmin(over[timed])])
    short = int(np.argmax(np.where(np.isfinite(wanted[best]), wanted[best], 1e9)))
    resource, node = RESOURCES[short], machines.nodes["node"].iloc[machines.members[best][0]]
    has = "no" if capacity[best, short] == 0 else f"{capacity[best, short]:g}"
    nearest = f"no node can host {name}: the nearest, {node}, has {has} {WORDS[resource]}"
    return resource, f"{job[resource]:g}", nearest, "Ask for less, or add a node that has it."
