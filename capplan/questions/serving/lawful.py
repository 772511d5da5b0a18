"""What the learners say of a served model, held to what must be: under more load nothing is faster, nor on a machine that is worse in every regard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from capplan.questions.serving.features import features_of, parts_of
from capplan.questions.serving.learners import Blend, Values
from capplan.questions.serving.measured import CURVE, METRICS, TOKENS
from capplan.questions.serving.roofline import roofline

#: In what an accelerator can be better than another.
REGARDS = ("memory_gib", "memory_bandwidth_gbps", "bf16_tflops", "fp8_tflops", "fp4_tflops", "link_gbps")
#: What makes setups the same but for their load.
ALIKE = (*CURVE, *TOKENS, "engine_version", "as_of", "stated_workers")


@dataclass(frozen=True)
class Rungs:
    """Setups at loads of 1, 2, 4, ... requests, each on its own accelerator and on those that are no better.

    Parameters
    ----------
    features, roof
        One row a rung: setups alike but for their load, times accelerators, times loads.
    steps
        Number of loads.
    owner, own
        For each pair of a setup and an accelerator, the place of the setup, and whether the accelerator is its own.
    place, height
        For each setup asked, its place among those that are alike, and the logarithm to base two of its load.
    """

    features: pd.DataFrame
    roof: pd.DataFrame
    steps: int
    owner: NDArray[np.int64]
    own: NDArray[np.bool_]
    place: NDArray[np.int64]
    height: Values

    def read(self, blends: dict[str, Blend], chosen: NDArray[np.bool_]) -> tuple[pd.DataFrame, Values]:
        """Return the seconds of the chosen setups, and how far the learners are apart (one column a latency)."""
        places, at = np.unique(self.place[chosen], return_inverse=True)
        pairs = np.isin(self.owner, places)
        rows = np.repeat(pairs, self.steps)
        features, roof = self.features[rows], self.roof[rows]
        owner = np.searchsorted(places, self.owner[pairs])
        low = np.minimum(self.height[chosen].astype(int), self.steps - 2)
        share = self.height[chosen] - low
        seconds, apart = {}, []
        for name in METRICS:
            logs, spread = blends[name].predict(features, np.log(roof[name]).to_numpy(), parts_of(roof, name))
            climbed = np.maximum.accumulate(logs.reshape(-1, self.steps), axis=1)
            least = np.full((len(places), self.steps), np.inf)
            np.minimum.at(least, owner, climbed)
            spread = spread.reshape(-1, self.steps)[self.own[pairs]]
            seconds[name] = np.exp((1 - share) * least[at, low] + share * least[at, low + 1])
            apart.append((1 - share) * spread[at, low] + share * spread[at, low + 1])
        return pd.DataFrame(seconds), np.column_stack(apart)


def rungs_of(
    setups: pd.DataFrame, models: pd.DataFrame, accelerators: pd.DataFrame, known: tuple[tuple[str, str], ...], worse: dict[str, list[str]]
) -> Rungs:
    """Lay out the loads and accelerators that an answer about setups rests on.

    Parameters
    ----------
    setups
        Filled in by `complete`; their weights fit.
    models, accelerators
        Tables of these names.
    known
        Column and value of each category that has been measured.
    worse
        For an accelerator, those that are no better, from `no_better`.
    """
    alike = setups[[name for name in ALIKE if name in setups]].astype(str).agg(" ".join, axis=1)
    codes, _ = pd.factorize(alike)
    first = setups[~alike.duplicated()].reset_index(drop=True)
    pairs = [(place, other) for place, name in enumerate(first["accelerator"]) for other in (name, *worse.get(name, []))]
    owner = np.array([place for place, _ in pairs], dtype=np.int64)
    each = first.iloc[owner].reset_index(drop=True)
    own = each["accelerator"].to_numpy()
    each["accelerator"] = [name for _, name in pairs]
    fits = roofline(each, models, accelerators)["fits"].to_numpy()
    each, owner, own = each[fits], owner[fits], (own == each["accelerator"].to_numpy())[fits]
    height = np.log2(setups["concurrency"].to_numpy(dtype=float).clip(min=1.0))
    steps = max(2, int(np.ceil(height.max())) + 1)
    rungs = each.loc[each.index.repeat(steps)].reset_index(drop=True)
    rungs["concurrency"] = np.tile(2.0 ** np.arange(steps), len(each))
    roof = roofline(rungs, models, accelerators)
    return Rungs(features_of(rungs, roof, models, accelerators, known), roof, steps, owner, own, codes, height)


def no_better(accelerators: pd.DataFrame, measured: list[str]) -> dict[str, list[str]]:
    """Return for each accelerator the measured ones that it is at least as good as in every regard.

    Examples
    --------
    >>> table = pd.DataFrame({"accelerator": ["a", "b"], **{name: [1.0, 2.0] for name in REGARDS}})
    >>> no_better(table, ["a", "b"])
    {'a': [], 'b': ['a']}
    """
    table = accelerators.set_index("accelerator")[list(REGARDS)].fillna(0.0)
    return {name: [other for other in measured if other != name and (table.loc[other] <= table.loc[name]).all()] for name in table.index}
