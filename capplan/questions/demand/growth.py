"""Growth over years: all kinds of growth weighed by how well they foretold a history, tested on its own past, and drawn as paths."""

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from capplan.loading import quickly
from capplan.questions.demand.growth_kinds import (
    AHEAD,
    COMBINATIONS,
    KINDS,
    POWERS,
    bucket,
    factors,
    interventions,
    kind_of,
    log_prior,
    quarter_roots,
    smooth_share,
    turning_share,
)

Array = np.ndarray
#: Periods of history that are used at most, and the fewest of an origin that is tested.
LONGEST, FIRST_ORIGIN = 96, 18
QUARTERS_TESTED = 8
#: Levels below this share of the median are raised to it.
FLOOR_SHARE = 0.02
#: Before a history's own tests, bands of quarter 1 to 8 are this factor wider than the kinds say, as if learned on so many tests (it is
#: what makes 90 % bands hold 90 % on the M3 series), and where a slope turns in a smooth history the other one; a test counts at most so
#: many deviations.
PRIOR_WIDENING = np.interp(np.arange(8), [0, 3, 5, 7], [1.1, 0.82, 0.85, 0.78])
TURNING_WIDENING = np.interp(np.arange(8), [0, 3, 7], [1.15, 1.05, 1.1])
PRIOR_TESTS, CLIPPED = 12.0, 2.5
#: How far the Theta method, and after it the last year's level, are believed one to eight quarters ahead where paths hold possible what
#: they say: about the shares that left least error on either half of 714 series of the M3 competition. Less than the floor's share of the
#: last year's level counts as that.
THETA_BELIEF, LEVEL_BELIEF = np.interp(np.arange(8), [0, 3, 7], [0.2, 0.5, 0.7]), np.interp(np.arange(8), [0, 7], [0.3, 0.6])
THETA_FLOOR = 0.05
#: In a smooth history turns are plain to see, and a line through all of it counts for less by this share.
SMOOTH_DOUBT = 0.5
#: Paths on which it is seen what they hold possible.
TRIED_PATHS = 300
#: Combinations with less than this share of the likeliest one's probability are left out.
LEAST_WEIGHT = 1e-3
NORMAL_95 = 1.6448536269514722
#: Before any data, a step or an outlier has this log deviation; it is believed from these odds on, and only so many of them.
STEP_DEVIATION, STEP_LOG_ODDS, MOST_STEPS = 0.7, 3.0, 3


@dataclass(frozen=True)
class GrowthFit:
    """What a history says of its growth."""

    values: Array  #: History over `scale`, steps and outliers taken out.
    scale: float  #: Geometric mean of the last year.
    periods_per_year: float  #: Periods in a year.
    #: power, combination, weight: The likeliest powers and combinations, with their probabilities.
    power: Array
    combination: Array
    weight: Array
    widening: Array  #: Factor on the deviations of each quarter ahead, from the tests.
    #: tests, inside: Tests of each quarter ahead on the history's own past, and how many outcomes lay inside the 90 % band, as
    #: wide as public series ask for.
    tests: Array
    inside: Array
    steps: tuple[tuple[int, float], ...]  #: Periods of found steps and their log sizes.
    #: What each kind expects of the logarithm of the level over `scale` in each period ahead, times its probability (kinds x periods).
    courses: Array
    shift: Array  #: What is added to the logarithm of each period ahead, as far as the Theta method and the last year are believed.

    @property
    def kinds(self) -> dict[str, float]:
        """Probability of each kind of growth, likeliest first."""
        share = np.bincount(kind_of(self.combination), self.weight, len(KINDS))
        order = np.argsort(-share, kind="stable")
        return {KINDS[k].name: float(share[k]) for k in order}


def _on_scale(values: Array, power: float) -> Array:
    """Go from a level to the scale of a power."""
    return np.log(values) if power == 0 else (values**power - 1) / power


def _off_scale(values: Array, power: Array) -> Array:
    """Go back from the scales of powers (broadcast) to a level."""
    safe = np.where(power == 0, 1.0, power)
    return np.where(power == 0, np.exp(np.minimum(values, 50.0)), np.maximum(safe * values + 1, 1e-9) ** (1 / safe))


def _white(values: Array, size: int, periods_per_year: float) -> Array:
    """Return the whitened history on each scale (powers x combinations x periods)."""
    inverse = factors(size, periods_per_year).inverse[:, : len(values), : len(values)]
    return np.moveaxis(inverse @ np.stack([_on_scale(values, power) for power in POWERS], axis=1), 2, 0)


def _log_weights(white: Array, values: Array, origin: int, size: int, periods_per_year: float) -> Array:
    """Return the log probability of powers and combinations at an origin (powers x combinations), from one-step forecasts up to it."""
    base = factors(size, periods_per_year).log_determinant
    spread = base[:, origin - 1] - base[:, 0]
    slope = (np.array(POWERS) - 1) * np.log(values[1:origin]).sum()
    past = white[:, :, 1:origin]
    score = -0.5 * np.einsum("pct,pct->pc", past, past) - spread + slope[:, None] + log_prior()
    return np.asarray(score - score.max())


def fit_growth(level: Array, periods_per_year: float) -> GrowthFit:
    """Weigh all kinds of growth for a level by month or by four weeks, and test them on its past.

    Args:
        level: Demand a day in each period, oldest first, with a positive mean.

    Returns:
        GrowthFit: Probabilities, tests and widths.
    """
    recent = level[-LONGEST:]
    raw = np.maximum(recent, FLOOR_SHARE * float(np.median(recent[recent > 0])))
    scale = float(np.exp(np.log(raw[-12:]).mean()))
    raw = raw / scale
    size = bucket(len(raw))
    white = _white(raw, size, periods_per_year)
    scores = _tested(raw, white, size, periods_per_year)
    values, white, steps = _without_steps(raw, white, size, periods_per_year)
    weight = np.exp(_log_weights(white, values, len(values), size, periods_per_year))
    power, combination = np.divmod(np.flatnonzero(weight.ravel() > LEAST_WEIGHT), COMBINATIONS)
    kept = weight[power, combination]
    order = np.argsort(combination, kind="stable")
    power, combination, kept = power[order], combination[order], kept[order] / kept.sum()
    courses = courses_of(values, periods_per_year, power, combination, kept)
    tested = _widening(scores, turning_share(combination, kept))
    fit = GrowthFit(values, scale, periods_per_year, power, combination, kept, *tested, steps, courses, np.zeros(AHEAD))
    return replace(fit, shift=_shift(raw, fit))


def _theta(values: Array, ahead: int, periods_per_year: float) -> Array | None:
    """Forecast by the Theta method of statsforecast, fitted anew with each value, with its seasonal adjustment where there is a season.

    Source: Fiorucci, Pellegrini, Louzada, Petropoulos and Koehler, Models for optimising the theta method and their relationship to state
        space models, IJF 2016, after Assimakopoulos and Nikolopoulos, IJF 2000 (best of the M3 competition).
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            said = np.asarray(
                quickly("statsforecast.models")
                .DynamicOptimizedTheta(season_length=round(periods_per_year))
                .forecast(y=values, h=ahead)["mean"]
            )
    except Exception:  # statsforecast raises bare Exception on series its models cannot take
        return None
    return said if np.isfinite(said).all() else None


def _shift(history: Array, fit: GrowthFit) -> Array:
    r"""Return what the Theta method and then the last year's level add to the logarithm of each period ahead.

    .. math:: w_q\, e^{-d_q^2 / 2 s_q^2}\, d_q, \qquad d_q = \log \theta_q - m_q

    m is the median of paths in quarter q, with what was added before, and s their deviation: the less they hold possible what theta says,
    the less it counts, since the kinds then saw a pattern that a line, a smoothed level or a year do not have.
    """
    numbers, shocks = _tried()
    low, middle, high = np.quantile(np.log(_quarters(growth_paths(fit, numbers, shocks) / fit.scale)), [0.05, 0.5, 0.95], axis=0)
    theta, total = _theta(history, AHEAD, fit.periods_per_year), np.zeros(len(middle))
    trust = 1 - SMOOTH_DOUBT * smooth_share(fit.combination, fit.weight)
    quarter = np.minimum(np.arange(len(middle)), QUARTERS_TESTED - 1)
    last_year = np.full(AHEAD, history[-round(fit.periods_per_year) :].mean())
    for said, belief in ((theta, THETA_BELIEF), (last_year, LEVEL_BELIEF)):
        if said is not None:
            away = np.log(np.maximum(_quarters(said), THETA_FLOOR)) - middle - total
            total = total + trust * belief[quarter] * np.exp(-0.5 * (2 * NORMAL_95 * away / (high - low)) ** 2) * away
    return np.interp(np.arange(AHEAD), 3 * np.arange(len(middle)) + 1, total)


@lru_cache(maxsize=1)
def _tried() -> tuple[Array, Array]:
    """Draw numbers and shocks of the paths on which it is seen what they hold possible: alike for all series, shocks with their mirrors."""
    half = TRIED_PATHS // 2
    numbers = np.random.default_rng(0).permutation((np.arange(half) + 0.5) / half)
    shocks = np.random.default_rng(1).standard_normal((half, AHEAD))
    return np.tile(numbers, 2), np.concatenate([shocks, -shocks])


def _quarters(values: Array) -> Array:
    """Return means of three periods each."""
    return np.asarray(values.reshape(*values.shape[:-1], -1, 3).mean(axis=-1))


def _expected(means: Array, white: Array) -> Array:
    """Return what a whitened history lets expect of each quarter ahead (powers x combinations x quarters)."""
    return np.asarray(np.moveaxis(means @ np.moveaxis(white[:, :, : means.shape[2]], 0, 2), 2, 0))


def _tested(values: Array, white: Array, size: int, periods_per_year: float) -> Array:
    """Test the kinds on a history's own past: normal scores of the outcomes, origins x quarters ahead (NaN where history ends)."""
    from scipy.special import ndtr, ndtri

    last = len(values)
    scores = []
    for origin in range(last - 3, FIRST_ORIGIN - 1, -3):
        quarters = min(QUARTERS_TESTED, (last - origin) // 3)
        weight = np.exp(_log_weights(white, values, origin, size, periods_per_year))
        means, deviation = quarter_roots(size, periods_per_year, origin, quarters)
        outcome = values[origin : origin + 3 * quarters].reshape(quarters, 3).mean(axis=1)
        expected = _expected(means, white)
        score = ndtr((np.stack([_on_scale(outcome, power) for power in POWERS])[:, None] - expected) / deviation)
        below = np.einsum("pc,pcq->q", weight / weight.sum(), score)
        scores.append(np.pad(ndtri(np.clip(below, 1e-6, 1 - 1e-6)), (0, QUARTERS_TESTED - quarters), constant_values=np.nan))
    return np.array(scores).reshape(-1, QUARTERS_TESTED)


def _widening(scores: Array, turning: float) -> tuple[Array, Array, Array]:
    r"""Return the factors on the width of each quarter ahead, its tests, and how many outcomes bands as wide as p held.

    .. math:: f_q = \sqrt{(m\,p_q^2 + n_q\,\overline{u_q^2}) / (m + n_q)}

    u is the outcome as a normal score of what was foretold, n the tests without overlap, m = 12 and p the factors found on public series,
    or those of slopes that turn, by their probability.
    """
    tests = np.isfinite(scores).sum(axis=0)
    squares = np.nansum(np.clip(scores, -CLIPPED, CLIPPED) ** 2, axis=0) / np.maximum(tests, 1)
    apart = np.where(tests > 0, 1 + (tests - 1) / np.arange(1, QUARTERS_TESTED + 1), 0.0)
    prior = (1 - turning) * PRIOR_WIDENING + turning * TURNING_WIDENING
    inside = (np.abs(scores) <= NORMAL_95 * prior).sum(axis=0)
    return np.sqrt((PRIOR_TESTS * prior**2 + apart * squares) / (PRIOR_TESTS + apart)), tests, inside


def _without_steps(values: Array, white: Array, size: int, periods_per_year: float) -> tuple[Array, Array, tuple[tuple[int, float], ...]]:
    """Find steps and single outliers that explain a history better than any growth, and take them out: steps are levelled.

    Returns the history without them, whitened too, and the steps.
    """
    count, found = len(values), []
    if count < FIRST_ORIGIN:
        return values, white, ()
    shapes, lengths = interventions(size, periods_per_year)
    shapes, lengths = shapes[:, :, :count, :count], lengths[:, :, count - 1, :count] + STEP_DEVIATION**-2
    values = values.copy()
    for _ in range(MOST_STEPS):
        prior = _log_weights(white, values, count, size, periods_per_year)[0]
        prior -= np.logaddexp.reduce(prior)
        size_of = (white[0][:, None, :] @ shapes)[:, :, 0] / lengths
        joint = 0.5 * size_of**2 * lengths - 0.5 * np.log(STEP_DEVIATION**2 * lengths) + prior[:, None]
        top = joint.max(axis=1)
        odds = np.log(np.exp(joint - top[:, None]).sum(axis=1)) + top - np.log(2 * count)
        odds[0, [0, 1, 2, count - 2, count - 1]] = -np.inf
        odds[1, count - 1] = -np.inf
        kind, begin = np.unravel_index(int(odds.argmax()), odds.shape)
        if odds[kind, begin] < STEP_LOG_ODDS:
            break
        likely = np.exp(joint[kind, :, begin] - top[kind, begin])
        effect = float(likely @ size_of[kind, :, begin] / likely.sum())
        if kind == 0:
            values[:begin] *= np.exp(effect)
            found.append((int(begin), effect))
        else:
            values[begin] *= np.exp(-effect)
        white = _white(values, size, periods_per_year)
    return values, white, tuple(found)


def growth_paths(fit: GrowthFit, numbers: Array, shocks: Array) -> Array:
    """Draw paths of the level (paths x periods).

    Args:
        numbers: A uniform number for each path: which power and combination it follows.
        shocks: Standard normal shocks, paths x periods.
    """
    count, ahead = len(fit.values), shocks.shape[1]
    base = factors(bucket(count), fit.periods_per_year)
    pick = np.minimum(np.searchsorted(np.cumsum(fit.weight), numbers), len(fit.weight) - 1)
    used, place = np.unique(pick, return_inverse=True)
    combination, power = fit.combination[used], np.array(POWERS)[fit.power[used]]
    history = np.stack([_on_scale(fit.values, p) for p in POWERS])[fit.power[used]]
    white = np.einsum("cst,ct->cs", base.inverse[combination, :count, :count], history)
    span = base.root[combination, count : count + ahead]
    expected = np.einsum("cht,ct->ch", span[:, :, :count], white)
    drawn = expected[place] + np.einsum("pht,pt->ph", span[place, :, count : count + ahead], shocks)
    levels = _off_scale(drawn, power[place][:, None]) * fit.scale
    middle = growth_median(fit, ahead) * np.exp(-fit.shift[:ahead])
    quarter = np.minimum(np.arange(ahead) / 3, QUARTERS_TESTED - 1)
    factor = np.interp(quarter, np.arange(QUARTERS_TESTED), fit.widening)
    return np.asarray(middle * np.exp(np.log(levels / middle) * factor + fit.shift[:ahead]))


def courses_of(values: Array, periods_per_year: float, power: Array, combination: Array, weight: Array) -> Array:
    """Return what each kind expects of the logarithm of the level in each period ahead, times its probability (kinds x periods)."""
    count, base = len(values), factors(bucket(len(values)), periods_per_year)
    history = np.stack([_on_scale(values, p) for p in POWERS], axis=1)
    expected = base.root[:, count : count + AHEAD, :count] @ (base.inverse[:, :count, :count] @ history)
    logs = np.log(_off_scale(expected[combination, :, power], np.array(POWERS)[power][:, None]))
    courses = np.zeros((len(KINDS), AHEAD))
    np.add.at(courses, kind_of(combination), weight[:, None] * logs)
    return courses


def growth_median(fit: GrowthFit, ahead: int) -> Array:
    """Return the middle of what is expected of the level in each period ahead (the mean logarithm over all kinds)."""
    return np.asarray(fit.scale * np.exp(fit.courses.sum(axis=0)[:ahead] + fit.shift[:ahead]))
