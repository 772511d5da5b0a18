"""Runs that are killed at random moments: a report is the whole old one or the whole new one, and the next run works and clears up."""

from __future__ import annotations

import contextlib
import json
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


STEPPED = """
import json, os, pathlib, shutil, signal, sys, tempfile
from pathlib import Path
from capplan import scratch
from capplan.outputs.run import folders, run_history

scratch.YOUNG_SECONDS = 0.0
place, before = Path(sys.argv[1]) / "book", sys.argv[3]
target = place / "2027Q1"
if sys.argv[2] == "two renames":
    folders.exchanged = lambda one, other: False
watched = {module.__file__ for module in (scratch, folders, run_history, pathlib, shutil, tempfile)}

def run(text):
    with folders.replaced_whole(target) as draft:
        for name in ("a", "b", "run.json"):
            (draft / name).write_text(text)
    run_history.point_to(target)
    run_history.record_run(place, {"event": text})

def held():
    return [(path.name, path.read_text()) for path in sorted(target.iterdir())] if target.exists() else []

def whole(text):
    return [(name, text) for name in ("a", "b", "run.json")] if text else []

def lies_there():
    return [(str(path), path.lstat().st_ino, path.lstat().st_size, path.lstat().st_mode) for path in sorted(place.rglob("*"))]

def stepped(step):
    def each(frame, event, about):
        if frame.f_code.co_filename not in watched:
            return None
        if event == "line":
            step()
        return each
    child = os.fork()
    if child == 0:
        sys.settrace(each)
        run("new")
        sys.settrace(None)
        step()
        os._exit(0)
    return os.waitpid(child, 0)[1]

def begin():
    shutil.rmtree(place, ignore_errors=True)
    if before:
        run(before)

def moments():
    # the lines before which something else lies there than before the line before
    number, last, found = 0, None, []
    def step():
        nonlocal number, last
        number += 1
        now = lies_there()
        if now != last:
            last = now
            found.append(number)
            (place.parent / "moments").write_text(json.dumps(found))
    begin()
    assert stepped(step) == 0
    return json.loads((place.parent / "moments").read_text())

def killed_at(number):
    left = number
    def step():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    assert stepped(step) == signal.SIGKILL

# what is done once a process is done before
run("warm")
found, changing = set(), moments()
for number in changing:
    begin()
    killed_at(number)
    state = held()
    hidden = target.parent / ".2027Q1.before"
    if sys.argv[2] == "two renames" and hidden.exists() and not state:
        folders.put_back(target)
        state = held()
    assert state in (whole(before), whole("new")), (number, state)
    found.add(str(state))
    # once there was a report, it is found at every moment
    assert run_history.latest_report(place) == (target if before or (place / "latest").exists() else None), number
    run("third")
    assert held() == whole("third"), number
    assert {path.name for path in place.iterdir()} == {"2027Q1", "latest", "history.csv"}, (number, os.listdir(place))
    lines = (place / "history.csv").read_text().splitlines()
    assert lines[0].startswith("finished_at,") and all(line.count(",") == 8 for line in lines), (number, lines)
    assert [line.split(",")[1] for line in lines[1:] if ",new," not in line] == [*([before] if before else []), "third"], (number, lines)
assert found == {str(whole(before)), str(whole("new"))}, found
print(len(changing))
"""


@pytest.mark.parametrize("before", ["old", ""], ids=["over an old report", "for the first time"])
@pytest.mark.parametrize("way", ["one step", "two renames"])
def test_killed_at_each_line_that_touches_files_a_report_is_the_old_or_the_new_one(tmp_path, way, before):
    """Each line that finds another state of the disk than the one before it is the last one of a run: no state is left out."""
    if way == "one step" and sys.platform != "linux":
        pytest.skip("two folders change places in one step on Linux alone")
    words = [sys.executable, "-c", STEPPED, str(tmp_path / "reports"), way, before]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 10


WATCHED = """
import json, sys
from pathlib import Path
from capplan.cli.commands import app

target, place = Path(sys.argv[1]), str(Path(sys.argv[1]).parent)
seen, looking = [], False

def state():
    try:
        return sorted((str(path.relative_to(target)), path.stat().st_size, path.stat().st_mtime_ns) for path in target.rglob("*"))
    except FileNotFoundError as error:
        return repr(error)

def look(event, about):
    global looking
    if looking or event.partition(".")[0] not in ("open", "os", "shutil") or not any(place in str(each) for each in about):
        return
    looking = True
    seen.append(state())
    looking = False

sys.addaudithook(look)
try:
    app(sys.argv[2:], standalone_mode=False)
finally:
    looking = True
    ways = [list(way) for way, again in zip(map(tuple, seen), [None, *map(tuple, seen)]) if way != again]
    print(json.dumps([len(seen), len(ways), ways[-1] == state(), len(ways[0]), len(ways[-1])]), file=sys.stderr)
"""


def test_at_each_file_that_a_whole_plan_touches_the_report_is_the_old_or_the_new_one(make_book, tmp_path):
    """What a kill leaves is what lies there at that moment: it is looked at before each file is opened, moved or removed."""
    book, out = make_book("steady", **TABLES), tmp_path / "out"
    target = out / "steady" / "2027Q1"
    plan = ["plan", str(book), "--quick", "--out", str(out)]
    assert planned(book, out, 1.0, tmp_path / "temporary").wait() == 0
    words = [sys.executable, "-c", WATCHED, str(target), *plan, "-p", "demand_factor=1.5"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False, env={**os.environ, "CAPPLAN_ANSWERS": ""})
    looks, ways, ended, old, new = json.loads(done.stderr.splitlines()[-1])
    assert (ways, ended) == (2, True), done.stderr[-2000:]
    assert looks > 60
    assert min(old, new) > 40


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
