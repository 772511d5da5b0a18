"""A whole plan with its report: processor seconds of each step on the example and on a small book, and their ratio to the decision alone.

Run: python benchmarks/bench_plan.py [--book data/enterprise] [--quick]

Processor seconds of this process and those it starts, so that other work on the machine counts little. The small book is the example cut
to three workloads and ten offers, eight quarters.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.answers.plan import problem_of
from capplan.answers.store import forget
from capplan.book.book import load_book
from capplan.outputs.run.report import write_report
from capplan.questions.procurement import decide

WORKLOADS, OFFERS = 3, 10
TABLES = ("usage", "workloads", "speeds", "offers", "commitments", "sites", "sources")


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of those it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def cut_book(source: Path, target: Path) -> Path:
    """Write a book with the largest few workloads of another one that run on own capacity, and the first few of its offers."""
    shutil.copytree(source, target)
    usage = pd.read_csv(target / "usage.csv")
    hosted = pd.read_csv(target / "workloads.csv").query("host != 'api'")["workload"]
    rows = usage[usage["workload"].isin(hosted)]
    kept = rows.groupby("workload").size().nlargest(WORKLOADS).index
    for file in sorted(target.glob("*.csv")):
        table = pd.read_csv(file)
        if file.stem not in TABLES:
            file.unlink()
        elif file.stem == "offers":
            table.head(OFFERS).to_csv(file, index=False)
        elif "workload" in table:
            table[table["workload"].isin(kept)].to_csv(file, index=False)
    return target


def measure(book: Path, depth: Any, out: Path) -> dict[str, float]:
    """Return processor seconds of the decision alone and of the whole plan, and of each step."""
    forget()
    loaded = load_book(book)
    asked = problem_of(loaded, loaded.scenario)
    began = cpu_seconds()
    found = decide(asked)
    deciding = cpu_seconds() - began
    forget()
    steps: list[tuple[str, float]] = [("reading and checking", cpu_seconds())]
    report = write_report(book, {}, out, lambda text: steps.append((text.strip(" ."), cpu_seconds())), depth)
    ended = [*(at for _, at in steps[1:]), cpu_seconds()]
    for (name, at), until in zip(steps, ended, strict=True):
        print(f"  {until - at:7.1f} s  {name}")
    print(f"  {report.plan.headline}")
    gap = found.solution.gap_share
    return {"decision": deciding, "whole plan": ended[-1] - steps[0][1], "gap": gap}


def main() -> None:
    """Measure both books."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--book", type=Path, default=Path("data/enterprise"))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        books = {"small book": cut_book(given.book, Path(place) / "small"), "example": given.book}
        for name, book in books.items():
            print(name)
            found = measure(book, "quick" if given.quick else "usual", Path(place) / "reports")
            ratio = found["whole plan"] / found["decision"]
            print(f"  decision {found['decision']:.1f} CPU s (gap {found['gap']:.2%})")
            print(f"  whole plan {found['whole plan']:.1f} CPU s, {ratio:.1f} times the decision")


if __name__ == "__main__":
    main()
