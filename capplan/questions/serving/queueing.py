"""Waiting: how long requests wait for one of many servers, and how many servers keep the wait short."""

import math
from dataclasses import dataclass

from capplan.errors import CapplanError


def erlang_b(load: float, servers: int) -> float:
    r"""Say which share of arrivals finds all servers busy, if nobody waits.

    .. math:: 1/B_0 = 1, \qquad 1/B_n = 1 + \frac{n}{a}\,\frac{1}{B_{n-1}}

    Args:
        load (a): Offered load in erlangs: arrivals a second times seconds of service.
        servers (n): Servers.

    Raises:
        CapplanError: If the load is negative or there is a negative number of servers.

    Source: A. K. Erlang, 1917; the recursion is the standard stable one.

    Examples:
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

    Args:
        load (a): Offered load, erlangs.
        servers (c): Servers; with no more servers than load the queue grows for ever, and everybody waits.

    Raises:
        CapplanError: If the load is negative or there is a negative number of servers.

    Source: A. K. Erlang, 1917.

    Examples:
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

    Source: A. E. Eckberg, Generalized peakedness of teletraffic processes, 10th International Teletraffic Congress (1983).

    Examples:
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

    Source: A. A. Fredericks, Congestion in blocking systems - a simple approximation technique, Bell System Technical Journal 59 (1980):
        the equivalent system of Hayward.

    Examples:
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


def spread_factor(arrival_cv2: float, service_cv2: float) -> float:
    """Average the two squared coefficients of variation."""
    if arrival_cv2 < 0 or service_cv2 < 0:
        raise CapplanError(f"squared coefficients of variation are {arrival_cv2:g} and {service_cv2:g}; neither can lie below 0")
    return (arrival_cv2 + service_cv2) / 2


def _check(load: float, servers: int) -> None:
    """Refuse what is no load or no number of servers."""
    if not load >= 0 or math.isinf(load) or servers < 0:
        raise CapplanError(f"a load of {load:g} erlangs on {servers} servers makes no sense; both must be numbers from 0 on")


@dataclass(frozen=True)
class Target:
    """What waiting must keep to.

    Args:
        allowed_seconds: Longest wait that is allowed.
        share: Share of requests that must wait no longer, 0 to 1.
        highest_utilisation: No more than this share of the servers is busy on average.

    Raises:
        CapplanError: For what cannot be a target.
    """

    allowed_seconds: float
    share: float
    highest_utilisation: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a target that cannot be one."""
        if not 0 < self.highest_utilisation <= 1:
            raise CapplanError(
                f"highest utilisation is {self.highest_utilisation:g}; it must lie above 0 and at most at 1, so 85 % is 0.85"
            )
        if not 0 <= self.share < 1:
            raise CapplanError(f"the share of requests within the target is {self.share:g}; it lies between 0 and 1, so 95 % is 0.95")
        if self.allowed_seconds < 0:
            raise CapplanError(f"the wait allowed is {self.allowed_seconds:g} s; nothing is left of the latency target for waiting")
