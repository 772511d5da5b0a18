"""Latency budget: what each part of a request's way takes, whether the whole meets its target, and which part breaks it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.serving.queueing import spread_factor, waiting_share
from capplan.records import records

#: Quantile of the normal distribution at 95 %.
Z_95 = 1.6448536269514722
#: Cells of the grid on which parts are added up, and how far it reaches in sums of the parts' 95th percentiles.
CELLS = 1 << 14
#: A part whose logarithm is no wider than this always takes the same time.
CONSTANT_WIDTH = 1e-6
REACH = 6.0
QUEUE, PREFILL, DECODE = "queue", "prefill", "decode"
#: Parts a machine decides; everything else lies outside the model.
MODEL_PARTS = (QUEUE, PREFILL, DECODE)


@dataclass(frozen=True)
class Budget:
    """Where the time of a surface goes."""

    #: surface, part, mean_seconds, p95_seconds (of the part alone), target_share (of the target, by mean), inside (does the machine decide
    #: it?).
    parts: pd.DataFrame
    #: surface, measure, target_seconds, target_share, seconds (the whole at that share of requests), met, breaks_at (the part that breaks
    #: the target; empty where it is met), any_hardware (could some listed machine meet it?), over_seconds, left_seconds (what the model may
    #: take for its first token or whole answer).
    surfaces: pd.DataFrame
    headline: str  #: One sentence with the number that decides.


@dataclass(frozen=True)
class Wait:
    """Distribution of the wait for a slot: a share waits, and of those the wait is exponential."""

    waiting_share: float  #: Share of requests that wait at all.
    mean_seconds: float  #: Mean wait of those.

    @classmethod
    def of_queue(cls, load: float, servers: int, service_seconds: float, arrival_cv2: float, service_cv2: float) -> Wait:
        """Return the wait of the fleet's queue: Erlang C, corrected for burstiness."""
        if load >= servers > 0:
            raise CapplanError(f"a load of {load:g} busy slots on {servers} slots never stops growing; no latency can be stated")
        stretched = service_seconds * spread_factor(arrival_cv2, service_cv2)
        return cls(waiting_share(load, servers, arrival_cv2, service_cv2), stretched / (servers - load) if servers else 0.0)


#: No wait at all: what is left then is the way itself.
NO_WAIT = Wait(0.0, 0.0)


def outside_parts(latency_parts: pd.DataFrame, surface: str) -> list[tuple[str, float, float]]:
    """Return the parts of a surface that lie outside the model: (part, median, 95th percentile), seconds."""
    own = latency_parts[latency_parts["surface"] == surface]
    return [(str(row.part), float(row.median_seconds), float(row.p95_seconds)) for row in own.itertuples()]


@dataclass(frozen=True)
class Phase:
    """What a machine takes for a phase of a request: its mean, and the width of its logarithm over requests (0 = always the same)."""

    mean_seconds: float
    width: float = 0.0

    @property
    def median_seconds(self) -> float:
        """Half of the requests take no longer."""
        return self.mean_seconds * math.exp(-(self.width**2) / 2)

    @property
    def p95_seconds(self) -> float:
        """95 of 100 requests take no longer."""
        return self.median_seconds * math.exp(self.width * Z_95)


@dataclass(frozen=True)
class Machine:
    """Prefill and decode of a workload's requests on a machine."""

    prefill: Phase
    decode: Phase

    @classmethod
    def of_point(cls, point: pd.Series, output_tokens: float) -> Machine:
        """Return the phases at an operating point; decode is that of a whole answer."""
        steps = max(0.0, output_tokens - 1)
        return cls(
            Phase(float(point["first_token_seconds"]), float(point.get("first_token_width", 0.0))),
            Phase(float(point["token_seconds"]) * steps, float(point.get("token_width", 0.0))),
        )


NOTHING = Phase(0.0)


def latency_budget(
    surfaces: pd.DataFrame,
    latency_parts: pd.DataFrame,
    machines: Mapping[str, Machine],
    waits: Mapping[str, Wait],
    quickest: Mapping[str, Machine] | None = None,
) -> Budget:
    r"""Say where the time of each surface goes, and which part breaks a target that is not met.

    Parts are independent, so their distributions are convolved; adding 95th percentiles up would overstate the whole.

    .. math:: P(T \le t) = (f_1 * f_2 * \dots * f_n)(t)

    A part outside the model is log-normal through its median and 95th percentile, prefill and decode are log-normal as the operating
    point says, and the wait has a share that does not wait and an exponential rest.

    Args:
        surfaces: surface, workload, measure ("first_token" or "whole_answer"), target_seconds, target_share.
        latency_parts: surface, part, median_seconds, p95_seconds.
        waits: Wait for a slot of each workload.
        quickest: The quickest any listed machine is, by workload: it tells a machine that is too slow from a target no hardware meets.

    Raises:
        CapplanError: If a 95th percentile lies below its median, or a surface's workload has no operating point.
    """
    rows, totals = [], []
    for surface in records(surfaces):
        name, workload, share, target = (surface[key] for key in ("surface", "workload", "target_share", "target_seconds"))
        if workload not in machines:
            raise CapplanError(
                f"surface {name} shows the workload {workload}, which has no operating point; known: {', '.join(sorted(machines))}"
            )
        whole = surface["measure"] == "whole_answer"
        outside = outside_parts(latency_parts, str(name))
        machine, best = (one if whole else Machine(one.prefill, NOTHING) for one in (machines[workload], (quickest or machines)[workload]))
        found = surface_time(outside, waits[workload], machine, share)
        rows += [
            {
                "surface": name,
                "part": part,
                "mean_seconds": mean,
                "p95_seconds": high,
                "target_share": mean / target,
                "inside": part in MODEL_PARTS,
            }
            for part, mean, high in found.parts
            if part != DECODE or whole
        ]
        never = breaking_part(outside, best, target, share)
        totals.append(
            {
                "surface": name,
                "workload": workload,
                "measure": surface["measure"],
                "target_seconds": target,
                "target_share": share,
                "seconds": found.seconds,
                "met": found.seconds <= target,
                "breaks_at": never or (breaking_part(outside, machine, target, share) or QUEUE if found.seconds > target else ""),
                "any_hardware": not never,
                "over_seconds": max(0.0, found.seconds - target),
                "left_seconds": target - surface_time(outside, NO_WAIT, Machine(NOTHING, NOTHING), share).seconds,
            }
        )
    table = pd.DataFrame(totals)
    return Budget(pd.DataFrame(rows), table, _headline(table))


@dataclass(frozen=True)
class SurfaceTime:
    """Time of a surface at a share of requests, and of its parts: (part, mean, 95th percentile)."""

    seconds: float
    parts: tuple[tuple[str, float, float], ...]


def surface_time(outside: list[tuple[str, float, float]], wait: Wait, machine: Machine, share: float) -> SurfaceTime:
    """Add the parts of a request's way up: (part, median, 95th percentile) outside the model, then the wait, prefill and decode.

    Examples:
        >>> round(surface_time([("network", 0.04, 0.04)], NO_WAIT, Machine(Phase(0.5), NOTHING), 0.95).seconds, 3)
        0.54
    """
    if not 0 < share < 1:
        raise CapplanError(f"the share of requests within the target is {share:g}; it lies between 0 and 1, so 95 % is 0.95")
    for part, median, high in outside:
        if not 0 < median <= high:
            raise CapplanError(
                f"latency part {part}: the median is {median:g} s and the 95th percentile {high:g} s; both must be above 0, the second not"
                " below the first"
            )
    ways = [(median, math.log(high / median) / Z_95) for _, median, high in outside]
    ways += [(phase.median_seconds, phase.width) for phase in (machine.prefill, machine.decode)]
    late = wait.waiting_share > 0.05
    parts = (
        *((part, *_lognormal(median, high)) for part, median, high in outside),
        (QUEUE, wait.waiting_share * wait.mean_seconds, wait.mean_seconds * math.log(wait.waiting_share / 0.05) if late else 0.0),
        (PREFILL, machine.prefill.mean_seconds, machine.prefill.p95_seconds),
        (DECODE, machine.decode.mean_seconds, machine.decode.p95_seconds),
    )
    constant = sum(median for median, width in ways if width <= CONSTANT_WIDTH)
    random = [(median, width) for median, width in ways if width > CONSTANT_WIDTH and median > 0]
    return SurfaceTime(constant + _quantile_of_sum(random, wait, share), parts)


def breaking_part(outside: list[tuple[str, float, float]], machine: Machine, target: float, share: float) -> str:
    """Name the part that breaks a target even without any wait; empty where the target can be met.

    Parts are added in the order that nobody can change, a machine can change, a longer answer can change: way, prefill, decode.
    """
    if surface_time(outside, NO_WAIT, Machine(NOTHING, NOTHING), share).seconds > target:
        return max(outside, key=lambda item: item[2])[0]
    if surface_time(outside, NO_WAIT, Machine(machine.prefill, NOTHING), share).seconds > target:
        return PREFILL
    return DECODE if surface_time(outside, NO_WAIT, machine, share).seconds > target else ""


def _lognormal(median: float, high: float) -> tuple[float, float]:
    """Return mean and 95th percentile of a log-normal part."""
    return median * math.exp((math.log(high / median) / Z_95) ** 2 / 2), high


def _quantile_of_sum(random: list[tuple[float, float]], wait: Wait, share: float) -> float:
    """Convolve log-normal parts and the wait on a grid, and read the quantile off."""
    from scipy.special import ndtr

    tail = wait.mean_seconds * math.log(max(1.0, wait.waiting_share / min(0.05, 1 - share)))
    reach = REACH * (sum(median * math.exp(spread * Z_95) for median, spread in random) + tail)
    if reach == 0:
        return 0.0
    cell = reach / CELLS
    edges = (np.arange(CELLS) + 0.5) * cell
    whole = np.zeros(2 * CELLS)
    whole[0] = 1.0
    transformed = np.fft.rfft(whole)
    laws = [ndtr(np.log(edges / median) / spread) for median, spread in random]
    if wait.waiting_share > 0 and wait.mean_seconds > 0:
        laws.append(1 - wait.waiting_share * np.exp(-edges / wait.mean_seconds))
    for law in laws:
        mass = np.diff(law, prepend=0.0)
        transformed = transformed * np.fft.rfft(mass, 2 * CELLS)
    grown = np.cumsum(np.clip(np.fft.irfft(transformed, 2 * CELLS)[:CELLS], 0.0, None))
    place = int(np.searchsorted(grown, share))
    if place >= CELLS:
        return math.inf
    before = grown[place - 1] if place else 0.0
    inside = (share - before) / max(grown[place] - before, 1e-300)
    return max(0.0, (place - 0.5 + inside) * cell)


def _headline(surfaces: pd.DataFrame) -> str:
    """Say in one sentence which surface misses its target, and where."""
    if surfaces.empty:
        return "No surface states a latency target."
    missed = surfaces[~surfaces["met"]].sort_values("over_seconds", ascending=False)
    if missed.empty:
        tight = surfaces.assign(room=1 - surfaces["seconds"] / surfaces["target_seconds"]).sort_values("room").iloc[0]
        return (
            f"All {len(surfaces)} surfaces meet their latency target; {tight['surface']} is nearest to it, with {tight['room']:.0%} left."
        )
    worst = missed.iloc[0]
    which = worst["breaks_at"] if worst["any_hardware"] else f"{worst['breaks_at']}, on any listed machine,"
    return (
        f"{worst['surface']} takes {worst['seconds']:.2f} s where {worst['target_seconds']:g} s are allowed: {which} breaks the budget; "
        f"{len(surfaces) - len(missed)} of {len(surfaces)} surfaces meet their target."
    )
