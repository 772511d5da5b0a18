"""How long do jobs wait? A trace, a cluster and a policy become a schedule."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.book.policies import Policy, policy_named
from capplan.errors import CapplanError
from capplan.questions.cluster.arrays import Prepared, arrivals, prepare
from capplan.questions.cluster.measures import by_size, by_team, cluster_measures, headline, occupancy
from capplan.questions.cluster.state import (
    END,
    ENDED,
    FIRST_START,
    HELD,
    LOG_AMOUNT,
    LOG_END,
    LOG_JOB,
    LOG_NODE,
    LOG_START,
    LOGGED,
    LOST,
    PREEMPTED,
    RAN,
    RESIZED,
    SPREAD_OVER,
    STATUS,
    State,
    new_state,
)

#: Placements that a simulation may come to, in all and for each job.
ROWS_ALLOWED, ROWS_A_JOB = 10_000_000, 50


@dataclass(frozen=True)
class Schedule:
    """What happened to every job.

    Args:
        jobs: [job_id, team, accelerators, submit, submit_seconds, start_seconds, end_seconds, queue_seconds (all its waiting),
            completion_seconds (submit to end), run_seconds (recorded duration), held_seconds, lost_seconds, preemptions, resizes (changes
            of size while it ran), nodes, slowdown, deadline_missed, predicted]; seconds count from the first submission; empty where a job
            never ended.
        held: [job_id, node, accelerators, start_seconds, end_seconds]: who held what, when.
        occupancy: [time, accelerators, waiting_jobs, waiting_accelerators]: steps of what was held and what waited.
        measures: [measure, value, unit] of the whole cluster.
        by_size, by_team: Queue delay and completion time by size of job and by team.
        headline, notes: The deciding sentence; repairs and assumptions.
    """

    jobs: pd.DataFrame
    held: pd.DataFrame
    occupancy: pd.DataFrame
    measures: pd.DataFrame
    by_size: pd.DataFrame
    by_team: pd.DataFrame
    headline: str
    notes: tuple[str, ...]

    def measure(self, name: str) -> float:
        """Return one of the measures."""
        return float(self.measures.set_index("measure").loc[name, "value"])


def simulate_cluster(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    policy: str | Policy,
    a: ClusterAssumptions,
    *,
    speeds: pd.DataFrame | None = None,
    shares: dict[str, float] | None = None,
    changes: pd.DataFrame | None = None,
) -> Schedule:
    """Say how long jobs wait.

    Args:
        jobs: Table jobs: [job_id, submit, duration_seconds, accelerators, ...].
        nodes: Table nodes: [node, accelerator, accelerator_count, nodes, domain].
        policy: Name of a policy (see POLICIES) or a Policy.
        speeds: Table speeds, for jobs that name a workload on clusters of several kinds; a job's recorded duration is that on the fastest
            kind.
        shares: Share of each team, for fair share and quotas; all the same where none are given.
        changes: Nodes that come and go: [time, node, available: bool].

    Raises:
        CapplanError: A job that could never run, a negative duration, accelerators that no node has.
    """
    policy = policy_named(policy)
    prepared = prepare(arrivals(jobs, nodes, policy, a, speeds), nodes, policy, a, shares=shares, changes=changes)
    return _answer(prepared, run_events(prepared))


def run_events(prepared: Prepared) -> State:
    """Run the compiled loop, giving its log more room whenever it asks.

    Raises:
        CapplanError: Where jobs are displaced so often that they come to nothing, which would fill any memory.
    """
    from capplan.questions.cluster.kernel import run

    queues = int(prepared.trace.queue.max()) + 1
    state = new_state(prepared.trace, prepared.cluster, queues, len(prepared.teams), prepared.rules.depth)
    jobs, places = prepared.trace.packed(), prepared.cluster.packed()
    while not run(jobs, places, prepared.rules, state):
        if len(state.log) >= max(ROWS_ALLOWED, ROWS_A_JOB * len(prepared.trace.submit)):
            raise CapplanError(
                f"the jobs were placed {len(state.log):,} times and have not ended: they are displaced again and again before they come to"
                " anything; displace them less often (reclaim_delay_minutes), let them lose less (preemption_cost_minutes), or give them"
                " more nodes"
            )
        state = state._replace(log=np.concatenate([state.log, np.empty_like(state.log)]))
    return state


def queue_seconds(prepared: Prepared, state: State) -> np.ndarray:
    """Return all the waiting of each job, also after it was displaced; empty where it never ended."""
    waited = np.maximum(state.job[END] - prepared.trace.submit - state.job[RAN], 0.0)
    return np.where(state.counts[STATUS] == ENDED, waited, np.nan)


def _answer(prepared: Prepared, state: State) -> Schedule:
    """Turn the final state into tables."""
    table, trace = prepared.jobs, prepared.trace
    log = state.log[: int(state.scalars[LOGGED])]
    holder = log[:, LOG_JOB].astype(np.int64)
    held = pd.DataFrame(
        {
            "job_id": table["job_id"].to_numpy()[holder],
            "node": prepared.nodes["node"].to_numpy()[log[:, LOG_NODE].astype(np.int64)],
            "accelerators": log[:, LOG_AMOUNT],
            "start_seconds": log[:, LOG_START],
            "end_seconds": log[:, LOG_END],
        }
    )
    ended = state.counts[STATUS] == ENDED
    end = np.where(ended, state.job[END], np.nan)
    completion = end - trace.submit
    due = (table["deadline"] - prepared.origin).dt.total_seconds().to_numpy()
    frame = pd.DataFrame(
        {
            "job_id": table["job_id"],
            "team": table["team"],
            "accelerators": table["accelerators"],
            "submit": table["submit"],
            "submit_seconds": trace.submit,
            "start_seconds": state.job[FIRST_START],
            "end_seconds": end,
            "queue_seconds": queue_seconds(prepared, state),
            "completion_seconds": completion,
            "run_seconds": trace.work,
            "held_seconds": np.where(ended, state.job[RAN], 0.0),
            "lost_seconds": state.job[LOST],
            "preemptions": state.counts[PREEMPTED],
            "resizes": state.counts[RESIZED],
            "nodes": state.counts[SPREAD_OVER],
            "slowdown": completion / np.maximum(trace.work, 10.0),
            "deadline_missed": np.where(np.isnan(due), False, ~(end <= due)),
            "predicted": table["predicted"],
        }
    )
    frame["deadline_missed"] = frame["deadline_missed"].astype(bool)
    notes = list(prepared.notes)
    stuck = frame.loc[~ended, "job_id"]
    if len(stuck):
        partly = int((state.counts[HELD, ~ended] > 0).sum())
        notes.append(
            f"{len(stuck)} jobs never ended ({', '.join(stuck.head(5))}): "
            + (
                f"gridlock, {partly} of them hold {int(state.counts[HELD, ~ended].sum())} accelerators and wait for the rest."
                if partly
                else "their quota, or nodes that went away, left no place for them."
            )
        )
    steps = occupancy(frame, held, prepared.origin)
    measures = cluster_measures(prepared, state, frame, steps)
    return Schedule(frame, held, steps, measures, by_size(frame), by_team(frame, held), headline(frame, measures), tuple(notes))
