"""Ceilings: found where mass piles up, inferred like Tobit's model, and never where a series is only flat, on-off or small counts."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand import backtest_demand, forecast_demand
from capplan.questions.demand.censoring import find_plateau, infer_plateau, slots_of

A = DemandAssumptions(horizon_quarters=2, paths=20)


def capped(weeks: int, share: float, seed: int = 0, sigma: float = 0.12) -> tuple[pd.DatetimeIndex, np.ndarray, np.ndarray]:
    """Hourly demand with a daily pattern, a wandering week and noise, and what a ceiling lets through."""
    generator = np.random.default_rng(seed)
    time = pd.date_range(end="2026-11-30 23:00", periods=168 * weeks, freq="h")
    pattern = 0.4 * np.sin(2 * np.pi * (time.hour.to_numpy() - 9) / 24) + 0.1 * (time.dayofweek.to_numpy() < 5)
    demand = 100 * np.exp(pattern + np.repeat(generator.normal(0, 0.05, weeks), 168) + generator.normal(0, sigma, len(time)))
    return time, demand, np.minimum(demand, np.quantile(demand, 1 - share))


def test_one_slot_is_the_maximum_of_the_likelihood():
    generator = np.random.default_rng(1)
    logs = generator.normal(0.2, 0.3, 4000)
    ceiling = 0.45
    seen, at = np.minimum(logs, ceiling), logs >= ceiling
    nowhere = np.zeros(len(logs), int)
    answer = infer_plateau(np.exp(seen), nowhere, nowhere)

    def loss(x):
        return -(norm.logpdf(seen[~at], x[0], np.exp(x[1])).sum() + at.sum() * norm.logsf(ceiling, x[0], np.exp(x[1])))

    mean, sigma = minimize(loss, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-8}).x
    sigma = np.exp(sigma)
    z = (ceiling - mean) / sigma
    expected = np.exp(mean + sigma**2 / 2) * norm.cdf(sigma - z) / norm.sf(z)
    assert answer.demand[at] == pytest.approx(expected, rel=2e-3)
    below = seen < ceiling - 0.002  # within a thousandth of the ceiling, usage counts as capped
    assert answer.demand[below] == pytest.approx(np.exp(seen[below]))


@pytest.mark.parametrize(("weeks", "share"), [(4, 0.15), (10, 0.1), (20, 0.3)])
def test_what_was_hidden_is_found_again(weeks, share):
    found, truth = [], []
    for seed in range(4):
        time, demand, usage = capped(weeks, share, seed)
        answer = infer_plateau(usage, *slots_of(time[0], pd.Timedelta(hours=1), len(time)))
        found.append((answer.demand - usage).sum())
        truth.append((demand - usage).sum())
    assert sum(found) == pytest.approx(sum(truth), rel=0.12)


def test_daily_plateaus_and_gaps():
    found, truth = [], []
    for seed in range(12):
        demand = 100 * np.exp(np.random.default_rng(seed).normal(0, 0.3, 280))
        usage = np.minimum(demand, np.quantile(demand, 0.8))
        usage[50:60] = np.nan
        answer = infer_plateau(usage, *slots_of(pd.Timestamp("2026-01-05"), pd.Timedelta(days=1), 280))
        assert np.isnan(answer.demand[50:60]).all()
        found.append(np.nansum(answer.demand - usage))
        truth.append(np.nansum(demand - usage))
    assert sum(found) == pytest.approx(sum(truth), rel=0.1)


@pytest.mark.parametrize(
    "values",
    [
        np.full(500, 3.0),
        np.where(np.arange(500) % 3 == 0, 8.0, 0.0),
        np.random.default_rng(1).poisson(3, 2000).astype(float),
        np.random.default_rng(1).lognormal(0, 0.3, 2000),
        50 + 50 * np.sin(np.arange(2000) * 2 * np.pi / 24),
        np.minimum(np.random.default_rng(1).lognormal(0, 0.3, 30), 1.0),
        np.zeros(100),
    ],
    ids=["constant", "on and off", "small counts", "uncapped", "daily wave", "short", "zero"],
)
def test_no_ceiling_is_seen_where_there_is_none(values):
    assert find_plateau(values) is None


def usage_table(quantity: np.ndarray, time: pd.DatetimeIndex, **more) -> pd.DataFrame:
    return pd.DataFrame({"time": time, "workload": "chat", "region": "us", "quantity": quantity, **more})


def test_the_forecast_rests_on_what_was_asked_for_and_says_so():
    time, demand, usage = capped(20, 0.3)
    full = forecast_demand(usage_table(demand, time), None, None, A)
    answer = forecast_demand(usage_table(usage, time), None, None, A)
    table = answer.unmet.iloc[0]
    assert table["inferred"] == table["unmet"] == pytest.approx((demand - usage).sum(), rel=0.2)
    assert any("inferred, not measured" in note and "chat (us)" in note for note in answer.notes)
    first = [forecast.quantiles.query("quarter == '2027Q1' and quantile == 0.5")["quantity"].item() for forecast in (answer, full)]
    served = usage.sum() / len(usage) * 2160
    assert first[0] == pytest.approx(first[1], rel=0.03)
    assert first[0] > 1.03 * served
    none = forecast_demand(usage_table(usage, time), None, None, A.model_copy(update={"unmet_share": 0.0}))
    assert none.unmet["inferred"].item() == 0


def test_measured_queues_leave_nothing_to_infer():
    time, _, usage = capped(10, 0.2)
    answer = forecast_demand(usage_table(usage, time, refused_quantity=0.0), None, None, A)
    assert answer.unmet["inferred"].item() == 0
    assert not any("inferred" in note for note in answer.notes)


def test_a_backtest_compares_what_was_measured():
    time, _, usage = capped(26, 0.3)
    answer = backtest_demand(usage_table(usage, time), A, origins=1)
    served = pd.Series(usage, time)
    row = answer.totals.iloc[0]
    assert row["actual"] == pytest.approx(served[(time >= row["origin"]) & (time < row["origin"] + pd.offsets.MonthBegin(1))].sum())
