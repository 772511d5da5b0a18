"""Exports: inert text, fixed formats, pages without anything live."""

from __future__ import annotations

import csv
import re

import pandas as pd
import pytest

from capplan.inert import inert
from capplan.outputs.export.files import write_table
from capplan.outputs.page.html import MemoPart, PageSection, TableBlock, render_page
from capplan.text import heading, money, readable
from tests.conftest import some

NASTY = [
    '<script>alert("x")</script>',
    '=HYPERLINK("http://example.org","x")',
    "+1+1",
    "-2+3|cmd",
    "@SUM(A1)",
    "\t=1",
    " =1+1",
    "<img src=x onerror=alert(1)>",
    "{{ 7*7 }}",
]


@pytest.mark.parametrize("text", NASTY)
def test_csv_cells_start_no_formula(tmp_path, text):
    path = write_table(pd.DataFrame({"workload": [text], text: [1.5]}), tmp_path / "t.csv")
    with path.open(newline="", encoding="utf-8") as file:
        for row in some(csv.reader(file)):
            for cell in row:
                assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r"))


def test_numbers_stay_numbers():
    assert inert(-5) == -5
    assert inert("-5 accelerators").startswith("'")


def test_equal_tables_are_equal_bytes(tmp_path):
    frame = pd.DataFrame({"a": [1 / 3, 2e-12, 1e15], "when": pd.to_datetime(["2027-01-01"] * 3), "name": ["x", None, "é"]})
    one, two = write_table(frame, tmp_path / "1.csv").read_bytes(), write_table(frame.copy(), tmp_path / "2.csv").read_bytes()
    assert one == two
    assert one.decode() == "a,when,name\n0.3333333333,2027-01-01,x\n2e-12,2027-01-01,\n1e+15,2027-01-01,é\n"


@pytest.mark.parametrize("text", NASTY)
def test_page_text_is_inert(text):
    frame = pd.DataFrame({"workload": [text], text: [1.0]})
    page = render_page(
        text,
        text,
        text,
        [(text, text)],
        [PageSection(text, text, [], [TableBlock(frame, text, text)], [text])],
        [MemoPart("memo_a", text, [text], TableBlock(frame, text))],
    )
    assert not re.search(r"<script|<img|onerror=alert\(1\)>", page.replace("&lt;", "").replace("&gt;", ""))
    assert ("7*7" in page) == ("7*7" in text)
    assert "default-src 'none'" in page


def test_page_counts_what_it_leaves_out():
    page = render_page(
        "t", "", "", [], [PageSection("s", tables=[TableBlock(pd.DataFrame({"x": range(40)}), file="tables/x.csv", shown=30)])]
    )
    assert "10 more rows are in tables/x.csv." in page


def test_readable_tables():
    frame = pd.DataFrame(
        {
            "offer_id": ["a"],
            "usd": [1234567.4],
            "served_share": [0.987],
            "usd_per_hour": [2.5],
            "term": ["reserved_3y"],
            "firm": [True],
            "sign_by": [pd.Timestamp("2027-01-02")],
            "gap": [float("nan")],
        }
    )
    shown = readable(frame)
    assert list(shown.columns) == ["Offer id", "Amount (USD)", "Served (%)", "Price (USD/h)", "Term", "Firm", "Sign by", "Gap"]
    assert shown.iloc[0].tolist() == ["a", "1,234,567", "98.7", "2.500", "Reserved, 3 years", "yes", "2027-01-02", ""]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "$0"),
        (999.6, "$1.0k"),
        (999_600, "$999.6k"),
        (9_996_000, "$10.0M"),
        (12_345_678, "$12.3M"),
        (999_960, "$1.0M"),
        (-2_000_000, "-$2.0M"),
        (999.4, "$999"),
        (float("inf"), "n/a"),
        (-1.5e9, "-$1.5B"),
        (123, "$123"),
        (123_456, "$123.5k"),
    ],
)
def test_money(value, text):
    assert money(value) == text


def test_headings_have_units():
    assert heading("billed_usd_per_accelerator_hour") == "Billed (USD per accelerator-hour)"
    assert heading("lead_time_days") == "Lead time (days)"
