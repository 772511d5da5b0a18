"""The meeting's board in JupyterLab: reached and worked by keyboard, on one screen, while the kernel stays free."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from tests.browser.test_text import notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]
BOARD = """
import time
import pandas as pd
from capplan import load_book
from capplan.answers.board import Column
from capplan.outputs.lab import board
from capplan.outputs.lab.board import Board

def column(name, scenario, full):
    usd = 1e6 * scenario.demand_factor * scenario.price_factor
    signed = pd.DataFrame([("a_b from $1 to $2", "2027Q1", 8.0 * scenario.demand_factor, usd / 2)])
    signed.columns = ["offer_id", "quarter", "accelerators", "usd"]
    measures = {"expected_usd": usd, "bad_cases_usd": 1.5 * usd, "contracts_to_sign": 1.0, "unserved_share": 0.01}
    measures |= {"p_and_l_2027_amount": usd, "cash_2027_amount": usd}
    return Column(name, scenario, f"Sign 1 contract: from ${usd:.0f} to $9", measures, signed, full)

def slowly(name, book, scenario, today=None):
    time.sleep(0 if name == "Today" else 6)
    return column(name, scenario, True)

board.first_column = lambda name, book, scenario, base=None: column(name, scenario, False)
board.full_column = slowly
book = load_book(BOOK)
shown = Board(book, book.scenario)
shown
"""


def test_a_card_answers_by_keyboard_while_the_kernel_stays_free(lab: Any, page: Any, shot: Any, book: Any) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    nbformat.write(notebook(f"BOOK = {str(book)!r}", BOARD, "1 + 1"), lab.folder / "board.ipynb")
    lab.open(page, "board.ipynb")
    lab.run_all(page)
    page.wait_for_function("() => document.querySelector('.capplan-meeting .capplan-table')?.innerText.includes('$1.0M')", timeout=60_000)
    card = page.get_by_role("button", name="Demand changes by")
    card.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.capplan-meeting .capplan-table').innerText.includes('first answer')", timeout=10_000
    )
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
    assert "first answer" in page.locator(".capplan-meeting .capplan-table").inner_text(), "a cell ran while the full answer was computed"
    page.wait_for_function(
        "() => document.querySelector('.capplan-meeting .capplan-status').innerText.includes('All answers are full ones')", timeout=60_000
    )
    text = page.locator(".capplan-meeting").inner_text()
    assert "Sign 1 contract: from $1300000 to $9" in text
    assert "a_b from $1 to $2" in text
    assert page.locator(".capplan-meeting mjx-container").count() == 0
    assert "P&L, 2027 (USD)" in text
    names = page.evaluate(
        "() => [...document.querySelectorAll('.capplan-meeting button')].filter(part => !part.disabled).map(part => part.tabIndex)"
    )
    assert names, "there are cards"
    assert min(names) >= 0, "the keyboard reaches every card"
    box = page.locator(".capplan-meeting").bounding_box()
    page.locator(".capplan-meeting").evaluate("board => board.scrollIntoView()")
    shot(page, "meeting_board", part=".capplan-meeting")
    seen = page.evaluate("() => document.querySelector('.jp-WindowedPanel-outer, .jp-Notebook').clientHeight")
    assert box["height"] <= seen, "headline, chart, cards and answers stand on one screen"
    assert page.foreign == []


def test_a_kernel_restarted_while_it_computes_is_said_and_the_notebook_runs_again(lab: Any, page: Any, book: Any) -> None:
    nbformat.write(notebook(f"BOOK = {str(book)!r}", BOARD), lab.folder / "restarted.ipynb")
    lab.open(page, "restarted.ipynb")
    lab.run_all(page)
    ready = "() => document.querySelector('.capplan-meeting .capplan-status')?.innerText.includes('All answers are full ones')"
    page.wait_for_function(ready, timeout=60_000)
    page.get_by_role("button", name="Demand changes by").click()
    page.wait_for_function("() => document.querySelector('.capplan-meeting .capplan-table').innerText.includes('first answer')")
    assert page.locator(".capplan-gone").count() == 0
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    page.wait_for_selector(".capplan-meeting .capplan-gone", timeout=30_000)
    assert "Run all cells again" in page.locator(".capplan-gone").inner_text()
    assert page.locator(".capplan-meeting button:enabled, .capplan-meeting input:enabled, .capplan-meeting select:enabled").count() == 0
    lab.run_all(page)
    page.wait_for_function(ready, timeout=60_000)
    assert page.locator(".capplan-gone").count() == 0
    page.get_by_role("button", name="Demand changes by").click()
    page.wait_for_function("() => document.querySelector('.capplan-meeting .capplan-table').innerText.includes('first answer')")
