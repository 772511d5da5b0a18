"""Signed contracts that are left before their end: decided by the optimiser, with what that saves, in decisions, capacity and ledger."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.questions.ledger import LedgerTables, build_ledger
from tests.cases.procurement_cases import assumptions, blocks, commitment, demand, offer, settle, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
YEAR = offer("year", "reserved_1y", 2.0)


def old(**more: Any) -> dict[str, Any]:
    """Ten machines at 6 $/h until the end of June."""
    return commitment("old", 10.0, "2026-07-01", "2027-06-30", 6.0, **more)


def test_a_contract_at_six_that_costs_nothing_to_leave_is_left_for_four_on_demand() -> None:
    plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], assumptions(approval_days=0), commitments=[old(exit_cost_share=0.0)])
    gone = plan.departures.iloc[0]
    assert (gone["contract_id"], gone["what"], gone["machines"], str(gone["day"].date())) == ("old", "leave", 10.0, "2027-01-01")
    assert gone["saves_usd"] == pytest.approx(2 * HOURS * 10 * 2.0)
    assert plan.proof.upper_usd == pytest.approx(2 * HOURS * 10 * (4.0 - 6.0))  # what is no longer paid comes off
    assert plan.capacity.empty
    assert plan.purchases.empty
    assert plan.decided["offer_id"].tolist() == ["leave old"]


def test_notice_that_is_past_or_cannot_be_given_in_time_leaves_no_way_out() -> None:
    for notice, count in (("2026-12-31", 0), ("2027-01-15", 0), ("2027-02-15", 10)):
        row = old(exit_cost_share=0.0, notice_date=pd.Timestamp(notice))
        plan = solve(demand([[10.0, 10.0]]), [ON_DEMAND], assumptions(approval_days=30), commitments=[row])
        assert plan.departures["machines"].sum() == count
        assert (plan.departures["sign_by"] <= pd.Timestamp(notice)).all()


def test_selling_and_exchanging_are_done_only_where_the_contract_allows_them() -> None:
    """What is left of it is worth 1.2 of what a year at 2 costs for ten machines; exchanging is free where as much is bought."""
    a, work = assumptions(approval_days=0), demand([[10.0, 10.0]])
    kept = settle(work, [ON_DEMAND, YEAR], a, commitments=[old()])
    assert kept.solution.upper == pytest.approx(0.0)
    sold = solve(work, [ON_DEMAND, YEAR], a, commitments=[old(resale_share=0.9)])
    assert sold.departures[["what", "machines"]].to_numpy().tolist() == [["sell", 10.0]]
    assert sold.departures["exit_usd"].iloc[0] == pytest.approx(0.1 * 2 * HOURS * 60)
    swapped = solve(work, [ON_DEMAND, YEAR], a, commitments=[old(exchangeable=True)])
    assert set(swapped.departures["what"]) == {"exchange"}
    assert swapped.purchases["usd"].sum() >= swapped.departures["not_owed_usd"].sum()
    other = [sku("gpu"), sku("rival", provider="rival")]
    elsewhere = settle(work, [ON_DEMAND, YEAR | {"sku": "rival"}], a, commitments=[old(exchangeable=True)], skus=other)
    assert not elsewhere.lots[(elsewhere.choices.table["kind"] == "departure").to_numpy()].any()


def test_a_machine_is_not_both_left_and_renewed() -> None:
    """Renewing at 1 for half a year of use at 4 saves more than leaving at 2 for the half before."""
    row = old(exit_cost_share=0.0, renewal_usd_per_hour=1.0) | {"usd_per_hour": 2.0}
    a = assumptions(approval_days=0, horizon_quarters=4)
    found = settle(demand([[0.0, 0.0, 10.0, 10.0]]), [ON_DEMAND], a, commitments=[row])
    lots = dict(zip(found.choices.table["name"], found.lots, strict=True))
    assert lots["renew old"] + sum(amount for name, amount in lots.items() if name.startswith("leave")) <= 10
    assert lots["renew old"] == 10


def test_machines_given_back_leave_room_in_quotas() -> None:
    """Ten machines fill a quota of ten; once left, a contract for as many at 2 fits."""
    limits = [{"limit_id": "q", "kind": "quota_accelerators", "amount": 10.0}]
    found = settle(
        demand([[10.0, 10.0]]), [ON_DEMAND, YEAR], assumptions(approval_days=0), commitments=[old(exit_cost_share=0.0)], limits=limits
    )
    assert found.purchases["machines"].sum() == 10


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (old(exit_cost_share=1.5), "exit_cost_share: found '1.5'; must be a number at least 0 and at most 1"),
        (old(resale_share=60.0), "resale_share: found '60.0'; must be a number at least 0 and at most 1"),
        (old(term="capacity_block", renewal_usd_per_hour=2.0), "give a right to renew"),
        (old(notice_date=pd.Timestamp("2028-01-01"), exit_cost_share=0.0), "notice_date must not lie after end"),
    ],
)
def test_contracts_that_contradict_themselves_are_refused(row: dict[str, Any], words: str) -> None:
    with pytest.raises(CapplanError, match=words):
        settle(demand([[1.0]]), [ON_DEMAND], commitments=[row])


def test_leaving_stands_in_the_ledger_as_it_stands_in_the_plan() -> None:
    """Half of the price was prepaid: what falls away is the other half of what is left, and the prepaid half is written off on the day."""
    price = 10 * 6.0 * 365 * 24
    row = old(exit_cost_share=0.2, upfront_paid_usd=price / 2)
    a = assumptions(approval_days=0, hours_convention="calendar", horizon_quarters=2)
    plan = solve(blocks([[(1.0, 0.0)]] * 2, "calendar"), [ON_DEMAND], a, commitments=[row])
    gone = plan.departures.iloc[0]
    left = 181 * 24 * 60.0
    assert gone["not_owed_usd"] == pytest.approx(left / 2)
    assert gone["exit_usd"] == pytest.approx(0.2 * left / 2)
    ledger = build_ledger(
        LedgerAssumptions(as_of="2027-01-01", first_quarter="2027Q1", horizon_quarters=2),
        LedgerTables(commitments=pd.DataFrame([row]), departures=plan.departures, skus=pd.DataFrame([sku("gpu")])),
    )
    entries = ledger.entries[ledger.entries["component"].isin(["left_early", "exit_cost"])]
    total = entries.groupby("view")["usd"].sum()
    assert total[["cash", "billed", "p_and_l"]].tolist() == pytest.approx([-0.8 * left / 2] * 3)
    expensed = ledger.entries[(ledger.entries["view"] == "p_and_l") & (ledger.entries["month"] > "2027-01-31")]["usd"].sum()
    assert expensed == pytest.approx(0.0, abs=1e-6)
    assert ledger.obligations.query("component != 'commitment'")["usd"].sum() == pytest.approx(-0.8 * left / 2)
