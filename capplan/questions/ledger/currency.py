"""Money in another currency, at stated rates."""

import pandas as pd

from capplan.book.currencies import rates_by_month


def converted(usd: pd.Series, months: pd.Series, currency: str, fx: pd.DataFrame) -> pd.Series:
    """Convert dollar amounts to a currency, month by month."""
    return usd / rates_by_month(months, currency, fx)
