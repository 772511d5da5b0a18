"""Fleet sizing: an operating point within the latency target, and whole replicas for each hour of traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.serving.queueing import servers_for, wait_quantile

SECONDS_PER_HOUR = 3600.0
SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True)
class Fleet:
    """Replicas that serve a traffic within its latency target.

    Parameters
    ----------
    point
        The operating point: accelerator, accelerators (of one replica), concurrency, first_token_seconds, token_seconds, basis.
    hours
        hour, requests, replicas, accelerators, busy_share, wait_seconds (at the target's share); one row an hour, as given.
    peak_accelerators
        Accelerators of the hour that needs most.
    elastic_accelerator_hours, fixed_accelerator_hours
        Accelerator-hours if the fleet follows the traffic hour by hour, and if it stays at its peak.
    headline
        One sentence with the number that decides.
    """

    point: pd.Series
    hours: pd.DataFrame
    peak_accelerators: int
    elastic_accelerator_hours: float
    fixed_accelerator_hours: float
    headline: str


def request_seconds(first_token_seconds: float, token_seconds: float, output_tokens: float) -> float:
    r"""Say how long a request holds its slot.

    .. math:: s = \mathrm{TTFT} + \mathrm{TPOT}\,(n_\text{out} - 1)

    Examples
    --------
    >>> round(request_seconds(0.275926, 0.15496, 290.32), 2)
    45.11
    """
    return first_token_seconds + token_seconds * max(0.0, output_tokens - 1)


def choose_point(points: pd.DataFrame, output_tokens: float, first_token_seconds: float, token_seconds: float) -> pd.Series:
    """Choose the operating point that serves most requests an accelerator-hour within both latency targets.

    Parameters
    ----------
    points
        accelerator, accelerators (of one replica), concurrency (requests in one replica), first_token_seconds, token_seconds,
        basis (measured, calibrated, modelled).
    output_tokens
        Mean output tokens of a request.
    first_token_seconds, token_seconds
        Targets for the time to first token and per output token.

    Returns
    -------
    Series
        The row of `points`, with requests_per_accelerator_hour.

    Raises
    ------
    CapplanError
        If no point meets the targets, saying which part of the budget breaks and how near it can be brought.
    """
    quick_start, quick_token = points["first_token_seconds"] < first_token_seconds, points["token_seconds"] <= token_seconds
    part = points[quick_start & quick_token].copy()
    if part.empty:
        parts = []
        if not quick_start.any():
            parts.append(
                f"time to first token: {points['first_token_seconds'].min():.3g} s at best, and more than nothing must be left for waiting, target {first_token_seconds:g} s"
            )
        if not quick_token.any():
            parts.append(f"time per output token: {points['token_seconds'].min():.3g} s at best, target {token_seconds:g} s")
        why = "; ".join(parts) or "each target is met by some point, but no point meets both"
        raise CapplanError(
            f"no listed machine meets the latency target ({why}). Relax this target, or add a faster machine or a smaller model"
        )
    held = [request_seconds(row.first_token_seconds, row.token_seconds, output_tokens) for row in part.itertuples()]
    part["requests_per_accelerator_hour"] = SECONDS_PER_HOUR * part["concurrency"] / np.array(held) / part["accelerators"]
    return part.sort_values(["requests_per_accelerator_hour", "accelerators"], ascending=[False, True]).iloc[0]


def size_fleet(
    traffic: pd.DataFrame,
    point: pd.Series,
    output_tokens: float,
    first_token_seconds: float,
    *,
    share: float = 0.95,
    arrival_cv2: float = 1.0,
    service_cv2: float = 1.0,
    headroom_share: float = 0.15,
    spare_replicas: int = 1,
) -> Fleet:
    """Say how many whole replicas serve each hour of a traffic within the target for the first token.

    Every request in progress holds one slot of a replica; requests that find all slots taken wait, and the wait is part of the time to
    first token.

    Parameters
    ----------
    traffic
        hour (any label), requests (in the hour).
    point
        Operating point from `choose_point`.
    output_tokens
        Mean output tokens of a request.
    first_token_seconds
        Target for the time to first token; what the operating point leaves of it may be waited.
    share
        Share of requests that must meet it.
    arrival_cv2, service_cv2
        Squared coefficients of variation of the times between arrivals, and of the time in a slot.
    headroom_share
        Share of the slots that stays free on average.
    spare_replicas
        Replicas beyond the need of an hour that has traffic (1 = N+1).

    Returns
    -------
    Fleet

    Raises
    ------
    CapplanError
        If traffic is negative, or a share is given in percent.
    """
    if not 0 <= headroom_share < 1:
        raise CapplanError(f"headroom_share is {headroom_share:g}; it is a share from 0 to 1, so 15 % is 0.15")
    if traffic.empty or not (traffic["requests"] >= 0).all():
        raise CapplanError("the traffic must have at least one hour, and requests from 0 on in every hour")
    slots, width = int(point["concurrency"]), int(point["accelerators"])
    held = request_seconds(point["first_token_seconds"], point["token_seconds"], output_tokens)
    allowed = first_token_seconds - float(point["first_token_seconds"])
    rows = []
    for hour, requests in zip(traffic["hour"], traffic["requests"], strict=True):
        load = requests / SECONDS_PER_HOUR * held
        need = servers_for(
            load,
            held,
            allowed,
            share,
            arrival_cv2=arrival_cv2,
            service_cv2=service_cv2,
            highest_utilisation=1 - headroom_share,
            step=slots,
        )
        replicas = need // slots + (spare_replicas if need else 0)
        rows.append(
            {
                "hour": hour,
                "requests": float(requests),
                "replicas": replicas,
                "accelerators": replicas * width,
                "busy_share": load / (replicas * slots) if replicas else 0.0,
                "wait_seconds": wait_quantile(share, load, replicas * slots, held, arrival_cv2, service_cv2),
            }
        )
    hours = pd.DataFrame(rows)
    peak, elastic = int(hours["accelerators"].max()), float(hours["accelerators"].sum())
    fixed = float(peak * len(hours))
    saved = 1 - elastic / fixed if fixed else 0.0
    headline = (
        f"The peak hour needs {peak} {point['accelerator']} ({peak // width} replicas of {width}, {point['basis']}); "
        f"following the traffic hour by hour would save {saved:.0%} of the accelerator-hours."
        if peak
        else "Without traffic no replica is needed."
    )
    return Fleet(point, hours, peak, elastic, fixed, headline)


def token_nodes(
    input_tokens_per_day: float, output_tokens_per_day: float, input_tokens_per_second: float, output_tokens_per_second: float
) -> float:
    r"""Say how many nodes prefill and decode need together on average, where each has its own.

    .. math:: N = \frac{n_\text{in}}{86400\,x_\text{in}} + \frac{n_\text{out}}{86400\,x_\text{out}}

    Parameters
    ----------
    input_tokens_per_day, output_tokens_per_day
        Tokens of a day.
    input_tokens_per_second, output_tokens_per_second
        Throughput of one node for prefill and for decode.

    Examples
    --------
    >>> round(token_nodes(608e9, 168e9, 73.7e3, 14.8e3), 2)
    226.86
    """
    return (
        input_tokens_per_day / SECONDS_PER_DAY / input_tokens_per_second
        + output_tokens_per_day / SECONDS_PER_DAY / output_tokens_per_second
    )


def unit_costs(
    accelerator_hours: float, usd_per_accelerator_hour: float, other_usd: float, requests: float, tokens: float
) -> dict[str, float]:
    """Say what serving costs in all, a thousand requests and a million tokens, fully loaded.

    Parameters
    ----------
    accelerator_hours, usd_per_accelerator_hour
        Hours paid, used or not, and their price.
    other_usd
        People, redundancy, egress, evaluation: what else the service costs in the same time.
    requests, tokens
        What was served; without any, the unit costs are infinite.
    """
    usd = accelerator_hours * usd_per_accelerator_hour + other_usd
    return {
        "usd": usd,
        "usd_per_thousand_requests": 1e3 * usd / requests if requests else np.inf,
        "usd_per_million_tokens": 1e6 * usd / tokens if tokens else np.inf,
    }
