"""What was, what is expected, and where other kinds of growth would lead."""

from typing import Any

import pandas as pd

from capplan.outputs.charts import theme
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture

#: Names of what is drawn, with their colours: they differ in grey too, and courses are dashed.
DRAWN = {"90 % of cases": "#c4d6f2", "Median": "#0045a5", "Measured": theme.INK, "If only this kind of growth held": "#d47a31"}


@theme.in_currency
def growth(
    bands: pd.DataFrame, history: pd.DataFrame, courses: pd.DataFrame, *, title: str, axis: theme.Axis, subtitle: str = ""
) -> Picture:
    """Show each series in a panel: its past, the median and the band of what may come, and a dashed line for each other kind of growth.

    Args:
        bands: series, month (date), low, median, high.
        history: series, month, value.
        courses: series, month, kind, value; each line is named at its end.

    Raises:
        ChartError: If columns or rows do not fit.
    """
    parts = [
        theme.checked(bands, ["series", "month", "low", "median", "high"], "growth", ["low", "median", "high"]),
        theme.checked(history, ["series", "month", "value"], "growth, history", ["value"]).rename(columns={"value": "past"}),
    ]
    if len(courses):
        own = theme.checked(courses, ["series", "month", "kind", "value"], "growth, courses", ["value"]).rename(columns={"value": "course"})
        parts.append(own.assign(named=own["kind"].where(own["month"] == own["month"].max())))
    table = pd.concat(parts, ignore_index=True)
    table = theme.checked(table, table.columns, "growth")
    table["series"] = ["\n".join(theme.wrapped(name, 46)) for name in table["series"]]
    table = table.assign(**{f"kind{place}": name for place, name in enumerate(DRAWN)})
    scale = alt.Scale(domain=list(DRAWN), range=list(DRAWN.values()))
    legend = alt.Legend(title=None, orient="top", symbolType="square", values=list(DRAWN))
    across = alt.X("month:T", title=None, axis=alt.Axis(grid=False, labelOverlap=True, format="%b %Y", tickCount=6))
    upright = alt.Y("low:Q", **axis.drawn(theme.PANEL_TITLE, ticks=5, minExtent=44))

    def drawn(place: int, column: str) -> Any:
        shown = alt.Chart(table).transform_filter(f"isValid(datum.{column})")
        return shown.encode(across, alt.Color(f"kind{place}:N", scale=scale, legend=legend))

    marks = [
        drawn(0, "low").mark_area(opacity=1).encode(upright, alt.Y2("high:Q")),
        drawn(1, "median").mark_line().encode(alt.Y("median:Q")),
        drawn(2, "past").mark_line(strokeWidth=1.5).encode(alt.Y("past:Q")),
    ]
    if len(courses):
        marks.append(drawn(3, "course").mark_line(strokeDash=[4, 3], strokeWidth=1.3).encode(alt.Y("course:Q"), alt.Detail("kind:N")))
        named = alt.Chart(table).transform_filter("isValid(datum.named)").encode(across, alt.Y("course:Q"), alt.Text("named:N"))
        marks += theme.halo_text(named, align="right", dx=-2, dy=-6, fontSize=9)
    count = table["series"].nunique()
    panel = alt.Facet("series:N", sort=list(dict.fromkeys(table["series"])), header=alt.Header(labelExpr=theme.SPLIT_LABEL))
    cell = alt.layer(*marks).properties(width=600 if count == 1 else 268, height=170)
    grid = cell.facet(facet=panel, columns=min(count, 2), spacing={"row": 30, "column": 24})
    return theme.finish(grid.resolve_scale(y="independent").resolve_axis(x="independent"), title, subtitle, height=None)
