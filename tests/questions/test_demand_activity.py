"""Starts, ends, pauses, strays and regular runs: zeros and missing rows mean the same, what has ended stays ended."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import forecast_demand
from capplan.questions.demand.activity import find_activity, find_rhythm

A = DemandAssumptions(paths=60, load_blocks=2)
GENERATOR = np.random.default_rng(1)
DENSE = 1000 * np.exp(GENERATOR.normal(0, 0.1, 400))
HOURS = np.where(np.arange(2400) % 24 < 8, 0.0, 10 + 5 * np.sin(np.arange(2400) * 2 * np.pi / 24))
KINDS = {
    "dense": (DENSE, "D"),
    "ended": (np.r_[DENSE, np.zeros(40)], "D"),
    "intermittent": (np.where(GENERATOR.random(400) < 0.08, 100.0, 0.0), "D"),
    "office hours": (HOURS[:-7], "h"),
    "jobs": ((GENERATOR.random(2400) < 0.05) * 3.0, "h"),
    "silent for ten days": (np.r_[DENSE, np.zeros(10)], "D"),
}


def table(values: np.ndarray, freq: str = "D", end: str = "2026-12-01", workload: str = "w") -> pd.DataFrame:
    time = pd.date_range(end=pd.Timestamp(end), periods=len(values) + 1, freq=freq)[:-1]
    return pd.DataFrame({"time": time, "workload": workload, "quantity": values})


def paths(usage: pd.DataFrame) -> np.ndarray:
    return forecast_demand(usage, None, None, A).paths.query("workload == 'w'")["quantity"].to_numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_stray_hours_change_nothing(kind):
    """Zeros before the start, missing rows instead of zeros at either end, and one stray hour long before: the same paths to the bit."""
    values, freq = KINDS[kind]
    usage = table(values, freq)
    pad = table(np.zeros(900), freq, end=usage["time"].min())
    stray = pad.copy()
    stray.loc[3, "quantity"] = values.max() / 24
    work = usage.loc[usage["quantity"] > 0, "time"]
    bare = usage[usage["time"].between(work.min(), work.max())]
    expected = paths(usage)
    for other in (pd.concat([pad, usage]), bare, pd.concat([stray, usage])):
        assert np.array_equal(paths(other), expected)
    beside = table(np.full(400, 7.0), workload="other")
    assert np.array_equal(paths(pd.concat([usage, beside])), paths(pd.concat([bare, beside])))


@pytest.mark.parametrize("days", [40, 90, 180])
def test_what_has_ended_stays_ended_and_is_asked_about(days):
    forecast = forecast_demand(table(np.r_[DENSE, np.zeros(days)]), None, None, A)
    assert forecast.paths["quantity"].sum() == 0
    assert any(f"nothing for {days} days" in note and "ended?" in note and "last_day" in note for note in forecast.notes)


def test_one_stray_hour_keeps_nothing_alive():
    """64 accelerators until the end of July, nothing for 118 days, then one accelerator for an hour."""
    time = pd.date_range("2025-10-01", "2026-11-27 10:00", freq="h")
    usage = pd.DataFrame({"time": time, "workload": "w", "quantity": np.where(time < "2026-08-01", 64.0, 0.0)})
    usage.loc[len(usage) - 1, "quantity"] = 1.0
    forecast = forecast_demand(usage, None, None, A)
    assert forecast.paths["quantity"].sum() == 0
    assert any("stray" in note for note in forecast.notes)


def test_a_stated_last_day_answers_the_question():
    usage = table(np.r_[DENSE, np.zeros(40)])
    known = pd.DataFrame({"workload": ["w"], "unit": "requests", "last_day": [pd.Timestamp("2027-06-30")]})
    alive = forecast_demand(usage, None, None, A, known)
    total = alive.paths.groupby(["quarter"])["quantity"].sum()
    assert total["2027Q1"] > 0
    assert total["2027Q2"] > 0
    assert total["2027Q3":].sum() == 0
    ended = forecast_demand(usage, None, None, A, known.assign(last_day=pd.Timestamp("2026-10-31")))
    assert ended.paths["quantity"].sum() == 0
    assert any("ended on 2026-10-31 as stated" in note for note in ended.notes)
    with pytest.raises(CapplanError, match=r"w ends on 2026-09-30 and was used until 2026-10-21.*last_day"):
        forecast_demand(usage, None, None, A, known.assign(last_day=pd.Timestamp("2026-09-30")))


def runs(period: int, count: int = 15, hours: int = 24, size: float = 12.0) -> pd.DataFrame:
    time = pd.date_range(end="2026-11-02 23:00", periods=24 * period * (count - 1) + 24, freq="h")
    hour = np.arange(len(time))
    return pd.DataFrame({"time": time, "workload": "w", "quantity": np.where(hour % (24 * period) < hours, size, 0.0)})


@pytest.mark.parametrize(("period", "hours"), [(28, 24), (28, 60), (14, 12), (10, 24), (61, 24)])
def test_regular_runs_go_on_at_their_own_times(period, hours):
    """Each quarter holds the runs that are due in it, at their size."""
    usage = runs(period, hours=hours)
    forecast = forecast_demand(usage, None, None, A.model_copy(update={"growth_band_share": 0.0}))
    table_ = forecast.quantiles.query("quantile == 0.5").set_index("quarter")["quantity"]
    start = usage["time"].min()
    due = start + pd.to_timedelta(np.arange(200) * period, unit="D")
    for quarter, said in table_.items():
        hour = pd.DatetimeIndex([at + pd.Timedelta(hours=k) for at in due for k in range(hours)])
        assert said == pytest.approx(12 * (hour.to_period("Q").astype(str) == quarter).sum())
    assert any(f"a batch run every {period} days" in note for note in forecast.notes)


def test_runs_of_the_month_and_missed_runs_are_regular_too():
    monthly = np.zeros(730)
    first = pd.date_range("2024-12-01", periods=730)
    monthly[first.day == 1] = 5.0
    begun = np.flatnonzero(monthly)
    rhythm = find_rhythm(monthly[begun[0] : begun[-1] + 1])
    assert rhythm.period_days == pytest.approx(30.4, abs=0.1)
    missed = np.tile(np.r_[5.0, np.zeros(13)], 20)
    missed[14 * 7] = 0.0
    rhythm = find_rhythm(missed[:-13])
    assert (rhythm.period_days, rhythm.held_share) == (14.0, pytest.approx(18 / 19))
    assert find_rhythm(np.where(np.random.default_rng(2).random(400) < 0.05, 1.0, 0.0)) is None


def test_irregular_runs_are_not_overrated():
    """Sixty series of runs of a day, on average every 25 days at random: the mean of all forecasts is the mean of the process."""
    generator = np.random.default_rng(3)
    a = DemandAssumptions(paths=60, load_blocks=1, horizon_quarters=2, growth_band_share=0.0)
    frames = []
    for k in range(60):
        gaps = 5 + generator.exponential(20, 40)
        days = np.zeros(420)
        at = np.cumsum(gaps).astype(int)
        days[at[at < 420]] = 240.0
        frames.append(table(days, workload=f"w{k:02d}"))
    forecast = forecast_demand(pd.concat(frames), None, None, a)
    said = forecast.paths.groupby(["quarter"])["quantity"].sum() / 60 / 60
    assert said["2027Q2"] / 91 == pytest.approx(240 / 25, rel=0.1)


def test_pauses_and_small_spells():
    year = np.full(365, 10.0)
    paused = np.r_[year, np.zeros(60), year]
    activity = find_activity(paused)
    assert activity.pauses == ((365, 424),)
    assert (activity.first, activity.last, activity.strays) == (0, 789, 0)
    assert find_activity(np.zeros(9)) is None
    assert find_activity(np.full(9, np.nan)) is None
    mid = forecast_demand(table(paused), None, None, A.model_copy(update={"growth_band_share": 0.0, "season_band_share": 0.0}))
    median = mid.quantiles.query("quarter == '2027Q1' and quantile == 0.5")["quantity"].item()
    assert median == pytest.approx(900, rel=0.02)
    assert any("the pause is not counted" in note for note in mid.notes)
