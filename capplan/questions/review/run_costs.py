"""What each training run cost: the accelerator-hours of all its jobs, also those that failed, at what an hour was billed."""

from collections.abc import Sequence

import pandas as pd

from capplan.questions.review.spend_rows import USE

COLUMNS = ["run_id", "workload", "owner", "team", "work", "unit", "jobs", "accelerator_hours", "overrun_share", "amount", "amount_per_unit"]
SECONDS_PER_HOUR, FLOPS_PER_WEIGHT_AND_TOKEN, EXA = 3600.0, 6, 1e18


def hour_rates(spent: pd.DataFrame) -> pd.DataFrame:
    r"""Return what an accelerator-hour is charged internally, so that the hours that were used pay for all machines.

    .. math:: p_g = \frac{\sum_{r \in g} x_r}{\sum_{r \in g,\ \text{used}} h_r}

    Args:
        spent: SPEND (see `spend_rows`) of the months reviewed: what stood unused is borne by the hours that were used.

    Returns:
        DataFrame: accelerator, accelerator_hours (used), amount, amount_per_accelerator_hour; accelerators whose hours no one counts are
            left out.
    """
    machines = spent[spent["kind"].isin([*USE, "unused"])]
    hours = machines["hours"].where(machines["kind"].isin(USE), 0.0)
    sums = pd.DataFrame({"accelerator_hours": hours, "amount": machines["amount"]}).groupby(machines["accelerator"]).sum()
    sums = sums[sums["accelerator_hours"] > 0]
    return sums.assign(amount_per_accelerator_hour=sums["amount"] / sums["accelerator_hours"]).rename_axis("accelerator").reset_index()


def run_costs(
    jobs: pd.DataFrame, training_runs: pd.DataFrame, workloads: pd.DataFrame, spent: pd.DataFrame, months: Sequence[pd.Timestamp]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    r"""Say what each training run cost whose jobs all ran in the months reviewed, with its size and who answers for it.

    With n accelerators and hours h of the jobs j of a run, e hours stated, p the cost of an hour (see `hour_rates`) and W the run's
    work:

    .. math::
        x = \sum_j n_j h_j p_{g(j)}, \qquad \text{overrun} = \frac{\sum_j n_j h_j}{\sum_j n_j e_j} - 1, \qquad c = \frac{x}{W}

    Args:
        jobs: Table jobs; those with a run_id count, however they ended.
        training_runs, workloads: The tables of these names: for the size of a run (its quantity, or 6 x parameters x tokens where its
            workload counts exaflop), its owner and team.

    Returns:
        table: COLUMNS, the dearest run first: work and amount_per_unit are missing where the roadmap does not state a size, overrun_share
            where not all jobs state what they should take.
        notes: What was left out.
    """
    mine = jobs[jobs["run_id"].notna() & jobs["duration_seconds"].gt(0) & jobs["accelerators"].gt(0)]
    rates = hour_rates(spent)
    if mine.empty or rates.empty:
        return pd.DataFrame(columns=COLUMNS), ()
    began = mine["start"].fillna(mine["submit"])
    ended = began + pd.to_timedelta(mine["duration_seconds"], unit="s")
    outside = (began < months[0]) | (ended > months[-1] + pd.DateOffset(months=1))
    partly = sorted(set(mine.loc[outside, "run_id"]) & set(mine.loc[~outside, "run_id"]))
    mine = mine[~mine["run_id"].isin(mine.loc[outside, "run_id"])]
    hours = mine["accelerators"] * mine["duration_seconds"] / SECONDS_PER_HOUR
    prices, mean = rates.set_index("accelerator")["amount_per_accelerator_hour"], rates["amount"].sum() / rates["accelerator_hours"].sum()
    price = mine["accelerator"].map(prices).fillna(mean).astype(float)
    mine = mine.assign(hours=hours, amount=hours * price, stated=hours * mine["expected_seconds"].astype(float) / mine["duration_seconds"])
    roadmap, about = training_runs.set_index("run_id"), workloads.set_index("workload")
    rows = []
    for name, part in mine.groupby("run_id", sort=True):
        run = roadmap.loc[name] if name in roadmap.index else None
        workload = run["workload"] if run is not None else part["workload"].dropna().iloc[0] if part["workload"].notna().any() else None
        whose = about.loc[workload] if workload in about.index else None
        unit = None if whose is None else whose["unit"]
        work = None if run is None else _size(run, unit)
        overrun = part["hours"].sum() / part["stated"].sum() - 1 if part["stated"].notna().all() else None
        amount = float(part["amount"].sum())
        owner, team = (None, None) if whose is None else (whose["owner"], whose["team"])
        each = amount / work if work else None
        rows.append((name, workload, owner, team, work, unit, len(part), part["hours"].sum(), overrun, amount, each))
    numbers = dict.fromkeys(("work", "overrun_share", "amount_per_unit", "accelerator_hours", "amount"), "float64")
    table = pd.DataFrame(rows, columns=COLUMNS).astype(numbers).sort_values("amount", ascending=False, ignore_index=True, kind="stable")
    notes = (f"Runs that are not over, or began before, have no cost yet: {', '.join(map(str, partly))}.",) if partly else ()
    return table, notes


def _size(run: pd.Series, unit: str | None) -> float | None:
    """Return the work of a run of the roadmap in its workload's unit, where it is stated."""
    if pd.notna(run["quantity"]):
        return float(run["quantity"])
    if unit != "exaflop" or pd.isna(run["parameters"]) or pd.isna(run["tokens"]):
        return None
    return float(FLOPS_PER_WEIGHT_AND_TOKEN * run["parameters"] * run["tokens"] / EXA)
