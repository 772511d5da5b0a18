"""Sweeps: the points asked for, the same numbers whoever does them, what is done is kept, and which decision stands."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from capplan.book.book import load_book
from capplan.errors import CapplanError, ScenarioError
from capplan.sweep import Axis, parse_axis, points_of, sweep_book, write_sweep
from capplan.sweep import run as sweeping
from capplan.sweep.page import effects, regret_table, steps_of
from capplan.sweep.write import FILES
from capplan.workers import workers
from tests.conftest import CONTRACTS, SKUS, SOURCES

OFFERS = (
    "offer_id,sku,region,geography,term,usd_per_hour,lead_time_days_p50,discounts,guarantees_capacity,as_of,source_id\n"
    "od,test.8x,us-1,us,on_demand,32,0,none,false,2026-12-01,s1\n"
    "one,test.8x,us-1,us,reserved_1y,20,10,units,true,2026-12-01,s1\n"
)
STATED = "scenario,probability,workload,quarter,quantity\n" + "".join(
    f"{name},{p},chat,2027Q{q},{size * q}\n" for name, p, size in (("low", 0.5, 30000), ("high", 0.5, 60000)) for q in (1, 2)
)
VALUES = {"price_factor": (0.8, 1.0, 1.2), "risk_weight": (0.0, 0.2, 0.5, 0.8)}


BOOK = "as_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 2\nproviders: [aws]\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("sweep") / "tiny"
    place.mkdir()
    tables = {"demand_scenarios": STATED, "commitments": CONTRACTS, "skus": SKUS, "sources": SOURCES, "offers": OFFERS}
    for name, text in tables.items():
        (place / f"{name}.csv").write_text(text)
    (place / "book.yaml").write_text(BOOK)
    return place


@pytest.fixture(scope="module")
def book(folder):
    return load_book(folder)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Points of these tests take less time than a process to start."""
    monkeypatch.setattr(sweeping, "workers", lambda address: workers(address, 1))


def grid(**values):
    return points_of([Axis(name, tuple(found)) for name, found in values.items()])


def quiet(_: str) -> None:
    pass


# ---------------------------------------------------------------- the points


def test_lists_and_ranges_are_crossed():
    points = points_of([parse_axis("price_factor=0.5:1.5:3"), parse_axis("horizon_quarters=2:4:3"), parse_axis("seed=1,2")])
    assert len(points) == 18
    assert [point["price_factor"] for point in points[::6]] == [0.5, 1.0, 1.5]
    assert {type(point["horizon_quarters"]) for point in points} == {int}


def test_a_sample_is_even_and_the_same_for_the_same_seed():
    axes = [parse_axis("price_factor=0.5:1.5"), parse_axis("risk_weight=0:1"), parse_axis("seed=1,2")]
    points = points_of(axes, 64, seed=3)
    assert points == points_of(axes, 64, seed=3)
    assert points != points_of(axes, 64, seed=4)
    assert len(points) == 128
    frame = pd.DataFrame(points[:64])
    # 64 points of a Sobol net: one in each 64th of every axis
    for name, low in (("price_factor", 0.5), ("risk_weight", 0.0)):
        assert sorted(((frame[name] - low) * 64).astype(int)) == list(range(64))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("risk_wieght=0,1", "did you mean risk_weight"),
        ("=1", "nothing is not an assumption"),
        ("risk_weight", "write a list, risk_weight=a,b,c, or a range"),
        ("risk_weight=1:0:3", "low below high"),
        ("risk_weight=0:1:1", "2 to 1000 points"),
        ("risk_weight=0:1:2:3", "a range is low:high"),
        ("risk_weight=a:b", "a range is low:high"),
        ("risk_weight=0:inf:3", "a range is low:high"),
        ("changes=where term=spot multiply usd_per_hour [1,2", "write the values once, in brackets"),
        ("changes=where term=spot multiply usd_per_hour []", "write the values once, in brackets"),
        ("changes=where term=spot multiply usd_per_hour [1] [2]", "write the values once, in brackets"),
        ("changes=where term=spot multiply usd_per_hour [2:1:3]", "a range is low:high"),
        ("scenario=nowhere.yaml", "the scenario file nowhere.yaml cannot be taken: .*No such file"),
    ],
)
def test_a_wrong_axis_says_what_is_allowed(text, said):
    with pytest.raises(ScenarioError, match=said):
        parse_axis(text)


def test_wrong_points_are_refused_before_anything_runs(folder, book, tmp_path, monkeypatch):
    monkeypatch.setattr(sweeping, "decide", lambda *_, **__: pytest.fail("nothing may run"))
    with pytest.raises(ScenarioError, match="price_factor is given twice"):
        points_of([parse_axis("price_factor=1,2"), parse_axis("price_factor=0.5:1.5:3")])
    with pytest.raises(ScenarioError, match="needs at least one range"):
        points_of([parse_axis("seed=1,2")], 8)
    with pytest.raises(ScenarioError, match=r"point risk weight 2: .*risk_weight"):
        sweep_book(book, book.scenario, grid(risk_weight=(0.1, 2)), tmp_path, say=quiet)
    with pytest.raises(ScenarioError, match="sobol:N"):
        write_sweep(folder, ["price_factor=0.5:1.5"], "halton:8", {}, tmp_path / "out", 10, quiet)
    (tmp_path / "file").write_text("")
    with pytest.raises(CapplanError, match="cannot be written"):
        write_sweep(folder, ["price_factor=0.5:1.5:3"], "", {}, tmp_path / "file", 10, quiet)


def test_scenario_files_and_what_ifs_on_tables_are_varied(folder, book, tmp_path):
    (tmp_path / "base.yaml").write_text("")
    (tmp_path / "low_prices.yaml").write_text(
        "price_factor: 0.9\nrisk_weight: 0.5\nchanges: [where term=on_demand multiply usd_per_hour 1.5]\n"
    )
    dearer = "changes=offers.one multiply usd_per_hour [1,2]"
    vary = [f"scenario={tmp_path}/base.yaml,{tmp_path}/low_prices.yaml", dearer, "risk_weight=0.1", "changes=offers.od set usd_per_hour 30"]
    out = tmp_path / "out"
    found = write_sweep(folder, vary, "", {"changes": "offers.od multiply usd_per_hour 3"}, out, 100, quiet).points
    assert len(found) == 8
    assert found["scenario"].tolist() == ["base"] * 4 + ["low prices"] * 4
    assert found["offers.one multiply usd_per_hour"].tolist() == [1, 1, 2, 2] * 2
    assert found["offers.od set usd_per_hour 30"].tolist() == ["left out", "made"] * 4
    # the last what-if sets a price, so that those before it are gone
    lines = ["offers.od multiply usd_per_hour 3", "where term=on_demand multiply usd_per_hour 1.5", "offers.one multiply usd_per_hour 2"]
    for place, scenario in (
        (6, book.scenario.replaced(price_factor=0.9, risk_weight=0.1, changes=lines)),
        (1, book.scenario.replaced(risk_weight=0.1, changes=["offers.od set usd_per_hour 30"])),
    ):
        alone = sweep_book(
            book.with_changes(scenario.changes), scenario.replaced(changes=()), [{}], tmp_path / str(place), say=quiet
        ).points
        assert alone["lower_usd"].item() <= found["upper_usd"][place] * (1 + 1e-9)
        assert found["lower_usd"][place] <= alone["upper_usd"].item() * (1 + 1e-9)
    assert found["upper_usd"].nunique() > 4
    assert "Offers.one multiply usd per hour" in (out / "sweep.html").read_text()
    with pytest.raises(CapplanError, match=r"first says: .*usd_per_huor"):
        write_sweep(folder, ["changes=offers.one multiply usd_per_huor [1,2]"], "", {}, out, 100, quiet)


def test_too_many_points_say_how_long_they_would_take(book, tmp_path):
    with pytest.raises(CapplanError, match=r"12 points are more than 10; at about .* a point and core they take .*--most 12"):
        sweep_book(book, book.scenario, grid(**VALUES), tmp_path, most=10, say=quiet)


# ---------------------------------------------------------------- the numbers


@pytest.fixture(scope="module")
def found(book, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "workers", lambda address: workers(address, 1))
        return sweep_book(book, book.scenario, grid(**VALUES), tmp_path_factory.mktemp("found"), say=quiet)


def test_a_point_is_what_a_plan_of_its_own_says(book, found):
    from capplan.answers.plan import purchases_of

    for row in (found.points.iloc[0], found.points.iloc[7]):
        plan = purchases_of(book, book.scenario.replaced(price_factor=float(row["price_factor"]), risk_weight=float(row["risk_weight"])))
        # both are proven within their gaps of the same optimum
        assert row["lower_usd"] <= plan.proof.upper_usd * (1 + 1e-9)
        assert plan.proof.lower_usd <= row["upper_usd"] * (1 + 1e-9)
        assert row["status"] == "proven"


@pytest.mark.slow
def test_numbers_do_not_depend_on_the_number_of_workers(book, found, tmp_path, monkeypatch):
    monkeypatch.setattr(sweeping, "workers", lambda _: workers(None, 2))
    again = sweep_book(book, book.scenario, grid(**VALUES), tmp_path, say=quiet)
    for name in ("points", "decisions", "regrets"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(found, name), check_exact=True)


def test_dearer_prices_never_cost_less_and_regrets_are_costs(found):
    ordered = found.points.sort_values("price_factor")
    for _, rows in ordered.groupby("risk_weight"):
        assert (rows["lower_usd"].to_numpy()[:-1] <= rows["upper_usd"].to_numpy()[1:] * (1 + 1e-9)).all()
    assert (found.regrets["regret_share"] >= 0).all()
    # what is best at a point costs nothing above the best there
    best = found.regrets.merge(found.points[["point", "decision"]], on=["point", "decision"])
    assert best["regret_share"].max() <= 2 * found.points["gap_share"].max() + 1e-9


def test_a_point_that_fails_says_why_and_stops_nobody(book, tmp_path):
    points = [{"excluded_offers": ["od"]}, {"excluded_offers": ["no-such-offer"]}, {"price_factor": 0.9}]
    result = sweep_book(book, book.scenario, points, tmp_path, say=quiet).points
    assert (result["status"] != "failed").sum() >= 1
    for message in result.loc[result["status"] == "failed", "message"]:
        assert message
    with pytest.raises(CapplanError, match="no point could be decided; the first says"):
        sweep_book(book, book.scenario, [{"providers": ["nobody"]}], tmp_path, say=quiet)


# ---------------------------------------------------------------- stopped and gone on


def test_what_is_done_is_kept_and_gone_on_with(book, found, tmp_path):
    def stopped(text: str) -> None:
        if "of 12 points" in text:
            raise KeyboardInterrupt

    with pytest.raises(CapplanError, match="stopped after 8 of 12 points; what is done is kept"):
        sweep_book(book, book.scenario, grid(**VALUES), tmp_path / "two", say=stopped)
    assert len(list((tmp_path / "two" / "parts").glob("*.json"))) == 1
    heard = []
    again = sweep_book(book, book.scenario, grid(**VALUES), tmp_path / "two", say=heard.append)
    assert "8 points were done before" in heard[0]
    pd.testing.assert_frame_equal(again.points, found.points, check_exact=True)
    # another book is another sweep
    other = book.with_rows("offers", book.get("offers").assign(usd_per_hour=lambda rows: rows["usd_per_hour"] * 1.5))
    assert not sweep_book(other, book.scenario, grid(**VALUES), tmp_path / "two", say=quiet).points.equals(found.points)


@pytest.mark.slow
def test_a_cluster_of_two_processes_gives_the_same_when_one_is_killed(book, found, tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (capplan[dask])")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        killed = []

        def say(_: str) -> None:
            if not killed:
                killed.append(next(iter(cluster.scheduler_info["workers"].values()))["nanny"])
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

        scenario = book.scenario.replaced(workers=cluster.scheduler_address)
        result = sweep_book(book, scenario, grid(**VALUES), tmp_path / "dask", say=say)
        assert killed
    for name in ("points", "decisions", "regrets"):
        pd.testing.assert_frame_equal(getattr(result, name), getattr(found, name), check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_that_dies_or_stands_still_is_said_at_once_and_what_is_done_is_kept(end, book, scheduler, tmp_path, monkeypatch, capfd):
    (process, *_), address = scheduler
    monkeypatch.setattr(sweeping, "CHUNK", 1)
    monkeypatch.setattr("capplan.workers.WATCH_SECONDS", 1.0)
    whole = sweep_book(book, book.scenario, grid(**VALUES), tmp_path / "whole", say=quiet)
    capfd.readouterr()
    with pytest.raises(
        CapplanError, match=r"^the Dask scheduler went away before the work was done; start it again .*; what is done is kept in"
    ):
        sweep_book(book, book.scenario.replaced(workers=address), grid(**VALUES), tmp_path / "out", say=lambda _: process.send_signal(end))
    assert capfd.readouterr().err == ""
    parts = len(list((tmp_path / "out" / "parts").glob("*.json")))
    assert 1 <= parts < 12
    heard = []
    again = sweep_book(book, book.scenario, grid(**VALUES), tmp_path / "out", say=heard.append)
    assert f"{parts} point" in heard[0]
    pd.testing.assert_frame_equal(again.points, whole.points, check_exact=True)


def test_more_points_than_there_is_memory_for_say_at_once_how_long_they_would_take(folder, tmp_path):
    ranges = ["price_factor=0.5:1.5:1000", "demand_factor=0.5:1.5:1000", "risk_weight=0:1:1000"]
    for vary, sample, said in (
        (ranges, "", r"1,000,000,000 points are more than 2,000; at about .* days"),
        (ranges[:1], "sobol:99999999999999", "99,999,999,999,999 points"),
        (ranges[:1], "saltelli:1099511627776", "3,298,534,883,328 points"),
    ):
        with pytest.raises(CapplanError, match=said):
            write_sweep(folder, vary, sample, {}, tmp_path / "out", 2000, quiet)
    with pytest.raises(CapplanError, match=r"name it with --vary"):
        write_sweep(folder, [], "", {}, tmp_path / "out", 2000, quiet)
    assert not (tmp_path / "out").exists()


def test_a_sweep_that_is_stopped_says_what_it_keeps(folder, tmp_path):
    words = [
        sys.executable,
        "-m",
        "capplan.cli",
        "sweep",
        str(folder),
        "--vary",
        "price_factor=0.7:1.3:400",
        "--out",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        while "8 of 400 points" not in process.stderr.readline():
            assert process.poll() is None
        process.terminate()
        said = process.stderr.read()
    assert process.returncode == 143
    last = said.splitlines()[-1]
    assert last.startswith("capplan: stopped by SIGTERM; what is done is kept in ")
    assert last.endswith("out/parts, and the same command goes on from there")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["parts"]
    assert list((tmp_path / "out" / "parts").glob("*.json"))


def test_files_of_two_sweeps_never_lie_side_by_side(folder, tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).write_text("of a sweep before")
    replace, seen = Path.replace, []

    def watched(self, target):
        moved = replace(self, target)
        if target.parent == tmp_path:
            seen.append(any((tmp_path / name).exists() and (tmp_path / name).read_bytes()[:4] == b"of a" for name in FILES))
        return moved

    monkeypatch.setattr(Path, "replace", watched)
    write_sweep(folder, ["price_factor=0.9,1.1"], "", {}, tmp_path, 10, quiet)
    assert seen == [False] * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(set(FILES) - {"shares.parquet"})


# ---------------------------------------------------------------- what is shown


def test_effects_are_means_over_the_other_assumptions():
    points = pd.DataFrame(
        [(a, b, 10 * a + b) for a in (1.0, 2.0, 3.0) for b in (0.0, 4.0)], columns=["price_factor", "risk_weight", "upper_usd"]
    )
    table = effects(points, [Axis("risk_weight", ()), Axis("price_factor", ())]).set_index("assumption")
    assert list(table.index) == ["price_factor", "risk_weight"]
    assert table.loc["price_factor", ["low_usd", "high_usd", "moves_usd"]].tolist() == [12.0, 32.0, 20.0]
    assert table.loc["risk_weight", "moves_usd"] == 4.0
    assert steps_of(pd.Series(np.linspace(0, 1, 100))).nunique() == 5


def test_the_folder_holds_one_tidy_file_and_a_page_without_scripts(folder, tmp_path):
    out = tmp_path / "out"
    found = write_sweep(folder, ["price_factor=0.8:1.2:3", "risk_weight=0,0.5"], "", {}, out, 100, quiet)
    assert sorted(path.name for path in out.iterdir()) == ["decisions.parquet", "points.parquet", "sweep.html", "sweep.json"]
    stored = pd.read_parquet(out / "points.parquet")
    assert len(stored) == 6
    assert {"point", "price_factor", "risk_weight", "upper_usd", "decision", "gap_share"} <= set(stored)
    page = (out / "sweep.html").read_text()
    assert "<script" not in page
    assert "Mean of all points: " in page
    assert "Plan: $" not in page
    assert found.headline.split(";")[0] in page
    assert json.loads((out / "sweep.json").read_text())["vary"] == ["price_factor=0.8:1.2:3", "risk_weight=0,0.5"]
    table = regret_table(found)
    assert table["worst_regret_share"].is_monotonic_increasing or (table["impossible_points"] > 0).any()
    assert not (table["worst_regret_share"] == math.inf).any()
