"""The plan of the example stays what was accepted, within 1 %; it is never refreshed by a test."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from capplan.answers.plan import quarterly_plan
from capplan.answers.sums import spend
from capplan.errors import CapplanError
from capplan.outputs.run.accepted import accept, drift
from capplan.outputs.run.report import tables_of
from capplan.outputs.views import decision_tables
from tests.conftest import ROOT, example_book

SAMPLE = ROOT / "reports" / "sample"


@pytest.fixture(scope="module")
def plan():
    """The plan of the example, with the parameters of the accepted one."""
    run = json.loads((SAMPLE / "run.json").read_text(encoding="utf-8"))
    book = example_book()
    return quarterly_plan(book, book.scenario_with(**run["parameters"]))


@pytest.mark.slow
def test_no_table_shows_what_rounding_leaves(plan):
    tables = {name: frame for name, frame in tables_of(plan).items() if frame is not None}
    columns = [
        (name, column)
        for name in sorted(tables)
        for column in tables[name].select_dtypes("number")
        if column.endswith(("usd", "amount", "hours"))
    ]
    assert len(columns) > 40
    tables["spend"] = spend(plan)
    columns += [("spend", "over")]
    for name, column in columns:
        sizes = tables[name][column].abs()
        assert not sizes.between(0, 1e-6, inclusive="neither").any(), f"{name}.{column}"


@pytest.mark.slow
def test_the_plan_is_the_accepted_one(plan):
    for name, today, key in (
        ("spend", spend(plan), "quarter"),
        ("alternatives", plan.purchases.alternatives.drop(columns="meaning"), "name"),
    ):
        moved = drift(pd.read_csv(SAMPLE / f"{name}.csv"), today, key)
        large = moved[(moved["change_share"] > 0.01) & (moved[["old", "new"]].abs().max(axis=1) > 1000)]
        assert large.empty, f"{name} moved; if this is right, `capplan accept` it with a reason:\n{large}"
    firm = decision_tables.decisions(plan)
    accepted = pd.read_csv(SAMPLE / "decisions.csv")
    columns = ["offer_id", "quarter", "machines"]
    assert firm.loc[firm["firm"], columns].values.tolist() == accepted.loc[accepted["firm"], columns].values.tolist()


def test_drift_names_what_moved():
    old = pd.DataFrame({"quarter": ["a", "b"], "usd": [100.0, 0.0], "text": ["x", "y"]})
    new = pd.DataFrame({"quarter": ["a", "c"], "usd": [103.0, 5.0], "text": ["x", "y"]})
    moved = drift(old, new, "quarter")
    assert moved[["quarter", "old", "new"]].values.tolist() == [["c", 0.0, 5.0], ["a", 100.0, 103.0]]
    assert drift(old, old, "quarter").empty


def test_only_finished_reports_with_a_reason_are_accepted(tmp_path):
    with pytest.raises(CapplanError, match="is no finished report"):
        accept(tmp_path, "because", tmp_path / "sample")
    assert not (tmp_path / "sample").exists()
