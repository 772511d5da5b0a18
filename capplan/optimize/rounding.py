"""Whole first stages from parts of lots: round step by step, and let what is not rounded yet follow."""

import numpy as np

from capplan.optimize.master import Master
from capplan.optimize.solver import InfeasibleError

Array = np.ndarray
#: A number this near to a whole one is whole.
WHOLE = 1e-6
#: At each step this share of what is open is rounded, and one more.
STEP_SHARE = 1 / 12


def dive(master: Master, relaxed: Array) -> Array | None:
    """Fix what is nearest to a whole number, solve the relaxed master for the rest, and so on; None where that leads to no first stage.

    Args:
        master: The master with its cuts; its bounds are those of the program again afterwards.
        relaxed (n,): A first stage in parts.
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
            lower[nearest] = upper[nearest] = np.round(x[nearest])
            master.bound_by(lower, upper)
            x = master.relax().x
    except InfeasibleError:
        return None
    finally:
        master.bound_by(problem.lower, problem.upper)
