"""The three arrangements side by side: the same load, the same jobs, the same fleet."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.split import SplitAssumptions
from capplan.book.policies import policy_named
from capplan.errors import CapplanError
from capplan.questions.cluster import Schedule, resized, simulate_cluster
from capplan.questions.cluster.arrays import arrivals, prepare
from capplan.questions.cluster.capacity import nine_of_ten
from capplan.questions.cluster.reading import checked_jobs, checked_nodes
from capplan.questions.cluster.simulate_cluster import queue_seconds, run_events
from capplan.questions.split.inference_load import Load, lay_load
from capplan.questions.split.split_answer import HOURS_PER_YEAR, Split, choose, gains_of, headline_of, quotas_of
from capplan.questions.split.two_parts import ARRANGEMENTS, LENDING, SEPARATE, SHARED, Fleet, divide, hand_over, short_of

#: The grid on which lending is held against separate clusters, beside the assumptions themselves.
DELAYS_MINUTES = (0.0, 10.0, 30.0, 60.0, 240.0)
COSTS_MINUTES = (60.0, 480.0, 1440.0, 2880.0)


@dataclass(frozen=True)
class Case:
    """What all arrangements have in common: the jobs, the load, how long they are looked at."""

    jobs: pd.DataFrame
    load: Load
    origin: pd.Timestamp
    window: float
    speeds: pd.DataFrame | None

    def _stage(self, fleet: Fleet, arrangement: str, a: SplitAssumptions) -> tuple[pd.DataFrame, SplitAssumptions, pd.DataFrame | None]:
        """Return the nodes that jobs may use at some time, the rules, and which nodes come and go."""
        handover = hand_over(fleet, self.load, arrangement, a)
        rules = a.model_copy(update={"checkpoint_seconds": 0.0, "job_restart_seconds": 60 * a.preemption_cost_minutes})
        nodes = fleet.nodes.drop(columns="own")
        changes = handover.changes(self.origin)
        if arrangement == SEPARATE:
            nodes, changes = nodes[(fleet.nodes["own"] == "training").to_numpy()], None
        return nodes.reset_index(drop=True), rules, changes

    def run(self, fleet: Fleet, arrangement: str, a: SplitAssumptions) -> Schedule:
        """Simulate the jobs on what an arrangement leaves them."""
        nodes, rules, changes = self._stage(fleet, arrangement, a)
        return simulate_cluster(self.jobs, nodes, a.training_policy, rules, speeds=self.speeds, changes=changes)

    def served(self, fleet: Fleet, arrangement: str, a: SplitAssumptions) -> tuple[float, float]:
        """Return the share of the inference load that finds an accelerator ready, and the accelerator-hours that do not."""
        handover = hand_over(fleet, self.load, arrangement, a)
        ready = handover.ready(60 * a.reclaim_delay_minutes, float(self.load.end[-1]))
        length, needed, missing = short_of(self.load, ready, self.window)
        wanted, short = float(length @ needed), float(length @ missing)
        return (1.0 - short / wanted if wanted > 0 else 1.0), short / 3600

    def late_usd_per_year(self, short: float, a: SplitAssumptions) -> float:
        """Return what accelerator-hours of load without a node, as many as these in the trace, cost in a year."""
        return short / (self.window / 3600) * HOURS_PER_YEAR * a.late_serving_usd_per_accelerator_hour

    def wait(self, fleet: Fleet, arrangement: str, a: SplitAssumptions) -> float:
        """Return the wait that nine of ten jobs do not exceed, all of it counted, in seconds; infinite where a job never ends."""
        nodes, rules, changes = self._stage(fleet, arrangement, a)
        try:
            policy = policy_named(a.training_policy)
            prepared = prepare(arrivals(self.jobs, nodes, policy, rules, self.speeds), nodes, policy, rules, changes=changes)
            state = run_events(prepared)
        except CapplanError:
            return np.inf
        return nine_of_ten(np.nan_to_num(queue_seconds(prepared, state), nan=np.inf))


def split_fleet(
    inference_load: pd.DataFrame,
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    a: SplitAssumptions,
    *,
    speeds: pd.DataFrame | None = None,
    search: bool = True,
) -> Split:
    """Say whether training and inference should stay apart, share one pool, or lend idle inference nodes with reclaim.

    With load L(t), nodes at home H(t) and what is ready R(t) (H delayed by the reclaim delay where it grows),
    slo_share = 1 - integral max(0, L - R) dt / integral L dt. Jobs run on training's own nodes and on those that are lent; a job on a node
    that is
    asked back waits again and pays the preemption cost.

    Args:
        inference_load: [time, accelerators]: accelerators that inference needs in each interval, of the fleet's commonest kind (or [hour,
            accelerators]).
        jobs, nodes: Tables jobs and nodes; nodes is the whole fleet.
        search: Look for the smallest fleet of each arrangement that meets both targets, and for where lending loses? It takes some thirty
            simulations.

    Raises:
        CapplanError: A load with gaps or negative values, a job larger than training's own part, a fleet too small for the quota of
            inference.

    Source: Li et al., Lyra: Elastic Scheduling for Deep Learning Clusters, EuroSys 2023 (capacity loaning); here nodes go back in a fixed
        order, the last lent first.
    """
    jobs, nodes = checked_jobs(jobs), resized(checked_nodes(nodes), max(a.added_accelerators, 0))
    origin = jobs["submit"].min()
    case, notes = _case(inference_load, jobs, nodes, origin, speeds)
    fleet = divide(nodes, float(case.load.accelerators.max()), a)
    fleet = fleet.without(-a.added_accelerators) if a.added_accelerators < 0 else fleet
    _fits(jobs, fleet)
    rows, hours = [], []
    for arrangement in ARRANGEMENTS:
        schedule = case.run(fleet, arrangement, a)
        rows.append(_row(case, fleet, arrangement, schedule, a))
        hours.append(_hours(case, fleet, arrangement, schedule, a))
        notes += [note for note in schedule.notes if note not in notes]
    table = pd.DataFrame(rows)
    sensitivity = pd.DataFrame(
        columns=["reclaim_delay_minutes", "preemption_cost_minutes", "slo_share", "needed_accelerators", "gain_usd_per_year"], dtype=float
    )
    if search:
        smallest = {arrangement: _smallest(case, fleet, arrangement, a) for arrangement in ARRANGEMENTS}
        table["needed_accelerators"] = [np.nan if found is None else float(found.accelerators()) for found in smallest.values()]
        served = [case.served(found if found is not None else fleet, name, a) for name, found in smallest.items()]
        table["needed_slo_share"] = [share for share, _ in served]
        table["late_usd_per_year"] = [case.late_usd_per_year(short, a) for _, short in served]
        table["needed_usd_per_year"] = table["needed_accelerators"] * a.fleet_usd_per_accelerator_hour * HOURS_PER_YEAR
        table["total_usd_per_year"] = table["needed_usd_per_year"] + table["late_usd_per_year"]
        sensitivity = _sensitivity(case, fleet, smallest, a)
    share = table["needed_slo_share" if search else "slo_share"]
    table["meets_targets"] = (share >= a.serving_target_share) & (table["needed_accelerators"].notna() if search else True)
    chosen = choose(table, search)
    table["chosen"] = table["arrangement"] == chosen
    gains = gains_of(table)
    quotas = quotas_of(fleet, jobs.assign(team=jobs["team"].fillna("shared") if "team" in jobs else "shared"), chosen, a)
    if search:
        notes.append(
            "The smallest fleets are found by halving, as if waits only ever fell with size; load without a node is counted on them."
        )
    notes.append(
        "Nodes go back in a fixed order, the last lent first, and jobs fill training's own nodes before lent ones; a scheduler that looks"
        " for the cheapest node to empty loses less."
    )
    own = fleet.nodes[["node", "accelerator", "accelerator_count", "own"]].copy()
    return Split(
        table,
        pd.concat(hours, ignore_index=True),
        gains,
        sensitivity,
        quotas,
        own,
        chosen,
        headline_of(table, gains, chosen, search, a),
        tuple(notes),
    )


def _case(
    inference_load: pd.DataFrame, jobs: pd.DataFrame, nodes: pd.DataFrame, origin: pd.Timestamp, speeds: pd.DataFrame | None
) -> tuple[Case, list[str]]:
    """Lay the load over the trace and well past its last job."""
    durations = jobs["duration_seconds"].fillna(jobs["duration_seconds"].median()).fillna(0.0).clip(lower=0.0)
    last = float((jobs["submit"].max() - origin).total_seconds())
    size = float((nodes["accelerator_count"] * nodes.get("nodes", 1)).sum())
    reach = 1.5 * last + 4 * float(durations.max()) + 4 * float((durations * jobs["accelerators"]).sum()) / max(size, 1.0) + 7 * 86400
    load = lay_load(inference_load, origin, reach, last)
    # a trace of one moment is looked at while its jobs could run
    window = last if last > 0 else max(float(durations.max()), 3600.0)
    return Case(jobs, load, origin, window, speeds), list(load.notes)


def _fits(jobs: pd.DataFrame, fleet: Fleet) -> None:
    """Name the job that separate clusters could never run."""
    least = jobs["least_accelerators"].fillna(jobs["accelerators"]) if "least_accelerators" in jobs else jobs["accelerators"]
    training = fleet.accelerators("training")
    if least.max() > training:
        job = jobs.loc[least.idxmax(), "job_id"]
        raise CapplanError(
            f"jobs: {job} needs {least.max():,.0f} accelerators, and of {fleet.accelerators():,} only {training:,} are training's own; "
            "state fewer inference_accelerators, add nodes with added_accelerators, or leave the job out"
        )


def _inside(case: Case, fleet: Fleet, schedule: Schedule) -> tuple[float, float]:
    """Return the accelerator-hours held by jobs while the trace lasts: on all nodes, and on inference's own."""
    held = schedule.held
    length = (np.minimum(held["end_seconds"], case.window) - held["start_seconds"]).clip(lower=0.0) * held["accelerators"] / 3600
    own = held["node"].isin(set(fleet.nodes.loc[fleet.nodes["own"] == "inference", "node"]))
    return float(length.sum()), float(length[own].sum())


def _row(case: Case, fleet: Fleet, arrangement: str, schedule: Schedule, a: SplitAssumptions) -> dict[str, object]:
    """Return what one arrangement does on the fleet as it is."""
    slo, short = case.served(fleet, arrangement, a)
    hours = case.window / 3600
    length = case.load.within(case.window) / 3600
    own = fleet.accelerators("inference")
    wanted = float(length @ case.load.accelerators)
    training, harvested = _inside(case, fleet, schedule)
    return {
        "arrangement": arrangement,
        "accelerators": fleet.accelerators(),
        "inference_accelerators": own,
        "usd": fleet.accelerators() * hours * a.fleet_usd_per_accelerator_hour,
        "slo_share": slo,
        "short_accelerator_hours": short,
        "queue_mean_seconds": float(schedule.jobs["queue_seconds"].mean()),
        "queue_p90_seconds": schedule.measure("queue_p90"),
        "completion_mean_seconds": float(schedule.jobs["completion_seconds"].mean()),
        "preemptions": schedule.measure("preemptions"),
        "goodput_share": schedule.measure("goodput_share"),
        "idle_accelerator_hours": float(length @ np.maximum(own - case.load.accelerators, 0.0)),
        "harvested_accelerator_hours": harvested,
        "used_share": (training * schedule.measure("goodput_share") + wanted - short) / (fleet.accelerators() * hours),
        "needed_accelerators": np.nan,
        "needed_usd_per_year": np.nan,
        "needed_slo_share": np.nan,
        "late_usd_per_year": case.late_usd_per_year(short, a),
        "total_usd_per_year": np.nan,
    }


def _hours(case: Case, fleet: Fleet, arrangement: str, schedule: Schedule, a: SplitAssumptions) -> pd.DataFrame:
    """Return who uses the fleet in each interval of the load."""
    keep = case.load.start < case.window
    start, end = case.load.start[keep], case.load.end[keep]
    length, needed, missing = short_of(
        case.load, hand_over(fleet, case.load, arrangement, a).ready(60 * a.reclaim_delay_minutes, float(case.load.end[-1])), float(end[-1])
    )
    done = np.concatenate([[0.0], np.cumsum(length * (needed - missing))])
    served = np.diff(np.interp(np.append(start, end[-1]), np.concatenate([[0.0], np.cumsum(length)]), done))
    own = schedule.held["node"].isin(set(fleet.nodes.loc[fleet.nodes["own"] == "inference", "node"])).to_numpy()
    width = end - start
    training, harvested = (_average(schedule.held[rows], start, end) for rows in (np.ones(len(own), dtype=bool), own))
    served = served / width
    return pd.DataFrame(
        {
            "arrangement": arrangement,
            "time": case.origin + pd.to_timedelta(start, unit="s"),
            "inference": served,
            "training": training,
            "harvested": harvested,
            "idle": np.maximum(fleet.accelerators() - served - training, 0.0),
        }
    )


def _average(held: pd.DataFrame, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the accelerators held on average between each start and end."""
    moments = np.concatenate([held["start_seconds"], held["end_seconds"]])
    moves = np.concatenate([held["accelerators"], -held["accelerators"]])
    if not len(moments):
        return np.zeros(len(start))
    order = np.argsort(moments, kind="stable")
    times, level = moments[order], np.cumsum(moves[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    filled = np.interp(np.append(start, end[-1]), times, area)
    return np.diff(filled) / (end - start)


def _smallest(case: Case, fleet: Fleet, arrangement: str, a: SplitAssumptions) -> Fleet | None:
    """Return the smallest fleet, by training's own nodes, that meets the delay target; None where even eight times as many do not.

    Sizes are halved between one that does not meet the target and one that does, as if waits only ever fell with size.
    """
    target = 60 * a.delay_target_minutes

    def meets(count: int) -> bool:
        tried = fleet.with_training(count)
        if arrangement == SHARED and tried.accelerators() < case.load.accelerators.max():
            return False
        return case.wait(tried, arrangement, a) <= target

    low, high = 0, max(fleet.training_nodes, 1)
    while not meets(high):
        if high > 8 * max(fleet.training_nodes, 8):
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return fleet.with_training(high)


def _sensitivity(case: Case, fleet: Fleet, smallest: dict[str, Fleet | None], a: SplitAssumptions) -> pd.DataFrame:
    """Hold lending against separate clusters over reclaim delay and preemption cost."""
    rows = []
    delays = sorted({*DELAYS_MINUTES, a.reclaim_delay_minutes})
    price = a.fleet_usd_per_accelerator_hour * HOURS_PER_YEAR
    alone = smallest[SEPARATE]
    before = np.inf if alone is None else alone.accelerators() * price + case.late_usd_per_year(case.served(alone, SEPARATE, a)[1], a)
    for cost in sorted({*COSTS_MINUTES, a.preemption_cost_minutes}):
        known = cost == a.preemption_cost_minutes
        found = smallest[LENDING] if known else _smallest(case, fleet, LENDING, a.model_copy(update={"preemption_cost_minutes": cost}))
        needed = np.nan if found is None else float(found.accelerators())
        for delay in delays:
            slo, short = case.served(found if found is not None else fleet, LENDING, a.model_copy(update={"reclaim_delay_minutes": delay}))
            gain = before - needed * price - case.late_usd_per_year(short, a)
            rows.append((delay, cost, slo, needed, gain if np.isfinite(gain) else np.nan))
    return pd.DataFrame(
        rows, columns=["reclaim_delay_minutes", "preemption_cost_minutes", "slo_share", "needed_accelerators", "gain_usd_per_year"]
    )
