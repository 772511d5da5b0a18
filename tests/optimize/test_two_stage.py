"""Two-stage programs: the extensive form, the L-shaped method, brute force and the laws between them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from capplan.errors import SolveError
from capplan.optimize.bases import BasisStore
from capplan.optimize.bunching import RecourseLibrary
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.l_shaped import LShaped
from capplan.optimize.lattice import nearby, whole_steps
from capplan.optimize.priced import priced_program
from capplan.optimize.program import expected_excess, right_hand_sides, shifts
from capplan.optimize.solver import InfeasibleError, UnboundedError
from capplan.optimize.two_stage import ExpectedRow, TwoStage, blended_cost, risk_weights, solve_two_stage
from capplan.optimize.walk import WAITS


def fleet(seed: int, quarters=3, classes=2, pools=2, blocks=2, scenarios=4, lot=2.0, most=4, purchases=1) -> TwoStage:
    """Lots bought before demand is known; then serve from lots, rent up to a cap, or fall short."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.3, 1.0, (classes, pools))
    rent = rng.uniform(2.0, 4.0, pools)
    columns, q = [], []
    m = classes + 2 * pools
    for c, g in itertools.product(range(classes), range(pools)):
        for row, price in ((classes + g, 0.0), (classes + pools + g, rent[g])):
            column = np.zeros(m)
            column[[c, row]] = speed[c, g], 1.0
            columns.append(column)
            q.append(price)
    for c in range(classes):
        column = np.zeros(m)
        column[c] = 1.0
        columns.append(column)
        q.append(25.0)
    n = quarters * pools * purchases
    points = quarters * scenarios * blocks
    technology = np.repeat(np.arange(quarters), scenarios * blocks)
    T = []
    for t in range(quarters):
        matrix = np.zeros((m, n))
        for j in range(n):
            if j // (pools * purchases) <= t:
                matrix[classes + j % pools, j] = -lot
        T.append(sparse.csr_matrix(matrix))
    h = np.zeros((points, m))
    h[:, :classes] = rng.uniform(0.0, 6.0, (points, classes))
    h[:, classes + pools :] = 1.5
    probability = rng.uniform(0.5, 1.0, scenarios)
    return TwoStage(
        c=rng.uniform(1.0, 2.0, n) * lot * (quarters - np.arange(n) // (pools * purchases)) * 10,
        A=sparse.csr_matrix(np.ones((1, n))),
        b=np.array([float(most) * 1.5]),
        sense=np.array(["<"]),
        lower=np.zeros(n),
        upper=np.full(n, float(most)),
        integer=np.ones(n, dtype=bool),
        q=np.array(q),
        W=sparse.csr_matrix(np.array(columns).T),
        recourse_sense=np.array([">"] * classes + ["<"] * (2 * pools)),
        T=T,
        technology=technology,
        h=h,
        weight=np.full(points, 10.0),
        scenario=np.tile(np.repeat(np.arange(scenarios), blocks), quarters),
        probability=probability / probability.sum(),
    )


def point_costs(problem: TwoStage, x) -> np.ndarray:
    """Recourse cost of every point by a solver of its own."""
    sign = np.where(problem.recourse_sense == "<", 1.0, -1.0)
    rows = problem.W.toarray() * sign[:, None]
    return np.array([linprog(problem.q, A_ub=rows, b_ub=b * sign, method="highs").fun for b in right_hand_sides(problem, x)])


def objective(problem: TwoStage, x, risk_weight: float, tail_share: float) -> float:
    """Cost of a first stage by definition."""
    cost = np.zeros(len(problem.probability))
    np.add.at(cost, problem.scenario, problem.weight * point_costs(problem, x))
    return float(problem.c @ x) + blended_cost(cost, problem.probability, risk_weight, tail_share)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.2, 0.5, 1.0]))
def test_both_methods_equal_brute_force(seed, risk_weight, tail_share):
    problem = fleet(seed, quarters=2, pools=1, scenarios=3, blocks=1, most=3)
    candidates = [np.array(x, dtype=float) for x in itertools.product(range(4), repeat=2) if sum(x) <= 4.5]
    best = min(objective(problem, x, risk_weight, tail_share) for x in candidates)
    for method in ("extensive", "l_shaped"):
        solution = solve_two_stage(problem, risk_weight, tail_share, 1e-8, method=method)
        assert solution.upper == pytest.approx(best, rel=1e-7)
        assert solution.lower == pytest.approx(best, rel=1e-7)
        assert objective(problem, solution.x, risk_weight, tail_share) == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("risk_weight", [0.0, 0.3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_l_shaped_agrees_with_the_extensive_form_within_its_bounds(seed, risk_weight):
    problem = fleet(seed, quarters=4, classes=3, pools=3, blocks=3, scenarios=10, most=8)
    wide = solve_two_stage(problem, risk_weight, 0.2, 1e-3, method="l_shaped")
    exact = solve_two_stage(problem, risk_weight, 0.2, 1e-6, method="extensive")
    assert wide.method == "l_shaped"
    assert wide.gap_share <= 1e-3
    slack = 1e-7 * abs(exact.upper)
    assert wide.lower <= exact.upper + slack
    assert exact.lower <= wide.upper + slack
    assert wide.upper == pytest.approx(objective(problem, wide.x, risk_weight, 0.2), rel=1e-7)
    assert np.abs(wide.marginals.reduced_costs).max() > 0


def test_relaxation_gives_the_same_value_and_the_same_marginals():
    problem = replace(fleet(5, quarters=3, scenarios=8), integer=np.zeros(6, dtype=bool), b=np.array([3.0]))
    exact = solve_two_stage(problem, 0.2, 0.25, 1e-8, method="extensive")
    cut = solve_two_stage(problem, 0.2, 0.25, 1e-8, method="l_shaped")
    assert cut.upper == pytest.approx(exact.upper, rel=1e-7)
    assert exact.marginals.rows[0] < 0
    more = solve_two_stage(replace(problem, b=problem.b + 1e-3), 0.2, 0.25, 1e-9, method="extensive")
    assert (more.upper - exact.upper) / 1e-3 == pytest.approx(exact.marginals.rows[0], rel=1e-3)
    assert cut.marginals.rows[0] == pytest.approx(exact.marginals.rows[0], rel=1e-3)


def test_recourse_of_the_answer_serves_every_point():
    problem = fleet(8, scenarios=6)
    for method in ("extensive", "l_shaped"):
        solution = solve_two_stage(problem, 0.2, 0.2, 1e-5, method=method)
        left = solution.recourse @ problem.W.T - right_hand_sides(problem, solution.x)
        assert (np.where(problem.recourse_sense == ">", left, -left) > -1e-6).all()
        assert solution.recourse.min() >= 0
        cost = np.bincount(problem.scenario, problem.weight * (solution.recourse @ problem.q))
        assert cost == pytest.approx(solution.cost_by_scenario, rel=1e-7)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_bunching_equals_one_solve_for_each_point(seed):
    problem = fleet(seed, quarters=2, classes=3, pools=3, scenarios=10)
    x = np.random.default_rng(seed).uniform(0, 2, len(problem.c))
    library = RecourseLibrary(problem.q, problem.W, problem.recourse_sense)
    rhs = right_hand_sides(problem, x)
    found = library.evaluate(rhs, problem.technology)
    assert (found.ray == -1).all()
    assert library.costs(rhs, found.basis) == pytest.approx(point_costs(problem, x), rel=1e-8, abs=1e-8)
    again = library.evaluate(rhs, problem.technology, np.zeros(len(rhs), dtype=int))
    assert library.costs(rhs, again.basis) == pytest.approx(library.costs(rhs, found.basis), rel=1e-9, abs=1e-9)


def test_bases_made_by_pivots_are_what_their_columns_say():
    draw = np.random.default_rng(3)
    m, n = 7, 30
    matrix = np.hstack([draw.uniform(0, 1, (m, n)) * (draw.uniform(size=(m, n)) < 0.5), -np.eye(m)])
    cost = np.concatenate([draw.uniform(1, 9, n), np.zeros(m)])
    store = BasisStore(matrix, cost, cost)
    b = draw.uniform(-1, 5, (400, m))
    basis = np.full(len(b), store.add(np.arange(n, n + m)))
    for _ in range(100):
        basis, row, short = store.settle(basis, b, np.full(len(b), 1e-9), 2)
        assert (short[row >= 0] > 0).all()
        if (row != WAITS).all():
            break
    assert (row != WAITS).all()
    assert store.count > 50
    assert store.updates[: store.count].max() > 3
    for number in range(store.count):
        inverse = np.linalg.inv(matrix[:, store.columns[number]])
        assert store.values(np.full(m, number), np.eye(m)) == pytest.approx(inverse.T, abs=1e-9)
        assert store.duals[number] == pytest.approx(cost[store.columns[number]] @ inverse, abs=1e-9)
        assert (cost - store.duals[number] @ matrix >= -1e-9).all()
    values = store.values(basis, b)
    assert values.min() >= -1e-9


def test_bunching_with_equalities_and_earnings():
    q, W = np.array([-12.0, -2.0]), sparse.csr_matrix(np.array([[1.0, 0.0], [1.0, 1.0]]))
    library = RecourseLibrary(q, W, np.array(["<", "="]))
    rhs = np.array([[10.0, 30.0], [40.0, 30.0], [5.0, 0.0]])
    found = library.evaluate(rhs, np.zeros(3, dtype=int))
    assert library.costs(rhs, found.basis) == pytest.approx([-160.0, -360.0, 0.0])
    assert library.decisions(rhs, found.basis).toarray() == pytest.approx(np.array([[10.0, 20.0], [30.0, 0.0], [0.0, 0.0]]))


def test_unbounded_recourse_is_refused():
    with pytest.raises(UnboundedError, match="without end"):
        RecourseLibrary(np.array([-1.0]), sparse.csr_matrix(np.array([[1.0]])), np.array([">"]))


@pytest.mark.parametrize("method", ["extensive", "l_shaped"])
def test_incomplete_recourse_forces_the_first_stage(method):
    problem = fleet(3)
    served = replace(problem, q=problem.q[:-2], W=problem.W[:, :-2], h=problem.h * np.array([0.7, 0.7, 1, 1, 1, 1]))
    solution = solve_two_stage(served, 0.0, 0.2, 1e-7, method=method)
    assert solution.upper == pytest.approx(objective(served, solution.x, 0.0, 0.2), rel=1e-7)
    with pytest.raises(InfeasibleError):
        solve_two_stage(replace(served, upper=served.upper * 0, h=served.h * np.array([3, 3, 1, 1, 1, 1])), method=method)


def test_both_methods_agree_where_recourse_is_incomplete():
    problem = fleet(3)
    served = replace(problem, q=problem.q[:-2], W=problem.W[:, :-2], h=problem.h * np.array([0.7, 0.7, 1, 1, 1, 1]))
    values = [solve_two_stage(served, 0.3, 0.2, 1e-7, method=method).upper for method in ("extensive", "l_shaped")]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_cvar_is_the_mean_of_the_worst_share():
    problem = fleet(11, scenarios=5)
    problem = replace(problem, probability=np.full(5, 0.2))
    solution = solve_two_stage(problem, 1.0, 0.4, 1e-8)
    worst = np.sort(solution.cost_by_scenario)[-2:].mean()
    assert solution.upper == pytest.approx(float(problem.c @ solution.x) + worst, rel=1e-8)


def test_more_weight_on_bad_cases_never_worsens_cvar():
    problem = fleet(12, scenarios=8)
    neutral, averse = (solve_two_stage(problem, w, 0.25, 1e-8) for w in (0.0, 1.0))
    tail = [float(problem.c @ s.x) + blended_cost(s.cost_by_scenario, problem.probability, 1.0, 0.25) for s in (neutral, averse)]
    assert tail[1] <= tail[0] + 1e-6


def test_warm_start_gives_the_same_bounds_from_kept_cuts():
    problem = fleet(4, quarters=4, classes=3, pools=3, blocks=3, scenarios=10, most=8)
    first = solve_two_stage(problem, 0.2, 0.2, 1e-4, method="l_shaped")
    for changed in (problem, replace(problem, c=problem.c * 1.1), replace(problem, h=problem.h * 1.05)):
        cold = solve_two_stage(changed, 0.5, 0.2, 1e-4, method="l_shaped")
        warm = solve_two_stage(changed, 0.5, 0.2, 1e-4, method="l_shaped", warm=first.warm)
        slack = 1e-8 * abs(cold.upper)
        assert warm.gap_share <= 1e-4
        assert warm.lower <= cold.upper + slack
        assert cold.lower <= warm.upper + slack


def test_same_input_gives_the_same_answer():
    problem = fleet(9, quarters=4, classes=3, pools=3, scenarios=12)
    first, second = (solve_two_stage(problem, 0.3, 0.2, 1e-4, method="l_shaped") for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()
    assert (first.lower, first.upper) == (second.lower, second.upper)
    assert first.recourse.toarray().tobytes() == second.recourse.toarray().tobytes()


@pytest.mark.parametrize("method", ["automatic", "l_shaped"])
def test_expected_row_caps_spend(method):
    problem = fleet(6, scenarios=6)
    spend = np.where(problem.q < 20, problem.q, 0.0)
    points = np.ones(len(problem.technology), dtype=bool)
    free = solve_two_stage(problem, 0.0, 0.2, 1e-7)
    weight = problem.probability[problem.scenario] * problem.weight

    def used(solution):
        return float(problem.c @ solution.x + weight @ (solution.recourse @ spend))

    loose = replace(problem, expected=(ExpectedRow(problem.c, spend, points, problem.weight, used(free) * 1.01),))
    tight = replace(problem, expected=(ExpectedRow(problem.c, spend, points, problem.weight, used(free) * 0.6),))
    assert solve_two_stage(loose, 0.0, 0.2, 1e-7, method=method).upper == pytest.approx(free.upper, rel=1e-6)
    capped = solve_two_stage(tight, 0.0, 0.2, 1e-7, method=method)
    assert capped.upper > free.upper * 1.01
    assert used(capped) <= used(free) * 0.6 * (1 + 1e-6)
    assert capped.marginals.expected[0] < 0


@pytest.mark.parametrize("risk_weight", [0.0, 0.3])
@pytest.mark.parametrize(("seed", "share"), [(6, 0.9), (6, 0.6), (7, 0.6), (8, 0.9)])
def test_two_budgets_by_mixed_dispatches_equal_the_extensive_form(seed, share, risk_weight):
    problem = fleet(seed, scenarios=6)
    spend = np.where(problem.q < 20, problem.q, 0.0)
    weight = problem.probability[problem.scenario] * problem.weight
    free = solve_two_stage(problem, risk_weight, 0.3, 1e-7)
    used = float(problem.c @ free.x + weight @ (free.recourse @ spend))
    every = np.ones(len(problem.technology), dtype=bool)
    rows = (
        ExpectedRow(problem.c, spend, every, problem.weight, used * share),
        ExpectedRow(problem.c * 0, spend, problem.technology == 1, problem.weight * 0.9, used * share * 0.02),
    )
    capped = replace(problem, expected=rows)
    exact = solve_two_stage(capped, risk_weight, 0.3, 1e-7, method="extensive")
    mixed = solve_two_stage(capped, risk_weight, 0.3, 1e-4, method="l_shaped")
    assert mixed.method == "l_shaped"
    slack = 1e-7 * abs(exact.upper)
    assert mixed.gap_share <= 1e-4
    assert mixed.lower <= exact.upper + slack
    assert exact.lower <= mixed.upper + slack
    assert (expected_excess(capped, mixed.x, mixed.recourse, 1e-6) == 0).all()
    cost = np.bincount(capped.scenario, capped.weight * (mixed.recourse @ capped.q))
    assert cost == pytest.approx(mixed.cost_by_scenario, rel=1e-6)
    left = mixed.recourse @ capped.W.T - right_hand_sides(capped, mixed.x)
    assert (np.where(capped.recourse_sense == ">", left, -left) > -1e-6).all()


def test_a_row_that_counts_no_use_limits_what_is_signed():
    problem = fleet(6, scenarios=6)
    free = solve_two_stage(problem, 0.0, 0.3, 1e-7)
    every = np.ones(len(problem.technology), dtype=bool)
    row = ExpectedRow(problem.c, problem.q * 0, every, problem.weight, float(problem.c @ free.x) * 0.5)
    capped = replace(problem, expected=(row,))
    exact = solve_two_stage(capped, 0.0, 0.3, 1e-7, method="extensive")
    found = solve_two_stage(capped, 0.0, 0.3, 1e-4, method="l_shaped")
    assert found.method == "l_shaped"
    assert exact.upper > free.upper * 1.001
    assert found.lower <= exact.upper * (1 + 1e-7)
    assert found.upper == pytest.approx(exact.upper, rel=1e-4)
    assert float(problem.c @ found.x) <= row.limit * (1 + 1e-7)


def test_a_budget_that_cannot_be_kept_says_what_it_needs():
    problem = fleet(6)
    every = np.ones(len(problem.technology), dtype=bool)
    row = ExpectedRow(problem.c, np.ones(len(problem.q)), every, problem.weight, 1.0)
    with pytest.raises(InfeasibleError, match="needs at least"):
        solve_two_stage(replace(problem, expected=(row,)), method="l_shaped")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": np.array([0.5, 0.2, 0.2, 0.2])}, r"sum to 1\.1"),
        ({"c": np.zeros(3)}, "shape"),
        ({"recourse_sense": np.array(["~"] * 6)}, "use '<', '>' or '='"),
        ({"weight": np.full(24, -1.0)}, "0 or more"),
        ({"technology": np.full(24, 9)}, "technology must name one of 3"),
        ({"q": np.full(10, np.nan)}, "not finite"),
    ],
)
def test_a_program_that_does_not_fit_together_is_refused(change, message):
    with pytest.raises(SolveError, match=message):
        solve_two_stage(replace(fleet(1), **change))


def test_shares_out_of_range_are_refused():
    with pytest.raises(SolveError, match=r"risk_weight is 1\.5"):
        solve_two_stage(fleet(1), 1.5)
    with pytest.raises(SolveError, match="tail_share is 0"):
        solve_two_stage(fleet(1), 0.5, 0.0)


@pytest.mark.parametrize("risk_weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_prices_in_place_of_expected_rows_bound_the_optimum(seed, risk_weight):
    draw = np.random.default_rng(seed)
    problem = fleet(seed, scenarios=5)
    spend = np.where(problem.q < 20, problem.q, 0.0)
    every = np.ones(len(problem.technology), dtype=bool)
    free = solve_two_stage(problem, risk_weight, 0.3, 1e-7)
    weight = problem.probability[problem.scenario] * problem.weight
    used = float(weight @ (free.recourse @ spend))
    # a cap on spend, and a floor under the use of one technology: both signs of coefficients
    rows = (
        ExpectedRow(problem.c, spend, every, problem.weight, float(problem.c @ free.x) + used * 0.7),
        ExpectedRow(problem.c * 0, -spend, problem.technology == 1, problem.weight * 0.9, -used * 0.1),
    )
    whole = replace(problem, expected=rows)
    exact = solve_two_stage(whole, risk_weight, 0.3, 1e-7, method="extensive")
    best = -np.inf
    for _ in range(6):
        price = draw.uniform(0.0, 1.5, 2) * (draw.uniform(size=2) < 0.7)
        cost = draw.uniform(size=5) if draw.uniform() < 0.5 else exact.cost_by_scenario
        weights = risk_weights(cost, whole.probability, risk_weight, 0.3)
        priced, constant = priced_program(whole, price, weights)
        for method in ("extensive", "l_shaped"):
            bound = solve_two_stage(priced, 0.0, 1.0, 1e-7, method=method).lower - constant
            assert bound <= exact.upper + 1e-6 * abs(exact.upper)
        best = max(best, bound)
    assert best > 0.5 * exact.lower


@pytest.mark.parametrize(
    ("seed", "risk_weight", "budget"),
    [*((seed, risk_weight, False) for seed in range(5) for risk_weight in (0.0, 0.3)), (2, 0.0, True), (3, 0.3, True)],
)
def test_use_that_is_wanted_or_paid_for_equals_the_extensive_form(seed, risk_weight, budget):
    """Two floors under what is bought and rented; what is short is paid, or moves to the second. A budget may bind beside them."""
    problem, draw = fleet(seed, scenarios=6), np.random.default_rng(seed)
    spend = np.where(problem.q < 20, problem.q, 0.0)
    weight = problem.probability[problem.scenario] * problem.weight
    free = solve_two_stage(problem, risk_weight, 0.3, 1e-7)
    used = [float((weight * (problem.technology == t)) @ (free.recourse @ spend)) for t in (0, 1)]
    bought = 0.2 * problem.c
    wide = replace(
        problem,
        c=np.append(problem.c, [0.0 if seed % 2 else 0.5, 0.6]),
        A=sparse.hstack([problem.A, sparse.csr_matrix((problem.A.shape[0], 2))]).tocsr(),
        lower=np.append(problem.lower, [0.0, 0.0]),
        upper=np.append(problem.upper, [np.inf, np.inf]),
        integer=np.append(problem.integer, [False, False]),
        T=[sparse.hstack([T, sparse.csr_matrix((T.shape[0], 2))]).tocsr() for T in problem.T],
    )
    floor = [(use + float(bought @ free.x)) * draw.uniform(1.05, 1.6) for use in used]
    rows = [
        ExpectedRow(np.append(-bought, [-1.0, 0.0]), -spend, problem.technology == 0, problem.weight, -floor[0]),
        ExpectedRow(
            np.append(-bought, [1.0 if seed % 2 else 0.0, -1.0]), -spend, problem.technology == 1, problem.weight * 0.95, -floor[1]
        ),
    ]
    if budget:
        most = float(problem.c @ free.x) + float(weight @ (free.recourse @ spend))
        rows.append(ExpectedRow(np.append(problem.c, [0.0, 0.0]), spend, np.ones(len(weight), dtype=bool), problem.weight, 0.95 * most))
    whole = replace(wide, expected=tuple(rows))
    exact = solve_two_stage(whole, risk_weight, 0.3, 1e-7, method="extensive")
    assert exact.upper > free.upper * (1 + 1e-4)
    found = LShaped(whole, risk_weight, 0.3, 1e-2 if budget else 1e-4).solve()
    assert found.lower <= exact.upper * (1 + 1e-7)
    assert exact.lower <= found.upper * (1 + 1e-7)
    assert budget or found.gap_share <= 1e-4
    assert (expected_excess(whole, found.x, found.recourse, 1e-6) == 0).all()
    cost = np.bincount(whole.scenario, whole.weight * (found.recourse @ whole.q))
    assert whole.c @ found.x + blended_cost(cost, whole.probability, risk_weight, 0.3) == pytest.approx(found.upper, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_asks_for_use_is_kept(seed):
    """Rows on use with negative coefficients (a floor instead of a cap) are solved exactly, whatever method is asked for."""
    problem = fleet(seed, scenarios=4)
    spend = np.where(problem.q < 20, problem.q, 0.0)
    weight = problem.probability[problem.scenario] * problem.weight
    free = solve_two_stage(problem, 0.2, 0.3, 1e-7)
    floor = 1.3 * float((weight * (problem.technology == 1)) @ (free.recourse @ spend))
    rows = (
        ExpectedRow(problem.c * 0, -spend, problem.technology == 1, problem.weight, -floor),
        ExpectedRow(problem.c, spend, np.ones(len(problem.technology), dtype=bool), problem.weight, 1e9),
    )
    whole = replace(problem, expected=rows)
    exact = solve_two_stage(whole, 0.2, 0.3, 1e-7, method="extensive")
    assert exact.upper > free.upper
    found = solve_two_stage(whole, 0.2, 0.3, 1e-7, method="l_shaped")
    assert found.lower <= exact.upper + 1e-6 * exact.upper
    assert found.upper == pytest.approx(exact.upper, rel=1e-6)


def test_bases_that_were_let_go_come_back_the_same(monkeypatch):
    """A tight memory limit makes other stores let go of their inverses; costs and duals stay what they were, to the last digit."""
    problem = fleet(5, scenarios=4)
    plain = solve_two_stage(problem, 0.3, 0.3, 1e-7, method="l_shaped")
    monkeypatch.setattr("capplan.optimize.inverses.ALL_BYTES", 1)
    library, other = (RecourseLibrary(problem.q, problem.W, problem.recourse_sense) for _ in range(2))
    kind = np.zeros(len(problem.h), dtype=int)
    first = library.evaluate(problem.h, kind)
    before = library.duals[first.basis].copy()
    other.evaluate(problem.h, kind)
    assert (library.bases.slot[: library.bases.count] == -1).all()
    again = library.evaluate(problem.h, kind, first.basis)
    assert (again.basis == first.basis).all()
    assert (library.duals[again.basis] == before).all()
    assert solve_two_stage(problem, 0.3, 0.3, 1e-7, method="l_shaped").upper == pytest.approx(plain.upper, rel=1e-9)


@pytest.mark.parametrize("seed", [11, 12])
def test_whole_neighbours_are_whole_first_stages_and_their_planes_hold_everywhere(seed):
    problem = fleet(seed, quarters=3, classes=2, pools=2, scenarios=5, most=6)
    draws = np.random.default_rng(seed)
    steps, parts = whole_steps(problem), np.where(problem.integer, draws.uniform(0, 3, len(problem.c)), 0.0)
    evaluator = Evaluator(problem, 0.2, recourse_of(problem))
    found = nearby(problem, steps, shifts(problem, parts), 6, 0)
    whole = steps > 0
    assert whole.any()
    others = [np.where(problem.integer, draws.integers(0, 4, len(problem.c)), 0.0) for _ in range(8)]
    for shift in found:
        assert np.abs(shift[whole] / steps[whole] - np.round(shift[whole] / steps[whole])).max() < 1e-9
        assert (np.abs(shift - shifts(problem, parts))[whole] <= steps[whole] * (1 + 1e-9)).all()
        assert (shift[whole] <= 0).all()  # capacity is bought, never sold
        cut, _ = evaluator.planes(shift)
        for x in others:
            at = cut.constant.sum() - (cut.slope * shifts(problem, x)).sum()
            cost = evaluator.evaluate(x).cost_by_scenario
            assert at <= problem.probability @ cost + 1e-7 * abs(at)


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_a_search_that_ends_with_enough_proves_no_more_than_is_so(seed):
    problem = fleet(seed, quarters=4, classes=3, pools=3, blocks=2, scenarios=4, most=8)
    exact = solve_two_stage(problem, 0.0, 0.2, 1e-7, method="extensive")
    search = LShaped(problem, 0.0, 0.2, 1e-2)
    search.solve()
    optimum, slack = exact.upper, 1e-6 * abs(exact.upper)
    for best, enough in ((np.inf, np.inf), (optimum * 1.01, optimum * 0.99), (optimum * 0.98, np.inf), (optimum * 1.01, optimum * 0.5)):
        found = search.master.whole(1e-9, None, best, enough)
        assert found.bound <= min(best, optimum) + slack
        assert found.x is None or (problem.A @ found.x <= problem.b + 1e-7)[problem.sense == "<"].all()
