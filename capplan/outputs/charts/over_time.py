"""Pictures over time and over a quantity: fans, stacked layers, and curves."""

from typing import Any, Literal

import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from capplan.outputs.charts import theme
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture
from capplan.outputs.charts.theme import ChartError
from capplan.text import compact
from capplan.units import is_quarter, quarter_index, quarter_range

CHANGES_NOTE = "▲ arrives, ▼ expires in the quarter"
#: Parts of a bar below this share of the highest one have no room for a letter.
LEAST_SIGNED_SHARE = 0.045
#: And so have those that last less than this share of the quarter.
LEAST_SIGNED_PART = 0.3
DEMAND_LINES = ("Demand, median", "Demand, low and high")


def _quarter_labels(domain: list[str], width: int) -> str:
    """Return the expression that writes quarters, with the year under the first of each; years alone where quarters have no room."""
    first = next((place for place, label in enumerate(domain) if label.endswith("Q1")), len(domain))
    starts = "slice(datum.value, 4) == 'Q1'" + (" || datum.index == 0" if first * width / len(domain) > 40 else "")
    if width / len(domain) < 20:
        return f"{starts} ? slice(datum.value, 0, 4) : ''"
    return f"{starts} ? [slice(datum.value, 4), slice(datum.value, 0, 4)] : slice(datum.value, 4)"


def _time_channel(values: pd.Series, *, chart: str, width: int = 600) -> Any:
    """Return the x channel for quarters (all of them, in order) or for dates."""
    if is_datetime64_any_dtype(values):
        return alt.X("x:T", title=None, axis=alt.Axis(grid=False, labelOverlap=True, format="%b %Y", tickCount=8))
    labels = [str(value) for value in values.unique()]
    wrong = [label for label in labels if not is_quarter(label)]
    if wrong:
        raise ChartError(f"{chart}: {wrong[0]!r} is neither a date nor a quarter like 2027Q1")
    first, last = min(labels, key=quarter_index), max(labels, key=quarter_index)
    domain = quarter_range(first, quarter_index(last) - quarter_index(first) + 1)
    axis = alt.Axis(labelAngle=0, labelExpr=_quarter_labels(domain, width), labelOverlap=False)
    return alt.X("x:O", title=None, sort=domain, scale=alt.Scale(domain=domain, paddingInner=0.18, paddingOuter=0.1), axis=axis)


#: From the outermost band inwards.
BAND_COLOURS = ("#c4d6f2", "#8fb3e6", "#5f8fd6", "#3d72c2")


@theme.in_currency
def fan(
    quantiles: pd.DataFrame,
    *,
    title: str,
    axis: theme.Axis,
    subtitle: str = "",
    series: str | None = None,
    history: pd.DataFrame | None = None,
    names: tuple[str, str] = ("Median", "Measured"),
) -> Picture:
    """Show what may come: the middle as a line, pairs of quantiles as bands, what was measured before it as dots.

    Args:
        quantiles: quarter (label) or month (date), quantile (0 to 1), quantity (or the axis' column), and series if named; quantiles come
            in pairs (0.1 with 0.9).
        series: Name of the column; each series gets a panel with its own scale.
        history: Time, quantity and series of what is known (the past, a budget).
        names: What the rows of quantile 0.5 are, and what the history is, as the legend says it.

    Raises:
        ChartError: If columns, pairs of quantiles or rows do not fit.
    """
    keys = ["month" if "month" in quantiles else "quarter"] + ([series] if series else [])
    pairs, table = _bands(quantiles, keys, axis.column or "quantity", history)
    across = _time_channel(table["x"], chart="fan", width=268 if series else 620)
    middle, known = (theme.display_name(name) for name in names)
    bands = [f"{(high - low):.0%} of cases" for low, high in pairs]
    if len(bands) > len(BAND_COLOURS):
        raise ChartError(f"fan: {len(bands)} bands; at most {len(BAND_COLOURS)} can be told apart")
    others = [(middle, "middle", "#0045a5"), (known, "past", theme.INK)]
    kinds = [*bands, *(name for name, column, _ in others if column in table)]
    palette = [*BAND_COLOURS[: len(bands)], *(colour for _, column, colour in others if column in table)]
    table = table.assign(**{f"kind{place}": kind for place, kind in enumerate(kinds)})
    scale = alt.Scale(domain=kinds, range=palette)
    legend = alt.Legend(title=None, orient="top", symbolType="square", values=kinds)
    upright = axis.drawn(theme.PANEL_TITLE if series else theme.Y_TITLE, minExtent=44)

    def drawn(name: str, *columns: str) -> Any:
        """Start a layer of the rows that have these columns, in the colour of this name."""
        shown = alt.Chart(table).transform_filter(" && ".join(f"isValid(datum.{column})" for column in columns))
        return shown.encode(across, alt.Color(f"kind{kinds.index(name)}:N", scale=scale, legend=legend))

    marks: list[Any] = []
    dots, count = table["x"].nunique() <= 40, table["series"].nunique()
    for place, name in enumerate(bands):
        start = drawn(name, f"low{place}", f"high{place}")
        # A band over a single time has no area; a bar shows it.
        shape = start.mark_area(opacity=1) if table["low0"].notna().sum() > count else start.mark_bar(size=26)
        marks.append(shape.encode(alt.Y(f"low{place}:Q", **upright), alt.Y2(f"high{place}:Q")))
    if "middle" in table:
        marks.append(drawn(middle, "middle").mark_line(point={"size": 36} if dots else False).encode(alt.Y("middle:Q")))
    if "past" in table:
        point: Any = {"size": 30, "shape": "square"} if dots else False
        marks.append(drawn(kinds[-1], "past").mark_line(point=point, strokeWidth=1.5).encode(alt.Y("past:Q")))
    if not series:
        return theme.finish(alt.layer(*marks), title, subtitle)
    panel = alt.Facet("series:N", sort=list(dict.fromkeys(table["series"])), header=alt.Header(labelExpr=theme.SPLIT_LABEL))
    cell = alt.layer(*marks).properties(width=600 if count == 1 else 268, height=150)
    grid = cell.facet(facet=panel, columns=min(count, 2), spacing={"row": 26, "column": 24})
    return theme.finish(grid.resolve_scale(y="independent").resolve_axis(x="independent"), title, subtitle, height=None)


def _bands(
    quantiles: pd.DataFrame, keys: list[str], value: str, history: pd.DataFrame | None
) -> tuple[list[tuple[float, float]], pd.DataFrame]:
    """Return the pairs of quantiles, outermost first, and the table of a fan: x, series, past, low and high of each pair, middle."""
    data = theme.checked(quantiles, [*keys, "quantile", value], "fan", [value, "quantile"])
    levels = sorted({float(level) for level in data["quantile"]})
    pairs = [(low, 1 - low) for low in levels if low < 0.5 and any(abs(level - (1 - low)) < 1e-9 for level in levels)]
    if not pairs:
        raise ChartError(f"fan: no pair of quantiles such as 0.1 and 0.9 among {levels}; a forecast without its band is not shown")
    wide = data.assign(quantile=data["quantile"].round(9)).pivot_table(index=keys, columns="quantile", values=value, sort=False)
    table = pd.DataFrame({"x": wide.index.get_level_values(0)})
    table["series"] = ["\n".join(theme.wrapped(name, 44)) for name in wide.index.get_level_values(1)] if len(keys) > 1 else ""
    for place, (low, high) in enumerate(pairs):
        table[f"low{place}"], table[f"high{place}"] = wide[round(low, 9)].to_numpy(), wide[round(high, 9)].to_numpy()
    if 0.5 in wide.columns:
        table["middle"] = wide[0.5].to_numpy()
    if history is not None and not history.empty:
        past = theme.checked(history, [*keys, value], "fan, history", [value])
        panels = ["\n".join(theme.wrapped(name, 44)) for name in past[keys[1]]] if len(keys) > 1 else ""
        table = pd.concat([pd.DataFrame({"x": past[keys[0]], "series": panels, "past": past[value]}), table], ignore_index=True)
    return pairs, theme.checked(table, table.columns, "fan")


@theme.in_currency
def layers(
    data: pd.DataFrame,
    *,
    title: str,
    axis: theme.Axis,
    subtitle: str = "",
    layer: str = "term",
    band: pd.DataFrame | None = None,
    changes: pd.DataFrame | None = None,
) -> Picture:
    """Show what a total is made of, quarter by quarter, with the band it has to meet over it.

    Args:
        data: quarter, layer, accelerators (or the axis' column); rows of one quarter and layer are stacked on each other. With begin and
            end (shares of the quarter that are over), a row is drawn in that part of its quarter.
        band: quarter, low, median, high: the demand over the stack.
        changes: quarter, change: what arrives (positive) and what expires (negative), written above the stack.

    Raises:
        ChartError: If columns or rows do not fit.
    """
    value = axis.column or "accelerators"
    table = theme.checked(data, ["quarter", layer, value], "layers", [value]).set_axis(["x", "layer", "value"], axis=1)
    known = [name for name in theme.STACK_ORDER if name in set(table["layer"])]
    names = known + [str(name) for name in table["layer"].unique() if name not in theme.STACK_ORDER]
    tones, signs = theme.colours(names), theme.letters(names)
    table = table.assign(
        sign=table["layer"].astype(str).map(signs),
        ink=table["layer"].astype(str).map(tones).map(theme.ink_on),
        rank=table["layer"].astype(str).map({name: place for place, name in enumerate(names)}),
        layer=table["layer"].map(lambda name: theme.lines(f"{signs[str(name)]}  {theme.display_name(name)}")),
    )
    shown = [theme.lines(f"{signs[name]}  {theme.display_name(name)}") for name in names]
    scale = alt.Scale(domain=shown, range=[tones[name] for name in names])
    legend = alt.Legend(
        title=None, values=shown[::-1], labelExpr=theme.SPLIT_LABEL, symbolType="square", symbolStrokeColor="#ffffff", symbolStrokeWidth=0.5
    )
    edges = [table["x"]] + (
        [theme.checked(frame, ["quarter"], "layers")["quarter"] for frame in (band, changes) if frame is not None and not frame.empty]
    )
    across = _time_channel(pd.concat(edges, ignore_index=True), chart="layers")
    colour, height = alt.Color("layer:N", scale=scale, legend=legend), axis.drawn()
    stacked = alt.Chart(table).mark_bar(stroke="#ffffff", strokeWidth=0.8)
    order = alt.Order("rank:Q", sort="ascending")
    marks = [stacked.encode(across, alt.Y("value:Q", stack="zero", **height), colour, order)]
    if {"begin", "end"} <= set(data):
        table = table.assign(begin=data["begin"].to_numpy(), end=data["end"].to_numpy())
        marks = _in_parts(table, across, height, colour)
    marks += _signs(table.assign(begin=table.get("begin", 0.0), end=table.get("end", 1.0)), across)
    if band is not None and not band.empty:
        over = theme.checked(band, ["quarter", "low", "median", "high"], "layers, band", ["low", "median", "high"]).rename(
            columns={"quarter": "x"}
        )
        strokes = alt.Scale(domain=list(DEMAND_LINES), range=[[1, 0], [4, 3]])
        dash = alt.StrokeDash("kind:N", scale=strokes, legend=alt.Legend(title=None, symbolStrokeColor="#000000", symbolSize=300))
        # A quarter has one demand, not a slope: the band is a box as wide as the bar it is compared with.
        start, stop = theme.at_band(across, 0), alt.X2("x:O", bandPosition=1)
        marks.append(alt.Chart(over).mark_bar(color="#000000", opacity=0.13).encode(across, alt.Y("low:Q"), alt.Y2("high:Q")))
        for column, name in (("low", DEMAND_LINES[1]), ("high", DEMAND_LINES[1]), ("median", DEMAND_LINES[0])):
            base = alt.Chart(over).transform_calculate(kind=f"'{name}'").encode(start, stop, alt.Y(f"{column}:Q"))
            marks.append(base.mark_rule(stroke="#ffffff", strokeWidth=4.5))
            marks.append(base.mark_rule(stroke="#000000", strokeWidth=2.4 if column == "median" else 1.5).encode(dash))
    if changes is not None and not changes.empty:
        marks += _changes(changes, table, band, across)
        subtitle = f"{subtitle}. {CHANGES_NOTE}" if subtitle else CHANGES_NOTE
    least = theme.legend_height([*shown, *(DEMAND_LINES if band is not None else ())])
    return theme.finish(alt.layer(*marks), title, subtitle, height=max(360, least))


def _signs(table: pd.DataFrame, across: Any) -> list[Any]:
    """Write the mark of each layer into its part of the bar, where there is room: colours of one lightness look alike in grey."""
    drawn = table[(table["value"] > 0) & (table["end"] - table["begin"] >= LEAST_SIGNED_PART)].sort_values(
        ["x", "begin", "rank"], kind="stable"
    )
    top = drawn.groupby(["x", "begin"])["value"].cumsum()
    drawn = drawn.assign(middle=top - drawn["value"] / 2)[drawn["value"] >= LEAST_SIGNED_SHARE * max(float(top.max()), 1e-9)]
    return [
        alt.Chart(part[["x", "middle", "sign"]])
        .mark_text(color=str(ink), fontSize=10, fontWeight="bold")
        .encode(theme.at_band(across, float(begin + end) / 2), alt.Y("middle:Q"), alt.Text("sign:N"))
        for (ink, begin, end), part in drawn.groupby(["ink", "begin", "end"], sort=True)
    ]


def _in_parts(table: pd.DataFrame, across: Any, height: dict[str, Any], colour: Any) -> list[Any]:
    """Stack what is there in each part of a quarter, as wide as the part lasts; parts of one quarter begin and end where others do."""
    table = table.sort_values(["x", "begin", "rank"], kind="stable")
    table["top"] = table.groupby(["x", "begin"])["value"].cumsum()
    table["bottom"] = table["top"] - table["value"]
    return [
        alt.Chart(part)
        .mark_rect(stroke="#ffffff", strokeWidth=0.8)
        .encode(
            theme.at_band(across, float(begin)),
            alt.X2("x:O", bandPosition=float(end)),
            alt.Y("top:Q", **height),
            alt.Y2("bottom:Q"),
            colour,
        )
        for (begin, end), part in table.groupby(["begin", "end"], sort=True)
    ]


def _changes(changes: pd.DataFrame, table: pd.DataFrame, band: pd.DataFrame | None, across: Any) -> list[Any]:
    """Write arrivals and expiries above all else that stands in their quarter."""
    moves = theme.checked(changes, ["quarter", "change"], "layers, changes", ["change"]).rename(columns={"quarter": "x"})
    tops = table[table["value"] > 0].groupby("x")["value"].sum()
    if band is not None and not band.empty:
        tops = pd.concat([tops, band.set_index("quarter")["high"]], axis=1).max(axis=1)
    marks: list[Any] = []
    below: set[str] = set()
    for sign, arrow in ((-1, "▼"), (1, "▲")):
        found = moves[moves["change"] * sign > 0].groupby("x", sort=False)["change"].sum().abs()
        for raised in (False, True):
            part = found[[(quarter in below) == raised for quarter in found.index]]
            if part.empty:
                continue
            labels = pd.DataFrame(
                {"x": part.index, "text": [f"{arrow} {compact(size)}" for size in part], "y": tops.reindex(part.index).fillna(0).to_numpy()}
            )
            marks.append(
                alt.Chart(labels)
                .mark_text(baseline="bottom", dy=-20 if raised else -6, fontWeight="bold", fontSize=11 if len(tops) <= 8 else 10)
                .encode(across, alt.Y("y:Q"), alt.Text("text:N"))
            )
        below |= set(found.index)
    return marks


@theme.in_currency
def curve(
    data: pd.DataFrame,
    *,
    title: str,
    across: theme.Axis,
    up: theme.Axis,
    subtitle: str = "",
    series: str | None = None,
    points: pd.DataFrame | None = None,
) -> Picture:
    """Show how one quantity depends on another: a load-duration curve, a scaling curve, a cost over utilisation.

    Args:
        data: The columns of both axes (numbers), series if named; low and high of a band if there is one.
        points: x, y, label: the places the finding speaks of.

    Raises:
        ChartError: If columns or rows do not fit.
    """
    banded = {"low", "high"} <= set(data)
    names = (
        {across.column: "x", up.column: "y"} | ({series: "series"} if series else {}) | ({"low": "low", "high": "high"} if banded else {})
    )
    numeric = [name for name in names if name != series]
    table = theme.checked(data, names, "curve", numeric).rename(columns=names)
    shape: Literal["step-after", "linear"] = "step-after" if up.steps else "linear"
    along = alt.X("x:Q", scale=alt.Scale(nice=False), **across.drawn(theme.X_TITLE, ticks=8, grid=False))
    if not series:
        table = table.assign(series=theme.display_name(up.title))
    raw = [str(name) for name in table["series"].unique()]
    tones = theme.colours(raw)
    shown = [theme.lines(theme.display_name(name)) for name in raw]
    table = table.assign(series=table["series"].map(theme.display_name).map(theme.lines))
    legend = (
        alt.Legend(title=None, labelExpr=theme.SPLIT_LABEL, symbolType="stroke", symbolSize=400, symbolOpacity=1)
        if len(shown) > 1
        else None
    )
    colour = alt.Color("series:N", scale=alt.Scale(domain=shown, range=[tones[name] for name in raw]), legend=legend)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=shown, range=theme.dashes(raw)), legend=legend)
    base = alt.Chart(table).encode(along)
    marks: list[Any] = []
    if banded:
        marks.append(
            base.mark_area(opacity=0.22, interpolate=shape, stroke=None).encode(alt.Y("low:Q", **up.drawn()), alt.Y2("high:Q"), colour)
        )
    marks.append(base.mark_line(interpolate=shape, strokeWidth=2.4).encode(alt.Y("y:Q", **up.drawn()), colour, dash))
    if points is not None and not points.empty:
        spots = theme.checked(points, ["x", "y", "label"], "curve, points", ["x", "y"])
        middle = (table["x"].min() + table["x"].max()) / 2
        for left, part in ((True, spots[spots["x"] <= middle]), (False, spots[spots["x"] > middle])):
            if part.empty:
                continue
            spot = alt.Chart(part.assign(label=[theme.lines(name, 34) for name in part["label"]])).encode(along, alt.Y("y:Q"))
            side: dict[str, Any] = {"align": "left", "dx": 9} if left else {"align": "right", "dx": -9}
            marks.append(spot.mark_point(size=90, color="#000000", filled=True, opacity=1))
            marks += theme.halo_text(spot.encode(alt.Text("label:N")), baseline="bottom", dy=-6, lineBreak="\n", fontWeight="bold", **side)
    height = theme.legend_height(shown, 20) if len(shown) > 1 else 0
    return theme.finish(alt.layer(*marks), title, subtitle, height=max(320, height))
