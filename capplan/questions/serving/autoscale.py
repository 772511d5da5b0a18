"""Autoscaling: a fleet that follows its traffic with cold starts, warm pool, quota and admission control, replayed over a trace."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving import replay_kernel
from capplan.questions.serving.service_traffic import SECONDS_PER_HOUR, drawn_arrivals, drawn_services
from capplan.questions.serving.staffing import allowed_wait, held_seconds

#: A step is this part of the mean service, within bounds, so that rounding ends to steps changes nothing that is shown.
STEPS_PER_SERVICE = 100
SHORTEST_STEP_SECONDS, LONGEST_STEP_SECONDS = 0.01, 1.0
#: Requests one replay draws; beyond it each drawn request stands for several, on as many fewer slots.
MOST_REQUESTS = 1_500_000
#: Steps one replay takes at most; longer traces take longer steps, as long as they stay short against a request.
MOST_STEPS = 20_000_000
FEWEST_STEPS_PER_SERVICE = 10
RULES = {"queue": replay_kernel.QUEUE, "shed": replay_kernel.SHED_RULE, "route": replay_kernel.ROUTE_RULE}


@dataclass(frozen=True)
class Replay:
    """What a fleet did over a trace."""

    #: hour, requests, slo_share (answered within the target, of all that came), shed_share, routed_share, wait_p95_seconds (of those that
    #: were answered by the model itself), replicas (most that served), accelerator_hours.
    hours: pd.DataFrame
    minutes: pd.DataFrame  #: minute, paid_replicas, serving_replicas (means), arrivals_per_second.
    #: slo_share, shed_share, routed_share: Over the whole trace; a request routed to the smaller model counts as answered in time.
    slo_share: float
    shed_share: float
    routed_share: float
    accelerator_hours: float  #: Paid for: serving, starting, warm and draining replicas, and the smaller model's share for routed requests.
    requests: float  #: Requests of the trace.
    notes: tuple[str, ...]  #: What was simplified.


def replay_trace(
    arrivals_seconds: np.ndarray,
    services_seconds: np.ndarray,
    slots: int,
    accelerators: int,
    floor_replicas: np.ndarray,
    allowed_seconds: float,
    a: ServingAssumptions,
    *,
    reactive: bool = True,
    weight: int = 1,
    small_cost_share: float | None = None,
) -> Replay:
    """Say how many requests a fleet answers in time over a trace, and how many accelerator-hours it takes.

    Args:
        arrivals_seconds, services_seconds: Instants of arrival from the start of the trace, ascending, and the time each request holds a
            slot.
        slots: Requests one replica serves at once.
        floor_replicas: Replicas the fleet never falls below, one number an hour of the trace (a schedule); ordered a cold start ahead.
        allowed_seconds: Wait within which a request still meets its target.
        a: Assumptions: cold start, warm pool, quota, headroom, spare replicas, rhythm of the autoscaler, admission rule.
        reactive: Does the fleet grow with the load? Without it only the schedule counts.
        weight: Requests each row of the trace stands for.
        small_cost_share: Accelerator time of a routed request over that of one here; the assumption where none is given.

    Raises:
        CapplanError: If the trace is out of order or longer than the schedule, a replica has no slot, or the quota holds no replica.
    """
    arrivals, services = np.asarray(arrivals_seconds, dtype=float), np.asarray(services_seconds, dtype=float)
    floor = np.asarray(floor_replicas, dtype=np.int64)
    if len(arrivals) != len(services) or (np.diff(arrivals) < 0).any() or (services < 0).any():
        raise CapplanError("a replay needs one service time from 0 on for each request, and arrivals in ascending order")
    if slots < 1 or accelerators < 1 or len(floor) == 0 or (floor < 0).any():
        raise CapplanError("a replay needs replicas with at least one slot and one accelerator, and a floor from 0 on for every hour")
    if len(arrivals) and (arrivals[0] < 0 or arrivals[-1] > len(floor) * SECONDS_PER_HOUR):
        raise CapplanError(
            f"the trace runs from {arrivals[0]:,.0f} to {arrivals[-1]:,.0f} s, the schedule holds {len(floor)} hours from 0 on; give one"
            " number of replicas for each hour"
        )
    quota = _quota(a, accelerators)
    mean = float(services.mean()) if len(services) else 1.0
    step = _step(mean, len(floor))
    look = max(1, round(a.autoscale_seconds / step))
    waits, paid, serving = replay_kernel.compiled()(
        arrivals,
        services,
        np.minimum(floor, quota),
        step,
        int(slots),
        reactive,
        float(a.headroom_share),
        int(a.spare_replicas),
        int(a.warm_replicas) if reactive else 0,
        quota,
        round(a.cold_start_seconds / step),
        look,
        max(1, math.ceil(a.scale_down_seconds / (look * step))),
        RULES[a.admission_rule],
        float(a.admission_wait_seconds),
        max(mean, 1e-9),
    )
    share = a.small_model_cost_share if small_cost_share is None else small_cost_share
    routed_hours = float(services[waits == replay_kernel.ROUTED].sum()) / slots * accelerators * share / SECONDS_PER_HOUR
    hours = _hours(arrivals, waits, paid, serving, step, len(floor), accelerators, allowed_seconds, weight)
    count = max(1, len(arrivals))
    notes = (
        (f"Each request drawn stands for {weight} requests on as many fewer slots; waits come out a little too long.",)
        if weight > 1
        else ()
    )
    return Replay(
        hours=hours,
        minutes=_minutes(arrivals, paid, serving, step, weight),
        slo_share=_met(waits, allowed_seconds).sum() / count if len(arrivals) else 1.0,
        shed_share=float((waits == replay_kernel.SHED).sum()) / count,
        routed_share=float((waits == replay_kernel.ROUTED).sum()) / count,
        accelerator_hours=float(hours["accelerator_hours"].sum()) + routed_hours,
        requests=float(len(arrivals) * weight),
        notes=notes,
    )


@dataclass(frozen=True)
class Day:
    """Requests of a day, drawn once and replayed under several policies."""

    #: arrivals_seconds, services_seconds: Instants of arrival, and the time each request holds its slot.
    arrivals_seconds: np.ndarray
    services_seconds: np.ndarray
    #: slots, accelerators: Slots and accelerators of a replica.
    slots: int
    accelerators: int
    allowed_seconds: float  #: Wait within which a request meets its target.
    weight: int  #: Requests each drawn one stands for; the slots are as many fewer.
    cells: int  #: Equal parts the traffic and its fleet are divided into, of which one is replayed.
    hours: int  #: Hours of the trace.

    def replay(
        self, floor_replicas: np.ndarray, a: ServingAssumptions, *, reactive: bool = True, small_cost_share: float | None = None
    ) -> Replay:
        """Replay the day under a policy (see `replay_trace`)."""
        quota = a.quota_accelerators
        one = replay_trace(
            self.arrivals_seconds,
            self.services_seconds,
            self.slots,
            self.accelerators,
            -(-np.asarray(floor_replicas) // self.cells),
            self.allowed_seconds,
            a if self.cells == 1 or quota is None else a.model_copy(update={"quota_accelerators": quota / self.cells}),
            reactive=reactive,
            weight=self.weight,
            small_cost_share=small_cost_share,
        )
        return one if self.cells == 1 else _whole(one, self.cells)


def drawn_day(
    rates_per_second: np.ndarray, point: pd.Series, output_tokens: float, first_token_seconds: float, a: ServingAssumptions
) -> Day:
    """Draw the requests of a day; the same seed draws the same ones.

    Args:
        rates_per_second: Requests a second in each minute (`minute_rates`); whole hours.
        point: Operating point of a replica: concurrency, accelerators, first_token_seconds, token_seconds.
        output_tokens, first_token_seconds: Mean output of a request, and its target for the first token.
        a: Assumptions: burstiness, spread of service, seed.
    """
    slots = int(point["concurrency"])
    packs = max(1, math.ceil(float(rates_per_second.sum()) * 60.0 / MOST_REQUESTS))
    weight = min(slots, packs)
    while slots % weight:
        weight += 1
    cells = math.ceil(packs / weight)
    rng = np.random.default_rng(a.seed)
    arrivals = drawn_arrivals(rates_per_second / (weight * cells), a.arrival_cv2, rng)
    services = drawn_services(held_seconds(point, output_tokens), a.service_cv2, len(arrivals), rng)
    allowed = allowed_wait(point, first_token_seconds)
    return Day(arrivals, services, slots // weight, int(point["accelerators"]), allowed, weight, cells, len(rates_per_second) // 60)


def _whole(one: Replay, cells: int) -> Replay:
    """Return the replay of a whole fleet from that of one of its equal parts."""
    sums = {"requests", "replicas", "accelerator_hours", "paid_replicas", "serving_replicas", "arrivals_per_second"}
    hours, minutes = (frame.assign(**{name: frame[name] * cells for name in frame if name in sums}) for frame in (one.hours, one.minutes))
    notes = (*one.notes, f"One of {cells} equal parts of the fleet was replayed; spare and warm replicas count once a part.")
    return replace(
        one, hours=hours, minutes=minutes, accelerator_hours=one.accelerator_hours * cells, requests=one.requests * cells, notes=notes
    )


def _quota(a: ServingAssumptions, accelerators: int) -> int:
    """Return the quota in whole replicas."""
    if a.quota_accelerators is None:
        return int(np.iinfo(np.int32).max) // 2
    quota = int(a.quota_accelerators // accelerators)
    if quota < 1:
        raise CapplanError(
            f"quota_accelerators is {a.quota_accelerators:g}; one replica needs {accelerators}, so no request could ever be served"
        )
    return quota


def _step(mean_seconds: float, hours: int) -> float:
    """Choose the step of the replay: an hour holds a whole number of them."""
    wanted = min(LONGEST_STEP_SECONDS, max(SHORTEST_STEP_SECONDS, mean_seconds / STEPS_PER_SERVICE))
    least = hours * SECONDS_PER_HOUR / MOST_STEPS
    if least > max(wanted, mean_seconds / FEWEST_STEPS_PER_SERVICE):
        raise CapplanError(
            f"a trace of {hours:,} hours is too long to replay requests of {mean_seconds:.3g} s; replay a part of it, such as the busiest"
            " days"
        )
    return SECONDS_PER_HOUR / math.ceil(SECONDS_PER_HOUR / max(wanted, least))


def _met(waits: np.ndarray, allowed_seconds: float) -> np.ndarray:
    """Tell which requests were answered in time, be it by the smaller model."""
    return ((waits >= 0) & (waits <= allowed_seconds)) | (waits == replay_kernel.ROUTED)


def _hours(
    arrivals: np.ndarray,
    waits: np.ndarray,
    paid: np.ndarray,
    serving: np.ndarray,
    step: float,
    count: int,
    accelerators: int,
    allowed_seconds: float,
    weight: int,
) -> pd.DataFrame:
    """Sum a replay up by hours."""
    of = np.minimum((arrivals // SECONDS_PER_HOUR).astype(int), count - 1)
    edges = np.searchsorted(of, np.arange(count + 1))
    paid_by_hour, serving_by_hour = paid.reshape(count, -1), serving.reshape(count, -1)
    met = _met(waits, allowed_seconds)
    rows = []
    for hour in range(count):
        part = slice(edges[hour], edges[hour + 1])
        own = waits[part][waits[part] >= 0]
        size = max(1, edges[hour + 1] - edges[hour])
        rows.append(
            {
                "hour": hour,
                "requests": float((edges[hour + 1] - edges[hour]) * weight),
                "slo_share": float(met[part].sum()) / size if edges[hour + 1] > edges[hour] else 1.0,
                "shed_share": float((waits[part] == replay_kernel.SHED).sum()) / size,
                "routed_share": float((waits[part] == replay_kernel.ROUTED).sum()) / size,
                "wait_p95_seconds": float(np.quantile(own, 0.95)) if len(own) else 0.0,
                "replicas": int(serving_by_hour[hour].max()),
                "accelerator_hours": float(paid_by_hour[hour].sum() * step / SECONDS_PER_HOUR * accelerators),
            }
        )
    return pd.DataFrame(rows)


def _minutes(arrivals: np.ndarray, paid: np.ndarray, serving: np.ndarray, step: float, weight: int) -> pd.DataFrame:
    """Average a replay over minutes, for the eye."""
    minutes = round(len(paid) * step / 60)
    cut = np.minimum((np.arange(len(paid)) * step // 60).astype(int), minutes - 1)
    size = np.bincount(cut, minlength=minutes)
    came = np.bincount(np.minimum((arrivals // 60).astype(int), minutes - 1), minlength=minutes)
    return pd.DataFrame(
        {
            "minute": np.arange(minutes),
            "paid_replicas": np.bincount(cut, paid, minutes) / size,
            "serving_replicas": np.bincount(cut, serving, minutes) / size,
            "arrivals_per_second": came * weight / 60.0,
        }
    )
