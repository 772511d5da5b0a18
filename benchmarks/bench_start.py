"""From files to a book and a first plan, and a small book checked: CPU seconds of the commands themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest.test_start import exported

#: What the first plan from files, and the check of the small book that comes of them, may take.
FIRST_PLAN_CPU_SECONDS, CHECK_CPU_SECONDS = 30.0, 2.0
CODE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
sys.exit(done.returncode)
"""


def cpu_seconds(folder: Path, *words: str) -> float:
    """Run a command of capplan in a folder and say how many CPU seconds it and its workers took."""
    tool = Path(sys.executable).with_name("capplan")
    done = subprocess.run([sys.executable, "-c", CODE, str(tool), *words], cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.benchmark(group="from files to a first plan")
def test_a_first_plan_and_a_check(benchmark, tmp_path):
    files = [path.name for path in exported(tmp_path, 8)]
    first = benchmark.pedantic(cpu_seconds, args=(tmp_path, "start", *files, "--model", "chat=Llama-3.1-70B"), rounds=1, iterations=1)
    check = cpu_seconds(tmp_path, "check", "mybook")
    print(f"\ncapplan start with its first plan: {first:.1f} CPU s; capplan check: {check:.2f} CPU s")
    assert first < FIRST_PLAN_CPU_SECONDS
    assert check < CHECK_CPU_SECONDS
