"""The example books: each checks, plans, comes to the sensible decision, and is copied whole."""

from __future__ import annotations

import importlib

import pytest

from capplan.answers.plan import quarterly_plan
from capplan.book.book import load_book, new_book
from capplan.book.places import example_books
from capplan.errors import CapplanError
from tests.conftest import ROOT


def planned(name):
    book = load_book(ROOT / "data" / name)
    return book, quarterly_plan(book)


def test_there_is_a_book_for_each_way_of_having_capacity():
    assert set(example_books()) == {"api_first", "enterprise", "on_prem"}
    for name, place in example_books().items():
        book = load_book(place)
        assert "invented" in book.description
        assert f"--from {name}" in (place / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_company_that_calls_apis_signs_nothing_now_and_sees_when_to_host():
    _, plan = planned("api_first")
    bought, dispatch = plan.purchases.purchases, plan.purchases.dispatch
    assert "nothing has to be signed" in plan.headline
    work = dispatch.groupby(["quarter", "source"])["expected_work"].sum()
    assert work["2027Q1"].to_dict().keys() == {"api"}
    assert len(bought)
    assert bought["quarter"].min() >= "2028Q1"


@pytest.mark.slow
def test_the_hospital_orders_all_that_its_power_allows_and_sends_only_research_away():
    book, plan = planned("on_prem")
    firm = plan.purchases.purchases.query("firm")
    skus = book.get("skus").set_index("sku")
    offers = book.get("offers").set_index("offer_id")
    assert len(firm)
    assert {offers.at[offer, "term"] for offer in firm["offer_id"]} == {"owned"}
    drawn = float((book.assets["machines"] * book.assets["sku"].map(skus["power_kw"])).sum())
    new = sum(row.machines * skus.at[offers.at[row.offer_id, "sku"], "power_kw"] for row in firm.itertuples())
    room = float(book.sites["available_kw"].iloc[0])
    assert drawn + new <= room < drawn + new + skus.at["own-8x-h100", "power_kw"]
    assert min(firm["quarter"]) >= "2027Q3"
    served = plan.purchases.dispatch.query("source != 'shortfall'")
    elsewhere = served[served["provider"] != "own"]
    assert set(elsewhere["class"]) == {"research"}


@pytest.mark.parametrize("name", ["api_first", "enterprise", "on_prem"])
def test_a_copy_is_whole_and_overwrites_nothing(tmp_path, name):
    new_book(tmp_path / "mine", name)
    copied, shipped = (
        {file.relative_to(top): file.read_bytes() for file in top.rglob("*") if file.is_file()}
        for top in (tmp_path / "mine", example_books()[name])
    )
    assert copied == shipped
    with pytest.raises(CapplanError, match="exists already and is not empty"):
        new_book(tmp_path / "mine", name)
    assert {file.relative_to(tmp_path / "mine"): file.read_bytes() for file in (tmp_path / "mine").rglob("*") if file.is_file()} == shipped


def test_an_unknown_example_names_the_nearest_one(tmp_path):
    with pytest.raises(CapplanError, match=r"there is no example book on_premise; .*on_prem"):
        new_book(tmp_path / "mine", "on_premise")
    assert not (tmp_path / "mine").exists()


def test_the_usage_of_the_small_books_is_what_its_tool_makes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    for name in ("api_first", "on_prem"):
        (tmp_path / name).mkdir()
    importlib.import_module("make_playbooks").main(tmp_path)
    for name in ("api_first", "on_prem"):
        assert (tmp_path / name / "usage.csv").read_bytes() == (ROOT / "data" / name / "usage.csv").read_bytes()
