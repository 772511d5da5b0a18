"""First answers of a meeting: every card of the board, and the slider of the purchase notebook, on the example book in a warm kernel.

Run: pytest benchmarks/bench_meeting.py --benchmark-only -s, or python benchmarks/bench_meeting.py [CARD ...]. A kernel is warm when today's
plan is there and the cards are ready, as it is when the board has answered once. Processor seconds, so that other work on the machine
counts little. A first answer should be there within three seconds, in 95 of 100 cards.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np

from capplan import load_book
from capplan.answers.board import first_column
from capplan.answers.cards import CARDS, get_ready
from capplan.answers.plan import purchases_of
from capplan.answers.store import shared_answers
from capplan.book.book import Book
from capplan.errors import ScenarioError
from capplan.outputs.lab.board_table import board_chart
from capplan.outputs.views.all_questions import show_procurement, show_procurement_at_once

MOST_SECONDS, SHARE = 3.0, 95


def answers(book: Book, cards: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """Ask every card about the first and the last name that it can be asked about: what was asked, and processor seconds to its answer."""
    for card in CARDS:
        picks = card.picks(book) if card.picks else ("",)
        for pick in dict.fromkeys((*picks[:1], *picks[-1:])):
            if cards and card.name not in cards:
                continue
            began = time.process_time()
            try:
                scenario = card.ask(book, book.scenario, card.start, pick)
            except ScenarioError:
                # a what-if that the book does not have the figures for says so at once
                continue
            column = first_column(card.title(card.start, pick), book, scenario, book.scenario)
            if column is not None:
                board_chart([column])
            yield card.title(card.start, pick), time.process_time() - began


def slider(book: Book) -> float:
    """Return the processor seconds to the first answer of the purchase notebook's slider."""
    began = time.process_time()
    show_procurement_at_once(book, book.scenario.replaced(risk_weight=book.scenario.risk_weight + 0.07))
    return time.process_time() - began


def warm() -> Book:
    """Return the example book in a kernel that has planned today."""
    book = load_book("data/enterprise")
    purchases_of(book, book.scenario)
    show_procurement(book, book.scenario)
    get_ready(book, book.scenario)
    return book


def measured(cards: tuple[str, ...] = ()) -> dict[str, float]:
    """Measure, print, and return the percentiles."""
    with shared_answers():
        book = warm()
        found = dict(answers(book, cards)) | {"the slider of the purchase notebook": slider(book)}
    for name, seconds in sorted(found.items(), key=lambda item: -item[1]):
        print(f"  {seconds:5.2f} CPU s  {name}")
    shares = {f"p{share}": float(np.percentile(list(found.values()), share)) for share in (50, SHARE, 100)}
    print(f"  {len(found)} first answers:", *(f"{name} {seconds:.2f}" for name, seconds in shares.items()))
    return shares


def test_first_answers(benchmark):
    shares = benchmark.pedantic(measured, rounds=1)
    benchmark.extra_info.update(shares)
    assert shares[f"p{SHARE}"] <= MOST_SECONDS


if __name__ == "__main__":
    measured(tuple(sys.argv[1:]))
