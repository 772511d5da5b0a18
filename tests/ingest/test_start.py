"""From exported files to a first plan: the way in as README writes it, forms recognised by their columns, and lists of contracts."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from capplan.answers.readiness import _is_plain
from capplan.book.book import load_book, reference_tables
from capplan.book.reader import read_table
from capplan.errors import BookError, CapplanError
from capplan.ingest import ingest
from capplan.ingest.forms import form_of
from capplan.outputs.run.start import _most_at_once, _read_all, _write_settings, start
from capplan.outputs.run.starter_speeds import starter_speeds
from tests.conftest import reference_file
from tests.ingest.test_ingest_bills import bill

CONTRACTS = (
    "Reservation ID,Instance Type,Instance Count,Region,Hourly Price,Start Date,End"
    " Date\nri-1,p5.48xlarge,2,us-east-1,$30.00,2026-06-01,2027-05-31\n"
)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def exported(folder: Path, months: int = 4) -> list[Path]:
    """Write what a company exports: a bill of some months, its contracts and a gateway's log."""
    days = pd.date_range("2026-08-01", periods=30 * months, freq="D")
    rows = [
        {
            "BillingPeriodStart": f"{day:%Y-%m-01}T00:00:00Z",
            "ChargePeriodStart": f"{day:%Y-%m-%d}T00:00:00Z",
            "ChargePeriodEnd": f"{day + pd.Timedelta(days=1):%Y-%m-%d}T00:00:00Z",
            "SubAccountName": "research",
            "ConsumedQuantity": 24 * (4 + day.dayofyear % 3),
            "PricingQuantity": 24 * (4 + day.dayofyear % 3),
            **dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost"), 55.04 * 24 * (4 + day.dayofyear % 3)),
        }
        for day in days
    ]
    times = pd.date_range(days[0], days[-1] + pd.Timedelta(hours=23), freq="h")
    requests = pd.DataFrame(
        {
            "timestamp": times.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "input_tokens": 400,
            "output_tokens": 200 + 20 * (times.hour > 8),
            "service": "chat",
        }
    )
    requests.to_csv(folder / "gateway-log.csv", index=False)
    return [bill(folder, *rows), write(folder, "contracts.csv", CONTRACTS), folder / "gateway-log.csv"]


def test_ten_minutes_are_walked_as_readme_writes_them(tmp_path):
    section = Path("README.md").read_text().split("## Your own data in ten minutes")[1].split("\n## ")[0]
    commands = [line.strip().split(" #")[0].strip() for line in section.splitlines() if line.startswith("    capplan ")]
    first, check, plan = commands[:3]
    assert first.startswith("capplan start ")
    assert (check, plan) == ("capplan check mybook", "capplan plan mybook")
    exported(tmp_path)
    tool = Path(sys.executable).with_name("capplan")
    done = subprocess.run([tool, *shlex.split(first)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for said in (
        "First plan, made quickly",
        "may be bought from: aws",
        "book.yaml, providers",
        "chat is served like Llama-3.1-70B",
        "Next best table:",
    ):
        assert said in done.stdout, done.stdout
    assert "commitments.csv" not in re.findall(r"Next best table: .*", done.stdout)[0]
    passed = subprocess.run([tool, *shlex.split(check)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert passed.returncode == 0, passed.stderr
    assert "a plan can start" in passed.stdout
    planned = subprocess.run([tool, *shlex.split(plan)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert planned.returncode == 0, planned.stderr
    pages = [page.read_text() for page in (tmp_path / "reports" / "mybook").glob("*/plan.html")]
    assert pages
    for page in pages:
        assert "Facts of yours: workloads, usage, commitments" in page
        assert "Facts that come with capplan: all list prices" in page
    (tmp_path / "next-month.csv").write_text((tmp_path / "gateway-log.csv").read_text().replace("2026-", "2027-"))
    before = (tmp_path / "mybook" / "usage.csv").read_bytes()
    for command in commands[3:6]:
        done = subprocess.run([tool, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "mybook" / "usage.csv").read_bytes() == before


def test_start_makes_a_book_or_nothing(tmp_path):
    files = exported(tmp_path, 1)
    with pytest.raises(CapplanError, match="give --model chat=MODEL"):
        start(files, tmp_path / "book")
    assert not (tmp_path / "book").exists()
    with pytest.raises(CapplanError, match="none of these files is read with an option worklod; did you mean workload"):
        start(files, tmp_path / "book", options={"worklod": "chat"})
    asked = []

    def ask(question, answers):
        asked.append(question)
        return answers[0]

    with pytest.raises(CapplanError, match="which no file has; did you mean chat"):
        start(files, tmp_path / "book", models={"chatt": "Llama-3.1-70B"}, ask=ask)
    found = start(files, tmp_path / "book", ask=ask, values={"plan_paths": 4, "horizon_quarters": 2})
    assert len(asked) == 1
    book = load_book(tmp_path / "book")
    assert book.scenario.providers == ("aws",)
    assert book.scenario.geographies == ("us",)
    assert "own" not in set(found.plan.purchases.purchases.get("provider", pd.Series(dtype=object)))
    assert not found.assumed.duplicated("assumption").any()
    assert (found.assumed.change.str.len() > 0).all()
    with pytest.raises(CapplanError, match="exists already"):
        start(files, tmp_path / "book")


def test_work_runs_on_what_its_bills_say_and_other_accelerators_count_by_their_peaks(tmp_path):
    hours = {"ConsumedQuantity": 24, "PricingQuantity": 24, "ChargePeriodEnd": "2026-09-02T00:00:00Z"}
    rows = [
        {"SubAccountName": "research", "SkuMeter": "BoxUsage:p5.48xlarge", **hours},
        {"SubAccountName": "research", "SkuMeter": "BoxUsage:g6e.12xlarge", **hours},
        {"SubAccountName": "vision", "SkuMeter": "BoxUsage:p4d.24xlarge", **hours},
    ]
    book = tmp_path / "book"
    book.mkdir()
    (book / "book.yaml").write_text("name: t\n")
    ingest("focus", bill(tmp_path, *rows), book)
    ingest("contracts", write(tmp_path, "contracts.csv", CONTRACTS), book)
    assumed: list[tuple[str, str, str]] = []
    starter_speeds(book, {}, None, assumed)
    found = pd.read_csv(book / "speeds.csv").set_index(["workload", "accelerator"]).work_per_accelerator_hour.to_dict()
    peak = reference_tables()["accelerators"].set_index("accelerator").bf16_tflops
    assert found == {
        ("research", "H100"): 1.0,
        ("research", "L40S"): pytest.approx(peak["L40S"] / peak["H100"], abs=0.005),
        ("vision", "A100-40GB"): 1.0,
    }
    assert [text.split(" (")[0] for _, text, _ in assumed] == ["H100", "A100-40GB"]


def test_on_demand_can_be_had_as_past_use_shows(tmp_path):
    usage = "time,workload,region,quantity\n" + "".join(
        f"2026-09-{day:02d},{name},us-east-1,{24 * used}\n" for day in (1, 2) for name, used in (("a", 40 * day), ("b", 30), ("c", 9))
    )
    write(tmp_path, "book.yaml", "name: t\n")
    write(tmp_path, "usage.csv", usage)
    write(tmp_path, "workloads.csv", "workload,stage,unit\n" + "".join(f"{name},serving,accelerator_hours\n" for name in "abc"))
    speeds = "a,H100,1,stated\na,L40S,0.4,stated\nb,H100,0.5,stated\nc,L40S,1,stated\n"
    write(tmp_path, "speeds.csv", "workload,accelerator,work_per_accelerator_hour,basis\n" + speeds)
    assert _most_at_once(load_book(tmp_path)) == 80 + 60
    assumed: list[tuple[str, str, str]] = []
    _write_settings(tmp_path, "t", assumed)
    book = load_book(tmp_path)
    assert book.scenario.on_demand_accelerators == 280
    assert _is_plain(book, book.scenario), "a first book is checked without rehearsing its plan"
    assert any(what == "can be had on demand" and "280 accelerators" in value for what, value, _ in assumed)


def test_contracts_in_the_words_of_clouds_and_finance(tmp_path):
    text = (
        "name,vm_size,nodes,location,effective_hourly_rate,valid_from,valid_to,kind\n"
        + "a,ND96isr H100 v5,4,eastus,$70.50,2026-01-01,2028-12-31,\nb,p5.48xlarge,2,us-east-1,40,2026-01-01,2026-12-31,Compute Savings"
        " Plan\n"
    )
    frame = ingest("auto", write(tmp_path, "signed.csv", text)).tables["commitments"].set_index("commitment_id")
    assert frame.sku.to_dict() == {"a": "Standard_ND96isr_H100_v5", "b": "p5.48xlarge"}
    assert frame.term.to_dict() == {"a": "reserved_3y", "b": "savings_plan_1y"}
    assert frame.discounts.to_dict() == {"a": "units", "b": "usd_per_hour"}
    assert frame.usd_per_hour.to_dict() == {"a": 70.5, "b": 40.0}
    with pytest.raises(BookError, match="no table has this machine type"):
        ingest("contracts", write(tmp_path, "bad.csv", text.replace("p5.48xlarge", "m5.large")))
    with pytest.raises(BookError, match="ends before it starts"):
        ingest("contracts", write(tmp_path, "bad.csv", text.replace("2028-12-31", "2025-12-31")))
    with pytest.raises(BookError, match="1 contract states no region"):
        ingest("contracts", write(tmp_path, "bad.csv", text.replace("eastus", "")))


@pytest.mark.parametrize(
    ("header", "format", "name"),
    [
        ("request_id,call_type,spend,startTime,endTime,model,prompt_tokens,completion_tokens,cache_hit,status", "requests", "LiteLLM"),
        ("start_time,gen_ai.usage.input_tokens,gen_ai.usage.output_tokens,gen_ai.request.model", "requests", "OpenTelemetry"),
        ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", "requests", "BurstGPT"),
        ("timestamp,input_length,output_length,hash_ids", "requests", "Mooncake"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens", "requests", "Azure"),
        ("arrival_time,num_prompt_tokens,num_generation_tokens", "requests", "vLLM"),
        ("JobID|JobName|Submit|Start|End|AllocTRES", "slurm", "sacct"),
        ("job_id,user,vc,gpu_num,cpu_num,state,submit_time,start_time,end_time,duration,queue", "jobs", "Helios"),
        ("instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size", "prices", "gpuhunt"),
        ("InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice", "prices", "SkyPilot"),
        ("time,requests_per_second", "rates", "request rates"),
        ("BillingPeriodStart,ChargeCategory,BilledCost,EffectiveCost,ProviderName", "focus", "FOCUS"),
    ],
)
def test_exports_are_recognised_by_their_columns(tmp_path, header, format, name):
    taken = form_of(write(tmp_path, "aws-file.csv", header + "\n"))
    assert taken.format == format
    assert name in taken.name


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("bill_billing_period_start_date,line_item_line_item_type,line_item_unblended_cost", "AWS's Cost and Usage Report.*FOCUS with AWS"),
        ("service.description,sku.description,usage_start_time,cost,currency", "Google's billing export.*FOCUS view"),
        ("Date,MeterName,Quantity,CostInBillingCurrency,BillingCurrency", "Azure's cost details.*Cost Management"),
        ("lineItem/intervalUsageStart,product/service,cost/myCost", "OCI's usage or cost report.*FOCUS Reports"),
    ],
)
def test_bills_in_the_form_of_their_cloud_are_told_how_to_come_as_focus(tmp_path, header, said):
    with pytest.raises(CapplanError, match=said):
        form_of(write(tmp_path, "bill.csv", header + "\n"))


def test_auto_says_what_it_took_a_file_for_and_refuses_what_it_does_not_know(tmp_path):
    path = reference_file("data", "llm_demand", "azure_llm_inference_2023_code.csv")
    assert any("is taken for an Azure LLM inference trace: ingest requests" in note for note in ingest("auto", path).notes)
    with pytest.raises(CapplanError, match="those of no form that capplan knows: colour, shape"):
        ingest("auto", write(tmp_path, "odd.csv", "colour,shape\nred,round\n"))


def test_a_table_of_ones_own_is_inert_in_the_first_book(tmp_path):
    source = write(tmp_path, "usage.csv", "time,workload,region,quantity\n2026-09-01,=1+1,us-1,4\n")
    draft = tmp_path / "book"
    draft.mkdir()
    (draft / "book.yaml").write_text("name: t\n")
    _read_all([source], draft, {}, [], lambda _: None)
    assert ",'=1+1," in (draft / "usage.csv").read_text()
    assert read_table(draft / "usage.csv", "usage")[0]["workload"].tolist() == ["=1+1"]
