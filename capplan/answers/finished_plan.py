"""A finished plan: what its headline, its sums and every output read."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import pandas as pd

from capplan.book.scenario import Scenario
from capplan.dollars import Rate, rate_in_force
from capplan.questions.demand import Forecast
from capplan.questions.ledger import Ledger
from capplan.questions.procurement import Purchases

Given = ParamSpec("Given")


@dataclass(frozen=True)
class Plan:
    """A quarterly plan with everything it was made from.

    Args:
        book: Name of the book.
        scenario: Assumptions it was made under.
        forecast, prices, purchases, ledger: Answers of the questions in the chain.
        demand: Work by class in load blocks that the optimiser looked at.
        headline: One sentence for finance (see `headline.plan_headline`).
        warnings: What the reader must know before signing.
    """

    book: str
    scenario: Scenario
    forecast: Forecast
    prices: pd.DataFrame
    demand: pd.DataFrame
    purchases: Purchases
    ledger: Ledger
    headline: str
    warnings: tuple[str, ...]


def told_once(tell: Callable[Concatenate[Plan, Given], pd.DataFrame]) -> Callable[Concatenate[Plan, Given], pd.DataFrame]:
    """Let a table of a plan be made once, though page, workbook, charts and files show it; each of them gets a copy.

    What was asked last is kept: for the same plan, what is given beside it the same, and in the same currency.
    """
    last: list[tuple[Rate, tuple[Any, ...], pd.DataFrame]] = []

    @wraps(tell)
    def told(plan: Plan, *args: Given.args, **given: Given.kwargs) -> pd.DataFrame:
        rate, asked = rate_in_force(), (plan, *args, *given.values())
        for before, about, table in last:
            if before == rate and len(about) == len(asked) and all(map(operator.is_, about, asked)):
                return table.copy()
        table = tell(plan, *args, **given)
        last[:] = [(rate, asked, table)]
        return table.copy()

    return told
