"""Accuracy of short forecasts: published M4 figures, the M4 hourly series, public rates of requests, series with level shifts."""

import joblib
import numpy as np
import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.demand import forecast_series
from capplan.questions.demand.accuracy import coverage, finops_band, mase, owa, pinball_loss, seasonal_scale, smape
from capplan.questions.demand.series import QUANTILES, forecast_values
from tests.conftest import reference_file

#: sMAPE and MASE of Naive2 on the 414 hourly series (M4 team, Evaluation and Ranks).
NAIVE2_HOURLY = (18.383, 2.395)


def test_published_owa_follow_from_smape_and_mase():
    table = pd.read_csv(reference_file("truth", "08_forecast.csv"))
    values = table[table["quantity"].isin(["sMAPE", "MASE", "OWA"])].pivot_table(
        index=["frequency", "method"], columns="quantity", values="value"
    )
    single = values[(values.index.get_level_values("frequency") != "Total") & values.notna().all(axis=1)]
    assert len(single) >= 60
    for (frequency, _), row in single.iterrows():
        base = values.loc[(frequency, "Naive2")]
        # OWA is printed to six digits and follows from sMAPE and MASE printed to three.
        assert owa(row["sMAPE"], row["MASE"], base["sMAPE"], base["MASE"]) == pytest.approx(row["OWA"], abs=1e-6)


@pytest.fixture(scope="module")
def m4_hourly():
    def read(name: str) -> list[np.ndarray]:
        return [
            np.array(text.split(), dtype=float) for text in pd.read_csv(reference_file("data", "forecasting", name))["values_in_time_order"]
        ]

    return read("m4_hourly_train.csv.gz"), read("m4_hourly_test.csv.gz")


def test_metrics_reproduce_the_published_seasonal_naive(m4_hourly):
    """The M4 team's sNaive on the hourly series: sMAPE 13.912, MASE 1.193, OWA 0.627."""
    pairs = [(y, a, np.tile(y[-24:], 2)) for y, a in zip(*m4_hourly, strict=True)]
    s = np.mean([smape(a, f) for _, a, f in pairs])
    m = np.mean([mase(a, f, seasonal_scale(y, 24)) for y, a, f in pairs])
    assert s == pytest.approx(13.912, abs=5e-4)
    assert m == pytest.approx(1.193, abs=5e-4)
    assert owa(s, m, *NAIVE2_HOURLY) == pytest.approx(0.627453623, abs=1e-4)


@pytest.mark.slow
def test_m4_hourly_accuracy_and_coverage(m4_hourly):
    train, test = m4_hourly
    names = [f"H{k:03d}" for k in range(len(train))]
    history = pd.DataFrame(
        {
            "series": np.repeat(names, [len(y) for y in train]),
            "time": np.concatenate([np.arange(len(y)) for y in train]),
            "quantity": np.concatenate(train),
        }
    )
    with joblib.parallel_config(n_jobs=2):
        answer = forecast_series(history, 48, (24, 168))
    table = answer.quantiles.pivot_table(index=["series", "step"], columns="quantile", values="quantity")
    point = table[0.5].to_numpy().reshape(-1, 48)
    s = np.mean([smape(a, f) for a, f in zip(test, point, strict=True)])
    m = np.mean([mase(a, f, seasonal_scale(y, 24)) for y, a, f in zip(train, test, point, strict=True)])
    assert owa(s, m, *NAIVE2_HOURLY) <= 0.40
    assert 0.85 <= coverage(np.concatenate(test), table[0.05].to_numpy(), table[0.95].to_numpy()) <= 0.95


def test_request_rates_beat_the_seasonal_naive():
    """Two public 14-day series of requests a second: twelve origins, one to four days ahead."""
    from statsforecast.models import SeasonalNaive

    q, covered = np.array(QUANTILES), []
    for name in ("m-large", "m-small"):
        rate = pd.read_csv(reference_file("data", "llm_demand", f"servegen_{name}_requests_per_second_10min.csv"))[
            "total_requests_per_second"
        ].to_numpy()
        for days in (1, 2, 3, 4):
            own, naive, horizon = [], [], 144 * days
            for origin in np.linspace(7 * 144, len(rate) - horizon, 12).astype(int):
                outcome = rate[origin : origin + horizon]
                forecast, _ = forecast_values(rate[:origin], horizon, (144, 1008))
                plain = SeasonalNaive(144).forecast(y=rate[:origin], h=horizon, level=[50, 80, 90])
                rival = np.column_stack([plain[key] for key in ("lo-90", "lo-80", "lo-50", "mean", "hi-50", "hi-80", "hi-90")])
                own.append(pinball_loss(outcome[:, None], forecast, q))
                naive.append(pinball_loss(outcome[:, None], rival, q))
                covered.append(coverage(outcome, forecast[:, 0], forecast[:, -1]))
            assert np.mean(own) <= 1.02 * np.mean(naive), (name, days)
    assert 0.85 <= np.mean(covered) <= 0.95


@pytest.mark.parametrize("down", [0.0, 1.0])
def test_an_outage_at_the_end_is_not_forecast(down):
    """Ten days of ten minutes, the last half hour near zero: the day ahead is as without it, and nights without work stay so."""
    generator = np.random.default_rng(5)
    t = np.arange(1440)
    y = 1000 * (1 + 0.5 * np.sin(2 * np.pi * t / 144)) * np.exp(generator.normal(0, 0.05, len(t)))
    broken = np.where(t < len(t) - 3, y, down)
    whole, other = (forecast_values(values, 144, (144,))[0][:, 3] for values in (y, broken))
    assert np.abs(other / whole - 1).max() < 0.1
    nightly = np.where(t % 144 < 3, down, y)
    assert (forecast_values(nightly, 144, (144,))[0][:3, 3] < 100).all()


def test_level_shifts_are_covered():
    """Forty monthly series, every fourth with a shift to half or 1.8 times its level: 90 % intervals hold at least 85 %."""
    inside = []
    for k in range(40):
        generator = np.random.default_rng([0, k])
        t = np.arange(66)
        y = 100 * (1 + 0.15 * np.sin(2 * np.pi * (t + generator.integers(12)) / 12)) * np.exp(generator.normal(0, 0.06, 66))
        if k % 4 == 0:
            y[generator.integers(20, 57) :] *= generator.choice([0.5, 1.8])
        forecast, _ = forecast_values(y[:60], 6, (12,))
        inside.append(coverage(y[60:], forecast[:, 0], forecast[:, -1]))
    assert np.mean(inside) >= 0.85


def frame(values: np.ndarray, name: str = "a") -> pd.DataFrame:
    return pd.DataFrame({"series": name, "time": np.arange(len(values)), "quantity": values})


def test_laws_of_series():
    generator = np.random.default_rng(4)
    y = 50 + 20 * np.sin(2 * np.pi * np.arange(400) / 24) + generator.normal(0, 2, 400)
    both = pd.concat([frame(y), frame(1000 * y, "b")])
    answer = forecast_series(both.sample(frac=1, random_state=3), 24, (24, 168))
    table = answer.quantiles.set_index(["series", "step", "quantile"])["quantity"]
    assert table["b"].to_numpy() == pytest.approx(1000 * table["a"].to_numpy(), rel=1e-6)
    assert (table["a"].unstack().diff(axis=1).iloc[:, 1:] >= 0).all().all()
    pd.testing.assert_frame_equal(forecast_series(both, 24, (24, 168)).quantiles, answer.quantiles)
    truth = 50 + 20 * np.sin(2 * np.pi * np.arange(400, 424) / 24)
    assert np.abs(table["a"].unstack()[0.5] - truth).mean() < 2


@pytest.mark.parametrize(
    "values", [[3.0], [3.0] * 50, [0.0] * 50, [1.0, 2.0], [0, 0, 0, 5, 0, 0, 0, 0, 7, 0, 0, 0], [-1.0, 2.0, -3.0, 1.0, 4.0, -2.0, 0.5, 1.5]]
)
def test_plain_series_have_a_fallback(values):
    answer = forecast_series(frame(np.array(values, dtype=float)), 6, (24,))
    assert np.isfinite(answer.quantiles["quantity"]).all()
    assert len(answer.quantiles) == 6 * len(QUANTILES)


@pytest.mark.parametrize("zeros", [0.02, 0.04, 0.15, 0.24])
def test_quantiles_of_series_with_zeros_and_spikes_stay_finite(zeros):
    """Lognormal steps with some zeros and a few spikes: high quantiles are of the size of what was seen, and hold what comes."""
    generator = np.random.default_rng(int(100 * zeros))
    y = generator.lognormal(3, 0.8, 460) * (generator.random(460) > zeros)
    y[::97] *= 5
    forecast, _ = forecast_values(y[:400], 60, (24,), (*QUANTILES[:-1], 0.95, 0.975))
    assert (forecast[:, -1] <= 2 * y[:400].max()).all()
    assert (forecast >= 0).all()
    assert 0.85 <= np.mean((y[400:] >= forecast[:, 0]) & (y[400:] <= forecast[:, -2])) <= 1.0


def test_bad_calls():
    with pytest.raises(CapplanError, match="at least one step"):
        forecast_series(frame(np.ones(5)), 0)
    with pytest.raises(CapplanError, match="a hold values that are not finite"):
        forecast_series(frame(np.array([1.0, np.nan])), 2)


@pytest.mark.parametrize(
    ("share", "band"), [(0.12, "run"), (-0.12, "run"), (0.1201, "walk"), (0.15, "walk"), (-0.2, "crawl"), (0.2001, "outside")]
)
def test_a_band_holds_its_own_limit(share, band):
    assert finops_band(share) == band
