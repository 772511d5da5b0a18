"""The currency of a book: in it, amounts known in dollars are said wherever an answer about the book is put into words."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import pandas as pd

from capplan.book.book import Book
from capplan.book.currencies import DOLLARS, Currency, rate_of_quarter, rates_by_month
from capplan.book.scenario import Scenario
from capplan.dollars import in_force
from capplan.units import months_of, quarter_range

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def book_currency(book: Book, scenario: Scenario) -> Currency:
    """Return the book's currency with its rates of the day of the plan, of each planned quarter, and of each month up to its end."""
    name = scenario.currency
    if name == "USD":
        return DOLLARS
    fx = book.get("fx")
    first = pd.Timestamp(scenario.as_of).replace(day=1)
    quarters = quarter_range(scenario.first_quarter or "", scenario.horizon_quarters)
    months = pd.Series(pd.date_range(first, months_of(quarters[-1])[-1], freq="MS"))
    rates = {f"{month:%Y-%m}": float(usd) for month, usd in zip(months, rates_by_month(months, name, fx), strict=True)}
    by_quarter = {quarter: rate_of_quarter(quarter, name, fx) for quarter in quarters}
    return Currency(name, rates[f"{first:%Y-%m}"], by_quarter, usd_by_month=rates)


def in_book_currency(answer: Callable[Concatenate[Book, Scenario, Given], Answer]) -> Callable[Concatenate[Book, Scenario, Given], Answer]:
    """Let a question's words be said in its book's currency."""

    @wraps(answer)
    def answered(book: Book, scenario: Scenario, *args: Given.args, **given: Given.kwargs) -> Answer:
        with in_force(book_currency(book, scenario)):
            return answer(book, scenario, *args, **given)

    return answered
