"""Failure rates of nodes, from counts or as stated, with the band a count leaves open."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.goodput import GoodputAssumptions
from capplan.errors import CapplanError, nearest

#: Probability that the band of a counted rate covers.
BAND_SHARE = 0.95
COLUMNS = ("cause", "part", "failures", "nodes", "days", "failures_per_node_day", "accelerators_per_node", "accelerator")


@dataclass(frozen=True)
class Rate:
    """The failure rate taken for an accelerator."""

    per_accelerator_hour: float  #: Failures in an hour of one accelerator.
    #: lowest, highest: The lowest and the highest of the fleets it is the mean of.
    lowest: float
    highest: float
    fleets: tuple[str, ...]  #: Names of these fleets.
    same_accelerator: bool  #: Do they hold the accelerator asked for?


def failure_rates(failures: pd.DataFrame) -> pd.DataFrame:
    r"""Turn counted failures into rates, fleet by fleet.

    .. math:: r = \frac{F}{N\,d},\qquad \tfrac12\chi^2_{0.025}(2F) \le F_\text{true} \le \tfrac12\chi^2_{0.975}(2F+2)

    Args:
        failures: fleet; either failures, nodes and days, or failures_per_node_day; optional cause, accelerators_per_node, accelerator.

    Returns:
        DataFrame: fleet, accelerator, accelerators_per_node, failures, node_days, failures_per_node_day, lower, upper (exact 95 % band of
            the count; empty where the rate was only stated), failures_per_accelerator_hour; ordered by fleet.

    Raises:
        CapplanError: Listing each fleet whose rows state neither a count nor a rate, both, or different nodes.

    Source: F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28, 1936.
    """
    from scipy.stats import chi2

    if "fleet" not in failures.columns:
        raise CapplanError(f"failures lack the column fleet; found {', '.join(map(str, failures.columns))}")
    if failures.empty:
        raise CapplanError(
            "there are no failures rows; state at least one fleet with failures, nodes and days, or with failures_per_node_day"
        )
    table = failures.reset_index(drop=True).copy()
    for name in COLUMNS:
        if name not in table:
            table[name] = None
    for name in ("failures", "nodes", "days", "failures_per_node_day", "accelerators_per_node"):
        table[name] = pd.to_numeric(table[name]).astype(float)
    table["accelerators_per_node"] = table["accelerators_per_node"].fillna(8.0)
    faults: list[str] = []
    rows = []
    for fleet, part in table.groupby("fleet", sort=True):
        faults += _faults(str(fleet), part)
        if faults:
            continue
        counted = part["failures"].notna()
        exposure = float((part["nodes"] * part["days"]).max()) if counted.any() else np.nan
        count = float(part.loc[counted, "failures"].sum()) if counted.any() else np.nan
        stated = float(part.loc[~counted, "failures_per_node_day"].sum())
        rate = stated + (count / exposure if counted.any() else 0.0)
        tail = (1 - BAND_SHARE) / 2
        low = stated + (chi2.ppf(tail, 2 * count) / 2 / exposure if counted.any() and count > 0 else 0.0)
        high = stated + (chi2.ppf(1 - tail, 2 * count + 2) / 2 / exposure if counted.any() else 0.0)
        size = float(part["accelerators_per_node"].iloc[0])
        names = part["accelerator"].dropna()
        rows.append(
            {
                "fleet": str(fleet),
                "accelerator": names.iloc[0] if len(names) else None,
                "accelerators_per_node": size,
                "failures": count,
                "node_days": exposure,
                "failures_per_node_day": rate,
                "lower": low if counted.any() else np.nan,
                "upper": high if counted.any() else np.nan,
                "failures_per_accelerator_hour": rate / size / 24,
            }
        )
    if faults:
        raise CapplanError("failure rates that cannot be known: " + "; ".join(faults))
    return pd.DataFrame(rows)


def rate_of(accelerator: str | None, rates: pd.DataFrame, a: GoodputAssumptions) -> Rate:
    """Choose the failure rate of an accelerator: of the fleet that is named, of the fleets that hold it, or of all.

    Args:
        accelerator: Accelerator asked for; None = any.
        rates: What `failure_rates` returns.
        a: Fleet to take (empty = choose), and the factor on all rates.

    Raises:
        CapplanError: If the fleet that is named is not in the table.
    """
    if a.failure_fleet:
        part = rates[rates["fleet"] == a.failure_fleet]
        if part.empty:
            raise CapplanError(f"failure_fleet names {a.failure_fleet!r}; {nearest(a.failure_fleet, rates['fleet'])}")
    else:
        part = rates[rates["accelerator"] == accelerator]
        part = part if len(part) else rates
    values = part["failures_per_accelerator_hour"] * a.failure_factor
    same = bool((part["accelerator"] == accelerator).all())
    return Rate(float(values.mean()), float(values.min()), float(values.max()), tuple(part["fleet"]), same)


def _faults(fleet: str, part: pd.DataFrame) -> list[str]:
    """List what is wrong with the rows of one fleet."""
    counted, stated = part["failures"].notna(), part["failures_per_node_day"].notna()
    faults = []
    if (~counted & ~stated).any():
        faults.append(f"fleet {fleet}: a row states neither failures nor failures_per_node_day; state one of them")
    if (counted & stated).any():
        faults.append(f"fleet {fleet}: a row states both failures and failures_per_node_day; leave one of them empty")
    if (part.loc[counted, ["nodes", "days"]].isna()).any(axis=None):
        faults.append(f"fleet {fleet}: failures are counted, but nodes or days are missing; a count without them is no rate")
    for name in ("failures", "failures_per_node_day"):
        if (part[name] < 0).any():
            faults.append(f"fleet {fleet}: {name} = {part[name].min():g}; must be at least 0")
    for name in ("nodes", "days", "accelerators_per_node"):
        if (part[name] <= 0).any():
            faults.append(f"fleet {fleet}: {name} = {part[name].min():g}; must be above 0")
        if part[name].nunique() > 1:
            faults.append(
                f"fleet {fleet}: its rows state different {name} ({part[name].min():g} and {part[name].max():g}); all causes of a fleet are"
                " counted over the same nodes and days, so give other counts another fleet name"
            )
    return faults
