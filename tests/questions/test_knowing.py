"""What knowing would have been worth: by hand, by a plan with pinned purchases, and nothing where all came as planned."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.answers.plan import quarterly_plan
from capplan.answers.review import ALL, DELIVERY, DEMAND, PLANNED, PRICES, knowing_of
from capplan.book.accepted import AcceptedPlan
from capplan.book.book import load_book
from capplan.book.scenario import ProcurementAssumptions
from capplan.outputs.views.plan_tables import planned_work
from capplan.questions.procurement import demand_that_came, keep_decision, signed_now, worth_of_knowing
from capplan.questions.review.what_came import deliveries_that_came, prices_that_came, work_that_came
from tests.cases.procurement_cases import BASE, demand, offer, problem, solve
from tests.conftest import SKUS, SOURCES

A = ProcurementAssumptions(**(BASE | {"horizon_quarters": 3, "approval_days": 0, "demand_branches": 1}))
ROWS = [offer("hour", "on_demand", 4.0), offer("year", "reserved_1y", 1.0)]
HOURS = 2190


def test_what_was_bought_too_much_is_what_knowing_would_have_saved():
    planned, came = (problem(demand([[level] * 3]), ROWS, A) for level in (10.0, 4.0))
    signed = {("year", "2027Q1"): 10.0}
    found = worth_of_knowing(signed, {"as planned": planned, "demand": came}).set_index("known")
    assert found.at["as planned", "worth_usd"] == 0
    assert not found.at["as planned", "beyond_gap"]
    # six accelerators for three quarters, for nothing
    assert found.at["demand", "worth_usd"] == pytest.approx(6 * 3 * HOURS * 1.0)
    assert found.at["demand", "would_have_signed"] == "year from 2027Q1: 4 lots"
    assert keep_decision(came, signed).regret_share == pytest.approx(found.at["demand", "worth_share"])
    # of too few, each hour of the first quarter costs what on demand is dearer; more can be signed for the second
    more = worth_of_knowing(signed, {"demand": problem(demand([[12.0] * 3]), ROWS, A)})
    assert more["worth_usd"].tolist() == [pytest.approx(2 * HOURS * 3.0)]


def test_what_could_not_be_signed_in_that_world_has_no_worth():
    found = worth_of_knowing({("gone", "2027Q1"): 1.0}, {"demand": problem(demand([[4.0] * 3]), ROWS, A)})
    assert found["worth_usd"].isna().all()
    assert not found["beyond_gap"].any()


levels = st.lists(st.integers(0, 12).map(float), min_size=3, max_size=3)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(levels, min_size=1, max_size=3), levels)
def test_knowing_is_never_worth_less_than_nothing_and_is_what_pinned_purchases_cost_more(paths, came):
    work = demand(paths)
    signed = signed_now(solve(work, ROWS, A).purchases)
    known = pd.DataFrame([("work", "us", quarter, 1.0, 1.0) for quarter in ("2027Q1", "2027Q2", "2027Q3")])
    known.columns = ["class", "region", "quarter", "ratio", "measured_share"]
    mean = work.assign(each=work["work_per_hour"] * work["probability"]).groupby("quarter")["each"].sum()
    known["ratio"] = [level / mean[quarter] if mean[quarter] else 1.0 for level, quarter in zip(came, known["quarter"], strict=True)]
    world = demand_that_came(work, known)
    assert (world.groupby("quarter")["work_per_hour"].nunique() == 1).all(), "what was measured is the same on all paths"
    found = worth_of_knowing(signed, {"demand": problem(world, ROWS, A)}).iloc[0]
    assert found["worth_usd"] >= 0
    best = solve(world, ROWS, A).proof.upper_usd
    every = {("year", quarter): 0 for quarter in known["quarter"]} | {key: int(lots) for key, lots in signed.items()}
    firm = {key for key in every if key in signed or key[1] == "2027Q1"}
    pins = tuple((*key, every[key]) for key in sorted(firm))
    kept = solve(world, ROWS, A.model_copy(update={"pinned_purchases": pins})).proof.upper_usd
    assert found["worth_usd"] == pytest.approx(max(kept - best, 0.0), abs=1e-6)
    same = worth_of_knowing(signed, {"as planned": problem(work, ROWS, A)})
    assert same["worth_usd"].iloc[0] == pytest.approx(0.0, abs=1e-6)


def test_work_that_came_keeps_the_plans_hours_and_what_was_not_measured_stays_uncertain():
    work = demand([[10.0, 10.0, 10.0], [30.0, 30.0, 30.0]])
    known = pd.DataFrame({"class": ["work"], "region": ["us"], "quarter": ["2027Q1"], "ratio": [1.0], "measured_share": [0.5]})
    # the measured half of the quarter had as much work as all of it was expected to have
    found = demand_that_came(work, known).pivot_table(index="path", columns="quarter", values="work_per_hour")
    assert found["2027Q1"].tolist() == [20.0 + 5.0, 20.0 + 15.0]
    assert found["2027Q2"].tolist() == [10.0, 30.0]


def test_what_came_is_told_in_the_terms_of_the_plan():
    months = pd.to_datetime(["2027-01-01", "2027-02-01", "2027-03-01"])
    planned = pd.DataFrame({"workload": "a", "class": "k", "region": "us", "month": months, "expected": [100.0, 100.0, 200.0]})
    compared = pd.DataFrame({"workload": "a", "region": "us", "month": months[:2], "planned": [100.0, 100.0], "actual": [150.0, 150.0]})
    found = work_that_came(planned, compared)
    assert found.to_dict("records") == [{"class": "k", "region": "us", "quarter": "2027Q1", "ratio": 0.75, "measured_share": 0.5}]
    use = pd.DataFrame({"provider": "aws", "accelerator": "H100", "kind": ["on_demand", "spot", "committed"], "hours": 10.0})
    mine, theirs = use.assign(amount=[40.0, 20.0, 5.0]), use.assign(amount_at_plan_rates=[50.0, 20.0, 9.0])
    assert prices_that_came(mine, theirs).values.tolist() == [["aws", "H100", "on_demand", 1.25]]
    signed = pd.DataFrame({"offer_id": ["x", "x", "y"], "quarter": "2027Q2", "starts": pd.Timestamp("2027-04-01")})
    offers = pd.DataFrame({"offer_id": ["x", "y"], "sku": ["m", "n"], "region": "r", "term": "reserved_1y"})
    held = pd.DataFrame(
        [("old", "m", "2026-01-01"), ("one", "m", "2027-05-01"), ("two", "m", "2027-07-01")], columns=["commitment_id", "sku", "start"]
    ).assign(region="r", term="reserved_1y", start=lambda rows: pd.to_datetime(rows["start"]))
    late = deliveries_that_came(signed, offers, held, pd.Timestamp("2027-01-01"))
    assert late["commitment_id"].tolist() == ["one", "two", None]
    assert late["late_days"].tolist()[:2] == [30.0, 91.0]


ENTRIES = """as_of: 2026-12-31
first_quarter: 2027Q1
horizon_quarters: 4
approval_days: 0
horizon_end: truncate
gap_share: 0
discount_rate_per_year: 0
providers: [aws]
"""
OFFERS = (
    "offer_id,sku,region,geography,term,usd_per_hour,guarantees_capacity,discounts,as_of,source_id\n"
    "hour,test.8x,us-1,us,on_demand,32,false,none,2026-12-01,s1\nyear,test.8x,us-1,us,reserved_1y,12,true,units,2026-12-01,s1\n"
)


def reviewed(make_book, commitments: str = "", **came: pd.DataFrame):
    """Plan a book whose demand is certain, and ask what knowing what came would have been worth."""
    rows = "".join(f"base,1,chat,us,2027Q{n},{16 * hours}\n" for n, hours in enumerate((2160, 2184, 2208, 2208), 1))
    folder = make_book(
        book=ENTRIES,
        skus=SKUS,
        sources=SOURCES,
        offers=OFFERS,
        workloads="workload,stage,unit\nchat,tuning,accelerator_hours\n",
        speeds="workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,stated\n",
        **({"commitments": commitments} if commitments else {}),
        demand_scenarios="scenario,probability,workload,region,quarter,quantity\n" + rows,
    )
    book = load_book(folder)
    plan = quarterly_plan(book)
    bought = plan.purchases.purchases.query("firm")
    accepted = AcceptedPlan(
        book.name,
        plan.headline,
        pd.Timestamp("2026-12-31"),
        "USD",
        pd.DataFrame(),
        planned_work(plan, book.get("workloads")),
        Path("plan"),
        plan.scenario.model_dump(mode="json"),
        book.digests,
        bought.assign(starts=pd.Timestamp("2027-01-01"))[["offer_id", "quarter", "machines", "starts"]],
    )
    work = accepted.work
    compared = work[work["month"] < "2027-04-01"].rename(columns={"expected": "planned"})
    given = {"factor": 1.0, **came}
    work_came = work_that_came(work, compared.assign(actual=compared["planned"] * given["factor"]))
    none = pd.DataFrame(columns=["provider", "accelerator", "term", "factor"])
    return knowing_of(book, accepted, SimpleNamespace(work_came=work_came, prices_came=came.get("prices", none))), bought


def test_a_plan_reviewed_on_exactly_its_own_demand_is_worth_nothing(make_book):
    knowing, bought = reviewed(make_book)
    assert bought["offer_id"].tolist() == ["year"]
    table = knowing.table.set_index("known")
    assert table.index.tolist() == [PLANNED, DEMAND, ALL]
    assert table["worth_usd"].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert "no more than is proven" in knowing.headline


def test_each_wrong_assumption_is_told_alone_and_all_at_once(make_book):
    cheap = pd.DataFrame({"provider": ["aws"], "accelerator": ["H100"], "term": ["on_demand"], "factor": [0.25]})
    table = reviewed(make_book, factor=0.5, prices=cheap)[0].table.set_index("known")
    assert table.index.tolist() == [PLANNED, DEMAND, PRICES, ALL]
    # on demand at 8 an hour instead of two machines at 12 for a year
    assert table.at[PRICES, "worth_usd"] == pytest.approx(2 * 4 * 8760, rel=1e-6)
    assert table.at[PRICES, "would_have_signed"] == "nothing"
    # the second machine could have come a quarter later
    assert table.at[DEMAND, "worth_usd"] == pytest.approx(12 * 2160, rel=1e-6)
    # all at once: both, since half of the first quarter's machines wait
    assert table.at[ALL, "worth_usd"] == pytest.approx(2 * 4 * 8760 + 8 * 2160, rel=1e-6)
    assert DELIVERY not in table.index


def test_contracts_that_began_later_are_told_and_are_not_held_twice(make_book):
    head = "commitment_id,sku,region,term,machines,usd_per_hour,start,end\n"
    late = head + "ours,test.8x,us-1,reserved_1y,2,12,2027-07-01,2028-06-30\n"
    known = reviewed(make_book)[0].table.set_index("known")
    # the plan of that book, which has signed already, buys nothing; what it had signed is put in its place
    book = load_book(make_book(commitments=late))
    signed = pd.DataFrame({"offer_id": ["year"], "quarter": "2027Q1", "machines": 2.0, "starts": pd.Timestamp("2027-01-01")})
    plan = AcceptedPlan(book.name, "", pd.Timestamp("2026-12-31"), "USD", pd.DataFrame(), pd.DataFrame(), Path("plan"), {}, {}, signed)
    none = pd.DataFrame()
    found = knowing_of(book, plan, SimpleNamespace(work_came=none, prices_came=none)).table.set_index("known")
    assert found.index.tolist() == [PLANNED, DELIVERY, ALL]
    assert found.at[PLANNED, "worth_usd"] == pytest.approx(0.0, abs=1e-6)
    assert found.at[PLANNED, "would_have_signed"] == known.at[PLANNED, "would_have_signed"]
    # two quarters late whatever one knew: the same would have been signed
    assert found.at[DELIVERY, "worth_usd"] == pytest.approx(0.0, abs=1e-6)
    assert found.at[DELIVERY, "would_have_signed"] == "year from 2027Q3: 2 lots"


def test_an_offer_that_is_gone_is_said(make_book):
    book = load_book(reviewed(make_book) and make_book())
    signed = pd.DataFrame({"offer_id": ["gone"], "quarter": "2027Q1", "machines": 2.0, "starts": pd.Timestamp("2027-01-01")})
    plan = AcceptedPlan(book.name, "", pd.Timestamp("2026-12-31"), "USD", pd.DataFrame(), pd.DataFrame(), Path("plan"), {}, {}, signed)
    found = knowing_of(book, plan, SimpleNamespace(work_came=pd.DataFrame(), prices_came=pd.DataFrame()))
    assert found.table.empty
    assert "gone is no offer of the book any more" in found.told[0]
