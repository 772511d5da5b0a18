"""Autoscaling: a fleet that follows its traffic with cold starts, warm pool, quota and admission control, replayed over a trace."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
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
RULES = {"queue": 0, "shed": 1, "route": 2}
#: The wait of a request that did not start.
SHED, ROUTED = -1.0, -2.0


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


@dataclass(frozen=True)
class Day:
    """Requests of a day or of another trace, to be replayed under several policies."""

    arrivals_seconds: np.ndarray  #: Instants of arrival from the start of the trace, ascending.
    services_seconds: np.ndarray  #: The time each request holds its slot.
    slots: int  #: Requests one replica serves at once.
    accelerators: int  #: Accelerators of a replica.
    allowed_seconds: float  #: Wait within which a request meets its target.
    weight: int = 1  #: Requests each drawn one stands for; the slots are as many fewer.
    cells: int = 1  #: Equal parts the traffic and its fleet are divided into, of which one is replayed.

    def replay(
        self, floor_replicas: np.ndarray, a: ServingAssumptions, *, reactive: bool = True, small_cost_share: float | None = None
    ) -> Replay:
        """Say how many requests a fleet answers in time, and how many accelerator-hours it takes.

        Args:
            floor_replicas: Replicas the fleet never falls below, one number an hour of the trace (a schedule); ordered a cold start ahead.
            reactive: Does the fleet grow with the load? Without it only the schedule counts.
            small_cost_share: Accelerator time of a routed request over that of one here; the assumption where none is given.

        Raises:
            CapplanError: If the trace is out of order or longer than the schedule, a replica has no slot, or the quota holds no replica.
        """
        if self.cells > 1 and a.quota_accelerators is not None:
            a = a.model_copy(update={"quota_accelerators": a.quota_accelerators / self.cells})
        floor = np.asarray(-(-np.asarray(floor_replicas) // self.cells), dtype=np.int64)
        self._check(floor)
        arrivals, services = np.asarray(self.arrivals_seconds, dtype=float), np.asarray(self.services_seconds, dtype=float)
        mean = float(services.mean()) if len(services) else 1.0
        step = _step(mean, len(floor))
        waits, paid, serving = self._replayed(arrivals, services, floor, step, reactive, a)
        share = a.small_model_cost_share if small_cost_share is None else small_cost_share
        routed = float(services[waits == ROUTED].sum()) / self.slots * self.accelerators * share / SECONDS_PER_HOUR
        hours = self._by_hour(arrivals, waits, paid, serving, step)
        count = max(1, len(arrivals))
        drawn = f"Each request drawn stands for {self.weight} requests on as many fewer slots; waits come out a little too long."
        one = Replay(
            hours=hours,
            minutes=_minutes(arrivals, paid, serving, step, self.weight),
            slo_share=_met(waits, self.allowed_seconds).sum() / count if len(arrivals) else 1.0,
            shed_share=float((waits == SHED).sum()) / count,
            routed_share=float((waits == ROUTED).sum()) / count,
            accelerator_hours=float(hours["accelerator_hours"].sum()) + routed,
            requests=float(len(arrivals) * self.weight),
            notes=(drawn,) if self.weight > 1 else (),
        )
        return one if self.cells == 1 else _whole(one, self.cells)

    def _check(self, floor: np.ndarray) -> None:
        """Refuse a trace or a schedule that cannot be replayed."""
        arrivals, services = np.asarray(self.arrivals_seconds, dtype=float), np.asarray(self.services_seconds, dtype=float)
        if len(arrivals) != len(services) or (np.diff(arrivals) < 0).any() or (services < 0).any():
            raise CapplanError("a replay needs one service time from 0 on for each request, and arrivals in ascending order")
        if self.slots < 1 or self.accelerators < 1 or len(floor) == 0 or (floor < 0).any():
            raise CapplanError("a replay needs replicas with at least one slot and one accelerator, and a floor from 0 on for every hour")
        if len(arrivals) and (arrivals[0] < 0 or arrivals[-1] > len(floor) * SECONDS_PER_HOUR):
            raise CapplanError(
                f"the trace runs from {arrivals[0]:,.0f} to {arrivals[-1]:,.0f} s, the schedule holds {len(floor)} hours from 0 on; give"
                " one number of replicas for each hour"
            )

    def _replayed(
        self, arrivals: np.ndarray, services: np.ndarray, floor: np.ndarray, step: float, reactive: bool, a: ServingAssumptions
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run the compiled replay: wait of each request, and replicas paid and serving by step."""
        from capplan.questions.serving.replay_kernel import Admission, Fleet, Pace, replay_steps

        quota, look = _quota(a, self.accelerators), max(1, round(a.autoscale_seconds / step))
        warm = int(a.warm_replicas) if reactive else 0
        pace = Pace(step, round(a.cold_start_seconds / step), look, max(1, math.ceil(a.scale_down_seconds / (look * step))))
        fleet = Fleet(int(self.slots), reactive, float(a.headroom_share), int(a.spare_replicas), warm, quota)
        mean = max(float(services.mean()) if len(services) else 1.0, 1e-9)
        admission = Admission(RULES[a.admission_rule], float(a.admission_wait_seconds), mean)
        waits, paid, serving = replay_steps(arrivals, services, np.minimum(floor, quota), pace, fleet, admission)
        return waits, paid, serving

    def _by_hour(self, arrivals: np.ndarray, waits: np.ndarray, paid: np.ndarray, serving: np.ndarray, step: float) -> pd.DataFrame:
        """Sum a replay up by hours."""
        count = round(len(paid) * step / SECONDS_PER_HOUR)
        of = np.minimum((arrivals // SECONDS_PER_HOUR).astype(int), count - 1)
        edges = np.searchsorted(of, np.arange(count + 1))
        paid_by_hour, serving_by_hour = paid.reshape(count, -1), serving.reshape(count, -1)
        met = _met(waits, self.allowed_seconds)
        rows = []
        for hour in range(count):
            part = slice(edges[hour], edges[hour + 1])
            own = waits[part][waits[part] >= 0]
            size = max(1, edges[hour + 1] - edges[hour])
            rows.append(
                {
                    "hour": hour,
                    "requests": float((edges[hour + 1] - edges[hour]) * self.weight),
                    "slo_share": float(met[part].sum()) / size if edges[hour + 1] > edges[hour] else 1.0,
                    "shed_share": float((waits[part] == SHED).sum()) / size,
                    "routed_share": float((waits[part] == ROUTED).sum()) / size,
                    "wait_p95_seconds": float(np.quantile(own, 0.95)) if len(own) else 0.0,
                    "replicas": int(serving_by_hour[hour].max()),
                    "accelerator_hours": float(paid_by_hour[hour].sum() * step / SECONDS_PER_HOUR * self.accelerators),
                }
            )
        return pd.DataFrame(rows)


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
    return Day(arrivals, services, slots // weight, int(point["accelerators"]), allowed, weight, cells)


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
    return ((waits >= 0) & (waits <= allowed_seconds)) | (waits == ROUTED)


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
