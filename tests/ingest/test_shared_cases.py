"""The small cases kept beside the project, read where they lie; each with the value that is right."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.answers.plan import demand_of, quarterly_plan
from capplan.answers.readiness import readiness
from capplan.book.assumptions.ledger import LedgerAssumptions
from capplan.book.book import load_book
from capplan.errors import BookError
from capplan.ingest import ingest
from capplan.questions.ledger.build_ledger import LedgerTables, build_ledger
from tests.conftest import reference_file

#: What is ingested (format, file, options), accelerator-hours or requests by interval or workload, and dollars billed.
USAGE = {
    "c01": ([("focus", f"c01_focus_parts/part_0_000{part}.csv", {}) for part in (1, 2)], [16, 16, 8], 275.20),
    "c02": ([("focus", "c02_focus_odcr/bill.csv", {})], [24, 32], 440.32),
    "c03": ([("focus", "c03_focus_negative/bill.csv", {})], {"research": 64, "vision": 16}, 550.40),
    "c04": ([("focus", "c04_focus_surcharge/bill.csv", {})], [8, 8], 110.75),
    "c06": ([("slurm", "c06_slurm_mig/sacct.txt", {})], {"vision": 3}, None),
    "c07 ns": ([("requests", "c07_otel_nanoseconds/spans.csv", {})], [2, 1], None),
    "c07 us": ([("requests", "c07_otel_nanoseconds/micro.csv", {})], [2, 1], None),
    "c08": ([("requests", "c08_litellm_status/spend_logs.csv", {})], [1], None),
    "c08 without": ([("requests", "c08_litellm_status/without_status.csv", {})], [1], None),
    "c11": ([("focus", "c11_focus_gcp/bill.csv", {})], [8], 90.0),
    "c12": ([("focus", "c12_focus_coreweave/bill.csv", {})], [16, 16], None),
    "c13": ([("focus", "c13_focus_azure/bill.csv", {})], [192], 2359.68),
    "c14": ([("slurm", "c14_slurm_pipe/sacct.txt", {})], [12, 12], None),
    "c17": ([("requests", f"c17_requests_pods/pod-{pod}.csv", {"workload": "chat"}) for pod in "ab"], [2, 3], None),
    "c18": ([("requests", "c18_burst/BurstGPT.csv", {"start": "2026-09-01"})], {"ChatGPT": 1, "GPT-4": 1}, None),
    "c24": ([("focus", f"c24_focus_restated/2026-09-{which}.csv", {}) for which in ("first", "restated")], {"vision": 16}, 110.08),
}
#: Price sheets: file, options, and the price by term.
PRICES = {
    "c09": ("c09_prices_gpuhunt/gpuhunt-2026-09-01.csv", "sku=instance_name,on_demand=price", "aws", {"on_demand": 55.04, "spot": 19.50}),
    "c10": ("c10_prices_skypilot/aws-2026-09-01.csv", "on_demand=Price,spot=SpotPrice", "aws", {"on_demand": 55.04, "spot": 19.50}),
    "c25": ("c25_prices_gcp_host/gcp-2026-09-01.csv", "on_demand=Price,spot=SpotPrice", "gcp", {"on_demand": 87.86, "spot": 20.60}),
}
SAID = {"c06": "shards", "c08": "1 failed and 1 were answered from a cache", "c18": "1 failed", "c24": "is billed again"}


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.yaml").write_text("name: t\n")
    return tmp_path


@pytest.mark.parametrize("case", USAGE)
def test_usage_and_bills(book, case):
    calls, right, billed = USAGE[case]
    for format, name, options in calls:
        found = ingest(format, reference_file("cases", name), book, **options)
    usage = pd.read_csv(book / "usage.csv")
    if isinstance(right, dict):
        assert usage.groupby("workload").quantity.sum().to_dict() == pytest.approx(right, rel=1e-6)  # sevenths have six places
    else:
        assert usage.groupby("time").quantity.sum().tolist() == pytest.approx(right, rel=1e-9)
    assert (book / "billing.csv").exists() == (billed is not None)
    if billed is not None:
        assert pd.read_csv(book / "billing.csv").billed_cost.sum() == pytest.approx(billed, abs=1e-6)
    assert any(SAID.get(case, "") in note for note in found.notes)


@pytest.mark.parametrize("case", PRICES)
@pytest.mark.parametrize("format", ["prices", "auto"])
def test_price_sheets(book, case, format):
    name, columns, provider, right = PRICES[case]
    options = {"columns": columns, "provider": provider} if format == "prices" else {"provider": provider}
    offers = ingest(format, reference_file("cases", name), book, **options).tables["offers"]
    assert offers.set_index("term").usd_per_hour.to_dict() == pytest.approx(right)


def test_c25_a_price_of_the_host_alone_is_refused():
    path = reference_file("cases", "c25_prices_gcp_host", "gcp-after-the-remedy-2026-09-01.csv")
    with pytest.raises(BookError, match="a3-highgpu-8g in us-central1"):
        ingest("prices", path, columns="on_demand=Price,spot=SpotPrice", provider="gcp")


@pytest.mark.parametrize("name", ["bill.csv", "bill_sku_named.csv"])
def test_c19_the_contract_ties_to_the_bill(book, name):
    folder = reference_file("cases", "c19_focus_reconcile")
    (book / "book.yaml").write_text("name: t\nas_of: 2026-11-28\nfirst_quarter: 2027Q1\nhorizon_quarters: 2\n")
    (book / "commitments.csv").write_text((folder / "commitments.csv").read_text())
    ingest("focus", folder / name, book)
    loaded = load_book(book)
    tables = {table: loaded.get(table) for table in ("commitments", "skus", "workloads", "billing")}
    table = build_ledger(loaded.scenario.section(LedgerAssumptions), LedgerTables(**tables)).reconciliation.set_index(["view", "line"])
    for view in ("billed", "p_and_l"):
        row = table.loc[(view, "p5.48xlarge under contract")]
        assert (row.ledger_usd, row.bill_usd, row.ties) == (178_560.0, 178_560.0, True)
    by_use = table[table.index.get_level_values("line").str.contains("by use")]
    assert not len(by_use) or by_use.bill_usd.abs().max() == 0


def forecast_quarters(book, name: str) -> pd.DataFrame:
    ingest("jobs", reference_file("cases", name, "jobs.csv"), book, region="us")
    loaded = load_book(book)
    paths = demand_of(loaded, loaded.scenario).paths
    return paths.groupby(["path", "quarter"], as_index=False).quantity.sum()


def test_c20_work_that_has_ended_stays_ended(book):
    quarters = forecast_quarters(book, "c20_forecast_ended")
    assert quarters.groupby("quarter").quantity.median().max() <= 24 * 92  # one accelerator


def test_c22_a_run_every_four_weeks_is_forecast_as_it_comes(book):
    quarters = forecast_quarters(book, "c22_forecast_monthly_run").groupby("quarter").quantity.agg(["mean", "median", "max"])
    # 90 / 28 runs in a mean quarter; in this one they fall on 25 January, 22 February and 22 March
    assert quarters["median"].iloc[0] == pytest.approx(3 * 12 * 24, rel=0.02)
    assert quarters["median"].iloc[0] == pytest.approx(12 * 24 * 90 / 28, rel=0.08)
    assert quarters["max"].iloc[0] <= 4 * 12 * 24


def test_c23_the_headline_is_a_cost_that_can_be_paid(book):
    folder = reference_file("cases", "c23_negative_plan_cost")
    ingest("jobs", folder / "jobs.csv", book, region="us", accelerator="H100")
    (book / "commitments.csv").write_text((folder / "commitments.csv").read_text())
    loaded = load_book(book)
    plan = quarterly_plan(loaded, loaded.scenario.replaced(horizon_quarters=6, plan_paths=20, flip_search=False))
    assert "-$" not in plan.headline
    assert plan.purchases.costs.usd.sum() >= 0


def test_c29_a_block_that_has_ended_is_named_before_a_plan_starts(book):
    folder = reference_file("cases", "c29_expired_block")
    for name in ("book.yaml", "offers.csv", "sources.csv"):
        (book / name).write_text((folder / name).read_text())
    ingest("jobs", folder / "jobs.csv", book, region="us", accelerator="H100")
    loaded = load_book(book)
    assert "offers.csv, row 2, column available_from: the capacity block past-block" in readiness(loaded, loaded.scenario)[0]


def test_scripts_find_the_reader_by_the_name_they_used_before():
    from capplan.inputs.ingest import ingest as before

    assert before is ingest
