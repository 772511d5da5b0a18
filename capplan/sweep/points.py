"""The points of a sweep: every combination of listed values, or an evenly spread sample of ranges; checked before anything runs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

from capplan.book.plain_yaml import read_scenarios
from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError, nearest

#: Points of a grid that are not asked for by number.
RANGE_POINTS = 5
#: Name of the axis whose values are scenario files.
FILES = "scenario"
#: Values of a what-if that is made or not.
LEFT_OUT, MADE = "left out", "made"


@dataclass(frozen=True)
class Axis:
    """One assumption that is varied, one what-if on a table, or the scenario file.

    Args:
        field: Assumption of the scenario, "scenario" for files, or the what-if.
        values: Its values in a grid, in order; a what-if that has none is "left out" and "made".
        low, high: Ends of its range where it is one; None for a list of values.
        change: Text before and after the value in a what-if on a table; empty for all others.
        files: Assumptions by value, where the values are scenario files.
    """

    field: str
    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    change: tuple[str, ...] = ()
    files: Mapping[str, Mapping[str, Any]] | None = None

    def assumed(self, value: Any) -> dict[str, Any]:
        """Return the assumptions that a value means.

        Examples:
            >>> parse_axis("changes=where term=spot multiply usd_per_hour [1,2]").assumed(2)
            {'changes': ['where term=spot multiply usd_per_hour 2']}
        """
        if self.files is not None:
            given = dict(self.files[value])
            changes = given.get("changes") or []
            return given | {"changes": changes if isinstance(changes, list) else [changes]}
        if self.change:
            return {"changes": [] if value == LEFT_OUT else [str(value).join(self.change)]}
        return {self.field: value}


def assumed_at(point: Mapping[str, Any], axes: Sequence[Axis], changes: Sequence[Any] = ()) -> dict[str, Any]:
    """Return all assumptions of a point: those of its scenario file, then those it varies itself; what-ifs are made one after the other.

    Args:
        axes: What is varied; a name that is no axis is an assumption.
        changes: What-ifs that are made at every point, before the others.
    """
    known = {axis.field: axis for axis in axes}
    found: dict[str, Any] = {}
    made = list(changes)
    for name in sorted(point, key=lambda name: name != FILES):
        given = known.get(name, Axis(name, ())).assumed(point[name])
        made += given.pop("changes", [])
        found |= given
    return found | ({"changes": tuple(made)} if made else {})


def parse_axis(text: str) -> Axis:
    """Read `field=a,b,c` or `field=low:high` or `field=low:high:count`.

    The field may be `scenario`, with scenario files as values, or `changes`, with a what-if on a table: `[a,b,c]` or `[low:high:count]`
    in it is what varies, and without them the what-if is left out and made.

    Raises:
        ScenarioError: If the field is no assumption, the values are neither a list nor a range of numbers, or a file cannot be read.

    Examples:
        >>> parse_axis("price_factor=0.8:1.2:3").values
        (0.8, 1.0, 1.2)
        >>> parse_axis("horizon_end=truncate,hold").values
        ('truncate', 'hold')
    """
    field, equals, given = text.partition("=")
    field = field.strip()
    if field not in (FILES, *Scenario.model_fields):
        raise ScenarioError(f"--vary {text}: {field or 'nothing'} is not an assumption; {nearest(field, Scenario.model_fields)}")
    if not equals or not given.strip():
        raise ScenarioError(f"--vary {text}: write a list, {field}=a,b,c, or a range, {field}=low:high:count")
    if field == FILES:
        files = read_scenarios([Path(name.strip()) for name in given.split(",")])
        return Axis(FILES, tuple(files), files=files)
    if field == "changes":
        before, opened, rest = given.strip().partition("[")
        inside, closed, after = rest.partition("]")
        if not opened:
            return Axis(before, (LEFT_OUT, MADE), change=(before,))
        if not (closed and inside.strip()) or "[" in after:
            raise ScenarioError(f"--vary {text}: write the values once, in brackets, such as [1,2] or [1:3:5]")
        if ":" in inside:
            read = _range(text, field, inside.split(":"))
        else:
            # the what-if reads its own words; numbers are taken as such to put them in order
            texts = [one.strip() for one in inside.split(",")]
            read = Axis(field, tuple(one if type(_plain(one)) in (bool, str, NoneType) else _plain(one) for one in texts))
        return replace(read, field=" ".join((before + after).split()), change=(before, after))
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


def count_of(axes: Sequence[Axis], sample: int = 0) -> int:
    """Count the points that `points_of` would make; they may be more than there is memory for.

    Examples:
        >>> axes = [parse_axis("price_factor=0.5:1.5:1000"), parse_axis("seed=1,2")]
        >>> count_of(axes), count_of(axes, 64)
        (2000, 128)
    """
    crossed = math.prod(len(axis.values) for axis in axes if not sample or axis.low is None)
    return crossed * (sample or 1)


def points_of(axes: Sequence[Axis], sample: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Return the values of every point: the grid of all axes, or a Sobol sample of their ranges crossed with the grid of the rest.

    Args:
        sample: Points of the Sobol sample; 0 for the grid. A power of two spreads evenly.

    Raises:
        ScenarioError: If there is no axis, one comes twice, or a sample is asked for and none is a range.

    Source: I. M. Sobol', On the distribution of points in a cube (1967), as scipy.stats.qmc.Sobol with Owen's scramble.
    """
    fields = [axis.field for axis in axes]
    if not fields:
        raise ScenarioError("a sweep needs something that is varied: name it with --vary, such as --vary price_factor=0.8:1.2:5")
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
    known = Scenario.model_fields.get(field)
    return round(value) if known and known.annotation is int else round(float(value), 9)


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
