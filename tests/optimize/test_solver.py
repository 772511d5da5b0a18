"""The door to the solver: matrices, status, scale, shadow prices and infeasibility."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from capplan.errors import SolveError
from capplan.optimize.infeasible import explain_infeasibility
from capplan.optimize.solver import Arrays, InfeasibleError, UnboundedError, arrays, solve, solve_arrays


def knapsack() -> pulp.LpProblem:
    """Six machines, power for some of them; the optimum is 23 by enumeration."""
    model = pulp.LpProblem("machines", pulp.LpMaximize)
    lots = [model.add_variable(f"lots_{i}", 0, 2, "Integer") for i in range(3)]
    model += 5 * lots[0] + 4 * lots[1] + 3 * lots[2] + 2
    model += 2 * lots[0] + 3 * lots[1] + lots[2] <= 10, "power"
    model += 4 * lots[0] + lots[1] + 2 * lots[2] <= 13, "space"
    return model


def test_a_pulp_model_is_solved_and_carries_the_values():
    model = knapsack()
    solved = solve(model)
    brute = max(
        5 * a + 4 * b + 3 * c + 2
        for a in range(3)
        for b in range(3)
        for c in range(3)
        if 2 * a + 3 * b + c <= 10 and 4 * a + b + 2 * c <= 13
    )
    assert (solved.objective, solved.bound, solved.status) == (brute, brute, "optimal")
    assert pulp.value(model.objective) == brute
    assert solved.duals is None


def test_matrices_keep_names_and_senses():
    model = arrays(knapsack())
    assert model.names == ("lots_0", "lots_1", "lots_2")
    assert model.row_names == ("power", "space")
    assert (model.sign, model.offset) == (-1, -2)


def test_an_infeasible_model_has_no_values():
    model = knapsack()
    solve(model)
    model += model.variables()[0] >= 3, "minimum"
    with pytest.raises(InfeasibleError, match="explain_infeasibility"):
        solve(model)
    assert all(variable.value() is None for variable in model.variables())


def test_an_unbounded_model_is_told_from_an_infeasible_one():
    model = pulp.LpProblem("earn", pulp.LpMaximize)
    x = model.add_variable("x", 0)
    model += x
    with pytest.raises(UnboundedError, match="without end"):
        solve(model)


def test_crossed_bounds_name_the_variable():
    model = replace(arrays(knapsack()), lower=np.array([0.0, 3.0, 0.0]))
    with pytest.raises(InfeasibleError, match="lots_1 must be at least 3 and at most 2"):
        solve_arrays(model)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [("c", np.array([1.0, np.nan, 0.0]), "not finite"), ("sense", np.array(["<", "~"]), "row sense"), ("b", np.zeros(3), "shape")],
)
def test_matrices_that_cannot_be_meant_are_refused(part, value, message):
    with pytest.raises(SolveError, match=message):
        solve_arrays(replace(arrays(knapsack()), **{part: value}))


def hard_model(size=40) -> Arrays:
    rng = np.random.default_rng(1)
    weights = rng.integers(20, 100, (6, size)).astype(float)
    return Arrays(
        -rng.integers(20, 100, size).astype(float),
        sparse.csr_matrix(weights),
        weights.sum(axis=1) / 3,
        np.array(["<"] * 6),
        np.zeros(size),
        np.ones(size),
        np.ones(size, dtype=bool),
    )


def test_a_limit_gives_the_incumbent_with_its_proven_gap():
    solved = solve_arrays(hard_model(), node_limit=1)
    best = solve_arrays(hard_model(), 0.002)
    assert solved.status == "limit"
    assert solved.gap_share > 0
    assert solved.bound <= best.objective + 1e-6
    assert solved.objective >= best.bound - 1e-6


def test_the_gap_is_proven_and_labelled():
    solved = solve_arrays(hard_model(), 0.05)
    assert solved.status in ("gap", "optimal")
    assert solved.gap_share <= 0.05
    assert (solved.status == "optimal") == (solved.gap_share <= 1e-9)


def test_equal_input_gives_equal_output():
    first, second = (solve_arrays(hard_model(), 0.01) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_duals_follow_strong_duality_and_the_reference_solver(seed):
    rng = np.random.default_rng(seed)
    A = rng.uniform(0, 2, (4, 6)) * 10.0 ** rng.integers(-5, 5, (4, 1)) * 10.0 ** rng.integers(-3, 3, (1, 6))
    b = A @ rng.uniform(0, 1, 6)
    c = rng.uniform(0.1, 2, 6)
    solved = solve_arrays(Arrays(c, sparse.csr_matrix(A), b, np.array([">"] * 4), np.zeros(6), np.full(6, np.inf), np.zeros(6, dtype=bool)))
    size = np.abs(A).max(axis=1)
    reference = linprog(c, A_ub=-A / size[:, None], b_ub=-b / size, method="highs")
    assert solved.objective == pytest.approx(reference.fun, rel=1e-7)
    assert b @ solved.duals == pytest.approx(solved.objective, rel=1e-7)
    assert (A @ solved.x >= b - 1e-7 * np.abs(b)).all()
    assert solved.reduced_costs == pytest.approx(c - A.T @ solved.duals, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("money", [1.0, 1e9, 1e-9])
def test_1e9_beside_1_in_one_model(money):
    """Two machines: a share of a huge site, and a tiny part that decides between them. Optimum by hand: site 0.7, part 2."""
    A = sparse.csr_matrix(np.array([[1e9, 0.0], [1.0, 1e-9], [0.0, 1.0]]))
    model = Arrays(
        np.array([3e9, 1.0]) * money,
        A,
        np.array([7e8, 0.7 + 2e-9, 1.5]),
        np.array([">", ">", ">"]),
        np.zeros(2),
        np.array([1.0, 1e6]),
        np.array([False, True]),
    )
    solved = solve_arrays(model)
    assert solved.x[1] == 2
    assert solved.x[0] == pytest.approx(0.7, rel=1e-9)
    assert solved.objective == pytest.approx((3e9 * 0.7 + 2) * money, rel=1e-9)


def test_infeasibility_names_the_rows_and_the_amount():
    model = knapsack()
    lots = model.variables()
    model += lots[0] + lots[1] + lots[2] >= 5, "demand"
    model += 10 * lots[0] <= 5, "budget"
    found = explain_infeasibility(model, hard=["power", "space", "demand"])
    assert [(change.row, change.amount) for change in found.changes] == [("budget", pytest.approx(5.0))]
    assert "budget: 5 must be raised by 5" in found.text


def test_infeasibility_of_the_integers_alone_is_found():
    model = pulp.LpProblem("lots")
    lots = model.add_variable("lots", 0, 10, "Integer")
    model += 2 * lots == 5, "exactly_five"
    found = explain_infeasibility(model)
    assert [change.row for change in found.changes] == ["exactly_five"]
    assert found.changes[0].amount == pytest.approx(1.0)


def test_a_feasible_model_needs_no_change():
    assert explain_infeasibility(knapsack()).text == "the model is feasible"


def test_hard_rows_that_clash_are_said_to():
    model = knapsack()
    model += model.variables()[0] >= 3, "minimum"
    with pytest.raises(InfeasibleError, match="clash among themselves"):
        explain_infeasibility(model, hard=["minimum"])


def test_solving_prints_nothing():
    code = "from tests.optimize.test_solver import knapsack; from capplan.optimize.solver import solve; solve(knapsack())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_solvers_that_are_missing_hold_no_calls_in_memory():
    """PuLP keeps the errors of solvers that are not installed; their tracebacks held every table of the call that first imported it."""
    from capplan.optimize import modelling

    errors = [error for value in vars(pulp).values() if isinstance(error := getattr(value, "err", None), BaseException)]
    assert modelling.LpProblem is pulp.LpProblem
    assert all(error.__traceback__ is None for error in errors)
