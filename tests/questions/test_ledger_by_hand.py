"""A ledger worked out by hand, day by day: no rate, factor, share or escalator is 0 or 1, so that each shows where it is lost."""

from __future__ import annotations

import datetime as dt
import itertools

import pandas as pd
import pytest

from capplan.book.scenario import LedgerAssumptions
from capplan.outputs.views.bridges import STEP, TOTAL
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.questions.ledger.schedules import paid_on
from capplan.questions.ledger.work_costs import basis_shares
from tests.cases.closed_forms import gap_of

A = LedgerAssumptions(
    as_of=dt.date(2026, 12, 15),
    first_quarter="2027Q1",
    horizon_quarters=2,
    payment_terms_days=45,
    discount_rate_per_year=0.11,
    useful_life_years=3.0,
    residual_share=0.15,
    price_factor=1.2,
    fiscal_year_first_month=2,
)
SKUS = pd.DataFrame(
    {
        "sku": ["m8", "own8"],
        "provider": ["acme", "own"],
        "accelerator": ["H100", "A100"],
        "accelerator_count": [8, 8],
        "power_kw": [None, 7.5],
        "source_id": ["s", "s"],
    }
)


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


def paid(ledger, component: str) -> dict[str, float]:
    rows = ledger.payments[ledger.payments["component"] == component]
    return {f"{date:%Y-%m-%d}": usd for date, usd in rows.groupby("date")["usd"].sum().items()}


def test_terms_of_payment_reach_every_month_once():
    ends = pd.date_range("2026-01-31", periods=36, freq="ME")
    for terms in (0, 1, 15, 29, 30, 45, 59, 60, 90, 119):
        months = [paid_on(end, terms).to_period("M") for end in ends]
        assert [int((b - a).n) for a, b in itertools.pairwise(months)] == [1] * 35, terms
        assert all(paid_on(end, terms) >= end for end in ends)
    assert paid_on(day("2027-01-31"), 45) == day("2027-03-15")
    assert paid_on(day("2027-02-28"), 45) == day("2027-04-15")


def test_a_contract_in_arrears_is_invoiced_at_the_months_end_and_paid_in_the_middle_of_the_one_after_next():
    contract = pd.DataFrame(
        [
            {
                "commitment_id": "c",
                "sku": "m8",
                "region": "us",
                "term": "reserved_1y",
                "machines": 3.0,
                "usd_per_hour": 7.0,
                "start": day("2026-11-10"),
                "end": day("2027-02-12"),
                "upfront_paid_usd": 9_000.0,
                "exit_cost_share": 0.4,
                "notice_date": day("2027-01-20"),
                "team": "chat",
                "cost_center": "C1",
            }
        ]
    )
    ledger = build_ledger(A, LedgerTables(commitments=contract, skus=SKUS))
    whole = 3 * 7.0 * 24 * 95  # 21 + 31 + 31 + 12 days
    fee = (whole - 9_000) / 95
    expected = {"2026-11-10": 9_000.0, "2027-01-15": 21 * fee, "2027-02-15": 31 * fee, "2027-03-15": 31 * fee, "2027-04-15": 12 * fee}
    assert paid(ledger, "commitment") == pytest.approx(expected)
    row = ledger.contracts.iloc[0]
    assert row["paid_usd"] == pytest.approx(9_000)
    assert row["owed_usd"] == pytest.approx(whole - 9_000)
    assert row["exit_cost_usd"] == pytest.approx(0.4 * (whole - 9_000))  # of what is owed, not of all cash
    assert row["beyond_horizon_usd"] == pytest.approx(0.0)
    later = {date: usd for date, usd in expected.items() if date >= "2026-12-15"}
    present = sum(usd * 1.11 ** (-(day(date) - day("2026-12-15")).days / 365.25) for date, usd in later.items())
    assert ledger.total("economic") == pytest.approx(present)
    years = ledger.obligations.groupby("fiscal_year")["usd"].sum().to_dict()
    assert years == pytest.approx({"FY2027": 21 * fee, "FY2028": (31 + 31 + 12) * fee})


def test_a_payment_on_the_day_of_the_plan_is_still_owed():
    a = A.model_copy(update={"as_of": dt.date(2027, 1, 15)})
    contract = pd.DataFrame(
        [
            {
                "commitment_id": "c",
                "sku": "m8",
                "region": "us",
                "term": "reserved_1y",
                "machines": 1.0,
                "usd_per_hour": 2.0,
                "start": day("2026-11-01"),
                "end": day("2026-11-30"),
                "upfront_paid_usd": 0.0,
                "exit_cost_share": 0.3,
            }
        ]
    )
    ledger = build_ledger(a, LedgerTables(commitments=contract, skus=SKUS))
    assert paid(ledger, "commitment") == pytest.approx({"2027-01-15": 2.0 * 24 * 30})
    assert ledger.contracts.iloc[0][["paid_usd", "owed_usd"]].tolist() == pytest.approx([0.0, 1440.0])
    assert ledger.total("economic") == pytest.approx(1440.0)


def test_machines_their_support_power_and_resale_fall_on_their_days():
    assets = pd.DataFrame(
        [
            {
                "asset_id": "old",
                "sku": "own8",
                "site": "hall",
                "machines": 2.0,
                "in_service": day("2025-06-10"),
                "capex_usd": 300_000.0,
                "useful_life_years": 4.0,
                "residual_share": 0.1,
                "support_usd_per_year": 7_300.0,
                "team": "research",
                "cost_center": "C2",
            }
        ]
    )
    sites = pd.DataFrame(
        [
            {
                "site": "hall",
                "geography": "us",
                "available_kw": 40.0,
                "committed_kw": 20.0,
                "usd_per_kw_month": 130.0,
                "pue": 1.3,
                "usd_per_kwh": 0.09,
                "escalator_share_per_year": 0.05,
                "end": day("2028-01-31"),
                "source_id": "s",
            }
        ]
    )
    a = A.model_copy(update={"horizon_quarters": 5})
    ledger = build_ledger(a, LedgerTables(assets=assets, sites=sites, skus=SKUS))
    last = day("2025-06-10") + pd.Timedelta(days=1461 - 1)
    assert paid(ledger, "capex") == pytest.approx({"2025-06-10": 300_000.0})
    assert paid(ledger, "residual") == pytest.approx({f"{last:%Y-%m-%d}": -30_000.0})
    support = ledger.entries[(ledger.entries["component"] == "support") & (ledger.entries["view"] == "p_and_l")].set_index("month")["usd"]
    assert support[day("2027-02-01")] == pytest.approx(7_300 * 28 / 365.25)  # by the year's days, not by 360
    power = ledger.entries[(ledger.entries["component"] == "power") & (ledger.entries["view"] == "p_and_l")].set_index("month")["usd"]
    assert power[day("2027-11-01")] == pytest.approx(15.0 * 1.3 * 0.09 * 720)
    assert power[day("2028-01-01")] == pytest.approx(15.0 * 1.3 * 0.09 * 744 * 1.05)  # a year after the day of the plan the price has risen
    space = ledger.entries[(ledger.entries["component"] == "space") & (ledger.entries["view"] == "p_and_l")].groupby("month")["usd"].sum()
    assert space[day("2027-03-01")] == pytest.approx(20.0 * 130)
    assert space[day("2028-01-01")] == pytest.approx(20.0 * 130 * 1.05)
    assert day("2028-02-01") not in space.index  # the contract of the room has ended
    resale = -30_000 * 1.11 ** (-(last - day("2026-12-15")).days / 365.25)
    economic = ledger.entries[(ledger.entries["view"] == "economic") & (ledger.entries["component"] == "residual")]["usd"].sum()
    assert economic == pytest.approx(resale)


def test_no_cash_leaves_before_a_signature():
    bought = pd.DataFrame(
        [
            {
                "offer_id": "o",
                "sku": "own8",
                "provider": "own",
                "accelerator": "A100",
                "region": "hall",
                "term": "owned",
                "machines": 2.0,
                "quarter": "2027Q2",
                "end_quarter": "2030Q1",
                "upfront_usd": 500_000.0,
                "usd": 560_000.0,
                "submit_by": day("2026-12-16"),
                "sign_by": day("2027-01-13"),
                "signed_on": day("2027-01-14"),
                "firm": True,
            }
        ]
    )
    ledger = build_ledger(A, LedgerTables(purchases=bought, skus=SKUS))
    assert ledger.payments["date"].min() == day("2027-01-14")
    assert paid(ledger, "capex") == pytest.approx({"2027-01-14": 500_000.0})


BILL = [
    "month",
    "provider",
    "service",
    "account",
    "region",
    "sku",
    "charge_category",
    "pricing_category",
    "commitment_status",
    "currency",
    "billed_cost",
    "effective_cost",
    "list_cost",
]


def bill(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=BILL)


def test_use_before_the_plan_is_paid_and_counts_towards_its_agreement():
    november = bill(
        (day("2026-11-01"), "acme", "Compute", "a", "us", "m8", "Usage", "Standard", "none", "USD", 6_000.0, 6_000.0, 7_000.0),
        (day("2026-11-01"), "wordy", "Model API", "a", "none", "talk", "Usage", "Standard", "none", "USD", 900.0, 900.0, 900.0),
    )
    agreement = pd.DataFrame(
        [
            {
                "agreement_id": "e",
                "provider": "acme",
                "start": day("2026-07-01"),
                "end": day("2027-06-30"),
                "committed_usd": 20_000.0,
                "discount_share": 0.05,
                "drawn_usd": 1_000.0,
                "rolls_over": False,
            }
        ]
    )
    ledger = build_ledger(A, LedgerTables(billing=november, skus=SKUS, spend_agreements=agreement))
    assert paid(ledger, "use_before_plan") == pytest.approx({"2027-01-15": 6_000.0, "2027-02-15": 6_000.0 * 31 / 30})
    assert paid(ledger, "tokens_before_plan") == pytest.approx({"2027-01-15": 900.0, "2027-02-15": 930.0})
    year = ledger.agreements.iloc[0]
    assert year["planned_usd"] == pytest.approx(6_200.0)  # December's use, whose discount is in the bill already
    assert year["shortfall_usd"] == pytest.approx(20_000 - 1_000 - 6_200)


def test_contracts_tie_to_a_bill_that_names_product_codes():
    contract = pd.DataFrame(
        [
            {
                "commitment_id": "ri",
                "sku": "m8",
                "region": "us-east-1",
                "term": "reserved_3y",
                "machines": 8.0,
                "usd_per_hour": 30.0,
                "start": day("2025-03-01"),
                "end": day("2028-02-29"),
                "upfront_paid_usd": 0.0,
            }
        ]
    )
    month = day("2026-11-01")
    usd = 8 * 30.0 * 720
    november = bill(
        (month, "acme", "Compute", "a", "us-east-1", "HZC9", "Purchase", "Committed", "none", "USD", usd, 0.0, usd),
        (month, "acme", "Compute", "a", "us-east-1", "HZC9", "Usage", "Committed", "Used", "USD", 0.0, usd, usd),
        (month, "acme", "Disks", "a", "us-east-1", "none", "Usage", "Standard", "none", "USD", 500.0, 500.0, 500.0),
    )
    disks = pd.DataFrame(
        [
            {
                "cost_id": "disks",
                "month": month,
                "kind": "storage",
                "usd": 500.0,
                "provider": "acme",
                "team": "t",
                "cost_center": "c",
                "account": "1",
            }
        ]
    )
    november["machine"] = ["m8", "m8", "none"]
    ledger = build_ledger(A, LedgerTables(commitments=contract, skus=SKUS, billing=november, other_costs=disks))
    table = ledger.reconciliation
    assert table["ties"].tolist() == [True, True, True, True]
    assert any("(100% of it)" in note for note in ledger.notes)
    later = build_ledger(
        A.model_copy(update={"as_of": dt.date(2028, 12, 15), "first_quarter": "2029Q1"}),
        LedgerTables(commitments=contract, skus=SKUS, billing=november),
    )
    assert any("The last bill is old: 2026-11" in note for note in later.notes)


def test_shares_of_every_basis_are_whole():
    runs = pd.DataFrame(
        [
            ("2027Q1", "chat", "committed", "acme", "H100", 30.0, 0.0),
            ("2027Q1", "tune", "committed", "acme", "H100", 70.0, 0.0),
            ("2027Q1", "chat", "on_demand", "acme", "H100", 10.0, 25.0),
            ("2027Q1", "tune", "shortfall", "", "", 0.0, 99.0),
        ],
        columns=["quarter", "class", "source", "provider", "accelerator", "expected_accelerator_hours", "expected_usd"],
    )
    shares = basis_shares(runs).set_index(["basis", "class"])["share"].to_dict()
    assert shares == pytest.approx(
        {
            ("held acme H100", "chat"): 0.3,
            ("held acme H100", "tune"): 0.7,
            ("plan acme H100", "chat"): 1.0,
            ("discount acme", "chat"): 1.0,
            ("use chat", "chat"): 1.0,
            ("rooms acme", "chat"): 0.3,
            ("rooms acme", "tune"): 0.7,
        }
    )


def test_a_bridge_that_does_not_add_up_is_seen():
    good = pd.DataFrame(
        [("a", "start", 10.0), ("b", STEP, -3.0), ("c", TOTAL, 7.0), ("d", STEP, 1.0), ("e", TOTAL, 8.0)],
        columns=["step", "kind", "amount"],
    )
    assert gap_of(good) == 0.0
    assert gap_of(good.assign(amount=[10.0, -3.0, 7.5, 1.0, 8.0])) == pytest.approx(0.5)
