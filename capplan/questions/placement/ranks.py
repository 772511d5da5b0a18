"""Ranks of tasks: how long the way to the end, and from the start, is."""

import numpy as np

from capplan.questions.placement.problem import Problem
from capplan.questions.placement.state import Floats, Whole


def mean_hours(problem: Problem) -> Floats:
    """Return the mean duration of each task over the nodes it may run on."""
    size = np.where(
        problem.allowed & (problem.machines.groups["rack"].to_numpy() == "")[None, :],
        problem.machines.groups["size"].to_numpy()[None, :],
        0,
    )
    return np.asarray((problem.work.hours * size).sum(axis=1) / np.maximum(size.sum(axis=1), 1))


def mean_delays(problem: Problem) -> Floats:
    """Return the mean time of each transfer over all pairs of different nodes that are joined; inside the node if there is one."""
    count = np.bincount(problem.links.place, minlength=len(problem.links.hours_per_gb)).astype(float)
    pairs = np.where(problem.links.hours_per_gb < 1e17, np.outer(count, count) - np.diag(count), 0.0)
    if pairs.sum() == 0:
        return np.asarray(problem.work.gigabytes * problem.ground.inside[0])
    rate = (pairs * np.where(pairs > 0, problem.links.hours_per_gb, 0.0)).sum() / pairs.sum()
    latency = (pairs * problem.links.latency_hours).sum() / pairs.sum()
    return np.asarray(np.where(problem.work.gigabytes > 0, problem.work.gigabytes * rate + latency, 0.0))


def upward(problem: Problem, hours: Floats, delays: Floats, due: Floats) -> Floats:
    r"""Return the upward rank of HEFT, with due dates: how long before the last due date a task must start at the latest.

    .. math:: rank(i) = w_i + \max_{j} (c_{ij} + rank(j)), \quad \text{Topcuoglu, Hariri, Wu 2002, equation 6}
    """
    from capplan.questions.placement.chains import backward

    finish = np.ascontiguousarray(np.where(np.isfinite(due), due, due[np.isfinite(due)].max(initial=0.0)), dtype=float)
    last = finish.max(initial=0.0)
    backward(problem.order, problem.work.before, problem.work.source, hours, delays, finish)
    return np.asarray(last - (finish - hours))


def downward(problem: Problem, hours: Floats, delays: Floats) -> Floats:
    """Return the downward rank of HEFT: the longest way from the start to a task."""
    from capplan.questions.placement.chains import forward

    start = np.zeros(len(hours))
    forward(problem.order, problem.work.before, problem.work.source, hours, delays, start)
    return start


def by_rank(problem: Problem, rank: Floats) -> Whole:
    """Return tasks by falling rank; where two are equal, predecessors first, then as in the table."""
    position = np.empty(len(rank), dtype=np.int64)
    position[problem.order] = np.arange(len(rank))
    return np.lexsort((position, -np.round(rank, 9))).astype(np.int64)
