"""All of a forecast, multiplied: more or less of the same demand."""

from dataclasses import replace

import pandas as pd

from capplan.questions.demand.forecast_demand import Forecast


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
