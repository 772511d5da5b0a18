"""Fleet sizing: an operating point within the latency target, and whole replicas for each hour of traffic."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving.operating_points import operating_points, service_of, targets_of, within_limit
from capplan.questions.serving.service_traffic import SECONDS_PER_HOUR, checked_traffic
from capplan.questions.serving.staffing import (
    allowed_wait,
    cheapest_point,
    feasible_points,
    held_error_share,
    held_seconds,
    late_shares,
    replicas_for,
)

SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True)
class Fleet:
    """Replicas that serve a traffic within its latency target.

    Args:
        point: The operating point: accelerator, accelerators (of one replica), concurrency, first_token_seconds, token_seconds, basis.
        hours: hour, requests, replicas, accelerators, slo_share (of requests within the target in the busiest minutes of the hour), basis,
            accelerator, busy_share (mean of the hour), replicas_upper (if latency lies at the upper end of its band); one row an hour, as
            given.
        peak_accelerators: Accelerators of the hour that needs most.
        elastic_accelerator_hours, fixed_accelerator_hours: Accelerator-hours if the fleet follows the traffic hour by hour, and if it stays
            at its peak.
        first_token_seconds: Target for the first token that it was sized for.
        headline: One sentence with the number that decides.
    """

    point: pd.Series
    hours: pd.DataFrame
    peak_accelerators: int
    elastic_accelerator_hours: float
    fixed_accelerator_hours: float
    first_token_seconds: float
    headline: str


def staff_fleet(traffic: pd.DataFrame, point: pd.Series, output_tokens: float, first_token_seconds: float, a: ServingAssumptions) -> Fleet:
    r"""Say how many whole replicas serve each hour of a traffic within the target for the first token.

    Every request in progress holds one slot of a replica; requests that find all slots taken wait, and the wait is part of the time to
    first token. The fewest replicas r are taken with

    .. math:: P(W > d) \le 1 - s, \qquad \lambda\,p\,h \le (1-\eta)\,r\,c

    Args:
        traffic (\lambda): hour (any label), requests (in the hour).
        point (c): Operating point, a row of `feasible_points`; c is its concurrency, h the time a request holds a slot.
        output_tokens: Mean output tokens of a request.
        first_token_seconds: Target for the time to first token; d is what the operating point leaves of it.
        a (s, p, \eta): Share of requests within the target, peak within an hour, headroom; also burstiness and spare replicas (N+1), which
            come on top in every hour that has traffic.

    Raises:
        CapplanError: If traffic is negative or missing, or the operating point leaves no time to wait.
    """
    table = checked_traffic(traffic)
    slots, width = int(point["concurrency"]), int(point["accelerators"])
    held, allowed = held_seconds(point, output_tokens), allowed_wait(point, first_token_seconds)
    requests = table["requests"].to_numpy(dtype=float)
    replicas = replicas_for(requests, slots, held, allowed, a)
    loads = requests / SECONDS_PER_HOUR * held
    late = late_shares(loads * a.within_hour_peak_factor, replicas * float(slots), held, allowed, a.arrival_cv2, a.service_cv2)
    hours = table.assign(
        replicas=replicas.astype(int),
        accelerators=replicas.astype(int) * width,
        slo_share=1 - late,
        basis=str(point["basis"]),
        accelerator=str(point["accelerator"]),
        busy_share=np.divide(loads, replicas * slots, out=np.zeros_like(loads), where=replicas > 0),
        replicas_upper=replicas_for(requests, slots, held * (1 + held_error_share(point, output_tokens)), allowed, a).astype(int),
    )
    peak, elastic = int(hours["accelerators"].max()), float(hours["accelerators"].sum())
    fixed = float(peak * len(hours))
    saved = 1 - elastic / fixed if fixed else 0.0
    headline = (
        f"The peak hour needs {peak} {point['accelerator']} ({peak // width} replicas of {width}, {point['basis']}); "
        f"following the traffic hour by hour would save {saved:.0%} of the accelerator-hours."
        if peak
        else "Without traffic no replica is needed."
    )
    return Fleet(point, hours, peak, elastic, fixed, first_token_seconds, headline)


def size_fleet(
    service: pd.Series | pd.DataFrame,
    traffic: pd.DataFrame,
    serving_runs: pd.DataFrame,
    a: ServingAssumptions,
    *,
    facts: Mapping[str, pd.DataFrame] | None = None,
    names: list[str] | None = None,
    outside_seconds: float = 0.0,
) -> pd.DataFrame:
    """Say how many accelerators serve this traffic within its latency target, hour by hour.

    Of the operating points that keep the targets of the service, the one whose fleet has fewest accelerators over all hours is taken;
    replicas are sized by `staff_fleet`.

    Args:
        service: A row of services: model, tokens of a request, latency targets.
        traffic: hour and requests, or rows of usage of this workload.
        facts: Tables models and accelerators; the reference facts where none are given.
        names: As in `operating_points`.
        outside_seconds: What network, retrieval, guardrails and the like take of the target for the first token.

    Returns:
        DataFrame: hour, requests, replicas, accelerators, slo_share (requests within the target in the busiest minutes), basis (measured,
            calibrated or modelled), accelerator, busy_share, replicas_upper (if latency lies at the upper end of its band).

    Raises:
        CapplanError: If the model is unknown or fits no machine, no machine meets the target (saying which part of the budget breaks), or
            traffic is missing or negative.
    """
    row, facts = service_of(service), facts or {}
    points = operating_points(row, serving_runs, a, models=facts.get("models"), accelerators=facts.get("accelerators"), names=names)
    first, token = targets_of(row, a)
    if outside_seconds >= first:
        raise CapplanError(
            f"{row['workload']}: network, retrieval and the like take {outside_seconds:.3g} s, and the first token must be there after"
            f" {first:.3g} s; no hardware meets that. Shorten what lies outside the model, or relax the target"
        )
    part = feasible_points(within_limit(points, row), float(row["output_tokens"]), first - outside_seconds, token)
    requests = checked_traffic(traffic)["requests"].to_numpy(dtype=float)
    place, _ = cheapest_point(part, [requests], first - outside_seconds, a)
    return staff_fleet(traffic, part.iloc[place], float(row["output_tokens"]), first - outside_seconds, a).hours


def unit_costs(
    accelerator_hours: float, usd_per_accelerator_hour: float, other_usd: float, requests: float, tokens: float
) -> dict[str, float]:
    """Say what serving costs in all, a thousand requests and a million tokens, fully loaded.

    Args:
        accelerator_hours, usd_per_accelerator_hour: Hours paid, used or not, and their price.
        other_usd: People, redundancy, egress, evaluation: what else the service costs in the same time.
        requests, tokens: What was served; without any, the unit costs are infinite.
    """
    usd = accelerator_hours * usd_per_accelerator_hour + other_usd
    return {
        "usd": usd,
        "usd_per_thousand_requests": 1e3 * usd / requests if requests else np.inf,
        "usd_per_million_tokens": 1e6 * usd / tokens if tokens else np.inf,
    }
