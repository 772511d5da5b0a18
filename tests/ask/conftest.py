"""The questions with their right answers, and the example book with fewer rows."""

from __future__ import annotations

import csv

import pytest

from capplan.book.book import load_book
from tests.conftest import ROOT


def questions():
    """half, category, question, what_ifs (between ;;), asked_back (words).

    half: 1 was written before the grammar, 2 after it, 3 tried on it later; 4 and above each before its words were learnt.
    """
    return list(csv.DictReader((ROOT / "tests" / "questions.csv").open(encoding="utf-8", newline="")))


def lines(row):
    """The right what-ifs of a question, as lines."""
    return [part.strip() for part in row["what_ifs"].split(";;") if part.strip()]


@pytest.fixture(scope="session")
def book():
    """The example with fewer hours and jobs: what a sentence means does not depend on them, and checking them takes most of the time."""
    whole = load_book(ROOT / "data" / "enterprise")
    few = whole.get("usage").groupby(["workload", "region"]).head(30)
    return whole.with_rows("usage", few).with_rows("jobs", whole.get("jobs").head(50))
