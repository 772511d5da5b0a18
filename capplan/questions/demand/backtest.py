"""What this forecast would have said in the past: month and quarter totals against what came."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.accuracy import QUANTILES, finops_band, pinball_loss
from capplan.questions.demand.backtest_summary import summarise
from capplan.questions.demand.demand_rows import demand_rows
from capplan.questions.demand.fitting import fit_usage
from capplan.questions.demand.sample_paths import draw_cohorts

Array = np.ndarray
#: Months of a total, and of the farthest that is tested, by grain.
GRAINS, FARTHEST_MONTHS = {"month": 1, "quarter": 3}, {"month": 12, "quarter": 24}
LONGEST_QUARTERS = FARTHEST_MONTHS["quarter"] // 3
#: Months of history that an origin needs before anything can be fitted to it; a longer history gives its first origin up to a year.
FIRST_MONTHS, FIRST_YEAR = 3, 12
#: Workload and region of the sum over all, in USD.
ALL = "all"
#: Measures in the unit of a workload, or weighted by it: they mean nothing over several workloads.
WITH_UNIT = ["wape_share", "naive_wape_share", "pinball"]
TOTALS = ["workload", "region", "origin", "grain", "ahead", "actual", "lower", "median", "upper", "naive", "scale", "pinball"]


@dataclass(frozen=True)
class Backtest:
    """How the forecast would have done.

    Args:
        totals: workload, region, origin, grain ("month" or "quarter"), ahead (1 = the next), actual, lower, median, upper (5, 50 and 95 %
            quantiles), naive (the last such total before the origin), scale (mean absolute step between neighbouring totals before the
            origin, the yardstick of MASE), pinball (of seven quantiles), error_share (median over actual, minus 1), naive_error_share,
            covered, band ("run" within 12 %, "walk" 15 %, "crawl" 20 %, "outside"). With prices, rows of workload "all" are in USD.
        summary: workload, region, grain, ahead, and the measures of `summarise`: outcomes, wape_share, bias_share, naive_wape_share,
            value_added_share, smape, mase, owa, coverage_share, pinball, run_share, walk_share, crawl_share.
        pooled: grain, ahead, and those measures that have no unit, over all workloads (the sum in USD left out).
        headline, notes: The answer in a sentence; what could not be tested.
    """

    totals: pd.DataFrame
    summary: pd.DataFrame
    pooled: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def backtest_demand(usage: pd.DataFrame, a: DemandAssumptions, origins: int = 6, usd_per_unit: dict[str, float] | None = None) -> Backtest:
    """Say how the forecast would have done: month totals up to a year ahead and quarter totals up to two years, from past origins.

    At each origin (the first of a month) everything is done anew with the usage before it: repair, choice of model, sample paths. Events
    and the
    roadmap are left out, since the tables do not say when they became known.

    Args:
        a: Assumptions; paths, seed, growth and unmet_share are used.
        origins: Most origins, spread evenly over what the history allows.
        usd_per_unit: Price of a unit of each workload; adds rows of workload "all", in USD.

    Returns:
        Backtest: Totals of every origin and their summary.

    Source: Tashman, Out-of-sample tests of forecasting accuracy, IJF 2000; FinOps Framework, capability Forecasting (bands).
    """
    # Both sides hold served and measured unmet work; what a ceiling hid is inferred and no outcome to be tested against.
    refused = usage["refused_quantity"].fillna(0.0) if "refused_quantity" in usage else 0.0
    usage = usage.assign(refused_quantity=refused)
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
    summary = summarise(totals, ["workload", "region", "grain", "ahead"])
    pooled = summarise(totals[totals["workload"] != ALL], ["grain", "ahead"]).drop(columns=WITH_UNIT)
    return Backtest(totals, summary, pooled, _headline(pooled, len(actual.columns)), _notes(totals, actual, usd_per_unit))


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
    possible = list(months[max(FIRST_MONTHS, min(FIRST_YEAR, len(months) - FARTHEST_MONTHS["quarter"])) :])
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
    months = min(max(FARTHEST_MONTHS.values()), len(actual.columns) - place)
    totals = {
        (level.history.workload, level.history.region): paths
        for cohort in draw_cohorts(list(fit.levels), (origin + months).start_time, then)
        for level, paths in zip(cohort.fits, cohort.month_totals(start, months), strict=True)
    }
    outcomes = {key: (paths, actual.loc[key].to_numpy(dtype=float)) for key, paths in totals.items() if key in actual.index}
    if usd_per_unit and outcomes:
        priced = [key for key in outcomes if key[0] in usd_per_unit]
        outcomes[ALL, ALL] = (
            sum((outcomes[key][0] * usd_per_unit[key[0]] for key in priced), np.zeros((a.paths, months))),
            sum((np.nan_to_num(outcomes[key][1]) * usd_per_unit[key[0]] for key in priced), np.zeros(len(actual.columns))),
        )
    found = []
    for (workload, region), (paths, seen) in outcomes.items():
        for grain, width in GRAINS.items():
            before = seen[max(0, place - width) : place].sum()
            scale = _step_size(seen[:place], width)
            for ahead in range(1, min(months, FARTHEST_MONTHS[grain]) // width + 1):
                window = slice((ahead - 1) * width, ahead * width)
                outcome = seen[place : place + months][window].sum()
                if np.isfinite(outcome):
                    said = np.quantile(paths[:, window].sum(axis=1), QUANTILES)
                    loss = pinball_loss(np.array([outcome]), said, np.array(QUANTILES))
                    found.append((workload, region, start, grain, ahead, outcome, said[0], said[3], said[-1], before, scale, loss))
    return pd.DataFrame(found, columns=TOTALS)


def _step_size(months: Array, width: int) -> float:
    """Return the mean absolute difference between neighbouring totals of `width` months; not a number where there are no two of them."""
    sums = np.convolve(months, np.ones(width), mode="valid")
    steps = np.abs(sums[width:] - sums[:-width])
    steps = steps[np.isfinite(steps)]
    return float(steps.mean()) if steps.size else float("nan")


def _headline(pooled: pd.DataFrame, months: int) -> str:
    quarters = pooled[(pooled["grain"] == "quarter") & (pooled["ahead"] == 1)]
    if quarters.empty:
        return f"{months} months of history allow no test of quarter totals; nothing here may be called backtested."
    row = quarters.iloc[0]
    beside = "better than" if row["owa"] < 1 else "no better than"
    farthest = pooled[pooled["grain"] == "quarter"].iloc[-1]
    later = (
        f" At quarter {int(farthest['ahead'])}, the farthest that could be tested, {farthest['coverage_share']:.0%} of"
        f" {int(farthest['outcomes'])} were inside."
        if farthest["ahead"] > 1
        else " No later quarter could be tested."
    )
    return (
        f"One quarter ahead, {row['crawl_share']:.0%} of {int(row['outcomes'])} past totals came within 20 % of the forecast and the 90 %"
        f" bands held {row['coverage_share']:.0%} of them; {beside} repeating the last quarter (OWA {row['owa']:.2f}).{later}"
    )


def _notes(totals: pd.DataFrame, actual: pd.DataFrame, usd_per_unit: dict[str, float] | None) -> tuple[str, ...]:
    """Say what could not be tested."""
    notes = ["Known events and the roadmap are left out of the test: the tables do not say when they became known."]
    quarters = totals[totals["grain"] == "quarter"]
    longest = int(quarters["ahead"].max()) if len(quarters) else 0
    if longest < LONGEST_QUARTERS:
        notes.append(
            f"{len(actual.columns)} whole months of history test totals up to {longest} quarters ahead; what lies beyond is extrapolated,"
            " not backtested."
        )
    unpriced = sorted({key[0] for key in actual.index if key[0] not in (usd_per_unit or {})}) if usd_per_unit else []
    if unpriced:
        notes.append(f"Spend is tested without {', '.join(unpriced)}, for which no price of a unit is known.")
    return tuple(notes)
