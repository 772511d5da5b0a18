"""A run simulated failure by failure: what the closed forms of lost work are held against."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError

#: A run that needs more failures than this to finish is given up.
MOST_FAILURES = 200_000


@dataclass(frozen=True)
class Checkpoints:
    """How a run keeps its work: hours between checkpoints, of a write, and of paid time from a failure until work goes on."""

    interval_hours: float
    write_hours: float
    restart_hours: float


def simulate_failures(
    work_hours: float, kept: Checkpoints, interruptions_per_hour: float, *, runs: int = 100, seed: int = 7, shape: float = 1.0
) -> pd.DataFrame:
    r"""Play training runs from failure to failure, and count the paid time.

    A run works, writes a checkpoint after each interval, and starts again from the last finished one when a failure strikes; failures may
    strike while it writes or restarts. Times between failures follow a Weibull law with the stated mean.

    .. math:: X \sim \text{Weibull}(k),\quad E[X] = 1/\lambda

    Args:
        interruptions_per_hour (lambda):
        seed: Same seed, same failures.
        shape (k): 1 = without memory; below 1 failures come in clusters, as on ageing or faulty nodes.

    Returns:
        DataFrame: run, paid_hours, failures, checkpoints, rework_hours, restart_hours, progress_share.

    Raises:
        CapplanError: For times that are not above 0, and for a run that failures never let finish.

    Examples:
        >>> played = simulate_failures(100.0, Checkpoints(0.5, 0.01, 0.1), 0.2, runs=3)
        >>> len(played), bool((played["progress_share"] < 1).all())
        (3, True)
    """
    from scipy.special import gamma

    interval_hours, write_hours, restart_hours = kept.interval_hours, kept.write_hours, kept.restart_hours
    for name, value in (("work_hours", work_hours), ("interval_hours", interval_hours), ("shape", shape)):
        if not (np.isfinite(value) and value > 0):
            raise CapplanError(f"{name} = {value!r}: a run needs a finite time above 0")
    for name, value in (("write_hours", write_hours), ("restart_hours", restart_hours), ("interruptions_per_hour", interruptions_per_hour)):
        if not (np.isfinite(value) and value >= 0):
            raise CapplanError(f"{name} = {value!r}: must be at least 0")
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(runs):
        saved, paid, rework, restarting = 0.0, 0.0, 0.0, 0.0
        failures, checkpoints = 0, 0
        start = 0.0  # restart time that precedes work after a failure
        while saved < work_hours:
            gap = rng.weibull(shape) / (interruptions_per_hour * gamma(1 + 1 / shape)) if interruptions_per_hour > 0 else float("inf")
            left = work_hours - saved
            whole = int(np.ceil(left / interval_hours - 1e-9))
            # The last interval may be short; a run ends when its last checkpoint is written.
            needed = start + left + whole * write_hours
            if gap >= needed:
                paid += needed
                restarting += start
                checkpoints += whole
                saved = work_hours
                break
            failures += 1
            if failures > MOST_FAILURES:
                raise CapplanError(
                    f"after {failures - 1:,} failures a run has done {saved:,.1f} of {work_hours:,.1f} h; failures come faster than"
                    " checkpoints: shorten the interval or the restart, or use fewer accelerators"
                )
            paid += gap
            if gap <= start:
                restarting += gap
            else:
                restarting += start
                done = int((gap - start) / (interval_hours + write_hours))
                saved += done * interval_hours
                checkpoints += done
                rework += gap - start - done * (interval_hours + write_hours)
            start = restart_hours
        rows.append((run, paid, failures, checkpoints, rework, restarting, work_hours / paid))
    return pd.DataFrame(rows, columns=["run", "paid_hours", "failures", "checkpoints", "rework_hours", "restart_hours", "progress_share"])
