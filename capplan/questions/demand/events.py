"""What is known about the future: events that change demand, and the training runs of the roadmap."""

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.records import records

Array = np.ndarray
HOUR = pd.Timedelta(hours=1)
DAY = pd.Timedelta(days=1)
#: Floating point operations of training: 6 for each parameter and token (forward 2, backward 4).
OPERATIONS_PER_PARAMETER_AND_TOKEN = 6
EXA = 1e18


@dataclass(frozen=True)
class Event:
    """A known change, ready for simulation: weight rises from 0 to 1 over the ramp and falls back at the end."""

    name: str
    workload: str
    start: pd.Timestamp
    ramp_days: float
    end: pd.Timestamp | None
    factor: float
    level: float
    probability: float

    def weight(self, times: Array) -> Array:
        """Return how far the event is in force at some instants (datetime64), 0 to 1."""
        since = (times - np.datetime64(self.start)) / np.timedelta64(1, "D")
        weight = np.clip(since / self.ramp_days, 0.0, 1.0) if self.ramp_days > 0 else (since >= 0).astype(float)
        if self.end is not None:
            weight = np.where(times >= np.datetime64(self.end + DAY), 0.0, weight)
        return np.asarray(weight, dtype=float)


@dataclass(frozen=True)
class Run:
    """A training run of the roadmap, ready for simulation."""

    name: str
    workload: str
    region: str
    start: pd.Timestamp
    latest_start: pd.Timestamp
    end: pd.Timestamp
    quantity: float
    probability: float


def draws(seed: int, name: str, paths: int, columns: int = 1) -> Array:
    """Return uniform numbers (paths x columns) that belong to a name: other names never change them, more paths only add to them."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())]).random((paths, columns))


def read_events(events: pd.DataFrame | None, a: DemandAssumptions, horizon_end: pd.Timestamp, notes: list[str]) -> list[Event]:
    """Read the events table; leave out, with a note, what cannot touch the horizon.

    Raises:
        CapplanError: If an event states neither or both of factor and level.
    """
    if events is None or events.empty:
        return []
    found, faults = [], []
    for row in records(events.sort_values(["date", "event_id"])):
        factor, level = _number(row.get("factor")), _number(row.get("level"))
        if np.isnan(factor) == np.isnan(level):
            faults.append(f"event {row['event_id']} states {'neither' if np.isnan(factor) else 'both'} of factor and level")
            continue
        start = pd.Timestamp(row["date"])
        end = row.get("end")
        stop = None if end is None or pd.isna(end) else pd.Timestamp(end)
        if start >= horizon_end:
            notes.append(f"Event {row['event_id']} on {start.date()} lies beyond the horizon and has no effect.")
            continue
        if stop is not None and stop < pd.Timestamp(a.as_of) and start < pd.Timestamp(a.as_of):
            notes.append(f"Event {row['event_id']} was over on {stop.date()}, before this plan; it has no effect.")
            continue
        found.append(
            Event(
                str(row["event_id"]),
                str(row["workload"]),
                start,
                _number(row.get("ramp_days"), 0.0),
                stop,
                factor,
                level,
                _number(row.get("probability"), 1.0),
            )
        )
    if faults:
        raise CapplanError(f"events: {'; '.join(faults)}. State exactly one: factor (times) or level (units a day)")
    return found


def read_runs(runs: pd.DataFrame | None, units: dict[str, str], horizon: tuple[pd.Timestamp, pd.Timestamp], notes: list[str]) -> list[Run]:
    r"""Read the training roadmap: quantities as stated, or 6 x parameters x tokens for workloads in exaflop.

    .. math:: C = 6\,N\,D / 10^{18}

    Raises:
        CapplanError: If a run states neither its quantity nor parameters and tokens, or states the latter for a workload that is not in
            exaflop.

    Source: Kaplan et al., Scaling laws for neural language models, 2020, section 2.1 (C = 6 N D).
    """
    if runs is None or runs.empty:
        return []
    found, faults = [], []
    for row in records(runs.sort_values("run_id")):
        name, workload = str(row["run_id"]), str(row["workload"])
        quantity = _number(row.get("quantity"))
        if np.isnan(quantity):
            size = _number(row.get("parameters")) * _number(row.get("tokens"))
            unit = units.get(workload, "exaflop")
            if np.isnan(size):
                faults.append(f"run {name} states neither quantity nor parameters and tokens")
                continue
            if unit != "exaflop":
                faults.append(
                    f"run {name} states parameters and tokens, but its workload {workload} is in {unit}; state quantity in {unit}, or give"
                    " the workload in exaflop"
                )
                continue
            quantity = OPERATIONS_PER_PARAMETER_AND_TOKEN * size / EXA
        start, end = pd.Timestamp(row["start"]), pd.Timestamp(row["deadline"]) + DAY
        latest = row.get("latest_start")
        last = start if latest is None or pd.isna(latest) else pd.Timestamp(latest)
        if end <= horizon[0] or start >= horizon[1]:
            notes.append(f"Training run {name} ({start.date()} to {(end - DAY).date()}) lies outside the horizon and has no effect.")
            continue
        region = row.get("region")
        where = "any" if region is None or pd.isna(region) else str(region)
        found.append(Run(name, workload, where, start, last, end, quantity, _number(row.get("probability"), 1.0)))
    if faults:
        raise CapplanError("training_runs: " + "; ".join(faults))
    return found


def _number(value: object, default: float = float("nan")) -> float:
    """Read an optional number."""
    return default if value is None or pd.isna(value) else float(value)  # type: ignore[arg-type]


class Hourly(NamedTuple):
    """Work of one series hour by hour."""

    work: Array  #: (paths, hours).
    shape: Array  #: (paths, hours): Shape within the day or week (mean 1) that a stated level follows.
    share: float = 1.0  #: Share of the workload's level that this region carries.


def apply_events(hourly: Hourly, events: list[Event], times: Array, known_until: pd.Timestamp, a: DemandAssumptions, part: slice) -> Array:
    r"""Change hourly work by the events of its workload.

    What is in force when the history ends is in the history already: a factor acts relative to its value then.

    .. math:: d'_t = d_t\,\frac{1 + s\,w_t\,(f - 1)}{1 + s\,w_0\,(f - 1)}
              \quad\text{or}\quad d'_t = (1 - v_t)\,d_t + v_t\,L/24,\; v_t = s\,\frac{w_t - w_0}{1 - w_0}

    with s = ``a.event_strength``, w the event's weight (w_0 at the end of the history), f its factor, L its level a day.

    Args:
        events: Events of this workload, by date.
        times: Start of each hour, datetime64.
        a: Assumptions; seed, paths and event_strength are used.
        part: Which of the sample paths `hourly` holds.

    Returns:
        numpy.ndarray: Work in each hour, changed on the paths where the event happens.
    """
    strength, (work, shape, share) = a.event_strength, hourly
    for event in events:
        before = float(event.weight(np.array([np.datetime64(known_until)]))[0])
        # What history has already seen has happened.
        certain = event.start < known_until
        happens = np.ones(len(work), bool) if certain else draws(a.seed, f"event {event.name}", a.paths)[part, 0] < event.probability
        weight = event.weight(times)
        if np.isnan(event.level):
            then = 1 + strength * before * (event.factor - 1)
            ratio = np.maximum(0.0, 1 + strength * weight * (event.factor - 1)) / then if then > 0 else np.ones(len(times))
            changed = work * ratio
        else:
            moved = np.clip(strength * (weight - before) / (1 - before) if before < 1 else np.zeros(len(times)), 0.0, None)
            changed = np.maximum(0.0, (1 - moved) * work + moved * share * event.level / 24 * shape)
        work = changed if happens.all() else np.where(happens[:, None], changed, work)
    return work


def run_work(run: Run, times: Array, paths: int, seed: int) -> Array:
    """Spread one run over the hours of a quarter (paths x hours), evenly from its start to its deadline.

    The start is uniform between the planned and the latest day and the deadline stands, so a run that starts later needs more work an
    hour; where less than a day would be left, a day is.

    Args:
        times: Start of each hour, datetime64.

    Returns:
        numpy.ndarray: Work in each hour; zero on the paths where the run does not go ahead.
    """
    chance = draws(seed, f"run {run.name}", paths, 2)
    origin = np.datetime64(run.start)
    slack = (run.latest_start - run.start) / HOUR
    length = (run.end - run.start) / HOUR
    begin = chance[:, 1] * slack
    end = np.maximum(length, begin + 24.0)
    hour = (times - origin) / np.timedelta64(1, "h")
    overlap = np.clip(np.minimum(hour[None, :] + 1, end[:, None]) - np.maximum(hour[None, :], begin[:, None]), 0.0, 1.0)
    rate = np.where(chance[:, 0] < run.probability, run.quantity / (end - begin), 0.0)
    return np.asarray(overlap * rate[:, None])
