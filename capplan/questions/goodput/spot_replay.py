"""A run replayed on a record of when spot machines could be had."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.reliability import optimum_interval

#: Shortest interval that a search tries, as a share of the checkpoint's own time, and its steps up to the length of the record.
SHORTEST, STEPS = 1.0, 400


@dataclass(frozen=True)
class Spells:
    """Stretches in which enough machines were up."""

    hours: np.ndarray  #: Length of each, in order.
    cut: bool  #: Is the last one ended by the end of the record rather than by an interruption?
    record_hours: float  #: Length of the record.

    @property
    def interruptions(self) -> int:
        """Stretches that were ended by an interruption."""
        return len(self.hours) - int(self.cut)

    @property
    def mean_hours(self) -> float:
        """Mean paid time between two interruptions; infinite without any."""
        return float(self.hours.sum() / self.interruptions) if self.interruptions else float("inf")


def up_spells(trace: pd.DataFrame, *, machines: float = 1, days: float = np.inf) -> Spells:
    """Read the stretches in which a run of some machines could go on.

    Args:
        trace: start_hours, hours, machines: what could be had, without gaps; of one record.
        days: Days from the start of the record that count.

    Raises:
        CapplanError: If the record has gaps or overlaps, or never had so many machines.
    """
    missing = [name for name in ("start_hours", "hours", "machines") if name not in trace.columns]
    if missing:
        raise CapplanError(f"a spot record lacks the column {missing[0]}; found {', '.join(map(str, trace.columns))}")
    if trace.empty:
        raise CapplanError("the spot record is empty; give stretches with start_hours, hours and machines")
    table = trace.sort_values("start_hours", kind="stable", ignore_index=True)
    start, hours = table["start_hours"].to_numpy(dtype=float), table["hours"].to_numpy(dtype=float)
    if not (hours > 0).all():
        raise CapplanError(f"a spot record has a stretch of {hours.min():g} h; each must be longer than 0")
    end = start + hours
    off = np.abs(start[1:] - end[:-1]) > 1e-6 * max(1.0, float(end[-1]))
    if off.any():
        place = int(np.flatnonzero(off)[0])
        raise CapplanError(
            f"the spot record has a {'gap' if start[place + 1] > end[place] else 'double stretch'} at {end[place]:g} h: the next stretch"
            f" starts at {start[place + 1]:g} h; state 0 machines where none could be had"
        )
    stop = min(float(start[0] + 24 * days), float(end[-1]))
    lengths = np.clip(np.minimum(end, stop) - start, 0.0, None)
    kept = lengths > 0
    up = (table["machines"].to_numpy(dtype=float) >= machines)[kept]
    lengths = lengths[kept]
    if not up.any():
        raise CapplanError(f"the spot record never has {machines:g} machines at once; at most {table['machines'].max():g}")
    # Neighbouring stretches that both suffice are one.
    group = np.cumsum(np.r_[True, up[1:] != up[:-1]])
    joined = pd.DataFrame({"group": group, "up": up, "hours": lengths}).groupby("group").agg(up=("up", "first"), hours=("hours", "sum"))
    return Spells(joined.loc[joined["up"], "hours"].to_numpy(), bool(up[-1]), float(stop - start[0]))


def replay_spot(spells: Spells, intervals_hours: Sequence[float] | np.ndarray, write_hours: float, restart_hours: float) -> pd.DataFrame:
    r"""Say how much work a run gets done on a spot record, with checkpoints at each of some intervals.

    .. math:: w = \sum_i \tau \left\lfloor \frac{\max(u_i - R, 0)}{\tau + \delta} \right\rfloor

    A stretch u begins with a restart R; what was not saved when it ends is lost. Nothing is paid while there is no machine.

    Args:
        spells: What `up_spells` returns.
        intervals_hours (tau):
        write_hours, restart_hours (delta, R):

    Returns:
        DataFrame: interval_hours, days, paid_hours, productive_hours, interruptions, up_share (of the record), goodput_share (of paid
            time), progress_share (of the record's time), paid_hours_per_productive_hour (infinite where nothing gets done).
    """
    tau = np.asarray(intervals_hours, dtype=float)
    if tau.ndim != 1 or not (tau > 0).all():
        raise CapplanError(f"intervals_hours = {intervals_hours!r}: give a list of hours above 0")
    if write_hours < 0 or restart_hours < 0:
        raise CapplanError(f"write_hours = {write_hours:g} and restart_hours = {restart_hours:g} must be at least 0")
    free = np.maximum(spells.hours - restart_hours, 0.0)[:, None]
    whole = np.floor(free / (tau + write_hours) + 1e-9)
    work = whole * tau
    if spells.cut:
        # The record ends, not the machine: what was done since the last checkpoint is not lost.
        work[-1] += np.minimum(free[-1] - whole[-1] * (tau + write_hours), tau).clip(min=0)
    done, paid = work.sum(axis=0), float(spells.hours.sum())
    with np.errstate(divide="ignore"):
        each = np.where(done > 0, paid / np.where(done > 0, done, 1.0), np.inf)
    return pd.DataFrame(
        {
            "interval_hours": tau,
            "days": spells.record_hours / 24,
            "paid_hours": paid,
            "productive_hours": done,
            "interruptions": spells.interruptions,
            "up_share": paid / spells.record_hours,
            "goodput_share": done / paid,
            "progress_share": done / spells.record_hours,
            "paid_hours_per_productive_hour": each,
        }
    )


def search_interval(spells: Spells, write_hours: float, restart_hours: float) -> tuple[float, float]:
    """Search the interval at which a record would have cost least, and compare the closed form with it.

    Args:
        spells: What `up_spells` returns.
        write_hours, restart_hours: Time of a checkpoint, and of a restart.

    Returns:
        tuple of float: Best interval in hours, known only afterwards; and how much more an hour of work costs at the closed form's
            interval, as a share.
    """
    longest = max(float(spells.hours.max()), 2 * write_hours)
    tried = np.geomspace(max(SHORTEST * write_hours, 1e-3), longest, STEPS)
    costs = replay_spot(spells, tried, write_hours, restart_hours)["paid_hours_per_productive_hour"].to_numpy()
    closed = optimum_interval(write_hours, spells.mean_hours) if spells.interruptions else longest
    at_closed = float(replay_spot(spells, [closed], write_hours, restart_hours)["paid_hours_per_productive_hour"].iloc[0])
    best = int(np.argmin(costs))
    return float(tried[best]), at_closed / min(float(costs[best]), at_closed) - 1
