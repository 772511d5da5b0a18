"""Work spread over cores or a Dask cluster: same answers, in order, and plain words when the cluster is not there."""

import contextlib
import os
import socket
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from capplan import workers as working
from capplan.answers.plan import purchases_of
from capplan.book.book import load_book
from capplan.book.scenario import ClusterAssumptions, DemandAssumptions, Scenario
from capplan.cli import app
from capplan.errors import CapplanError, ScenarioError
from capplan.optimize import evaluation, two_stage
from capplan.outputs.views.all_questions import show_demand, show_plan
from capplan.questions.cluster import capacity_curve
from capplan.questions.demand import fitting, forecast_demand, forecast_series
from capplan.workers import spread, spread_as_done, workers
from tests.conftest import hourly
from tests.questions.test_board import TABLES


def square(number: int) -> int:
    return number * number


def die(_: int) -> None:
    os._exit(9)


@pytest.mark.parametrize("ask", [spread, lambda work, pieces: list(spread_as_done(work, pieces))], ids=["in order", "as done"])
def test_a_worker_that_dies_is_one_message(ask):
    with pytest.raises(CapplanError, match="a worker process ended before its work was done"), workers(None, 2):
        ask(die, range(4))


def test_this_process_and_this_machine_keep_the_order():
    for cores in (1, 2):
        with workers(None, cores):
            assert spread(square, range(20)) == [n * n for n in range(20)]


@pytest.fixture(scope="module")
def address():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def test_a_dask_cluster_by_address(address):
    with workers(address):
        assert spread(square, range(20)) == [n * n for n in range(20)]


@pytest.mark.slow
def test_a_plan_whose_recourse_the_workers_hold_is_the_plan_made_here(scheduler, make_book, monkeypatch, cold):
    book = load_book(make_book("steady", **TABLES))
    made = {}
    for name in (None, scheduler[1]):
        cold()
        with monkeypatch.context() as there:
            there.setattr(two_stage, "EXTENSIVE_COLUMNS", 0)
            if name is not None:
                there.setattr(evaluation, "FEWEST_POINTS", 1)
                there.setattr(evaluation, "rest_points", None)
            made[name] = purchases_of(book, book.scenario_with(workers=name))
    here, found = made.values()
    pd.testing.assert_frame_equal(found.purchases, here.purchases)
    pd.testing.assert_frame_equal(found.costs, here.costs)


def test_series_forecasts_are_the_same_on_a_cluster(address):
    generator = np.random.default_rng(1)
    series = pd.DataFrame(
        {"series": np.repeat(["a", "b", "c"], 40), "time": np.tile(np.arange(40), 3), "quantity": generator.lognormal(3, 0.2, 120)}
    )
    here = forecast_series(series, 4, (12,))
    with workers(address):
        there = forecast_series(series, 4, (12,))
    pd.testing.assert_frame_equal(here.quantiles, there.quantiles)
    pd.testing.assert_frame_equal(here.scores, there.scores)


def test_demand_forecasts_are_the_same_on_a_cluster(address):
    time = pd.date_range("2026-01-01", "2026-11-30")
    generator = np.random.default_rng(2)
    usage = pd.concat([pd.DataFrame({"time": time, "workload": name, "quantity": generator.lognormal(3, 0.1, len(time))}) for name in "ab"])
    a = DemandAssumptions(horizon_quarters=2, paths=20, load_blocks=1)
    here = forecast_demand(usage, None, None, a)
    fitting._fits.clear()
    there = forecast_demand(usage, None, None, a.model_copy(update={"workers": address}))
    pd.testing.assert_frame_equal(here.paths, there.paths)
    pd.testing.assert_frame_equal(here.scores, there.scores)


def test_many_series_are_fitted_on_all_cores(monkeypatch):
    time = pd.date_range("2026-06-01", "2026-11-30")
    usage = pd.DataFrame({"time": time, "workload": "a", "quantity": np.random.default_rng(3).lognormal(3, 0.1, len(time))})
    a = DemandAssumptions(horizon_quarters=1, paths=10, load_blocks=1)
    here = forecast_demand(usage, None, None, a)
    fitting._fits.clear()
    monkeypatch.setattr(fitting, "PARALLEL_FROM", 1)
    pd.testing.assert_frame_equal(forecast_demand(usage, None, None, a).paths, here.paths)


@pytest.fixture
def listening():
    """Sockets that are no scheduler, by how they behave: one refuses, one takes whoever comes and never says a word, one says a little."""
    pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")
    with socket.socket() as silent, socket.socket() as refusing, socket.socket() as talking:
        for each in (silent, talking):
            each.bind(("127.0.0.1", 0))
            each.listen()
        refusing.bind(("127.0.0.1", 0))

        def talk():
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = talking.accept()
                    with caller, contextlib.suppress(OSError):
                        for letter in b"\x01\0\0\0\0\0\0\0\xff\xff\0\0\0\0\0\0":
                            caller.sendall(bytes([letter]))
                            time.sleep(0.05)

        threading.Thread(target=talk, daemon=True).start()
        yield {name: f"tcp://127.0.0.1:{each.getsockname()[1]}" for name, each in locals().items() if isinstance(each, socket.socket)}


@pytest.mark.parametrize("kind", ["silent", "refusing", "talking"])
def test_an_address_where_no_scheduler_answers_is_said_and_never_waited_for(listening, monkeypatch, kind):
    monkeypatch.setattr(working, "ANSWER_SECONDS", 1.0)
    with pytest.raises(CapplanError, match=f"no Dask scheduler answers at {listening[kind]}"), workers(listening[kind]):
        pass


@pytest.mark.parametrize(
    "word", ["nonsense", "", "tcp://", "tcp://a b:1", "http://scheduler:8786", "tcp://scheduler", "8786", "tcp://a:b", "\0"]
)
def test_an_address_that_is_none_is_refused_before_anything_runs(word):
    with pytest.raises(ScenarioError, match=r"workers = .*must be an address such as tcp://scheduler:8786"):
        Scenario().replaced(workers=word)


@pytest.mark.parametrize("word", ["tcp://scheduler:8786", "tls://10.0.0.1:8786", "tcp://[::1]:8786", "wss://dask.example.com:443"])
def test_an_address_of_a_scheduler_is_taken(word):
    assert Scenario().replaced(workers=word).workers == word


def test_every_command_and_view_says_in_time_that_a_cluster_does_not_answer(listening, make_book, monkeypatch, tmp_path):
    monkeypatch.setattr(working, "ANSWER_SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    usage = hourly(300, workload="chat") + hourly(300, workload="tune").partition("\n")[2]
    folder = str(make_book("steady", **{name: text for name, text in TABLES.items() if name != "demand_scenarios"}, usage=usage))
    book = load_book(folder)
    scenario = book.scenario_with(workers=listening["silent"])
    for view in (show_demand, show_plan):
        with pytest.raises(CapplanError, match="no Dask scheduler answers"):
            view(book, scenario)
    to = ["--out", str(tmp_path / "out"), "-p", f"workers={listening['silent']}"]
    for words in (
        ["check", folder, *to[2:]],
        ["plan", folder, "--quick", *to],
        ["run", "demand", folder, *to],
        ["sweep", folder, "--vary", "price_factor=1,2", *to],
        ["compare", folder, *to],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code, words
        assert "no Dask scheduler answers" in str(done.exception) + done.output, (words, done.output)


def test_dask_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CapplanError, match=r"install capplan\[dask\]"), workers("tcp://somewhere:1"):
        pass


def test_a_capacity_curve_is_the_same_on_two_cores_and_on_a_cluster(address):
    generator = np.random.default_rng(4)
    jobs = pd.DataFrame(
        {
            "job_id": [f"j{index}" for index in range(300)],
            "submit": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sort(generator.uniform(0, 6 * 86400, 300)), unit="s"),
            "duration_seconds": generator.exponential(9000, 300),
            "accelerators": generator.choice([1.0, 4.0, 8.0], 300),
        }
    )
    nodes = pd.DataFrame({"node": ["n"], "accelerator": ["H100"], "accelerator_count": [8], "nodes": [2]})
    a = ClusterAssumptions(curve_sizes=6, curve_resamples=2)
    here = capacity_curve(jobs, nodes, "easy_backfill", a)
    there = capacity_curve(jobs, nodes, "easy_backfill", a.model_copy(update={"workers": address}))
    both = capacity_curve(jobs, nodes, "easy_backfill", a, cores=2)
    pd.testing.assert_frame_equal(here.curve, there.curve)
    pd.testing.assert_frame_equal(here.curve, both.curve)


def test_a_cluster_without_a_worker_says_so(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")
    monkeypatch.setattr(working, "ANSWER_SECONDS", 1.0)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        pytest.raises(CapplanError, match="has no worker; start some"),
        workers(cluster.scheduler_address),
    ):
        spread(square, range(3))
