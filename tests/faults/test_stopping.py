"""Runs that are ended from outside, or have no place to write: one message, nothing left behind, and what a killed run left is swept."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from capplan import scratch
from capplan.errors import CapplanError, ReportError
from capplan.outputs.lab.given import check_parameters
from capplan.outputs.run.folders import check_room, replaced_whole
from capplan.outputs.run.open_lab import LAID, lay_notebooks, open_lab
from tests.conftest import ROOT, hourly

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and locks of folders are those of POSIX")
BEGIN = """
import sys, time, hashlib
from pathlib import Path
from capplan.answers.store import shared_answers
from capplan.outputs.run.folders import replaced_whole
from capplan.outputs.run.stopping import stoppable
say = lambda text: print(text, file=sys.stderr, flush=True)
with stoppable(say), shared_answers(), replaced_whole(Path(sys.argv[1])) as draft:
    (draft / "half.csv").write_text("half")
    print("deep inside", flush=True)
"""
WAYS = {
    "listening": "    time.sleep(600)\n",
    "in compiled code": "    hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2**31 - 1)\n",
    "with children that cannot be listed": """    import psutil
    def gone(*_, **__): raise psutil.NoSuchProcess(1)
    psutil.Process.children = gone
    time.sleep(600)
""",
    "asked twice at once": """    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGINT, signal.SIGTERM})
    number = signal.sigwait({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})
    for each in (number, signal.SIGTERM):
        os.kill(os.getpid(), each)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number, signal.SIGTERM})
    time.sleep(600)
""",
    "failing on its way out": "    try:\n        time.sleep(600)\n    finally:\n        raise RuntimeError('a kernel died')\n",
}


def started(code: str, target: Path, temporary: Path) -> subprocess.Popen[str]:
    temporary.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "CAPPLAN_ANSWERS"} | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "deep inside"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_run_says_so_once_and_leaves_nothing(tmp_path, way, number):
    target, temporary = tmp_path / "reports" / "2027Q1", tmp_path / "temporary"
    process = started(BEGIN + WAYS[way], target, temporary)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert said == f"capplan: stopped by {number.name}; nothing was left behind, and what was there before is untouched\n"
    assert process.returncode == 128 + number
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.rglob("*.csv")) == []


def test_a_later_run_sweeps_what_a_killed_one_left_but_not_what_another_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "YOUNG_SECONDS", 0.0)
    target, temporary = tmp_path / "reports" / "2027Q1", tmp_path / "temporary"
    killed, living = started(BEGIN + WAYS["listening"], target, temporary), started(BEGIN + WAYS["listening"], target, temporary)
    killed.kill()
    killed.communicate()
    assert len(list(target.parent.iterdir())) == len(list(temporary.iterdir())) == 2
    with replaced_whole(target) as draft:
        (draft / "whole.csv").write_text("whole")
    assert [path.name for path in scratch.sweep("capplan-answers-", temporary)] != []
    assert sorted(path.name.partition("draft")[0] for path in target.parent.iterdir()) == [".2027Q1.", "2027Q1"]
    assert len(list(temporary.iterdir())) == 1
    living.terminate()
    living.communicate(timeout=30)
    assert [path.name for path in target.parent.iterdir()] == ["2027Q1"]
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("deep", ["", "in a folder whose name is far longer than sockets may have/" * 2], ids=["", "in a long folder"])
def test_a_run_that_is_stopped_in_its_notebook_takes_the_kernel_with_it(deep, make_book, tmp_path):
    temporary = tmp_path / deep / "temporary"
    temporary.mkdir(parents=True)
    words = [sys.executable, "-m", "capplan.cli", "run", "start_here", str(make_book(usage=hourly())), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "TMPDIR": str(temporary)}
    )
    end = time.monotonic() + 90
    while not list(temporary.glob("capplan-kernel-*/kernel.json")) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 143, said
    assert said.splitlines()[-1].startswith("capplan: stopped by SIGTERM")
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.rglob("out/**/*.ipynb")) == []
    end = time.monotonic() + 15
    while (left := [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(temporary) in _read(path)]) and time.monotonic() < end:
        time.sleep(0.2)
    assert left == []


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_a_place_that_cannot_be_written_is_found_before_anything_is_computed(make_book, tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(ReportError, match=r"file/2027Q1 cannot be written.*Not a directory.*--out.*untouched"):
        check_room(tmp_path / "file" / "2027Q1")
    for question in ("plan", "run"):
        words = [question, *(["pricing"] if question == "run" else []), str(make_book(usage=hourly())), "--out", str(tmp_path / "file")]
        done = subprocess.run([sys.executable, "-m", "capplan.cli", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(f"capplan: {tmp_path / 'file'}")
        assert "internal error" not in done.stderr
        assert "..." not in done.stderr, "no step began"


def test_a_full_disk_is_one_message(make_book, tmp_path):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)); sys.argv[0] = 'capplan'; from capplan.cli import"
        " main; main()"
    )
    words = ["plan", str(make_book(usage=hourly())), "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "What was there before is untouched" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("injected", "said"),
    [
        ("horizon_quartes = 4", "horizon_quartes is not a parameter of this notebook; did you mean horizon_quarters"),
        ("demand_factor = 1.3", "demand_factor is an assumption that this notebook does not list: pass it within more"),
    ],
)
def test_plain_papermill_refuses_what_the_notebook_does_not_have(tmp_path, injected, said):
    name, _, value = injected.partition(" = ")
    words = [
        sys.executable,
        "-m",
        "papermill",
        str(ROOT / "notebooks" / "00_start_here.ipynb"),
        str(tmp_path / "out.ipynb"),
        "-p",
        name,
        value,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.slow
def test_plain_papermill_leaves_no_dead_widget(tmp_path, make_book):
    out = tmp_path / "out.ipynb"
    words = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / "00_start_here.ipynb"), str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "CAPPLAN_HEADLESS"}
    done = subprocess.run(
        [*words, "-p", "book", str(make_book(usage=hourly()))], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert "widget-view" not in out.read_text(encoding="utf-8")


def test_parameters_are_read_and_never_run():
    check_parameters(["", "seed: int = None", "# Parameters\nseed = __import__('os').abort()\n"])
    check_parameters(["x = 1", "y = 2"])


def notebook_of(place: Path, name: str, text: str) -> None:
    place.mkdir(exist_ok=True)
    (place / name).write_text(json.dumps({"cells": [text]}))


def test_a_readers_notebook_is_kept_and_an_old_one_is_renewed(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    notebook_of(ours, "1_a.ipynb", "first")
    notebook_of(ours, "2_b.ipynb", "first")
    assert lay_notebooks(ours, theirs) == [f"notebooks are in {theirs}"]
    assert sorted(path.name for path in theirs.iterdir()) == [LAID, "1_a.ipynb", "2_b.ipynb"]
    notebook_of(theirs, "2_b.ipynb", "the reader's own")
    assert lay_notebooks(ours, theirs) == [f"notebooks are in {theirs}"], "nothing new of ours: nothing to say"
    for name in ("1_a.ipynb", "2_b.ipynb"):
        notebook_of(ours, name, "second")
    said = lay_notebooks(ours, theirs)
    assert said[1] == "renewed, since they stood as capplan had laid them: 1_a.ipynb"
    assert "kept, with the present one of capplan beside it: 2_b.ipynb (ours: 2_b-" in said[2]
    assert "second" in (theirs / "1_a.ipynb").read_text()
    assert "the reader's own" in (theirs / "2_b.ipynb").read_text()
    beside = next(theirs.glob("2_b-*.ipynb"))
    assert beside.read_bytes() == (ours / "2_b.ipynb").read_bytes()
    beside.write_text("the reader works on it")
    assert lay_notebooks(ours, theirs)[1:] == said[2:]
    assert beside.read_text() == "the reader works on it"


def test_a_folder_of_before_is_not_taken_for_ours(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    notebook_of(ours, "1_a.ipynb", "second")
    notebook_of(theirs, "1_a.ipynb", "first, of an older capplan, or the reader's")
    assert "kept" in lay_notebooks(ours, theirs)[1]
    assert "first" in (theirs / "1_a.ipynb").read_text()


def test_root_is_told_how(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(CapplanError, match=r"capplan lab .* -- --allow-root"):
        open_lab(tmp_path, 8888)
    with pytest.raises(CapplanError, match="is not a folder"):
        open_lab(tmp_path / "nowhere", 8888)


@pytest.mark.slow
def test_the_lab_opens_with_arguments_of_its_own_and_ends_with_the_command(make_book, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    more = ["--allow-root", "--no-browser", "--IdentityProvider.token=t", "--ServerApp.base_url=/plans/", f"--ServerApp.port={port}"]
    book = make_book(usage=hourly(), commitments="commitment_id\nx\n")
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    process = subprocess.Popen(
        [sys.executable, "-m", "capplan.cli", "lab", str(book), "--", *more],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **own, "PYTHONPATH": str(ROOT)},
    )
    found = SimpleNamespace(status=0)
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None and found.status != 200:
        try:
            found = urllib.request.urlopen(f"http://127.0.0.1:{port}/plans/api/status?token=t", timeout=2)
        except OSError:
            time.sleep(0.2)
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/plans/lab?token=t", timeout=20).read().decode()
    assert re.search(r'"news": *\{"disabled": *true', page), "nobody is asked about news in the middle of a meeting"
    opened = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    spent = sum(sum(each.cpu_times()[:2]) for each in opened)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert found.status == 200, said
    assert spent < 5, "it opens within five seconds of a machine that does nothing else"
    assert (tmp_path / "capplan-notebooks" / "14_plan.ipynb").is_file()
    assert "stopped by SIGTERM" in said
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/plans/api/status?token=t", timeout=2)
