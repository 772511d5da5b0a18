"""Shared by all tests: small books, and where the public reference data lie, if they are there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import Phase, settings

from capplan.answers.store import SHARED, forget
from capplan.book.book import Book, load_book

Thing = TypeVar("Thing")
ROOT = Path(__file__).resolve().parents[1]
FOLDER = pytest.StashKey[str]()


# the same cases in every run: a law that fails fails for everybody; where only that it fails is asked, nobody needs its smallest case
PHASES = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain) or "CAPPLAN_UNSHRUNK" not in os.environ]
settings.register_profile("capplan", derandomize=True, deadline=None, phases=PHASES)
settings.load_profile("capplan")


def pytest_configure(config: pytest.Config) -> None:
    """Let all processes of the session, kernels and commands included, share what was answered once."""
    if not hasattr(config, "workerinput"):
        os.environ[SHARED] = config.stash[FOLDER] = tempfile.mkdtemp(prefix="capplan-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the shared answers."""
    if FOLDER in config.stash:
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, in any form of output, how many tests were not run, and for lack of what: a run that skips proves so much less."""
    reasons = Counter(str(report.longrepr[-1]).removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section(f"NOT CHECKED: {reasons.total()} tests were skipped", red=True, bold=True)
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:4} {reason}")


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Compute everything anew from here on, and again after each call: for tests of the computation itself, and of the caches."""
    monkeypatch.delenv(SHARED, raising=False)
    forget()
    return forget


@cache
def example_book() -> Book:
    """Return the example's book, read once; what a book gives is a copy."""
    return load_book(ROOT / "data" / "enterprise")


def reference_file(*parts: str) -> Path:
    """Return a file of the reference data kept beside the project, or skip the test, saying so; where they are, none may be missing."""
    data = Path(os.environ.get("CAPPLAN_SHARED", ROOT.parent / "shared"))
    if not data.joinpath(*parts).exists():
        promised = "CAPPLAN_SHARED" in os.environ or (data / "truth").is_dir()
        (pytest.fail if promised else pytest.skip)(f"the public reference file {'/'.join(parts)} is not in {data}")
    return data.joinpath(*parts)


def some(things: Iterable[Thing]) -> list[Thing]:
    """Return what a test goes through one by one; there must be something, or nothing would be tested."""
    found = list(things)
    assert found
    return found


@pytest.fixture
def make_book(tmp_path: Path) -> Callable[..., Path]:
    """Write a book from texts: make_book(usage="time,...", book="name: x")."""

    def write(name: str = "tiny", **files: str | bytes) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for stem, text in files.items():
            path = folder / ("book.yaml" if stem == "book" else f"{stem}.csv")
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder

    return write


def hourly(days: int = 3, start: str = "2026-01-01", workload: str = "chat", value: float = 5.0) -> str:
    """Return a small usage table as text."""
    import pandas as pd

    times = pd.date_range(start, periods=24 * days, freq="h")
    return "time,workload,quantity\n" + "".join(f"{time.isoformat()},{workload},{value + time.hour % 3}\n" for time in times)


CONTRACTS = "commitment_id,sku,region,term,machines,usd_per_hour,start,end\nc1,test.8x,us,reserved_1y,4,20,2026-01-01,2026-12-31\n"
SKUS = "sku,provider,accelerator,accelerator_count,source_id\ntest.8x,aws,H100,8,s1\n"
SOURCES = "source_id,title,where_found,retrieved_on\ns1,A price list,written for this test,2026-01-01\n"


def _started(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *words, "--no-dashboard"], cwd=ROOT, stderr=subprocess.DEVNULL)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[list[subprocess.Popen[bytes]], str]]:
    """A Dask scheduler with two workers, all of them processes; and its address."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    place = ("--host", address.rpartition(":")[0], "--port", address.rpartition(":")[2])
    running = [_started("distributed.cli.dask_scheduler", *place)]
    worker = ("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path / "workers"))
    running += [_started(*worker) for _ in range(2)]
    try:
        with distributed.Client(address, timeout=120) as client:
            client.wait_for_workers(2, timeout=120)
        yield running, address
    finally:
        for process in running:
            process.kill()
            process.wait()
