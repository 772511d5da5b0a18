"""Latency budgets: sums of distributions against closed forms and sampling, and the part that breaks a target."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError
from capplan.questions.serving import latency
from capplan.questions.serving.latency import NO_WAIT, NOTHING, Machine, Phase, Wait
from tests.cases import queues

WAY = [("network", 0.04, 0.09), ("retrieval", 0.15, 0.4), ("guardrails", 0.05, 0.12)]
PARTS = pd.DataFrame([{"surface": "window", "part": part, "median_seconds": median, "p95_seconds": high} for part, median, high in WAY])
SURFACE = {"surface": "window", "workload": "chat", "measure": "first_token", "target_seconds": 2.0, "target_share": 0.95}
QUICK = Machine(Phase(0.4, 0.3), Phase(6.0, 0.1))


def budget(machine=QUICK, wait=NO_WAIT, best=None, **change):
    surfaces = pd.DataFrame([{**SURFACE, **change}])
    return latency.latency_budget(surfaces, PARTS, {"chat": machine}, {"chat": wait}, {"chat": best or machine})


def test_one_part_is_its_own_quantile():
    for share, z in ((0.5, 0.0), (0.9, 1.2815515655446004), (0.95, 1.6448536269514722), (0.99, 2.3263478740408408)):
        found = latency.surface_time([("network", 0.1, 0.3)], NO_WAIT, Machine(NOTHING, NOTHING), share).seconds
        assert found == pytest.approx(0.1 * math.exp(math.log(3) / 1.6448536269514722 * z), rel=2e-3)


def test_the_wait_alone_is_erlangs():
    wait = Wait.of_queue(17.0, 20, 2.0, 1.0, 1.0)
    found = latency.surface_time([], wait, Machine(Phase(0.3), NOTHING), 0.95).seconds
    assert found - 0.3 == pytest.approx(queues.wait_quantile(0.95, 17.0, 20, 2.0), rel=2e-3)
    assert latency.surface_time([], wait, Machine(NOTHING, NOTHING), 0.5).seconds == pytest.approx(0.0, abs=2e-3)


def test_sums_agree_with_sampling():
    rng = np.random.default_rng(0)
    count, wait, machine = 1_000_000, Wait(0.3, 0.5), Machine(Phase(0.3, 0.5), NOTHING)
    drawn = sum(median * np.exp(rng.standard_normal(count) * math.log(high / median) / latency.Z_95) for _, median, high in WAY)
    drawn += machine.prefill.median_seconds * np.exp(rng.standard_normal(count) * 0.5)
    drawn += np.where(rng.random(count) < 0.3, rng.exponential(0.5, count), 0.0)
    for share in (0.5, 0.9, 0.95, 0.99):
        assert latency.surface_time(WAY, wait, machine, share).seconds == pytest.approx(np.quantile(drawn, share), rel=0.006)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 2), st.floats(0, 0.8), st.floats(0, 0.9), st.floats(0.01, 3))
def test_whole_lies_below_the_sum_of_95th_percentiles_and_grows_with_each_part(prefill, width, waiting, mean):
    machine, wait = Machine(Phase(prefill, width), NOTHING), Wait(waiting, mean)
    found = latency.surface_time(WAY, wait, machine, 0.95)
    highest = sum(high for _, _, high in found.parts)
    assert found.seconds <= highest * 1.01 + 0.5 * mean
    assert latency.surface_time([*WAY, ("voice", 0.2, 0.2)], wait, machine, 0.95).seconds == pytest.approx(found.seconds + 0.2)
    assert latency.surface_time(WAY[:2], wait, machine, 0.95).seconds < found.seconds
    assert latency.surface_time(WAY, NO_WAIT, machine, 0.95).seconds <= found.seconds * (1 + 2e-3)


@pytest.mark.parametrize(
    ("change", "wait", "best", "part", "any_hardware"),
    [
        ({}, NO_WAIT, None, "", True),
        ({"target_seconds": 0.3}, NO_WAIT, None, "retrieval", False),
        ({"target_seconds": 0.9}, NO_WAIT, None, "prefill", False),
        ({"target_seconds": 0.9}, NO_WAIT, Machine(Phase(0.1), NOTHING), "prefill", True),
        ({"target_seconds": 3.0, "measure": "whole_answer"}, NO_WAIT, None, "decode", False),
        ({"target_seconds": 1.5}, Wait(0.9, 3.0), None, "queue", True),
    ],
)
def test_the_part_that_breaks_is_named(change, wait, best, part, any_hardware):
    found = budget(wait=wait, best=best, **change)
    row = found.surfaces.iloc[0]
    assert row["breaks_at"] == part
    assert row["met"] == (part == "")
    assert row["any_hardware"] == any_hardware
    assert part in found.headline
    assert row["over_seconds"] == pytest.approx(max(0.0, row["seconds"] - row["target_seconds"]))


def test_parts_are_shown_with_what_they_take():
    found = budget(measure="whole_answer", target_seconds=10.0)
    assert found.parts["part"].tolist() == ["network", "retrieval", "guardrails", "queue", "prefill", "decode"]
    assert found.parts["inside"].tolist() == [False, False, False, True, True, True]
    assert found.parts["target_share"].tolist() == pytest.approx((found.parts["mean_seconds"] / 10).tolist())
    assert "decode" not in set(budget().parts["part"])
    assert "No surface" in latency.latency_budget(pd.DataFrame(columns=list(SURFACE)), PARTS, {}, {}).headline


def test_bad_parts_are_refused():
    with pytest.raises(CapplanError, match="95th percentile"):
        latency.surface_time([("network", 0.2, 0.1)], NO_WAIT, QUICK, 0.95)
    with pytest.raises(CapplanError, match=r"95 % is 0\.95"):
        latency.surface_time(WAY, NO_WAIT, QUICK, 95)
    with pytest.raises(CapplanError, match="no operating point"):
        budget(workload="other")
    with pytest.raises(CapplanError, match="never stops growing"):
        Wait.of_queue(20.0, 20, 1.0, 1.0, 1.0)


def test_machine_of_a_point():
    point = pd.Series({"first_token_seconds": 0.4, "token_seconds": 0.02, "first_token_width": 0.3})
    machine = Machine.of_point(point, 101)
    assert machine.prefill.mean_seconds == 0.4
    assert machine.decode.mean_seconds == pytest.approx(2.0)
    assert machine.decode.p95_seconds == pytest.approx(2.0)
    assert machine.prefill.median_seconds < 0.4 < machine.prefill.p95_seconds
