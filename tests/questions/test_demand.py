"""Laws of the demand forecast: sums, medians, scale, order, seed, cache; and calibration on made-up histories whose future is known."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import backtest_demand, fitting, forecast_demand, stated_demand
from capplan.questions.demand.backtest_summary import summarise
from capplan.units import quarter_hours

A = DemandAssumptions(horizon_quarters=3, paths=60)


def hourly(days: int = 200, names: tuple[str, ...] = ("chat", "search"), seed: int = 3, end: str = "2026-12-01") -> pd.DataFrame:
    time = pd.date_range(end=pd.Timestamp(end) - pd.Timedelta(hours=1), periods=24 * days, freq="h")
    generator = np.random.default_rng(seed)
    common = np.cumsum(generator.normal(0, 0.008, days)).repeat(24)
    frames = []
    for k, name in enumerate(names):
        day = 1 + 0.6 * np.sin(2 * np.pi * (time.hour - 6 - 12 * (k % 2)) / 24)
        level = 100 * (k + 1) * np.exp(common + np.cumsum(generator.normal(0, 0.003, days)).repeat(24))
        frames.append(
            pd.DataFrame(
                {"time": time, "workload": name, "region": "us", "quantity": level * day * np.exp(generator.normal(0, 0.05, len(time)))}
            )
        )
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def usage():
    return hourly()


@pytest.fixture(scope="module")
def forecast(usage):
    return forecast_demand(usage, None, None, A)


def test_shape_and_order_of_the_paths(forecast):
    keys = ["path", "workload", "region", "quarter", "block"]
    assert list(forecast.paths.columns) == ["path", "probability", "workload", "region", "quarter", "block", "quantity"]
    assert len(forecast.paths) == 60 * 2 * 3 * 5
    assert forecast.paths[keys].equals(forecast.paths[keys].sort_values(keys).reset_index(drop=True))
    assert forecast.paths.groupby("path")["probability"].first().sum() == pytest.approx(1)
    assert not forecast.paths.isna().any().any()


def test_median_of_paths_is_the_quantile_table(forecast):
    totals = forecast.paths.groupby(["workload", "region", "quarter", "path"])["quantity"].sum()
    for quantile in (0.05, 0.5, 0.95):
        table = forecast.quantiles[forecast.quantiles["quantile"] == quantile].set_index(["workload", "region", "quarter"])["quantity"]
        assert np.allclose(totals.groupby(["workload", "region", "quarter"]).quantile(quantile), table, rtol=1e-12)


def test_blocks_fill_the_quarter_and_fall_from_peak_to_base(forecast):
    hours = forecast.blocks.groupby("quarter")["hours"].sum()
    assert all(hours[quarter] == pytest.approx(quarter_hours(quarter)) for quarter in hours.index)
    first = forecast.blocks.query("quarter == '2027Q1' and block == 0")["hours"].item()
    assert first / quarter_hours("2027Q1") == pytest.approx(0.05, abs=1e-3)
    rows = forecast.paths.merge(forecast.blocks, on=["quarter", "block"])
    # Both workloads count by their mean, so the sum of normalised loads falls from block to block on every path.
    rows["load"] = rows["quantity"] / rows["hours"] / rows["workload"].map({"chat": 100, "search": 200})
    falling = rows.groupby(["path", "quarter", "block"])["load"].sum().unstack("block")
    assert (falling.diff(axis=1).iloc[:, 1:] < 0).mean().min() > 0.95


def test_average_convention_scales_hours_and_work(usage, forecast):
    average = forecast_demand(usage, None, None, A.model_copy(update={"hours_convention": "average"}))
    assert average.blocks.groupby("quarter")["hours"].sum().tolist() == pytest.approx([2190.0] * 3)
    ratio = average.paths["quantity"] / forecast.paths["quantity"]
    assert ratio[forecast.paths["quarter"] == "2027Q1"].to_numpy() == pytest.approx(2190 / 2160)


def test_scaling_the_history_scales_the_forecast(usage, forecast):
    scaled = forecast_demand(usage.assign(quantity=1000 * usage["quantity"]), None, None, A)
    assert scaled.paths["quantity"].to_numpy() == pytest.approx(1000 * forecast.paths["quantity"].to_numpy(), rel=1e-6)


def test_row_order_changes_nothing(usage, forecast):
    shuffled = usage.sample(frac=1, random_state=1)
    fitting._fits.clear()
    pd.testing.assert_frame_equal(forecast_demand(shuffled, None, None, A).paths, forecast.paths)


def test_same_seed_same_paths_and_more_paths_only_add(usage, forecast):
    more = forecast_demand(usage, None, None, A.model_copy(update={"paths": 80}))
    assert more.paths["quantity"].to_numpy()[: len(forecast.paths)] == pytest.approx(forecast.paths["quantity"].to_numpy(), rel=1e-12)
    other = forecast_demand(usage, None, None, A.model_copy(update={"seed": 8}))
    assert not np.allclose(other.paths["quantity"], forecast.paths["quantity"])


def test_sliders_do_not_refit(usage, forecast, monkeypatch):
    def refit(*_):
        raise AssertionError("a fit was made anew")

    forecast_demand(usage, None, None, A)
    monkeypatch.setattr(fitting, "fit_level", refit)
    forecast_demand(
        usage, None, None, A.model_copy(update={"event_strength": 2.0, "paths": 30, "growth_share_per_year": 0.5, "horizon_quarters": 6})
    )


def test_a_series_is_fitted_anew_only_where_it_changes(usage, monkeypatch):
    forecast_demand(usage, None, None, A)
    fitted, fit = [], fitting.fit_level
    monkeypatch.setattr(fitting, "fit_level", lambda history, season: fitted.append(history.workload) or fit(history, season))
    more = usage.assign(quantity=usage["quantity"].where(usage["workload"] != "chat", 1.3 * usage["quantity"]))
    partly = forecast_demand(more, None, None, A)
    assert fitted == ["chat"]
    fitting._fits.clear()
    pd.testing.assert_frame_equal(partly.paths, forecast_demand(more, None, None, A).paths, check_exact=True)
    assert fitted == ["chat", "chat", "search"]


def test_workloads_that_move_together_stay_together(usage):
    """Shocks are 0.008 common and 0.003 own, a correlation of 0.88, shrunk for half a year of weeks."""
    forecast = forecast_demand(usage, None, None, A.model_copy(update={"paths": 4000, "load_blocks": 1}))
    totals = forecast.paths[forecast.paths["quarter"] == "2027Q3"].groupby(["path", "workload"])["quantity"].sum().unstack()
    assert np.corrcoef(np.log(totals.T))[0, 1] > 0.5


def test_opposite_peaks_are_pooled(forecast):
    # Day shapes 1 + 0.6 sin with opposite phases: the sum is nearly flat, so pooling saves about 1 - 1/1.6.
    assert forecast.pooling["pooling_gain_share"].between(0.25, 0.375).all()


def test_peak_hour_and_load_duration_curve(forecast):
    curve = forecast.duration.query("workload == 'chat' and quarter == '2027Q1'")
    assert (curve["work_per_hour"].diff().iloc[1:] <= 0).all()
    peak = forecast.peaks.query("workload == 'chat' and quarter == '2027Q1' and quantile == 0.5")["work_per_hour"].item()
    mean = forecast.quantiles.query("workload == 'chat' and quarter == '2027Q1' and quantile == 0.5")["quantity"].item() / 2160
    assert 1.6 < peak / mean < 2.1


def test_months_add_up_to_quarters_in_the_median_roughly(forecast):
    months = forecast.months.query("workload == 'chat' and quantile == 0.5")["quantity"].to_numpy()[:3].sum()
    quarter = forecast.quantiles.query("workload == 'chat' and quarter == '2027Q1' and quantile == 0.5")["quantity"].item()
    assert months == pytest.approx(quarter, rel=0.02)


def test_growth_as_stated(usage):
    flat = usage.assign(quantity=24.0)
    a = A.model_copy(update={"growth_share_per_year": 1.0, "growth_band_share": 0.0})
    forecast = forecast_demand(flat, None, None, a)
    median = forecast.quantiles.query("workload == 'chat' and quantile == 0.5").set_index("quarter")["quantity"]
    # Doubling in a year from 1 December: the middle of the third quarter of 2027 is 257 days ahead.
    days = (pd.Timestamp("2027-08-16") - pd.Timestamp("2026-12-01")).days
    assert median["2027Q3"] == pytest.approx(24 * 2208 * 2 ** (days / 365.25), rel=0.01)
    assert any("extrapolated" in note.lower() for note in forecast.notes)


def test_constant_history_stays_constant_without_growth_band(usage):
    a = A.model_copy(update={"growth_band_share": 0.0})
    forecast = forecast_demand(usage.assign(quantity=24.0), None, None, a)
    assert forecast.paths.groupby(["path", "workload", "quarter"])["quantity"].sum().unstack("quarter").to_numpy() == pytest.approx(
        24 * np.tile([2160, 2184, 2208], (120, 1)), rel=1e-6
    )


def known_future(kind: str, days: int = 395, ahead: int = 396) -> pd.DataFrame:
    """Thirty daily series of 13 months and the 13 months that follow."""
    time = pd.date_range(end="2026-11-30", periods=days).append(pd.date_range("2026-12-01", periods=ahead))
    frames = []
    for k in range(30):
        generator = np.random.default_rng([11, k])
        level = np.cumsum(generator.normal(0, 0.008, days + ahead))
        if kind == "level shift":
            level[generator.integers(100, 380) :] += generator.choice([-0.5, 0.5])
        if kind == "growth":
            level += np.arange(days + ahead) / 365 * np.log(1.4)
        frames.append(
            pd.DataFrame(
                {"time": time, "workload": f"{kind} {k:02d}", "quantity": 1000 * np.exp(level + generator.normal(0, 0.05, days + ahead))}
            )
        )
    return pd.concat(frames)


def test_quarter_bands_hold_on_known_futures():
    """Ninety series, totals one to four quarters ahead: nominal 90 % bands hold 85 to 98 % of all, and 75 % under undamped growth."""
    full = pd.concat([known_future(kind) for kind in ("walk", "level shift", "growth")])
    forecast = forecast_demand(full[full["time"] < "2026-12-01"], None, None, DemandAssumptions(horizon_quarters=4, paths=200))
    actual = full.groupby(["workload", full["time"].dt.to_period("Q").astype(str).rename("quarter")])["quantity"].sum()
    table = forecast.quantiles.pivot_table(index=["workload", "quarter"], columns="quantile", values="quantity")
    outcome = actual.reindex(table.index)
    inside = (outcome >= table[0.05]) & (outcome <= table[0.95])
    assert 0.85 <= inside.mean() <= 0.98
    assert inside.groupby(inside.index.get_level_values("workload").str.rstrip("0123456789")).mean().min() >= 0.75


@pytest.mark.parametrize("monthly", [False, True])
def test_two_yearly_cycles_give_the_season(monthly):
    """A season of 25 % over three years: its swing between quarters comes back, and the forecast is not called extrapolated."""
    time = pd.date_range("2023-12-01", "2026-11-30")
    season = 0.25 * np.sin(2 * np.pi * (time.dayofyear.to_numpy() - 60) / 365.25)
    usage = pd.DataFrame(
        {"time": time, "workload": "w", "quantity": 1000 * np.exp(season + np.random.default_rng(2).normal(0, 0.03, len(time)))}
    )
    if monthly:
        usage = (
            usage.groupby(usage["time"].dt.to_period("M").dt.to_timestamp())["quantity"]
            .sum()
            .rename_axis("time")
            .reset_index()
            .assign(workload="w")
        )
    forecast = forecast_demand(usage, None, None, A)
    median = forecast.quantiles[forecast.quantiles["quantile"] == 0.5].set_index("quarter")["quantity"]
    for quarter in ("2027Q1", "2027Q2", "2027Q3"):
        days = pd.date_range(quarter, periods=91)
        truth = 1000 * np.exp(0.25 * np.sin(2 * np.pi * (days.dayofyear.to_numpy() - 60) / 365.25)).mean()
        assert median[quarter] / (quarter_hours(quarter) / 24) == pytest.approx(truth, rel=0.06)
    assert not forecast.scores["extrapolated"].any()


def test_scores_are_kept(forecast):
    chosen = forecast.scores[forecast.scores["chosen"]]
    assert set(chosen["workload"]) == {"chat", "search"}
    assert {"naive", "ets", "theta", "arima", "combination"} <= set(forecast.scores["model"])
    assert forecast.scores["extrapolated"].all()


def test_nothing_to_forecast_is_an_error():
    with pytest.raises(CapplanError, match="no usage, no training run, no planner's forecast and no event"):
        forecast_demand(None, None, None, A)


def stated(**change) -> pd.DataFrame:
    rows = [
        (scenario, p, "serve", "us", quarter, 2190.0 * size)
        for scenario, p, size in (("low", 0.3, 1), ("mid", 0.5, 2), ("high", 0.2, 3))
        for quarter in ("2027Q1", "2027Q2")
    ]
    return pd.DataFrame(rows, columns=["scenario", "probability", "workload", "region", "quarter", "quantity"]).assign(**change)


def test_stated_demand():
    a = DemandAssumptions(horizon_quarters=2, hours_convention="average")
    answer = stated_demand(stated(), a)
    assert answer.blocks["hours"].tolist() == [2190.0, 2190.0]
    assert answer.paths.groupby("path")["probability"].first().tolist() == [0.2, 0.3, 0.5]  # high, low, mid
    median = answer.quantiles.query("quantile == 0.5")["quantity"].tolist()
    assert median == [4380.0, 4380.0]
    assert answer.quantiles.query("quantile == 0.1")["quantity"].tolist() == [2190.0, 2190.0]


def test_stated_demand_refuses_bad_probabilities():
    a = DemandAssumptions(horizon_quarters=2)
    with pytest.raises(CapplanError, match=r"sum to 0\.8"):
        stated_demand(stated()[lambda rows: rows["scenario"] != "high"], a)
    rows = stated()
    rows.loc[0, "probability"] = 0.31
    with pytest.raises(CapplanError, match="low state more than one probability"):
        stated_demand(rows, a)
    with pytest.raises(CapplanError, match="no row lies in the horizon"):
        stated_demand(stated(quarter="2031Q1"), a)


def test_stated_demand_names_what_it_fills_and_drops():
    rows = pd.concat([stated(), stated(quarter="2029Q1").drop_duplicates("scenario")]).iloc[1:]
    answer = stated_demand(rows, DemandAssumptions(horizon_quarters=2))
    assert any("2029Q1" in note for note in answer.notes)
    assert any("1 combinations" in note for note in answer.notes)
    assert answer.paths.query("path == 1 and quarter == '2027Q1'")["quantity"].item() == 0


def test_backtest_tells_what_it_can_test(usage):
    answer = backtest_demand(usage, A.model_copy(update={"paths": 50}), origins=2, usd_per_unit={"chat": 2.0, "search": 1.0})
    assert (answer.totals["lower"] <= answer.totals["upper"]).all()
    assert set(answer.totals["workload"]) == {"all", "chat", "search"}
    rows = answer.totals[answer.totals["grain"] == "month"].set_index(["workload", "origin", "ahead"])["actual"]
    assert rows["all"].to_numpy() == pytest.approx(2 * rows["chat"].to_numpy() + rows["search"].to_numpy())
    december = usage[(usage["workload"] == "chat") & (usage["time"].dt.to_period("M") == "2026-09")]["quantity"].sum()
    assert december == pytest.approx(rows["chat"].loc[pd.Timestamp("2026-09-01"), 1], rel=1e-9)
    assert any("extrapolated, not backtested" in note for note in answer.notes)


def test_measures_of_the_backtest_are_those_of_the_field():
    """Two totals of 100 and 200, said 110 and 180, the naive forecast 90 and 90, usual step 20."""
    totals = pd.DataFrame(
        {"workload": "w", "actual": [100.0, 200.0], "median": [110.0, 180.0], "naive": [90.0, 90.0], "scale": 20.0, "pinball": [3.0, 5.0]}
    ).assign(covered=[True, False], error_share=[0.1, -0.1])
    row = summarise(totals, ["workload"]).iloc[0]
    assert row["smape"] == pytest.approx(100 * (10 / 210 + 20 / 380))
    assert row["mase"] == pytest.approx(0.75)
    naive_smape, naive_mase = 100 * (10 / 190 + 110 / 290), 3.0
    assert row["owa"] == pytest.approx(0.5 * (row["smape"] / naive_smape + 0.75 / naive_mase))
    assert row["value_added_share"] == pytest.approx(0.75)
    assert row["wape_share"] == pytest.approx(0.1)
    assert row["bias_share"] == pytest.approx(-10 / 300)
    assert (row["coverage_share"], row["pinball"], row["run_share"], row["crawl_share"]) == (0.5, 4.0, 1.0, 1.0)


def test_three_years_test_totals_eight_quarters_ahead():
    time = pd.date_range(end="2026-11-30", periods=3 * 365 + 2)
    level = np.cumsum(np.random.default_rng(3).normal(0, 0.005, len(time)))
    usage = pd.DataFrame({"time": time, "workload": "w", "quantity": 1000 * np.exp(level)})
    answer = backtest_demand(usage, A, origins=3)
    assert set(answer.summary.query("grain == 'quarter'")["ahead"]) == set(range(1, 9))
    assert set(answer.summary.query("grain == 'month'")["ahead"]) == set(range(1, 13))
    assert not any("extrapolated" in note for note in answer.notes)
    assert "At quarter 8, the farthest that could be tested," in answer.headline
    assert answer.pooled["owa"].notna().all()
    models = set(forecast_demand(usage, None, None, A).scores["model"])
    assert {"naive", "seasonal naive", "mstl", "ets", "theta", "arima", "combination"} <= models


def test_backtest_of_a_short_history_claims_nothing():
    answer = backtest_demand(hourly(days=20), A)
    assert answer.summary.empty
    assert "nothing here may be called backtested" in answer.headline
