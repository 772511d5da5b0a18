"""The best use of a first stage, and what it breaks."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.optimize.coupled import Coupled, CoupledEvaluator
from capplan.optimize.evaluation import Evaluator
from capplan.optimize.program import expected_excess

Array = np.ndarray


class BestUse(NamedTuple):
    """The best use of a first stage that keeps some of the expected rows."""

    broken: Array  #: (K,): Which others it breaks.
    joint: Coupled | None = None  #: None where none are kept.
    recourse: sparse.csr_matrix | None = None  #: (P, r); None where there are no expected rows or no use is feasible.


def best_use(base: Evaluator, coupled: CoupledEvaluator | None, x: Array) -> BestUse:
    """Find the best use of a first stage that keeps some expected rows, and what of the others it breaks; none where there is none."""
    problem = base.problem
    none = BestUse(np.zeros(len(problem.expected), dtype=bool))
    if not problem.expected or not np.isfinite(base.evaluate(x).cost_by_scenario).all():
        return none
    joint = None if coupled is None else coupled.evaluate(x)
    if coupled is None or joint is None:
        recourse, kept = base.decisions(x), none.broken
    elif not np.isfinite(joint.cost_by_scenario).all():
        return none
    else:
        x, recourse, kept = joint.x, coupled.decisions(x, joint), coupled.rows
    return BestUse((expected_excess(problem, x, recourse) > 0) & ~kept, joint, recourse)
