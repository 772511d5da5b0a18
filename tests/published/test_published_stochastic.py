"""Published two-stage programs through the public solver: farmer, LandS, newsvendor."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from capplan.optimize.two_stage import TwoStage, solve_two_stage
from tests.cases.stochastic_values import value_of_information
from tests.conftest import reference_file

FARMER_YIELDS = ((3.0, 3.6, 24.0), (2.5, 3.0, 20.0), (2.0, 2.4, 16.0))


def farmer(yields=FARMER_YIELDS) -> TwoStage:
    """Birge and Louveaux, Introduction to Stochastic Programming, section 1.1: acres now, trade after the harvest.

    Recourse: buy wheat, buy corn, sell wheat, sell corn, sell beets within the quota, sell beets beyond it.
    """
    count = len(yields)
    recourse = np.array([[1, 0, -1, 0, 0, 0], [0, 1, 0, -1, 0, 0], [0, 0, 0, 0, -1, -1], [0, 0, 0, 0, -1, 0]], dtype=float)
    return TwoStage(
        c=np.array([150.0, 230.0, 260.0]),
        A=sparse.csr_matrix(np.ones((1, 3))),
        b=np.array([500.0]),
        sense=np.array(["<"]),
        lower=np.zeros(3),
        upper=np.full(3, np.inf),
        integer=np.zeros(3, dtype=bool),
        q=np.array([238.0, 210.0, -170.0, -150.0, -36.0, -10.0]),
        W=sparse.csr_matrix(recourse),
        recourse_sense=np.array([">"] * 4),
        T=[sparse.csr_matrix(np.vstack([np.diag(y), np.zeros(3)])) for y in yields],
        technology=np.arange(count),
        h=np.tile([200.0, 240.0, 0.0, -6000.0], (count, 1)),
        weight=np.ones(count),
        scenario=np.arange(count),
        probability=np.full(count, 1 / count),
    )


def lands() -> TwoStage:
    """Louveaux and Smeers (1988), LandS: capacity of four technologies now, operation in three demand modes later."""
    cost = np.array([[40, 24, 4], [45, 27, 4.5], [32, 19.2, 3.2], [55, 33, 5.5]])
    recourse = np.zeros((7, 12))
    for i in range(4):
        recourse[i, 3 * i : 3 * i + 3] = 1
    for j in range(3):
        recourse[4 + j, j::3] = 1
    return TwoStage(
        c=np.array([10.0, 7.0, 16.0, 6.0]),
        A=sparse.csr_matrix(np.array([[1.0, 1, 1, 1], [10, 7, 16, 6]])),
        b=np.array([12.0, 120.0]),
        sense=np.array([">", "<"]),
        lower=np.zeros(4),
        upper=np.full(4, np.inf),
        integer=np.zeros(4, dtype=bool),
        q=cost.ravel(),
        W=sparse.csr_matrix(recourse),
        recourse_sense=np.array(["<"] * 4 + [">"] * 3),
        T=[sparse.csr_matrix(np.vstack([-np.eye(4), np.zeros((3, 4))]))],
        technology=np.zeros(3, dtype=int),
        h=np.array([[0, 0, 0, 0, demand, 3.0, 2.0] for demand in (3.0, 5.0, 7.0)]),
        weight=np.ones(3),
        scenario=np.arange(3),
        probability=np.array([0.3, 0.4, 0.3]),
    )


def newsvendor() -> TwoStage:
    """Buy at 5, sell at 12, salvage at 2; demand 10, 20, 30, 40 with probability .15, .35, .35, .15."""
    return TwoStage(
        c=np.array([5.0]),
        A=sparse.csr_matrix((0, 1)),
        b=np.zeros(0),
        sense=np.zeros(0, dtype="<U1"),
        lower=np.zeros(1),
        upper=np.array([100.0]),
        integer=np.ones(1, dtype=bool),
        q=np.array([-12.0, -2.0]),
        W=sparse.csr_matrix(np.array([[1.0, 0.0], [1.0, 1.0]])),
        recourse_sense=np.array(["<", "="]),
        T=[sparse.csr_matrix(np.array([[0.0], [-1.0]]))],
        technology=np.zeros(4, dtype=int),
        h=np.array([[demand, 0.0] for demand in (10.0, 20.0, 30.0, 40.0)]),
        weight=np.ones(4),
        scenario=np.arange(4),
        probability=np.array([0.15, 0.35, 0.35, 0.15]),
    )


def test_farmer():
    solution = solve_two_stage(farmer())
    assert solution.upper == pytest.approx(-108390, rel=1e-9)
    assert solution.lower == pytest.approx(-108390, rel=1e-9)
    assert solution.x == pytest.approx([170, 80, 250], abs=1e-6)
    value = value_of_information(farmer())
    assert -value.wait_and_see == pytest.approx(115405.5556, rel=1e-9)
    assert -value.mean_value == pytest.approx(118600, rel=1e-9)
    assert -value.mean_value_outcome == pytest.approx(107240, rel=1e-9)
    assert value.evpi == pytest.approx(7015.5556, rel=1e-7)
    assert value.vss == pytest.approx(1150, rel=1e-7)
    assert value.mean_value_x == pytest.approx([120, 80, 300], abs=1e-6)
    assert -value.wait_and_see_by_scenario == pytest.approx([167666.67, 118600, 59950], rel=1e-7)


def test_lands():
    solution = solve_two_stage(lands())
    assert solution.upper == pytest.approx(381.853333333333, rel=1e-9)
    assert solution.x == pytest.approx([8 / 3, 4, 10 / 3, 2], abs=1e-6)
    value = value_of_information(lands())
    assert value.wait_and_see == pytest.approx(380.1666667, rel=1e-9)
    assert value.mean_value == pytest.approx(378.6666667, rel=1e-9)
    assert value.mean_value_outcome == pytest.approx(383.9866667, rel=1e-9)
    assert (value.evpi, value.vss) == (pytest.approx(1.6866667, rel=1e-7), pytest.approx(2.1333333, rel=1e-7))


@pytest.mark.parametrize(("build", "optimum"), [(farmer, -108390), (lands, 381.853333333333), (newsvendor, -145)])
def test_the_l_shaped_method_finds_the_same(build, optimum):
    problem = build()
    problem = replace(problem, upper=np.minimum(problem.upper, 500.0))
    solution = solve_two_stage(problem, gap_share=1e-8, method="l_shaped")
    assert solution.method == "l_shaped"
    assert solution.upper == pytest.approx(optimum, rel=1e-7)
    assert solution.lower == pytest.approx(optimum, rel=1e-7)


def test_newsvendor_discrete():
    solution = solve_two_stage(newsvendor())
    assert (solution.upper, solution.x[0]) == (pytest.approx(-145, abs=1e-9), 30)


def test_figures_of_the_published_table():
    rows = {row["id"]: row["value"] for row in csv.DictReader(reference_file("truth", "07_commitments_stochastic.csv").open())}
    for name, problem, sign in (("farmer", farmer(), -1.0), ("lands", lands(), 1.0)):
        value = value_of_information(problem)
        found = {
            "RP": sign * value.here_and_now,
            "WS": sign * value.wait_and_see,
            "EV": sign * value.mean_value,
            "EEV": sign * value.mean_value_outcome,
            "EVPI": value.evpi,
            "VSS": value.vss,
        }
        for quantity, number in found.items():
            assert number == pytest.approx(float(rows[f"{name}_{quantity}"]), rel=1e-6), quantity
    assert solve_two_stage(newsvendor()).upper == pytest.approx(float(rows["newsvendor_disc"]), rel=1e-6)
