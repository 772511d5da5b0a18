"""Work spread over cores or a Dask cluster: same answers, in order, and plain words when the cluster is not there."""

import sys

import pytest

from capplan.errors import CapplanError
from capplan.workers import spread, workers


def square(number: int) -> int:
    return number * number


def test_this_process_and_this_machine_keep_the_order():
    for cores in (1, 2):
        with workers(None, cores):
            assert spread(square, range(20)) == [n * n for n in range(20)]


def test_a_dask_cluster_by_address():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        workers(cluster.scheduler_address),
    ):
        assert spread(square, range(20)) == [n * n for n in range(20)]


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
