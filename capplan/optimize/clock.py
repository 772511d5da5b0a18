"""How long a search may go on: one limit for all programs that are solved inside it, and whether it cut one short."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf

from capplan.errors import SolveError

#: Seconds from some moment on.
read: Callable[[], float] = time.perf_counter

TOO_SOON = "the time limit came before any solution that keeps all limits was found; allow more time (time_limit_seconds), or none"


class OutOfTimeError(SolveError):
    """The time limit came before any solution was found."""


@dataclass
class Clock:
    """A time limit and what came of it."""

    ends: float  #: Reading at which it ends; infinite where there is no limit.
    cut_short: bool = False  #: Whether a search was ended by it.


_running: ContextVar[Clock | None] = ContextVar("running", default=None)


@contextmanager
def time_limit(seconds: float) -> Iterator[Clock]:
    """Limit all searches inside to a number of seconds together; 0 sets no limit.

    A search looks at the clock between its steps and always takes the first of each kind, so that it ends with a plan and a proven bound.

    Examples:
        >>> with time_limit(1e-9) as clock:
        ...     time_is_up(), clock.cut_short
        (True, True)
        >>> time_is_up()
        False
    """
    clock = Clock(read() + seconds) if seconds > 0 else Clock(inf)
    token = _running.set(clock)
    try:
        yield clock
    finally:
        _running.reset(token)


def seconds_left() -> float:
    """Return the seconds until the limit, 0 or more; infinite where there is none."""
    clock = _running.get()
    return inf if clock is None or clock.ends == inf else max(clock.ends - read(), 0.0)


def time_is_up() -> bool:
    """Tell a search whether it must end here, and remember that it did."""
    if seconds_left() > 0:
        return False
    cut_short()
    return True


def cut_short() -> None:
    """Remember that a search was ended by the limit."""
    clock = _running.get()
    if clock is not None:
        clock.cut_short = True
