"""What the decisions of a plan cost at other prices, rates and exchange rates, without deciding anew."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.questions.ledger.hourly_commitments import burn_down
from capplan.questions.ledger.quantity_times_price import VIEWS, Priced, unit_rates

AGREEMENT_COMPONENTS = ("agreement_discount", "agreement_shortfall")
#: What an agreement's discount applies to.
DISCOUNTABLE = ("on_demand", "spot")


@dataclass(frozen=True)
class Revalued:
    """A ledger at other prices."""

    #: Those of `Priced.lines`, and rate_usd (of a unit), usd, amount (book's currency), present (amount of cash from `as_of` on,
    #: discounted; empty otherwise).
    lines: pd.DataFrame
    prices: pd.DataFrame  #: Those of `Priced.prices`, with the prices used and rate_usd.
    agreements: pd.DataFrame  #: Burn-down of agreements to spend (see `plans.burn_down`).

    def total(self, view: str) -> float:
        """Return the sum of a view (cash, billed, p_and_l, economic) over all months in the book's currency."""
        if view == "economic":
            return float(self.lines["present"].sum())
        if view not in VIEWS:
            raise CapplanError(f"{view!r} is no view of a ledger; {nearest(view, [*VIEWS, 'economic'])}")
        return float(self.lines.loc[self.lines["view"] == view, "amount"].sum())


def revalue(
    priced: Priced,
    *,
    price_factor: float | None = None,
    discount_rate_per_year: float | None = None,
    upkeep_share_per_year: float | None = None,
    prices: Mapping[str, float] | None = None,
    exchange_rates: Mapping[pd.Timestamp, float] | None = None,
) -> Revalued:
    r"""Value a plan's quantities at changed assumptions; what is bought, used and served stays as it was decided.

    .. math:: x = q\,p\,f, \qquad \text{present} = \frac{x}{e}\,(1+r)^{-d/365.25}

    with q the quantity, p the price, f the price factor (1 for what is signed), e dollars for a unit of the book's currency in the month,
    and d days from `as_of`.
    The shortfall of an agreement to spend follows from the bills of its year.

    Args:
        priced: The ledger as quantity times price.
        price_factor (f): Multiplies every price that is not signed.
        discount_rate_per_year (r): Cost of capital.
        upkeep_share_per_year: Yearly upkeep of machines that are bought, as a share of their price.
        prices (p): USD by price_id, before the price factor; others stay.
        exchange_rates (e): USD for one unit of the book's currency by first day of a month; others stay.

    Raises:
        CapplanError: If a price or a month is not in the plan, a price is negative, or an exchange rate not above 0.
    """
    a = priced.assumptions
    factor = a.price_factor if price_factor is None else price_factor
    discount = a.discount_rate_per_year if discount_rate_per_year is None else discount_rate_per_year
    upkeep = a.upkeep_share_per_year if upkeep_share_per_year is None else upkeep_share_per_year
    table, rates = priced.prices.copy(), priced.rates.copy()
    for key, value in (prices or {}).items():
        if key not in set(table["price_id"]):
            raise CapplanError(f"the plan has no price {key!r}; {nearest(key, table['price_id'])}")
        if not value >= 0:
            raise CapplanError(f"price of {key}: {value!r} is no price; give dollars of 0 or more")
        table.loc[table["price_id"] == key, "price"] = float(value)
    for month, value in (exchange_rates or {}).items():
        if month not in rates.index or not value > 0:
            raise CapplanError(
                f"exchange rate {value!r} for {month}: give dollars above 0 for the first day of a month that has money in it"
            )
        rates[month] = float(value)
    by_price = unit_rates(table, factor, upkeep)
    table["rate_usd"] = table["price_id"].map(by_price)
    lines = priced.lines.copy()
    lines["rate_usd"] = lines["price_id"].map(by_price)
    lines["usd"] = lines["quantity"] * lines["rate_usd"].fillna(1.0) * lines["month"].map(rates).where(lines["own"], 1.0)
    agreements = burn_down(priced.agreements, _charges(lines), pd.Timestamp(a.as_of))
    short = lines["agreement"] >= 0
    lines.loc[short, "usd"] = lines.loc[short, "agreement"].map(agreements["shortfall_usd"]).astype(float)
    lines["amount"] = lines["usd"] / lines["month"].map(rates)
    days = (lines["date"] - pd.Timestamp(a.as_of)).dt.days
    counted = (lines["view"] == "cash") & (days >= 0)
    lines["present"] = (lines["amount"] * (1 + discount) ** (-days / 365.25)).where(counted)
    return Revalued(lines, table, agreements)


def _charges(lines: pd.DataFrame) -> pd.DataFrame:
    """Return what is billed, as agreements count it."""
    billed = lines[(lines["view"] == "billed") & ~lines["component"].isin(AGREEMENT_COMPONENTS)]
    return billed[["month", "provider", "usd"]].assign(discountable=billed["component"].isin(DISCOUNTABLE))
