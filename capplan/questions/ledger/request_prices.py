"""What requests to model APIs cost, at public list prices."""

import datetime as dt
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.notes import ToDo
from capplan.records import records
from capplan.units import quarter_hours

#: How the price list marks requests through a batch interface.
BATCH = {"processing": "batch"}
HOURS_PER_DAY, MINUTES_PER_HOUR = 24, 60
#: Usage from which the busiest hour over the mean one is taken.
LATELY = pd.Timedelta(weeks=4)
#: Shares may add up to this much more than one.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Request:
    """One request to a model API."""

    input_tokens: float  #: Tokens of its input; cached ones are part of it.
    output_tokens: float
    cached_share: float = 0.0  #: Share of the input that is read from the provider's cache.
    #: Share of the input that is written into it, where that has a price of its own; the rest of the input is neither.
    cache_written_share: float = 0.0


@lru_cache(maxsize=4096)
def request_usd(
    model: str, provider: str, when: pd.Timestamp, request: Request, *, batch_share: float = 0.0, hour: int | None = None
) -> float:
    r"""Price one request to a model API on a day, at an hour or as the mean over all (some prices differ by the hour).

    .. math:: u = (1-b)\,u_\text{now} + b\,u_\text{batch}

    Args:
        model, provider: Names in the price list of the package genai-prices.
        request: Prices may rise with the length of a single request, so requests are priced one by one and never as a sum.
        batch_share (b): Share of requests through the batch interface.
        hour: Hour of the day (UTC) of the request; None for the mean over the day.

    Returns:
        float: USD a request.

    Raises:
        CapplanError: If the list has no such provider or model, or no batch price where one is needed, or more than all input is read from
            and written into a cache.
    """
    read, written = request.cached_share, request.cache_written_share
    if read + written > 1 + ROUNDING:
        raise CapplanError(
            f"of the input of {model}, {read:g} is read from the cache and {written:g} written into it, more than all"
            " of it; correct cached_share or cache_written_share in services.csv"
        )
    found, seller = listed_model(model, provider)
    if batch_share > 0 and not _has_batch(found, when):
        raise CapplanError(
            f"the price list has no batch price for {model} of {provider}; set batch_share to 0 in services.csv, or name another model"
        )
    day = dt.datetime(when.year, when.month, when.day, tzinfo=dt.UTC)
    moments = [day + dt.timedelta(hours=one) for one in (range(HOURS_PER_DAY) if hour is None else [hour])]
    usual = _mean_price(found, seller, moments, request, None) if batch_share < 1 else 0.0
    batch = _mean_price(found, seller, moments, request, BATCH) if batch_share > 0 else 0.0
    return (1 - batch_share) * usual + batch_share * batch


def service_usd(
    service: Mapping[Hashable, Any] | pd.Series,
    when: pd.Timestamp,
    *,
    model: str | None = None,
    provider: str | None = None,
    batch_share: float | None = None,
) -> float:
    """Price one request of a service on a day (USD), as `request_usd` does."""

    def share(name: str) -> float:
        value = service.get(name)
        return 0.0 if value is None or pd.isna(value) else float(value)

    return request_usd(
        model or str(service["model"]),
        provider or str(service["provider"]),
        when,
        Request(float(service["input_tokens"]), float(service["output_tokens"]), share("cached_share"), share("cache_written_share")),
        batch_share=share("batch_share") if batch_share is None else batch_share,
    )


def listed_model(model: str, provider: str) -> tuple[Any, Any]:
    """Find a model and its provider in the price list: by the name that its API takes, or by its short name.

    Raises:
        CapplanError: If the list does not have it, with the nearest names.
    """
    from genai_prices.data_snapshot import get_snapshot

    providers = {item.id: item for item in get_snapshot().providers}
    if provider not in providers:
        raise CapplanError(f"the price list of model APIs has no provider {provider!r}; {nearest(provider, providers)}")
    try:
        return get_snapshot().find_provider_model(model, None, provider, None)[1], providers[provider]
    except LookupError as error:
        names = {item.id: item for item in providers[provider].models}
        if model in names:
            return names[model], providers[provider]
        raise CapplanError(f"the price list has no model {model!r} of {provider}; {nearest(model, names)}") from error


def has_batch_price(model: str, provider: str, when: pd.Timestamp) -> bool:
    """Tell whether the price list has a price through the batch interface."""
    return _has_batch(listed_model(model, provider)[0], when)


def _has_batch(model: Any, when: pd.Timestamp) -> bool:
    """Tell whether asking for the batch price changes the price at all: the list ignores contexts it does not know."""
    moment = dt.datetime(when.year, when.month, when.day, 12, tzinfo=dt.UTC)
    usual, batch = model.get_prices(moment, None), model.get_prices(moment, BATCH)
    return bool(usual != batch)


def _mean_price(model: Any, seller: Any, moments: list[dt.datetime], request: Request, context: dict[str, str] | None) -> float:
    """Price one request at each moment, and take the mean."""
    from genai_prices import Usage

    given = Decimal(repr(float(request.input_tokens)))
    read, written = (given * Decimal(repr(float(share))) or None for share in (request.cached_share, request.cache_written_share))
    output = Decimal(repr(float(request.output_tokens)))
    usage = Usage(input_tokens=given, cache_read_tokens=read, cache_write_tokens=written, output_tokens=output)
    total = Decimal(0)
    for moment in moments:
        total += model.calc_price(usage, seller, genai_request_timestamp=moment, price_context=context).total_price
    return float(total / len(moments))


def withdrawal_notes(services: pd.DataFrame, contracts: pd.DataFrame, workloads: pd.DataFrame, as_of: pd.Timestamp) -> list[str]:
    """Name the models that API-only workloads call and that their contracts say are withdrawn."""
    called = services[services["workload"].isin(workloads.loc[workloads["host"] == "api", "workload"])]
    table = called[["workload", "model"]].merge(contracts.dropna(subset=["withdrawn_on"]), on=["workload", "model"])
    return [
        ToDo(
            f"{row.workload} calls {row.model} of {row.provider}, which {'was' if row.withdrawn_on <= as_of else 'is to be'} withdrawn on "
            f"{row.withdrawn_on.date()}: name its successor in services.csv."
        )
        for row in table.itertuples()
    ]


def granted_per_minute(terms: Mapping[str, Any], service: Mapping[Hashable, Any] | None) -> float:
    """Return the requests of a service that a provider grants a minute; infinite where neither limit is stated.

    Args:
        terms: Row of api_contracts.
        service: Row of services, whose mean request a limit in tokens is divided by; None = only requests are limited.
    """
    limits = [terms.get("requests_per_minute")]
    if service is not None:
        limits.append(terms.get("tokens_per_minute", float("nan")) / float(service["input_tokens"] + service["output_tokens"]))
    return min((float(limit) for limit in limits if limit is not None and not pd.isna(limit)), default=float("inf"))


def rate_limit_notes(
    services: pd.DataFrame, contracts: pd.DataFrame, workloads: pd.DataFrame, usage: pd.DataFrame, expected: pd.DataFrame
) -> list[str]:
    r"""Name API-only workloads whose expected busiest hour has more calls than their provider grants, with the first such quarter.

    .. math:: \frac{E[Q_q] (1 - b)}{H_q} \cdot \frac{\max_h u_h}{\bar u} > 60\, r

    with Q the work of quarter q, H its hours, b the share in batches, u the usage of the latest four weeks by the hour, and r the requests
    a minute of the contracts (see `granted_per_minute`). Work that can wait is held against them on average: its u is even.

    Args:
        expected: workload, quarter, quantity (see `expected_work`).
    """
    served = {str(row["workload"]): row for row in records(services)}
    limits = pd.Series([granted_per_minute(row, served.get(row["workload"])) for row in records(contracts)], contracts.index, dtype=float)
    called = contracts.assign(limit=limits.where(limits < float("inf")))
    granted = called[called["kind"] == "payg"].groupby(["workload", "provider", "model"])["limit"].sum(min_count=1)
    only = workloads[workloads["host"] == "api"].set_index("workload")
    notes: list[str] = []
    for row in records(services[services["workload"].isin(only.index) & services["provider"].notna()]):
        most = MINUTES_PER_HOUR * float(granted.get((row["workload"], row["provider"], row["model"]), float("nan")))
        mine = usage[usage["workload"] == row["workload"]]
        recent = mine[mine["time"] > mine["time"].max() - LATELY]
        hours = recent.groupby(recent["time"].dt.floor("h"))["quantity"].sum()
        peak = 1.0 if only.at[row["workload"], "deferrable"] or hours.sum() <= 0 else float(hours.max() / hours.mean())
        work = expected[expected["workload"] == row["workload"]].sort_values("quarter")
        busiest = work["quantity"] * (1 - row["batch_share"]) / work["quarter"].map(quarter_hours) * peak
        above = work.assign(busiest=busiest)[busiest > most]
        if len(above):
            notes.append(
                ToDo(
                    f"{row['workload']} is expected to have {above['busiest'].iloc[0]:,.0f} requests in its busiest hour of"
                    f" {above['quarter'].iloc[0]}, and {row['provider']} grants {most:,.0f}: ask for more, or name a second way."
                )
            )
    return notes


def api_spend(services: pd.DataFrame, requests: pd.DataFrame) -> pd.DataFrame:
    """Say what each API-only workload spends a month.

    Args:
        services: Table services; rows with a provider.
        requests: workload, month, quantity (requests in the month).

    Returns:
        DataFrame: workload, provider, month, quantity, usd_per_request, usd.
    """
    table = requests.merge(services[services["provider"].notna()], on="workload", how="inner")
    known: dict[tuple[str, pd.Timestamp], float] = {}
    for row in records(table):
        key = (str(row["workload"]), row["month"])
        if key not in known:
            middle = row["month"] + pd.Timedelta(days=14)
            known[key] = service_usd(row, middle)
    table["usd_per_request"] = [known[(row["workload"], row["month"])] for row in records(table)]
    table["usd"] = table["quantity"] * table["usd_per_request"]
    return table[["workload", "provider", "month", "quantity", "usd_per_request", "usd"]].sort_values(
        ["month", "workload"], ignore_index=True
    )
