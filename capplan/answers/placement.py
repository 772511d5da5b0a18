"""Placement, asked of a book: which task where and when, what is misplaced today, and which hardware fits a stage."""

from dataclasses import replace

import pandas as pd

from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import PlacementAssumptions, Scenario, TrainingAssumptions
from capplan.book.tables.registry import columns_of
from capplan.errors import CapplanError
from capplan.questions.placement import Diagnosis, Placement, as_other_costs, as_training_runs, diagnose_placement, place_tasks, stage_guide
from capplan.questions.placement.wording import deadline_words
from capplan.text import money

#: Tables that decide where tasks run.
TABLES = ("tasks", "task_edges", "task_durations", "nodes", "links")

#: Says that a book has the demand of its pipelines.
PIPELINES = "Pipelines are demand of this plan, beside its roadmap."
#: Column that names a row of the tables that pipelines add to.
KEYS = {"training_runs": "run_id", "other_costs": "cost_id"}

#: Models of the stage guide: small, middle and large, all in data/reference.
GUIDE_MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B")


def placement_of(book: Book, scenario: Scenario) -> Placement:
    """Place the book's tasks on its nodes."""
    a = scenario.section(PlacementAssumptions)

    def compute() -> Placement:
        tasks, nodes = (book.need(name, "The placement") for name in ("tasks", "nodes"))
        return place_tasks(tasks, book.get("task_edges"), nodes, book.get("links"), a, durations=book.get("task_durations"))

    return remembered("placement", book, TABLES, a, compute)


def asked_book(book: Book, scenario: Scenario) -> Book:
    """Return the book a plan is made for: with the scenario's what-ifs and, where `pipeline_demand` asks, the demand of its pipelines."""
    book = book.with_changes(scenario.changes)
    if not scenario.pipeline_demand or PIPELINES in book.notes:
        return book
    if "demand_scenarios" in book.own:
        raise CapplanError(
            "pipeline_demand adds runs to a forecast, and this book states its demand in demand_scenarios; add the work there, or set"
            " pipeline_demand=false"
        )
    placed, tasks = placement_of(book, scenario), book.get("tasks")
    begin = placed.schedule["start"].min() - pd.Timedelta(hours=float(placed.schedule["start_hours"].min()))
    runs, moved = as_training_runs(placed.schedule, tasks, book.get("speeds")), as_other_costs(placed.transfers, begin)
    for name, rows in (("training_runs", runs), ("other_costs", moved)):
        own = book.get(name)
        clash = set(own[KEYS[name]]) & set(rows[KEYS[name]])
        if clash:
            raise CapplanError(
                f"{name} has a row {min(clash)} already, which pipeline_demand would add; rename it, or set pipeline_demand=false"
            )
        if len(rows):
            given = {column.name: column.default for column in columns_of(name) if column.name not in rows}
            more = rows.assign(**given).reindex(columns=own.columns).astype(own.dtypes.to_dict())
            book = book.with_rows(name, pd.concat([own, more], ignore_index=True) if len(own) else more)
    used = placed.schedule[placed.schedule["accelerator_hours"] > 0]
    left = used[~(used["pipeline"] + "-" + used["task_id"]).isin(runs["run_id"])]
    hours = f"{used['accelerator_hours'].sum() - left['accelerator_hours'].sum():,.0f} accelerator-hours"
    paid = money(float(moved["usd"].sum()))
    told = f"Pipelines: {len(runs)} tasks are runs of the roadmap with {hours}, and their transfers cost {paid} (pipeline_demand)."
    names = ", ".join(left["task_id"].head(5))
    missing = f"Pipelines: {names} name no workload with a speed on their accelerator; their demand is left out."
    return replace(book, notes=(*book.notes, PIPELINES, told, *([missing] if len(left) else [])))


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
