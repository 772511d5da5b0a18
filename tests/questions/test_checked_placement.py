"""A placement from anywhere: each kind of rule it breaks with the amount worked out by hand, and what it costs beside the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.book.proposed import PLACEMENT_COLUMNS, read_proposed
from capplan.errors import BookError
from capplan.outputs.export.files import write_table
from capplan.questions.placement import CheckedPlacement, check_placement, place_tasks, read_placement
from capplan.questions.placement.problem import build
from tests.cases.placement_checker import check, random_pipeline

ORIGIN = pd.Timestamp("2026-12-01")
A = PlacementAssumptions(
    as_of="2026-12-01", node_gbit_per_second=None, rack_gbit_per_second=8.0, site_gbit_per_second=8.0, rack_latency_seconds=0.0
)
NODES = pd.DataFrame(
    [
        ("a", "H100", 8, 64.0, "r1", "east", "us", 10.0),
        ("b", "H100", 8, 64.0, "r1", "east", "us", 10.0),
        ("c", "H100", 8, 64.0, "r2", "west", "eu", 10.0),
        ("d", "B200", 8, 64.0, "r1", "east", "us", 20.0),
    ],
    columns=["node", "accelerator", "accelerator_count", "cpus", "domain", "site", "geography", "usd_per_hour"],
)
LINKS = pd.DataFrame([("east", "west", 4.0, 0.5)], columns=["from_place", "to_place", "gbit_per_second", "usd_per_gb"])
#: One after another: read for two hours, train for four on all of a node, judge for an hour; an hour of transfer between two nodes.
TASKS = pd.DataFrame(
    [("read", 4.0, 0.0, 2.0), ("train", 8.0, 8.0, 4.0), ("judge", 8.0, 4.0, 1.0)],
    columns=["task_id", "cpus", "accelerators", "duration_hours"],
)
EDGES = pd.DataFrame([("read", "train", 3600.0), ("train", "judge", 0.0)], columns=["from_task", "to_task", "data_gb"])


def at(task: str, nodes: str, hours: float | None = None, **more: Any) -> dict[str, Any]:
    return {"task_id": task, "nodes": nodes, "start_hours": hours, "start": pd.NaT} | more


def told(*rows: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=[column.name for column in PLACEMENT_COLUMNS])
    return frame.assign(file="placement.csv", row=range(2, 2 + len(rows)), start=pd.to_datetime(frame["start"]))


def judged(
    rows: pd.DataFrame, *, tasks: pd.DataFrame = TASKS, nodes: pd.DataFrame = NODES, a: PlacementAssumptions = A, edges: Any = EDGES
):
    problem = build(tasks, edges, nodes, LINKS, a)
    best = place_tasks(tasks, edges, nodes, LINKS, a)
    return check_placement(problem, best, read_placement(problem, rows), a.placement_objective)


GOOD = (at("read", "a", 0.0), at("train", "a", 2.0), at("judge", "a", 6.0))


def only(found: CheckedPlacement, constraint: str) -> pd.Series:
    assert found.broken["constraint"].tolist() == [constraint], found.broken["words"].tolist()
    return found.broken.iloc[0]


def figure(found: CheckedPlacement, measure: str, column: str = "checked") -> float:
    return float(found.costs.set_index("measure").at[measure, column])


@pytest.mark.parametrize("objective", ["makespan", "cost"])
@pytest.mark.parametrize("seed", range(5))
def test_the_same_placement_is_nothing_apart_and_no_other_beats_the_bound(seed: int, objective: str) -> None:
    a, measure = A.model_copy(update={"placement_objective": objective}), "usd" if objective == "cost" else "makespan_hours"
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 8, 4)
    problem, best = build(tasks, edges, nodes, None, a), place_tasks(tasks, edges, nodes, None, a)
    check(best, tasks, edges, nodes, None, a)
    rows = best.schedule[["task_id", "nodes", "start", "start_hours"]].assign(file="placement.csv", row=range(len(tasks)))
    found = check_placement(problem, best, read_placement(problem, rows), objective)
    assert found.in_order, found.broken["words"].tolist()
    assert (found.costs["difference"] == 0.0).all()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        moved = rows.assign(
            start_hours=rows["start_hours"] + np.round(rng.uniform(-1.0, 3.0, len(rows)) * (rng.uniform(size=len(rows)) < 0.3), 2)
        )
        other = check_placement(problem, best, read_placement(problem, moved), objective)
        assert not other.in_order or figure(other, measure) >= best.bound - 1e-3


def test_a_placement_of_its_own_is_valued_as_it_is() -> None:
    """On one node it takes seven hours; read takes a sixteenth of a node, train all, judge half; with c it pays for data and crosses."""
    found = judged(told(*GOOD))
    assert found.in_order
    assert figure(found, "makespan_hours") == 7.0
    far = judged(told(at("read", "c", 0.0), at("train", "a", 4.0), at("judge", "a", 8.0)))
    assert far.in_order  # 3600 GB at 4 Gbit/s take two hours
    assert figure(far, "makespan_hours") == 9.0
    assert figure(far, "usd") - figure(found, "usd") == pytest.approx(3600 * 0.5)
    assert figure(far, "makespan_hours", "difference") == pytest.approx(9.0 - figure(far, "makespan_hours", "plan"))


@pytest.mark.parametrize(
    ("rows", "constraint", "over", "unit", "said"),
    [
        (
            (at("read", "a", 0.0), at("train", "a", 1.5), at("judge", "a", 6.0)),
            "edge",
            0.5,
            "hours",
            "train begins 0.5 hours before it can after read",
        ),
        ((at("read", "a", 0.0), at("train", "b", 2.25), at("judge", "b", 7.0)), "edge", 0.75, "hours", "whose data takes 1 hours"),
        ((at("read", "c", 0.0), at("train", "b", 3.0), at("judge", "b", 7.0)), "edge", 1.0, "hours", "whose data takes 2 hours"),
        ((at("read", "a", -0.5), at("train", "a", 2.0), at("judge", "a", 6.0)), "earliest start", 0.5, "hours", "before the start of all"),
        ((at("read", "a", 0.0), at("train", "a", 2.0)), "not placed", np.nan, "", "judge is not placed"),
        ((at("read", "a", 0.0), at("train", "a, c", 4.0), at("judge", "a", 8.0)), "kind", np.nan, "", "are not equal ones of one site"),
        ((at("read", "a, b", 0.0), at("train", "a", 3.0), at("judge", "a", 7.0)), "gang", 1.0, "nodes", "runs on one node and not on 2"),
    ],
)
def test_each_rule_is_broken_by_so_much(rows: Any, constraint: str, over: float, unit: str, said: str) -> None:
    broken = only(judged(told(*rows)), constraint)
    assert broken["over"] == pytest.approx(over, nan_ok=True)
    assert broken["unit"] == unit
    assert said in broken["words"]


def test_two_that_do_not_fit_together_lack_what_is_short() -> None:
    tasks = TASKS.assign(accelerators=[0.0, 8.0, 4.0])
    found = judged(told(at("read", "b", 0.0), at("train", "a", 3.0), at("judge", "a", 5.0)), tasks=tasks, edges=EDGES.iloc[:1])
    broken = only(found, "capacity")
    assert (broken["over"], broken["unit"]) == (4.0, "accelerators")
    assert "a lacks 4 accelerators at hour 5 for train, judge together" in broken["words"]


def test_a_node_too_small_lacks_what_is_short_alone() -> None:
    nodes = NODES.assign(accelerator_count=[8, 8, 8, 6])
    found = judged(told(at("read", "d", 0.0), at("train", "d", 2.0), at("judge", "d", 6.0)), nodes=nodes)
    broken = only(found, "capacity")
    assert (broken["over"], broken["file"], broken["row"]) == (2.0, "placement.csv", 3.0)


def test_a_part_that_somebody_holds_is_not_free() -> None:
    nodes = NODES.assign(taken_until=[ORIGIN + pd.Timedelta(hours=3), pd.NaT, pd.NaT, pd.NaT], taken_share=0.5)
    broken = only(judged(told(*GOOD), nodes=nodes), "capacity")
    assert broken["over"] == 4.0
    assert "a lacks 4 accelerators at hour 2 for train together" in broken["words"]


def test_a_node_that_is_away_is_away_for_so_long() -> None:
    gone = {"away_from": [ORIGIN + pd.Timedelta(hours=4)] + [pd.NaT] * 3, "away_to": [ORIGIN + pd.Timedelta(hours=5)] + [pd.NaT] * 3}
    broken = only(judged(told(*GOOD), nodes=NODES.assign(**gone)), "away")
    assert broken["over"] == pytest.approx(1.0)
    rests = judged(
        told(at("read", "a", 0.0), at("train", "a", 2.0), at("judge", "a", 7.0)),
        nodes=NODES.assign(**gone),
        tasks=TASKS.assign(interruptible=True),
    )
    assert rests.in_order
    assert figure(rests, "makespan_hours") == 8.0


def test_residency_accelerator_deadline_and_a_missing_link_are_named() -> None:
    home = TASKS.assign(residency=["", "us", ""])
    assert (
        "train must stay in us, and c is in west, eu"
        in only(judged(told(at("read", "c", 0.0), at("train", "c", 2.0), at("judge", "c", 6.0)), tasks=home), "residency")["words"]
    )
    kind = TASKS.assign(accelerator=["", "H100", ""])
    assert (
        "train needs H100, and d has B200"
        in only(judged(told(at("read", "d", 0.0), at("train", "d", 2.0), at("judge", "d", 6.0)), tasks=kind), "accelerator")["words"]
    )
    due = judged(
        told(at("read", "a", 0.0), at("train", "a", 2.0), at("judge", "a", 8.0)), a=A.model_copy(update={"deadline": "2026-12-01T08:00"})
    )
    assert only(due, "deadline")["over"] == pytest.approx(1.0)
    assert figure(due, "late_hours") == pytest.approx(1.0)
    apart = NODES.assign(site=["east", "east", "north", "east"])
    problem = build(TASKS, EDGES, apart, None, A)
    rows = told(at("read", "c", 0.0), at("train", "a", 4.0), at("judge", "a", 8.0))
    found = check_placement(problem, place_tasks(TASKS, EDGES, apart, None, A), read_placement(problem, rows), "makespan")
    assert "no link joins the sites of read and train" in only(found, "link")["words"]


def test_transfers_on_one_link_take_turns() -> None:
    """Two hours of data each over the one way from west to east: the second is two hours late where both are wanted at once."""
    tasks = pd.DataFrame([(name, 1.0, 1.0) for name in ("one", "two", "x", "y")], columns=["task_id", "cpus", "duration_hours"])
    edges = pd.DataFrame([("one", "x", 3600.0), ("two", "y", 3600.0)], columns=["from_task", "to_task", "data_gb"])
    rows = told(at("one", "c", 0.0), at("two", "c", 0.0), at("x", "a", 3.0), at("y", "a", 3.0))
    found = judged(rows, tasks=tasks, edges=edges)
    assert only(found, "shared link")["over"] == pytest.approx(2.0)
    assert judged(rows, tasks=tasks, edges=edges, a=A.model_copy(update={"shared_links": False})).in_order
    assert judged(told(at("one", "c", 0.0), at("two", "c", 0.0), at("x", "a", 5.0), at("y", "a", 3.0)), tasks=tasks, edges=edges).in_order


def test_what_the_question_writes_is_read_back(tmp_path) -> None:
    best = place_tasks(TASKS, EDGES, NODES, LINKS, A)
    file = write_table(best.schedule, tmp_path / "answer.csv")
    for drop in ([], ["start_hours"]):
        pd.read_csv(file).drop(columns=drop).to_csv(tmp_path / "placement.csv", index=False)
        proposed = read_proposed([tmp_path / "placement.csv"])
        assert proposed.kind == "placement"
        found = judged(proposed.rows)
        assert found.in_order
        assert (found.costs["difference"] == 0.0).all()


def test_all_faults_are_named_at_once() -> None:
    problem = build(TASKS, EDGES, NODES, LINKS, A)
    rows = told(
        at("raed", "a", 0.0),
        at("read", "a, z", 0.0),
        at("train", "b, b", 0.0),
        at("judge", "a"),
        at("read", "a", 0.0),
        at("read", "a", 1.0),
    )
    with pytest.raises(BookError) as caught:
        read_placement(problem, rows)
    said = [str(fault) for fault in caught.value.faults]
    for row, words in (
        (2, "Did you mean read?"),
        (3, "it is no node"),
        (4, "a node is named twice"),
        (5, "neither start nor start_hours"),
        (7, "it is placed already"),
    ):
        assert any(f"row {row}," in line and words in line for line in said), said
    assert len(said) == 5
