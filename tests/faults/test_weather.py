"""Hard weather: places, clocks, caches, locales and solvers that are not as they should be. A right answer, or one message and no zero."""

from __future__ import annotations

import csv
import errno
import json
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from scipy import sparse

from capplan import compiling, scratch
from capplan.answers import store
from capplan.book.book import load_book
from capplan.book.scenario import PricingAssumptions
from capplan.compiling import compiled, kept_in
from capplan.errors import ReportError, SolveError
from capplan.optimize import solver
from capplan.outputs.run import report
from capplan.outputs.run.folders import check_room, replaced_whole
from capplan.outputs.run.report import answer_question, write_report
from capplan.outputs.run.run_history import record_run
from tests.conftest import ROOT, hourly
from tests.questions.test_board import TABLES

pytestmark = pytest.mark.skipif(os.name != "posix", reason="places, locks and locales are those of POSIX")


@pytest.fixture
def folder(make_book):
    return make_book("steady", **TABLES)


def command(*words, code="", **environment):
    """A command in a process of its own, with these variables (None: without), after some lines of Python."""
    changed = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    start = f"import sys; sys.argv[0] = 'capplan'\n{code}\nfrom capplan.cli import main; main()"
    return subprocess.run([sys.executable, "-c", start, *map(str, words)], capture_output=True, check=False, cwd=ROOT, env=changed)


def one_message(done, said):
    """The run failed, and its last line says why, once, without a trace of the code."""
    text = done.stderr.decode(errors="replace")
    assert done.returncode == 1, text
    last = [line for line in text.splitlines() if line.startswith("capplan: ")][-1]
    assert said in last, text
    assert "internal error" not in text
    assert "Traceback" not in text


# ---------------------------------------------------------------- places


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ELOOP])
@pytest.mark.parametrize("moment", ["before", "at the end"])
def test_a_place_that_refuses_is_one_message_and_the_old_report_stays(tmp_path, monkeypatch, number, moment):
    target = tmp_path / "reports" / "2027Q1"
    target.mkdir(parents=True)
    (target / "old").write_text("old")

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    if moment == "before":
        monkeypatch.setattr("capplan.outputs.run.folders.tempfile.TemporaryFile", refuse)
        with pytest.raises(ReportError, match=r"cannot be written.*--out.*untouched"):
            check_room(target)
    else:
        monkeypatch.setattr("capplan.outputs.run.folders.exchanged", lambda *_: False)
        with (
            monkeypatch.context() as patch,
            pytest.raises(ReportError, match=r"cannot be written.*--out.*untouched"),
            replaced_whole(target),
        ):
            patch.setattr("pathlib.Path.rename", refuse)
    assert [path.name for path in target.iterdir()] == ["old"]
    assert [path.name for path in target.parent.iterdir()] == ["2027Q1"]


def test_what_a_killed_run_had_moved_aside_is_there_before_anything_is_read(tmp_path):
    (tmp_path / ".2027Q1.before").mkdir()
    check_room(tmp_path / "2027Q1")
    assert [path.name for path in tmp_path.iterdir()] == ["2027Q1"]


def test_a_target_that_is_a_link_is_replaced_where_it_leads_to(tmp_path):
    place, target = tmp_path / "elsewhere" / "plan", tmp_path / "reports" / "2027Q1"
    for folder in (place, target.parent):
        folder.mkdir(parents=True)
    target.symlink_to(place)
    with replaced_whole(target) as draft:
        (draft / "new").write_text("new")
    assert (place / "new").read_text() == (target / "new").read_text() == "new"
    assert [path.name for path in place.parent.iterdir()] == ["plan"]
    assert [path.name for path in target.parent.iterdir()] == ["2027Q1"]


def test_a_line_of_history_that_has_no_room_is_not_there_and_one_that_was_cut_off_ends(tmp_path):
    record_run(tmp_path, {"event": "success"})
    file = tmp_path / "history.csv"
    before = file.read_bytes()
    file.write_bytes(before + b"2026-11-29T20:15")
    record_run(tmp_path, {"event": "failure"})
    lines = file.read_text().splitlines()
    assert [line.count(",") for line in lines] == [8, 8, 0, 8]
    code = "import resource, sys; from pathlib import Path; from capplan.outputs.run.run_history import record_run; import signal;"
    code += (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); most = int(sys.argv[2]); resource.setrlimit(resource.RLIMIT_FSIZE, (most, most));"
    )
    code += "record_run(Path(sys.argv[1]), {'event': 'success'})"
    whole = file.read_bytes()
    words = [sys.executable, "-c", code, str(tmp_path), str(len(whole) + 10)]
    assert b"OSError" in subprocess.run(words, cwd=ROOT, capture_output=True, check=False).stderr
    assert file.read_bytes() == whole


@pytest.mark.parametrize("place", ["/proc/reports", "/sys/reports", "/dev/null/reports"])
def test_a_file_system_that_keeps_no_folders_is_one_message(folder, place):
    one_message(command("plan", folder, "--out", place), "choose another place with --out")


HISTORY = "steady/history.csv"


@pytest.fixture
def mounted(tmp_path):
    """Mount a small file system of its own in a folder, or skip where nobody may."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str):
        try:
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, text=True, check=False)
        except OSError as error:
            pytest.skip(f"this machine has no mount: {error}")
        if done.returncode:
            pytest.skip(f"this machine allows no mount: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.parametrize("words", [("plan",), ("run", "start_here")], ids=" ".join)
def test_a_mount_that_is_read_only_is_one_message_and_the_old_report_stays(folder, mounted, words):
    place = mounted("size=1m")
    (place / "steady" / "2027Q1").mkdir(parents=True)
    (place / "steady" / "2027Q1" / "old").write_text("old")
    mounted("remount,ro")
    done = command(*words, folder, "--out", place)
    one_message(done, "Read-only file system")
    assert "..." not in done.stderr.decode(), "no step began"
    assert [str(path.relative_to(place)) for path in sorted(place.rglob("*"))] == ["steady", "steady/2027Q1", "steady/2027Q1/old"]


def test_a_mount_that_is_full_is_one_message_and_the_old_report_stays(folder, mounted):
    place = mounted("size=64k")
    (place / "steady" / "2027Q1").mkdir(parents=True)
    (place / "steady" / "2027Q1" / "old").write_text("old")
    one_message(command("plan", folder, "--quick", "--out", place), "No space left on device")
    assert [str(path.relative_to(place)) for path in sorted(place.rglob("*")) if path.is_file()] == ["steady/2027Q1/old", HISTORY]
    said = list(csv.DictReader((place / HISTORY).read_text().splitlines()))
    assert [row["event"] for row in said] == ["failure"]
    assert None not in said[0]


# ---------------------------------------------------------------- two at once


RUN = """
import sys
from pathlib import Path
from capplan.outputs.run.folders import replaced_whole
from capplan.outputs.run.run_history import record_run
for number in range(60):
    with replaced_whole(Path(sys.argv[1])) as draft:
        for name in "abc":
            (draft / name).write_text(sys.argv[2] * 2000)
    record_run(Path(sys.argv[1]).parent, {"event": "success"})
"""


def test_runs_at_once_into_one_folder_leave_one_whole_report_and_a_line_each(tmp_path):
    target = tmp_path / "2027Q1"
    runs = [subprocess.Popen([sys.executable, "-c", RUN, str(target), name], stderr=subprocess.PIPE, text=True, cwd=ROOT) for name in "xyz"]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], said
    assert len({(target / name).read_text() for name in "abc"}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2027Q1", "history.csv"]
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert len(lines) == 181
    assert sum(line.startswith("finished_at") for line in lines) == 1


@pytest.mark.slow
def test_two_plans_at_once_into_one_folder_are_both_finished_and_one_of_them_stays(folder, tmp_path):
    def plan(demand: float) -> subprocess.CompletedProcess[bytes]:
        return command("plan", folder, "--quick", "-p", f"demand_factor={demand}", "--out", tmp_path / "out")

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(plan, (1.0, 1.5)))
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    kept = tmp_path / "out" / "steady" / "2027Q1"
    record = json.loads((kept / "run.json").read_text())
    headlines = {factor: each.stdout.decode().splitlines()[0] for factor, each in zip((1.0, 1.5), done, strict=True)}
    assert record["headline"] == headlines[record["parameters"]["demand_factor"]]
    assert {path.name for path in kept.parent.iterdir()} == {"2027Q1", "latest", "history.csv"}
    assert [line.split(",")[1] for line in (kept.parent / "history.csv").read_text().splitlines()[1:]].count("failure") == 0


# ---------------------------------------------------------------- a book that is edited


def edit(folder):
    """Say that twice the work is to be done."""
    file = folder / "demand_scenarios.csv"
    file.write_text(file.read_text().replace("17520", "35040"))


@pytest.mark.slow
def test_a_book_edited_during_the_run_is_planned_as_it_was_read(folder, tmp_path, monkeypatch, cold):
    def tables(place):
        return {path.name: path.read_bytes() for path in sorted((place / "tables").iterdir())}

    first = write_report(folder, {}, tmp_path / "one", lambda _: None, "quick")
    cold()
    planned = report.quarterly_plan

    def meanwhile(*words):
        edit(folder)
        return planned(*words)

    monkeypatch.setattr(report, "quarterly_plan", meanwhile)
    digests = load_book(folder).digests
    again = write_report(folder, {}, tmp_path / "two", lambda _: None, "quick")
    assert load_book(folder).digests != digests
    assert json.loads((again.folder / "run.json").read_text())["digests"] == dict(digests)
    assert tables(first.folder) == tables(again.folder)


def contents(folder):
    """The bytes of every file of a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_notebook_never_shows_another_book_than_its_tables(make_book, tmp_path, monkeypatch):
    folder = make_book(usage=hourly())
    before = answer_question("start_here", folder, {}, tmp_path / "out", lambda _: None)
    kept = contents(tmp_path / "out")

    def run(notebook, draft, **_):
        (folder / "usage.csv").write_text(hourly(days=4))

    monkeypatch.setattr("papermill.execute_notebook", run)
    with pytest.raises(ReportError, match=r"was changed while it was read \(usage\.csv\): run it again"):
        answer_question("start_here", folder, {}, tmp_path / "out", lambda _: None)
    assert {before.path.name, "answer.csv"} <= {path.name for path in kept}
    assert contents(tmp_path / "out") == kept


def test_a_notebook_and_its_tables_change_in_one_step(make_book, tmp_path, monkeypatch):
    folder, seen = make_book(usage=hourly()), []

    def run(notebook, draft, **_):
        seen.append(contents(tmp_path / "out"))
        Path(draft).write_text(f"run {len(seen)}")

    def answered():
        return answer_question("start_here", folder, {}, tmp_path / "out", lambda _: None).path

    monkeypatch.setattr("papermill.execute_notebook", run)
    first = contents(answered().parent)
    (folder / "usage.csv").write_text(hourly(days=4))
    path = answered()
    during = {name: data for name, data in seen[1].items() if not any(part.startswith(".") for part in name.parts)}
    assert during == {(path.parent / name).relative_to(tmp_path / "out"): data for name, data in first.items()}
    second = contents(path.parent)
    assert second[Path("start_here.ipynb")] == b"run 2"
    assert second[Path("answer.csv")] != first[Path("answer.csv")]

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("papermill.execute_notebook", full)
    with pytest.raises(ReportError, match="No space left"):
        answered()
    assert contents(path.parent) == second
    assert [found.name for found in path.parent.parent.iterdir()] == ["start_here"]


def test_a_book_edited_while_it_is_loaded_is_read_again_by_hand(make_book, tmp_path, monkeypatch):
    folder, load = make_book(usage=hourly()), report.load_book

    def meanwhile(path):
        found = load(path)
        (folder / "usage.csv").write_text(hourly(days=4))
        return found

    monkeypatch.setattr(report, "load_book", meanwhile)
    with pytest.raises(ReportError, match=r"usage\.csv"):
        write_report(folder, {}, tmp_path / "out", lambda _: None)
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- caches


def ways_to_spoil(data: bytes) -> dict[str, bytes]:
    return {"empty": b"", "cut off": data[: len(data) // 2], "overwritten": b"\x00" * len(data), "text": b"<html>not found</html>"}


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("way", ways_to_spoil(b""))
def test_compiled_code_that_cannot_be_loaded_is_made_anew(tmp_path, monkeypatch, kind, way):
    from numba import types

    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text("one = 1\n")
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(compiling, "kept_in", kept_in.__wrapped__)

    def double(value):
        return 2.0 * value

    def made():
        return compiled(types.float64, source=str(package / "module.py"), entry=True)(double)

    assert made()(2.0) == 4.0
    files = list((tmp_path / "kept").rglob(f"*.{kind}"))
    assert files
    for file in files:
        file.write_bytes(ways_to_spoil(file.read_bytes())[way])
    assert made()(2.0) == 4.0
    # what is kept now is whole again
    assert all(file.stat().st_size > 100 for file in (tmp_path / "kept").rglob("*.nb?"))
    assert made()(3.0) == 6.0


def test_code_that_does_not_compile_still_says_so(tmp_path):
    from numba import types
    from numba.core.errors import NumbaError

    def wrong(value):
        return value.nothing_like_it

    with pytest.raises(NumbaError):
        compiled(types.float64, source=str(tmp_path / "module.py"), entry=True)(wrong)


@pytest.mark.parametrize("way", ways_to_spoil(b""))
def test_an_answer_that_cannot_be_read_back_is_computed_anew(make_book, tmp_path, monkeypatch, cold, way):
    book, place = load_book(make_book(usage=hourly())), tmp_path / "answers"
    place.mkdir(mode=0o700)
    monkeypatch.setenv(store.SHARED, str(place))

    def ask() -> dict[str, int]:
        cold_memory()
        return store.remembered("test", book, ("usage",), PricingAssumptions(), lambda: {"answer": 42})

    cold_memory = store.forget
    assert ask() == {"answer": 42}
    file = next(place.iterdir())
    file.write_bytes(ways_to_spoil(file.read_bytes())[way])
    assert ask() == {"answer": 42}
    assert pickle.loads(file.read_bytes()) == {"answer": 42}


# ---------------------------------------------------------------- no home, no locale, a clock that goes back


@pytest.mark.slow
def test_a_notebook_runs_without_a_home(make_book, tmp_path):
    homes = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR")
    environment = dict.fromkeys(homes[1:]) | {"HOME": "/dev/null/nobody", "CAPPLAN_CACHE": None}
    done = command("run", "start_here", make_book(usage=hourly()), "--out", tmp_path / "out", **environment)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").rglob("start_here.ipynb"))


LOCALES = (
    {"LC_ALL": "C"},
    {"LC_ALL": None, "LANG": None, "LC_CTYPE": None},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "nowhere.UTF-8"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
)


@pytest.mark.parametrize("environment", LOCALES, ids=str)
def test_folders_of_other_letters_need_no_locale(tmp_path, environment):
    place = tmp_path / "Zażółć 資源 €"
    done = command("new", place, **environment)
    assert done.returncode == 0, done.stderr
    assert (place / "book.yaml").is_file()
    assert done.stdout.startswith(b"Made the empty book ")


@pytest.mark.slow
@pytest.mark.parametrize("environment", LOCALES[2:5:2], ids=str)
def test_books_of_other_letters_need_no_locale(folder, environment):
    with (folder / "book.yaml").open("a", encoding="utf-8") as file:
        file.write("name: Zażółć 資源 €\n")
    done = command("check", folder, "--json", **environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["headline"].startswith("Zażółć 資源 €")


def test_a_clock_that_goes_back_neither_keeps_litter_nor_loses_what_is_held(tmp_path, monkeypatch):
    left = tmp_path / "capplan-test-left"
    left.mkdir()
    tomorrow = time.time() + 86_400
    os.utime(left, (tomorrow, tomorrow))
    with scratch.scratch("capplan-test-", tmp_path) as held:
        os.utime(held, (tomorrow, tomorrow))
        assert not left.exists()
        assert scratch.sweep("capplan-test-", tmp_path) == []
        assert held.exists()
    clock = iter(range(10**6, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    target = tmp_path / "2027Q1"
    for text in ("one", "two"):
        with replaced_whole(target) as draft:
            (draft / "a").write_text(text)
        record_run(tmp_path, {"event": "success"})
    assert (target / "a").read_text() == "two"
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 3


def test_of_two_who_want_the_same_folder_one_waits_for_the_other(tmp_path):
    through = Event()

    def second():
        with scratch.in_turn(tmp_path):
            through.set()

    with scratch.in_turn(tmp_path):
        waiting = Thread(target=second)
        waiting.start()
        assert not through.wait(0.2)
    waiting.join(60)
    assert through.is_set()


# ---------------------------------------------------------------- the solver


def program() -> solver.Arrays:
    return solver.Arrays(
        c=np.ones(1),
        A=sparse.csr_matrix([[1.0]]),
        b=np.ones(1),
        sense=np.array([">"]),
        lower=np.zeros(1),
        upper=np.ones(1) * 2,
        integer=np.array([False]),
    )


@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError(), ValueError("nan"), OSError("gone")], ids=repr)
def test_a_solver_that_raises_is_an_error_of_ours(monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr(solver._silent_highs(), "run", fail)
    with pytest.raises(SolveError, match=f"the solver failed within its run.*{type(error).__name__}"):
        solver.solve_arrays(program())


def test_a_solver_that_is_missing_is_an_error_of_ours(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolveError, match=r"HiGHS cannot be loaded.*pip install highspy"):
        solver.solve_arrays(program())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.modules['highspy'] = None", "pip install highspy"),
        ("import highspy\ndef fail(_): raise RuntimeError('broken')\nhighspy.Highs.run = fail", "the solver failed within its run"),
    ],
    ids=["missing", "raising"],
)
def test_a_plan_without_a_solver_is_one_message_and_leaves_nothing(folder, tmp_path, code, said):
    one_message(command("plan", folder, "--quick", "--out", tmp_path / "out", code=code, CAPPLAN_ANSWERS=None), said)
    assert not (tmp_path / "out").exists()
