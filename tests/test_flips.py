"""Flips: where the decision to sign becomes another one."""

from __future__ import annotations

import pytest

from capplan.flips import PROBES, find_flips
from capplan.inputs.book import load_book
from capplan.inputs.scenario import Scenario
from capplan.plan import firm_offers
from tests.conftest import SKUS, SOURCES
from tests.test_report import OFFERS

# constant work for 8 accelerators, and contracts that sell machines of 8: the one-year contract pays from 62.5 % use on
STATED = "scenario,probability,workload,quarter,quantity\n" + "".join(
    f"sure,1,chat,2027Q{q},{hours * 8 * 0.9}\n" for q, hours in ((1, 2160), (2, 2184), (3, 2208), (4, 2208))
)
BOOK = (
    "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 4\nproviders: [aws]\napproval_days: 0\nrisk_weight: 0\n"
    "gap_share: 0\nhorizon_end: truncate\ndiscount_rate_per_year: 0\non_demand_accelerators: 64\n"
)


@pytest.mark.slow
def test_a_decision_flips_where_the_break_even_says(make_book):
    speeds = "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,stated\n"
    book = load_book(make_book(demand_scenarios=STATED, skus=SKUS, sources=SOURCES, offers=OFFERS, speeds=speeds, book=BOOK))
    assert firm_offers(book, book.scenario) == {"one"}
    flips = find_flips(book, book.scenario).set_index("assumption")
    below = flips.loc["demand_factor", "flips_below"]
    # 0.9 of a machine is used; 20 against 32 USD/h breaks even at 0.625 of it
    assert not firm_offers(book, book.scenario.replaced(demand_factor=0.99 * 0.625 / 0.9))
    assert firm_offers(book, book.scenario.replaced(demand_factor=1.01 * 0.625 / 0.9)) == {"one"}
    assert 0.6 <= below <= 0.625 / 0.9
    assert "do not sign one" in flips.loc["demand_factor", "then"]
    assert "holds to" in flips.loc["risk_weight", "then"]


def test_probes_stay_within_the_bounds_of_their_assumption():
    scenario = Scenario()
    for probe in PROBES:
        low, high = probe.ends(scenario)
        assert low < high
        scenario.replaced(**{probe.field: low})
        scenario.replaced(**{probe.field: high})
