"""One function per kind of picture; each takes a tidy frame, checks its columns, and computes nothing.

Every function takes the finding as `title`, the assumption it rests on as `subtitle`, and the `unit` of what is drawn
("USD", "USD/h", "share", "accelerators", ...), which decides how numbers are written. Pictures over time and quantity
are here, pictures that compare a few numbers in `charts_compare`; all are imported from this module.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import altair as alt
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from capplan.outputs import theme
from capplan.outputs.charts_compare import bars, frontier, scatter, tornado, waterfall
from capplan.outputs.theme import ChartError, number_text, stacked, to_png, to_svg
from capplan.units import is_quarter, quarter_index, quarter_range

__all__ = [
    "ChartError",
    "bars",
    "curve",
    "fan",
    "frontier",
    "gantt",
    "heat_map",
    "layers",
    "number_text",
    "scatter",
    "stacked",
    "staircase",
    "to_png",
    "to_svg",
    "tornado",
    "waterfall",
]

# From the ground up: what is owned and signed, then what can be left, then what is missing.
STACK_ORDER = ("existing", "owned", "lease", "reserved_3y", "reserved_1y", "committed", "savings_plan_3y", "savings_plan_1y", "capacity_block", "on_demand", "spot", "api", "shortfall")
YEAR_BELOW = "slice(datum.value, 4) == 'Q1' || datum.index == 0 ? [slice(datum.value, 4), slice(datum.value, 0, 4)] : slice(datum.value, 4)"
DEMAND_LINES = ("Demand, median", "Demand, low and high")


def _time_channel(values: pd.Series, title: str = "", *, chart: str) -> alt.X:
    """Return the x channel for quarters (all of them, in order, year under the first) or for dates."""
    if is_datetime64_any_dtype(values):
        return alt.X("x:T", title=title or None, axis=alt.Axis(grid=False, labelOverlap=True, format="%b %Y", tickCount=8))
    labels = [str(value) for value in values.unique()]
    wrong = [label for label in labels if not is_quarter(label)]
    if wrong:
        raise ChartError(f"{chart}: {wrong[0]!r} is neither a date nor a quarter like 2027Q1")
    first, last = min(labels, key=quarter_index), max(labels, key=quarter_index)
    domain = quarter_range(first, quarter_index(last) - quarter_index(first) + 1)
    expression = YEAR_BELOW if len(domain) <= 28 else "slice(datum.value, 4) == 'Q1' || datum.index == 0 ? slice(datum.value, 0, 4) : ''"
    axis = alt.Axis(labelAngle=0, labelExpr=expression, labelOverlap=False)
    return alt.X("x:O", title=title or None, sort=domain, scale=alt.Scale(domain=domain, paddingInner=0.18, paddingOuter=0.1), axis=axis)


def _value_axis(title: str, unit: str, **more: Any) -> dict[str, Any]:
    """Return title and axis of the channel that shows the value."""
    return {"title": theme.axis_title(title, unit), "axis": alt.Axis(labelExpr=theme.axis_labels(unit), tickCount=6, **more)}


def fan(
    quantiles: pd.DataFrame,
    *,
    title: str,
    value_title: str,
    unit: str,
    subtitle: str = "",
    x: str = "quarter",
    value: str = "quantity",
    series: str | None = None,
    history: pd.DataFrame | None = None,
) -> Any:
    """Show what may come: the median as a line, pairs of quantiles as bands, what was measured before it as dots.

    Parameters
    ----------
    quantiles
        x (quarter label or date), quantile (0 to 1), value, and series if named; quantiles come in pairs (0.1 with 0.9).
    title, subtitle, value_title, unit
        Finding, assumption, what the axis shows, its unit.
    x, value, series
        Names of the columns; each series gets a panel with its own scale.
    history
        x, value and series of the past.

    Raises
    ------
    ChartError
        If columns, pairs of quantiles or rows do not fit.
    """
    keys = [x] + ([series] if series else [])
    data = theme.checked(quantiles, [*keys, "quantile", value], "fan", [value, "quantile"])
    levels = sorted({float(level) for level in data["quantile"]})
    pairs = [(low, 1 - low) for low in levels if low < 0.5 and any(abs(level - (1 - low)) < 1e-9 for level in levels)]
    if not pairs:
        raise ChartError(f"fan: no pair of quantiles such as 0.1 and 0.9 among {levels}; a forecast without its band is not shown")
    wide = data.assign(quantile=data["quantile"].round(9)).pivot_table(index=keys, columns="quantile", values=value, sort=False)
    table = pd.DataFrame({"x": wide.index.get_level_values(0)})
    table["series"] = ["\n".join(theme.wrapped(name, 44)) for name in wide.index.get_level_values(1)] if series else ""
    for place, (low, high) in enumerate(pairs):
        table[f"low{place}"], table[f"high{place}"] = wide[round(low, 9)].to_numpy(), wide[round(high, 9)].to_numpy()
    if 0.5 in wide.columns:
        table["middle"] = wide[0.5].to_numpy()
    if history is not None and not history.empty:
        past = theme.checked(history, [*keys, value], "fan, history", [value])
        names = ["\n".join(theme.wrapped(name, 44)) for name in past[series]] if series else ""
        table = pd.concat([pd.DataFrame({"x": past[x], "series": names, "past": past[value]}), table], ignore_index=True)
    table = theme.checked(table, table.columns, "fan")
    across = _time_channel(table["x"], chart="fan")
    names = [f"{(high - low):.0%} of cases" for low, high in pairs]
    kinds = [*names, *(["Median"] if "middle" in table else []), *(["Measured"] if "past" in table else [])]
    palette = [*["#c4d6f2", "#8fb3e6", "#5f8fd6", "#3d72c2"][: len(names)], *(["#0045a5"] if "middle" in table else []), *([theme.INK] if "past" in table else [])]
    if len(names) > 4:
        raise ChartError(f"fan: {len(names)} bands; at most 4 can be told apart")
    scale = alt.Scale(domain=kinds, range=palette)
    legend = alt.Legend(title=None, orient="top", symbolType="square", values=kinds)

    axis = _value_axis(value_title, unit)

    def drawn(name: str, *columns: str) -> Any:
        """Start a layer of the rows that have these columns, in the colour of this name."""
        shown = alt.Chart(table).transform_filter(" && ".join(f"isValid(datum.{column})" for column in columns)).transform_calculate(kind=f"'{name}'")
        return shown.encode(x=across, color=alt.Color("kind:N", scale=scale, legend=legend))

    marks: list[Any] = []
    for place, name in enumerate(names):
        marks.append(drawn(name, f"low{place}", f"high{place}").mark_area(opacity=1).encode(y=alt.Y(f"low{place}:Q", **axis), y2=f"high{place}:Q"))
    if "middle" in table:
        marks.append(drawn("Median", "middle").mark_line(point={"size": 36}).encode(y="middle:Q"))
    if "past" in table:
        marks.append(drawn("Measured", "past").mark_line(point={"size": 30, "shape": "square"}, strokeWidth=1.5).encode(y="past:Q"))
    if not series:
        return theme.finish(alt.layer(*marks), title, subtitle)
    panel = alt.Facet("series:N", sort=list(dict.fromkeys(table["series"])), header=alt.Header(labelExpr=theme.SPLIT_LABEL))
    count = table["series"].nunique()
    cell = alt.layer(*marks).properties(width=600 if count == 1 else 268, height=150)
    grid = cell.facet(facet=panel, columns=min(count, 2), spacing={"row": 26, "column": 24}).resolve_scale(y="independent")
    return theme.finish(grid, title, subtitle, height=None)


def layers(
    data: pd.DataFrame,
    *,
    title: str,
    value_title: str,
    unit: str,
    subtitle: str = "",
    x: str = "quarter",
    value: str = "accelerators",
    layer: str = "term",
    band: pd.DataFrame | None = None,
    changes: pd.DataFrame | None = None,
) -> Any:
    """Show what a total is made of, quarter by quarter, with the band it has to meet over it.

    Parameters
    ----------
    data
        x (quarter), layer, value; rows of one quarter and layer are stacked on each other.
    band
        x, low, median, high: the demand over the stack.
    changes
        x, change: what arrives (positive) and what expires (negative), written above the stack.

    Raises
    ------
    ChartError
        If columns or rows do not fit.
    """
    table = theme.checked(data, [x, layer, value], "layers", [value]).set_axis(["x", "layer", "value"], axis=1)
    known = [name for name in STACK_ORDER if name in set(table["layer"])]
    names = known + [str(name) for name in table["layer"].unique() if name not in STACK_ORDER]
    tones = theme.colours(names)
    table = table.assign(rank=table["layer"].astype(str).map({name: place for place, name in enumerate(names)}), layer=table["layer"].map(theme.display_name).map(theme.lines))
    shown = [theme.lines(theme.display_name(name)) for name in names]
    scale = alt.Scale(domain=shown, range=[tones[name] for name in names])
    legend = alt.Legend(title=None, values=shown[::-1], labelExpr=theme.SPLIT_LABEL, symbolType="square", symbolStrokeColor="#ffffff", symbolStrokeWidth=0.5)
    edges = [table["x"]] + ([theme.checked(frame, [x], "layers")[x] for frame in (band, changes) if frame is not None and not frame.empty])
    across = _time_channel(pd.concat(edges, ignore_index=True), chart="layers")
    marks = [
        alt.Chart(table)
        .mark_bar(stroke="#ffffff", strokeWidth=0.8)
        .encode(x=across, y=alt.Y("value:Q", stack="zero", **_value_axis(value_title, unit)), color=alt.Color("layer:N", scale=scale, legend=legend), order=alt.Order("rank:Q", sort="ascending"))
    ]
    if band is not None and not band.empty:
        over = theme.checked(band, [x, "low", "median", "high"], "layers, band", ["low", "median", "high"]).rename(columns={x: "x"})
        base = alt.Chart(over).encode(x=across)
        strokes = alt.Scale(domain=list(DEMAND_LINES), range=[[1, 0], [5, 3]])
        dash = alt.StrokeDash("kind:N", scale=strokes, legend=alt.Legend(title=None, symbolStrokeColor="#000000", symbolSize=300))
        marks.append(base.mark_area(color="#ffffff", opacity=0.38).encode(y="low:Q", y2="high:Q"))
        for column, name in (("low", DEMAND_LINES[1]), ("high", DEMAND_LINES[1]), ("median", DEMAND_LINES[0])):
            marks.append(base.mark_line(stroke="#ffffff", strokeWidth=4, opacity=0.75).encode(y=f"{column}:Q"))
            marks.append(base.transform_calculate(kind=f"'{name}'").mark_line(stroke="#000000", strokeWidth=1.8).encode(y=f"{column}:Q", strokeDash=dash))
    if changes is not None and not changes.empty:
        marks.append(_changes(changes, table, band, x, across))
    return theme.finish(alt.layer(*marks), title, subtitle, height=360)


def _changes(changes: pd.DataFrame, table: pd.DataFrame, band: pd.DataFrame | None, x: str, across: alt.X) -> Any:
    """Write arrivals and expiries above all else that stands in their quarter."""
    moves = theme.checked(changes, [x, "change"], "layers, changes", ["change"]).rename(columns={x: "x"})
    tops = table[table["value"] > 0].groupby("x")["value"].sum()
    if band is not None and not band.empty:
        tops = pd.concat([tops, band.set_index(x)["high"]], axis=1).max(axis=1)
    texts = moves.groupby("x", sort=False)["change"].agg(lambda found: "\n".join(f"{'▲' if step > 0 else '▼'} {theme.number_text(abs(step))}" for step in found if step))
    labels = pd.DataFrame({"x": texts.index, "text": texts.to_numpy(), "y": tops.reindex(texts.index).fillna(0).to_numpy()})
    return alt.Chart(labels).mark_text(baseline="bottom", dy=-8, lineBreak="\n", lineHeight=13, fontWeight="bold").encode(x=across, y="y:Q", text="text:N")


def curve(
    data: pd.DataFrame,
    *,
    x: str,
    y: str,
    title: str,
    x_title: str,
    y_title: str,
    x_unit: str,
    unit: str,
    subtitle: str = "",
    series: str | None = None,
    low: str | None = None,
    high: str | None = None,
    points: pd.DataFrame | None = None,
    steps: bool = False,
) -> Any:
    """Show how one quantity depends on another: a load-duration curve, a scaling curve, a cost over utilisation.

    Parameters
    ----------
    data
        x and y (numbers), series, and low and high of a band if named.
    x_title, y_title, x_unit, unit
        What the axes show and in which units.
    points
        x, y, label: the places the finding speaks of.
    steps
        Draw steps (the value holds until the next x) instead of slopes.

    Raises
    ------
    ChartError
        If columns or rows do not fit.
    """
    if (low is None) != (high is None):
        raise ChartError("curve: a band needs both its columns, low and high")
    names = {x: "x", y: "y"} | ({series: "series"} if series else {}) | ({low: "low", high: "high"} if low and high else {})
    numeric = [name for name in names if name != series]
    table = theme.checked(data, names, "curve", numeric).rename(columns=names)
    shape = "step-after" if steps else "linear"
    across = alt.X("x:Q", title=theme.axis_title(x_title, x_unit), scale=alt.Scale(nice=False), axis=alt.Axis(labelExpr=theme.axis_labels(x_unit), tickCount=8, grid=False))
    up = alt.Y("y:Q", **_value_axis(y_title, unit))
    if not series:
        table = table.assign(series=theme.display_name(y_title))
    raw = [str(name) for name in table["series"].unique()]
    tones = theme.colours(raw)
    shown = [theme.lines(theme.display_name(name)) for name in raw]
    table = table.assign(series=table["series"].map(theme.display_name).map(theme.lines))
    legend = alt.Legend(title=None, labelExpr=theme.SPLIT_LABEL, symbolSize=300) if len(shown) > 1 else None
    colour = alt.Color("series:N", scale=alt.Scale(domain=shown, range=[tones[name] for name in raw]), legend=legend)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=shown, range=theme.dashes(raw)), legend=legend)
    base = alt.Chart(table).encode(x=across)
    marks: list[Any] = []
    if low and high:
        fill = alt.Fill("series:N", scale=alt.Scale(domain=shown, range=[tones[name] for name in raw]), legend=None)
        marks.append(base.mark_area(opacity=0.22, interpolate=shape).encode(y=alt.Y("low:Q", **_value_axis(y_title, unit)), y2="high:Q", fill=fill))
    marks.append(base.mark_line(interpolate=shape, strokeWidth=2.4).encode(y=up, color=colour, strokeDash=dash))
    if points is not None and not points.empty:
        spots = theme.checked(points, ["x", "y", "label"], "curve, points", ["x", "y"])
        middle = (table["x"].min() + table["x"].max()) / 2
        for left, part in ((True, spots[spots["x"] <= middle]), (False, spots[spots["x"] > middle])):
            if part.empty:
                continue
            spot = alt.Chart(part.assign(label=[theme.lines(name, 34) for name in part["label"]])).encode(x=across, y="y:Q")
            side = {"align": "left", "dx": 9} if left else {"align": "right", "dx": -9}
            marks.append(spot.mark_point(size=90, color="#000000", filled=True, opacity=1))
            marks.append(spot.mark_text(baseline="bottom", dy=-6, lineBreak="\n", fontWeight="bold", stroke="#ffffff", strokeWidth=3, strokeJoin="round", **side).encode(text="label:N"))
            marks.append(spot.mark_text(baseline="bottom", dy=-6, lineBreak="\n", fontWeight="bold", **side).encode(text="label:N"))
    return theme.finish(alt.layer(*marks), title, subtitle)


def staircase(data: pd.DataFrame, *, x: str, y: str, title: str, x_title: str, y_title: str, x_unit: str, unit: str, subtitle: str = "", series: str | None = None, points: pd.DataFrame | None = None) -> Any:
    """Show a quantity that holds until the next step: capacity by committed units, memory by rung, price by tier.

    Parameters are those of `curve`; each value holds from its x to the next.
    """
    return curve(data, x=x, y=y, title=title, x_title=x_title, y_title=y_title, x_unit=x_unit, unit=unit, subtitle=subtitle, series=series, points=points, steps=True)


def gantt(
    data: pd.DataFrame,
    *,
    title: str,
    today: dt.date | pd.Timestamp,
    subtitle: str = "",
    name: str = "contract",
    start: str = "start",
    end: str = "end",
    term: str = "term",
    markers: pd.DataFrame | None = None,
) -> Any:
    """Show contracts over time, with today and the days on which something has to be done.

    Parameters
    ----------
    data
        name, start and end (dates), term; a name may have several rows, rows keep their order.
    today
        The day of the plan.
    markers
        name, date, kind ("Sign by", "Notice", "Delivery", ...).

    Raises
    ------
    ChartError
        If columns or rows do not fit, or a contract ends before it starts.
    """
    table = theme.checked(data, [name, start, end, term], "gantt").set_axis(["name", "start", "end", "term"], axis=1)
    for column in ("start", "end"):
        table[column] = pd.to_datetime(table[column])
    backwards = table[table["end"] < table["start"]]
    if not backwards.empty:
        raise ChartError(f"gantt: {backwards['name'].iloc[0]!r} ends {backwards['end'].iloc[0].date()}, before it starts {backwards['start'].iloc[0].date()}")
    raw = [known for known in STACK_ORDER if known in set(table["term"])]
    raw += [str(found) for found in table["term"].unique() if found not in STACK_ORDER]
    tones = theme.colours(raw)
    terms = [theme.lines(theme.display_name(found)) for found in raw]
    order = list(dict.fromkeys(theme.lines(theme.display_name(found)) for found in table["name"]))
    table = table.assign(name=table["name"].map(theme.display_name).map(theme.lines), term=table["term"].map(theme.display_name).map(theme.lines))
    dates = [*table["start"], *table["end"], pd.Timestamp(today)]
    axis = alt.Axis(labelExpr="[timeFormat(datum.value, 'Q%q'), timeFormat(datum.value, '%Y')]", tickCount={"interval": "month", "step": _month_step(min(dates), max(dates))}, grid=True)
    across = alt.X("start:T", title=None, axis=axis)
    rows = alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL, grid=False), scale=alt.Scale(paddingInner=0.35))
    colour = alt.Color("term:N", scale=alt.Scale(domain=terms, range=[tones[found] for found in raw]), legend=alt.Legend(title=None, orient="top", labelExpr=theme.SPLIT_LABEL, symbolType="square", columns=4))
    marks = [alt.Chart(table).mark_bar(cornerRadius=2, stroke="#ffffff").encode(x=across, x2="end:T", y=rows, color=colour)]
    day = alt.Chart(pd.DataFrame({"start": [pd.Timestamp(today)], "text": [f"Today, {pd.Timestamp(today).date()}"]})).encode(x=across)
    marks += [day.mark_rule(color="#000000", strokeWidth=1.5, strokeDash=[4, 3]), day.mark_text(align="left", baseline="bottom", dx=4, dy=-3, fontWeight="bold").encode(y=alt.value(0), text="text:N")]
    if markers is not None and not markers.empty:
        flags = theme.checked(markers, [name, "date", "kind"], "gantt, markers").set_axis(["name", "start", "kind"], axis=1)
        unknown = sorted(set(flags["name"]) - set(data[name]))
        if unknown:
            raise ChartError(f"gantt: a marker stands on {unknown[0]!r}, which is not among the rows")
        kinds = [str(kind) for kind in flags["kind"].unique()]
        flags = flags.assign(name=flags["name"].map(theme.display_name).map(theme.lines), start=pd.to_datetime(flags["start"]))
        form = alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=(["diamond", "triangle-right", "circle", "square", "cross", "triangle-up"] * 3)[: len(kinds)]), legend=alt.Legend(title=None, orient="top", symbolFillColor="#ffffff", symbolStrokeColor="#000000"))
        marks.append(alt.Chart(flags).mark_point(size=110, fill="#ffffff", stroke="#000000", strokeWidth=1.6, opacity=1).encode(x=across, y=rows, shape=form))
    height = 60 + sum(max(26, 15 * label.count("\n") + 26) for label in order)
    return theme.finish(alt.layer(*marks), title, subtitle, height=height + 40)


def _month_step(first: pd.Timestamp, last: pd.Timestamp) -> int:
    """Return after how many months the axis has its next tick: every quarter, half year or year."""
    quarters = (last - first).days / 91
    return 3 if quarters <= 14 else 6 if quarters <= 28 else 12


def heat_map(
    data: pd.DataFrame,
    *,
    x: str,
    y: str,
    value: str,
    title: str,
    value_title: str,
    unit: str,
    subtitle: str = "",
    x_title: str = "",
    y_title: str = "",
    middle: float | None = None,
) -> Any:
    """Show one number for every pair: darker is more, and the number stands in its cell.

    Parameters
    ----------
    data
        x, y (names, in the order they come), value.
    middle
        Value at which the colour turns (break-even); without it one hue runs from light to dark.

    Raises
    ------
    ChartError
        If columns or rows do not fit, or a pair comes twice.
    """
    table = theme.checked(data, [x, y, value], "heat map", [value]).set_axis(["x", "y", "value"], axis=1)
    twice = table.duplicated(["x", "y"])
    if twice.any():
        row = table[twice].iloc[0]
        raise ChartError(f"heat map: the pair {row['x']!r}, {row['y']!r} comes twice")
    columns = table["x"].nunique()
    wide = max(6, int(600 / columns / 6.5))
    across = [theme.lines(theme.display_name(name), wide) for name in dict.fromkeys(table["x"])]
    down = [theme.lines(theme.display_name(name)) for name in dict.fromkeys(table["y"])]
    least, most = float(table["value"].min()), float(table["value"].max())
    if middle is None:
        scale = alt.Scale(scheme="blues", domain=[least, most if most > least else least + 1])
        depth = (table["value"] - least) / ((most - least) or 1)
    else:
        reach = max(abs(most - middle), abs(least - middle)) or 1.0
        scale = alt.Scale(scheme="blueorange", reverse=True, domain=[middle - reach, middle + reach])
        depth = (table["value"] - middle).abs() / reach
    ink = ["#ffffff" if share > 0.6 else theme.INK for share in depth]
    table = table.assign(
        x=table["x"].map(lambda name: theme.lines(theme.display_name(name), wide)),
        y=table["y"].map(theme.display_name).map(theme.lines),
        text=[theme.number_text(number, unit) for number in table["value"]],
        ink=ink,
    )
    base = alt.Chart(table).encode(
        x=alt.X("x:N", sort=across, title=x_title or None, axis=alt.Axis(labelAngle=0, labelExpr=theme.SPLIT_LABEL, orient="top")),
        y=alt.Y("y:N", sort=down, title=y_title or None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL)),
    )
    legend = alt.Legend(title=theme.axis_title(value_title, unit), labelExpr=theme.axis_labels(unit), orient="bottom", gradientLength=240, titleOrient="left", tickCount=4)
    cells = base.mark_rect(stroke="#ffffff", strokeWidth=1.5).encode(color=alt.Color("value:Q", scale=scale, legend=legend))
    words = base.mark_text().encode(text="text:N", color=alt.Color("ink:N", scale=None, legend=None))
    return theme.finish(alt.layer(cells, words).resolve_scale(color="independent"), title, subtitle, height=110 + sum(30 + 14 * label.count("\n") for label in down))
