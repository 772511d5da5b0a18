"""Calendar and unit arithmetic that everything shares: quarters, their hours, months and fiscal years."""

import re

import pandas as pd

HOURS_PER_YEAR = 8760
HOURS_PER_AVERAGE_QUARTER = HOURS_PER_YEAR / 4
HOURS_PER_AVERAGE_MONTH = HOURS_PER_YEAR / 12
#: Average days of a month, for terms that are no whole number of months.
DAYS_PER_MONTH = 365 / 12
#: Less than this, of money or of accelerator-hours, is what rounding leaves of nothing.
ROUNDING = 1e-6
#: A plan that uses a limit up may be this share of it to either side.
LIMIT_ROUNDING_SHARE = 1e-7
#: A quarter of this century or the next: beyond that a year is a slip.
QUARTER_PATTERN = r"^2[01]\d{2}Q[1-4]$"
#: A currency by its three letters.
CURRENCY_PATTERN = r"^[A-Z]{3}$"
#: Protocol, host and port of a Dask scheduler.
CLUSTER_PATTERN = r"^(tcp|tls|ws|wss)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$"


def over_limit(used: pd.Series, limit: pd.Series) -> pd.Series:
    """Return how far uses are above their limits (below zero: under them); 0 where a limit is used up.

    Examples:
        >>> over_limit(pd.Series([8.3e6 + 0.01, 5.0]), pd.Series([8.3e6, 7.0])).tolist()
        [0.0, -2.0]
    """
    over = used - limit
    return over.mask(over.abs() <= LIMIT_ROUNDING_SHARE * limit.abs(), 0.0)


def is_quarter(label: str) -> bool:
    """Tell whether a label names a quarter.

    Examples:
        >>> is_quarter("2027Q1"), is_quarter("2027Q5")
        (True, False)
    """
    return re.match(QUARTER_PATTERN, label) is not None


def quarter_index(label: str) -> int:
    """Count quarters since year 0, so that differences are numbers of quarters.

    Raises:
        ValueError: If the label is not like 2027Q1.

    Examples:
        >>> quarter_index("2027Q1") - quarter_index("2026Q3")
        2
    """
    if not is_quarter(label):
        raise ValueError(f"{label!r} is not a quarter; write it like 2027Q1 (Q1 to Q4)")
    return 4 * int(label[:4]) + int(label[5]) - 1


def quarter_label(index: int) -> str:
    """Turn a count of quarters back into a label.

    Examples:
        >>> quarter_label(quarter_index("2027Q4") + 1)
        '2028Q1'
    """
    return f"{index // 4:04d}Q{index % 4 + 1}"


def quarter_range(first: str, count: int) -> list[str]:
    """List `count` quarters from `first` on.

    Examples:
        >>> quarter_range("2027Q3", 3)
        ['2027Q3', '2027Q4', '2028Q1']
    """
    start = quarter_index(first)
    return [quarter_label(start + step) for step in range(count)]


def quarter_start(label: str) -> pd.Timestamp:
    """Return the first instant of a quarter (UTC, without a zone).

    Examples:
        >>> str(quarter_start("2027Q2").date())
        '2027-04-01'
    """
    index = quarter_index(label)
    return pd.Timestamp(year=index // 4, month=3 * (index % 4) + 1, day=1)


def quarter_end(label: str) -> pd.Timestamp:
    """Return the first instant after a quarter."""
    return quarter_start(quarter_label(quarter_index(label) + 1))


def quarter_of(when: pd.Timestamp) -> str:
    """Return the quarter an instant lies in.

    Examples:
        >>> quarter_of(pd.Timestamp("2026-11-28"))
        '2026Q4'
    """
    return f"{when.year:04d}Q{(when.month - 1) // 3 + 1}"


def quarter_hours(label: str, convention: str = "calendar") -> float:
    """Return the hours of a quarter: its real ones, or a quarter of 8,760.

    Args:
        convention: "calendar" for the real hours, "average" for 2,190 in every quarter.

    Examples:
        >>> quarter_hours("2027Q1"), quarter_hours("2027Q1", "average")
        (2160.0, 2190.0)
    """
    if convention == "average":
        return HOURS_PER_AVERAGE_QUARTER
    return (quarter_end(label) - quarter_start(label)) / pd.Timedelta(hours=1)


def months_of(label: str) -> list[str]:
    """List the three months of a quarter.

    Examples:
        >>> months_of("2027Q1")
        ['2027-01', '2027-02', '2027-03']
    """
    start = quarter_start(label)
    return [f"{start.year:04d}-{start.month + step:02d}" for step in range(3)]


def fiscal_year(when: pd.Timestamp, first_month: int) -> str:
    """Name the fiscal year an instant lies in, by the calendar year in which that fiscal year ends.

    Examples:
        >>> fiscal_year(pd.Timestamp("2027-02-01"), 2), fiscal_year(pd.Timestamp("2027-01-31"), 2)
        ('FY2028', 'FY2027')
    """
    shifted = when.year + (1 if first_month > 1 and when.month >= first_month else 0)
    return f"FY{shifted}"


def add_months(start: pd.Timestamp, months: float) -> pd.Timestamp:
    """Return the instant some months later; parts of a month are average days.

    Examples:
        >>> str(add_months(pd.Timestamp("2027-04-01"), 12).date())
        '2028-04-01'
    """
    whole = int(months)
    return start + pd.DateOffset(months=whole) + pd.Timedelta(days=(months - whole) * DAYS_PER_MONTH)
