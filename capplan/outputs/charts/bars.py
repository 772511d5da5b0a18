"""Pictures that compare a few numbers: ranked bars, a bridge from one total to another, sensitivities."""

from typing import Any

import pandas as pd

from capplan.outputs.charts import theme
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture
from capplan.outputs.charts.theme import ChartError
from capplan.text import number_text

MAX_COLUMNS = 12
RIGHT: dict[str, Any] = {"align": "left", "dx": 5}
LEFT: dict[str, Any] = {"align": "right", "dx": -5}


@theme.in_currency
def bars(
    data: pd.DataFrame,
    *,
    title: str,
    axis: theme.Axis,
    subtitle: str = "",
    part: str | None = None,
    reference: float | None = None,
    reference_text: str = "",
) -> Picture:
    """Rank a few numbers: one horizontal bar each, in the order of the rows, the number at its end.

    Args:
        data: label, value (the axis' column); with `part`, several rows make one bar.
        part: Column that colours the pieces of a bar (a term, a component).
        reference, reference_text: A value to compare with (a budget, the on-demand price), drawn as a line with its name.

    Raises:
        ChartError: If columns or rows do not fit.
    """
    value = axis.column or "value"
    names = ["label", value] + ([part] if part else [])
    table = theme.checked(data, names, "bars", [value]).set_axis(["label", "value", *(["part"] if part else [])], axis=1)
    table["label"] = theme.shown_names(table["label"])
    order = list(dict.fromkeys(table["label"]))
    whole = table.groupby("label", sort=False)["value"].sum().reset_index()
    whole["text"] = [number_text(number, axis.unit) for number in whole["value"]]
    whole["end"] = table.assign(value=table["value"].clip(lower=0)).groupby("label", sort=False)["value"].sum().to_numpy()
    whole.loc[whole["value"] < 0, "end"] = whole["value"]
    reach = max(float(whole["end"].max()), 0.0, reference or 0.0)
    floor = min(float(whole["value"].min()), 0.0)
    room = 0.11 * (reach - floor)
    scale = alt.Scale(domain=[floor - (room if floor < 0 else 0), reach + room], nice=False)
    across = alt.X("value:Q", scale=scale, **axis.drawn(theme.X_TITLE), stack="zero" if part else None)
    rows = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL), scale=alt.Scale(paddingInner=0.3))
    base = alt.Chart(table).encode(across, rows)
    marks: list[Any] = []
    if part:
        raw = [str(name) for name in table["part"].unique()]
        tones = theme.colours(raw)
        table["part"] = theme.shown_names(table["part"])
        shown = list(theme.shown_names(pd.Series(raw)))
        legend = alt.Legend(title=None, orient="top", labelExpr=theme.SPLIT_LABEL, symbolType="square", columns=4)
        table["rank"] = table["part"].map({name: place for place, name in enumerate(shown)})
        colour = alt.Color("part:N", scale=alt.Scale(domain=shown, range=[tones[name] for name in raw]), legend=legend)
        marks.append(alt.Chart(table).mark_bar(stroke="#ffffff", strokeWidth=0.8).encode(across, rows, colour, alt.Order("rank:Q")))
    else:
        marks.append(base.mark_bar(color="#087bbc"))
    values: list[Any] = []
    for negative, side in ((False, RIGHT), (True, LEFT)):
        piece = whole[(whole["value"] < 0) == negative]
        if not piece.empty:
            values += theme.halo_text(alt.Chart(piece).encode(alt.X("end:Q"), rows, alt.Text("text:N")), **side)
    if reference is not None:
        line = alt.Chart(pd.DataFrame({"value": [float(reference)], "text": [theme.display_name(reference_text)]})).encode(alt.X("value:Q"))
        marks.append(line.mark_rule(color="#000000", strokeDash=[5, 3], strokeWidth=1.5))
        side = LEFT if reference - floor > 0.6 * (reach - floor) else RIGHT
        marks.append(line.mark_text(baseline="bottom", dy=-4, fontWeight="bold", **side).encode(alt.YValue(0), alt.Text("text:N")))
    return theme.finish(alt.layer(*marks, *values), title, subtitle, height=85 + theme.rows_height(order, 28) + (45 if part else 0))


@theme.in_currency
def waterfall(data: pd.DataFrame, *, title: str, axis: theme.Axis, subtitle: str = "", label: str = "label") -> Picture:
    """Bridge one total to another: where it started, what raised and lowered it, where it ends.

    Args:
        data: label, value (the axis' column), kind: "total" states a level (the first row is one), "change" moves it.

    Raises:
        ChartError: If the changes do not add up to the totals: a bridge with a hole is not shown.
    """
    value = axis.column or "value"
    table = theme.checked(data, [label, value, "kind"], "waterfall", [value]).set_axis(["label", "value", "kind"], axis=1)
    wrong = sorted(set(table["kind"]) - {"total", "change"})
    if wrong or table["kind"].iloc[0] != "total":
        raise ChartError(f"waterfall: kind is total or change, and the first row is a total; found {wrong or table['kind'].iloc[0]!r}")
    if len(table) > MAX_COLUMNS:
        raise ChartError(f"waterfall: {len(table)} columns; at most {MAX_COLUMNS} can be read: sum the small changes into one")
    level, bounds = 0.0, []
    size = float(table["value"].abs().max()) or 1.0
    for place, row in enumerate(table.itertuples(index=False)):
        number = float(row.value)
        if row.kind == "total":
            if place and abs(number - level) > 1e-6 * size:
                raise ChartError(
                    f"waterfall: {row.label!r} states {number_text(number, axis.unit)}, but the steps before it add up to"
                    f" {number_text(level, axis.unit)}"
                )
            bounds.append((0.0, number))
            level = number
        else:
            bounds.append((level, level + number))
            level += number
    table["from"], table["to"] = zip(*bounds, strict=True)
    table["key"] = [f"{place:02d}" for place in range(len(table))]
    names = list(theme.shown_names(table["label"], max(9, int(620 / len(table) / (6.6 if len(table) <= 9 else 5.3)))))
    table["text"] = [number_text(row.value, axis.unit, signed=row.kind == "change") for row in table.itertuples()]
    table["top"] = table[["from", "to"]].max(axis=1)
    table["tone"] = ["Total" if row.kind == "total" else "Higher" if row.value > 0 else "Lower" for row in table.itertuples()]
    # The axis shows the key, so that two steps of the same name stay two columns; the label is looked up by place.
    quoted = "[" + ", ".join("'" + _vega_text(name) + "'" for name in names) + "]"
    keys = alt.Axis(
        labelAngle=0,
        labelExpr=f"split({quoted}[toNumber(datum.value)], '\\n')",
        labelOverlap=False,
        labelFontSize=12 if len(table) <= 9 else 10,
    )
    across = alt.X("key:O", title=None, axis=keys, scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1))
    up = alt.Y("from:Q", **axis.drawn())
    colour = alt.Color(
        "tone:N",
        scale=alt.Scale(domain=["Higher", "Lower", "Total"], range=[theme.RISE, theme.FALL, theme.TOTAL]),
        legend=alt.Legend(title=None, orient="top", symbolType="square"),
    )
    joints = pd.DataFrame({"key": table["key"][:-1], "next": table["key"].shift(-1)[:-1], "level": table["to"][:-1]})
    columns = alt.Chart(table).mark_bar().encode(across, up, alt.Y2("to:Q"), colour)
    threads = (
        alt.Chart(joints)
        .mark_rule(color=theme.MUTED, strokeWidth=1)
        .encode(theme.at_band(across, 1), alt.X2("next:O", bandPosition=0), alt.Y("level:Q"))
    )
    texts = alt.Chart(table).mark_text(baseline="bottom", dy=-5, fontWeight="bold").encode(across, alt.Y("top:Q"), alt.Text("text:N"))
    drawn = [threads, columns, texts] if len(joints) else [columns, texts]
    return theme.finish(alt.layer(*drawn), title, subtitle, height=340)


def _vega_text(text: str) -> str:
    """Write a text as the inside of a Vega string literal, letter by letter where it could end the literal."""
    return "".join(
        letter if letter.isalnum() or letter in " ,.:;-_%$€£()/+" else "".join(f"\\u{unit:04x}" for unit in _utf16(letter))
        for letter in text
    )


def _utf16(letter: str) -> list[int]:
    """Return the UTF-16 code units of a letter."""
    raw = letter.encode("utf-16-be")
    return [int.from_bytes(raw[place : place + 2], "big") for place in range(0, len(raw), 2)]


#: The ends of an assumption, by the column of its result.
ENDS = {"low": "Assumption at its low end", "high": "Assumption at its high end"}


@theme.in_currency
def tornado(data: pd.DataFrame, *, base: float, base_name: str, title: str, axis: theme.Axis, subtitle: str = "") -> Picture:
    """Show how far each assumption moves the result when it goes to its low and to its high end.

    Args:
        data: label, low and high (the result at the assumption's low and high end), in the order to be shown; low_setting and high_setting
            (the settings as text) if there are any.
        base, base_name: The result that the bars start from, and what it is.

    Raises:
        ChartError: If columns or rows do not fit.
    """
    settings = [name for name in ("low_setting", "high_setting") if name in data]
    table = theme.checked(data, ["label", *ENDS, *settings], "tornado", list(ENDS))
    table["label"] = theme.shown_names(table["label"])
    order = list(dict.fromkeys(table["label"]))
    tidy = _ends(table, base, axis.unit)
    # Both ends on one side of the base would cover each other in one row; then each gets half of it.
    crossed = ((table["low"] - base) * (table["high"] - base) > 0).any()
    least, most = float(tidy["value"].min()), float(tidy["value"].max())
    reach = float((tidy["value"] - base).abs().max()) or 1.0
    room = max(len(text) for text in tidy["text"]) * 7.2 / 440 * (most - least or reach)
    scale = alt.Scale(domain=[min(least, base) - room, max(most, base) + room], nice=False, zero=False)
    across = alt.X("base:Q", scale=scale, **axis.drawn(theme.X_TITLE))
    rows = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelExpr=theme.SPLIT_LABEL), scale=alt.Scale(paddingInner=0.3))
    colour = alt.Color(
        "end:N",
        scale=alt.Scale(domain=list(ENDS.values()), range=["#a9cbe8", "#0045a5"]),
        legend=alt.Legend(title=None, orient="top", symbolType="square"),
    )
    split: dict[str, Any] = {"yOffset": alt.YOffset("end:N", sort=list(ENDS.values()))} if crossed else {}
    marks = [alt.Chart(tidy).mark_bar(stroke=theme.INK, strokeWidth=0.5).encode(across, alt.X2("value:Q"), rows, colour, **split)]
    for right, side in ((True, RIGHT), (False, LEFT)):
        piece = tidy[(tidy["value"] >= base) == right]
        if not piece.empty:
            marks += theme.halo_text(alt.Chart(piece).encode(alt.X("value:Q"), rows, alt.Text("text:N"), **split), **side)
    plan = alt.Chart(pd.DataFrame({"base": [float(base)], "text": [f"{base_name}: {number_text(base, axis.unit)}"]})).encode(
        alt.X("base:Q")
    )
    marks += [
        plan.mark_rule(color="#000000", strokeWidth=1.5),
        plan.mark_text(baseline="bottom", dy=-4, fontWeight="bold").encode(alt.YValue(0), alt.Text("text:N")),
    ]
    row_height = 44 if crossed else 32
    return theme.finish(alt.layer(*marks), title, subtitle, height=130 + theme.rows_height(order, row_height))


def _ends(table: pd.DataFrame, base: float, unit: str) -> pd.DataFrame:
    """Return a row for each end of each assumption: label, value, base, end, text."""
    none = pd.Series([""] * len(table))
    pieces = [
        pd.DataFrame(
            {
                "label": table["label"],
                "value": table[end].astype(float),
                "base": float(base),
                "end": name,
                "text": [
                    (f"{setting}: " if setting else "") + number_text(number, unit)
                    for setting, number in zip(table.get(f"{end}_setting", none), table[end], strict=True)
                ],
            }
        )
        for end, name in ENDS.items()
    ]
    return pd.concat(pieces, ignore_index=True)
