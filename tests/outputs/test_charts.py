"""Pictures: they refuse what they cannot show, hold what they are given, stay inert, and can be read in grey and colour-blind."""

import datetime as dt
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.outputs import charts
from capplan.outputs.charts import theme
from capplan.outputs.views.plan_tables import at_moments
from capplan.text import TERM_NAMES, number_text
from capplan.units import quarter_range

QUARTERS = quarter_range("2027Q1", 4)
HOSTILE = (
    "<script>alert(1)</script>",
    '=HYPERLINK("http://example.org","x")',
    "chat & 'search' \"now\"",
    "a\\u0027].map(alert)//",
    "{{datum}} [x].y:z",
)


def quantile_frame(names: tuple[str, ...] = ("chat",)) -> pd.DataFrame:
    rows = [
        (name, quarter, level, 100.0 * (1 + level) * (place + 1))
        for name in names
        for place, quarter in enumerate(QUARTERS)
        for level in (0.1, 0.5, 0.9)
    ]
    return pd.DataFrame(rows, columns=["workload", "quarter", "quantile", "quantity"])


def fan(names: tuple[str, ...] = ("chat",), **more: Any) -> Any:
    return charts.fan(quantile_frame(names), title="Work doubles", axis=charts.Axis("Work", "requests"), series="workload", **more)


def layers(names: tuple[str, ...] = ("existing", "reserved_1y", "on_demand")) -> Any:
    data = pd.DataFrame(
        [(quarter, name, 10.0 + place) for quarter in QUARTERS for place, name in enumerate(names)],
        columns=["quarter", "term", "accelerators"],
    )
    band = pd.DataFrame({"quarter": QUARTERS, "low": 20.0, "median": 30.0, "high": 40.0})
    changes = pd.DataFrame({"quarter": ["2027Q2", "2027Q2"], "change": [64, -40]})
    return charts.layers(data, title="Capacity", axis=charts.Axis("Capacity", "accelerators"), band=band, changes=changes)


def curve(names: tuple[str, ...] = ("a", "b")) -> Any:
    data = pd.DataFrame(
        [(name, hour, 50.0 - hour, 40.0 - hour, 60.0 - hour) for name in names for hour in range(20)],
        columns=["s", "h", "y", "low", "high"],
    )
    points = pd.DataFrame({"x": [3.0], "y": [47.0], "label": [names[0]]})
    return charts.curve(
        data, series="s", title="Load", across=charts.Axis("Hours", "h", "h"), up=charts.Axis("Load", "accelerators", "y"), points=points
    )


def steps(names: tuple[str, ...] = ("a", "b")) -> Any:
    data = pd.DataFrame([(name, x, 5.0 - x) for name in names for x in range(4)], columns=["s", "x", "y"])
    axes = {"across": charts.Axis("Units", "units", "x"), "up": charts.Axis("Saved", "USD/h", "y", steps=True)}
    return charts.curve(data, series="s", title="Steps", **axes)


def bars(names: tuple[str, ...] = ("a", "b")) -> Any:
    return charts.bars(
        pd.DataFrame({"label": names, "value": range(1, len(names) + 1)}),
        title="Ranked",
        axis=charts.Axis("Cost", "USD"),
        reference=1.5,
        reference_text="Budget",
    )


def waterfall(names: tuple[str, ...] = ("up", "down")) -> Any:
    steps = [("before", 10.0, "total"), *((name, 1.0, "change") for name in names), ("after", 10.0 + len(names), "total")]
    return charts.waterfall(pd.DataFrame(steps, columns=["label", "value", "kind"]), title="Bridge", axis=charts.Axis("Cost", "USD"))


def tornado(names: tuple[str, ...] = ("growth", "price")) -> Any:
    data = pd.DataFrame({"label": names, "low": 8.0, "high": 13.0, "low_setting": "0.1", "high_setting": "0.3"})
    return charts.tornado(data, base=10.0, base_name="Plan", title="Growth decides", axis=charts.Axis("Cost", "USD"))


def gantt(names: tuple[str, ...] = ("one", "two")) -> Any:
    data = pd.DataFrame({"contract": names, "start": pd.Timestamp("2026-01-01"), "end": pd.Timestamp("2028-01-01"), "term": "reserved_1y"})
    markers = pd.DataFrame({"contract": [names[0]], "date": [pd.Timestamp("2027-10-01")], "kind": ["Notice"]})
    return charts.gantt(data, title="Contracts", today=dt.date(2026, 12, 1), markers=markers)


def heat_map(names: tuple[str, ...] = ("a", "b")) -> Any:
    data = pd.DataFrame([(name, quarter, 1.0 + place) for name in names for place, quarter in enumerate(QUARTERS)], columns=["n", "q", "v"])
    return charts.heat_map(
        data, across=charts.Axis("", "", "q"), down=charts.Axis("", "", "n"), title="Price", axis=charts.Axis("Price", "USD/h", "v")
    )


def frontier(names: tuple[str, ...] = ("plan", "other")) -> Any:
    data = pd.DataFrame({"label": names, "e": [float(place) for place in range(len(names))], "c": 2.0})
    return charts.frontier(
        data, chosen=names[0], title="Risk", across=charts.Axis("Expected", "USD", "e"), up=charts.Axis("Bad", "USD", "c"), connect=True
    )


def schedule(names: tuple[str, ...] = ("one", "two")) -> Any:
    data = pd.DataFrame(
        {"row": names, "label": names, "kind": names, "start": 0.0, "end": 9.0, "marked": [place == 0 for place in range(len(names))]}
    )
    moves = pd.DataFrame({"row": [names[-1]], "start": [3.0], "end": [5.0]})
    return charts.schedule(data, title="Tasks", moves=moves, limit=8.0)


def growth(names: tuple[str, ...] = ("chat",)) -> Any:
    months = pd.date_range("2026-07-01", periods=12, freq="MS")
    rows = [(name, month, 10.0 + place) for name in names for place, month in enumerate(months)]
    known = pd.DataFrame(rows, columns=["series", "month", "value"])
    past, ahead = (known[(known["month"] < "2027-01-01") == before] for before in (True, False))
    bands = ahead.assign(low=ahead["value"] - 3, median=ahead["value"], high=ahead["value"] + 4)
    courses = pd.concat([ahead.assign(kind=kind, value=ahead["value"] + size) for kind, size in (("flat", -2.0), (names[0], 3.0))])
    return charts.growth(bands, past, courses, title="Growth", axis=charts.Axis("Work a day", "units"))


KINDS: list[Callable[..., Any]] = [fan, growth, layers, curve, steps, bars, waterfall, tornado, gantt, heat_map, frontier, schedule]


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_draws_marks_title_and_picture(kind: Callable[..., Any]) -> None:
    chart = kind()
    svg = chart.svg
    root = ET.fromstring(svg)
    marks = [
        node
        for node in root.iter()
        if re.search(r"mark-(rect|line|area|symbol|rule)\b", node.get("class", "")) and "role-mark" in node.get("class", "")
    ]
    assert any(list(mark.iter("{http://www.w3.org/2000/svg}path")) or list(mark.iter("{http://www.w3.org/2000/svg}line")) for mark in marks)
    assert chart.spec["title"]["text"][0] in texts(svg)
    assert chart.png(1).startswith(b"\x89PNG")
    assert float(root.get("width", "0")) <= theme.WIDTH + 25


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_text_from_a_book_is_inert_and_whole(kind: Callable[..., Any]) -> None:
    chart = kind(HOSTILE)
    svg = chart.svg
    root = ET.fromstring(svg)
    tags = {node.tag.split("}")[-1] for node in root.iter()}
    assert not tags & {"script", "a", "image", "foreignObject", "use"}, tags
    assert not any("href" in name or name.startswith("on") for node in root.iter() for name in node.attrib)
    squeezed = re.sub(r"\s", "", "".join(texts(svg)))
    assert re.sub(r"\s", "", HOSTILE[0]) in squeezed
    assert "href" not in {key for encoding in encodings(chart.spec) for key in encoding}


def encodings(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for item in node for found in encodings(item)]
    if isinstance(node, dict):
        own = [node["encoding"]] if isinstance(node.get("encoding"), dict) else []
        return own + [found for key, item in node.items() if key not in {"encoding", "datasets"} for found in encodings(item)]
    return []


def test_hostile_names_of_a_waterfall_stand_under_their_columns() -> None:
    shown = re.sub(r"\s", "", "".join(texts(waterfall(HOSTILE).svg)))
    for name in HOSTILE:
        assert re.sub(r"\s", "", name) in shown


def test_the_name_of_the_history_is_inert() -> None:
    past = pd.DataFrame({"workload": "chat", "quarter": ["2026Q4"], "quantity": [90.0]})
    written = texts(fan(history=past, names=("Median", "Board's <b> \\u0027 budget")).svg)
    assert "Board's <b> \\u0027 budget" in written
    assert {"80% of cases", "Median"} <= set(written)


def test_a_legend_beside_a_picture_is_whole() -> None:
    svg = curve(tuple(f"workload {place:02d}" for place in range(16))).svg
    height = float(ET.fromstring(svg).get("height", "0"))
    assert "workload 15" in texts(svg)
    assert height > 16 * 20


def test_two_pictures_in_one_page_share_no_identifier() -> None:
    found = [set(re.findall(r'\bid="([^"]+)"', chart.svg)) for chart in (curve(), bars(), layers())]
    for one, other in itertools.combinations(found, 2):
        assert not one & other
    svg = heat_map().svg
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= set(re.findall(r'\bid="([^"]+)"', svg))


def test_a_heat_map_with_holes_has_its_rows_in_the_order_of_their_categories():
    data = pd.DataFrame([("a", "low", 1.0), ("a", "high", 3.0), ("b", "mean", 2.0), ("b", "high", 4.0)], columns=["x", "y", "v"])
    data["y"] = pd.Categorical(data["y"], categories=["low", "mean", "high", "none"])
    drawn = charts.heat_map(data, across=charts.Axis("", "", "x"), down=charts.Axis("", "", "y"), title="t", axis=charts.Axis("v", "", "v"))
    assert [text for text in texts(drawn.svg) if text in set(data["y"].cat.categories)] == ["low", "mean", "high"]


def test_same_input_gives_same_bytes() -> None:
    assert repr({"fan": fan()}) == repr({"fan": fan()})
    assert fan().svg == fan().svg


def test_a_picture_that_another_process_gets_is_the_same_and_needs_no_chart_library():
    drawn, undrawn = fan(), fan()
    svg, size = drawn.svg, len(pickle.dumps(undrawn))
    code = (
        "import pickle, sys\npicture = pickle.loads(sys.stdin.buffer.read())\nsys.stdout.buffer.write(picture.svg.encode())\n"
        "assert not {'altair', 'matplotlib'} & set(sys.modules)\nassert ('vl_convert' in sys.modules) == (sys.argv[1] == 'draws')\n"
    )
    for picture, how in ((drawn, "shows"), (undrawn, "draws")):
        ran = subprocess.run([sys.executable, "-c", code, how], input=pickle.dumps(picture), capture_output=True, check=True)
        assert ran.stdout.decode() == svg
    assert size < len(pickle.dumps(drawn))
    assert drawn.finding == undrawn.finding


def test_a_misspelt_column_is_one_clear_error() -> None:
    with pytest.raises(CapplanError, match=r"bars: the frame has no column 'value'; did you mean valeu\?"):
        charts.bars(pd.DataFrame({"label": ["a"], "valeu": [1]}), title="t", axis=charts.Axis("v", "USD"))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"label": [], "value": []}), "empty"),
        (pd.DataFrame({"label": range(5001), "value": 1.0}), "5,001 rows"),
        (pd.DataFrame({"label": ["a", "b"], "value": [1.0, np.inf]}), "row 1 holds 'inf'"),
        (pd.DataFrame({"label": ["a"], "value": ["many"]}), "row 0 holds 'many'"),
        (pd.DataFrame({"label": ["a"], "value": [np.nan]}), "no number at all"),
    ],
)
def test_what_cannot_be_drawn_is_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(charts.ChartError, match=message):
        charts.bars(frame, title="t", axis=charts.Axis("v", "USD"))


def test_a_bridge_with_a_hole_is_refused() -> None:
    steps = pd.DataFrame({"label": ["before", "growth", "after"], "value": [10.0, 2.0, 13.0], "kind": ["total", "change", "total"]})
    with pytest.raises(charts.ChartError, match=r"'after' states \$13, but the steps before it add up to \$12"):
        charts.waterfall(steps, title="t", axis=charts.Axis("v", "USD"))


def test_a_fan_without_a_band_is_refused() -> None:
    with pytest.raises(charts.ChartError, match="without its band"):
        charts.fan(quantile_frame().query("quantile == 0.5"), title="t", axis=charts.Axis("v", "x"))


def test_a_contract_that_ends_before_it_starts_is_refused() -> None:
    data = pd.DataFrame({"contract": ["a"], "start": ["2027-01-01"], "end": ["2026-01-01"], "term": ["owned"]})
    with pytest.raises(charts.ChartError, match="before it starts 2027-01-01"):
        charts.gantt(data, title="t", today=dt.date(2026, 1, 1))


def test_a_pair_that_comes_twice_is_refused() -> None:
    with pytest.raises(charts.ChartError, match="comes twice"):
        charts.heat_map(
            pd.DataFrame({"a": ["x", "x"], "b": ["y", "y"], "v": [1, 2]}),
            across=charts.Axis("", "", "a"),
            down=charts.Axis("", "", "b"),
            title="t",
            axis=charts.Axis("v", "", "v"),
        )


def test_quarters_stand_in_order_and_without_gap() -> None:
    data = pd.DataFrame({"quarter": ["2028Q1", "2027Q2"], "term": "owned", "accelerators": [1, 2]})
    chart = charts.layers(data, title="t", axis=charts.Axis("v", "accelerators")).spec
    assert encodings(chart)[0]["x"]["scale"]["domain"] == quarter_range("2027Q2", 4)


def test_what_is_no_quarter_is_refused() -> None:
    data = pd.DataFrame({"quarter": ["2027Q5"], "term": "owned", "accelerators": [1]})
    with pytest.raises(charts.ChartError, match="2027Q5"):
        charts.layers(data, title="t", axis=charts.Axis("v", "accelerators"))


def test_stack_shows_the_sum_of_its_parts() -> None:
    spec = layers().spec
    drawn = [row for rows in spec["datasets"].values() for row in rows if "layer" in row]
    assert sum(row["value"] for row in drawn) == sum(10.0 + place for place in range(3)) * len(QUARTERS)


def test_no_label_is_limited_and_long_names_are_wrapped_whole() -> None:
    long = "a workload with a very long name that somebody took out of a ticket system without a thought for pictures"
    svg = bars((long, "b")).svg
    assert "…" not in svg
    assert long.replace(" ", "") in "".join(texts(svg)).replace(" ", "")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.2e9, "USD", "$1.2B"),
        (-45_300, "EUR", "-€45.3k"),
        (999_999, "USD", "$1.0M"),
        (2.5, "USD/h", "$2.50"),
        (0.0004, "USD", "$0.0004"),
        (1234, "accelerators", "1,234"),
        (0.125, "share", "12.5%"),
        (0, "USD", "$0"),
        (float("nan"), "USD", "n/a"),
        (1e6, "CHF", "CHF 1.0M"),
    ],
)
def test_numbers_are_written_as_a_board_reads_them(value: float, unit: str, text: str) -> None:
    assert number_text(value, unit) == text


def test_axis_writes_a_billion_as_b() -> None:
    data = pd.DataFrame({"label": ["a"], "value": [4e9]})
    written = texts(charts.bars(data, title="t", axis=charts.Axis("Cost", "USD")).svg)
    assert "$4B" in written
    assert not any(text.endswith("G") for text in written)


# Colour: sRGB to CIE Lab (D65), and the full protanopia and deuteranopia matrices of Machado, Oliveira and Fernandes (2009), applied to
# linear light.
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
}


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    shown = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    light = TO_XYZ @ np.clip(vision @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(light > 216 / 24389, np.cbrt(light), (24389 / 27 * light + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize(
    ("palette", "least"), [(tuple(theme.TERM_COLOURS.values()), 20.0), (theme.SERIES_COLOURS, 18.0)], ids=["terms", "series"]
)
def test_every_pair_of_colours_can_be_told_apart(palette: tuple[str, ...], least: float, vision: str) -> None:
    seen = [lab(colour, VISION[vision]) for colour in palette]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) >= least


@pytest.mark.parametrize("palette", [tuple(theme.TERM_COLOURS.values()), theme.SERIES_COLOURS], ids=["terms", "series"])
def test_every_pair_of_colours_differs_in_grey(palette: tuple[str, ...]) -> None:
    lightness = sorted(lab(colour, VISION["usual"])[0] for colour in palette)
    assert min(np.diff(lightness)) >= 5


def test_every_term_has_a_colour_a_name_and_a_place() -> None:
    from capplan.book.terms import TERMS

    assert set(TERMS) <= set(theme.TERM_COLOURS) == set(TERM_NAMES) == set(theme.STACK_ORDER)


def test_lines_differ_by_more_than_colour() -> None:
    assert (
        len(
            {
                (theme.colours(names)[name], tuple(dash))
                for names in [[f"s{place}" for place in range(16)]]
                for name, dash in zip(names, theme.dashes(names), strict=True)
            }
        )
        == 16
    )
    with pytest.raises(charts.ChartError, match="at most 16"):
        theme.colours([f"s{place}" for place in range(17)])


def test_pictures_can_stand_under_each_other() -> None:
    svg = charts.stacked(layers(), bars()).svg
    assert {"Capacity", "Ranked"} <= set(texts(svg))


def test_a_picture_holds_its_own_style_and_no_address() -> None:
    spec = json.dumps({key: value for key, value in layers().spec.items() if key != "$schema"})
    assert "http" not in spec
    assert layers().spec["config"]["font"] == theme.FONT


def test_a_plan_without_any_capacity_has_no_moments():
    columns = ["quarter", "provider", "accelerator", "region", "source", "term", "starts", "ends", "accelerators"]
    empty = at_moments(pd.DataFrame(columns=columns), ["source"])
    assert empty.columns.tolist() == ["quarter", "begin", "end", "source", "accelerators"]
    assert empty.empty


def test_a_picture_is_the_same_whatever_copy_of_its_font_the_system_has(tmp_path):
    (tmp_path / "fonts.conf").write_text(f"<fontconfig><dir>{tmp_path}</dir></fontconfig>")
    code = (
        "import hashlib, pandas as pd; from capplan.outputs.charts import Axis, bars;"
        " picture = bars(pd.DataFrame({'label': ['a', 'b'], 'value': [1.0, 2.0]}), title='Two', axis=Axis('Cost', 'USD'));"
        " print(hashlib.sha256(picture.png()).hexdigest())"
    )
    without = {name: value for name, value in os.environ.items() if name != "FONTCONFIG_FILE"}
    drawn = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        for env in (without, {**without, "FONTCONFIG_FILE": str(tmp_path / "fonts.conf")})
    ]
    assert drawn[0] == drawn[1]
