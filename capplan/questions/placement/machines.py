"""Nodes one by one, in groups of equal ones, and the links between the places they stand in."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.errors import suggestion
from capplan.questions.placement.reading import Faults
from capplan.questions.placement.state import CARD, RESOURCES, Floats, Whole

#: What stands for a capacity that nobody states.
UNKNOWN = 1e15
SECONDS = 3600.0
#: Bits of a byte: gigabytes times this over Gbit/s is seconds.
BITS = 8.0


@dataclass(frozen=True)
class Machines:
    """Nodes and their groups."""

    #: One row a node: [node, row (its name in the table), kind, accelerator, rack, site, geography, usd_per_hour, group].
    nodes: pd.DataFrame
    capacity: Floats  #: (nodes, resources)
    #: One row a group of equal nodes in one site: [kind, accelerator, site, geography, rack, usd_per_hour, size]; rack is empty where a
    #: group covers a whole site.
    groups: pd.DataFrame
    members: tuple[Whole, ...]  #: (tuple of arrays): Nodes of each group.
    away: pd.DataFrame  #: [node (number), start, end (hours), share taken]: when nodes are not all there.


@dataclass(frozen=True)
class Links:
    """How data passes between places; see Ground. `names` are those of the rows of the links table, each in both directions."""

    place: Whole
    hours_per_gb: Floats
    latency_hours: Floats
    usd_per_gb: Floats
    link: Whole
    names: tuple[str, ...]


def machines_of(nodes: pd.DataFrame, runs_on: set[str], origin: pd.Timestamp, a: PlacementAssumptions) -> Machines:
    """Write out one row a node and sort equal ones of a site into groups; nodes that durations name are groups of their own.

    Args:
        runs_on: Names that durations are given for.
        origin: Hour 0.
    """
    table = nodes.reset_index(drop=True)
    table["row"] = table["node"]
    table["rack"] = table["domain"].where(table["domain"] != "", table["node"])
    table["site"] = table["site"].where(table["site"] != "", "site")
    has = table["accelerator_count"] > 0
    table["accelerator"] = table["accelerator"].where(has, "")
    table["kind"] = table["kind"].where(table["kind"] != "", table["accelerator"].where(has, "CPU node"))
    frame = table.loc[table.index.repeat(table["nodes"].astype(int))].reset_index(drop=True)
    position = frame.groupby("row", sort=False).cumcount()
    frame["node"] = np.where(frame["nodes"] > 1, frame["row"] + "-" + position.astype(str), frame["row"])
    threads = frame["cpu_threads"].fillna(frame["cpus"])
    capacity = np.column_stack([frame["cpus"], threads, frame["memory_gib"], frame["accelerator_count"], frame["local_ssd_gib"]]).astype(
        float
    )
    capacity = np.where(np.isnan(capacity), UNKNOWN, capacity)
    own = frame["row"].where(frame["row"].isin(runs_on), "")
    equal = ["kind", "accelerator", "site", "geography", "usd_per_hour", "own", *RESOURCES]
    alike = frame.assign(own=own, **dict(zip(RESOURCES, capacity.T, strict=True)))
    number = alike.groupby(equal, sort=False, dropna=False).ngroup().to_numpy()
    frame["group"] = number
    members = [np.flatnonzero(number == group) for group in range(number.max() + 1)] if len(frame) else []
    groups = [
        frame.iloc[inside[0]][["kind", "accelerator", "site", "geography", "usd_per_hour"]].to_dict() | {"rack": ""} for inside in members
    ]
    if a.gang_across_racks_slowdown_share > 0:
        racks = [
            (group, inside[frame["rack"].to_numpy()[inside] == rack])
            for group, inside in enumerate(members)
            for rack in frame["rack"].iloc[inside].unique()
        ]
        # a rack that is the whole group needs no second one
        for group, inside in racks:
            if len(inside) > 1:
                groups.append(groups[group] | {"rack": frame["rack"].iloc[inside[0]]})
                members.append(inside)
    frame_of_groups = (
        pd.DataFrame(groups).assign(size=[len(inside) for inside in members]) if groups else pd.DataFrame(columns=["kind", "size"])
    )
    kept = ["node", "row", "kind", "accelerator", "rack", "site", "geography", "usd_per_hour", "group"]
    return Machines(frame[kept], capacity, frame_of_groups, tuple(members), _away(frame, origin))


def _away(frame: pd.DataFrame, origin: pd.Timestamp) -> pd.DataFrame:
    """Return when nodes are taken or away, in hours from the origin."""
    rows = []
    for number, row in enumerate(frame[["taken_until", "taken_share", "away_from", "away_to"]].itertuples(index=False)):
        if not pd.isna(row.taken_until) and row.taken_until > origin and row.taken_share > 0:
            rows.append((number, 0.0, (row.taken_until - origin) / pd.Timedelta(hours=1), row.taken_share))
        if not pd.isna(row.away_from) and not pd.isna(row.away_to) and row.away_to > origin:
            rows.append(
                (number, max((row.away_from - origin) / pd.Timedelta(hours=1), 0.0), (row.away_to - origin) / pd.Timedelta(hours=1), 1.0)
            )
    return pd.DataFrame(rows, columns=["node", "start", "end", "share"])


@dataclass(frozen=True)
class Profiles:
    """What is free on each node from when on, before anything is placed: (nodes, steps[, resources]), (nodes,)."""

    times: Floats
    free: Floats
    away: Whole
    count: Whole


def profiles_of(machines: Machines) -> Profiles:
    """Write down when nodes are partly taken or away."""
    away, nodes = machines.away, len(machines.nodes)
    number, begin, end, share = (away[column].to_numpy() for column in ("node", "start", "end", "share"))
    room = 1 + 2 * int(np.bincount(number.astype(int), minlength=1).max()) if len(away) else 1
    times, gone, count = np.zeros((nodes, room)), np.zeros((nodes, room), dtype=np.int64), np.ones(nodes, dtype=np.int64)
    free = np.repeat(machines.capacity[:, None, :], room, axis=1)
    accelerators = RESOURCES.index("accelerators")
    for node in np.unique(number).astype(int):
        mine = number == node
        marks = np.unique(np.concatenate([[0.0], begin[mine], end[mine]]))
        holds = (begin[mine][None, :] <= marks[:, None]) & (marks[:, None] < end[mine][None, :])
        taken = np.where(holds, share[mine][None, :], 0.0).max(axis=1)
        steps = len(marks)
        count[node], times[node, :steps] = steps, marks
        # who rests while a node is away still holds what it holds there
        gone[node, :steps] = taken >= 1.0
        left = machines.capacity[node] * (1 - np.where(taken >= 1.0, 0.0, taken))[:, None]
        left[:, accelerators] = np.floor(left[:, accelerators] + 1e-9)
        free[node, :steps] = left
    return Profiles(times, free, gone, count)


def _check_links(links: pd.DataFrame, levels: dict[str, str], faults: Faults) -> None:
    """Note links of what is no place, and those that stand there twice."""
    for column in ("from_place", "to_place"):
        for row in np.flatnonzero(~links[column].isin(levels.keys())):
            faults.add(
                "links",
                int(row) + 1,
                column,
                links[column].iloc[row],
                "must be a node, a rack (domain) or a site of nodes",
                suggestion(links[column].iloc[row], levels),
            )
    for row in np.flatnonzero(links.duplicated(["from_place", "to_place"])):
        faults.add(
            "links",
            int(row) + 1,
            "from_place and to_place",
            f"{links['from_place'].iloc[row]} and {links['to_place'].iloc[row]}",
            "stands there more than once",
            "Keep one row.",
        )


def links_of(machines: Machines, links: pd.DataFrame, a: PlacementAssumptions, faults: Faults) -> Links:
    """Find the bandwidth, latency and price between any two nodes: the most specific row of the table, or the default of its level.

    A row holds in both directions, unless another one states the way back. Between sites there is no default: what no row joins, no data
    can pass.
    """
    nodes = machines.nodes
    levels = (
        dict.fromkeys(nodes["site"], "site") | dict.fromkeys(nodes["rack"], "rack") | dict.fromkeys((*nodes["row"], *nodes["node"]), "node")
    )
    _check_links(links, levels, faults)
    named = {name for column in ("from_place", "to_place") for name in links[column] if levels.get(name) == "node"}
    # nodes that no link names are alike within their rack
    own = np.where(nodes["node"].isin(named) | nodes["row"].isin(named), nodes["node"], "")
    where = list(zip(nodes["site"], nodes["rack"], nodes["row"].where(own != "", ""), own, strict=True))
    places = list(dict.fromkeys(where))
    index = {place: number for number, place in enumerate(places)}
    size = len(places)
    factor = a.bandwidth_factor
    hours, latency, usd = np.full((size, size), 1e18), np.zeros((size, size)), np.zeros((size, size))
    link = np.full((size, size), CARD, dtype=np.int64)
    site_number, rack_number = (
        np.unique([place[at] for place in places], return_inverse=True)[1] if size else np.zeros(0, int) for at in (0, 1)
    )
    same_site = site_number[:, None] == site_number[None, :]
    same_rack = same_site & (rack_number[:, None] == rack_number[None, :])
    for inside, gbit, seconds in (
        (same_site, a.site_gbit_per_second, a.site_latency_seconds),
        (same_rack, a.rack_gbit_per_second, a.rack_latency_seconds),
    ):
        hours[inside] = BITS / (gbit * factor) / SECONDS
        latency[inside] = seconds / SECONDS
    best = np.full((size, size), -1.0)
    holds = {name: np.array([name in place for place in places], dtype=bool) for name in {*links["from_place"], *links["to_place"]}}
    rank = {"site": 0, "rack": 1, "node": 2}
    for number, row in enumerate(links.itertuples(index=False)):
        specific = rank.get(levels.get(row.from_place, ""), 0) + rank.get(levels.get(row.to_place, ""), 0)
        for way, (begin, end) in enumerate(((row.from_place, row.to_place), (row.to_place, row.from_place))):
            # the stated direction goes before the way back of another row
            level = specific + (0.25 if way == 0 else 0.0)
            hit = holds[begin][:, None] & holds[end][None, :] & (best < level)
            best[hit] = level
            hours[hit] = BITS / (row.gbit_per_second * (1 - row.used_share) * factor) / SECONDS
            latency[hit] = row.latency_seconds / SECONDS
            usd[hit] = row.usd_per_gb
            link[hit] = 2 * number + way
    names = tuple(
        f"{begin} to {end}"
        for row in links.itertuples(index=False)
        for begin, end in ((row.from_place, row.to_place), (row.to_place, row.from_place))
    )
    return Links(np.array([index[place] for place in where], dtype=np.int64), hours, latency, usd, link, names)
