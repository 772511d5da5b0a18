"""Make the generated tables of data/enterprise: usage, other costs and the billing export of the invented company.

Run it with `python tools/make_enterprise.py`; the same seed gives the same bytes. The small tables of the book (workloads, contracts,
quotations,
limits, ...) are kept by hand; `enterprise_bill` reads them, so that the bill follows from contracts, prices and usage.

What the shapes follow (figures measured on the public traces, hour by hour):

- ServeGen m-large, 14 days (arXiv 2505.09999): peak over mean 1.86, 99th percentile over mean 1.82, trough over mean 0.30; the mean day
runs from
  0.79 to 1.14 of its mean, daily totals from 0.54 to 1.43; around day and hour the logarithm has a standard deviation of 0.24 with a lag-1
  correlation of 0.70.
- ServeGen m-small, 14 days: peak over mean 2.06, 99th percentile 1.89; the mean day runs from 0.66 to 1.46.
- Microsoft Philly, accelerators in use, 10 October to 15 December 2017: peak over mean 2.30, standard deviation over mean 0.47,
correlation from
  hour to hour 0.976; weekdays from 0.79 (Monday) to 1.13 (Thursday), hours of the day between 0.97 and 1.06.

Served traffic is level x growth x hour of the day x day of the week x autocorrelated noise x holiday dip. Batch work is level x growth x
day of the
week x slow autocorrelated noise; what exceeds the team's share of the fleet waits in a queue and runs later, what exceeds the serving
capacity of a
region is refused. `queued_quantity` is the queue at the end of the hour.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from enterprise_bill import make_billing

BOOK = Path(__file__).resolve().parents[1] / "data" / "enterprise"
SEED = 20261201
FIRST, LAST = "2025-11-01", "2026-11-30"
HOURS_PER_YEAR = 8760
BILLED_MONTHS = ("2026-09", "2026-10", "2026-11")
LAST_COST_MONTH = "2029-01"
#: Monday to Sunday. Serving: a working week with daily totals inside ServeGen's band; batch: Philly.
SERVING_WEEK = (1.06, 1.08, 1.07, 1.06, 1.03, 0.85, 0.85)
BATCH_WEEK = (0.79, 0.98, 1.04, 1.13, 1.11, 1.08, 0.83)


@dataclass(frozen=True)
class Series:
    """One workload in one region.

    Parameters
    ----------
    level
        Mean work an hour in the last weeks, in the workload's unit.
    growth_per_year
        Factor by which the level grew in the year before.
    peak_hour
        Hour of the day (UTC) of the peak of served traffic.
    swing, second_swing
        Amplitudes of the daily and the half-daily wave.
    week
        Factors from Monday to Sunday.
    noise, memory
        Standard deviation of the logarithm around the pattern, and its correlation from hour to hour.
    cap
        Work an hour that can be done at most.
    queues
        Does work beyond the cap wait and run later, or is it refused?
    digits
        Decimals that are kept.
    """

    workload: str
    region: str
    level: float
    growth_per_year: float
    peak_hour: float = 0.0
    swing: float = 0.0
    second_swing: float = 0.0
    week: tuple[float, ...] = SERVING_WEEK
    noise: float = 0.16
    memory: float = 0.7
    cap: float = np.inf
    queues: bool = False
    digits: int = 0


def batch(workload: str, region: str, level: float, growth_per_year: float, cap_over_level: float) -> Series:
    """Describe a batch workload with Philly's week, variation and memory."""
    return Series(
        workload,
        region,
        level,
        growth_per_year,
        week=BATCH_WEEK,
        noise=0.447,
        memory=0.976,
        cap=cap_over_level * level,
        queues=True,
        digits=1,
    )


SERIES = (
    Series("chat", "us", 450_000, 1.60, peak_hour=18, swing=0.36, second_swing=0.06),
    Series("chat", "eu", 190_000, 1.80, peak_hour=12, swing=0.40, second_swing=0.07, cap=320_000),
    Series("drafts", "us", 260_000, 1.40, peak_hour=17, swing=0.44, second_swing=0.08, cap=490_000),
    Series("summaries", "any", 52_000, 1.55, peak_hour=17, swing=0.46, second_swing=0.08),
    Series("research", "any", 6_400, 1.90, peak_hour=16, swing=0.33, second_swing=0.05, noise=0.2),
    batch("data_prep", "any", 36, 1.25, 1.8),
    batch("pretraining", "us", 60, 1.20, 1.7),
    batch("alignment", "us", 40, 1.35, 1.7),
    batch("release", "us", 11, 1.15, 2.4),
    batch("tuning", "us", 32, 1.60, 1.7),
    batch("evaluation", "any", 22, 1.40, 1.9),
)


def red_noise(count: int, deviation: float, memory: float, random: np.random.Generator) -> np.ndarray:
    """Draw a first-order autoregression: x[t] = memory x[t-1] + e[t], with stationary standard deviation `deviation`."""
    shocks = random.standard_normal(count)
    values = np.empty(count)
    values[0] = shocks[0] * deviation
    scale = deviation * np.sqrt(1 - memory**2)
    for step in range(1, count):
        values[step] = memory * values[step - 1] + scale * shocks[step]
    return values


def run_with_queue(arriving: np.ndarray, cap: float) -> tuple[np.ndarray, np.ndarray]:
    """Run arriving work at no more than `cap` an hour; return what ran in each hour and what waits at its end."""
    ran, waiting = np.empty_like(arriving), np.empty_like(arriving)
    queue = 0.0
    for step, work in enumerate(arriving):
        ran[step] = min(queue + work, cap)
        queue += work - ran[step]
        waiting[step] = queue
    return ran, waiting


def daily_wave(series: Series, hour: np.ndarray) -> np.ndarray:
    """Return the factor of the hour of the day; its mean over a day is 1."""
    angle = 2 * np.pi * (hour - series.peak_hour) / 24
    return 1 + series.swing * np.cos(angle) + series.second_swing * np.cos(2 * angle)


def make_usage(all_series: tuple[Series, ...] = SERIES, first: str = FIRST, last: str = LAST, seed: int = SEED) -> pd.DataFrame:
    """Make the hourly usage of series, from the first day to the last."""
    time = pd.date_range(first, f"{last} 23:00", freq="h")
    hour, weekday = time.hour.to_numpy(), time.weekday.to_numpy()
    years_before_end = np.arange(len(time) - 1, -1, -1) / HOURS_PER_YEAR
    holidays = ((time.month == 12) & (time.day >= 22)) | ((time.month == 1) & (time.day <= 2))
    parts = []
    for number, series in enumerate(all_series):
        random = np.random.default_rng([seed, number])
        wave = daily_wave(series, hour) * np.asarray(series.week)[weekday]
        noise = np.exp(red_noise(len(time), series.noise, series.memory, random) - series.noise**2 / 2)
        wanted = series.level * series.growth_per_year**-years_before_end * wave * noise * np.where(holidays, 0.78, 1.0)
        served, unmet = (
            run_with_queue(wanted, series.cap)
            if series.queues
            else (np.minimum(wanted, series.cap), wanted - np.minimum(wanted, series.cap))
        )
        part = pd.DataFrame({"time": time.strftime("%Y-%m-%d %H:%M"), "workload": series.workload, "region": series.region})
        part["quantity"] = np.round(served, series.digits)
        unmet = pd.Series(np.round(unmet, series.digits)).replace(0.0, np.nan)
        part["queued_quantity"] = unmet if series.queues else np.nan
        part["refused_quantity"] = np.nan if series.queues else unmet
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def write_table(name: str, frame: pd.DataFrame, book: Path) -> None:
    """Write one table of a book, the same bytes everywhere."""
    text = frame.to_csv(index=False, float_format="%.12g", lineterminator="\n")
    (book / f"{name}.csv").write_text(text, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{book.name}/{name}.csv: {len(frame)} rows\n")


def make_other_costs() -> pd.DataFrame:
    """Make the monthly costs beside accelerators, three months of history and the whole horizon."""
    lines = (
        ("object-storage", "storage", 61_000, 1.30, "data", "CC-510", "6310", "aws"),
        ("internet-egress", "egress", 21_500, 1.35, "assistant", "CC-410", "6320", "aws"),
        ("private-network", "network", 9_200, 1.00, "platform", "CC-530", "6320", "aws"),
        ("cloud-support", "support", 38_000, 1.10, "platform", "CC-530", "6330", "aws"),
        ("infrastructure-staff", "people", 318_000, 1.06, "platform", "CC-530", "5100", ""),
        ("monitoring-and-scheduler", "software", 27_000, 1.05, "platform", "CC-530", "6340", ""),
        ("human-evaluation", "evaluation", 19_000, 1.15, "research", "CC-520", "6350", ""),
    )
    months = pd.date_range(f"{BILLED_MONTHS[0]}-01", f"{LAST_COST_MONTH}-01", freq="MS", inclusive="left")
    rows = [
        (name, month.strftime("%Y-%m-%d"), kind, round(usd * yearly ** (step / 12), -2), team, center, account, provider)
        for name, kind, usd, yearly, team, center, account, provider in lines
        for step, month in enumerate(months)
    ]
    return pd.DataFrame(rows, columns=["cost_id", "month", "kind", "usd", "team", "cost_center", "account", "provider"])


def main(book: Path = BOOK, source: Path = BOOK) -> None:
    """Write the generated tables into `book`, from the hand-kept tables of `source`."""
    usage, other_costs = make_usage(), make_other_costs()
    tables = {"usage": usage, "other_costs": other_costs, "billing": make_billing(usage, other_costs, source, BILLED_MONTHS)}
    for name, frame in tables.items():
        write_table(name, frame, book)


if __name__ == "__main__":
    main()
