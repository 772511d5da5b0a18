"""Forecasts one to eight quarters ahead beside AutoETS, AutoARIMA and Theta of statsforecast, plain and of logarithms, on monthly series.

    python benchmarks/bench_demand_growth.py [--every 6] [--months 24 36 48] [--arima]

Prints, by months of history and for quarters 1, 4, 6 and 8 ahead: the share of totals inside 90 % bands, the interval score and the error
of the median, both over
the mean of the last year, and the seconds a series. The series are half of the monthly ones of the M3 competition, read from the reference
data beside the project.
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

from capplan.questions.demand.growth import fit_growth, growth_paths

SHARED = Path(os.environ.get("CAPPLAN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
AHEAD, SHOWN = 24, [0, 3, 5, 7]


def read(months: int, every: int) -> np.ndarray:
    """Return the series that reach a quarter beyond so many months (padded with NaN)."""
    table = pd.read_csv(SHARED / "data" / "forecasting" / "m3_monthly_half.csv.gz")
    values = [part["value"].to_numpy(dtype=float) for _, part in table.groupby("series_id", sort=True)][::every]
    full = [np.pad(v[: months + AHEAD], (0, max(0, months + AHEAD - len(v))), constant_values=np.nan) for v in values]
    return np.array([series for series in full if np.isfinite(series[months : months + 3]).all()])


def quarters(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:-1], -1, 3).mean(axis=-1)


def own(histories: np.ndarray) -> np.ndarray:
    numbers = np.random.default_rng(0).permutation((np.arange(300) + 0.5) / 300)
    shocks = np.random.default_rng(1).standard_normal((300, AHEAD))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=6, help="every so many series")
    parser.add_argument("--months", type=int, nargs="+", default=[24, 36, 48], help="months of history")
    parser.add_argument("--arima", action="store_true", help="with AutoARIMA, which takes minutes")
    options = parser.parse_args()
    from statsforecast.models import AutoARIMA, AutoETS, Theta

    warnings.simplefilter("ignore")
    peers = {"Theta": lambda: Theta(season_length=12), "AutoETS": lambda: AutoETS(season_length=12)}
    peers |= {"AutoARIMA": lambda: AutoARIMA(season_length=12)} if options.arima else {}
    methods = {"capplan": own} | {
        f"{name}, {'logarithms' if logs else 'plain'}": peer(make, logs) for name, make in peers.items() for logs in (False, True)
    }
    for months in options.months:
        series = read(months, options.every)
        outcome, scale = quarters(series[:, months:]), series[:, months - 12 : months].mean(axis=1)[:, None]
        print(f"{len(series)} series, {months} months of history; quarters 1, 4, 6 and 8")
        for name, method in methods.items():
            begin = time.process_time()
            low, middle, high = method(series[:, :months])
            seconds = (time.process_time() - begin) / len(series)
            known = np.isfinite(outcome)
            held = np.where(known, (outcome >= low) & (outcome <= high), np.nan)
            score = ((high - low) + 20 * np.clip(low - outcome, 0, None) + 20 * np.clip(outcome - high, 0, None)) / scale
            rows = [np.nanmean(part, axis=0)[SHOWN].round(3) for part in (held, score, np.abs(middle - outcome) / scale)]
            print(f"  {name:24s} held {rows[0]}  interval score {rows[1]}  median error {rows[2]}  {seconds:.3f} s a series", flush=True)


if __name__ == "__main__":
    main()
