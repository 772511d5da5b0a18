"""Fit every series of a usage table once, and remember it: no slider of events, growth or paths fits again."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand.history import History, read_histories
from capplan.questions.demand.models import LevelFit, fit_level
from capplan.workers import spread, workers

KEPT_FITS = 32
#: 90 % quantile of the standard normal: half of an 80 % band.
NORMAL_90 = 1.2815515655446004
#: From this many series on, starting processes on this machine costs less than it saves.
PARALLEL_FROM = 60


@dataclass(frozen=True)
class Fit:
    """Everything that depends on usage alone: events, growth, horizon and the number of paths never change it."""

    levels: tuple[LevelFit, ...]
    notes: tuple[str, ...]


_fits: OrderedDict[str, Fit] = OrderedDict()


def fit_usage(usage: pd.DataFrame | None, a: DemandAssumptions, ends: dict[str, pd.Timestamp] | None = None) -> Fit:
    """Repair and fit all series of a usage table, or take them from memory.

    The key is a digest of the rows (in any order) and of the assumptions that repair them, as_of, unmet_share and season_band_share.

    Args:
        usage: The usage table, or None.
        a: Assumptions.
        ends: Last days of workloads, where they are known.

    Returns:
        Fit: Level models in alphabetical order of workload and region, and what was repaired.
    """
    if usage is None or usage.empty:
        return Fit((), ())
    key = _digest(usage, a, ends or {})
    if key in _fits:
        _fits.move_to_end(key)
        return _fits[key]
    histories, notes = read_histories(usage, a, ends)
    fit = Fit(tuple(_fit_all(histories, season_spread(a), a.workers)), tuple(notes))
    _fits[key] = fit
    while len(_fits) > KEPT_FITS:
        _fits.popitem(last=False)
    return fit


def season_spread(a: DemandAssumptions) -> float:
    """Return the deviation of sine and cosine of a hidden yearly season on the logarithmic scale, from its stated 80 % band."""
    return float(np.log1p(a.season_band_share) / NORMAL_90)


def _fit_all(histories: list[History], spread_of_season: float, address: str | None) -> list[LevelFit]:
    """Fit each series: in this process if there are few, else on all cores, or on the Dask cluster that is named."""
    if address is None and len(histories) < PARALLEL_FROM:
        return [fit_level(history, spread_of_season) for history in histories]
    with workers(address):
        return spread(partial(fit_level, season_spread=spread_of_season), histories)


def _digest(usage: pd.DataFrame, a: DemandAssumptions, ends: dict[str, pd.Timestamp]) -> str:
    """Digest the usage and the assumptions that matter to a fit."""
    columns = sorted(usage.columns)
    rows = np.sort(pd.util.hash_pandas_object(usage[columns], index=False).to_numpy())
    head = f"{columns}|{a.as_of}|{a.unmet_share!r}|{a.season_band_share!r}|{sorted(ends.items())}|".encode()
    return hashlib.sha256(head + rows.tobytes()).hexdigest()
