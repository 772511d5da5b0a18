"""The wheel carries notebooks and example data, and works in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_wheel_makes_and_plans_a_book(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".venv", ".git", "reports", "test-output", "__pycache__", ".*_cache"))
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "capplan/share/notebooks/14_plan.ipynb",
        "capplan/share/data/reference/offers.csv",
        "capplan/share/data/enterprise/book.yaml",
        "capplan/share/data/api_first/book.yaml",
        "capplan/share/data/on_prem/book.yaml",
    ):
        assert wanted in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    # dependencies come from this environment; capplan itself only from the wheel
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    empty = tmp_path / "empty"
    empty.mkdir()
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); sys.path = [p for p in sys.path if p != {str(ROOT)!r}]; import capplan; assert"
        f" capplan.__file__.startswith({str(site)!r}); from capplan.cli import main; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def capplan(*words: str) -> str:
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=empty, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "copy of the example enterprise" in capplan("new", "mybook", "--from", "enterprise")
    options = [
        word
        for pair in ("horizon_quarters=2", "paths=20", "plan_paths=10", "load_blocks=3", "gap_share=0.02", "flip_search=false")
        for word in ("-p", pair)
    ]
    assert "Report: reports/mybook/2027Q1/plan.html" in capplan("plan", "mybook", *options)
    assert (empty / "reports" / "mybook" / "2027Q1" / "plan.html").stat().st_size > 50_000
