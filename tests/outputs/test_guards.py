"""Names that a spreadsheet would run stand behind an apostrophe in every file of a report, and wherever capplan reads them it is gone."""

from __future__ import annotations

import csv
import html
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from capplan.book.accepted import read_accepted
from capplan.cli import app
from capplan.inert import read_table
from capplan.outputs.export.files import table_text, write_table
from tests.questions.test_board import TABLES

NAMES = {"year": "=year", "hour": "@hour", "cheap": "+cheap", "held": "-held", "chat": "=chat", "web": "@web"}
TEXTS = st.text(st.sampled_from("=+-@' \ta"), max_size=4).map(lambda text: f"{text}x")


@given(st.lists(st.tuples(TEXTS, st.floats(-9, 9)), min_size=1, max_size=5), TEXTS)
def test_what_is_written_is_read_as_it_was(tmp_path_factory, rows, column):
    frame = pd.DataFrame(rows, columns=[f"{column}1", "amount"])
    path = write_table(frame, tmp_path_factory.mktemp("guards") / "t.csv")
    with path.open(newline="") as file:
        assert not any(cell.lstrip(" ").startswith(("=", "+", "@", "\t")) for row in csv.reader(file) for cell in row)
    back = read_table(path)
    assert back.iloc[:, 0].tolist() == frame.iloc[:, 0].tolist()
    assert list(back.columns) == list(frame.columns)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A book whose names a spreadsheet would run, planned twice, the second time without the cheapest offer."""
    place = tmp_path_factory.mktemp("guards")
    book = place / "steady"
    book.mkdir()
    for name, text in TABLES.items():
        if name == "book":
            (book / "book.yaml").write_text(text)
            continue
        rows = [line.split(",") for line in text.splitlines()]
        frame = pd.DataFrame(rows[1:], columns=rows[0]).replace(NAMES)
        (book / f"{name}.csv").write_text(table_text(frame))
    out = ["--out", str(place / "out")]
    done(["plan", str(book), "--quick", *out])
    folder = place / "out" / "steady" / "2027Q1"
    for _ in range(2):
        done(["accept", str(folder), "--reason", "=as it stands", "--into", str(book / "accepted_plan")])
    done(["plan", str(book), "--quick", *out, "-p", "excluded_offers=[+cheap]"])
    return book, folder


def done(words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, (words, found.output, found.exception)
    assert "'=" not in found.output
    assert "'@" not in found.output
    assert "'+" not in found.output
    return found.output


def test_files_of_a_report_are_inert(report):
    _, folder = report
    tables = list(folder.rglob("*.csv"))
    assert any("'=year" in path.read_text() for path in tables)
    for path in tables:
        with path.open(newline="") as file:
            assert not any(cell.startswith(("=", "@", "+")) for row in csv.reader(file) for cell in row), path.name


def test_everything_that_reads_a_report_says_names_as_the_book_has_them(report):
    book, folder = report
    assert "=year" in done(["explain", str(folder), "why", "=year"])
    done(["check-plan", str(book), str(folder / "tables" / "purchases.csv"), "-p", "excluded_offers=[+cheap]"])
    done(["diff", str(book / "accepted_plan"), str(folder)])
    figures = read_table(folder / "tables" / "figures.csv", keep_default_na=False)
    live = figures[figures["value"].astype(str).str.contains("[=@]")]
    assert len(live)
    for figure in {*figures.groupby("view")["figure"].first(), *live["figure"].head(3)}:
        done(["trace", str(folder), figure])
    for page in ("plan.html", "changed.html"):
        text = html.unescape((folder / page).read_text())
        # a chart says its titles in quotes to who has them read aloud
        assert not re.search(r"(?<!Title text )'[=@+](year|hour|cheap|chat|web)", text), page
        assert any(name in text for name in NAMES.values()), page
    assert read_accepted(book / "accepted_plan").signed["offer_id"].str.startswith("=").any()
