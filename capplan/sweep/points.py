"""The points of a sweep: every combination of listed values, or an evenly spread sample of ranges; checked before anything runs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError, nearest

#: Points of a grid that are not asked for by number.
RANGE_POINTS = 5


@dataclass(frozen=True)
class Axis:
    """One assumption that is varied.

    Args:
        field: Assumption of the scenario.
        values: Its values in a grid, in order.
        low, high: Ends of its range where it is one; None for a list of values.
    """

    field: str
    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None


def parse_axis(text: str) -> Axis:
    """Read `field=a,b,c` or `field=low:high` or `field=low:high:count`.

    Raises:
        ScenarioError: If the field is no assumption, or the values are neither a list nor a range of numbers.

    Examples:
        >>> parse_axis("price_factor=0.8:1.2:3").values
        (0.8, 1.0, 1.2)
        >>> parse_axis("horizon_end=truncate,hold").values
        ('truncate', 'hold')
    """
    field, equals, given = text.partition("=")
    field = field.strip()
    if field not in Scenario.model_fields:
        raise ScenarioError(f"--vary {text}: {field or 'nothing'} is not an assumption; {nearest(field, Scenario.model_fields)}")
    if not equals or not given.strip():
        raise ScenarioError(f"--vary {text}: write a list, {field}=a,b,c, or a range, {field}=low:high:count")
    if ":" in given:
        return _range(text, field, given.split(":"))
    return Axis(field, tuple(_plain(value.strip()) for value in given.split(",")))


def _range(text: str, field: str, parts: Sequence[str]) -> Axis:
    """Read a range, with the number of points where it is stated."""
    try:
        low, high = (float(part) for part in parts[:2])
        count = int(parts[2]) if len(parts) > 2 else RANGE_POINTS
    except ValueError:
        low = high = math.nan
        count = 0
    if len(parts) > 3 or not (math.isfinite(low) and math.isfinite(high) and low < high) or not 2 <= count <= 1000:
        raise ScenarioError(
            f"--vary {text}: a range is low:high or low:high:count with low below high and 2 to 1000 points, such as {field}=0.5:1.5:5"
        )
    return Axis(field, tuple(fitting(field, low + (high - low) * place / (count - 1)) for place in range(count)), low, high)


def points_of(axes: Sequence[Axis], sample: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Return the values of every point: the grid of all axes, or a Sobol sample of their ranges crossed with the grid of the rest.

    Args:
        axes: What is varied.
        sample: Points of the Sobol sample; 0 for the grid. A power of two spreads evenly.
        seed: Seed of the sample's scramble.

    Raises:
        ScenarioError: If an axis comes twice, or a sample is asked for and no axis is a range.

    Source: I. M. Sobol', On the distribution of points in a cube (1967), as scipy.stats.qmc.Sobol with Owen's scramble.
    """
    fields = [axis.field for axis in axes]
    for field in fields:
        if fields.count(field) > 1:
            raise ScenarioError(f"--vary {field} is given twice; name all its values in one")
    if not sample:
        return [dict(zip(fields, values, strict=True)) for values in itertools.product(*(axis.values for axis in axes))]
    ranges = [axis for axis in axes if axis.low is not None]
    rest = [axis for axis in axes if axis.low is None]
    if not ranges:
        raise ScenarioError("--sample needs at least one range, such as --vary price_factor=0.7:1.3")
    from scipy.stats import qmc

    unit = qmc.Sobol(len(ranges), seed=seed).random(sample)
    sampled = qmc.scale(unit, [float(axis.low or 0) for axis in ranges], [float(axis.high or 0) for axis in ranges])
    drawn = [{axis.field: fitting(axis.field, value) for axis, value in zip(ranges, row, strict=True)} for row in sampled]
    combined = itertools.product(*(axis.values for axis in rest))
    return [dict(zip([axis.field for axis in rest], values, strict=True)) | point for values in combined for point in drawn]


def fitting(field: str, value: float) -> float | int:
    """Round a value of a range to the kind of its assumption, and to digits that can be read back."""
    return round(value) if Scenario.model_fields[field].annotation is int else round(float(value), 9)


def _plain(text: str) -> Any:
    """Read a listed value: a number where it is one, yes or no, else the text; the assumption's own type decides the rest."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def label_of(point: Mapping[str, Any]) -> str:
    """Write a point in one line.

    Examples:
        >>> label_of({"price_factor": 0.8, "risk_weight": 0})
        'price factor 0.8, risk weight 0'
    """
    return ", ".join(
        f"{name.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in point.items()
    )
