"""How good past forecasts were, asked of a book."""

import hashlib

from capplan.answers.plan import prices_of
from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import DemandAssumptions, Scenario
from capplan.questions.demand import Backtest, backtest_demand, unit_prices

#: Assumptions that no past forecast depends on: moving them tests nothing anew.
UNTESTED = ("event_strength", "demand_factor", "load_blocks", "hours_convention", "horizon_quarters", "first_quarter")


def backtest_of(book: Book, scenario: Scenario) -> Backtest:
    """Test past forecasts of a book's demand, in work and in spend at today's price on demand."""
    a = scenario.section(DemandAssumptions)
    a = a.model_copy(update={name: DemandAssumptions.model_fields[name].default for name in UNTESTED})
    prices = unit_prices(prices_of(book, scenario), book.get("speeds")) if {"speeds", "offers"} <= set(book.tables) else {}
    step = f"backtest-{scenario.backtest_origins}-{hashlib.sha256(repr(sorted(prices.items())).encode()).hexdigest()[:16]}"
    return remembered(step, book, ("usage",), a, lambda: backtest_demand(book.get("usage"), a, scenario.backtest_origins, prices or None))
