"""The inference load as steps in the time of the trace."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.questions.cluster.reading import instants

DAY = 86400.0
#: More steps than these are not simulated; a year in minutes has half of them.
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Load:
    """Accelerators that inference needs, as steps."""

    #: start, end: Seconds since the first submission; each step ends where the next one begins.
    start: np.ndarray
    end: np.ndarray
    accelerators: np.ndarray  #: Needed in the step.
    notes: tuple[str, ...]  #: How the load was laid over the trace.

    def within(self, seconds: float) -> np.ndarray:
        """Return how long each step lasts inside the first `seconds`."""
        return np.clip(np.minimum(self.end, seconds) - self.start, 0.0, None)


def lay_load(inference_load: pd.DataFrame, origin: pd.Timestamp, seconds: float, covered: float | None = None) -> Load:
    """Lay the inference load over the trace, repeating whole weeks (or days) where it is shorter.

    Args:
        inference_load: [time (or hour), accelerators]: equal intervals; time is an instant, or a number of hours since the midnight before
            the first job.
        seconds: How far the steps must reach from it.
        covered: Up to where a load that is repeated is said in a note; empty = all of it.

    Raises:
        CapplanError: A missing column, gaps, values that are negative or missing.

    Examples:
        >>> load = lay_load(pd.DataFrame({"hour": range(24), "accelerators": range(24)}), pd.Timestamp("2026-01-05 22:30"), 7200)
        >>> load.start[:3], load.end[:3], load.accelerators[:3]
        (array([   0., 1800., 5400.]), array([1800., 5400., 9000.]), array([22., 23.,  0.]))
    """
    name = "time" if "time" in inference_load else "hour"
    for wanted in (name, "accelerators"):
        if wanted not in inference_load:
            raise CapplanError(f"inference load: there is no column {wanted}; {nearest(wanted, map(str, inference_load.columns))}")
    if len(inference_load) < 2:
        raise CapplanError(f"inference load: {len(inference_load)} rows; give at least two intervals, better whole weeks by the hour")
    values = pd.to_numeric(inference_load["accelerators"], errors="coerce").to_numpy(dtype=float)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise CapplanError(
            f"inference load: row {row + 1} needs {inference_load['accelerators'].iloc[row]} accelerators; give a number of 0 or more"
        )
    dated = not pd.api.types.is_numeric_dtype(inference_load[name])
    if dated:
        times = (instants(inference_load[name], "inference load") - origin).dt.total_seconds().to_numpy(dtype=float)
    else:
        times = (
            pd.to_numeric(inference_load[name], errors="coerce").to_numpy(dtype=float) * 3600
            - (origin - origin.normalize()).total_seconds()
        )
    if np.isnan(times).any():
        raise CapplanError(f"inference load: row {int(np.isnan(times).argmax()) + 1} has no {name}; every interval needs one")
    steps = np.diff(times)
    length = float(steps.min())
    if length <= 0 or steps.max() > length * 1.000001:
        row = int((steps > length * 1.000001).argmax() if length > 0 else steps.argmin())
        raise CapplanError(
            f"inference load: after row {row + 1} the next interval starts {steps[row]:g} s later, elsewhere {np.median(steps):g} s; "
            "give equal intervals in their order, each once"
        )
    if seconds / length > MOST_STEPS:
        raise CapplanError(f"inference load: intervals of {length:g} s over {seconds / DAY:,.0f} days are too many; sum the load to hours")
    count = len(values)
    total = count * length
    unit, word = (7 * DAY, "weeks") if total >= 7 * DAY else (DAY, "days") if total >= DAY else (total, "")
    repeated = int(np.floor(total / unit) * unit // length)
    notes: tuple[str, ...] = ()
    if not (dated and times[0] <= 0 and times[-1] + length >= (seconds if covered is None else covered)):
        notes = (f"The inference load covers {total / DAY:.3g} days and is repeated{f' in whole {word}' if word else ''} over the trace.",)
    first = int(np.floor(-times[0] / length))
    number = np.arange(first, int(np.ceil((seconds - times[0]) / length)) + 1)
    # before its first interval its first weeks come again, after its last one its last weeks
    place = np.where(number < count, np.where(number < 0, number % repeated, number), count - repeated + (number - count) % repeated)
    start = times[0] + length * number
    end = start + length
    start[0] = 0.0
    keep = end > 0
    return Load(start[keep], end[keep], values[place][keep], notes)
