"""The work to be served: classes and regions, points in time, and which pool can serve what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import shortfall_usd_per_unit
from capplan.questions.procurement.supply.market import ANYWHERE, Market, reaches
from capplan.questions.procurement.work.egress import egress_usd
from capplan.questions.procurement.work.timeline import Timeline
from capplan.records import records

PROBABILITY_TOLERANCE = 1e-6
#: Accelerators at once beyond which demand is a slip of units; further up, a solver can no longer tell one accelerator from rounding.
MOST_ACCELERATORS = 1e9


@dataclass(frozen=True)
class Work:
    """Demand at every recourse point, in hours of the fastest accelerator that can do it.

    Args:
        rows: One row a class and region: class, region, interruptible, movable, deferrable, fastest (work of the fastest accelerator in an
            hour), shortfall_usd (per hour of the fastest accelerator), api_usd (likewise; empty where it cannot be called), api_most
            (fastest accelerators that the API's rate limit stands for, for all regions of a class together).
        speed (D, pools): Work of a pool's accelerator relative to the fastest; 0 where it may not or cannot serve the row.
        points: quarter (index), path (index), block, hours, segment (which of the quarter's spans).
        egress_usd (D, pools): What an hour of a pool's accelerator moves out of the home of a row's data, in dollars.
        load (points, D): Fastest accelerators needed.
        paths: path, probability, demand_path, state (of prices and deliveries, as `states.States.table` lists them).
        notes: What was left out or assumed.
    """

    rows: pd.DataFrame
    speed: np.ndarray
    egress_usd: np.ndarray
    points: pd.DataFrame
    load: np.ndarray
    paths: pd.DataFrame
    notes: tuple[str, ...]


def named_places(demand: pd.DataFrame, classes: pd.DataFrame, limits: pd.DataFrame | None) -> set[str]:
    """Return every region that demand, residency, a home of data or a limit names."""
    found = set(demand["region"].dropna())
    for name in ("residency", "home_region"):
        found |= set(classes[name].dropna()) if name in classes else set()
    found |= set(limits["region"].dropna()) if limits is not None and "region" in limits else set()
    return found - {ANYWHERE}


def lay_out(
    demand: pd.DataFrame,
    speeds: pd.DataFrame,
    classes: pd.DataFrame,
    market: Market,
    timeline: Timeline,
    a: ProcurementAssumptions,
    egress_prices: pd.DataFrame | None = None,
) -> Work:
    """Arrange demand as points and rows, and match rows with pools.

    Args:
        demand (path, probability, demand_path, state, class, region, quarter, block, hours, work_per_hour):
        speeds (class, accelerator, work_per_accelerator_hour):
        classes (class, interruptible, residency, stage_kind, shortfall_usd_per_unit, api; optionally api_usd_per_unit and):
            api_units_per_hour (rate limit); home_provider, home_region and egress_gib_per_unit (data that leaves its home)
        market, timeline: Pools, and planned quarters.
        egress_prices: Table of what providers charge for data that leaves them.

    Raises:
        CapplanError: If probabilities do not sum to 1, a planned quarter has no demand, hours contradict each other, no offer can serve a
            row, or a row needs more accelerators than can be meant.
    """
    notes: list[str] = []
    known = classes.set_index("class")
    _refuse(demand, speeds, known)
    calls_only = sorted(name for name in set(demand["class"]) if known.at[name, "api"] == "api")
    if calls_only:
        notes.append(f"{', '.join(calls_only)}: served by a model API only, so no accelerators are planned for it.")
        demand = demand[~demand["class"].isin(calls_only)]
    if demand.empty:
        raise CapplanError("there is no demand to plan for; give usage, training runs or demand scenarios of self-hosted workloads")
    paths = _paths(demand)
    hours = _hours(demand, timeline)
    rows = demand[["class", "region"]].drop_duplicates().sort_values(["class", "region"], ignore_index=True)
    rate = _rates(rows, known, speeds, market.pools)
    rows = _priced_rows(rows, known, _today(rate, market.pools), a)
    speed = rate / rows["fastest"].to_numpy()[:, None]
    axes = {"quarter": timeline.horizon, "path": paths["path"].tolist(), "block": sorted(hours["block"].unique())}
    planned = pd.MultiIndex.from_product(axes.values(), names=list(axes))
    load = _summed(demand, axes, rows) / rows["fastest"].to_numpy()
    if load.max(initial=0.0) > MOST_ACCELERATORS:
        point, d = np.unravel_index(int(load.argmax()), load.shape)
        raise CapplanError(
            f"demand of class {rows.at[d, 'class']!r} in {planned[point][0]}, path {planned[point][1]}, needs {load[point, d]:.3g}"
            f" accelerators at once; at most {MOST_ACCELERATORS:.0e} can be planned. Check the unit of its quantity and its speed"
        )
    points = planned.to_frame(index=False).merge(hours, on=["quarter", "block"], how="left")
    points = points.assign(
        segment=0,
        quarter=points["quarter"].map({label: step for step, label in enumerate(timeline.quarters)}),
        path=points["path"].map({path: step for step, path in enumerate(paths["path"])}),
    )
    present = points["hours"].notna().to_numpy()
    notes += _cheap_to_miss(rows, speed, market)
    egress = egress_usd(rows, classes, speed, market.pools, egress_prices)
    return Work(rows, speed, egress, points[present].reset_index(drop=True), load[present], paths, tuple(notes))


def _summed(demand: pd.DataFrame, axes: Mapping[str, Sequence[Any]], rows: pd.DataFrame) -> np.ndarray:
    """Sum work by point and row, (points, rows); what lies beside the axes is left out, and what is not there is 0.

    Work of many paths has millions of rows, and a pivot of them would take several times their memory.
    """
    place, inside, points = np.zeros(len(demand), dtype=np.int64), np.ones(len(demand), dtype=bool), 1
    for name, labels in axes.items():
        code = pd.Index(labels).get_indexer(demand[name])
        inside &= code >= 0
        place, points = place * len(labels) + code, points * len(labels)
    kinds = (pd.MultiIndex.from_frame(frame[["class", "region"]]) for frame in (rows, demand))
    place = place * len(rows) + next(kinds).get_indexer(next(kinds))
    sums = np.bincount(place[inside], demand["work_per_hour"].to_numpy(float)[inside], minlength=points * len(rows))
    return sums.reshape(points, len(rows))


def _refuse(demand: pd.DataFrame, speeds: pd.DataFrame, known: pd.DataFrame) -> None:
    """Refuse demand below 0, speeds that are none, and classes that nobody knows."""
    wrong = demand[~((demand["work_per_hour"] >= 0) & np.isfinite(demand["work_per_hour"]))]
    if len(wrong):
        row = wrong.iloc[0]
        raise CapplanError(
            f"demand of class {row['class']!r} in {row['quarter']}, path {row['path']}, is {row['work_per_hour']}; demand is 0 or more."
            " Correct its source"
        )
    pace = speeds["work_per_accelerator_hour"].astype(float)
    slow = speeds[~((pace > 0) & np.isfinite(pace)) & speeds["class"].isin(demand["class"])]
    if len(slow):
        row = slow.iloc[0]
        raise CapplanError(
            f"class {row['class']!r} does {row['work_per_accelerator_hour']} an hour on {row['accelerator']}; work_per_accelerator_hour is"
            " above 0. Correct its speed, or delete it where the class does not run there"
        )
    missing = sorted(set(demand["class"]) - set(known.index))
    if missing:
        raise CapplanError(f"demand names the class {missing[0]!r}, which the classes do not have; add its workload")


def _paths(demand: pd.DataFrame) -> pd.DataFrame:
    """Return each path with its probability, after checking both."""
    about = ["path", "probability", "demand_path", "state"]
    paths = demand[about].drop_duplicates().sort_values("path").reset_index(drop=True)
    if paths["path"].duplicated().any():
        path = paths["path"][paths["path"].duplicated()].iloc[0]
        raise CapplanError(f"path {path} has more than one probability; a path has the same probability in all its rows")
    if (paths["probability"] < 0).any():
        row = records(paths[paths["probability"] < 0])[0]
        raise CapplanError(f"path {row['path']} has the probability {row['probability']:g}; probabilities are 0 or more and sum to 1")
    total = float(paths["probability"].sum())
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise CapplanError(f"the probabilities of the {len(paths)} demand paths sum to {total:.6g}; they must sum to 1")
    return paths.assign(probability=paths["probability"] / total)


def _hours(demand: pd.DataFrame, timeline: Timeline) -> pd.DataFrame:
    """Return the hours of each load block, checked to fill each planned quarter."""
    hours = demand[["quarter", "block", "hours"]].drop_duplicates()
    twice = hours.duplicated(["quarter", "block"])
    if twice.any():
        row = hours[twice].iloc[0]
        raise CapplanError(
            f"block {row['block']} of {row['quarter']} has different hours in different rows; a block has the same hours in all paths"
        )
    lacking = [quarter for quarter in timeline.horizon if quarter not in set(hours["quarter"])]
    if lacking:
        raise CapplanError(f"there is no demand for {', '.join(lacking)}; state it (0 where there is none), or plan fewer quarters")
    hours = hours[hours["quarter"].isin(timeline.horizon)]
    for label, length in zip(timeline.horizon, timeline.hours, strict=False):
        found = float(hours.loc[hours["quarter"] == label, "hours"].sum())
        if abs(found - length) > 1e-6 * length:
            raise CapplanError(
                f"the load blocks of {label} have {found:g} hours together; the quarter has {length:g}. Check hours_convention"
            )
    return hours.reset_index(drop=True)


def _rates(rows: pd.DataFrame, known: pd.DataFrame, speeds: pd.DataFrame, pools: pd.DataFrame) -> np.ndarray:
    """Return the work an accelerator-hour of each pool does of each row, (D, pools); 0 where it may not serve it.

    Raises:
        CapplanError: If nothing may serve a row.
    """
    rate = dict(
        zip(zip(speeds["class"], speeds["accelerator"], strict=True), speeds["work_per_accelerator_hour"].astype(float), strict=True)
    )
    found, offered_there = np.zeros((len(rows), len(pools))), pools["accelerator"].tolist()
    for d, row in enumerate(records(rows)):
        runs = speeds.loc[speeds["class"] == row["class"], "accelerator"]
        if not pools["accelerator"].isin(runs).any():
            raise CapplanError(
                f"no offer can serve class {row['class']!r}: its speeds name {', '.join(sorted(runs)) or 'no accelerator'}, the offers have"
                f" {', '.join(sorted(set(pools['accelerator']))) or 'none'}. Add an offer or a speed"
            )
        where = list(
            dict.fromkeys(place for place in (row["region"], known.at[row["class"], "residency"]) if isinstance(place, str) and place)
        )
        reachable = reaches(where, pools)
        if known.at[row["class"], "stage_kind"] != "batch":
            reachable &= ~pools["movable_only"].to_numpy(bool)
        found[d] = np.where(reachable, [rate.get((row["class"], accelerator), 0.0) for accelerator in offered_there], 0.0)
        if not found[d].any():
            offered = ", ".join(sorted(set(pools.loc[pools["accelerator"].isin(runs), "place"]))) or "no place"
            raise CapplanError(
                f"no offer can serve class {row['class']!r} in {' and '.join(where)}: its accelerators are offered in {offered}. "
                "Add an offer there, or change the region or residency"
            )
    return found


def _today(rate: np.ndarray, pools: pd.DataFrame) -> np.ndarray:
    """Leave out what has not come yet, where something else can do the work: it neither sets a unit of work nor the price of missing it."""
    now = np.where(pools["expected"].to_numpy(bool), 0.0, rate)
    return np.where(now.any(axis=1, keepdims=True), now, rate)


def _priced_rows(rows: pd.DataFrame, known: pd.DataFrame, rate: np.ndarray, a: ProcurementAssumptions) -> pd.DataFrame:
    """Add traits and shortfall prices to the rows of demand; a class's fastest accelerator is that of any of its rows."""
    traits = known.reindex(rows["class"]).reset_index(drop=True)
    fast = pd.Series(rate.max(axis=1)).groupby(rows["class"]).transform("max").to_numpy()
    factor = traits["shortfall_factor"].astype(float).fillna(1.0).to_numpy() if "shortfall_factor" in traits else 1.0
    missed = shortfall_usd_per_unit(traits, pd.Series(fast), a).to_numpy() * fast * factor
    batch = (traits["stage_kind"] == "batch").to_numpy()
    api = traits["api_usd_per_unit"].astype(float).to_numpy() * fast if "api_usd_per_unit" in traits else np.full(len(rows), np.nan)
    limit = traits["api_units_per_hour"].astype(float).to_numpy() / fast if "api_units_per_hour" in traits else np.full(len(rows), np.nan)
    return rows.assign(
        interruptible=traits["interruptible"].astype(bool).to_numpy(),
        movable=batch,
        deferrable=batch & traits["deferrable"].astype(bool).to_numpy() if "deferrable" in traits else False,
        residency=traits["residency"].to_numpy() if "residency" in traits else None,
        fastest=fast,
        shortfall_usd=missed,
        api_usd=np.where((traits["api"] == "either").to_numpy(), api, np.nan),
        api_most=limit,
        home_provider=traits["home_provider"].to_numpy() if "home_provider" in traits else None,
    )


def _cheap_to_miss(rows: pd.DataFrame, speed: np.ndarray, market: Market) -> list[str]:
    """Name the classes whose work costs less to leave undone than to rent on demand, so that the plan would never rent for them."""
    rent = market.pools["on_demand_usd_per_hour"].to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        cheapest = np.nanmin(np.where(speed > 0, rent / speed, np.inf), axis=1, initial=np.inf)
    found = rows[np.isfinite(cheapest) & (rows["shortfall_usd"].to_numpy(float) < cheapest)]["class"].drop_duplicates()
    return [
        f"{name}: work left undone is priced below what renting for it on demand costs, so nothing is rented for it; state its"
        " shortfall_usd_per_unit."
        for name in found
    ]
