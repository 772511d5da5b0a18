"""Planned spend as a bill: it ties to the ledger, and keeps the rules of the FOCUS specification."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from capplan.answers.plan import quarterly_plan
from capplan.book.book import load_book
from capplan.outputs.export.files import write_table
from capplan.outputs.export.focus import COLUMNS, by_month, planned_focus
from capplan.outputs.views.plan_tables import planned_work, quarters_of
from capplan.outputs.views.unit_tables import discounted_hours
from capplan.questions.review import spend_of_focus
from tests.conftest import SOURCES, reference_file
from tests.outputs import test_excel as small

CATEGORIES = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "CommitmentDiscountCategory": {"Spend", "Usage"},
    "CommitmentDiscountStatus": {"Used", "Unused"},
    "ServiceCategory": {
        "AI and Machine Learning",
        "Analytics",
        "Business Applications",
        "Compute",
        "Databases",
        "Developer Tools",
        "Multicloud",
        "Identity",
        "Integration",
        "Internet of Things",
        "Management and Governance",
        "Media",
        "Migration",
        "Mobile",
        "Networking",
        "Security",
        "Storage",
        "Web",
        "Other",
    },
}
#: The contracts of the small book, one that only lowers a price, and one that begins and ends in the planned quarters.
CONTRACTS = "".join(
    f"{line},{'guarantees_capacity' if number == 0 else 'true'}\n" for number, line in enumerate(small.CONTRACTS.splitlines())
) + (
    "c3,test.8x,us-1,savings_plan_1y,1,22,2026-12-15,2027-12-14,,1,0,shared,shared,false\n"
    "c4,test.8x,us-1,capacity_block,1,18,2027-02-11,2027-04-30,,1,0,shared,shared,true\n"
)


@pytest.fixture(scope="module", params=["USD", "EUR"])
def made(request, tmp_path_factory):
    """A plan of the small book of the workbook's tests, with a savings plan, and its planned bill."""
    folder = tmp_path_factory.mktemp(request.param)
    tables = {
        "workloads": small.WORKLOADS,
        "speeds": small.SPEEDS,
        "demand_scenarios": small.STATED,
        "skus": small.SKUS,
        "offers": small.OFFERS,
        "commitments": CONTRACTS,
        "sites": small.SITES,
        "assets": small.ASSETS,
        "spend_agreements": small.AGREEMENTS,
        "other_costs": small.OTHER,
        "fx": small.FX,
        "limits": small.LIMITS,
        "sources": SOURCES,
    }
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "book.yaml").write_text(small.BOOK.format(currency=request.param))
    plan = quarterly_plan(load_book(folder))
    return plan, planned_focus(plan)


def test_it_ties_to_the_ledger_month_by_month(made):
    plan, rows = made
    entries = plan.ledger.entries[plan.ledger.entries["quarter"].isin(quarters_of(plan))]
    for column, view in (("BilledCost", "billed"), ("EffectiveCost", "p_and_l")):
        ledger = entries[entries["view"] == view].groupby("month")["amount"].sum()
        planned = rows.groupby(pd.to_datetime(rows["BillingPeriodStart"].str[:10]))[column].sum().reindex(ledger.index)
        np.testing.assert_allclose(planned, ledger, atol=0.005)


def test_hours_are_those_that_run_and_those_that_stand_idle(made):
    plan, rows = made
    ran = plan.purchases.dispatch
    hours = ran.loc[ran["source"].isin(["committed", "on_demand", "spot"]), "expected_accelerator_hours"].sum()
    assert rows["ConsumedQuantity"].sum() == pytest.approx(hours)
    unused = rows[rows["Tags"].str.contains("idle") & rows["PricingUnit"].eq("Accelerator-Hours")]
    idle = plan.ledger.idle
    assert unused["PricingQuantity"].sum() == pytest.approx(
        (idle["held_accelerator_hours"] - idle["used_accelerator_hours"]).clip(lower=0).sum()
    )
    under_plan = rows[rows["CommitmentDiscountCategory"].eq("Spend") & rows["ConsumedQuantity"].notna()]
    assert under_plan["ConsumedQuantity"].sum() == pytest.approx(discounted_hours(plan)["discounted_accelerator_hours"].sum())


def test_hours_of_a_contract_are_at_list_what_they_cost_on_demand(made):
    plan, rows = made
    used = rows[rows["CommitmentDiscountCategory"].eq("Usage") & rows["ConsumedQuantity"].gt(0)]
    on_demand = plan.prices.set_index("offer_id").at["od", "billed_usd_per_accelerator_hour"]
    assert len(used)
    if plan.scenario.currency == "USD":
        np.testing.assert_allclose(used["ListUnitPrice"].astype(float), on_demand)
    np.testing.assert_allclose(used["ListCost"].astype(float), used["ListUnitPrice"].astype(float) * used["PricingQuantity"].astype(float))


def test_a_contract_costs_over_its_term_what_is_billed_for_it(made):
    plan, rows = made
    own = rows[rows["CommitmentDiscountId"] == "c4"]
    assert own["EffectiveCost"].sum() == pytest.approx(own["BilledCost"].sum(), abs=0.005)
    assert own.groupby("BillingPeriodStart")["EffectiveCost"].sum().size == 3
    usd = plan.ledger.entries.query("contract_id == 'c4' and view == 'billed'")["usd"].sum()
    assert usd == pytest.approx(79 * 24 * 18)


def test_it_keeps_the_rules_of_the_specification(made):
    _, rows = made
    assert list(rows.columns) == COLUMNS
    for column, allowed in CATEGORIES.items():
        assert set(rows[column].dropna()) <= allowed, column
    usage, purchase, committed = (
        rows["ChargeCategory"].eq("Usage"),
        rows["ChargeCategory"].eq("Purchase"),
        rows["CommitmentDiscountId"].notna(),
    )
    assert rows.loc[committed & usage, "CommitmentDiscountStatus"].notna().all()
    assert rows.loc[~committed | ~usage, "CommitmentDiscountStatus"].isna().all()
    for column in ("CommitmentDiscountCategory", "CommitmentDiscountType", "CommitmentDiscountQuantity", "CommitmentDiscountUnit"):
        assert rows[column].notna().equals(committed), column
    assert rows.loc[committed & usage, "PricingCategory"].eq("Committed").all()
    unused = rows["CommitmentDiscountStatus"].eq("Unused")
    assert rows.loc[~usage | unused, ["ConsumedQuantity", "ConsumedUnit"]].isna().all(axis=None)
    assert rows.loc[usage | purchase, ["PricingQuantity", "PricingUnit", "PricingCategory"]].notna().all(axis=None)
    assert not rows.loc[purchase, "ChargeFrequency"].eq("Usage-Based").any()
    assert rows.loc[committed & usage, "BilledCost"].eq(0).all()
    assert rows.loc[committed & purchase, "EffectiveCost"].eq(0).all()
    priced = rows[rows["PricingQuantity"].notna()]
    for unit, cost in (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")):
        np.testing.assert_allclose(priced[unit] * priced["PricingQuantity"], priced[cost], rtol=1e-9)
    assert rows.loc[usage | purchase, "SkuId"].notna().all()
    assert (rows.loc[rows["CommitmentDiscountStatus"].eq("Used"), "ConsumedQuantity"].dropna() > 0).all()
    assert rows["ConsumedUnit"].notna().equals(rows["ConsumedQuantity"].notna())
    assert rows["PricingUnit"].notna().equals(rows["PricingQuantity"].notna())
    assert rows["CommitmentDiscountUnit"].notna().equals(rows["CommitmentDiscountQuantity"].notna())
    assert (rows[["ListUnitPrice", "ContractedUnitPrice"]].dropna() >= 0).all(axis=None)
    assert rows["ChargeClass"].isna().all()
    assert rows["BillingCurrency"].str.fullmatch("[A-Z]{3}").all()
    for end in ("Start", "End"):
        assert rows[f"ChargePeriod{end}"].equals(rows[f"BillingPeriod{end}"])
    assert (rows["BillingPeriodStart"] < rows["BillingPeriodEnd"]).all()
    assert rows["BillingPeriodStart"].str.match(r"^\d{4}-\d{2}-01T00:00:00Z$").all()
    assert all(isinstance(json.loads(text), dict) for text in rows["Tags"])


def test_what_rounding_leaves_is_no_charge(made):
    plan, rows = made
    assert rows["CommitmentDiscountStatus"].eq("Unused").any()
    used = plan.ledger.idle.assign(used_share=1 - 1e-15)
    full = planned_focus(replace(plan, ledger=replace(plan.ledger, idle=used)))
    assert (full[["BilledCost", "EffectiveCost"]].abs().max(axis=1) > 1e-6).all()


#: Rules of the validator of FOCUS 1.0 that no planned bill meets: names that the specification does not have, columns for what a plan does
#: not tell, and a list of currencies that the validator lacks.
UNMEETABLE = {
    *(f"{name}_Required" for name in ("InvoiceIssuer", "Provider", "Publisher", "ResourceID")),
    *(f"{name}_Required" for name in ("CommitmentDiscountName", "RegionId", "RegionName", "ResourceName", "ResourceType")),
    *(f"{name}_Required" for name in ("SkuPriceId", "SubAccountId", "SubAccountName")),
    "BillingCurrency_IsCurrencyCode",
}


official_validator = pytest.mark.skipif(
    "FOCUS_VALIDATOR" not in os.environ,
    reason="FOCUS_VALIDATOR names no command of focus-validator, which needs an environment of its own, with multimethod<2",
)


def rules_broken(rows, folder):
    """The rules of FOCUS 1.0 that the official validator finds broken."""
    path = folder / "planned.csv"
    write_table(rows, path)
    told = subprocess.run(
        [os.environ["FOCUS_VALIDATOR"], "--data-file", path, "--validate-version", "1.0"], capture_output=True, text=True, check=False
    ).stdout
    assert "Validation" in told
    return set(re.findall(r"(\w+) failed:", told))


@official_validator
def test_the_official_validator_finds_no_fault_but_those_of_its_own_rules(made, tmp_path):
    assert rules_broken(made[1], tmp_path) <= UNMEETABLE


@official_validator
def test_the_official_validator_finds_a_planted_fault_of_each_kind(made, tmp_path):
    _, rows = made
    bad = rows.drop(columns="BillingAccountId").assign(BilledCost="much", ServiceCategory="Nonsense", BillingPeriodStart="yesterday")
    bad["ChargePeriodEnd"] = None
    assert rules_broken(bad, tmp_path) - UNMEETABLE == {
        "BillingAccountId_Required",
        "BilledCost_IsDecimal",
        "ServiceCategory_Enum",
        "BillingPeriodStart_IsDateTime",
        "ChargePeriodEnd_NotNull",
    }


def test_its_columns_are_those_of_the_specification(made):
    _, rows = made
    with reference_file("data", "billing", "focus_spec_v1.2_columns.csv").open(encoding="utf-8") as file:
        spec = {row["column_id"]: row for row in csv.DictReader(file)}
    assert set(rows.columns) <= set(spec)
    mandatory = {name for name, row in spec.items() if row["feature_level"] == "Mandatory"}
    assert mandatory <= set(rows.columns)
    for name in set(rows.columns):
        if spec[name]["allows_nulls"] == "False":
            assert rows[name].notna().all(), name
        if spec[name]["data_type"] == "Decimal":
            assert pd.api.types.is_numeric_dtype(rows[name]), name


def test_spend_is_read_back_whole(made):
    _, rows = made
    spend = spend_of_focus(rows)
    assert spend["amount"].sum() == pytest.approx(rows["EffectiveCost"].sum())
    assert {"on_demand", "committed", "unused", "other"} <= set(spend["kind"])
    assert spend.loc[spend["kind"] != "unused", "hours"].sum() == pytest.approx(rows["ConsumedQuantity"].sum())


def test_planned_work_is_the_forecasts(made):
    plan, _ = made
    work, paths = planned_work(plan, pd.read_csv(StringIO(small.WORKLOADS)).assign(work_class=None)), plan.forecast.paths
    assert work["expected"].sum() == pytest.approx((paths["quantity"] * paths["probability"]).sum())
    assert (work["low"] <= work["expected"] + 1e-9).all()
    assert (work["expected"] <= work["high"] + 1e-9).all()


def test_a_plan_that_holds_nothing_has_months_even_so():
    nothing = pd.DataFrame(columns=["quarter", "pool_provider", "hours"]).astype({"hours": float})
    spread = by_month(nothing, ["hours"])
    assert spread["month"].dtype == "datetime64[ns]"
    assert spread.empty
    one = by_month(pd.DataFrame({"quarter": ["2027Q1"], "hours": [90.0]}), ["hours"])
    assert one.set_index("month").hours.to_dict() == {
        pd.Timestamp(f"2027-0{month}-01"): days for month, days in ((1, 31.0), (2, 28.0), (3, 31.0))
    }
