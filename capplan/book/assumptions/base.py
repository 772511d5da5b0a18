"""The assumptions of each question: one small frozen model, every default with its unit, bounds and source."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from capplan.units import QUARTER_PATTERN


def assumption(default: Any, meaning: str, source: str, *, unit: str = "", step: float | None = None, **bounds: Any) -> Any:
    """Declare an assumption: default, meaning, unit, slider step, bounds, and the source of the default."""
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
        unit="quarters",
        ge=1,
        le=20,
        step=1,
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
    )
