"""The growth of each workload on the page: kinds, what they would mean, what was tested, and one note on what was not."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.outputs.views.demand_growth import growth_picture, growth_table
from capplan.questions.demand import forecast_demand, stated_demand

A = DemandAssumptions(load_blocks=1, paths=100)


def usage(days: int, *names: str) -> pd.DataFrame:
    time = pd.date_range(end="2026-11-30", periods=days)
    size = 1000 * np.exp(0.3 * np.arange(days) / 365 + np.random.default_rng(1).normal(0, 0.1, (len(names), days)))
    return pd.concat([pd.DataFrame({"time": time, "workload": name, "quantity": own}) for name, own in zip(names, size, strict=True)])


@pytest.fixture(scope="module")
def forecast():
    return forecast_demand(pd.concat([usage(1700, "long"), usage(500, "young")]), None, None, A)


def test_kinds_and_what_they_would_mean(forecast):
    table = growth_table(forecast, pd.DataFrame({"workload": ["long"], "work_per_accelerator_hour": [2.0]}))
    middle = forecast.quantiles[forecast.quantiles["quantile"] == 0.5].set_index(["workload", "quarter"])["quantity"]
    assert (table["quarter"] == "2028Q4").all()
    for row in table.itertuples():
        median = middle[row.workload, "2028Q4"]
        assert row.quantity == pytest.approx(median * row.times_median)
        assert abs(row.cases_below_share - 0.5) < 0.03 or (row.cases_below_share > 0.5) == (row.times_median > 1)
    long = table[table["workload"] == "long"]
    hours = forecast.blocks.query("quarter == '2028Q4'")["hours"].sum()
    assert long["accelerators_more"].to_numpy() == pytest.approx((long["quantity"] - middle["long", "2028Q4"]) / hours / 2.0)
    assert table.loc[table["workload"] == "young", "accelerators_more"].isna().all()
    assert (long["believed_share"] == 1.0).all()
    assert table.loc[table["workload"] == "young", "believed_share"].between(0.2, 0.6).all()
    # The courses end where the table says.
    ends = forecast.courses.groupby(["workload", "kind"])["times_median"].apply(lambda part: part.tail(3).mean())
    assert ends[list(zip(table["workload"], table["kind"], strict=True))].to_numpy() == pytest.approx(table["times_median"].to_numpy())


def test_tests_by_quarter_and_one_note_for_all_that_were_not_tested(forecast):
    table = forecast.outlook.drop_duplicates("workload").set_index("workload")
    assert table.loc["long", "tests_quarter_8"] > 0
    assert (table["inside_quarter_1"] <= table["tests_quarter_1"]).all()
    notes = [note for note in forecast.notes if "Not tested" in note]
    assert len(notes) == 1
    assert "young (" in notes[0]
    assert "long (" not in notes[0]
    assert not any("growth is" in note and "sure" in note for note in forecast.notes)


def test_a_panel_for_each_workload_with_its_kind_and_tests(forecast):
    svg = growth_picture(forecast, ("long", "young"))["growth"].svg
    words = " ".join(svg.split())
    for text in ("long: growth", "young: growth", "at quarter 8", "If only this kind of growth held", "Measured"):
        assert text in words, text
    many = forecast_demand(usage(400, *(f"w{k:02d}" for k in range(14))), None, None, A.model_copy(update={"paths": 20}))
    picture = growth_picture(many, tuple(f"w{k:02d}" for k in range(14)))["growth"].svg
    assert "w11: growth" in picture
    assert "w12: growth" not in picture
    assert "2 others are in the table" in " ".join(picture.split())


def test_stated_demand_has_no_growth():
    rows = [("s", 1.0, "w", "any", quarter, 5.0) for quarter in ("2027Q1", "2027Q2")]
    table = pd.DataFrame(rows, columns=["scenario", "probability", "workload", "region", "quarter", "quantity"])
    stated = stated_demand(table, DemandAssumptions(horizon_quarters=2))
    assert growth_table(stated, None).empty
    assert growth_picture(stated, ("w",)) == {}
