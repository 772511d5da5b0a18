"""What the decisions of a plan cost at other prices, rates and exchange rates, without deciding anew."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from capplan.book.currencies import rates_by_month
from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.ledger.accounts import account_labels
from capplan.questions.ledger.build_ledger import Ledger, LedgerTables
from capplan.questions.ledger.hourly_commitments import burn_down
from capplan.questions.ledger.schedules import KEYS as ABOUT
from capplan.questions.ledger.schedules import paid_on
from capplan.questions.ledger.unit_prices import unit_rates
from capplan.records import records

#: Views whose amounts are a quantity times a price; the economic one follows from cash.
VIEWS = ("cash", "billed", "p_and_l")

AGREEMENT_COMPONENTS = ("agreement_discount", "agreement_shortfall")
#: What an agreement's discount applies to.
DISCOUNTABLE = ("on_demand", "spot")


@dataclass(frozen=True)
class Priced:
    """The lines of a ledger with all that another price needs."""

    #: date (day of payment in the view cash, first of the month otherwise), month, view (cash, billed, p_and_l), component, contract_id,
    #: provider, status, team, cost_center, account, price_id (empty = stated), quantity (in the price's unit; without a price, in dollars,
    #: or in the book's currency where own), own (is the amount agreed in the book's currency, which is not the dollar?), agreement (row of
    #: `agreements` whose shortfall the line is, -1 otherwise).
    lines: pd.DataFrame
    #: price_id, kind (contract, offer, machine, running, support, usage, tokens, power, space), name, provider, unit, price (USD, before
    #: the price factor), by_factor (does the price factor move it?), upkeep_on (price_id of the purchase price whose upkeep is added, or
    #: empty).
    prices: pd.DataFrame
    agreements: pd.DataFrame  #: Table spend_agreements, sorted.
    rates: pd.Series  #: USD for one unit of the book's currency, by month.
    assumptions: LedgerAssumptions  #: Those the plan was booked with.


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


def priced_ledger(ledger: Ledger, tables: LedgerTables, a: LedgerAssumptions) -> Priced:
    """Put what is booked in the order of a workbook, with the shortfalls of agreements, which follow from the bills of their year."""
    agreements = tables.full("spend_agreements").sort_values(["agreement_id", "start"]).reset_index(drop=True)
    shortfalls = _shortfall_lines(agreements, a)
    shortfalls["account"] = account_labels(shortfalls, tables.full("account_map"))
    booked = ledger.lines[ledger.lines["component"] != "agreement_shortfall"]
    lines = pd.concat([booked.assign(agreement=-1), shortfalls], ignore_index=True)
    lines["order"] = lines["view"].map({view: step for step, view in enumerate(VIEWS)})
    lines["late"] = lines["agreement"] >= 0
    lines = lines.sort_values(["order", "late", *ABOUT, "date", "price_id"], ignore_index=True)
    lines["month"] = lines["date"].to_numpy().astype("datetime64[M]").astype("datetime64[ns]")
    months = pd.Series(sorted(lines["month"].unique()), dtype="datetime64[ns]")
    rates = pd.Series(rates_by_month(months, a.currency, tables.full("fx")).to_numpy(), index=pd.DatetimeIndex(months))
    prices = ledger.prices
    used = prices[prices["price_id"].isin(lines["price_id"]) | prices["price_id"].isin(prices["upkeep_on"])].reset_index(drop=True)
    return Priced(lines[["date", "month", "view", *ABOUT, "price_id", "quantity", "agreement", "own"]], used, agreements, rates, a)


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


def _shortfall_lines(agreements: pd.DataFrame, a: LedgerAssumptions) -> pd.DataFrame:
    """List where the shortfall of each contract year of an agreement is booked; its amount follows from the bills of that year."""
    rows = []
    for place, year in enumerate(records(agreements)):
        following = ((agreements["agreement_id"] == year["agreement_id"]) & (agreements["start"] > year["start"])).any()
        if year["end"] < pd.Timestamp(a.as_of) or (bool(year["rolls_over"]) and following):
            continue
        month = year["end"].replace(day=1).normalize()
        paid = paid_on(month + pd.offsets.MonthEnd(0), a.payment_terms_days)
        about = (
            "agreement_shortfall",
            str(year["agreement_id"]),
            str(year["provider"]),
            "expected",
            "shared",
            "shared",
            "cloud commitments",
        )
        rows += [(paid if view == "cash" else month, view, *about, "", False, float("nan"), place) for view in VIEWS]
    columns = ["date", "view", *ABOUT, "price_id", "own", "quantity", "agreement"]
    return pd.DataFrame(rows, columns=columns).astype(
        {"date": "datetime64[ns]", "own": "bool", "quantity": "float64", "agreement": "int64"}
    )
