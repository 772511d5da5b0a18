"""Make tables readable: headings in words with units, and numbers as finance writes them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

#: Endings of column names, longest first, with the words for their unit.
_UNITS = {
    "_usd_per_accelerator_hour": "USD per accelerator-hour",
    "_usd_per_thousand_requests": "USD per 1,000 requests",
    "_usd_per_million_tokens": "USD per million tokens",
    "_usd_per_month": "USD/month",
    "_usd_per_hour": "USD/h",
    "_usd_per_unit": "USD per unit",
    "_usd_per_year": "USD/year",
    "_accelerator_hours": "accelerator-hours",
    "_share_per_year": "share per year",
    "_share": "%",
    "_seconds": "s",
    "_days": "days",
    "_gib": "GiB",
    "_kwh": "kWh",
    "_kw": "kW",
    "_usd": "USD",
}
_WORDS = {
    "usd": "Amount",
    "p_and_l": "P&L",
    "sku": "SKU",
    "sku_id": "SKU",
    "cvar": "CVaR",
    "pue": "PUE",
    "api": "API",
    "evpi": "EVPI",
    "vss": "VSS",
    "fifo": "FIFO",
    "easy_backfill": "EASY backfill",
}


def words(text: str) -> str:
    """Turn a name with underscores into words.

    Examples
    --------
    >>> words("on_demand"), words("reserved_3y"), words("p_and_l")
    ('On demand', 'Reserved 3 years', 'P&L')
    """
    if text in _WORDS:
        return _WORDS[text]
    parts = [_WORDS.get(part, part) for part in text.split("_")]
    last = {"1y": "1 year", "3y": "3 years"}.get(parts[-1], parts[-1])
    phrase = " ".join([*parts[:-1], last])
    return phrase[:1].upper() + phrase[1:]


def heading(name: str) -> str:
    """Turn a column name into a heading with its unit.

    Examples
    --------
    >>> heading("upfront_usd"), heading("served_share"), heading("usd_per_hour"), heading("quarter")
    ('Upfront (USD)', 'Served (%)', 'Price (USD/h)', 'Quarter')
    """
    for ending, unit in _UNITS.items():
        if name == ending[1:]:
            return "Amount (USD)" if name == "usd" else f"{'Price' if 'usd' in name else 'Value'} ({unit})"
        if name.endswith(ending):
            return f"{words(name.removesuffix(ending))} ({unit})"
    return words(name)


def money(value: float, currency: str = "$") -> str:
    """Write an amount for a headline: three significant digits, with M or k.

    Examples
    --------
    >>> money(1234567), money(-45600), money(2.5), money(float("nan"))
    ('$1.23M', '-$45.6k', '$2.50', 'n/a')
    """
    if not math.isfinite(value):
        return "n/a"
    sign, size = ("-" if value < 0 else ""), abs(value)
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= limit * 0.9995:
            scaled = size / limit
            return f"{sign}{currency}{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{unit}"
    return f"{sign}{currency}{size:.2f}" if size < 100 else f"{sign}{currency}{size:.0f}"


def _cell(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NaT:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d") if value == value.normalize() else value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, (int, float)) or hasattr(value, "__float__"):
        number = float(value)
        number = 0.0 if abs(number) < 1e-9 else number
        if name.endswith("_share") or name == "share":
            return f"{100 * number:.1f}"
        if "usd_per" in name:
            return f"{number:,.3f}"
        if name.endswith("usd") or name == "usd" or abs(number) >= 1000:
            return f"{number:,.0f}"
        return f"{number:,.0f}" if number == round(number) else f"{number:.3g}"
    return str(value)


#: Columns whose values are names made of words, not names given by a person.
_WORDED = ("term", "component", "source", "kind", "measure", "view", "stage", "basis")


def readable(frame: pd.DataFrame, rows: int | None = None) -> pd.DataFrame:
    """Return the table as text, ready to be shown.

    Parameters
    ----------
    frame
        Any tidy table.
    rows
        Show at most so many rows.
    """
    part = frame if rows is None else frame.head(rows)
    shown = {
        name: [words(str(value)) if name in _WORDED and isinstance(value, str) else _cell(str(name), value) for value in part[name]]
        for name in part.columns
    }
    return pd.DataFrame(shown, index=range(len(part))).rename(columns=heading)
