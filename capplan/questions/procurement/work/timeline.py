"""The quarters a plan looks at: planned ones, and those in which its contracts live on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.units import quarter_end, quarter_hours, quarter_index, quarter_label, quarter_of, quarter_start


@dataclass(frozen=True)
class Timeline:
    """Quarters from the first planned one to the last in which a contract can run."""

    quarters: tuple[str, ...]  #: Labels, planned quarters first.
    planned: int  #: How many of them are planned; decisions fall only there.
    hours: np.ndarray  #: (Q,): Hours of each quarter.
    #: discount, discount_start (Q,): Value today of a dollar paid evenly over the quarter (at its middle) and at its start.
    discount: np.ndarray
    discount_start: np.ndarray
    rate_per_year: float  #: Cost of capital.

    @property
    def horizon(self) -> tuple[str, ...]:
        """The planned quarters."""
        return self.quarters[: self.planned]

    @cached_property
    def starts(self) -> pd.DatetimeIndex:
        """First instant of each quarter."""
        return pd.DatetimeIndex([quarter_start(quarter) for quarter in self.quarters])

    @cached_property
    def months(self) -> pd.DatetimeIndex:
        """First instant of each month, and of the one after the last quarter, (3 Q + 1,)."""
        return pd.date_range(self.starts[0], periods=3 * len(self.quarters) + 1, freq="MS")

    @cached_property
    def days(self) -> np.ndarray:
        """Days of each quarter, (Q,)."""
        edges = pd.DatetimeIndex([*self.starts, quarter_end(self.quarters[-1])])
        return np.asarray((edges[1:] - edges[:-1]).days, dtype=float)

    @cached_property
    def middles(self) -> pd.DatetimeIndex:
        """Middle of each quarter."""
        return self.starts + (pd.DatetimeIndex([quarter_end(quarter) for quarter in self.quarters]) - self.starts) / 2

    def when(self, date: pd.Timestamp) -> tuple[int, float]:
        """Return the quarter (index) of a day, and the value today of a dollar paid on it."""
        quarter = min(max(quarter_index(quarter_of(date)) - quarter_index(self.quarters[0]), 0), len(self.quarters) - 1)
        begin, end = quarter_start(self.quarters[quarter]), quarter_end(self.quarters[quarter])
        passed = quarter + (date - begin) / (end - begin)
        return quarter, float((1 + self.rate_per_year) ** (-passed / 4))

    def covered(self, start: pd.Series, end: pd.Series) -> np.ndarray:
        """Share of each quarter that lies between two instants, (rows, Q); 1 for whole quarters.

        Args:
            start, end: First instant of service, and first instant after it.
        """
        return _overlap_share(start, end, self.starts, quarter_end(self.quarters[-1]))

    def paid(self, usd: np.ndarray, start: pd.Series, end: pd.Series, months_later: int) -> np.ndarray:
        """Return by quarter of payment, (rows, Q), what falls due evenly over the service within each quarter and is invoiced by month.

        Args:
            usd (rows, Q): What falls due.
            start, end: First instant of service, and first instant after it.
            months_later: Months from that of the service to that of the payment. What is paid after the last quarter is left out.
        """
        months = self.months
        days = _overlap_share(start, end, months[:-1], months[-1]) * (months[1:] - months[:-1]).days.to_numpy()
        served = np.repeat(days.reshape(len(usd), -1, 3).sum(axis=2), 3, axis=1)
        due = np.repeat(usd, 3, axis=1) * np.divide(days, served, out=np.zeros_like(days), where=served > 0)
        return np.asarray(np.pad(due, ((0, 0), (months_later, 0)))[:, : due.shape[1]].reshape(len(usd), -1, 3).sum(axis=2))

    def paid_share(self, months_later: int) -> np.ndarray:
        """Share of what is used evenly over each quarter (rows) that is paid in each quarter (columns), (Q, Q), see `paid`."""
        if months_later not in self._paid_shares:
            whole = pd.Series(self.starts[[0]].repeat(len(self.quarters)))
            over = whole + (quarter_end(self.quarters[-1]) - self.starts[0])
            self._paid_shares[months_later] = self.paid(np.eye(len(self.quarters)), whole, over, months_later)
        return self._paid_shares[months_later]

    @cached_property
    def _paid_shares(self) -> dict[int, np.ndarray]:
        """What `paid_share` has returned."""
        return {}


def _overlap_share(start: pd.Series, end: pd.Series, firsts: pd.DatetimeIndex, over: pd.Timestamp) -> np.ndarray:
    """Share of each stretch of time that lies between two instants, (rows, stretches); the last stretch is over at `over`."""
    first = firsts.to_numpy("datetime64[ns]").astype(np.int64)
    last = np.append(first[1:], np.datetime64(over, "ns").astype(np.int64))
    begin, stop = (each.to_numpy("datetime64[ns]").astype(np.int64)[:, None] for each in (start, end))
    return np.asarray(np.clip(np.minimum(stop, last) - np.maximum(begin, first), 0, None) / (last - first))


def years_after(a: ProcurementAssumptions) -> int:
    """Years after the horizon in which the last quarter's demand is served: whatever is offered, so that none makes a plan longer."""
    return a.years_after_horizon if a.horizon_end == "hold_demand" else 0


def counted_quarters(timeline: Timeline, a: ProcurementAssumptions) -> int:
    """Quarters whose payments a plan counts: the planned ones, all, or those while demand is held."""
    held = timeline.planned + 4 * years_after(a)
    return {"truncate": timeline.planned, "count_in_full": len(timeline.quarters)}.get(a.horizon_end, held)


def make_timeline(a: ProcurementAssumptions, last_end: pd.Timestamp) -> Timeline:
    """Lay out the quarters from the first planned one to the one in which the last contract ends, and at least as far as demand is held.

    Args:
        last_end: First instant after the last contract that can be bought.
    """
    first = quarter_index(a.first_quarter)
    count = a.horizon_quarters + 4 * years_after(a)
    while quarter_start(quarter_label(first + count)) < last_end:
        count += 1
    quarters = tuple(quarter_label(first + step) for step in range(count))
    step = np.arange(count)
    growth = 1 + a.discount_rate_per_year
    hours = np.array([quarter_hours(quarter, a.hours_convention) for quarter in quarters])
    return Timeline(quarters, a.horizon_quarters, hours, growth ** (-(step + 0.5) / 4), growth ** (-step / 4), a.discount_rate_per_year)
