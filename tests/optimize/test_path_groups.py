"""Recourse on a cluster: groups of points held by workers rest where all of them would rest here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from capplan.errors import CapplanError
from capplan.optimize import evaluation, path_groups
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.separable import SeparableRecourse
from capplan.optimize.two_stage import TwoStage, solve_two_stage
from capplan.workers import workers
from tests.optimize.test_two_stage import fleet

SIZE = {"quarters": 4, "classes": 3, "pools": 3, "blocks": 3, "scenarios": 10, "most": 8}


def with_states(seed: int) -> TwoStage:
    """A program whose recourse costs something else in every other quarter."""
    problem = fleet(seed, **SIZE)
    return replace(problem, costs=np.stack([problem.q, problem.q * 1.3]), cost_state=np.arange(len(problem.T)) % 2)


def without_shortfall(seed: int) -> TwoStage:
    """A program in which too few machines leave points without a recourse."""
    problem, kept = fleet(seed, **SIZE), slice(0, -SIZE["classes"])
    return replace(problem, q=problem.q[kept], W=problem.W[:, kept], h=problem.h * np.where(problem.recourse_sense == ">", 0.4, 1.0))


@contextlib.contextmanager
def on_the_cluster(address: str) -> Iterator[None]:
    """Lay programs of any size out on the cluster, and let nothing rest here."""
    with workers(address), pytest.MonkeyPatch.context() as there:
        there.setattr(evaluation, "FEWEST_POINTS", 1)
        there.setattr(evaluation, "rest_points", None)
        yield


@pytest.fixture(autouse=True)
def _in_small_pieces(monkeypatch):
    """Take so few points at once that both workers have some."""
    monkeypatch.setattr(path_groups, "CHUNK", 50)


@pytest.mark.slow
def test_groups_on_two_workers_give_the_same_answers_also_when_one_is_killed(scheduler):
    running, address = scheduler
    asked = [fleet(1, **SIZE), with_states(2), without_shortfall(3)]
    stages = [np.full(len(asked[0].c), float(most)) for most in (0, 1, 3)]
    local = [[_here(problem, x) for x in stages] for problem in asked]
    with on_the_cluster(address):
        for problem, right in zip(asked, local, strict=True):
            there = Evaluator(problem, 0.2, recourse_of(problem))
            for x, (costs, bases, cut) in zip(stages, right, strict=True):
                found = there.evaluate(x)
                assert found.cost_by_scenario == pytest.approx(costs, rel=1e-12)
                assert _columns(there.library, there.rest(x).basis) == bases
                assert found.mean.constant == pytest.approx(cut.mean.constant, rel=1e-12, abs=1e-9)
                assert (len(found.rays) > 0) == np.isinf(costs).any() == (len(cut.rays) > 0)
        running[1].kill()
        again = there.evaluate(stages[0])
        assert again.cost_by_scenario == pytest.approx(local[-1][0][0], rel=1e-12)
        running[2].kill()
        with pytest.raises(CapplanError, match="no worker left"):
            there.evaluate(stages[1])


@pytest.mark.slow
def test_a_solve_on_two_workers_is_the_solve_here(scheduler):
    _, address = scheduler
    for problem in (fleet(1, **SIZE), with_states(2), without_shortfall(3)):
        here = solve_two_stage(problem, 0.3, 0.2, 1e-4, method="l_shaped")
        with on_the_cluster(address):
            found = solve_two_stage(problem, 0.3, 0.2, 1e-4, method="l_shaped")
        assert found.upper == pytest.approx(here.upper, rel=1e-9)
        # where a capacity is exactly used up, one of several duals supports the cost: the bound may differ, within the gap
        assert found.lower == pytest.approx(here.lower, rel=1e-4)
        assert found.gap_share <= 1e-4
        assert found.x == pytest.approx(here.x, abs=1e-9)
        assert abs(found.recourse - here.recourse).max() < 1e-9


def _here(problem: TwoStage, x: np.ndarray) -> tuple[np.ndarray, list[frozenset[int]], evaluation.Evaluated]:
    """Costs, bases and cuts of a first stage, found in this process."""
    judge = Evaluator(problem, 0.2, recourse_of(problem))
    found = judge.evaluate(x)
    return found.cost_by_scenario, _columns(judge.library, judge.rest(x).basis), found


def _columns(library: SeparableRecourse, basis: np.ndarray) -> list[frozenset[int]]:
    """The columns that each point's basis has, by part."""
    states = library.states
    return [frozenset(library.libraries[b % states][k].bases.columns[b // states].tolist()) for row in basis for k, b in enumerate(row)]
