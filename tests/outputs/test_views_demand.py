"""The view of demand: picks, quantiles, past forecasts, and what moves without a new fit."""

import pandas as pd
import pytest

from capplan.answers import demand as answers_demand
from capplan.errors import ScenarioError
from capplan.outputs.lab.controls import control_for
from capplan.outputs.views.demand import show_demand
from capplan.questions.demand import fitting
from tests.conftest import example_book


@pytest.fixture(scope="module")
def book():
    return example_book()


@pytest.fixture(scope="module")
def scenario(book):
    return book.scenario_with(paths=20, horizon_quarters=4, backtest_origins=1)


@pytest.fixture(scope="module")
def view(book, scenario):
    return show_demand(book, scenario)


def test_fan_load_duration_and_backtest_are_drawn(view):
    assert list(view.charts) == ["demand", "coverage", "demand_others", "growth", "load_duration", "backtest"]
    assert {"mase", "smape", "owa", "bias_share", "value_added_share", "inside_90_percent_band_share"} <= set(view.details["accuracy"])
    assert {"pinball", "within_12_percent_share", "within_15_percent_share", "within_20_percent_share"} <= set(view.details["backtest"])
    assert "all" in set(view.details["backtest"]["workload"]), "spend is tested too"
    assert any("no price of a unit is known" in note for note in view.notes)
    assert "<table" in view.detail("accuracy").to_html()
    assert {"kind", "probability", "times_median", "inside_quarter_1", "inside_quarter_4", "inside_quarter_8"} <= set(
        view.details["growth"]
    )
    assert (view.details["growth"].groupby(["workload", "region"])["probability"].sum() <= 1 + 1e-9).all()


def panels(chart):
    return list(dict.fromkeys(row["series"] for rows in chart.spec["datasets"].values() for row in rows if row.get("series")))


def test_the_first_picture_holds_the_workloads_that_need_most_accelerator_hours_and_every_one_is_drawn_once(book, view):
    first, others = panels(view.charts["demand"]), panels(view.charts["demand_others"])
    assert len(first) == 4
    assert not {*first} & {*others}
    assert {name.replace("\n", " ") for name in (*first, *others)} == set(view.table["workload"])
    speed = book.get("speeds").groupby("workload")["work_per_accelerator_hour"].max()
    median = view.table.groupby("workload")["P50"].sum()
    hours = {name: median[name] / speed.get(name.split(",")[0].split(" (")[0], float("inf")) for name in median.index}
    assert [name.replace("\n", " ") for name in first] == sorted(hours, key=hours.__getitem__, reverse=True)[:4]


def test_picked_workloads_and_quantile(book, scenario, view):
    picked = show_demand(book, scenario.replaced(shown_workloads=("chat",), shown_quantile="P95"))
    assert picked.headline.startswith("chat: demand in 2027Q4")
    assert "(90 % band" in picked.headline
    assert "; tested at quarter 4 for 0 of " in picked.headline
    assert set(picked.table["workload"].str.split(",").str[0]) == {"chat"}
    assert list(picked.table.columns) == ["workload", "quarter", "P5", "P50", "P95"]
    same = view.table[view.table["workload"].str.startswith("chat")]["P50"].to_numpy()
    assert picked.table["P50"].to_numpy() == pytest.approx(same)


def test_a_misspelt_workload_names_the_nearest(book, scenario):
    with pytest.raises(ScenarioError, match=r"there is no demand of chatt.*chat"):
        show_demand(book, scenario.replaced(shown_workloads=("chatt",)))


def test_events_and_quantiles_neither_fit_nor_test_anew(book, scenario, monkeypatch):
    show_demand(book, scenario)
    calls = []
    monkeypatch.setattr(fitting, "fit_level", lambda *_: calls.append("fit"))
    monkeypatch.setattr(answers_demand, "backtest_demand", lambda *_: calls.append("test"))
    for change in ({"event_strength": 2.0}, {"shown_quantile": "P75"}, {"shown_workloads": ("chat",)}, {"horizon_quarters": 2}):
        show_demand(book, scenario.replaced(**change))
    assert calls == []


def test_no_test_where_none_is_wanted(book, scenario):
    view = show_demand(book, scenario.replaced(backtest_origins=0))
    assert list(view.charts) == ["demand", "demand_others", "growth", "load_duration"]
    assert view.details["accuracy"].empty


def test_workloads_are_picked_from_a_list(view):
    control = control_for("shown_workloads", (), view.choices["shown_workloads"])
    assert control.read() == ()
    control.write(("chat", "drafts"))
    assert control.read() == ("chat", "drafts")
    assert "pretraining" in control.widget.options


def test_a_shown_table_puts_words_on_the_left_and_escapes_them():

    from capplan.outputs.views.view import View

    table = pd.DataFrame({"name": ["<td>a", "b"], "usd": [1.0, 2.0], "words": ["x", "y"]})
    text = View("", {}, table, 0.0, "USD", ()).shown.to_html()
    assert text.count('<td style="text-align:left">') == 4
    assert text.count("<td>") == 2
    assert '<td style="text-align:left">&lt;td&gt;a</td>' in text
