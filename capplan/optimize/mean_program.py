"""The program in which every quantity is its mean, and programs of some points of another."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.program import ExpectedRow, TwoStage, cost_states

Array = np.ndarray


def mean_program(problem: TwoStage) -> TwoStage:
    """Return the program in which right-hand sides and technology are their means over scenarios, matched by place in the scenario.

    Raises:
        SolveError: If the scenarios do not have the same number of points.
    """
    scenarios = len(problem.probability)
    counts = np.bincount(problem.scenario, minlength=scenarios)
    if len(set(counts)) != 1:
        raise SolveError(f"there is no mean program: scenarios have {counts.min()} to {counts.max()} points; give each the same number")
    place = np.argsort(problem.scenario, kind="stable").reshape(scenarios, -1)
    h = np.einsum("s,spm->pm", problem.probability, problem.h[place])
    sets, technology = np.unique(problem.technology[place], axis=1, return_inverse=True)
    costs, state = cost_states(problem)
    T = [
        (
            problem.T[column[0]]
            if (column == column[0]).all()
            else sparse.csr_matrix(sum(p * problem.T[t] for p, t in zip(problem.probability, column, strict=True)))
        )
        for column in sets.T
    ]
    certain = with_points(problem, place[0], h, T, np.asarray(technology).ravel())
    if problem.costs is None:
        return certain

    def mean(values: Array) -> Array:
        return np.array([problem.probability @ values[state[column]] for column in sets.T])

    expected = tuple(row if np.ndim(row.g) == 1 else replace(row, g=mean(row.g)) for row in certain.expected)
    return replace(certain, costs=mean(costs), cost_state=np.arange(len(T)), expected=expected)


def alike(problem: TwoStage) -> Array:
    """Group scenarios that differ in right-hand sides only, (S,) numbers: between these, costs are convex (Jensen)."""
    place = np.argsort(problem.scenario, kind="stable").reshape(len(problem.probability), -1)
    return np.ravel(np.unique(problem.technology[place], axis=0, return_inverse=True)[1])


def with_points(problem: TwoStage, own: Array, h: Array, T: Sequence[sparse.csr_matrix], technology: Array) -> TwoStage:
    """Return the program with these points in one certain scenario."""
    expected = tuple(ExpectedRow(row.a, row.g, row.points[own], row.weight[own], row.limit) for row in problem.expected)
    return replace(
        problem,
        T=T,
        technology=technology,
        h=h,
        weight=problem.weight[own],
        scenario=np.zeros(len(own), dtype=int),
        probability=np.ones(1),
        expected=expected,
    )
