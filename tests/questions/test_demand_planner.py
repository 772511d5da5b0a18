"""A planner's own forecast: taken as it is, month by month, refused where it contradicts itself, and scored beside ours."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import Stated, forecast_demand
from capplan.questions.demand.planner import PlannedMonth

#: With 101 paths the 10 %, 50 % and 90 % quantiles are those of single paths.
A = DemandAssumptions(paths=101, load_blocks=2, horizon_quarters=2)
TIME = pd.date_range(end="2026-11-30", periods=500)
NOISE = np.random.default_rng(1).normal(0, 0.05, (2, 500))
USAGE = pd.concat(
    [
        pd.DataFrame({"time": TIME, "workload": "w", "region": region, "quantity": size * np.exp(noise)})
        for region, size, noise in zip(("us", "eu"), (1000.0, 500.0), NOISE, strict=True)
    ]
)
QUANTILES = (0.1, 0.5, 0.9)
AHEAD = pd.date_range("2027-01-01", periods=6, freq="MS")


def planned(months: pd.DatetimeIndex = AHEAD, values: tuple[float, ...] = (4e4, 6e4, 9e4), **change: object) -> pd.DataFrame:
    rows = [(month, quantile, value) for month in months for quantile, value in zip(QUANTILES, values, strict=True)]
    return pd.DataFrame(rows, columns=["month", "quantile", "quantity"]).assign(workload="w", region="any", **change)


def forecast(table: pd.DataFrame, usage: pd.DataFrame | None = USAGE):
    return forecast_demand(usage, None, None, A, stated=Stated(forecasts=table))


def test_stated_quantiles_are_those_of_the_paths():
    """Months of a workload in two regions: the sum has the stated quantiles, the regions keep their shares, and blocks add up to it."""
    answer = forecast(planned())
    months = forecast(planned().assign(region="us")).months
    for month in AHEAD:
        mine = months[(months["region"] == "us") & (months["month"] == month)].set_index("quantile")["quantity"]
        assert mine[[0.1, 0.5, 0.9]].to_numpy() == pytest.approx([4e4, 6e4, 9e4], rel=1e-9)
    totals = answer.paths.groupby(["quarter", "path"])["quantity"].sum().unstack("path")
    # A path's rank is much the same in neighbouring months, so a quarter's quantiles lie between those of months added up and the median.
    assert totals.quantile(0.5, axis=1).to_numpy() == pytest.approx([18e4, 18e4], rel=0.03)
    assert (totals.quantile(0.9, axis=1) <= 27e4 * (1 + 1e-9)).all()
    assert (totals.quantile(0.9, axis=1) > 19e4).all()
    by_region = answer.paths.groupby(["region", "path"])["quantity"].sum().unstack("region")
    assert (by_region["us"] / by_region["eu"]).median() == pytest.approx(2.0, rel=0.1)
    assert any("taken as it is" in note for note in answer.notes)


def test_months_that_are_not_stated_are_forecast_here():
    plain = forecast_demand(USAGE, None, None, A)
    part = forecast(planned(AHEAD[:1]))
    for name, same in (("2027-02-01", True), ("2027-01-01", False)):
        ours, theirs = (answer.months[answer.months["month"] == name]["quantity"].to_numpy() for answer in (plain, part))
        assert np.allclose(ours, theirs) == same
    assert any("1 of 6 months" in note and "the other 5 are forecast here" in note for note in part.notes)


def test_the_newest_statement_is_taken_and_a_later_one_is_unknown():
    table = pd.concat(
        [
            planned(made_on=pd.Timestamp("2026-06-01"), values=(1.0, 2.0, 3.0)),
            planned(made_on=pd.Timestamp("2026-11-01")),
            planned(made_on=pd.Timestamp("2027-02-01"), values=(5.0, 6.0, 7.0)),
        ]
    )
    answer = forecast(table)
    assert answer.quantiles.groupby("quantile")["quantity"].sum()[0.5] == pytest.approx(36e4, rel=0.05)
    assert any("18 rows of planner_forecasts were made after" in note for note in answer.notes)


def test_a_workload_without_history():
    answer = forecast(planned().assign(workload="new"), None)
    january = answer.months[answer.months["month"] == AHEAD[0]].set_index("quantile")["quantity"]
    assert january[[0.1, 0.5, 0.9]].to_numpy() == pytest.approx([4e4, 6e4, 9e4])
    alone = planned(values=(6e4, 6e4, 6e4)).assign(workload="new")
    sure = forecast(alone[alone["quantile"] == 0.5], None)
    assert sure.paths.groupby(["path", "quarter"])["quantity"].sum().to_numpy() == pytest.approx(18e4)
    assert any("no band" in note for note in sure.notes)


def test_quantiles_between_and_beyond_the_stated_ones():
    """A lognormal is given back exactly; a quantile of zero turns to the plain scale and stays at zero."""
    from scipy.special import ndtri

    probability = np.array([0.1, 0.5, 0.9])
    month = PlannedMonth("w", "any", None, AHEAD[0], probability, np.exp(3 + 0.4 * ndtri(probability)))
    share = np.array([0.02, 0.3, 0.7, 0.99])
    assert month.at(share) == pytest.approx(np.exp(3 + 0.4 * ndtri(share)))
    zero = PlannedMonth("w", "any", None, AHEAD[0], probability, np.array([0.0, 5.0, 9.0]))
    assert zero.at(np.array([0.01, 0.5])) == pytest.approx([0.0, 5.0])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (planned(values=(4e4, 6e4, 5e4)), r"w, 2027-01: P50 is 60,000 and P90 is 50,000, so they cross.*; and 1 more"),
        (planned().query("quantile != 0.5"), r"w, 2027-01: there is no median; state the quantile 0\.5"),
        (pd.concat([planned(AHEAD[:1]), planned(AHEAD[:1] + pd.Timedelta(days=3))]), "w, 2027-01: a quantile is stated twice"),
        (pd.concat([planned(), planned().assign(region="us")]), "w is stated as a whole and by region"),
    ],
    ids=["crossing", "no median", "twice", "whole and part"],
)
def test_what_contradicts_itself_is_one_clear_error(table, message):
    with pytest.raises(CapplanError, match=f"^planner_forecasts: {message}"):
        forecast(table)


def test_past_forecasts_are_scored_beside_ours():
    """Flat work of 1,500 a day: a planner who says so with a narrow band beats ours, one who says twice as much does not."""
    past = pd.date_range("2026-07-01", periods=4, freq="MS")
    good, bad = planned(past, (1485.0, 1502.0, 1519.0)), planned(past, (2985.0, 3000.0, 3015.0))
    for a_day, better in ((good, True), (bad, False)):
        table = a_day.assign(quantity=a_day["quantity"] * a_day["month"].dt.days_in_month)
        answer = forecast(table.assign(made_on=pd.Timestamp("2026-06-15")))
        row = answer.planner.iloc[0]
        assert (len(answer.planner), row["months"], row["nominal_inside_share"]) == (1, 4, pytest.approx(0.8))
        assert (row["planner_pinball"] < row["own_pinball"]) == better
        assert (row["planner_inside_share"] == 1.0) == better
        assert any(("better than this one" in note) and ("no better" in note) != better for note in answer.notes)
    days = USAGE.groupby(USAGE["time"].dt.to_period("M"))["quantity"].sum().loc["2026-07":"2026-10"].to_numpy()
    assert answer.planner["planner_error_share"].item() == pytest.approx((3000 * np.array([31, 31, 30, 31]) - days).mean() / days.mean())
    unknown = forecast(planned(past))
    assert unknown.planner.empty
