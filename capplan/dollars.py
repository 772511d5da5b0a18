"""Amounts that are known in US dollars, said in the currency in force: the book's, while an answer about it is put into words."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

import pandas as pd

Value = TypeVar("Value", float, pd.Series)


@dataclass(frozen=True)
class Rate:
    """What a currency is worth.

    Examples:
        >>> with in_force(Rate("EUR", 1.25, usd_by_month={"2027-01": 1.2})):
        ...     said(1000.0), said_on(pd.Series([1200.0]), pd.Series([pd.Timestamp("2027-01-15")])), in_unit("USD/h")
        ((800.0, 'EUR'), (1000.0, 'EUR'), (1.25, 'EUR/h'))
        >>> said(1000.0), in_unit("USD/h")
        ((1000.0, 'USD'), (1.0, 'USD/h'))
    """

    name: str = "USD"  #: Three letters.
    usd: float = 1.0  #: Dollars for one unit of it, on the day of the plan.
    #: The same by month ("2027-01"), for what is paid on another day.
    usd_by_month: Mapping[str, float] = field(default_factory=dict, kw_only=True)


_rate: ContextVar[Rate | None] = ContextVar("rate", default=None)


@contextmanager
def in_force(rate: Rate) -> Iterator[None]:
    """Say dollars in a currency while the block lasts."""
    before = _rate.set(rate)
    try:
        yield
    finally:
        _rate.reset(before)


def rate_in_force(otherwise: Callable[[], Rate] = Rate) -> Rate:
    """Return the currency in force, or another one where none is."""
    return _rate.get() or otherwise()


def said(usd: Value) -> tuple[Value, str]:
    """Convert dollars to the currency in force: amount and its currency."""
    rate = rate_in_force()
    return usd / rate.usd, rate.name


def said_on(usd: pd.Series, days: pd.Series) -> tuple[float, str]:
    """Convert dollars of some days to the currency in force, each at the rate of its month, and sum them."""
    rate = rate_in_force()
    rates = [rate.usd_by_month.get(f"{when:%Y-%m}", rate.usd) for when in days]
    return float((usd / rates).sum()), rate.name


def in_unit(unit: str) -> tuple[float, str]:
    """Return by what numbers in a unit are divided to stand in the currency in force, and the unit they have then."""
    rate = rate_in_force()
    parts = unit.split(" ")
    found = [rate.name + part.removeprefix("USD") if part.split("/")[0] == "USD" else part for part in parts]
    return (1.0, unit) if found == parts else (rate.usd, " ".join(found))
