"""Growth over two years: exact weights, bands that hold on known futures and on public series, laws, and peers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand import forecast_demand
from capplan.questions.demand.growth import courses_of, fit_growth, growth_median, growth_paths
from capplan.questions.demand.growth_kinds import COMBINATIONS, KINDS, POWER_SHARES, factors, log_prior
from capplan.questions.demand.growth_level import growth_level
from capplan.questions.demand.history import History
from capplan.questions.demand.shape import shapes_of
from tests.cases.demand_kinds import KINDS as MADE_UP
from tests.cases.demand_kinds import ORDINARY, UNBIASED, four_weeks, made_up
from tests.conftest import reference_file

NUMBERS = np.random.default_rng(0).permutation((np.arange(300) + 0.5) / 300)
SHOCKS = np.random.default_rng(1).standard_normal((300, 24))
QUARTERS = [0, 3, 7]


def quarters(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:-1], -1, 3).mean(axis=-1)


def bands(histories: np.ndarray, per_year: float) -> np.ndarray:
    """5, 50 and 95 % quantiles of quarter means (3 x series x quarters)."""
    drawn = [quarters(growth_paths(fit_growth(history, per_year), NUMBERS, SHOCKS)) for history in histories]
    return np.quantile(np.array(drawn), [0.05, 0.5, 0.95], axis=1)


def test_weights_and_forecasts_are_those_of_the_joint_normal():
    """A history of six months, by brute force: density of its logarithms under each combination, and the conditional mean."""
    values = np.array([1.0, 1.1, 1.05, 1.2, 1.3, 1.25])
    fit = fit_growth(values, 12.0)
    own = np.log(values / fit.scale)
    root = factors(12, 12.0).root
    density = np.empty(COMBINATIONS)
    means = np.empty((COMBINATIONS, 3))
    for c in range(COMBINATIONS):
        total = root[c, :9, :9] @ root[c, :9, :9].T
        near = total[:6, :6]
        # Given the first value: the level's own prior does not count.
        shifted = near[1:, 1:] - np.outer(near[1:, 0], near[0, 1:]) / near[0, 0]
        rest = own[1:] - near[1:, 0] / near[0, 0] * own[0]
        density[c] = -0.5 * rest @ np.linalg.solve(shifted, rest) - 0.5 * np.linalg.slogdet(shifted)[1] - own[1:].sum()
        means[c] = total[6:, :6] @ np.linalg.solve(near, own)
    log_weight = density + log_prior()[0]
    ours = np.full(COMBINATIONS, -np.inf)
    logs = fit.power == 0
    ours[fit.combination[logs]] = np.log(fit.weight[logs])
    kept = np.isfinite(ours)
    assert kept.sum() > 200
    assert (log_weight - ours)[kept] == pytest.approx(np.full(kept.sum(), (log_weight - ours)[kept].mean()), abs=1e-6)
    top = int(np.argmax(ours))
    only = courses_of(fit.values, 12.0, np.array([0]), np.array([top]), np.array([1.0])).sum(axis=0)
    assert only[:3] == pytest.approx(means[top], abs=1e-6)
    assert growth_median(fit, 5) == pytest.approx(fit.scale * np.exp((fit.courses.sum(axis=0) + fit.shift)[:5]))


def test_shares_are_probabilities():
    assert np.exp(log_prior()).sum() == pytest.approx(1)
    assert sum(kind.share for kind in KINDS) == pytest.approx(1, abs=0.005)
    assert sum(POWER_SHARES) == pytest.approx(1)


def test_bands_hold_on_known_futures():
    """Fifteen kinds, twelve series each, 24 to 60 months: 85 to 95 % inside at quarters 1, 4 and 8, ordinary kinds 80 % and unbiased."""
    held, bias = {}, {}
    for kind in MADE_UP:
        inside, error = [], []
        for months in (24, 36, 48, 60):
            series, count = four_weeks(kind, 12, months)
            low, middle, high = bands(series[:, :count], 365.25 / 28)
            outcome = quarters(series[:, count:])
            inside.append(((outcome >= low) & (outcome <= high))[:, QUARTERS])
            error.append(np.log(middle / outcome)[:, 7])
        held[kind], bias[kind] = np.concatenate(inside).mean(axis=0), float(np.concatenate(error).mean())
    over_all = np.mean(list(held.values()), axis=0)
    assert ((over_all >= 0.85) & (over_all <= 0.95)).all(), (over_all, held)
    for kind in ORDINARY:
        assert (held[kind] >= 0.8).all(), (kind, held[kind])
    for kind in UNBIASED:
        assert abs(bias[kind]) <= 0.15, (kind, bias[kind])


def test_a_plateau_stays_and_linear_growth_stays_linear():
    """Flat at 5,000 for over a year after a rise: no return of growth. From 1,000 to 4,000 in three years: about 6,000 after two more."""
    months = np.arange(36)
    noise = np.exp(np.random.default_rng(1).normal(0, 0.015, 36))
    plateau = 5000 / (1 + np.exp(-(months - 12) / 2.5)) * noise
    low, middle, high = bands(plateau[None], 12.0)[:, 0, 7]
    assert middle == pytest.approx(5000, rel=0.1)
    assert low > 1000
    assert high < 20000
    linear = (1000 + 3000 * months / 35) * noise
    assert bands(linear[None], 12.0)[1, 0, 7] == pytest.approx(1000 + 3000 * 58 / 35, rel=0.12)


def test_bands_know_no_cliff_at_two_years():
    """The same flat work, 20 to 30 months of it: the band's log width at quarter 8 changes by less than 0.3 a month, and falls."""
    end = pd.Timestamp("2026-12-01")
    widths = []
    values = 1000 * np.exp(np.random.default_rng(4).normal(0, 0.05, 31 * 31))
    for months in range(20, 31):
        time = pd.date_range(end=end - pd.Timedelta(days=1), periods=round(months * 30.44))
        usage = pd.DataFrame({"time": time, "workload": "w", "quantity": values[-len(time) :]})
        table = forecast_demand(usage, None, None, DemandAssumptions(load_blocks=1, paths=400)).quantiles
        last = table[table["quarter"] == "2028Q4"].set_index("quantile")["quantity"]
        widths.append(float(np.log(last[0.95] / last[0.05])))
    assert widths[-1] < widths[0]
    assert np.diff(widths).max() < 0.05
    assert np.abs(np.diff(widths)).max() < 0.3, widths


def test_growth_laws():
    series, count = four_weeks("steady", 1, 36)
    history = series[0, :count]
    fit, scaled = fit_growth(history, 365.25 / 28), fit_growth(1e6 * history, 365.25 / 28)
    assert growth_paths(scaled, NUMBERS, SHOCKS) == pytest.approx(1e6 * growth_paths(fit, NUMBERS, SHOCKS), rel=1e-6)
    assert sum(fit.kinds.values()) == pytest.approx(1)
    short, long = (bands(four_weeks("steady", 8, months)[0][:, : four_weeks("steady", 1, months)[1]], 365.25 / 28) for months in (24, 60))
    assert np.log(long[2] / long[0])[:, 7].mean() < np.log(short[2] / short[0])[:, 7].mean()


@pytest.mark.parametrize("times", [1.0, 1000.0])
def test_what_a_history_does_around_its_smooth_course_is_kept_as_it_is(times):
    """Three years of growth in weeks, in which every other week is half as busy again as the one before."""
    weeks = pd.date_range("2024-01-01", periods=156, freq="7D")
    swing = np.where(np.arange(156) % 2, 1.2, 0.8)
    about = {"weekday_factor": np.ones(7), "hourly": None, "step_hours": 1.0, "demand": 1.0, "unmet": 0.0, "inferred": 0.0}
    history = History(
        "w", "us", "week", times * 1.3 ** (np.arange(156) / 52) * swing, weeks, weeks[-1], peak_per_hour=1.0, kind="regular", **about
    )
    found = growth_level(history, 3.0)
    assert found is not None
    assert found.ratio.mean() == pytest.approx(1.0)
    assert found.ratio == pytest.approx(swing, rel=0.03)


def test_a_week_that_is_not_known_takes_the_mean_shape_of_those_that_are():
    """Two known weeks, one of which is busy by day alone; one of which half is missing; one without work."""
    rise, fall = np.linspace(1.0, 3.0, 168), np.linspace(3.0, 1.0, 168)
    holes = np.where(np.arange(168) % 2, np.nan, rise)
    weeks = pd.date_range("2026-01-05", periods=4, freq="7D")
    about = {"weekday_factor": np.ones(7), "step_hours": 1.0, "demand": 1.0, "unmet": 0.0, "inferred": 0.0, "peak_per_hour": 3.0}
    hourly = np.array([rise, 5 * fall**2, holes, np.zeros(168)])
    history = History("w", "us", "week", np.ones(4), weeks, weeks[-1], hourly=hourly, kind="regular", **about)
    known = [rise / rise.mean(), fall**2 / (fall**2).mean()]
    assert shapes_of(history) == pytest.approx(np.array([*known, *([(known[0] + known[1]) / 2] * 2)]))


def test_shifting_time_by_weeks_changes_nothing():
    time = pd.date_range(end="2026-11-30", periods=800)
    usage = pd.DataFrame({"time": time, "workload": "w", "quantity": made_up("steady", 1, 800, 800)})
    a = DemandAssumptions(load_blocks=1, paths=40)
    later = a.model_copy(update={"as_of": (pd.Timestamp(a.as_of) + pd.Timedelta(weeks=52)).date(), "first_quarter": "2028Q1"})
    here = forecast_demand(usage, None, None, a)
    there = forecast_demand(usage.assign(time=time + pd.Timedelta(weeks=52)), None, None, later)
    # Quarters begin a day later against the weeks: their totals differ by that day alone.
    ratio = there.quantiles["quantity"].to_numpy() / here.quantiles["quantity"].to_numpy()
    assert ratio == pytest.approx(np.ones(len(ratio)), abs=0.025)


def test_the_last_year_counts_as_far_as_paths_hold_it_possible():
    """A jumping level's newest rise is not all believed; plain growth is not held back by what the level was in the last year."""
    generator = np.random.default_rng(3)
    jumping = 1000 * np.exp(generator.normal(0, 0.3, 36) + np.where(np.arange(36) < 33, 0, 0.5))
    fit = fit_growth(jumping, 12.0)
    year = jumping[-12:].mean()
    middle, plain = growth_median(fit, 24)[-3:].mean(), growth_median(replace(fit, shift=np.zeros_like(fit.shift)), 24)[-3:].mean()
    assert abs(np.log(middle / year)) < 0.8 * abs(np.log(plain / year))
    growing = fit_growth(1000 * 1.5 ** (np.arange(36) / 12) * np.exp(generator.normal(0, 0.01, 36)), 12.0)
    assert np.abs(growing.shift[:24]).max() < 0.02


def test_a_step_is_found_and_not_feared():
    """A level that doubled once and stayed: the step is named, and the band at quarter 8 is far narrower than the step."""
    history = 1000 * np.exp(np.random.default_rng(2).normal(0, 0.02, 48))
    history[30:] *= 2
    fit = fit_growth(history, 12.0)
    assert [begin for begin, _ in fit.steps] == [30]
    assert fit.steps[0][1] == pytest.approx(np.log(2), abs=0.03)
    low, middle, high = bands(history[None], 12.0)[:, 0, 7]
    assert middle == pytest.approx(2000, rel=0.05)
    assert high / low < 1.5


def m3(months: int, every: int) -> np.ndarray:
    """Series of the M3 half with a year at least after so many months, padded with NaN to two years."""
    table = pd.read_csv(reference_file("data", "forecasting", "m3_monthly_half.csv.gz"))
    values = [part["value"].to_numpy(dtype=float) for _, part in table.groupby("series_id", sort=True)][::every]
    return np.array(
        [np.pad(v[: months + 24], (0, max(0, months + 24 - len(v))), constant_values=np.nan) for v in values if len(v) >= months + 12]
    )


def interval_score(outcome: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (high - low) + 20 * np.clip(low - outcome, 0, None) + 20 * np.clip(outcome - high, 0, None)


@pytest.mark.parametrize("months", [24, 36, 48])
def test_public_series_beside_their_peers(months):
    """Every tenth series: quarters 1, 4, 6 and 8; bands hold; interval score and median error beat Theta and AutoETS, plain and in logs."""
    from statsforecast.models import AutoETS, Theta

    series = m3(months, 10)
    outcome = quarters(series[:, months:])
    scale = series[:, months - 12 : months].mean(axis=1)[:, None]
    at = [0, 3, 5, 7]

    def measures(low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> np.ndarray:
        score, error = interval_score(outcome, low, high) / scale, np.abs(middle - outcome) / scale
        return np.array([np.nanmean(score[:, at]), np.nanmean(error[:, at])])

    own = bands(series[:, :months], 12.0)
    known = np.isfinite(outcome)
    inside = ((outcome >= own[0]) & (outcome <= own[2]))[:, at][known[:, at]].mean()
    assert 0.85 <= inside <= 0.95
    ours = measures(*own)
    for make in (lambda: Theta(season_length=12), lambda: AutoETS(season_length=12)):
        best = np.full(2, np.inf)
        for logs in (False, True):
            said = []
            for y in series[:, :months]:
                past = np.log(np.maximum(y, 0.02 * np.median(y))) if logs else y
                answer = make().forecast(y=past, h=24, level=[90])
                part = np.array([answer[name] for name in ("lo-90", "mean", "hi-90")])
                said.append(quarters(np.exp(np.minimum(part, 25.0)) if logs else part))
            best = np.minimum(best, measures(*np.moveaxis(np.array(said), 1, 0)))
        assert (ours < best).all(), (ours, best)
