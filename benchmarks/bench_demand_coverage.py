"""Do the bands hold? Made-up histories of many kinds whose future is known, against quarter totals.

    python benchmarks/bench_demand_coverage.py [--months 3 6 13 36] [--series 30]

Prints, by kind, length of history and quarter ahead: the share of totals inside the nominal 90 % band, the band's width beside that of an
oracle
(the spread of log outcomes around their medians over many futures is not known from one history; the oracle is the spread of errors of the
median), and the
bias of the median.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand import forecast_demand

QUARTERS = 4
AHEAD_DAYS = 31 + 366
NORMAL_95 = 1.6448536269514722


def made_up(kind: str, seed: int, days: int, history: int) -> np.ndarray:
    """Daily work of one series, `days` long, whose first `history` days are known."""
    generator = np.random.default_rng([sum(map(ord, kind)), seed])
    t = np.arange(days)
    noise = np.exp(generator.normal(0, 0.08, days))
    if kind == "lumpy":
        work = np.zeros(days + 50)
        for day in range(days + 50):
            for _ in range(generator.poisson(0.4)):
                work[day : day + int(1 + generator.exponential(5))] += generator.lognormal(0, 1)
        return 100 * work[50:]
    if kind == "bursty":
        burst = np.repeat(generator.random(days // 5 + 1) < 0.15, 5)[:days]
        return 100 * noise * np.where(burst, 4.0, 1.0)
    level = np.cumsum(generator.normal(0, 0.004, days))
    if kind == "growing":
        level += t / 365.25 * np.log(generator.uniform(1.3, 1.8))
    elif kind == "shrinking":
        level -= t / 365.25 * np.log(generator.uniform(1.3, 1.8))
    elif kind == "walk":
        level = np.cumsum(generator.normal(0, 0.01, days))
    elif kind == "season":
        level += 0.2 * np.sin(2 * np.pi * (t / 365.25 + generator.random()))
    elif kind == "step":
        level[int(history * generator.uniform(0.3, 0.9)) :] += generator.choice([-0.5, 0.5])
    return 1000 * np.exp(level) * noise


def measure(kind: str, months: int, count: int) -> None:
    history = round(months * 365.25 / 12)
    days = history + AHEAD_DAYS
    today = pd.Timestamp("2026-12-01")
    time = pd.date_range(today - pd.Timedelta(days=history), periods=days)
    full = pd.concat(
        [pd.DataFrame({"time": time, "workload": f"{kind} {k:03d}", "quantity": made_up(kind, k, days, history)}) for k in range(count)]
    )
    a = DemandAssumptions(horizon_quarters=QUARTERS)
    forecast = forecast_demand(full[full["time"] < today], None, None, a)
    table = forecast.quantiles.pivot_table(index=["workload", "quarter"], columns="quantile", values="quantity")
    quarter = full["time"].dt.year.astype(str) + "Q" + full["time"].dt.quarter.astype(str)
    outcome = full.groupby(["workload", quarter.rename("quarter")])["quantity"].sum().reindex(table.index)
    held = ((outcome >= table[0.05]) & (outcome <= table[0.95])).groupby("quarter").mean()
    error = np.log(table[0.5] / outcome)
    spread = (np.log(table[0.95] / table[0.05]) / (2 * NORMAL_95)).groupby("quarter").median()
    values = [
        " ".join(f"{value:6.2f}" for value in part)
        for part in (held, spread, error.groupby("quarter").std(), error.groupby("quarter").mean())
    ]
    print(
        f"{kind:10s} {months:3d} months: held {values[0]} | log spread {values[1]} | of errors {values[2]} | bias {values[3]}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--months", type=int, nargs="+", default=[3, 6, 13, 36], help="lengths of history")
    parser.add_argument("--series", type=int, default=30, help="series of each kind")
    parser.add_argument("--kinds", nargs="+", default=["walk", "growing", "shrinking", "season", "step", "lumpy", "bursty"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for months in options.months:
        for kind in options.kinds:
            measure(kind, months, options.series)


if __name__ == "__main__":
    main()
