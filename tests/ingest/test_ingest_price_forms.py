"""Price catalogues in the forms people export, prices that cannot be right, and names that keep one meaning."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from capplan.book.book import load_book
from capplan.errors import BookError
from capplan.ingest import ingest


def sheet(folder: Path, text: str, name: str = "sheet-2026-09-01.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def prices(found) -> dict:
    return found.tables["offers"].set_index(["sku", "term"]).usd_per_hour.round(4).to_dict()


def test_a_flag_says_which_prices_are_spot(tmp_path):
    rows = "p5.48xlarge,us-east-1,55.04,8,H100,False\np5.48xlarge,us-east-1,21.5,8,H100,True\n"
    text = f"instance_name,location,price,gpu_count,gpu_name,spot\n{rows}"
    assert prices(ingest("prices", sheet(tmp_path, text), provider="aws")) == {
        ("p5.48xlarge", "on_demand"): 55.04,
        ("p5.48xlarge", "spot"): 21.5,
    }


def test_one_name_for_machines_of_several_sizes_and_a_sheet_of_one_region(tmp_path):
    text = "instance_name,location,price,gpu_count,gpu_name,spot\nNVIDIA H100,CA,2.99,1,H100,False\nNVIDIA H100,CA,23.92,8,H100,False\n"
    found = ingest("prices", sheet(tmp_path, text), provider="runpod")
    assert found.tables["offers"].usd_per_hour.tolist() == [23.92, 2.99]
    assert found.tables["skus"].accelerator_count.tolist() == [1, 8]
    text = "API Name,Linux On Demand cost,Linux Spot Minimum cost\np5.48xlarge,$55.04 hourly,$19.5 hourly\n"
    offers = ingest("auto", sheet(tmp_path, text), region="us-east-1").tables["offers"]
    assert offers.set_index("term").usd_per_hour.to_dict() == {"on_demand": 55.04, "spot": 19.5}
    assert set(offers.region) == {"us-east-1"}
    with pytest.raises(BookError, match="no row has a price"):
        ingest("auto", sheet(tmp_path, text.replace("$55.04 hourly,$19.5 hourly", "unavailable,unavailable")))


def test_the_newest_prices_of_a_history_count(tmp_path):
    text = "machine_type,region,snapshot_date,on_demand_usd_per_hour\n" + "".join(
        f"a3-highgpu-8g,{region},{day},{price}\n"
        for region, day, price in (("us-central1", "2025-01-01", 80), ("us-central1", "2026-07-30", 88.25), ("us-east1", "2025-01-01", 85))
    )
    path = tmp_path / "history.csv"
    path.write_text(text)
    found = ingest("prices", path, provider="gcp")
    assert found.tables["offers"].set_index("region").usd_per_hour.to_dict() == {"us-central1": 88.25, "us-east1": 85}
    assert set(found.tables["offers"].as_of.dt.strftime("%Y-%m-%d")) == {"2026-07-30"}
    assert any("1 older price was left out" in note for note in found.notes)


def test_the_cheapest_zone_counts_and_licences_do_not(tmp_path):
    text = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice,AvailabilityZone,OS\n" + "".join(
        f"p5.48xlarge,H100,8,{price},us-east-1,{spot},{zone},{system}\n"
        for price, spot, zone, system in (
            (55.04, 31.5, "a", "Linux"),
            (55.04, "", "b", "Linux"),
            (55.04, 19.5, "c", "Linux"),
            (70, 18, "c", "Windows"),
        )
    )
    found = ingest("prices", sheet(tmp_path, text), provider="aws")
    assert prices(found) == {("p5.48xlarge", "on_demand"): 55.04, ("p5.48xlarge", "spot"): 19.5}
    assert any("cheapest zone" in note for note in found.notes)
    assert any("licence" in note for note in found.notes)


def test_hosts_and_accelerators_listed_apart_are_added(tmp_path):
    header = "InstanceType,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice\n"
    host = "a3-highgpu-8g,,,us-central1,us-central1-a,9.46,5.20\n"
    both = ingest("prices", sheet(tmp_path, header + host + ",H100,8,us-central1,us-central1-a,78.4,15.4\n"), provider="gcp")
    assert prices(both) == {("a3-highgpu-8g", "on_demand"): 87.86, ("a3-highgpu-8g", "spot"): 20.6}
    with pytest.raises(BookError, match="host without its accelerators"):
        ingest("prices", sheet(tmp_path, header + host), provider="gcp")
    elsewhere = host + ",H100,8,us-central1,us-central1-b,78.4,15.4\n"
    with pytest.raises(BookError, match="host without its accelerators"):
        ingest("prices", sheet(tmp_path, header + elsewhere), provider="gcp")


@pytest.mark.parametrize(("price", "scale", "right"), [(6.88, 8, 55.04), (40179.2, 1 / 730, 55.04)])
def test_prices_of_another_unit_are_refused_with_the_scale_that_mends_them(tmp_path, price, scale, right):
    path = sheet(tmp_path, f"sku,region,on_demand\np5.48xlarge,us-east-1,{price}\n")
    with pytest.raises(BookError, match="scale=on_demand=") as caught:
        ingest("prices", path, provider="aws")
    factor = float(str(caught.value).split("scale=on_demand=")[1].split(",")[0])
    assert factor == pytest.approx(scale, rel=1e-6)
    assert prices(ingest("prices", path, provider="aws", scale={"on_demand": factor}))[("p5.48xlarge", "on_demand")] == pytest.approx(
        right, rel=1e-4
    )
    kept = ingest("prices", path, provider="aws", confirm="p5.48xlarge")
    assert prices(kept)[("p5.48xlarge", "on_demand")] == pytest.approx(price)
    with pytest.raises(BookError, match=r"confirm=p5\.48xlarge"):
        ingest("prices", path, provider="aws", confirm="p5en.48xlarge")


def test_a_machine_nobody_knows_is_held_against_its_accelerator(tmp_path):
    path = sheet(tmp_path, "sku,accelerator,gpus,region,on_demand\nbig,H100,8,eu-1,2.4\nfine,H100,8,eu-1,24\n")
    with pytest.raises(BookError, match="what 8 H100 cost elsewhere") as caught:
        ingest("prices", path, provider="acme")
    assert len(caught.value.faults) == 1
    assert list(prices(ingest("prices", path, provider="acme", leave_out="big"))) == [("acme-fine", "on_demand")]


def test_a_sheet_takes_the_place_of_the_reference_and_names_keep_one_meaning(tmp_path):
    book = tmp_path / "book"
    book.mkdir()
    (book / "book.yaml").write_text("name: t\nas_of: 2026-11-01\n")
    reference = load_book(Path("data/enterprise")).offers
    listed = reference[(reference.sku == "p5.48xlarge") & (reference.region == "us-east-1") & (reference.term == "on_demand")]
    assert len(listed) == 1
    text = "sku,region,on_demand,reserved_3y\np5.48xlarge,us-east-1,50.5,30\np4d.24xlarge,us-east-1,21,9.5\n"
    ingest("prices", sheet(tmp_path, text), book, provider="aws")
    offers = load_book(book).offers
    same = offers[(offers.sku == "p5.48xlarge") & (offers.region == "us-east-1") & (offers.term == "on_demand")]
    assert same.usd_per_hour.tolist() == [50.5]
    assert not offers.duplicated(["sku", "region", "term"])[offers.source_id.str.startswith("sheet")].any()
    # the reference's p4d for three years is paid at signing; the sheet's is not, so that it has another name
    paid = reference[(reference.sku == "p4d.24xlarge") & (reference.term == "reserved_3y") & (reference.region == "us-east-1")]
    assert paid.upfront_share.tolist() == [1.0]
    mine = offers[(offers.sku == "p4d.24xlarge") & (offers.term == "reserved_3y")]
    assert mine.offer_id.tolist() != paid.offer_id.tolist()
    assert mine.upfront_share.tolist() == [0.0]


def test_a_monthly_price_of_a_real_sheet_is_not_far(tmp_path):
    text = "machine_type,region,on_demand_usd_per_hour,cud_1y_usd_per_month\na3-highgpu-8g,us-central1,88.49,44000\n"
    found = ingest("prices", sheet(tmp_path, text))
    assert prices(found)[("a3-highgpu-8g", "reserved_1y")] == pytest.approx(44000 / 730, abs=1e-4)
    assert pd.notna(found.tables["offers"].geography).all()
