"""What is shown can be read and worked by everybody: no serious finding of axe-core, and the keyboard reaches every card."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.test_dashboard import ready
from tests.browser.test_meeting import BOARD
from tests.browser.test_text import CELLS, notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SERIOUS = ("serious", "critical")
CANARY = "<img id='canary' width='9' height='9' src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"


def findings(page: Any, *within: str) -> list[str]:
    """Return the serious findings of axe-core in parts of a page; a picture without words is put there and must be found.

    Skips where axe-core is not installed.
    """
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python, which brings axe-core, is not installed")
    from axe_playwright_python.sync_playwright import Axe

    context = {"include": [[part] for part in within]} if within else None
    page.evaluate(
        "([place, canary]) => document.querySelector(place).insertAdjacentHTML('afterbegin', canary)", [*(within or ["body"])[:1], CANARY]
    )
    found = Axe().run(page, context=context).response["violations"]
    page.evaluate("() => document.getElementById('canary').remove()")
    told = [
        f"{each['id']} ({each['impact']}): {node['target']} {node['html'][:160]}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]
    others = [each for each in told if "#canary" not in each]
    assert len(others) < len(told), "axe-core does not see a picture without words"
    return others


@pytest.fixture(scope="module")
def plain_report(tmp_path_factory: pytest.TempPathFactory, steady: Path) -> Path:
    """Make two quick reports of the small book, so that the second one has a page of differences."""
    from capplan.outputs.run.report import write_report

    out = tmp_path_factory.mktemp("reports")
    for factor in (1.0, 1.5):
        folder = write_report(steady, {"demand_factor": factor}, out, lambda _: None, "quick").folder
    return folder


@pytest.mark.parametrize("name", ["plan.html", "changed.html"])
def test_the_pages_of_a_report_have_no_serious_finding(plain_report: Path, page: Any, name: str) -> None:
    page.goto((plain_report / name).as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert findings(page) == []


def test_the_output_of_a_notebook_has_no_serious_finding(page: Any, tmp_path: Path) -> None:
    from capplan.outputs.run.notebooks import execute

    nbformat.write(notebook(*CELLS), tmp_path / "texts.ipynb")
    made = execute(tmp_path / "texts.ipynb", {}, tmp_path / "executed.ipynb")
    subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", str(made)], check=True, capture_output=True)
    page.route("https://**", lambda route: route.abort())
    page.goto(made.with_suffix(".html").as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert findings(page, ".tex2jax_ignore") == []


def test_notebook_outputs_in_the_lab_have_no_serious_finding(lab: Any, page: Any, book: Path) -> None:
    cells = [*CELLS, "explore(show_texts, Book, Book.scenario)", f"BOOK = {str(book)!r}", BOARD]
    nbformat.write(notebook(*cells), lab.folder / "accessible.ipynb")
    lab.open(page, "accessible.ipynb")
    lab.run_all(page)
    page.wait_for_function(
        "() => document.querySelector('.capplan-meeting .capplan-status')?.innerText.includes('All answers are full ones')", timeout=120_000
    )
    page.evaluate("() => document.querySelectorAll('.jp-OutputArea-output details').forEach(part => { part.open = true; })")
    page.wait_for_function("() => [...document.querySelectorAll('.noUi-handle')].every(part => part.ariaLabel)", timeout=30_000)
    assert findings(page, ".jp-OutputArea-output .mathjax_ignore", ".capplan-explorer", ".capplan-meeting") == []


def test_the_dashboard_has_no_serious_finding_and_is_worked_by_keyboard(dashboard: Any, page: Any) -> None:
    page.goto(f"{dashboard.address}/?token={dashboard.token}")
    assert findings(page) == []
    page.goto(f"{dashboard.address}/voila/render/14_plan.ipynb?token={dashboard.token}", wait_until="commit")
    ready(page)
    page.wait_for_selector(".capplan-explorer .capplan-headline h3", timeout=120_000)
    missed = page.evaluate(
        """() => [...document.querySelectorAll('.capplan-cards button, .capplan-cards input, .capplan-cards select')]
            .filter(part => !part.disabled && (part.focus(), document.activeElement !== part)).map(part => part.outerHTML.slice(0, 120))"""
    )
    assert missed == []
    page.wait_for_function("() => [...document.querySelectorAll('.noUi-handle')].every(part => part.ariaLabel)", timeout=30_000)
    assert findings(page, ".capplan-meeting", ".capplan-explorer") == []
