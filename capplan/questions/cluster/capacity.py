"""The capacity curve: waiting against the size of the cluster, with a band from resampled traces."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.book.policies import Policy, policy_named
from capplan.errors import CapplanError
from capplan.questions.cluster.arrays import arrivals, prepare
from capplan.questions.cluster.measures import allocated_share, window_of
from capplan.questions.cluster.reading import checked_jobs, checked_nodes
from capplan.questions.cluster.simulate_cluster import queue_seconds, run_events
from capplan.questions.cluster.state import LOGGED
from capplan.text import duration_words
from capplan.workers import spread, workers

#: Jobs, over all simulations of a curve, from which on other processes are worth their start.
PARALLEL_FROM = 1_000_000
#: Sizes of a trace that are done in one piece, since they share what is made of the jobs.
SIZES_TOGETHER = 5


@dataclass(frozen=True)
class CapacityCurve:
    """Waiting against size.

    Args:
        curve: [accelerators, queue_mean_seconds, queue_p90_seconds, low_seconds, high_seconds, allocated_share]; low and high bound the
            90th percentile of waiting over the resampled traces.
        smallest: Fewest accelerators on the curve at which it and all larger sizes meet the delay target; None where none does.
        headline, notes: The deciding sentence; assumptions.
    """

    curve: pd.DataFrame
    smallest: int | None
    headline: str
    notes: tuple[str, ...]


def resized(nodes: pd.DataFrame, added_accelerators: int) -> pd.DataFrame:
    """Return the nodes with accelerators added to their largest group, or taken from the last groups, in whole nodes.

    Raises:
        CapplanError: Where more is taken than there is; one node with accelerators must be left.
    """
    frame = nodes.reset_index(drop=True).copy()
    if added_accelerators == 0:
        return frame
    if "nodes" not in frame:
        frame["nodes"] = 1
    if added_accelerators > 0:
        group = int((frame["nodes"] * frame["accelerator_count"]).to_numpy().argmax())
        frame.loc[group, "nodes"] += int(np.ceil(added_accelerators / int(frame.loc[group, "accelerator_count"])))
        return frame
    left = -added_accelerators
    for row in range(len(frame) - 1, -1, -1):
        size, count = int(frame.loc[row, "accelerator_count"]), int(frame.loc[row, "nodes"])
        if size == 0:  # nodes without accelerators have none to give
            continue
        gone = min(count, -(-left // size) if left > 0 else 0)
        frame.loc[row, "nodes"] = count - gone
        left -= gone * size
    if left > 0 or not (frame["nodes"] * frame["accelerator_count"]).any():
        total = int((nodes["accelerator_count"] * nodes.get("nodes", 1)).sum())
        raise CapplanError(
            f"{-added_accelerators} accelerators cannot be taken away: the cluster has only {total}, and one node with accelerators must be"
            " left"
        )
    return frame[frame["nodes"] > 0].reset_index(drop=True)


def resampled(jobs: pd.DataFrame, generator: np.random.Generator) -> pd.DataFrame:
    """Return a trace whose weeks (days, where it is shorter than four weeks) are drawn with replacement from those of the trace.

    Jobs keep their time inside the block, so that the shape of day and week and bursts stay.
    """
    start = jobs["submit"].min().normalize()
    days = (jobs["submit"] - start).dt.days
    length = 7 if days.max() >= 27 else 1
    block = (days // length).to_numpy()
    count = int(block.max()) + 1
    where = [np.flatnonzero(block == index) for index in range(count)]
    drawn = generator.integers(0, count, size=count)
    rows = np.concatenate([where[source] for source in drawn])
    shift = np.concatenate([np.full(len(where[source]), (index - source) * length) for index, source in enumerate(drawn)])
    frame = jobs.iloc[rows].reset_index(drop=True)
    moved = pd.to_timedelta(shift, unit="D")
    frame["submit"] = frame["submit"] + moved
    if "deadline" in frame:
        frame["deadline"] = frame["deadline"] + moved
    frame["job_id"] = [f"{name}#{index}" for index, name in enumerate(frame["job_id"])]
    return frame.sort_values("submit", kind="stable").reset_index(drop=True)


@dataclass(frozen=True)
class _Case:
    """One trace on clusters of several sizes: what travels to another process."""

    jobs: pd.DataFrame
    clusters: list[pd.DataFrame]
    policy: Policy
    a: ClusterAssumptions
    speeds: pd.DataFrame | None


def _points(case: _Case) -> list[tuple[float, float, float]]:
    """Return mean wait, its 90th percentile and the allocated share on each cluster; a job that never ends waits for ever."""
    found, arrived = [], None
    for nodes in case.clusters:
        arrived = arrivals(case.jobs, nodes, case.policy, case.a, case.speeds, arrived)
        prepared = prepare(arrived, nodes, case.policy, case.a)
        state = run_events(prepared)
        wait = np.nan_to_num(queue_seconds(prepared, state), nan=np.inf)
        log = state.log[: int(state.scalars[LOGGED])]
        found.append((float(wait.mean()), nine_of_ten(wait), allocated_share(prepared.cluster.size, log, window_of(prepared, state))))
    return found


def nine_of_ten(wait: np.ndarray) -> float:
    """Return the wait that nine of ten jobs do not exceed."""
    return float(np.sort(wait)[int(np.ceil(0.9 * len(wait))) - 1])


def capacity_curve(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    policy: str | Policy,
    a: ClusterAssumptions,
    sizes: list[int] | None = None,
    *,
    speeds: pd.DataFrame | None = None,
    cores: int | None = None,
) -> CapacityCurve:
    """Say how waiting falls with the size of the cluster.

    Args:
        jobs, nodes, policy, a: As in simulate_cluster; a.delay_target_minutes is the target for the 90th percentile of waiting.
        sizes: Accelerators to add to (or take from) the nodes; by default a.curve_sizes steps around what the trace needs on average.
        speeds: Table speeds, as in simulate_cluster.
        cores: Processes on this machine, -1 for one a core; empty = one a core where the simulations are long enough. With a.workers, the
            Dask cluster of that address does them.
    """
    jobs, nodes = checked_jobs(jobs), checked_nodes(nodes)
    now = int((nodes["accelerator_count"] * nodes["nodes"]).sum())
    steps = sizes if sizes is not None else _sizes(jobs, nodes, now, a)
    generator = np.random.default_rng([a.seed, 43])
    traces = [jobs, *(resampled(jobs, generator) for _ in range(a.curve_resamples))]
    clusters = [resized(nodes, step) for step in steps]
    # small sizes take longest, so each piece has some of each
    groups = -(-len(clusters) // SIZES_TOGETHER)
    places = [(row, list(range(group, len(clusters), groups))) for row in range(len(traces)) for group in range(groups)]
    cases = [_Case(traces[row], [clusters[column] for column in columns], policy_named(policy), a, speeds) for row, columns in places]
    few = len(clusters) * len(traces) * len(jobs) < PARALLEL_FROM
    with workers(a.workers, cores if cores is not None else 1 if few else -1):
        found = spread(_points, cases)
    values = np.empty((len(clusters), len(traces), 3))
    for (row, columns), points in zip(places, found, strict=True):
        values[columns, row] = points
    totals = [int((cluster["accelerator_count"] * cluster["nodes"]).sum()) for cluster in clusters]
    curve = pd.DataFrame(
        {
            "accelerators": totals,
            "queue_mean_seconds": values[:, 0, 0],
            "queue_p90_seconds": values[:, 0, 1],
            "low_seconds": values[:, :, 1].min(axis=1),
            "high_seconds": values[:, :, 1].max(axis=1),
            "allocated_share": values[:, 0, 2],
        }
    )
    curve = curve.drop_duplicates("accelerators").sort_values("accelerators").reset_index(drop=True)
    smallest = smallest_size(curve, a.delay_target_minutes)
    target = duration_words(60 * a.delay_target_minutes)
    headline = (
        f"{smallest:,} accelerators are the smallest cluster on the curve at which nine of ten jobs start within {target}; there are"
        f" {now:,}."
        if smallest is not None
        else f"Even {curve['accelerators'].max():,} accelerators do not let nine of ten jobs start within {target}."
    )
    note = f"The band is the range over the trace and {a.curve_resamples} traces resampled in blocks of weeks or days."
    return CapacityCurve(curve, smallest, headline, (note,))


def smallest_size(curve: pd.DataFrame, target_minutes: float) -> int | None:
    """Return the smallest size on the curve that meets the target together with all larger ones."""
    meets = (curve.sort_values("accelerators")["queue_p90_seconds"] <= 60 * target_minutes).to_numpy()
    lasting = np.logical_and.accumulate(meets[::-1])[::-1]
    return int(np.sort(curve["accelerators"].to_numpy())[lasting.argmax()]) if lasting.any() else None


def _sizes(jobs: pd.DataFrame, nodes: pd.DataFrame, now: int, a: ClusterAssumptions) -> list[int]:
    """Spread sizes from what the trace needs on average, or its largest job, to twice that, with the present size among them."""
    seconds = max((jobs["submit"].max() - jobs["submit"].min()).total_seconds(), float(jobs["duration_seconds"].max()), 1.0)
    mean = float((jobs["duration_seconds"].fillna(jobs["duration_seconds"].median()) * jobs["accelerators"]).sum()) / seconds
    unit = int(nodes["accelerator_count"].max())
    low = int(max(mean, jobs["accelerators"].max(), unit))
    high = max(now, 2 * low)
    return sorted({int(np.ceil(size / unit)) * unit - now for size in np.linspace(low, high, a.curve_sizes)} | {0})
