"""How near is a question to what was measured: curves that share something with it, and the distance to the nearest point."""

import numpy as np
import pandas as pd

from capplan.questions.serving.learners import Values, scaled

#: What a question may share with measured curves.
SHARED = (
    ("model",),
    ("model", "engine"),
    ("model", "accelerator"),
    ("model", "precision"),
    ("engine", "accelerator"),
    ("model", "engine", "accelerator"),
    ("model", "length"),
)
#: Distances below this (steps of the Gaussian process) are the same.
NO_DISTANCE = 1e-3


def support_of(asked: pd.DataFrame, asked_features: pd.DataFrame, runs: pd.DataFrame, features: pd.DataFrame) -> Values:
    """Say how well measurements support an answer; where they hardly do, larger errors are to be expected.

    Args:
        asked, runs: Questions, and measurements with their curve; both with the columns of SHARED.
        asked_features, features: Theirs, from `features_of`.

    Returns:
        ndarray: One row a question: the logarithm of one and the number of measured curves for each of SHARED, and of the distance to the
            nearest measurement.

    Examples:
        >>> same = {"engine": "e", "precision": "p", "length": "l"}
        >>> runs = pd.DataFrame({"model": ["a", "a"], "accelerator": ["x", "y"], "curve": ["1", "2"], **same})
        >>> place = pd.DataFrame({"load a": [0.0, 2.0]})
        >>> np.expm1(support_of(runs.head(1), place.head(1), runs, place)).round(6).tolist()[0][:3]
        [2.0, 2.0, 1.0]
    """
    from scipy.spatial.distance import cdist

    columns = []
    for names in SHARED:
        curves = runs.groupby(list(names))["curve"].nunique().rename("curves").reset_index()
        columns.append(np.log1p(asked[list(names)].merge(curves, on=list(names), how="left")["curves"].fillna(0.0).to_numpy()))
    here, there = scaled(features, features), scaled(asked_features, features)
    columns.append(np.log(NO_DISTANCE + cdist(there, here).min(axis=1)))
    return np.column_stack(columns)
