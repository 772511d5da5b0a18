"""One cluster or two, asked of a book."""

from dataclasses import replace

from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import Scenario, SplitAssumptions
from capplan.questions.split import Split, serving_load, split_fleet

#: Tables that decide how a fleet is divided.
TABLES = ("jobs", "nodes", "usage", "workloads", "speeds")


def split_of(book: Book, scenario: Scenario) -> Split:
    """Divide the fleet of the nodes table between the served workloads and the jobs."""
    a = scenario.section(SplitAssumptions)

    def compute() -> Split:
        jobs, nodes, usage, workloads, speeds = (book.need(name, "The split of a fleet") for name in TABLES)
        load, notes = serving_load(usage, workloads, speeds, nodes, a.cluster_region)
        found = split_fleet(load, jobs, nodes, a, speeds=speeds)
        return replace(found, notes=(*notes, *found.notes))

    return remembered("split", book, TABLES, a, compute)
