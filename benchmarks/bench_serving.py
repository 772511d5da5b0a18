"""How far off is a calibrated latency? Half of the public curves predict the others, and five kinds of accelerator the sixth.

Run: pytest benchmarks/bench_serving.py --benchmark-only -s. Curves (model, accelerator, engine, number format, parallelism) of the public
measurements are dealt into halves at random; one half calibrates, the other is only looked at. Printed by model, over all deals: median
and 90th
percentile of the error (difference over measured), share of held-out points inside the stated bands of nine in ten, and the width of the
bands
(upper over lower end). The peer in the same run is gradient boosting of scikit-learn on the plain columns, without roofline. Then each
kind of accelerator is left out
altogether: the error, what the stated band covers, and the factor that nine in ten really need. Time is given as a ratio to the peer's.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from capplan.book.assumptions.performance import PerformanceAssumptions
from capplan.book.book import reference_tables
from capplan.questions.serving.calibration import calibrate
from capplan.questions.serving.measured import CURVE, METRICS, usable_runs
from capplan.questions.serving.performance import replica_performance
from capplan.questions.serving.roofline import roofline
from tests.cases.serving_cases import silicon_runs
from tests.conftest import reference_file

DEALS = tuple(range(12))
A = PerformanceAssumptions()
SHOWN = {"first_token_seconds": "TTFT", "token_seconds": "TPOT"}


@pytest.fixture(scope="module")
def facts() -> dict[str, pd.DataFrame]:
    return reference_tables()


@pytest.fixture(scope="module")
def runs(facts) -> pd.DataFrame:
    """The finished public measurements of replicas that hold their weights, each once."""
    path = reference_file("data", "serving_throughput", "llm_serving_silicon_latency_aiconfigurator.csv.gz")
    table = usable_runs(silicon_runs(path), use_unfinished=False)
    return table[roofline(table, facts["models"], facts["accelerators"])["fits"].to_numpy()].reset_index(drop=True)


def halves(runs: pd.DataFrame, deal: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    curves = np.array(sorted(runs["curve"].unique()))
    np.random.default_rng(deal).shuffle(curves)
    first = runs["curve"].isin(set(curves[: len(curves) // 2]))
    return runs[first].reset_index(drop=True), runs[~first].reset_index(drop=True)


def predicted(known: pd.DataFrame, asked: pd.DataFrame, facts: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Answer the load points of curves that were not seen, through the public question."""
    setups = asked.drop(columns=[*METRICS, "curve", "run"])
    answer = replica_performance(setups, known, facts["models"], facts["accelerators"], A)
    assert (answer["basis"] == "calibrated").all()
    return answer


def boosted(known: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Answer by gradient boosting on the plain columns."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    plain = pd.concat([known, asked], ignore_index=True)
    numbers = [
        *[name for name in CURVE if name.endswith(("parallel", "workers"))],
        "accelerators",
        "input_tokens",
        "output_tokens",
        "concurrency",
    ]
    table = pd.get_dummies(plain[["model", "accelerator", "engine", "precision", "separate"]].astype(str)).astype(float)
    table[numbers] = np.log(plain[numbers].astype(float))
    values, found = table.to_numpy(), {}
    for name in METRICS:
        trees = HistGradientBoostingRegressor(loss="absolute_error", max_iter=400, random_state=0)
        found[name] = np.exp(trees.fit(values[: len(known)], np.log(known[name])).predict(values[len(known) :]))
    return pd.DataFrame(found)


def judged(asked: pd.DataFrame, answer: pd.DataFrame, **labels: object) -> pd.DataFrame:
    """One row a point and latency: error, and whether and how widely the band holds it."""
    parts = []
    for name, short in SHOWN.items():
        error = (answer[name] / asked[name] - 1).abs()
        part = pd.DataFrame({"model": asked["model"], "latency": short, "error": error, "log": np.log(asked[name] / answer[name]).abs()})
        if f"{name}_lower" in answer:
            part["inside"] = asked[name].between(answer[f"{name}_lower"], answer[f"{name}_upper"])
            part["width"] = answer[f"{name}_upper"] / answer[f"{name}_lower"]
        parts.append(part.assign(**labels))
    return pd.concat(parts, ignore_index=True)


def summary(points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    groups = points.groupby(by)
    table = pd.DataFrame({"points": groups.size(), "median": groups["error"].median(), "p90": groups["error"].quantile(0.9)})
    if "inside" in points:
        table["covered"], table["width"] = groups["inside"].mean(), groups["width"].median()
    return table.round(3)


@pytest.mark.benchmark(group="calibration of half of the public curves")
def test_curves_held_out(benchmark, runs, facts):
    parts, peers, seconds = [], [], {"ours": 0.0, "peer": 0.0}
    for deal in DEALS:
        known, asked = halves(runs, deal)
        start = time.process_time()
        parts.append(judged(asked, predicted(known, asked, facts), deal=deal))
        middle = time.process_time()
        with threadpool_limits(1):
            peers.append(judged(asked, boosted(known, asked), deal=deal))
        seconds["ours"] += middle - start
        seconds["peer"] += time.process_time() - middle
    points, peer = pd.concat(parts), pd.concat(peers)
    by_deal = points.groupby(["latency", "deal"])["error"].median().groupby("latency").agg(["mean", "std"])
    peer_by_deal = peer.groupby(["latency", "deal"])["error"].median().groupby("latency").agg(["mean", "std"])
    print("\nby model, all deals\n", summary(points, ["latency", "model"]).to_string())
    print(
        "\nmedian error, mean and spread over deals\n",
        by_deal.round(4).to_string(),
        "\ngradient boosting\n",
        peer_by_deal.round(4).to_string(),
    )
    print(f"time beside gradient boosting: {seconds['ours'] / seconds['peer']:.1f} times")
    benchmark.extra_info.update({f"{name} median error": float(value) for name, value in by_deal["mean"].items()})
    calibrate.cache_clear()
    known, asked = halves(runs, DEALS[0])
    benchmark.pedantic(predicted, args=(known, asked.head(100), facts), rounds=1)
    assert by_deal.loc["TPOT", "mean"] <= 0.12
    assert by_deal.loc["TTFT", "mean"] <= 0.25


@pytest.mark.benchmark(group="calibration without one kind of accelerator")
@pytest.mark.parametrize("accelerator", ["B200", "B300", "GB200", "GB300", "H100", "H200"])
def test_an_accelerator_left_out(benchmark, runs, facts, accelerator):
    here = runs["accelerator"] == accelerator
    known, asked = runs[~here].reset_index(drop=True), runs[here].reset_index(drop=True)
    answer = benchmark.pedantic(predicted, args=(known, asked, facts), rounds=1)
    points = judged(asked, answer, left_out=accelerator)
    needed = np.exp(points.groupby("latency")["log"].quantile(0.9)).rename("factor that 9 in 10 need")
    print("\n", summary(points, ["left_out", "latency"]).join(needed.round(2), on="latency").to_string())
    calibrate.cache_clear()


@pytest.mark.benchmark(group="roofline alone")
def test_the_roofline_alone(benchmark, runs, facts):
    """What is labelled modelled: no measurement known at all."""
    setups = runs.drop(columns=[*METRICS, "curve", "run"])
    answer = benchmark.pedantic(replica_performance, args=(setups, runs.head(0), facts["models"], facts["accelerators"], A), rounds=1)
    assert (answer["basis"] == "modelled").all()
    print("\n", summary(judged(runs, answer), ["latency", "model"]).to_string())
