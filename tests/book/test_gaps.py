"""Gaps: what a missing table could change."""

from __future__ import annotations

import pytest

from capplan.answers.gaps import WHAT_IFS, gap_note, rank_gaps
from capplan.answers.plan import purchases_of
from capplan.book.book import load_book
from capplan.book.tables.registry import TABLES
from tests.conftest import CONTRACTS, SKUS, SOURCES, hourly

PLAN = (
    "as_of: 2026-03-30\nfirst_quarter: 2026Q2\nhorizon_quarters: 2\npaths: 20\nplan_paths: 5\nload_blocks: 2\nproviders:"
    " [aws]\ngeographies: [us]\ngap_share: 0.005\n"
)


@pytest.mark.slow
def test_usage_and_contracts_give_a_plan_and_name_the_table_that_matters_most(make_book):
    folder = make_book(usage=hourly(80, "2026-01-09", value=40), commitments=CONTRACTS, skus=SKUS, sources=SOURCES, book=PLAN)
    book = load_book(folder)
    names = set(purchases_of(book, book.scenario).alternatives["name"])
    assert {"plan", "renew_all", "do_nothing", "all_on_demand"} <= names
    gaps = rank_gaps(book, book.scenario)
    assert set(gaps["table"]) == {"offers", "workloads", "events", "limits", "speeds"}
    size = gaps["change_usd"].abs()
    assert (size.diff().dropna() <= 0).all()
    assert size.iloc[0] > 0
    by_table = gaps.set_index("table")["change_usd"]
    gap = book.scenario.gap_share * 10 * purchases_of(book, book.scenario).proof.upper_usd
    assert by_table["offers"] <= gap  # cheaper prices never cost more, as far as both optima are proven
    assert by_table["events"] >= -gap  # nor does more work cost less
    assert by_table["limits"] >= -gap
    assert gap_note(gaps).startswith(f"Of the tables this book does not have, {gaps['table'].iloc[0]} would change the plan most")


def test_nothing_is_asked_where_nothing_is_missing():
    book = load_book("data/enterprise")
    assert rank_gaps(book, book.scenario).empty
    assert gap_note(rank_gaps(book, book.scenario)) == ""


def test_what_ifs_name_tables_and_cells_that_exist():
    from capplan.book.tables.registry import columns_of

    for what in WHAT_IFS:
        assert what.table in TABLES
        for change in what.changes:
            assert change.column in {column.name for column in columns_of(change.table)}
