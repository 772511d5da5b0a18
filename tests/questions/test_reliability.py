"""Closed forms of lost work: published figures, the simulation's confidence band, limits and laws."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.goodput import Checkpoints, simulate_failures
from capplan.questions.reliability import optimum_interval, time_shares, useful_share, young_interval
from tests.cases.closed_forms import daly_interval
from tests.conftest import reference_file

#: Interval, write, restart (hours) and interruptions in an hour: a small fleet, Llama 3's, and one that fails all the time.
CASES = [(1.0, 5 / 60, 0.25, 1 / 24), (0.1817, 20 / 3600, 5 / 60, 1 / 3.093), (0.2683, 1 / 60, 0.2, 1 / 2.34), (0.5, 0.1, 0.4, 1.0)]


def truth() -> pd.DataFrame:
    return pd.read_csv(reference_file("truth", "02_reliability.csv")).set_index("id")


def test_published_intervals():
    rows = truth()
    exact = rows[rows.index.str.startswith("ckpt_exact_")]
    assert len(exact) == 5
    for name, row in exact.iterrows():
        delta, mean = map(float, name.split("_")[-2:])
        young, less, daly = (
            float(re.search(f"{word} ([0-9.]+)", row["inputs"]).group(1)) for word in ("Young", "Young-delta", "higher order")
        )
        # The mean is rounded to a second in the names of the rows.
        assert optimum_interval(delta, mean) == pytest.approx(float(row["value"]), rel=2e-5)
        assert young_interval(delta, mean) == pytest.approx(young, rel=2e-5)
        assert daly_interval(delta, mean, order=1) == pytest.approx(less, rel=2e-5)
        assert daly_interval(delta, mean) == pytest.approx(daly, rel=2e-5)
    for name, row in rows[rows.index.str.match(r"ckpt_[0-9.]+h_M")].iterrows():
        delta, mean = (float(re.search(f"{word}=([0-9.]+)", row["inputs"]).group(1)) for word in ("delta", "M"))
        assert young_interval(delta, mean) == pytest.approx(float(row["value"]), rel=1e-3), name
        assert daly_interval(delta, mean) == pytest.approx(float(re.search(r"Daly ([0-9.]+)", row["unit"]).group(1)), rel=1e-3), name
    assert young_interval(28.0, 4.1379 * 3600) / 60 == pytest.approx(float(rows.loc["young_cs249r", "value"]), rel=1e-3)


@pytest.mark.parametrize(("delta", "mean"), [(28.0, 14896.0), (600.0, 7200.0), (7200.0, 3600.0), (1e-3, 1e6)])
def test_the_exact_interval_is_the_minimum_of_the_exact_cost(delta, mean):
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(
        lambda log: -time_shares(np.exp(log), delta, 5.0, 1 / mean)["progress"],
        bounds=(np.log(delta / 100), np.log(50 * mean)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert optimum_interval(delta, mean) == pytest.approx(float(np.exp(best.x)), rel=1e-3)


def test_the_exact_interval_where_lamberts_w_loses_its_digits():
    shares = np.geomspace(1e-12, 1e-2, 60)
    exact = optimum_interval(2 * shares, np.ones(60))
    assert (np.diff(exact) > 0).all()
    assert exact == pytest.approx(daly_interval(2 * shares, np.ones(60)), rel=2e-4)
    assert optimum_interval(30.0, float("inf")) == float("inf")


def test_expected_ettr_as_published():
    # E[ETTR] = (1 - N r (u0 + dt/2)) / (1 + w/dt), by hand for 1,024 nodes at 6.5 failures in 1,000 node-days, 60 s writes, 5 min restarts.
    rate = 1024 * 6.5e-3 / 24
    interval = young_interval(1 / 60, 1 / rate)
    by_hand = (1 - rate * (5 / 60 + interval / 2)) / (1 + 1 / 60 / interval)
    assert useful_share(rate, 5 / 60 + interval / 2, 1 / 60, interval) == pytest.approx(by_hand, rel=1e-12)
    # A blocking write of 60 s at one failure in 2.34 h costs about 12 %: an ETTR above 0.9 is out of reach.
    overhead = float(truth().loc["netcap_check", "value"])
    assert np.sqrt(2 / 60 / 2.34) == pytest.approx(overhead, abs=0.005)
    interval = young_interval(1 / 60, 2.34)
    assert 1 - useful_share(1 / 2.34, interval / 2, 1 / 60, interval) == pytest.approx(overhead, abs=0.012)
    assert time_shares(optimum_interval(1 / 60, 2.34), 1 / 60, 0.0, 1 / 2.34)["progress"] < 0.9


def test_ettr_is_the_exact_share_to_first_order():
    for size in (1e-3, 1e-5):
        rate, interval, write, restart = size, 0.5, 0.01, 0.1
        exact = time_shares(interval, write, restart, rate)["progress"]
        assert useful_share(rate, restart + interval / 2, write, interval) == pytest.approx(exact, abs=2 * size * write + size**2)


def test_the_share_is_one_less_what_interruptions_cost_and_checkpoints_take():
    for interval, write, restart, rate in CASES:
        shares = time_shares(interval, write, restart, rate)
        assert sum(shares[name] for name in ("progress", "checkpoints", "rework", "restarts")) == pytest.approx(1, abs=1e-12)
        assert useful_share(rate, shares["lost_hours"]) - shares["checkpoints"] == pytest.approx(shares["progress"], rel=1e-12)
        whole = np.exp(rate * restart) * np.expm1(rate * (interval + write)) / rate
        assert shares["progress"] == pytest.approx(interval / whole, rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_closed_form_lies_in_the_band_of_the_simulation(case):
    interval, write, restart, rate = case
    played = simulate_failures(400 / rate * 0.4, Checkpoints(interval, write, restart), rate, runs=60, seed=5)
    paid = played["paid_hours"].sum()
    shares = time_shares(interval, write, restart, rate)
    for name, values in (
        ("progress", played["paid_hours"] * played["progress_share"]),
        ("checkpoints", played["checkpoints"] * write),
        ("rework", played["rework_hours"]),
        ("restarts", played["restart_hours"]),
    ):
        ratio = values.sum() / paid
        # 99.9 % band of a ratio of sums over independent runs.
        half = 3.29 * np.sqrt(((values - ratio * played["paid_hours"]) ** 2).sum()) / paid
        assert abs(shares[name] - ratio) <= half + 1e-12, name
        assert half < 0.02, "the band tells something"
    assert played["failures"].sum() / paid == pytest.approx(rate, rel=0.05)


def test_the_simulation_against_a_plain_loop():
    """The jump over whole intervals is the same as walking minute by minute through work, writes and restarts."""
    for seed in range(5):
        played = simulate_failures(3.0, Checkpoints(0.5, 0.05, 0.2), 0.8, runs=1, seed=seed).iloc[0]
        rng, saved, paid, failures, rest = np.random.default_rng(seed), 0.0, 0.0, 0, 0.0
        while saved < 3.0 - 1e-9:
            gap, clock, unsaved = rng.weibull(1.0) / 0.8, rest, 0.0
            while saved < 3.0 - 1e-9 and clock + min(0.5, 3.0 - saved) + 0.05 <= gap:
                clock += min(0.5, 3.0 - saved) + 0.05
                saved += min(0.5, 3.0 - saved)
            if saved < 3.0 - 1e-9:
                failures, clock, rest = failures + 1, gap, 0.2
            paid += clock + unsaved
        assert played["paid_hours"] == pytest.approx(paid, rel=1e-9)
        assert played["failures"] == failures


def test_llama3_counts_and_effective_time():
    rate = 419 / (54 * 24)
    assert 1 / rate == pytest.approx(3.093, abs=1e-3)
    # Its authors report more than 90 % of the time as training; the defaults of 30 s writes and 5 min restarts give it.
    assert time_shares(optimum_interval(30 / 3600, 1 / rate), 30 / 3600, 5 / 60, rate)["progress"] >= 0.9


def test_no_failures_and_failures_without_end():
    quiet = time_shares(0.5, 0.1, 1.0, 0.0)
    assert quiet["progress"] == pytest.approx(0.5 / 0.6)
    assert time_shares(np.inf, 0.1, 1.0, 0.0)["progress"] == 1.0
    assert time_shares(100.0, 0.1, 1.0, 50.0)["progress"] == 0.0
    steps = time_shares(0.5, 0.1, 0.2, np.geomspace(1e-12, 1e2, 200))["progress"]
    assert (np.diff(steps) <= 1e-12).all()
    assert steps[0] == pytest.approx(quiet["progress"], rel=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: young_interval(0.0, 10.0), "checkpoint write time must be above 0"),
        (lambda: optimum_interval(10.0, -1.0), "mean time between failures must be above 0"),
        (lambda: time_shares(np.inf, 0.1, 0.1, 0.1), "without checkpoints never ends"),
        (lambda: simulate_failures(0.0, Checkpoints(1.0, 0.1, 0.1), 0.1), "work_hours"),
        (lambda: simulate_failures(10.0, Checkpoints(1.0, 0.1, -0.1), 0.1), "restart_hours"),
        (lambda: simulate_failures(10.0, Checkpoints(5.0, 0.1, 5.0), 20.0, runs=1), "failures come faster than checkpoints"),
    ],
)
def test_what_has_no_answer(call, words):
    with pytest.raises(CapplanError, match=words):
        call()
