"""How to read a foreign file: columns, units, delimiter, encoding and times; the same for every format."""

import datetime as dt
import math
import re
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class ReadingOptions(BaseModel):
    """How to read a file; the same for every format."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)

    columns: dict[str, str] = Field(
        {}, description="Column of the file for a column that is needed, where the names differ: needed=found,needed=found."
    )
    ignore: tuple[str, ...] = Field((), description="Columns of the file that are not what their names say, and are not read: name,name.")
    scale: dict[str, float] = Field(
        {}, description="What numbers of a column are multiplied with, where their unit differs: needed=factor,needed=factor."
    )
    delimiter: str | None = Field(
        None, description="What separates columns; empty = found out from the header.", min_length=1, max_length=1
    )
    decimal: Literal["auto", ".", ","] = Field(
        "auto", description="Decimal sign; auto = a comma only where columns are not separated by commas."
    )
    encoding: Literal["auto", "utf-8", "utf-16", "latin-1"] = Field(
        "auto", description="Encoding; auto = by the byte-order mark, else UTF-8."
    )
    timezone: str | None = Field(None, description="Zone of times that state none, like Europe/Berlin; empty = UTC.")
    time_format: str | None = Field(None, description="Pattern of times that are not ISO 8601, like %d.%m.%Y %H:%M.")
    time_unit: Literal["auto", "seconds", "milliseconds", "microseconds", "nanoseconds"] = Field(
        "auto", description="Unit of times that are numbers; auto = by the column's name or size."
    )
    start: dt.datetime | None = Field(
        None, description="Instant from which times that are numbers are counted; empty = 1970 for Unix times."
    )
    memory_gib: float = Field(
        1.0, description="Memory that reading may take; what is larger goes through temporary files.", ge=0.06, le=4096
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation is not bool:
            raise ValueError("true and false are no numbers and no names")
        return value

    @field_validator("columns", "scale", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if isinstance(value, str):
            pairs = [part.partition("=") for part in value.split(",") if part.strip()]
            if not all(mark for _, mark, _ in pairs):
                raise ValueError("write it like timestamp=ts,input_tokens=prompt, or for scale like on_demand=0.001")
            return {needed.strip(): found.strip() for needed, _, found in pairs}
        return value

    @field_validator("scale")
    @classmethod
    def _positive(cls, value: dict[str, float]) -> dict[str, float]:
        wrong = [name for name, factor in value.items() if not 0 < factor < math.inf]
        if wrong:
            raise ValueError(f"the factor of {wrong[0]} must be above zero")
        return value

    @field_validator("ignore", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, ValueError) as error:
                raise ValueError("is no zone of the IANA list; write it like Europe/Berlin or UTC") from error
        return value


def listed(value: Any) -> Any:
    """Split a text at its commas; anything else stays as it is."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def in_own_name(said: str, file: Path) -> str:
    """Return the first line of what a reader says of a file, with the name it was given in place of those under which it is read."""
    line = said.split("\n", maxsplit=1)[0].replace(str(file), file.name)
    return re.sub(r"(['\"])(?:(?!\1).)*capplan-ingest-(?:(?!\1).)*\1", file.name, line)
