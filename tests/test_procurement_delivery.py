"""Deliveries that slip are bridged at a price, and the plan counts it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import lognorm

from capplan.questions.procurement.delivery import NORMAL_P90, expected_slip_days
from tests.procurement_cases import assumptions, demand, offer, solve

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
