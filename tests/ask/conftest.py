"""The questions with their right answers, and the example book with fewer rows."""

from __future__ import annotations

import csv
import shutil

import pandas as pd
import pytest

from capplan.book.book import load_book
from tests.conftest import ROOT


def questions():
    """half, category, question, what_ifs (between ;;), asked_back (words), book (empty: the enterprise; euro: that one in euros).

    half: 1 was written before the grammar, 2 after it, 3 tried on it later; 4 and above each before its words were learnt.
    """
    return list(csv.DictReader((ROOT / "tests" / "questions.csv").open(encoding="utf-8", newline="")))


def lines(row):
    """The right what-ifs of a question, as lines."""
    return [part.strip() for part in row["what_ifs"].split(";;") if part.strip()]


def fewer(folder):
    """A book with fewer hours and jobs: what a sentence means does not depend on them, and checking them takes most of the time."""
    whole = load_book(folder)
    few = whole.with_rows("usage", whole.get("usage").groupby(["workload", "region"]).head(30))
    return few.with_rows("jobs", few.get("jobs").head(50)) if "jobs" in few.tables else few


@pytest.fixture(scope="session")
def book():
    """The enterprise."""
    return fewer(ROOT / "data" / "enterprise")


@pytest.fixture(scope="session")
def books(book, tmp_path_factory):
    """Every book that a question is about, by its name there."""
    euro = tmp_path_factory.mktemp("euro") / "euro"
    shutil.copytree(ROOT / "data" / "enterprise", euro, ignore=shutil.ignore_patterns("accepted_plan"))
    with (euro / "book.yaml").open("a", encoding="utf-8") as text:
        text.write("currency: EUR\n")
    (euro / "fx.csv").write_text("currency,date,usd\nEUR,2026-12-01,1.1\n", encoding="utf-8")
    limits = pd.read_csv(euro / "limits.csv", dtype=str)
    limits.assign(currency=limits["kind"].map({"budget_usd": "EUR"})).to_csv(euro / "limits.csv", index=False)
    others = {name: fewer(ROOT / "data" / name) for name in ("api_first", "on_prem")}
    return {"": book, "euro": fewer(euro), **others}
