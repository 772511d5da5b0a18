"""Hostile and sloppy books: whatever stands in a file, the answer is a book or one clear message, never another exception.

CAPPLAN_FUZZ_CASES=10000 runs the same code for longer, CAPPLAN_FUZZ_SEED=1 on other cases: a long run can be made in parts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from capplan.book import book as reading
from capplan.book.book import load_book
from capplan.book.reader import MOST_MEGABYTES
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import TABLES, columns_of
from capplan.errors import CapplanError
from tests.conftest import CONTRACTS, SKUS, SOURCES, hourly

CASES = int(os.environ.get("CAPPLAN_FUZZ_CASES", "500"))
#: The same cases in every run, where no seed is given.
seeded: Callable[[Any], Any] = seed(int(os.environ["CAPPLAN_FUZZ_SEED"])) if "CAPPLAN_FUZZ_SEED" in os.environ else lambda test: test
#: A good cell of each kind of column.
GOOD = {"float64": "1.5", "int64": "2", "bool": "true", "datetime64[ns]": "2026-03-01", "str": "chat"}
ODD = (
    "",
    " ",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "1e-320",
    "-0",
    "0",
    "-1",
    "1,5",
    "1.234,5",
    "1 000",
    "$5",
    "5%",
    "0x10",
    "010",
    "١٢",
    "½",
    "true",
    "no",
    "None",
    "null",
    "(null)",
    "2026-02-30",
    "2026-13-01",
    "0001-01-01",
    "9999-12-31",
    "2026-01-01T25:00:00",
    "2026-01-01T00:00:00+99:00",
    "2027Q5",
    "9999Q1",
    "2027q1",
    "=HYPERLINK(1)",
    "@SUM(A1)",
    "+1",
    "-2+3",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "${HOME}",
    "`id`",
    "$(id)",
    "__import__('os')",
    "%s%n",
    "../../etc/passwd",
    "café",
    "cafe\u0301",
    "chat\u200b",
    "\u202echat",
    "\ufeffchat",
    "a\tb",
    "a\nb",
    'a"b',
    "a'b",
    "a;b",
    "x" * 5000,
    "\U0001f600",
    "\ud7ff",
)
YAML = (
    "horizon_quarters: true",
    "horizon_quarters: 010",
    "seed: 0123",
    "seed: 1\nseed: 2",
    "providers: [no, us]",
    "providers: no",
    "as_of: 2026-02-30",
    "as_of: !!timestamp 2026",
    "a: &a [*a]",
    "risk_weight: .nan",
    "risk_weight: .inf",
    "risk_weight: '0.5'",
    "risk_weight: [0.5]",
    "changes: 3",
    "changes: [{table: usage}]",
    "pinned_purchases: [[1]]",
    "name: [1, 2]",
    "? [a]\n: b",
    "!!python/object/apply:os.system ['true']",
    "<<: {seed: 1}",
    "first_quarter: 2027Q5",
    "currency: ''",
    "most_megabytes: -1",
    "%YAML 9.9\n---\nseed: 1",
    "---\na: 1\n---\nb: 2",
    "- 1",
    "seed: " + "9" * 400,
    "\t",
    "seed: 1e400",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small book that is in order."""
    folder = tmp_path_factory.mktemp("fuzz") / "book"
    folder.mkdir()
    for name, text in {"usage": hourly(), "commitments": CONTRACTS, "skus": SKUS, "sources": SOURCES}.items():
        (folder / f"{name}.csv").write_text(text)
    load_book(folder)
    plain, first = reading.read_table, {}

    def read(path, table, most, notes):
        """Read what a case leaves alone once, and everything else as ever: reading takes most of the time."""
        good = folder / path.name
        if most != MOST_MEGABYTES or not (path.is_file() and good.is_file() and path.read_bytes() == good.read_bytes()):
            return plain(path, table, most, notes)
        if table not in first:
            first[table] = plain(path, table, most, notes)
        return first[table][0].copy(), []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "read_table", read)
        yield folder


def row_of(table: str) -> dict[str, str]:
    """A row with a plausible cell in every column."""
    row = {}
    for column in columns_of(table):
        allowed = next((rule.removeprefix("one of ").split(", ")[0] for rule in column.rules if rule.startswith("one of ")), None)
        row[column.name] = allowed or ("2027Q1" if any("Q[1-4]" in rule for rule in column.rules) else GOOD[column.kind])
    return row


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file of a book, with one to three things wrong, or nothing."""
    if draw(st.integers(0, 5)) == 0:
        return "book.yaml", "\n".join(draw(st.lists(st.sampled_from(YAML), min_size=1, max_size=2))).encode()
    table = draw(st.sampled_from(sorted(TABLES)))
    rows = [row_of(table) for _ in range(draw(st.integers(0, 3)))]
    names = list(row_of(table))
    for row in rows:
        for name in draw(st.lists(st.sampled_from(names), max_size=3)):
            row[name] = draw(st.one_of(st.sampled_from(ODD), st.text(max_size=8)))
    kept = draw(st.permutations(names)) if draw(st.booleans()) else names
    kept = kept[: draw(st.integers(1, len(kept)))] if draw(st.integers(0, 4)) == 0 else kept
    if draw(st.integers(0, 6)) == 0:
        kept = [*kept, draw(st.sampled_from([kept[0], "surprise", "", "=1+1"]))]
    text = pd.DataFrame([[row.get(name, "") for name in kept] for row in rows], columns=kept).to_csv(index=False)
    if draw(st.integers(0, 4)) == 0:
        cut = draw(st.integers(0, len(text)))
        text = text[:cut] + draw(st.sampled_from(['"', "\n", ",", "\r", ";", "\x00", "\ufeff"])) + text[cut:]
    data = text.encode("utf-8", "surrogatepass")
    return f"{table}.csv", data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 9)) == 0 else data


@pytest.mark.slow
@seeded
@settings(max_examples=2 * CASES // 5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(made=st.lists(files(), min_size=1, max_size=2, unique_by=lambda file: file[0]))
def test_any_file_gives_a_book_or_one_message(whole, made):
    folder = whole.parent / "case"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    for name, data in made:
        (folder / name).write_bytes(data)
    book, said = None, "it is in order"
    try:
        book = load_book(folder)
    except CapplanError as error:
        said = str(error)
    assert 10 < len(said) < 12_000, said[:200]
    assert "Traceback" not in said
    for name in book.own if book else ():
        assert list(book.get(name).columns) == [column.name for column in columns_of(name)]


@seeded
@settings(max_examples=CASES // 5, suppress_health_check=[HealthCheck.too_slow])
@given(
    values=st.dictionaries(
        st.one_of(st.sampled_from(sorted(Scenario.model_fields)), st.text(max_size=12)),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=12),
            st.sampled_from(ODD),
            st.lists(st.integers(), max_size=3),
            st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_assumption_gives_a_scenario_or_one_message(values):
    said = "a scenario"
    try:
        Scenario().replaced(**values)
    except CapplanError as error:
        said = str(error)
    assert 10 <= len(said) < 4000


@seeded
@settings(max_examples=max(CASES // 50, 5), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(order=st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_means_nothing(whole, order):
    folder = whole.parent / "shuffled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    for file in folder.glob("*.csv"):
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
        columns = list(frame.columns)
        order.shuffle(columns)
        frame[columns].sample(frac=1, random_state=order.randrange(2**31)).to_csv(file, index=False)
    before, after = load_book(whole), load_book(folder)
    assert after.digests == before.digests
    for name in before.tables:
        pd.testing.assert_frame_equal(after.get(name), before.get(name), check_exact=True)
