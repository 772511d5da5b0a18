"""What each way to serve a volume costs: an API by the request, provisioned units with spillover, whole replicas of one's own."""

import math
from collections.abc import Sequence

from capplan.errors import CapplanError


def api_usd(requests: float, usd_per_request: float) -> float:
    """Say what an API costs that is paid by the request: nothing at zero volume."""
    _from_zero(requests=requests, usd_per_request=usd_per_request)
    return requests * usd_per_request


def provisioned_usd(
    requests_by_hour: Sequence[float], units: int, requests_per_unit_hour: float, usd_per_unit_hour: float, spill_usd_per_request: float
) -> float:
    r"""Say what provisioned throughput costs: every unit in every hour, used or not, and what spills over by the request.

    .. math:: C = \sum_h \left(u\,p_u + \max(0, q_h - u\,k)\,p\right)

    Args:
        requests_by_hour (q): Requests of each hour.
        units (u): Units bought; throughput unused in an hour is lost.
        requests_per_unit_hour (k): Requests one unit serves in an hour.
        usd_per_unit_hour, spill_usd_per_request (p_u, p): Price of a unit, and of a request beyond the units.

    Examples:
        >>> provisioned_usd([50, 150], 1, 100, 10.0, 0.2)
        30.0
    """
    _from_zero(
        units=units,
        requests_per_unit_hour=requests_per_unit_hour,
        usd_per_unit_hour=usd_per_unit_hour,
        spill_usd_per_request=spill_usd_per_request,
    )
    spilled = 0.0
    for requests in requests_by_hour:
        _from_zero(requests=requests)
        spilled += max(0.0, requests - units * requests_per_unit_hour)
    return len(requests_by_hour) * units * usd_per_unit_hour + spilled * spill_usd_per_request


def self_host_usd(requests: float, requests_per_replica: float, replica_usd: float, fixed_usd: float, spare_replicas: int = 0) -> float:
    r"""Say what hosting costs: whole replicas sized for the peak, and what is paid whatever the volume.

    .. math:: C = F + (\lceil v / k \rceil + n_s)\,r

    Args:
        requests (v): Requests in the period.
        requests_per_replica (k): Requests in the period of which one replica serves the peak hours: its capacity an hour x hours / (peak
            over mean).
        replica_usd (r): Price of one replica for the period, whole hours, used or not.
        fixed_usd (F): People, egress, evaluation and whatever else is paid at any volume, also at none while the service is kept.
        spare_replicas (n_s): Replicas kept beyond the need.

    Examples:
        >>> self_host_usd(101, 100, 10.0, 5.0)
        25.0
    """
    _from_zero(requests=requests, replica_usd=replica_usd, fixed_usd=fixed_usd, spare_replicas=spare_replicas)
    if not requests_per_replica > 0:
        raise CapplanError(f"a replica serves {requests_per_replica:g} requests in the period; it must serve more than none")
    return fixed_usd + (math.ceil(requests / requests_per_replica - 1e-12) + spare_replicas) * replica_usd


def break_even_share(usd_per_request: float, requests_per_replica: float, replica_usd: float) -> float:
    """Say how busy a replica must be to cost what the API costs for the same requests, without fixed cost; above 1 it never does.

    Examples:
        >>> break_even_share(0.02, 1000, 10.0)
        0.5
    """
    _from_zero(usd_per_request=usd_per_request, replica_usd=replica_usd)
    if not requests_per_replica > 0:
        raise CapplanError(f"a replica serves {requests_per_replica:g} requests in the period; it must serve more than none")
    worth = usd_per_request * requests_per_replica
    return replica_usd / worth if worth else math.inf


def _from_zero(**values: float) -> None:
    """Refuse negative and missing numbers, by name."""
    for name, value in values.items():
        if not value >= 0 or math.isinf(value):
            raise CapplanError(f"crossover: {name} is {value:g}; it must be a number from 0 on")
