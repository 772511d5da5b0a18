"""The command line: thin, loud on failure, machine-readable when asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

from capplan.cli import main
from capplan.cli.shared import MOST_NOTES, brief, records_of
from capplan.notes import ToDo
from tests.book.test_flips import BOOK, STATED
from tests.conftest import CONTRACTS, SKUS, SOURCES, hourly
from tests.outputs.test_report import OFFERS


@pytest.fixture
def capplan(monkeypatch, capsys):
    """Run the command line in this process: capplan("check", book) -> returncode, stdout, stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["capplan", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        shown = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=shown.out, stderr=shown.err)

    return run


def test_json_holds_every_number_to_its_last_digit():
    moments = pd.to_datetime(["2027-01-01", None])
    frame = pd.DataFrame({"usd": [141300.12345678912, float("inf")], "n": [1, 2], "at": moments, "of": ["a", None], "firm": [True, False]})
    shown = json.loads(json.dumps(records_of(frame)))
    assert shown[0] == {"usd": 141300.12345678912, "n": 1, "at": "2027-01-01T00:00:00.000", "of": "a", "firm": True}
    assert shown[1] == {"usd": None, "n": 2, "at": None, "of": None, "firm": False}


def test_the_installed_command_works():
    done = subprocess.run([sys.executable, "-m", "capplan.cli", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for command in ("plan", "run", "check", "new", "ingest", "lab"):
        assert command in done.stdout


def test_check_says_so(capplan, make_book):
    done = capplan("check", make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    assert done.returncode == 0
    assert done.stdout == "tiny: its 4 tables are in order, and a plan can start (commitments, skus, sources, usage).\n"
    assert "note: The book has no workloads table" in done.stderr


def test_a_plan_prints_its_headline_verdicts_and_what_is_to_be_done(capsys):
    notes = ["a remark", *(ToDo(f"thing {n}") for n in range(MOST_NOTES + 2)), "another remark"]
    brief("Sign 1 contract.", ["  lease: Sign: it saves."], "reports/x/plan.html", notes)
    shown = capsys.readouterr()
    assert shown.out == "Sign 1 contract.\n  lease: Sign: it saves.\nReport: reports/x/plan.html\n"
    said = shown.err.splitlines()
    assert said[:-1] == [f"to do: thing {n}" for n in range(MOST_NOTES)]
    assert said[-1] == "4 more notes stand on the page and in run.json."
    brief("Sign 1 contract.", [], "plan.html", ["a remark"])
    assert capsys.readouterr().err == "1 more note stands on the page and in run.json.\n"


def test_what_needs_no_table_waits_for_no_library_of_tables():
    """The version, completion of the shell, and what runs before JupyterLab starts."""
    text = "import sys, capplan.cli, capplan.outputs.run.open_lab, capplan.outputs.run.stopping; print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout == "False\n"


def test_json_answer(capplan, make_book):
    done = capplan("check", make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES), "-p", "risk_weight=0.4", "--json")
    found = json.loads(done.stdout)
    assert set(found) == {"headline", "scenario", "tables", "warnings"}
    assert found["scenario"]["risk_weight"] == 0.4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "risk_wieght=1"), "risk_wieght is not an assumption; did you mean risk_weight?"),
        (("-p", "risk_weight=2"), "risk_weight = 2: must be at most 1"),
        (("-p", "risk_weight"), "write it as name=value"),
        (("-p", "first_quarter=2027Q5"), "first_quarter = '2027Q5': must be a quarter such as 2027Q1, of Q1 to Q4"),
        (("-p", "currency=usd"), "currency = 'usd': must be three capital letters such as USD"),
        (("-p", "providers=[a"), "the value cannot be read"),
        (("--scenario", "nowhere.yaml"), "cannot be taken: nowhere.yaml; it cannot be read: No such file"),
    ],
)
def test_wrong_parameters(capplan, make_book, words, said):
    done = capplan("check", make_book(usage=hourly()), *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_faults_are_listed_without_a_traceback(capplan, make_book):
    done = capplan("plan", make_book(usage="time,workload,quantity\n2026-01-01T00:00:00,chat,-1\n"))
    assert done.returncode == 1
    assert "1 fault in the book:" in done.stderr
    assert "usage.csv, row 2, column quantity" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_folder_and_unknown_question(capplan, tmp_path, make_book):
    assert "is not a folder" in capplan("plan", tmp_path / "nowhere").stderr
    done = capplan("run", "pricng", make_book(usage=hourly()), "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "did you mean pricing" in done.stderr
    assert not (tmp_path / "out").exists()


def test_version_and_questions_are_listed_whole(capplan, tmp_path, make_book):
    from capplan import __version__
    from capplan.outputs.views.all_questions import VIEWS

    assert capplan("--version").stdout == f"capplan {__version__}\n"
    listed = capplan("questions").stdout
    assert {line.split()[0] for line in listed.splitlines()} == set(VIEWS)
    assert "What do we sign this quarter?" in listed
    refused = capplan("run", "zzz", make_book(usage=hourly()), "--out", tmp_path / "out").stderr
    assert all(name in refused for name in VIEWS)
    assert "..." not in refused


def test_quick_and_thorough_exclude_each_other(capplan, make_book):
    done = capplan("plan", make_book(), "--quick", "--thorough")
    assert done.returncode != 0
    assert "--quick and --thorough were both given" in done.stderr


def test_scenario_file_and_parameter(capplan, make_book, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("risk_weight: 0.9\nseed: 3\n")
    found = json.loads(
        capplan(
            "check",
            make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES),
            "--scenario",
            file,
            "-p",
            "seed=4",
            "--json",
        ).stdout
    )
    assert (found["scenario"]["risk_weight"], found["scenario"]["seed"]) == (0.9, 4)


def test_new_and_ingest_name_what_is_wrong(capplan, tmp_path):
    assert "there is no example book" in capplan("new", tmp_path / "x", "--from", "nothing").stderr
    assert capplan("new", tmp_path / "x").returncode == 0
    done = capplan("ingest", "requets", tmp_path / "log.csv", "--into", tmp_path / "x")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


TRACE = {
    "usage": hourly(10),
    "workloads": "workload,stage,unit,host\nchat,serving,requests,self\n",
    "speeds": "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,measured\n",
    "nodes": "node,accelerator,accelerator_count,nodes\nn,H100,8,3\n",
    "book": "as_of: 2026-02-01\nfirst_quarter: 2026Q2\nhorizon_quarters: 1\n",
}


@pytest.mark.parametrize(
    ("question", "job", "message"),
    [
        ("cluster", "j1,2026-01-02 01:00,60,25", "j1 needs 25 accelerators of one kind and the cluster has 24"),
        ("split", "j1,2026-01-02 01:00,60,24", "j1 needs 24 accelerators, and of 24 only 16 are training's own"),
        ("split", "j1,2026-01-02 01:00,-1,1", "found '-1.0'; must be a number at least 0"),
    ],
)
def test_a_job_that_cannot_be_stops_the_run_with_one_message(capplan, make_book, tmp_path, question, job, message):
    book = make_book(jobs=f"job_id,submit,duration_seconds,accelerators\nj0,2026-01-02,3600,8\n{job}\n", **TRACE)
    done = capplan("run", question, book, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").rglob("*.ipynb"))


def test_a_figure_is_traced_in_a_report_only(capplan, tmp_path):
    done = capplan("trace", tmp_path, "plan.xlsx!P&L!D12")
    assert done.returncode == 1
    assert "is no report that can be traced: it has no run.json" in done.stderr


def test_a_placement_from_anywhere_is_checked(capplan, make_book, tmp_path):
    tasks = "task_id,accelerators,duration_hours\nread,1,2\ntrain,8,4\n"
    book = make_book(tasks=tasks, task_edges="from_task,to_task,data_gb\nread,train,0\n", **TRACE)
    file = tmp_path / "placement.csv"
    file.write_text("task_id,nodes,start\nread,n-0,2026-02-01T00:00:00\ntrain,n-1,2026-02-01T02:00:00\n", encoding="utf-8")
    found = json.loads(capplan("check-plan", book, file, "--json").stdout)
    assert found["headline"].startswith("The placement keeps all constraints.")
    assert {row["measure"]: row["difference"] for row in found["tables"]["costs"]}["makespan_hours"] == 0.0
    file.write_text("task_id,nodes,start\nread,n-0,2026-02-01T00:00:00\ntrain,n-1,2026-02-01T01:00:00\n", encoding="utf-8")
    done = capplan("check-plan", book, file, "--broken-code", "9")
    assert done.returncode == 9
    assert "breaks: train begins 1 hours before it can after read" in done.stdout
    file.write_text("task_id,nodes,start\nraed,n,2026-02-01T00:00:00\ntrain,n-1,noon\n", encoding="utf-8")
    said = capplan("check-plan", book, file).stderr
    assert all(words in said for words in ("3 faults in the proposed plan", "Did you mean read?", "it is no node", "found 'noon'"))


@pytest.fixture
def stated(make_book):
    """A book of one sure demand: the one-year offer is signed once."""
    speeds = "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,stated\n"
    return make_book(demand_scenarios=STATED, skus=SKUS, sources=SOURCES, offers=OFFERS, speeds=speeds, book=BOOK)


def test_a_plan_from_anywhere_is_checked(capplan, stated, tmp_path):
    file = tmp_path / "plan.csv"
    file.write_text("offer_id,lots,quarter,note\none,1,2027Q1,=1+1\n", encoding="utf-8")
    found = json.loads(capplan("check-plan", stated, file, "--json").stdout)
    assert set(found["tables"]) == {"rows", "broken", "costs", "lots"}
    assert found["headline"].startswith("The proposal of 1 row keeps all constraints. It is the proven plan")
    assert {row["difference_usd"] for row in found["tables"]["costs"]} == {0.0}
    file.write_text("offer_id,lots,quarter\none,3,2027Q1\none,1,2028Q4\n", encoding="utf-8")
    done = capplan("check-plan", stated, file, "--broken-code", "9")
    assert done.returncode == 9
    assert "breaks: one from 2028Q4: it begins after the planned quarters, 2027Q1 to 2027Q4" in done.stdout
    assert "more than the proven plan" in done.stdout
    file.write_text("offer_id,lots,quarter\nonne,3,2027Q1\n,1,2028Q4\n", encoding="utf-8")
    done = capplan("check-plan", stated, file)
    assert done.returncode == 1
    assert "2 faults in the proposed plan" in done.stderr
    assert "Traceback" not in done.stderr
    assert capplan("check-plan", stated, tmp_path / "nowhere.csv").returncode == 1


def test_a_plan_explains_itself(capplan, stated):
    found = json.loads(capplan("explain", stated, "why-not", "one", "--json").stdout)
    assert found["headline"].startswith("The plan takes one from 2027Q1: 8 accelerators")
    assert found["tables"]["figures"][2]["figure"] == "purchases:one 2027Q1:accelerators"
    done = capplan("explain", stated, "what-binds")
    assert done.stdout == "No limit holds the plan back: one more unit of none of them would save anything.\n"
    assert "did you mean one" in capplan("explain", stated, "why-not", "onne").stderr
    assert "why-not needs a name" in capplan("explain", stated, "why-not").stderr
    assert "what-binds takes no name" in capplan("explain", stated, "what-binds", "one").stderr
    assert "why needs a name" in capplan("explain", stated, "why").stderr
    assert capplan("explain", stated, "whence").returncode == 2


def test_a_shell_completes_commands():
    environment = {**os.environ, "_CAPPLAN_COMPLETE": "complete_bash", "COMP_WORDS": "capplan que", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'capplan'; from capplan.cli import app; app(prog_name='capplan')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["questions"]
