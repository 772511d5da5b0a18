"""The view of placement: which task runs where and when, what binds, and whether the deadline can be met."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.placement import diagnosis_of, guide_of, placement_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.placement import Placement, as_training_runs, demand_by_stage, egress
from capplan.records import word_list
from capplan.text import words

#: What the sliders move, most telling first: the first four move the makespan of the example, the others that of other trees and nodes.
FIELDS = word_list(
    "added_nodes placement_objective node_gbit_per_second bandwidth_factor added_node_kind pipeline_demand deadline placement_method"
    " shared_links rack_gbit_per_second site_gbit_per_second gang_across_racks_slowdown_share placement_tries proof_gap_share"
    " proof_deterministic_seconds proof_size"
)
#: Nodes up to which each has a row of its own in the picture; above it each task has one.
ROWS = 24
#: Rows of tasks in the picture; the table has all.
TASKS = 60


@once
def show_placement(book: Book, scenario: Scenario) -> View:
    """Show the schedule of the book's tasks on its nodes."""
    book = book.with_changes(scenario.changes)
    answer = placement_of(book, scenario)
    pictures = {"schedule": _schedule(answer), "binding": _binding(answer)}
    if len(answer.methods) > 1:
        pictures["methods"] = _methods(answer)
    details = {"transfers": answer.transfers, "critical_path": answer.critical_path, "binding": answer.binding, "methods": answer.methods}
    if answer.deadline is not None and len(answer.deadline.remedies):
        details["remedies"] = answer.deadline.remedies
    notes = (*book.notes, *answer.notes, _colocated(answer))
    details |= {
        "demand_by_stage": demand_by_stage(answer.schedule),
        "egress": egress(answer.transfers, _begin(answer)),
        "training_runs": as_training_runs(answer.schedule, book.get("tasks"), book.get("speeds")),
    }
    diagnosis = diagnosis_of(book, scenario)
    if diagnosis is not None:
        details |= {"diagnosis": diagnosis.summary, "misplaced_jobs": diagnosis.signs}
        notes = (*notes, diagnosis.headline, *diagnosis.notes)
    details["stage_guide"] = _short(guide_of(book, scenario))
    return View(answer.headline, pictures, answer.schedule, answer.makespan_hours, "hours", FIELDS, notes, details, telling=4)


def _begin(answer: Placement) -> pd.Timestamp:
    """Return hour 0."""
    return answer.schedule["start"].iloc[0] - pd.Timedelta(hours=float(answer.schedule["start_hours"].iloc[0]))


def _short(guide: pd.DataFrame) -> pd.DataFrame:
    """Keep the cheapest that fits of each stage and model, and one that does not, with its reason."""
    return guide.groupby(["stage", "model", "fits"], sort=False).head(1).reset_index(drop=True)


def _colocated(answer: Placement) -> str:
    """Say what standing together saves, and what a quoted transfer time means."""
    saved = f"Were every edge of this placement to cross racks, it would end {answer.colocation_saving_hours:.3g} hours later."
    return f"{saved} 20 GB take 16 seconds at 10 Gbit/s; the 20 to 30 minutes often quoted for them mean about 0.1 Gbit/s."


def _rows(schedule: pd.DataFrame) -> pd.DataFrame:
    """Return one bar for each task and node, in lanes where a node is shared; one for each task where nodes are many."""
    each = schedule.assign(node=schedule["nodes"].str.split(", ")).explode("node", ignore_index=True)
    if each["node"].nunique() > ROWS or not len(each):
        return schedule.head(TASKS).assign(row=schedule["task_id"].head(TASKS))
    lanes: dict[str, list[float]] = {}
    rows = []
    for bar in each.itertuples(index=False):
        ends = lanes.setdefault(bar.node, [])
        lane = next((number for number, end in enumerate(ends) if end <= bar.start_hours + 1e-9), len(ends))
        ends[lane : lane + 1] = [bar.end_hours]
        rows.append(bar.node if lane == 0 else f"{bar.node} ({lane + 1})")
    each = each.assign(row=rows)
    return each.sort_values("row", kind="stable", key=lambda names: names.map(_natural))


def _natural(name: str) -> tuple[Any, ...]:
    """Sort n-2 before n-10."""
    return tuple(int(part) if part.isdigit() else part for part in "".join(letter if letter.isalnum() else " " for letter in name).split())


def _schedule(answer: Placement) -> Any:
    """Draw the schedule."""
    rows = _rows(answer.schedule)
    bars = pd.DataFrame(
        {
            "row": rows["row"],
            "label": rows["task_id"],
            "kind": rows["stage"].map(lambda stage: words(stage) if stage else "No stage"),
            "start": rows["start_hours"],
            "end": rows["end_hours"],
            "marked": rows["critical"],
        }
    )
    known = rows.drop_duplicates("task_id").set_index("task_id")["row"]
    moved = answer.transfers[(answer.transfers["from_node"] != answer.transfers["to_node"]) & answer.transfers["to_task"].isin(known.index)]
    moves = pd.DataFrame({"row": moved["to_task"].map(known), "start": moved["start_hours"], "end": moved["end_hours"]})
    limit = None
    if answer.deadline is not None:
        limit = (answer.deadline.asked - _begin(answer)) / pd.Timedelta(hours=1)
    busiest = answer.binding.iloc[0]
    what = {
        "busy": "nodes of kind {} that other tasks hold",
        "duration": "the tasks on {} themselves",
        "link": "the link {}",
        "wait": "{}",
    }[busiest["what"]].format(busiest["name"])
    return charts.schedule(
        bars,
        title=f"The last task ends after {answer.makespan_hours:,.3g} hours; {what} make {busiest['share']:.0%} of the longest way",
        subtitle="Framed: the longest way. Thin bars: transfers between nodes. Tasks that share a node stand under each other",
        moves=moves,
        limit=limit,
    )


def _binding(answer: Placement) -> Any:
    """Draw what the longest way is made of."""
    names = {"busy": "Waits for nodes: ", "duration": "Tasks on ", "link": "Link ", "wait": "Waits: "}
    table = answer.binding
    return charts.bars(
        pd.DataFrame({"label": table["what"].map(names) + table["name"], "value": table["hours"]}),
        title="What would have to be more or faster for the last task to end sooner",
        axis=charts.Axis("Hours on the longest way", "hours"),
    )


def _methods(answer: Placement) -> Any:
    """Draw the schedules of the heuristics beside the chosen one."""
    table = answer.methods.sort_values("makespan_hours", kind="stable")
    names = {
        "heft": "HEFT",
        "cpop": "CPOP",
        "olb": "OLB",
        "locality": "HEFT with locality",
        "milp": "Proven program",
        "draws": "Drawn ranks",
        "deadline": "For the deadline",
    }
    best = table.iloc[0]
    sure = "proven" if answer.proven else (f"within {answer.gap_share:.1%} of the bound" if np.isfinite(answer.gap_share) else "not proven")
    return charts.bars(
        pd.DataFrame({"label": table["method"].map(lambda name: names.get(name, name)), "value": table["makespan_hours"]}),
        title=f"{names.get(best['method'], best['method'])} ends first; the schedule shown is {sure}",
        axis=charts.Axis("Last end", "hours"),
    )
