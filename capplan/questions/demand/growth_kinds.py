"""The kinds of growth that are held possible, how likely each is before any data, and their covariances, factorised once for all series."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Kind:
    """A kind of growth of a level on one of the scales, with its share before any data."""

    name: str  #: In words.
    share: float  #: Probability before any data.
    slope: float  #: Standard deviation of the yearly slope that lasts.
    #: walk, half_life_years: Standard deviation of a slope that comes and goes (on average over time), and how fast it does.
    walk: float = 0.0
    half_life_years: float = 1.0
    #: transient, transient_half_life_years: Standard deviation of a rise that saturates, and how fast it does (a Gompertz curve on the
    #: logarithmic scale).
    transient: float = 0.0
    transient_half_life_years: float = 1.0
    bend: float = 0.0  #: Standard deviation of what a yearly slope gains each year.


#: Shares lie between those that explain 714 monthly series of the M3 competition (Makridakis and Hibon, The M3-Competition, IJF 2000;
#: found by expectation
#: and maximisation on their first 36 and 48 months: 34 % flat, 54 % with a local slope, 5 % damped, 6 % saturating) and even ones, leaning
#: to slopes
#: that change fast: work on accelerators grows and turns faster than those series did.
KINDS = (
    Kind("flat", 0.22, 0.03),
    Kind("steady", 0.03, 0.2),
    Kind("steady and fast", 0.03, 0.8),
    Kind("with a local slope", 0.25, 0.15, 0.1, 2.0),
    Kind("with a slope that changes slowly", 0.1, 0.3, 0.4, 4.0),
    Kind("with a fast local slope", 0.13, 0.6, 0.5, 2.0),
    Kind("with a slope that lasts for years", 0.09, 0.3, 0.7, 6.0),
    Kind("damped", 0.03, 0.05, 0.5, 0.5),
    Kind("in bursts", 0.03, 0.3, 1.5, 0.5),
    Kind("saturating", 0.03, 0.05, 0.0, 1.0, 1.5, 0.5),
    Kind("saturating slowly", 0.03, 0.05, 0.0, 1.0, 1.5, 1.5),
    Kind("accelerating", 0.03, 0.3, bend=0.2),
)
#: Kinds whose slope turns. In a smooth history (noise and walk among so many of the smallest) their turns are plain to see and go on: they
#: count more before any data there, by this factor.
TURNING = ("with a slope that changes slowly", "with a fast local slope", "with a slope that lasts for years")
SMOOTH_WALKS, SMOOTH_NOISES, TURNING_FACTOR = 2, 2, 3.0
#: Powers of the level on whose scale it may grow evenly (0 = logarithms, 1 = linear growth), with their shares.
POWERS, POWER_SHARES = (0.0, 0.5, 1.0), (0.60, 0.21, 0.19)
#: Levels walk by these deviations in a year; the last keeps to its trend within 0.2 and comes back with a half-life of 0.4 years.
WALKS, REVERTING, REVERTING_HALF_LIFE_YEARS, LEVEL_SHARES = (0.0, 0.06, 0.2, 0.5), 0.2, 0.4, (0.38, 0.26, 0.18, 0.09, 0.09)
#: Deviations of what a month has for itself, and of the yearly season.
NOISES, NOISE_SHARES = (0.008, 0.02, 0.05, 0.12, 0.3), (0.29, 0.14, 0.14, 0.22, 0.21)
SEASONS, SEASON_SHARES = (0.005, 0.06, 0.25), (0.46, 0.32, 0.22)
#: Relative deviations of the six harmonics of a yearly season.
HARMONICS = (1.0, 0.5, 0.3, 0.25, 0.2, 0.1)
#: Variance of an unknown level.
DIFFUSE = 25.0
#: Series are factorised for lengths that are multiples of this, and for so many periods ahead: twelve quarters, and a month before them.
BUCKET, AHEAD = 12, 42
#: Combinations of kind of growth, walk, noise and season.
SHAPE = (len(KINDS), len(LEVEL_SHARES), len(NOISES), len(SEASONS))
COMBINATIONS = int(np.prod(SHAPE))


def log_prior() -> Array:
    """Return the logarithm of the share of each power and combination before any data (powers x combinations)."""
    shares = [np.array(part) for part in ([kind.share for kind in KINDS], LEVEL_SHARES, NOISE_SHARES, SEASON_SHARES)]
    joint = np.einsum("k,l,n,s->klns", *shares)
    joint = np.where(_turning(), TURNING_FACTOR * joint, joint).ravel()
    return np.asarray(np.log(np.array(POWER_SHARES)[:, None] * joint / joint.sum()))


def _turning() -> Array:
    """Mark the combinations of a slope that turns with a smooth level."""
    marked = np.zeros(SHAPE, dtype=bool)
    marked[[kind.name in TURNING for kind in KINDS], :SMOOTH_WALKS, :SMOOTH_NOISES] = True
    return marked


def turning_share(combination: Array, weight: Array) -> float:
    """Return the probability that a slope turns in a smooth history, from weights of combinations."""
    return float(weight[_turning().ravel()[combination]].sum())


def smooth_share(combination: Array, weight: Array) -> float:
    """Return the probability that a history is smooth (noise and walk among the smallest), from weights of combinations."""
    marked = np.zeros(SHAPE, dtype=bool)
    marked[:, :SMOOTH_WALKS, :SMOOTH_NOISES] = True
    return float(weight[marked.ravel()[combination]].sum())


def bucket(periods: int) -> int:
    """Return the length for which a history of some periods is factorised."""
    return -(-periods // BUCKET) * BUCKET


def kind_of(combination: Array) -> Array:
    """Return the number of the kind of growth of each combination."""
    return np.asarray(combination // (COMBINATIONS // len(KINDS)))


@dataclass(frozen=True)
class Factors:
    """Cholesky roots of the covariances of all combinations over a span of periods, and the inverses of their first part."""

    root: Array  #: Combinations x periods x periods.
    inverse: Array  #: Of the leading part that a history can fill.
    log_determinant: Array  #: Cumulated logarithms of the roots' diagonals (combinations x periods).


@lru_cache(maxsize=6)
def factors(history: int, periods_per_year: float) -> Factors:
    r"""Factorise the covariance of every combination.

    .. math:: C_{st} = c_0 + \sigma_g^2\,s t + \int_0^s\!\!\int_0^t \sigma_w^2\,2^{-|u-v|/T}\,du\,dv
              + \sigma_e^2\,(1 - 2^{-s/E})(1 - 2^{-t/E})
              + \tfrac14\sigma_b^2\,s^2 t^2 + \text{level}_{st} + \text{season}_{|s-t|} + \sigma_n^2 [s = t]

    The root of a leading part of a matrix is the leading part of its root, so one root serves all lengths and all origins.

    Args:
        history: Periods of history; see `bucket`.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 2.7 and algorithm 2.1.
    """
    size = history + AHEAD
    time = np.arange(1, size + 1) / periods_per_year
    apart, both = np.abs(np.subtract.outer(time, time)), np.minimum.outer(time, time)
    growth = np.array([_growth(kind, time, apart, periods_per_year) for kind in KINDS])
    level = np.array([*(walk**2 * both for walk in WALKS), REVERTING**2 * 0.5 ** (apart / REVERTING_HALF_LIFE_YEARS)])
    power = np.array(HARMONICS) ** 2 / np.sum(np.square(HARMONICS))
    wave = np.einsum("h,hst->st", power, np.cos(2 * np.pi * np.arange(1, len(power) + 1)[:, None, None] * apart))
    season = np.square(SEASONS)[:, None, None] * wave
    noise = np.square(NOISES)[:, None, None] * np.eye(size)
    total = growth[:, None, None, None] + level[:, None, None] + noise[:, None] + season + DIFFUSE
    root = np.linalg.cholesky(total.reshape(COMBINATIONS, size, size))
    return Factors(root, np.linalg.inv(root[:, :history, :history]), np.log(np.einsum("cii->ci", root)).cumsum(axis=1))


def _growth(kind: Kind, time: Array, apart: Array, periods_per_year: float) -> Array:
    """Return the covariance of one kind of growth."""
    rise = 1 - 0.5 ** (time / kind.transient_half_life_years)
    slope = (kind.walk / periods_per_year) ** 2 * 0.5 ** (apart / kind.half_life_years)
    return np.asarray(
        kind.slope**2 * np.outer(time, time)
        + np.cumsum(np.cumsum(slope, axis=0), axis=1)
        + kind.transient**2 * np.outer(rise, rise)
        + kind.bend**2 / 4 * np.outer(time**2, time**2)
    )


@lru_cache(maxsize=64)
def quarter_roots(history: int, periods_per_year: float, origin: int, quarters: int) -> tuple[Array, Array]:
    """Return quarter means after an origin from the whitened history (combinations x quarters x origin), and their deviations."""
    span = factors(history, periods_per_year).root[:, origin : origin + 3 * quarters, : origin + 3 * quarters]
    means = span.reshape(COMBINATIONS, quarters, 3, -1).mean(axis=2)
    return np.ascontiguousarray(means[:, :, :origin]), np.sqrt((means[:, :, origin:] ** 2).sum(axis=2))


@lru_cache(maxsize=4)
def interventions(history: int, periods_per_year: float) -> tuple[Array, Array]:
    """Return steps and pulses in whitened histories (2 x combinations x periods x begin), and squared lengths by history length."""
    inverse = factors(history, periods_per_year).inverse
    shapes = np.array([np.cumsum(inverse[:, :, ::-1], axis=2)[:, :, ::-1], inverse])
    return shapes, np.cumsum(shapes**2, axis=2)
