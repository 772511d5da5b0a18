"""Is a schedule lawful, and what is the best of tiny ones? Written from the tables alone: shares no code with capplan."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd

SMALL = 1e-6
KINDS = {
    "cpus": "cpus",
    "threads": "cpu_threads",
    "memory_gib": "memory_gib",
    "accelerators": "accelerator_count",
    "local_ssd_gib": "local_ssd_gib",
}


def value(row, name, default):
    cell = row.get(name)
    return default if cell is None or (not isinstance(cell, str) and pd.isna(cell)) else cell


def machines(nodes, origin):
    """Every node by its name, with what it has and when it is gone."""
    found = {}
    for row in nodes.to_dict("records"):
        count = int(value(row, "nodes", 1))
        for at in range(count):
            name = f"{row['node']}-{at}" if count > 1 else row["node"]
            has = {own: value(row, theirs, math.inf) for own, theirs in KINDS.items()}
            if "cpu_threads" not in row or pd.isna(row["cpu_threads"]):
                has["threads"] = has["cpus"]
            gone = []
            if value(row, "taken_until", None) is not None:
                gone.append((0.0, (row["taken_until"] - origin).total_seconds() / 3600, value(row, "taken_share", 1.0)))
            if value(row, "away_from", None) is not None:
                gone.append(((row["away_from"] - origin).total_seconds() / 3600, (row["away_to"] - origin).total_seconds() / 3600, 1.0))
            kind = value(row, "kind", "") or (row["accelerator"] if row["accelerator_count"] > 0 else "CPU node")
            found[name] = {
                "row": row["node"],
                "has": has,
                "rack": value(row, "domain", row["node"]),
                "site": value(row, "site", "site"),
                "geography": value(row, "geography", ""),
                "accelerator": row["accelerator"] if row["accelerator_count"] > 0 else "",
                "kind": kind,
                "usd": value(row, "usd_per_hour", 0.0),
                "gone": gone,
            }
    return found


def way(one, other, known, links, a):
    """Hours for a gigabyte, latency in hours, USD for a gigabyte, and a name for the link."""
    if one == other:
        return (8 / a.node_gbit_per_second / 3600 if a.node_gbit_per_second else 0.0), 0.0, 0.0, None
    begin, end = known[one], known[other]
    at = [{one: 2, begin["row"]: 2, begin["rack"]: 1, begin["site"]: 0}, {other: 2, end["row"]: 2, end["rack"]: 1, end["site"]: 0}]
    best = None
    for number, row in enumerate([] if links is None else links.to_dict("records")):
        for turned, (first, second) in enumerate(((row["from_place"], row["to_place"]), (row["to_place"], row["from_place"]))):
            if first in at[0] and second in at[1]:
                rank = (at[0][first] + at[1][second], -turned)
                if best is None or rank > best[0]:
                    rate = row["gbit_per_second"] * (1 - value(row, "used_share", 0.0)) * a.bandwidth_factor
                    best = (
                        rank,
                        (
                            8 / rate / 3600,
                            value(row, "latency_seconds", 0.0) / 3600,
                            value(row, "usd_per_gb", 0.0),
                            ("row", number, first == row["from_place"]),
                        ),
                    )
    if best:
        return best[1]
    if begin["site"] != end["site"]:
        return math.inf, 0.0, 0.0, None
    same = begin["rack"] == end["rack"]
    rate = (a.rack_gbit_per_second if same else a.site_gbit_per_second) * a.bandwidth_factor
    return 8 / rate / 3600, (a.rack_latency_seconds if same else a.site_latency_seconds) / 3600, 0.0, ("card", one)


def duration(task, node, known, durations):
    hours = value(task, "duration_hours", math.nan)
    for level in ("accelerator", "kind", "row"):
        if durations is not None:
            hit = durations[(durations["task_id"] == task["task_id"]) & (durations["runs_on"] == known[node][level])]
            if known[node][level] and len(hit):
                hours = float(hit["duration_hours"].iloc[0])
    return hours


def part(task, members):
    """What one member takes."""
    need = {name: value(task, name, 0.0) / members for name in KINDS}
    if members > 1:
        need["accelerators"] = math.ceil(need["accelerators"] - 1e-9)
    return need


def check(answer, tasks, edges, nodes, links, a, durations=None):
    """Assert that a schedule keeps every rule, and that its figures are what its rows say."""
    origin = pd.Timestamp(a.placement_start or a.as_of)
    known = machines(nodes, origin)
    rows = answer.schedule.set_index("task_id")
    given = {row["task_id"]: row for row in tasks.to_dict("records")}
    assert sorted(rows.index) == sorted(given)
    held, money = [], 0.0
    for name, task in given.items():
        taken, begin, end = rows.loc[name, "nodes"].split(", "), rows.loc[name, "start_hours"], rows.loc[name, "end_hours"]
        assert len(set(taken)) == len(taken)
        assert len({(known[node]["kind"], known[node]["site"]) for node in taken}) == 1
        first = known[taken[0]]
        home = value(task, "residency", "")
        assert home in ("", first["site"], first["geography"])
        need = part(task, len(taken))
        if need["accelerators"] > 0 and value(task, "accelerator", ""):
            assert first["accelerator"] == task["accelerator"]
        hours = duration(task, taken[0], known, durations)
        if len(taken) > 1 and len({known[node]["rack"] for node in taken}) > 1:
            hours *= 1 + a.gang_across_racks_slowdown_share
        if value(task, "earliest_start", None) is not None:
            assert begin >= (task["earliest_start"] - origin).total_seconds() / 3600 - SMALL
        gaps = 0.0
        for node in taken:
            for start, back, share in known[node]["gone"]:
                over = min(end, back) - max(begin, start)
                if share >= 1 and over > SMALL:
                    assert value(task, "interruptible", False)
                    assert len(taken) == 1
                    assert begin < start + SMALL
                    gaps += back - start
            held.append((begin, end, node, need))
        assert abs(end - begin - hours - gaps) < SMALL
        shares = [need[name] / first["has"][name] for name in KINDS if 0 < first["has"][name] < math.inf]
        money += first["usd"] * hours * len(taken) * (max(shares, default=0.0) or 1.0)
    for node, machine in known.items():
        here = [row for row in held if row[2] == node and row[1] - row[0] > SMALL]
        for instant in {row[0] for row in here}:
            for name in KINDS:
                has = machine["has"][name]
                for start, back, share in machine["gone"]:
                    if share < 1 and start <= instant + SMALL < back:
                        has = math.floor(has * (1 - share) + 1e-9) if name == "accelerators" else has * (1 - share)
                assert sum(row[3][name] for row in here if row[0] <= instant + SMALL and row[1] > instant + SMALL) <= has + SMALL
    sent = {(row["from_task"], row["to_task"]): row for row in answer.transfers.to_dict("records")}
    busy = {}
    for row in [] if edges is None else edges.to_dict("records"):
        size = value(row, "data_gb", value(given[row["from_task"]], "output_gb", 0.0))
        end, begin = rows.loc[row["from_task"], "end_hours"], rows.loc[row["to_task"], "start_hours"]
        assert begin >= end - SMALL
        if size == 0:
            continue
        pairs = [
            way(one, other, known, links, a)
            for one in rows.loc[row["from_task"], "nodes"].split(", ")
            for other in rows.loc[row["to_task"], "nodes"].split(", ")
        ]
        least = max(size * pair[0] + pair[1] for pair in pairs)
        move = sent[row["from_task"], row["to_task"]]
        assert move["start_hours"] >= end - SMALL
        assert begin >= move["end_hours"] - SMALL
        assert move["end_hours"] - move["start_hours"] >= least - SMALL
        assert abs(move["usd"] - size * max(pair[2] for pair in pairs)) < SMALL
        money += size * max(pair[2] for pair in pairs)
        link = way(move["from_node"], move["to_node"], known, links, a)
        if link[3] is not None:
            busy.setdefault(link[3], []).append((move["start_hours"], move["end_hours"] - link[1]))
    if a.shared_links:
        for spans in busy.values():
            spans.sort()
            for one, other in itertools.pairwise(spans):
                assert one[1] <= other[0] + SMALL
    assert abs(money - answer.usd) < SMALL * max(1.0, money)
    assert abs(rows["end_hours"].max() - answer.makespan_hours) < SMALL


def brute_force(tasks, edges, nodes, links, a, durations=None, figure="makespan"):
    """The best figure of single-node tasks, by every choice of nodes and every order of tasks and transfers, each as early as it can be."""
    known = machines(nodes, pd.Timestamp(a.placement_start or a.as_of))
    given = tasks.to_dict("records")
    joins = [] if edges is None else [(row["from_task"], row["to_task"], row["data_gb"]) for row in edges.to_dict("records")]
    best = math.inf
    fits = []
    for task in given:
        need = part(task, 1)
        fits.append(
            [
                node
                for node, machine in known.items()
                if all(need[name] <= machine["has"][name] for name in KINDS) and not math.isnan(duration(task, node, known, durations))
            ]
        )
    # transfers that do not meet need no order of their own: each right behind its task
    moves = [("move", join) for join in joins] if a.shared_links else []
    acts = [("task", task["task_id"]) for task in given] + moves
    for choice in itertools.product(*fits):
        at = {task["task_id"]: node for task, node in zip(given, choice, strict=True)}
        if any(math.isinf(way(at[one], at[other], known, links, a)[0]) and size > 0 for one, other, size in joins):
            continue
        for order in itertools.permutations(acts):
            place = {act: number for number, act in enumerate(order)}
            if any(
                not place["task", join[0]] <= place.get(("move", join), place["task", join[0]]) < place["task", join[1]] for join in joins
            ):
                continue
            acted = order if moves else [act for task in order for act in (task, *(("move", join) for join in joins if join[0] == task[1]))]
            best = min(best, _serial(acted, at, {task["task_id"]: task for task in given}, joins, known, links, a, durations))
    return best


def _serial(order, at, given, joins, known, links, a, durations):
    """The last end when everything is put, in this order, where it can first be."""
    end, held, busy = {}, [], {}
    for kind, name in order:
        if kind == "move":
            hours, latency, _, link = way(at[name[0]], at[name[1]], known, links, a)
            length = name[2] * hours if name[2] else 0.0
            begin = end[name[0]]
            if a.shared_links and link is not None and name[2]:
                for start in sorted([begin, *(span[1] for span in busy.get(link, []))]):
                    if start >= begin and all(span[1] <= start + 1e-12 or span[0] >= start + length - 1e-12 for span in busy.get(link, [])):
                        begin = start
                        break
                busy.setdefault(link, []).append((begin, begin + length))
            end[name] = begin + length + (latency if name[2] else 0.0)
            continue
        task, node = given[name], at[name]
        ready = max((end[join] for join in joins if join[1] == name), default=0.0)
        length, need = duration(task, node, known, durations), part(task, 1)
        for start in sorted([ready, *(row[1] for row in held if row[2] == node and row[1] > ready)]):
            starts = [start, *(row[0] for row in held if row[2] == node and start < row[0] < start + length)]
            if all(
                sum(row[3][r] for row in held if row[2] == node and row[0] <= t + 1e-12 and row[1] > t + 1e-12) + need[r]
                <= known[node]["has"][r] + 1e-9
                for t in starts
                for r in KINDS
            ):
                break
        end[name] = start + length
        held.append((start, start + length, node, need))
    return max(end[name] for name in given)


def random_pipeline(generator: np.random.Generator, count: int, machines_: int, *, plain: bool = False):
    """A layered random graph after the rules of the Standard Task Graph set: each task depends on an earlier one with equal chance."""
    tasks = pd.DataFrame(
        {
            "task_id": [f"t{at}" for at in range(count)],
            "stage": generator.choice(["data_preparation", "pretraining", "evaluation"], count),
            "cpus": generator.integers(1, 9, count).astype(float),
            "memory_gib": generator.integers(0, 33, count).astype(float),
            "accelerators": 0.0 if plain else generator.choice([0, 0, 1, 4, 8, 16], count).astype(float),
            "duration_hours": generator.integers(1, 12, count).astype(float),
            "interruptible": False if plain else generator.uniform(size=count) < 0.4,
        }
    )
    pairs = [(one, other) for other in range(count) for one in range(other) if generator.uniform() < 2.0 / max(other, 2)]
    edges = pd.DataFrame(
        [(f"t{one}", f"t{other}", float(generator.integers(0, 5)) * 3600) for one, other in pairs],
        columns=["from_task", "to_task", "data_gb"],
    )
    kinds = generator.choice(2, machines_) if not plain else np.zeros(machines_, dtype=int)
    nodes = pd.DataFrame(
        {
            "node": [f"n{at}" for at in range(machines_)],
            "accelerator": "" if plain else "H100",
            "accelerator_count": 0 if plain else 8,
            "cpus": np.where(kinds == 1, 16.0, 10.0),
            "memory_gib": 64.0,
            "domain": [f"rack-{at % 2}" for at in range(machines_)],
            "usd_per_hour": np.where(kinds == 1, 20.0, 12.0),
        }
    )
    if not plain:
        origin = pd.Timestamp("2026-12-01")
        nodes["away_from"] = [origin + pd.Timedelta(hours=int(generator.integers(1, 20))) if at == 0 else pd.NaT for at in range(machines_)]
        nodes["away_to"] = nodes["away_from"] + pd.Timedelta(hours=5)
        nodes["taken_until"] = [origin + pd.Timedelta(hours=6) if at == 1 else pd.NaT for at in range(machines_)]
        nodes["taken_share"] = 0.5
        if machines_ < 2 or nodes["cpus"].iloc[[0, -1]].nunique() > 1:
            nodes["cpus"], nodes["usd_per_hour"] = 16.0, 20.0
        nodes["cpus"] = nodes["cpus"].iloc[0] if len(nodes) < 4 else nodes["cpus"]
        if nodes.groupby("cpus").size().min() < 2:
            nodes["cpus"], nodes["usd_per_hour"] = 16.0, 20.0
    return tasks, edges, nodes


def of_three_kinds(tasks, nodes):
    """The same nodes as three kinds of 8, 10 and 16 CPUs, and durations on each in whole hours."""
    kinds = [f"kind-{at % 3}" for at in range(len(nodes))]
    nodes = nodes.assign(kind=kinds, cpus=[(8.0, 10.0, 16.0)[at % 3] for at in range(len(nodes))])
    durations = pd.DataFrame(
        [
            (task, f"kind-{kind}", float(round(hours * factor)))
            for task, hours in zip(tasks["task_id"], tasks["duration_hours"], strict=True)
            for kind, factor in enumerate((1.0, 1.5, 2.0))
        ],
        columns=["task_id", "runs_on", "duration_hours"],
    )
    return nodes, durations
