"""Sums of random ledgers as finance reads them: bridges, fiscal years, cash and teams add up for any fiscal year, currency and terms.

Every total here is summed anew from payments and entries, without the filters of what it checks.
"""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.answers.sums import CASH_COLUMNS, in_currency
from capplan.book.scenario import LedgerAssumptions
from capplan.outputs.export.accounting import roll_forward
from capplan.outputs.views import plan_tables
from capplan.outputs.views.bridges import budget_bridge, cost_bridge, plan_bridge
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.units import fiscal_year, quarter_end, quarter_of, quarter_range, quarter_start
from tests.cases.closed_forms import gap_of

AS_OF = pd.Timestamp("2026-12-10")
SKUS = pd.DataFrame({"sku": ["m8", "own8"], "provider": ["acme", "own"], "accelerator": "H100", "accelerator_count": 8, "source_id": "s"})
CENT = 0.005

contracts = st.lists(
    st.tuples(st.integers(1, 9), st.floats(0.5, 60), st.integers(0, 500), st.integers(30, 1100), st.floats(0, 1)), min_size=1, max_size=3
)
costs = st.lists(st.tuples(st.integers(0, 25), st.floats(1, 90_000), st.sampled_from(["people", "storage", "support"])), max_size=5)


def random_plan(rows, others, first_month, currency, terms, budget):
    """Return what the tables of money read of a plan, and its ledger."""
    a = LedgerAssumptions(
        as_of=AS_OF.date(),
        first_quarter="2027Q1",
        horizon_quarters=5,
        currency=currency,
        fiscal_year_first_month=first_month,
        payment_terms_days=terms,
        hold_other_costs=False,
    )
    signed, bought = [], []
    for number, (machines, price, offset, days, upfront) in enumerate(rows):
        start = pd.Timestamp("2026-06-01") + pd.Timedelta(days=offset)
        usd = machines * price * 24 * days
        end = start + pd.Timedelta(days=days - 1)
        common = {"sku": "m8", "region": "us", "machines": float(machines), "provider": "acme", "accelerator": "H100"}
        signed.append(
            common
            | {"commitment_id": f"c{number}", "term": "lease", "usd_per_hour": price, "start": start, "end": end}
            | {"upfront_paid_usd": upfront * usd, "team": f"team{number % 2}", "cost_center": "C"}
        )
        when = pd.Timestamp("2027-01-15") + pd.Timedelta(days=offset)
        bought.append(
            common
            | {"offer_id": f"o{number}", "term": "owned" if number % 2 else "lease", "quarter": quarter_of(when + pd.Timedelta(days=40))}
            | {"starts": when + pd.Timedelta(days=40), "ends": when + pd.Timedelta(days=40 + days), "end_quarter": "2030Q1"}
            | {"upfront_usd": upfront * usd, "usd": usd, "sign_by": when, "signed_on": when, "firm": number == 0}
        )
    other = pd.DataFrame(
        [
            {"cost_id": f"o{n}", "month": pd.Timestamp("2026-11-01") + pd.DateOffset(months=offset), "kind": kind, "usd": usd}
            for n, (offset, usd, kind) in enumerate(others)
        ],
        columns=["cost_id", "month", "kind", "usd"],
    )
    fx = pd.DataFrame({"currency": "EUR", "date": pd.to_datetime(["2026-01-01", "2027-03-10", "2027-11-02"]), "usd": [1.1, 1.3, 0.9]})
    limits = pd.DataFrame({"limit_id": ["b"], "kind": "budget_usd", "amount": [budget], "measure": "p_and_l", "currency": [currency]})
    ledger = build_ledger(
        a,
        LedgerTables(commitments=pd.DataFrame(signed), purchases=pd.DataFrame(bought), skus=SKUS, other_costs=other, fx=fx, limits=limits),
    )
    flat = {"period": ledger.budgets["quarter"].unique(), "quantile": [0.1, 0.5, 0.9]}
    band = pd.MultiIndex.from_product(flat.values(), names=list(flat)).to_frame(index=False).assign(usd=1.0)
    chosen = pd.DataFrame({"name": ["plan"], "expected_usd": [9e5], "shortfall_usd": [2e5], "spend_usd": [5e5]})
    ledger = SimpleNamespace(**{**vars(ledger), "band": band})
    return SimpleNamespace(scenario=a, ledger=ledger, purchases=SimpleNamespace(alternatives=chosen)), ledger


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(contracts, costs, st.integers(1, 12), st.sampled_from(["USD", "EUR"]), st.integers(0, 120), st.floats(1e3, 1e8))
def test_every_sum_of_a_random_ledger_adds_up(rows, others, first_month, currency, terms, budget):
    plan, ledger = random_plan(rows, others, first_month, currency, terms, budget)
    begin, end = quarter_start("2027Q1"), quarter_end("2028Q1")
    entries = ledger.entries
    expense = entries[(entries["view"] == "p_and_l") & (entries["month"] >= begin) & (entries["month"] < end)]
    years = plan_tables.fiscal_years(plan).set_index("fiscal_year")
    by_year = expense["amount"].groupby([fiscal_year(month, first_month) for month in expense["month"]]).sum()
    assert years.drop(index="total")["p_and_l_amount"].sum() == pytest.approx(expense["amount"].sum(), abs=CENT)
    for year, amount in by_year.items():
        assert years.loc[year, "p_and_l_amount"] == pytest.approx(amount, abs=CENT)
    assert years.drop(index="total")["budget_amount"].sum() == pytest.approx(5 * budget), "each month has its third of a quarter's budget"
    assert years.loc["total", "over_amount"] == pytest.approx(expense["amount"].sum() - 5 * budget, rel=1e-9, abs=CENT)
    shared = plan_tables.teams(plan)
    assert shared["amount"].sum() == pytest.approx(expense["amount"].sum(), abs=CENT)
    assert (shared["amount_share"] * expense["amount"].sum()).tolist() == pytest.approx(shared["amount"].tolist(), abs=CENT)

    payments = ledger.payments[ledger.payments["date"] >= AS_OF]
    owed = in_currency(plan, payments["usd"], payments["date"])
    for by in ("quarter", "fiscal_year"):
        table = plan_tables.cash(plan, by)
        assert table["total_amount"].sum() == pytest.approx(owed.sum(), rel=1e-9, abs=CENT), "each payment stands in one period"
        assert table[CASH_COLUMNS].sum(axis=1).to_numpy() == pytest.approx(table["total_amount"].to_numpy())
    inside = owed[payments["date"] < end].sum()
    assert years.drop(index=["total", "later"], errors="ignore")["cash_amount"].sum() == pytest.approx(inside, rel=1e-9, abs=CENT)
    assert years.loc["total", "cash_amount"] == pytest.approx(owed.sum(), rel=1e-9, abs=CENT), "nothing is missing"
    last = pd.DataFrame({"quarter": quarter_range("2026Q4", 4), "expected": [3e5, 3e5, 6e5, 9e5]})
    before = plan_tables.fiscal_years(plan, last).set_index("fiscal_year")["last_plan_amount"]
    months = pd.Series(pd.date_range("2027-01-01", periods=15, freq="MS"))
    each = pd.Series([*[1e5] * 3, *[2e5] * 3, *[3e5] * 3, *[float("nan")] * 6]).groupby([fiscal_year(one, first_month) for one in months])
    assert before[list(each.groups)].tolist() == pytest.approx(each.agg(lambda part: part.sum(skipna=False)).tolist(), nan_ok=True)

    for bridge in (
        budget_bridge(plan),
        cost_bridge(plan),
        plan_bridge(plan, pd.DataFrame({"quarter": ["2026Q4", "2027Q2"], "expected": [3e5, 4e5]})),
    ):
        assert len(bridge) > 2
        assert gap_of(bridge) < CENT
    assert budget_bridge(plan)["amount"].iloc[-1] == pytest.approx(5 * budget - expense["amount"].sum(), rel=1e-9, abs=CENT)
    moves = roll_forward(plan)
    left = moves["opening_amount"] + moves["added_amount"] - moves["expensed_amount"] - moves["disposed_amount"] - moves["closing_amount"]
    assert left.abs().max() < CENT


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(contracts, st.integers(0, 120))
def test_monthly_cash_has_each_invoice_once_and_nothing_before_its_signature(rows, terms):
    """Nothing is paid at signing here, so that each month's invoice leaves the bank in a month of its own, as the same sum."""
    _, ledger = random_plan([(*row[:4], 0.0) for row in rows], [], 1, "USD", terms, 1e6)
    entries = ledger.entries
    for name, billed in entries[(entries["view"] == "billed") & (entries["component"] == "commitment")].groupby("contract_id"):
        paid = entries[(entries["view"] == "cash") & (entries["component"] == "commitment") & (entries["contract_id"] == name)]
        invoices, payments = (sorted(part.groupby("month")["usd"].sum()) for part in (billed, paid))
        assert payments == pytest.approx(invoices, rel=1e-9, abs=CENT)
        assert paid["month"].min() >= billed["month"].min(), "nothing is paid before it is invoiced"
    for number in range(len(rows)):
        mine = ledger.payments[ledger.payments["contract_id"].str.startswith(f"o{number} ")]
        signed = max(pd.Timestamp("2027-01-15") + pd.Timedelta(days=rows[number][2]), AS_OF)
        assert mine["date"].min() >= signed
