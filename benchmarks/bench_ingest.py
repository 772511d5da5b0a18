"""Ten million requests into hourly usage, as one file and as a hundred: memory and time beside pandas, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import pytest

ROWS = 10_000_000
#: Memory that ingest may take, and room for the interpreter, pandas and DuckDB themselves.
MEMORY_GIB = 0.25
BOUND_MIB = 700

COMMON = """
import json, resource, sys, time
path, start = sys.argv[1], time.perf_counter()
{work}
print(json.dumps({{"requests": requests, "tokens": tokens, "seconds": time.perf_counter() - start,
                  "cpu_seconds": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
                  "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}))
"""
INGEST = COMMON.format(
    work=f"""
from capplan.ingest import ingest
found = ingest("requests", path, memory_gib={MEMORY_GIB}).tables["requests"]
requests, tokens = int(found.requests.sum()), int(found.input_tokens.sum() + found.output_tokens.sum())
"""
)
FILES = 100
#: What a folder may cost of one file with the same rows.
FOLDER_SHARE = 1.2
BOOK = COMMON.format(
    work=f"""
import pathlib, tempfile
import pandas as pd
from capplan.ingest import ingest
with tempfile.TemporaryDirectory() as folder:
    book = pathlib.Path(folder)
    (book / "book.yaml").write_text("name: t")
    ingest("requests", path, book, memory_gib={MEMORY_GIB}, workload="chat")
    found = pd.read_csv(book / "requests.csv")
requests, tokens = int(found.requests.sum()), int(found.input_tokens.sum() + found.output_tokens.sum())
"""
)
PANDAS = COMMON.format(
    work="""
import pandas as pd
rows = pd.read_csv(path)
rows["timestamp"] = pd.to_datetime(rows.timestamp, format="ISO8601")
hours = rows.groupby(rows.timestamp.dt.floor("h"))
found = hours.agg(requests=("input_tokens", "size"), i=("input_tokens", "sum"), o=("output_tokens", "sum"))
requests, tokens = int(found.requests.sum()), int(found.i.sum() + found.o.sum())
"""
)


@pytest.fixture(scope="module")
def log():
    """Write a request log of ten million rows, about 350 MB, and remove it afterwards."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="capplan-bench-") as folder:
        path = Path(folder) / "requests.csv"
        duckdb.connect().execute(f"""
            copy (select timestamp '2026-01-01' + to_milliseconds(n * 1555) as timestamp, (hash(n) % 4000)::int + 1 as input_tokens,
                (hash(n + 7) % 800)::int + 1 as output_tokens from range({ROWS}) t(n)) to '{path}' (header, delimiter ',')
            """)
        yield path


def run(code: str, path: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.benchmark(group="ingest ten million requests")
@pytest.mark.parametrize(("name", "code"), [("capplan", INGEST), ("pandas", PANDAS)])
def test_ten_million_requests(benchmark, log, name, code):
    found = benchmark.pedantic(run, args=(code, log), rounds=1, iterations=1)
    benchmark.extra_info.update(found)
    print(f"\n{name}: {log.stat().st_size / 2**20:,.0f} MiB in {found['seconds']:.1f} s, peak memory {found['peak_mib']:,.0f} MiB")
    assert found["requests"] == ROWS
    if name == "capplan":
        assert found["peak_mib"] < BOUND_MIB


@pytest.fixture(scope="module")
def folder(log):
    """Split the log into a hundred files."""
    with tempfile.TemporaryDirectory(prefix="capplan-bench-") as place, log.open() as lines:
        header = next(lines)
        for number in range(FILES):
            with (Path(place) / f"part_{number:04d}.csv").open("w") as part:
                part.write(header)
                part.writelines(islice(lines, ROWS // FILES))
        yield Path(place)


@pytest.mark.benchmark(group="ingest ten million requests into a book")
def test_a_folder_costs_as_much_as_one_file(benchmark, log, folder):
    one = run(BOOK, log)
    many = benchmark.pedantic(run, args=(BOOK, folder), rounds=1, iterations=1)
    benchmark.extra_info.update(many)
    for name, found in (("one file", one), (f"{FILES} files", many)):
        print(f"\n{name}: {found['seconds']:.1f} s, {found['cpu_seconds']:.1f} CPU s, peak memory {found['peak_mib']:,.0f} MiB")
        assert found["requests"] == ROWS
        assert found["peak_mib"] < BOUND_MIB
    assert many["tokens"] == one["tokens"]
    assert many["cpu_seconds"] <= FOLDER_SHARE * one["cpu_seconds"]
