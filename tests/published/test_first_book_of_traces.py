"""A first book made as a newcomer makes it, of a production trace and a cloud's price sheet, held against what an expert would advise."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.book.book import load_book
from capplan.ingest import ingest
from capplan.outputs.run.start import start
from capplan.outputs.views.memo import asked, risks
from capplan.outputs.views.plan_tables import fiscal_years
from tests.conftest import reference_file

TRACE = ("data", "llm_demand", "servegen_m-large_requests_per_second_10min.csv")
SHEET = ("data", "gpu_prices", "gcp_accelerator_ondemand_spot_cud_2026-07-30.csv")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Give what `capplan start TRACE SHEET --model chat=Llama-3.1-70B -o start=2026-11-14 -o workload=chat` gives."""
    book = tmp_path_factory.mktemp("traces") / "book"
    options = {"start": "2026-11-14", "workload": "chat"}
    return start([reference_file(*TRACE), reference_file(*SHEET)], book, models={"chat": "Llama-3.1-70B"}, options=options)


@pytest.mark.slow
def test_the_advice_is_what_an_expert_would_give(first):
    plan, book = first.plan, load_book(first.book)
    offers = book.get("offers").merge(book.get("skus")[["sku", "provider", "accelerator", "accelerator_count"]], on="sku")
    offers = offers[(offers.provider == "gcp") & offers.accelerator.isin(book.get("speeds").accelerator)]
    each = offers.assign(usd=offers.usd_per_hour / offers.accelerator_count).groupby("term").usd
    bought = plan.purchases.purchases
    firm = bought[bought.firm.astype(bool)]

    # where: the one cloud whose prices were given, no servers for a site that does not exist, no machine that is sold as spot only
    assert book.scenario.providers == ("gcp",)
    assert set(bought.provider) == {"gcp"}
    assert not bought.sku.str.fullmatch(r"a3-highgpu-[124]g").any()

    # how much: the base of the load and not its peak, by the file's own mean, in whole machines
    trace = pd.read_csv(reference_file(*TRACE))["total_requests_per_second"]
    speed = book.get("speeds").set_index("accelerator").work_per_accelerator_hour
    base = (firm.accelerators / (trace.mean() * 3600 / firm.accelerator.map(speed))).sum()
    assert 0.3 < base < 1
    assert (firm.machines == firm.machines.round()).all()

    # for how long: a three-year price is only worth it below the price by the hour, for the part that is used that much
    assert set(firm.term) == {"reserved_3y"}
    price = (firm.usd_per_hour * firm.machines).sum() / firm.accelerators.sum()
    assert price == pytest.approx(each.min()["reserved_3y"], rel=0.01)
    used = plan.purchases.service
    assert used.shortfall.sum() < 0.01 * used.demanded.sum()

    # what it costs: between the cheapest and the dearest way to serve the mean of the demand that is planned
    hours = (used.demanded.sum() / used.path.nunique()) / speed[firm.accelerator.iloc[0]]
    total = fiscal_years(plan).query("fiscal_year == 'total'").p_and_l_amount.iloc[0]
    assert each.min()["reserved_3y"] < total / hours < each.max()["on_demand"]

    # work left undone costs more than the dearest hour that is listed, and nothing is advised inside the noise
    assert book.scenario.serving_shortfall_usd_per_accelerator_hour > each.max()["on_demand"]
    assert set(asked(plan).verdict) == {"sign"}
    assert "sign 1 contract" in plan.headline
    assert any("seen for 14 days" in risk for risk in risks(plan, book, None))


def test_speeds_of_accelerators_are_compared_on_the_same_requests(first):
    speed = load_book(first.book).get("speeds").set_index("accelerator").work_per_accelerator_hour
    # one generation of the same memory bandwidth ratio apart (3.35, 4.8 and 8 TB/s): far from four times
    assert 1.2 < speed["H200"] / speed["H100"] < 1.9
    assert 1.4 < speed["B200"] / speed["H100"] < 2.8
    assert first.assumed.value.str.contains("median of public runs, the same requests on each").any()


def test_a_sheet_says_what_is_sold_as_spot_only():
    found = ingest("auto", reference_file(*SHEET))
    offers = found.tables["offers"]
    small = offers[offers.sku.str.fullmatch(r"a3-highgpu-[124]g")]
    assert set(small.term) == {"spot"}
    assert set(offers[offers.sku.str.startswith("g4-standard")].term) >= {"on_demand"}
    assert any("can be had as spot only" in note for note in found.notes)
