"""Work spread over cores or a Dask cluster: same answers, in order, and plain words when the cluster is not there."""

import sys

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import ClusterAssumptions, DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.cluster import capacity_curve
from capplan.questions.demand import fitting, forecast_demand, forecast_series
from capplan.workers import spread, workers


def square(number: int) -> int:
    return number * number


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


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")

    def refused(*_, **__):
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", refused)
    with pytest.raises(CapplanError, match="no Dask scheduler answers at tcp://nowhere:1"), workers("tcp://nowhere:1"):
        pass


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
