"""What a look-back recommender would buy, and what each rule would have cost afterwards."""

import numpy as np
import pandas as pd

from capplan.book.assumptions.portfolio import PortfolioAssumptions
from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.portfolio.periods import Periods, measured
from capplan.questions.portfolio.pools import POOL, Pool, PoolTables, build_pools
from capplan.questions.portfolio.portfolio_answer import Rehearsal
from capplan.questions.portfolio.stack import Stack

#: Days that the recommenders of cloud consoles look back; AWS Cost Explorer API, LookbackPeriodInDays, offers these three.
LOOKBACK_DAYS = (7, 30, 60)
HOUR = pd.Timedelta(hours=1)


def hourly_load(usage: pd.DataFrame, shares: pd.DataFrame, members: pd.DataFrame) -> pd.DataFrame:
    """Turn measured work into accelerators, hour by hour.

    Args:
        usage: The usage table; an interval longer than an hour is spread evenly.
        shares: What `lay_out` returns.
        members: workload, class.

    Returns:
        DataFrame: accelerator, geography, time (hour), accelerators; only hours in which every workload of the pool was measured.
    """
    rows = usage.merge(members, on="workload")
    parts = []
    for _, part in rows.groupby(["workload", "region"], sort=True):
        ordered = part.sort_values("time")
        step = ordered["time"].diff().median()
        hours = 1 if pd.isna(step) else max(int(step / HOUR), 1)
        wide = ordered.loc[ordered.index.repeat(hours)].copy()
        wide["time"] = wide["time"] + pd.to_timedelta(np.tile(np.arange(hours), len(ordered)), unit="h")
        wide["quantity"] = wide["quantity"] / hours
        parts.append(wide)
    if not parts:
        return pd.DataFrame(
            {"accelerator": [], "geography": [], "time": pd.Series(dtype="datetime64[ns]"), "accelerators": pd.Series(dtype=float)}
        )
    laid = pd.concat(parts, ignore_index=True).merge(shares, on=["class", "region"])
    laid["accelerators"] = laid["quantity"] * laid["share"] / laid["work_per_accelerator_hour"]
    laid["series"] = laid["workload"] + "|" + laid["region"]
    sums = laid.groupby([*POOL, "time"], as_index=False).agg(accelerators=("accelerators", "sum"), series=("series", "nunique"))
    return sums[sums["series"] == sums.groupby(POOL)["series"].transform("max")].drop(columns="series").reset_index(drop=True)


def measured_load(usage: pd.DataFrame | None, workloads: pd.DataFrame | None, shares: pd.DataFrame) -> pd.DataFrame:
    """Measured load by pool and hour as `hourly_load` gives it, classes looked up; without rows where nothing was measured."""
    if usage is None or workloads is None or usage.empty:
        return pd.DataFrame({"accelerator": [], "geography": [], "time": pd.to_datetime([]), "accelerators": []})
    named = workloads["work_class"] if "work_class" in workloads else pd.Series(index=workloads.index, dtype=object)
    members = pd.DataFrame({"workload": workloads["workload"], "class": named.where(named.notna(), workloads["workload"])})
    return hourly_load(usage, shares, members)


def recommend_now(
    usage: pd.DataFrame, workloads: pd.DataFrame, demand: pd.DataFrame, supply: PoolTables, a: ProcurementAssumptions
) -> pd.DataFrame:
    """Say what rules that only look back would buy today: in each pool so much of the contract with the cheapest hour, whatever its term.

    Args:
        usage, workloads: As for `mix_portfolio`.
        demand: Only says which accelerator does which work.

    Returns:
        DataFrame: rule, accelerator, geography, offer_id, usd_per_accelerator_hour, accelerators; no rows where the history is too short.
    """
    pools, shares, _ = build_pools(demand, supply, a)
    hours = measured_load(usage, workloads, shares)
    rows = []
    for pool in pools:
        if pool.contracts.empty:
            continue
        cheapest = pool.contracts.sort_values(["usd_per_hour", "offer_id"]).iloc[0]
        mine = hours[(hours["accelerator"] == pool.accelerator) & (hours["geography"] == pool.geography)]
        for rule, level in rules(pool, mine, float(cheapest["usd_per_hour"]), a).items():
            rows.append((rule, pool.accelerator, pool.geography, cheapest["offer_id"], float(cheapest["usd_per_hour"]), level))
    return pd.DataFrame(rows, columns=["rule", *POOL, "offer_id", "usd_per_accelerator_hour", "accelerators"])


def net_of_held(hours: pd.DataFrame, holdings: pd.DataFrame) -> np.ndarray:
    """Take what was under contract in each hour from its load."""
    time = hours["time"].to_numpy()[:, None]
    live = (time >= holdings["start"].to_numpy()[None, :]) & (time < holdings["end"].to_numpy()[None, :])
    return np.asarray(np.maximum(hours["accelerators"].to_numpy() - live @ holdings["accelerators"].to_numpy(float), 0.0))


def rules(pool: Pool, hours: pd.DataFrame, usd_per_hour: float, a: ProcurementAssumptions) -> dict[str, float]:
    """Say how many accelerators each rule commits to that only looks back.

    Args:
        pool: The pool; use that a contract covers already is no reason to buy.
        hours: Its measured hours: time, accelerators.
        a: The share of use that the coverage rule commits to.

    Returns:
        dict: Accelerators by rule: most savings over the last 7, 30 and 60 days, and a target coverage over the longest of them.
    """
    result: dict[str, float] = {}
    if hours.empty or not np.isfinite(pool.on_demand_usd):
        return result
    load, last = net_of_held(hours, pool.holdings), hours["time"].max() + HOUR
    for days in LOOKBACK_DAYS:
        window = load[(hours["time"] >= last - pd.Timedelta(days=days)).to_numpy()]
        stack = Stack(window, np.ones(len(window)), np.array([pool.on_demand_usd]), np.full((len(window), 1), np.inf))
        if hours["time"].min() > last - pd.Timedelta(days=days):
            continue  # the history is shorter than the window
        result[f"most_savings_{days}_days"] = stack.best_level(usd_per_hour)
        result["target_coverage"] = stack.level_that_covers(a.target_coverage_share)
    return result


def compare_rules(
    pool: Pool, hours: pd.DataFrame, usd_per_hour: float, months: float, chosen: float, a: PortfolioAssumptions
) -> list[dict[str, object]]:
    """Cost each rule on the forecast of the first year (less where the contract is shorter), all signed at its start."""
    stack, path = Periods(pool, a).stack(0, min(months / 3, 4.0))
    levels = {"this_portfolio": chosen, "nothing": 0.0, **rules(pool, hours, usd_per_hour, a)}
    until = hours["time"].max() + HOUR if len(hours) else pd.NaT
    return [
        {"name": name, "known_until": until, "accelerators": level}
        | measured(stack, path, pool.probability, level, usd_per_hour, a.tail_share)
        for name, level in levels.items()
    ]


def play_again(
    pool: Pool, earlier: Pool, hours: pd.DataFrame, rehearsal: Rehearsal, usd_per_hour: float, a: PortfolioAssumptions
) -> list[dict[str, object]]:
    """Cost each rule on the quarter after the cutoff: what was known before decides, what was measured then counts.

    Args:
        earlier: The pool with the forecast made at the cutoff, of one quarter.
        usd_per_hour: Price of a committed accelerator-hour, taken as the same then.
    """
    before, after = hours[hours["time"] < rehearsal.cutoff], hours[hours["time"] >= rehearsal.cutoff]
    if before.empty or after.empty or not np.isfinite(pool.on_demand_usd):
        return []
    load = net_of_held(after, pool.holdings)
    quarter = a.model_copy(update={"first_quarter": earlier_quarter(rehearsal), "discount_rate_per_year": 0.0})
    known, _ = Periods(earlier, quarter).stack(0, 1)
    forecast = Stack(known.load, known.weight, np.array([pool.on_demand_usd]), np.full((len(known.load), 1), np.inf))
    actual = Stack(load, np.ones(len(load)), np.array([pool.on_demand_usd]), np.full((len(load), 1), np.inf))
    levels = {
        "this_portfolio": forecast.best_level(usd_per_hour),
        "nothing": 0.0,
        **rules(pool, before, usd_per_hour, a),
        "hindsight": actual.best_level(usd_per_hour),
    }
    alone = actual.cost_usd_per_hour(0.0, usd_per_hour) * len(load)
    rows: list[dict[str, object]] = []
    for name, level in levels.items():
        usd = actual.cost_usd_per_hour(level, usd_per_hour) * len(load)
        used = float(actual.used(level).sum())
        rows.append(
            {
                "name": name,
                "accelerators": level,
                "usd": usd,
                "saving_share": 1 - usd / alone if alone else 0.0,
                "coverage_share": used / float(load.sum()) if load.sum() else 0.0,
                "utilisation_share": used / (level * len(load)) if level > 0 else float("nan"),
            }
        )
    return rows


def earlier_quarter(rehearsal: Rehearsal) -> str:
    """Name the quarter that is played again."""
    return str(rehearsal.demand["quarter"].iloc[0])
