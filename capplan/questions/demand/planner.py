"""A forecast that a planner already has: quantiles by month, taken as they are."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand.events import draws
from capplan.questions.demand.sample_paths import Cohort

Array = np.ndarray
#: Faults that are listed before the rest is counted.
LISTED_FAULTS = 5


@dataclass(frozen=True)
class PlannedMonth:
    """Quantiles of one month of a workload, as a planner stated them on a day: probabilities rising, quantities in the workload's unit."""

    workload: str
    region: str
    made_on: pd.Timestamp | None
    month: pd.Timestamp
    probability: Array
    quantity: Array

    def at(self, share: Array) -> Array:
        r"""Read the quantity below which a share of outcomes lies.

        Between stated quantiles, and beyond the outer ones with their slope, the quantity is linear in the standard normal score: on the
        logarithmic scale where all quantiles are positive, else on the plain one, never below zero.
        """
        from scipy.special import ndtri

        if len(self.probability) == 1:
            return np.full(len(share), self.quantity[0])
        logs = bool((self.quantity > 0).all())
        values = np.log(self.quantity) if logs else self.quantity
        known, asked = ndtri(self.probability), ndtri(share)
        slope = np.diff(values) / np.diff(known)
        piece = np.clip(np.searchsorted(known, asked) - 1, 0, len(slope) - 1)
        found = values[piece] + slope[piece] * (asked - known[piece])
        return np.exp(found) if logs else np.maximum(found, 0.0)


def read_planned(table: pd.DataFrame | None, as_of: pd.Timestamp, notes: list[str]) -> list[PlannedMonth]:
    """Read the planner_forecasts table.

    Raises:
        CapplanError: If quantiles cross, a month has no median, or a workload is stated both as a whole and by region.
    """
    if table is None or table.empty:
        return []
    rows = table.copy()
    rows["region"] = rows["region"].fillna("any") if "region" in rows else "any"
    rows["made_on"] = pd.to_datetime(rows["made_on"]) if "made_on" in rows else pd.NaT
    rows["month"] = pd.to_datetime(rows["month"]).dt.to_period("M").dt.to_timestamp()
    late = rows["made_on"] > as_of
    if late.any():
        notes.append(f"{int(late.sum())} rows of planner_forecasts were made after {as_of.date()} and were left out.")
        rows = rows[~late]
    found, faults = [], []
    for name, part in rows.groupby("workload", sort=True):
        if "any" in set(part["region"]) and part["region"].nunique() > 1:
            faults.append(f"{name} is stated as a whole and by region; state the one or the other")
    for (workload, region, made_on, month), stated in rows.groupby(["workload", "region", "made_on", "month"], sort=True, dropna=False):
        part = stated.sort_values("quantile", kind="stable")
        probability, quantity = part["quantile"].to_numpy(dtype=float), part["quantity"].to_numpy(dtype=float)
        where = f"{workload}{'' if region == 'any' else f' in {region}'}, {month:%Y-%m}"
        fallen = np.flatnonzero(np.diff(quantity) < 0)
        if fallen.size:
            k = int(fallen[0])
            faults.append(
                f"{where}: P{100 * probability[k]:g} is {quantity[k]:,.12g} and P{100 * probability[k + 1]:g} is"
                f" {quantity[k + 1]:,.12g}, so they cross; a higher quantile is never lower: correct the two"
            )
        elif (np.diff(probability) == 0).any():
            faults.append(f"{where}: a quantile is stated twice; state each once")
        elif not np.isclose(probability, 0.5).any():
            faults.append(f"{where}: there is no median; state the quantile 0.5 of each month")
        else:
            found.append(PlannedMonth(str(workload), str(region), None if pd.isna(made_on) else made_on, month, probability, quantity))
    if faults:
        more = f"; and {len(faults) - LISTED_FAULTS} more" if len(faults) > LISTED_FAULTS else ""
        raise CapplanError(f"planner_forecasts: {'; '.join(faults[:LISTED_FAULTS])}{more}")
    return found


def coming(planned: list[PlannedMonth], horizon: tuple[pd.Timestamp, pd.Timestamp], notes: list[str]) -> list[PlannedMonth]:
    """Return the newest statement of each month of the horizon, and say what is taken."""
    newest: dict[tuple[str, str, pd.Timestamp], PlannedMonth] = {}
    for one in sorted(planned, key=lambda one: one.made_on or pd.Timestamp.max):
        if horizon[0] <= one.month < horizon[1]:
            newest[one.workload, one.region, one.month] = one
    months = len(pd.date_range(horizon[0], horizon[1], freq="MS", inclusive="left"))
    for workload, region in sorted({key[:2] for key in newest}):
        taken = [one for one in newest.values() if (one.workload, one.region) == (workload, region)]
        rest = f"; the other {months - len(taken)} are forecast here" if len(taken) < months else ""
        band = "" if all(len(one.probability) > 1 for one in taken) else " Months with a median alone have no band."
        name = workload if region == "any" else f"{workload} ({region})"
        notes.append(
            f"{name}: the planner's forecast of {len(taken)} of {months} months is taken as it is, events and training runs"
            f" included{rest}; its paths rise and fall together as they do here.{band}"
        )
    return [newest[key] for key in sorted(newest)]


def shares_of(totals: Array) -> Array:
    """Return the share of paths below each path's total: the exact positions that quantiles of all paths are read at.

    Examples:
        >>> shares_of(np.array([3.0, 1.0, 2.0])).round(3).tolist()
        [0.833, 0.167, 0.5]
    """
    count = len(totals)
    rank = np.empty(count)
    rank[np.argsort(totals, kind="stable")] = np.arange(count)
    return np.clip(rank / max(1, count - 1), 0.5 / count, 1 - 0.5 / count)


@dataclass(frozen=True)
class PlannedTotal:
    """Work of a month on each path, as a planner's quantiles have it, for all series of a workload or for one region."""

    workload: str
    region: str
    month: pd.Timestamp
    totals: Array

    def holds(self, workload: str, region: str) -> bool:
        """Tell whether a series is part of it."""
        return self.workload == workload and self.region in ("any", region)

    def impose(self, work: Array, here: list[int], hours: slice, paths: slice) -> None:
        """Scale the hours of some series (work: series x paths x hours) to the month's totals; a path without work gets it evenly."""
        own = work[here][:, :, hours]
        total = own.sum(axis=(0, 2))
        empty = ~(total > 0)
        own[:, empty] = 1.0
        total[empty] = own.shape[0] * own.shape[2]
        work[np.ix_(here, range(work.shape[1]), range(*hours.indices(work.shape[2])))] = own * (self.totals[paths] / total)[:, None]


def planned_totals(planned: list[PlannedMonth], cohorts: list[Cohort], a: DemandAssumptions) -> list[PlannedTotal]:
    """Give each path the planner's quantity of its own rank, so that paths go on to rise and fall with each other and with other workloads.

    Args:
        cohorts: Sample paths of what is forecast here; a workload without any follows one rank of its own on each path.
        a: Assumptions; paths and seed are used.
    """
    found = []
    for one in planned:
        share = draws(a.seed, f"planner {one.workload} {one.region}", a.paths)[:, 0]
        own = [
            cohort.month_totals(one.month, 1)[j, :, 0]
            for cohort in cohorts
            for j, fit in enumerate(cohort.fits)
            if fit.history.workload == one.workload and one.region in ("any", fit.history.region)
        ]
        total = np.sum(own, axis=0) if own else share
        found.append(PlannedTotal(one.workload, one.region, one.month, one.at(shares_of(total if np.ptp(total) > 0 else share))))
    return found
