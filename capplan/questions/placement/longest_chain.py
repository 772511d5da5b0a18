"""What holds the last end back: the chain of tasks, transfers and waits that leads to it."""

import numpy as np
import pandas as pd

from capplan.questions.placement.methods import Found
from capplan.questions.placement.problem import Problem
from capplan.questions.placement.state import INSTANT

#: Two instants closer than this touch (hours).
TOUCH = 1e-6


def targets(problem: Problem) -> np.ndarray:
    """Return the task each edge leads to."""
    return np.repeat(np.arange(len(problem.work.release)), np.diff(problem.work.before))


def arrivals(problem: Problem, found: Found) -> np.ndarray:
    """Return when each transfer's last byte is there: the end on its link, and its latency."""
    place, moved = problem.links.place, (problem.work.gigabytes > 0) & (found.sender != found.receiver)
    return np.asarray(found.came + np.where(moved, problem.links.latency_hours[place[found.sender], place[found.receiver]], 0.0))


def critical_chain(problem: Problem, found: Found, last: int) -> pd.DataFrame:
    """Follow a task back to the start.

    Returns:
        DataFrame: [step, what ("task", "transfer" or "wait"), name, on (kind of node or link), start_hours, end_hours, because], first step
            first. `because` says why the step began no sooner: "start", "earliest start", "data of ...", "node busy with ...", "link busy
            with ...", "node away".
    """
    work, names = problem.work, problem.tasks["task_id"].to_numpy()
    come = arrivals(problem, found)
    kinds = problem.machines.groups["kind"].to_numpy()
    on: dict[int, list[int]] = {}
    for task, nodes in enumerate(found.nodes):
        for node in nodes:
            on.setdefault(int(node), []).append(task)
    steps: list[dict[str, object]] = []
    task, seen = last, set()
    while task >= 0 and task not in seen:
        seen.add(task)
        begin, following, because = float(found.start[task]), -1, "start"
        row = {
            "what": "task",
            "name": names[task],
            "on": kinds[found.group[task]],
            "start_hours": begin,
            "end_hours": float(found.end[task]),
        }
        steps.append(row)
        edges = range(work.before[task], work.before[task + 1])
        tight = [edge for edge in edges if come[edge] >= begin - TOUCH]
        if tight:
            edge = max(tight, key=lambda edge: (come[edge], -edge))
            following, because = int(work.source[edge]), f"data of {names[work.source[edge]]}"
            if come[edge] - found.end[following] > TOUCH:
                link = link_name(problem, found, edge)
                waited = found.sent[edge] - found.end[following] > TOUCH
                transfer = {
                    "what": "transfer",
                    "name": f"{names[following]} to {names[task]}",
                    "on": link,
                    "start_hours": float(found.sent[edge]),
                    "end_hours": float(come[edge]),
                }
                steps.append(transfer | {"because": f"link busy: {link}" if waited else f"end of {names[following]}"})
        elif begin > INSTANT:
            ended = [
                other for node in found.nodes[task] for other in on[int(node)] if other != task and abs(found.end[other] - begin) <= TOUCH
            ]
            away = problem.machines.away
            back = away["node"].isin(found.nodes[task]) & ((away["end"] - begin).abs() <= TOUCH)
            if ended:
                following = max(ended, key=lambda other: (float(found.end[other] - found.start[other]), -other))
                because = f"node busy with {names[following]}"
            elif back.any():
                because = "node away or taken"
            elif work.release[task] >= begin - TOUCH:
                because = "earliest start"
            else:
                because = "room on its nodes"
        row["because"] = because
        task = following
    chain = pd.DataFrame(steps[::-1], columns=["what", "name", "on", "start_hours", "end_hours", "because"])
    chain.insert(0, "step", np.arange(1, len(chain) + 1))
    return chain


def link_name(problem: Problem, found: Found, edge: int) -> str:
    """Name the link of a transfer: its row of the table, or the level of its default."""
    one, other = int(found.sender[edge]), int(found.receiver[edge])
    if one == other:
        return "inside the node"
    kind = int(problem.links.link[problem.links.place[one], problem.links.place[other]])
    if kind >= 0:
        return problem.links.names[kind]
    nodes = problem.machines.nodes
    level = "rack" if nodes["rack"].iloc[one] == nodes["rack"].iloc[other] else "site"
    return f"inside the {level} {nodes[level].iloc[one]}"


def binding(chain: pd.DataFrame) -> pd.DataFrame:
    """Sum the chain by what would have to be more or faster.

    Returns:
        DataFrame: [what, name, hours, share], largest first: "duration" of tasks on a kind of node that follow their data, "busy" nodes of
            a kind, "link", "wait" for a start or a return.
    """
    rows = []
    for number, step in enumerate(chain.itertuples(index=False)):
        hours = step.end_hours - step.start_hours
        after = chain["because"].iloc[number + 1] if number + 1 < len(chain) else ""
        if step.what == "transfer":
            rows.append(("link", step.on, hours))
        else:
            rows.append(("busy" if str(after).startswith("node busy") else "duration", step.on, hours))
        before = chain["end_hours"].iloc[number - 1] if number else 0.0
        if step.start_hours - before > TOUCH:
            rows.append(("wait", step.because, step.start_hours - before))
    table = pd.DataFrame(rows, columns=["what", "name", "hours"]).groupby(["what", "name"], as_index=False, sort=False)["hours"].sum()
    whole = table["hours"].sum()
    return table.assign(share=table["hours"] / whole if whole > 0 else 0.0).sort_values(
        "hours", ascending=False, kind="stable", ignore_index=True
    )
