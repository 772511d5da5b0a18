"""What this forecast would have said in the past: month and quarter totals against what came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.inputs.scenario import DemandAssumptions
from capplan.questions.demand.accuracy import finops_band
from capplan.questions.demand.fitting import fit_usage
from capplan.questions.demand.history import HOUR, demand_rows
from capplan.questions.demand.paths import Cohort, draw_cohorts

Array = np.ndarray
GRAINS = {"month": 1, "quarter": 3}
MONTHS_AHEAD = 12
#: Months of history an origin needs before anything can be fitted to it.
FIRST_MONTHS = 3
TOTALS = ["workload", "region", "origin", "grain", "ahead", "actual", "lower", "median", "upper", "naive"]


@dataclass(frozen=True)
class Backtest:
    """How the forecast would have done.

    Parameters
    ----------
    totals
        workload, region, origin, grain ("month" or "quarter"), ahead (1 = the next), actual, lower, median, upper (5, 50 and 95 % quantiles), naive (the
        last such total before the origin), error_share (median over actual, minus 1), naive_error_share, covered, band ("run" within 12 %, "walk" 15 %,
        "crawl" 20 %, "outside"). With prices, rows of workload "all" are in USD.
    summary
        workload, region, grain, ahead, outcomes, wape_share (sum of absolute errors over sum of actuals), bias_share, naive_wape_share, value_added_share (1 minus the
        ratio of the two), coverage_share (of nominal 90 %), pinball (workload unit), run_share, crawl_share (outcomes within 12 and 20 %).
    headline, notes
        The answer in a sentence; what could not be tested.
    """

    totals: pd.DataFrame
    summary: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def backtest_demand(usage: pd.DataFrame, a: DemandAssumptions, origins: int = 6, usd_per_unit: dict[str, float] | None = None) -> Backtest:
    """Say how the forecast would have done: month and quarter totals, up to four quarters ahead, from past origins.

    At each origin (the first of a month) everything is done anew with the usage before it: repair, choice of model, sample paths. Events and the
    roadmap are left out, since the tables do not say when they became known.

    Parameters
    ----------
    usage
        The usage table.
    a
        Assumptions; paths, seed, growth and unmet_share are used.
    origins
        Most origins, spread evenly over what the history allows.
    usd_per_unit
        Price of a unit of each workload; adds rows of workload "all", in USD.

    Returns
    -------
    Backtest
        Totals of every origin and their summary.

    Source
    ------
    Tashman, Out-of-sample tests of forecasting accuracy, IJF 2000; FinOps Framework, capability Forecasting (bands).
    """
    rows = demand_rows(usage, a, [])
    actual = _monthly_actuals(rows)
    starts = _origins(actual.columns, origins)
    frames = [_one_origin(usage, a, actual, start, usd_per_unit) for start in starts]
    totals = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=TOTALS)
    totals = totals.sort_values(["workload", "region", "grain", "origin", "ahead"], kind="stable").reset_index(drop=True)
    positive = totals["actual"].where(totals["actual"] > 0)
    totals["error_share"] = totals["median"] / positive - 1
    totals["naive_error_share"] = totals["naive"] / positive - 1
    totals["covered"] = (totals["actual"] >= totals["lower"]) & (totals["actual"] <= totals["upper"])
    totals["band"] = [finops_band(error) if np.isfinite(error) else "outside" for error in totals["error_share"].astype(float)]
    summary = _summary(totals)
    return Backtest(totals, summary, _headline(summary, len(actual.columns)), _notes(totals, actual))


def _monthly_actuals(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum demand by whole calendar month (columns) and series (rows)."""
    month = rows["time"].dt.to_period("M")
    table = rows.groupby(["workload", "region", month])["demand"].sum().unstack("time")
    if table.columns.empty:
        return table
    table = table.reindex(columns=pd.period_range(table.columns.min(), table.columns.max(), freq="M"))
    daily = rows["time"].dt.normalize().nunique() > 2 * len(table.columns)
    if daily:
        # The first and the last month only count where usage covers them to the day.
        if rows["time"].min() >= table.columns[0].start_time + pd.Timedelta(days=1):
            table = table.iloc[:, 1:]
        if len(table.columns) and rows["time"].max() < table.columns[-1].end_time.normalize():
            table = table.iloc[:, :-1]
    return table


def _origins(months: pd.Index, at_most: int) -> list[pd.Period]:
    """Choose the months at whose beginning a forecast is tried."""
    possible = list(months[FIRST_MONTHS:])
    if not possible:
        return []
    return [possible[k] for k in sorted({round(position) for position in np.linspace(0, len(possible) - 1, min(at_most, len(possible)))})]


def _one_origin(
    usage: pd.DataFrame, a: DemandAssumptions, actual: pd.DataFrame, origin: pd.Period, usd_per_unit: dict[str, float] | None
) -> pd.DataFrame:
    """Forecast from one origin and put the outcomes beside it."""
    start = origin.start_time
    then = a.model_copy(update={"as_of": (start - pd.Timedelta(days=1)).date()})
    fit = fit_usage(usage[usage["time"] < start], then)
    place = actual.columns.get_loc(origin)
    months = min(MONTHS_AHEAD, len(actual.columns) - place)
    totals = {
        (level.history.workload, level.history.region): paths
        for cohort in draw_cohorts(list(fit.levels), (origin + months).start_time, then)
        for level, paths in zip(cohort.fits, _month_totals(cohort, origin, months), strict=True)
    }
    outcomes = {key: (paths, actual.loc[key].to_numpy(dtype=float)) for key, paths in totals.items() if key in actual.index}
    if usd_per_unit and outcomes:
        priced = [key for key in outcomes if key[0] in usd_per_unit]
        outcomes["all", "all"] = (
            sum((outcomes[key][0] * usd_per_unit[key[0]] for key in priced), np.zeros((a.paths, months))),
            sum((np.nan_to_num(outcomes[key][1]) * usd_per_unit[key[0]] for key in priced), np.zeros(len(actual.columns))),
        )
    found = []
    for (workload, region), (paths, seen) in outcomes.items():
        for grain, width in GRAINS.items():
            before = seen[max(0, place - width) : place].sum()
            for ahead in range(1, months // width + 1):
                window = slice((ahead - 1) * width, ahead * width)
                outcome = seen[place : place + months][window].sum()
                if np.isfinite(outcome):
                    low, middle, high = np.quantile(paths[:, window].sum(axis=1), [0.05, 0.5, 0.95])
                    found.append((workload, region, start, grain, ahead, outcome, low, middle, high, before))
    return pd.DataFrame(found, columns=TOTALS)


def _month_totals(cohort: Cohort, origin: pd.Period, months: int) -> Array:
    """Sum simulated levels by calendar month (series x paths x months)."""
    bounds = np.array([((origin + k).start_time - cohort.start) / HOUR for k in range(months + 1)])
    low, high = cohort.edges[:-1], cohort.edges[1:]
    overlap = np.clip(np.minimum(high[:, None], bounds[None, 1:]) - np.maximum(low[:, None], bounds[None, :-1]), 0.0, None)
    # What lies before the simulation begins runs at its first level.
    overlap[0] += np.clip(np.minimum(0.0, bounds[1:]) - bounds[:-1], 0.0, None)
    return np.asarray(cohort.levels @ (overlap / 24))


def _summary(totals: pd.DataFrame) -> pd.DataFrame:
    """Summarise by series, grain and lead."""
    columns = [
        "outcomes",
        "wape_share",
        "bias_share",
        "naive_wape_share",
        "value_added_share",
        "coverage_share",
        "pinball",
        "run_share",
        "crawl_share",
    ]
    keys = ["workload", "region", "grain", "ahead"]
    rows = []
    for key, part in totals.groupby(keys, sort=True):
        size = float(part["actual"].sum())
        error, naive = float((part["median"] - part["actual"]).abs().sum()), float((part["naive"] - part["actual"]).abs().sum())
        loss = sum(
            np.maximum(q * (part["actual"] - part[name]), (q - 1) * (part["actual"] - part[name]))
            for q, name in ((0.05, "lower"), (0.5, "median"), (0.95, "upper"))
        )
        unit = size if size > 0 else float("nan")
        within = part["error_share"].abs()
        rows.append(
            (
                *key,
                len(part),
                error / unit,
                float((part["median"] - part["actual"]).sum()) / unit,
                naive / unit,
                1 - error / naive if naive > 0 else float("nan"),
                float(part["covered"].mean()),
                float(2 * np.mean(loss) / 3),
                float((within <= 0.12).mean()),
                float((within <= 0.20).mean()),
            )
        )
    return pd.DataFrame(rows, columns=[*keys, *columns])


def _headline(summary: pd.DataFrame, months: int) -> str:
    quarters = summary[(summary["grain"] == "quarter") & (summary["ahead"] == 1)]
    if quarters.empty:
        return f"{months} months of history allow no test of quarter totals; nothing here may be called backtested."
    good = np.average(quarters["crawl_share"], weights=quarters["outcomes"])
    held = np.average(quarters["coverage_share"], weights=quarters["outcomes"])
    return f"One quarter ahead, {good:.0%} of {int(quarters['outcomes'].sum())} past totals came within 20 % of the forecast, and the 90 % bands held {held:.0%} of them."


def _notes(totals: pd.DataFrame, actual: pd.DataFrame) -> tuple[str, ...]:
    """Say what could not be tested."""
    notes = ["Known events and the roadmap are left out of the test: the tables do not say when they became known."]
    quarters = totals[totals["grain"] == "quarter"]
    longest = int(quarters["ahead"].max()) if len(quarters) else 0
    if longest < 4:
        notes.append(
            f"{len(actual.columns)} whole months of history test totals up to {longest} quarters ahead; what lies beyond is extrapolated, not backtested."
        )
    return tuple(notes)
