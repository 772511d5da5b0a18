"""Events and training runs: factors, levels, ramps, probabilities, windows; and what happens at the edges."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import forecast_demand, quarters
from capplan.questions.demand.events import Run, run_work

A = DemandAssumptions(horizon_quarters=4, paths=400, growth_band_share=0.0, load_blocks=2)
TIME = pd.date_range("2026-09-01", "2026-11-30 23:00", freq="h")
USAGE = pd.DataFrame({"time": TIME, "workload": "chat", "region": "any", "quantity": 10.0})
UNITS = pd.DataFrame({"workload": ["chat", "train"], "unit": ["requests", "exaflop"]})


def event(**change) -> pd.DataFrame:
    row = {"event_id": "e1", "workload": "chat", "date": pd.Timestamp("2027-04-01"), "kind": "launch", "factor": np.nan, "level": np.nan}
    return pd.DataFrame([{**row, "ramp_days": 0.0, "end": pd.NaT, "probability": 1.0, **change}])


def run(**change) -> pd.DataFrame:
    row = {
        "run_id": "r1",
        "workload": "train",
        "parameters": 7e10,
        "tokens": 1.5e13,
        "quantity": np.nan,
        "start": pd.Timestamp("2027-02-01"),
    }
    return pd.DataFrame(
        [{**row, "deadline": pd.Timestamp("2027-05-31"), "latest_start": pd.NaT, "probability": 1.0, "region": "us", **change}]
    )


def rates(events=None, runs=None, a=A, usage=USAGE, workload="chat") -> pd.Series:
    """Mean over paths of the work an hour, by quarter."""
    forecast = forecast_demand(usage, events, runs, a, UNITS)
    rows = forecast.paths[forecast.paths["workload"] == workload]
    hours = forecast.blocks.groupby("quarter")["hours"].sum()
    return rows.groupby(["path", "quarter"])["quantity"].sum().groupby("quarter").mean() / hours


def test_factor():
    assert rates(event(factor=3.0)).tolist() == pytest.approx([10, 30, 30, 30])


def test_level_is_a_day():
    assert rates(event(level=480.0)).tolist() == pytest.approx([10, 20, 20, 20])


def test_strength_scales_the_effect():
    assert rates(event(factor=3.0), a=A.model_copy(update={"event_strength": 0.5})).tolist() == pytest.approx([10, 20, 20, 20])
    assert rates(event(factor=3.0), a=A.model_copy(update={"event_strength": 0.0})).tolist() == pytest.approx([10, 10, 10, 10])


def test_deprecation_and_passing_events():
    assert rates(event(factor=0.0)).tolist() == pytest.approx([10, 0, 0, 0], abs=1e-9)
    assert rates(event(factor=2.0, end=pd.Timestamp("2027-06-30"))).tolist() == pytest.approx([10, 20, 10, 10])


def test_ramp_over_a_quarter_means_half_of_the_effect():
    assert rates(event(factor=3.0, ramp_days=91.0)).tolist() == pytest.approx([10, 20, 30, 30], rel=1e-3)


def test_probability_is_the_share_of_paths():
    forecast = forecast_demand(USAGE, event(factor=2.0, probability=0.3), None, A, UNITS)
    totals = forecast.paths[forecast.paths["quarter"] == "2027Q3"].groupby("path")["quantity"].sum() / 2208
    assert set(totals.round(6)) == {10.0, 20.0}
    assert (totals > 15).mean() == pytest.approx(0.3, abs=0.07)  # three standard errors of 400 paths


def test_what_history_has_seen_is_not_counted_again():
    assert rates(event(date=pd.Timestamp("2026-10-01"), factor=2.0)).tolist() == pytest.approx([10] * 4)
    ending = event(date=pd.Timestamp("2026-10-01"), factor=2.0, end=pd.Timestamp("2027-03-31"))
    assert rates(ending).tolist() == pytest.approx([10, 5, 5, 5])


def test_two_events_multiply():
    both = pd.concat([event(factor=2.0), event(event_id="e2", factor=1.5)])
    assert rates(both).tolist() == pytest.approx([10, 30, 30, 30])


def test_launch_of_something_new():
    assert rates(event(workload="train", level=240.0), workload="train").tolist() == pytest.approx([0, 10, 10, 10])
    assert rates(event(level=240.0), usage=None).tolist() == pytest.approx([0, 10, 10, 10])


def test_a_level_is_split_over_regions():
    usage = pd.concat([USAGE.assign(region="us", quantity=30.0), USAGE.assign(region="eu")])
    forecast = forecast_demand(usage, event(level=24 * 80.0), None, A, UNITS)
    last = forecast.quantiles.query("quarter == '2027Q4' and quantile == 0.5").set_index("region")["quantity"] / 2208
    assert last.to_dict() == pytest.approx({"eu": 20.0, "us": 60.0})


def test_events_outside_are_named():
    late, over = (
        event(date=pd.Timestamp("2029-01-01"), factor=2.0),
        event(event_id="e0", date=pd.Timestamp("2025-01-01"), end=pd.Timestamp("2025-02-01"), factor=9.0),
    )
    forecast = forecast_demand(USAGE, pd.concat([late, over]), None, A, UNITS)
    assert any("beyond the horizon" in note for note in forecast.notes)
    assert any("was over on 2025-02-01" in note for note in forecast.notes)


@pytest.mark.parametrize(("change", "word"), [({}, "neither"), ({"factor": 2.0, "level": 3.0}, "both")])
def test_contradicting_events_are_refused(change, word):
    with pytest.raises(CapplanError, match=f"e1 states {word} of factor and level"):
        forecast_demand(USAGE, event(**change), None, A, UNITS)


def test_a_run_is_six_operations_a_parameter_and_token():
    # Llama-2-70B-like: 6 x 7e10 x 1.5e13 / 1e18 = 6.3e6 exaflop, 120 days from 1 February to 31 May.
    forecast = forecast_demand(USAGE, None, run(), A, UNITS)
    totals = forecast.paths[forecast.paths["workload"] == "train"].groupby(["path", "quarter"])["quantity"].sum().unstack()
    assert totals.sum(axis=1).to_numpy() == pytest.approx(6.3e6)
    assert totals["2027Q1"].to_numpy() == pytest.approx(6.3e6 * 59 / 120)
    assert totals["2027Q3"].max() == 0


def test_runs_need_no_usage():
    assert rates(None, run(quantity=240.0), usage=None, workload="train")["2027Q1"] == pytest.approx(240 * 59 / 120 / 2160)


def test_a_run_may_not_happen_and_may_start_later_but_meets_its_deadline():
    moving = run(probability=0.6, latest_start=pd.Timestamp("2027-04-30"), quantity=1000.0)
    forecast = forecast_demand(USAGE, None, moving, A, UNITS)
    totals = forecast.paths[forecast.paths["workload"] == "train"].groupby(["path", "quarter"])["quantity"].sum().unstack()
    done = totals.sum(axis=1)
    assert (done > 0).mean() == pytest.approx(0.6, abs=0.075)
    assert done[done > 0].to_numpy() == pytest.approx(1000.0)
    assert totals["2027Q3"].max() == 0
    assert totals.loc[done > 0, "2027Q1"].std() > 100


def test_a_run_adds_to_usage_and_says_so():
    forecast = forecast_demand(
        USAGE,
        None,
        run(workload="chat", quantity=2160.0, start=pd.Timestamp("2027-01-01"), deadline=pd.Timestamp("2027-03-31"), region="any"),
        A,
        UNITS,
    )
    total = forecast.quantiles.query("workload == 'chat' and quarter == '2027Q1' and quantile == 0.5")["quantity"].item()
    assert total == pytest.approx(11 * 2160)
    assert any("come on top of the usage of chat" in note for note in forecast.notes)


def test_faulty_and_distant_runs():
    with pytest.raises(CapplanError, match="r1 states neither quantity nor parameters"):
        forecast_demand(USAGE, None, run(tokens=np.nan), A, UNITS)
    with pytest.raises(CapplanError, match="workload chat is in requests"):
        forecast_demand(USAGE, None, run(workload="chat"), A, UNITS)
    forecast = forecast_demand(USAGE, None, run(start=pd.Timestamp("2030-01-01"), deadline=pd.Timestamp("2030-02-01")), A, UNITS)
    assert any("lies outside the horizon" in note for note in forecast.notes)


def test_an_event_without_anything_to_change_is_named():
    forecast = forecast_demand(USAGE, event(workload="chatt", factor=2.0), None, A, UNITS)
    assert any("e1 multiplies chatt, which has neither usage" in note for note in forecast.notes)
    assert not any("no effect" in note for note in forecast_demand(USAGE, event(factor=2.0), None, A, UNITS).notes)


def test_a_constant_history_says_so():
    assert any("chat: constant in all its history" in note for note in forecast_demand(USAGE, None, None, A, UNITS).notes)


def test_figures_that_are_kept_are_those_that_are_computed():
    """A workload grows, an event and a run come and move, hours are ranked by speeds: to the last digit as if each was asked alone."""
    a = A.model_copy(update={"paths": 40})
    two = pd.concat([USAGE, USAGE.assign(workload="train", quantity=5.0 + np.arange(len(TIME)) % 24)], ignore_index=True)
    more = two.assign(quantity=two["quantity"] * np.where(two["workload"] == "chat", 1.3, 1.0))
    speeds = pd.DataFrame({"workload": ["chat", "train"], "accelerator": "H100", "work_per_accelerator_hour": [1.0, 90.0]})
    one, later = event(factor=3.0, probability=0.5), event(factor=3.0, probability=0.5, date=pd.Timestamp("2027-07-01"))
    slipped = run(start=pd.Timestamp("2027-05-01"), deadline=pd.Timestamp("2027-08-31"))
    asked = [
        *((two, None, None, None), (more, None, None, None), (two, one, None, None), (two, later, None, None)),
        *((two, one, run(), None), (two, one, slipped, None), (two, None, run(), speeds), (two, None, None, None)),
    ]
    found = [forecast_demand(rows, events, runs, a, UNITS, speed) for rows, events, runs, speed in asked]
    for (rows, events, runs, speed), kept in zip(asked, found, strict=True):
        quarters._figures.clear()
        alone = forecast_demand(rows, events, runs, a, UNITS, speed)
        for name in ("paths", "peaks", "months", "duration", "pooling"):
            pd.testing.assert_frame_equal(getattr(kept, name), getattr(alone, name), check_exact=True)


@given(arrays(float, (4, 30), elements=st.sampled_from([0.0, -0.0, 1.0, 2.5, 1e9])), st.integers(0, 2**32 - 1))
def test_hours_are_ranked_from_the_busiest_on_and_equal_ones_as_they_come(few, seed):
    for total in (few, np.random.default_rng(seed).random((4, 30))):
        by_path = quarters._ranked(total) - 30 * np.arange(4)[:, None]
        assert by_path.tolist() == [sorted(range(30), key=lambda hour, path=path: -total[path, hour]) for path in range(4)]


def test_a_run_does_all_its_work_however_late_it_starts_and_within_a_day_at_least():
    days = {"start": pd.Timestamp("2027-01-01"), "latest_start": pd.Timestamp("2027-01-09"), "end": pd.Timestamp("2027-01-04")}
    run = Run(name="r", workload="w", region="us", quantity=480.0, probability=1.0, **days)
    times = np.arange(np.datetime64("2027-01-01"), np.datetime64("2027-01-21"), np.timedelta64(1, "h"))
    work = run_work(run, times, 64, seed=1)
    assert work.sum(axis=1) == pytest.approx(np.full(64, 480.0))
    # no less than a day is left, so no hour does more than a day's twenty-fourth
    assert work.min() >= 0.0
    assert work.max() <= 20.0 + 1e-9
    assert (work[:, times >= np.datetime64("2027-01-05")] > 0).any()
