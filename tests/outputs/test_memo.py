"""The memo recommends what the verdicts on unseen demand say, and no more."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from capplan.answers import headline
from capplan.answers.finished_plan import told_once
from capplan.dollars import Rate, in_force, rate_in_force
from capplan.outputs.views.memo import left_undone, seen_too_short
from capplan.questions.procurement.hindsight.verdicts import CLOSE, COLUMNS, SIGN, TOGETHER, WAIT

FIRM = pd.DataFrame(
    {
        "offer_id": ["a", "b"],
        "quarter": ["2027Q1", "2027Q1"],
        "firm": True,
        "usd": [4e6, 1e6],
        "submit_by": [pd.Timestamp("2026-12-02"), pd.Timestamp("2026-12-05")],
        "signed_on": [pd.Timestamp("2027-01-01"), pd.Timestamp("2027-01-04")],
    }
)


def verdicts(first: str, second: str, together: str) -> pd.DataFrame:
    rows = [("a", first, 1.5e6), ("b", second, np.inf), (TOGETHER, together, 2e6)]
    return pd.DataFrame([(name, "2027Q1", 1.0, 1e6, said, saves, 0.0, 0.0, 80, 0.0, 0.0) for name, said, saves in rows], columns=COLUMNS)


@pytest.fixture
def plan(monkeypatch):
    """A plan of which only what the headline reads is there."""
    quarters = pd.DataFrame({"quarter": ["2027Q1", "2027Q2"], "expected": [5e6, 7e6], "budget": [4e6, 6e6]})
    for name, value in {"spend": quarters, "quarters_of": ["2027Q1", "2027Q2"]}.items():
        monkeypatch.setattr(headline, name, lambda _, value=value: value)
    alternatives = pd.DataFrame(
        {
            "name": ["plan", "sign_nothing_yet"],
            "expected_usd": [9e6, 10e6],
            "spend_usd": [8e6, 9.4e6],
            "shortfall_usd": [1e5, 4e5],
            "regret_usd": [0.0, 1.1e6],
        }
    )
    proof = SimpleNamespace(upper_usd=9e6, lower_usd=8.99e6)
    bought = SimpleNamespace(verdicts=verdicts(SIGN, SIGN, SIGN), purchases=FIRM, alternatives=alternatives, proof=proof)
    return SimpleNamespace(purchases=bought, scenario=SimpleNamespace(currency="USD", as_of="2026-12-01"))


FIRST = "P&L of 2027Q1 to 2027Q2 is $12.0M, $2.0M (20.0%) over the budget of $10.0M;"
WAITING = "; waiting for the next review adds $1.4M of spend and leaves more work undone, at a price of $300.0k."


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ((SIGN, SIGN, SIGN), f"sign 2 contracts worth $5.0M, submitted by 2026-12-02 and signed by 2027-01-01{WAITING}"),
        ((CLOSE, SIGN, SIGN), f"sign 1 contract worth $1.0M, submitted by 2026-12-05 and signed by 2027-01-04{WAITING}"),
        ((CLOSE, CLOSE, SIGN), f"sign 2 contracts worth $5.0M, submitted by 2026-12-02 and signed by 2027-01-01{WAITING}"),
        (
            (CLOSE, WAIT, CLOSE),
            "sign nothing yet: 2 contracts worth $5.0M could be signed before the next review, and it is too close to call, so wait.",
        ),
        ((WAIT, WAIT, WAIT), "sign nothing yet: 2 contracts worth $5.0M could be signed before the next review, and waiting is better."),
    ],
)
def test_the_headline_follows_the_verdicts(plan, said, sentence):
    plan.purchases.verdicts = verdicts(*said)
    assert headline.plan_headline(plan) == f"{FIRST} {sentence}"


def test_the_headline_keeps_spend_and_unserved_work_apart(plan):
    table = plan.purchases.alternatives
    table.loc[1, ["spend_usd", "shortfall_usd"]] = [7.5e6, 1e5]
    assert headline.plan_headline(plan).endswith("; waiting for the next review saves $500.0k of spend.")
    table.loc[1, "spend_usd"] = 8e6
    assert headline.plan_headline(plan).endswith("; waiting for the next review costs next to nothing.")
    plan.purchases.alternatives = table[:1]
    assert headline.plan_headline(plan).endswith("and signed by 2027-01-01.")


def test_the_headline_of_a_plan_without_budget_or_purchases(plan, monkeypatch):
    monkeypatch.setattr(headline, "spend", lambda _: pd.DataFrame({"expected": [5e6, 7e6], "budget": [4e6, np.nan]}))
    plan.purchases.purchases = FIRM[:0]
    assert headline.plan_headline(plan) == (
        "P&L of 2027Q1 to 2027Q2 is $12.0M, without a budget to hold it against; nothing has to be signed before the next review."
    )


def test_contracts_that_last_much_longer_than_the_work_was_seen_are_named():
    def seen(days, months):
        starts = pd.Timestamp("2027-01-01")
        firm = pd.DataFrame({"starts": [starts], "ends": [starts + pd.DateOffset(months=months)]})
        times = pd.date_range("2026-01-01", periods=days, freq="D")
        return seen_too_short(pd.DataFrame({"time": times}), firm)

    assert "seen for 14 days, and what is to be signed lasts up to 3 years" in seen(14, 36)[0]
    assert seen(14, 12)
    assert not seen(200, 12)
    assert not seen(400, 60)
    assert not seen_too_short(pd.DataFrame(), pd.DataFrame({"starts": [], "ends": []}))


def test_work_that_is_left_undone_stands_among_the_risks():
    service = pd.DataFrame(
        [(0, "a", "2027Q1", 100.0, 0.0), (1, "a", "2027Q1", 100.0, 18.0), (0, "b", "2027Q2", 10.0, 0.4), (0, "c", "2027Q2", 0.0, 0.0)],
        columns=["path", "class", "quarter", "demanded", "shortfall"],
    )
    assert left_undone(service)[0].startswith("The plan leaves work undone, 9% of a in 2027Q1")
    assert left_undone(service[service["path"] == 0]) == left_undone(service[:0]) == []


def test_each_purchase_carries_its_own_verdict_and_what_waiting_costs(plan):
    plan.purchases.verdicts = verdicts(CLOSE, SIGN, SIGN)
    said, saved, together = headline.verdicts_of(plan, FIRM)
    assert (said, together) == ([CLOSE, SIGN], SIGN)
    assert saved[0] == 1.5e6
    assert np.isnan(saved[1]), "a purchase that no plan can do without has no price of waiting"


def test_a_table_of_a_plan_is_made_once_and_each_reader_has_a_copy():
    made = []

    @told_once
    def table(plan, beside=None):
        made.append((plan, beside, rate_in_force().name))
        return pd.DataFrame({"amount": [1.0]})

    one, other = object(), object()
    table(one).loc[0, "amount"] = 5.0
    assert table(one)["amount"].tolist() == [1.0]
    with in_force(Rate("EUR", 1.2)):
        table(other, one)
    table(other, one)
    table(other)
    table(one)
    assert made == [(one, None, "USD"), (other, one, "EUR"), (other, one, "USD"), (other, None, "USD"), (one, None, "USD")]
