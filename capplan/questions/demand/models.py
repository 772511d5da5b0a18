"""Which level model to believe: statsforecast candidates, judged by rolling origins on held-out periods."""

from dataclasses import dataclass, replace

import numpy as np

from capplan.questions.demand.candidates import level_candidates, median_slope, rate_candidates
from capplan.questions.demand.growth_level import GrowthLevel, growth_level
from capplan.questions.demand.history import History
from capplan.questions.demand.level import LevelPosterior, Scale, level_posterior
from capplan.questions.demand.selection import HALF_BELIEVED_ORIGINS, Choice, Forecaster, Score, choose, fenced, origins_of

Array = np.ndarray
#: Periods in a year, and in the quarter that rolling origins look ahead, by cadence.
PERIODS_PER_YEAR = {"day": 365.25, "week": 365.25 / 7, "month": 12.0}
HORIZON_PERIODS = {"day": 28, "week": 13, "month": 3}
WINDOW_PERIODS = {"day": 7, "week": 4, "month": 3}
SEASON_PERIODS = {"day": 7, "week": 52, "month": 12}
#: Two yearly cycles show a season and growth; fewer leave both to assumptions.
YEARS_FOR_SEASON = 2.0
#: Before any data, sine and cosine of the yearly and the half-yearly wave of a season have these deviations on the logarithmic scale.
SEASON_SPREADS = (0.25, 0.12)
MAXIMUM_ORIGINS = 6
#: Name of the growth kinds among the candidates, and the share of paths from which on they lead the forecast.
GROWTH, LEADING_SHARE = "kinds of growth", 0.5
#: Levels below this share of the median positive level are raised to it before logarithms are taken.
FLOOR_SHARE = 0.01
#: In shorter histories than this a single odd period can bend the estimated growth.
ROBUST_BELOW_YEARS = 0.5
#: The rate of intermittent demand is known like the mean of independent blocks of this many periods.
RATE_BLOCK_PERIODS = 4


@dataclass(frozen=True)
class LevelFit:
    """All that simulation needs to know about one series' level, on its own scale (see `Scale`)."""

    history: History  #: The series.
    model: str  #: Name of the chosen candidate.
    scores: tuple[Score, ...]  #: One row a candidate; empty where the history allows no test.
    scale: Scale  #: From demand a day to the scale of the level.
    #: What the chosen candidate says beside the mean-reverting level with its growth, for the periods that rolling origins have tested.
    departure: Array
    #: What the history says of the level, its persistence and its noise; None where it is too short or intermittent.
    level: LevelPosterior | None
    rate_error: float  #: Standard error of the logarithm of an intermittent rate.
    innovations: Array  #: One-step errors of the level, one for each period: they tell how workloads move together.
    years: float  #: Length of the history.
    growth: GrowthLevel | None = None  #: The kinds of growth that lead its paths, where it is longer than a year.

    @property
    def extrapolated(self) -> bool:
        """Tell whether growth beyond the tested horizon is an assumption instead of an estimate."""
        return self.years < YEARS_FOR_SEASON


def fit_level(history: History, season_spread: float = 0.0) -> LevelFit:
    """Choose and fit the model of one series' level.

    Candidates forecast the level from up to six earlier origins, a quarter ahead each; the mean-reverting level of `level_posterior` is
    one of them. The one with the lowest
    pinball loss is chosen; its quantiles at an origin come from its errors at the *other* origins, so that no candidate is
    judged on what it has seen. A tie within one percent goes to the combination, which is the safer bet.

    Args:
        season_spread: How large a yearly season may be (deviation of its sine and cosine) where there are less than two cycles to see it.

    Returns:
        LevelFit: Level, noise and growth.

    Source: Gneiting and Raftery, Strictly proper scoring rules, JASA 2007 (pinball loss); Makridakis, Spiliotis, Assimakopoulos, The M4
        competition, IJF 2020 (combinations, damping).
    """
    years = len(history.level) / PERIODS_PER_YEAR[history.cadence]
    if history.kind in ("zero", "short"):
        mean = float(history.level.mean()) if len(history.level) else 0.0
        model = "zero" if mean <= 0 else "mean of a short history"
        return LevelFit(history, model, (), Scale(mean, 0.0), np.zeros(1), None, 0.0, np.zeros(1), years)
    if history.kind == "rhythm":
        return LevelFit(history, "regular runs", (), Scale(float(history.level.mean()), 0.0), np.zeros(1), None, 0.0, np.zeros(1), years)
    if history.kind == "intermittent":
        return _fit_intermittent(history, years)
    floor = FLOOR_SHARE * float(np.median(history.level[history.level > 0]))
    scale = Scale.of(history.level)
    values = fenced(scale.log(np.maximum(history.level, floor)))
    centre = float(values.mean())
    per_year = PERIODS_PER_YEAR[history.cadence]
    seen = years >= YEARS_FOR_SEASON
    hidden = (season_spread,) if season_spread > 0 and not seen else ()
    level = level_posterior(values - centre, per_year, SEASON_SPREADS if seen else hidden)
    ahead = np.arange(1, min(HORIZON_PERIODS[history.cadence], max(1, len(values) // 3)) + 1)
    # A season that two cycles show is taken out before candidates compete; one that may hide is left to them.
    known = level.mean if seen else level.mean[:, :3]
    season, coming = (level.weight @ level.season(known, when) for when in (np.arange(1 - len(values), 1), ahead))
    plain, horizon = values - centre - season, len(ahead)
    origins = origins_of(len(plain), horizon, MAXIMUM_ORIGINS)
    growth = growth_level(history, years)
    known_season = np.concatenate([season, coming])

    def kinds_of_growth(past: Array, steps: int) -> Array:
        """Forecast like the growth kinds, beside the season that was taken out."""
        count = len(past)
        then = growth_level(replace(history, level=history.level[:count]), count / per_year)
        if then is None:
            return np.full(steps, past[-1])
        return np.asarray(scale.log(then.median(steps)) - centre - known_season[count : count + steps])

    candidates = {
        **level_candidates(WINDOW_PERIODS[history.cadence], SEASON_PERIODS[history.cadence] if seen else None),
        "mean-reverting level": _mean_reverting(per_year, hidden),
        **({GROWTH: kinds_of_growth} if growth is not None and growth.share >= LEADING_SHARE else {}),
    }
    choice = choose(plain, horizon, candidates, origins, lambda x: scale.unit(x + centre))
    if years < ROBUST_BELOW_YEARS:
        level = replace(level, growth_per_year=_robust_growth(level.growth_per_year, plain, per_year))
    departure = _belief(choice) * (choice.path + coming - level.path(horizon) - level.growth_per_year * ahead / per_year)
    innovations = np.diff(plain, prepend=plain[0]) if len(plain) < 8 else one_step_errors(plain)
    fit = LevelFit(history, choice.model, choice.scores, scale, departure, _moved(level, centre), 0.0, innovations, years, growth)
    if GROWTH not in candidates:
        return fit
    return replace(fit, model=GROWTH, scores=tuple(replace(score, chosen=score.model == GROWTH) for score in choice.scores))


def _belief(choice: Choice) -> float:
    """Say how far the chosen candidate is believed against the mean-reverting level: by how many origins it won, and how clearly."""
    loss = {score.model: score.pinball for score in choice.scores}
    own = next((score.pinball for score in choice.scores if score.chosen), None)
    if own is None:
        return 0.0
    reference = loss["mean-reverting level"]
    ratio = own / reference if reference > 0 else 1.0
    return float(choice.independent / (choice.independent + HALF_BELIEVED_ORIGINS * ratio**2))


def _mean_reverting(periods_per_year: float, season_spreads: tuple[float, ...]) -> Forecaster:
    """Forecast with the mean-reverting level and its shrunk growth."""

    def forecast(values: Array, horizon: int) -> Array:
        level = level_posterior(values, periods_per_year, season_spreads)
        return np.asarray(level.path(horizon) + level.growth_per_year * np.arange(1, horizon + 1) / periods_per_year)

    return forecast


def _robust_growth(growth_per_year: float, values: Array, periods_per_year: float) -> float:
    """Let growth go no further than the median of all pairwise slopes, which a single odd period cannot bend."""
    median = median_slope(values) * periods_per_year
    return float(np.clip(growth_per_year, min(0.0, median), max(0.0, median)))


def _moved(level: LevelPosterior, centre: float) -> LevelPosterior:
    """Put a centred level back to where it was."""
    return replace(level, mean=level.mean + centre * np.eye(1, level.mean.shape[1]))


def one_step_errors(values: Array) -> Array:
    r"""Return the one-step errors of the exponentially smoothed level that has the smallest of them.

    .. math:: l_t = l_{t-1} + \alpha e_t,\quad e_t = y_t - l_{t-1}
    """
    start = float(values[: min(4, len(values))].mean())
    weights = np.linspace(0.05, 1.0, 20)
    level, errors = np.full(len(weights), start), np.empty((len(values), len(weights)))
    for t, value in enumerate(values):
        errors[t] = value - level
        level += weights * errors[t]
    best = errors[:, int(np.argmin(np.round(np.mean(errors**2, axis=0), 12)))]
    return np.asarray(best - best.mean())


def expected_path(fit: LevelFit, periods: int) -> Array:
    """Return the expected level of each period on the scale, season included and growth not.

    What the chosen candidate says beside the mean-reverting level fades beyond the tested horizon like any other departure.
    """
    if fit.level is None:
        path = np.zeros(periods)
    else:
        tested = len(fit.departure)
        fading = fit.level.left(max(1, periods - tested + 1))[1:]
        beside = np.concatenate([fit.departure, fit.departure[-1] * fading])
        path = fit.level.path(periods) + beside[:periods]
    return path


def grown_years(years: Array, half_life_years: Array) -> Array:
    r"""Return how many years of full growth come to pass within some years, where growth fades (half-lives x years).

    .. math:: D(t) = T\,(1 - 2^{-t/T}) / \ln 2

    Examples:
        >>> grown_years(np.array([0.0, 2.0, 100.0]), np.array([2.0])).round(2).tolist()
        [[0.0, 1.44, 2.89]]
    """
    life = half_life_years[:, None]
    return np.asarray(life / np.log(2) * (1 - 0.5 ** (years / life)))


def _fit_intermittent(history: History, years: float) -> LevelFit:
    """Choose a rate for demand with many empty periods: the mean of whole cycles, or what forecast clearly better."""
    begun = np.flatnonzero(np.diff(history.level > 0, prepend=False) & (history.level > 0))
    gaps = np.diff(begun)
    # Gaps that end inside a history are shorter than gaps are (the bias of one over a mean).
    bias = 1 + float(gaps.var(ddof=1) / gaps.mean() ** 2) / len(gaps) if len(gaps) > 1 else 1.0
    scale = float(history.level.mean()) / bias
    # The history ends with a run, which lifts whatever leans on its newest periods: forecasts are made half a gap later.
    later = round(float(gaps.mean()) / 2) if len(gaps) else 0
    values = np.concatenate([history.level / scale, np.zeros(later)])
    horizon = min(HORIZON_PERIODS[history.cadence], max(1, len(values) // 3))
    origins = origins_of(len(values), horizon, MAXIMUM_ORIGINS)
    choice = choose(values, horizon, rate_candidates(WINDOW_PERIODS[history.cadence]), origins, lambda x: np.maximum(x, 0.0) * scale)
    loss = {score.model: score.pinball for score in choice.scores}
    gain = max(0.0, 1 - loss[choice.model] / loss["mean"]) if loss.get("mean", 0.0) > 0 else 0.0
    belief = choice.independent * gain / (choice.independent * gain + HALF_BELIEVED_ORIGINS)
    rate = max(0.0, 1 + belief * (float(choice.path.mean()) - 1)) * scale
    blocks = len(values) // RATE_BLOCK_PERIODS
    error = 1.0
    if blocks >= 2:
        sums = values[len(values) - blocks * RATE_BLOCK_PERIODS :].reshape(blocks, -1).mean(axis=1)
        error = min(1.0, float(np.sqrt(np.log1p(sums.var(ddof=1) / blocks))))
    return LevelFit(history, choice.model, choice.scores, Scale(rate, 0.0), np.zeros(1), None, error, np.zeros(1), years)
