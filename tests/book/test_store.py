"""Answers are computed once: in memory, and by the processes of a run together."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from capplan.answers import opened, store
from capplan.answers.opened import leave_open, open_book
from capplan.book.book import load_book
from capplan.book.scenario import PricingAssumptions
from capplan.errors import CapplanError
from capplan.outputs.views.all_questions import show_book
from capplan.outputs.views.view import leave
from tests.conftest import CONTRACTS, SKUS, SOURCES, hourly


@pytest.fixture
def asked(make_book, cold):
    """Return a question that counts how often it is computed."""
    book = load_book(make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    computed = []

    def ask(**values: float) -> int:
        def compute() -> int:
            computed.append(1)
            return len(computed)

        return store.remembered("test", book, ("usage",), PricingAssumptions(**values), compute)

    ask.computed = computed
    yield ask
    store.forget()


def test_an_answer_is_computed_once_and_anew_where_its_section_changes(asked):
    assert asked() == asked() == 1
    assert asked(price_factor=2.0) == 2
    assert asked() == 1


def test_an_answer_in_memory_reaches_the_folder_of_a_run(asked):
    asked()
    with store.shared_answers() as folder:
        asked()
        assert len(list(folder.glob("*.pickle"))) == 1
        store.forget()
        assert asked() == 1
        with store.shared_answers() as inner:
            assert inner == folder
    assert not folder.exists()
    assert store.SHARED not in os.environ
    assert len(asked.computed) == 1


def test_a_folder_others_may_write_to_is_refused(asked, tmp_path: Path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setenv(store.SHARED, str(tmp_path))
    with pytest.raises(CapplanError, match="others may write"):
        asked()


def test_a_worker_that_outlives_the_folder_of_its_run_computes_for_itself(asked, tmp_path: Path, monkeypatch):
    monkeypatch.setenv(store.SHARED, str(tmp_path / "gone"))
    assert asked() == asked() == 1
    assert not (tmp_path / "gone").exists()


def test_threads_compute_an_answer_once_and_the_memory_holds_together(asked, monkeypatch):
    monkeypatch.setattr(store, "KEPT", 3)
    book, slow = SimpleNamespace(digests={}, scenario=SimpleNamespace(currency="USD")), threading.Barrier(8)

    def look(number: int) -> list[float]:
        slow.wait()
        asked()
        # Until all have it, no other answer may push it out of the memory.
        slow.wait()
        return [
            store.remembered(
                "each", book, (), PricingAssumptions(price_factor=1 + (number + step) % 9 / 4), lambda: time.sleep(0.001) or 7.0
            )
            for step in range(60)
        ]

    with ThreadPoolExecutor(8) as pool:
        assert {value for found in pool.map(look, range(8)) for value in found} == {7.0}
    assert len(asked.computed) == 1
    assert len(store._answers) <= 3
    assert store._computing == {}


def test_a_failure_in_one_thread_leaves_the_next_one_free(asked):
    book = SimpleNamespace(digests={}, scenario=SimpleNamespace(currency="USD"))
    with pytest.raises(ZeroDivisionError):
        store.remembered("fails", book, (), PricingAssumptions(), lambda: 1 / 0)
    assert store.remembered("fails", book, (), PricingAssumptions(), lambda: 3) == 3
    assert store._computing == {}


def test_the_shared_folder_does_not_grow_without_end(asked, monkeypatch):
    monkeypatch.setattr(store, "SHARED_MOST", 5)
    with store.shared_answers() as folder:
        for number in range(12):
            asked(price_factor=1.0 + number / 4)
        assert len(list(folder.glob("*.pickle"))) == 5


def test_what_ifs_keep_the_name_of_the_book_they_are_about(make_book):
    book = load_book(make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    other = load_book(make_book(usage=hourly(value=7.0), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    changed = book.with_rows("usage", book.usage.assign(quantity=1.0))
    assert changed.origin == book.origin
    assert changed.digests["usage"] != book.digests["usage"]
    assert other.name == book.name
    assert other.origin != book.origin


def test_a_notebook_reads_no_book_again_that_its_run_has_read(make_book, cold, monkeypatch, tmp_path: Path):
    path = make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES)
    monkeypatch.chdir(path.parent)
    with store.shared_answers():
        leave_open(load_book(Path(path.name)))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(opened, "load_book", lambda folder: pytest.fail("read again"))
        book = open_book(path)
        assert book.path == path.resolve()
        monkeypatch.undo()
        with (path / "usage.csv").open("a") as file:
            file.write(hourly().splitlines()[-1].replace("T", " ") + "\n")
        read = []
        monkeypatch.setattr(opened, "load_book", read.append)
        open_book(path)
        assert read == [path], "a book that was changed since is read"


def test_a_notebook_shows_the_very_view_that_its_run_has_made(make_book, cold):
    book = load_book(make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    made = show_book(book, book.scenario)
    other = replace(made, headline="made by the run")
    assert "<svg" in other.chart.svg
    leave(show_book, book, book.scenario, other)
    assert show_book(book, book.scenario).headline == made.headline, "where no folder is shared, nothing is left"
    with store.shared_answers():
        leave(show_book, book, book.scenario, other)
        shown = show_book(book, book.scenario)
        assert (shown.headline, shown.chart.svg) == (other.headline, made.chart.svg)
        assert show_book(book, book.scenario.replaced(seed=book.scenario.seed + 1)).headline == made.headline
