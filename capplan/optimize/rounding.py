"""Whole first stages from parts of lots: round step by step, and let what is not rounded yet follow."""

import contextlib

import numpy as np

from capplan.optimize.master import Master
from capplan.optimize.solver import InfeasibleError

Array = np.ndarray
#: A number this near to a whole one is whole.
WHOLE = 1e-6
#: At each step this share of what is open is rounded, and one more.
STEP_SHARE = 1 / 12


def dive(master: Master, relaxed: Array, *, anew: bool = False) -> Array | None:
    """Fix what is nearest to a whole number, solve the relaxed master for the rest, and so on; None where that leads to no first stage.

    Args:
        master: The master with its cuts; its bounds are those of the program again afterwards.
        relaxed (n,): A first stage in parts.
        anew: Whether what cannot be rounded together is rounded one by one, and to the other side where it must be.
    """
    problem, x = master.problem, relaxed
    lower, upper = problem.lower.copy(), problem.upper.copy()
    try:
        while True:
            off = np.where(problem.integer, np.abs(x - np.round(x)), 0.0)
            open_ = np.flatnonzero(off > WHOLE)
            if not len(open_):
                return np.where(problem.integer, np.round(x), x)
            nearest = open_[np.argsort(off[open_], kind="stable")][: 1 + int(STEP_SHARE * len(open_))]
            ways = [(nearest, np.round(x[nearest]))]
            if anew:
                first = nearest[:1]
                ways += [
                    (first, np.round(x[first])),
                    (first, np.where(np.round(x[first]) > x[first], np.floor(x[first]), np.ceil(x[first]))),
                ]
            x = _fixed(master, lower, upper, ways)
    except InfeasibleError:
        return None
    finally:
        master.bound_by(problem.lower, problem.upper)


def _fixed(master: Master, lower: Array, upper: Array, ways: list[tuple[Array, Array]]) -> Array:
    """Fix variables at values, in the first of some ways that leaves a first stage, and return it.

    Args:
        lower, upper (n,): Bounds so far, which the way is written into.
        ways: Which variables, and their values.

    Raises:
        InfeasibleError: If none does.
    """
    for place, value in ways:
        before = lower[place].copy(), upper[place].copy()
        lower[place] = upper[place] = value
        master.bound_by(lower, upper)
        with contextlib.suppress(InfeasibleError):
            return master.relax().x
        lower[place], upper[place] = before
    raise InfeasibleError("no way of rounding leaves a first stage")
