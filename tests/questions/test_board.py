"""The questions of a meeting: each has an answer that a law or a hand gives; columns hold what a run without a person says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml

from capplan import load_book
from capplan.answers.board import Column, compared, first_column, full_column
from capplan.answers.card import EVERYTHING
from capplan.answers.cards import CARDS
from capplan.answers.plan import problem_of, purchases_of
from capplan.answers.serving import speeds_under_targets
from capplan.answers.store import forget, shared_answers
from capplan.cli.shared import overrides
from capplan.errors import CapplanError, ScenarioError
from capplan.outputs.lab.board_table import board_chart, scenario_text, what_changed
from capplan.questions.procurement.first_answer import kept_answer
from capplan.text import money
from capplan.units import quarter_hours
from tests.cases.years_told import years_told
from tests.conftest import example_book, hourly

BY_NAME = {card.name: card for card in CARDS}
#: A year of steady work for 8 accelerators; a reserved offer, on demand, spot, and a machine to buy.
TABLES = {
    "demand_scenarios": (
        "scenario,probability,workload,quarter,quantity\n"
        + "".join(
            f"{name},0.5,{work},2027Q{quarter},{size}\n"
            for name, size in (("low", 17520), ("high", 26280))
            for work in ("chat", "tune")
            for quarter in (1, 2)
        )
    ),
    "workloads": (
        "workload,stage,unit,host,interruptible,deferrable,team\nchat,serving,accelerator_hours,self,false,false,web\ntune,tuning,accelerator_hours,self,true,false,lab\n"
    ),
    "speeds": "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,measured\ntune,H100,1,measured\n",
    "skus": "sku,provider,accelerator,accelerator_count,source_id\nm,cloud,H100,8,s\n",
    "sources": "source_id,title,where_found,retrieved_on\ns,Made up,here,2026-12-01\n",
    "commitments": "commitment_id,sku,region,term,machines,usd_per_hour,start,end\nheld,m,us-1,reserved_1y,1,16,2026-04-01,2027-03-31\n",
    "offers": (
        "offer_id,sku,region,geography,term,usd_per_hour,discounts,guarantees_capacity,as_of,source_id\n"
        "year,m,us-1,us,reserved_1y,16,units,true,2026-12-01,s\nhour,m,us-1,us,on_demand,40,none,false,2026-12-01,s\ncheap,m,us-1,us,spot,12,none,false,2026-12-01,s\n"
    ),
    "book": (
        "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 2\nproviders: [cloud]\nplan_paths: 2\ngap_share: 0.0001\nflip_search:"
        " false\nhorizon_end: truncate\n"
    ),
}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board") / "steady"
    folder.mkdir()
    for name, text in TABLES.items():
        (folder / (f"{name}.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    return load_book(folder)


def cost(book, scenario=None):
    scenario = scenario or book.scenario
    found = purchases_of(book.with_changes(scenario.changes), scenario)
    return float(found.alternatives.set_index("name").loc["plan", "objective_usd"])


def asked(book, name, number=0.0, pick=""):
    return BY_NAME[name].ask(book, book.scenario, number, pick)


#: Question, number, pick; then whether the plan may become dearer (+1), cheaper (-1), and no other way.
LAWS = [
    ("Demand changes by", 30, EVERYTHING, +1),
    ("Demand changes by", -30, EVERYTHING, -1),
    ("Demand changes by", 30, "chat", +1),
    ("Demand changes by", 30, "team lab", +1),
    ("Unsigned prices change by", -20, "", -1),
    ("Unsigned prices change by", 20, "", +1),
    ("This quote instead:", 15, "year", -1),
    ("This quote instead:", 17, "year", +1),
    ("Spot prices are multiplied by", 2, "", +1),
    ("Spot prices are multiplied by", 0.5, "", -1),
    ("Spot is gone", 0, "", +1),
    ("No capital is spent", 0, "", +1),
    ("A new generation is faster:", 2, "year", -1),
    ("Work that must be served:", 100, "", +1),
    ("Nothing new is signed for", 1, "", +1),
]


@pytest.mark.parametrize(("name", "number", "pick", "way"), LAWS)
def test_an_answer_moves_the_way_the_law_says(book, name, number, pick, way):
    before, after = cost(book), cost(book, asked(book, name, number, pick))
    slack = 2e-4 * before
    assert way * (after - before) >= -slack


def test_demand_by_hand(book):
    """Work and what is held grow alike: with no contract, 30 % more of all work by the hour costs 30 % more."""
    bare = book.scenario.replaced(
        changes=("remove commitment held", "remove offers where term=spot", "remove offers where term=reserved_1y")
    )
    more = BY_NAME["Demand changes by"].ask(book, bare, 30, EVERYTHING)
    assert cost(book, more) == pytest.approx(1.3 * cost(book, bare), rel=1e-6)
    # 2 workloads x (17,520 + 26,280) / 2 hours x 2 quarters at 5 dollars an accelerator-hour, discounted by less than half a year
    assert 0.95 * 438_000 < cost(book, bare.replaced(risk_weight=0.0)) < 438_000
    one = BY_NAME["Demand changes by"].ask(book, bare, 30, "chat")
    assert cost(book, one) == pytest.approx(1.15 * cost(book, bare), rel=1e-6)


BY_THE_HOUR = ("remove offers where term=spot", "remove offers where term=reserved_1y")


def test_what_becomes_of_a_contract_by_hand(book):
    """It ends with the first quarter, and what is signed is no longer decided: extended, 8 accelerators need nothing in the second one.

    Their hours come from the contract at 16 dollars a machine instead of a renewal at the same price, so that P&L stays what it was.
    """
    bare = book.scenario.replaced(changes=BY_THE_HOUR, risk_weight=0.0)
    lapsed = BY_NAME["A contract lapses:"].ask(book, bare, 0, "held")
    assert cost(book, lapsed) == pytest.approx(cost(book, bare), rel=1e-9), "it lapses as it is"
    before = full_column("before", book, bare)
    after = full_column("after", book, BY_NAME["A contract is extended by"].ask(book, bare, 1, "held"))
    usd = quarter_hours("2027Q2") * 16
    more = {name: after.measures[name] - before.measures[name] for name in ("expected_usd", "signed_contracts_amount")}
    assert more["signed_contracts_amount"] == pytest.approx(usd, rel=1e-9)
    assert -usd < more["expected_usd"] < -0.95 * usd, "discounted by less than half a year"
    said = board_chart([before, after]).spec["title"]
    words = " ".join(said["text"] if isinstance(said["text"], list) else [said["text"]])
    assert f"and {money(usd)} more for what is signed" in words
    renewed = BY_NAME["A contract renews:"].ask(book, bare, 0, "held")
    assert cost(book, renewed) <= cost(book, lapsed) * (1 + 2e-4), "a price below the market's"


@pytest.fixture(scope="module")
def with_run(tmp_path_factory):
    """The same book with 8,760 hours of a run in the first quarter."""
    folder = tmp_path_factory.mktemp("board") / "run"
    folder.mkdir()
    more = {
        "training_runs": "run_id,workload,quantity,start,deadline\nbig,pre,8760,2027-01-05,2027-03-20\n",
        "workloads": TABLES["workloads"] + "pre,pretraining,accelerator_hours,self,true,false,lab\n",
        "speeds": TABLES["speeds"] + "pre,H100,1,measured\n",
    }
    kept = {name: text for name, text in TABLES.items() if name != "demand_scenarios"}
    for name, text in {**kept, **more, "usage": hourly()}.items():
        (folder / (f"{name}.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    return load_book(folder)


def test_a_run_by_hand(with_run):
    """All work by the hour at 5 dollars: dropped, its hours are saved, and past the end, too; a quarter later they cost less."""
    bare = with_run.scenario.replaced(changes=("remove commitment held", *BY_THE_HOUR), risk_weight=0.0)
    before = cost(with_run, bare)
    gone = cost(with_run, BY_NAME["A run is dropped:"].ask(with_run, bare, 0, "big"))
    assert 0.97 * 8760 * 5 < before - gone < 8760 * 5, "discounted by less than a quarter"
    assert cost(with_run, BY_NAME["A run slips by"].ask(with_run, bare, 2, "big")) == pytest.approx(gone, rel=1e-9)
    later = cost(with_run, BY_NAME["A run slips by"].ask(with_run, bare, 1, "big"))
    assert gone < later < before


def test_late_deliveries_and_smaller_budgets_never_cost_less(book):
    late = asked(book, "Deliveries slip by", 90)
    assert cost(book, late) >= cost(book) * (1 - 2e-4)
    state = book.with_changes(late.changes).get("delivery_states")
    assert state[["probability", "late_days"]].to_numpy().tolist() == [[1.0, 90.0]]
    found = purchases_of(book, book.scenario)
    spent = float(found.alternatives.set_index("name").loc["plan", "expected_usd"])
    limited = book.scenario.replaced(changes=(f"add limit {{limit_id: pot, kind: budget_usd, amount: {spent:.0f}}}",))
    tight = BY_NAME["Budgets change by"].ask(book, limited, -15, "")
    assert tight.budget_factor == pytest.approx(0.85)
    assert cost(book, tight) >= cost(book, limited) * (1 - 2e-4)


def test_bad_cases_that_weigh_more_cost_less_and_the_mean_no_less(book):
    """By definition of the blend that is smallest: the more a part weighs, the smaller it is."""
    plans = [purchases_of(book, asked(book, "Bad cases weigh", percent)).alternatives.set_index("name").loc["plan"] for percent in (0, 90)]
    slack = 1e-3 * float(plans[0]["expected_usd"])
    assert plans[1]["cvar_usd"] <= plans[0]["cvar_usd"] + slack
    assert plans[1]["expected_usd"] >= plans[0]["expected_usd"] - slack


@pytest.mark.parametrize("stated", [True, False])
def test_api_prices_and_an_api_that_is_withdrawn_by_hand(make_book, stated):
    """All requests are called: at half the price they cost half. With no API they are served by the hour, or not at all."""
    prices = ",input_usd_per_million,output_usd_per_million" if stated else ""
    numbers = ",3,4" if stated else ""
    service = "workload,model,provider,input_tokens,output_tokens\n"
    model = "meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo"
    contract = (
        f"api_contract_id,workload,provider,model,kind,as_of,source_id{prices}\ncall,talk,together,{model},payg,2026-12-01,s{numbers}\n"
    )
    tables = {
        "demand_scenarios": "scenario,probability,workload,quarter,quantity\nonly,1,talk,2027Q1,1000000\nonly,1,talk,2027Q2,1000000\n",
        "workloads": "workload,stage,unit,host,interruptible,deferrable\ntalk,serving,requests,either,false,false\n",
        "services": f"{service}talk,{model},together,1000,500\n",
        "speeds": "workload,accelerator,work_per_accelerator_hour,basis\ntalk,H100,1,measured\n",
        "commitments": TABLES["commitments"].splitlines()[0] + "\n",
        **({"api_contracts": contract} if stated else {}),
    }
    called = load_book(make_book("talk", **{**TABLES, **tables}))
    card = BY_NAME["API prices change by"]
    before, half = cost(called), cost(called, card.ask(called, called.scenario, -50, "talk"))
    assert half == pytest.approx(before / 2, rel=1e-6)
    if stated:
        assert before < 2e6 * (1000 * 3 + 500 * 4) / 1e6 < before * 1.05, "at the contract's prices, discounted by less than half a year"
        assert cost(called, card.ask(called, called.scenario, 100, "talk")) == pytest.approx(2 * before, rel=1e-6)
        with_changes = called.with_changes(card.ask(called, called.scenario, -50, "talk").changes)
        assert cost(called, card.ask(with_changes, card.ask(called, called.scenario, -50, "talk"), -50, "talk")) == pytest.approx(
            before / 4, rel=1e-6
        )
    else:
        with pytest.raises(ScenarioError, match="is called at list prices, which no what-if can raise"):
            card.ask(called, called.scenario, 20, "talk")
    withdrawn = BY_NAME["No API for"].ask(called, called.scenario, 0, "talk")
    assert cost(called, withdrawn) > 10 * before, "a request is an accelerator-hour where it is served by oneself"


def test_what_is_left_undone_by_hand(book):
    """With no contract and nothing by the hour all work is left undone; with plenty, none is."""
    only = book.scenario.replaced(
        changes=("remove commitment held", "remove offers where term=spot", "remove offers where term=reserved_1y")
    )
    assert full_column("none", book, only.replaced(on_demand_accelerators=0.0)).measures["unserved_share"] == 1.0
    assert full_column("plenty", book, only).measures["unserved_share"] == 0.0


def test_a_quote_by_hand(book):
    """With nothing but an hourly offer, its price is the cost."""
    bare = book.scenario.replaced(
        changes=("remove commitment held", "remove offers where term=spot", "remove offers where term=reserved_1y")
    )
    quoted = BY_NAME["This quote instead:"].ask(book, bare, 10, "hour")
    assert cost(book, quoted) == pytest.approx(cost(book, bare) / 4, rel=1e-6)


def test_a_generation_twice_as_fast_needs_half_the_machines_at_its_price(book):
    """Work by the hour alone: cost follows speed and price in proportion from the quarter on that is said."""
    bare = book.scenario.replaced(
        changes=("remove commitment held", "remove offers where term=spot", "remove offers where term=reserved_1y")
    )
    card, before = BY_NAME["A new generation is faster:"], cost(book, bare)
    for price in (100, 150):
        now = card.ask(book, bare, 2, "hour", {"from": "2027Q1", "price": price})
        assert cost(book, now) == pytest.approx(before * price / 200, rel=1e-6)
    assert card.title(2, "hour", {"from": "2027Q1", "price": 150}) == (
        "A generation after hour, 2 times as fast, from 2027Q1, price 150 % of the offer's"
    )


def test_a_new_generation_is_bought_no_sooner_than_it_can_be_had(book):
    scenario = asked(book, "A new generation is faster:", 8, "year")
    bought = purchases_of(book.with_changes(scenario.changes), scenario).purchases
    assert set(bought.loc[bought["accelerator"] == "next after H100", "quarter"]) == {"2027Q2"}


def test_a_generation_by_the_hour_serves_from_its_quarter_on(book):
    """Twice as fast from the second of two like quarters: three quarters of the cost."""
    bare = book.scenario.replaced(
        changes=("remove commitment held", "remove offers where term=spot", "remove offers where term=reserved_1y")
    )
    faster = BY_NAME["A new generation is faster:"].ask(book, bare, 2, "hour")
    assert cost(book, faster) == pytest.approx(0.75 * cost(book, bare), rel=0.01)


def test_nothing_is_signed_while_one_waits(book):
    wanted = purchases_of(book, book.scenario).purchases
    assert wanted["firm"].any()
    scenario = asked(book, "Nothing new is signed for", 1)
    found = purchases_of(book.with_changes(scenario.changes), scenario).purchases
    assert not found["firm"].any()
    assert set(found["quarter"]) <= {"2027Q2"}


def test_a_quote_states_term_prepayment_and_lot(book):
    card = BY_NAME["This quote instead:"]
    given = {"term": "reserved_3y", "prepaid": 25, "lot": 3}
    changed = book.with_changes(card.ask(book, book.scenario, 9, "hour", given).changes).offers.set_index("offer_id")
    assert "hour" not in changed.index
    row = changed.loc["quote-hour"]
    assert (row["term"], row["term_months"], row["upfront_share"], row["lot_machines"]) == ("reserved_3y", 36, 0.25, 3)
    assert (row["negotiated_usd_per_hour"], row["usd_per_hour"], row["discounts"]) == (9, 40, "units")
    assert card.title(9, "hour", given) == "A quote of 9 USD/h instead of hour, term reserved_3y, prepaid 25 %, lot 3 machines"
    same, larger = (cost(book, card.ask(book, book.scenario, 15, "year", {"lot": lot})) for lot in (1, 2))
    assert larger >= same * (1 - 2e-4), "a larger lot never costs less"


def test_a_quote_may_be_for_another_machine_and_a_card_knows_its_entries():
    example, card = example_book(), BY_NAME["This quote instead:"]
    pick = card.picks(example)[0]
    scenario = card.ask(example, example.scenario, 20, pick, {"machine": "p5.48xlarge"})
    row = example.with_changes(scenario.changes).offers.set_index("offer_id").loc[f"quote-{pick}"]
    assert (row["sku"], row["negotiated_usd_per_hour"]) == ("p5.48xlarge", 20)
    with pytest.raises(ScenarioError, match=r"This quote instead: machine 'abacus': impossible; choose same machine, "):
        card.ask(example, example.scenario, 20, pick, {"machine": "abacus"})
    with pytest.raises(ScenarioError, match=r"This quote instead: has no entry colour; it has machine, term, prepaid, lot"):
        card.ask(example, example.scenario, 20, pick, {"colour": "red"})
    generation = BY_NAME["A new generation is faster:"]
    with pytest.raises(ScenarioError, match=r"A new generation is faster: from '2035Q1': impossible; choose 2027Q1, 2027Q2"):
        generation.ask(example, example.scenario, 2, pick, {"from": "2035Q1"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"term": "for ever"}, "This quote instead: term 'for ever': impossible; choose same term, reserved_1y"),
        ({"prepaid": 130}, "This quote instead: prepaid 130 %: impossible; give 0 to 100"),
        ({"lot": 1.5}, "This quote instead: lot 1.5 machines: impossible; give a whole number"),
    ],
)
def test_an_impossible_quote_says_which_entry(book, given, said):
    with pytest.raises(ScenarioError, match=re.escape(said)):
        BY_NAME["This quote instead:"].ask(book, book.scenario, 10, "year", given)
    with pytest.raises(ScenarioError, match="give a term"):
        BY_NAME["This quote instead:"].ask(book, book.scenario, 10, "hour", {"lot": 2})


def test_a_tighter_target_never_serves_more():
    example = example_book()
    card, name = BY_NAME["Latency targets change by"], "chat"
    picks = card.picks(example)
    name = name if name in picks else picks[0]
    tight, same, loose = (speeds_under_targets(example, example.scenario, name, factor) for factor in (0.6, 1.0, 2.0))
    assert set(tight) <= set(same) <= set(loose)
    assert set(same.values()) == {1.0}
    assert all(share <= 1.0 for share in tight.values())
    assert all(share >= 1.0 for share in loose.values())
    assert any(share != 1.0 for share in (*tight.values(), *loose.values())) or tight.keys() != loose.keys()


@pytest.mark.parametrize(
    ("name", "number", "pick", "said"),
    [
        ("Demand changes by", -100, EVERYTHING, "Demand changes by -100 %: impossible; give -90 to 900"),
        ("Demand changes by", float("nan"), EVERYTHING, "impossible"),
        ("Demand changes by", 30, "nobody", "'nobody' is not in the book"),
        ("A run slips by", 2, "", "the book has nothing to pick from"),
        ("Deliveries slip by", 1.5, "", "give a whole number"),
        ("This quote instead:", 0, "year", "impossible"),
        ("Bad cases weigh", 101, "", "give 0 to 100"),
    ],
)
def test_an_impossible_card_says_which(book, name, number, pick, said):
    with pytest.raises(ScenarioError, match=said):
        asked(book, name, number, pick)


def test_every_card_makes_a_scenario_of_the_example_that_a_file_holds_to_the_last_digit(tmp_path):
    """A run without a person reads the very scenario of the column, so that it shows the same numbers."""
    example, file = example_book(), tmp_path / "scenario.yaml"
    titles = set()
    for card in CARDS:
        picks = card.picks(example) if card.picks else ("",)
        for pick in picks[:3]:
            scenario = card.ask(example, example.scenario, card.start, pick)
            assert scenario != example.scenario
            example.with_changes(scenario.changes)
            assert all(change.sentence for change in scenario.changes)
            file.write_text(scenario_text(Column("asked", scenario, "", {}, pd.DataFrame(), True), example))
            assert example.scenario_with(**overrides(None, file)) == scenario
        titles.add(card.title(card.start, picks[0]))
    assert len(titles) == len(CARDS)
    assert CARDS[0].title(30, EVERYTHING) == "Demand of all work +30 %"


def test_a_column_says_what_a_run_without_a_person_says(book, tmp_path):
    scenario = asked(book, "Demand changes by", 30, "chat")
    column = full_column("more chat", book, scenario)
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({"changes": [change.line for change in scenario.changes]}))
    words = [sys.executable, "-m", "capplan.cli", "plan", str(book.path), "--scenario", str(file), "--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["headline"] == column.headline
    tables = {name: pd.DataFrame(rows) for name, rows in found["tables"].items()}
    plan, ledger, bought = tables["alternatives"].set_index("name").loc["plan"], tables["ledger"], tables["purchases"]
    dispatch = tables["dispatch"]
    undone = dispatch["expected_work"].where(dispatch["source"] == "shortfall", 0.0).groupby(dispatch["class"]).sum()
    advised = re.search(r"; sign (\d+) contract", found["headline"])
    said = {
        "expected_usd": plan["expected_usd"],
        "contracts_advised": float(advised[1]) if advised else 0.0,
        "bad_cases_usd": plan["cvar_usd"],
        "contracts_to_sign": bought["firm"].sum(),
        "signed_now_usd": bought.loc[bought["firm"], "usd"].sum(),
        "accelerators_bought": bought["accelerators"].sum(),
        "unserved_share": (undone / dispatch.groupby("class")["expected_work"].sum()).max(),
    }
    inside = ledger[(ledger["view"] == "p_and_l") & ledger["quarter"].isin(["2027Q1", "2027Q2"])]
    said |= years_told(tables)
    owed = tables["obligations"]
    said |= {
        "signed_contracts_amount": inside.loc[inside["status"] == "signed", "amount"].sum(),
        "unserved_usd": plan["shortfall_usd"],
        "signed_and_owed_amount": owed["signed_amount"].sum() + owed["firm_amount"].sum(),
        "owed_after_the_plan_amount": owed["beyond_horizon_amount"].sum(),
    }
    assert said == dict(column.measures), "to the last digit"
    run = json.loads(next((tmp_path / "out").rglob("run.json")).read_text())
    assert [line["where"] for line in run["parameters"]["changes"]] == [{"workload": "chat"}]


def test_what_is_assumed_otherwise_is_said_of_names_and_of_changes_that_are_others(book):
    before = book.scenario.replaced(changes=("remove commitment held",))
    after = book.scenario.replaced(changes=("remove offers where term=spot",), horizon_end="count_in_full")
    assert what_changed(Column("x", after, "", {}, pd.DataFrame(), True), before) == [
        "Horizon end: truncate → Count in full.",
        "Not: Commitments held: taken out.",
        "All offers with Term spot: taken out.",
    ]


def test_a_first_answer_lies_near_the_full_one_and_columns_compare(book):
    base = full_column("today", book, book.scenario)
    scenario = asked(book, "Unsigned prices change by", 35)
    quick = first_column("dearer", book, scenario)
    assert quick is not None
    assert not quick.full
    full = full_column("dearer", book, scenario, base.signed)
    assert quick.measures["expected_usd"] == pytest.approx(full.measures["expected_usd"], rel=0.02)
    table = compared(base, full).set_index("measure")
    assert table.loc["expected_usd", "difference"] == full.measures["expected_usd"] - base.measures["expected_usd"]
    years = [name for name in table.index if name.startswith("p_and_l_")]
    assert years
    moved = full_column("none", book, scenario.replaced(changes=("remove offers where term=reserved_1y",)), base.signed)
    extra = {name for name in compared(base, moved)["measure"] if name.startswith("year, ")}
    assert bool(extra) == bool(len(base.decisions))


@pytest.mark.parametrize(
    ("name", "number", "pick"),
    [("Demand changes by", 31, EVERYTHING), ("This quote instead:", 18, "year"), ("Spot prices are multiplied by", 3, "")],
)
def test_today_s_purchases_kept_cost_no_less_than_the_best_plan(book, name, number, pick):
    """By definition: what is kept is one of the plans that the full answer chooses from."""
    purchases_of(book, book.scenario)
    scenario = asked(book, name, number, pick)
    quick = first_column(name, book, scenario, book.scenario)
    assert quick is not None
    assert not quick.full
    assert "today's purchases" in quick.headline
    full = full_column(name, book, scenario)
    neutral = book.scenario.risk_weight
    blend = [(1 - neutral) * each.measures["expected_usd"] + neutral * each.measures["bad_cases_usd"] for each in (quick, full)]
    assert blend[0] >= blend[1] * (1 - 2e-4)
    assert first_column(name, book, scenario, book.scenario) is None, "the full answer is known"


def test_what_another_kernel_planned_is_answered_from_at_once(book, cold):
    """A lab's kernel takes the plan that a report made from the folder they share; a second person's question is not answered twice."""
    scenario = asked(book, "Demand changes by", 33, EVERYTHING)
    with shared_answers():
        purchases_of(book, book.scenario)
        forget()
        quick = first_column("more", book, scenario, book.scenario)
        assert quick is not None
        assert "today's purchases" in quick.headline
        full_column("more", book, scenario)
        forget()
        assert first_column("more", book, scenario, book.scenario) is None, "the full answer is at hand"


def test_a_what_if_is_checked_once_and_another_one_anew(book, make_book, monkeypatch):
    other = load_book(make_book("other", **{**TABLES, "skus": TABLES["skus"].replace("8", "4")}))
    problem_of(other, other.scenario)
    lines = asked(book, "Spot is gone", 0).changes
    with_it = book.with_changes(lines)
    assert book.with_changes(lines) is with_it
    assert book.with_changes(asked(book, "A contract lapses:", 0, "held").changes) is not with_it
    stated = []
    monkeypatch.setattr("capplan.questions.procurement.problem.check_frames", lambda frames: stated.append(set(frames)))
    problem_of(book, book.scenario)
    problem_of(with_it, book.scenario)
    assert "offers" in stated[-1], "a table that a what-if changes is checked"
    assert "skus" not in stated[-1], "one that was checked before is not"
    assert list(problem_of(with_it, book.scenario).offers["offer_id"]) == list(with_it.offers["offer_id"])


def test_today_s_purchases_cost_under_today_what_the_plan_says(book):
    found = purchases_of(book, book.scenario)
    lots = dict(zip(zip(found.purchases["offer_id"], found.purchases["quarter"], strict=True), found.purchases["lots"], strict=True))
    kept = kept_answer(problem_of(book, book.scenario), lots)
    plan = found.alternatives.set_index("name").loc["plan"]
    assert kept.expected_usd == pytest.approx(plan["expected_usd"], rel=1e-9)
    assert kept.bad_usd == pytest.approx(plan["cvar_usd"], rel=1e-9)


def test_what_cannot_be_is_one_message(book):
    with pytest.raises(CapplanError):
        full_column("nothing to serve with", book, book.scenario.replaced(changes=("remove speeds",)))


def test_what_is_asked_about_two_books_at_once_is_stated_from_each_ones_own_tables(make_book, monkeypatch):
    """Threads of one server plan different books; what of a book was checked already never stands for another one's."""
    from concurrent.futures import ThreadPoolExecutor

    from capplan.answers import plan

    class Slow(list):
        """Lets the other threads go on as soon as something was put into it."""

        def __setitem__(self, place, value):
            super().__setitem__(place, value)
            time.sleep(0.05)

    monkeypatch.setattr(plan, "_stated", Slow())
    offers = TABLES["offers"].splitlines()
    books = [load_book(make_book("whole", **TABLES)), load_book(make_book("less", **TABLES | {"offers": "\n".join(offers[:-1]) + "\n"}))]

    def stated(turn: int) -> bool:
        book = books[turn % 2]
        asked = problem_of(book, book.scenario.replaced(risk_weight=turn / 100))
        return asked.assumptions.risk_weight == turn / 100 and list(asked.offers["offer_id"]) == list(book.get("offers")["offer_id"])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(stated, range(40)))
