"""What a sentence is cut into: tokens, amounts with their units, and moments."""

import datetime as dt
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """A token."""

    kind: str  #: Terminal of the grammar; UNKNOWN where there is none, UNSURE where it can be taken in two ways.
    #: start, end: Where it stands in the sentence.
    start: int
    end: int
    value: Any = None  #: What it means: a number, a day, names.
    why: str = ""  #: For UNSURE: in which two ways.


@dataclass(frozen=True)
class Amount:
    """A number with its unit: a currency, or a unit of time."""

    number: float
    unit: str = ""


@dataclass(frozen=True)
class Moment:
    """A day or an instant; `part` says how precisely it was given: time, day, or month (its first day)."""

    when: dt.datetime
    part: str
