"""The program that mixes known dispatches at least blended cost within expected rows."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.optimize.solver import Arrays, solve_arrays

Array = np.ndarray
#: Cost and use below this share of the largest cost are rounding, and would only spoil the scaling.
DUST = 1e-12


class Mixed(NamedTuple):
    """A mixture and its prices."""

    shares: Array  #: (levels, S): Share of each level in each scenario.
    over: Array  #: (K,): How far each row is over.
    free: Array  #: (F,): First-stage columns that only the rows see.
    row: Array  #: (K,): Price of each row.
    scenario: Array  #: (S,): Price of each scenario's cost.


class Spare(NamedTuple):
    """Use that nobody needs, which a row may want all the same."""

    cost: Array  #: (R,): What a unit costs.
    used: Array  #: (R, K, S): What it adds to each row, with the scenario's probability.


class Levels(NamedTuple):
    """The levels of all cells, and use besides."""

    cost: Array  #: (levels, S): C, cost of each by scenario.
    used: Array  #: (levels, K, S): U, what each adds to each row, with the scenario's probability.
    cell: Array  #: ((levels,) int): Cell of each, in order.
    fixed: Array  #: (S,): f, cost outside the cells.
    spare: Spare  #: None of it where a mixture is to be dispatched.


class Rows(NamedTuple):
    """The rows that levels share."""

    room: Array  #: (K,): Right-hand sides.
    free: Array  #: (K, F): A, coefficients of first-stage columns that only the rows see.
    free_cost: Array  #: (F,): c, what these columns cost.
    highest: float  #: h, price of a unit over a row.


NO_SPARE = Spare(np.zeros(0), np.zeros((0, 0, 0)))


def mix_levels(levels: Levels, shared: Rows, probability: Array, risk_weight: float, tail_share: float) -> Mixed:
    r"""Mix the levels of each cell, scenario by scenario, at least cost within the rows.

    .. math:: \min\ \rho\big[f_s + \textstyle\sum_l C_{ls} \alpha_{ls}\big] + c^T u + h \sum_k v_k,\quad
              \sum_{l \in \text{cell}} \alpha_{ls} = 1,\quad \sum_{l,s} U_{lks} \alpha_{ls} + A_k u - v_k \le \text{room}_k

    Args:
        probability, risk_weight, tail_share: The measure rho, see `two_stage.solve_two_stage`.
    """
    cost, used, cell, fixed, (spare_cost, spare_used) = levels
    room, free, free_cost, highest = shared
    rows, scenarios = len(room), len(probability)
    count, cells, unit = (
        len(cell),
        int(cell.max(initial=-1)) + 1,
        float(max(np.abs(cost).max(initial=0.0), np.abs(fixed).max(initial=0.0), 1e-9)),
    )
    shares = count * scenarios
    column, scenario = np.arange(shares), np.tile(np.arange(scenarios), count)
    cost, used = (np.where(np.abs(each) < DUST * unit, 0.0, each) for each in (cost, used))
    one = sparse.csr_matrix(
        (np.ones(shares), (np.repeat(cell, scenarios) * scenarios + scenario, column)), shape=(cells * scenarios, shares)
    )
    tail = sparse.csr_matrix((-cost.ravel() / unit, (scenario, column)), shape=(scenarios, shares))
    use = sparse.csr_matrix((used / unit).transpose(1, 0, 2).reshape(rows, shares))
    spares, of = len(spare_cost) * scenarios, np.tile(np.arange(scenarios), len(spare_cost))
    spare = np.repeat(spare_cost, scenarios)
    wide = sparse.csr_matrix((one.shape[0], spares)), sparse.csr_matrix((-spare, (of, np.arange(spares))), shape=(scenarios, spares))
    besides = sparse.csr_matrix(spare_used.transpose(1, 0, 2).reshape(rows, spares) if spares else (rows, 0))
    one, tail, use = (sparse.hstack(pair, format="csr") for pair in ((one, wide[0]), (tail, wide[1]), (use, besides)))
    # columns: shares by level and scenario, spare use, excess of scenario costs over eta, eta, first-stage columns, excess over the rows
    A = sparse.bmat(
        [
            [one, None, None, None, None],
            [tail, sparse.eye(scenarios), sparse.csr_matrix(np.ones((scenarios, 1))), None, None],
            [use, None, None, sparse.csr_matrix(free), -sparse.eye(rows)],
        ],
        format="csr",
    )
    mean = (1 - risk_weight) * np.concatenate([(probability * cost).ravel() / unit, probability[of] * spare])
    c = np.concatenate([mean, risk_weight / tail_share * probability, [risk_weight], free_cost, np.full(rows, highest)])
    lower, upper = np.zeros(len(c)), np.full(len(c), np.inf)
    upper[:shares] = 1.0
    # Eta is the cost of some scenario.
    ends = [fixed + sum((pick(cost[cell == i], axis=0) for i in range(cells)), np.zeros(scenarios)) for pick in (np.min, np.max)]
    eta = shares + spares + scenarios
    lower[eta], upper[eta] = ends[0].min() / unit - 1.0, np.inf if spares else ends[1].max() / unit + 1.0
    b = np.concatenate([np.ones(one.shape[0]), fixed / unit, room / unit])
    sense = np.concatenate([np.full(one.shape[0], "="), np.full(scenarios, ">"), np.full(rows, "<")])
    solved = solve_arrays(Arrays(c, A, b, sense, lower, upper, np.zeros(len(c), dtype=bool)))
    assert solved.duals is not None
    priced = (1 - risk_weight) * probability + np.maximum(solved.duals[one.shape[0] : one.shape[0] + scenarios], 0.0)
    chosen, over = np.split(solved.x[eta + 1 :] * unit, [len(free_cost)])
    return Mixed(solved.x[:shares].reshape(count, scenarios), over, chosen, np.maximum(-solved.duals[len(b) - rows :], 0.0), priced)


def spare_use(kind: Array, ratio: Array, most: Array, probability: Array) -> Spare:
    """Return the use that rows may want beyond need, once for each way in which cells count it.

    Args:
        kind (K,): Kind of use of each row.
        ratio (cells, K): What a unit of a cell's use adds to each row.
        most (kinds,): What a unit of use costs at least; infinite for kinds that no row wants.
        probability (S,): Of each scenario.
    """
    wanted = np.flatnonzero(np.isfinite(most)).tolist()
    ways = [(number, tuple(np.where(kind == number, own, 0.0))) for number in wanted for own in ratio]
    kept = [way for way in dict.fromkeys(ways) if any(way[1])]
    used = [-np.outer(way[1], probability) for way in kept]
    return Spare(most[[way[0] for way in kept]], np.array(used).reshape(-1, len(kind), len(probability)))
