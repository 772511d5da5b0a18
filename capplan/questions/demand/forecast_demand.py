"""The answer: sample paths of work in load blocks, their quantiles, and where they come from."""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand.accuracy import QUANTILES, interpolated_quantiles
from capplan.questions.demand.events import read_events, read_runs
from capplan.questions.demand.fit_tables import history_table, scores_table, unmet_table
from capplan.questions.demand.fitting import Fit, fit_usage
from capplan.questions.demand.notes import assumption_notes, idle_events
from capplan.questions.demand.outlook import outlook_courses, outlook_notes, outlook_table, untested_band
from capplan.questions.demand.planner import coming, planned_totals, read_planned
from capplan.questions.demand.planner_scores import no_scores, score_planned, scores_note
from capplan.questions.demand.quarters import Known, Ranking, simulate_quarters
from capplan.questions.demand.sample_paths import draw_cohorts
from capplan.questions.demand.shape import hour_of_week_profile
from capplan.questions.demand.statements import Stated, read_statements
from capplan.units import quarter_end, quarter_hours, quarter_range, quarter_start

PATH_KEYS = ["path", "probability", "workload", "region", "quarter", "block"]


@dataclass(frozen=True)
class Forecast:
    """How much work will come.

    Args:
        paths: path, probability, workload, region, quarter, block (0 = peak), quantity (work of that block of the quarter, workload unit).
        quantiles: workload, region, quarter, quantile, quantity (quarter total, workload unit).
        blocks: quarter, block, hours (h); the same for all paths.
        scores: workload, region, model, pinball (workload unit/day), mase, coverage_share (of nominal 90 %), bias_share, origins,
            horizon_days (how far the rolling origins looked), chosen, extrapolated (growth beyond is an assumption).
        peaks: workload, region, quarter, quantile, work_per_hour: the highest hour of the quarter.
        months: workload, region, month, quantile, quantity: month totals, for fan charts.
        history: workload, region, time, days (length of the period), quantity_per_day: the demand that was modelled.
        unmet: workload, region, demand, unmet, unmet_share, inferred: what capacity hid in the history, and the part of it that is inferred
            from a ceiling instead of measured.
        profile: workload, region, hour_of_week (0 = Monday 00:00 UTC), factor.
        duration: workload, region, quarter, hours_share, work_per_hour: median load-duration curves; workload "all" is the sum, weighted as
            the notes say.
        pooling: quarter, sum_of_peaks, peak_of_sum, pooling_gain_share.
        growth: Median demand of the last quarter over that of the first, over all workloads, weighted as the notes say.
        weights: What a unit of each workload counts for in sums over workloads.
        outlook: workload, region, kind, probability, times_median, and tests and inside of quarters 1, 4 and 8: see `outlook_table`.
        courses: workload, region, kind, month, times_median: see `outlook_courses`.
        headline, notes: The answer in a sentence; what was repaired and assumed.
        planner: Past months of a planner's forecast beside what this forecast said on the same day: see `score_planned`.
    """

    paths: pd.DataFrame
    quantiles: pd.DataFrame
    blocks: pd.DataFrame
    scores: pd.DataFrame
    peaks: pd.DataFrame
    months: pd.DataFrame
    history: pd.DataFrame
    unmet: pd.DataFrame
    profile: pd.DataFrame
    duration: pd.DataFrame
    pooling: pd.DataFrame
    growth: float
    weights: dict[str, float]
    outlook: pd.DataFrame
    courses: pd.DataFrame
    headline: str
    notes: tuple[str, ...]
    planner: pd.DataFrame = field(default_factory=no_scores)


def forecast_demand(
    usage: pd.DataFrame | None,
    events: pd.DataFrame | None,
    training_runs: pd.DataFrame | None,
    a: DemandAssumptions,
    workloads: pd.DataFrame | None = None,
    speeds: pd.DataFrame | None = None,
    stated: Stated | None = None,
) -> Forecast:
    """Forecast how much work will come in each quarter, and say how sure that is.

    A level model is chosen for each workload and region by rolling origins; its errors, drawn jointly for all, make sample paths; within
    the
    quarter, whole historical weeks are drawn (the same for all) so that peaks that coincide go on to coincide; then known events and the
    training
    roadmap act on each path. The hours of a quarter are ranked by total load on each path and cut into blocks, block 0 being the peak.

    Args:
        usage: The usage table: ten-minute to monthly rows; may be empty if there is a roadmap.
        events: The events table, or None.
        training_runs: The training_runs table, or None.
        workloads: The workloads table, or None; gives units (for runs in exaflop, and for ranking hours).
        speeds: The speeds table, or None; lets hours be ranked by accelerators instead of by normalised load.
        stated: What people say of the future, or None: see `Stated`.

    Returns:
        Forecast: Paths, quantiles, blocks and scores.

    Raises:
        CapplanError: If there is neither usage nor a roadmap nor an event with a level, or an event or run contradicts itself.

    Source: Politis and Romano, The stationary bootstrap, JASA 1994; Makridakis, Spiliotis, Assimakopoulos, The M4 competition, IJF 2020;
        Murphy and Stoft on load-duration curves: S. Stoft, Power System Economics, 2002, part 1.
    """
    stated = stated or Stated()
    fit = fit_usage(usage, a, last_days(workloads))
    notes = list(fit.notes)
    quarters = quarter_range(a.first_quarter, a.horizon_quarters)
    horizon = (quarter_start(quarters[0]), quarter_end(quarters[-1]))
    units = dict(zip(workloads["workload"], workloads["unit"], strict=True)) if workloads is not None else {}
    known_events = read_events(events, a, horizon[1], notes)
    runs = read_runs(training_runs, units, horizon, notes)
    planned = read_planned(stated.forecasts, pd.Timestamp(a.as_of), notes)
    taken = coming(planned, horizon, notes)
    if not fit.levels and not runs and not taken and not any(np.isfinite(event.level) for event in known_events):
        raise CapplanError(
            "demand: there is no usage, no training run, no planner's forecast and no event with a level inside the horizon. Give a usage"
            " table, or state demand_scenarios"
        )
    cohorts = draw_cohorts(list(fit.levels), horizon[1], a, read_statements(stated.growth, notes))
    known = Known(known_events, runs, planned_totals(taken, cohorts, a))
    ranking = Ranking.build(known.sizes([level.history for level in fit.levels], a), workloads, speeds, notes)
    simulated = simulate_quarters(cohorts, known, ranking, quarters, a)
    planner = score_planned(usage, planned, a)
    notes += scores_note(planner)
    months = pd.date_range(*horizon, freq="MS", inclusive="left")
    outlook = outlook_table(fit, months)
    notes += outlook_notes(outlook) + assumption_notes(fit, runs, simulated.paths, a) + idle_events(known_events, simulated.paths, fit)
    quantiles = path_quantiles(simulated.paths, ["workload", "region"])
    growth, headline = growth_of(simulated.paths, ranking.weights, outlook=outlook)
    return Forecast(
        paths=simulated.paths,
        quantiles=quantiles,
        blocks=simulated.blocks,
        scores=scores_table(fit),
        peaks=simulated.peaks,
        months=simulated.months,
        history=history_table(fit),
        unmet=unmet_table(fit),
        profile=hour_of_week_profile([level.history for level in fit.levels]),
        duration=simulated.duration,
        pooling=simulated.pooling,
        growth=growth,
        weights=ranking.weights,
        outlook=outlook,
        courses=outlook_courses(fit, months),
        headline=headline,
        notes=tuple(dict.fromkeys(notes)),
        planner=planner,
    )


def last_days(workloads: pd.DataFrame | None) -> dict[str, pd.Timestamp]:
    """Return the stated last day of each workload that has one."""
    if workloads is None or "last_day" not in workloads:
        return {}
    stated = workloads.dropna(subset=["last_day"])
    return {str(name): pd.Timestamp(day) for name, day in zip(stated["workload"], stated["last_day"], strict=True)}


def stated_demand(demand_scenarios: pd.DataFrame, a: DemandAssumptions) -> Forecast:
    """Take the demand that somebody states instead of a forecast, in the same form.

    Args:
        demand_scenarios: scenario, probability, workload, region, quarter, quantity (work of the whole quarter, spread evenly).
        a: Assumptions; first_quarter, horizon_quarters and hours_convention are used.

    Returns:
        Forecast: One load block a quarter; path k is the k-th scenario in alphabetical order.

    Raises:
        CapplanError: If a scenario has two probabilities, their sum is not 1, or no row lies in the horizon.
    """
    quarters = quarter_range(a.first_quarter, a.horizon_quarters)
    rows, probability, notes = _stated_rows(demand_scenarios, quarters)
    names = list(probability.index)
    series = rows[["workload", "region"]].drop_duplicates()
    grid = pd.MultiIndex.from_tuples(
        [
            (scenario, *pair, quarter)
            for scenario in names
            for pair in sorted(series.itertuples(index=False, name=None))
            for quarter in quarters
        ],
        names=["scenario", "workload", "region", "quarter"],
    )
    stated = rows.groupby(["scenario", "workload", "region", "quarter"])["quantity"].sum().reindex(grid)
    if stated.isna().any():
        notes.append(
            f"{int(stated.isna().sum())} combinations of scenario, workload, region and quarter are not stated and count as no demand."
        )
    table = stated.fillna(0.0).rename("quantity").reset_index()
    table["path"] = table["scenario"].map({name: number for number, name in enumerate(names)})
    table["probability"] = table["scenario"].map(probability) / float(probability.sum())
    table["block"] = 0
    paths = table[[*PATH_KEYS, "quantity"]].sort_values(PATH_KEYS, kind="stable").reset_index(drop=True)
    blocks = pd.DataFrame({"quarter": quarters, "block": 0, "hours": [quarter_hours(quarter, a.hours_convention) for quarter in quarters]})
    quantiles = path_quantiles(paths, ["workload", "region"])
    peaks = quantiles.merge(blocks[["quarter", "hours"]], on="quarter")
    peaks["work_per_hour"] = peaks["quantity"] / peaks["hours"]
    weights = dict.fromkeys(sorted(series["workload"]), 1.0)
    growth, headline = growth_of(paths, weights)
    return Forecast(
        paths=paths,
        quantiles=quantiles,
        blocks=blocks,
        scores=scores_table(Fit((), ())),
        peaks=peaks.drop(columns=["quantity", "hours"]),
        months=_empty("workload", "region", "month", "quantile", "quantity"),
        history=history_table(Fit((), ())),
        unmet=unmet_table(Fit((), ())),
        profile=hour_of_week_profile([]),
        duration=_empty("workload", "region", "quarter", "hours_share", "work_per_hour"),
        pooling=_empty("quarter", "sum_of_peaks", "peak_of_sum", "pooling_gain_share"),
        growth=growth,
        weights=weights,
        outlook=outlook_table(Fit((), ()), pd.DatetimeIndex([])),
        courses=outlook_courses(Fit((), ()), pd.DatetimeIndex([])),
        headline=headline,
        notes=tuple(notes),
    )


def _stated_rows(demand_scenarios: pd.DataFrame, quarters: list[str]) -> tuple[pd.DataFrame, pd.Series, list[str]]:
    """Return the rows within the horizon, the probability of each scenario, and notes."""
    rows = demand_scenarios.copy()
    rows["region"] = rows["region"].fillna("any") if "region" in rows else "any"
    per_scenario = rows.groupby("scenario", sort=True)["probability"].agg(["min", "max"])
    unequal = per_scenario.index[~np.isclose(per_scenario["min"], per_scenario["max"], rtol=1e-9)]
    if len(unequal):
        raise CapplanError(
            f"demand_scenarios: {', '.join(map(str, unequal))} state more than one probability; a scenario has one, equal in all its rows"
        )
    total = float(per_scenario["min"].sum())
    if not np.isclose(total, 1.0, atol=1e-6):
        listed = ", ".join(f"{name} {value:g}" for name, value in per_scenario["min"].items())
        raise CapplanError(f"demand_scenarios: the probabilities sum to {total:g} ({listed}); they must sum to 1")
    notes = ["Demand is stated, not forecast: one constant load a quarter in each scenario, without any peak inside it."]
    outside = sorted(set(rows["quarter"]) - set(quarters))
    if outside:
        notes.append(f"Stated demand of {', '.join(outside)} lies outside the horizon {quarters[0]} to {quarters[-1]} and was left out.")
        rows = rows[rows["quarter"].isin(quarters)]
    if rows.empty:
        raise CapplanError(
            f"demand_scenarios: no row lies in the horizon {quarters[0]} to {quarters[-1]}; move first_quarter or state these quarters"
        )
    return rows, per_scenario["min"], notes


def path_quantiles(paths: pd.DataFrame, by: list[str], quantiles: tuple[float, ...] = QUANTILES) -> pd.DataFrame:
    """Return quantiles of quarter totals over paths, for any grouping; totals are summed on each path first, so every level is coherent.

    Args:
        paths: path, probability, quarter, quantity, and the columns of `by`.
        by: Columns to group by; may be empty for the whole.
        quantiles: Probabilities.

    Returns:
        pandas.DataFrame: `by`, quarter, quantile, quantity.
    """
    totals = paths.groupby([*by, "quarter", "path"], sort=True, observed=True).agg(
        quantity=("quantity", "sum"), probability=("probability", "first")
    )
    frames = []
    for key, part in totals.groupby([*by, "quarter"], sort=True, observed=True):
        values = interpolated_quantiles(part["quantity"].to_numpy(), part["probability"].to_numpy(), np.array(quantiles))
        frames.append(pd.DataFrame({**dict(zip([*by, "quarter"], key, strict=True)), "quantile": quantiles, "quantity": values}))
    return pd.concat(frames, ignore_index=True) if frames else _empty(*by, "quarter", "quantile", "quantity")


def growth_of(paths: pd.DataFrame, weights: dict[str, float], upper: float = 0.9, outlook: pd.DataFrame | None = None) -> tuple[float, str]:
    """Say by how much demand grows over the horizon, in one number over all workloads of the paths, and in a sentence.

    Args:
        paths: Paths of a Forecast, or those of some of its workloads.
        weights: What a unit of each workload counts for.
        upper: Upper end of the band (0.9 = an 80 % band).
        outlook: Of a Forecast: says where the band is not tested on the past; None where demand is stated.
    """
    quarters = sorted(paths["quarter"].unique())
    weight = paths["workload"].map(weights).fillna(0.0)
    totals = (paths["quantity"] * weight).groupby([paths["quarter"], paths["path"]]).sum().unstack("quarter")
    probability = paths.groupby("path")["probability"].first().reindex(totals.index).to_numpy()
    first = interpolated_quantiles(totals[quarters[0]].to_numpy(), probability, np.array([0.5]))[0]
    if not first > 0:
        return float("nan"), f"No demand is expected in {quarters[0]}; see the quantiles of the later quarters."
    alive = paths[(paths["quarter"] == quarters[-1]) & (paths["quantity"] > 0)].groupby(["workload", "region"]).ngroups
    untested = untested_band(outlook, alive, len(quarters)) if outlook is not None else ""
    low, middle, high = interpolated_quantiles(totals[quarters[-1]].to_numpy(), probability, np.array([1 - upper, 0.5, upper])) / first
    text = (
        f"Demand in {quarters[-1]} is {middle:.2f} times that of {quarters[0]} ({100 * (2 * upper - 1):.0f} % band {low:.2f} to"
        f" {high:.2f}{untested})."
    )
    return float(middle), text


def _empty(*columns: str) -> pd.DataFrame:
    return pd.DataFrame({column: pd.Series(dtype=float) for column in columns})


def scaled_forecast(forecast: Forecast, factor: float) -> Forecast:
    """Multiply what will come by a factor; what was measured stays as it is.

    Args:
        factor: 1 leaves it unchanged.
    """
    if factor == 1.0:
        return forecast

    def times(frame: pd.DataFrame, column: str) -> pd.DataFrame:
        return frame.assign(**{column: frame[column] * factor})

    return replace(
        forecast,
        paths=times(forecast.paths, "quantity"),
        quantiles=times(forecast.quantiles, "quantity"),
        peaks=times(forecast.peaks, "work_per_hour"),
        months=times(forecast.months, "quantity"),
        duration=times(forecast.duration, "work_per_hour"),
        notes=(*forecast.notes, f"All demand is multiplied by {factor:g} (demand_factor)."),
    )
