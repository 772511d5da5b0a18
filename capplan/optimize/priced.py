"""A program whose expected rows are paid for instead of kept: a lower bound that needs no coupling of points."""

from dataclasses import replace

import numpy as np

from capplan.optimize.program import TwoStage, check_weights, cost_states

Array = np.ndarray
DIGITS = 9


def priced_program(problem: TwoStage, price: Array, weight: Array) -> tuple[TwoStage, float]:
    r"""Return a program without expected rows, and a constant, whose difference in value never exceeds the whole program's optimum.

    .. math:: \min_x\ c^T x + \sum_k \mu_k (a_k^T x - b_k)
              + \sum_s \omega_s \min_y \Big(q + \sum_k \mu_k \tfrac{p_s w_k}{\omega_s w} g_k\Big)^T y

    is a lower bound for every price mu >= 0 and all weights omega of the risk measure's envelope.

    Args:
        price (K,): What a unit of each row's limit is worth.
        weight (S,): Scenario weights of the risk measure's envelope, see `capplan.optimize.program.risk_weights`.

    Source: Geoffrion, "Lagrangean relaxation for integer programming" (1974); Shapiro, Dentcheva and Ruszczynski, Lectures on Stochastic
        Programming (2009), section 6.3 (dual form of coherent risk measures).
    """
    share = np.divide(problem.probability, weight, out=np.zeros(len(weight)), where=weight > 0)[problem.scenario]
    paid = np.flatnonzero(price).tolist()
    rows = [problem.expected[k] for k in paid]
    check_weights(problem)
    each = [price[k] * share * row.weight * row.points for k, row in zip(paid, rows, strict=True)]
    ratio = np.round(np.array(each).reshape(len(rows), len(problem.weight)) / np.where(problem.weight > 0, problem.weight, 1.0), DIGITS)
    label, place = np.unique(np.vstack([problem.technology, ratio]), axis=1, return_inverse=True)
    technology = label[0].astype(int)
    costs, state = cost_states(problem)
    own = costs[state[technology]]
    for more, row in zip(label[1:], rows, strict=True):
        g = np.atleast_2d(row.g)
        own = own + more[:, None] * (g[state[technology]] if len(g) > 1 else g)
    states, found = np.unique(own, axis=0, return_inverse=True)
    c = problem.c + sum((price[k] * row.a for k, row in zip(paid, rows, strict=True)), np.zeros(len(problem.c)))
    program = replace(
        problem,
        c=c,
        T=[problem.T[t] for t in technology],
        technology=np.ravel(place),
        costs=states,
        cost_state=np.ravel(found),
        probability=weight,
        expected=(),
    )
    return program, float(sum(price[k] * row.limit for k, row in zip(paid, rows, strict=True)))
