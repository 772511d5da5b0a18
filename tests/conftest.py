"""Shared by all tests: small books, and where the public reference data lie, if they are there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def reference_file(*parts: str) -> Path:
    """Return a file of the reference data kept beside the project, or skip the test, saying so."""
    place = Path(os.environ.get("CAPPLAN_SHARED", ROOT.parent / "shared")).joinpath(*parts)
    if not place.exists():
        pytest.skip(f"the public reference file {'/'.join(parts)} is not on this machine")
    return place


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
