"""Work that is put off: decided with the contracts, equal on all paths, so that every quarter stays on its own afterwards."""

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.program.other_decisions import Extra
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.timeline import Timeline
from capplan.records import records


def deferrals(work: Work, timeline: Timeline, a: ProcurementAssumptions) -> list[Extra]:
    r"""List what can be put off: so many of the fastest accelerators, all hours of a quarter, to each quarter within the window.

    .. math:: D_{dq} - w_{dqr},\quad D_{dr} + w_{dqr}\,H_q / H_r,\quad 0 \le w_{dqr} \le \max D_{dq}

    Where a path has less work than is put off, it does the work all the same, so that no path is planned with too little.

    Args:
        work: Rows of demand; only those that are deferrable.
        timeline: Quarters; work is put off to planned quarters only.
    """
    found = []
    quarter = work.points["quarter"].to_numpy()
    for d, row in enumerate(records(work.rows)):
        if not row["deferrable"] or a.deferral_quarters == 0:
            continue
        for q in range(timeline.planned - 1):
            most = float(work.load[quarter == q, d].max(initial=0.0))
            for later in range(q + 1, min(q + a.deferral_quarters, timeline.planned - 1) + 1):
                if most > 0:
                    hours = float(timeline.hours[q])
                    usd = a.deferral_cost_share_per_quarter * (later - q) * row["shortfall_usd"] * hours
                    # The last planned quarter is demand for ever after; what is put off into it is no part of that.
                    adds = {(q, d): -1.0, (later, d): hours / float(timeline.hours[later])}
                    found.append(
                        Extra(
                            f"put off {d} {timeline.quarters[q]} to {timeline.quarters[later]}",
                            str(d),
                            q,
                            most,
                            usd * float(timeline.discount[q]),
                            0.0,
                            adds,
                        )
                    )
    return found


def moved_load(work: Work, extras: list[Extra], amounts: np.ndarray) -> np.ndarray:
    """Return the load of every planned point after work was put off, (points, D); no path has less than none."""
    load = work.load.copy()
    quarter = work.points["quarter"].to_numpy()
    for extra, amount in zip(extras, amounts, strict=True):
        for (when, row), value in extra.adds.items():
            load[quarter == when, row] += value * amount
    return np.maximum(load, 0.0)


def deferral_table(work: Work, timeline: Timeline, extras: list[Extra], amounts: np.ndarray) -> pd.DataFrame:
    """List the work that is put off: class, region, from_quarter, to_quarter, work (class's unit), usd (undiscounted delay)."""
    rows = []
    for extra, amount in zip(extras, amounts, strict=True):
        if amount * timeline.hours[extra.quarter] > 1e-6:
            about = work.rows.loc[int(extra.group)]
            target = max(when for when, _ in extra.adds)
            work_done = float(amount * timeline.hours[extra.quarter] * about["fastest"])
            usd = float(amount * extra.usd / timeline.discount[extra.quarter])
            rows.append((about["class"], about["region"], timeline.quarters[extra.quarter], timeline.quarters[target], work_done, usd))
    return pd.DataFrame(rows, columns=["class", "region", "from_quarter", "to_quarter", "work", "usd"])
