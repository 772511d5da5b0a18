"""Verdicts: what is due now is signed, waited for, or too close to call, by what it saves on unseen paths."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.dollars import Rate, in_force
from capplan.questions.procurement import plan_purchases
from capplan.questions.procurement.hindsight.verdicts import (
    CLOSE,
    COLUMNS,
    SIGN,
    TOGETHER,
    WAIT,
    follow_verdicts,
    judge_purchases,
    verdict_words,
)
from tests.cases.procurement_cases import assumptions, demand, offer, problem, settle

OFFERS = [offer("od", "on_demand", 4.0), offer("year", "reserved_1y", 2.0)]
HOURS = 2190.0


def unseen(loads: list[list[float]]) -> pd.DataFrame:
    """Paths with numbers of their own."""
    frame = demand(loads)
    return frame.assign(path=frame["path"] + 1000)


def test_a_purchase_that_pays_on_every_path_is_signed_and_saves_the_exact_difference():
    a = assumptions(horizon_quarters=1, approval_days=0)
    found = settle(demand([[10.0], [12.0], [12.0]]), OFFERS, a)
    assert found.purchases["lots"].sum() == 12  # the twelfth is used in two of three cases, at half the price
    verdict = judge_purchases(found, unseen([[10.0]] * 3 + [[14.0]] * 3)).iloc[0]
    # without it all is rented; with it 12 are paid for, and 0 or 2 rented besides
    each = np.array([40.0 - 24.0] * 3 + [56.0 - 24.0 - 8.0] * 3) * HOURS
    reach = 1.959964 * each.std(ddof=1) / np.sqrt(6)
    assert verdict["verdict"] == SIGN
    assert verdict["saves_usd"] == pytest.approx(each.mean(), rel=1e-9)
    assert verdict["saves_low_usd"] == pytest.approx(each.mean() - reach, rel=1e-6)
    assert verdict["saves_high_usd"] == pytest.approx(each.mean() + reach, rel=1e-6)


@pytest.mark.parametrize(("used", "wanted"), [([10.0] * 8, SIGN), ([4.0, 6.0] * 4, CLOSE), ([1.0, 2.0] * 4, WAIT)])
def test_what_unseen_paths_do_not_bear_out_is_not_recommended(used, wanted):
    a = assumptions(horizon_quarters=1, approval_days=0)
    given = problem(demand([[10.0]]), OFFERS, a)
    answer = plan_purchases(given, fresh=unseen([[load] for load in used]))
    assert answer.verdicts["verdict"].tolist() == [wanted]
    assert answer.headline.startswith({SIGN: "Sign 1 contract", CLOSE: "Too close to call, so wait", WAIT: "Waiting is better"}[wanted])
    assert plan_purchases(given).verdicts.empty


def test_what_replaces_each_other_is_judged_together_too():
    offers = [OFFERS[0], *(offer(name, "reserved_1y", 2.0, maximum_lots=6) for name in ("year", "other"))]
    found = settle(demand([[10.0]]), offers, assumptions(horizon_quarters=1, approval_days=0))
    table = judge_purchases(found, unseen([[10.0], [9.0], [11.0]])).set_index("offer_id")
    assert set(table.index) == {"other", "year", TOGETHER}
    assert (table["verdict"] == SIGN).all()
    assert table.loc[TOGETHER, "saves_usd"] > table.drop(TOGETHER)["saves_usd"].max()
    assert follow_verdicts("Sign 2 contracts.", table.reset_index()) == "Sign 2 contracts."


def test_what_waiting_costs_is_split_into_the_price_of_its_day_and_all_else():
    """A year at 2 for ten machines; prices fall by 30 % a year, and until the next review the work is rented at 4."""
    a = assumptions(horizon_quarters=2, approval_days=0)
    falling = pd.DataFrame([{"path": "p", "change_share_per_year": -0.3, "term": "reserved_1y"}])
    found = settle(demand([[10.0, 10.0]]), OFFERS, a, price_paths=falling)
    row = judge_purchases(found, unseen([[10.0, 10.0], [10.0, 10.0]])).iloc[0]
    factor = 0.7 ** (90 / 365.25)
    assert row["later_price_usd"] == pytest.approx(10 * 2.0 * 8760 * (factor - 1), rel=1e-6)
    # within the two quarters: ten rented for one of them instead, and the other at the lower price
    assert row["saves_usd"] == pytest.approx(HOURS * (40 + 20 * factor - 40), rel=1e-6)
    assert row["later_price_usd"] + row["later_demand_usd"] == pytest.approx(row["saves_usd"])


def test_a_purchase_without_which_no_plan_exists_is_signed():
    a = assumptions(horizon_quarters=1, approval_days=0)
    pinned = a.model_copy(update={"pinned_purchases": (("year", "2027Q1", 3.0),)})
    found = settle(demand([[10.0]]), OFFERS, pinned)
    verdict = judge_purchases(found, unseen([[1.0], [2.0]])).iloc[0]
    assert verdict["verdict"] == SIGN
    assert np.isinf(verdict["saves_usd"])


def test_verdicts_are_said_in_the_currency_of_a_book() -> None:
    table = pd.DataFrame([("a", "2027Q1", 1.0, 5e6, SIGN, 1e6, 5e5, 2e6, 100, 2.5e5, 7.5e5)], columns=COLUMNS)
    dollars = verdict_words(table)["words"].iloc[0]
    with in_force(Rate("EUR", 1.25)):
        euros = verdict_words(table)["words"].iloc[0]
    assert dollars.startswith("Sign: signing now saves $1.0M against waiting ($500.0k to $2.0M with 95 % confidence)")
    assert euros.startswith("Sign: signing now saves €800.0k against waiting (€400.0k to €1.6M with 95 % confidence)")
    assert "€200.0k is what its price" in euros
    assert "€600.0k what serves" in euros
    assert "$" not in euros
