"""What runs worse than it should: jobs that overrun or fail, units that take longer, accelerators that add or compute little."""

import pandas as pd

from capplan.book.scenario import ReviewAssumptions
from capplan.book.terms import TIME_UNITS

COLUMNS = ["workload", "owner", "team", "sign", "measured_share", "allowed_share", "flagged", "accelerator_hours", "jobs"]
SECONDS_PER_HOUR = 3600.0
OVERRUN, STEP_TIME, UTILISATION = "runs take longer than stated", "a unit takes longer than before", "accelerators that compute"
GOODPUT, SCALING = "accelerator-hours of jobs that did not fail", "speed at most accelerators, of that in proportion"
#: How schedulers say that a job failed by no one's wish, and that it has not ended.
FAILED = ("failed", "fail", "failure", "error", "timeout", "node_fail", "boot_fail", "out_of_memory", "oom", "oomkilled", "unsuccessful")
OPEN = ("running", "pending", "waiting", "queued", "requeued", "suspended")


def work_flags(
    jobs: pd.DataFrame, usage: pd.DataFrame, workloads: pd.DataFrame, scaling_runs: pd.DataFrame, a: ReviewAssumptions
) -> pd.DataFrame:
    r"""Hold the jobs of each workload against what was stated, what they took before, and what accelerators should do.

    With n accelerators and hours h of a job, e hours stated, u its utilisation, f whether it failed, W the work of a month, m the latest
    whole month, and X the measured speed on the fewest (a) and the most (b) accelerators of a curve:

    .. math::
        \text{overrun} = \frac{\sum n h}{\sum n e} - 1, \qquad
        \text{step time} = \frac{\sum_m n h / W_m}{\sum_{<m} n h / W_{<m}} - 1, \qquad
        \text{utilisation} = \frac{\sum n h u}{\sum n h}, \qquad
        \text{goodput} = 1 - \frac{\sum n h f}{\sum n h}, \qquad
        \text{scaling} = \frac{X_b / n_b}{X_a / n_a}

    Args:
        jobs, usage, workloads, scaling_runs: The tables of these names. Jobs without what a sign needs do not count in it; work counted in
            accelerator-hours has no step time.
        a: overrun_share, step_time_share, least_utilisation_share, least_goodput_share, least_scaling_share: the thresholds.

    Returns:
        DataFrame: workload (or curve), owner, team, sign, measured_share, allowed_share, flagged, accelerator_hours (of the jobs it rests
            on), jobs (their number); flagged rows first, those with the most accelerator-hours first.
    """
    done = jobs[jobs["workload"].notna() & jobs["duration_seconds"].gt(0) & jobs["accelerators"].gt(0)]
    hours = done["accelerators"] * done["duration_seconds"] / SECONDS_PER_HOUR
    done = done.assign(
        hours=hours, stated=hours * done["expected_seconds"] / done["duration_seconds"], busy=hours * done["utilisation_share"]
    )
    rows = []
    for name, part in done.groupby("workload", sort=True):
        stated, seen = part[part["stated"].gt(0)], part[part["busy"].notna()]
        ended = part[part["state"].notna() & ~part["state"].str.lower().isin(OPEN)]
        if len(stated):
            rows.append((name, OVERRUN, stated["hours"].sum() / stated["stated"].sum() - 1, a.overrun_share, 1, stated))
        if len(seen):
            rows.append((name, UTILISATION, seen["busy"].sum() / seen["hours"].sum(), a.least_utilisation_share, -1, seen))
        if len(ended):
            kept = ended.loc[~ended["state"].str.lower().isin(FAILED), "hours"].sum() / ended["hours"].sum()
            rows.append((name, GOODPUT, kept, a.least_goodput_share, -1, ended))
    rows += [(name, SCALING, share, a.least_scaling_share, -1, done.head(0)) for name, share in _scaling(scaling_runs)]
    rows += [(name, STEP_TIME, change, a.step_time_share, 1, part) for name, change, part in _step_times(done, usage, workloads)]
    about = workloads.set_index("workload")
    table = pd.DataFrame(
        [
            (
                name,
                about["owner"].get(name),
                about["team"].get(name),
                sign,
                share,
                allowed,
                way * (share - allowed) > 0,
                part["hours"].sum(),
                len(part),
            )
            for name, sign, share, allowed, way, part in rows
        ],
        columns=COLUMNS,
    )
    return table.sort_values(["flagged", "accelerator_hours"], ascending=False, ignore_index=True, kind="stable")


def _step_times(done: pd.DataFrame, usage: pd.DataFrame, workloads: pd.DataFrame) -> list[tuple[str, float, pd.DataFrame]]:
    """Return the change of accelerator-hours a unit from the months before to the latest whole month, and the jobs of that month."""
    found = []
    counted = workloads.loc[workloads["unit"] != "accelerator_hours", "workload"]
    for name, part in done[done["workload"].isin(counted)].groupby("workload", sort=True):
        mine = usage[usage["workload"] == name]
        if mine.empty:
            continue
        work = mine.groupby(mine["time"].dt.to_period("M"))["quantity"].sum()
        began = part["start"].fillna(part["submit"]).dt.to_period("M")
        taken = part["hours"].groupby(began).sum()
        both = pd.DataFrame({"work": work, "hours": taken}).dropna()
        both = both[(both["work"] > 0) & (both.index < mine["time"].max().to_period("M") + _whole(mine["time"].max()))]
        if len(both) > 1:
            before, last = both.iloc[:-1].sum(), both.iloc[-1]
            change = (last["hours"] / last["work"]) / (before["hours"] / before["work"]) - 1
            found.append((str(name), float(change), part[began == both.index[-1]]))
    return found


def _scaling(runs: pd.DataFrame) -> list[tuple[str, float]]:
    """Return the share of proportional speed that each curve keeps on its most accelerators."""
    found = []
    for name, part in runs.groupby("curve", sort=True):
        speed = part["throughput"].where(~part["unit"].isin(TIME_UNITS), 1 / part["throughput"])
        each = (speed / part["accelerators"]).groupby(part["accelerators"]).mean()
        if len(each) > 1:
            found.append((str(name), float(each.iloc[-1] / each.iloc[0])))
    return found


def _whole(last: pd.Timestamp) -> int:
    """Return 1 where the month of the last measured hour was measured to its end, else 0."""
    return int((last + pd.Timedelta(hours=1)).month != last.month)
