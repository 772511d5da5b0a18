"""Every notebook runs headless, through the same door as the scheduler's."""

from __future__ import annotations

import html
import json

import pytest

from capplan.book.book import load_book
from capplan.outputs.run.notebooks import notebooks
from capplan.outputs.run.report import answer_question, run_notebook
from capplan.outputs.views.all_questions import VIEWS
from tests.conftest import ROOT

BOOK = ROOT / "data" / "enterprise"
SHORT = {"horizon_quarters": 2, "paths": 20, "plan_paths": 10, "load_blocks": 3, "gap_share": 0.02, "flip_search": False}


def test_every_notebook_has_a_view_and_every_view_a_notebook():
    assert set(notebooks()) == set(VIEWS)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_every_notebook_refuses_parameters_it_does_not_have_before_it_opens_the_book(path):
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    opening = next(cell for cell in cells if "open_book(" in cell)
    assert opening.index("check_parameters(In)") < opening.index("open_book(book)")


@pytest.mark.slow
@pytest.mark.parametrize("question", sorted(VIEWS))
def test_headless_run_says_what_the_view_says(question, tmp_path):
    found = answer_question(question, BOOK, SHORT, tmp_path, lambda _: None)
    cells = json.loads(found.path.read_text())["cells"]
    shown = "".join("".join(output.get("data", {}).get("text/html", "")) for cell in cells for output in cell.get("outputs", []))
    assert html.escape(found.view.headline) in shown
    assert "data:image/svg+xml;base64," in shown
    book = load_book(BOOK)
    computed_anew = VIEWS[question].__wrapped__
    assert computed_anew(book, book.scenario_with(**SHORT)).headline == found.view.headline


@pytest.mark.slow
def test_run_notebook_takes_a_scenario(tmp_path):
    path = run_notebook("pricing", BOOK, load_book(BOOK).scenario_with(usd_per_kwh=0.2), tmp_path)
    assert path.name == "pricing.ipynb"
    assert "0.2" in "".join(json.loads(path.read_text())["cells"][2]["source"])
