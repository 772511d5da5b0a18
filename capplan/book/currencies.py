"""Amounts in currencies: exchange rates by month, and what is stated in a currency of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from capplan.dollars import Rate
from capplan.errors import CapplanError
from capplan.records import records
from capplan.text import money
from capplan.units import months_of


def rates_by_month(months: pd.Series, currency: str, fx: pd.DataFrame) -> pd.Series:
    """Return US dollars for one unit of a currency in each month: the last rate stated by its end; before the first rate, that one.

    Args:
        months: First days of months.

    Raises:
        CapplanError: If there is no rate for the currency.
    """
    if currency == "USD":
        return pd.Series(1.0, index=months.index)
    own = fx[fx["currency"] == currency].sort_values("date") if len(fx) else fx
    if not len(own):
        known = ", ".join(sorted(set(fx["currency"]))) if len(fx) else "none"
        raise CapplanError(
            f"no exchange rate for {currency}; fx.csv has {known}. Add a row: currency,date,usd with the dollars for one {currency}"
        )
    ends = pd.DataFrame({"end": months + pd.offsets.MonthEnd(0), "place": range(len(months))}).sort_values("end", kind="stable")
    joined = pd.merge_asof(ends, own[["date", "usd"]], left_on="end", right_on="date").sort_values("place")
    return pd.Series(joined["usd"].fillna(own["usd"].iloc[0]).to_numpy(), index=months.index)


def rate_of_quarter(quarter: str, currency: str, fx: pd.DataFrame) -> float:
    """Return US dollars for one unit of a currency in a quarter: the mean of its months.

    Examples:
        >>> fx = pd.DataFrame({"currency": ["EUR", "EUR"], "date": pd.to_datetime(["2027-01-01", "2027-03-01"]), "usd": [1.1, 1.4]})
        >>> round(rate_of_quarter("2027Q1", "EUR", fx), 9), rate_of_quarter("2027Q1", "USD", fx)
        (1.2, 1.0)
    """
    return float(rates_by_month(pd.Series(pd.to_datetime(months_of(quarter))), currency, fx).mean())


def with_dollars(other_costs: pd.DataFrame, fx: pd.DataFrame) -> pd.DataFrame:
    """Return other costs with the dollars of those that are stated in a currency of their own, at the rate of their month."""
    filled = other_costs.copy()
    for currency, part in filled[filled["currency"].notna()].groupby("currency"):
        filled.loc[part.index, "usd"] = part["amount"] * rates_by_month(part["month"], str(currency), fx)
    return filled


def budgets_by_quarter(limits: pd.DataFrame, fx: pd.DataFrame, quarters: list[str]) -> pd.DataFrame:
    """Return limits in which each budget in another currency than the dollar has a row in dollars for each of its quarters.

    Examples:
        >>> fx = pd.DataFrame({"currency": ["EUR", "EUR"], "date": pd.to_datetime(["2027-01-01", "2027-04-01"]), "usd": [1.1, 1.2]})
        >>> stated = pd.DataFrame({"limit_id": ["b"], "kind": ["budget_usd"], "amount": [100.0], "quarter": [None], "currency": ["EUR"]})
        >>> budgets_by_quarter(stated, fx, ["2027Q1", "2027Q2"])[["limit_id", "quarter", "amount"]].round(6).values.tolist()
        [['b 2027Q1', '2027Q1', 110.0], ['b 2027Q2', '2027Q2', 120.0]]
    """
    if "currency" not in limits or not (foreign := limits["currency"].notna() & (limits["currency"] != "USD")).any():
        return limits
    rows = []
    for row in records(limits[foreign]):
        named = pd.notna(row["quarter"])
        for quarter in [row["quarter"]] if named else quarters:
            usd = row["amount"] * rate_of_quarter(quarter, row["currency"], fx)
            rows.append(
                {**row, "limit_id": row["limit_id"] if named else f"{row['limit_id']} {quarter}", "quarter": quarter, "amount": usd}
            )
    stated = pd.DataFrame(rows, columns=limits.columns).assign(currency=None)
    return pd.concat([limits[~foreign].astype(object), stated.astype(object)], ignore_index=True).infer_objects()


@dataclass(frozen=True)
class Currency(Rate):
    """In what amounts are said that are known in dollars."""

    usd_by_quarter: Mapping[str, float] = field(default_factory=dict)  #: Its dollars by quarter, for what is held by the quarter.

    def amount(self, usd: float, quarter: str = "") -> float:
        """Convert dollars."""
        return usd / self.usd_by_quarter.get(quarter, self.usd)

    def said(self, usd: float, quarter: str = "", *, signed: bool = False) -> str:
        """Write dollars in it.

        Examples:
            >>> Currency("EUR", 1.25).said(1000.0), Currency().said(1000.0, signed=True)
            ('€800', '+$1.0k')
        """
        return money(self.amount(usd, quarter), self.name, signed=signed)


DOLLARS = Currency()


def converted(usd: pd.Series, months: pd.Series, currency: str, fx: pd.DataFrame) -> pd.Series:
    """Convert dollar amounts to a currency, month by month."""
    return usd / rates_by_month(months, currency, fx)
