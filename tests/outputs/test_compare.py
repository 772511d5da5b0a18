"""Scenarios side by side: each column is a run of its own, to the last digit; why they differ adds up; a bad file is one error."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from capplan.cli import app
from capplan.errors import CapplanError, ScenarioError
from capplan.outputs.run.compare import OWN, WAITING, WITHIN, write_comparison
from tests.cases.years_told import years_told
from tests.questions.test_board import TABLES

#: What is used exceeds it, and no plan that serves the work keeps it.
LIMITS = "limit_id,kind,amount,measure,hard\ntight,budget_usd,50000,p_and_l,false\n"
NASTY = "<script>alert(1)</script>"


@pytest.fixture
def folder(make_book):
    return make_book("steady", **TABLES, limits=LIMITS)


def written(folder, **files):
    paths = []
    for name, text in files.items():
        paths.append(folder.parent / f"{name}.yaml")
        paths[-1].write_text(text)
    return paths


def commanded(*words):
    """What a command prints for machines: its tables."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    return {name: pd.DataFrame(rows) for name, rows in json.loads(done.stdout)["tables"].items()}


def told_by_tables(tables):
    """The rows of a column, from the tables that a run without a person prints."""
    plan, owed = tables["alternatives"].set_index("name").loc["plan"], tables["obligations"]
    bought = tables["purchases"]
    said = {
        "expected_usd": plan["expected_usd"],
        "bad_cases_usd": plan["cvar_usd"],
        "signed_now_usd": bought.loc[bought["firm"], "usd"].sum(),
        "contracts_to_sign": bought["firm"].sum(),
        "unserved_usd": plan["shortfall_usd"],
        "signed_and_owed_amount": owed["signed_amount"].sum() + owed["firm_amount"].sum(),
        "owed_after_the_plan_amount": owed["beyond_horizon_amount"].sum(),
    }
    return said | years_told(tables)


@pytest.mark.slow
def test_every_column_is_a_run_of_its_own_to_the_last_digit(folder, tmp_path, cold):
    files = written(folder, base="risk_weight: 0.3\n", downside="demand_factor: 1.4\nchanges: offers.hour multiply usd_per_hour 1.5\n")
    found = commanded("compare", folder, *files, "--out", tmp_path / "out")
    measures, place = found["measures"].set_index("measure"), tmp_path / "out" / "steady" / "comparison"
    assert list(measures.columns) == ["base", "downside", WAITING, WITHIN]
    kept = sorted((place / "scenarios").iterdir())
    assert len(kept) == 4
    for column, file in (("downside", files[1]), (WITHIN, kept[3])):
        cold()
        tables = commanded("plan", folder, "--scenario", file, "--quick", "--out", tmp_path / "alone")
        for name, value in told_by_tables(tables).items():
            assert measures.loc[name, column] == value, (column, name)
        signed = found["signed"].set_index(["offer_id", "quarter"])[column]
        firm = tables["purchases"].query("firm").groupby(["offer_id", "quarter"])["accelerators"].sum()
        assert signed[signed > 0].to_dict() == firm.to_dict()
    assert measures.loc["contracts_to_sign", WAITING] == 0
    assert measures.loc["unserved_usd", WITHIN] > measures.loc["unserved_usd", "base"]
    for name, steps in found["why"].groupby("scenario"):
        amounts = steps["amount"].to_numpy()
        assert amounts[:-1].sum() == pytest.approx(amounts[-1], abs=0.03), name
    page = (place / "comparison.html").read_text()
    assert all(title in page for title in measures.columns)


@pytest.mark.slow
def test_what_is_done_already_or_cannot_be_is_a_note_and_names_are_inert(folder, tmp_path):
    bare = {"changes": ["remove limits where kind=budget_usd"]}
    cannot = {"changes": [*bare["changes"], "add limit {limit_id: none, kind: budget_usd, amount: 1, measure: p_and_l, hard: true}"]}
    found = write_comparison(folder, {NASTY: bare, "cannot": {**cannot, "service_level_share": 1.0}}, {}, tmp_path / "out")
    assert list(found.measures.columns) == ["measure", NASTY, WAITING]
    assert found.notes[0] == f"{WITHIN}: {NASTY} keeps every budget already"
    assert found.notes[1].startswith("cannot: ")
    page = (found.folder / "comparison.html").read_text()
    assert "<script" not in page
    assert "cannot: " in page
    assert {path.name for path in (found.folder / "scenarios").iterdir()} == {"1-script.yaml", "2-wait-a-quarter.yaml"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"down": {"demand_facto": 1}, "up": {"price_factor": -1}}, "down: .*did you mean demand_factor.*up: .*price_factor = -1"),
        ({"a": {}, "b": {"changes": "remove offer nothing"}}, "b: .*nothing"),
        ({"a": {}, "b": {"currency": "EUR"}}, r"a \(USD\), b \(EUR\) cannot stand side by side"),
    ],
)
def test_faults_of_all_scenarios_are_one_error_before_anything_is_planned(folder, tmp_path, given, said):
    with pytest.raises(ScenarioError, match=said):
        write_comparison(folder, given, {}, tmp_path / "out", say=pytest.fail)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"broken": "a: [", "good": ""}, r"broken.yaml cannot be taken: .*must be YAML"),
        ({"a_b": "seed: 1", "a b": "seed: 2"}, "another scenario is called a b, too"),
        ({"listed": "- 1"}, "must hold `name: value` lines"),
    ],
)
def test_a_file_that_is_no_scenario_is_one_error(folder, files, said):
    with pytest.raises(CapplanError, match=said):
        CliRunner().invoke(app, ["compare", str(folder), *map(str, written(folder, **files))], catch_exceptions=False)


@pytest.mark.slow
def test_a_single_scenario_stands_beside_the_book(folder, tmp_path):
    found = write_comparison(folder, {"dearer": {"price_factor": 1.1}}, {"risk_weight": 0.4}, tmp_path / "out", others=False)
    assert list(found.measures.columns) == ["measure", OWN, "dearer"]
    assert found.assumed["assumed_otherwise"].tolist() == ["Price factor: 1 → 1.1."]
