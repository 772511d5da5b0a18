"""Money in another currency, at stated rates."""

from __future__ import annotations

import pandas as pd

from capplan.errors import CapplanError


def rates_by_month(months: pd.Series, currency: str, fx: pd.DataFrame) -> pd.Series:
    """Return US dollars for one unit of a currency in each month: the last rate stated by its end; before the first rate, that one.

    Parameters
    ----------
    months
        First days of months.
    currency
        Three letters.
    fx
        Table fx.

    Raises
    ------
    CapplanError
        If there is no rate for the currency.
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


def converted(usd: pd.Series, months: pd.Series, currency: str, fx: pd.DataFrame) -> pd.Series:
    """Convert dollar amounts to a currency, month by month."""
    return usd / rates_by_month(months, currency, fx)
