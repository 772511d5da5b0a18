"""Short-horizon forecasts of thousands of series: selection and calibrated quantiles, series by series."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.demand.accuracy import QUANTILES
from capplan.questions.demand.candidates import level_candidates, rate_candidates, seasonal_candidates
from capplan.questions.demand.level import Scale
from capplan.questions.demand.selection import Choice, Score, choose, error_quantiles, fenced, origins_of, without_outages

Array = np.ndarray
FLOOR_SHARE = 0.01
#: Rolling origins: cheap candidates on fine series are tried more often.
ORIGINS, ORIGINS_COARSE = 12, 6
#: No quantile lies beyond this multiple of the largest value of its history.
AT_MOST = 10.0
SERIES_PER_TASK = 25


@dataclass(frozen=True)
class SeriesForecasts:
    """Forecasts of many series.

    Args:
        quantiles: series, step (1 = next), quantile, quantity.
        scores: series, model, pinball, mase, coverage_share, bias_share, origins, chosen.
        headline, notes: The answer in a sentence; stated fallbacks.
    """

    quantiles: pd.DataFrame
    scores: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def forecast_series(
    history: pd.DataFrame, horizon: int, seasons: tuple[int, ...] = (), quantiles: tuple[float, ...] = QUANTILES
) -> SeriesForecasts:
    """Forecast many series a short way ahead, each with the candidate that did best on its own rolling origins.

    Work is spread by joblib over whatever the caller has configured (`joblib.parallel_config`: the cores of this machine, or a Dask
    cluster); the
    numbers are the same on any of them.

    Args:
        history: series, time, quantity; regular intervals, any row order.
        seasons: Season lengths in steps, for example (24, 168) for hours; empty for none.
        quantiles: Probabilities; 0.5 is added where it is missing.

    Returns:
        SeriesForecasts: Quantiles and scores.

    Raises:
        CapplanError: If the horizon is not positive or a series holds a value that is not finite.
    """
    import joblib

    if horizon < 1:
        raise CapplanError(f"forecast_series: horizon is {horizon}; it must be at least one step")
    bad = history.loc[~np.isfinite(history["quantity"].to_numpy(dtype=float)), "series"].unique()
    if len(bad):
        raise CapplanError(f"forecast_series: {', '.join(map(str, bad[:5]))} hold values that are not finite; fill or drop them")
    wanted = tuple(sorted({*quantiles, 0.5}))
    ordered = history.sort_values(["series", "time"], kind="stable")
    names, first = np.unique(ordered["series"].to_numpy(), return_index=True)
    values = np.split(ordered["quantity"].to_numpy(dtype=float), first[1:])
    chunks = [values[k : k + SERIES_PER_TASK] for k in range(0, len(values), SERIES_PER_TASK)]
    done = joblib.Parallel()(joblib.delayed(_forecast_chunk)(chunk, horizon, seasons, wanted) for chunk in chunks)
    results = [result for chunk in done for result in chunk]
    table = pd.DataFrame(
        {
            "series": np.repeat(names, horizon * len(wanted)),
            "step": np.tile(np.repeat(np.arange(1, horizon + 1), len(wanted)), len(names)),
            "quantile": np.tile(wanted, len(names) * horizon),
            "quantity": np.concatenate([result[0].ravel() for result in results]) if results else np.empty(0),
        }
    )
    columns = ["model", "pinball", "mase", "coverage_share", "bias_share", "origins", "chosen"]
    rows = [
        (name, *(getattr(score, column) for column in columns)) for name, result in zip(names, results, strict=True) for score in result[1]
    ]
    scores = pd.DataFrame(rows, columns=["series", *columns])
    untested = [str(name) for name, result in zip(names, results, strict=True) if not result[1]]
    notes = (
        (
            (
                f"{len(untested)} series are too short or too plain to test candidates on:"
                f" {', '.join(untested[:5])}{', ...' if len(untested) > 5 else ''}."
            ),
        )
        if untested
        else ()
    )
    inside = scores.loc[scores["chosen"], "coverage_share"].mean() if len(scores) else float("nan")
    headline = (
        f"{len(names)} series, {horizon} steps ahead; on rolling origins the 90 % bands held {inside:.0%} of outcomes."
        if len(scores)
        else f"{len(names)} series, {horizon} steps ahead, untested."
    )
    return SeriesForecasts(table, scores, headline, notes)


def _forecast_chunk(
    chunk: list[Array], horizon: int, seasons: tuple[int, ...], quantiles: tuple[float, ...]
) -> list[tuple[Array, tuple[Score, ...]]]:
    return [forecast_values(values, horizon, seasons, quantiles) for values in chunk]


def forecast_values(
    values: Array, horizon: int, seasons: tuple[int, ...], quantiles: tuple[float, ...] = QUANTILES
) -> tuple[Array, tuple[Score, ...]]:
    """Forecast one series.

    Positive series are modelled as logarithms, those with values under 1 % of their median on a scale that is linear near zero (see
    `Scale`), series with many zeros
    by their rate, others as they are. No quantile lies beyond ten times the largest value seen. Bands come from the errors of up to twelve
    rolling origins.

    Args:
        values: History, oldest first.
        seasons: Season lengths in steps; those the history does not hold twice are left out.
        quantiles: Probabilities, ascending.

    Returns:
        quantities : (horizon, quantiles): Forecast quantiles.
        scores: One a candidate; empty where nothing could be tested.
    """
    q = np.asarray(quantiles)
    if len(values) == 0:
        return np.zeros((horizon, len(q))), ()
    if np.ptp(values) == 0:
        return np.full((horizon, len(q)), values[-1]), ()
    zeros = float(np.mean(values == 0))
    positive = values[values > 0]
    if (values >= 0).all() and zeros > 0.25:
        return _intermittent(values, horizon, q)
    held = tuple(season for season in sorted(set(seasons)) if season > 1 and len(values) >= 2 * season + min(horizon, season))
    floor = FLOOR_SHARE * float(np.median(positive)) if (values >= 0).all() else 0.0
    if floor > 0 and (values < floor).any():
        # Zeros and values near zero would stretch logarithms without end: the scale is linear there.
        scale = Scale.of(values)
        logs = scale.log(values) if not held else without_outages(scale.log(values), held[0])
        centre = float(logs.mean())
        scaled, natural = logs - centre, lambda x: scale.unit(x + centre)
    elif floor > 0:
        logs = fenced(np.log(np.maximum(values, floor)))
        centre = float(logs.mean())
        scaled, natural = logs - centre, lambda x: np.exp(np.minimum(x + centre, 700.0))
    else:
        size = float(np.abs(values).mean())
        scaled, natural = values / size, lambda x: x * size
    tested = min(horizon, max(1, len(values) // 3))
    day = held[0] if held else 1
    # No origin cuts the longest season below two cycles.
    origins = origins_of(len(scaled), tested, ORIGINS if day >= 24 else ORIGINS_COARSE, 2 * held[-1] if held else 4)
    candidates = seasonal_candidates(held, origins[0] if origins else len(values)) if held else {}
    if not held:
        candidates = level_candidates(min(4, len(values)))
    choice = choose(scaled, tested, candidates, origins, natural, horizon, f"seasonal naive {held[0]}" if held else None)
    spread = _bands(choice, scaled, horizon, q)
    if held:
        spread = (1 - choice.guarded_share) * spread + choice.guarded_share * _seasonal_bands(scaled, held[0], horizon, q)
    answer = natural(choice.path[:, None] + spread)
    reach = AT_MOST * float(np.abs(values).max())
    return np.clip(answer, -reach, reach), choice.scores


def _bands(choice: Choice, scaled: Array, horizon: int, q: Array) -> Array:
    """Return error quantiles (horizon x quantiles); beyond the tested steps they grow like those of a random walk."""
    errors, independent = choice.errors, choice.independent
    if len(errors) < 2:
        # Untested: the steps of the history stand in for errors one step ahead.
        errors = np.diff(scaled)[:, None]
        independent = float(len(errors))
    spread = error_quantiles(errors, independent, q)
    tested = len(spread)
    if tested < horizon:
        growth = np.sqrt(np.arange(tested + 1, horizon + 1) / tested)
        spread = np.concatenate([spread, spread[-1] * growth[:, None]])
    return spread


def _seasonal_bands(scaled: Array, season: int, horizon: int, q: Array) -> Array:
    """Return quantiles (horizon x quantiles) of a seasonal random walk's error: its steps have been seen often, where origins are few.

    Source: Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 3rd edition, section 5.5 (the variance grows by the season).
    """
    steps = scaled[season:] - scaled[:-season]
    cycles = np.arange(horizon) // season + 1
    return np.asarray((np.quantile(steps, q) - np.median(steps)) * np.sqrt(cycles)[:, None])


def _intermittent(values: Array, horizon: int, q: Array) -> tuple[Array, tuple[Score, ...]]:
    """Forecast demand with many empty intervals: the best rate as the mean, quantiles of the history around it."""
    mean = float(values.mean())
    scaled = values / mean
    tested = min(horizon, max(1, len(values) // 3))
    origins = origins_of(len(values), tested, ORIGINS)
    choice = choose(scaled, tested, rate_candidates(min(4, len(values))), origins, lambda x: np.maximum(x, 0.0) * mean)
    rate = max(0.0, float(choice.path.mean()))
    return np.tile(np.quantile(values, q) * rate, (horizon, 1)), choice.scores
