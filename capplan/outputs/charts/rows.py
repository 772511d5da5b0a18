"""Pictures made of rows: contracts over time, and one number in every cell of a grid."""

import datetime as dt
from typing import Any

import pandas as pd

from capplan.outputs.charts import theme
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture
from capplan.outputs.charts.theme import ChartError
from capplan.text import number_text


def gantt(
    data: pd.DataFrame, *, title: str, today: dt.date | pd.Timestamp, subtitle: str = "", markers: pd.DataFrame | None = None
) -> Picture:
    """Show contracts over time, with today and the days on which something has to be done.

    Args:
        data: contract, start and end (dates), term; a contract may have several rows, rows keep their order.
        markers: contract, date, kind ("Sign by", "Notice", "Delivery", ...).

    Raises:
        ChartError: If columns or rows do not fit, or a contract ends before it starts.
    """
    table = theme.checked(data, ["contract", "start", "end", "term"], "gantt").rename(columns={"contract": "name"})
    for column in ("start", "end"):
        table[column] = pd.to_datetime(table[column])
    backwards = table[table["end"] < table["start"]]
    if not backwards.empty:
        raise ChartError(
            f"gantt: {backwards['name'].iloc[0]!r} ends {backwards['end'].iloc[0].date()}, before it starts"
            f" {backwards['start'].iloc[0].date()}"
        )
    raw = [known for known in theme.STACK_ORDER if known in set(table["term"])]
    raw += [str(found) for found in table["term"].unique() if found not in theme.STACK_ORDER]
    tones, signs = theme.colours(raw), theme.letters(raw)
    terms = [theme.lines(f"{signs[found]}  {theme.display_name(found)}") for found in raw]
    order = list(dict.fromkeys(theme.lines(theme.display_name(found)) for found in table["name"]))
    table = table.assign(
        name=table["name"].map(theme.display_name).map(theme.lines),
        sign=table["term"].astype(str).map(signs),
        ink=table["term"].astype(str).map(tones).map(theme.ink_on),
        term=table["term"].map(lambda found: theme.lines(f"{signs[str(found)]}  {theme.display_name(found)}")),
    )
    dates = [*table["start"], *table["end"], pd.Timestamp(today)]
    step = _month_step(min(dates), max(dates))
    axis = alt.Axis(
        labelExpr=f"[timeFormat(datum.value, '{'%b' if step == 1 else 'Q%q'}'), timeFormat(datum.value, '%Y')]",
        tickCount={"interval": "month", "step": step},
        grid=True,
    )
    across = alt.X("start:T", title=None, axis=axis)
    rows = alt.Y(
        "name:N", sort=order, title=None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL, grid=False), scale=alt.Scale(paddingInner=0.35)
    )
    colour = alt.Color(
        "term:N",
        scale=alt.Scale(domain=terms, range=[tones[found] for found in raw]),
        legend=alt.Legend(title=None, orient="top", labelExpr=theme.SPLIT_LABEL, symbolType="square", columns=3),
    )
    marks = [alt.Chart(table).mark_bar(cornerRadius=2, stroke="#ffffff").encode(across, alt.X2("end:T"), rows, colour)]
    ends = table.assign(start=table["end"])
    marks += [
        alt.Chart(part)
        .mark_text(color=str(ink), align="right", dx=-4, fontSize=10, fontWeight="bold")
        .encode(across, rows, alt.Text("sign:N"))
        for ink, part in ends.groupby("ink", sort=True)
    ]
    day = alt.Chart(pd.DataFrame({"start": [pd.Timestamp(today)], "text": [f"Today, {pd.Timestamp(today).date()}"]})).encode(across)
    marks += [
        day.mark_rule(color="#000000", strokeWidth=1.5, strokeDash=[4, 3]),
        day.mark_text(align="left", baseline="bottom", dx=4, dy=-3, fontWeight="bold").encode(alt.YValue(0), alt.Text("text:N")),
    ]
    if markers is not None and not markers.empty:
        marks.append(_flags(markers, set(data["contract"]), across, rows))
    return theme.finish(alt.layer(*marks), title, subtitle, height=130 + theme.rows_height(order, 28))


def _flags(markers: pd.DataFrame, known: set[str], across: Any, rows: Any) -> Any:
    """Return the days on which something has to be done, one shape a kind."""
    flags = theme.checked(markers, ["contract", "date", "kind"], "gantt, markers").set_axis(["name", "start", "kind"], axis=1)
    unknown = sorted(set(flags["name"]) - known)
    if unknown:
        raise ChartError(f"gantt: a marker stands on {unknown[0]!r}, which is not among the rows")
    kinds = [str(kind) for kind in flags["kind"].unique()]
    flags = flags.assign(name=flags["name"].map(theme.display_name).map(theme.lines), start=pd.to_datetime(flags["start"]))
    form = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=(["diamond", "triangle-right", "circle", "square", "cross", "triangle-up"] * 3)[: len(kinds)]),
        legend=alt.Legend(title=None, orient="bottom", symbolSize=110),
    )
    return alt.Chart(flags).mark_point(size=130, color="#000000", stroke="#ffffff", strokeWidth=1.5, opacity=1).encode(across, rows, form)


def _month_step(first: pd.Timestamp, last: pd.Timestamp) -> int:
    """Return after how many months the axis has its next tick: every month, quarter, half year or year."""
    quarters = (last - first).days / 91
    return 1 if quarters <= 4 else 3 if quarters <= 14 else 6 if quarters <= 28 else 12


def _each_once(names: pd.Series) -> list[str]:
    """Return each name once: in the order of the categories, or else in which they come."""
    there = list(dict.fromkeys(names))
    return [name for name in names.cat.categories if name in there] if isinstance(names.dtype, pd.CategoricalDtype) else there


@theme.in_currency
def heat_map(
    data: pd.DataFrame,
    *,
    title: str,
    axis: theme.Axis,
    across: theme.Axis,
    down: theme.Axis,
    subtitle: str = "",
    middle: float | None = None,
) -> Picture:
    """Show one number for every pair: darker is more, and the number stands in its cell.

    Args:
        data: The columns of `across` and `down` (names, in the order of their categories, or else as they come) and of the number; where
            there is a column `name`, its names give the colour instead of the number, and stand above it: what is best there.
        middle: Value at which the colour turns (break-even); without it one hue runs from light to dark.

    Raises:
        ChartError: If columns or rows do not fit, or a pair comes twice.
    """
    columns = [across.column, down.column, axis.column, *(["name"] if "name" in data else [])]
    table = theme.checked(data, columns, "heat map", [axis.column]).set_axis(["x", "y", "value", "name"][: len(columns)], axis=1)
    twice = table.duplicated(["x", "y"])
    if twice.any():
        row = table[twice].iloc[0]
        raise ChartError(f"heat map: the pair {row['x']!r}, {row['y']!r} comes twice")
    wide = max(6, int(600 / table["x"].nunique() / 6.5))
    names = [theme.lines(theme.display_name(name), wide) for name in _each_once(table["x"])]
    rows = [theme.lines(theme.display_name(name)) for name in _each_once(table["y"])]
    table[["x", "y"]] = table[["x", "y"]].astype(object)
    scale, depth = _shades(table["value"], middle)
    table = table.assign(
        x=table["x"].map(lambda name: theme.lines(theme.display_name(name), wide)),
        y=table["y"].map(theme.display_name).map(theme.lines),
        text=[number_text(number, axis.unit) for number in table["value"]],
        ink=["#ffffff" if share > 0.6 else theme.INK for share in depth],
    )
    colour = alt.Color("value:Q", scale=scale, legend=_scale_legend(axis))
    if "name" in table:
        shades = theme.colours(list(dict.fromkeys(table["name"])))
        colour = alt.Color(
            "name:N", scale=alt.Scale(domain=list(shades), range=list(shades.values())), legend=alt.Legend(title=None, orient="bottom")
        )
        table["text"] = [theme.lines(f"{label}: {text}", wide) for label, text in zip(table["name"], table["text"], strict=True)]
        table["ink"] = "#ffffff"
    base = alt.Chart(table).encode(
        alt.X("x:N", sort=names, title=across.title or None, axis=alt.Axis(labelAngle=0, labelExpr=theme.SPLIT_LABEL, orient="top")),
        alt.Y("y:N", sort=rows, title=down.title or None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL)),
    )
    cells = base.mark_rect(stroke="#ffffff", strokeWidth=1.5).encode(colour)
    words = base.mark_text().encode(alt.Text("text:N"), alt.Color("ink:N", scale=None, legend=None))
    drawn = alt.layer(cells, words).resolve_scale(color="independent")
    return theme.finish(drawn, title, subtitle, height=110 + theme.rows_height(rows, 32))


def _shades(values: pd.Series, middle: float | None) -> tuple[Any, pd.Series]:
    """Return the scale of colours, and how dark each value is: 0 to 1."""
    least, most = float(values.min()), float(values.max())
    if middle is None:
        return alt.Scale(scheme="blues", domain=[least, most if most > least else least + 1]), (values - least) / ((most - least) or 1)
    reach = max(abs(most - middle), abs(least - middle)) or 1.0
    return alt.Scale(scheme="blueorange", reverse=True, domain=[middle - reach, middle + reach]), (values - middle).abs() / reach


def _scale_legend(axis: theme.Axis) -> Any:
    """Return the legend of a scale of colours."""
    return alt.Legend(
        title=theme.axis_title(axis.title, axis.unit),
        labelExpr=theme.axis_labels(axis.unit),
        orient="bottom",
        gradientLength=240,
        titleOrient="left",
        tickCount=4,
    )
