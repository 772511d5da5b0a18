"""How to mix contracts, spot and on demand, asked of a book."""

import pandas as pd

from capplan.answers.plan import PURCHASE_TABLES, prices_of, work_digest, work_of
from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import PortfolioAssumptions, Scenario
from capplan.questions.demand import class_speeds, class_table
from capplan.questions.portfolio import PoolTables, Portfolio, Rehearsal, holdings_of, mix_portfolio
from capplan.units import quarter_index, quarter_label, quarter_of, quarter_start

#: A quarter is played again when at least this much of it was measured.
REHEARSED = pd.Timedelta(days=28)


def portfolio_of(book: Book, scenario: Scenario) -> Portfolio:
    """Mix contracts, spot and on demand for each pool, and hold rules that look back against it."""
    a = scenario.section(PortfolioAssumptions)

    def compute() -> Portfolio:
        speeds = book.need("speeds", "The portfolio")
        hosted = book.get("workloads").query("host != 'api'")
        offers, skus = book.get("offers"), book.get("skus")
        prices = prices_of(book, scenario)
        allowed = ~prices["offer_id"].isin(a.excluded_offers)
        allowed &= prices["provider"].isin(a.providers) | (len(a.providers) == 0)
        allowed &= prices["geography"].isin(a.geographies) | (len(a.geographies) == 0)
        holdings = holdings_of(book.get("commitments"), book.get("assets"), skus, offers, book.get("sites"), a.useful_life_years)
        classes = class_table(hosted, speeds, a, {*prices.loc[allowed, "accelerator"], *holdings["accelerator"]})
        return mix_portfolio(
            work_of(book, scenario),
            PoolTables(class_speeds(speeds, hosted), prices[allowed], classes, holdings, book.get("limits")),
            a,
            usage=book.get("usage") if "usage" in book.tables else None,
            workloads=hosted,
            rehearsal=_rehearsal(book, scenario) if a.rehearse else None,
        )

    return remembered(f"portfolio-{work_digest(scenario)}", book, PURCHASE_TABLES, a, compute)


def _rehearsal(book: Book, scenario: Scenario) -> Rehearsal | None:
    """Forecast the last quarter of the history from what was known before it, where there is as much history again before."""
    if "usage" not in book.tables or "demand_scenarios" in book.own:
        return None
    time = book.get("usage")["time"]
    quarter = quarter_of(time.max() - REHEARSED)
    cutoff = quarter_start(quarter)
    if time.min() > quarter_start(quarter_label(quarter_index(quarter) - 1)):
        return None
    then = book.with_rows("usage", book.get("usage")[lambda rows: rows["time"] < cutoff])
    known = scenario.replaced(as_of=(cutoff - pd.Timedelta(days=1)).date(), first_quarter=quarter, horizon_quarters=1)
    return Rehearsal(cutoff, work_of(then, known))
