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

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals and locks of folders are those of POSIX")]
#: More are tried at night.
KILLS = int(os.environ.get("CAPPLAN_KILLS", "8"))
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
