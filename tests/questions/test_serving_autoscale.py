"""Autoscaling replays: against the event-by-event queue, against formulas, on real arrivals, and laws of every knob."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving import autoscale
from capplan.questions.serving import service_traffic as traffic
from capplan.questions.serving.staffing import late_shares
from tests.cases import queues
from tests.cases.closed_forms import poisson_arrivals
from tests.conftest import reference_file

A = ServingAssumptions(spare_replicas=0, warm_replicas=0, admission_rule="queue", headroom_share=0.0)
POINT = pd.Series(
    {"accelerator": "H100", "accelerators": 2, "concurrency": 10, "first_token_seconds": 0.5, "token_seconds": 0.1, "basis": "measured"}
)
DAY = pd.DataFrame({"hour": range(24), "requests": [1200.0] * 6 + [6000.0] * 12 + [2400.0] * 6})


def poisson(rate, seconds, mean, seed=1, cv2=1.0):
    rng = np.random.default_rng(seed)
    arrivals = poisson_arrivals(rate, int(rate * seconds * 1.2), rng)
    arrivals = arrivals[arrivals < seconds]
    return arrivals, traffic.drawn_services(mean, cv2, len(arrivals), rng)


def late(load, slots, service_seconds, allowed, service_cv2=1.0):
    """Share that waits longer than is allowed, by the formula the fleet is sized with; arrivals know nothing of each other."""
    return float(late_shares(np.array([load]), np.array([float(slots)]), service_seconds, allowed, 1.0, service_cv2)[0])


def fixed(arrivals, services, slots, replicas, hours, allowed=1.0, a=A, **more):
    return autoscale.Day(arrivals, services, slots, 1, allowed, **more).replay(np.full(hours, replicas), a, reactive=False)


def drawn(burst=3.0, a=A, minutes=30):
    rates = traffic.minute_rates(DAY, burst, 9, minutes)
    return autoscale.drawn_day(rates, POINT, 60, 2.5, a)


@pytest.mark.parametrize(("slots", "replicas", "cv2"), [(1, 20, 1.0), (5, 4, 1.0), (4, 5, 0.0), (10, 2, 3.0)])
def test_steps_equal_the_queue_event_by_event(slots, replicas, cv2):
    arrivals, services = poisson(17.0, 2 * 3600, 1.0, cv2=cv2)
    exact = queues.waits_of(arrivals, services, slots * replicas)
    found = fixed(arrivals, services, slots, replicas, 2, allowed=0.5)
    assert found.slo_share == pytest.approx((exact <= 0.5).mean(), abs=0.004)
    assert found.hours["wait_p95_seconds"].max() == pytest.approx(
        max(np.quantile(exact[arrivals < 3600], 0.95), np.quantile(exact[arrivals >= 3600], 0.95)), rel=0.02, abs=0.02
    )
    assert found.accelerator_hours == pytest.approx(2 * replicas)


def test_replay_agrees_with_erlang_inside_its_band():
    shares = [fixed(*poisson(17.0, 3 * 3600, 1.0, seed), 20, 1, 3, allowed=0.5).slo_share for seed in range(8)]
    expected = 1 - late(17.0, 20, 1.0, 0.5)
    band = 2.365 * np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - expected) <= band


def test_formula_holds_until_arrivals_are_bursty():
    trace = pd.read_csv(reference_file("data", "llm_demand", "azure_llm_inference_2023_code.csv"))
    times = pd.to_datetime(trace["TIMESTAMP"])
    arrivals = (times - times.iloc[0]).dt.total_seconds().to_numpy()
    services = 0.2 + 1e-4 * trace["ContextTokens"].to_numpy() + 0.02 * trace["GeneratedTokens"].to_numpy()
    load = services.sum() / arrivals[-1]
    for slots in (6, 8, 12):
        promised = 1 - late(load, slots, services.mean(), 1.0, services.var() / services.mean() ** 2)
        kept = fixed(arrivals, services, slots, 1, 1, allowed=1.0).slo_share
        assert promised > 0.9
        assert kept < promised - 0.2
    # the same requests, spread evenly, keep what the formula promises
    even = np.sort(np.random.default_rng(5).uniform(0, 3500, len(arrivals)))
    for slots in (6, 8):
        promised = 1 - late(services.sum() / 3500, slots, services.mean(), 1.0, services.var() / services.mean() ** 2)
        assert fixed(even, services, slots, 1, 1, allowed=1.0).slo_share == pytest.approx(promised, abs=0.02)


def test_a_burst_at_nine_is_seen_and_answered_after_a_cold_start():
    quick, slow = (drawn().replay(np.ones(24, dtype=int), A.model_copy(update={"cold_start_seconds": float(cold)})) for cold in (30, 600))
    assert slow.slo_share < quick.slo_share
    worst = slow.hours["slo_share"].idxmin()
    assert worst == 9
    calm = drawn(1.0).replay(np.ones(24, dtype=int), A)
    assert calm.slo_share > slow.slo_share
    before, inside = slow.minutes["serving_replicas"][530], slow.minutes["serving_replicas"][560:570].max()
    assert inside > 2 * before


def test_laws_of_the_knobs():
    def share(**change):
        return drawn().replay(np.ones(24, dtype=int), A.model_copy(update=change)).slo_share

    assert share(warm_replicas=3) >= share()
    assert share(headroom_share=0.4) >= share()
    assert share(spare_replicas=3) >= share()
    assert share(cold_start_seconds=0.0) >= share(cold_start_seconds=300.0)
    assert share(quota_accelerators=12) <= share()


def test_schedule_before_the_hour_saves_the_hour():
    hours = np.array([1] * 6 + [4] * 12 + [2] * 6)
    scheduled = drawn(1.0).replay(hours, A, reactive=False)
    late = drawn(1.0).replay(np.ones(24, dtype=int), A)
    assert scheduled.hours["slo_share"][6] >= late.hours["slo_share"][6]
    # ordered a cold start ahead, so it serves from the first minute of its hour; it leaves when the window of scaling down has passed
    assert scheduled.minutes["serving_replicas"][[355, 360, 1079, 1090]].tolist() == [1, 4, 4, 2]


def test_quota_is_never_exceeded_and_paid_hours_add_up():
    found = drawn().replay(np.ones(24, dtype=int), A.model_copy(update={"quota_accelerators": 8}))
    assert found.minutes["paid_replicas"].max() <= 4
    assert found.minutes["serving_replicas"].max() <= 4
    assert found.accelerator_hours == pytest.approx(found.minutes["paid_replicas"].sum() / 60 * 2, rel=1e-4)
    assert found.hours["requests"].sum() == found.requests
    with pytest.raises(CapplanError, match="quota_accelerators"):
        drawn().replay(np.ones(24, dtype=int), A.model_copy(update={"quota_accelerators": 1}))


def test_admission_keeps_the_admitted_on_time():
    tight = {"quota_accelerators": 8}
    queued, shed, routed = (
        drawn().replay(np.ones(24, dtype=int), A.model_copy(update={**tight, "admission_rule": rule}))
        for rule in ("queue", "shed", "route")
    )
    assert queued.shed_share == queued.routed_share == 0
    assert shed.shed_share > 0
    assert routed.routed_share == pytest.approx(shed.shed_share)
    assert shed.slo_share >= queued.slo_share
    assert routed.slo_share == pytest.approx(shed.slo_share + shed.shed_share)
    assert shed.hours["wait_p95_seconds"].max() <= 2 * A.admission_wait_seconds < queued.hours["wait_p95_seconds"].max()
    # the smaller model's time is paid for
    assert routed.accelerator_hours > shed.accelerator_hours


def test_the_same_seed_draws_the_same_day():
    one, two = (drawn().replay(np.ones(24, dtype=int), A) for _ in range(2))
    pd.testing.assert_frame_equal(one.hours, two.hours)
    assert drawn(a=A.model_copy(update={"seed": 8})).arrivals_seconds[0] != drawn().arrivals_seconds[0]


def test_many_requests_are_drawn_in_packs(monkeypatch):
    whole = drawn().replay(np.full(24, 3), A)
    monkeypatch.setattr(autoscale, "MOST_REQUESTS", 30_000)
    packed = drawn()
    assert packed.weight > 1
    found = packed.replay(np.full(24, 3), A)
    assert found.requests == pytest.approx(whole.requests, rel=0.01)
    assert found.accelerator_hours == pytest.approx(whole.accelerator_hours, rel=0.1)
    assert "stands for" in found.notes[0]


def test_very_large_fleets_are_replayed_in_part(monkeypatch):
    whole = drawn().replay(np.full(24, 6), A, reactive=False)
    monkeypatch.setattr(autoscale, "MOST_REQUESTS", 6_000)
    part = drawn()
    assert (part.weight, part.cells) == (10, 2)
    found = part.replay(np.full(24, 6), A, reactive=False)
    assert found.accelerator_hours == pytest.approx(whole.accelerator_hours)
    assert found.requests == pytest.approx(whole.requests, rel=0.02)
    assert found.hours["replicas"].tolist() == [6] * 24
    assert "equal parts" in found.notes[1]


def test_a_trace_too_long_for_its_requests_is_refused():
    with pytest.raises(CapplanError, match="replay a part"):
        autoscale.Day(np.array([1.0]), np.array([0.2]), 1, 1, 1.0).replay(np.ones(8760, dtype=int), A)


def test_rates_keep_the_total_of_each_hour_and_arrivals_their_burstiness():
    rates = traffic.minute_rates(DAY)
    assert (rates.reshape(24, 60).sum(axis=1) * 60).tolist() == pytest.approx(DAY["requests"].tolist())
    assert traffic.minute_rates(DAY, 3.0, 9, 30.0)[540:570].tolist() == pytest.approx((3 * rates[540:570]).tolist())
    flat = np.full(600, 10.0)
    for cv2 in (0.0, 1.0, 4.0):
        arrivals = traffic.drawn_arrivals(flat, cv2, np.random.default_rng(2))
        assert len(arrivals) == pytest.approx(360_000, rel=0.01)
        gaps = np.diff(arrivals)
        assert gaps.var() / gaps.mean() ** 2 == pytest.approx(cv2, rel=0.05, abs=1e-6)
    assert len(traffic.drawn_arrivals(np.zeros(60), 1.0, np.random.default_rng(2))) == 0


def test_no_traffic_keeps_one_replica_and_loses_nobody():
    found = autoscale.Day(np.empty(0), np.empty(0), 10, 2, 1.0).replay(np.zeros(3), A)
    assert (found.slo_share, found.requests) == (1.0, 0.0)
    assert found.accelerator_hours == pytest.approx(3 * 2)


@pytest.mark.parametrize(
    ("arrivals", "floor", "message"),
    [([2.0, 1.0], [1], "ascending"), ([1.0, 5000.0], [1], "for each hour"), ([1.0, 2.0], [], "floor"), ([1.0, 2.0], [-1], "floor")],
)
def test_a_wrong_trace_is_refused(arrivals, floor, message):
    with pytest.raises(CapplanError, match=message):
        autoscale.Day(np.array(arrivals), np.ones(2), 1, 1, 1.0).replay(np.array(floor), A)


def test_busiest_day_is_a_whole_one():
    times = pd.date_range("2027-01-01 12:00", periods=60, freq="h")
    frame = pd.DataFrame({"hour": times, "requests": np.arange(60.0)})
    assert traffic.busiest_day(frame)["requests"].tolist() == list(np.arange(36.0, 60.0))
    with pytest.raises(CapplanError, match="complete day"):
        traffic.busiest_day(frame.head(10))
