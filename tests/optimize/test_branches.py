"""Later purchases that follow the demand seen by the next review."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.l_shaped import LShaped
from capplan.optimize.late_decisions import branch_program
from capplan.optimize.program import shifts
from capplan.optimize.two_stage import solve_two_stage
from capplan.questions.procurement.explain.demand_branches import demand_branches
from tests.cases.procurement_cases import assumptions, demand, offer, solve
from tests.optimize.test_separable import dearer
from tests.optimize.test_two_stage import fleet, objective


@pytest.mark.parametrize("risk_weight", [0.0, 0.6])
def test_branches_equal_brute_force_over_every_pair_of_later_decisions(risk_weight):
    problem = replace(fleet(3, quarters=2, classes=1, pools=1, blocks=2, scenarios=4, most=2), b=np.array([3.0]))
    branch, later = np.array([0, 1, 0, 1]), np.array([False, True])
    branched = branch_program(problem, later, branch)
    best = np.inf
    for now, low, high in itertools.product(range(3), repeat=3):
        if now + max(low, high) > 3:
            continue
        # the cost of a branch is part of its scenarios' cost: price each scenario at its own first stage
        cost = np.zeros(4)
        for b, then in enumerate((low, high)):
            x = np.array([now, then], dtype=float)
            for s in np.flatnonzero(branch == b):
                alone = replace(problem, probability=np.eye(4)[s])
                cost[s] = objective(alone, x, 0.0, 1.0) - problem.c[0] * now
        order = np.argsort(-cost)
        left, tail = 0.25, 0.0
        for s in order:
            tail += min(left, problem.probability[s]) * cost[s]
            left -= min(left, problem.probability[s])
        value = problem.c[0] * now + (1 - risk_weight) * float(problem.probability @ cost) + risk_weight * tail / 0.25
        best = min(best, value)
    for method in ("extensive", "l_shaped"):
        solution = solve_two_stage(branched.program, risk_weight, 0.25, 1e-8, method=method)
        assert solution.upper == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("states", [False, True])
def test_branches_never_cost_more_and_one_branch_costs_the_same(states):
    problem = fleet(5, quarters=3, classes=2, pools=2, blocks=2, scenarios=6)
    problem = dearer(problem) if states else problem
    later = np.arange(len(problem.c)) >= 2
    fixed = solve_two_stage(problem, 0.4, 0.3, 1e-7)
    one = solve_two_stage(branch_program(problem, later, np.zeros(6, dtype=int)).program, 0.4, 0.3, 1e-7)
    three = branch_program(problem, later, np.arange(6) // 2)
    found = solve_two_stage(three.program, 0.4, 0.3, 1e-7)
    assert one.upper == pytest.approx(fixed.upper, rel=1e-6)
    assert found.upper <= fixed.upper * (1 + 1e-7)
    stages = three.first_stages(found.x)
    assert stages.shape == (3, len(problem.c))
    assert (stages[:, ~later] == stages[0, ~later]).all()
    assert three.probability.sum() == pytest.approx(1.0)


def undercut(search, risk_weight, seed):
    """Check that no plane that a search begins with is above the expected cost, or that under reference weights, of a first stage."""
    problem, draws = search.problem, np.random.default_rng(seed)
    cold = Evaluator(problem, search.tail_share, recourse_of(problem))
    for _ in range(6):
        x = np.minimum(problem.lower + draws.random(len(problem.c)) * 3, problem.upper)
        cost, shift = cold.costs(x), shifts(problem, x)
        for mean, _, reference in search.cuts:
            for plane, weight in ((mean, problem.probability), (reference, search.evaluator.reference)):
                if plane is not None:
                    assert plane.constant.sum() - (plane.slope * shift).sum() <= weight @ cost + 1e-7 * abs(cost).max()


@pytest.mark.parametrize("risk_weight", [0.0, 0.4])
@pytest.mark.parametrize("states", [False, True])
def test_branches_begin_from_the_bases_and_planes_of_the_plan_without_them(states, risk_weight):
    problem = fleet(5, quarters=3, classes=2, pools=2, blocks=2, scenarios=6)
    problem = dearer(problem) if states else problem
    plain = solve_two_stage(problem, risk_weight, 0.3, 1e-6, method="l_shaped")
    branched = branch_program(problem, np.arange(len(problem.c)) >= 2, np.arange(6) // 2)
    search = LShaped(branched.program, risk_weight, 0.3, 1e-6, branched.same(plain.x), plain.warm)
    assert len(search.cuts) == len(plain.warm.visited) > 3
    undercut(search, risk_weight, 1)
    cold = solve_two_stage(branched.program, risk_weight, 0.3, 1e-6, method="l_shaped")
    assert search.solve().upper == pytest.approx(cold.upper, rel=3e-6)


@pytest.mark.parametrize("risk_weight", [0.0, 0.4])
def test_a_program_of_some_of_the_points_begins_from_those_of_all(risk_weight):
    problem = fleet(7, quarters=3, classes=2, pools=2, blocks=2, scenarios=6)
    plain = solve_two_stage(problem, risk_weight, 0.3, 1e-6, method="l_shaped")
    points = np.flatnonzero(problem.technology < 2)
    parts = {name: getattr(problem, name)[points] for name in ("h", "technology", "weight", "scenario")}
    some = replace(problem, **parts)
    search = LShaped(some, risk_weight, 0.3, 1e-6, None, plain.warm.at_points(points))
    assert len(search.cuts) == len(plain.warm.visited) > 3
    undercut(search, risk_weight, 2)
    assert search.solve().upper == pytest.approx(solve_two_stage(some, risk_weight, 0.3, 1e-6, method="l_shaped").upper, rel=3e-6)
    assert not LShaped(replace(some, **{k: v[:-1] for k, v in parts.items()}), 0.0, 0.3, 1e-6, None, plain.warm.at_points(points)).cuts


@pytest.mark.parametrize("method", ["extensive", "l_shaped"])
def test_scenarios_that_share_no_technology_are_charged_in_all_their_points(method):
    """In one of two scenarios something is late in a part of each quarter, so no technology weighs the same in both."""
    problem = fleet(3, quarters=2, classes=1, pools=1, blocks=2, scenarios=2)
    plain = solve_two_stage(branch_program(problem, np.array([False, True]), np.arange(2)).program, 0.4, 0.3, 1e-8, method=method)
    late = replace(
        problem, T=[*problem.T, *problem.T], technology=np.where(np.isin(np.arange(8), [0, 4]), problem.technology + 2, problem.technology)
    )
    found = solve_two_stage(branch_program(late, np.array([False, True]), np.arange(2)).program, 0.4, 0.3, 1e-8, method=method)
    assert found.upper == pytest.approx(plain.upper, rel=1e-7)


def test_a_later_decision_that_earns_money_is_lifted_and_taken_off_again():
    problem = fleet(5, quarters=2, classes=1, pools=1, scenarios=4)
    problem = replace(problem, c=np.array([problem.c[0], -3.0]))
    later = np.array([False, True])
    one = solve_two_stage(branch_program(problem, later, np.zeros(4, dtype=int)).program, 0.4, 0.3, 1e-8)
    assert one.upper == pytest.approx(solve_two_stage(problem, 0.4, 0.3, 1e-8).upper, rel=1e-7)


def plan_with_two_futures(**more):
    """Demand is low for good or high for good, and the first quarter tells which; leases, or by the hour at four times the price."""
    rows = [offer("hour", "on_demand", 4.0), offer("lease", "lease", 1.0, term_months=3)]
    a = assumptions(horizon_quarters=2, approval_days=0, **more)
    return solve(demand([[10.0, 0.0], [20.0, 20.0]]), rows, a)


def test_later_purchases_follow_the_demand_of_the_first_quarter():
    plan = plan_with_two_futures()
    value = plan.information.set_index("name")["usd"]
    # without branches 20 machines are leased for the second quarter on both paths, of which half the time none is needed
    assert plan.purchases.set_index("quarter").at["2027Q2", "machines"] == 20
    assert value["flexibility"] == pytest.approx(0.5 * 20 * 2190)
    later = plan.branches[plan.branches["branch"] != "now"]
    assert later[["branch", "quarter", "lots"]].to_numpy().tolist() == [["2", "2027Q2", 20]]
    assert plan.branches.loc[plan.branches["branch"] == "now", "quarter"].tolist() == ["2027Q1"]
    # nothing signed now: ten more accelerators by the hour at 4 instead of 1 on the low path, twenty on the high one
    assert value["waiting_for_demand"] == pytest.approx(2190 * (0.5 * 10 * 4 + 0.5 * 20 * 4) - 2190 * 20)
    assert value["waiting_for_demand"] <= value["waiting"] + 1e-6


def test_one_branch_or_demand_that_tells_nothing_brings_no_branches():
    assert plan_with_two_futures(demand_branches=1).branches.empty
    rows = [offer("hour", "on_demand", 4.0), offer("lease", "lease", 1.0, term_months=3)]
    same = solve(demand([[10.0, 0.0], [10.0, 20.0]]), rows, assumptions(horizon_quarters=2, approval_days=0))
    assert same.branches.empty
    assert "flexibility" not in set(same.information["name"])


def test_branches_have_equal_probability_as_far_as_paths_can_be_told_apart():
    work = SimpleNamespace(
        paths=pd.DataFrame({"path": range(6), "probability": [1 / 6] * 6}),
        points=pd.DataFrame({"quarter": [0] * 6, "path": range(6), "hours": [1.0] * 6}),
        load=np.array([[3.0], [1.0], [1.0], [1.0], [6.0], [5.0]]),
    )
    branch, share = demand_branches(work, 1, 3)
    assert branch.tolist() == [1, 0, 0, 0, 2, 2]
    assert share @ np.full(6, 1 / 6) == pytest.approx(1.0)
