"""Controls around a view: built from the assumptions, debounced, plain about errors, and saved as a file the command line takes."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import ipywidgets
import pandas as pd
import pytest

from capplan.book.book import Book, load_book
from capplan.book.scenario import Scenario
from capplan.cli import overrides
from capplan.errors import CapplanError, ScenarioError
from capplan.outputs import charts
from capplan.outputs.lab.controls import MOST_STEPS, bounds_of, control_for
from capplan.outputs.lab.differences import TECHNICAL, difference_text
from capplan.outputs.lab.explore import MOST_CONTROLS, Explorer
from capplan.outputs.lab.widgets import explore
from capplan.outputs.views.all_questions import show_cluster
from capplan.outputs.views.view import View
from tests.conftest import hourly
from tests.questions.test_board import TABLES
from tools import control_effects

HOSTILE = "<script>alert(1)</script>"
FIELDS = ("risk_weight", "price_factor", "growth_share_per_year", "horizon_end", "providers")


def a_book(**assumptions: object) -> Book:
    return Book("book", "", Path(), Scenario(**assumptions), {}, (), MappingProxyType({}), ())


def show_cost(book: Book, scenario: Scenario) -> View:
    """A view whose number follows from the scenario by hand: a million times risk weight plus price factor."""
    if scenario.risk_weight == 0.9:
        raise CapplanError(f"nothing can be bought for {HOSTILE}\nbuy less")
    if scenario.risk_weight == 0.95:
        raise ZeroDivisionError("division by zero")
    cost = 1e6 * (scenario.risk_weight + scenario.price_factor)
    table = pd.DataFrame({"workload": [HOSTILE, "=HYPERLINK(1)"], "cost_usd": [cost, -1.0]})
    bar = charts.bars(pd.DataFrame({"label": [HOSTILE], "value": [cost]}), title=HOSTILE, axis=charts.Axis("Cost", "USD"))
    return View(f"It costs {cost!r} for {HOSTILE}", {"cost": bar, "again": bar}, table, cost, "USD", FIELDS, (HOSTILE,))


class Clock:
    """Holds planned actions until the test lets time pass."""

    def __init__(self) -> None:
        self.planned: list[tuple[Callable[[], None], list[bool]]] = []

    def __call__(self, seconds: float, action: Callable[[], None]) -> "Clock.Handle":
        called_off: list[bool] = []
        self.planned.append((action, called_off))
        return Clock.Handle(called_off)

    def rest(self) -> int:
        due, self.planned = [action for action, called_off in self.planned if not called_off], []
        for action in due:
            action()
        return len(due)

    class Handle:
        def __init__(self, called_off: list[bool]) -> None:
            self.called_off = called_off

        def cancel(self) -> None:
            self.called_off.append(True)


def an_explorer(
    tmp_path: Path, book: Book | None = None, scenario: Scenario | None = None, clock: Clock | None = None, **more: object
) -> Explorer:
    book = book or a_book()
    return Explorer(show_cost, book, scenario or book.scenario, folder=tmp_path, plan_action=clock or Clock(), **more)


@pytest.mark.parametrize("name", Scenario.model_fields)
def test_every_assumption_has_a_control_that_stands_at_its_value(name: str) -> None:
    value = getattr(Scenario(), name)
    read = control_for(name, value).read()
    assert getattr(Scenario().replaced(**{name: read}), name) == value


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("risk_weight", ipywidgets.FloatSlider),
        ("horizon_quarters", ipywidgets.IntSlider),
        ("on_demand_accelerators", ipywidgets.BoundedFloatText),
        ("horizon_end", ipywidgets.Dropdown),
        ("as_of", ipywidgets.DatePicker),
        ("first_quarter", ipywidgets.Text),
        ("providers", ipywidgets.Text),
        ("changes", ipywidgets.Text),
    ],
)
def test_kind_of_control_follows_from_the_assumption(name: str, kind: type) -> None:
    control = control_for(name, getattr(Scenario(), name))
    assert isinstance(control.widget, kind)
    assert control.widget.tooltip == Scenario.model_fields[name].description


def test_slider_takes_bounds_and_step_from_the_assumption() -> None:
    slider = control_for("risk_weight", 0.2).widget
    assert (slider.min, slider.max, slider.step) == (0.0, 1.0, 0.05)
    excluded = control_for("tail_share", 0.2).widget
    assert excluded.min == pytest.approx(0.05)
    steps = control_for("plan_paths", 40).widget
    assert (steps.min, steps.max, steps.step) == (10, 5000, 10), "the grid passes through the value, not through the bound 1"
    assert MOST_STEPS >= (5000 - 1) / 10
    assert bounds_of("plan_paths", 10) == (1.0, 5000.0)


def test_a_slider_between_steps_keeps_its_value_and_steps_from_there() -> None:
    control = control_for("risk_weight", 0.123)
    assert control.read() == 0.123
    assert control.widget.min == pytest.approx(0.023)
    control.widget.value = 0.173 + 1e-17
    assert control.read() == 0.173


def test_binary_fractions_of_a_browser_are_cut() -> None:
    control = control_for("risk_weight", 0.2)
    control.widget.value = 0.15000000000000002
    assert control.read() == 0.15


def test_an_assumption_that_may_be_empty_is_ticked_first() -> None:
    control = control_for("growth_share_per_year", None)
    tick, slider = control.parts
    assert control.read() is None
    assert slider.disabled
    tick.value, slider.value = True, 0.25
    assert not slider.disabled
    assert control.read() == 0.25
    control.write(None)
    assert control.read() is None


def test_lists_are_read_from_text() -> None:
    control = control_for("providers", ("aws",))
    assert control.read() == ("aws",)
    control.widget.value = " aws , gcp ,"
    assert control.read() == ("aws", "gcp")
    pinned = control_for("pinned_purchases", ())
    pinned.widget.value = "[[offer_a, 2027Q1, 2]]"
    assert Scenario().replaced(pinned_purchases=pinned.read()).pinned_purchases == (("offer_a", "2027Q1", 2),)
    pinned.widget.value = "[[offer_a"
    with pytest.raises(ScenarioError, match="cannot be read"):
        pinned.read()


def test_a_misspelt_field_names_the_nearest() -> None:
    with pytest.raises(ScenarioError, match=r"risk_wieght is not an assumption; did you mean risk_weight\?"):
        control_for("risk_wieght", 1)


def test_fields_are_those_of_the_view_unless_stated(tmp_path: Path) -> None:
    assert tuple(an_explorer(tmp_path).controls) == FIELDS
    assert tuple(an_explorer(tmp_path, fields=["seed"]).controls) == ("seed",)


def test_baseline_headline_is_the_views_own(tmp_path: Path) -> None:
    book = a_book(risk_weight=0.123)
    shown = an_explorer(tmp_path, book)
    assert "It costs 1123000.0" in shown.headline.value
    assert show_cost(book, shown.scenario).headline == show_cost(book, book.scenario).headline
    assert shown.difference.value == "These are the baseline&#x27;s assumptions."


def test_many_moves_run_the_view_once(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock)
    for value in (0.25, 0.3, 0.35, 0.4):
        shown.controls["risk_weight"].widget.value = value
        assert "Computing" in shown.status.value
    assert "It costs 1200000.0" in shown.headline.value, "nothing runs while the slider moves"
    assert clock.rest() == 1
    assert "It costs 1400000.0" in shown.headline.value
    assert "Computed in" in shown.status.value


def at_once(book: Book, scenario: Scenario) -> View | None:
    """A first answer for every risk weight but two: one is known already, one cannot be had."""
    if scenario.risk_weight == 0.6:
        return None
    if scenario.risk_weight == 0.7:
        raise CapplanError("no first answer")
    full = show_cost(book, scenario)
    return replace(full, headline=f"First answer: {full.headline}", charts={"cost": full.charts["cost"]})


def test_a_first_answer_stands_in_until_the_sliders_rest(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock, first=at_once)
    assert not shown.headline.value.startswith("First"), "the baseline is always the full answer"
    shown.which.value = "again"
    shown.controls["risk_weight"].widget.value = 0.4
    clock.rest()
    assert "First answer: It costs 1400000.0" in shown.headline.value
    assert "the full one follows" in shown.status.value
    shown.controls["risk_weight"].widget.value = 0.5
    assert clock.rest() == 1, "moving on calls off the full answer"
    assert "First answer: It costs 1500000.0" in shown.headline.value
    assert clock.rest() == 1
    assert "First answer" not in shown.headline.value
    assert "It costs 1500000.0" in shown.headline.value
    assert "Computed in" in shown.status.value
    assert shown.which.value == "again", "the chart that was picked comes back with the full answer"


@pytest.mark.parametrize("weight", [0.6, 0.7])
def test_without_a_first_answer_the_full_one_comes_at_once(tmp_path: Path, weight: float) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock, first=at_once)
    shown.controls["risk_weight"].widget.value = weight
    assert clock.rest() == 1
    assert f"It costs {1e6 * (weight + 1)!r}" in shown.headline.value
    assert not clock.planned


def test_difference_names_amount_share_and_reason(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock)
    shown.controls["risk_weight"].widget.value = 0.8
    clock.rest()
    assert shown.difference.value == "+$600.0k, +50% against the baseline ($1.2M), because risk weight 0.2 → 0.8."
    shown.controls["price_factor"].widget.value = 0.4
    clock.rest()
    assert shown.difference.value == "No difference to the baseline ($1.2M), although price factor 1 → 0.4 and risk weight 0.2 → 0.8."


def test_difference_names_the_components_that_moved_most(tmp_path: Path) -> None:
    def show_parts(book: Book, scenario: Scenario) -> View:
        base = show_cost(book, scenario)
        usd = [1e6 * scenario.risk_weight, 2e6, 1e6 * (scenario.price_factor - 1) - 3e5 * (scenario.risk_weight > 0.5)]
        parts = pd.DataFrame({"component": ["on_demand", "existing", "spot"], "usd": usd})
        return replace(base, details={"components": parts})

    clock = Clock()
    shown = Explorer(show_parts, a_book(), Scenario(), folder=tmp_path, plan_action=clock)
    shown.controls["risk_weight"].widget.value = 0.8
    clock.rest()
    assert shown.difference.value.endswith("because risk weight 0.2 → 0.8: mostly on demand +$600.0k and spot -$300.0k.")


def test_answers_are_held_against_a_baseline_that_is_computed_alike(tmp_path: Path) -> None:
    """The number rises by 1,000 with each path, as a mean over other paths may: of two moves only the one about the world is told."""

    def show_by_paths(book: Book, scenario: Scenario) -> View:
        return replace(show_cost(book, scenario), value=1e6 * scenario.risk_weight + 1e3 * scenario.plan_paths)

    clock, book = Clock(), a_book(plan_paths=40)
    shown = Explorer(show_by_paths, book, book.scenario, ["risk_weight", "plan_paths"], folder=tmp_path, plan_action=clock)
    shown.controls["plan_paths"].widget.value = 80
    clock.rest()
    assert shown.difference.value == "+$40.0k, +16.7% against the baseline ($240.0k), because plan paths 40 → 80."
    shown.controls["risk_weight"].widget.value = 0.3
    clock.rest()
    assert shown.difference.value == "+$100.0k, +35.7% against the baseline ($280.0k), because risk weight 0.2 → 0.3."
    shown.controls["plan_paths"].widget.value = 40
    clock.rest()
    assert shown.difference.value == "+$100.0k, +41.7% against the baseline ($240.0k), because risk weight 0.2 → 0.3."


def test_a_difference_within_what_a_search_left_open_is_none(tmp_path: Path) -> None:
    def show_searched(book: Book, scenario: Scenario) -> View:
        return replace(show_cost(book, scenario), unsure=1.5e5)

    clock, book = Clock(), a_book()
    shown = Explorer(show_searched, book, book.scenario, ["risk_weight"], folder=tmp_path, plan_action=clock)
    shown.controls["risk_weight"].widget.value = 0.3
    clock.rest()
    assert shown.difference.value == (
        "No difference that is proven to the baseline ($1.2M): +$100.0k is less than the $150.0k that the search left open, although risk"
        " weight 0.2 → 0.3."
    )
    shown.controls["risk_weight"].widget.value = 0.4
    clock.rest()
    assert shown.difference.value.startswith("+$200.0k")


def test_notes_stand_once_and_only_new_ones_beside_the_controls(tmp_path: Path) -> None:
    def show_noted(book: Book, scenario: Scenario) -> View:
        return replace(show_cost(book, scenario), notes=("old", *(("new",) if scenario.risk_weight > 0.5 else ())))

    clock, book = Clock(), a_book()
    shown = Explorer(show_noted, book, book.scenario, ["risk_weight"], folder=tmp_path, plan_action=clock)
    assert "<summary>" not in shown.table.value
    shown.controls["risk_weight"].widget.value = 0.6
    clock.rest()
    assert "<details><summary>1 note beside the baseline's</summary><ul><li>new</li></ul></details>" in shown.table.value


@pytest.mark.parametrize("question", sorted({row["question"] for row in control_effects.read()}))
def test_a_question_shows_eight_controls_at_most_and_technical_ones_under_more(question: str, tmp_path: Path) -> None:
    names = [*(row["field"] for row in control_effects.read() if row["question"] == question), "paths", "seed"]
    shown = an_explorer(tmp_path, fields=names)
    first, *more = shown._groups()
    assert len(first.children) == min(MOST_CONTROLS, len([name for name in names if name not in TECHNICAL]))
    assert not {shown.controls[name].widget for name in TECHNICAL & {*names}} & {*first.children}
    assert sum(len(part.children[0].children) for part in more) == len(names) - len(first.children)


def test_a_book_that_changes_on_disk_is_said_and_read_again_on_a_click(tmp_path: Path, make_book: Callable[..., Path]) -> None:
    """One accelerator-hour is worth its price: an offer goes from 12 to 13 dollars while sliders are moved."""

    def show_offers(book: Book, scenario: Scenario) -> View:
        usd_per_hour = float(book.get("offers").set_index("offer_id").at["cheap", "usd_per_hour"])
        return replace(show_cost(book, scenario), value=scenario.price_factor * usd_per_hour)

    folder = make_book(**TABLES)
    book, clock = load_book(folder), Clock()
    shown = Explorer(show_offers, book, book.scenario, ["price_factor"], folder=tmp_path, plan_action=clock)
    assert shown.buttons["reload"].layout.display == "none"
    file = folder / "offers.csv"
    file.write_text(file.read_text().replace(",12,", ",13,"))
    shown.controls["price_factor"].widget.value = 2.0
    clock.rest()
    assert "has changed on disk" in shown.status.value
    assert shown.view is shown.baseline, "nothing was computed from the book of before"
    shown.buttons["reload"].click()
    assert shown.buttons["reload"].layout.display == "none"
    assert shown.difference.value == "+$13, +100% against the baseline ($13), because price factor 1 → 2."


def test_an_error_stands_in_place_and_goes_away(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock)
    shown.controls["risk_weight"].widget.value = 0.9
    clock.rest()
    assert "nothing can be bought for &lt;script&gt;alert(1)&lt;/script&gt;<br>buy less" in shown.status.value
    assert shown.headline.value == shown.picture.value == shown.table.value == ""
    shown.controls["risk_weight"].widget.value = 0.95
    clock.rest()
    assert "ZeroDivisionError: division by zero" in shown.status.value
    assert "Traceback" not in shown.status.value
    shown.buttons["chart"].click()
    assert "There is no chart to export" in shown.status.value
    shown.reset()
    assert "It costs 1200000.0" in shown.headline.value


def test_a_contradiction_between_controls_is_said(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock, fields=["as_of", "first_quarter"])
    shown.controls["as_of"].widget.value = dt.date(2027, 5, 1)
    clock.rest()
    assert "began before as_of 2027-05-01" in shown.status.value


def test_a_baseline_that_fails_still_shows_its_controls(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, a_book(risk_weight=0.9), clock=clock, fields=["risk_weight"])
    assert "nothing can be bought" in shown.status.value
    shown.controls["risk_weight"].widget.value = 0.5
    clock.rest()
    assert "It costs 1500000.0" in shown.headline.value


def test_reset_restores_every_control(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock)
    shown.controls["risk_weight"].widget.value = 0.7
    shown.controls["growth_share_per_year"].parts[0].value = True
    shown.controls["horizon_end"].widget.value = "truncate"
    shown.controls["providers"].widget.value = "aws"
    clock.rest()
    assert shown.scenario != shown.baseline_scenario
    shown.buttons["reset"].click()
    assert shown.scenario == shown.baseline_scenario
    assert clock.rest() == 0
    assert "baseline" in shown.difference.value


def test_saved_scenario_is_what_the_command_line_takes(tmp_path: Path) -> None:
    clock = Clock()
    book = a_book(horizon_quarters=6, as_of="2026-11-01")
    shown = an_explorer(tmp_path, book, book.scenario.replaced(price_factor=1.2), clock, fields=[*FIELDS, "as_of", "pinned_purchases"])
    shown.controls["risk_weight"].widget.value = 0.35
    shown.controls["providers"].widget.value = "aws, gcp"
    shown.controls["as_of"].widget.value = dt.date(2026, 12, 15)
    shown.controls["pinned_purchases"].widget.value = "[[offer_a, 2027Q1, 2]]"
    clock.rest()
    shown.buttons["save"].click()
    assert "It holds 5 assumptions of its own" in shown.status.value
    loaded = overrides(None, tmp_path / "scenario.yaml")
    assert set(loaded) == {"price_factor", "risk_weight", "providers", "as_of", "pinned_purchases"}
    assert book.scenario.replaced(**loaded) == shown.scenario


def test_a_scenario_like_the_book_saves_an_empty_mapping(tmp_path: Path) -> None:
    an_explorer(tmp_path).save_scenario()
    assert overrides(None, tmp_path / "scenario.yaml") == {}


def test_exports_are_inert_and_named_after_the_view(tmp_path: Path) -> None:
    shown = an_explorer(tmp_path)
    shown.buttons["table"].click()
    shown.buttons["chart"].click()
    assert "'=HYPERLINK(1)" in (tmp_path / "cost.csv").read_text(encoding="utf-8")
    assert "<script" not in (tmp_path / "cost_cost.svg").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cost.csv", "cost_cost.svg"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    shown = an_explorer(tmp_path / "missing")
    shown.buttons["save"].click()
    assert "missing" in shown.status.value


def test_text_from_a_book_is_inert_in_every_part(tmp_path: Path) -> None:
    shown = an_explorer(tmp_path)
    for part in (shown.headline, shown.difference, shown.status, shown.picture, shown.table):
        assert "<script" not in part.value
    assert "&lt;script&gt;" in shown.table.value


def test_another_chart_can_be_chosen(tmp_path: Path) -> None:
    shown = an_explorer(tmp_path)
    assert [name for _, name in shown.which.options] == ["cost", "again"]
    shown.picture.value = ""
    shown.which.value = "again"
    assert shown.picture.value.startswith("<svg")


def test_nothing_is_shown_without_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_HEADLESS", "1")
    assert explore(show_cost, a_book(), Scenario()) is None
    monkeypatch.delenv("CAPPLAN_HEADLESS")
    assert isinstance(explore(show_cost, a_book(), Scenario()), Explorer)


def test_a_larger_cluster_shortens_the_wait_that_is_shown(tmp_path: Path, make_book: Callable[..., Path]) -> None:
    """Two jobs of all 8 accelerators at once: one waits for the other's hour; on 16 none waits."""
    folder = make_book(
        usage=hourly(10),
        workloads="workload,stage,unit,host\nchat,serving,requests,self\n",
        speeds="workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,measured\n",
        nodes="node,accelerator,accelerator_count,nodes\nn,H100,8,1\n",
        jobs="job_id,submit,duration_seconds,accelerators\nj0,2026-01-02,36000,8\nj1,2026-01-02,36000,8\n",
        book="as_of: 2026-02-01\nfirst_quarter: 2026Q2\nhorizon_quarters: 1\ncurve_sizes: 2\ncurve_resamples: 1\n",
    )
    clock, book = Clock(), load_book(folder)
    shown = Explorer(show_cluster, book, book.scenario, folder=tmp_path, plan_action=clock)
    assert shown.baseline is not None
    assert shown.baseline.unit == "seconds"
    assert shown.baseline.value == 32400, "nine tenths of the way from 0 to 36,000 s"
    assert "Queue p90 (h)" in shown.table.value
    shown.controls["added_accelerators"].widget.value = 8
    clock.rest()
    assert shown.view is not None
    assert shown.view.value == 0
    assert "-100% against the baseline" in shown.difference.value
    assert shown.difference.value.startswith("-9 hours")


def test_an_endless_wait_is_not_subtracted(tmp_path: Path) -> None:
    clock = Clock()
    shown = an_explorer(tmp_path, clock=clock)
    baseline, view = shown.baseline, shown.view
    assert baseline is not None
    assert view is not None
    shown.baseline = replace(baseline, value=float("inf"), unit="seconds")
    before = shown.baseline_scenario
    said = difference_text(shown.baseline, replace(view, value=7200.0, unit="seconds"), before, before.replaced(price_factor=2.0))
    assert said == "2 hours against the baseline's no end, because price factor 1 → 2."
