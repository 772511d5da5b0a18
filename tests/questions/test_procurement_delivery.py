"""Deliveries that slip are bridged at a price, and the plan counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import lognorm

from capplan.answers.plan import quarterly_plan
from capplan.book.book import load_book
from capplan.book.scenario import LedgerAssumptions
from capplan.outputs.workbook.workbook import write_workbook
from capplan.questions.ledger import Ledger, LedgerTables, build_ledger
from capplan.questions.procurement import Purchases
from capplan.questions.procurement.supply.late_deliveries import NORMAL_P90, expected_slip_days
from tests.cases.procurement_cases import assumptions, demand, offer, sku, solve
from tests.questions.test_procurement_clashes import TABLES

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)


@pytest.mark.parametrize(("days", "p50", "p90"), [(90, 60, 90), (60, 60, 90), (100, 60, 180), (300, 125, 180)])
def test_the_closed_form_is_the_integral_of_what_lies_beyond(days: float, p50: float, p90: float) -> None:
    law = lognorm(np.log(p90 / p50) / NORMAL_P90, scale=p50)
    assert law.ppf([0.5, 0.9]) == pytest.approx([p50, p90])
    assert float(expected_slip_days(days, p50, p90)) == pytest.approx(quad(law.sf, days, np.inf, epsabs=1e-10)[0], rel=1e-6, abs=1e-8)


def test_a_sure_delivery_slips_by_nothing() -> None:
    assert expected_slip_days([0.0, 30.0, 90.0], [0.0, 30.0, 90.0], [0.0, 30.0, np.nan]).tolist() == [0.0, 0.0, 0.0]


def test_a_plan_pays_for_the_expected_bridge() -> None:
    row = offer("c", "lease", 1.0, term_months=3, lead_time_days_p50=90.0, lead_time_days_p90=120.0)
    plan = solve(demand([[0.0, 5.0]]), [ON_DEMAND, row])
    slip = float(expected_slip_days(90.0, 90.0, 120.0))
    assert plan.purchases["bridge_usd"].tolist() == [pytest.approx(5 * slip * 24 * (4.0 - 1.0))]
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * 1.0 + plan.purchases["bridge_usd"].sum())
    assert any("deliveries that slip" in note for note in plan.notes)
    sure = solve(demand([[0.0, 5.0]]), [ON_DEMAND, row | {"lead_time_days_p90": None}])
    assert sure.purchases["bridge_usd"].tolist() == [0.0]


def test_a_bridge_that_costs_more_than_the_contract_saves_decides_against_it() -> None:
    """Short of supply elsewhere, the bridge is the shortfall price: a contract that just pays without slipping no longer does."""
    row = offer("c", "lease", 24.0, term_months=3, lead_time_days_p50=90.0, lead_time_days_p90=300.0)
    assert solve(demand([[0.0, 5.0]]), [row | {"lead_time_days_p90": None}]).purchases["lots"].tolist() == [5]
    cheap = solve(demand([[0.0, 5.0]]), [row], assumptions(serving_shortfall_usd_per_accelerator_hour=200.0))
    assert cheap.purchases.empty


def booked(plan: Purchases) -> Ledger:
    """Book a plan that has nothing but its purchases and what it rents."""
    a = LedgerAssumptions(as_of="2027-01-01", first_quarter="2027Q1", horizon_quarters=2, hours_convention="average")
    return build_ledger(
        a, LedgerTables(purchases=plan.purchases, dispatch=plan.dispatch, costs=plan.costs, skus=pd.DataFrame([sku("gpu")]))
    )


def test_the_ledger_does_not_pay_for_machines_that_are_late() -> None:
    """Half of the second quarter late in one case of four: what is rented then is booked, and the lease is not paid for it."""
    states = pd.DataFrame({"state": ["on time", "late"], "probability": [0.75, 0.25], "late_days": [0.0, 91 / 2]})
    plan = solve(
        demand([[0.0, 5.0]]), [ON_DEMAND, offer("c", "lease", 1.0, term_months=3, lead_time_days_p50=30.0)], delivery_states=states
    )
    spent = plan.costs[plan.costs["component"] != "shortfall"]
    expected = float((spent["probability"] * spent["usd"]).sum())
    ledger = booked(plan)
    assert ledger.total("p_and_l") == pytest.approx(ledger.total("billed")) == pytest.approx(ledger.total("cash"))
    late = ledger.entries.query("component == 'late_delivery' and view == 'p_and_l'")
    assert late["usd"].sum() == pytest.approx(-0.25 * 5 * HOURS / 2 * 1.0, rel=1e-6)
    assert ledger.total("p_and_l") == pytest.approx(expected, rel=5e-3), "the ledger has the quarter's own days, the plan average ones"
    band = ledger.band.query("period == 'all'").set_index("quantile")["usd"]
    assert band[0.9] - band[0.1] == pytest.approx(5 * HOURS / 2 * (4.0 - 1.0), rel=1e-6)


def test_a_book_with_late_deliveries_has_a_plan_a_ledger_and_a_workbook_that_adds_up(make_book: Any, tmp_path: Path) -> None:
    import openpyxl

    offers = (
        TABLES["offers"]
        .replace("usd_per_hour,", "usd_per_hour,lead_time_days_p50,")
        .replace("demand,32,", "demand,32,0,")
        .replace("1y,20,", "1y,20,30,")
    )
    work = TABLES["demand_scenarios"] + TABLES["demand_scenarios"].split("\n", 1)[1].replace("2027Q1", "2027Q2")
    more = {
        "limits": "limit_id,kind,amount\nod,on_demand_accelerators,400\n",
        "delivery_states": "state,probability,late_days\non time,0.75,0\nlate,0.25,40\n",
    }
    folder = make_book(
        **(
            TABLES
            | more
            | {"offers": offers, "demand_scenarios": work, "book": TABLES["book"].replace("quarters: 1", "quarters: 2\nproviders: [aws]")}
        )
    )
    book = load_book(folder)
    plan = quarterly_plan(book)
    saved = plan.purchases.costs.query("component == 'late_delivery'")
    assert not plan.purchases.branches.empty
    assert (saved["usd"] < 0).any()
    booked_late = plan.ledger.entries.query("component == 'late_delivery' and view == 'billed'")
    assert booked_late["usd"].sum() == pytest.approx(float((saved["probability"] * saved["usd"]).sum()))
    sheet = openpyxl.load_workbook(write_workbook(plan, book, tmp_path / "plan.xlsx"), data_only=True)["Checks"]
    assert all(row[1] is True for row in sheet.iter_rows(min_row=6, values_only=True))


def test_the_ledger_says_that_an_expected_bridge_is_not_booked() -> None:
    row = offer("c", "lease", 1.0, term_months=3, lead_time_days_p50=90.0, lead_time_days_p90=120.0)
    assert any(
        "which slip are expected to cost until they arrive count in the plan's cost and are not booked" in note
        for note in booked(solve(demand([[0.0, 5.0]]), [ON_DEMAND, row])).notes
    )
    assert not any("slip" in note for note in booked(solve(demand([[0.0, 5.0]]), [ON_DEMAND, row | {"lead_time_days_p90": None}])).notes)
