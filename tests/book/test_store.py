"""Answers are computed once: in memory, and by the processes of a run together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capplan.answers import store
from capplan.book.book import load_book
from capplan.book.scenario import PricingAssumptions
from capplan.errors import CapplanError
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
