"""The tour: four ideas on the reader's own book, quick, drawn, and true of the plan they are read from."""

from __future__ import annotations

import html
import json

import pytest

from capplan import load_book
from capplan.answers.plan import purchases_of
from capplan.outputs.run.notebooks import execute, notebook_of
from capplan.outputs.views import tour
from tests.questions.test_board import TABLES

LESSONS = (tour.show_band, tour.show_contract, tour.show_waiting, tour.show_proof)


def written(folder, **tables):
    folder.mkdir()
    for name, text in (TABLES | tables).items():
        (folder / (f"{name}.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    return load_book(folder)


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    return written(tmp_path_factory.mktemp("tour") / "steady")


@pytest.mark.parametrize("show", LESSONS, ids=lambda show: show.__name__)
def test_every_idea_has_a_sentence_and_a_picture_and_no_slider(show, steady):
    view = show(steady, steady.scenario)
    assert view.charts
    assert not view.fields
    assert view.headline.endswith(".")


def test_a_contract_pays_from_the_use_at_which_the_prices_meet(steady):
    """16 USD for every hour of a year against 40 USD for the hours that run: even at 40 %."""
    told = tour.show_contract(steady, steady.scenario).charts["screening"].spec["title"]["text"]
    assert "pays for what is in use more than 40% of the time" in " ".join(told)


def test_what_cannot_wait_is_what_the_plan_holds_firm_and_waiting_costs_the_regret_of_signing_nothing_yet(steady):
    bought = purchases_of(steady, tour.rough(steady.scenario))
    view = tour.show_waiting(steady, steady.scenario)
    firm = int(bought.purchases["firm"].sum())
    assert view.headline.startswith(f"{firm} purchase cannot wait, {len(bought.purchases) - firm} can")
    assert view.value == pytest.approx(bought.alternatives.set_index("name").at["sign_nothing_yet", "regret_usd"])


def test_nothing_undercuts_the_bound_that_is_drawn(steady):
    view = tour.show_proof(steady, steady.scenario)
    lower = purchases_of(steady, tour.rough(steady.scenario)).proof.lower_usd
    assert (view.table["objective_usd"] >= lower * (1 - 1e-9)).all()
    assert lower in [row.get("value") for rows in view.chart.spec["datasets"].values() for row in rows]


def test_a_book_that_plans_little_is_not_made_larger(steady):
    small = steady.scenario_with(horizon_quarters=1, plan_paths=2, paths=20, gap_share=0.05)
    coarse = tour.rough(small)
    assert (coarse.horizon_quarters, coarse.plan_paths, coarse.paths, coarse.gap_share) == (1, 2, 20, 0.05)


def test_a_book_that_cannot_be_planned_yet_is_told_what_it_lacks_in_every_place(tmp_path):
    bare = written(tmp_path / "<b>bare")
    (bare.path / "demand_scenarios.csv").unlink()
    bare = load_book(bare.path)
    for show in LESSONS:
        view = show(bare, bare.scenario)
        assert "does not get so far yet" in view.headline
        assert "usage.csv" in view.headline
        assert "<b>bare" not in view._repr_html_()


@pytest.mark.slow
def test_the_tour_runs_without_a_person(steady, tmp_path):
    made = execute(notebook_of("start_here"), {"book": str(steady.path)}, tmp_path / "tour.ipynb")
    cells = json.loads(made.read_text())["cells"]
    shown = "".join("".join(output.get("data", {}).get("text/html", "")) for cell in cells for output in cell.get("outputs", []))
    for show in LESSONS:
        assert html.escape(show(steady, steady.scenario).headline) in shown
    assert shown.count("data:image/svg+xml;base64,") >= 2 * len(LESSONS) - 1
