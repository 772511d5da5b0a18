"""Make jobs.csv and nodes.csv of data/enterprise: thirteen weeks of an invented scheduler trace on an invented cluster.

Run it with `python tools/make_enterprise_jobs.py`; the same seed gives the same bytes. All of it is made up. What the shapes follow:

- sizes and durations: most jobs hold one accelerator, a few large ones hold most of the accelerator-hours, and durations have a heavy tail
  (Jeon et al., USENIX ATC 2019, on Microsoft Philly; Hu et al., NSDI 2024, on Acme);
- submissions follow the working day in the United States and the working week;
- the five batch workloads of the book have the shares of accelerator-hours that their usage has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

BOOK = Path(__file__).resolve().parents[1] / "data" / "enterprise"
SEED = 20261202
FIRST, DAYS = pd.Timestamp("2026-08-31"), 91
JOBS = 5000
#: Accelerators the jobs keep busy on average.
MEAN_ACCELERATORS = 150.0
#: Longest job before all durations are scaled to that mean.
LONGEST_HOURS = 60.0
#: Monday to Sunday, and hour of the day in UTC: submissions follow people.
WEEK = (1.1, 1.25, 1.25, 1.2, 1.05, 0.55, 0.6)
OFFICE_HOURS, OFFICE_FACTOR = range(14, 24), 3.0


@dataclass(frozen=True)
class Kind:
    """Jobs of one workload: its team, share of all jobs, sizes with their weights, and the median duration in hours."""

    workload: str
    team: str
    share: float
    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    median_hours: float
    spread: float
    elastic_share: float = 0.0


KINDS = (
    Kind("data_prep", "data", 0.24, (1, 2, 4, 8, 16), (0.50, 0.17, 0.13, 0.15, 0.05), 2.0, 1.3, 0.5),
    Kind("pretraining", "research", 0.10, (8, 16, 32, 64), (0.50, 0.30, 0.15, 0.05), 3.0, 1.4),
    Kind("alignment", "research", 0.16, (1, 4, 8, 16, 32), (0.30, 0.20, 0.32, 0.13, 0.05), 2.5, 1.3, 0.2),
    Kind("tuning", "customers", 0.22, (1, 2, 4, 8), (0.45, 0.20, 0.15, 0.20), 2.5, 1.2, 0.2),
    Kind("evaluation", "research", 0.28, (1, 2, 4, 8), (0.70, 0.10, 0.10, 0.10), 0.5, 1.4),
)


def make_jobs() -> pd.DataFrame:
    """Return the trace, in the order of submission."""
    generator = np.random.default_rng(SEED)
    hours = pd.date_range(FIRST, periods=24 * DAYS, freq="h")
    weight = np.array([WEEK[time.dayofweek] * (OFFICE_FACTOR if time.hour in OFFICE_HOURS else 1.0) for time in hours])
    # a busy week brings busy hours: slow swings around the pattern
    swing = np.repeat(generator.gamma(6.0, 1 / 6.0, size=DAYS), 24)
    submit = hours[generator.choice(len(hours), size=JOBS, p=weight * swing / (weight * swing).sum())]
    submit = submit + pd.to_timedelta(generator.integers(0, 3600, size=JOBS), unit="s")
    kind = generator.choice(len(KINDS), size=JOBS, p=[found.share for found in KINDS])
    accelerators = np.zeros(JOBS, dtype=int)
    run_hours = np.zeros(JOBS)
    least = np.full(JOBS, np.nan)
    for index, found in enumerate(KINDS):
        rows = np.flatnonzero(kind == index)
        accelerators[rows] = generator.choice(found.sizes, size=len(rows), p=found.weights)
        run_hours[rows] = found.median_hours * np.exp(found.spread * generator.standard_normal(len(rows)))
        elastic = (generator.random(len(rows)) < found.elastic_share) & (accelerators[rows] >= 4)
        least[rows[elastic]] = accelerators[rows[elastic]] // 2
    run_hours = np.clip(run_hours, 1 / 60, LONGEST_HOURS)
    run_hours = run_hours * MEAN_ACCELERATORS * 24 * DAYS / (run_hours * accelerators).sum()
    # owners ask for more time than the job needs, in whole half hours
    asked = np.ceil(run_hours * generator.uniform(1.1, 3.0, size=JOBS) * 2) / 2
    frame = pd.DataFrame(
        {
            "submit": submit,
            "duration_seconds": np.round(run_hours * 3600).astype(int),
            "accelerators": accelerators,
            "team": [KINDS[index].team for index in kind],
            "workload": [KINDS[index].workload for index in kind],
            "expected_seconds": (asked * 3600).astype(int),
            "least_accelerators": least,
            "priority": np.where(kind == 1, 1, 0),
        }
    )
    frame = frame.sort_values("submit", kind="stable").reset_index(drop=True)
    frame.insert(0, "job_id", [f"Q{index + 1:05d}" for index in range(JOBS)])
    return _with_evidence(frame)


def _with_evidence(frame: pd.DataFrame) -> pd.DataFrame:
    """Add what the monitoring of the last four weeks saw: utilisation (52 % on Philly, Jeon et al.), waits for data, racks, storage."""
    generator = np.random.default_rng(SEED + 1)
    seen = (frame["submit"] >= frame["submit"].max() - pd.Timedelta(days=28)).to_numpy()
    work = frame["workload"].to_numpy()
    used = np.where(work == "evaluation", generator.beta(3, 6, JOBS), generator.beta(6, 4, JOBS))
    used = np.where(generator.random(JOBS) < 0.04, generator.uniform(0, 0.03, JOBS), used)
    waits = np.round((1 - used) * generator.beta(2, 3, JOBS), 2)
    racks = np.where(frame["accelerators"].to_numpy() > 8, np.where(generator.random(JOBS) < 0.3, 2, 1), 1)
    frame["utilisation_share"] = pd.Series(np.round(used, 2)).where(seen)
    frame["data_wait_share"] = pd.Series(waits).where(seen)
    frame["racks"] = pd.Series(racks, dtype="Int64").where(seen)
    frame["storage"] = pd.Series(np.where(generator.random(JOBS) < 0.25, "network", "local")).where(seen)
    return frame


def make_nodes() -> pd.DataFrame:
    """Return the cluster: racks of eight-accelerator nodes that serve `chat` and run the jobs, and a few CPU nodes.

    Capacities and prices of the nodes with accelerators are those of p5.48xlarge (data/reference, skus.csv and offers.csv; its 8 x 3.84 TB
    of local SSD as Amazon states them).
    """
    racks = [f"rack-{index + 1:02d}" for index in range(8)]
    size = {
        "kind": "p5.48xlarge",
        "cpus": 192,
        "memory_gib": 2048,
        "local_ssd_gib": 28610,
        "site": "virginia",
        "geography": "us",
        "usd_per_hour": 55.04,
    }
    # serving and other teams keep most racks in the weeks for which the example pipeline is placed
    until = pd.to_datetime(["2027-04-01 00:00"] * 6 + ["2027-02-02 12:00", None])
    h100 = pd.DataFrame(
        {
            "node": [f"us-{rack}" for rack in racks],
            "accelerator": "H100",
            "accelerator_count": 8,
            "nodes": 8,
            "domain": racks,
            **size,
            "taken_until": until,
        }
    )
    cpu = pd.DataFrame(
        {
            "node": ["us-cpu", "eu-cpu"],
            "accelerator": "none",
            "accelerator_count": 0,
            "nodes": [2, 1],
            "domain": ["rack-09", "eu-rack-01"],
            "kind": "cpu-96",
            "cpus": 96,
            "memory_gib": 768,
            "local_ssd_gib": 7000,
            "site": ["virginia", "frankfurt"],
            "geography": ["us", "eu"],
            "usd_per_hour": 5.5,
        }
    )
    away = cpu["node"].eq("us-cpu")
    cpu["away_from"], cpu["away_to"] = (
        pd.Series(pd.NaT, index=cpu.index).mask(away, pd.Timestamp(f"2027-01-31 {hour}:00")) for hour in ("02", "06")
    )
    return pd.concat([h100, cpu], ignore_index=True)


def main() -> None:
    """Write both tables."""
    jobs = make_jobs()
    jobs["least_accelerators"] = jobs["least_accelerators"].astype("Int64")
    for name, frame in (("jobs", jobs), ("nodes", make_nodes())):
        frame.to_csv(BOOK / f"{name}.csv", index=False, date_format="%Y-%m-%d %H:%M:%S", lineterminator="\n")


if __name__ == "__main__":
    main()
