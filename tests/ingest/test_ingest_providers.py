"""Bills of other providers, restated and corrected ones, and schedulers' tables in the wild; the right values are by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from capplan.ingest import ingest
from capplan.ingest.known import known_table
from capplan.ingest.machines import Recogniser, hours_of_unit

HEAD = (
    "BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,EffectiveCost,"
    "BillingCurrency,ProviderName,SubAccountName,"
)
DAY = "2026-09-01T00:00:00Z,2026-09-03T00:00:00Z,2026-09-04T00:00:00Z,Usage,"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def hours_by_workload(found) -> dict[str, float]:
    return found.tables["usage"].groupby("workload").quantity.sum().round(6).to_dict()


#: Name of the bill: its columns after HEAD, its rows after DAY, and the accelerator-hours by account.
BILLS = {
    # Oracle sells GPUs by the GPU-hour under a part number; the boot volume and the processors of the host are no accelerators
    "oracle": (
        "ServiceName,SkuId,SkuMeter,ChargeDescription,PricingQuantity,PricingUnit,ConsumedQuantity,ConsumedUnit",
        [
            "1920,1920,USD,Oracle,ai,COMPUTE,B98415,Compute - GPU - H100,OCI - Compute - GPU - H100,192,GPU Per Hour,192,GPU Per Hour",
            (
                "3,3,USD,Oracle,ai,BLOCK_STORAGE,B91961,Block Volume - Storage,Boot volume of BM.GPU.H100.8,100,"
                "Gigabyte Storage Capacity Per Month,100,GB Months"
            ),
            "5,5,USD,Oracle,ai,COMPUTE,B97384,Compute - Standard - E5 - OCPU,OCPU,224,OCPU Per Hour,224,OCPU Per Hour",
            "768,768,USD,Oracle,chat,COMPUTE,B88518,BM.GPU4.8,BM.GPU4.8 bare metal,24,Hours,24,Hours",
        ],
        {"ai": 192.0, "chat": 192.0},
    ),
    # names of machine types that carry the count, on clouds that sell whole machines
    "lambda": (
        "ServiceName,SkuId,ResourceType,PricingQuantity,PricingUnit",
        [
            "576,576,USD,Lambda,ai,On-demand,gpu_8x_h100_sxm5,gpu_8x_h100_sxm5,24,hours",
            "31,31,USD,Lambda,chat,On-demand,gpu_1x_a100_sxm4,gpu_1x_a100_sxm4,24,hours",
            "2,2,USD,Lambda,chat,Storage,persistent-storage,filesystem,200,GiB-months",
        ],
        {"ai": 192.0, "chat": 24.0},
    ),
    "coreweave": (
        "ServiceName,SkuId,SkuMeter,ConsumedQuantity,ConsumedUnit",
        [
            "1180,1180,USD,CoreWeave,ai,Kubernetes,gd-8xh100ib-i128,gd-8xh100ib-i128,24,instance hours",
            "150,150,USD,CoreWeave,chat,Kubernetes,gd-8xl40s-i128,gd-8xl40s-i128,24,hours",
            "9,9,USD,CoreWeave,chat,Networking,public-ip,Public IP address,24,hours",
        ],
        {"ai": 192.0, "chat": 192.0},
    ),
    # processors and memory of the host are billed apart, each by its own kind of hour
    "nebius": (
        "ServiceName,SkuId,ChargeDescription,PricingQuantity,PricingUnit",
        [
            "500,500,USD,Nebius,ai,Compute,s1,NVIDIA® H100 NVLink with Intel Sapphire Rapids. GPU,192,GPU*hour",
            "50,50,USD,Nebius,ai,Compute,s2,NVIDIA® H100 NVLink with Intel Sapphire Rapids. vCPU,3072,vCPU*hour",
            "60,60,USD,Nebius,ai,Compute,s3,NVIDIA® H100 NVLink with Intel Sapphire Rapids. RAM,38400,GiB*hour",
        ],
        {"ai": 192.0},
    ),
    # Azure: meters, times without seconds, (null), units of ten and a hundred hours, spot and low priority
    "azure": (
        "ServiceName,x_SkuMeterName,PricingQuantity,PricingUnit,ConsumedQuantity,ConsumedUnit,CommitmentDiscountStatus",
        [
            "2360,2360,USD,Microsoft,ai,Virtual Machines,ND96isr H100 v5,24,1 Hour,24,Hours,(null)",
            "100,100,USD,Microsoft,chat,Virtual Machines,NC80adis H100 v5 Spot,2.4,10 Hours,24,Hours,(null)",
            "88,88,USD,Microsoft,chat,Virtual Machines,NC24ads A100 v4 Low Priority,24,1 Hour,24,Hours,(null)",
            "21,21,USD,Microsoft,notebooks,Virtual Machines,NV18ads A10 v5,0.24,100 Hours,24,Hours,(null)",
            "7,7,USD,Microsoft,notebooks,Storage,P30 LRS Disk,1,1/Month,1,Months,(null)",
        ],
        {"ai": 192.0, "chat": 72.0, "notebooks": 12.0},
    ),
    # Google: the accelerator apart from cores and memory, used in seconds and priced in hours; TPUs by chip
    "google": (
        "ServiceName,SkuId,SkuMeter,ChargeDescription,PricingQuantity,PricingUnit,ConsumedQuantity,ConsumedUnit",
        [
            "700,700,USD,Google Cloud,ai,Compute Engine,A-1,,Nvidia H100 80GB GPU running in Iowa,192,hour,691200,seconds",
            "90,90,USD,Google Cloud,ai,Compute Engine,A-2,,A3 Instance Core running in Iowa,4992,hour,17971200,seconds",
            "60,60,USD,Google Cloud,ai,Compute Engine,A-3,,A3 Instance Ram running in Iowa,44928,gibibyte hour,1,byte-seconds",
            (
                "80,80,USD,Google Cloud,chat,Compute Engine,A-4,,"
                "Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa,48,hour,172800,seconds"
            ),
            "29,29,USD,Google Cloud,chat,Cloud TPU,A-5,,TpuV5e running in Iowa,24,hour,86400,seconds",
            (
                "400,400,USD,Google Cloud,chat,Compute Engine,A-6,,Commitment v1: Nvidia H100 80GB GPU in Iowa for 1 Year,96,"
                "hour,345600,seconds"
            ),
        ],
        {"ai": 192.0, "chat": 72.0},
    ),
    # managed services of AWS: training, endpoints, notebooks and studio kernels on ml. types; a capacity block
    "managed": (
        "ServiceName,SkuId,SkuMeter,PricingQuantity,PricingUnit",
        [
            "1580,1580,USD,AWS,ai,Amazon SageMaker,a,USE1-Train:ml.p5.48xlarge,24,Hrs",
            "300,300,USD,AWS,chat,Amazon SageMaker,b,USE1-Host:ml.g6e.12xlarge,24,Hrs",
            "40,40,USD,AWS,notebooks,Amazon SageMaker,c,USE1-Studio:KernelGateway-ml.g5.xlarge,24,Hrs",
            "9,9,USD,AWS,notebooks,Amazon SageMaker,d,USE1-Train:ml.m5.xlarge,24,Hrs",
            "900,900,USD,AWS,ai,Amazon Elastic Compute Cloud,e,USE2-CapacityBlock-p5.48xlarge,24,Hrs",
        ],
        {"ai": 384.0, "chat": 96.0, "notebooks": 24.0},
    ),
}


@pytest.mark.parametrize("name", BILLS)
def test_bills_as_providers_write_them(tmp_path, name):
    columns, rows, right = BILLS[name]
    day = DAY.replace(":00Z", "Z") if name == "azure" else DAY
    path = write(tmp_path, f"{name}.csv", "\n".join([HEAD + columns, *(day + row for row in rows)]) + "\n")
    found = ingest("focus", path)
    assert hours_by_workload(found) == right
    assert found.accounts["rows"].sum() == len(rows)
    assert found.accounts.billed_cost.sum() == pytest.approx(sum(float(row.split(",")[0]) for row in rows))


def test_a_bill_as_parquet_is_that_of_its_csv(tmp_path):
    columns, rows, right = BILLS["google"]
    text = write(tmp_path, "bill.csv", "\n".join([HEAD + columns, *(DAY + row for row in rows)]) + "\n")
    frame = pd.read_csv(text)
    for column in ("BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd"):
        frame[column] = pd.to_datetime(frame[column])
    import duckdb

    with duckdb.connect() as connection:
        connection.register("frame", frame)
        connection.execute(f"copy frame to '{tmp_path / 'bill.parquet'}' (format parquet)")
    mine, theirs = ingest("focus", tmp_path / "bill.parquet"), ingest("focus", text)
    assert hours_by_workload(mine) == right
    pd.testing.assert_frame_equal(mine.tables["billing"], theirs.tables["billing"])
    pd.testing.assert_frame_equal(mine.tables["usage"], theirs.tables["usage"])


def test_a_correction_in_the_next_months_bill_takes_from_the_month_it_corrects(tmp_path):
    head = HEAD + "ChargeClass,SkuMeter,PricingQuantity,PricingUnit"
    first = DAY + "1320.96,1320.96,USD,AWS,ai,,BoxUsage:p5.48xlarge,24,Hrs"
    # billed in October, for the same day of September: six machine-hours were charged too many
    later = (
        "2026-10-01T00:00:00Z,2026-09-03T00:00:00Z,2026-09-04T00:00:00Z,Usage,-330.24,-330.24,"
        "USD,AWS,ai,Correction,BoxUsage:p5.48xlarge,-6,Hrs"
    )
    (tmp_path / "book.yaml").write_text("name: t\n")
    ingest("focus", write(tmp_path, "2026-09.csv", f"{head}\n{first}\n"), tmp_path)
    found = ingest("focus", write(tmp_path, "2026-10.csv", f"{head}\n{later}\n"), tmp_path)
    assert hours_by_workload(found) == {"ai": 144.0}
    assert found.tables["billing"].groupby(found.tables["billing"].month.dt.month).billed_cost.sum().to_dict() == {9: 1320.96, 10: -330.24}


SACCT = "JobID|Account|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES\n"


def test_jobs_of_overlapping_sacct_exports_arrays_steps_and_slices(tmp_path):
    september = SACCT + (
        "7|nlp|COMPLETED|2026-09-29T00:00:00|2026-09-29T00:00:00|2026-09-29T06:00:00|06:00:00|gres/gpu=4|gres/gpu=4\n"
        "7.batch|nlp|COMPLETED|2026-09-29T00:00:00|2026-09-29T00:00:00|2026-09-29T06:00:00|06:00:00|gres/gpu=4|\n"
        "8_1|nlp|COMPLETED|2026-09-29T00:00:00|2026-09-29T00:00:00|2026-09-29T01:00:00|01:00:00|gres/gpu:h100=2|gres/gpu=2\n"
        "8_2|nlp|COMPLETED|2026-09-29T00:00:00|2026-09-29T01:00:00|2026-09-29T02:00:00|01:00:00|gres/gpu:h100=2|gres/gpu=2\n"
        "8_[3-10%2]|nlp|PENDING|2026-09-29T00:00:00|Unknown|Unknown|00:00:00||gres/gpu=2\n"
        "9|nlp|RUNNING|2026-09-30T20:00:00|2026-09-30T20:00:00|Unknown|04:00:00|gres/gpu=8|gres/gpu=8\n"
    )
    october = SACCT + (
        "9|nlp|COMPLETED|2026-09-30T20:00:00|2026-09-30T20:00:00|2026-10-01T06:00:00|10:00:00|gres/gpu=8|gres/gpu=8\n"
        "10|vision|COMPLETED|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T14:00:00|14:00:00|gres/gpu:h200_1g.18gb=1,gres/gpu=1|gres/gpu=1\n"
        "11|vision|COMPLETED|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T04:00:00|04:00:00|gres/gpu:a30_2g.12gb=3,gres/gpu=3|gres/gpu=3\n"
        "12|vision|COMPLETED|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T08:00:00|08:00:00|gres/shard=1|gres/shard=1\n"
    )
    (tmp_path / "book.yaml").write_text("name: t\n")
    for name, text in (("sacct-09.txt", september), ("sacct-10.txt", october)):
        found = ingest("slurm", write(tmp_path, name, text), tmp_path, shards_per_accelerator=4)
    # nlp: 4 x 6 + 2 + 2 and once 8 x 10; vision: 14 / 7 + 3 x 4 / 2 + 8 / 4
    assert hours_by_workload(found) == pytest.approx({"nlp": 108.0, "vision": 10.0})
    assert found.tables["jobs"].job_id.tolist().count("9") == 1


def test_words_and_units_of_smaller_clouds():
    recogniser = Recogniser(known_table("skus", None), known_table("accelerators", None))
    for words, accelerator, count in (
        ("8xH100.80GB", "H100", 8),
        ("8H100.80S.176V", "H100", 8),
        ("gd-8xb200-i128", "B200", 8),
        ("gd-8xh200ib-i128", "H200", 8),
        ("gb200-4x", "GB200", 4),
        ("USE2-CapacityBlock-p5en.48xlarge", "H200", 8),
        ("DGX H100", "H100", 8),
        ("H100 SXM5 80GB x8", "H100", 8),
        ("NVIDIA-H100-80GB-HBM3", "H100", 1),
    ):
        machine = recogniser.find(words)
        assert machine is not None, words
        assert (machine.accelerator, machine.count) == (accelerator, count), words
    for unit in ("GPU*hour", "GPU·h", "hour (GPU)", "GPU hrs.", "gpu-hrs", "GPU_HOURS"):
        assert hours_of_unit(unit) == (1.0, True), unit
    for unit in ("vCPU*hour", "GiB*hour", "OCPU Per Hour", "GB Hours", "hour (vCPU)", "hours/month"):
        assert hours_of_unit(unit) is None, unit
