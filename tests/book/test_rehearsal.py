"""A passing check means that the plan gets as far as the solver: what stops the plan is what the check says."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.answers.plan import problem_of
from capplan.answers.readiness import readiness
from capplan.book.book import load_book
from capplan.book.tables.registry import columns_of
from capplan.errors import CapplanError
from capplan.questions.procurement.decide import state_problem
from tests.book.test_readiness import BLOCK, CONTRACT, SOURCES, SPEEDS, USAGE, WORKLOADS, book

OFFER = (
    "offer_id,sku,region,geography,term,term_months,usd_per_hour,discounts,guarantees_capacity,as_of,source_id\n"
    "quote,p5.48xlarge,us-east-1,us,reserved_1y,12,30,units,true,2026-11-01,q\n"
)
RICH = {
    "speeds": SPEEDS,
    "sources": SOURCES,
    "offers": OFFER,
    "commitments": CONTRACT,
    "limits": (
        "limit_id,kind,amount,provider,measure,hard\nbudget,budget_usd,9000000,,cash,false\nquota,on_demand_accelerators,640,aws,,true\n"
    ),
    "offer_tiers": "offer_id,from_lots,usd_per_hour\nquote,4,28\n",
    "offer_payments": "offer_id,months_after_start,share\nquote,0,0.5\nquote,6,0.5\n",
    "price_states": "state,probability,spot_factor\nusual,0.8,1\nscarce,0.2,2\n",
    "delivery_states": "state,probability,provider,late_days\nin time,0.7,aws,0\nlate,0.3,aws,60\n",
    "spend_agreements": (
        "agreement_id,provider,start,end,committed_usd,discount_share,drawn_usd,rolls_over\n"
        "edp,aws,2026-07-01,2027-06-30,900000,0.03,400000,false\n"
    ),
    "events": "event_id,workload,date,kind,factor,level\nlaunch,train,2027-02-01,launch,1.2,\n",
    "training_runs": "run_id,workload,quantity,start,deadline\nbase,train,24000,2027-01-18,2027-03-15\n",
    "growth_statements": "statement_id,workload,kind,value,unit\nboard,train,growth,0.3,share_per_year\n",
    "planner_forecasts": "workload,month,quantile,quantity\ntrain,2027-01-01,0.5,2000\ntrain,2027-01-01,0.9,2500\n",
}
#: What is wrong: table or book.yaml, the text that is put in the place of another, and what the check must name.
FLAWS = {
    "shares of instalments": ("offer_payments", "6,0.5", "6,0.3", "quote"),
    "a tier above the price": ("offer_tiers", "4,28", "4,31", "quote"),
    "probabilities of prices": ("price_states", "scarce,0.2", "scarce,0.3", "price_states"),
    "probabilities of deliveries": ("delivery_states", "late,0.3", "late,0.4", "delivery_states"),
    "an event of neither kind": ("events", "launch,1.2,", "launch,,", "events"),
    "a run without a size": ("training_runs", "train,24000", "train,", "a run needs its quantity"),
    "growth in a wrong unit": ("growth_statements", "share_per_year", "units_per_day", "growth_statements: board"),
    "quantiles that cross": ("planner_forecasts", "0.9,2500", "0.9,1500", "so they cross"),
    "work after its last day": ("workloads", "unit\n", "unit,last_day\n", "last_day"),
    "a pin of no offer": ("book", "", "pinned_purchases: {nothing: {2027Q1: 1}}\n", "pinned_purchases"),
    "a block that has begun": ("offers", OFFER, BLOCK.format(start="2026-01-01", end="2026-03-31"), "the capacity block"),
    "a delay target without jobs": ("book", "", "training_delay_target_hours: 4\n", "jobs"),
}


def made(folder, flaw: str | None = None):
    tables, settings = {**RICH, "workloads": WORKLOADS.format(unit="accelerator_hours")}, ""
    if flaw is not None:
        table, old, new, _ = FLAWS[flaw]
        if table == "book":
            settings = new
        else:
            assert old in tables[table]
            tables[table] = tables[table].replace(old, new)
        if flaw == "work after its last day":
            tables["workloads"] = tables["workloads"].replace("hours\n", "hours,2026-11-10\n")
        if table == "offers":
            tables = {name: text for name, text in tables.items() if name not in ("offer_tiers", "offer_payments")}
    return load_book(book(folder, "plan_paths: 2\npaths: 20\n" + settings, **tables))


def why_no_plan(loaded) -> str:
    """Carry a book as far as the solver with its own forecast; say what stops it."""
    try:
        state_problem(problem_of(loaded, loaded.scenario))
    except CapplanError as error:
        return str(error)
    return ""


def test_a_rich_book_passes_and_its_plan_starts(tmp_path):
    loaded = made(tmp_path)
    assert readiness(loaded, loaded.scenario) == []
    assert why_no_plan(loaded) == ""


@pytest.mark.parametrize("flaw", FLAWS)
def test_what_stops_the_plan_is_what_the_check_says(tmp_path, flaw):
    try:
        loaded = made(tmp_path, flaw)
        found = readiness(loaded, loaded.scenario)
    except CapplanError as error:  # the tables themselves are refused, by the check as by the plan
        found = [str(error)]
    assert found
    assert any(FLAWS[flaw][3] in reason for reason in found), found


@pytest.mark.parametrize("seed", range(3))
def test_books_that_are_changed_at_random_start_wherever_the_check_passes(tmp_path, seed):
    """Tables are left out and cells are emptied, zeroed, blown up or made negative; whatever loads and passes must start."""
    generator = np.random.default_rng(seed)
    passed = 0
    for number in range(8):
        tables = {**RICH, "usage": USAGE, "workloads": WORKLOADS.format(unit="accelerator_hours")}
        for name in generator.choice(sorted(set(tables) - {"usage", "workloads"}), generator.integers(0, 4), replace=False):
            del tables[name]
        name = str(generator.choice(sorted(set(tables) - {"usage"})))
        header, *rows = tables[name].splitlines()
        row, place = int(generator.integers(len(rows))), int(generator.integers(header.count(",") + 1))
        cells = rows[row].split(",")
        cells[place] = str(generator.choice(["", "0", "1", "-1", "1e9", "0.5", "2027-01-01", "train", "any"]))
        rows[row] = ",".join(cells)
        tables[name] = "\n".join([header, *rows]) + "\n"
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            loaded = load_book(book(folder, "plan_paths: 1\npaths: 10\nload_blocks: 2\n", **tables))
        except CapplanError:
            continue
        if not readiness(loaded, loaded.scenario):
            passed += 1
            assert why_no_plan(loaded) == "", (number, name, columns_of(name)[place].name, cells[place])
    assert passed
