"""The ways to call a model through an API: list prices, contracts, batch, and provisioned throughput with spillover."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.ledger.request_prices import granted_per_minute, has_batch_price, listed_model, service_usd
from capplan.records import records

MILLION = 1e6
MINUTES_PER_HOUR = 60


def api_ways(service: pd.Series, contracts: pd.DataFrame, when: pd.Timestamp) -> tuple[pd.DataFrame, list[str]]:
    """List the ways in which a service's requests can be answered by an API, with prices on a day.

    Args:
        service: A row of services; its own provider's list price is the first way, and its batch price, where it has one.
        contracts: Rows of api_contracts of this workload. Terms of calls by the request to the service's own model of its own provider take
            the place of its list price: they are what it is called under, rate limit included.
        when: Day of the prices. It must be given: the price list is dated.

    Returns:
        tuple: Table [way, kind, provider, model, usd_per_request (empty for provisioned units without a price by the call),
            unit_usd_per_hour, requests_per_unit_hour, minimum_units, unit_increment, term_months, requests_per_hour_limit, withdrawn_on,
            source]; and notes.

    Raises:
        CapplanError: If a model has been withdrawn before that day, the price list lacks it, or a provisioned contract states no unit.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    if not pd.isna(service.get("provider")):
        model, provider = str(service["model"]), str(service["provider"])
        own = contracts["kind"].eq("payg") & contracts["provider"].eq(provider) & contracts["model"].eq(model)
        if not own.any():
            rows.append(_way("list_price", "payg", provider, model, service_usd(service, when, batch_share=0.0)))
        if has_batch_price(model, provider, when):
            rows.append(_way("batch_price", "batch", provider, model, service_usd(service, when, batch_share=1.0)))
        if getattr(listed_model(model, provider)[0], "deprecated", False):
            notes.append(
                f"The price list marks {model} of {provider} as deprecated: ask for its last day, and state it as withdrawn_on in"
                " api_contracts.csv."
            )
    for row in records(contracts):
        rows.append(_contract(service, row, when))
    columns = list(_way("", "", "", "", 0.0))
    return pd.DataFrame(rows, columns=columns).astype({"withdrawn_on": "datetime64[ns]"}), notes


def _way(way: str, kind: str, provider: str, model: str, usd_per_request: float) -> dict[str, Any]:
    """Describe a way without units, limits or an end."""
    return {
        "way": way,
        "kind": kind,
        "provider": provider,
        "model": model,
        "usd_per_request": usd_per_request,
        "unit_usd_per_hour": np.nan,
        "requests_per_unit_hour": np.nan,
        "minimum_units": np.nan,
        "unit_increment": np.nan,
        "term_months": np.nan,
        "requests_per_hour_limit": np.inf,
        "withdrawn_on": pd.NaT,
        "source": "price list",
    }


def _contract(service: pd.Series, row: dict[str, Any], when: pd.Timestamp) -> dict[str, Any]:
    """Describe a row of api_contracts."""
    name = str(row["api_contract_id"])
    if not pd.isna(row["withdrawn_on"]) and row["withdrawn_on"] <= when:
        raise CapplanError(
            f"api_contracts: {name} calls {row['model']}, which was withdrawn on {row['withdrawn_on'].date()}; name its successor, or"
            " delete the row"
        )
    way = _way(name, str(row["kind"]), str(row["provider"]), str(row["model"]), np.nan)
    way |= {"withdrawn_on": row["withdrawn_on"], "term_months": row["term_months"], "source": str(row["source_id"])}
    way["requests_per_hour_limit"] = granted_per_minute(row, service) * MINUTES_PER_HOUR
    if row["kind"] == "provisioned":
        if pd.isna(row["unit_usd_per_hour"]) or pd.isna(row["unit_tokens_per_minute"]):
            raise CapplanError(f"api_contracts: {name} is provisioned throughput; state unit_usd_per_hour and unit_tokens_per_minute")
        tokens = float(service["input_tokens"]) + float(row["output_token_weight"]) * float(service["output_tokens"])
        return way | {
            "unit_usd_per_hour": row["unit_usd_per_hour"] * (1 - row["discount_share"]),
            "minimum_units": row["minimum_units"],
            "unit_increment": row["unit_increment"],
            "requests_per_unit_hour": row["unit_tokens_per_minute"] * MINUTES_PER_HOUR / tokens,
        }
    if pd.isna(row["input_usd_per_million"]):
        usd = service_usd(service, when, model=way["model"], provider=way["provider"], batch_share=float(row["kind"] == "batch"))
    else:
        if pd.isna(row["output_usd_per_million"]):
            raise CapplanError(
                f"api_contracts: {name} states input_usd_per_million but no output_usd_per_million; state both, or neither for list prices"
            )
        cached = float(service.get("cached_share") or 0.0)
        cheap = row["input_usd_per_million"] if pd.isna(row["cached_usd_per_million"]) else row["cached_usd_per_million"]
        given = float(service["input_tokens"]) * ((1 - cached) * row["input_usd_per_million"] + cached * cheap)
        usd = (given + float(service["output_tokens"]) * row["output_usd_per_million"]) / MILLION
    return way | {"usd_per_request": usd * (1 - row["discount_share"])}


def calling_usd(way: pd.Series, rate: np.ndarray, hours: np.ndarray, spill_usd_per_request: float) -> np.ndarray:
    """Cost every path's quarter of calls.

    Args:
        way: A row of `api_ways`.
        rate (S, Q, B): Requests an hour in each load block.
        hours (Q, B): Hours of each block.
        spill_usd_per_request: Price of a request that provisioned units cannot take.

    Returns:
        (S, Q) array: USD. Units are bought once for all quarters, as many as cost least on average over paths; what is above them is called
            at the price by the request.
    """
    requests = (rate * hours).sum(axis=2)
    if way["kind"] != "provisioned":
        return np.asarray(requests * float(way["usd_per_request"]))
    per_unit, price = float(way["requests_per_unit_hour"]), float(way["unit_usd_per_hour"])
    units = best_units(way, rate, hours, spill_usd_per_request)
    spilled = (np.maximum(rate - units * per_unit, 0.0) * hours).sum(axis=2)
    return np.asarray(units * price * hours.sum(axis=1) + spilled * spill_usd_per_request)


def best_units(way: pd.Series, rate: np.ndarray, hours: np.ndarray, spill_usd_per_request: float) -> float:
    """Return the provisioned units that cost least on average: the newsvendor's, in whole steps and not below the minimum.

    Examples:
        >>> way = pd.Series({"requests_per_unit_hour": 100.0, "unit_usd_per_hour": 10.0, "minimum_units": 1.0, "unit_increment": 1.0})
        >>> best_units(way, np.array([[[150.0, 450.0]]]), np.array([[1.0, 3.0]]), 0.2)
        4.0
    """
    per_unit, price = float(way["requests_per_unit_hour"]), float(way["unit_usd_per_hour"])
    least, step = float(way["minimum_units"]), float(way["unit_increment"])
    most = max(least, least + step * np.ceil(max(float(rate.max()) / per_unit - least, 0.0) / step))
    weight = np.broadcast_to(hours, rate.shape).ravel() / rate.shape[0]
    load = rate.ravel()
    # cost is convex in units, so the first step that no longer lowers it ends the search
    low, high = 0, round((most - least) / step)

    def cost(index: int) -> float:
        units = least + index * step
        return units * price * float(weight.sum()) + spill_usd_per_request * float(weight @ np.maximum(load - units * per_unit, 0.0))

    while low < high:
        middle = (low + high) // 2
        if cost(middle + 1) < cost(middle):
            low = middle + 1
        else:
            high = middle
    return least + low * step


def overflow_prices(workloads: pd.DataFrame, services: pd.DataFrame, contracts: pd.DataFrame, when: pd.Timestamp) -> pd.DataFrame:
    """Price what a purchase plan may send to an API: the requests of classes that may be served both ways.

    Of the ways paid by the call, the cheapest without a rate limit is taken; where all have one, the cheapest, up to its limit, and of
    equal prices the one with the highest limit.

    Returns:
        DataFrame: class, api_usd_per_unit, api_units_per_hour (empty = no limit); a class of several workloads has the highest price of
            them, and the sum of limits.
    """
    named = workloads["work_class"] if "work_class" in workloads else pd.Series(index=workloads.index, dtype=object)
    both = workloads.assign(**{"class": named.where(named.notna(), workloads["workload"])})
    both = both[both["host"] == "either"].merge(services, on="workload", suffixes=("_workload", ""))
    rows = []
    for _, service in both.iterrows():
        ways = api_ways(service, contracts[contracts["workload"] == service["workload"]], when)[0]
        ways = ways[(ways["kind"] == "payg") & ways["withdrawn_on"].isna()]
        ways = ways.sort_values(["usd_per_request", "requests_per_hour_limit"], ascending=[True, False], kind="stable")
        free = ways[~np.isfinite(ways["requests_per_hour_limit"].astype(float))]
        if len(ways):
            chosen = free.iloc[0] if len(free) else ways.iloc[0]
            limit = float(chosen["requests_per_hour_limit"])
            rows.append((service["class"], float(chosen["usd_per_request"]), limit))
    table = pd.DataFrame(rows, columns=["class", "api_usd_per_unit", "api_units_per_hour"])
    table = table.astype({"api_usd_per_unit": float, "api_units_per_hour": float})
    found = table.groupby("class", as_index=False).agg(
        api_usd_per_unit=("api_usd_per_unit", "max"), api_units_per_hour=("api_units_per_hour", "sum")
    )
    return found.assign(api_units_per_hour=found["api_units_per_hour"].where(np.isfinite(found["api_units_per_hour"])))
