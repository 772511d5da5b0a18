"""Queue headroom: how many more accelerators than the mean load occupies a delay target needs, quarter by quarter."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.book.policies import policy_named
from capplan.errors import CapplanError
from capplan.questions.cluster.arrays import Prepared, arrivals, prepare
from capplan.questions.cluster.capacity import nine_of_ten
from capplan.questions.cluster.measures import mean_accelerators
from capplan.questions.cluster.reading import checked_jobs, checked_nodes
from capplan.questions.cluster.simulate_cluster import queue_seconds, run_events
from capplan.text import duration_words

#: Sizes are tried in steps of this share of the mean load, or of a node where that is more.
STEP_SHARE = 0.01
#: Growth is simulated in steps of this ratio, and what lies between is interpolated, so that chance in what is drawn does not move one
#: quarter against the next.
GROWTH_STEP = 1.25
#: Less work than this share of the trace is taken as this share.
LEAST_GROWTH = 0.01
#: The quarter of an answer that knows of no growth.
ALWAYS = "always"


@dataclass(frozen=True)
class Headroom:
    """What a delay target needs beyond mean hours.

    Args:
        levels: [quarter, growth (work against the trace), mean_accelerators, needed_accelerators, factor]: what the jobs of a quarter
            occupy on average, the cluster that meets the target, in whole nodes, and the ratio of the two before rounding.
        factors: [workload, quarter, jobs, accelerator_hours (both of the trace), factor]: by how much the work of a workload is raised.
        sizes: [growth, accelerators, queue_p90_seconds]: every size that was tried.
        headline, notes: The deciding sentence; assumptions.
    """

    levels: pd.DataFrame
    factors: pd.DataFrame
    sizes: pd.DataFrame
    headline: str
    notes: tuple[str, ...]

    @property
    def mean_accelerators(self) -> float:
        """What the jobs occupy on average in the first quarter."""
        return float(self.levels["mean_accelerators"].iloc[0])

    @property
    def needed_accelerators(self) -> int:
        """The smallest cluster that meets the target in the first quarter."""
        return int(self.levels["needed_accelerators"].iloc[0])

    @property
    def factor(self) -> float:
        """The factor of the first quarter."""
        return float(self.levels["factor"].iloc[0])


@dataclass(frozen=True)
class _Queue:
    """The jobs of a trace in one queue, on clusters of equal nodes."""

    jobs: pd.DataFrame
    kind: str
    size: int
    a: ClusterAssumptions

    @property
    def least(self) -> int:
        """Nodes that the largest job needs."""
        return max(int(np.ceil(float(self.jobs["accelerators"].max()) / self.size)), 1)

    def prepared(self, count: int, known: Prepared | None = None) -> Prepared:
        """Return the jobs on so many nodes."""
        cluster = pd.DataFrame({"node": ["n"], "accelerator": [self.kind], "accelerator_count": [self.size], "nodes": [count]})
        policy = policy_named(self.a.cluster_policy)
        return prepare(arrivals(self.jobs, cluster, policy, self.a, known=known.arrived if known else None), cluster, policy, self.a)

    def needed(self, mean: float, spare: float) -> tuple[int, dict[int, float]]:
        """Return the smallest cluster that meets the target, and the waits by size; the search begins at mean + spare sqrt(mean)."""
        first = self.prepared(self.least)
        lowest = max(self.least, int(np.ceil(mean / self.size - 1e-9)))
        step = max(1, round(STEP_SHARE * mean / self.size))
        target = 3600 * self.a.training_delay_target_hours if self.a.training_delay_target_hours is not None else np.inf
        tried: dict[int, float] = {}

        def meets(steps: int) -> bool:
            count = lowest + steps * step
            if count * self.size not in tried:
                prepared = self.prepared(count, first)
                tried[count * self.size] = nine_of_ten(np.nan_to_num(queue_seconds(prepared, run_events(prepared)), nan=np.inf))
            return tried[count * self.size] <= target

        steps = max(round(((mean + spare * np.sqrt(mean)) / self.size - lowest) / step), 0)
        most = int(np.ceil(float(self.jobs["accelerators"].sum()) / self.size / step))
        while not meets(steps):
            if steps > most:
                raise CapplanError(
                    f"training_delay_target_hours = {self.a.training_delay_target_hours:g}: even {(lowest + steps * step) * self.size:,}"
                    " accelerators, more than all jobs ask for together, do not start nine of ten jobs in time, since failures displace"
                    " them; set a longer target"
                )
            steps = max(1, 2 * steps)
        while steps > 0 and meets(steps - 1):
            steps -= 1
        return (lowest + steps * step) * self.size, tried


def queue_headroom(
    jobs: pd.DataFrame, nodes: pd.DataFrame, workloads: Iterable[str], a: ClusterAssumptions, growth: pd.DataFrame | None = None
) -> Headroom:
    r"""Say how much more than mean hours a delay target needs, in every quarter.

    .. math:: f(n) = N(n) / m(n), \qquad m(n) = \sum_j n\, d_j g_j / T

    d and g are duration and accelerators of a job, n how many jobs come for each one of the trace, T the time from the first submission to
    the last; N is the
    smallest cluster at which, as at every larger one that was tried, nine of ten jobs start within a.training_delay_target_hours. All jobs
    share one queue under
    a.cluster_policy. Where work grows, more jobs come, not larger ones; f is simulated at powers of GROWTH_STEP and interpolated over log
    n.

    Args:
        jobs: Table jobs; those without a workload count as batch work, those of other workloads do not.
        nodes: Table nodes; the cluster that is sized has nodes like its commonest.
        growth: [workload, quarter, growth]: work of a quarter against that of the trace; workloads count by their accelerator-hours in it.
            Empty = the trace, always.

    Raises:
        CapplanError: If no target is set, no job belongs to the workloads, or no size meets the target.

    Source: M/M/c (Erlang C) is the special case of jobs of one accelerator, Poisson arrivals and exponential durations; a test holds it
        against that. That a larger cluster needs less spare for the same wait: Halfin and Whitt, Operations Research 29 (1981); their
        square root is where the search begins.
    """
    if a.training_delay_target_hours is None:
        raise CapplanError("training_delay_target_hours is not set, so there is no queue headroom to look for; give it in hours")
    jobs, nodes, known = checked_jobs(jobs), checked_nodes(nodes), sorted(set(workloads))
    named = jobs["workload"] if "workload" in jobs else pd.Series(None, index=jobs.index, dtype=object)
    mine = jobs[named.isna() | named.isin(known)]
    if mine.empty:
        raise CapplanError(
            f"jobs: none belongs to a workload whose queue is planned ({', '.join(known) or 'there is no batch workload'}); "
            "name them in the column workload, or leave training_delay_target_hours empty"
        )
    group = nodes.loc[(nodes["accelerator_count"] * nodes["nodes"]).idxmax()]
    mine = mine.drop(columns=["accelerator"], errors="ignore").assign(workload=named[mine.index]).reset_index(drop=True)
    kind, size = str(group["accelerator"]), int(group["accelerator_count"])
    wanted = _growth(growth, mine, known)
    low, high = (
        int(round_to(np.log(value) / np.log(GROWTH_STEP)))
        for value, round_to in ((round(wanted.min(), 9), np.floor), (round(wanted.max(), 9), np.ceil))
    )
    queue = _Queue(mine, kind, size, a)
    today = queue.prepared(queue.least)
    mean, found, sizes, spare = mean_accelerators(today.trace), {}, [], 0.0
    for power in sorted(range(low, high + 1), key=abs):
        load = mean * GROWTH_STEP**power
        needed, tried = _Queue(grown(mine, GROWTH_STEP**power, a.seed), kind, size, a).needed(load, spare)
        spare, found[power] = (needed - load) / np.sqrt(load), max(needed / load, 1.0)
        sizes += [(GROWTH_STEP**power, total, wait) for total, wait in tried.items()]
    powers = sorted(found)
    factor = np.interp(np.log(wanted) / np.log(GROWTH_STEP), powers, [found[power] for power in powers])
    cluster = np.ceil(factor * mean * wanted / size - 1e-9).astype(int) * size
    levels = {
        "quarter": wanted.index,
        "growth": wanted.to_numpy(),
        "mean_accelerators": mean * wanted.to_numpy(),
        "needed_accelerators": cluster.to_numpy(),
        "factor": factor,
    }
    table = pd.DataFrame(levels)
    headline = _headline(table, duration_words(3600 * a.training_delay_target_hours))
    note = (
        f"{headline} So that nine of ten jobs start in time, counted on {kind} with {len(mine):,} jobs of the trace in one queue, the plan"
        " carries that much more of their work in every hour"
        + ("; more work is taken to be more jobs, not larger ones." if growth is not None else "; where their work grows, less would do.")
    )
    tries = pd.DataFrame(sizes, columns=["growth", "accelerators", "queue_p90_seconds"]).sort_values(
        ["growth", "accelerators"], ignore_index=True
    )
    return Headroom(table, _factors(mine, known, table), tries, headline, (*today.notes, note))


def _growth(growth: pd.DataFrame | None, jobs: pd.DataFrame, known: list[str]) -> pd.Series:
    """Return the growth of all work by quarter; workloads count by their accelerator-hours in the trace, alike where it names none."""
    if growth is None or growth.empty:
        return pd.Series([1.0], index=[ALWAYS])
    wide = growth.pivot_table(index="quarter", columns="workload", values="growth").reindex(columns=known)
    hours = _hours(jobs).groupby(jobs["workload"]).sum().reindex(known).fillna(0.0)
    weight = hours.where(wide.notna().any(), 0.0)
    weight = weight if weight.sum() > 0 else wide.notna().any().astype(float)
    return (wide.fillna(0.0) @ weight / weight.sum()).clip(lower=LEAST_GROWTH)


def grown(jobs: pd.DataFrame, times: float, seed: int) -> pd.DataFrame:
    """Return a trace with so many times as many jobs.

    Jobs of the trace keep their time; copies are moved around it by whole weeks, or days where it is shorter than four weeks, so that they
    keep hour and weekday but
    not the company they came in. Fractions are drawn evenly over the jobs of a workload from small to large, so that their work is what is
    asked for.
    """
    order = np.lexsort((_hours(jobs), jobs["workload"].fillna("")))
    drawn = np.floor((times % 1.0) * np.arange(1, len(jobs) + 1) + np.random.default_rng([seed, 47]).uniform() + 1e-9)
    copies = np.full(len(jobs), int(times))
    copies[order] += np.diff(drawn, prepend=0.0).astype(int)
    start = jobs["submit"].min()
    past = (jobs["submit"] - start).dt.total_seconds().to_numpy()
    unit = next((length for length in (7 * 86400.0, 86400.0, 3600.0) if past.max() >= 4 * length), max(float(past.max()), 1.0) / 4)
    blocks = max(int(past.max() // unit) + 1, 2)
    parts = [jobs[copies > 0]]
    for copy in range(1, int(copies.max())):
        rows = np.flatnonzero(copies > copy)
        shift = np.random.default_rng([seed, 53, copy]).integers(1, blocks, size=len(rows)) * unit
        moved = start + pd.to_timedelta((past[rows] + shift) % (blocks * unit), unit="s")
        parts.append(jobs.iloc[rows].assign(submit=moved, job_id=jobs["job_id"].iloc[rows].astype(str) + f"#{copy}"))
    frame = pd.concat(parts, ignore_index=True)
    if frame.empty:
        frame = jobs.iloc[order[-1:]]
    return frame.sort_values("submit", kind="stable").reset_index(drop=True)


def _hours(jobs: pd.DataFrame) -> pd.Series:
    """Return the accelerator-hours of each job."""
    return jobs["accelerators"] * jobs["duration_seconds"].fillna(0.0) / 3600


def _headline(levels: pd.DataFrame, target: str) -> str:
    """Return the deciding sentence."""
    first, last = levels.iloc[0], levels.iloc[-1]
    when = "" if first["quarter"] == ALWAYS else f" in {first['quarter']}"
    text = (
        f"The delay target of {target} needs {first['factor'] - 1:.0%} more than mean hours{when}: {first['needed_accelerators']:,}"
        f" accelerators instead of {first['mean_accelerators']:,.0f}"
    )
    if len(levels) == 1:
        return text + "."
    return f"{text}; {last['factor'] - 1:.0%} in {last['quarter']}, with {last['growth']:.3g} times the work."


def _factors(jobs: pd.DataFrame, known: list[str], levels: pd.DataFrame) -> pd.DataFrame:
    """Return the factor of each workload that has jobs, by quarter; of all of them, where no job names its workload."""
    count, total = jobs["workload"].value_counts(), _hours(jobs).groupby(jobs["workload"]).sum()
    rows = [name for name in known if name in count.index] or known
    frame = pd.DataFrame(
        {
            "workload": rows,
            "jobs": [int(count.get(name, 0)) for name in rows],
            "accelerator_hours": [float(total.get(name, 0.0)) for name in rows],
        }
    )
    return frame.merge(levels[["quarter", "factor"]], how="cross")[["workload", "quarter", "jobs", "accelerator_hours", "factor"]]
