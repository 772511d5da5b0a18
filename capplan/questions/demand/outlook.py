"""What kind of growth each workload shows, what that was tested on, and what the other credible kinds would mean."""

from __future__ import annotations

import numpy as np
import pandas as pd

from capplan.questions.demand.fitting import Fit
from capplan.questions.demand.growth import GrowthFit
from capplan.questions.demand.growth_kinds import KINDS
from capplan.questions.demand.models import LevelFit

#: Quarters ahead whose tests are told.
TOLD_QUARTERS = (1, 4, 8)
#: Kinds of growth less probable than this are not credible enough to be told.
CREDIBLE_SHARE = 0.1
COLUMNS = ["workload", "region", "kind", "probability", "times_median"] + [
    f"{name}_quarter_{q}" for q in TOLD_QUARTERS for name in ("tests", "inside")
]


def outlook_table(fit: Fit) -> pd.DataFrame:
    """List the credible kinds of growth of each workload, likeliest first.

    Parameters
    ----------
    fit
        Fitted levels.

    Returns
    -------
    pandas.DataFrame
        workload, region, kind, probability, times_median (demand two years ahead under this kind over that of all kinds), and for quarters
        1, 4 and 8 ahead how
        many forecasts from past origins were tested and how many outcomes lay inside the 90 % band. Workloads with less than a year of
        history have no rows.
    """
    rows = []
    for level in fit.levels:
        if level.growth is None:
            continue
        found = level.growth.fit
        tested = [int(part[q - 1]) for q in TOLD_QUARTERS for part in (found.tests, found.inside)]
        for kind, share in found.kinds.items():
            if share >= CREDIBLE_SHARE:
                rows.append((level.history.workload, level.history.region, kind, share, _times(found, kind), *tested))
    return pd.DataFrame(rows, columns=COLUMNS)


def _times(fit: GrowthFit, kind: str) -> float:
    """Return demand two years ahead under one kind over that of all kinds."""
    number = [known.name for known in KINDS].index(kind)
    course = fit.courses[number] / fit.kinds[kind] - fit.courses.sum(axis=0) - fit.shift
    ahead = round(2 * fit.periods_per_year)
    return float(np.exp(course[ahead - 3 : ahead].mean()))


def outlook_notes(fit: Fit) -> list[str]:
    """Say in a sentence for each workload the growth found, what other kinds would mean, and what past bands held."""
    table = outlook_table(fit)
    notes = []
    for level in fit.levels:
        rows = table[(table["workload"] == level.history.workload) & (table["region"] == level.history.region)]
        if rows.empty:
            continue
        first = rows.iloc[0]
        others = [f"{row.kind} ({row.probability:.0%}) {row.times_median:.2f} times" for row in rows.iloc[1:].itertuples()]
        means = f"; two years ahead, {', '.join(others)} what is expected" if others else ""
        steps = (
            f" Its level moved by a step {len(level.growth.fit.steps)} times."
            if level.growth is not None and level.growth.fit.steps
            else ""
        )
        notes.append(f"{_name(level)}: growth is {first['kind']} ({first['probability']:.0%} sure){means}.{steps} {_coverage(first)}")
    return notes


def _coverage(row: pd.Series) -> str:
    """Say how often the bands of each told quarter held."""
    told = [
        (
            f"{int(row[f'inside_quarter_{q}'])} of {int(row[f'tests_quarter_{q}'])} at quarter {q}"
            if row[f"tests_quarter_{q}"]
            else f"none could be tested at quarter {q}"
        )
        for q in TOLD_QUARTERS
    ]
    return f"Of past totals, inside the 90 % band: {', '.join(told)}."


def _name(level: LevelFit) -> str:
    history = level.history
    return f"{history.workload} ({history.region})" if history.region != "any" else history.workload
