"""The board as a person meets it: clicks, second clicks, impossible values, a changed book, saved files; here with quick answers."""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
import time

import openpyxl
import pandas as pd
import pytest

from capplan import load_book
from capplan.answers.board import Column
from capplan.answers.card import EVERYTHING
from capplan.answers.cards import CARDS, get_ready
from capplan.cli import overrides
from capplan.errors import CapplanError
from capplan.outputs.lab import board as board_module
from capplan.outputs.lab.background import Background, at_once
from capplan.outputs.lab.board import TODAY, Board
from capplan.outputs.lab.widgets import meeting
from tests.conftest import ROOT
from tests.questions.test_board import TABLES

HOSTILE = "<script>alert(1)</script>"


class Waiting:
    """Keeps work until the test lets it be done, the quick lane first."""

    def __init__(self):
        self.planned = []

    def __call__(self, lane, work, done):
        self.planned.append((lane, work, done))

    def finish(self, lane):
        due, self.planned = [each for each in self.planned if each[0] == lane], [each for each in self.planned if each[0] != lane]
        for _, work, done in due:
            at_once(lane, work, done)


def column(name, scenario, *, full=True):
    """A plan whose cost follows by hand: a million times demand times price; more demand than 3 cannot be served."""
    if scenario.demand_factor > 3:
        raise CapplanError("nothing can serve so much")
    usd = 1e6 * scenario.demand_factor * scenario.price_factor
    decisions = pd.DataFrame(
        {"offer_id": [f"=cmd {HOSTILE}"], "quarter": ["2027Q1"], "accelerators": [8.0 * scenario.demand_factor], "usd": [usd / 2]}
    )
    measures = {
        "expected_usd": usd,
        "bad_cases_usd": 1.5 * usd,
        "contracts_to_sign": 1.0,
        "unserved_share": 0.01,
        **({"p_and_l_2027_amount": usd} if full else {}),
    }
    return Column(name, scenario, f"It costs {usd:.0f} {HOSTILE}", measures, decisions, full, {})


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(board_module, "first_column", lambda name, book, scenario, base=None: column(name, scenario, full=False))
    monkeypatch.setattr(board_module, "full_column", lambda name, book, scenario, today=None: column(name, scenario))
    folder = tmp_path / "steady"
    folder.mkdir()
    for name, text in TABLES.items():
        (folder / (f"{name}.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    book, runs = load_book(folder), Waiting()
    shown = Board(book, book.scenario, folder=tmp_path, runs=runs)
    runs.finish("full")
    return shown, runs


def test_an_answer_is_a_first_one_then_a_full_one_and_stays(made):
    shown, runs = made
    row, number, pick = shown.cards["Demand changes by"]
    assert (number.value, pick.value) == (30.0, EVERYTHING)
    row.children[0].click()
    assert "Computing in full: Demand of all work +30 %" in shown.status.value
    runs.finish("first")
    assert shown.asked[1].state == "first answer"
    assert "$1.3M" in shown.table.value
    assert "first answer" in shown.table.value
    runs.finish("full")
    assert [asked.state for asked in shown.asked] == ["full answer", "full answer"]
    assert "a run without a person gives the same" in shown.status.value
    assert "Demand factor: 1 → 1.3." in shown.table.value
    assert "$300.0k more than Today" in " ".join(re.sub("<[^>]+>", " ", shown.picture.value).split()), "also where the title is broken"


def test_a_late_first_answer_never_takes_the_place_of_a_full_one(made):
    shown, runs = made
    shown.ask("Demand changes by", 30, EVERYTHING)
    runs.finish("full")
    runs.finish("first")
    assert shown.asked[1].state == "full answer"
    assert "p_and_l_2027_amount" in shown.asked[1].column.measures


def test_a_second_click_while_computing_is_said(made):
    shown, runs = made
    button = shown.cards["Demand changes by"][0].children[0]
    button.click()
    button.click()
    assert "is being computed already" in shown.notice.value
    assert len(shown.asked) == 2
    runs.finish("full")
    button.click()
    assert len(shown.asked) == 2, "asked again: answered again, in one column"


def test_an_impossible_value_says_which_card_and_an_answer_that_fails_stands_in_its_column(made):
    shown, runs = made
    _, number, _ = shown.cards["Demand changes by"]
    number.value = -100
    shown.cards["Demand changes by"][0].children[0].click()
    assert "Demand changes by -100 %: impossible; give -90 to 900" in shown.notice.value
    shown.ask("Demand changes by", 300, EVERYTHING)
    runs.finish("first")
    runs.finish("full")
    assert "nothing can serve so much" in shown.table.value
    shown.first.value, shown.second.value = TODAY, shown.asked[1].title
    shown.buttons["compare"].click()
    assert "has no answer yet" in shown.notice.value


def test_what_ifs_stack_compare_and_are_saved_as_a_run_takes_them(made, tmp_path):
    shown, runs = made
    shown.ask("Demand changes by", 30, EVERYTHING)
    runs.finish("full")
    shown.onto.value = shown.asked[1].title
    shown.ask("Unsigned prices change by", -20)
    shown.ask("Spot prices are multiplied by", 2)
    runs.finish("full")
    both = shown.asked[2]
    assert both.column.measures["expected_usd"] == pytest.approx(1.04e6)
    shown.first.value, shown.second.value = TODAY, both.title
    shown.buttons["compare"].click()
    assert "+$40.0k" in shown.comparison.value
    shown.buttons["save"].click()
    loaded = overrides(None, next(tmp_path.glob("scenario_*.yaml")))
    assert shown._book.scenario_with(**loaded) == both.scenario
    shown.second.value = shown.asked[3].title
    shown.buttons["save"].click()
    saved = next(path for path in tmp_path.glob("scenario_Spot*.yaml"))
    assert shown._book.scenario_with(**overrides(None, saved)) == shown.asked[3].scenario
    assert "offers where term=spot multiply usd_per_hour 2.0" in saved.read_text()


def test_exports_hold_the_board_and_no_formula(made, tmp_path):
    shown, runs = made
    shown.ask("Demand changes by", 30, EVERYTHING)
    runs.finish("full")
    shown.buttons["excel"].click()
    shown.buttons["picture"].click()
    book = openpyxl.load_workbook(io.BytesIO((tmp_path / "board.xlsx").read_bytes()))
    rows = list(book["Measures"].iter_rows(values_only=True))
    assert rows[0] == ("Measure", TODAY, "Demand of all work +30 %")
    assert rows[1] == ("Cost in expectation, beside what is signed (USD)", 1_000_000, 1_300_000)
    assert all(cell.data_type != "f" for sheet in book for line in sheet.iter_rows() for cell in line)
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")


def test_text_of_a_book_is_inert_on_the_board(made):
    shown, runs = made
    shown.ask("Demand changes by", 30, EVERYTHING)
    runs.finish("full")
    shown.buttons["compare"].click()
    for part in (shown.headline, shown.table, shown.comparison, shown.picture, shown.status, shown.notice):
        assert "<script" not in part.value
    assert "&lt;script&gt;" in shown.table.value
    assert {"tex2jax_ignore", "mathjax_ignore"} <= set(shown._dom_classes)


def test_a_book_that_changes_on_disk_is_said_and_read_again_on_a_click(made):
    shown, runs = made
    file = shown._book.path / "offers.csv"
    row = file.read_text().splitlines()[-1]
    file.write_text(f"{file.read_text().replace(',12,', ',13,')}{row.replace('cheap', 'new')}\n")
    shown.cards["Spot is gone"][0].children[0].click()
    assert "has changed on disk" in shown.notice.value
    assert len(shown.asked) == 1
    shown.buttons["reload"].click()
    runs.finish("full")
    assert "new" in shown.cards["This quote instead:"][2].options, "what can be picked is that of the book as it is now"
    shown.cards["Spot is gone"][0].children[0].click()
    assert len(shown.asked) == 2
    assert 13.0 in set(shown._book.offers["usd_per_hour"])


def test_an_answer_to_a_question_that_was_cleared_is_dropped(made):
    shown, runs = made
    shown.ask("Demand changes by", 30, EVERYTHING)
    shown.buttons["clear"].click()
    runs.finish("first")
    runs.finish("full")
    assert [asked.title for asked in shown.asked] == [TODAY]


def test_a_quote_stands_at_the_price_of_what_it_replaces(made):
    shown, _ = made
    _, number, pick = shown.cards["This quote instead:"]
    for name, usd in (("hour", 40.0), ("cheap", 12.0), ("year", 16.0)):
        pick.value = name
        assert number.value == usd


def test_a_comparison_stands_in_the_place_of_the_answers_and_goes_with_the_next_question(made):
    shown, runs = made
    shown.ask("Demand changes by", 30, EVERYTHING)
    runs.finish("full")
    assert shown.headline.value.startswith("<h3>Demand of all work +30 %: It costs")
    button = shown.buttons["compare"]
    button.click()
    assert (shown.table.layout.display, button.description) == ("none", "Show all answers")
    assert "Two answers compared" in shown.comparison.value
    button.click()
    assert (shown.table.layout.display, shown.comparison.value, button.description) == ("", "", "Show the difference")
    button.click()
    shown.ask("Spot is gone")
    assert (shown.table.layout.display, shown.comparison.value) == ("", "")


def test_cards_without_anything_to_pick_are_disabled(made):
    shown, _ = made
    assert shown.cards["A run slips by"][0].children[0].disabled
    assert not shown.cards["Spot is gone"][0].children[0].disabled


def test_the_cards_are_got_ready_while_today_is_planned(made):
    shown, runs = made
    assert [lane for lane, _, _ in runs.planned] == ["ready"]
    shown.reload()
    assert [lane for lane, _, _ in runs.planned].count("ready") == 2
    runs.finish("ready")
    assert not [lane for lane, _, _ in runs.planned if lane == "ready"]


@pytest.mark.slow
def test_a_click_on_the_slowest_card_computes_for_three_seconds_at_most_once_the_cards_are_ready():
    """Learning from measured runs how fast each service's accelerators are takes eight seconds on the example, and comes before."""
    book = load_book(ROOT / "data" / "enterprise")
    get_ready(book, book.scenario)
    card = next(card for card in CARDS if card.name == "Latency targets change by")
    for pick in card.picks(book):
        began = time.process_time()
        card.ask(book, book.scenario, card.start, pick, {})
        assert time.process_time() - began < 3


def test_work_in_the_background_leaves_the_loop_free():
    answers, ticks = [], []

    async def kernel():
        runs = Background()
        runs("full", lambda: time.sleep(0.5) or 7, lambda answer, error: answers.append((answer, error)))
        runs("first", lambda: 1 / 0, lambda answer, error: answers.append((answer, type(error))))
        while len(answers) < 2:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(kernel(), 20)))
    thread.start()
    thread.join()
    assert answers == [(None, ZeroDivisionError), (7, None)]
    assert len(ticks) > 3, "the loop went on meanwhile"


def test_nobody_there_sees_no_board(monkeypatch):
    monkeypatch.setenv("CAPPLAN_HEADLESS", "1")
    assert meeting(None, None) is None


def test_a_question_in_words_is_shown_first_and_answered_when_it_is_approved(made):
    shown, runs = made
    shown.words.value = f"demand rises by 30%, and {HOSTILE} prices fall"
    assert shown.answer_words.disabled
    shown.read_words.click()
    assert "Demand of all work +30 %" in shown.notice.value
    assert "from &#x27;demand rises by 30%&#x27;" in shown.notice.value
    assert "Not understood" in shown.notice.value
    assert HOSTILE not in shown.notice.value
    assert len(shown.asked) == 1
    assert not shown.answer_words.disabled
    shown.words.value = "demand rises by 30%"
    assert shown.answer_words.disabled
    shown.answer_words.click()
    assert len(shown.asked) == 1
    shown.read_words.click()
    shown.answer_words.click()
    runs.finish("first")
    runs.finish("full")
    assert shown.asked[1].title == "demand rises by 30%"
    assert shown.asked[1].scenario.demand_factor == 1.3
    assert "$1.3M" in shown.table.value
    kept = record_of(shown)
    assert [(line["question"], line["approved"]) for line in kept[1:]] == [("demand rises by 30%", False), ("demand rises by 30%", True)]
    assert not kept[0]["approved"]
    assert kept[0]["asked_back"]
    assert kept[2]["parameters"]["demand_factor"] == 1.3
    assert kept[2]["answer"][0].startswith("It costs")


def record_of(shown):
    """Return the lines of what was asked on a board."""
    return [json.loads(line) for line in (shown._folder / "asked.jsonl").read_text().splitlines()]


def test_reasons_and_reports_in_words_are_answered_beside_the_board(made):
    shown, runs = made
    for text, said in (
        ("what binds?", "No limit holds the plan back"),
        ("why not year?", "trace: "),
        ("show me the forecast", "Demand in 2027Q2"),
    ):
        shown.words.value = text
        shown.read_words.click()
        assert not shown.answer_words.disabled
        shown.answer_words.click()
        assert "Computing" in shown.told.value
        runs.finish("told")
        assert said in shown.told.value, shown.told.value
    assert len(shown.asked) == 1
    assert HOSTILE not in shown.told.value
    kept = record_of(shown)
    assert [line["approved"] for line in kept] == 3 * [False, True]
    assert any("No limit holds" in words for words in kept[1]["answer"])


def test_a_model_by_address_reads_along_on_the_board_and_runs_nothing_before_approval(made, monkeypatch):
    from capplan.answers.ask.model import ADDRESS, KEY, NAME
    from tests.ask.test_model import Script

    shown, runs = made
    order = {"kind": "card", "card": "Demand changes by", "pick": "chat", "number": -40, "words": "my big customer leaves chat"}
    with Script({"what_ifs": [order]}) as script:
        for name, value in ((ADDRESS, script.address), (NAME, f"scripted {HOSTILE}"), (KEY, "secret-key-of-mine")):
            monkeypatch.setenv(name, value)
        shown.words.value = "my big customer leaves chat"
        shown.read_words.click()
        assert shown.answer_words.disabled
        runs.finish("model")
    assert "Read by the model alone: [Demand changes by] chat -40" in shown.notice.value
    assert len(shown.asked) == 1
    shown.answer_words.click()
    runs.finish("full")
    assert "temperature 0, prompt 1: proposes" in shown.asked[1].readers
    assert "temperature 0" in record_of(shown)[-1]["readers"][1]["reader"]
    assert "secret-key-of-mine" not in (shown._folder / "asked.jsonl").read_text()
    shown.second.value = shown.asked[1].title
    shown.save()
    saved = "".join(path.read_text() for path in shown._folder.glob("scenario_*.yaml"))
    assert "temperature 0, prompt 1" in saved
    assert "secret" not in saved + shown.notice.value + shown.table.value
    assert HOSTILE not in shown.notice.value
