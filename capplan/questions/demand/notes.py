"""What a forecast of demand rests on, in sentences."""

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.events import Event, Run
from capplan.questions.demand.fitting import Fit
from capplan.questions.demand.history import History


def _name(history: History) -> str:
    return f"{history.workload} ({history.region})" if history.region != "any" else history.workload


def assumption_notes(fit: Fit, runs: list[Run], paths: pd.DataFrame, a: DemandAssumptions) -> list[str]:
    """Say what the forecast rests on."""
    notes = []
    for level in fit.levels:
        history, name = level.history, _name(level.history)
        if history.kind == "zero":
            notes.append(f"{name}: no demand in its history; its forecast is zero apart from events and runs.")
        elif history.kind == "short":
            notes.append(
                f"{name}: only {len(history.level)} {history.cadence}s of history; their mean is carried forward, with the stated growth"
                " band as its error. Not tested."
            )
        elif history.kind == "rhythm":
            continue
        elif history.kind == "intermittent":
            notes.append(f"{name}: intermittent demand; its rate is that of {level.model}, its swings are those of the history.")
        elif np.ptp(history.level) == 0:
            notes.append(f"{name}: constant in all its history; nothing shows how far it may move but the stated band of growth.")
        elif not level.scores:
            notes.append(f"{name}: too short for rolling origins; the median of all candidates is used, untested.")
        elif (own := next(score for score in level.scores if score.chosen)) and own.model != "naive":
            naive = next((score for score in level.scores if score.model == "naive"), None)
            if naive is not None and own.pinball >= naive.pinball:
                notes.append(f"{name}: no candidate beats the naive forecast on its rolling origins.")
    young = [_name(level.history) for level in fit.levels if level.extrapolated and level.history.kind != "zero"]
    if young:
        stated = (
            f"{a.growth_share_per_year:+.0%} a year as stated"
            if a.growth_share_per_year is not None
            else "estimated from the history and damped (half of it gone after two years, or twice the years it was seen for, whichever is"
            " later)"
        )
        notes.append(
            f"Extrapolated, not backtested: {', '.join(young)} have less than two yearly cycles of history, so growth is {stated}, with an"
            f" 80 % band of {a.growth_band_share:.0%} a year or more, and a yearly season is unknown within a band of"
            f" {a.season_band_share:.0%}. Levels revert to the history's mean as far as it shows."
        )
    if a.growth_share_per_year is not None and len(young) < len(fit.levels):
        notes.append(f"Growth of {a.growth_share_per_year:+.0%} a year is stated and replaces the estimates.")
    both = sorted({run.workload for run in runs} & {level.history.workload for level in fit.levels if level.history.kind != "zero"})
    if both:
        notes.append(
            f"The roadmap's runs come on top of the usage of {', '.join(both)}; if that usage already holds runs like these, give them a"
            " workload of their own."
        )
    if paths.empty:
        notes.append("No demand at all.")
    return notes


def idle_events(events: list[Event], paths: pd.DataFrame, fit: Fit) -> list[str]:
    """Name the events that change nothing because their workload has no demand to be changed."""
    measured = {level.history.workload for level in fit.levels} | set(paths.loc[paths["region"] == "any", "workload"])
    return [
        f"Event {event.name} multiplies {event.workload}, which has neither usage nor a run of any region; it has no effect. State a level"
        " instead of a factor."
        for event in events
        if event.workload not in measured and np.isnan(event.level)
    ]
