"""The ledger: four views that add up, bills to the cent, and published figures of finance."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.book.book import load_book
from capplan.book.currencies import rates_by_month
from capplan.book.places import shipped
from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.questions.ledger import (
    Contract,
    Entry,
    LedgerTables,
    Request,
    annuity_factor,
    build_ledger,
    burn_down,
    commitment_charges,
    depreciation_convention,
    draw_dollar_plan,
    expected_work,
    internal_rate_of_return,
    loan_payment,
    loan_periods,
    machine_entries,
    macrs,
    modified_rate_of_return,
    net_present_value,
    rate_limit_notes,
    request_usd,
    straight_line,
    tax_depreciation,
)
from capplan.questions.ledger.summaries import idle_table
from capplan.questions.ledger.unit_prices import plan_prices
from capplan.units import fiscal_year
from tests.conftest import reference_file

A = LedgerAssumptions(as_of=dt.date(2026, 12, 1), first_quarter="2027Q1", horizon_quarters=4)
SKUS = pd.DataFrame(
    {
        "sku": ["m8", "own8"],
        "provider": ["acme", "own"],
        "accelerator": ["H100", "H100"],
        "accelerator_count": [8, 8],
        "power_kw": [None, 10.0],
        "source_id": ["s", "s"],
    }
)


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


def sums(entries: pd.DataFrame) -> dict[str, float]:
    return entries.groupby("view")["usd"].sum().to_dict()


def commitment(**changes) -> pd.DataFrame:
    row = {
        "commitment_id": "c1",
        "sku": "m8",
        "region": "us",
        "term": "reserved_1y",
        "machines": 4.0,
        "usd_per_hour": 20.0,
        "start": day("2027-01-01"),
        "end": day("2027-12-31"),
        "upfront_paid_usd": 0.0,
        "team": "chat",
        "cost_center": "CC-1",
    }
    return pd.DataFrame([row | changes])


def purchase(**changes) -> pd.DataFrame:
    row = {
        "offer_id": "acme-m8-1y",
        "sku": "m8",
        "provider": "acme",
        "accelerator": "H100",
        "region": "us",
        "term": "reserved_1y",
        "machines": 2.0,
        "quarter": "2027Q2",
        "end_quarter": "2028Q1",
        "upfront_usd": 100_000.0,
        "usd": 400_000.0,
        "sign_by": day("2027-02-10"),
        "firm": True,
    }
    return pd.DataFrame([row | changes])


# ------------------------------------------------------------------------------------------------ published figures of finance


def test_finance_rows():
    """Rows of the reference table (numpy-financial's documentation; IRS Publication 946, Table A-1; identities)."""
    table = pd.read_csv(reference_file("truth", "09_finance.csv")).set_index("id")
    value = pd.to_numeric(table["value"], errors="coerce")
    assert net_present_value(0.08, [-40000, 5000, 8000, 12000, 30000]) == pytest.approx(value["npv1"], abs=5e-6)
    rates = table[table.index.str.startswith("irr_")]
    assert len(rates) == 5
    for row in rates.itertuples():
        flows = [float(part) for part in str(row.inputs).split(",")]
        digits = len(str(row.value).split(".")[1])
        assert round(internal_rate_of_return(flows), digits) == float(row.value), row.Index
    assert loan_periods(0.07 / 12, -150, 8000) == pytest.approx(value["nper1"], abs=5e-6)
    assert loan_payment(0.075 / 12, 180, 200000) == pytest.approx(value["pmt1"], rel=1e-13)
    assert modified_rate_of_return([-100, 39, 59, -55, 20], 0.05, 0.06) == pytest.approx(value["mirr1"], rel=1e-12)
    assert annuity_factor(0.07, 20) == pytest.approx(value["annuity"], rel=1e-14)
    assert straight_line(100, 10, 5) == value["sl"]
    for years in (3, 5, 7):
        for step, amount in enumerate(macrs(100, years), start=1):
            assert amount == value[f"macrs{years}_{step}"]
        assert sum(macrs(100, years)) == pytest.approx(100)


#: IRS Publication 946, Tables A-2 to A-5: recovery period, quarter, percent of each year.
MID_QUARTER = {
    (3, 1): (58.33, 27.78, 12.35, 1.54),
    (3, 2): (41.67, 38.89, 14.14, 5.30),
    (3, 3): (25.00, 50.00, 16.67, 8.33),
    (3, 4): (8.33, 61.11, 20.37, 10.19),
    (5, 1): (35.00, 26.00, 15.60, 11.01, 11.01, 1.38),
    (5, 2): (25.00, 30.00, 18.00, 11.37, 11.37, 4.26),
    (5, 3): (15.00, 34.00, 20.40, 12.24, 11.30, 7.06),
    (5, 4): (5.00, 38.00, 22.80, 13.68, 10.94, 9.58),
    (7, 1): (25.00, 21.43, 15.31, 10.93, 8.75, 8.74, 8.75, 1.09),
    (7, 4): (3.57, 27.55, 19.68, 14.06, 10.04, 8.73, 8.73, 7.64),
}


def test_mid_quarter_percentages_as_printed():
    for (years, quarter), percents in MID_QUARTER.items():
        found = macrs(100, years, quarter)
        assert found == pytest.approx(percents, abs=0.011), (years, quarter)
        assert sum(found) == pytest.approx(100)
    with pytest.raises(CapplanError, match="quarters 1 to 4"):
        macrs(100, 5, 5)


def test_the_convention_of_a_tax_year_follows_the_forty_percent_rule():
    """Publication 946: more than 40 % of the basis in the last three months calls for the mid-quarter convention."""
    assert depreciation_convention([600, 0, 0, 400]) == "half_year"
    assert depreciation_convention([599, 0, 0, 401]) == "mid_quarter"
    assert depreciation_convention([0, 0, 0, 1]) == "mid_quarter"
    assert depreciation_convention([0, 0, 0, 0]) == "half_year"
    with pytest.raises(CapplanError, match="four amounts"):
        depreciation_convention([1, 2, 3])
    years = tax_depreciation([(2027, 2, 1000.0), (2027, 4, 1000.0), (2028, 1, 500.0)], 5)
    late = [sum(pair) for pair in zip(macrs(1000, 5, 2), macrs(1000, 5, 4), strict=True)]
    early = macrs(500, 5)
    assert years[2027] == pytest.approx(late[0])
    assert years[2028] == pytest.approx(late[1] + early[0])
    assert sum(years.values()) == pytest.approx(2500)


def test_finance_refuses_nonsense():
    with pytest.raises(CapplanError, match="never change sign"):
        internal_rate_of_return([1, 2, 3])
    with pytest.raises(CapplanError, match="does not cover the interest"):
        loan_periods(0.1, -5, 100)
    with pytest.raises(CapplanError, match="3, 5, 7"):
        macrs(100, 4)
    with pytest.raises(CapplanError, match="positive number"):
        annuity_factor(0.1, 0)
    assert loan_periods(0, -50, 100) == 2


# ------------------------------------------------------------------------------------------------ FOCUS commitment examples


@pytest.mark.parametrize(("upfront", "one_time", "hourly"), [(1.0, 8760.0, 0.0), (0.5, 4380.0, 0.5), (0.0, 0.0, 1.0)])
def test_focus_purchases(upfront, one_time, hourly):
    """One dollar an hour for a year, all, partly and not paid upfront (FOCUS 1.2, appendix on commitment discounts)."""
    rows = commitment_charges(1.0, 8760, upfront, np.full(8760, 1.0))
    purchases = rows[rows.charge_category == "Purchase"]
    assert purchases[purchases.charge_frequency == "One-Time"].billed_cost.sum() == one_time
    recurring = purchases[purchases.charge_frequency == "Recurring"]
    assert len(recurring) == (8760 if hourly else 0)
    assert set(recurring.billed_cost) == ({hourly} if hourly else set())
    assert purchases.effective_cost.sum() == 0
    assert rows.billed_cost.sum() == rows.effective_cost.sum() == 8760


def test_focus_usage():
    """Used fully, not at all, at three quarters, and at one and a half times the commitment."""
    rows = commitment_charges(1.0, 4, 1.0, np.array([1.0, 0.0, 0.75, 1.5]), np.array([0, 0, 0, 0.5]))
    usage = rows[rows.charge_category == "Usage"]
    shown = [(row.hour, row.commitment_status, row.pricing_category, row.billed_cost, row.effective_cost) for row in usage.itertuples()]
    assert shown == [
        (0, "Used", "Committed", 0, 1.0),
        (1, "Unused", "Committed", 0, 1.0),
        (2, "Used", "Committed", 0, 0.75),
        (2, "Unused", "Committed", 0, 0.25),
        (3, "Used", "Committed", 0, 1.0),
        (3, "none", "Standard", 0.5, 0.5),
    ]
    with pytest.raises(CapplanError, match="3 hours of a term of 4"):
        commitment_charges(1.0, 4, 1.0, np.zeros(3))


def test_focus_examples_of_the_specification():
    for number, used, extra in ((1, 1.0, 0.0), (2, 0.0, 0.0), (3, 0.75, 0.0), (4, 1.0, 0.5)):
        want = pd.read_csv(reference_file("data", "billing", "focus_spec_examples", f"commitment_discount_usage_scenario_{number}.csv"))
        rows = commitment_charges(1.0, 1, 1.0, np.array([used]), np.array([extra]))
        have = rows[rows.charge_category == "Usage"]
        assert have.billed_cost.tolist() == want.BilledCost.tolist(), number
        assert have.effective_cost.tolist() == want.EffectiveCost.tolist(), number


# ------------------------------------------------------------------------------------------------ dollar plans and agreements


def test_spend_based_commitment_of_google():
    """50 dollars an hour on demand at 25 % off: 37.50 in all, 12.50 saved (Google Cloud, analysing spend-based commitments)."""
    usage = pd.DataFrame({"hour": [0], "sku": ["x"], "machine_hours": [50.0], "on_demand_usd_per_hour": [1.0], "plan_usd_per_hour": [0.75]})
    draw = draw_dollar_plan(usage, 37.5)
    assert (draw.hours.committed_usd + draw.hours.on_demand_usd).tolist() == [37.5]
    assert draw.saving_usd == 12.5
    assert draw.hours.unused_usd.tolist() == [0]


def test_dollar_plan_goes_to_the_deepest_discount_and_loses_the_rest():
    usage = pd.DataFrame(
        {
            "hour": [0, 0, 1],
            "sku": ["shallow", "deep", "deep"],
            "machine_hours": [10.0, 2.0, 1.0],
            "on_demand_usd_per_hour": [10.0, 20.0, 20.0],
            "plan_usd_per_hour": [8.0, 10.0, 10.0],
        }
    )
    hours = draw_dollar_plan(usage, 60.0).hours
    # Hour 0: two deep machines take 20, the other 40 dollars cover five shallow ones, five are paid on demand. Hour 1: 50 are lost.
    assert hours.used_usd.tolist() == [60, 10]
    assert hours.unused_usd.tolist() == [0, 50]
    assert hours.on_demand_usd.tolist() == [50, 0]
    with pytest.raises(CapplanError, match="not above the price on demand"):
        draw_dollar_plan(usage.assign(plan_usd_per_hour=30.0), 1.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(0, 50), st.floats(1, 30), st.floats(0.2, 1.0)), min_size=1, max_size=6), st.floats(0, 300))
def test_dollar_plan_pays_what_it_replaces(machines, committed):
    usage = pd.DataFrame(machines, columns=["machine_hours", "on_demand_usd_per_hour", "rate"]).assign(hour=0)
    usage["plan_usd_per_hour"] = usage.on_demand_usd_per_hour * usage.rate
    usage["sku"] = [f"s{n}" for n in range(len(usage))]
    row = draw_dollar_plan(usage, committed).hours.iloc[0]
    assert row.used_usd + row.unused_usd == pytest.approx(committed, abs=1e-9)
    assert -1e-9 <= row.on_demand_usd <= row.without_plan_usd + 1e-9
    if row.unused_usd > 1e-6:
        assert row.on_demand_usd == pytest.approx(0, abs=1e-6)


def test_burn_down_rolls_over_and_falls_short():
    agreements = pd.DataFrame(
        {
            "agreement_id": "edp",
            "provider": "acme",
            "start": [day("2026-07-01"), day("2027-07-01")],
            "end": [day("2027-06-30"), day("2028-06-30")],
            "committed_usd": [1000.0, 500.0],
            "discount_share": 0.1,
            "drawn_usd": [300.0, 0.0],
            "rolls_over": [True, True],
        }
    )
    charges = pd.DataFrame(
        {
            "month": [day("2026-10-01"), day("2027-01-01"), day("2027-02-01"), day("2027-08-01")],
            "provider": ["acme", "acme", "other", "acme"],
            "usd": [999.0, 400.0, 77.0, 200.0],
            "discountable": [True, True, True, False],
        }
    )
    table = burn_down(agreements, charges, day("2026-12-01"))
    assert table.planned_usd.tolist() == [360, 200]  # ten per cent off the 400; October is in drawn_usd already
    assert table.rolled_out_usd.tolist() == [340, 0]
    assert table.rolled_in_usd.tolist() == [0, 340]
    assert table.shortfall_usd.tolist() == [0, 640]  # nothing follows the last year, so it is paid
    strict = burn_down(agreements.assign(rolls_over=False), charges, day("2026-12-01"))
    assert strict.shortfall_usd.tolist() == [340, 300]


# ------------------------------------------------------------------------------------------------ contracts


def test_arrears_upfront_and_schedules():
    total = 4 * 20.0 * 8760
    ledger = build_ledger(A, LedgerTables(commitments=commitment(), skus=SKUS))
    january = ledger.entries[ledger.entries.month == day("2027-01-01")].groupby("view").usd.sum()
    assert january["billed"] == january["p_and_l"] == pytest.approx(4 * 20 * 744)
    assert "cash" not in january
    cash = ledger.entries.query("view == 'cash'")
    assert cash.month.min() == day("2027-02-01")  # the invoice of 31 January is paid at the end of February, that of February in March
    assert cash.month.is_unique
    half = build_ledger(A, LedgerTables(commitments=commitment(upfront_paid_usd=total / 2), skus=SKUS)).entries
    assert half.query("view == 'cash'").month.min() == day("2026-11-01")  # what is paid already was paid before as_of
    payments = pd.DataFrame({"commitment_id": "c1", "date": [day("2027-01-15"), day("2027-07-15")], "usd": [total * 0.25, total * 0.75]})
    dated = build_ledger(A, LedgerTables(commitments=commitment(), payments=payments, skus=SKUS)).entries
    assert dated.query("view == 'cash'").usd.tolist() == [total * 0.25, total * 0.75]
    for entries in (ledger.entries, half, dated):
        found = sums(entries)
        assert found["cash"] == pytest.approx(total, rel=1e-12)
        assert found["billed"] == pytest.approx(total, rel=1e-12)
        assert found["p_and_l"] == pytest.approx(total, rel=1e-12)
        assert set(entries.team) == {"chat"}


def test_contracts_that_cannot_be_booked_are_all_named():
    payments = pd.DataFrame({"commitment_id": ["c1", "c9"], "date": day("2027-01-15"), "usd": [1.0, 1.0]})
    bad = pd.concat([commitment(notice_date=day("2028-03-01")), commitment(commitment_id="c2", upfront_paid_usd=1e9)])
    with pytest.raises(CapplanError) as caught:
        build_ledger(A, LedgerTables(commitments=bad, payments=payments, skus=SKUS))
    message = str(caught.value)
    assert "c1: the payments add up to 1.00 USD" in message
    assert "notice is due on 2028-03-01, after the contract's end" in message
    assert "c2: 1,000,000,000.00 USD were paid upfront" in message
    assert "payments.csv names the contract c9" in message


def test_owned_machines_straight_line_with_a_residual_band():
    a = LedgerAssumptions(as_of=dt.date(2026, 12, 1), first_quarter="2027Q1", horizon_quarters=4, residual_band_share=0.1)
    assets = pd.DataFrame(
        [
            {
                "asset_id": "lot",
                "sku": "own8",
                "site": "room",
                "machines": 4,
                "in_service": day("2025-01-01"),
                "capex_usd": 1_000_000.0,
                "useful_life_years": 4.0,
                "residual_share": 0.15,
            }
        ]
    )
    ledger = build_ledger(a, LedgerTables(assets=assets, skus=SKUS))
    expense = ledger.entries.query("view == 'p_and_l'")
    assert expense.usd.sum() == pytest.approx(850_000)
    by_year = expense.groupby(expense.month.dt.year).usd.sum()
    assert by_year.loc[2025] == pytest.approx(850_000 * 365 / 1461)
    assert sums(ledger.entries)["cash"] == pytest.approx(850_000)
    row = ledger.residuals.iloc[0]
    assert (row.low_usd, row.expected_usd, row.high_usd) == pytest.approx((50_000, 150_000, 250_000))
    assert row.month == day("2028-12-01")


def test_site_pays_its_committed_power_and_its_machines_draw_theirs():
    sites = pd.DataFrame(
        [
            {
                "site": "room",
                "geography": "us",
                "available_kw": 100.0,
                "committed_kw": 60.0,
                "usd_per_kw_month": 200.0,
                "pue": 1.5,
                "usd_per_kwh": 0.1,
                "end": day("2028-03-31"),
            }
        ]
    )
    assets = pd.DataFrame(
        [
            {
                "asset_id": "lot",
                "sku": "own8",
                "site": "room",
                "machines": 4,
                "in_service": day("2026-01-01"),
                "capex_usd": 1e6,
                "team": "chat",
                "cost_center": "CC-1",
            }
        ]
    )
    bought = purchase(
        offer_id="own",
        sku="own8",
        term="owned",
        region="room",
        machines=1.0,
        quarter="2027Q3",
        end_quarter="2032Q2",
        upfront_usd=3e5,
        usd=3.5e5,
    )
    ledger = build_ledger(A, LedgerTables(sites=sites, assets=assets, skus=SKUS, purchases=bought))
    expense = ledger.entries.query("view == 'p_and_l'")
    january = expense[expense.month == day("2027-01-01")].groupby(["component", "team"]).usd.sum()
    assert january["power", "chat"] == pytest.approx(40 * 1.5 * 0.1 * 744)
    assert january["space", "chat"] == 40 * 200
    assert january["space", "shared"] == 20 * 200
    july = expense[(expense.month == day("2027-07-01")) & (expense.component == "space")].usd.sum()
    assert july == 50 * 200  # the space of the new machine is in its own running cost
    beyond = expense[(expense.month > day("2027-12-31")) & (expense.component == "space")]
    assert beyond.month.dt.strftime("%Y-%m").tolist()[-1] == "2028-03"
    owned = ledger.entries[ledger.entries.contract_id == "own 2027Q3"]
    found = sums(owned)
    assert found["cash"] == pytest.approx(found["p_and_l"])
    assert found["cash"] == pytest.approx(3.5e5 - 0.1 * 3e5)


# ------------------------------------------------------------------------------------------------ the whole ledger


def test_purchases_usage_and_teams():
    workloads = pd.DataFrame(
        {
            "workload": ["a", "b", "c"],
            "stage": "serving",
            "unit": "requests",
            "work_class": ["web", "web", None],
            "team": ["red", "blue", "green"],
            "cost_center": ["1", "2", "3"],
            "host": "self",
        }
    )
    work = pd.DataFrame({"workload": ["a", "b", "c"], "quarter": "2027Q2", "quantity": [30.0, 10.0, 5.0]})
    dispatch = pd.DataFrame(
        {
            "quarter": "2027Q2",
            "class": ["web", "c", "web", "web"],
            "region": "us",
            "source": ["committed", "committed", "on_demand", "shortfall"],
            "provider": ["acme", "acme", "acme", ""],
            "accelerator": ["H100", "H100", "H100", ""],
            "expected_accelerator_hours": [600.0, 200.0, 50.0, 0.0],
            "expected_work": 1.0,
            "expected_usd": [0.0, 0.0, 9100.0, 1e9],
        }
    )
    ledger = build_ledger(A, LedgerTables(purchases=purchase(), dispatch=dispatch, workloads=workloads, work=work, skus=SKUS))
    assert ledger.idle.empty
    capacity = pd.DataFrame([{"quarter": "2027Q2", "provider": "acme", "accelerator": "H100", "source": "bought", "accelerators": 16.0}])
    idle = build_ledger(
        A, LedgerTables(purchases=purchase(), dispatch=dispatch, capacity=capacity, workloads=workloads, work=work, skus=SKUS)
    ).idle.iloc[0]
    assert idle.held_accelerator_hours == 16 * 2184
    assert idle.used_share == pytest.approx(800 / (16 * 2184))
    assert idle.p_and_l_usd == pytest.approx(400_000 * 91 / 366)
    assert idle.unused_usd == pytest.approx(400_000 * 91 / 366 * (1 - 800 / (16 * 2184)))
    assert idle.usd_per_used_accelerator_hour == pytest.approx(400_000 * 91 / 366 / 800)
    assert not (ledger.entries.component == "shortfall").any()
    assert ledger.total("p_and_l") == pytest.approx(409_100)  # imputed shortfall is in no view
    teams = ledger.entries.query("view == 'billed' and component == 'purchase'").groupby("team").usd.sum()
    assert teams.to_dict() == pytest.approx({"red": 400_000 * 0.75 * 0.75, "blue": 400_000 * 0.75 * 0.25, "green": 100_000})
    april = ledger.entries.query("view == 'p_and_l' and component == 'on_demand'").set_index("month").usd[day("2027-04-01")].sum()
    assert april == pytest.approx(9100 * 30 / 91)
    signing = ledger.entries.query("view == 'cash' and component == 'purchase'").iloc[:1]
    assert signing.month.tolist() == [day("2027-02-01")]
    assert set(ledger.entries.status) == {"firm", "expected"}
    wide = ledger.contracts.iloc[0]
    assert wide.cash_usd == pytest.approx(400_000)
    assert wide.p_and_l_usd == pytest.approx(400_000)
    assert wide.beyond_horizon_usd > 0
    assert ledger.total("p_and_l") == pytest.approx(409_100)
    obligations = ledger.obligations
    assert obligations.usd.sum() == pytest.approx(400_000)
    assert set(obligations[obligations.beyond_horizon].fiscal_year) == {"FY2028"}


def test_band_of_spend_and_expected_work():
    costs = pd.DataFrame(
        [
            (path, probability, "2027Q1", component, usd)
            for path, probability, usd in ((0, 0.2, 100.0), (1, 0.6, 500.0), (2, 0.2, 900.0))
            for component, usd in (("on_demand", usd), ("shortfall", 1e9), ("committed", 7.0))
        ],
        columns=["path", "probability", "quarter", "component", "usd"],
    )
    other = pd.DataFrame({"cost_id": ["s3"], "month": [day("2027-01-01")], "kind": ["storage"], "usd": [10.0]})
    band = build_ledger(A, LedgerTables(costs=costs, other_costs=other)).band.set_index(["period", "quantile"]).usd
    assert band["2027Q1"].tolist() == [130, 530, 930]  # storage goes on for three months
    assert band["all"].tolist() == [100 + 120, 500 + 120, 900 + 120]
    assert band["FY2027"].tolist() == band["all"].tolist()
    split = build_ledger(A.model_copy(update={"fiscal_year_first_month": 2}), LedgerTables(costs=costs, other_costs=other)).band
    split = split.set_index(["period", "quantile"]).usd
    assert split["FY2027"].tolist() == pytest.approx([100 / 3 + 10, 500 / 3 + 10, 900 / 3 + 10]), (
        "January alone, a third of the quarter's use"
    )
    assert split["FY2028"].tolist() == pytest.approx([200 / 3 + 110, 1000 / 3 + 110, 1800 / 3 + 110])
    paths = pd.DataFrame(
        {"path": [0, 1], "probability": [0.25, 0.75], "workload": "a", "quarter": "2027Q1", "block": 0, "quantity": [8.0, 4.0]}
    )
    assert expected_work(paths).quantity.tolist() == [5]


def test_late_signing_and_indicative_purchases():
    ledger = build_ledger(A, LedgerTables(purchases=purchase(sign_by=day("2026-08-01"), firm=False), skus=SKUS))
    assert ledger.entries.query("view == 'cash'").month.min() == day("2026-12-01")
    assert ledger.obligations.empty  # indicative purchases are not owed


def test_agreement_discount_and_shortfall_reach_every_view():
    agreements = pd.DataFrame(
        [
            {
                "agreement_id": "edp",
                "provider": "acme",
                "start": day("2027-01-01"),
                "end": day("2027-12-31"),
                "committed_usd": 20_000.0,
                "discount_share": 0.1,
            }
        ]
    )
    dispatch = pd.DataFrame(
        [
            {
                "quarter": "2027Q1",
                "class": "web",
                "region": "us",
                "source": "spot",
                "provider": "acme",
                "accelerator": "H100",
                "expected_accelerator_hours": 1.0,
                "expected_work": 1.0,
                "expected_usd": 9000.0,
            }
        ]
    )
    ledger = build_ledger(A, LedgerTables(spend_agreements=agreements, dispatch=dispatch))
    for view in ("cash", "billed", "p_and_l"):
        parts = ledger.entries[ledger.entries["view"] == view].groupby("component").usd.sum()
        assert parts.to_dict() == pytest.approx({"spot": 9000, "agreement_discount": -900, "agreement_shortfall": 11_900})
    assert any("falls $11.9k short" in note for note in ledger.notes)


def test_api_tokens_by_list_price():
    workloads = pd.DataFrame(
        {"workload": ["summaries"], "stage": "serving", "unit": "requests", "team": ["docs"], "cost_center": ["9"], "host": ["api"]}
    )
    services = pd.DataFrame(
        [
            {
                "workload": "summaries",
                "model": "claude-haiku-4-5",
                "provider": "anthropic",
                "input_tokens": 2000.0,
                "output_tokens": 100.0,
                "cached_share": 0.5,
            }
        ]
    )
    work = pd.DataFrame({"workload": ["summaries"], "quarter": ["2027Q1"], "quantity": [9e6]})
    ledger = build_ledger(A, LedgerTables(workloads=workloads, services=services, work=work))
    # 1 USD a million input tokens, 0.1 cached, 5 output: cached tokens are part of the input.
    each = (1000 * 1 + 1000 * 0.1 + 100 * 5) / 1e6
    assert ledger.api.usd_per_request.tolist() == pytest.approx([each] * 3)
    assert ledger.api.quantity.tolist() == pytest.approx([9e6 * days / 90 for days in (31, 28, 31)])
    assert ledger.total("p_and_l") == pytest.approx(9e6 * each)
    assert set(ledger.entries.team) == {"docs"}


def test_api_prices_of_the_reference_list():
    table = pd.read_csv(reference_file("data", "llm_api_prices", "genai_prices_0.2.3_main_models.csv"))
    when, checked = day("2026-11-27"), 0
    for row in table[table.provider.isin(["openai", "anthropic"])].itertuples():
        usual = request_usd(row.model, row.provider, when, Request(1000, 100))
        assert usual == pytest.approx((1000 * row.input_usd_per_mtok + 100 * row.output_usd_per_mtok) / 1e6, rel=1e-9), row.model
        if not np.isnan(row.batch_input_usd_per_mtok):
            batch = request_usd(row.model, row.provider, when, Request(1000, 100), batch_share=1.0)
            assert batch == pytest.approx((1000 * row.batch_input_usd_per_mtok + 100 * row.batch_output_usd_per_mtok) / 1e6, rel=1e-9), (
                row.model
            )
        checked += 1
    assert checked > 10


def test_api_names_that_the_list_does_not_have():
    with pytest.raises(CapplanError, match="did you mean claude-haiku-4-5"):
        request_usd("claude-haiku-45x", "anthropic", day("2027-01-01"), Request(1, 1))
    with pytest.raises(CapplanError, match="did you mean openai"):
        request_usd("gpt-4o", "opnai", day("2027-01-01"), Request(1, 1))
    with pytest.raises(CapplanError, match="no batch price for deepseek-chat"):
        request_usd("deepseek-chat", "deepseek", day("2027-01-01"), Request(1, 1), batch_share=0.5)


def test_long_prompts_are_priced_one_by_one():
    """A price that rises above 200,000 tokens must not be reached by adding requests up."""
    one = request_usd("claude-sonnet-4-5", "anthropic", day("2027-01-15"), Request(1000, 0))
    assert one == pytest.approx(3 * 1000 / 1e6)
    assert request_usd("claude-sonnet-4-5", "anthropic", day("2027-01-15"), Request(300_000, 0)) > 300 * one


def test_other_costs_go_on_or_stop():
    costs = pd.DataFrame(
        {
            "cost_id": ["s3", "s3", "crew"],
            "month": [day("2026-11-01"), day("2026-12-01"), day("2027-01-01")],
            "kind": ["storage", "storage", "people"],
            "usd": [90.0, 100.0, 50.0],
            "team": ["x", "x", "y"],
            "account": ["6310", "6310", "6100"],
        }
    )
    held = build_ledger(A, LedgerTables(other_costs=costs)).entries.query("view == 'p_and_l'")
    assert held.groupby("contract_id").usd.sum().to_dict() == {"s3": 90 + 100 * 13, "crew": 50 * 12}
    stated = build_ledger(LedgerAssumptions(**{**A.model_dump(), "hold_other_costs": False}), LedgerTables(other_costs=costs)).entries
    assert stated.query("view == 'p_and_l'").usd.sum() == 240
    assert stated.query("view == 'cash' and contract_id == 'crew'").month.tolist() == [day("2027-01-01")]
    assert set(stated.account) == {"6310", "6100"}


def test_other_costs_count_towards_the_agreement_of_their_provider():
    agreements = pd.DataFrame(
        [
            {
                "agreement_id": "edp",
                "provider": "acme",
                "start": day("2027-01-01"),
                "end": day("2027-12-31"),
                "committed_usd": 1500.0,
                "discount_share": 0.1,
            }
        ]
    )
    costs = pd.DataFrame(
        {
            "cost_id": ["s3", "crew"],
            "month": day("2027-01-01"),
            "kind": ["storage", "people"],
            "usd": [100.0, 50.0],
            "provider": ["acme", None],
        }
    )
    row = build_ledger(A, LedgerTables(spend_agreements=agreements, other_costs=costs)).agreements.iloc[0]
    assert (row.planned_usd, row.discount_usd, row.shortfall_usd) == (1200, 0, 300)


def test_currency_fiscal_year_and_missing_rates():
    euro = LedgerAssumptions(**{**A.model_dump(), "currency": "EUR", "fiscal_year_first_month": 2})
    with pytest.raises(CapplanError, match=r"no exchange rate for EUR; fx\.csv has none"):
        build_ledger(euro, LedgerTables(commitments=commitment(), skus=SKUS))
    fx = pd.DataFrame({"currency": ["EUR", "EUR"], "date": [day("2026-12-15"), day("2027-06-10")], "usd": [1.25, 1.0]})
    ledger = build_ledger(euro, LedgerTables(commitments=commitment(), skus=SKUS, fx=fx))
    expense = ledger.entries.query("view == 'p_and_l'").set_index("month")
    assert expense.amount[day("2027-01-01")] == pytest.approx(4 * 20 * 744 / 1.25)
    assert expense.amount[day("2027-06-01")] == pytest.approx(4 * 20 * 720)
    assert expense.fiscal_year[day("2027-01-01")] == "FY2027"
    assert expense.fiscal_year[day("2027-02-01")] == "FY2028"
    months = pd.Series([day("2020-01-01")])
    assert rates_by_month(months, "EUR", fx).tolist() == [1.25]
    with pytest.raises(ValueError, match="less than or equal to 12"):
        LedgerAssumptions(fiscal_year_first_month=13)


def test_budgets():
    limits = pd.DataFrame(
        [{"limit_id": "cap", "kind": "budget_usd", "amount": 100_000.0, "measure": "p_and_l", "team": "chat", "hard": False}]
    )
    ledger = build_ledger(A, LedgerTables(commitments=commitment(), skus=SKUS, limits=limits))
    assert ledger.budgets.planned_usd.tolist() == pytest.approx([80 * hours for hours in (2160, 2184, 2208, 2208)])
    assert ledger.budgets.over_usd.iloc[0] == pytest.approx(72_800)
    with pytest.raises(CapplanError, match="budgets without a measure: cap"):
        build_ledger(A, LedgerTables(limits=limits.drop(columns="measure")))


def test_economic_view_discounts_future_cash_only():
    ledger = build_ledger(A, LedgerTables(commitments=commitment(start=day("2026-10-01"), end=day("2027-09-30")), skus=SKUS))
    economic = ledger.entries.query("view == 'economic'").set_index("month").usd
    cash = ledger.entries.query("view == 'cash'").set_index("month").usd
    assert day("2026-11-01") not in economic.index
    paid = day("2027-03-31") + pd.Timedelta(days=30)
    years = (paid - day("2026-12-01")).days / 365.25
    assert economic[day("2027-04-01")] == pytest.approx(cash[day("2027-04-01")] * 1.09**-years)


#: Shares to a millionth: of amounts next to the smallest number a computer knows, half and twice no longer are what they say.
SHARES = st.integers(0, 1_000_000).map(lambda millionths: millionths / 1_000_000)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.floats(0.5, 100), st.integers(0, 700), st.integers(1, 1100), SHARES, st.integers(0, 5)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 12),
    st.floats(0.5, 2),
    st.integers(0, 120),
    SHARES.map(lambda share: 0.6 * share),
)
def test_views_agree_over_the_life_of_random_contracts(rows, first_month, rate, terms, residual):
    """Signed and bought contracts and machines: cash = billed = P&L, in any currency at a steady rate, and fiscal years add up."""
    a = LedgerAssumptions(
        **{
            **A.model_dump(),
            "currency": "CHF",
            "fiscal_year_first_month": first_month,
            "payment_terms_days": terms,
            "residual_share": residual,
        }
    )
    signed, payments, bought = [], [], []
    for number, (machines, price, offset, days, upfront, pieces) in enumerate(rows):
        start = day("2026-01-01") + pd.Timedelta(days=offset)
        usd = machines * price * 24 * days
        signed.append(
            commitment(
                commitment_id=f"c{number}",
                machines=float(machines),
                usd_per_hour=price,
                start=start,
                end=start + pd.Timedelta(days=days - 1),
                upfront_paid_usd=upfront * usd,
            )
        )
        for piece in range(pieces):
            payments.append((f"c{number}", start + pd.Timedelta(days=31 * piece), (1 - upfront) * usd / pieces))
        term = "owned" if number % 2 else "lease"
        bought.append(purchase(offer_id=f"o{number}", term=term, upfront_usd=upfront * usd, usd=usd, firm=bool(number % 3)))
    fx = pd.DataFrame({"currency": ["CHF"], "date": [day("2020-01-01")], "usd": [rate]})
    ledger = build_ledger(
        a,
        LedgerTables(
            commitments=pd.concat(signed),
            payments=pd.DataFrame(payments, columns=["commitment_id", "date", "usd"]),
            purchases=pd.concat(bought),
            skus=SKUS,
            fx=fx,
        ),
    )
    wide = ledger.contracts
    np.testing.assert_allclose(wide.cash_usd, wide.billed_usd, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(wide.cash_usd, wide.p_and_l_usd, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(wide.paid_usd + wide.owed_usd, wide.cash_usd, rtol=1e-9, atol=1e-6)
    entries = ledger.entries
    # what comes in when machines are sold is discounted as well
    sold = -entries[(entries.view == "cash") & (entries.component == "residual")].groupby("contract_id").usd.sum()
    assert (wide.economic_usd <= wide.owed_usd.clip(lower=0) + wide.contract_id.map(sold).fillna(0) + 1e-6).all()
    np.testing.assert_allclose(entries.amount * rate, entries.usd, rtol=1e-12)
    by_team = entries.groupby(["view", "team"]).usd.sum().groupby("view").sum()
    by_year = entries.groupby(["view", "fiscal_year"]).usd.sum().groupby("view").sum()
    np.testing.assert_allclose(by_team, by_year, rtol=1e-9, atol=1e-6)
    assert (entries.fiscal_year == [fiscal_year(month, first_month) for month in entries.month]).all()
    owed = wide[wide.status.isin(["signed", "firm"])].owed_usd.sum()
    resale = entries[(entries["view"] == "cash") & (entries.component == "residual") & (entries.status == "firm")].usd.sum()
    assert ledger.obligations.usd.sum() == pytest.approx(owed - resale, rel=1e-9, abs=1e-6)


def test_building_blocks_refuse_what_ends_before_it_starts():
    contract = Contract("x", "commitment", "acme", day("2027-02-01"), day("2027-01-01"), 1.0)
    assert "before it starts" in str(contract.fault())
    assert (
        len(
            {
                entry.view
                for entry in machine_entries(
                    Entry(day("2027-01-01"), "", "capex", "m", 100.0, "signed", "own"), day("2027-01-01"), 1.0, 0.0
                )
            }
        )
        == 3
    )


def test_the_example_book_ties_to_its_bill():
    """Every contract of the example company ties to its last bill, what is invoiced and what is expensed."""
    book = load_book(shipped("data") / "enterprise")
    tables = (
        "commitments",
        "payments",
        "skus",
        "workloads",
        "services",
        "assets",
        "sites",
        "spend_agreements",
        "other_costs",
        "billing",
        "limits",
        "fx",
    )
    ledger = build_ledger(book.scenario.section(LedgerAssumptions), LedgerTables(**{name: book.get(name) for name in tables}))
    table = ledger.reconciliation
    assert table.month.unique().tolist() == [day("2026-11-01")]
    bound = table[table.ties.notna()]
    assert len(bound) >= 5
    assert bound.ties.all()
    assert bound.difference_usd.abs().max() < 0.01
    wide = ledger.contracts
    np.testing.assert_allclose(wide.cash_usd, wide.p_and_l_usd, rtol=1e-9)
    assert ledger.headline.startswith("2027Q1 to 2028Q4")
    broken = book.get("billing")
    hit = (broken.pricing_category == "Committed") & (broken.month == day("2026-11-01"))
    broken.loc[hit, "effective_cost"] *= 1.02
    other = build_ledger(
        book.scenario.section(LedgerAssumptions), LedgerTables(**{name: book.get(name) for name in tables} | {"billing": broken})
    )
    assert any("the ledger has" in note for note in other.notes)


def test_the_price_of_calls_is_what_they_all_cost_by_their_number():
    calls = pd.DataFrame(
        {"workload": "chat", "provider": ["a", "a", "b", "c"], "quantity": [10.0, 30.0, 4.0, 0.0], "usd": [1.0, 7.0, 2.0, 0.0]}
    )
    empty = LedgerTables()
    tables = (empty.full("commitments"), empty.full("sites"), calls, empty.planned("dispatch"), empty.planned("purchases"))
    assert {price.price_id: price.price for price in plan_prices(*tables, A)} == {"tokens chat a": 0.2, "tokens chat b": 0.5}


def test_calls_above_what_a_provider_grants_are_named_with_their_first_quarter():
    services = pd.DataFrame({"workload": ["chat", "digests"], "provider": "openai", "model": "m", "batch_share": [0.0, 0.5]})
    services = services.assign(input_tokens=300.0, output_tokens=100.0)
    terms = services[["workload", "provider", "model"]].assign(kind="payg", requests_per_minute=[2.0, 2.0])
    jobs = pd.DataFrame({"workload": ["chat", "digests"], "host": "api", "deferrable": [False, True]})
    times = pd.to_datetime(["2026-12-31 22:00", "2026-12-31 23:00"])
    usage = pd.concat([pd.DataFrame({"time": times, "workload": name, "quantity": [10.0, 30.0]}) for name in jobs["workload"]])
    hours = {"2027Q1": 2160, "2027Q2": 2184}
    mean = {("chat", "2027Q1"): 79.0, ("chat", "2027Q2"): 81.0, ("digests", "2027Q1"): 239.0, ("digests", "2027Q2"): 239.0}
    expected = pd.DataFrame([(*key, value * hours[key[1]]) for key, value in mean.items()], columns=["workload", "quarter", "quantity"])
    # 120 calls an hour are granted; the busiest hour has 1.5 times the mean one, and half of the digests come in batches, when they may
    (note,) = rate_limit_notes(services, terms, jobs, usage, expected)
    assert "chat is expected to have 122 requests in its busiest hour of 2027Q2, and openai grants 120" in note
    none = terms.assign(requests_per_minute=np.nan)
    assert not rate_limit_notes(services, none, jobs, usage, expected)
    assert rate_limit_notes(services, none.assign(tokens_per_minute=800.0), jobs, usage, expected) == [note]


def test_what_is_held_by_several_contracts_adds_up():
    pool = {"quarter": "2027Q1", "provider": "aws", "accelerator": "H100"}
    capacity = pd.DataFrame([{**pool, "accelerators": 8.0, "share": 1.0}, {**pool, "accelerators": 16.0, "share": 0.5}])
    dispatch = pd.DataFrame([{**pool, "source": "committed", "expected_accelerator_hours": 8 * 2190.0}])
    entries = [
        {"quarter": "2027Q1", "view": "p_and_l", "component": "commitment", "contract_id": name, "provider": "aws", "usd": 300.0}
        for name in "ab"
    ]
    held = dict.fromkeys("ab", ("aws", "H100", True))
    found = idle_table(pd.DataFrame(entries), held, capacity, dispatch, LedgerAssumptions(hours_convention="average")).iloc[0]
    assert found["held_accelerator_hours"] == pytest.approx(16 * found["used_accelerator_hours"] / 8)
    assert found["used_share"] == pytest.approx(0.5)
    assert found["unused_usd"] == pytest.approx(300.0)
    # what rounding leaves of full use is no idle machine
    full = dispatch.assign(expected_accelerator_hours=16 * 2190.0 * (1 - 2e-16))
    found = idle_table(pd.DataFrame(entries), held, capacity, full, LedgerAssumptions(hours_convention="average")).iloc[0]
    assert found["used_share"] == 1
    assert found["unused_usd"] == 0
