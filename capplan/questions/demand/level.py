"""How far a level may go: a mean-reverting level with noise and a shrunk trend, averaged over all persistences the history allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Array = np.ndarray
#: Half-lives of a departure from the mean that are weighed against each other, in years; the longest is close to a random walk.
HALF_LIVES_YEARS = (0.01, 0.04, 0.12, 0.35, 1.0, 4.0)
#: Long-run spread of the level, and spread of the noise, that are weighed: multiples of the spread seen in the history.
LEVEL_MULTIPLES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
NOISE_MULTIPLES = (0.05, 0.15, 0.3, 0.5, 0.7, 1.0)
#: Before any data, the long-run log spread of a level is half-normal with this deviation: a factor of 1.6 either way is ordinary, of 5 is not.
SPREAD_PRIOR = 0.5
#: Before any data, yearly log growth is normal around zero with this deviation: 50 % a year is one deviation.
GROWTH_PRIOR_PER_YEAR = 0.4
#: Before any data, the mean of the centred log level is all but unknown.
MEAN_PRIOR = 5.0


@dataclass(frozen=True)
class Scale:
    r"""The scale on which levels are modelled: logarithms for steady demand, nearly linear for lumpy demand.

    .. math:: g(y) = \ln(y/m + c),\quad c = \tfrac12 \overline{(y_t - y_{t-1})^2} / m^2

    m is the mean and c the relative variance of neighbouring periods (von Neumann), at most 1. Noise of either kind then has about the same
    spread at any level, and a period close to zero weighs no more than one at twice the mean.

    Source
    ------
    Bartlett, The use of transformations, Biometrics 1947; von Neumann, Distribution of the ratio of the mean square successive difference to
    the variance, Annals of Mathematical Statistics 1941.

    Examples
    --------
    >>> scale = Scale.of(np.array([0.0, 4.0, 1.0, 3.0]))
    >>> scale.offset, scale.unit(scale.log(np.array([0.0, 2.0]))).round(9).tolist()
    (1.0, [0.0, 2.0])
    """

    mean: float
    offset: float

    @classmethod
    def of(cls, level: Array) -> Scale:
        """Choose the scale of a history with a positive mean."""
        mean = float(level.mean())
        wobble = float(np.mean(np.diff(level) ** 2)) / (2 * mean**2) if len(level) > 1 else 0.0
        return cls(mean, min(1.0, max(1e-6, wobble)))

    def log(self, level: Array) -> Array:
        """Go from demand a day to the scale."""
        return np.asarray(np.log(level / self.mean + self.offset))

    def unit(self, value: Array) -> Array:
        """Go back to demand a day; nothing is below zero."""
        return np.asarray(self.mean * np.maximum(np.exp(np.minimum(value, 700.0)) - self.offset, 0.0))


@dataclass(frozen=True)
class LevelPosterior:
    """What a history says of its level: one entry for each combination of persistence and spreads.

    Parameters
    ----------
    weight
        Probability of each combination, sorted by how far the level goes in the long run.
    persistence
        Share of a departure from the mean that is left a period later.
    innovation
        Standard deviation of what moves the level in a period.
    mean
        Expected (long-run mean, departure at the end of the history), combinations x 2.
    root
        Cholesky roots of their covariance, combinations x 2 x 2.
    growth_per_year, growth_error_per_year
        Expected yearly growth on the scale, shrunk towards zero, and its standard error.
    noise
        What is left of each period without level and trend.
    """

    weight: Array
    persistence: Array
    innovation: Array
    mean: Array
    root: Array
    growth_per_year: float
    growth_error_per_year: float
    noise: Array

    def path(self, periods: int) -> Array:
        """Return the expected level without growth, one to `periods` periods ahead."""
        powers = self.persistence[:, None] ** np.arange(1, periods + 1)
        return np.asarray(self.weight @ (self.mean[:, :1] + self.mean[:, 1:] * powers))

    def left(self, periods: int) -> Array:
        """Return the share of a departure that is expected to be left after 0, 1, ... periods."""
        return np.asarray(self.weight @ self.persistence[:, None] ** np.arange(periods))


def level_posterior(values: Array, periods_per_year: float) -> LevelPosterior:
    r"""Weigh all persistences and spreads of a level by how well they explain its history.

    .. math:: y_t = \mu + g\,t + x_t + \varepsilon_t,\quad x_t = \phi x_{t-1} + \eta_t

    with the mean mu, the growth g and the states x integrated out exactly (all are normal), for each half-life of x, long-run spread of x and
    spread of the noise. A history of weeks cannot tell a long half-life from a short one, so both keep their weight, and the
    prior of the long-run spread keeps a level from wandering off.

    Parameters
    ----------
    values
        History on the scale of `Scale`.
    periods_per_year
        Periods in a year.

    Returns
    -------
    LevelPosterior
        Probabilities, states at the end of the history, growth and noise.

    Source
    ------
    Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989 (local level); Rasmussen and Williams, Gaussian Processes
    for Machine Learning, 2006, section 2.7 (explicit basis functions) and 5.4 (marginal likelihood).
    """
    size, seen = len(values), float(values.std())
    if seen < 1e-9:
        return LevelPosterior(
            np.ones(1), np.zeros(1), np.zeros(1), np.array([[values.mean(), 0.0]]), np.zeros((1, 2, 2)), 0.0, 0.0, np.zeros(size)
        )
    level_spread = np.repeat(np.array(LEVEL_MULTIPLES) * seen, len(NOISE_MULTIPLES))
    noise_spread = np.tile(np.array(NOISE_MULTIPLES) * seen, len(LEVEL_MULTIPLES))
    design = np.column_stack([np.ones(size), np.arange(1 - size, 1) / periods_per_year])
    prior = np.diag([1 / MEAN_PRIOR**2, 1 / GROWTH_PRIOR_PER_YEAR**2])
    evidence, persistence, mean, covariance, growth, smooth = [], [], [], [], [], []
    for years in HALF_LIVES_YEARS:
        phi = 0.5 ** (1 / (years * periods_per_year))
        eigenvalues, vectors = _eigen(size, phi)
        power = level_spread[:, None] ** 2 * eigenvalues
        variance = power + noise_spread[:, None] ** 2
        x, y = vectors.T @ design, vectors.T @ values
        precision = np.einsum("ni,gn,nj->gij", x, 1 / variance, x) + prior
        right = np.einsum("ni,gn,n->gi", x, 1 / variance, y)
        inverse = np.linalg.inv(precision)
        beta = np.einsum("gij,gj->gi", inverse, right)
        fit = (y**2 / variance).sum(axis=1) - np.einsum("gi,gi->g", beta, right)
        spread_prior = -0.5 * (level_spread / SPREAD_PRIOR) ** 2
        evidence.append(-0.5 * (np.log(variance).sum(axis=1) + np.linalg.slogdet(precision)[1] + fit) + spread_prior)
        gain = power * vectors[-1] / variance
        tilt = np.einsum("ni,gn->gi", x, gain)
        end = gain @ y - np.einsum("gi,gi->g", tilt, beta)
        left = np.maximum(level_spread**2 - (gain * power * vectors[-1]).sum(axis=1), 0.0)
        mixed = -np.einsum("gi,gi->g", inverse[:, 0], tilt)
        last = np.einsum("gi,gij,gj->g", tilt, inverse, tilt) + left
        mean.append(np.column_stack([beta[:, 0], end]))
        covariance.append(np.stack([np.column_stack([inverse[:, 0, 0], mixed]), np.column_stack([mixed, last])], axis=1))
        growth.append(np.column_stack([beta[:, 1], inverse[:, 1, 1]]))
        smooth.append(beta @ design.T + ((power / variance) * (y - beta @ x.T)) @ vectors.T)
        persistence.append(np.full(len(level_spread), phi))
    score = np.concatenate(evidence)
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    phi = np.concatenate(persistence)
    spread = np.tile(level_spread, len(HALF_LIVES_YEARS))
    slope = np.concatenate(growth)
    expected = float(weight @ slope[:, 0])
    error = float(np.sqrt(weight @ (slope[:, 1] + (slope[:, 0] - expected) ** 2)))
    noise = values - weight @ np.concatenate(smooth)
    # Smoothed noise is narrower than noise: it gets the spread that the combinations expect.
    wanted = float(np.sqrt(weight @ np.tile(noise_spread, len(HALF_LIVES_YEARS)) ** 2))
    noise = (noise - noise.mean()) * (wanted / noise.std() if noise.std() > 0 else 1.0)
    order = np.lexsort((spread, phi))
    order = order[weight[order] > 1e-6]
    roots = np.linalg.cholesky(np.concatenate(covariance)[order] + 1e-12 * seen**2 * np.eye(2))
    return LevelPosterior(
        weight[order] / weight[order].sum(),
        phi[order],
        (spread * np.sqrt(1 - phi**2))[order],
        np.concatenate(mean)[order],
        roots,
        expected,
        error,
        noise,
    )


@lru_cache(maxsize=256)
def _eigen(size: int, persistence: float) -> tuple[Array, Array]:
    """Decompose the correlation of a first-order autoregression over `size` periods; it is the same for all series of one length."""
    distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    values, vectors = np.linalg.eigh(persistence**distance)
    return np.maximum(values, 0.0), vectors
