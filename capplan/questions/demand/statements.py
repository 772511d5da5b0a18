"""What people know of growth: a rate that is stated, or a cap, each with a weight beside what the history says."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.demand.events import draws
from capplan.records import records

Array = np.ndarray
#: Units of each kind of statement.
UNITS = {"growth": ("share_per_year", "times_per_year"), "cap": ("units_per_day",)}


@dataclass(frozen=True)
class Stated:
    """What people say of the future.

    Args:
        growth: The growth_statements table: growth or caps, each with a weight beside the history.
        forecasts: The planner_forecasts table: months that are taken as a planner states them, and scored beside this forecast where they
            are past.
    """

    growth: pd.DataFrame | None = None
    forecasts: pd.DataFrame | None = None


@dataclass(frozen=True)
class Statement:
    """A statement, ready for simulation: log growth a year (kind growth) or most work a day (kind cap), and its weight, 0 to 1."""

    name: str
    workload: str
    kind: str
    value: float
    weight: float


def read_statements(table: pd.DataFrame | None, notes: list[str]) -> list[Statement]:
    """Read the growth_statements table.

    Raises:
        CapplanError: If a unit does not fit its kind, or growth is a fall of everything or more.
    """
    if table is None or table.empty:
        return []
    found, faults = [], []
    for row in records(table.sort_values("statement_id")):
        name, kind, unit, value = str(row["statement_id"]), str(row["kind"]), row.get("unit"), float(row["value"])
        if unit not in UNITS[kind]:
            faults.append(f"{name} is a {kind} in {unit if isinstance(unit, str) else 'no unit'}; allowed: {' or '.join(UNITS[kind])}")
            continue
        times = 1 + value if unit == "share_per_year" else value
        if times <= 0:
            faults.append(f"{name} states {value:g} in {unit}, which leaves no demand; give the workload a last_day instead")
            continue
        weight = row.get("weight")
        weight = 0.5 if weight is None or pd.isna(weight) else float(weight)
        found.append(Statement(name, str(row["workload"]), kind, float(np.log(times)) if kind == "growth" else value, weight))
        text = f"{times - 1:+.0%} a year" if kind == "growth" else f"at most {value:,.6g} a day"
        notes.append(f"{row['workload']}: {text} is stated ({name}) and believed {weight:.0%} beside the history.")
    if faults:
        raise CapplanError(f"growth_statements: {'; '.join(faults)}")
    return found


def apply_statements(levels: Array, years: Array, share: float, statements: list[Statement], seed: int) -> Array:
    r"""Move the paths of a level towards what is stated.

    .. math:: d'_t = d_t\,e^{\,w\,(g_s - g)\,t}\quad\text{(growth)},\qquad d'_t = \min(d_t, c)\ \text{on a share}\ w\ \text{of paths (cap)}

    g is the yearly slope of the logarithm of the paths' median (least squares over the horizon), g_s the stated one.

    Args:
        levels: Demand a day, paths x periods.
        years: End of each period, in years after the history.
        share: Share of the workload's demand that this series carries.
        statements: Those of its workload.
    """
    for statement in statements:
        if statement.kind == "growth":
            middle = np.log(np.maximum(np.median(levels, axis=0), 1e-300))
            slope = float(np.polyfit(years, middle, 1)[0]) if len(years) > 1 and middle.min() > np.log(1e-200) else 0.0
            levels = levels * np.exp(statement.weight * (statement.value - slope) * years)
        else:
            believed = draws(seed, f"statement {statement.name}", len(levels))[:, 0] < statement.weight
            levels = np.where(believed[:, None], np.minimum(levels, statement.value * share), levels)
    return levels
