"""Volume tiers: an offer at a lower price for a larger purchase, as choices of which one is taken at most."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.procurement.supply.market import attached

#: Roles of contracts that can have tiers: machines at a price an hour.
TIERED_ROLES = ("full", "units")


def checked_tiers(
    tiers: pd.DataFrame | None, contracts: pd.DataFrame, offers: pd.DataFrame, price_factor: float
) -> dict[str, pd.DataFrame]:
    """Return the tiers of each contract, smallest first, after checking that prices fall.

    Args:
        tiers: Table offer_tiers; None where a book has none.
        contracts: Offers that are contracts, with roles.
        offers: Table offers, for the names of those that were left out.
        price_factor: What the prices of `contracts` are multiplied by already.

    Raises:
        CapplanError: If a tier names no offer, one without a price an hour of its own, or a price that does not fall.
    """
    found = {}
    instead = "is no contract for machines at a price an hour, so it has no tiers; state a second offer with a minimum instead"
    for name, row, steps in attached(tiers, "offer_tiers", contracts, offers, TIERED_ROLES, instead):
        prices = np.append(row["machine_usd_per_hour"] / price_factor, steps["usd_per_hour"])
        if (np.diff(prices) >= 0).any():
            step = int(np.flatnonzero(np.diff(prices) >= 0)[0])
            raise CapplanError(
                f"offer_tiers: {name} costs {prices[step + 1]:g} from {steps['from_lots'].iloc[step]} lots on, not less than"
                f" {prices[step]:g} below; a larger purchase has a lower price"
            )
        found[name] = steps
    return found


def with_tiers(row: dict[Hashable, Any], steps: pd.DataFrame | None, price_factor: float) -> list[dict[Hashable, Any]]:
    """Split one start of an offer into a choice for each tier, with the lots between which its price holds."""
    if steps is None or steps.empty:
        return [row | {"tiered": False}]
    starts = [int(row["minimum_lots"]), *steps["from_lots"].astype(int)]
    prices = [row["usd_per_hour"], *(steps["usd_per_hour"] * price_factor)]
    most = np.inf if pd.isna(row["maximum_lots"]) else float(row["maximum_lots"])
    found = []
    for place, (begin, price) in enumerate(zip(starts, prices, strict=True)):
        last = min(most, starts[place + 1] - 1 if place + 1 < len(starts) else np.inf)
        first = max(begin, starts[0])
        if last >= first and last > 0:
            name = row["name"] if place == 0 else f"{row['name']} from {first}"
            top = float(last) if np.isfinite(last) else np.nan
            found.append(row | {"name": name, "usd_per_hour": price, "minimum_lots": float(first), "maximum_lots": top, "tiered": True})
    return found
