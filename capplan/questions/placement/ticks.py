"""Ticks of time and parts of a resource, rounded so that what is proven of these whole numbers holds for the hours."""

from dataclasses import dataclass

import numpy as np

from capplan.questions.placement.state import Floats, Whole

#: Ticks of a horizon that no even grid fits, and the most that an even one may have.
TICKS, MOST_TICKS = 10_000_000, 1_000_000_000
#: Ticks of an hour that are tried: hours, halves, quarters, five minutes, minutes, seconds.
EVEN = (1, 2, 4, 12, 60, 3600)
#: Parts of a resource's capacity where its needs are no whole numbers.
PARTS = 1_000_000
#: Share of a tick that floating-point arithmetic leaves.
DUST = 1e-9


@dataclass(frozen=True)
class Grid:
    r"""Ticks of time.

    Durations, transfers and releases are rounded down, due dates up, absences inwards. Any schedule in hours, its order kept and moved as
    early as it can, is then one in ticks that ends no later, so that a bound in ticks times the tick is one in hours:
    :math:`T \ge \delta\,T_{ticks}`. Where all times are multiples of the tick nothing is lost.
    """

    hours: float  #: Length of a tick.

    def down(self, hours: Floats | float) -> Whole:
        """Return whole ticks at most as long."""
        return np.floor(np.asarray(hours, dtype=float) / self.hours + DUST).astype(np.int64)

    def up(self, hours: Floats | float) -> Whole:
        """Return whole ticks at least as long."""
        return np.ceil(np.asarray(hours, dtype=float) / self.hours - DUST).astype(np.int64)


def grid_of(times: Floats, horizon: float) -> Grid:
    """Return the coarsest grid on which all times lie, or one of ten million ticks.

    Args:
        times: Hours of everything that has a length or an instant.
        horizon: Hours that have to be covered.
    """
    for parts in EVEN:
        ticks = times * parts
        if horizon * parts <= MOST_TICKS and (np.abs(ticks - np.round(ticks)) <= DUST * np.maximum(ticks, 1.0)).all():
            return Grid(1.0 / parts)
    return Grid(max(horizon, DUST) / TICKS)


def whole_needs(needs: Floats, capacity: float) -> tuple[Whole, int]:
    """Return needs and capacity of a resource as whole numbers, rounded so that all that fits still fits."""
    for parts in (1, 2, 4, 8, 10, 100, 1000):
        scaled = np.append(needs, capacity) * parts
        if (np.abs(scaled - np.round(scaled)) <= DUST * np.maximum(scaled, 1.0)).all() and capacity * parts <= PARTS * 100:
            return np.round(needs * parts).astype(np.int64), round(capacity * parts)
    return np.floor(needs / capacity * PARTS + DUST).astype(np.int64), PARTS
