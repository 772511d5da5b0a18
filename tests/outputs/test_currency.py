"""A book in euros is read in euros: no dollar sign in anything that people read of it, but where a heading says USD."""

from __future__ import annotations

import html
import json
import re
import shutil

import pandas as pd
import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

from capplan.answers.board import first_column
from capplan.answers.plan import purchases_of
from capplan.answers.sums import plan_currency
from capplan.book.book import load_book
from capplan.book.book_currency import book_currency
from capplan.cli import app
from capplan.dollars import Rate, in_force
from capplan.outputs import charts
from capplan.outputs.charts.pictures import Picture
from capplan.outputs.lab.background import at_once
from capplan.outputs.lab.board import Board
from capplan.outputs.lab.differences import difference_text
from capplan.outputs.run.compare import write_comparison
from capplan.outputs.run.report import write_report
from capplan.outputs.views.all_questions import VIEWS
from tests.conftest import ROOT
from tests.questions.test_board import TABLES

#: The rate moves after the first planned quarter: what is signed and what is paid have rates of their own.
FX = "currency,date,usd\nEUR,2026-11-01,1.25\nEUR,2027-04-01,1.5\n"
LIMITS = "limit_id,kind,amount,quarter,measure,hard,currency\nb,budget_usd,400000,,p_and_l,false,EUR\n"
SHORT = {"horizon_quarters": 2, "paths": 20, "plan_paths": 10, "load_blocks": 3, "gap_share": 0.02, "flip_search": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("currency") / "euro"
    place.mkdir()
    for stem, text in {**TABLES, "fx": FX, "limits": LIMITS}.items():
        (place / (f"{stem}.yaml" if stem == "book" else f"{stem}.csv")).write_text(text + "currency: EUR\n" * (stem == "book"))
    return place


@pytest.fixture(scope="module")
def report(folder, tmp_path_factory):
    return write_report(folder, {}, tmp_path_factory.mktemp("reports"), lambda _: None, "quick")


def drawn(picture: Picture) -> list[str]:
    return [picture.finding, *re.findall(r"<t(?:ext|span)[^>]*>([^<]*)<", html.unescape(picture.svg))]


def in_tables(tables) -> list[str]:
    """Texts of tables, without formulas."""
    cells = [frame[name].dropna() for frame in tables for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    return [text for column in cells for text in column.astype(str).unique() if not text.startswith("=")]


def seen(view) -> list[str]:
    texts = [view.headline, view.unit, *view.notes, *in_tables([view.table, *view.details.values()])]
    return texts + [text for picture in view.charts.values() for text in drawn(picture)]


def assert_no_dollars(texts) -> None:
    texts = list(texts)
    assert any("€" in text or "EUR" in text for text in texts)
    assert [text for text in texts if "$" in text] == []


def test_a_report_in_euros_speaks_euros(report):
    page = (report.folder / "plan.html").read_text(encoding="utf-8")
    words = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    assert_no_dollars(re.split(r"<[^>]*>", html.unescape(words)))
    assert_no_dollars([report.plan.headline, *report.warnings, *in_tables(report.tables.values())])
    for path in (report.folder / "charts").glob("*.svg"):
        assert "$" not in path.read_text(encoding="utf-8"), path.name
    assert_no_dollars(json.loads((report.folder / "run.json").read_text())["warnings"])


def test_a_workbook_in_euros_has_dollars_only_under_headings_that_say_so(report):
    book = load_workbook(report.folder / "plan.xlsx")
    texts = [str(cell.value) for sheet in book for row in sheet.iter_rows() for cell in row if isinstance(cell.value, str)]
    assert_no_dollars(text for text in texts if not text.startswith("="))
    for sheet in book:
        headed, section = {cell.column for row in sheet.iter_rows() for cell in row if "USD" in str(cell.value)}, ""
        for row in sheet.iter_rows():
            filled = [str(cell.value) for cell in row if cell.value is not None]
            section = filled[0] if len(filled) == 1 else section if filled else ""
            dollars = {cell.column for cell in row if "$" in re.sub(r"\[\$[^\]]*\]", "", cell.number_format)}
            assert any("USD" in text for text in [*filled, section]) or dollars <= headed, (sheet.title, row[0].row)


def test_one_number_has_one_form_in_headline_note_and_plain_words(folder, report):
    plan, book = report.plan, load_book(folder)
    assert plan_currency(plan).usd == pytest.approx(book_currency(book, book.scenario).usd) == pytest.approx(1.25)
    budget = re.search(r"budget of (€[\d.]+[kM]?)", plan.headline)[1]
    assert any(f"Of the P&L budget of {budget}" in note for note in plan.warnings)
    firm = plan.purchases.purchases[plan.purchases.purchases["firm"]]
    worth = re.search(r"worth (€[\d.]+[kM]?)", plan.purchases.headline)
    assert (worth is None) == firm.empty
    if worth:
        assert f"worth {worth[1]}" in plan.headline


def test_views_comparisons_and_the_board_in_euros(folder, tmp_path):
    book = load_book(folder)
    dear = book.scenario_with(demand_factor=2.0)
    for name in ("procurement", "pricing", "portfolio", "plan"):
        before, after = (VIEWS[name](book, scenario) for scenario in (book.scenario, dear))
        assert_no_dollars([*seen(before), *seen(after)])
        assert "$" not in difference_text(before, after, book.scenario, dear)
    assert "€" in difference_text(*(VIEWS["procurement"](book, scenario) for scenario in (book.scenario, dear)), book.scenario, dear)
    found = write_comparison(folder, {"base": {}, "dear": {"demand_factor": 2.0}}, {}, tmp_path / "out")
    page = (tmp_path / "out" / "euro" / "comparison" / "comparison.html").read_text(encoding="utf-8")
    assert_no_dollars([html.unescape(page), found.headline])
    board = Board(book, book.scenario, folder=tmp_path, runs=at_once)
    assert_no_dollars([html.unescape(board.headline.value), board.picture.value, html.unescape(board.table.value)])
    first = first_column("dearer", book, book.scenario_with(demand_factor=1.7), book.scenario)
    assert_no_dollars([first.headline])


def test_commands_in_euros(folder, tmp_path):
    for words in (
        ("plan", folder, "--quick", "--out", tmp_path),
        ("explain", folder, "why-not", "year"),
        ("ask", folder, "what if demand doubles?", "--yes", "--out", tmp_path),
        ("ask", folder, "what would make us wait?", "--yes", "--out", tmp_path),
    ):
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
        assert_no_dollars([done.output])


def test_an_answer_is_kept_by_the_currency_of_its_words(folder):
    """A book in euros and its like in dollars, or one asked in another currency, have the same tables and other words."""
    book = load_book(folder)
    dollars = purchases_of(book, book.scenario)
    with in_force(Rate("CHF", 2.0)):
        francs = purchases_of(book, book.scenario)
    assert "€" in dollars.headline
    assert "CHF" in francs.headline
    assert dollars.alternatives.equals(francs.alternatives)


def test_pictures_of_dollars_are_drawn_in_the_currency_in_force():
    data = pd.DataFrame({"label": ["a", "b"], "value": [1000.0, 2500.0]})
    with in_force(Rate("EUR", 1.25)):
        euros = charts.bars(data, title="x", axis=charts.Axis("Cost", "USD"), reference=500.0, reference_text="least")
        hours = charts.bars(data, title="x", axis=charts.Axis("Hours", "h"))
    fewer = data.assign(value=data["value"] / 1.25)
    own = charts.bars(fewer, title="x", axis=charts.Axis("Cost", "EUR"), reference=400.0, reference_text="least")
    assert euros.svg == own.svg
    assert hours.svg == charts.bars(data, title="x", axis=charts.Axis("Hours", "h")).svg
    assert "€800" in euros.svg


@pytest.mark.slow
@pytest.mark.parametrize("question", sorted(set(VIEWS) - {"plan", "review"}))
def test_every_view_of_the_example_in_euros(question, tmp_path_factory):
    place = tmp_path_factory.getbasetemp() / "euro-example"
    if not place.exists():
        shutil.copytree(ROOT / "data" / "enterprise", place, ignore=shutil.ignore_patterns("accepted_plan"))
        (place / "fx.csv").write_text(FX, encoding="utf-8")
        with (place / "book.yaml").open("a", encoding="utf-8") as text:
            text.write("currency: EUR\n")
    book = load_book(place)
    assert [text for text in seen(VIEWS[question](book, book.scenario_with(**SHORT))) if "$" in text] == []
