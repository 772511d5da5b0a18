"""What a training run needs, asked of a book."""

from dataclasses import replace

import pandas as pd

from capplan.answers.plan import prices_of
from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import GoodputAssumptions, ScalingAssumptions, Scenario, TrainingAssumptions
from capplan.errors import CapplanError
from capplan.questions.goodput import measure_goodput
from capplan.questions.scaling import ScalingFit, fit_scaling
from capplan.questions.training import RunStudy, TrainingTables, choose_run, study_run
from capplan.records import word_list

#: Tables that decide what a training run needs.
TRAINING_TABLES = word_list("training_runs scaling_runs failures models training_speeds accelerators skus offers sites workloads")
#: Accelerators at which failures are counted; a run between two is read between them.
GOODPUT_COUNTS = (8, 32, 128, 512, 2048, 8192, 32768)


def training_of(book: Book, scenario: Scenario) -> RunStudy:
    """Study one run of the roadmap on the plan's providers, where its data may be."""
    a = scenario.section(TrainingAssumptions)
    run = choose_run(book.need("training_runs", "The training view"), a)

    def compute() -> RunStudy:
        prices = prices_of(book, scenario)
        prices = prices[~prices["offer_id"].isin(scenario.excluded_offers)]
        prices = prices[prices["provider"].isin(scenario.providers)] if scenario.providers else prices
        prices = prices[prices["geography"].isin(scenario.geographies)] if scenario.geographies else prices
        region = run["region"]
        here = prices if pd.isna(region) or region == "any" else prices[(prices["geography"] == region) | (prices["region"] == region)]
        may_stop = bool(book.get("workloads").set_index("workload")["interruptible"].get(run["workload"], False))
        spot = a.run_on_spot == "yes" or (a.run_on_spot == "as_workload" and may_stop)
        left_out = not spot and (here["term"] == "spot").any()
        here = here if spot else here[here["term"] != "spot"]
        if here.empty:
            raise CapplanError(
                f"run {run['run_id']} must be in {region}, where none of the plan's providers offers a machine"
                f"{' but spot; allow it with run_on_spot,' if left_out else ';'} add offers, or change its region"
            )
        accelerators, models, speeds = (book.get(name) for name in ("accelerators", "models", "training_speeds"))
        measured = _scaling_of(book, scenario), _goodput_of(book, scenario)
        tables = TrainingTables(book.get("skus"), here, accelerators, models, speeds, *measured)
        found = study_run(run, tables, a)
        note = f"The workload {run['workload']} is not interruptible: spot is left out (run_on_spot changes it)."
        return replace(found, notes=(*found.notes, note)) if left_out and a.run_on_spot == "as_workload" else found

    key = f"training-{scenario.section(ScalingAssumptions).digest()}-{scenario.geographies}-{scenario.providers}-{scenario.excluded_offers}"
    return remembered(key, book, TRAINING_TABLES, a, compute)


def _scaling_of(book: Book, scenario: Scenario) -> ScalingFit | None:
    """Fit the book's scaling runs, if it has any."""
    measured, a = book.get("scaling_runs"), scenario.section(ScalingAssumptions)
    return remembered("scaling", book, ("scaling_runs",), a, lambda: fit_scaling(measured, a)) if len(measured) else None


def _goodput_of(book: Book, scenario: Scenario) -> pd.DataFrame | None:
    """Measure the goodput of every offer at a few numbers of accelerators, if failures are known."""
    failures, a = book.get("failures"), scenario.section(GoodputAssumptions)

    def compute() -> pd.DataFrame:
        prices = prices_of(book, scenario)
        return pd.concat(
            [measure_goodput(failures, a.model_copy(update={"run_accelerators": count}), prices) for count in GOODPUT_COUNTS],
            ignore_index=True,
        )

    return remembered("goodput", book, ("failures", "skus", "offers", "sites"), a, compute) if len(failures) else None
