"""Tables of what was fitted: scores of candidates, modelled histories, and demand that capacity hid."""

import pandas as pd

from capplan.questions.demand.fitting import Fit


def scores_table(fit: Fit) -> pd.DataFrame:
    """Return the scores of all candidates; columns see `Forecast.scores`."""
    columns = "workload region model pinball mase coverage_share bias_share origins horizon_days chosen extrapolated".split()
    days = {"day": 1.0, "week": 7.0, "month": 365.25 / 12}
    rows = [
        (
            level.history.workload,
            level.history.region,
            score.model,
            score.pinball,
            score.mase,
            score.coverage_share,
            score.bias_share,
            score.origins,
            len(level.departure) * days[level.history.cadence],
            score.chosen,
            level.extrapolated,
        )
        for level in fit.levels
        for score in level.scores
    ]
    return pd.DataFrame(rows, columns=columns)


def history_table(fit: Fit) -> pd.DataFrame:
    """Return the demand that was modelled; columns see `Forecast.history`."""
    frames = []
    for level in fit.levels:
        history = level.history
        days = history.times.days_in_month if history.cadence == "month" else (7 if history.cadence == "week" else 1)
        factor = history.weekday_factor[history.times.dayofweek] if history.cadence == "day" else 1.0
        frames.append(
            pd.DataFrame(
                {
                    "workload": history.workload,
                    "region": history.region,
                    "time": history.times,
                    "days": days,
                    "quantity_per_day": history.level * factor,
                }
            )
        )
    columns = ["workload", "region", "time", "days", "quantity_per_day"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({column: pd.Series(dtype=float) for column in columns})


def unmet_table(fit: Fit) -> pd.DataFrame:
    """Return what capacity hid in the history; columns see `Forecast.unmet`."""
    rows = [
        (
            level.history.workload,
            level.history.region,
            level.history.demand,
            level.history.unmet,
            level.history.unmet / level.history.demand if level.history.demand > 0 else 0.0,
            level.history.inferred,
        )
        for level in fit.levels
    ]
    return pd.DataFrame(rows, columns=["workload", "region", "demand", "unmet", "unmet_share", "inferred"])
