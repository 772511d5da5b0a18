"""Ten million rows of a bill reviewed against the accepted plan, beside the same aggregation in pandas, each in its own process.

The review reads and checks every row, sums up exactly all that differs in what tells a month's charges apart, sorts it into buckets and
bridges the sums to the plan; pandas sums floating-point numbers up by the same columns: of the whole file as it is, and of the named
columns alone. Both are timed once their libraries, and the book, are loaded. How many times longer either takes is printed, and kept with
the benchmark.

`CAPPLAN_BENCH_ROWS` sets another number of rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROWS = int(os.environ.get("CAPPLAN_BENCH_ROWS", "10000000"))
BOOK = Path(__file__).resolve().parents[1] / "data" / "enterprise"
#: Memory that a review may take: the interpreter, its libraries and the ingest's own bound.
BOUND_MIB = 900
KEYS = (
    "BillingPeriodStart,ProviderName,ServiceName,SubAccountId,RegionId,SkuId,ChargeCategory,PricingCategory,CommitmentDiscountStatus,"
    "BillingCurrency,ConsumedUnit"
)
COSTS = "BilledCost,EffectiveCost,ListCost,ConsumedQuantity"

COMMON = """
import json, resource, sys, time
from pathlib import Path
path = sys.argv[1]
{work}
print(json.dumps({{"billed": billed, "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu,
                  "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}))
"""
REVIEW = COMMON.format(
    work=f"""
from capplan.book.accepted import read_accepted
from capplan.book.book import load_book
from capplan.answers.review import review_of
from capplan.outputs.run.review import with_bills
book = load_book({str(BOOK)!r})
start, cpu = time.perf_counter(), time.process_time()
book = with_bills(book, [path])
review = review_of(book, book.scenario, read_accepted(Path({str(BOOK)!r}) / "accepted_plan"))
billed = float(review.bridge["amount"].iloc[-1])
"""
)
#: The one aggregation that a review begins with, of floating-point numbers, and none of what follows it.
PANDAS = COMMON.format(
    work=f"""
import pandas as pd
keys, costs = {KEYS.split(",")!r}, {COSTS.split(",")!r}
chosen = None if sys.argv[2] == "whole" else keys + costs
start, cpu = time.perf_counter(), time.process_time()
rows = pd.read_parquet(path, columns=chosen) if path.endswith("parquet") else pd.read_csv(path, usecols=chosen)
billed = float(rows.groupby(keys, dropna=False)[costs].sum()["EffectiveCost"].sum())
"""
)


@pytest.fixture(scope="module", params=["csv", "parquet"])
def bill(request):
    """Write a FOCUS export of two months, in rows of an hour and a resource, and remove it afterwards."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="capplan-bench-") as folder:
        path = Path(folder) / f"bill.{request.param}"
        form = "header, delimiter ','" if request.param == "csv" else "format parquet"
        duckdb.connect().execute(f"""
            copy (
                with hours as (select n, timestamp '2026-10-01' + to_hours(n % 1464) as hour from range({ROWS}) t(n))
                select strftime(date_trunc('month', hour), '%Y-%m-%dT00:00:00Z') as BillingPeriodStart,
                    strftime(date_trunc('month', hour) + interval 1 month, '%Y-%m-%dT00:00:00Z') as BillingPeriodEnd,
                    strftime(hour, '%Y-%m-%dT%H:00:00Z') as ChargePeriodStart,
                    strftime(hour + interval 1 hour, '%Y-%m-%dT%H:00:00Z') as ChargePeriodEnd,
                    'aws' as ProviderName, 'Amazon EC2' as ServiceName, 'account-' || (hash(n) % 20) as SubAccountId,
                    (['us-east-1', 'eu-north-1'])[1 + n % 2] as RegionId, (['p5.48xlarge', 'g6e.xlarge'])[1 + (n // 2) % 2] as SkuId,
                    'i-' || (n // 1464) as ResourceId, 'Usage' as ChargeCategory,
                    (['Standard', 'Dynamic'])[1 + (n // 4) % 2] as PricingCategory, '' as CommitmentDiscountStatus,
                    'USD' as BillingCurrency, 0.3 as BilledCost, 0.3 as EffectiveCost, 0.5 as ListCost, 0.01 as ConsumedQuantity,
                    'Hours' as ConsumedUnit from hours
            ) to '{path}' ({form})
            """)
        yield path


def run(code: str, path: Path, *more: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", code, str(path), *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.benchmark(group="review ten million rows of a bill")
def test_a_large_bill_is_reviewed_in_bounded_memory(benchmark, bill):
    plain = {columns: run(PANDAS, bill, columns) for columns in ("whole", "named")}
    found = benchmark.pedantic(run, args=(REVIEW, bill), rounds=1, iterations=1)
    times = {
        columns: {name: each[name] / found[name] for name in ("seconds", "cpu_seconds", "peak_mib")} for columns, each in plain.items()
    }
    benchmark.extra_info.update({"review": found, "pandas": plain, "times": times})
    for name, each in (("review", found), *((f"pandas, {columns} columns", each) for columns, each in plain.items())):
        print(
            f"\n{bill.name}, {name}: {ROWS:,} rows in {each['seconds']:.1f} s, {each['cpu_seconds']:.1f} CPU s, {each['peak_mib']:,.0f} MiB"
        )
    for columns, each in times.items():
        print(f"pandas of {columns} columns takes {each['seconds']:.1f} times the seconds, {each['cpu_seconds']:.1f} times the CPU seconds")
    for each in plain.values():
        assert found["billed"] == pytest.approx(each["billed"], abs=0.01)
    assert found["peak_mib"] < BOUND_MIB
