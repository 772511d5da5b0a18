"""Staffing: which operating points keep the latency targets, how many replicas each hour needs, and the point that costs least."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving.queueing import Target, peakedness, spread_factor
from capplan.questions.serving.service_traffic import SECONDS_PER_HOUR
from capplan.records import records


def request_seconds(first_token_seconds: float, token_seconds: float, output_tokens: float) -> float:
    r"""Say how long a request holds its slot.

    .. math:: s = \mathrm{TTFT} + \mathrm{TPOT}\,(n_\text{out} - 1)

    Examples:
        >>> round(request_seconds(0.275926, 0.15496, 290.32), 2)
        45.11
    """
    return first_token_seconds + token_seconds * max(0.0, output_tokens - 1)


def feasible_points(points: pd.DataFrame, output_tokens: float, first_token_seconds: float, token_seconds: float) -> pd.DataFrame:
    """Return the operating points that keep both latency targets, with held_seconds and requests_per_accelerator_hour (all slots taken).

    Args:
        points: accelerator, accelerators (of one replica), concurrency (requests in one replica), first_token_seconds, token_seconds, basis
            (measured, calibrated, modelled); where there are first_token_seconds_high and token_seconds_high (at the share of requests that
            must meet the target), those are held against it.
        output_tokens: Mean output tokens of a request.
        first_token_seconds, token_seconds: Targets for the time to first token and per output token.

    Raises:
        CapplanError: If no point meets the targets, saying which part of the budget breaks and how near it can be brought.
    """
    starts, tokens = (points.get(f"{name}_high", points[name]) for name in ("first_token_seconds", "token_seconds"))
    quick_start, quick_token = starts < first_token_seconds, tokens <= token_seconds
    part = points[quick_start & quick_token].copy()
    if part.empty:
        parts = []
        if not quick_start.any():
            parts.append(
                f"time to first token: {starts.min():.3g} s at best, and more than nothing must be left for waiting, target"
                f" {first_token_seconds:g} s"
            )
        if not quick_token.any():
            parts.append(f"time per output token: {tokens.min():.3g} s at best, target {token_seconds:g} s")
        why = "; ".join(parts) or "each target is met by some point, but no point meets both"
        raise CapplanError(
            f"no listed machine meets the latency target ({why}). Relax this target, or add a faster machine or a smaller model"
        )
    part["held_seconds"] = [request_seconds(row.first_token_seconds, row.token_seconds, output_tokens) for row in part.itertuples()]
    part["requests_per_accelerator_hour"] = SECONDS_PER_HOUR * part["concurrency"] / part["held_seconds"] / part["accelerators"]
    return part


def cheapest_point(
    points: pd.DataFrame,
    traffics: Sequence[np.ndarray],
    first_token_seconds: float,
    a: ServingAssumptions,
    work_shares: np.ndarray | None = None,
) -> tuple[int, float]:
    r"""Choose the operating point whose fleets cost least over all hours of all traffics.

    The best point of a full fleet can be a poor one for a small one, whose replicas are whole. A bound from the headroom alone,

    .. math:: \sum_h g\,\left(\left\lceil \frac{\lambda_h\,p\,s}{c\,(1-\eta)} \right\rceil + n_s\right) \pi,

    leaves most points unsized.

    Args:
        points: From `feasible_points`: concurrency c, accelerators g, held_seconds s, and usd_per_accelerator_hour \pi (1 where there is no
            such column; points without a price come last).
        traffics: Requests of each hour, one array a fleet.
        work_shares: Accelerator time of a request over that at each point (levers); 1 where not given.

    Returns:
        tuple: Position of the point, and the bill of its fleets in USD.
    """
    shares = np.ones(len(points)) if work_shares is None else work_shares
    prices = points["usd_per_accelerator_hour"].to_numpy(dtype=float) if "usd_per_accelerator_hour" in points else np.ones(len(points))
    bounds, ranks = np.empty(len(points)), -points["requests_per_accelerator_hour"].to_numpy(dtype=float)
    rows = list(records(points))
    for place, row in enumerate(rows):
        slots = row["concurrency"] * (1 - a.headroom_share)
        per_request = a.within_hour_peak_factor / SECONDS_PER_HOUR * row["held_seconds"] * shares[place]
        packs = sum(float((np.ceil(one * per_request / slots * (1 - 1e-9)) + a.spare_replicas * (one > 0)).sum()) for one in traffics)
        bounds[place] = packs * row["accelerators"] * prices[place]
    best, least = -1, np.inf
    for place in np.lexsort((ranks, np.nan_to_num(bounds, nan=np.inf))):
        if best >= 0 and not bounds[place] < least:
            break
        row = rows[place]
        allowed = first_token_seconds - row.get("first_token_seconds_high", row["first_token_seconds"])
        needed = (replicas_for(one, int(row["concurrency"]), row["held_seconds"] * shares[place], allowed, a) for one in traffics)
        bill = sum(float(replicas.sum()) for replicas in needed) * row["accelerators"] * prices[place]
        if best < 0 or bill < least:
            best, least = int(place), bill
    return best, least


def held_seconds(point: pd.Series, output_tokens: float) -> float:
    """Say how long a request holds its slot at an operating point."""
    return request_seconds(float(point["first_token_seconds"]), float(point["token_seconds"]), output_tokens)


def held_error_share(point: pd.Series, output_tokens: float) -> float:
    r"""Say by which share a request may hold its slot longer than stated, if prefill and decode lie at the upper ends of their bands.

    .. math:: e = \frac{\mathrm{TTFT}\,e_1 + (n_\text{out}-1)\,\mathrm{TPOT}\,e_2}{\mathrm{TTFT} + (n_\text{out}-1)\,\mathrm{TPOT}}
    """
    first, whole = float(point["first_token_seconds"]), held_seconds(point, output_tokens)
    errors = (float(point.get(name, 0.0)) for name in ("first_token_error_share", "token_error_share"))
    return sum(part * error for part, error in zip((first, whole - first), errors, strict=True)) / whole


def allowed_wait(point: pd.Series, first_token_seconds: float) -> float:
    """Say how long a request may wait for a slot and still have its first token in time.

    Raises:
        CapplanError: If the operating point alone takes longer than the target.
    """
    taken = float(point.get("first_token_seconds_high", point["first_token_seconds"]))
    left = first_token_seconds - taken
    if left <= 0:
        raise CapplanError(
            f"prefill breaks the latency budget: it takes {taken:.3g} s on {point['accelerator']}, and the first token must be there "
            f"after {first_token_seconds:.3g} s. Relax the target, or take a faster machine, a smaller model or fewer input tokens"
        )
    return left


def replicas_for(requests: np.ndarray, slots: int, held_seconds: float, allowed_seconds: float, a: ServingAssumptions) -> np.ndarray:
    r"""Say how many replicas each hour needs, spare ones included; none in an hour without requests.

    Under the square-root rule the slots are, with burstiness,

    .. math:: c = a + \beta \sqrt{a\,(c_a^2 + c_s^2)/2}

    Args:
        slots: Requests one replica serves at once.
        held_seconds, allowed_seconds: How long a request holds its slot, and how long it may wait for one.
        a: Assumptions: rule, peak within the hour, share within the target, burstiness, headroom, spare replicas.
    """
    loads = requests * a.within_hour_peak_factor / SECONDS_PER_HOUR * held_seconds
    if a.staffing_rule == "square_root":
        spread = np.sqrt(loads * (a.arrival_cv2 + a.service_cv2) / 2)
        wanted = np.maximum(loads + a.square_root_beta * spread, loads / (1 - a.headroom_share))
        packs = np.ceil(wanted / slots * (1 - 1e-12))
        return np.where(requests > 0, packs + a.spare_replicas, 0).astype(np.int64)
    needed = fewest_servers(
        loads,
        held_seconds,
        Target(allowed_seconds, a.target_share, 1 - a.headroom_share),
        arrival_cv2=a.arrival_cv2,
        service_cv2=a.service_cv2,
        step=slots,
    )
    return np.where(requests > 0, needed // slots + a.spare_replicas, 0)


def fewest_servers(
    loads: np.ndarray, service_seconds: float, target: Target, *, arrival_cv2: float = 1.0, service_cv2: float = 1.0, step: int = 1
) -> np.ndarray:
    """Say how many servers keep the wait of a share of requests within what is allowed, for all hours of a traffic at once.

    The blocking probability is that of the Poisson distribution, ``B = P(N = c) / P(N <= c)``, continued to real c.

    Args:
        loads: Offered loads, erlangs.
        arrival_cv2, service_cv2: Squared coefficients of variation of arrivals and service.
        step: Servers come in packs of this size (slots of one replica).

    Returns:
        ndarray of int: The fewest servers for each load, multiples of `step`; 0 without load.

    Raises:
        CapplanError: If a load is negative.

    Examples:
        >>> fewest_servers(np.array([0.0, 10.0]), 180, Target(20, 0.8, 0.85)).tolist()
        [0, 14]
    """
    loads = np.asarray(loads, dtype=float)
    for load in loads[~((loads >= 0) & np.isfinite(loads))]:
        raise CapplanError(f"a load of {load:g} erlangs makes no sense; it must be a number from 0 on")

    def enough(packs: np.ndarray) -> np.ndarray:
        servers = packs * float(step)
        late = late_shares(loads, servers, service_seconds, target.allowed_seconds, arrival_cv2, service_cv2)
        return (servers > loads) & (loads <= servers * target.highest_utilisation * (1 + 1e-12)) & (late <= 1 - target.share)

    low = np.maximum(1, np.floor(loads / step))
    high = low.copy()
    while True:
        short = ~enough(high)
        if not short.any():
            break
        high = np.where(short, 2 * high, high)
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        fits = enough(middle)
        low, high = np.where(fits, low, np.minimum(middle + 1, high)), np.where(fits, middle, high)
    return np.where(loads > 0, high * step, 0).astype(np.int64)


def late_shares(
    loads: np.ndarray,
    servers: np.ndarray,
    service_seconds: float,
    allowed_seconds: float,
    arrival_cv2: float = 1.0,
    service_cv2: float = 1.0,
) -> np.ndarray:
    r"""Say which share of requests waits longer than is allowed, for many loads and numbers of servers at once.

    .. math:: P(W > t) = C \exp\left(-\frac{(c-a)\,t}{s\,(c_a^2+c_s^2)/2}\right)

    Exact for M/M/c; otherwise C is `waiting_share`, and those that wait do so as Allen and Cunneen stretch it.

    Source: A. O. Allen, Probability, Statistics, and Queueing Theory (1990): the Allen-Cunneen approximation.

    Examples:
        >>> round(1 - float(late_shares(np.array([10.0]), np.array([14.0]), 180, 20)[0]), 9)
        0.888350019
    """
    from scipy.special import gammaincc, gammaln

    burst, peak = spread_factor(arrival_cv2, service_cv2), peakedness(arrival_cv2, service_cv2)
    if burst <= 0 or peak <= 0:
        return np.where((loads <= 0) | (servers > loads), 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        count, work = servers / peak, loads / peak
        blocked = np.exp(count * np.log(work) - work - gammaln(count + 1)) / gammaincc(count + 1, work)
        waiting = count * blocked / (count - work * (1 - blocked))
        late = waiting * np.exp(-(servers - loads) * allowed_seconds / (service_seconds * burst))
    return np.where(loads <= 0, 0.0, np.where(servers > loads, late, 1.0))
