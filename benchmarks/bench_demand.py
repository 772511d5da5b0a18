"""Demand forecasts beside statsforecast and statsmodels: accuracy and time on the same series, in one run.

    python benchmarks/bench_demand.py [--series 414] [--monthly 10000]      everything, a quarter of an hour
    pytest benchmarks/bench_demand.py --benchmark-only -s                   a sample of the series; all of them with CAPPLAN_BENCH_FULL=1

The public series are read from the reference data beside the project (CAPPLAN_SHARED); a part whose files are absent says so and is left
out. Ratios of one
run are printed and kept in `extra_info`; nothing is asserted on time.
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

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand import forecast_demand, forecast_series
from capplan.questions.demand.accuracy import QUANTILES, coverage, mase, owa, pinball_loss, seasonal_scale, smape
from capplan.questions.demand.series import forecast_values
from capplan.workers import workers

SHARED = Path(os.environ.get("CAPPLAN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
NAIVE2_HOURLY = (18.383, 2.395)
FULL = os.environ.get("CAPPLAN_BENCH_FULL") == "1"


def timed(call: Callable[[], object]) -> tuple[object, float]:
    begin = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begin


def read_series(path: Path) -> list[np.ndarray]:
    return [np.array(text.split(), dtype=float) for text in pd.read_csv(path)["values_in_time_order"]]


def frame(series: list[np.ndarray]) -> pd.DataFrame:
    names = [f"S{k:05d}" for k in range(len(series))]
    sizes = [len(y) for y in series]
    return pd.DataFrame(
        {"series": np.repeat(names, sizes), "time": np.concatenate([np.arange(n) for n in sizes]), "quantity": np.concatenate(series)}
    )


def m4_hourly(count: int) -> dict[str, float]:
    """Forecast the M4 hourly series with all methods; return the default's OWA and coverage, and its time over that of its peers."""
    folder = SHARED / "data" / "forecasting"
    if not folder.exists():
        print("M4 hourly: the reference files are absent, left out")
        return {}
    train, test = read_series(folder / "m4_hourly_train.csv.gz")[:count], read_series(folder / "m4_hourly_test.csv.gz")[:count]
    from statsforecast.models import MSTL, AutoETS, SeasonalNaive
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    def own() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = forecast_series(frame(train), 48, (24, 168)).quantiles.pivot_table(
            index=["series", "step"], columns="quantile", values="quantity"
        )
        return tuple(table[q].to_numpy().reshape(-1, 48) for q in (0.5, 0.05, 0.95))

    def plain(make: Callable[[], object]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        answers = [make().forecast(y=y, h=48, level=[90]) for y in train]
        return tuple(np.array([answer[key] for answer in answers]) for key in ("mean", "lo-90", "hi-90"))

    def holt_winters() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point = np.array(
                [
                    ExponentialSmoothing(y, seasonal="add", seasonal_periods=24, trend="add", damped_trend=True).fit().forecast(48)
                    for y in train
                ]
            )
        return point, point, point

    print(f"M4 hourly, {len(train)} series, 48 hours ahead, one core (published OWA: winner 0.440, seasonal naive 0.627)")
    methods = {
        "capplan default (selection and bands included)": own,
        "statsforecast SeasonalNaive(24)": lambda: plain(lambda: SeasonalNaive(24)),
        "statsforecast MSTL(24, 168) + AutoETS": lambda: plain(lambda: MSTL([24, 168], trend_forecaster=AutoETS(model="ZZN"))),
        "statsmodels Holt-Winters, damped, 24": holt_winters,
    }
    found: dict[str, tuple[float, float, float]] = {}
    for name, method in methods.items():
        (point, low, high), seconds = timed(method)
        s = np.mean([smape(a, f) for a, f in zip(test, point, strict=True)])
        m = np.mean([mase(a, f, seasonal_scale(y, 24)) for y, a, f in zip(train, test, point, strict=True)])
        inside = coverage(np.array(test), low, high)
        held = f"{inside:.3f}" if low is not point else "  -  "
        found[name] = (owa(s, m, *NAIVE2_HOURLY), inside, seconds)
        print(f"  {name:48s} sMAPE {s:7.3f}  MASE {m:6.3f}  OWA {owa(s, m, *NAIVE2_HOURLY):6.3f}  90 % band held {held}  {seconds:7.1f} s")
    (own_owa, own_inside, own_seconds), (_, _, mstl_seconds), (_, _, winters_seconds) = (found[list(methods)[k]] for k in (0, 2, 3))
    print(
        f"  time of the default over MSTL + AutoETS {own_seconds / mstl_seconds:.2f}, over Holt-Winters of statsmodels"
        f" {own_seconds / winters_seconds:.2f}"
    )
    return {
        "owa": own_owa,
        "coverage": own_inside,
        "over_mstl_ets": own_seconds / mstl_seconds,
        "over_holt_winters": own_seconds / winters_seconds,
    }


def request_rates() -> None:
    from statsforecast.models import SeasonalNaive

    q = np.array(QUANTILES)
    for name in ("m-large", "m-small"):
        path = SHARED / "data" / "llm_demand" / f"servegen_{name}_requests_per_second_10min.csv"
        if not path.exists():
            print(f"ServeGen {name}: the reference file is absent, left out")
            continue
        rate = pd.read_csv(path)["total_requests_per_second"].to_numpy()
        for days in (1, 2, 3, 4):
            own, naive, held = [], [], []
            for origin in np.linspace(7 * 144, len(rate) - 144 * days, 12).astype(int):
                outcome = rate[origin : origin + 144 * days]
                forecast, _ = forecast_values(rate[:origin], 144 * days, (144, 1008))
                rival = SeasonalNaive(144).forecast(y=rate[:origin], h=144 * days, level=[50, 80, 90])
                bands = np.column_stack([rival[key] for key in ("lo-90", "lo-80", "lo-50", "mean", "hi-50", "hi-80", "hi-90")])
                own.append(pinball_loss(outcome[:, None], forecast, q))
                naive.append(pinball_loss(outcome[:, None], bands, q))
                held.append(coverage(outcome, forecast[:, 0], forecast[:, -1]))
            print(
                f"ServeGen {name}, {days} days ahead, 12 origins: pinball {np.mean(own):7.2f} (seasonal naive {np.mean(naive):7.2f}), 90 %"
                f" band held {np.mean(held):.3f}"
            )


def monthly(count: int) -> float:
    """Forecast made-up monthly series on all cores, and say how many minutes ten thousand take."""
    generator = np.random.default_rng(1)
    t = np.arange(60)
    series = [
        100
        * np.exp(generator.normal(0, 0.003) * t + np.cumsum(generator.normal(0, 0.02, 60)))
        * (1 + 0.15 * np.sin(2 * np.pi * t / 12))
        * np.exp(generator.normal(0, 0.05, 60))
        for _ in range(count)
    ]
    with workers(None):
        _, seconds = timed(lambda: forecast_series(frame(series), 6, (12,)))
    print(
        f"{count} monthly series of 60 months, 6 ahead, {os.cpu_count()} cores: {seconds:.1f} s, {10_000 * seconds / count / 60:.1f}"
        " minutes for ten thousand"
    )
    return 10_000 * seconds / count / 60


def enterprise() -> float:
    """Eight workloads, 13 months by hour, 8 quarters, 200 paths, 5 load blocks: the size of the default plan."""
    generator = np.random.default_rng(0)
    when = pd.date_range("2025-11-01", "2026-11-30 23:00", freq="h")
    day = np.arange(len(when)) // 24
    frames = []
    for k in range(8):
        level = np.exp(np.cumsum(generator.normal(0, 0.01, day[-1] + 1)))[day] * 100 * (k + 1)
        shape = 1 + 0.5 * np.sin(2 * np.pi * (when.hour - 6 - k) / 24) + 0.1 * (when.dayofweek < 5)
        frames.append(
            pd.DataFrame(
                {
                    "time": when,
                    "workload": f"w{k}",
                    "region": "us" if k % 2 else "eu",
                    "quantity": level * shape * np.exp(generator.normal(0, 0.1, len(when))),
                }
            )
        )
    usage = pd.concat(frames, ignore_index=True)
    events = pd.DataFrame(
        [
            {
                "event_id": "launch",
                "workload": "w1",
                "date": pd.Timestamp("2027-05-01"),
                "kind": "launch",
                "factor": 2.0,
                "level": np.nan,
                "probability": 0.5,
            }
        ]
    )
    a = DemandAssumptions()
    _, first = timed(lambda: forecast_demand(usage, events, None, a))
    _, again = timed(lambda: forecast_demand(usage, events, None, a.model_copy(update={"event_strength": 2.0})))
    print(
        f"forecast_demand, 8 workloads x 13 months hourly, 8 quarters, 200 paths, 5 blocks: {first:.1f} s; with another event strength (no"
        f" refit): {again:.1f} s"
    )
    return first / again


@pytest.mark.benchmark(group="demand: hourly series beside MSTL with ETS and Holt-Winters")
def test_m4_hourly(benchmark):
    answer = benchmark.pedantic(lambda: m4_hourly(414 if FULL else 12), rounds=1)
    if not answer:
        pytest.skip("the M4 hourly series are absent")
    benchmark.extra_info.update(answer)


@pytest.mark.benchmark(group="demand: monthly series on all cores")
def test_monthly(benchmark):
    benchmark.extra_info["minutes_for_10000"] = benchmark.pedantic(lambda: monthly(10_000 if FULL else 200), rounds=1)


@pytest.mark.benchmark(group="demand: the plan's forecast, and a slider that does not refit")
def test_enterprise(benchmark):
    benchmark.extra_info["first_over_slider"] = benchmark.pedantic(enterprise, rounds=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=414, help="M4 hourly series")
    parser.add_argument("--monthly", type=int, default=10000, help="made-up monthly series")
    options = parser.parse_args()
    import statsforecast.models  # noqa: F401 - the import takes seconds and is not what is measured

    enterprise()
    m4_hourly(options.series)
    request_rates()
    monthly(options.monthly)


if __name__ == "__main__":
    main()
