"""What a schedule is worth: delays, use, fragmentation, goodput, fairness."""

import numpy as np
import pandas as pd

from capplan.questions.cluster.arrays import Prepared
from capplan.questions.cluster.state import (
    END,
    ENDED,
    LOG_AMOUNT,
    LOG_END,
    LOG_NODE,
    LOG_START,
    LOGGED,
    REMAINING,
    STATUS,
    WHOLE,
    State,
    Trace,
)
from capplan.text import duration_words


def occupancy(jobs: pd.DataFrame, held: pd.DataFrame, origin: pd.Timestamp) -> pd.DataFrame:
    """Return what was held and what waited as steps: [time, seconds, accelerators, waiting_jobs, waiting_accelerators].

    A job counts as waiting from its submission to its first start.
    """
    started = jobs["start_seconds"].notna()
    moves = pd.concat(
        [
            pd.DataFrame({"seconds": held["start_seconds"], "accelerators": held["accelerators"]}),
            pd.DataFrame({"seconds": held["end_seconds"], "accelerators": -held["accelerators"]}),
            pd.DataFrame({"seconds": jobs["submit_seconds"], "waiting_jobs": 1, "waiting_accelerators": jobs["accelerators"]}),
            pd.DataFrame(
                {
                    "seconds": jobs.loc[started, "start_seconds"],
                    "waiting_jobs": -1,
                    "waiting_accelerators": -jobs.loc[started, "accelerators"],
                }
            ),
        ],
        ignore_index=True,
    ).fillna(0.0)
    steps = moves.groupby("seconds").sum().cumsum().round(6).reset_index()
    steps.insert(0, "time", origin + pd.to_timedelta(steps["seconds"], unit="s"))
    return steps


def size_band(accelerators: pd.Series) -> pd.Series:
    """Put jobs into bands of size: a part of one, 1, 2-4, 5-8, 9-32, above."""
    names = ["part of one", "1", "2 to 4", "5 to 8", "9 to 32", "more than 32"]
    return pd.cut(accelerators, [-1, 0.9995, 1, 4, 8, 32, np.inf], labels=names).astype(str)


def _delays(groups: pd.Series, jobs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return percentiles of waiting and completion by group."""
    rows = []
    for group, part in jobs.groupby(groups, sort=False):
        wait, done = part["queue_seconds"].dropna(), part["completion_seconds"].dropna()
        rows.append(
            {
                name: group,
                "jobs": len(part),
                "queue_mean_seconds": wait.mean(),
                **{f"queue_p{level}_seconds": wait.quantile(level / 100) if len(wait) else np.nan for level in (50, 90, 99)},
                "completion_mean_seconds": done.mean(),
                **{f"completion_p{level}_seconds": done.quantile(level / 100) if len(done) else np.nan for level in (50, 90)},
                "slowdown_mean": part["slowdown"].mean(),
                "smallest": part["accelerators"].min(),
            }
        )
    return pd.DataFrame(rows)


def by_size(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return delays by size of job, small to large."""
    frame = _delays(size_band(jobs["accelerators"]), jobs, "size")
    return frame.sort_values("smallest").drop(columns="smallest").reset_index(drop=True)


def by_team(jobs: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """Return delays and accelerator-hours by team."""
    frame = _delays(jobs["team"], jobs, "team").drop(columns="smallest")
    hours = held["accelerators"] * (held["end_seconds"] - held["start_seconds"]) / 3600
    used = hours.groupby(held["job_id"].map(jobs.set_index("job_id")["team"])).sum()
    frame["accelerator_hours"] = frame["team"].map(used).fillna(0.0)
    return frame.sort_values("team").reset_index(drop=True)


def fragmentation_share(size: np.ndarray, log: np.ndarray, at_seconds: float) -> float:
    """Return the share of free accelerators at an instant that stand on nodes already in use; empty where none is free.

    Args:
        log: Columns LOG_JOB to LOG_END of the state.
    """
    then = log[(log[:, LOG_START] <= at_seconds) & (log[:, LOG_END] > at_seconds)]
    used = np.bincount(then[:, LOG_NODE].astype(np.int64), weights=then[:, LOG_AMOUNT], minlength=len(size))
    free = size - used
    return float(free[used > 0].sum() / free.sum()) if free.sum() > 1e-9 else np.nan


def allocated_share(size: np.ndarray, log: np.ndarray, window_seconds: float) -> float:
    """Return the share of all accelerator-seconds up to the end of a window that jobs held."""
    inside = np.minimum(log[:, LOG_END], window_seconds) - np.minimum(log[:, LOG_START], window_seconds)
    return float(inside @ log[:, LOG_AMOUNT]) / (window_seconds * float(size.sum()))


def mean_accelerators(trace: Trace) -> float:
    """Return what a trace occupies on average from its first submission to its last, or over its longest job where that is longer."""
    seconds = max(float(trace.submit[-1]), float(trace.work.max()))
    return float(trace.work @ (trace.need + trace.parts / WHOLE)) / seconds


def window_of(prepared: Prepared, state: State) -> float:
    """Return the seconds up to the last submission; of one moment up to the last end, so that no tail dilutes its use."""
    last = float(prepared.trace.submit[-1])
    ends = state.job[END][state.counts[STATUS] == ENDED]
    return last or (float(ends.max()) if len(ends) else 0.0) or 1.0


def cluster_measures(prepared: Prepared, state: State, jobs: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the measures of the whole cluster: [measure, value, unit].

    Utilisation counts from the first to the last submission, so that the tail after it does not dilute it. Finish-time
    fairness compares a job with what it would take on its team's equal part of the cluster: above 1 it did worse.
    """
    log = state.log[: int(state.scalars[LOGGED])]
    size = float(prepared.cluster.size.sum())
    window = window_of(prepared, state)
    allocated = allocated_share(prepared.cluster.size, log, window)
    spent = float((log[:, LOG_END] - log[:, LOG_START]) @ log[:, LOG_AMOUNT])
    asked = prepared.trace.need + prepared.trace.parts / WHOLE
    useful = float(((prepared.trace.work - state.job[REMAINING]) * asked)[state.counts[STATUS] == ENDED].sum())
    present = np.linspace(0.05, 0.95, 19) * window
    frayed = [fragmentation_share(prepared.cluster.size, log, float(instant)) for instant in present]
    wait = jobs["queue_seconds"].dropna()
    teams = len(prepared.teams)
    alone = jobs["run_seconds"] * np.maximum(1.0, jobs["accelerators"] * teams / size)
    fairness = (jobs["completion_seconds"] / alone.clip(lower=10.0)).dropna()
    dated = prepared.jobs["deadline"].notna()
    missed = float(jobs.loc[dated.to_numpy(), "deadline_missed"].mean()) if dated.any() else np.nan
    rows = [
        ("jobs", float(len(jobs)), "jobs"),
        ("accelerators", size, "accelerators"),
        ("queue_mean", float(wait.mean()), "s"),
        ("queue_p50", float(wait.quantile(0.5)) if len(wait) else np.nan, "s"),
        ("queue_p90", float(wait.quantile(0.9)) if len(wait) else np.nan, "s"),
        ("queue_p99", float(wait.quantile(0.99)) if len(wait) else np.nan, "s"),
        ("completion_mean", float(jobs["completion_seconds"].mean()), "s"),
        ("completion_p90", float(jobs["completion_seconds"].quantile(0.9)), "s"),
        ("slowdown_mean", float(jobs["slowdown"].mean()), "ratio"),
        ("allocated_share", allocated, "share"),
        ("computing_share", allocated * (useful / spent if spent else 0.0), "share"),
        ("goodput_share", useful / spent if spent else np.nan, "share"),
        ("fragmentation_share", float(np.nanmean(frayed)) if not np.isnan(frayed).all() else np.nan, "share"),
        ("fairness_p90", float(fairness.quantile(0.9)) if len(fairness) else np.nan, "ratio"),
        ("deadline_missed_share", missed, "share"),
        ("preemptions", float(jobs["preemptions"].sum()), "preemptions"),
        ("resizes", float(jobs["resizes"].sum()), "resizes"),
        ("lost_hours", float((jobs["lost_seconds"] * jobs["accelerators"]).sum() / 3600), "accelerator-hours"),
        ("unfinished", float(jobs["end_seconds"].isna().sum()), "jobs"),
        ("busiest", float(steps["accelerators"].max()), "accelerators"),
    ]
    return pd.DataFrame(rows, columns=["measure", "value", "unit"])


def headline(jobs: pd.DataFrame, measures: pd.DataFrame) -> str:
    """Return the deciding sentence."""
    values = measures.set_index("measure")["value"]
    if not jobs["queue_seconds"].notna().any():
        return f"None of the {len(jobs):,} jobs ever ends on {values['accelerators']:,.0f} accelerators; the notes say why."
    return (
        f"Nine of ten jobs wait at most {duration_words(values['queue_p90'])} on {values['accelerators']:,.0f} accelerators "
        f"(mean {duration_words(values['queue_mean'])}), which are {values['allocated_share']:.0%} allocated."
    )
