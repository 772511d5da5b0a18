"""One hosted service looked at closely: its busiest day replayed, its levers, and the latency budget of the surfaces."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.questions.serving.autoscale import Replay, drawn_day
from capplan.questions.serving.hosted import Hosted
from capplan.questions.serving.latency import Budget, Machine, Wait, latency_budget
from capplan.questions.serving.levers import Bench, Levers, lever_savings, small_cost_share
from capplan.questions.serving.operating_points import targets_of
from capplan.questions.serving.replica_memory import model_of
from capplan.questions.serving.request_time import RequestWork
from capplan.questions.serving.service_traffic import SECONDS_PER_HOUR, busiest_day, minute_rates
from capplan.questions.serving.size_fleet import staff_fleet
from capplan.questions.serving.staffing import allowed_wait, held_seconds, late_shares

#: Name of a policy, the schedule it keeps at least, does it react, and its admission rule.
POLICIES = (
    ("Fixed at the peak hour", "peak", False, "queue"),
    ("By the hour", "hours", False, "queue"),
    ("Autoscaled, all wait", "least", True, "queue"),
    ("Autoscaled, late ones refused", "least", True, "shed"),
    ("Autoscaled, late ones to a smaller model", "least", True, "route"),
)
PLANNED = "By the hour and autoscaled"
#: Bursts that the formulas are held against, and how far (share of requests) they may be off to count as valid.
BURSTS = tuple(1 + tenth / 10 for tenth in range(11))
VALID_WITHIN_SHARE = 0.02


def policies_of(one: Hosted, region: str, models: pd.DataFrame, a: ServingAssumptions) -> tuple[pd.DataFrame, Replay]:
    """Replay the busiest day of a region, with a burst, under every policy.

    Returns:
        tuple: policy, slo_share, shed_share, routed_share, accelerator_hours (the planned policy last), and the planned policy's replay.
    """
    fleet = one.fleets[region]
    day, output = busiest_day(fleet.hours), float(one.service["output_tokens"])
    hours = staff_fleet(day, fleet.point, output, fleet.first_token_seconds, a).hours["replicas"].to_numpy()
    rates = minute_rates(day, a.burst_factor, a.burst_hour, a.burst_minutes)
    drawn = drawn_day(rates, fleet.point, output, fleet.first_token_seconds, a)
    floors = {"peak": np.full(len(hours), hours.max()), "hours": hours, "least": np.ones(len(hours), dtype=int)}
    share = _small_share(one, models, a)
    rows = []
    for name, floor, reactive, rule in POLICIES:
        found = drawn.replay(floors[floor], a.model_copy(update={"admission_rule": rule}), reactive=reactive, small_cost_share=share)
        rows.append(_outcome(name, found))
    planned = drawn.replay(hours, a, small_cost_share=share)
    return pd.DataFrame([*rows, _outcome(PLANNED, planned)]), planned


def formulas_under_bursts(one: Hosted, region: str, a: ServingAssumptions) -> pd.DataFrame:
    """Show up to which burst within an hour the queueing formulas are valid: the busiest hour, staffed by them, and simulated.

    The formulas know the hour's mean traffic and treat it as steady; the simulation plays the burst, request by request.

    Returns:
        DataFrame: burst_factor (over the burst's minutes), formula_share and simulated_share (requests of the hour answered in time),
            valid.
    """
    fleet, output = one.fleets[region], float(one.service["output_tokens"])
    peak = fleet.hours.loc[fleet.hours["requests"].idxmax()]
    # the first hour fills the fleet; the second is looked at
    hours = pd.DataFrame({"hour": [0, 1], "requests": float(peak["requests"])})
    floor, waiting = (
        np.full(len(hours), int(peak["replicas"])),
        a.model_copy(update={"admission_rule": "queue", "quota_accelerators": None}),
    )
    held, allowed = held_seconds(fleet.point, output), allowed_wait(fleet.point, fleet.first_token_seconds)
    slots = np.array([float(peak["replicas"]) * float(fleet.point["concurrency"])])
    rows = []
    for factor in BURSTS:
        rates = minute_rates(hours, factor, 1, a.burst_minutes)
        load = np.array([rates[len(rates) // 2 :].mean() * held])
        late = late_shares(load, slots, held, allowed, a.arrival_cv2, a.service_cv2)
        found = drawn_day(rates, fleet.point, output, fleet.first_token_seconds, a).replay(floor, waiting, reactive=False)
        rows.append((factor, 1 - float(late[0]), float(found.hours["slo_share"].iloc[-1])))
    table = pd.DataFrame(rows, columns=["burst_factor", "formula_share", "simulated_share"])
    return table.assign(valid=(table["formula_share"] - table["simulated_share"]).abs() <= VALID_WITHIN_SHARE)


def formulas_note(table: pd.DataFrame, a: ServingAssumptions) -> str:
    """Say in one sentence up to which burst the formulas are valid."""
    wrong = table[~table["valid"]]
    if wrong.empty:
        return (
            f"The queueing formulas hold for bursts of up to {table['burst_factor'].max():g} times for {a.burst_minutes:g} minutes of the"
            " busiest hour."
        )
    first = wrong.iloc[0]
    before = table[table["burst_factor"] < first["burst_factor"]]["burst_factor"]
    held = f"hold for bursts of up to {before.max():.3g} times" if len(before) else "do not hold even without a burst"
    return (
        f"The queueing formulas {held} for {a.burst_minutes:g} minutes of the busiest hour. At {first['burst_factor']:.3g} times they"
        f" promise {first['formula_share']:.0%} of its requests in time, and a simulation finds {first['simulated_share']:.0%}: trust the"
        " replay there."
    )


def _outcome(policy: str, found: Replay) -> dict[str, object]:
    names = ("slo_share", "shed_share", "routed_share", "accelerator_hours")
    return {"policy": policy, **{name: getattr(found, name) for name in names}}


def _small_share(one: Hosted, models: pd.DataFrame, a: ServingAssumptions) -> float:
    """Return the accelerator time of a request on the smaller model over that on the model itself: as their active parameters."""
    if one.service["small_model"] is None or one.service["served_model"] not in set(models["model"]):
        return a.small_model_cost_share
    small, large = (float(model_of(models, one.service[name])["parameters_active"]) for name in ("small_model", "served_model"))
    return min(1.0, small / large)


def busiest_region(one: Hosted) -> str:
    """Return the region that takes most accelerator-hours of a service."""
    return max(one.fleets, key=lambda name: one.fleets[name].elastic_accelerator_hours)


def levers_of(one: Hosted, region: str, models: pd.DataFrame, accelerators: pd.DataFrame, a: ServingAssumptions) -> Levers:
    """Say what the levers save on the fleet of a region."""
    service, point, fleet = one.service, one.point, one.fleets[region]
    machine = accelerators[accelerators["accelerator"] == point["accelerator"]].iloc[0]
    model = model_of(models, service["served_model"])
    work = RequestWork(
        float(service["input_tokens"]), float(service["output_tokens"]), float(service["cached_share"]), str(point["precision"])
    )
    small = model_of(models, service["small_model"]) if service["small_model"] is not None else None
    bench = Bench(
        points=one.points[(one.points["accelerator"] == point["accelerator"]) & (one.points["precision"] == point["precision"])],
        limit=float(service["concurrency_limit"]) if not pd.isna(service["concurrency_limit"]) else np.inf,
        work=work,
        model=model,
        accelerator=machine,
        small_cost_share=small_cost_share(small, work, model, machine, int(point["accelerators"]), int(point["concurrency"]), a),
        first_token_seconds=fleet.first_token_seconds,
        token_seconds=targets_of(service, a)[1],
        usd_per_accelerator_hour=float(point["usd_per_accelerator_hour"]),
    )
    return lever_savings(fleet.hours[["hour", "requests"]], bench, a)


def budget_of(hosted: Mapping[str, Hosted], surfaces: pd.DataFrame, latency_parts: pd.DataFrame, a: ServingAssumptions) -> Budget:
    """Say where the time of every surface goes; where the book states none, the services' own targets stand for surfaces."""
    shown = surfaces[surfaces["workload"].isin(list(hosted))]
    if shown.empty:
        rows = [
            {"surface": name, "workload": name, "measure": "first_token", "target_seconds": first, "target_share": a.target_share}
            for name, item in hosted.items()
            if np.isfinite(first := targets_of(item.service, a)[0])
        ]
        shown = pd.DataFrame(rows, columns=["surface", "workload", "measure", "target_seconds", "target_share"])
    else:
        shown = shown.assign(target_seconds=shown["target_seconds"] * a.target_factor)
    return latency_budget(
        shown,
        latency_parts,
        {name: Machine.of_point(item.point, float(item.service["output_tokens"])) for name, item in hosted.items()},
        {name: _wait(item, a) for name, item in hosted.items()},
        {name: _quickest(item) for name, item in hosted.items()},
    )


def _quickest(item: Hosted) -> Machine:
    """Return the quickest prefill and the quickest decode of all points."""
    best = item.points.loc[item.points["first_token_seconds"].idxmin()].copy()
    best["token_seconds"] = item.points["token_seconds"].min()
    return Machine.of_point(best, float(item.service["output_tokens"]))


def _wait(item: Hosted, a: ServingAssumptions) -> Wait:
    """Return the wait in the busiest minutes of the busiest hour of the largest fleet."""
    fleet = max(item.fleets.values(), key=lambda one: one.peak_accelerators)
    peak = fleet.hours.loc[fleet.hours["accelerators"].idxmax()]
    held = held_seconds(item.point, float(item.service["output_tokens"]))
    load = float(peak["requests"]) * a.within_hour_peak_factor / SECONDS_PER_HOUR * held
    return Wait.of_queue(load, int(peak["replicas"]) * int(item.point["concurrency"]), held, a.arrival_cv2, a.service_cv2)
