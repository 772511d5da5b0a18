"""The extensive form: all recourse points written out in one program and solved as such; exact, for programs of moderate size."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.clock import TOO_SOON, OutOfTimeError, cut_short, seconds_left
from capplan.optimize.program import Marginals, Solution, TwoStage, blended_cost, cost_states, point_costs
from capplan.optimize.solver import Arrays, InfeasibleError, Solved, solve_arrays

Array = np.ndarray


def first_stage_exists(problem: TwoStage) -> bool:
    """Tell whether any first stage keeps all of its own rows, whatever its recourse."""
    parts = problem.A, problem.b, problem.sense, problem.lower, problem.upper, problem.integer
    try:
        solve_arrays(Arrays(np.zeros(len(problem.c)), *parts))
    except InfeasibleError:
        return False
    return True


def extensive_arrays(problem: TwoStage, risk_weight: float, tail_share: float) -> Arrays:
    r"""Write the program out with one copy of the recourse columns for each point.

    .. math:: \min c^T x + (1-\lambda)\sum_s p_s C_s + \lambda\Big(\eta + \tfrac1\alpha\sum_s p_s z_s\Big),\quad
              z_s \ge C_s - \eta,\ z_s \ge 0,\quad C_s = \sum_{p \in s} w_p q^T y_p

    Columns are x, then y of every point, then eta and z where lambda > 0. Rows are A, the recourse rows of every point,
    the expected rows, then the CVaR rows.

    Args:
        risk_weight, tail_share: lambda and alpha of the equation.

    Source: Birge and Louveaux, Introduction to Stochastic Programming, 2nd ed. (2011), section 2.4 (extensive form); Rockafellar and
        Uryasev (2000), equation 17 (CVaR by linear rows).
    """
    n, r, points, scenarios = len(problem.c), len(problem.q), len(problem.technology), len(problem.probability)
    m = problem.W.shape[0]
    mean_weight = problem.probability[problem.scenario] * problem.weight
    tail = risk_weight > 0
    extra = 1 + scenarios if tail else 0
    technology = sparse.vstack(list(problem.T), format="csr")
    take = (problem.technology[:, None] * m + np.arange(m)).ravel()
    recourse = sparse.hstack(
        [technology[take], sparse.kron(sparse.eye(points, format="csr"), problem.W, format="csr"), sparse.csr_matrix((points * m, extra))]
    )
    blocks = [sparse.hstack([problem.A, sparse.csr_matrix((problem.A.shape[0], points * r + extra))]), recourse]
    b = [np.asarray(problem.b, dtype=float), np.asarray(problem.h, dtype=float).ravel()]
    sense = [np.asarray(problem.sense), np.tile(problem.recourse_sense, points)]
    costs, state = cost_states(problem)
    for row in problem.expected:
        weight = problem.probability[problem.scenario] * row.weight * row.points
        used = weight[:, None] * (row.g if np.ndim(row.g) == 1 else row.g[state[problem.technology]])
        blocks.append(sparse.csr_matrix(np.concatenate([row.a, used.ravel(), np.zeros(extra)])[None]))
        b.append(np.array([row.limit]))
        sense.append(np.array(["<"]))
    unit = costs[state[problem.technology]]
    cost = [problem.c, ((mean_weight * (1 - risk_weight))[:, None] * unit).ravel()]
    lower, upper = [problem.lower, np.zeros(points * r)], [problem.upper, np.full(points * r, np.inf)]
    if tail:
        place = np.repeat(problem.scenario, r), np.arange(points * r)
        by_scenario = sparse.csr_matrix(((problem.weight[:, None] * unit).ravel(), place), shape=(scenarios, points * r))
        blocks.append(
            sparse.hstack(
                [sparse.csr_matrix((scenarios, n)), -by_scenario, sparse.csr_matrix(np.ones((scenarios, 1))), sparse.eye(scenarios)]
            )
        )
        b.append(np.zeros(scenarios))
        sense.append(np.full(scenarios, ">"))
        cost += [np.array([risk_weight]), risk_weight / tail_share * problem.probability]
        lower += [np.array([-np.inf]), np.zeros(scenarios)]
        upper += [np.full(1 + scenarios, np.inf)]
    columns = n + points * r + extra
    integer = np.zeros(columns, dtype=bool)
    integer[:n] = problem.integer
    return Arrays(
        np.concatenate(cost),
        sparse.csr_matrix(sparse.vstack(blocks)),
        np.concatenate(b),
        np.concatenate(sense),
        np.concatenate(lower),
        np.concatenate(upper),
        integer,
    )


def solve_extensive(problem: TwoStage, risk_weight: float, tail_share: float, gap_share: float, start: Array | None = None) -> Solution:
    """Solve the extensive form.

    Args:
        risk_weight, tail_share, gap_share: See `two_stage.solve_two_stage`.
        start ((n,), optional): A first stage to start from.
    """
    model = extensive_arrays(problem, risk_weight, tail_share)
    relaxed = solve_arrays(replace(model, integer=np.zeros_like(model.integer)))
    solved = _whole(model, relaxed, gap_share, start, np.zeros(len(problem.c))) if model.integer.any() else relaxed
    n, r, points = len(problem.c), len(problem.q), len(problem.technology)
    x = solved.x[:n]
    decisions = sparse.csr_matrix(solved.x[n : n + points * r].reshape(points, r))
    cost = scenario_costs(problem, point_costs(problem, decisions))
    upper = float(problem.c @ x) + blended_cost(cost, problem.probability, risk_weight, tail_share)
    return Solution(x, min(solved.bound, upper), upper, cost, solved.status, lambda: decisions, _marginals(problem, relaxed))


def _whole(model: Arrays, relaxed: Solved, gap_share: float, start: Array | None, nothing: Array) -> Solved:
    """Solve with integers; where a time limit comes before any solution, take the start, or to do nothing, with the relaxation's bound."""
    left = seconds_left()
    guess = None if start is None else first_stage_start(model, start)
    if np.isinf(left):
        return solve_arrays(model, gap_share, start=guess)
    try:
        solved = solve_arrays(model, gap_share, start=guess, time_limit_seconds=left)
    except InfeasibleError:
        raise
    except SolveError as error:
        if seconds_left() > 0:
            raise
        simple = first_stage_start(model, nothing) if guess is None else guess
        if simple is None:
            raise OutOfTimeError(TOO_SOON) from error
        solved = Solved(simple, float(model.c @ simple), relaxed.objective, 0.0, "limit")
    if solved.status == "limit":
        cut_short()
    return replace(solved, bound=max(solved.bound, relaxed.objective))


def _marginals(problem: TwoStage, relaxed: Solved) -> Marginals:
    """Pick the first stage's and the expected rows' duals out of the relaxation's."""
    duals, reduced = relaxed.duals, relaxed.reduced_costs
    if duals is None or reduced is None:
        raise SolveError("marginal values were asked of a program with integers; relax it first")
    k = problem.A.shape[0]
    after = k + problem.h.size
    return Marginals(duals[:k], duals[after : after + len(problem.expected)], reduced[: len(problem.c)])


def first_stage_start(model: Arrays, x: Array) -> Array | None:
    """Complete a first stage to a full point by solving for the rest with its whole numbers held; None where there is no such point."""
    whole = np.flatnonzero(model.integer)
    lower, upper = model.lower.copy(), model.upper.copy()
    lower[whole] = upper[whole] = np.clip(x[whole], lower[whole], upper[whole])
    try:
        return solve_arrays(replace(model, lower=lower, upper=upper, integer=np.zeros_like(model.integer))).x
    except InfeasibleError:
        return None


def scenario_costs(problem: TwoStage, cost_by_point: Array) -> Array:
    """Sum weighted point costs within each scenario, (S,)."""
    return np.bincount(problem.scenario, weights=problem.weight * cost_by_point, minlength=len(problem.probability))
