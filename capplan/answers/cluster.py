"""How long jobs wait, asked of a book."""

from dataclasses import dataclass

import pandas as pd

from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import ClusterAssumptions, Scenario
from capplan.questions.cluster import CapacityCurve, Schedule, capacity_curve, resized, simulate_cluster

#: Policies that are compared on the same jobs.
COMPARED = ("fifo", "shortest_first", "easy_backfill", "conservative_backfill", "priority", "fair_share", "least_attained")
#: Tables the answer rests on.
TABLES = ("jobs", "nodes", "speeds")


@dataclass(frozen=True)
class Waits:
    """What is shown: the schedule, the capacity curve, and the policies side by side."""

    schedule: Schedule
    curve: CapacityCurve
    policies: pd.DataFrame


def waits_of(book: Book, scenario: Scenario) -> Waits:
    """Simulate the book's jobs on its nodes."""
    a = scenario.section(ClusterAssumptions)

    def compute() -> Waits:
        jobs, nodes = (book.need(name, "The cluster") for name in TABLES[:2])
        speeds = book.get("speeds")
        cluster = resized(nodes, a.added_accelerators - a.serving_kept_accelerators)
        rows = []
        for policy in dict.fromkeys((a.cluster_policy, *COMPARED)):
            found = simulate_cluster(jobs, cluster, policy, a, speeds=speeds)
            rows.append({"policy": policy, **dict(zip(found.measures["measure"], found.measures["value"], strict=True))})
            if policy == a.cluster_policy:
                schedule = found
        return Waits(schedule, capacity_curve(jobs, cluster, a.cluster_policy, a, speeds=speeds), pd.DataFrame(rows))

    return remembered("cluster", book, TABLES, a, compute)
