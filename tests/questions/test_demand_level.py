"""The mean-reverting level: exact against the normal distribution, and sane quarters from short, lumpy histories."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand import forecast_demand, level
from capplan.questions.demand.level import level_posterior


@pytest.mark.parametrize("season", [(), (0.1,), (0.25, 0.12)])
def test_posterior_is_the_conditional_normal(monkeypatch, season):
    """One combination of persistence and spreads: mean, departure and growth are those of the joint normal distribution."""
    monkeypatch.setattr(level, "HALF_LIVES_YEARS", (0.1,))
    monkeypatch.setattr(level, "LEVEL_MULTIPLES", (1.0,))
    monkeypatch.setattr(level, "NOISE_MULTIPLES", (0.5,))
    values = np.random.default_rng(3).normal(0, 0.3, 20).cumsum()
    n, seen, phi = 20, values.std(), 0.5 ** (1 / 5.2)
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    years = np.arange(1 - n, 1) / 52
    waves = [wave(2 * np.pi * (k + 1) * years) for k in range(len(season)) for wave in (np.sin, np.cos)]
    design = np.column_stack([np.ones(n), years, *waves])
    prior = np.diag(np.array([level.MEAN_PRIOR, level.GROWTH_PRIOR_PER_YEAR, *np.repeat(season, 2)]) ** 2)
    total = design @ prior @ design.T + seen**2 * phi**lag + (0.5 * seen) ** 2 * np.eye(n)
    # Columns: mean, departure at the end, growth, sine and cosine.
    cross = np.insert(design @ prior, 1, seen**2 * phi ** lag[-1], axis=1)
    expected = cross.T @ np.linalg.solve(total, values)
    covariance = np.diag(np.insert(np.diag(prior), 1, seen**2)) - cross.T @ np.linalg.solve(total, cross)
    answer = level_posterior(values, 52.0, season)
    assert answer.mean[0] == pytest.approx(expected, rel=1e-6)
    assert answer.growth_per_year == pytest.approx(expected[2], rel=1e-6)
    assert answer.growth_error_per_year == pytest.approx(np.sqrt(covariance[2, 2]), rel=1e-6)
    assert answer.root[0] @ answer.root[0].T == pytest.approx(covariance, rel=1e-5, abs=1e-9)
    ahead = np.arange(1, 31) / 52
    waves = np.array([wave(2 * np.pi * (k + 1) * ahead) for k in range(len(season)) for wave in (np.sin, np.cos)]).reshape(-1, 30)
    assert answer.path(30) == pytest.approx(expected[0] + expected[1] * phi ** np.arange(1, 31) + expected[3:] @ waves, rel=1e-6)


def test_a_hidden_season_is_held_possible_until_two_years_show_it():
    """A quarter of rise may be growth or season: growth is believed less, and the band is wider, than without a season."""
    rise = 0.3 * np.arange(13) / 52 + np.random.default_rng(2).normal(0, 0.01, 13)
    plain, doubted = level_posterior(rise, 52.0), level_posterior(rise, 52.0, (0.1,))
    assert 0 < doubted.growth_per_year < plain.growth_per_year
    assert doubted.growth_error_per_year > plain.growth_error_per_year
    wave = 0.2 * np.sin(2 * np.pi * np.arange(104) / 52) + np.random.default_rng(2).normal(0, 0.01, 104)
    assert level_posterior(wave, 52.0, (0.1,)).mean[:, 3].mean() == pytest.approx(0.2, abs=0.03)


def lumpy(days: int, seed: int) -> np.ndarray:
    """Jobs that begin at random and last for days: mean 2.4 times the mean size, many days near zero."""
    generator = np.random.default_rng([5, seed])
    work = np.zeros(days + 50)
    for day in range(days + 50):
        for _ in range(generator.poisson(0.4)):
            work[day : day + int(1 + generator.exponential(5))] += generator.lognormal(0, 1)
    return 100 * work[50:]


def test_three_months_of_lumpy_work_give_sane_years():
    """Fifteen stationary series of three months, two years ahead: 80 and 90 % bands hold, medians stay near, bands stay narrow."""
    days, ahead = 91, 761
    time = pd.date_range(end="2026-11-30", periods=days).append(pd.date_range("2026-12-01", periods=ahead))
    full = pd.concat([pd.DataFrame({"time": time, "workload": f"team {k:02d}", "quantity": lumpy(days + ahead, k)}) for k in range(15)])
    forecast = forecast_demand(
        full[full["time"] < "2026-12-01"], None, None, DemandAssumptions(horizon_quarters=8, paths=200, load_blocks=1)
    )
    table = forecast.quantiles.pivot_table(index=["workload", "quarter"], columns="quantile", values="quantity")
    outcome = (
        full.groupby(["workload", full["time"].dt.to_period("Q").astype(str).rename("quarter")])["quantity"].sum().reindex(table.index)
    )
    assert ((outcome >= table[0.05]) & (outcome <= table[0.95])).mean() >= 0.8
    assert 0.5 <= (table[0.5] / outcome).median() <= 2.0
    assert (table[0.95] / table[0.05]).median() <= 30
    total = forecast.paths.groupby(["path", "quarter"])["quantity"].sum().unstack()
    history = full[full["time"] < "2026-12-01"]["quantity"].sum() / days * 91.3
    assert total.median().between(0.4 * history, 2.5 * history).all()
    assert (total.quantile(0.95) < 6 * history).all()
    assert any("Extrapolated, not backtested" in note for note in forecast.notes)


def test_thirteen_months_of_growth_decline_and_season_are_held():
    """Eight series each that grow or shrink by half a year, or swing by a fifth: 90 % bands of four quarters, little bias."""
    days, ahead = 396, 397
    time = pd.date_range(end="2026-11-30", periods=days).append(pd.date_range("2026-12-01", periods=ahead))
    t, frames = np.arange(days + ahead), []
    for kind, growth, swing in (("up", 0.4, 0.0), ("down", -0.4, 0.0), ("wave", 0.0, 0.2)):
        for k in range(8):
            generator = np.random.default_rng([11, k, len(kind)])
            log = growth * t / 365.25 + swing * np.sin(2 * np.pi * (t / 365.25 + k / 8)) + np.cumsum(generator.normal(0, 0.004, len(t)))
            quantity = 1000 * np.exp(log + generator.normal(0, 0.08, len(t)))
            frames.append(pd.DataFrame({"time": time, "workload": f"{kind} {k}", "quantity": quantity}))
    full = pd.concat(frames)
    a = DemandAssumptions(horizon_quarters=4, load_blocks=1)
    forecast = forecast_demand(full[full["time"] < "2026-12-01"], None, None, a)
    table = forecast.quantiles.pivot_table(index=["workload", "quarter"], columns="quantile", values="quantity")
    quarter = full["time"].dt.to_period("Q").astype(str).rename("quarter")
    outcome = full.groupby(["workload", quarter])["quantity"].sum().reindex(table.index)
    held = ((outcome >= table[0.05]) & (outcome <= table[0.95])).groupby(table.index.get_level_values("quarter")).mean()
    assert (held >= 0.8).all(), held
    assert held.mean() >= 0.88
    bias = np.log(table[0.5] / outcome).groupby(table.index.get_level_values("workload").str.split().str[0]).mean()
    assert bias.abs().max() < 0.12, bias


def test_growth_that_lasted_goes_on():
    """Three years of 50 % a year: the median of the fourth quarter ahead is within 4 % of more of the same."""
    today = pd.Timestamp("2026-12-01")
    time = pd.date_range(today - pd.Timedelta(days=1096), today + pd.Timedelta(days=400))
    years = np.arange(len(time)) / 365.25
    work = 1000 * 1.5**years * np.exp(np.random.default_rng(5).normal(0, 0.05, len(time)))
    full = pd.DataFrame({"time": time, "workload": "w", "quantity": work})
    forecast = forecast_demand(full[full["time"] < today], None, None, DemandAssumptions(horizon_quarters=4))
    median = forecast.quantiles.query("quarter == '2027Q4' and quantile == 0.5")["quantity"].item()
    truth = full[(full["time"] >= "2027-10-01") & (full["time"] < "2028-01-01")]["quantity"].sum()
    assert abs(median / truth - 1) < 0.04
