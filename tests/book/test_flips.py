"""Flips: where the decision to sign becomes another one."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.answers.flips import FLIP_SHARE, PROBES, Asking, Search, find_flips
from capplan.answers.plan import keep_in, problem_of, purchases_of
from capplan.book.book import load_book
from capplan.book.scenario import Scenario
from capplan.questions.procurement import Kept, signed_now
from tests.conftest import SKUS, SOURCES
from tests.outputs.test_report import OFFERS

# constant work for 8 accelerators, and contracts that sell machines of 8: the one-year contract pays from 62.5 % use on
STATED = "scenario,probability,workload,quarter,quantity\n" + "".join(
    f"sure,1,chat,2027Q{q},{hours * 8 * 0.9}\n" for q, hours in ((1, 2160), (2, 2184), (3, 2208), (4, 2208))
)
BOOK = (
    "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 4\nproviders: [aws]\napproval_days: 0\nrisk_weight: 0\n"
    "gap_share: 0\nhorizon_end: truncate\ndiscount_rate_per_year: 0\non_demand_accelerators: 64\n"
)


def small_book(make_book):
    """A book of one workload and two offers."""
    speeds = "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,stated\n"
    return load_book(make_book(demand_scenarios=STATED, skus=SKUS, sources=SOURCES, offers=OFFERS, speeds=speeds, book=BOOK))


def test_a_value_at_the_edge_is_judged_to_ever_finer_gaps(make_book, monkeypatch):
    book, asked = small_book(make_book), []

    def kept(problem, signed, warm, stated):
        asked.append(problem.assumptions.gap_share)
        return Kept(0.0107 if len(asked) > 1 else 0.0097, {})

    monkeypatch.setattr("capplan.questions.procurement.hindsight.kept_decision.keep_decision", kept)
    ask = Asking(book, book.scenario.replaced(gap_share=0.0025), {})
    assert ask("demand_factor", 1.6, 0.01, (0.0005, 0.0001)).regret_share == 0.0107
    assert asked == [0.0025, 0.0005]
    assert ask("demand_factor", 1.6, 0.0107, (0.0005, 0.0001)).regret_share == 0.0107
    assert asked[2:] == [0.0025, 0.0005, 0.0001]
    assert ask("demand_factor", 1.6, 0.02, (0.0005, 0.0001)).regret_share == 0.0107
    assert asked[5:] == [0.0025]


def test_what_moves_supply_or_prices_alone_is_stated_as_if_anew(make_book):
    book = small_book(make_book)
    ask = Asking(book, book.scenario, {})
    for probe in PROBES:
        for value in probe.ends(book.scenario):
            moved = book.scenario.replaced(**{probe.field: value})
            found, anew = ask.problem(moved), problem_of(book, moved)
            for name in vars(anew).keys() - {"laid_out"}:
                here, there = getattr(found, name), getattr(anew, name)
                assert here.equals(there) if isinstance(there, pd.DataFrame) else here == there, (probe.field, name)
    assert len(ask.problems) == 3  # demand as it is, less of it, more of it


def test_where_nothing_that_counts_is_moved_the_answer_is_that_of_today(make_book, monkeypatch):
    book = small_book(make_book)
    ask = Asking(book, book.scenario, signed_now(purchases_of(book, book.scenario).purchases))
    today = ask.today()
    monkeypatch.setattr("capplan.answers.flips.tell_kept", lambda *_: Kept(0.5, None))
    assert ask("specialist_price_change_share_per_year", -0.5, 0.01) is today  # all offers are of another kind of provider
    assert ask("on_demand_accelerators", 3.0, 0.01).regret_share == 0.5


@pytest.mark.slow
def test_a_decision_flips_where_the_break_even_says(make_book):
    book = small_book(make_book)
    signed = signed_now(purchases_of(book, book.scenario).purchases)
    assert {offer for offer, _ in signed} == {"one"}
    # 0.9 of a machine is used; 20 against 32 USD/h breaks even at 0.625 of it, and keeping it costs 1 % more where use costs 20 / 1.01
    for use, wanted in ((0.9, 0.0), (0.625, 0.0), (0.5, 20 / 16 - 1), (0.3, 20 / 9.6 - 1)):
        kept = keep_in(book, book.scenario.replaced(demand_factor=use / 0.9), signed)()
        assert kept.regret_share == pytest.approx(wanted, abs=1e-9)
        assert use == 0.625 or bool(kept.signed) == (use > 0.625)
    flips = find_flips(book, book.scenario).set_index("assumption")
    edge = 0.625 / 0.9 / (1 + FLIP_SHARE)
    assert 0.6 <= flips.loc["demand_factor", "flips_below"] <= edge
    assert "do not sign one" in flips.loc["demand_factor", "then"]
    assert "holds to" in flips.loc["risk_weight", "then"]


def test_the_search_closes_in_on_the_value_at_which_keeping_costs_too_much():
    search = Search("demand_factor", "flips_below", holds=1.0, changed=0.6, low=-0.01)
    search.learn(0.6, Kept(0.03, {}), 0.01)
    assert search.flips
    assert search.middle() == pytest.approx(1.0 - 0.4 / 3**0.5)
    search.learn(search.middle(), Kept(0.004, {}), 0.01)
    assert search.holds == pytest.approx(1.0 - 0.4 / 3**0.5)
    between = search.holds + 0.006 / 0.026 * (0.6 - search.holds)
    assert search.middle() == pytest.approx(between)
    search.learn(between, Kept(0.009, {}), 0.01)
    assert search.middle() == pytest.approx((between + 0.6) / 2)
    search.learn(0.7, None, 0.01)
    assert search.middle() == pytest.approx((search.holds + 0.7) / 2)


def test_probes_stay_within_the_bounds_of_their_assumption():
    scenario = Scenario()
    for probe in PROBES:
        low, high = probe.ends(scenario)
        assert low < high
        scenario.replaced(**{probe.field: low})
        scenario.replaced(**{probe.field: high})
