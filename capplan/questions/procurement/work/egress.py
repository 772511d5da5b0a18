"""Data that leaves its home: what a unit of work costs where it is not done beside its data."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.procurement.supply.market import ANYWHERE
from capplan.records import records

HOME = ("home_provider", "home_region", "egress_gib_per_unit")


def crossings(provider: object, region: object, pools: pd.DataFrame) -> np.ndarray:
    """Say how far data moves from its home to each pool: an empty text where it stays.

    Args:
        provider, region: Where the data lies; each may be not stated, and then does not count.
        pools: provider, place, geography.

    Returns:
        (pools,) of text: "", same_geography, other_geography or other_provider. Data of a whole geography is at home in all of it.
    """
    elsewhere = np.zeros(len(pools), dtype=bool) if not stated(provider) else (pools["provider"] != provider).to_numpy()
    if not stated(region):
        return np.where(elsewhere, "other_provider", "")
    here = ((pools["place"] == region) | (pools["geography"] == region) | (pools["place"] == ANYWHERE)).to_numpy()
    # The geography of a home that is a provider's region is that of the pools which stand there.
    geographies = set(pools.loc[pools["place"] == region, "geography"])
    near = pools["geography"].isin(geographies).to_numpy()
    return np.where(elsewhere, "other_provider", np.where(here, "", np.where(near, "same_geography", "other_geography")))


def stated(value: object) -> bool:
    """Tell whether a home is stated."""
    return isinstance(value, str) and value not in ("", ANYWHERE)


def egress_usd(
    rows: pd.DataFrame, classes: pd.DataFrame, speed: np.ndarray, pools: pd.DataFrame, prices: pd.DataFrame | None
) -> np.ndarray:
    r"""Price the data that an hour of work on a pool's accelerator moves out of its home, (D, pools).

    .. math:: e_{dp} = g_d\, p_{k(d,p)}\, v_{dp} F_d

    with g the GiB a unit of work moves, p the price of the crossing k from its home to the pool, v the pool's speed relative to the fastest
    accelerator, and F the work of that one in an hour.

    Args:
        rows: class, fastest of each row of work.
        classes: class, home_provider, home_region, egress_gib_per_unit; without these columns nothing is moved.
        speed (D, pools): Speeds; 0 where a pool does not serve a row.
        pools: provider, place, geography.
        prices: Table egress_prices; None where a book has none.

    Raises:
        CapplanError: If a class moves data and does not say where it lies, or a price of what it would cross is missing.
    """
    usd = np.zeros(speed.shape)
    if not set(HOME) <= set(classes):
        return usd
    homes = classes.set_index("class").reindex(rows["class"])[list(HOME)].reset_index(drop=True)
    known = {} if prices is None or prices.empty else prices.set_index(["provider", "crossing"])["usd_per_gib"].to_dict()
    for d, home in enumerate(records(homes)):
        moved = float(home["egress_gib_per_unit"])
        if not moved > 0:
            continue
        name, provider = rows.at[d, "class"], home["home_provider"]
        if not stated(provider):
            raise CapplanError(
                f"class {name!r} moves {moved:g} GiB with each unit of work and has no home_provider; say which provider keeps its data"
            )
        far = crossings(provider, home["home_region"], pools)
        for crossing in sorted(set(far[speed[d] > 0]) - {""}):
            if (provider, crossing) not in known:
                raise CapplanError(
                    f"class {name!r} would move data from {provider} to {crossing.replace('_', ' ')}, and egress_prices has no price for"
                    " it; add the row, or keep the work at home by its residency"
                )
            usd[d, far == crossing] = moved * known[provider, crossing] * rows.at[d, "fastest"]
    return usd * speed
