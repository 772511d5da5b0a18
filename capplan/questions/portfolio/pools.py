"""Which load could run on which accelerator where: the pools that a portfolio is mixed for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from capplan.book.factors import scaled_limits
from capplan.book.scenario import ProcurementAssumptions
from capplan.contract_kinds import UNSTEADY_TERMS, USAGE_TERMS
from capplan.errors import CapplanError
from capplan.questions.contracts import there
from capplan.questions.pricing import completed
from capplan.units import quarter_index, quarter_start

Array = np.ndarray
POOL = ["accelerator", "geography"]
ANYWHERE = "any"


@dataclass(frozen=True)
class Pool:
    """Load that could run on one accelerator in one geography, with the ways to have it."""

    #: accelerator, geography: Name of the pool.
    accelerator: str
    geography: str
    #: load, interruptible (S, Q, B): Accelerators needed by path, planned quarter and load block, and the part of it that may be
    #: interrupted.
    load: Array
    interruptible: Array
    unserved: Array  #: (classes, S, Q, B): Accelerators needed by class; work that is left undone costs `unserved_usd`.
    unserved_usd: Array  #: (classes,): Price of an accelerator-hour of work left undone.
    hours: Array  #: (Q, B): Hours of each block.
    probability: Array  #: (S,): Probability of each path.
    #: Cheapest offer of each contract term: term, offer_id, term_months, usd_per_hour (effective, per accelerator).
    contracts: pd.DataFrame
    #: on_demand_usd, spot_usd: Effective price of an accelerator-hour; nan where there is none.
    on_demand_usd: float
    spot_usd: float
    #: on_demand_cap, spot_cap: Accelerators that can be had so.
    on_demand_cap: float
    spot_cap: float
    holdings: pd.DataFrame  #: Contracts and machines already there: accelerators, start, end (first instant after it).

    def without_holdings(self) -> Pool:
        """Return the pool as if nothing were held."""
        return replace(self, holdings=self.holdings.iloc[:0])


@dataclass(frozen=True)
class PoolTables:
    """What work can be laid on.

    Args:
        speeds: What `class_speeds` returns.
        prices: What `price_hours` returns, of the offers that may be bought.
        classes: What `class_table` returns.
        holdings: What `holdings_of` returns: contracts and machines already there, which serve first.
        limits: The limits table; caps of on demand and spot count.
    """

    speeds: pd.DataFrame
    prices: pd.DataFrame
    classes: pd.DataFrame
    holdings: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(
            {"accelerator": [], "geography": [], "accelerators": [], "start": pd.to_datetime([]), "end": pd.to_datetime([])}
        )
    )
    limits: pd.DataFrame | None = None


def holdings_of(
    commitments: pd.DataFrame | None,
    assets: pd.DataFrame | None,
    skus: pd.DataFrame,
    offers: pd.DataFrame,
    sites: pd.DataFrame | None,
    life_years: float,
) -> pd.DataFrame:
    """List contracts and machines already there.

    Args:
        life_years: Life of machines for which the table states none.

    Returns:
        DataFrame: name, accelerator, geography, accelerators, start, end (first instant after it).
    """
    machines = completed(skus, "skus").set_index("sku")
    place = dict(zip(offers["region"], offers["geography"], strict=True))
    place |= {} if sites is None or sites.empty else dict(zip(sites["site"], sites["geography"], strict=True))
    rows = there(commitments, assets, machines, life_years)
    geography = rows["region"].map(place).fillna(rows["region"])
    return rows.assign(geography=geography)[["name", "accelerator", "geography", "accelerators", "start", "end"]]


def build_pools(
    demand: pd.DataFrame, tables: PoolTables, a: ProcurementAssumptions, shares: pd.DataFrame | None = None
) -> tuple[list[Pool], pd.DataFrame, list[str]]:
    """Lay the work on accelerators (as the given shares say, if any), and gather what each pool can be served with.

    Returns:
        tuple: Pools, largest spend first; shares [class, region, accelerator, geography, share, work_per_accelerator_hour]; notes.

    Raises:
        CapplanError: Naming the classes that no offer and no contract can serve.
    """
    shares = shares if shares is not None else lay_out(demand, tables, a)
    tables = tables if tables.limits is None else replace(tables, limits=scaled_limits(tables.limits, a))
    rows = demand.merge(shares, on=["class", "region"])
    rows["accelerators"] = rows["work_per_hour"] * rows["share"] / rows["work_per_accelerator_hour"]
    paths = demand.drop_duplicates("path").sort_values("path")
    blocks = demand.drop_duplicates(["quarter", "block"]).sort_values(["quarter", "block"])
    quarters, names = sorted(blocks["quarter"].unique(), key=quarter_index), sorted(blocks["block"].unique())
    hours = blocks.pivot(index="quarter", columns="block", values="hours").reindex(index=quarters, columns=names).fillna(0.0)
    pools = [_pool(key, part, paths, hours, tables, a) for key, part in rows.groupby(POOL, sort=True)]
    notes = [
        f"No contract is offered for {pool.accelerator} in {pool.geography}: its load stays on demand, on spot, or on what is held."
        for pool in pools
        if pool.contracts.empty
    ]
    size = {
        id(pool): float((pool.load * pool.hours).sum(axis=(1, 2)) @ pool.probability) * np.nan_to_num(pool.on_demand_usd) for pool in pools
    }
    pools.sort(key=lambda pool: (-size[id(pool)], pool.accelerator, pool.geography))
    return pools, shares, notes


def _pool(
    key: tuple[str, str], part: pd.DataFrame, paths: pd.DataFrame, hours: pd.DataFrame, tables: PoolTables, a: ProcurementAssumptions
) -> Pool:
    """Gather one pool: rows of its work in accelerators, paths, and hours by quarter (row) and block (column)."""
    accelerator, geography = key
    members, about = sorted(part["class"].unique()), tables.classes.set_index("class")
    place = (
        pd.Index(members).get_indexer(part["class"]),
        paths["path"].searchsorted(part["path"]),
        hours.index.get_indexer(part["quarter"]),
        hours.columns.get_indexer(part["block"]),
    )
    by_class = np.zeros((len(members), len(paths), *hours.shape))
    np.add.at(by_class, place, part["accelerators"].to_numpy())
    soft = about.loc[members, "interruptible"].to_numpy(bool)
    speed = part.drop_duplicates("class").set_index("class")["work_per_accelerator_hour"].reindex(members).to_numpy(float)
    prices, held = tables.prices, tables.holdings
    here = prices[(prices["accelerator"] == accelerator) & (prices["geography"] == geography)]
    rate = here.groupby("term")["effective_usd_per_accelerator_hour"].min()
    contracts = here[~here["term"].isin([*USAGE_TERMS, *UNSTEADY_TERMS, "owned"])]
    contracts = contracts.sort_values(["effective_usd_per_accelerator_hour", "offer_id"]).drop_duplicates("term")
    contracts = contracts.rename(columns={"effective_usd_per_accelerator_hour": "usd_per_hour"})
    return Pool(
        str(accelerator),
        str(geography),
        by_class.sum(axis=0),
        by_class[soft].sum(axis=0),
        by_class,
        about.loc[members, "shortfall_usd_per_unit"].astype(float).to_numpy() * speed,
        hours.to_numpy(),
        paths["probability"].to_numpy() / paths["probability"].sum(),
        contracts[["term", "offer_id", "term_months", "usd_per_hour"]].sort_values("term").reset_index(drop=True),
        float(rate.get("on_demand", np.nan)),
        float(rate.get("spot", np.nan)),
        _cap(tables.limits, "on_demand_accelerators", here[here["term"] == "on_demand"], a.on_demand_accelerators),
        _cap(tables.limits, "spot_accelerators", here[here["term"] == "spot"], a.spot_accelerators),
        held[(held["accelerator"] == accelerator) & (held["geography"] == geography)],
    )


def lay_out(demand: pd.DataFrame, tables: PoolTables, a: ProcurementAssumptions) -> pd.DataFrame:
    """Lay the mean work of the first quarter on accelerators: those held first, then where a contract costs least per unit.

    Returns:
        DataFrame: class, region, accelerator, geography, share (of the class's work in the region), work_per_accelerator_hour.
    """
    from scipy.optimize import linprog

    mean, prices, holdings = _mean_work(demand), tables.prices, tables.holdings
    opens = quarter_start(a.first_quarter)
    held = holdings[(holdings["start"] <= opens) & (holdings["end"] > opens)].groupby(POOL)["accelerators"].sum()
    table = _ways(mean, held, prices, tables)
    lost = [f"{name} in {region}" for name, region in mean.index if not ((table["class"] == name) & (table["region"] == region)).any()]
    if lost:
        raise CapplanError(
            f"no offer and no contract can serve {', '.join(lost)}; add an offer for an accelerator that speeds.csv names for it, in that"
            " geography"
        )
    rows = pd.MultiIndex.from_frame(table[["class", "region"]])
    equal = np.array([[float(key == row) for row in rows] for key in mean.index])
    pools = [
        pool
        for pool in held.index
        if ((table["kind"] == "held") & (table["accelerator"] == pool[0]) & (table["geography"] == pool[1])).any()
    ]
    within = np.array(
        [
            np.where((table["kind"] == "held") & (table["accelerator"] == p) & (table["geography"] == g), table["need"], 0.0)
            for p, g in pools
        ]
    )
    scale = float(table["usd"].max()) or 1.0
    cap = [float(held[pool]) for pool in pools]
    solved = linprog(
        table["usd"] / scale, A_ub=within if pools else None, b_ub=cap or None, A_eq=equal, b_eq=np.ones(len(mean)), method="highs"
    )
    table["share"] = np.clip(solved.x, 0.0, 1.0)
    keys = ["class", "region", *POOL, "work_per_accelerator_hour"]
    shares = table.groupby(keys, as_index=False)["share"].sum()
    return shares[shares["share"] > 1e-6].reset_index(drop=True)


def _mean_work(demand: pd.DataFrame) -> pd.Series:
    """Return the mean work an hour of the first quarter by class and region; that of all quarters where the first has none."""
    first = demand[demand["quarter"] == min(demand["quarter"], key=quarter_index)]
    weight = first["probability"] * first["hours"] * first["work_per_hour"]
    hours = float(first.drop_duplicates("block")["hours"].sum()) * float(first.drop_duplicates("path")["probability"].sum())
    mean = (weight.groupby([first["class"], first["region"]]).sum() / hours).reindex(
        pd.MultiIndex.from_frame(demand[["class", "region"]].drop_duplicates().sort_values(["class", "region"])), fill_value=0.0
    )
    overall = (demand["probability"] * demand["hours"] * demand["work_per_hour"]).groupby([demand["class"], demand["region"]]).mean()
    return mean.where(mean > 0, overall.reindex(mean.index)).clip(lower=1e-9)


def _ways(mean: pd.Series, held: pd.Series, prices: pd.DataFrame, tables: PoolTables) -> pd.DataFrame:
    """List the ways in which a class's work can be done: on what is held, above it, and on what is bought."""
    usable = prices[~prices["term"].isin([*UNSTEADY_TERMS, "owned"])]
    rate = usable.groupby(POOL)["effective_usd_per_accelerator_hour"].min()
    # work that only machines already there can do may overfill them, at a price that nothing else has
    above = 10 * float(rate.max()) if len(rate) else 1.0
    region_of = prices.drop_duplicates("region").set_index("region")["geography"].to_dict()
    residency = tables.classes.set_index("class")["residency"]
    options = []
    for (name, region), work in mean.items():
        for row in tables.speeds[tables.speeds["class"] == name].itertuples():
            for pool in sorted(set(rate.index) | set(held.index)):
                accelerator, geography = pool
                wanted = {region_of.get(region, region), region_of.get(residency.get(name), residency.get(name))} - {ANYWHERE, None}
                wanted = {place for place in wanted if not pd.isna(place)}
                if accelerator != row.accelerator or not wanted <= {geography}:
                    continue
                need = work / row.work_per_accelerator_hour
                for kind, usd in (("held", 0.0), ("over", above), ("bought", rate.get(pool, np.nan))):
                    if (pool in held.index) if kind != "bought" else np.isfinite(usd):
                        options.append((name, region, accelerator, geography, row.work_per_accelerator_hour, kind, need, usd * need))
    return pd.DataFrame(options, columns=["class", "region", *POOL, "work_per_accelerator_hour", "kind", "need", "usd"])


def _cap(limits: pd.DataFrame | None, kind: str, offers: pd.DataFrame, usual: float) -> float:
    """Add up what the providers of a pool let one have, of what is asked for; the assumption's where no limit names one."""
    total = 0.0
    for row in offers.drop_duplicates(["provider", "region"]).itertuples():
        had = getattr(row, "available_share", 1.0) if kind == "on_demand_accelerators" else 1.0
        found = (
            pd.DataFrame()
            if limits is None or limits.empty
            else limits[
                (limits["kind"] == kind)
                & limits["quarter"].isna()
                & (limits["provider"].isna() | (limits["provider"] == row.provider))
                & (limits["region"].isna() | limits["region"].isin([row.region, row.geography]))
                & (limits["accelerator"].isna() | (limits["accelerator"] == row.accelerator))
            ]
        )
        total += had * (float(found["amount"].min()) if len(found) else usual)
    return total
