"""Picture of a schedule: who holds which row from when to when, and what moves between them."""

import pandas as pd

from capplan.outputs.charts import theme
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture
from capplan.outputs.charts.theme import ChartError


def schedule(
    data: pd.DataFrame, *, title: str, subtitle: str = "", moves: pd.DataFrame | None = None, limit: float | None = None
) -> Picture:
    """Show bars on rows over time, coloured by kind; those marked are framed.

    Args:
        data: row, label, kind, start, end (hours), marked (bool); rows keep their order.
        moves: row, start, end: thin bars above the row they lead to.
        limit: A time at which a line stands.

    Raises:
        ChartError: If columns or rows do not fit, or a bar ends before it starts.
    """
    table = theme.checked(data, ["row", "label", "kind", "start", "end", "marked"], "schedule", ["start", "end"])
    backwards = table[table["end"] < table["start"]]
    if not backwards.empty:
        raise ChartError(f"schedule: {backwards['label'].iloc[0]!r} ends before it starts")
    raw = [str(kind) for kind in dict.fromkeys(table["kind"])]
    tones = theme.colours(raw)
    kinds = [theme.lines(theme.display_name(kind)) for kind in raw]
    table = table.assign(
        **{name: table[name].map(theme.display_name).map(theme.lines) for name in ("row", "kind")},
        label=table["label"].map(theme.display_name),
    )
    order = list(dict.fromkeys(table["row"]))
    across = alt.X(
        "start:Q",
        title=theme.axis_title("Time since the start", "hours", theme.X_TITLE),
        axis=alt.Axis(grid=True),
        scale=alt.Scale(zero=True, nice=True),
    )
    down = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL, grid=False), scale=alt.Scale(paddingInner=0.3))
    legend = alt.Legend(title=None, orient="top", labelExpr=theme.SPLIT_LABEL, symbolType="square", columns=4)
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[tones[kind] for kind in raw]), legend=legend)
    base = alt.Chart(table).encode(across, alt.X2("end:Q"), down)
    marks = [
        base.mark_bar(cornerRadius=2, stroke="#ffffff").encode(colour),
        base.transform_filter("datum.marked").mark_bar(cornerRadius=2, filled=False, stroke="#000000", strokeWidth=2),
    ]
    if moves is not None and not moves.empty:
        thin = theme.checked(moves, ["row", "start", "end"], "schedule, moves", ["start", "end"])
        thin = thin.assign(row=thin["row"].map(theme.display_name).map(theme.lines))
        above = alt.Chart(thin).encode(across, alt.X2("end:Q"), down)
        marks.append(above.mark_bar(size=4, color=theme.INK, yOffset=-11, stroke=theme.INK, strokeWidth=1))
    # a name stands in its bar where it has room, at about 6 pixels a letter
    whole = float(table["end"].max()) or 1.0
    room = table[(table["end"] - table["start"]) / whole * 520 > 6 * table["label"].str.len()]
    marks.append(
        alt.Chart(room.assign(middle=(room["start"] + room["end"]) / 2))
        .mark_text(fontSize=10, stroke="#ffffff", strokeWidth=3, strokeJoin="round")
        .encode(alt.X("middle:Q"), down, alt.Text("label:N"))
    )
    marks.append(
        alt.Chart(room.assign(middle=(room["start"] + room["end"]) / 2))
        .mark_text(fontSize=10, color="#000000")
        .encode(alt.X("middle:Q"), down, alt.Text("label:N"))
    )
    if limit is not None:
        day = alt.Chart(pd.DataFrame({"start": [float(limit)], "text": ["Deadline"]})).encode(across)
        marks += [
            day.mark_rule(color="#000000", strokeWidth=1.5, strokeDash=[4, 3]),
            day.mark_text(align="right", baseline="bottom", dx=-4, dy=-3, fontWeight="bold").encode(alt.YValue(0), alt.Text("text:N")),
        ]
    return theme.finish(alt.layer(*marks), title, subtitle, height=130 + theme.rows_height(order, 26))
