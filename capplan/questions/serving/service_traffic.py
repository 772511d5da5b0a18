"""Traffic of a served model: hours of requests, the busiest day, a burst, and the arrival of each request."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError

SECONDS_PER_HOUR = 3600.0
MINUTES_PER_HOUR = 60


def checked_traffic(traffic: pd.DataFrame) -> pd.DataFrame:
    """Return hourly traffic as hour and requests, whatever of the two known forms it comes in.

    Args:
        traffic: hour (any label, or an instant) and requests; or rows of the usage table of one workload (time, quantity), whose regions
            are added up.

    Raises:
        CapplanError: If the columns are missing, there is no row, a number is missing or negative, or an hour comes twice.
    """
    table = traffic
    if "requests" not in table and {"time", "quantity"} <= set(table.columns):
        if "workload" in table and table["workload"].nunique() > 1:
            listed = ", ".join(sorted(table["workload"].unique()))
            raise CapplanError(f"the traffic mixes workloads ({listed}); a fleet serves one model, so give the rows of one of them")
        table = table.groupby("time", sort=True, as_index=False)["quantity"].sum().set_axis(["hour", "requests"], axis=1)
    missing = [name for name in ("hour", "requests") if name not in table]
    if missing:
        raise CapplanError(
            f"the traffic has no column {' and no '.join(missing)}; it needs hour and requests, or the usage table's time and quantity"
        )
    if table.empty or not (np.isfinite(table["requests"].astype(float)) & (table["requests"] >= 0)).all():
        raise CapplanError("the traffic must have at least one hour, and a number of requests from 0 on in every hour")
    if table["hour"].duplicated().any():
        raise CapplanError(
            f"the traffic has the hour {table.loc[table['hour'].duplicated(), 'hour'].iloc[0]} twice; add its requests up first"
        )
    return table[["hour", "requests"]].reset_index(drop=True)


def busiest_day(traffic: pd.DataFrame) -> pd.DataFrame:
    """Return the 24 hours (hour 0 to 23, requests) of the complete day with most requests.

    Raises:
        CapplanError: If no day has all its 24 hours.
    """
    table = checked_traffic(traffic)
    times = pd.DatetimeIndex(table["hour"])
    table = table.assign(day=times.normalize(), hour=times.hour)
    whole = table.groupby("day")["requests"].agg(["sum", "count"])
    whole = whole[whole["count"] == 24]
    if whole.empty:
        raise CapplanError("the traffic has no complete day of 24 hours; the replay of a day needs one")
    return table[table["day"] == whole["sum"].idxmax()].sort_values("hour")[["hour", "requests"]].reset_index(drop=True)


def minute_rates(day: pd.DataFrame, burst_factor: float = 1.0, burst_hour: int = 9, burst_minutes: float = 30.0) -> np.ndarray:
    """Spread hours of traffic over their minutes and put a burst on top.

    Between the middles of two hours the rate runs straight; each hour keeps its total. In the burst the rate is multiplied.

    Args:
        day: hour (0, 1, ...), requests.
        burst_factor, burst_hour, burst_minutes: Factor, first hour and length of the burst; a factor of 1 leaves the traffic as it is.

    Returns:
        ndarray: Requests a second in each minute.
    """
    requests = day["requests"].to_numpy(dtype=float)
    minutes = np.arange(len(requests) * MINUTES_PER_HOUR) + 0.5
    middles = (np.arange(len(requests)) + 0.5) * MINUTES_PER_HOUR
    rates = np.interp(minutes, middles, requests).reshape(len(requests), MINUTES_PER_HOUR)
    totals = rates.sum(axis=1)
    rates *= np.divide(requests, totals, out=np.zeros_like(totals), where=totals > 0)[:, None]
    rates = rates.ravel()
    first = burst_hour * MINUTES_PER_HOUR
    rates[(minutes > first) & (minutes < first + burst_minutes)] *= burst_factor
    return rates / (SECONDS_PER_HOUR / MINUTES_PER_HOUR)


def drawn_arrivals(rates_per_second: np.ndarray, arrival_cv2: float, rng: np.random.Generator) -> np.ndarray:
    r"""Draw the instants at which requests arrive, with a rate that changes by the minute and a given burstiness.

    Gaps are gamma-distributed with mean 1 and squared coefficient of variation c in a time that runs as fast as the rate,
    and are carried back into seconds:

    .. math:: \Lambda(t_i) = \sum_{j \le i} G_j, \qquad \Lambda(t) = \int_0^t \lambda

    Args:
        rates_per_second: Requests a second, one value a minute.
        arrival_cv2 (c): Burstiness: 1 is a Poisson process, 0 evenly spaced.

    Returns:
        ndarray: Seconds from the start, ascending.
    """
    grown = np.concatenate([[0.0], np.cumsum(rates_per_second) * 60.0])
    total = float(grown[-1])
    if total <= 0:
        return np.empty(0)
    count = int(total + 8 * np.sqrt(total * max(arrival_cv2, 1.0)) + 20)
    gaps = np.ones(count) if arrival_cv2 == 0 else rng.gamma(1 / arrival_cv2, arrival_cv2, count)
    inner = np.cumsum(gaps)
    inner = inner[inner < total]
    # The last minute that begins with this count or less is one with traffic, so its rate can be divided by.
    starts = np.searchsorted(grown, inner, side="right") - 1
    return starts * 60.0 + (inner - grown[starts]) / rates_per_second[starts]


def drawn_services(mean_seconds: float, cv2: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw service times: constant (cv2 = 0) or gamma with this squared coefficient of variation (1 = exponential)."""
    if cv2 == 0:
        return np.full(count, mean_seconds)
    return rng.gamma(1 / cv2, mean_seconds * cv2, count)
