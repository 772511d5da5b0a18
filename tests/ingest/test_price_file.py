"""A provider's sheet renews one file of the reference facts, or nothing."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from capplan.cli.commands import import_prices as command
from capplan.errors import CapplanError
from capplan.ingest.price_file import import_prices
from tests.conftest import ROOT

FACTS = ROOT / "data" / "reference"
HEAD = (
    "instance_type,accelerator,accelerator_count,vcpu,memory,region,on_demand_usd_per_hour,reserved_1y_standard_no_upfront_usd_per_hour\n"
)


@pytest.fixture
def facts(tmp_path):
    return shutil.copytree(FACTS, tmp_path / "facts")


def offers(folder):
    return pd.read_csv(folder / "prices" / "aws.csv", dtype=str, keep_default_na=False).set_index("offer_id")


def test_a_sheet_renews_prices_and_keeps_what_else_is_known(facts, tmp_path):
    before = offers(facts)
    old = float(before.loc["aws-p4d.24xlarge-us-east-1-on-demand", "usd_per_hour"])
    sheet = tmp_path / "aws-2026-11-20.csv"
    sheet.write_text(HEAD + f"p4d.24xlarge,A100,8,96,1152 GB,us-east-1,{old - 1},12.5\np4d.24xlarge,A100,8,96,1152 GB,eu-west-9,30.1,\n")
    found = import_prices([sheet], facts, {"provider": "aws"})
    after = offers(facts)
    assert found.headline.endswith("has them from now on.")
    row, was = after.loc["aws-p4d.24xlarge-us-east-1-reserved-1y"], before.loc["aws-p4d.24xlarge-us-east-1-reserved-1y"]
    assert (row["usd_per_hour"], row["as_of"], row["source_id"]) == ("12.5", "2026-11-20", "aws-2026-11-20")
    same = [name for name in before if name not in ("usd_per_hour", "as_of", "source_id")]
    assert row[same].tolist() == was[same].tolist()
    changed = after.index[(after != before).any(axis=1)]
    assert sorted(changed) == ["aws-p4d.24xlarge-us-east-1-on-demand", "aws-p4d.24xlarge-us-east-1-reserved-1y"]
    assert "aws-2026-11-20" in pd.read_csv(facts / "sources.csv")["source_id"].tolist()
    for other in (FACTS / "prices").glob("*.csv"):
        if other.stem != "aws":
            assert (facts / "prices" / other.name).read_bytes() == other.read_bytes()
    assert "2 prices renewed, 0 added" in " ".join(found.notes)
    assert "1 offer of the sheet is not in the facts" in " ".join(found.notes)
    import_prices([sheet], facts, {"provider": "aws"}, ["p4d.24xlarge"])
    assert offers(facts).loc["aws-p4d.24xlarge-eu-west-9-on-demand", "usd_per_hour"] == "30.1"


def test_an_older_sheet_and_one_that_breaks_a_rule_change_nothing(facts, tmp_path):
    before = {file.name: file.read_bytes() for file in facts.rglob("*.csv")}
    old = tmp_path / "aws-2020-01-01.csv"
    old.write_text(HEAD + "p4d.24xlarge,A100,8,96,1152 GB,us-east-1,21,\n")
    assert "newer than the sheet's" in " ".join(import_prices([old], facts, {"provider": "aws"}).notes)
    dear = tmp_path / "aws-2026-11-21.csv"
    dear.write_text(HEAD + "p4d.24xlarge,A100,8,96,1152 GB,us-east-1,20,25\n")
    with pytest.raises(CapplanError, match="nothing is written"):
        import_prices([dear], facts, {"provider": "aws"})
    with pytest.raises(CapplanError, match="the sheets have no such machine"):
        import_prices([dear], facts, {"provider": "aws"}, ["p99"])
    with pytest.raises(CapplanError, match="holds no reference facts"):
        command([str(dear)], tmp_path)
    assert {file.name: file.read_bytes() for file in facts.rglob("*.csv")} == before
