"""A book made of real files only: production request rates, a cluster's jobs, and price sheets, through to a report."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from capplan.book.book import load_book, new_book
from capplan.ingest import ingest
from capplan.outputs.run.report import write_report
from tests.conftest import reference_file


def output_tokens_per_second_per_accelerator() -> float:
    """Read the median H100 rate of the MLPerf Inference v5.1 server results for llama2-70b, closed division."""
    rows = pd.read_csv(reference_file("data", "serving_throughput", "mlperf_inference_v5.1_llm.csv"))
    rows = rows[
        (rows["model"] == "llama2-70b-99")
        & (rows["scenario"] == "Server")
        & (rows["category"] == "closed")
        & rows["accelerator"].str.contains("H100-SXM", na=False)
        & (rows["performance_units"] == "Tokens/s")
    ]
    return float((rows["performance"] / (rows["nodes"] * rows["accelerators_per_node"])).median())


@pytest.fixture(scope="module")
def real_book(tmp_path_factory):
    rates = reference_file("data", "llm_demand", "servegen_m-large_requests_per_second_10min.csv")
    jobs = reference_file("data", "gpu_jobs", "philly_jobs.csv.gz")
    lengths = pd.read_csv(reference_file("data", "llm_demand", "servegen_m-large_mean_tokens_per_client_window.csv"))
    prices = reference_file("data", "gpu_prices")
    book = tmp_path_factory.mktemp("real") / "real"
    new_book(book)
    requests_per_hour = 3600 * output_tokens_per_second_per_accelerator() / lengths["mean_output_tokens"].mean()
    ingest("rates", rates, book, workload="m-large", start="2026-11-01", accelerator="H100", work_per_accelerator_hour=requests_per_hour)
    # the trace is of 2017; moved by whole weeks, it keeps its weekdays
    ingest("jobs", jobs, book, shift_days=464 * 7, accelerator="A100-80GB")
    for name in ("aws_accelerator_ondemand_1y_reserved_2026-01-21", "gcp_accelerator_ondemand_spot_cud_2026-07-30"):
        ingest("prices", prices / f"{name}.csv", book)
    for name in ("aws_accelerator_3y_reserved_annual_us-east-1", "neocloud_accelerator_prices"):
        ingest("prices", prices / f"{name}.csv", book, as_of="2026-11-27")
    with (book / "book.yaml").open("a", encoding="utf-8") as file:
        # what a cluster of 2017 and one service need is more than a pool's usual allowance
        file.write("geographies: [us]\nhorizon_quarters: 4\nplan_paths: 20\nflip_search: false\n")
    return book


@pytest.mark.slow
def test_the_plan_of_real_files_makes_sense(real_book, tmp_path):
    book = load_book(real_book)
    used = book.usage.groupby("workload")["quantity"].sum()
    assert used["m-large"] == pytest.approx(236_892_826, rel=1e-6)
    assert used.drop("m-large").sum() == pytest.approx(978_078, rel=1e-5)
    report = write_report(real_book, {}, tmp_path, lambda _: None)
    plan = report.plan
    # demand stays within reach of what was measured: a year ahead, the middle of the forecast is no multiple of the history
    hours = (book.usage["time"].max() - book.usage["time"].min()).days * 24
    history = used.drop("m-large").sum() / hours
    quantiles = plan.forecast.quantiles
    batch = plan.forecast.paths[plan.forecast.paths["workload"] != "m-large"].groupby(["path", "quarter"])["quantity"].sum().unstack()
    rate = batch.median() / 2190
    assert ((rate > 0.4 * history) & (rate < 2.5 * history)).all(), rate / history
    high = batch.quantile(0.95) / 2190
    assert (high < 6 * history).all(), high / history
    assert (quantiles["quantity"] >= 0).all()
    service = plan.purchases.service
    assert ((service["served"] + service["shortfall"] - service["demanded"]).abs() <= 1e-6 * (1 + service["demanded"])).all()
    assert plan.purchases.proof.gap_share <= plan.scenario.gap_share + 1e-9
    regret = plan.purchases.alternatives.set_index("name")["regret_usd"]
    gap = plan.purchases.proof.upper_usd - plan.purchases.proof.lower_usd
    assert (regret.drop("all_on_demand", errors="ignore") >= -gap - 1).all(), "an alternative that can be had is never better than the plan"
    assert (plan.purchases.alternatives["expected_usd"] > 0).all()
    page = (report.folder / "plan.html").read_text()
    assert page.count("<svg") >= 6
    assert not re.search(r"NaN|\binf\b|undefined", re.sub(r"<style.*?</style>", "", page, flags=re.S))
    run = json.loads((report.folder / "run.json").read_text())
    assert any("days" in warning for warning in run["warnings"])
