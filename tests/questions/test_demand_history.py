"""Repairs of usage: every fault is mended with a note or refused with a message, and never gives a silent NaN."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import forecast_demand
from capplan.questions.demand.demand_rows import demand_rows
from capplan.questions.demand.history import read_histories

A = DemandAssumptions(horizon_quarters=2, paths=20, growth_band_share=0.0, season_band_share=0.0)


def rows(quantity, freq: str = "h", end: str = "2026-12-01", **columns) -> pd.DataFrame:
    time = pd.date_range(end=pd.Timestamp(end), periods=len(quantity) + 1, freq=freq)[:-1]
    return pd.DataFrame({"time": time, "workload": "chat", "region": "any", "quantity": np.asarray(quantity, dtype=float), **columns})


def total(usage: pd.DataFrame, a: DemandAssumptions = A) -> tuple[float, tuple[str, ...]]:
    """Median of the first quarter in units an hour, and the notes."""
    forecast = forecast_demand(usage, None, None, a)
    assert np.isfinite(forecast.paths["quantity"]).all()
    return forecast.quantiles.query("quarter == '2027Q1' and quantile == 0.5")["quantity"].item() / 2160, forecast.notes


FLAT = np.full(24 * 70, 5.0)


@pytest.mark.parametrize(
    ("freq", "count", "per_hour"),
    [("10min", 144 * 14, 6), ("15min", 96 * 70, 4), ("h", 24 * 70, 1), ("6h", 4 * 70, 1 / 6), ("D", 200, 1 / 24), ("7D", 60, 1 / 168)],
)
def test_every_interval_length_gives_the_same_rate(freq, count, per_hour):
    value, _ = total(rows(np.full(count, 10.0), freq))
    assert value == pytest.approx(10 * per_hour, rel=1e-6)


def test_months_are_weighted_by_their_days():
    time = pd.date_range("2024-12-01", periods=24, freq="MS")
    usage = pd.DataFrame({"time": time, "workload": "chat", "region": "any", "quantity": 24.0 * time.days_in_month})
    value, _ = total(usage)
    assert value == pytest.approx(1.0, rel=1e-6)


def test_gaps_are_filled_and_named():
    usage = rows(FLAT).drop(index=range(300, 360))
    value, notes = total(usage)
    assert value == pytest.approx(5.0)
    assert any("60 of 1680 intervals are missing" in note for note in notes)


def test_a_sparse_table_means_no_work():
    keep = np.random.default_rng(1).random(len(FLAT)) < 0.2
    usage = rows(FLAT)[keep]
    value, notes = total(usage)
    assert value == pytest.approx(1.0, rel=0.15)
    assert any("intervals without work" in note for note in notes)


def test_duplicates_keep_the_largest():
    usage = pd.concat([rows(FLAT), rows(FLAT).assign(quantity=4.0)])
    value, notes = total(usage)
    assert value == pytest.approx(5.0)
    assert any("repeat a time" in note for note in notes)


def test_mixed_intervals_are_summed():
    fine, coarse = rows(np.full(24 * 35 * 6, 1.0), "10min"), rows(np.full(24 * 35, 6.0), "h", end="2026-10-27")
    value, notes = total(pd.concat([coarse, fine]))
    assert value == pytest.approx(6.0, rel=1e-6)
    assert any("different length" in note for note in notes)


def test_future_negative_and_infinite_rows():
    late = rows(np.full(48, 500.0), end="2027-01-05")
    bad = rows(FLAT)
    bad.loc[10, "quantity"] = -3.0
    bad.loc[11, "quantity"] = np.inf
    value, notes = total(pd.concat([bad, late]))
    assert value == pytest.approx(5.0, rel=1e-3)
    assert any("48 usage rows lie after" in note for note in notes)
    assert any("1 negative quantities" in note for note in notes)
    assert any("no finite quantity" in note for note in notes)


def test_a_series_that_ended_has_no_demand():
    other = rows(FLAT).assign(workload="alive")
    ended = rows(FLAT, end="2026-09-15")
    forecast = forecast_demand(pd.concat([other, ended]), None, None, A)
    assert forecast.paths.query("workload == 'chat'")["quantity"].sum() == 0
    assert any("chat" in note and "taken as ended" in note for note in forecast.notes)


def test_a_monthly_series_that_ended_and_old_usage():
    time = pd.date_range("2024-01-01", periods=24, freq="MS")
    usage = pd.DataFrame({"time": time, "workload": "alive", "quantity": 31.0})
    forecast = forecast_demand(pd.concat([usage, usage.iloc[:12].assign(workload="gone")]), None, None, A)
    assert forecast.paths.query("workload == 'gone'")["quantity"].sum() == 0
    assert forecast.paths.query("workload == 'alive'")["quantity"].min() > 0
    assert any("gone" in note and "taken as ended" in note for note in forecast.notes)
    assert any("days older than the plan" in note for note in forecast.notes)


def test_usage_that_ended_long_before_the_plan_is_refused():
    """A year and a half is bridged with a note; more is one clear error that says what came and what to do."""
    time = pd.date_range("2023-01-01", "2025-06-15")
    usage = pd.DataFrame({"time": time, "workload": "w", "quantity": 5.0})
    assert any("days older than the plan" in note for note in forecast_demand(usage, None, None, A).notes)
    message = r"usage: the newest row with work ends 2025-05-01, 579 days before the plan's day 2026-12-01; .* 548.*set as_of"
    with pytest.raises(CapplanError, match=message):
        forecast_demand(usage[usage["time"] < "2025-05-01"], None, None, A)


def test_a_last_day_before_the_last_month_of_use_is_refused():
    time = pd.date_range("2024-01-01", "2026-11-01", freq="MS")
    usage = pd.DataFrame({"time": time, "workload": "w", "quantity": 5.0})
    ends = pd.DataFrame({"workload": ["w"], "unit": "requests", "last_day": [pd.Timestamp("2026-10-31")]})
    with pytest.raises(CapplanError, match=r"w ends on 2026-10-31 and was used until 2026-11-30.*move last_day"):
        forecast_demand(usage, None, None, A, ends)
    forecast_demand(usage, None, None, A, ends.assign(last_day=pd.Timestamp("2026-11-10")))


@pytest.mark.parametrize("quantity", [[7.0], [7.0] * 3, [7.0] * 30, [0.0] * 500, [0.0] * 499 + [3.0]])
def test_short_and_empty_histories_never_fail(quantity):
    value, notes = total(rows(quantity))
    assert value >= 0
    assert notes


def test_single_rows_and_hours_carry_their_rate():
    value, notes = total(rows([7.0]))
    assert value == pytest.approx(7.0 / 24)
    assert any("taken as the work of a day" in note for note in notes)
    value, notes = total(rows([7.0] * 3))
    assert value == pytest.approx(7.0)
    assert any("less than a day" in note for note in notes)


def test_intermittent_demand_keeps_its_mean_and_swings():
    generator = np.random.default_rng(5)
    usage = rows(np.where(generator.random(360) < 0.08, 240.0, 0.0), "D")
    forecast = forecast_demand(usage, None, None, A.model_copy(update={"paths": 200}))
    mean = forecast.paths.groupby(["path", "quarter"])["quantity"].sum().mean() / 90
    assert mean == pytest.approx(usage["quantity"].mean(), rel=0.15)
    assert any("intermittent demand; its rate is that of" in note for note in forecast.notes)
    assert {"tsb", "mean"} <= set(forecast.scores["model"])


def test_a_queue_counts_once_and_refused_work_counts():
    usage = rows([10.0, 10.0, 10.0, 16.0], queued_quantity=[0.0, 6.0, 6.0, 0.0], refused_quantity=[0.0, 0.0, 2.0, 0.0])
    table = demand_rows(usage, A, [])
    assert table["demand"].tolist() == [10.0, 16.0, 12.0, 10.0]
    half = demand_rows(usage, A.model_copy(update={"unmet_share": 0.5}), [])
    assert half["demand"].tolist() == [10.0, 13.0, 11.0, 13.0]
    # All the queued work was served in the end: with the refused two, demand is served plus refused.
    assert table["demand"].sum() == usage["quantity"].sum() + 2


def test_unmet_demand_is_shown():
    usage = rows(FLAT, refused_quantity=np.full(len(FLAT), 1.0))
    forecast = forecast_demand(usage, None, None, A)
    assert forecast.unmet["unmet_share"].item() == pytest.approx(1 / 6)
    assert any("capacity hid" in note for note in forecast.notes)
    assert forecast.quantiles.query("quarter == '2027Q1' and quantile == 0.5")["quantity"].item() == pytest.approx(6 * 2160)


def test_a_ceiling_is_flagged():
    generator = np.random.default_rng(2)
    _, notes = total(rows(np.minimum(generator.normal(5, 1, 24 * 70), 6.0)))
    assert any("stands at its maximum" in note and "inferred" in note for note in notes)


def test_zones_are_turned_into_utc():
    usage = rows(FLAT)
    zoned = usage.assign(time=usage["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"))
    assert demand_rows(zoned, A, [])["time"].tolist() == demand_rows(usage, A, [])["time"].tolist()


def test_weekdays_are_known_from_two_weeks():
    time = pd.date_range(end="2026-11-30 23:00", periods=24 * 14, freq="h")
    usage = pd.DataFrame({"time": time, "workload": "chat", "region": "any", "quantity": np.where(time.dayofweek < 5, 10.0, 2.0)})
    history = read_histories(usage, A)[0][0]
    assert history.cadence == "day"
    assert history.weekday_factor[:5] / history.weekday_factor[5:].mean() == pytest.approx([5.0] * 5, rel=0.05)
    value, _ = total(usage)
    assert value == pytest.approx((5 * 10 + 2 * 2) / 7, rel=0.03)
