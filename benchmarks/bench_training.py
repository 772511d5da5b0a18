"""The frontier of a run over 20 kinds of machines and 200 counts, as a ratio to an empty callback of the same sliders.

Run: pytest benchmarks/bench_training.py --benchmark-only -s. The empty callback is an explorer around a view that is already made: it
reads the
sliders, checks the scenario and draws headline, chart and table, and asks nothing. The ratio says how much of a slider's wait is the
question.
Nothing is asserted on time.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from capplan.answers.plan import prices_of
from capplan.book.book import load_book
from capplan.book.scenario import TrainingAssumptions
from capplan.outputs.lab.explore import Explorer
from capplan.outputs.views.training import show_training
from capplan.questions.training import plan_run
from capplan.questions.training.offered import TrainingTables
from tests.conftest import ROOT

MACHINES, COUNTS, ROUNDS = 20, 200, 5


class _Done:
    def cancel(self) -> None:
        """Nothing is left to call off."""


def at_once(_: float, action) -> _Done:
    action()
    return _Done()


@pytest.fixture(scope="module")
def book():
    return load_book(ROOT / "data" / "enterprise")


def median(action) -> float:
    times = []
    for round_ in range(ROUNDS):
        start = time.perf_counter()
        action(round_)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


@pytest.mark.benchmark(group="frontier of 20 kinds of machines and 200 counts")
def test_frontier(benchmark, book):
    prices, a = prices_of(book, book.scenario), book.scenario.section(TrainingAssumptions)
    offered = book.skus[book.skus["sku"].isin(prices["sku"])]
    machines = offered.drop_duplicates(["accelerator", "provider", "accelerator_count"]).query("accelerator_count == 8").head(MACHINES)
    assert len(machines) == MACHINES
    prices = prices[prices["sku"].isin(machines["sku"])]
    run = book.training_runs.set_index("run_id", drop=False).loc["continued-70b"]
    counts = 8 * np.arange(1, COUNTS + 1)

    def frontier():
        return plan_run(run, TrainingTables(machines, prices, accelerators=book.accelerators, models=book.models), a, counts)

    table = benchmark.pedantic(frontier, rounds=ROUNDS, warmup_rounds=1)
    ours = median(lambda _: frontier())
    made = show_training(book, book.scenario)
    empty = Explorer(lambda *_: made, book, book.scenario, plan_action=at_once)
    slider = empty.controls["mfu_share"]
    nothing = median(lambda round_: slider.write(0.3 + 0.01 * round_))
    real = Explorer(show_training, book, book.scenario, plan_action=at_once)
    moved = real.controls["mfu_share"]
    whole = median(lambda round_: moved.write(0.3 + 0.01 * round_))
    benchmark.extra_info.update(rows=len(table), frontier_to_empty=ours / nothing, view_to_empty=whole / nothing)
    print(f"\n{len(table)} rows; frontier / empty callback = {ours / nothing:.2f}; whole view / empty callback = {whole / nothing:.1f}")
