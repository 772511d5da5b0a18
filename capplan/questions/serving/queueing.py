"""Waiting: how long requests wait for one of many servers, and how many servers keep the wait short."""

from __future__ import annotations

import math

import numpy as np

from capplan.errors import CapplanError


def erlang_b(load: float, servers: int) -> float:
    r"""Say which share of arrivals finds all servers busy, if nobody waits.

    .. math:: 1/B_0 = 1, \qquad 1/B_n = 1 + \frac{n}{a}\,\frac{1}{B_{n-1}}

    Parameters
    ----------
    load : a
        Offered load in erlangs: arrivals a second times seconds of service.
    servers : n
        Servers.

    Raises
    ------
    CapplanError
        If the load is negative or there is a negative number of servers.

    Source
    ------
    A. K. Erlang, 1917; the recursion is the standard stable one.

    Examples
    --------
    >>> round(erlang_b(10, 14), 9)
    0.056819143
    """
    _check(load, servers)
    if load == 0:
        return 1.0 if servers == 0 else 0.0
    inverse = 1.0
    for count in range(1, servers + 1):
        inverse = 1.0 + inverse * count / load
        if math.isinf(inverse):
            return 0.0
    return 1.0 / inverse


def erlang_c(load: float, servers: int) -> float:
    r"""Say which share of arrivals has to wait (M/M/c).

    .. math:: C = \frac{c\,B}{c - a(1-B)}

    Parameters
    ----------
    load : a
        Offered load, erlangs.
    servers : c
        Servers; with no more servers than load the queue grows for ever, and everybody waits.

    Raises
    ------
    CapplanError
        If the load is negative or there is a negative number of servers.

    Source
    ------
    A. K. Erlang, 1917.

    Examples
    --------
    >>> round(erlang_c(2, 3), 12)
    0.444444444444
    """
    blocked = erlang_b(load, servers)
    if servers <= load:
        return 0.0 if load == 0 else 1.0
    return servers * blocked / (servers - load * (1.0 - blocked))


def peakedness(arrival_cv2: float, service_cv2: float) -> float:
    r"""Say how much more the number of busy servers varies than under Poisson arrivals (1 = as much).

    .. math:: z = 1 + (c_a^2 - 1)\,\kappa, \qquad \kappa = \frac{1}{s} \int_0^\infty (1 - G(t))^2\,dt

    For gamma service times of shape k = 1 / c_s^2 the integral is 1 - \Gamma(k+1/2) / (\sqrt{\pi}\,k\,\Gamma(k)): a half for exponential
    ones, 1 for constant ones.

    Source
    ------
    A. E. Eckberg, Generalized peakedness of teletraffic processes, 10th International Teletraffic Congress (1983).

    Examples
    --------
    >>> peakedness(3.0, 1.0), peakedness(3.0, 0.0), peakedness(1.0, 0.4)
    (2.0, 3.0, 1.0)
    """
    spread_factor(arrival_cv2, service_cv2)
    if arrival_cv2 == 1:
        return 1.0
    if service_cv2 == 0:
        return arrival_cv2
    shape = 1 / service_cv2
    overlap = 1 - math.exp(math.lgamma(shape + 0.5) - math.lgamma(shape + 1)) / math.sqrt(math.pi)
    return round(1 + (arrival_cv2 - 1) * overlap, 12)


def waiting_share(load: float, servers: int, arrival_cv2: float = 1.0, service_cv2: float = 1.0) -> float:
    r"""Say which share of arrivals has to wait when arrivals come in bursts.

    .. math:: P(W > 0) \approx C(c/z,\; a/z)

    Erlang's C with servers and load divided by the peakedness z, continued to real numbers of servers. Exact for Poisson arrivals and
    exponential service; without it, a fleet of many servers looks far calmer under bursts than it is.

    Source
    ------
    A. A. Fredericks, Congestion in blocking systems - a simple approximation technique, Bell System Technical Journal 59 (1980): the
    equivalent system of Hayward.

    Examples
    --------
    >>> round(waiting_share(45, 50, 2.0, 0.8), 3), round(erlang_c(45, 50), 3)
    (0.456, 0.364)
    """
    _check(load, servers)
    peak = peakedness(arrival_cv2, service_cv2)
    if peak == 1 or load == 0 or servers <= load:
        return erlang_c(load, servers)
    if peak <= 0:
        return 0.0
    from scipy.special import gammaincc

    count, work = servers / peak, load / peak
    blocked = math.exp(count * math.log(work) - work - math.lgamma(count + 1)) / float(gammaincc(count + 1, work))
    return count * blocked / (count - work * (1 - blocked))


def mean_wait(load: float, servers: int, service_seconds: float, arrival_cv2: float = 1.0, service_cv2: float = 1.0) -> float:
    r"""Say how long a request waits on average (M/M/c, corrected for burstiness).

    .. math:: W_q = C\,\frac{s}{c-a}\,\frac{c_a^2 + c_s^2}{2}

    Parameters
    ----------
    load : a
        Offered load, erlangs.
    servers : c
        Servers.
    service_seconds : s
        Mean time of service.
    arrival_cv2, service_cv2 : c_a^2, c_s^2
        Squared coefficients of variation of the times between arrivals and of service; 1 and 1 is M/M/c, and the formula is exact there.

    Returns
    -------
    float
        Seconds; infinite where the load reaches the servers.

    Source
    ------
    A. O. Allen, Probability, Statistics, and Queueing Theory (1990): the Allen-Cunneen approximation. Exact for M/M/c and M/G/1.

    Examples
    --------
    >>> round(mean_wait(4, 5, 1.0, 1.0, 0.25), 9)
    0.346320346
    """
    if load == 0:
        return 0.0
    if servers <= load:
        return math.inf
    return erlang_c(load, servers) * service_seconds / (servers - load) * spread_factor(arrival_cv2, service_cv2)


def wait_above(
    seconds: float, load: float, servers: int, service_seconds: float, arrival_cv2: float = 1.0, service_cv2: float = 1.0
) -> float:
    r"""Say which share of requests waits longer than a given time.

    .. math:: P(W > t) = C \exp\left(-\frac{(c-a)\,t}{s\,(c_a^2+c_s^2)/2}\right)

    Exact for M/M/c; otherwise C is `waiting_share`, and those that wait do so as Allen and Cunneen stretch it.

    Examples
    --------
    >>> round(1 - wait_above(20, 10, 14, 180), 9)
    0.888350019
    """
    if load == 0:
        return 0.0
    if servers <= load:
        return 1.0
    burst = spread_factor(arrival_cv2, service_cv2)
    if burst == 0:
        return 0.0
    return waiting_share(load, servers, arrival_cv2, service_cv2) * math.exp(-(servers - load) * seconds / (service_seconds * burst))


def wait_quantile(
    share: float, load: float, servers: int, service_seconds: float, arrival_cv2: float = 1.0, service_cv2: float = 1.0
) -> float:
    """Say how long all but the slowest requests wait (the quantile of the wait at `share`, seconds)."""
    if not 0 <= share < 1:
        raise CapplanError(f"a quantile of the wait was asked at {share:g}; it lies between 0 and 1, so 95 % is 0.95")
    if load == 0:
        return 0.0
    if servers <= load:
        return math.inf
    waiting = waiting_share(load, servers, arrival_cv2, service_cv2)
    if waiting <= 1 - share:
        return 0.0
    return service_seconds * spread_factor(arrival_cv2, service_cv2) / (servers - load) * math.log(waiting / (1 - share))


def servers_for(
    load: float,
    service_seconds: float,
    allowed_seconds: float,
    share: float,
    *,
    arrival_cv2: float = 1.0,
    service_cv2: float = 1.0,
    highest_utilisation: float = 1.0,
    step: int = 1,
) -> int:
    """Say how many servers keep the wait of a share of requests within what is allowed.

    Parameters
    ----------
    load
        Offered load, erlangs.
    service_seconds
        Mean time of service.
    allowed_seconds
        Longest wait that is allowed.
    share
        Share of requests that must wait no longer, 0 to 1.
    arrival_cv2, service_cv2
        Squared coefficients of variation of arrivals and service.
    highest_utilisation
        Servers are added until no more than this share of them is busy on average.
    step
        Servers come in packs of this size (slots of one replica).

    Returns
    -------
    int
        The fewest servers, a multiple of `step`; 0 without load.

    Raises
    ------
    CapplanError
        If the load is negative, a share is no share, or the wait allowed is negative.

    Examples
    --------
    >>> servers_for(10, 180, 20, 0.8, highest_utilisation=0.85)
    14
    """
    _check(load, 0)
    check_target(allowed_seconds, share, highest_utilisation)
    if load == 0:
        return 0

    def enough(packs: int) -> bool:
        servers = packs * step
        if servers <= load or load / servers > highest_utilisation * (1 + 1e-12):
            return False
        return wait_quantile(share, load, servers, service_seconds, arrival_cv2, service_cv2) <= allowed_seconds

    low = max(1, math.floor(load / step))
    high = low
    while not enough(high):
        high = 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high * step


def burstiness(gaps_seconds: np.ndarray) -> float:
    """Say how bursty arrivals are: the squared coefficient of variation of the times between them (1 = Poisson)."""
    gaps = np.asarray(gaps_seconds, dtype=float)
    if len(gaps) < 2 or gaps.mean() <= 0:
        raise CapplanError("burstiness needs at least two times between arrivals, and a mean above 0")
    return float(gaps.var() / gaps.mean() ** 2)


def spread_factor(arrival_cv2: float, service_cv2: float) -> float:
    """Average the two squared coefficients of variation."""
    if arrival_cv2 < 0 or service_cv2 < 0:
        raise CapplanError(f"squared coefficients of variation are {arrival_cv2:g} and {service_cv2:g}; neither can lie below 0")
    return (arrival_cv2 + service_cv2) / 2


def _check(load: float, servers: int) -> None:
    """Refuse what is no load or no number of servers."""
    if not load >= 0 or math.isinf(load) or servers < 0:
        raise CapplanError(f"a load of {load:g} erlangs on {servers} servers makes no sense; both must be numbers from 0 on")


def check_target(allowed_seconds: float, share: float, highest_utilisation: float) -> None:
    """Refuse a target that cannot be one."""
    if not 0 < highest_utilisation <= 1:
        raise CapplanError(f"highest utilisation is {highest_utilisation:g}; it must lie above 0 and at most at 1, so 85 % is 0.85")
    if not 0 <= share < 1:
        raise CapplanError(f"the share of requests within the target is {share:g}; it lies between 0 and 1, so 95 % is 0.95")
    if allowed_seconds < 0:
        raise CapplanError(f"the wait allowed is {allowed_seconds:g} s; nothing is left of the latency target for waiting")
