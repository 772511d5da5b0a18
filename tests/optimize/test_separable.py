"""Recourse that falls into parts, costs in several states, and cuts through whole steps."""

from __future__ import annotations

import gc
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from capplan.optimize.bases import BasisStore
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.inverses import FIRST_ROOM
from capplan.optimize.lattice import find_lattice, whole_steps
from capplan.optimize.mean_program import mean_program
from capplan.optimize.mixing import NO_SPARE, Levels, Rows, mix_levels
from capplan.optimize.program import cost_states, point_costs, right_hand_sides
from capplan.optimize.separable import independent_parts
from capplan.optimize.two_stage import TwoStage, blended_cost, solve_two_stage
from tests.cases.stochastic_values import value_of_information
from tests.optimize.test_two_stage import fleet
from tests.optimize.test_two_stage import point_costs as alone


def regions(seed: int, count: int = 3, quarters: int = 4, scenarios: int = 8, quota: float = 60.0) -> TwoStage:
    """One kind of machine a region, lots of 3 for one to three quarters, a quota over all regions."""
    rng = np.random.default_rng(seed)
    rows = [(r, term, start) for r in range(count) for term in (1, 2, 3) for start in range(quarters)]
    region, term, start = (np.array(column) for column in zip(*rows, strict=True))
    rent = rng.uniform(2.5, 4.0, count)
    active = (np.arange(quarters)[:, None] >= start) & (np.arange(quarters)[:, None] < start + term)
    columns, q = [], []
    for r in range(count):
        for places, price in (([r, count + r], 0.0), ([r, 2 * count + r], rent[r]), ([r], 25.0)):
            column = np.zeros(3 * count)
            column[places] = 1.0
            columns.append(column)
            q.append(price)
    T = []
    for t in range(quarters):
        matrix = np.zeros((3 * count, len(rows)))
        matrix[count + region, np.arange(len(rows))] = -3.0 * active[t]
        T.append(sparse.csr_matrix(matrix))
    points = quarters * scenarios
    h = np.zeros((points, 3 * count))
    h[:, :count] = rng.uniform(4.0, 30.0, (points, count))
    h[:, 2 * count :] = 4.0
    return TwoStage(
        c=3 * rent[region] * np.array([0.9, 0.75, 0.6])[term - 1] * rng.uniform(0.97, 1.03, len(rows)) * active.sum(axis=0),
        A=sparse.csr_matrix(3.0 * active),
        b=np.full(quarters, quota),
        sense=np.full(quarters, "<"),
        lower=np.zeros(len(rows)),
        upper=np.full(len(rows), 12.0),
        integer=np.ones(len(rows), dtype=bool),
        q=np.array(q),
        W=sparse.csr_matrix(np.array(columns).T),
        recourse_sense=np.array([">"] * count + ["<"] * (2 * count)),
        T=T,
        technology=np.repeat(np.arange(quarters), scenarios),
        h=h,
        weight=np.ones(points),
        scenario=np.tile(np.arange(scenarios), quarters),
        probability=np.full(scenarios, 1 / scenarios),
    )


def dearer(problem: TwoStage, factors: tuple[float, ...] = (0.7, 1.0, 1.6)) -> TwoStage:
    """The same program on a market that is cheap, as now, or dear, one state a scenario in turn; falling short costs the same."""
    count, rented = len(problem.T), (problem.q > 0) & (problem.q < 20)
    state = problem.scenario % len(factors)
    return replace(
        problem,
        T=[*problem.T] * len(factors),
        technology=state * count + problem.technology,
        costs=np.array([np.where(rented, problem.q * factor, problem.q) for factor in factors]),
        cost_state=np.repeat(np.arange(len(factors)), count),
    )


@pytest.mark.parametrize("risk_weight", [0.0, 0.4])
@pytest.mark.parametrize("seed", [1, 2])
def test_regions_are_solved_to_the_extensive_forms_optimum(seed, risk_weight):
    problem = regions(seed)
    assert len(independent_parts(problem.W)) == 3
    exact = solve_two_stage(problem, risk_weight, 0.25, 1e-7, method="extensive")
    found = solve_two_stage(problem, risk_weight, 0.25, 1e-6, method="l_shaped")
    assert found.gap_share <= 1e-6
    assert found.upper == pytest.approx(exact.upper, rel=2e-6)


def test_whole_steps_bring_the_relaxation_to_the_whole_optimum():
    problem = regions(3, quota=1e6)
    library = recourse_of(problem)
    lattice = find_lattice(problem, library.row_part, whole_steps(problem))
    assert (lattice.step == 3.0).all()
    whole = solve_two_stage(problem, 0.0, 0.25, 1e-7, method="extensive")
    relaxed = solve_two_stage(replace(problem, integer=np.zeros_like(problem.integer)), 0.0, 0.25, 1e-7, method="extensive")
    assert relaxed.upper < whole.upper * (1 - 1e-4)
    found = solve_two_stage(problem, 0.0, 0.25, 1e-6, method="l_shaped")
    assert found.upper == pytest.approx(whole.upper, rel=2e-6)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_chords_never_lie_above_the_cost_of_a_whole_first_stage(seed):
    problem = regions(seed, count=2, quarters=3, scenarios=5)
    rng = np.random.default_rng(seed)
    evaluator = Evaluator(problem, 0.25, recourse_of(problem), find_lattice(problem, recourse_of(problem).row_part, whole_steps(problem)))
    found = evaluator.evaluate(rng.uniform(0, 2, len(problem.c)))
    assert found.raised[0] > 0
    for _ in range(5):
        x = rng.integers(0, 4, len(problem.c)).astype(float)
        cost = float(problem.probability @ evaluator.evaluate(x).cost_by_scenario)
        for mean, _tail in found.chords:
            shift = np.stack([matrix @ x for matrix in problem.T])
            assert float(mean.constant.sum() - (mean.slope * shift).sum()) <= cost * (1 + 1e-9)


@pytest.mark.parametrize("risk_weight", [0.0, 0.5])
def test_prices_in_states_agree_with_the_extensive_form_and_with_each_point_alone(risk_weight):
    problem = dearer(fleet(4, quarters=3, classes=2, pools=2, blocks=2, scenarios=9, most=6))
    exact = solve_two_stage(problem, risk_weight, 0.3, 1e-7, method="extensive")
    found = solve_two_stage(problem, risk_weight, 0.3, 1e-5, method="l_shaped")
    assert found.lower <= exact.upper * (1 + 1e-7)
    assert exact.lower <= found.upper * (1 + 1e-7)
    costs, state = cost_states(problem)
    cost = point_costs(problem, found.recourse)
    for s in range(len(costs)):
        own = np.flatnonzero(state[problem.technology] == s)
        same = replace(problem, q=costs[s], costs=None, cost_state=None)
        assert cost[own] == pytest.approx(alone(same, found.x)[own], rel=1e-7, abs=1e-7)
    total = float(problem.c @ found.x) + blended_cost(
        np.bincount(problem.scenario, problem.weight * cost), problem.probability, risk_weight, 0.3
    )
    assert found.upper == pytest.approx(total, rel=1e-9)


def test_the_mean_program_takes_mean_prices():
    problem = dearer(fleet(2, scenarios=6))
    average = mean_program(problem)
    costs, _ = cost_states(average)
    rented = (problem.q > 0) & (problem.q < 20)
    assert costs[0][rented] == pytest.approx(
        problem.q[rented] * (problem.probability.reshape(2, 3).sum(axis=0) @ np.array([0.7, 1.0, 1.6]))
    )
    value = value_of_information(problem, 0.0, 0.2, 1e-7)
    assert value.evpi >= -1e-6
    assert value.vss >= -1e-6


def test_an_infeasible_part_is_named_by_a_ray():
    problem = regions(1)
    hard = replace(problem, q=np.delete(problem.q, [2, 5, 8]), W=problem.W[:, [0, 1, 3, 4, 6, 7]])
    evaluator = Evaluator(hard, 0.2, recourse_of(hard))
    x = np.zeros(len(hard.c))
    found = evaluator.evaluate(x)
    assert np.isinf(found.cost_by_scenario).any()
    for ray in found.rays:
        assert (right_hand_sides(hard, x) @ ray[:-2]).max() > 0


def test_inverses_that_were_let_go_are_made_anew_also_where_that_needs_room(monkeypatch):
    """More bases than there is room for at first, let go of all at once, give the same values one after another."""
    count, draw = FIRST_ROOM + 6, np.random.default_rng(4)
    matrix = np.hstack([np.eye(5), draw.uniform(1.0, 2.0, size=(5, 8))])
    store = BasisStore(matrix, np.ones(13), np.ones(13))
    chosen = [columns for columns in itertools.combinations(range(13), 5) if abs(np.linalg.det(matrix[:, columns])) > 1e-3][:count]
    numbers = [store.add(np.array(columns)) for columns in chosen]
    monkeypatch.setattr("capplan.optimize.inverses.ALL_BYTES", 1)
    store.evict()
    assert (store.slot == -1).all()
    b = np.arange(1.0, 6.0)[None]
    for number, columns in zip(numbers, chosen, strict=True):
        inverse = np.linalg.inv(matrix[:, columns])
        assert store.values(np.full(len(b), number), b)[0] == pytest.approx(inverse @ b[0])
    store.evict()
    for number, columns in zip(numbers, chosen, strict=True):
        assert store.row_of_inverse(number, 2) == pytest.approx(np.linalg.inv(matrix[:, columns])[2])


def test_what_a_store_lets_go_of_another_takes():
    """Inverses of problems of one size lie in one place: that of a store that is no more is taken before there is more memory."""
    matrix = np.hstack([np.eye(6), np.random.default_rng(5).uniform(1.0, 2.0, size=(6, 7))])
    first, second = (BasisStore(matrix, np.ones(13), np.ones(13)) for _ in range(2))
    assert first.kept is second.kept
    chosen = [np.array(columns) for columns in itertools.combinations(range(13), 6) if abs(np.linalg.det(matrix[:, columns])) > 1e-3]
    for columns in chosen[:FIRST_ROOM]:
        first.add(columns)
    have = len(first.kept.inverse)
    del first
    for number, columns in enumerate(chosen[:FIRST_ROOM]):
        assert second.add(columns) == number
        assert second.row_of_inverse(number, 2) == pytest.approx(np.linalg.inv(matrix[:, columns])[2])
    assert len(second.kept.inverse) == have
    assert len(set(second.slot[: second.count].tolist())) == FIRST_ROOM


def test_points_rest_alike_to_the_last_bit_wherever_room_runs_out(monkeypatch):
    """Room is short in the first store and plenty in the second, as in a process that has made a plan before."""
    problem = fleet(1, quarters=6, classes=4, pools=4, scenarios=80)
    draw = np.random.default_rng(1)
    stages = [np.minimum(problem.upper, draw.uniform(0.0, 3.0, len(problem.c))) for _ in range(12)]
    found = []
    for room in (2, 50_000):
        gc.collect()
        monkeypatch.setattr("capplan.optimize.inverses.FIRST_ROOM", room)
        monkeypatch.setattr("capplan.optimize.inverses.ALL_BYTES", 200_000)
        evaluator = Evaluator(problem, 0.2, recourse_of(problem))
        for x in stages:
            evaluator.rest(x)
        store = evaluator.library.of(0)[0].bases
        assert (len(store.kept.inverse) >= 50_000) == (room == 50_000)
        found.append((evaluator.basis, store.duals[: store.count].tobytes()))
        del evaluator, store
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_cost_that_is_rounding_does_not_spoil_a_mixture():
    """Costs of 1e-30 beside 1e8 are none; they once made the solver say that the mixture can be improved without end."""
    draw = np.random.default_rng(6)
    cost = np.concatenate([draw.uniform(1e7, 2e7, (3, 12)), draw.uniform(1e-30, 2e-29, (2, 12))])
    used = -draw.uniform(1e6, 2e6, (5, 1, 12)) / 12
    levels = Levels(cost, used, np.array([0, 0, 0, 1, 1]), draw.uniform(1e7, 2e7, 12), NO_SPARE)
    shared = Rows(np.array([1.05 * used.sum(axis=(1, 2)).min()]), np.array([[-1.0]]), np.array([0.8]), 1e3)
    found = mix_levels(levels, shared, np.full(12, 1 / 12), 0.3, 0.25)
    clean = mix_levels(levels._replace(cost=np.where(cost < 1.0, 0.0, cost)), shared, np.full(12, 1 / 12), 0.3, 0.25)
    assert found.free == pytest.approx(clean.free)
    assert (found.shares * cost).sum() == pytest.approx((clean.shares * cost).sum())


@pytest.mark.parametrize("seed", range(3))
def test_points_that_do_not_move_stay_and_sums_are_those_of_what_is_laid_out(seed):
    """From one first stage to the next only points of some quarters move: the rest is as a fresh evaluator finds it, sums included."""
    problem = fleet(seed, quarters=4, classes=3, pools=3, scenarios=8)
    evaluator, draw = Evaluator(problem, 0.2, recourse_of(problem)), np.random.default_rng(seed)
    x = np.zeros(len(problem.c))
    for j in draw.permutation(len(x)):
        x = x.copy()
        x[j] = min(problem.upper[j], 2.0)
        fresh = Evaluator(problem, 0.2, recourse_of(problem))
        assert evaluator.costs(x) == pytest.approx(fresh.costs(x), rel=1e-9)
    rhs, values = right_hand_sides(problem, x), draw.uniform(0, 1, (2, len(problem.q)))
    assert evaluator.library.totals(rhs, evaluator.basis, values) == pytest.approx(
        (evaluator.decisions(x) @ values.T).T, rel=1e-9, abs=1e-12
    )
