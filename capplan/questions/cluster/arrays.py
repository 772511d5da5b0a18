"""Jobs and nodes as arrays, and what of them could never run together."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.book.policies import BACKFILLS, ORDERS, PLACEMENTS, PREEMPTIONS, Policy
from capplan.errors import CapplanError, nearest
from capplan.questions.cluster.reading import instants, machines_of, read_jobs
from capplan.questions.cluster.state import BY_URGENCY, GROWING, SHRINKING, WHOLE, Nodes, Rules, Trace

#: Partitions of a GPU with MIG, in compute slices of seven.
PROFILES = np.array([1, 2, 3, 4, 7])


@dataclass(frozen=True)
class Arrivals:
    """The jobs of a trace, arranged for clusters of some kinds of nodes."""

    jobs: pd.DataFrame
    trace: Trace
    origin: pd.Timestamp
    kinds: list[str]
    speed: np.ndarray  #: Relative speeds by row of the trace and kind.
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A trace ready to run, with the frames that name its rows."""

    arrived: Arrivals
    jobs: pd.DataFrame
    nodes: pd.DataFrame
    teams: tuple[str, ...]
    origin: pd.Timestamp
    trace: Trace
    cluster: Nodes
    rules: Rules
    notes: tuple[str, ...]


def arrivals(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    policy: Policy,
    a: ClusterAssumptions,
    speeds: pd.DataFrame | None = None,
    known: Arrivals | None = None,
) -> Arrivals:
    """Check and arrange the jobs of a trace; see simulate_cluster for the parameters.

    Args:
        known: The same trace under the same policy on another cluster, used again where the kinds of nodes are the same.
    """
    kinds = list(dict.fromkeys(machines_of(nodes)["accelerator"]))
    if known is not None and kinds == known.kinds:
        return replace(known, notes=())
    notes: list[str] = []
    table = read_jobs(jobs, notes)
    origin = table["submit"].iloc[0]
    rows, speed = _speeds(table, kinds, speeds)
    return Arrivals(table, _trace(table, rows, kinds, origin, policy, a.partition_rule == "mig"), origin, kinds, speed, tuple(notes))


def prepare(
    arrived: Arrivals,
    nodes: pd.DataFrame,
    policy: Policy,
    a: ClusterAssumptions,
    *,
    shares: dict[str, float] | None = None,
    changes: pd.DataFrame | None = None,
) -> Prepared:
    """Check and arrange a trace, a cluster and a policy; see simulate_cluster for the parameters."""
    notes, machines, kinds = list(arrived.notes), machines_of(nodes), arrived.kinds
    table, trace, origin, speed = arrived.jobs, arrived.trace, arrived.origin, arrived.speed
    if (trace.slices > 0).any():
        asked = table["accelerators"].to_numpy(dtype=float)[trace.slices > 0].sum()
        notes.append(
            "Parts of an accelerator are the smallest MIG partitions that hold them (1, 2, 3, 4 or 7 of seven slices),"
            f" {(trace.slices.sum() / 7 / asked - 1):.0%} more than was asked for."
        )
    elif (trace.parts > 0).any():
        notes.append("Accelerators are taken to divide into parts of any size; set partition_rule = mig for hardware partitions.")
    if a.sharing_slowdown_share > 0 and (trace.parts > 0).any():
        notes.append(
            f"Jobs that ask for a part of an accelerator run {a.sharing_slowdown_share:.0%} longer all the time, also while they are alone"
            " on it, which errs towards waiting."
        )
    size = machines["accelerator_count"].to_numpy(dtype=np.int64)
    kind = machines["accelerator"].map({name: index for index, name in enumerate(kinds)}).to_numpy(dtype=np.int64)
    _fits(table, trace, machines, kinds, speed, policy, a)
    last = float(trace.submit[-1] + trace.work.sum() / max(size.sum(), 1) + trace.work.max())
    when, which, to = _changes(machines, changes, a, origin, last, notes)
    cluster = Nodes(
        size=size,
        kind=kind,
        domain=machines["domain_number"].to_numpy(dtype=np.int64),
        kind_start=np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=len(kinds)))]).astype(np.int64),
        kind_size=np.array([size[kind == index].max() for index in range(len(kinds))], dtype=np.int64),
        speed=speed,
        change_time=when,
        change_node=which,
        change_to=to,
    )
    teams = tuple(sorted(table["team"].unique()))
    rules = _rules(policy, a, teams, int(size.sum()), shares, bool((trace.least < trace.need).any()), notes)
    return Prepared(arrived, table, machines, teams, origin, trace, cluster, rules, tuple(notes))


def _speeds(table: pd.DataFrame, kinds: list[str], speeds: pd.DataFrame | None) -> tuple[np.ndarray, np.ndarray]:
    """Return each job's row of relative speeds, and the speeds by row and kind: 1 = as fast as in the trace."""
    if speeds is None or speeds.empty or "workload" not in table or table["workload"].isna().all():
        return np.zeros(len(table), dtype=np.int64), np.ones((1, len(kinds)))
    wide = speeds.pivot_table(index="workload", columns="accelerator", values="work_per_accelerator_hour").reindex(columns=kinds)
    wide = wide[wide.notna().any(axis=1)]
    relative = wide.div(wide.max(axis=1), axis=0).fillna(0.0)
    codes = {name: index + 1 for index, name in enumerate(relative.index)}
    rows = table["workload"].map(codes).fillna(0).to_numpy(dtype=np.int64)
    return rows, np.ascontiguousarray(np.vstack([np.ones((1, len(kinds))), relative.to_numpy()]))


def _trace(table: pd.DataFrame, rows: np.ndarray, kinds: list[str], origin: pd.Timestamp, policy: Policy, mig: bool) -> Trace:
    """Turn jobs into arrays; times are seconds since the first submission."""
    wanted = (
        table["accelerator"].mask(table["accelerator"] == "")
        if "accelerator" in table
        else pd.Series(np.nan, index=table.index, dtype=object)
    )
    unknown = sorted(set(wanted.dropna()) - set(kinds))
    if unknown:
        who = table.loc[wanted == unknown[0], "job_id"].iloc[0]
        raise CapplanError(f"jobs: {who} wants {unknown[0]}, which no node has; {nearest(unknown[0], kinds)}")
    submit = (table["submit"] - origin).dt.total_seconds().to_numpy()
    work = np.maximum(table["duration_seconds"].to_numpy(dtype=float), 1e-6)
    expected = np.where(table["expected_seconds"].isna(), work, table["expected_seconds"]).astype(float)
    asked = table["accelerators"].to_numpy(dtype=float)
    part = (asked > 0) & (asked < 1)
    slices = np.where(part & mig, PROFILES[np.searchsorted(PROFILES, np.minimum(asked, 1.0) * 7 - 1e-6)], 0)
    need = np.where(part, 0, np.round(asked)).astype(np.int64)
    least = np.where(table["least_accelerators"].isna() | part, need, np.minimum(table["least_accelerators"].fillna(1), need)).astype(
        np.int64
    )
    teams = pd.factorize(table["team"], sort=True)[0].astype(np.int64)
    due = (table["deadline"] - origin).dt.total_seconds().fillna(np.inf).to_numpy() if policy.order == "deadline" else submit
    keys = {"expected": expected, "priority": -table["priority"].to_numpy(dtype=float), "deadline": due}
    return Trace(
        submit=submit,
        work=work,
        expected=np.maximum(expected, 1e-6),
        need=need,
        parts=np.where(slices > 0, slices * WHOLE // 7, np.where(part, np.maximum(np.round(asked * WHOLE), 1), 0)).astype(np.int64),
        slices=slices.astype(np.int64),
        least=least,
        key=keys.get(policy.order, submit).astype(float),
        queue=teams if policy.fair_share else np.zeros(len(table), dtype=np.int64),
        team=teams,
        kind=wanted.map({name: index for index, name in enumerate(kinds)}).fillna(-1).to_numpy(dtype=np.int64),
        speed_row=rows,
    )


def _fits(
    table: pd.DataFrame, trace: Trace, machines: pd.DataFrame, kinds: list[str], speed: np.ndarray, policy: Policy, a: ClusterAssumptions
) -> None:
    """Name every job that could never run, rather than let it wait for ever."""
    # kinds a job may have: the one it wants, or all, on which its workload has a speed
    able = (speed[trace.speed_row] > 0) & ((trace.kind < 0)[:, None] | (trace.kind[:, None] == np.arange(len(kinds))))
    if not able.any(axis=1).all():
        job = table.loc[~able.any(axis=1)].iloc[0]
        where = (
            job["accelerator"] if "accelerator" in job and isinstance(job["accelerator"], str) and job["accelerator"] else ", ".join(kinds)
        )
        raise CapplanError(
            f"jobs: {job['job_id']} is of workload {job['workload']}, which has no speed above 0 on {where}; add it to speeds, or name no"
            " workload"
        )
    totals = machines.groupby("accelerator", sort=False)["accelerator_count"].sum().reindex(kinds).to_numpy()
    largest = np.where(able, totals, 0).max(axis=1)
    too_big = np.flatnonzero(trace.least > largest)
    if len(too_big):
        first = too_big[0]
        names = ", ".join(table["job_id"].iloc[too_big[:5]])
        raise CapplanError(
            f"jobs: {len(too_big)} {'job is' if len(too_big) == 1 else 'jobs are'} larger than the cluster"
            f" ({names}{', ...' if len(too_big) > 5 else ''}); {table['job_id'].iloc[first]} needs {trace.least[first]} accelerators of one"
            f" kind and the cluster has {largest[first]}. Enlarge it or leave them out"
        )
    if policy.backfill == "conservative" and (len(kinds) > 1 or (trace.parts > 0).any()):
        raise CapplanError(
            "conservative backfill counts whole accelerators of one kind; use easy_backfill for mixed clusters or shared accelerators"
        )
    if not a.gang_scheduling and (len(kinds) > 1 or (trace.parts > 0).any()):
        raise CapplanError(
            "without gang scheduling, jobs take whole accelerators of one kind; leave out shared accelerators and other kinds"
        )
    if a.allow_scatter or not a.gang_scheduling:
        return
    compact = np.zeros(len(table), dtype=bool)
    for kind in range(len(kinds)):
        mine = machines[machines["accelerator"] == kinds[kind]]
        fewest = np.maximum(-(-trace.least // mine["accelerator_count"].max()), 1)
        for _, part in mine.groupby("domain" if a.placement_rule == "locality" else "accelerator"):
            most = np.sort(part["accelerator_count"].to_numpy())[::-1].cumsum()
            compact |= able[:, kind] & (most[np.minimum(fewest, len(most)) - 1] >= trace.least)
    if not compact.all():
        where = "in one domain " if a.placement_rule == "locality" else ""
        raise CapplanError(
            f"jobs: {table.loc[~compact, 'job_id'].iloc[0]} has no compact place {where}even in an empty cluster; set allow_scatter = true"
        )


def _changes(
    machines: pd.DataFrame, changes: pd.DataFrame | None, a: ClusterAssumptions, origin: pd.Timestamp, last: float, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when which node goes (0 failed, -1 reclaimed) or comes (1): stated changes, and failures drawn from the seed."""
    parts = []
    if changes is not None and len(changes):
        number = pd.Series(range(len(machines)), index=machines["node"])
        unknown = sorted(set(changes["node"]) - set(number.index))
        if unknown:
            raise CapplanError(f"changes of capacity: there is no node {unknown[0]}; {nearest(unknown[0], number.index)}")
        seconds = (instants(changes["time"], "changes of capacity") - origin).dt.total_seconds().to_numpy()
        parts.append((seconds, number[changes["node"]].to_numpy(), np.where(changes["available"], 1, -1)))
    rate = a.node_failures_per_node_day / 86400
    if rate > 0:
        generator = np.random.default_rng([a.seed, 41])
        repair = a.node_repair_hours * 3600
        rounds = int(np.ceil(last * rate + 6 * np.sqrt(last * rate) + 6))
        gaps = generator.exponential(1 / rate, size=(len(machines), rounds)) + repair
        fails = np.cumsum(gaps, axis=1) - repair
        rows, columns = np.nonzero(fails < last)
        when = fails[rows, columns]
        parts += [(when, rows, np.zeros(len(rows))), (when + repair, rows, np.ones(len(rows)))]
        notes.append(f"{len(rows):,} node failures were drawn; a failed node is away for {a.node_repair_hours:g} hours.")
    if not parts:
        return np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    when, which, to = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((which, when))
    return when[order].astype(float), which[order].astype(np.int64), to[order].astype(np.int64)


def _rules(
    policy: Policy,
    a: ClusterAssumptions,
    teams: tuple[str, ...],
    size: int,
    shares: dict[str, float] | None,
    elastic: bool,
    notes: list[str],
) -> Rules:
    """Turn policy and assumptions into numbers; without stated shares all teams have the same."""
    given = shares or {}
    unknown = sorted(set(given) - set(teams))
    if unknown:
        raise CapplanError(f"shares: no job belongs to {unknown[0]}; {nearest(unknown[0], teams)}")
    wrong = next((team for team, share in given.items() if not 0.0 <= share < np.inf), None)
    if wrong is not None:
        raise CapplanError(f"shares: {wrong} has {given[wrong]}; give a number of at least 0")
    if shares is None and (policy.fair_share or policy.quotas) and len(teams) > 1:
        notes.append(f"No shares are stated: all {len(teams)} teams have the same.")
    share = np.array([given.get(team, 0.0 if given else 1.0) for team in teams], dtype=float)
    share = np.maximum(share, 1e-9)
    exact = share / share.sum() * size
    nominal = np.floor(exact + 1e-9).astype(np.int64)
    # whole accelerators, the rest to the largest fractions
    nominal[np.argsort(-(exact - nominal), kind="stable")[: size - int(nominal.sum())]] += 1
    return Rules(
        order=ORDERS[policy.order],
        backfill=BACKFILLS[policy.backfill],
        preempt=PREEMPTIONS[policy.preempt],
        gang=int(a.gang_scheduling),
        elastic=_resizing(policy, a) if elastic and a.gang_scheduling else 0,
        placement=PLACEMENTS[a.placement_rule],
        scatter=int(a.allow_scatter),
        scatter_slowdown=float(a.scatter_slowdown_share),
        sharing_slowdown=float(a.sharing_slowdown_share),
        checkpoint_seconds=float(a.checkpoint_seconds),
        restart_seconds=float(a.job_restart_seconds),
        checkpoint_interval_seconds=float(a.checkpoint_interval_seconds),
        quantum_seconds=float(a.quantum_seconds),
        depth=int(a.backfill_depth),
        half_life_seconds=3600.0 * a.fair_share_half_life_hours,
        quotas=int(policy.quotas),
        share=share,
        nominal=nominal,
        # of its exact share, so that teams whose share rounds to no whole accelerator may borrow, too
        borrowing=np.ceil(exact * a.borrowing_share - 1e-6).astype(np.int64),
        lending=np.floor(nominal * a.lending_share).astype(np.int64),
    )


def _resizing(policy: Policy, a: ClusterAssumptions) -> int:
    """Return what elastic jobs do while they run; an urgent job gives nothing to one that is less so."""
    return GROWING if not a.shrink_elastic_jobs else BY_URGENCY if policy.order in ("priority", "deadline") else SHRINKING
