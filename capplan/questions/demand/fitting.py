"""Fit every series of a usage table once, and remember it: no slider of events, growth or paths, and no other series, fits it again."""

import hashlib
import pickle
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.kept_results import Memory
from capplan.questions.demand.history import History, read_histories
from capplan.questions.demand.models import LevelFit, fit_level
from capplan.workers import spread, workers

#: Series whose fit is kept.
KEPT_FITS = 512
#: 90 % quantile of the standard normal: half of an 80 % band.
NORMAL_90 = 1.2815515655446004
#: From this many series on, starting processes on this machine costs less than it saves.
PARALLEL_FROM = 60


@dataclass(frozen=True)
class Fit:
    """Everything that depends on usage alone: events, growth, horizon and the number of paths never change it."""

    levels: tuple[LevelFit, ...]
    notes: tuple[str, ...]


_fits: Memory[LevelFit] = Memory(KEPT_FITS)


def fit_usage(usage: pd.DataFrame | None, a: DemandAssumptions, ends: dict[str, pd.Timestamp] | None = None) -> Fit:
    """Repair all series of a usage table and fit them; what was fitted to the same history before is taken from memory.

    Args:
        usage: The usage table, or None.
        ends: Last days of workloads, where they are known.

    Returns:
        Fit: Level models in alphabetical order of workload and region, and what was repaired.
    """
    if usage is None or usage.empty:
        return Fit((), ())
    histories, notes = read_histories(usage, a, ends)
    spread_of_season = season_spread(a)
    keys = [hashlib.sha256(pickle.dumps((history, spread_of_season))).hexdigest() for history in histories]
    known = {key: fit for key in keys if (fit := _fits.get(key)) is not None}
    new = {key: history for key, history in zip(keys, histories, strict=True) if key not in known}
    known |= dict(zip(new, _fit_all(list(new.values()), spread_of_season, a.workers), strict=True))
    _fits.most = max(KEPT_FITS, len(keys))
    for key in new:
        _fits[key] = known[key]
    return Fit(tuple(known[key] for key in keys), tuple(notes))


def season_spread(a: DemandAssumptions) -> float:
    """Return the deviation of sine and cosine of a hidden yearly season on the logarithmic scale, from its stated 80 % band."""
    return float(np.log1p(a.season_band_share) / NORMAL_90)


def _fit_all(histories: list[History], spread_of_season: float, address: str | None) -> list[LevelFit]:
    """Fit each series: in this process if there are few, else on all cores, or on the Dask cluster that is named."""
    if address is None and len(histories) < PARALLEL_FROM:
        return [fit_level(history, spread_of_season) for history in histories]
    with workers(address):
        return spread(partial(fit_level, season_spread=spread_of_season), histories)
