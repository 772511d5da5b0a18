"""What kind of growth each workload shows, what that was tested on, and what the other credible kinds would mean."""

import numpy as np
import pandas as pd

from capplan.questions.demand.fitting import Fit
from capplan.questions.demand.growth_kinds import AHEAD, KINDS
from capplan.questions.demand.growth_level import GrowthLevel
from capplan.questions.demand.models import LevelFit
from capplan.records import records

Array = np.ndarray
#: Quarters ahead whose tests are told.
TOLD_QUARTERS = (1, 4, 8)
#: Kinds of growth less probable than this are not credible enough to be told.
CREDIBLE_SHARE = 0.1
#: Workloads that a note names before it counts the rest.
NAMED = 5
COLUMNS = ["workload", "region", "kind", "probability", "believed_share", "times_median", "steps", "origins", "origin_days"] + [
    f"{name}_quarter_{q}" for q in TOLD_QUARTERS for name in ("tests", "inside")
]
COURSES = ["workload", "region", "kind", "month", "times_median"]
PERIOD_DAYS = {"day": 1.0, "week": 7.0, "month": 365.25 / 12}


def outlook_courses(fit: Fit, months: pd.DatetimeIndex) -> pd.DataFrame:
    """Say for each credible kind of growth how far demand would lie from the median, month by month.

    Args:
        months: First days of the months.

    Returns:
        pandas.DataFrame: workload, region, kind, month, times_median (demand under this kind over that of all kinds, as far as the forecast
            follows them).
    """
    rows = [
        (level.history.workload, level.history.region, kind, month, times)
        for level in fit.levels
        if level.growth is not None
        for kind in _credible(level.growth)
        for month, times in zip(months, _times(level, level.growth, kind, months), strict=True)
    ]
    return pd.DataFrame(rows, columns=COURSES)


def outlook_table(fit: Fit, months: pd.DatetimeIndex) -> pd.DataFrame:
    """List the credible kinds of growth of each workload, likeliest first.

    Args:
        months: First days of the forecast's months; the last three are the quarter that kinds are compared in.

    Returns:
        pandas.DataFrame: workload, region, kind, probability, believed_share (how far the forecast follows the kinds of growth: not at all
            below a year of history, alone from two), times_median (demand in the last quarter under this kind over the median), steps (of
            the level, found and taken out), origins and origin_days (past origins from which models of the level were tried, and how far
            each looked), and for quarters 1, 4 and 8 ahead how many forecasts from past origins were tested and how many outcomes lay
            inside the 90 % band. Workloads with less than a year of history have no rows.
    """
    rows = []
    for level in fit.levels:
        if level.growth is None:
            continue
        found = level.growth.fit
        tested = [int(part[q - 1]) for q in TOLD_QUARTERS for part in (found.tests, found.inside)]
        tried = (level.scores[0].origins if level.scores else 0, len(level.departure) * PERIOD_DAYS[level.history.cadence])
        for kind in _credible(level.growth):
            times = float(np.mean(_times(level, level.growth, kind, months[-3:])))
            about = (kind, found.kinds[kind], level.growth.share, times, len(found.steps))
            rows.append((level.history.workload, level.history.region, *about, *tried, *tested))
    return pd.DataFrame(rows, columns=COLUMNS)


def _credible(growth: GrowthLevel) -> list[str]:
    return [kind for kind, share in growth.fit.kinds.items() if share >= CREDIBLE_SHARE]


def _times(level: LevelFit, growth: GrowthLevel, kind: str, months: pd.DatetimeIndex) -> Array:
    """Return demand under one kind over that of all kinds, in the middle of some months."""
    fit = growth.fit
    number = [known.name for known in KINDS].index(kind)
    course = fit.courses[number] / fit.kinds[kind] - fit.courses.sum(axis=0) - fit.shift
    years = (months - level.history.end + pd.Timedelta(days=15)) / pd.Timedelta(days=365.25)
    return np.exp(growth.share * np.interp(np.asarray(years) * fit.periods_per_year - 0.5, np.arange(AHEAD), course))


def outlook_notes(table: pd.DataFrame) -> list[str]:
    """Name in one note the workloads whose bands could not be tested on their own past at all told quarters, and say what follows.

    Args:
        table: Of `outlook_table`.
    """
    first = table.drop_duplicates(["workload", "region"])
    untested = [_untested(row) for row in records(first)]
    told = [f"{_name(row)} ({words})" for row, words in zip(records(first), untested, strict=True) if words]
    if not told:
        return []
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return [
        f"Not tested on their own past at these quarters ahead: {', '.join(told[:NAMED])}{more}. Their bands there are as wide as public"
        " series asked for and, below two years of history, as the stated bands of growth and season say: what is bought for those quarters"
        " rests on that, so prefer terms that can be left or put off."
    ]


def untested_band(outlook: pd.DataFrame, series: int, quarters: int) -> str:
    """Say of how many series the band of the farthest told quarter of a horizon was tested on their own past; nothing where of all.

    Examples:
        >>> first = pd.DataFrame({"workload": ["a", "b"], "region": "any", "tests_quarter_8": [3, 0]})
        >>> untested_band(first, 2, 8)
        '; tested at quarter 8 for 1 of 2 series'
    """
    told = max(q for q in TOLD_QUARTERS if q == 1 or q <= quarters)
    tested = int((outlook.drop_duplicates(["workload", "region"])[f"tests_quarter_{told}"] > 0).sum())
    return f"; tested at quarter {told} for {tested} of {series} series" if tested < series else ""


def _untested(row: dict[str, object]) -> str:
    missing = [str(q) for q in TOLD_QUARTERS if not row[f"tests_quarter_{q}"]]
    return " and ".join([", ".join(missing[:-1]), missing[-1]]) if len(missing) > 1 else "".join(missing)


def _name(row: dict[str, object]) -> str:
    return f"{row['workload']}, {row['region']}" if row["region"] != "any" else str(row["workload"])
