"""Which task where and when: against published schedules, brute force, and a checker that shares no code."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import BookError, CapplanError
from capplan.questions.placement import diagnose_placement, place_tasks, stage_guide
from tests.cases.placement_checker import brute_force, check, of_three_kinds, random_pipeline
from tests.cases.time_indexed import least_makespan
from tests.conftest import example_book

#: 8 Gbit/s move a gigabyte in a second; data that stays on its node takes no time, as in the textbook.
TEXTBOOK = PlacementAssumptions(
    rack_gbit_per_second=8.0, site_gbit_per_second=8.0, node_gbit_per_second=None, shared_links=False, proof_gap_share=0.0
)
A = PlacementAssumptions()
ORIGIN = pd.Timestamp("2026-12-01")


def changed(base=A, **values):
    return base.model_copy(update=values)


def frame(text):
    """A table written as lines of words."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    return pd.DataFrame([[float(cell) if cell.replace(".", "").isdigit() else cell for cell in row] for row in rows], columns=head)


# Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, figure 2: durations on three processors, and transfers between two of them
COMPUTATION = {
    1: (14, 16, 9),
    2: (13, 19, 18),
    3: (11, 13, 19),
    4: (13, 8, 17),
    5: (12, 13, 10),
    6: (13, 16, 9),
    7: (7, 15, 11),
    8: (5, 11, 14),
    9: (18, 12, 20),
    10: (21, 7, 16),
}
COMMUNICATION = {
    (1, 2): 18,
    (1, 3): 12,
    (1, 4): 9,
    (1, 5): 11,
    (1, 6): 14,
    (2, 8): 19,
    (2, 9): 16,
    (3, 7): 23,
    (4, 8): 27,
    (4, 9): 23,
    (5, 9): 13,
    (6, 8): 15,
    (7, 10): 17,
    (8, 10): 11,
    (9, 10): 13,
}
RANKS = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
SCHEDULE = {
    1: ("P3", 0, 9),
    2: ("P1", 27, 40),
    3: ("P3", 9, 28),
    4: ("P2", 18, 26),
    5: ("P3", 28, 38),
    6: ("P2", 26, 42),
    7: ("P3", 38, 49),
    8: ("P1", 57, 62),
    9: ("P2", 56, 68),
    10: ("P2", 73, 80),
}


def published():
    """The ten tasks on three processors that each run one task at a time."""
    tasks = pd.DataFrame({"task_id": [str(task) for task in COMPUTATION], "cpus": 1.0})
    edges = pd.DataFrame(
        [(str(one), str(other), hours * 3600.0) for (one, other), hours in COMMUNICATION.items()],
        columns=["from_task", "to_task", "data_gb"],
    )
    nodes = pd.DataFrame({"node": ["P1", "P2", "P3"], "accelerator": "", "accelerator_count": 0, "cpus": 1.0, "domain": "rack"})
    durations = pd.DataFrame(
        [(str(task), f"P{at + 1}", float(hours)) for task, row in COMPUTATION.items() for at, hours in enumerate(row)],
        columns=["task_id", "runs_on", "duration_hours"],
    )
    return tasks, edges, nodes, durations


def test_the_published_example_has_its_published_ranks_and_schedules():
    from capplan.questions.placement.methods import ranked
    from capplan.questions.placement.problem import build

    tasks, edges, nodes, durations = published()
    problem = build(tasks, edges, nodes, None, TEXTBOOK, durations)
    assert ranked(problem, np.zeros(10)).up == pytest.approx(RANKS, abs=5e-4)
    heft = place_tasks(tasks, edges, nodes, None, changed(TEXTBOOK, placement_method="heft"), durations=durations)
    rows = heft.schedule.set_index("task_id")
    assert {int(task): (row.nodes, row.start_hours, row.end_hours) for task, row in rows.iterrows()} == SCHEDULE
    best = place_tasks(tasks, edges, nodes, None, TEXTBOOK, durations=durations)
    check(best, tasks, edges, nodes, None, TEXTBOOK, durations)
    by_method = best.methods.set_index("method")
    assert by_method["makespan_hours"][["heft", "cpop"]].tolist() == pytest.approx([80, 86])
    # the optimum that the program proves
    assert best.proven
    assert best.makespan_hours == pytest.approx(73)
    assert by_method.loc["heft", "gap_share"] == pytest.approx(80 / 73 - 1)


def test_four_tasks_have_a_critical_path_of_nine_hours_and_fourteen_in_a_row():
    tasks = (
        frame("""
        task_id cpus memory_gib accelerators duration_hours output_gb local_ssd_gib
        1 8 32 1 3 10 0
        2 4 16 0 2 0 0
        3 16 64 0 5 0 100
        4 8 32 0 4 0 0
    """)
        .astype({"task_id": int})
        .astype({"task_id": str})
    )
    edges = pd.DataFrame({"from_task": ["1", "2", "3"], "to_task": ["2", "4", "4"]})
    two = frame("""
        node accelerator accelerator_count cpus memory_gib local_ssd_gib domain
        gpu H100 1 16 64 0 rack
        cpu CPU 0 32 128 500 rack
    """)
    free = changed(node_gbit_per_second=None)
    found = place_tasks(tasks, edges, two, None, free)
    check(found, tasks, edges, two, None, free)
    assert found.proven
    assert found.makespan_hours == pytest.approx(9)
    # no room for two at a time: one after the other
    one = two.head(1).assign(cpus=16.0, memory_gib=64.0, local_ssd_gib=500.0)
    alone = tasks.assign(memory_gib=64.0)
    found = place_tasks(alone, edges, one, None, free)
    assert found.proven
    assert found.makespan_hours == pytest.approx(14)


@pytest.mark.parametrize(
    ("gigabytes", "gbit", "used", "latency", "seconds"),
    [(20, 10, 0.0, 0.0, 16.0), (20, 10, 0.5, 2.0, 34.0), (20, 0.1, 0.0, 0.0, 1600.0), (0, 10, 0.0, 2.0, 0.0)],
)
def test_transfers_take_their_bits_over_what_is_left_of_the_link(gigabytes, gbit, used, latency, seconds):
    tasks = pd.DataFrame({"task_id": ["a", "b"], "duration_hours": 1.0, "residency": ["east", "west"]})
    edges = pd.DataFrame({"from_task": ["a"], "to_task": ["b"], "data_gb": [float(gigabytes)]})
    nodes = pd.DataFrame({"node": ["e", "w"], "accelerator": "", "accelerator_count": 0, "site": ["east", "west"]})
    links = pd.DataFrame(
        {
            "from_place": ["east"],
            "to_place": ["west"],
            "gbit_per_second": [gbit],
            "latency_seconds": [latency],
            "usd_per_gb": [0.02],
            "used_share": [used],
        }
    )
    found = place_tasks(tasks, edges, nodes, links, A)
    check(found, tasks, edges, nodes, links, A)
    assert (found.makespan_hours - 2) * 3600 == pytest.approx(seconds)
    assert found.usd == pytest.approx(0.02 * gigabytes)


# Fisher and Thompson 1963, 6 x 6 job shop: each job's machines and hours in order; the optimum is 55
FT06 = [
    [2, 1, 0, 3, 1, 6, 3, 7, 5, 3, 4, 6],
    [1, 8, 2, 5, 4, 10, 5, 10, 0, 10, 3, 4],
    [2, 5, 3, 4, 5, 8, 0, 9, 1, 1, 4, 7],
    [1, 5, 0, 5, 2, 5, 3, 3, 4, 8, 5, 9],
    [2, 9, 1, 3, 4, 5, 5, 4, 0, 3, 3, 1],
    [1, 3, 3, 3, 5, 9, 0, 10, 4, 4, 2, 1],
]


def test_a_published_job_shop_has_its_published_optimum():
    steps = [(job, at, row[2 * at], float(row[2 * at + 1])) for job, row in enumerate(FT06) for at in range(6)]
    tasks = pd.DataFrame({"task_id": [f"j{job}-{at}" for job, at, _, _ in steps], "cpus": 1.0})
    edges = pd.DataFrame(
        [(f"j{job}-{at}", f"j{job}-{at + 1}", 0.0) for job in range(6) for at in range(5)], columns=["from_task", "to_task", "data_gb"]
    )
    nodes = pd.DataFrame({"node": [f"m{at}" for at in range(6)], "accelerator": "", "accelerator_count": 0, "cpus": 1.0})
    durations = pd.DataFrame(
        [(f"j{job}-{at}", f"m{machine}", hours) for job, at, machine, hours in steps], columns=["task_id", "runs_on", "duration_hours"]
    )
    found = place_tasks(tasks, edges, nodes, None, TEXTBOOK, durations=durations)
    check(found, tasks, edges, nodes, None, TEXTBOOK, durations)
    assert found.proven
    assert found.makespan_hours == pytest.approx(55)


# PSPLIB j301_1 (Kolisch and Sprecher 1996): hours, what each takes of four resources, successors; the optimum is 43
J301_1 = {
    2: (8, (4, 0, 0, 0), (6, 11, 15)),
    3: (4, (10, 0, 0, 0), (7, 8, 13)),
    4: (6, (0, 0, 0, 3), (5, 9, 10)),
    5: (3, (3, 0, 0, 0), (20,)),
    6: (8, (0, 0, 0, 8), (30,)),
    7: (5, (4, 0, 0, 0), (27,)),
    8: (9, (0, 1, 0, 0), (12, 19, 27)),
    9: (2, (6, 0, 0, 0), (14,)),
    10: (7, (0, 0, 0, 1), (16, 25)),
    11: (9, (0, 5, 0, 0), (20, 26)),
    12: (2, (0, 7, 0, 0), (14,)),
    13: (6, (4, 0, 0, 0), (17, 18)),
    14: (3, (0, 8, 0, 0), (17,)),
    15: (9, (3, 0, 0, 0), (25,)),
    16: (10, (0, 0, 0, 5), (21, 22)),
    17: (6, (0, 0, 0, 8), (22,)),
    18: (5, (0, 0, 0, 7), (20, 22)),
    19: (3, (0, 1, 0, 0), (24, 29)),
    20: (7, (0, 10, 0, 0), (23, 25)),
    21: (2, (0, 0, 0, 6), (28,)),
    22: (7, (2, 0, 0, 0), (23,)),
    23: (2, (3, 0, 0, 0), (24,)),
    24: (3, (0, 9, 0, 0), (30,)),
    25: (3, (4, 0, 0, 0), (30,)),
    26: (7, (0, 0, 4, 0), (31,)),
    27: (8, (0, 0, 0, 7), (28,)),
    28: (3, (0, 8, 0, 0), (31,)),
    29: (7, (0, 7, 0, 0), ()),
    30: (2, (0, 7, 0, 0), ()),
    31: (2, (0, 0, 2, 0), ()),
}


def test_a_published_project_with_four_shared_resources_has_its_published_optimum():
    four = ["cpus", "threads", "memory_gib", "local_ssd_gib"]
    tasks = pd.DataFrame(
        [(str(task), float(hours), *map(float, need)) for task, (hours, need, _) in J301_1.items()],
        columns=["task_id", "duration_hours", *four],
    )
    edges = pd.DataFrame(
        [(str(task), str(other), 0.0) for task, (_, _, after) in J301_1.items() for other in after],
        columns=["from_task", "to_task", "data_gb"],
    )
    nodes = pd.DataFrame(
        {
            "node": ["n"],
            "accelerator": "",
            "accelerator_count": 0,
            "cpus": 12.0,
            "cpu_threads": 13.0,
            "memory_gib": 4.0,
            "local_ssd_gib": 12.0,
        }
    )
    found = place_tasks(tasks, edges, nodes, None, TEXTBOOK)
    check(found, tasks, edges, nodes, None, TEXTBOOK)
    assert found.proven
    assert found.makespan_hours == pytest.approx(43)


FEW = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("shared", [False, True])
@settings(FEW, max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_the_program_finds_what_brute_force_finds(shared, seed):
    generator = np.random.default_rng(seed)
    tasks, edges, nodes = random_pipeline(generator, 4 if not shared else 3, 2, plain=True)
    a = changed(TEXTBOOK, site_gbit_per_second=4.0, shared_links=shared)
    found = place_tasks(tasks, edges, nodes, None, a)
    check(found, tasks, edges, nodes, None, a)
    best = brute_force(tasks, edges, nodes, None, a)
    assert found.bound <= best + 1e-6
    assert found.proven
    assert found.makespan_hours == pytest.approx(best)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_second_exact_method_proves_the_same(seed):
    """Eight tasks on three nodes of three kinds, transfers included: more than brute force can count."""
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 8, 3, plain=True)
    nodes, durations = of_three_kinds(tasks, nodes)
    found = place_tasks(tasks, edges, nodes, None, TEXTBOOK, durations=durations)
    check(found, tasks, edges, nodes, None, TEXTBOOK, durations)
    assert found.proven
    value, bound = least_makespan(tasks, edges, nodes, durations, int(found.methods["makespan_hours"].max()))
    assert value == pytest.approx(bound) == pytest.approx(found.makespan_hours)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", [3, 5, 6])
def test_thirty_tasks_on_eight_nodes_of_three_kinds_are_proven(seed, shared):
    """Seeds whose best schedule no heuristic finds by itself."""
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 30, 8, plain=True)
    nodes, durations = of_three_kinds(tasks, nodes)
    a = changed(TEXTBOOK, shared_links=shared)
    found = place_tasks(tasks, edges, nodes, None, a, durations=durations)
    check(found, tasks, edges, nodes, None, a, durations)
    assert found.proven
    assert found.bound == pytest.approx(found.makespan_hours)


@pytest.mark.parametrize("seed", range(4))
def test_gangs_whose_data_shares_links_are_proven_on_times_that_are_no_whole_numbers(seed):
    """Twelve tasks with gangs, absences and transfers that take turns; a drive of 54.4 Gbit/s fits no even grid."""
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 12, 4)
    a = changed(rack_gbit_per_second=8.0, site_gbit_per_second=4.0, gang_across_racks_slowdown_share=0.3)
    found = place_tasks(tasks, edges, nodes, None, a)
    check(found, tasks, edges, nodes, None, a)
    assert found.proven
    assert found.bound <= found.makespan_hours + 1e-9


def test_rounding_to_ticks_never_lifts_a_bound_above_a_schedule():
    """Times on no grid, in ticks of an hour: what is proven of the ticks is at most what schedules take, and nothing is lost on a grid."""
    from capplan.questions.placement.ticks import Grid, grid_of, whole_needs

    assert grid_of(np.array([1.5, 0.25, 16 / 3600]), 100.0).hours == pytest.approx(1 / 3600)
    assert grid_of(np.array([2.0, 7.0]), 100.0).hours == 1.0
    ragged = np.sqrt(np.arange(2.0, 40.0))
    grid = grid_of(ragged, 100.0)
    assert (grid.down(ragged) * grid.hours <= ragged + 1e-9).all()
    assert (grid.up(ragged) * grid.hours >= ragged - 1e-9).all()
    assert Grid(1.0).down(np.array([0.3, 2.9999999999])).tolist() == [0, 3]
    needs, capacity = whole_needs(np.array([1 / 3, 1 / 3, 1 / 3]), 1.0)
    assert needs.sum() <= capacity
    assert whole_needs(np.array([2.5, 64.0]), 128.0)[0].tolist() == [5, 128]


BAD = [
    ("cycle", {"edges": [("a", "b"), ("b", "c"), ("c", "a")]}, "a -> b -> c -> a"),
    ("unknown edge", {"edges": [("a", "bb")]}, "must be a task_id of tasks. Did you mean b?"),
    ("twice", {"names": ["a", "a", "c"]}, "stands there more than once"),
    ("too large", {"tasks": {"memory_gib": [1.0, 999.0, 1.0]}}, "no node can host b: the nearest, gpu-0, has 64 GiB of memory"),
    (
        "no such accelerator",
        {"tasks": {"accelerators": [1.0, 0.0, 0.0], "accelerator": ["H200", "", ""]}},
        "no node has the accelerator that a needs. Did you mean H100?",
    ),
    ("gang", {"tasks": {"accelerators": [40.0, 0.0, 0.0]}}, "the gang a needs 5 nodes of kind H100 in one site, and east has 2"),
    ("negative data", {"edges": [("a", "b", -1.0)]}, "data_gb: found '-1.0'; must be a number at least 0"),
    ("zero bandwidth", {"links": ("east", "west", 0.0)}, "gbit_per_second: found '0.0'; must be a number above 0"),
    ("unknown place", {"links": ("east", "wets", 1.0)}, "must be a node, a rack (domain) or a site of nodes. Did you mean west"),
    ("deadline", {"tasks": {"deadline": [ORIGIN - pd.Timedelta(days=1), pd.NaT, pd.NaT]}}, "must lie after the earliest start"),
    ("no duration", {"tasks": {"duration_hours": [np.nan, 1.0, 1.0]}}, "a has no duration on any node it may run on"),
    ("residency", {"tasks": {"residency": ["moon", "", ""]}}, "a must stay where no node is"),
    (
        "not joined",
        {"tasks": {"residency": ["east", "west", ""]}, "edges": [("a", "b", 5.0)]},
        "no link joins the sites where a and b may run",
    ),
    ("infinite", {"tasks": {"duration_hours": [np.inf, 1.0, 1.0]}}, "duration_hours: found 'inf'"),
    ("words for numbers", {"tasks": {"cpus": ["many", 1.0, 1.0]}}, "cpus: found 'many'; must be a number at least 0"),
]


def small(names=("a", "b", "c"), tasks=None, edges=(), links=None):
    """Three tasks, two H100 nodes in the east and a CPU node in the west."""
    jobs = pd.DataFrame({"task_id": list(names), "duration_hours": 1.0}).assign(**(tasks or {}))
    joins = pd.DataFrame([(*edge, 0.0)[:3] for edge in edges], columns=["from_task", "to_task", "data_gb"])
    nodes = pd.DataFrame(
        {
            "node": ["gpu", "cpu"],
            "accelerator": ["H100", None],
            "accelerator_count": [8, 0],
            "nodes": [2, 1],
            "memory_gib": 64.0,
            "site": ["east", "west"],
        }
    )
    ways = None if links is None else pd.DataFrame([links], columns=["from_place", "to_place", "gbit_per_second"])
    return jobs, joins, nodes, ways


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_each_bad_input_has_one_message(change, message):
    with pytest.raises(BookError) as error:
        place_tasks(*small(**change), A)
    assert message in str(error.value)
    assert len(error.value.faults) == 1


def test_all_bad_inputs_are_named_at_once():
    with pytest.raises(BookError) as error:
        place_tasks(
            *small(
                tasks={"duration_hours": [-1.0, 1.0, np.nan], "residency": ["", "moon", ""]},
                edges=[("a", "b"), ("b", "a"), ("a", "x")],
                links=("east", "west", -1.0),
            ),
            A,
        )
    text = str(error.value)
    for part in ("duration_hours", "moon", "a -> b -> a", "'x'", "gbit_per_second", "c has no duration"):
        assert part in text


def test_money_under_a_deadline_needs_one():
    with pytest.raises(CapplanError, match="nothing is due"):
        place_tasks(*small(), changed(placement_objective="cost_under_deadline"))


@pytest.mark.parametrize("method", ["best", "heft", "cpop", "olb", "locality"])
@pytest.mark.parametrize("shared", [False, True])
@settings(FEW)
@given(seed=st.integers(0, 10_000))
def test_every_schedule_keeps_every_rule(method, shared, seed):
    generator = np.random.default_rng(seed)
    tasks, edges, nodes = random_pipeline(generator, int(generator.integers(2, 9)), int(generator.integers(2, 5)))
    slow = float(generator.choice([0.0, 0.3]))
    a = changed(
        rack_gbit_per_second=8.0,
        site_gbit_per_second=4.0,
        placement_tries=10,
        proof_deterministic_seconds=1.0,
        placement_method=method,
        shared_links=shared,
        gang_across_racks_slowdown_share=slow,
    )
    found = place_tasks(tasks, edges, nodes, None, a)
    check(found, tasks, edges, nodes, None, a)
    assert found.bound <= found.makespan_hours + 1e-6
    if method == "best":
        assert (found.makespan_hours <= found.methods["makespan_hours"] + 1e-6).all()


SMALL = changed(TEXTBOOK, site_gbit_per_second=4.0)


@settings(FEW, max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_more_bandwidth_or_another_node_never_raises_the_proven_end(seed):
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 6, 2, plain=True)
    now = place_tasks(tasks, edges, nodes, None, SMALL)
    faster = place_tasks(tasks, edges, nodes, None, changed(SMALL, bandwidth_factor=2.0))
    larger = place_tasks(tasks, edges, pd.concat([nodes, nodes.head(1).assign(node="more")], ignore_index=True), None, SMALL)
    assert now.proven
    for better in (faster, larger):
        assert better.proven
        assert better.makespan_hours <= now.makespan_hours + 1e-6
    # a node that nothing can use, and another site that no link reaches, change nothing
    useless = pd.concat([nodes, nodes.head(1).assign(node="tiny", cpus=0.5, memory_gib=0.5, usd_per_hour=0.01)], ignore_index=True)
    assert place_tasks(tasks, edges, useless, None, SMALL).makespan_hours == pytest.approx(now.makespan_hours)


@settings(FEW, max_examples=6)
@given(seed=st.integers(0, 10_000))
def test_money_is_least_without_a_deadline_and_rises_as_it_comes_nearer(seed):
    tasks, edges, nodes = random_pipeline(np.random.default_rng(seed), 5, 3, plain=True)
    nodes["cpus"], nodes["usd_per_hour"] = [10.0, 12.0, 16.0], [3.0, 9.0, 20.0]
    end = place_tasks(tasks, edges, nodes, None, SMALL).makespan_hours
    free = place_tasks(tasks, edges, nodes, None, changed(SMALL, placement_objective="cost"))
    assert free.proven
    spent = [free.usd]
    for slack in (3.0, 1.5, 1.0):
        a = changed(
            SMALL,
            placement_objective="cost_under_deadline",
            deadline=(ORIGIN + pd.Timedelta(hours=end * slack + 0.001)).ceil("s").to_pydatetime(),
        )
        found = place_tasks(tasks, edges, nodes, None, a)
        check(found, tasks, edges, nodes, None, a)
        assert found.deadline.met
        assert (found.schedule["late_hours"] <= 1e-6).all()
        spent.append(found.usd)
    assert spent == sorted(spent) or np.allclose(spent, sorted(spent))


def test_a_deadline_that_cannot_be_met_says_when_and_what_would_meet_it():
    """Two hours of work for two tasks on one node, and data of an hour between the sites of two others."""
    tasks = pd.DataFrame({"task_id": ["a", "b"], "cpus": 8.0, "duration_hours": 2.0})
    nodes = pd.DataFrame({"node": ["n"], "accelerator": "", "accelerator_count": 0, "cpus": 8.0, "kind": ["big"]})
    a = changed(deadline=dt.datetime(2026, 12, 1, 3))
    found = place_tasks(tasks, None, nodes, None, a)
    assert found.deadline.met is False
    assert found.deadline.late_hours == pytest.approx(1.0)
    assert found.headline.startswith(
        "No: the earliest end of b is Tue 2026-12-01 04:00, 1 hour after its deadline Tue 2026-12-01 03:00; one more node of kind big would"
        " make it."
    )
    tasks = pd.DataFrame({"task_id": ["a", "b"], "duration_hours": 1.0, "residency": ["east", "west"]})
    edges = pd.DataFrame({"from_task": ["a"], "to_task": ["b"], "data_gb": [450.0]})
    nodes = pd.DataFrame({"node": ["e", "w"], "accelerator": "", "accelerator_count": 0, "site": ["east", "west"]})
    links = pd.DataFrame({"from_place": ["east"], "to_place": ["west"], "gbit_per_second": [1.0]})
    found = place_tasks(tasks, edges, nodes, links, a)
    assert found.makespan_hours == pytest.approx(3.0)
    assert found.deadline.met
    found = place_tasks(tasks, edges, nodes, links, changed(deadline=dt.datetime(2026, 12, 1, 2, 30)))
    assert found.deadline.met is False
    assert "2.5 Gbit/s on the link east to west would make it" in found.headline
    assert found.deadline.earliest == pd.Timestamp("2026-12-01 03:00")


def test_transfers_on_one_link_take_turns_only_where_links_are_shared():
    """One task sends 450 GB to each of two others over 1 Gbit/s: an hour each."""
    tasks = pd.DataFrame({"task_id": ["a", "b", "c"], "duration_hours": 1.0, "residency": ["east", "west", "west"]})
    edges = pd.DataFrame({"from_task": ["a", "a"], "to_task": ["b", "c"], "data_gb": 450.0})
    nodes = pd.DataFrame({"node": ["e", "w"], "accelerator": "", "accelerator_count": 0, "site": ["east", "west"]})
    links = pd.DataFrame({"from_place": ["east"], "to_place": ["west"], "gbit_per_second": [1.0]})
    for shared, end in ((False, 3.0), (True, 4.0)):
        a = changed(shared_links=shared)
        found = place_tasks(tasks, edges, nodes, links, a)
        check(found, tasks, edges, nodes, links, a)
        assert found.makespan_hours == pytest.approx(end)
        assert found.proven
        assert any(("shared" in note) == shared for note in found.notes if note.startswith("Links"))


def test_only_an_interruptible_task_rests_while_its_node_is_away():
    nodes = pd.DataFrame(
        {
            "node": ["n"],
            "accelerator": "",
            "accelerator_count": 0,
            "away_from": [ORIGIN + pd.Timedelta(hours=1)],
            "away_to": [ORIGIN + pd.Timedelta(hours=4)],
        }
    )
    for interruptible, end in ((True, 5.0), (False, 6.0)):
        tasks = pd.DataFrame({"task_id": ["a"], "duration_hours": 2.0, "interruptible": interruptible})
        found = place_tasks(tasks, None, nodes, None, A)
        check(found, tasks, None, nodes, None, A)
        assert found.makespan_hours == pytest.approx(end)


def test_the_same_tables_give_the_same_bytes():
    tasks, edges, nodes = random_pipeline(np.random.default_rng(3), 8, 3)
    first, second = (place_tasks(tasks, edges, nodes, None, changed(proof_deterministic_seconds=0.5)) for _ in range(2))
    for name in ("schedule", "transfers", "critical_path", "methods"):
        assert getattr(first, name).to_csv() == getattr(second, name).to_csv()


def judged(**columns):
    jobs = pd.DataFrame(
        {"job_id": ["j"], "duration_seconds": [36000.0], "accelerators": [8.0], **{name: [value] for name, value in columns.items()}}
    )
    nodes = pd.DataFrame(
        {"node": ["n"], "accelerator": ["H100"], "accelerator_count": [8], "nodes": [2], "domain": ["rack"], "usd_per_hour": [40.0]}
    )
    return diagnose_placement(jobs, nodes, None, A)


@pytest.mark.parametrize(
    ("sign", "columns", "saving"),
    [
        # 10 hours of 8 accelerators at $5 are $400
        ("low_utilisation", {"utilisation_share": 0.35}, 200.0),
        ("evaluation_idle", {"utilisation_share": 0.35, "stage": "evaluation"}, 200.0),
        ("data_wait", {"data_wait_share": 0.6}, 240.0),
        ("scattered", {"racks": 2.0}, 80.0),
        ("cpu_only", {"utilisation_share": 0.01}, 360.0),
        ("network_storage", {"storage": "network", "stage": "data_preparation", "data_wait_share": 0.3}, 120.0),
    ],
)
def test_each_sign_of_bad_placement_has_its_evidence_and_saving(sign, columns, saving):
    found = judged(**columns)
    assert found.signs["sign"].tolist() == [sign]
    assert found.saving_usd == pytest.approx(saving)
    assert found.signs["usd"].tolist() == pytest.approx([400.0])
    if sign == "data_wait":
        assert "an hour of computing costs $12.50 an accelerator" in found.signs["evidence"].iloc[0]


def test_a_well_placed_job_shows_no_sign_and_telemetry_goes_before_the_column():
    assert judged(utilisation_share=0.95, data_wait_share=0.05, racks=1.0, storage="local").signs.empty
    jobs = pd.DataFrame({"job_id": ["j"], "duration_seconds": [36000.0], "accelerators": [8.0], "utilisation_share": [0.9]})
    nodes = pd.DataFrame({"node": ["n"], "accelerator": ["H100"], "accelerator_count": [8], "usd_per_hour": [40.0]})
    telemetry = pd.DataFrame({"job_id": ["j", "j"], "time": [ORIGIN, ORIGIN + pd.Timedelta(hours=1)], "utilisation_share": [0.3, 0.4]})
    assert diagnose_placement(jobs, nodes, telemetry, A).signs["sign"].tolist() == ["low_utilisation"]
    with pytest.raises(CapplanError, match=r"telemetry: x is no job_id of jobs"):
        diagnose_placement(jobs, nodes, telemetry.assign(job_id="x"), A)


def test_the_stage_guide_follows_from_the_facts():
    book = example_book()
    facts = [book.get(name) for name in ("skus", "offers", "accelerators", "models", "serving_runs")]
    guide = stage_guide(*facts, ("Llama-3.1-8B", "Llama-3.1-405B"), TrainingAssumptions(mfu_share=0.4))
    assert set(guide["stage"]) == {"data_preparation", "pretraining", "alignment", "tuning", "deployment", "evaluation", "serving"}
    assert (guide["fits"] == (guide["reason"] == "")).all()
    rows = guide.set_index(["stage", "model", "sku"])
    # 405 billion parameters in 8 bits are 378 GiB: more than 90 % of 8 x 24 GiB, less than that of 8 x 80 GiB
    assert (
        rows.loc[("serving", "Llama-3.1-405B", "g6.48xlarge"), "reason"]
        == "memory: weights in fp8 take 378 GiB, and 8 accelerators have room for 173"
    )
    assert rows.loc[("serving", "Llama-3.1-405B", "p5.48xlarge"), "fits"]
    # one machine of eight H100 at the MFU of the assumptions: 8 x 989.4 TFLOP/s x 0.4 for an hour
    one = rows.loc[("pretraining", "Llama-3.1-8B", "p5.48xlarge")]
    assert one["machines"] == 1
    assert one["speed"] == pytest.approx(8 * 989.4e12 * 0.4 * 3600 / 1e18)
    assert one["usd_per_unit"] == pytest.approx(55.04 / one["speed"])
    # the state of training takes 16 bytes a parameter, so 405 billion need several machines
    assert rows.loc[("pretraining", "Llama-3.1-405B", "p5.48xlarge"), "machines"] * 8 * 80 > 16 * 405.85e9 / 2**30


def test_a_pipeline_can_be_taken_as_demand_and_a_missed_deadline_stands_in_the_plan():
    from capplan.answers.placement import deadline_notes, placement_of
    from capplan.book.frames import check_frames
    from capplan.questions.placement import as_training_runs, demand_by_stage, egress

    book = example_book()
    found = placement_of(book, book.scenario_with())
    check(
        found,
        book.get("tasks"),
        book.get("task_edges"),
        book.get("nodes"),
        book.get("links"),
        book.scenario_with(),
        book.get("task_durations"),
    )
    assert found.proven
    by_stage = demand_by_stage(found.schedule)
    # 64 accelerators for 150 hours, 32 for 70
    assert by_stage.set_index("stage")["accelerator_hours"]["pretraining"] == pytest.approx(64 * 150 + 32 * 70)
    assert by_stage["usd"].sum() + egress(found.transfers, found.schedule["start"].iloc[0])["usd"].sum() == pytest.approx(found.usd)
    over = found.schedule.head(1).assign(
        start=pd.Timestamp("2027-03-31 18:00"), end=pd.Timestamp("2027-04-01 06:00"), accelerator_hours=24.0
    )
    assert demand_by_stage(over)[["quarter", "accelerator_hours"]].to_numpy().tolist() == [["2027Q1", 12.0], ["2027Q2", 12.0]]
    runs = as_training_runs(found.schedule, book.get("tasks"), book.get("speeds"))
    check_frames({"training_runs": runs})
    speeds = book.get("speeds").query("accelerator == 'H100'").set_index("workload")["work_per_accelerator_hour"]
    pretrain = runs.set_index("run_id").loc["assistant-v3-pretrain"]
    assert pretrain["quantity"] == pytest.approx(64 * 150 * speeds["alignment"])
    assert deadline_notes(book, book.scenario_with()) == ()
    assert deadline_notes(book, book.scenario_with(deadline="2027-02-05T18:00")) == ()
    (note,) = deadline_notes(book, book.scenario_with(deadline="2027-02-04T18:00"))
    assert note.startswith("Pipelines: No: the earliest end of tune-embedder is Fri 2027-02-05 07:37")


def test_the_plan_takes_the_demand_of_its_pipelines_where_it_is_asked():
    from capplan.answers.placement import asked_book, placement_of
    from capplan.answers.plan import demand_of

    book = example_book()
    off = book.scenario_with(paths=20)
    assert asked_book(book, off) is book
    on = off.replaced(pipeline_demand=True, placement_start="2027-02-01")
    asked = asked_book(book, on)
    placed = placement_of(book, on)
    more = asked.get("training_runs").set_index("run_id").drop(book.get("training_runs")["run_id"])
    speeds = book.get("speeds").query("accelerator == 'H100'").set_index("workload")["work_per_accelerator_hour"]
    named = book.get("tasks").set_index("task_id")["workload"].dropna()
    hours = placed.schedule.set_index("task_id")["accelerator_hours"]
    due = {f"assistant-v3-{task}": hours[task] * speeds[named[task]] for task in ("pretrain", "align")}
    assert more.loc[list(due), "quantity"].to_dict() == pytest.approx(due)
    costs = asked.get("other_costs").set_index("cost_id").drop(book.get("other_costs")["cost_id"]).reset_index()
    assert costs["usd"].sum() == pytest.approx(placed.transfers["usd"].sum())
    assert costs["usd"].sum() > 0
    # the month after the last one is zero, so that a held cost does not go on
    assert (costs.sort_values("month").groupby("cost_id")["usd"].last() == 0).all()
    assert set(costs["kind"]) == {"egress"}
    assert any(note.startswith("Pipelines: ") and "runs of the roadmap" in note for note in asked.notes)
    assert asked_book(asked, on) is asked
    # the forecast has the work of the pipeline's alignment on top
    without, with_it = (
        demand_of(each, scenario).paths.query("workload == 'alignment'")["quantity"].sum() / 20
        for each, scenario in ((book, off), (asked, on))
    )
    assert with_it - without == pytest.approx(more.loc[more["workload"] == "alignment", "quantity"].sum())


def test_the_deadline_of_a_command_line_is_an_instant_in_utc():
    book = example_book()
    for text in ("2027-02-05T18:00", "2027-02-05T20:00+02:00", "2027-02-05T18:00Z"):
        from capplan.questions.placement.problem import instant

        assert instant(book.scenario_with(deadline=text).deadline) == pd.Timestamp("2027-02-05 18:00")


def test_nodes_without_accelerators_leave_the_cluster_question_as_it_is():
    from capplan.questions.cluster import resized

    nodes = pd.DataFrame({"node": ["gpu", "cpu"], "accelerator": ["H100", "none"], "accelerator_count": [8, 0], "nodes": [4, 2]})
    for change in (-16, 0, 16):
        assert (resized(nodes, change)["accelerator_count"] * resized(nodes, change)["nodes"]).sum() == 32 + change
