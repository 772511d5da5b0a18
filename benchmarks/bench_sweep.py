"""A sweep of 64 points over prices and risk against 64 single plans: processor seconds of one run, and their ratio.

Run: pytest benchmarks/bench_sweep.py -s. The book is the example cut to three workloads and ten offers (`bench_plan.cut_book`). A single
plan is the smallest there is (`capplan plan --quick`: the decision, its page, tables and workbook), made anew at four corners of the
sweep; the sweep starts from nothing as well, holds its decisions against every point, and writes its page. What 64 decisions alone would
take is printed beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench_plan import cpu_seconds, cut_book
from capplan.answers.plan import problem_of
from capplan.answers.store import SHARED, forget
from capplan.book.book import load_book
from capplan.outputs.run.report import write_report
from capplan.questions.procurement import decide
from capplan.sweep import run, write_sweep
from capplan.workers import workers

SIDE, MOST_RATIO = 8, 0.25
PRICES, RISKS = (0.8, 1.2), (0.0, 0.7)


def taken(work: Callable[[], Any]) -> float:
    """Processor seconds of some work that starts from nothing."""
    forget()
    began = cpu_seconds()
    work()
    return cpu_seconds() - began


def test_a_sweep_costs_a_quarter_of_as_many_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: Any) -> None:
    monkeypatch.delenv(SHARED, raising=False)
    book = cut_book(Path("data/enterprise"), tmp_path / "small")
    corners = [{"price_factor": price, "risk_weight": risk} for price in PRICES for risk in RISKS]
    loaded = load_book(book)
    alone = [taken(lambda at=at: decide(problem_of(loaded, loaded.scenario_with(**at)))) for at in corners]
    plans = [taken(lambda at=at: write_report(book, at, tmp_path / "plans", lambda _: None, "quick")) for at in corners]
    # all in this process, whose processor seconds are counted
    monkeypatch.setattr(run, "workers", lambda address: workers(address, 1))
    vary = [f"{name}={low}:{high}:{SIDE}" for name, (low, high) in (("price_factor", PRICES), ("risk_weight", RISKS))]
    found: dict[str, float] = {}

    def sweep() -> None:
        found["seconds"] = taken(lambda: write_sweep(book, vary, "", {}, tmp_path / "sweep", 100, lambda _: None))

    benchmark.pedantic(sweep, rounds=1, iterations=1)
    points = SIDE * SIDE
    single, deciding = (points * sum(each) / len(each) for each in (plans, alone))
    ratio = found["seconds"] / single
    print(
        f"\n  sweep of {points} points {found['seconds']:.0f} CPU s; {points} plans {single:.0f}, ratio {ratio:.3f};"
        f" {points} decisions alone {deciding:.0f}, ratio {found['seconds'] / deciding:.2f}"
    )
    benchmark.extra_info.update(ratio=ratio, ratio_to_decisions=found["seconds"] / deciding)
    assert ratio <= MOST_RATIO
