"""Queue headroom: how many more accelerators than the mean load occupies a delay target needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.inputs.assumptions_cluster import ClusterAssumptions
from capplan.questions.cluster.capacity import nine_of_ten
from capplan.questions.cluster.measures import duration_words, mean_accelerators
from capplan.questions.cluster.policies import policy_named
from capplan.questions.cluster.simulate import queue_seconds, run_events
from capplan.questions.cluster.tables import Prepared, prepare

#: Sizes are tried in steps of this share of the mean load, or of a node where that is more.
STEP_SHARE = 0.01


@dataclass(frozen=True)
class Headroom:
    """What a delay target needs beyond mean hours.

    Parameters
    ----------
    factors
        [workload, jobs, accelerator_hours, factor]: each workload of the trace, and by how much its work is raised.
    sizes
        [accelerators, queue_p90_seconds]: every size that was tried.
    mean_accelerators, needed_accelerators
        What the jobs occupy on average, and the smallest cluster that meets the target.
    factor
        needed / mean; 1 without a target.
    headline, notes
        The deciding sentence; assumptions.
    """

    factors: pd.DataFrame
    sizes: pd.DataFrame
    mean_accelerators: float
    needed_accelerators: int
    factor: float
    headline: str
    notes: tuple[str, ...]

    def by_workload(self) -> dict[str, float]:
        """Return the factor of each workload."""
        return dict(zip(self.factors["workload"], self.factors["factor"], strict=True))


def queue_headroom(jobs: pd.DataFrame, nodes: pd.DataFrame, workloads: Iterable[str], a: ClusterAssumptions) -> Headroom:
    r"""Say how much more than mean hours a delay target needs.

    .. math:: f = N / m, \qquad m = \sum_j d_j g_j / T

    d and g are duration and accelerators of a job, T the time from the first submission to the last; N is the smallest cluster at which, as at every larger
    one that was tried, nine of ten jobs start within a.training_delay_target_hours. All jobs share one queue under a.cluster_policy.

    Parameters
    ----------
    jobs
        Table jobs; those of other workloads are left out, those that name none count.
    nodes
        Table nodes; the cluster that is sized has nodes like its commonest.
    workloads
        Batch workloads of the plan.
    a
        The target, the policy and its costs.

    Raises
    ------
    CapplanError
        If no target is set, no job belongs to the workloads, or no size meets the target.

    Source
    ------
    M/M/c (Erlang C) is the special case of jobs of one accelerator, Poisson arrivals and exponential durations; a test holds it against that.
    """
    if a.training_delay_target_hours is None:
        raise CapplanError("training_delay_target_hours is not set, so there is no queue headroom to look for; give it in hours")
    known = sorted(set(workloads))
    named = jobs["workload"] if "workload" in jobs else pd.Series(None, index=jobs.index, dtype=object)
    mine = jobs[named.isna() | named.isin(known)]
    if mine.empty:
        raise CapplanError(
            f"jobs: none belongs to a workload whose queue is planned ({', '.join(known) or 'there is no batch workload'}); "
            "name them in the column workload, or leave training_delay_target_hours empty"
        )
    group = nodes.loc[(nodes["accelerator_count"] * nodes.get("nodes", 1)).idxmax()]
    kind, size = str(group["accelerator"]), int(group["accelerator_count"])
    mine = mine.drop(columns=["accelerator"], errors="ignore")

    def on(count: int, known: Prepared | None = None) -> Prepared:
        cluster = pd.DataFrame({"node": ["n"], "accelerator": [kind], "accelerator_count": [size], "nodes": [count]})
        return prepare(mine, cluster, policy_named(a.cluster_policy), a, known=known)

    least = max(int(np.ceil(float(mine["accelerators"].max()) / size)), 1)
    first = on(least)
    mean = mean_accelerators(first.trace)
    lowest = max(least, int(np.ceil(mean / size - 1e-9)))
    step = max(1, round(STEP_SHARE * mean / size))
    target = 3600 * a.training_delay_target_hours
    tried: dict[int, float] = {}

    def meets(steps: int) -> bool:
        count = lowest + steps * step
        if count not in tried:
            prepared = on(count, first)
            tried[count] = nine_of_ten(np.nan_to_num(queue_seconds(prepared, run_events(prepared)), nan=np.inf))
        return tried[count] <= target

    steps, most = 0, int(np.ceil(float(mine["accelerators"].sum()) / size / step))
    while not meets(steps):
        if steps > most:
            raise CapplanError(
                f"training_delay_target_hours = {a.training_delay_target_hours:g}: even {(lowest + steps * step) * size:,} accelerators, more than all jobs ask "
                "for together, do not start nine of ten jobs in time, since failures displace them; set a longer target"
            )
        steps = max(1, 2 * steps)
    while steps > 0 and meets(steps - 1):
        steps -= 1
    needed = (lowest + steps * step) * size
    factor = max(needed / mean, 1.0)
    sizes = pd.DataFrame({"accelerators": [count * size for count in sorted(tried)], "queue_p90_seconds": [tried[count] for count in sorted(tried)]})
    words = duration_words(target)
    headline = f"The delay target of {words} needs {factor - 1:.0%} more than mean hours: {needed:,} accelerators instead of {mean:,.0f}."
    notes = [
        *first.notes,
        f"{headline} So that nine of ten of {len(mine):,} jobs start in time, counted on {kind}, the plan carries {factor:.3g} times their work in every hour; "
        "where their work grows, less would do.",
    ]
    return Headroom(
        factors=_factors(mine, known, factor),
        sizes=sizes,
        mean_accelerators=mean,
        needed_accelerators=needed,
        factor=factor,
        headline=headline,
        notes=tuple(notes),
    )


def _factors(jobs: pd.DataFrame, known: list[str], factor: float) -> pd.DataFrame:
    """Return the factor of each workload that has jobs; of all of them, where no job names its workload."""
    hours = jobs["accelerators"] * jobs["duration_seconds"].fillna(0.0) / 3600
    named = jobs["workload"] if "workload" in jobs else pd.Series(None, index=jobs.index, dtype=object)
    count, total = named.value_counts(), hours.groupby(named).sum()
    rows = [name for name in known if name in count.index] or known
    return pd.DataFrame(
        {
            "workload": rows,
            "jobs": [int(count.get(name, 0)) for name in rows],
            "accelerator_hours": [float(total.get(name, 0.0)) for name in rows],
            "factor": factor,
        }
    )
