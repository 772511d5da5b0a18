"""How far spend may lie from its expectation: the plan's paths around the ledger's amounts."""

from __future__ import annotations

import numpy as np
import pandas as pd

#: Imputed, on no invoice.
IMPUTED = ("shortfall",)


def spend_band(
    entries: pd.DataFrame, costs: pd.DataFrame, quarters: list[str], view: str = "p_and_l", levels: tuple[float, ...] = (0.1, 0.5, 0.9)
) -> pd.DataFrame:
    r"""Put the paths' deviations around the ledger's expected amounts.

    .. math:: x_{sq} = \bar x_q + \Big(\sum_k c_{skq} - \sum_{s'} p_{s'} \sum_k c_{s'kq}\Big)

    Parameters
    ----------
    entries
        The ledger's entries: quarter, view, usd, amount.
    costs
        The purchase plan's costs: path, probability, quarter, component, usd. Only what is used by the hour differs between paths.
    quarters
        Quarters to show.
    view
        View of the ledger.
    levels
        Quantiles over paths.

    Returns
    -------
    DataFrame
        [quarter, quantile, usd, amount], amount in the book's currency; and one row a quarter with quantile missing for the expectation.
    """
    rows = entries[entries["view"] == view]
    expected = rows.groupby("quarter")[["usd", "amount"]].sum().reindex(quarters, fill_value=0.0)
    paid = costs[~costs["component"].isin(IMPUTED)]
    by_path = paid.groupby(["path", "quarter"])["usd"].sum().unstack("quarter", fill_value=0.0).reindex(columns=quarters, fill_value=0.0)
    weight = costs.groupby("path")["probability"].first().reindex(by_path.index)
    found = []
    for quarter in quarters:
        value = by_path[quarter] - float((by_path[quarter] * weight).sum())
        order = np.argsort(value.to_numpy(), kind="stable")
        reached = np.cumsum(weight.to_numpy()[order]) / weight.sum()
        usd, amount = expected.loc[quarter, "usd"], expected.loc[quarter, "amount"]
        rate = amount / usd if usd else 1.0
        found.append((quarter, np.nan, usd, amount))
        for level in levels:
            step = float(value.to_numpy()[order][min(int(np.searchsorted(reached, level - 1e-12)), len(value) - 1)])
            found.append((quarter, level, usd + step, (usd + step) * rate))
    return pd.DataFrame(found, columns=["quarter", "quantile", "usd", "amount"])
