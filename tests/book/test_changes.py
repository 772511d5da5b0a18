"""What-ifs: one grammar, checked like cells of a file, read back as written, and never executed; YAML by the rules of 1.2."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from capplan import load_book
from capplan.book import book as book_tables
from capplan.book.allowed import fault_words
from capplan.book.changes import Change, parse_change
from capplan.book.plain_yaml import NotYamlError, read_yaml
from capplan.book.scenario import Scenario, build_scenario
from capplan.book.tables.registry import TABLES, columns_of
from capplan.errors import CapplanError, ScenarioError
from capplan.ingest import FORMATS, options_of
from tests.conftest import ROOT

EXAMPLE = ROOT / "data" / "enterprise"


@pytest.fixture(scope="module")
def example():
    return load_book(EXAMPLE)


def changed(book, *lines):
    return book.with_changes(build_scenario({"changes": lines}).changes)


def test_spot_doubles_in_one_line(example):
    found = changed(example, "where term=spot multiply usd_per_hour 2").offers
    spot = found["term"] == "spot"
    assert spot.sum() > 1
    assert (found.loc[spot, "usd_per_hour"] == 2 * example.offers.loc[spot, "usd_per_hour"]).all()
    pd.testing.assert_frame_equal(found[~spot], example.offers[~spot])


def test_a_run_slips_with_all_its_days(example):
    run = example.training_runs["run_id"].iloc[0]
    before = example.training_runs.set_index("run_id").loc[run]
    after = changed(example, f"shift training_runs.{run} +2 quarters").training_runs.set_index("run_id").loc[run]
    for name in ("start", "deadline"):
        assert after[name] == before[name] + pd.DateOffset(months=6)
    only = changed(example, f"shift training_runs.{run} deadline +10 days").training_runs.set_index("run_id").loc[run]
    assert only["start"] == before["start"]
    assert only["deadline"] == before["deadline"] + pd.Timedelta(days=10)


def test_contracts_go_and_quotes_come(example):
    gone = example.commitments["commitment_id"].iloc[0]
    assert gone not in set(changed(example, f"remove commitment {gone}").commitments["commitment_id"])
    offer = example.offers["offer_id"].iloc[0]
    more = changed(example, f"add offer like {offer} {{offer_id: quote, usd_per_hour: 1.25, upfront_share: 0.25}}").offers
    assert len(more) == len(example.offers) + 1
    row = more.set_index("offer_id").loc["quote"]
    assert (row["usd_per_hour"], row["upfront_share"], row["sku"]) == (1.25, 0.25, example.offers["sku"].iloc[0])
    left = changed(example, "remove offers where term=spot")
    assert left.offers["term"].ne("spot").all()
    assert len(left.spot_availability) == len(example.spot_availability), "a record stays, without the offer it was taken for"
    assert set(left.spot_availability["offer_id"].dropna()) <= set(left.offers["offer_id"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("where term=spto multiply usd_per_hour 2", "no row fits in"),
        ("offers where term=spto multiply usd_per_hour 2", "did you mean spot"),
        ("where term=spot multiply usd_per_hour", "expected a value"),
        ("where term=spot double usd_per_hour", "expected one of set, multiply, shift, remove, add instead of 'double'"),
        ("offers.x multiply usd_per_hour 2 now", "expected the end instead of 'now'"),
        ("offer multiply usd_per_hours 2", "there is no such column; did you mean usd_per_hour"),
        ("ofers multiply usd_per_hour 2", "the book has no such table; did you mean offers"),
        ("offers multiply usd_per_hour -1", "does not fit"),
        ("offers multiply region 2", "cannot be multiplied"),
        ("offers set lot_machines 1.5", "it must be a whole number"),
        ("offers set lot_machines true", "it must be a whole number"),
        ("offers set guarantees_capacity 1", "it must be true or false"),
        ("offers multiply usd_per_hour true", "true and false are no numbers"),
        ("shift training_runs +2 fortnights", "write it like +2 quarters"),
        ("shift offers usd_per_hour +2 days", "cannot be shifted"),
        ("remove commitment nobody", "no row has commitment_id = nobody"),
        ("add offer {offer_id: q}", "the new row of offers needs sku"),
        ("add offer {offer_id: q, offer_id: r}", "given twice"),
        ("add offer [1]", "in braces"),
        ("add offer like nobody {offer_id: q}", "no row of offers has offer_id = nobody"),
        ("multiply usd_per_hour", "expected"),
        ("", "expected"),
        ('offers set region "open', "expected a word or value"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_message(example, line, said):
    with pytest.raises(CapplanError, match="(?s)" + said.replace("+", r"\+")) as caught:
        changed(example, line)
    assert len(str(caught.value)) < 1000


def test_a_key_stands_once_and_references_hold(example):
    offer = example.offers["offer_id"].iloc[0]
    with pytest.raises(CapplanError, match="a row of this key"):
        changed(example, f"add offer like {offer} {{usd_per_hour: 1}}")
    with pytest.raises(CapplanError, match="skus has no such sku"):
        changed(example, f"add offer like {offer} {{offer_id: q, sku: no-such-machine}}")


TEXT = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable() and text.strip() == text)
VALUES = st.one_of(TEXT, st.booleans(), st.integers(-(10**6), 10**6), st.floats(-1e9, 1e9, allow_nan=False))
KEYS = st.one_of(st.just("*"), TEXT.filter(lambda text: text != "*"))
ACTIONS = st.one_of(
    st.fixed_dictionaries({"column": st.just("usd_per_hour"), "set": VALUES}),
    st.fixed_dictionaries({"column": st.just("usd_per_hour"), "multiply": st.floats(-1e6, 1e6, allow_nan=False)}),
    st.fixed_dictionaries({"shift": st.sampled_from(["+2 quarters", "-1 month", "+10 days"])}),
    st.just({"remove": True}),
)


@given(KEYS, st.dictionaries(st.sampled_from(["term", "region"]), VALUES, max_size=2), ACTIONS)
def test_a_line_reads_back_as_the_same(key, where, action):
    change = Change(table="offers", key=key, where=where, **action)
    assert Change(**parse_change(change.line)) == change
    assert Change.model_validate(change.model_dump()) == change
    assert change.sentence.endswith(".")


@given(st.dictionaries(st.sampled_from(["offer_id", "region", "usd_per_hour"]), VALUES, min_size=1), st.one_of(st.none(), TEXT))
def test_a_new_row_reads_back_as_the_same(cells, like):
    change = Change(table="offers", add=cells, like=like)
    assert Change(**parse_change(change.line)) == change


@given(st.text(max_size=60))
def test_any_text_is_a_what_if_or_one_message(text):
    with contextlib.suppress(ValueError), contextlib.suppress(ScenarioError):
        Change.model_validate(text)


def test_sentences_say_what_changes():
    said = {
        line: Change.model_validate(line).sentence
        for line in (
            "where term=spot multiply usd_per_hour 2",
            "shift training_runs.alpha +2 quarters",
            "remove commitment x",
            "offers.a set term lease",
        )
    }
    assert list(said.values()) == [
        "All rows with Term spot: Price (USD/h) times 2.",
        "Training runs alpha: all days 6 months later.",
        "Commitments x: taken out.",
        "Offers a: Term becomes lease.",
    ]


def test_one_grammar_on_the_command_line_in_files_and_in_python(tmp_path, example):
    line = "where term=spot multiply usd_per_hour 2"
    file = tmp_path / "scenario.yaml"
    file.write_text(f'changes:\n- {line}\n- "add offer like {example.offers["offer_id"].iloc[0]} {{offer_id: quote, usd_per_hour: 1}}"\n')
    for words in (["-p", f"changes={line}"], ["--scenario", str(file)]):
        done = subprocess.run(
            [sys.executable, "-m", "capplan.cli", "check", str(EXAMPLE), "--json", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        stated = json.loads(done.stdout)["scenario"]["changes"]
        assert Change.model_validate(stated[0]) == Change.model_validate(line)
    assert example.scenario_with(changes=line).changes == (Change.model_validate(line),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "a is given twice"),
        ("a: [", "expected"),
        ("[" * 3000, "nested too deeply"),
        ("a: &x 1\nb: *x", "aliases are not taken"),
        ("seed: " + "9" * 5000, "5000 digits"),
        ("!!timestamp 2026", "is not taken"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
    ],
)
def test_yaml_that_is_refused(text, said):
    with pytest.raises(NotYamlError, match=said) as caught:
        read_yaml(text)
    assert len(str(caught.value)) < 400


def test_yaml_means_what_is_written():
    assert read_yaml("{a: no, b: 010, c: 1_000, d: 1:30, e: 2027-01-01, f: .5, g: on, h: '1', i: null, j: 1e3}") == {
        "a": "no",
        "b": 10,
        "c": "1_000",
        "d": "1:30",
        "e": "2027-01-01",
        "f": 0.5,
        "g": "on",
        "h": "1",
        "i": None,
        "j": 1000.0,
    }


@pytest.mark.parametrize("name", ["horizon_quarters", "seed", "risk_weight", "price_factor"])
def test_true_is_no_number(name):
    with pytest.raises(ScenarioError, match=f"{name} = true: true and false are no numbers"):
        build_scenario({name: True})


def test_switches_still_switch():
    assert Scenario().replaced(flip_search=False).flip_search is False


def test_rows_are_selected_by_a_column_of_a_table_they_refer_to(example):
    before, machines = example.get("offers"), example.get("skus").set_index("sku")
    after = changed(example, "offers where accelerator=B200 and term=on_demand multiply usd_per_hour 2").offers
    picked = before["sku"].map(machines["accelerator"]).eq("B200") & before["term"].eq("on_demand")
    assert picked.any()
    assert after.columns.tolist() == before.columns.tolist()
    pd.testing.assert_series_equal(after["usd_per_hour"], before["usd_per_hour"].where(~picked, 2 * before["usd_per_hour"]))
    with pytest.raises(CapplanError, match="no such column"):
        changed(example, "offers where colour=B200 multiply usd_per_hour 2")
    with pytest.raises(CapplanError, match="no row has accelerator"):
        changed(example, "offers where accelerator=B2000 multiply usd_per_hour 2")


def test_a_changed_table_is_named_by_its_content(example):
    """The name is what answers are kept under: the same rows have one, and any other cell, kind, row or heading another."""
    there = changed(example, "usage where workload=chat multiply quantity 2")
    back = changed(there, "usage where workload=chat multiply quantity 0.5")
    again = changed(example, "usage where workload=chat multiply quantity 1")
    assert back.digests["usage"] == again.digests["usage"] != there.digests["usage"]
    rows = pd.DataFrame({"name": ["a", None, "1"], "day": pd.to_datetime(["2027-01-01", None, "2027-01-02"]), "n": [1.0, np.nan, 3.0]})
    others = [
        rows.assign(name=["a", "", "1"]),
        rows.assign(n=[1.0, 0.0, 3.0]),
        rows[::-1],
        rows[:2],
        rows.rename(columns={"n": "m"}),
        rows[[*"n"]],
    ]
    others += [rows.assign(day=rows["day"].shift(fill_value=pd.Timestamp("2027-01-01"))), rows.assign(n=rows["n"].astype(str))]
    assert len({book_tables._what_if_digest(each) for each in (rows, *others)}) == 1 + len(others)


@pytest.mark.parametrize("value", ["x", "", -1e9, 1e9, 1.5, None, [], ["a"], {"a": 1}, True, float("nan"), "1900-01-01"])
def test_what_is_allowed_is_said_in_words_and_never_by_a_form_of_programmers(value):
    """Of every assumption and every option of a format, whatever it is given."""
    models = [Scenario, *dict.fromkeys(options_of(name) for name in FORMATS)]
    for model in models:
        for name in model.model_fields:
            try:
                model.model_validate({name: value})
            except ValidationError as error:
                said = [fault_words(item) for item in error.errors()]
                assert not [words for words in said if re.search(r"\\d|\^|\[A-Z|Input|String|integer|tuple|parse|NaN", words)], (name, said)
            except CapplanError:
                assert name == "changes"
    allowed = [column.rule for table in TABLES for column in columns_of(table)]
    assert not [words for words in allowed if re.search(r"\\d|\^|\[A-Z", words)]
