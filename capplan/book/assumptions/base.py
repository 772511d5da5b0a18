"""The assumptions of each question: one small frozen model, every default with its unit, bounds and source."""

import datetime as dt
import hashlib
import json
import re
from ast import literal_eval
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from capplan.units import CLUSTER_PATTERN, QUARTER_PATTERN

#: What may be set, and by what step a slider moves: "0 to 5 by 0.05 share", "above 0 to below 1 by 0.01".
_SPAN = re.compile(r"(above )?(\S+) to (below )?(\S+) by (\S+) ?(.*)")


def assumption(default: Any, meaning: str, source: str, span: str = "", **bounds: Any) -> Any:
    """Declare an assumption: default, meaning, source of the default, and its span: bounds, slider step and unit, where it is a number."""
    unit, step = "", None
    if span:
        above, low, below, high, by, unit = _SPAN.fullmatch(span).groups()  # type: ignore[union-attr]
        bounds |= {"gt" if above else "ge": literal_eval(low), "lt" if below else "le": literal_eval(high)}
        step = literal_eval(by)
    if unknown := bounds.keys() - {"ge", "gt", "le", "lt", "pattern", "min_length", "max_length"}:
        raise TypeError(
            f"an assumption has no {', '.join(sorted(unknown))}: unit and step stand in its span, such as '0 to 5 by 0.05 share'"
        )
    return Field(default, description=meaning, json_schema_extra={"unit": unit, "source": source, "step": step}, **bounds)


class Section(BaseModel):
    """Base of all sections: frozen, no unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def digest(self) -> str:
        """Return a short digest of all values: the section's part of a cache key."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Timeline(Section):
    """When: what every question must agree on."""

    as_of: dt.date = assumption(
        dt.date(2026, 12, 1),
        "Day the plan is made; nothing reads the clock.",
        "Set by the book: the day its prices and usage were collected.",
        ge=dt.date(2000, 1, 1),
        lt=dt.date(2200, 1, 1),
    )
    first_quarter: str = assumption(
        "2027Q1", "First quarter that is planned.", "Set by the book: the first quarter that starts after as_of.", pattern=QUARTER_PATTERN
    )
    horizon_quarters: int = assumption(
        8,
        "Quarters that are planned.",
        "Two budget years: a yearly budget is set up to a year ahead, and one-year terms must be seen to their end.",
        "1 to 20 by 1 quarters",
    )
    hours_convention: Literal["calendar", "average"] = assumption(
        "calendar",
        "Quarters with their real hours, or with 2,190 each.",
        "Invoices count real hours; 2,190 = 8,760 / 4 serves comparisons with textbook problems.",
    )
    seed: int = assumption(
        7, "Seed of everything that is drawn at random.", "Any fixed number; the same seed gives the same plan.", ge=0, le=2**31 - 1
    )


class Spread(Timeline):
    """Where work that falls into many pieces is done."""

    workers: str | None = assumption(
        None,
        "Address of a Dask cluster that does the parallel work; empty = the cores of this machine. The numbers are the same.",
        "This machine: a cluster pays from thousands of series on.",
        pattern=CLUSTER_PATTERN,
    )
