"""Deliveries that slip: how many days are expected to be bridged, and at what price."""

import numpy as np
import pandas as pd
from scipy.special import ndtr

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.supply.market import Market

#: 90th percentile of the standard normal distribution.
NORMAL_P90 = 1.2815515655446004
#: Contracts whose delivery puts machines there.
DELIVERED_ROLES = ("full", "reserve")


def expected_slip_days(days: np.ndarray | float, p50: np.ndarray | float, p90: np.ndarray | float) -> np.ndarray:
    r"""Return by how many days a delivery is expected to come too late.

    .. math:: E[(L-T)^+] = e^{\mu+\sigma^2/2}\,\Phi(d) - T\,\Phi(d-\sigma),\quad d = (\mu+\sigma^2-\ln T)/\sigma

    for a lognormal lead time L with median and 90th percentile as stated: mu = ln p50, sigma = ln(p90/p50) / 1.2816.

    Args:
        days (T): Days from signing to the day the machine is wanted.
        p50, p90: Lead time in days; no 90th percentile, or one that is the median, means a sure delivery.

    Source: Partial expectation of the lognormal distribution: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1 (1994),
        chapter 14.

    Examples:
        >>> expected_slip_days(90.0, 60.0, 90.0).round(2).tolist()
        1.55
        >>> expected_slip_days(90.0, 60.0, 60.0).tolist()
        0.0
    """
    wait, middle, late = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (days, p50, p90)))
    unsure = (middle > 0) & (late > middle)
    middle, late = np.where(unsure, middle, 1.0), np.where(unsure, late, 2.0)
    sigma = np.log(late / middle) / NORMAL_P90
    d = (np.log(middle) + sigma**2 - np.log(np.maximum(wait, 1e-9))) / sigma
    slip = middle * np.exp(sigma**2 / 2) * ndtr(d) - wait * ndtr(d - sigma)
    return np.where(unsure, np.maximum(slip, 0.0), 0.0)


def bridge_usd(table: pd.DataFrame, market: Market, a: ProcurementAssumptions) -> np.ndarray:
    """Return what one lot of each choice is expected to cost in days that its delivery slips, (n,).

    Missing accelerators are rented on demand, in the pool or, where it has none, at the dearest price on demand of that accelerator; where
    nobody rents
    it, the work is missed at the shortfall price of serving. The contract is not paid before it is delivered.

    Args:
        table: Choices: role, kind, pool, start, lot_machines, lot_accelerators, usd_per_hour, lead_time_days_p50, lead_time_days_p90.
        market: Pools with their prices on demand.
        a: `as_of` and the shortfall price.
    """
    pools = market.pools
    elsewhere = pools[pools["reachable"]].groupby("accelerator")["on_demand_usd_per_hour"].max()
    rate = pools["on_demand_usd_per_hour"].fillna(pools["accelerator"].map(elsewhere)).fillna(a.serving_shortfall_usd_per_accelerator_hour)
    p50 = table["lead_time_days_p50"].fillna(0.0).to_numpy(float)
    p90 = table["lead_time_days_p90"].astype(float).fillna(table["lead_time_days_p50"]).fillna(0.0).to_numpy(float)
    # Signed in time for the 90th percentile, or today where that day is past.
    days = np.minimum(np.maximum(p90, p50), ((table["start"] - pd.Timestamp(a.as_of)) / pd.Timedelta(days=1)).to_numpy(float))
    slip = np.where(delivered(table), expected_slip_days(days, p50, p90), 0.0)
    accelerators = table["lot_accelerators"].to_numpy(float)
    own = (table["usd_per_hour"] * table["lot_machines"]).to_numpy(float)
    dearer = np.maximum(rate.to_numpy(float)[table["pool"].to_numpy(int)] * accelerators - own, 0.0) if len(table) else np.zeros(0)
    return slip * 24 * dearer


def delivered(table: pd.DataFrame) -> np.ndarray:
    """Tell which choices wait for machines to be delivered, (n,)."""
    return ((table["kind"] == "offer") & table["role"].isin(DELIVERED_ROLES)).to_numpy()
