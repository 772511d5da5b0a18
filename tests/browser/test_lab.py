"""The notebooks in JupyterLab, opened and run as a person would, with the network cut off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.conftest import SCREEN
from tests.browser.test_text import shown_as_meant
from tests.conftest import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]
#: Before its appendix, a notebook is no longer than this.
MOST_SCREENS = 4
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))

SMALL = """
from pathlib import Path
import time
import pandas as pd
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View
from capplan.outputs.lab.widgets import explore

class Book:
    path = Path("absent")
    scenario = Scenario()

runs = []

def show_cost(book, scenario):
    runs.append(scenario.risk_weight)
    time.sleep(1.5 if scenario.price_factor > 1 else 0)
    if scenario.risk_weight > 0.9:
        raise ZeroDivisionError("division by zero")
    cost = 1e6 * (scenario.risk_weight + scenario.price_factor)
    wide = {f"column_{place}": ["a text that is long enough to need room"] for place in range(12)}
    table = pd.DataFrame({"workload": ["<img src=x onerror=alert(1)>"], "cost_usd": [cost], **wide})
    costs = pd.DataFrame({"label": ["<script>alert(1)</script>", "chat"], "value": [cost, cost / 2]})
    bar = charts.bars(costs, title="Cost", axis=charts.Axis("Cost", "USD"))
    knobs = ("risk_weight", "price_factor", "horizon_end")
    return View(f"It costs {cost:.0f} <b>in all</b>", {"cost": bar}, table, cost, "USD", knobs, ("a long note " * 60, f"run {len(runs)}"))
"""


def marks_in(page: Any, within: str) -> int:
    """Count the drawn marks (paths, lines, canvases) of charts in a part of the page; an image counts as one, once it is loaded."""
    return page.evaluate(
        """within => [...document.querySelectorAll(within)].reduce((sum, part) => sum
            + part.querySelectorAll('svg .role-mark path[d], svg .role-mark line').length
            + [...part.querySelectorAll('img')].filter(found => found.naturalWidth > 0).length
            + [...part.querySelectorAll('canvas')].filter(found => found.width > 0).length, 0)""",
        within,
    )


def screens(page: Any) -> float:
    """Return how many screens of a laptop a notebook fills before its appendix."""
    tall = page.evaluate(
        """() => { const cells = [...document.querySelectorAll('.jp-NotebookPanel .jp-Cell')].map(part => part.getBoundingClientRect());
            const appendix = [...document.querySelectorAll('.jp-NotebookPanel .jp-MarkdownCell h2')]
                .find(part => part.textContent.startsWith('Appendix'));
            return appendix.getBoundingClientRect().top - cells[0].top; }"""
    )
    return float(tall) / SCREEN["height"]


def labels_cut(page: Any) -> list[str]:
    """Return labels of controls that do not fit, and parts of the explorer that stick out of it."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.capplan-explorer')].flatMap(explorer => [
            ...[...explorer.querySelectorAll('.widget-label')]
                .filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.textContent),
            ...[...explorer.querySelectorAll('.capplan-table, .capplan-picture svg, ul')]
                .filter(part => part.getBoundingClientRect().right > explorer.getBoundingClientRect().right + 1)
                .map(part => `too wide: ${part.className} ${
                    part.getBoundingClientRect().right - explorer.getBoundingClientRect().right}`)])"""
    )


def errors_of(cells: list[dict[str, Any]]) -> list[str]:
    """Return the errors among outputs, as text."""
    return [f"{output['ename']}: {output['evalue']}" for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


def move(page: Any, label: str, key: str, times: int = 1) -> None:
    """Move the slider of this label by keyboard."""
    handle = page.locator(".capplan-explorer .widget-hslider", has_text=label).locator(".noUi-handle").first
    handle.scroll_into_view_if_needed()
    for _ in range(times):
        handle.press(key)


def settled(page: Any, seconds: int = 120) -> None:
    """Wait until the explorer has computed."""
    page.wait_for_function(
        """() => { const found = [...document.querySelectorAll('.capplan-explorer .capplan-status')];
            return found.length > 0
                && found.every(part => !part.querySelector('.capplan-busy') && part.textContent.trim().length > 0); }""",
        timeout=seconds * 1000,
    )


def text_of(page: Any, part: str) -> str:
    """Return the text of a part of the explorer."""
    return " ".join(page.locator(f".capplan-explorer .{part}").first.inner_text().split())


@pytest.fixture
def small(lab: Any) -> str:
    """Write a notebook whose view is quick and whose numbers follow by hand."""
    book = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(SMALL),
            nbformat.v4.new_code_cell("show_cost(Book, Book.scenario)"),
            nbformat.v4.new_code_cell("explore(show_cost, Book, Book.scenario)"),
        ]
    )
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (lab.folder / "small.ipynb").write_text(nbformat.writes(book), encoding="utf-8")
    return "small.ipynb"


def test_an_explorer_follows_the_keyboard(lab: Any, page: Any, small: str, shot: Any) -> None:
    lab.open(page, small)
    lab.run_all(page)
    assert errors_of(lab.cells(page)) == []
    settled(page)
    assert text_of(page, "capplan-headline") == "It costs 1200000 <b>in all</b>"
    assert marks_in(page, ".jp-NotebookPanel .capplan-picture") >= 2
    assert (
        page.evaluate("() => [...document.querySelectorAll('.jp-RenderedHTMLCommon img')].filter(part => part.naturalWidth > 300).length")
        == 1
    )

    move(page, "Risk weight", "ArrowRight", 4)
    page.wait_for_function("() => document.querySelector('.capplan-headline').innerText.includes('1400000')", timeout=30_000)
    settled(page)
    assert text_of(page, "capplan-difference") == "+$200.0k, +16.7% against the baseline ($1.2M), because risk weight 0.2 → 0.4."
    assert int(page.locator(".capplan-explorer .capplan-table ~ details ul").text_content().split()[-1]) <= 5, (
        "four presses of a key are not four runs"
    )
    shot(page, "explorer_small", part=".capplan-explorer")
    assert labels_cut(page) == []

    move(page, "Price factor", "ArrowRight")
    page.wait_for_selector(".capplan-busy", timeout=10_000)
    settled(page)
    assert text_of(page, "capplan-headline") == "It costs 1450000 <b>in all</b>"
    move(page, "Price factor", "ArrowLeft")
    page.wait_for_function("() => document.querySelector('.capplan-headline').innerText.includes('1400000')", timeout=30_000)

    move(page, "Risk weight", "End")
    page.wait_for_selector(".capplan-error", timeout=30_000)
    assert "ZeroDivisionError" in text_of(page, "capplan-status")
    assert "Traceback" not in page.locator(".capplan-explorer").first.inner_text()
    shot(page, "explorer_error", part=".capplan-explorer")

    page.get_by_role("button", name="Reset").first.click()
    page.wait_for_function("() => document.querySelector('.capplan-headline').innerText.includes('1200000')", timeout=30_000)
    page.get_by_role("button", name="Export chart").first.click()
    page.wait_for_function("() => document.querySelector('.capplan-status').innerText.includes('Wrote cost_cost.svg')", timeout=30_000)
    assert "<script" not in (lab.folder / "cost_cost.svg").read_text(encoding="utf-8")
    assert (
        page.evaluate(
            "() => document.querySelectorAll('.capplan-explorer script, .capplan-explorer img, .jp-OutputArea-output script,"
            " .jp-OutputArea-output img[onerror]').length"
        )
        == 0
    )
    assert page.foreign == []


def run_and_look(lab: Any, page: Any, shot: Any, name: str) -> None:
    """Open a notebook, run all of it, and find no error, drawn charts, and no call to another machine."""
    lab.open(page, name)
    lab.run_all(page)
    cells = lab.cells(page)
    assert errors_of(cells) == []
    assert all(cell["count"] for cell in cells)
    shot(page, Path(name).stem, tall=True)
    assert marks_in(page, ".jp-NotebookPanel .jp-OutputArea-output") >= 3
    settled(page)
    assert labels_cut(page) == []
    assert screens(page) <= MOST_SCREENS
    shown_as_meant(page, lab.all_cells(page))
    assert page.foreign == []


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name not in ("12_procurement.ipynb", "14_plan.ipynb")])
def test_a_notebook_runs_without_network(lab: Any, page: Any, shot: Any, name: str) -> None:
    run_and_look(lab, page, shot, name)


def test_a_first_answer_gives_way_to_the_full_one(lab: Any, page: Any, shot: Any) -> None:
    run_and_look(lab, page, shot, "12_procurement.ipynb")
    move(page, "Risk weight", "ArrowRight", 4)
    page.wait_for_function("() => document.querySelector('.capplan-headline').innerText.includes('First answer')", timeout=120_000)
    assert "proven within" in text_of(page, "capplan-headline")
    assert marks_in(page, ".jp-NotebookPanel .capplan-picture") >= 2
    shot(page, "12_first_answer", part=".capplan-explorer")
    page.wait_for_function("() => document.querySelector('.capplan-status').innerText.includes('Computed in')", timeout=120_000)
    assert "First answer" not in text_of(page, "capplan-headline")
    assert "risk weight 0.2 → 0.4" in text_of(page, "capplan-difference")
    assert labels_cut(page) == []


def headless(book: Path, out: Path, *parameters: str) -> str:
    """Return the headline that `capplan run plan` prints for these parameters."""
    words = [sys.executable, "-m", "capplan.cli", "run", "plan", str(book), "--out", str(out), "--json"]
    done = subprocess.run([*words, *parameters], capture_output=True, text=True, check=True)
    return " ".join(json.loads(done.stdout)["headline"].split())


def test_the_plan_runs_and_a_slider_shows_what_a_headless_run_says(lab: Any, page: Any, shot: Any, book: Path, tmp_path: Path) -> None:
    from capplan import load_book

    run_and_look(lab, page, shot, "14_plan.ipynb")
    plain = headless(book, tmp_path)
    assert text_of(page, "capplan-headline") == plain
    move(page, "Price factor", "ArrowRight", 2)
    page.wait_for_function("() => document.querySelector('.capplan-difference').innerText.includes('price factor')", timeout=120_000)
    settled(page)
    moved = headless(book, tmp_path, "-p", f"price_factor={round(load_book(book).scenario.price_factor + 0.1, 10)}")
    assert text_of(page, "capplan-headline") == moved
    assert moved != plain
    assert labels_cut(page) == []
    shot(page, "14_plan_moved", part=".capplan-explorer")


def test_saved_outputs_hold_no_error_and_the_notebooks_are_valid() -> None:
    for name in NOTEBOOKS:
        nbformat.validate(json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8")))
