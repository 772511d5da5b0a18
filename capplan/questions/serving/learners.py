"""Three learners that correct a roofline from measurements, and their average."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Values = NDArray[np.float64]
#: Steps of the Gaussian process along features of a kind (the first word of a feature's name), per standard deviation or per category.
#: Chosen, as were all constants here, on random halves of public curves other than those the accuracy is reported on.
STEPS = {"load": 0.37, "tokens": 0.1, "parallel": 0.07, "machine": 0.07, "model": 0.24, "parts": 0.07, "when": 0.17, "is": 0.5}
#: Kind of the features that are categories (0 or 1).
CATEGORY = "is "
#: Noise of the Gaussian process, as a share of the variance, and the error (medians of all errors) from which it is compressed.
NOISE = 0.02
COMPRESSED_FROM = 1.5
#: Weights of the boosted trees, the randomised trees and the Gaussian process in the average.
SHARES = np.array([0.25, 0.25, 0.5])
TREES = 40
#: Most measurements that the Gaussian process rests on (its work grows with their cube), and rows that it answers at once.
MOST_POINTS, PACK = 4000, 2048
BOOSTED = {"learning_rate": 0.1, "max_iter": 120, "min_samples_leaf": 20, "max_leaf_nodes": 24, "l2_regularization": 1.0}


@dataclass(frozen=True)
class Physics:
    """The parts of a roofline, each with a factor of its own, times a factor for each category."""

    factors: Values  #: Logarithms of the factors: first of the parts, then of the categories.

    def predict(self, parts: Values, categories: Values) -> Values:
        """Return the logarithm of the time of each row."""
        return np.log(parts @ np.exp(self.factors[: parts.shape[1]])) + categories @ self.factors[parts.shape[1] :]


def fit_physics(parts: Values, categories: Values, target: Values) -> Physics:
    """Fit the factors so that the logarithms of the times agree, large errors counting little.

    Args:
        parts: Seconds, one column a part of the roofline.
        categories: 0 or 1, one column a category.
        target: Logarithm of the measured seconds.
    """
    from scipy.optimize import least_squares

    count = parts.shape[1]
    pull = 0.3 * np.sqrt(len(target) / 2000)

    def residuals(factors: Values) -> Values:
        fitted = np.log(parts @ np.exp(factors[:count])) + categories @ factors[count:]
        return np.concatenate([fitted - target, pull * factors])

    def slopes(factors: Values) -> Values:
        scaled = parts * np.exp(factors[:count])
        return np.vstack([np.hstack([scaled / scaled.sum(axis=1, keepdims=True), categories]), pull * np.eye(len(factors))])

    start = np.zeros(count + categories.shape[1])
    return Physics(np.asarray(least_squares(residuals, start, jac=slopes, loss="soft_l1", f_scale=0.2, max_nfev=40).x))


@dataclass(frozen=True)
class Process:
    """A Gaussian process of the error that the physics leave."""

    #: centre, spread, step: Mean and standard deviation of the features, and the step along each.
    centre: Values
    spread: Values
    step: Values
    #: points, weights: Features of the measurements, and their weights.
    points: Values
    weights: Values
    #: median, scale: Of the errors; they are compressed (inverse hyperbolic sine), so that a measurement that is off by a factor of a
    #: hundred does not move its neighbours.
    median: float
    scale: float

    def predict(self, features: Values) -> Values:
        """Return the expected error of each row."""
        place = (features - self.centre) / self.spread * self.step
        packs = [_covariance(place[start : start + PACK], self.points) @ self.weights for start in range(0, len(place), PACK)]
        return self.median + self.scale * np.sinh(np.concatenate(packs))


def scales_of(features: pd.DataFrame) -> tuple[Values, Values, Values]:
    """Return the centre and spread of features, and the step along each; categories stay as they are."""
    values = features.to_numpy(dtype=float)
    category = np.array([name.startswith(CATEGORY) for name in features])
    step = np.array([STEPS[name.split()[0]] for name in features])
    return np.where(category, 0.0, values.mean(axis=0)), np.where(category, 1.0, values.std(axis=0).clip(min=0.05)), step


def scaled(features: pd.DataFrame, known: pd.DataFrame) -> Values:
    """Return features in steps of the Gaussian process that is fitted to known ones."""
    centre, spread, step = scales_of(known)
    return (features.to_numpy(dtype=float) - centre) / spread * step


def fit_process(features: pd.DataFrame, target: Values) -> Process:
    """Fit the Gaussian process."""
    from scipy.linalg import cho_factor, cho_solve

    kept = np.sort(np.random.default_rng(0).permutation(len(target))[:MOST_POINTS])
    features, target = features.iloc[kept], target[kept]
    centre, spread, step = scales_of(features)
    points = scaled(features, features)
    median, scale = _middle(target, COMPRESSED_FROM)
    covariance = _covariance(points, points)
    covariance[np.diag_indices_from(covariance)] += NOISE
    weights = cho_solve(cho_factor(covariance, overwrite_a=True), np.arcsinh((target - median) / scale))
    return Process(centre, spread, step, points, weights, median, scale)


@dataclass(frozen=True)
class Trees:
    """Randomised trees of a compressed target."""

    forest: Any  #: The fitted trees.
    #: median, scale: Of the target.
    median: float
    scale: float

    def predict(self, features: Values) -> Values:
        """Return the expected target of each row."""
        return np.asarray(self.median + self.scale * np.sinh(self.forest.predict(features)))


def fit_trees(features: Values, target: Values, seed: int, leaf: int = 1) -> Trees:
    """Fit randomised trees whose leaves hold at least that many measurements."""
    from sklearn.ensemble import ExtraTreesRegressor

    median, scale = _middle(target, 1.0)
    forest = ExtraTreesRegressor(TREES, max_features=0.5, min_samples_leaf=leaf, random_state=seed, n_jobs=1)
    return Trees(forest.fit(features, np.arcsinh((target - median) / scale)), median, scale)


@dataclass(frozen=True)
class Blend:
    """Average of gradient-boosted trees, randomised trees, and physics with a Gaussian process of their error."""

    boosted: Any  #: Fitted trees that minimise the absolute error; None where there are too few measurements for them.
    #: randomised, physics, process: The other learners.
    randomised: Trees
    physics: Physics
    process: Process

    def predict(self, features: pd.DataFrame, roof: Values, parts: Values) -> tuple[Values, Values]:
        """Return the logarithm of the seconds of each row, and how far the learners are apart (standard deviation).

        Args:
            features, parts: As in `fit_blend`.
            roof: Logarithm of the roofline.
        """
        values = features.to_numpy(dtype=float)
        physics = self.physics.predict(parts, _categories(features)) + self.process.predict(values)
        randomised = roof + self.randomised.predict(values)
        boosted = randomised if self.boosted is None else roof + self.boosted.predict(values)
        members = np.column_stack([boosted, randomised, physics])
        return members @ SHARES, members.std(axis=1)


def fit_blend(features: pd.DataFrame, roof: Values, parts: Values, target: Values, seed: int) -> Blend:
    """Fit the learners.

    Args:
        features: One row a measurement; the first word of a name is its kind.
        roof: Logarithm of the roofline; the trees learn what is added to it.
        parts: Seconds, one column a part of the roofline.
        target: Logarithm of the measured seconds.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    values = features.to_numpy(dtype=float)
    physics = fit_physics(parts, _categories(features), target)
    left = target - physics.predict(parts, _categories(features))
    boosted = None
    if len(target) >= 4 * int(BOOSTED["min_samples_leaf"]):
        boosted = HistGradientBoostingRegressor(loss="absolute_error", early_stopping=False, random_state=seed, **BOOSTED)
        boosted.fit(values, target - roof)
    return Blend(boosted, fit_trees(values, target - roof, seed), physics, fit_process(features, left))


def _categories(features: pd.DataFrame) -> Values:
    """Return the categories among the features that the physics have a factor for: all but the models."""
    return features[[name for name in features if name.startswith(CATEGORY) and not name.startswith(f"{CATEGORY}model ")]].to_numpy(float)


def _middle(values: Values, factor: float) -> tuple[float, float]:
    """Return the median, and the median distance from it times the factor (at least five per cent)."""
    median = float(np.median(values))
    return median, float(max(factor * np.median(np.abs(values - median)), 0.05))


def _covariance(left: Values, right: Values) -> Values:
    """Return the Matern covariance (once differentiable) of each pair of points."""
    distance = left @ (-6 * right.T)
    distance += 3 * (left**2).sum(axis=1)[:, None]
    distance += 3 * (right**2).sum(axis=1)
    np.sqrt(np.maximum(distance, 0.0, out=distance), out=distance)
    fallen = np.exp(-distance)
    distance += 1
    return np.multiply(distance, fallen, out=distance)
