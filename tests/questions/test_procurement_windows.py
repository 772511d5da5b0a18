"""What is rented by the hour only from or until a day, against costs by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.questions.procurement import first_answer
from tests.cases.procurement_cases import assumptions, demand, offer, settle, sku, work_class

HOURS = 2190.0
DEAR = offer("dear", "on_demand", 4.0)


def rented(offers, quarters=4, **values):
    """Return the quarters in which work is left undone, and what runs where."""
    a = assumptions(horizon_quarters=quarters, **values)
    found = settle(demand([[10.0] * quarters]), offers, a, classes=[work_class(interruptible=True)])
    dispatch = first_answer(found).dispatch
    gone = dispatch[dispatch["source"] == "shortfall"].groupby("quarter")["expected_work"].sum()
    return gone[gone > 1e-6].index.tolist(), dispatch


@pytest.mark.parametrize("term", ["on_demand", "spot"])
@pytest.mark.parametrize(
    ("window", "without"),
    [
        ({}, []),
        ({"available_from": pd.Timestamp("2027-07-01")}, ["2027Q1", "2027Q2"]),
        ({"available_from": pd.Timestamp("2027-07-02")}, ["2027Q1", "2027Q2", "2027Q3"]),
        ({"available_to": pd.Timestamp("2027-06-30")}, ["2027Q3", "2027Q4"]),
        ({"available_from": pd.Timestamp("2027-04-01"), "available_to": pd.Timestamp("2027-09-30")}, ["2027Q1", "2027Q4"]),
    ],
)
def test_nothing_is_rented_outside_the_window(term, window, without):
    found, dispatch = rented([offer("hour", term, 1.0, **window)], spot_accelerators=100.0)
    assert found == without
    used = dispatch[dispatch["source"] == term]
    assert used["expected_accelerator_hours"].sum() == pytest.approx(10 * HOURS * (4 - len(without)))


def test_a_cheaper_offer_that_comes_later_is_never_counted_too_early():
    late = offer("late", "on_demand", 1.0, available_from=pd.Timestamp("2027-07-01"))
    found, dispatch = rented([DEAR | {"available_from": pd.NaT}, late])
    assert found == []
    assert dispatch.loc[dispatch["source"] == "on_demand", "expected_usd"].sum() == pytest.approx(10 * HOURS * 4 * 4.0)


def test_another_provider_serves_until_the_window_opens():
    late = offer("late", "on_demand", 1.0, sku="other", available_from=pd.Timestamp("2027-07-01"))
    a = assumptions(horizon_quarters=4)
    found = settle(demand([[10.0] * 4]), [DEAR | {"available_from": pd.NaT}, late], a, skus=[sku("gpu"), sku("other", provider="rival")])
    # two quarters at four dollars an hour, two at one
    assert found.solution.upper == pytest.approx(10 * HOURS * (2 * 4.0 + 2 * 1.0), rel=0.02)
