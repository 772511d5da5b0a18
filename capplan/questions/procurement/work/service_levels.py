"""Service levels: the least cost of shortfall at which each class of work is served as far as it must be."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.errors import CapplanError
from capplan.optimize.clock import OutOfTimeError, time_is_up
from capplan.optimize.program import Solution
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.work.load import Work

#: Highest factor on a class's cost of shortfall; what is not served then cannot be served.
HIGHEST_FACTOR = 2.0**10
#: The factor is found to this ratio.
FACTOR_STEPS = 4
#: A share this little below the level meets it.
TOLERANCE_SHARE = 1e-9


class Held(NamedTuple):
    """What holds the service level: the factor on each class's cost of shortfall, and the share served with and without it."""

    factor: dict[str, float]
    share: pd.Series
    before: pd.Series


def served_shares(work: Work, recourse: Recourse, decisions: sparse.csr_matrix) -> pd.Series:
    """Return the expected share of each class's work that is served over the planned quarters."""
    columns = recourse.columns
    short = np.flatnonzero(columns["source"] == "shortfall")
    planned = np.flatnonzero(recourse.planned)
    weight = work.paths["probability"].to_numpy()[work.points["path"]] * work.points["hours"].to_numpy()
    missed = np.zeros(len(work.rows))
    missed[columns["row"].to_numpy(int)[short]] = weight @ decisions[planned][:, short].toarray()
    wanted = weight @ work.load
    by_class = pd.DataFrame({"class": work.rows["class"], "missed": np.minimum(missed, wanted), "wanted": wanted}).groupby("class").sum()
    return 1 - (by_class["missed"] / by_class["wanted"].where(by_class["wanted"] > 0, 1.0))


def hold_level(
    solve: Callable[[Mapping[str, float]], tuple[Work, Recourse, Solution]], level: float, clash: Callable[[], str] = lambda: ""
) -> Held:
    r"""Find by how much the cost of shortfall must rise for each class to be served to a level.

    .. math:: \min f_c \ge 1 \quad\text{s.t.}\quad 1 - \frac{E[\sum_p h_p u_{cp}(f)]}{E[\sum_p h_p D_{cp}]} \ge \text{level}

    A price keeps every hour on its own, where a row over all hours would tie them together. The plan is then the best at that price, and
    every plan
    that serves as much costs at least as much at it.

    Args:
        solve: Plans under given factors by class.
        clash: Asked for a sentence on the limits that stand against it, where it cannot be met.

    Raises:
        CapplanError: Naming the classes that cannot be served so far, and how far they can be.
    """
    now = served_shares(*_parts(solve({})))
    before = now
    high = dict.fromkeys(now.index[now < level - TOLERANCE_SHARE], 1.0)
    low = dict(high)
    while (short := [name for name in high if now[name] < level - TOLERANCE_SHARE]) or any(now.drop(list(high)) < level - TOLERANCE_SHARE):
        if time_is_up():
            raise OutOfTimeError(
                f"the time limit came before a plan that serves {100 * level:g} % of each class was found; allow more time"
                " (time_limit_seconds), or none"
            )
        for name in now.index[now < level - TOLERANCE_SHARE]:
            low[name] = high.get(name, 1.0)
            high[name] = low[name] * 2
        if max(high.values()) > HIGHEST_FACTOR:
            stuck = ", ".join(f"{name} to {100 * now[name]:.2f} %" for name in short)
            raise CapplanError(
                f"service_level_share is {level:g}, but {stuck} is the most that can be served, whatever it costs.{clash()} "
                "Raise caps, quotas or budgets, add offers, or lower the level"
            )
        now = served_shares(*_parts(solve(high)))
    for _ in range(FACTOR_STEPS if high else 0):
        if time_is_up():
            break
        trial = {name: float(np.sqrt(low[name] * high[name])) for name in high}
        share = served_shares(*_parts(solve(trial)))
        met = {name: share[name] >= level - TOLERANCE_SHARE for name in high}
        if (share >= level - TOLERANCE_SHARE).all():
            high, now = trial, share
        else:
            low = {name: low[name] if met[name] else trial[name] for name in high}
    return Held(high, now, before)


def _parts(solved: tuple[Work, Recourse, Solution]) -> tuple[Work, Recourse, sparse.csr_matrix]:
    """Return what served shares are read from."""
    work, recourse, solution = solved
    return work, recourse, solution.recourse


def level_notes(held: Held, level: float) -> tuple[str, ...]:
    """Say what the service level did."""
    return tuple(
        f"{name}: a shortfall is priced at {factor:.3g} times its stated cost so that {100 * level:g} % of the work is served on average "
        f"({100 * held.share[name]:.1f} % are; without the level {100 * held.before[name]:.1f} %)."
        for name, factor in held.factor.items()
    )
