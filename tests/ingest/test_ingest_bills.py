"""Bills: every row in one bucket, machines as clouds bill them, and hours net of what is no machine."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest

from capplan.errors import BookError
from capplan.ingest import ingest
from capplan.ingest.known import known_table
from capplan.ingest.machines import Recogniser, hours_of_unit, slice_share
from capplan.ingest.opening import Sheet
from tests.conftest import reference_file

COLUMNS = (
    "BillingPeriodStart",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "BillingCurrency",
    "ProviderName",
    "ServiceName",
    "SubAccountName",
    "RegionId",
    "SkuId",
    "PricingQuantity",
    "PricingUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "SkuMeter",
    "ChargeDescription",
    "CommitmentDiscountStatus",
    "CapacityReservationStatus",
)


def bill(folder: Path, *rows: dict[str, object], name: str = "bill.csv") -> Path:
    """Write a bill; each row states what differs from one hour of one machine of eight H100."""
    plain = {
        "BillingPeriodStart": "2026-05-01T00:00:00Z",
        "ChargePeriodStart": "2026-05-04T00:00:00Z",
        "ChargePeriodEnd": "2026-05-04T01:00:00Z",
        "ChargeCategory": "Usage",
        "BilledCost": 55.04,
        "EffectiveCost": 55.04,
        "ListCost": 55.04,
        "BillingCurrency": "USD",
        "ProviderName": "AWS",
        "ServiceName": "Amazon Elastic Compute Cloud",
        "SubAccountName": "lab",
        "RegionId": "us-east-1",
        "SkuId": "X1",
        "PricingQuantity": 1,
        "PricingUnit": "Hrs",
        "ConsumedQuantity": 1,
        "ConsumedUnit": "Hrs",
        "SkuMeter": "BoxUsage:p5.48xlarge",
    }
    pd.DataFrame([{**plain, **row} for row in rows]).reindex(columns=list(COLUMNS)).to_csv(folder / name, index=False)
    return folder / name


def hours(found) -> float:
    return float(found.tables["usage"].quantity.sum()) if "usage" in found.tables else 0.0


KINDS = [
    ({}, "machine_hours", 8),
    ({"CommitmentDiscountStatus": "Used", "BilledCost": 0}, "machine_hours", 8),
    ({"CommitmentDiscountStatus": "Unused"}, "unused_commitment", 0),
    ({"CapacityReservationStatus": "Unused"}, "unused_reservation", 0),
    ({"SkuMeter": "USE1-UnusedBox:p5.48xlarge"}, "unused_reservation", 0),
    ({"SkuMeter": "SoftwareUsage:p5.48xlarge", "ServiceName": "AWS Marketplace image"}, "fee_or_software", 0),
    ({"ServiceName": "Amazon Elastic MapReduce", "BilledCost": 0.27, "EffectiveCost": 0.27, "ListCost": 0.27}, "fee_or_software", 0),
    # a surcharge that no word gives away: a two-hundredth of the machine's price
    ({"ServiceName": "Batch Helper", "BilledCost": 0.25, "EffectiveCost": 0.25, "ListCost": 0.25}, "fee_or_software", 0),
    ({"ChargeCategory": "Purchase", "SkuMeter": "HeavyUsage:p5.48xlarge"}, "fee_or_software", 0),
    ({"ChargeCategory": "Tax"}, "tax", 0),
    ({"ChargeCategory": "Credit", "BilledCost": -5}, "credit", 0),
    ({"BilledCost": -5, "EffectiveCost": -5}, "credit", 0),  # a discount on hours that another row counts
    ({"SkuMeter": "BoxUsage:p3.16xlarge"}, "unknown_accelerator", 0),
    ({"SkuMeter": "BoxUsage:dl2q.24xlarge"}, "unknown_accelerator", 0),
    ({"SkuMeter": "BoxUsage:m7i.large"}, "not_a_machine", 0),
    ({"SkuMeter": "p5.48xlarge local traffic", "ConsumedUnit": "GB", "PricingUnit": "GB"}, "not_a_machine", 0),
    ({"ServiceName": "Amazon SageMaker", "SkuMeter": "USE1-Train:ml.p4d.24xlarge"}, "machine_hours", 8),
    ({"SkuMeter": "BoxUsage:g6f.2xlarge", "BilledCost": 0.3, "EffectiveCost": 0.3, "ListCost": 0.3}, "machine_hours", 0.25),
    ({"SkuMeter": "ND96isr H200 v5", "ProviderName": "Microsoft"}, "machine_hours", 8),
    (
        {"SkuMeter": "NC48ads A100 v4 Spot", "ProviderName": "Microsoft", "ConsumedUnit": "10 Hours", "PricingUnit": "10 Hours"},
        "machine_hours",
        20,
    ),
    (
        {"SkuMeter": "NV12ads A10 v5", "ProviderName": "Microsoft", "BilledCost": 1, "EffectiveCost": 1, "ListCost": 1},
        "machine_hours",
        1 / 3,
    ),
    (
        {
            "SkuMeter": "",
            "ChargeDescription": "Nvidia Tesla A100 80GB GPU attached to Spot Preemptible VMs running in Iowa",
            "ConsumedQuantity": 7200,
            "ConsumedUnit": "seconds",
        },
        "machine_hours",
        2,
    ),
    ({"SkuMeter": "", "ChargeDescription": "A3 Instance Core running in Iowa", "ConsumedUnit": "hour"}, "not_a_machine", 0),
    ({"SkuMeter": "", "ChargeDescription": "Commitment v1: Nvidia H100 80GB GPU in Iowa for 1 year"}, "fee_or_software", 0),
    ({"SkuMeter": "BM.GPU.H100.8", "ConsumedUnit": "GPU Per Hour", "ConsumedQuantity": 16, "ProviderName": "Oracle"}, "machine_hours", 16),
    ({"SkuMeter": "BM.GPU.H100.8", "ConsumedUnit": "Hours", "ProviderName": "Oracle"}, "machine_hours", 8),
    (
        {"SkuMeter": "gpu-h200-hourly", "ConsumedUnit": "GPU-Hours", "ConsumedQuantity": 24, "ProviderName": "CoreWeave"},
        "machine_hours",
        24,
    ),
    ({"SkuMeter": "8x NVIDIA H100 SXM5", "ProviderName": "Lambda"}, "machine_hours", 8),
    ({"SkuPriceDetails": '{"InstanceType": "p5.48xlarge", "LicenseModel": "No License required"}'}, "machine_hours", 8),
    ({"SkuMeter": "", "ChargeDescription": "Commitment - dollar based v1: GCE for 3 years"}, "fee_or_software", 0),
    ({"SkuMeter": "H100 1g.10gb", "BilledCost": 1, "EffectiveCost": 1, "ListCost": 1}, "machine_hours", 1 / 7),
    ({"SkuMeter": "ND96amsr A100 v4/ND96asr v4", "ProviderName": "Microsoft", "RegionId": "eastus"}, "machine_hours", 8),
    (
        {"SkuMeter": "", "ChargeDescription": "Compute - GPU - H100", "ConsumedUnit": "GPU Per Hour", "ConsumedQuantity": 8},
        "machine_hours",
        8,
    ),
    ({"SkuMeter": "", "SkuId": "gd-8xh100ib-i128", "ChargeDescription": "gd-8xh100ib-i128 instance"}, "machine_hours", 8),
    ({"SkuMeter": "", "ChargeDescription": "DWS Flex Start Nvidia H100 80GB GPU in Americas", "ConsumedUnit": "hour"}, "machine_hours", 1),
    ({"SkuMeter": "BoxUsage:u-p6e-gb200x72", "BilledCost": 700, "EffectiveCost": 700, "ListCost": 700}, "machine_hours", 72),
    ({"SkuMeter": "BoxUsage:p5.4xlarge", "BilledCost": 6.88, "EffectiveCost": 6.88, "ListCost": 6.88}, "machine_hours", 1),
    ({"SkuMeter": "USE1-Host:ml.g5.12xlarge", "ServiceName": "Amazon SageMaker"}, "machine_hours", 4),
]


def test_every_kind_of_row_has_its_bucket(tmp_path):
    found = ingest("focus", bill(tmp_path, *({**row, "SubAccountName": f"account {place}"} for place, (row, _, _) in enumerate(KINDS))))
    used = found.tables["usage"].groupby("workload").quantity.sum()
    buckets = found.tables["billing"].set_index("account").bucket
    assert found.accounts.rows.sum() == len(KINDS)
    for place, (row, bucket, accelerator_hours) in enumerate(KINDS):
        assert buckets[f"account {place}"] == bucket, row
        assert used.get(f"account {place}", 0.0) == pytest.approx(accelerator_hours, rel=1e-9), row


def test_buckets_sum_to_the_file_by_plain_sql(tmp_path):
    path = reference_file("data", "billing", "focus_1.0_sample_1000.csv")
    found = ingest("focus", path)
    import duckdb

    rows, billed, effective = (
        duckdb.connect()
        .execute(
            "select count(*), sum(BilledCost::decimal(38, 12)), sum(EffectiveCost::decimal(38, 12)) from read_csv(?, all_varchar = true,"
            " nullstr = 'NULL')",
            [str(path)],
        )
        .fetchone()
    )
    assert found.accounts.rows.sum() == rows == 1000
    assert found.accounts.billed_cost.sum() == pytest.approx(float(billed), abs=1e-9)
    assert found.accounts.effective_cost.sum() == pytest.approx(float(effective), abs=1e-9)
    by_bucket = found.accounts.set_index("bucket").rows.to_dict()
    # row by row: eight g5.4xlarge hours; two of a g3, whose M60 no table has; one credit; twelve negative rows and the two of category
    # Adjustment
    assert by_bucket == {
        "machine_hours": 8,
        "correction": 14,
        "fee_or_software": 3,
        "credit": 1,
        "unknown_accelerator": 2,
        "not_a_machine": 972,
    }
    source = pd.read_csv(path, dtype=str)
    machines = source[source.ChargeDescription.str.contains(r"\bg5\.4xlarge\b", na=False)]
    assert hours(found) == pytest.approx(machines.ConsumedQuantity.astype(float).sum(), rel=1e-12)


def test_rows_that_stand_together_count_as_they_do_alone(tmp_path, monkeypatch):
    dice = random.Random(7)
    numbers = ["0", "1", "-1", "0.000000000001", " 2.5 ", "NULL", "-3", "1e-3"]
    rows = [
        {
            **dice.choice(KINDS)[0],
            "SubAccountName": dice.choice(["a", " a", "b", "NULL", ""]),
            **{name: dice.choice(["$1,234.50", "(0.10)", *numbers[:5]]) for name in ("BilledCost", "EffectiveCost")},
            **{name: dice.choice(numbers) for name in ("ListCost", "ConsumedQuantity", "PricingQuantity")},
        }
        for _ in range(600)
    ]
    path = bill(tmp_path, *rows)
    together = ingest("focus", path)
    monkeypatch.setattr(Sheet, "alike_together", lambda *_: None)
    alone = ingest("focus", path)
    assert together.accounts.rows.sum() == together.rows == len(rows)
    assert together.headline == alone.headline
    for name in ("billing", "workloads", "usage"):
        pd.testing.assert_frame_equal(together.tables[name], alone.tables[name], rtol=1e-12, atol=1e-12)
    pd.testing.assert_frame_equal(together.accounts, alone.accounts, rtol=1e-12)


def test_what_was_billed_is_the_same_where_nobody_asks_for_hours(tmp_path):
    rows = [
        {
            **KINDS[place % len(KINDS)][0],
            "ChargePeriodStart": f"2026-05-{1 + place % 9:02d}T{place % 24:02d}:00:00Z",
            "ChargePeriodEnd": f"2026-05-{2 + place % 9:02d}T00:00:00Z",
            "BilledCost": f"${place}.25",
        }
        for place in range(200)
    ]
    path = bill(tmp_path, *rows)
    timed, untimed = ingest("focus", path), ingest("focus", path, usage=False)
    pd.testing.assert_frame_equal(timed.tables["billing"], untimed.tables["billing"])
    pd.testing.assert_frame_equal(timed.accounts, untimed.accounts)
    assert list(untimed.tables) == ["billing"]
    assert untimed.tables["billing"]["charged_until"].max() == pd.Timestamp("2026-05-09")


def test_charges_that_differ_in_an_identity_alone_are_judged_once(tmp_path, monkeypatch):
    asked: list[str] = []
    plain = Recogniser.find
    monkeypatch.setattr(Recogniser, "find", lambda self, text: asked.append(text) or plain(self, text))
    said = "p5.48xlarge of run {0:032x}, i-{1:017x}, job 7{1:06d} at 2026-05-{2:02d} 13:0{3}:00"
    rows = [
        {"SkuMeter": "", "ChargeDescription": said.format(place * 2**100, place, 1 + place % 30, place % 10), "SkuId": f"X{place % 2}"}
        for place in range(100)
    ]
    found = ingest("focus", bill(tmp_path, *rows))
    assert found.accounts[["bucket", "rows", "accelerator_hours"]].values.tolist() == [["machine_hours", 100, 800.0]]
    assert len(asked) == 2


def test_costs_that_are_both_paid_and_spread_are_refused(tmp_path):
    use = {"CommitmentDiscountStatus": "Used", "BilledCost": 0, "EffectiveCost": 40}
    bought = {"ChargeCategory": "Purchase", "BilledCost": 1000, "EffectiveCost": 1000}

    def made(*rows: dict[str, object]) -> Path:
        path = bill(tmp_path, *rows)
        pd.read_csv(path).assign(CommitmentDiscountId="ri-1").to_csv(path, index=False)
        return path

    with pytest.raises(
        BookError, match=r"commitment ri-1 costs 1,000\.00 where it is bought and 80\.00 where it is used: billed and amortised"
    ):
        ingest("focus", made(use, use, bought))
    for sound in ([use, {**bought, "EffectiveCost": 0}], [{**use, "BilledCost": 40}, bought], [bought]):
        assert ingest("focus", made(*sound)).rows == len(sound)


def test_a_fault_names_its_own_row_however_many_stand_together(tmp_path):
    rows = [{} for _ in range(5)]
    with pytest.raises(BookError, match=r"row 4, column BilledCost.*'a lot'") as refused:
        ingest("focus", bill(tmp_path, *rows[:2], {"BilledCost": "a lot"}, *rows))
    assert "row 3" not in str(refused.value)


def test_corrections_take_from_what_they_correct(tmp_path):
    day = {"ChargePeriodStart": "2026-05-04T00:00:00Z", "ChargePeriodEnd": "2026-05-05T00:00:00Z"}
    later = {"ChargePeriodStart": "2026-05-04T01:00:00Z", "ChargePeriodEnd": "2026-05-04T02:00:00Z"}
    less = {"ChargeClass": "Correction", "BilledCost": -1, "EffectiveCost": -1}
    same = ingest(
        "focus",
        bill(tmp_path, {"ConsumedQuantity": 5}, {"ConsumedQuantity": -5, **less}, {"ConsumedQuantity": 3, "ChargeClass": "Correction"}),
    )
    assert same.tables["usage"].quantity.tolist() == [24]
    refund = ingest("focus", bill(tmp_path, {"ConsumedQuantity": 5}, {"ConsumedQuantity": 2, **less}))
    assert refund.tables["usage"].quantity.tolist() == [24]  # a refund of two hours that states them as positive
    spread = ingest(
        "focus", bill(tmp_path, {"ConsumedQuantity": 3}, {"ConsumedQuantity": 1, **later}, {"ConsumedQuantity": -2, **less, **day})
    )
    assert spread.tables["usage"].quantity.tolist() == [12, 4]  # a day's correction takes from its hours in proportion
    elsewhere = ingest("focus", bill(tmp_path, {"ConsumedQuantity": 3}, {"ConsumedQuantity": -1, **less, **later}))
    assert elsewhere.tables["usage"].quantity.sum() == 16  # below zero in its own hour, it takes from the month
    nothing = ingest("focus", bill(tmp_path, {"ConsumedQuantity": 1}, {"ConsumedQuantity": -3, **less}))
    assert nothing.tables["usage"].quantity.sum() == 0
    assert any("corrections of 16.0 accelerator-hours find no hours" in note for note in nothing.notes)


def test_charges_of_days_and_of_a_month(tmp_path):
    month = {
        "ChargePeriodStart": "2026-05-01T00:00Z",
        "ChargePeriodEnd": "2026-06-01T00:00Z",
        "ConsumedQuantity": 744,
        "ListCost": 744 * 55.04,
    }
    found = ingest("focus", bill(tmp_path, month))
    assert found.tables["usage"].quantity.tolist() == [8 * 24] * 31
    assert any("spread evenly" in note for note in found.notes)
    day = {"ChargePeriodStart": "2026-05-04T00:00Z", "ChargePeriodEnd": "2026-05-05T00:00Z", "ConsumedQuantity": 24, "ListCost": 24 * 55.04}
    both = ingest("focus", bill(tmp_path, day, {"SubAccountName": "b"}))
    assert both.tables["usage"].groupby("workload").quantity.sum().to_dict() == {"lab": 192, "b": 8}


def test_costs_that_are_blank_or_carry_signs(tmp_path):
    none = ingest("focus", bill(tmp_path, {"BilledCost": None, "EffectiveCost": "", "ListCost": None}))
    assert "billing" not in none.tables
    assert hours(none) == 8
    one = ingest("focus", bill(tmp_path, {"EffectiveCost": "(null)"}))
    assert one.tables["billing"].effective_cost.tolist() == [55.04]
    signs = ingest("focus", bill(tmp_path, {"BilledCost": "$1,255.04", "EffectiveCost": "($5.04)", "ListCost": "-$3"}))
    assert signs.tables["billing"][["billed_cost", "effective_cost", "list_cost"]].to_numpy().tolist() == [[1255.04, -5.04, -3.0]]


def test_costs_that_are_blank_in_some_rows(tmp_path):
    purchase = {"ChargeCategory": "Purchase", "SkuMeter": "upfront fee", "BilledCost": 100, "EffectiveCost": None, "ConsumedQuantity": None}
    used = {"CommitmentDiscountStatus": "Used", "BilledCost": "", "EffectiveCost": 30}
    found = ingest(
        "focus", bill(tmp_path, {}, {"EffectiveCost": "", "BilledCost": 7}, purchase, used, {"BilledCost": "", "EffectiveCost": ""})
    )
    assert found.accounts.billed_cost.sum() == pytest.approx(55.04 + 7 + 100)
    assert found.accounts.effective_cost.sum() == pytest.approx(55.04 + 7 + 30)
    assert hours(found) == 32
    assert any(
        "2 of 5 rows state no BilledCost; it is taken as EffectiveCost (0 where a commitment covers it)" in note for note in found.notes
    )
    assert any("3 of 5 rows state no EffectiveCost" in note for note in found.notes)
    assert any("1 row states neither cost; they count as 0" in note for note in found.notes)


def test_days_as_americans_write_them_are_decided_by_the_whole_file(tmp_path):
    plain = {"BillingPeriodStart": "5/1/2026 12:00 AM", "ChargePeriodEnd": "5/5/2026 12:00 AM", "ConsumedQuantity": 24}
    rows = [{**plain, "ChargePeriodStart": f"5/{day}/2026 12:00 AM", "ChargePeriodEnd": f"5/{day + 1}/2026 12:00 AM"} for day in (4, 28)]
    found = ingest("focus", bill(tmp_path, *rows))
    usage = found.tables["usage"]
    assert set(usage[usage.quantity > 0].time.dt.strftime("%Y-%m-%d")) == {"2026-05-04", "2026-05-28"}
    assert usage.quantity.sum() == 2 * 24 * 8
    assert "Times are written month/day/year; give time_format= where that is wrong." in found.notes
    with pytest.raises(BookError, match=r"which number is the day.*time_format=%d/%m/%Y %I:%M %p or time_format=%m/%d/%Y %I:%M %p"):
        ingest("focus", bill(tmp_path, rows[0]))


def test_words_of_clouds_name_machines():
    recogniser = Recogniser(known_table("skus", None), known_table("accelerators", None))
    for text, accelerator, count in (
        ("BM.GPU4.8", "A100-40GB", 8),
        ("VM.GPU.A10.2", "A10", 2),
        ("BM.GPU.A100-v2.8", "A100-80GB", 8),
        ("Standard_ND96amsr_A100_v4", "A100-80GB", 8),
        ("ND96asr A100 v4", "A100-40GB", 8),
        ("a3-ultragpu-8g", "H200", 8),
        ("g2-standard-24", "L4", 2),
        ("h100-80gb-sxm-ib.8x", "H100", 8),
        ("n3-H100x8", "H100", 8),
        ("gpu-h200-sxm 8gpu-128vcpu-1600gb", "H200", 8),
        ("50% of an L40S", "L40S", 0.5),
        ("A4 Nvidia B200 (1 gpu slice)", "B200", 1),
        ("p5.4xlarge", "H100", 1),
        ("g5.12xlarge", "A10G", 4),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe", 1),
        ("ml.g6e.48xlarge", "L40S", 8),
    ):
        machine = recogniser.find(text)
        assert machine is not None, text
        assert (machine.accelerator, machine.count) == (accelerator, pytest.approx(count)), text
    for text in ("t4g.micro", "P4 LRS Disks", "D11 v2/DS11 v2", "c5.24xlarge", "Premium SSD Managed Disks - P6 LRS"):
        assert recogniser.find(text) is None, text
    assert slice_share("4g.24gb") == 1
    assert slice_share("1c.3g.40gb") == pytest.approx(1 / 7)
    assert [hours_of_unit(unit) for unit in ("100 Hours", "GPU Hours", "minutes", "GB-Hours", "vCPU-Hours", "Months", None)] == [
        (100.0, False),
        (1.0, True),
        (1 / 60, False),
        None,
        None,
        None,
        None,
    ]


def test_hours_are_taken_where_they_are_wanted_and_dated(tmp_path):
    path = bill(tmp_path, {})
    whole, costs = ingest("focus", path), ingest("focus", path, usage=False)
    undated = tmp_path / "undated.csv"
    pd.read_csv(path).drop(columns=["ChargePeriodStart", "ChargePeriodEnd"]).to_csv(undated, index=False)
    no_times = ingest("focus", undated)
    assert set(whole.tables) - set(costs.tables) == {"usage", "workloads"}
    assert set(no_times.tables) == set(costs.tables)
    silent = [any("only billing was taken" in note for note in found.notes) for found in (whole, costs, no_times)]
    assert silent == [False, False, True]
