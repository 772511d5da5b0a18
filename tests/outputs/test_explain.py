"""A plan asked for its reasons: each figure in the words is a cell of a table, and `trace` follows it there."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from capplan.answers.explained import Explained, explain_plan, row_names, tables_to_explain
from capplan.book.currencies import Currency
from capplan.errors import CapplanError
from capplan.outputs.run.explain import explain_place, report_tables
from capplan.outputs.run.report import write_report
from capplan.outputs.run.trace import trace_figure
from tests.book.test_flips import BOOK, STATED
from tests.cases.procurement_cases import assumptions, commitment, demand, offer, solve
from tests.conftest import CONTRACTS, SKUS, SOURCES
from tests.outputs.test_report import OFFERS

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
FLIPS = pd.DataFrame(
    [
        ("demand_factor", 1.0, 0.71, None, "holds to 0.72, and from 0.71 on: do not sign year"),
        ("risk_weight", 0.3, None, None, "holds to 1"),
    ],
    columns=["assumption", "now", "flips_below", "flips_above", "then"],
)


def tables(*rows: Any, **more: Any) -> dict[str, pd.DataFrame]:
    return tables_to_explain(SimpleNamespace(purchases=solve(*rows, **more)), FLIPS)


def check(found: Explained, known: dict[str, pd.DataFrame]) -> None:
    """Nothing that varies in a sentence is from elsewhere than a table."""
    for place, words in enumerate(found.sentences["words"]):
        mine = found.figures[found.figures["sentence"] == place]
        rest = words
        for shown in sorted(mine["shown"], key=len, reverse=True):
            assert shown in words
            rest = rest.replace(shown, "")
        assert not re.search(r"\d", rest), words
    for row in found.figures.to_dict("records"):
        table = known[row["table"]]
        cells = table[row["column"]]
        if row["figure"]:
            name = row["figure"].split(":", 1)[1].rpartition(":")[0]
            assert cells[row_names(table, row["table"]) == name].tolist() == [row["value"]]
        else:
            assert row["value"] in cells.tolist()


@pytest.fixture(scope="module")
def held() -> dict[str, pd.DataFrame]:
    """A quota holds the year at seven; three years cost too much; the contract is not renewed, and another offer has ended."""
    offers = [
        ON_DEMAND,
        offer("year", "reserved_1y", 2.0),
        offer("three", "reserved_3y", 3.9, upfront_share=0.5),
        offer("gone", "reserved_1y", 1.0, available_to=pd.Timestamp("2026-12-20")),
    ]
    return tables(
        demand([[10.0, 10.0, 10.0, 10.0]]),
        offers,
        assumptions(horizon_quarters=4, approval_days=0, renewal_without_price="not_offered"),
        limits=[{"limit_id": "quota", "kind": "quota_accelerators", "amount": 7.0}],
        commitments=[
            commitment("old", 2.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=5.0),
            commitment("last", 1.0, "2026-04-01", "2027-03-31"),
        ],
    )


def test_an_offer_that_is_not_taken_has_its_price_and_the_one_at_which_it_would_pay(held) -> None:
    for asked in ("three", "old", "renew old"):
        found = explain_plan(held, "why-not", asked)
        check(found, held)
        row = held["rejected_offers"].set_index("offer_id").loc["renew old" if "old" in asked else asked]
        assert f"not taken: offered at ${row['usd_per_hour']:.2f} an hour" in found.headline
        assert f"would begin to pay at ${row['entry_usd_per_hour']:.2f}." in found.headline
    assert "rejected_offers:three:entry_usd_per_hour" in explain_plan(held, "why-not", "three").figures["figure"].tolist()


def test_amounts_are_said_in_the_currency_of_the_book_and_stand_in_dollars_in_the_tables(held) -> None:
    row = held["rejected_offers"].set_index("offer_id").loc["three"]
    found = explain_plan(held, "why-not", "three", Currency("EUR", 1.25))
    assert f"offered at €{row['usd_per_hour'] / 1.25:.2f} an hour" in found.headline
    assert row["usd_per_hour"] in found.figures["value"].tolist()
    told = [
        explain_plan(held, question, name, Currency("EUR", 1.25)) for question, name in (("why", "year"), ("what-binds", ""), ("wait", ""))
    ]
    assert not any("$" in words for each in told for words in each.sentences["words"])


def test_an_offer_that_is_taken_says_so_and_one_that_cannot_be_had_why(held) -> None:
    found = explain_plan(held, "why-not", "year")
    check(found, held)
    assert found.headline.startswith("The plan takes year from 2027Q1: 4 accelerators")
    for asked, said in (
        ("gone", "cannot be signed for in the planned quarters: the offer ended on 2026-12-20"),
        ("last", "contract last states no right to renew"),
        ("od", "is rented by the hour"),
    ):
        found = explain_plan(held, "why-not", asked)
        check(found, held)
        assert said in found.headline


def test_why_is_answered_by_what_speaks_for_a_purchase_and_of_what_is_not_taken_as_why_not(held) -> None:
    found = explain_plan(held, "why", "year")
    check(found, held)
    words = found.sentences["words"].tolist()
    assert words[0].startswith("The plan takes year from 2027Q1: 4 accelerators")
    assert words[1] == "year is due before the next review; what waiting for it would cost was not compared."
    place = words.index("year costs $2.00 an hour a machine; of H100 the plan does not take:")
    assert any(each.startswith("three is not taken") for each in words)
    assert "purchases:year 2027Q1:usd_per_hour" in found.traces[place]
    row = {
        "offer_id": "year",
        "quarter": "2027Q1",
        "lots": 4.0,
        "verdict": "sign",
        "saves_usd": 5000.0,
        "saves_low_usd": 1.0,
        "saves_high_usd": 9e3,
    }
    judged = held | {"verdicts": pd.DataFrame([row])}
    found = explain_plan(judged, "why", "year")
    check(found, judged)
    assert "sign; signing now saves $5.0k against waiting" in found.sentences["words"][1]
    assert "verdicts:year 2027Q1:saves_usd" in found.traces[1]
    assert explain_plan(held, "why", "three").headline == explain_plan(held, "why-not", "three").headline


def test_an_accelerator_stands_for_its_offers_and_an_alternative_for_itself(held) -> None:
    found = explain_plan(held, "why-not", "h100s")
    check(found, held)
    assert {"year", "three", "renew old"} <= set(found.sentences["about"])
    renewed = explain_plan(held, "why-not", "renew H100s")
    assert set(renewed.sentences["about"]) == {"renew old"}
    nothing = explain_plan(held, "why-not", "do_nothing")
    check(nothing, held)
    assert "more than the plan" in nothing.headline


def test_an_unknown_name_names_the_nearest(held) -> None:
    with pytest.raises(CapplanError, match="did you mean year"):
        explain_plan(held, "why-not", "yeer")
    with pytest.raises(CapplanError, match="know nothing of"):
        explain_plan(held, "why-not", "=1+1" * 3000)


def test_what_binds_is_what_one_more_unit_would_save(held) -> None:
    found = explain_plan(held, "what-binds")
    check(found, held)
    assert found.headline.startswith("quota binds: 1 more of it from 2027Q1")
    assert "1 more machine of year" in found.headline
    free = tables(demand([[10.0]]), [ON_DEMAND, offer("year", "reserved_1y", 2.0)])
    assert explain_plan(free, "what-binds").headline.startswith("No limit holds the plan back")


def test_what_would_make_us_wait_are_verdicts_and_flips(held) -> None:
    verdict = ("year", "2027Q1", 4.0, 70080.0, "sign", 5000.0, -100.0, 9000.0, 20, 0.0, 5000.0)
    known = held | {"verdicts": pd.DataFrame([verdict], columns=held["verdicts"].columns)}
    found = explain_plan(known, "wait")
    check(found, known)
    said = "\n".join(found.sentences["words"])
    assert "year from 2027Q1: sign; signing now saves $5.0k against waiting (-$100 to $9.0k)" in said
    assert "The decision is another one where demand_factor, now 1, is below 0.71: holds to 0.72" in said
    assert "risk_weight" not in said
    none = explain_plan(known | {"flips": FLIPS.iloc[1:]}, "wait")
    assert none.sentences["words"].iloc[-1].startswith("No assumption flips the decision")
    without = {name: table for name, table in known.items() if name != "flips"}
    assert explain_plan(without, "wait").sentences["words"].iloc[-1].endswith("was not searched (flip_search).")


def test_a_report_answers_from_its_tables_and_trace_follows_its_ids(make_book, tmp_path) -> None:
    speeds = "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,stated\n"
    ended = "=gone,test.8x,us-1,us,reserved_3y,10,0,units,true,2026-12-01,s1\n"
    place = make_book(
        demand_scenarios=STATED,
        commitments=CONTRACTS.replace("2026-12-31", "2027-06-30"),
        skus=SKUS,
        sources=SOURCES,
        offers=OFFERS + ended,
        speeds=speeds,
        book=BOOK,
    )
    report = write_report(place, {}, tmp_path / "out", lambda _: None, "quick").folder
    known, traced = report_tables(report), 0
    for question, name in (("why", "one"), ("why-not", "one"), ("why-not", "c1"), ("why-not", "=gone"), ("what-binds", ""), ("wait", "")):
        found = explain_place(report, question, name, {}, lambda _: None)
        check(found, known)
        live = explain_place(place, question, name, {"flip_search": False}, lambda _: None)
        assert live.sentences.equals(found.sentences)
        for row in found.figures[found.figures["figure"] != ""].to_dict("records"):
            assert trace_figure(report, row["figure"]).amount == row["value"]
            traced += 1
    assert traced
    for wrong, said in (
        ("rejected_offers:nobody:usd_per_hour", "has no row 'nobody'"),
        ("alternatives:plan:expected_uds", "did you mean expected_usd"),
        ("flips:demand_factor:now", "the plan was made without it"),
    ):
        with pytest.raises(CapplanError, match=re.escape(said)):
            trace_figure(report, wrong)
    with pytest.raises(CapplanError, match="whose assumptions stand"):
        explain_place(report, "wait", "", {"seed": 3}, lambda _: None)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(CapplanError, match="no report that can be explained"):
        explain_place(tmp_path, "wait", "", {}, lambda _: None)
