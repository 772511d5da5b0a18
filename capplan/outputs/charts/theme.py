"""How every picture looks: one colour per term, one number format, one font, one width.

The colours were searched so that lightness falls in even steps (readable in grey print) and every pair stays apart for
readers with protanopia and deuteranopia; a test holds both.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import pandas as pd

from capplan.contract_kinds import KINDS
from capplan.dollars import in_unit
from capplan.errors import CapplanError, nearest
from capplan.outputs.charts.altair_quickly import alt
from capplan.outputs.charts.pictures import Picture
from capplan.text import TERM_NAMES, currency_of, sign_of

# Liberation Sans is on Debian and inside vl-convert, and has the widths of Arial, so that labels measured offline fit in a browser too.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDTH = 752
# Room at the sides for a browser that has none of these fonts: others (DejaVu, Verdana) are up to a sixth wider.
SIDE = 26
# Letters in a line of a title and of what stands under it, in the widest of those fonts.
TITLE, SUBTITLE = 70, 100
MAX_ROWS = 5000
MAX_SERIES = 16
# Letters in a line of an axis title: along the width, along the height, along the height of a small panel.
X_TITLE, Y_TITLE, PANEL_TITLE = 95, 42, 24
INK, MUTED, GRID = "#1f2a33", "#55636e", "#dfe4e8"

#: Colour and place from the ground up of what is no kind of contract.
_OTHERS = {"existing": ("#3a3e40", 0), "committed": ("#087bbc", 50), "api": ("#b9abd8", 110), "shortfall": ("#cf011c", 120)}
_SHOWN = {name: (kind.colour, kind.stack) for name, kind in KINDS.items()} | _OTHERS
TERM_COLOURS = {name: colour for name, (colour, _) in _SHOWN.items()}
#: From the ground up: what is owned and signed, then what can be left, then what is missing.
STACK_ORDER = tuple(sorted(_SHOWN, key=lambda name: _SHOWN[name][1]))
SERIES_COLOURS = ("#004153", "#d47a31", "#02694c", "#4ac2f7", "#9c0011", "#008aaa", "#c6268a", "#de8e86")
SERIES_DASHES: tuple[list[int], ...] = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
RISE, FALL, TOTAL = "#b3261e", "#4aa3a2", "#3a3e40"


class ChartError(CapplanError):
    """A picture was asked for with columns, rows or values it cannot show."""


def checked(data: pd.DataFrame, columns: Iterable[str], chart: str, numeric: Iterable[str] = ()) -> pd.DataFrame:
    """Return the named columns of a frame that can be drawn as it stands.

    Altair draws a misspelt column as an empty picture, and stops at 5,000 rows with a message of its own; here both are one clear error.

    Args:
        chart: Name of the picture, for the message.
        numeric: Those of the columns that must hold finite numbers (an empty cell is allowed and leaves a gap).

    Raises:
        ChartError: If a column is missing, there is nothing or too much to draw, or a value is no finite number.
    """
    wanted = list(dict.fromkeys(columns))
    for name in wanted:
        if name not in data.columns:
            raise ChartError(f"{chart}: the frame has no column {name!r}; {nearest(name, map(str, data.columns))}")
    if data.empty:
        raise ChartError(f"{chart}: the frame is empty, there is nothing to draw; leave the picture out or check the rows before it")
    if len(data) > MAX_ROWS:
        raise ChartError(f"{chart}: {len(data):,} rows; a picture holds at most {MAX_ROWS:,}: sum or sample them first")
    for name in numeric:
        values = pd.to_numeric(data[name], errors="coerce")
        broken = values.isna() & data[name].notna() | values.abs().eq(math.inf)
        if broken.any():
            row = int(broken.to_numpy().argmax())
            raise ChartError(f"{chart}: column {name!r}, row {row} holds {str(data[name].iloc[row])!r}; a finite number is needed")
        if values.isna().all():
            raise ChartError(f"{chart}: column {name!r} holds no number at all")
    return data[wanted].reset_index(drop=True)


def axis_labels(unit: str) -> str:
    """Return the Vega expression that writes tick labels like `number_text` does (Vega itself writes G for a billion)."""
    if unit.startswith("share"):
        return "format(datum.value, '.3~%')"
    currency = currency_of(unit)
    sign = sign_of(currency) if currency else ""
    below = "replace(format(abs(datum.value), ',.2f'), '.00', '')" if sign else "format(abs(datum.value), ',.4~r')"
    body = f"abs(datum.value) >= 10000 ? replace(format(abs(datum.value), '.4~s'), 'G', 'B') : {below}"
    return f"(datum.value < 0 ? '-' : '') + '{sign}' + ({body})"


def axis_title(title: str, unit: str, width: int = Y_TITLE) -> list[str]:
    """Put the unit behind an axis title, unless it stands there already, and break it to the length of its axis."""
    if not unit or unit == "share" or f"({unit})" in title or title.lower() == unit.lower():
        return wrapped(title, width)
    return wrapped(f"{title[:-1]}, {unit})" if title.endswith(")") else f"{title} ({unit})", width)


class Axis(NamedTuple):
    """What an axis shows."""

    title: str
    unit: str  #: "USD", "USD/h", "share", "accelerators", ...: decides how numbers are written.
    column: str = ""  #: Column it is taken from; empty = the picture's own.
    steps: bool = False  #: Does what it shows hold until the next place, instead of sloping to it?

    def drawn(self, width: int = Y_TITLE, ticks: int = 6, **more: Any) -> dict[str, Any]:
        """Return title and axis of the channel that shows it."""
        labels = alt.Axis(labelExpr=axis_labels(self.unit), tickCount=ticks, **more)
        return {"title": axis_title(self.title, self.unit, width), "axis": labels}


def in_currency(draw: Callable[..., Picture]) -> Callable[..., Picture]:
    """Let a picture of dollars stand in the currency in force: its axes, and all that is measured along them."""

    @wraps(draw)
    def drawn(data: pd.DataFrame, *more: pd.DataFrame, **given: Any) -> Picture:
        frames = [data, *more]
        for name, axis in [(name, axis) for name, axis in given.items() if isinstance(axis, Axis)]:
            rate, unit = in_unit(axis.unit)
            if rate != 1.0:
                along = {axis.column, *ALONG[name]}
                frames = [_divided(frame, along, rate) for frame in frames]
                given |= {key: _divided(value, along, rate) for key, value in given.items() if key in along or key in ("history", "points")}
                given[name] = axis._replace(unit=unit)
        return draw(*frames, **given)

    return drawn


#: What is measured along an axis beside its own column: by the name of the axis, columns and single values.
ALONG = {
    "axis": ("value", "quantity", "low", "high", "base", "reference", "middle"),
    "across": ("x",),
    "up": ("y", "low", "high"),
    "down": (),
}


def _divided(values: Any, columns: set[str], rate: float) -> Any:
    """Divide a number, or the columns of a frame."""
    if isinstance(values, pd.DataFrame):
        return values.assign(**{name: values[name] / rate for name in columns if name in values})
    return None if values is None else values / rate


def display_name(name: object) -> str:
    """Return how a term or a series is called in a legend: terms in plain words, names out of a book as they are, on one line."""
    text = re.sub(r"\s+", " ", str(name)).strip()
    return TERM_NAMES.get(text, text)


def wrapped(text: object, width: int) -> list[str]:
    """Break a text into as few lines as fit, about equally long, so that nothing is cut; words longer than a line are broken too."""
    plain = re.sub(r"\s+", " ", str(text)).strip()
    fewest = textwrap.wrap(plain, width=max(width, 6)) or [""]
    least = max([6, len(plain) // len(fewest), *(len(word) for word in plain.split() if len(word) <= width)])
    narrower = next((size for size in range(least, width) if len(textwrap.wrap(plain, width=size)) == len(fewest)), width)
    return textwrap.wrap(plain, width=max(narrower, 6)) or [""]


def lines(text: object, width: int = 30) -> str:
    """Break a label into lines joined by a line feed; the axis splits it there again."""
    return "\n".join(wrapped(text, width))


def shown_names(names: pd.Series, width: int = 30) -> pd.Series:
    """Return names as they stand in a picture: terms in plain words, long ones in several lines."""
    return names.map(lambda name: lines(display_name(name), width))


def legend_height(names: Sequence[str], line: int = 15) -> int:
    """Return the height of a legend beside a picture, its paddings and the axis below included; a picture is at least as high."""
    return 70 + sum(line * (name.count("\n") + 1) + 1 for name in names)


def at_band(channel: Any, position: float) -> Any:
    """Return a channel moved to a place within its band: 0 is where the band starts, 1 where it ends."""
    moved = channel.copy()
    moved["bandPosition"] = position
    return moved


def halo_text(base: Any, **style: Any) -> list[Any]:
    """Return a text mark with a white rim under it, so that it can be read over lines and bars."""
    return [base.mark_text(stroke="#ffffff", strokeWidth=4, strokeJoin="round", **style), base.mark_text(**style)]


def rows_height(labels: Sequence[str], height: int) -> int:
    """Return the height of equally high rows of which the tallest label fits its row."""
    return len(labels) * max([height, *(15 * (label.count("\n") + 1) + 6 for label in labels)])


SPLIT_LABEL = r"split(datum.label, '\n')"


def colours(names: Sequence[str]) -> dict[str, str]:
    """Give each name its colour: the fixed one of its term, or the next one of the series.

    Raises:
        ChartError: If there are more series than a reader can tell apart.
    """
    free = [name for name in names if name not in TERM_COLOURS]
    if len(free) > MAX_SERIES:
        raise ChartError(f"{len(free)} series in one picture; at most {MAX_SERIES} can be told apart: keep the largest and sum the rest")
    found = {name: SERIES_COLOURS[place % len(SERIES_COLOURS)] for place, name in enumerate(free)}
    return {name: TERM_COLOURS.get(name) or found[name] for name in names}


def letters(names: Sequence[str]) -> dict[str, str]:
    """Give each name a mark that grey print keeps apart: initials and years of a term, a small letter for any other series.

    Examples:
        >>> letters(["reserved_3y", "savings_plan_1y", "owned", "chat", "drafts"])
        {'reserved_3y': 'R3', 'savings_plan_1y': 'SP1', 'owned': 'O', 'chat': 'a', 'drafts': 'b'}
    """
    free = [name for name in names if name not in TERM_COLOURS]
    return {name: chr(ord("a") + free.index(name)) if name in free else _initials(display_name(name)) for name in names}


def _initials(text: str) -> str:
    """Return the initials of a term before its comma, and the number behind it."""
    head, _, rest = text.partition(",")
    return "".join(word[0] for word in re.findall(r"[A-Za-z]+", head)).upper() + "".join(re.findall(r"\d+", rest))


def ink_on(colour: str) -> str:
    """Return the colour of a text that can be read on a colour, white or ink.

    Examples:
        >>> ink_on("#0045a5"), ink_on("#fae439")
        ('#ffffff', '#1f2a33')
    """
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else INK


def dashes(names: Sequence[str]) -> list[list[int]]:
    """Give each name a dash pattern; a colour that comes round again gets another one."""
    return [SERIES_DASHES[(place + place // len(SERIES_COLOURS)) % len(SERIES_DASHES)] for place in range(len(names))]


def configuration() -> dict[str, Any]:
    """Return the Vega-Lite configuration that every picture carries with it, whoever renders it."""
    no_limit = {"labelLimit": 0, "titleLimit": 0}
    return {
        "font": FONT,
        "background": "#ffffff",
        "padding": {"left": SIDE, "right": SIDE, "top": 10, "bottom": 10},
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "color": INK,
            "fontSize": 16,
            "lineHeight": 20,
            "subtitleColor": MUTED,
            "subtitleFontSize": 12,
            "subtitleLineHeight": 15,
            "subtitlePadding": 5,
            "offset": 12,
            "limit": 0,
        },
        "axis": {
            "labelColor": INK,
            "titleColor": MUTED,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "gridColor": GRID,
            "domainColor": MUTED,
            "tickColor": MUTED,
            "labelPadding": 5,
            "titlePadding": 8,
            "labelFlush": False,
            **no_limit,
        },
        "axisBand": {"grid": False, "ticks": False},
        "legend": {
            "labelColor": INK,
            "labelFontSize": 12,
            "titleColor": MUTED,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "symbolStrokeWidth": 2,
            **no_limit,
        },
        "header": {
            "labelColor": INK,
            "labelFontSize": 12,
            "labelFontWeight": "bold",
            "labelAnchor": "start",
            "labelLimit": 0,
            "title": None,
        },
        "text": {"color": INK, "fontSize": 11},
        "line": {"strokeWidth": 2},
        "point": {"filled": True, "size": 50},
    }


def finish(chart: Any, title: str, subtitle: str = "", *, height: int | None = 320) -> Picture:
    """Give a picture its finding as title, its assumption as subtitle, the house style, and a fixed outer width.

    Args:
        chart: Altair chart; facets pass height None, because they size their cells themselves.
        title, subtitle: The finding; what it rests on.
        height: Outer height in pixels, title excluded.
    """
    lines, below = wrapped(title, TITLE), wrapped(subtitle, SUBTITLE) if subtitle else []
    heading = alt.TitleParams(text=lines, subtitle=below)
    extra = len(lines) * 20 + len(below) * 15
    chart = chart.properties(title=heading, description=title, config=configuration())
    if height is None:
        return Picture(chart)
    return Picture(chart.properties(width=WIDTH, height=height + extra, autosize=alt.AutoSizeParams(type="fit", contains="padding")))


def stacked(*pictures: Picture) -> Picture:
    """Put finished pictures under each other in one."""
    parts = []
    for picture in pictures:
        part = picture.chart.copy(deep=True)
        part.config = alt.Undefined
        if part.autosize is not alt.Undefined:
            part.autosize, part.width = alt.Undefined, WIDTH - 2 * SIDE - 100
        parts.append(part)
    below = alt.vconcat(*parts).resolve_scale(color="independent", strokeDash="independent", shape="independent")
    return Picture(below.properties(config=configuration()))
