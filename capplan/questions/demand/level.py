"""How far a level may go: a mean-reverting level with noise, trend and yearly season, averaged over all persistences the history allows."""

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
#: Before any data, the long-run log spread of a level is half-normal with this deviation: a factor of 1.6 either way is ordinary, of 5 is
#: not.
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

    Source: Bartlett, The use of transformations, Biometrics 1947; von Neumann, Distribution of the ratio of the mean square successive
        difference to the variance, Annals of Mathematical Statistics 1941.

    Examples:
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
    """What a history says of its level: one entry for each combination of persistence and spreads."""

    weight: Array  #: Probability of each combination, sorted by how far the level goes in the long run.
    persistence: Array  #: Share of a departure from the mean that is left a period later.
    innovation: Array  #: Standard deviation of what moves the level in a period.
    #: Expected state at the end of the history: long-run mean, departure from it, yearly growth, and where a season is allowed sine and
    #: cosine of each harmonic; combinations x (3 + 2 harmonics).
    mean: Array
    #: Cholesky roots of its covariance, combinations x states x states: what a history cannot tell apart (growth and season) stays tied
    #: together.
    root: Array
    #: growth_per_year, growth_error_per_year: Expected yearly growth on the scale, shrunk towards zero, and its standard error.
    growth_per_year: float
    growth_error_per_year: float
    noise: Array  #: What is left of each period without level and trend.
    periods_per_year: float  #: Periods in a year.

    def path(self, periods: int) -> Array:
        """Return the expected level with its season and without growth, one to `periods` periods ahead."""
        powers = self.persistence[:, None] ** np.arange(1, periods + 1)
        return np.asarray(self.weight @ (self.mean[:, :1] + self.mean[:, 1:2] * powers + self.season(self.mean, np.arange(1, periods + 1))))

    def season(self, state: Array, ahead: Array) -> Array:
        """Return the yearly season of some states (states x periods), some periods after the history's end (negative: before)."""
        return state[:, 3:] @ _waves(ahead / self.periods_per_year, (state.shape[1] - 3) // 2)

    def left(self, periods: int) -> Array:
        """Return the share of a departure that is expected to be left after 0, 1, ... periods."""
        return np.asarray(self.weight @ self.persistence[:, None] ** np.arange(periods))


def level_posterior(values: Array, periods_per_year: float, season_spreads: tuple[float, ...] = ()) -> LevelPosterior:
    r"""Weigh all persistences and spreads of a level by how well they explain its history.

    .. math:: y_t = \mu + g\,t + \sum_k (a_k \sin 2\pi k t + b_k \cos 2\pi k t) + x_t + \varepsilon_t,\quad x_t = \phi x_{t-1} + \eta_t

    with the mean mu, the growth g, the season a and b and the states x integrated out exactly (all are normal), for each half-life of x,
    long-run spread of x and
    spread of the noise. A history of weeks cannot tell a long half-life from a short one, so both keep their weight, and the
    prior of the long-run spread keeps a level from wandering off. A few months of a season look like growth: both are held possible
    together.

    Args:
        values: History on the scale of `Scale`.
        season_spreads: Before any data, sine and cosine of each harmonic of the season are normal around zero with these deviations; empty
            = no season.

    Returns:
        LevelPosterior: Probabilities, states at the end of the history, growth and noise.

    Source: Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989 (local level); Rasmussen and Williams, Gaussian
        Processes for Machine Learning, 2006, section 2.7 (explicit basis functions) and 5.4 (marginal likelihood).
    """
    size, seen = len(values), float(values.std())
    time = np.arange(1 - size, 1) / periods_per_year
    design, spreads = np.column_stack([np.ones(size), time]), [MEAN_PRIOR, GROWTH_PRIOR_PER_YEAR]
    design = np.column_stack([design, _waves(time, len(season_spreads)).T])
    spreads += [spread for harmonic in season_spreads for spread in (harmonic, harmonic)]
    states = design.shape[1] + 1
    if seen < 1e-9:
        return LevelPosterior(
            np.ones(1),
            np.zeros(1),
            np.zeros(1),
            np.eye(1, states) * values.mean(),
            np.zeros((1, states, states)),
            0.0,
            0.0,
            np.zeros(size),
            periods_per_year,
        )
    level_spread = np.repeat(np.array(LEVEL_MULTIPLES) * seen, len(NOISE_MULTIPLES))
    noise_spread = np.tile(np.array(NOISE_MULTIPLES) * seen, len(LEVEL_MULTIPLES))
    prior = np.diag(1 / np.array(spreads) ** 2)
    kept = [_under_half_life(years * periods_per_year, values, design, prior, level_spread, noise_spread) for years in HALF_LIVES_YEARS]
    evidence, persistence, mean, covariance, smooth = zip(*kept, strict=True)
    score = np.concatenate(evidence)
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    phi = np.concatenate(persistence)
    spread = np.tile(level_spread, len(HALF_LIVES_YEARS))
    slope, doubt = np.concatenate(mean)[:, 2], np.concatenate(covariance)[:, 2, 2]
    expected = float(weight @ slope)
    error = float(np.sqrt(weight @ (doubt + (slope - expected) ** 2)))
    noise = values - weight @ np.concatenate(smooth)
    # Smoothed noise is narrower than noise: it gets the spread that the combinations expect.
    wanted = float(np.sqrt(weight @ np.tile(noise_spread, len(HALF_LIVES_YEARS)) ** 2))
    noise = (noise - noise.mean()) * (wanted / noise.std() if noise.std() > 0 else 1.0)
    order = np.lexsort((spread, phi))
    order = order[weight[order] > 1e-6]
    roots = np.linalg.cholesky(np.concatenate(covariance)[order] + 1e-12 * seen**2 * np.eye(states))
    return LevelPosterior(
        weight[order] / weight[order].sum(),
        phi[order],
        (spread * np.sqrt(1 - phi**2))[order],
        np.concatenate(mean)[order],
        roots,
        expected,
        error,
        noise,
        periods_per_year,
    )


def _under_half_life(
    periods: float, values: Array, design: Array, prior: Array, level_spread: Array, noise_spread: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Weigh every pair of spreads under a half-life of so many periods.

    Returns:
        tuple: Logarithm of the evidence, persistence, and mean, covariance and smoothed level of the states, each by pair of spreads.
    """
    states = design.shape[1] + 1
    # The state lists the departure second; the coefficients of the design do not hold it.
    others = [0, *range(2, states)]
    phi = 0.5 ** (1 / periods)
    eigenvalues, vectors = _eigen(len(values), phi)
    power = level_spread[:, None] ** 2 * eigenvalues
    variance = power + noise_spread[:, None] ** 2
    x, y = vectors.T @ design, vectors.T @ values
    precision = x.T @ (x / variance[:, :, None]) + prior
    right = (y / variance) @ x
    inverse = np.linalg.inv(precision)
    beta = np.einsum("gij,gj->gi", inverse, right)
    fit = (y**2 / variance).sum(axis=1) - np.einsum("gi,gi->g", beta, right)
    spread_prior = -0.5 * (level_spread / SPREAD_PRIOR) ** 2
    evidence = -0.5 * (np.log(variance).sum(axis=1) + np.linalg.slogdet(precision)[1] + fit) + spread_prior
    gain = power * vectors[-1] / variance
    tilt = gain @ x
    end = gain @ y - np.einsum("gi,gi->g", tilt, beta)
    left = np.maximum(level_spread**2 - (gain * power * vectors[-1]).sum(axis=1), 0.0)
    joint = np.empty((len(beta), states, states))
    joint[:, 1, 1] = np.einsum("gi,gij,gj->g", tilt, inverse, tilt) + left
    joint[:, 1, others] = joint[:, others, 1] = -np.einsum("gij,gj->gi", inverse, tilt)
    joint[np.ix_(range(len(beta)), others, others)] = inverse
    smooth = beta @ design.T + ((power / variance) * (y - beta @ x.T)) @ vectors.T
    return evidence, np.full(len(level_spread), phi), np.insert(beta, 1, end, axis=1), joint, smooth


def _waves(years: Array, harmonics: int) -> Array:
    """Return sine and cosine of the time of the year, for each harmonic (2 harmonics x periods)."""
    waves = [wave(2 * np.pi * k * years) for k in range(1, harmonics + 1) for wave in (np.sin, np.cos)]
    return np.array(waves).reshape(2 * harmonics, len(years))


@lru_cache(maxsize=256)
def _eigen(size: int, persistence: float) -> tuple[Array, Array]:
    """Decompose the correlation of a first-order autoregression over `size` periods; it is the same for all series of one length.

    Its inverse is tridiagonal, which is decomposed an order of magnitude faster and has the same vectors.
    """
    from scipy.linalg import eigh_tridiagonal

    if size == 1:
        return np.ones(1), np.ones((1, 1))
    diagonal = np.full(size, 1 + persistence**2)
    diagonal[[0, -1]] = 1.0
    values, vectors = eigh_tridiagonal(diagonal, np.full(size - 1, -persistence))
    return (1 - persistence**2) / np.maximum(values, 1e-12), vectors
