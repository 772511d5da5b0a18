"""From words to an answer: approval first, then the numbers of a run without a person, every one a cell of a table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capplan.answers.ask.reader import Reader
from capplan.answers.ask.shown import reading_text
from capplan.answers.board import full_column
from capplan.book.book import load_book
from capplan.cli import app
from capplan.outputs.lab.answering import answer_reading
from capplan.text import money
from tests.questions.test_board import TABLES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A year of steady work for eight accelerators (see test_board)."""
    place = tmp_path_factory.mktemp("ask") / "steady"
    place.mkdir()
    for stem, text in TABLES.items():
        (place / ("book.yaml" if stem == "book" else f"{stem}.csv")).write_text(text)
    return place


def asked(folder, out, text, *more):
    done = CliRunner().invoke(app, ["ask", str(folder), text, "--out", str(out), *more])
    return done, [json.loads(line) for line in Path(out, "steady", "asked.jsonl").read_text().splitlines()]


def test_nothing_runs_before_approval_nor_with_doubts(folder, tmp_path):
    done, record = asked(folder, tmp_path, "what if spot doubles?")
    assert done.exit_code == 0
    assert "not approved" in done.output
    done, record = asked(folder, tmp_path, "what if spot doubles and the moon falls down?", "--yes")
    assert done.exit_code == 2
    assert "'moon' is not understood" in done.output
    assert [line["approved"] for line in record] == [False, False]
    assert all(line["answer"] == [] for line in record)
    assert sorted(path.name for path in (tmp_path / "steady").iterdir()) == ["asked.jsonl"]


def test_an_answer_is_that_of_a_run_without_a_person(folder, tmp_path):
    done, record = asked(folder, tmp_path, "what if demand rises by 30% and spot is gone?", "--yes", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    book = load_book(folder)
    same = full_column("x", book, book.scenario_with(demand_factor=1.3, changes="remove offers where term=spot"))
    assert found["headline"] == same.headline
    cells = {row["measure"]: row for row in found["tables"]["difference"]}
    assert cells["expected_usd"]["after"] == pytest.approx(same.measures["expected_usd"])
    assert record[-1]["approved"]
    assert record[-1]["answer"][0] == same.headline
    assert [each["words"] for each in record[-1]["what_ifs"]] == ["demand rises by 30%", "spot is gone"]


def test_every_number_of_the_difference_is_a_cell(folder):
    from capplan.outputs.lab.board_table import measure_text

    book = load_book(folder)
    reading = Reader(book, book.scenario).read("what if demand rises by 30%?")
    found = answer_reading(reading, book, book.scenario)
    table = found.tables["difference"]
    known = {
        measure_text(str(row.measure), value, "USD", signed=sign).lstrip("+-")
        for row in table.itertuples()
        for value in (row.before, row.after, abs(row.difference))
        for sign in (False, True)
    } | {f"{abs(row.difference):,.0f}" for row in table.itertuples()}
    for sentence in (each for each in found.sentences[1:] if "the book as it is" in each or "instead of" in each):
        for number in re.findall(r"\$[\d.,]+[kMB]?|(?<![\w-])\d[\d.,]*%?", sentence.partition(":")[2] or sentence):
            assert any(number.rstrip(".,") in text for text in known), (number, sentence)


def test_a_book_in_euros_is_answered_in_euros(make_book):
    fx = "currency,date,usd\nEUR,2026-12-01,1.25\n"
    book = load_book(make_book("euro", fx=fx, **{**TABLES, "book": TABLES["book"] + "currency: EUR\n"}))
    found = answer_reading(Reader(book, book.scenario).read("what if demand rises by 30%?"), book, book.scenario)
    step = found.tables["difference"].set_index("measure").loc["expected_usd", "difference"] / 1.25
    moved = next(each for each in found.sentences if each.startswith("It costs"))
    assert f"It costs {money(step, 'EUR')} more" in moved
    assert not any("$" in words for words in found.sentences)
    why = answer_reading(Reader(book, book.scenario).read("why not year?"), book, book.scenario)
    assert any("€" in words for words in why.sentences)
    assert not any("$" in words for words in why.sentences)


def test_reasons_come_from_the_plans_tables(folder):
    book = load_book(folder)
    reading = Reader(book, book.scenario).read("why not year?")
    assert [str(item) for item in reading.what_ifs] == ["explain why_not year"]
    found = answer_reading(reading, book, book.scenario)
    assert "year" in found.sentences[0]
    assert {"explained", "figures"} <= set(found.tables)
    found = answer_reading(Reader(book, book.scenario).read("what binds?"), book, book.scenario)
    assert found.sentences


def test_what_was_understood_is_shown_as_sentences_with_its_words(folder):
    book = load_book(folder)
    text = reading_text(Reader(book, book.scenario).read("workload chat doubles, and blorb"), book, book.scenario)
    assert "(from 'workload chat doubles')" in text
    assert "Not understood: 'blorb'" in text
