"""A finished plan: what its headline, its sums and every output read."""

from dataclasses import dataclass

import pandas as pd

from capplan.book.scenario import Scenario
from capplan.questions.demand import Forecast
from capplan.questions.ledger import Ledger
from capplan.questions.procurement import Purchases


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
