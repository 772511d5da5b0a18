"""The recipes for schedulers, held against the schedulers themselves where they are installed, and against the command line everywhere."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml

from capplan.cli import main
from capplan.errors import ScenarioError
from capplan.outputs.lab.given import check_parameters
from capplan.outputs.run import scheduled
from tests.conftest import ROOT, hourly
from tests.outputs.test_scheduled import plan_of

RECIPES = ROOT / "schedule"
#: A cell of parameters as our notebooks begin.
LISTED = "book: str = None\nseed: int = None\n"


def text_of(name: str) -> str:
    return (RECIPES / name).read_text(encoding="utf-8")


def planned(monkeypatch, words):
    """Return what the command line makes of a recipe's words."""
    given = {}

    def plan(book, values, out, depth, *, told="", say=print):
        given.update(book=str(book), values=values, out=out, told=told)
        found = SimpleNamespace(plan=plan_of("x"), scenario={}, tables={}, warnings=(), changed=False)
        return found, out

    monkeypatch.setattr(scheduled, "scheduled_plan", plan)
    monkeypatch.setattr(sys, "argv", ["capplan", *words[1:]])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    return given


def test_cron_and_systemd_and_actions_call_what_there_is(monkeypatch):
    line = next(line for line in text_of("crontab").splitlines() if line[:1].isdigit())
    fields = line.split(maxsplit=5)
    assert all(re.fullmatch(r"[\d*/,-]+", field) for field in fields[:5])
    assert "%" not in fields[5], "cron ends a command at a percent sign"
    subprocess.run(["sh", "-n", "-c", fields[5]], check=True)
    assert planned(monkeypatch, shlex.split(fields[5].split("&& ")[1]))["told"] == "./tell-the-team"
    start = next(line for line in text_of("capplan-plan.service").splitlines() if line.startswith("ExecStart="))
    assert planned(monkeypatch, shlex.split(start.removeprefix("ExecStart=")))["book"] == "/srv/plans/book"
    steps = yaml.safe_load(text_of("github-actions.yml"))["jobs"]["plan"]["steps"]
    run = next(step["run"] for step in steps if step.get("name") == "Plan")
    assert planned(monkeypatch, shlex.split(run.replace("$WEBHOOK", "https://example.org/hook")))["told"] == "https://example.org/hook"


def test_github_actions_has_the_shape_of_a_workflow():
    loaded = yaml.safe_load(text_of("github-actions.yml"))
    # YAML 1.1 reads the key `on` as a truth
    assert {"name", True, "permissions", "concurrency", "jobs"} == set(loaded)
    assert loaded[True]["schedule"] == [{"cron": "15 6 * * 1"}]
    for step in loaded["jobs"]["plan"]["steps"]:
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
        else:
            subprocess.run(["sh", "-n", "-c", step["run"]], check=True)


def test_systemd_takes_the_units(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not on this machine")
    for name in ("capplan-plan.service", "capplan-plan.timer"):
        # the program must be there for systemd to agree
        (tmp_path / name).write_text(text_of(name).replace("/opt/capplan/.venv/bin/capplan", str(Path(sys.executable).parent / "capplan")))
    words = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "capplan-plan.timer"), str(tmp_path / "capplan-plan.service")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()[:200]}")
    assert [line for line in done.stderr.splitlines() if "capplan" in line] == []
    assert done.returncode == 0, done.stderr
    moment = next(line.partition("=")[2] for line in text_of("capplan-plan.timer").splitlines() if line.startswith("OnCalendar="))
    subprocess.run(["systemd-analyze", "calendar", moment], check=True, capture_output=True)


def parameters_of(name="14_plan"):
    cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
    listed = next(cell.source for cell in cells if "parameters" in cell.metadata.get("tags", []))
    return [line.partition(":")[0] for line in listed.splitlines()]


def test_recipes_give_parameters_that_the_notebook_has():
    job = json.loads(text_of("jupyter-scheduler.json"))
    words = shlex.split(text_of("papermill.sh").splitlines()[-1])
    given = [words[place + 1] for place, word in enumerate(words) if word == "-p"]
    dag = re.findall(r"parameters=\{(.*)\},", text_of("airflow_dag.py"))[0]
    given += [*job["parameters"], *re.findall(r'"(\w+)": (?=["\d{])', dag.replace('{"demand_factor": 1.1}', "{}"))]
    assert given
    assert set(given) <= set(parameters_of())
    subprocess.run(["sh", "-n", str(RECIPES / "papermill.sh")], check=True)


def test_a_scheduler_that_marks_nothing_is_found_out_where_nobody_is_there(monkeypatch):
    monkeypatch.setenv("CAPPLAN_HEADLESS", "1")
    check_parameters(["", LISTED, "seed = 3\nbook = 'x'", "import capplan"])
    with pytest.raises(ScenarioError, match="sede is not a parameter of this notebook; did you mean seed"):
        check_parameters(["", LISTED, "sede = 3", "import capplan"])
    check_parameters(["", LISTED, "import capplan\nsede = 3"])
    monkeypatch.delenv("CAPPLAN_HEADLESS")
    monkeypatch.setenv("SERVER_SOFTWARE", "voila/0")
    check_parameters(["", LISTED, "sede = 3", "import capplan"])


@pytest.mark.slow
@pytest.mark.parametrize(("given", "code"), [({"horizon_quarters": 3}, 0), ({"horizon_quartes": 3}, 1)])
def test_jupyter_scheduler_runs_a_notebook_and_refuses_a_misspelt_parameter(tmp_path, make_book, given, code):
    if importlib.util.find_spec("jupyter_scheduler") is None:
        pytest.skip("jupyter-scheduler is not installed")
    from jupyter_scheduler.models import CreateJob
    from jupyter_scheduler.parameterize import add_parameters

    job = json.loads(text_of("jupyter-scheduler.json"))
    made = CreateJob(**{name: value for name, value in job.items() if name in CreateJob.__fields__})
    assert made.input_uri == "14_plan.ipynb"
    book = nbformat.read(ROOT / "notebooks" / "01_demand.ipynb", as_version=4)
    book.cells = book.cells[:3]
    whole = add_parameters(book, {"book": repr(str(make_book(usage=hourly()))), **given})
    nbformat.write(whole, tmp_path / "demand.ipynb")
    words = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", "--stdout", str(tmp_path / "demand.ipynb")]
    environment = {name: value for name, value in os.environ.items() if name != "CAPPLAN_HEADLESS"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, done.stderr
    assert code == 0 or "horizon_quartes is not a parameter of this notebook" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("given", "code"), [({}, 0), ({"horizon_quartes": 3}, 1)])
def test_airflow_takes_the_dag_and_its_operator_fails_on_a_misspelt_parameter(tmp_path, make_book, given, code):
    if importlib.util.find_spec("airflow") is None or importlib.util.find_spec("airflow.providers.papermill") is None:
        pytest.skip("apache-airflow-providers-papermill is not installed")
    text = (
        "import runpy, sys\n"
        "dag = runpy.run_path(sys.argv[1])['dag']\n"
        "assert dag.task_ids == ['plan'] and dag.get_task('plan').parameters['risk_weight'] == 0.3\n"
        "from airflow.providers.papermill.operators.papermill import PapermillOperator\n"
        "task = PapermillOperator(task_id='x', input_nb=sys.argv[2], output_nb=sys.argv[3], parameters=eval(sys.argv[4]))\n"
        "task.execute({})\n"
    )
    given = {"book": str(make_book(usage=hourly())), **given}
    words = [sys.executable, "-c", text, RECIPES / "airflow_dag.py", ROOT / "notebooks" / "00_start_here.ipynb", tmp_path / "out.ipynb"]
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([*map(str, words), repr(given)], capture_output=True, text=True, check=False, env=environment)
    assert bool(done.returncode) == bool(code), done.stderr[-2000:]
    assert code == 0 or "horizon_quartes is not a parameter of this notebook" in done.stderr
