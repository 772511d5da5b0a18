"""Budgets: what is counted, in which quarter and currency, and that the decision is held to what the ledger then says."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.answers.budgets import Beside, book_beside, held_limits
from capplan.answers.plan import beside_compute, demand_of, expected_work, quarterly_plan
from capplan.answers.sums import quarters_of, spend
from capplan.book.book import load_book
from capplan.book.scenario import LedgerAssumptions
from capplan.errors import BookError
from capplan.questions.ledger import LedgerTables, build_ledger
from tests.cases.procurement_cases import assumptions, demand, offer, sku, solve
from tests.conftest import ROOT, SOURCES

WORKLOADS = "workload,stage,unit,host,interruptible,deferrable,shortfall_usd_per_unit\ntuning,tuning,accelerator_hours,self,false,true,20\n"
SPEEDS = "workload,accelerator,work_per_accelerator_hour,basis,as_of,source_id\ntuning,H100,1,measured,2026-11-01,s1\n"
STATED = "scenario,probability,workload,region,quarter,quantity\n" + "".join(
    f"{name},0.5,tuning,us,2027Q{q},{size}\n" for name, size in (("low", 30_000.0), ("high", 60_000.0)) for q in (1, 2)
)
SKUS = "sku,provider,accelerator,accelerator_count,power_kw,source_id\ntest.8x,aws,H100,8,10,s1\nown.8x,own,H100,8,10,s1\n"
OFFERS = (
    "offer_id,sku,region,geography,term,usd_per_hour,discounts,guarantees_capacity,as_of,source_id\n"
    "od,test.8x,us-1,us,on_demand,32,none,false,2026-12-01,s1\none,test.8x,us-1,us,reserved_1y,20,units,true,2026-12-01,s1\n"
)
CONTRACTS = "commitment_id,sku,region,term,machines,usd_per_hour,start,end\nc1,test.8x,us-1,reserved_1y,1,21,2026-10-16,2027-10-15\n"
SITES = "site,geography,available_kw,committed_kw,usd_per_kw_month,pue,usd_per_kwh,source_id\nhall,us,80,40,150,1.3,0.09,s1\n"
ASSETS = (
    "asset_id,sku,site,machines,in_service,capex_usd,residual_share,support_usd_per_year\nold,own.8x,hall,1,2025-06-10,250000,0.1,9000\n"
)
OTHER = "cost_id,month,kind,usd,amount,currency,team\nstaff,2026-12-01,people,,30000,EUR,=1+1\ndisks,2026-12-01,storage,8000,,,\n"
FX = "currency,date,usd\nEUR,2026-01-01,1.10\nEUR,2027-02-01,1.06\n"
BOOK = (
    "name: budgets\nas_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 2\nproviders: [aws, own]\nrisk_weight: 0\n"
    "gap_share: 0.0001\n"
    "on_demand_accelerators: 100000\nexcluded_offers: [own-8x-h100, own-8x-b200]\n"
)
TABLES = {
    "workloads": WORKLOADS,
    "speeds": SPEEDS,
    "demand_scenarios": STATED,
    "skus": SKUS,
    "offers": OFFERS,
    "commitments": CONTRACTS,
    "sites": SITES,
    "assets": ASSETS,
    "other_costs": OTHER,
    "fx": FX,
    "sources": SOURCES,
}
LIMITS = "limit_id,kind,amount,quarter,provider,measure,hard,currency\n"


def planned(make_book, name: str, limits: str = "", more: str = ""):
    tables = TABLES | ({"limits": LIMITS + limits} if limits else {})
    return quarterly_plan(load_book(make_book(name, **tables, book=BOOK + more)))


def test_the_plan_is_held_to_the_budget_as_the_ledger_counts_it(make_book):
    """The whole P&L, people in euros, rooms and machines included, keeps a hard budget in every quarter, and would not without it."""
    free = spend(planned(make_book, "free")).set_index("quarter")["expected"]
    tight = (free * 0.9).round(-3)
    rows = "".join(f"b{quarter},budget_usd,{amount},{quarter},,p_and_l,true,\n" for quarter, amount in tight.items())
    held = planned(make_book, "held", rows)
    now = spend(held).set_index("quarter")
    assert (now["expected"] <= tight + 1.0).all()
    assert (now["expected"] > tight * 0.98).any(), "the budget is used, so it is the whole of it that binds"
    limit = held.purchases.binding[held.purchases.binding["limit_id"].str.endswith("with expected usage")].set_index("quarter")
    for quarter in quarters_of(held):
        assert limit.loc[quarter, "used"] == pytest.approx(now.loc[quarter, "expected"], rel=1e-6), quarter
    assert any("the decision was held to the other" in note for note in held.warnings)


HERE = (
    "offer_id,sku,region,geography,term,usd_per_hour,capex_usd,term_months,lead_time_days_p50,lead_time_days_p90,discounts,"
    "guarantees_capacity,upfront_share,as_of,source_id\n"
    "od,test.8x,us-1,us,on_demand,32,,,,,none,false,,2026-12-01,s1\n"
    "one,test.8x,us-1,us,reserved_1y,20,,,,,units,true,0.3,2026-12-01,s1\n"
    "here,own.8x,hall,us,owned,0,240000,60,5,60,,true,,2026-12-01,s1\n"
)
YEAR_AND_MORE = "scenario,probability,workload,region,quarter,quantity\n" + "".join(
    f"{name},0.5,tuning,us,{quarter},{size}\n"
    for name, size in (("low", 60_000.0), ("high", 90_000.0))
    for quarter in ("2027Q1", "2027Q2", "2027Q3", "2027Q4", "2028Q1")
)


@pytest.mark.parametrize(
    ("measure", "terms", "hours", "rise"),
    [("p_and_l", 30, "calendar", 0.2), ("p_and_l", 30, "average", 0.2), ("compute", 30, "calendar", 0.2), ("compute", 30, "average", 0.2)]
    + [("cash", terms, "calendar", 0.0) for terms in (0, 30, 45, 90, 120)],
)
def test_every_measure_is_held_as_the_ledger_counts_it(make_book, measure: str, terms: int, hours: str, rise: float):
    """Machines in a room that is paid for, dear power that rises within the plan, late machines, contracts and use by the hour."""
    book = BOOK.replace("excluded_offers: [own-8x-h100, own-8x-b200]\n", "").replace("horizon_quarters: 2", "horizon_quarters: 5")
    book += "excluded_offers: [own-8x-b200, own-8x-h100]\npinned_purchases: [[here, 2027Q2, 2], [here, 2027Q4, 2], [one, 2027Q1, 1]]\n"
    site = SITES.replace("usd_per_kwh,", "usd_per_kwh,escalator_share_per_year,").replace("0.09,", f"0.09,{rise},")
    tables = TABLES | {
        "limits": LIMITS + f"b,budget_usd,2400000,,,{measure},false,\n", "offers": HERE, "sites": site, "demand_scenarios": YEAR_AND_MORE
    }  # fmt: skip
    plan = quarterly_plan(load_book(make_book("held", **tables, book=f"{book}payment_terms_days: {terms}\nhours_convention: {hours}\n")))
    binding = plan.purchases.binding
    held = binding[(binding["kind"] == "budget_usd") & binding["limit_id"].str.endswith("with expected usage")].set_index("quarter")["used"]
    counted = plan.ledger.budgets.set_index("quarter")["planned_usd"]
    assert held.to_dict() == pytest.approx(counted.to_dict(), abs=0.01)
    components = set(plan.purchases.costs.query("usd != 0")["component"])
    assert {"power_paid_for", "on_demand", "committed"} <= components


@pytest.mark.parametrize(("region", "measure"), [("", "p_and_l"), ("", "compute"), ("", "cash"), ("hall", "p_and_l"), ("hall", "cash")])
def test_a_machine_that_is_sold_saves_of_a_budget_what_was_counted_there(make_book, region: str, measure: str):
    """P&L and cash of all hold its electricity, compute and P&L of one room do not, cash of one room not its support either.

    What it was worth is written off on the day, as the ledger does, and what it was to bring at the end of its life fails to come then.
    """
    sold = "asset_id,sku,site,machines,in_service,capex_usd,residual_share,support_usd_per_year,resale_share\n"
    tables = TABLES | {
        "assets": sold + "old,own.8x,hall,2,2025-06-10,250000,0.1,9000,0.95\n",
        "limits": f"limit_id,kind,amount,region,measure,hard\nb,budget_usd,3000000,{region},{measure},false\n",
    }
    plan = quarterly_plan(load_book(make_book("sold", **tables, book=f"{BOOK}horizon_end: truncate\n")))
    (gone,) = plan.purchases.departures.to_dict("records")
    assert (gone["what"], gone["machines"], gone["quarter"]) == ("sell", 2.0, "2027Q2")
    binding = plan.purchases.binding
    held = binding[(binding["kind"] == "budget_usd") & binding["limit_id"].str.endswith("with expected usage")].set_index("quarter")["used"]
    if region:
        begun, day, over = (pd.Timestamp(each) for each in ("2025-06-10", "2027-04-01", "2030-06-10"))
        rest = 250_000 * 0.1
        counted = 250_000 * 0.9 * ((over - day) / (over - begun)) if measure == "p_and_l" else -rest
        assert held["2027Q2"] - gone["exit_usd"] == pytest.approx(counted, abs=0.01), "what it was worth less what it brings, no hour"
    else:
        assert held.to_dict() == pytest.approx(plan.ledger.budgets.set_index("quarter")["planned_usd"].to_dict(), abs=0.01)


def test_terms_of_payment_move_a_decision_that_is_held_to_cash(make_book):
    """What stands beside a decision is booked by assumptions of the ledger, so they are part of the question."""
    book = load_book(make_book("terms", **TABLES | {"limits": LIMITS + "b,budget_usd,600000,,,cash,false,\n"}, book=BOOK))
    found = [
        quarterly_plan(book, book.scenario.replaced(payment_terms_days=days)).purchases.binding.query("kind == 'budget_usd'")["used"].sum()
        for days in (0, 60)
    ]
    assert found[0] > found[1] + 10_000


def test_compute_budgets_leave_the_rest_of_the_p_and_l_alone(make_book):
    rows = "c,budget_usd,1300000,,,compute,false,\n"
    plan = planned(make_book, "compute", rows)
    entries = plan.ledger.entries
    inside = entries[(entries["view"] == "p_and_l") & entries["quarter"].isin(quarters_of(plan))]
    rest = inside[(inside["status"] == "stated") | inside["component"].isin(["power", "space"])]
    counted = plan.ledger.budgets.set_index("quarter")["planned_usd"]
    assert counted.sum() == pytest.approx(inside["usd"].sum() - rest["usd"].sum())
    assert rest["usd"].sum() > 100_000
    assert spend(plan)["budget"].isna().all(), "a budget of compute is no budget of the P&L"


def test_the_same_budget_in_euros_and_in_dollars_gives_the_same_plan(make_book):
    """The book's currency changes what is shown, never what is bought; budgets and salaries stay what they are in their own currency."""
    rate = {"2027Q1": (1.10 + 1.06 + 1.06) / 3, "2027Q2": 1.06}
    euros = "b,budget_usd,1000000,,,p_and_l,true,EUR\n"
    dollars = "".join(f"b{quarter},budget_usd,{1e6 * each!r},{quarter},,p_and_l,true,\n" for quarter, each in rate.items())
    one = planned(make_book, "dollars", dollars)
    other = planned(make_book, "euros", euros, "currency: EUR\n")
    columns = ["offer_id", "quarter", "machines", "usd"]
    assert one.purchases.purchases[columns].equals(other.purchases.purchases[columns])
    assert one.ledger.entries["usd"].tolist() == pytest.approx(other.ledger.entries["usd"].tolist())
    months = other.ledger.entries["month"]
    by_month = [1.10 if month < pd.Timestamp("2027-02-01") else 1.06 for month in months]
    assert other.ledger.entries["amount"].tolist() == pytest.approx((one.ledger.entries["usd"] / by_month).tolist())
    shown = spend(other).set_index("quarter")
    assert shown["budget"].tolist() == [1e6, 1e6], "a budget in euros is that many euros in every quarter"
    staff = other.ledger.entries.query("contract_id == 'staff' and view != 'economic'")
    assert set(staff["amount"].round(6)) == {30_000.0}, "and so are salaries, in every view and month"
    assert staff["usd"].nunique() == 2


def test_a_provider_that_bills_nothing_under_an_agreement_is_named(make_book):
    text = "agreement_id,provider,start,end,committed_usd,discount_share,drawn_usd\nedp,amazon,2026-07-01,2027-06-30,2500000,0.05,0\n"
    folder = make_book("agreed", **TABLES, spend_agreements=text, book=BOOK)
    notes = quarterly_plan(load_book(folder)).warnings
    found = next(note for note in notes if note.startswith("edp is an agreement with amazon, which bills nothing"))
    assert "Known: aws" in found


def test_a_fiscal_year_that_begins_inside_a_quarter_is_told():
    base = {"as_of": "2026-12-01", "first_quarter": "2027Q1", "horizon_quarters": 4}
    for month, told in ((1, False), (2, True), (4, False), (6, True), (12, True)):
        notes = build_ledger(LedgerAssumptions(**base, fiscal_year_first_month=month), LedgerTables()).notes
        assert any("in the middle of a calendar quarter" in note for note in notes) == told, month


def test_a_budget_that_the_ledger_cannot_see_is_told_and_held_against_nothing():
    limits = pd.DataFrame({"limit_id": ["here"], "kind": ["budget_usd"], "amount": [1.0], "measure": ["p_and_l"], "region": ["us"]})
    assert build_ledger(LedgerAssumptions(), LedgerTables(limits=limits)).budgets.empty


@pytest.mark.parametrize(
    ("table", "text", "rule"),
    [
        ("other_costs", "cost_id,month,kind,usd,amount,currency\na,2027-01-01,people,5,5,EUR\n", "a cost is stated once"),
        ("other_costs", "cost_id,month,kind,usd,amount,currency\na,2027-01-01,people,,5,\n", "a cost is stated once"),
        ("other_costs", "cost_id,month,kind,usd\na,2027-01-01,people,\n", "a cost is stated once"),
        ("limits", LIMITS + "b,budget_usd,5,,,,true,\n", "a budget must say what it counts"),
        ("limits", LIMITS + "b,power_kw,5,,,,true,EUR\n", "only budgets are amounts of money"),
    ],
)
def test_amounts_that_say_too_little_or_too_much_are_refused(make_book, table, text, rule):
    with pytest.raises(BookError, match=rule):
        load_book(make_book("bad", **(TABLES | {table: text}), book=BOOK))


@pytest.mark.parametrize("moved", [{"demand_factor": 1.3}, {"demand_factor": 0.6}, {"price_factor": 1.3}, {"discount_rate_per_year": 0.2}])
@pytest.mark.parametrize("name", ["api_first", "on_prem"])
def test_what_is_spent_beside_a_decision_follows_demand_and_nothing_else_that_is_moved(name: str, moved: dict[str, float]):
    """It is booked once and scaled; here the ledger books it anew."""
    book = load_book(ROOT / "data" / name)
    scenario = book.scenario.replaced(**moved)
    found, work = beside_compute(book, scenario), expected_work(demand_of(book, scenario).paths)
    booked = book_beside(book, scenario, work)
    for view in ("p_and_l", "cash"):
        pd.testing.assert_series_equal(found.spent(view=view), booked.spent(view=view), rtol=1e-9)
        assert booked.spent(view=view).gt(0).any()


def test_what_no_purchase_changes_is_taken_off_by_measure_and_provider():
    fixed = pd.DataFrame(
        [("2027Q1", "p_and_l", "aws", False, 7.0), ("2027Q1", "p_and_l", "", True, 5.0), ("2027Q1", "cash", "", True, 3.0)],
        columns=["quarter", "view", "provider", "beside", "usd"],
    )
    rows = [("all", "p_and_l", None), ("cash", "cash", None), ("aws", "p_and_l", "aws"), ("parts", "compute", None)]
    limits = pd.DataFrame(
        [
            {"limit_id": name, "kind": "budget_usd", "amount": 100.0, "quarter": None, "measure": measure, "provider": provider}
            | dict.fromkeys(("region", "accelerator", "team", "currency"))
            for name, measure, provider in rows
        ]
    )
    found = held_limits(limits, pd.DataFrame(), Beside(fixed, pd.DataFrame()), ["2027Q1", "2027Q2"], 30).set_index("limit_id")["taken_usd"]
    assert found.dropna().to_dict() == {
        "all 2027Q1": 12.0, "all 2027Q2": 0.0, "cash 2027Q1": 3.0, "cash 2027Q2": 0.0, "aws 2027Q1": 7.0, "aws 2027Q2": 0.0
    }  # fmt: skip
    assert found.index[found.isna()].tolist() == ["parts"]


def test_capex_counts_in_the_quarter_in_which_it_is_paid():
    """A machine for the second quarter, signed for in the first, takes of the first quarter's capital."""
    own = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=10_000.0, term_months=60, lead_time_days_p50=85.0)
    machines, dear = [sku("gpu"), sku("own", provider="own", power_kw=2.0)], offer("od", "on_demand", 20.0)

    def lots(quarter: str | None, hard: bool = True) -> float:
        capital = [{"limit_id": "capital", "kind": "budget_usd", "amount": 25_000.0, "measure": "capex", "quarter": quarter, "hard": hard}]
        plan = solve(demand([[0.0, 10.0]]), [dear, own], a=assumptions(approval_days=0), limits=capital, skus=machines)
        assert set(plan.purchases["quarter"]) == {"2027Q2"}
        return float(plan.purchases["lots"].sum())

    assert lots("2027Q1") == 2
    assert lots(None) == 2
    assert lots("2027Q2") == 10, "the quarter of delivery pays nothing"
