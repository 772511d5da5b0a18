"""Bills of one account whose days meet: equal charges count once, and what is unclear is refused; the right values are by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.ingest import ingest
from capplan.ingest.entering import undo
from capplan.ingest.ingest_ledger import Ledger
from tests.ingest.test_ingest_bills import bill
from tests.ingest.test_ingest_ledger import billed, usage

FEE = {"ChargePeriodStart": "2026-05-01T00:00:00Z", "ChargePeriodEnd": "2026-06-01T00:00:00Z", "SkuMeter": "fee", "BilledCost": 9}


def days(folder: Path, name: str, first: int, last: int, *more: dict[str, Any], **changed: Any) -> Path:
    """Write a bill of one hour of two equal machines on each day, ten dollars each."""
    rows = [
        {
            "ChargePeriodStart": f"2026-05-{day:02d}T00:00:00Z",
            "ChargePeriodEnd": f"2026-05-{day:02d}T01:00:00Z",
            "BilledCost": 10,
            "EffectiveCost": 10,
            **changed,
        }
        for day in range(first, last + 1)
    ]
    path = bill(folder, *rows, *rows, *more, name=name)
    if "BillingAccountId" in changed:
        pd.read_csv(path).assign(BillingAccountId=changed["BillingAccountId"]).to_csv(path, index=False)
    return path


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book").mkdir()
    return tmp_path / "book"


@pytest.mark.parametrize("turned", [False, True])
def test_days_that_two_bills_of_one_command_share_count_once(turned, tmp_path, book):
    files = [days(tmp_path, "early.csv", 1, 10, FEE), days(tmp_path, "late.csv", 6, 15, FEE)]
    found = ingest("focus", files[::-1] if turned else files, book)
    assert billed(book) == pytest.approx(15 * 2 * 10 + 9)
    assert usage(book).quantity.sum() == 15 * 2 * 8
    names = ("early.csv", "late.csv") if turned else ("late.csv", "early.csv")
    said = f"2026-05 of AWS: 11 charges of {names[0]} (109.00 billed) are in {names[1]} already; they count once."
    assert [note for note in found.notes if "count once" in note] == [said]
    assert found.tables["billing"].billed_cost.sum() == pytest.approx(309)


def test_a_bill_within_another_adds_nothing_and_is_taken_back_first(tmp_path, book):
    whole, part = days(tmp_path, "whole.csv", 1, 10), days(tmp_path, "some days.csv", 3, 5)
    ingest("focus", [whole, part], book)
    assert billed(book) == pytest.approx(200)
    with pytest.raises(CapplanError, match=r"some days\.csv leaves out rows because file 1 has them"):
        undo(book, "whole.csv")
    undo(book, "some days.csv")
    assert billed(book) == pytest.approx(200)
    assert [entry.file for entry in Ledger(book).counting()] == ["whole.csv"]


@pytest.mark.parametrize(
    "other",
    [{"ServiceName": "Storage"}, {"BillingAccountId": "b"}, {"ProviderName": "Microsoft"}, {"BillingPeriodStart": "2026-06-01T00:00:00Z"}],
)
def test_bills_of_other_things_are_added(other, tmp_path, book):
    first = {"BillingAccountId": "a"} if "BillingAccountId" in other else {}
    ingest("focus", [days(tmp_path, "one.csv", 1, 10, **first), days(tmp_path, "other.csv", 6, 15, **other)], book)
    assert billed(book) == pytest.approx(400)


def test_numbered_parts_and_rows_said_to_add_are_added(tmp_path, book):
    ingest("focus", [days(tmp_path, "part-01.csv", 1, 10), days(tmp_path, "part-02.csv", 1, 9)], book)
    assert billed(book) == pytest.approx(380)
    (other := tmp_path / "other").mkdir()
    ingest("focus", [days(tmp_path, "one.csv", 1, 10), days(tmp_path, "two.csv", 1, 9)], other, restated="add")
    assert billed(other) == pytest.approx(380)


def test_bills_that_agree_in_part_are_refused_with_days_and_amounts(tmp_path, book):
    changed = days(tmp_path, "b.csv", 5, 9, {"ChargePeriodStart": "2026-05-10T00:00:00Z", "BilledCost": 11})
    with pytest.raises(CapplanError) as refused:
        ingest("focus", [days(tmp_path, "a.csv", 1, 10), changed], book)
    said = str(refused.value)
    assert "a.csv and b.csv both bill 2026-05-05 to 2026-05-10; 10 charges are equal (100.00 billed)" in said
    assert "2 only in the first (20.00) and 1 only in the second (11.00)" in said
    assert "restated=add" in said
    assert list(book.iterdir()) == []


def test_amortised_and_billed_costs_of_the_same_charges_are_refused(tmp_path, book):
    files = [days(tmp_path, "invoiced.csv", 1, 10), days(tmp_path, "amortised.csv", 1, 10, EffectiveCost=4)]
    with pytest.raises(CapplanError, match=r"amortised\.csv have the same 20 charges at different costs"):
        ingest("focus", files, book)
    assert list(book.iterdir()) == []
    ingest("focus", files, book, restated="add")
    assert billed(book) == pytest.approx(400)


def test_bills_that_come_one_after_the_other(tmp_path, book):
    ingest("focus", days(tmp_path, "1st week.csv", 1, 7), book)
    found = ingest("focus", days(tmp_path, "2nd week.csv", 8, 14), book)
    assert billed(book) == pytest.approx(280)
    assert "2026-05 of aws: 2nd week.csv and 1st week.csv bill other days; both count." in found.notes
    with pytest.raises(
        CapplanError, match=r"rolling\.csv bills aws for 2026-05-05 to 2026-05-11, and 1st week\.csv in the book for 2026-05-01"
    ):
        ingest("focus", days(tmp_path, "rolling.csv", 5, 11), book)
    assert billed(book) == pytest.approx(280)
    for week in ("2nd week.csv", "1st week.csv"):
        undo(book, week)
    ingest("focus", [tmp_path / name for name in ("1st week.csv", "2nd week.csv", "rolling.csv")], book)
    assert billed(book) == pytest.approx(280)
    ingest("focus", days(tmp_path, "month.csv", 1, 31), book)
    assert billed(book) == pytest.approx(620)
