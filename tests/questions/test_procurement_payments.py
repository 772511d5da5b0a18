"""Contracts paid by a schedule: the plan discounts each payment on its day, and ledger and budgets follow the schedule."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.questions.pricing import annuity_years, price_hours
from capplan.questions.procurement import Purchases
from tests.cases.procurement_cases import assumptions, demand, offer, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
YEAR = offer("year", "reserved_1y", 1.0)


def schedule(*rows: tuple[str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["offer_id", "months_after_start", "share"])


def bought(payments: pd.DataFrame, row: dict[str, Any] = YEAR, **values: Any) -> Purchases:
    a = assumptions(**({"horizon_quarters": 4, "discount_rate_per_year": 0.1, "horizon_end": "count_in_full"} | values))
    return solve(demand([[5.0] * 4]), [ON_DEMAND, row], a, offer_payments=payments)


def test_each_payment_is_discounted_from_its_day() -> None:
    """A quarter upfront, a quarter after six months, the rest when the contract ends."""
    plan = bought(schedule(("year", 6.0, 0.25), ("year", 12.0, 0.5)), YEAR | {"upfront_share": 0.25})
    value = 5 * 4 * HOURS * 1.0
    assert plan.proof.upper_usd == pytest.approx(value * (0.25 + 0.25 * 1.1**-0.5 + 0.5 * 1.1**-1.0), rel=1e-12)
    assert plan.purchases.loc[0, ["upfront_usd", "usd", "beyond_horizon_usd"]].tolist() == pytest.approx([value / 4, value, value / 2])
    days = [90, 91, 92, 92]
    assert plan.costs.query("component == 'committed'")["usd"].tolist() == pytest.approx([value * part / 365 for part in days])


def test_a_payment_within_a_quarter_is_discounted_by_its_days() -> None:
    plan = bought(schedule(("year", 1.0, 1.0)))
    assert plan.proof.upper_usd == pytest.approx(5 * 4 * HOURS * 1.1 ** -(31 / 90 / 4), rel=1e-12)


def test_late_payment_decides_between_two_offers() -> None:
    """At 10 % a year a contract that is paid at its end is worth 5 % more than one that is paid evenly."""
    late = offer("late", "reserved_1y", 1.04)
    rows = [ON_DEMAND, YEAR, late]
    a = assumptions(horizon_quarters=4, discount_rate_per_year=0.1, horizon_end="count_in_full")
    plan = solve(demand([[5.0] * 4]), rows, a, offer_payments=schedule(("late", 12.0, 1.0)))
    assert plan.purchases["offer_id"].tolist() == ["late"]
    assert plan.proof.upper_usd == pytest.approx(5 * 4 * HOURS * 1.04 / 1.1, rel=1e-12)
    assert solve(demand([[5.0] * 4]), rows, a).purchases["offer_id"].tolist() == ["year"]


def test_payments_after_the_horizon_are_left_out_or_counted() -> None:
    """A year bought for two planned quarters: half of it is paid after them."""
    payments = schedule(("year", 3.0, 0.5), ("year", 9.0, 0.5))
    value = 5 * 4 * HOURS
    cut, full = (
        solve(
            demand([[5.0] * 2]),
            [ON_DEMAND, YEAR],
            assumptions(horizon_end=ending, pinned_purchases=(("year", "2027Q2", 0),)),
            offer_payments=payments,
        )
        for ending in ("truncate", "count_in_full")
    )
    assert (cut.proof.upper_usd, full.proof.upper_usd) == (pytest.approx(value / 2), pytest.approx(value))
    assert cut.purchases["beyond_horizon_usd"].tolist() == pytest.approx([value / 2])


def test_a_cash_budget_sees_the_schedule() -> None:
    """All is due in the third quarter, in which cash pays for two machines only."""
    limits = [{"limit_id": "cash", "kind": "budget_usd", "amount": 2 * 4 * HOURS, "quarter": "2027Q3", "measure": "cash", "hard": True}]
    rows = [offer("year", "reserved_1y", 1.0, maximum_lots=9.0)]
    a = assumptions(horizon_quarters=4)
    free = solve(demand([[5.0] * 4]), rows, a, limits=limits)
    bound = solve(demand([[5.0] * 4]), rows, a, limits=limits, offer_payments=schedule(("year", 7.0, 1.0)))
    assert free.purchases["lots"].sum() == 5
    assert bound.purchases.query("quarter == '2027Q1'")["lots"].sum() == 2


def test_the_ledger_pays_and_books_by_the_schedule() -> None:
    payments = schedule(("year", 6.0, 0.25), ("year", 12.0, 0.5))
    plan = bought(payments, YEAR | {"upfront_share": 0.25})
    a = LedgerAssumptions(as_of="2027-01-01", first_quarter="2027Q1", horizon_quarters=4, payment_terms_days=30)
    book = build_ledger(
        a,
        LedgerTables(
            purchases=plan.purchases,
            dispatch=plan.dispatch,
            capacity=plan.capacity,
            costs=plan.costs,
            offer_payments=payments,
            skus=pd.DataFrame([sku("gpu")]),
        ),
    )
    own = book.entries[book.entries["component"] == "purchase"].groupby(["view", "month"])["usd"].sum()
    value = 5 * 4 * HOURS
    dates = pd.to_datetime(["2027-01-01", "2027-07-01", "2028-01-01"]).tolist()
    for view in ("cash", "billed"):
        assert own[view].index.tolist() == dates
        assert own[view].tolist() == pytest.approx([value / 4, value / 4, value / 2], abs=0.01)
    assert own["p_and_l"].sum() == pytest.approx(value)
    assert len(own["p_and_l"]) == 12


def test_the_price_of_an_hour_counts_a_schedule_at_its_value_at_the_start() -> None:
    """All at the end of a year: the price, a year later, over a year's hours at their value at the start."""
    payments, offers = schedule(("year", 12.0, 1.0)), pd.DataFrame([ON_DEMAND, YEAR])
    prices = price_hours(pd.DataFrame([sku("gpu")]), offers, assumptions(discount_rate_per_year=0.1), None, payments).set_index("offer_id")
    assert prices.at["year", "effective_usd_per_accelerator_hour"] == pytest.approx(1.0 / 1.1 / annuity_years(1.0, 0.1))
    assert prices.at["year", "billed_usd_per_accelerator_hour"] == 0.0
    assert prices.at["od", "effective_usd_per_accelerator_hour"] == 4.0


@pytest.mark.parametrize(
    ("payments", "row", "text"),
    [
        (schedule(("yaer", 0.0, 1.0)), YEAR, "did you mean year"),
        (schedule(("year", 0.0, 0.7)), YEAR, r"sum to 0\.7"),
        (schedule(("year", 0.0, 1.0)), YEAR | {"upfront_share": 0.2}, r"sum to 1\.2, with upfront_share 0\.2"),
        (schedule(("year", 13.0, 1.0)), YEAR, "paid until month 13, and ends after 12"),
        (schedule(("od", 0.0, 1.0)), YEAR, "od has no contract price"),
    ],
)
def test_schedules_that_cannot_be_are_refused(payments: pd.DataFrame, row: dict[str, Any], text: str) -> None:
    with pytest.raises(CapplanError, match=text):
        bought(payments, row)
