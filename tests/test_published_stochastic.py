"""Published two-stage programs through the public solver: farmer, LandS, newsvendor."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from capplan.optimize.two_stage import TwoStage, solve_two_stage

TRUTH = Path("/work/shared/truth/07_commitments_stochastic.csv")
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


def test_lands():
    solution = solve_two_stage(lands())
    assert solution.upper == pytest.approx(381.853333333333, rel=1e-9)
    assert solution.x == pytest.approx([8 / 3, 4, 10 / 3, 2], abs=1e-6)


def test_newsvendor_discrete():
    solution = solve_two_stage(newsvendor())
    assert (solution.upper, solution.x[0]) == (pytest.approx(-145, abs=1e-9), 30)


@pytest.mark.skipif(not TRUTH.exists(), reason="the table of published figures is not on this machine")
def test_figures_of_the_published_table():
    rows = {row["id"]: row["value"] for row in csv.DictReader(TRUTH.open())}
    assert -solve_two_stage(farmer()).upper == pytest.approx(float(rows["farmer_RP"]), rel=1e-6)
    assert solve_two_stage(lands()).upper == pytest.approx(float(rows["lands_RP"]), rel=1e-6)
    assert solve_two_stage(newsvendor()).upper == pytest.approx(float(rows["newsvendor_disc"]), rel=1e-6)
