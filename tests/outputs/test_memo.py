"""The memo recommends what the verdicts on unseen demand say, and no more."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from capplan.outputs.views import memo
from capplan.questions.procurement.hindsight.verdicts import CLOSE, COLUMNS, SIGN, TOGETHER, WAIT

FIRM = pd.DataFrame(
    {
        "offer_id": ["a", "b"],
        "quarter": ["2027Q1", "2027Q1"],
        "firm": True,
        "value_amount": [4e6, 1e6],
        "submit_by": [pd.Timestamp("2026-12-02"), pd.Timestamp("2026-12-05")],
        "sign_by": [pd.Timestamp("2027-01-01"), pd.Timestamp("2027-01-04")],
    }
)


def verdicts(first: str, second: str, together: str) -> pd.DataFrame:
    rows = [("a", first, 1.5e6), ("b", second, np.inf), (TOGETHER, together, 2e6)]
    return pd.DataFrame([(name, "2027Q1", 1.0, 1e6, said, saves, 0.0, 0.0, 80) for name, said, saves in rows], columns=COLUMNS)


@pytest.fixture
def plan(monkeypatch):
    """A plan of which only what the headline reads is there."""
    years = pd.DataFrame({"p_and_l_amount": [12e6], "budget_amount": [10e6], "over_amount": [2e6]})
    late = pd.DataFrame({"if_instead": ["nothing is signed before the next review"], "more_in_all_amount": [1.4e6]})
    for name, value in {"decisions": FIRM, "fiscal_years": years, "waiting": late, "quarters_of": ["2027Q1", "2027Q4"]}.items():
        monkeypatch.setattr(memo, name, lambda _, value=value: value)
    return SimpleNamespace(purchases=SimpleNamespace(verdicts=verdicts(SIGN, SIGN, SIGN)), scenario=SimpleNamespace(currency="USD"))


FIRST = "P&L from 2027Q1 to 2027Q4: $12.0M, $2.0M (20.0%) over the budget of $10.0M."


@pytest.mark.parametrize(
    ("said", "headline"),
    [
        (
            (SIGN, SIGN, SIGN),
            (
                "Sign 2 contracts worth $5.0M: submit by 2026-12-02, sign from 2027-01-01 on; waiting for the next review costs $1.4M in"
                " expectation."
            ),
        ),
        (
            (CLOSE, SIGN, SIGN),
            (
                "Sign 1 contract worth $1.0M: submit by 2026-12-05, sign from 2027-01-04 on; waiting for the next review costs $1.4M in"
                " expectation."
            ),
        ),
        (
            (CLOSE, CLOSE, SIGN),
            (
                "Sign 2 contracts worth $5.0M: submit by 2026-12-02, sign from 2027-01-01 on; waiting for the next review costs $1.4M in"
                " expectation."
            ),
        ),
        (
            (CLOSE, WAIT, CLOSE),
            "Sign nothing yet: 2 contracts worth $5.0M could be signed before the next review, and it is too close to call, so wait.",
        ),
        ((WAIT, WAIT, WAIT), "Sign nothing yet: 2 contracts worth $5.0M could be signed before the next review, and waiting is better."),
    ],
)
def test_the_headline_follows_the_verdicts(plan, said, headline):
    plan.purchases.verdicts = verdicts(*said)
    assert memo.headline(plan) == f"{FIRST} {headline}"


def test_each_purchase_carries_its_own_verdict_and_what_waiting_costs(plan):
    plan.purchases.verdicts = verdicts(CLOSE, SIGN, SIGN)
    said, saved, together = memo.verdicts_of(plan, FIRM)
    assert (said, together) == ([CLOSE, SIGN], SIGN)
    assert saved[0] == 1.5e6
    assert np.isnan(saved[1]), "a purchase that no plan can do without has no price of waiting"
