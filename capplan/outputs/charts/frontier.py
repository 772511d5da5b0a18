"""Pictures of points: alternatives by two measures with their names."""

from typing import Any

import pandas as pd

from capplan.errors import nearest
from capplan.outputs.charts import theme
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture

SIDES: dict[str, dict[str, Any]] = {
    "right": {"align": "left", "baseline": "middle", "dx": 10},
    "left": {"align": "right", "baseline": "middle", "dx": -10},
    "above": {"align": "center", "baseline": "bottom", "dy": -9},
    "below": {"align": "center", "baseline": "top", "dy": 9},
}


@theme.in_currency
def frontier(
    data: pd.DataFrame,
    *,
    title: str,
    across: theme.Axis,
    up: theme.Axis,
    subtitle: str = "",
    chosen: str | None = None,
    connect: bool = False,
) -> Picture:
    """Show alternatives by two measures, each with its name: expected cost against bad-case cost, price against lead time.

    Args:
        data: The columns of both axes (numbers), label.
        chosen: The label of the plan itself, drawn in its own colour and shape, on top.
        connect: Join the points in the order of x.

    Raises:
        ChartError: If columns or rows do not fit.
    """
    names = {across.column: "x", up.column: "y", "label": "label"}
    table = theme.checked(data, names, "frontier", [across.column, up.column]).rename(columns=names)
    if chosen is not None and chosen not in set(table["label"]):
        raise theme.ChartError(f"frontier: no point is called {chosen!r}; {nearest(chosen, map(str, table['label']))}")
    table["kind"] = ["The plan" if name == chosen else "Alternative" for name in table["label"]]
    table["label"] = [theme.display_name(name) for name in table["label"]]
    table = table.sort_values("kind", kind="stable", ignore_index=True)  # the plan last, so that nothing covers it
    domains = {axis: _padded(table[axis]) for axis in ("x", "y")}
    table["side"] = _sides(table, domains)
    along = alt.X("x:Q", scale=alt.Scale(domain=domains["x"], nice=False, zero=False), **across.drawn(theme.X_TITLE))
    upright = alt.Y("y:Q", scale=alt.Scale(domain=domains["y"], nice=False, zero=False), **up.drawn())
    base = alt.Chart(table).encode(along, upright)
    kinds = ["The plan", "Alternative"]
    legend = alt.Legend(title=None, orient="top") if chosen else None
    marks: list[Any] = [base.mark_line(color=theme.MUTED, strokeWidth=1.5, strokeDash=[5, 3]).encode(alt.Order("x:Q"))] if connect else []
    marks.append(
        base.mark_point(opacity=1, size=130, filled=True, stroke="#ffffff").encode(
            alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=["#cf011c", "#087bbc"]), legend=legend),
            alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["diamond", "circle"]), legend=legend),
        )
    )
    for side, place in SIDES.items():
        part = table[table["side"] == side]
        if not part.empty:
            marks += theme.halo_text(alt.Chart(part).encode(along, upright, alt.Text("label:N")), **place)
    return theme.finish(alt.layer(*marks), title, subtitle, height=380)


def _padded(values: pd.Series) -> list[float]:
    """Return a domain with room for labels around the values."""
    least, most = float(values.min()), float(values.max())
    room = 0.16 * ((most - least) or abs(most) or 1.0)
    return [least - room, most + room]


def _sides(table: pd.DataFrame, domains: dict[str, list[float]]) -> list[str]:
    """Choose for each label the side on which it meets no point, no other label and no edge; the least bad one if there is none."""
    wide, tall, letter, line = 600.0, 290.0, 6.2, 13.0
    spots = [
        (
            wide * (row.x - domains["x"][0]) / (domains["x"][1] - domains["x"][0]),
            tall * (domains["y"][1] - row.y) / (domains["y"][1] - domains["y"][0]),
        )
        for row in table.itertuples(index=False)
    ]
    taken = [(across - 8, down - 8, across + 8, down + 8) for across, down in spots]
    chosen = []
    for (across, down), text in zip(spots, table["label"], strict=True):
        long = len(text) * letter
        boxes = {
            "right": (across + 9, down - line / 2, across + 10 + long, down + line / 2),
            "left": (across - 10 - long, down - line / 2, across - 9, down + line / 2),
            "above": (across - long / 2, down - 9 - line, across + long / 2, down - 9),
            "below": (across - long / 2, down + 9, across + long / 2, down + 9 + line),
        }

        def clash(box: tuple[float, float, float, float]) -> float:
            outside = max(0.0, -box[0]) + max(0.0, box[2] - wide) + max(0.0, -box[1]) + max(0.0, box[3] - tall)
            overlap = sum(
                max(0.0, min(box[2], other[2]) - max(box[0], other[0])) * max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
                for other in taken
            )
            return outside * line + overlap

        side = min(boxes, key=lambda name: clash(boxes[name]))
        taken.append(boxes[side])
        chosen.append(side)
    return chosen
