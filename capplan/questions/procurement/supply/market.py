"""What could serve the work: offers, contracts already signed and machines owned, grouped into pools."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from capplan.book.tables.registry import key_of
from capplan.contract_kinds import RENEWABLE_TERMS, USAGE_TERMS
from capplan.errors import CapplanError, nearest
from capplan.questions.contracts import holdings_with_terms, role_of
from capplan.questions.pricing import completed, price_hours
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.supply.generations import Arrival, arrival_notes
from capplan.questions.procurement.supply.price_paths import PriceMoves, path_notes
from capplan.questions.procurement.work.spans import Spans
from capplan.questions.procurement.work.timeline import Timeline
from capplan.records import records

#: A capacity block shorter than this serves work that can be moved into its weeks, and no other.
SHORT_BLOCK_MONTHS = 3.0
ANYWHERE = "any"
#: What a contract free after a year replaces once the horizon is over, by roles of contracts.
REPLACED = {"replacement": ("full",), "rediscount": ("units", "dollars")}
#: What a year costs against an equal one of a longer contract: list prices of one-year terms stand 1.3 to 1.5 times above those of three
#: years at the large clouds.
FREE_AFTER_A_YEAR = 1.5


@dataclass(frozen=True)
class Market:
    """Offers and holdings, each with the pool it belongs to."""

    #: provider, accelerator, place, geography, movable_only (short capacity blocks), reachable (some of the work may run there), expected
    #: (its machine has not come yet), on_demand_offer, on_demand_usd_per_hour, on_demand_available_share (of what is asked for),
    #: spot_offer, spot_usd_per_hour, spot_useful_share, replacement_usd_per_hour and rediscount_usd_per_hour (what a short contract for
    #: capacity, or for a discount only, costs again after the horizon); all per accelerator, empty where a pool has no such way.
    pools: pd.DataFrame
    contracts: pd.DataFrame  #: Offers that are contracts, with prices, pool and role.
    holdings: pd.DataFrame  #: Signed contracts and owned machines: name, pool, role, accelerators, start, end, usd_per_hour and more.
    notes: tuple[str, ...]  #: What was assumed on the way.
    price_paths: PriceMoves = field(default_factory=PriceMoves)  #: How prices move.


def reaches(where: Iterable[str], pools: pd.DataFrame) -> np.ndarray:
    """Tell which pools (place, geography) stand where work of a region and a residency may be done."""
    mask = np.ones(len(pools), dtype=bool)
    for place in where:
        if place != ANYWHERE:
            mask &= ((pools["place"] == place) | (pools["geography"] == place) | (pools["place"] == ANYWHERE)).to_numpy()
    return mask


def attached(
    frame: pd.DataFrame | None, name: str, contracts: pd.DataFrame, offers: pd.DataFrame, roles: Sequence[str], instead: str
) -> Iterator[tuple[str, pd.Series, pd.DataFrame]]:
    """Go through the rows of a table that belong to offers, contract by contract; offers that were left out are passed over.

    Args:
        frame, name: The table (None where a book has none) and its name; its rows come sorted by their key.
        contracts: Offers that are contracts, with roles.
        offers: Table offers, for the names of those that were left out.
        roles: What a contract must do to have such rows.
        instead: What a refusal says of others.

    Raises:
        CapplanError: If a row names no offer, or one that is no such contract.
    """
    if frame is None or frame.empty:
        return
    known, terms = contracts.set_index("offer_id"), offers.set_index("offer_id")["term"]
    for key, part in completed(frame, name).sort_values(key_of(name)).groupby("offer_id", sort=True):
        offer = str(key)
        if offer not in terms.index:
            raise CapplanError(f"{name} names {offer!r}, which is no offer; {nearest(offer, terms.index)}")
        if offer in known.index or terms[offer] in USAGE_TERMS:
            if terms[offer] in (*USAGE_TERMS, "owned") or known.at[offer, "role"] not in roles:
                raise CapplanError(f"{name}: {offer} {instead}")
            yield offer, known.loc[offer], part.reset_index(drop=True)


def build_market(problem: Problem, accelerators: Iterable[str], named_places: Iterable[str], arrivals: tuple[Arrival, ...] = ()) -> Market:
    """Group everything that can serve work into pools of one provider, accelerator and place.

    A place is a geography, or a provider's region where demand or a limit names that region.

    Args:
        problem: Offers, machines, contracts, assets and sites; exclusions and price assumptions apply here.
        accelerators: Accelerators on which some of the work runs; offers of others could never serve it and are left out.
        named_places: Regions that demand, residency and limits name.

    Raises:
        CapplanError: If an offer cannot be priced, an excluded offer or a SKU is unknown, or a contract does nothing.
    """
    a, sites, machines = problem.assumptions, problem.sites, completed(problem.skus, "skus").set_index("sku")
    table = _wanted_offers(problem, machines, set(accelerators))
    priced = _priced(problem, table, machines)
    exact = set(named_places)
    geography = dict(zip(table["region"], table["geography"], strict=True))
    if sites is not None and not sites.empty:
        geography |= dict(zip(sites["site"], sites["geography"], strict=True))
    holdings = holdings_with_terms(problem.commitments, problem.assets, machines, a.useful_life_years)
    holdings["geography"] = [geography.get(region, region) for region in holdings["region"]]
    holdings = _renewable(holdings, table) if a.renewal_without_price == "same_price" else holdings
    for frame in (priced, holdings):
        frame["place"] = frame["region"].where(frame["region"].isin(exact), frame["geography"])
    priced["movable_only"] = (priced["term"] == "capacity_block") & (priced["term_months"] < SHORT_BLOCK_MONTHS)
    holdings["movable_only"] = False

    key = ["provider", "accelerator", "place", "geography", "movable_only"]
    pools = pd.concat([priced[key], *([holdings[key]] if len(holdings) else [])]).drop_duplicates().sort_values(key).reset_index(drop=True)
    index = pd.MultiIndex.from_frame(pools)
    for frame in (priced, holdings):
        frame["pool"] = index.get_indexer(pd.MultiIndex.from_frame(frame[key]))
    pools["reachable"] = _reachable(problem, pools)
    pools["expected"] = pools["accelerator"].isin([arrival.accelerator for arrival in arrivals if arrival.added])
    rate = "effective_usd_per_accelerator_hour"
    for term, share in (("on_demand", "available_share"), ("spot", "useful_share")):
        cheapest = priced[priced["term"] == term].sort_values([rate, "offer_id"]).drop_duplicates("pool").set_index("pool")
        pools[f"{term}_offer"] = cheapest["offer_id"].reindex(pools.index)
        pools[f"{term}_usd_per_hour"] = (cheapest["machine_usd_per_hour"] / cheapest["accelerator_count"]).reindex(pools.index)
        pools[f"{term}_{share}"] = cheapest[share].reindex(pools.index)
    contracts = priced[~priced["term"].isin(USAGE_TERMS)].reset_index(drop=True)
    contracts["role"] = [
        role_of(row.term, row.discounts, bool(row.guarantees_capacity), f"offer {row.offer_id}") for row in contracts.itertuples()
    ]
    # A reservation that costs no more than on demand, or where nothing can be had on demand, simply is paid capacity.
    by_hour = contracts["pool"].map(pools["on_demand_usd_per_hour"]) * contracts["accelerator_count"]
    paid = (contracts["role"] == "reserve") & ~(contracts["machine_usd_per_hour"] >= by_hour)
    contracts.loc[paid, "role"] = "full"
    for word, roles in REPLACED.items():
        pools[f"{word}_usd_per_hour"] = short_term(contracts[contracts["role"].isin(roles)])[0].reindex(pools.index)
    said = [*path_notes(problem.price_paths, priced), *arrival_notes(arrivals, set(priced["sku"].map(machines["accelerator"])))]
    notes = [*_notes(holdings, geography, table), *said]
    return Market(pools, contracts, holdings, tuple(notes), PriceMoves(problem.price_paths, arrivals))


def _wanted_offers(problem: Problem, machines: pd.DataFrame, runs: set[str]) -> pd.DataFrame:
    """Return the offers that may be bought, of accelerators on which some of the work runs."""
    a, table = problem.assumptions, completed(problem.offers, "offers")
    unknown = [name for name in a.excluded_offers if name not in set(table["offer_id"])]
    if unknown:
        raise CapplanError(f"excluded_offers names {unknown[0]!r}, which is no offer; {nearest(unknown[0], table['offer_id'])}")
    provider = table["sku"].map(machines["provider"])
    wanted = ~table["offer_id"].isin(a.excluded_offers) & (
        table["sku"].map(machines["accelerator"]).isin(runs) | ~table["sku"].isin(machines.index)
    )
    if a.providers:
        wanted &= provider.isin(a.providers)
    if a.geographies:
        wanted &= table["geography"].isin(a.geographies)
    return table[wanted].reset_index(drop=True)


def _priced(problem: Problem, table: pd.DataFrame, machines: pd.DataFrame) -> pd.DataFrame:
    """Price offers, with what else of them a purchase depends on."""
    a = problem.assumptions
    prices = price_hours(problem.skus, table, a, problem.sites, problem.offer_payments)
    extra = (
        "lot_machines minimum_lots maximum_lots lead_time_days_p50 lead_time_days_p90 available_from available_to discounts plan_id"
        " guarantees_capacity quote_expires upfront_share capex_usd"
    ).split()
    priced = pd.concat([prices, table[extra]], axis=1)
    priced["list_usd_per_hour"] = table["usd_per_hour"] * a.price_factor
    priced["power_kw"] = priced["sku"].map(machines["power_kw"]).astype(float)
    return priced


def _reachable(problem: Problem, pools: pd.DataFrame) -> np.ndarray:
    """Tell which pools some of the work may run in."""
    found = np.zeros(len(pools), dtype=bool)
    residency = dict(zip(problem.classes["class"], problem.classes["residency"], strict=True)) if "residency" in problem.classes else {}
    for row in records(problem.demand[["class", "region"]].drop_duplicates()):
        runs = problem.speeds.loc[problem.speeds["class"] == row["class"], "accelerator"]
        where = [place for place in (row["region"], residency.get(row["class"])) if isinstance(place, str) and place]
        found |= pools["accelerator"].isin(runs).to_numpy() & reaches(where, pools)
    return found


def short_term(contracts: pd.DataFrame, factors: np.ndarray | None = None) -> pd.DataFrame:
    """Cheapest effective rate of each pool's contracts of up to a year; longer ones count at the price of being free of them after a year.

    Each rate counts at its factors (contracts x k; one of 1 where none are given), those of the prices of later days. One more offer, or a
    cheaper one, never raises it. Machines one would buy do not count: their capital, power and space, which the planned quarters limit, are
    not free of limits later.

    Returns:
        DataFrame: pool (index), and a column for each factor.
    """
    usable = (~contracts["movable_only"] & (contracts["term"] != "owned")).to_numpy(bool)
    free = contracts["effective_usd_per_accelerator_hour"].to_numpy(float)
    free = free * np.where(contracts["term_months"] <= 12, 1.0, FREE_AFTER_A_YEAR)
    rates = free[:, None] * (np.ones((len(contracts), 1)) if factors is None else factors)
    return pd.DataFrame(rates[usable]).groupby(contracts["pool"].to_numpy()[usable]).min()


def _renewable(holdings: pd.DataFrame, offers: pd.DataFrame) -> pd.DataFrame:
    """Let contracts that state no renewal price be renewed at today's, unless an offer of the same kind and term states a price."""
    key = ["sku", "geography", "term"]
    offered = pd.MultiIndex.from_frame(holdings[key]).isin(pd.MultiIndex.from_frame(offers[key]))
    same = holdings["renewal_usd_per_hour"].isna() & holdings["term"].isin(RENEWABLE_TERMS) & (holdings["usd_per_hour"] > 0) & ~offered
    today = holdings["usd_per_hour"] / holdings["machines"]
    return holdings.assign(renewal_usd_per_hour=holdings["renewal_usd_per_hour"].mask(same, today), renewal_assumed=same)


def _notes(holdings: pd.DataFrame, geography: dict[str, str], offers: pd.DataFrame) -> list[str]:
    """Say what was assumed about where contracts stand."""
    places = set(geography) | set(offers["geography"]) | set(geography.values()) | {ANYWHERE}
    lost = sorted(set(holdings["region"]) - places)
    if not lost:
        return []
    return [
        f"No offer or site says in which geography {', '.join(lost)} lies, so contracts there serve only demand that names that region or"
        " any."
    ]


def held(market: Market, times: Timeline | Spans) -> np.ndarray:
    """Accelerators of each holding in each quarter or span, (holdings, Q): whole ones in full, others by the share covered."""
    if market.holdings.empty:
        return np.zeros((0, len(times.starts)))
    return market.holdings["accelerators"].to_numpy(float)[:, None] * times.covered(market.holdings["start"], market.holdings["end"])
