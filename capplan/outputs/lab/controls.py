"""One control per assumption: its kind, bounds, step, unit and help all come from the assumption itself."""

import datetime as dt
import types
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
import ipywidgets
import yaml

from capplan.book.plain_yaml import NotYamlError, read_yaml
from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError, nearest
from capplan.text import words

#: A range with more steps than this is typed, not dragged: a pixel of slider would be several steps.
MOST_STEPS = 500
STYLE = {"description_width": "330px"}
WIDE = "700px"


@dataclass(frozen=True)
class Control:
    """A widget for one assumption."""

    name: str  #: The assumption.
    widget: ipywidgets.Widget  #: What is shown.
    parts: tuple[ipywidgets.Widget, ...]  #: Widgets whose value changes when the user changes the assumption.
    read: Callable[[], Any]  #: Return the assumption's value as it stands in the widget.
    write: Callable[[Any], None]  #: Put a value into the widget.


def control_for(name: str, value: Any, choices: tuple[str, ...] = ()) -> Control:
    """Build the control of an assumption, standing at a value.

    Numbers with a moderate range become sliders, others number boxes; choices a list; switches a box to tick; days a
    calendar; lists of names a list to pick from, or a text with commas where the names are not known; anything else a text in YAML. An
    assumption that may be empty gets a
    box to tick in front.

    Args:
        value: Where the control stands at first.
        choices: Names to pick from, for a list of names; none picked means all.

    Raises:
        ScenarioError: If there is no such assumption.
    """
    if name not in Scenario.model_fields:
        raise ScenarioError(f"{name} is not an assumption; {nearest(name, Scenario.model_fields)}")
    field = Scenario.model_fields[name]
    kind, optional = without_none(field.annotation)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit = str(extra.get("unit") or "")
    look = {
        "description": label_of(name, unit),
        "tooltip": field.description or "",
        "style": STYLE,
        "layout": ipywidgets.Layout(width=WIDE),
    }
    if get_origin(kind) is Literal:
        return _plain(name, ipywidgets.Dropdown(options=[(words(str(option)), option) for option in get_args(kind)], value=value, **look))
    if kind is bool:
        return _plain(name, ipywidgets.Checkbox(value=bool(value), **look))
    if kind in (int, float):
        step = extra.get("step")
        number = _number(name, kind, value, step if isinstance(step, (int, float)) else None, look)
        return _optional(number, value, look) if optional else number
    if kind is dt.date:
        return _plain(name, ipywidgets.DatePicker(value=value, **look))
    if kind is str and choices:
        nothing = ("Not set", None) if optional else ("All", "")
        named = dict.fromkeys((*choices, *([value] if value else [])))
        return _plain(name, ipywidgets.Dropdown(options=[nothing, *((one, one) for one in named)], value=value, **look))
    if kind is str:
        text = _plain(name, ipywidgets.Text(value=value or "", continuous_update=False, **look))
        return _may_be_empty(text) if optional else text
    if kind == tuple[str, ...] and choices:
        return _picked(name, value, choices, look)
    if kind == tuple[str, ...]:
        return _text(name, value, look, ", ".join, lambda text: tuple(part.strip() for part in text.split(",") if part.strip()))
    return _text(name, value, look, _as_yaml, lambda text: _from_yaml(name, text))


def label_of(name: str, unit: str = "") -> str:
    """Name an assumption in words, with its unit unless the name ends with it.

    Examples:
        >>> label_of("approval_days", "days"), label_of("on_demand_accelerators", "accelerators"), label_of("usd_per_kwh", "USD/kWh")
        ('Approval days', 'On demand accelerators', 'USD per kWh')
    """
    known = {"usd": "USD", "kwh": "kWh", "kw": "kW", "pue": "PUE"}
    text = " ".join(known.get(part, part) for part in name.split("_"))
    text = text[:1].upper() + text[1:]
    last = {"h": "hours", "1/h": "per_hour", "USD/h": "per_accelerator_hour"}.get(unit, unit.rsplit("/", maxsplit=1)[-1]).lower()
    said = not unit or name.endswith(last) or f"per_{last}" in name or (unit.startswith("share") and "share" in name)
    return text if said else f"{text} ({unit})"


def without_none(annotation: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and whether None is allowed."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return rest[0], True
    return annotation, False


def _plain(name: str, widget: Any) -> Control:
    return Control(name, widget, (widget,), lambda: widget.value, lambda value: setattr(widget, "value", value))


def _text(name: str, value: Any, look: dict[str, Any], write: Callable[[Any], str], read: Callable[[str], Any]) -> Control:
    widget = ipywidgets.Text(value=write(value), continuous_update=False, **look)
    return Control(name, widget, (widget,), lambda: read(widget.value), lambda new: setattr(widget, "value", write(new)))


def _may_be_empty(text: Control) -> Control:
    """Read an empty text as no value."""
    return Control(text.name, text.widget, text.parts, lambda: text.read() or None, lambda new: text.write(new or ""))


def _picked(name: str, value: tuple[str, ...], choices: tuple[str, ...], look: dict[str, Any]) -> Control:
    """Build a list to pick names from; names that are not in it stay out."""
    widget = ipywidgets.SelectMultiple(
        options=choices, value=tuple(part for part in value if part in choices), rows=min(8, len(choices)), **look
    )
    return Control(name, widget, (widget,), lambda: tuple(widget.value), lambda new: setattr(widget, "value", tuple(new)))


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(_bare(value), default_flow_style=True, width=10_000).strip()


def _bare(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_bare(part) for part in value]
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value


def _from_yaml(name: str, text: str) -> Any:
    try:
        return read_yaml(text) if text.strip() else []
    except NotYamlError as error:
        raise ScenarioError(f"{name}: {text!r} cannot be read; write a list like [[offer, 2027Q1, 2]] or []") from error


def slider_grid(low: float, high: float, step: float, value: float) -> tuple[float, float]:
    """Return the ends of a slider between two bounds whose steps pass through a value.

    A slider counts its steps from its lower end; were that end off the grid of the value, one press of a key would
    leave the value's grid and never find back.

    Examples:
        >>> slider_grid(1, 5000, 10, 40), slider_grid(-0.9, 10, 0.05, 0.2), slider_grid(0, 1, 0.25, 0.1)
        ((10.0, 5000.0), (-0.9, 10.0), (0.1, 0.85))
    """
    first, last, unit, at = (Decimal(repr(float(part))) for part in (low, high, step, value))
    return float(at - (at - first) // unit * unit), float(at + (last - at) // unit * unit)


def bounds_of(name: str, step: float | None = None) -> tuple[float | None, float | None]:
    """Return the least and the greatest value an assumption may have; an end that is excluded moves one step inwards."""
    low: float | None = None
    high: float | None = None
    inward = step or 1e-9
    for rule in Scenario.model_fields[name].metadata:
        if isinstance(rule, annotated_types.Ge):
            low = float(rule.ge)  # type: ignore[arg-type]
        elif isinstance(rule, annotated_types.Gt):
            low = float(rule.gt) + inward  # type: ignore[arg-type]
        elif isinstance(rule, annotated_types.Le):
            high = float(rule.le)  # type: ignore[arg-type]
        elif isinstance(rule, annotated_types.Lt):
            high = float(rule.lt) - inward  # type: ignore[arg-type]
    return low, high


def _number(name: str, kind: type, value: Any, step: float | None, look: dict[str, Any]) -> Control:
    """Build a slider, or a number box where the range is open or has too many steps."""
    low, high = bounds_of(name, step)
    start = value if value is not None else min(max(0.0, low if low is not None else 0.0), high if high is not None else 0.0)
    places = max(0, -int(Decimal(repr(float(step))).normalize().as_tuple().exponent)) if step else 10
    dragged = step is not None and low is not None and high is not None and (high - low) / step <= MOST_STEPS
    if dragged and step is not None and low is not None and high is not None:
        least, most = slider_grid(low, high, step, start)
        slider = ipywidgets.IntSlider if kind is int else ipywidgets.FloatSlider
        more = {} if kind is int else {"readout_format": f".{max(places, 1)}f"}
        widget = slider(value=kind(start), min=kind(least), max=kind(most), step=kind(step), continuous_update=False, **more, **look)
    else:
        box = ipywidgets.BoundedIntText if kind is int else ipywidgets.BoundedFloatText
        ends = {"min": kind(low if low is not None else -1e15), "max": kind(high if high is not None else 1e15)}
        widget = box(value=kind(start), step=kind(step or 1), continuous_update=False, **ends, **look)

    def read() -> Any:
        # Binary fractions gather in a browser (0.15000000000000002); an untouched value stays what it was, to the last digit.
        if abs(widget.value - start) <= 1e-9 * max(1.0, abs(start)):
            return kind(start)
        return kind(round(widget.value, places + 4) if kind is float else widget.value)

    return Control(name, widget, (widget,), read, lambda new: setattr(widget, "value", kind(new)))


def _optional(number: Control, value: Any, look: dict[str, Any]) -> Control:
    """Put a box to tick in front of a number that may be empty."""
    tick = ipywidgets.Checkbox(
        value=value is not None,
        description=f"Set: {look['description']}",
        indent=False,
        tooltip=look["tooltip"],
        layout=ipywidgets.Layout(width="330px"),
    )
    number.widget.description = ""
    number.widget.layout.width = "350px"
    number.widget.disabled = value is None

    def switched(change: dict[str, Any]) -> None:
        number.widget.disabled = not change["new"]

    def write(new: Any) -> None:
        tick.value = new is not None
        if new is not None:
            number.write(new)

    tick.observe(switched, names="value")
    row = ipywidgets.HBox([tick, number.widget], layout=ipywidgets.Layout(width=WIDE))
    return Control(number.name, row, (tick, *number.parts), lambda: number.read() if tick.value else None, write)
