"""A planner's past forecasts beside what this forecast would have said on the same day."""

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.accuracy import pinball_loss
from capplan.questions.demand.demand_rows import demand_rows
from capplan.questions.demand.fitting import fit_usage
from capplan.questions.demand.planner import PlannedMonth
from capplan.questions.demand.sample_paths import draw_cohorts

Array = np.ndarray
DAY = pd.Timedelta(days=1)
COLUMNS = ["workload", "region", "made_on", "months", "planner_pinball", "own_pinball", "planner_error_share", "own_error_share"] + [
    f"{name}_inside_share" for name in ("planner", "own", "nominal")
]


def no_scores() -> pd.DataFrame:
    """Return the table of `score_planned` without rows."""
    return pd.DataFrame(columns=COLUMNS)


def score_planned(usage: pd.DataFrame | None, planned: list[PlannedMonth], a: DemandAssumptions) -> pd.DataFrame:
    """Say how good a planner's forecasts of past months were, beside forecasts made anew with the usage known on the day they were made.

    Args:
        usage: The usage table, or None.
        planned: Months as a planner stated them; those with a day they were made on, that are past and whole in the usage, are scored.

    Returns:
        pandas.DataFrame: workload, region, made_on, months (number scored), planner_pinball and own_pinball (mean loss over the planner's
            quantiles, workload unit), planner_error_share and own_error_share (mean absolute error of the median over the mean outcome),
            planner_inside_share and own_inside_share (outcomes within the planner's outermost quantiles, and within ours at the same
            probabilities) and nominal_inside_share (how many should be).

    Source: Gneiting and Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 2007.
    """
    past = [one for one in planned if one.made_on is not None and one.made_on < one.month]
    if usage is None or usage.empty or not past:
        return no_scores()
    served = usage.assign(refused_quantity=usage["refused_quantity"].fillna(0.0) if "refused_quantity" in usage else 0.0)
    rows = demand_rows(served, a, [])
    known_until = rows["time"].max().normalize() + DAY
    monthly = rows.assign(month=rows["time"].dt.to_period("M").dt.to_timestamp())
    by_month = monthly.groupby(["workload", "region", "month"])["demand"].sum()
    by_day = rows["time"].dt.normalize().nunique() > 2 * monthly["month"].nunique()
    found = []
    for made_on in sorted({one.made_on for one in past if one.made_on is not None}):
        mine = [one for one in past if one.made_on == made_on and (not by_day or one.month + pd.offsets.MonthBegin(1) <= known_until)]
        mine = [one for one in mine if len(_outcomes(by_month, one))]
        if mine:
            found += _scored(usage[usage["time"] < made_on], mine, by_month, a)
    return pd.DataFrame(found, columns=COLUMNS)


def _outcomes(by_month: pd.Series, one: PlannedMonth) -> pd.Series:
    """Return what came, by region."""
    index = by_month.index
    same = (index.get_level_values("workload") == one.workload) & (index.get_level_values("month") == one.month)
    return by_month[same & ((index.get_level_values("region") == one.region) | (one.region == "any"))]


def _scored(before: pd.DataFrame, planned: list[PlannedMonth], by_month: pd.Series, a: DemandAssumptions) -> list[tuple[object, ...]]:
    """Score the months of one day; nothing is scored of a workload that was not yet known then."""
    made_on = planned[0].made_on
    then = a.model_copy(update={"as_of": (made_on - DAY).date()})
    end = max(one.month for one in planned) + pd.offsets.MonthBegin(1)
    cohorts = draw_cohorts(list(fit_usage(before, then).levels), end, then)
    results = []
    for workload, region in sorted({(one.workload, one.region) for one in planned}):
        measures = []
        for one in planned:
            own = [
                cohort.month_totals(one.month, 1)[j, :, 0]
                for cohort in cohorts
                for j, fit in enumerate(cohort.fits)
                if fit.history.workload == workload and region in ("any", fit.history.region)
            ]
            if (one.workload, one.region) == (workload, region) and own:
                measures.append(_measures(one, np.sum(own, axis=0), float(_outcomes(by_month, one).sum())))
        if measures:
            mean = np.mean(measures, axis=0)
            size = mean[-1] if mean[-1] > 0 else float("nan")
            results.append((workload, region, made_on, len(measures), mean[0], mean[1], mean[2] / size, mean[3] / size, *mean[4:7]))
    return results


def _measures(one: PlannedMonth, paths: Array, outcome: float) -> tuple[float, ...]:
    """Measure one month: losses, errors of the medians, hits of the outermost band, its probability, and the outcome."""
    own = np.quantile(paths, one.probability)
    middle = int(np.argmin(np.abs(one.probability - 0.5)))
    losses = (pinball_loss(np.array([outcome]), said, one.probability) for said in (one.quantity, own))
    errors = (abs(said[middle] - outcome) for said in (one.quantity, own))
    inside = (float(said[0] <= outcome <= said[-1]) for said in (one.quantity, own))
    return (*losses, *errors, *inside, float(one.probability[-1] - one.probability[0]), outcome)


def scores_note(scores: pd.DataFrame) -> list[str]:
    """Say in a sentence for each workload which of the two forecasts was better in the past."""
    notes = []
    for (workload, region), part in scores.groupby(["workload", "region"], sort=True):
        months = int(part["months"].sum())
        own, theirs = (float((part[name] * part["months"]).sum()) for name in ("own_pinball", "planner_pinball"))
        said = "better than" if theirs < own else "no better than"
        name = workload if region == "any" else f"{workload} ({region})"
        notes.append(
            f"{name}: over {months} past months the planner's forecast was {said} this one made on the same days (pinball loss"
            f" {theirs / months:,.4g} and {own / months:,.4g})."
        )
    return notes
