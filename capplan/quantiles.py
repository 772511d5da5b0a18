"""Quantiles of weighted values, as every question reads them off its paths."""

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
#: Sums of probabilities this near below a level count as having reached it.
ROUNDING = 1e-12


def weighted_quantiles(values: Array, weights: Array, levels: Sequence[float] | Array) -> Array:
    r"""Return the smallest values that are not exceeded with the asked probabilities.

    .. math:: Q(p) = \min\{v : \textstyle\sum_{i: v_i \le v} w_i \ge p \sum_i w_i\}

    Args:
        values, weights (n,): Outcomes and what they weigh.
        levels (k,): Probabilities.

    Returns:
        (k,) array

    Examples:
        >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([0.3, 0.2, 0.5]), (0.1, 0.5, 0.7, 0.9)).tolist()
        [1.0, 2.0, 2.0, 3.0]
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    wanted = np.asarray(levels, dtype=float) * reached[-1] - ROUNDING * reached[-1]
    return np.asarray(values[order[np.minimum(np.searchsorted(reached, wanted), len(order) - 1)]])
