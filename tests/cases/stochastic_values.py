"""Values of information of published stochastic programs, from first principles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from capplan.optimize.mean_program import mean_program, with_points
from capplan.optimize.program import Solution, TwoStage, blended_cost
from capplan.optimize.solver import InfeasibleError
from capplan.optimize.two_stage import Warm, solve_two_stage

Array = np.ndarray


@dataclass(frozen=True)
class Information:
    """Values of information; every value is an upper bound proven within the gap of its solve.

    Parameters
    ----------
    here_and_now
        RP: cost of the best first stage under uncertainty.
    wait_and_see
        WS: cost if every scenario were known before the first stage.
    mean_value
        EV: cost of the program in which every quantity is its mean.
    mean_value_outcome
        EEV: what the mean program's first stage really costs; infinite where it is infeasible.
    mean_value_x : (n,)
        The mean program's first stage.
    wait_and_see_by_scenario : (S,)
        Total cost of each scenario if it were known.
    """

    here_and_now: float
    wait_and_see: float
    mean_value: float
    mean_value_outcome: float
    mean_value_x: Array
    wait_and_see_by_scenario: Array

    @property
    def evpi(self) -> float:
        """Expected value of perfect information: RP - WS, what a perfect forecast would be worth."""
        return self.here_and_now - self.wait_and_see

    @property
    def vss(self) -> float:
        """Value of the stochastic solution: EEV - RP, what planning with more than the mean is worth."""
        return self.mean_value_outcome - self.here_and_now


def value_of_information(
    problem: TwoStage, risk_weight: float = 0.0, tail_share: float = 0.2, gap_share: float = 1e-6, solution: Solution | None = None
) -> Information:
    r"""Compare the plan with those of somebody who knows the future and of somebody who only looks at the mean.

    .. math:: EVPI = RP - WS,\quad VSS = EEV - RP,\quad WS \le RP \le EEV

    All are blends of expectation and CVaR under the same risk weight.

    Parameters
    ----------
    problem, risk_weight, tail_share, gap_share
        See `two_stage.solve_two_stage`.
    solution
        The program's solution, where it is known already.

    Raises
    ------
    SolveError
        If the scenarios do not have the same number of points, so that there is no mean program.

    Source
    ------
    Birge and Louveaux, Introduction to Stochastic Programming, 2nd ed. (2011), chapter 4.
    """
    best = solution or solve_two_stage(problem, risk_weight, tail_share, gap_share)
    known = wait_and_see(problem, gap_share, best.warm)
    average = solve_two_stage(mean_program(problem), 0.0, 1.0, gap_share, warm=best.warm)
    try:
        outcome = evaluate_first_stage(problem, average.x, risk_weight, tail_share, warm=best.warm).upper
    except InfeasibleError:
        outcome = np.inf
    seen = blended_cost(known, problem.probability, risk_weight, tail_share)
    return Information(best.upper, seen, average.upper, outcome, average.x, known)


def evaluate_first_stage(
    problem: TwoStage, x: Array, risk_weight: float = 0.0, tail_share: float = 0.2, *, warm: Warm | None = None
) -> Solution:
    """Return what a given first stage costs, exactly.

    Parameters
    ----------
    problem, risk_weight, tail_share, warm
        See `two_stage.solve_two_stage`.
    x : (n,)
        The first stage.

    Raises
    ------
    InfeasibleError
        If x breaks a row, or leaves a point or an expected row without a feasible recourse.
    """
    held = replace(problem, lower=np.asarray(x, dtype=float), upper=np.asarray(x, dtype=float), integer=np.zeros(len(x), dtype=bool))
    return solve_two_stage(held, risk_weight, tail_share, 1e-9, warm=warm)


def wait_and_see(problem: TwoStage, gap_share: float = 1e-6, warm: Warm | None = None) -> Array:
    """Return the total cost of each scenario if it were known before the first stage, (S,).

    Parameters
    ----------
    problem, gap_share, warm
        See `two_stage.solve_two_stage`.
    """
    cost = np.zeros(len(problem.probability))
    for scenario in range(len(cost)):
        solved = solve_two_stage(scenario_program(problem, scenario), 0.0, 1.0, gap_share, warm=warm)
        cost[scenario] = solved.upper
        warm = solved.warm or warm
    return cost


def scenario_program(problem: TwoStage, scenario: int) -> TwoStage:
    """Return the program in which one scenario is certain."""
    own = np.flatnonzero(problem.scenario == scenario)
    return with_points(problem, own, problem.h[own], problem.T, problem.technology[own])
