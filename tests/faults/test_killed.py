"""Runs that are killed at random moments: a report is the whole old one or the whole new one, and the next run works and clears up."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time

import pytest

from capplan import scratch
from capplan.outputs.run.folders import replaced_whole
from tests.conftest import ROOT
from tests.questions.test_board import TABLES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals and locks of folders are those of POSIX")]
#: More are tried at night.
KILLS = int(os.environ.get("CAPPLAN_KILLS", "8"))
#: Of whole plans, which take seconds each; at night with their notebooks.
PLAN_KILLS, DEPTH = (KILLS, ()) if "CAPPLAN_KILLS" in os.environ else (1, ("--quick",))
FILES = "abc"
WRITER = """
import sys
from pathlib import Path
from capplan.outputs.run.folders import replaced_whole
number = 0
while True:
    with replaced_whole(Path(sys.argv[1])) as draft:
        for name in sys.argv[2]:
            (draft / name).write_text(str(number) * 5000)
    number += 1
    if number == 1:
        print("one is there", flush=True)
"""


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_report_is_whole_whenever_its_run_is_killed(tmp_path, monkeypatch, kill):
    target = tmp_path / "reports" / "2027Q1"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(target), FILES], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one is there\n"
        time.sleep(random.Random(kill).uniform(0, 0.1))
        process.kill()
    monkeypatch.setattr(scratch, "YOUNG_SECONDS", 0.0)
    # killed between the two renames, it is the next run that puts the old report back
    with contextlib.suppress(ZeroDivisionError), replaced_whole(target) as draft:
        (draft / "a").write_text("half")
        raise ZeroDivisionError
    assert sorted(path.name for path in target.iterdir()) == list(FILES)
    assert len({(target / name).read_text() for name in FILES}) == 1
    assert len((target / "a").read_text()) >= 5000
    with replaced_whole(target) as draft:
        (draft / "whole").write_text("whole")
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert [path.name for path in target.parent.iterdir()] == ["2027Q1"]


def planned(book, out, factor, temporary):
    """A whole plan, in a process of its own."""
    temporary.mkdir(exist_ok=True)
    words = ["plan", str(book), *DEPTH, "-p", f"demand_factor={factor}", "--out", str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "CAPPLAN_ANSWERS"} | {"TMPDIR": str(temporary)}
    return subprocess.Popen(
        [sys.executable, "-m", "capplan.cli", *words], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


#: Tables that say what changed since the report before.
BEFORE = ("plan_bridge.csv", "driver_bridge.csv")


def held(report):
    """Names of all files of a report, and the bytes of those of its tables that say nothing of the report before."""
    files = [path for path in sorted(report.rglob("*")) if path.is_file() and path.name != "changed.html"]
    plain = {path for path in files if path.suffix == ".csv" and path.name not in BEFORE}
    return [(str(path.relative_to(report)), path.read_bytes() if path in plain else b"") for path in files]


def test_a_plan_that_is_killed_leaves_the_old_report_or_the_new_one(make_book, tmp_path):
    book, out, temporary = make_book("steady", **TABLES), tmp_path / "out", tmp_path / "temporary"
    target = out / "steady" / "2027Q1"
    assert planned(book, out, 1.0, temporary).wait() == 0
    began = time.monotonic()
    assert planned(book, tmp_path / "other", 1.5, temporary).wait() == 0
    seconds = time.monotonic() - began
    old, new = held(target), held(tmp_path / "other" / "steady" / "2027Q1")
    assert old != new
    moments, killed = random.Random(0), 0
    while killed < PLAN_KILLS:
        with planned(book, out, 1.5, temporary) as process:
            # most of a plan's time no file is touched: every other kill falls where the report is written
            moment = moments.uniform(0.0 if killed % 2 else 0.6 * seconds, seconds)
            with contextlib.suppress(subprocess.TimeoutExpired):
                assert process.wait(moment) == 0
                # it was quicker than the one that was timed, and nothing was killed
                seconds = moment
                continue
            process.kill()
        killed += 1
        found = held(target)
        assert found in (old, new), killed
        sys.stdout.write(f"kill {killed} after {moment:.0f} s of {seconds:.0f}: the {'new' if found == new else 'old'} report\n")
    time.sleep(scratch.YOUNG_SECONDS)
    assert planned(book, out, 1.0, temporary).wait() == 0
    assert held(target) == old
    assert {path.name for path in target.parent.iterdir()} == {"2027Q1", "latest", "history.csv"}
    assert [path.name for path in temporary.iterdir() if path.name.startswith("capplan-")] == []
