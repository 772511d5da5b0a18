"""Placement, asked of a book: which task where and when, what is misplaced today, and which hardware fits a stage."""

from __future__ import annotations

import pandas as pd

from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import PlacementAssumptions, Scenario, TrainingAssumptions
from capplan.questions.placement import Diagnosis, Placement, diagnose_placement, place_tasks, stage_guide
from capplan.questions.placement.wording import deadline_words

#: Tables that decide where tasks run.
TABLES = ("tasks", "task_edges", "task_durations", "nodes", "links")

#: Models of the stage guide: small, middle and large, all in data/reference.
GUIDE_MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B")


def placement_of(book: Book, scenario: Scenario) -> Placement:
    """Place the book's tasks on its nodes."""
    a = scenario.section(PlacementAssumptions)

    def compute() -> Placement:
        tasks, nodes = (book.need(name, "The placement") for name in ("tasks", "nodes"))
        return place_tasks(tasks, book.get("task_edges"), nodes, book.get("links"), a, durations=book.get("task_durations"))

    return remembered("placement", book, TABLES, a, compute)


def deadline_notes(book: Book, scenario: Scenario) -> tuple[str, ...]:
    """Say on the plan's first page where a pipeline's deadline cannot be met, and what would meet it."""
    due = scenario.deadline is not None or ("tasks" in book.tables and book.get("tasks")["deadline"].notna().any())
    if not due or "tasks" not in book.tables or "nodes" not in book.tables:
        return ()
    deadline = placement_of(book, scenario).deadline
    return () if deadline is None or deadline.met else (f"Pipelines: {deadline_words(deadline)}",)


def diagnosis_of(book: Book, scenario: Scenario) -> Diagnosis | None:
    """Look for signs of bad placement in the book's jobs; None where it has none."""
    if "jobs" not in book.tables or "nodes" not in book.tables:
        return None
    a, workloads = scenario.section(PlacementAssumptions), book.get("workloads")
    stages = dict(zip(workloads["workload"], workloads["stage"], strict=True))
    return remembered(
        "diagnosis",
        book,
        ("jobs", "nodes", "workloads", "telemetry"),
        a,
        lambda: diagnose_placement(book.get("jobs"), book.get("nodes"), book.get("telemetry"), a, stages=stages),
    )


def guide_of(book: Book, scenario: Scenario) -> pd.DataFrame:
    """Hold machines against stages, for models of three sizes."""
    facts = ("skus", "offers", "accelerators", "models", "serving_runs")
    models = book.get("models")
    wanted = tuple(name for name in GUIDE_MODELS if name in set(models["model"]))
    a = scenario.section(TrainingAssumptions)

    def compute() -> pd.DataFrame:
        skus, offers, accelerators, _, runs = (book.get(name) for name in facts)
        return stage_guide(skus, offers, accelerators, models, runs, wanted, a)

    return remembered("stage-guide", book, facts, a, compute)
