"""Tables become arrays: what each task takes, where it can run, how long and at what price."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.errors import suggestion
from capplan.questions.placement.machines import BITS, SECONDS, UNKNOWN, Links, Machines, Profiles, links_of, machines_of, profiles_of
from capplan.questions.placement.possible_nodes import Hosting, allowed, check_durations, hosting_of
from capplan.questions.placement.reading import Faults, check_names, check_times, read
from capplan.questions.placement.state import ACCELERATORS, RESOURCES, Floats, Ground, Whole, Work


@dataclass(frozen=True)
class Problem:
    """A pipeline on its nodes.

    Args:
        tasks, edges: The tables, filled; edges sorted by the task they lead to: [from_task, to_task, data_gb].
        machines, links: Nodes, groups and what lies between them.
        work, ground: The same as arrays.
        profiles: What is free when, before anything is placed.
        due (tasks,): Hours by which each must be done; infinite where nothing is due.
        order (tasks,): Tasks with every predecessor before its successors, otherwise as in the table.
        origin: Hour 0.
        hosting: What would be on nodes where a task may not run, for schedules from elsewhere.
    """

    tasks: pd.DataFrame
    edges: pd.DataFrame
    machines: Machines
    links: Links
    work: Work
    ground: Ground
    profiles: Profiles
    due: Floats
    order: Whole
    origin: pd.Timestamp
    notes: tuple[str, ...]
    hosting: Hosting

    @property
    def allowed(self) -> Floats:
        """Which groups a task may run in: (tasks, groups) bool."""
        return self.work.members > 0


def instant(value: object) -> pd.Timestamp:
    """Return an instant in UTC without a zone."""
    when = pd.Timestamp(value)
    return when.tz_convert("UTC").tz_localize(None) if when.tzinfo else when


def build(
    tasks: pd.DataFrame,
    edges: pd.DataFrame | None,
    nodes: pd.DataFrame,
    links: pd.DataFrame | None,
    a: PlacementAssumptions,
    durations: pd.DataFrame | None = None,
) -> Problem:
    """Check everything that can be wrong, and build the arrays.

    Raises:
        BookError: With every fault of the tables.
    """
    faults = Faults()
    origin = instant(a.placement_start or a.as_of)
    frames = {
        name: read(name, given, faults)
        for name, given in (("tasks", tasks), ("task_edges", edges), ("task_durations", durations), ("nodes", nodes), ("links", links))
    }
    jobs, machine_rows = frames["tasks"], frames["nodes"]
    joined = check_names(jobs, frames["task_edges"], frames["task_durations"], machine_rows, faults)
    check_times(jobs, machine_rows, origin, faults)
    if a.deadline is not None and instant(a.deadline) <= origin:
        faults.add("assumptions", 0, "deadline", a.deadline, f"must lie after the start, {origin}", "Move the deadline or placement_start.")
    machine_rows = _with_added(machine_rows, a, faults)
    if faults.found and (jobs.empty or machine_rows.empty or jobs["task_id"].duplicated().any() or machine_rows["node"].duplicated().any()):
        faults.stop()
    machines = machines_of(machine_rows, set(frames["task_durations"]["runs_on"]), origin, a)
    between = links_of(machines, frames["links"], a, faults)
    check_durations(frames["task_durations"], machines, faults)
    hosting = hosting_of(jobs, frames["task_durations"], machines, a)
    gigabytes = joined["data_gb"].fillna(joined["from_task"].map(jobs.drop_duplicates("task_id").set_index("task_id")["output_gb"]))
    joined = joined.assign(data_gb=gigabytes.astype(float))
    return _arrays(jobs, joined, machines, between, hosting, a, faults)


def _with_added(nodes: pd.DataFrame, a: PlacementAssumptions, faults: Faults) -> pd.DataFrame:
    """Add the nodes that the assumptions add."""
    if not a.added_nodes or nodes.empty:
        return nodes
    kinds = nodes["kind"].where(nodes["kind"] != "", nodes["accelerator"].where(nodes["accelerator_count"] > 0, "CPU node"))
    wanted = a.added_node_kind or next(iter(kinds[nodes["accelerator_count"] > 0]), kinds.iloc[0])
    if wanted not in set(kinds):
        faults.add("assumptions", 0, "added_node_kind", wanted, "must be a kind of node of the table", suggestion(wanted, kinds))
        return nodes
    return with_node(nodes, wanted, a.added_nodes)


def with_node(nodes: pd.DataFrame, kind: str, count: int) -> pd.DataFrame:
    """Return filled nodes with some more of a kind, free from the start, in the rack where most of that kind are."""
    kinds = nodes["kind"].where(nodes["kind"] != "", nodes["accelerator"].where(nodes["accelerator_count"] > 0, "CPU node"))
    alike = nodes[kinds == kind]
    model = alike.loc[alike["nodes"].idxmax()].to_dict()
    rack = model["domain"] or model["node"]
    name = f"{model['node']}-added"
    while name in set(nodes["node"]):
        name += "-more"
    more = model | {"node": name, "nodes": count, "domain": rack, "taken_until": pd.NaT, "away_from": pd.NaT, "away_to": pd.NaT}
    return pd.concat([nodes, pd.DataFrame([more]).astype(nodes.dtypes)], ignore_index=True)


def _arrays(
    jobs: pd.DataFrame, edges: pd.DataFrame, machines: Machines, links: Links, hosting: Hosting, a: PlacementAssumptions, faults: Faults
) -> Problem:
    """Put everything into the arrays of the scheduler."""
    origin, use = instant(a.placement_start or a.as_of), allowed(jobs, machines, hosting, faults)
    hours, members = np.where(use, hosting.hours, 0.0), np.where(use, hosting.members, 0)
    number = {name: at for at, name in enumerate(jobs["task_id"])}
    begin, end = (edges[column].map(number).to_numpy(dtype=np.int64) for column in ("from_task", "to_task"))
    count = len(jobs)
    by_end = np.argsort(end, kind="stable")
    before = np.searchsorted(end[by_end], np.arange(count + 1)).astype(np.int64)
    source, gigabytes = np.ascontiguousarray(begin[by_end]), edges["data_gb"].to_numpy(dtype=float)[by_end]
    need = np.ascontiguousarray(jobs[list(RESOURCES)].to_numpy(dtype=float))
    _joined(edges.iloc[by_end], source, end[by_end], members, machines, links, faults)
    faults.stop()
    release = ((jobs["earliest_start"] - origin) / pd.Timedelta(hours=1)).fillna(0.0).clip(lower=0.0).to_numpy(dtype=float)
    due = ((jobs["deadline"] - origin) / pd.Timedelta(hours=1)).fillna(np.inf).to_numpy(dtype=float)
    if a.deadline is not None:
        due = np.minimum(due, (instant(a.deadline) - origin) / pd.Timedelta(hours=1))
    price, notes = machines.groups["usd_per_hour"].to_numpy(dtype=float), []
    if np.isnan(price).any():
        notes.append(
            f"No price is known of {', '.join(dict.fromkeys(machines.groups.loc[np.isnan(price), 'kind']))}; their hours count as free."
        )
    usd = np.nan_to_num(price)[None, :] * hours * members * dominant(need, members, machines)
    free = np.full(count, np.inf)
    work = Work(
        need,
        release,
        free,
        jobs["interruptible"].to_numpy(dtype=np.int64),
        before,
        source,
        gigabytes,
        np.ascontiguousarray(hours),
        np.ascontiguousarray(usd),
        np.ascontiguousarray(members),
        np.array([ACCELERATORS], dtype=np.int64),
    )
    edges = edges.iloc[by_end].reset_index(drop=True)
    ground = _ground(machines, links, a)
    return Problem(
        jobs, edges, machines, links, work, ground, profiles_of(machines), due, sorted_tasks(before, source), origin, tuple(notes), hosting
    )


def _ground(machines: Machines, links: Links, a: PlacementAssumptions) -> Ground:
    """Put nodes and links into arrays."""
    nodes = np.concatenate(machines.members).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum([len(inside) for inside in machines.members])]).astype(np.int64)
    inside = BITS / a.node_gbit_per_second / SECONDS if a.node_gbit_per_second else 0.0
    return Ground(
        bounds,
        nodes,
        links.place,
        links.hours_per_gb,
        links.latency_hours,
        links.usd_per_gb,
        links.link,
        np.array([inside]),
        np.array([int(a.shared_links)], dtype=np.int64),
    )


def dominant(need: Floats, members: Whole, machines: Machines) -> Floats:
    """Return the share of a node that a member of each task takes in each group: its largest of a resource, or all if unknown."""
    first = np.array([inside[0] for inside in machines.members], dtype=np.int64)
    capacity = machines.capacity[first]
    stated = (capacity < UNKNOWN) & (capacity > 0)
    part = need[:, None, :] / np.maximum(members, 1)[:, :, None]
    part[:, :, ACCELERATORS] = np.where(members > 1, np.ceil(part[:, :, ACCELERATORS] - 1e-9), part[:, :, ACCELERATORS])
    share = np.where(stated[None, :, :], part / np.where(stated, capacity, 1.0)[None, :, :], 0.0).max(axis=2)
    return np.where(share > 0, share, 1.0)


def _joined(edges: pd.DataFrame, source: Whole, target: Whole, members: Whole, machines: Machines, links: Links, faults: Faults) -> None:
    """Note edges whose data can reach none of the nodes on which the next task may run."""
    open_place = links.hours_per_gb < 1e17
    if open_place.all() or faults.found:
        return
    place = [np.unique(links.place[inside]) for inside in machines.members]
    count = len(place)
    reach = np.array([[open_place[np.ix_(place[one], place[other])].any() for other in range(count)] for one in range(count)])
    same = np.array(
        [[bool(np.intersect1d(machines.members[one], machines.members[other]).size) for other in range(count)] for one in range(count)]
    )
    allowed = members > 0
    meets = ((allowed[source].astype(float) @ (reach | same).astype(float)) * allowed[target]).sum(axis=1) > 0
    for row in np.flatnonzero(~meets & (edges["data_gb"].to_numpy() > 0)):
        first, last = edges["from_task"].iloc[row], edges["to_task"].iloc[row]
        faults.add(
            "links",
            0,
            "from_place and to_place",
            None,
            f"no link joins the sites where {first} and {last} may run",
            "Add a row of links between them, or change their residency.",
        )


def sorted_tasks(before: Whole, source: Whole) -> Whole:
    """Return tasks by the length of the longest chain of edges before them, then as they stand in the table."""
    from capplan.questions.placement.chains import depths

    count = len(before) - 1
    depth, stack, at = np.full(count, -1, dtype=np.int64), np.zeros(count + 1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if count:
        depths(before, source, depth, stack, at)
    return np.argsort(depth, kind="stable").astype(np.int64)
