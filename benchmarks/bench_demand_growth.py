"""Forecasts one to eight quarters ahead beside AutoETS, AutoARIMA and Theta of statsforecast, each plain and of logarithms.

    python benchmarks/bench_demand_growth.py [--every 1] [--months 24 36 48] [--only capplan Theta AutoETS AutoARIMA] [--dask ADDRESS]
    pytest benchmarks/bench_demand_growth.py --benchmark-only -s         a sample of the series; all of them with CAPPLAN_BENCH_FULL=1

Prints, by months of history and for quarters 1, 4, 6 and 8 ahead: the share of totals inside 90 % bands, the interval score and the error
of the median, both over the mean of the last year, and the seconds a series; then the mean over all origins, each peer in its better form.
The public series are half of the monthly ones of the M3 competition, read from the reference data beside the project. Last, ten thousand
made-up monthly series on all cores, or on a Dask cluster by its address.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from capplan.questions.demand.growth import fit_growth, growth_paths
from capplan.workers import spread, workers

SHARED = Path(os.environ.get("CAPPLAN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
FULL = os.environ.get("CAPPLAN_BENCH_FULL") == "1"
AHEAD, SHOWN, PATHS = 24, [0, 3, 5, 7], 300
MEASURES = ("held", "interval score", "median error")
#: Series of one piece of parallel work.
PIECE = 50


def read(months: int, every: int) -> np.ndarray:
    """Return the series that reach a quarter beyond so many months (padded with NaN)."""
    table = pd.read_csv(SHARED / "data" / "forecasting" / "m3_monthly_half.csv.gz")
    values = [part["value"].to_numpy(dtype=float) for _, part in table.groupby("series_id", sort=True)][::every]
    full = [np.pad(v[: months + AHEAD], (0, max(0, months + AHEAD - len(v))), constant_values=np.nan) for v in values]
    return np.array([series for series in full if np.isfinite(series[months : months + 3]).all()])


def quarters(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:-1], -1, 3).mean(axis=-1)


def own(histories: np.ndarray) -> np.ndarray:
    # Each shock with its mirror: the median of few paths is then hardly moved by what was drawn, alike for all series.
    numbers = np.tile(np.random.default_rng(0).permutation((np.arange(PATHS // 2) + 0.5) / (PATHS // 2)), 2)
    half = np.random.default_rng(1).standard_normal((PATHS // 2, AHEAD))
    shocks = np.concatenate([half, -half])
    drawn = [quarters(growth_paths(fit_growth(history, 12.0), numbers, shocks)) for history in histories]
    return np.quantile(np.array(drawn), [0.05, 0.5, 0.95], axis=1)


def peer(make: Callable[[], object], logs: bool) -> Callable[[np.ndarray], np.ndarray]:
    def forecast(histories: np.ndarray) -> np.ndarray:
        said = []
        for y in histories:
            past = np.log(np.maximum(y, 0.02 * np.median(y))) if logs else y
            answer = make().forecast(y=past, h=AHEAD, level=[90])
            part = np.array([answer[name] for name in ("lo-90", "mean", "hi-90")])
            said.append(quarters(np.exp(np.minimum(part, 25.0)) if logs else part))
        return np.moveaxis(np.array(said), 1, 0)

    return forecast


def methods(names: list[str]) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    from statsforecast.models import AutoARIMA, AutoETS, Theta

    peers = {model.__name__: model for model in (Theta, AutoETS, AutoARIMA)}
    found = {"capplan": own} if "capplan" in names else {}
    for name in names:
        if name in peers:
            for logs in (False, True):
                found[f"{name}, {'logarithms' if logs else 'plain'}"] = peer(lambda name=name: peers[name](season_length=12), logs)
    return found


def measure(method: Callable[[np.ndarray], np.ndarray], series: np.ndarray, months: int) -> np.ndarray:
    """Return hits, interval scores and errors of the median (3 x series x quarters)."""
    low, middle, high = method(series[:, :months])
    outcome, scale = quarters(series[:, months:]), series[:, months - 12 : months].mean(axis=1)[:, None]
    held = np.where(np.isfinite(outcome), (outcome >= low) & (outcome <= high), np.nan)
    score = ((high - low) + 20 * np.clip(low - outcome, 0, None) + 20 * np.clip(outcome - high, 0, None)) / scale
    return np.array([held, score, np.abs(middle - outcome) / scale])


def compare(names: list[str], every: int, origins: list[int]) -> dict[str, dict[str, float]]:
    """Print all measures, and return their means over origins and quarters by method (a peer's better form for each)."""
    known: dict[str, list[np.ndarray]] = {}
    for months in origins:
        series = read(months, every)
        print(f"{len(series)} series, {months} months of history; quarters 1, 4, 6 and 8")
        for name, method in methods(names).items():
            begin = time.process_time()
            found = measure(method, series, months)
            seconds = (time.process_time() - begin) / len(series)
            known.setdefault(name, []).append(found)
            told = "  ".join(f"{label} {np.nanmean(part, axis=0)[SHOWN].round(3)}" for label, part in zip(MEASURES, found, strict=True))
            print(f"  {name:24s} {told}  {seconds:.3f} s a series", flush=True)
    best: dict[str, dict[str, float]] = {}
    for name, parts in known.items():
        mean = np.nanmean(np.concatenate(parts, axis=1), axis=1)[:, SHOWN].mean(axis=1)
        told = dict(zip(MEASURES, map(float, mean), strict=True))
        kept = best.setdefault(name.split(",")[0], told)
        best[name.split(",")[0]] = {
            label: told[label] if label == "held" and told["interval score"] < kept["interval score"] else min(kept[label], told[label])
            for label in MEASURES
        }
    for name, told in best.items():
        print(f"{name:10s} over all origins: " + ", ".join(f"{label} {value:.4f}" for label, value in told.items()))
    return best


def many(count: int, address: str | None) -> float:
    """Forecast made-up monthly series of 60 months two years ahead on all cores or a cluster; return minutes for ten thousand."""
    generator = np.random.default_rng(1)
    t = np.arange(60)
    growth, walk = generator.normal(0.01, 0.01, (count, 1)), np.cumsum(generator.normal(0, 0.02, (count, 60)), axis=1)
    season = 0.15 * np.sin(2 * np.pi * (t / 12 + generator.random((count, 1))))
    series = 100 * np.exp(growth * t + walk + season + generator.normal(0, 0.03, (count, 60)))
    with workers(address):
        begin = time.perf_counter()
        spread(own, [series[k : k + PIECE] for k in range(0, count, PIECE)])
        minutes = (time.perf_counter() - begin) / 60 * 10_000 / count
    print(
        f"{count} monthly series, eight quarters ahead, on {address or f'{os.cpu_count()} cores'}: {minutes:.1f} minutes for ten thousand"
    )
    return minutes


@pytest.mark.benchmark(group="demand: quarters 1 to 8 of the M3 series beside their peers")
def test_m3_monthly(benchmark):
    if not (SHARED / "data" / "forecasting").exists():
        pytest.skip("the M3 series are absent")
    names = ["capplan", "Theta", "AutoETS", *(["AutoARIMA"] if FULL else [])]
    benchmark.extra_info.update(benchmark.pedantic(lambda: compare(names, 1 if FULL else 40, [24, 36, 48]), rounds=1))


@pytest.mark.benchmark(group="demand: eight quarters of many monthly series")
def test_many(benchmark):
    benchmark.extra_info["minutes_for_10000"] = benchmark.pedantic(lambda: many(10_000 if FULL else 200, None), rounds=1)


@pytest.mark.benchmark(group="demand: eight quarters of many monthly series on a cluster")
def test_many_on_a_cluster(benchmark):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        benchmark.extra_info["minutes_for_10000"] = benchmark.pedantic(lambda: many(10_000 if FULL else 200, address), rounds=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="every so many series")
    parser.add_argument("--months", type=int, nargs="+", default=[24, 36, 48], help="months of history")
    parser.add_argument("--only", nargs="+", default=["capplan", "Theta", "AutoETS", "AutoARIMA"], help="methods")
    parser.add_argument("--many", type=int, default=10_000, help="made-up monthly series; 0 for none")
    parser.add_argument("--dask", default=None, help="address of a Dask scheduler")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.months and options.every:
        compare(options.only, options.every, options.months)
    if options.many:
        many(options.many, options.dask)


if __name__ == "__main__":
    main()
